// perfsample list: the events this host has, by kind.
#include <fnmatch.h>
#include <jansson.h>
#include <string.h>

#include "base/escape.h"
#include "base/log.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "perf/event_spec.h"

enum { ID_NAMES = 1, ID_FORMAT };

struct listing {
	const char *kind;           // of the source that is asked now
	const char *const *patterns; // NULL-terminated; none: everything
	struct buf out;
	json_t *events;             // with --format json
	bool names_only;
	size_t count;
	const char *printed_kind;
};

static bool is_wanted(const struct listing *l, const char *name)
{
	if (*l->patterns == NULL)
		return true;
	for (const char *const *p = l->patterns; *p != NULL; p++) {
		bool is_glob = strpbrk(*p, "*?[") != NULL;
		if (is_glob ? fnmatch(*p, name, FNM_CASEFOLD) == 0 : strcasestr(name, *p) != NULL || strcasecmp(*p, l->kind) == 0)
			return true;
	}
	return false;
}

static json_t *text_json(const char *text)
{
	struct buf repaired = { 0 };
	escape_repair(&repaired, text, strlen(text));
	json_t *value = json_string(buf_text(&repaired));
	buf_release(&repaired);
	return value;
}

static void add(const char *name, const char *description, void *context)
{
	struct listing *l = context;
	if (!is_wanted(l, name))
		return;
	l->count++;
	if (l->events != NULL) {
		json_t *event = json_object();
		json_object_set_new(event, "name", text_json(name));
		json_object_set_new(event, "kind", json_string(l->kind));
		json_object_set_new(event, "description", text_json(description != NULL ? description : ""));
		json_array_append_new(l->events, event);
		return;
	}
	if (!l->names_only && l->printed_kind != l->kind) {
		buf_printf(&l->out, "%s%s:\n", l->printed_kind != NULL ? "\n" : "", l->kind);
		l->printed_kind = l->kind;
	}
	struct buf escaped = { 0 };
	escape_terminal(&escaped, name, strlen(name));
	if (l->names_only)
		buf_printf(&l->out, "%s\n", buf_text(&escaped));
	else if (description == NULL || *description == '\0')
		buf_printf(&l->out, "  %s\n", buf_text(&escaped));
	else
		buf_printf(&l->out, "  %-34s ", buf_text(&escaped));
	if (!l->names_only && description != NULL && *description != '\0') {
		escape_terminal(&l->out, description, strlen(description));
		buf_byte(&l->out, '\n');
	}
	buf_release(&escaped);
}

static bool list(struct listing *l, bool is_json, struct err *err)
{
	if (is_json)
		l->events = json_array();
	for (const struct event_source *const *source = event_sources; *source != NULL; source++) {
		l->kind = (*source)->name;
		if ((*source)->list != NULL)
			(*source)->list(&event_host_here, add, l);
	}
	if (is_json) {
		json_t *document = json_object();
		json_object_set_new(document, "schema", json_string("perfsample-list/1"));
		json_object_set_new(document, "events", l->events);
		char *text = json_dumps(document, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
		buf_printf(&l->out, "%s\n", text);
		free(text);
		json_decref(document);
	}
	if (l->count == 0 && *l->patterns != NULL && !is_json)
		return err_set(err, STATUS_NO, "no event of this host is like '%s'", *l->patterns);
	return output_write(l->out.data, l->out.size, err);
}

static const struct option options[] = {
	{ 0, "names", NULL, "names alone, one a line", 0, ID_NAMES, "Options", NULL },
	{ 0, "format", "FORMAT", "text or json", 0, ID_FORMAT, NULL, "text|json" },
	{ 0 },
};

static int run(int argc, char **argv)
{
	struct listing l = { 0 };
	struct option_parser parser;
	struct option_value value;
	struct err err = { 0 };
	bool is_json = false;
	option_parser_init(&parser, options, argc, argv, false);
	while (option_next(&parser, &value, &err)) {
		if (value.id == ID_NAMES)
			l.names_only = true;
		else if (strcmp(value.value, "json") == 0)
			is_json = true;
		else if (strcmp(value.value, "text") != 0) {
			err_set(&err, STATUS_USAGE, "--format: '%s' is neither text nor json", value.value);
			break;
		}
	}
	l.patterns = (const char *const *)argv + parser.next; // argv ends with NULL
	bool is_done = err.status == STATUS_OK && list(&l, is_json, &err);
	if (!is_done)
		log_error("list: %s", err.text);
	buf_release(&l.out);
	return is_done ? STATUS_OK : (int)err.status;
}

static const char *const usages[] = { "perfsample list [PATTERN…]", NULL };
const struct command command_list = {
	.name = "list", .summary = "the events this host has", .usages = usages, .options = options, .run = run,
	.description = "Lists the events that record -e takes here, by kind: software, hardware, cache, PMU terms of sysfs, tracepoints. A PATTERN "
	               "is part of a name, a kind, or a glob like 'sched:*'. Raw events (rNNN), breakpoints (mem:ADDR) and terms "
	               "(PMU/term=value/) go without saying.",
};
