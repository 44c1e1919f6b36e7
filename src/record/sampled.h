// Which code was sampled: the distinct (dso, image address) of every frame, so that names can be looked up once recording has ended.
//
// Image addresses are those of symbols/symbolizer.h: offsets in the file for files and the vdso, run-time addresses for the kernel and anonymous
// code. Used by the drain thread, read when it is gone.
#ifndef PERFSAMPLE_RECORD_SAMPLED_H
#define PERFSAMPLE_RECORD_SAMPLED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "proc/space.h"

struct sampled_addr {
	uint64_t image_addr;
	uint32_t dso;
	uint32_t roots; // call chains of the kernel's own that end there
};

struct sampled_seen { uint64_t addr; uint32_t generation; };

struct sampled {
	VEC(struct sampled_addr) addrs;
	uint32_t *slots;            // index + 1 into addrs; open addressing
	size_t slot_count;
	struct sampled_seen *seen;  // direct-mapped: (generation, address) that needs no further look
	bool has_kernel;
};

enum { SAMPLED_ADDRS_MAX = 4 << 20 }; // beyond, addresses go without names in the file

void sampled_init(struct sampled *sampled);
void sampled_release(struct sampled *sampled);
// true: this (generation, address) was seen before, or is now remembered as seen by the call that follows.
static inline bool sampled_is_known(const struct sampled *sampled, uint32_t generation, uint64_t addr);
// An address of user space (run time, lookup address) under `mapping`.
void sampled_user(struct sampled *sampled, const struct dso *dso, const struct mapping *mapping, uint32_t generation, uint64_t addr);
// The same of the outermost frame of a call chain that the kernel walked: it is counted.
void sampled_root(struct sampled *sampled, const struct dso *dso, const struct mapping *mapping, uint64_t addr);
// An address of the kernel; `dso`: what stands there, or DSO_NONE.
void sampled_kernel(struct sampled *sampled, uint32_t dso, uint64_t addr);

enum { SAMPLED_SEEN = 8192, SAMPLED_KERNEL_GENERATION = 0xffffffff };
static inline size_t sampled_seen_index(uint32_t generation, uint64_t addr)
{
	return (size_t)((addr * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)generation * UINT64_C(0xc2b2ae3d27d4eb4f)) >> 40) % SAMPLED_SEEN;
}
static inline bool sampled_is_known(const struct sampled *sampled, uint32_t generation, uint64_t addr)
{
	const struct sampled_seen *seen = &sampled->seen[sampled_seen_index(generation, addr)];
	return seen->addr == addr && seen->generation == generation;
}

#endif
