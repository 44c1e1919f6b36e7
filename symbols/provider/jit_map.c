// Names of code that a JIT compiler made, from the map it wrote. The file was opened, under the rules for untrusted paths, by whoever
// asks; here its content is untrusted as well.
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "symbols/damage.h"
#include "symbols/jit_map.h"
#include "symbols/module.h"
#include "symbols/provider.h"
#include "symbols/text_file.h"

enum { MAP_LIMIT = 256 * 1024 * 1024 };

struct jit {
	struct buf text;
	struct jit_map map;
};

static bool serves(const struct symbol_module *module)
{
	return module->wanted.kind == SYMBOL_IMAGE_JIT;
}

static bool open_map(struct symbol_module *module, void **state)
{
	module->missing = SYMBOL_NO_MAP;
	if (module->wanted.map_fd < 0)
		return false;
	struct jit *jit = NEW(struct jit);
	text_file_read(module->wanted.map_fd, MAP_LIMIT, &jit->text);
	if (jit->text.size > 0)
		jit_map_parse(&jit->map, jit->text.data, jit->text.size);
	struct damages *damages = module->options->damages;
	if (module->wanted.map_path != NULL && (jit->map.is_cut || jit->map.has_odd)) {
		char *text = mem_printf("%s: offset %#zx: %s", module->wanted.map_path, jit->map.odd_at, jit->map.has_odd ? "expected a line \"START SIZE NAME\"" :
		                        "the last line is cut: expected a newline at the end");
		damages_note(damages, module->wanted.map_path, NULL, 1, text);
		free(text);
	}
	if (jit->map.entries.count > 0)
		module->missing = SYMBOL_NOT_COVERED;
	else if (jit->text.size > 0)
		module->missing = SYMBOL_BAD_FILE;
	*state = jit;
	return true;
}

static bool lookup(struct symbol_module *module, void *state, uint64_t addr, struct symbol_hit *out)
{
	(void)module;
	struct jit *jit = state;
	const struct jit_entry *found = jit_map_find(&jit->map, addr);
	if (found == NULL)
		return false;
	*out = (struct symbol_hit){ .name = jit->map.text + found->name, .length = found->length, .start = found->start };
	return true;
}

static void release(void *state)
{
	struct jit *jit = state;
	jit_map_release(&jit->map);
	buf_release(&jit->text);
	free(jit);
}

const struct symbol_provider symbol_provider_jit_map = {
	.name = "jit_map", .order = 10, .serves = serves, .open = open_map, .lookup = lookup, .release = release,
};
