// Opens what event_plan.c planned: descriptors in the legal shapes, rings, and the retreats where a host refuses.
//
// The shapes (perf_event_open(2), perf_event_set_output() and perf_mmap() in kernel/events/core.c): an inherited event can be mapped only
// when it is bound to a CPU; SET_OUTPUT joins events of one CPU and one clock, of whatever tasks.
#include "perf/event_set.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "perf/event_error.h"
#include "perf/event_plan.h"
#include "perf/sysfs.h"

enum { RING_NONE = 0xffffffff };

// One opening of the whole set, or of a further thread.
struct opening {
	struct event_set *set;
	const struct event_specs *specs; // NULL when a thread is added: every attr is proven then
	const struct event_target *target;
	const struct event_options *options;
	struct err *err;
	bool wakes; // event_set_add_waking
};

const char *event_scope_text(enum event_scope scope)
{
	switch (scope) {
	case SCOPE_CGROUP:
		return "events per CPU in its cgroup";
	case SCOPE_CPU:
		return "events per CPU";
	case SCOPE_TASK:
		return "events per task and CPU";
	case SCOPE_THREAD:
		break;
	}
	return "events per thread, without those born later";
}

static bool on_cpu(const struct event_opened *event, uint32_t cpu)
{
	for (size_t i = 0; i < event->cpu_count; i++)
		if (event->cpus[i] == cpu)
			return true;
	return event->cpu_count == 0;
}

static const char *event_name(const struct event_set *set, uint32_t event)
{
	return event == EVENT_SIDEBAND ? "dummy (mmap, comm, task)" : set->events.data[event].name;
}

struct place { int32_t tid; int cpu; uint32_t cpu_index; };

static int open_at(const struct opening *o, struct perf_event_attr attr, const struct place *place, int group_fd)
{
	switch (o->target->scope) {
	case SCOPE_CGROUP:
		return event_open(&attr, o->target->cgroup_fd, place->cpu, group_fd, PERF_FLAG_PID_CGROUP);
	case SCOPE_CPU:
		return event_open(&attr, -1, place->cpu, group_fd, 0);
	case SCOPE_TASK:
	case SCOPE_THREAD:
		break;
	}
	return event_open(&attr, place->tid, place->cpu, group_fd, 0);
}

// Whether this place is simply gone: a thread that ended, a CPU that went offline under an event known to be good.
static bool is_gone(const struct opening *o, int error, bool proven)
{
	bool tasks = o->target->scope == SCOPE_TASK || o->target->scope == SCOPE_THREAD;
	return (tasks && error == ESRCH) || (proven && error == ENODEV);
}

static bool refused(const struct opening *o, int error, const char *name, const struct perf_event_attr *attr)
{
	if (error == EMFILE || error == ENFILE) {
		struct event_specs none = { 0 };
		const struct event_specs *specs = o->specs != NULL ? o->specs : &none;
		return event_error_files(o->err, error, event_set_fd_need(specs, o->target), specs, o->target);
	}
	return event_error(o->err, error, name, attr, o->target);
}

// A weak group that cannot be opened together is broken up: its members become events of their own, which sample.
static bool break_up(const struct opening *o, uint32_t index)
{
	struct event_set *set = o->set;
	struct event_opened *event = &set->events.data[index];
	if (o->specs == NULL || event->group_leader < 0 || !o->specs->items.data[event->spec].is_weak)
		return false;
	struct event_opened *leader = &set->events.data[event->group_leader];
	event->attr.disabled = 1;
	event->attr.enable_on_exec = leader->attr.enable_on_exec;
	event->attr.read_format &= ~(uint64_t)PERF_FORMAT_GROUP;
	event->group_leader = -1;
	leader->group_members--;
	event_set_decide(set, "%s counts outside its group: the hardware cannot count all of it at once", event->name);
	return true;
}

static struct perf_event_attr sideband_attr_of(const struct event_set *set, bool wakes)
{
	struct perf_event_attr attr = set->sideband_attr;
	if (wakes) {
		attr.mmap = attr.mmap2 = attr.comm = attr.comm_exec = attr.task = attr.build_id = attr.ksymbol = attr.enable_on_exec = 0;
		attr.context_switch = 1;
	}
	return attr;
}

