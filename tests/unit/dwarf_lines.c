// Inline chains and lines: of programs built here by gcc and clang in every DWARF version, at every address of their functions, compared
// with what llvm-symbolizer and eu-addr2line say; and of others' binaries, with what is known of them.
#include <jansson.h>

#include "base/vec.h"
#include "tests/symbols.h"

// Line numbers are part of the test.
static const char source[] =
	"#include <stdlib.h>\n"
	"static inline __attribute__((always_inline)) int three(int x, int *p)\n"
	"{\n"
	"	p[x & 7] += x;\n" // 4
	"	return p[x & 3] * 31;\n"
	"}\n"
	"static inline __attribute__((always_inline)) int two(int x, int *p)\n"
	"{\n"
	"	int t = three(x, p);\n" // 9
	"	return t ^ three(t, p + 1);\n" // 10
	"}\n"
	"static inline __attribute__((always_inline)) int one(int x, int *p)\n"
	"{\n"
	"	for (int i = 0; i < x; i++)\n"
	"		x += two(i, p);\n" // 15
	"	return x;\n"
	"}\n"
	"__attribute__((noinline, noipa)) int outer(int x, int *p)\n"
	"{\n"
	"	if (__builtin_expect(p == 0, 0)) {\n"
	"		abort();\n"
	"	}\n"
	"	return one(x, p) + x;\n" // 23
	"}\n"
	"int main(int argc, char **argv)\n"
	"{\n"
	"	static int table[16];\n"
	"	(void)argv;\n"
	"	return outer(argc, table) & 1;\n"
	"}\n";

static const char cpp_source[] =
	"#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n"
	"namespace ns { struct thing { int v; thing(int x) : v(x * 3) {} ~thing() { v = 0; } bool operator<(const thing &o) const { return v < o.v; } }; }\n"
	"namespace { template<class T> T twice(T t) { return t + t; } }\n"
	"static int total;\n"
	"template<class F> __attribute__((noinline)) static int call(F f, int x) { return f(x) + f(x + 1); }\n"
	"__attribute__((noinline)) void outer(std::vector<ns::thing> &v)\n"
	"{\n"
	"	std::sort(v.begin(), v.end());\n"
	"	std::map<std::string, int> m;\n"
	"	for (auto &t : v) m[std::to_string(t.v)] += twice(t.v);\n"
	"	auto f = [&](int k) { for (auto &e : m) total += e.second * k; };\n"
	"	f(3); f(total);\n"
	"	total += call([&](int y) { int q = 0; for (int i = 0; i < y; i++) q += twice(i) ^ total; return q; }, total);\n"
	"}\n"
	"int main(int argc, char **) { std::vector<ns::thing> v; for (int i = 0; i < argc * 9; i++) v.push_back(i ^ 5); outer(v); return total & 1; }\n";

// ---------------------------------------------------------------- what we know of our own program

