// CFI made by hand: every instruction, every form of a CIE, both byte orders, damaged sections; and expressions.
#include "unwind/cfi.h"

#include "base/buf.h"
#include "tests/tap.h"
#include "unwind/cfi_expr.h"
#include "unwind/cfi_find.h"
#include "unwind/rule_table.h"

enum { MACHINE_X86_64 = 62, MACHINE_AARCH64 = 183, SECTION_VADDR = 0x9000, CODE = 0x1000 };

struct maker {
	struct buf buf;
	bool swap, is_debug_frame, is_64; // is_64: 64-bit DWARF
	size_t cie_at;
};

static void put(struct maker *m, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		buf_byte(&m->buf, (uint8_t)(value >> (8 * (m->swap ? size - 1 - i : i))));
}

static void patch(struct maker *m, size_t at, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		m->buf.data[at + i] = (char)(value >> (8 * (m->swap ? size - 1 - i : i)));
}

// An entry's length and id; `finish` fills the length.
static size_t begin(struct maker *m, bool is_cie)
{
	size_t at = m->buf.size;

	if (m->is_64)
		put(m, 0xffffffff, 4);
	put(m, 0, m->is_64 ? 8 : 4);
	size_t id_at = m->buf.size;
	if (is_cie) {
		m->cie_at = at;
		put(m, m->is_debug_frame ? UINT64_MAX : 0, m->is_64 && m->is_debug_frame ? 8 : 4);
	} else {
		put(m, m->is_debug_frame ? m->cie_at : id_at - m->cie_at, m->is_64 && m->is_debug_frame ? 8 : 4);
	}
	return at;
}

static void finish(struct maker *m, size_t at)
{
	while (m->buf.size % 8 != 0)
		buf_byte(&m->buf, 0); // DW_CFA_nop
	size_t field = m->is_64 ? 8 : 4, start = at + (m->is_64 ? 4 : 0);
	patch(m, start, m->buf.size - start - field, field);
}

static void put_bytes(struct maker *m, const char *bytes, size_t size)
{
	buf_add(&m->buf, bytes, size);
}
#define BYTES(m, text) put_bytes(m, text, sizeof(text) - 1)

static void put_cie(struct maker *m, unsigned version, const char *augmentation, const char *data, size_t data_size)
{
	size_t at = begin(m, true);
	put(m, version, 1);
	buf_add(&m->buf, augmentation, strlen(augmentation) + 1);
	if (version == 4)
		put(m, 8, 1), put(m, 0, 1);
	buf_uleb(&m->buf, 1);
	buf_byte(&m->buf, 0x78); // data alignment -8
	buf_byte(&m->buf, 16);
	if (augmentation[0] == 'z') {
		buf_uleb(&m->buf, data_size);
		put_bytes(m, data, data_size);
	}
	BYTES(m, "\x0c\x07\x08\x90\x01"); // CFA = rsp + 8, RA at CFA - 8
	finish(m, at);
}

static size_t put_fde(struct maker *m, unsigned encoding_size, bool is_pcrel, bool has_data, const char *instructions, size_t size)
{
	size_t at = begin(m, false);
	put(m, is_pcrel ? CODE - (SECTION_VADDR + m->buf.size) : CODE, encoding_size);
	put(m, 0x100, encoding_size);
	if (has_data)
		buf_uleb(&m->buf, 0);
	put_bytes(m, instructions, size);
	finish(m, at);
	return at;
}

static struct cfi_section section_of(const struct maker *m, uint16_t machine)
{
	struct cfi_section section = {
		.data = bytes_of(m->buf.data, m->buf.size), .vaddr = SECTION_VADDR, .machine = machine, .is_debug_frame = m->is_debug_frame,
		.address_bytes = 8,
	};
	section.data.swap = m->swap;
	return section;
}

enum { MAX_ROWS = 32 };
struct rows {
	struct { uint64_t start, end; struct cfi_row row; } row[MAX_ROWS];
	size_t count;
	uint64_t bad_from;
	bool good;
	struct cfi_fde fde;
};

static bool collect(void *context, uint64_t start, uint64_t end, const struct cfi_row *row)
{
	struct rows *rows = context;
	rows->row[rows->count].start = start;
	rows->row[rows->count].end = end;
	rows->row[rows->count].row = *row;
	return ++rows->count < MAX_ROWS;
}

