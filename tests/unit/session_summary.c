// The closing summary, word for word, clean and bad; and its JSON.
#include "record/summary.h"
#include "unwind/unwind.h"
#include "tests/json_schema.h"

#include <jansson.h>

#include "tests/tap.h"

static const char *const argv[] = { "perfsample", "record", "-p", "4242", NULL };

static struct summary clean(struct summary_event *event, int32_t *id)
{
	*event = (struct summary_event){ .name = "cpu-clock", .because = "this VM counts no cycles", .is_clock = true, .samples = true, .period = 1295295,
	                                 .taken = 60150, .lost = 40, .expected = 60218, .running_ns = 78000482310 };
	*id = 4242;
	return (struct summary){
		.argv = argv, .target_kind = "pid", .comm = "postgres", .ids = { .data = id, .count = 1 }, .threads = 18, .processes = 1,
		.has_cpu_seconds = true, .seconds = 30, .cpu_seconds = 78, .events = { .data = event, .count = 1 }, .complete = 59670,
		.truncated = 363, .failed = 117, .stack_bytes = 65528, .recorder_share = 0.006,
		.recorder_cpu_seconds = 0.18, .max_loss = 0.01, .host = "db-3", .kernel = "6.1", .end = "--duration is over", .path = "/root/perf.data",
		.bytes = 20000000, .names_inside = true, .command_status = -1,
	};
}

static void text_of(const struct summary *summary, const char *wanted, const char *what)
{
	struct buf out = { 0 };
	summary_text(summary, &out);
	is_str(buf_text(&out), wanted, "%s", what);
	buf_release(&out);
}

// Whether the summary says so, wherever its lines are wrapped.
static bool says(const struct buf *text, const char *words)
{
	struct buf line = { 0 };
	for (const char *at = text->data; at < (const char *)text->data + text->size; at++) {
		bool is_wrap = strncmp(at, "\n            ", 13) == 0;
		buf_byte(&line, is_wrap ? ' ' : (uint8_t)*at);
		at += is_wrap ? 12 : 0;
	}
	bool found = strstr(buf_text(&line), words) != NULL;
	buf_release(&line);
	return found;
}

