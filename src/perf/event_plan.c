#include "perf/event_plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "perf/sysfs.h"

enum { GROUP_LIMIT = 64 };
enum { PMU_TYPE_SHIFT = 32 }; // linux/perf_event.h from 5.13: PERF_PMU_TYPE_SHIFT

// Every event of a session has these, so that one trailer (sample_id_all) fits the records of all.
static const uint64_t common_sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
	PERF_SAMPLE_PERIOD;

// What this kernel can do beyond Linux 4.1, found out by opening events on ourselves.
struct features { bool format_lost, build_ids, ksymbol, inherited_reads; };

static void add_decision(struct event_set *set, bool is_aside, const char *format, va_list args)
{
	struct event_decision decision = { .is_aside = is_aside };
	vsnprintf(decision.text, sizeof(decision.text), format, args);
	for (size_t i = 0; i < set->decisions.count; i++) // said once, however many events it concerns
		if (strcmp(set->decisions.data[i].text, decision.text) == 0)
			return;
	vec_push(&set->decisions, decision);
}

void event_set_decide(struct event_set *set, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	add_decision(set, false, format, args);
	va_end(args);
}

void event_set_mention(struct event_set *set, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	add_decision(set, true, format, args);
	va_end(args);
}

int event_open(struct perf_event_attr *attr, int pid, int cpu, int group_fd, unsigned long flags)
{
	return (int)syscall(SYS_perf_event_open, attr, pid, cpu, group_fd, flags | PERF_FLAG_FD_CLOEXEC);
}

static struct perf_event_attr dummy_attr(void)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY, .size = sizeof(struct perf_event_attr), .sample_type = common_sample_type,
		.read_format = PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.disabled = 1, .exclude_kernel = 1, .exclude_hv = 1, .sample_id_all = 1, .use_clockid = 1, .clockid = CLOCK_MONOTONIC,
	};
}

static bool accepts(struct perf_event_attr attr)
{
	int fd = event_open(&attr, 0, -1, -1, 0);
	if (fd >= 0)
		close(fd);
	// Whatever is not "no such thing" (permission above all) is left for the real events to fail with.
	return fd >= 0 || (errno != EINVAL && errno != E2BIG);
}

static struct features find_features(void)
{
	struct features f;
	struct perf_event_attr attr = dummy_attr();

	attr.read_format |= PERF_FORMAT_LOST; // 6.0
	f.format_lost = accepts(attr);
	attr = dummy_attr();
	attr.mmap = attr.mmap2 = attr.build_id = 1; // 5.12
	f.build_ids = accepts(attr);
	attr = dummy_attr();
	attr.ksymbol = 1; // 5.1
	f.ksymbol = accepts(attr);
	attr = dummy_attr();
	attr.inherit = 1; // with reads in samples: 6.12
	attr.sample_type |= PERF_SAMPLE_READ;
	attr.read_format |= PERF_FORMAT_GROUP;
	f.inherited_reads = accepts(attr);
	return f;
}

static uint64_t host_regs_mask(void)
{
#if defined(__x86_64__)
	return 0xff0fff; // asm/perf_regs.h: all but ds, es, fs, gs, which the kernel does not give in 64-bit mode
#elif defined(__aarch64__)
	return 0x1ffffffff; // x0 to x30, sp, pc
#else
	return 0;
#endif
}

// A record's size is a u16: what is put into it later has room.
enum { STACK_BYTES_UNCOMPLETED = 65528 - 1024 };

