// The symbolizer as a whole: identity by build ID, where debug files are found, names given in advance, many addresses at once.
#include "base/mem.h"
#include "base/vec.h"
#include "elf/vdso.h"
#include "symbols/damage.h"
#include "tests/symbols.h"

#include <sys/stat.h>
#include <time.h>

static const char source[] =
	"static inline __attribute__((always_inline)) int inner(int x, int *p) { p[x & 7] ^= x; return x * 3 + p[1]; }\n"
	"__attribute__((noinline)) int work(int x, int *p) { for (int i = 0; i < x; i++) x += inner(i, p); return x; }\n"
	"int main(int argc, char **argv) { static int t[8]; (void)argv; return work(argc, t) & 1; }\n";

// Address and size of `work`, from before anything was stripped.
static uint64_t work_at, work_size;

static const struct symbol_result *lookup_work(struct symbolizer *s, uint32_t id, struct image *image, uint64_t step)
{
	uint64_t offset = UINT64_MAX;
	(void)image_vaddr_to_offset(image, work_at + step, &offset);
	return symbolizer_lookup(s, id, offset);
}

// The deepest chain over the function's addresses and the names in it: 2 when inner is seen inside work, with lines.
static size_t depth_of_work(const char *path, const struct symbolizer_options *options, enum symbol_missing *missing, const char **name)
{
	static char kept[256];
	struct looked l;
	size_t depth = 0;
	*missing = SYMBOL_BAD_FILE;
	*name = "??";
	if (!look(&l, path, options))
		return 0;
	for (uint64_t i = 0; i < work_size; i++) {
		const struct symbol_result *r = lookup_work(l.symbolizer, l.id, l.image, i);
		*missing = r->missing;
		snprintf(kept, sizeof(kept), "%s", r->frames[r->count - 1].name != NULL ? r->frames[r->count - 1].name : "??");
		if (r->has_source && r->count > depth && r->frames[0].line > 0)
			depth = r->count;
	}
	*name = kept;
	look_end(&l);
	return depth;
}

static const char *dirs[2]; // the debug directory of the tests
static struct symbolizer_options options;

static void expect(const char *what, const char *file, size_t depth, const char *name, enum symbol_missing missing)
{
	enum symbol_missing got;
	const char *got_name;
	size_t got_depth = depth_of_work(file, &options, &got, &got_name);
	is_u64(got_depth, depth, "%s: frames", what);
	is_str(got_name, name, "%s: name", what);
	is_u64(got, missing, "%s: %s", what, symbol_missing_text(got));
}

