// Names of the running kernel and its modules. The kernel takes some 40 ms to print its table, so it is read when the first
// kernel address is asked for.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/kallsyms.h"
#include "symbols/module.h"
#include "symbols/provider.h"
#include "symbols/text_file.h"

enum { KALLSYMS_LIMIT = 256 * 1024 * 1024 };

struct kallsyms {
	struct buf text;
	struct symbol_table table;
};

static bool serves(const struct symbol_module *module)
{
	return module->wanted.kind == SYMBOL_IMAGE_KERNEL;
}

// /sys/kernel/notes holds the running kernel's notes; unreadable, it contradicts nothing.
static bool is_other_kernel(const struct symbol_module *module)
{
	if (module->wanted.build_id.size == 0 || module->options->kallsyms_path != NULL)
		return false;
	struct buf notes = { 0 };
	struct build_id id = { 0 };
	int fd = open("/sys/kernel/notes", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		text_file_read(fd, 64 * 1024, &notes);
		close(fd);
	}
	bool differs = build_id_from_notes(bytes_of(notes.data, notes.size), 4, &id) && !build_id_equal(&id, &module->wanted.build_id);
	buf_release(&notes);
	return differs;
}

static void release(void *state)
{
	struct kallsyms *k = state;
	symbol_table_release(&k->table);
	buf_release(&k->text);
	free(k);
}

static bool open_kallsyms(struct symbol_module *module, void **state)
{
	const char *path = module->options->kallsyms_path;
	module->missing = SYMBOL_NO_KALLSYMS;
	if (path == NULL && !module->options->use_host_files)
		return false;
	if (is_other_kernel(module)) {
		module->missing = SYMBOL_WRONG_BUILD_ID;
		return false;
	}
	int fd = open(path != NULL ? path : "/proc/kallsyms", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	struct kallsyms *k = NEW(struct kallsyms);
	bool good = text_file_read(fd, KALLSYMS_LIMIT, &k->text);
	close(fd);
	if (!good || kallsyms_parse(&k->table, k->text.data, k->text.size) == 0) {
		release(k);
		return false;
	}
	symbol_table_finish(&k->table);
	module->missing = SYMBOL_NOT_COVERED;
	*state = k;
	return true;
}

static bool lookup(struct symbol_module *module, void *state, uint64_t addr, struct symbol_hit *out)
{
	(void)module;
	struct kallsyms *k = state;
	const struct table_symbol *found = symbol_table_find(&k->table, addr);
	if (found == NULL)
		return false;
	*out = (struct symbol_hit){ .start = found->start };
	out->name = symbol_table_name(&k->table, found, &out->length);
	out->module = kallsyms_module(&k->table, found, &out->module_length);
	return out->length > 0;
}

const struct symbol_provider symbol_provider_kallsyms = {
	.name = "kallsyms", .order = 10, .serves = serves, .open = open_kallsyms, .lookup = lookup, .release = release,
};
