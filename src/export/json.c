// perfsample-report/1: the whole model as JSON, numbers unrounded. The schema is schema/perfsample-report-1.json.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/escape.h"
#include "export/exporter.h"

// ---------------------------------------------------------------- writing

// A comma goes before every member but the first of its object or array.
static void separate(struct buf *out)
{
	char last = out->size > 0 ? out->data[out->size - 1] : '{';
	if (last != '{' && last != '[' && last != ':')
		buf_byte(out, ',');
}

static void name(struct buf *out, const char *key)
{
	separate(out);
	buf_printf(out, "\"%s\":", key);
}

static void open_object(struct buf *out, const char *key)
{
	if (key != NULL)
		name(out, key);
	else
		separate(out);
	buf_byte(out, '{');
}

static void open_array(struct buf *out, const char *key)
{
	name(out, key);
	buf_byte(out, '[');
}

static void number(struct buf *out, const char *key, double value)
{
	if (key != NULL)
		name(out, key);
	else
		separate(out);
	if (isfinite(value))
		buf_printf(out, "%.17g", value);
	else
		buf_string(out, "null");
}

static void null(struct buf *out, const char *key)
{
	name(out, key);
	buf_string(out, "null");
}

static void number_or_null(struct buf *out, const char *key, double value, bool is_known)
{
	number(out, key, is_known ? value : NAN);
}

static void u64(struct buf *out, const char *key, uint64_t value)
{
	name(out, key);
	buf_printf(out, "%llu", (unsigned long long)value);
}

static void boolean(struct buf *out, const char *key, bool value)
{
	name(out, key);
	buf_string(out, value ? "true" : "false");
}

static void bare_string(struct buf *out, const char *text)
{
	separate(out);
	buf_byte(out, '"');
	escape_json(out, text, strlen(text));
	buf_byte(out, '"');
}

// Another's name: valid UTF-8 in any case, and what it really was in hex beside it where it was not.
static void string(struct buf *out, const char *key, const char *text)
{
	size_t length = strlen(text);
	name(out, key);
	buf_byte(out, '"');
	escape_json(out, text, length);
	buf_byte(out, '"');
	if (utf8_is_valid(text, length))
		return;
	separate(out);
	buf_printf(out, "\"%s_hex\":\"", strcmp(key, "symbol") == 0 ? "name" : key);
	for (size_t i = 0; i < length; i++)
		buf_printf(out, "%02x", (uint8_t)text[i]);
	buf_byte(out, '"');
}

static void string_or_null(struct buf *out, const char *key, const char *text)
{
	if (text != NULL && *text != '\0')
		string(out, key, text);
	else
		null(out, key);
}

static void interval(struct buf *out, const char *key, struct interval i)
{
	open_array(out, key);
	number(out, NULL, i.lo);
	number(out, NULL, i.hi);
	buf_byte(out, ']');
}

static void moment(struct buf *out, const char *key, uint64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / 1000000000u);
	struct tm tm;
	char text[40];
	if (wall_ns == 0 || gmtime_r(&seconds, &tm) == NULL || strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) == 0) {
		null(out, key);
		return;
	}
	name(out, key);
	buf_printf(out, "\"%s.%09lluZ\"", text, (unsigned long long)(wall_ns % 1000000000u));
}

// ---------------------------------------------------------------- the document

static const char *meta_text(const struct report *r, uint32_t id)
{
	return id != 0 ? profile_text(r->profile, id) : NULL;
}