static struct perf_event_attr attr_of(const struct event_opened *event, bool wakes)
{
	struct perf_event_attr attr = event->attr;
	if (wakes) {
		attr.watermark = attr.enable_on_exec = 0;
		attr.wakeup_events = 1;
	}
	return attr;
}

// Opens event `index` at a place; *fd -1: the place is gone, which is no error.
static bool open_event(const struct opening *o, uint32_t index, const struct place *place, int leader_fd, int *fd)
{
	struct event_opened *event = &o->set->events.data[index];

	for (;;) {
		*fd = open_at(o, attr_of(event, o->wakes), place, event->group_leader >= 0 ? leader_fd : -1);
		if (*fd >= 0) {
			event->is_proven = true;
			return true;
		}
		int error = errno;
		if (is_gone(o, error, event->is_proven))
			return true;
		if (event->is_proven || o->specs == NULL ||
		    !(event_plan_retreat(o->set, event, &o->specs->items.data[event->spec], o->options, error) || break_up(o, index)))
			return refused(o, error, event->name, &event->attr);
	}
}

static void keep(const struct opening *o, int fd, uint32_t event, const struct place *place)
{
	struct event_fd kept = { .fd = fd, .event = event, .cpu_index = place->cpu_index, .tid = place->tid, .wakes = o->wakes };
	ioctl(fd, PERF_EVENT_IOC_ID, &kept.id);
	vec_push(&o->set->fds, kept);
}

// Every event at one place: the side-band event first, so that it owns the ring where this is the first place of a CPU.
static bool open_place(const struct opening *o, const struct place *place)
{
	struct event_set *set = o->set;

	if (set->has_sideband) {
		struct perf_event_attr attr = sideband_attr_of(set, o->wakes);
		int fd = open_at(o, attr, place, -1);
		if (fd >= 0)
			keep(o, fd, EVENT_SIDEBAND, place);
		else if (is_gone(o, errno, true))
			return true;
		else
			return refused(o, errno, event_name(set, 0), &attr); // the user knows only what was asked for
	}
	int leader_fd = -1;
	for (uint32_t i = 0; i < set->events.count; i++) {
		int fd;
		if (place->cpu >= 0 && !on_cpu(&set->events.data[i], (uint32_t)place->cpu))
			continue;
		if (!open_event(o, i, place, leader_fd, &fd))
			return false;
		if (fd < 0)
			return true;
		keep(o, fd, i, place);
		if (set->events.data[i].group_leader < 0)
			leader_fd = fd;
	}
	return true;
}

static bool open_thread(const struct opening *o, int32_t tid, uint32_t thread_index)
{
	if (o->target->scope == SCOPE_THREAD)
		return open_place(o, &(struct place){ .tid = tid, .cpu = -1, .cpu_index = thread_index });
	for (size_t c = 0; c < o->target->cpu_count; c++)
		if (!open_place(o, &(struct place){ .tid = tid, .cpu = (int)o->target->cpus[c], .cpu_index = (uint32_t)c }))
			return false;
	return true;
}

static bool open_all(const struct opening *o)
{
	bool tasks = o->target->scope == SCOPE_TASK || o->target->scope == SCOPE_THREAD;

	if (!tasks)
		return open_thread(o, -1, 0);
	for (size_t t = 0; t < o->target->tid_count; t++)
		if (!open_thread(o, o->target->tids[t], (uint32_t)t))
			return false;
	if (o->set->fds.count == 0)
		return event_error(o->err, ESRCH, event_name(o->set, 0), &o->set->sideband_attr, o->target);
	return true;
}

// ---------------------------------------------------------------- rings

// The ring that belongs to a cpu_index; RING_NONE: not mapped yet.
static uint32_t ring_of(const struct event_set *set, uint32_t cpu_index)
{
	for (uint32_t r = 0; r < set->rings.count; r++)
		if (set->rings.data[r].slot == cpu_index)
			return r;
	return RING_NONE;
}

