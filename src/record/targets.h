// Whom a recording follows, and by which of the legal shapes of events (src/DESIGN.md, Recording: Which events).
#ifndef PERFSAMPLE_RECORD_TARGETS_H
#define PERFSAMPLE_RECORD_TARGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/vec.h"
#include "perf/event_set.h"
#include "perf/event_spec.h"
#include "proc/space.h"
#include "record/cgroup.h"
#include "record/child.h"
#include "record/family.h"

enum target_kind { TARGET_COMMAND, TARGET_PIDS, TARGET_TIDS, TARGET_SYSTEM, TARGET_CGROUP, TARGET_USER };
const char *target_kind_name(enum target_kind kind); // "command", "pid", "tid", "system", "cgroup", "uid"

struct target_config {
	enum target_kind kind;
	VEC(int32_t) ids;          // pids or tids
	VEC(uint32_t) cpus;        // -C; empty: every online CPU
	const char *cgroup;        // path, or a container's ID with is_container
	bool is_container;
	uid_t uid;
	char *const *command;      // NULL: none. Not the target itself unless TARGET_COMMAND: then it bounds the time
	bool per_task;             // --per-task
	bool inherit;              // not -i, nor TARGET_TIDS
	bool delayed;              // -D: no enable_on_exec
	bool stdout_to_stderr;     // our own output is standard output
};

// What the recorder did as it could, or found out: all of it in the file. USUAL: what is meant to be, so the summary does not say it. ASIDE: of the recorder alone, or told
// by figures as well. BEARS: figures are to be read with it, so a report says it too. CARE: what was asked for is not all there.
enum decision_weight { DECISION_BEARS, DECISION_USUAL, DECISION_ASIDE, DECISION_CARE };
struct decision { char text[400]; enum decision_weight weight; };
struct decisions { VEC(struct decision) items; };
void decide(struct decisions *decisions, const char *format, ...) __attribute__((format(printf, 2, 3))); // BEARS
void decide_usual(struct decisions *decisions, const char *text);
void decide_aside(struct decisions *decisions, const char *format, ...) __attribute__((format(printf, 2, 3)));
void decide_care(struct decisions *decisions, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct target {
	enum target_kind kind;
	struct event_target events;  // what event_set_open gets; tids and cpus are ours
	bool filter;                 // SCOPE_CPU, but only the descent of `roots` counts
	bool may_cpu_wide, may_kernel; // what the host allows us
	bool is_chosen_wide;         // whole CPUs where events per task would do, too, and cost strangers nothing: record/session_scope.c looks which is better
	VEC(int32_t) roots;          // pids
	VEC(int32_t) tids;
	struct hash_map known_tids;
	VEC(int32_t) doubtful;       // found by a later scan: they may have inherited events before they got their own
	struct family_since since;   // target_begin
	struct hash_map before;      // pids that they had started by then
	uint32_t *cpus;
	size_t cpu_count;
	struct cgroup cgroup;
	struct child child;
	bool has_child;
	bool is_command;             // the child is the target
	VEC(int) watch;              // pidfds of the roots, to poll; -1 where there is none
	char comm[64];               // of the first root, or what the command is called
	uint32_t threads;            // at the start
};

// Finds out who is meant, starts the command (held), chooses the scope. STATUS_USAGE: no such process (and who else may be meant).
bool target_open(struct target *target, const struct target_config *config, const struct event_specs *specs, struct decisions *decisions,
                 struct err *err);
// The next shape to try when the host refused the one chosen; false: there is none.
bool target_fall_back(struct target *target, const struct target_config *config, const char *why, struct decisions *decisions);
// Threads that came while the events were being opened: new tids are appended to tids and doubtful. Returns how many. `spaces`: events
// are opened once more, while everything runs, and what the target started since counts too. NULL: for the first time.
size_t target_rescan(struct target *target, struct spaces *spaces);
// From here on what the target starts is followed.
void target_begin(struct target *target);
// Where is_chosen_wide: events of whole CPUs, or per task (then tids as they are).
void target_set_wide(struct target *target, const struct target_config *config, bool wide);
// For opening events once more: the tids that have them now, by inheritance too; none is doubtful.
void target_collect_tids(struct target *target, struct spaces *spaces);
bool target_is_gone(struct target *target); // every root has ended (never for cgroups and the whole system)
void target_release(struct target *target);

#endif
