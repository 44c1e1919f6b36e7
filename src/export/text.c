// The report as text. Two layouts: narrow for a terminal in an incident, wide with every interval.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "export/text.h"

enum { WIDE_FROM = 140, NARROW = 80 };

// ---------------------------------------------------------------- -F

struct field { const char *name; int width; };
enum field_id { FIELD_RANK, FIELD_SELF, FIELD_RANGE, FIELD_TOTAL, FIELD_SAMPLES, FIELD_RUN, FIELD_WORKLOAD, FIELD_WORST, FIELD_DEFF, FIELD_VISITS,
	FIELD_FLAGS, FIELD_COUNT };
static const struct field fields[FIELD_COUNT] = { { "rank", 5 }, { "self", 6 }, { "range", 12 }, { "total", 7 }, { "samples", 10 }, { "run", 15 },
	{ "workload", 15 }, { "worst_case", 15 }, { "deff", 7 }, { "visits", 8 }, { "flags", 10 } };

static int field_of(const char *word, size_t length)
{
	for (int i = 0; i < FIELD_COUNT; i++)
		if (strlen(fields[i].name) == length && memcmp(fields[i].name, word, length) == 0)
			return i;
	return -1;
}

bool text_check_fields(const char *list, struct err *err)
{
	for (const char *at = list;; at++) {
		size_t length = strcspn(at, ",");
		if (field_of(at, length) < 0) {
			struct buf names = { 0 };
			for (int i = 0; i < FIELD_COUNT; i++)
				buf_printf(&names, "%s%s", i > 0 ? ", " : "", fields[i].name);
			err_set(err, STATUS_USAGE, "no column '%.*s'; there are %s (the keys of -s follow)", (int)(length < 60 ? length : 60), at,
			        buf_text(&names));
			buf_release(&names);
			return false;
		}
		at += length;
		if (*at == '\0')
			return true;
	}
}

static void write_interval(char *text, size_t size, struct interval i)
{
	snprintf(text, size, "%.2f-%.2f", floor_to(100 * i.lo, 2), ceil_to(100 * i.hi, 2));
}

static void write_field(const struct text *t, const struct report_row *row, int field)
{
	const struct row_measure *m = text_measure(t, row);
	char text[64] = "";
	switch ((enum field_id)field) {
	case FIELD_RANK:
		snprintf(text, sizeof(text), row->rank_lo == row->rank_hi ? "%u" : "%u-%u", row->rank_lo, row->rank_hi);
		break;
	case FIELD_SELF:
		snprintf(text, sizeof(text), "%.2f", 100 * row->self.share);
		break;
	case FIELD_RANGE:
		snprintf(text, sizeof(text), "%.2f-%.2f%s", floor_to(100 * row->shown.lo, 2), ceil_to(100 * row->shown.hi, 2), text_mark(row));
		break;
	case FIELD_TOTAL:
		snprintf(text, sizeof(text), "%.2f", 100 * row->total.share);
		break;
	case FIELD_SAMPLES:
		snprintf(text, sizeof(text), "%.0f", m->samples);
		break;
	case FIELD_RUN:
		write_interval(text, sizeof(text), m->run);
		break;
	case FIELD_WORKLOAD:
		if ((row->flags & ROW_RUN_ONLY) != 0)
			snprintf(text, sizeof(text), "run only");
		else
			write_interval(text, sizeof(text), m->workload);
		break;
	case FIELD_WORST:
		write_interval(text, sizeof(text), m->worst_case);
		break;
	case FIELD_DEFF:
		snprintf(text, sizeof(text), "%.1f", m->deff);
		break;
	case FIELD_VISITS:
		snprintf(text, sizeof(text), "%llu", (unsigned long long)m->visits);
		break;
	case FIELD_FLAGS:
	case FIELD_COUNT:
		snprintf(text, sizeof(text), "%s", text_mark(row));
		break;
	}
	buf_printf(t->out, "%*s  ", fields[field].width, text);
}

// The rows alone, with the columns asked for.
void text_fields(struct text *t, const char *list)
{
	size_t width = 0;
	for (const char *at = list; *at != '\0'; at += at[strcspn(at, ",")] == ',' ? strcspn(at, ",") + 1 : strcspn(at, ",")) {
		int field = field_of(at, strcspn(at, ","));
		buf_printf(t->out, "%*s  ", fields[field].width, fields[field].name);
		width += (size_t)fields[field].width + 2;
	}
	text_label_header(t);
	for (size_t i = 0; i < t->shown; i++) {
		for (const char *at = list; *at != '\0'; at += at[strcspn(at, ",")] == ',' ? strcspn(at, ",") + 1 : strcspn(at, ","))
			write_field(t, &t->event->rows.data[i], field_of(at, strcspn(at, ",")));
		text_label(t, &t->event->rows.data[i], width);
	}
}

// ---------------------------------------------------------------- --explain