static void debug_files(void)
{
	char id[128] = "";
	shell("cp t full && objcopy --only-keep-debug t t.debug && strip -o stripped t && objcopy --add-gnu-debuglink=t.debug stripped linked");
	expect("not stripped", scratch_path("full"), 2, "work", SYMBOL_FOUND);
	expect("stripped, no debug file", scratch_path("stripped"), 0, "??", SYMBOL_NO_SYMBOLS);
	expect("debuglink beside it", scratch_path("linked"), 2, "work", SYMBOL_FOUND);
	shell("mkdir .debug && mv t.debug .debug/");
	expect("debuglink in .debug/", scratch_path("linked"), 2, "work", SYMBOL_FOUND);
	shell("mkdir -p debug/$(pwd) && mv .debug/t.debug debug/$(pwd)/");
	expect("debuglink in the debug directory", scratch_path("linked"), 2, "work", SYMBOL_FOUND);
	shell("rm debug/$(pwd)/t.debug; objcopy --only-keep-debug t t.debug");

	struct image *image;
	image_open_path(&image, scratch_path("stripped"), NULL);
	build_id_hex(&image->build_id, id);
	image_release(image);
	shell("mkdir -p debug/.build-id/%.2s && cp t.debug debug/.build-id/%.2s/%s.debug", id, id, id + 2);
	expect("by build ID", scratch_path("stripped"), 2, "work", SYMBOL_FOUND);
	shell("objcopy --compress-debug-sections=zlib t.debug debug/.build-id/%.2s/%s.debug", id, id + 2);
	expect("by build ID, zlib", scratch_path("stripped"), 2, "work", SYMBOL_FOUND);
	if (shell("objcopy --compress-debug-sections=zstd t.debug z.debug 2>/dev/null && readelf -t z.debug 2>/dev/null | grep -q ZSTD")) {
		shell("cp z.debug debug/.build-id/%.2s/%s.debug", id, id + 2);
		expect("by build ID, zstd", scratch_path("stripped"), 2, "work", SYMBOL_FOUND);
	} else {
		skip("binutils without zstd", "by build ID, zstd");
	}
	shell("mkdir -p debug/.build-id/%.2s/%s && rm debug/.build-id/%.2s/%s.debug && cp t.debug debug/.build-id/%.2s/%s/debug", id, id + 2, id, id + 2, id, id + 2);
	expect("in a cache laid out as perf's", scratch_path("stripped"), 2, "work", SYMBOL_FOUND);

	// A debug file of another build must not be believed, wherever it stands.
	shell("sed 's/x \\* 3/x * 5/' t.c >other.c && gcc -O2 -g -o other other.c -Wl,--build-id && objcopy --only-keep-debug other other.debug");
	shell("rm -r debug/.build-id/%.2s/%s && cp other.debug debug/.build-id/%.2s/%s.debug", id, id + 2, id, id + 2);
	expect("another build's debug file under this build ID", scratch_path("stripped"), 0, "??", SYMBOL_NO_SYMBOLS);
	shell("rm -r debug/.build-id; cp other.debug t.debug");
	expect("another build's debug file under the debuglink's name", scratch_path("linked"), 0, "??", SYMBOL_NO_SYMBOLS);

	if (shell("strip --strip-debug -o mini full && xz -kf mini && objcopy --add-section .gnu_debugdata=mini.xz stripped minied"))
		expect("a mini debug file inside", scratch_path("minied"), 0, "work", SYMBOL_FOUND);
	else
		skip("no xz", "a mini debug file inside");

	// Without build IDs, the debuglink's CRC decides.
	shell("gcc -O2 -g -o n t.c -Wl,--build-id=none && objcopy --only-keep-debug n n.debug && strip -o n.stripped n && objcopy --add-gnu-debuglink=n.debug n.stripped n.linked");
	if (nm(scratch_path("n"), "work", &work_at, &work_size)) {
		expect("no build ID: the CRC is right", scratch_path("n.linked"), 2, "work", SYMBOL_FOUND);
		shell("printf x >>n.debug");
		expect("no build ID: the CRC is wrong", scratch_path("n.linked"), 0, "??", SYMBOL_NO_SYMBOLS);
	}
	// A debuglink names a file beside the program, never a path.
	shell("mkdir -p sub && objcopy --only-keep-debug n sub/n.debug && cp n.stripped sub/evil && printf '../n.debug\\0\\0' >link && dd if=/dev/zero bs=4 count=1 >>link 2>/dev/null && "
	      "objcopy --add-section .gnu_debuglink=link sub/evil && objcopy --only-keep-debug n n.debug");
	expect("a debuglink with a path in it", scratch_path("sub/evil"), 0, "??", SYMBOL_NO_SYMBOLS);
	nm(scratch_path("full"), "work", &work_at, &work_size);
}

static void supplementary(void)
{
	if (!shell("command -v dwz >/dev/null && cp full d1 && cp other d2 && dwz -m common.dwz d1 d2 2>dwz.err && readelf -SW d1 2>/dev/null | grep -q altlink")) {
		skip("no dwz", "a supplementary file");
		return;
	}
	expect("with a supplementary file (dwz -m)", scratch_path("d1"), 2, "work", SYMBOL_FOUND);
	shell("rm common.dwz");
	enum symbol_missing missing;
	const char *name;
	(void)depth_of_work(scratch_path("d1"), &options, &missing, &name);
	is_str(name, "work", "the supplementary file is gone: the symbol table still answers");
}

