#include "cmd/record_images.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/layout.h"
#include "archive/store.h"
#include "base/sort.h"
#include "record/sampled.h"

static bool save(int folder_fd, const char *path, const char *file_name, const struct image *image, struct saved_images *out, struct err *err)
{
	bool is_there = false, has_link;
	char *name = layout_file(path, &image->build_id, file_name);
	if (name == NULL) // no build ID, or a path that leads elsewhere
		return true;
	char *link = layout_link(&image->build_id), *target = layout_link_target(path, &image->build_id);
	bool good = store_file(folder_fd, name, image->data, image->size, &is_there, err) && store_link(folder_fd, link, target, &has_link, err);
	out->present += good && is_there;
	out->saved += good && !is_there;
	out->bytes += good && !is_there ? image->size : 0;
	free(name);
	free(link);
	free(target);
	return good;
}

static int by_dso(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

bool record_save_images(const struct session *session, const char *folder, struct saved_images *out, struct err *err)
{
	const struct sampled *sampled = session_sampled(session);
	VEC(uint32_t) dsos = { 0 };
	*out = (struct saved_images){ 0 };
	(void)mkdir(folder, 0755); // perf's mode
	int folder_fd = open(folder, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (folder_fd < 0)
		return err_errno(err, STATUS_FINISH, "%s", folder);
	for (size_t i = 0; i < sampled->addrs.count; i++)
		vec_push(&dsos, sampled->addrs.data[i].dso);
	if (dsos.count > 0)
		sort_stable(dsos.data, dsos.count, sizeof(*dsos.data), by_dso);
	bool good = true;
	for (size_t i = 0; good && i < dsos.count; i++) {
		if (i > 0 && dsos.data[i] == dsos.data[i - 1])
			continue;
		struct sampled_code code = session_code(session, dsos.data[i]);
		if (code.dso->kind == DSO_VDSO && code.image != NULL)
			good = save(folder_fd, code.dso->path, "vdso", code.image, out, err);
		else if (code.dso->kind == DSO_FILE && code.image != NULL && code.image->mapped != NULL)
			good = save(folder_fd, code.dso->path, "elf", code.image, out, err);
	}
	vec_release(&dsos);
	close(folder_fd);
	return good;
}
