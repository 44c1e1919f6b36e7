// What the exporters of stacks share beyond their texts: places, steps, one trie of stacks that has the marks in it, and threads.
//
// A place is what a viewer shows as a function: a known function; for code without a name the file it is in, in brackets; a mark. A step is a
// place at an address and line: one line of a frame's inline chain. Both are numbered densely, so that tables of them are arrays.
#ifndef PERFSAMPLE_EXPORT_PLACE_H
#define PERFSAMPLE_EXPORT_PLACE_H

#include "export/exporter.h"
#include "export/stack_text.h"

enum stack_mark_id { MARK_TRUNCATED, MARK_FAILED, MARK_EMPTY, MARK_COUNT }; // EMPTY: a sample that has no frame at all

struct export_step { uint32_t place, frame, line; bool is_mark; }; // frame: PROFILE_NONE for a mark; line: of profile->chains, or PROFILE_NONE

size_t export_place_count(const struct profile *profile);
// Appends its name as it is, not escaped: "read", "[libc.so.6]", "[truncated]".
void export_place_name(const struct profile *profile, uint32_t place, struct buf *out);
uint32_t export_place_dso(const struct profile *profile, uint32_t place); // PROFILE_NONE: none
bool export_place_is_known(const struct profile *profile, uint32_t place);

// The step of a frame at one line of its chain, or of a mark.
struct export_step export_step_of(const struct profile *profile, uint32_t frame, uint32_t line);
struct export_step export_mark_step(const struct profile *profile, enum stack_mark_id mark);
// The place's source file where lines are known, else its dso's path, else "". Not escaped.
const char *export_step_file(const struct profile *profile, const struct export_step *step);
uint32_t export_step_line(const struct profile *profile, const struct export_step *step); // 0: not known
bool export_step_is_kernel(const struct profile *profile, const struct export_step *step);
bool export_step_is_guessed(const struct profile *profile, const struct export_step *step); // its frame was found without CFI
bool export_step_is_inlined(const struct profile *profile, const struct export_step *step);

// Stacks, root first; a stack that did not reach its root has its mark there.
struct export_node { uint32_t parent /* PROFILE_NONE: root */, step; };
struct export_stacks {
	const struct profile *profile;
	bool inlines;
	VEC(struct export_node) nodes; // parents before children
	VEC(struct export_step) steps;
	struct hash_map node_ids, step_ids, memo; // private, as is `walked`
	struct stack_steps walked;
};
void export_stacks_init(struct export_stacks *stacks, const struct export_input *input);
void export_stacks_release(struct export_stacks *stacks);
// The node of the sample's leaf; never PROFILE_NONE.
uint32_t export_stack_of(struct export_stacks *stacks, const struct profile_sample *sample);

// Whether a sample is of the event asked for, not idle (unless asked for), and kept by the filter.
bool export_keeps(const struct export_input *input, const struct profile_sample *sample);

// Threads in the order of their first sample. The samples kept are in `samples`, thread after thread, each in the order of time.
struct export_thread {
	int32_t pid, tid;
	uint32_t comm;       // of its last sample
	uint32_t process;    // the comm of the process: of its main thread where that was sampled
	size_t first, count; // into samples
	uint64_t weight;
};
struct export_threads {
	VEC(struct export_thread) threads;
	VEC(uint32_t) samples; // index into profile->samples
};
void export_threads_read(struct export_threads *threads, const struct export_input *input);
void export_threads_release(struct export_threads *threads);
// "comm 4242/4243"; ":4243" where the comm is not known. Not escaped.
void export_thread_name(const struct profile *profile, const struct export_thread *thread, struct buf *out);

// How far apart samples of a thread that runs are, ns: the period of a clock, a frequency's inverse, else the median distance. At least 1.
double export_interval_ns(const struct export_input *input, const struct export_threads *threads);

#endif
