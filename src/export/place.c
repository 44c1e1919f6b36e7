#include "export/place.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

static const char *const mark_names[MARK_COUNT] = { "[truncated]", "[unwind failed]", "[no stack]" };

// ---------------------------------------------------------------- places: functions, then a place a dso, then one for no dso, then marks

static uint32_t first_dso_place(const struct profile *profile)
{
	return (uint32_t)profile->functions.count;
}

static uint32_t no_dso_place(const struct profile *profile)
{
	return (uint32_t)(profile->functions.count + profile->dsos.count);
}

size_t export_place_count(const struct profile *profile)
{
	return (size_t)no_dso_place(profile) + 1 + MARK_COUNT;
}

bool export_place_is_known(const struct profile *profile, uint32_t place)
{
	return place < profile->functions.count;
}

uint32_t export_place_dso(const struct profile *profile, uint32_t place)
{
	if (place < profile->functions.count)
		return profile->functions.data[place].dso;
	return place < no_dso_place(profile) ? place - first_dso_place(profile) : PROFILE_NONE;
}

void export_place_name(const struct profile *profile, uint32_t place, struct buf *out)
{
	if (place < profile->functions.count) {
		buf_string(out, profile_text(profile, profile->functions.data[place].name));
		return;
	}
	if (place >= no_dso_place(profile)) {
		buf_string(out, place == no_dso_place(profile) ? "[unknown]" : mark_names[place - no_dso_place(profile) - 1]);
		return;
	}
	const char *name = profile_text(profile, profile->dsos.data[place - first_dso_place(profile)].short_name);
	buf_printf(out, name[0] == '[' ? "%s" : "[%s]", name);
}

// ---------------------------------------------------------------- steps

const char *export_step_file(const struct profile *profile, const struct export_step *step)
{
	if (step->line != PROFILE_NONE && profile->chains.data[step->line].file != 0)
		return profile_text(profile, profile->chains.data[step->line].file);
	uint32_t dso = step->frame != PROFILE_NONE ? profile->frames.data[step->frame].dso : PROFILE_NONE;
	return dso != PROFILE_NONE ? profile_text(profile, profile->dsos.data[dso].path) : "";
}

uint32_t export_step_line(const struct profile *profile, const struct export_step *step)
{
	return step->line != PROFILE_NONE && profile->chains.data[step->line].file != 0 ? profile->chains.data[step->line].line : 0;
}

bool export_step_is_kernel(const struct profile *profile, const struct export_step *step)
{
	return step->frame != PROFILE_NONE && profile->frames.data[step->frame].is_kernel;
}

bool export_step_is_guessed(const struct profile *profile, const struct export_step *step)
{
	return step->frame != PROFILE_NONE && frame_via_is_guessed(profile->frames.data[step->frame].via);
}

bool export_step_is_inlined(const struct profile *profile, const struct export_step *step)
{
	return step->line != PROFILE_NONE && profile->chains.data[step->line].is_inlined;
}

struct export_step export_step_of(const struct profile *profile, uint32_t frame_id, uint32_t line)
{
	const struct profile_frame *frame = &profile->frames.data[frame_id];
	struct export_step step = { .frame = frame_id, .line = frame->line_count > 0 ? line : (uint32_t)PROFILE_NONE };
	uint32_t function = step.line != PROFILE_NONE ? profile->chains.data[step.line].function : PROFILE_NONE;
	if (function != PROFILE_NONE && profile->functions.data[function].is_known)
		step.place = function;
	else
		step.place = frame->dso != PROFILE_NONE ? first_dso_place(profile) + frame->dso : no_dso_place(profile);
	return step;
}

struct export_step export_mark_step(const struct profile *profile, enum stack_mark_id mark)
{
	return (struct export_step){ .place = no_dso_place(profile) + 1 + mark, .frame = PROFILE_NONE, .line = PROFILE_NONE, .is_mark = true };
}

// ---------------------------------------------------------------- stacks

void export_stacks_init(struct export_stacks *stacks, const struct export_input *input)
{
	*stacks = (struct export_stacks){ .profile = input->profile, .inlines = input->inlines };
	for (enum stack_mark_id mark = 0; mark < MARK_COUNT; mark++)
		vec_push(&stacks->steps, export_mark_step(input->profile, mark));
}

void export_stacks_release(struct export_stacks *stacks)
{
	vec_release(&stacks->nodes);
	vec_release(&stacks->steps);
	hash_map_release(&stacks->node_ids);
	hash_map_release(&stacks->step_ids);
	hash_map_release(&stacks->memo);
	vec_release(&stacks->walked.items);
}

static uint32_t add_node(struct export_stacks *s, uint32_t parent, uint32_t step)
{
	bool is_new;
	uint32_t id = *hash_map_put(&s->node_ids, (uint64_t)parent << 32 | step, (uint32_t)s->nodes.count, &is_new);
	if (is_new)
		vec_push(&s->nodes, (struct export_node){ parent, step });
	return id;
}

static uint32_t add_step(struct export_stacks *s, const struct stack_step *walked)
{
	struct export_step step = export_step_of(s->profile, walked->frame, walked->line);
	bool is_new;
	uint32_t id = *hash_map_put(&s->step_ids, (uint64_t)step.frame << 32 | step.line, (uint32_t)s->steps.count, &is_new);
	if (is_new)
		vec_push(&s->steps, step);
	return id;
}

