// Line number programs, versions 2 to 5 (6.2).
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/dwarf_internal.h"

enum { FILES_LIMIT = 1 << 20, FORMATS_LIMIT = 32 };

struct program {
	struct dwarf_unit shape; // of this line table: its version and sizes may differ from the unit's
	struct dwarf_lines *out;
	uint8_t min_instruction, max_operations, line_range, opcode_base;
	int8_t line_base;
	uint8_t operands[256]; // of standard opcodes
	bool is_plain;         // one operation an instruction, and operands as the standard has them
	struct { uint32_t addr; int32_t line; } special[256]; // what opcodes from opcode_base on advance by, where plain
	// the state machine's registers (6.2.2)
	uint64_t addr, operation, file, line;
	size_t first_row; // of the sequence
};

// ---------------------------------------------------------------- file tables

static void read_old_tables(struct dwarf_lines *out, struct bytes *b)
{
	while (!b->bad && out->directories.count < FILES_LIMIT) {
		const char *directory = bytes_cstr(b);
		if (*directory == '\0')
			break;
		vec_push(&out->directories, directory);
	}
	while (!b->bad && out->files.count < FILES_LIMIT) {
		struct line_file file = { .name = bytes_cstr(b) };
		if (*file.name == '\0')
			break;
		file.directory = dwarf_uleb(b);
		(void)dwarf_uleb(b); // time
		(void)dwarf_uleb(b); // size
		vec_push(&out->files, file);
	}
}

// Entries described by pairs of content type and form (6.2.4.1), of directories or files.
static void read_entries(struct program *p, struct bytes *b, bool are_files)
{
	struct { uint64_t content; struct abbrev_attr attr; } formats[FORMATS_LIMIT];
	uint8_t format_count = bytes_u8(b);
	for (uint8_t i = 0; i < format_count; i++) {
		uint64_t content = dwarf_uleb(b), form = dwarf_uleb(b);
		if (i >= FORMATS_LIMIT || form > UINT16_MAX || form == DW_FORM_implicit_const) {
			b->bad = true;
			return;
		}
		formats[i].content = content;
		formats[i].attr = (struct abbrev_attr){ .form = (uint16_t)form, .size = form_fixed_size(&p->shape, (uint16_t)form) };
	}
	uint64_t count = dwarf_uleb(b);
	for (uint64_t n = 0; n < count && n < FILES_LIMIT && !b->bad && format_count > 0; n++) {
		struct line_file file = { .name = "" };
		for (uint8_t i = 0; i < format_count; i++) {
			struct dwarf_value v;
			form_read(&p->shape, &formats[i].attr, b, &v);
			const char *s = formats[i].content == DW_LNCT_path && !b->bad ? value_string(&p->shape, &v) : NULL;
			if (s != NULL)
				file.name = s;
			if (formats[i].content == DW_LNCT_directory_index)
				file.directory = v.u;
		}
		if (are_files)
			vec_push(&p->out->files, file);
		else
			vec_push(&p->out->directories, file.name);
	}
}

// ---------------------------------------------------------------- the program

static void advance(struct program *p, uint64_t operations)
{
	if (p->max_operations <= 1) {
		p->addr += operations * p->min_instruction;
		return;
	}
	uint64_t sum = p->operation + operations; // VLIW (6.2.5.1)
	p->addr += sum / p->max_operations * p->min_instruction;
	p->operation = sum % p->max_operations;
}

struct row_end { // where rows are appended, kept in registers of the machine
	struct line_row *first, *next, *limit; // first: of the sequence
};

static struct row_end row_end(struct program *p)
{
	struct line_row *rows = p->out->rows.data;
	return (struct row_end){ rows + p->first_row, rows + p->out->rows.count, rows + p->out->rows.capacity };
}

static struct row_end grown(struct program *p, struct line_row *next)
{
	p->out->rows.count = (size_t)(next - p->out->rows.data);
	vec_reserve(&p->out->rows, 1);
	return row_end(p);
}

