// Any bytes as a section of CFI: the first says which kind. Every entry is read, every row made a rule, every expression evaluated.
#include "tests/fuzz/replay.h"
#include "unwind/cfi_expr.h"
#include "unwind/cfi_find.h"
#include "unwind/rule_table.h"

struct context {
	const struct cfi_section *section;
	const struct cfi_fde *fde;
	uint64_t last_end;
	unsigned rows;
};

static const uint64_t memory[8] = { 1, 0x1010, 0x2000, 0x1000, 5, 6, 7, 8 };

static void evaluate(const struct cfi_section *section, const struct cfi_reg *reg)
{
	struct stack_view view = {
		.bytes = (const uint8_t *)memory, .start = 0x1000, .size = sizeof(memory), .addr_end = UINT64_MAX, .word_bytes = section->address_bytes,
	};
	struct register_set registers = { .known = 0x1ffffffff };
	uint64_t result, missed, initial = 0x1008;

	for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
		registers.value[i] = 0x1000 + 8 * (i % 8);
	if (reg->kind == CFI_EXPR || reg->kind == CFI_VAL_EXPR)
		cfi_expr_eval(cfi_expr_bytes(section, reg), &registers, &view, &initial, &result, &missed);
}

static bool on_row(void *context, uint64_t start, uint64_t end, const struct cfi_row *row)
{
	struct context *c = context;

	if (start >= end || start < c->last_end || end > c->fde->end)
		abort();
	c->last_end = end;
	for (size_t i = 0; unwind_archs[i] != NULL; i++)
		rule_from_row(c->section, unwind_archs[i], &c->fde->cie, row);
	evaluate(c->section, &row->cfa);
	for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
		evaluate(c->section, &row->regs[i]);
	return ++c->rows < 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	struct cfi_section section = {
		.data = bytes_of(data + 1, size - 1), .vaddr = 0x9000, .text_vaddr = 0x1000, .data_vaddr = 0x20000,
		.machine = data[0] & 8 ? 183 : 62, .is_debug_frame = data[0] & 1, .address_bytes = data[0] & 2 ? 4 : 8,
	};
	section.data.swap = data[0] & 4;
	size_t offset = 0;
	for (unsigned entries = 0; entries < 1000; entries++) {
		struct cfi_entry entry = cfi_entry_at(&section, offset);
		struct cfi_fde fde = { 0 };
		if (entry.kind == CFI_FDE) {
			struct cfi_entry cie = cfi_entry_at(&section, entry.cie_offset);
			if (cie.kind == CFI_CIE && cfi_read_cie(&section, &cie, &fde.cie) && cfi_read_fde(&section, &entry, &fde)) {
				struct context context = { .section = &section, .fde = &fde };
				uint64_t bad_from;
				cfi_run(&section, &fde, on_row, &context, &bad_from);
			}
		}
		if (entry.next <= offset)
			break;
		offset = entry.next;
	}
	// The same bytes as memory that may hold such a section.
	struct cfi_found found = { 0 };
	section.is_debug_frame = false;
	for (size_t from = 0; cfi_find(&section, from, 0, UINT64_MAX, &found); from = found.end)
		if (found.start < from || found.end <= found.start || found.end > size - 1)
			abort();
	return 0;
}
