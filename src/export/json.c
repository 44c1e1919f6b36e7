// perfsample-report/1: the whole model as JSON, numbers unrounded. The schema is schema/perfsample-report-1.json.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "export/exporter.h"
#include "export/json_write.h"
#include "perfdata/note.h"

// ---------------------------------------------------------------- writing

// Another's name. What it really was in hex stands beside it where it had to be repaired, of a function as "name_hex".
static void string(struct buf *out, const char *key, const char *text)
{
	json_put_name_as(out, key, strcmp(key, "symbol") == 0 ? "name" : key, text);
}

static void number_or_null(struct buf *out, const char *key, double value, bool is_known)
{
	json_put_number(out, key, is_known ? value : NAN);
}

static void string_or_null(struct buf *out, const char *key, const char *text)
{
	if (text != NULL && *text != '\0')
		string(out, key, text);
	else
		json_put_null(out, key);
}

static void interval(struct buf *out, const char *key, struct interval i)
{
	json_open_array(out, key);
	json_put_number(out, NULL, i.lo);
	json_put_number(out, NULL, i.hi);
	json_close_array(out);
}

static void moment(struct buf *out, const char *key, uint64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / 1000000000u);
	struct tm tm;
	char text[40];
	if (wall_ns == 0 || gmtime_r(&seconds, &tm) == NULL || strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) == 0) {
		json_put_null(out, key);
		return;
	}
	size_t length = strlen(text);
	snprintf(text + length, sizeof(text) - length, ".%09lluZ", (unsigned long long)(wall_ns % 1000000000u));
	json_put_text(out, key, text);
}

// ---------------------------------------------------------------- the document

static const char *meta_text(const struct report *r, uint32_t id)
{
	return id != 0 ? profile_text(r->profile, id) : NULL;
}

static void write_target(struct buf *out, const struct report *r)
{
	const struct profile_meta *meta = &r->profile->meta;
	json_open_array(out, "argv");
	for (size_t i = 0; i < meta->argv.count; i++)
		json_put_text(out, NULL, profile_text(r->profile, meta->argv.data[i]));
	json_close_array(out);
	json_open_object(out, "target");
	string_or_null(out, "kind", meta_text(r, meta->target_kind));
	json_open_array(out, "ids");
	for (size_t i = 0; i < meta->target_ids.count; i++)
		json_put_number(out, NULL, meta->target_ids.data[i]);
	json_close_array(out);
	string_or_null(out, "comm", meta_text(r, meta->target_comm));
	number_or_null(out, "threads", meta->target_threads, meta->target_threads > 0);
	number_or_null(out, "processes_seen", meta->processes_seen, meta->processes_seen > 0);
	size_t processes = 0;
	for (size_t i = 0; i < r->events.count; i++)
		processes = r->events.data[i].processes > processes ? r->events.data[i].processes : processes;
	json_put_u64(out, "processes", processes);
	json_close_object(out);
	json_open_object(out, "window");
	uint64_t wall = meta->start_wall_ns;
	uint64_t from = r->from_ns > meta->start_ns ? r->from_ns - meta->start_ns : 0, to = r->to_ns > meta->start_ns ? r->to_ns - meta->start_ns : 0;
	moment(out, "start", wall != 0 ? wall + from : 0);
	moment(out, "end", wall != 0 ? wall + to : 0);
	json_put_number(out, "seconds", r->seconds);
	string_or_null(out, "host", meta_text(r, meta->host));
	string_or_null(out, "kernel", meta_text(r, meta->kernel));
	json_close_object(out);
	json_open_array(out, "decisions");
	for (size_t i = 0; i < meta->decisions.count; i++)
		json_put_text(out, NULL, profile_text(r->profile, meta->decisions.data[i]));
	json_close_array(out);
}

static void write_caveats(struct buf *out, const struct report_event *e)
{
	for (size_t i = 0; i < e->caveats.count; i++) {
		const struct report_caveat *c = &e->caveats.data[i];
		json_open_object(out, NULL);
		string(out, "code", caveat_name(c->code));
		string(out, "text", c->text);
		json_put_number(out, "value", c->value);
		json_put_bool(out, "care", c->is_care);
		json_close_object(out);
	}
}