static void set_rate(struct event_set *set, struct event_opened *event, const struct event_spec *spec, const struct event_options *options)
{
	struct perf_event_attr *attr = &event->attr;
	uint64_t period = options->period, frequency = options->is_freq ? options->frequency : 0;
	long limit = kernel_number("/proc/sys/kernel/perf_event_max_sample_rate", 0);

	if (spec->has_period) {
		period = spec->period;
		frequency = spec->period == 0 ? spec->frequency : 0;
	} else if (options->is_default_rate && !event->is_clock) {
		bool each = attr->type == PERF_TYPE_TRACEPOINT || attr->type == PERF_TYPE_BREAKPOINT;
		frequency = each || options->is_freq || period == 0 ? frequency : (1000000000 + period / 2) / period;
		if (each) {
			period = 1;
			frequency = 0;
		}
	}
	attr->freq = 0;
	if (frequency > 0 && limit > 0 && frequency > (uint64_t)limit) {
		event_set_decide(set, "%s at %ld Hz instead of %llu: kernel.perf_event_max_sample_rate is %ld", event->name, limit,
		                 (unsigned long long)frequency, limit);
		frequency = (uint64_t)limit;
	}
	if (frequency > 0 && event->is_clock) {
		period = (1000000000 + frequency / 2) / frequency; // fixed: what was due can then be told
		frequency = 0;
	}
	if (frequency > 0) {
		attr->freq = 1;
		attr->sample_freq = frequency;
		return;
	}
	attr->sample_period = period > 0 ? period : 1;
	if (event->is_clock && limit > 0 && (uint64_t)limit < 1000000000 / attr->sample_period)
		event_set_decide(set, "%s every %llu ns is more than kernel.perf_event_max_sample_rate (%ld a second): the kernel will throttle it", event->name,
		                 (unsigned long long)attr->sample_period, limit);
}

// The kernel takes a non-sampling event's fields of sampling too, but they must not ask for what needs a sample.
static void set_sampling(struct event_set *set, struct event_opened *event, const struct event_spec *spec, const struct event_options *options)
{
	struct perf_event_attr *attr = &event->attr;

	attr->sample_type = common_sample_type;
	attr->watermark = 1;
	attr->wakeup_watermark = options->wakeup_watermark != 0 ? options->wakeup_watermark : (uint32_t)(set->ring_bytes / 4);
	if (!event->samples) {
		attr->sample_period = 0;
		attr->freq = 0;
		return;
	}
	set_rate(set, event, spec, options);
	// perf_swevent_event() in kernel/events/core.c: with PERF_SAMPLE_PERIOD each event becomes a sample, of period 1, whatever period was asked for.
	bool is_counted_in_software = attr->type == PERF_TYPE_SOFTWARE || attr->type == PERF_TYPE_TRACEPOINT || attr->type == PERF_TYPE_BREAKPOINT;
	if (is_counted_in_software && !event->is_clock && attr->freq == 0 && attr->sample_period > 1)
		attr->sample_type &= ~(uint64_t)PERF_SAMPLE_PERIOD; // put in by whoever reads the ring
	if (spec->is_tracepoint)
		attr->sample_type |= PERF_SAMPLE_RAW;
	if (attr->type == PERF_TYPE_BREAKPOINT || (attr->type == PERF_TYPE_SOFTWARE && (attr->config == PERF_COUNT_SW_PAGE_FAULTS ||
	    attr->config == PERF_COUNT_SW_PAGE_FAULTS_MIN || attr->config == PERF_COUNT_SW_PAGE_FAULTS_MAJ)))
		attr->sample_type |= PERF_SAMPLE_ADDR;
	if (options->kernel_callchain || options->user_callchain) {
		attr->sample_type |= PERF_SAMPLE_CALLCHAIN;
		attr->exclude_callchain_user = !options->user_callchain;
		attr->exclude_callchain_kernel = !options->kernel_callchain || attr->exclude_kernel;
	}
	if (options->user_regs || options->stack_bytes > 0) {
		attr->sample_type |= PERF_SAMPLE_REGS_USER;
		attr->sample_regs_user = options->user_regs_mask != 0 ? options->user_regs_mask : host_regs_mask();
	}
	if (options->stack_bytes > 0) {
		attr->sample_type |= PERF_SAMPLE_STACK_USER;
		attr->sample_stack_user = options->stack_bytes;
		if ((attr->sample_type & PERF_SAMPLE_PERIOD) == 0 && attr->sample_stack_user > STACK_BYTES_UNCOMPLETED)
			attr->sample_stack_user = STACK_BYTES_UNCOMPLETED;
	}
}

