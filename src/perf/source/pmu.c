// PMU/term=value,…/ with the formats and event aliases that sysfs names; an alias of a core PMU alone, too.
// Documentation/ABI/testing/sysfs-bus-event_source-devices-format and -events.
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/closest.h"
#include "perf/event_spec.h"
#include "perf/sysfs.h"

enum { TERM_BYTES = 128, ALIAS_DEPTH = 3 };

struct terms { // what is being filled
	const char *pmu, *word; // word: the whole event, for messages
	struct event_spec *spec;
	struct err *err;
};

static void offer(const char *name, void *context)
{
	closest_offer(context, name);
}

static bool bad_term(const struct terms *t, const char *term, const char *why)
{
	return err_set(t->err, STATUS_USAGE, "event '%s': %s '%s'", t->word, why, term);
}

static bool unknown_term(const struct terms *t, const char *term)
{
	static const char *const own[] = { "config", "config1", "config2", "period", "freq", "name", NULL };
	struct closest closest;
	closest_init(&closest, term);
	sysfs_each(t->spec->host, t->pmu, "format", offer, &closest);
	sysfs_each(t->spec->host, t->pmu, "events", offer, &closest);
	for (const char *const *o = own; *o != NULL; o++)
		closest_offer(&closest, *o);
	if (closest.found[0] != '\0')
		return err_set(t->err, STATUS_USAGE, "event '%s': PMU %s has no term '%s'; did you mean '%s'?", t->word, t->pmu, term, closest.found);
	return err_set(t->err, STATUS_USAGE, "event '%s': PMU %s has no term '%s'", t->word, t->pmu, term);
}

// Spreads `value` over the bits that a format names: "config1:0-7,32-35" takes its lowest 8 bits to 0-7, the next 4 to 32-35.
static bool place(const struct terms *t, const char *term, const char *format, uint64_t value)
{
	struct perf_event_attr *attr = &t->spec->attr;
	uint64_t *target;
	uint64_t config1 = attr->config1, config2 = attr->config2, config = attr->config, left = value;
	size_t length = strcspn(format, ":");

	if (length == 6 && strncmp(format, "config", 6) == 0)
		target = &config;
	else if (length == 7 && strncmp(format, "config1", 7) == 0)
		target = &config1;
	else if (length == 7 && strncmp(format, "config2", 7) == 0)
		target = &config2;
	else
		return bad_term(t, term, "perf_event_attr as built here has no place for");
	for (const char *p = format + length; *p == ':' || *p == ',';) {
		char *end;
		unsigned long first = strtoul(p + 1, &end, 10), last = first;
		if (end == p + 1)
			return bad_term(t, term, "sysfs describes no bits for");
		if (*end == '-') {
			p = end;
			last = strtoul(p + 1, &end, 10);
			if (end == p + 1)
				return bad_term(t, term, "sysfs describes no bits for");
		}
		if (last < first || last > 63)
			return bad_term(t, term, "sysfs describes no bits for");
		unsigned width = (unsigned)(last - first) + 1;
		uint64_t mask = width == 64 ? UINT64_MAX : (1ull << width) - 1;
		*target = (*target & ~(mask << first)) | (left & mask) << first;
		left = width == 64 ? 0 : left >> width;
		p = end;
	}
	if (left != 0)
		return err_set(t->err, STATUS_USAGE, "event '%s': %s=%#llx does not fit the bits of %s", t->word, term, (unsigned long long)value, format);
	attr->config = config;
	attr->config1 = config1;
	attr->config2 = config2;
	return true;
}

static bool parse_number(const char *text, uint64_t *value)
{
	char *end;
	errno = 0;
	*value = strtoull(text, &end, 0);
	return end != text && *end == '\0' && errno == 0 && isdigit((unsigned char)text[0]);
}