static void text(void)
{
	struct summary_event event;
	int32_t id;
	struct summary summary = clean(&event, &id);
	text_of(&summary,
	        "perfsample: 60,150 samples of postgres[4242] (18 threads), 30.0 s, 78.0 CPU-s\n"
	        "perfsample: sound: lost 40 (0.07%), silent 28 (0.05%), stacks complete 99.2%\n"
	        "perfsample: cpu-clock every 1.295295 ms (this VM counts no cycles)\n"
	        "perfsample: the recorder used 0.6% of one CPU\n"
	        "perfsample: wrote /root/perf.data, 20 MB, names inside. Next: perfsample report\n", "clean");

	event = (struct summary_event){ .name = "cpu-clock", .is_clock = true, .samples = true, .period = 1295295, .taken = 43090, .lost = 1333,
	                                .expected = 44469 };
	summary.comm = "app";
	summary.threads = 6;
	summary.cpu_seconds = 57.6;
	summary.complete = 37919;
	uint64_t ends[UNWIND_END_COUNT] = { [UNWIND_TRUNCATED] = 5171 };
	summary.truncated = 5171;
	summary.ends = ends;
	summary.end_count = UNWIND_END_COUNT;
	summary.failed = 0;
	summary.lost_span = (struct loss_span){ 14, 16 };
	summary.loss_reason = "the recorder was not scheduled (no real-time priority: needs root or CAP_SYS_NICE)";
	summary.recorder_share = 0.011;
	summary.bytes = 14000000;
	text_of(&summary,
	        "perfsample: 43,090 samples of app[4242] (6 threads), 30.0 s, 57.6 CPU-s\n"
	        "perfsample: CARE: lost 1,333 samples (3.0%), +14 to +16 s: the recorder was not\n"
	        "            scheduled (no real-time priority: needs root or CAP_SYS_NICE)\n"
	        "perfsample: CARE: 12.0% of the stacks are truncated: deeper than the 64 KB a\n"
	        "            sample holds\n"
	        "perfsample: silent 46 (0.10%), throttled 0 s; the recorder used 1.1% of one CPU\n"
	        "perfsample: wrote /root/perf.data, 14 MB, names inside. Next: perfsample report\n", "bad");

	// What is cut for another reason is not called deep.
	ends[UNWIND_TRUNCATED] = 0;
	ends[UNWIND_ABSENT_PAGE] = 4000;
	ends[UNWIND_DEPTH_LIMIT] = 1171;
	text_of(&summary,
	        "perfsample: 43,090 samples of app[4242] (6 threads), 30.0 s, 57.6 CPU-s\n"
	        "perfsample: CARE: lost 1,333 samples (3.0%), +14 to +16 s: the recorder was not\n"
	        "            scheduled (no real-time priority: needs root or CAP_SYS_NICE)\n"
	        "perfsample: CARE: 9.3% of the stacks are cut: a page of the stack was not in\n"
	        "            memory\n"
	        "perfsample: CARE: 2.7% of the stacks are cut: more frames than a record holds\n"
	        "perfsample: silent 46 (0.10%), throttled 0 s; the recorder used 1.1% of one CPU\n"
	        "perfsample: wrote /root/perf.data, 14 MB, names inside. Next: perfsample report\n", "cut for other reasons");

	struct buf text = { 0 };
	// Where stacks go on on another one: what helps, if a runtime changed stacks.
	const uint64_t others = ends[UNWIND_OTHER_STACK];
	static const struct { const char *what; double by_go, by_c; bool leads, calls; } causes[] = {
		{ "a signal's handler", 0, 0, false, false }, { "Go", 0.9, 0.1, true, false }, { "C that Go calls", 1, 1, false, true },
	};
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		ends[UNWIND_OTHER_STACK] = 9000;
		summary.others_by_go = causes[i].by_go;
		summary.others_by_c = causes[i].by_c;
		summary_text(&summary, &text);
		const char *said = buf_text(&text);
		ok((strstr(said, "frame pointers lead from") != NULL) == causes[i].leads && (strstr(said, "C code was called on another") != NULL) == causes[i].calls,
		   "on another stack: %s", causes[i].what);
		buf_clear(&text);
	}
	ends[UNWIND_OTHER_STACK] = others;
	// A loss of which part has a reason of its own.
	summary.stuck_times = 1;
	summary.stuck_lost = 1200;
	summary_text(&summary, &text);
	ok(says(&text, ": a ring of the kernel stood still for 1,200; of the others, the recorder was not"), "a ring that stood still, and the rest");
	buf_clear(&text);
	summary.stuck_lost = 1333;
	summary_text(&summary, &text);
	ok(says(&text, ": a ring of the kernel stood still\n") && strstr(buf_text(&text), "scheduled") == NULL, "all of it");
	buf_release(&text);
}

// A verdict is that of every event; what no clock measured is not called CPU time.
static void events(void)
{
	struct summary_event event, two[2];
	int32_t id;
	struct summary summary = clean(&event, &id);
	ok(summary_verdict(&summary) == VERDICT_SOUND, "one event, next to nothing lost: sound");
	summary.is_short = true;
	ok(summary_verdict(&summary) != VERDICT_SOUND, "not when the file lacks some of it");
	summary.is_short = false;
	two[0] = event;
	two[1] = (struct summary_event){ .name = "page-faults", .samples = true, .period = 1, .taken = 61, .lost = 164, .expected = 225 };
	summary.events.data = two;
	summary.events.count = 2;
	ok(summary_verdict(&summary) == VERDICT_NO_RANKING && summary_lost_share(&summary) > 0.7, "not when another event lost most of its samples");
	struct buf out = { 0 };
	summary_text(&summary, &out);
	ok(says(&out, "NO RANKING: page-faults: lost 164 samples (72.9%)"), "and it is named");
	buf_clear(&out);
	two[1].samples = false;
	ok(summary_verdict(&summary) == VERDICT_SOUND, "a member of a group that only counts has none to lose");

	summary.events.count = 1;
	two[0] = (struct summary_event){ .name = "mem:0x401000:x", .samples = true, .period = 1 };
	summary_text(&summary, &out);
	ok(says(&out, "NO RANKING: no samples\n") && strstr(buf_text(&out), "less CPU time") == NULL,
	   "a breakpoint that was never met is no matter of CPU time");
	buf_clear(&out);
	two[0] = (struct summary_event){ .name = "cpu-clock", .is_clock = true, .samples = true, .period = 1295295, .expected = 1, .running_ns = 778494 };
	summary_text(&summary, &out);
	ok(says(&out, "less than one period of 1.3 ms: nothing could be sampled\n") && !says(&out, "never came"),
	   "before a whole period no tick is due, though expected rounds to 1");
	buf_release(&out);
}

