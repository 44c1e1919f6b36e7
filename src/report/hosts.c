#include "report/hosts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "report/estimate_more.h"

static const double HETEROGENEOUS_Q = 0.01, TWICE = 2, LOSS_MATTERS = 0.01;
enum { MIN_TESTED = 10 };

static const char *keep(struct hosts *m, const char *text)
{
	return arena_string(&m->arena, text, strlen(text));
}

static void caveat(struct hosts *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void caveat(struct hosts *m, const char *format, ...)
{
	char text[400];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	vec_push(&m->caveats, keep(m, text));
}

void hosts_init(struct hosts *m, const struct hosts_options *options)
{
	*m = (struct hosts){ .options = *options };
	intern_init(&m->keys);
}

// What comparability looks at; the texts are the merge's own.
static void remember_first(struct hosts *m, const struct digest *d)
{
	m->first = *d;
	m->first.arena = (struct arena){ 0 };
	memset(&m->first.rows, 0, sizeof(m->first.rows));
	memset(&m->first.inlined, 0, sizeof(m->first.inlined));
	m->first.path = keep(m, d->path);
	m->first.event = m->event = keep(m, d->event);
	m->first.arch = keep(m, d->arch);
	m->first.kernel = m->first.cpu = m->first.host = "";
	m->first.left_out = NULL;
}

static uint32_t function_of(struct hosts *m, const struct digest_row *row)
{
	struct buf key = { 0 };
	bool is_anywhere = row->build != NULL && row->build[0] == '\0'; // an address in a file of an unknown build is that of any function
	const char *name = !is_anywhere ? row->name : row->plain != NULL ? row->plain : "[unknown]";
	buf_add(&key, name, strlen(name) + 1);
	buf_add(&key, row->dso, strlen(row->dso) + 1);
	buf_string(&key, row->build != NULL ? row->build : ""); // in another build there is another function at that address
	uint32_t id = intern_bytes(&m->keys, (const char *)key.data, key.size) - 1;
	buf_release(&key);
	if (id == m->functions.count) {
		vec_add(&m->functions);
		m->functions.data[id].name = keep(m, name);
		m->functions.data[id].dso = keep(m, row->dso);
	}
	return id;
}

static void add_row(struct hosts *m, uint32_t host, const struct digest_row *row)
{
	uint32_t id = function_of(m, row);
	size_t count = m->functions.data[id].cells.count;
	struct hosts_cell *last = count > 0 ? &m->functions.data[id].cells.data[count - 1] : NULL, cell = { host, row->k, fmax(1, row->deff) };
	if (last == NULL || last->host != host) {
		vec_push(&m->functions.data[id].cells, cell);
		return;
	}
	last->k += cell.k; // several rows that go by one name
	last->deff = fmax(last->deff, cell.deff);
}

bool hosts_add(struct hosts *m, const struct digest *d, double factor, struct err *err)
{
	if (m->hosts.count == 0)
		remember_first(m, d);
	else if (!digest_comparable(&m->first, d, err))
		return false;
	if (!(d->amount > 0) || !(d->n > 0))
		return err_set(err, STATUS_INPUT, "%s: %s, by which hosts are weighed, is not known", d->path, d->is_clock ? "its CPU time" : "how often its event was counted");
	if (m->left_out == NULL && d->left_out != NULL)
		m->left_out = keep(m, d->left_out);
	uint32_t host = (uint32_t)m->hosts.count;
	const char *name = m->options.runs || d->host[0] == '\0' ? d->path : d->host;
	vec_push(&m->hosts, (struct hosts_one){ .name = keep(m, name), .path = keep(m, d->path), .n = d->n, .weight = d->amount * factor,
	         .lost_share = d->missing > 0 ? d->missing / (d->missing + d->n) : 0, .seconds = d->seconds });
	m->weight += d->amount * factor;
	m->n += d->n;
	for (size_t i = 0; i < d->rows.count; i++) {
		add_row(m, host, &d->rows.data[i]);
	}
	return true;
}

// ---------------------------------------------------------------- estimates

struct strata { double *n, *k, *weight, *shares; };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median_of(double *values, size_t count)
{
	sort_stable(values, count, sizeof(*values), by_value);
	return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

// Effective counts: a host without the function has none of its samples, each worth one.
static void fill(const struct hosts *m, size_t function, struct strata *s, struct hosts_row *row)
{
	size_t hosts = m->hosts.count;
	for (size_t h = 0; h < hosts; h++) {
		s->n[h] = m->hosts.data[h].n;
		s->k[h] = s->shares[h] = 0;
		s->weight[h] = m->hosts.data[h].weight;
	}
	row->hosts = m->functions.data[function].cells.count;
	for (size_t i = 0; i < row->hosts; i++) {
		const struct hosts_cell *c = &m->functions.data[function].cells.data[i];
		s->n[c->host] = m->hosts.data[c->host].n / c->deff;
		s->k[c->host] = c->k / c->deff;
		s->shares[c->host] = c->k / m->hosts.data[c->host].n;
		row->samples += c->k;
		if (s->shares[c->host] > row->largest || row->largest_host == NULL) {
			row->largest = s->shares[c->host];
			row->largest_host = m->hosts.data[c->host].name;
		}
	}
}

static void estimate(const struct hosts *m, size_t function, struct strata *s, struct hosts_row *row)
{
	size_t hosts = m->hosts.count;
	double conf = m->options.confidence, z = normal_quantile(1 - (1 - conf) / 2);
	row->name = m->functions.data[function].name;
	row->dso = m->functions.data[function].dso;
	fill(m, function, s, row);
	struct hosts_estimate e = merge_hosts(s->n, s->k, s->weight, hosts, conf);
	double half = z * sqrt(e.var_within);
	row->share = e.share;
	row->within = (struct interval){ fmax(0, e.share - half), fmin(1, e.share + half) };
	row->ci = m->options.these_only ? row->within : e.ci;
	row->p = e.p_heterogeneous;
	row->i2 = e.i2;
	row->q = -1;
	row->median = median_of(s->shares, hosts);
}

// Hosts on which a function surely has more than twice its share of the whole. Of H hosts each is looked at: the level is alpha / H.
static void find_differing(struct hosts *m, size_t function, uint32_t id, const struct hosts_row *row)
{
	double conf = 1 - (1 - m->options.confidence) / (double)m->hosts.count;
	for (size_t i = 0; i < m->functions.data[function].cells.count && m->hosts.count > 1; i++) {
		const struct hosts_cell *c = &m->functions.data[function].cells.data[i];
		double n = m->hosts.data[c->host].n;
		if (c->k / n <= TWICE * row->share)
			continue;
		struct interval ci = clopper_pearson(c->k / c->deff, n / c->deff, conf);
		if (ci.lo > TWICE * row->share)
			vec_push(&m->differing, (struct hosts_differing){ id, m->hosts.data[c->host].name, c->k / n, ci.lo });
	}
}

static void adjust(struct hosts *m)
{
	size_t count = m->rows.count, tested = 0;
	double *p = mem_alloc((count + 1) * sizeof(*p)), *q = mem_alloc((count + 1) * sizeof(*q));
	for (size_t i = 0; i < count; i++)
		if (m->rows.data[i].samples >= MIN_TESTED && m->hosts.count > 1)
			p[tested++] = m->rows.data[i].p;
	adjust_p(p, tested, ADJUST_BH, q);
	for (size_t i = 0, at = 0; i < count; i++) {
		struct hosts_row *row = &m->rows.data[i];
		if (row->samples >= MIN_TESTED && m->hosts.count > 1)
			row->q = q[at++];
		row->is_heterogeneous = row->q >= 0 && row->q < HETEROGENEOUS_Q;
	}
	free(p);
	free(q);
}

// ---------------------------------------------------------------- order and words

struct place { double share; const char *name, *dso; uint32_t row; };

static int by_share(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->share != y->share)
		return x->share > y->share ? -1 : 1;
	int order = strcmp(x->name, y->name);
	return order != 0 ? order : strcmp(x->dso, y->dso);
}

static int by_excess(const void *a, const void *b)
{
	const struct hosts_differing *x = a, *y = b;
	if (x->lo != y->lo)
		return x->lo > y->lo ? -1 : 1;
	return x->row != y->row ? (x->row < y->row ? -1 : 1) : strcmp(x->host, y->host);
}

static void sort_rows(struct hosts *m)
{
	size_t count = m->rows.count;
	struct place *places = mem_alloc((count + 1) * sizeof(*places));
	struct hosts_row *sorted = mem_alloc((count + 1) * sizeof(*sorted));
	uint32_t *now = mem_alloc((count + 1) * sizeof(*now));
	for (size_t i = 0; i < count; i++)
		places[i] = (struct place){ m->rows.data[i].share, m->rows.data[i].name, m->rows.data[i].dso, (uint32_t)i };
	sort_stable(places, count, sizeof(*places), by_share);
	for (size_t i = 0; i < count; i++) {
		sorted[i] = m->rows.data[places[i].row];
		now[places[i].row] = (uint32_t)i;
	}
	for (size_t i = 0; i < m->differing.count; i++)
		m->differing.data[i].row = now[m->differing.data[i].row];
	if (m->differing.count > 0)
		sort_stable(m->differing.data, m->differing.count, sizeof(*m->differing.data), by_excess);
	if (count > 0)
		memcpy(m->rows.data, sorted, count * sizeof(*sorted));
	free(places);
	free(sorted);
	free(now);
}

static void add_caveats(struct hosts *m)
{
	const char *what = m->options.runs ? "run" : "host";
	size_t lossy = 0;
	for (size_t h = 0; h < m->hosts.count; h++)
		lossy += m->hosts.data[h].lost_share > LOSS_MATTERS;
	if (m->left_out != NULL)
		caveat(m, "%s alone is merged; left out: %s", m->event, m->left_out);
	if (m->hosts.count == 1)
		caveat(m, "one %s: what %ss differ by is not in the intervals", what, what);
	else if (m->hosts.count < HOSTS_FEW && !m->options.these_only)
		caveat(m, "few %ss: with %zu the intervals are wide, and no better", what, m->hosts.count);
	if (lossy > 0)
		caveat(m, "%zu of %zu %ss miss more than 1%% of their samples", lossy, m->hosts.count, what);
}

void hosts_finish(struct hosts *m)
{
	size_t hosts = m->hosts.count;
	struct strata s = { mem_alloc((hosts + 1) * sizeof(double)), mem_alloc((hosts + 1) * sizeof(double)), mem_alloc((hosts + 1) * sizeof(double)),
		mem_alloc((hosts + 1) * sizeof(double)) };
	for (size_t f = 0; f < m->functions.count; f++) {
		struct hosts_row *row = vec_add(&m->rows);
		estimate(m, f, &s, row);
		find_differing(m, f, (uint32_t)f, row);
	}
	free(s.n);
	free(s.k);
	free(s.weight);
	free(s.shares);
	adjust(m);
	sort_rows(m);
	add_caveats(m);
}

void hosts_release(struct hosts *m)
{
	for (size_t f = 0; f < m->functions.count; f++)
		vec_release(&m->functions.data[f].cells);
	vec_release(&m->functions);
	vec_release(&m->hosts);
	vec_release(&m->rows);
	vec_release(&m->differing);
	vec_release(&m->caveats);
	intern_release(&m->keys);
	arena_release(&m->arena);
}
