// Opening: budgets, events, the file.
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proc/procfs.h"
#include "record/budget.h"
#include "record/sample.h"
#include "record/session_private.h"

void session_rate(struct session *session, uint64_t period_ns, uint64_t frequency)
{
	session->options.period = period_ns;
	session->options.frequency = frequency;
}

// Events a second on one CPU where a program makes many of them. Measured on hosts of a few GHz; nothing but sizes of rings and copies hangs on it.
static double busy_hz(const struct event_spec *spec)
{
	enum { CGROUP_SWITCHES = 11 }; // PERF_COUNT_SW_CGROUP_SWITCHES, 5.13
	if (spec->attr.type == PERF_TYPE_SOFTWARE)
		switch (spec->attr.config) {
		case PERF_COUNT_SW_PAGE_FAULTS:
		case PERF_COUNT_SW_PAGE_FAULTS_MIN: return 100000;
		case PERF_COUNT_SW_CONTEXT_SWITCHES:
		case CGROUP_SWITCHES: return 50000;
		default: return 10000;
		}
	return spec->is_tracepoint || spec->attr.type == PERF_TYPE_BREAKPOINT ? 10000 : 2e9;
}

struct rates { double certain_hz, likely_hz; };

// Samples a second that one CPU may give, over all events. Of those whose number is the program's affair a thousand are certain to be borne.
static struct rates rates_of(const struct session_config *config, const struct event_options *options)
{
	struct rates rates = { 0 };
	double limit_hz = (double)procfs_number("/proc/sys/kernel/perf_event_max_sample_rate", 100000); // beyond, the kernel throttles
	for (size_t i = 0; i < config->specs->items.count; i++) {
		const struct event_spec *spec = &config->specs->items.data[i];
		if (spec->group >= 0 && !spec->is_leader)
			continue; // read with its leader
		uint64_t period = spec->has_period && spec->period > 0 ? spec->period : options->period;
		uint64_t frequency = spec->has_period && spec->frequency > 0 ? spec->frequency : options->frequency;
		bool each = spec->is_tracepoint || spec->attr.type == PERF_TYPE_BREAKPOINT;
		if (spec->has_period && spec->period == 0)
			period = frequency > 0 ? 1000000000 / frequency : 0;
		double hz = 1000, likely_hz = busy_hz(spec) / (each && options->is_default_rate && !spec->has_period ? 1 : (double)(period > 0 ? period : 1));
		if ((spec->is_clock || spec->is_default) && period > 0)
			hz = likely_hz = 1e9 / (double)period < limit_hz ? 1e9 / (double)period : limit_hz;
		else if ((options->is_freq || options->is_default_rate) && !each && frequency > 0)
			hz = likely_hz = (double)frequency;
		rates.certain_hz += hz;
		rates.likely_hz += likely_hz < hz ? hz : likely_hz > 100000 ? 100000 : likely_hz;
	}
	return rates;
}

struct sizes {
	struct budget budget;
	double likely_hz;
	const char *limit_text;
};

static bool choose_sizes(struct session *session, struct sizes *sizes, struct err *err)
{
	const struct session_config *config = session->config;
	bool stack = config->mode == CHAIN_LIVE || config->mode == CHAIN_POST;
	size_t rings = session->target.events.scope == SCOPE_THREAD ? session->target.tids.count : session->target.cpu_count;
	privilege_raise_memlock();
	size_t limit = ring_budget(rings, &sizes->limit_text);
	struct rates rates = rates_of(config, &session->options);
	struct budget_input input = {
		.rate_hz = rates.certain_hz, .likely_hz = rates.likely_hz, .ample_bytes = budget_ample_bytes(rings, limit), .has_stack = stack, .stack_bytes = config->stack_bytes, .ring_bytes = config->ring_bytes,
		.ring_limit = limit, .rings = rings, .delay_ms = drain_priority_delay_ms(session->priority),
	};
	sizes->likely_hz = rates.likely_hz;
	if (!budget_compute(&input, &sizes->budget, err))
		return false;
	session->options.ring_bytes = sizes->budget.ring_bytes;
	session->options.stack_bytes = sizes->budget.stack_bytes;
	return true;
}