static void write_target(struct buf *out, const struct report *r)
{
	const struct profile_meta *meta = &r->profile->meta;
	open_array(out, "argv");
	for (size_t i = 0; i < meta->argv.count; i++)
		bare_string(out, profile_text(r->profile, meta->argv.data[i]));
	buf_byte(out, ']');
	open_object(out, "target");
	string_or_null(out, "kind", meta_text(r, meta->target_kind));
	open_array(out, "ids");
	for (size_t i = 0; i < meta->target_ids.count; i++)
		number(out, NULL, meta->target_ids.data[i]);
	buf_byte(out, ']');
	string_or_null(out, "comm", meta_text(r, meta->target_comm));
	number_or_null(out, "threads", meta->target_threads, meta->target_threads > 0);
	buf_byte(out, '}');
	open_object(out, "window");
	uint64_t wall = meta->start_wall_ns;
	uint64_t from = r->from_ns > meta->start_ns ? r->from_ns - meta->start_ns : 0, to = r->to_ns > meta->start_ns ? r->to_ns - meta->start_ns : 0;
	moment(out, "start", wall != 0 ? wall + from : 0);
	moment(out, "end", wall != 0 ? wall + to : 0);
	number(out, "seconds", r->seconds);
	string_or_null(out, "host", meta_text(r, meta->host));
	string_or_null(out, "kernel", meta_text(r, meta->kernel));
	buf_byte(out, '}');
	open_array(out, "decisions");
	for (size_t i = 0; i < meta->decisions.count; i++)
		bare_string(out, profile_text(r->profile, meta->decisions.data[i]));
	buf_byte(out, ']');
}

static void write_caveats(struct buf *out, const struct report_event *e)
{
	for (size_t i = 0; i < e->caveats.count; i++) {
		const struct report_caveat *c = &e->caveats.data[i];
		open_object(out, NULL);
		string(out, "code", caveat_name(c->code));
		string(out, "text", c->text);
		number(out, "value", c->value);
		boolean(out, "care", c->is_care);
		buf_byte(out, '}');
	}
}

static void write_sampling(struct buf *out, const struct report_event *e)
{
	const struct profile_event *s = e->source;
	if (!s->is_sampling) {
		null(out, "sampling");
		return;
	}
	open_object(out, "sampling");
	if (s->is_clock) {
		string(out, "kind", "period");
		number_or_null(out, "period_ns", (double)s->period, s->period > 0);
		if (s->comb_periods[0] > 0)
			interval(out, "combs_ns", (struct interval){ (double)s->comb_periods[0], (double)s->comb_periods[1] });
	} else if (s->is_freq) {
		string(out, "kind", "frequency");
		u64(out, "frequency_hz", s->frequency);
	} else {
		string(out, "kind", "period");
		u64(out, "period", s->period);
	}
	buf_byte(out, '}');
}

static void write_samples(struct buf *out, const struct report_event *e)
{
	open_object(out, "samples");
	number(out, "taken", e->taken);
	number(out, "idle", e->idle);
	number(out, "others", e->others);
	number(out, "lost", e->lost);
	number_or_null(out, "silent", e->silent, e->can_expect);
	number_or_null(out, "expected", e->expected, e->can_expect);
	number(out, "lost_share", e->lost_share);
	open_object(out, "worst_second");
	u64(out, "at", e->worst_second_at);
	number(out, "share", e->worst_second_share);
	buf_byte(out, '}');
	if (e->loss_to_s > e->loss_from_s)
		interval(out, "loss_span_seconds", (struct interval){ e->loss_from_s, e->loss_to_s });
	else
		null(out, "loss_span_seconds");
	number_or_null(out, "loss_windows_p", e->loss_windows_p, e->loss_windows_p >= 0);
	string_or_null(out, "tied_to", e->tied_to);
	number_or_null(out, "tied_q", e->tied_q, e->tied_to != NULL);
	number(out, "missing", e->missing);
	number(out, "dropped", e->dropped);
	number(out, "shortened", e->shortened);
	number(out, "throttled_seconds", e->throttled_s);
	boolean(out, "filtered", e->is_filtered);
	number(out, "before_filter", e->unfiltered);
	buf_byte(out, '}');
}

static void write_aliasing(struct buf *out, const struct report_aliasing *a)
{
	if (!a->is_tested) {
		null(out, "aliasing");
		return;
	}
	open_object(out, "aliasing");
	boolean(out, "suspected", a->is_suspected);
	interval(out, "samples", (struct interval){ a->samples[0], a->samples[1] });
	number(out, "chi2", a->chi2);
	number(out, "df", a->df);
	number(out, "p", a->p);
	number(out, "detectable", a->detectable);
	buf_byte(out, '}');
}

