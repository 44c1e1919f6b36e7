// Code that is known page by page, put together to views of what stands around an address (struct unwind_code), and each view's id. For whoever has pages of code
// that is in no image: a recorder that reads them from a process, a reader that finds them in a recording.
#ifndef PERFSAMPLE_UNWIND_CODE_VIEWS_H
#define PERFSAMPLE_UNWIND_CODE_VIEWS_H

#include "unwind/unwind.h"

enum { CODE_PAGE_BYTES = 4096 };
// `id` is that of these bytes and of no others, for ever; not 0. `bytes` NULL: nobody has the page.
struct code_page { const uint8_t *bytes; uint64_t id; };
// The page at `addr`, a multiple of CODE_PAGE_BYTES. It stays until code_views_at has returned.
typedef struct code_page code_page_fn(void *context, uint64_t addr);

struct code_views; // one per thread
struct code_views *code_views_new(void);
void code_views_free(struct code_views *views);
uint64_t code_views_replaced(const struct code_views *views); // how often bytes that were given out have become others
uint64_t code_views_new_id(struct code_views *views); // for code that its owner has whole: an id that no view has

// What is known around `addr` without a gap, at least CODE_AROUND_BYTES to either side as far as it is there. `space` names the address space, and with the same `stamp`
// pages of a space are the same. As unwind_code_fn has it: bytes are there until this is called again. Larger views become others more often, and whoever keeps
// what it learnt of one learns anew: 64 KiB in all took node's stacks 7% of their time more than 16.
enum { CODE_AROUND_BYTES = 4 << 10 };
struct unwind_code code_views_at(struct code_views *views, uint64_t space, uint64_t stamp, uint64_t addr, code_page_fn *page_at, void *context);

#endif
