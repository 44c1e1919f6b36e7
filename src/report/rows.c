// Rows with their measures, order and ranks (statistics, sections 2, 4, 6 and 7).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "report/build.h"

enum { FEW_VISITS = 20, MIN_SAMPLES_FOR_WORKLOAD = 100 };
static const double TREND_Z = 1.645; // one-sided 5 % of the von Neumann ratio

static const char NO_NAME[] = "[unknown]";

static const char *text_of(const struct profile *p, uint32_t id)
{
	return id == 0xffffffff ? NO_NAME : profile_text(p, id);
}

// ---------------------------------------------------------------- measures

// 20 blocks, or 10 where neighbours are visibly correlated; true: correlated still.
static bool find_deff(const struct build *b, const double *k, double scale, struct row_measure *m)
{
	double scaled_n[TALLY_BLOCKS], scaled_k[TALLY_BLOCKS];
	size_t blocks = 0; // those in which a multiplexed event never ran say nothing
	for (size_t j = 0; j < TALLY_BLOCKS; j++) {
		if (b->off[j])
			continue;
		scaled_n[blocks] = b->tally.n[j] * scale;
		scaled_k[blocks++] = k[j] * scale;
	}
	struct block_result r = block_deff(scaled_n, scaled_k, blocks);
	m->blocks = blocks;
	bool trend = false;
	if (r.z_vn > TREND_Z && blocks >= 4) {
		for (size_t j = 0; j < blocks / 2; j++) {
			scaled_n[j] = scaled_n[2 * j] + scaled_n[2 * j + 1];
			scaled_k[j] = scaled_k[2 * j] + scaled_k[2 * j + 1];
		}
		if (blocks % 2 != 0) { // the odd one joins the last pair
			scaled_n[blocks / 2 - 1] += scaled_n[blocks - 1];
			scaled_k[blocks / 2 - 1] += scaled_k[blocks - 1];
		}
		r = block_deff(scaled_n, scaled_k, blocks / 2);
		m->blocks = blocks / 2;
		trend = r.z_vn > TREND_Z;
	}
	m->deff = fmax(1, r.deff);
	m->z_vn = r.z_vn;
	return trend;
}

// `cut`: weight of incomplete stacks that do not show the row, for total; 0 for self.
static void measure(const struct build *b, const struct tally_count *count, const double *blocks, double cut, struct row_measure *m)
{
	const struct report_event *event = b->event;
	double n = event->n, scale = b->tally.weight > 0 ? n / b->tally.weight : 0;
	m->flags = 0;
	m->imputed = m->tied_q = -1;
	m->samples = b->tally.is_weighted ? count->weight * scale : count->weight;
	m->share = n > 0 ? m->samples / n : 0;
	m->truncated_elsewhere = cut * scale;
	m->visits = count->runs;
	m->visits_outside = count->runs + b->tally.threads - count->starts - count->ends;
	m->deff = 1;
	if (n < MIN_SAMPLES_FOR_WORKLOAD || event->source->counts_by_weight) { // counts without times: neither blocks nor visits
		m->flags |= ROW_RUN_ONLY;
	} else {
		if (find_deff(b, blocks, scale, m))
			m->flags |= ROW_TREND;
		if (m->visits < FEW_VISITS || m->visits_outside < FEW_VISITS)
			m->flags |= ROW_FEW;
	}
	m->supported = m->flags == 0;
}

// What there is to say of a row's function beside its name.
static void tell_function(const struct build *b, uint32_t function, struct report_row *row)
{
	const struct profile *p = b->profile;
	const struct profile_function *f = function != PROFILE_NONE ? &p->functions.data[function] : NULL;
	row->is_unresolved = f == NULL || !profile_function_is_named(f);
	row->is_nameless = f != NULL && f->is_nameless;
	if (f == NULL)
		return;
	const char *source = f->source != 0 ? profile_text(p, f->source) : NULL, *slash = source != NULL ? strrchr(source, '/') : NULL;
	row->source = slash != NULL ? slash + 1 : source;
	row->is_by_address = profile_function_is_by_address(p, f);
	if (!f->is_nameless && f->told_by == 0)
		return;
	row->plain_name = f->plain_name != 0 ? profile_text(p, f->plain_name) : NULL;
	row->told_by = f->told_by != 0 ? profile_text(p, f->told_by) : NULL;
	if (f->start == 0)
		return;
	row->address = report_printf(b->report, "0x%llx", (unsigned long long)f->vaddr);
	char hex[65];
	if (f->dso != PROFILE_NONE && p->dsos.data[f->dso].build_id.size > 0)
		row->build_id = report_printf(b->report, "%s", build_id_hex(&p->dsos.data[f->dso].build_id, hex));
}