static void write_stacks(struct buf *out, const struct report_event *e)
{
	static const char *const splices[] = { "none", "exact", "checked" };
	open_object(out, "stacks");
	u64(out, "complete", e->stacks_complete);
	u64(out, "joined", e->stacks_joined);
	u64(out, "truncated", e->stacks_truncated);
	u64(out, "failed", e->stacks_failed);
	buf_byte(out, '}');
	open_object(out, "stack_ends");
	for (size_t i = 0; i < UNWIND_END_COUNT; i++)
		if (e->ends[i] > 0)
			u64(out, unwind_end_name((enum unwind_end)i), e->ends[i]);
	open_object(out, "splices");
	for (size_t i = 1; i < 3; i++)
		u64(out, splices[i], e->splices[i]);
	buf_byte(out, '}');
	u64(out, "guessed", e->stacks_guessed);
	buf_byte(out, '}');
}

static void write_measure(struct buf *out, const char *key, const struct row_measure *m, bool run_only, bool is_total)
{
	open_object(out, key);
	number(out, "samples", m->samples);
	number(out, "share", m->share);
	interval(out, "run", m->run);
	if (run_only)
		null(out, "workload");
	else
		interval(out, "workload", m->workload);
	boolean(out, "supported", m->supported);
	u64(out, "blocks", m->blocks);
	number(out, "deff", m->deff);
	number(out, "z_vn", m->z_vn);
	u64(out, "visits", m->visits);
	u64(out, "visits_outside", m->visits_outside);
	interval(out, "worst_case", m->worst_case);
	number_or_null(out, "imputed", m->imputed, m->imputed >= 0);
	number_or_null(out, "tied_q", m->tied_q, m->tied_q >= 0);
	if (is_total)
		number(out, "truncated_elsewhere", m->truncated_elsewhere);
	buf_byte(out, '}');
}

static void write_keys(struct buf *out, const struct report_row *row)
{
	static const char *const names[KEY_COUNT] = { "symbol", "dso", "comm", "pid", "tid", "cpu", "srcline", "event", "cgroup" };
	for (size_t key = 0; key < KEY_COUNT; key++) {
		if (row->keys[key] == NULL)
			continue;
		if (key == KEY_PID)
			number(out, names[key], row->pid);
		else if (key == KEY_TID)
			number(out, names[key], row->tid);
		else if (key == KEY_CPU)
			number(out, names[key], row->cpu);
		else
			string(out, names[key], row->keys[key]);
	}
	string_or_null(out, "file", row->file);
	number_or_null(out, "line", row->line, row->file != NULL);
}

static void write_calls(struct buf *out, const struct report_row *row)
{
	open_array(out, "calls");
	for (size_t i = 0; i < row->call_count; i++) {
		open_object(out, NULL);
		u64(out, "depth", row->calls[i].depth);
		string(out, "symbol", row->calls[i].name);
		string(out, "dso", row->calls[i].dso);
		number(out, "share", row->calls[i].share);
		buf_byte(out, '}');
	}
	buf_byte(out, ']');
}

static void write_aliases(struct buf *out, const char *aliases)
{
	open_array(out, "aliases");
	for (const char *at = aliases; *at != '\0';) {
		size_t length = strcspn(at, "\n");
		separate(out);
		buf_byte(out, '"');
		escape_json(out, at, length);
		buf_byte(out, '"');
		at += length + (at[length] == '\n');
	}
	buf_byte(out, ']');
}

