// What `check` finds: answers first, printed when all are there. For check*.c alone.
#ifndef PERFSAMPLE_CMD_CHECK_H
#define PERFSAMPLE_CMD_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/vec.h"
#include "proc/procfs.h"
#include "record/cgroup.h"

enum answer { ANSWER_NO, ANSWER_YES, ANSWER_NOTE }; // a note is neither good nor bad

struct check_line {
	const char *code;  // "clock", "cycles": what JSON calls it
	const char *title; // what is asked
	enum answer answer;
	bool is_needed;    // without it nothing can be recorded
	char *text;        // what was found
	char *fix;         // the command that changes it; NULL: there is none, or nothing to change
};

struct check_target {
	bool is_container;
	int32_t pid;             // of a container: its first process
	const char *container;   // as it was asked for
	struct procfs_ids pids;  // all whose mappings are looked at
	struct procfs_status status;
	double cpus_busy, megabytes_per_second, samples_per_second, recorder_cpu_share; // expected; 0 when it sleeps
};

struct check {
	VEC(struct check_line) lines;
	uint32_t *cpus;
	size_t cpu_count;
};

// Adds a line; `text` and `fix` are formatted by the caller with mem_printf and become the line's. Valid until the next.
struct check_line *check_add(struct check *check, const char *code, const char *title, enum answer answer, char *text, char *fix);

// How another process's memory and mappings become readable; NULL: nothing would help.
char *check_ptrace_fix(void);
// "60,150" into `text`, which is returned.
const char *check_count(uint64_t count, char text[32]);

void check_host(struct check *check);
void check_target(struct check *check, struct check_target *target);
void check_images(struct check *check, const struct check_target *target); // part of check_target: CFI, names, JIT map

// perf_event_open(2) of a probe that is closed at once. 0, or the errno.
int check_open_event(uint32_t type, uint64_t config, bool exclude_kernel, int32_t pid, int cpu, unsigned long flags);
// The sysctl that allows what a permission error refused; NULL when no sysctl would.
char *check_paranoid_fix(bool wants_kernel, bool wants_cpu_wide);

#endif