static void check_nesting(const char *what)
{
	struct looked l;
	uint64_t start = 0, size = 0;
	const char *path = scratch_path("t");
	if (!ok(look(&l, path, &all_options) && nm(path, "outer", &start, &size), "%s: outer is found", what))
		return;
	bool nested = false, first_call = false, second_call = false, good = true;
	for (uint64_t a = start; a < start + size; a++) {
		const struct symbol_result *r = at_vaddr(&l, a);
		const struct symbol_frame *f = r->frames;
		good &= strcmp(f[r->count - 1].name, "outer") == 0 && !f[r->count - 1].is_inlined && r->has_source;
		for (size_t i = 0; i + 1 < r->count; i++)
			good &= f[i].is_inlined && f[i].file != NULL && strstr(f[i].file, "t.c") != NULL;
		if (r->count != 4)
			continue;
		nested = true;
		good &= strcmp(f[0].name, "three") == 0 && strcmp(f[1].name, "two") == 0 && strcmp(f[2].name, "one") == 0;
		good &= ((f[0].line >= 3 && f[0].line <= 6) || f[0].line == 0) && f[2].line == 15 && f[3].line == 23;
		first_call |= f[1].line == 9;
		second_call |= f[1].line == 10;
	}
	ok(nested && first_call && second_call && good, "%s: three in two in one in outer, each with its call's line", what);
	is_str(name_at(&l, start), "outer", "%s: the outermost function", what);
	look_end(&l);

	struct symbolizer_options plain = all_options;
	plain.inlines = false;
	look(&l, path, &plain);
	unsigned leaf_lines = 0;
	good = true;
	for (uint64_t a = start; a < start + size; a++) {
		const struct symbol_result *r = at_vaddr(&l, a);
		good &= r->count == 1 && strcmp(r->frames[0].name, "outer") == 0;
		leaf_lines += r->frames[0].line >= 4 && r->frames[0].line <= 5;
	}
	ok(good && leaf_lines > 0, "%s: without inlines one frame, with the line the code is from", what);
	look_end(&l);

	plain = all_options;
	plain.no_lines = true;
	look(&l, path, &plain);
	size_t deepest = 0;
	good = true;
	for (uint64_t a = start; a < start + size; a++) {
		const struct symbol_result *r = at_vaddr(&l, a);
		deepest = r->count > deepest ? r->count : deepest;
		for (size_t i = 0; i < r->count; i++)
			good &= r->frames[i].file == NULL && r->frames[i].line == 0;
	}
	ok(good && deepest == 4, "%s: without lines the chain's names alone", what);
	look_end(&l);
}

// ---------------------------------------------------------------- what other readers say

struct expected { // frames of one address
	char name[64][4096], place[64][1024];
	size_t count;
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash != NULL ? slash + 1 : path;
}

// Compares one address; NULL when alike, else what differs. Paths by their last part: relative compilation directories are joined
// differently by each reader.
static const char *differs(const struct symbol_result *r, const struct expected *e, bool names)
{
	static char text[12288];
	if (strcmp(e->name[0], "??") == 0 && r->frames[0].line == 0)
		return NULL;
	if (r->count != e->count) {
		snprintf(text, sizeof(text), "%zu frames, wanted %zu (%.200s … %.200s)", r->count, e->count, e->name[0], r->frames[0].name);
		return text;
	}
	for (size_t i = 0; i < e->count; i++) {
		char place[1024];
		snprintf(place, sizeof(place), "%s:%u", r->frames[i].file != NULL ? r->frames[i].file : "??", r->frames[i].line);
		const char *colon = strrchr(e->place[i], ':');
		bool unknown = (colon != NULL && strcmp(colon, ":0") == 0) || strstr(e->place[i], "??") != NULL;
		if (!(unknown && r->frames[i].line == 0) && strcmp(base_name(place), base_name(e->place[i])) != 0) {
			snprintf(text, sizeof(text), "frame %zu at %.500s, wanted %.500s", i, place, e->place[i]);
			return text;
		}
		// The outermost is named by the symbol table here (aliases, .cold), by DWARF there.
		if (names && i + 1 < e->count && strcmp(r->frames[i].name, e->name[i]) != 0) {
			// A name without linkage is qualified here, plain there.
			size_t a = strlen(r->frames[i].name), b = strlen(e->name[i]);
			if (a < b || strcmp(r->frames[i].name + a - b, e->name[i]) != 0) {
				snprintf(text, sizeof(text), "frame %zu is %.2000s, wanted %.2000s", i, r->frames[i].name, e->name[i]);
				return text;
			}
		}
	}
	return NULL;
}

// Blocks of "name\nfile:line:column\n…\n\n", as llvm-symbolizer prints them.
static bool next_block(FILE *f, struct expected *e)
{
	char line[8192];
	e->count = 0;
	while (fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '\0')
			return e->count > 0;
		if (e->count < 64)
			snprintf(e->name[e->count], sizeof(e->name[0]), "%.4000s", line);
		if (fgets(line, sizeof(line), f) == NULL)
			return false;
		line[strcspn(line, "\n")] = '\0';
		char *column = strrchr(line, ':');
		if (column != NULL)
			*column = '\0';
		if (e->count < 64)
			snprintf(e->place[e->count++], sizeof(e->place[0]), "%.1000s", line);
	}
	return e->count > 0;
}

