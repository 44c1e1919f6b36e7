#include "perf/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

enum { WRAPPED_BYTES = 65536 }; // header.size is 16 bits wide

bool ring_map(struct ring *ring, int fd, uint32_t cpu, size_t data_bytes, struct err *err)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

	*ring = (struct ring){ .fd = fd, .cpu = cpu };
	if (data_bytes < page_bytes || (data_bytes & (data_bytes - 1)) != 0)
		return err_set(err, STATUS_USAGE, "a ring of %zu bytes: a power of two, at least a page of %zu, was expected",
		               data_bytes, page_bytes);
	// Writable: the kernel then takes data_tail as the limit and never overwrites what was not read (perf_event_open(2)).
	void *p = mmap(NULL, page_bytes + data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_errno(err, STATUS_HOST, "mapping a ring of %zu bytes", data_bytes);
	ring->page = p;
	ring->data = (uint8_t *)p + page_bytes;
	ring->size = data_bytes;
	ring->wrapped = mem_alloc(WRAPPED_BYTES);
	ring->tail = ring->head = ring->page->data_tail;
	return true;
}

void ring_unmap(struct ring *ring)
{
	if (ring->page != NULL)
		munmap(ring->page, (size_t)sysconf(_SC_PAGESIZE) + ring->size);
	free(ring->wrapped);
	ring->page = NULL;
	ring->data = NULL;
	ring->wrapped = NULL;
}

void ring_snapshot(struct ring *ring)
{
	// Pairs with the kernel's write barrier before it moves data_head: what lies below is written.
	uint64_t seen = ring->seen != NULL ? __atomic_load_n(ring->seen, __ATOMIC_ACQUIRE) : UINT64_MAX;
	ring->head = ring->written = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	if (seen < ring->head)
		ring->head = seen;
}

static struct perf_event_header *give_up(struct ring *ring, bool *broken)
{
	ring->tail = ring->head;
	*broken = true;
	return NULL;
}

struct perf_event_header *ring_peek(struct ring *ring, bool *broken)
{
	*broken = false;
	if (ring->head == ring->tail)
		return NULL;
	size_t unread = ring_unread(ring), at = (size_t)(ring->tail & (ring->size - 1));
	// The kernel rounds every record to 8 bytes, so a header never wraps.
	if (unread > ring->size || unread < sizeof(struct perf_event_header) || at % 8 != 0)
		return give_up(ring, broken);
	struct perf_event_header *header = (struct perf_event_header *)(void *)(ring->data + at);
	size_t size = header->size;
	if (size < sizeof(*header) || size % 8 != 0 || size > unread)
		return give_up(ring, broken);
	size_t first = ring->size - at;
	if (size <= first)
		return header;
	memcpy(ring->wrapped, header, first);
	memcpy((uint8_t *)ring->wrapped + first, ring->data, size - first);
	return (struct perf_event_header *)(void *)ring->wrapped;
}

void ring_advance(struct ring *ring, const struct perf_event_header *header)
{
	ring->tail += header->size;
}

void ring_release_read(struct ring *ring)
{
	// What was read must be read before the kernel may write over it.
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
}
