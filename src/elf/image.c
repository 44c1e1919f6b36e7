// ELF headers: System V gABI, chapters 4 and 5.
#include "elf/image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/regular.h"
#include "elf/container.h"
#include "elf/guard.h"

#define MAX_IMAGE_BYTES ((uint64_t)16 << 30)
#define PAGE_BYTES 4096u // the smallest there is; segments' pages overlap in the file at this grain or a larger one

struct header {
	uint64_t program_offset, section_offset;
	uint64_t program_count, section_count, names_index;
	uint16_t program_entry, section_entry;
};

static struct bytes at_offset(const struct image *image, uint64_t offset, uint64_t size)
{
	if (offset > image->size || size > image->size - offset)
		return (struct bytes){ .bad = true };
	struct bytes b = bytes_of(image->data + offset, size);
	b.swap = image->swap;
	return b;
}

static uint64_t word(struct bytes *b, bool is_64)
{
	return is_64 ? bytes_u64(b) : bytes_u32(b);
}

static bool read_section(const struct image *image, const struct header *h, uint64_t index, struct image_section *out, uint32_t *name)
{
	uint64_t span = image->is_64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
	struct bytes b = at_offset(image, h->section_offset + index * h->section_entry, span);

	if (b.bad)
		return false;
	*name = bytes_u32(&b);
	out->type = bytes_u32(&b);
	out->flags = word(&b, image->is_64);
	out->vaddr = word(&b, image->is_64);
	out->offset = word(&b, image->is_64);
	out->size = word(&b, image->is_64);
	out->link = bytes_u32(&b);
	out->info = bytes_u32(&b);
	out->align = word(&b, image->is_64);
	out->entry_size = word(&b, image->is_64);
	out->name = "";
	return true;
}

static bool read_header(struct image *image, struct header *h, struct err *err)
{
	const uint8_t *ident = image->data;

	if (image->size < EI_NIDENT || memcmp(ident, ELFMAG, SELFMAG) != 0)
		return err_set(err, STATUS_INPUT, "%s: offset 0: not an ELF file (expected 7f 45 4c 46)", image->path);
	if (ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64)
		return err_set(err, STATUS_INPUT, "%s: offset 4: ELF class %u, expected 1 or 2", image->path, ident[EI_CLASS]);
	if (ident[EI_DATA] != ELFDATA2LSB && ident[EI_DATA] != ELFDATA2MSB)
		return err_set(err, STATUS_INPUT, "%s: offset 5: ELF byte order %u, expected 1 or 2", image->path, ident[EI_DATA]);
	image->is_64 = ident[EI_CLASS] == ELFCLASS64;
	image->swap = ident[EI_DATA] != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB);
	size_t span = image->is_64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
	struct bytes b = at_offset(image, 0, span);
	if (b.bad)
		return err_set(err, STATUS_INPUT, "%s: %zu bytes, expected an ELF header of %zu", image->path, image->size, span);
	bytes_skip(&b, EI_NIDENT);
	image->type = bytes_u16(&b);
	image->machine = bytes_u16(&b);
	bytes_skip(&b, 4); // e_version
	image->entry = word(&b, image->is_64);
	h->program_offset = word(&b, image->is_64);
	h->section_offset = word(&b, image->is_64);
	bytes_skip(&b, 4 + 2); // e_flags, e_ehsize
	h->program_entry = bytes_u16(&b);
	h->program_count = bytes_u16(&b);
	h->section_entry = bytes_u16(&b);
	h->section_count = bytes_u16(&b);
	h->names_index = bytes_u16(&b);
	return true;
}

