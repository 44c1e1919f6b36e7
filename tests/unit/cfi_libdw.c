// Every row that libdw finds in the images of this machine, beside the row and the rule that ours makes of it.
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <glob.h>
#include <unistd.h>

#include "tests/tap.h"
#include "unwind/rule_table.h"

struct tally {
	unsigned long fdes, rows, differing, slow;
};

// What libdw says about one register, in our terms. CFI_UNSPECIFIED when it has an expression that has no simple form.
struct location {
	enum cfi_reg_kind kind;
	int64_t value;
	const Dwarf_Op *ops;
	size_t count;
};

static struct location libdw_register(Dwarf_Frame *frame, int reg)
{
	Dwarf_Op memory[3], *ops;
	size_t count;
	struct location found = { CFI_UNSPECIFIED, 0, NULL, 0 };

	if (dwarf_frame_register(frame, reg, memory, &ops, &count) != 0)
		return found;
	if (count == 0) {
		found.kind = ops == memory ? CFI_UNDEFINED : CFI_SAME;
	} else if (count == 1 && ops[0].atom == DW_OP_regx) {
		found = (struct location){ CFI_REGISTER, (int64_t)ops[0].number, NULL, 0 };
	} else if (ops[0].atom == DW_OP_call_frame_cfa && count <= 3 &&
	           (count == 1 || ops[1].atom == DW_OP_plus_uconst || ops[1].atom == DW_OP_stack_value)) {
		int64_t offset = count > 1 && ops[1].atom == DW_OP_plus_uconst ? (int64_t)ops[1].number : 0;
		bool value = ops[count - 1].atom == DW_OP_stack_value;
		found = (struct location){ value ? CFI_VAL_OFFSET : CFI_OFFSET, offset, NULL, 0 };
	} else {
		found = (struct location){ ops[count - 1].atom == DW_OP_stack_value ? CFI_VAL_EXPR : CFI_EXPR, 0, ops, count };
	}
	return found;
}

static bool same_register(const struct cfi_reg *ours, const struct location *theirs)
{
	if (theirs->kind == CFI_UNSPECIFIED || theirs->kind == CFI_SAME || theirs->kind == CFI_UNDEFINED) {
		// libdw gives unspecified registers its own defaults by the ABI: undefined, or same for callee-saved ones.
		if (ours->kind == CFI_UNSPECIFIED)
			return true;
		return ours->kind == (theirs->kind == CFI_UNSPECIFIED ? CFI_SAME : theirs->kind);
	}
	if (theirs->kind == CFI_EXPR || theirs->kind == CFI_VAL_EXPR)
		return ours->kind == theirs->kind && ours->length > 0;
	return ours->kind == theirs->kind && ours->value == theirs->value;
}

static bool same_cfa(const struct cfi_row *row, Dwarf_Frame *frame, int *reg, int64_t *offset)
{
	Dwarf_Op *ops;
	size_t count;

	*reg = -1;
	if (dwarf_frame_cfa(frame, &ops, &count) != 0)
		return false;
	if (count == 1 && ops[0].atom == DW_OP_bregx) {
		*reg = (int)ops[0].number;
		*offset = (int64_t)ops[0].number2;
	} else if (count == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
		*reg = ops[0].atom - DW_OP_breg0;
		*offset = (int64_t)ops[0].number;
	}
	if (*reg >= 0 && row->cfa.kind == CFI_REGISTER)
		return row->cfa.value == *reg && row->cfa_offset == *offset;
	return row->cfa.kind == CFI_VAL_EXPR;
}

// The rule against libdw directly, so that the row's translation is checked too.
static bool same_rule(struct unwind_rule rule, int cfa_reg, int64_t cfa_offset, const struct location *fp, const struct location *ra)
{
	enum rule_base base = rule.kind & RULE_BASE_MASK;

	if (base == RULE_SLOW || base == RULE_PLT || base == RULE_SP_DEREF || base == RULE_FP_DEREF)
		return true; // by the walk's tests
	if (base == RULE_ROOT)
		return ra->kind == CFI_UNDEFINED;
	if (cfa_reg != (base == RULE_SP ? 7 : 6) || rule.cfa_off != cfa_offset || (rule.kind & RULE_RA_SAVED) == 0)
		return false;
	if (ra->kind != CFI_OFFSET || ra->value != rule.ra_off || (rule.kind & RULE_RA_AT_BASE) != 0)
		return false;
	if ((rule.kind & RULE_FP_SAVED) != 0 && (rule.kind & RULE_FP_AT_BASE) == 0)
		return fp->kind == CFI_OFFSET && fp->value == rule.fp_off;
	return (rule.kind & RULE_FP_SAVED) != 0 ? fp->kind == CFI_EXPR : fp->kind != CFI_OFFSET;
}

