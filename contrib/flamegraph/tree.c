#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

enum { MOST_NODES = 1 << 28 };

void flame_tree_init(struct flame_tree *tree)
{
	*tree = (struct flame_tree){ 0 };
	intern_init(&tree->names);
	vec_push(&tree->nodes, (struct flame_node){ 0 });
}

void flame_tree_release(struct flame_tree *tree)
{
	intern_release(&tree->names);
	vec_release(&tree->nodes);
	hash_map_release(&tree->index);
}

uint32_t flame_tree_child(struct flame_tree *tree, uint32_t parent, uint32_t name)
{
	uint32_t next = (uint32_t)tree->nodes.count;
	if (next >= MOST_NODES)
		return UINT32_MAX;
	bool is_new;
	uint32_t node = *hash_map_put(&tree->index, (uint64_t)parent << 32 | name, next, &is_new);
	if (is_new) {
		struct flame_node fresh = { .parent = parent, .name = name, .depth = tree->nodes.data[parent].depth + 1 };
		vec_push(&tree->nodes, fresh);
	}
	return node;
}

// The count at the end of a line, and the length of the stack before it; false: not folded.
static bool split(const char *line, size_t length, size_t *stack_length, uint64_t *count)
{
	size_t at = length;
	uint64_t value = 0, scale = 1;
	while (at > 0 && line[at - 1] >= '0' && line[at - 1] <= '9' && length - at < 18) {
		value += (uint64_t)(line[--at] - '0') * scale;
		scale *= 10;
	}
	if (at == length || at < 2 || line[at - 1] != ' ')
		return false;
	*stack_length = at - 1;
	*count = value;
	return true;
}

static bool add_stack(struct flame_tree *tree, const char *stack, size_t length, uint64_t count, uint64_t samples, bool reverse, struct err *err)
{
	uint32_t node = 0;
	const char *end = stack + length;
	if (count > UINT64_MAX / 2 - tree->nodes.data[0].total)
		return err_set(err, STATUS_INPUT, "the counts add up to more than 64 bits hold");
	tree->nodes.data[0].total += count;
	tree->nodes.data[0].samples += samples;
	for (bool is_more = true; is_more;) {
		const char *name, *stop;
		if (reverse) {
			const char *semicolon = memrchr(stack, ';', (size_t)(end - stack));
			name = semicolon != NULL ? semicolon + 1 : stack;
			stop = end;
			end = semicolon != NULL ? semicolon : stack;
			is_more = semicolon != NULL;
		} else {
			const char *semicolon = memchr(stack, ';', (size_t)(end - stack));
			name = stack;
			stop = semicolon != NULL ? semicolon : end;
			stack = stop + 1;
			is_more = semicolon != NULL;
		}
		node = flame_tree_child(tree, node, intern_bytes(&tree->names, name, (size_t)(stop - name)));
		if (node == UINT32_MAX)
			return err_set(err, STATUS_INPUT, "more than %d different frames", MOST_NODES);
		tree->nodes.data[node].total += count;
		tree->nodes.data[node].samples += samples;
	}
	tree->nodes.data[node].self += count;
	return true;
}

bool flame_tree_add(struct flame_tree *tree, const char *folded, size_t size, bool reverse, bool both, struct err *err)
{
	size_t number = 1;
	for (const char *line = folded, *end = folded + size; line < end; number++) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		const char *stop = newline != NULL ? newline : end;
		size_t length = (size_t)(stop - line), stack_length;
		uint64_t count, samples = 0;
		if (length > 0 && line[length - 1] == '\r')
			length--;
		bool is_good = length == 0 || !both || split(line, length, &length, &samples);
		if (length > 0 && !(is_good && split(line, length, &stack_length, &count)))
			return err_set(err, STATUS_INPUT, both ? "line %zu: expected 'frame;frame;frame COUNT SAMPLES'" : "line %zu: expected 'frame;frame;frame COUNT'", number);
		if (length > 0 && count > 0 && !add_stack(tree, line, stack_length, count, samples, reverse, err))
			return err_context(err, "line %zu", number);
		line = stop + 1;
	}
	return true;
}

struct order { uint32_t parent, node; const char *name; size_t length; };

// Children of one parent together, by name.
static int compare(const void *a, const void *b)
{
	const struct order *x = a, *y = b;
	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	size_t least = x->length < y->length ? x->length : y->length;
	int by_name = memcmp(x->name, y->name, least);
	return by_name != 0 ? by_name : x->length < y->length ? -1 : x->length > y->length;
}

struct flame_children flame_tree_children(const struct flame_tree *tree)
{
	size_t count = tree->nodes.count;
	struct order *orders = mem_zero(count, sizeof(*orders));
	for (size_t i = 1; i < count; i++) {
		const struct flame_node *n = &tree->nodes.data[i];
		orders[i - 1] = (struct order){ n->parent, (uint32_t)i, intern_text(&tree->names, n->name), intern_length(&tree->names, n->name) };
	}
	sort_stable(orders, count - 1, sizeof(*orders), compare);
	struct flame_children c = { mem_zero(count, sizeof(*c.nodes)), mem_zero(count + 1, sizeof(*c.first)) };
	for (size_t i = 0, node = 0; node <= count; node++) {
		c.first[node] = i;
		for (; i < count - 1 && orders[i].parent == node; i++)
			c.nodes[i] = orders[i].node;
	}
	free(orders);
	return c;
}

struct cursor { uint32_t node; size_t next; uint64_t start; uint64_t merged_total, merged_samples; uint32_t merged; };

static void push_box(struct flame_boxes *boxes, struct flame_box box)
{
	vec_push(&boxes->items, box);
	if (box.depth > boxes->depth)
		boxes->depth = box.depth;
}

// Depth first with a stack of our own: recorded stacks have thousands of frames.
void flame_tree_layout(const struct flame_tree *tree, double least, struct flame_boxes *boxes)
{
	struct flame_children children = flame_tree_children(tree);
	VEC(struct cursor) path = { 0 };
	const struct flame_node *nodes = tree->nodes.data;
	push_box(boxes, (struct flame_box){ .total = nodes[0].total, .self = nodes[0].self, .samples = nodes[0].samples });
	vec_push(&path, (struct cursor){ .next = children.first[0] });
	while (path.count > 0) {
		struct cursor *at = &path.data[path.count - 1];
		if (at->next == children.first[at->node + 1]) {
			if (at->merged > 0 && (double)at->merged_total >= least)
				push_box(boxes, (struct flame_box){ .node = at->node, .merged = at->merged, .depth = nodes[at->node].depth + 1,
				                                    .start = at->start, .total = at->merged_total, .self = at->merged_total, .samples = at->merged_samples });
			path.count--;
			continue;
		}
		uint32_t node = children.nodes[at->next++];
		const struct flame_node *n = &nodes[node];
		if ((double)n->total < least) {
			at->merged++;
			at->merged_total += n->total;
			at->merged_samples += n->samples;
			continue;
		}
		uint64_t start = at->start;
		at->start += n->total;
		push_box(boxes, (struct flame_box){ .node = node, .depth = n->depth, .start = start, .total = n->total, .self = n->self, .samples = n->samples });
		vec_push(&path, (struct cursor){ .node = node, .next = children.first[node], .start = start });
	}
	vec_release(&path);
	free(children.nodes);
	free(children.first);
}
