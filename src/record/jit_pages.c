#include "record/jit_pages.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/vec.h"
#include "proc/procfs.h"
#include "unwind/arch.h"
#include "unwind/code_views.h"

enum { LINE_BYTES = JIT_PAGE_BYTES / 64, FAILURES_MOST = 16, VERSIONS_A_DOUBLING = 16 };
static const uint64_t SECOND_NS = UINT64_C(1000) * 1000 * 1000;

// An address space: of a process, until it ends or executes another program.
struct space {
	int32_t pid;
	uint64_t born_ns, gone_ns;
	uint32_t read, failed; // pages of it
	uint32_t changes;      // of them
	uint64_t stack_ns;     // when a whole stack was looked at last
};

struct version { // of a page
	uint32_t page, before; // before: number of the one before it + 1, 0: none
	uint64_t from_ns, until_ns, born_ns, gone_ns;
	uint64_t id;
	uint8_t *bytes;
};

struct page {
	uint32_t space;
	uint32_t last, versions; // last: number of its last version + 1; 0: none
	uint64_t addr;
	uint64_t lines, asked_lines;           // in which samples stood: of 64 bytes each, a bit for each
	uint64_t first_line, first_ns;         // the sample that it was asked for
	uint64_t read_ns, asked_ns, mapped_ns; // asked_ns: the last sample since
	uint8_t doublings;
	bool is_asked;
};

struct item { // of a batch
	uint32_t page;
	int32_t pid;
	uint64_t addr, read_ns; // read_ns 0: could not be read
	uint64_t call_end;      // kept only if a call ends there, or the page was kept before; 0: for itself
};

struct batch {
	VEC(struct item) items;
	uint8_t *bytes; // JIT_PAGES_A_BATCH pages
};

// An answer that holds until something changes, or the page is due.
struct recent {
	uint64_t generation, addr, changes, replaced, due_ns; // addr: of the page
	int32_t pid;
	struct unwind_code code; // id 0: none
};
enum { RECENT = 64 };

enum batch_state { BATCH_IDLE, BATCH_RUNNING, BATCH_DONE };

struct jit_pages {
	struct perf_clock clock;
	const struct unwind_arch *arch; // NULL: nothing is known of its calls
	bool keeps_all;
	struct code_views *views; // NULL where all is kept
	uint64_t last_id, epoch;  // of versions; epoch: how often all was forgotten
	uint64_t changes;         // of anything
	struct recent recent[RECENT];
	VEC(struct space) spaces;
	struct hash_map space_of; // pid -> index of its space
	VEC(struct page) pages;
	struct hash_map by_place; // (space, address) -> index
	VEC(struct version) versions;
	struct arena arena;
	VEC(struct item) asked;
	struct batch batch;       // the helper's while it runs
	_Atomic int state;        // enum batch_state
	uint64_t second;
	unsigned asked_in_second;
	struct jit_pages_figures figures;
};

_Static_assert((int)JIT_PAGE_BYTES == (int)CODE_PAGE_BYTES, "what is read is what views are made of");

struct jit_pages *jit_pages_new(uint16_t machine, bool keeps_all)
{
	struct jit_pages *pages = NEW(struct jit_pages);
	pages->arch = unwind_arch_for(machine);
	pages->keeps_all = keeps_all;
	pages->views = keeps_all ? NULL : code_views_new();
	return pages;
}

void jit_pages_use_clock(struct jit_pages *pages, const struct perf_clock *clock)
{
	pages->clock = *clock;
}

static void forget(struct jit_pages *pages)
{
	vec_clear(&pages->spaces);
	vec_clear(&pages->pages);
	vec_clear(&pages->versions);
	hash_map_clear(&pages->space_of);
	hash_map_clear(&pages->by_place);
	arena_release(&pages->arena);
	pages->epoch++;
	pages->changes++;
}