static bool read_rows(const struct cfi_section *section, size_t fde_at, struct rows *rows)
{
	*rows = (struct rows){ 0 };
	struct cfi_entry entry = cfi_entry_at(section, fde_at);
	if (entry.kind != CFI_FDE)
		return false;
	struct cfi_entry cie = cfi_entry_at(section, entry.cie_offset);
	if (cie.kind != CFI_CIE || !cfi_read_cie(section, &cie, &rows->fde.cie) || !cfi_read_fde(section, &entry, &rows->fde))
		return false;
	rows->good = cfi_run(section, &rows->fde, collect, rows, &rows->bad_from);
	return true;
}

// ---------------------------------------------------------------- forms of CIE and FDE

static void test_forms(void)
{
	static const struct { const char *what, *augmentation, *data; size_t data_size; unsigned size; bool pcrel; } eh[] = {
		{ "zR, pcrel sdata4", "zR", "\x1b", 1, 4, true },
		{ "zR, absolute", "zR", "\x00", 1, 8, false },
		{ "zR, udata8", "zR", "\x04", 1, 8, false },
		{ "zR, pcrel sdata8", "zR", "\x1c", 1, 8, true },
		{ "zPLR", "zPLR", "\x9b\x11\x22\x33\x44\x1b\x1b", 7, 4, true },
		{ "zRS", "zRS", "\x1b", 1, 4, true },
		{ "zRB", "zRB", "\x1b", 1, 4, true },
		{ "zR with an unknown letter and its data", "zRq", "\x1b\x77\x77", 3, 4, true },
		{ "no augmentation", "", "", 0, 8, false },
	};
	struct rows rows;

	for (size_t i = 0; i < sizeof(eh) / sizeof(eh[0]); i++) {
		for (int swap = 0; swap < 2; swap++) {
			struct maker m = { .swap = swap };
			put_cie(&m, 1, eh[i].augmentation, eh[i].data, eh[i].data_size);
			size_t at = put_fde(&m, eh[i].size, eh[i].pcrel, eh[i].augmentation[0] == 'z', "\x41\x0e\x10", 3);
			struct cfi_section section = section_of(&m, MACHINE_X86_64);
			ok(read_rows(&section, at, &rows) && rows.good && rows.count == 2 && rows.fde.start == CODE && rows.fde.end == CODE + 0x100 &&
			   rows.row[1].row.cfa_offset == 16, ".eh_frame, %s, byte order %d", eh[i].what, swap);
			ok(rows.fde.cie.is_signal == (strchr(eh[i].augmentation, 'S') != NULL), "signal frame or not");
			buf_release(&m.buf);
		}
	}
	for (int form = 0; form < 12; form++) {
		static const unsigned versions[] = { 1, 3, 4 };
		struct maker m = { .swap = form & 1, .is_64 = form & 2, .is_debug_frame = true };
		put_cie(&m, versions[form / 4], "", NULL, 0);
		size_t at = put_fde(&m, 8, false, false, "\x41\x0e\x10", 3);
		struct cfi_section section = section_of(&m, MACHINE_X86_64);
		ok(read_rows(&section, at, &rows) && rows.good && rows.count == 2 && rows.fde.start == CODE && rows.row[1].start == CODE + 1,
		   ".debug_frame, version %u, %d-bit, byte order %d", versions[form / 4], m.is_64 ? 64 : 32, m.swap);
		buf_release(&m.buf);
	}
}

// ---------------------------------------------------------------- instructions

struct wanted_row {
	uint64_t start;
	int64_t cfa_reg, cfa_offset; // cfa_reg -1: expression
	uint8_t reg, kind;
	int64_t value;
};

