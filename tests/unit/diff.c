// Two sides of recordings: names of two builds, the whole first, ratios and q, what is no discovery, the gate, what cannot be compared.
#include "tests/tap.h"

#include "export/diff.h"
#include "report/diff.h"
#include "report/estimate_more.h"
#include "tests/json_schema.h"
#include "tests/synthetic.h"

static uint64_t random_state = 99;
static double uniform(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static void test_names(void)
{
	static const char *const names[][2] = { { "f.cold", "f" }, { "f.part.0", "f" }, { "f.constprop.3.cold", "f" }, { "f.isra.0", "f" },
		{ "f.llvm.123456789", "f" }, { "f.lto_priv.0", "f" }, { "memcpy@@GLIBC_2.14", "memcpy" }, { "memcpy@GLIBC_2.2.5", "memcpy" },
		{ "ns::g(int) [clone .isra.0]", "ns::g(int)" }, { "main.func1", "main.func1" }, { "runtime.main.2", "runtime.main.2" }, { "f.coldest", "f.coldest" },
		{ "_GLOBAL__sub_I_a.cpp", "_GLOBAL__sub_I_a.cpp" }, { ".cold", ".cold" }, { "a@b", "a@b" }, { "", "" } };
	char out[64];
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		digest_base_name(names[i][0], out, sizeof(out));
		ok(strcmp(out, names[i][1]) == 0, "name %zu of any build: %s", i, out);
	}
	is_u64(digest_base_name("abcdefgh", out, 4), 3, "what does not fit is cut");
	digest_base_dso("libz.so.1.2.13", out, sizeof(out));
	is_str(out, "libz.so", "a library of any version");
	digest_base_dso("some.software", out, sizeof(out));
	is_str(out, "some.software", "others as they are");
}

// A recording whose rows are `shares` of n samples, design effect `deff`.
static struct digest made(const char *const *names, const double *shares, size_t count, double n, double deff, double cpu)
{
	struct digest d = { .path = "a", .event = "cpu-clock", .arch = "x86_64", .kernel = "6.1", .cpu = "c", .host = "h", .is_clock = true, .period = 1295295,
		.n = n, .amount = cpu, .seconds = 30, .start_wall_ns = 1000 };
	for (size_t i = 0; i < count; i++)
		if (shares[i] > 0)
			vec_push(&d.rows, (struct digest_row){ .name = names[i], .dso = "app", .k = shares[i] * n, .deff = deff, .blocks = 20, .visits = 1000,
			         .visits_outside = 1000, .is_known = true });
	for (size_t j = 0; j < DIGEST_BLOCKS; j++)
		d.block_n[j] = n / DIGEST_BLOCKS + (j % 2 == 0 ? 5 : -5);
	return d;
}

static const struct diff_options plain = { .confidence = 0.95, .fdr = 0.05 };

static const struct diff_row *find(const struct diff *diff, const char *name)
{
	for (size_t i = 0; i < diff->rows.count; i++)
		if (strcmp(diff->rows.data[i].name, name) == 0)
			return &diff->rows.data[i];
	return NULL;
}

static bool says(const struct diff *diff, const char *caveat)
{
	for (size_t i = 0; i < diff->caveats.count; i++)
		if (strstr(diff->caveats.data[i], caveat) != NULL)
			return true;
	return false;
}

