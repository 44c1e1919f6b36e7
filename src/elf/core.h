// A core file: threads with their registers, memory, and what was mapped. Untrusted, like every image.
//
// Format: gABI (ET_CORE); struct elf_prstatus, NT_AUXV and NT_FILE as the kernel's fs/binfmt_elf.c writes them. x86-64, i386, AArch64.
#ifndef PERFSAMPLE_ELF_CORE_H
#define PERFSAMPLE_ELF_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "elf/image.h"

enum { CORE_REGISTERS = 34 };

struct core_thread {
	uint32_t tid;
	uint64_t regs[CORE_REGISTERS]; // one per set bit of the mask, from the lowest, numbered as in asm/perf_regs.h
	uint64_t regs_mask;
};

struct core_file { // a mapping of a file
	uint64_t start, end, pgoff; // pgoff in bytes
	const char *path;           // inside the image
};

struct core {
	struct image *image;
	uint32_t pid; // of NT_PRPSINFO; without one, of the last thread
	VEC(struct core_thread) threads; // as they stand in the file: the one that died first comes first
	VEC(struct core_file) files;
	bool has_files;   // an NT_FILE is there: what it does not name is anonymous
	uint64_t entry;   // AT_ENTRY; 0: unknown
	uint64_t vdso;    // AT_SYSINFO_EHDR; 0: none
};

// Keeps a reference on `image`. STATUS_INPUT with path, offset and what was expected: no core, a machine that is not known, no thread.
bool core_open(struct core **out, struct image *image, struct err *err);
void core_close(struct core *core); // NULL is allowed
// The bytes from an address up to the end of what the file holds there; false: none.
bool core_memory(const struct core *core, uint64_t addr, struct bytes *out);
// The build ID of the image that is mapped from `start` on, where the core holds its first page; size 0: it does not.
struct build_id core_build_id(const struct core *core, uint64_t start);

#endif
