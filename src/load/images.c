#include "load/images.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/mem.h"
#include "symbols/damage.h"
#include "symbols/debug_file.h"

void images_init(struct images *images, const struct symbolizer_options *where)
{
	*images = (struct images){ .where = *where };
	pthread_mutex_init(&images->lock, NULL);
}

void images_release(struct images *images)
{
	for (size_t i = 0; i < images->slots.count; i++)
		image_release(images->slots.data[i].image);
	vec_release(&images->slots);
	pthread_mutex_destroy(&images->lock);
}

// The vdso of this process stands for that of the recording when it is the same: by build ID, or, where the recording has none, for
// want of anything better (a wrong one ends a stack at a leaf in clock_gettime, no more).
static struct image *own_vdso(void)
{
	const uint8_t *at = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	struct image *image = NULL;
	if (at == NULL || sizeof(void *) != 8)
		return NULL;
	Elf64_Ehdr header;
	memcpy(&header, at, sizeof(header));
	// The kernel links it with its section table last, so that its end is the end of the image.
	uint64_t size = header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
	if (header.e_shoff == 0 || size > 1 << 20)
		return NULL;
	return image_open_bytes(&image, at, (size_t)size, false, "[vdso]", NULL) ? image : NULL;
}

static struct image *accepted(struct images *images, struct image *image, const struct dso *dso, uint16_t machine, struct image_slot *slot)
{
	if (image == NULL)
		return NULL;
	if (image->machine == machine && (dso->build_id.size == 0 || build_id_equal(&dso->build_id, &image->build_id)))
		return image;
	if (image->build_id.size == 0 && image->damage != NULL) { // too damaged to tell whether it is the one that ran
		damages_note_image(images->where.damages, image, dso->path);
		slot->is_damaged = true;
	} else {
		slot->is_wrong = true;
	}
	image_release(image);
	return NULL;
}

static struct image *open_file(struct images *images, const struct dso *dso, uint16_t machine, struct image_slot *slot)
{
	struct image *image = NULL;
	// An unlinked file is not the one that has its name now, unless the build ID says so.
	if (!dso->deleted || dso->build_id.size > 0) {
		char *path = mem_printf("%s%s", images->where.symfs != NULL ? images->where.symfs : "", dso->path);
		struct err err = { 0 };
		if (!image_open_path(&image, path, &err))
			slot->is_damaged = damages_note_unopened(images->where.damages, path, dso->path, dso->build_id.size > 0, &err);
		free(path);
		image = accepted(images, image, dso, machine, slot);
	}
	if (image == NULL && dso->build_id.size > 0)
		image = accepted(images, debug_file_find_executable(&images->where, &dso->build_id), dso, machine, slot);
	return image;
}

struct image *images_get(struct images *images, uint32_t id, const struct dso *dso, uint16_t machine)
{
	pthread_mutex_lock(&images->lock);
	while (images->slots.count <= id)
		vec_push(&images->slots, (struct image_slot){ 0 });
	struct image_slot *slot = &images->slots.data[id];
	if (!slot->is_tried) {
		slot->is_tried = true;
		if (dso->kind == DSO_VDSO)
			slot->image = accepted(images, own_vdso(), dso, machine, slot);
		else if (dso->kind == DSO_FILE)
			slot->image = open_file(images, dso, machine, slot);
		images->not_found += slot->image == NULL && !slot->is_wrong && !slot->is_damaged;
		images->wrong += slot->is_wrong && slot->image == NULL;
	}
	struct image *image = slot->image;
	pthread_mutex_unlock(&images->lock);
	return image;
}