static void identity(void)
{
	struct image *image;
	image_open_path(&image, scratch_path("full"), NULL);
	struct build_id wrong = image->build_id;
	wrong.bytes[0] ^= 1;
	char path[4096];
	snprintf(path, sizeof(path), "%s", scratch_path("full"));
	struct symbolizer *s = symbolizer_new(&options);
	uint32_t right_id = symbolizer_image(s, &(struct symbol_image){ .path = path, .build_id = image->build_id, .map_fd = -1 });
	uint32_t wrong_id = symbolizer_image(s, &(struct symbol_image){ .path = path, .build_id = wrong, .map_fd = -1 });
	uint32_t unknown_id = symbolizer_image(s, &(struct symbol_image){ .path = path, .map_fd = -1 });
	ok(right_id != wrong_id && wrong_id != unknown_id && right_id != unknown_id, "each description has an id of its own");
	is_u64(symbolizer_image(s, &(struct symbol_image){ .path = path, .build_id = wrong, .map_fd = -1 }), wrong_id, "… and always the same");
	is_str(lookup_work(s, right_id, image, 0)->frames[0].name, "work", "the build ID that is wanted");
	const struct symbol_result *r = lookup_work(s, wrong_id, image, 0);
	ok(r->count == 1 && r->frames[0].name == NULL && r->linkage_name == NULL, "another build ID: no name");
	is_u64(r->missing, SYMBOL_WRONG_BUILD_ID, "… and why");
	is_u64(symbolizer_image_status(s, wrong_id).missing, SYMBOL_WRONG_BUILD_ID, "… and of the image as a whole");
	is_str(lookup_work(s, unknown_id, image, 0)->frames[0].name, "work", "a build ID that nobody knows contradicts nothing");
	uint32_t none = symbolizer_image(s, &(struct symbol_image){ .path = "/nonexistent/program", .map_fd = -1 });
	is_u64(symbolizer_lookup(s, none, 0x1000)->missing, SYMBOL_NO_FILE, "no such file");
	uint32_t text = symbolizer_image(s, &(struct symbol_image){ .path = "/etc/passwd", .map_fd = -1 });
	is_u64(symbolizer_lookup(s, text, 0x10)->missing, SYMBOL_BAD_FILE, "not an ELF file");
	uint32_t dir = symbolizer_image(s, &(struct symbol_image){ .path = "/tmp", .map_fd = -1 });
	is_u64(symbolizer_lookup(s, dir, 0x10)->missing, SYMBOL_BAD_FILE, "a directory");
	struct symbol_image_status status = symbolizer_image_status(s, right_id);
	ok(status.file != NULL && strcmp(status.file, path) == 0 && status.missing == SYMBOL_FOUND, "the file that was used is told");
	uint64_t offset = 0;
	image_vaddr_to_offset(image, work_at, &offset);
	is_u64(lookup_work(s, right_id, image, 3)->symbol_start, offset, "the symbol's start is told as an offset in the file");

	// The open image that the caller holds goes before what stands at the path now.
	uint32_t held = symbolizer_image(s, &(struct symbol_image){ .path = "/nonexistent/deleted", .build_id = image->build_id, .image = image, .map_fd = -1 });
	is_str(lookup_work(s, held, image, 0)->frames[0].name, "work", "a deleted program whose image was kept");
	symbolizer_free(s);

	struct symbolizer_options inside = options;
	inside.use_host_files = false;
	s = symbolizer_new(&inside);
	uint32_t id = symbolizer_image(s, &(struct symbol_image){ .path = path, .map_fd = -1 });
	is_u64(lookup_work(s, id, image, 0)->missing, SYMBOL_NO_FILE, "without the host's files a path is not followed");
	symbolizer_free(s);

	struct symbolizer_options prefixed = options;
	prefixed.symfs = scratch;
	s = symbolizer_new(&prefixed);
	id = symbolizer_image(s, &(struct symbol_image){ .path = "/full", .map_fd = -1 });
	is_str(lookup_work(s, id, image, 0)->frames[0].name, "work", "symfs goes before every path");
	symbolizer_free(s);

	// By build ID from the cache, when the path holds another build.
	char hex[128];
	build_id_hex(&image->build_id, hex);
	shell("mkdir -p debug/.build-id/%.2s/%s && cp full debug/.build-id/%.2s/%s/elf", hex, hex + 2, hex, hex + 2);
	s = symbolizer_new(&options);
	id = symbolizer_image(s, &(struct symbol_image){ .path = scratch_path("other"), .build_id = image->build_id, .map_fd = -1 });
	is_str(lookup_work(s, id, image, 0)->frames[0].name, "work", "an upgraded program, the old one in the build-id cache");
	symbolizer_free(s);
	shell("rm -r debug/.build-id");
	image_release(image);
}

