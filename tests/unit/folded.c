// Folding and script text of a profile built by hand: merging, marks, escaping, what is left out.
#include "export/exporter.h"
#include "export/script_fields.h"
#include "export/stack_text.h"
#include "tests/tap.h"

static struct profile profile;

static uint32_t text(const char *s)
{
	return intern_string(&profile.names, s);
}

static uint32_t add_dso(const char *path, const char *short_name)
{
	return profile_add_dso(&profile, &(struct profile_dso){ .path = text(path), .short_name = text(short_name) });
}

// A frame with one line, or two when `inlined` names what is inlined there.
static uint32_t add_frame(uint64_t addr, uint32_t dso, const char *name, const char *inlined, enum frame_kind kind, bool is_kernel)
{
	struct profile_frame f = { .addr = 0x1000000 + addr, .image_addr = addr - (kind == FRAME_RETURN), .dso = dso, .kind = kind,
	                           .first_line = (uint32_t)profile.chains.count, .line_count = inlined != NULL ? 2 : 1, .symbol_start = addr & ~0xffull,
	                           .is_kernel = is_kernel };
	struct profile_function inner = { .name = text(inlined != NULL ? inlined : ""), .dso = dso, .is_known = true };
	struct profile_function outer = { .name = text(name != NULL ? name : "[unknown]"), .dso = dso, .is_known = name != NULL };
	if (inlined != NULL)
		vec_push(&profile.chains, (struct profile_line){ .function = profile_add_function(&profile, &inner), .file = text("/src/in.h"), .line = 7, .is_inlined = true });
	vec_push(&profile.chains, (struct profile_line){ .function = profile_add_function(&profile, &outer) });
	return profile_add_frame(&profile, &f);
}

static void add_sample(int pid, int tid, const char *comm, uint32_t stack, enum unwind_end end, uint32_t event, bool is_idle)
{
	struct profile_sample s = { .time_ns = 1000000000 + profile.samples.count * 1000000, .weight = 1295295, .pid = pid, .tid = tid, .cpu = 1,
	                            .comm = text(comm), .event = event, .stack = stack, .end = (uint8_t)end, .is_idle = is_idle };
	samples_add(&profile.samples, &s);
}

static void build(void)
{
	profile_init(&profile);
	vec_push(&profile.events, (struct profile_event){ .name = text("cpu-clock"), .is_sampling = true });
	vec_push(&profile.events, (struct profile_event){ .name = text("faults\x1b"), .is_sampling = true });
	uint32_t app = add_dso("/bin/app", "app"), kernel = add_dso("[kernel.kallsyms]", "[kernel]");
	uint32_t root = profile_add_node(&profile, PROFILE_NONE, add_frame(0x1010, app, "main", NULL, FRAME_RETURN, false));
	uint32_t call = profile_add_node(&profile, root, add_frame(0x1120, app, "work;x", "in\nner", FRAME_RETURN, false));
	uint32_t leaf = profile_add_node(&profile, call, add_frame(0x1230, app, "leaf", NULL, FRAME_LEAF, false));
	uint32_t same = profile_add_node(&profile, call, add_frame(0x1234, app, "leaf", NULL, FRAME_LEAF, false)); // another address of it
	uint32_t sys = profile_add_node(&profile, leaf, add_frame(0xffff0010, kernel, "sys_read", NULL, FRAME_LEAF, true));
	uint32_t bare = profile_add_node(&profile, root, add_frame(0x1340, app, NULL, NULL, FRAME_LEAF, false));
	uint32_t lost = profile_add_node(&profile, PROFILE_NONE, add_frame(0x99, PROFILE_NONE, NULL, NULL, FRAME_LEAF, false));
	add_sample(10, 10, "app", leaf, UNWIND_ROOT, 0, false);
	add_sample(10, 11, "app", same, UNWIND_ROOT, 0, false);
	add_sample(20, 20, "app", leaf, UNWIND_ROOT, 0, false);
	add_sample(10, 10, "app", sys, UNWIND_ROOT, 0, false);
	add_sample(10, 10, "app", bare, UNWIND_TRUNCATED, 0, false);
	add_sample(10, 10, "app", lost, UNWIND_NO_MAPPING, 0, false);
	add_sample(10, 10, "app", PROFILE_NONE, UNWIND_NO_REGISTERS, 0, false);
	add_sample(10, 10, "a;\x1b", root, UNWIND_ROOT, 0, false);
	add_sample(0, 0, "swapper", sys, UNWIND_NOT_USER, 0, true);
	add_sample(10, 10, "app", leaf, UNWIND_ROOT_GUESSED, 1, false);
	profile.frames.data[profile.nodes.data[root].frame].via = VIA_CFI;
	profile.frames.data[profile.nodes.data[call].frame].via = VIA_FP;
	profile.frames.data[profile.nodes.data[sys].frame].via = VIA_NONE;
}

static void folded_is(const char *what, struct export_input input, const char *wanted)
{
	struct buf out = { 0 };
	struct err err = { 0 };
	input.profile = &profile;
	ok(exporter_find("folded")->write(&input, &out, &err), "%s: written", what);
	is_str(buf_text(&out), wanted, "%s", what);
	buf_release(&out);
}

