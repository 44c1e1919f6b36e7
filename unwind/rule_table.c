#include "unwind/rule_table.h"

#include <stdlib.h>

#include "base/search.h"

// ---------------------------------------------------------------- rows into rules

enum { OP_BREG0 = 0x70, OP_LIT0 = 0x30, OP_AND = 0x1a, OP_GE = 0x2a, OP_SHL = 0x24, OP_PLUS = 0x22, OP_DEREF = 0x06 };

// `bregN offset`, the cursor moved behind it.
static bool take_breg(struct bytes *ops, uint8_t *reg, int64_t *offset)
{
	uint8_t op = bytes_u8(ops);

	*reg = (uint8_t)(op - OP_BREG0);
	*offset = bytes_sleb(ops);
	return !ops->bad && op >= OP_BREG0 && *reg < 32;
}

static bool take_literal(struct bytes *ops, uint8_t *value)
{
	*value = (uint8_t)(bytes_u8(ops) - OP_LIT0);
	return !ops->bad && *value < 32;
}

// ld's lazy PLT: breg SP n; breg PC 0; lit15; and; lit K; ge; lit S; shl; plus. Which instruction of the 16-byte slot has pushed is
// told by the pc's low bits.
static bool is_plt(struct bytes ops, const struct unwind_arch *arch, struct unwind_rule *rule)
{
	uint8_t sp, pc, mask, threshold, shift;
	int64_t offset, zero;

	if (!take_breg(&ops, &sp, &offset) || !take_breg(&ops, &pc, &zero) || sp != arch->dwarf_sp || pc != arch->dwarf_ra || zero != 0)
		return false;
	if (!take_literal(&ops, &mask) || mask != 15 || bytes_u8(&ops) != OP_AND || !take_literal(&ops, &threshold) ||
	    bytes_u8(&ops) != OP_GE || !take_literal(&ops, &shift) || shift > 8 || bytes_u8(&ops) != OP_SHL || bytes_u8(&ops) != OP_PLUS)
		return false;
	if (ops.bad || bytes_left(&ops) > 0 || offset < 0 || offset > 4096)
		return false;
	rule->kind = RULE_PLT;
	rule->cfa_off = (int32_t)offset;
	rule->fp_off = threshold;
	rule->ra_off = shift;
	return true;
}

static bool take_base(const struct unwind_arch *arch, uint8_t reg, int64_t offset, bool deref, struct unwind_rule *rule)
{
	if ((reg != arch->dwarf_sp && reg != arch->dwarf_fp) || offset < -RULE_CFA_LIMIT || offset >= RULE_CFA_LIMIT)
		return false;
	if (reg == arch->dwarf_sp)
		rule->kind = deref ? RULE_SP_DEREF : RULE_SP;
	else
		rule->kind = deref ? RULE_FP_DEREF : RULE_FP;
	rule->cfa_off = (int32_t)offset;
	return true;
}

static bool cfa_into(const struct cfi_section *section, const struct unwind_arch *arch, const struct cfi_row *row,
                     struct unwind_rule *rule, uint8_t *base)
{
	struct bytes ops;
	int64_t offset;

	if (row->cfa.kind == CFI_REGISTER && row->cfa.value < UNWIND_REGISTERS) {
		*base = (uint8_t)row->cfa.value;
		return take_base(arch, *base, row->cfa_offset, false, rule);
	}
	if (row->cfa.kind != CFI_VAL_EXPR)
		return false;
	ops = cfi_expr_bytes(section, &row->cfa);
	if (is_plt(ops, arch, rule)) {
		*base = arch->dwarf_sp;
		return true;
	}
	return take_breg(&ops, base, &offset) && bytes_u8(&ops) == OP_DEREF && !ops.bad && bytes_left(&ops) == 0 &&
	       take_base(arch, *base, offset, true, rule);
}

// Where a register is saved, as an offset from the CFA or (`*at_base`) from the register that the CFA is computed from.
static bool slot_of(const struct cfi_section *section, const struct cfi_reg *reg, uint8_t base, int16_t *off, bool *at_base)
{
	int64_t offset = reg->value;
	uint8_t from;

	*at_base = reg->kind == CFI_EXPR;
	if (*at_base) {
		struct bytes ops = cfi_expr_bytes(section, reg);
		if (!take_breg(&ops, &from, &offset) || bytes_left(&ops) > 0 || from != base)
			return false;
	} else if (reg->kind != CFI_OFFSET) {
		return false;
	}
	*off = (int16_t)offset;
	return offset >= INT16_MIN && offset <= INT16_MAX;
}

