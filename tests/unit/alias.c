// Several functions at one address: which names are conventions, which are functions of identical code, and which of them a call site names;
// in programs built here by gcc and clang, folded by the compiler, by gold and by lld.
#include "symbols/alias.h"
#include "tests/symbols.h"

static const char source[] =
	"#ifndef STATIC\n#define STATIC static\n#endif\n" // what gcc folds: others it calls by a jump; what gold folds: names that are not local
	"typedef unsigned long word;\n"
	"static inline __attribute__((always_inline)) word mix(word x)\n"
	"{ for (int i = 0; i < 100; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; __asm__ volatile(\"\" : \"+r\"(x)); } return x; }\n"
	"__attribute__((noinline)) STATIC word old_way(word x) { return mix(x); }\n"
	"__attribute__((noinline)) STATIC word new_way(word x) { return mix(x); }\n"
	"static inline __attribute__((always_inline)) word by_inline(word x) { return new_way(x + 5) * 3; }\n"
	"__attribute__((noinline)) word call_old(word x) { return old_way(x) + 1; }\n"
	"__attribute__((noinline)) word call_new(word x) { return new_way(x) + 2; }\n"
	"__attribute__((noinline)) word call_inlined(word x) { return by_inline(x) + 3; }\n"
	"__attribute__((noinline)) word call_pointer(word x, word (*volatile f)(word)) { return f(x) + 4; }\n"
	"int main(int argc, char **argv)\n"
	"{ (void)argv; word x = (word)argc; x = call_old(x); x = call_new(x); x = call_inlined(x); x = call_pointer(x, argc > 9 ? call_old : call_new); return (int)(x & 1); }\n";

// Conventions: none of these is another function.
static const char conventions[] =
	"extern int printf(const char *, ...);\n"
	"__attribute__((noinline)) int __libc_thing(int x) { return printf(\"%d\", x) + x; }\n"
	"extern __typeof(__libc_thing) thing __attribute__((weak, alias(\"__libc_thing\")));\n"
	"__attribute__((noinline)) int seek(int x) { return printf(\"%d!\", x) + x; }\n"
	"extern __typeof(seek) seek64 __attribute__((alias(\"seek\")));\n"
	"__asm__(\".symver seek, seek@V_0\");\n"
	"static __attribute__((noinline)) int chosen(int x) { return printf(\"%d?\", x) + x; }\n"
	"static void *resolve(void) { return chosen; }\n"
	"int by_ifunc(int) __attribute__((ifunc(\"resolve\")));\n"
	"int second_ifunc(int) __attribute__((ifunc(\"resolve\")));\n"
	"int main(int argc, char **argv) { (void)argv; return thing(argc) + seek64(argc) + by_ifunc(argc) + second_ifunc(argc) + chosen(argc); }\n";

static const char cpp_source[] =
	"#include <cstdio>\n"
	"struct thing { int v; __attribute__((noinline)) thing(int x); __attribute__((noinline)) ~thing(); };\n"
	"thing::thing(int x) : v(x * 3) { puts(\"a\"); }\n"
	"thing::~thing() { puts(\"b\"); }\n"
	"template <class T> __attribute__((noinline)) T work(T x) { for (int i = 0; i < 100; i++) { x ^= x << 13; x ^= x >> 7; __asm__ volatile(\"\" : \"+r\"(x)); } return x; }\n"
	"__attribute__((noinline)) long call_long(long x) { return work<long>(x) + 1; }\n"
	"__attribute__((noinline)) long call_long_long(long x) { return work<long long>(x) + 2; }\n"
	"int main(int argc, char **argv) { (void)argv; thing t(argc); return (int)((call_long(argc) + call_long_long(t.v)) & 1); }\n";