// The first contradiction met is the one that is told.
static void damaged(struct image *image, uint64_t offset, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void damaged(struct image *image, uint64_t offset, const char *format, ...)
{
	struct buf text = { 0 };
	va_list args;

	if (image->damage != NULL)
		return;
	buf_printf(&text, "%s: offset %#llx: ", image->path, (unsigned long long)offset);
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	image->damage = mem_string(buf_text(&text));
	buf_release(&text);
}

// Counts that do not fit their field of the ELF header stand in section 0 (gABI, e_shnum, e_shstrndx, e_phnum). A table that is not
// wholly in the file counts as none, and is damage: a profiler can do without sections, and half a table is not to be trusted.
static void settle_counts(struct image *image, struct header *h)
{
	uint64_t span = image->is_64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
	struct image_section zero;
	uint32_t name;

	if (h->section_offset == 0 && h->section_count == 0)
		return; // has none
	if (h->section_offset == 0 || h->section_entry < span || h->section_offset > image->size ||
	    !read_section(image, h, 0, &zero, &name)) {
		damaged(image, h->section_offset, "a section table of %llu entries of %u bytes, expected entries of %llu bytes behind the ELF header and "
		        "inside the file's %zu bytes", (unsigned long long)h->section_count, h->section_entry, (unsigned long long)span, image->size);
		h->section_count = 0;
		return;
	}
	if (h->section_count == 0)
		h->section_count = zero.size;
	if (h->names_index == SHN_XINDEX)
		h->names_index = zero.link;
	if (h->program_count == PN_XNUM)
		h->program_count = zero.info;
	if (h->section_count > (image->size - h->section_offset) / h->section_entry) {
		damaged(image, h->section_offset, "a section table of %llu entries of %u bytes, expected inside the file's %zu bytes",
		        (unsigned long long)h->section_count, h->section_entry, image->size);
		h->section_count = 0;
	}
}

// Each section's bytes are in the file, and the names of all in the section that has them.
static void check_sections(struct image *image, const struct header *h)
{
	if (h->names_index >= h->section_count)
		damaged(image, h->section_offset, "section names in section %llu, expected one of %zu", (unsigned long long)h->names_index, image->section_count);
	for (size_t i = 1; i < image->section_count; i++) {
		const struct image_section *section = &image->sections[i];
		if (section->type == SHT_NULL || section->type == SHT_NOBITS || section->size == 0)
			continue;
		if (section->offset > image->size || section->size > image->size - section->offset)
			damaged(image, h->section_offset + i * h->section_entry, "section %zu%s%s has %llu bytes from %#llx on, expected inside the file's %zu bytes", i,
			        section->name[0] != '\0' ? " " : "", section->name, (unsigned long long)section->size, (unsigned long long)section->offset, image->size);
	}
}

static void read_sections(struct image *image, const struct header *h)
{
	if (h->section_count == 0)
		return;
	image->sections = mem_zero(h->section_count, sizeof(*image->sections));
	image->section_count = h->section_count;
	struct bytes names = { 0 };
	uint32_t name = 0;
	struct image_section table;
	if (h->names_index > 0 && h->names_index < h->section_count && read_section(image, h, h->names_index, &table, &name))
		image_section_raw(image, &table, &names);
	for (size_t i = 0; i < image->section_count; i++) {
		struct image_section *section = &image->sections[i];
		if (!read_section(image, h, i, section, &name))
			section->name = "";
		if (names.start == NULL)
			continue;
		struct bytes at = names;
		bytes_skip(&at, name);
		const char *text = bytes_cstr(&at);
		if (!at.bad)
			section->name = text;
		else
			damaged(image, h->section_offset + i * h->section_entry, "section %zu has its name at %u, expected one of the %zu bytes of names", i, name,
			        bytes_left(&names));
	}
	check_sections(image, h);
}

static void read_note(struct image *image, uint64_t offset, uint64_t size, uint64_t align)
{
	struct bytes notes = at_offset(image, offset, size);

	if (image->build_id.size == 0 && !notes.bad)
		build_id_from_notes(notes, align, &image->build_id);
}

bool image_notes_bytes(const struct image *image, const struct image_notes *notes, struct bytes *out)
{
	*out = at_offset(image, notes->offset, notes->size);
	return !out->bad;
}

struct program_header {
	uint32_t type, flags;
	uint64_t offset, vaddr, file_size, mem_size, align;
};

static struct program_header read_program_header(const struct image *image, struct bytes b)
{
	struct program_header p = { .type = bytes_u32(&b) };

	if (image->is_64)
		p.flags = bytes_u32(&b);
	p.offset = word(&b, image->is_64);
	p.vaddr = word(&b, image->is_64);
	word(&b, image->is_64); // p_paddr
	p.file_size = word(&b, image->is_64);
	p.mem_size = word(&b, image->is_64);
	if (!image->is_64)
		p.flags = bytes_u32(&b);
	p.align = word(&b, image->is_64);
	return p;
}

static void add_segment(struct image *image, const struct program_header *p)
{
	if (p->vaddr + p->mem_size < p->vaddr || p->vaddr + p->file_size < p->vaddr)
		return; // wraps around the address space: nothing can be looked up in it
	image->segments[image->segment_count++] = (struct image_segment){
		.vaddr = p->vaddr, .offset = p->offset, .file_size = p->file_size, .mem_size = p->mem_size, .flags = p->flags,
	};
}

// Bytes that were loaded: what stood at file offset o of a segment stands at its vaddr, counted from where the first page was
// loaded. `*is_same`: the loaded layout equals the file's (a vdso), so that the section table can be read.
static uint64_t load_base(const struct image *image, const struct header *h, uint64_t span, bool *is_same)
{
	uint64_t base = UINT64_MAX;

	*is_same = true;
	for (uint64_t i = 0; i < h->program_count; i++) {
		struct program_header p = read_program_header(image, at_offset(image, h->program_offset + i * h->program_entry, span));
		if (p.type != PT_LOAD)
			continue;
		if ((p.vaddr & ~(uint64_t)(PAGE_BYTES - 1)) < base)
			base = p.vaddr & ~(uint64_t)(PAGE_BYTES - 1);
		*is_same = *is_same && p.vaddr - base == p.offset;
	}
	return base == UINT64_MAX ? 0 : base;
}

static bool read_segments(struct image *image, const struct header *h, bool from_memory, bool *has_file_layout, struct err *err)
{
	uint64_t span = image->is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);

	if (h->program_count == 0)
		return true;
	if (h->program_entry < span || h->program_offset > image->size ||
	    h->program_count > (image->size - h->program_offset) / h->program_entry)
		return err_set(err, STATUS_INPUT, "%s: offset %#llx: %llu program headers of %u bytes, expected inside %zu bytes", image->path,
		               (unsigned long long)h->program_offset, (unsigned long long)h->program_count, h->program_entry, image->size);
	image->segments = mem_zero(h->program_count, sizeof(*image->segments));
	uint64_t base = from_memory ? load_base(image, h, span, has_file_layout) : 0;
	for (uint64_t i = 0; i < h->program_count; i++) {
		struct program_header p = read_program_header(image, at_offset(image, h->program_offset + i * h->program_entry, span));
		if (from_memory) {
			p.offset = p.vaddr - base;
			p.file_size = p.offset > image->size ? 0 : p.mem_size < image->size - p.offset ? p.mem_size : image->size - p.offset;
		}
		if (p.type == PT_LOAD) {
			add_segment(image, &p);
		} else if (p.type == PT_NOTE) {
			image->notes = mem_resize(image->notes, image->note_count + 1, sizeof(*image->notes));
			image->notes[image->note_count++] = (struct image_notes){ .offset = p.offset, .size = p.file_size, .align = p.align };
			read_note(image, p.offset, p.file_size, p.align);
		} else if (p.type == PT_GNU_EH_FRAME) {
			image->eh_frame_hdr_vaddr = p.vaddr;
			image->eh_frame_hdr_size = p.mem_size;
		} else if (p.type == PT_DYNAMIC) {
			image->dynamic_vaddr = p.vaddr;
			image->dynamic_size = p.file_size;
		} else if (p.type == PT_ARM_EXIDX && image->machine == EM_ARM) { // the number is other things on other machines
			image->has_exidx = p.mem_size > 0;
		}
	}
	return true;
}

