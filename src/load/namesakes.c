// Different functions of one name in one file: static functions of several source files. Each is a function of its own, told apart by its source file, or by
// its address where that is not known. Copies that one source file left in several (a static function in a header) stay one.
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "load/symbols.h"

struct namesake {
	uint32_t function; // the profile's
	uint32_t file;     // intern id of where its code comes from, by its lines; 0: unknown
	uint32_t next;     // of the same name and file, index into the namesakes; PROFILE_NONE: last
	uint32_t same_as;  // index of the first one that is the same function
	uint32_t label;    // intern id; 0: its address
};

struct telling {
	struct profile *profile;
	VEC(struct namesake) all;
	struct hash_map first;   // (name, dso) -> the first of its namesakes
	struct hash_map by_function;
	bool no_clones;
};

static uint64_t key_of(const struct profile_function *f)
{
	return (uint64_t)f->name << 32 | f->dso;
}

// Functions that are local to a source file, by name and file; true: several have one name.
static bool find_locals(struct telling *t)
{
	bool any = false;
	for (uint32_t i = 0; i < t->profile->functions.count; i++) {
		const struct profile_function *f = &t->profile->functions.data[i];
		if (f->start == 0 || f->is_nameless || !f->is_known)
			continue;
		bool is_new;
		uint32_t *first = hash_map_put(&t->first, key_of(f), (uint32_t)t->all.count, &is_new);
		vec_push(&t->all, (struct namesake){ .function = i, .next = is_new ? (uint32_t)PROFILE_NONE : *first, .same_as = PROFILE_NONE });
		*first = (uint32_t)t->all.count - 1;
		any |= !is_new;
	}
	return any;
}

// Beside those of one source file stands one that all see. It keeps the plain name.
static void find_globals(struct telling *t)
{
	for (uint32_t i = 0; i < t->profile->functions.count; i++) {
		const struct profile_function *f = &t->profile->functions.data[i];
		uint32_t *first = f->start == 0 && f->is_known && f->linkage_name != 0 ? hash_map_get(&t->first, key_of(f)) : NULL;
		if (first == NULL)
			continue;
		vec_push(&t->all, (struct namesake){ .function = i, .next = *first, .same_as = PROFILE_NONE });
		*first = (uint32_t)t->all.count - 1;
	}
}

static void find_files(struct telling *t)
{
	struct profile *p = t->profile;
	for (uint32_t i = 0; i < t->all.count; i++)
		hash_map_put(&t->by_function, t->all.data[i].function, i, NULL);
	for (size_t i = 0; i < p->frames.count; i++) {
		const struct profile_frame *frame = &p->frames.data[i];
		const struct profile_line *line = frame->line_count > 0 ? &p->chains.data[frame->first_line + frame->line_count - 1] : NULL;
		const uint32_t *at = line != NULL && line->file != 0 ? hash_map_get(&t->by_function, line->function) : NULL;
		if (at != NULL && t->all.data[*at].file == 0)
			t->all.data[*at].file = line->file;
	}
}

static bool is_same(const struct telling *t, const struct namesake *a, const struct namesake *b)
{
	const struct profile_function *x = &t->profile->functions.data[a->function], *y = &t->profile->functions.data[b->function];
	if (a->file != 0 && b->file != 0)
		return a->file == b->file;
	if (x->unit != 0 && y->unit != 0)
		return x->unit == y->unit;
	// Constructors of one class, parts of one function, perhaps.
	return x->linkage_name != y->linkage_name || (t->no_clones && x->start != 0 && y->start != 0);
}

static bool are_many(const struct telling *t, uint32_t first)
{
	enum { MANY = 256 }; // nobody reads so many, and each is held against each
	size_t count = 0;
	for (uint32_t i = first; i != PROFILE_NONE && count <= MANY; i = t->all.data[i].next)
		count++;
	return count > MANY;
}

static size_t find_classes(struct telling *t, uint32_t first)
{
	size_t classes = 0;
	if (are_many(t, first)) // all of one name stay one
		return 0;
	for (uint32_t i = first; i != PROFILE_NONE; i = t->all.data[i].next) {
		uint32_t same = first;
		while (same != i && !is_same(t, &t->all.data[same], &t->all.data[i]))
			same = t->all.data[same].next;
		t->all.data[i].same_as = same == i ? i : t->all.data[same].same_as;
		classes += same == i;
	}
	return classes;
}

