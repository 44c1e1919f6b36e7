// System V ABI, AMD64 supplement (register numbers: figure 3.36); asm/perf_regs.h; asm/sigcontext.h.
#include <elf.h>
#include <string.h>

#include "unwind/arch.h"
#include "unwind/x86.h"

// mov $15, %rax (or %eax); syscall: __restore_rt of musl and of programs that bring their own
static bool is_sigreturn(const uint8_t *code, size_t size)
{
	static const uint8_t wide[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 }, narrow[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };

	return (size >= sizeof(wide) && memcmp(code, wide, sizeof(wide)) == 0) ||
	       (size >= sizeof(narrow) && memcmp(code, narrow, sizeof(narrow)) == 0);
}

const struct unwind_arch unwind_arch_x86_64 = {
	.name = "x86_64",
	.machine = EM_X86_64,
	.word_bytes = 8,
	.dwarf_sp = 7, .dwarf_fp = 6, .dwarf_ra = 16,
	.perf_pc = 8, .perf_sp = 7, .perf_fp = 6, .perf_lr = 0xff,
	// ax to ip, flags to ss, r8 to r15; the kernel refuses ds, es, fs, gs of a 64-bit task. Flags and segments serve nobody here.
	.perf_mask = 0x1ff | 0xff0000,
	//                 rax rdx rcx rbx rsi rdi rbp rsp r8 ...                          rip
	.dwarf_to_perf = { 0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8, [17 ... UNWIND_REGISTERS - 1] = 0xff },
	.callee_saved = 1u << 3 | 1u << 6 | 0xf000,
	.ra_mask = UINT64_MAX,
	.addr_end = (uint64_t)1 << 56, // with five-level page tables
	.fp_gives_sp = true,
	.is_call = x86_is_call,
	.is_stub = x86_is_stub,
	.jumps_on = x86_jumps_on,
	.is_sigreturn = is_sigreturn,
	.has_end = x86_has_end,
	.is_exit = x86_is_exit,
	// sp at the trampoline points at struct ucontext: flags, link, stack (40 bytes), then struct sigcontext
	.sigframe = { .pc = 168, .sp = 160, .fp = 120 },
};
