#include "record/session.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "proc/procfs.h"
#include "record/family.h"
#include "record/jit_files.h"
#include "record/jit_objects.h"
#include "record/jit_pages.h"
#include "record/stack_pages.h"
#include "record/privilege.h"
#include "record/session_private.h"

// Of the recorder's own threads but the drain thread. Names are looked up when all is sampled, for seconds perhaps: not before everything else, but before a crowd.
enum { NICENESS_RECORDING = -20, NICENESS_NAMES = -10 };

uint64_t session_now_ns(const struct session *session)
{
	return perf_clock_ns(&session->clock);
}

uint64_t session_wall_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const char *session_end_text(enum session_end end)
{
	static const char *const texts[] = {
		"the command ended", "the target ended", "--duration is over", "interrupted", "--max-size is reached", "the disk has little left (--min-free)",
		"--max-cpu", "the output could not be written", "the events could not be reopened",
	};
	return texts[end];
}

// ---------------------------------------------------------------- opening
static bool catch_signals(struct session *session, struct err *err)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	session->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	sigaddset(&set, SIGPIPE); // a reader that went away is an EPIPE in the writer thread
	sigaddset(&set, SIGXFSZ); // RLIMIT_FSIZE is an EFBIG there, like a full disk
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	session->wake_main_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	session->wake_drain_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (session->signal_fd < 0 || session->wake_main_fd < 0 || session->wake_drain_fd < 0)
		return err_errno(err, STATUS_HOST, "signalfd, eventfd");
	return true;
}

static bool start_drain(struct session *session, struct err *err)
{
	int error = pthread_create(&session->drain_thread, NULL, session_drain_main, session);
	if (error != 0)
		return err_set(err, STATUS_HOST, "starting the drain thread: %s", strerror(error));
	session->drain_running = true;
	while (sem_wait(&session->drain_ready) != 0)
		;
	if (session->priority != PRIORITY_FIFO)
		decide_aside(&session->decisions, "drain thread at %s: a busy machine may lose samples", drain_priority_text(session->priority));
	return true;
}

static void prepare_drain(struct session *session)
{
	const struct session_config *config = session->config;
	// With an event and ring per thread, "CPU index" counts threads, and their events are bound to no CPU.
	bool by_thread = session->target.events.scope == SCOPE_THREAD;
	size_t places = by_thread ? session->target.tids.count : session->target.cpu_count;
	ledger_init(&session->ledger, session->set.events.count, places);
	session->cpu_numbers = mem_zero(places + 1, sizeof(*session->cpu_numbers));
	for (size_t i = 0; i < places && !by_thread; i++)
		session->cpu_numbers[i] = session->target.cpus[i];
	session->spaces = spaces_new();
	session->images = images_new(config->find_cfi);
	session->files = jit_files_new(&session->clock);
	session->objects = jit_objects_new(&session->clock);
	session->pages = config->mode == CHAIN_POST || config->mode == CHAIN_LIVE ? jit_pages_new(session->host.machine, config->mode == CHAIN_POST) : NULL;
	if (session->pages != NULL)
		jit_pages_use_clock(session->pages, &session->clock);
	session->stack_pages = session->pages != NULL ? stack_pages_new() : NULL;
	session->output = output_new(session->writer, &config->limits);
	session->drain = (struct drain){
		.clock = session->clock,
		.set = &session->set, .spaces = session->spaces, .images = session->images, .pages = session->pages, .stack_pages = session->stack_pages,
		.files = session->files, .objects = session->objects, .output = session->output, .ledger = &session->ledger,
		.file_attrs = session->file_attrs, .cpus = session->cpu_numbers, .mode = config->mode, .machine = session->host.machine,
		.filter = session->target.filter, .want_names = config->want_names, .any_pid = config->target.kind == TARGET_SYSTEM,
		.roots = session->target.roots.data, .root_count = session->target.roots.count,
		.held_pid = session->target.is_command ? (int32_t)session->target.child.pid : -1,
	};
	drain_init(&session->drain);
	session->drain_initialized = true;
	drain_doubt(&session->drain, session->target.doubtful.data, session->target.doubtful.count, false);
}

