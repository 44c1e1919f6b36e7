// System V gABI chapter 5 (program headers, dynamic section) for what is loaded; LSB for .eh_frame_hdr.
#include "proc/procfs_memory.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/vec.h"
#include "proc/procfs.h"
#include "proc/procfs_read.h"

#define IMAGE_BYTES_MAX ((uint64_t)512 << 20)
#define RANGE_BYTES_MAX ((uint64_t)256 << 20)

enum { HEADER_BYTES = 4096, SYMBOLS_MAX = 1 << 24 };

struct memory {
	int fd; // /proc/PID/mem
	const char *path;
	int32_t pid;
	uint64_t bias;
	uint8_t *file; // being filled
	uint64_t file_bytes;
	struct image *header; // made of the first bytes: segments and kind, no contents
	VEC(struct proc_mapping) maps; // of this file
	uint64_t dynamic_vaddr, dynamic_bytes;
};

static bool is_same_file(const struct proc_mapping *a, const struct proc_mapping *b)
{
	return a->inode == b->inode && a->major == b->major && a->minor == b->minor && a->inode != 0;
}

// All mappings of the file that is mapped at `addr`. Its identity against the record's is checked as far as the record has one.
static bool read_maps(struct memory *memory, const struct dso *dso, uint64_t addr, struct err *err)
{
	struct proc_lines lines;
	struct proc_mapping mapping, here = { 0 };
	VEC(struct proc_mapping) all = { 0 };
	char path[64], *line;
	size_t length;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/maps", memory->pid);
	if (!proc_lines_open(&lines, path))
		return err_errno(err, errno == EACCES || errno == EPERM ? STATUS_HOST : STATUS_INPUT, "%s", path);
	while ((line = proc_lines_next(&lines, &length)) != NULL) {
		if (!proc_mapping_parse(line, &mapping))
			continue;
		mapping.path = NULL; // the line goes
		vec_push(&all, mapping);
		if (addr >= mapping.start && addr < mapping.end)
			here = mapping;
	}
	proc_lines_close(&lines);
	bool good = here.end > 0 && here.inode != 0;
	if (!good)
		err_set(err, STATUS_INPUT, "no file is mapped at %#" PRIx64 " any more", addr);
	else if (dso->inode != 0 && (dso->inode != here.inode || dso->major != here.major || dso->minor != here.minor))
		good = err_set(err, STATUS_INPUT, "another file is mapped at %#" PRIx64 " now", addr);
	for (size_t i = 0; good && i < all.count; i++)
		if (is_same_file(&all.data[i], &here))
			vec_push(&memory->maps, all.data[i]);
	vec_release(&all);
	return good;
}

// Reads where the file is mapped; what is not, or no longer, stays zero.
static bool read_memory(struct memory *memory, uint64_t addr, uint8_t *to, uint64_t size)
{
	bool whole = true;

	while (size > 0) {
		ssize_t got = pread(memory->fd, to, size < (1u << 20) ? size : (1u << 20), (off_t)addr);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			uint64_t step = 4096 - addr % 4096; // EIO: this page is not mapped
			whole = false;
			if (step >= size)
				break;
			got = (ssize_t)step;
		}
		addr += (uint64_t)got;
		to += got;
		size -= (uint64_t)got;
	}
	return whole;
}

// The mapping of the file's first page that belongs to the code at `addr`: the nearest below it (the same file may be loaded twice).
static bool read_header(struct memory *memory, uint64_t addr, struct err *err)
{
	const struct proc_mapping *first = NULL;
	uint8_t bytes[HEADER_BYTES] = { 0 };

	for (size_t i = 0; i < memory->maps.count; i++)
		if (memory->maps.data[i].pgoff == 0 && memory->maps.data[i].start <= addr)
			first = &memory->maps.data[i];
	if (first == NULL)
		return err_set(err, STATUS_INPUT, "its ELF header is not mapped");
	errno = 0;
	if (pread(memory->fd, bytes, sizeof(bytes), (off_t)first->start) != sizeof(bytes))
		return err_errno(err, STATUS_HOST, "/proc/%" PRId32 "/mem at %#" PRIx64, memory->pid, first->start);
	if (!image_open_bytes(&memory->header, bytes, sizeof(bytes), false, memory->path, err))
		return false;
	if (memory->header->swap)
		return err_set(err, STATUS_INPUT, "it is of the other byte order");
	uint64_t bias;
	if (!image_bias(memory->header, first->start, first->end, 0, &bias))
		return err_set(err, STATUS_INPUT, "no segment holds its first page");
	memory->bias = bias;
	return true;
}

