// System V ABI, AMD64 supplement (register numbers: figure 3.36); asm/perf_regs.h; asm/sigcontext.h.
#include <elf.h>
#include <stddef.h>
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

// A function that begins with push %rbp; mov %rsp, %rbp (or a check before them), behind the int3 that assemblers of compilers at run time and of V8's builtins
// fill with. V8 also has functions that set up a frame where they need one, in the middle: of these nothing is said. Nor behind a leave or pop %rbp.
static bool in_frame(const uint8_t *end, size_t size, uint64_t end_addr)
{
	enum { LEAVING_BYTES = 16, CHECK_BYTES = 12, FILLED_TO = 32 };
	static const uint8_t enter[] = { 0x55, 0x48, 0x89, 0xe5 }, leave[] = { 0x48, 0x8b, 0xe5, 0x5d }; // the latter as V8 writes it

	for (size_t back = 1; back < size; back++) {
		const uint8_t *at = end - back;
		if (back >= sizeof(enter) && memcmp(at, enter, sizeof(enter)) == 0) {
			for (size_t before = 1; before <= CHECK_BYTES + 1 && back + before < size; before++)
				if (at[-(ptrdiff_t)before] == 0xcc && at[-(ptrdiff_t)before - 1] == 0xcc)
					return true;
			return false;
		}
		bool leaves = (back == 1 && (*at == 0xc9 || *at == 0x5d)) ||
		              (back >= sizeof(leave) && back <= LEAVING_BYTES && memcmp(at, leave, sizeof(leave)) == 0);
		bool fills = *at == 0xcc && ((end_addr - back + 1) % FILLED_TO == 0 || (back > 2 && at[1] == 0xcc && at[2] == 0xcc)); // one or two: a trap
		if (leaves || fills)
			return false;
	}
	return false;
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
	.red_zone_bytes = 128,
	.is_call = x86_is_call,
	.is_stub = x86_is_stub,
	.jumps_on = x86_jumps_on,
	.is_sigreturn = is_sigreturn,
	.has_end = x86_has_end,
	.is_exit = x86_is_exit,
	.in_frame = in_frame,
	// sp at the trampoline points at struct ucontext: flags, link, stack (40 bytes), then struct sigcontext
	.sigframe = { .pc = 168, .sp = 160, .fp = 120 },
	.eh_data = { 0, 1 }, .eh_columns = 17, // rax, rdx
};