static void test_folded(void)
{
	folded_is("plain", (struct export_input){ 0 },
	          "a:\\x1b;main 1\napp;[truncated];main;[app] 1\napp;[unwind failed] 1\napp;[unwind failed];[unknown] 1\napp;main;work:x;leaf 3\n"
	          "app;main;work:x;leaf;sys_read 1\n");
	folded_is("inline", (struct export_input){ .inlines = true, .inline_marks = true, .kernel_marks = true },
	          "a:\\x1b;main 1\napp;[truncated];main;[app] 1\napp;[unwind failed] 1\napp;[unwind failed];[unknown] 1\n"
	          "app;main;work:x;in\\x0aner_[i];leaf 3\napp;main;work:x;in\\x0aner_[i];leaf;sys_read_[k] 1\n");
	folded_is("pid", (struct export_input){ .with_pid = true },
	          "a:\\x1b-10;main 1\napp-10;[truncated];main;[app] 1\napp-10;[unwind failed] 1\napp-10;[unwind failed];[unknown] 1\n"
	          "app-10;main;work:x;leaf 2\napp-10;main;work:x;leaf;sys_read 1\napp-20;main;work:x;leaf 1\n");
	folded_is("the other event", (struct export_input){ .event = 1, .with_tid = true }, "app-10/10;main;work:x;leaf 1\n");
	folded_is("addresses", (struct export_input){ .event = 1, .addrs = true, .inlines = true },
	          "app;main <1010>;work:x <1120>;in\\x0aner <1120>;leaf <1230> 1\n");
	struct report_filter filter = { 0 };
	vec_push(&filter.pids, 20);
	folded_is("a filter", (struct export_input){ .filter = &filter }, "app;main;work:x;leaf 1\n");
	struct report_filter guesses = { 0 };
	vec_push(&guesses.pids, 20);
	vec_clear(&filter.pids);
	vec_push(&filter.pids, 0);
	folded_is("frames found without CFI", (struct export_input){ .inlines = true, .guess_marks = true, .filter = &guesses },
	          "app;main;work:x_[g];in\\x0aner_[g];leaf 1\n");
	vec_release(&guesses.pids);
	folded_is("idle is left out", (struct export_input){ .filter = &filter }, "");
	folded_is("idle asked for", (struct export_input){ .filter = &filter, .idle = true }, "swapper;main;work:x;leaf;sys_read 1\n");
	vec_release(&filter.pids);
}

static void script_has(const char *what, struct export_input input, const char *wanted)
{
	struct buf out = { 0 };
	struct err err = { 0 };
	input.profile = &profile;
	ok(exporter_find("script")->write(&input, &out, &err) && strstr(buf_text(&out), wanted) != NULL, "%s", what);
	if (strstr(buf_text(&out), wanted) == NULL)
		diag("wanted <%s> in <%.600s>", wanted, buf_text(&out));
	buf_release(&out);
}

static void test_script(void)
{
	script_has("a paragraph: leaf first, offsets from the symbol, a return address as it stands", (struct export_input){ .inlines = true },
	           "app    10 [001]     1.000000:    1295295 cpu-clock: \n\t            1230 leaf+0x30 (/bin/app)\n"
	           "\t            1120 in\\x0aner+0x20 (inlined)\n\t            1120 work;x+0x20 (/bin/app)\n\t            1010 main+0x10 (/bin/app)\n\napp ");
	script_has("kernel addresses are of the run", (struct export_input){ .fields = "ip,sym,dso" }, "\t       100ff0010 sys_read ([kernel.kallsyms])\n\t            1230 leaf (/bin/app)\n");
	script_has("no name, no mapping", (struct export_input){ .fields = "ip,sym,dso" }, "\n\t         1000099 [unknown] ([unknown])\n\n");
	script_has("no frame at all", (struct export_input){ .fields = "comm,ip,sym" }, "\napp \n\na;\\x1b \n\t            1010 main\n\n");
	script_has("source lines", (struct export_input){ .inlines = true, .fields = "ip,sym,srcline" }, "in\\x0aner\n  in.h:7 (inlined)\n\t            1120 work;x\n  ??:0\n");
	script_has("events are aligned and escaped", (struct export_input){ .fields = "event" }, "cpu-clock: \n");
	script_has("how frames were found, behind the function that has the code", (struct export_input){ .inlines = true, .fields = "ip,sym,via" },
	           "\t            1230 leaf none\n\t            1120 in\\x0aner (inlined)\n\t            1120 work;x fp\n\t            1010 main cfi\n\n");
	script_has("one line a sample", (struct export_input){ .fields = "comm,ip,sym", .hide_calls = true }, "             app           1001230 leaf\n");
	script_has("a slice", (struct export_input){ .fields = "tid", .first_sample = 1, .sample_count = 2 }, "   11 \n   20 \n");
	struct buf pieces = { 0 }, whole = { 0 };
	struct export_input input = { .profile = &profile };
	exporter_find("script")->write(&input, &whole, NULL);
	for (input.sample_count = 3; input.first_sample < profile.samples.count; input.first_sample += 3)
		exporter_find("script")->write(&input, &pieces, NULL);
	is_str(buf_text(&pieces), buf_text(&whole), "slices add up to the whole");
	buf_release(&pieces);
	buf_release(&whole);
}

