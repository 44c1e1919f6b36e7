// The list by which JIT compilers tell debuggers of their code: as it should be, and as no one should believe it.
#include "record/jit_list.h"
#include "tests/tap.h"

struct word { uint64_t addr, value; };
static struct { const struct word *words; size_t count; uint64_t reads; bool is_endless; } memory;

static bool read_memory(void *context, uint64_t addr, void *to, size_t size)
{
	(void)context;
	memory.reads++;
	for (size_t at = 0; at < size; at += 8) {
		uint64_t value = 0;
		bool found = memory.is_endless;
		for (size_t i = 0; i < memory.count; i++)
			if (memory.words[i].addr == addr + at) {
				value = memory.words[i].value;
				found = true;
			}
		// Each entry leads to another one, for ever.
		if (memory.is_endless && addr >= 0x10000)
			value = at == 0 ? addr + 32 : at == 8 ? (addr == 0x10000 ? 0 : addr - 32) : 0x1000;
		if (!found)
			return false;
		memcpy((char *)to + at, &value, 8);
	}
	return true;
}

static bool look(struct jit_list *list, const struct word *words, size_t count)
{
	*list = (struct jit_list){ 0 };
	memory.words = words;
	memory.count = count;
	memory.reads = 0;
	return jit_list_read(list, 0x100, read_memory, NULL);
}

#define ENTRY(at, next, previous, object, size) { at, next }, { (at) + 8, previous }, { (at) + 16, object }, { (at) + 24, size }
#define DESCRIPTOR(version, first) { 0x100, version }, { 0x108, 0 }, { 0x110, first }
#define LOOK(list, ...) look(list, (const struct word[]){ __VA_ARGS__ }, sizeof((const struct word[]){ __VA_ARGS__ }) / sizeof(struct word))

int main(void)
{
	struct jit_list list;
	ok(LOOK(&list, DESCRIPTOR(1, 0x200), ENTRY(0x200, 0x300, 0, 0x5000, 100), ENTRY(0x300, 0, 0x200, 0x6000, 200)) && !list.is_torn, "a list");
	is_u64(list.entries.count, 2, "of two");
	ok(list.entries.data[1].at == 0x300 && list.entries.data[1].object == 0x6000 && list.entries.data[1].size == 200, "the second");
	jit_list_release(&list);
	ok(LOOK(&list, DESCRIPTOR(1, 0)) && list.entries.count == 0 && !list.is_torn, "an empty one");
	jit_list_release(&list);
	ok(!LOOK(&list, DESCRIPTOR(2, 0x200), ENTRY(0x200, 0, 0, 0x5000, 100)) && list.entries.count == 0, "of another version");
	jit_list_release(&list);
	ok(!LOOK(&list, { 0x100, 1 }), "a descriptor that is not there");
	jit_list_release(&list);
	ok(LOOK(&list, DESCRIPTOR(1, 0x200), ENTRY(0x200, 0x300, 0, 0x5000, 100), ENTRY(0x300, 0x200, 0x200, 0x6000, 200)) && list.is_torn && list.entries.count == 2,
	   "a circle ends");
	jit_list_release(&list);
	ok(LOOK(&list, DESCRIPTOR(1, 0x200), ENTRY(0x200, 0x200, 0, 0x5000, 100)) && list.is_torn && list.entries.count == 1, "one of itself, too");
	jit_list_release(&list);
	ok(LOOK(&list, DESCRIPTOR(1, 0x200), ENTRY(0x200, 0x300, 0, 0x5000, 100)) && list.is_torn && list.entries.count == 1, "an entry that is not there");
	jit_list_release(&list);
	ok(LOOK(&list, DESCRIPTOR(1, 0x200), ENTRY(0x200, 0x300, 0, 0x5000, 100), ENTRY(0x300, 0, 0x999, 0x6000, 200)) && list.is_torn && list.entries.count == 1,
	   "an entry that was taken out meanwhile");
	jit_list_release(&list);
	ok(LOOK(&list, DESCRIPTOR(1, 0x200), ENTRY(0x200, 0, 0, 0x5000, UINT64_MAX)) && list.entries.count == 0, "an object of impossible size");
	jit_list_release(&list);
	ok(LOOK(&list, DESCRIPTOR(1, 0x200), ENTRY(0x200, 0, 0, UINT64_MAX - 4, 100)) && list.entries.count == 0, "and one past the end of the address space");
	jit_list_release(&list);
	memory.is_endless = true;
	ok(LOOK(&list, DESCRIPTOR(1, 0x10000)) && list.is_torn && list.entries.count == JIT_LIST_MOST, "a list without an end");
	ok(memory.reads < JIT_LIST_MOST + 8, "is left");
	jit_list_release(&list);
	return tap_done();
}
