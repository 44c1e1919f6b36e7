#include "report/tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS_OF_CODE = 1 << KEY_SYMBOL | 1 << KEY_DSO | 1 << KEY_SRCLINE };

enum stack_class stack_class_of(const struct profile_sample *sample)
{
	switch (sample->end) {
	case UNWIND_ROOT:
		return sample->splice != 0 ? STACK_JOINED : STACK_COMPLETE; // exact or checked
	case UNWIND_NOT_USER:
		return STACK_COMPLETE;
	case UNWIND_TRUNCATED:
	case UNWIND_DEPTH_LIMIT:
		return STACK_TRUNCATED;
	default:
		return STACK_FAILED;
	}
}

// ---------------------------------------------------------------- what a row is

// Kernel and other places that are no files go by their short name: they are mapped under several paths.
static uint32_t dso_key(const struct profile *p, uint32_t dso)
{
	const struct profile_dso *d = &p->dsos.data[dso];
	return profile_text(p, d->short_name)[0] == '[' ? d->short_name : d->path;
}

// The function of `line` at the place in the source of `place`. Members that no key asks for are 0: equal rows are equal bytes.
static uint32_t entry_of(struct tally *t, const struct profile_line *line, const struct profile_line *place, const struct profile_frame *frame)
{
	const struct profile *p = t->profile;
	const struct profile_function *f = line != NULL ? &p->functions.data[line->function] : NULL;
	uint32_t dso = f != NULL ? f->dso : frame != NULL ? frame->dso : PROFILE_NONE;
	struct { uint32_t name, dso_path, file, line; } key = { 0 };
	static const uint32_t NO_NAME = 0xffffffff;
	if ((t->keys & 1 << KEY_SYMBOL) != 0)
		key.name = f != NULL ? f->name : NO_NAME;
	if ((t->keys & (1 << KEY_SYMBOL | 1 << KEY_DSO)) != 0)
		key.dso_path = dso != PROFILE_NONE ? dso_key(p, dso) : NO_NAME;
	if ((t->keys & 1 << KEY_SRCLINE) != 0 && place != NULL) {
		key.file = place->file;
		key.line = place->line;
	}
	uint32_t id = intern_bytes(&t->entry_ids, (const char *)&key, sizeof(key)) - 1;
	if (id == t->entries.count) {
		struct tally_entry e = { .name = f != NULL ? f->name : NO_NAME, .dso_path = key.dso_path, .dso_name = NO_NAME, .file = key.file,
			.line = key.line, .is_known = f != NULL && f->is_known, .is_kernel = frame != NULL && frame->is_kernel };
		if (dso != PROFILE_NONE)
			e.dso_name = p->dsos.data[dso].short_name;
		vec_push(&t->entries, e);
	}
	if (f != NULL && f->aliases != 0 && (t->keys & 1 << KEY_SYMBOL) != 0)
		t->entries.data[id].aliases = f->aliases;
	return id;
}

static uint32_t entry_of_line(struct tally *t, uint32_t index, const struct profile_frame *frame)
{
	uint32_t *known = &t->entry_of_line.data[index];
	if (*known == 0)
		*known = entry_of(t, &t->profile->chains.data[index], &t->profile->chains.data[index], frame) + 1;
	return *known - 1;
}

static uint32_t context_of(struct tally *t, const struct profile_sample *sample)
{
	struct tally_context key = { 0 };
	if ((t->keys & 1 << KEY_COMM) != 0)
		key.comm = sample->comm;
	if ((t->keys & 1 << KEY_PID) != 0)
		key.pid = sample->pid;
	if ((t->keys & 1 << KEY_TID) != 0)
		key.tid = sample->tid;
	if ((t->keys & 1 << KEY_CPU) != 0)
		key.cpu = sample->cpu;
	uint32_t id = intern_bytes(&t->context_ids, (const char *)&key, sizeof(key)) - 1;
	if (id == t->contexts.count)
		vec_push(&t->contexts, key);
	return id;
}

