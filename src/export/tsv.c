// The rows as tab-separated values: one header line with JSON's names, raw numbers.
#include <string.h>

#include "base/escape.h"
#include "export/exporter.h"

static const char *const key_names[KEY_COUNT] = { "symbol", "dso", "comm", "pid", "tid", "cpu", "srcline", "event", "cgroup" };

// A symbol's dso stands beside it.
static bool has_key(const struct report *r, size_t key)
{
	for (size_t i = 0; i < r->options.keys.count; i++)
		if (r->options.keys.data[i] == key || (key == KEY_DSO && r->options.keys.data[i] == KEY_SYMBOL))
			return true;
	return false;
}

static void text(struct buf *out, const char *s)
{
	escape_tsv(out, s, strlen(s));
	buf_byte(out, '\t');
}

static void write_header(const struct report *r, struct buf *out)
{
	buf_string(out, "event\t");
	for (size_t key = 0; key < KEY_COUNT; key++)
		if (key != KEY_EVENT && has_key(r, key))
			buf_printf(out, "%s\t", key_names[key]);
	buf_string(out, "rank.lo\trank.hi");
	for (size_t i = 0; i < 2; i++) {
		static const char *const names[] = { "samples", "share", "run.lo", "run.hi", "workload.lo", "workload.hi", "supported", "blocks", "deff",
			"z_vn", "visits", "worst_case.lo", "worst_case.hi", "visits_outside", "imputed", "tied_q" };
		for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
			buf_printf(out, "\t%s.%s", i == 0 ? "self" : "total", names[n]);
	}
	buf_string(out, "\tflags\tsamples.taken\tsamples.lost\tsamples.silent\tstacks.truncated\tstacks.failed\tstack_ends.guessed\tstack_ends\tverdict\tsamples.missing\tcaveats\tnamed\ttold_apart_by\taddress\tbuild_id\n");
}

// What was not measured is -1 in the model and an empty cell here.
static void number_or_empty(struct buf *out, double value)
{
	if (value >= 0)
		buf_printf(out, "\t%.17g", value);
	else
		buf_byte(out, '\t');
}

static void write_measure(const struct row_measure *m, struct buf *out)
{
	buf_printf(out, "\t%.17g\t%.17g\t%.17g\t%.17g\t%.17g\t%.17g\t%d\t%zu\t%.17g\t%.17g\t%llu\t%.17g\t%.17g", m->samples, m->share, m->run.lo,
	           m->run.hi, m->workload.lo, m->workload.hi, m->supported, m->blocks, m->deff, m->z_vn, (unsigned long long)m->visits,
	           m->worst_case.lo, m->worst_case.hi);
	buf_printf(out, "\t%llu", (unsigned long long)m->visits_outside);
	number_or_empty(out, m->imputed);
	number_or_empty(out, m->tied_q);
}

// What became of the event's samples, alike in each of its rows: the format has no other place.
static void write_event(const struct report_event *e, struct buf *out)
{
	buf_printf(out, "\t%.17g\t", e->taken);
	if (e->is_loss_known)
		buf_printf(out, "%.17g", e->lost);
	buf_byte(out, '\t');
	if (e->can_expect)
		buf_printf(out, "%.17g", e->silent);
	buf_printf(out, "\t%llu\t%llu\t%llu\t", (unsigned long long)e->stacks_truncated, (unsigned long long)e->stacks_failed,
	           (unsigned long long)e->stacks_guessed);
	const char *separator = "";
	for (size_t i = 0; i < UNWIND_END_COUNT; i++) {
		if (e->ends[i] == 0)
			continue;
		buf_printf(out, "%s%s=%llu", separator, unwind_end_name((enum unwind_end)i), (unsigned long long)e->ends[i]);
		separator = ",";
	}
	buf_printf(out, "\t%s\t%.17g\t", verdict_name(e->verdict), e->missing);
	struct buf caveats = { 0 };
	for (size_t i = 0; i < e->caveats.count; i++)
		buf_printf(&caveats, "%s%s", i > 0 ? "; " : "", e->caveats.data[i].text);
	escape_tsv(out, buf_text(&caveats), caveats.size);
	buf_release(&caveats);
}

static void write_function(const struct report_row *row, struct buf *out)
{
	buf_printf(out, "\t%d\t", !row->is_unresolved);
	text(out, row->told_by != NULL ? row->told_by : "");
	buf_printf(out, "%s\t%s", row->address != NULL ? row->address : "", row->build_id != NULL ? row->build_id : "");
}

static void write_row(const struct report *r, const struct report_event *e, const struct report_row *row, struct buf *out)
{
	static const char *const flags[] = { "few", "trend", "aliasing", "tied_loss", "run_only" };
	text(out, e->name);
	for (size_t key = 0; key < KEY_COUNT; key++)
		if (key != KEY_EVENT && has_key(r, key))
			text(out, row->keys[key] == NULL ? "" : key == KEY_SYMBOL && row->plain_name != NULL ? row->plain_name : row->keys[key]);
	buf_printf(out, "%u\t%u", row->rank_lo, row->rank_hi);
	write_measure(&row->self, out);
	write_measure(&row->total, out);
	buf_byte(out, '\t');
	const char *separator = "";
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if ((row->flags & 1u << i) != 0) {
			buf_printf(out, "%s%s", separator, flags[i]);
			separator = ",";
		}
	write_event(e, out);
	write_function(row, out);
	buf_byte(out, '\n');
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	(void)err;
	const struct report *r = input->report;
	write_header(r, out);
	for (size_t i = 0; i < r->events.count; i++)
		for (size_t j = 0; j < r->events.data[i].rows_kept; j++)
			write_row(r, &r->events.data[i], &r->events.data[i].rows.data[j], out);
	return true;
}

const struct exporter exporter_tsv = {
	.name = "tsv", .extension = "tsv", .description = "report's rows, tab-separated", .needs_report = true, .write = write,
};
