#include "profile/spill.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/tmpfile.h"

enum { PAGE_BYTES_MOST = 1 << 16 }; // a segment begins where any machine can map it

bool spill_write(struct spill *spill, const void *bytes, size_t size)
{
	if (!spill->is_open && !spill->has_failed) {
		spill->fd = tmpfile_open();
		spill->is_open = spill->fd >= 0;
		spill->has_failed = !spill->is_open;
	}
	for (size_t done = 0; done < size && !spill->has_failed;) {
		ssize_t n = pwrite(spill->fd, (const uint8_t *)bytes + done, size - done, (off_t)(spill->end + done));
		if (n == 0 || (n < 0 && errno != EINTR))
			spill->has_failed = true;
		done += n > 0 ? (size_t)n : 0;
	}
	if (!spill->has_failed)
		spill->end += size;
	return !spill->has_failed;
}

const uint8_t *spill_map(struct spill *spill)
{
	struct spill_segment segment = { .bytes = (size_t)(spill->end - spill->from) };
	if (spill->has_failed || segment.bytes == 0)
		return NULL;
	segment.at = mmap(NULL, segment.bytes, PROT_READ, MAP_SHARED, spill->fd, (off_t)spill->from);
	if (segment.at == MAP_FAILED) {
		spill->has_failed = true;
		return NULL;
	}
	vec_push(&spill->segments, segment);
	spill->from = spill->end = (spill->end + PAGE_BYTES_MOST - 1) & ~(uint64_t)(PAGE_BYTES_MOST - 1);
	return segment.at;
}

bool spill_holds(const struct spill *spill, const void *at)
{
	for (size_t i = 0; i < spill->segments.count; i++) {
		const struct spill_segment *segment = &spill->segments.data[i];
		if ((uintptr_t)at - (uintptr_t)segment->at < segment->bytes)
			return true;
	}
	return false;
}

void spill_drop(const struct spill *spill, size_t segment)
{
	madvise(spill->segments.data[segment].at, spill->segments.data[segment].bytes, MADV_DONTNEED);
}

void spill_release(struct spill *spill)
{
	for (size_t i = 0; i < spill->segments.count; i++)
		munmap(spill->segments.data[i].at, spill->segments.data[i].bytes);
	vec_release(&spill->segments);
	if (spill->is_open)
		close(spill->fd);
	*spill = (struct spill){ 0 };
}