// The dynamic section's place, which struct image does not keep.
static void find_dynamic(struct memory *memory)
{
	const struct image *header = memory->header;
	struct bytes b = bytes_of(header->data, header->size);

	if (header->is_64) {
		const Elf64_Ehdr *e = bytes_take(&b, sizeof(*e));
		for (unsigned i = 0; e != NULL && i < e->e_phnum && e->e_phoff < header->size; i++) {
			struct bytes at = bytes_of(header->data, header->size);
			bytes_skip(&at, e->e_phoff + i * sizeof(Elf64_Phdr));
			Elf64_Phdr p;
			const void *from = bytes_take(&at, sizeof(p));
			if (from == NULL)
				break;
			memcpy(&p, from, sizeof(p));
			if (p.p_type == PT_DYNAMIC) {
				memory->dynamic_vaddr = p.p_vaddr;
				memory->dynamic_bytes = p.p_memsz < 65536 ? p.p_memsz : 65536;
			}
		}
	}
}

// Everything that is not writable and not code at its file offset; code and data would cost the most and are not read from an image.
static bool read_segments(struct memory *memory, struct err *err)
{
	const struct image *header = memory->header;

	for (size_t i = 0; i < header->segment_count; i++) {
		const struct image_segment *s = &header->segments[i];
		if (s->offset > IMAGE_BYTES_MAX || s->file_size > RANGE_BYTES_MAX)
			return err_set(err, STATUS_INPUT, "a segment of %llu bytes, expected at most 256 MiB", (unsigned long long)s->file_size);
		if (s->offset + s->file_size > memory->file_bytes)
			memory->file_bytes = s->offset + s->file_size;
	}
	if (memory->file_bytes < HEADER_BYTES)
		memory->file_bytes = HEADER_BYTES;
	memory->file = mem_zero(1, memory->file_bytes);
	memcpy(memory->file, header->data, HEADER_BYTES);
	for (size_t i = 0; i < header->segment_count; i++) {
		const struct image_segment *s = &header->segments[i];
		bool code = (s->flags & PF_X) != 0, holds_tables = s->vaddr <= header->eh_frame_hdr_vaddr && header->eh_frame_hdr_vaddr - s->vaddr < s->file_size;
		if ((s->flags & PF_W) != 0 || (code && !holds_tables && header->segment_count > 2))
			continue;
		read_memory(memory, memory->bias + s->vaddr, memory->file + s->offset, s->file_size);
	}
	return true;
}

// ---------------------------------------------------------------- a section table

struct sections {
	Elf64_Shdr headers[6];
	unsigned count;
	char names[64];
	size_t names_bytes;
};

static Elf64_Shdr *add_section(struct sections *sections, const char *name, uint32_t type, uint64_t vaddr, uint64_t offset, uint64_t size)
{
	Elf64_Shdr *s = &sections->headers[sections->count++];

	*s = (Elf64_Shdr){ .sh_name = (uint32_t)sections->names_bytes, .sh_type = type, .sh_flags = SHF_ALLOC, .sh_addr = vaddr, .sh_offset = offset,
	                   .sh_size = size, .sh_addralign = 8 };
	memcpy(sections->names + sections->names_bytes, name, strlen(name) + 1);
	sections->names_bytes += strlen(name) + 1;
	return s;
}

struct dynamic { uint64_t symbols, strings, strings_bytes, hash, gnu_hash; };

