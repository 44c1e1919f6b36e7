#include "record/jit_list.h"

#include "base/hash.h"

// struct jit_descriptor and struct jit_code_entry of the interface, of 64-bit processes.
struct descriptor { uint32_t version, action; uint64_t relevant, first; };
struct code_entry { uint64_t next, previous, object, size; };

bool jit_list_read(struct jit_list *out, uint64_t descriptor, jit_list_read_fn *read, void *context)
{
	struct descriptor head;
	struct code_entry entry;
	struct hash_map seen = { 0 };
	uint64_t before = 0;
	bool is_new;
	if (!read(context, descriptor, &head, sizeof(head)) || head.version != 1)
		return false;
	for (uint64_t at = head.first; at != 0; at = entry.next) {
		hash_map_put(&seen, at, 1, &is_new);
		// An entry that says another one is before it was taken out or put in just now; one that was met leads in a circle.
		if (!is_new || out->entries.count >= JIT_LIST_MOST || !read(context, at, &entry, sizeof(entry)) || entry.previous != before) {
			out->is_torn = true;
			break;
		}
		if (entry.object != 0 && entry.size > 0 && entry.size <= JIT_OBJECT_BYTES_MOST && entry.object + entry.size > entry.object)
			vec_push(&out->entries, (struct jit_list_entry){ at, entry.object, entry.size });
		before = at;
	}
	hash_map_release(&seen);
	return true;
}

void jit_list_release(struct jit_list *list)
{
	vec_release(&list->entries);
}
