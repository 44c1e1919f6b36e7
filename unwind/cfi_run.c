// The CFA instructions of DWARF 5, 6.4.2 and 7.24, and their GNU and AArch64 additions.
#include "unwind/cfi.h"

enum {
	CFA_ADVANCE_LOC = 0x40, CFA_OFFSET = 0x80, CFA_RESTORE = 0xc0, // the operand in the low six bits
	CFA_NOP = 0x00, CFA_SET_LOC = 0x01, CFA_ADVANCE_LOC1 = 0x02, CFA_ADVANCE_LOC2 = 0x03, CFA_ADVANCE_LOC4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05, CFA_RESTORE_EXTENDED = 0x06, CFA_UNDEFINED = 0x07, CFA_SAME_VALUE = 0x08, CFA_REGISTER = 0x09,
	CFA_REMEMBER_STATE = 0x0a, CFA_RESTORE_STATE = 0x0b, CFA_DEF_CFA = 0x0c, CFA_DEF_CFA_REGISTER = 0x0d, CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_DEF_CFA_EXPRESSION = 0x0f, CFA_EXPRESSION = 0x10, CFA_OFFSET_EXTENDED_SF = 0x11, CFA_DEF_CFA_SF = 0x12,
	CFA_DEF_CFA_OFFSET_SF = 0x13, CFA_VAL_OFFSET = 0x14, CFA_VAL_OFFSET_SF = 0x15, CFA_VAL_EXPRESSION = 0x16,
	CFA_MIPS_ADVANCE_LOC8 = 0x1d, CFA_AARCH64_SET_RA_STATE = 0x2b, CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
	CFA_AARCH64_NEGATE_RA_STATE = 0x2d, // the number is DW_CFA_GNU_window_save elsewhere
	CFA_GNU_ARGS_SIZE = 0x2e, CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};
enum { MACHINE_AARCH64 = 183 }; // EM_AARCH64

// Nested remember_state: compilers nest once, glibc's hand-written locks twice. Deeper is taken for malformed.
enum { MAX_REMEMBERED = 64 };

struct machine {
	const struct cfi_section *section;
	const struct cfi_fde *fde;
	uint64_t at;
	struct cfi_row row;
	const struct cfi_row *initial; // behind the CIE's instructions; NULL while these run
	unsigned depth;
	cfi_row_fn *emit;
	void *context;
	bool stopped; // by the caller
	struct cfi_row remembered[MAX_REMEMBERED];
};

static void set(struct machine *m, uint64_t reg, enum cfi_reg_kind kind, int64_t value)
{
	reg = unwind_register(m->section->machine, reg);
	if (reg >= UNWIND_REGISTERS) // others (vector registers) are not kept
		return;
	m->row.regs[reg] = (struct cfi_reg){ .kind = (uint8_t)kind, .value = value };
	m->row.changed |= (uint64_t)1 << reg;
}

static void set_expression(struct machine *m, struct cfi_reg *reg, enum cfi_reg_kind kind, struct bytes *in)
{
	uint64_t length = bytes_uleb(in);
	const uint8_t *start = in->at;

	bytes_skip(in, (size_t)length);
	if (!in->bad)
		*reg = (struct cfi_reg){ .kind = (uint8_t)kind, .length = (uint32_t)length, .value = start - m->section->data.start };
}

static bool restore(struct machine *m, uint64_t reg)
{
	if (m->initial == NULL)
		return false; // inside the CIE there is nothing to restore
	reg = unwind_register(m->section->machine, reg);
	if (reg < UNWIND_REGISTERS) {
		m->row.regs[reg] = m->initial->regs[reg];
		m->row.changed |= (uint64_t)1 << reg;
	}
	return true;
}

static inline bool advance(struct machine *m, uint64_t to)
{
	if (m->initial == NULL || to < m->at)
		return false;
	if (to > m->at && m->at < m->fde->end) {
		uint64_t end = to < m->fde->end ? to : m->fde->end;
		m->stopped = !m->emit(m->context, m->at, end, &m->row);
		m->row.changed = 0;
	}
	m->at = to;
	return !m->stopped;
}

