// Call frame information: the rows that FDEs describe (elf/cfi.h reads them). Pure: no allocation, no memory of a process, no errors but "bad".
//
// Formats: DWARF 5, 6.4.
#ifndef PERFSAMPLE_UNWIND_CFI_H
#define PERFSAMPLE_UNWIND_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/cfi.h"
#include "unwind/arch.h"

enum cfi_reg_kind {
	CFI_UNSPECIFIED = 0, // no rule: callee-saved registers keep their value
	CFI_UNDEFINED,
	CFI_SAME,
	CFI_OFFSET,     // saved at CFA + value
	CFI_VAL_OFFSET, // is CFA + value
	CFI_REGISTER,   // is in register `value`
	CFI_EXPR,       // saved at the expression's result, the CFA pushed first
	CFI_VAL_EXPR,   // is the expression's result
};
struct cfi_reg {
	uint8_t kind;
	uint32_t length; // expressions: `length` bytes at section offset `value`
	int64_t value;
};
struct cfi_row {
	struct cfi_reg cfa; // CFI_UNSPECIFIED, CFI_VAL_EXPR, or CFI_REGISTER with `cfa_offset`
	int64_t cfa_offset;
	struct cfi_reg regs[UNWIND_REGISTERS];
	uint64_t changed; // bits of registers whose rules may be others than in the row before
};
static inline struct bytes cfi_expr_bytes(const struct cfi_section *section, const struct cfi_reg *reg)
{
	struct bytes all = section->data;
	all.at = all.start;
	bytes_skip(&all, (size_t)reg->value);
	return bytes_sub(&all, reg->length);
}

// Whether a function that may go on in another frame has the row: unwind/eh_return.h.
static inline bool cfi_row_is_eh_return(const struct unwind_arch *arch, const struct cfi_row *row)
{
	return row->regs[arch->eh_data[0]].kind == CFI_OFFSET && row->regs[arch->eh_data[1]].kind == CFI_OFFSET && arch->eh_columns != 0;
}

// Called once for each stretch [start, end) of the FDE over which one row holds, in ascending order; false: enough.
typedef bool cfi_row_fn(void *context, uint64_t start, uint64_t end, const struct cfi_row *row);
// Runs the CIE's instructions: the row that its FDEs begin with. false when they are malformed.
bool cfi_run_cie(const struct cfi_section *section, const struct cfi_cie *cie, struct cfi_row *initial);
// Runs the FDE's instructions from its CIE's row on. false when they are malformed: rows emitted before stand, and the
// stretch from `*bad_from` on has no row.
bool cfi_run_from(const struct cfi_section *section, const struct cfi_fde *fde, const struct cfi_row *initial, cfi_row_fn *emit, void *context,
                  uint64_t *bad_from);
// Both.
bool cfi_run(const struct cfi_section *section, const struct cfi_fde *fde, cfi_row_fn *emit, void *context, uint64_t *bad_from);

#endif
