#include "cmd/report_missing.h"

#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "cmd/missing_advice.h"
#include "proc/dso.h"
#include "report/missing.h"

enum { LINELESS_SHOWN = 5, PACKAGES_ASKED = 100 };

struct shown { // one image's words
	const char *path, *process; // process: whose anonymous code it is
	const struct build_id *build_id;
	struct buf why, help;
};

static const struct build_id no_build_id;

static struct shown show(const struct packages *packages, const struct profile *profile, const struct missing_image *row)
{
	struct shown shown = { .path = "[no mapping]", .process = profile_text(profile, row->comm), .build_id = &no_build_id };
	if (row->dso != PROFILE_NONE) {
		shown.path = profile_text(profile, profile->dsos.data[row->dso].path);
		shown.build_id = &profile->dsos.data[row->dso].build_id;
		if (profile->dsos.data[row->dso].process != 0)
			shown.process = profile_text(profile, profile->dsos.data[row->dso].process);
	}
	missing_why(profile, row->dso, &shown.why);
	missing_help(packages, profile, row->dso, &shown.help);
	return shown;
}

static void release(struct shown *shown)
{
	buf_release(&shown->why);
	buf_release(&shown->help);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole > 0 ? 100 * (double)part / (double)whole : 0;
}

// Groups of three, as everywhere in our text.
static void grouped(struct buf *out, uint64_t value)
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	for (int i = 0; i < n; i++)
		buf_printf(out, "%s%c", i > 0 && (n - i) % 3 == 0 ? "," : "", digits[i]);
}

// ---------------------------------------------------------------- text

static void image_text(const struct packages *packages, const struct profile *profile, const struct missing_image *row, uint64_t samples, struct buf *out)
{
	struct shown shown = show(packages, profile, row);
	char hex[65];
	buf_printf(out, "%7.2f  %8.2f  %9llu  ", percent(row->self, samples), percent(row->anywhere, samples), (unsigned long long)row->addresses);
	escape_terminal(out, shown.path, strlen(shown.path));
	if (row->dso != PROFILE_NONE && profile->dsos.data[row->dso].kind == DSO_ANON) {
		buf_string(out, " of ");
		escape_terminal(out, shown.process, strlen(shown.process));
		buf_printf(out, "[%u]", profile->dsos.data[row->dso].pid);
	}
	buf_string(out, "\n         why   ");
	escape_terminal(out, buf_text(&shown.why), shown.why.size);
	if (shown.build_id->size > 0)
		buf_printf(out, " (build ID %s)", build_id_hex(shown.build_id, hex));
	if (shown.help.size > 0) {
		buf_string(out, "\n         help  ");
		escape_terminal(out, buf_text(&shown.help), shown.help.size);
	}
	buf_byte(out, '\n');
	release(&shown);
}

static void lineless_text(const struct packages *packages, const struct missing *missing, const struct profile *profile, struct buf *out)
{
	size_t printed = 0;
	for (size_t i = 0; i < missing->lineless.count && printed < LINELESS_SHOWN; i++) {
		const struct profile_dso *dso = &profile->dsos.data[missing->lineless.data[i].dso];
		const char *path = profile_text(profile, dso->path);
		const char *package;
		if (dso->kind != DSO_FILE)
			continue;
		if (printed++ == 0)
			buf_string(out, "\nNo lines and no inlined functions (no debug information):\n self %  file\n");
		buf_printf(out, "%7.2f  ", percent(missing->lineless.data[i].self, missing->samples));
		escape_terminal(out, path, strlen(path));
		if (dso->damage != 0)
			buf_string(out, "  (damaged)");
		else if (packages_of(packages, path, &package) != NULL && package != NULL)
			buf_printf(out, "  (%s)", package);
		buf_byte(out, '\n');
	}
}

static void write_text(const struct packages *packages, const struct missing *missing, const struct profile *profile, struct buf *out)
{
	grouped(out, missing->self);
	buf_string(out, " of ");
	grouped(out, missing->samples);
	buf_printf(out, " samples (%.2f%%) have no name for their innermost function; %.2f%% of stacks lack one somewhere\n",
	           percent(missing->self, missing->samples), percent(missing->anywhere, missing->samples));
	if (missing->bounded > 0)
		buf_printf(out, "%.2f%% are in functions that go by file and start (FILE+0xADDR, as objdump -d FILE shows it), as their bounds alone are known\n",
		           percent(missing->bounded, missing->samples));
	if (missing->images.count > 0)
		buf_string(out, "\n self %  stacks %  addresses  file\n");
	for (size_t i = 0; i < missing->images.count; i++)
		image_text(packages, profile, &missing->images.data[i], missing->samples, out);
	lineless_text(packages, missing, profile, out);
}

// ---------------------------------------------------------------- JSON and TSV

static void json_string(struct buf *out, const char *key, const char *text)
{
	buf_printf(out, "\"%s\":\"", key);
	escape_json(out, text, strlen(text));
	buf_byte(out, '"');
}

static void json_file(struct buf *out, const char *key, const struct profile *profile, uint32_t text)
{
	if (text != 0)
		json_string(out, key, profile_text(profile, text));
	else
		buf_printf(out, "\"%s\":null", key);
}

