// Whether a loop of the program keeps step with the sampling period (record/restart.h): then what is seen changes where the sampling clock was started anew.
//
// A test by the recorder's own randomization. At each restart of a CPU's clock the samples before and behind it are compared, and so they are at placebos,
// moments between that restart and the next at which nothing was done. The recorder chose the moment by chance, so if it did nothing to what is seen, the
// restart is like any of its placebos: in each stratum any of the moments might have been the one. The sum over the restarts is held against
// all such choices. What the program does by itself, slowly or in bursts, comes with placebos as often, and nothing is assumed of it.
//
// A placebo leaves out the sample behind it: a restart puts that off by half a period on the average, and a program that changes within periods is not to be
// taken for one in step.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "report/build.h"
#include "report/estimate.h"

enum { WINDOW = 8, LEAST = 4, PLACEBOS = 7, MOMENTS = PLACEBOS + 1, OPEN_MOST = 4, LEAST_STRATA = 4, STRATA_MOST = 4096, POINTS = 512, DRAWS = 20000 };
static const double SUSPECTED_P = 0.001, LEAST_CHANGE = 0.02, TRIED_Z = 2.5;

struct window { uint32_t rows[WINDOW]; uint8_t count; };
struct moment {
	uint64_t time_ns;
	uint32_t stratum;
	bool is_restart, is_opened, skips;
	uint32_t thread;           // of the samples before it
	struct window before, after;
};
// What one CPU shows: the last samples of one thread on end, and moments that wait for what follows.
struct place {
	uint32_t cpu, thread;      // thread: of the last sample, + 1; 0: none
	uint32_t last[WINDOW];
	uint64_t count;            // samples of that thread on end
	VEC(struct moment) moments; // in the order of time
	size_t next, open[OPEN_MOST], opened;
};
struct lockstep {
	struct build *build;
	VEC(struct place) places;
	struct hash_map place_of, thread_ids;
	uint32_t strata;
};

// ---------------------------------------------------------------- moments

static struct place *place_of(struct lockstep *l, uint32_t cpu, bool makes)
{
	const uint32_t *known = hash_map_get(&l->place_of, cpu);
	if (known != NULL || !makes)
		return known != NULL ? &l->places.data[*known] : NULL;
	*hash_map_put(&l->place_of, cpu, 0, NULL) = (uint32_t)l->places.count;
	struct place *place = vec_add(&l->places);
	place->cpu = cpu;
	return place;
}

static void add_moments(struct lockstep *l)
{
	const struct build *b = l->build;
	const struct profile *p = b->profile;
	size_t own = 0, every = 1, seen = 0;
	for (size_t i = 0; i < p->restarts.count; i++)
		own += p->restarts.data[i].event == b->event_id;
	every = own / STRATA_MOST + 1;
	struct hash_map last = { 0 }; // by CPU: its restart before, + 1
	for (size_t i = 0; i < p->restarts.count; i++) {
		const struct profile_restart *r = &p->restarts.data[i];
		if (r->event != b->event_id || !build_keeps_cpu(&b->options->filter, r->cpu))
			continue;
		uint32_t *before = hash_map_put(&last, r->cpu, 0, NULL);
		const struct profile_restart *from = *before > 0 ? &p->restarts.data[*before - 1] : NULL;
		*before = (uint32_t)i + 1;
		if (from == NULL || r->time_ns <= from->time_ns || seen++ % every != 0)
			continue;
		struct place *place = place_of(l, r->cpu, true);
		uint64_t length = r->time_ns - from->time_ns;
		struct moment moment = { .time_ns = from->time_ns, .stratum = l->strata, .is_restart = true };
		vec_push(&place->moments, moment);
		for (uint64_t k = 1; k <= PLACEBOS; k++) { // away from the restarts on either side
			moment = (struct moment){ .time_ns = from->time_ns + length * (k + 1) / (PLACEBOS + 3), .stratum = l->strata, .skips = true };
			vec_push(&place->moments, moment);
		}
		l->strata++;
	}
	hash_map_release(&last);
}

// ---------------------------------------------------------------- windows

static void close_full(struct place *place)
{
	size_t kept = 0;
	for (size_t i = 0; i < place->opened; i++)
		if (place->moments.data[place->open[i]].after.count < WINDOW)
			place->open[kept++] = place->open[i];
	place->opened = kept;
}