static void write_sampling(struct buf *out, const struct report_event *e)
{
	const struct profile_event *s = e->source;
	if (!s->is_sampling) {
		json_put_null(out, "sampling");
		return;
	}
	json_open_object(out, "sampling");
	if (s->is_clock) {
		string(out, "kind", "period");
		number_or_null(out, "period_ns", (double)s->period, s->period > 0);
		if (s->comb_periods[0] > 0)
			interval(out, "combs_ns", (struct interval){ (double)s->comb_periods[0], (double)s->comb_periods[1] });
	} else if (s->is_freq) {
		string(out, "kind", "frequency");
		json_put_u64(out, "frequency_hz", s->frequency);
	} else {
		string(out, "kind", "period");
		json_put_u64(out, "period", s->period);
	}
	json_close_object(out);
}

static void write_samples(struct buf *out, const struct report_event *e)
{
	json_open_object(out, "samples");
	json_put_number(out, "taken", e->taken);
	json_put_number(out, "idle", e->idle);
	json_put_number(out, "others", e->others);
	json_put_number(out, "lost", e->lost);
	number_or_null(out, "silent", e->silent, e->can_expect);
	number_or_null(out, "expected", e->expected, e->can_expect);
	number_or_null(out, "begun", e->begun, e->can_expect);
	json_put_number(out, "lost_share", e->lost_share);
	json_put_bool(out, "loss_known", e->is_loss_known);
	json_open_object(out, "worst_second");
	json_put_u64(out, "at", e->worst_second_at);
	json_put_number(out, "share", e->worst_second_share);
	json_close_object(out);
	if (e->loss_to_s > e->loss_from_s)
		interval(out, "loss_span_seconds", (struct interval){ e->loss_from_s, e->loss_to_s });
	else
		json_put_null(out, "loss_span_seconds");
	number_or_null(out, "loss_windows_p", e->loss_windows_p, e->loss_windows_p >= 0);
	string_or_null(out, "tied_to", e->tied_to);
	number_or_null(out, "tied_q", e->tied_q, e->tied_to != NULL);
	json_put_number(out, "missing", e->missing);
	json_put_number(out, "missing_share", e->missing_share);
	json_put_number(out, "dropped", e->dropped);
	json_put_number(out, "shortened", e->shortened);
	json_put_number(out, "throttled_seconds", e->throttled_s);
	json_put_bool(out, "filtered", e->is_filtered);
	json_put_number(out, "before_filter", e->unfiltered);
	json_close_object(out);
}

static void write_lockstep(struct buf *out, const struct report_lockstep *l)
{
	if (!l->is_tested) {
		json_put_null(out, "lockstep");
		return;
	}
	json_open_object(out, "lockstep");
	json_put_bool(out, "suspected", l->is_suspected);
	json_put_number(out, "p", l->p);
	json_put_u64(out, "restarts", l->restarts);
	json_put_number(out, "changes_at_restarts", l->at_restarts);
	json_put_number(out, "changes_elsewhere", l->elsewhere);
	json_close_object(out);
}

static void write_aliasing(struct buf *out, const struct report_aliasing *a)
{
	if (!a->is_tested) {
		json_put_null(out, "aliasing");
		return;
	}
	json_open_object(out, "aliasing");
	json_put_bool(out, "suspected", a->is_suspected);
	interval(out, "samples", (struct interval){ a->samples[0], a->samples[1] });
	json_put_number(out, "chi2", a->chi2);
	json_put_number(out, "df", a->df);
	json_put_number(out, "p", a->p);
	json_put_number(out, "detectable", a->detectable);
	json_close_object(out);
}

static void write_stacks(struct buf *out, const struct report_event *e)
{
	json_open_object(out, "stacks");
	json_put_u64(out, "complete", e->stacks_complete);
	json_put_u64(out, "joined", e->stacks_joined);
	json_put_u64(out, "truncated", e->stacks_truncated);
	json_put_u64(out, "failed", e->stacks_failed);
	json_close_object(out);
	json_open_object(out, "stack_ends");
	for (size_t i = 0; i < UNWIND_END_COUNT; i++)
		if (e->ends[i] > 0)
			json_put_u64(out, unwind_end_name((enum unwind_end)i), e->ends[i]);
	json_open_object(out, "splices");
	for (unsigned i = SPLICE_EXACT; i <= SPLICE_CHECKED; i++)
		json_put_u64(out, splice_name(i), e->splices[i]);
	json_close_object(out);
	json_put_u64(out, "guessed", e->stacks_guessed);
	json_open_object(out, "via");
	for (unsigned via = 0; via < VIA_COUNT; via++)
		if (e->stacks_by_via[via] > 0)
			json_put_u64(out, frame_via_name(via), e->stacks_by_via[via]);
	json_close_object(out);
	json_close_object(out);
}