// Every address of every function of the program's own sources.
static size_t list_addresses(const char *path)
{
	if (!shell("nm -S '%s' | awk 'NF == 4 && $3 ~ /[tTwW]/ {print $1, $2}' >functions", path))
		return 0;
	FILE *in = fopen(scratch_path("functions"), "r"), *out = fopen(scratch_path("addresses"), "w");
	unsigned long a, size;
	size_t count = 0;
	while (fscanf(in, "%lx %lx", &a, &size) == 2)
		for (unsigned long i = 0; i < size && count < 20000; i++, count++)
			fprintf(out, "0x%lx\n", a + i);
	fclose(in);
	fclose(out);
	return count;
}

static bool same_frames(const struct symbol_result *a, const struct symbol_result *b)
{
	bool same = a->count == b->count;
	for (size_t i = 0; i < a->count && same; i++) {
		const struct symbol_frame *x = &a->frames[i], *y = &b->frames[i];
		same = strcmp(x->name != NULL ? x->name : "", y->name != NULL ? y->name : "") == 0 && x->line == y->line &&
			strcmp(x->file != NULL ? x->file : "", y->file != NULL ? y->file : "") == 0;
	}
	return same;
}

// Addresses known beforehand are answered in one pass over a unit, others by its tables: the answers are the same. Those asked
// after others of their unit are answered by tables, too.
static void against_one_by_one(const char *what, struct looked *one, const char *path, const struct symbolizer_options *options)
{
	VEC(struct symbol_query) queries = { 0 };
	struct looked many, some;
	FILE *in = fopen(scratch_path("addresses"), "r");
	unsigned long a;
	look(&many, path, options);
	look(&some, path, options);
	while (fscanf(in, "%lx", &a) == 1) {
		uint64_t offset = UINT64_MAX;
		(void)image_vaddr_to_offset(one->image, a, &offset);
		vec_push(&queries, (struct symbol_query){ many.id, offset });
	}
	fclose(in);
	symbolizer_resolve(many.symbolizer, queries.data, queries.count, 0, NULL);
	symbolizer_resolve(some.symbolizer, queries.data, queries.count / 3, 0, NULL);
	size_t same = 0;
	for (size_t i = 0; i < queries.count; i++) {
		const struct symbol_result *r = symbolizer_lookup(one->symbolizer, one->id, queries.data[i].image_addr);
		same += same_frames(r, symbolizer_lookup(many.symbolizer, many.id, queries.data[i].image_addr)) &&
			same_frames(r, symbolizer_lookup(some.symbolizer, some.id, queries.data[i].image_addr));
	}
	ok(same == queries.count && same > 0, "%s: %zu of %zu addresses alike, asked at once and one by one", what, same, queries.count);
	vec_release(&queries);
	look_end(&many);
	look_end(&some);
}

static void against_llvm(const char *what, const char *file)
{
	static struct expected e;
	char path[4096];
	snprintf(path, sizeof(path), "%s", file);
	size_t count = list_addresses(path), same = 0, all = 0, shown = 0;
	if (!shell("llvm-symbolizer --obj='%s' --inlines --no-demangle <addresses >llvm.out 2>/dev/null", path)) {
		skip("no llvm-symbolizer", "%s: against llvm-symbolizer", what);
		return;
	}
	struct symbolizer_options options = all_options;
	options.demangle = false;
	struct looked l;
	look(&l, path, &options);
	FILE *in = fopen(scratch_path("addresses"), "r"), *llvm = fopen(scratch_path("llvm.out"), "r");
	unsigned long a;
	while (fscanf(in, "%lx", &a) == 1 && next_block(llvm, &e)) {
		const char *difference = differs(at_vaddr(&l, a), &e, true);
		all++;
		same += difference == NULL;
		if (difference != NULL && shown++ < 5)
			diag("%#lx: %s", a, difference);
	}
	fclose(in);
	fclose(llvm);
	against_one_by_one(what, &l, path, &options);
	look_end(&l);
	ok(all == count && count > 50 && same * 1000 >= all * 999, "%s: as llvm-symbolizer at %zu of %zu addresses", what, same, all);
}

