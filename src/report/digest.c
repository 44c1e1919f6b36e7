#include "report/digest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "profile/clones.h"
#include "profile/core_events.h"
#include "report/left_out.h"
#include "report/report.h"

// ---------------------------------------------------------------- names of two builds

size_t digest_base_name(const char *name, char *out, size_t size)
{
	size_t length = clones_base_length(name, true);
	length = length < size ? length : size - 1;
	memcpy(out, name, length);
	out[length] = '\0';
	return length;
}

size_t digest_base_dso(const char *dso, char *out, size_t size)
{
	const char *so = strstr(dso, ".so");
	size_t length = so != NULL && strspn(so + 3, ".0123456789") == strlen(so + 3) ? (size_t)(so + 3 - dso) : strlen(dso);
	length = length < size ? length : size - 1;
	memcpy(out, dso, length);
	out[length] = '\0';
	return length;
}

static void rewrite_names(struct profile *profile)
{
	enum { LONGEST = 4096 };
	char *base = mem_alloc(LONGEST);
	for (size_t i = 0; i < profile->functions.count; i++) {
		const char *name = profile_text(profile, profile->functions.data[i].name);
		if (strlen(name) >= LONGEST || digest_base_name(name, base, LONGEST) == strlen(name))
			continue;
		uint32_t id = intern_string(&profile->names, base);
		profile->functions.data[i].name = id;
	}
	free(base);
}

// ---------------------------------------------------------------- rows

static const char *keep(struct digest *digest, const char *text)
{
	return arena_string(&digest->arena, text, strlen(text));
}

static int by_name(const void *a, const void *b)
{
	const struct digest_row *x = a, *y = b;
	int order = strcmp(x->name, y->name);
	if (order == 0)
		order = strcmp(x->dso, y->dso);
	return order != 0 || x->build == NULL || y->build == NULL ? order : strcmp(x->build, y->build);
}

void digest_join(struct digest_row *into, const struct digest_row *row)
{
	into->k += row->k;
	into->deff = fmax(into->deff, row->deff);
	into->blocks = row->blocks < into->blocks ? row->blocks : into->blocks;
	into->visits += row->visits;
	into->visits_outside = row->visits_outside < into->visits_outside ? row->visits_outside : into->visits_outside;
}

// Rows that became one by their names.
static void join_equals(struct digest *digest)
{
	size_t kept = 0;
	if (digest->rows.count == 0)
		return;
	sort_stable(digest->rows.data, digest->rows.count, sizeof(*digest->rows.data), by_name);
	for (size_t i = 0; i < digest->rows.count; i++) {
		struct digest_row *last = kept > 0 ? &digest->rows.data[kept - 1] : NULL, *row = &digest->rows.data[i];
		if (last == NULL || by_name(last, row) != 0) {
			digest->rows.data[kept++] = *row;
			continue;
		}
		digest_join(last, row);
	}
	digest->rows.count = kept;
}

static void add_rows(struct digest *digest, const struct report_event *event, bool children)
{
	for (size_t i = 0; i < event->rows.count; i++) {
		const struct report_row *row = &event->rows.data[i];
		const struct row_measure *m = children ? &row->total : &row->self;
		char dso[512];
		if (!(m->samples > 0))
			continue;
		digest_base_dso(row->keys[KEY_DSO] != NULL ? row->keys[KEY_DSO] : "[unknown]", dso, sizeof(dso));
		vec_push(&digest->rows, (struct digest_row){ .name = keep(digest, row->keys[KEY_SYMBOL]), .dso = keep(digest, dso), .k = m->samples,
		         .deff = m->deff, .blocks = m->blocks, .visits = m->visits, .visits_outside = m->visits_outside, .is_known = !row->is_unresolved, .plain = row->plain_name != NULL ? keep(digest, row->plain_name) : NULL,
		         .build = row->is_by_address ? keep(digest, row->build_id != NULL ? row->build_id : "") : NULL,
		         .source = row->source != NULL ? keep(digest, row->source) : NULL });
	}
	join_equals(digest);
}

// ---------------------------------------------------------------- what was inlined into what

static int by_inlined(const void *a, const void *b)
{
	const struct digest_inlined *x = a, *y = b;
	int order = strcmp(x->name, y->name);
	return order != 0 ? order : strcmp(x->into, y->into);
}

