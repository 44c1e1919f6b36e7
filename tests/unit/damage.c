// Files that are cut or contradict themselves: each kind is told of once, with file, place and expectation, however many addresses are asked.
#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "symbols/damage.h"
#include "tests/symbols.h"

static const char source[] =
	"static inline __attribute__((always_inline)) int inner(int x, int *p) { p[x & 7] ^= x; return x * 3 + p[1]; }\n"
	"__attribute__((noinline)) int work(int x, int *p) { for (int i = 0; i < x; i++) x += inner(i, p); return x; }\n"
	"int main(int argc, char **argv) { static int t[8]; (void)argv; return work(argc, t) & 1; }\n";
static const char *dirs[2];
static uint64_t work_at, work_size;

enum { LOOKUPS = 4000 };

// Asks for thousands of addresses of `path`; the texts of what is damaged go into `out`. How many there are.
static size_t look_over(const char *path, unsigned jobs, struct damages *out, enum symbol_missing *missing)
{
	struct symbolizer_options options = all_options;
	struct image *good;
	options.debug_dirs = dirs;
	options.no_cache = true;
	options.jobs = jobs;
	options.damages = out;
	damages_init(out);
	if (!image_open_path(&good, scratch_path("t"), NULL))
		return 0;
	struct symbolizer *s = symbolizer_new(&options);
	uint32_t id = symbolizer_image(s, &(struct symbol_image){ .path = path, .build_id = good->build_id, .map_fd = -1 });
	VEC(struct symbol_query) queries = { 0 };
	for (uint64_t i = 0; i < LOOKUPS; i++) {
		uint64_t offset = 0;
		if (image_vaddr_to_offset(good, work_at + i % work_size, &offset))
			vec_push(&queries, (struct symbol_query){ id, offset + i / work_size * 64 });
	}
	symbolizer_resolve(s, queries.data, queries.count, 0, NULL);
	struct symbol_image_status status = symbolizer_image_status(s, id);
	*missing = status.missing;
	ok((status.damage != NULL) == (out->all.count > 0), "the image's status says so");
	vec_release(&queries);
	symbolizer_free(s);
	image_release(good);
	return out->all.count;
}

// One text, of `file`, that has `words` in it.
static void told(const char *what, const char *program, const char *file, const char *words)
{
	for (unsigned jobs = 1; jobs <= 2; jobs++) {
		struct damages found;
		enum symbol_missing missing;
		is_u64(look_over(scratch_path("%s", program), jobs, &found, &missing), 1, "%s: told once (%u threads)", what, jobs);
		const char *text = found.all.count > 0 ? found.all.data[0].text : "";
		bool is_good = strstr(text, file) != NULL && strstr(text, words) != NULL && strstr(text, "expected") != NULL &&
			(strstr(text, ": offset ") != NULL || strstr(text, " bytes, expected") != NULL);
		ok(is_good, "%s: the file, the place, what was expected (%s)", what, words);
		if (!is_good)
			diag("%s", text);
		damages_release(&found);
	}
}

static void untold(const char *what, const char *program, enum symbol_missing wanted)
{
	struct damages found;
	enum symbol_missing missing;
	is_u64(look_over(scratch_path("%s", program), 1, &found, &missing), 0, "%s: nothing is told", what);
	for (size_t i = 0; i < found.all.count; i++)
		diag("%s", found.all.data[i].text);
	is_u64(missing, wanted, "%s: %s", what, symbol_missing_text(wanted));
	damages_release(&found);
}

static void poke(const char *name, uint64_t offset, uint64_t value, size_t size)
{
	int fd = open(scratch_path("%s", name), O_WRONLY | O_CLOEXEC);
	ok(fd >= 0 && pwrite(fd, &value, size, (off_t)offset) == (ssize_t)size, "%s: a byte changed", name);
	close(fd);
}

// Where a section's contents are in the file, and where its header is.
static uint64_t section_at(const char *name, const char *section, uint64_t *header)
{
	struct image *image;
	uint64_t at = 0;
	if (!image_open_path(&image, scratch_path("%s", name), NULL))
		return 0;
	const struct image_section *found = image_find_section(image, section);
	Elf64_Ehdr elf;
	memcpy(&elf, image->data, sizeof(elf));
	if (found != NULL) {
		at = found->offset;
		*header = elf.e_shoff + (uint64_t)(found - image->sections) * elf.e_shentsize;
	}
	ok(found != NULL, "%s has %s", name, section);
	image_release(image);
	return at;
}