// eu-addr2line -i -f: two lines a frame; frames of an address end where the next address's "0x…" (by -a) stands.
static void against_elfutils(const char *what, const char *file)
{
	static struct expected e;
	char path[4096], line[8192], text[512];
	snprintf(path, sizeof(path), "%s", file);
	size_t same = 0, all = 0, shown = 0;
	list_addresses(path);
	if (!shell("eu-addr2line -a -i -f -e '%s' <addresses >eu.out 2>/dev/null", path)) {
		skip("no eu-addr2line", "%s: against eu-addr2line", what);
		return;
	}
	struct looked l;
	look(&l, path, &all_options);
	FILE *f = fopen(scratch_path("eu.out"), "r");
	bool more = fgets(line, sizeof(line), f) != NULL;
	while (more) {
		uint64_t a = strtoull(line, NULL, 16);
		e.count = 0;
		while ((more = fgets(line, sizeof(line), f) != NULL) && strncmp(line, "0x", 2) != 0) {
			line[strcspn(line, "\n")] = '\0';
			char *inlined = strstr(line, " inlined at ");
			if (inlined != NULL)
				*inlined = '\0';
			snprintf(e.name[e.count], sizeof(e.name[0]), "%.4000s", line);
			if (fgets(line, sizeof(line), f) == NULL)
				break;
			// file:line:column or file:line
			line[strcspn(line, "\n")] = '\0';
			snprintf(text, sizeof(text), "%.500s", line);
			char *last = strrchr(text, ':');
			if (last != NULL) {
				*last = '\0';
				char *previous = strrchr(text, ':');
				if (previous == NULL || strspn(previous + 1, "0123456789") != strlen(previous + 1))
					*last = ':';
			}
			snprintf(e.place[e.count++], sizeof(e.place[0]), "%s", text);
			if (e.count == 64)
				break;
		}
		const char *difference = differs(at_vaddr(&l, a), &e, false);
		all++;
		same += difference == NULL;
		if (difference != NULL && shown++ < 5)
			diag("%#llx: %s", (unsigned long long)a, difference);
	}
	fclose(f);
	look_end(&l);
	ok(all > 50 && same * 1000 >= all * 999, "%s: as eu-addr2line at %zu of %zu addresses", what, same, all);
}

enum { LLVM = 1, ELFUTILS = 2 };

// `oracles`: which of the others read this kind. (llvm-symbolizer 14 has no zstd; elfutils 0.188 follows no abstract origin into another
// unit, and skips units without .debug_aranges.)
static void build(const char *what, const char *command, unsigned oracles)
{
	if (!shell("rm -f t && { %s; } 2>compile.err", command)) {
		skip("not built here", "%s", what);
		return;
	}
	check_nesting(what);
	if (oracles & LLVM)
		against_llvm(what, scratch_path("t"));
	if (oracles & ELFUTILS)
		against_elfutils(what, scratch_path("t"));
}

static void build_cpp(const char *what, const char *command)
{
	if (!shell("rm -f t && { %s; } 2>compile.err", command))
		skip("not built here", "%s", what);
	else
		against_llvm(what, scratch_path("t"));
}

// ---------------------------------------------------------------- others' binaries

