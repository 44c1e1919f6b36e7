// The model of a report: complete before anything is printed; every exporter works from it.
#ifndef PERFSAMPLE_REPORT_REPORT_H
#define PERFSAMPLE_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "judge/judge.h"
#include "profile/profile.h"
#include "report/estimate.h"

enum report_key { KEY_SYMBOL, KEY_DSO, KEY_COMM, KEY_PID, KEY_TID, KEY_CPU, KEY_SRCLINE, KEY_EVENT, KEY_CGROUP, KEY_COUNT };

struct report_filter { // empty lists: everything
	const char *const *comms, *const *dsos, *const *symbols; // NULL-terminated, or NULL
	VEC(int32_t) pids, tids;
	VEC(uint32_t) cpus;
	uint64_t from_ns, to_ns; // recording's clock; to_ns 0: no limit
};

struct report_options {
	VEC(uint8_t) keys;        // enum report_key; empty: the default of the profile
	struct report_filter filter;
	bool children;            // order by total
	bool idle;                // show idle samples as rows
	bool inlines;
	double confidence;        // 0.95
	double max_loss;          // 0.01
	double percent_limit;
	size_t top;               // 0: all
	size_t ranges;            // of how many rows, the first ones, intervals are needed; SIZE_MAX: all
	bool simultaneous;
	enum { CALLS_NONE, CALLS_CALLER, CALLS_CALLEE } calls;
	double calls_limit;       // percent of the row below which branches are not shown
};

enum row_flag { ROW_FEW = 1, ROW_TREND = 2, ROW_ALIASING = 4, ROW_TIED_LOSS = 8, ROW_RUN_ONLY = 16 };

struct row_measure {
	double samples;           // k, on the scale of the event's n; whole unless weighted
	double share;
	struct interval run, workload, worst_case; // 0 without `has_intervals`: behind the rows that options.ranges asks for
	bool has_intervals;
	unsigned flags;           // enum row_flag
	bool supported;           // the workload interval may be printed as such
	double deff, z_vn;
	size_t blocks;
	uint64_t visits;          // maximal runs of consecutive samples of a thread inside; FEW when these or those outside are below 20
	uint64_t visits_outside;
	double imputed, tied_z, tied_q; // share if loss struck each window of time alike; is loss tied to the row? -1 / 0 / -1: not tested
	double truncated_elsewhere; // u_f: samples cut short that do not show the function; for total
};

struct call_node { // a tree in preorder: children follow, one deeper
	const char *name, *dso;
	uint32_t depth;
	double share;         // of the event's samples
};

struct report_row {
	const char *keys[KEY_COUNT];  // text per key asked for, else NULL; not escaped
	const char *aliases;          // functions, one a line, that share the code and that some samples may be of: no caller told; NULL: none
	uint32_t line;                // of srcline
	const char *file;
	int32_t pid, tid;
	uint32_t cpu;
	bool is_kernel;
	bool is_unresolved;           // it has no name: the bucket "[unknown]", or
	bool is_nameless;             // one function of which nothing but the bounds is known
	// Of one that goes by its start, or that others of its name stand beside in the file; else NULL.
	const char *plain_name;       // without what tells it apart
	const char *told_by;          // the source file, or the start
	const char *address;          // of its start in the file, as `objdump -d` shows it, "0x1a2f0"
	const char *build_id;         // hex, of the file that the address is of
	bool is_by_address;           // its name holds in one build of the file alone
	const char *source;           // the source file that the function is local to, without folders, whether it is told apart or not; NULL: unknown
	unsigned flags;               // of the measure that orders the rows
	uint32_t rank_lo, rank_hi;    // behind the rows that options.ranges asks for by the sign tests alone
	struct row_measure self, total;
	struct interval shown;        // the one `range` of the narrow layout
	bool shown_is_run;            // it is the run interval, widened by loss: marked ~
	uint32_t tally_row;           // where it was counted; for the order of equals
	uint64_t sample_count;        // samples whose innermost frame it is, not weighted
	const struct call_node *calls; // with options.calls, for rows kept
	size_t call_count;
};

struct report_caveat { enum caveat_code code; const char *text; double value; bool is_care; }; // is_care: makes the verdict CARE

// Two combs held against each other; is_tested false: there is but one.
struct report_aliasing { bool is_tested, is_suspected; double chi2, df, p, detectable, samples[2]; };

