// Small ELF images with a Go function table, of each format, byte order and word size, as Go's linker lays them out (src/cmd/link/internal/ld/pcln.go).
#ifndef PERFSAMPLE_TESTS_GO_PROGRAM_H
#define PERFSAMPLE_TESTS_GO_PROGRAM_H

#include <elf.h>
#include <string.h>

#include "base/buf.h"
#include "elf/go_table.h"

enum { GO_TEXT = 0x401000, GO_DATA = 0x500000, GO_TEXT_BYTES = 0xf0 };

struct go_shape {
	enum go_version version;
	bool is_64, is_big;
	uint16_t machine;
	// Where the table is: a section of its own, in the middle of another's, or in a file without sections.
	enum { GO_OWN, GO_WITHIN, GO_NO_SECTIONS } place;
	bool is_relocated; // where the text starts is the dynamic linker's to say
	bool has_frames;   // systemstack and asmcgocall have a frame of 8 bytes, as from Go 1.21 on
	bool is_module_text; // where the text starts stands in moduledata alone, as from Go 1.26 on
	bool is_foreign;   // nothing says that Go's linker made it
};

// From GO_TEXT on. From 0x20 to 0x28 main.inlined is inlined into plain, by a call at 0x18 (64-bit, Go 1.18 and later). plain's frame is 24 bytes from 0x14 to 0x38; its lines are 10 to 0x20 and 12 behind that, of main.go to 0x30 and of more.go behind that. The
// others have no frame and no lines.
static const struct go_made {
	const char *name;
	uint32_t start;
	uint8_t flag;
} go_made[] = {
	{ "runtime.goexit", 0, GO_TOP_FRAME | GO_ASSEMBLY }, { "main.plain", 0x10, 0 }, { "runtime.systemstack", 0x40, GO_WRITES_SP | GO_ASSEMBLY },
	{ "runtime.mcall", 0x60, GO_WRITES_SP | GO_ASSEMBLY }, { "runtime.morestack", 0x70, GO_WRITES_SP | GO_ASSEMBLY },
	{ "runtime.asmcgocall", 0x80, GO_WRITES_SP | GO_ASSEMBLY }, { "runtime.cgocallback", 0x90, GO_WRITES_SP | GO_ASSEMBLY },
	{ "runtime.nanotime1", 0xa0, GO_WRITES_SP | GO_ASSEMBLY }, { "main.caller", 0xb0, 0 }, { "runtime.sigreturn", 0xd0, GO_ASSEMBLY },
	{ "runtime.asyncPreempt", 0xe0, GO_ASSEMBLY },
};
// Where a call returns to, from GO_TEXT on: calls of functions by name (x86-64), and by a register.
enum go_return {
	GO_IN_GOEXIT = 1, GO_AFTER_SYSTEMSTACK = 0x25, GO_AFTER_ASMCGOCALL = 0x2d, GO_AFTER_NANOTIME = 0x35, GO_IN_SYSTEMSTACK = 0x52, GO_IN_MCALL = 0x6a,
	GO_IN_MORESTACK = 0x79, GO_IN_ASMCGOCALL = 0x86, GO_IN_CGOCALLBACK = 0x96, GO_AFTER_MORESTACK = 0xbd, GO_AFTER_CGOCALLBACK = 0xc5, GO_AFTER_MCALL = 0xcd,
};
enum { GO_MADE = sizeof(go_made) / sizeof(go_made[0]), GO_QUANTUM = 4 };

static inline void go_put(struct buf *out, const struct go_shape *shape, uint64_t value, unsigned bytes)
{
	uint8_t text[8];

	for (unsigned i = 0; i < bytes; i++)
		text[shape->is_big ? bytes - 1 - i : i] = (uint8_t)(value >> 8 * i);
	buf_add(out, text, bytes);
}

// A value and the bytes of code that it holds for, in small numbers.
static inline void go_put_value(struct buf *out, int differs, unsigned bytes)
{
	buf_add(out, &(uint8_t){ (uint8_t)(differs < 0 ? ~(unsigned)differs * 2 + 1 : (unsigned)differs * 2) }, 1);
	buf_add(out, &(uint8_t){ (uint8_t)(bytes / GO_QUANTUM) }, 1);
}

struct go_places { // offsets
	uint32_t names[GO_MADE], sp, plain_sp, framed_sp, inlines, inlined, file, line;
};

