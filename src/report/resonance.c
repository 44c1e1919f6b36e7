#include "report/resonance.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { LEAST_SAMPLES = 100, MOST_SAMPLES = 1000 };
static const double BAD = 3;
static const double loops_ms[] = { 1, 2, 3, 4, 5, 8, 10, 16, 50.0 / 3, 20, 25, 100.0 / 3, 50 }; // 16.7 and 33.3: frames at 60 and 30 Hz
static const double parts[] = { 0.05, 0.1, 0.2, 0.3, 0.4, 0.5 };

// Samples at phases u, u + x, u + 2x, … of a loop, of which the part [0, a) is one function's. With u by chance two samples d steps apart are both in it with
// probability max(0, a - |dx|), |dx| the distance of dx to the nearest whole number (a <= 1/2), so the variance of the share of n samples is
// (n c(0) + 2 sum over d < n of (n - d) c(d)) / n^2, where c(d) = max(0, a - |dx|) - a^2.
static double worst_of_part(const double *distances, double a)
{
	double sum = 0, weighted = 0, none = a - a * a, worst = 0;
	for (int n = 1; n <= MOST_SAMPLES; n++) {
		double variance_times_n = none + 2 * (sum - weighted / n);
		if (n >= LEAST_SAMPLES && variance_times_n > worst)
			worst = variance_times_n;
		double c = (distances[n] < a ? a - distances[n] : 0) - a * a;
		sum += c;
		weighted += n * c;
	}
	return sqrt(worst / none);
}

double resonance_worst(double period_ms, double *loop_ms)
{
	double worst = 0;
	*loop_ms = 0;
	for (size_t i = 0; i < sizeof(loops_ms) / sizeof(loops_ms[0]); i++) {
		double distances[MOST_SAMPLES + 1];
		for (int n = 1; n <= MOST_SAMPLES; n++) {
			double steps = n * (period_ms / loops_ms[i]), phase = steps - (double)(int64_t)steps;
			distances[n] = phase < 0.5 ? phase : 1 - phase;
		}
		for (size_t j = 0; j < sizeof(parts) / sizeof(parts[0]); j++) {
			double found = worst_of_part(distances, parts[j]);
			if (found > worst) {
				worst = found;
				*loop_ms = loops_ms[i];
			}
		}
	}
	return worst;
}

bool resonance_is_bad(double period_ms, double *loop_ms)
{
	return resonance_worst(period_ms, loop_ms) > BAD;
}
