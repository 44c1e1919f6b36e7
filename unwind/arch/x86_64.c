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

static const uint8_t enter[] = { 0x55, 0x48, 0x89, 0xe5 }, leave_v8[] = { 0x48, 0x8b, 0xe5, 0x5d };

// leave, pop %rbp, or mov %rbp, %rsp; pop %rbp (as V8 writes them) right before `end`, the last of them a little before, too: an epilogue follows.
static bool leaves(const uint8_t *end, size_t size)
{
	enum { LEAVING_BYTES = 16 };

	// 0xc9 is also how cmp, mov and their like have rcx or r9 twice, behind a REX prefix.
	bool is_operand = size >= 3 && (end[-3] & 0xf0) == 0x40 && (end[-2] & 4) == 0 && end[-2] != 0x0f && (end[-2] < 0x40 || end[-2] == 0x85 || (end[-2] & 0xfc) == 0x88);
	if (size > 0 && ((end[-1] == 0xc9 && !is_operand) || end[-1] == 0x5d))
		return true;
	for (size_t back = sizeof(leave_v8); back <= LEAVING_BYTES && back <= size; back++)
		if (memcmp(end - back, leave_v8, sizeof(leave_v8)) == 0)
			return true;
	return false;
}

// push %rbp; mov %rsp, %rbp close before `end`, and nothing in between that may end what runs straight on from there.
static bool has_just_entered(const uint8_t *end, size_t size)
{
	enum { STRAIGHT_BYTES = 64 };

	for (size_t back = 1; back <= STRAIGHT_BYTES && back <= size; back++) {
		const uint8_t *at = end - back;
		if (back >= sizeof(enter) && memcmp(at, enter, sizeof(enter)) == 0)
			return true;
		if (*at == 0xc3 || *at == 0xc9 || *at == 0xcc || *at == 0x5d || *at == 0xe9 || *at == 0xeb || *at == 0xff)
			return false;
	}
	return false;
}

// The int3 before an address: what fills up to the next function, or a trap: behind a call that does not return or a jump onwards, or that a check jumps over?
static bool is_trap(const uint8_t *at, size_t before)
{
	return before >= 6 && at[-2] != 0xcc && (at[-6] == 0xe8 || ((at[-3] & 0xf0) == 0x70 && at[-2] == 1) || (at[-3] == 0xeb && at[-2] < 0x80) ||
	                                         (at[-6] == 0xe9 && at[-3] == 0 && at[-2] == 0));
}

// A function that begins with push %rbp; mov %rsp, %rbp (or a check before them), behind the int3 that assemblers of compilers at run time and of V8's builtins
// fill with, is in its frame but for its epilogues. V8 also has functions that set up a frame where they need one, in the middle: right behind that they are.
// One that began a little before and has not done so yet has none.
static enum unwind_framed in_frame(const uint8_t *end, size_t size, uint64_t end_addr)
{
	enum { CHECK_BYTES = 12, FILLED_TO = 32, BEGUN_BYTES = 128 };

	if (leaves(end, size))
		return FRAMED_UNSAID;
	if (has_just_entered(end, size))
		return FRAMED;
	for (size_t back = end_addr % FILLED_TO; back + 1 < size; back += FILLED_TO) {
		const uint8_t *at = end - back;
		if (at[-1] != 0xcc || is_trap(at, size - back))
			continue;
		size_t most = back <= BEGUN_BYTES ? back : CHECK_BYTES + sizeof(enter), check = 0;
		while (check + sizeof(enter) <= most && memcmp(at + check, enter, sizeof(enter)) != 0)
			check++;
		if (check + sizeof(enter) <= most)
			return check <= CHECK_BYTES ? FRAMED : FRAMED_UNSAID;
		return most == back ? FRAMED_NOT : FRAMED_UNSAID;
	}
	return FRAMED_UNSAID;
}

// syscall, at most test %rax, %rax and a jump behind it, and an xor %ebp, %ebp. Bytes are not decoded: of code without CFI where a system call has just answered 0.
static bool begins_thread(const uint8_t *code, size_t size)
{
	bool is_call = false;

	for (size_t i = 0; i + 2 <= UNWIND_THREAD_BEFORE; i++)
		is_call = is_call || (code[i] == 0x0f && code[i + 1] == 0x05);
	for (size_t i = UNWIND_THREAD_BEFORE; is_call && i + 1 < size; i++)
		if (code[i] == 0x31 && code[i + 1] == 0xed)
			return true;
	return false;
}

// TASK_SIZE_MAX less a page (arch/x86/include/asm/page_64.h), with four and five levels of page tables.
static bool is_probe_return(uint64_t addr)
{
	return addr == (UINT64_C(1) << 47) - 0x2000 || addr == (UINT64_C(1) << 56) - 0x2000;
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
	.is_call = x86_is_call, .next_call = x86_next_call, .is_probe_return = is_probe_return,
	.is_stub = x86_is_stub,
	.jumps_on = x86_jumps_on,
	.is_sigreturn = is_sigreturn,
	.has_end = x86_has_end,
	.is_exit = x86_is_exit,
	.in_frame = in_frame,
	.follow = x86_follow, .enter = x86_enter, .insn_to_perf = { 0, 2, 3, 1, 7, 6, 4, 5, 16, 17, 18, 19, 20, 21, 22, 23 },
	.begins_thread = begins_thread, .perf_result = 0, // rax
	// sp at the trampoline points at struct ucontext: flags, link, stack (40 bytes), then struct sigcontext
	.sigframe = { .pc = 168, .sp = 160, .fp = 120 },
	.eh_data = { 0, 1 }, .eh_columns = 17, // rax, rdx
};
