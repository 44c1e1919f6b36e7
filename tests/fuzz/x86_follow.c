// Any bytes as code, followed from several places (unwind/code_rule.h): it ends, names places that there are, says the same twice, and says nothing of code that
// holds no end.
#include "tests/fuzz/replay.h"
#include "unwind/code_rule.h"
#include "unwind/x86_decode.h"

static bool begins(void *context, uint64_t addr)
{
	(void)context;
	return addr % 64 == 7;
}

static void check_place(const struct code_place *place)
{
	if (place->kind > PLACE_AT || place->reg >= X86_REGISTERS)
		abort();
}

static bool is_same(const struct code_rule *a, const struct code_rule *b)
{
	return a->is_known == b->is_known && a->is_plain == b->is_plain && a->leaves_sp == b->leaves_sp && memcmp(&a->ra, &b->ra, sizeof(a->ra)) == 0 && memcmp(&a->fp, &b->fp, sizeof(a->fp)) == 0 &&
	       memcmp(&a->sp, &b->sp, sizeof(a->sp)) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint64_t addr = size > 0 ? (uint64_t)data[0] << 40 | data[size - 1] : 0;
	const struct code_source source = { .code = bytes_of(data, size), .addr = addr, .begins = size % 2 == 0 ? begins : NULL, .is_generated = size % 3 == 0 };
	struct code_follower *follower = code_follower_new();

	for (size_t at = 0; at <= size; at += 1 + size / 32)
		for (unsigned when = CODE_AT; when <= CODE_BEHIND_ANY; when++) {
			struct code_rule rule, again;
			x86_follow(follower, &source, addr + at, (enum code_when)when, &rule);
			x86_follow(follower, &source, addr + at, (enum code_when)when, &again);
			if (!is_same(&rule, &again) || (rule.is_known && (rule.ra.kind == PLACE_NOWHERE || rule.fp.kind == PLACE_NOWHERE)))
				abort();
			check_place(&rule.ra);
			check_place(&rule.fp);
			check_place(&rule.sp);
		}
	code_follower_free(follower);
	return 0;
}