// Of each function the place that had most samples.
static void keep_largest(struct digest *digest)
{
	size_t kept = 0;
	if (digest->inlined.count == 0)
		return;
	sort_stable(digest->inlined.data, digest->inlined.count, sizeof(*digest->inlined.data), by_inlined);
	for (size_t i = 0; i < digest->inlined.count;) {
		struct digest_inlined sum = digest->inlined.data[i++];
		for (; i < digest->inlined.count && by_inlined(&sum, &digest->inlined.data[i]) == 0; i++)
			sum.samples += digest->inlined.data[i].samples;
		struct digest_inlined *last = kept > 0 ? &digest->inlined.data[kept - 1] : NULL;
		if (last == NULL || strcmp(last->name, sum.name) != 0)
			digest->inlined.data[kept++] = sum;
		else if (sum.samples > last->samples)
			*last = sum;
	}
	digest->inlined.count = kept;
	for (size_t i = 0; i < kept; i++) { // until here they belong to the profile
		digest->inlined.data[i].name = keep(digest, digest->inlined.data[i].name);
		digest->inlined.data[i].into = keep(digest, digest->inlined.data[i].into);
	}
}

static void add_inlined(struct digest *digest, const struct profile *p, uint32_t event)
{
	double *leaves = mem_zero(p->frames.count + 1, sizeof(*leaves));
	for (size_t i = 0; i < p->samples.count; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&p->samples, i, &s_row);
		if (s->event == event && !s->is_idle && s->stack != PROFILE_NONE)
			leaves[p->nodes.data[s->stack].frame] += (double)profile_sample_count(p, s);
	}
	for (size_t f = 0; f < p->frames.count; f++) {
		const struct profile_frame *frame = &p->frames.data[f];
		if (leaves[f] == 0 || frame->line_count < 2)
			continue;
		const struct profile_line *lines = &p->chains.data[frame->first_line];
		const char *into = profile_text(p, p->functions.data[lines[frame->line_count - 1].function].name);
		for (uint32_t i = 0; i + 1 < frame->line_count; i++)
			vec_push(&digest->inlined, (struct digest_inlined){ profile_text(p, p->functions.data[lines[i].function].name), into, leaves[f] });
	}
	free(leaves);
	keep_largest(digest);
}

// ---------------------------------------------------------------- the whole

static const struct report_event *find_event(const struct report *report, const char *name, struct err *err)
{
	for (size_t i = 0; i < report->events.count; i++) {
		const struct report_event *e = &report->events.data[i];
		if (e->source->is_sampling && (name == NULL ? e->taken > 0 : strcmp(e->name, name) == 0 || profile_event_has_part(report->profile, e->source, name)))
			return e;
	}
	if (name != NULL)
		err_set(err, STATUS_USAGE, "--event: no event '%s' that samples in this recording", name);
	else
		err_set(err, STATUS_INPUT, "no samples in it");
	return NULL;
}

static void fill_blocks(struct digest *digest, const struct report *report, const struct profile *p, uint32_t event, bool by_weight)
{
	double length = (double)(report->to_ns - report->from_ns) / DIGEST_BLOCKS;
	for (size_t i = 0; i < p->samples.count && length > 0; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&p->samples, i, &s_row);
		if (s->event != event || s->is_idle || s->time_ns < report->from_ns)
			continue;
		size_t block = (size_t)((double)(s->time_ns - report->from_ns) / length);
		digest->block_n[block < DIGEST_BLOCKS ? block : DIGEST_BLOCKS - 1] += by_weight ? (double)s->weight : (double)profile_sample_count(p, s);
	}
}

// A file without readings: each sample stands for its period.
static double sampled_amount(const struct profile *p, uint32_t event)
{
	enum { POINTS = 512 };
	struct sample_point points[POINTS];
	double sum = 0;
	for (size_t at = 0, count; (count = samples_points(&p->samples, at, points, POINTS)) > 0; at += count)
		for (size_t i = 0; i < count; i++) {
			const struct sample_context *c = &p->samples.contexts.data[points[i].context];
			sum += c->event == event && c->is_idle == 0 ? (double)points[i].weight : 0;
		}
	return sum;
}

