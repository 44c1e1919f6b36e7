// Files that contradict themselves or end early, met while names were looked for: each is told of once, whatever the number of addresses
// that it concerns. Safe for threads.
#ifndef PERFSAMPLE_SYMBOLS_DAMAGE_H
#define PERFSAMPLE_SYMBOLS_DAMAGE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "elf/image.h"

struct damage {
	char *file;    // that is damaged
	char *text;    // "FILE: offset 0x…: what is there, expected what"
	char *concerns; // the program or library whose debug information it was to be; its own name where it is that itself
	uint64_t rank; // the text kept is that of the lowest, so that it does not depend on what was looked at first
};

struct damages {
	pthread_mutex_t lock;
	VEC(struct damage) all; // in the order in which files were met
};

void damages_init(struct damages *damages);
void damages_release(struct damages *damages);
// `damages` may be NULL in all of these: nobody wants to know. `concerns` NULL: the file itself.
void damages_note(struct damages *damages, const char *file, const char *concerns, uint64_t rank, const char *text);
// What opening the image found, if anything.
void damages_note_image(struct damages *damages, const struct image *image, const char *concerns);
// Of what could not be opened as `error` says: noted where it is a damaged image (image_is_damaged), and whether it is.
bool damages_note_unopened(struct damages *damages, const char *path, const char *concerns, bool is_elf, const struct err *error);
// The text of a damaged file, or of one that concerns it; NULL: none. Holds until another note.
const char *damages_find(struct damages *damages, const char *file);

#endif