static uint32_t row_of(struct tally *t, uint32_t entry, uint32_t context)
{
	bool is_new;
	uint32_t id = *hash_map_put(&t->row_ids, (uint64_t)entry << 32 | context, (uint32_t)t->rows.count, &is_new);
	if (is_new) {
		struct tally_row *row = vec_add(&t->rows);
		row->entry = entry;
		row->context = context;
		vec_push(&t->row_self, 0);
		vec_push(&t->row_total, 0);
		vec_push(&t->stamps, 0);
	}
	return id;
}

// ---------------------------------------------------------------- the rows of a stack, each once

// The first one is self's.
static void add_member(struct tally *t, struct tally_set *set, uint32_t entry, uint32_t context)
{
	uint32_t row = row_of(t, entry, context);
	if (t->stamps.data[row] == t->stamp)
		return;
	t->stamps.data[row] = t->stamp;
	vec_push(&t->members, row);
	if (set->count++ == 0)
		set->self_row = row;
}

static void add_leaf(struct tally *t, struct tally_set *set, uint32_t stack, uint32_t context)
{
	const struct profile *p = t->profile;
	const struct profile_frame *frame = stack != PROFILE_NONE ? &p->frames.data[p->nodes.data[stack].frame] : NULL;
	const struct profile_line *lines = frame != NULL && frame->line_count > 0 ? &p->chains.data[frame->first_line] : NULL;
	add_member(t, set, entry_of(t, lines != NULL ? &lines[frame->line_count - 1] : NULL, lines, frame), context);
}

static void next_stamp(struct tally *t)
{
	if (++t->stamp == 0) { // 2^32 sets later
		memset(t->stamps.data, 0, t->stamps.count * sizeof(*t->stamps.data));
		t->stamp = 1;
	}
}

static bool is_resolved(const struct profile *p, uint32_t stack)
{
	if (stack == PROFILE_NONE)
		return false;
	const struct profile_frame *f = &p->frames.data[p->nodes.data[stack].frame];
	return f->line_count > 0 && p->functions.data[p->chains.data[f->first_line + f->line_count - 1].function].is_known;
}

static uint32_t make_set(struct tally *t, uint32_t stack, uint32_t context)
{
	const struct profile *p = t->profile;
	struct tally_set set = { .first = (uint32_t)t->members.count, .is_resolved = is_resolved(p, stack) };
	next_stamp(t);
	add_leaf(t, &set, stack, context);
	bool all_alike = (t->keys & KEYS_OF_CODE) == 0; // every frame is the same row
	for (uint32_t node = stack; node != PROFILE_NONE && !all_alike; node = p->nodes.data[node].parent) {
		const struct profile_frame *frame = &p->frames.data[p->nodes.data[node].frame];
		if (frame->line_count == 0)
			add_member(t, &set, entry_of(t, NULL, NULL, frame), context);
		else if (!t->inlines) // the function that has the code
			add_member(t, &set, entry_of_line(t, frame->first_line + frame->line_count - 1, frame), context);
		else
			for (uint32_t i = 0; i < frame->line_count; i++)
				add_member(t, &set, entry_of_line(t, frame->first_line + i, frame), context);
	}
	vec_push(&t->sets, set);
	vec_push(&t->set_block, 0);
	vec_push(&t->set_cut, 0);
	return (uint32_t)t->sets.count - 1;
}

static uint32_t set_of(struct tally *t, const struct profile_sample *sample)
{
	if ((t->keys & ~(unsigned)KEYS_OF_CODE) == 0) { // all samples have one context
		uint32_t slot = sample->stack == PROFILE_NONE ? 0 : sample->stack + 1;
		if (t->set_of_stack.data[slot] == 0) {
			uint32_t set = make_set(t, sample->stack, context_of(t, sample));
			t->set_of_stack.data[slot] = set + 1;
		}
		return t->set_of_stack.data[slot] - 1;
	}
	uint32_t context = context_of(t, sample);
	uint64_t key = (uint64_t)sample->stack << 32 | context;
	const uint32_t *known = hash_map_get(&t->set_ids, key);
	if (known != NULL)
		return *known;
	uint32_t set = make_set(t, sample->stack, context);
	hash_map_put(&t->set_ids, key, set, NULL);
	return set;
}

const struct tally_set *tally_rows_of(struct tally *t, const struct profile_sample *sample)
{
	return &t->sets.data[set_of(t, sample)];
}

// ---------------------------------------------------------------- counting