static inline bool go_has_inlines(const struct go_shape *shape)
{
	return shape->version >= GO_118 && shape->is_64;
}

static inline void go_put_record(struct buf *out, const struct go_shape *shape, const struct go_places *places, size_t i)
{
	const bool is_plain = i == 1;

	go_put(out, shape, shape->version >= GO_118 ? go_made[i].start : GO_TEXT + go_made[i].start, shape->version >= GO_118 ? 4 : shape->is_64 ? 8 : 4);
	go_put(out, shape, places->names[i], 4);
	go_put(out, shape, 0, 4);
	go_put(out, shape, 0, 4);
	const bool is_framed = shape->has_frames && (i == 2 || i == 5);
	go_put(out, shape, is_plain ? places->plain_sp : is_framed ? places->framed_sp : places->sp, 4);
	go_put(out, shape, is_plain ? places->file : 0, 4);
	go_put(out, shape, is_plain ? places->line : 0, 4);
	const bool has_inlines = is_plain && go_has_inlines(shape);
	go_put(out, shape, has_inlines ? 3 : 0, 4);
	if (shape->version >= GO_116)
		go_put(out, shape, 1, 4); // its unit's files begin behind another's
	if (shape->version >= GO_120)
		go_put(out, shape, 10, 4);
	buf_add(out, (uint8_t[4]){ 0, shape->version >= GO_118 ? go_made[i].flag : 0, 0, has_inlines ? 4 : 0 }, 4);
	for (unsigned k = 0; has_inlines && k < 3 + 4; k++) // of the former the third, of the latter the fourth
		go_put(out, shape, k == 2 ? places->inlines : k == 3 + 3 ? 0 : k < 3 ? 0 : UINT32_MAX, 4);
}

static inline void go_put_values(struct buf *out, const struct go_shape *shape, struct go_places *places, size_t base)
{
	const int first = shape->version == GO_12 ? 1 : 0; // the files of Go 1.2 count from 1

	if (out->size == base)
		buf_add(out, "", 1); // no table is at 0
	places->sp = (uint32_t)(out->size - base);
	go_put_value(out, 1, 0xf0);
	buf_add(out, "", 1);
	places->plain_sp = (uint32_t)(out->size - base);
	go_put_value(out, 1, 4);
	go_put_value(out, 24, 0x24);
	go_put_value(out, -24, 8);
	buf_add(out, "", 1);
	places->framed_sp = (uint32_t)(out->size - base);
	go_put_value(out, 9, 0x20);
	buf_add(out, "", 1);
	places->inlines = (uint32_t)(out->size - base);
	go_put_value(out, 0, 0x10);
	go_put_value(out, 1, 8);
	go_put_value(out, -1, 0x18);
	buf_add(out, "", 1);
	places->file = (uint32_t)(out->size - base);
	go_put_value(out, 1 + first, 0x20);
	go_put_value(out, 1, 0x10);
	buf_add(out, "", 1);
	places->line = (uint32_t)(out->size - base);
	go_put_value(out, 11, 0x10);
	go_put_value(out, 2, 0x20);
	buf_add(out, "", 1);
}

static inline void go_align(struct buf *out, size_t base, size_t to)
{
	while ((out->size - base) % to != 0)
		buf_add(out, "", 1);
}

static inline void go_put_names(struct buf *out, struct go_places *places, size_t base)
{
	for (size_t i = 0; i < GO_MADE; i++) {
		places->names[i] = (uint32_t)(out->size - base);
		buf_add(out, go_made[i].name, strlen(go_made[i].name) + 1);
	}
	places->inlined = (uint32_t)(out->size - base);
	buf_add(out, "main.inlined", sizeof("main.inlined"));
}