static void check(const char *what, const char *instructions, size_t size, uint16_t machine, const struct wanted_row *wanted, size_t count)
{
	struct maker m = { 0 };
	struct rows rows;

	put_cie(&m, 1, "zR", "\x1b", 1);
	size_t at = put_fde(&m, 4, true, true, instructions, size);
	struct cfi_section section = section_of(&m, machine);
	bool good = read_rows(&section, at, &rows) && rows.good && rows.count == count;
	for (size_t i = 0; good && i < count; i++) {
		const struct cfi_row *row = &rows.row[i].row;
		good = rows.row[i].start == CODE + wanted[i].start && rows.row[i].end == (i + 1 < count ? CODE + wanted[i + 1].start : CODE + 0x100);
		if (wanted[i].cfa_reg < 0)
			good = good && row->cfa.kind == CFI_VAL_EXPR && (int64_t)row->cfa.length == wanted[i].cfa_offset;
		else
			good = good && row->cfa.kind == CFI_REGISTER && row->cfa.value == wanted[i].cfa_reg && row->cfa_offset == wanted[i].cfa_offset;
		good = good && row->regs[wanted[i].reg].kind == wanted[i].kind;
		if (wanted[i].kind == CFI_EXPR || wanted[i].kind == CFI_VAL_EXPR)
			good = good && (int64_t)row->regs[wanted[i].reg].length == wanted[i].value;
		else
			good = good && row->regs[wanted[i].reg].value == wanted[i].value;
		if (!good)
			diag("row %zu: %#llx cfa %lld+%lld, register %u kind %u value %lld", i, (unsigned long long)rows.row[i].start,
			     (long long)row->cfa.value, (long long)row->cfa_offset, wanted[i].reg, row->regs[wanted[i].reg].kind,
			     (long long)row->regs[wanted[i].reg].value);
	}
	ok(good, "%s", what);
	buf_release(&m.buf);
}
#define CHECK(what, instructions, machine, ...) do { static const struct wanted_row w_[] = { __VA_ARGS__ }; \
	check(what, instructions, sizeof(instructions) - 1, machine, w_, sizeof(w_) / sizeof(w_[0])); } while (0)

