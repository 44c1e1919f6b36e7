// Exporters for other viewers, of a profile with everything in it: threads, inlined and hostile names, stacks that are not whole, loss.
#include "tests/tap.h"

#include <jansson.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/escape.h"
#include "base/gzip.h"
#include "export/exporter.h"
#include "tests/json_schema.h"
#include "tests/synthetic.h"

enum { SAMPLES = 1000 };
static const char *const formats[] = { "pprof", "speedscope", "gecko", "callgrind", "chrome", "samples", "folded", "script" };

struct made { struct profile profile; struct report report; uint64_t weight, truncated, failed; };

static void make(struct made *m)
{
	struct profile *p = &m->profile;
	struct err err = { 0 };
	*m = (struct made){ 0 };
	syn_init(p, 30);
	p->meta.start_wall_ns = 1796047331123456789u;
	p->meta.target_comm = intern_string(&p->names, "a\"p\np");
	vec_push(&p->meta.argv, intern_string(&p->names, "a\x01rg\n"));
	const char *const chain[] = { "in\nner;", "outer\x1b[31m" };
	uint32_t root = syn_function(p, "main", "app"), inlined = syn_frame(p, chain, 2, "app"), bad = syn_function(p, "b\xff\xfe</script>", "li\nb.so");
	const char *const none[] = { NULL };
	uint32_t unknown = syn_frame(p, none, 1, "app"), kernel = syn_function(p, "(anonymous)::sys", "[kernel]");
	uint32_t stacks[] = { syn_stack(p, root, inlined, PROFILE_NONE), syn_stack(p, root, inlined, bad, PROFILE_NONE),
	                      syn_stack(p, root, unknown, PROFILE_NONE), syn_stack(p, root, inlined, inlined, kernel, PROFILE_NONE), PROFILE_NONE };
	for (int i = 0; i < SAMPLES; i++) {
		syn_sample(p, 0.02 + i * 0.02, stacks[i % 5], 4242 + i % 3);
		syn_last(p, cpu, (uint32_t)i % 2);
		syn_last(p, comm, intern_string(&p->names, i % 2 ? "sh\x07\xc3\t" : "ok"));
		if (i % 10 == 1) {
			syn_last(p, end, UNWIND_TRUNCATED);
			m->truncated++;
		}
		if (i % 10 == 2) {
			syn_last(p, end, UNWIND_NO_CFI);
			m->failed++;
		}
		m->weight += samples_at(&p->samples, p->samples.count - 1).weight;
	}
	p->frames.data[bad].via = VIA_LEAF_RULE;
	p->frames.data[unknown].via = VIA_FP;
	syn_set(p, 0, end, UNWIND_ROOT_GUESSED);
	vec_push(&p->losses, (struct profile_loss){ .from_ns = p->meta.start_ns + 3000000000u, .to_ns = p->meta.start_ns + 4000000000u, .count = 30 });
	syn_account(p, 30, 2);
	struct report_options options = report_defaults();
	ok(report_build(&m->report, p, &options, &err), "the model is built");
}

static void unmake(struct made *m)
{
	report_release(&m->report);
	profile_release(&m->profile);
}

static struct buf export_as(const struct made *m, const char *format, bool merge_threads)
{
	struct export_input input = { .profile = &m->profile, .report = &m->report, .inlines = true, .merge_threads = merge_threads };
	struct buf out = { 0 };
	struct err err = { 0 };
	ok(exporter_find(format) != NULL && exporter_find(format)->write(&input, &out, &err), "%s is written", format);
	buf_text(&out);
	return out;
}

// ---------------------------------------------------------------- what holds for all

static bool has_control(const struct buf *text)
{
	for (size_t i = 0; i < text->size; i++)
		if (((uint8_t)text->data[i] < 0x20 && text->data[i] != '\n' && text->data[i] != '\t') || text->data[i] == 0x7f)
			return true;
	return false;
}

