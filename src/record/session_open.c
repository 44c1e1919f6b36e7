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

// Samples a second that one CPU may give, over all events. Of events whose rate nobody knows (tracepoints, fixed counts) a thousand are assumed.
static double rate_of(const struct session_config *config, const struct event_options *options)
{
	double rate = 0;
	for (size_t i = 0; i < config->specs->items.count; i++) {
		const struct event_spec *spec = &config->specs->items.data[i];
		if (spec->group >= 0 && !spec->is_leader)
			continue; // read with its leader
		uint64_t period = spec->has_period && spec->period > 0 ? spec->period : options->period;
		uint64_t frequency = spec->has_period && spec->frequency > 0 ? spec->frequency : options->frequency;
		if (spec->has_period && spec->period == 0)
			period = frequency > 0 ? 1000000000 / frequency : 0;
		if ((spec->is_clock || spec->is_default) && period > 0)
			rate += 1e9 / (double)period;
		else if ((options->is_freq || options->is_default_rate) && !spec->is_tracepoint && frequency > 0)
			rate += (double)frequency;
		else
			rate += 1000;
	}
	return rate;
}

static bool choose_sizes(struct session *session, struct err *err)
{
	const struct session_config *config = session->config;
	bool stack = config->mode == CHAIN_LIVE || config->mode == CHAIN_POST;
	const char *limit_text = "";
	size_t rings = session->target.events.scope == SCOPE_THREAD ? session->target.tids.count : session->target.cpu_count;
	privilege_raise_memlock();
	size_t limit = ring_budget(rings, &limit_text);
	struct budget_input input = {
		.rate_hz = rate_of(config, &session->options), .has_stack = stack, .stack_bytes = config->stack_bytes, .ring_bytes = config->ring_bytes,
		.ring_limit = limit, .delay_ms = drain_priority_delay_ms(session->priority),
	};
	struct budget budget;
	if (!budget_compute(&input, &budget, err))
		return false;
	session->options.ring_bytes = budget.ring_bytes;
	session->options.stack_bytes = budget.stack_bytes;
	if (budget.is_short)
		decide(&session->decisions, "a ring of %zuK and stack copies of %u bytes bear a reader that is %.0f ms late, not the %u ms of %s%s%s",
		       budget.ring_bytes / 1024, budget.stack_bytes, budget.bears_ms, input.delay_ms, drain_priority_text(session->priority),
		       config->ring_bytes == 0 ? ": " : "", config->ring_bytes == 0 ? limit_text : "");
	return true;
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
	privilege_raise_files(event_set_fd_need(session->config->specs, &session->target.events) + 256, &before);
	for (;;) {
		struct err why = { 0 };
		if (!choose_sizes(session, err))
			return false;
		if (session->options.exclude_user)
			session->options.stack_bytes = 0;
		// A wake-up costs 17 us whatever it finds: at half full there is as much room left for being late.
		session->options.wakeup_watermark = (uint32_t)(session->options.ring_bytes / 2);
		if (event_set_open(&session->set, session->config->specs, &session->target.events, &session->options, &why))
			break;
		if (why.status != STATUS_HOST || !target_fall_back(&session->target, &session->config->target, why.text, &session->decisions)) {
			*err = why;
			return false;
		}
	}
	for (size_t i = 0; i < session->set.decisions.count; i++)
		decide(&session->decisions, "%s", session->set.decisions.data[i].text);
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
	if (!writer_open(&session->writer, session->config->output, session->config->stream_fd, err))
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
	session->start_ns = session_clock_ns(CLOCK_MONOTONIC);
	session->start_wall_ns = session_clock_ns(CLOCK_REALTIME);
	struct writer_info info;
	session_writer_info(session, &info);
	bool good = writer_begin(session->writer, events, all, &info, err);
	free(events);
	free(ids);
	return good;
}
