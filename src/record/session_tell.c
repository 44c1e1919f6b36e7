// What is said of a recording when it is over, beside its figures.
#include <stdio.h>
#include <string.h>

#include "proc/procfs.h"
#include "record/jit_pages.h"
#include "record/session_private.h"
#include "record/stack_pages.h"

struct left_running { VEC(int32_t) pids; };

static void add_left_running(struct process *process, void *context)
{
	struct left_running *left = context;
	struct procfs_status status;
	if (process->is_target && process->pid > 0 && !process->exited && procfs_status(process->pid, &status) && status.threads > 0)
		vec_push(&left->pids, process->pid);
}

// A server that goes to the background, a shell's `&`: the recording ends with the command, they go on.
static void tell_left_running(struct session *session)
{
	enum { NAMED_MOST = 8 };
	struct left_running left = { 0 };
	struct buf pids = { 0 };
	if (session->target.is_command)
		spaces_each_process(session->spaces, add_left_running, &left);
	session->left_running = (uint32_t)left.pids.count;
	for (size_t i = 0; i < left.pids.count && i < NAMED_MOST; i++)
		buf_printf(&pids, "%s%d", i > 0 ? "," : "", left.pids.data[i]);
	if (left.pids.count > NAMED_MOST)
		buf_printf(&pids, " and %zu more", left.pids.count - NAMED_MOST);
	if (left.pids.count > 0)
		decide_aside(&session->decisions, "%zu process%s of the command still run%s, what %s from now on is not recorded: perfsample record -p %s",
		       left.pids.count, left.pids.count == 1 ? "" : "es", left.pids.count == 1 ? "s" : "", left.pids.count == 1 ? "it does" : "they do",
		       buf_text(&pids));
	buf_release(&pids);
	vec_release(&left.pids);
}

// do_exit() (kernel/exit.c) ends a task's events before it is done: since "perf: Fix sample vs do_exit()" (Linux 6.16, and stable kernels) before it frees the
// task's memory. How much that is rusage tells, where all that ran was the command's, from its exec to its end, in one stretch.
static void tell_unseen_exit(struct session *session)
{
	enum { SAID_IN = 100, SAID_NS = 10 * 1000 * 1000 };
	const struct target *target = &session->target;
	const struct event_opened *event = &session->set.events.data[0];
	bool is_whole = target->is_command && event->is_clock && target->events.scope == SCOPE_TASK && target->events.inherit && session->config->delay_ns == 0 &&
	                session->config->target.cpus.count == 0 && session->ledger.stretches == 0 && session->left_running == 0 && session->drain.unseen_execs == 0;
	uint64_t used = target->child.cpu_ns, seen = ledger_total(&session->ledger, 0).running;
	if (!is_whole || used <= seen || used - seen < SAID_NS || (used - seen) * SAID_IN < used)
		return;
	session->unseen_ns = used - seen;
	decide_aside(&session->decisions, "%.2f s of the %.2f s that the command used by rusage (%.1f%%) are not in here: what the kernel does last when a task ends", (double)session->unseen_ns / 1e9,
	       (double)used / 1e9, 100.0 * (double)session->unseen_ns / (double)used);
}

// Bounds on what is read and kept of JIT code.
static void tell_pages(struct session *session)
{
	struct jit_pages_figures figures = session->pages != NULL ? jit_pages_figures(session->pages) : (struct jit_pages_figures){ 0 };
	if (figures.late + figures.refused > 0)
		decide_aside(&session->decisions, "bytes of JIT code: %llu pages were read, %llu kept; %llu times a page was not read, as %d were in that second, and %llu were not kept, "
		       "beyond %d, or %d of one place", (unsigned long long)figures.read, (unsigned long long)figures.kept, (unsigned long long)figures.late, JIT_PAGES_A_SECOND,
		       (unsigned long long)figures.refused, JIT_PAGES_MOST, JIT_PAGE_READINGS_MOST);
}

// What was done to the target, in the file; and what could not be.
static void tell_stack_pages(struct session *session)
{
	struct stack_pages_figures figures = session->stack_pages != NULL ? stack_pages_figures(session->stack_pages) : (struct stack_pages_figures){ 0 };
	char text[160];
	if (figures.pages > 0) {
		snprintf(text, sizeof(text), "copies of stacks had stopped at pages that were not in memory: %llu were brought in, by reading them once",
		         (unsigned long long)figures.pages);
		decide_usual(&session->decisions, text);
	}
	if (figures.failed > 0)
		decide(&session->decisions, "copies of stacks stop at pages that are not in memory, which could not be read %llu times: %s",
		       (unsigned long long)figures.failed, strerror(figures.error));
}

// Of the events of single tasks.
static void tell_unseen_execs(struct session *session)
{
	uint32_t count = session->drain.unseen_execs;
	if (count > 0 && session_is_by_task(session))
		decide_care(&session->decisions, "%u task%s executed a program that others may not look into (set-user-ID, capabilities, not readable): the kernel ends a task's "
		       "events there, so what ran then is not in the recording; -a, or a command in a cgroup of its own, sees it", count, count == 1 ? "" : "s");
}

void session_tell_targets(struct session *session)
{
	tell_left_running(session);
	tell_unseen_exit(session);
	tell_unseen_execs(session);
	if (session->child_was_ended)
		decide_aside(&session->decisions, "the command was ended with SIGTERM");
	session_tell_stuck(session);
}

void session_tell_pages(struct session *session)
{
	tell_pages(session);
	tell_stack_pages(session);
}
