// Images of the target, opened while it lives by a helper thread, looked up by the drain thread without ever waiting.
//
// dso id -> slot {UNKNOWN, WANTED, READY, FAILED}. The drain thread asks (a bounded queue without locks); the helper opens the file, reads what the
// unwinder needs and publishes the slot's state with release. A slot that is READY never changes again. Opening a file may wait for
// a disk or a FUSE mount, and touching CFI for the first time may too: neither may ever happen in the drain thread.
#ifndef PERFSAMPLE_RECORD_IMAGES_H
#define PERFSAMPLE_RECORD_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/vec.h"
#include "elf/image.h"
#include "perfdata/names.h"
#include "proc/dso.h"
#include "proc/space.h"
#include "unwind/unwind.h"

struct images;
struct jit_files;
struct jit_objects;
struct jit_pages;
struct stack_pages;
struct images *images_new(struct image *(*find_cfi)(const struct image *image)); // as in session_config
bool images_start(struct images *images); // the helper thread; false: none to be had
void images_stop(struct images *images);  // finishes what was asked for (5 s at most: a mount may hang), then ends the helper
void images_free(struct images *images);  // images that are still referenced elsewhere live on

// Drain thread. Asks for the image behind a mapping of `pid`, made at `time_ns` (0: nobody knows), unless it is there, asked for, or given up. true: it is code of
// a JIT compiler, of which unwind information is looked for in the process's memory (jit_image.h): there may be more of it soon, and soon be gone.
bool images_want(struct images *images, const struct dso_table *dsos, const struct mapping *mapping, int32_t pid, uint64_t time_ns);
bool images_has_jit(const struct images *images, int32_t pid); // drain thread: it was looked for in this process, and may be worth it
// Drain thread: what the unwinder is to know about `mapping`. An image that is not there yet is asked for and answers
// UNWIND_DEFERRED, or, with `give_up`, UNWIND_NO_IMAGE.
struct unwind_map images_map(struct images *images, const struct dso_table *dsos, const struct mapping *mapping, int32_t pid, bool give_up);
// Changes whenever an image became ready or failed: samples set aside are worth another try.
uint64_t images_version(struct images *images);
// Drain thread: has the pages that were asked for read, if there are any. What comes of it counts as news (images_version).
void images_read_pages(struct images *images, struct jit_pages *pages);
// Drain thread: likewise the pages of stacks that copies stopped at.
void images_read_stack_pages(struct images *images, struct stack_pages *pages);

// Drain thread, and at the end whoever stopped it (`last`): has the files and the objects looked for that were asked for, if there are any.
void images_find_names(struct images *images, struct jit_files *files, struct jit_objects *objects, uint64_t now_ns, bool last);

// Drain thread: reads /proc again after side-band records were lost: FORK, COMM and MMAP2 of `pids`, of whoever descends from the first `roots` of them, and,
// with `everybody`, of whoever else is there. One at a time: false when one is running. The trailer is that of procfs_synthesize.
struct images_reread { const int32_t *pids; size_t count, roots; bool everybody; const void *trailer; size_t trailer_bytes; };
bool images_reread(struct images *images, const struct images_reread *what);
// true: the answer is there; `out` takes the records' bytes over (to be released by the caller).
bool images_reread_done(struct images *images, struct buf *out);

// After images_stop.
struct image *images_image(const struct images *images, uint32_t dso); // NULL: not open
struct image *images_vdso(const struct images *images, bool is_32);      // of 64-bit tasks, or of 32-bit ones; NULL: not open
void images_jits(const struct images *images, struct names *names);       // JIT code of processes in which unwind information was found
struct images_figures { uint64_t opened, failed; } images_figures(const struct images *images);

#endif