static void test_instructions(void)
{
	CHECK("advance_loc, 1, 2, 4", "\x41\x0e\x10\x02\x20\x0e\x18\x03\x30\x00\x0e\x20\x04\x10\x00\x00\x00\x0e\x28", MACHINE_X86_64,
	      { 0, 7, 8, 16, CFI_OFFSET, -8 }, { 1, 7, 16, 6, 0, 0 }, { 0x21, 7, 24, 6, 0, 0 }, { 0x51, 7, 32, 6, 0, 0 }, { 0x61, 7, 40, 6, 0, 0 });
	CHECK("advance of 0 emits nothing", "\x40\x02\x00\x0e\x10", MACHINE_X86_64, { 0, 7, 16, 6, 0, 0 });
	CHECK("MIPS_advance_loc8", "\x1d\x05\0\0\0\0\0\0\0\x0e\x10", MACHINE_X86_64, { 0, 7, 8, 6, 0, 0 }, { 5, 7, 16, 6, 0, 0 });
	CHECK("def_cfa, def_cfa_register, def_cfa_offset", "\x0c\x06\x20\x41\x0d\x07\x41\x0e\x40", MACHINE_X86_64, { 0, 6, 32, 6, 0, 0 },
	      { 1, 7, 32, 6, 0, 0 }, { 2, 7, 64, 6, 0, 0 });
	CHECK("def_cfa_sf, def_cfa_offset_sf: factored and signed", "\x12\x06\x7c\x41\x13\x7e", MACHINE_X86_64, { 0, 6, 32, 6, 0, 0 },
	      { 1, 6, 16, 6, 0, 0 });
	CHECK("offset, offset_extended, offset_extended_sf", "\x86\x02\x41\x05\x06\x03\x41\x11\x06\x7f", MACHINE_X86_64,
	      { 0, 7, 8, 6, CFI_OFFSET, -16 }, { 1, 7, 8, 6, CFI_OFFSET, -24 }, { 2, 7, 8, 6, CFI_OFFSET, 8 });
	CHECK("GNU_negative_offset_extended", "\x2f\x06\x02", MACHINE_X86_64, { 0, 7, 8, 6, CFI_OFFSET, 16 });
	CHECK("val_offset, val_offset_sf", "\x14\x06\x02\x41\x15\x06\x7e", MACHINE_X86_64, { 0, 7, 8, 6, CFI_VAL_OFFSET, -16 },
	      { 1, 7, 8, 6, CFI_VAL_OFFSET, 16 });
	CHECK("register, undefined, same_value", "\x09\x10\x05\x41\x07\x10\x41\x08\x10", MACHINE_X86_64, { 0, 7, 8, 16, CFI_REGISTER, 5 },
	      { 1, 7, 8, 16, CFI_UNDEFINED, 0 }, { 2, 7, 8, 16, CFI_SAME, 0 });
	CHECK("restore, restore_extended: the CIE's rule", "\x86\x02\x90\x05\x41\xc6\x06\x10", MACHINE_X86_64, { 0, 7, 8, 16, CFI_OFFSET, -40 },
	      { 1, 7, 8, 16, CFI_OFFSET, -8 });
	CHECK("restore of a register the CIE has no rule for", "\x86\x02\x41\xc6", MACHINE_X86_64, { 0, 7, 8, 6, CFI_OFFSET, -16 },
	      { 1, 7, 8, 6, CFI_UNSPECIFIED, 0 });
	CHECK("remember_state, restore_state: nested, CFA included", "\x86\x02\x0a\x41\x0e\x20\x0a\x41\x0c\x06\x30\xc6\x41\x0b\x41\x0b", MACHINE_X86_64,
	      { 0, 7, 8, 6, CFI_OFFSET, -16 }, { 1, 7, 32, 6, CFI_OFFSET, -16 }, { 2, 6, 48, 6, CFI_UNSPECIFIED, 0 },
	      { 3, 7, 32, 6, CFI_OFFSET, -16 }, { 4, 7, 8, 6, CFI_OFFSET, -16 });
	CHECK("expressions", "\x0f\x02\x77\x10\x10\x06\x02\x76\x00\x16\x03\x02\x73\x00", MACHINE_X86_64, { 0, -1, 2, 6, CFI_EXPR, 2 });
	CHECK("val_expression", "\x16\x03\x02\x73\x00", MACHINE_X86_64, { 0, 7, 8, 3, CFI_VAL_EXPR, 2 });
	CHECK("GNU_args_size is passed over, its operand too", "\x2e\x86\x02\x41\x0e\x10", MACHINE_X86_64, { 0, 7, 8, 6, 0, 0 }, { 1, 7, 16, 6, 0, 0 });
	CHECK("AArch64's signing of return addresses", "\x2d\x41\x0e\x10\x2d\x41\x0e\x18\x2c", MACHINE_AARCH64, { 0, 7, 8, 6, 0, 0 }, { 1, 7, 16, 6, 0, 0 },
	      { 2, 7, 24, 6, 0, 0 });
	// aadwarf64, 7.24: an unsigned and a signed LEB128, each of as many bytes as it likes.
	CHECK("AArch64: set_ra_state has two operands", "\x2b\x02\x7c\x41\x0e\x10\x2b\x80\x01\xff\xfe\x7f\x41\x0e\x18\x2b\x00\x00", MACHINE_AARCH64,
	      { 0, 7, 8, 6, 0, 0 }, { 1, 7, 16, 6, 0, 0 }, { 2, 7, 24, 6, 0, 0 });
	CHECK("AArch64: the state of signing as a rule of register 34", "\x16\x22\x01\x31\x41\x0e\x10\x06\x22\x41\x0e\x18", MACHINE_AARCH64,
	      { 0, 7, 8, 6, 0, 0 }, { 1, 7, 16, 6, 0, 0 }, { 2, 7, 24, 6, 0, 0 });
	CHECK("AArch64: the state of signing is remembered and restored with the rest", "\x2d\x0a\x41\x0e\x10\x2d\x2c\x41\x0b", MACHINE_AARCH64,
	      { 0, 7, 8, 6, 0, 0 }, { 1, 7, 16, 6, 0, 0 }, { 2, 7, 8, 6, 0, 0 });
	CHECK("registers that are not kept", "\x05\x80\x01\x02\x06\x80\x01\x07\x40\x09\x41\x03", MACHINE_X86_64, { 0, 7, 8, 6, 0, 0 });
}

