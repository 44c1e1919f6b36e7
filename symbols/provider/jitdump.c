// Names and lines of code in a jitdump file. Whoever asks has opened it, under the rules for untrusted paths; addresses are offsets in it.
#include <stdlib.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "elf/guard.h"
#include "symbols/jitdump.h"
#include "symbols/module.h"
#include "symbols/provider.h"

struct state {
	const void *bytes;
	size_t size;
	struct jitdump dump;
	struct arena arena; // file and function names, ended by NUL
};

static bool serves(const struct symbol_module *module)
{
	return module->wanted.kind == SYMBOL_IMAGE_JITDUMP;
}

static void release(void *opaque)
{
	struct state *state = opaque;
	jitdump_release(&state->dump);
	arena_release(&state->arena);
	if (state->bytes != NULL)
		guard_unmap(state->bytes, state->size);
	free(state);
}

static bool open_dump(struct symbol_module *module, void **out)
{
	struct stat st;
	module->missing = SYMBOL_NO_MAP;
	if (module->wanted.map_fd < 0 || fstat(module->wanted.map_fd, &st) != 0)
		return false;
	module->missing = SYMBOL_BAD_FILE;
	if (st.st_size <= 0 || st.st_size > JITDUMP_BYTES_MOST)
		return false;
	struct state *state = NEW(struct state);
	state->size = (size_t)st.st_size;
	state->bytes = guard_map(module->wanted.map_fd, state->size);
	if (state->bytes == NULL || (!jitdump_parse(&state->dump, state->bytes, state->size, NULL) && state->dump.codes.count == 0)) {
		release(state);
		return false;
	}
	module->missing = SYMBOL_NOT_COVERED;
	*out = state;
	return true;
}

static bool lookup(struct symbol_module *module, void *opaque, uint64_t offset, struct symbol_hit *out)
{
	const struct state *state = opaque;
	const struct jitdump_code *code = jitdump_find(&state->dump, offset);
	(void)module;
	if (code == NULL || code->name_length == 0)
		return false;
	*out = (struct symbol_hit){ .name = (const char *)state->dump.bytes + code->name, .length = code->name_length, .start = code->offset };
	return true;
}

static bool expand(struct symbol_module *module, void *opaque, uint64_t offset, struct symbol_chain *out)
{
	struct state *state = opaque;
	const struct jitdump_code *code = jitdump_find(&state->dump, offset);
	const struct jitdump_line *line = code != NULL ? jitdump_line(&state->dump, code, offset) : NULL;
	(void)module;
	if (line == NULL)
		return false;
	out->count = 1;
	out->start = code->offset;
	out->frames[0] = (struct symbol_source){ .line = line->line };
	out->frames[0].name = arena_string(&state->arena, (const char *)state->dump.bytes + code->name, code->name_length);
	out->frames[0].file = arena_string(&state->arena, (const char *)state->dump.bytes + line->file, line->file_length);
	return true;
}

const struct symbol_provider symbol_provider_jitdump = {
	.name = "jitdump", .order = 10, .serves = serves, .open = open_dump, .lookup = lookup, .expand = expand, .release = release,
};