static bool compare_at(struct unwind_image *image, Dwarf_Frame *frame, uint64_t addr, struct tally *tally)
{
	struct unwind_counters counters = { 0 };
	struct cfi_row row;
	struct cfi_fde fde;
	const struct cfi_section *section;
	int cfa_reg;
	int64_t cfa_offset = 0;

	if (!rule_table_row(image, addr, &row, &fde, &section))
		return false;
	bool good = same_cfa(&row, frame, &cfa_reg, &cfa_offset);
	for (int reg = 0; reg <= 16; reg++) {
		struct location theirs = libdw_register(frame, reg);
		if (reg != 7) // libdw's default for sp is the CFA
			good = good && same_register(&row.regs[reg], &theirs);
	}
	struct location fp = libdw_register(frame, 6), ra = libdw_register(frame, 16);
	struct unwind_rule rule = rule_table_find(image, addr, &counters);
	tally->slow += (rule.kind & RULE_BASE_MASK) == RULE_SLOW;
	return good && same_rule(rule, cfa_reg, cfa_offset, &fp, &ra);
}

static void compare_fde(struct unwind_image *image, Dwarf_CFI *cfi, const struct cfi_fde *fde, struct tally *tally)
{
	uint64_t addr = fde->start;

	tally->fdes++;
	while (addr < fde->end) {
		Dwarf_Frame *frame;
		Dwarf_Addr start, end;
		bool is_signal;
		if (dwarf_cfi_addrframe(cfi, addr, &frame) != 0) {
			diag("%#llx: %s", (unsigned long long)addr, dwarf_errmsg(-1));
			tally->differing++;
			return;
		}
		dwarf_frame_info(frame, &start, &end, &is_signal);
		if (end > fde->end)
			end = fde->end;
		tally->rows++;
		if (!compare_at(image, frame, addr, tally) || !compare_at(image, frame, end - 1, tally) ||
		    is_signal != fde->cie.is_signal) {
			if (tally->differing++ < 5)
				diag("row [%#llx, %#llx) differs", (unsigned long long)start, (unsigned long long)end);
		}
		free(frame);
		if (end <= addr)
			return;
		addr = end;
	}
}

static void compare_image(const char *path, unsigned every)
{
	struct err err = { 0 };
	struct image *elf;
	struct unwind_image *image;
	struct tally tally = { 0 };

	if (!image_open_path(&elf, path, NULL)) {
		skip("not installed", "%s", path);
		return;
	}
	if (elf->machine != EM_X86_64) {
		skip("not x86-64", "%s", path);
		image_release(elf);
		return;
	}
	unwind_image_new(&image, elf, false, &err);
	int fd = open(path, O_RDONLY);
	Elf *theirs = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	Dwarf_CFI *cfi = dwarf_getcfi_elf(theirs);
	for (size_t t = 0; t < image->table_count && cfi != NULL; t++) {
		for (size_t i = 0; i < image->tables[t].fde_count; i += every) {
			struct cfi_fde fde;
			if (rule_index_fde(&image->tables[t], rule_table_ref(&image->tables[t], i).offset, &fde) && fde.end > fde.start)
				compare_fde(image, cfi, &fde, &tally);
		}
	}
	ok(tally.rows > 0 && tally.differing == 0, "%s: %lu FDEs (one in %u), %lu rows, %lu of them slow, %lu differ from libdw", path,
	   tally.fdes, every, tally.rows, tally.slow / 2, tally.differing);
	dwarf_cfi_end(cfi);
	elf_end(theirs);
	close(fd);
	unwind_image_free(image);
	image_release(elf);
}

// A scan of the section must find what the header's table says.
static void compare_scan(const char *path)
{
	struct image *elf;
	struct unwind_image *image;

	if (!image_open_path(&elf, path, NULL)) {
		skip("not installed", "%s", path);
		return;
	}
	unwind_image_new(&image, elf, false, NULL);
	struct rule_table *table = &image->tables[image->table_count - 1];
	ok(table->is_from_header, "%s: index from .eh_frame_hdr, %zu FDEs", path, table->fde_count);
	size_t count = table->fde_count;
	struct fde_ref *refs = mem_zero(count, sizeof(*refs));
	for (size_t i = 0; i < count; i++)
		refs[i] = rule_table_ref(table, i);
	rule_index_scan(image, table);
	ok(table->fde_count == count && memcmp(refs, table->fdes, count * sizeof(*refs)) == 0, "a scan finds the same: %zu", table->fde_count);
	free(refs);
	unwind_image_free(image);
	image_release(elf);
}

static void compare_first(const char *pattern, unsigned every)
{
	glob_t found;

	if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0)
		compare_image(found.gl_pathv[0], every);
	else
		skip("not installed", "%s", pattern);
	globfree(&found);
}

int main(int argc, char **argv)
{
	elf_version(EV_CURRENT);
	for (int i = 1; i < argc; i++)
		compare_image(argv[i], 1);
	if (argc > 1)
		return tap_done();
	compare_first("/proc/self/exe", 1);
	compare_first("/lib/x86_64-linux-gnu/libc.so.6", 1);
	compare_first("/lib64/ld-linux-x86-64.so.2", 1);
	compare_first("/bin/bash", 1);
	compare_first("/usr/bin/git", 4);
	compare_first("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 1);
	compare_first("/usr/bin/python3", 4);
	compare_first("/usr/bin/perf", 8);
	compare_first("/usr/lib/gcc/x86_64-linux-gnu/[0-9]*/cc1plus", 64);
	compare_first("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 4);
	compare_scan("/lib/x86_64-linux-gnu/libc.so.6");
	compare_scan("/bin/bash");
	return tap_done();
}