// Among 500 runnable threads a CPU it would take half a minute else until a thousand events are open. The command does not inherit it.
static bool open_target(struct session *session, struct err *err)
{
	const struct session_config *config = session->config;
	session->goes_first = sched_getscheduler(0) == SCHED_OTHER && getpriority(PRIO_PROCESS, 0) == 0; // nobody has given it another priority
	if (session->goes_first) {
		(void)privilege_niceness(NICENESS_RECORDING);
		privilege_reset_on_fork(true);
	}
	bool good = target_open(&session->target, &config->target, config->specs, &session->decisions, err);
	if (session->goes_first)
		privilege_reset_on_fork(false);
	return good;
}

bool session_open(struct session **out, const struct session_config *config, struct err *err)
{
	struct session *session = NEW(struct session);
	*out = session;
	session->config = config;
	session->signal_fd = session->wake_main_fd = session->wake_drain_fd = -1;
	session->target.cgroup.fd = -1;
	session->is_live = config->mode == CHAIN_LIVE;
	sem_init(&session->drain_ready, 0, 0);
	sem_init(&session->drain_go, 0, 0);
	host_describe(&session->host);
	perf_clock_find(&session->clock);
	// The command is started first, while there is one thread only; signals are blocked before, so that none is missed (the child resets its mask).
	if (!catch_signals(session, err) || !open_target(session, err))
		return false;
	// What is born from here on has inherited the events by the time that they are switched on.
	target_begin(&session->target);
	if (!start_drain(session, err) || !session_open_events(session, err))
		return false;
	if (!session->target.is_command && !session_add_late_threads(session, NULL, false, err))
		return false;
	if (!session_open_file(session, err))
		return false;
	prepare_drain(session);
	return true;
}

// ---------------------------------------------------------------- what was there before
static void enable_sideband(struct session *session)
{
	for (size_t i = 0; i < session->set.fds.count; i++)
		if (session->set.fds.data[i].event == EVENT_SIDEBAND)
			(void)ioctl(session->set.fds.data[i].fd, PERF_EVENT_IOC_ENABLE, 0);
}

// Whether a pid is in the target's cgroup or below: its path is that of the hierarchy, ours has the mount before it.
static bool is_in_cgroup(const struct target *target, int32_t pid)
{
	char path[4096];
	if (!procfs_cgroup_path(pid, path, sizeof(path)))
		return false;
	for (const char *suffix = strchr(target->cgroup.path, '/'); suffix != NULL; suffix = strchr(suffix + 1, '/')) {
		size_t length = strlen(suffix);
		if (strncmp(path, suffix, length) == 0 && (path[length] == '\0' || path[length] == '/'))
			return true;
	}
	return false;
}

static void synthesize_some(struct session *session, const struct buf *trailer, struct buf *records)
{
	struct procfs_ids pids = { 0 };
	struct target *target = &session->target;
	if (target->kind == TARGET_SYSTEM || (target->kind == TARGET_CGROUP && target->cgroup.fd >= 0)) {
		(void)procfs_pids(&pids, NULL);
		for (size_t i = 0; i < pids.ids.count; i++)
			if (target->kind == TARGET_SYSTEM || is_in_cgroup(target, pids.ids.data[i]))
				procfs_synthesize(pids.ids.data[i], true, trailer->data, trailer->size, records);
	} else if ((target->events.inherit || target->filter) && target->kind == TARGET_PIDS) {
		// No FORK record tells of those that were born before the side-band was switched on.
		family_pids(target->roots.data, target->roots.count, session->spaces, &target->since, &pids);
		for (size_t i = 0; i < pids.ids.count; i++)
			procfs_synthesize(pids.ids.data[i], true, trailer->data, trailer->size, records);
	} else {
		for (size_t i = 0; i < target->roots.count; i++) {
			procfs_synthesize(target->roots.data[i], true, trailer->data, trailer->size, records);
			if (target->events.scope == SCOPE_CGROUP)
				(void)procfs_descendants(target->roots.data[i], &pids);
		}
		for (size_t i = 0; i < pids.ids.count; i++)
			procfs_synthesize(pids.ids.data[i], true, trailer->data, trailer->size, records);
	}
	vec_release(&pids.ids);
}

