// Go's function table, of each format, byte order and word size, wherever it is in the file: functions, lines, stack pointers; and the names that users see.
#include "elf/go_table.h"
#include "tests/go_program.h"
#include "tests/symbols.h"
#include "unwind/rule_table.h"

static const struct go_shape usual = { .version = GO_118, .is_64 = true, .machine = EM_X86_64 };

static struct image *image_of(const struct go_shape *shape)
{
	struct buf file = { 0 };
	struct image *image = NULL;
	struct err err;

	go_program(&file, shape);
	if (!image_open_bytes(&image, file.data, file.size, false, "go", &err))
		diag("%s", err.text);
	buf_release(&file);
	return image;
}

static const char *const versions[] = { [GO_12] = "Go 1.2", [GO_116] = "Go 1.16", [GO_118] = "Go 1.18", [GO_120] = "Go 1.20" };

// What go_program's comment says, at each address.
static unsigned wrong_addresses(const struct go_table *table)
{
	unsigned wrong = 0;

	for (uint32_t at = 0; at < GO_TEXT_BYTES; at++) {
		struct go_function function = { 0 };
		struct go_value sp;
		size_t i = 0;
		while (i + 1 < GO_MADE && at >= go_made[i + 1].start)
			i++;
		const uint32_t end = i + 1 < GO_MADE ? go_made[i + 1].start : GO_TEXT_BYTES;
		bool good = go_table_find(table, GO_TEXT + at, &function) && strcmp(go_table_name(table, &function), go_made[i].name) == 0 &&
			    function.start == GO_TEXT + go_made[i].start && function.end == GO_TEXT + end &&
			    function.flag == (table->version >= GO_118 ? go_made[i].flag : 0);
		good = good && go_table_sp(table, &function, GO_TEXT + at, &sp) && sp.value == (at >= 0x14 && at < 0x38 ? 24 : 0);
		struct go_line line = go_table_line(table, &function, GO_TEXT + at);
		good = good && line.line == (i != 1 ? 0 : at < 0x20 ? 10 : 12);
		good = good && (i != 1 ? line.file == NULL : line.file != NULL && strcmp(line.file, at < 0x30 ? "/go/main.go" : "/go/more.go") == 0);
		wrong += !good;
	}
	return wrong;
}

static void test_shape(const struct go_shape *shape, const char *what)
{
	struct image *image = image_of(shape);
	struct go_table table = { 0 };
	struct go_function function;
	const bool found = image != NULL && go_table_open(&table, image);
	const unsigned wrong = found ? wrong_addresses(&table) : GO_TEXT_BYTES;

	ok(found && table.version == shape->version && wrong == 0, "%s, %u-bit, %s: %s (%u addresses wrong)", versions[shape->version], shape->is_64 ? 64 : 32,
	   shape->is_big ? "big endian" : "little endian", what, wrong);
	ok(!found || (!go_table_find(&table, GO_TEXT - 1, &function) && !go_table_find(&table, GO_TEXT + GO_TEXT_BYTES, &function)), "nothing outside its functions");
	image_release(image);
}

static void test_formats(void)
{
	for (int v = GO_12; v <= GO_120; v++)
		for (unsigned i = 0; i < 4; i++) {
			struct go_shape shape = { .version = v, .is_64 = (i & 1) == 0, .is_big = i >= 2 };
			shape.machine = shape.is_big ? EM_S390 : shape.is_64 ? EM_X86_64 : EM_386;
			test_shape(&shape, "its own section");
			shape.place = GO_WITHIN;
			test_shape(&shape, "in another's section");
			shape.place = GO_NO_SECTIONS;
			test_shape(&shape, "a file without sections");
		}
	struct go_shape moved = usual;
	moved.is_relocated = true;
	test_shape(&moved, "the text's start is the dynamic linker's");
	moved = usual;
	moved.version = GO_120;
	moved.is_module_text = true;
	test_shape(&moved, "the text's start is in moduledata alone");
}

static void test_inlined(void)
{
	for (int v = GO_118; v <= GO_120; v++) {
		struct go_shape shape = usual;
		struct go_table table;
		struct go_function function;
		struct go_frame frames[4];
		unsigned wrong = 0;
		shape.version = v;
		struct image *image = image_of(&shape);
		if (!ok(image != NULL && go_table_open(&table, image), "%s", versions[v]))
			continue;
		ok(go_table_find(&table, GO_TEXT + 0x22, &function) && go_table_chain(&table, &function, GO_TEXT + 0x22, frames, 4) == 1, "without its trees, functions alone");
		go_table_open_inlines(&table, image);
		for (uint32_t at = 0; at < GO_TEXT_BYTES; at++) {
			size_t count = go_table_find(&table, GO_TEXT + at, &function) ? go_table_chain(&table, &function, GO_TEXT + at, frames, 4) : 0;
			const bool is_inlined = at >= 0x20 && at < 0x28;
			wrong += count != (is_inlined ? 2 : 1) || strcmp(frames[count - 1].name, go_table_name(&table, &function)) != 0;
			wrong += is_inlined && (strcmp(frames[0].name, "main.inlined") != 0 || frames[0].line.line != 12 || frames[1].line.line != 10);
		}
		is_u64(wrong, 0, "%s: what is inlined where, and from which line", versions[v]);
		is_u64(go_table_chain(&table, &function, GO_TEXT + 0x22, frames, 1), 1, "no more than there is room for");
		image_release(image);
	}
}