// Only rows that look-ups can tell apart are kept: of several at one address the last holds, and one that says what the row before it says
// adds nothing.
static inline void put_row(struct program *p, struct row_end *rows, uint64_t addr, uint32_t file, uint64_t wide_line)
{
	uint32_t line = wide_line <= UINT32_MAX ? (uint32_t)wide_line : 0;
	if (rows->next > rows->first) {
		struct line_row *last = rows->next - 1;
		if (last->addr == addr) {
			last->file = file;
			last->line = line;
			return;
		}
		if (last->line == line && last->file == file)
			return;
	}
	if (rows->next == rows->limit)
		*rows = grown(p, rows->next);
	*rows->next++ = (struct line_row){ .addr = addr, .file = file, .line = line };
}

static void add_row(struct program *p)
{
	struct row_end rows = row_end(p);
	put_row(p, &rows, p->addr, p->file <= UINT32_MAX ? (uint32_t)p->file : 0, p->line);
	p->out->rows.count = (size_t)(rows.next - p->out->rows.data);
}

static void reset(struct program *p)
{
	p->addr = p->operation = 0;
	p->file = p->line = 1;
	p->first_row = p->out->rows.count;
}

static void end_sequence(struct program *p)
{
	struct dwarf_lines *out = p->out;
	size_t count = out->rows.count - p->first_row;
	// Sequences of code that the linker threw away start at 0, 1 or -1.
	if (count > 0 && out->rows.data[p->first_row].addr > 1 && p->addr > out->rows.data[p->first_row].addr) {
		span_add(&out->by_addr, out->rows.data[p->first_row].addr, p->addr, (uint32_t)out->sequences.count);
		vec_push(&out->sequences, (struct line_sequence){ .first = (uint32_t)p->first_row, .count = (uint32_t)count });
	} else {
		out->rows.count = p->first_row;
	}
	reset(p);
}

static void extended(struct program *p, struct bytes *b)
{
	struct bytes operand = bytes_sub(b, dwarf_uleb(b));
	switch (bytes_u8(&operand)) {
	case DW_LNE_end_sequence: end_sequence(p); break;
	case DW_LNE_set_address:
		p->shape.address_size = (uint8_t)bytes_left(&operand);
		p->addr = dwarf_address(&p->shape, &operand);
		p->operation = 0;
		break;
	case DW_LNE_define_file:
		if (p->out->version < 5 && p->out->files.count < FILES_LIMIT) {
			const char *name = bytes_cstr(&operand);
			vec_push(&p->out->files, (struct line_file){ .name = name, .directory = dwarf_uleb(&operand) });
		}
		break;
	}
}

static void standard(struct program *p, uint8_t opcode, struct bytes *b)
{
	switch (opcode) {
	case DW_LNS_copy: add_row(p); break;
	case DW_LNS_advance_pc: advance(p, dwarf_uleb(b)); break;
	case DW_LNS_advance_line: p->line += (uint64_t)bytes_sleb(b); break;
	case DW_LNS_set_file: p->file = dwarf_uleb(b); break;
	case DW_LNS_const_add_pc: advance(p, (255u - p->opcode_base) / p->line_range); break;
	case DW_LNS_fixed_advance_pc:
		p->addr += bytes_u16(b);
		p->operation = 0;
		break;
	default: // column, is_stmt, basic block, prologue, epilogue, isa; opcodes not known say how many operands they have
		for (uint8_t i = 0; i < p->operands[opcode]; i++)
			(void)dwarf_uleb(b);
	}
}

