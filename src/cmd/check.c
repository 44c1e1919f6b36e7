// perfsample check [-p PID | --container ID]: what can be recorded here, and what to type.
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/escape.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/check.h"

struct check_line *check_add(struct check *check, const char *code, const char *title, enum answer answer, char *text, char *fix)
{
	vec_push(&check->lines, (struct check_line){ .code = code, .title = title, .answer = answer, .text = text, .fix = fix });
	return &check->lines.data[check->lines.count - 1];
}

const char *check_count(uint64_t count, char text[32])
{
	char plain[24];
	size_t length = (size_t)snprintf(plain, sizeof(plain), "%" PRIu64, count), used = 0;

	for (size_t i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			text[used++] = ',';
		text[used++] = plain[i];
	}
	text[used] = '\0';
	return text;
}

static bool can_record(const struct check *check)
{
	for (size_t i = 0; i < check->lines.count; i++)
		if (check->lines.data[i].is_needed && check->lines.data[i].answer == ANSWER_NO)
			return false;
	return true;
}

static char *record_command(const struct check_target *target)
{
	if (target == NULL)
		return mem_string("perfsample record -- CMD");
	if (target->is_container)
		return mem_printf("perfsample record --container %s --duration 30s", target->container);
	return mem_printf("perfsample record -p %" PRId32 " --duration 30s", target->pid);
}

// ---------------------------------------------------------------- text

enum { TITLE_COLUMN = 5, TEXT_COLUMN = 31, LEAST_COLUMNS = 70 };

