// How large the rings and the stack copies are: arithmetic only, from rate, delay and what the host allows. perfsample-record(1), -m.
#ifndef PERFSAMPLE_RECORD_BUDGET_H
#define PERFSAMPLE_RECORD_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
	STACK_BYTES_MAX = 65528,     // a record's size is a u16; the kernel cuts the copy further to what the record has left
	STACK_BYTES_AUTO_MIN = 8192, // `auto` never goes below
	COPIED_BYTES_PER_S = 256 << 20, // that `auto` lets the kernel copy on one CPU: some 0.12 us a KiB, so 3% of its time
	SAMPLE_REST_BYTES = 256,     // of a sample beside its stack copy, in the formula
	RING_BYTES_MIN = 128 * 1024,
	RECORD_REST_BYTES_MAX = 4096, // what a sample may need beside the copy at most: registers, 127 kernel frames, fixed fields; as event_set_open has it
};

enum { AMPLE_MS = 160 };       // what a ring holds where memory is no matter: passes are three quarters of it apart, and each costs 17 us and more
enum { AMPLE_BYTES = 128 << 20 }; // of all rings together that may be taken for that, and for rates that are only likely

struct budget_input {
	double rate_hz;        // samples a second on one CPU, over all events
	double likely_hz;      // the same where the rate is the program's: as many as a busy one makes; not below rate_hz
	size_t ample_bytes;    // of one ring, a power of two: more than the delay needs is taken up to here
	bool has_stack;        // copies of the user stack are taken
	uint32_t stack_bytes;  // wished for; 0: auto
	size_t ring_bytes;     // -m, already a power of two; 0: as the formula says
	size_t ring_limit;     // the largest power of two that the host allows a ring; SIZE_MAX: no limit; 0: not even a page
	size_t rings;          // how many there are to be; 0 as 1
	unsigned delay_ms;     // how long the reader may be late at the priority it got
};

struct budget {
	size_t ring_bytes;     // of the data area
	uint32_t stack_bytes;  // multiple of 8; 0 without copies
	bool is_cheaper;       // the copy is smaller than it could be: a full one would copy more than COPIED_BYTES_PER_S
	double bears_ms;       // the delay that such a ring bears at this rate
	bool is_short;         // bears less than was asked for
};

// STATUS_USAGE: -m is too small for one record; STATUS_HOST: what the host allows is. Both name what would do, and nothing that would be refused in its turn.
bool budget_compute(const struct budget_input *input, struct budget *budget, struct err *err);
// What budget_input.ample_bytes is for so many rings on a host that allows each `ring_limit`: no user's whole allowance is taken for comfort.
size_t budget_ample_bytes(size_t rings, size_t ring_limit);
// The smallest power of two that is not below `bytes`.
size_t budget_power_of_two(size_t bytes);

#endif
