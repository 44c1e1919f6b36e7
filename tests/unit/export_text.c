// The text report, byte for byte against tests/golden/ (PERFSAMPLE_GOLDEN=write writes them anew), and the words that are promised.
#include "tests/tap.h"

#include "export/exporter.h"
#include "export/text.h"
#include "tests/synthetic.h"

static uint64_t random_state = 4242;
static double uniform(void)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

struct share { const char *name, *dso; double share; };

// `count` samples of 18 threads, drawn by the shares; what they leave goes to `rest` functions alike.
static void draw(struct profile *p, const struct share *shares, size_t count, size_t rest, size_t samples, double seconds)
{
	uint32_t root = syn_function(p, "_start", "postgres"), stacks[400];
	double sum = 0, cumulated[400];
	size_t n = 0;
	for (; n < count; n++) {
		stacks[n] = syn_stack(p, root, syn_function(p, shares[n].name, shares[n].dso), PROFILE_NONE);
		cumulated[n] = sum += shares[n].share;
	}
	double left = 1 - sum;
	for (size_t i = 0; i < rest && n < 400; i++, n++) {
		char name[32];
		snprintf(name, sizeof(name), "other_%03zu", i);
		stacks[n] = syn_stack(p, root, syn_function(p, name, i % 5 == 0 ? "[kernel]" : "postgres"), PROFILE_NONE);
		cumulated[n] = sum += left / (double)rest;
	}
	for (size_t i = 0; i < samples; i++) {
		double u = uniform();
		size_t at = 0;
		while (at + 1 < n && cumulated[at] < u)
			at++;
		syn_sample(p, seconds * (double)i / (double)samples, stacks[at], 4242 + (int32_t)(i % 18));
	}
}

static void set_meta(struct profile *p, const char *comm, const char *host, uint64_t wall_ns, uint32_t threads)
{
	p->meta.target_kind = intern_string(&p->names, "pid");
	p->meta.target_comm = intern_string(&p->names, comm);
	p->meta.host = intern_string(&p->names, host);
	p->meta.start_wall_ns = wall_ns;
	p->meta.target_threads = threads;
	p->meta.cpus_online = 64;
	vec_push(&p->meta.target_ids, 4242);
}

static char *text_of(const struct profile *p, struct report_options options, struct export_input input)
{
	struct report report;
	struct err err = { 0 };
	struct buf out = { 0 };
	bool good = report_build(&report, p, &options, &err);
	input.profile = p;
	input.report = &report;
	good = good && exporter_find("text")->write(&input, &out, &err);
	if (!good)
		diag("%s", err.text);
	report_release(&report);
	return good ? buf_detach(&out) : NULL;
}

static void is_golden(const char *name, const char *got)
{
	char path[300], wanted[65536];
	snprintf(path, sizeof(path), "tests/golden/%s", name);
	const char *mode = getenv("PERFSAMPLE_GOLDEN");
	if (mode != NULL && strcmp(mode, "write") == 0) {
		FILE *f = fopen(path, "wb");
		ok(f != NULL && fwrite(got, 1, strlen(got), f) == strlen(got) && fclose(f) == 0, "%s written", path);
		return;
	}
	FILE *f = fopen(path, "rb");
	size_t size = f != NULL ? fread(wanted, 1, sizeof(wanted) - 1, f) : 0;
	if (f != NULL)
		fclose(f);
	wanted[size] = '\0';
	if (ok(got != NULL && strcmp(got, wanted) == 0, "%s, byte for byte", path))
		return;
	size_t at = 0;
	while (got != NULL && got[at] != '\0' && got[at] == wanted[at])
		at++;
	diag("differs at byte %zu: got '%.60s', wanted '%.60s'", at, got != NULL ? got + at : "", wanted + at);
}

static size_t widest_line(const char *text)
{
	size_t widest = 0;
	for (const char *line = text; *line != '\0';) {
		size_t length = strcspn(line, "\n"), columns = 0;
		for (size_t i = 0; i < length; i++)
			columns += ((unsigned char)line[i] & 0xc0) != 0x80;
		widest = columns > widest ? columns : widest;
		line += length + (line[length] == '\n');
	}
	return widest;
}

