// What the host allows the recorder: real-time priority, locked memory, file descriptors, and how to get what it refuses.
#ifndef PERFSAMPLE_RECORD_PRIVILEGE_H
#define PERFSAMPLE_RECORD_PRIVILEGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum drain_priority { PRIORITY_FIFO, PRIORITY_NICE, PRIORITY_NORMAL };
// For the calling thread: SCHED_FIFO 1 (or `wanted_rt` > 0), else nice -20, else nothing. SCHED_RESET_ON_FORK is set.
enum drain_priority privilege_drain_priority(int wanted_rt);
const char *drain_priority_text(enum drain_priority priority); // "real-time priority", …; otherwise with what refuses it
const char *drain_priority_loss_text(enum drain_priority priority); // why samples were lost: "the recorder was not scheduled (…)"
unsigned drain_priority_delay_ms(enum drain_priority priority); // the delay a ring must bear: 20, 50, 100

// Lowers the niceness of the calling thread, and of those that it makes from now on, as far as the host allows. false: not all the way.
bool privilege_niceness(int niceness);
// Whether children of the calling thread begin with ordinary niceness (SCHED_RESET_ON_FORK). To take it back takes CAP_SYS_NICE.
void privilege_reset_on_fork(bool reset);
// Raises the soft RLIMIT_NOFILE (and the hard one where allowed) to `need`; returns what was got. *before: the soft limit as it was.
uint64_t privilege_raise_files(uint64_t need, uint64_t *before);
// Raises the soft RLIMIT_MEMLOCK to the hard one.
void privilege_raise_memlock(void);
bool privilege_has_capability(int capability); // CAP_*, effective set
// Fills err with STATUS_HOST for an errno of perf_event_open: names perf_event_paranoid (and its value), CAP_PERFMON, seccomp, RLIMIT_NOFILE,
// … and the command that changes it. perf/event_error.h, for who has no attr at hand; `what` names the event.
bool privilege_explain(struct err *err, int error, const char *what, bool wants_kernel, bool wants_cpu_wide);

#endif
