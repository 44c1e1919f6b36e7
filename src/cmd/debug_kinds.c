#include "cmd/debug_kinds.h"

#include <string.h>

#include "unwind/arch.h"

const char *kind_text(enum kind kind)
{
	static const char *const texts[KIND_COUNT] = {
		"identical", "same frames, another end", "libunwind is wrong by the functions' instructions",
		"libunwind stops at a register that was popped, ours is right by the instructions",
		"a throw goes on where it is handled, libunwind among frames that are being left",
		"likely libunwind leaves out a caller that called code without CFI", "likely libunwind is wrong: what it finds is behind no call",
		"ours goes on", "libunwind goes on", "frames differ", "ours is wrong by the functions' instructions", "both are wrong by the functions' instructions",
	};
	return texts[kind];
}

// libunwind does not say whether CFI told it of a root.
static bool is_alike(enum unwind_end ours, enum unwind_end theirs)
{
	return ours == theirs || (unwind_end_is_root(ours) && unwind_end_is_root(theirs));
}

static size_t common(const struct unwind_stack *a, const struct unwind_stack *b)
{
	size_t same = 0;

	while (same < a->count && same < b->count && a->frames[same].addr == b->frames[same].addr)
		same++;
	return same;
}

static bool is_possible_call(enum call call)
{
	return call != CALLS_NOT && call != CALLS_ELSEWHERE;
}

// The word of the copy that is so many words above where a register points.
static bool copied_word(const struct unwind_input *input, const struct unwind_arch *arch, unsigned perf_register, unsigned word, uint64_t *out)
{
	uint64_t regs[2];
	const unsigned wanted[2] = { arch->perf_sp, perf_register };

	for (size_t i = 0; i < 2; i++) {
		if (wanted[i] >= 64 || (input->regs_mask >> wanted[i] & 1) == 0)
			return false;
		regs[i] = input->regs[__builtin_popcountll(input->regs_mask & (((uint64_t)1 << wanted[i]) - 1))];
	}
	uint64_t at = regs[1] - regs[0] + (uint64_t)word * arch->word_bytes;
	if (at >= input->stack_size || input->stack_size - at < arch->word_bytes)
		return false;
	*out = 0;
	memcpy(out, input->stack + at, arch->word_bytes);
	return true;
}

// Found where code had no frame, as it may be.
static bool is_bare(const struct frame *frame)
{
	return frame->via == VIA_LEAF_RULE || frame->via == VIA_CODE;
}

// Is frame `at` of ours the one that libunwind lacks? It is the caller at sp that libunwind passes over by the frame pointer's pair; or that pair's return
// address: then libunwind took the caller at sp, but with it the frame pointer of the pair, which is the next frame's.
static bool is_left_out(struct witness *witness, const struct unwind_input *input, const struct unwind_stack *ours, const struct unwind_stack *theirs, size_t at)
{
	const struct unwind_arch *arch = unwind_arch_for(input->machine);
	uint64_t paired;
	size_t more = ours->count > theirs->count ? ours->count - theirs->count : 0;

	if (arch == NULL || at == 0 || more == 0 || more > 2 || at + more > ours->count)
		return false;
	for (size_t i = 0; i < theirs->count; i++)
		if (ours->frames[i < at ? i : i + more].addr != theirs->frames[i].addr)
			return false;
	for (size_t i = at; i < at + more; i++) // that one had no frame yet either: its caller, which stands there too, is left out with it
		if (!is_bare(&ours->frames[i]) || !is_possible_call(call_before(witness, input, ours->frames[i].addr, ours->frames[i - 1].addr)))
			break;
		else if (i + 1 == at + more)
			return true;
	return more == 1 && at >= 2 && (ours->frames[at].via == VIA_FP || ours->frames[at].via == VIA_CODE) && is_bare(&ours->frames[at - 1]) &&
	       copied_word(input, arch, arch->perf_fp, 1, &paired) && paired == ours->frames[at].addr;
}

// Ours goes on where an exception is handled (by what is about to be installed), and libunwind comes there, too; or it goes astray among frames that are
// being left, and each caller of ours, up to a root, made a call that can have led to the frame below it.
static bool is_landing(struct witness *witness, const struct unwind_input *input, const struct unwind_stack *ours, const struct unwind_stack *theirs, size_t same)
{
	// That frame's address may have been put in the return address's place already: then both have it, and libunwind goes on in the frames in between.
	size_t first = same;
	while (first > 0 && first <= ours->count && (first == ours->count || ours->frames[first].via != VIA_LANDING))
		first--;
	size_t rest = ours->count - first, alike = 1, called = 1;
	if (rest < 2 || ours->frames[first].via != VIA_LANDING)
		return false;
	// The handler begins elsewhere in its function than where it had called.
	while (alike < rest && theirs->count >= first + rest && ours->frames[first + alike].addr == theirs->frames[theirs->count - rest + alike].addr)
		alike++;
	while (called < rest && is_possible_call(call_before(witness, input, ours->frames[first + called].addr, ours->frames[first + called - 1].addr)))
		called++;
	return alike == rest || (called == rest && unwind_end_is_root(ours->end));
}

enum kind kind_of(struct witness *witness, const struct unwind_input *input, const struct unwind_stack *ours, const struct unwind_stack *theirs,
                  const struct unwind_stack *third, size_t *at)
{
	size_t same = common(ours, theirs), told = third != NULL ? common(ours, third) : 0;
	bool is_same = same == ours->count && same == theirs->count, is_whole = third != NULL && told == ours->count && told == third->count;

	*at = same;
	// An image's word that nothing called a function is no less sure (Go's mstart).
	bool is_root = told == ours->count && ours->end == UNWIND_ROOT;
	if (told > 0 && told < third->count && third->frames[told].via == VIA_NONE && !is_root) {
		*at = told;
		return is_same ? KIND_BOTH_WRONG : KIND_OURS_WRONG;
	}
	if (is_same)
		return is_alike(ours->end, theirs->end) ? KIND_SAME : KIND_OTHER_END;
	if (is_whole && same > 0 && same < third->count && third->frames[same].via == VIA_NONE)
		return KIND_PEER_WRONG;
	if (is_whole && same == theirs->count && theirs->end == UNWIND_BAD_READ && same > 1 && third->frames[1].via == VIA_NONE)
		return KIND_PEER_STOPS;
	if (is_landing(witness, input, ours, theirs, same))
		return KIND_LANDING;
	if (same == theirs->count)
		return KIND_OURS_LONGER;
	if (same == ours->count)
		return KIND_THEIRS_LONGER;
	// A caller that recurses has its address there more than once: the frame too many may stand before the first that differs.
	for (size_t i = 1; i <= same; i++)
		if (is_left_out(witness, input, ours, theirs, i))
			return KIND_LEFT_OUT;
	if (same == 0 || theirs->frames[same].kind != FRAME_RETURN)
		return KIND_DIVERGED;
	return call_before(witness, input, theirs->frames[same].addr, 0) == CALLS_NOT ? KIND_NO_CALL : KIND_DIVERGED;
}