static void keys(void)
{
	static const struct { const char *name, *key; } wanted[] = {
		{ "work", "work" }, { "__work", "work" }, { "work@@V_2", "work" }, { "work.constprop.0", "work" }, { "work.localalias", "work" },
		{ ".hidden", ".hidden" }, { "lseek64", "lseek" }, { "stat64x", "statx" }, { "64", "64" }, { "", "" }, { "___", "" },
		{ "_ZN5thingC1Ei", "thing::thing(int)" }, { "_ZN5thingC2Ei", "thing::thing(int)" }, { "_ZN5thingC4Ei", "thing::thing(int)" },
		{ "_ZN5thingC1Ei.part.0", "thing::thing(int)" }, { "_Z1fv@@V_1", "f()" }, { "_Z", "Z" }, { "_Z!", "_Z!" }, { "_ZN64x64E", "_ZN64x64E" },
	};
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		struct buf key = { 0 };
		symbol_key(wanted[i].name, strlen(wanted[i].name), &key);
		is_str(buf_text(&key), wanted[i].key, "the key of '%s'", wanted[i].name);
		buf_release(&key);
	}
	ok(symbol_is_reserved("__libc_malloc", 13) && symbol_is_reserved("_IO_getc", 8) && !symbol_is_reserved("malloc", 6) &&
	   !symbol_is_reserved("_start", 6) && !symbol_is_reserved("_Z1fv", 5) && !symbol_is_reserved("_", 1), "names that C reserves");
	ok(symbol_is_mangled("_Z1fv", 5) && symbol_is_mangled("_RNvC1a1f", 9) && !symbol_is_mangled("_Z", 2) && !symbol_is_mangled("f", 1), "mangled names");
}

// The names of what the call sites in `function` call, sorted by address, with a space behind each.
static const char *callees(struct looked *l, const char *path, const char *function)
{
	static char text[4][1024];
	static unsigned next;
	char *out = text[next++ % 4];
	uint64_t start = 0, size = 0;
	out[0] = '\0';
	(void)nm(path, function, &start, &size);
	for (uint64_t addr = start; addr < start + size; addr++) {
		uint64_t offset = UINT64_MAX;
		(void)image_vaddr_to_offset(l->image, addr, &offset);
		const struct symbol_alias *callee = symbolizer_callee(l->symbolizer, l->id, offset);
		if (callee != NULL)
			snprintf(out + strlen(out), sizeof(text[0]) - strlen(out), "%s ", callee->name);
		if (callee != symbolizer_callee(l->symbolizer, l->id, offset))
			strcat(out, "(another when asked again) ");
	}
	return out;
}

// Whether `a` and `b` are one address, and a call by either name is told from one by the other.
static void expect_folded(const char *what, struct looked *l, const char *full, const char *a, const char *b)
{
	uint64_t at = 0, at_b = 1, size;
	(void)nm(full, a, &at, &size);
	(void)nm(full, b, &at_b, &size);
	if (!ok(at == at_b, "%s: folded", what))
		return;
	const struct symbol_result *r = at_vaddr(l, at + 4);
	is_u64(r->alias_count, 1, "%s: one alias", what);
	if (r->alias_count != 1)
		return;
	bool a_shown = strcmp(r->linkage_name, a) == 0;
	is_str(r->aliases[0].linkage_name, a_shown ? b : a, "%s: which", what);
	struct symbol_alias call_a = { .key = symbolizer_key(l->symbolizer, a) }, call_b = { .key = symbolizer_key(l->symbolizer, b) };
	is_u64((uint64_t)symbol_alias_find(l->symbolizer, r, &call_a), a_shown ? 0 : 1, "%s: a call of %s", what, a);
	is_u64((uint64_t)symbol_alias_find(l->symbolizer, r, &call_b), a_shown ? 1 : 0, "%s: a call of %s", what, b);
	struct symbol_alias call_main = { .key = symbolizer_key(l->symbolizer, "main") };
	ok(symbol_alias_find(l->symbolizer, r, &call_main) == -1 && symbol_alias_find(l->symbolizer, r, NULL) == -1, "%s: a call of neither", what);
}