// The opcodes that nearly all of a program consists of; stops before any other.
static void run_plain(struct program *p, struct bytes *b)
{
	const uint8_t *at = b->at, *end = b->end;
	struct row_end rows = row_end(p);
	uint64_t addr = p->addr, line = p->line;
	uint32_t file = p->file <= UINT32_MAX ? (uint32_t)p->file : 0;
	const uint8_t opcode_base = p->opcode_base, min_instruction = p->min_instruction;
	while (at < end) {
		uint8_t opcode = *at;
		if (opcode >= opcode_base) {
			at++;
			addr += p->special[opcode].addr;
			line += (uint64_t)(int64_t)p->special[opcode].line;
			put_row(p, &rows, addr, file, line);
			continue;
		}
		uint8_t operand = end - at > 1 ? at[1] : 0x80;
		if (opcode >= DW_LNS_advance_pc && opcode <= DW_LNS_set_column && operand >= 0x80)
			break; // of several bytes
		switch (opcode) {
		case DW_LNS_copy: at++; put_row(p, &rows, addr, file, line); continue;
		case DW_LNS_advance_pc: at += 2; addr += (uint64_t)operand * min_instruction; continue;
		case DW_LNS_advance_line: at += 2; line += ((uint64_t)operand ^ 0x40) - 0x40; continue; // 7 bits with a sign
		case DW_LNS_set_file: at += 2; file = operand; continue;
		case DW_LNS_set_column: at += 2; continue;
		case DW_LNS_negate_stmt: at++; continue;
		case DW_LNS_const_add_pc: at++; addr += p->special[255].addr; continue;
		}
		break;
	}
	b->at = at;
	p->addr = addr;
	p->file = file;
	p->line = line;
	p->out->rows.count = (size_t)(rows.next - p->out->rows.data);
}

static void run(struct program *p, struct bytes *b)
{
	if (bytes_left(b) > UINT32_MAX) // rows have 32-bit numbers, and at least a byte each
		return;
	reset(p);
	vec_reserve(&p->out->rows, bytes_left(b) / 12 + 1);
	while (bytes_left(b) > 0 && !b->bad) {
		if (p->is_plain)
			run_plain(p, b);
		if (bytes_left(b) == 0)
			return;
		uint8_t opcode = bytes_u8(b);
		if (opcode >= p->opcode_base) {
			uint8_t adjusted = (uint8_t)(opcode - p->opcode_base);
			advance(p, adjusted / p->line_range);
			p->line += (uint64_t)(int64_t)(p->line_base + adjusted % p->line_range);
			add_row(p);
		} else if (opcode == 0) {
			extended(p, b);
		} else {
			standard(p, opcode, b);
		}
	}
}

static void prepare_specials(struct program *p)
{
	p->is_plain = p->max_operations <= 1 && p->opcode_base > DW_LNS_const_add_pc && p->operands[DW_LNS_set_column] == 1 &&
		p->operands[DW_LNS_negate_stmt] == 0;
	for (unsigned opcode = p->opcode_base; opcode < 256 && p->is_plain; opcode++) {
		uint8_t adjusted = (uint8_t)(opcode - p->opcode_base);
		p->special[opcode].addr = (uint32_t)adjusted / p->line_range * p->min_instruction;
		p->special[opcode].line = p->line_base + adjusted % p->line_range;
	}
}

static bool read_header(struct program *p, struct bytes *b)
{
	p->out->version = bytes_u16(b);
	p->shape.version = p->out->version;
	if (p->out->version < 2 || p->out->version > 5)
		return false;
	if (p->out->version >= 5) {
		p->shape.address_size = bytes_u8(b);
		bytes_skip(b, 1);
	}
	uint64_t length = dwarf_offset(&p->shape, b);
	struct bytes header = bytes_sub(b, length);
	p->min_instruction = bytes_u8(&header);
	p->max_operations = p->out->version >= 4 ? bytes_u8(&header) : 1;
	bytes_skip(&header, 1); // default_is_stmt: rows count alike, as other readers have it
	p->line_base = (int8_t)bytes_u8(&header);
	p->line_range = bytes_u8(&header);
	p->opcode_base = bytes_u8(&header);
	for (unsigned i = 1; i < p->opcode_base; i++)
		p->operands[i] = bytes_u8(&header);
	if (header.bad || p->line_range == 0 || p->opcode_base == 0)
		return false;
	prepare_specials(p);
	if (p->out->version >= 5) {
		read_entries(p, &header, false);
		read_entries(p, &header, true);
	} else {
		read_old_tables(p->out, &header);
	}
	return true;
}