void jit_pages_free(struct jit_pages *pages)
{
	if (pages == NULL || atomic_load_explicit(&pages->state, memory_order_acquire) == BATCH_RUNNING)
		return;
	vec_release(&pages->spaces);
	vec_release(&pages->pages);
	vec_release(&pages->versions);
	vec_release(&pages->asked);
	vec_release(&pages->batch.items);
	mem_pages_free(pages->batch.bytes, (size_t)JIT_PAGES_A_BATCH * JIT_PAGE_BYTES);
	hash_map_release(&pages->space_of);
	hash_map_release(&pages->by_place);
	arena_release(&pages->arena);
	code_views_free(pages->views);
	free(pages);
}

// ---------------------------------------------------------------- asking
static uint32_t space_of(struct jit_pages *pages, int32_t pid)
{
	bool is_new;
	uint32_t space = *hash_map_put(&pages->space_of, (uint32_t)pid, (uint32_t)pages->spaces.count, &is_new);
	if (is_new)
		vec_push(&pages->spaces, (struct space){ .pid = pid, .gone_ns = UINT64_MAX });
	return space;
}

static uint64_t key_of(uint32_t space, uint64_t addr)
{
	return hash_pair(space, addr / JIT_PAGE_BYTES);
}

// NULL: there are too many.
static struct page *page_at(struct jit_pages *pages, uint32_t space, uint64_t addr)
{
	uint64_t key = key_of(space, addr);
	const uint32_t *known = hash_map_get(&pages->by_place, key);
	if (known != NULL)
		return &pages->pages.data[*known];
	if (pages->pages.count >= JIT_PAGES_MOST)
		return NULL;
	hash_map_put(&pages->by_place, key, (uint32_t)pages->pages.count, NULL);
	vec_push(&pages->pages, (struct page){ .space = space, .addr = addr });
	return &pages->pages.data[pages->pages.count - 1];
}

// When it has become too old.
static uint64_t due_ns(const struct page *page)
{
	return page->read_ns + ((uint64_t)JIT_PAGE_FIRST_NS << page->doublings);
}

static bool is_due(const struct page *page, uint64_t line, uint64_t time_ns)
{
	if (page->read_ns == 0)
		return true;
	if (time_ns <= page->read_ns)
		return false;
	return (line & ~page->lines) != 0 || page->mapped_ns > page->read_ns || time_ns > due_ns(page);
}

static void want_page(struct jit_pages *pages, uint32_t space, uint64_t addr, uint64_t line, uint64_t call_end, uint64_t time_ns)
{
	struct page *page = page_at(pages, space, addr);
	if (page == NULL) {
		pages->figures.refused++;
		return;
	}
	if (page->is_asked) {
		page->asked_lines |= call_end == 0 ? line : 0; // there is one call that can be looked for
		page->asked_ns = time_ns > page->asked_ns ? time_ns : page->asked_ns;
		return;
	}
	if (!is_due(page, line, time_ns)) {
		page->lines |= line;
		return;
	}
	if (time_ns / SECOND_NS != pages->second) {
		pages->second = time_ns / SECOND_NS;
		pages->asked_in_second = 0;
	}
	if (pages->asked_in_second >= JIT_PAGES_A_SECOND || pages->asked.count >= JIT_PAGES_A_BATCH) {
		pages->figures.late++;
		return;
	}
	pages->asked_in_second++;
	page->is_asked = true;
	page->asked_lines = page->first_line = line;
	page->asked_ns = page->first_ns = time_ns;
	vec_push(&pages->asked, (struct item){ .page = (uint32_t)(page - pages->pages.data), .pid = pages->spaces.data[space].pid, .addr = addr,
	                                      .call_end = call_end });
}

static bool is_unreadable(const struct space *space)
{
	return space->read == 0 && space->failed >= FAILURES_MOST;
}

