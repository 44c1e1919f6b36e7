// Which of several symbols is shown, where symbols end, what PLT entries are called.
#include "symbols/symbol_table.h"
#include "tests/symbols.h"

static void add(struct symbol_table *table, uint64_t start, uint64_t end, uint32_t name, unsigned flags)
{
	vec_push(&table->symbols, (struct table_symbol){ .start = start, .end = end, .name = name, .flags = (uint8_t)flags });
}

static const char *table_name(struct symbol_table *table, uint64_t addr)
{
	static char text[64];
	const struct table_symbol *found = symbol_table_find(table, addr);
	if (found == NULL)
		return "??";
	size_t length;
	const char *name = symbol_table_name(table, found, &length);
	snprintf(text, sizeof(text), "%.*s", (int)length, name);
	return text;
}

static void nesting(void)
{
	static const char names[] = "\0outer\0inner\0unsized\0last\0label";
	enum { OUTER = 1, INNER = 7, UNSIZED = 13, LAST = 21, LABEL = 26 };
	struct symbol_table table = { 0 };
	table.names[0] = bytes_of(names, sizeof(names));
	add(&table, 0x300, 0x1000, UNSIZED, 0); // ends where the next one starts
	add(&table, 0x100, 0x200, OUTER, TABLE_SIZED);
	add(&table, 0x140, 0x160, INNER, TABLE_SIZED);
	add(&table, 0x180, 0x1000, LABEL, TABLE_LABEL); // inside a sized function: a target of jumps, no function
	add(&table, 0x400, 0x410, LAST, TABLE_SIZED);
	symbol_table_finish(&table);
	is_str(table_name(&table, 0xff), "??", "before the first symbol");
	is_str(table_name(&table, 0x13f), "outer", "before the inner one");
	is_str(table_name(&table, 0x150), "inner", "the innermost holds");
	is_str(table_name(&table, 0x160), "outer", "behind the inner one the outer goes on");
	is_str(table_name(&table, 0x190), "outer", "a label inside a sized function names nothing");
	is_str(table_name(&table, 0x200), "??", "a sized symbol ends at its size");
	is_str(table_name(&table, 0x3ff), "unsized", "an unsized one at the next");
	is_str(table_name(&table, 0x410), "??", "behind the last");
	symbol_table_release(&table);
}

// Functions that differ in their names alone: the one to show is chosen when it is asked for, the others are its aliases, in the order of the file but for the
// one that gave way.
static void ties(void)
{
	static const char names[] = "\0_a\0longer\0ab\0_longest\0b\0c";
	enum { A = 1, LONGER = 4, AB = 11, LONGEST = 14, B = 23, C = 25, KIND = TABLE_FUNCTION | TABLE_SIZED };
	struct symbol_table table = { .keeps_aliases = true };
	table.names[0] = bytes_of(names, sizeof(names));
	static const uint32_t tied[] = { A, LONGER, AB, LONGEST };
	static const uint32_t first[] = { A, AB, LONGEST };
	for (size_t i = 0; i < 4; i++)
		add(&table, 0x100, 0x110, tied[i], KIND);
	add(&table, 0x200, 0x210, B, KIND | TABLE_WEAK); // no tie: settled at once
	add(&table, 0x200, 0x210, C, KIND);
	add(&table, 0x80, 0x90, B, KIND);
	symbol_table_finish(&table);
	for (int round = 0; round < 2; round++) {
		const struct table_symbol *found = symbol_table_find(&table, 0x10f), *alias;
		is_str(table_name(&table, 0x10f), "longer", "fewest underscores, then the longest");
		for (size_t i = 0; i < 3; i++)
			ok((alias = symbol_table_alias(&table, found, i)) != NULL && alias->name == first[i] && !(alias->flags & TABLE_ALIASED), "alias %zu", i);
		ok(symbol_table_alias(&table, found, 3) == NULL, "and no more");
		is_str(table_name(&table, 0x200), "c", "not weak before weak");
		is_str(table_name(&table, 0x80), "b", "one alone");
	}
	symbol_table_release(&table);
}