static void presets(void)
{
	struct image *image;
	image_open_path(&image, scratch_path("full"), NULL);
	struct symbolizer *s = symbolizer_new(&options);
	uint32_t id = symbolizer_image(s, &(struct symbol_image){ .path = scratch_path("full"), .map_fd = -1 });
	uint64_t offset = 0;
	image_vaddr_to_offset(image, work_at, &offset);
	char name[] = "from inside", file[] = "inside.c";
	struct symbol_frame frames[2] = { { .name = name, .file = file, .line = 7, .is_inlined = true }, { .name = "outer one" } };
	symbolizer_preset(s, id, offset, &(struct symbol_result){ .frames = frames, .count = 2, .symbol_start = offset, .linkage_name = name });
	memset(name, 'x', 4);
	memset(file, 'x', 4);
	const struct symbol_result *r = symbolizer_lookup(s, id, offset);
	ok(r->count == 2 && strcmp(r->frames[0].name, "from inside") == 0 && strcmp(r->frames[0].file, "inside.c") == 0 && r->frames[0].line == 7 &&
	   strcmp(r->frames[1].name, "outer one") == 0, "a name from inside the recording goes first, and is copied");
	is_str(symbolizer_lookup(s, id, offset + 1)->frames[symbolizer_lookup(s, id, offset + 1)->count - 1].name, "work", "other addresses are looked up");
	ok(symbolizer_lookup(s, id, offset) == r, "the same address gives the same result");
	symbolizer_free(s);
	image_release(image);
}

static void many_at_once(void)
{
	struct image *image;
	image_open_path(&image, scratch_path("full"), NULL);
	struct symbol_query queries[600] = { 0 };
	const struct symbol_result *results[600];
	for (int round = 0; round < 2; round++) {
		struct symbolizer *s = symbolizer_new(&options);
		uint32_t id = symbolizer_image(s, &(struct symbol_image){ .path = scratch_path("full"), .map_fd = -1 });
		uint64_t offset = 0;
		image_vaddr_to_offset(image, work_at, &offset);
		size_t count = 0;
		for (uint64_t i = 0; i < work_size && count < 600; i++) {
			queries[count++] = (struct symbol_query){ .image = id, .image_addr = offset + work_size - 1 - i };
			if (count < 600) { // some of them twice
				queries[count] = queries[count / 2];
				count++;
			}
		}
		// A limit that is over at once leaves names, but no chains.
		symbolizer_resolve(s, queries, count, round == 0 ? 0 : 1e-12, results);
		bool named = true, chained = false, told = true, shared = true;
		for (size_t i = 0; i < count; i++) {
			const struct symbol_result *r = symbolizer_lookup(s, id, queries[i].image_addr);
			named &= strcmp(r->frames[r->count - 1].name, "work") == 0;
			chained |= r->count > 1;
			told &= results[i] == r;
			shared &= r == results[0];
		}
		ok(told && shared == (round == 1), "each query is told its result, which the addresses of a function without chains share");
		(void)symbolizer_callee(s, id, queries[0].image_addr);
		ok(symbolizer_lookup(s, id, queries[0].image_addr)->is_callee_known && !symbolizer_lookup(s, id, queries[2].image_addr)->is_callee_known,
		   "what an address calls is told of that address alone");
		ok(named && chained == (round == 0), round == 0 ? "no limit: names and chains" : "time is up: names from the symbol table alone");
		symbolizer_free(s);
	}
	image_release(image);
}

