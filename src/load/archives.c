#include "load/archives.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "elf/container.h"

enum { PLACES_LIMIT = 4096 }; // that are looked for; a broken file may name any number

void archives_release(struct archives *archives)
{
	for (size_t i = 0; i < archives->known.count; i++)
		free(archives->known.data[i].path);
	vec_release(&archives->known);
	hash_map_release(&archives->by_place);
	buf_release(&archives->rewritten);
}

static bool is_archive_name(const char *path)
{
	static const char *const ends[] = { ".apk", ".apex", ".jar", ".zip" };
	const char *end = strrchr(path, '.');

	for (size_t i = 0; end != NULL && i < sizeof(ends) / sizeof(ends[0]); i++)
		if (strcmp(end, ends[i]) == 0)
			return true;
	return false;
}

static struct archived look(const struct archives *archives, const char *path, uint64_t offset)
{
	struct archived found = { 0 };
	char *file = mem_printf("%s%s", archives->symfs != NULL ? archives->symfs : "", path), *entry;

	if (container_name_at(file, offset, &found.start, &entry)) {
		found.path = mem_printf("%s!/%s", path, entry);
		free(entry);
	}
	free(file);
	return found;
}

// The record with another name and offset. Its beginning is the same in both kinds: pid, tid, start, length, offset.
static void rewrite(struct archives *archives, struct record *record, size_t trailer_bytes)
{
	const size_t offset_at = 32, name_at = record->type == PERF_RECORD_MMAP2 ? 72 : 40;
	const char *old = (const char *)record->header, *name = record->mapping.path;
	struct buf *out = &archives->rewritten;

	if (old == NULL || record->size < name_at + trailer_bytes) // kept only for those to whom it is handed on
		return;
	buf_clear(out);
	buf_add(out, old, name_at);
	buf_add(out, name, strlen(name) + 1);
	buf_align(out, 8);
	buf_add(out, old + record->size - trailer_bytes, trailer_bytes);
	if (out->size > UINT16_MAX)
		return;
	uint16_t size = (uint16_t)out->size;
	memcpy(out->data + offset_at, &record->mapping.pgoff, sizeof(record->mapping.pgoff));
	memcpy(out->data + offsetof(struct perf_event_header, size), &size, sizeof(size));
	record->header = (const void *)out->data;
	record->size = size;
}

bool archives_enter(struct archives *archives, struct record *record, size_t trailer_bytes)
{
	struct record_mapping *mapping = &record->mapping;
	bool is_new;

	if ((mapping->protection & PROT_EXEC) == 0 || !is_archive_name(mapping->path))
		return false;
	uint64_t key = hash_pair(hash_bytes(mapping->path, strlen(mapping->path)), mapping->pgoff);
	uint32_t *known = hash_map_get(&archives->by_place, key);
	if (known == NULL && archives->known.count == PLACES_LIMIT)
		return false;
	if (known == NULL) {
		known = hash_map_put(&archives->by_place, key, (uint32_t)archives->known.count, &is_new);
		vec_push(&archives->known, look(archives, mapping->path, mapping->pgoff));
	}
	const struct archived *found = &archives->known.data[*known];
	if (found->path == NULL || mapping->pgoff < found->start)
		return false;
	mapping->path = found->path;
	mapping->pgoff -= found->start;
	rewrite(archives, record, trailer_bytes);
	return true;
}
