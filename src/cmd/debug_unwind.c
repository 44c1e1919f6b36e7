#include "cmd/debug.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/vec.h"
#include "cli/terminal.h"
#include "load/load.h"
#include "unwind/arch.h"
#include "unwind/rule_table.h"
#include "unwind/unwind.h"

// LEFT_OUT and NO_CALL are libunwind's fault by what stands in the copy and in the code, or in other stacks; of UNSEEN_CALL that is likely.
enum kind { SAME, OTHER_END, OURS_LONGER, THEIRS_LONGER, LEFT_OUT, UNSEEN_CALL, NO_CALL, DIVERGED, KINDS };
static const char *const kind_texts[KINDS] = {
	"identical", "same frames, another end", "ours goes on", "libunwind goes on", "libunwind leaves out a caller that called code without CFI",
	"the same, where the caller's code is in no file", "libunwind finds what is behind no call", "frames differ",
};

struct unseen {
	uint64_t key; // of the return address in its process
	bool completed;
};

struct comparison {
	uint64_t stacks, completed; // completed: by libunwind
	uint64_t kinds[KINDS], completed_kinds[KINDS];
	uint64_t ends[2][UNWIND_END_COUNT]; // ours, libunwind's
	uint64_t frames[2], time_ns[2];
	unsigned shown; // examples of each kind
	unsigned examples_kept[KINDS];
	struct buf examples[KINDS];
	// Of code that is in no file: return addresses on which both agree somewhere, and the stacks whose caller would have to be one.
	struct hash_map returned;
	VEC(struct unseen) unseen;
};

static void put_address(struct buf *out, const struct unwind_input *input, const struct unwind_stack *stack, size_t i)
{
	if (i >= stack->count) {
		buf_printf(out, "ends: %s", unwind_end_name(stack->end));
		return;
	}
	uint64_t addr = frame_lookup_addr(&stack->frames[i]);
	struct unwind_map map = input->map(input->map_context, addr);
	buf_printf(out, "%#" PRIx64, stack->frames[i].addr);
	if (frame_via_is_guessed(stack->frames[i].via))
		buf_printf(out, " by %s", frame_via_name(stack->frames[i].via));
	if (map.image == NULL)
		return;
	buf_string(out, " (");
	escape_terminal(out, map.image->image->path, strlen(map.image->image->path));
	buf_printf(out, " %#" PRIx64 ")", stack->frames[i].addr - map.bias);
}

static void keep_example(struct buf *out, const struct record *record, const struct unwind_input *input, const struct unwind_stack *ours,
                         const struct unwind_stack *theirs, size_t first)
{
	buf_printf(out, "      at %.6f, thread %d, %zu frames and %zu\n", (double)record->id.time_ns / 1e9, record->id.tid, ours->count, theirs->count);
	for (size_t i = first > 0 ? first - 1 : 0; i <= first; i++) {
		buf_printf(out, "      frame %zu: ours ", i);
		put_address(out, input, ours, i);
		buf_string(out, ", libunwind ");
		put_address(out, input, theirs, i);
		buf_byte(out, '\n');
	}
}

// libunwind does not say whether CFI told it of a root.
static bool is_alike(enum unwind_end ours, enum unwind_end theirs)
{
	return ours == theirs || (unwind_end_is_root(ours) && unwind_end_is_root(theirs));
}

static bool is_mapped_code(const struct unwind_input *input, uint64_t addr, struct unwind_map *map)
{
	*map = input->map(input->map_context, addr);
	return map->end > map->start && (map->image != NULL || map->missing != UNWIND_NO_MAPPING);
}

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

enum call { CALLS_NOT, CALLS, CALLS_THROUGH, CALLS_ELSEWHERE, CALL_UNREADABLE };

// What ends before an address: no call; one that can have led to `pc`, or through a function that jumps on; one to another function.
static enum call call_before(const struct unwind_input *input, const struct unwind_arch *arch, uint64_t ra, uint64_t pc)
{
	enum { FUNCTION_BYTES = 1 << 16 };
	struct unwind_map map;
	struct bytes code;
	int64_t distance;

	if (!is_mapped_code(input, ra - 1, &map))
		return CALLS_NOT;
	if (map.image == NULL)
		return CALL_UNREADABLE;
	if (arch->is_call == NULL || !image_at_vaddr(map.image->image, ra - UNWIND_CALL_BYTES - map.bias, UNWIND_CALL_BYTES, &code) ||
	    !arch->is_call(code.end, UNWIND_CALL_BYTES, &distance))
		return CALLS_NOT;
	uint64_t target = ra + (uint64_t)distance;
	if (distance == 0 || pc - target < FUNCTION_BYTES)
		return CALLS;
	if (!is_mapped_code(input, target, &map) || map.image == NULL || arch->jumps_on == NULL ||
	    !image_at_vaddr(map.image->image, target - map.bias, UNWIND_JUMP_BYTES, &code))
		return CALLS_ELSEWHERE;
	return arch->jumps_on(code.at, UNWIND_JUMP_BYTES) ? CALLS_THROUGH : CALLS_ELSEWHERE;
}

