// An ELF image: the only place in the program that opens binaries.
//
// Identity is the build ID (NT_GNU_BUILD_ID). An image is read-only once open and may be shared by threads; it is
// counted by reference. Its bytes are a private file mapping (or heap, for memory read from a process); should the
// file be cut short meanwhile, pages past its end read as zeros instead of raising SIGBUS.
// Everything in the file is untrusted: offsets and sizes are checked when the image is opened or the section is asked for.
#ifndef PERFSAMPLE_ELF_IMAGE_H
#define PERFSAMPLE_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

struct build_id {
	uint8_t size; // 0: none
	uint8_t bytes[32];
};

bool build_id_equal(const struct build_id *a, const struct build_id *b); // false when either has none
// Lower-case hex into `text` (at least 65 bytes); returns text.
char *build_id_hex(const struct build_id *id, char *text);
bool build_id_parse(struct build_id *id, const char *hex);

struct image_segment { // a PT_LOAD
	uint64_t vaddr, offset, file_size, mem_size;
	uint32_t flags; // PF_R | PF_W | PF_X
};

struct image_notes { // a PT_NOTE
	uint64_t offset, size, align;
};

struct image_section {
	const char *name; // lives as long as the image; "" when the name is out of bounds
	uint64_t vaddr, offset, size, flags, entry_size, align;
	uint32_t type, link, info;
};

struct image {
	char *path; // as it was named to us; for messages
	struct build_id build_id;
	uint16_t machine; // EM_X86_64, …
	uint16_t type;    // ET_EXEC, ET_DYN, ET_REL, ET_CORE
	bool is_64;
	bool swap; // of the other byte order
	uint64_t entry;
	const uint8_t *data;
	size_t size;
	struct image_segment *segments; // in file order
	size_t segment_count;
	struct image_notes *notes; // in file order
	size_t note_count;
	struct image_section *sections; // index 0 is the null section; empty when there is no section table, or none that can be read (damage)
	size_t section_count;
	uint64_t eh_frame_hdr_vaddr, eh_frame_hdr_size; // PT_GNU_EH_FRAME; 0 when absent
	uint64_t dynamic_vaddr, dynamic_size; // PT_DYNAMIC; 0 when absent
	bool has_exidx; // PT_ARM_EXIDX: 32-bit ARM's own unwind information, which nothing here reads
	uint64_t file_start; // where it begins in the file that was opened; not 0 inside an archive. All other offsets count from there
	unsigned references; // atomic
	const void *mapped; // the file; NULL: `data` is on the heap
	size_t mapped_size;
	bool is_own; // a file of our user's: of those mincore(2) tells which pages are in memory, of others' that all are
	char *damage; // "PATH: offset 0x…: …, expected …": where its section table contradicts itself or the file ends early; NULL: nothing found
};

// Opens the regular file behind `fd` (which stays the caller's). STATUS_INPUT with path, offset and what was expected.
bool image_open_fd(struct image **out, int fd, const char *path, struct err *err);
// The image that has the file's byte at `offset`, which is where somebody mapped it: the file itself, what a zip archive holds there uncompressed
// (container.h), or, where neither, what begins as ELF right there. `file_start` tells which.
bool image_open_fd_at(struct image **out, int fd, uint64_t offset, const char *path, struct err *err);
// Opens by name (O_NONBLOCK | O_NOCTTY | O_CLOEXEC, regular files only). For our own host's files, not a target's. ARCHIVE!/ENTRY and ARCHIVE!ENTRY, where
// nothing has that name itself, are what a zip archive holds uncompressed under that name.
bool image_open_path(struct image **out, const char *path, struct err *err);
// Takes a copy of `size` bytes (a vdso, a library read through /proc/PID/mem). With `from_memory`, file offsets mean
// nothing and segments are read where they were loaded (offset := vaddr).
bool image_open_bytes(struct image **out, const void *bytes, size_t size, bool from_memory, const char *path, struct err *err);
bool image_is_there(const char *path); // whether image_open_path finds anything to open
// Whether what could not be opened is a damaged image, rather than missing, not readable or something else than ELF: a regular file that begins as
// ELF or, with `was_elf` (one is known to have been there), does not.
bool image_is_damaged(const char *path, bool was_elf);
// Whether a file is there and begins otherwise than any image: code in it (a Lisp's core, a DLL) is no ELF image's. The descriptor stays the caller's.
bool image_is_other(int fd);
struct image *image_retain(struct image *image);
void image_release(struct image *image); // NULL is allowed