// Against the plain definition: of the ranges that hold an address, the one that starts last.
static void random_ranges(bool nested)
{
	static const char names[] = "\0x";
	struct symbol_table table = { 0 };
	enum { COUNT = 300, SPACE = 4000 };
	struct { uint64_t lo, hi; } r[COUNT];
	unsigned seed = 3, wrong = 0, checked = 0;
	table.names[0] = bytes_of(names, sizeof(names));
	for (int i = 0; i < COUNT; i++) {
		seed = seed * 1103515245 + 12345;
		r[i].lo = 1 + (seed >> 4) % SPACE;
		r[i].hi = r[i].lo + 1 + (seed >> 20) % 60;
		for (int j = 0; j < i; j++) // distinct starts: aliases are another matter; nested or apart: what crosses has no answer
			if (r[j].lo == r[i].lo || (!nested && r[j].lo < r[i].hi && r[i].lo < r[j].hi) || (r[j].lo < r[i].lo && r[j].hi > r[i].lo && r[j].hi < r[i].hi) ||
			    (r[i].lo < r[j].lo && r[i].hi > r[j].lo && r[i].hi < r[j].hi))
				r[i].lo = r[i].hi = 0;
		if (r[i].hi > 0)
			add(&table, r[i].lo, r[i].hi, 1, TABLE_SIZED);
	}
	symbol_table_finish(&table);
	for (uint64_t a = 0; a < SPACE + 100; a++) {
		uint64_t best = 0;
		for (int i = 0; i < COUNT; i++)
			if (a >= r[i].lo && a < r[i].hi && r[i].lo > best)
				best = r[i].lo;
		const struct table_symbol *found = symbol_table_find(&table, a);
		checked++;
		wrong += (found != NULL ? found->start : 0) != best;
	}
	ok(wrong == 0 && table.overlaps == nested, "ranges %s: %u of %u addresses wrong", nested ? "nested" : "apart", wrong, checked);
	symbol_table_release(&table);
}

static const char assembly[] =
	".text\n"
	".globl sized_global\n.type sized_global,@function\n"
	"sized_global: nop; nop; nop; nop\n.size sized_global,.-sized_global\n"
	// the rules, one alias group each; every group is 4 bytes
	".globl g1_zero\n.type g1_zero,@function\n.type g1_sized,@function\n"
	"g1_zero:\ng1_sized: nop; nop; nop; nop\n.size g1_sized,.-g1_sized\n"
	".weak g2_weak_but_longer\n.type g2_weak_but_longer,@function\n.type g2_local,@function\n"
	"g2_weak_but_longer:\ng2_local: nop; nop; nop; nop\n.size g2_local,.-g2_local\n.size g2_weak_but_longer,.-g2_weak_but_longer\n"
	".globl __g3_global\n.type __g3_global,@function\n.type g3_local,@function\n"
	"__g3_global:\ng3_local: nop; nop; nop; nop\n.size g3_local,.-g3_local\n.size __g3_global,.-__g3_global\n"
	".globl __g4\n.globl _g4\n.type __g4,@function\n.type _g4,@function\n"
	"__g4:\n_g4: nop; nop; nop; nop\n.size __g4,.-__g4\n.size _g4,.-_g4\n"
	".globl g5\n.globl g5_longer\n.type g5,@function\n.type g5_longer,@function\n"
	"g5:\ng5_longer: nop; nop; nop; nop\n.size g5,.-g5\n.size g5_longer,.-g5_longer\n"
	".globl unsized_function\n.type unsized_function,@function\n"
	"unsized_function: nop; nop; nop\n"
	"plain_label: nop; nop; nop\n"
	".type f.constprop.0,@function\nf.constprop.0: nop; nop\n.size f.constprop.0,.-f.constprop.0\n"
	".type f.part.0.cold,@function\nf.part.0.cold: nop; nop\n.size f.part.0.cold,.-f.part.0.cold\n"
	"nop; nop; nop; nop\n" // no symbol
	".type table_in_text,@object\ntable_in_text: .quad 1,2\n.size table_in_text,.-table_in_text\n"
	".globl versioned\n.type versioned,@function\n"
	"versioned: nop; nop\n.size versioned,.-versioned\n"
	".symver versioned_old,versioned@V1\n.globl versioned_old\n.type versioned_old,@function\n"
	"versioned_old: nop; nop\n.size versioned_old,.-versioned_old\n"
	".globl calls\n.type calls,@function\n"
	"calls: call puts@PLT; call getenv@PLT; ret\n.size calls,.-calls\n"
	".section .text.tail,\"ax\",@progbits\n"
	".globl tail\n.type tail,@function\n"
	"tail: nop; nop; nop; nop; nop; nop; nop\n" // unsized: to its section's end
	".section .note.GNU-stack,\"\",@progbits\n";