static bool remember(struct machine *m)
{
	if (m->depth == MAX_REMEMBERED)
		return false;
	m->remembered[m->depth++] = m->row;
	return true;
}

static bool recall(struct machine *m)
{
	if (m->depth == 0)
		return false;
	m->row = m->remembered[--m->depth];
	m->row.changed = UINT64_MAX;
	return true;
}

static void define_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	m->row.cfa = (struct cfi_reg){ .kind = CFI_REGISTER, .value = (int64_t)(reg & INT64_MAX) };
	m->row.cfa_offset = offset;
}

static int64_t scaled(const struct machine *m, uint64_t factor)
{
	return (int64_t)(factor * (uint64_t)m->fde->cie.data_align);
}

// Instructions about the CFA and the location; `*known` false: it is one of the registers'.
static bool step_location(struct machine *m, uint8_t op, struct bytes *in, bool *known)
{
	uint64_t code_align = m->fde->cie.code_align, reg;

	switch (op) {
	case CFA_NOP:
		return true;
	case CFA_SET_LOC:
		return advance(m, cfi_pointer(m->section, in, m->section->is_debug_frame ? 0 : m->fde->cie.fde_encoding, m->fde->start));
	case CFA_ADVANCE_LOC1:
		return advance(m, m->at + bytes_u8(in) * code_align);
	case CFA_ADVANCE_LOC2:
		return advance(m, m->at + bytes_u16(in) * code_align);
	case CFA_ADVANCE_LOC4:
		return advance(m, m->at + bytes_u32(in) * code_align);
	case CFA_MIPS_ADVANCE_LOC8:
		return advance(m, m->at + bytes_u64(in) * code_align);
	case CFA_REMEMBER_STATE:
		return remember(m);
	case CFA_RESTORE_STATE:
		return recall(m);
	case CFA_DEF_CFA:
		reg = bytes_uleb(in);
		define_cfa(m, reg, (int64_t)bytes_uleb(in));
		return true;
	case CFA_DEF_CFA_SF:
		reg = bytes_uleb(in);
		define_cfa(m, reg, scaled(m, (uint64_t)bytes_sleb(in)));
		return true;
	case CFA_DEF_CFA_REGISTER:
		reg = bytes_uleb(in);
		define_cfa(m, reg, m->row.cfa_offset);
		return true;
	case CFA_DEF_CFA_OFFSET:
		m->row.cfa_offset = (int64_t)bytes_uleb(in);
		return m->row.cfa.kind == CFI_REGISTER;
	case CFA_DEF_CFA_OFFSET_SF:
		m->row.cfa_offset = scaled(m, (uint64_t)bytes_sleb(in));
		return m->row.cfa.kind == CFI_REGISTER;
	case CFA_DEF_CFA_EXPRESSION:
		set_expression(m, &m->row.cfa, CFI_VAL_EXPR, in);
		return true;
	case CFA_AARCH64_NEGATE_RA_STATE_WITH_PC:
	case CFA_AARCH64_NEGATE_RA_STATE: // whether the return address is signed: the mask serves both
		return m->section->machine == MACHINE_AARCH64;
	case CFA_AARCH64_SET_RA_STATE:
		bytes_uleb(in);
		bytes_sleb(in);
		return m->section->machine == MACHINE_AARCH64;
	case CFA_GNU_ARGS_SIZE: // of interest to exception handlers only
		bytes_uleb(in);
		return true;
	default:
		*known = false;
		return true;
	}
}

