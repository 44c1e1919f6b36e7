// Counting: self and total, inline frames, recursion, visits, blocks, keys; against a count by hand.
#include "tests/tap.h"

#include <time.h>

#include "report/tally.h"
#include "tests/synthetic.h"

static const struct tally_row none;

static const struct tally_row *row_named(const struct tally *t, const char *name)
{
	for (size_t i = 0; i < t->rows.count; i++)
		if (strcmp(profile_text(t->profile, t->entries.data[t->rows.data[i].entry].name), name) == 0)
			return &t->rows.data[i];
	return &none;
}

static struct report_options options_with(uint8_t *keys, size_t count)
{
	struct report_options o = report_defaults();
	o.keys.data = keys;
	o.keys.count = count;
	return o;
}

static void test_counts(void)
{
	struct profile p;
	syn_init(&p, 20);
	const char *inlined[] = { "inner", "outer" };
	uint32_t root = syn_function(&p, "main", "app"), f = syn_function(&p, "f", "app"), g = syn_function(&p, "g", "libg.so");
	uint32_t in = syn_frame(&p, inlined, 2, "app");
	uint32_t a = syn_stack(&p, root, f, PROFILE_NONE), rec = syn_stack(&p, root, f, f, f, PROFILE_NONE);
	uint32_t b = syn_stack(&p, root, g, PROFILE_NONE), c = syn_stack(&p, root, in, PROFILE_NONE);
	// thread 1: a a b a; thread 2, in between: b b c
	syn_sample(&p, 0.1, a, 1);
	syn_sample(&p, 0.2, b, 2);
	syn_sample(&p, 0.3, a, 1);
	syn_sample(&p, 1.5, b, 1);
	syn_sample(&p, 2.5, b, 2);
	syn_sample(&p, 3.5, rec, 1);
	syn_last(&p, end, UNWIND_TRUNCATED);
	syn_sample(&p, 19.9, c, 2);
	syn_last(&p, splice, 1);
	syn_sample(&p, 19.95, PROFILE_NONE, 0);
	syn_last(&p, is_idle, true);

	p.frames.data[root].via = VIA_CFI;
	p.frames.data[g].via = VIA_LEAF_RULE;
	p.frames.data[in].via = VIA_FP;
	uint8_t symbol[] = { KEY_SYMBOL };
	struct report_options options = options_with(symbol, 1);
	struct tally t;
	tally_build(&t, &p, 0, &options, p.meta.start_ns, p.meta.end_ns);
	is_u64(t.samples, 7, "samples");
	ok(t.stacks_guessed == 4 && t.stacks_by_via[VIA_LEAF_RULE] == 3 && t.stacks_by_via[VIA_FP] == 1 && t.stacks_by_via[VIA_CFI] == 7 &&
	   t.stacks_by_via[VIA_NONE] == 3, "stacks by how their frames were found, each once");
	is_u64(t.idle_samples, 1, "idle samples stand apart");
	is_u64(t.threads, 2, "threads");
	const struct tally_row *main_row = row_named(&t, "main"), *f_row = row_named(&t, "f"), *g_row = row_named(&t, "g");
	const struct tally_row *inner = row_named(&t, "inner"), *outer = row_named(&t, "outer");
	ok(main_row != &none && f_row != &none && g_row != &none && inner != &none && outer != &none && t.rows.count == 5, "five functions");
	ok(main_row->self.weight == 0 && main_row->total.weight == 7, "main: self 0, total 7");
	ok(f_row->self.weight == 3 && f_row->total.weight == 3, "f: a recursion counts once");
	ok(g_row->self.weight == 3 && g_row->total.weight == 3, "g: 3");
	ok(outer->self.weight == 1 && inner->self.weight == 0 && inner->total.weight == 1, "self is the function that has the code, the inlined one is on the stack");
	is_u64(f_row->self.runs, 2, "f: two visits, those of thread 2 in between do not count");
	is_u64(g_row->self.runs, 2, "g: one visit in each thread");
	is_u64(main_row->total.runs, 2, "main: one visit a thread");
	is_u64(f_row->self.runs + t.threads - f_row->self.starts - f_row->self.ends, 2, "outside f: once in thread 1, once in thread 2");
	is_u64(main_row->total.runs + t.threads - main_row->total.starts - main_row->total.ends, 0, "never outside main");
	ok(t.cut == 1 && f_row->cut == 1 && g_row->cut == 0, "an incomplete stack is counted with the rows it shows");
	is_u64(t.stacks_complete, 5, "complete");
	is_u64(t.stacks_truncated, 1, "truncated");
	is_u64(t.stacks_joined, 1, "joined");
	double self[TALLY_BLOCKS], total[TALLY_BLOCKS], sum = 0;
	tally_blocks(&t, f_row != &none ? (uint32_t)(f_row - t.rows.data) : 0, self, total);
	ok(self[0] == 2 && self[3] == 1 && total[3] == 1, "blocks of a twentieth of the time");
	for (size_t i = 0; i < TALLY_BLOCKS; i++)
		sum += t.n[i];
	ok(sum == 7 && t.n[19] == 1 && t.n[1] == 1, "samples by block");
	tally_release(&t);

	options.inlines = false;
	tally_build(&t, &p, 0, &options, p.meta.start_ns, p.meta.end_ns);
	ok(row_named(&t, "inner") == &none && row_named(&t, "outer")->self.weight == 1, "without inline frames the function that has the code");
	tally_release(&t);

	options.idle = true;
	tally_build(&t, &p, 0, &options, p.meta.start_ns, p.meta.end_ns);
	ok(t.samples == 8 && t.stacks_complete + t.stacks_joined + t.stacks_truncated + t.stacks_failed == 7, "idle samples among the rows: their stacks are still no part of those");
	tally_release(&t);
	options.idle = false;
	options.inlines = true;
	uint8_t many[] = { KEY_TID, KEY_SYMBOL };
	options.keys.data = many;
	options.keys.count = 2;
	tally_build(&t, &p, 0, &options, p.meta.start_ns, p.meta.end_ns);
	is_u64(t.rows.count, 2 + 1 + 2 + 2, "by thread: main twice, f, g twice, inner, outer");
	tally_release(&t);

	uint8_t comm[] = { KEY_COMM };
	options.keys.data = comm;
	options.keys.count = 1;
	tally_build(&t, &p, 0, &options, p.meta.start_ns, p.meta.end_ns);
	ok(t.rows.count == 1 && t.rows.data[0].self.weight == 7 && t.rows.data[0].total.weight == 7, "by comm: one row with everything");
	tally_release(&t);
	profile_release(&p);
}

