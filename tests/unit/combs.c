// Two combs: pooled into one event, held against each other; a loop in step with one of them shows, unlike chance.
#include "tests/tap.h"

#include "export/exporter.h"
#include "profile/combs.h"
#include "tests/synthetic.h"

static uint64_t random_state = 31;
static double uniform(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

// A counting event, the two combs, and a third event; `shares` of function a in each comb.
static void make(struct profile *p, double seconds, const double *shares)
{
	static const uint64_t periods[2] = { COMB_FIRST_NS, COMB_SECOND_NS };
	syn_init(p, seconds);
	struct profile_event third = p->events.data[0];
	p->events.data[0].period = COMB_FIRST_NS;
	struct profile_event second = p->events.data[0];
	second.period = COMB_SECOND_NS;
	third.name = intern_string(&p->names, "task-clock");
	vec_push(&p->events, second);
	vec_push(&p->events, third);
	uint32_t a = syn_stack(p, syn_function(p, "a", "app"), PROFILE_NONE), b = syn_stack(p, syn_function(p, "b", "app"), PROFILE_NONE);
	uint32_t c = syn_stack(p, syn_function(p, "c", "app"), PROFILE_NONE);
	double next[2] = { 0.0001, 0.0002 };
	while (next[0] < seconds || next[1] < seconds) { // in the order of time
		uint32_t comb = next[1] < next[0];
		double u = uniform(), share = shares[comb];
		syn_sample(p, next[comb], u < share ? a : u < 0.9 ? b : c, 1);
		syn_last(p, event, comb);
		syn_last(p, weight, periods[comb]);
		p->events.data[comb].expected++;
		next[comb] += (double)periods[comb] / 1e9;
	}
	for (uint32_t e = 0; e < 2; e++)
		p->events.data[e].time_running_ns = p->events.data[e].time_enabled_ns = (uint64_t)(seconds * 1e9);
	syn_sample(p, seconds - 0.0001, a, 1);
	syn_last(p, event, 2);
	vec_push(&p->losses, (struct profile_loss){ p->meta.start_ns, p->meta.start_ns + 1000, 3, 0, 1, false });
	p->events.data[1].lost = 3;
	p->events.data[1].expected += 3;
	for (uint32_t e = 0; e < 3; e++)
		vec_push(&p->readings, (struct profile_reading){ .time_ns = p->meta.end_ns, .event = e, .running = 1 });
}

static void test_pooling(void)
{
	struct profile p;
	static const double same[2] = { 0.5, 0.5 };
	make(&p, 10, same);
	uint64_t taken = p.samples.count - 1, due = p.events.data[0].expected + p.events.data[1].expected;
	ok(profile_pool_combs(&p), "two combs are found");
	is_u64(p.events.count, 2, "and are one event");
	is_u64(p.events.data[0].period, 1233255, "of the period between two samples of either");
	ok(p.events.data[0].comb_periods[0] == COMB_FIRST_NS && p.events.data[0].comb_periods[1] == COMB_SECOND_NS, "which knows theirs");
	is_u64(p.events.data[0].expected, due, "what was due adds up");
	is_u64(p.events.data[0].lost, 3, "and what was lost");
	ok(p.losses.data[0].event == 0 && p.readings.count == 2 && p.readings.data[1].event == 1, "losses and readings follow");
	is_u64(samples_at(&p.samples, p.samples.count - 1).event, 1, "the event behind them is renumbered");
	struct report_options options = report_defaults();
	struct report r;
	struct err err = { 0 };
	ok(report_build(&r, &p, &options, &err), "a report of it");
	const struct report_event *e = &r.events.data[0];
	ok((uint64_t)e->taken == taken && !e->is_weighted && e->n == e->taken, "of all samples, none weighing more");
	is_close(e->cpu_seconds, 10, 1e-9, "CPU time is the clock's, once");
	ok(e->silent == 0, "nothing silent: %g", e->silent);
	ok(e->aliasing.is_tested && !e->aliasing.is_suspected && e->aliasing.samples[0] + e->aliasing.samples[1] == e->taken, "and tested: p = %.2g", e->aliasing.p);
	is_close(e->aliasing.detectable, 4.1 * sqrt(0.25 * (1 / e->aliasing.samples[0] + 1 / e->aliasing.samples[1])), 1e-3, "what would have shown");
	report_release(&r);
	ok(!profile_pool_combs(&p), "pooled once, it stays");
	profile_release(&p);

	make(&p, 1, same);
	syn_set(&p, 5, weight, 10579380); // reopened at a coarser period
	ok(!profile_pool_combs(&p) && p.events.count == 3, "not where periods changed on the way");
	syn_set(&p, 5, weight, p.events.data[samples_at(&p.samples, 5).event].period);
	p.events.data[1].excludes_kernel = true;
	ok(!profile_pool_combs(&p), "nor where the two leave out different things");
	profile_release(&p);

	make(&p, 1, same); // -c 1ms: one that is to be tested beside the second comb
	p.events.data[0].period = 1000000;
	for (size_t i = 0; i < p.samples.count; i++)
		syn_set(&p, i, weight, p.events.data[samples_at(&p.samples, i).event].period);
	ok(!profile_pool_combs(&p), "nor where it is not told which event is the other comb");
	p.events.data[2].excludes_idle = true;
	ok(profile_pool_combs(&p) && p.events.count == 2 && p.events.data[0].comb_periods[0] == 1000000 && p.events.data[0].comb_periods[1] == COMB_SECOND_NS,
	   "the only other event of that clock is, whatever its period");
	profile_release(&p);
}

static void test_aliasing(void)
{
	struct profile p;
	struct err err = { 0 };
	static const double locked[2] = { 0.5, 0.8 }, same[2] = { 0.5, 0.5 };
	struct report_options options = report_defaults();
	struct report r;
	make(&p, 2, locked);
	profile_pool_combs(&p);
	ok(report_build(&r, &p, &options, &err), "one comb in step with a loop");
	const struct report_event *e = &r.events.data[0];
	ok(e->aliasing.is_suspected && e->aliasing.p < 1e-6, "is suspected: p = %.1g", e->aliasing.p);
	ok((syn_row(e, "a")->flags & ROW_ALIASING) != 0 && !syn_row(e, "a")->self.supported, "the row is marked");
	ok((syn_row(e, "c")->flags & ROW_ALIASING) == 0, "one that the combs agree on is not");
	is_u64(e->verdict, VERDICT_CARE, "and the verdict is CARE");
	struct buf out = { 0 };
	struct export_input input = { .profile = &p, .report = &r, .wide = true };
	ok(exporter_find("text")->write(&input, &out, &err) && strstr(buf_text(&out), "ALIASING SUSPECTED: two combs (") != NULL
	   && strstr(buf_text(&out), " ! aliasing suspected\n") != NULL && strstr(buf_text(&out), "period 2.341046 + 2.606182 ms (811 Hz)") != NULL, "in these words");
	buf_release(&out);
	report_release(&r);
	profile_release(&p);
	int alarms = 0;
	for (int i = 0; i < 300; i++) {
		make(&p, 0.7, same);
		profile_pool_combs(&p);
		if (report_build(&r, &p, &options, &err))
			alarms += r.events.data[0].aliasing.is_suspected;
		report_release(&r);
		profile_release(&p);
	}
	ok(alarms <= 3, "without it there is an alarm in %d of 300", alarms); // 0.1 % nominal: more than 3 has probability 3e-4
}

int main(void)
{
	test_pooling();
	test_aliasing();
	return tap_done();
}
