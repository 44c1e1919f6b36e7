#include "elf/go_table.h"

#include <elf.h>
#include <string.h>

#include "base/search.h"
#include "elf/go_module.h"

enum {
	HEADER_BYTES = 8, // magic, two zeros, instruction size, pointer size
	FUNCTIONS_MAX = 1 << 22,
	VALUES_MAX = 1 << 16,  // steps of one function's table
	SP_VALUES_MAX = 1 << 12, // likewise, for a drain thread that waits
	CHECKED = 16,          // functions whose order is looked at when a table is opened
	NOTE_GO_BUILD_ID = 4,  // Go's src/cmd/link/internal/ld/elf.go
	BUILD_INFO_WITHIN = 1 << 16,
};

// ---------------------------------------------------------------- words

static struct bytes part(const struct bytes *from, uint64_t offset)
{
	struct bytes out = *from;

	if (offset > (uint64_t)(from->end - from->start)) {
		out.at = out.start = out.end;
		out.bad = true;
		return out;
	}
	out.at = out.start = from->start + offset;
	return out;
}

static uint64_t word_of(struct bytes *at, unsigned word)
{
	return word == 8 ? bytes_u64(at) : bytes_u32(at);
}

static unsigned index_word(const struct go_table *table)
{
	return table->version >= GO_118 ? 4 : table->word;
}

// Of a function's place in the index: where it begins, or (`which` 1) where its record is.
static uint64_t index_at(const struct go_table *table, uint64_t index, unsigned which)
{
	struct bytes at = part(&table->index, (2 * index + which) * index_word(table));

	return word_of(&at, index_word(table));
}

static uint64_t start_of(const struct go_table *table, uint64_t index)
{
	return table->text + index_at(table, index, 0);
}

// Bounded, as there are as many of them as somebody likes.
static const char *text_at(const struct bytes *from, uint64_t offset)
{
	const struct bytes at = part(from, offset);
	const size_t most = bytes_left(&at) < GO_NAME_MOST ? bytes_left(&at) : GO_NAME_MOST;

	return most > 0 && memchr(at.at, '\0', most) != NULL ? (const char *)at.at : NULL;
}

// ---------------------------------------------------------------- the header

static enum go_version version_of(uint32_t magic)
{
	switch (magic) {
	case 0xfffffffbu: return GO_12;
	case 0xfffffffau: return GO_116;
	case 0xfffffff0u: return GO_118;
	case 0xfffffff1u: return GO_120;
	default: return GO_NONE;
	}
}

// Where functions count from. Zero in the file: the dynamic linker's to say, or (Go 1.26) the runtime's own.
static uint64_t text_start(const struct image *image, const struct go_table *table, uint64_t told_at, uint64_t names)
{
	const struct image_section *text = image_find_section(image, ".text");
	uint64_t told = go_pointer_at(image, told_at);
	struct go_module module;

	if (told == 0 && go_module_find(image, table, names, &module))
		told = module.text;
	return told == 0 && text != NULL ? text->vaddr : told;
}

// Offsets of the parts, from the header's start. Go 1.18 put `text` third.
static bool read_parts(const struct image *image, struct go_table *out, const struct bytes *all, struct bytes *at)
{
	uint64_t fields[8] = { 0 };
	const size_t count = out->version >= GO_118 ? 8 : 7, first = count - 5;

	for (size_t i = 0; i < count; i++)
		fields[i] = word_of(at, out->word);
	if (at->bad)
		return false;
	out->count = fields[0];
	if (out->version >= GO_118 && fields[2] == 0)
		out->text = text_start(image, out, out->vaddr + HEADER_BYTES + 2 * out->word, out->vaddr + fields[first]);
	else
		out->text = out->version >= GO_118 ? fields[2] : 0;
	out->names = part(all, fields[first]);
	out->units = part(all, fields[first + 1]);
	out->files = part(all, fields[first + 2]);
	out->values = part(all, fields[first + 3]);
	out->records = out->index = part(all, fields[first + 4]);
	return !out->names.bad && !out->units.bad && !out->files.bad && !out->values.bad && !out->index.bad;
}