static uint64_t read_format(const struct features *features)
{
	return PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | (features->format_lost ? PERF_FORMAT_LOST : 0);
}

// What does not depend on sampling: scope, clock, what is left out.
static void set_scope(struct perf_event_attr *attr, const struct event_target *target, const struct event_options *options)
{
	attr->size = sizeof(*attr);
	attr->disabled = 1;
	attr->inherit = target->scope == SCOPE_TASK && target->inherit;
	attr->enable_on_exec = target->scope == SCOPE_TASK && target->enable_on_exec;
	attr->sample_id_all = 1;
	attr->use_clockid = 1;
	attr->clockid = CLOCK_MONOTONIC;
	// Unless nothing would be left: who writes :k where the kernel is not allowed gets the kernel's refusal, not an empty profile.
	if (options->exclude_user && !attr->exclude_kernel)
		attr->exclude_user = 1;
	if (options->exclude_kernel && !attr->exclude_user)
		attr->exclude_kernel = attr->exclude_hv = 1;
}

// "cycles:u" on PMU cpu_core is "cpu_core/cycles/u", as perf writes it.
static char *name_on_pmu(const char *name, const char *pmu)
{
	const char *colon = strchr(name, ':');
	size_t length = colon != NULL ? (size_t)(colon - name) : strlen(name);
	return mem_printf("%s/%.*s/%s", pmu, (int)length, name, colon != NULL ? colon + 1 : "");
}

static void copy_cpus(struct event_opened *event, const uint32_t *cpus, size_t count)
{
	if (count == 0)
		return;
	event->cpus = mem_copy(cpus, count * sizeof(*cpus));
	event->cpu_count = count;
}

struct planner {
	struct event_set *set;
	const struct event_specs *specs;
	const struct event_target *target;
	const struct event_options *options;
	struct features features;
};

// Adds the event of specs->items[index], on `pmu` (NULL: not hybrid).
static void add_event(struct planner *p, size_t index, const struct event_pmu *pmu, int32_t leader)
{
	const struct event_spec *spec = &p->specs->items.data[index];
	struct event_opened event = { .attr = spec->attr, .spec = (uint32_t)index, .group_leader = leader, .is_clock = spec->is_clock,
		.samples = leader < 0 || spec->has_period };

	if (pmu != NULL && spec->pmus.count > 0) {
		event.name = name_on_pmu(spec->name, pmu->name);
		copy_cpus(&event, pmu->cpus, pmu->cpu_count);
		if (spec->attr.type == PERF_TYPE_RAW)
			event.attr.type = pmu->type;
		else
			event.attr.config |= (uint64_t)pmu->type << PMU_TYPE_SHIFT;
	} else {
		event.name = mem_string(spec->name);
		copy_cpus(&event, spec->cpus.data, spec->cpus.count);
	}
	event.filter = spec->filter != NULL ? mem_string(spec->filter) : NULL;
	set_scope(&event.attr, p->target, p->options);
	set_sampling(p->set, &event, spec, p->options);
	event.attr.read_format = read_format(&p->features);
	vec_push(&p->set->events, event);
}

