#include "perfdata/names.h"

#include "tests/tap.h"
#include "proc/dso.h"

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
	image = vec_add(&names->images);
	vec_push(&image->calls, (struct name_call){ 0x10, "other" });
	vec_push(&image->calls, (struct name_call){ UINT64_MAX - 1, "_Z5thirdv" });
	image->path = "//anon";
	image->kind = DSO_ANON;
	image->pid = 4242;
	names_vdso(names, "\177ELF, or so", 12);
	names_vdso(names, "another", 7);
	names_vdso(names, "\177ELF, or so", 12); // is there
	names_vdso(names, "", 0);
	names_jit(names, &(struct name_jit){ .pid = 7, .start = 0x7000, .time_ns = 20, .size = 0 });
	names_jit(names, &(struct name_jit){ .pid = 7, .start = 0x7000, .time_ns = 10, .bytes = "first", .size = 5 });
	names_jit(names, &(struct name_jit){ .pid = 7, .start = 0x7000, .time_ns = 30, .bytes = "later", .size = 5 });
	names_jit(names, &(struct name_jit){ .pid = 6, .start = UINT64_MAX, .time_ns = UINT64_MAX, .bytes = "other", .size = 5 });
	names_jit(names, &(struct name_jit){ .pid = 6, .start = 1, .bytes = "too large", .size = NAMES_JIT_BYTES_MOST + 1 });
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
		ok(same_text(x->path, y->path) && x->kind == y->kind && x->pid == y->pid && x->build_id.size == y->build_id.size &&
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
	names_release(&back);

	// A tag that a later version may add.
	struct buf more = { 0 };
	buf_u32(&more, 9);
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
	without.images.data[0].aliases.count = without.images.data[1].calls.count = without.vdsos.count = without.jits.count = 0;
	names_encode(&without, &plain);
	ok(plain.size + 16 < out.size && memcmp(plain.data, out.data, plain.size) == 0, "aliases, vdsos and JIT code stand behind the rest");
	back = (struct names){ 0 };
	ok(names_decode(&back, plain.data, plain.size, &err) && back.images.count == 2, "a recording without them");
	names_release(&back);
	names_release(&without);
	buf_release(&plain);

	// Cut and flipped: never out of bounds (the sanitizers watch), and an error names an offset.
	bool errors_named = true;
	for (size_t size = 0; size < out.size; size++) {
		char *copy = mem_copy(out.data, size);
		back = (struct names){ 0 };
		err = (struct err){ 0 };
		if (!names_decode(&back, copy, size, &err))
			errors_named = errors_named && err.status == STATUS_INPUT && strstr(err.text, "0x") != NULL;
		names_release(&back);
		free(copy);
	}
	size_t refused = 0;
	for (size_t at = 0; at < out.size; at++) {
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