// Terms that every PMU has. 1: was one; 0: is none; -1: wrong.
static int generic_term(const struct terms *t, const char *name, const char *value_text)
{
	struct event_spec *spec = t->spec;
	uint64_t value;

	if (strcmp(name, "name") == 0 && value_text != NULL) {
		snprintf(spec->name, sizeof(spec->name), "%s", value_text);
		return 1;
	}
	uint64_t attr_config = 0, *target = strcmp(name, "config") == 0 || strcmp(name, "config1") == 0 || strcmp(name, "config2") == 0 ? &attr_config :
		strcmp(name, "period") == 0 ? &spec->period : strcmp(name, "freq") == 0 ? &spec->frequency : NULL;
	if (target == NULL)
		return 0;
	if (value_text == NULL || !parse_number(value_text, &value)) {
		bad_term(t, name, "a number was expected for");
		return -1;
	}
	*target = value;
	if (target != &attr_config) {
		if (value == 0) {
			bad_term(t, name, "a number above 0 was expected for");
			return -1;
		}
		spec->has_period = true;
	} else if (name[6] == '\0') {
		spec->attr.config = value;
	} else if (name[6] == '1') {
		spec->attr.config1 = value;
	} else {
		spec->attr.config2 = value;
	}
	return 1;
}

static bool parse_terms(const struct terms *t, const char *text, unsigned depth);

static bool parse_term(const struct terms *t, char *term, unsigned depth)
{
	char file[TERM_BYTES + 16], line[1024];
	char *value_text = strchr(term, '=');
	uint64_t value = 1; // a bare format is a flag

	if (value_text != NULL)
		*value_text++ = '\0';
	int generic = generic_term(t, term, value_text);
	if (generic != 0)
		return generic > 0;
	snprintf(file, sizeof(file), "format/%s", term);
	if (sysfs_line(t->spec->host, t->pmu, file, line, sizeof(line))) {
		if (value_text != NULL && strcmp(value_text, "?") == 0)
			return err_set(t->err, STATUS_USAGE, "event '%s': %s=VALUE must be given too", t->word, term);
		if (value_text != NULL && !parse_number(value_text, &value))
			return bad_term(t, term, "a number was expected for");
		return place(t, term, line, value);
	}
	snprintf(file, sizeof(file), "events/%s", term);
	if (value_text != NULL || depth >= ALIAS_DEPTH || !sysfs_line(t->spec->host, t->pmu, file, line, sizeof(line)))
		return unknown_term(t, term);
	return parse_terms(t, line, depth + 1);
}

static bool parse_terms(const struct terms *t, const char *text, unsigned depth)
{
	while (*text != '\0') {
		char term[TERM_BYTES];
		size_t length = strcspn(text, ",");
		if (length == 0 || length >= sizeof(term))
			return err_set(t->err, STATUS_USAGE, "event '%s': an empty or too long term", t->word);
		memcpy(term, text, length);
		term[length] = '\0';
		if (!parse_term(t, term, depth))
			return false;
		text += length + (text[length] == ',');
	}
	return true;
}

// The parameters of an alias ("core=?") that the user gave: those come first, so that the alias' own text may leave them out.
static bool without_given(const char *alias, const char *given, char *out, size_t size)
{
	size_t used = 0;
	while (*alias != '\0') {
		size_t length = strcspn(alias, ","), name = strcspn(alias, "=,");
		bool is_open = length >= 2 && alias[length - 1] == '?', was_given = false;
		for (const char *g = given; is_open && *g != '\0'; g += strcspn(g, ","), g += *g == ',')
			was_given |= strncmp(g, alias, name) == 0 && g[name] == '=';
		if (!was_given) {
			if (used + length + 2 > size)
				return false;
			if (used > 0)
				out[used++] = ',';
			memcpy(out + used, alias, length);
			used += length;
		}
		alias += length + (alias[length] == ',');
	}
	out[used] = '\0';
	return true;
}

static bool is_template(const struct event_host *host, const char *pmu, const char *term, char *line, size_t size)
{
	char file[TERM_BYTES + 16];
	snprintf(file, sizeof(file), "events/%.*s", (int)strcspn(term, ","), term);
	return sysfs_line(host, pmu, file, line, size) && strchr(line, '?') != NULL;
}

static bool set_pmu(struct event_spec *spec, const char *pmu)
{
	uint32_t *cpus;
	size_t count;

	if (!sysfs_pmu_type(spec->host, pmu, &spec->attr.type))
		return false;
	snprintf(spec->pmu, sizeof(spec->pmu), "%s", pmu);
	spec->is_uncore = false;
	if (sysfs_cpus(spec->host, pmu, "cpumask", &cpus, &count))
		spec->is_uncore = true;
	else if (!sysfs_cpus(spec->host, pmu, "cpus", &cpus, &count))
		return true;
	for (size_t i = 0; i < count; i++)
		vec_push(&spec->cpus, cpus[i]);
	free(cpus);
	return true;
}

