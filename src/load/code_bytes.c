#include "load/code_bytes.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/search.h"
#include "base/sort.h"
#include "unwind/code_views.h"

_Static_assert((int)NAMES_PAGE_BYTES == (int)CODE_PAGE_BYTES, "what a recording holds is what views are made of");

enum { PIECES = 256 };

struct piece {
	struct code_piece of;
	uint64_t id; // 0: nothing is here
	uint8_t *bytes;
};

struct process { uint32_t pid; VEC(uint64_t) turns; }; // times when one of its pages becomes another, ascending

struct code_bytes {
	const struct names *names;
	struct code_views *views;
	VEC(struct process) processes; // by pid, ascending
	struct piece pieces[PIECES];   // by a hash
};

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

struct code_bytes *code_bytes_new(const struct names *names)
{
	struct code_bytes *code = NEW(struct code_bytes);
	code->names = names;
	code->views = code_views_new();
	for (size_t i = 0; names != NULL && i < names->pages.count; i++) {
		uint32_t pid = names->pages.data[i].pid;
		uint64_t from_ns, to_ns;
		if (code->processes.count == 0 || code->processes.data[code->processes.count - 1].pid != pid)
			vec_push(&code->processes, (struct process){ .pid = pid });
		struct process *process = &code->processes.data[code->processes.count - 1];
		names_page_times(names, i, &from_ns, &to_ns);
		vec_push(&process->turns, from_ns);
		vec_push(&process->turns, to_ns);
	}
	for (size_t i = 0; i < code->processes.count; i++)
		sort_stable(code->processes.data[i].turns.data, code->processes.data[i].turns.count, sizeof(uint64_t), by_value);
	return code;
}

void code_bytes_free(struct code_bytes *code)
{
	if (code == NULL)
		return;
	for (size_t i = 0; i < code->processes.count; i++)
		vec_release(&code->processes.data[i].turns);
	for (size_t i = 0; i < PIECES; i++)
		free(code->pieces[i].bytes);
	vec_release(&code->processes);
	code_views_free(code->views);
	free(code);
}

// ---------------------------------------------------------------- pages that were read
struct moment { const struct names *names; uint32_t pid; uint64_t time_ns; };

static struct code_page page_at(void *context, uint64_t addr)
{
	const struct moment *moment = context;
	const struct name_page *page = names_page_at(moment->names, moment->pid, addr, moment->time_ns);
	return page != NULL ? (struct code_page){ page->bytes, (uint64_t)(page - moment->names->pages.data) + 1 } : (struct code_page){ 0 };
}

struct unwind_code code_bytes_in_memory(struct code_bytes *code, int32_t pid, uint64_t time_ns, uint64_t addr)
{
	struct moment moment = { code->names, (uint32_t)pid, time_ns };
	const struct process *all = code->processes.data;
	const size_t at = first_not(0, code->processes.count, i, all[i].pid < moment.pid);
	if (at == code->processes.count || all[at].pid != moment.pid)
		return (struct unwind_code){ 0 };
	const size_t turns = first_not(0, all[at].turns.count, i, all[at].turns.data[i] <= time_ns);
	return code_views_at(code->views, moment.pid, turns, addr, page_at, &moment);
}

// ---------------------------------------------------------------- what a dump holds
static bool is_read(int fd, uint8_t *to, uint64_t size, uint64_t offset)
{
	while (size > 0) {
		ssize_t got = pread(fd, to, (size_t)size, (off_t)offset);
		if (got <= 0)
			return false;
		to += got;
		size -= (uint64_t)got;
		offset += (uint64_t)got;
	}
	return true;
}

struct unwind_code code_bytes_in_dump(struct code_bytes *code, const struct code_piece *of)
{
	struct piece *piece = &code->pieces[hash_pair(hash_pair(of->start, of->size), hash_pair(of->dump, of->offset)) % PIECES];
	bool is_here = piece->id != 0 && piece->of.start == of->start && piece->of.size == of->size && piece->of.dump == of->dump && piece->of.offset == of->offset;
	if (!is_here) {
		free(piece->bytes);
		*piece = (struct piece){ .of = *of };
		if (of->size == 0 || of->size > CODE_IN_DUMP_MOST)
			return (struct unwind_code){ 0 };
		piece->bytes = mem_alloc((size_t)of->size);
		if (!is_read(of->fd, piece->bytes, of->size, of->offset))
			return (struct unwind_code){ 0 };
		piece->id = code_views_new_id(code->views);
	}
	return (struct unwind_code){ .bytes = piece->bytes, .start = of->start, .end = of->start + of->size, .id = piece->id };
}