static bool step_register(struct machine *m, uint8_t op, struct bytes *in)
{
	uint64_t reg = bytes_uleb(in), place = unwind_register(m->section->machine, reg);
	struct cfi_reg ignored;
	struct cfi_reg *to = place < UNWIND_REGISTERS ? &m->row.regs[place] : &ignored;

	m->row.changed |= place < UNWIND_REGISTERS ? (uint64_t)1 << place : 0;

	switch (op) {
	case CFA_OFFSET_EXTENDED:
		set(m, reg, CFI_OFFSET, scaled(m, bytes_uleb(in)));
		return true;
	case CFA_OFFSET_EXTENDED_SF:
		set(m, reg, CFI_OFFSET, scaled(m, (uint64_t)bytes_sleb(in)));
		return true;
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		set(m, reg, CFI_OFFSET, scaled(m, -bytes_uleb(in)));
		return true;
	case CFA_VAL_OFFSET:
		set(m, reg, CFI_VAL_OFFSET, scaled(m, bytes_uleb(in)));
		return true;
	case CFA_VAL_OFFSET_SF:
		set(m, reg, CFI_VAL_OFFSET, scaled(m, (uint64_t)bytes_sleb(in)));
		return true;
	case CFA_RESTORE_EXTENDED:
		return restore(m, reg);
	case CFA_UNDEFINED:
		set(m, reg, CFI_UNDEFINED, 0);
		return true;
	case CFA_SAME_VALUE:
		set(m, reg, CFI_SAME, 0);
		return true;
	case CFA_REGISTER:
		set(m, reg, CFI_REGISTER, (int64_t)(bytes_uleb(in) & INT64_MAX));
		return true;
	case CFA_EXPRESSION:
		set_expression(m, to, CFI_EXPR, in);
		return true;
	case CFA_VAL_EXPRESSION:
		set_expression(m, to, CFI_VAL_EXPR, in);
		return true;
	default:
		return false;
	}
}

static bool run(struct machine *m, struct bytes in)
{
	while (bytes_left(&in) > 0) {
		uint8_t op = bytes_u8(&in);
		bool good, known = true;
		// Every other instruction is of this kind, with a number of one byte.
		if (op == CFA_DEF_CFA_OFFSET && m->row.cfa.kind == CFI_REGISTER && bytes_left(&in) > 0 && *in.at < 0x80) {
			m->row.cfa_offset = *in.at++;
			continue;
		}
		switch (op & 0xc0) {
		case CFA_ADVANCE_LOC:
			good = advance(m, m->at + (op & 0x3f) * m->fde->cie.code_align);
			break;
		case CFA_OFFSET:
			set(m, op & 0x3f, CFI_OFFSET, scaled(m, bytes_uleb(&in)));
			good = true;
			break;
		case CFA_RESTORE:
			good = restore(m, op & 0x3f);
			break;
		default:
			good = step_location(m, op, &in, &known);
			if (!known)
				good = step_register(m, op, &in);
		}
		if (!good || in.bad)
			return false;
	}
	return true;
}

// About 40 KiB, and not cleared: only what is in use is ever touched.
static void begin(struct machine *m, const struct cfi_section *section, const struct cfi_fde *fde, cfi_row_fn *emit, void *context)
{
	m->section = section;
	m->fde = fde;
	m->at = fde->start;
	m->initial = NULL;
	m->depth = 0;
	m->emit = emit;
	m->context = context;
	m->stopped = false;
}

bool cfi_run_cie(const struct cfi_section *section, const struct cfi_cie *cie, struct cfi_row *initial)
{
	const struct cfi_fde none = { .cie = *cie };
	struct machine m;

	begin(&m, section, &none, NULL, NULL);
	m.row = (struct cfi_row){ 0 };
	bool good = run(&m, cie->instructions);
	*initial = m.row;
	return good;
}

bool cfi_run_from(const struct cfi_section *section, const struct cfi_fde *fde, const struct cfi_row *initial, cfi_row_fn *emit, void *context,
                  uint64_t *bad_from)
{
	struct machine m;

	begin(&m, section, fde, emit, context);
	m.row = *initial;
	m.initial = initial;
	bool good = run(&m, fde->instructions);
	*bad_from = m.at;
	if (m.stopped)
		return true;
	if (!good)
		return false;
	if (m.at < fde->end)
		emit(context, m.at, fde->end, &m.row);
	return true;
}

bool cfi_run(const struct cfi_section *section, const struct cfi_fde *fde, cfi_row_fn *emit, void *context, uint64_t *bad_from)
{
	struct cfi_row initial;

	*bad_from = fde->start;
	return cfi_run_cie(section, &fde->cie, &initial) && cfi_run_from(section, fde, &initial, emit, context, bad_from);
}
