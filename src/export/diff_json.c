// perfsample-diff/1; the schema is schema/perfsample-diff-1.json.
#include <math.h>
#include <string.h>

#include "base/escape.h"
#include "export/diff.h"
#include "export/json_write.h"

static void number_or_null(struct buf *out, const char *key, double value, bool is_known)
{
	json_put_number(out, key, is_known ? value : NAN);
}

static void text_or_null(struct buf *out, const char *key, const char *text)
{
	if (text != NULL)
		json_put_text(out, key, text);
	else
		json_put_null(out, key);
}

static void put_interval(struct buf *out, const char *key, struct interval i)
{
	json_open_array(out, key);
	json_put_number(out, NULL, i.lo);
	json_put_number(out, NULL, i.hi);
	json_close_array(out);
}

// As in perfsample-report/1: what a repaired name really was stands beside it as name_hex.
static void put_symbol(struct buf *out, const char *name)
{
	size_t length = strlen(name);
	struct buf hex = { 0 };
	json_put_text(out, "symbol", name);
	for (size_t i = 0; i < length; i++)
		buf_printf(&hex, "%02x", (uint8_t)name[i]);
	if (!utf8_is_valid(name, length))
		json_put_text(out, "name_hex", buf_text(&hex));
	buf_release(&hex);
}

static void pair(struct buf *out, const char *key, const double *values)
{
	put_interval(out, key, (struct interval){ values[0], values[1] });
}

static void write_side(struct buf *out, const char *key, const char *name, const struct diff_side *s)
{
	json_open_object(out, key);
	json_put_name(out, "file", name);
	json_put_u64(out, "runs", s->runs);
	json_put_number(out, "samples", s->n);
	number_or_null(out, "amount", s->amount, s->amount > 0);
	json_put_number(out, "seconds", s->seconds);
	number_or_null(out, "units", s->units, s->units > 0);
	json_put_number(out, "lost_share", s->lost_share);
	buf_byte(out, '}');
}

static void write_total(struct buf *out, const struct diff *d)
{
	if (!d->total.has) {
		json_put_null(out, "total");
		return;
	}
	json_open_object(out, "total");
	json_put_number(out, "base", d->total.value[0]);
	json_put_number(out, "new", d->total.value[1]);
	json_put_number(out, "ratio", d->total.ratio);
	put_interval(out, "ratio_interval", d->total.ci);
	json_put_number(out, "p", d->total.p);
	json_put_number(out, "detectable_change", d->total.detectable);
	buf_byte(out, '}');
}

static void write_row(struct buf *out, const struct diff_row *row)
{
	static const char *const states[] = { "differs", "not_distinguishable", "not_robust_to_loss", "few", "within_run", "too_few_samples" };
	double visits[2] = { (double)row->visits[0], (double)row->visits[1] };
	json_open_object(out, NULL);
	put_symbol(out, row->name);
	json_put_name(out, "dso", row->dso);
	pair(out, "samples", row->k);
	pair(out, "share", row->share);
	pair(out, "value", row->value);
	pair(out, "deff", row->deff);
	pair(out, "visits", visits);
	number_or_null(out, "ratio", row->ratio, row->has_ratio);
	if (row->has_ratio)
		put_interval(out, "ratio_interval", row->ratio_ci);
	else
		json_put_null(out, "ratio_interval");
	json_put_number(out, "share_difference", row->difference);
	put_interval(out, "share_interval", row->difference_ci);
	json_put_number(out, "p", row->p);
	number_or_null(out, "q", row->q, row->q >= 0);
	number_or_null(out, "detectable_change", row->detectable, row->detectable > 0);
	json_put_text(out, "state", states[row->state]);
	text_or_null(out, "note", row->note);
	buf_byte(out, '}');
}

static void write_gate(struct buf *out, const struct diff_output *o)
{
	static const char *const gates[] = { "passes", "fails", "inconclusive" };
	if (o->gate == NULL) {
		json_put_null(out, "gate");
		return;
	}
	json_open_object(out, "gate");
	json_put_text(out, "result", gates[o->gate->gate]);
	json_put_number(out, "limit", o->gate_limit);
	text_or_null(out, "function", o->gate->row != NULL ? o->gate->row->name : NULL);
	json_put_text(out, "text", o->gate->text);
	buf_byte(out, '}');
}

void diff_json(const struct diff_output *o, struct buf *out)
{
	static const char *const metrics[] = { "amount_per_unit", "amount_per_second", "share" };
	const struct diff *d = o->diff;
	json_open_object(out, NULL);
	json_put_text(out, "schema", "perfsample-diff/1");
	json_put_text(out, "event", d->event);
	json_put_text(out, "metric", metrics[d->metric]);
	text_or_null(out, "unit", d->options.unit);
	json_put_number(out, "confidence", d->options.confidence);
	json_put_number(out, "fdr", d->options.fdr);
	json_put_bool(out, "within_run", d->is_within);
	json_open_array(out, "caveats");
	for (size_t i = 0; i < d->caveats.count; i++)
		json_put_text(out, NULL, d->caveats.data[i]);
	buf_byte(out, ']');
	write_side(out, "base", o->base, &d->sides[0]);
	write_side(out, "new", o->new_, &d->sides[1]);
	write_total(out, d);
	if (o->paired != NULL) {
		json_open_object(out, "paired");
		json_put_text(out, "metric", o->paired_metric);
		json_put_u64(out, "pairs", o->paired->pairs);
		json_put_number(out, "change", o->paired->change);
		put_interval(out, "interval", o->paired->ci);
		json_put_number(out, "deviation", o->paired->deviation);
		json_close_object(out);
	}
	json_open_object(out, "count");
	json_put_u64(out, "tested", d->tested);
	json_put_u64(out, "differ", d->found);
	json_put_u64(out, "not_distinguishable", d->open);
	json_put_u64(out, "not_robust_to_loss", d->fragile);
	buf_byte(out, '}');
	write_gate(out, o);
	json_open_array(out, "functions");
	size_t shown = o->rows > 0 && o->rows < d->rows.count ? o->rows : d->rows.count;
	for (size_t i = 0; i < shown; i++)
		write_row(out, &d->rows.data[i]);
	buf_byte(out, ']');
	if (shown < d->rows.count)
		json_put_u64(out, "omitted", d->rows.count - shown);
	buf_string(out, "}\n");
}
