// What a comparison says of each function of a profile, for a differential flame graph: how sure a change is, never how large.
#ifndef PERFSAMPLE_CMD_FLAME_CHANGES_H
#define PERFSAMPLE_CMD_FLAME_CHANGES_H

#include "base/buf.h"
#include "load/load.h"
#include "profile/profile.h"
#include "report/diff.h"

struct flame_sides { VEC(const char *) base, new_; }; // paths of recordings

struct flame_changes {
	struct diff own, total;           // by self and by total
	struct { const struct diff_row *own, *total; } *rows; // by function of the profile, then + 1 for no function
	size_t count;
	bool by_total;                    // what colours
};

// Compares all recordings of both sides, by the event of that name, and finds the functions of `profile` in it.
bool flame_changes_load(struct flame_changes *changes, const struct flame_sides *sides, const struct load_options *load, const char *event,
                        const struct profile *profile, struct err *err);
void flame_changes_release(struct flame_changes *changes);
// "_[+1]" …: the mark behind a function's name in folded text; NULL: not distinguishable.
const char *flame_change_mark(const struct flame_changes *changes, uint32_t function);
// "2 of 158 functions differ (q < 0.05); …": what stands above the picture.
void flame_changes_text(const struct flame_changes *changes, bool draws_base, struct buf *out);
void flame_changes_json(const struct flame_changes *changes, struct buf *out); // "diff": { … }

#endif
