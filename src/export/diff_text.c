#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "export/diff.h"
#include "export/text.h"

double diff_unit(const struct diff *diff, char *text, size_t size)
{
	static const struct { double from, scale; const char *name; } units[] = { { 1, 1, "s" }, { 1e-3, 1e3, "ms" }, { 1e-6, 1e6, "us" }, { 0, 1e9, "ns" } };
	const char *unit = diff->options.unit != NULL ? diff->options.unit : "unit";
	if (diff->metric == METRIC_SHARE) {
		snprintf(text, size, "%%");
		return 100;
	}
	if (!diff->is_clock) {
		snprintf(text, size, "%.40s/%.40s", diff->event, diff->metric == METRIC_UNIT ? unit : "s");
		return 1;
	}
	if (diff->metric == METRIC_SECOND) {
		snprintf(text, size, "CPU ms/s");
		return 1e3;
	}
	double larger = fmax(diff->total.value[0], diff->total.value[1]);
	size_t i = 0;
	while (larger < units[i].from)
		i++;
	snprintf(text, size, "CPU %s/%.40s", units[i].name, unit);
	return units[i].scale;
}

static void write_value(char *text, size_t size, double value)
{
	snprintf(text, size, value >= 1000 ? "%.0f" : value >= 100 ? "%.1f" : value >= 0.01 || value == 0 ? "%.2f" : "%.2g", value);
}

// "1.7", "78", "290": a change of this many per cent.
static const char *change_text(double change, char *text, size_t size)
{
	snprintf(text, size, 100 * change >= 99.5 ? "%.0f" : "%.2g", 100 * change);
	return text;
}

static void write_total(const struct diff_output *o, struct buf *out)
{
	const struct diff *d = o->diff;
	char unit[100], base[40], new_[40];
	double scale = diff_unit(d, unit, sizeof(unit));
	if (!d->total.has) {
		buf_string(out, "total  not comparable: neither amounts nor times are known; shares only\n");
		return;
	}
	write_value(base, sizeof(base), scale * d->total.value[0]);
	write_value(new_, sizeof(new_), scale * d->total.value[1]);
	buf_printf(out, "total  %s -> %s ", base, new_);
	escape_terminal(out, unit, strlen(unit));
	buf_printf(out, "  %+.1f%% [%+.1f, %+.1f]  a change of %s%% or more would have shown\n", 100 * (d->total.ratio - 1),
	           floor_to(100 * (d->total.ci.lo - 1), 1), ceil_to(100 * (d->total.ci.hi - 1), 1), change_text(d->total.detectable, base, sizeof(base)));
}

static void write_side(struct buf *out, const char *name, const struct diff_side *s)
{
	escape_terminal(out, name, strlen(name));
	buf_printf(out, " (%.1f s, %zu run%s)", s->seconds, s->runs, s->runs == 1 ? "" : "s");
}

static void write_heads(const struct diff_output *o, struct buf *out)
{
	const struct diff *d = o->diff;
	buf_string(out, "diff   ");
	write_side(out, o->base, &d->sides[0]);
	buf_string(out, " -> ");
	write_side(out, o->new_, &d->sides[1]);
	buf_printf(out, "  FDR %g%%\n", 100 * d->options.fdr);
	if (o->paired != NULL)
		buf_printf(out, "pairs  %+.1f%% [%+.1f, %+.1f] %s by %zu pairs in turn; drift cancels\n", 100 * o->paired->change,
		           floor_to(100 * o->paired->ci.lo, 1), ceil_to(100 * o->paired->ci.hi, 1), o->paired_metric, o->paired->pairs);
	if (d->metric == METRIC_UNIT) {
		buf_string(out, "work   ");
		text_count(out, d->sides[0].units);
		buf_string(out, " and ");
		text_count(out, d->sides[1].units);
		buf_byte(out, ' ');
		const char *unit = d->options.unit != NULL ? d->options.unit : "unit";
		escape_terminal(out, unit, strlen(unit));
		buf_string(out, "s\n");
	}
	for (size_t i = 0; i < d->caveats.count; i++) {
		buf_string(out, "note   ");
		escape_terminal(out, d->caveats.data[i], strlen(d->caveats.data[i]));
		buf_byte(out, '\n');
	}
}

static void write_q(char *text, size_t size, double q)
{
	if (q < 0)
		snprintf(text, size, "-");
	else if (q < 1e-6)
		snprintf(text, size, "<1e-6");
	else
		snprintf(text, size, q < 0.001 ? "%.0e" : q < 0.1 ? "%.3f" : "%.2f", q);
}

static void write_remark(const struct diff_row *row, struct buf *out)
{
	const char *separator = "  ";
	char text[40];
	if (row->note != NULL) {
		buf_string(out, separator);
		escape_terminal(out, row->note, strlen(row->note));
		separator = ", ";
	}
	if (row->state == DIFF_FOUND)
		return;
	buf_printf(out, "%s%s", separator, diff_state_name(row->state));
	if (row->state == DIFF_OPEN && row->detectable > 0)
		buf_printf(out, " (%s%% would have shown)", change_text(row->detectable, text, sizeof(text)));
}