static void check_c(const char *what, const char *path, const char *full, bool has_debug)
{
	struct looked l;
	if (!ok(look(&l, path, &all_options), "%s: opens", what))
		return;
	expect_folded(what, &l, full, "old_way", "new_way");
	is_str(callees(&l, full, "call_old"), has_debug ? "old_way " : "", "%s: what call_old calls", what);
	is_str(callees(&l, full, "call_new"), has_debug ? "new_way " : "", "%s: what call_new calls", what);
	is_str(callees(&l, full, "call_inlined"), has_debug ? "new_way " : "", "%s: a call within an inlined function", what);
	is_str(callees(&l, full, "call_pointer"), "", "%s: a call through a pointer", what);
	look_end(&l);
	struct symbolizer_options bare = { .demangle = true, .use_host_files = true };
	if (look(&l, path, &bare)) {
		is_str(callees(&l, full, "call_old"), has_debug ? "old_way " : "", "%s: without inlines and lines", what);
		look_end(&l);
	}
}

static void by_compilers(void)
{
	static const struct { const char *compiler, *needs, *command; } builds[] = {
		{ "gcc", "gcc", "gcc -O2 -gdwarf-5" }, { "gcc", "gcc", "gcc -O2 -gdwarf-4" }, { "gcc", "gcc", "gcc -O2 -gdwarf-3" },
		{ "gcc", "gcc", "gcc -O2 -gdwarf-5 -gsplit-dwarf" }, { "gcc", "gcc", "gcc -O2 -gdwarf-4 -gsplit-dwarf" },
		{ "gcc", "gcc", "gcc -O2 -g -flto" }, { "gcc", "dwz", "gcc -O2 -g && dwz" },
		{ "gcc", "ld.gold", "gcc -O2 -gdwarf-5 -DSTATIC= -fno-ipa-icf -ffunction-sections -fuse-ld=gold -Wl,--icf=all" },
		{ "gcc", "ld.gold", "gcc -O2 -gdwarf-4 -DSTATIC= -fno-ipa-icf -ffunction-sections -fuse-ld=gold -Wl,--icf=all" },
		{ "clang", "ld.lld", "clang -O2 -gdwarf-5 -ffunction-sections -fuse-ld=lld -Wl,--icf=all" },
		{ "clang", "ld.lld", "clang -O2 -gdwarf-4 -ffunction-sections -fuse-ld=lld -Wl,--icf=all" },
	};
	scratch_write("t.c", source);
	for (size_t i = 0; i < sizeof(builds) / sizeof(*builds); i++) {
		const char *command = builds[i].command, *dwz = strstr(command, " && dwz");
		if (!have(builds[i].compiler) || !have(builds[i].needs)) {
			skip(have(builds[i].compiler) ? builds[i].needs : builds[i].compiler, "%s", command);
			continue;
		}
		int length = dwz != NULL ? (int)(dwz - command) : (int)strlen(command);
		if (!shell("%.*s -fno-optimize-sibling-calls -o b%zu t.c 2>err", length, command, i)) {
			skip("the compiler refuses", "%s", command);
			continue;
		}
		if (dwz != NULL)
			(void)shell("cp b%zu twice && dwz -m shared b%zu twice 2>/dev/null", i, i);
		const char *path = scratch_path("b%zu", i);
		check_c(command, path, path, true);
	}
}

static void stripped(void)
{
	if (!have("gcc") || !have("objcopy")) {
		skip("gcc and objcopy", "stripped programs");
		return;
	}
	for (int version = 4; version <= 5; version++) {
		char what[64];
		(void)shell("gcc -O2 -gdwarf-%d -fno-optimize-sibling-calls -o full t.c && objcopy --only-keep-debug full t.debug && strip -o linked full && "
		            "objcopy --add-gnu-debuglink=t.debug linked && strip -g -o bare full", version);
		snprintf(what, sizeof(what), "debuglink, DWARF %d", version);
		check_c(what, scratch_path("linked"), scratch_path("full"), true);
		check_c("no debug information", scratch_path("bare"), scratch_path("full"), false);
	}
}

