// A ring without a kernel: the test writes records at data_head as the kernel does.
#ifndef PERFSAMPLE_TESTS_FAKE_RING_H
#define PERFSAMPLE_TESTS_FAKE_RING_H

#include <stdlib.h>
#include <string.h>

#include "perf/ring.h"

struct fake_ring { struct ring ring; };

__attribute__((unused)) static void fake_ring_init(struct fake_ring *fake, size_t bytes)
{
	memset(fake, 0, sizeof(*fake));
	fake->ring.page = calloc(1, 4096);
	fake->ring.data = aligned_alloc(4096, bytes);
	fake->ring.size = bytes;
	fake->ring.wrapped = malloc(65536);
	fake->ring.fd = -1;
}

__attribute__((unused)) static void fake_ring_release(struct fake_ring *fake)
{
	free(fake->ring.page);
	free(fake->ring.data);
	free(fake->ring.wrapped);
}

// Header, then words first, first + 1, …
__attribute__((unused)) static void fake_ring_write(struct fake_ring *fake, uint32_t type, uint16_t misc, uint64_t first, uint16_t size)
{
	struct perf_event_header header = { .type = type, .misc = misc, .size = size };
	uint64_t at = fake->ring.page->data_head;
	for (uint16_t i = 0; i < size; i += 8) {
		uint64_t word = first + i / 8 - 1;
		memcpy(fake->ring.data + ((at + i) & (fake->ring.size - 1)), i == 0 ? (void *)&header : (void *)&word, 8);
	}
	__atomic_store_n(&fake->ring.page->data_head, at + size, __ATOMIC_RELEASE);
}

#endif
