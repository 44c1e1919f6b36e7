// The experiments of bench/stats_coverage.c, short: fixed seeds, limits that chance alone does not cross.
#include "tests/tap.h"

#include "tests/coverage.h"

int main(void)
{
	ok(coverage_exact(50, 100) >= 0.95 - 1e-9, "Clopper-Pearson covers at least 0.95, exactly");
	struct coverage_result mid = coverage_run(1e-3, 0, 1.295295e-3, 0.5, 60), lock = coverage_run(0, 1e-3, 1.295295e-3, 0.5, 60);
	struct coverage_result step = coverage_run(0, 1e-3, 1e-3, 0.5, 60), phases = coverage_workload(20e-3, 10, 40), few = coverage_workload(1, 10, 20);
	ok(mid.covered >= 0.90 * (double)mid.cells, "run interval, dwell 1 ms: %zu of %zu", mid.covered, mid.cells);
	ok(lock.covered >= 0.93 * (double)lock.cells, "a loop of 1 ms at the default period: %zu of %zu", lock.covered, lock.cells);
	ok(step.covered < 0.7 * (double)step.cells, "at a period of 1 ms it must fail: %zu of %zu", step.covered, step.cells);
	ok(phases.unflagged_covered >= 0.88 * (double)phases.unflagged && phases.unflagged > 60, "workload interval, dwell 20 ms: %zu of %zu unflagged",
	   phases.unflagged_covered, phases.unflagged);
	ok(few.few > 0 && few.few_flagged >= 0.9 * (double)few.few, "rows with fewer than 10 visits are flagged: %zu of %zu", few.few_flagged, few.few);
	struct coverage_loss tied = coverage_lossy(true, 8), random = coverage_lossy(false, 12);
	ok(tied.tied >= 6 && tied.covered >= 7, "loss while D runs: tied in %d, worst case holds in %d of 8", tied.tied, tied.covered);
	ok(random.tied <= 4, "random loss is called tied in %d of 12", random.tied);
	struct coverage_diff null = coverage_compare(1, 4, 10, 12), changed = coverage_compare(1.3, 6, 0, 20);
	ok(null.any <= 4, "no change: a discovery in %d of 12", null.any);
	ok(changed.found >= 11, "30 %% more is found in %d of 20, planned for 16", changed.found); // fewer have a chance of 0.7 %
	ok(coverage_trials(200) >= 182, "trials without an effect: %d of 200 hold 0", coverage_trials(200));
	return tap_done();
}