// The page, and those beside it: functions go on there.
static void want_around(struct jit_pages *pages, uint32_t space, uint64_t pc, uint64_t line, uint64_t start, uint64_t end, uint64_t time_ns)
{
	uint64_t addr = pc / JIT_PAGE_BYTES * JIT_PAGE_BYTES;
	if (is_unreadable(&pages->spaces.data[space]))
		return; // its memory is not ours to read
	want_page(pages, space, addr, line, 0, time_ns);
	if (addr + JIT_PAGE_BYTES < end)
		want_page(pages, space, addr + JIT_PAGE_BYTES, 0, 0, time_ns);
	if (addr > start)
		want_page(pages, space, addr - JIT_PAGE_BYTES, 0, 0, time_ns);
}

static uint64_t line_of(uint64_t addr)
{
	return UINT64_C(1) << addr % JIT_PAGE_BYTES / LINE_BYTES;
}

void jit_pages_want(struct jit_pages *pages, int32_t pid, uint64_t pc, uint64_t start, uint64_t end, uint64_t time_ns)
{
	want_around(pages, space_of(pages, pid), pc, line_of(pc), start, end, time_ns);
}

void jit_pages_want_return(struct jit_pages *pages, int32_t pid, uint64_t addr, uint64_t start, uint64_t time_ns)
{
	uint32_t space = space_of(pages, pid);
	uint64_t page = (addr - 1) / JIT_PAGE_BYTES * JIT_PAGE_BYTES;
	if (pages->arch == NULL || pages->arch->is_call == NULL || is_unreadable(&pages->spaces.data[space]))
		return;
	want_page(pages, space, page, line_of(addr - 1), addr, time_ns);
	if (addr - page < UNWIND_CALL_BYTES && page > start)
		want_page(pages, space, page - JIT_PAGE_BYTES, 0, 0, time_ns);
}

bool jit_pages_want_stack(struct jit_pages *pages, int32_t pid, uint64_t time_ns)
{
	uint32_t number = space_of(pages, pid); // it may be a new one
	struct space *space = &pages->spaces.data[number];
	bool is_due = time_ns >= space->stack_ns;
	if (is_due)
		space->stack_ns = time_ns + JIT_STACK_NS;
	return is_due;
}

void jit_pages_mapped(struct jit_pages *pages, int32_t pid, uint64_t start, uint64_t end, uint64_t time_ns)
{
	const uint32_t *space = pages->space_of.count > 0 ? hash_map_get(&pages->space_of, (uint32_t)pid) : NULL;
	if (space == NULL)
		return;
	pages->changes++;
	uint64_t first = start / JIT_PAGE_BYTES * JIT_PAGE_BYTES;
	bool is_short = (end - first) / JIT_PAGE_BYTES < pages->pages.count;
	for (uint64_t addr = first; is_short && addr < end; addr += JIT_PAGE_BYTES) {
		const uint32_t *index = hash_map_get(&pages->by_place, key_of(*space, addr));
		if (index != NULL)
			pages->pages.data[*index].mapped_ns = time_ns;
	}
	for (size_t i = 0; !is_short && i < pages->pages.count; i++) {
		struct page *page = &pages->pages.data[i];
		if (page->space == *space && page->addr >= first && page->addr < end)
			page->mapped_ns = time_ns;
	}
}

void jit_pages_ended(struct jit_pages *pages, int32_t pid, uint64_t time_ns)
{
	uint32_t *space = pages->space_of.count > 0 ? hash_map_get(&pages->space_of, (uint32_t)pid) : NULL;
	if (space == NULL)
		return;
	pages->changes++;
	pages->spaces.data[*space].gone_ns = time_ns;
	*space = (uint32_t)pages->spaces.count;
	vec_push(&pages->spaces, (struct space){ .pid = pid, .born_ns = time_ns, .gone_ns = UINT64_MAX });
}

// ---------------------------------------------------------------- for the unwinder
struct in_space { const struct jit_pages *pages; uint32_t space; };

static struct code_page page_of_view(void *context, uint64_t addr)
{
	const struct in_space *in = context;
	const uint32_t *index = hash_map_get(&in->pages->by_place, key_of(in->space, addr));
	const struct page *page = index != NULL ? &in->pages->pages.data[*index] : NULL;
	if (page == NULL || page->last == 0)
		return (struct code_page){ 0 };
	const struct version *version = &in->pages->versions.data[page->last - 1];
	return (struct code_page){ version->bytes, version->id };
}