static void write_measure(struct buf *out, const char *key, const struct row_measure *m, bool run_only, bool is_total)
{
	json_open_object(out, key);
	json_put_number(out, "samples", m->samples);
	json_put_number(out, "share", m->share);
	interval(out, "run", m->run);
	if (run_only)
		json_put_null(out, "workload");
	else
		interval(out, "workload", m->workload);
	json_put_bool(out, "supported", m->supported);
	json_put_u64(out, "blocks", m->blocks);
	json_put_number(out, "deff", m->deff);
	json_put_number(out, "z_vn", m->z_vn);
	json_put_u64(out, "visits", m->visits);
	json_put_u64(out, "visits_outside", m->visits_outside);
	interval(out, "worst_case", m->worst_case);
	number_or_null(out, "imputed", m->imputed, m->imputed >= 0);
	number_or_null(out, "tied_q", m->tied_q, m->tied_q >= 0);
	if (is_total)
		json_put_number(out, "truncated_elsewhere", m->truncated_elsewhere);
	json_close_object(out);
}

static void write_keys(struct buf *out, const struct report_row *row)
{
	static const char *const names[KEY_COUNT] = { "symbol", "dso", "comm", "pid", "tid", "cpu", "srcline", "event", "cgroup" };
	for (size_t key = 0; key < KEY_COUNT; key++) {
		if (row->keys[key] == NULL)
			continue;
		if (key == KEY_PID)
			json_put_number(out, names[key], row->pid);
		else if (key == KEY_TID)
			json_put_number(out, names[key], row->tid);
		else if (key == KEY_CPU)
			json_put_number(out, names[key], row->cpu);
		else
			string(out, names[key], key == KEY_SYMBOL && row->plain_name != NULL ? row->plain_name : row->keys[key]);
	}
	string_or_null(out, "file", row->file);
	number_or_null(out, "line", row->line, row->file != NULL);
}

static void write_calls(struct buf *out, const struct report_row *row)
{
	json_open_array(out, "calls");
	for (size_t i = 0; i < row->call_count; i++) {
		json_open_object(out, NULL);
		json_put_u64(out, "depth", row->calls[i].depth);
		string(out, "symbol", row->calls[i].name);
		string(out, "dso", row->calls[i].dso);
		json_put_number(out, "share", row->calls[i].share);
		json_close_object(out);
	}
	json_close_array(out);
}

static void write_aliases(struct buf *out, const char *aliases)
{
	struct buf one = { 0 };
	json_open_array(out, "aliases");
	for (const char *at = aliases; *at != '\0';) {
		size_t length = strcspn(at, "\n");
		buf_clear(&one);
		buf_add(&one, at, length);
		json_put_text(out, NULL, buf_text(&one));
		at += length + (at[length] == '\n');
	}
	json_close_array(out);
	buf_release(&one);
}

static void write_row(struct buf *out, const struct report *r, const struct report_row *row)
{
	static const char *const flags[] = { "few", "trend", "aliasing", "tied_loss", "run_only" };
	const struct row_measure *m = r->options.children ? &row->total : &row->self;
	json_open_object(out, NULL);
	write_keys(out, row);
	if (row->aliases != NULL)
		write_aliases(out, row->aliases);
	if (row->rank_lo > 0) {
		json_open_array(out, "rank");
		json_put_number(out, NULL, row->rank_lo);
		json_put_number(out, NULL, row->rank_hi);
		json_close_array(out);
	} else {
		json_put_null(out, "rank");
	}
	json_put_number(out, "deff", m->deff);
	json_put_u64(out, "visits", m->visits);
	json_open_array(out, "flags");
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if ((row->flags & 1u << i) != 0)
			json_put_text(out, NULL, flags[i]);
	json_close_array(out);
	json_put_bool(out, "kernel", row->is_kernel);
	json_put_bool(out, "unresolved", row->is_unresolved);
	json_put_bool(out, "named", !row->is_unresolved);
	if (row->told_by != NULL)
		string(out, "told_apart_by", row->told_by);
	if (row->address != NULL)
		string(out, "address", row->address);
	if (row->build_id != NULL)
		string(out, "build_id", row->build_id);
	interval(out, "range", row->shown);
	json_put_bool(out, "range_is_run", row->shown_is_run);
	bool run_only = (row->flags & ROW_RUN_ONLY) != 0;
	write_measure(out, "self", &row->self, run_only, false);
	write_measure(out, "total", &row->total, run_only, true);
	if (r->options.calls != CALLS_NONE)
		write_calls(out, row);
	json_close_object(out);
}

