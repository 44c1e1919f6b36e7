#include "annotate/annotate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotate/code.h"
#include "base/closest.h"

struct group { // samples of one function
	uint32_t dso;
	uint64_t start;
	bool is_inlined;
	uint64_t samples;
};

struct building {
	struct annotation *out;
	const struct profile *profile;
	const struct annotate_options *options;
	VEC(struct group) groups;
	size_t chosen;           // among the groups
	struct group picked;     // that one
	struct hash_map by_addr; // image address -> index into `addrs`
	VEC(struct annotate_addr) addrs;
};

static bool is_named(const struct building *b, const struct profile_line *line)
{
	const struct profile_function *f = &b->profile->functions.data[line->function];
	return strcmp(profile_text(b->profile, f->name), b->options->symbol) == 0 ||
	       (f->linkage_name != 0 && strcmp(profile_text(b->profile, f->linkage_name), b->options->symbol) == 0);
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
	return a->dso == b->dso && a->is_inlined == b->is_inlined && (a->is_inlined || a->start == b->start);
}

static const struct profile_frame *leaf_of(const struct building *b, const struct profile_sample *sample)
{
	if (sample->event != b->options->event || sample->is_idle || !filter_keeps(b->options->filter, b->profile, sample))
		return NULL;
	b->out->samples++;
	return sample->stack != PROFILE_NONE ? &b->profile->frames.data[b->profile->nodes.data[sample->stack].frame] : NULL;
}

static bool group_of(const struct building *b, const struct profile_frame *frame, struct group *group, uint32_t *line)
{
	*line = named_line(b, frame);
	if (*line == PROFILE_NONE)
		return false;
	*group = (struct group){ .dso = frame->dso, .start = frame->symbol_start, .is_inlined = *line + 1 < frame->line_count };
	return true;
}

static void find_groups(struct building *b)
{
	for (size_t i = 0; i < b->profile->samples.count; i++) {
		const struct profile_frame *frame = leaf_of(b, samples_get(&b->profile->samples, i, &(struct profile_sample){ 0 }));
		struct group group;
		uint32_t line;
		if (frame == NULL || !group_of(b, frame, &group, &line))
			continue;
		size_t at = 0;
		while (at < b->groups.count && !same_group(&b->groups.data[at], &group))
			at++;
		if (at == b->groups.count)
			vec_push(&b->groups, group);
		if (at < b->groups.count)
			b->groups.data[at].samples++;
	}
	for (size_t i = 1; i < b->groups.count; i++)
		if (b->groups.data[i].samples > b->groups.data[b->chosen].samples)
			b->chosen = i;
	if (b->chosen < b->groups.count)
		b->picked = b->groups.data[b->chosen];
}

static bool nothing_found(const struct building *b, struct err *err)
{
	struct closest closest;
	closest_init(&closest, b->options->symbol);
	for (size_t i = 0; i < b->profile->functions.count; i++)
		if (b->profile->functions.data[i].is_known)
			closest_offer(&closest, profile_text(b->profile, b->profile->functions.data[i].name));
	bool is_there = strcmp(closest.found, b->options->symbol) == 0;
	if (is_there)
		return err_set(err, STATUS_USAGE, "%s has no samples of its own here: it only calls (report -g callee shows what)", b->options->symbol);
	return err_set(err, STATUS_USAGE, "no sample is in a function called '%s'%s%s%s", b->options->symbol,
	               closest.found[0] != '\0' ? "; did you mean " : "", closest.found, closest.found[0] != '\0' ? "?" : "");
}

struct annotate_count annotate_count(const struct annotate_options *options, uint64_t k, uint64_t n)
{
	struct annotate_count count = { .samples = k, .share = n > 0 ? (double)k / (double)n : 0 };
	if (options->missing > 0)
		count.range = loss_bounds((double)k, (double)n, options->missing, 1, 0, options->confidence).outer;
	else
		count.range = clopper_pearson((double)k, (double)n, options->confidence);
	return count;
}

// ---------------------------------------------------------------- counting