// The functions' places in the index, and their records behind it, which are counted from `base`.
static inline void go_put_index(struct buf *out, const struct go_shape *shape, const struct go_places *places, size_t base, size_t behind)
{
	const unsigned word = shape->version < GO_118 && shape->is_64 ? 8 : 4;
	const uint64_t text = shape->version >= GO_118 ? 0 : GO_TEXT;
	const size_t records = (out->size - base + (2 * GO_MADE + 1) * word + behind + 7) / 8 * 8;
	struct buf one = { 0 };

	go_put_record(&one, shape, places, 1); // the longest
	const size_t size = (one.size + 7) / 8 * 8;
	for (size_t i = 0; i < GO_MADE; i++) {
		go_put(out, shape, text + go_made[i].start, word);
		go_put(out, shape, records + i * size, word);
	}
	go_put(out, shape, text + GO_TEXT_BYTES, word);
	if (behind > 0)
		go_put(out, shape, records + GO_MADE * size, 4); // the files
	go_align(out, base, 8);
	for (size_t i = 0; i < GO_MADE; i++) {
		const size_t from = out->size;
		go_put_record(out, shape, places, i);
		while (out->size < from + size)
			buf_add(out, "", 1);
	}
	buf_release(&one);
}

// Go 1.2: everything counts from the header, and what is pointed to may stand anywhere behind it.
static inline void go_put_table_12(struct buf *out, const struct go_shape *shape, size_t base)
{
	struct go_places places;
	struct buf parts = { 0 };
	const size_t room = 2048; // for the index and the records

	while (parts.size < room)
		buf_add(&parts, "", 1);
	go_put_names(&parts, &places, 0);
	go_put_values(&parts, shape, &places, 0);
	const uint32_t main_file = (uint32_t)parts.size;
	buf_add(&parts, "/go/main.go\0/go/more.go", 24);
	go_put(out, shape, GO_MADE, shape->is_64 ? 8 : 4);
	go_put_index(out, shape, &places, base, 4);
	go_put(out, shape, 3, 4);
	go_put(out, shape, main_file, 4);
	go_put(out, shape, main_file + 12, 4);
	while (out->size < base + room)
		buf_add(out, "", 1);
	buf_add(out, parts.data + room, parts.size - room);
	buf_release(&parts);
}

// What inline trees count from: one of one call.
static inline void go_put_inlines(struct buf *out, const struct go_shape *shape, uint32_t name)
{
	const uint32_t parent = 0x18 - 0x10;

	if (shape->version >= GO_120) {
		for (unsigned i = 0; i < 4; i++)
			go_put(out, shape, i == 1 ? name : i == 2 ? parent : 0, 4);
		return;
	}
	for (unsigned i = 0; i < 5; i++)
		go_put(out, shape, i == 3 ? name : i == 4 ? parent : 0, 4);
}

// What the runtime is told of a table whose header is at `table`.
static inline void go_put_module(struct buf *out, const struct go_shape *shape, uint64_t table, uint64_t inlines)
{
	enum { TEXT = 22, INLINES_118 = 38, INLINES_120 = 40, WORDS = 64 };

	for (unsigned i = 0; i < WORDS; i++)
		go_put(out, shape, i == 0 ? table : i == 1 ? table + 8 + 8 * 8 : i == TEXT ? GO_TEXT
		       : i == (shape->version >= GO_120 ? INLINES_120 : INLINES_118) ? inlines : 0, 8);
}

static inline uint32_t go_put_table(struct buf *out, const struct go_shape *shape)
{
	static const uint32_t magics[] = { [GO_12] = 0xfffffffb, [GO_116] = 0xfffffffa, [GO_118] = 0xfffffff0, [GO_120] = 0xfffffff1 };
	const size_t base = out->size;
	const unsigned word = shape->is_64 ? 8 : 4;
	struct go_places places;

	go_put(out, shape, magics[shape->version], 4);
	buf_add(out, (uint8_t[4]){ 0, 0, GO_QUANTUM, (uint8_t)word }, 4);
	if (shape->version == GO_12) {
		go_put_table_12(out, shape, base);
		return 0;
	}
	struct buf names = { 0 }, units = { 0 }, values = { 0 }, index = { 0 };
	static const char files[] = "/go/other.go\0/go/main.go\0/go/more.go";
	go_put_names(&names, &places, 0);
	go_put_values(&values, shape, &places, 0);
	const uint32_t unit[] = { 0, 13, 25 };
	for (size_t i = 0; i < 3; i++)
		go_put(&units, shape, unit[i], 4);
	go_put_index(&index, shape, &places, 0, 0);
	const size_t header = 8 + (shape->version >= GO_118 ? 8 : 7) * word;
	size_t offset = header;
	go_put(out, shape, GO_MADE, word);
	go_put(out, shape, 3, word);
	if (shape->version >= GO_118)
		go_put(out, shape, shape->is_relocated || shape->is_module_text ? 0 : GO_TEXT, word);
	const struct { const void *data; size_t size; } parts[] = { { names.data, names.size }, { units.data, units.size }, { files, sizeof(files) },
								  { values.data, values.size }, { index.data, index.size } };
	for (size_t i = 0; i < 5; i++, offset = (offset + 7) / 8 * 8) {
		go_put(out, shape, offset, word);
		offset += parts[i].size;
	}
	for (size_t i = 0; i < 5; i++) {
		buf_add(out, parts[i].data, parts[i].size);
		go_align(out, base, 8);
	}
	buf_release(&names);
	buf_release(&units);
	buf_release(&values);
	buf_release(&index);
	return places.inlined;
}