static size_t block_of(const struct tally *t, uint64_t time_ns)
{
	if (time_ns <= t->from_ns || t->to_ns <= t->from_ns)
		return 0;
	size_t block = (size_t)((double)(time_ns - t->from_ns) / (double)(t->to_ns - t->from_ns) * TALLY_BLOCKS);
	return block < TALLY_BLOCKS ? block : TALLY_BLOCKS - 1;
}

// What the block gathered by stack goes to its rows.
static void flush_block(struct tally *t, size_t block)
{
	for (size_t i = 0; i < t->touched_sets.count; i++) {
		uint32_t id = t->touched_sets.data[i];
		const struct tally_set *set = &t->sets.data[id];
		double weight = t->set_block.data[id];
		t->set_block.data[id] = 0;
		t->row_self.data[set->self_row] += weight;
		for (uint32_t m = 0; m < set->count; m++) {
			uint32_t row = t->members.data[set->first + m];
			if (t->row_total.data[row] == 0)
				vec_push(&t->touched_rows, row);
			t->row_total.data[row] += weight;
		}
	}
	for (size_t i = 0; i < t->touched_rows.count; i++) {
		uint32_t row = t->touched_rows.data[i];
		struct tally_cell cell = { row, (uint32_t)block, t->row_self.data[row], t->row_total.data[row] };
		vec_push(&t->cells, cell);
		t->rows.data[row].self.weight += cell.self;
		t->rows.data[row].total.weight += cell.total;
		t->row_self.data[row] = t->row_total.data[row] = 0;
	}
	vec_clear(&t->touched_sets);
	vec_clear(&t->touched_rows);
}

static uint32_t *thread_of(struct tally *t, const struct profile_sample *sample, bool *is_new)
{
	// Every CPU has an idle task of its own, all of them 0.
	uint32_t tid = sample->tid != 0 ? (uint32_t)sample->tid : 0x80000000u | sample->cpu;
	uint64_t key = (uint64_t)(uint32_t)sample->pid << 32 | tid;
	uint32_t index = *hash_map_put(&t->thread_ids, key, (uint32_t)t->thread_states.count, is_new);
	if (*is_new) {
		vec_push(&t->thread_states, 0);
		if (sample->pid != -1) // the kernel names a task so that is being reaped: it is one of the others
			hash_map_put(&t->process_ids, (uint32_t)sample->pid, 0, NULL);
	}
	return &t->thread_states.data[index];
}

// A run begins where the thread's sample before was not inside.
static void count_visits(struct tally *t, const struct profile_sample *sample, uint32_t id)
{
	bool is_new;
	uint32_t *last = thread_of(t, sample, &is_new);
	if (!is_new && *last == id)
		return;
	const struct tally_set *set = &t->sets.data[id];
	struct tally_row *self = &t->rows.data[set->self_row];
	next_stamp(t);
	if (!is_new) {
		const struct tally_set *before = &t->sets.data[*last];
		for (uint32_t m = 0; m < before->count; m++)
			t->stamps.data[t->members.data[before->first + m]] = t->stamp;
		self->self.runs += before->self_row != set->self_row;
	} else {
		self->self.runs++;
		self->self.starts++;
	}
	for (uint32_t m = 0; m < set->count; m++) {
		uint32_t row = t->members.data[set->first + m];
		t->rows.data[row].total.runs += t->stamps.data[row] != t->stamp;
		t->rows.data[row].total.starts += is_new;
	}
	*last = id;
}

static void count_ends(struct tally *t)
{
	for (size_t i = 0; i < t->thread_states.count; i++) {
		const struct tally_set *set = &t->sets.data[t->thread_states.data[i]];
		t->rows.data[set->self_row].self.ends++;
		for (uint32_t m = 0; m < set->count; m++)
			t->rows.data[t->members.data[set->first + m]].total.ends++;
	}
	t->threads = t->thread_states.count;
	t->processes = t->process_ids.count;
}

double tally_weight(const struct tally *t, const struct profile_sample *sample)
{
	if (!t->is_weighted)
		return (double)profile_sample_count(t->profile, sample);
	double weight = (double)sample->weight;
	return weight < t->weight_floor ? 0 : weight;
}