static enum kind kind_of_call(const struct unwind_input *input, const struct unwind_arch *arch, uint64_t ra, uint64_t pc)
{
	enum call call = call_before(input, arch, ra, pc);

	return call == CALLS || call == CALLS_THROUGH ? LEFT_OUT : call == CALLS_NOT ? DIVERGED : UNSEEN_CALL;
}

// Is frame `at` of ours the one that libunwind lacks, and rightly ours? It is the caller at sp that libunwind passes over by the frame pointer's pair; or
// that pair's return address: then libunwind took the caller at sp, but with it the frame pointer of the pair, which is the next frame's.
static enum kind kind_of_extra(const struct unwind_input *input, const struct unwind_stack *ours, const struct unwind_stack *theirs, size_t at)
{
	const struct unwind_arch *arch = unwind_arch_for(input->machine);
	uint64_t paired;
	size_t more = ours->count > theirs->count ? ours->count - theirs->count : 0;

	if (arch == NULL || at == 0 || more == 0 || more > 2 || at + more > ours->count)
		return DIVERGED;
	for (size_t i = 0; i < theirs->count; i++)
		if (ours->frames[i < at ? i : i + more].addr != theirs->frames[i].addr)
			return DIVERGED;
	if (more == 2) { // that one had no frame yet either: its caller, which stands there too, is left out with it
		enum kind next = kind_of_call(input, arch, ours->frames[at + 1].addr, ours->frames[at].addr);
		if (next == DIVERGED || ours->frames[at].via != VIA_LEAF_RULE || ours->frames[at + 1].via != VIA_LEAF_RULE)
			return DIVERGED;
	}
	if (ours->frames[at].via == VIA_LEAF_RULE)
		return kind_of_call(input, arch, ours->frames[at].addr, ours->frames[at - 1].addr);
	if (at < 2 || ours->frames[at].via != VIA_FP || ours->frames[at - 1].via != VIA_LEAF_RULE ||
	    !copied_word(input, arch, arch->perf_fp, 1, &paired) || paired != ours->frames[at].addr)
		return DIVERGED;
	return LEFT_OUT;
}

// `*extra`: the frame of ours that libunwind lacks, where the kind is of those.
static enum kind kind_of(const struct unwind_input *input, const struct unwind_stack *ours, const struct unwind_stack *theirs, size_t same,
                         size_t *extra)
{
	const struct unwind_arch *arch = unwind_arch_for(input->machine);

	if (same == ours->count && same == theirs->count)
		return is_alike(ours->end, theirs->end) ? SAME : OTHER_END;
	if (same == theirs->count)
		return OURS_LONGER;
	if (same == ours->count)
		return THEIRS_LONGER;
	// A caller that recurses has its address there more than once: the frame too many may stand before the first that differs.
	for (size_t at = 1; at <= same; at++) {
		enum kind kind = kind_of_extra(input, ours, theirs, at);
		*extra = at;
		if (kind != DIVERGED)
			return kind;
	}
	if (arch == NULL || same == 0 || theirs->frames[same].kind != FRAME_RETURN)
		return DIVERGED;
	return call_before(input, arch, theirs->frames[same].addr, 0) == CALLS_NOT ? NO_CALL : DIVERGED;
}

static uint64_t key_of(const struct record *record, uint64_t addr)
{
	return hash_pair((uint32_t)record->id.pid, addr);
}

// An address that other stacks were returned to is behind a call.
static void settle_unseen(struct comparison *c)
{
	for (size_t i = 0; i < c->unseen.count; i++) {
		if (hash_map_get(&c->returned, c->unseen.data[i].key) == NULL)
			continue;
		c->kinds[UNSEEN_CALL]--;
		c->kinds[LEFT_OUT]++;
		c->completed_kinds[UNSEEN_CALL] -= c->unseen.data[i].completed;
		c->completed_kinds[LEFT_OUT] += c->unseen.data[i].completed;
	}
}

