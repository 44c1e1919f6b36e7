#include "export/merge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "export/json_write.h"
#include "export/text.h"

static void write_name(struct buf *out, const char *name)
{
	escape_terminal(out, name, strlen(name));
}

static void write_head(const struct hosts *m, struct buf *out)
{
	size_t hosts = m->hosts.count;
	const char *what = m->options.runs ? "run" : "host";
	buf_printf(out, "merge  %zu %s%s, %s, ", hosts, what, hosts == 1 ? "" : "s", m->event);
	text_count(out, m->n);
	buf_printf(out, " samples, weights = %s, ", m->first.is_clock ? "CPU-s" : "events counted");
	if (m->options.these_only || hosts < 2)
		buf_printf(out, "interval of %s alone\n", hosts < 2 ? "sampling" : "these hosts");
	else
		buf_printf(out, "%s interval t(%zu)\n", m->options.runs ? "between-run" : "cluster", hosts - 1);
	for (size_t i = 0; i < m->caveats.count; i++) {
		buf_string(out, "note   ");
		write_name(out, m->caveats.data[i]);
		buf_byte(out, '\n');
	}
}

static int decimals_of(double share)
{
	return 100 * share >= 0.995 ? 1 : 2;
}

static void write_bracket(struct buf *out, struct interval i, int decimals)
{
	char text[48];
	snprintf(text, sizeof(text), "[%.*f, %.*f]", decimals, floor_to(100 * i.lo, decimals), decimals, ceil_to(100 * i.hi, decimals));
	buf_printf(out, "%-14s", text);
}

static void write_row(const struct hosts *m, const struct hosts_row *row, size_t columns, struct buf *out)
{
	int decimals = decimals_of(row->share);
	char text[48];
	buf_printf(out, "%7.*f  ", decimals, 100 * row->share);
	write_bracket(out, row->ci, decimals);
	if (!m->options.these_only)
		write_bracket(out, row->within, decimals);
	snprintf(text, sizeof(text), "%.*f | %.*f", decimals, 100 * row->median, decimals, 100 * row->largest);
	buf_printf(out, "%-13s  ", text);
	text_name(out, row->name, columns > 100 ? columns - 60 : 40);
	if (row->is_heterogeneous && row->largest_host != NULL) {
		buf_string(out, "  max on ");
		write_name(out, row->largest_host);
		buf_printf(out, ", het q = %.0e, I2 = %.0f%%", row->q, 100 * row->i2);
	}
	buf_byte(out, '\n');
}

static void write_differing(const struct hosts *m, struct buf *out)
{
	enum { MOST = 20 };
	if (m->differing.count == 0)
		return;
	buf_printf(out, "%ss that differ (surely more than twice the whole's share)\n", m->options.runs ? "run" : "host");
	for (size_t i = 0; i < m->differing.count && i < MOST; i++) {
		const struct hosts_differing *d = &m->differing.data[i];
		const struct hosts_row *row = &m->rows.data[d->row];
		buf_printf(out, "%7.*f  at least %.*f, not %.*f  ", decimals_of(d->share), 100 * d->share, decimals_of(d->lo), floor_to(100 * d->lo, decimals_of(d->lo)),
		           decimals_of(row->share), 100 * row->share);
		write_name(out, d->host);
		buf_string(out, "  ");
		write_name(out, row->name);
		buf_byte(out, '\n');
	}
	if (m->differing.count > MOST)
		buf_printf(out, "         and %zu more (--format json)\n", m->differing.count - MOST);
}

void merge_text(const struct hosts *m, size_t rows, size_t columns, struct buf *out)
{
	char level[24];
	size_t shown = rows > 0 && rows < m->rows.count ? rows : m->rows.count;
	snprintf(level, sizeof(level), "%g%%", 100 * m->options.confidence);
	write_head(m, out);
	buf_printf(out, "\n share %%  %-14s", level);
	if (!m->options.these_only)
		buf_printf(out, "%-14s", "within one");
	buf_printf(out, "%-13s  function\n", "p50 | max");
	double rest = 0;
	for (size_t i = 0; i < m->rows.count; i++)
		if (i < shown)
			write_row(m, &m->rows.data[i], columns, out);
		else
			rest += m->rows.data[i].share;
	if (shown < m->rows.count)
		buf_printf(out, "%7.1f  in %zu other functions\n", 100 * rest, m->rows.count - shown);
	write_differing(m, out);
}

static void put_interval(struct buf *out, const char *key, struct interval i)
{
	json_open_array(out, key);
	json_put_number(out, NULL, i.lo);
	json_put_number(out, NULL, i.hi);
	json_close_array(out);
}

static void put_hosts(const struct hosts *m, struct buf *out)
{
	json_open_array(out, "hosts");
	for (size_t h = 0; h < m->hosts.count; h++) {
		const struct hosts_one *host = &m->hosts.data[h];
		json_open_object(out, NULL);
		json_put_name(out, "host", host->name);
		json_put_name(out, "file", host->path);
		json_put_number(out, "samples", host->n);
		json_put_number(out, "weight", host->weight);
		json_put_number(out, "lost_share", host->lost_share);
		json_put_number(out, "seconds", host->seconds);
		json_close_object(out);
	}
	json_close_array(out);
}

static void put_row(const struct hosts_row *row, struct buf *out)
{
	json_open_object(out, NULL);
	json_put_name(out, "symbol", row->name);
	json_put_name(out, "dso", row->dso);
	json_put_number(out, "share", row->share);
	put_interval(out, "interval", row->ci);
	put_interval(out, "within", row->within);
	json_put_number(out, "samples", row->samples);
	json_put_u64(out, "hosts", row->hosts);
	json_put_number(out, "p50", row->median);
	json_put_number(out, "max", row->largest);
	if (row->largest_host != NULL)
		json_put_name(out, "max_host", row->largest_host);
	else
		json_put_null(out, "max_host");
	json_put_number(out, "heterogeneity_q", row->q >= 0 ? row->q : NAN);
	json_put_number(out, "i2", row->i2);
	json_close_object(out);
}

void merge_json(const struct hosts *m, size_t rows, struct buf *out)
{
	size_t shown = rows > 0 && rows < m->rows.count ? rows : m->rows.count;
	json_open_object(out, NULL);
	json_put_text(out, "schema", "perfsample-merge/1");
	json_put_text(out, "event", m->event);
	json_put_text(out, "of", m->options.runs ? "runs" : "hosts");
	json_put_number(out, "confidence", m->options.confidence);
	json_put_bool(out, "these_only", m->options.these_only);
	json_open_array(out, "caveats");
	for (size_t i = 0; i < m->caveats.count; i++)
		json_put_text(out, NULL, m->caveats.data[i]);
	json_close_array(out);
	put_hosts(m, out);
	json_open_array(out, "functions");
	for (size_t i = 0; i < shown; i++)
		put_row(&m->rows.data[i], out);
	json_close_array(out);
	if (shown < m->rows.count)
		json_put_u64(out, "omitted", m->rows.count - shown);
	json_open_array(out, "differing");
	for (size_t i = 0; i < m->differing.count; i++) {
		const struct hosts_differing *d = &m->differing.data[i];
		json_open_object(out, NULL);
		json_put_name(out, "symbol", m->rows.data[d->row].name);
		json_put_name(out, "host", d->host);
		json_put_number(out, "share", d->share);
		json_put_number(out, "at_least", d->lo);
		json_put_number(out, "share_of_all", m->rows.data[d->row].share);
		json_close_object(out);
	}
	json_close_array(out);
	json_close_object(out);
	buf_byte(out, '\n');
}