static void no_aliases(const char *what, const char *path, const char *symbol)
{
	struct looked l;
	uint64_t start, size;
	if (!look(&l, path, &all_options))
		return;
	if (ok(nm(path, symbol, &start, &size), "%s: %s is there", what, symbol))
		is_u64(at_vaddr(&l, start)->alias_count, 0, "%s: %s stands alone", what, symbol);
	look_end(&l);
}

static void by_convention(void)
{
	scratch_write("v.map", "V_0 { }; V_1 { global: seek; seek64; thing; } V_0;\n");
	scratch_write("c.c", conventions);
	if (!have("gcc") || !shell("gcc -O1 -g -o c c.c -Wl,--version-script=v.map 2>err")) {
		skip("gcc with symbol versions", "conventions");
		return;
	}
	no_aliases("weak", scratch_path("c"), "thing");
	no_aliases("large files, versions", scratch_path("c"), "seek64");
	no_aliases("IFUNC", scratch_path("c"), "by_ifunc");
}

static void in_cpp(void)
{
	scratch_write("t.cc", cpp_source);
	if (!have("g++") || !shell("g++ -O2 -g -fno-optimize-sibling-calls -o cc t.cc 2>err")) {
		skip("g++", "C++");
		return;
	}
	const char *path = scratch_path("cc");
	no_aliases("C++: C1 and C2", path, "_ZN5thingC1Ei");
	no_aliases("C++: D1 and D2", path, "_ZN5thingD2Ev");
	struct looked l;
	uint64_t at, other, size;
	if (!have("ld.lld") || !shell("g++ -O2 -g -fno-ipa-icf -ffunction-sections -fno-optimize-sibling-calls -fuse-ld=lld -Wl,--icf=all -o cc t.cc 2>err")) {
		skip("lld", "C++: templates");
		return;
	}
	if (!look(&l, path, &all_options))
		return;
	ok(nm(path, "_Z4workIlET_S0_", &at, &size) && nm(path, "_Z4workIxET_S0_", &other, &size) && at == other, "C++: templates are folded");
	expect_folded("C++: templates", &l, path, "_Z4workIlET_S0_", "_Z4workIxET_S0_");
	is_str(callees(&l, path, "_Z9call_longl"), "long work<long>(long) ", "C++: one is called");
	is_str(callees(&l, path, "_Z14call_long_longl"), "long long work<long long>(long long) ", "C++: the other is called");
	look_end(&l);
}

// Names from inside a recording: nothing is looked up any more.
static void preset(void)
{
	struct symbolizer *s = symbolizer_new(&all_options);
	uint32_t id = symbolizer_image(s, &(struct symbol_image){ .path = "/nowhere", .map_fd = -1 });
	struct symbol_frame frame = { .name = "old_way" };
	struct symbol_alias alias = { .linkage_name = "new_way" }, callee = { .linkage_name = "new_way.localalias" };
	struct symbol_result known = { .frames = &frame, .count = 1, .linkage_name = "old_way", .aliases = &alias, .alias_count = 1 };
	symbolizer_preset(s, id, 0x100, &known);
	struct symbol_frame caller = { .name = "call_new" };
	known = (struct symbol_result){ .frames = &caller, .count = 1, .linkage_name = "call_new", .is_callee_known = true, .callee = &callee };
	symbolizer_preset(s, id, 0x200, &known);
	const struct symbol_result *r = symbolizer_lookup(s, id, 0x100);
	is_u64((uint64_t)symbol_alias_find(s, r, symbolizer_callee(s, id, 0x200)), 1, "preset: the alias was called");
	ok(symbolizer_callee(s, id, 0x300) == NULL, "preset: nothing is known elsewhere");
	symbolizer_free(s);
}

int main(void)
{
	scratch_make();
	keys();
	by_compilers();
	stripped();
	by_convention();
	in_cpp();
	preset();
	return tap_done();
}
