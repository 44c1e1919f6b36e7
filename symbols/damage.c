#include "symbols/damage.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void damages_init(struct damages *damages)
{
	*damages = (struct damages){ 0 };
	pthread_mutex_init(&damages->lock, NULL);
}

void damages_release(struct damages *damages)
{
	for (size_t i = 0; i < damages->all.count; i++) {
		free(damages->all.data[i].file);
		free(damages->all.data[i].text);
		free(damages->all.data[i].concerns);
	}
	vec_release(&damages->all);
	pthread_mutex_destroy(&damages->lock);
}

void damages_note(struct damages *damages, const char *file, const char *concerns, uint64_t rank, const char *text)
{
	if (damages == NULL)
		return;
	struct damage *known = NULL;
	pthread_mutex_lock(&damages->lock);
	for (size_t i = 0; i < damages->all.count && known == NULL; i++)
		if (strcmp(damages->all.data[i].file, file) == 0)
			known = &damages->all.data[i];
	if (known == NULL) {
		known = vec_add(&damages->all);
		*known = (struct damage){ .file = mem_string(file), .text = mem_string(text), .rank = rank };
		known->concerns = mem_string(concerns != NULL ? concerns : file);
	} else if (rank < known->rank) {
		free(known->text);
		known->text = mem_string(text);
		known->rank = rank;
	}
	pthread_mutex_unlock(&damages->lock);
}

void damages_note_image(struct damages *damages, const struct image *image, const char *concerns)
{
	if (image->damage != NULL)
		damages_note(damages, image->path, concerns, 0, image->damage);
}

bool damages_note_unopened(struct damages *damages, const char *path, const char *concerns, bool is_elf, const struct err *error)
{
	if (!image_is_damaged(path, is_elf))
		return false;
	damages_note(damages, path, concerns, 0, error->text);
	return true;
}

const char *damages_find(struct damages *damages, const char *file)
{
	const char *text = NULL;
	if (damages == NULL)
		return NULL;
	pthread_mutex_lock(&damages->lock);
	for (size_t i = 0; i < damages->all.count && text == NULL; i++)
		if (strcmp(damages->all.data[i].file, file) == 0 || strcmp(damages->all.data[i].concerns, file) == 0)
			text = damages->all.data[i].text;
	pthread_mutex_unlock(&damages->lock);
	return text;
}