// An image made in memory for a debugger (GDB's JIT interface) has no program headers: its sections have the addresses of the code.
static void segments_from_sections(struct image *image)
{
	if (image->segment_count > 0)
		return;
	free(image->segments);
	image->segments = mem_zero(image->section_count, sizeof(*image->segments));
	for (size_t i = 0; i < image->section_count; i++) {
		const struct image_section *section = &image->sections[i];
		struct program_header p = { .vaddr = section->vaddr, .mem_size = section->size };
		if ((section->flags & SHF_ALLOC) == 0 || section->vaddr == 0 || section->size == 0)
			continue;
		p.flags = PF_R | ((section->flags & SHF_EXECINSTR) != 0 ? PF_X : 0);
		// Code that is elsewhere in memory: its addresses stand for offsets, which lie outside of the image's bytes.
		p.offset = section->type == SHT_NOBITS ? section->vaddr : section->offset;
		p.file_size = section->size;
		add_segment(image, &p);
	}
}

static bool parse(struct image *image, bool from_memory, struct err *err)
{
	struct header header = { 0 };
	bool has_file_layout = true;

	if (!read_header(image, &header, err))
		return false;
	settle_counts(image, &header);
	if (!read_segments(image, &header, from_memory, &has_file_layout, err))
		return false;
	if (has_file_layout)
		read_sections(image, &header);
	segments_from_sections(image);
	if (from_memory) { // what was not loaded is not there: no damage
		free(image->damage);
		image->damage = NULL;
	}
	for (size_t i = 0; i < image->section_count && image->build_id.size == 0; i++)
		if (image->sections[i].type == SHT_NOTE)
			read_note(image, image->sections[i].offset, image->sections[i].size, image->sections[i].align);
	return true;
}

