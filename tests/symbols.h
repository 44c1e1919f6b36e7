// Looking names up in a file, as the tests of symbols/ do it.
#ifndef PERFSAMPLE_TESTS_SYMBOLS_H
#define PERFSAMPLE_TESTS_SYMBOLS_H

#include "symbols/symbolizer.h"
#include "tests/compile.h"

struct looked { // a file under test
	struct symbolizer *symbolizer;
	struct image *image; // for addresses
	uint32_t id;
};

static const struct symbolizer_options all_options __attribute__((unused)) = {
	.demangle = true, .inlines = true, .lines = true, .use_host_files = true,
};

__attribute__((unused)) static bool look(struct looked *l, const char *path, const struct symbolizer_options *options)
{
	struct err err;
	*l = (struct looked){ 0 };
	if (!image_open_path(&l->image, path, &err)) {
		diag("%s", err.text);
		return false;
	}
	l->symbolizer = symbolizer_new(options);
	l->id = symbolizer_image(l->symbolizer, &(struct symbol_image){ .path = path, .build_id = l->image->build_id, .map_fd = -1 });
	return true;
}

__attribute__((unused)) static void look_end(struct looked *l)
{
	symbolizer_free(l->symbolizer);
	image_release(l->image);
}

__attribute__((unused)) static const struct symbol_result *at_vaddr(struct looked *l, uint64_t vaddr)
{
	uint64_t offset = UINT64_MAX;
	(void)image_vaddr_to_offset(l->image, vaddr, &offset);
	return symbolizer_lookup(l->symbolizer, l->id, offset);
}

// The name of the function that has the code; "??" when there is none.
__attribute__((unused)) static const char *name_at(struct looked *l, uint64_t vaddr)
{
	const struct symbol_result *r = at_vaddr(l, vaddr);
	const char *name = r->frames[r->count - 1].name;
	return name != NULL ? name : "??";
}

// A symbol's address and size as nm says; false: no such symbol.
__attribute__((unused)) static bool nm(const char *path, const char *symbol, uint64_t *start, uint64_t *size)
{
	char command[8192], name[512];
	snprintf(command, sizeof(command), "{ nm -S '%s'; nm -DS '%s'; } 2>/dev/null | sed 's/@.*//'", path, path);
	FILE *f = popen(command, "r");
	char line[1024], type;
	unsigned long a, s;
	bool found = false;
	while (!found && fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%lx %lx %c %511s", &a, &s, &type, name) == 4)
			found = strcmp(name, symbol) == 0;
		else if (sscanf(line, "%lx %c %511s", &a, &type, name) == 3)
			found = strcmp(name, symbol) == 0, s = 0;
		if (found) {
			*start = a;
			*size = s;
		}
	}
	while (fgets(line, sizeof(line), f) != NULL) // nm would die of SIGPIPE
		;
	pclose(f);
	return found;
}

#endif
