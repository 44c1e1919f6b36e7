// DWARF for the Arm Architecture (register numbers), 32 bits; asm/perf_regs.h. By CFI alone, which ARM's binaries have in .debug_frame: of .ARM.exidx
// nothing is read, and nothing is guessed, as what precedes a return address differs between ARM and Thumb code.
#include <elf.h>

#include "unwind/arch.h"

static bool is_none(const uint8_t *code, size_t size)
{
	(void)code;
	(void)size;
	return false;
}

const struct unwind_arch unwind_arch_arm = {
	.name = "arm",
	.machine = EM_ARM,
	.word_bytes = 4,
	.dwarf_sp = 13, .dwarf_fp = 11, .dwarf_ra = 14,
	.perf_pc = 15, .perf_sp = 13, .perf_fp = 11, .perf_lr = 14,
	.perf_mask = 0xffff,
	.dwarf_to_perf = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, [16 ... UNWIND_REGISTERS - 1] = 0xff },
	.callee_saved = 0xff0, // r4 to r11
	.ra_mask = UINT32_MAX - 1, // bit 0 of a return address says that Thumb code goes on there
	.addr_end = (uint64_t)1 << 32,
	.fp_gives_sp = false,
	.is_stub = is_none,
	.is_sigreturn = is_none,
	.has_end = is_none,
	.is_exit = is_none,
};