static void explain_interval(struct text *t, const char *name, struct interval i, const char *what)
{
	buf_printf(t->out, "  %-14s[%.3f, %.3f] %%  %s\n", name, floor_to(100 * i.lo, 3), ceil_to(100 * i.hi, 3), what);
}

static void explain_workload(struct text *t, const struct row_measure *m)
{
	const struct report_event *e = t->event;
	double n_eff = 0;
	workload_interval(m->samples, e->n, m->deff, m->blocks, e->interval_confidence, &n_eff);
	explain_interval(t, "workload", m->workload, "what it would take in a long recording of this load");
	buf_printf(t->out, "  %-14s%.2f over %zu blocks of time, z of their order %.2f\n", "design effect", m->deff, m->blocks, m->z_vn);
	buf_printf(t->out, "  %-14s%.1f of %.1f samples that are worth as much as independent ones; Clopper-Pearson on them\n", "",
	           e->n > 0 ? m->samples * n_eff / e->n : 0, n_eff);
	if ((m->flags & ROW_TREND) != 0)
		buf_printf(t->out, "  %-14sshare drifts during the recording: the true range is wider\n", "");
}

static void explain_loss(struct text *t, const struct row_measure *m)
{
	const struct report_event *e = t->event;
	buf_printf(t->out, "  %-14s", "worst case");
	buf_printf(t->out, "[%.3f, %.3f] %%  ", floor_to(100 * m->worst_case.lo, 3), ceil_to(100 * m->worst_case.hi, 3));
	if (e->missing > 0) {
		buf_string(t->out, "whatever ");
		text_count(t->out, e->missing);
		buf_string(t->out, " missing samples were");
	} else {
		buf_string(t->out, m->truncated_elsewhere > 0 ? "no samples are missing" : "no samples are missing: the interval above");
	}
	if (m->truncated_elsewhere > 0) {
		buf_string(t->out, e->missing > 0 ? ", and " : "; whatever ");
		text_count(t->out, m->truncated_elsewhere);
		buf_string(t->out, " cut stacks held");
	}
	buf_byte(t->out, '\n');
	if (m->imputed >= 0)
		buf_printf(t->out, "  %-14s%.3f %% if loss struck alike within each window of time\n", "", 100 * m->imputed);
	if ((m->flags & ROW_TIED_LOSS) != 0)
		buf_printf(t->out, "  %-14sloss is tied to this row (q = %.2g): naive share biased, use worst case\n", "", m->tied_q);
	else if (m->tied_q >= 0)
		buf_printf(t->out, "  %-14sloss not seen tied to it (q = %.2g); what is faster than a window would not show\n", "", m->tied_q);
}

static void explain_measure(struct text *t, const char *name, const struct report_row *row, const struct row_measure *m)
{
	const struct report_event *e = t->event;
	if (!(e->n > 0)) {
		buf_printf(t->out, "%s  -\n", name);
		return;
	}
	buf_printf(t->out, "%s  %.3f %%: ", name, 100 * m->share);
	text_count(t->out, m->samples);
	buf_string(t->out, " of ");
	text_count(t->out, e->n);
	buf_string(t->out, e->is_weighted ? " samples, reckoned as of equal weight (Kish)\n" : " samples\n");
	explain_interval(t, "this run", m->run, "what it really took in this recording (Clopper-Pearson)");
	if ((row->flags & ROW_RUN_ONLY) != 0)
		buf_string(t->out, e->source->counts_by_weight ? "  workload      run only: the samples have no times\n"
		           : "  workload      run only: fewer than 100 samples\n");
	else
		explain_workload(t, m);
	explain_loss(t, m);
	if (m == &row->total && e->stacks_truncated + e->stacks_failed > 0) {
		buf_printf(t->out, "  %-14s", "cut stacks");
		text_cut(t, t->out);
		buf_string(t->out, " of all\n");
	}
	if (e->source->counts_by_weight)
		return;
	buf_printf(t->out, "  %-14s%llu inside, %llu outside\n", "visits", (unsigned long long)m->visits, (unsigned long long)m->visits_outside);
	if (m->visits < 20 || m->visits_outside < 20)
		buf_printf(t->out, "  %-14stoo few visits (%llu): record longer or repeat runs\n", "",
		           (unsigned long long)(m->visits < m->visits_outside ? m->visits : m->visits_outside));
	buf_printf(t->out, "  %-14s%s\n", "narrower by", m->deff > 2 ? "recording longer; a higher rate will not help" : "a higher rate, or recording longer");
}

static void explain_rank(struct text *t, const struct report_row *row)
{
	const char *by = t->children ? "total" : "self";
	if (row->rank_lo == 0)
		return;
	if (row->rank_lo == row->rank_hi)
		buf_printf(t->out, "rank  %u of %zu by %s", row->rank_lo, t->event->function_count, by);
	else
		buf_printf(t->out, "rank  %u-%u of %zu by %s", row->rank_lo, row->rank_hi, t->event->function_count, by);
	buf_string(t->out, t->event->is_lossy || row->shown_is_run || (row->flags & ROW_TIED_LOSS) != 0
	           ? ": exact sign tests against every other row, and what the worst cases leave open\n" : ": exact sign tests against every other row\n");
}

