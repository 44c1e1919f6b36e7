#include "cmd/debug.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/log.h"
#include "cli/terminal.h"
#include "load/load.h"
#include "unwind/rule_table.h"
#include "unwind/unwind.h"

enum kind { SAME, OTHER_END, OURS_LONGER, THEIRS_LONGER, DIVERGED, KINDS };
static const char *const kind_texts[KINDS] = {
	"identical", "same frames, another end", "ours goes on", "libunwind goes on", "frames differ",
};

struct comparison {
	uint64_t stacks, completed; // completed: by libunwind
	uint64_t kinds[KINDS], completed_kinds[KINDS];
	uint64_t ends[2][UNWIND_END_COUNT]; // ours, libunwind's
	uint64_t frames[2], time_ns[2];
	struct buf examples[KINDS];
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
	if (map.image == NULL)
		return;
	buf_string(out, " (");
	escape_terminal(out, map.image->image->path, strlen(map.image->image->path));
	buf_printf(out, " %#" PRIx64 ")", stack->frames[i].addr - map.bias);
}

static void keep_example(struct buf *out, const struct record *record, const struct unwind_input *input, const struct unwind_stack *ours,
                         const struct unwind_stack *theirs, size_t first)
{
	if (out->size > 0)
		return;
	buf_printf(out, "      at %.6f, thread %d, %zu frames and %zu\n", (double)record->id.time_ns / 1e9, record->id.tid, ours->count, theirs->count);
	for (size_t i = first > 0 ? first - 1 : 0; i <= first; i++) {
		buf_printf(out, "      frame %zu: ours ", i);
		put_address(out, input, ours, i);
		buf_string(out, ", libunwind ");
		put_address(out, input, theirs, i);
		buf_byte(out, '\n');
	}
}

static void take_stack(void *context, const struct record *record, const struct unwind_input *input, const struct unwind_stack *ours,
                       const struct unwind_stack *theirs)
{
	struct comparison *c = context;
	size_t same = 0;
	while (same < ours->count && same < theirs->count && ours->frames[same].addr == theirs->frames[same].addr)
		same++;
	enum kind kind = same < ours->count && same < theirs->count ? DIVERGED : ours->count > theirs->count ? OURS_LONGER :
		ours->count < theirs->count ? THEIRS_LONGER : ours->end != theirs->end ? OTHER_END : SAME;
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
	if (kind != SAME)
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
	buf_printf(out, "libunwind completes %" PRIu64 " (%.2f%%); of these the same frames %" PRIu64 " (%.3f%%)\n", c->completed,
	           share(c->completed, c->stacks), c->completed_kinds[SAME] + c->completed_kinds[OTHER_END],
	           share(c->completed_kinds[SAME] + c->completed_kinds[OTHER_END], c->completed));
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

int debug_unwind(const char *path)
{
	struct comparison comparison = { 0 };
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
		put_result(&out, &comparison);
		good = output_write(buf_text(&out), out.size, &err);
	}
	if (!good)
		log_error("%s", err.text);
	for (size_t i = 0; i < KINDS; i++)
		buf_release(&comparison.examples[i]);
	buf_release(&out);
	profile_release(&profile);
	return good ? STATUS_OK : (int)err.status;
}
