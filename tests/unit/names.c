#include "perfdata/names.h"

#include "tests/tap.h"
#include "proc/dso.h"

// A page of one letter, read from `from_ns` to `until_ns`, of what stood there from `born_ns` to `gone_ns`.
static void add_page(struct names *names, uint32_t pid, uint64_t addr, char letter, uint64_t born_ns, uint64_t from_ns, uint64_t until_ns, uint64_t gone_ns)
{
	uint8_t *bytes = arena_alloc(&names->arena, NAMES_PAGE_BYTES);
	memset(bytes, letter, NAMES_PAGE_BYTES);
	names_page(names, &(struct name_page){ .pid = pid, .addr = addr, .from_ns = from_ns, .until_ns = until_ns, .born_ns = born_ns, .gone_ns = gone_ns, .bytes = bytes });
}

static void fill_pages(struct names *names)
{
	add_page(names, 7, 0x7000, 'b', 0, 200, 300, UINT64_MAX);
	add_page(names, 7, 0x7000, 'a', 0, 100, 100, UINT64_MAX);
	add_page(names, 7, 0x7000, 'c', 0, 301, 400, 500); // then other code is mapped there
	add_page(names, 7, 0x7000, 'd', 500, 600, 600, 700); // and the process ends
	add_page(names, 7, 0x7000, 'e', 900, 1000, 1000, UINT64_MAX); // its number is another's
	add_page(names, 7, 0x8000, 'f', 0, 5, 5, UINT64_MAX);
	add_page(names, 6, UINT64_MAX - NAMES_PAGE_BYTES + 1, 'g', 0, 0, UINT64_MAX - 1, UINT64_MAX);
}

static void fill(struct names *names)
{
	names_meta(names, "host", "%s", "db-3");
	names_meta(names, "decision.1", "%s", "");
	struct name_image *image = vec_add(&names->images);
	image->path = "/usr/lib/libfoo.so";
	image->kind = DSO_FILE;
	build_id_parse(&image->build_id, "00112233445566778899aabbccddeeff00112233");
	vec_push(&image->frames, (struct name_frame){ "inner", "a.c", 4000000000u, true });
	vec_push(&image->frames, (struct name_frame){ "outer", NULL, 0, false });
	vec_push(&image->frames, (struct name_frame){ NULL, "", 0, false });
	vec_push(&image->addrs, (struct name_addr){ 0, 0, NULL, 2, 1 });
	vec_push(&image->addrs, (struct name_addr){ 0x1000, 0xff0, "_Z5outerv", 0, 2 });
	vec_push(&image->addrs, (struct name_addr){ UINT64_MAX, 0, "", 0, 3 });
	vec_push(&image->aliases, (struct name_alias){ 0xff0, "other" });
	vec_push(&image->aliases, (struct name_alias){ 0xff0, "_Z5thirdv" });
	vec_push(&image->aliases, (struct name_alias){ UINT64_MAX, "" });
	vec_push(&image->functions, (struct name_function){ 0x400, 0x20, 0x1400, 0, NULL });
	vec_push(&image->functions, (struct name_function){ 0xff0, 0, 0xf0, UINT32_MAX, "a.c" });
	vec_push(&image->functions, (struct name_function){ UINT64_MAX, 0, 0, 0, NULL });
	image = vec_add(&names->images);
	vec_push(&image->calls, (struct name_call){ 0x10, "other" });
	vec_push(&image->calls, (struct name_call){ UINT64_MAX - 1, "_Z5thirdv" });
	image->path = "//anon";
	image->kind = DSO_ANON;
	image->pid = 4242;
	image->since_ns = 77;
	names_vdso(names, "\177ELF, or so", 12);
	names_vdso(names, "another", 7);
	names_vdso(names, "\177ELF, or so", 12); // is there
	names_vdso(names, "", 0);
	names_jit(names, &(struct name_jit){ .pid = 7, .start = 0x7000, .time_ns = 20, .size = 0 });
	names_jit(names, &(struct name_jit){ .pid = 7, .start = 0x7000, .time_ns = 10, .bytes = "first", .size = 5 });
	names_jit(names, &(struct name_jit){ .pid = 7, .start = 0x7000, .time_ns = 30, .bytes = "later", .size = 5 });
	names_jit(names, &(struct name_jit){ .pid = 6, .start = UINT64_MAX, .time_ns = UINT64_MAX, .bytes = "other", .size = 5 });
	names_jit(names, &(struct name_jit){ .pid = 6, .start = 1, .bytes = "too large", .size = NAMES_JIT_BYTES_MOST + 1 });
	fill_pages(names);
}

