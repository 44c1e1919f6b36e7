// Bytes of code that no image has: which reading of a page stands for a sample's time, what stands together, and that an id is that of the same bytes for ever.
#include "load/code_bytes.h"

#include <string.h>
#include <unistd.h>

#include "tests/tap.h"
#include "unwind/code_views.h"

enum { PID = 7, BASE = 0x40000000 };

static void add(struct names *names, uint32_t pid, unsigned page, char letter, uint64_t from_ns, uint64_t until_ns)
{
	uint8_t *bytes = arena_alloc(&names->arena, NAMES_PAGE_BYTES);
	memset(bytes, letter, NAMES_PAGE_BYTES);
	bytes[0] = (uint8_t)page;
	names_page(names, &(struct name_page){ .pid = pid, .addr = BASE + (uint64_t)page * NAMES_PAGE_BYTES, .from_ns = from_ns, .until_ns = until_ns,
	                                       .gone_ns = UINT64_MAX, .bytes = bytes });
}

// The letters around an address, a page each; where the first page is.
static const char *around(struct code_bytes *code, int32_t pid, uint64_t time_ns, unsigned page, uint64_t *id, uint64_t *first)
{
	static char text[64];
	struct unwind_code got = code_bytes_in_memory(code, pid, time_ns, BASE + (uint64_t)page * NAMES_PAGE_BYTES + 100);
	size_t n = 0;
	*id = got.id;
	*first = got.id != 0 ? (got.start - BASE) / NAMES_PAGE_BYTES : 0;
	for (uint64_t at = got.start; got.id != 0 && at < got.end && n < sizeof(text) - 1; at += NAMES_PAGE_BYTES) {
		const uint8_t *bytes = got.bytes + (at - got.start);
		bool is_its = bytes[0] == (at - BASE) / NAMES_PAGE_BYTES && memcmp(bytes + 1, bytes + 2, NAMES_PAGE_BYTES - 2) == 0;
		text[n++] = is_its ? (char)bytes[1] : '?';
	}
	text[n] = '\0';
	return text;
}

static void in_memory(void)
{
	struct names names = { 0 }, back = { 0 };
	struct buf out = { 0 };
	struct err err = { 0 };
	uint64_t id, first, other, again;
	for (unsigned page = 20; page < 60; page++) // long
		add(&names, PID, page, 'x', 50, 50);
	add(&names, PID, 5, 'a', 100, 200);
	add(&names, PID, 6, 'b', 100, 100);
	add(&names, PID, 6, 'c', 201, 300);
	add(&names, PID, 8, 'd', 100, 100);
	add(&names, PID + 1, 6, 'e', 100, 100);
	names_encode(&names, &out);
	ok(names_decode(&back, out.data, out.size, &err), "names come back (%s)", err.text);
	struct code_bytes *code = code_bytes_new(&back);

	is_str(around(code, PID, 150, 6, &id, &first), "ab", "pages that stand together are one view");
	is_u64(first, 5, "from the first of them on");
	is_str(around(code, PID, 150, 5, &other, &first), "ab", "also from the other of them");
	is_u64(other, id, "the same one");
	is_str(around(code, PID, 250, 6, &other, &first), "ac", "later one of them is another");
	ok(other != id, "and so is the view");
	is_str(around(code, PID, 150, 6, &again, &first), "ab", "a sample of before, once more");
	ok(again != other && again != 0, "the same bytes or not, it is no other's id");
	is_str(around(code, PID, 150, 8, &again, &first), "d", "behind a gap stands another view");
	ok(again != id && again != other, "with another id");
	is_str(around(code, PID, 150, 7, &again, &first), "", "in the gap nothing does");
	is_u64(again, 0, "and that has no id");
	is_str(around(code, PID + 1, 150, 6, &again, &first), "e", "another process");
	is_str(around(code, PID + 2, 150, 6, &again, &first), "", "and one of which nothing was read");
	for (unsigned page = 24; page < 56; page++) {
		const char *text = around(code, PID, 150, page, &again, &first);
		const unsigned around_it = CODE_AROUND_BYTES / NAMES_PAGE_BYTES;
		if (first > page - around_it || first + strlen(text) < page + around_it + 1 || strspn(text, "x") != strlen(text))
			ok(false, "page %u: %s from %llu on", page, text, (unsigned long long)first);
	}
	ok(true, "CODE_AROUND_BYTES to either side are there as far as they were read");
	code_bytes_free(code);
	names_release(&names);
	names_release(&back);
	buf_release(&out);
}