uint32_t export_stack_of(struct export_stacks *s, const struct profile_sample *sample)
{
	const char *text = stack_mark(sample->end);
	enum stack_mark_id mark = text == NULL ? MARK_COUNT : strcmp(text, mark_names[MARK_TRUNCATED]) == 0 ? MARK_TRUNCATED : MARK_FAILED;
	if (sample->stack == PROFILE_NONE && mark == MARK_COUNT)
		mark = MARK_EMPTY;
	bool is_new;
	uint64_t key = (uint64_t)sample->stack << 2 | mark;
	uint32_t *known = hash_map_put(&s->memo, key, 0, &is_new);
	if (!is_new)
		return *known;
	uint32_t node = mark != MARK_COUNT ? add_node(s, PROFILE_NONE, mark) : PROFILE_NONE; // the marks are the first steps
	stack_steps_read(&s->walked, s->profile, sample->stack, s->inlines);
	for (size_t i = 0; i < s->walked.items.count; i++)
		node = add_node(s, node, add_step(s, &s->walked.items.data[i]));
	return *hash_map_get(&s->memo, key) = node;
}

// ---------------------------------------------------------------- samples and threads

bool export_keeps(const struct export_input *input, const struct profile_sample *sample)
{
	if (sample->event != input->event || (sample->is_idle && !input->idle))
		return false;
	return input->filter == NULL || filter_keeps(input->filter, input->profile, sample);
}

static void name_processes(struct export_threads *threads)
{
	struct hash_map main_threads = { 0 };
	for (uint32_t i = 0; i < threads->threads.count; i++)
		if (threads->threads.data[i].pid == threads->threads.data[i].tid)
			*hash_map_put(&main_threads, (uint32_t)threads->threads.data[i].pid, i, NULL) = i;
	for (size_t i = 0; i < threads->threads.count; i++) {
		struct export_thread *t = &threads->threads.data[i];
		const uint32_t *main_thread = hash_map_get(&main_threads, (uint32_t)t->pid);
		t->process = main_thread != NULL ? threads->threads.data[*main_thread].comm : t->comm;
	}
	hash_map_release(&main_threads);
}

void export_threads_read(struct export_threads *threads, const struct export_input *input)
{
	const struct profile *profile = input->profile;
	struct hash_map ids = { 0 };
	VEC(uint32_t) owners = { 0 }; // by sample kept
	*threads = (struct export_threads){ 0 };
	for (uint32_t i = 0; i < profile->samples.count; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&profile->samples, i, &s_row);
		if (!export_keeps(input, s))
			continue;
		bool is_new;
		uint64_t key = (uint64_t)(uint32_t)s->pid << 32 | (uint32_t)s->tid;
		uint32_t id = *hash_map_put(&ids, key, (uint32_t)threads->threads.count, &is_new);
		if (is_new)
			vec_push(&threads->threads, (struct export_thread){ .pid = s->pid, .tid = s->tid });
		struct export_thread *t = &threads->threads.data[id];
		t->comm = s->comm != 0 ? s->comm : t->comm;
		t->count++; // rows
		t->weight += s->weight;
		vec_push(&owners, id);
		vec_push(&threads->samples, i);
	}
	// Thread after thread, by counting: their samples stay in order.
	uint32_t *sorted = mem_zero(owners.count + 1, sizeof(*sorted));
	size_t *next = mem_zero(threads->threads.count + 1, sizeof(*next));
	for (size_t i = 0, at = 0; i < threads->threads.count; at += threads->threads.data[i++].count)
		threads->threads.data[i].first = next[i] = at;
	for (size_t i = 0; i < owners.count; i++)
		sorted[next[owners.data[i]]++] = threads->samples.data[i];
	for (size_t i = 0; i < owners.count; i++)
		threads->samples.data[i] = sorted[i];
	name_processes(threads);
	free(sorted);
	free(next);
	vec_release(&owners);
	hash_map_release(&ids);
}

void export_threads_release(struct export_threads *threads)
{
	vec_release(&threads->threads);
	vec_release(&threads->samples);
}

void export_thread_name(const struct profile *profile, const struct export_thread *thread, struct buf *out)
{
	const char *comm = profile_text(profile, thread->comm);
	if (*comm == '\0')
		buf_printf(out, ":%d", thread->tid);
	else if (thread->pid == thread->tid)
		buf_printf(out, "%s %d", comm, thread->pid);
	else
		buf_printf(out, "%s %d/%d", comm, thread->pid, thread->tid);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static double median_distance(const struct export_input *input, const struct export_threads *threads)
{
	VEC(uint64_t) distances = { 0 };
	for (size_t t = 0; t < threads->threads.count; t++) {
		const struct export_thread *thread = &threads->threads.data[t];
		for (size_t i = thread->first + 1; i < thread->first + thread->count; i++) {
			uint64_t from = samples_at(&input->profile->samples, threads->samples.data[i - 1]).time_ns;
			uint64_t to = samples_at(&input->profile->samples, threads->samples.data[i]).time_ns;
			if (to > from)
				vec_push(&distances, to - from);
		}
	}
	double median = 0;
	if (distances.count > 0) {
		sort_stable(distances.data, distances.count, sizeof(*distances.data), compare_u64);
		size_t middle = distances.count / 2;
		median = (double)distances.data[middle];
	}
	vec_release(&distances);
	return median;
}

double export_interval_ns(const struct export_input *input, const struct export_threads *threads)
{
	if (input->event >= input->profile->events.count)
		return 1;
	const struct profile_event *e = &input->profile->events.data[input->event];
	double interval = 0;
	if (e->is_freq && e->frequency > 0)
		interval = 1e9 / (double)e->frequency;
	else if (e->is_clock && e->period > 0)
		interval = (double)e->period;
	else
		interval = median_distance(input, threads);
	return interval >= 1 ? interval : 1;
}
