#include "elf/core.h"

#include <elf.h>
#include <stdlib.h>

enum { TYPE_FILE = 0x46494c45, MAX_THREADS = 1 << 20, MAX_IMAGE_PAGE = 1 << 16 }; // NT_FILE
enum { TYPE_SVE = 0x405, PERF_VG = 46 }; // NT_ARM_SVE; PERF_REG_ARM64_VG
enum { X = 0xff }; // a register that perf does not number

// struct elf_prstatus up to its registers, in its words.
struct layout {
	uint16_t machine;
	bool is_64;
	uint8_t tid_at, regs_at;
	uint8_t count;
	uint8_t perf[34];
};

static const struct layout layouts[] = {
	// r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss
	{ EM_X86_64, true, 32, 112, 21, { 23, 22, 21, 20, 6, 1, 19, 18, 17, 16, 0, 2, 3, 4, 5, X, 8, X, X, 7, X } },
	// bx cx dx si di bp ax ds es fs gs orig_ax ip cs flags sp ss
	{ EM_386, false, 24, 72, 17, { 1, 2, 3, 4, 5, 6, 0, X, X, X, X, X, 8, X, X, 7, X } },
	// x0 to x30, sp, pc, pstate
	{ EM_AARCH64, true, 32, 112, 34, { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
	                                   29, 30, 31, 32, X } },
};

static const struct layout *layout_of(const struct image *image)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (layouts[i].machine == image->machine && layouts[i].is_64 == image->is_64 && !image->swap)
			return &layouts[i];
	return NULL;
}

static uint64_t word(struct bytes *b, bool is_64)
{
	return is_64 ? bytes_u64(b) : bytes_u32(b);
}

static unsigned long long offset_of(const struct core *core, const struct bytes *b)
{
	return (unsigned long long)(b->start - core->image->data);
}

static bool read_thread(struct core *core, const struct layout *layout, struct bytes desc, struct err *err)
{
	struct core_thread thread = { 0 };
	uint64_t by_number[64] = { 0 };
	struct bytes tid = desc;
	size_t size = bytes_left(&desc), need = layout->regs_at + (size_t)layout->count * (layout->is_64 ? 8 : 4);

	if (size < need)
		return err_set(err, STATUS_INPUT, "%s: offset %#llx: NT_PRSTATUS of %zu bytes, expected %zu or more", core->image->path,
		               offset_of(core, &desc), size, need);
	if (core->threads.count == MAX_THREADS)
		return err_set(err, STATUS_INPUT, "%s: offset %#llx: more than %d threads", core->image->path, offset_of(core, &desc), MAX_THREADS);
	bytes_skip(&tid, layout->tid_at);
	thread.tid = bytes_u32(&tid);
	bytes_skip(&desc, layout->regs_at);
	for (unsigned i = 0; i < layout->count; i++) {
		uint64_t value = word(&desc, layout->is_64);
		if (layout->perf[i] == X)
			continue;
		by_number[layout->perf[i]] = value;
		thread.regs_mask |= (uint64_t)1 << layout->perf[i];
	}
	unsigned count = 0;
	for (unsigned i = 0; i < 64; i++)
		if ((thread.regs_mask >> i & 1) != 0)
			thread.regs[count++] = by_number[i];
	vec_push(&core->threads, thread);
	return true;
}

// struct user_sve_header of the thread whose NT_PRSTATUS came last: behind two sizes, how long its vectors are. VG counts them in 64-bit parts.
static void read_vectors(struct core *core, struct bytes desc)
{
	bytes_skip(&desc, 8);
	uint16_t vector_bytes = bytes_u16(&desc);

	if (desc.bad || vector_bytes == 0 || core->threads.count == 0 || core->image->machine != EM_AARCH64)
		return;
	struct core_thread *thread = &core->threads.data[core->threads.count - 1];
	if ((thread->regs_mask >> PERF_VG & 1) != 0)
		return;
	thread->regs[__builtin_popcountll(thread->regs_mask)] = vector_bytes / 8; // the last in order
	thread->regs_mask |= (uint64_t)1 << PERF_VG;
}

// Pairs of words, the last one {AT_NULL, 0}.
static void read_auxv(struct core *core, struct bytes desc)
{
	bool is_64 = core->image->is_64;

	while (bytes_left(&desc) >= (is_64 ? 16u : 8u)) {
		uint64_t type = word(&desc, is_64), value = word(&desc, is_64);
		if (type == AT_NULL)
			return;
		if (type == AT_ENTRY)
			core->entry = value;
		else if (type == AT_SYSINFO_EHDR)
			core->vdso = value;
	}
}