// Maps a ring for the first fd of each cpu_index from `first_fd` on and sends the others there.
static bool map_rings(const struct opening *o, size_t first_fd, size_t ring_bytes, int *error)
{
	struct event_set *set = o->set;
	uint32_t last = RING_NONE, last_ring = RING_NONE;

	for (size_t i = first_fd; i < set->fds.count; i++) {
		const struct event_fd *f = &set->fds.data[i];
		uint32_t r = f->cpu_index == last ? last_ring : ring_of(set, f->cpu_index);
		if (r == RING_NONE) {
			struct ring ring;
			uint32_t cpu = o->target->scope == SCOPE_THREAD ? UINT32_MAX : o->target->cpus[f->cpu_index];
			if (!ring_map(&ring, f->fd, cpu, ring_bytes, o->err)) {
				*error = errno;
				return false;
			}
			ring.slot = f->cpu_index;
			r = (uint32_t)set->rings.count;
			vec_push(&set->rings, ring);
		} else if (ioctl(f->fd, PERF_EVENT_IOC_SET_OUTPUT, set->rings.data[r].fd) != 0) {
			*error = 0;
			return err_errno(o->err, STATUS_HOST, "event '%s': sending it to the ring of CPU %u", event_name(set, f->event), set->rings.data[r].cpu);
		}
		last = f->cpu_index;
		last_ring = r;
	}
	return true;
}

static bool set_filters(const struct opening *o, size_t first_fd)
{
	for (size_t i = first_fd; i < o->set->fds.count; i++) {
		const struct event_fd *f = &o->set->fds.data[i];
		const char *filter = f->event != EVENT_SIDEBAND ? o->set->events.data[f->event].filter : NULL;
		if (filter != NULL && ioctl(f->fd, PERF_EVENT_IOC_SET_FILTER, filter) != 0)
			return err_errno(o->err, STATUS_USAGE, "filter '%s' of event '%s'", filter, event_name(o->set, f->event));
	}
	return true;
}

// fds from `first_fd` and rings from `first_ring` on.
static void close_from(struct event_set *set, size_t first_fd, size_t first_ring)
{
	while (set->rings.count > first_ring)
		ring_unmap(&set->rings.data[--set->rings.count]);
	// Members before their leaders, as they were opened after them.
	while (set->fds.count > first_fd)
		close(set->fds.data[--set->fds.count].fd);
}

// The least ring: one record, and what comes with it.
static size_t least_ring(const struct event_options *options)
{
	size_t need = (size_t)options->stack_bytes + 4096, bytes = (size_t)sysconf(_SC_PAGESIZE);
	while (bytes < need)
		bytes *= 2;
	return bytes;
}

static void set_watermarks(struct event_set *set, const struct event_options *options)
{
	uint32_t watermark = options->wakeup_watermark != 0 && options->wakeup_watermark < set->ring_bytes ? options->wakeup_watermark :
		(uint32_t)(set->ring_bytes / 4);
	for (size_t i = 0; i < set->events.count; i++)
		set->events.data[i].attr.wakeup_watermark = watermark;
	set->sideband_attr.wakeup_watermark = watermark;
}

static bool open_with_rings(const struct opening *o)
{
	struct event_set *set = o->set;
	size_t wanted = o->options->ring_bytes, least = least_ring(o->options);
	int error = 0;

	for (set->ring_bytes = wanted;; set->ring_bytes /= 2) {
		set_watermarks(set, o->options); // fixed when an event is opened: so all are opened anew for another size
		if (!open_all(o))
			return false;
		if (map_rings(o, 0, set->ring_bytes, &error))
			break;
		if (error != EPERM && error != ENOMEM)
			return false;
		size_t rings = o->target->scope == SCOPE_THREAD ? o->target->tid_count : o->target->cpu_count;
		if (set->ring_bytes / 2 < least)
			return error == EPERM ? event_error_mlock(o->err, set->ring_bytes, rings) : false;
		close_from(set, 0, 0);
	}
	if (set->ring_bytes < wanted)
		event_set_mention(set, "rings of %zu KiB instead of %zu: %s (kernel.perf_event_mlock_kb is %ld)", set->ring_bytes / 1024, wanted / 1024,
		                 error == EPERM ? "no more memory may be locked" : "there is not enough memory",
		                 kernel_number("/proc/sys/kernel/perf_event_mlock_kb", 516));
	return set_filters(o, 0);
}

// ---------------------------------------------------------------- the set

