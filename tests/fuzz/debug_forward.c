// Any bytes as code, registers and a stack: the code is run on from its first byte (cmd/debug_forward.h), by the rules of C and without, as a function and not.
#include "cmd/debug_forward.h"

#include "base/hash.h"
#include "tests/fuzz/replay.h"

enum { WORDS = 32, REGISTERS_GIVEN = 16 };
#define CODE_AT UINT64_C(0x40000)
#define STACK_AT UINT64_C(0x7fff0000)

struct scene {
	const uint8_t *code;
	size_t code_bytes;
	uint64_t words[WORDS];
	uint8_t flags;
};

static bool code_at(void *context, uint64_t addr, struct forward_code *out)
{
	const struct scene *s = context;

	*out = (struct forward_code){
		.key = hash_bytes(s->code, s->code_bytes), .addr = CODE_AT, .bytes = s->code, .size = s->code_bytes, .is_c = s->flags & 1, .is_function = s->flags & 2, .is_steady = true,
	};
	return addr - CODE_AT < s->code_bytes;
}

static bool word_at(void *context, uint64_t addr, uint64_t *out)
{
	const struct scene *s = context;

	if (addr - STACK_AT >= sizeof(s->words) || addr % 8 != 0)
		return false;
	*out = s->words[(addr - STACK_AT) / 8];
	return true;
}

static bool is_caller(void *context, uint64_t ra, uint64_t pc, bool is_strict)
{
	const struct scene *s = context;

	(void)pc;
	return !is_strict || ((s->flags & 4) != 0 && ra - CODE_AT <= s->code_bytes);
}

static bool may_leave(void *context, uint64_t addr, bool is_to_function)
{
	const struct scene *s = context;

	(void)addr;
	return is_to_function || (s->flags & 8) != 0;
}

static bool keeps_sp(void *context, uint64_t addr)
{
	(void)context;
	return addr % 2 == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct forward *forward;
	struct err err = { 0 };
	struct scene s;
	struct forward_start start = { .flags_known = 0x8c5, .registers.known = (1u << LIBUNWIND_REGISTERS) - 1 };
	struct libunwind_registers out;
	size_t head = 1 + REGISTERS_GIVEN + sizeof(s.words);

	if (size <= head || size > 1 << 16 || (forward == NULL && !forward_new(&forward, &err)))
		return 0;
	s = (struct scene){ .code = data + head, .code_bytes = size - head, .flags = data[0] };
	memcpy(s.words, data + 1 + REGISTERS_GIVEN, sizeof(s.words));
	for (size_t i = 0; i < REGISTERS_GIVEN; i++)
		start.registers.value[i] = data[1 + i] < 128 ? STACK_AT + 8u * data[1 + i] : data[1 + i];
	start.registers.value[LIBUNWIND_PC] = CODE_AT;
	start.is_return = s.flags & 16;
	start.registers.known &= s.flags & 32 ? ~(1u << 7) : UINT32_MAX;
	const struct forward_scene scene = {
		.code = code_at, .word = word_at, .is_caller = is_caller, .may_leave = may_leave, .keeps_sp = keeps_sp, .context = &s,
		.stack_start = STACK_AT - 4096, .stack_end = STACK_AT + 65536,
	};
	if (forward_caller(forward, &scene, &start, &out) && (out.known >> LIBUNWIND_PC & 1) == 0)
		abort(); // what is told has a caller
	return 0;
}