static struct image *image_new(struct bytes data, const char *path)
{
	struct image *image = NEW(struct image);

	image->path = mem_string(path);
	image->data = data.at;
	image->size = bytes_left(&data);
	image->references = 1;
	return image;
}

static bool finish(struct image **out, struct image *image, bool from_memory, struct err *err)
{
	if (!parse(image, from_memory, err)) {
		image_release(image);
		*out = NULL;
		return false;
	}
	*out = image;
	return true;
}

static bool map_file(int fd, const char *path, struct bytes *out, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return err_errno(err, STATUS_INPUT, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, STATUS_INPUT, "%s: not a regular file", path);
	if (st.st_size < EI_NIDENT || (uint64_t)st.st_size > MAX_IMAGE_BYTES)
		return err_set(err, STATUS_INPUT, "%s: %lld bytes, expected an ELF file of %d bytes to 16 GiB", path, (long long)st.st_size,
		               EI_NIDENT);
	const void *data = guard_map(fd, (size_t)st.st_size);
	if (data == NULL)
		return err_errno(err, STATUS_INPUT, "%s: mmap", path);
	*out = bytes_of(data, (size_t)st.st_size);
	return true;
}

// Takes the mapping; the image is what the file holds from `start` on.
static bool open_part(struct image **out, struct bytes file, uint64_t start, uint64_t size, const char *path, struct err *err)
{
	struct image *image = image_new(bytes_of(file.start + start, size), path);

	image->mapped = file.start;
	image->mapped_size = (size_t)(file.end - file.start);
	image->file_start = start;
	return finish(out, image, false, err);
}

bool image_open_fd(struct image **out, int fd, const char *path, struct err *err)
{
	struct bytes file = { 0 };
	struct stat st;

	*out = NULL;
	if (!map_file(fd, path, &file, err) || !open_part(out, file, 0, bytes_left(&file), path, err))
		return false;
	(*out)->is_own = fstat(fd, &st) == 0 && st.st_uid == geteuid();
	return true;
}

