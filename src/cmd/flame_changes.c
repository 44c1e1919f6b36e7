#include "cmd/flame_changes.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/intern.h"
#include "base/log.h"
#include "export/json_write.h"

static const double CONFIDENCE = 0.95, FDR = 0.05;

typedef VEC(struct digest) digests;

// One recording by self and by total.
static bool load_one(digests *own, digests *total, const char *path, const struct load_options *load, const char *event, struct err *err)
{
	struct load_options options = *load;
	struct digest_options wanted = { .event = event, .confidence = CONFIDENCE };
	struct profile profile = { 0 };
	options.input = path;
	bool good = load_profile(&profile, &options, err);
	for (size_t i = 0; good && i < profile.meta.caveats.count; i++)
		log_warn("%s: %s", path, profile_text(&profile, profile.meta.caveats.data[i]));
	good = good && digest_build(vec_add(own), &profile, path, &wanted, err);
	wanted.children = true;
	good = good && digest_build(vec_add(total), &profile, path, &wanted, err);
	profile_release(&profile);
	return good;
}

static bool compare(struct diff *diff, const digests *list, size_t base_runs, bool children, struct err *err)
{
	struct diff_options options = { .confidence = CONFIDENCE, .fdr = FDR, .children = children };
	VEC(const struct digest *) sides = { 0 };
	for (size_t i = 0; i < list->count; i++)
		vec_push(&sides, &list->data[i]);
	bool good = diff_build(diff, sides.data, base_runs, sides.data + base_runs, sides.count - base_runs, &options, err);
	vec_release(&sides);
	return good;
}

static void release(digests *list)
{
	for (size_t i = 0; i < list->count; i++)
		digest_release(&list->data[i]);
	vec_release(list);
}

// ---------------------------------------------------------------- functions

static uint32_t key_of(struct intern *keys, const char *name, const char *dso)
{
	char base[4096], file[512];
	struct buf key = { 0 };
	size_t length = digest_base_name(name, base, sizeof(base));
	buf_add(&key, base, length);
	buf_byte(&key, 0);
	length = digest_base_dso(dso, file, sizeof(file));
	buf_add(&key, file, length);
	uint32_t id = intern_bytes(keys, key.data, key.size);
	buf_release(&key);
	return id;
}

static void index_rows(const struct diff *diff, struct intern *keys, struct hash_map *by_key, struct hash_map *by_name)
{
	for (uint32_t i = 0; i < diff->rows.count; i++) {
		const struct diff_row *row = &diff->rows.data[i];
		bool is_new;
		*hash_map_put(by_key, key_of(keys, row->name, row->dso), 0, NULL) = i + 1;
		uint32_t *alone = hash_map_put(by_name, key_of(keys, row->name, ""), i + 1, &is_new);
		if (!is_new)
			*alone = 0; // several of that name
	}
}

// By name and file; a renamed binary's functions stand under the other's file.
static const struct diff_row *row_of(const struct diff *diff, struct intern *keys, const struct hash_map *by_key, const struct hash_map *by_name,
                                     const char *name, const char *dso)
{
	const uint32_t *at = hash_map_get(by_key, key_of(keys, name, dso));
	if (at == NULL)
		at = hash_map_get(by_name, key_of(keys, name, ""));
	return at != NULL && *at > 0 ? &diff->rows.data[*at - 1] : NULL;
}

static void find_rows(struct flame_changes *c, const struct profile *p)
{
	struct intern keys;
	struct hash_map by_key[2] = { { 0 }, { 0 } }, by_name[2] = { { 0 }, { 0 } };
	intern_init(&keys);
	index_rows(&c->own, &keys, &by_key[0], &by_name[0]);
	index_rows(&c->total, &keys, &by_key[1], &by_name[1]);
	c->count = p->functions.count;
	c->rows = mem_zero(c->count + 1, sizeof(*c->rows));
	for (size_t i = 0; i < c->count; i++) {
		const struct profile_function *f = &p->functions.data[i];
		const char *name = profile_text(p, f->name), *dso = f->dso != PROFILE_NONE ? profile_text(p, p->dsos.data[f->dso].short_name) : "[unknown]";
		if (f->is_nameless && row_of(&c->total, &keys, &by_key[1], &by_name[1], name, dso) == NULL)
			name = "[unknown]"; // of another build
		c->rows[i].own = row_of(&c->own, &keys, &by_key[0], &by_name[0], name, dso);
		c->rows[i].total = row_of(&c->total, &keys, &by_key[1], &by_name[1], name, dso);
	}
	for (int i = 0; i < 2; i++) {
		hash_map_release(&by_key[i]);
		hash_map_release(&by_name[i]);
	}
	intern_release(&keys);
}