static void test_one_run(void)
{
	static const char *const names[] = { "a", "b", "gone", "few" };
	static const double old_shares[] = { 0.4, 0.5, 0.09, 0.01 }, new_shares[] = { 0.3, 0.69, 0, 0.01 };
	struct digest base = made(names, old_shares, 4, 10000, 3, 13), new_ = made(names, new_shares, 4, 10000, 3, 12);
	const struct digest *sides[2] = { &base, &new_ };
	struct diff_options options = plain;
	options.units[0] = 1000;
	options.units[1] = 800;
	struct diff diff;
	struct err err = { 0 };
	ok(diff_build(&diff, &sides[0], 1, &sides[1], 1, &options, &err), "one run a side");
	ok(diff.metric == METRIC_UNIT && diff.is_within, "per unit of work, within runs");
	is_close(diff.total.value[0], 0.013, 1e-12, "the whole: 13 ms a unit");
	is_close(diff.total.ratio, 0.015 / 0.013, 1e-12, "and 15 after");
	// Blocks alternate by +-5 around 500: V = 20 / 19 * 20 * 25 / 10000^2 a side.
	double se = sqrt(2 * 20.0 / 19 * 20 * 25 / 1e8), t38 = student_quantile(0.975, 38);
	is_close(diff.total.ci.lo, exp(log(15.0 / 13) - t38 * se), 1e-9, "its interval from how blocks vary");
	is_close(diff.total.detectable, expm1((t38 + 0.8416212335729143) * se), 1e-9, "and the change that would have shown");
	const struct diff_row *a = find(&diff, "a"), *gone = find(&diff, "gone");
	is_close(a->ratio, 0.3 * 12 / 800 / (0.4 * 13 / 1000), 1e-12, "ratio of times");
	double row_se = sqrt(3 * 0.6 / (10000 * 0.4) + 3 * 0.7 / (10000 * 0.3));
	is_close(a->ratio_ci.hi, exp(log(a->ratio) + t38 * row_se), 1e-9, "its interval: SE^2 = sum of deff (1 - p) / (n p)");
	struct interval score = newcombe(1000, 10000 / 3.0, 4000 / 3.0, 10000 / 3.0, 0.95);
	ok(fabs(a->difference_ci.lo - score.lo) < 1e-12 && fabs(a->difference_ci.hi - score.hi) < 1e-12, "shares: Newcombe on effective counts");
	ok(a->q < 1e-3 && a->state == DIFF_WITHIN && diff.found == 0, "however small q: one run a side is no discovery");
	ok(!gone->has_ratio && strcmp(gone->note, "gone") == 0 && gone->q < 0.05, "a function that is gone has no ratio");
	ok(says(&diff, "one run a side: run-to-run differences not measured"), "and why is said");
	struct gate_result gate;
	ok(diff_gate(&diff, 0.05, NULL, &gate, &err) && gate.gate == GATE_INCONCLUSIVE, "the gate cannot be decided");
	ok(!diff_gate(&diff, 0.05, "absent", &gate, &err) && err.status == STATUS_USAGE, "nor for a function that is not there");
	struct diff_output output = { .diff = &diff, .base = "old", .new_ = "new", .columns = 80 };
	struct buf out = { 0 };
	diff_text(&output, &out);
	ok(strncmp(buf_text(&out), "total  13.00 -> 15.00 CPU ms/unit  +15.4% [", 42) == 0, "the first line is the whole");
	ok(strstr(buf_text(&out), "too few samples") == NULL && strstr(buf_text(&out), "no row is a discovery") != NULL, "the last line says what q is");
	diff_release(&diff);

	options.units[0] = options.units[1] = 0;
	base.rows.data[0].visits = 5;
	ok(diff_build(&diff, &sides[0], 1, &sides[1], 1, &options, &err) && diff.metric == METRIC_SECOND, "without units: per second");
	is_u64(find(&diff, "a")->state, DIFF_FEW, "a row with too few visits is no discovery");
	is_u64(find(&diff, "few")->state, DIFF_OPEN, "what did not change is not distinguishable");
	diff_release(&diff);
	base.amount = 0;
	ok(diff_build(&diff, &sides[0], 1, &sides[1], 1, &options, &err) && diff.metric == METRIC_SHARE && !diff.total.has, "without amounts: shares");
	diff_release(&diff);
	base.amount = 13;
	base.rows.data[0].visits = 1000;
	base.missing = new_.missing = 2000;
	ok(diff_build(&diff, &sides[0], 1, &sides[1], 1, &options, &err), "with loss");
	is_u64(find(&diff, "a")->state, DIFF_LOSS, "a sign that loss could turn is not robust to loss");
	ok(find(&diff, "few")->state == DIFF_OPEN && diff.fragile >= 1 && says(&diff, "base misses 16.7% of its samples"), "and counted");
	diff_release(&diff);
	buf_release(&out);
	vec_release(&base.rows);
	vec_release(&new_.rows);
}