static void open_moment(struct place *place, size_t index)
{
	struct moment *m = &place->moments.data[index];
	m->before.count = (uint8_t)(place->count < WINDOW ? place->count : WINDOW);
	for (uint8_t i = 0; i < m->before.count; i++)
		m->before.rows[i] = place->last[(place->count - 1 - i) % WINDOW];
	m->thread = place->thread;
	if (place->thread == 0 || m->before.count < LEAST)
		return;
	if (place->opened == OPEN_MOST) { // the oldest has most of its samples
		memmove(place->open, place->open + 1, (OPEN_MOST - 1) * sizeof(*place->open));
		place->opened--;
	}
	m->is_opened = true;
	place->open[place->opened++] = index;
}

static void see(struct place *place, uint64_t time_ns, uint32_t thread, uint32_t row)
{
	for (; place->next < place->moments.count && place->moments.data[place->next].time_ns <= time_ns; place->next++)
		open_moment(place, place->next);
	if (thread != place->thread) {
		place->thread = thread;
		place->count = 0;
		place->opened = 0; // what follows is another thread's
	}
	for (size_t i = 0; i < place->opened; i++) {
		struct moment *m = &place->moments.data[place->open[i]];
		if (m->skips)
			m->skips = false;
		else
			m->after.rows[m->after.count++] = row;
	}
	close_full(place);
	place->last[place->count++ % WINDOW] = row;
}

static void see_samples(struct lockstep *l)
{
	struct build *b = l->build;
	const struct samples *samples = &b->profile->samples;
	struct sample_point points[POINTS];
	bool *keeps = filter_contexts(&b->options->filter, b->profile);
	for (size_t at = 0, count; (count = samples_points(samples, at, points, POINTS)) > 0; at += count) {
		for (size_t i = 0; i < count; i++) {
			const struct sample_context *c = &samples->contexts.data[points[i].context];
			if (!keeps[points[i].context] || c->event != b->event_id || c->is_idle || !filter_keeps_time(&b->options->filter, points[i].time_ns))
				continue;
			struct place *place = place_of(l, c->cpu, false);
			if (place == NULL)
				continue;
			uint32_t thread = *hash_map_put(&l->thread_ids, (uint64_t)(uint32_t)c->pid << 32 | (uint32_t)c->tid, (uint32_t)l->thread_ids.count + 1, NULL);
			see(place, points[i].time_ns, thread, tally_rows_of(&b->tally, &points[i])->self_row);
		}
	}
	free(keeps);
}

// ---------------------------------------------------------------- the test

// How much more often a sample before and one behind are of different rows than two on one side are: 0 where nothing changed, 1 where one function gave way
// to another. `row`: of this row against all others; PROFILE_NONE: of all.
static double differ(const struct window *a, const struct window *b, uint32_t row)
{
	double unlike = 0;
	for (uint8_t i = 0; i < a->count; i++)
		for (uint8_t j = 0; j < b->count; j++)
			unlike += row == PROFILE_NONE ? a->rows[i] != b->rows[j] : (a->rows[i] == row) != (b->rows[j] == row);
	return unlike / (a->count * b->count);
}

static double within(const struct window *a, uint32_t row)
{
	return differ(a, a, row) * a->count / (a->count - 1);
}

static double change_at(const struct moment *m, uint32_t row)
{
	return differ(&m->before, &m->after, row) - (within(&m->before, row) + within(&m->after, row)) / 2;
}

static bool is_usable(const struct moment *m)
{
	return m->is_opened && m->after.count >= LEAST;
}

struct stratum { double change[MOMENTS]; uint8_t count; bool has_restart; }; // the restart's comes first

static struct stratum *compare_strata(const struct lockstep *l, uint32_t row, size_t *count)
{
	struct stratum *strata = mem_zero(l->strata + 1, sizeof(*strata));
	size_t kept = 0;
	for (size_t p = 0; p < l->places.count; p++) {
		for (size_t i = 0; i < l->places.data[p].moments.count; i++) {
			const struct moment *m = &l->places.data[p].moments.data[i];
			struct stratum *s = &strata[m->stratum];
			if (!is_usable(m) || (!m->is_restart && !s->has_restart))
				continue;
			s->has_restart |= m->is_restart;
			s->change[s->count++] = change_at(m, row);
		}
	}
	for (size_t i = 0; i < l->strata; i++)
		if (strata[i].count > 1)
			strata[kept++] = strata[i];
	*count = kept;
	return strata;
}

