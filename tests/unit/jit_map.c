// perf-PID.map: overlaps, code compiled again, forms of numbers, hostile lines; and a map that Node.js wrote.
#include "symbols/jit_map.h"
#include "symbols/limits.h"
#include "symbols/symbolizer.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <unistd.h>

static void check(const struct jit_map *map, uint64_t addr, const char *name)
{
	const struct jit_entry *found = jit_map_find(map, addr);
	if (name == NULL)
		ok(found == NULL, "%#llx has no name", (unsigned long long)addr);
	else
		ok(found != NULL && found->length == strlen(name) && memcmp(map->text + found->name, name, found->length) == 0, "%#llx is %s (%.*s)",
		   (unsigned long long)addr, name, found != NULL ? (int)found->length : 0, found != NULL ? map->text + found->name : "");
}

static void forms(void)
{
	const char text[] =
		"1000 100 first\n"
		"1100 100 second with spaces\n"
		"1080 40 inside first\n"        // later, inside an earlier one
		"0x2000 0x10 prefixed\n"
		"2010 10 \xff\xfe raw bytes\n"
		"3000 0 empty\n"
		"3000 -1 negative\n"
		"\n"
		"zzzz 10 not hex\n"
		"3000 10\n"
		"3000 10 \n"
		"12345678123456789 10 seventeen digits\n"
		"fffffffffffffff0 20 past the end\n"
		"4000 100 old code\n"
		"4000 80 new code\n"            // compiled again at the same place, smaller
		"5000 10 crlf\r\n"
		"40f0 20 over the end of old\n"
		"6000 10 no newline";
	struct jit_map map = { 0 };
	jit_map_parse(&map, text, sizeof(text) - 1);
	is_u64(map.entries.count, 10, "entries");
	is_u64(map.skipped, 8, "lines of another form");
	check(&map, 0xfff, NULL);
	check(&map, 0x1000, "first");
	check(&map, 0x107f, "first");
	check(&map, 0x1080, "inside first");
	check(&map, 0x10bf, "inside first");
	check(&map, 0x10c0, "first");
	check(&map, 0x1100, "second with spaces");
	check(&map, 0x1200, NULL);
	check(&map, 0x200f, "prefixed");
	check(&map, 0x2010, "\xff\xfe raw bytes");
	check(&map, 0x3000, NULL);
	check(&map, 0x4000, "new code");
	check(&map, 0x4080, "old code");
	check(&map, 0x40ef, "old code");
	check(&map, 0x40f0, "over the end of old");
	check(&map, 0x410f, "over the end of old");
	check(&map, 0x4110, NULL);
	check(&map, 0x5000, "crlf");
	check(&map, 0x600f, "no newline");
	jit_map_release(&map);
}

// Against the plain definition: the last line that covers an address names it.
static void against_definition(void)
{
	enum { LINES = 400, SPACE = 2000 };
	static char text[LINES * 32];
	int last[SPACE];
	size_t n = 0;
	unsigned seed = 7;
	memset(last, -1, sizeof(last));
	for (int i = 0; i < LINES; i++) {
		seed = seed * 1103515245 + 12345;
		unsigned start = 1 + (seed >> 8) % (SPACE - 101), size = 1 + (seed >> 20) % 100;
		n += (size_t)sprintf(text + n, "%x %x f%d\n", start, size, i);
		for (unsigned a = start; a < start + size; a++)
			last[a] = i;
	}
	struct jit_map map = { 0 };
	jit_map_parse(&map, text, n);
	int wrong = 0;
	for (unsigned a = 0; a < SPACE; a++) {
		const struct jit_entry *found = jit_map_find(&map, a);
		wrong += found == NULL ? last[a] != -1 : last[a] != (int)(found - map.entries.data);
	}
	is_u64((unsigned)wrong, 0, "every address of %d overlapping lines has the last line's name", LINES);
	jit_map_release(&map);
}

static void through_symbolizer(void)
{
	char path[] = "/tmp/jit-map-test-XXXXXX";
	int fd = mkstemp(path);
	unlink(path);
	const char text[] = "7f0000001000 100 JS:*sieve /tmp/demo.js:2:15\n7f0000002000 80 _Z3fooi\n";
	ok(write(fd, text, sizeof(text) - 1) == sizeof(text) - 1, "a map is written");
	struct symbolizer_options options = { .demangle = true, .inlines = true, .lines = true };
	struct symbolizer *s = symbolizer_new(&options);
	struct symbol_image image = { .kind = SYMBOL_IMAGE_JIT, .path = "/tmp/perf-1.map", .map_fd = fd };
	uint32_t id = symbolizer_image(s, &image);
	is_u64(symbolizer_image(s, &image), id, "the same description has the same id");
	close(fd); // the symbolizer keeps its own
	const struct symbol_result *r = symbolizer_lookup(s, id, 0x7f0000001010);
	is_str(r->frames[0].name, "JS:*sieve /tmp/demo.js:2:15", "a name with spaces");
	is_u64(r->symbol_start, 0x7f0000001000, "where it starts");
	is_str(symbolizer_lookup(s, id, 0x7f0000002000)->frames[0].name, "foo(int)", "a mangled name");
	is_u64(symbolizer_lookup(s, id, 0x10)->missing, SYMBOL_NOT_COVERED, "an address that no line covers");
	uint32_t none = symbolizer_image(s, &(struct symbol_image){ .kind = SYMBOL_IMAGE_JIT, .path = "//anon", .map_fd = -1 });
	is_u64(symbolizer_lookup(s, none, 0x10)->missing, SYMBOL_NO_MAP, "no map");
	symbolizer_free(s);
}

