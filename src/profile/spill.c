#include "profile/spill.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/tmpfile.h"

enum { PAGE_BYTES_MOST = 1 << 16 }; // a segment begins where any machine can map it

// `count` at most IOV_MAX; what a short write leaves is written piece by piece.
static bool write_some(struct spill *spill, const struct iovec *pieces, size_t count)
{
	ssize_t n = pwritev(spill->fd, pieces, (int)count, (off_t)spill->end);
	size_t done = n > 0 ? (size_t)n : 0;
	if (n < 0 && errno != EINTR)
		return false;
	for (size_t i = 0; i < count; i++) {
		size_t size = pieces[i].iov_len, skip = done < size ? done : size;
		for (done -= skip; skip < size;) {
			n = pwrite(spill->fd, (const uint8_t *)pieces[i].iov_base + skip, size - skip, (off_t)(spill->end + skip));
			if (n == 0 || (n < 0 && errno != EINTR))
				return false;
			skip += n > 0 ? (size_t)n : 0;
		}
		spill->end += size;
	}
	return true;
}

bool spill_write(struct spill *spill, const struct iovec *pieces, size_t count)
{
	if (!spill->is_open && !spill->has_failed) {
		spill->fd = tmpfile_open();
		spill->is_open = spill->fd >= 0;
		spill->has_failed = !spill->is_open;
	}
	for (size_t i = 0, some; i < count && !spill->has_failed; i += some) {
		some = count - i < IOV_MAX ? count - i : IOV_MAX;
		spill->has_failed = !write_some(spill, pieces + i, some);
	}
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
