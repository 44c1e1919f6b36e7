// Samples in packed columns against the same rows written out.
#include "profile/samples.h"

#include <signal.h>
#include <sys/resource.h>

#include "tests/tap.h"

enum { MANY = 3 * SAMPLES_A_BLOCK + 100 };

struct model { struct samples samples; size_t most_bytes; struct profile_sample rows[MANY]; uint64_t random; };

static uint64_t next_random(struct model *m)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random;
}

static bool is_same_row(const struct profile_sample *a, const struct profile_sample *b)
{
	return a->time_ns == b->time_ns && a->weight == b->weight && a->pid == b->pid && a->tid == b->tid && a->cpu == b->cpu && a->comm == b->comm &&
	       a->event == b->event && a->stack == b->stack && a->end == b->end && a->splice == b->splice && a->comb == b->comb &&
	       a->is_kernel == b->is_kernel && a->is_idle == b->is_idle;
}

static bool is_same(const struct model *m, size_t count)
{
	struct sample_point points[1000];
	bool same = m->samples.count == count;
	for (size_t i = 0; i < count && same; i++) {
		struct profile_sample row = samples_at(&m->samples, i);
		same = is_same_row(&row, &m->rows[i]);
	}
	size_t first = 0;
	for (size_t some; (some = samples_points(&m->samples, first, points, 1000)) > 0; first += some) {
		for (size_t i = 0; i < some && same; i++) {
			const struct profile_sample *row = &m->rows[first + i];
			const struct sample_context *context = &m->samples.contexts.data[points[i].context];
			same = points[i].time_ns == row->time_ns && points[i].weight == row->weight && points[i].stack == row->stack && context->tid == row->tid &&
			       context->end == row->end;
		}
	}
	return same && first == count;
}

// Values that take up to `bits` bits each.
static void fill(struct model *m, unsigned bits)
{
	uint64_t mask = UINT64_MAX >> (64 - bits), time_ns = 0;
	samples_release(&m->samples);
	m->samples.most_bytes = m->most_bytes;
	for (size_t i = 0; i < MANY; i++) {
		m->rows[i] = (struct profile_sample){ .time_ns = time_ns, .weight = next_random(m) & mask, .pid = (int32_t)(next_random(m) % 5) - 1,
			.tid = (int32_t)(next_random(m) & mask), .cpu = next_random(m) % 4, .comm = (uint32_t)(next_random(m) & mask), .event = next_random(m) % 3,
			.stack = next_random(m) % 50 == 0 ? UINT32_MAX : (uint32_t)(next_random(m) & mask), .end = next_random(m) % 12,
			.splice = next_random(m) % 3, .comb = next_random(m) % 2, .is_kernel = next_random(m) % 2, .is_idle = next_random(m) % 2 };
		time_ns += next_random(m) & mask >> 16;
		samples_add(&m->samples, &m->rows[i]);
	}
}

static void change(void *context, struct profile_sample *sample)
{
	(void)context;
	sample->end = (uint8_t)(sample->end + 1);
	sample->weight = sample->tid % 2 != 0 ? UINT64_MAX : 7;
}

// Every third sample's context becomes one that ends otherwise.
static uint32_t choose(void *context, const struct sample_point *point)
{
	const uint32_t *others = context;
	return point->time_ns % 3 == 0 ? others[point->context] : point->context;
}

static void recontext(struct model *m)
{
	size_t known = m->samples.contexts.count;
	uint32_t *others = mem_alloc(known * sizeof(*others));
	for (size_t i = 0; i < known; i++) {
		struct sample_context other = m->samples.contexts.data[i];
		other.end ^= 1;
		others[i] = samples_context(&m->samples, &other);
	}
	samples_recontext(&m->samples, choose, others);
	for (size_t i = 0; i < MANY; i++)
		if (m->rows[i].time_ns % 3 == 0)
			m->rows[i].end ^= 1;
	ok(is_same(m, MANY), "other contexts for a third of the samples");
	free(others);
}

static void all_ways(struct model *m)
{
	m->random = 88172645463325252u;
	for (unsigned bits = 1; bits <= 64; bits = bits < 60 ? bits + 9 : bits + 1) {
		fill(m, bits);
		ok(is_same(m, MANY), "rows with values of up to %u bits", bits);
	}
	fill(m, 8);
	ok(m->samples.blocks.count == 3, "full blocks are packed");
	samples_edit(&m->samples, change, NULL);
	for (size_t i = 0; i < MANY; i++)
		change(NULL, &m->rows[i]);
	ok(is_same(m, MANY), "all rows edited");
	recontext(m);
	for (size_t i = 0; i < MANY; i += 1777) {
		m->rows[i].stack = 99;
		m->rows[i].tid = -1;
		samples_set(&m->samples, i, &m->rows[i]);
	}
	ok(is_same(m, MANY), "single rows set");
	samples_truncate(&m->samples, 0);
	for (size_t i = 0; i < MANY; i++) { // the newest first, in pairs; weights tell which was added first
		m->rows[i].time_ns = MANY - i / 2;
		m->rows[i].weight = i;
		samples_add(&m->samples, &m->rows[i]);
	}
	samples_sort(&m->samples);
	bool ordered = true;
	for (size_t i = 1; i < MANY; i++) {
		struct profile_sample a = samples_at(&m->samples, i - 1), b = samples_at(&m->samples, i);
		ordered = ordered && (a.time_ns < b.time_ns || (a.time_ns == b.time_ns && a.weight < b.weight));
	}
	ok(ordered && m->samples.count == MANY, "in the order of time, equals in their own");
	for (size_t count = MANY - 1; count > 0; count /= 2) {
		for (size_t i = 0; i < count; i++)
			samples_get(&m->samples, i, &m->rows[i]);
		samples_truncate(&m->samples, count);
		ok(is_same(m, count), "cut to %zu", count);
	}
	m->rows[m->samples.count] = m->rows[0];
	samples_add(&m->samples, &m->rows[0]);
	ok(is_same(m, m->samples.count), "and one more");
	samples_release(&m->samples);
}

static void disk_of(rlim_t bytes)
{
	struct rlimit limit = { .rlim_cur = bytes, .rlim_max = RLIM_INFINITY };
	if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
		diag("RLIMIT_FSIZE cannot be set");
}

// Columns that are set down block by block, or until the disk is full.
static void set_down(struct model *m)
{
	m->most_bytes = 1;
	fill(m, 20);
	ok(m->samples.spill.segments.count == 3 && m->samples.bytes == 0, "each block is set down");
	all_ways(m);
	m->most_bytes = 1 << 16;
	fill(m, 20);
	ok(m->samples.spill.segments.count == 1 && m->samples.bytes > 0, "two of them together, the third is in memory");
	signal(SIGXFSZ, SIG_IGN);
	m->most_bytes = 1;
	fill(m, 20);
	disk_of(m->samples.spill.end / 2);
	fill(m, 20);
	ok(m->samples.spill.has_failed && m->samples.spill.segments.count == 1, "the disk is full after the first");
	all_ways(m);
	disk_of(0);
	fill(m, 20);
	ok(m->samples.spill.has_failed && m->samples.spill.segments.count == 0, "there is no disk");
	all_ways(m);
	disk_of(RLIM_INFINITY);
}

int main(void)
{
	struct model *m = calloc(1, sizeof(*m));
	if (m == NULL)
		return 1;
	all_ways(m);
	set_down(m);
	free(m);
	return tap_done();
}