struct comparison { double restarts, placebos, z, p; }; // mean changes; p: of one as large by chance

static double mean_of(const struct stratum *s, uint8_t from)
{
	double sum = 0;
	for (uint8_t i = from; i < s->count; i++)
		sum += s->change[i];
	return sum / (s->count - from);
}

// The share of choices that give as large a sum, these among them. Seeded by nothing: the same recording gives the same p.
static double p_by_choices(const struct stratum *strata, size_t count, double observed)
{
	uint64_t state = 0x9e3779b97f4a7c15u;
	size_t as_large = 1;
	for (size_t d = 0; d < DRAWS; d++) {
		double sum = 0;
		for (size_t i = 0; i < count; i++)
			sum += strata[i].change[(hash_u64(state++) >> 32) * strata[i].count >> 32];
		as_large += sum >= observed - 1e-9;
	}
	return (double)as_large / (DRAWS + 1);
}

static struct comparison compare(const struct stratum *strata, size_t count)
{
	struct comparison c = { .p = 1 };
	double sum = 0, expected = 0, variance = 0, others = 0;
	for (size_t i = 0; i < count; i++) {
		const struct stratum *s = &strata[i];
		double mean = mean_of(s, 0);
		sum += s->change[0];
		expected += mean;
		others += mean_of(s, 1);
		for (uint8_t k = 0; k < s->count; k++)
			variance += (s->change[k] - mean) * (s->change[k] - mean) / s->count;
	}
	if (count == 0)
		return c;
	c.restarts = sum / (double)count;
	c.placebos = others / (double)count;
	c.z = variance > 0 ? (sum - expected) / sqrt(variance) : 0;
	c.p = c.z > TRIED_Z ? p_by_choices(strata, count, sum) : normal_cdf(-c.z);
	return c;
}

// Rows that change by themselves where the clock was started anew.
static void mark_rows(const struct lockstep *l)
{
	struct build *b = l->build;
	if (b->aliased == NULL)
		b->aliased = mem_zero(b->tally.rows.count + 1, sizeof(*b->aliased));
	bool *is_seen = mem_zero(b->tally.rows.count + 1, sizeof(*is_seen));
	for (size_t p = 0; p < l->places.count; p++)
		for (size_t i = 0; i < l->places.data[p].moments.count; i++) {
			const struct moment *m = &l->places.data[p].moments.data[i];
			for (uint8_t k = 0; m->is_restart && is_usable(m) && k < m->before.count + m->after.count; k++)
				is_seen[k < m->before.count ? m->before.rows[k] : m->after.rows[k - m->before.count]] = true;
		}
	for (uint32_t row = 0; row < b->tally.rows.count; row++) {
		size_t count;
		if (!is_seen[row] || b->tally.rows.data[row].self.weight < LEAST_CHANGE / 2 * b->tally.weight)
			continue;
		struct stratum *strata = compare_strata(l, row, &count);
		struct comparison c = compare(strata, count);
		b->aliased[row] |= c.z > 3 && c.restarts - c.placebos > LEAST_CHANGE / 2;
		free(strata);
	}
	free(is_seen);
}

void test_lockstep(struct build *b)
{
	struct lockstep l = { .build = b };
	struct report_lockstep *found = &b->event->lockstep;
	size_t count = 0;
	found->p = 1;
	if (b->profile->restarts.count == 0)
		return;
	add_moments(&l);
	see_samples(&l);
	struct stratum *strata = compare_strata(&l, PROFILE_NONE, &count);
	struct comparison c = compare(strata, count);
	found->restarts = count;
	found->is_tested = count >= LEAST_STRATA;
	found->p = c.p;
	found->at_restarts = c.restarts;
	found->elsewhere = c.placebos;
	found->is_suspected = found->is_tested && c.p < SUSPECTED_P && c.restarts - c.placebos > LEAST_CHANGE && c.restarts > 2 * c.placebos;
	if (found->is_suspected)
		mark_rows(&l);
	free(strata);
	for (size_t i = 0; i < l.places.count; i++)
		vec_release(&l.places.data[i].moments);
	vec_release(&l.places);
	hash_map_release(&l.place_of);
	hash_map_release(&l.thread_ids);
}