static void test_all(const struct made *m)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct buf first = export_as(m, formats[i], false), again = export_as(m, formats[i], false);
		ok(first.size == again.size && memcmp(first.data, again.data, first.size) == 0, "%s: the same input gives the same bytes", formats[i]);
		if (strcmp(formats[i], "pprof") != 0) {
			ok(utf8_is_valid(first.data, first.size), "%s: valid UTF-8", formats[i]);
			ok(!has_control(&first), "%s: no control characters", formats[i]);
		}
		if (strcmp(formats[i], "script") != 0) { // perf's text has no place for it
			ok(memmem(first.data, first.size, "[truncated]", 11) != NULL, "%s: shows truncated stacks", formats[i]);
			ok(memmem(first.data, first.size, "[unwind failed]", 15) != NULL, "%s: shows failed ones", formats[i]);
		}
		if (strcmp(formats[i], "script") != 0 && strcmp(formats[i], "folded") != 0) {
			static const char guesses[] = "; with a guessed frame 400; with a guessed root 1";
			ok(memmem(first.data, first.size, "lost ", 5) != NULL, "%s: tells what was lost", formats[i]);
			ok(memmem(first.data, first.size, guesses, sizeof(guesses) - 1) != NULL, "%s: tells what was guessed", formats[i]);
		}
		buf_release(&first);
		buf_release(&again);
	}
}

static void test_empty(void)
{
	struct profile p;
	profile_init(&p);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct export_input input = { .profile = &p, .inlines = true };
		struct buf out = { 0 };
		struct err err = { 0 };
		ok(exporter_find(formats[i])->write(&input, &out, &err), "%s: of a profile without event or sample", formats[i]);
		buf_text(&out);
		if (strcmp(formats[i], "folded") != 0 && strcmp(formats[i], "script") != 0)
			ok(out.size > 0, "is something to open");
		buf_release(&out);
	}
	profile_release(&p);
}

// ---------------------------------------------------------------- one by one

static json_t *parsed(const struct buf *text, const char *what)
{
	json_error_t error;
	json_t *doc = json_loadb(text->data, text->size, 0, &error);
	if (!ok(doc != NULL, "%s is JSON", what))
		diag("%s at %d", error.text, error.position);
	return doc;
}

static double sum(const json_t *array)
{
	double total = 0;
	size_t i;
	json_t *item;
	json_array_foreach(array, i, item)
		total += json_number_value(item);
	return total;
}

static void test_speedscope(const struct made *m, bool merge_threads)
{
	struct buf text = export_as(m, "speedscope", merge_threads);
	json_t *doc = parsed(&text, "speedscope"), *profiles = json_object_get(doc, "profiles"), *profile;
	size_t frames = json_array_size(json_object_get(json_object_get(doc, "shared"), "frames")), i, j, k, bad = 0;
	double weight = 0, samples = 0;
	json_array_foreach(profiles, i, profile) {
		json_t *stack, *frame;
		weight += sum(json_object_get(profile, "weights"));
		samples += (double)json_array_size(json_object_get(profile, "samples"));
		bad += json_number_value(json_object_get(profile, "endValue")) != sum(json_object_get(profile, "weights"));
		json_array_foreach(json_object_get(profile, "samples"), j, stack)
			json_array_foreach(stack, k, frame)
				bad += json_integer_value(frame) < 0 || (size_t)json_integer_value(frame) >= frames;
	}
	is_u64(json_array_size(profiles), merge_threads ? 1 : 3, "a profile a thread, or one");
	is_u64((uint64_t)samples, SAMPLES, "all samples");
	is_u64((uint64_t)weight, m->weight, "all CPU time");
	is_u64(bad, 0, "frames are in the table, ends are the sums of weights");
	json_decref(doc);
	buf_release(&text);
}

