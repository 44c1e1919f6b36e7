// Callers or callees of a row as a tree: every sample that the row counts, once.
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
	return strcmp(row->keys[KEY_SYMBOL], name) == 0 && strcmp(row->keys[KEY_DSO], dso) == 0;
}

// Where the row stands on the stack (root first): callers are told from its innermost place, callees from its outermost. By self it must be
// the function that has the innermost code. `count`: not there.
static size_t find_row(const struct build *b, const struct report_row *row, const struct stack_step *steps, size_t count)
{
	const struct profile *p = b->profile;
	if (b->options->calls == CALLS_CALLEE) {
		size_t at = 0;
		while (at < count && !step_is_row(p, &steps[at], row))
			at++;
		return at;
	}
	size_t at = count;
	if (b->options->children) {
		while (at > 0 && !step_is_row(p, &steps[at - 1], row))
			at--;
		return at > 0 ? at - 1 : count;
	}
	uint32_t lines = count > 0 ? p->frames.data[steps[count - 1].frame].line_count : 0;
	size_t inlined = b->options->inlines && lines > 1 ? lines - 1 : 0;
	if (count <= inlined)
		return count;
	at = count - 1 - inlined;
	return step_is_row(p, &steps[at], row) ? at : count;
}

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
	if (steps == NULL || count == 0)
		return;
	size_t at = find_row(b, row, steps, count);
	if (at == count)
		return;
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

static bool context_matches(const struct build *b, const struct report_row *row, const struct profile_sample *s)
{
	const struct tally_context *c = &b->tally.contexts.data[b->tally.rows.data[row->tally_row].context];
	unsigned keys = b->tally.keys;
	return ((keys & 1 << KEY_COMM) == 0 || c->comm == s->comm) && ((keys & 1 << KEY_PID) == 0 || c->pid == s->pid)
		&& ((keys & 1 << KEY_TID) == 0 || c->tid == s->tid) && ((keys & 1 << KEY_CPU) == 0 || c->cpu == s->cpu);
}

// Weight by distinct stack, so that each stack is walked once a row.
struct stack_weight { uint32_t stack; double weight; };

static struct stack_weight *weigh_stacks(const struct build *b, const struct report_row *row, size_t *count)
{
	struct report_filter filter = b->options->filter;
	filter.dsos = filter.symbols = NULL;
	double *weights = mem_zero(b->profile->nodes.count + 1, sizeof(*weights));
	for (size_t i = 0; i < b->profile->samples.count; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&b->profile->samples, i, &s_row);
		if (s->event == b->event_id && s->stack != PROFILE_NONE && (!s->is_idle || b->options->idle) && context_matches(b, row, s)
		    && filter_keeps(&filter, b->profile, s))
			weights[s->stack] += tally_weight(&b->tally, s->weight);
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
	enum { MAX_ROWS = 100, KEYS_OF_CONTEXT = 1 << KEY_COMM | 1 << KEY_PID | 1 << KEY_TID | 1 << KEY_CPU };
	struct report_event *event = b->event;
	if ((b->tally.keys & 1 << KEY_SYMBOL) == 0)
		return;
	bool alike = (b->tally.keys & KEYS_OF_CONTEXT) == 0; // then the stacks of all rows are the same samples'
	struct stack_weight *stacks = NULL;
	size_t count = 0;
	for (size_t i = 0; i < event->rows_kept && i < MAX_ROWS; i++) {
		struct report_row *row = &event->rows.data[i];
		if (!alike || stacks == NULL) {
			free(stacks);
			stacks = weigh_stacks(b, row, &count);
		}
		struct call_tree tree = { 0 };
		vec_push(&tree.branches, (struct branch){ 0 });
		for (size_t s = 0; s < count; s++)
			add_stack(&tree, b, row, stacks[s].stack, stacks[s].weight);
		emit(&tree, b, 0, 0);
		struct call_node *own = arena_alloc(&b->report->arena, tree.out.count * sizeof(*own) + 1);
		if (tree.out.count > 0)
			memcpy(own, tree.out.data, tree.out.count * sizeof(*own));
		row->calls = own;
		row->call_count = tree.out.count;
		vec_release(&tree.branches);
		hash_map_release(&tree.children);
		vec_release(&tree.steps);
		vec_release(&tree.out);
	}
	free(stacks);
}
