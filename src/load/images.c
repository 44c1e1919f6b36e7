#include "load/images.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/regular.h"
#include "elf/vdso.h"
#include "symbols/damage.h"
#include "symbols/debug_file.h"

void images_init(struct images *images, const struct symbolizer_options *where, const struct reader_features *features)
{
	*images = (struct images){ .where = *where, .features = features };
	pthread_mutex_init(&images->lock, NULL);
}

void images_release(struct images *images)
{
	for (size_t i = 0; i < images->slots.count; i++)
		image_release(images->slots.data[i].image);
	for (size_t i = 0; i < images->slots.count; i++)
		image_release(images->slots.data[i].debug);
	vec_release(&images->slots);
	pthread_mutex_destroy(&images->lock);
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

static bool is_other(const char *path)
{
	int fd = regular_open(path, 0);
	bool answer = fd >= 0 && image_is_other(fd);
	if (fd >= 0)
		close(fd);
	return answer;
}

static struct image *open_file(struct images *images, const struct dso *dso, uint16_t machine, struct image_slot *slot)
{
	struct image *image = NULL;
	// An unlinked file is not the one that has its name now, unless the build ID says so.
	if (!dso->deleted || dso->build_id.size > 0) {
		char *path = mem_printf("%s%s", images->where.symfs != NULL ? images->where.symfs : "", dso->path);
		struct err err = { 0 };
		if (!image_open_path(&image, path, &err)) {
			slot->is_damaged = damages_note_unopened(images->where.damages, path, dso->path, dso->build_id.size > 0, &err);
			slot->is_other = !slot->is_damaged && is_other(path);
		}
		free(path);
		image = accepted(images, image, dso, machine, slot);
	}
	if (image == NULL && dso->build_id.size > 0)
		image = accepted(images, debug_file_find_executable(&images->where, &dso->build_id), dso, machine, slot);
	return image;
}

// Whether the running kernel is the recording's as far as the recording tells.
static bool is_this_kernel(const struct reader_features *features)
{
	struct utsname host;
	return uname(&host) == 0 && (features->os_release == NULL || strcmp(features->os_release, host.release) == 0) &&
	       (features->arch == NULL || strcmp(features->arch, host.machine) == 0);
}

// As it was recorded; else by its build ID, as perf keeps it or the running kernel's own. Where no build ID was recorded, the latter is taken on
// trust for the same kernel release, which is said.
static struct image *open_vdso(struct images *images, const struct dso *dso, uint16_t machine, struct image_slot *slot)
{
	struct image *image = NULL;
	const struct names *names = images->features->names;
	for (size_t i = 0; names != NULL && i < names->vdsos.count && image == NULL; i++) {
		const struct name_vdso *vdso = &names->vdsos.data[i];
		if (image_open_bytes(&image, vdso->bytes, vdso->size, true, dso->path, NULL) && image->machine != machine) {
			image_release(image); // that of the other ABI
			image = NULL;
		}
		image = accepted(images, image, dso, machine, slot);
	}
	if (image == NULL && dso->build_id.size > 0)
		image = accepted(images, debug_file_find_vdso(&images->where, &dso->build_id), dso, machine, slot);
	if (image == NULL && dso->build_id.size == 0 && is_this_kernel(images->features)) {
		image = accepted(images, vdso_own(), dso, machine, slot);
		images->assumed_vdso |= image != NULL;
	}
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
			slot->image = open_vdso(images, dso, machine, slot);
		else if (dso->kind == DSO_FILE)
			slot->image = open_file(images, dso, machine, slot);
		bool is_wrong;
		if (slot->image != NULL && dso->kind == DSO_FILE)
			slot->debug = debug_file_find(&images->where, slot->image, &is_wrong);
		images->not_found += slot->image == NULL && !slot->is_wrong && !slot->is_damaged && !slot->is_other;
		images->wrong += slot->is_wrong && slot->image == NULL;
	}
	struct image *image = slot->image;
	pthread_mutex_unlock(&images->lock);
	return image;
}

struct image *images_debug(struct images *images, uint32_t id)
{
	pthread_mutex_lock(&images->lock);
	struct image *debug = images->slots.data[id].debug;
	pthread_mutex_unlock(&images->lock);
	return debug;
}

bool images_is_other(struct images *images, uint32_t id)
{
	pthread_mutex_lock(&images->lock);
	bool is_other = id < images->slots.count && images->slots.data[id].image == NULL && images->slots.data[id].is_other;
	pthread_mutex_unlock(&images->lock);
	return is_other;
}
