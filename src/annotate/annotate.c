#include "annotate/annotate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotate/code.h"
#include "base/closest.h"
#include "base/plural.h"
#include "base/sort.h"
#include "profile/weights.h"

struct group { // samples of one name in a file: in functions, or where it was inlined
	uint32_t dso;
	bool is_inlined;
	uint64_t samples;
	double weight;
};

struct building {
	struct annotation *out;
	const struct profile *profile;
	const struct annotate_options *options;
	VEC(struct group) groups;
	size_t chosen;           // among the groups
	struct group picked;     // that one
	double squares;          // of all weights
	bool is_exact;           // a function is shown by that very name: others that it would mean, too, are not
	struct hash_map by_addr; // image address -> index into `addrs`
	VEC(struct annotate_addr) addrs;
};

static bool is_named(const struct building *b, const struct profile_line *line)
{
	const struct profile_function *f = &b->profile->functions.data[line->function];
	return profile_function_is_called(b->profile, f, b->options->symbol) && (!b->is_exact || strcmp(profile_text(b->profile, f->name), b->options->symbol) == 0);
}

// The line of the frame's chain that has the name: that of the function with the code before any inlined one. PROFILE_NONE: none has.
static uint32_t named_line(const struct building *b, const struct profile_frame *frame)
{
	for (uint32_t i = frame->line_count; i-- > 0;)
		if (is_named(b, &b->profile->chains.data[frame->first_line + i]))
			return i;
	return PROFILE_NONE;
}

static bool same_group(const struct group *a, const struct group *b)
{
	return a->dso == b->dso && a->is_inlined == b->is_inlined;
}

static double weight_of(const struct building *b, const struct profile_sample *sample)
{
	return b->out->is_weighted ? (double)sample->weight : (double)profile_sample_count(b->profile, sample);
}

static const struct profile_frame *leaf_of(struct building *b, const struct profile_sample *sample)
{
	if (sample->event != b->options->event || sample->is_idle || !filter_keeps(b->options->filter, b->profile, sample))
		return NULL;
	double weight = weight_of(b, sample);
	b->out->samples += profile_sample_count(b->profile, sample);
	b->out->weight += weight;
	b->squares += weight * weight;
	return sample->stack != PROFILE_NONE ? &b->profile->frames.data[b->profile->nodes.data[sample->stack].frame] : NULL;
}

static bool group_of(const struct building *b, const struct profile_frame *frame, struct group *group, uint32_t *line)
{
	*line = named_line(b, frame);
	if (*line == PROFILE_NONE)
		return false;
	*group = (struct group){ .dso = frame->dso, .is_inlined = *line + 1 < frame->line_count };
	return true;
}

static void find_groups(struct building *b)
{
	for (size_t i = 0; i < b->profile->functions.count; i++)
		b->is_exact |= strcmp(profile_text(b->profile, b->profile->functions.data[i].name), b->options->symbol) == 0;
	for (size_t i = 0; i < b->profile->samples.count; i++) {
		struct profile_sample row;
		const struct profile_sample *sample = samples_get(&b->profile->samples, i, &row);
		const struct profile_frame *frame = leaf_of(b, sample);
		struct group group;
		uint32_t line;
		if (frame == NULL || !group_of(b, frame, &group, &line))
			continue;
		size_t at = 0;
		while (at < b->groups.count && !same_group(&b->groups.data[at], &group))
			at++;
		if (at == b->groups.count)
			vec_push(&b->groups, group);
		b->groups.data[at].samples += profile_sample_count(b->profile, sample);
		b->groups.data[at].weight += weight_of(b, sample);
	}
	for (size_t i = 1; i < b->groups.count; i++)
		if (b->groups.data[i].weight > b->groups.data[b->chosen].weight)
			b->chosen = i;
	if (b->chosen < b->groups.count)
		b->picked = b->groups.data[b->chosen];
}

// "area" in "geo::Round::area" and "geo::Round::area() const": where a name was given without what it is in.
static bool ends_name(const char *name, const char *symbol)
{
	size_t length = strlen(symbol);
	for (const char *at = strstr(name, symbol); at != NULL && length > 0; at = strstr(at + 1, symbol))
		if (at - name > 2 && at[-1] == ':' && at[-2] == ':' && (at[length] == '\0' || at[length] == '('))
			return true;
	return false;
}

