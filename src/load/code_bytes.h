// The bytes of code that no image has, for the unwinder (unwind_input.code): pages that the recorder read from processes, and what jitdumps hold. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_CODE_BYTES_H
#define PERFSAMPLE_LOAD_CODE_BYTES_H

#include "perfdata/names.h"
#include "unwind/unwind.h"

struct code_bytes; // one per thread
struct code_bytes *code_bytes_new(const struct names *names); // of the recording, or NULL; stays the caller's
void code_bytes_free(struct code_bytes *code);
// Around an address of a process, as it was at a time.
struct unwind_code code_bytes_in_memory(struct code_bytes *code, int32_t pid, uint64_t time_ns, uint64_t addr);
// A piece of code in a dump, of at most CODE_IN_DUMP_MOST bytes: `size` bytes at `offset` of the file, which was mapped at `start`. `dump` is the dump's number.
enum { CODE_IN_DUMP_MOST = 1 << 20 };
struct code_piece { uint64_t start, size, offset; uint32_t dump; int fd; };
struct unwind_code code_bytes_in_dump(struct code_bytes *code, const struct code_piece *piece);

#endif
