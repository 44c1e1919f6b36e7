#include "trial/metric.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/vec.h"

static bool parse_regex(struct metric *m, const char *source, struct err *err)
{
	size_t length = strlen(source);
	if (length < 3 || source[length - 1] != '/')
		return err_set(err, STATUS_USAGE, "--metric: '%s' does not end with a slash, as /REGEX/ does", source);
	char *pattern = mem_string_n(source + 1, length - 2), why[200];
	int error = regcomp(&m->regex, pattern, REG_EXTENDED | REG_NEWLINE);
	free(pattern);
	if (error == 0)
		return true;
	regerror(error, &m->regex, why, sizeof(why));
	return err_set(err, STATUS_USAGE, "--metric: '%s': %s", source, why);
}

static bool parse_quantile(struct metric *m, const char *source, struct err *err)
{
	char *end;
	double percent = strtod(source + 1, &end);
	if (*end != ':' || end[1] == '\0' || !(percent > 0 && percent < 100))
		return err_set(err, STATUS_USAGE, "--metric: '%s' is not pQ:FILE with Q between 0 and 100", source);
	m->quantile = percent / 100;
	m->path = end + 1;
	return true;
}

bool metric_parse(struct metric *m, const char *text, struct err *err)
{
	*m = (struct metric){ .text = text };
	const char *source = text;
	bool higher = strncmp(text, "higher:", 7) == 0, lower = strncmp(text, "lower:", 6) == 0;
	source += higher ? 7 : lower ? 6 : 0;
	if (strcmp(source, "wall") == 0 || strcmp(source, "cpu") == 0) {
		m->source = source[0] == 'w' ? METRIC_WALL : METRIC_CPU;
	} else if (source[0] == '/') {
		m->source = METRIC_REGEX;
		if (!parse_regex(m, source, err))
			return false;
	} else if (source[0] == '.') {
		m->source = METRIC_JSON;
		m->path = source;
	} else if (source[0] == 'p' && source[1] >= '0' && source[1] <= '9') {
		m->source = METRIC_QUANTILE;
		if (!parse_quantile(m, source, err))
			return false;
	} else {
		return err_set(err, STATUS_USAGE, "--metric: '%s' is none of wall, cpu, /REGEX/, .json.path, p99:FILE (with higher: or lower: in front)", text);
	}
	m->higher_is_better = higher || (!lower && (m->source == METRIC_REGEX || m->source == METRIC_JSON));
	return true;
}

void metric_release(struct metric *m)
{
	if (m->source == METRIC_REGEX)
		regfree(&m->regex);
	*m = (struct metric){ 0 };
}

void metric_prepare(const struct metric *m)
{
	if (m->source == METRIC_QUANTILE)
		unlink(m->path);
}

// ---------------------------------------------------------------- finding the number

static bool by_regex(const struct metric *m, const char *text, double *value, struct err *err)
{
	regmatch_t groups[2];
	if (regexec(&m->regex, text, 2, groups, 0) != 0)
		return err_set(err, STATUS_FINISH, "--metric: nothing in the command's output matches %s", m->text);
	const regmatch_t *g = groups[1].rm_so >= 0 ? &groups[1] : &groups[0];
	char *number = mem_string_n(text + g->rm_so, (size_t)(g->rm_eo - g->rm_so)), *end;
	*value = strtod(number, &end);
	bool good = end != number || err_set(err, STATUS_FINISH, "--metric: '%.60s', which matches %s, is no number", number, m->text);
	free(number);
	return good;
}

// ".a.b[2]": members and elements.
static const json_t *at_path(const json_t *at, const char *path)
{
	while (*path != '\0' && at != NULL) {
		if (*path == '[') {
			char *end;
			unsigned long index = strtoul(path + 1, &end, 10);
			if (end == path + 1 || *end != ']')
				return NULL;
			at = json_array_get(at, index);
			path = end + 1;
			continue;
		}
		path += *path == '.';
		size_t length = strcspn(path, ".[");
		char *key = mem_string_n(path, length);
		if (length > 0)
			at = json_object_get(at, key);
		free(key);
		path += length;
	}
	return at;
}

static bool by_json(const struct metric *m, const struct trial_run *run, double *value, struct err *err)
{
	json_error_t why;
	json_t *root = json_loadb((const char *)run->output.data, run->output.size, JSON_DECODE_ANY, &why);
	if (root == NULL)
		return err_set(err, STATUS_FINISH, "--metric: the command's output is no JSON: line %d: %s", why.line, why.text);
	const json_t *found = at_path(root, m->path);
	bool good = json_is_number(found) || err_set(err, STATUS_FINISH, "--metric: no number at %s in the command's output", m->path);
	if (good)
		*value = json_number_value(found);
	json_decref(root);
	return good;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static bool by_quantile(const struct metric *m, double *value, struct err *err)
{
	// So many that both limits of the quantile's 95 % interval are finite: ln(.025) / ln(q).
	double least = ceil(log(0.025) / log(fmax(m->quantile, 1 - m->quantile)));
	FILE *file = fopen(m->path, "re");
	if (file == NULL)
		return err_errno(err, STATUS_FINISH, "--metric: %s", m->path);
	VEC(double) values = { 0 };
	double one;
	while (fscanf(file, "%lf", &one) == 1)
		if (isfinite(one))
			vec_push(&values, one);
	fclose(file);
	bool good = (values.count > 0 && (double)values.count >= least)
		|| err_set(err, STATUS_FINISH, "--metric: %zu latencies in %s: %s needs %.0f", values.count, m->path, m->text, least);
	if (good && values.data != NULL) {
		sort_stable(values.data, values.count, sizeof(double), by_size);
		*value = values.data[(size_t)fmax(1, ceil((double)values.count * m->quantile - 1e-9)) - 1];
	}
	vec_release(&values);
	return good;
}

bool metric_value(const struct metric *m, const struct trial_run *run, double *value, struct err *err)
{
	bool good = true;
	struct buf text = { 0 };
	switch (m->source) {
	case METRIC_WALL:
		*value = run->wall_s;
		break;
	case METRIC_CPU:
		*value = run->cpu_s;
		break;
	case METRIC_REGEX:
		buf_add(&text, run->output.data, run->output.size);
		good = by_regex(m, buf_text(&text), value, err);
		break;
	case METRIC_JSON:
		good = by_json(m, run, value, err);
		break;
	case METRIC_QUANTILE:
		good = by_quantile(m, value, err);
		break;
	}
	buf_release(&text);
	return good && ((isfinite(*value) && *value > 0) || err_set(err, STATUS_FINISH, "--metric: %s gives %g, which is not above 0", m->text, *value));
}