// A group with its leader on `pmu`. Its members are read in the leader's samples.
static bool add_group(struct planner *p, size_t first, size_t end, const struct event_pmu *pmu, struct err *err)
{
	int32_t leader = (int32_t)p->set->events.count;

	if (end - first > GROUP_LIMIT)
		return err_set(err, STATUS_USAGE, "a group of %zu events: at most %d", end - first, GROUP_LIMIT);
	for (size_t i = first; i < end; i++) {
		const struct event_spec *spec = &p->specs->items.data[i];
		const struct event_pmu *own = NULL;
		for (size_t k = 0; pmu != NULL && k < spec->pmus.count; k++)
			if (spec->pmus.data[k].type == pmu->type)
				own = &spec->pmus.data[k];
		add_event(p, i, own, i == first ? -1 : leader);
		// Members follow their leader onto its PMU's CPUs.
		struct event_opened *event = &p->set->events.data[p->set->events.count - 1];
		if (event->cpu_count == 0 && pmu != NULL)
			copy_cpus(event, pmu->cpus, pmu->cpu_count);
		event->group_leader = i == first ? -1 : leader;
	}
	struct event_opened *events = p->set->events.data + leader;
	size_t count = end - first;
	events[0].group_members = (uint32_t)count;
	bool reads = !events[0].attr.inherit || p->features.inherited_reads;
	for (size_t i = 0; i < count; i++) {
		events[i].attr.read_format |= PERF_FORMAT_GROUP;
		if (reads && events[i].samples)
			events[i].attr.sample_type |= PERF_SAMPLE_READ;
		// Only the leader is switched on and off by exec or by us; members count when it does.
		if (i > 0)
			events[i].attr.disabled = events[i].attr.enable_on_exec = 0;
	}
	if (!reads)
		event_set_mention(p->set, "the values of group members are read apart from the samples: this kernel refuses inherited events with reads in "
		                 "their samples (Linux 6.12 has them)");
	return true;
}

static bool usable_on(const struct event_target *target, const struct event_pmu *pmu)
{
	for (size_t i = 0; i < pmu->cpu_count; i++)
		for (size_t k = 0; k < target->cpu_count; k++)
			if (pmu->cpus[i] == target->cpus[k])
				return true;
	return target->cpu_count == 0;
}

static bool add_item(struct planner *p, size_t first, size_t end, struct err *err)
{
	const struct event_spec *spec = &p->specs->items.data[first];
	size_t before = p->set->events.count;

	if (spec->is_uncore && p->target->scope != SCOPE_CPU)
		return err_set(err, STATUS_USAGE, "event '%s' counts for whole CPUs or sockets, not for tasks: record it with -a", spec->name);
	for (size_t k = 0; k < spec->pmus.count; k++) {
		if (!usable_on(p->target, &spec->pmus.data[k]))
			continue;
		if (spec->group < 0)
			add_event(p, first, &spec->pmus.data[k], -1);
		else if (!add_group(p, first, end, &spec->pmus.data[k], err))
			return false;
	}
	if (p->set->events.count > before)
		return true;
	if (spec->group >= 0)
		return add_group(p, first, end, NULL, err);
	add_event(p, first, NULL, -1);
	return true;
}

static void plan_sideband(struct planner *p)
{
	struct perf_event_attr attr = dummy_attr();

	set_scope(&attr, p->target, p->options);
	attr.exclude_user = 0;
	attr.exclude_kernel = attr.exclude_hv = 1; // or perf_event_paranoid 2 would forbid it
	attr.read_format = read_format(&p->features);
	attr.mmap = attr.mmap2 = attr.comm = attr.comm_exec = attr.task = 1;
	attr.build_id = p->features.build_ids;
	attr.ksymbol = p->features.ksymbol;
	attr.context_switch = p->options->context_switch;
	attr.watermark = 1;
	attr.wakeup_watermark = p->options->wakeup_watermark != 0 ? p->options->wakeup_watermark : (uint32_t)(p->set->ring_bytes / 4);
	p->set->sideband_attr = attr;
	p->set->has_sideband = p->options->sideband || p->options->context_switch;
	p->set->has_build_ids = p->features.build_ids && p->set->has_sideband;
}

bool event_plan(struct event_set *set, const struct event_specs *specs, const struct event_target *target, const struct event_options *options,
                struct err *err)
{
	struct planner planner = { .set = set, .specs = specs, .target = target, .options = options, .features = find_features() };

	if (options->stack_bytes % 8 != 0 || options->stack_bytes > 65528)
		return err_set(err, STATUS_USAGE, "a stack copy of %u bytes: a multiple of 8 up to 65,528 was expected", options->stack_bytes);
	if (specs->items.count == 0)
		return err_set(err, STATUS_USAGE, "no event to record");
	set->has_format_lost = planner.features.format_lost;
	for (size_t i = 0; i < specs->items.count;) {
		size_t end = i + 1;
		while (specs->items.data[i].group >= 0 && end < specs->items.count && specs->items.data[end].group == specs->items.data[i].group)
			end++;
		if (!add_item(&planner, i, end, err))
			return false;
		i = end;
	}
	plan_sideband(&planner);
	return true;
}

