#include "cmd/inject_names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "proc/dso.h"

void inject_meta(struct names *names, const struct names *from, bool with_host)
{
	for (size_t i = 0; from != NULL && i < from->meta.count; i++) {
		const struct meta_pair *pair = &from->meta.data[i];
		bool is_host = strcmp(pair->key, "host") == 0 || strcmp(pair->key, "kernel") == 0;
		if (with_host || !is_host)
			names_meta(names, pair->key, "%s", pair->value);
	}
}

void inject_vdsos(struct names *names, const struct names *from)
{
	for (size_t i = 0; from != NULL && i < from->vdsos.count; i++)
		names_vdso(names, from->vdsos.data[i].bytes, from->vdsos.data[i].size);
}

void inject_say(struct names *names, const char *format, ...)
{
	char key[32], *text = NULL;
	va_list args;
	unsigned n = 0;
	do
		snprintf(key, sizeof(key), "decision.%u", n++);
	while (names_meta_get(names, key) != NULL);
	va_start(args, format);
	if (vasprintf(&text, format, args) >= 0)
		names_meta(names, key, "%s", text);
	va_end(args);
	free(text);
}

struct place { uint32_t dso, frame; uint64_t image_addr; };

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	if (x->dso != y->dso)
		return x->dso < y->dso ? -1 : 1;
	if (x->image_addr != y->image_addr)
		return x->image_addr < y->image_addr ? -1 : 1;
	return x->frame < y->frame ? -1 : x->frame > y->frame; // first the one that has the symbol's own name (load/folded.c)
}

static const char *text_or_null(const struct profile *profile, uint32_t id)
{
	return id != 0 ? profile_text(profile, id) : NULL;
}

static bool is_named(const struct profile *p, const struct profile_frame *frame)
{
	return profile_function_is_named(&p->functions.data[p->chains.data[frame->first_line + frame->line_count - 1].function]);
}

static void add_addr(struct name_image *to, const struct profile *p, const struct profile_frame *frame)
{
	const struct profile_line *lines = &p->chains.data[frame->first_line];
	struct name_addr addr = { .image_addr = frame->image_addr, .symbol_start = frame->symbol_start, .first_frame = (uint32_t)to->frames.count,
	                          .frame_count = frame->line_count,
	                          .linkage_name = text_or_null(p, p->functions.data[lines[frame->line_count - 1].function].linkage_name) };
	for (uint32_t i = 0; i < frame->line_count; i++) {
		const struct profile_function *f = &p->functions.data[lines[i].function];
		vec_push(&to->frames, (struct name_frame){ .name = profile_function_is_named(f) ? profile_text(p, f->plain_name != 0 ? f->plain_name : f->name) : NULL, .file = text_or_null(p, lines[i].file),
		                                           .line = lines[i].line, .is_inlined = lines[i].is_inlined });
	}
	vec_push(&to->addrs, addr);
}

// Addresses ascend, but functions may lie inside others.
static void add_function(struct name_image *to, const struct name_function *f)
{
	size_t at = to->functions.count;
	while (at > 0 && to->functions.data[at - 1].start > f->start)
		at--;
	if (at > 0 && to->functions.data[at - 1].start == f->start)
		return;
	vec_push(&to->functions, *f);
	memmove(&to->functions.data[at + 1], &to->functions.data[at], (to->functions.count - 1 - at) * sizeof(*f));
	to->functions.data[at] = *f;
}

static void tell_function(struct name_image *to, const struct profile *p, const struct profile_frame *frame)
{
	const struct profile_function *f = &p->functions.data[p->chains.data[frame->first_line + frame->line_count - 1].function];
	if (f->start != 0)
		add_function(to, &(struct name_function){ .start = f->start, .size = f->size, .vaddr = f->vaddr, .unit = f->unit, .source = text_or_null(p, f->source) });
}

void inject_names(struct names *names, const struct profile *p, const struct names *from)
{
	VEC(struct place) places = { 0 };
	for (uint32_t i = 0; i < p->frames.count; i++) {
		const struct profile_frame *f = &p->frames.data[i];
		bool is_known = f->line_count > 0 && p->functions.data[p->chains.data[f->first_line + f->line_count - 1].function].is_known;
		if (is_known && f->dso != PROFILE_NONE && p->dsos.data[f->dso].kind != DSO_SPECIAL) // those are named by themselves
			vec_push(&places, (struct place){ f->dso, i, f->image_addr });
	}
	if (places.count > 0)
		sort_stable(places.data, places.count, sizeof(*places.data), by_place);
	for (size_t i = 0; from != NULL && i < from->codes.count; i++) // where a JIT compiler's code was, and when
		vec_push(&names->codes, from->codes.data[i]);
	struct name_image *to = NULL;
	uint32_t *images = mem_zero(p->dsos.count + 1, sizeof(*images));
	for (size_t i = 0; i < p->dsos.count; i++)
		images[i] = PROFILE_NONE;
	for (size_t i = 0; i < places.count; i++) {
		const struct place *place = &places.data[i];
		const struct profile_dso *dso = &p->dsos.data[place->dso];
		if (i == 0 || place->dso != places.data[i - 1].dso) {
			images[place->dso] = (uint32_t)names->images.count;
			to = vec_add(&names->images);
			to->path = profile_text(p, dso->path);
			to->kind = dso->kind;
			to->build_id = dso->build_id;
			to->pid = dso->kind == DSO_ANON ? dso->pid : 0;
			to->since_ns = dso->since_ns;
		} else if (place->image_addr == places.data[i - 1].image_addr) {
			continue; // the same address as a leaf and as a return address
		}
		tell_function(to, p, &p->frames.data[place->frame]);
		if (is_named(p, &p->frames.data[place->frame]))
			add_addr(to, p, &p->frames.data[place->frame]);
	}
	inject_folded(names, p, images);
	free(images);
	vec_release(&places);
}