static void read_lines(struct dwarf_unit *unit, struct dwarf_lines *out)
{
	struct program p = { .shape = *unit, .out = out };
	struct bytes section = dwarf_section(unit->dwarf, DWARF_LINE);
	bytes_skip(&section, unit->line_offset);
	uint64_t length = bytes_u32(&section);
	p.shape.offset_size = 4;
	if (length == 0xffffffff) {
		length = bytes_u64(&section);
		p.shape.offset_size = 8;
	}
	struct bytes b = bytes_sub(&section, length);
	bool good = !b.bad && read_header(&p, &b);
	if (good)
		run(&p, &b);
	if (!good || b.bad)
		dwarf_fault(unit->dwarf, DWARF_LINE, unit->line_offset, "a line table of version 2 to 5 inside the section, found version %u of %llu bytes",
		            out->version, (unsigned long long)length);
	span_finish(&out->by_addr);
	if (out->rows.count > 0) {
		out->rows.data = mem_resize(out->rows.data, out->rows.count, sizeof(out->rows.data[0]));
		out->rows.capacity = out->rows.count;
	}
}

const struct dwarf_lines *dwarf_unit_lines(struct dwarf_unit *unit)
{
	if (unit->lines == NULL) {
		unit->lines = NEW(struct dwarf_lines);
		if (dwarf_unit_root(unit) && unit->has_lines)
			read_lines(unit, unit->lines);
	}
	return unit->lines;
}

bool dwarf_line_find(const struct dwarf_lines *lines, uint64_t vaddr, uint32_t *file, uint32_t *line)
{
	uint32_t found = span_find(&lines->by_addr, vaddr);
	if (found == SPAN_NONE)
		return false;
	const struct line_sequence *sequence = &lines->sequences.data[found];
	const struct line_row *rows = &lines->rows.data[sequence->first];
	size_t lo = 0, hi = sequence->count;
	while (lo < hi) { // the last row at or before the address
		size_t middle = lo + (hi - lo) / 2;
		if (rows[middle].addr <= vaddr)
			lo = middle + 1;
		else
			hi = middle;
	}
	if (lo == 0)
		return false;
	*file = rows[lo - 1].file;
	*line = rows[lo - 1].line;
	return true;
}

static const char *join(struct arena *arena, const char *directory, const char *name)
{
	size_t a = strlen(directory), b = strlen(name);
	bool slash = a > 0 && directory[a - 1] != '/';
	char *path = arena_alloc(arena, a + slash + b + 1);
	memcpy(path, directory, a);
	if (slash)
		path[a] = '/';
	memcpy(path + a + slash, name, b);
	return path;
}

const char *dwarf_line_path(struct dwarf_unit *unit, uint64_t file)
{
	struct dwarf_lines *lines = (struct dwarf_lines *)dwarf_unit_lines(unit);
	uint64_t index = lines->version >= 5 ? file : file - 1; // numbered from 0 since version 5
	if (index >= lines->files.count)
		return NULL;
	struct line_file *f = &lines->files.data[index];
	if (f->path != NULL || f->name[0] == '\0')
		return f->path;
	const char *comp_dir = unit->comp_dir, *directory = comp_dir;
	if (lines->version >= 5 && lines->directories.count > 0 && lines->directories.data[0][0] == '/')
		comp_dir = lines->directories.data[0];
	uint64_t d = lines->version >= 5 ? f->directory : f->directory - 1;
	if (lines->version >= 5 || f->directory > 0)
		directory = d < lines->directories.count ? lines->directories.data[d] : NULL;
	f->path = f->name;
	if (f->name[0] == '/' || directory == NULL || directory[0] == '\0')
		return f->path;
	if (directory[0] != '/' && comp_dir != NULL && directory != comp_dir)
		directory = join(&unit->dwarf->arena, comp_dir, directory);
	f->path = join(&unit->dwarf->arena, directory, f->name);
	return f->path;
}

void dwarf_lines_free(struct dwarf_lines *lines)
{
	if (lines == NULL)
		return;
	vec_release(&lines->directories);
	vec_release(&lines->files);
	vec_release(&lines->rows);
	vec_release(&lines->sequences);
	span_release(&lines->by_addr);
	free(lines);
}