const struct image_section *image_find_section(const struct image *image, const char *name); // NULL: none
// The section's bytes as they stand in the file; false (no error) for SHT_NOBITS or out of bounds.
bool image_section_raw(const struct image *image, const struct image_section *section, struct bytes *out);
// The section's contents, decompressed into `storage` where SHF_COMPRESSED (zlib, zstd) or .zdebug_; else borrowed.
// At most 1 GiB and 1000 times the compressed size.
bool image_section_contents(const struct image *image, const struct image_section *section, struct buf *storage,
                            struct bytes *out, struct err *err);
// What the file holds for [vaddr, vaddr + size) of one PT_LOAD; false when it is not all in the file.
bool image_at_vaddr(const struct image *image, uint64_t vaddr, uint64_t size, struct bytes *out);
// What the file holds from an address to the end of its PT_LOAD; false: no segment has the address in the file.
bool image_rest_at(const struct image *image, uint64_t vaddr, struct bytes *out);

// File offset -> link-time address, through the PT_LOAD that holds the offset; with `executable_first` an executable segment
// wins where two hold it (their pages overlap in the file). false: no segment holds it.
bool image_offset_to_vaddr(const struct image *image, uint64_t offset, uint64_t *vaddr);
bool image_vaddr_to_offset(const struct image *image, uint64_t vaddr, uint64_t *offset);
// Load bias of a mapping [start, end) at file offset `pgoff`: run-time address minus vaddr, per PT_LOAD (a file whose segments
// are mapped apart, as lld lays them out, has one bias, but only the right segment tells it). false: no segment fits.
bool image_bias(const struct image *image, uint64_t start, uint64_t end, uint64_t pgoff, uint64_t *bias);

// The address of a symbol that the image defines, in .symtab or .dynsym.
bool image_find_symbol(const struct image *image, const char *name, uint64_t *vaddr);
// Functions of its .symtab that have a name and a size, in its order, until `visit` says no. Where sections of an object that is to be linked yet have addresses, a JIT
// compiler's, functions are at those.
typedef bool image_function_fn(void *context, const char *name, uint64_t start, uint64_t size);
void image_each_function(const struct image *image, image_function_fn *visit, void *context);
// The function that has an address: of several with the same start the one that stands first, in the first table that has any. NULL: none. The name
// lives as long as the image. On ARM, bit 0 of `*start` says that it is Thumb code.
const char *image_function_at(const struct image *image, uint64_t vaddr, uint64_t *start);
// The symbol of any kind that has an address: the nearest start; then global, weak, local; then the smallest; then the first. .dynsym counts where there is no
// .symtab. NULL: none.
const char *image_symbol_at(const struct image *image, uint64_t vaddr, uint64_t *start);
// DT_SONAME; lives as long as the image. NULL: none, or out of bounds.
const char *image_soname(const struct image *image);
// What .gnu_debugdata holds: an image with symbols and .debug_frame alone, of the same addresses. NULL without error: it has none.
struct image *image_open_mini_debug(const struct image *image, struct err *err);

// One note of a run of them, the cursor moved behind it. false: no further one, or the rest is not one (notes->bad then).
struct image_note {
	uint32_t type;
	struct bytes name, desc; // the name with its NUL, as a rule
};
bool image_note_next(struct bytes *notes, uint64_t align, struct image_note *out);
// The bytes of a PT_NOTE; false: not all in the file.
bool image_notes_bytes(const struct image *image, const struct image_notes *notes, struct bytes *out);
// The build ID in a run of ELF notes; false when there is none. Usable on bytes from anywhere.
bool build_id_from_notes(struct bytes notes, uint64_t align, struct build_id *out);

#endif
