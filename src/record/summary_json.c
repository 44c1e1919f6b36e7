// `perfsample-record/1`: what the closing summary says, for machines.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/escape.h"
#include "record/ledger.h"
#include "record/summary.h"

// JSON strings are UTF-8; names are another's data.
static json_t *text_or_null(const char *text)
{
	if (text == NULL)
		return json_null();
	struct buf repaired = { 0 };
	escape_repair(&repaired, text, strlen(text));
	json_t *string = json_stringn(buf_text(&repaired), repaired.size);
	buf_release(&repaired);
	return string;
}

static json_t *time_text(uint64_t wall_ns)
{
	char text[64];
	time_t seconds = (time_t)(wall_ns / 1000000000u);
	struct tm tm;
	gmtime_r(&seconds, &tm);
	size_t used = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + used, sizeof(text) - used, ".%03uZ", (unsigned)(wall_ns / 1000000u % 1000));
	return json_string(text);
}

static json_t *texts(const char *const *items, size_t count)
{
	json_t *array = json_array();
	for (size_t i = 0; i < count && items[i] != NULL; i++)
		json_array_append_new(array, text_or_null(items[i]));
	return array;
}

static json_t *event_json(const struct summary_event *event)
{
	json_t *sampling = json_object();
	if (event->is_freq) {
		json_object_set_new(sampling, "kind", json_string("frequency"));
		json_object_set_new(sampling, "hz", json_integer((json_int_t)event->frequency));
	} else {
		json_object_set_new(sampling, "kind", json_string("period"));
		json_object_set_new(sampling, event->is_clock ? "period_ns" : "period", json_integer((json_int_t)event->period));
	}
	double silent = event->expected - (double)(event->taken + event->idle_unsampled + event->others + event->lost + event->dropped);
	json_t *samples = json_pack("{s:I, s:I, s:I, s:I, s:I}", "taken", (json_int_t)(event->taken - event->idle), "idle",
	                            (json_int_t)(event->idle + event->idle_unsampled),
	                            "others", (json_int_t)event->others, "lost", (json_int_t)event->lost, "dropped", (json_int_t)event->dropped);
	json_object_set_new(samples, "idle_unsampled", json_integer((json_int_t)event->idle_unsampled));
	json_object_set_new(samples, "expected", event->expected < 0 ? json_null() : json_integer((json_int_t)event->expected));
	json_object_set_new(samples, "begun", event->expected < 0 ? json_null() : json_integer((json_int_t)event->begun));
	json_object_set_new(samples, "silent", event->expected < 0 ? json_null() : json_integer((json_int_t)silent));
	return json_pack("{s:o, s:o, s:o, s:I, s:o}", "name", text_or_null(event->name), "because", text_or_null(event->because), "sampling", sampling,
	                 "time_running_ns", (json_int_t)event->running_ns, "samples", samples);
}

static json_t *target_json(const struct summary *summary)
{
	json_t *ids = json_array();
	for (size_t i = 0; i < summary->ids.count; i++)
		json_array_append_new(ids, json_integer(summary->ids.data[i]));
	return json_pack("{s:s, s:o, s:o, s:i, s:i, s:i}", "kind", summary->target_kind, "ids", ids, "comm", text_or_null(summary->comm), "threads",
	                 (int)summary->threads, "processes", (int)summary->processes,
	                 "processes_seen", (int)(summary->processes_seen > summary->processes ? summary->processes_seen : summary->processes));
}

static json_t *stacks_json(const struct summary *summary, json_t **ends)
{
	*ends = json_object();
	for (size_t i = 0; i < summary->end_count; i++)
		if (summary->ends[i] > 0)
			json_object_set_new(*ends, summary->end_names[i], json_integer((json_int_t)summary->ends[i]));
	json_object_set_new(*ends, "splices", json_pack("{s:I, s:I}", "exact", (json_int_t)summary->splices_exact, "checked",
	                                                (json_int_t)summary->splices_checked));
	return json_pack("{s:I, s:I, s:I, s:I}", "complete", (json_int_t)summary->complete, "joined", (json_int_t)summary->joined, "truncated",
	                 (json_int_t)summary->truncated, "failed", (json_int_t)summary->failed);
}

static json_t *cost_json(const struct summary *summary)
{
	const struct cost *cost = &summary->cost;
	if (!summary->wants_cost || summary->cost_refusal != NULL)
		return json_null();
	return json_pack("{s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:o, s:f, s:{s:I, s:I}}", "others_seconds", cost_others_s(cost), "tick_us", cost->unit.tick_ns / 1e3, "copy_us_per_kib",
	                 cost->unit.copy_ns_per_kib / 1e3, "samples", (json_int_t)cost->ticks, "copied_kib", cost->copied_kib, "drain_us_per_sample",
	                 cost_drain_us(cost), "target_seconds", cost_target_s(cost), "target_share",
	                 cost->target_cpu_s > 0 ? json_real(cost_target_s(cost) / cost->target_cpu_s) : json_null(), "recorder_cpu_seconds",
	                 cost->recorder_cpu_s, "calibration", "rounds", (json_int_t)cost->unit.rounds, "samples", (json_int_t)cost->unit.samples);
}