// Shares vary from run to run by `spread` (relative), `a` is `factor` times as slow on the new side.
static struct diff several(size_t runs, double spread, double factor, const struct diff_options *options)
{
	static const char *const names[] = { "a", "b", "c", "d", "e" };
	struct digest digests[20];
	const struct digest *pointers[20];
	for (size_t r = 0; r < 2 * runs; r++) {
		double times[5], sum = 0;
		for (size_t i = 0; i < 5; i++) {
			double z = normal_quantile(uniform());
			times[i] = (i == 0 ? 4 * (r >= runs ? factor : 1) : 2) * exp(spread * z);
			sum += times[i];
		}
		for (size_t i = 0; i < 5; i++)
			times[i] /= sum;
		digests[r] = made(names, times, 5, 5000 * sum, 1, sum);
		digests[r].start_wall_ns = 1000 + (r % runs) * 10 + (r >= runs);
		pointers[r] = &digests[r];
	}
	struct diff diff;
	struct err err = { 0 };
	if (!diff_build(&diff, pointers, runs, pointers + runs, runs, options, &err))
		ok(false, "diff_build: %s", err.text);
	for (size_t r = 0; r < 2 * runs; r++)
		vec_release(&digests[r].rows);
	return diff;
}

static void test_runs(void)
{
	struct diff_options options = plain;
	options.units[0] = options.units[1] = 100;
	int any = 0, found = 0, others = 0;
	for (int i = 0; i < 100; i++) {
		struct diff diff = several(5, 0.05, 1, &options);
		any += diff.found > 0;
		diff_release(&diff);
		diff = several(5, 0.05, 1.3, &options);
		found += find(&diff, "a")->state == DIFF_FOUND;
		others += (int)diff.found - (find(&diff, "a")->state == DIFF_FOUND);
		diff_release(&diff);
	}
	ok(any <= 12, "no change: a discovery in %d of 100 comparisons", any); // 5 % nominal: more than 12 has probability 0.001
	ok(found >= 95 && others <= 25, "30 %% slower by runs that vary by 5 %%: found in %d of 100, %d others", found, others);

	struct diff diff = several(3, 0.01, 1.3, &options);
	ok(!diff.is_within && !says(&diff, "one run") && !says(&diff, "not alternated"), "three runs a side in turn: no caveat");
	struct err err = { 0 };
	struct gate_result gate;
	ok(diff_gate(&diff, 0.05, "a", &gate, &err) && gate.gate == GATE_FAILS, "the gate: %s", gate.text);
	ok(diff_gate(&diff, 0.60, "a", &gate, &err) && gate.gate == GATE_PASSES, "the gate: %s", gate.text);
	ok(diff_gate(&diff, diff.rows.data[0].ratio - 1, "a", &gate, &err) && gate.gate == GATE_INCONCLUSIVE, "the gate: %s", gate.text);
	struct diff_output output = { .diff = &diff, .base = "old", .new_ = "n|w", .columns = 80, .gate = &gate };
	struct buf out = { 0 };
	struct schema_check check = { 0 };
	diff_json(&output, &out);
	is_str(schema_validate("schema/perfsample-diff-1.json", buf_text(&out), &check), "", "JSON as its schema says");
	buf_clear(&out);
	diff_markdown(&output, &out);
	ok(strstr(buf_text(&out), "| a | ") != NULL && strstr(buf_text(&out), "**differs**") != NULL, "markdown");
	buf_release(&out);
	diff_release(&diff);
}