// Whether a frame of the stack was found without CFI. A node's parent comes before it.
static bool is_guessed(struct tally *t, uint32_t node)
{
	const struct profile *p = t->profile;
	if (node == PROFILE_NONE)
		return false;
	for (size_t i = t->guessed.count; i <= node; i++) {
		const struct profile_node *at = &p->nodes.data[i];
		uint8_t via = p->frames.data[at->frame].via;
		bool below = at->parent != PROFILE_NONE && at->parent < i && t->guessed.data[at->parent] != 0;
		vec_push(&t->guessed, below || via == VIA_FP || via == VIA_LEAF_RULE);
	}
	return t->guessed.data[node] != 0;
}

static void count_stack(struct tally *t, const struct profile_sample *sample, uint32_t set, double weight)
{
	uint64_t count = profile_sample_count(t->profile, sample);
	switch (stack_class_of(sample)) {
	case STACK_COMPLETE:
		t->stacks_complete += count;
		break;
	case STACK_JOINED:
		t->stacks_joined += count;
		break;
	case STACK_TRUNCATED:
		t->stacks_truncated += count;
		break;
	case STACK_FAILED:
		t->stacks_failed += count;
		break;
	}
	if (stack_class_of(sample) >= STACK_TRUNCATED) {
		t->cut += weight;
		t->set_cut.data[set] += weight;
	}
	if (sample->end < UNWIND_END_COUNT)
		t->ends[sample->end] += count;
	if (sample->splice < 3)
		t->splices[sample->splice] += count;
	if (is_guessed(t, sample->stack))
		t->stacks_guessed += count;
}

static void count_sample(struct tally *t, const struct profile_sample *sample, size_t *block)
{
	double weight = tally_weight(t, sample);
	uint64_t count = profile_sample_count(t->profile, sample);
	t->warm_up_samples += weight == 0;
	size_t now = block_of(t, sample->time_ns);
	if (now != *block) {
		flush_block(t, *block);
		*block = now;
	}
	uint32_t id = set_of(t, sample);
	if (t->set_block.data[id] == 0 && weight > 0)
		vec_push(&t->touched_sets, id);
	t->set_block.data[id] += weight;
	t->n[now] += weight;
	t->weight += weight;
	t->weight_squares += weight * weight;
	t->samples += count;
	t->second_comb += sample->comb != 0 ? count : 0;
	const struct tally_set *set = &t->sets.data[id];
	struct tally_row *self = &t->rows.data[set->self_row];
	double *denominator = !set->is_resolved ? &t->unresolved : sample->is_kernel ? &t->kernel : &t->user;
	*denominator += weight;
	self->samples += count;
	self->second_comb += sample->comb != 0 ? count : 0;
	if (sample->is_kernel)
		self->kernel += weight;
	else
		self->user += weight;
	count_stack(t, sample, id, weight);
	count_visits(t, sample, id);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

// Weighted when the periods differ: a frequency of a hardware event, or a clock reopened at a coarser period. A frequency starts with
// periods of a few counts and adapts within about ten samples: what is below a quarter of the median is left out.
static void find_weights(struct tally *t)
{
	const struct profile *p = t->profile;
	enum { MAX_MEDIAN = 65536 };
	VEC(uint64_t) some = { 0 };
	size_t count = 0, step = 1 + p->samples.count / MAX_MEDIAN;
	uint64_t first = 0;
	if (p->events.data[t->event].counts_by_weight)
		return;
	for (size_t i = 0; i < p->samples.count; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&p->samples, i, &s_row);
		if (s->event != t->event || s->weight == 0)
			continue;
		if (first == 0)
			first = s->weight;
		t->is_weighted |= s->weight != first;
		if (count++ % step == 0)
			vec_push(&some, s->weight);
	}
	if (t->is_weighted && some.count > 0) {
		qsort(some.data, some.count, sizeof(*some.data), by_value);
		const struct profile_event *e = &p->events.data[t->event];
		size_t middle = some.count / 2;
		t->weight_floor = e->is_freq && !e->is_clock ? (double)some.data[middle] / 4 : 0;
	}
	vec_release(&some);
}