// A name chosen by a rule, where the callers did not tell.
static void explain_aliases(struct text *t, const char *aliases)
{
	buf_string(t->out, "name  chosen by a rule where no call site tells: its code is also that of ");
	for (const char *at = aliases; *at != '\0';) {
		size_t length = strcspn(at, "\n");
		escape_terminal(t->out, at, length);
		at += length + (at[length] == '\n');
		buf_string(t->out, *at != '\0' ? ", " : "\n");
	}
}

static bool has_row(const struct report *r, const char *symbol)
{
	for (size_t i = 0; i < r->events.count; i++)
		for (size_t j = 0; j < r->events.data[i].rows.count; j++) {
			const char *name = r->events.data[i].rows.data[j].keys[KEY_SYMBOL];
			if (name != NULL && strcmp(name, symbol) == 0)
				return true;
		}
	return false;
}

// Whether a row is meant: by its name as shown, or, where no row is shown by that, by its name without what tells it from others.
static bool is_called(const struct report *r, const struct report_row *row, const char *symbol)
{
	const char *name = row->keys[KEY_SYMBOL];
	if (name == NULL || strcmp(name, symbol) == 0)
		return name != NULL;
	return row->plain_name != NULL && strcmp(row->plain_name, symbol) == 0 && !has_row(r, symbol);
}

void text_explain(struct text *t, const char *symbol)
{
	for (size_t i = 0; i < t->event->rows.count; i++) {
		const struct report_row *row = &t->event->rows.data[i];
		if (!is_called(t->report, row, symbol))
			continue;
		buf_string(t->out, "\n");
		text_label(t, row, 0);
		explain_rank(t, row);
		if (row->aliases != NULL)
			explain_aliases(t, row->aliases);
		buf_printf(t->out, "range [%.3f, %.3f] %%: what the report prints, %s\n", floor_to(100 * row->shown.lo, 3), ceil_to(100 * row->shown.hi, 3),
		           row->shown_is_run ? "this run's, widened by loss" : (row->flags & ROW_TIED_LOSS) != 0 || t->event->is_lossy ? "the worst case"
		           : "the workload's");
		if (t->report->options.simultaneous)
			buf_printf(t->out, "each interval is of %.5f %%, so that all %zu hold together with %g %%\n", 100 * t->event->interval_confidence,
			           t->event->function_count, 100 * t->report->options.confidence);
		explain_measure(t, "self ", row, &row->self);
		explain_measure(t, "total", row, &row->total);
	}
}

// Whether the rows that the name means are there and of one function.
static bool find_symbol(const struct report *r, const char *symbol, struct err *err)
{
	struct buf names = { 0 };
	size_t count = 0;
	const char *first = NULL;
	for (size_t i = 0; i < r->events.count; i++)
		for (size_t j = 0; j < r->events.data[i].rows.count; j++) {
			const struct report_row *row = &r->events.data[i].rows.data[j];
			if (!is_called(r, row, symbol))
				continue;
			const char *name = row->keys[KEY_SYMBOL];
			if (first != NULL && strcmp(first, name) == 0)
				continue;
			first = first == NULL ? name : first;
			buf_printf(&names, "%s%s", count++ > 0 ? ", " : "", name);
		}
	if (count == 0)
		err_set(err, STATUS_USAGE, "no function %s in this recording", symbol);
	else if (count > 1)
		err_set(err, STATUS_USAGE, "%zu functions are called '%s': %s", count, symbol, buf_text(&names));
	buf_release(&names);
	return count == 1;
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	const struct report *r = input->report;
	if (input->fields != NULL && !text_check_fields(input->fields, err))
		return false;
	if (input->explain != NULL && !find_symbol(r, input->explain, err))
		return false;
	size_t width = input->columns > 0 ? input->columns : NARROW;
	bool wide = input->wide || width >= WIDE_FROM;
	if (r->events.count == 0)
		buf_string(out, "no events: nothing was recorded\n");
	for (size_t i = 0; i < r->events.count; i++) {
		const struct report_event *e = &r->events.data[i];
		size_t shown = e->rows_kept < e->function_count ? e->rows_kept : e->function_count;
		if (input->rows > 0 && shown > input->rows)
			shown = input->rows;
		struct text t = { input, r, e, out, wide && width < WIDE_FROM ? WIDE_FROM : width, shown, r->options.children };
		if (i > 0)
			buf_byte(out, '\n');
		if (r->events.count > 1) {
			text_name(out, e->name, 60);
			buf_string(out, ":\n");
		}
		if (input->explain != NULL)
			text_explain(&t, input->explain);
		else if (input->fields != NULL)
			text_fields(&t, input->fields);
		else if (wide)
			text_wide(&t);
		else
			text_narrow(&t);
	}
	return true;
}

const struct exporter exporter_text = {
	.name = "text", .extension = "txt", .description = "report for people, narrow or wide", .needs_report = true, .write = write,
};
