#include "report/tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/weights.h"

enum { POINTS = 128 }; // read at a time: their sets fit into the first cache
enum { KEYS_OF_CODE = 1 << KEY_SYMBOL | 1 << KEY_DSO | 1 << KEY_SRCLINE };

// What the samples of one context have in common, and what they come to.
struct tally_context_sum {
	uint64_t count;
	double weight;
	uint32_t context; // of the tally
	uint32_t thread;  // into thread_states, + 1; 0: none yet
	bool is_kept, is_idle, is_kernel, is_cut, is_second;
};

// ---------------------------------------------------------------- what a row is

// Kernel and other places that are no files go by their short name: they are mapped under several paths.
static uint32_t dso_key(const struct profile *p, uint32_t dso)
{
	const struct profile_dso *d = &p->dsos.data[dso];
	return profile_text(p, d->short_name)[0] == '[' ? d->short_name : d->path;
}

// What else tells functions apart: those that go by an address are others in another build of the file, which may stand under the same path.
static uint32_t build_key(const struct profile *p, const struct profile_function *f)
{
	uint32_t key = 0;
	if (f->dso == PROFILE_NONE || !profile_function_is_by_address(p, f) || p->dsos.data[f->dso].build_id.size < sizeof(key))
		return 0;
	memcpy(&key, p->dsos.data[f->dso].build_id.bytes, sizeof(key));
	return key;
}

// The function of `line` at the place in the source of `place`. Members that no key asks for are 0: equal rows are equal bytes.
static uint32_t entry_of(struct tally *t, const struct profile_line *line, const struct profile_line *place, const struct profile_frame *frame)
{
	const struct profile *p = t->profile;
	const struct profile_function *f = line != NULL ? &p->functions.data[line->function] : NULL;
	uint32_t dso = f != NULL ? f->dso : frame != NULL ? frame->dso : PROFILE_NONE;
	struct { uint32_t name, dso_path, file, line, build; } key = { 0 };
	static const uint32_t NO_NAME = 0xffffffff;
	if ((t->keys & 1 << KEY_SYMBOL) != 0) {
		key.name = f != NULL ? f->name : NO_NAME;
		key.build = f != NULL ? build_key(p, f) : 0;
	}
	if ((t->keys & (1 << KEY_SYMBOL | 1 << KEY_DSO)) != 0)
		key.dso_path = dso != PROFILE_NONE ? dso_key(p, dso) : NO_NAME;
	if ((t->keys & 1 << KEY_SRCLINE) != 0 && place != NULL) {
		key.file = place->file;
		key.line = place->line;
	}
	uint32_t id = intern_bytes(&t->entry_ids, (const char *)&key, sizeof(key)) - 1;
	if (id == t->entries.count) {
		struct tally_entry e = { .name = f != NULL ? f->name : NO_NAME, .dso_path = key.dso_path, .dso_name = NO_NAME, .file = key.file,
			.line = key.line, .function = f != NULL ? line->function : (uint32_t)PROFILE_NONE, .is_kernel = frame != NULL && frame->is_kernel };
		if (dso != PROFILE_NONE)
			e.dso_name = p->dsos.data[dso].short_name;
		vec_push(&t->entries, e);
		vec_push(&t->row_of_entry, 0);
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

static uint32_t context_of(struct tally *t, const struct sample_context *sample)
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
	uint32_t *last = &t->row_of_entry.data[entry];
	if (*last != 0 && t->rows.data[*last - 1].context == context)
		return *last - 1;
	bool is_new;
	uint32_t id = *hash_map_put(&t->row_ids, (uint64_t)entry << 32 | context, (uint32_t)t->rows.count, &is_new);
	*last = id + 1;
	if (is_new) {
		struct tally_row *row = vec_add(&t->rows);
		row->entry = entry;
		row->context = context;
		vec_push(&t->row_sums, (struct tally_sum){ 0 });
		vec_push(&t->stamps, 0);
		vec_push(&t->row_stays, 0);
	}
	return id;
}

// ---------------------------------------------------------------- the rows of a stack, each once

static void add_leaf(struct tally *t, uint32_t stack, uint32_t context)
{
	const struct profile *p = t->profile;
	const struct profile_frame *frame = stack != PROFILE_NONE ? &p->frames.data[p->nodes.data[stack].frame] : NULL;
	const struct profile_line *lines = frame != NULL && frame->line_count > 0 ? &p->chains.data[frame->first_line] : NULL;
	vec_push(&t->path, row_of(t, entry_of(t, lines != NULL ? &lines[frame->line_count - 1] : NULL, lines, frame), context));
}

void tally_next_stamp(struct tally *t)
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
	return f->line_count > 0 && profile_function_is_named(&p->functions.data[p->chains.data[f->first_line + f->line_count - 1].function]);
}

