// Which files count as one, and what kind a mapping's name tells.
#include "proc/dso.h"

#include "tests/tap.h"

static uint32_t file(struct dso_table *table, const char *path, uint64_t inode, uint8_t id_byte)
{
	struct dso key = { .path = path, .kind = DSO_FILE, .inode = inode, .major = inode ? 8 : 0 };
	if (id_byte != 0) {
		key.build_id.size = 20;
		memset(key.build_id.bytes, id_byte, 20);
	}
	return dso_intern(table, &key);
}

static void test_identity(void)
{
	struct dso_table table = { 0 };
	uint32_t libc = file(&table, "/lib/libc.so.6", 7, 0);
	is_u64(file(&table, "/lib/libc.so.6", 7, 0), libc, "same path and inode");
	ok(file(&table, "/lib/libm.so.6", 7, 0) != libc, "another path is another row");
	ok(file(&table, "/lib/libc.so.6", 8, 0) != libc, "another inode is another row");
	is_u64(file(&table, "/lib/libc.so.6", 7, 0xaa), libc, "a build ID where there was none: same row");
	is_u64(dso_get(&table, libc)->build_id.size, 20, "and the row has learnt it");
	is_u64(file(&table, "/lib/libc.so.6", 0, 0xaa), libc, "build ID alone finds it");
	ok(file(&table, "/lib/libc.so.6", 0, 0xbb) != libc, "another build ID does not");
	is_u64(file(&table, "/lib/libc.so.6 (deleted)", 7, 0), libc, "deleted, same inode: the same file");
	ok(dso_get(&table, libc)->deleted, "marked deleted");
	is_str(dso_get(&table, libc)->path, "/lib/libc.so.6", "the suffix is not part of the name");
	uint32_t gone = file(&table, "/tmp/x (deleted)", 0, 0), now = file(&table, "/tmp/x", 0, 0);
	ok(gone != now, "without evidence, an unlinked file is not its successor");
	struct build_id id = { .size = 16, .bytes = { 1 } };
	dso_set_build_id(&table, now, &id);
	is_u64(dso_get(&table, now)->build_id.size, 16, "a build ID read later");
	ok(dso_get(&table, 4000) == NULL, "no such row");
	struct dso anon = { .path = "//anon", .kind = DSO_ANON, .pid = 10 };
	uint32_t first = dso_intern(&table, &anon);
	anon.pid = 11;
	ok(dso_intern(&table, &anon) != first, "anonymous code belongs to its process");
	dso_table_release(&table);
}

static void test_many(void)
{
	struct dso_table table = { 0 };
	char path[32];
	bool right = true;
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 3000; i++) {
			snprintf(path, sizeof(path), "/lib/lib%u.so", i);
			right &= file(&table, path, i + 1, 0) == i;
		}
	ok(right, "3000 files twice: 3000 rows, each found again");
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 50000; i++)
			right &= file(&table, "/memfd", 1000 + i, 0) == 3000 + i;
	ok(right, "50,000 files of one name, told apart by inode, in a time that grows no faster");
	dso_table_release(&table);
}

static void test_kind(void)
{
	static const struct { const char *path; bool kernel; enum dso_kind kind; } cases[] = {
		{ "/usr/bin/true", false, DSO_FILE }, { "[vdso]", false, DSO_VDSO }, { "[vsyscall]", false, DSO_SPECIAL },
		{ "[uprobes]", false, DSO_SPECIAL }, { "//anon", false, DSO_ANON }, { "[heap]", false, DSO_ANON }, { "[stack]", false, DSO_ANON },
		{ "[stack:12]", false, DSO_ANON }, { "[anon:v8]", false, DSO_ANON }, { "/memfd:jit (deleted)", false, DSO_ANON },
		{ "/dev/zero (deleted)", false, DSO_ANON }, { "/SYSV00000000 (deleted)", false, DSO_ANON }, { "/anon_hugepage (deleted)", false, DSO_ANON },
		{ "", false, DSO_ANON }, { "[kernel.kallsyms]_text", true, DSO_KERNEL }, { "[guest.kernel.kallsyms]", true, DSO_KERNEL },
		{ "[nf_tables]", true, DSO_MODULE }, { "/lib/modules/6/kernel/net/x.ko", true, DSO_MODULE },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		is_u64(dso_kind_of(cases[i].path, cases[i].kernel), cases[i].kind, "kind of '%s'", cases[i].path);
	is_str(dso_short_name(&(struct dso){ .path = "/usr/lib/libc.so.6", .kind = DSO_FILE }), "libc.so.6", "short name of a file");
	is_str(dso_short_name(&(struct dso){ .path = "[kernel.kallsyms]_text", .kind = DSO_KERNEL }), "[kernel]", "of the kernel");
	is_str(dso_short_name(&(struct dso){ .path = "//anon", .kind = DSO_ANON }), "//anon", "of anonymous code");
	is_str(dso_short_name(&(struct dso){ .path = "[nf_tables]", .kind = DSO_MODULE }), "[nf_tables]", "of a module");
}

int main(void)
{
	test_identity();
	test_many();
	test_kind();
	return tap_done();
}