static bool same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_result(const struct symbol_result *a, const struct symbol_result *b)
{
	bool same = a->count == b->count && a->symbol_start == b->symbol_start;
	for (size_t i = 0; i < a->count && same; i++)
		same = same_text(a->frames[i].name, b->frames[i].name) && same_text(a->frames[i].file, b->frames[i].file) &&
			a->frames[i].line == b->frames[i].line;
	return same;
}

// Units enough for several threads, more than half a MiB of them: whatever their number, the same is said of every address, asked for all at once or one by one.
static void threads(void)
{
	char command[512] = "gcc -O1 -g -o many.so -shared -fPIC -Wl,--build-id";
	for (int unit = 0; unit < 4; unit++) {
		char name[16];
		snprintf(name, sizeof(name), "many%d.c", unit);
		FILE *f = fopen(scratch_path("%s", name), "w");
		for (int i = 0; i < 500; i++)
			fprintf(f, "struct s%d { int a; struct s%d *next; }; static inline __attribute__((always_inline)) int in%d(struct s%d *p, int x) { p->a += x; "
			        "return p->next->a > x; }\nint fn%d_%d(struct s%d *p, int x) {\n for (int i = 0; i < x; i++) p->a ^= in%d(p, i);\n return in%d(p, x) + x; }\n",
			        i, i, i, i, unit, i, i, i, i);
		fclose(f);
		snprintf(command + strlen(command), sizeof(command) - strlen(command), " %s", name);
	}
	struct image *image;
	if (!shell("%s", command) || !image_open_path(&image, scratch_path("many.so"), NULL)) {
		skip("no gcc", "threads");
		return;
	}
	const struct image_section *text = image_find_section(image, ".text"), *info = image_find_section(image, ".debug_info");
	if (!ok(text != NULL && info != NULL && info->size >= 1 << 19, "enough for two threads"))
		return;
	struct symbolizer *by_jobs[3];
	uint32_t ids[3];
	VEC(struct symbol_query) queries = { 0 };
	for (unsigned j = 0; j < 3; j++) { // none, one and eight
		struct symbolizer_options with = options;
		with.jobs = j == 2 ? 8 : j;
		by_jobs[j] = symbolizer_new(&with);
		ids[j] = symbolizer_image(by_jobs[j], &(struct symbol_image){ .path = scratch_path("many.so"), .build_id = image->build_id, .map_fd = -1 });
		vec_clear(&queries);
		for (uint64_t at = 0; at < text->size; at += 3)
			vec_push(&queries, (struct symbol_query){ ids[j], text->offset + at });
		if (j > 0)
			symbolizer_resolve(by_jobs[j], queries.data, queries.count, 0, NULL);
	}
	size_t same = 0, inlined = 0;
	for (size_t i = 0; i < queries.count; i++) {
		const struct symbol_result *single = symbolizer_lookup(by_jobs[0], ids[0], queries.data[i].image_addr);
		inlined += single->count > 1;
		same += same_result(single, symbolizer_lookup(by_jobs[1], ids[1], queries.data[i].image_addr)) &&
			same_result(single, symbolizer_lookup(by_jobs[2], ids[2], queries.data[i].image_addr));
	}
	is_u64(same, queries.count, "one by one, by one thread, by eight: the same of every address");
	ok(inlined > queries.count / 4, "many of them inlined (%zu of %zu)", inlined, queries.count);
	for (unsigned j = 0; j < 3; j++)
		symbolizer_free(by_jobs[j]);
	vec_release(&queries);
	image_release(image);
}