static void take_stack(void *context, const struct record *record, const struct unwind_input *input, const struct unwind_stack *ours,
                       const struct unwind_stack *theirs)
{
	struct comparison *c = context;
	size_t same = 0;
	while (same < ours->count && same < theirs->count && ours->frames[same].addr == theirs->frames[same].addr)
		same++;
	size_t extra = 0;
	enum kind kind = kind_of(input, ours, theirs, same, &extra);
	for (size_t i = 2; i < same && kind != DIVERGED; i++) {
		struct unwind_map map = input->map(input->map_context, frame_lookup_addr(&ours->frames[i]));
		if (map.image == NULL && ours->frames[i].kind == FRAME_RETURN)
			hash_map_put(&c->returned, key_of(record, ours->frames[i].addr), 1, NULL);
	}
	if (kind == UNSEEN_CALL)
		vec_push(&c->unseen, (struct unseen){ key_of(record, ours->frames[extra].addr), theirs->end == UNWIND_ROOT });
	c->stacks++;
	c->kinds[kind]++;
	if (theirs->end == UNWIND_ROOT) {
		c->completed++;
		c->completed_kinds[kind]++;
	}
	c->ends[0][ours->end]++;
	c->ends[1][theirs->end]++;
	c->frames[0] += ours->count;
	c->frames[1] += theirs->count;
	if (kind != SAME && c->examples_kept[kind]++ < c->shown)
		keep_example(&c->examples[kind], record, input, ours, theirs, same);
}

static void take_time(void *context, uint64_t ours_ns, uint64_t theirs_ns)
{
	struct comparison *c = context;
	c->time_ns[0] += ours_ns;
	c->time_ns[1] += theirs_ns;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void put_result(struct buf *out, const struct comparison *c)
{
	static const char *const names[2] = { "ours", "libunwind" };
	buf_printf(out, "stacks with a copy  %" PRIu64 "\n", c->stacks);
	uint64_t same = c->completed_kinds[SAME] + c->completed_kinds[OTHER_END];
	uint64_t wrong = c->completed_kinds[LEFT_OUT] + c->completed_kinds[NO_CALL];
	buf_printf(out, "libunwind completes %" PRIu64 " (%.2f%%); of these the same frames %" PRIu64 " (%.3f%%)\n", c->completed,
	           share(c->completed, c->stacks), same, share(same, c->completed));
	if (wrong > 0)
		buf_printf(out, "  and libunwind wrong by the code and the copy: %" PRIu64 "; of the others the same %.3f%%\n", wrong, share(same, c->completed - wrong));
	for (size_t kind = 0; kind < KINDS; kind++) {
		if (c->kinds[kind] == 0)
			continue;
		buf_printf(out, "  %-26s %" PRIu64 " (%.3f%%), %" PRIu64 " where libunwind completes\n", kind_texts[kind], c->kinds[kind],
		           share(c->kinds[kind], c->stacks), c->completed_kinds[kind]);
		buf_add(out, c->examples[kind].data, c->examples[kind].size);
	}
	for (size_t i = 0; i < 2; i++) {
		// Two passes were timed for libunwind, one for ours.
		double frames = (double)c->frames[i] * (i == 0 ? 1 : 2);
		buf_printf(out, "%-9s  %.1f ns a frame (%" PRIu64 " frames); ends:", names[i], frames > 0 ? (double)c->time_ns[i] / frames : 0, c->frames[i]);
		for (int end = 0; end < UNWIND_END_COUNT; end++)
			if (c->ends[i][end] > 0)
				buf_printf(out, " %s %" PRIu64, unwind_end_name((enum unwind_end)end), c->ends[i][end]);
		buf_byte(out, '\n');
	}
}

int debug_unwind(const char *path, unsigned examples)
{
	struct comparison comparison = { .shown = examples };
	struct profile profile;
	struct err err = { 0 };
	struct buf out = { 0 };
	const struct load_compare compare = { .context = &comparison, .stack = take_stack, .time = take_time };
	struct load_options options = load_defaults();
	options.input = path;
	options.symbols = false;
	options.jobs = 1;
	options.compare = &compare;
	bool good = load_profile(&profile, &options, &err);
	if (good && comparison.stacks == 0)
		good = err_set(&err, STATUS_INPUT, "%s: no stack copies in it (perf record --call-graph dwarf and record --unwind post make some)", path);
	if (good) {
		settle_unseen(&comparison);
		put_result(&out, &comparison);
		good = output_write(buf_text(&out), out.size, &err);
	}
	if (!good)
		log_error("%s", err.text);
	for (size_t i = 0; i < KINDS; i++)
		buf_release(&comparison.examples[i]);
	vec_release(&comparison.unseen);
	hash_map_release(&comparison.returned);
	buf_release(&out);
	profile_release(&profile);
	return good ? STATUS_OK : (int)err.status;
}