// Go 1.2's: the index follows the header, then the place of the files; all offsets count from the header.
static bool read_parts_12(struct go_table *out, const struct bytes *all, struct bytes *at)
{
	out->count = word_of(at, out->word);
	if (at->bad || out->count > FUNCTIONS_MAX)
		return false;
	out->names = out->values = out->records = *all;
	out->index = part(all, bytes_offset(at));
	struct bytes behind = part(&out->index, (2 * out->count + 1) * out->word);
	out->files = part(all, bytes_u32(&behind));
	struct bytes files = out->files;
	out->file_count = bytes_u32(&files);
	return !behind.bad && !files.bad;
}

static bool is_code(const struct image *image, uint64_t vaddr)
{
	for (size_t i = 0; i < image->segment_count; i++)
		if ((image->segments[i].flags & PF_X) != 0 && vaddr - image->segments[i].vaddr < image->segments[i].mem_size)
			return true;
	return false;
}

// A table whose functions ascend, in code, and have names, as far as is looked. What was found by its magic alone may be anything.
static bool is_sound(const struct image *image, const struct go_table *table)
{
	struct go_function function;

	if (table->count == 0 || table->count > FUNCTIONS_MAX || (uint64_t)(table->index.end - table->index.start) / index_word(table) < 2 * table->count + 1)
		return false;
	for (uint64_t i = 0; i < table->count && i < CHECKED; i++)
		if (start_of(table, i) > start_of(table, i + 1) || !is_code(image, start_of(table, i)))
			return false;
	return go_table_function(table, 0, &function) && go_table_name(table, &function) != NULL;
}

static bool read_table(struct go_table *out, const struct image *image, struct bytes all, uint64_t vaddr)
{
	*out = (struct go_table){ .vaddr = vaddr, .header = all.at };
	all.swap = image->swap;
	all.start = all.at;
	struct bytes at = all;
	const enum go_version version = version_of(bytes_u32(&at));
	bool zeros = bytes_u8(&at) == 0;
	zeros &= bytes_u8(&at) == 0;
	out->quantum = bytes_u8(&at);
	out->word = bytes_u8(&at);
	if (at.bad || version == GO_NONE || !zeros || (out->quantum != 1 && out->quantum != 2 && out->quantum != 4) || out->word != (image->is_64 ? 8 : 4))
		return false;
	out->version = version;
	if ((version == GO_12 ? read_parts_12(out, &all, &at) : read_parts(image, out, &all, &at)) && is_sound(image, out))
		return true;
	*out = (struct go_table){ 0 };
	return false;
}

// ---------------------------------------------------------------- finding it

// Whether Go's linker made the image, which no other has need to be searched for: its build ID's note, or what `go version` reads.
static bool is_of_go(const struct image *image)
{
	static const char build_info[] = "\xff Go buildinf:";

	if (image_find_section(image, ".go.buildinfo") != NULL || image_find_section(image, ".note.go.buildid") != NULL)
		return true;
	for (size_t i = 0; i < image->note_count; i++) {
		struct bytes notes;
		struct image_note note;
		if (!image_notes_bytes(image, &image->notes[i], &notes))
			continue;
		while (image_note_next(&notes, image->notes[i].align, &note))
			if (note.type == NOTE_GO_BUILD_ID && bytes_left(&note.name) >= 4 && memcmp(note.name.at, "Go\0", 4) == 0)
				return true;
	}
	for (size_t i = 0; i < image->segment_count; i++) {
		struct bytes rest;
		if ((image->segments[i].flags & PF_W) == 0 || !image_rest_at(image, image->segments[i].vaddr, &rest))
			continue;
		size_t size = bytes_left(&rest) < BUILD_INFO_WITHIN ? bytes_left(&rest) : BUILD_INFO_WITHIN;
		if (memmem(rest.at, size, build_info, sizeof(build_info) - 1) != NULL)
			return true;
	}
	return false;
}

// Among bytes that are at `vaddr`, by the magic.
static bool search(struct go_table *out, const struct image *image, struct bytes in, uint64_t vaddr)
{
	const uint64_t step = image->is_64 ? 8 : 4;
	struct bytes at = in;

	at.swap = image->swap;
	bytes_skip(&at, (size_t)(-vaddr & (step - 1)));
	for (; bytes_left(&at) >= HEADER_BYTES + step; at.at += step) {
		struct bytes first = at;
		if (version_of(bytes_u32(&first)) != GO_NONE && read_table(out, image, at, vaddr + (uint64_t)(at.at - in.at)))
			return true;
	}
	return false;
}

