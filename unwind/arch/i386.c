// System V ABI, Intel386 supplement (register numbers: table 2.14); asm/perf_regs.h; asm/sigcontext.h.
#include <elf.h>
#include <string.h>

#include "unwind/arch.h"
#include "unwind/x86.h"

// mov $173, %eax; int $0x80
static bool is_sigreturn(const uint8_t *code, size_t size)
{
	static const uint8_t bytes[] = { 0xb8, 0xad, 0, 0, 0, 0xcd, 0x80 };

	return size >= sizeof(bytes) && memcmp(code, bytes, sizeof(bytes)) == 0;
}

// TASK_SIZE less a page: of a 64-bit kernel (IA32_PAGE_OFFSET), or of one of 32 bits.
static bool is_probe_return(uint64_t addr)
{
	return addr == 0xffffd000 || addr == 0xbffff000;
}

const struct unwind_arch unwind_arch_i386 = {
	.name = "i386",
	.machine = EM_386,
	.word_bytes = 4,
	.dwarf_sp = 4, .dwarf_fp = 5, .dwarf_ra = 8,
	.perf_pc = 8, .perf_sp = 7, .perf_fp = 6, .perf_lr = 0xff,
	.perf_mask = 0x1ff,
	//                 eax ecx edx ebx esp ebp esi edi eip
	.dwarf_to_perf = { 0, 2, 3, 1, 7, 6, 4, 5, 8, [9 ... UNWIND_REGISTERS - 1] = 0xff },
	.callee_saved = 1u << 3 | 1u << 5 | 1u << 6 | 1u << 7,
	.ra_mask = UINT32_MAX,
	.addr_end = (uint64_t)1 << 32,
	.fp_gives_sp = true,
	.is_call = x86_is_call, .next_call = x86_next_call, .is_probe_return = is_probe_return,
	.is_stub = x86_is_stub,
	.jumps_on = x86_jumps_on,
	.is_sigreturn = is_sigreturn,
	.has_end = x86_has_end,
	.is_exit = x86_is_exit,
	// sp at the trampoline: signal number, two pointers, siginfo (128 bytes), ucontext (20 bytes), then struct sigcontext
	.sigframe = { .pc = 216, .sp = 188, .fp = 184 },
};