static void name_row(const struct build *b, const struct tally_row *from, struct report_row *row)
{
	const struct tally_entry *e = &b->tally.entries.data[from->entry];
	const struct tally_context *c = &b->tally.contexts.data[from->context];
	const struct profile *p = b->profile;
	unsigned keys = b->tally.keys;
	row->pid = c->pid;
	row->tid = c->tid;
	row->cpu = c->cpu;
	if ((keys & 1 << KEY_SYMBOL) != 0)
		row->keys[KEY_SYMBOL] = text_of(p, e->name);
	if ((keys & (1 << KEY_SYMBOL | 1 << KEY_DSO)) != 0)
		row->keys[KEY_DSO] = text_of(p, e->dso_name);
	if ((keys & 1 << KEY_COMM) != 0)
		row->keys[KEY_COMM] = profile_text(p, c->comm);
	if ((keys & 1 << KEY_PID) != 0)
		row->keys[KEY_PID] = report_printf(b->report, "%d", c->pid);
	if ((keys & 1 << KEY_TID) != 0)
		row->keys[KEY_TID] = report_printf(b->report, "%d", c->tid);
	if ((keys & 1 << KEY_CPU) != 0)
		row->keys[KEY_CPU] = report_printf(b->report, "%u", c->cpu);
	if ((keys & 1 << KEY_EVENT) != 0)
		row->keys[KEY_EVENT] = b->event->name;
	if ((keys & 1 << KEY_SRCLINE) != 0) {
		row->file = e->file != 0 ? profile_text(p, e->file) : NULL;
		row->line = e->line;
		row->keys[KEY_SRCLINE] = row->file != NULL ? report_printf(b->report, "%s:%u", row->file, e->line) : "??:0";
	}
	row->aliases = e->aliases != 0 ? profile_text(p, e->aliases) : NULL;
	row->is_kernel = from->kernel > from->user || (from->kernel + from->user == 0 && e->is_kernel);
	if ((keys & 1 << KEY_SYMBOL) != 0)
		tell_function(b, e->function, row);
}

// Self is part of total: equal weights are the same samples, in every block.
static bool is_same_count(const struct tally_count *self, const struct tally_count *total)
{
	return self->weight == total->weight && self->runs == total->runs && self->starts == total->starts && self->ends == total->ends;
}

// What windows with loss say of the measure that orders the rows.
static void tie_row(const struct build *b, const struct tie *tie, struct row_measure *m)
{
	static const double TIED_Q = 0.05;
	m->imputed = b->tally.is_weighted ? -1 : tie->imputed;
	m->tied_z = tie->z;
	m->tied_q = tie->q;
	if (tie->q < 0 || tie->q >= TIED_Q)
		return;
	m->flags |= ROW_TIED_LOSS;
	m->supported = false;
}

static void make_row(const struct build *b, uint32_t id, struct report_row *row)
{
	const struct tally_row *from = &b->tally.rows.data[id];
	double self[TALLY_BLOCKS], total[TALLY_BLOCKS];
	tally_blocks(&b->tally, id, self, total);
	name_row(b, from, row);
	row->tally_row = id;
	row->sample_count = from->samples;
	measure(b, &from->self, self, 0, &row->self);
	double cut = b->tally.cut - from->cut;
	if (is_same_count(&from->self, &from->total) && !(cut > 0))
		row->total = row->self; // a leaf: most functions are
	else
		measure(b, &from->total, total, cut, &row->total);
	if (b->ties != NULL)
		tie_row(b, &b->ties[id], b->options->children ? &row->total : &row->self);
	if (b->aliased != NULL && b->aliased[id]) {
		row->self.flags |= ROW_ALIASING;
		row->total.flags |= ROW_ALIASING;
		row->self.supported = row->total.supported = false;
	}
	row->flags = b->options->children ? row->total.flags : row->self.flags;
	row->shown_is_run = (row->flags & (ROW_FEW | ROW_RUN_ONLY)) != 0;
}

// ---------------------------------------------------------------- order and ranks

static int by_text(const char *x, const char *y)
{
	return x == NULL || y == NULL ? (x != NULL) - (y != NULL) : strcmp(x, y);
}

static int by_measure(const void *a, const void *c, bool children)
{
	const struct report_row *x = a, *y = c;
	double x1 = children ? x->total.samples : x->self.samples, y1 = children ? y->total.samples : y->self.samples;
	double x2 = children ? x->self.samples : x->total.samples, y2 = children ? y->self.samples : y->total.samples;
	if (x1 != y1)
		return x1 > y1 ? -1 : 1;
	if (x2 != y2)
		return x2 > y2 ? -1 : 1;
	for (size_t key = 0; key < KEY_COUNT; key++) {
		int order = by_text(x->keys[key], y->keys[key]);
		if (order != 0)
			return order;
	}
	return x->tally_row < y->tally_row ? -1 : x->tally_row > y->tally_row;
}

