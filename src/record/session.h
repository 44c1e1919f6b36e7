// The life of a recording.
//
//   session_open   targets, budgets, events (opened, switched off), the file under its temporary name; the command is held before its exec
//   session_run    side-band events on, /proc read, sampling on, command released … until one of the ends; everything sampled is written
//   session_finish names and standard features, the final name
//
// Threads and why:
//   main     signals, ends, deadlines. Nothing that matters for the samples.
//   drain    record/drain.h: all rings, in the order of time, at real-time priority where that is allowed; reads the counters once a second, because a thread of
//            normal priority among 200 runnable ones may not run for a second; reopens the events at a coarser period when --max-cpu is exceeded.
//   helper   record/images.h: opens images while their processes live; reads /proc again after side-band loss.
//   writer   record/output.h: the disk.
// Between drain and the other two there are queues without locks and atomics only.
//
// What the held command runs between our fork and its exec is the recorder's code: such samples are counted as `others`, in neither `taken` nor the file,
// while the event's time_running has them; so the identity of record/ledger.h stays exact.
#ifndef PERFSAMPLE_RECORD_SESSION_H
#define PERFSAMPLE_RECORD_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "perf/event_spec.h"
#include "perfdata/names.h"
#include "record/drain.h"
#include "record/host.h"
#include "record/privilege.h"
#include "record/targets.h"

struct session_config {
	struct target_config target;
	struct event_specs *specs;
	uint64_t period;            // of clocks, ns; of others, when !is_freq
	uint64_t frequency;         // of events that are no clocks, when is_freq
	bool is_freq;
	bool is_default_rate;       // nobody asked for this rate (perf/event_set.h)
	enum chain_mode mode;
	uint32_t stack_bytes;       // 0: auto
	size_t ring_bytes;          // -m, a power of two; 0: by the formula
	const char *output;         // path or "-"
	bool is_default_output;     // nobody named it
	int stream_fd;              // for "-"
	uint64_t duration_ns;       // 0: none
	uint64_t delay_ns;          // -D
	struct output_limits limits;
	double max_cpu_percent;
	bool no_join;               // never complete a stack from elsewhere than the sample's own copy
	bool all_user, all_kernel;
	bool want_names;
	int realtime;               // -r; 0: SCHED_FIFO 1
	char *const *argv;          // the recorded command line, NULL-terminated
	struct image *(*find_cfi)(const struct image *image); // an image's debug file, for the CFI there; helper thread. NULL: none; may be NULL
	void (*waits)(int pid, int signal); // called once, a second after a signal that the recorded command got and has not ended by; may be NULL
};

enum session_end { END_COMMAND, END_TARGET, END_DURATION, END_SIGNAL, END_SIZE, END_DISK_LOW, END_MAX_CPU, END_OUTPUT, END_EVENTS };
const char *session_end_text(enum session_end end);

struct session_facts { // read when session_run has returned
	const struct target *target;
	const struct ledger *ledger;
	const struct event_set *set;
	const struct decisions *decisions;
	const struct host *host;
	const struct drain *drain;
	enum drain_priority priority;
	enum session_end end;
	uint32_t stack_bytes;
	size_t ring_bytes;
	uint64_t start_ns, end_ns, start_wall_ns;
	bool has_command;
	int command_status;          // as child_exit_status; -1: none or still running
	int signal;                  // that ended it; 0: none
	bool command_was_ended;      // by us, with SIGTERM: something else than its own end ended the recording
	bool has_run;                // sampling took place
	bool is_short;               // the output failed: the file lacks samples that the books have
	bool broken_pipe;            // the output's reader went away
	const char *path;            // of the file
	bool is_gone;                // it leads elsewhere, when all is written
	uint64_t bytes;              // written
	uint32_t threads, processes; // that were sampled
	uint64_t switches;           // to the target's tasks, at least, where events are theirs; 0: not known
	uint64_t unseen_ns;          // that the command used when its tasks ended, which their events do not have; 0: none, or not known
	uint32_t processes_seen;     // of the target, that records tell of
	uint64_t target_cpu_ns;      // CPU time of the first event, idle and others apart; 0 when it is no clock
};

struct session;
bool session_open(struct session **out, const struct session_config *config, struct err *err);
// false: the command could not be run (126, 127), or the output failed (STATUS_FINISH); what was written before stays readable.
bool session_run(struct session *session, struct err *err);
struct session_facts session_facts(const struct session *session);

// For names, after session_run.
struct sampled_code {
	const struct dso *dso;
	uint32_t id;
	struct image *image;
	int map_fd;               // of anonymous code: its process's perf-PID.map; -1: none
	int jitdump_fd;           // and its jit-PID.dump; -1: none
	const char *jitdump_path; // as the process mapped it
	const struct jit_function *functions; // and of which it told debuggers (record/jit_objects.h)
	size_t function_count;
};
const struct sampled *session_sampled(const struct session *session);
struct sampled_code session_code(const struct session *session, uint32_t dso);
const char *session_map_refusal(const struct session *session);

// `names`: meta is added here.
bool session_finish(struct session *session, struct names *names, struct err *err);
void session_free(struct session *session);

#endif
