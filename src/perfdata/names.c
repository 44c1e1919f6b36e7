#include "perfdata/names.h"

#include <endian.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/bytes.h"
#include "base/intern.h"
#include "base/search.h"
#include "base/sort.h"
#include "elf/vdso.h"
#include "perfdata/names_functions.h"

// Everything is little endian. The body of tag 2:
//	uleb count, then that many NUL-terminated strings, numbered from 1; 0 stands for "none"
//	uleb images, each:
//		u8 kind, u8 build ID size and bytes, uleb path, uleb pid
//		uleb frames, each: uleb name, uleb file, uleb line << 1 | is_inlined
//		uleb addresses, ascending, each: uleb address - the one before, sleb address - symbol_start, uleb linkage name,
//			uleb first frame, uleb frames
// The body of tag 3: code after code to its end, each: uleb pid, uleb time, uleb address, uleb size, uleb offset, path with its NUL
// (empty: that of the code before).
// The body of tag 5: vdso after vdso to its end, each: uleb size, u32 crc32 (zlib's) of the bytes, bytes.
// The body of tag 6: code after code, by process, start and time, to its end, each: uleb pid, uleb start, uleb time, uleb size; if that is not 0: u32 crc32 of the
// bytes, bytes.
// The body of tag 7: page after page, by process, address and time, to its end, each: uleb pid, uleb address / 4096, uleb from, uleb until - from, uleb born, uleb gone + 1
// (0: never), u32 crc32 of the bytes, 4096 bytes.
// The body of tag 8: as many as tag 2 has images and in its order, each: uleb since.
// The body of tag 4:
//	uleb count, then that many NUL-terminated strings, as in tag 2
//	uleb images, as many as tag 2 has and in its order, each:
//		uleb aliases, ascending, each: uleb symbol_start - the one before, uleb linkage name
//		uleb calls, ascending, each: uleb address - the one before, uleb linkage name of the callee
enum { TAG_META = 1, TAG_NAMES = 2, TAG_CODES = 3, TAG_FOLDED = 4, TAG_VDSOS = 5, TAG_JITS = 6, TAG_PAGES = 7, TAG_PROGRAMS = 8, TAG_FUNCTIONS = 9, TAG_HEAD_BYTES = 16, CODES_MOST = 4 << 20 };

void names_release(struct names *names)
{
	for (size_t i = 0; i < names->images.count; i++) {
		vec_release(&names->images.data[i].addrs);
		vec_release(&names->images.data[i].frames);
		vec_release(&names->images.data[i].aliases);
		vec_release(&names->images.data[i].functions);
		vec_release(&names->images.data[i].calls);
	}
	vec_release(&names->images);
	vec_release(&names->codes);
	vec_release(&names->vdsos);
	vec_release(&names->jits);
	vec_release(&names->pages);
	vec_release(&names->meta);
	arena_release(&names->arena);
}

void names_meta(struct names *names, const char *key, const char *format, ...)
{
	struct buf text = { 0 };
	va_list args;
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	const char *value = buf_text(&text);
	vec_push(&names->meta, (struct meta_pair){ .key = arena_string(&names->arena, key, strlen(key)),
	                                           .value = arena_string(&names->arena, value, strlen(value)) });
	buf_release(&text);
}

const char *names_meta_get(const struct names *names, const char *key)
{
	for (size_t i = 0; i < names->meta.count; i++) {
		if (strcmp(names->meta.data[i].key, key) == 0)
			return names->meta.data[i].value;
	}
	return NULL;
}

static uint32_t checksum(const void *bytes, size_t size)
{
	return (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, size);
}

void names_vdso(struct names *names, const void *bytes, size_t size)
{
	bool is_known = size == 0 || size > VDSO_BYTES_MAX || names->vdsos.count >= NAMES_VDSOS_MOST;
	for (size_t i = 0; i < names->vdsos.count && !is_known; i++)
		is_known = names->vdsos.data[i].size == size && memcmp(names->vdsos.data[i].bytes, bytes, size) == 0;
	if (is_known)
		return;
	void *copy = arena_alloc(&names->arena, size);
	memcpy(copy, bytes, size);
	vec_push(&names->vdsos, (struct name_vdso){ copy, size });
}

