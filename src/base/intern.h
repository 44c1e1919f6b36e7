// Each distinct byte string once, named by a small number. Id 0 is always the empty string.
#ifndef PERFSAMPLE_BASE_INTERN_H
#define PERFSAMPLE_BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"

struct intern_entry {
	const char *text; // NUL-terminated; may hold further NULs
	uint32_t length;
	uint64_t hash;
};

struct intern {
	struct arena arena;
	VEC(struct intern_entry) entries;
	uint32_t *slots; // index + 1 into entries, 0 = free
	size_t slot_count;
};

void intern_init(struct intern *intern);
void intern_release(struct intern *intern);
uint32_t intern_bytes(struct intern *intern, const char *text, size_t length); // `text` may be NULL with 0
uint32_t intern_string(struct intern *intern, const char *text);
// Lives as long as the table.
const char *intern_text(const struct intern *intern, uint32_t id);
size_t intern_length(const struct intern *intern, uint32_t id);

#endif