static void test_clean(void)
{
	static const struct share shares[] = { { "_bt_compare", "postgres", 0.119 }, { "hash_search_with_hash_value", "postgres", 0.073 },
		{ "LWLockAttemptLock", "postgres", 0.046 }, { "heap_hot_search_buffer_with_a_name_that_is_long_enough_to_be_cut", "postgres", 0.046 },
		{ "copy_user_generic", "[kernel]", 0.03 }, { "AllocSetAlloc", "postgres", 0.03 }, { "memcpy", "libc.so.6", 0.0295 } };
	struct profile p;
	syn_init(&p, 30);
	set_meta(&p, "postgres", "db-3", 1795960931000000000u, 18);
	draw(&p, shares, 7, 120, 60150, 30);
	p.events.data[0].recorder_cpu_ns = 180000000;
	for (size_t i = 0; i < p.samples.count; i += 125)
		syn_set(&p, i, end, UNWIND_TRUNCATED);
	for (uint64_t i = 0; i < 20; i++) // two a stretch: no burst
		vec_push(&p.losses, (struct profile_loss){ p.meta.start_ns + i * 1500000000u, p.meta.start_ns + (i + 1) * 1500000000u, 2, 0, 0, false });
	syn_account(&p, 40, 28);
	char *text = text_of(&p, report_defaults(), (struct export_input){ .rows = 10 });
	is_golden("report-clean.txt", text);
	ok(strstr(text, "postgres[4242], 18 threads, on db-3, 2026-11-29 14:02:11Z, 30.0 s\nverdict   sound. Ranks 1 and 2 are certain; 3-4 may swap, ") == text,
	   "the first lines are those of the manual");
	ok(strstr(text, "\nCPU used  78.0 s = 2.6 CPUs busy; user ") != NULL, "CPU");
	ok(strstr(text, "\nsamples   60,150, one per 1.295 ms of CPU time; missing 68 (0.11%), no burst\n") != NULL, "samples");
	ok(strstr(text, "\nstacks    99.1% complete, so a total is at most 0.9 points too low\n") != NULL, "stacks");
	ok(strstr(text, "\nprofiler  used 0.6% of one CPU; what it cost the program was not measured\n") != NULL, "profiler");
	ok(strstr(text, "\n rank  self %      range  total %  function\n    1    ") != NULL, "the table's head");
	ok(strstr(text, "Callers: -g caller\n") != NULL, "what to do next");
	ok(widest_line(text) <= 80, "no line is wider than 80 columns: %zu", widest_line(text));
	free(text);
	struct report_options options = report_defaults();
	options.children = true;
	text = text_of(&p, options, (struct export_input){ .rows = 4 });
	is_golden("report-children.txt", text);
	free(text);
	text = text_of(&p, report_defaults(), (struct export_input){ .rows = 6, .wide = true });
	is_golden("report-wide.txt", text);
	free(text);
	options = report_defaults();
	options.calls = CALLS_CALLER;
	text = text_of(&p, options, (struct export_input){ .rows = 2 });
	ok(strstr(text, "_start\n") != NULL, "callers stand below their row");
	free(text);
	text = text_of(&p, report_defaults(), (struct export_input){ .explain = "_bt_compare" });
	is_golden("report-explain.txt", text);
	free(text);
	ok(text_of(&p, report_defaults(), (struct export_input){ .explain = "absent" }) == NULL, "a function that is not there is refused");
	text = text_of(&p, report_defaults(), (struct export_input){ .fields = "self,samples", .rows = 2 });
	ok(strstr(text, "  self     samples  function\n") == text, "-F: these columns alone");
	free(text);
	ok(text_of(&p, report_defaults(), (struct export_input){ .fields = "self,sampels" }) == NULL, "and no others");
	profile_release(&p);
}