static void tables(void)
{
	uint64_t header = 0, at;
	struct stat st;
	untold("a whole program", "t", SYMBOL_FOUND);
	shell("cp t cut && truncate -s 12000 cut");
	told("cut", "cut", "/cut: ", "a section table");
	shell("cp t cut && truncate -s 40 cut");
	told("cut inside its header", "cut", "/cut: ", "an ELF header");
	shell(": >cut");
	told("empty", "cut", "/cut: ", "an ELF file");
	shell("cp t bad");
	poke("bad", offsetof(Elf64_Ehdr, e_shoff), 0xffffff, 4);
	told("section table elsewhere", "bad", "/bad: ", "offset 0xffffff: a section table");
	shell("cp t bad");
	poke("bad", offsetof(Elf64_Ehdr, e_shstrndx), 0xf00, 2);
	told("section names in no section", "bad", "/bad: ", "section names in section 3840");
	shell("cp t bad");
	section_at("bad", ".strtab", &header);
	stat(scratch_path("bad"), &st);
	poke("bad", header + offsetof(Elf64_Shdr, sh_offset), (uint64_t)st.st_size - 1, 8);
	told("string table past the end", "bad", "/bad: ", ".strtab has");
	shell("cp t bad");
	section_at("bad", ".symtab", &header);
	poke("bad", header + offsetof(Elf64_Shdr, sh_link), 0x7777, 4);
	told("symbol table without names", "bad", "/bad: ", "section .symtab: expected its names");
	shell("cp t bad");
	poke("bad", header + offsetof(Elf64_Shdr, sh_entsize), 7, 8);
	told("symbols of another size", "bad", "/bad: ", "section .symtab: expected entries of 24 bytes");
	shell("cp t bad");
	at = section_at("bad", ".symtab", &header);
	poke("bad", at + 5 * sizeof(Elf64_Sym), 0x7fffffff, 4);
	told("a symbol named beyond its names", "bad", "/bad: ", "section .symtab: expected a symbol whose name");
}

static void dwarf(void)
{
	uint64_t header = 0, at;
	shell("cp t bad");
	at = section_at("bad", ".debug_info", &header);
	poke("bad", at, 0x7fffffff, 4);
	told("a unit longer than its section", "bad", "/bad: ", "section .debug_info: offset 0");
	shell("cp t bad");
	poke("bad", at + 4, 99, 2);
	told("a unit of another version", "bad", "/bad: ", "found version 99");
	shell("cp t bad");
	at = section_at("bad", ".debug_line", &header);
	poke("bad", at + 4, 99, 2);
	told("a line table of another version", "bad", "/bad: ", "section .debug_line: offset 0");
	shell("cp t bad");
	at = section_at("bad", ".debug_abbrev", &header);
	poke("bad", at, 0, 1);
	told("no abbreviations", "bad", "/bad: ", "by the abbreviations");
	if (shell("objcopy --compress-debug-sections=zlib t z")) {
		shell("cp z bad");
		at = section_at("bad", ".debug_info", &header);
		poke("bad", at, 77, 4);
		told("an unknown compression", "bad", "/bad: ", "compression type 77");
		shell("cp z bad");
		at = section_at("bad", ".debug_abbrev", &header);
		poke("bad", at + 24 + 8, 0xffffffffffffffff, 8);
		told("a broken zlib stream", "bad", "/bad: ", "section .debug_abbrev");
	}
}