static bool is_elf(struct bytes file, uint64_t offset)
{
	return offset <= bytes_left(&file) && bytes_left(&file) - offset >= EI_NIDENT && memcmp(file.at + offset, ELFMAG, SELFMAG) == 0;
}

bool image_open_fd_at(struct image **out, int fd, uint64_t offset, const char *path, struct err *err)
{
	struct container_entry entry;
	struct bytes file = { 0 };

	*out = NULL;
	if (!map_file(fd, path, &file, err))
		return false;
	if (!is_elf(file, 0) && container_find_at(file, offset, &entry))
		return open_part(out, file, entry.start, entry.size, path, err);
	if (!is_elf(file, 0) && is_elf(file, offset))
		return open_part(out, file, offset, bytes_left(&file) - offset, path, err);
	return open_part(out, file, 0, bytes_left(&file), path, err);
}

static int open_file(const char *path)
{
	return regular_open(path, 0);
}

// ARCHIVE!ENTRY: the archive opened, `*entry` the rest of the name. -1: there is none.
static int open_archive(const char *path, const char **entry)
{
	int fd = -1;

	for (const char *mark = strchr(path, '!'); mark != NULL && fd < 0; mark = strchr(mark + 1, '!')) {
		char *archive = mem_string_n(path, (size_t)(mark - path));
		fd = open_file(archive);
		free(archive);
		*entry = mark[1] == '/' ? mark + 2 : mark + 1;
	}
	return fd;
}

bool image_is_there(const char *path)
{
	const char *entry;
	int fd = access(path, F_OK) == 0 ? -1 : open_archive(path, &entry);

	if (fd < 0)
		return access(path, F_OK) == 0;
	close(fd);
	return true;
}

bool image_open_path(struct image **out, const char *path, struct err *err)
{
	struct container_entry found;
	const char *entry;
	struct bytes file = { 0 };
	int fd = open_file(path), error = errno;

	*out = NULL;
	if (fd >= 0) {
		bool good = image_open_fd(out, fd, path, err);
		close(fd);
		return good;
	}
	fd = open_archive(path, &entry);
	if (fd < 0) {
		errno = error;
		return error == EINVAL || error == EISDIR ? err_set(err, STATUS_INPUT, "%s: not a regular file", path) : err_errno(err, STATUS_INPUT, "%s", path);
	}
	bool good = map_file(fd, path, &file, err);
	close(fd);
	if (good && container_find_name(file, entry, &found))
		return open_part(out, file, found.start, found.size, path, err);
	if (good)
		guard_unmap(file.start, bytes_left(&file));
	return good && err_set(err, STATUS_INPUT, "%s: no uncompressed entry %s in that zip archive", path, entry);
}

bool image_open_bytes(struct image **out, const void *bytes, size_t size, bool from_memory, const char *path, struct err *err)
{
	return finish(out, image_new(bytes_of(mem_copy(bytes, size), size), path), from_memory, err);
}

// false: no regular file.
static bool read_magic(int fd, char *magic, ssize_t *size)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	*size = pread(fd, magic, SELFMAG, 0);
	return true;
}

bool image_is_other(int fd)
{
	char magic[SELFMAG];
	ssize_t size;

	return read_magic(fd, magic, &size) && size == SELFMAG && memcmp(magic, ELFMAG, SELFMAG) != 0;
}

bool image_is_damaged(const char *path, bool was_elf)
{
	char magic[SELFMAG];
	ssize_t size = 0;
	int fd = open_file(path);

	if (fd < 0)
		return false;
	bool is_file = read_magic(fd, magic, &size);
	bool is_marked = size == SELFMAG && memcmp(magic, ELFMAG, SELFMAG) == 0;
	close(fd);
	return is_file && (was_elf || is_marked);
}