static void test_refused(void)
{
	struct go_shape foreign = usual;
	struct go_table table;
	struct buf file = { 0 };
	struct image *image;
	unsigned opened = 0, crossed = 0;

	foreign.is_foreign = true;
	foreign.place = GO_WITHIN;
	image = image_of(&foreign);
	ok(image != NULL && !go_table_open(&table, image) && table.version == GO_NONE, "what Go's linker did not make is not searched");
	image_release(image);
	// Each byte changed: whatever is read stays inside, and a function ends behind its start.
	go_program(&file, &usual);
	for (size_t at = 1024; at < file.size; at++) {
		const char before = file.data[at];
		file.data[at] = (char)~before;
		if (image_open_bytes(&image, file.data, file.size, false, "go", NULL)) {
			struct go_function function;
			struct go_frame frames[4];
			if (go_table_open(&table, image)) {
				opened++;
				go_table_open_inlines(&table, image);
				for (uint64_t a = GO_TEXT - 8; a < GO_TEXT + GO_TEXT_BYTES + 8; a++)
					if (go_table_find(&table, a, &function)) {
						crossed += a < function.start || a >= function.end;
						(void)go_table_chain(&table, &function, a, frames, 4);
					}
			}
			image_release(image);
		}
		file.data[at] = before;
	}
	ok(opened > 100 && crossed == 0, "a byte changed: %u tables open still, %u answers of another function", opened, crossed);
	buf_release(&file);
}

// A stripped program, as users see it.
static void test_names(void)
{
	struct buf file = { 0 };
	struct looked l;

	go_program(&file, &usual);
	FILE *f = fopen(scratch_path("go"), "w");
	bool written = f != NULL && fwrite(file.data, 1, file.size, f) == file.size;
	written &= f != NULL && fclose(f) == 0;
	buf_release(&file);
	if (!ok(written && look(&l, scratch_path("go"), &all_options), "a stripped Go program"))
		return;
	is_str(name_at(&l, GO_TEXT + 4), "runtime.goexit", "its names are those of the table");
	const struct symbol_result *plain = at_vaddr(&l, GO_TEXT + 0x38);
	is_str(plain->frames[0].name, "main.plain", "a function");
	is_str(plain->frames[0].file, "/go/more.go", "its file");
	is_u64(plain->frames[0].line, 12, "its line");
	is_str(name_at(&l, GO_TEXT + GO_TEXT_BYTES), "??", "nothing behind the last");
	ok(symbolizer_image_status(l.symbolizer, l.id).missing == SYMBOL_FOUND, "nothing is missing: the program counts as one that has symbols");
	look_end(&l);
}

static unsigned wrong_rules(const struct go_shape *shape)
{
	struct image *image = image_of(shape);
	struct unwind_image *made = NULL;
	struct unwind_counters counters = { 0 };
	unsigned wrong = 0;

	unwind_image_new(&made, image, false, NULL);
	for (uint32_t at = 0; at < GO_TEXT_BYTES; at++) {
		uint64_t end;
		const struct unwind_rule rule = rule_table_find_to(made, GO_TEXT + at, &counters, &end);
		const int sp = at >= 0x14 && at < 0x38 ? 24 : 0, word = shape->is_64 ? 8 : 4;
		if (shape->machine == EM_AARCH64)
			wrong += rule.kind != (sp > 0 ? RULE_SP | RULE_RA_SAVED | RULE_RA_AT_BASE : RULE_SP) || rule.cfa_off != sp || rule.ra_off != 0;
		else
			wrong += rule.kind != (RULE_SP | RULE_RA_SAVED) || rule.cfa_off != sp + word || rule.ra_off != -word;
		wrong += end <= GO_TEXT + at || end > GO_TEXT + GO_TEXT_BYTES;
	}
	wrong += rule_table_find(made, GO_TEXT + GO_TEXT_BYTES, &counters).kind != RULE_NONE;
	wrong += rule_table_stop(made, GO_TEXT).kind != RULE_ROOT || rule_table_stop(made, GO_TEXT + 0x10).kind != RULE_NONE ||
		 rule_table_stop(made, GO_TEXT + 0x40).kind != (RULE_ROOT | RULE_ELSEWHERE) || rule_table_stop(made, GO_TEXT + 0x60).kind != (RULE_ROOT | RULE_ELSEWHERE);
	unwind_image_free(made);
	image_release(image);
	return wrong;
}

// Without CFI, as stripping leaves it.
static void test_rules(void)
{
	for (int v = GO_12; v <= GO_120; v++) {
		struct go_shape shape = usual;
		shape.version = v;
		is_u64(wrong_rules(&shape), 0, "%s: where the return address is, at each instruction", versions[v]);
		shape.machine = EM_AARCH64;
		is_u64(wrong_rules(&shape), 0, "%s: likewise with a link register", versions[v]);
		shape.machine = EM_386;
		shape.is_64 = false;
		is_u64(wrong_rules(&shape), 0, "%s: likewise with words of 4 bytes", versions[v]);
	}
}

int main(void)
{
	scratch_make();
	test_formats();
	test_inlined();
	test_refused();
	test_names();
	test_rules();
	return tap_done();
}
