// Folded stacks in, a flame graph out: one self-contained SVG or HTML file. Knows nothing but the folded format.
//
// Folded: one stack a line, root first, "a;b;c 12". Marks it understands at the end of a frame's name: "_[k]" kernel, "_[i]" inlined, "_[j]" JIT;
// in comparisons "_[+1]" to "_[+3]" slower, "_[-1]" to "_[-3]" faster, by how sure that is, "_[+?]" and "_[-?]" in these runs only; and whole
// frames in brackets ("[truncated]", "[unwind failed]", "[unknown]") as places where knowledge ends.
#ifndef FLAMEGRAPH_H
#define FLAMEGRAPH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum flamegraph_format { FLAMEGRAPH_SVG, FLAMEGRAPH_HTML };
enum flamegraph_colors { FLAMEGRAPH_WARM, FLAMEGRAPH_COOL, FLAMEGRAPH_GRAY, FLAMEGRAPH_COLORS };

struct flamegraph_options {
	enum flamegraph_format format;
	const char *title;    // UTF-8, not escaped; NULL: "Flame graph"
	const char *subtitle; // lines with '\n' between, or NULL
	const char *unit;     // what the counts count; NULL: "samples"
	bool both_counts;     // each line ends in two counts: behind that of the unit, how many samples it stands for
	unsigned width;       // pixels; 0: as wide as the window, 1200 where no script runs
	bool inverted;        // roots at the top
	bool reverse;         // merge from the leaf
	enum flamegraph_colors colors;
	bool is_comparison;   // coloured by the marks of change, gray where there is none
};

enum { FLAMEGRAPH_LEAST_WIDTH = 200, FLAMEGRAPH_MOST_WIDTH = 20000 };

// By name ("warm", "cool", "gray"); false: none of that name.
bool flamegraph_colors_find(const char *name, enum flamegraph_colors *out);
// Appends the file. STATUS_INPUT names the line that is not folded. The order of the lines does not matter: same stacks, same bytes.
bool flamegraph_render(const char *folded, size_t size, const struct flamegraph_options *options, struct buf *out, struct err *err);

#endif
