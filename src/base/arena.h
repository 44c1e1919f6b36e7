// Memory that lives and dies together: many small allocations, freed at once.
#ifndef PERFSAMPLE_BASE_ARENA_H
#define PERFSAMPLE_BASE_ARENA_H

#include <stddef.h>

struct arena_block;
struct arena {
	struct arena_block *blocks; // newest first
	size_t bytes;               // handed out, for figures
};

// A zeroed struct is an empty arena. Memory is zeroed and aligned to 16 bytes.
void *arena_alloc(struct arena *arena, size_t size);
char *arena_string(struct arena *arena, const char *s, size_t length); // copied, NUL-terminated
void arena_release(struct arena *arena);

#endif
