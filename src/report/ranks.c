#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/search.h"
#include "report/estimate.h"

// A pair is told apart when the test says so at the larger of the two design effects; the test is monotone in the design effect, so this is
// "at mine and at yours". At one design effect the test is monotone in the other count: for row i everything from the top down to
// above[i] is surely larger, everything from below[i] on surely smaller, judged by i's own design effect. What holds by both is counted
// by walking the rows and keeping, in a Fenwick tree, which of them also tell the current row apart by their own.
struct ranking {
	const double *k, *deff;
	size_t rows;
	double level, z;  // of one test, and its normal quantile
	size_t *above; // rows [0, above[i]) are larger, by i's deff
	size_t *below; // rows [below[i], rows) are smaller, by i's deff
};

// 0 <= u < 1: ((1 - u) ln(1 - u) + (1 + u) ln(1 + u)) / u^2 = 1 + u^2 / 6 + u^4 / 15 + u^6 / 28 + u^8 / 45 + …
static double divergence(double u)
{
	double u2 = u * u;
	if (u2 < 0.01)
		return 1 + u2 * (1.0 / 6 + u2 * (1.0 / 15 + u2 * (1.0 / 28 + u2 / 45)));
	return ((1 - u) * log1p(-u) + (1 + u) * log1p(u)) / u2;
}

// The sign test: P(X <= s) of X of l + s fair tosses, whose normal deviate by Peizer & Pratt 1968, where it is at the level asked for, from 0.5 down
// to 1e-9, is off by less than 0.0171 / (1 + s). The exact test is asked where that leaves it open, the logarithms where their series' bounds do.
static bool is_apart(const struct ranking *r, size_t i, size_t j)
{
	double d = r->deff != NULL ? r->deff[i] : 1, difference = fabs(r->k[i] - r->k[j]) / d, s = fmin(r->k[i], r->k[j]) / d, l = s + difference;
	double n = l + s, margin = 0.03 / (1 + s);
	if (difference <= 1) // the middle of the tosses is not beyond s
		return false;
	double beyond = (difference - 1 - 0.02 * (1 / (s + 1) - 1 / l)) / sqrt(n + 1.0 / 6), u = (difference - 1) / n;
	if (beyond > r->z + margin)
		return true;
	if (beyond * (1 + u * u / (12 * (1 - u * u))) < r->z - margin)
		return false;
	beyond *= sqrt(divergence(u));
	if (fabs(beyond - r->z) > margin)
		return beyond > r->z;
	return sign_test(r->k[i], r->k[j], d) <= r->level;
}

static void find_thresholds(const struct ranking *r, size_t i)
{
	r->above[i] = first_not(0, i, j, is_apart(r, i, j));
	r->below[i] = first_not(i + 1, r->rows, j, !is_apart(r, i, j));
}

static void tree_add(int32_t *tree, size_t rows, size_t at, int32_t value)
{
	for (at++; at <= rows; at += at & -at)
		tree[at] += value;
}

static int32_t tree_sum(const int32_t *tree, size_t count) // of the first `count` elements
{
	int32_t sum = 0;
	for (; count > 0; count -= count & -count)
		sum += tree[count];
	return sum;
}

// Calls for every i, in order, with the tree holding the rows j whose own threshold starts at or before i (`starts[j]` <= i).
struct bucket { size_t *head, *next; };

static struct bucket bucket_by(const size_t *starts, size_t rows)
{
	struct bucket b = { mem_alloc((rows + 1) * sizeof(size_t)), mem_alloc((rows + 1) * sizeof(size_t)) };
	for (size_t i = 0; i <= rows; i++)
		b.head[i] = SIZE_MAX;
	for (size_t j = 0; j < rows; j++) {
		b.next[j] = b.head[starts[j]];
		b.head[starts[j]] = j;
	}
	return b;
}

static void bucket_release(struct bucket *b)
{
	free(b->head);
	free(b->next);
}

void rank_intervals(const double *k, const double *deff, size_t rows, double conf, struct rank_interval *ranks)
{
	if (rows == 0)
		return;
	double level = rows > 1 ? (1 - conf) / (double)(rows - 1) : 1 - conf;
	struct ranking r = { k, deff, rows, level, -normal_quantile(level / 2), mem_alloc(rows * sizeof(size_t)), mem_alloc(rows * sizeof(size_t)) };
	for (size_t i = 0; i < rows; i++)
		find_thresholds(&r, i);
	// Larger: j < above[i] by i's test, and i >= below[j] by j's.
	int32_t *tree = mem_zero(rows + 1, sizeof(*tree));
	struct bucket b = bucket_by(r.below, rows);
	for (size_t i = 0; i < rows; i++) {
		for (size_t j = b.head[i]; j != SIZE_MAX; j = b.next[j])
			tree_add(tree, rows, j, 1);
		ranks[i].lo = 1 + (uint32_t)tree_sum(tree, r.above[i]);
	}
	bucket_release(&b);
	// Smaller: j >= below[i] by i's test, and i < above[j] by j's: not yet taken out when i is walked.
	memset(tree, 0, (rows + 1) * sizeof(*tree));
	for (size_t j = 0; j < rows; j++)
		tree_add(tree, rows, j, 1);
	b = bucket_by(r.above, rows);
	for (size_t i = 0; i < rows; i++) {
		for (size_t j = b.head[i]; j != SIZE_MAX; j = b.next[j])
			tree_add(tree, rows, j, -1);
		ranks[i].hi = (uint32_t)rows - (uint32_t)(tree_sum(tree, rows) - tree_sum(tree, r.below[i]));
	}
	bucket_release(&b);
	free(tree);
	free(r.above);
	free(r.below);
}