static void test_bad(void)
{
	struct profile p;
	syn_init(&p, 30);
	set_meta(&p, "app", "batch-2", 1795921900000000000u, 6);
	uint32_t root = syn_function(&p, "main", "app");
	uint32_t parse = syn_stack(&p, root, syn_function(&p, "parse_block", "app"), PROFILE_NONE);
	uint32_t sort = syn_stack(&p, root, syn_function(&p, "sort_rows", "app"), PROFILE_NONE);
	uint32_t crc = syn_stack(&p, root, syn_function(&p, "crc32c", "libz.so.1"), PROFILE_NONE);
	uint32_t copy = syn_stack(&p, root, syn_function(&p, "memmove", "libc.so.6"), PROFILE_NONE);
	for (size_t i = 0; i < 43090; i++) { // phases of seconds, three of them; nothing from +14 to +16
		double at = 28 * (double)i / 43090;
		at += at >= 14 ? 2 : 0;
		double u = uniform();
		uint32_t stack = at < 8 ? parse : at < 13 ? sort : at < 18 ? parse : at < 20 ? crc : at < 22 ? sort : at < 23 ? copy : parse;
		syn_sample(&p, at, stack, 4242 + (int32_t)(i % 6));
		if (u < 0.12)
			syn_last(&p, end, UNWIND_TRUNCATED);
	}
	vec_push(&p.losses, (struct profile_loss){ p.meta.start_ns + 14010000000u, p.meta.start_ns + 15990000000u, 1333, 0, 0, false });
	p.events.data[0].recorder_cpu_ns = 330000000;
	p.meta.stack_bytes = 65528;
	syn_account(&p, 1333, 46);
	char *text = text_of(&p, report_defaults(), (struct export_input){ .rows = 20 });
	is_golden("report-bad.txt", text);
	ok(strstr(text, "\nverdict   CARE. ") != NULL, "CARE");
	ok(strstr(text, "; LOST 1,333 (3.0%), +14 to +16 s\n") != NULL, "the loss and where it lies");
	ok(strstr(text, "% TRUNCATED (over 64 KB deep): a total is \"at least\"\n") != NULL, "truncated stacks");
	ok(strstr(text, "\nrange     self % in these 30 s, whatever the lost or missing samples were\n~         phases too long (") != NULL, "the range is this run's");
	ok(strstr(text, "~     >=") != NULL, "totals are at least");
	ok(strstr(text, "\nnext      without the gap: report --time +0,+14. Better: record ") != NULL, "what to do next");
	ok(widest_line(text) <= 80, "no line is wider than 80 columns: %zu", widest_line(text));
	free(text);
	// As advised: without the gap nothing is lost.
	struct report_options options = report_defaults();
	options.filter.from_ns = p.meta.start_ns;
	options.filter.to_ns = p.meta.start_ns + 14000000000u;
	text = text_of(&p, options, (struct export_input){ .rows = 20 });
	ok(strstr(text, "; none lost\n") != NULL && strstr(text, " chosen of 43,090") != NULL, "--time +0,+14 leaves the loss out");
	free(text);
	profile_release(&p);
}

static void test_refusals(void)
{
	static const struct share shares[] = { { "a", "app", 0.6 }, { "b", "app", 0.4 } };
	struct profile p;
	syn_init(&p, 1);
	draw(&p, shares, 2, 0, 60, 1);
	syn_account(&p, 0, 0);
	char *text = text_of(&p, report_defaults(), (struct export_input){ 0 });
	ok(strstr(text, "verdict   NO RANKING: 60 samples, fewer than 100: run only\n") != NULL, "fewer than 100 samples: run only");
	ok(strstr(text, "\n    -  ") != NULL, "and no ranks");
	free(text);
	syn_account(&p, 40, 0);
	text = text_of(&p, report_defaults(), (struct export_input){ 0 });
	ok(strstr(text, "verdict   NO RANKING: loss 40.0%") != NULL, "no ranking: loss");
	free(text);
	p.events.data[0].can_expect = false;
	syn_account(&p, 0, 0);
	text = text_of(&p, report_defaults(), (struct export_input){ 0 });
	ok(strstr(text, "silent not measurable") != NULL, "silent not measurable");
	free(text);
	p.meta.cut_off = true;
	text = text_of(&p, report_defaults(), (struct export_input){ 0 });
	ok(strstr(text, "\nnote      recording was cut off\n") != NULL, "a recording that was cut off is said to be");
	free(text);
	p.events.data[0].period = 1000000;
	text = text_of(&p, report_defaults(), (struct export_input){ 0 });
	ok(strstr(text, "\naliasing  period near a simple multiple of 1 ms: locked loops are mis-measured\n") != NULL, "a resonant period is said");
	free(text);
	samples_truncate(&p.samples, 0);
	text = text_of(&p, report_defaults(), (struct export_input){ 0 });
	ok(strstr(text, "NO RANKING: no samples") != NULL, "no samples");
	free(text);
	profile_release(&p);
}