static void describe_before(struct session *session)
{
	struct buf trailer = { 0 }, records = { 0 };
	uint64_t id = session->set.fds.count > 0 ? session->set.fds.data[0].id : 0;
	for (size_t i = 0; i < session->set.fds.count; i++)
		if (session->set.fds.data[i].event == EVENT_SIDEBAND) {
			id = session->set.fds.data[i].id;
			break;
		}
	ledger_trailer(&trailer, session->set.has_sideband ? &session->set.sideband_attr : &session->set.events.data[0].attr, 0, 0, 0, id, 0);
	if (!session->options.exclude_kernel && !procfs_synthesize_kernel(trailer.data, trailer.size, &records))
		decide(&session->decisions, "kernel functions have no names: kernel.kptr_restrict");
	for (size_t i = 0; i < session->target.roots.count; i++)
		spaces_process(session->spaces, session->target.roots.data[i])->is_target = true;
	if (!session->target.is_command)
		synthesize_some(session, &trailer, &records);
	drain_synthesized(&session->drain, records.data, records.size, true);
	buf_release(&trailer);
	buf_release(&records);
}

// ---------------------------------------------------------------- the ends
static bool is_watchable(const struct session *session)
{
	const struct target *target = &session->target;
	for (size_t i = 0; i < target->watch.count; i++)
		if (target->watch.data[i] < 0)
			return false;
	return target->kind != TARGET_TIDS && (!target->has_child || target->child.pidfd >= 0);
}

static bool all_gone(struct session *session, struct pollfd *watched, size_t count)
{
	size_t left = 0;
	for (size_t i = 0; i < count; i++) {
		if (watched[i].fd >= 0 && watched[i].revents != 0)
			watched[i].fd = -1 - watched[i].fd; // poll(2) skips negative ones
		left += watched[i].fd >= 0;
	}
	// A pidfd is readable once the whole thread group has ended; what waits to be reaped still stands in /proc, and nothing would wake us then.
	return left == 0 && ((count > 0 && is_watchable(session)) || target_is_gone(&session->target));
}

// How long poll(2) may sleep: until the earlier of two times, 0 for none, or for `most_ms` (-1: for ever).
static int wait_ms(uint64_t now_ns, int most_ms, uint64_t deadline_ns, uint64_t patience_ns)
{
	uint64_t until_ns = deadline_ns;
	if (patience_ns != 0 && (until_ns == 0 || patience_ns < until_ns))
		until_ns = patience_ns;
	if (until_ns == 0)
		return most_ms;
	if (now_ns >= until_ns)
		return 0;
	uint64_t left_ms = (until_ns - now_ns + 999999) / 1000000;
	int wait = left_ms > 1000000 ? 1000000 : (int)left_ms;
	return most_ms >= 0 && most_ms < wait ? most_ms : wait;
}

// A command may ignore SIGINT, or take long to end: whoever pressed Ctrl-C is told what is being waited for.
static void lose_patience(struct session *session, uint64_t *patience_ns)
{
	enum { PATIENCE_NS = 1000000000 };
	if (session->ended_by_signal == 0 || !session->target.is_command || session->config->waits == NULL)
		return;
	uint64_t now_ns = session_now_ns(session);
	if (*patience_ns == 0 && !session->has_waited) {
		*patience_ns = now_ns + PATIENCE_NS;
	} else if (*patience_ns != 0 && now_ns >= *patience_ns) {
		*patience_ns = 0;
		session->has_waited = true;
		session->config->waits((int)session->target.child.pid, session->ended_by_signal);
	}
}

enum { WAKE_SIGNAL, WAKE_DRAIN, WAKE_CHILD, WAKE_TARGETS };

static bool has_ended(struct session *session, struct pollfd *fds, size_t targets, uint64_t deadline_ns)
{
	int drain_end = atomic_load(&session->drain_end);
	session->end = END_DURATION;
	if (deadline_ns != 0 && session_now_ns(session) >= deadline_ns)
		return true;
	if (fds[WAKE_SIGNAL].revents != 0 && session_take_signal(session))
		return true;
	session->end = END_COMMAND;
	if (session->target.has_child && child_poll(&session->target.child))
		return true;
	session->end = END_TARGET;
	enum target_kind kind = session->target.kind;
	if ((kind == TARGET_PIDS || kind == TARGET_TIDS || kind == TARGET_USER) && all_gone(session, fds + WAKE_TARGETS, targets))
		return true;
	session->end = drain_end > 0 ? (enum session_end)(drain_end - 1) : END_COMMAND;
	return drain_end > 0;
}