static void image_json(const struct packages *packages, const struct profile *profile, const struct missing_image *row, uint64_t samples, struct buf *out)
{
	static const struct profile_dso none;
	const struct profile_dso *dso = row->dso != PROFILE_NONE ? &profile->dsos.data[row->dso] : &none;
	struct shown shown = show(packages, profile, row);
	char hex[65];
	buf_byte(out, '{');
	json_string(out, "file", shown.path);
	buf_printf(out, ",\"build_id\":\"%s\",", shown.build_id->size > 0 ? build_id_hex(shown.build_id, hex) : "");
	buf_printf(out, "\"pid\":%u,\"self\":{\"samples\":%llu,\"share\":%.17g},\"bounded\":%llu,\"stacks\":{\"samples\":%llu,\"share\":%.17g},\"addresses\":%llu,", dso->pid,
	           (unsigned long long)row->self, percent(row->self, samples) / 100, (unsigned long long)row->bounded, (unsigned long long)row->anywhere,
	           percent(row->anywhere, samples) / 100, (unsigned long long)row->addresses);
	if (dso->kind == DSO_ANON && dso->pid != 0) {
		json_string(out, "process", shown.process);
		buf_byte(out, ',');
	}
	json_string(out, "why", buf_text(&shown.why));
	buf_byte(out, ',');
	json_string(out, "help", buf_text(&shown.help));
	buf_byte(out, ',');
	json_file(out, "used_file", profile, dso->file);
	buf_byte(out, ',');
	json_file(out, "used_debug_file", profile, dso->debug_file);
	buf_byte(out, '}');
	release(&shown);
}

static void write_json(const struct packages *packages, const struct missing *missing, const struct profile *profile, struct buf *out)
{
	buf_printf(out, "{\"schema\":\"perfsample-missing/1\",\"samples\":%llu,\"self\":%llu,\"bounded\":%llu,\"stacks\":%llu,\"images\":[",
	           (unsigned long long)missing->samples, (unsigned long long)missing->self, (unsigned long long)missing->bounded,
	           (unsigned long long)missing->anywhere);
	for (size_t i = 0; i < missing->images.count; i++) {
		buf_string(out, i > 0 ? "," : "");
		image_json(packages, profile, &missing->images.data[i], missing->samples, out);
	}
	buf_string(out, "],\"without_lines\":[");
	bool is_first = true;
	for (size_t i = 0; i < missing->lineless.count; i++) {
		const struct profile_dso *dso = &profile->dsos.data[missing->lineless.data[i].dso];
		if (dso->kind != DSO_FILE)
			continue;
		buf_string(out, is_first ? "{" : ",{");
		json_string(out, "file", profile_text(profile, dso->path));
		buf_printf(out, ",\"samples\":%llu}", (unsigned long long)missing->lineless.data[i].self);
		is_first = false;
	}
	buf_string(out, "]}\n");
}

static void write_tsv(const struct packages *packages, const struct missing *missing, const struct profile *profile, struct buf *out)
{
	buf_string(out, "file\tbuild_id\tself.samples\tself.share\tstacks.samples\tstacks.share\taddresses\twhy\thelp\tself.bounded\n");
	for (size_t i = 0; i < missing->images.count; i++) {
		const struct missing_image *row = &missing->images.data[i];
		struct shown shown = show(packages, profile, row);
		char hex[65];
		escape_tsv(out, shown.path, strlen(shown.path));
		buf_printf(out, "\t%s\t%llu\t%.17g\t%llu\t%.17g\t%llu\t", shown.build_id->size > 0 ? build_id_hex(shown.build_id, hex) : "",
		           (unsigned long long)row->self, percent(row->self, missing->samples) / 100, (unsigned long long)row->anywhere,
		           percent(row->anywhere, missing->samples) / 100, (unsigned long long)row->addresses);
		escape_tsv(out, buf_text(&shown.why), shown.why.size);
		buf_byte(out, '\t');
		escape_tsv(out, buf_text(&shown.help), shown.help.size);
		buf_printf(out, "\t%llu\n", (unsigned long long)row->bounded);
		release(&shown);
	}
}

// For all files that a package's debug information would help.
static void ask_packages(struct packages *packages, const struct missing *missing, const struct profile *profile)
{
	for (size_t i = 0, asked = 0; i < missing->images.count && asked < PACKAGES_ASKED; i++) {
		uint32_t dso = missing->images.data[i].dso;
		if (dso != PROFILE_NONE && profile->dsos.data[dso].kind == DSO_FILE && ++asked)
			packages_add(packages, profile_text(profile, profile->dsos.data[dso].path));
	}
	for (size_t i = 0, asked = 0; i < missing->lineless.count && asked < LINELESS_SHOWN; i++) {
		const struct profile_dso *dso = &profile->dsos.data[missing->lineless.data[i].dso];
		if (dso->kind == DSO_FILE && ++asked)
			packages_add(packages, profile_text(profile, dso->path));
	}
	packages_ask(packages);
}

void report_missing(const struct profile *profile, const struct report_filter *filter, const char *format, struct buf *out)
{
	struct missing missing = { 0 };
	struct packages packages = { 0 };
	missing_build(&missing, profile, filter);
	ask_packages(&packages, &missing, profile);
	if (strcmp(format, "json") == 0)
		write_json(&packages, &missing, profile, out);
	else if (strcmp(format, "tsv") == 0)
		write_tsv(&packages, &missing, profile, out);
	else
		write_text(&packages, &missing, profile, out);
	packages_release(&packages);
	missing_release(&missing);
}
