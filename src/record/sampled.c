#include "record/sampled.h"

#include <stdlib.h>

#include "base/hash.h"

void sampled_init(struct sampled *sampled)
{
	*sampled = (struct sampled){ .seen = mem_zero(SAMPLED_SEEN, sizeof(struct sampled_seen)) };
}

void sampled_release(struct sampled *sampled)
{
	vec_release(&sampled->addrs);
	free(sampled->slots);
	free(sampled->seen);
	*sampled = (struct sampled){ 0 };
}

static void insert(struct sampled *sampled, uint32_t index)
{
	const struct sampled_addr *addr = &sampled->addrs.data[index];
	size_t at = (size_t)hash_pair(addr->dso, addr->image_addr) & (sampled->slot_count - 1);
	while (sampled->slots[at] != 0)
		at = (at + 1) & (sampled->slot_count - 1);
	sampled->slots[at] = index + 1;
}

// NULL: there are too many.
static struct sampled_addr *add(struct sampled *sampled, uint32_t dso, uint64_t image_addr)
{
	if (sampled->slot_count > 0) {
		size_t at = (size_t)hash_pair(dso, image_addr) & (sampled->slot_count - 1);
		for (; sampled->slots[at] != 0; at = (at + 1) & (sampled->slot_count - 1)) {
			struct sampled_addr *addr = &sampled->addrs.data[sampled->slots[at] - 1];
			if (addr->dso == dso && addr->image_addr == image_addr)
				return addr;
		}
	}
	if (sampled->addrs.count >= SAMPLED_ADDRS_MAX)
		return NULL;
	vec_push(&sampled->addrs, (struct sampled_addr){ .image_addr = image_addr, .dso = dso });
	if (sampled->addrs.count * 2 > sampled->slot_count) {
		sampled->slot_count = sampled->slot_count == 0 ? 4096 : sampled->slot_count * 2;
		free(sampled->slots);
		sampled->slots = mem_zero(sampled->slot_count, sizeof(*sampled->slots));
		for (size_t i = 0; i < sampled->addrs.count; i++)
			insert(sampled, (uint32_t)i);
	} else {
		insert(sampled, (uint32_t)sampled->addrs.count - 1);
	}
	return &sampled->addrs.data[sampled->addrs.count - 1];
}

static void remember(struct sampled *sampled, uint32_t generation, uint64_t addr)
{
	sampled->seen[sampled_seen_index(generation, addr)] = (struct sampled_seen){ .addr = addr, .generation = generation };
}

static uint64_t image_addr_of(const struct dso *dso, const struct mapping *mapping, uint64_t addr)
{
	return dso->kind == DSO_FILE || dso->kind == DSO_VDSO ? addr - mapping->start + mapping->pgoff : addr;
}

void sampled_root(struct sampled *sampled, const struct dso *dso, const struct mapping *mapping, uint64_t addr)
{
	struct sampled_addr *root = add(sampled, mapping->dso, image_addr_of(dso, mapping, addr));
	if (root != NULL)
		root->roots++;
}

void sampled_user(struct sampled *sampled, const struct dso *dso, const struct mapping *mapping, uint32_t generation, uint64_t addr)
{
	add(sampled, mapping->dso, image_addr_of(dso, mapping, addr));
	remember(sampled, generation, addr);
}

void sampled_kernel(struct sampled *sampled, uint32_t dso, uint64_t addr)
{
	sampled->has_kernel = true;
	if (dso != DSO_NONE)
		add(sampled, dso, addr);
	remember(sampled, SAMPLED_KERNEL_GENERATION, addr);
}