static void wait_for_end(struct session *session)
{
	size_t targets = session->target.is_command ? 0 : session->target.watch.count;
	struct pollfd *fds = mem_zero(WAKE_TARGETS + targets, sizeof(*fds));
	fds[WAKE_SIGNAL] = (struct pollfd){ .fd = session->signal_fd, .events = POLLIN };
	fds[WAKE_DRAIN] = (struct pollfd){ .fd = session->wake_main_fd, .events = POLLIN };
	fds[WAKE_CHILD] = (struct pollfd){ .fd = session->target.has_child ? session->target.child.pidfd : -1, .events = POLLIN };
	for (size_t i = 0; i < targets; i++)
		fds[WAKE_TARGETS + i] = (struct pollfd){ .fd = session->target.watch.data[i], .events = POLLIN };
	uint64_t deadline_ns = session->config->duration_ns > 0 ? session->start_ns + session->config->delay_ns + session->config->duration_ns : 0;
	int most_ms = is_watchable(session) ? -1 : 50;
	uint64_t patience_ns = 0;
	do {
		lose_patience(session, &patience_ns);
		(void)poll(fds, WAKE_TARGETS + targets, wait_ms(session_now_ns(session), most_ms, deadline_ns, patience_ns));
	} while (!has_ended(session, fds, targets, deadline_ns));
	free(fds);
}

static void end_command(struct session *session)
{
	if (!session->target.has_child || child_poll(&session->target.child))
		return;
	session->child_was_ended = true; // as perf does: the recording is over, so is the command that it started
	child_kill(&session->target.child, SIGTERM);
	for (int i = 0; i < 200 && !child_poll(&session->target.child); i++) {
		struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
		nanosleep(&pause, NULL);
	}
}

static void stop_drain(struct session *session)
{
	atomic_store(&session->stop, true);
	(void)!write(session->wake_drain_fd, &(uint64_t){ 1 }, 8);
	sem_post(&session->drain_go);
	pthread_join(session->drain_thread, NULL);
	session->drain_running = false;
}

// ---------------------------------------------------------------- the run
static bool begin(struct session *session, struct err *err)
{
	const struct session_config *config = session->config;
	struct target *target = &session->target;
	bool on_exec = target->events.scope == SCOPE_TASK && target->events.enable_on_exec;
	session->drain.since = target->since;
	if (session_is_by_task(session) && !target->is_command)
		switches_begin(&session->switches, target->tids.data, target->tids.count);
	if (!on_exec)
		enable_sideband(session);
	describe_before(session);
	// A command that only bounds the time is let go first: if it cannot be run nothing has been sampled yet.
	if (target->has_child && !target->is_command && !child_release(&target->child, err))
		return false;
	session->start_ns = session_now_ns(session);
	session->start_wall_ns = session_wall_ns();
	ledger_begin(&session->ledger, session->start_ns);
	session->ledger.counts_cpus = target->filter;
	session_count_idle(session);
	session->drain.tick_ns = session->start_ns + 1000000000u;
	session->drain.early_ns = session->start_ns + 100000000u;
	if (config->delay_ns > 0)
		session->drain.enable_ns = session->start_ns + config->delay_ns;
	else if (!on_exec && !event_set_enable(&session->set, err))
		return false;
	sem_post(&session->drain_go);
	if (!target->is_command)
		return true;
	bool runs = child_release(&target->child, err);
	atomic_store(&session->drain.held_runs, runs);
	return runs;
}