// A direct call that ends at `end`.
static inline void go_call(uint8_t *text, uint32_t end, uint32_t target)
{
	const int32_t distance = (int32_t)(target - end);

	text[end - 5] = 0xe8;
	memcpy(text + end - 4, &distance, 4);
}

static inline void go_put_text(struct buf *out)
{
	static const uint8_t by_register[] = { 0xff, 0xd0 }, keep[] = { 0x49, 0x89, 0xe4 }, hold[] = { 0x48, 0x89, 0xe2 }, sigreturn[] = { 0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05 };
	static const uint32_t indirect[] = { GO_IN_SYSTEMSTACK, GO_IN_MCALL, GO_IN_ASMCGOCALL, GO_IN_CGOCALLBACK };
	static const struct { uint32_t end, target; } direct[] = {
		{ GO_AFTER_SYSTEMSTACK, 0x40 }, { GO_AFTER_ASMCGOCALL, 0x80 }, { GO_AFTER_NANOTIME, 0xa0 }, { GO_IN_MORESTACK, 0x10 }, { GO_AFTER_MORESTACK, 0x70 },
		{ GO_AFTER_CGOCALLBACK, 0x90 }, { GO_AFTER_MCALL, 0x60 },
	};
	uint8_t text[GO_TEXT_BYTES];

	memset(text, 0x90, sizeof(text));
	for (size_t i = 0; i < sizeof(direct) / sizeof(direct[0]); i++)
		go_call(text, direct[i].end, direct[i].target);
	for (size_t i = 0; i < sizeof(indirect) / sizeof(indirect[0]); i++)
		memcpy(text + indirect[i] - 2, by_register, 2);
	memcpy(text + 0x80, hold, sizeof(hold)); // mov %rsp, %rdx
	memcpy(text + 0xa4, keep, sizeof(keep)); // mov %rsp, %r12
	memcpy(text + 0xd0, sigreturn, sizeof(sigreturn));
	buf_add(out, text, sizeof(text));
}

static inline void go_put_segment(struct buf *out, const struct go_shape *shape, uint32_t type, uint32_t flags, uint64_t offset, uint64_t vaddr, uint64_t size)
{
	const unsigned word = shape->is_64 ? 8 : 4;

	go_put(out, shape, type, 4);
	if (shape->is_64)
		go_put(out, shape, flags, 4);
	go_put(out, shape, offset, word);
	go_put(out, shape, vaddr, word);
	go_put(out, shape, vaddr, word);
	go_put(out, shape, size, word);
	go_put(out, shape, size, word);
	if (!shape->is_64)
		go_put(out, shape, flags, 4);
	go_put(out, shape, 4, word);
}

static inline void go_put_section(struct buf *out, const struct go_shape *shape, uint32_t name, uint32_t type, uint64_t vaddr, uint64_t offset, uint64_t size)
{
	const unsigned word = shape->is_64 ? 8 : 4;

	go_put(out, shape, name, 4);
	go_put(out, shape, type, 4);
	go_put(out, shape, SHF_ALLOC, word);
	go_put(out, shape, vaddr, word);
	go_put(out, shape, offset, word);
	go_put(out, shape, size, word);
	go_put(out, shape, 0, 8); // link, info
	go_put(out, shape, 8, word);
	go_put(out, shape, 0, word);
}