static void write_row(struct buf *out, const struct report *r, const struct report_row *row)
{
	static const char *const flags[] = { "few", "trend", "aliasing", "tied_loss", "run_only" };
	const struct row_measure *m = r->options.children ? &row->total : &row->self;
	open_object(out, NULL);
	write_keys(out, row);
	if (row->aliases != NULL)
		write_aliases(out, row->aliases);
	if (row->rank_lo > 0) {
		open_array(out, "rank");
		number(out, NULL, row->rank_lo);
		number(out, NULL, row->rank_hi);
		buf_byte(out, ']');
	} else {
		null(out, "rank");
	}
	number(out, "deff", m->deff);
	u64(out, "visits", m->visits);
	open_array(out, "flags");
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if ((row->flags & 1u << i) != 0)
			bare_string(out, flags[i]);
	buf_byte(out, ']');
	boolean(out, "kernel", row->is_kernel);
	boolean(out, "unresolved", row->is_unresolved);
	interval(out, "range", row->shown);
	boolean(out, "range_is_run", row->shown_is_run);
	bool run_only = (row->flags & ROW_RUN_ONLY) != 0;
	write_measure(out, "self", &row->self, run_only, false);
	write_measure(out, "total", &row->total, run_only, true);
	if (r->options.calls != CALLS_NONE)
		write_calls(out, row);
	buf_byte(out, '}');
}

static void write_event(struct buf *out, const struct report *r, const struct report_event *e)
{
	open_object(out, NULL);
	string(out, "name", e->name);
	write_sampling(out, e);
	if (!e->source->is_sampling) {
		bool known = e->source->samples_of < r->profile->events.count;
		string_or_null(out, "samples_of", known ? profile_text(r->profile, r->profile->events.data[e->source->samples_of].name) : NULL);
		u64(out, "value", e->source->value);
	}
	number_or_null(out, "cpu_seconds", e->cpu_seconds, e->source->is_clock);
	open_object(out, "denominator");
	number(out, "user", e->user_share);
	number(out, "kernel", e->kernel_share);
	number(out, "unresolved", e->unresolved_share);
	number(out, "idle_excluded", e->idle_excluded);
	buf_byte(out, '}');
	u64(out, "time_running_ns", e->source->time_running_ns);
	u64(out, "time_enabled_ns", e->source->time_enabled_ns);
	number(out, "multiplexed", e->multiplexed);
	string(out, "verdict", verdict_name(e->verdict));
	write_samples(out, e);
	write_aliasing(out, &e->aliasing);
	write_stacks(out, e);
	open_object(out, "overhead");
	number_or_null(out, "recorder_cpu_seconds", e->recorder_cpu_s, e->recorder_cpu_s > 0);
	number_or_null(out, "share_of_one_cpu", e->recorder_share, e->recorder_cpu_s > 0);
	buf_byte(out, '}');
	number(out, "n", e->n);
	boolean(out, "weighted", e->is_weighted);
	number(out, "interval_confidence", e->interval_confidence);
	u64(out, "blocks_off", e->blocks_off);
	number(out, "simultaneous_half_width", e->simultaneous_half_width);
	number(out, "smallest_seen", e->smallest_seen);
	number(out, "largest_unseen", e->largest_unseen);
	open_array(out, "functions");
	for (size_t i = 0; i < e->rows_kept; i++)
		write_row(out, r, &e->rows.data[i]);
	buf_byte(out, ']');
	if (e->rows_kept < e->rows.count)
		u64(out, "omitted", e->rows.count - e->rows_kept);
	buf_byte(out, '}');
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	(void)err;
	const struct report *r = input->report;
	open_object(out, NULL);
	string(out, "schema", "perfsample-report/1");
	string_or_null(out, "tool", meta_text(r, r->profile->meta.tool));
	write_target(out, r);
	number(out, "confidence", r->options.confidence);
	boolean(out, "simultaneous", r->options.simultaneous);
	number_or_null(out, "stack_copy_bytes", r->profile->meta.stack_bytes, r->profile->meta.stack_bytes > 0);
	string(out, "verdict", verdict_name(r->verdict));
	open_array(out, "caveats");
	for (size_t i = 0; i < r->events.count; i++)
		write_caveats(out, &r->events.data[i]);
	buf_byte(out, ']');
	open_array(out, "events");
	for (size_t i = 0; i < r->events.count; i++)
		write_event(out, r, &r->events.data[i]);
	buf_string(out, "]}\n");
	return true;
}

const struct exporter exporter_json = {
	.name = "json", .extension = "json", .description = "report as JSON, perfsample-report/1", .needs_report = true, .write = write,
};