// Values are addresses, relocated by glibc on most architectures and not on others: either way they become link-time ones.
static bool read_dynamic(struct memory *memory, struct dynamic *out)
{
	uint8_t *table = mem_zero(1, memory->dynamic_bytes + 1);
	bool good = memory->dynamic_bytes > 0 && read_memory(memory, memory->bias + memory->dynamic_vaddr, table, memory->dynamic_bytes);
	struct bytes b = bytes_of(table, memory->dynamic_bytes);

	while (good && bytes_left(&b) >= sizeof(Elf64_Dyn)) {
		uint64_t tag = bytes_u64(&b), value = bytes_u64(&b);
		uint64_t vaddr = value >= memory->bias && memory->bias != 0 ? value - memory->bias : value;
		if (tag == DT_NULL)
			break;
		else if (tag == DT_SYMTAB)
			out->symbols = vaddr;
		else if (tag == DT_STRTAB)
			out->strings = vaddr;
		else if (tag == DT_STRSZ)
			out->strings_bytes = value;
		else if (tag == DT_HASH)
			out->hash = vaddr;
		else if (tag == DT_GNU_HASH)
			out->gnu_hash = vaddr;
	}
	free(table);
	return good && out->symbols != 0 && out->strings != 0;
}

// What the image under construction has from a link-time address to the end of its segment.
static struct bytes at_vaddr(const struct memory *memory, uint64_t vaddr, uint64_t *offset)
{
	for (size_t i = 0; i < memory->header->segment_count; i++) {
		const struct image_segment *s = &memory->header->segments[i];
		if (vaddr < s->vaddr || vaddr - s->vaddr >= s->file_size)
			continue;
		*offset = s->offset + (vaddr - s->vaddr);
		return bytes_of(memory->file + *offset, s->file_size - (vaddr - s->vaddr));
	}
	return (struct bytes){ .bad = true };
}

// The dynamic section does not say how many symbols there are; the hash tables do (gABI: nchain; GNU's: the last chain's end).
static uint64_t count_symbols(const struct memory *memory, const struct dynamic *dynamic)
{
	uint64_t offset;

	if (dynamic->hash != 0) {
		struct bytes b = at_vaddr(memory, dynamic->hash, &offset);
		bytes_u32(&b);
		return bytes_u32(&b);
	}
	if (dynamic->gnu_hash == 0)
		return 0;
	struct bytes b = at_vaddr(memory, dynamic->gnu_hash, &offset);
	uint32_t buckets = bytes_u32(&b), first = bytes_u32(&b), bloom = bytes_u32(&b), last = 0;
	bytes_u32(&b);
	bytes_skip(&b, (size_t)bloom * 8);
	for (uint32_t i = 0; i < buckets && !b.bad; i++) {
		uint32_t head = bytes_u32(&b);
		last = head > last ? head : last;
	}
	if (b.bad || last < first)
		return b.bad ? 0 : first;
	bytes_skip(&b, (size_t)(last - first) * 4);
	while (!b.bad && last < SYMBOLS_MAX && (bytes_u32(&b) & 1) == 0)
		last++;
	return b.bad || last >= SYMBOLS_MAX ? 0 : (uint64_t)last + 1;
}

static void add_symbols(struct memory *memory, struct sections *sections)
{
	struct dynamic dynamic = { 0 };
	uint64_t symbols_at, strings_at;

	if (!read_dynamic(memory, &dynamic))
		return;
	uint64_t count = count_symbols(memory, &dynamic);
	struct bytes symbols = at_vaddr(memory, dynamic.symbols, &symbols_at), strings = at_vaddr(memory, dynamic.strings, &strings_at);
	if (symbols.bad || strings.bad || count == 0 || count > bytes_left(&symbols) / sizeof(Elf64_Sym) || dynamic.strings_bytes > bytes_left(&strings))
		return;
	Elf64_Shdr *table = add_section(sections, ".dynsym", SHT_DYNSYM, dynamic.symbols, symbols_at, count * sizeof(Elf64_Sym));
	table->sh_entsize = sizeof(Elf64_Sym);
	table->sh_link = sections->count; // the next one
	table->sh_info = 1;
	add_section(sections, ".dynstr", SHT_STRTAB, dynamic.strings, strings_at, dynamic.strings_bytes);
}