// A loop in step with the sampling period, by restarts of the sampling clock (lockstep.c): how much of what is seen changes there, and at moments where nothing
// was done: 0 nothing, 1 everything. is_tested false: too few restarts, as in recordings of other tools.
struct report_lockstep { bool is_tested, is_suspected; double p, at_restarts, elsewhere; size_t restarts; };

struct report_event {
	const char *name;
	const struct profile_event *source;
	double taken, idle, others, lost, silent, expected;
	double begun;                 // of expected: periods that were not over when their CPU's recording was; 0 for events of single tasks
	double whole_expected, whole_silent; // of the whole recording, where a filter leaves a part of which they are not known; else 0
	bool can_expect, is_accounted;
	bool is_loss_known;           // false: text of other tools, which says nothing of it, and files without counters whose records tell of none
	double lost_share;            // lost / (lost + taken)
	double worst_second_share;
	uint64_t worst_second_at;     // seconds from the start
	double loss_from_s, loss_to_s; // where the loss lies, from the start; equal: none
	double dropped, shortened, throttled_s;
	double cpu_seconds;
	double user_share, kernel_share, unresolved_share, idle_excluded;
	uint64_t stacks_complete, stacks_joined, stacks_truncated, stacks_failed;
	uint64_t ends[UNWIND_END_COUNT], splices[3];
	uint64_t stacks_guessed;      // with a frame that no CFI led to
	uint64_t stacks_by_via[VIA_COUNT]; // with a frame found in this way
	double recorder_cpu_s;
	double recorder_share;        // of one CPU, of all the time that was recorded
	bool is_brief;                // the recording is too short for that to be a figure
	double accounted_s;  // taken from the program by the recorder's books; 0: not reckoned
	double n;                     // Kish's n when weighted
	double missing;               // how many samples the worst case adds, on the scale of n: lost, silent, dropped and throttled (judge/judge.h)
	double missing_share;         // what --max-loss is held against
	bool is_lossy;                // lost and, from 1 % on, silent ones are 0.1 % of n or more: intervals shown are worst cases
	bool is_weighted, is_filtered;
	double unfiltered;            // samples of the event before the filter
	size_t threads, processes;
	size_t function_count;        // rows with k > 0 in the order asked for: the M of the ranks
	double simultaneous_half_width, smallest_seen, largest_unseen;
	VEC(struct report_row) rows;  // by self, or total with `children`; all functions
	size_t rows_kept;             // after top and percent_limit
	double multiplexed;           // running / enabled where that means multiplexing, else 1
	enum verdict verdict;
	VEC(struct report_caveat) caveats;
	double loss_windows_p;        // burst test, -1: not applicable
	double interval_confidence;   // of each row's intervals: 1 - alpha / M with `simultaneous`
	size_t blocks_off;            // of the 20, those in which a multiplexed event never ran
	struct report_aliasing aliasing;
	struct report_lockstep lockstep;
	const char *tied_to;          // function(s) that loss is tied to, or NULL
	double tied_q;
};

struct report {
	struct arena arena;
	const struct profile *profile; // borrowed
	struct report_options options;
	double seconds;
	uint64_t from_ns, to_ns;       // of the recording, or the filter's part of it
	VEC(struct report_event) events;
	enum verdict verdict;          // the worst of the events
	bool weighted;
};

// What the judgement is made of; borrows from the event.
struct evidence report_evidence(const struct report *report, const struct report_event *event);
// The verdict and what makes it so, in a line: "CARE: lost 40 samples (3.0%); …". Nothing where it is sound.
void report_verdict(const struct report_event *event, struct buf *out);
// The same of the samples alone, whatever is made of them: lost, silent, dropped, stacks cut, a shared counter. Not what the loader
// had to say of the input (meta.caveats) or what concerns rows. Nothing where none of these makes CARE.
void report_verdict_of_samples(const struct report_event *event, struct buf *out);

struct report_options report_defaults(void);
// Whole model of `profile`; STATUS_USAGE for filters that make no sense. Strings live in the arena or the profile.
bool report_build(struct report *report, const struct profile *profile, const struct report_options *options, struct err *err);
void report_release(struct report *report);

// Which samples a filter keeps; script, fold and flame use it too.
bool filter_keeps(const struct report_filter *filter, const struct profile *profile, const struct profile_sample *sample);
// By context of the profile's samples: whether one of them is kept if its time is; to be freed.
bool *filter_contexts(const struct report_filter *filter, const struct profile *profile);
static inline bool filter_keeps_time(const struct report_filter *filter, uint64_t time_ns)
{
	return time_ns >= filter->from_ns && (filter->to_ns == 0 || time_ns < filter->to_ns);
}

#endif
