#include "record/jit_image.h"

#include <elf.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/vec.h"
#include "elf/image_parts.h"
#include "proc/procfs.h"
#include "unwind/cfi_find.h"

enum { CODE_BYTES_MOST = 4 << 20, FRAMES_BYTES_MOST = 4 << 20 };
#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_X86_64 };
#endif

struct search {
	uint64_t start, end;
	struct buf frames;     // all sections that were found, at their distances; between them zeros, which are no entries
	uint64_t frames_vaddr; // where the first one is
};

static struct cfi_section as_section(const void *bytes, size_t size, uint64_t vaddr)
{
	return (struct cfi_section){ .data = bytes_of(bytes, size), .vaddr = vaddr, .machine = MACHINE, .address_bytes = 8 };
}

static void take(void *context, uint64_t vaddr, const void *bytes, size_t size)
{
	struct search *search = context;
	struct cfi_section memory = as_section(bytes, size, vaddr);
	struct cfi_found found = { 0 };

	while (cfi_find(&memory, found.end, search->start, search->end, &found)) {
		if (search->frames.size == 0)
			search->frames_vaddr = vaddr + found.start;
		uint64_t at = vaddr + found.start - search->frames_vaddr; // mappings come in ascending order
		if (at > FRAMES_BYTES_MOST || found.end - found.start > FRAMES_BYTES_MOST - at)
			return;
		while (search->frames.size < at)
			buf_u32(&search->frames, 0);
		buf_add(&search->frames, (const char *)bytes + found.start, found.end - found.start);
	}
}

struct range { uint64_t start, end; };

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return (x->start > y->start) - (x->start < y->start);
}

// Of code that is gone the .eh_frame may be there still: what describes the same code twice cannot be believed.
static bool contradicts_itself(const struct search *search)
{
	struct cfi_section section = as_section(search->frames.data, search->frames.size, search->frames_vaddr);
	VEC(struct range) ranges = { 0 };
	struct cfi_cie cie = { 0 };
	bool is_double = false;

	for (size_t offset = 0;;) {
		struct cfi_entry entry = cfi_entry_at(&section, offset);
		if (entry.kind == CFI_BAD || entry.next <= offset)
			break;
		offset = entry.next;
		struct cfi_entry of = entry.kind == CFI_FDE ? cfi_entry_at(&section, entry.cie_offset) : entry;
		if (entry.kind != CFI_FDE || of.kind != CFI_CIE || !cfi_read_cie(&section, &of, &cie))
			continue;
		struct cfi_fde fde = { .cie = cie };
		if (cfi_read_fde(&section, &entry, &fde) && fde.start < fde.end && fde.start >= search->start && fde.end <= search->end)
			vec_push(&ranges, (struct range){ fde.start, fde.end });
	}
	if (ranges.count > 0)
		sort_stable(ranges.data, ranges.count, sizeof(*ranges.data), by_start);
	for (size_t i = 1; i < ranges.count && !is_double; i++)
		is_double = ranges.data[i].start < ranges.data[i - 1].end;
	vec_release(&ranges);
	return is_double;
}

struct image *jit_image_find(int32_t pid, uint64_t start, uint64_t end)
{
	struct search search = { .start = start, .end = end };
	struct image *image = NULL;
	// A 32-bit process has nothing else, and its registers have other numbers.
	if (end <= UINT64_C(1) << 32 || !procfs_constants(pid, take, &search) || search.frames.size == 0 || contradicts_itself(&search)) {
		buf_release(&search.frames);
		return NULL;
	}
	size_t size = end - start < CODE_BYTES_MOST ? (size_t)(end - start) : 0;
	void *code = mem_alloc(size + 1);
	if (procfs_read_memory(pid, start, code, size) < size)
		size = 0;
	struct image_parts parts = { .machine = MACHINE, .code = size > 0 ? code : NULL, .code_size = (size_t)(end - start), .code_vaddr = start,
	                             .frames = search.frames.data, .frames_size = search.frames.size, .frames_vaddr = search.frames_vaddr };
	if (!image_open_parts(&image, &parts, "[jit]", NULL))
		image = NULL;
	free(code);
	buf_release(&search.frames);
	return image;
}