static bool says(const struct profile *p, struct report_options options, struct export_input input, const char *words)
{
	char *text = text_of(p, options, input);
	bool found = text != NULL && strstr(text, words) != NULL;
	if (!found)
		diag("no '%s' in: %s", words, text != NULL ? text : "(nothing)");
	free(text);
	return found;
}

// The words of a refusal are fixed: scripts look for them.
static void test_refusal_words(void)
{
	static const struct share shares[] = { { "a", "app", 0.6 }, { "b", "app", 0.4 } };
	struct report_options options = report_defaults();
	struct export_input wide = { .wide = true }, narrow = { 0 };
	struct profile p;
	syn_init(&p, 1);
	draw(&p, shares, 2, 0, 60, 1);
	syn_account(&p, 0, 0);
	ok(says(&p, options, wide, "run only") && says(&p, options, narrow, "run only") && says(&p, options, (struct export_input){ .explain = "a" }, "run only"),
	   "run only, in either layout and explained");
	syn_account(&p, 40, 0);
	ok(says(&p, options, wide, "NO RANKING: loss 40.0%"), "no ranking: loss x %%");
	struct report r;
	ok(report_build(&r, &p, &options, NULL), "built");
	bool said = false;
	for (size_t i = 0; i < r.events.data[0].caveats.count; i++)
		said |= strcmp(r.events.data[0].caveats.data[i].text, "no ranking: loss 40.0%") == 0;
	ok(said, "and so says the caveat");
	report_release(&r);
	profile_release(&p);

	syn_init(&p, 20); // b in five stretches; c grows
	uint32_t a = syn_stack(&p, syn_function(&p, "a", "app"), PROFILE_NONE), b = syn_stack(&p, syn_function(&p, "b", "app"), PROFILE_NONE);
	uint32_t c = syn_stack(&p, syn_function(&p, "c", "app"), PROFILE_NONE);
	for (int i = 0; i < 10000; i++)
		syn_sample(&p, i * 0.002, fmod(i * 0.002, 4) > 3.5 ? b : uniform() < i * 0.002 / 40 ? c : a, 1);
	syn_account(&p, 0, 0);
	ok(says(&p, options, wide, "~ too few visits (5): record longer or repeat runs") && says(&p, options, narrow, "too few visits (5)"), "too few visits (v)");
	ok(says(&p, options, wide, "^ share drifts during the recording: the true range is wider") && says(&p, options, narrow, "share drifts"), "share drifts");
	options.simultaneous = true;
	ok(says(&p, options, wide, "all 3 intervals hold together, 95%") && says(&p, options, narrow, "for all 3 functions at once"), "--simultaneous says what it is");
	options.simultaneous = false;
	profile_release(&p);

	syn_init(&p, 60); // samples are lost while d runs
	uint32_t d = syn_stack(&p, syn_function(&p, "d", "app"), PROFILE_NONE), rest = syn_stack(&p, syn_function(&p, "rest", "app"), PROFILE_NONE);
	for (int i = 0; i < 30000; i++)
		syn_sample(&p, i * 0.002, fmod(i * 0.002, 4) >= 3.25 && fmod(i * 0.002, 4) < 3.75 && uniform() < 0.5 ? d : rest, 1);
	for (uint64_t w = 0; w < 15; w++)
		vec_push(&p.losses, (struct profile_loss){ p.meta.start_ns + w * 4000000000u + 3300000000u, p.meta.start_ns + w * 4000000000u + 3500000000u, 8, 0, 0, false });
	syn_account(&p, 120, 0);
	ok(says(&p, options, wide, "* loss tied to this row: worst case shown") && says(&p, options, wide, "; tied to: d (q = ")
	   && says(&p, options, narrow, "loss is tied to d: naive share biased, use worst case"), "loss tied to a row");
	ok(says(&p, options, (struct export_input){ .explain = "d" }, "loss is tied to this row (q = "), "and explained");
	profile_release(&p);
}