static void start(struct tally *t)
{
	intern_init(&t->entry_ids);
	intern_init(&t->context_ids);
	vec_reserve(&t->entry_of_line, t->profile->chains.count + 1);
	memset(t->entry_of_line.data, 0, t->entry_of_line.capacity * sizeof(uint32_t));
	vec_reserve(&t->set_of_stack, t->profile->nodes.count + 1);
	memset(t->set_of_stack.data, 0, t->set_of_stack.capacity * sizeof(uint32_t));
	find_weights(t);
}

void tally_build(struct tally *tally, const struct profile *profile, uint32_t event, const struct report_options *options,
                 uint64_t from_ns, uint64_t to_ns)
{
	*tally = (struct tally){ .profile = profile, .event = event, .inlines = options->inlines, .idle = options->idle,
		.from_ns = from_ns, .to_ns = to_ns };
	for (size_t i = 0; i < options->keys.count; i++)
		tally->keys |= 1u << options->keys.data[i];
	start(tally);
	struct report_filter filter = options->filter; // of samples; dsos and symbols choose rows
	filter.dsos = filter.symbols = NULL;
	size_t block = 0;
	for (size_t i = 0; i < profile->samples.count; i++) {
		struct profile_sample sample_row;
		const struct profile_sample *sample = samples_get(&profile->samples, i, &sample_row);
		if (sample->event != event || !filter_keeps(&filter, profile, sample))
			continue;
		if (sample->is_idle) {
			tally->idle_samples++;
			tally->idle_weight += (double)sample->weight;
			if (!tally->idle)
				continue;
		}
		count_sample(tally, sample, &block);
	}
	flush_block(tally, block);
	for (size_t i = 0; i < tally->sets.count; i++)
		for (uint32_t m = 0; m < tally->sets.data[i].count; m++)
			tally->rows.data[tally->members.data[tally->sets.data[i].first + m]].cut += tally->set_cut.data[i];
	count_ends(tally);
}

void tally_release(struct tally *t)
{
	vec_release(&t->rows);
	vec_release(&t->cells);
	vec_release(&t->cell_starts);
	vec_release(&t->entries);
	vec_release(&t->contexts);
	intern_release(&t->entry_ids);
	intern_release(&t->context_ids);
	vec_release(&t->entry_of_line);
	hash_map_release(&t->row_ids);
	hash_map_release(&t->set_ids);
	hash_map_release(&t->thread_ids);
	hash_map_release(&t->process_ids);
	vec_release(&t->set_of_stack);
	vec_release(&t->guessed);
	vec_release(&t->sets);
	vec_release(&t->members);
	vec_release(&t->thread_states);
	vec_release(&t->set_block);
	vec_release(&t->set_cut);
	vec_release(&t->row_self);
	vec_release(&t->row_total);
	vec_release(&t->touched_sets);
	vec_release(&t->touched_rows);
	vec_release(&t->stamps);
}

void tally_sort_cells(struct tally *t)
{
	if (t->cells.count == 0)
		return;
	size_t *at = mem_zero(t->rows.count + 1, sizeof(*at));
	for (size_t i = 0; i < t->cells.count; i++)
		at[t->cells.data[i].row + 1]++;
	for (size_t r = 0; r < t->rows.count; r++)
		at[r + 1] += at[r];
	struct tally_cell *sorted = mem_alloc(t->cells.count * sizeof(*sorted));
	vec_reserve(&t->cell_starts, t->rows.count + 1);
	for (size_t r = 0; r <= t->rows.count; r++)
		t->cell_starts.data[r] = at[r];
	t->cell_starts.count = t->rows.count + 1;
	for (size_t i = 0; i < t->cells.count; i++)
		sorted[at[t->cells.data[i].row]++] = t->cells.data[i];
	free(t->cells.data);
	t->cells.data = sorted;
	t->cells.capacity = t->cells.count;
	free(at);
}

void tally_blocks(const struct tally *t, uint32_t row, double *self, double *total)
{
	memset(self, 0, TALLY_BLOCKS * sizeof(*self));
	memset(total, 0, TALLY_BLOCKS * sizeof(*total));
	if (t->cell_starts.count == 0)
		return;
	for (size_t i = t->cell_starts.data[row]; i < t->cell_starts.data[row + 1]; i++) {
		self[t->cells.data[i].block] += t->cells.data[i].self;
		total[t->cells.data[i].block] += t->cells.data[i].total;
	}
}
