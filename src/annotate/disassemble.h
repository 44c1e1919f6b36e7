// Machine code as text, by libcapstone, which is loaded when first asked for: no other command waits for its 6 MB.
#ifndef PERFSAMPLE_ANNOTATE_DISASSEMBLE_H
#define PERFSAMPLE_ANNOTATE_DISASSEMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { DISASSEMBLED_TEXT = 200 };

struct disassembled {
	uint64_t addr;
	size_t size;                  // bytes; at least 1
	char text[DISASSEMBLED_TEXT]; // "mov    %rax, %rbx"; ".byte 0x06" for what is no instruction
};

struct disassembler;
// `machine` as in an ELF header. STATUS_HOST: libcapstone is not there; STATUS_INPUT: it does not know the machine.
bool disassembler_open(struct disassembler **out, uint16_t machine, struct err *err);
void disassembler_close(struct disassembler *disassembler); // NULL is allowed
// The instruction at *code, which stands at `addr`; *code and *size are moved behind it. false: no byte is left.
bool disassemble(struct disassembler *disassembler, const uint8_t **code, size_t *size, uint64_t addr, struct disassembled *out);

// For who wants to know what instructions do, not to show them: by disassemble_decoded. STATUS_HOST: also where this libcapstone cannot tell.
struct cs_insn; // <capstone/capstone.h>: with its detail, operands in Intel's order
bool disassembler_open_decoding(struct disassembler **out, uint16_t machine, struct err *err);
// The instruction at *code, both moved behind it. NULL: it is none. Valid until the next call.
const struct cs_insn *disassemble_decoded(struct disassembler *disassembler, const uint8_t **code, size_t *size, uint64_t addr);

#endif