// A program with enough compressed DWARF to be worth keeping in the clear.
static void section_cache(void)
{
	FILE *f = fopen(scratch_path("big.c"), "w");
	for (int i = 0; i < 4500; i++)
		fprintf(f, "struct s%d { int a%d; double b%d[%d]; struct s%d *next; }; static inline __attribute__((always_inline)) int inner%d(struct s%d *p, int x) "
		        "{ p->a%d += x; return p->b%d[0] > x; }\nint fn%d(struct s%d *p, int x) { return inner%d(p, x) + x; }\n", i, i, i, i % 7 + 1, i, i, i, i, i, i, i, i);
	fclose(f);
	if (!shell("gcc -O1 -g -gz=zlib -shared -fPIC -o big.so big.c -Wl,--build-id")) {
		skip("no gcc with -gz", "the cache of decompressed sections");
		return;
	}
	struct symbolizer_options cached = options;
	cached.no_cache = false;
	setenv("XDG_CACHE_HOME", scratch_path("cache"), 1);
	uint64_t at, size;
	struct looked l;
	nm(scratch_path("big.so"), "fn2321", &at, &size);
	static const char *const what[] = { "made", "used", "damaged since this start: not noticed, harmless", "damaged before this start: made again",
	                                    "cut short: made again", "another's directory: not used" };
	for (int round = 0; round < 6; round++) {
		if (round == 2) // in the middle of .debug_info
			shell("printf '\\377\\377\\377\\377' | dd of=$(ls cache/perfsample/sections-2/*) bs=1 seek=300000 conv=notrunc 2>/dev/null");
		if (round == 3) // as if written before the host started
			shell("sed -i \"s/$(cat /proc/sys/kernel/random/boot_id)/00000000-0000-0000-0000-000000000000/\" cache/perfsample/sections-2/*");
		if (round == 4)
			shell("truncate -s 500000 cache/perfsample/sections-2/*");
		if (round == 5)
			shell("rm cache/perfsample/sections-2/*; chmod 777 cache/perfsample/sections-2");
		bool good = look(&l, scratch_path("big.so"), &cached), entry = false;
		size_t deepest = 0;
		for (uint64_t i = 0; good && i < size; i++) {
			const struct symbol_result *r = at_vaddr(&l, at + i);
			deepest = r->count > deepest ? r->count : deepest;
			good &= strcmp(r->frames[r->count - 1].name, "fn2321") == 0 && (round == 2 || r->count == 1 || strcmp(r->frames[0].name, "inner2321") == 0);
		}
		look_end(&l);
		entry = shell("test -s cache/perfsample/sections-2/*");
		ok(good && (deepest == 2 || round == 2) && entry == (round < 5), "decompressed sections: %s", what[round]);
	}
	ok(shell("test $(ls -ld cache/perfsample | cut -c1-10) = drwx------"), "the directory is the user's alone");
	// Build ID and size are whatever the author of a file wants.
	bool twins = shell("rm -r cache; mkdir -p cache/perfsample/sections-1; echo x >cache/perfsample/sections-1/old; sed s/inner/other/ big.c >evil.c && "
	                   "for n in big evil; do gcc -O1 -g -gz=zlib -shared -fPIC -o $n.so $n.c -Wl,--build-id=0x1122334455667788 || exit 1; done; "
	                   "truncate -s $(stat -c %%s big.so evil.so | sort -n | tail -1) big.so evil.so");
	const char *const files[] = { "evil.so", "big.so", "evil.so" }, *const inlined[] = { "other2321", "inner2321", "other2321" };
	for (size_t i = 0; twins && i < 3; i++) {
		nm(scratch_path("%s", files[i]), "fn2321", &at, &size);
		bool good = look(&l, scratch_path("%s", files[i]), &cached);
		unsigned named = 0, others = 0;
		for (uint64_t k = 0; good && k < size; k++) {
			const struct symbol_result *r = at_vaddr(&l, at + k);
			named += r->count == 2 && strcmp(r->frames[0].name, inlined[i]) == 0;
			others += r->count == 2 && strcmp(r->frames[0].name, inlined[i]) != 0;
		}
		look_end(&l);
		ok(named > 0 && others == 0, "%s has its own functions, though another file has its build ID and size", files[i]);
	}
	ok(twins && shell("test $(ls cache/perfsample/sections-2 | wc -l) -eq 2 && test ! -e cache/perfsample/sections-1"), "an entry for each; what went by build IDs is gone");
	cached.no_cache = true;
	shell("rm -r cache");
	look(&l, scratch_path("big.so"), &cached);
	(void)at_vaddr(&l, at);
	look_end(&l);
	ok(!shell("test -e cache"), "no_cache keeps nothing");
	unsetenv("XDG_CACHE_HOME");
}

