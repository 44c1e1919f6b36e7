// What a recording cost by its books: the recorder's own CPU time, and what the kernel took from the target for each sample, calibrated on this host.
//
// The kernel's part is not measured while a program is recorded. It is that of a loop of our own that is sampled by the same clock and does fixed work:
// without the event, with it (a tick: the timer's interrupt and a bare record), and with two sizes of stack copies (so much a KiB). What the interrupts do to
// the target's caches is not in it; that, only trials with and without show (perfsample overhead).
#ifndef PERFSAMPLE_RECORD_COST_H
#define PERFSAMPLE_RECORD_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct cost_calibration {
	double tick_ns;          // a sample without a copy
	double copy_ns_per_kib;  // of valid stack
	uint64_t rounds, samples; // medians over so many rounds, of so many samples in all
};

// Some 0.3 s of this thread's CPU time. STATUS_HOST: the clock cannot be opened, or gives no samples.
bool cost_calibrate(struct cost_calibration *out, struct err *err);

struct cost {
	struct cost_calibration unit;
	uint64_t ticks;          // samples the kernel took of the target, lost ones too
	double copied_kib;       // of stack, all of them
	uint64_t others_ticks;   // of others, with CPU-wide events that are kept for a target
	double others_copied_kib;
	double recorder_cpu_s;   // draining, unwinding, writing
	double target_cpu_s;     // 0: not known
};

double cost_target_s(const struct cost *cost); // taken from the target
double cost_others_s(const struct cost *cost); // taken from others
double cost_drain_us(const struct cost *cost); // the recorder's CPU time a sample; 0 without samples

#endif