static void add_caveat(void *context, const char *event, enum caveat_code code, double value, enum verdict verdict, const char *text)
{
	json_array_append_new(context, json_pack("{s:s, s:o, s:f, s:b, s:o}", "code", caveat_name(code), "text", text_or_null(text), "value", value, "care",
	                                         (int)(verdict != VERDICT_SOUND), "event", text_or_null(event)));
}

void summary_json(const struct summary *summary, struct buf *out)
{
	json_t *events = json_array(), *ends;
	for (size_t i = 0; i < summary->events.count; i++)
		json_array_append_new(events, event_json(&summary->events.data[i]));
	json_t *stacks = stacks_json(summary, &ends);
	uint64_t end_ns = summary->start_wall_ns + (uint64_t)(summary->seconds * 1e9);
	json_t *window = json_pack("{s:o, s:o, s:f, s:o, s:o}", "start", time_text(summary->start_wall_ns), "end", time_text(end_ns), "seconds",
	                           summary->seconds, "host", text_or_null(summary->host), "kernel", text_or_null(summary->kernel));
	json_t *doc = json_object();
	json_object_set_new(doc, "schema", json_string("perfsample-record/1"));
	json_object_set_new(doc, "tool", json_string(PERFSAMPLE_VERSION));
	json_object_set_new(doc, "argv", texts(summary->argv, SIZE_MAX));
	json_object_set_new(doc, "target", target_json(summary));
	json_object_set_new(doc, "window", window);
	json_object_set_new(doc, "verdict", json_string(verdict_name(summary_verdict(summary))));
	json_t *caveats = json_array();
	summary_caveats(summary, add_caveat, caveats);
	json_object_set_new(doc, "caveats", caveats);
	json_object_set_new(doc, "lost_share", json_real(summary_lost_share(summary)));
	json_object_set_new(doc, "cpu_seconds", summary->has_cpu_seconds ? json_real(summary->cpu_seconds) : json_null());
	json_object_set_new(doc, "events", events);
	json_object_set_new(doc, "stacks", stacks);
	json_object_set_new(doc, "stack_ends", ends);
	if (summary->uncopied != NULL)
		json_object_set_new(doc, "uncopied", json_pack("{s:I, s:I, s:I}", "tagged", (json_int_t)summary->uncopied[UNCOPIED_TAGGED], "no_room",
		                                               (json_int_t)summary->uncopied[UNCOPIED_NO_ROOM], "absent",
		                                               (json_int_t)summary->uncopied[UNCOPIED_ABSENT]));
	json_object_set_new(doc, "shortened", json_integer((json_int_t)summary->shortened));
	json_object_set_new(doc, "set_aside", json_integer((json_int_t)summary->set_aside));
	json_object_set_new(doc, "sideband_lost", json_integer((json_int_t)summary->sideband_lost));
	json_object_set_new(doc, "throttled_seconds", json_real(summary->throttled_seconds));
	json_object_set_new(doc, "unseen_exit_seconds", summary->unseen_seconds > 0 ? json_real(summary->unseen_seconds) : json_null());
	json_object_set_new(doc, "stood_still", json_pack("{s:I, s:I}", "times", (json_int_t)summary->stuck_times, "lost", (json_int_t)summary->stuck_lost));
	json_object_set_new(doc, "stack_copy_bytes", json_integer(summary->stack_bytes));
	json_object_set_new(doc, "overhead", json_pack("{s:f, s:f}", "recorder_cpu_seconds", summary->recorder_cpu_seconds, "share_of_one_cpu",
	                                               summary->recorder_share));
	if (summary->wants_cost)
		json_object_set_new(doc, "cost", cost_json(summary));
	json_object_set_new(doc, "decisions", texts(summary->decisions.data, summary->decisions.count));
	json_object_set_new(doc, "ended_by", text_or_null(summary->end));
	json_object_set_new(doc, "file", json_pack("{s:o, s:I, s:b, s:b}", "path", text_or_null(summary->path), "bytes", (json_int_t)summary->bytes,
	                                           "names_inside", (int)summary->names_inside, "gone", (int)summary->is_gone));
	json_object_set_new(doc, "command_status", summary->command_status < 0 ? json_null() : json_integer(summary->command_status));
	json_object_set_new(doc, "own_status", json_integer(summary->own_status));
	char *text = json_dumps(doc, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
	if (text != NULL)
		buf_printf(out, "%s\n", text);
	free(text);
	json_decref(doc);
}