static bool nothing_found(const struct building *b, struct err *err)
{
	struct closest closest;
	const char *whole = NULL;
	closest_init(&closest, b->options->symbol);
	for (size_t i = 0; i < b->profile->functions.count; i++) {
		const char *name = profile_text(b->profile, b->profile->functions.data[i].name);
		if (!b->profile->functions.data[i].is_known)
			continue;
		closest_offer(&closest, name);
		if (ends_name(name, b->options->symbol) && (whole == NULL || strlen(name) < strlen(whole)))
			whole = name;
	}
	bool is_there = strcmp(closest.found, b->options->symbol) == 0;
	const char *found = whole != NULL ? whole : closest.found;
	if (is_there)
		return err_set(err, STATUS_USAGE, "%s has no samples of its own here: it only calls (report -g callee shows what)", b->options->symbol);
	return err_set(err, STATUS_USAGE, "no sample is in a function called '%s'%s%s%s", b->options->symbol,
	               found[0] != '\0' ? "; did you mean " : "", found, found[0] != '\0' ? "?" : "");
}

struct annotate_count annotate_count(const struct annotate_options *options, uint64_t samples, double weight, const struct annotation *whole)
{
	struct annotate_count count = { .samples = samples, .share = whole->weight > 0 ? weight / whole->weight : 0 };
	double n = whole->n, k = count.share * n;
	if (options->missing > 0)
		count.range = loss_bounds(k, n, options->missing, 1, 0, options->confidence).outer;
	else
		count.range = clopper_pearson(k, n, options->confidence);
	return count;
}

// ---------------------------------------------------------------- counting

static void count_line(struct building *b, const char *file, uint32_t line, uint64_t samples, double weight)
{
	struct annotation *out = b->out;
	size_t i = 0;
	while (i < out->lines.count && (out->lines.data[i].line != line || strcmp(out->lines.data[i].file, file) != 0))
		i++;
	if (i == out->lines.count)
		vec_push(&out->lines, (struct annotate_line){ .file = file, .line = line });
	out->lines.data[i].count.samples += samples;
	out->lines.data[i].count.share += weight; // until all are counted
}

static struct annotate_addr *addr_of(struct building *b, const struct profile_frame *frame, const struct profile_line *line, const char *inlined)
{
	bool is_new;
	uint32_t at = *hash_map_put(&b->by_addr, frame->image_addr, (uint32_t)b->addrs.count, &is_new);
	if (is_new)
		vec_push(&b->addrs, (struct annotate_addr){ .start = b->picked.is_inlined ? 0 : frame->symbol_start,
		                                            .image_addr = frame->image_addr, .line = line->line, .inlined = inlined,
		                                            .file = line->file != 0 ? profile_text(b->profile, line->file) : "" });
	return &b->addrs.data[at];
}

static void count_samples(struct building *b)
{
	const struct profile *profile = b->profile;
	const struct group *chosen = &b->picked;
	b->out->samples = 0;
	b->out->weight = b->squares = 0;
	for (size_t i = 0; i < profile->samples.count; i++) {
		struct profile_sample row;
		const struct profile_sample *sample = samples_get(&profile->samples, i, &row);
		const struct profile_frame *frame = leaf_of(b, sample);
		struct group group;
		uint32_t at;
		if (frame == NULL || !group_of(b, frame, &group, &at) || !same_group(chosen, &group))
			continue;
		// Of a function with code: where the code comes from. Of an inlined one: its own line.
		const struct profile_line *line = &profile->chains.data[frame->first_line + (group.is_inlined ? at : 0)];
		bool has_inlined = !group.is_inlined && frame->line_count > 1;
		const char *inlined = has_inlined ? profile_text(profile, profile->functions.data[line->function].name) : NULL;
		uint64_t samples = profile_sample_count(profile, sample);
		double weight = weight_of(b, sample);
		count_line(b, line->file != 0 ? profile_text(profile, line->file) : "", line->line, samples, weight);
		struct annotate_addr *addr = addr_of(b, frame, line, inlined);
		addr->samples += samples;
		addr->weight += weight;
	}
	b->out->n = b->out->is_weighted ? kish_n(b->out->weight, b->squares) : (double)b->out->samples;
}