static void expect_bad_on(uint16_t machine, const char *what, const char *instructions, size_t size, size_t rows_before)
{
	struct maker m = { 0 };
	struct rows rows;

	put_cie(&m, 1, "zR", "\x1b", 1);
	size_t at = put_fde(&m, 4, true, true, instructions, size);
	struct cfi_section section = section_of(&m, machine);
	ok(read_rows(&section, at, &rows) && !rows.good && rows.count == rows_before && rows.bad_from == CODE + rows_before,
	   "malformed: %s", what);
	buf_release(&m.buf);
}
#define EXPECT_BAD_ON(machine, what, instructions, before) expect_bad_on(machine, what, instructions, sizeof(instructions) - 1, before)
#define EXPECT_BAD(what, instructions, before) EXPECT_BAD_ON(MACHINE_X86_64, what, instructions, before)

static void test_malformed(void)
{
	char deep[65];
	memset(deep, 0x0a, sizeof(deep));
	expect_bad_on(MACHINE_X86_64, "remember_state nested 65 deep", deep, sizeof(deep), 0);
	EXPECT_BAD("restore_state of nothing", "\x41\x0b", 1);
	EXPECT_BAD("an unknown instruction", "\x41\x3a\x00", 1);
	EXPECT_BAD("signing of return addresses on x86-64", "\x2d", 0);
	EXPECT_BAD("the same, with the place where it was signed", "\x41\x2c", 1);
	EXPECT_BAD("the state of signing on x86-64", "\x2b\x01\x00", 0);
	EXPECT_BAD_ON(MACHINE_AARCH64, "set_ra_state whose first operand does not end", "\x41\x0e\x10\x41\x2b\xff\xff", 2);
	EXPECT_BAD_ON(MACHINE_AARCH64, "set_ra_state whose second does not", "\x41\x2b\x01\x80\x80\x80\x80", 1);
	EXPECT_BAD("an expression longer than the FDE", "\x41\x0f\xff\x7f", 1);
	EXPECT_BAD("an offset of a CFA that is an expression", "\x0f\x02\x77\x10\x0e\x10", 0);

	struct maker m = { 0 };
	put_cie(&m, 1, "zR", "\x1b", 1);
	size_t fde = put_fde(&m, 4, true, true, "\x41\x0e\x10", 3);
	put(&m, 0, 4);
	struct cfi_section section = section_of(&m, MACHINE_X86_64);
	ok(cfi_entry_at(&section, m.buf.size - 4).kind == CFI_END && cfi_entry_at(&section, m.buf.size).kind == CFI_END, "the terminator");
	ok(cfi_entry_at(&section, m.buf.size + 1).kind == CFI_BAD, "an offset behind the section");
	patch(&m, fde, 0x1000, 4);
	ok(cfi_entry_at(&section, fde).kind == CFI_BAD, "a length that leaves the section");
	patch(&m, fde, 0xffffffff, 4);
	ok(cfi_entry_at(&section, fde).kind == CFI_BAD, "a 64-bit length that leaves the section");
	patch(&m, fde, 8, 4);
	patch(&m, fde + 4, 0xffff, 4);
	ok(cfi_entry_at(&section, fde).kind == CFI_BAD, "a CIE before the section");

	buf_release(&m.buf);
}

static void test_damaged(void)
{
	struct maker m = { 0 };
	put_cie(&m, 1, "zR", "\x1b", 1);
	put_fde(&m, 4, true, true, "\x41\x0e\x10\x86\x02\x0a\x42\x0f\x02\x77\x10\x43\x0b", 13);
	put(&m, 0, 4);
	unsigned survived = 0; // every byte changed, every length
	for (size_t at = 0; at < m.buf.size; at++) {
		for (int value = 0; value < 256; value += 5) {
			struct rows rows;
			char old = m.buf.data[at];
			m.buf.data[at] = (char)value;
			for (size_t cut = 0; cut < 2; cut++) {
				struct cfi_section damaged = section_of(&m, MACHINE_X86_64);
				damaged.data.end -= cut * (m.buf.size - at);
				for (size_t offset = 0, steps = 0; steps < 100; steps++) {
					struct cfi_entry entry = cfi_entry_at(&damaged, offset);
					survived += read_rows(&damaged, offset, &rows);
					if (entry.next <= offset)
						break;
					offset = entry.next;
				}
			}
			m.buf.data[at] = old;
		}
	}
	ok(survived > 0, "damaged in every byte: %u FDEs could still be read", survived);
	buf_release(&m.buf);
}

