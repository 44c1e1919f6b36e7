#include "cmd/debug.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/terminal.h"
#include "cmd/debug_kinds.h"
#include "load/load.h"
#include "unwind/rule_table.h"
#include "unwind/unwind.h"

struct comparison {
	struct witness *witness; // NULL: there is none
	struct frame *frames;    // room for its
	uint64_t stacks, completed; // completed: by libunwind
	uint64_t kinds[KIND_COUNT], completed_kinds[KIND_COUNT];
	uint64_t told, both_told;   // stacks of which instructions told a frame or more; of these, those that are the same in all
	uint64_t ends[2][UNWIND_END_COUNT]; // ours, libunwind's
	uint64_t frames_seen[2], time_ns[2];
	unsigned shown; // examples of each kind
	unsigned examples_kept[KIND_COUNT];
	struct buf examples[KIND_COUNT];
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

static bool is_told(const struct unwind_stack *third, size_t i)
{
	return third->frames != NULL && i > 0 && i < third->count && third->frames[i].via == VIA_NONE;
}

// From the frame before the first that differs to where the two have the same again.
static void keep_example(struct buf *out, const struct record *record, const struct unwind_input *input, const struct unwind_stack *ours,
                         const struct unwind_stack *theirs, const struct unwind_stack *third, size_t first)
{
	enum { FRAMES_AFTER = 2 };

	buf_printf(out, "      at %.6f, thread %d, %zu frames and %zu\n", (double)record->id.time_ns / 1e9, record->id.tid, ours->count, theirs->count);
	for (size_t i = first > 0 ? first - 1 : 0; i <= first + FRAMES_AFTER; i++) {
		buf_printf(out, "      frame %zu: ours ", i);
		put_address(out, input, ours, i);
		buf_string(out, ", libunwind ");
		put_address(out, input, theirs, i);
		if (is_told(third, i)) {
			buf_string(out, ", by the instructions ");
			put_address(out, input, third, i);
		}
		buf_byte(out, '\n');
		if (i >= ours->count && i >= theirs->count)
			break;
	}
}

static void take_stack(void *context, const struct record *record, const struct unwind_input *input, const struct unwind_stack *ours,
                       const struct unwind_stack *theirs)
{
	struct comparison *c = context;
	struct unwind_stack third = { .frames = c->witness != NULL ? c->frames : NULL, .capacity = UNWIND_MAX_FRAMES };
	size_t first = 0;
	if (c->witness != NULL)
		witness_stack(c->witness, input, ours, theirs, &third);
	enum kind kind = kind_of(c->witness, input, ours, theirs, c->witness != NULL ? &third : NULL, &first);
	bool has_told = false;
	for (size_t i = 0; i < third.count; i++)
		has_told = has_told || is_told(&third, i);
	c->told += has_told;
	c->both_told += has_told && (kind == KIND_SAME || kind == KIND_OTHER_END);
	c->stacks++;
	c->kinds[kind]++;
	if (theirs->end == UNWIND_ROOT) {
		c->completed++;
		c->completed_kinds[kind]++;
	}
	c->ends[0][ours->end]++;
	c->ends[1][theirs->end]++;
	c->frames_seen[0] += ours->count;
	c->frames_seen[1] += theirs->count;
	if (kind != KIND_SAME && c->examples_kept[kind]++ < c->shown)
		keep_example(&c->examples[kind], record, input, ours, theirs, &third, first);
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
	uint64_t same = c->completed_kinds[KIND_SAME] + c->completed_kinds[KIND_OTHER_END], wrong = c->completed_kinds[KIND_PEER_WRONG];
	buf_printf(out, "libunwind completes %" PRIu64 " (%.2f%%); of these the same frames %" PRIu64 " (%.3f%%)\n", c->completed,
	           share(c->completed, c->stacks), same, share(same, c->completed));
	if (wrong > 0)
		buf_printf(out, "  and libunwind is proven wrong %" PRIu64 "; both together %.3f%%\n", wrong, share(same + wrong, c->completed));
	if (c->told > 0)
		buf_printf(out, "  frames told by the functions' instructions in %" PRIu64 " stacks, of which %" PRIu64 " are the same in all three\n", c->told, c->both_told);
	struct witness_counts told = c->witness != NULL ? witness_counts(c->witness) : (struct witness_counts){ 0 };
	if (told.contradictions > 0)
		buf_printf(out, "  in %" PRIu64 " frames the instructions are not believed: followed from the beginning they say another caller than run on\n",
		           told.contradictions);
	for (size_t kind = 0; kind < KIND_COUNT; kind++) {
		if (c->kinds[kind] == 0)
			continue;
		buf_printf(out, "  %-26s %" PRIu64 " (%.3f%%), %" PRIu64 " where libunwind completes\n", kind_text((enum kind)kind), c->kinds[kind],
		           share(c->kinds[kind], c->stacks), c->completed_kinds[kind]);
		buf_add(out, c->examples[kind].data, c->examples[kind].size);
	}
	for (size_t i = 0; i < 2; i++) {
		buf_printf(out, "%-9s  %.1f ns a frame (%" PRIu64 " frames); ends:", names[i],
		           c->frames_seen[i] > 0 ? (double)c->time_ns[i] / (double)c->frames_seen[i] : 0, c->frames_seen[i]);
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
	// Without libunwind there is nothing to compare, which load_profile says.
	if (witness_new(&comparison.witness, &err))
		comparison.frames = mem_zero(UNWIND_MAX_FRAMES, sizeof(*comparison.frames));
	else
		log_warn("nothing is proven: %s", err.text);
	err = (struct err){ 0 };
	bool good = load_profile(&profile, &options, &err);
	if (good && comparison.stacks == 0)
		good = err_set(&err, STATUS_INPUT, "%s: no stack copies in it (perf record --call-graph dwarf and record --unwind post make some)", path);
	if (good) {
		put_result(&out, &comparison);
		good = output_write(buf_text(&out), out.size, &err);
	}
	if (!good)
		log_error("%s", err.text);
	for (size_t i = 0; i < KIND_COUNT; i++)
		buf_release(&comparison.examples[i]);
	witness_free(comparison.witness);
	free(comparison.frames);
	buf_release(&out);
	profile_release(&profile);
	return good ? STATUS_OK : (int)err.status;
}
