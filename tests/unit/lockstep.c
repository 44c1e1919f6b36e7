// Loops in step with the sampling period, noticed where the clock was started anew; programs that stay long or change often are not; and which periods
// keep step with usual loops.
#include "tests/tap.h"

#include "report/resonance.h"
#include "tests/synthetic.h"

static uint64_t random_state;
static double uniform(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

// A program by its CPU time, s: which function runs then.
struct program {
	enum { LOOP, RENEWAL, BURSTS } kind;
	double loop_s, share;  // LOOP: `a` in the first part of each
	double stay_s;         // RENEWAL: mean time in a function, `a` with its share; BURSTS: `a` for 20 ms on end, once in 20 ms / share
	double until_s;        // of the stay
	bool in_a;
};

static bool runs_a(struct program *p, double at_s)
{
	if (p->kind == LOOP)
		return fmod(at_s / p->loop_s, 1) < p->share;
	while (at_s >= p->until_s) {
		p->in_a = p->kind == RENEWAL ? uniform() < p->share : !p->in_a;
		p->until_s += p->kind == RENEWAL ? -log(uniform()) * p->stay_s : p->in_a ? 0.020 : -log(uniform()) * 0.020 * (1 / p->share - 1);
	}
	return p->in_a;
}

// Sampled as the recorder does: a whole period after each restart. `restarts` false: the clock runs on undisturbed, though the moments are marked.
static void sample(struct profile *p, struct program *program, double seconds, bool restarts)
{
	syn_init(p, seconds);
	uint32_t a = syn_stack(p, syn_function(p, "a", "app"), PROFILE_NONE), b = syn_stack(p, syn_function(p, "b", "app"), PROFILE_NONE);
	double period_s = (double)SYN_PERIOD_NS / 1e9, next = uniform() * period_s, restart = 0.05 + uniform() * 0.1;
	for (size_t count = 0; next < seconds;) {
		if (next >= restart) {
			vec_push(&p->restarts, (struct profile_restart){ .time_ns = p->meta.start_ns + (uint64_t)(restart * 1e9) });
			if (restarts)
				next = restart + period_s;
			restart += (0.5 + uniform()) * period_s * (++count < 40 ? 64 : 192);
			continue;
		}
		syn_sample(p, next, runs_a(program, next) ? a : b, 1);
		next += period_s;
	}
	syn_account(p, 0, 0);
}

static struct report_lockstep test_of(const struct program *program, double seconds, bool restarts, unsigned *flags, bool *covers)
{
	struct profile p;
	struct program copy = *program;
	struct report_options options = report_defaults();
	struct report r;
	struct err err = { 0 };
	sample(&p, &copy, seconds, restarts);
	struct report_lockstep found = { 0 };
	if (report_build(&r, &p, &options, &err)) {
		const struct report_row *row = syn_row(&r.events.data[0], "a");
		found = r.events.data[0].lockstep;
		*flags = row != NULL ? row->flags : 0;
		*covers = row != NULL && row->self.workload.lo <= program->share && row->self.workload.hi >= program->share;
		bool said = false;
		for (size_t i = 0; i < r.events.data[0].caveats.count; i++) {
			const struct report_caveat *c = &r.events.data[0].caveats.data[i];
			said |= c->code == CAVEAT_ALIASING && c->is_care && strstr(c->text, "--two-combs") != NULL;
		}
		if (said != found.is_suspected)
			printf("not ok - said %d, suspected %d\n", said, found.is_suspected), tap_failed = 1;
	}
	report_release(&r);
	profile_release(&p);
	return found;
}

struct figures { int suspected, flagged, covered, times; };

static struct figures figures_of(const struct program *program, double seconds, bool restarts, int times)
{
	struct figures f = { .times = times };
	for (int i = 0; i < times; i++) {
		unsigned flags = 0;
		bool covers = false;
		struct report_lockstep l = test_of(program, seconds, restarts, &flags, &covers);
		f.suspected += l.is_suspected;
		f.flagged += l.is_suspected && (flags & ROW_ALIASING) != 0;
		f.covered += covers;
	}
	return f;
}

static void test_power(void)
{
	static const struct { double ratio, share, seconds; int least; const char *name; } loops[] = {
		{ 1, 0.3, 4, 38, "a loop of exactly the period" }, { 1.0001, 0.3, 4, 38, "of 1.0001 of it" }, { 0.9990, 0.3, 4, 38, "of 0.999 of it" },
		{ 0.5, 0.3, 4, 38, "of half the period" }, { 2, 0.3, 4, 36, "of twice the period" }, { 1, 0.1, 8, 34, "with a function of 10%" },
		{ 1, 0.3, 2, 28, "for two seconds" },
	};
	enum { TIMES = 40 };
	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
		struct program program = { .kind = LOOP, .loop_s = loops[i].ratio * SYN_PERIOD_NS / 1e9, .share = loops[i].share };
		struct figures f = figures_of(&program, loops[i].seconds, true, TIMES);
		ok(f.suspected >= loops[i].least, "%s: noticed %d of %d times", loops[i].name, f.suspected, TIMES);
		ok(f.flagged == f.suspected, "its row is marked");
		ok(f.covered >= TIMES * 3 / 4, "its share lies in the interval %d of %d times", f.covered, TIMES);
	}
	struct program loop = { .kind = LOOP, .loop_s = SYN_PERIOD_NS / 1e9, .share = 0.3 };
	struct figures f = figures_of(&loop, 4, false, TIMES);
	ok(f.suspected == 0 && f.covered == 0, "by a clock that runs on undisturbed nothing is noticed, and all is wrong");
}