bool go_table_open(struct go_table *out, const struct image *image)
{
	// The second, or one of which a linker of another's made part: position-independent programs, as pointers stood in the table once.
	static const char *const own[] = { ".gopclntab", ".data.rel.ro.gopclntab" }, *const others[] = { ".data.rel.ro", ".rodata" };
	const struct image_section *section;
	struct bytes bytes;

	*out = (struct go_table){ 0 };
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if ((section = image_find_section(image, own[i])) != NULL && image_section_raw(image, section, &bytes) && read_table(out, image, bytes, section->vaddr))
			return true;
	if (!is_of_go(image))
		return false;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if ((section = image_find_section(image, others[i])) != NULL && image_section_raw(image, section, &bytes) && search(out, image, bytes, section->vaddr))
			return true;
	for (size_t i = 0; image->section_count == 0 && i < image->segment_count; i++)
		if (image_rest_at(image, image->segments[i].vaddr, &bytes) && search(out, image, bytes, image->segments[i].vaddr))
			return true;
	return false;
}

// ---------------------------------------------------------------- functions

bool go_table_function(const struct go_table *table, uint64_t index, struct go_function *out)
{
	*out = (struct go_function){ .start = start_of(table, index), .end = start_of(table, index + 1) };
	struct bytes at = part(&table->records, index_at(table, index, 1));
	bytes_skip(&at, table->version >= GO_118 ? 4 : table->word); // its start, once more
	out->name = bytes_u32(&at);
	bytes_skip(&at, 2 * 4); // size of its arguments; the frame's, or where deferred calls return to
	out->sp = bytes_u32(&at);
	out->file = bytes_u32(&at);
	out->line = bytes_u32(&at);
	out->pcdata_count = bytes_u32(&at);
	out->unit = table->version >= GO_116 ? bytes_u32(&at) : 0;
	bytes_skip(&at, table->version >= GO_120 ? 4 : 0); // the line where it starts
	out->id = bytes_u8(&at);
	out->flag = bytes_u8(&at);
	bytes_skip(&at, 1);
	out->funcdata_count = bytes_u8(&at);
	out->tables = (uint64_t)(at.at - table->records.start);
	return !at.bad && out->end > out->start;
}

const char *go_table_name(const struct go_table *table, const struct go_function *function)
{
	const char *name = text_at(&table->names, function->name);

	return name != NULL && name[0] != '\0' ? name : NULL;
}

bool go_table_find(const struct go_table *table, uint64_t vaddr, struct go_function *out)
{
	if (table->version == GO_NONE)
		return false;
	const size_t next = first_not(0, table->count, i, start_of(table, i) <= vaddr);
	return next > 0 && go_table_function(table, next - 1, out) && vaddr < out->end;
}

// ---------------------------------------------------------------- tables by address

// Pairs of LEB128 numbers: how much the value differs (zigzag), and for how many bytes of code it holds, in instructions of the smallest size. It begins at -1.
static bool value_at(const struct go_table *table, const struct go_function *function, uint32_t offset, unsigned most, uint64_t vaddr, struct go_value *out)
{
	struct bytes at = part(&table->values, offset);

	if (offset == 0 || at.bad)
		return false;
	*out = (struct go_value){ .value = -1, .end = function->start };
	for (unsigned i = 0; i < most; i++) {
		uint32_t differs = (uint32_t)bytes_uleb(&at);
		if (at.bad || (differs == 0 && i > 0))
			return false;
		out->value = (int32_t)((uint32_t)out->value + ((differs >> 1) ^ -(differs & 1)));
		out->start = out->end;
		out->end += (bytes_uleb(&at) & UINT32_MAX) * table->quantum;
		if (at.bad || out->end < out->start)
			return false;
		if (vaddr < out->end)
			return vaddr >= out->start;
	}
	return false;
}

bool go_table_value(const struct go_table *table, const struct go_function *function, uint32_t offset, uint64_t vaddr, struct go_value *out)
{
	return value_at(table, function, offset, VALUES_MAX, vaddr, out);
}

