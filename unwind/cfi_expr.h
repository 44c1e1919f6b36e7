// DWARF expressions as CFI uses them (DWARF 5, 2.5 and 6.4.2): registers, the stack copy, arithmetic, branches. Bounded: 10,000
// operations, 64 values.
#ifndef PERFSAMPLE_UNWIND_CFI_EXPR_H
#define PERFSAMPLE_UNWIND_CFI_EXPR_H

#include "base/bytes.h"
#include "unwind/arch.h"
#include "unwind/stack_view.h"

struct register_set {
	uint64_t value[UNWIND_REGISTERS];
	uint64_t known; // a bit for each
	uint64_t believed; // of the others: what they were in a function called since, which may have changed them
};
static inline bool register_get(const struct register_set *set, uint64_t reg, uint64_t *out)
{
	if (reg >= UNWIND_REGISTERS || (set->known >> reg & 1) == 0)
		return false;
	*out = set->value[reg];
	return true;
}
// Known or not: for who knows what was called.
static inline bool register_believe(const struct register_set *set, uint64_t reg, uint64_t *out)
{
	if (reg >= UNWIND_REGISTERS || ((set->known | set->believed) >> reg & 1) == 0)
		return false;
	*out = set->value[reg];
	return true;
}
static inline void register_put(struct register_set *set, unsigned reg, uint64_t value)
{
	set->value[reg] = value;
	set->known |= (uint64_t)1 << reg;
}

enum cfi_expr_status { CFI_EXPR_OK, CFI_EXPR_BAD, CFI_EXPR_NO_REGISTER, CFI_EXPR_NO_MEMORY };
// `initial` (may be NULL) is pushed first. CFI_EXPR_NO_MEMORY: `*missed` is the address that could not be read.
enum cfi_expr_status cfi_expr_eval(struct bytes ops, const struct register_set *registers, const struct stack_view *view,
                                   const uint64_t *initial, uint64_t *result, uint64_t *missed);

#endif