static bool same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

// What stood at an address, as text; "-": nothing is known, "": nothing was found.
static const char *jit_at(const struct names *names, uint32_t pid, uint64_t start, uint64_t time_ns)
{
	static char text[8];
	const struct name_jit *jit = names_jit_at(names, pid, start, time_ns);

	if (jit == NULL)
		return "-";
	snprintf(text, sizeof(text), "%.*s", (int)jit->size, jit->size > 0 ? (const char *)jit->bytes : "");
	return text;
}

static void jits(const struct names *names)
{
	is_u64(names->jits.count, 4, "JIT code");
	is_str(jit_at(names, 7, 0x7000, 9), "-", "before the first");
	is_str(jit_at(names, 7, 0x7000, 10), "first", "from its time on");
	is_str(jit_at(names, 7, 0x7000, 29), "", "then code of which nothing was found");
	is_str(jit_at(names, 7, 0x7000, UINT64_MAX), "later", "then other code");
	is_str(jit_at(names, 7, 0x7001, 10), "-", "not where code begins");
	is_str(jit_at(names, 8, 0x7000, 10), "-", "in another process");
	is_str(jit_at(names, 6, UINT64_MAX, UINT64_MAX), "other", "the largest numbers");
}

// The letter of the page that stands for a time; '-': none.
static char page_at(const struct names *names, uint32_t pid, uint64_t addr, uint64_t time_ns)
{
	const struct name_page *page = names_page_at(names, pid, addr, time_ns);
	bool is_whole = page != NULL && memcmp(page->bytes, page->bytes + 1, NAMES_PAGE_BYTES - 1) == 0;
	return page == NULL ? '-' : is_whole ? (char)page->bytes[0] : '?';
}

static void is_page(const struct names *names, uint32_t pid, uint64_t addr, uint64_t time_ns, char letter, const char *what)
{
	char got[2] = { page_at(names, pid, addr, time_ns) }, wanted[2] = { letter };
	is_str(got, wanted, "%s", what);
}

static void pages(const struct names *names)
{
	is_u64(names->pages.count, 7, "pages");
	is_page(names, 7, 0x7000, 0, 'a', "before the first reading: that one");
	is_page(names, 7, 0x7000, 100, 'a', "when it was read");
	is_page(names, 7, 0x7000, 150, 'a', "as long after one reading as before the next");
	is_page(names, 7, 0x7000, 151, 'b', "nearer to the next");
	is_page(names, 7, 0x7000, 250, 'b', "between two readings that found the same");
	is_page(names, 7, 0x7000, 300, 'b', "at the last of them");
	is_page(names, 7, 0x7000, 301, 'c', "and at the next that did not");
	is_page(names, 7, 0x7000, 499, 'c', "until other code was mapped there, near as its reading may be");
	is_page(names, 7, 0x7000, 500, 'd', "which counts from then on");
	is_page(names, 7, 0x7000, 699, 'd', "until the process ends");
	is_page(names, 7, 0x7000, 700, '-', "then nobody knows");
	is_page(names, 7, 0x7000, 899, '-', "until there is another one of that number");
	is_page(names, 7, 0x7000, 900, 'e', "whose page it is then");
	is_page(names, 7, 0x7000, UINT64_MAX - 1, 'e', "to the end");
	is_page(names, 7, 0x6000, 100, '-', "not the page before");
	is_page(names, 7, 0x8000, 100, 'f', "the page behind");
	is_page(names, 7, 0x9000, 100, '-', "and none behind that");
	is_page(names, 8, 0x7000, 100, '-', "in no other process");
	is_page(names, 6, UINT64_MAX - NAMES_PAGE_BYTES + 1, 7, 'g', "the largest numbers");
}

