// How to get from one frame to its caller, in 8 bytes. What does not fit is `BASE_SLOW`: the FDE is interpreted again and the full
// row evaluated.
#ifndef PERFSAMPLE_UNWIND_RULE_H
#define PERFSAMPLE_UNWIND_RULE_H

#include <stdint.h>

enum rule_base { // the low three bits of `kind`
	RULE_NONE = 0,     // no CFI here
	RULE_ROOT = 1,     // the return address is undefined
	RULE_SLOW = 2,
	RULE_PLT = 3,      // CFA = sp + cfa_off + ((pc & 15) >= fp_off) << ra_off; RA right below it (ld's lazy PLT)
	RULE_SP = 4,       // CFA = sp + cfa_off
	RULE_FP = 5,       // CFA = fp + cfa_off
	RULE_SP_DEREF = 6, // CFA = *(sp + cfa_off): signal frames
	RULE_FP_DEREF = 7, // CFA = *(fp + cfa_off): frames that realign the stack
	RULE_BASE_MASK = 7,
};
enum rule_flag {
	RULE_FP_SAVED = 0x08,   // else the caller's fp is the same
	RULE_RA_SAVED = 0x10,   // else the return address is in the link register
	RULE_SIGNAL = 0x20,     // the caller was interrupted, it did not call
	RULE_FP_AT_BASE = 0x40, // fp_off counts from the base register, not from the CFA
	RULE_RA_AT_BASE = 0x80,
	RULE_ELSEWHERE = 0x40,  // with RULE_ROOT: the function changes stacks, and the calls go on on another one (switch.c)
	RULE_UNREADABLE = RULE_ROOT | RULE_ELSEWHERE, // an FDE has the address, and its instructions cannot be run as far as that: no caller is known
};
#define RULE_CFA_LIMIT (1 << 23)

struct unwind_rule {
	uint32_t kind : 8;
	int32_t cfa_off : 24;
	int16_t fp_off, ra_off; // bytes
};
_Static_assert(sizeof(struct unwind_rule) == 8, "a rule is 8 bytes");

#endif
