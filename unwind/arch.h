// One constant table per architecture: unwind/arch/NAME.c defines `const struct unwind_arch unwind_arch_NAME`. Chosen at run time by
// the image's machine, never by #ifdef in neutral code.
#ifndef PERFSAMPLE_UNWIND_ARCH_H
#define PERFSAMPLE_UNWIND_ARCH_H

#include <stdint.h>

enum { UNWIND_REGISTERS = 33 }; // DWARF registers the evaluator keeps: enough for x86-64 (17) and aarch64 (33)

struct unwind_arch {
	const char *name;
	uint16_t machine;       // EM_*
	uint8_t word_bytes;
	uint8_t dwarf_sp, dwarf_fp, dwarf_ra; // DWARF register numbers (psABI)
	uint8_t perf_pc, perf_sp, perf_fp, perf_lr; // asm/perf_regs.h; perf_lr 0xff: none
	uint64_t perf_mask;     // registers to ask the kernel for
	uint8_t dwarf_to_perf[UNWIND_REGISTERS]; // 0xff: not delivered
	uint64_t ra_mask;       // bits of a return address that count (PAC stripped)
};
extern const struct unwind_arch *const unwind_archs[]; // NULL-terminated, generated

#endif