static int by_self(const void *a, const void *c)
{
	return by_measure(a, c, false);
}

static int by_total(const void *a, const void *c)
{
	return by_measure(a, c, true);
}

// Only rows with a sample of the measure have a rank; the others stand behind them, rank 0.
static void rank_rows(const struct build *b)
{
	struct report_event *event = b->event;
	bool children = b->options->children;
	size_t m = 0;
	double *k = mem_alloc((event->rows.count + 1) * sizeof(*k)), *deff = mem_alloc((event->rows.count + 1) * sizeof(*deff));
	for (; m < event->rows.count; m++) {
		const struct row_measure *r = children ? &event->rows.data[m].total : &event->rows.data[m].self;
		if (!(r->samples > 0))
			break;
		k[m] = r->samples;
		deff[m] = r->deff;
	}
	event->function_count = m;
	struct rank_interval *ranks = mem_alloc((m + 1) * sizeof(*ranks));
	rank_intervals(k, deff, m, b->options->confidence, ranks);
	for (size_t i = 0; i < m; i++) {
		event->rows.data[i].rank_lo = ranks[i].lo;
		event->rows.data[i].rank_hi = ranks[i].hi;
	}
	free(k);
	free(deff);
	free(ranks);
}

// ---------------------------------------------------------------- which rows are kept

static bool is_in(const char *const *list, const char *text)
{
	for (; text != NULL && *list != NULL; list++)
		if (strcmp(*list, text) == 0)
			return true;
	return false;
}

static bool row_is_wanted(const struct build *b, const struct report_row *row)
{
	const struct report_filter *f = &b->options->filter;
	if (f->symbols != NULL && !is_in(f->symbols, row->keys[KEY_SYMBOL]) && !is_in(f->symbols, row->plain_name))
		return false;
	if (f->dsos == NULL || is_in(f->dsos, row->keys[KEY_DSO]))
		return true;
	uint32_t path = b->tally.entries.data[b->tally.rows.data[row->tally_row].entry].dso_path;
	return is_in(f->dsos, text_of(b->profile, path));
}

void choose_rows(struct build *b)
{
	struct report_event *event = b->event;
	if (b->options->filter.symbols != NULL || b->options->filter.dsos != NULL) {
		size_t kept = 0;
		for (size_t i = 0; i < event->rows.count; i++)
			if (row_is_wanted(b, &event->rows.data[i]))
				event->rows.data[kept++] = event->rows.data[i];
		event->rows.count = kept;
	}
	event->rows_kept = event->rows.count;
	if (b->options->top > 0 && b->options->top < event->rows_kept)
		event->rows_kept = b->options->top;
	while (b->options->percent_limit > 0 && event->rows_kept > 0) {
		const struct report_row *last = &event->rows.data[event->rows_kept - 1];
		if ((b->options->children ? last->total.share : last->self.share) * 100 >= b->options->percent_limit)
			break;
		event->rows_kept--;
	}
}

static void find_simultaneous(const struct build *b)
{
	struct report_event *event = b->event;
	double largest = 1;
	for (size_t i = 0; i < event->rows.count; i++) {
		const struct report_row *row = &event->rows.data[i];
		const struct row_measure *m = b->options->children ? &row->total : &row->self;
		if (m->samples >= 10 && (row->flags & (ROW_FEW | ROW_RUN_ONLY)) == 0)
			largest = fmax(largest, m->deff);
	}
	event->simultaneous_half_width = simultaneous_half_width(event->n / largest, b->options->confidence);
}

// With `simultaneous` all M functions seen, not the rows shown, share the error (Bonferroni): rows are chosen by the same data.
static void find_confidence(struct build *b)
{
	size_t seen = 0;
	for (size_t i = 0; i < b->tally.rows.count; i++) {
		const struct tally_row *row = &b->tally.rows.data[i];
		seen += (b->options->children ? row->total.weight : row->self.weight) > 0;
	}
	b->confidence = b->options->confidence;
	if (b->options->simultaneous && seen > 1)
		b->confidence = 1 - (1 - b->confidence) / (double)seen;
	b->event->interval_confidence = b->confidence;
}

void build_rows(struct build *b)
{
	struct report_event *event = b->event;
	find_confidence(b);
	vec_reserve(&event->rows, b->tally.rows.count);
	for (size_t i = 0; i < b->tally.rows.count; i++)
		if (b->tally.rows.data[i].total.weight > 0)
			make_row(b, (uint32_t)i, vec_add(&event->rows));
	if (event->rows.count > 0)
		sort_stable(event->rows.data, event->rows.count, sizeof(*event->rows.data), b->options->children ? by_total : by_self);
	rank_rows(b);
	find_simultaneous(b);
	find_ranges(b);
}