static const char *file_at(const struct go_table *table, const struct go_function *function, int32_t file)
{
	struct bytes at;

	if (table->version == GO_12) { // 0 is none; the files' count stands in its place
		at = part(&table->files, (uint64_t)file * 4);
		uint32_t offset = bytes_u32(&at);
		return file > 0 && (uint64_t)file < table->file_count && !at.bad ? text_at(&table->names, offset) : NULL;
	}
	at = part(&table->units, ((uint64_t)function->unit + (uint64_t)file) * 4);
	uint32_t offset = bytes_u32(&at);
	return !at.bad && offset != UINT32_MAX ? text_at(&table->files, offset) : NULL;
}

struct go_line go_table_line(const struct go_table *table, const struct go_function *function, uint64_t vaddr)
{
	struct go_value file, line;

	if (!go_table_value(table, function, function->file, vaddr, &file) || file.value < 0 ||
	    !go_table_value(table, function, function->line, vaddr, &line) || line.value <= 0)
		return (struct go_line){ 0 };
	return (struct go_line){ .file = file_at(table, function, file.value), .line = (uint32_t)line.value };
}

bool go_table_sp(const struct go_table *table, const struct go_function *function, uint64_t vaddr, struct go_value *out)
{
	return value_at(table, function, function->sp, SP_VALUES_MAX, vaddr, out) && out->value >= 0;
}

// ---------------------------------------------------------------- what was inlined

// Of the compiler's tables by address, and of the function's data (Go's src/internal/abi/symtab.go).
enum { PCDATA_INLINES = 2, FUNCDATA_INLINES = 3, INLINED_118 = 20, INLINED_120 = 16 };

void go_table_open_inlines(struct go_table *table, const struct image *image)
{
	struct go_module module;
	const uint64_t names = table->vaddr + (uint64_t)(table->names.start - table->header);

	if (go_module_find(image, table, names, &module) && image_rest_at(image, module.inlines, &table->inlines))
		table->inlines.swap = image->swap;
	else
		table->inlines = (struct bytes){ 0 };
}

static uint32_t table_word(const struct go_table *table, const struct go_function *function, uint64_t index)
{
	struct bytes at = part(&table->records, function->tables + 4 * index);
	const uint32_t word = bytes_u32(&at);

	return at.bad ? UINT32_MAX : word;
}

// The call that an instruction was inlined with: the function's name, and an instruction at which its caller made it. false: none.
static bool find_inlined(const struct go_table *table, const struct go_function *function, uint64_t vaddr, const char **name, uint64_t *parent)
{
	const unsigned size = table->version >= GO_120 ? INLINED_120 : INLINED_118;
	struct go_value index;

	if (bytes_left(&table->inlines) == 0 || function->pcdata_count <= PCDATA_INLINES || function->funcdata_count <= FUNCDATA_INLINES)
		return false;
	const uint32_t values = table_word(table, function, PCDATA_INLINES);
	const uint32_t tree = table_word(table, function, (uint64_t)function->pcdata_count + FUNCDATA_INLINES);
	if (values == UINT32_MAX || tree == UINT32_MAX || !go_table_value(table, function, values, vaddr, &index) || index.value < 0)
		return false;
	struct bytes at = part(&table->inlines, tree + (uint64_t)index.value * size);
	bytes_skip(&at, table->version >= GO_120 ? 4 : 12);
	*name = text_at(&table->names, bytes_u32(&at));
	*parent = function->start + bytes_u32(&at);
	return !at.bad && *name != NULL && (*name)[0] != '\0' && *parent < function->end;
}

size_t go_table_chain(const struct go_table *table, const struct go_function *function, uint64_t vaddr, struct go_frame *out, size_t most)
{
	size_t count = 0;
	const char *name;
	uint64_t parent;

	for (; count + 1 < most && find_inlined(table, function, vaddr, &name, &parent); vaddr = parent)
		out[count++] = (struct go_frame){ name, go_table_line(table, function, vaddr) };
	out[count++] = (struct go_frame){ go_table_name(table, function), go_table_line(table, function, vaddr) };
	return count;
}
