// A file or stream read front to back with read(2) in chunks of 256 KiB, which stay in the processor's cache; or a file mapped, of which those pieces stay
// that somebody holds bytes of: memory does not grow with it. Inside perfdata/ only.
#ifndef PERFSAMPLE_PERFDATA_INPUT_H
#define PERFSAMPLE_PERFDATA_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct input {
	int fd;             // owned
	uint8_t *buffer;
	uint8_t *spare;     // to go on in when this one is used up; NULL: it is filled again
	uint8_t *left;      // the one that was gone on from; NULL: none yet
	size_t begin, end;  // unread bytes in the buffer
	uint64_t offset;    // in the file, of buffer[begin]
	uint64_t limit;     // offset behind the last byte that counts; UINT64_MAX: the end of the file
	uint64_t file_size; // UINT64_MAX for a stream
	bool at_end;        // the file has no more
	// A mapped file: `buffer` is the whole of it, not to be written to, and `end` its size. One thread may use it.
	bool is_mapped;
	uint32_t *holds;    // by piece: who needs it, and one where the reading stands
	size_t piece, piece_end; // where that is, and the offset at which it ends; 0 and SIZE_MAX where nothing is mapped
};
enum { INPUT_PIECE_BYTES = 4 << 20 };

// The unread bytes in the buffer, up to the limit.
static inline size_t input_unread(const struct input *input)
{
	size_t size = input->end - input->begin;
	uint64_t room = input->limit > input->offset ? input->limit - input->offset : 0;
	return size < room ? size : (size_t)room;
}

// Takes the descriptor over. A regular file is read from `offset`, which a stream must not ask for.
bool input_open(struct input *input, int fd, struct err *err);
void input_close(struct input *input);
// Goes on with another file, from its start; the buffer and what was lent stay as they are.
bool input_go_on(struct input *input, int fd, struct err *err);
uint8_t *input_buffer_new(void); // to be lent; free() frees it
// Goes on in a mapping of the file, if it can be mapped and is no larger than is worth its page tables. Bytes then stay until input_close, and their
// pages in memory while they are held. Should another process change the file, they change.
void input_map(struct input *input);
void input_hold(struct input *input, const uint8_t *last);   // the last byte of what is needed, at most 64 KiB, and was read last
void input_let_go(struct input *input, const uint8_t *last);
void input_pass(struct input *input);
// To be called where `begin` was moved: what nobody holds of what was passed leaves memory.
static inline void input_passed(struct input *input)
{
	if (input->begin >= input->piece_end)
		input_pass(input);
}
// Regular files: goes on reading at `offset`.
bool input_seek(struct input *input, uint64_t offset, uint64_t limit, struct err *err);
// Makes up to `need` (at most 64 KiB) bytes available in one piece and returns where; *available says how many there are: fewer than
// `need` only at the end. NULL: reading failed. The bytes may be changed in place, unless the file is mapped.
uint8_t *input_peek(struct input *input, size_t need, size_t *available, struct err *err);
// Goes past `size` bytes, read or not; what lies past the end is the end.
bool input_skip(struct input *input, uint64_t size, struct err *err);

#endif