// The caller's sp is the CFA: said by no rule at all, as CFA + 0, or (signal frames) as saved where the CFA was read from.
static bool sp_is_cfa(const struct cfi_section *section, const struct unwind_arch *arch, const struct cfi_row *row,
                      const struct unwind_rule *rule, uint8_t base)
{
	const struct cfi_reg *sp = &row->regs[arch->dwarf_sp];
	int16_t off;
	bool at_base;

	if (sp->kind == CFI_UNSPECIFIED || (sp->kind == CFI_VAL_OFFSET && sp->value == 0))
		return true;
	return (rule->kind == RULE_SP_DEREF || rule->kind == RULE_FP_DEREF) && slot_of(section, sp, base, &off, &at_base) && at_base &&
	       off == rule->cfa_off;
}

struct unwind_rule rule_from_row(const struct cfi_section *section, const struct unwind_arch *arch, const struct cfi_cie *cie,
                                 const struct cfi_row *row)
{
	const struct unwind_rule slow = { .kind = RULE_SLOW | (cie->is_signal ? RULE_SIGNAL : 0) };
	struct unwind_rule rule = { 0 };
	uint8_t base = 0;
	bool at_base;
	int16_t off;

	if (cie->ra_register != arch->dwarf_ra || cfi_row_is_eh_return(arch, row))
		return slow;
	const struct cfi_reg *ra = &row->regs[arch->dwarf_ra], *fp = &row->regs[arch->dwarf_fp];
	if (ra->kind == CFI_UNDEFINED)
		return (struct unwind_rule){ .kind = RULE_ROOT };
	if (!cfa_into(section, arch, row, &rule, &base) || !sp_is_cfa(section, arch, row, &rule, base))
		return slow;
	bool fp_is_same = fp->kind == CFI_UNSPECIFIED || fp->kind == CFI_SAME || fp->kind == CFI_UNDEFINED;
	if (rule.kind == RULE_PLT)
		return fp_is_same && ra->kind == CFI_OFFSET && ra->value == -arch->word_bytes && !cie->is_signal ? rule : slow;
	if (!fp_is_same) {
		if (!slot_of(section, fp, base, &off, &at_base))
			return slow;
		rule.fp_off = off;
		rule.kind |= RULE_FP_SAVED | (at_base ? RULE_FP_AT_BASE : 0);
	}
	if (slot_of(section, ra, base, &off, &at_base)) {
		rule.ra_off = off;
		rule.kind |= RULE_RA_SAVED | (at_base ? RULE_RA_AT_BASE : 0);
	} else if (arch->perf_lr == 0xff || (ra->kind != CFI_UNSPECIFIED && ra->kind != CFI_SAME)) {
		return slow;
	}
	if (cie->is_signal)
		rule.kind |= RULE_SIGNAL;
	return rule;
}

// ---------------------------------------------------------------- looking up

// FDEs that an address is looked for in, from the one that starts last; entries of .eh_frame that one missing in the header's table is looked for among.
enum { MAX_NESTED = 4, MAX_MISSED = 64 };

// The last FDE that starts at or before `at`; their count when there is none.
static size_t search(const struct rule_table *table, uint32_t at)
{
	size_t hint = at >> table->hint_shift, low = 0, high = table->fde_count;

	if (hint + 1 < table->hint_count) {
		low = table->hints[hint];
		high = table->hints[hint + 1];
	}
	const size_t next = first_not(low, high, i, rule_table_ref(table, i).start <= at);
	return next > 0 ? next - 1 : table->fde_count;
}

static bool begins(const struct rule_table *table, uint32_t at)
{
	size_t i = search(table, at);

	return i < table->fde_count && rule_table_ref(table, i).start == at;
}

struct compiling {
	struct rule_table *table;
	const struct unwind_arch *arch;
	const struct cfi_fde *fde;
	uint64_t base;
	size_t first, most;   // rows: where this FDE's begin, and how many there may be in all
	uint64_t watched;     // bits of ra, sp and eh_data
	uint64_t end;         // up to where there are rows: what follows found no room
	struct unwind_counters *counters;
	// Of the row before: its rule, what that depends on beside the CFA and the caller's fp, and whether it is of the usual form.
	struct unwind_rule rule;
	struct cfi_reg ra, sp;
	bool is_usual;
};

static bool is_same_reg(const struct cfi_reg *a, const struct cfi_reg *b)
{
	return a->value == b->value && a->kind == b->kind && a->length == b->length;
}