static void debug_files(void)
{
	char id[128] = "";
	struct image *image;
	image_open_path(&image, scratch_path("t"), NULL);
	build_id_hex(&image->build_id, id);
	image_release(image);
	shell("objcopy --only-keep-debug t t.debug && strip -o stripped t && mkdir -p debug/.build-id/%.2s && cp t.debug debug/.build-id/%.2s/%s.debug", id, id, id + 2);
	untold("a debug file", "stripped", SYMBOL_FOUND);
	shell("truncate -s -1000 debug/.build-id/%.2s/%s.debug", id, id + 2);
	told("a debug file that is cut", "stripped", ".debug: ", "a section table");
	shell("echo 'no ELF file, but there' >debug/.build-id/%.2s/%s.debug", id, id + 2);
	told("a debug file that is something else", "stripped", ".debug: ", "not an ELF file");
	shell("rm -r debug");
	untold("a stripped program", "stripped", SYMBOL_NO_SYMBOLS);
	if (shell("strip --strip-debug -o mini t && xz -kf mini && objcopy --add-section .gnu_debugdata=mini.xz stripped minied")) {
		uint64_t header = 0, at = section_at("minied", ".gnu_debugdata", &header);
		untold("a mini debug file", "minied", SYMBOL_FOUND);
		poke("minied", at + 40, 0xffffffffffffffff, 8);
		told("a broken mini debug file", "minied", "/minied: ", "section .gnu_debugdata: expected an xz stream");
	} else {
		skip("no xz", "a broken mini debug file");
	}
	if (shell("command -v dwz >/dev/null && cp t d1 && sed 's/x \\* 3/x * 5/' t.c >o.c && gcc -O2 -g -o d2 o.c && dwz -m common.dwz d1 d2 2>/dev/null && "
	          "readelf -SW d1 2>/dev/null | grep -q altlink")) {
		untold("with a supplementary file", "d1", SYMBOL_FOUND);
		shell("truncate -s -200 common.dwz");
		told("a supplementary file that is cut", "d1", "/common.dwz: ", "a section table");
	} else {
		skip("no dwz", "a supplementary file that is cut");
	}
	if (shell("command -v dwp >/dev/null && gcc -O2 -g -gsplit-dwarf -Wl,--build-id -c -o s.o t.c && gcc -Wl,--build-id -o split s.o && dwp -e split -o split.dwp 2>/dev/null")) {
		shell("truncate -s -200 split.dwp");
		shell("cp t t.kept && cp split t");
		nm(scratch_path("t"), "work", &work_at, &work_size);
		told("a package that is cut", "split", "/split.dwp: ", "a section table");
		shell("mv t.kept t");
		nm(scratch_path("t"), "work", &work_at, &work_size);
	} else {
		skip("no dwp", "a package that is cut");
	}
}

static void others(void)
{
	struct damages found;
	enum symbol_missing missing;
	shell("sed 's/x \\* 3/x * 5/' t.c >o.c && gcc -O2 -g -o other o.c -Wl,--build-id");
	untold("another build", "other", SYMBOL_WRONG_BUILD_ID);
	shell("cp other other.cut && truncate -s 12000 other.cut");
	untold("another build, cut", "other.cut", SYMBOL_WRONG_BUILD_ID);
	untold("a file that is not there", "nowhere", SYMBOL_NO_FILE);
	shell("cp t bad && truncate -s 12000 bad");
	look_over(scratch_path("bad"), 1, &found, &missing);
	is_u64(missing, SYMBOL_BAD_FILE, "a damaged file is not called stripped");
	damages_release(&found);
}

static void map_says(const char *what, const char *text, const char *words)
{
	struct symbolizer_options options = all_options;
	struct damages found;
	damages_init(&found);
	options.damages = &found;
	scratch_write("perf-1.map", text);
	int fd = open(scratch_path("perf-1.map"), O_RDONLY | O_CLOEXEC);
	struct symbolizer *s = symbolizer_new(&options);
	uint32_t id = symbolizer_image(s, &(struct symbol_image){ .kind = SYMBOL_IMAGE_JIT, .path = "//anon of 1", .map_path = "/tmp/perf-1.map", .map_fd = fd });
	for (uint64_t i = 0; i < LOOKUPS; i++)
		(void)symbolizer_lookup(s, id, 0x1000 + i);
	is_u64(found.all.count, words != NULL, "%s: how often it is told", what);
	if (words != NULL && found.all.count == 1)
		ok(strstr(found.all.data[0].text, words) != NULL, "%s: %s", what, found.all.data[0].text);
	symbolizer_free(s);
	close(fd);
	damages_release(&found);
}

int main(void)
{
	scratch_make();
	scratch_write("t.c", source);
	dirs[0] = mem_string(scratch_path("debug"));
	if (!shell("gcc -O2 -g -o t t.c -Wl,--build-id") || !nm(scratch_path("t"), "work", &work_at, &work_size)) {
		skip("no compiler", "damaged files");
		return tap_done();
	}
	tables();
	dwarf();
	debug_files();
	others();
	map_says("a whole map", "1000 10 f\n1010 10 g\n\n1020 0 h\n", NULL);
	map_says("a map that is cut", "1000 10 f\n1010 10 long_na", "/tmp/perf-1.map: offset 0xa: the last line is cut");
	map_says("a map with another line", "1000 10 f\nhello\n1010 10 g\n", "/tmp/perf-1.map: offset 0xa: expected a line");
	free((char *)dirs[0]);
	return tap_done();
}