// ---------------------------------------------------------------- expressions

static const uint64_t memory[4] = { 0x1111, 0x1020, 0x8877665544332211, 0x4444 };
static const struct stack_view view = { .bytes = (const uint8_t *)memory, .start = 0x1000, .size = sizeof(memory), .addr_end = UINT64_MAX, .word_bytes = 8 };

static enum cfi_expr_status eval(const char *ops, size_t size, uint64_t *result)
{
	struct register_set registers = { .known = 0 };
	uint64_t missed, initial = 0x5000;
	register_put(&registers, 7, 0x1000);
	register_put(&registers, 6, 0x1008);
	register_put(&registers, 16, 0x40a);
	return cfi_expr_eval(bytes_of(ops, size), &registers, &view, &initial, result, &missed);
}

#define EVAL(ops, wanted) do { uint64_t r_ = 0; enum cfi_expr_status s_ = eval(ops, sizeof(ops) - 1, &r_); \
	if (!ok(s_ == CFI_EXPR_OK && r_ == (uint64_t)(wanted), "%s is %s", #ops, #wanted)) \
		diag("status %d, result %#llx", s_, (unsigned long long)r_); } while (0)
#define FAIL(ops, wanted) do { uint64_t r_ = 0; is_u64(eval(ops, sizeof(ops) - 1, &r_), wanted, "%s: %s", #ops, #wanted); } while (0)

static void test_expressions(void)
{
	EVAL("", 0x5000); // the initial value
	EVAL("\x77\x08\x06", 0x1020);
	EVAL("\x92\x07\x10\x06", 0x8877665544332211);
	EVAL("\x77\x11\x94\x02", 0x3322); // two bytes inside a word
	EVAL("\x77\x14\x06", 0x444488776655); // across two words
	EVAL("\x77\x17\x94\x02", 0x4488);
	EVAL("\x57", 0x1000);                // reg7, regx 7: what is in it
	EVAL("\x90\x07\x23\x10", 0x1010);
	EVAL("\x77\x10\x9f", 0x1010);        // stack_value: it was no address
	EVAL("\x03\x00\x10\x00\x00\x00\x00\x00\x00\x06", 0x1111);
	EVAL("\x08\xff\x09\xff\x22", 0xfe); // 255 + -1
	EVAL("\x0a\xff\xff\x0b\xfe\xff\x22", 0xfffd);
	EVAL("\x0c\xff\xff\xff\xff\x0d\xff\xff\xff\xff\x22", 0xfffffffe);
	EVAL("\x0e\1\0\0\0\0\0\0\0\x0f\xff\xff\xff\xff\xff\xff\xff\xff\x22", 0);
	EVAL("\x10\x80\x01\x11\x7f\x22", 127);
	EVAL("\x31\x32\x12\x22\x1e", 4);      // dup, plus, mul: 1 * (2 + 2)
	EVAL("\x31\x32\x13", 1);              // drop
	EVAL("\x31\x32\x14", 1);              // over
	EVAL("\x31\x32\x33\x15\x02", 1);      // pick
	EVAL("\x31\x32\x16", 1);              // swap
	EVAL("\x31\x32\x33\x17\x1c", -1);     // rot: 3 1 2, minus: 1 - 2
	EVAL("\x09\xfb\x19", 5);              // abs
	EVAL("\x35\x1f", -5);                 // neg
	EVAL("\x30\x20", UINT64_MAX);         // not
	EVAL("\x09\xf8\x33\x1b", -2);         // -8 / 3
	EVAL("\x38\x33\x1d", 2);              // 8 mod 3
	EVAL("\x3f\x36\x1a\x31\x21\x38\x27", 15); // (15 & 6 | 1) ^ 8
	EVAL("\x31\x34\x24", 16);
	EVAL("\x09\xf0\x32\x26", -4);         // arithmetic shift
	EVAL("\x09\xf0\x08\x3c\x25", 15);     // logical shift
	EVAL("\x31\x08\x40\x24", 0);          // by the whole width
	EVAL("\x23\x10", 0x5010);             // plus_uconst
	EVAL("\x31\x32\x2d\x31\x32\x2c\x22\x31\x32\x2e\x22", 3); // lt + le + ne
	EVAL("\x31\x32\x2b\x31\x32\x2a\x22\x32\x32\x29\x22", 1); // gt + ge + eq
	EVAL("\x31\x28\x01\x00\x35\x37", 7);  // bra taken over lit5
	EVAL("\x30\x28\x01\x00\x35", 5);      // bra not taken
	EVAL("\x37\x2f\x01\x00\x35", 7);      // skip
	EVAL("\x3a\x31\x1c\x12\x28\xfa\xff", 0); // 10, then minus 1 until zero
	EVAL("\x96", 0x5000);
	EVAL("\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22", 0x1008); // ld's PLT with pc & 15 below 11

	FAIL("\x2f\xfd\xff", CFI_EXPR_BAD);   // for ever: 10,000 steps
	FAIL("\x12\x2f\xfc\xff", CFI_EXPR_BAD); // more than 64 values
	FAIL("\x13\x13", CFI_EXPR_BAD);       // pop of nothing
	FAIL("\x2f\x10\x00", CFI_EXPR_BAD);   // a jump out
	FAIL("\x2f\x00", CFI_EXPR_BAD);
	FAIL("\x30\x1b", CFI_EXPR_BAD);       // by zero
	FAIL("\x30\x1d", CFI_EXPR_BAD);
	FAIL("\x9c", CFI_EXPR_BAD);           // call_frame_cfa has no place in CFI
	FAIL("\x31\x15\x09", CFI_EXPR_BAD);
	FAIL("\x73\x00", CFI_EXPR_NO_REGISTER);
	FAIL("\x92\x90\x4e\x00", CFI_EXPR_NO_REGISTER);
	FAIL("\x77\x20\x06", CFI_EXPR_NO_MEMORY); // one word past the copy
	FAIL("\x77\x78\x06", CFI_EXPR_NO_MEMORY); // one below
	FAIL("\x77\x1c\x06", CFI_EXPR_NO_MEMORY); // across two words, of which the second one is past the copy
}

// A section somewhere in memory.
static void test_find(void)
{
	static const char wrong_version[] = "\x14\0\0\0\0\0\0\0\x02zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0";
	struct maker m = { 0 };
	struct cfi_found found = { 0 };

	put_bytes(&m, wrong_version, sizeof(wrong_version));
	while (m.buf.size < 100)
		put(&m, 0x0100007a, 4);
	put_cie(&m, 1, "zR", "\x1b", 1);
	size_t first = m.cie_at;
	put_fde(&m, 4, true, true, "", 0);
	put_cie(&m, 1, "zPLR", "\x03\0\0\0\0\x03\x1b", 7);
	put_fde(&m, 4, true, true, "", 0);
	m.cie_at = first; // one more of the first
	put_fde(&m, 4, true, true, "", 0);
	size_t end = m.buf.size;
	put(&m, 0, 8);
	put_cie(&m, 3, "zR", "\x1c", 1);
	size_t second = m.cie_at;
	put_fde(&m, 8, true, true, "", 0);
	struct cfi_section at = section_of(&m, MACHINE_X86_64);
	ok(cfi_find(&at, 0, CODE, CODE + 0x100, &found) && found.start == first && found.end == end, "a section in memory");
	ok(cfi_find(&at, found.end, CODE, CODE + 0x100, &found) && found.start == second && found.end == m.buf.size, "and one behind it");
	ok(!cfi_find(&at, found.end, CODE, CODE + 0x100, &found), "and no more");
	ok(!cfi_find(&at, 0, CODE + 1, CODE + 0x1000, &found), "none of other code");
	ok(!cfi_find(&at, 0, CODE, CODE + 0xff, &found), "nor of a part of it");
	m.buf.data[second + 8] = 2;
	m.buf.data[first + 9] = 'x';
	ok(!cfi_find(&at, 0, CODE, CODE + 0x100, &found) || found.start > first, "a CIE of another form is none");
	buf_release(&m.buf);
}

int main(void)
{
	test_find();
	test_forms();
	test_instructions();
	test_malformed();
	test_damaged();
	test_expressions();
	return tap_done();
}