// Where nothing had been written yet when it was read: zeros, traps. What was read where code stood is believed until it is read again: of 270 lines that were first
// sampled after their page was read none had other code (V8, HotSpot), but for the targets of calls and constants.
static bool is_unwritten(const uint8_t *page, uint64_t addr)
{
	enum { BYTES = 8 };
	size_t at = addr % JIT_PAGE_BYTES < JIT_PAGE_BYTES - BYTES ? addr % JIT_PAGE_BYTES : JIT_PAGE_BYTES - BYTES;
	return memcmp(page + at, page + at + 1, BYTES - 1) == 0;
}

static struct recent *recent_of(struct jit_pages *pages, const struct jit_sample *sample, uint64_t addr)
{
	return &pages->recent[(addr / JIT_PAGE_BYTES + (uint32_t)sample->pid * UINT64_C(7)) % RECENT];
}

bool jit_pages_recent(struct jit_pages *pages, const struct jit_sample *sample, uint64_t addr, struct unwind_code *out)
{
	const struct recent *recent = recent_of(pages, sample, addr);
	if (recent->code.id == 0 || recent->addr != addr / JIT_PAGE_BYTES * JIT_PAGE_BYTES || recent->generation != sample->generation ||
	    recent->pid != sample->pid || recent->changes != pages->changes || recent->replaced != code_views_replaced(pages->views) ||
	    sample->time_ns > recent->due_ns || is_unwritten(recent->code.bytes + (recent->addr - recent->code.start), addr))
		return false;
	*out = recent->code;
	return true;
}

struct unwind_code jit_pages_code(struct jit_pages *pages, const struct jit_sample *sample, uint64_t addr, uint64_t start, uint64_t end, bool *is_missing)
{
	uint32_t space = space_of(pages, sample->pid);
	struct page *page = page_at(pages, space, addr / JIT_PAGE_BYTES * JIT_PAGE_BYTES);
	if (page == NULL)
		return (struct unwind_code){ 0 };
	uint64_t line = page->last == 0 || is_unwritten(pages->versions.data[page->last - 1].bytes, addr) ? line_of(addr) : 0;
	size_t index = (size_t)(page - pages->pages.data);
	if (page->is_asked || is_due(page, line, sample->time_ns))
		want_around(pages, space, addr, line, start, end, sample->time_ns);
	page = &pages->pages.data[index];
	// What was read after the sample is taken for what it saw, and so is what has become too old a little while ago.
	if (page->is_asked && (page->last == 0 || (line & ~page->lines) != 0 || page->mapped_ns > page->read_ns))
		*is_missing = true;
	if (page->last == 0)
		return (struct unwind_code){ 0 };
	struct in_space in = { pages, space };
	struct unwind_code code = code_views_at(pages->views, hash_pair(pages->epoch, space), pages->spaces.data[space].changes, addr, page_of_view, &in);
	*recent_of(pages, sample, addr) = (struct recent){
		.generation = sample->generation, .addr = page->addr, .changes = pages->changes, .replaced = code_views_replaced(pages->views),
		.due_ns = page->is_asked ? UINT64_MAX : due_ns(page), .pid = sample->pid, .code = page->mapped_ns > page->read_ns ? (struct unwind_code){ 0 } : code,
	};
	return code;
}

// ---------------------------------------------------------------- reading
bool jit_pages_hand(struct jit_pages *pages)
{
	struct batch *batch = &pages->batch;
	if (pages->asked.count == 0 || atomic_load_explicit(&pages->state, memory_order_acquire) != BATCH_IDLE)
		return false;
	vec_clear(&batch->items);
	for (size_t i = 0; i < pages->asked.count; i++)
		vec_push(&batch->items, pages->asked.data[i]);
	vec_clear(&pages->asked);
	if (batch->bytes == NULL)
		batch->bytes = mem_sparse((size_t)JIT_PAGES_A_BATCH * JIT_PAGE_BYTES);
	atomic_store_explicit(&pages->state, BATCH_RUNNING, memory_order_release);
	return true;
}