static bool rows_are(const json_t *table, const char *column, size_t length, double limit) // null or in [-1, limit)
{
	size_t i;
	json_t *item, *cells = json_object_get(table, column);
	if (json_array_size(cells) != length)
		return false;
	json_array_foreach(cells, i, item)
		if (!json_is_null(item) && (json_number_value(item) < -1 || json_number_value(item) >= limit))
			return false;
	return true;
}

static void test_gecko_thread(const json_t *thread, size_t libs)
{
	const json_t *samples = json_object_get(thread, "samples"), *stacks = json_object_get(thread, "stackTable"), *frames = json_object_get(thread, "frameTable");
	const json_t *funcs = json_object_get(thread, "funcTable"), *resources = json_object_get(thread, "resourceTable");
#define LENGTH(table) ((size_t)json_integer_value(json_object_get(table, "length")))
	double strings = (double)json_array_size(json_object_get(thread, "stringArray"));
	ok(rows_are(samples, "stack", LENGTH(samples), (double)LENGTH(stacks)) && rows_are(samples, "time", LENGTH(samples), 1e9), "samples");
	ok(rows_are(stacks, "prefix", LENGTH(stacks), (double)LENGTH(stacks)) && rows_are(stacks, "frame", LENGTH(stacks), (double)LENGTH(frames)) &&
	   rows_are(stacks, "category", LENGTH(stacks), 5), "stacks");
	ok(rows_are(frames, "func", LENGTH(frames), (double)LENGTH(funcs)) && rows_are(frames, "address", LENGTH(frames), 9.1e15) &&
	   rows_are(frames, "inlineDepth", LENGTH(frames), 2) && rows_are(frames, "nativeSymbol", LENGTH(frames), 0), "frames");
	ok(rows_are(funcs, "name", LENGTH(funcs), strings) && rows_are(funcs, "resource", LENGTH(funcs), (double)LENGTH(resources)) &&
	   rows_are(funcs, "fileName", LENGTH(funcs), strings), "functions");
	ok(rows_are(resources, "lib", LENGTH(resources), (double)libs) && rows_are(resources, "name", LENGTH(resources), strings), "resources");
	size_t i, wrong = 0;
	json_t *prefix;
	json_array_foreach(json_object_get(stacks, "prefix"), i, prefix)
		wrong += json_is_integer(prefix) && (size_t)json_integer_value(prefix) >= i;
	is_u64(wrong, 0, "callers stand before what they call");
	ok(rows_are(stacks, "subcategory", LENGTH(stacks), 2) && rows_are(frames, "subcategory", LENGTH(frames), 2) &&
	   sum(json_object_get(frames, "subcategory")) == 2, "two functions found without CFI");
}

static void test_gecko(const struct made *m)
{
	struct buf text = export_as(m, "gecko", false);
	json_t *doc = parsed(&text, "gecko"), *thread;
	size_t i, samples = 0, libs = json_array_size(json_object_get(doc, "libs"));
	double weight = 0;
	json_array_foreach(json_object_get(doc, "threads"), i, thread) {
		test_gecko_thread(thread, libs);
		samples += LENGTH(json_object_get(thread, "samples"));
		weight += sum(json_object_get(json_object_get(thread, "samples"), "weight"));
	}
	is_u64(json_array_size(json_object_get(doc, "threads")), 3, "a thread each");
	is_u64(samples, SAMPLES, "all samples");
	ok(weight > (double)m->weight / 1e6 - 0.01 && weight < (double)m->weight / 1e6 + 0.01, "all CPU time, in ms");
	is_u64(LENGTH(json_object_get(json_array_get(json_object_get(doc, "threads"), 0), "markers")), 1, "the loss is a marker");
	json_decref(doc);
	buf_release(&text);
}

