#include "unwind/code_views.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

// A window is twice as long as the distance between the beginnings of two, so that each address has one in whose middle half it stands.
enum { STEP_BYTES = 2 * CODE_AROUND_BYTES, WINDOW_PAGES = 2 * STEP_BYTES / CODE_PAGE_BYTES, VIEWS = 256 };

struct view {
	uint64_t space, stamp, window; // window: of its step number + 1; 0: unused
	uint64_t pages[WINDOW_PAGES];  // their ids; 0: not there
	uint8_t first[WINDOW_PAGES], end[WINDOW_PAGES]; // of what stands together with each
	uint64_t id;
	uint8_t *bytes;                // of the whole window
};

struct code_views {
	uint64_t last_id, replaced;
	struct view views[VIEWS];
};

struct code_views *code_views_new(void)
{
	return NEW(struct code_views);
}

void code_views_free(struct code_views *views)
{
	for (size_t i = 0; views != NULL && i < VIEWS; i++)
		free(views->views[i].bytes);
	free(views);
}

uint64_t code_views_replaced(const struct code_views *views)
{
	return views->replaced;
}

uint64_t code_views_new_id(struct code_views *views)
{
	return ++views->last_id * (WINDOW_PAGES + 1);
}

static void renew(struct code_views *views, struct view *view, uint64_t start, code_page_fn *page_at, void *context)
{
	bool is_same = view->id != 0;
	if (view->bytes == NULL)
		view->bytes = mem_alloc((size_t)WINDOW_PAGES * CODE_PAGE_BYTES);
	for (size_t i = 0; i < WINDOW_PAGES; i++) {
		struct code_page page = page_at(context, start + i * CODE_PAGE_BYTES);
		uint64_t id = page.bytes != NULL ? page.id : 0;
		if (view->pages[i] == id)
			continue;
		is_same = false;
		view->pages[i] = id;
		if (id != 0)
			memcpy(view->bytes + i * CODE_PAGE_BYTES, page.bytes, CODE_PAGE_BYTES);
	}
	if (is_same)
		return;
	view->id = ++views->last_id;
	views->replaced++;
	for (size_t first = 0, end; first < WINDOW_PAGES; first = end) {
		for (end = first + 1; end < WINDOW_PAGES && view->pages[first] != 0 && view->pages[end] != 0; end++)
			;
		memset(view->first + first, (int)first, end - first);
		memset(view->end + first, (int)end, end - first);
	}
}

struct unwind_code code_views_at(struct code_views *views, uint64_t space, uint64_t stamp, uint64_t addr, code_page_fn *page_at, void *context)
{
	uint64_t step = addr < CODE_AROUND_BYTES ? 0 : (addr - CODE_AROUND_BYTES) / STEP_BYTES, start = step * STEP_BYTES;
	struct view *view = &views->views[hash_pair(space, step) % VIEWS];

	if (view->window != step + 1 || view->space != space) {
		uint8_t *bytes = view->bytes;
		*view = (struct view){ .space = space, .stamp = ~stamp, .window = step + 1, .bytes = bytes };
	}
	if (view->stamp != stamp || view->id == 0) {
		renew(views, view, start, page_at, context);
		view->stamp = stamp;
	}
	size_t page = (size_t)(addr - start) / CODE_PAGE_BYTES;
	if (view->pages[page] == 0)
		return (struct unwind_code){ 0 };
	size_t first = view->first[page], end = view->end[page];
	// Two runs of pages in a window, with a gap between them, are other bytes.
	return (struct unwind_code){
		.bytes = view->bytes + first * CODE_PAGE_BYTES, .start = start + first * CODE_PAGE_BYTES, .end = start + end * CODE_PAGE_BYTES,
		.id = view->id * (WINDOW_PAGES + 1) + first + 1,
	};
}