static void test_weights(void)
{
	struct profile p;
	syn_init(&p, 1);
	p.events.data[0].is_clock = false;
	p.events.data[0].is_freq = true;
	uint32_t a = syn_stack(&p, syn_function(&p, "a", "app"), PROFILE_NONE), b = syn_stack(&p, syn_function(&p, "b", "app"), PROFILE_NONE);
	for (int i = 0; i < 10; i++) {
		syn_sample(&p, i * 0.001, a, 1);
		syn_last(&p, weight, i < 3 ? 1 : 1000);
	}
	// A frequency begins with periods of a few events, and a part of the program that has few of them has short ones: neither is left out.
	uint32_t early = syn_stack(&p, syn_function(&p, "early", "app"), PROFILE_NONE), slow = syn_stack(&p, syn_function(&p, "slow", "app"), PROFILE_NONE);
	syn_sample(&p, 0.01, early, 1);
	syn_last(&p, weight, 7);
	syn_sample(&p, 0.5, b, 1);
	syn_last(&p, weight, 3000);
	for (int i = 0; i < 9; i++) {
		syn_sample(&p, 0.6 + i * 0.001, slow, 1);
		syn_last(&p, weight, 100);
	}
	uint8_t symbol[] = { KEY_SYMBOL };
	struct report_options options = options_with(symbol, 1);
	struct tally t;
	tally_build(&t, &p, 0, &options, p.meta.start_ns, p.meta.end_ns);
	ok(t.is_weighted, "periods that differ are weights");
	ok(t.weight == 10910 && row_named(&t, "a")->self.weight == 7003 && row_named(&t, "b")->self.weight == 3000, "shares by weight");
	ok(row_named(&t, "early")->self.weight == 7 && row_named(&t, "slow")->self.weight == 900, "the first samples and those of short periods among them");
	tally_release(&t);
	profile_release(&p);
}