bool event_set_open(struct event_set *set, const struct event_specs *specs, const struct event_target *target,
                    const struct event_options *options, struct err *err)
{
	struct opening opening = { .set = set, .specs = specs, .target = target, .options = options, .err = err };
	struct rlimit files = { 0 };
	size_t need = event_set_fd_need(specs, target);

	*set = (struct event_set){ .ring_bytes = options->ring_bytes, .is_enabled = target->enable_on_exec };
	if (options->ring_bytes < least_ring(options))
		return err_set(err, STATUS_USAGE, "a ring of %zu bytes does not hold one record: at least %zu", options->ring_bytes, least_ring(options));
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY && need > files.rlim_cur)
		return event_error_files(err, EMFILE, need, specs, target);
	if (event_plan(set, specs, target, options, err) && open_with_rings(&opening))
		return true;
	event_set_close(set);
	return false;
}

// Whether it is to be on while sampling is.
static bool is_wanted(const struct event_set *set, const struct event_fd *f)
{
	return f->wakes == set->wakes_each || (f->event == EVENT_SIDEBAND && !f->wakes);
}

bool event_set_add_thread(struct event_set *set, const struct event_target *target, int32_t tid, bool wakes, struct err *err)
{
	struct opening opening = { .set = set, .target = target, .err = err, .wakes = wakes };
	size_t first_fd = set->fds.count, first_ring = set->rings.count;
	uint32_t slot = 0;
	int error;

	for (size_t r = 0; r < set->rings.count; r++)
		slot = set->rings.data[r].slot >= slot ? set->rings.data[r].slot + 1 : slot;
	if (!open_thread(&opening, tid, slot) || !map_rings(&opening, first_fd, set->ring_bytes, &error) || !set_filters(&opening, first_fd)) {
		close_from(set, first_fd, first_ring);
		return false;
	}
	for (size_t i = first_fd; set->is_enabled && i < set->fds.count; i++)
		if (is_wanted(set, &set->fds.data[i]))
			ioctl(set->fds.data[i].fd, PERF_EVENT_IOC_ENABLE, 0);
	return true;
}

bool event_set_enable(struct event_set *set, struct err *err)
{
	// Side-band events first: a mapping made meanwhile must not be missed by a sample in it.
	for (unsigned sampling = 0; sampling < 2; sampling++)
		for (size_t i = 0; i < set->fds.count; i++)
			if ((set->fds.data[i].event != EVENT_SIDEBAND) == (sampling == 1) && is_wanted(set, &set->fds.data[i]) &&
			    ioctl(set->fds.data[i].fd, PERF_EVENT_IOC_ENABLE, 0) != 0)
				return err_errno(err, STATUS_HOST, "switching on event '%s'", event_name(set, set->fds.data[i].event));
	set->is_enabled = true;
	return true;
}