static void check_lookup(struct looked *l, const char *file, json_t *lookup)
{
	uint64_t a = strtoull(json_string_value(json_object_get(lookup, "addr")), NULL, 16);
	const char *symbol = json_string_value(json_object_get(lookup, "symtab"));
	json_t *lines = json_object_get(lookup, "eu_addr2line");
	const struct symbol_result *r = at_vaddr(l, a);
	size_t frames = json_array_size(lines) / 2, bad = 0;
	// Of aliases perf's rule shows the global one without leading underscores; the list has one of them.
	const char *got = r->linkage_name != NULL ? r->linkage_name : "??";
	bool name = strncmp(got, symbol, strlen(got)) == 0 || strstr(got, symbol + strspn(symbol, "_")) != NULL ||
		(frames > 0 && strcmp(json_string_value(json_array_get(lines, 2 * frames - 2)), got) == 0);
	ok(name, "%s %#llx: %s (%s)", file, (unsigned long long)a, got, symbol);
	for (size_t i = 0; i < frames; i++) {
		char wanted[1024], place[1024];
		snprintf(wanted, sizeof(wanted), "%s", json_string_value(json_array_get(lines, 2 * i + 1)));
		const struct symbol_frame *f = &r->frames[i < r->count ? i : r->count - 1];
		snprintf(place, sizeof(place), "%s:%u", f->file != NULL ? base_name(f->file) : "??", f->line);
		size_t n = strlen(place);
		if (strcmp(wanted, "??:0") != 0 && (strncmp(wanted, place, n) != 0 || (wanted[n] != '\0' && wanted[n] != ':'))) {
			bad++;
			diag("frame %zu: %s, wanted %s", i, place, wanted);
		}
	}
	if (strcmp(file, "testfile-inlines-lto") == 0) // elfutils 0.188 sees one frame, llvm-symbolizer three
		frames = 3;
	ok(bad == 0 && (r->count == frames || !r->has_source), "%s %#llx: %zu frames with their lines (%zu)", file, (unsigned long long)a, frames, r->count);
}

static void check_corpus_file(const char *file, json_t *what, const char *root)
{
	json_t *lookups = json_object_get(what, "lookups"), *lookup;
	size_t i;
	struct looked l;
	// What follows needs other files: written beside each other under the names they look for.
	if (!shell("if [ -e '%s/%s' ]; then cp '%s/%s' .; else gzip -dc '%s/%s.gz' >'%s'; fi", root, file, root, file, root, file, file)) {
		ok(false, "%s is not in the corpus", file);
		return;
	}
	const char *const dirs[] = { NULL };
	struct symbolizer_options options = all_options;
	options.demangle = false;
	options.debug_dirs = dirs;
	if (json_array_size(lookups) == 0)
		return;
	if (strcmp(file, "cross_language_lto.debug") == 0 || strcmp(file, "crash.debug-zstd") == 0) {
		skip("a debug file without the program: its file offsets are not the program's", "%s", file);
		return;
	}
	if (!ok(look(&l, scratch_path("%s", file), &options), "%s opens", file))
		return;
	json_array_foreach(lookups, i, lookup)
		check_lookup(&l, file, lookup);
	look_end(&l);
}

static void corpus(void)
{
	const char *path = corpus_file("corpus/elf/expected.json");
	char root[4096];
	json_error_t error;
	if (path == NULL) {
		skip("no corpus", "others' binaries");
		return;
	}
	snprintf(root, sizeof(root), "%.*s", (int)(strlen(path) - strlen("/expected.json")), path);
	if (root[0] != '/') { // commands run in the scratch directory
		char here[2048];
		snprintf(root, sizeof(root), "%s/%.*s", getcwd(here, sizeof(here)), (int)(strlen(path) - strlen("/expected.json")), path);
	}
	json_t *all = json_load_file(path, 0, &error), *what;
	const char *file;
	shell("gzip -dc '%s/crash.debug-zstd.gz' >crash.debug", root);
	shell("cp '%s/testfile52-64.so.debug' .", root);
	shell("cp '%s/testfile_multi.dwz' '%s'/testfile-hello5.dwo '%s'/testfile-world5.dwo .", root, root, root);
	json_object_foreach(all, file, what)
		check_corpus_file(file, what, root);
	json_decref(all);
}