static void test_chrome(const struct made *m)
{
	struct buf text = export_as(m, "chrome", false);
	json_t *doc = parsed(&text, "chrome"), *event;
	const char *open[3][64];
	double last[3] = { 0 };
	size_t depth[3] = { 0 }, i, wrong = 0, marks_wrong = 0, spans = 0;
	json_array_foreach(json_object_get(doc, "traceEvents"), i, event) {
		const char *phase = json_string_value(json_object_get(event, "ph")), *name = json_string_value(json_object_get(event, "name"));
		size_t tid = (size_t)json_integer_value(json_object_get(event, "tid")) - 4242;
		double ts = json_number_value(json_object_get(event, "ts"));
		if (*phase != 'B' && *phase != 'E')
			continue;
		wrong += tid >= 3 || ts < last[tid];
		last[tid] = ts;
		if (*phase == 'B' && (json_object_get(json_object_get(event, "args"), "guessed") != NULL) != (*name == 'b' || strcmp(name, "[app]") == 0))
			marks_wrong++;
		if (*phase == 'B')
			open[tid][depth[tid]++] = name, spans++;
		else if (depth[tid] == 0 || strcmp(open[tid][--depth[tid]], name) != 0)
			wrong++;
	}
	ok(spans > SAMPLES && wrong + depth[0] + depth[1] + depth[2] == 0, "spans nest, in the order of time, and all end");
	is_u64(marks_wrong, 0, "those of functions found without CFI say so, no others");
	json_decref(doc);
	buf_release(&text);
}

static void test_samples(void)
{
	struct made m;
	struct schema_check check;
	make(&m);
	struct buf text = export_as(&m, "samples", false);
	json_t *doc = parsed(&text, "json"), *frame;
	size_t i, guessed = 0;
	is_str(schema_validate("schema/perfsample-export-1.json", text.data, &check), "", "by the schema");
	is_u64(json_array_size(json_object_get(doc, "samples")), SAMPLES, "all samples");
	json_array_foreach(json_object_get(doc, "frames"), i, frame) {
		const char *via = json_string_value(json_object_get(frame, "via"));
		guessed += via != NULL && (strcmp(via, "fp") == 0 || strcmp(via, "leaf_rule") == 0 || strcmp(via, "code") == 0);
	}
	is_u64(guessed, 2, "two frames found without CFI");
	is_u64((uint64_t)json_integer_value(json_object_get(json_object_get(doc, "totals"), "guessed")), 400, "in that many stacks");
	is_str(json_string_value(json_object_get(json_array_get(json_object_get(doc, "samples"), 0), "end")), "root_guessed", "a guessed root");
	ok(strstr(text.data, "\"name_hex\":\"62fffe3c2f7363726970743e\"") != NULL, "bytes of a name that is not UTF-8");
	json_decref(doc);
	buf_release(&text);
	unmake(&m);
}

// The wire format read back, by what protobuf says of it: field << 3 | wire type, then a varint or a length and bytes.
static bool next_field(struct bytes *b, unsigned *field, uint64_t *number, struct bytes *body)
{
	if (bytes_left(b) == 0 || b->bad)
		return false;
	uint64_t key = bytes_uleb(b);
	*field = (unsigned)(key >> 3);
	*number = bytes_uleb(b);
	*body = (struct bytes){ 0 };
	if ((key & 7) == 2)
		*body = bytes_sub(b, *number);
	else if ((key & 7) != 0)
		b->bad = true;
	return !b->bad;
}

static void test_pprof(const struct made *m)
{
	struct buf text = export_as(m, "pprof", false);
	struct bytes all = bytes_of(text.data, text.size), body, inner;
	static const char *const words[] = { "guessed", "leaf_rule", "fp", "root" };
	unsigned field, sub, guesses = 0;
	uint64_t number, value, count = 0, weight = 0, strings = 0, not_utf8 = 0, first_string = 1, time = 0;
	while (next_field(&all, &field, &number, &body)) {
		if (field == 6) {
			not_utf8 += !utf8_is_valid((const char *)body.at, bytes_left(&body));
			first_string = strings++ == 0 ? bytes_left(&body) : first_string;
			for (size_t i = 0; i < 4; i++)
				guesses |= (unsigned)(bytes_left(&body) == strlen(words[i]) && memcmp(body.at, words[i], strlen(words[i])) == 0) << i;
		}
		if (field == 9)
			time = number;
		while (field == 2 && next_field(&body, &sub, &value, &inner))
			if (sub == 2) {
				count += bytes_uleb(&inner);
				weight += bytes_uleb(&inner);
			}
	}
	ok(!all.bad, "read to its end");
	is_u64(count, SAMPLES, "all samples");
	is_u64(weight, m->weight, "all CPU time");
	is_u64(guesses, 15, "labels for what was guessed");
	is_u64(first_string, 0, "the first string is empty");
	is_u64(not_utf8, 0, "strings are UTF-8");
	is_u64(time, m->profile.meta.start_wall_ns, "the time it was recorded");
	buf_release(&text);
}

