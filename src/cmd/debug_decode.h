// x86-64 instructions by libcapstone, in a form that is small enough to keep: what is followed is decoded once.
#ifndef PERFSAMPLE_CMD_DEBUG_DECODE_H
#define PERFSAMPLE_CMD_DEBUG_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

// DWARF's numbers (AMD64 psABI, figure 3.36), and two that are none.
enum { RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP, R8, R12 = 12, REGISTERS = 16, NO_REGISTER = REGISTERS, REGISTER_PC };
// The register that a name of capstone's is of; NO_REGISTER: another kind. `*is_whole`: all 64 bits of it.
unsigned register_of(unsigned capstone, bool *is_whole);

enum operand_kind { OPERAND_NONE, OPERAND_REGISTER, OPERAND_CONSTANT, OPERAND_MEMORY };
struct operand {
	uint8_t kind, size; // bytes
	uint8_t reg;        // NO_REGISTER: of another kind
	uint8_t base, index, scale; // of memory; NO_REGISTER: none
	bool is_high;    // bits 8 to 15 of the register
	bool is_written; // as far as one that is not known better goes
	bool has_segment;
	int64_t value;   // the constant, the displacement
};

enum flow { FLOW_ON, FLOW_JUMP, FLOW_BRANCH, FLOW_LOOP, FLOW_CALL, FLOW_RETURN, FLOW_STOP }; // LOOP: on a register as well
enum { OPERANDS = 3 };
struct instruction {
	uint16_t id;       // X86_INS_*; 0: no instruction
	uint8_t size, flow;
	uint8_t condition; // as jcc, setcc and cmovcc encode it
	uint8_t operand_count;
	bool is_repeated;
	bool keeps_flags;  // sure to
	uint16_t clobbered; // registers that are written without being operands, a bit each
	uint32_t next;      // the decoder's
	struct operand operands[OPERANDS];
};

struct decoder;
// STATUS_HOST: there is no disassembler (libcapstone).
bool decoder_new(struct decoder **out, struct err *err);
void decoder_free(struct decoder *decoder); // NULL is allowed
// The instruction at bytes, of which `size` are there. `key` names the place and its content for ever. Constants that are addresses (of jumps, calls) are
// counted from the instruction's own. `*last`: what was put there for the one right before this one, else 0. Valid until the next call.
const struct instruction *decoder_at(struct decoder *decoder, uint32_t *last, uint64_t key, const uint8_t *bytes, size_t size);

#endif