void event_set_disable(struct event_set *set)
{
	for (unsigned sideband = 0; sideband < 2; sideband++)
		for (size_t i = 0; i < set->fds.count; i++)
			if ((set->fds.data[i].event == EVENT_SIDEBAND) == (sideband == 1))
				ioctl(set->fds.data[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	set->is_enabled = false;
}

bool event_set_add_waking(struct event_set *set, const struct event_target *target, struct err *err)
{
	struct opening opening = { .set = set, .target = target, .err = err, .wakes = true };
	size_t first_fd = set->fds.count, first_ring = set->rings.count;
	int error;

	if (open_all(&opening) && map_rings(&opening, first_fd, set->ring_bytes, &error) && set_filters(&opening, first_fd))
		return true;
	close_from(set, first_fd, first_ring);
	return false;
}

void event_set_wake_each(struct event_set *set, bool each)
{
	if (each == set->wakes_each)
		return;
	// Of switches of tasks every CPU tells, as long as one of them samples so.
	for (unsigned sideband = 0; sideband < 2; sideband++)
		for (size_t i = 0; i < set->fds.count; i++)
			if (set->fds.data[i].wakes != each && (set->fds.data[i].event == EVENT_SIDEBAND) == sideband && (!sideband || set->fds.data[i].wakes))
				ioctl(set->fds.data[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	set->wakes_each = each;
	for (unsigned sampling = 0; set->is_enabled && sampling < 2; sampling++)
		for (size_t i = 0; i < set->fds.count; i++)
			if (set->fds.data[i].wakes == each && (set->fds.data[i].event != EVENT_SIDEBAND) == sampling && is_wanted(set, &set->fds.data[i]))
				ioctl(set->fds.data[i].fd, PERF_EVENT_IOC_ENABLE, 0);
}

int event_set_poll_fd(const struct event_set *set, uint32_t slot)
{
	for (size_t i = 0; i < set->fds.count; i++) {
		struct pollfd p = { .fd = set->fds.data[i].fd };
		if (set->fds.data[i].cpu_index == slot && poll(&p, 1, 0) >= 0 && (p.revents & (POLLHUP | POLLERR)) == 0)
			return p.fd;
	}
	return -1;
}

void event_set_close(struct event_set *set)
{
	close_from(set, 0, 0);
	event_plan_release(set);
	vec_release(&set->fds);
	vec_release(&set->rings);
	vec_release(&set->decisions);
}

// ---------------------------------------------------------------- reading

enum { READ_WORDS = 3 + 3 * 65 }; // count and times, then value, id and lost of at most 64 members and a leader

// read_format in perf_event_open(2), "Reading results".
static bool read_one(const struct event_fd *f, uint64_t format, struct event_reading *sum)
{
	uint64_t words[READ_WORDS];
	ssize_t got = read(f->fd, words, sizeof(words));
	size_t count = got > 0 ? (size_t)got / 8 : 0;
	bool lost = (format & PERF_FORMAT_LOST) != 0;

	if ((format & PERF_FORMAT_GROUP) == 0) {
		if (count < 4u + lost)
			return false;
		sum->value += words[0];
		sum->enabled += words[1];
		sum->running += words[2];
		sum->lost += lost ? words[4] : 0;
		return true;
	}
	for (size_t at = 3; at + 2 + lost <= count; at += 2 + lost)
		if (words[at + 1] == f->id) {
			sum->value += words[at];
			sum->enabled += words[1];
			sum->running += words[2];
			sum->lost += lost ? words[at + 2] : 0;
			return true;
		}
	return false;
}

// PERF_EVENT_IOC_PERIOD, with the period that it has: the kernel starts the timer with a whole one (kernel/events/core.c, __perf_event_period).
bool event_set_restart(struct event_set *set, size_t fd, uint64_t least, uint64_t *running, uint64_t *cut)
{
	struct event_fd *f = &set->fds.data[fd];
	const struct perf_event_attr *attr = &set->events.data[f->event].attr;
	uint64_t period = attr->sample_period;
	struct event_reading reading = { 0 };
	if (f->wakes != set->wakes_each || !read_one(f, attr->read_format, &reading) || reading.running < f->restarted + least)
		return false;
	if (ioctl(f->fd, PERF_EVENT_IOC_PERIOD, &period) != 0)
		return false;
	*running = reading.running;
	*cut = (reading.running - f->restarted) % period;
	f->restarted = reading.running;
	return true;
}

struct event_reading event_set_read(const struct event_set *set, uint32_t event, uint32_t cpu_index)
{
	struct event_reading sum = { 0 };
	const struct perf_event_attr *attr = event == EVENT_SIDEBAND ? &set->sideband_attr : event < set->events.count ? &set->events.data[event].attr : NULL;

	for (size_t i = 0; attr != NULL && i < set->fds.count; i++)
		if (set->fds.data[i].event == event && (cpu_index == UINT32_MAX || set->fds.data[i].cpu_index == cpu_index))
			read_one(&set->fds.data[i], attr->read_format, &sum);
	return sum;
}

void event_set_read_all(const struct event_set *set, struct event_reading *table, size_t slots)
{
	memset(table, 0, (set->events.count + 1) * slots * sizeof(*table));
	for (size_t i = 0; i < set->fds.count; i++) {
		const struct event_fd *f = &set->fds.data[i];
		bool sideband = f->event == EVENT_SIDEBAND;
		size_t row = sideband ? set->events.count : f->event;
		if (f->cpu_index < slots)
			read_one(f, sideband ? set->sideband_attr.read_format : set->events.data[f->event].attr.read_format, &table[row * slots + f->cpu_index]);
	}
}
