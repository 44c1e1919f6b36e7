// The text of /proc/kallsyms: functions, modules, what ends a function, hidden addresses, lines of no form.
#include "base/buf.h"
#include "base/hash.h"
#include "symbols/kallsyms.h"
#include "symbols/symbolizer.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <unistd.h>

static const char text[] =
	"0000000000000000 A fixed_percpu_data\n"
	"ffffffff81000000 T _stext\n"
	"ffffffff81000000 T startup_64\n"
	"ffffffff81000100 t local_one\n"
	"ffffffff81000100 T global_one\n"
	"ffffffff81000200 W weak_one\n"
	"ffffffff81000200 T __strong_one\n"
	"ffffffff81000300 T __x64_sys_read\n"
	"ffffffff81000300 T __se_sys_read\n"
	"ffffffff81000400 D some_data\n"
	"ffffffff81000500 T after_data\n"
	"nonsense\n"
	"ffffffff81000600 T\n"
	"ffffffffffffffffff T too_long\n"
	"ffffffffa0000010 t nft_do_chain\t[nf_tables]\n"
	"ffffffffa0001000 t bpf_prog_0a1b\t[bpf]\n"
	"ffffffff81000080 t out_of_order\n"
	"ffffffffa0002000 T last_one";

static void check(struct symbol_table *table, uint64_t addr, const char *name, const char *module)
{
	const struct table_symbol *found = symbol_table_find(table, addr);
	if (name == NULL) {
		ok(found == NULL, "%#llx has no name", (unsigned long long)addr);
		return;
	}
	size_t length = 0, module_length = 0;
	const char *got = found != NULL ? symbol_table_name(table, found, &length) : "";
	const char *in = found != NULL ? kallsyms_module(table, found, &module_length) : NULL;
	ok(length == strlen(name) && memcmp(got, name, length) == 0, "%#llx is %s (%.*s)", (unsigned long long)addr, name, (int)length, got);
	ok(module == NULL ? in == NULL : in != NULL && module_length == strlen(module) && memcmp(in, module, module_length) == 0,
	   "… of %s", module != NULL ? module : "the kernel");
}

static const struct symbol_result *through_file(const char *content, struct symbolizer **symbolizer, uint64_t addr)
{
	char path[] = "/tmp/kallsyms-test-XXXXXX";
	int fd = mkstemp(path);
	ok(write(fd, content, strlen(content)) == (ssize_t)strlen(content), "a kallsyms file");
	close(fd);
	struct symbolizer_options options = { .demangle = true, .kallsyms_path = path };
	*symbolizer = symbolizer_new(&options);
	uint32_t id = symbolizer_image(*symbolizer, &(struct symbol_image){ .kind = SYMBOL_IMAGE_KERNEL, .path = "[kernel.kallsyms]", .map_fd = -1 });
	const struct symbol_result *result = symbolizer_lookup(*symbolizer, id, addr);
	unlink(path);
	return result;
}

static const char *name_of(struct symbol_table *table, uint64_t addr, char *out, size_t size)
{
	const struct table_symbol *found = symbol_table_find(table, addr);
	size_t length = 0;
	const char *name = found != NULL ? symbol_table_name(table, found, &length) : "";
	snprintf(out, size, "%.*s@%llx", (int)length, name, found != NULL ? (unsigned long long)found->start : 0);
	return out;
}

// The few lines around an address say of it what all lines say: of a kernel whose symbols share addresses, up to nine of them one, some no functions.
static void windows(void)
{
	struct buf lines = { 0 };
	uint64_t addr = 0xffffffff81000000, random = 7, last;
	for (int i = 0; i < 3000; i++) {
		random = hash_u64(random + (uint64_t)i);
		buf_printf(&lines, "%llx %c %.*s%d\n", (unsigned long long)addr, "TtWDd"[random % 5], (int)(random >> 8 & 3), "____", i);
		addr += random >> 16 & 1 ? 0 : 1 + (random >> 24 & 63);
	}
	last = addr + 1;
	size_t core = kallsyms_core_size(lines.data, lines.size), checked = 0, wrong = 0;
	is_u64(core, lines.size, "all of it is the kernel proper");
	struct symbol_table whole = { 0 };
	kallsyms_parse(&whole, lines.data, lines.size);
	symbol_table_finish(&whole);
	for (addr = 0xffffffff80ffffff; addr <= last; addr++) {
		const char *window;
		size_t size;
		char wanted[64], got[64];
		kallsyms_window(lines.data, core, addr, &window, &size);
		if (size == 0)
			continue;
		struct symbol_table few = { 0 };
		kallsyms_parse(&few, window, size);
		symbol_table_finish(&few);
		wrong += strcmp(name_of(&few, addr, got, sizeof(got)), name_of(&whole, addr, wanted, sizeof(wanted))) != 0;
		checked++;
		symbol_table_release(&few);
	}
	ok(wrong == 0 && checked > 30000, "by the lines around it: %zu of %zu addresses wrong", wrong, checked);
	symbol_table_release(&whole);
	buf_release(&lines);
}