static bool is_read(int32_t pid, uint64_t addr, uint8_t *to)
{
	struct iovec here = { .iov_base = to, .iov_len = JIT_PAGE_BYTES }, there = { .iov_base = (void *)(uintptr_t)addr, .iov_len = JIT_PAGE_BYTES };
	return process_vm_readv(pid, &here, 1, &there, 1, 0) == JIT_PAGE_BYTES;
}

void jit_pages_read(struct jit_pages *pages)
{
	struct batch *batch = &pages->batch;
	for (size_t i = 0; i < batch->items.count; i++) {
		struct item *item = &batch->items.data[i];
		uint8_t *to = batch->bytes + i * JIT_PAGE_BYTES;
		uint64_t now_ns = perf_clock_ns(&pages->clock);
		// Where the main thread has ended, another one has the memory.
		bool good = is_read(item->pid, item->addr, to) || is_read(procfs_task_with_memory(item->pid), item->addr, to);
		item->read_ns = good ? now_ns : 0;
	}
	atomic_store_explicit(&pages->state, BATCH_DONE, memory_order_release);
}

// What a sample ran, where none had stood since the page was read last, and which is not what was there then, has been there since that sample.
static uint64_t there_since(const struct page *page, const struct version *before, uint64_t read_ns, const uint8_t *bytes)
{
	if (before == NULL || (page->first_line & ~page->lines) == 0 || page->first_ns <= before->until_ns || page->first_ns > read_ns)
		return read_ns;
	size_t at = (size_t)__builtin_ctzll(page->first_line) * LINE_BYTES;
	return memcmp(before->bytes + at, bytes + at, LINE_BYTES) != 0 ? page->first_ns : read_ns;
}

static void keep_last(struct jit_pages *pages, struct page *page, const uint8_t *bytes)
{
	if (page->last == 0) {
		vec_push(&pages->versions, (struct version){ .page = (uint32_t)(page - pages->pages.data), .bytes = arena_alloc(&pages->arena, JIT_PAGE_BYTES) });
		page->last = (uint32_t)pages->versions.count;
	}
	struct version *version = &pages->versions.data[page->last - 1];
	memcpy(version->bytes, bytes, JIT_PAGE_BYTES);
	version->id = ++pages->last_id;
	pages->figures.kept++;
}

static void keep(struct jit_pages *pages, struct page *page, uint64_t read_ns, const uint8_t *bytes)
{
	pages->spaces.data[page->space].changes++;
	pages->changes++;
	if (!pages->keeps_all) {
		keep_last(pages, page, bytes);
		return;
	}
	if (pages->versions.count >= JIT_PAGES_MOST || page->versions >= JIT_PAGE_READINGS_MOST) {
		pages->figures.refused++;
		return;
	}
	struct version *version = vec_add(&pages->versions), *before = page->last > 0 ? &pages->versions.data[page->last - 1] : NULL;
	*version = (struct version){ .page = (uint32_t)(page - pages->pages.data), .before = page->last, .from_ns = there_since(page, before, read_ns, bytes), .until_ns = read_ns,
	                             .born_ns = before != NULL ? before->born_ns : pages->spaces.data[page->space].born_ns, .gone_ns = UINT64_MAX };
	version->bytes = memcpy(arena_alloc(&pages->arena, JIT_PAGE_BYTES), bytes, JIT_PAGE_BYTES);
	if (before != NULL && page->mapped_ns > before->until_ns && page->mapped_ns <= version->from_ns) // other code came to the same place
		before->gone_ns = version->born_ns = page->mapped_ns;
	page->last = (uint32_t)pages->versions.count;
	page->versions++;
	pages->figures.kept++;
}

