// A width that was planned is met: former recording, plan, recording so long, range; as often as the plan says.
#include "tests/tap.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "report/estimate.h"
#include "report/plan.h"

enum { BLOCKS = 20 };

static uint64_t state = 77;
static double uniform(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

struct found { double share, half_width, deff; size_t blocks; };

// `n` samples of a program that stays `stay` samples on the average in a function or out of it, each time by chance; estimated as a report does.
static struct found record(double share, double stay, size_t n)
{
	double ns[BLOCKS] = { 0 }, ks[BLOCKS] = { 0 }, k = 0, left = 0;
	bool is_in = false;
	for (size_t i = 0; i < n; i++) {
		if (left <= 0) {
			is_in = uniform() < share;
			left = -log(uniform()) * stay;
		}
		left--;
		ns[i * BLOCKS / n]++;
		ks[i * BLOCKS / n] += is_in;
		k += is_in;
	}
	struct block_result r = block_deff(ns, ks, BLOCKS);
	double n_eff;
	struct interval ci = workload_interval(k, (double)n, r.deff, BLOCKS, 0.95, &n_eff);
	return (struct found){ k / (double)n, (ci.hi - ci.lo) / 2, r.deff, BLOCKS };
}

static int met_of(double share, double stay, size_t former, double within, int times, bool by_mean)
{
	int met = 0;
	for (int i = 0; i < times; i++) {
		struct found f = record(share, stay, former);
		struct plan_input in = { .goal = PLAN_WITHIN, .share = f.share, .half_width = within, .confidence = 0.95, .power = 0.8,  .deff = f.deff, .share_n = (double)former / f.deff,
			.deff_df = by_mean ? 0 : (double)f.blocks - 1, .period_s = 1e-3, .cpus_busy = 1 };
		met += record(share, stay, (size_t)plan_for(&in).recorded).half_width <= within;
	}
	return met;
}

int main(void)
{
	static const struct { double share, stay, within; size_t former; } loads[] = {
		{ 0.5, 2, 0.03, 2000 }, { 0.3, 5, 0.02, 4000 }, { 0.3, 20, 0.03, 10000 }, { 0.05, 4, 0.01, 5000 }, { 0.9, 10, 0.02, 6000 },
	};
	enum { TIMES = 300 };
	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		int met = met_of(loads[i].share, loads[i].stay, loads[i].former, loads[i].within, TIMES, false);
		int before = met_of(loads[i].share, loads[i].stay, loads[i].former, loads[i].within, TIMES, true);
		ok(met >= 0.75 * TIMES && met <= 0.9 * TIMES, "a share of %g, stays of %g samples, +-%g: met %d of %d times (by the mean %d)", loads[i].share, loads[i].stay,
		   loads[i].within, met, TIMES, before);
	}
	struct plan_input in = { .goal = PLAN_WITHIN, .share = 0.3, .half_width = 0.02, .confidence = 0.95, .power = 0.8, .deff = 4, .deff_df = 19, .period_s = 1e-3,
		.cpus_busy = 1 };
	double at_80 = plan_for(&in).recorded;
	in.power = 0.95;
	ok(plan_for(&in).recorded > 1.2 * at_80 && plan_for(&in).is_assured, "to be surer takes longer");
	in.deff_df = 0;
	in.deff = 0;
	ok(!plan_for(&in).is_assured && plan_for(&in).at_least, "without a former recording nothing is assured");
	return tap_done();
}