// Text from column `indent` on, wrapped between words; the first line stands where the cursor is.
static void wrapped(struct buf *out, const char *text, size_t indent, size_t columns)
{
	size_t at = indent;

	for (const char *word = text; *word != '\0';) {
		size_t length = strcspn(word, " ");
		if (at > indent && at + 1 + length > columns) {
			buf_printf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (at > indent) {
			buf_byte(out, ' ');
			at++;
		}
		buf_add(out, word, length);
		at += length;
		word += length;
		word += *word == ' ';
	}
	buf_byte(out, '\n');
}

static void text_line(struct buf *out, const struct check_line *line, size_t columns)
{
	static const char *const answers[] = { [ANSWER_NO] = "no", [ANSWER_YES] = "yes", [ANSWER_NOTE] = "-" };
	struct buf safe = { 0 };

	buf_printf(out, "%-4s %-*s ", answers[line->answer], TEXT_COLUMN - TITLE_COLUMN - 1, line->title);
	escape_terminal(&safe, line->text, strlen(line->text));
	wrapped(out, buf_text(&safe), TEXT_COLUMN, columns);
	if (line->fix != NULL) {
		buf_printf(out, "%*s", TITLE_COLUMN, "");
		buf_clear(&safe);
		buf_string(&safe, "-> ");
		escape_terminal(&safe, line->fix, strlen(line->fix));
		wrapped(out, buf_text(&safe), TITLE_COLUMN + 3, columns);
	}
	buf_release(&safe);
}

static void print_text(const struct check *check, const struct check_target *target, struct buf *out)
{
	size_t columns, rows;
	char *command = record_command(target);

	terminal_size(&columns, &rows);
	if (columns < LEAST_COLUMNS)
		columns = LEAST_COLUMNS;
	for (size_t i = 0; i < check->lines.count; i++)
		text_line(out, &check->lines.data[i], columns);
	if (can_record(check))
		buf_printf(out, "%s\n", command);
	free(command);
}

// ---------------------------------------------------------------- JSON

static json_t *json_text(const char *text)
{
	struct buf safe = { 0 };

	escape_repair(&safe, text, strlen(text));
	json_t *value = json_string(buf_text(&safe));
	buf_release(&safe);
	return value != NULL ? value : json_null();
}

static json_t *json_target(const struct check_target *target)
{
	json_t *ids = json_array();

	for (size_t i = 0; i < target->pids.ids.count; i++)
		json_array_append_new(ids, json_integer(target->pids.ids.data[i]));
	return json_pack("{s:s, s:o, s:o, s:f, s:f, s:f, s:f}", "kind", target->is_container ? "container" : "pid", "ids", ids, "comm",
	                 json_text(target->status.comm), "cpus_busy", target->cpus_busy, "samples_per_second", target->samples_per_second,
	                 "megabytes_per_second", target->megabytes_per_second, "recorder_cpu_share", target->recorder_cpu_share);
}

static void print_json(const struct check *check, const struct check_target *target, struct buf *out)
{
	struct utsname host;
	json_t *lines = json_array();
	char *command = record_command(target);

	uname(&host);
	for (size_t i = 0; i < check->lines.count; i++) {
		const struct check_line *line = &check->lines.data[i];
		json_t *ok = line->answer == ANSWER_NOTE ? json_null() : json_boolean(line->answer == ANSWER_YES);
		json_array_append_new(lines, json_pack("{s:s, s:s, s:o, s:b, s:o, s:o}", "code", line->code, "title", line->title, "ok", ok, "needed",
		                                       (int)line->is_needed, "text", json_text(line->text), "fix",
		                                       line->fix != NULL ? json_text(line->fix) : json_null()));
	}
	json_t *root = json_pack("{s:s, s:s, s:o, s:o, s:i, s:b, s:o, s:o, s:o}", "schema", "perfsample-check/1", "tool", "perfsample " PERFSAMPLE_VERSION,
	                         "kernel", json_text(host.release), "machine", json_text(host.machine), "cpus", (int)check->cpu_count, "can_record",
	                         (int)can_record(check), "target", target != NULL ? json_target(target) : json_null(), "checks", lines, "command",
	                         can_record(check) ? json_text(command) : json_null());
	char *text = json_dumps(root, JSON_INDENT(2));
	buf_string(out, text != NULL ? text : "");
	buf_byte(out, '\n');
	free(text);
	json_decref(root);
	free(command);
}

// ---------------------------------------------------------------- the command

enum { OPT_PID = 1, OPT_CONTAINER, OPT_FORMAT };

static const struct option options[] = {
	{ 'p', "pid", "PID", "this process: permission, unwind tables, names, namespaces, what to expect", 0, OPT_PID, NULL, "pid" },
	{ 0, "container", "ID", "the container or pod whose ID begins so", 0, OPT_CONTAINER, NULL, NULL },
	{ 0, "format", "FORMAT", "text (the default) or json", 0, OPT_FORMAT, NULL, "text|json" },
	{ 0 },
};

struct choices { const char *pid, *container; bool is_json; };

static bool parse(int argc, char **argv, struct choices *out, struct err *err)
{
	struct option_parser parser;
	struct option_value value;

	option_parser_init(&parser, options, argc, argv, false);
	while (option_next(&parser, &value, err)) {
		if (value.id == OPT_PID)
			out->pid = value.value;
		else if (value.id == OPT_CONTAINER)
			out->container = value.value;
		else if (value.id == OPT_FORMAT && strcmp(value.value, "json") != 0 && strcmp(value.value, "text") != 0)
			return err_set(err, STATUS_USAGE, "%s: '%s' is neither text nor json", value.spelled, value.value);
		else if (value.id == OPT_FORMAT)
			out->is_json = strcmp(value.value, "json") == 0;
	}
	if (err->status != STATUS_OK)
		return false;
	if (parser.next < argc)
		return err_set(err, STATUS_USAGE, "check takes no operand: '%s' (for a process: -p PID)", argv[parser.next]);
	if (out->pid != NULL && out->container != NULL)
		return err_set(err, STATUS_USAGE, "-p and --container exclude each other");
	return true;
}

static bool target_of_pid(struct check_target *target, const char *text, struct err *err)
{
	uint64_t pid;

	if (!value_u64(text, 1, INT32_MAX, "-p", &pid, err))
		return false;
	target->pid = (int32_t)pid;
	if (procfs_status(target->pid, &target->status)) {
		// A thread's number is taken for its process, as in /proc.
		target->pid = target->status.tgid;
		procfs_status(target->pid, &target->status);
		vec_push(&target->pids.ids, target->pid);
		return true;
	}
	struct procfs_ids inner = { 0 };
	if (procfs_pids_of_ns_pid((int32_t)pid, &inner)) {
		struct buf list = { 0 };
		for (size_t i = 0; i < inner.ids.count && i < 8; i++)
			buf_printf(&list, " %" PRId32, inner.ids.data[i]);
		err_set(err, STATUS_USAGE, "no process here has the pid %s; in a pid namespace of its own it is the pid of:%s", text, buf_text(&list));
		buf_release(&list);
	} else {
		err_set(err, STATUS_USAGE, "no process has the pid %s", text);
	}
	vec_release(&inner.ids);
	return false;
}

static bool target_of_container(struct check_target *target, const char *id, struct err *err)
{
	char path[4096];
	struct cgroup cgroup;

	if (!cgroup_find_container(id, path, sizeof(path), err) || !cgroup_open(&cgroup, path, err))
		return false;
	bool good = cgroup_pids(&cgroup, &target->pids) && target->pids.ids.count > 0 && target->pids.ids.data[target->pids.ids.count - 1] > 0;
	cgroup_remove(&cgroup);
	if (!good)
		return err_set(err, STATUS_USAGE, "container %s has no process that is to be seen here", id);
	size_t first = 0;
	while (target->pids.ids.data[first] <= 0)
		first++; // outside our pid namespace
	target->is_container = true;
	target->container = id;
	target->pid = target->pids.ids.data[first];
	return procfs_status(target->pid, &target->status) || err_set(err, STATUS_USAGE, "container %s has just ended", id);
}

static int run(int argc, char **argv)
{
	struct choices choices = { 0 };
	struct err err = { 0 };
	struct check check = { 0 };
	struct check_target target = { 0 };
	struct buf out = { 0 };

	bool good = parse(argc, argv, &choices, &err);
	if (good && choices.pid != NULL)
		good = target_of_pid(&target, choices.pid, &err);
	else if (good && choices.container != NULL)
		good = target_of_container(&target, choices.container, &err);
	good = good && procfs_online_cpus(&check.cpus, &check.cpu_count, &err);
	int status = err.status;
	if (good) {
		bool has_target = choices.pid != NULL || choices.container != NULL;
		check_host(&check);
		if (has_target)
			check_target(&check, &target);
		(choices.is_json ? print_json : print_text)(&check, has_target ? &target : NULL, &out);
		status = can_record(&check) ? STATUS_OK : STATUS_NO;
		if (!output_write(out.data, out.size, &err))
			status = err.status;
	}
	if (err.status != STATUS_OK)
		log_error("check: %s", err.text);
	for (size_t i = 0; i < check.lines.count; i++) {
		free(check.lines.data[i].text);
		free(check.lines.data[i].fix);
	}
	vec_release(&check.lines);
	vec_release(&target.pids.ids);
	free(check.cpus);
	buf_release(&out);
	return status;
}

static const char *const usages[] = { "perfsample check [-p PID | --container ID] [--format text|json]", NULL };
const struct command command_check = {
	.name = "check", .summary = "what can be recorded here, and what to type", .usages = usages, .options = options, .run = run,
	.description = "Says, a line each, whether this host allows and can count what a recording needs, and the command that changes it where it does not. "
	               "With -p or --container also whether that target may be sampled, unwound and named, and what its recording will cost. The last line "
	               "is the command to paste. Status 1: it cannot be recorded.",
};