static void choices(void)
{
	scratch_write("a.s", assembly);
	scratch_write("a.map", "V1 { global: *; };\n");
	if (!shell("gcc -shared -o a.so a.s -Wl,--build-id -Wl,--version-script=a.map 2>gcc.err")) {
		skip("no gcc, or not for x86-64", "the choice among aliases");
		return;
	}
	const char *path = scratch_path("a.so");
	struct looked l;
	uint64_t a = 0, size = 0;
	if (!ok(look(&l, path, &all_options), "the library opens"))
		return;
	static const struct { const char *at; uint64_t offset; const char *name; const char *why; } wanted[] = {
		{ "sized_global", 0, "sized_global", "first byte" }, { "sized_global", 3, "sized_global", "last byte" },
		{ "g1_sized", 1, "g1_sized", "non-zero size before all" }, { "g2_local", 1, "g2_local", "not weak before global and length" },
		{ "g3_local", 1, "__g3_global", "global before underscores" }, { "_g4", 1, "_g4", "fewest leading underscores" },
		{ "g5", 1, "g5_longer", "then the longer, as perf chooses" }, { "unsized_function", 2, "unsized_function", "no size: to the next symbol" },
		{ "plain_label", 1, "plain_label", "a label where no function is" }, { "f.constprop.0", 1, "f.constprop.0", "suffixes are kept" },
		{ "f.part.0.cold", 1, "f.part.0.cold", "all of them" }, { "f.part.0.cold", 3, "??", "between symbols" },
		{ "table_in_text", 9, "table_in_text", "data between functions" }, { "tail", 6, "tail", "no size: to the end of the section" },
	};
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (ok(nm(path, wanted[i].at, &a, &size), "nm knows %s", wanted[i].at))
			is_str(name_at(&l, a + wanted[i].offset), wanted[i].name, "%s", wanted[i].why);
	nm(path, "f.part.0.cold", &a, &size);
	is_u64(at_vaddr(&l, a + 3)->missing, SYMBOL_NOT_COVERED, "… and why there is none");
	nm(path, "versioned", &a, &size);
	ok(strncmp(name_at(&l, a), "versioned", 9) == 0, "versions as the symbol table has them: %s", name_at(&l, a));
	look_end(&l);
}

// Every entry of every .plt section, with the names that objdump gives.
static void plt(const char *what, const char *prefix, const char *flags)
{
	scratch_write("p.c", "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(int c, char **v) { void (*f)(void *) = free; "
	                     "puts(getenv(v[0]) ? v[0] : strchr(v[0], c)); free(malloc((unsigned)atoi(v[0]))); f(0); return 0; }\n");
	if (!shell("%sgcc -O1 -fno-builtin %s -o p p.c 2>gcc.err && %sobjdump -d p >p.dis", prefix, flags, prefix)) {
		skip("not built here", "PLT entries: %s", what);
		return;
	}
	struct looked l;
	look(&l, scratch_path("p"), &all_options);
	FILE *f = fopen(scratch_path("p.dis"), "r");
	char line[512], name[256];
	unsigned long a;
	unsigned right = 0, all = 0;
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%lx <%255[^>]>:", &a, name) != 2 || strstr(name, "@plt") == NULL || strchr(name, '-') != NULL || strncmp(name, "*ABS*", 5) == 0)
			continue;
		all++;
		const char *got = name_at(&l, a + 5);
		if (strcmp(got, name) == 0)
			right++;
		else
			diag("%lx is %s, objdump says %s", a, got, name);
	}
	fclose(f);
	ok(all >= 5 && right == all, "PLT entries, %s: %u of %u are named as objdump names them", what, right, all);
	look_end(&l);
}

