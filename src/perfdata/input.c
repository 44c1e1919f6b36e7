#include "perfdata/input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { CHUNK_BYTES = 1 << 18, PIECE_BYTES = 1 << 16 };

uint8_t *input_buffer_new(void)
{
	return mem_alloc(CHUNK_BYTES + PIECE_BYTES);
}

bool input_open(struct input *input, int fd, struct err *err)
{
	*input = (struct input){ .fd = -1 };
	if (!input_go_on(input, fd, err))
		return false;
	input->buffer = input_buffer_new();
	return true;
}

bool input_go_on(struct input *input, int fd, struct err *err)
{
	struct stat st;
	if (input->fd >= 0)
		close(input->fd);
	*input = (struct input){ .fd = fd, .limit = UINT64_MAX, .file_size = UINT64_MAX, .buffer = input->buffer, .spare = input->spare, .left = input->left };
	if (fstat(fd, &st) != 0)
		return err_errno(err, STATUS_INPUT, "reading");
	if (S_ISREG(st.st_mode))
		input->file_size = (uint64_t)st.st_size;
	return true;
}

void input_close(struct input *input)
{
	if (input->fd >= 0)
		close(input->fd);
	free(input->buffer);
	free(input->spare);
	free(input->left);
	*input = (struct input){ .fd = -1 };
}

bool input_seek(struct input *input, uint64_t offset, uint64_t limit, struct err *err)
{
	if (offset > INT64_MAX || lseek(input->fd, (off_t)offset, SEEK_SET) < 0)
		return err_errno(err, STATUS_INPUT, "going to offset 0x%llx", (unsigned long long)offset);
	input->begin = input->end = 0;
	input->offset = offset;
	input->limit = limit;
	input->at_end = false;
	return true;
}

static bool read_chunk(struct input *input, struct err *err)
{
	for (;;) {
		ssize_t n = read(input->fd, input->buffer + input->end, CHUNK_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, STATUS_INPUT, "reading at offset 0x%" PRIx64, input->offset + (input->end - input->begin));
		input->end += (size_t)n;
		input->at_end = n == 0;
		return true;
	}
}

uint8_t *input_peek(struct input *input, size_t need, size_t *available, struct err *err)
{
	while (input_unread(input) < need && !input->at_end && input->offset + (input->end - input->begin) < input->limit) {
		// What is left (less than a piece) goes to the front, so records of multiples of 8 bytes stay aligned.
		uint8_t *to = input->spare != NULL ? input->spare : input->buffer;
		memmove(to, input->buffer + input->begin, input->end - input->begin);
		if (input->spare != NULL) {
			input->left = input->buffer;
			input->buffer = to;
			input->spare = NULL;
		}
		input->end -= input->begin;
		input->begin = 0;
		if (!read_chunk(input, err))
			return NULL;
	}
	*available = input_unread(input);
	return input->buffer + input->begin;
}

bool input_skip(struct input *input, uint64_t size, struct err *err)
{
	while (size > 0) {
		size_t here = input_unread(input);
		if (here > 0) {
			size_t step = size < here ? (size_t)size : here;
			input->begin += step;
			input->offset += step;
			size -= step;
			continue;
		}
		if (input->at_end || input->offset >= input->limit)
			return true;
		uint64_t end = input->limit < input->file_size ? input->limit : input->file_size;
		if (input->file_size != UINT64_MAX && input->end == input->begin && input->offset < end) {
			uint64_t step = size < end - input->offset ? size : end - input->offset;
			if (!input_seek(input, input->offset + step, input->limit, err))
				return false;
			size -= step;
			continue;
		}
		size_t available;
		if (input_peek(input, 1, &available, err) == NULL)
			return false;
	}
	return true;
}
