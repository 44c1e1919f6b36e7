// Any bytes as folded stacks and as perf script's text: no crash, tables that refer to what is there, and memory in proportion to the input.
#include "load/text.h"
#include "tests/fuzz/replay.h"

static void check(const struct profile *p, size_t size)
{
	if (p->samples.count > size || p->frames.count > size || p->chains.count > 2 * size)
		abort();
	for (size_t i = 0; i < p->samples.count; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&p->samples, i, &s_row);
		if (s->event >= p->events.count || (s->stack != PROFILE_NONE && s->stack >= p->nodes.count) || s->comm >= p->names.entries.count)
			abort();
	}
	for (size_t i = 0; i < p->nodes.count; i++)
		if (p->nodes.data[i].frame >= p->frames.count || (p->nodes.data[i].parent != PROFILE_NONE && p->nodes.data[i].parent >= i))
			abort();
	for (size_t i = 0; i < p->frames.count; i++) {
		const struct profile_frame *f = &p->frames.data[i];
		if (f->line_count == 0 || f->first_line + f->line_count > p->chains.count || (f->dso != PROFILE_NONE && f->dso >= p->dsos.count))
			abort();
	}
	for (size_t i = 0; i < p->chains.count; i++)
		if (p->chains.data[i].function >= p->functions.count)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (enum text_kind kind = TEXT_FOLDED; kind <= TEXT_SCRIPT && size > 0; kind++) {
		for (int salvage = 0; salvage < 2; salvage++) {
			struct profile profile;
			struct err err = { 0 };
			struct load_options options = { .input = "fuzz", .salvage = salvage != 0 };
			FILE *file = fmemopen((void *)(uintptr_t)data, size, "r");
			profile_init(&profile);
			bool is_read = file != NULL && text_read(&profile, &options, file, kind, &err);
			if (!is_read && err.status != STATUS_INPUT)
				abort();
			if (is_read)
				check(&profile, size);
			if (file != NULL)
				fclose(file);
			profile_release(&profile);
		}
	}
	return 0;
}
