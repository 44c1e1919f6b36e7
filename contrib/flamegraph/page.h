// A flame graph as a page with views, selections and intervals: what it is made of. Frames and nodes are made on the way, samples are given
// thread after thread, each thread's in the order of time; the page's script counts them anew for every selection.
#ifndef FLAMEGRAPH_PAGE_H
#define FLAMEGRAPH_PAGE_H

#include "flamegraph.h"
#include "tree.h"

enum flamegraph_kind { FLAMEGRAPH_USER, FLAMEGRAPH_KERNEL, FLAMEGRAPH_JIT, FLAMEGRAPH_UNKNOWN, FLAMEGRAPH_END, FLAMEGRAPH_TOP, FLAMEGRAPH_KINDS };
// END: a place where a stack ends that did not reach its root. TOP: no function, the command all of it is below.

struct flamegraph_frame {
	const char *name, *image; // any bytes; image NULL: none
	enum flamegraph_kind kind;
	bool is_inlined;
	uint32_t row;             // of a comparison, from 1; 0: none
};
struct flamegraph_sample {
	uint32_t node, bin;       // bin of time, below `bins`
	double weight;            // read only with has_weights; else every sample counts 1
};
struct flamegraph_thread { char *name; size_t count; /* of its samples */ };

struct flamegraph_page {
	struct flame_tree tree;   // names are frames, as page.c packs them
	VEC(uint8_t) guessed;     // by node: no unwind information led to any of it
	VEC(struct flamegraph_sample) samples;
	VEC(struct flamegraph_thread) threads; // their samples stand one thread after the other
	bool has_weights;
	uint32_t bins;            // that the time is divided into; the script selects whole fiftieths
	const char *verdict, *verdict_class; // "sound"; "sound", "care" or "bad"; NULL: none is shown
	const char *facts;        // a JSON object that the script reads, no '<' in it; NULL: none
};

void flamegraph_page_init(struct flamegraph_page *page);
void flamegraph_page_release(struct flamegraph_page *page);
uint32_t flamegraph_page_frame(struct flamegraph_page *page, const struct flamegraph_frame *frame);
// The child of `parent` (0: the top) by that frame. UINT32_MAX: too many.
uint32_t flamegraph_page_child(struct flamegraph_page *page, uint32_t parent, uint32_t frame);
void flamegraph_page_thread(struct flamegraph_page *page, const char *name); // those that samples added from now on are of
// Appends the file.
bool flamegraph_page_render(const struct flamegraph_page *page, const struct flamegraph_options *options, struct buf *out, struct err *err);

#endif
