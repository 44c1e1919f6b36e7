#include "archive/layout.h"

#include <string.h>

#include "base/mem.h"

bool layout_is_inside(const char *name)
{
	if (name[0] == '\0' || name[0] == '/')
		return false;
	for (const char *part = name; ; ) {
		size_t length = strcspn(part, "/");
		if (length == 0 || (length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.'))
			return false;
		if (part[length] == '\0')
			return true;
		part += length + 1;
	}
}

// The path as a folder's: without its first '/'; what has no folder ("[vdso]") stands as it is.
static const char *relative(const char *path)
{
	while (path[0] == '/')
		path++;
	return layout_is_inside(path) ? path : NULL;
}

char *layout_file(const char *path, const struct build_id *id, const char *name)
{
	char hex[65];
	path = relative(path);
	return path != NULL && id->size > 1 ? mem_printf("%s/%s/%s", path, build_id_hex(id, hex), name) : NULL;
}

char *layout_link(const struct build_id *id)
{
	char hex[65];
	build_id_hex(id, hex);
	return mem_printf(".build-id/%.2s/%s", hex, hex + 2);
}

char *layout_link_target(const char *path, const struct build_id *id)
{
	char hex[65];
	path = relative(path);
	return path != NULL ? mem_printf("../../%s/%s", path, build_id_hex(id, hex)) : NULL;
}
