#include "symbols/jitdump.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/search.h"
#include "base/sort.h"

enum { MAGIC = 0x4a695444, HEADER_BYTES = 40, RECORD_BYTES = 16, LINES_MOST = 16 << 20 };
enum { CODE_LOAD = 0, CODE_MOVE = 1, CODE_DEBUG_INFO = 2, CODE_CLOSE = 3, CODE_UNWINDING_INFO = 4 };

struct parsing {
	struct jitdump *out;
	struct hash_map by_index; // code index -> its load in `codes`
	uint32_t first_line, line_count; // of debug information that waits for its code
	uint64_t lines_addr;
	uint64_t unwind_offset, unwind_size; // of unwinding information that does
};

bool jitdump_is_path(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
	size_t digits = strncmp(name, "jit-", 4) == 0 ? strspn(name + 4, "0123456789") : 0;
	return digits > 0 && strcmp(name + 4 + digits, ".dump") == 0;
}

int jitdump_open(const char *symfs, const char *path, size_t *size)
{
	char *full = mem_printf("%s%s", symfs != NULL ? symfs : "", path);
	int fd = regular_open(full, O_NOFOLLOW);
	struct stat st;
	free(full);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()) && st.st_size > 0 &&
	    st.st_size <= JITDUMP_BYTES_MOST) {
		*size = (size_t)st.st_size;
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool parse_header(struct jitdump *out, struct bytes *in, struct err *err)
{
	uint32_t magic = bytes_u32(in);
	in->swap = magic == __builtin_bswap32(MAGIC);
	if (in->bad || (magic != MAGIC && !in->swap))
		return err_set(err, STATUS_INPUT, "at 0x0: not a jitdump (expected the magic \"JiTD\")");
	uint32_t version = bytes_u32(in), header_size = bytes_u32(in);
	out->machine = bytes_u32(in);
	bytes_skip(in, 4);
	out->pid = bytes_u32(in);
	out->start = bytes_u64(in);
	out->flags = bytes_u64(in);
	if (in->bad || version != 1 || header_size < HEADER_BYTES)
		return err_set(err, STATUS_INPUT, "at 0x4: version %u, header of %u bytes; expected version 1, at least %d bytes", version, header_size, HEADER_BYTES);
	bytes_skip(in, header_size - HEADER_BYTES);
	return !in->bad || err_set(err, STATUS_INPUT, "at 0x8: a header of %u bytes in a file of %zu", header_size, out->size);
}

// V8 (of Node.js 20) writes file names from memory that it has freed: NULs and other bytes in them shift what follows. Then nothing of the record
// is believed: a line of the code has an address in it, or behind it, and a file's name is text.
static bool lines_are_sound(const struct parsing *p, const struct jitdump_code *code)
{
	for (uint32_t i = 0; i < p->line_count; i++) {
		const struct jitdump_line *line = &p->out->lines.data[p->first_line + i];
		const uint8_t *file = p->out->bytes + line->file;
		if (line->addr < code->addr || line->addr - code->addr > code->size)
			return false;
		for (uint32_t at = 0; at < line->file_length; at++)
			if (file[at] < ' ' || file[at] == 0x7f)
				return false;
	}
	return true;
}

static void parse_load(struct parsing *p, struct bytes *body, uint64_t time_ns)
{
	struct jitdump *out = p->out;
	struct jitdump_code code = { .time_ns = time_ns };
	bytes_skip(body, 4 + 4 + 8); // pid and tid in the compiler's namespace; vma
	code.addr = bytes_u64(body);
	code.size = bytes_u64(body);
	uint64_t index = bytes_u64(body);
	const char *name = bytes_cstr(body);
	code.name = (uint32_t)((const uint8_t *)name - out->bytes);
	code.name_length = (uint32_t)strlen(name);
	if (body->bad || code.size == 0 || code.size > bytes_left(body) || code.addr + code.size < code.addr || out->codes.count >= JITDUMP_CODES_MOST)
		return; // of no use; the records behind it are
	code.offset = (uint64_t)(body->at - out->bytes);
	if (p->line_count > 0 && p->lines_addr == code.addr && lines_are_sound(p, &code)) {
		code.first_line = p->first_line;
		code.line_count = p->line_count;
	}
	code.unwind_offset = p->unwind_offset;
	code.unwind_size = p->unwind_size;
	*hash_map_put(&p->by_index, index, 0, NULL) = (uint32_t)out->codes.count;
	vec_push(&out->by_offset, (uint32_t)out->codes.count);
	vec_push(&out->codes, code);
}

static void parse_move(struct parsing *p, struct bytes *body, uint64_t time_ns)
{
	bytes_skip(body, 4 + 4 + 8 + 8); // the address that is left is known
	uint64_t addr = bytes_u64(body), size = bytes_u64(body), index = bytes_u64(body);
	const uint32_t *load = body->bad ? NULL : hash_map_get(&p->by_index, index);
	if (load == NULL || addr + size < addr || p->out->codes.count >= JITDUMP_CODES_MOST)
		return;
	struct jitdump_code code = p->out->codes.data[*load];
	code.time_ns = time_ns;
	code.addr = addr;
	code.is_move = true;
	vec_push(&p->out->codes, code);
}

static int by_addr(const void *a, const void *b)
{
	const struct jitdump_line *x = a, *y = b;
	return (x->addr > y->addr) - (x->addr < y->addr);
}

static void parse_debug_info(struct parsing *p, struct bytes *body)
{
	struct jitdump *out = p->out;
	struct jitdump_line before = { 0 };
	p->lines_addr = bytes_u64(body);
	uint64_t count = bytes_u64(body);
	p->first_line = (uint32_t)out->lines.count;
	p->line_count = 0;
	for (uint64_t i = 0; i < count && out->lines.count < LINES_MOST; i++) {
		struct jitdump_line line = { .addr = bytes_u64(body) };
		line.line = bytes_u32(body);
		bytes_skip(body, 4); // the column, or a discriminator
		const char *file = bytes_cstr(body);
		if (body->bad) {
			p->line_count = 0;
			return;
		}
		bool same = strcmp(file, "\xff") == 0; // the file of the entry before
		line.file = same ? before.file : (uint32_t)((const uint8_t *)file - out->bytes);
		line.file_length = same ? before.file_length : (uint32_t)strlen(file);
		before = line;
		vec_push(&out->lines, line);
		p->line_count++;
	}
	if (p->line_count > 1)
		sort_stable(out->lines.data + p->first_line, p->line_count, sizeof(*out->lines.data), by_addr);
}

static void parse_unwinding_info(struct parsing *p, struct bytes *body)
{
	uint64_t size = bytes_u64(body), header_size = bytes_u64(body);
	bytes_skip(body, 8); // what of it is mapped at run time
	if (body->bad || size > bytes_left(body) || header_size > size)
		return;
	p->unwind_offset = (uint64_t)(body->at - p->out->bytes);
	p->unwind_size = size - header_size; // .eh_frame_hdr stands last
}

static void parse_record(struct parsing *p, uint32_t id, struct bytes *body, uint64_t time_ns)
{
	switch (id) {
	case CODE_LOAD:
		parse_load(p, body, time_ns);
		p->line_count = 0;
		p->unwind_size = 0;
		break;
	case CODE_MOVE: parse_move(p, body, time_ns); break;
	case CODE_DEBUG_INFO: parse_debug_info(p, body); break;
	case CODE_UNWINDING_INFO: parse_unwinding_info(p, body); break;
	case CODE_CLOSE: p->out->is_closed = true; break;
	default: break; // of a later version
	}
}

bool jitdump_parse(struct jitdump *out, const void *bytes, size_t size, struct err *err)
{
	struct bytes in = bytes_of(bytes, size);
	struct parsing p = { .out = out };
	bool good = true;
	*out = (struct jitdump){ .bytes = bytes, .size = size };
	if (size > JITDUMP_BYTES_MOST)
		return err_set(err, STATUS_INPUT, "%zu bytes; expected at most 1 GiB", size);
	if (!parse_header(out, &in, err))
		return false;
	while (good && bytes_left(&in) >= RECORD_BYTES) {
		size_t at = bytes_offset(&in);
		uint32_t id = bytes_u32(&in), total = bytes_u32(&in);
		uint64_t time_ns = bytes_u64(&in);
		if (total < RECORD_BYTES) {
			good = err_set(err, STATUS_INPUT, "at 0x%zx: a record of %u bytes, expected at least %d", at, total, RECORD_BYTES);
		} else if (total - RECORD_BYTES > bytes_left(&in)) {
			out->is_cut = true;
			out->cut_at = at;
			break;
		} else {
			struct bytes body = bytes_sub(&in, total - RECORD_BYTES);
			parse_record(&p, id, &body, time_ns);
		}
	}
	out->is_cut |= bytes_left(&in) > 0 && bytes_left(&in) < RECORD_BYTES;
	hash_map_release(&p.by_index);
	return good;
}

const struct jitdump_code *jitdump_find(const struct jitdump *dump, uint64_t offset)
{
	// Offsets ascend with the file.
	const size_t next = first_not(0, dump->by_offset.count, i, dump->codes.data[dump->by_offset.data[i]].offset <= offset);
	if (next == 0)
		return NULL;
	const struct jitdump_code *code = &dump->codes.data[dump->by_offset.data[next - 1]];
	return offset - code->offset < code->size ? code : NULL;
}

const struct jitdump_line *jitdump_line(const struct jitdump *dump, const struct jitdump_code *code, uint64_t offset)
{
	uint64_t addr = code->addr + (offset - code->offset);
	const struct jitdump_line *lines = dump->lines.data + code->first_line;
	const size_t next = first_not(0, code->line_count, i, lines[i].addr <= addr);
	return next > 0 ? &lines[next - 1] : NULL;
}

void jitdump_release(struct jitdump *dump)
{
	vec_release(&dump->codes);
	vec_release(&dump->by_offset);
	vec_release(&dump->lines);
}