// The first row of the path is self's.
static void find_path(struct tally *t, uint32_t stack, uint32_t context)
{
	const struct profile *p = t->profile;
	vec_clear(&t->path);
	add_leaf(t, stack, context);
	bool all_alike = (t->keys & KEYS_OF_CODE) == 0; // every frame is the same row
	for (uint32_t node = stack; node != PROFILE_NONE && !all_alike; node = p->nodes.data[node].parent) {
		const struct profile_frame *frame = &p->frames.data[p->nodes.data[node].frame];
		if (frame->line_count == 0)
			vec_push(&t->path, row_of(t, entry_of(t, NULL, NULL, frame), context));
		else if (!t->inlines) // the function that has the code
			vec_push(&t->path, row_of(t, entry_of_line(t, frame->first_line + frame->line_count - 1, frame), context));
		else
			for (uint32_t i = 0; i < frame->line_count; i++)
				vec_push(&t->path, row_of(t, entry_of_line(t, frame->first_line + i, frame), context));
	}
}

static struct tally_set_notes notes_of(struct tally *t, uint32_t stack)
{
	return (struct tally_set_notes){ .is_resolved = is_resolved(t->profile, stack), .vias = vias_of_stack(&t->vias, t->profile, stack) };
}

// What a stack's set depends on, beside the context.
static uint64_t key_of(struct tally *t, uint32_t stack)
{
	if ((t->keys & KEYS_OF_CODE) != 0)
		return stack;
	struct tally_set_notes notes = notes_of(t, stack); // every frame is the same row
	return (uint64_t)notes.vias << 1 | notes.is_resolved;
}

static uint32_t make_set(struct tally *t, uint32_t stack, uint32_t context)
{
	find_path(t, stack, context);
	struct tally_set set = { .first = (uint32_t)t->members.count, .context = context, .self_row = t->path.data[0] };
	tally_next_stamp(t);
	vec_reserve(&t->members, t->path.count);
	vec_reserve(&t->stays, t->path.count);
	for (size_t i = t->path.count; i-- > 0;) {
		uint32_t row = t->path.data[i];
		if (t->stamps.data[row] == t->stamp)
			continue;
		t->stamps.data[row] = t->stamp;
		t->members.data[t->members.count++] = row;
		t->stays.data[t->stays.count++] = 0;
	}
	set.count = (uint32_t)t->members.count - set.first;
	vec_push(&t->sets, set);
	vec_push(&t->set_notes, notes_of(t, stack));
	return (uint32_t)t->sets.count - 1;
}

static uint32_t set_of(struct tally *t, uint32_t stack, uint32_t context)
{
	uint32_t *last = &t->set_of_stack.data[stack == PROFILE_NONE ? 0 : stack + 1];
	if (*last != 0 && t->sets.data[*last - 1].context == context)
		return *last - 1;
	uint64_t key = key_of(t, stack) << 32 | context;
	const uint32_t *known = hash_map_get(&t->set_ids, key);
	uint32_t set = known != NULL ? *known : make_set(t, stack, context);
	if (known == NULL)
		hash_map_put(&t->set_ids, key, set, NULL);
	t->set_of_stack.data[stack == PROFILE_NONE ? 0 : stack + 1] = set + 1;
	return set;
}

const struct tally_set *tally_rows_of(struct tally *t, const struct sample_point *point)
{
	return &t->sets.data[set_of(t, point->stack, t->context_sums[point->context].context)];
}

// ---------------------------------------------------------------- counting