struct image *image_retain(struct image *image)
{
	__atomic_add_fetch(&image->references, 1, __ATOMIC_RELAXED);
	return image;
}

void image_release(struct image *image)
{
	if (image == NULL || __atomic_sub_fetch(&image->references, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	if (image->mapped == NULL)
		free((void *)(uintptr_t)image->data);
	else
		guard_unmap(image->mapped, image->mapped_size);
	free(image->segments);
	free(image->notes);
	free(image->sections);
	free(image->damage);
	free(image->path);
	free(image);
}

bool image_at_vaddr(const struct image *image, uint64_t vaddr, uint64_t size, struct bytes *out)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *s = &image->segments[i];
		if (vaddr < s->vaddr || vaddr - s->vaddr > s->file_size || size > s->file_size - (vaddr - s->vaddr))
			continue;
		uint64_t offset = s->offset + (vaddr - s->vaddr);
		if (offset < s->offset)
			continue;
		*out = at_offset(image, offset, size);
		if (!out->bad)
			return true;
	}
	*out = (struct bytes){ 0 };
	return false;
}

bool image_rest_at(const struct image *image, uint64_t vaddr, struct bytes *out)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *s = &image->segments[i];
		if (vaddr >= s->vaddr && vaddr - s->vaddr < s->file_size && image_at_vaddr(image, vaddr, s->file_size - (vaddr - s->vaddr), out))
			return true;
	}
	return false;
}

bool image_offset_to_vaddr(const struct image *image, uint64_t offset, uint64_t *vaddr)
{
	const struct image_segment *best = NULL;

	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *s = &image->segments[i];
		if (offset < s->offset || offset - s->offset >= s->file_size)
			continue;
		if (best == NULL || ((s->flags & PF_X) != 0 && (best->flags & PF_X) == 0))
			best = s;
	}
	if (best == NULL)
		return false;
	*vaddr = best->vaddr + (offset - best->offset);
	return true;
}

bool image_vaddr_to_offset(const struct image *image, uint64_t vaddr, uint64_t *offset)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *s = &image->segments[i];
		if (vaddr < s->vaddr || vaddr - s->vaddr >= s->file_size)
			continue;
		*offset = s->offset + (vaddr - s->vaddr);
		return true;
	}
	return false;
}

// How well a segment explains a mapping of the file's bytes [from, to); 0: not at all. A loader maps whole pages, so two segments
// that meet inside a page both have it mapped; where the mapping begins tells them apart, then what is executable (samples are), then the
// larger common part.
static uint64_t fit(const struct image_segment *s, uint64_t from, uint64_t to)
{
	uint64_t first = s->offset & ~(uint64_t)(PAGE_BYTES - 1);
	uint64_t end = (s->offset + s->file_size + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);

	if (s->file_size == 0 || end <= first || to <= first || from >= end)
		return 0;
	uint64_t common = (to < end ? to : end) - (from > first ? from : first);
	uint64_t score = common < ((uint64_t)1 << 60) ? common : ((uint64_t)1 << 60) - 1;
	if ((s->flags & PF_X) != 0)
		score |= (uint64_t)1 << 61;
	if (from == first)
		score |= (uint64_t)1 << 62;
	return score;
}

bool image_bias(const struct image *image, uint64_t start, uint64_t end, uint64_t pgoff, uint64_t *bias)
{
	const struct image_segment *best = NULL;
	uint64_t best_fit = 0;

	if (end <= start || pgoff + (end - start) < pgoff)
		return false;
	for (size_t i = 0; i < image->segment_count; i++) {
		uint64_t score = fit(&image->segments[i], pgoff, pgoff + (end - start));
		if (score > best_fit) {
			best_fit = score;
			best = &image->segments[i];
		}
	}
	if (best == NULL)
		return false;
	*bias = start - pgoff - (best->vaddr - best->offset);
	return true;
}