// Before a counter of moves can be full, all are settled: to and fro between two sets, as often before as after.
static void test_full_counters(struct tally *t)
{
	const struct tally_move moves[] = { { 0, 1 }, { 1, 0 } };
	uint64_t before = 0, once = 0, twice = 0;
	for (size_t i = 0; i < t->rows.count; i++)
		before += (i + 1) * t->rows.data[i].total.runs;
	tally_count_moves(t, moves, 2);
	tally_settle_moves(t);
	for (size_t i = 0; i < t->rows.count; i++)
		once += (i + 1) * t->rows.data[i].total.runs;
	tally_count_moves(t, moves, 2);
	t->unsettled = UINT32_MAX - 1;
	tally_count_moves(t, moves, 2);
	ok(t->unsettled == 2, "full counters are settled");
	tally_settle_moves(t);
	for (size_t i = 0; i < t->rows.count; i++)
		twice += (i + 1) * t->rows.data[i].total.runs;
	ok(once > before && twice - once == 2 * (once - before), "and none of the moves is lost");
}

// A naive count of many random stacks.
static void test_random(void)
{
	enum { FUNCTIONS = 30, SAMPLES = 20000, THREADS = 5 };
	struct profile p;
	syn_init(&p, 40);
	uint32_t frames[FUNCTIONS];
	for (int i = 0; i < FUNCTIONS; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%d", i);
		frames[i] = syn_function(&p, name, "app");
	}
	uint64_t state = 99, self[FUNCTIONS] = { 0 }, total[FUNCTIONS] = { 0 }, runs[FUNCTIONS] = { 0 }, self_runs[FUNCTIONS] = { 0 };
	bool before[THREADS][FUNCTIONS] = { { 0 } };
	int leaf_before[THREADS] = { -1, -1, -1, -1, -1 };
	for (int s = 0; s < SAMPLES; s++) {
		bool on[FUNCTIONS] = { 0 };
		uint32_t node = PROFILE_NONE;
		int leaf = -1, thread;
		state = state * 6364136223846793005u + 1442695040888963407u;
		thread = (int)(state >> 60) % THREADS;
		int deepest = (state >> 40) % 4 != 0 ? 4 : 1 + (int)((state >> 42) % 24); // some have much that the one before has not, and recursion
		for (int depth = 0; depth < deepest; depth++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			leaf = (int)((state >> 33) % (depth < 3 ? 6 : FUNCTIONS));
			on[leaf] = true;
			node = profile_add_node(&p, node, frames[leaf]);
		}
		syn_sample(&p, s * 0.002, node, thread + 1);
		self[leaf]++;
		self_runs[leaf] += leaf_before[thread] != leaf;
		leaf_before[thread] = leaf;
		for (int i = 0; i < FUNCTIONS; i++) {
			total[i] += on[i];
			runs[i] += on[i] && !before[thread][i];
			before[thread][i] = on[i];
		}
	}
	uint8_t symbol[] = { KEY_SYMBOL };
	struct report_options options = options_with(symbol, 1);
	struct tally t;
	tally_build(&t, &p, 0, &options, p.meta.start_ns, p.meta.end_ns);
	int wrong = 0;
	for (int i = 0; i < FUNCTIONS; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%d", i);
		const struct tally_row *row = row_named(&t, name);
		wrong += row == &none || row->self.weight != (double)self[i] || row->total.weight != (double)total[i] || row->total.runs != runs[i]
			|| row->self.runs != self_runs[i] || row->samples != self[i];
	}
	is_u64((unsigned)wrong, 0, "30 functions, 20,000 random stacks, 5 threads: every count as by hand");
	test_full_counters(&t);
	tally_release(&t);
	profile_release(&p);
}

int main(void)
{
	test_counts();
	test_weights();
	test_random();
	return tap_done();
}