static size_t block_of(const struct tally *t, uint64_t time_ns)
{
	if (time_ns <= t->from_ns || t->to_ns <= t->from_ns)
		return 0;
	size_t block = (size_t)((double)(time_ns - t->from_ns) / (double)(t->to_ns - t->from_ns) * TALLY_BLOCKS);
	return block < TALLY_BLOCKS ? block : TALLY_BLOCKS - 1;
}

static inline void flush_set(struct tally *t, struct tally_set *set)
{
	double weight = set->block;
	set->weight += weight;
	set->block = 0;
	t->row_sums.data[set->self_row].self += weight;
	for (uint32_t m = 0; m < set->count; m++) {
		uint32_t row = t->members.data[set->first + m];
		if (t->row_sums.data[row].total == 0)
			vec_push(&t->touched_rows, row);
		t->row_sums.data[row].total += weight;
	}
}

static inline void flush_row(struct tally *t, uint32_t id, size_t block)
{
	struct tally_row *row = &t->rows.data[id];
	struct tally_sum *sum = &t->row_sums.data[id];
	vec_push(&t->cells, (struct tally_cell){ row->last_cell, (uint32_t)block, *sum });
	row->last_cell = (uint32_t)t->cells.count;
	row->self.weight += sum->self;
	row->total.weight += sum->total;
	*sum = (struct tally_sum){ 0 };
}

// What the block gathered by stack goes to its rows. Where most are concerned they are taken in the order in which they lie in memory.
static void flush_block(struct tally *t, size_t block)
{
	enum { MANY = 4 };
	if (t->touched_sets.count > t->sets.count / MANY) {
		for (size_t i = 0; i < t->sets.count; i++)
			if (t->sets.data[i].block > 0)
				flush_set(t, &t->sets.data[i]);
	} else {
		for (size_t i = 0; i < t->touched_sets.count; i++)
			flush_set(t, &t->sets.data[t->touched_sets.data[i]]);
	}
	vec_reserve(&t->cells, t->touched_rows.count);
	if (t->touched_rows.count > t->rows.count / MANY) {
		for (size_t row = 0; row < t->rows.count; row++)
			if (t->row_sums.data[row].total > 0)
				flush_row(t, (uint32_t)row, block);
	} else {
		for (size_t i = 0; i < t->touched_rows.count; i++)
			flush_row(t, t->touched_rows.data[i], block);
	}
	vec_clear(&t->touched_sets);
	vec_clear(&t->touched_rows);
}

static uint32_t thread_of(struct tally *t, const struct sample_context *sample, bool *is_new)
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
	return index;
}

static void count_start(struct tally *t, const struct tally_set *set)
{
	t->rows.data[set->self_row].self.runs++;
	t->rows.data[set->self_row].self.starts++;
	for (uint32_t m = 0; m < set->count; m++) {
		struct tally_count *total = &t->rows.data[t->members.data[set->first + m]].total;
		total->runs++;
		total->starts++;
	}
}

