#include "base/intern.h"

#include <string.h>

#include "base/hash.h"

void intern_init(struct intern *intern)
{
	*intern = (struct intern){ 0 };
	intern_bytes(intern, "", 0);
}

void intern_release(struct intern *intern)
{
	arena_release(&intern->arena);
	vec_release(&intern->entries);
	free(intern->slots);
	*intern = (struct intern){ 0 };
}

static uint32_t *slot_of(const struct intern *intern, uint64_t hash, const char *text, size_t length)
{
	size_t mask = intern->slot_count - 1;
	for (size_t i = hash & mask;; i = (i + 1) & mask) {
		uint32_t *slot = &intern->slots[i];
		if (*slot == 0)
			return slot;
		const struct intern_entry *e = &intern->entries.data[*slot - 1];
		if (e->hash == hash && e->length == length && memcmp(e->text, text, length) == 0)
			return slot;
	}
}

static void grow(struct intern *intern)
{
	free(intern->slots);
	intern->slot_count = intern->slot_count > 0 ? intern->slot_count * 2 : 256;
	intern->slots = mem_zero(intern->slot_count, sizeof(*intern->slots));
	for (size_t i = 0; i < intern->entries.count; i++) {
		const struct intern_entry *e = &intern->entries.data[i];
		*slot_of(intern, e->hash, e->text, e->length) = (uint32_t)i + 1;
	}
}

uint32_t intern_bytes(struct intern *intern, const char *text, size_t length)
{
	if (intern->entries.count * 2 >= intern->slot_count)
		grow(intern);
	if (length == 0)
		text = ""; // an empty buffer's is NULL, which memcmp must not be given
	uint64_t hash = hash_bytes(text, length);
	uint32_t *slot = slot_of(intern, hash, text, length);
	if (*slot == 0) {
		struct intern_entry e = { arena_string(&intern->arena, text, length), (uint32_t)length, hash };
		vec_push(&intern->entries, e);
		*slot = (uint32_t)intern->entries.count;
	}
	return *slot - 1;
}

uint32_t intern_string(struct intern *intern, const char *text)
{
	return intern_bytes(intern, text, strlen(text));
}

const char *intern_text(const struct intern *intern, uint32_t id)
{
	return intern->entries.data[id].text;
}

size_t intern_length(const struct intern *intern, uint32_t id)
{
	return intern->entries.data[id].length;
}
