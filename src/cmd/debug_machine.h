// An x86-64 processor of which only a part is known: registers, flags and the stack, as a sample has them. It runs one instruction after another; what
// comes of something unknown is unknown.
//
// Of memory the stack is known, as far as it was copied. A write to a place that nothing is known of is taken to leave the stack alone, unless the place came from
// sp or another place on the stack: then nobody knows what is where.
#ifndef PERFSAMPLE_CMD_DEBUG_MACHINE_H
#define PERFSAMPLE_CMD_DEBUG_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cmd/debug_code.h"
#include "cmd/debug_decode.h"

// PLACE: on the stack, `bits` bytes from where sp was when it was lost last, nobody knows at which address.
enum value_kind { VALUE_UNKNOWN, VALUE_NUMBER, VALUE_PLACE };
// OF_STACK: unknown, but it came from a place on the stack. OF_CODE: from a place in the code. OF_TABLE: from what is read there, or anywhere by an index.
enum { OF_STACK = 1, OF_CODE = 2, OF_TABLE = 4 };
struct value {
	uint64_t bits;
	uint8_t kind, origin;
};

// A word of the stack that was written. `known`: its bytes, a bit each.
struct cell {
	uint64_t at;
	bool is_place; // `at` is as of a PLACE, not an address
	uint8_t known;
	struct value value;
};

enum { CELLS = 160 };
// EFLAGS (Intel SDM 1, 3.4.3).
enum { FLAG_C = 1, FLAG_P = 4, FLAG_Z = 0x40, FLAG_S = 0x80, FLAG_O = 0x800, FLAGS_ALL = FLAG_C | FLAG_P | FLAG_Z | FLAG_S | FLAG_O };
struct machine {
	uint64_t pc;
	struct value regs[REGISTERS];
	uint32_t flags, flags_known;
	// Below `hidden`, words of the copy may have been written since by a sp that nobody knows; which can reach what is below `reach`.
	uint64_t hidden, reach;
	uint64_t blank, blank_end; // words in between are unknown as well: arrays that loops write
	bool is_lost; // something was written nobody knows where on the stack
	uint32_t cell_count;
	struct cell cells[CELLS];
};
static inline void machine_copy(struct machine *to, const struct machine *from)
{
	memcpy(to, from, offsetof(struct machine, cells) + from->cell_count * sizeof(from->cells[0]));
}

struct stack_memory {
	code_word_fn *word; // of the copy
	void *context;
	uint64_t start, end; // addresses that are the stack's, copied or not
};

// From here on sp is nobody knows where on the stack.
void machine_lose_sp(struct machine *m, const struct stack_memory *memory);
// A word of the stack as it is now.
struct value machine_word(const struct machine *m, const struct stack_memory *memory, const struct value *at);
struct value machine_pop(struct machine *m, const struct stack_memory *memory);
void machine_push(struct machine *m, const struct stack_memory *memory, const struct value *value);
// What an operand holds. `next`: the address behind the instruction.
struct value machine_operand(const struct machine *m, const struct stack_memory *memory, const struct operand *op, uint64_t next);
// false: not known.
bool machine_condition(const struct machine *m, unsigned condition, bool *holds);
// Runs an instruction that goes on to the next one.
void machine_run(struct machine *m, const struct stack_memory *memory, const struct instruction *insn);
// All that a function need not hand back is unknown; if it keeps to the psABI, that is, else it hands back the frame pointer only.
void machine_call(struct machine *m, const struct stack_memory *memory, bool is_c, bool keeps_sp);

// Whether whatever `general` may be, `one` may be as well.
bool machine_covers(const struct machine *general, const struct machine *one, const struct stack_memory *memory);
// What is known of both.
void machine_join(struct machine *to, const struct machine *from, const struct stack_memory *memory);

#endif