bool flame_changes_load(struct flame_changes *c, const struct flame_sides *sides, const struct load_options *load, const char *event,
                        const struct profile *profile, struct err *err)
{
	digests own = { 0 }, total = { 0 };
	bool good = true;
	for (size_t i = 0; i < sides->base.count && good; i++)
		good = load_one(&own, &total, sides->base.data[i], load, event, err);
	for (size_t i = 0; i < sides->new_.count && good; i++)
		good = load_one(&own, &total, sides->new_.data[i], load, event, err);
	good = good && compare(&c->own, &own, sides->base.count, false, err) && compare(&c->total, &total, sides->base.count, true, err);
	if (good)
		find_rows(c, profile);
	release(&own);
	release(&total);
	return good;
}

void flame_changes_release(struct flame_changes *c)
{
	diff_release(&c->own);
	diff_release(&c->total);
	free(c->rows);
}

// ---------------------------------------------------------------- what is shown

static bool is_slower(const struct diff_row *row)
{
	return row->has_ratio ? row->ratio > 1 : row->difference > 0;
}

const char *flame_change_mark(const struct flame_changes *c, uint32_t function)
{
	static const char *const marks[2][4] = { { "_[-?]", "_[-1]", "_[-2]", "_[-3]" }, { "_[+?]", "_[+1]", "_[+2]", "_[+3]" } };
	const struct diff_row *row = c->by_total ? c->rows[function].total : c->rows[function].own;
	if (row == NULL || (row->state != DIFF_FOUND && row->state != DIFF_WITHIN))
		return NULL;
	int level = row->state == DIFF_WITHIN ? 0 : row->q <= FDR / 1000 ? 3 : row->q <= FDR / 20 ? 2 : 1; // as page_draw.js has it
	return marks[is_slower(row)][level];
}

void flame_changes_text(const struct flame_changes *c, bool draws_base, struct buf *out)
{
	const struct diff *d = c->by_total ? &c->total : &c->own;
	buf_printf(out, "\n%zu of %zu functions differ (%s, q at most %g), %zu not distinguishable; widths: the %s side", d->found, d->tested,
	           c->by_total ? "with callees" : "own code", FDR, d->open, draws_base ? "base" : "new");
	if (d->is_within)
		buf_string(out, "; pale: differs between these runs, which says nothing of the next");
	for (size_t i = 0; i < d->caveats.count; i++)
		buf_printf(out, "\n%s", d->caveats.data[i]);
}

static void row_json(const char *key, const struct diff_row *row, struct buf *out)
{
	static const char *const states[] = { "found", "open", "loss", "few", "within", "rare" };
	if (row == NULL) {
		json_put_null(out, key);
		return;
	}
	json_open_object(out, key);
	json_put_text(out, "state", states[row->state]);
	json_put_bool(out, "up", is_slower(row));
	if (row->q >= 0)
		json_put_number(out, "q", row->q);
	else
		json_put_null(out, "q");
	if (row->has_ratio) {
		json_put_number(out, "ratio", row->ratio);
		json_put_number(out, "lo", row->ratio_ci.lo);
		json_put_number(out, "hi", row->ratio_ci.hi);
	} else {
		json_put_null(out, "ratio");
	}
	json_put_text(out, "note", row->note != NULL ? row->note : "");
	json_close_object(out);
}

void flame_changes_json(const struct flame_changes *c, struct buf *out)
{
	json_open_object(out, "diff");
	json_put_number(out, "fdr", FDR);
	json_put_bool(out, "within", c->own.is_within);
	json_put_text(out, "by", c->by_total ? "total" : "self");
	json_open_array(out, "rows"); // by function
	for (size_t i = 0; i < c->count; i++) {
		json_open_object(out, NULL);
		row_json("self", c->rows[i].own, out);
		row_json("total", c->rows[i].total, out);
		json_close_object(out);
	}
	json_close_array(out);
	json_close_object(out);
}