static void say_sizes(struct session *session, const struct sizes *sizes)
{
	const struct budget *budget = &sizes->budget;
	if (budget->is_cheaper)
		decide_aside(&session->decisions, "stack copies of %u bytes: at up to %.0f samples a second on one CPU larger ones would cost more than 3%% of its time",
		       budget->stack_bytes, sizes->likely_hz);
	if (budget->is_short)
		decide_aside(&session->decisions, "a ring of %zuK and stack copies of %u bytes bear a reader that is %.0f ms late, not the %u ms of %s%s%s",
		       budget->ring_bytes / 1024, budget->stack_bytes, budget->bears_ms, drain_priority_delay_ms(session->priority),
		       drain_priority_text(session->priority), session->config->ring_bytes == 0 ? ": " : "",
		       session->config->ring_bytes == 0 ? sizes->limit_text : "");
}

static void choose_options(struct session *session)
{
	const struct session_config *config = session->config;
	bool unwind = config->mode == CHAIN_LIVE || config->mode == CHAIN_POST;
	session->options = (struct event_options){
		.period = config->period, .frequency = config->frequency, .is_freq = config->is_freq, .is_default_rate = config->is_default_rate, .user_regs = unwind,
		.kernel_callchain = config->mode != CHAIN_NONE, .user_callchain = config->mode == CHAIN_FP,
		.exclude_user = config->all_kernel, .exclude_kernel = config->all_user, .sideband = true,
	};
	if (!session->target.may_kernel && !config->all_user) {
		session->options.exclude_kernel = true;
		decide(&session->decisions, "user space only: kernel.perf_event_paranoid is %ld and there is no CAP_PERFMON",
		       procfs_number("/proc/sys/kernel/perf_event_paranoid", 2));
	}
	struct unwind_regs regs;
	if (unwind && unwind_regs_for(session->host.machine, &regs))
		session->options.user_regs_mask = regs.mask;
	if (session->options.exclude_kernel)
		session->options.kernel_callchain = false;
	if (session->options.exclude_user) {
		session->options.user_regs = false;
		session->options.user_callchain = false;
	}
}

// The recorder finds id and time of a record before it knows whose it is: every event must have them at the same place.
static bool same_start(const struct event_set *set, struct err *err)
{
	const uint64_t needed = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	for (size_t e = 0; e < set->events.count; e++)
		if ((set->events.data[e].attr.sample_type & needed) != needed)
			return err_set(err, STATUS_HOST, "%s: opened without identifier or time", set->events.data[e].name);
	return true;
}

bool session_open_events(struct session *session, struct err *err)
{
	choose_options(session);
	uint64_t before;
	struct sizes sizes = { 0 };
	privilege_raise_files(2 * event_set_fd_need(session->config->specs, &session->target.events) + 256, &before); // twice: event_set_add_waking
	for (;;) {
		struct err why = { 0 };
		if (!choose_sizes(session, &sizes, err))
			return false;
		if (session->options.exclude_user)
			session->options.stack_bytes = 0;
		// A wake-up costs 17 us whatever it finds: the ring is left to fill as far as the rest bears a reader that is late.
		size_t quarter = session->options.ring_bytes / 4;
		bool bears = sizes.budget.bears_ms / 4 >= drain_priority_delay_ms(session->priority);
		session->options.wakeup_watermark = (uint32_t)(bears ? 3 * quarter : 2 * quarter);
		if (event_set_open(&session->set, session->config->specs, &session->target.events, &session->options, &why))
			break;
		if (why.status != STATUS_HOST || !target_fall_back(&session->target, &session->config->target, why.text, &session->decisions)) {
			*err = why;
			return false;
		}
	}
	say_sizes(session, &sizes);
	for (size_t i = 0; i < session->set.decisions.count; i++)
		(session->set.decisions.data[i].is_aside ? decide_aside : decide)(&session->decisions, "%s", session->set.decisions.data[i].text);
	return same_start(&session->set, err);
}

