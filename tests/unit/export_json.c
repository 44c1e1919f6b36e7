// JSON and TSV: by the schema, the same bytes for the same input, hostile names, no NaN, and numbers that can be recomputed.
#include "tests/tap.h"

#include "base/escape.h"
#include "export/exporter.h"
#include "tests/json_schema.h"
#include "tests/synthetic.h"

static const char SCHEMA[] = "schema/perfsample-report-1.json";

static char *export_as(const char *format, const struct profile *p, const struct report_options *options)
{
	struct report report;
	struct err err = { 0 };
	struct buf out = { 0 };
	if (!ok(report_build(&report, p, options, &err), "the model is built"))
		diag("%s", err.text);
	struct export_input input = { .profile = p, .report = &report };
	ok(exporter_find(format)->write(&input, &out, &err), "%s is written", format);
	report_release(&report);
	char *text = buf_detach(&out);
	if (text == NULL)
		exit(1);
	return text;
}

static void hostile_profile(struct profile *p)
{
	syn_init(p, 30);
	p->meta.host = intern_string(&p->names, "h\"o\\st\n");
	p->meta.start_wall_ns = 1796047331123456789u;
	vec_push(&p->meta.argv, intern_string(&p->names, "a\x01rg"));
	uint32_t root = syn_function(p, "main", "app"), bad = syn_function(p, "b\xff\xfe", "app"), esc = syn_function(p, "\x1b[31m</script>\t", "li\nb.so");
	uint32_t a = syn_stack(p, root, bad, PROFILE_NONE), b = syn_stack(p, root, esc, PROFILE_NONE);
	for (int i = 0; i < 2000; i++) {
		syn_sample(p, i * 0.015, i % 3 == 0 ? a : b, 1 + i % 4);
		if (i % 50 == 0)
			syn_last(p, end, i % 100 == 0 ? UNWIND_TRUNCATED : UNWIND_NO_CFI);
		syn_last(p, comm, intern_string(&p->names, i % 2 ? "sh\x07\xc3" : "ok"));
	}
	vec_push(&p->losses, (struct profile_loss){ .from_ns = p->meta.start_ns + 3000000000u, .to_ns = p->meta.start_ns + 4000000000u, .count = 30 });
	syn_account(p, 30, 2);
	struct profile_event counter = { .name = intern_string(&p->names, "instructions"), .samples_of = 0, .value = 12345678901234u };
	vec_push(&p->events, counter);
}

static void test_hostile(void)
{
	struct profile p;
	struct schema_check check;
	hostile_profile(&p);
	struct report_options options = report_defaults();
	char *first = export_as("json", &p, &options), *again = export_as("json", &p, &options);
	is_str(first, again, "the same input gives the same bytes");
	is_str(schema_validate(SCHEMA, first, &check), "", "by the schema");
	ok(strstr(first, "nan") == NULL && strstr(first, "inf") == NULL, "no NaN");
	ok(strchr(first, '\x1b') == NULL && strchr(first, '\x07') == NULL, "no control characters");
	ok(utf8_is_valid(first, strlen(first)), "valid UTF-8");
	json_error_t error;
	json_t *doc = json_loads(first, 0, &error), *event = json_array_get(json_object_get(doc, "events"), 0), *samples = json_object_get(event, "samples");
	double sum = 0;
	static const char *const parts[] = { "taken", "idle", "others", "lost", "silent" };
	for (size_t i = 0; i < 5; i++)
		sum += json_number_value(json_object_get(samples, parts[i]));
	ok(sum == json_number_value(json_object_get(samples, "expected")) && sum == 2032, "taken + idle + others + lost + silent = expected");
	json_t *stacks = json_object_get(event, "stacks");
	json_int_t all = json_integer_value(json_object_get(stacks, "complete")) + json_integer_value(json_object_get(stacks, "joined"))
		+ json_integer_value(json_object_get(stacks, "truncated")) + json_integer_value(json_object_get(stacks, "failed"));
	is_u64((unsigned long long)all, 2000, "complete + joined + truncated + failed = taken");
	json_t *function, *found = NULL;
	size_t i;
	json_array_foreach(json_object_get(event, "functions"), i, function)
		if (json_object_get(function, "name_hex") != NULL)
			found = function;
	is_str(json_string_value(json_object_get(found, "symbol")), "b\xef\xbf\xbd\xef\xbf\xbd", "a broken name is repaired");
	is_str(json_string_value(json_object_get(found, "name_hex")), "62fffe", "and stands beside in hex");
	json_t *self = json_object_get(found, "self"), *run = json_object_get(self, "run");
	struct interval ci = clopper_pearson(667, 2000, 0.95);
	is_close(json_number_value(json_array_get(run, 0)), ci.lo, 1e-15, "numbers are not rounded");
	is_close(json_number_value(json_object_get(json_object_get(samples, "worst_second"), "at")), 3, 0, "worst second");
	json_t *counter = json_array_get(json_object_get(doc, "events"), 1);
	ok(json_number_value(json_object_get(json_object_get(counter, "samples"), "taken")) == 0
	   && strcmp(json_string_value(json_object_get(counter, "samples_of")), "cpu-clock") == 0, "a group member that does not sample says whose samples");
	json_decref(doc);
	free(first);
	free(again);

	uint8_t keys[] = { KEY_COMM, KEY_TID, KEY_CPU, KEY_PID, KEY_SYMBOL, KEY_SRCLINE, KEY_EVENT };
	options.keys.data = keys;
	options.keys.count = sizeof(keys);
	options.top = 2;
	options.calls = CALLS_CALLER;
	first = export_as("json", &p, &options);
	is_str(schema_validate(SCHEMA, first, &check), "", "every key, callers, --top: by the schema");
	ok(strstr(first, "\"omitted\":") != NULL && strstr(first, "\"comm_hex\":\"736807c3\"") != NULL, "what --top leaves out is told");
	free(first);

	first = export_as("tsv", &p, &options);
	size_t lines = 0, tabs = 0, header_tabs = 0;
	bool even = true;
	for (const char *c = first; *c != '\0'; c++) {
		tabs += *c == '\t';
		if (*c != '\n')
			continue;
		header_tabs = lines++ == 0 ? tabs : header_tabs;
		even = even && tabs == header_tabs;
		tabs = 0;
	}
	is_u64(lines, 3, "TSV: header and two rows");
	ok(even && header_tabs > 20, "every line has as many columns as the header");
	ok(strchr(first, '\x1b') == NULL && strstr(first, "\\x1b") != NULL, "TSV escapes control characters");
	free(first);
	profile_release(&p);
}

static void test_empty(void)
{
	struct profile p;
	struct schema_check check;
	syn_init(&p, 0);
	p.meta.start_ns = p.meta.end_ns = 0;
	struct report_options options = report_defaults();
	char *text = export_as("json", &p, &options);
	is_str(schema_validate(SCHEMA, text, &check), "", "no samples at all: by the schema");
	free(text);
	p.events.count = 0;
	text = export_as("json", &p, &options);
	is_str(schema_validate(SCHEMA, text, &check), "", "no events at all: by the schema");
	free(text);
	profile_release(&p);
}

static void test_checker(void)
{
	struct schema_check check;
	ok(schema_validate(SCHEMA, "{\"schema\":\"perfsample-report/2\"}", &check)[0] != '\0', "the checker sees a wrong document");
	ok(schema_validate(SCHEMA, "{", &check)[0] != '\0', "and one that is no JSON");
}

int main(void)
{
	test_hostile();
	test_empty();
	test_checker();
	return tap_done();
}