void names_jit(struct names *names, const struct name_jit *jit)
{
	if (names->jits.count >= NAMES_JITS_MOST || jit->size > NAMES_JIT_BYTES_MOST)
		return;
	struct name_jit *to = vec_add(&names->jits);
	*to = *jit;
	to->bytes = NULL;
	if (jit->size > 0)
		to->bytes = memcpy(arena_alloc(&names->arena, jit->size), jit->bytes, jit->size);
}

static int by_code(const void *a, const void *b)
{
	const struct name_jit *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

const struct name_jit *names_jit_at(const struct names *names, uint32_t pid, uint64_t start, uint64_t time_ns)
{
	const struct name_jit wanted = { .pid = pid, .start = start, .time_ns = time_ns }, *all = names->jits.data;
	size_t next = first_not(0, names->jits.count, i, by_code(&all[i], &wanted) <= 0);
	return next > 0 && all[next - 1].pid == pid && all[next - 1].start == start ? &all[next - 1] : NULL;
}

void names_page(struct names *names, const struct name_page *page)
{
	if (names->pages.count < NAMES_PAGES_MOST)
		vec_push(&names->pages, *page);
}

static int by_place(const struct name_page *a, const struct name_page *b)
{
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->addr < b->addr ? -1 : a->addr > b->addr;
}

static int by_page(const void *a, const void *b)
{
	const struct name_page *x = a, *y = b;
	int place = by_place(x, y);
	return place != 0 ? place : x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

// From when on the later one of two readings counts.
static uint64_t turn_between(const struct name_page *before, const struct name_page *after)
{
	if (before->gone_ns <= after->born_ns)
		return after->born_ns;
	uint64_t turn = before->until_ns < after->from_ns ? before->until_ns + (after->from_ns - before->until_ns) / 2 + 1 : after->from_ns;
	return turn > after->born_ns ? turn : after->born_ns;
}

void names_page_times(const struct names *names, size_t index, uint64_t *from_ns, uint64_t *to_ns)
{
	const struct name_page *all = names->pages.data, *page = &all[index];
	bool has_before = index > 0 && by_place(&page[-1], page) == 0, has_after = index + 1 < names->pages.count && by_place(page, &page[1]) == 0;

	*from_ns = has_before ? turn_between(&page[-1], page) : page->born_ns;
	*to_ns = page->gone_ns;
	if (has_after && turn_between(page, &page[1]) < *to_ns)
		*to_ns = turn_between(page, &page[1]);
}

const struct name_page *names_page_at(const struct names *names, uint32_t pid, uint64_t addr, uint64_t time_ns)
{
	const struct name_page wanted = { .pid = pid, .addr = addr, .from_ns = time_ns }, *all = names->pages.data;
	size_t next = first_not(0, names->pages.count, i, by_page(&all[i], &wanted) <= 0);
	uint64_t from_ns, to_ns;

	for (size_t i = next > 0 ? next - 1 : 0; i <= next && i < names->pages.count; i++) {
		names_page_times(names, i, &from_ns, &to_ns);
		if (by_place(&all[i], &wanted) == 0 && time_ns >= from_ns && time_ns < to_ns)
			return &all[i];
	}
	return NULL;
}

// ---------------------------------------------------------------- writing

static void put_tag(struct buf *out, uint32_t tag, const struct buf *body)
{
	uint32_t head[2] = { htole32(tag), 0 };
	uint64_t size = htole64(body->size);
	buf_add(out, head, sizeof(head));
	buf_add(out, &size, sizeof(size));
	buf_add(out, body->data, body->size);
}

static void put_sleb(struct buf *out, int64_t value)
{
	for (;;) {
		uint8_t byte = value & 0x7f;
		value >>= 7;
		bool done = (value == 0 && (byte & 0x40) == 0) || (value == -1 && (byte & 0x40) != 0);
		buf_byte(out, done ? byte : byte | 0x80);
		if (done)
			return;
	}
}

// Interned id 0 is the empty string, which is a string of its own here; so NULL is 0 and string i is i + 1.
static uint64_t string_number(struct intern *strings, const char *text)
{
	return text != NULL ? (uint64_t)intern_bytes(strings, text, strnlen(text, NAMES_TEXT_MOST)) + 1 : 0;
}

static void encode_image(struct buf *out, struct intern *strings, const struct name_image *image)
{
	buf_byte(out, image->kind);
	buf_byte(out, image->build_id.size);
	buf_add(out, image->build_id.bytes, image->build_id.size);
	buf_uleb(out, string_number(strings, image->path));
	buf_uleb(out, image->pid);
	buf_uleb(out, image->frames.count);
	for (size_t i = 0; i < image->frames.count; i++) {
		const struct name_frame *frame = &image->frames.data[i];
		buf_uleb(out, string_number(strings, frame->name));
		buf_uleb(out, string_number(strings, frame->file));
		buf_uleb(out, (uint64_t)frame->line << 1 | frame->is_inlined);
	}
	buf_uleb(out, image->addrs.count);
	uint64_t before = 0;
	for (size_t i = 0; i < image->addrs.count; i++) {
		const struct name_addr *addr = &image->addrs.data[i];
		buf_uleb(out, addr->image_addr - before);
		put_sleb(out, (int64_t)(addr->image_addr - addr->symbol_start));
		buf_uleb(out, string_number(strings, addr->linkage_name));
		buf_uleb(out, addr->first_frame);
		buf_uleb(out, addr->frame_count);
		before = addr->image_addr;
	}
}

static void encode_folded(struct buf *out, struct intern *strings, const struct name_image *image)
{
	uint64_t before = 0;
	buf_uleb(out, image->aliases.count);
	for (size_t i = 0; i < image->aliases.count; i++) {
		buf_uleb(out, image->aliases.data[i].symbol_start - before);
		buf_uleb(out, string_number(strings, image->aliases.data[i].linkage_name));
		before = image->aliases.data[i].symbol_start;
	}
	before = 0;
	buf_uleb(out, image->calls.count);
	for (size_t i = 0; i < image->calls.count; i++) {
		buf_uleb(out, image->calls.data[i].image_addr - before);
		buf_uleb(out, string_number(strings, image->calls.data[i].callee));
		before = image->calls.data[i].image_addr;
	}
}

typedef void encode_image_fn(struct buf *out, struct intern *strings, const struct name_image *image);

static void encode_images(struct buf *out, const struct names *names, encode_image_fn *encode)
{
	struct intern strings;
	struct buf images = { 0 };
	intern_init(&strings);
	buf_uleb(&images, names->images.count);
	for (size_t i = 0; i < names->images.count; i++)
		encode(&images, &strings, &names->images.data[i]);
	buf_uleb(out, strings.entries.count);
	for (size_t i = 0; i < strings.entries.count; i++)
		buf_add(out, intern_text(&strings, (uint32_t)i), intern_length(&strings, (uint32_t)i) + 1);
	buf_add(out, images.data, images.size);
	buf_release(&images);
	intern_release(&strings);
}

static void encode_codes(struct buf *out, const struct names *names)
{
	const char *before = "";
	for (size_t i = 0; i < names->codes.count; i++) {
		const struct name_code *code = &names->codes.data[i];
		buf_uleb(out, code->pid);
		buf_uleb(out, code->time_ns);
		buf_uleb(out, code->addr);
		buf_uleb(out, code->size);
		buf_uleb(out, code->offset);
		const char *path = strcmp(code->path, before) == 0 ? "" : code->path;
		buf_add(out, path, strlen(path) + 1);
		before = code->path;
	}
}

static void encode_programs(struct buf *out, const struct names *names)
{
	bool is_wanted = false;
	for (size_t i = 0; i < names->images.count; i++)
		is_wanted |= names->images.data[i].pid != 0 && names->images.data[i].since_ns != NAMES_ANY_PROGRAM;
	for (size_t i = 0; is_wanted && i < names->images.count; i++)
		buf_uleb(out, names->images.data[i].since_ns);
}

static void encode_vdsos(struct buf *out, const struct names *names)
{
	for (size_t i = 0; i < names->vdsos.count; i++) {
		const struct name_vdso *vdso = &names->vdsos.data[i];
		uint32_t sum = htole32(checksum(vdso->bytes, vdso->size));
		buf_uleb(out, vdso->size);
		buf_add(out, &sum, sizeof(sum));
		buf_add(out, vdso->bytes, vdso->size);
	}
}

static void encode_jits(struct buf *out, const struct names *names)
{
	struct name_jit *sorted = mem_copy(names->jits.data, names->jits.count * sizeof(*sorted));
	if (names->jits.count > 0)
		sort_stable(sorted, names->jits.count, sizeof(*sorted), by_code);
	for (size_t i = 0; i < names->jits.count; i++) {
		const struct name_jit *jit = &sorted[i];
		uint32_t sum = htole32(checksum(jit->bytes, jit->size));
		buf_uleb(out, jit->pid);
		buf_uleb(out, jit->start);
		buf_uleb(out, jit->time_ns);
		buf_uleb(out, jit->size);
		if (jit->size > 0)
			buf_add(out, &sum, sizeof(sum));
		buf_add(out, jit->bytes, jit->size);
	}
	free(sorted);
}

static void encode_pages(struct buf *out, const struct names *names)
{
	struct name_page *sorted = mem_copy(names->pages.data, names->pages.count * sizeof(*sorted));
	if (names->pages.count > 0)
		sort_stable(sorted, names->pages.count, sizeof(*sorted), by_page);
	for (size_t i = 0; i < names->pages.count; i++) {
		const struct name_page *page = &sorted[i];
		uint32_t sum = htole32(checksum(page->bytes, NAMES_PAGE_BYTES));
		buf_uleb(out, page->pid);
		buf_uleb(out, page->addr / NAMES_PAGE_BYTES);
		buf_uleb(out, page->from_ns);
		buf_uleb(out, page->until_ns - page->from_ns);
		buf_uleb(out, page->born_ns);
		buf_uleb(out, page->gone_ns + 1);
		buf_add(out, &sum, sizeof(sum));
		buf_add(out, page->bytes, NAMES_PAGE_BYTES);
	}
	free(sorted);
}

void names_encode(const struct names *names, struct buf *out)
{
	struct buf body = { 0 };
	for (size_t i = 0; i < names->meta.count; i++) {
		buf_add(&body, names->meta.data[i].key, strlen(names->meta.data[i].key) + 1);
		buf_add(&body, names->meta.data[i].value, strlen(names->meta.data[i].value) + 1);
	}
	put_tag(out, TAG_META, &body);
	buf_clear(&body);
	encode_images(&body, names, encode_image);
	put_tag(out, TAG_NAMES, &body);
	buf_clear(&body);
	encode_programs(&body, names);
	if (body.size > 0)
		put_tag(out, TAG_PROGRAMS, &body);
	buf_clear(&body);
	encode_codes(&body, names);
	if (body.size > 0)
		put_tag(out, TAG_CODES, &body);
	bool has_folded = false;
	for (size_t i = 0; i < names->images.count && !has_folded; i++)
		has_folded = names->images.data[i].aliases.count > 0;
	if (has_folded) {
		buf_clear(&body);
		encode_images(&body, names, encode_folded);
		put_tag(out, TAG_FOLDED, &body);
	}
	buf_clear(&body);
	names_encode_functions(names, &body);
	if (body.size > 0)
		put_tag(out, TAG_FUNCTIONS, &body);
	buf_clear(&body);
	encode_vdsos(&body, names);
	if (body.size > 0)
		put_tag(out, TAG_VDSOS, &body);
	buf_clear(&body);
	encode_jits(&body, names);
	if (body.size > 0)
		put_tag(out, TAG_JITS, &body);
	buf_clear(&body);
	encode_pages(&body, names);
	if (body.size > 0)
		put_tag(out, TAG_PAGES, &body);
	buf_release(&body);
}

// ---------------------------------------------------------------- reading

struct string_table { const char **strings; uint64_t count; };

// String `number` of the table; NULL for 0; bad when there is no such string.
static const char *take_string(struct bytes *in, const struct string_table *table)
{
	uint64_t number = bytes_uleb(in);
	if (number > table->count) {
		in->bad = true;
		return NULL;
	}
	return number > 0 ? table->strings[number - 1] : NULL;
}

// A count of things that take at least `least` bytes each: never more than the bytes that are left can hold.
static uint64_t take_count(struct bytes *in, size_t least)
{
	uint64_t count = bytes_uleb(in);
	if (count > bytes_left(in) / least) {
		in->bad = true;
		return 0;
	}
	return count;
}

static const char *decode_frames(struct bytes *in, const struct string_table *table, struct name_image *image)
{
	uint64_t count = take_count(in, 3);
	vec_reserve(&image->frames, count);
	for (uint64_t i = 0; i < count && !in->bad; i++) {
		struct name_frame frame = { .name = take_string(in, table) };
		frame.file = take_string(in, table);
		uint64_t line = bytes_uleb(in);
		frame.line = (uint32_t)(line >> 1);
		frame.is_inlined = line & 1;
		vec_push(&image->frames, frame);
	}
	return in->bad ? "a frame's strings and line" : NULL;
}

static const char *decode_addrs(struct bytes *in, const struct string_table *table, struct name_image *image)
{
	uint64_t count = take_count(in, 5), before = 0;
	vec_reserve(&image->addrs, count);
	for (uint64_t i = 0; i < count && !in->bad; i++) {
		struct name_addr addr = { .image_addr = before + bytes_uleb(in) };
		if (addr.image_addr < before)
			return "addresses that ascend";
		before = addr.image_addr;
		addr.symbol_start = addr.image_addr - (uint64_t)bytes_sleb(in);
		addr.linkage_name = take_string(in, table);
		uint64_t first = bytes_uleb(in), frames = bytes_uleb(in);
		if (first > image->frames.count || frames > image->frames.count - first)
			return "frames within the image's";
		addr.first_frame = (uint32_t)first;
		addr.frame_count = (uint32_t)frames;
		vec_push(&image->addrs, addr);
	}
	return in->bad ? "an address with its frames" : NULL;
}

static const char *decode_image(struct bytes *in, const struct string_table *table, struct name_image *image)
{
	image->kind = bytes_u8(in);
	image->build_id.size = bytes_u8(in);
	if (image->build_id.size > sizeof(image->build_id.bytes)) {
		image->build_id.size = 0;
		return "a build ID of at most 32 bytes";
	}
	const void *id = bytes_take(in, image->build_id.size);
	if (id != NULL)
		memcpy(image->build_id.bytes, id, image->build_id.size);
	image->path = take_string(in, table);
	image->pid = (uint32_t)bytes_uleb(in);
	image->since_ns = image->pid != 0 ? NAMES_ANY_PROGRAM : 0;
	if (in->bad)
		return "an image's kind, build ID, path and pid";
	const char *wrong = decode_frames(in, table, image);
	return wrong != NULL ? wrong : decode_addrs(in, table, image);
}

static const char *decode_folded_image(struct bytes *in, const struct string_table *table, struct name_image *image)
{
	uint64_t count = take_count(in, 2), at = 0;
	for (uint64_t i = 0; i < count && !in->bad; i++) {
		uint64_t delta = bytes_uleb(in);
		const char *name = take_string(in, table);
		if (name == NULL || at + delta < at)
			return "aliases that ascend, each with a name";
		at += delta;
		vec_push(&image->aliases, (struct name_alias){ .symbol_start = at, .linkage_name = name });
	}
	count = take_count(in, 2);
	at = 0;
	for (uint64_t i = 0; i < count && !in->bad; i++) {
		uint64_t delta = bytes_uleb(in);
		const char *name = take_string(in, table);
		if (name == NULL || at + delta < at)
			return "calls that ascend, each with a name";
		at += delta;
		vec_push(&image->calls, (struct name_call){ .image_addr = at, .callee = name });
	}
	return in->bad ? "an image's aliases and calls" : NULL;
}

static bool decode_strings(struct names *names, struct bytes *in, struct string_table *table)
{
	table->count = take_count(in, 1);
	table->strings = arena_alloc(&names->arena, (table->count + 1) * sizeof(*table->strings));
	struct bytes before = *in;
	for (uint64_t i = 0; i < table->count; i++)
		(void)bytes_cstr(in);
	if (in->bad)
		return false;
	const char *text = arena_string(&names->arena, (const char *)before.at, (size_t)(in->at - before.at));
	for (uint64_t i = 0; i < table->count; i++) {
		table->strings[i] = text;
		text += strlen(text) + 1;
	}
	return true;
}

static const char *decode_folded(struct names *names, struct bytes *in)
{
	struct string_table table;
	if (!decode_strings(names, in, &table))
		return "a table of strings";
	uint64_t count = take_count(in, 2);
	if (in->bad || count != names->images.count)
		return "as many images as have names";
	for (uint64_t i = 0; i < count; i++) {
		struct name_image *image = &names->images.data[i];
		image->aliases.count = image->calls.count = 0; // a second part of this kind replaces the first
		const char *wrong = decode_folded_image(in, &table, image);
		if (wrong != NULL)
			return wrong;
	}
	return NULL;
}

// Returns what was expected where the cursor stands, NULL when all went well.
static const char *decode_names(struct names *names, struct bytes *in)
{
	struct string_table table;
	if (!decode_strings(names, in, &table))
		return "a table of strings";
	uint64_t count = take_count(in, 6);
	for (uint64_t i = 0; i < count && !in->bad; i++) {
		const char *wrong = decode_image(in, &table, vec_add(&names->images));
		if (wrong != NULL)
			return wrong;
	}
	return in->bad ? "a number of images" : NULL;
}

static const char *decode_meta(struct names *names, struct bytes *in)
{
	while (bytes_left(in) > 0) {
		const char *key = bytes_cstr(in), *value = bytes_cstr(in);
		if (in->bad)
			return "key and value, each with its NUL";
		vec_push(&names->meta, (struct meta_pair){ .key = arena_string(&names->arena, key, strlen(key)),
		                                           .value = arena_string(&names->arena, value, strlen(value)) });
	}
	return NULL;
}

static const char *decode_codes(struct names *names, struct bytes *in)
{
	const char *path = NULL;
	while (bytes_left(in) > 0 && names->codes.count < CODES_MOST) {
		struct name_code code = { .pid = (uint32_t)bytes_uleb(in) };
		code.time_ns = bytes_uleb(in);
		code.addr = bytes_uleb(in);
		code.size = bytes_uleb(in);
		code.offset = bytes_uleb(in);
		const char *text = bytes_cstr(in);
		if (in->bad || (text[0] == '\0' && path == NULL))
			return "pid, time, address, size, offset and path of JIT code";
		path = text[0] != '\0' ? arena_string(&names->arena, text, strlen(text)) : path;
		code.path = path;
		vec_push(&names->codes, code);
	}
	return NULL;
}

static const char *decode_programs(struct names *names, struct bytes *in)
{
	for (size_t i = 0; i < names->images.count && !in->bad; i++)
		names->images.data[i].since_ns = bytes_uleb(in);
	return in->bad || bytes_left(in) > 0 ? "a time for each image that has names" : NULL;
}

static const char *decode_vdsos(struct names *names, struct bytes *in)
{
	while (bytes_left(in) > 0) {
		uint64_t size = bytes_uleb(in);
		uint32_t sum = bytes_u32(in);
		if (in->bad || size == 0 || size > VDSO_BYTES_MAX)
			return "the size of a vdso, at most 1 MiB";
		const void *bytes = bytes_take(in, (size_t)size);
		if (bytes == NULL || checksum(bytes, (size_t)size) != sum)
			return "a vdso of that size and checksum";
		names_vdso(names, bytes, (size_t)size);
	}
	return NULL;
}

static const char *decode_jits(struct names *names, struct bytes *in)
{
	while (bytes_left(in) > 0) {
		struct name_jit jit = { .pid = (uint32_t)bytes_uleb(in) };
		jit.start = bytes_uleb(in);
		jit.time_ns = bytes_uleb(in);
		uint64_t size = bytes_uleb(in);
		uint32_t sum = size > 0 ? bytes_u32(in) : 0;
		if (in->bad || size > NAMES_JIT_BYTES_MOST || names->jits.count == NAMES_JITS_MOST)
			return "process, start, time and size of JIT code, at most 16 MiB, 65536 of them";
		jit.size = (size_t)size;
		jit.bytes = size > 0 ? bytes_take(in, jit.size) : NULL;
		if (size > 0 && (jit.bytes == NULL || checksum(jit.bytes, jit.size) != sum))
			return "JIT code of that size and checksum";
		if (names->jits.count > 0 && by_code(&names->jits.data[names->jits.count - 1], &jit) > 0)
			return "JIT code in ascending order";
		names_jit(names, &jit);
	}
	return NULL;
}

static const char *decode_pages(struct names *names, struct bytes *in)
{
	while (bytes_left(in) > 0) {
		struct name_page page = { .pid = (uint32_t)bytes_uleb(in) };
		uint64_t number = bytes_uleb(in);
		page.addr = number * NAMES_PAGE_BYTES;
		page.from_ns = bytes_uleb(in);
		page.until_ns = page.from_ns + bytes_uleb(in);
		page.born_ns = bytes_uleb(in);
		page.gone_ns = bytes_uleb(in) - 1;
		uint32_t sum = bytes_u32(in);
		if (in->bad || number > UINT64_MAX / NAMES_PAGE_BYTES || names->pages.count == NAMES_PAGES_MOST)
			return "process, address and times of a page of JIT code, at most 16384 of them";
		if (page.born_ns > page.from_ns || page.until_ns < page.from_ns || page.gone_ns <= page.until_ns)
			return "times of a page of JIT code, in their order";
		page.bytes = bytes_take(in, NAMES_PAGE_BYTES);
		if (page.bytes == NULL || checksum(page.bytes, NAMES_PAGE_BYTES) != sum)
			return "4096 bytes of JIT code, of that checksum";
		if (names->pages.count > 0 && by_page(&names->pages.data[names->pages.count - 1], &page) > 0)
			return "pages of JIT code in ascending order";
		page.bytes = memcpy(arena_alloc(&names->arena, NAMES_PAGE_BYTES), page.bytes, NAMES_PAGE_BYTES);
		names_page(names, &page);
	}
	return NULL;
}

bool names_decode(struct names *names, const void *bytes, size_t size, struct err *err)
{
	struct bytes in = bytes_of(bytes, size);
	in.swap = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
	while (bytes_left(&in) >= TAG_HEAD_BYTES) {
		uint32_t tag = bytes_u32(&in);
		bytes_skip(&in, 4);
		uint64_t body_size = bytes_u64(&in);
		size_t at = bytes_offset(&in);
		if (body_size > bytes_left(&in))
			return err_set(err, STATUS_INPUT, "names at 0x%zx: part of %llu bytes, %zu are left", at,
			               (unsigned long long)body_size, bytes_left(&in));
		struct bytes body = bytes_sub(&in, body_size);
		const char *wrong = NULL;
		if (tag == TAG_META)
			wrong = decode_meta(names, &body);
		else if (tag == TAG_NAMES)
			wrong = decode_names(names, &body);
		else if (tag == TAG_CODES)
			wrong = decode_codes(names, &body);
		else if (tag == TAG_FOLDED)
			wrong = decode_folded(names, &body);
		else if (tag == TAG_PROGRAMS)
			wrong = decode_programs(names, &body);
		else if (tag == TAG_FUNCTIONS)
			wrong = names_decode_functions(names, &body);
		else if (tag == TAG_VDSOS)
			wrong = decode_vdsos(names, &body);
		else if (tag == TAG_JITS)
			wrong = decode_jits(names, &body);
		else if (tag == TAG_PAGES)
			wrong = decode_pages(names, &body);
		if (wrong != NULL)
			return err_set(err, STATUS_INPUT, "names at 0x%zx: expected %s", at + bytes_offset(&body), wrong);
	}
	return true;
}
