// Any bytes as the memory of a process, a descriptor at its start: the walk ends, and nothing that it says is beyond its limits.
#include "record/jit_list.h"
#include "tests/fuzz/replay.h"

struct memory { const uint8_t *bytes; size_t size; };

static bool read_memory(void *context, uint64_t addr, void *to, size_t size)
{
	const struct memory *memory = context;
	if (addr > memory->size || size > memory->size - addr)
		return false;
	memcpy(to, memory->bytes + addr, size);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory memory = { data, size };
	struct jit_list list = { 0 };
	(void)jit_list_read(&list, 0, read_memory, &memory);
	if (list.entries.count > JIT_LIST_MOST)
		abort();
	for (size_t i = 0; i < list.entries.count; i++)
		if (list.entries.data[i].size > JIT_OBJECT_BYTES_MOST)
			abort();
	jit_list_release(&list);
	return 0;
}
