#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { BLOCK_BYTES = 64 * 1024, ALIGNMENT = 16 };

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	_Alignas(ALIGNMENT) uint8_t bytes[];
};

void *arena_alloc(struct arena *arena, size_t size)
{
	size_t need = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	struct arena_block *block = arena->blocks;
	if (block == NULL || block->size - block->used < need) {
		size_t room = need > BLOCK_BYTES ? need : BLOCK_BYTES;
		block = mem_zero(1, sizeof(*block) + room);
		block->size = room;
		block->next = arena->blocks;
		arena->blocks = block;
	}
	void *p = block->bytes + block->used;
	block->used += need;
	arena->bytes += need;
	return p;
}

char *arena_string(struct arena *arena, const char *s, size_t length)
{
	char *copy = arena_alloc(arena, length + 1);
	if (length > 0)
		memcpy(copy, s, length);
	return copy;
}

void arena_release(struct arena *arena)
{
	for (struct arena_block *block = arena->blocks; block != NULL;) {
		struct arena_block *next = block->next;
		free(block);
		block = next;
	}
	*arena = (struct arena){ 0 };
}