static void in_dump(void)
{
	struct code_bytes *code = code_bytes_new(NULL);
	uint8_t file[256];
	for (unsigned i = 0; i < sizeof(file); i++)
		file[i] = (uint8_t)i;
	char path[] = "/tmp/code_bytes.XXXXXX";
	int fd = mkstemp(path);
	unlink(path);
	ok(fd >= 0 && write(fd, file, sizeof(file)) == (ssize_t)sizeof(file), "a dump");
	struct unwind_code a = code_bytes_in_dump(code, &(struct code_piece){ .start = 0x1000, .size = 100, .offset = 50, .dump = 3, .fd = fd });
	ok(a.id != 0 && a.start == 0x1000 && a.end == 0x1064 && memcmp(a.bytes, file + 50, 100) == 0, "a piece of it");
	struct unwind_code b = code_bytes_in_dump(code, &(struct code_piece){ .start = 0x1000, .size = 100, .offset = 60, .dump = 3, .fd = fd });
	ok(b.id != 0 && b.id != a.id && memcmp(b.bytes, file + 60, 100) == 0, "other code that came to the same place");
	struct unwind_code c = code_bytes_in_dump(code, &(struct code_piece){ .start = 0x1000, .size = 100, .offset = 60, .dump = 3, .fd = fd });
	is_u64(c.id, b.id, "the same once more");
	is_u64(code_bytes_in_dump(code, &(struct code_piece){ .start = 0x1000, .size = 100, .offset = 200, .dump = 3, .fd = fd }).id, 0, "the dump is cut there");
	is_u64(code_bytes_in_dump(code, &(struct code_piece){ .start = 0x1000, .size = UINT64_MAX, .offset = 0, .dump = 3, .fd = fd }).id, 0, "no piece is that large");
	is_u64(code_bytes_in_memory(code, 1, 1, 1).id, 0, "a recording without names has no pages");
	close(fd);
	code_bytes_free(code);
}

// ---------------------------------------------------------------- ids
enum { ROUNDS = 20000, PLACES = 40, SPACES = 12 };
static struct shown { uint64_t id, start, end, sum; } shown[1 << 16];

struct pages { uint8_t bytes[4][CODE_PAGE_BYTES]; unsigned kind[SPACES][PLACES]; unsigned space; };

static struct code_page random_page(void *context, uint64_t addr)
{
	struct pages *pages = context;
	uint64_t place = addr / CODE_PAGE_BYTES;
	unsigned kind = place < PLACES ? pages->kind[pages->space][place] : 0;
	return kind > 0 ? (struct code_page){ pages->bytes[kind - 1], kind } : (struct code_page){ 0 };
}

// Spaces whose pages change at random: whenever an id comes again, so do place and bytes.
static void ids(void)
{
	static struct pages pages;
	struct code_views *views = code_views_new();
	uint64_t stamps[SPACES] = { 0 }, seed = 1;
	size_t count = 0, bad = 0, none = 0;
	for (unsigned i = 0; i < 4; i++)
		memset(pages.bytes[i], (int)i + 1, CODE_PAGE_BYTES);
	for (unsigned round = 0; round < ROUNDS; round++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
		pages.space = (unsigned)(seed >> 40) % SPACES;
		unsigned place = (unsigned)(seed >> 33) % PLACES;
		if (seed >> 60 == 0) {
			pages.kind[pages.space][place] = (unsigned)(seed >> 20) % 5;
			stamps[pages.space]++;
		}
		struct unwind_code code = code_views_at(views, pages.space, stamps[pages.space], (uint64_t)place * CODE_PAGE_BYTES + 5, random_page, &pages);
		none += code.id == 0;
		if ((code.id == 0) != (pages.kind[pages.space][place] == 0))
			bad++;
		uint64_t sum = 0;
		for (uint64_t at = code.start; code.id != 0 && at < code.end; at += CODE_PAGE_BYTES) {
			sum = sum * 31 + code.bytes[at - code.start + 17];
			bad += code.bytes[at - code.start + 17] != pages.kind[pages.space][at / CODE_PAGE_BYTES];
		}
		size_t i = 0;
		while (i < count && shown[i].id != code.id)
			i++;
		if (i == count && code.id != 0 && count < sizeof(shown) / sizeof(shown[0]))
			shown[count++] = (struct shown){ code.id, code.start, code.end, sum };
		else if (code.id != 0 && (shown[i].start != code.start || shown[i].end != code.end || shown[i].sum != sum))
			bad++;
	}
	ok(none > 100 && none < ROUNDS - 100 && count > 100, "%zu views of pages that change at random", count);
	is_u64(bad, 0, "an id is that of the same bytes at the same place, for ever");
	code_views_free(views);
}

int main(void)
{
	in_memory();
	in_dump();
	ids();
	return tap_done();
}