// None lost, but some never came: what is not known of these is not called lost, in either layout, and counts for functions that are not listed too.
static void test_silence(void)
{
	struct share shares[30];
	char names[30][8];
	for (int i = 0; i < 30; i++) {
		snprintf(names[i], sizeof(names[i]), "f%02d", i);
		shares[i] = (struct share){ names[i], "app", i == 29 ? 1 - 29 * 0.03 : 0.03 };
	}
	struct report_options options = report_defaults();
	struct export_input wide = { .wide = true, .rows = 5 }, narrow = { .rows = 5 };
	struct profile p;
	syn_init(&p, 30);
	draw(&p, shares, 30, 0, 10000, 30);
	syn_account(&p, 0, 500);
	ok(says(&p, options, narrow, "; none lost\n          SILENT 500 (4.8%)"), "none lost, 500 silent");
	ok(says(&p, options, narrow, "load, whatever the\n          missing samples were, 19 times in 20 for one row\n"), "the range is of what is missing");
	ok(says(&p, options, narrow, "25 functions; any one could be up to "), "a row not shown may have had all of it");
	options.filter.to_ns = p.meta.start_ns + 20000000000u;
	ok(says(&p, options, narrow, "; none lost\n          SILENT 500 (4.8%) of the whole recording; of this part: not known\n")
	   && says(&p, options, wide, "of the whole recording were due and never came (4.8%): how many of this part"), "of a part the whole's silence is told");
	options.filter.to_ns = 0;
	options.simultaneous = true;
	char *text = text_of(&p, options, narrow);
	ok(widest_line(text) <= 80, "within 80 columns, for all rows at once too: %zu", widest_line(text));
	free(text);
	options.simultaneous = false;
	ok(says(&p, options, wide, "\nloss         4.8%: lost 0, silent 500"), "what the loss is of, wide");
	ok(says(&p, options, wide, " pp, and what is missing besides\n") && says(&p, options, wide, "had a 95% chance to appear;  one that did not is <= 5.1868%, whatever")
	   && says(&p, options, wide, ", whatever the missing samples were\n"), "functions not listed");
	ok(says(&p, options, wide, "(25 functions; any one could be up to "), "and those below the table");
	text = text_of(&p, options, wide);
	ok(widest_line(text) <= 170, "the verdict is wrapped: %zu", widest_line(text));
	free(text);
	syn_account(&p, 500, 0);
	ok(says(&p, options, narrow, "load, whatever the\n          lost samples were, 19") && says(&p, options, wide, "\nloss         4.8%"), "lost ones are called lost");
	syn_account(&p, 0, 0);
	ok(says(&p, options, (struct export_input){ .explain = "f01" }, "no samples are missing: the interval above\n"), "nothing missing is said so, explained");
	profile_release(&p);
}

static void test_idle_and_names(void)
{
	struct profile p;
	syn_init(&p, 10);
	set_meta(&p, "", "web-1", 1795960931000000000u, 0);
	p.meta.target_kind = intern_string(&p.names, "system");
	p.meta.target_ids.count = 0;
	static const char rlo[] = { (char)0xe2, (char)0x80, (char)0xae, '\0' }; // U+202E, right-to-left override
	char name[40];
	snprintf(name, sizeof(name), "\x1b[2Jname%stxt", rlo);
	uint32_t evil = syn_stack(&p, syn_function(&p, name, "li\x07.so"), PROFILE_NONE);
	uint32_t work = syn_stack(&p, syn_function(&p, "work", "app"), PROFILE_NONE), idle = syn_stack(&p, syn_function(&p, "cpu_idle", "[kernel]"), PROFILE_NONE);
	for (int i = 0; i < 4000; i++) {
		bool is_idle = i % 4 != 0;
		syn_sample(&p, i * 0.0025, is_idle ? idle : i % 8 == 0 ? evil : work, is_idle ? 0 : 1 + i % 3);
		syn_last(&p, is_idle, is_idle);
		syn_last(&p, pid, is_idle ? 0 : i % 16 < 8 ? 1 : 2);
		syn_last(&p, comm, intern_string(&p.names, is_idle ? "swapper" : i % 16 < 8 ? "one" : "t\nwo"));
	}
	p.events.data[0].expected = 4000;
	char *text = text_of(&p, report_defaults(), (struct export_input){ 0 });
	ok(strstr(text, "all CPUs, 2 processes, ") == text, "a whole system");
	ok(strstr(text, "\nidle      host 25% busy (0.1 of 64 CPUs); shares are of busy time\n") != NULL, "idle samples are in no share");
	ok(strstr(text, "cpu_idle") == NULL, "nor in a row");
	ok(strchr(text, '\x1b') == NULL && strchr(text, '\x07') == NULL && strstr(text, rlo) == NULL, "names cannot write to the terminal");
	ok(strstr(text, "\\x1b[2Jname\\u{202e}txt") != NULL && strstr(text, "t\\x0awo") != NULL, "they are escaped");
	free(text);
	struct report_options options = report_defaults();
	options.idle = true;
	text = text_of(&p, options, (struct export_input){ 0 });
	ok(strstr(text, "cpu_idle  ([kernel])") != NULL && strstr(text, "75.0 ") != NULL, "--idle shows them");
	free(text);
	profile_release(&p);

	struct buf out = { 0 };
	is_u64(text_name(&out, "abcdefghijklmnop", 9), 9, "a long name has the width that is left");
	is_str(buf_text(&out), "abcd…mnop", "and is cut in the middle");
	buf_clear(&out);
	text_count(&out, 60150);
	buf_byte(&out, ' ');
	text_count(&out, 999);
	buf_byte(&out, ' ');
	text_count(&out, -1234567);
	is_str(buf_text(&out), "60,150 999 -1,234,567", "counts");
	buf_release(&out);
}

