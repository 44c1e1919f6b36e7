// Binaries of this host, opened to unwind raw stacks of a recording. Shared by the threads that unwind. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_IMAGES_H
#define PERFSAMPLE_LOAD_IMAGES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "elf/image.h"
#include "perfdata/reader.h"
#include "proc/dso.h"
#include "symbols/symbolizer.h"
#include "unwind/unwind.h"

struct image_slot { // is_damaged: noted in where.damages; debug: its debug file, or NULL
	bool is_tried, is_wrong, is_damaged, is_other;
	struct image *image, *debug;
};

struct images {
	pthread_mutex_t lock;
	VEC(struct image_slot) slots; // by dso id
	struct symbolizer_options where; // symfs and debug folders
	const struct reader_features *features; // the recording's
	uint64_t not_found, wrong;
	bool assumed_vdso; // the running kernel's, for want of a build ID
};

void images_init(struct images *images, const struct symbolizer_options *where, const struct reader_features *features);
void images_release(struct images *images);
// NULL: not here, or not the file that ran (its build ID or machine differ). Stays ours. Locks.
struct image *images_get(struct images *images, uint32_t id, const struct dso *dso, uint16_t machine);
// Its debug file, which may have CFI and is looked for once, also for its names; or NULL. Stays ours. Locks.
struct image *images_debug(struct images *images, uint32_t id);
// Of what images_get did not find: the file is here, but no ELF image.
bool images_is_other(struct images *images, uint32_t id);

#endif
