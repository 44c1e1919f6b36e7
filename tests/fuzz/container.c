// Any bytes as a zip archive: no crash, and what is found lies in it.
#include "elf/container.h"

#include "tests/fuzz/replay.h"

static void check(struct bytes file, const struct container_entry *entry)
{
	size_t size = (size_t)(file.end - file.start);

	if (entry->start > size || entry->size > size - entry->start || entry->name.at < file.start || entry->name.end > file.end)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes file = bytes_of(data, size);
	struct container_entry entry;

	container_is(file);
	for (size_t offset = 0; offset < size; offset += 1 + size / 16) {
		if (!container_find_at(file, offset, &entry))
			continue;
		check(file, &entry);
		if (offset < entry.start || offset - entry.start >= entry.size)
			abort();
	}
	if (container_find_name(file, "liblocal.so", &entry))
		check(file, &entry);
	return 0;
}