bool session_run(struct session *session, struct err *err)
{
	if (!output_start(session->output, err))
		return false;
	if (!images_start(session->images))
		return err_set(err, STATUS_HOST, "starting the helper thread: %s", strerror(errno));
	if (!begin(session, err))
		return false;
	wait_for_end(session);
	session->end_ns = session_now_ns(session);
	stop_drain(session);
	session->ledger.end_ns = session->end_ns; // the drain thread copies its books while it runs
	session->switch_count = switches_since(&session->switches);
	if (session->end == END_SIZE || session->end == END_DISK_LOW)
		decide(&session->decisions, "ended at +%.1f s: %s", (double)(session->end_ns - session->start_ns) / 1e9, session_end_text(session->end));
	end_command(session);
	session_tell_targets(session);
	session_find_names(session);
	images_stop(session->images);
	session_tell_pages(session);
	drain_retry_aside(&session->drain, true);
	session_find_last_names(session);
	session->ledger.recorder_cpu_ns = ledger_cpu_ns(&session->ledger); // of recording; looking up names comes after
	session->has_run = true;
	bool good = output_finish(session->output, err);
	session->is_short = !good;
	if (!good)
		session_end_where_file_does(session, err->text);
	if (session->goes_first)
		(void)privilege_niceness(NICENESS_NAMES);
	return good;
}

static uint64_t target_cpu_ns(const struct session *session)
{
	const struct event_opened *event = &session->set.events.data[0];
	const struct ledger_event *books = &session->ledger.events.data[0];
	if (!event->is_clock || event->attr.freq)
		return 0;
	if (session->ledger.counts_cpus)
		return books->taken_weight;
	uint64_t running = ledger_total(&session->ledger, 0).running, apart = (books->idle + books->idle_unsampled + books->others) * event->attr.sample_period;
	return running > apart ? running - apart : 0;
}

// Those of the target at the start, or all that were seen to run.
static uint32_t facts_threads(const struct session *session)
{
	uint32_t seen = (uint32_t)session->drain.threads.count;
	return seen > session->target.threads ? seen : session->target.threads;
}

struct session_facts session_facts(const struct session *session)
{
	struct session_facts facts = {
		.target = &session->target, .ledger = &session->ledger, .set = &session->set, .decisions = &session->decisions,
		.host = &session->host, .drain = &session->drain, .priority = session->priority, .end = session->end,
		.stack_bytes = session->options.stack_bytes, .ring_bytes = session->options.ring_bytes, .start_ns = session->start_ns,
		.end_ns = session->end_ns, .start_wall_ns = session->start_wall_ns, .has_command = session->target.has_child,
		.command_status = -1, .signal = session->ended_by_signal, .command_was_ended = session->child_was_ended,
		.path = writer_path(session->writer), .is_gone = writer_is_gone(session->writer), .bytes = writer_bytes(session->writer),
		.threads = facts_threads(session), .processes = (uint32_t)session->drain.pids.count, .processes_seen = (uint32_t)session->drain.seen.count,
		.target_cpu_ns = target_cpu_ns(session), .unseen_ns = session->unseen_ns, .switches = session->target.is_command ? session->target.child.switches : session->switch_count, .has_run = session->has_run, .is_short = session->is_short, .broken_pipe = output_is_broken_pipe(session->output),
	};
	if (session->target.has_child && session->target.child.exited)
		facts.command_status = child_exit_status(&session->target.child);
	return facts;
}

void session_free(struct session *session)
{
	if (session == NULL)
		return;
	if (session->drain_running) {
		atomic_store(&session->cancelled, true);
		stop_drain(session);
	}
	target_release(&session->target);
	if (session->drain_initialized)
		drain_release(&session->drain);
	output_free(session->output);
	images_free(session->images);
	jit_files_free(session->files);
	jit_objects_free(session->objects);
	jit_pages_free(session->pages);
	stack_pages_free(session->stack_pages);
	spaces_free(session->spaces);
	ledger_release(&session->ledger);
	event_set_close(&session->set);
	writer_free(session->writer);
	free(session->file_attrs);
	free(session->cpu_numbers);
	stuck_release(&session->stuck);
	switches_release(&session->switches);
	vec_release(&session->stood_still);
	vec_release(&session->decisions.items);
	sem_destroy(&session->drain_ready);
	sem_destroy(&session->drain_go);
	int fds[] = { session->signal_fd, session->wake_main_fd, session->wake_drain_fd };
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(session);
}