// count, page size, count times {start, end, offset in pages}, then as many strings.
static bool read_files(struct core *core, struct bytes desc, struct err *err)
{
	bool is_64 = core->image->is_64;
	unsigned long long at = offset_of(core, &desc);
	uint64_t count = word(&desc, is_64), page = word(&desc, is_64);
	size_t entry = is_64 ? 24 : 12;

	if (desc.bad || count > bytes_left(&desc) / entry)
		return err_set(err, STATUS_INPUT, "%s: offset %#llx: NT_FILE of %llu mappings, expected as many as fit its %zu bytes", core->image->path,
		               at, (unsigned long long)count, (size_t)(desc.end - desc.start));
	struct bytes names = desc;
	bytes_skip(&names, count * entry);
	core->has_files = true;
	for (uint64_t i = 0; i < count; i++) {
		struct core_file file = { .start = word(&desc, is_64), .end = word(&desc, is_64) };
		uint64_t pages = word(&desc, is_64);
		file.path = bytes_cstr(&names);
		if (names.bad)
			return err_set(err, STATUS_INPUT, "%s: offset %#llx: NT_FILE with fewer names than its %llu mappings", core->image->path, at,
			               (unsigned long long)count);
		if (!__builtin_mul_overflow(pages, page, &file.pgoff) && file.end > file.start)
			vec_push(&core->files, file);
	}
	return true;
}

static bool read_notes(struct core *core, const struct layout *layout, struct bytes notes, uint64_t align, struct err *err)
{
	struct image_note note;

	while (image_note_next(&notes, align, &note)) {
		if (note.type == TYPE_SVE && bytes_left(&note.name) >= 5 && memcmp(note.name.at, "LINUX", 5) == 0)
			read_vectors(core, note.desc);
		if (bytes_left(&note.name) < 4 || memcmp(note.name.at, "CORE", 4) != 0)
			continue;
		if (note.type == NT_PRSTATUS && !read_thread(core, layout, note.desc, err))
			return false;
		if (note.type == NT_AUXV)
			read_auxv(core, note.desc);
		if (note.type == TYPE_FILE && !read_files(core, note.desc, err))
			return false;
		if (note.type == NT_PRPSINFO) { // struct elf_prpsinfo: pr_flag is a long, uid and gid are 16 bits each on i386
			bytes_skip(&note.desc, layout->is_64 ? 24 : 12);
			core->pid = bytes_u32(&note.desc);
		}
	}
	return true;
}

bool core_open(struct core **out, struct image *image, struct err *err)
{
	const struct layout *layout = layout_of(image);

	*out = NULL;
	if (image->type != ET_CORE)
		return err_set(err, STATUS_INPUT, "%s: offset 16: ELF type %u, expected %u (a core file)", image->path, image->type, ET_CORE);
	if (layout == NULL)
		return err_set(err, STATUS_INPUT, "%s: offset 18: a core of machine %u, %d bits, %s-endian; expected x86-64, i386 or AArch64, little-endian",
		               image->path, image->machine, image->is_64 ? 64 : 32, image->swap ? "big" : "little");
	struct core *core = NEW(struct core);
	core->image = image_retain(image);
	for (size_t i = 0; i < image->note_count; i++) {
		struct bytes notes;
		if (!image_notes_bytes(image, &image->notes[i], &notes))
			err_set(err, STATUS_INPUT, "%s: offset %#llx: notes of %llu bytes, expected inside %zu bytes", image->path,
			        (unsigned long long)image->notes[i].offset, (unsigned long long)image->notes[i].size, image->size);
		else if (read_notes(core, layout, notes, image->notes[i].align, err))
			continue;
		core_close(core);
		return false;
	}
	if (core->threads.count == 0) {
		core_close(core);
		return err_set(err, STATUS_INPUT, "%s: no NT_PRSTATUS among the notes of %zu PT_NOTE, expected one a thread", image->path, image->note_count);
	}
	if (core->pid == 0)
		core->pid = core->threads.data[core->threads.count - 1].tid;
	*out = core;
	return true;
}

void core_close(struct core *core)
{
	if (core == NULL)
		return;
	vec_release(&core->threads);
	vec_release(&core->files);
	image_release(core->image);
	free(core);
}

bool core_memory(const struct core *core, uint64_t addr, struct bytes *out)
{
	const struct image *image = core->image;

	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *s = &image->segments[i];
		uint64_t into = addr - s->vaddr;
		if (addr < s->vaddr || into >= s->file_size || s->offset > image->size || into >= image->size - s->offset)
			continue;
		// A core that was cut short holds less than it says.
		uint64_t left = s->file_size - into, in_file = image->size - s->offset - into;
		*out = bytes_of(image->data + s->offset + into, left < in_file ? left : in_file);
		return true;
	}
	*out = (struct bytes){ 0 };
	return false;
}

struct build_id core_build_id(const struct core *core, uint64_t start)
{
	struct build_id id = { 0 };
	struct bytes page;
	struct image *image;

	if (core_memory(core, start, &page)) {
		size_t size = bytes_left(&page);
		if (image_open_bytes(&image, page.at, size < MAX_IMAGE_PAGE ? size : MAX_IMAGE_PAGE, true, core->image->path, NULL)) {
			id = image->build_id;
			image_release(image);
		}
	}
	return id;
}