// .eh_frame_hdr tells where .eh_frame begins: version, three encodings, then (0x1b: pcrel sdata4, as every linker writes it) the pointer.
static void add_frames(struct memory *memory, struct sections *sections)
{
	uint64_t offset, frames_at, vaddr = memory->header->eh_frame_hdr_vaddr;
	struct bytes b = at_vaddr(memory, vaddr, &offset);

	if (vaddr == 0 || b.bad)
		return;
	add_section(sections, ".eh_frame_hdr", SHT_PROGBITS, vaddr, offset, memory->header->eh_frame_hdr_size);
	uint8_t version = bytes_u8(&b), encoding = bytes_u8(&b);
	bytes_skip(&b, 2);
	uint64_t frames = vaddr + 4 + (uint64_t)(int64_t)(int32_t)bytes_u32(&b);
	struct bytes rest = at_vaddr(memory, frames, &frames_at);
	if (b.bad || version != 1 || encoding != 0x1b || rest.bad)
		return;
	// Its end is not told: a run of zero bytes (its terminator) or the segment's end.
	add_section(sections, ".eh_frame", SHT_PROGBITS, frames, frames_at, bytes_left(&rest));
}

// Appends the table and points the ELF header at it, in the copy.
static void add_section_table(struct memory *memory)
{
	struct sections sections = { .count = 1, .names_bytes = 1 };
	Elf64_Ehdr e;

	add_frames(memory, &sections);
	add_symbols(memory, &sections);
	uint64_t names_at = memory->file_bytes;
	Elf64_Shdr *names = add_section(&sections, ".shstrtab", SHT_STRTAB, 0, names_at, 0);
	names->sh_size = sections.names_bytes;
	names->sh_flags = 0;
	uint64_t table_at = (names_at + sizeof(sections.names) + 7) & ~(uint64_t)7, table_bytes = sections.count * sizeof(Elf64_Shdr);
	memory->file = mem_resize(memory->file, 1, table_at + table_bytes);
	memset(memory->file + names_at, 0, table_at - names_at);
	memcpy(memory->file + names_at, sections.names, sizeof(sections.names));
	memcpy(memory->file + table_at, sections.headers, table_bytes);
	memory->file_bytes = table_at + table_bytes;
	memcpy(&e, memory->file, sizeof(e));
	e.e_shoff = table_at;
	e.e_shentsize = sizeof(Elf64_Shdr);
	e.e_shnum = (uint16_t)sections.count;
	e.e_shstrndx = (uint16_t)(sections.count - 1);
	memcpy(memory->file, &e, sizeof(e));
}

// A 32-bit image gets no table: its program headers are enough to unwind.
static void drop_section_table(struct memory *memory)
{
	Elf32_Ehdr e;

	memcpy(&e, memory->file, sizeof(e));
	e.e_shoff = 0;
	e.e_shnum = e.e_shstrndx = 0;
	memcpy(memory->file, &e, sizeof(e));
}

static bool build(struct memory *memory, struct image **out, const struct dso *dso, uint64_t start, struct err *err)
{
	if (!read_maps(memory, dso, start, err) || !read_header(memory, start, err) || memory->header == NULL || !read_segments(memory, err))
		return false;
	if (memory->header->is_64) {
		find_dynamic(memory);
		add_section_table(memory);
	} else {
		drop_section_table(memory);
	}
	if (!image_open_bytes(out, memory->file, memory->file_bytes, false, memory->path, err))
		return false;
	if (dso->build_id.size == 0 || build_id_equal(&(*out)->build_id, &dso->build_id))
		return true;
	image_release(*out);
	*out = NULL;
	return err_set(err, STATUS_INPUT, "another build ID is in memory");
}

bool procfs_image_from_memory(struct image **out, int32_t pid, const struct dso *dso, uint64_t start, struct err *err)
{
	struct memory memory = { .pid = procfs_task_with_memory(pid), .path = dso->path };
	char path[64];

	*out = NULL;
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/mem", memory.pid);
	memory.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (memory.fd < 0)
		return err_errno(err, errno == EACCES || errno == EPERM ? STATUS_HOST : STATUS_INPUT, "%s", path);
	bool good = build(&memory, out, dso, start, err);
	close(memory.fd);
	image_release(memory.header);
	free(memory.file);
	vec_release(&memory.maps);
	return good;
}
