// Names of the running kernel and its modules. The kernel takes some 40 ms to print its table, so it is read when the first
// kernel address is asked for.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/regular.h"
#include "elf/guard.h"
#include "symbols/kallsyms.h"
#include "symbols/module.h"
#include "symbols/provider.h"
#include "symbols/text_file.h"

enum { KALLSYMS_LIMIT = 256 * 1024 * 1024 };

struct listing {
	struct buf text;
	struct symbol_table table;
};

struct copy { // of what the kernel printed, mapped; bisected, never indexed
	const char *text;
	size_t size, core_size; // of the file, and of the kernel proper in it
};

struct kallsyms {
	struct listing whole; // as the kernel prints it
	struct copy core;     // from perf's cache: spares having the kernel print
	bool is_whole_tried;
};

static bool serves(const struct symbol_module *module)
{
	return module->wanted.kind == SYMBOL_IMAGE_KERNEL;
}

static int open_text(const char *path)
{
	return regular_open(path, 0);
}

static void release_listing(struct listing *listing)
{
	symbol_table_release(&listing->table);
	buf_release(&listing->text);
	*listing = (struct listing){ 0 };
}

static bool index_listing(struct listing *listing)
{
	if (kallsyms_parse(&listing->table, listing->text.data, listing->text.size) == 0) {
		release_listing(listing);
		return false;
	}
	symbol_table_finish(&listing->table);
	return true;
}

static bool read_listing(struct listing *listing, const char *path)
{
	int fd = open_text(path);
	if (fd < 0)
		return false;
	bool good = text_file_read(fd, KALLSYMS_LIMIT, &listing->text);
	close(fd);
	return good && index_listing(listing);
}

// /sys/kernel/notes holds the running kernel's notes. Size 0: not readable, which contradicts nothing.
static struct build_id running_kernel(void)
{
	struct buf notes = { 0 };
	struct build_id id = { 0 };
	int fd = open_text("/sys/kernel/notes");
	if (fd >= 0) {
		text_file_read(fd, 64 * 1024, &notes);
		close(fd);
	}
	if (notes.size > 0)
		build_id_from_notes(bytes_of(notes.data, notes.size), 4, &id);
	buf_release(&notes);
	return id;
}

// ---------------------------------------------------------------- perf's cache

// Each boot places the kernel anew: a copy is this boot's when it begins as the kernel begins to print (one page of addresses).
static bool is_this_boot(const struct copy *copy)
{
	char page[4096];
	int fd = open_text("/proc/kallsyms");
	ssize_t n = fd >= 0 ? read(fd, page, sizeof(page)) : -1;
	if (fd >= 0)
		close(fd);
	return n >= 1024 && copy->size > (size_t)n && memcmp(copy->text, page, (size_t)n) == 0;
}

// DIR/.build-id/xx/yyyy/kallsyms, copied there by `perf record`. Modules come and go, so what follows the kernel proper is cut off.
static bool map_cached(struct copy *copy, const char *directory, const struct build_id *id)
{
	char hex[2 * sizeof(id->bytes) + 1];
	build_id_hex(id, hex);
	char *path = mem_printf("%s/.build-id/%.2s/%s/kallsyms", directory, hex, hex + 2);
	int fd = open_text(path);
	free(path);
	struct stat st;
	if (fd < 0)
		return false;
	// Names in it are believed: only root's or our own copy.
	bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & 022) &&
		st.st_size > 0 && st.st_size <= KALLSYMS_LIMIT;
	copy->text = good ? guard_map(fd, (size_t)st.st_size) : NULL;
	close(fd);
	if (copy->text == NULL)
		return false;
	copy->size = (size_t)st.st_size;
	if (is_this_boot(copy))
		copy->core_size = kallsyms_core_size(copy->text, copy->size);
	if (copy->core_size == 0) {
		guard_unmap(copy->text, copy->size);
		*copy = (struct copy){ 0 };
	}
	return copy->core_size > 0;
}

static void find_cached(const struct symbol_module *module, struct copy *core, const struct build_id *id)
{
	const char *const *dirs = module->options->debug_dirs;
	for (; dirs != NULL && *dirs != NULL; dirs++)
		if (map_cached(core, *dirs, id))
			return;
	const char *home = getenv("HOME");
	if (dirs == NULL && home != NULL && home[0] == '/') {
		char *directory = mem_printf("%s/.debug", home);
		(void)map_cached(core, directory, id);
		free(directory);
	}
}

// ---------------------------------------------------------------- the provider

static void release(void *state)
{
	struct kallsyms *k = state;
	release_listing(&k->whole);
	if (k->core.text != NULL)
		guard_unmap(k->core.text, k->core.size);
	free(k);
}

static bool open_kallsyms(struct symbol_module *module, void **state)
{
	const char *path = module->options->kallsyms_path;
	struct kallsyms *k = NEW(struct kallsyms);
	module->missing = SYMBOL_NO_KALLSYMS;
	if (path != NULL) {
		k->is_whole_tried = true;
		(void)read_listing(&k->whole, path);
	} else if (module->options->use_host_files) {
		struct build_id running = running_kernel();
		if (running.size > 0 && module->wanted.build_id.size > 0 && !build_id_equal(&running, &module->wanted.build_id)) {
			module->missing = SYMBOL_WRONG_BUILD_ID;
			k->is_whole_tried = true;
		} else if (running.size > 1) {
			find_cached(module, &k->core, &running);
		}
	} else {
		k->is_whole_tried = true;
	}
	if (k->whole.table.symbols.count > 0 || k->core.core_size > 0)
		module->missing = SYMBOL_NOT_COVERED;
	*state = k;
	return true;
}

static bool lookup_in(struct symbol_table *table, uint64_t addr, struct symbol_hit *out)
{
	const struct table_symbol *found = symbol_table_find(table, addr);
	if (found == NULL)
		return false;
	*out = (struct symbol_hit){ .start = found->start, .size = table->overlaps ? 0 : found->end - found->start };
	out->name = symbol_table_name(table, found, &out->length);
	out->module = kallsyms_module(table, found, &out->module_length);
	return out->length > 0;
}

// Chooses among the few lines around the address as among all.
static bool lookup_core(const struct copy *core, uint64_t addr, struct symbol_hit *out, bool *is_inside)
{
	const char *window;
	size_t size;
	kallsyms_window(core->text, core->core_size, addr, &window, &size);
	*is_inside = size > 0;
	if (size == 0)
		return false;
	struct symbol_table table = { 0 };
	kallsyms_parse(&table, window, size);
	symbol_table_finish(&table);
	bool found = lookup_in(&table, addr, out);
	symbol_table_release(&table);
	return found;
}

static bool lookup(struct symbol_module *module, void *state, uint64_t addr, struct symbol_hit *out)
{
	struct kallsyms *k = state;
	if (k->core.core_size > 0) {
		bool is_inside, found = lookup_core(&k->core, addr, out, &is_inside);
		if (is_inside)
			return found;
	}
	if (!k->is_whole_tried) {
		k->is_whole_tried = true;
		if (read_listing(&k->whole, "/proc/kallsyms"))
			module->missing = SYMBOL_NOT_COVERED;
	}
	return lookup_in(&k->whole.table, addr, out);
}

const struct symbol_provider symbol_provider_kallsyms = {
	.name = "kallsyms", .order = 10, .serves = serves, .open = open_kallsyms, .lookup = lookup, .release = release,
};