static int no_pmu(const char *word, const char *pmu, struct event_spec *spec, struct err *err)
{
	struct closest closest;
	closest_init(&closest, pmu);
	sysfs_each(spec->host, "", "", offer, &closest);
	if (closest.found[0] != '\0')
		err_set(err, STATUS_USAGE, "event '%s': no PMU '%s'; did you mean '%s'?", word, pmu, closest.found);
	else
		err_set(err, STATUS_HOST, "event '%s': this host has no PMU '%s'; those it has are in %s", word, pmu, spec->host->devices);
	return -1;
}

static int parse_slashes(const char *word, const char *slash, struct event_spec *spec, struct err *err)
{
	char pmu[32], text[256], line[1024], expanded[1024];
	size_t length = (size_t)(slash - word), all = strlen(word);

	if (length == 0 || length >= sizeof(pmu) || word[all - 1] != '/' || slash == word + all - 1 || all - length - 2 >= sizeof(text)) {
		err_set(err, STATUS_USAGE, "event '%s': PMU/term=value,…/ was expected", word);
		return -1;
	}
	memcpy(pmu, word, length);
	pmu[length] = '\0';
	memcpy(text, slash + 1, all - length - 2);
	text[all - length - 2] = '\0';
	if (!set_pmu(spec, pmu))
		return no_pmu(word, pmu, spec, err);
	struct terms t = { .pmu = pmu, .word = word, .spec = spec, .err = err };
	const char *rest = text + strcspn(text, ",");
	if (is_template(spec->host, pmu, text, line, sizeof(line))) {
		if (!without_given(line, rest + (*rest == ','), expanded, sizeof(expanded)) || !parse_terms(&t, expanded, 1))
			return -1;
		return parse_terms(&t, rest + (*rest == ','), 0) ? 1 : -1;
	}
	return parse_terms(&t, text, 0) ? 1 : -1;
}

struct alias_search { const char *word; const struct event_host *host; char pmu[32]; };

static void look_for_alias(const char *pmu, void *context)
{
	struct alias_search *search = context;
	char file[TERM_BYTES + 16], line[64];
	snprintf(file, sizeof(file), "events/%.120s", search->word);
	if (search->pmu[0] == '\0' && strlen(pmu) < sizeof(search->pmu) && sysfs_line(search->host, pmu, file, line, sizeof(line)))
		strcpy(search->pmu, pmu);
}

static int parse(const char *word, struct event_spec *spec, struct err *err)
{
	const char *slash = strchr(word, '/');
	if (slash != NULL && strchr(word, ':') == NULL)
		return parse_slashes(word, slash, spec, err);
	if (slash != NULL || strchr(word, ':') != NULL || strlen(word) >= TERM_BYTES)
		return 0;
	struct alias_search search = { .word = word, .host = spec->host };
	sysfs_each(spec->host, "", "", look_for_alias, &search);
	if (search.pmu[0] == '\0' || !set_pmu(spec, search.pmu))
		return 0;
	struct terms t = { .pmu = search.pmu, .word = word, .spec = spec, .err = err };
	char term[TERM_BYTES];
	snprintf(term, sizeof(term), "%s", word);
	return parse_term(&t, term, 0) ? 1 : -1;
}

struct lister {
	const char *pmu;
	void (*each)(const char *name, const char *description, void *context);
	void *context;
	const struct event_host *host;
};

static void list_event(const char *name, void *context)
{
	struct lister *l = context;
	char text[256];
	if (strchr(name, '.') != NULL) // NAME.scale, .unit, .snapshot, .per-pkg describe NAME
		return;
	snprintf(text, sizeof(text), "%s/%.200s/", l->pmu, name);
	l->each(text, "event of a PMU, named by the kernel", l->context);
}

static void list_pmu(const char *name, void *context)
{
	struct lister *l = context;
	l->pmu = name;
	sysfs_each(l->host, name, "events", list_event, l);
}

static void list(const struct event_host *host, void (*each)(const char *name, const char *description, void *context), void *context)
{
	struct lister lister = { .each = each, .context = context, .host = host };
	sysfs_each(host, "", "", list_pmu, &lister);
}

const struct event_source event_source_pmu = { .name = "pmu", .order = 60, .parse = parse, .list = list };