// A run begins where the thread's sample before was not inside. Returns how many moves that makes: none, or the one put into `move`.
static inline size_t count_visits(struct tally *t, struct tally_context_sum *sum, const struct sample_point *point, uint32_t id,
                                  struct tally_move *move)
{
	if (sum->thread == 0) {
		bool is_new;
		sum->thread = thread_of(t, &t->profile->samples.contexts.data[point->context], &is_new) + 1;
		if (is_new) {
			count_start(t, &t->sets.data[id]);
			t->thread_states.data[sum->thread - 1] = id;
			return 0;
		}
	}
	uint32_t last = t->thread_states.data[sum->thread - 1];
	t->thread_states.data[sum->thread - 1] = id;
	move->from = last;
	move->to = id;
	return last != id;
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

double tally_weight(const struct tally *t, uint64_t weight)
{
	return t->is_weighted || t->counts_by_weight ? (double)weight : 1;
}

static inline void count_sample(struct tally *t, const struct sample_point *point, uint32_t id, size_t block)
{
	struct tally_context_sum *sum = &t->context_sums[point->context];
	double weight = tally_weight(t, point->weight);
	uint64_t count = t->counts_by_weight ? point->weight : 1;
	struct tally_set *set = &t->sets.data[id];
	if (set->block == 0 && weight > 0)
		vec_push(&t->touched_sets, id);
	set->block += weight;
	set->samples += count;
	if (sum->is_kernel)
		set->kernel += weight;
	if (sum->is_second)
		t->set_notes.data[id].second_comb += count;
	if (sum->is_cut)
		set->cut += weight;
	sum->count += count;
	sum->weight += weight;
	t->n[block] += weight;
	t->weight_squares += weight * weight;
}

// What was counted by set and by context.
static void add_sets(struct tally *t)
{
	for (size_t i = 0; i < t->sets.count; i++) {
		const struct tally_set *set = &t->sets.data[i];
		const struct tally_set_notes *notes = &t->set_notes.data[i];
		struct tally_row *self = &t->rows.data[set->self_row];
		double user = set->weight - set->kernel;
		self->samples += set->samples;
		self->second_comb += notes->second_comb;
		self->kernel += set->kernel;
		self->user += user;
		*(notes->is_resolved ? &t->kernel : &t->unresolved) += set->kernel;
		*(notes->is_resolved ? &t->user : &t->unresolved) += user;
		t->stacks_guessed += (notes->vias & VIAS_GUESSED) != 0 ? set->samples : 0;
		for (unsigned via = 0; via < VIA_COUNT; via++)
			t->stacks_by_via[via] += (notes->vias >> via & 1) != 0 ? set->samples : 0;
		for (uint32_t m = 0; m < set->count; m++)
			t->rows.data[t->members.data[set->first + m]].cut += set->cut;
	}
}

static void add_contexts(struct tally *t)
{
	for (size_t i = 0; i < t->profile->samples.contexts.count; i++) {
		const struct sample_context *c = &t->profile->samples.contexts.data[i];
		const struct tally_context_sum *sum = &t->context_sums[i];
		uint64_t *const by_class[] = { &t->stacks_complete, &t->stacks_joined, &t->stacks_truncated, &t->stacks_failed };
		t->samples += sum->count;
		t->weight += sum->weight;
		t->second_comb += sum->is_second ? sum->count : 0;
		t->cut += sum->is_cut ? sum->weight : 0;
		if (sum->is_idle) // its samples are in no share, and neither are their stacks: the more idle a host is, the better they would look
			continue;
		*by_class[stack_class_of(c->end, c->splice)] += sum->count;
		if (c->end < UNWIND_END_COUNT)
			t->ends[c->end] += sum->count;
		if (c->splice < 3)
			t->splices[c->splice] += sum->count;
	}
}

static void start(struct tally *t, const struct report_filter *filter)
{
	const struct samples *samples = &t->profile->samples;
	bool *keeps = filter_contexts(filter, t->profile);
	intern_init(&t->entry_ids);
	intern_init(&t->context_ids);
	vec_reserve(&t->entry_of_line, t->profile->chains.count + 1);
	memset(t->entry_of_line.data, 0, t->entry_of_line.capacity * sizeof(uint32_t));
	vec_reserve(&t->set_of_stack, t->profile->nodes.count + 1);
	memset(t->set_of_stack.data, 0, t->set_of_stack.capacity * sizeof(uint32_t));
	t->context_sums = mem_zero(samples->contexts.count + 1, sizeof(*t->context_sums));
	for (size_t i = 0; i < samples->contexts.count; i++) {
		const struct sample_context *c = &samples->contexts.data[i];
		bool is_kept = c->event == t->event && keeps[i];
		t->context_sums[i] = (struct tally_context_sum){ .context = is_kept ? context_of(t, c) : 0, .is_kept = is_kept, .is_idle = c->is_idle != 0,
			.is_kernel = c->is_kernel != 0, .is_cut = stack_class_of(c->end, c->splice) >= STACK_TRUNCATED, .is_second = c->comb != 0 };
	}
	free(keeps);
	t->counts_by_weight = t->profile->events.data[t->event].counts_by_weight;
	t->is_weighted = profile_weights_differ(t->profile, t->event);
}

// The block that all of the points are in; TALLY_BLOCKS: not all in one.
static size_t common_block(const struct tally *t, const struct sample_point *points, size_t count)
{
	size_t block = block_of(t, points[0].time_ns);
	return !t->profile->samples.is_out_of_order && block == block_of(t, points[count - 1].time_ns) ? block : TALLY_BLOCKS;
}

// Leaves those of the points that count, and names their sets. Their memory is asked for all at once.
static size_t keep_points(struct tally *t, const struct report_filter *filter, struct sample_point *points, uint32_t *ids, size_t count)
{
	bool any_time = filter->from_ns == 0 && filter->to_ns == 0;
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		const struct sample_point *point = &points[i];
		const struct tally_context_sum *sum = &t->context_sums[point->context];
		if (!sum->is_kept || (!any_time && !filter_keeps_time(filter, point->time_ns)))
			continue;
		if (sum->is_idle) {
			t->idle_samples++;
			t->idle_weight += (double)point->weight;
			if (!t->idle)
				continue;
		}
		ids[kept] = set_of(t, point->stack, sum->context);
		__builtin_prefetch(&t->sets.data[ids[kept]], 1);
		points[kept++] = *point;
	}
	return kept;
}