static void keep_left_out(struct digest *digest, const struct profile *p, uint32_t event)
{
	struct buf others = { 0 };
	if (report_left_out(p, event, &others) > 0)
		digest->left_out = keep(digest, buf_text(&others));
	buf_release(&others);
}

static void fill(struct digest *digest, const struct report *report, const struct report_event *event, bool children)
{
	const struct profile *p = report->profile;
	const struct profile_event *source = event->source;
	uint32_t id = (uint32_t)(source - p->events.data);
	digest->event = keep(digest, event->name);
	digest->arch = keep(digest, profile_text(p, p->meta.arch));
	digest->kernel = keep(digest, profile_text(p, p->meta.kernel));
	digest->cpu = keep(digest, profile_text(p, p->meta.cpu_desc));
	digest->host = keep(digest, profile_text(p, p->meta.host));
	digest->is_clock = source->is_clock;
	digest->is_freq = source->is_freq;
	digest->excludes_user = source->excludes_user;
	digest->excludes_kernel = source->excludes_kernel;
	digest->excludes_idle = source->excludes_idle;
	digest->period = source->period;
	digest->frequency = source->frequency;
	digest->n = event->n;
	digest->amount = source->is_clock ? event->cpu_seconds : source->value > 0 ? (double)source->value : source->counts_by_weight ? 0 : sampled_amount(p, id);
	keep_left_out(digest, p, id);
	digest->lost = event->lost;
	digest->missing = event->missing;
	digest->seconds = report->seconds;
	digest->start_wall_ns = p->meta.start_wall_ns;
	fill_blocks(digest, report, p, id, event->is_weighted);
	add_rows(digest, event, children);
	add_inlined(digest, p, id);
}

bool digest_build(struct digest *digest, struct profile *profile, const char *path, const struct digest_options *options, struct err *err)
{
	*digest = (struct digest){ 0 };
	digest->path = keep(digest, path);
	rewrite_names(profile);
	struct report_options chosen = report_defaults();
	struct report report;
	chosen.confidence = options->confidence;
	chosen.children = options->children;
	chosen.ranges = 0;
	vec_push(&chosen.keys, KEY_SYMBOL);
	bool good = report_build(&report, profile, &chosen, err);
	const struct report_event *event = good ? find_event(&report, options->event, err) : NULL;
	if (event != NULL)
		fill(digest, &report, event, options->children);
	report_release(&report);
	vec_release(&chosen.keys);
	return event != NULL || err_context(err, "%s", path);
}

void digest_release(struct digest *digest)
{
	vec_release(&digest->rows);
	vec_release(&digest->inlined);
	arena_release(&digest->arena);
	*digest = (struct digest){ 0 };
}

static const char *excluded(const struct digest *d)
{
	return d->excludes_user && d->excludes_kernel ? "user and kernel" : d->excludes_user ? "user" : d->excludes_kernel ? "the kernel" : "nothing";
}

bool digest_comparable(const struct digest *a, const struct digest *b, struct err *err)
{
	if (strcmp(a->event, b->event) != 0)
		return err_set(err, STATUS_INPUT, "%s and %s cannot be compared: events %s and %s", a->path, b->path, a->event, b->event);
	if (a->is_freq != b->is_freq || (a->is_freq ? a->frequency != b->frequency : a->period != b->period))
		return err_set(err, STATUS_INPUT, "%s and %s cannot be compared: sampled every %llu and every %llu%s", a->path, b->path,
		               (unsigned long long)(a->is_freq ? a->frequency : a->period), (unsigned long long)(b->is_freq ? b->frequency : b->period),
		               a->is_freq && b->is_freq ? " Hz" : a->is_clock ? " ns" : " events");
	if (a->excludes_user != b->excludes_user || a->excludes_kernel != b->excludes_kernel || a->excludes_idle != b->excludes_idle)
		return err_set(err, STATUS_INPUT, "%s and %s cannot be compared: one leaves out %s, the other %s", a->path, b->path, excluded(a), excluded(b));
	if (a->arch[0] != '\0' && b->arch[0] != '\0' && strcmp(a->arch, b->arch) != 0)
		return err_set(err, STATUS_INPUT, "%s and %s cannot be compared: recorded on %s and %s", a->path, b->path, a->arch, b->arch);
	return true;
}