static void hostile(void)
{
	struct summary_event event;
	int32_t id;
	struct summary summary = clean(&event, &id);
	struct buf out = { 0 };
	summary.comm = "\x1b]0;pwned\x07\nperfsample: sound";
	summary_text(&summary, &out);
	ok(strchr(buf_text(&out), 0x1b) == NULL && strchr(buf_text(&out), 7) == NULL, "no control character of a name reaches the terminal");
	int lines = 0;
	for (const char *at = buf_text(&out); (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	is_u64(lines, 6, "and no line of its own (one line more is wrapped)");
	buf_release(&out);
}

static void few(void)
{
	struct summary_event event;
	int32_t id;
	struct summary summary = clean(&event, &id);
	struct buf out = { 0 };
	summary.cpu_seconds = 0.9;
	event.expected = -1;
	summary_text(&summary, &out);
	ok(strstr(buf_text(&out), "silent not measurable") != NULL, "what cannot be measured is said");
	ok(strstr(buf_text(&out), "hint  used 3% of one CPU, 18 threads mostly blocked") != NULL, "a target that hardly ran gets a hint");
	// One tick of twelve, on two CPUs: no timer could fire for what was not over.
	event.taken = 11;
	event.expected = 12;
	event.lost = 0;
	event.begun = 1;
	buf_clear(&out);
	summary_text(&summary, &out);
	ok(says(&out, "perfsample: 1 sample never came (8.3%): their periods were begun and not over at the end") && !says(&out, "CARE"), "no tick is missed in a period that was not over");
	event.begun = 0;
	buf_clear(&out);
	summary_text(&summary, &out);
	ok(says(&out, "CARE: 1 sample was due and never came (8.3%)"), "in one that was it is");
	ok(strstr(buf_text(&out), "wchan") != NULL && strstr(buf_text(&out), "off-cpu") == NULL, "to something that can be done, not to an option that is refused");
	buf_release(&out);
}

// Half of two CPUs was idle, and their timers gave nothing.
static void idle(void)
{
	struct summary_event event;
	int32_t id;
	struct summary summary = clean(&event, &id);
	struct buf out = { 0 };
	event.expected += 60000;
	event.idle_unsampled = 60000;
	ok(summary_verdict(&summary) == VERDICT_SOUND, "what idle CPUs did not sample does not make it unsound");
	summary_text(&summary, &out);
	ok(strstr(buf_text(&out), "silent 28 (0.02%)") != NULL, "nor is it silent");
	ok(strstr(buf_text(&out), "60,000 ticks of idle CPUs gave no sample") != NULL, "it is said apart");
	buf_clear(&out);
	summary_json(&summary, &out);
	json_t *doc = json_loads(buf_text(&out), 0, NULL);
	json_t *samples = json_object_get(json_array_get(json_object_get(doc, "events"), 0), "samples");
	is_u64((uint64_t)json_integer_value(json_object_get(samples, "idle")), 60000, "idle in JSON");
	is_u64((uint64_t)json_integer_value(json_object_get(samples, "idle_unsampled")), 60000, "unsampled, all of it");
	is_u64((uint64_t)json_integer_value(json_object_get(samples, "silent")), 28, "silent as before");
	json_decref(doc);
	buf_release(&out);
}

static void json(void)
{
	struct summary_event event;
	int32_t id;
	struct summary summary = clean(&event, &id);
	struct buf out = { 0 };
	summary.comm = "bad \xff name";
	summary_json(&summary, &out);
	json_error_t error;
	json_t *doc = json_loads(buf_text(&out), 0, &error);
	ok(doc != NULL, "valid JSON, whatever the names are");
	struct schema_check check;
	is_str(schema_validate("schema/perfsample-record-1.json", buf_text(&out), &check), "", "by its schema");
	json_t *first = json_array_get(json_object_get(doc, "events"), 0), *samples = json_object_get(first, "samples");
	is_u64((uint64_t)json_integer_value(json_object_get(samples, "silent")), 28, "silent");
	uint64_t sum = 0;
	const char *const parts[] = { "taken", "idle", "others", "lost", "dropped", "silent" };
	for (size_t i = 0; i < 6; i++)
		sum += (uint64_t)json_integer_value(json_object_get(samples, parts[i]));
	is_u64(sum, (uint64_t)json_integer_value(json_object_get(samples, "expected")), "the parts add up to what was due");
	ok(json_is_null(json_object_get(doc, "command_status")), "no command, no status");
	json_decref(doc);
	buf_release(&out);
}

int main(void)
{
	text();
	events();
	hostile();
	few();
	idle();
	json();
	return tap_done();
}
