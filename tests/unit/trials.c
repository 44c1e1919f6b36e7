// Paired trials and plans: formulas against known values, words, coverage without an effect; metrics; running commands.
#include "tests/tap.h"

#include <unistd.h>

#include "export/overhead.h"
#include "export/plan.h"
#include "report/estimate_more.h"
#include "report/plan.h"
#include "report/trials.h"
#include "tests/json_schema.h"
#include "trial/metric.h"

static uint64_t random_state = 2024;
static double uniform(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static void test_formulas(void)
{
	// R: wilcox.test(c(1.1, 2.2, -0.3, 4.1, 5.5)), exact: V = 14, p = 0.125.
	static const double y[] = { 1.1, 2.2, -0.3, 4.1, 5.5 }, all_up[] = { 1, 2, 3, 4, 5, 6 }, zeros[] = { 0, 0, 0 };
	is_close(wilcoxon_signed_rank(y, 5), 0.125, 1e-12, "Wilcoxon, one of five against");
	is_close(wilcoxon_signed_rank(all_up, 6), 2 / 64.0, 1e-12, "six of six: 2 / 2^6");
	is_close(wilcoxon_signed_rank(zeros, 3), 1, 1e-12, "nothing but zeros");
	static const double three[] = { 1, 2, 6 };
	is_close(hodges_lehmann(three, 3), 2.75, 1e-12, "Hodges-Lehmann: median of 1 1.5 2 3.5 4 6"); // (2 + 3.5) / 2
	is_u64(trials_pairs_needed(0.01, 0.005, 0.95, 0.8), 34, "s = 1 %%, d = 0.5 %%: 34 pairs");
	is_u64(trials_pairs_needed(0.001, 0.5, 0.95, 0.8), 5, "never fewer than 5");
	ok(!trials_on_first(0) && trials_on_first(1) && !trials_on_first(2), "off on, on off, off on");

	static const double off[] = { 10, 10.2, 9.9, 10.1, 10 }, on[] = { 11, 11.1, 10.9, 11.2, 11 };
	struct trials lower = trials_estimate(off, on, 5, false, 0.95), higher = trials_estimate(off, on, 5, true, 0.95);
	ok(fabs(lower.change - 0.0996) < 1e-3 && lower.ci.lo > 0.08 && lower.ci.hi < 0.12, "times: 10 %% more: %.4f", lower.change);
	ok(higher.change < -0.08 && fabs((1 + lower.change) * (1 + higher.change) - 1) < 1e-12, "throughput is the other way round");
	ok(lower.has_wilcoxon && !lower.disagrees, "ranks agree");
	static const double outlier[] = { 10.2, 10.4, 10.1, 10.3, 10.2, 3 };
	static const double six[] = { 10, 10.2, 9.9, 10.1, 10, 10 };
	ok(trials_estimate(six, outlier, 6, false, 0.95).change < 0 && trials_estimate(six, outlier, 6, false, 0.95).hodges_lehmann > -0.5, "one wild trial");
}

static const char *text_of(const struct trials *t, struct buf *out)
{
	buf_clear(out);
	trials_text(t, out);
	return buf_text(out);
}

static void test_words(void)
{
	struct buf out = { 0 };
	struct trials t = { .pairs = 20, .change = 0.006, .ci = { -0.002, 0.014 }, .upper = 0.013 };
	is_str(text_of(&t, &out), "0.6% [-0.2, 1.4], 20 pairs: not distinguishable from 0; at most 1.3%", "what cannot be told from 0");
	t.ci.lo = 0.001;
	is_str(text_of(&t, &out), "0.6% [0.1, 1.4], 20 pairs; at most 1.3%", "what can");
	t = (struct trials){ .pairs = 20, .change = -0.02, .ci = { -0.03, -0.01 }, .upper = -0.012 };
	ok(strstr(text_of(&t, &out), "no gain is claimed") != NULL, "less than nothing is no gain");
	t = (struct trials){ .pairs = 20, .change = 0, .ci = { 0, 0 }, .upper = 0 };
	ok(strstr(text_of(&t, &out), "-0.0") == NULL, "nor minus nothing");
	t.pairs = 4;
	is_str(text_of(&t, &out), "4 pairs: too few for an interval", "four pairs");
	static const double off[] = { 1, 1, 1, 1, 1 }, on[] = { 1.1, 1.2, 1, 1.1, 1.1 };
	static const char *const argv[] = { "cmd", NULL };
	t = trials_estimate(off, on, 5, false, 0.95);
	struct overhead_output o = { .trials = &t, .off = off, .on = on, .metric = "wall", .argv = argv, .is_time = true, .confidence = 0.95 };
	struct schema_check check = { 0 };
	buf_clear(&out);
	overhead_json(&o, &out);
	is_str(schema_validate("schema/perfsample-overhead-1.json", buf_text(&out), &check), "", "JSON as its schema says");
	buf_release(&out);
}

// Nothing differs, machines drift: the interval holds 0 in 95 of 100.
static void test_no_effect(void)
{
	int holds = 0, shifted = 0;
	enum { ROUNDS = 400, PAIRS = 12 };
	for (int i = 0; i < ROUNDS; i++) {
		double off[PAIRS], on[PAIRS];
		for (size_t p = 0; p < PAIRS; p++) {
			double drift = 0.02 * (double)p, z1 = normal_quantile(uniform()), z2 = normal_quantile(uniform());
			// Within a pair the second trial is slower by the drift too; ABBA turns it round.
			off[p] = exp(drift + (trials_on_first(p) ? 0.01 : 0) + 0.01 * z1);
			on[p] = exp(drift + (trials_on_first(p) ? 0 : 0.01) + 0.01 * z2);
		}
		struct trials t = trials_estimate(off, on, PAIRS, false, 0.95);
		holds += t.ci.lo <= 0 && t.ci.hi >= 0;
		for (size_t p = 0; p < PAIRS; p++)
			on[p] *= 1.03;
		t = trials_estimate(off, on, PAIRS, false, 0.95);
		shifted += t.ci.lo > 0 && t.ci.lo <= 0.03 && t.ci.hi >= 0.03;
	}
	ok(holds >= 0.93 * ROUNDS, "on = off under drift: the interval holds 0 in %d of %d", holds, ROUNDS);
	ok(shifted >= 0.90 * ROUNDS, "3 %% more is seen and held in %d of %d", shifted, ROUNDS);
}

static void test_plan(void)
{
	struct plan_input in = { .goal = PLAN_WITHIN, .share = 0.05, .half_width = 0.005, .confidence = 0.95, .power = 0.8, .period_s = 1.295295e-3, .cpus_busy = 2 };
	struct plan p = plan_for(&in);
	is_close(p.samples, 7299, 1e-12, "z^2 p (1 - p) / e^2");
	ok(p.at_least && fabs(p.seconds - 7299 * 1.295295e-3 / 2) < 1e-9, "at least, without a design effect");
	in.deff = 10;
	p = plan_for(&in);
	ok(p.recorded == 72990 && !p.at_least && p.longer, "ten times as many, and faster does not help");
	in.goal = PLAN_SEEN;
	in.share = 0.001;
	in.deff = 0;
	is_close(plan_for(&in).samples, 2995, 1e-12, "a thousandth is seen with 2,995 samples");
	in = (struct plan_input){ .goal = PLAN_RANK, .share = 0.05, .other = 0.04, .confidence = 0.95, .power = 0.8, .period_s = 1e-3, .cpus_busy = 1 };
	is_close(plan_for(&in).samples, samples_to_separate(0.05, 0.04, 0.95, 0.8), 1e-12, "two rows told apart");
	in.goal = PLAN_CHANGE;
	in.runs = 5;
	in.functions = 20;
	in.change = 1;
	in.share = 0.5;
	p = plan_for(&in);
	is_close(p.changed_share, 2.0 / 3, 1e-12, "half of the time that doubles is two thirds");
	double effect = welch_effect(5, 0.05 / 20, 0.8, 0);
	is_close(p.samples, ceil((1 + 0.5) * effect * effect / (5 * log(2) * log(2)) + 1.5 * (1 + 0.5) / 2), 1e-12, "samples a run");
	// Of the normal test that Welch's is in the limit: z of 1 - alpha / 2 and of the power.
	is_close(welch_effect(100000, 0.05, 0.8, 0), normal_quantile(0.975) + normal_quantile(0.8), 1e-3, "many runs: the normal formula");
	ok(welch_effect(4, 0.0125, 0.8, 0) > 1.25 * (normal_quantile(1 - 0.0125 / 2) + normal_quantile(0.8)), "few runs take more than it says");
	ok(welch_effect(4, 0.0125, 0.8, 19) > welch_effect(4, 0.0125, 0.8, 0), "and more where the variance was estimated");
	struct buf out = { 0 };
	struct schema_check check = { 0 };
	plan_json(&in, &p, &out);
	is_str(schema_validate("schema/perfsample-plan-1.json", buf_text(&out), &check), "", "JSON as its schema says");
	buf_release(&out);
}

static bool value_of(const char *text, const char *output, double *value, struct err *err)
{
	struct metric m;
	struct trial_run run = { .wall_s = 2, .cpu_s = 3 };
	err_clear(err);
	buf_string(&run.output, output);
	bool good = metric_parse(&m, text, err);
	good = good && metric_value(&m, &run, value, err);
	metric_release(&m);
	trial_run_release(&run);
	return good;
}

static void test_metrics(void)
{
	double v = 0;
	struct err err = { 0 };
	ok(value_of("wall", "", &v, &err) && v == 2 && value_of("cpu", "", &v, &err) && v == 3, "wall and cpu");
	ok(value_of("/tps = ([0-9.]+)/", "latency = 1\ntps = 1234.5 (x)\n", &v, &err) && v == 1234.5, "a regular expression's group");
	ok(value_of("/[0-9]+/", "a 17 b", &v, &err) && v == 17, "or all of it");
	ok(!value_of("/tps/", "none", &v, &err) && err.status == STATUS_FINISH, "no match: %s", err.text);
	ok(!value_of("/none/", "none", &v, &err) && err.status == STATUS_FINISH, "no number: %s", err.text);
	ok(!value_of("/[/", "", &v, &err) && err.status == STATUS_USAGE, "no regular expression: %s", err.text);
	ok(!value_of("/x", "", &v, &err) && err.status == STATUS_USAGE, "no end: %s", err.text);
	ok(value_of(".a.b[1]", "{\"a\":{\"b\":[1,2.5]}}", &v, &err) && v == 2.5, "a JSON path");
	ok(!value_of(".a.b[7]", "{\"a\":{\"b\":[1,2.5]}}", &v, &err) && !value_of(".a[", "{\"a\":[1]}", &v, &err) && err.status == STATUS_FINISH, "that leads nowhere");
	ok(!value_of(".a", "not JSON", &v, &err) && err.status == STATUS_FINISH, "no JSON: %s", err.text);
	ok(!value_of(".a", "{\"a\":-1}", &v, &err) && !value_of(".a", "{\"a\":0}", &v, &err), "what has no logarithm: %s", err.text);
	ok(!value_of("speed", "", &v, &err) && err.status == STATUS_USAGE, "an unknown metric");
	ok(!value_of("p100:x", "", &v, &err) && !value_of("p99", "", &v, &err) && err.status == STATUS_USAGE, "no quantile: %s", err.text);
	char path[] = "/tmp/latencies-XXXXXX", text[60];
	int fd = mkstemp(path);
	for (int i = 1; i <= 400 && fd >= 0; i++)
		dprintf(fd, "%d\n", i);
	snprintf(text, sizeof(text), "p99:%s", path);
	ok(value_of(text, "", &v, &err) && v == 396, "the 99th of 400 latencies: %g", v);
	snprintf(text, sizeof(text), "p99.9:%s", path);
	ok(!value_of(text, "", &v, &err) && strstr(err.text, "needs 3688") != NULL, "p99.9 needs 3,688: %s", err.text);
	close(fd);
	unlink(path);
	struct metric m;
	ok(metric_parse(&m, "/x/", &err) && m.higher_is_better, "what is printed is better higher");
	metric_release(&m);
	ok(metric_parse(&m, "lower:/x/", &err) && !m.higher_is_better, "unless said");
	metric_release(&m);
	ok(metric_parse(&m, "wall", &err) && !m.higher_is_better, "times are better lower");
	metric_release(&m);
}

static void test_run(void)
{
	struct trial_run run;
	struct err err = { 0 };
	char *const words[] = { (char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c", (char *)(uintptr_t)"echo out; echo err >&2; sleep 0.2; exit 3", NULL };
	ok(trial_run(&run, words, &err) && run.status == 3, "a status");
	ok(strcmp(buf_text(&run.output), "out\n") == 0 && strcmp(buf_text(&run.errors), "err\n") == 0, "both outputs");
	ok(run.wall_s >= 0.2 && run.wall_s < 5 && run.cpu_s < run.wall_s, "times: %.3f s", run.wall_s);
	trial_run_release(&run);
	char *const killed[] = { (char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c", (char *)(uintptr_t)"kill -9 $$", NULL };
	ok(trial_run(&run, killed, &err) && run.status == 137, "a signal");
	trial_run_release(&run);
	char *const holder[] = { (char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c", (char *)(uintptr_t)"sleep 3 & echo done", NULL };
	ok(trial_run(&run, holder, &err) && run.wall_s < 2.5 && run.output.size == 5, "what stays behind with the pipe open is not waited for");
	trial_run_release(&run);
	char *const absent[] = { (char *)(uintptr_t)"/nonexistent/command", NULL };
	ok(!trial_run(&run, absent, &err) && err.status == STATUS_NOT_FOUND, "a command that is not there");
	trial_run_release(&run);
	char *const much[] = { (char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c", (char *)(uintptr_t)"head -c 300000 /dev/zero >&2; head -c 1000000 /dev/zero", NULL };
	ok(trial_run(&run, much, &err) && run.output.size == 1000000 && run.errors.size == TRIAL_ERRORS_MOST, "much output");
	trial_run_release(&run);
}

int main(void)
{
	test_formulas();
	test_words();
	test_no_effect();
	test_plan();
	test_metrics();
	test_run();
	return tap_done();
}
