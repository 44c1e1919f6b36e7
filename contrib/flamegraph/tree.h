// Folded stacks as a tree of frames, laid out. Inside contrib/flamegraph only.
#ifndef FLAMEGRAPH_TREE_H
#define FLAMEGRAPH_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/intern.h"
#include "base/vec.h"

struct flame_node {
	uint32_t parent, name; // name: intern id
	uint32_t depth;        // the node that holds everything: 0
	uint64_t total, self;
	uint64_t samples;      // with both counts, of the total; else 0
};

struct flame_tree {
	struct intern names;
	VEC(struct flame_node) nodes; // node 0 holds everything; a parent stands before its children
	struct hash_map index;        // (parent, name) to node
};

// What is drawn, parents first: every node wide enough, and one box for all siblings that are not.
struct flame_box {
	uint32_t node;     // of a box of merged siblings: their parent
	uint32_t merged;   // how many siblings it stands for; 0: it is a node itself
	uint32_t depth;
	uint64_t start, total, self, samples;
};
struct flame_boxes { VEC(struct flame_box) items; uint32_t depth; };

// Children of node n, by name: nodes[first[n] … first[n + 1]). Both arrays are the caller's to free.
struct flame_children { uint32_t *nodes; size_t *first; };

void flame_tree_init(struct flame_tree *tree);
void flame_tree_release(struct flame_tree *tree);
// `both`: behind each count stands how many samples it is.
bool flame_tree_add(struct flame_tree *tree, const char *folded, size_t size, bool reverse, bool both, struct err *err);
// The child of that name, made where there is none yet. UINT32_MAX: the tree is full.
uint32_t flame_tree_child(struct flame_tree *tree, uint32_t parent, uint32_t name);
struct flame_children flame_tree_children(const struct flame_tree *tree);
// Boxes of at least `least` counts (a fraction); smaller siblings are merged into one box, itself left out when smaller.
void flame_tree_layout(const struct flame_tree *tree, double least, struct flame_boxes *boxes);

#endif