// Files found by others' fuzzers: opened, asked at many addresses.
static void corpus_of_broken_files(void)
{
	const char *path = corpus_file("corpus/elf/expected.json");
	if (path == NULL) {
		skip("no corpus", "broken files");
		return;
	}
	char command[8192], name[4096];
	snprintf(command, sizeof(command), "find '%.*s' -type f ! -name '*.json' ! -name '*.gz' ! -name '*.md'", (int)(strlen(path) - strlen("expected.json")), path);
	FILE *f = popen(command, "r");
	unsigned files = 0, asked = 0;
	while (fgets(name, sizeof(name), f) != NULL) {
		name[strcspn(name, "\n")] = '\0';
		struct image *image;
		files++;
		if (!image_open_path(&image, name, NULL))
			continue;
		struct symbolizer *s = symbolizer_new(&options);
		uint32_t id = symbolizer_image(s, &(struct symbol_image){ .path = name, .image = image, .map_fd = -1 });
		for (uint64_t a = 0; a < image->size && a < 100000; a += 37, asked++)
			(void)symbolizer_lookup(s, id, a);
		symbolizer_free(s);
		image_release(image);
	}
	pclose(f);
	ok(files >= 20, "%u files of the corpus, %u addresses: no crash", files, asked);
}

static void vdso(void)
{
	struct symbolizer *s = symbolizer_new(&options);
	struct image *own = vdso_own();
	if (own == NULL) {
		skip("this kernel has none", "clock_gettime in this kernel's own vdso");
		symbolizer_free(s);
		return;
	}
	uint32_t id = symbolizer_image(s, &(struct symbol_image){ .kind = SYMBOL_IMAGE_VDSO, .path = "[vdso]", .build_id = own->build_id, .map_fd = -1 });
	bool found = false;
	for (uint64_t a = 0x200; a < 0x2000 && !found; a += 4) {
		const char *name = symbolizer_lookup(s, id, a)->frames[0].name;
		found = name != NULL && strstr(name, "clock_gettime") != NULL;
	}
	ok(found, "clock_gettime in this kernel's own vdso");
	struct build_id other = { .size = 20, .bytes = "another kernel's" };
	id = symbolizer_image(s, &(struct symbol_image){ .kind = SYMBOL_IMAGE_VDSO, .path = "[vdso]", .build_id = other, .map_fd = -1 });
	is_u64(symbolizer_lookup(s, id, 0x800)->missing, SYMBOL_WRONG_BUILD_ID, "another kernel's vdso gets no names of this one");
	id = symbolizer_image(s, &(struct symbol_image){ .kind = SYMBOL_IMAGE_VDSO, .path = "[vdso]", .map_fd = -1 });
	is_u64(symbolizer_lookup(s, id, 0x800)->missing, SYMBOL_NO_FILE, "nor one of which no build ID is known");
	image_release(own);
	symbolizer_free(s);
}

