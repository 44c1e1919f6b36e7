#include "perfdata/input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "elf/guard.h"

enum { CHUNK_BYTES = 1 << 18, PIECE_BYTES = 1 << 16, HEADER_BYTES = 1 << 12 };
#define MAPPED_BYTES_MOST (4ull << 30) // page tables take a 512th of it

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
	*input = (struct input){ .fd = fd, .limit = UINT64_MAX, .file_size = UINT64_MAX, .buffer = input->buffer, .spare = input->spare, .left = input->left,
	                         .piece_end = SIZE_MAX };
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
	if (input->is_mapped)
		guard_unmap(input->buffer, input->end);
	else
		free(input->buffer);
	free(input->spare);
	free(input->left);
	free(input->holds);
	*input = (struct input){ .fd = -1 };
}

// ---------------------------------------------------------------- mapped

void input_map(struct input *input)
{
	if (input->is_mapped || input->file_size == 0 || input->file_size > MAPPED_BYTES_MOST)
		return;
	size_t size = (size_t)input->file_size;
	const void *map = guard_map(input->fd, size);
	if (map == NULL)
		return;
	// It is read once, from its beginning. Without this word the kernel moves each page in its lists of what is used as it is given back.
	(void)madvise((void *)(uintptr_t)map, size, MADV_SEQUENTIAL);
	free(input->buffer);
	input->buffer = (uint8_t *)(uintptr_t)map;
	input->is_mapped = true;
	input->begin = input->offset < size ? (size_t)input->offset : size;
	input->end = size;
	input->holds = mem_zero(size / INPUT_PIECE_BYTES + 1, sizeof(*input->holds));
	input->piece = input->begin / INPUT_PIECE_BYTES;
	input->piece_end = (input->piece + 1) * INPUT_PIECE_BYTES;
	input->holds[input->piece] = 1;
}

void input_hold(struct input *input, const uint8_t *last)
{
	input->holds[(size_t)(last - input->buffer) / INPUT_PIECE_BYTES]++;
}

// With a piece goes what is needed with it of the piece before: should another need that still, it comes back.
static void let_go(struct input *input, size_t piece)
{
	if (--input->holds[piece] > 0)
		return;
	size_t begin = piece * INPUT_PIECE_BYTES, end = begin + INPUT_PIECE_BYTES;
	begin -= begin > 0 ? PIECE_BYTES : 0;
	(void)madvise(input->buffer + begin, (end < input->end ? end : input->end) - begin, MADV_DONTNEED);
}

void input_let_go(struct input *input, const uint8_t *last)
{
	let_go(input, (size_t)(last - input->buffer) / INPUT_PIECE_BYTES);
}

void input_pass(struct input *input)
{
	size_t passed = input->piece;
	input->piece = input->begin / INPUT_PIECE_BYTES;
	input->piece_end = (input->piece + 1) * INPUT_PIECE_BYTES;
	input->holds[input->piece]++;
	let_go(input, passed);
}

// ---------------------------------------------------------------- read

bool input_seek(struct input *input, uint64_t offset, uint64_t limit, struct err *err)
{
	if (offset > INT64_MAX || lseek(input->fd, (off_t)offset, SEEK_SET) < 0)
		return err_errno(err, STATUS_INPUT, "going to offset 0x%llx", (unsigned long long)offset);
	if (input->is_mapped)
		input->begin = offset < input->end ? (size_t)offset : input->end;
	else
		input->begin = input->end = 0;
	input_passed(input);
	input->offset = offset;
	input->limit = limit;
	input->at_end = false;
	return true;
}

static bool read_chunk(struct input *input, struct err *err)
{
	// The header tells where to go on, and whether by mapping the file.
	size_t most = input->offset == 0 && input->end == 0 ? HEADER_BYTES : CHUNK_BYTES;
	for (;;) {
		ssize_t n = read(input->fd, input->buffer + input->end, most);
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
	if (input->is_mapped)
		input->at_end = true;
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
			input_passed(input);
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
