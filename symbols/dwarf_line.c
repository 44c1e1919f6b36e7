// Line number programs, versions 2 to 5 (6.2).
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "symbols/dwarf_internal.h"

enum { FILES_LIMIT = 1 << 20, FORMATS_LIMIT = 32, LONGEST_PLAIN = 3 };

// Running a program for addresses alone: what the row before the next row says, and which addresses that row may end.
struct asking {
	struct line_answer *answers; // of all addresses asked for, by address; NULL: rows are kept instead
	struct { uint32_t file, line; } *pending; // likewise, of the sequence: they hold when it ends well
	size_t count, first, next;   // first: that the sequence may have; next: not yet passed
	uint64_t start, limit;       // of the sequence; a row at or behind `limit` has passed the next address
	uint64_t line;
	uint32_t file;
	bool has_row, is_odd;        // is_odd: addresses descend within a sequence, and only the rows can tell
};

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
	struct asking asking;
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

static void move_to(struct program *p, uint64_t addr)
{
	p->asking.is_odd |= addr < p->addr;
	p->addr = addr;
}

static void advance(struct program *p, uint64_t operations)
{
	if (p->max_operations <= 1) {
		move_to(p, p->addr + operations * p->min_instruction);
		return;
	}
	uint64_t sum = p->operation + operations; // VLIW (6.2.5.1)
	move_to(p, p->addr + sum / p->max_operations * p->min_instruction);
	p->operation = sum % p->max_operations;
}

struct row_end { // where rows are appended, kept in registers of the machine
	struct line_row *first, *next, *limit; // first: of the sequence
};

// There is room for a row: nothing may be added to the NULL of an empty table, not even 0.
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

static size_t first_at(const struct asking *a, uint64_t addr)
{
	return first_not(0, a->count, i, a->answers[i].addr < addr);
}

// A row at `addr` ends the row before it, which is that of the addresses up to here.
static __attribute__((noinline)) uint64_t answer(struct asking *a, uint64_t addr, uint32_t file, uint64_t line)
{
	if (!a->has_row) {
		a->has_row = true;
		a->start = addr;
		a->first = a->next = first_at(a, addr);
	}
	for (; a->next < a->count && a->answers[a->next].addr < addr; a->next++) {
		a->pending[a->next].file = file;
		a->pending[a->next].line = line <= UINT32_MAX ? (uint32_t)line : 0;
	}
	a->limit = a->next < a->count && a->answers[a->next].addr < UINT64_MAX ? a->answers[a->next].addr + 1 : UINT64_MAX;
	return a->limit;
}

// Of sequences that overlap the one that begins last holds, of two that begin together the shorter, as in span.h.
static void end_asking(struct asking *a, uint64_t end)
{
	if (a->has_row && a->start > 1 && end > a->start) {
		(void)answer(a, end, a->file, a->line);
		for (size_t i = a->first; i < a->next; i++) {
			struct line_answer *to = &a->answers[i];
			if (to->hi != 0 && (a->start < to->lo || (a->start == to->lo && end > to->hi)))
				continue;
			*to = (struct line_answer){ .addr = to->addr, .lo = a->start, .hi = end, .file = a->pending[i].file, .line = a->pending[i].line };
		}
	}
	a->has_row = false;
	a->limit = 0;
}