// false: it was wanted for a call that is not there. One that begins in the page before is believed.
static bool is_worth_keeping(const struct jit_pages *pages, const struct item *item, const uint8_t *bytes)
{
	int64_t distance;
	size_t end = (size_t)(item->call_end - item->addr);
	return item->call_end == 0 || end < UNWIND_CALL_BYTES || pages->arch->is_call(bytes + end, UNWIND_CALL_BYTES, &distance);
}

static void take_item(struct jit_pages *pages, const struct item *item, const uint8_t *bytes)
{
	struct page *page = &pages->pages.data[item->page];
	struct space *space = &pages->spaces.data[page->space];
	page->is_asked = false;
	space->read += item->read_ns != 0;
	space->failed += item->read_ns == 0;
	pages->figures.read += item->read_ns != 0;
	pages->figures.failed += item->read_ns == 0;
	if (item->read_ns == 0) { // tried again where a page that does not change would be
		page->read_ns = page->asked_ns;
		page->lines |= page->asked_lines;
		page->doublings += page->doublings < JIT_PAGE_DOUBLINGS;
	}
	if (item->read_ns == 0 || item->read_ns >= space->gone_ns)
		return;
	struct version *last = page->last > 0 ? &pages->versions.data[page->last - 1] : NULL;
	if (last == NULL && !is_worth_keeping(pages, item, bytes)) {
		page->read_ns = item->read_ns;
		page->lines |= page->asked_lines;
		return;
	}
	bool is_same = last != NULL && memcmp(last->bytes, bytes, JIT_PAGE_BYTES) == 0;
	uint64_t lines = page->asked_ns <= item->read_ns ? page->asked_lines : 0;
	page->read_ns = item->read_ns;
	if (is_same) {
		last->until_ns = item->read_ns;
		page->lines |= lines;
		page->doublings += page->doublings < JIT_PAGE_DOUBLINGS;
		return;
	}
	keep(pages, page, item->read_ns, bytes);
	unsigned doublings = page->versions / VERSIONS_A_DOUBLING; // one that always changes would fill the file
	page->doublings = (uint8_t)(doublings < JIT_PAGE_DOUBLINGS ? doublings : JIT_PAGE_DOUBLINGS);
	page->lines = lines;
}

bool jit_pages_take(struct jit_pages *pages)
{
	struct batch *batch = &pages->batch;
	if (atomic_load_explicit(&pages->state, memory_order_acquire) != BATCH_DONE)
		return false;
	for (size_t i = 0; i < batch->items.count; i++)
		take_item(pages, &batch->items.data[i], batch->bytes + i * JIT_PAGE_BYTES);
	pages->changes++; // of what is due
	atomic_store_explicit(&pages->state, BATCH_IDLE, memory_order_release);
	if (!pages->keeps_all && pages->pages.count >= JIT_PAGES_LIVE_MOST && pages->asked.count == 0)
		forget(pages);
	return true;
}

// ---------------------------------------------------------------- after the end
void jit_pages_names(struct jit_pages *pages, struct names *names)
{
	jit_pages_take(pages);
	for (size_t i = 0; i < pages->versions.count; i++) {
		const struct version *version = &pages->versions.data[i];
		const struct page *page = &pages->pages.data[version->page];
		const struct space *space = &pages->spaces.data[page->space];
		uint64_t gone_ns = version->gone_ns < space->gone_ns ? version->gone_ns : space->gone_ns;
		if (version->from_ns >= gone_ns || version->from_ns < version->born_ns) // read when something else was there already, which was not known yet
			continue;
		names_page(names, &(struct name_page){ .pid = (uint32_t)space->pid, .addr = page->addr, .from_ns = version->from_ns,
		                                       .until_ns = version->until_ns < gone_ns ? version->until_ns : gone_ns - 1, .born_ns = version->born_ns,
		                                       .gone_ns = gone_ns, .bytes = version->bytes });
	}
}

struct jit_pages_figures jit_pages_figures(const struct jit_pages *pages)
{
	return pages->figures;
}