static void hostile_names(void)
{
	scratch_write("h.s", ".text\n.globl \"a;b\\tc\"\n.type \"a;b\\tc\",@function\n\"a;b\\tc\": nop; nop\n.size \"a;b\\tc\",.-\"a;b\\tc\"\n");
	if (!shell("gcc -shared -nostdlib -o h.so h.s 2>gcc.err")) {
		skip("not assembled here", "hostile names");
		return;
	}
	struct looked l;
	look(&l, scratch_path("h.so"), &options);
	ok(strncmp(name_at(&l, l.image->segments[1].vaddr), "a;b", 3) == 0, "names come as they are; who prints them escapes them");
	look_end(&l);
}

// Every bit of a small program's headers and tables changed, one at a time: no crash, and no endless work. (Sanitizers watch.)
static void corrupted(void)
{
	struct stat st;
	shell("gcc -Os -g -gz=none -o c.o -c t.c && ld -e work -o c c.o --build-id=none");
	FILE *f = fopen(scratch_path("c"), "rb");
	if (f == NULL || fstat(fileno(f), &st) != 0) {
		skip("not built", "corrupted files");
		return;
	}
	size_t size = (size_t)st.st_size;
	unsigned char *good = malloc(size), *bad = malloc(size);
	ok(fread(good, 1, size, f) == size, "a program of %zu bytes", size);
	fclose(f);
	uint64_t at = 0, length = 0;
	nm(scratch_path("c"), "work", &at, &length);
	struct timespec from, to;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	unsigned opened = 0, tried = 0;
	struct symbolizer_options alone = options;
	alone.use_host_files = false;
	struct damages damages;
	damages_init(&damages);
	alone.damages = &damages;
	for (size_t i = 0; i < size; i += 1 + (i > 4096) * 2) {
		memcpy(bad, good, size);
		bad[i] = (unsigned char)(i % 3 == 0 ? 0xff : i % 3 == 1 ? bad[i] ^ (1 << (i / 3 % 8)) : bad[i] + 1);
		struct image *image;
		tried++;
		if (!image_open_bytes(&image, bad, size, false, "corrupted", NULL))
			continue;
		opened++;
		struct symbolizer *s = symbolizer_new(&alone);
		uint32_t id = symbolizer_image(s, &(struct symbol_image){ .path = "corrupted", .image = image, .map_fd = -1 });
		for (uint64_t k = 0; k < length; k += 5) {
			uint64_t offset;
			if (image_vaddr_to_offset(image, at + k, &offset))
				(void)symbolizer_lookup(s, id, offset);
		}
		symbolizer_free(s);
		image_release(image);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	ok(opened > tried / 2 && to.tv_sec - from.tv_sec < 60, "%u programs with one byte changed, %u of them opened: no crash", tried, opened);
	is_u64(damages.all.count, 1, "all of one name: told once");
	damages_release(&damages);
	free(good);
	free(bad);
}

int main(void)
{
	scratch_make();
	scratch_write("t.c", source);
	dirs[0] = mem_string(scratch_path("debug"));
	options = all_options;
	options.debug_dirs = dirs;
	options.no_cache = true;
	shell("mkdir debug");
	if (!shell("gcc -O2 -g -o t t.c -Wl,--build-id 2>gcc.err") || !nm(scratch_path("t"), "work", &work_at, &work_size)) {
		skip("no gcc", "programs built here");
	} else {
		debug_files();
		supplementary();
		identity();
		presets();
		many_at_once();
		hostile_names();
		corrupted();
		threads();
	section_cache();
	}
	corpus_of_broken_files();
	vdso();
	free((char *)dirs[0]);
	return tap_done();
}