static void test_false_alarms(void)
{
	static const struct { struct program program; const char *name; } programs[] = {
		{ { .kind = RENEWAL, .stay_s = 20e-6, .share = 0.3 }, "20 us in a function" }, { { .kind = RENEWAL, .stay_s = 1e-3, .share = 0.3 }, "1 ms" },
		{ { .kind = RENEWAL, .stay_s = 5e-3, .share = 0.3 }, "5 ms" }, { { .kind = RENEWAL, .stay_s = 50e-3, .share = 0.3 }, "50 ms" },
		{ { .kind = RENEWAL, .stay_s = 1, .share = 0.3 }, "1 s" }, { { .kind = BURSTS, .share = 0.05 }, "bursts of 20 ms" },
		{ { .kind = LOOP, .loop_s = 0.7368e-3, .share = 0.3 }, "a loop of 0.7368 ms" }, { { .kind = LOOP, .loop_s = 10e-3, .share = 0.3 }, "a loop of 10 ms" },
		{ { .kind = LOOP, .loop_s = 0.3, .share = 0.3 }, "a loop of 0.3 s" },
	};
	int alarms = 0, times = 0;
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		for (int length = 0; length < 2; length++) {
			int runs = length == 0 ? 40 : 8;
			struct figures f = figures_of(&programs[i].program, length == 0 ? 4 : 60, true, runs);
			diag("%s, %d s: %d of %d", programs[i].name, length == 0 ? 4 : 60, f.suspected, runs);
			alarms += f.suspected;
			times += runs;
		}
	}
	ok(alarms * 100 <= times, "%d false alarms of %d recordings: at most 1%%", alarms, times);
}

static void test_none(void)
{
	struct program loop = { .kind = LOOP, .loop_s = SYN_PERIOD_NS / 1e9, .share = 0.3 };
	unsigned flags;
	bool covers;
	struct report_lockstep l = test_of(&loop, 0.15, true, &flags, &covers);
	ok(!l.is_tested && !l.is_suspected, "too few restarts: not tested");
}

static void test_resonance(void)
{
	static const double bad[] = { 1000, 999, 997, 500, 499, 250, 249, 200, 100, 50, 4000, 3999, 2000 }, good[] = { 99, 101, 97, 49, 95, 772.024, 1473.31, 777, 987 };
	double loop = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(resonance_is_bad(1000 / bad[i], &loop), "%g Hz is in step with loops of %g ms: %.1f standard errors", bad[i], loop, resonance_worst(1000 / bad[i], &loop));
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ok(!resonance_is_bad(1000 / good[i], &loop), "%g Hz is not: %.1f", good[i], resonance_worst(1000 / good[i], &loop));
	static const double ours[] = { 1.295295, 0.678744, 10.579380, 2.606182, 2.341046 };
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		ok(resonance_worst(ours[i], &loop) < 2.2, "%g ms of ours: %.2f", ours[i], resonance_worst(ours[i], &loop));
	is_close(resonance_worst(1000.0 / 999, &loop), 13.69, 0.01, "the worst of 999 Hz, as reckoned by simulation");
	resonance_worst(1, &loop);
	is_close(loop, 1, 1e-12, "a clock of 1 ms and a loop of 1 ms");
}

int main(void)
{
	random_state = 20261;
	test_power();
	test_false_alarms();
	test_none();
	test_resonance();
	return tap_done();
}