static void remember_row(struct compiling *c, const struct cfi_row *row, struct unwind_rule rule)
{
	c->rule = rule;
	c->ra = row->regs[c->arch->dwarf_ra];
	c->sp = row->regs[c->arch->dwarf_sp];
	const unsigned base = rule.kind & RULE_BASE_MASK;
	c->is_usual = (base == RULE_SP || base == RULE_FP) && (rule.kind & (RULE_FP_AT_BASE | RULE_RA_AT_BASE)) == 0;
}

static bool is_within(int64_t value, int64_t least, uint64_t count)
{
	return (uint64_t)value - (uint64_t)least < count;
}

// Most rows differ from the one before by a push: in where the CFA counts from, and in the place of fp or of a register that no rule follows. false: this
// one differs in more, or is of a rarer form.
static bool follow_row(struct compiling *c, const struct cfi_row *row)
{
	const struct cfi_reg *fp = &row->regs[c->arch->dwarf_fp];
	unsigned flags = c->rule.kind & (RULE_RA_SAVED | RULE_SIGNAL);
	bool is_fp_saved = fp->kind == CFI_OFFSET && is_within(fp->value, INT16_MIN, 1 << 16);
	bool is_at_fp = row->cfa.value == c->arch->dwarf_fp;

	if (!c->is_usual || row->cfa.kind != CFI_REGISTER || (!is_at_fp && row->cfa.value != c->arch->dwarf_sp) ||
	    !is_within(row->cfa_offset, -RULE_CFA_LIMIT, 2 * (uint64_t)RULE_CFA_LIMIT))
		return false;
	if ((row->changed & c->watched) != 0 && (cfi_row_is_eh_return(c->arch, row) || !is_same_reg(&row->regs[c->arch->dwarf_ra], &c->ra) ||
						 !is_same_reg(&row->regs[c->arch->dwarf_sp], &c->sp)))
		return false;
	if (!is_fp_saved && fp->kind != CFI_UNSPECIFIED && fp->kind != CFI_SAME && fp->kind != CFI_UNDEFINED)
		return false;
	c->rule.kind = (uint8_t)(flags | (is_at_fp ? RULE_FP : RULE_SP) | (is_fp_saved ? RULE_FP_SAVED : 0));
	c->rule.cfa_off = (int32_t)row->cfa_offset;
	c->rule.fp_off = is_fp_saved ? (int16_t)fp->value : 0;
	return true;
}

static struct unwind_rule next_rule(struct compiling *c, const struct cfi_row *row)
{
	if (!follow_row(c, row))
		remember_row(c, row, rule_from_row(&c->table->section, c->arch, &c->fde->cie, row));
	return c->rule;
}

static bool append_row(void *context, uint64_t start, uint64_t end, const struct cfi_row *row)
{
	struct compiling *c = context;
	struct unwind_rule rule = next_rule(c, row);
	size_t count = c->table->rows.count;

	if (count >= c->most)
		return false;
	c->end = end;
	if (count > c->first && memcmp(&c->table->rows.data[count - 1].rule, &rule, sizeof(rule)) == 0)
		return true;
	vec_push(&c->table->rows, (struct rule_row){ .start = (uint32_t)(start - c->base), .rule = rule });
	if ((rule.kind & RULE_BASE_MASK) == RULE_SLOW)
		c->counters->slow_rows++;
	return true;
}

// false: the CIE's instructions are malformed.
static bool know_initial(struct rule_table *table, const struct unwind_arch *arch, const struct cfi_cie *cie)
{
	if (table->has_initial && table->initial_of == cie->offset)
		return true;
	table->has_initial = cfi_run_cie(&table->section, cie, &table->initial);
	table->initial_of = cie->offset;
	if (table->has_initial)
		table->initial_rule = rule_from_row(&table->section, arch, cie, &table->initial);
	return table->has_initial;
}

// Whether the FDE has the address; `*fde` is what it is.
static bool is_fde_at(struct rule_table *table, size_t offset, uint64_t vaddr, struct cfi_fde *fde)
{
	return rule_index_fde(table, offset, fde) && vaddr >= fde->start && vaddr < fde->end;
}

