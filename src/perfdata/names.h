// Feature 255 of our files: what can be recomputed or is read at the end. Every reader works without it.
//
// A tagged list: u32 tag, u32 flags 0, u64 size, body; unknown tags are skipped. Tag 1 is meta: jansson-free "key\0value\0" pairs.
// Tag 2 is names: a string table and, per image (build id, kind, path), addresses ascending with their inline chains. Tag 3 is JIT code.
// Tag 5 is the vdso, as it was mapped, tag 6 unwind information of JIT code, and tag 7 the pages of such code that were sampled, all of recordings whose stacks
// are still to be unwound.
// Tag 8, behind tag 2 and only with anonymous code in it, says which program of a process such code is of: a process that executes another one
// has other code at the same addresses.
// Tag 9, behind tag 2, is what is known of sampled functions beside names: the bounds of those that have none, the source files of those that another of the same
// name may stand beside (names_functions.c).
// Tag 4, behind tag 2 and only where there is something to say, is about functions whose code is one with others' (gcc -fipa-icf, ld --icf). Layouts in names.c.
#ifndef PERFSAMPLE_PERFDATA_NAMES_H
#define PERFSAMPLE_PERFDATA_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "elf/image.h"

struct name_frame { const char *name, *file; uint32_t line; bool is_inlined; };
struct name_addr {
	uint64_t image_addr, symbol_start;
	const char *linkage_name;
	uint32_t first_frame, frame_count; // into name_image.frames, innermost first
};
#define NAMES_ANY_PROGRAM UINT64_MAX
// Of `size` 0: a function with a name that is local to a source file, so that another of that name may be another function; `unit` is the file's number in
// the image (0: unknown), `source` its name (NULL: unknown). Else [start, start + size), a function without a name; `vaddr`: its start as `objdump -d` shows it.
struct name_function { uint64_t start, size, vaddr; uint32_t unit; const char *source; };
struct name_alias { uint64_t symbol_start; const char *linkage_name; }; // a further function that starts there
struct name_call { uint64_t image_addr; const char *callee; };          // what the call that returns to image_addr + 1 calls
struct name_image {
	const char *path;
	uint8_t kind; // enum dso_kind
	struct build_id build_id;
	uint32_t pid; // DSO_ANON: whose
	uint64_t since_ns; // and of which program of that process (struct dso); else 0. NAMES_ANY_PROGRAM: the recorder did not tell them apart
	VEC(struct name_addr) addrs; // ascending
	VEC(struct name_frame) frames;
	VEC(struct name_function) functions; // ascending by start
	VEC(struct name_alias) aliases; // of functions in `addrs`, ascending
	VEC(struct name_call) calls;    // of functions that have aliases, in whatever image; ascending
};
// Code that a JIT compiler made: from `time_ns` (the recording's clock) on, `size` bytes at `addr` of a process are those at `offset` of its dump.
// Names of such code are those of the image at `path`, addresses there being offsets in the dump.
struct name_code { const char *path; uint64_t time_ns, addr, size, offset; uint32_t pid; };
// A vdso that was mapped, to unwind through and to name on another host or under a later kernel. `bytes` are what was in memory, page for page.
struct name_vdso { const void *bytes; size_t size; };
enum { NAMES_VDSOS_MOST = 4, NAMES_TEXT_MOST = 64 << 10 }; // a name is cut to the latter
// Code in anonymous memory of a process, from `time_ns` (the recording's clock; 0: before it) on at `start`, with unwind information that stood in its memory: `bytes`
// are an ELF image, whose addresses are the process's. size 0: none was found; it ends what stood there before.
struct name_jit { uint64_t time_ns, start; const void *bytes; size_t size; uint32_t pid; };
enum { NAMES_JITS_MOST = 65536, NAMES_JIT_BYTES_MOST = 16 << 20 };
// NAMES_PAGE_BYTES of code in anonymous memory of a process, at a multiple of that: as they were read, or run by a sample, at `from_ns` and, last, read at `until_ns` (the recording's clock). They
// are of an address space and a mapping that were there from `born_ns` (0: or earlier) until before `gone_ns` (UINT64_MAX: the end).
struct name_page { uint64_t addr, from_ns, until_ns, born_ns, gone_ns; const uint8_t *bytes; uint32_t pid; };
enum { NAMES_PAGE_BYTES = 4096, NAMES_PAGES_MOST = 16384 };
struct meta_pair { const char *key, *value; };

struct names { // strings in the arena
	struct arena arena;
	VEC(struct name_image) images;
	VEC(struct name_code) codes;
	VEC(struct name_vdso) vdsos;
	VEC(struct name_jit) jits; // as decoded: by process, start and time, ascending
	VEC(struct name_page) pages; // as decoded: by process, address and time, ascending
	VEC(struct meta_pair) meta;
};
void names_release(struct names *names);
void names_meta(struct names *names, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *names_meta_get(const struct names *names, const char *key); // NULL: absent
void names_vdso(struct names *names, const void *bytes, size_t size); // a copy, unless it is there already or there are as many as there may be
void names_jit(struct names *names, const struct name_jit *jit); // a copy; not if it is too large or they are too many
// What stood at `start` of a process at that time, in decoded names; NULL: nothing is known of it.
const struct name_jit *names_jit_at(const struct names *names, uint32_t pid, uint64_t start, uint64_t time_ns);
void names_page(struct names *names, const struct name_page *page); // not if they are too many; its bytes stay the caller's while the names are used
// The times from `*from_ns` until before `*to_ns` that page `index` of decoded names stands for: between two readings of one page that differ, each for the half that is
// nearer to it; never for those of another address space or mapping.
void names_page_times(const struct names *names, size_t index, uint64_t *from_ns, uint64_t *to_ns);
// What stood at `addr` (a multiple of NAMES_PAGE_BYTES) of a process at that time, in decoded names; NULL: nobody has read it.
const struct name_page *names_page_at(const struct names *names, uint32_t pid, uint64_t addr, uint64_t time_ns);
void names_encode(const struct names *names, struct buf *out);
// Bounded by `size`; STATUS_INPUT names the offset within the feature.
bool names_decode(struct names *names, const void *bytes, size_t size, struct err *err);

#endif
