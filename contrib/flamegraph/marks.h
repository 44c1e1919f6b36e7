// Marks at the end of a folded frame's name. Inside contrib/flamegraph only.
#ifndef FLAMEGRAPH_MARKS_H
#define FLAMEGRAPH_MARKS_H

#include <stddef.h>

enum mark_kind { MARK_KIND_USER, MARK_KIND_INLINED, MARK_KIND_KERNEL, MARK_KIND_JIT, MARK_KIND_END, MARK_KIND_MERGED, MARK_KINDS };

// A frame's kind by its marks, which are cut off `length`.
enum mark_kind mark_of(const char *name, size_t *length);
// A comparison's mark, "_[+1]" … "_[+3]", "_[+?]" and the same with '-', cut off `length`: 1 to 3, 4 for '?', negative for '-'; 0: none.
int mark_of_change(const char *name, size_t *length);

#endif