static void nodes_own(void)
{
	const char *path = corpus_file("corpus/jit/node-perfmap/perf-25811.map.gz");
	char command[4200];
	if (path == NULL) {
		skip("no corpus", "a map that Node.js wrote");
		return;
	}
	snprintf(command, sizeof(command), "gzip -dc '%s'", path);
	FILE *f = popen(command, "r");
	static char text[200000];
	size_t size = fread(text, 1, sizeof(text), f);
	pclose(f);
	struct jit_map map = { 0 };
	jit_map_parse(&map, text, size);
	is_u64(map.entries.count, 2502, "lines of a map that Node.js wrote");
	is_u64(map.skipped, 0, "none of another form");
	check(&map, 0x18c4000, "Builtin:DeoptimizationEntry_Eager");
	check(&map, 0x18c4340 + 0x303, "Builtin:DeoptimizationEntry_Lazy");
	jit_map_release(&map);
}

// A map is read in blocks, which end anywhere; of its lines those about sampled addresses are kept, as far as the limits go.
static void in_blocks(void)
{
	const char text[] = "1000 100 first\nwhat is this\n1080 40 inside first\n2000 10 second";
	for (size_t step = 1; step < sizeof(text); step++) {
		struct jit_map map = { 0 };
		for (size_t at = 0; at < sizeof(text) - 1; at += step)
			jit_map_add(&map, text + at, at + step < sizeof(text) - 1 ? step : sizeof(text) - 1 - at);
		jit_map_end(&map);
		const struct jit_entry *inside = jit_map_find(&map, 0x1080), *last = jit_map_find(&map, 0x200f);
		ok(map.entries.count == 3 && map.skipped == 1 && map.has_odd && map.is_cut && map.odd_at == 15 && inside != NULL && last != NULL &&
		   memcmp(map.text + inside->name, "inside first", inside->length) == 0 && memcmp(map.text + last->name, "second", last->length) == 0,
		   "in blocks of %zu", step);
		jit_map_release(&map);
	}
	const uint64_t wanted[] = { 0x10bf, 0x2000 };
	struct jit_map map = { .wanted = wanted, .wanted_count = 2 };
	jit_map_parse(&map, text, sizeof(text) - 1);
	is_u64(map.entries.count, 3, "lines about addresses that are wanted");
	jit_map_release(&map);
	map = (struct jit_map){ .wanted = wanted, .wanted_count = 1 };
	jit_map_parse(&map, text, sizeof(text) - 1);
	is_u64(map.entries.count, 2, "and no others");
	is_u64(map.good, 3, "which are good all the same");
	jit_map_release(&map);
}

static void limits(void)
{
	enum { LONG = 3 << 20 };
	char *text = mem_alloc(LONG + 64);
	size_t length = (size_t)sprintf(text, "1000 10 ");
	memset(text + length, 'n', LONG);
	length += LONG;
	length += (size_t)sprintf(text + length, "\n2000 10 second\n");
	_Atomic uint64_t all = 0;
	struct jit_map map = { .bytes_of_all = &all, .bytes_of_all_most = 100000 }, other = map;
	jit_map_parse(&map, text, length);
	is_u64(jit_map_find(&map, 0x1000)->length, SYMBOL_NAME_BYTES_MOST + 1, "a long name is cut, and known to be");
	check(&map, 0x2000, "second");
	ok(all > SYMBOL_NAME_BYTES_MOST && all == map.bytes, "what it takes is known");
	jit_map_parse(&other, text, length);
	ok(other.left_out == 1 && jit_map_find(&other, 0x1000) == NULL, "all maps together have a limit");
	check(&other, 0x2000, "second");
	jit_map_release(&map);
	jit_map_release(&other);
	is_u64(all, 0, "and give back what they took");
	map = (struct jit_map){ .bytes_most = 200 };
	for (int i = 0; i < 100; i++)
		jit_map_add(&map, "3000 10 one of many\n", 20);
	jit_map_end(&map);
	ok(map.bytes <= 200 && map.entries.count > 0 && map.entries.count + map.left_out == 100, "one map has a limit, and says what it left out");
	jit_map_release(&map);
	free(text);
}

int main(void)
{
	forms();
	in_blocks();
	limits();
	against_definition();
	through_symbolizer();
	nodes_own();
	return tap_done();
}