// A timer's samples of code with interrupts off land where they are switched on: said when that is a twentieth of all.
static void test_masked(void)
{
	for (int at = 0; at < 2; at++) {
		struct share shares[] = { { "_raw_spin_unlock_irqrestore", "[kernel]", at == 0 ? 0.08 : 0.03 }, { "finish_task_switch.isra.0", "[kernel]", 0.01 },
			{ "_raw_spin_unlock_irqrestore_of_mine", "app", 0.5 } };
		struct report_options options = report_defaults();
		struct profile p;
		syn_init(&p, 20);
		draw(&p, shares, 3, 40, 20000, 20);
		syn_account(&p, 0, 0);
		char *text = text_of(&p, options, (struct export_input){ 0 });
		bool said = text != NULL && strstr(text, "switches interrupts on") != NULL && strstr(text, "(_raw_spin_unlock_irqrestore and") != NULL;
		ok(said == (at == 0), "9%% of the samples where interrupts are switched on: said; 4%%: not");
		free(text);
		profile_release(&p);
	}
}

// Names of C++ functions in few columns.
static void test_symbols(void)
{
	static const struct { const char *name; size_t columns; const char *shown; } cases[] = {
		{ "main", 16, "main" },
		{ "a_long_function_of_c_that_has_no_parameters", 16, "a_long_f…ameters" },
		{ "ns::parse(std::vector<int>&, char const*)", 60, "ns::parse(std::vector<int>&, char const*)" },
		{ "ns::parse(std::vector<int>&, char const*)", 16, "ns::parse(…)" },
		{ "ns::Parser<unsigned char>::next(int) const", 30, "ns::Parser<…>::next(…) const" },
		{ "std::pair<int, char> ns::Parser<std::vector<int> >::next<true>(int, int)", 30, "ns::Parser<…>::next<…>(…)" },
		{ "(anonymous namespace)::walk(tree_node*, unsigned int)", 30, "(anonymous namespace)::walk(…)" },
		{ "ns::Set::operator()(ns::Key const&) const", 30, "ns::Set::operator()(…) const" },
		{ "bool ns::operator< <int>(ns::Set<int> const&, ns::Set<int> const&)", 30, "bool ns::operator< <int>(…)" },
		{ "ns::Set<int>::operator->(ns::Set<int> const&, int)", 26, "ns::Set<…>::operator->(…)" },
		{ "ns::Value<unsigned char>::read(char const*) [clone .isra.0]", 30, "ns::Value<…>::read(…).isra.0" },
		{ "<alloc::vec::Vec<T> as core::ops::Drop>::drop", 20, "<alloc::ve…op>::drop" },
		{ "broken<(", 6, "bro…<(" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out = { 0 };
		size_t columns = text_symbol(&out, cases[i].name, cases[i].columns);
		ok(strcmp(buf_text(&out), cases[i].shown) == 0 && columns <= cases[i].columns, "%s in %zu columns: %s", cases[i].name, cases[i].columns, cases[i].shown);
		if (strcmp(buf_text(&out), cases[i].shown) != 0)
			diag("%s", buf_text(&out));
		buf_release(&out);
	}
}

int main(void)
{
	test_clean();
	test_bad();
	test_refusals();
	test_refusal_words();
	test_silence();
	test_idle_and_names();
	test_masked();
	test_symbols();
	return tap_done();
}
