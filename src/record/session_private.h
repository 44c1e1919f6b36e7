// What session.c, session_open.c and session_drain.c share. Nobody else includes this.
#ifndef PERFSAMPLE_RECORD_SESSION_PRIVATE_H
#define PERFSAMPLE_RECORD_SESSION_PRIVATE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "perf/clock.h"
#include "record/restart.h"
#include "record/session.h"
#include "record/stuck.h"
#include "record/switches.h"

// Which events are better: record/session_scope.c.
enum { SCOPE_CHANGES_MOST = 2 };
struct scope_watch { uint64_t taken, strangers, births, births_before; unsigned in_a_row, changes; }; // births_before: a second before `births`

struct session {
	const struct session_config *config;
	struct host host;
	struct perf_clock clock;
	struct decisions decisions;
	struct target target;
	struct event_set set;
	struct event_options options;
	struct writer *writer;
	struct output *output;
	struct ledger ledger;
	struct spaces *spaces;
	struct images *images;
	struct jit_files *files;
	struct jit_objects *objects;
	struct jit_pages *pages;           // NULL: not wanted
	struct stack_pages *stack_pages;   // likewise
	struct drain drain;
	struct perf_event_attr *file_attrs; // per event, then the side-band event's
	uint32_t *cpu_numbers;             // by "CPU index" of the event set
	bool is_live;                      // file attrs have CALLCHAIN and RAW instead of registers and stack
	enum drain_priority priority;
	bool goes_first; // nobody has given the recorder a niceness of its own
	int signal_fd, wake_main_fd, wake_drain_fd;
	uint64_t start_ns, end_ns, start_wall_ns;
	enum session_end end;
	int ended_by_signal;
	bool has_waited; // session_config.waits was called
	bool has_run, is_short, child_was_ended;
	uint64_t unseen_ns;                // of session_facts
	struct switches switches;
	uint64_t switch_count;
	uint32_t left_running;             // processes of the command that outlived it

	// drain thread
	pthread_t drain_thread;
	bool drain_running, drain_initialized;
	sem_t drain_ready, drain_go;
	_Atomic bool cancelled, stop;
	_Atomic int drain_end;       // enum session_end + 1, when the drain thread wants to end
	uint64_t cpu_before_ns, cpu_before_at_ns;
	unsigned hot_seconds, period_step;
	struct tails *tails;         // NULL: stacks beyond the kernel's cap are not read
	uint64_t others_from, others_before; // of the first event, as the next line's
	bool needed_own_events;      // once, to read stacks on: whether or not they were to be had
	uint64_t rate_since_ns, rate_from, walked_before; // a second ago or two: when, and drain.walked then; drain.walked at the last second's end
	double cpu_percent;          // of one CPU, over the last second
	uint64_t tails_calm;         // stacks on end of which few needed it
	bool is_for_others;          // most of what needs it goes on on another stack
	bool tails_rest;             // they are there, but nothing is read: few stacks need it now
	unsigned tails_rests;        // how often they came to rest
	bool no_tails;               // and will not be: refused, or too dear
	struct restarts restarts;    // of the sampling clock
	struct stuck stuck;
	bool are_rings_wide;         // the events that write there are of whole CPUs
	stuck_spans stood_still;     // rings that did, until their events were opened again or the recording ended
	uint64_t stuck_until_ns;     // no event is opened again for that before
	unsigned stuck_in_vain;
	struct scope_watch scope_watch;
};

uint64_t session_now_ns(const struct session *session); // of the records' clock
uint64_t session_wall_ns(void);

// session_open.c
bool session_open_events(struct session *session, struct err *err);
bool session_open_file(struct session *session, struct err *err);
void session_rate(struct session *session, uint64_t period_ns, uint64_t frequency);
void session_writer_info(const struct session *session, struct writer_info *info);

// session_scope.c
void session_count_idle(struct session *session); // CPU-wide events are about to be switched on, or others
bool session_keep_scope(struct session *session, bool *reopened); // once a second; false: the events could not be opened again
bool session_starts_many(const struct session *session); // tasks, in the last second or two: events per task would miss much
// Events per task in the place of CPU-wide ones, for good, where both would do. false: they stay as they are.
bool session_spare_strangers(struct session *session, const char *why);

// session_tell.c: into the decisions, at the end
void session_tell_targets(struct session *session); // of what ran, once it has ended
void session_tell_pages(struct session *session); // of what was read of it, once the helper has ended

// session_stuck.c
bool session_find_stuck(struct session *session, stuck_spans *spans); // whether a ring stands still by the counters just read; appends which (NULL: nowhere)
void session_note_stuck(struct session *session, bool to_the_end); // those that do go into the books: their events are about to be closed, or it is over
void session_tell_stuck(struct session *session); // into the decisions, at the end

// session_cut.c: what was sampled behind the last counters that could be written was cut off again; so are the books, and what the file says of itself.
void session_end_where_file_does(struct session *session, const char *why);

// session_signal.c: what came on signal_fd; true: it ends the recording.
bool session_take_signal(struct session *session);

// session_drain.c
void *session_drain_main(void *session);
bool session_reopen(struct session *session, struct err *err); // a new stretch, as session->options and target say; switched off
bool session_is_by_task(const struct session *session); // what its events observe, not a CPU or cgroup
// Threads that came while the others' events were being opened, until a scan finds nothing new. `spaces` as target_rescan, `wakes` as event_set_add_thread.
bool session_add_late_threads(struct session *session, struct spaces *spaces, bool wakes, struct err *err);
// session_code.c: names of generated code. Before the helper thread is stopped, and when it has ended and no sample waits any longer.
void session_find_names(struct session *session);
void session_find_last_names(struct session *session);
struct image *session_image(const struct session *session, uint32_t dso); // that is open behind a dso; NULL: none

#endif