static void static_program(void)
{
	scratch_write("s.c", "#include <stdio.h>\n#include <string.h>\nint main(int c, char **v) { return (int)strlen(v[0]) + c + puts(v[0]); }\n");
	if (!shell("gcc -O1 -static -o s s.c 2>gcc.err")) {
		skip("no static libc", "a static program");
		return;
	}
	struct looked l;
	uint64_t a, size;
	look(&l, scratch_path("s"), &all_options);
	ok(nm(scratch_path("s"), "main", &a, &size) && strcmp(name_at(&l, a), "main") == 0, "main of a static program");
	ok(nm(scratch_path("s"), "_start", &a, &size) && strcmp(name_at(&l, a), "_start") == 0, "_start of a static program");
	// its PLT is of indirect functions alone, whose relocations have no symbols
	shell("readelf -SW s | sed -n 's/.* \\.plt *PROGBITS *\\([0-9a-f]*\\).*/\\1/p' >plt.addr");
	unsigned long at = 0;
	FILE *f = fopen(scratch_path("plt.addr"), "r");
	if (fscanf(f, "%lx", &at) == 1)
		ok(strstr(name_at(&l, at), "@plt") != NULL, "an indirect function's entry: %s", name_at(&l, at));
	else
		skip("it has no .plt", "an indirect function's entry");
	fclose(f);
	look_end(&l);
	shell("strip s");
	look(&l, scratch_path("s"), &all_options);
	is_u64(at_vaddr(&l, l.image->entry)->missing, SYMBOL_NO_SYMBOLS, "a stripped static program says so");
	is_str(name_at(&l, l.image->entry), "??", "… and has no names");
	look_end(&l);
	look(&l, scratch_path("s"), &all_options);
	uint64_t entry = 0;
	(void)image_vaddr_to_offset(l.image, l.image->entry, &entry);
	const struct symbol_result *results[3];
	symbolizer_resolve(l.symbolizer, (struct symbol_query[]){ { l.id, entry + 9 }, { l.id, entry }, { l.id, UINT64_MAX } }, 3, 0, results);
	ok(results[0] == results[1] && results[0]->missing == SYMBOL_NO_SYMBOLS && results[0]->frames[0].name == NULL, "what is said of all addresses alike is said once");
	ok(results[2] != results[0] && results[2]->missing == SYMBOL_NOT_COVERED, "but of one that no segment has, another thing");
	ok(symbolizer_lookup(l.symbolizer, l.id, entry)->missing == SYMBOL_NO_SYMBOLS, "and so it is of one that is asked for again");
	look_end(&l);
}

int main(void)
{
	scratch_make();
	nesting();
	ties();
	random_ranges(true);
	random_ranges(false);
	choices();
	plt("lazy", "", "-Wl,-z,lazy -fcf-protection=none");
	plt("IBT (.plt.sec)", "", "-fcf-protection=full -Wl,-z,ibtplt -Wl,-z,lazy");
	plt("bound at start", "", "-Wl,-z,now");
	plt("no PIE", "", "-no-pie");
	plt("AArch64", "aarch64-linux-gnu-", "-Wl,-z,lazy");
	plt("AArch64, bound at start", "aarch64-linux-gnu-", "-Wl,-z,now");
	plt("AArch64 with BTI", "aarch64-linux-gnu-", "-mbranch-protection=standard -Wl,-z,force-bti");
	static_program();
	return tap_done();
}