// false: the index is wrong about this FDE.
static bool compile(struct unwind_image *image, struct rule_table *table, size_t i, struct unwind_counters *counters)
{
	struct cfi_fde fde;
	struct fde_ref ref = rule_table_ref(table, i);
	uint64_t end = image->base + ref.start, bad_from;
	const struct unwind_rule unreadable = { .kind = RULE_UNREADABLE };
	// Every row takes an instruction of its own. More rows than the section has bytes means FDEs that overlap on purpose.
	const size_t most = bytes_left(&table->section.data);
	struct compiling context = {
		.table = table, .arch = image->arch, .fde = &fde, .base = image->base, .first = table->rows.count,
		.most = most < UINT32_MAX - 2 ? most : UINT32_MAX - 2, .counters = counters,
		.watched = (uint64_t)1 << image->arch->dwarf_ra | (uint64_t)1 << image->arch->dwarf_sp |
			   (uint64_t)1 << image->arch->eh_data[0] | (uint64_t)1 << image->arch->eh_data[1],
	};

	bool good = rule_index_fde(table, ref.offset, &fde);
	if (table->is_from_header && (!good || fde.start != end))
		return false;
	if (good) {
		context.end = fde.start;
		if (know_initial(table, image->arch, &fde.cie)) {
			remember_row(&context, &table->initial, table->initial_rule);
			(void)cfi_run_from(&table->section, &fde, &table->initial, append_row, &context, &bad_from);
			counters->rows_compiled += table->rows.count - context.first;
		}
		end = fde.end;
		if (end < fde.start || end - image->base > UINT32_MAX)
			end = context.end = fde.start;
		if (context.end < end)
			vec_push(&table->rows, (struct rule_row){ .start = (uint32_t)(context.end - image->base), .rule = unreadable });
	}
	vec_push(&table->rows, (struct rule_row){ .start = (uint32_t)(end - image->base) });
	table->compiled[i] = (struct fde_rows){ (uint32_t)context.first, (uint32_t)(table->rows.count - context.first) };
	counters->fdes_compiled++;
	return true;
}

static struct unwind_rule find_in_rows(const struct rule_row *rows, size_t count, uint32_t at)
{
	const size_t next = first_not(0, count, i, rows[i].start <= at);
	return next > 0 ? rows[next - 1].rule : (struct unwind_rule){ 0 };
}

// The last FDE that starts at or before an address has it. If not, one of those before may: hand-written code has FDEs inside of others.
static struct unwind_rule find_in_table(struct unwind_image *image, struct rule_table *table, uint32_t at,
                                        struct unwind_counters *counters, uint32_t *end)
{
	size_t i = search(table, at);

	for (unsigned nested = 0; i < table->fde_count && nested < MAX_NESTED; nested++, i--) { // wraps around below the first
		if (table->compiled[i].count == 0 && !compile(image, table, i, counters)) {
			rule_index_scan(image, table);
			return find_in_table(image, table, at, counters, end); // no longer from the header: once only
		}
		struct fde_rows rows = table->compiled[i];
		*end = table->rows.data[rows.first + rows.count - 1].start;
		if (at < *end)
			return find_in_rows(&table->rows.data[rows.first], rows.count, at);
	}
	return (struct unwind_rule){ 0 };
}

// Whether .eh_frame has an FDE at an address, or near it, that its header's table lacks: of several with one start lld puts the first into the table, which may
// be empty, and a table may be too short. Linkers leave FDEs in the order of the code, so only some are looked at. All are indexed anew if so.
static bool mend_index(struct unwind_image *image, struct rule_table *table, uint32_t at)
{
	size_t i = search(table, at);
	size_t offset = i < table->fde_count ? rule_table_ref(table, i).offset : 0;
	uint64_t vaddr = image->base + at;

	if (!table->is_from_header)
		return false;
	for (unsigned n = 0; n < MAX_MISSED; n++) {
		struct cfi_entry entry = cfi_entry_at(&table->section, offset);
		struct cfi_fde fde;
		if (entry.kind == CFI_BAD || entry.next <= offset || (entry.kind == CFI_END && table->stops_at_zero))
			return false;
		if (entry.kind == CFI_FDE && rule_index_fde(table, offset, &fde) && rule_index_takes(image, table, &fde) &&
		    ((vaddr >= fde.start && vaddr < fde.end) || !begins(table, (uint32_t)(fde.start - image->base)))) {
			rule_index_scan(image, table);
			return true;
		}
		offset = entry.next;
	}
	return false;
}

struct unwind_rule rule_table_find_to(struct unwind_image *image, uint64_t vaddr, struct unwind_counters *counters, uint64_t *end)
{
	uint64_t at = vaddr - image->base;
	struct unwind_rule rule = { 0 };
	uint32_t fde_end = 0;