int main(void)
{
	windows();
	struct symbol_table table = { 0 };
	is_u64(kallsyms_parse(&table, text, sizeof(text) - 1), 13, "functions with an address");
	symbol_table_finish(&table);
	check(&table, 0xffffffff80ffffff, NULL, NULL);
	check(&table, 0xffffffff81000000, "startup_64", NULL); // fewer leading underscores than _stext
	check(&table, 0xffffffff8100007f, "startup_64", NULL);
	check(&table, 0xffffffff81000080, "out_of_order", NULL);
	check(&table, 0xffffffff81000150, "global_one", NULL);
	check(&table, 0xffffffff81000210, "__strong_one", NULL);
	check(&table, 0xffffffff81000300, "__x64_sys_read", NULL); // the longer of two that are alike
	check(&table, 0xffffffff810003ff, "__x64_sys_read", NULL);
	check(&table, 0xffffffff81000400, NULL, NULL);
	check(&table, 0xffffffff81000500, "after_data", NULL);
	check(&table, 0xffffffffa0000010, "nft_do_chain", "nf_tables");
	check(&table, 0xffffffffa0001fff, "bpf_prog_0a1b", "bpf");
	check(&table, 0xffffffffa0002010, "last_one", NULL);
	check(&table, 0xfffffffff0000000, NULL, NULL);
	symbol_table_release(&table);

	struct symbol_table hidden = { 0 };
	const char zeros[] = "0000000000000000 T _stext\n0000000000000000 t foo\t[bar]\n";
	is_u64(kallsyms_parse(&hidden, zeros, sizeof(zeros) - 1), 0, "kptr_restrict: no function has an address");
	symbol_table_finish(&hidden);
	check(&hidden, 0, NULL, NULL);
	symbol_table_release(&hidden);

	struct symbolizer *s;
	const struct symbol_result *r = through_file(text, &s, 0xffffffffa0000020);
	is_str(r->frames[0].name, "nft_do_chain", "through the symbolizer");
	is_str(r->module, "nf_tables", "its module");
	is_u64(r->symbol_start, 0xffffffffa0000010, "its start");
	symbolizer_free(s);
	r = through_file(zeros, &s, 0xffffffffa0000020);
	ok(r->frames[0].name == NULL && r->missing == SYMBOL_NO_KALLSYMS, "hidden addresses are named for what they are: %s", symbol_missing_text(r->missing));
	ok(strstr(symbol_missing_text(r->missing), "kernel.kptr_restrict=0") != NULL, "… with the command that changes it");
	symbolizer_free(s);
	r = through_file("", &s, 0xffffffffa0000020);
	ok(r->frames[0].name == NULL && r->missing == SYMBOL_NO_KALLSYMS, "an empty file");
	symbolizer_free(s);

	struct symbolizer_options none = { .use_host_files = false };
	s = symbolizer_new(&none);
	uint32_t id = symbolizer_image(s, &(struct symbol_image){ .kind = SYMBOL_IMAGE_KERNEL, .path = "[kernel.kallsyms]", .map_fd = -1 });
	ok(symbolizer_lookup(s, id, 0xffffffff81000000)->missing == SYMBOL_NO_KALLSYMS, "without the host's files this host's kernel is not asked");
	symbolizer_free(s);

	struct symbolizer_options host = { .use_host_files = true };
	struct build_id other = { .size = 20, .bytes = "not this kernel" };
	s = symbolizer_new(&host);
	id = symbolizer_image(s, &(struct symbol_image){ .kind = SYMBOL_IMAGE_KERNEL, .path = "[kernel.kallsyms]", .map_fd = -1, .build_id = other });
	if (access("/sys/kernel/notes", R_OK) == 0)
		ok(symbolizer_lookup(s, id, 0xffffffff81000000)->missing == SYMBOL_WRONG_BUILD_ID, "another kernel's addresses get no names of this one");
	else
		skip("/sys/kernel/notes is not readable", "another kernel's addresses");
	symbolizer_free(s);
	return tap_done();
}