static void count_samples(struct tally *t, const struct report_filter *filter)
{
	struct sample_point points[POINTS];
	struct tally_move moves[POINTS + 1];
	uint32_t ids[POINTS];
	size_t block = 0;
	for (size_t at = 0, count; (count = samples_points(&t->profile->samples, at, points, POINTS)) > 0; at += count) {
		size_t kept = keep_points(t, filter, points, ids, count), moved = 0;
		size_t common = kept > 0 ? common_block(t, points, kept) : 0;
		for (size_t i = 0; i < kept; i++) {
			size_t now = common < TALLY_BLOCKS ? common : block_of(t, points[i].time_ns);
			if (now != block) {
				flush_block(t, block);
				block = now;
			}
			count_sample(t, &points[i], ids[i], now);
			moved += count_visits(t, &t->context_sums[points[i].context], &points[i], ids[i], &moves[moved]);
		}
		tally_count_moves(t, moves, moved);
	}
	flush_block(t, block);
}

void tally_build(struct tally *tally, const struct profile *profile, uint32_t event, const struct report_options *options,
                 uint64_t from_ns, uint64_t to_ns)
{
	*tally = (struct tally){ .profile = profile, .event = event, .inlines = options->inlines, .idle = options->idle,
		.from_ns = from_ns, .to_ns = to_ns };
	for (size_t i = 0; i < options->keys.count; i++)
		tally->keys |= 1u << options->keys.data[i];
	start(tally, &options->filter);
	count_samples(tally, &options->filter);
	tally_settle_moves(tally);
	add_sets(tally);
	add_contexts(tally);
	count_ends(tally);
}

void tally_release(struct tally *t)
{
	vec_release(&t->rows);
	vec_release(&t->cells);
	vec_release(&t->entries);
	vec_release(&t->contexts);
	intern_release(&t->entry_ids);
	intern_release(&t->context_ids);
	vec_release(&t->entry_of_line);
	vec_release(&t->row_of_entry);
	hash_map_release(&t->row_ids);
	hash_map_release(&t->set_ids);
	hash_map_release(&t->thread_ids);
	hash_map_release(&t->process_ids);
	vec_release(&t->set_of_stack);
	vias_release(&t->vias);
	vec_release(&t->sets);
	vec_release(&t->set_notes);
	vec_release(&t->members);
	vec_release(&t->stays);
	vec_release(&t->row_stays);
	vec_release(&t->path);
	vec_release(&t->thread_states);
	free(t->context_sums);
	vec_release(&t->row_sums);
	vec_release(&t->touched_sets);
	vec_release(&t->touched_rows);
	vec_release(&t->stamps);
}

void tally_blocks(const struct tally *t, uint32_t row, double *self, double *total)
{
	memset(self, 0, TALLY_BLOCKS * sizeof(*self));
	memset(total, 0, TALLY_BLOCKS * sizeof(*total));
	for (uint32_t at = t->rows.data[row].last_cell; at > 0; at = t->cells.data[at - 1].before) {
		const struct tally_cell *cell = &t->cells.data[at - 1];
		self[cell->block] += cell->sum.self;
		total[cell->block] += cell->sum.total;
	}
}
