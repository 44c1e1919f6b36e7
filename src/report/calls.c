// Callers and callees of a row as a tree: every sample that shows the row, once, at the row's innermost place (callers) or outermost (callees).
#include <stdlib.h>
#include <string.h>

#include "report/build.h"

enum { MAX_CALL_DEPTH = 64 };

struct branch { uint32_t line; /* index into chains, or ~frame where it has none */ uint32_t parent, first_child, next; double weight; };

struct call_tree {
	VEC(struct branch) branches; // [0] is the row itself
	struct hash_map children;    // parent << 32 | place -> branch
	VEC(struct stack_step) steps;
	VEC(struct call_node) out;
};

// Places are told apart by function, not by line.
static uint32_t place_of(const struct profile *p, const struct stack_step *step)
{
	return step->line != PROFILE_NONE ? p->chains.data[step->line].function : 0x80000000u | step->frame;
}

static uint32_t child_of(struct call_tree *tree, uint32_t parent, uint32_t place, double weight)
{
	bool is_new;
	uint32_t id = *hash_map_put(&tree->children, (uint64_t)parent << 32 | place, (uint32_t)tree->branches.count, &is_new);
	if (is_new) {
		struct branch b = { .line = place, .parent = parent, .next = tree->branches.data[parent].first_child };
		vec_push(&tree->branches, b);
		tree->branches.data[parent].first_child = id;
	}
	tree->branches.data[id].weight += weight;
	return id;
}

static bool step_is_row(const struct profile *p, const struct stack_step *step, const struct report_row *row)
{
	const char *name = "[unknown]", *dso = "[unknown]";
	uint32_t dso_id = p->frames.data[step->frame].dso;
	if (step->line != PROFILE_NONE) {
		const struct profile_function *f = &p->functions.data[p->chains.data[step->line].function];
		name = profile_text(p, f->name);
		dso_id = f->dso;
	}
	if (dso_id != PROFILE_NONE)
		dso = profile_text(p, p->dsos.data[dso_id].short_name);
	return (row->keys[KEY_SYMBOL] == NULL || strcmp(row->keys[KEY_SYMBOL], name) == 0)
		&& (row->keys[KEY_DSO] == NULL || strcmp(row->keys[KEY_DSO], dso) == 0);
}

// Root first in steps. Callers of the innermost place, callees of the outermost.
static void add_stack(struct call_tree *tree, const struct build *b, const struct report_row *row, uint32_t stack, double weight)
{
	const struct profile *p = b->profile;
	size_t count = profile_stack(p, stack, b->options->inlines, tree->steps.data, tree->steps.capacity);
	if (count > tree->steps.capacity) {
		vec_reserve(&tree->steps, count);
		count = profile_stack(p, stack, b->options->inlines, tree->steps.data, tree->steps.capacity);
	}
	const struct stack_step *steps = tree->steps.data;
	bool callers = b->options->calls == CALLS_CALLER;
	size_t at = callers ? count : 0;
	if (callers) {
		if (count == 0 || !step_is_row(p, &steps[count - 1], row))
			return; // by self: the row's own samples
		at = count - 1;
	} else {
		while (at < count && !step_is_row(p, &steps[at], row))
			at++;
		if (at == count)
			return;
	}
	tree->branches.data[0].weight += weight;
	uint32_t parent = 0;
	for (size_t depth = 0; depth < MAX_CALL_DEPTH; depth++) {
		if (callers ? at == 0 : at + 1 >= count)
			break;
		at = callers ? at - 1 : at + 1;
		parent = child_of(tree, parent, place_of(p, &steps[at]), weight);
	}
}

static void emit(struct call_tree *tree, const struct build *b, uint32_t id, uint32_t depth)
{
	const struct profile *p = b->profile;
	double least = tree->branches.data[0].weight * b->options->calls_limit / 100;
	VEC(uint32_t) order = { 0 };
	for (uint32_t c = tree->branches.data[id].first_child; c != 0; c = tree->branches.data[c].next) {
		if (tree->branches.data[c].weight < least)
			continue;
		size_t at = order.count;
		vec_push(&order, c);
		while (at > 0 && tree->branches.data[order.data[at - 1]].weight < tree->branches.data[c].weight) {
			order.data[at] = order.data[at - 1];
			at--;
		}
		order.data[at] = c;
	}
	for (size_t i = 0; i < order.count; i++) {
		const struct branch *branch = &tree->branches.data[order.data[i]];
		struct call_node node = { "[unknown]", "[unknown]", depth, branch->weight / b->tally.weight };
		bool is_function = (branch->line & 0x80000000u) == 0;
		uint32_t dso = is_function ? p->functions.data[branch->line].dso : p->frames.data[branch->line & 0x7fffffff].dso;
		if (is_function)
			node.name = profile_text(p, p->functions.data[branch->line].name);
		if (dso != PROFILE_NONE)
			node.dso = profile_text(p, p->dsos.data[dso].short_name);
		vec_push(&tree->out, node);
		emit(tree, b, order.data[i], depth + 1);
	}
	vec_release(&order);
}

// Weight by distinct stack, so that each stack is walked once a row.
struct stack_weight { uint32_t stack; double weight; };

static struct stack_weight *weigh_stacks(const struct build *b, size_t *count)
{
	struct report_filter filter = b->options->filter;
	filter.dsos = filter.symbols = NULL;
	double *weights = mem_zero(b->profile->nodes.count + 1, sizeof(*weights));
	for (size_t i = 0; i < b->profile->samples.count; i++) {
		const struct profile_sample *s = &b->profile->samples.data[i];
		if (s->event == b->event_id && s->stack != PROFILE_NONE && (!s->is_idle || b->options->idle) && filter_keeps(&filter, b->profile, s))
			weights[s->stack] += b->tally.is_weighted ? (double)s->weight : 1;
	}
	struct stack_weight *out = mem_alloc((b->profile->nodes.count + 1) * sizeof(*out));
	*count = 0;
	for (size_t i = 0; i < b->profile->nodes.count; i++)
		if (weights[i] > 0)
			out[(*count)++] = (struct stack_weight){ (uint32_t)i, weights[i] };
	free(weights);
	return out;
}

void build_calls(struct build *b)
{
	struct report_event *event = b->event;
	if ((b->tally.keys & 1 << KEY_SYMBOL) == 0)
		return;
	size_t count;
	struct stack_weight *stacks = weigh_stacks(b, &count);
	enum { MAX_ROWS = 100 }; // each is a walk over all stacks
	for (size_t i = 0; i < event->rows_kept && i < MAX_ROWS; i++) {
		struct call_tree tree = { 0 };
		vec_push(&tree.branches, (struct branch){ 0 });
		for (size_t s = 0; s < count; s++)
			add_stack(&tree, b, &event->rows.data[i], stacks[s].stack, stacks[s].weight);
		emit(&tree, b, 0, 0);
		struct call_node *own = arena_alloc(&b->report->arena, tree.out.count * sizeof(*own) + 1);
		if (tree.out.count > 0)
			memcpy(own, tree.out.data, tree.out.count * sizeof(*own));
		event->rows.data[i].calls = own;
		event->rows.data[i].call_count = tree.out.count;
		vec_release(&tree.branches);
		hash_map_release(&tree.children);
		vec_release(&tree.steps);
		vec_release(&tree.out);
	}
	free(stacks);
}
