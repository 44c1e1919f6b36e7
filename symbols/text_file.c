#include "symbols/text_file.h"

#include <errno.h>
#include <unistd.h>

bool text_file_read(int fd, size_t limit, struct buf *out)
{
	bool any = false;
	// A regular file (a map) may have been read before; /proc has offsets, too; a pipe has none and is read as it comes.
	(void)lseek(fd, 0, SEEK_SET);
	while (out->size < limit) {
		size_t want = limit - out->size < 256 * 1024 ? limit - out->size : 256 * 1024;
		buf_reserve(out, want);
		ssize_t n = read(fd, out->data + out->size, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return any;
		any = true;
		if (n == 0)
			break;
		out->size += (size_t)n;
	}
	return true;
}
