// DWARF for the Arm 64-bit Architecture (register numbers), Procedure Call Standard; asm/perf_regs.h; asm/sigcontext.h.
#include <elf.h>
#include <string.h>

#include "unwind/arch.h"

// bl: 100101 imm26; blr: d63f with Rn; blraa and relatives: d73f, d63f08 … with the key's bits
static bool is_call(const uint8_t *end, size_t size, int64_t *distance)
{
	uint32_t instruction;

	*distance = 0;
	if (size < 4)
		return false;
	memcpy(&instruction, end - 4, 4);
	if (instruction >> 26 == 0x25) {
		*distance = (int64_t)((int32_t)(instruction << 6) >> 6) * 4 - 4;
		return true;
	}
	return (instruction & 0xfefff000) == 0xd63f0000;
}

// An optional bti c, then adrp x16
static bool is_stub(const uint8_t *code, size_t size)
{
	uint32_t instruction[2] = { 0 };

	memcpy(instruction, code, size < sizeof(instruction) ? size : sizeof(instruction));
	return ((instruction[0] == 0xd503245f ? instruction[1] : instruction[0]) & 0x9f00001f) == 0x90000010;
}

// mov x8, #139; svc #0
static bool is_sigreturn(const uint8_t *code, size_t size)
{
	static const uint8_t bytes[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4 };

	return size >= sizeof(bytes) && memcmp(code, bytes, sizeof(bytes)) == 0;
}

static uint32_t instruction(const uint8_t *at)
{
	uint32_t word;
	memcpy(&word, at, sizeof(word));
	return word;
}

static bool is_ret(uint32_t word)
{
	return word == 0xd65f03c0 || word == 0xd65f0bff || word == 0xd65f0fff; // ret, retaa, retab
}

static bool is_trap(uint32_t word)
{
	return (word & 0xffe0001f) == 0xd4200000 || word >> 16 == 0; // brk, udf
}

static bool has_end(const uint8_t *code, size_t size)
{
	for (size_t i = 0; i + 4 <= size; i += 4)
		if (is_ret(instruction(code + i)) || is_trap(instruction(code + i)))
			return true;
	return false;
}

static bool is_exit(const uint8_t *code, size_t size)
{
	for (size_t i = 0; i + 4 <= size && !is_ret(instruction(code + i)); i += 4)
		if (instruction(code + i) == 0xd4000001 || is_trap(instruction(code + i))) // svc #0
			return true;
	return false;
}

// TASK_SIZE less a page, of any number of address bits and size of pages (Documentation/arch/arm64/memory.rst).
static bool is_probe_return(uint64_t addr)
{
	static const uint8_t bits[] = { 36, 39, 42, 47, 48, 52 };

	for (size_t i = 0; i < sizeof(bits); i++) {
		uint64_t below = (UINT64_C(1) << bits[i]) - addr;
		if (below == 0x1000 || below == 0x4000 || below == 0x10000)
			return true;
	}
	return false;
}

static size_t next_call(const uint8_t *code, size_t size, size_t from)
{
	int64_t distance;

	for (size_t end = from / 4 * 4 + 4; end <= size; end += 4)
		if (is_call(code + end, 4, &distance))
			return end;
	return size + 1;
}

const struct unwind_arch unwind_arch_aarch64 = {
	.name = "aarch64",
	.machine = EM_AARCH64,
	.word_bytes = 8,
	.dwarf_sp = 31, .dwarf_fp = 29, .dwarf_ra = 30,
	.perf_pc = 32, .perf_sp = 31, .perf_fp = 29, .perf_lr = 30,
	.perf_mask = ((uint64_t)1 << 33) - 1,
	.dwarf_to_perf = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
	                   31, 32, 46 },
	.callee_saved = 0x3ff80000 | (uint64_t)1 << UNWIND_VG, // x19 to x29
	// Pointer authentication puts its code above the address; user space has 48 bits, unless a program asks for 52.
	.ra_mask = ((uint64_t)1 << 48) - 1,
	.signs_addresses = true,
	.addr_end = (uint64_t)1 << 52,
	.fp_gives_sp = false,
	.is_call = is_call, .next_call = next_call, .is_probe_return = is_probe_return,
	.is_stub = is_stub,
	.is_sigreturn = is_sigreturn,
	.has_end = has_end,
	.is_exit = is_exit,
	.eh_data = { 0, 1 }, .eh_columns = 97, // x0, x1
	// siginfo (128 bytes), ucontext up to uc_mcontext (176), fault address, x0 to x30, sp, pc
	.sigframe = { .pc = 568, .sp = 560, .fp = 544, .lr = 552, .pair = 4688 },
};