int main(void)
{
	scratch_make();
	scratch_write("t.c", source);
	scratch_write("t.cc", cpp_source);
	build("gcc -O2", "gcc -O2 -g -o t t.c", LLVM | ELFUTILS);
	build("gcc, DWARF 4", "gcc -O2 -gdwarf-4 -o t t.c", LLVM | ELFUTILS);
	build("gcc, DWARF 3", "gcc -O2 -gdwarf-3 -gstrict-dwarf -o t t.c", LLVM | ELFUTILS);
	build("gcc, DWARF 2", "gcc -O2 -gdwarf-2 -gno-strict-dwarf -o t t.c", LLVM | ELFUTILS);
	build("gcc, 64-bit DWARF", "gcc -O2 -gdwarf-5 -gdwarf64 -o t t.c", LLVM);
	build("gcc, function sections, hot and cold", "gcc -O3 -g -ffunction-sections -Wl,--gc-sections -o t t.c", LLVM | ELFUTILS);
	build("gcc, LTO", "gcc -O2 -g -flto -o t t.c", LLVM);
	build("gcc, not PIE", "gcc -O2 -g -no-pie -o t t.c", LLVM | ELFUTILS);
	build("gcc, zlib sections", "gcc -O2 -g -gz=zlib -o t t.c", LLVM | ELFUTILS);
	build("gcc, zstd sections", "gcc -O2 -g -o t0 t.c && objcopy --compress-debug-sections=zstd t0 t && readelf -t t | grep -q ZSTD", 0);
	build("gcc, no .debug_aranges", "gcc -O2 -g -o t0 t.c && objcopy -R .debug_aranges t0 t", LLVM);
	build("gcc, split DWARF 5", "gcc -O2 -g -gsplit-dwarf -c t.c && gcc -o t t.o", LLVM);
	build("gcc, split DWARF 4", "gcc -O2 -gdwarf-4 -gsplit-dwarf -c t.c && gcc -o t t.o", LLVM);
	// In packages; another unit comes first, so that no part begins at 0.
	scratch_write("before.c", "struct before { int first; char second; }; int before(struct before *b) { return b->first * b->second; }\n");
	if (have("llvm-dwp") && have("clang")) // llvm-dwp 14 never ends on what gcc writes
		build("clang, split DWARF 5 in a package",
		      "clang -O2 -gdwarf-5 -gsplit-dwarf -c before.c t.c && clang -o t before.o t.o && timeout 200 llvm-dwp -e t -o t.dwp && rm *.dwo", LLVM);
	else
		skip("no llvm-dwp", "clang, split DWARF 5 in a package");
	if (have("dwp"))
		build("gcc, split DWARF 4 in a package", "gcc -O2 -gdwarf-4 -gsplit-dwarf -c before.c t.c && gcc -o t before.o t.o && dwp -e t -o t.dwp && rm *.dwo", LLVM);
	else
		skip("no dwp", "gcc, split DWARF 4 in a package");
	shell("rm -f t.dwp");
	build("clang", "clang -O2 -g -o t t.c", LLVM);
	build("clang, DWARF 4", "clang -O2 -gdwarf-4 -o t t.c", LLVM);
	build("clang, lld", "clang -O2 -g -fuse-ld=lld -o t t.c", LLVM);
	build("clang, split DWARF 5", "clang -O2 -g -gsplit-dwarf -c t.c && clang -o t t.o", LLVM);
	build("clang, 32 bits", "clang -m32 -O2 -g -o t t.c", LLVM);
	build_cpp("g++ -O2", "g++ -O2 -g -o t t.cc");
	build_cpp("g++ -O2, DWARF 4", "g++ -O2 -gdwarf-4 -o t t.cc");
	build_cpp("g++, code inside local types", "g++ -O1 -g -fno-inline -o t t.cc"); // gcc puts a closure's code into its type
	build_cpp("g++ -O2, LTO", "g++ -O2 -g -flto -o t t.cc");
	build_cpp("g++ -O2, type units", "g++ -O2 -g -fdebug-types-section -o t t.cc");
	build_cpp("g++ -O2, dwz", "g++ -O2 -g -o t0 t.cc && dwz -o t t0");
	build_cpp("clang++ -O2", "clang++ -O2 -g -o t t.cc");
	build_cpp("clang++ -O2, DWARF 4", "clang++ -O2 -gdwarf-4 -o t t.cc");
	corpus();
	return tap_done();
}