static void test_refusals(void)
{
	static const char *const names[] = { "a" };
	static const double shares[] = { 1 };
	struct digest base = made(names, shares, 1, 1000, 1, 1), other = made(names, shares, 1, 1000, 1, 1);
	const struct digest *sides[2] = { &base, &other };
	struct diff diff;
	struct err err = { 0 };
#define REFUSES(member, value, words) do { \
	struct digest saved = other; \
	other.member = (value); \
	bool built = diff_build(&diff, &sides[0], 1, &sides[1], 1, &plain, &err); \
	ok(!built && err.status == STATUS_INPUT && strstr(err.text, words) != NULL, "refused: %s", err.text); \
	diff_release(&diff); \
	other = saved; } while (0)
	REFUSES(event, "cycles", "cpu-clock and cycles");
	REFUSES(period, 1000000, "1295295 and every 1000000");
	REFUSES(excludes_kernel, true, "leaves out");
	REFUSES(arch, "aarch64", "x86_64 and aarch64");
	other.kernel = "6.18";
	other.cpu = "d";
	ok(diff_build(&diff, &sides[0], 1, &sides[1], 1, &plain, &err) && says(&diff, "different kernels: 6.1 and 6.18") && says(&diff, "different CPU models"),
	   "another kernel or CPU is a caveat");
	diff_release(&diff);
	vec_release(&base.rows);
	vec_release(&other.rows);
}

// A function with code of its own before, inlined after; and a binary that was renamed.
static void test_builds(void)
{
	struct profile p[2];
	struct digest d[2];
	struct err err = { 0 };
	static const struct digest_options options = { .confidence = 0.95 };
	for (int side = 0; side < 2; side++) {
		syn_init(&p[side], 10);
		static const char *const inlined[] = { "helper", "caller.constprop.0" };
		uint32_t own = syn_function(&p[side], "helper", "app"), caller = syn_function(&p[side], "caller", "app");
		uint32_t in = syn_frame(&p[side], inlined, 2, "app");
		uint32_t moved = syn_stack(&p[side], syn_function(&p[side], "moved.isra.0", side == 0 ? "tool-1" : "tool-2"), PROFILE_NONE);
		uint32_t stacks[3] = { side == 0 ? syn_stack(&p[side], caller, own, PROFILE_NONE) : syn_stack(&p[side], in, PROFILE_NONE),
			syn_stack(&p[side], caller, PROFILE_NONE), moved };
		for (int i = 0; i < 3000; i++)
			syn_sample(&p[side], i / 300.0, stacks[(int)(uniform() * 3)], 1);
		syn_account(&p[side], 0, 0);
		ok(digest_build(&d[side], &p[side], side == 0 ? "old" : "new", &options, &err), "a digest of build %d", side);
	}
	const struct digest *sides[2] = { &d[0], &d[1] };
	struct diff diff;
	ok(diff_build(&diff, &sides[0], 1, &sides[1], 1, &plain, &err), "two builds");
	is_u64(diff.rows.count, 3, "three functions, each once");
	is_str(find(&diff, "helper")->note, "gone (inlined into caller)", "where a function went is said");
	ok(find(&diff, "caller")->k[1] > 1900, "and what has its code now");
	ok(find(&diff, "moved")->k[0] > 800 && find(&diff, "moved")->k[1] > 800, "a renamed binary's functions are the same ones");
	diff_release(&diff);
	ok(diff_build(&diff, &sides[1], 1, &sides[0], 1, &plain, &err), "the other way round");
	is_str(find(&diff, "helper")->note, "new (inlined into caller before)", "a new one too");
	diff_release(&diff);
	static const struct digest_options absent = { .confidence = 0.95, .event = "cycles" };
	struct digest none;
	ok(!digest_build(&none, &p[0], "old", &absent, &err) && err.status == STATUS_USAGE, "an event that is not there");
	digest_release(&none);
	for (int side = 0; side < 2; side++) {
		digest_release(&d[side]);
		profile_release(&p[side]);
	}
	struct profile empty;
	syn_init(&empty, 1);
	ok(!digest_build(&none, &empty, "empty", &options, &err) && err.status == STATUS_INPUT, "a recording without samples");
	digest_release(&none);
	profile_release(&empty);
}

int main(void)
{
	test_names();
	test_one_run();
	test_runs();
	test_refusals();
	test_builds();
	return tap_done();
}
