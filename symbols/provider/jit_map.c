// Names of code that a JIT compiler made, from the map it wrote. The file was opened, under the rules for untrusted paths, by whoever
// asks; here its content is untrusted as well.
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "symbols/damage.h"
#include "symbols/jit_map.h"
#include "symbols/limits.h"
#include "symbols/module.h"
#include "symbols/provider.h"

enum { MAP_LIMIT = 256 * 1024 * 1024 };

struct jit { struct jit_map map; };

static bool serves(const struct symbol_module *module)
{
	return module->wanted.kind == SYMBOL_IMAGE_JIT;
}

// A block at a time: what counts of a map is little.
static void read_map(int fd, struct jit_map *map)
{
	enum { BLOCK_BYTES = 256 << 10 };
	char *block = mem_alloc(BLOCK_BYTES);
	ssize_t got = 1;
	for (uint64_t at = 0; at < MAP_LIMIT && got > 0; at += (uint64_t)(got > 0 ? got : 0)) {
		do
			got = pread(fd, block, BLOCK_BYTES, (off_t)at);
		while (got < 0 && errno == EINTR);
		if (got > 0)
			jit_map_add(map, block, (size_t)got);
	}
	jit_map_end(map);
	free(block);
}

static bool open_map(struct symbol_module *module, void **state)
{
	module->missing = SYMBOL_NO_MAP;
	if (module->wanted.map_fd < 0)
		return false;
	struct jit *jit = NEW(struct jit);
	jit->map.wanted = module->wanted.addrs;
	jit->map.wanted_count = module->wanted.addr_count;
	jit->map.bytes_most = SYMBOL_MAP_BYTES_MOST;
	jit->map.bytes_of_all = &module->limits->map_bytes;
	jit->map.bytes_of_all_most = SYMBOL_MAPS_BYTES_MOST;
	read_map(module->wanted.map_fd, &jit->map);
	module->limits->lines_left_out += jit->map.left_out;
	struct damages *damages = module->options->damages;
	if (module->wanted.map_path != NULL && (jit->map.is_cut || jit->map.has_odd)) {
		char *text = mem_printf("%s: offset %#zx: %s", module->wanted.map_path, jit->map.odd_at, jit->map.has_odd ? "expected a line \"START SIZE NAME\"" :
		                        "the last line is cut: expected a newline at the end");
		damages_note(damages, module->wanted.map_path, NULL, 1, text);
		free(text);
	}
	if (jit->map.entries.count > 0)
		module->missing = SYMBOL_NOT_COVERED;
	else if (jit->map.at > 0)
		module->missing = jit->map.good > 0 ? SYMBOL_NOT_COVERED : SYMBOL_BAD_FILE;
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
	free(jit);
}

const struct symbol_provider symbol_provider_jit_map = {
	.name = "jit_map", .order = 10, .serves = serves, .open = open_map, .lookup = lookup, .release = release,
};