	*end = vaddr;
	if (vaddr < image->base || at >= UINT32_MAX)
		return rule;
	for (size_t i = 0; i < image->table_count && (rule.kind == RULE_NONE || rule.kind == RULE_UNREADABLE); i++) {
		uint32_t found_end;
		struct unwind_rule found = find_in_table(image, &image->tables[i], (uint32_t)at, counters, &found_end);
		if (found.kind == RULE_NONE)
			continue;
		rule = found;
		fde_end = found_end;
	}
	if (rule.kind == RULE_NONE && (rule = go_table_rule(image, vaddr, end)).kind != RULE_NONE)
		return rule;
	for (struct rule_table *t = image->tables; t < image->tables + image->table_count && rule.kind == RULE_NONE; t++)
		if (mend_index(image, t, (uint32_t)at))
			rule = find_in_table(image, t, (uint32_t)at, counters, &fde_end);
	if (rule.kind != RULE_NONE)
		*end = image->base + fde_end;
	return rule;
}

struct unwind_rule rule_table_find(struct unwind_image *image, uint64_t vaddr, struct unwind_counters *counters)
{
	uint64_t end;

	return rule_table_find_to(image, vaddr, counters, &end);
}

bool rule_table_begins(const struct unwind_image *image, uint64_t vaddr)
{
	uint64_t at = vaddr - image->base;

	for (size_t t = 0; t < image->table_count && vaddr >= image->base && at < UINT32_MAX; t++)
		if (begins(&image->tables[t], (uint32_t)at))
			return true;
	return false;
}

struct row_wanted {
	uint64_t vaddr;
	struct cfi_row *row;
	bool found;
};

static bool keep_row(void *context, uint64_t start, uint64_t end, const struct cfi_row *row)
{
	struct row_wanted *wanted = context;

	if (wanted->vaddr < start || wanted->vaddr >= end)
		return true;
	*wanted->row = *row;
	wanted->found = true;
	return false;
}

bool rule_table_row(struct unwind_image *image, uint64_t vaddr, struct cfi_row *row, struct cfi_fde *fde,
                    const struct cfi_section **section)
{
	struct row_wanted wanted = { .vaddr = vaddr, .row = row };
	uint64_t bad_from;

	if (vaddr < image->base || vaddr - image->base >= UINT32_MAX)
		return false;
	for (size_t t = 0; t < image->table_count && !wanted.found; t++) {
		struct rule_table *table = &image->tables[t];
		size_t i = search(table, (uint32_t)(vaddr - image->base));
		unsigned nested = 0;
		while (i < table->fde_count && nested++ < MAX_NESTED && !is_fde_at(table, rule_table_ref(table, i).offset, vaddr, fde))
			i--;
		if (i >= table->fde_count || nested > MAX_NESTED)
			continue;
		*section = &table->section;
		cfi_run(&table->section, fde, keep_row, &wanted, &bad_from);
	}
	return wanted.found;
}

// ---------------------------------------------------------------- the image

bool unwind_image_new(struct unwind_image **out, struct image *image, bool populate, struct err *err)
{
	struct unwind_image *made = NEW(struct unwind_image);

	(void)err; // whatever is wrong with an image's CFI only means that it has none
	made->image = image_retain(image);
	made->arch = unwind_arch_for(image->machine);
	made->base = UINT64_MAX;
	for (size_t i = 0; i < image->segment_count; i++)
		if (image->segments[i].vaddr < made->base)
			made->base = image->segments[i].vaddr;
	if (made->arch != NULL && made->base != UINT64_MAX) {
		rule_index_build(made, populate);
		go_table_build(made);
	}
	*out = made;
	return true;
}

void unwind_image_free(struct unwind_image *image)
{
	if (image == NULL)
		return;
	for (size_t i = 0; i < image->table_count; i++) {
		free(image->tables[i].fdes);
		free(image->tables[i].compiled);
		free(image->tables[i].hints);
		vec_release(&image->tables[i].rows);
		buf_release(&image->tables[i].storage);
	}
	vec_release(&image->stops);
	image_release(image->mini);
	image_release(image->debug);
	image_release(image->image);
	free(image);
}

size_t unwind_image_bytes(const struct unwind_image *image)
{
	size_t bytes = sizeof(*image) + image->stops.capacity * sizeof(struct rule_stop) + (image->mini != NULL ? image->mini->size : 0);

	for (size_t i = 0; i < image->table_count; i++) {
		const struct rule_table *table = &image->tables[i];
		bytes += table->fde_count * ((table->fdes != NULL ? sizeof(*table->fdes) : 0) + sizeof(*table->compiled)) +
		         table->hint_count * sizeof(*table->hints) + table->rows.capacity * sizeof(struct rule_row) + table->storage.capacity;
	}
	return bytes;
}