static void write_row(const struct diff_output *o, const struct diff_row *row, double scale, bool wide, struct buf *out)
{
	char base[40], new_[40], ratio[16] = "-", ci[40] = "", q[16], share[40];
	write_value(base, sizeof(base), scale * row->value[0]);
	write_value(new_, sizeof(new_), scale * row->value[1]);
	if (row->has_ratio) {
		snprintf(ratio, sizeof(ratio), "%.3g", row->ratio);
		snprintf(ci, sizeof(ci), "[%.3g, %.3g]", row->ratio_ci.lo, row->ratio_ci.hi);
	}
	write_q(q, sizeof(q), row->q);
	snprintf(share, sizeof(share), "[%+.1f, %+.1f]", floor_to(100 * row->difference_ci.lo, 1), ceil_to(100 * row->difference_ci.hi, 1));
	buf_printf(out, "%8s %8s  %5s  %-15s %-6s %+5.1f  ", base, new_, ratio, ci, q, 100 * row->difference);
	if (wide)
		buf_printf(out, "%-15s ", share);
	text_name(out, row->name, o->columns > 120 ? o->columns - 80 : 40);
	write_remark(row, out);
	buf_byte(out, '\n');
}

static void write_count(const struct diff *d, struct buf *out)
{
	if (d->tested == 0) {
		buf_string(out, "no function has enough samples to be compared\n");
		return;
	}
	buf_printf(out, " %zu of %zu function%s differ%s; %zu not distinguishable", d->found, d->tested, d->tested == 1 ? "" : "s",
	           d->found == 1 ? "s" : "", d->open);
	if (d->fragile > 0)
		buf_printf(out, "; %zu not robust to loss", d->fragile);
	if (d->is_within)
		buf_string(out, "; the q are within-run ones: no row is a discovery");
	buf_byte(out, '\n');
}

void diff_text(const struct diff_output *o, struct buf *out)
{
	const struct diff *d = o->diff;
	char unit[100];
	double scale = diff_unit(d, unit, sizeof(unit));
	char level[24];
	snprintf(level, sizeof(level), "%g%%", 100 * d->options.confidence);
	bool wide = o->columns >= 110;
	write_total(o, out);
	write_heads(o, out);
	size_t shown = o->rows > 0 && o->rows < d->rows.count ? o->rows : d->rows.count;
	if (shown > 0) {
		buf_printf(out, "\n%8s %8s  ratio  %-15s %-6s share pp  ", "base", "new", level, d->is_within ? "q*" : "q");
		if (wide)
			buf_printf(out, "%-13s ", level);
		buf_string(out, "function, ");
		escape_terminal(out, unit, strlen(unit));
		buf_byte(out, '\n');
	}
	for (size_t i = 0; i < shown; i++)
		write_row(o, &d->rows.data[i], scale, wide, out);
	if (shown < d->rows.count)
		buf_printf(out, "   and %zu more functions (--top)\n", d->rows.count - shown);
	write_count(d, out);
	if (o->gate != NULL) {
		buf_string(out, "gate   ");
		escape_terminal(out, o->gate->text, strlen(o->gate->text));
		buf_byte(out, '\n');
	}
}

// ---------------------------------------------------------------- markdown

// A cell: what would end it or be markup is escaped.
static void cell(struct buf *out, const char *text)
{
	struct buf safe = { 0 };
	escape_xml(&safe, text, strlen(text));
	for (size_t i = 0; i < safe.size; i++) {
		char c = (char)safe.data[i];
		if (strchr("|\\`*_[]", c) != NULL && c != '\0')
			buf_byte(out, '\\');
		buf_byte(out, c == '\n' || c == '\r' ? ' ' : (uint8_t)c);
	}
	buf_release(&safe);
}

static void markdown_row(const struct diff_row *row, double scale, struct buf *out)
{
	char base[40], new_[40], q[16];
	write_value(base, sizeof(base), scale * row->value[0]);
	write_value(new_, sizeof(new_), scale * row->value[1]);
	write_q(q, sizeof(q), row->q);
	buf_string(out, "| ");
	cell(out, row->name);
	buf_printf(out, " | %s | %s | ", base, new_);
	if (row->has_ratio)
		buf_printf(out, "%.3g [%.3g, %.3g]", row->ratio, row->ratio_ci.lo, row->ratio_ci.hi);
	else
		buf_string(out, "-");
	buf_printf(out, " | %s | %+.1f [%+.1f, %+.1f] | ", q, 100 * row->difference, floor_to(100 * row->difference_ci.lo, 1),
	           ceil_to(100 * row->difference_ci.hi, 1));
	if (row->note != NULL) {
		cell(out, row->note);
		buf_string(out, row->state == DIFF_FOUND ? "" : ", ");
	}
	if (row->state != DIFF_FOUND)
		buf_string(out, diff_state_name(row->state));
	else if (row->note == NULL)
		buf_string(out, "**differs**");
	buf_string(out, " |\n");
}

void diff_markdown(const struct diff_output *o, struct buf *out)
{
	const struct diff *d = o->diff;
	char unit[100];
	double scale = diff_unit(d, unit, sizeof(unit));
	struct buf total = { 0 };
	write_total(o, &total);
	buf_string(out, "**");
	if (total.size > 0)
		total.size--; // the newline
	cell(out, buf_text(&total));
	buf_string(out, "**\n\n");
	buf_release(&total);
	for (size_t i = 0; i < d->caveats.count; i++) {
		buf_string(out, "- ");
		cell(out, d->caveats.data[i]);
		buf_byte(out, '\n');
	}
	if (o->gate != NULL) {
		buf_string(out, "- gate: ");
		cell(out, o->gate->text);
		buf_byte(out, '\n');
	}
	buf_string(out, "\n| function | base, ");
	cell(out, unit);
	buf_printf(out, " | new | ratio %g%% | %s | share, points | |\n| --- | ---: | ---: | --- | --- | --- | --- |\n", 100 * d->options.confidence,
	           d->is_within ? "within-run q" : "q");
	size_t shown = o->rows > 0 && o->rows < d->rows.count ? o->rows : d->rows.count;
	for (size_t i = 0; i < shown; i++)
		markdown_row(&d->rows.data[i], scale, out);
	buf_byte(out, '\n');
	write_count(d, out);
}