static uint64_t file_samples(const struct annotation *out, const char *file)
{
	uint64_t samples = 0;
	for (size_t i = 0; i < out->lines.count; i++)
		if (strcmp(out->lines.data[i].file, file) == 0)
			samples += out->lines.data[i].count.samples;
	return samples;
}

static int by_file_and_line(const void *a, const void *b, void *context)
{
	const struct annotate_line *x = a, *y = b;
	int files = strcmp(x->file, y->file);
	if (files != 0) {
		uint64_t xs = file_samples(context, x->file), ys = file_samples(context, y->file);
		return xs != ys ? (xs > ys ? -1 : 1) : files;
	}
	return (x->line > y->line) - (x->line < y->line);
}

static void finish_lines(struct building *b)
{
	struct annotation *out = b->out;
	struct annotation copy = *out; // the order of files is looked up while lines move
	copy.lines.data = mem_copy(out->lines.data, out->lines.count * sizeof(*out->lines.data));
	sort_stable_with(out->lines.data, out->lines.count, sizeof(*out->lines.data), by_file_and_line, &copy);
	free(copy.lines.data);
	for (size_t i = 0; i < out->lines.count; i++)
		out->lines.data[i].count = annotate_count(b->options, out->lines.data[i].count.samples, out->lines.data[i].count.share, out);
}

static void name_others(struct building *b)
{
	for (size_t i = 0; i < b->groups.count; i++) {
		const struct group *group = &b->groups.data[i];
		if (i == b->chosen)
			continue;
		unsigned long long n = group->samples;
		const char *dso = group->dso != PROFILE_NONE ? profile_text(b->profile, b->profile->dsos.data[group->dso].path) : "[no mapping]";
		char *text = group->dso != b->picked.dso ? mem_printf("%llu sample%s %s %s (-d chooses)", n, plural((double)n), group->is_inlined ? "inlined in" : "in", dso)
			: mem_printf("%llu sample%s %s, not among these", n, plural((double)n), group->is_inlined ? "where it was inlined" : "in a function of its own");
		vec_push(&b->out->others, arena_string(&b->out->arena, text, strlen(text)));
		free(text);
	}
}

static int by_addr(const void *a, const void *b)
{
	const struct annotate_addr *x = a, *y = b;
	if (x->start != y->start)
		return x->start > y->start ? 1 : -1;
	return (x->image_addr > y->image_addr) - (x->image_addr < y->image_addr);
}

static void list_instructions(struct building *b)
{
	if (b->addrs.count > 0)
		sort_stable(b->addrs.data, b->addrs.count, sizeof(*b->addrs.data), by_addr);
	for (size_t first = 0, end; first < b->addrs.count; first = end) {
		for (end = first + 1; end < b->addrs.count && b->addrs.data[end].start == b->addrs.data[first].start;)
			end++;
		struct annotate_code code = { .profile = b->profile, .options = b->options, .dso = b->picked.dso, .start = b->addrs.data[first].start,
		                              .addrs = &b->addrs.data[first], .count = end - first };
		annotate_instructions(b->out, &code);
		b->out->copies++;
	}
}

bool annotate_build(struct annotation *out, const struct profile *profile, const struct annotate_options *options, struct err *err)
{
	struct building b = { .out = out, .profile = profile, .options = options };
	*out = (struct annotation){ .symbol = options->symbol, .is_weighted = profile_weights_differ(profile, options->event) };
	find_groups(&b);
	bool good = b.groups.count > 0 || nothing_found(&b, err);
	if (good) {
		const struct group *chosen = &b.picked;
		count_samples(&b);
		finish_lines(&b);
		name_others(&b);
		out->dso = chosen->dso != PROFILE_NONE ? profile_text(profile, profile->dsos.data[chosen->dso].path) : "[no mapping]";
		out->is_inlined = chosen->is_inlined;
		out->count = annotate_count(options, chosen->samples, chosen->weight, out);
		list_instructions(&b);
	}
	vec_release(&b.groups);
	vec_release(&b.addrs);
	hash_map_release(&b.by_addr);
	return good;
}

void annotation_release(struct annotation *annotation)
{
	vec_release(&annotation->lines);
	vec_release(&annotation->instructions);
	vec_release(&annotation->others);
	arena_release(&annotation->arena);
}