// The last `parts` parts of a path.
static const char *path_end(const char *path, unsigned parts)
{
	const char *at = path + strlen(path);
	while (at > path && (at[-1] != '/' || --parts > 0))
		at--;
	return at;
}

static uint32_t label_of(struct telling *t, const struct namesake *n, unsigned parts)
{
	const struct profile_function *f = &t->profile->functions.data[n->function];
	uint32_t path = n->file != 0 ? n->file : f->source;
	if (path == 0)
		return 0;
	char *label = mem_string(path_end(profile_text(t->profile, path), parts));
	uint32_t id = intern_string(&t->profile->names, label);
	free(label);
	return id;
}

// The shortest end of its path that no other has; none where two have the whole.
static void find_label(struct telling *t, uint32_t first, uint32_t index)
{
	enum { PARTS_MOST = 8 };
	struct namesake *n = &t->all.data[index];
	uint32_t before = 0;
	for (unsigned parts = 1; parts <= PARTS_MOST; parts++) {
		uint32_t label = label_of(t, n, parts);
		bool is_only = label != 0;
		for (uint32_t i = first; i != PROFILE_NONE && is_only; i = t->all.data[i].next)
			is_only = t->all.data[i].same_as == index || label_of(t, &t->all.data[i], parts) != label;
		if (is_only)
			n->label = label;
		if (is_only || label == before)
			return;
		before = label;
	}
}

static void tell_function(struct telling *t, struct namesake *n)
{
	struct profile *p = t->profile;
	struct profile_function *f = &p->functions.data[n->function];
	if (f->start == 0) // the one that all see
		return;
	struct buf text = { 0 };
	if (n->label == 0)
		buf_printf(&text, "0x%llx", (unsigned long long)f->vaddr);
	f->told_by = n->label != 0 ? n->label : intern_string(&p->names, buf_text(&text));
	f->plain_name = f->name;
	buf_clear(&text);
	buf_printf(&text, "%s (", profile_text(p, f->name));
	buf_printf(&text, "%s)", profile_text(p, f->told_by));
	f->name = intern_string(&p->names, buf_text(&text));
	buf_release(&text);
}

// What was inlined has a source file alone.
static uint32_t find_inlined(const struct telling *t, const struct profile_line *line)
{
	const uint32_t *first = line->file != 0 ? hash_map_get(&t->first, key_of(&t->profile->functions.data[line->function])) : NULL;
	for (uint32_t i = first != NULL ? *first : (uint32_t)PROFILE_NONE; i != PROFILE_NONE; i = t->all.data[i].next)
		if (t->all.data[i].file == line->file)
			return t->all.data[i].same_as;
	return PROFILE_NONE;
}

// Lines of one that is the same as another are that one's.
static void move_lines(struct telling *t)
{
	struct profile *p = t->profile;
	for (size_t i = 0; i < p->chains.count; i++) {
		struct profile_line *line = &p->chains.data[i];
		const uint32_t *at = hash_map_get(&t->by_function, line->function);
		uint32_t same = at != NULL ? t->all.data[*at].same_as : line->is_inlined ? find_inlined(t, line) : (uint32_t)PROFILE_NONE;
		if (same != PROFILE_NONE)
			line->function = t->all.data[same].function;
	}
}

void namesakes_tell(struct symbols *symbols)
{
	struct telling t = { .profile = symbols->loader->profile, .no_clones = symbols->loader->options->no_clones };
	if (find_locals(&t)) {
		find_globals(&t);
		find_files(&t);
		VEC(uint32_t) told = { 0 }; // names change, so not before all lines are moved
		for (uint32_t i = 0; i < t.all.count; i++) {
			uint32_t first = *hash_map_get(&t.first, key_of(&t.profile->functions.data[t.all.data[i].function]));
			if (first != i || find_classes(&t, i) < 2)
				continue;
			for (uint32_t k = i; k != PROFILE_NONE; k = t.all.data[k].next) {
				if (t.all.data[k].same_as != k)
					continue;
				find_label(&t, i, k);
				vec_push(&told, k);
			}
		}
		move_lines(&t);
		for (size_t i = 0; i < told.count; i++)
			tell_function(&t, &t.all.data[told.data[i]]);
		vec_release(&told);
	}
	vec_release(&t.all);
	hash_map_release(&t.first);
	hash_map_release(&t.by_function);
}