// ---------------------------------------------------------------- the file
static void file_attrs(struct session *session)
{
	const struct event_set *set = &session->set;
	size_t count = set->events.count;
	const uint64_t readable = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_ID | PERF_FORMAT_LOST;
	session->file_attrs = mem_zero(count + 1, sizeof(*session->file_attrs));
	for (size_t e = 0; e < count; e++) {
		struct perf_event_attr *attr = &session->file_attrs[e];
		*attr = set->events.data[e].attr;
		if (set->events.data[e].samples)
			attr->sample_type |= PERF_SAMPLE_PERIOD; // the drain thread puts it in where the kernel could not be asked for it
		if (session->is_live) {
			attr->sample_type = sample_type_live(attr->sample_type);
			attr->sample_regs_user = 0;
			attr->sample_stack_user = 0;
			attr->exclude_callchain_user = 0;
		}
		if ((attr->sample_type & PERF_SAMPLE_READ) == 0)
			attr->read_format = readable; // of our READ records
	}
	// The side-band event with the same bits as the first: perf script wants every field it prints from every event of a file.
	struct perf_event_attr *attr = &session->file_attrs[count];
	*attr = set->has_sideband ? set->sideband_attr : set->events.data[0].attr;
	uint64_t trailer = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER;
	attr->sample_type = (attr->sample_type & trailer) | (session->file_attrs[0].sample_type & ~trailer);
	attr->sample_regs_user = session->file_attrs[0].sample_regs_user;
	attr->sample_stack_user = session->file_attrs[0].sample_stack_user;
	attr->sample_type &= ~(uint64_t)PERF_SAMPLE_READ;
	attr->read_format = readable;
}

void session_writer_info(const struct session *session, struct writer_info *info)
{
	*info = (struct writer_info){
		.hostname = session->host.name, .os_release = session->host.release, .arch = session->host.arch,
		.cpu_desc = session->host.cpu[0] != '\0' ? session->host.cpu : NULL, .version = PERFSAMPLE_VERSION,
		.cpus_online = session->host.cpus_online, .cpus_available = session->host.cpus_available,
		.total_memory_kib = session->host.memory_kib, .argv = (const char *const *)session->config->argv,
		.clockid = CLOCK_MONOTONIC, .first_time_ns = session->start_ns, .last_time_ns = session->end_ns,
		.clockid_time_ns = session->start_ns, .wall_time_ns = session->start_wall_ns,
	};
}

bool session_open_file(struct session *session, struct err *err)
{
	const struct event_set *set = &session->set;
	size_t count = set->events.count, all = count + set->has_sideband;
	file_attrs(session);
	const struct session_config *config = session->config;
	if (!(config->is_default_output ? writer_open_default(&session->writer, config->output, err) :
	                                  writer_open(&session->writer, config->output, config->stream_fd, err)))
		return false;
	struct writer_event *events = mem_zero(all, sizeof(*events));
	uint64_t *ids = mem_zero(set->fds.count + 1, sizeof(*ids)), *next = ids;
	for (size_t e = 0; e < all; e++) {
		uint32_t wanted = e < count ? (uint32_t)e : (uint32_t)EVENT_SIDEBAND;
		events[e] = (struct writer_event){ .attr = session->file_attrs[e], .name = e < count ? set->events.data[e].name : "dummy:HG", .ids = next,
		                                   .group_leader = -1 };
		if (e < count) {
			events[e].group_leader = set->events.data[e].group_leader;
			events[e].group_members = set->events.data[e].group_members;
		}
		for (size_t i = 0; i < set->fds.count; i++)
			if (set->fds.data[i].event == wanted)
				*next++ = set->fds.data[i].id;
		events[e].id_count = (size_t)(next - events[e].ids);
	}
	session->start_ns = session_now_ns(session);
	session->start_wall_ns = session_wall_ns();
	struct writer_info info;
	session_writer_info(session, &info);
	bool good = writer_begin(session->writer, events, all, &info, err);
	free(events);
	free(ids);
	return good;
}