static void write_event(struct buf *out, const struct report *r, const struct report_event *e)
{
	json_open_object(out, NULL);
	string(out, "name", e->name);
	write_sampling(out, e);
	if (!e->source->is_sampling) {
		bool known = e->source->samples_of < r->profile->events.count;
		string_or_null(out, "samples_of", known ? profile_text(r->profile, r->profile->events.data[e->source->samples_of].name) : NULL);
		json_put_u64(out, "value", e->source->value);
	}
	number_or_null(out, "cpu_seconds", e->cpu_seconds, e->source->is_clock);
	json_open_object(out, "denominator");
	json_put_number(out, "user", e->user_share);
	json_put_number(out, "kernel", e->kernel_share);
	json_put_number(out, "unresolved", e->unresolved_share);
	json_put_number(out, "idle_excluded", e->idle_excluded);
	json_close_object(out);
	json_put_u64(out, "time_running_ns", e->source->time_running_ns);
	json_put_u64(out, "time_enabled_ns", e->source->time_enabled_ns);
	json_put_number(out, "multiplexed", e->multiplexed);
	string(out, "verdict", verdict_name(e->verdict));
	write_samples(out, e);
	write_aliasing(out, &e->aliasing);
	write_lockstep(out, &e->lockstep);
	write_stacks(out, e);
	json_open_object(out, "overhead");
	number_or_null(out, "recorder_cpu_seconds", e->recorder_cpu_s, e->recorder_cpu_s > 0);
	number_or_null(out, "share_of_one_cpu", e->recorder_share, e->recorder_cpu_s > 0);
	number_or_null(out, "accounted_seconds", e->accounted_s, e->accounted_s > 0);
	json_close_object(out);
	json_put_number(out, "n", e->n);
	json_put_bool(out, "weighted", e->is_weighted);
	json_put_number(out, "interval_confidence", e->interval_confidence);
	json_put_u64(out, "blocks_off", e->blocks_off);
	json_put_number(out, "simultaneous_half_width", e->simultaneous_half_width);
	json_put_number(out, "smallest_seen", e->smallest_seen);
	json_put_number(out, "largest_unseen", e->largest_unseen);
	json_open_array(out, "functions");
	for (size_t i = 0; i < e->rows_kept; i++)
		write_row(out, r, &e->rows.data[i]);
	json_close_array(out);
	if (e->rows_kept < e->rows.count)
		json_put_u64(out, "omitted", e->rows.count - e->rows_kept);
	json_close_object(out);
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	(void)err;
	const struct report *r = input->report;
	json_open_object(out, NULL);
	string(out, "schema", "perfsample-report/1");
	string_or_null(out, "tool", meta_text(r, r->profile->meta.tool));
	write_target(out, r);
	json_put_number(out, "confidence", r->options.confidence);
	json_put_bool(out, "simultaneous", r->options.simultaneous);
	number_or_null(out, "stack_copy_bytes", r->profile->meta.stack_bytes, r->profile->meta.stack_bytes > 0);
	string(out, "verdict", verdict_name(r->verdict));
	json_open_array(out, "caveats");
	for (size_t i = 0; i < r->events.count; i++)
		write_caveats(out, &r->events.data[i]);
	json_close_array(out);
	json_open_array(out, "events");
	for (size_t i = 0; i < r->events.count; i++)
		write_event(out, r, &r->events.data[i]);
	buf_string(out, "]}\n");
	return true;
}

const struct exporter exporter_json = {
	.name = "json", .extension = "json", .description = "report as JSON, perfsample-report/1", .needs_report = true, .write = write,
};