// The whole file. What is in it is at GO_DATA plus its offset, the text at GO_TEXT, too.
static inline void go_program(struct buf *out, const struct go_shape *shape)
{
	static const char names[] = "\0.gopclntab\0.data.rel.ro\0.text\0.shstrtab";
	enum { OWN_NAME = 1, WITHIN_NAME = 12, TEXT_NAME = 25, NAMES_NAME = 31 };
	const unsigned word = shape->is_64 ? 8 : 4;
	const size_t header = shape->is_64 ? 64 : 52, segment = shape->is_64 ? 56 : 32, text = 512, note = text + 256, dynamic = note + 64, rela = dynamic + 48;
	struct buf body = { 0 };

	go_put_text(&body);
	while (body.size < note - text)
		buf_add(&body, "", 1);
	go_put(&body, shape, 4, 4);
	go_put(&body, shape, 4, 4);
	go_put(&body, shape, 4, 4);
	buf_add(&body, shape->is_foreign ? "GNU\0" : "Go\0\0", 4);
	buf_add(&body, "made", 4);
	while (body.size < dynamic - text)
		buf_add(&body, "", 1);
	const size_t start = 1024, table = start + (shape->place == GO_OWN ? 0 : 64);
	const uint64_t relocation[] = { DT_RELA, GO_DATA + rela, DT_RELASZ, 24, DT_NULL, 0, GO_DATA + table + 8 + 2 * word, 8, GO_TEXT };
	for (size_t i = 0; i < 9; i++)
		go_put(&body, shape, relocation[i], 8);
	while (body.size < table - text)
		buf_add(&body, "", 1);
	const uint32_t inlined = go_put_table(&body, shape);
	const size_t table_end = text + body.size;
	go_align(&body, 0, 8);
	if (go_has_inlines(shape)) {
		const uint64_t inlines = GO_DATA + text + body.size;
		go_put_inlines(&body, shape, inlined);
		go_align(&body, 0, 8);
		go_put_module(&body, shape, GO_DATA + table, inlines);
	}
	const size_t end = text + body.size;
	buf_add(&body, names, sizeof(names));
	go_align(&body, 0, 8);
	const size_t sections = shape->place == GO_NO_SECTIONS ? 0 : text + body.size;

	const uint8_t ident[16] = { 0x7f, 'E', 'L', 'F', shape->is_64 ? ELFCLASS64 : ELFCLASS32, shape->is_big ? ELFDATA2MSB : ELFDATA2LSB, EV_CURRENT };
	const size_t before = out->size;
	buf_add(out, ident, sizeof(ident));
	go_put(out, shape, shape->is_relocated ? ET_DYN : ET_EXEC, 2);
	go_put(out, shape, shape->machine, 2);
	go_put(out, shape, EV_CURRENT, 4);
	go_put(out, shape, GO_TEXT, word);
	go_put(out, shape, header, word);
	go_put(out, shape, sections, word);
	go_put(out, shape, 0, 4);
	const size_t segments = shape->is_relocated ? 4 : 3;
	const uint64_t rest[] = { header, segment, segments, shape->is_64 ? 64 : 40, sections != 0 ? 4 : 0, sections != 0 ? 3 : 0 };
	for (size_t i = 0; i < 6; i++)
		go_put(out, shape, rest[i], 2);
	go_put_segment(out, shape, PT_LOAD, PF_R | PF_X, text, GO_TEXT, GO_TEXT_BYTES);
	go_put_segment(out, shape, PT_LOAD, PF_R | PF_W, note, GO_DATA + note, end - note);
	go_put_segment(out, shape, PT_NOTE, PF_R, note, GO_DATA + note, 20);
	if (shape->is_relocated)
		go_put_segment(out, shape, PT_DYNAMIC, PF_R, dynamic, GO_DATA + dynamic, 48);
	while (out->size - before < text)
		buf_add(out, "", 1);
	buf_add(out, body.data, body.size);
	if (sections != 0) {
		go_put_section(out, shape, 0, SHT_NULL, 0, 0, 0);
		go_put_section(out, shape, shape->place == GO_OWN ? OWN_NAME : WITHIN_NAME, SHT_PROGBITS, GO_DATA + start, start, table_end - start);
		go_put_section(out, shape, TEXT_NAME, SHT_PROGBITS, shape->is_relocated || shape->is_module_text ? GO_TEXT - 0x100 : GO_TEXT, text, GO_TEXT_BYTES);
		go_put_section(out, shape, NAMES_NAME, SHT_STRTAB, 0, end, sizeof(names));
	}
	buf_release(&body);
}

#endif