static void add_row(struct program *p)
{
	struct asking *a = &p->asking;
	if (a->answers != NULL) {
		if (p->addr >= a->limit)
			(void)answer(a, p->addr, a->file, a->line);
		a->file = p->file <= UINT32_MAX ? (uint32_t)p->file : 0;
		a->line = p->line;
		return;
	}
	vec_reserve(&p->out->rows, 1);
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
	end_asking(&p->asking, p->addr);
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
		move_to(p, dwarf_address(&p->shape, &operand));
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

// The opcodes that nearly all of a program consists of; stops before any other. Made twice: keeping rows, and asking.
static inline __attribute__((always_inline)) void run_plain(struct program *p, struct bytes *b, const bool keeps_rows)
{
	const uint8_t *at = b->at, *end = b->end;
	vec_reserve(&p->out->rows, 1);
	struct row_end rows = row_end(p);
	uint64_t addr = p->addr, line = p->line, row_line = p->asking.line, limit = p->asking.limit;
	uint32_t file = p->file <= UINT32_MAX ? (uint32_t)p->file : 0, row_file = p->asking.file;
	const uint8_t opcode_base = p->opcode_base, min_instruction = p->min_instruction;
	while (end - at >= LONGEST_PLAIN) {
		const uint8_t opcode = *at;
		if (opcode >= opcode_base) {
			at++;
			addr += p->special[opcode].addr;
			line += (uint64_t)(int64_t)p->special[opcode].line;
		} else if (opcode == DW_LNS_set_column && at[1] < 0x80) {
			at += 2;
			continue;
		} else if (opcode == DW_LNS_negate_stmt || opcode == DW_LNS_set_prologue_end) {
			at++;
			continue;
		} else if (opcode == DW_LNS_copy) {
			at++;
		} else if (opcode == DW_LNS_const_add_pc) {
			at++;
			addr += p->special[255].addr;
			continue;
		} else {
			if (opcode < DW_LNS_advance_pc || opcode > DW_LNS_set_column || (at[1] & at[2]) >= 0x80) // an operand of more than two bytes
				break;
			const bool is_short = at[1] < 0x80;
			const uint64_t operand = is_short ? at[1] : (at[1] & 0x7fu) | (uint64_t)at[2] << 7, sign = is_short ? 1 << 6 : 1 << 13;
			at += is_short ? 2 : 3;
			if (opcode == DW_LNS_advance_line)
				line += (operand ^ sign) - sign;
			else if (opcode == DW_LNS_set_file)
				file = (uint32_t)operand;
			else if (opcode == DW_LNS_advance_pc)
				addr += operand * min_instruction;
			continue;
		}
		if (keeps_rows) {
			put_row(p, &rows, addr, file, line);
			continue;
		}
		if (addr >= limit)
			limit = answer(&p->asking, addr, row_file, row_line);
		row_line = line;
		row_file = file;
	}
	b->at = at;
	p->addr = addr;
	p->file = file;
	p->line = line;
	p->asking.line = row_line;
	p->asking.file = row_file;
	p->out->rows.count = (size_t)(rows.next - p->out->rows.data);
}

static void run(struct program *p, struct bytes *b)
{
	if (bytes_left(b) > UINT32_MAX) // rows have 32-bit numbers, and at least a byte each
		return;
	reset(p);
	const bool keeps_rows = p->asking.answers == NULL;
	if (keeps_rows)
		vec_reserve(&p->out->rows, bytes_left(b) / 12 + 1);
	while (bytes_left(b) > 0 && !b->bad) {
		if (p->is_plain && keeps_rows)
			run_plain(p, b, true);
		else if (p->is_plain)
			run_plain(p, b, false);
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
		p->operands[DW_LNS_negate_stmt] == 0 && (p->opcode_base <= DW_LNS_set_prologue_end || p->operands[DW_LNS_set_prologue_end] == 0);
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

// For the addresses of the answers, or all rows.
static void run_lines(struct dwarf_unit *unit, struct dwarf_lines *out)
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
	if (good && out->answers.count > 0) {
		p.asking.answers = out->answers.data;
		p.asking.count = out->answers.count;
		p.asking.pending = mem_resize(NULL, out->answers.count, sizeof(*p.asking.pending));
	}
	if (good)
		run(&p, &b);
	if (!good || b.bad)
		dwarf_fault(unit->dwarf, DWARF_LINE, unit->line_offset, "a line table of version 2 to 5 inside the section, found version %u of %llu bytes",
		            out->version, (unsigned long long)length);
	free(p.asking.pending);
	if (p.asking.answers != NULL && p.asking.is_odd)
		vec_clear(&out->answers);
}

static struct dwarf_lines *read_lines(struct dwarf_unit *unit, struct dwarf_lines *lines)
{
	if (dwarf_unit_root(unit) && unit->has_lines)
		run_lines(unit, lines);
	return lines;
}

void dwarf_lines_ask(struct dwarf_unit *unit, const uint64_t *vaddrs, size_t count)
{
	if (unit->lines != NULL || count == 0)
		return;
	unit->lines = NEW(struct dwarf_lines);
	vec_reserve(&unit->lines->answers, count);
	for (size_t i = 0; i < count; i++)
		vec_push(&unit->lines->answers, (struct line_answer){ .addr = vaddrs[i] });
	read_lines(unit, unit->lines);
}

// With all rows.
static struct dwarf_lines *all_lines(struct dwarf_unit *unit)
{
	if (unit->lines == NULL || !unit->lines->has_rows) {
		dwarf_lines_free(unit->lines);
		struct dwarf_lines *lines = unit->lines = read_lines(unit, NEW(struct dwarf_lines));
		lines->has_rows = true;
		span_finish(&lines->by_addr);
		if (lines->rows.count > 0) {
			lines->rows.data = mem_resize(lines->rows.data, lines->rows.count, sizeof(lines->rows.data[0]));
			lines->rows.capacity = lines->rows.count;
		}
	}
	return unit->lines;
}

static const struct line_answer *find_answer(struct dwarf_lines *lines, uint64_t vaddr)
{
	if (lines->next_answer < lines->answers.count && lines->answers.data[lines->next_answer].addr == vaddr)
		return &lines->answers.data[lines->next_answer++];
	const size_t at = first_not(0, lines->answers.count, i, lines->answers.data[i].addr < vaddr);
	if (at >= lines->answers.count || lines->answers.data[at].addr != vaddr)
		return NULL;
	lines->next_answer = at + 1;
	return &lines->answers.data[at];
}

bool dwarf_line_find(struct dwarf_unit *unit, uint64_t vaddr, uint32_t *file, uint32_t *line)
{
	const struct line_answer *answer = unit->lines != NULL ? find_answer(unit->lines, vaddr) : NULL;
	if (answer != NULL) {
		*file = answer->file;
		*line = answer->line;
		return answer->hi != 0;
	}
	const struct dwarf_lines *lines = all_lines(unit);
	uint32_t found = span_find(&lines->by_addr, vaddr);
	if (found == SPAN_NONE)
		return false;
	const struct line_sequence *sequence = &lines->sequences.data[found];
	const struct line_row *rows = &lines->rows.data[sequence->first];
	const size_t next = first_not(0, sequence->count, i, rows[i].addr <= vaddr);
	if (next == 0)
		return false;
	*file = rows[next - 1].file;
	*line = rows[next - 1].line;
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
	struct dwarf_lines *lines = unit->lines != NULL ? unit->lines : all_lines(unit);
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
	vec_release(&lines->answers);
	vec_release(&lines->rows);
	vec_release(&lines->sequences);
	span_release(&lines->by_addr);
	free(lines);
}