static void count_line(struct building *b, const char *file, uint32_t line)
{
	struct annotation *out = b->out;
	size_t i = 0;
	while (i < out->lines.count && (out->lines.data[i].line != line || strcmp(out->lines.data[i].file, file) != 0))
		i++;
	if (i == out->lines.count)
		vec_push(&out->lines, (struct annotate_line){ .file = file, .line = line });
	out->lines.data[i].count.samples++;
}

static void count_addr(struct building *b, const struct profile_frame *frame, const struct profile_line *line, const char *inlined)
{
	bool is_new;
	uint32_t at = *hash_map_put(&b->by_addr, frame->image_addr, (uint32_t)b->addrs.count, &is_new);
	if (is_new)
		vec_push(&b->addrs, (struct annotate_addr){ .image_addr = frame->image_addr, .line = line->line, .inlined = inlined,
		                                            .file = line->file != 0 ? profile_text(b->profile, line->file) : "" });
	b->addrs.data[at].samples++;
}

static void count_samples(struct building *b)
{
	const struct profile *profile = b->profile;
	const struct group *chosen = &b->picked;
	b->out->samples = 0;
	for (size_t i = 0; i < profile->samples.count; i++) {
		const struct profile_frame *frame = leaf_of(b, samples_get(&profile->samples, i, &(struct profile_sample){ 0 }));
		struct group group;
		uint32_t at;
		if (frame == NULL || !group_of(b, frame, &group, &at) || !same_group(chosen, &group))
			continue;
		// Of a function with code: where the code comes from. Of an inlined one: its own line.
		const struct profile_line *line = &profile->chains.data[frame->first_line + (group.is_inlined ? at : 0)];
		bool has_inlined = !group.is_inlined && frame->line_count > 1;
		const char *inlined = has_inlined ? profile_text(profile, profile->functions.data[line->function].name) : NULL;
		count_line(b, line->file != 0 ? profile_text(profile, line->file) : "", line->line);
		count_addr(b, frame, line, inlined);
	}
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
	qsort_r(out->lines.data, out->lines.count, sizeof(*out->lines.data), by_file_and_line, &copy);
	free(copy.lines.data);
	for (size_t i = 0; i < out->lines.count; i++)
		out->lines.data[i].count = annotate_count(b->options, out->lines.data[i].count.samples, out->samples);
}

static void name_others(struct building *b)
{
	for (size_t i = 0; i < b->groups.count; i++) {
		const struct group *group = &b->groups.data[i];
		if (i == b->chosen)
			continue;
		char *text = mem_printf("%llu samples %s %s", (unsigned long long)group->samples, group->is_inlined ? "inlined in" : "in",
		                        group->dso != PROFILE_NONE ? profile_text(b->profile, b->profile->dsos.data[group->dso].path) : "[no mapping]");
		vec_push(&b->out->others, arena_string(&b->out->arena, text, strlen(text)));
		free(text);
	}
}

static int by_addr(const void *a, const void *b)
{
	const struct annotate_addr *x = a, *y = b;
	return (x->image_addr > y->image_addr) - (x->image_addr < y->image_addr);
}

bool annotate_build(struct annotation *out, const struct profile *profile, const struct annotate_options *options, struct err *err)
{
	struct building b = { .out = out, .profile = profile, .options = options };
	*out = (struct annotation){ .symbol = options->symbol };
	find_groups(&b);
	bool good = b.groups.count > 0 || nothing_found(&b, err);
	if (good) {
		const struct group *chosen = &b.picked;
		count_samples(&b);
		finish_lines(&b);
		name_others(&b);
		out->dso = chosen->dso != PROFILE_NONE ? profile_text(profile, profile->dsos.data[chosen->dso].path) : "[no mapping]";
		out->is_inlined = chosen->is_inlined;
		out->count = annotate_count(options, chosen->samples, out->samples);
		if (b.addrs.count > 0)
			qsort(b.addrs.data, b.addrs.count, sizeof(*b.addrs.data), by_addr);
		struct annotate_code code = { .profile = profile, .options = options, .dso = chosen->dso, .start = chosen->start, .addrs = b.addrs.data,
		                              .count = b.addrs.count };
		annotate_instructions(out, &code);
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