static void test_fields(void)
{
	unsigned fields;
	struct err err;
	ok(script_fields_parse("comm,ip", &fields, &err) && fields == (FIELD_COMM | FIELD_IP), "fields by name");
	unsigned usual;
	ok(script_fields_parse(NULL, &usual, &err) && (usual & FIELD_SYMOFF) != 0 && (usual & FIELD_SRCLINE) == 0, "the default");
	ok(script_fields_parse("+srcline,-dso", &fields, &err) && fields == ((usual | FIELD_SRCLINE) & ~(unsigned)FIELD_DSO), "changes of it");
	ok(!script_fields_parse("comm,+ip", &fields, &err) && err.status == STATUS_USAGE, "not both");
	ok(!script_fields_parse("co", &fields, &err) && strstr(err.text, "'co'") != NULL, "no beginnings");
	ok(!script_fields_parse("comm,,ip", &fields, &err) && !script_fields_parse("", &fields, &err), "nor nothing");
	ok(!script_fields_parse("insn", &fields, &err) && strstr(err.text, "not supported") != NULL, "perf's others");
}

static void test_marks(void)
{
	static const bool complete[UNWIND_END_COUNT] = { [UNWIND_ROOT] = true, [UNWIND_ROOT_GUESSED] = true, [UNWIND_NOT_USER] = true };
	for (int end = 0; end < UNWIND_END_COUNT; end++) {
		const char *mark = stack_mark((enum unwind_end)end);
		const char *wanted = end == UNWIND_TRUNCATED || end == UNWIND_DEPTH_LIMIT || end == UNWIND_ABSENT_PAGE ? "[truncated]" : "[unwind failed]";
		ok(complete[end] ? mark == NULL : mark != NULL && strcmp(mark, wanted) == 0, "mark of end %d", end);
	}
}

// The order of the text is not that of the labels: what follows "f" is '(', ';' or '_', or nothing.
static void test_order(void)
{
	static const char *const names[] = { "f_x", "f", "f(int)" };
	profile_init(&profile);
	vec_push(&profile.events, (struct profile_event){ .name = text("cpu-clock"), .is_sampling = true });
	uint32_t app = add_dso("/bin/app", "app"), leaf = add_frame(0x9000, app, "g", NULL, FRAME_LEAF, false);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t node = profile_add_node(&profile, PROFILE_NONE, add_frame(0x1000 + 0x100 * i, app, names[i], NULL, FRAME_RETURN, false));
		add_sample(1, 1, "c", profile_add_node(&profile, node, leaf), UNWIND_ROOT, 0, false);
		add_sample(1, 1, "c", node, UNWIND_ROOT, 0, false);
	}
	folded_is("order", (struct export_input){ 0 }, "c;f 1\nc;f(int) 1\nc;f(int);g 1\nc;f;g 1\nc;f_x 1\nc;f_x;g 1\n");
	profile_release(&profile);
}

// Callers with one to twelve callees, met at three addresses each, in turn: stacks that differ in addresses alone meet again.
static void test_meeting(void)
{
	enum { CALLERS = 12, TIMES = 3 };
	struct buf wanted = { 0 };
	profile_init(&profile);
	vec_push(&profile.events, (struct profile_event){ .name = text("cpu-clock"), .is_sampling = true });
	uint32_t app = add_dso("/bin/app", "app");
	for (uint32_t time = 0; time < TIMES; time++)
		for (uint32_t callee = 0; callee < CALLERS; callee++)
			for (uint32_t caller = callee; caller < CALLERS; caller++) {
				char outer[16], inner[16];
				snprintf(outer, sizeof(outer), "f%02u", caller);
				snprintf(inner, sizeof(inner), "g%02u", callee);
				uint32_t node = profile_add_node(&profile, PROFILE_NONE, add_frame(0x10000 + 0x100 * caller + time, app, outer, NULL, FRAME_RETURN, false));
				node = profile_add_node(&profile, node, add_frame(0x20000 + 0x100 * callee + time, app, inner, NULL, FRAME_LEAF, false));
				add_sample(1, 1, "c", node, UNWIND_ROOT, 0, false);
			}
	for (uint32_t caller = 0; caller < CALLERS; caller++)
		for (uint32_t callee = 0; callee <= caller; callee++)
			buf_printf(&wanted, "c;f%02u;g%02u %d\n", caller, callee, TIMES);
	folded_is("stacks that meet", (struct export_input){ 0 }, buf_text(&wanted));
	buf_release(&wanted);
	profile_release(&profile);
}

int main(void)
{
	test_meeting();
	build();
	test_folded();
	test_script();
	test_fields();
	test_marks();
	profile_release(&profile);
	test_order();
	return tap_done();
}