// Times that no recorder writes are refused.
static void bad_pages(void)
{
	static const struct { uint64_t born, from, until, gone; const char *what; } cases[] = {
		{ 11, 10, 20, 30, "read before it was there" }, { 0, 10, 9, 30, "read last before it was read first" }, { 0, 10, 20, 20, "read when it was gone" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct names names = { 0 }, back = { 0 };
		struct buf out = { 0 };
		struct err err = { 0 };
		add_page(&names, 1, 0x1000, 'x', cases[i].born, cases[i].from, cases[i].until, cases[i].gone);
		names_encode(&names, &out);
		ok(!names_decode(&back, out.data, out.size, &err) && strstr(err.text, "times of a page") != NULL, "a page %s: %s", cases[i].what, err.text);
		names_release(&names);
		names_release(&back);
		buf_release(&out);
	}
	struct names many = { 0 };
	for (size_t i = 0; i < NAMES_PAGES_MOST + 10; i++)
		add_page(&many, 1, i * NAMES_PAGE_BYTES, 'x', 0, 1, 1, UINT64_MAX);
	is_u64(many.pages.count, NAMES_PAGES_MOST, "no more pages than there may be");
	names_release(&many);
}

static void compare(const struct names *a, const struct names *b)
{
	is_u64(b->images.count, a->images.count, "images");
	is_u64(b->meta.count, a->meta.count, "meta pairs");
	is_str(names_meta_get(b, "host"), "db-3", "a meta value");
	is_str(names_meta_get(b, "decision.1"), "", "an empty meta value");
	ok(names_meta_get(b, "hos") == NULL, "no such key");
	is_u64(b->vdsos.count, 2, "vdsos, each once");
	ok(b->vdsos.count == 2 && b->vdsos.data[0].size == 12 && memcmp(b->vdsos.data[0].bytes, "\177ELF, or so", 12) == 0 &&
	   b->vdsos.data[1].size == 7 && memcmp(b->vdsos.data[1].bytes, "another", 7) == 0, "their bytes");
	for (size_t i = 0; i < a->images.count && i < b->images.count; i++) {
		const struct name_image *x = &a->images.data[i], *y = &b->images.data[i];
		ok(same_text(x->path, y->path) && x->kind == y->kind && x->pid == y->pid && x->since_ns == y->since_ns && x->build_id.size == y->build_id.size &&
		   memcmp(x->build_id.bytes, y->build_id.bytes, x->build_id.size) == 0, "image %zu", i);
		bool good = x->frames.count == y->frames.count && x->addrs.count == y->addrs.count;
		for (size_t j = 0; good && j < x->frames.count; j++) {
			const struct name_frame *f = &x->frames.data[j], *g = &y->frames.data[j];
			good = same_text(f->name, g->name) && same_text(f->file, g->file) && f->line == g->line && f->is_inlined == g->is_inlined;
		}
		ok(good, "its frames");
		for (size_t j = 0; good && j < x->addrs.count; j++) {
			const struct name_addr *f = &x->addrs.data[j], *g = &y->addrs.data[j];
			good = f->image_addr == g->image_addr && f->symbol_start == g->symbol_start && same_text(f->linkage_name, g->linkage_name) &&
			       f->first_frame == g->first_frame && f->frame_count == g->frame_count;
		}
		ok(good, "its addresses");
		good = x->aliases.count == y->aliases.count && x->calls.count == y->calls.count;
		for (size_t j = 0; good && j < x->aliases.count; j++)
			good = x->aliases.data[j].symbol_start == y->aliases.data[j].symbol_start &&
			       same_text(x->aliases.data[j].linkage_name, y->aliases.data[j].linkage_name);
		for (size_t j = 0; good && j < x->calls.count; j++)
			good = x->calls.data[j].image_addr == y->calls.data[j].image_addr && same_text(x->calls.data[j].callee, y->calls.data[j].callee);
		ok(good, "its aliases and calls");
		good = x->functions.count == y->functions.count;
		for (size_t j = 0; good && j < x->functions.count; j++) {
			const struct name_function *f = &x->functions.data[j], *g = &y->functions.data[j];
			good = f->start == g->start && f->size == g->size && f->vaddr == g->vaddr && f->unit == g->unit && same_text(f->source, g->source);
		}
		ok(good, "what is known of its functions beside names");
	}
}

int main(void)
{
	struct names names = { 0 }, back = { 0 };
	struct buf out = { 0 };
	struct err err = { 0 };
	fill(&names);
	names_encode(&names, &out);
	ok(names_decode(&back, out.data, out.size, &err), "comes back (%s)", err.text);
	compare(&names, &back);
	jits(&back);
	pages(&back);
	names_release(&back);
	bad_pages();

	// A tag that a later version may add.
	struct buf more = { 0 };
	buf_u32(&more, 99);
	buf_u32(&more, 0);
	buf_u64(&more, 5);
	buf_add(&more, "hello", 5);
	buf_add(&more, out.data, out.size);
	back = (struct names){ 0 };
	ok(names_decode(&back, more.data, more.size, &err), "an unknown tag is skipped");
	is_u64(back.images.count, 2, "and what follows is read");
	names_release(&back);
	buf_release(&more);

	// Where no function has aliases, nothing is said of them: what an older version wrote and reads.
	struct buf plain = { 0 };
	struct names without = { 0 };
	fill(&without);
	without.images.data[0].functions.count = without.images.data[0].aliases.count = without.images.data[1].calls.count = without.vdsos.count = without.jits.count = without.pages.count = 0;
	names_encode(&without, &plain);
	ok(plain.size + 16 < out.size && memcmp(plain.data, out.data, plain.size) == 0, "functions, aliases, vdsos and JIT code stand behind the rest");
	back = (struct names){ 0 };
	ok(names_decode(&back, plain.data, plain.size, &err) && back.images.count == 2, "a recording without them");
	names_release(&back);
	names_release(&without);
	buf_release(&plain);

	// Cut and flipped: never out of bounds (the sanitizers watch), and an error names an offset.
	bool errors_named = true;
	const size_t without_pages = out.size - names.pages.count * NAMES_PAGE_BYTES, step = 97; // in pages most bytes are like any other
	for (size_t size = 0; size < out.size; size += size < without_pages ? 1 : step) {
		char *copy = mem_copy(out.data, size);
		back = (struct names){ 0 };
		err = (struct err){ 0 };
		if (!names_decode(&back, copy, size, &err))
			errors_named = errors_named && err.status == STATUS_INPUT && strstr(err.text, "0x") != NULL;
		names_release(&back);
		free(copy);
	}
	size_t refused = 0;
	for (size_t at = 0; at < out.size; at += at < without_pages ? 1 : step) {
		for (int bit = 0; bit < 8; bit++) {
			char *copy = mem_copy(out.data, out.size);
			copy[at] ^= (char)(1 << bit);
			back = (struct names){ 0 };
			err = (struct err){ 0 };
			if (!names_decode(&back, copy, out.size, &err)) {
				refused++;
				errors_named = errors_named && err.status == STATUS_INPUT && strstr(err.text, "0x") != NULL;
			}
			names_release(&back);
			free(copy);
		}
	}
	ok(errors_named, "errors name an offset");
	struct buf flipped = { 0 };
	buf_add(&flipped, out.data, out.size);
	((char *)flipped.data)[flipped.size - 1] ^= 1;
	back = (struct names){ 0 };
	err = (struct err){ 0 };
	ok(!names_decode(&back, flipped.data, flipped.size, &err) && strstr(err.text, "checksum") != NULL, "bytes that are not what was written: %s", err.text);
	names_release(&back);
	buf_release(&flipped);
	ok(refused > 50, "%zu single-bit faults are refused", refused);
	names_release(&names);
	buf_release(&out);
	return tap_done();
}