void event_plan_release(struct event_set *set)
{
	for (size_t i = 0; i < set->events.count; i++) {
		free((char *)(uintptr_t)set->events.data[i].name);
		free(set->events.data[i].cpus);
		free(set->events.data[i].filter);
	}
	vec_release(&set->events);
}

// ---------------------------------------------------------------- what to try when the kernel refuses

static bool counts_nothing(int error)
{
	// ENOENT: the PMU has no such event; ENODEV, ENXIO: no PMU (5.18 on some architectures); EOPNOTSUPP: no interrupt (virtual PMUs);
	// EINVAL: some hypervisors' kernels.
	return error == ENOENT || error == ENODEV || error == ENXIO || error == EOPNOTSUPP || (error == EINVAL && !sysfs_has_core_pmu(&event_host_here));
}

static void become_clock(struct event_set *set, struct event_opened *event, const struct event_spec *spec, const struct event_options *options)
{
	const char *modifiers = strchr(spec->name, ':');

	free((char *)(uintptr_t)event->name);
	event->name = mem_printf("cpu-clock%s", modifiers != NULL ? modifiers : "");
	event->attr.type = PERF_TYPE_SOFTWARE;
	event->attr.config = PERF_COUNT_SW_CPU_CLOCK;
	event->attr.precise_ip = 0;
	event->is_clock = true;
	free(event->cpus);
	event->cpus = NULL;
	event->cpu_count = 0;
	uint64_t sample_type = event->attr.sample_type;
	set_rate(set, event, spec, options);
	event->attr.sample_type = sample_type;
	event_set_mention(set, "%s counts no cycles", host_is_virtual() ? "this VM" : "this host");
}

bool event_plan_retreat(struct event_set *set, struct event_opened *event, const struct event_spec *spec, const struct event_options *options, int error)
{
	struct perf_event_attr *attr = &event->attr;

	// Extended types are refused where PERF_PMU_CAP_EXTENDED_HW_TYPE is missing (arm64 before 6.4, say). There a plain event bound to a CPU
	// finds the PMU of that CPU: perf_init_event() asks each PMU in turn, and each refuses foreign CPUs.
	if (error == ENOENT && (attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE) && attr->config >> PMU_TYPE_SHIFT != 0) {
		attr->config &= UINT32_MAX; // PERF_HW_EVENT_MASK
		return true;
	}
	if (spec->is_default && attr->type == PERF_TYPE_HARDWARE && counts_nothing(error)) {
		become_clock(set, event, spec, options);
		return true;
	}
	if (spec->precise_max && attr->precise_ip > 0 && (error == EINVAL || error == EOPNOTSUPP || error == ENOENT)) {
		attr->precise_ip--;
		event_set_decide(set, attr->precise_ip > 0 ? "%s: precise sampling at level %u" : "%s: this hardware samples it without precision", event->name,
		                 (unsigned)attr->precise_ip);
		return true;
	}
	if ((error == EACCES || error == EPERM) && !attr->exclude_kernel && !spec->rings_given && !options->exclude_user && !spec->is_tracepoint) {
		attr->exclude_kernel = attr->exclude_hv = 1;
		attr->exclude_callchain_kernel = (attr->sample_type & PERF_SAMPLE_CALLCHAIN) != 0;
		event_set_decide(set, "user space only: kernel.perf_event_paranoid is %ld (the kernel's part needs 1, or CAP_PERFMON)",
		                 kernel_number("/proc/sys/kernel/perf_event_paranoid", 2));
		return true;
	}
	if (error == EINVAL && attr->exclude_guest && attr->type != PERF_TYPE_SOFTWARE) {
		attr->exclude_guest = 0; // PMUs that count whatever runs (PERF_PMU_CAP_NO_EXCLUDE: msr, uncore) take no exclude bit at all
		return true;
	}
	return false;
}
