// One x86-64 instruction: how long it is, which general registers it changes, and of the few that move the stack pointer, copy whole words or leave
// what they do. By tables, after the opcode maps of the Intel SDM (volume 2, appendix A) and the AMD manual (volume 3, appendix A). Privileged, vector and
// x87 instructions are known by length and by what they write; XOP, 3DNow!, APX (REX2, extended EVEX) and what is in no map are none.
#ifndef PERFSAMPLE_UNWIND_X86_DECODE_H
#define PERFSAMPLE_UNWIND_X86_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { X86_BYTES_MOST = 15, X86_NOTHING = 0xff };
enum x86_register { X86_RAX, X86_RCX, X86_RDX, X86_RBX, X86_RSP, X86_RBP, X86_RSI, X86_RDI, X86_R8, X86_R11 = 11, X86_R12, X86_R15 = 15, X86_REGISTERS };

enum x86_kind {
	X86_OTHER, // registers of `writes` change, and `stores` bytes where the memory operand is; all others do that as well, and:
	X86_PUSH,  // of `reg`; X86_NOTHING: of something else
	X86_POP,   // to `reg`; X86_NOTHING: to memory or elsewhere
	X86_LOAD,  // reg = rm; with `rm` X86_NOTHING: of the memory operand
	X86_STORE, // rm = reg, or the memory operand
	X86_LEA,   // reg = address of the memory operand
	X86_ADD,   // rm += value; so is subtracting
	X86_AND,   // rm &= value
	X86_XCHG,  // reg and rm
	X86_LEAVE,
	X86_CALL,    // to the instruction's end + value
	X86_CALL_AT, // to what `rm` or memory has
	X86_JUMP,    // like the two calls
	X86_JUMP_AT,
	X86_BRANCH, // perhaps to the instruction's end + value
	X86_RET,    // `value`: bytes that are popped besides
	X86_TRAP,   // goes nowhere: int3, ud2, hlt
	X86_NOP,    // of any length
	X86_LANDMARK, // endbr: where indirect calls and jumps go
};

// Of X86_LOAD to X86_XCHG the operands have 8 bytes; what has fewer is X86_OTHER.
struct x86_decoded {
	uint8_t size; // 0: none, or one that is not known
	uint8_t kind;
	uint8_t reg, rm;
	uint8_t base, index; // of the memory operand: X86_NOTHING where it has none, both of an address that counts from rip or a segment, or is absolute
	uint8_t stores;
	bool has_memory;
	uint16_t writes; // a bit each, also where a part is written
	int32_t displacement;
	int64_t value;
};

// The instruction that `size` bytes begin with. false: none is known, or not all of it is there; `out->size` is 0 then.
bool x86_decode(const uint8_t *code, size_t size, struct x86_decoded *out);

#endif