// ---------------------------------------------------------------- readers of others

static char *read_by(const struct made *m, const char *format, bool packed, const char *command)
{
	char path[] = "/tmp/perfsample-export-XXXXXX", line[300];
	struct buf text = export_as(m, format, false), bytes = { 0 }, answer = { 0 };
	struct err err = { 0 };
	int fd = mkstemp(path);
	if (packed)
		ok(gzip_pack(&bytes, text.data, text.size, &err), "packed");
	else
		buf_add(&bytes, text.data, text.size);
	ok(fd >= 0 && write(fd, bytes.data, bytes.size) == (ssize_t)bytes.size, "a file of it");
	close(fd);
	snprintf(line, sizeof(line), command, path);
	FILE *pipe = popen(line, "r");
	for (size_t n; pipe != NULL && (n = fread(line, 1, sizeof(line), pipe)) > 0;)
		buf_add(&answer, line, n);
	is_u64((uint64_t)pclose(pipe), 0, "%s is read", format);
	unlink(path);
	buf_text(&answer);
	buf_release(&text);
	buf_release(&bytes);
	return buf_detach(&answer);
}

static void test_foreign(const struct made *m)
{
	if (system("go version >/dev/null 2>&1") == 0) {
		char *raw = read_by(m, "pprof", true, "PPROF_TMPDIR=/tmp go tool pprof -raw %s 2>/dev/null");
		ok(strstr(raw, "samples/count cpu/nanoseconds[dflt]") != NULL, "go tool pprof: the sample types, CPU time by default");
		ok(strstr(raw, "[truncated]") != NULL && strstr(raw, "unwind_end:[no_cfi]") != NULL, "marks and why");
		ok(strstr(raw, "guessed:[leaf_rule]") != NULL && strstr(raw, "guessed:[fp]") != NULL && strstr(raw, "guessed:[root]") != NULL, "and what was guessed");
		ok(strstr(raw, "outer\\x1b[31m") != NULL && strchr(raw, '\x1b') == NULL, "names without controls");
		free(raw);
	} else {
		skip("go is not installed", "go tool pprof reads it");
	}
	if (system("command -v callgrind_annotate >/dev/null") == 0) {
		char *text = read_by(m, "callgrind", false, "callgrind_annotate --show-percs=no --threshold=100 --inclusive=yes %s"), want[64];
		snprintf(want, sizeof(want), "%d,000", SAMPLES / 1000);
		ok(strstr(text, want) != NULL && strstr(text, "PROGRAM TOTALS") != NULL, "callgrind_annotate: the total");
		ok(strstr(text, "main [/usr/bin/app]") != NULL && strstr(text, "[unwind failed]") != NULL && strstr(text, "(anonymous)::sys") != NULL, "functions and marks");
		free(text);
	} else {
		skip("callgrind_annotate is not installed", "it reads callgrind's format");
	}
}

int main(void)
{
	struct made m;
	make(&m);
	test_all(&m);
	test_empty();
	test_speedscope(&m, false);
	test_speedscope(&m, true);
	test_gecko(&m);
	test_chrome(&m);
	test_pprof(&m);
	test_foreign(&m);
	unmake(&m);
	test_samples();
	return tap_done();
}
