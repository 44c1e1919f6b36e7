#include "symbols/debug_file.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "elf/vdso.h"
#include "symbols/damage.h"

// Calls `visit` for each debug directory until it returns true.
struct search {
	const struct symbolizer_options *options;
	const struct image *image;     // whose debug file is wanted, or NULL
	const char *concerns;          // whom damage concerns, or NULL
	const struct build_id *id;     // wanted; size 0: unknown
	const char *link;              // file name from a debuglink, or NULL
	uint32_t crc;
	const char *const *suffixes;   // of build-id paths
	struct image *found;
	bool is_wrong;
};

static bool for_each_directory(struct search *search, bool (*visit)(struct search *search, const char *directory))
{
	const char *symfs = search->options->symfs != NULL ? search->options->symfs : "";
	for (const char *const *dir = search->options->more_debug_dirs; dir != NULL && *dir != NULL; dir++)
		if (visit(search, *dir))
			return true;
	if (search->options->debug_dirs != NULL) {
		for (const char *const *dir = search->options->debug_dirs; *dir != NULL; dir++)
			if (visit(search, *dir))
				return true;
		return false;
	}
	char *system = mem_printf("%s/usr/lib/debug", symfs);
	bool done = visit(search, system);
	free(system);
	const char *home = getenv("HOME");
	if (!done && home != NULL && home[0] == '/') {
		char *cache = mem_printf("%s/.debug", home);
		done = visit(search, cache);
		free(cache);
	}
	return done;
}

static bool crc_matches(const struct image *image, uint32_t wanted)
{
	// The CRC of .gnu_debuglink is zlib's (GDB manual, "Debugging Information in Separate Files").
	return (uint32_t)crc32_z(crc32_z(0, NULL, 0), image->data, image->size) == wanted;
}

// Whether `path` holds what is wanted; takes it into search->found then.
static bool try_file(struct search *search, const char *path, bool by_link)
{
	struct image *image;
	struct damages *damages = search->options->damages;
	struct err err = { 0 };
	if (!image_open_path(&image, path, &err)) {
		// Where a debug file should be, what is there was one.
		damages_note_unopened(damages, path, search->concerns, true, &err);
		return false;
	}
	bool good;
	if (search->id->size > 0 && image->build_id.size > 0)
		good = build_id_equal(search->id, &image->build_id);
	else
		good = by_link && search->image != NULL && crc_matches(image, search->crc);
	if (good && search->image != NULL && image->machine != search->image->machine)
		good = false;
	if (good || image->build_id.size == 0) // of none, it may have been the right one
		damages_note_image(damages, image, search->concerns);
	if (!good) {
		search->is_wrong = true;
		image_release(image);
		return false;
	}
	search->found = image;
	return true;
}

static bool try_build_id(struct search *search, const char *directory)
{
	char hex[2 * sizeof(search->id->bytes) + 1];
	if (search->id->size < 2)
		return false;
	build_id_hex(search->id, hex);
	for (const char *const *suffix = search->suffixes; *suffix != NULL; suffix++) {
		char *path = mem_printf("%s/.build-id/%.2s/%s%s", directory, hex, hex + 2, *suffix);
		bool good = try_file(search, path, false);
		free(path);
		if (good)
			return true;
	}
	return false;
}

static bool try_link_under(struct search *search, const char *directory)
{
	const char *path = search->image->path, *slash = strrchr(path, '/');
	if (slash == NULL || path[0] != '/')
		return false;
	char *full = mem_printf("%s%.*s/%s", directory, (int)(slash - path), path, search->link);
	bool good = try_file(search, full, true);
	free(full);
	return good;
}

static bool try_link_beside(struct search *search)
{
	const char *path = search->image->path, *slash = strrchr(path, '/');
	int length = slash != NULL ? (int)(slash - path) + 1 : 0;
	static const char *const places[] = { "", ".debug/" };
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char *full = mem_printf("%.*s%s%s", length, path, places[i], search->link);
		// A file may name itself (a debug file kept under the program's own name): it is not its own debug file.
		bool good = strcmp(full, path) != 0 && try_file(search, full, true);
		free(full);
		if (good)
			return true;
	}
	return false;
}

// A name that a file gives for a file beside it: never a path, so that it leads nowhere else.
static bool is_plain_name(const char *name)
{
	return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static const char *read_debuglink(const struct image *image, struct buf *storage, uint32_t *crc)
{
	const struct image_section *section = image_find_section(image, ".gnu_debuglink");
	struct bytes b;
	if (section == NULL || !image_section_contents(image, section, storage, &b, NULL))
		return NULL;
	const char *name = bytes_cstr(&b);
	while (!b.bad && bytes_offset(&b) % 4 != 0)
		bytes_skip(&b, 1);
	*crc = bytes_u32(&b);
	return b.bad || !is_plain_name(name) ? NULL : name;
}

static struct image *find_debug(const struct symbolizer_options *options, const struct image *image, bool by_id, bool *is_wrong)
{
	static const char *const suffixes[] = { ".debug", "/debug", NULL };
	struct search search = { .options = options, .image = image, .concerns = image->path, .id = &image->build_id, .suffixes = suffixes };
	struct buf storage = { 0 };
	if (!for_each_directory(&search, try_build_id) && !by_id) {
		search.link = read_debuglink(image, &storage, &search.crc);
		if (search.link != NULL && !try_link_beside(&search))
			for_each_directory(&search, try_link_under);
	}
	buf_release(&storage);
	*is_wrong = search.is_wrong;
	return search.found;
}

struct image *debug_file_find(const struct symbolizer_options *options, const struct image *image, bool *is_wrong)
{
	return find_debug(options, image, false, is_wrong);
}

static bool has_debug_frame(const struct image *image)
{
	const struct image_section *section = image_find_section(image, ".debug_frame");
	struct bytes raw;
	return section != NULL && image_section_raw(image, section, &raw) && bytes_left(&raw) > 0;
}

struct image *debug_file_find_cfi(const struct symbolizer_options *options, const struct image *image, bool by_id)
{
	bool is_wrong;
	struct image *debug = has_debug_frame(image) ? NULL : find_debug(options, image, by_id, &is_wrong);
	if (debug == NULL || has_debug_frame(debug))
		return debug;
	image_release(debug);
	return NULL;
}

struct image *debug_file_find_executable(const struct symbolizer_options *options, const struct build_id *id)
{
	static const char *const suffixes[] = { "/elf", "", NULL };
	struct search search = { .options = options, .id = id, .suffixes = suffixes };
	for_each_directory(&search, try_build_id);
	return search.found;
}

struct image *debug_file_find_vdso(const struct symbolizer_options *options, const struct build_id *id)
{
	static const char *const suffixes[] = { "/vdso", NULL };
	struct search search = { .options = options, .id = id, .suffixes = suffixes };
	struct image *own = vdso_own();
	if (own != NULL && build_id_equal(&own->build_id, id))
		return own;
	image_release(own);
	for_each_directory(&search, try_build_id);
	return search.found;
}

struct image *debug_file_find_alt(const struct symbolizer_options *options, const struct image *debug, struct build_id *id)
{
	static const char *const suffixes[] = { ".debug", "/debug", "", NULL };
	const struct image_section *section = image_find_section(debug, ".gnu_debugaltlink");
	struct buf storage = { 0 };
	struct bytes b;
	struct image *found = NULL;
	*id = (struct build_id){ 0 };
	if (section != NULL && image_section_contents(debug, section, &storage, &b, NULL)) {
		const char *name = bytes_cstr(&b);
		size_t size = bytes_left(&b);
		if (!b.bad && size > 0 && size <= sizeof(id->bytes)) {
			id->size = (uint8_t)size;
			memcpy(id->bytes, b.at, size);
			struct search search = { .options = options, .id = id, .suffixes = suffixes };
			search.concerns = debug->path;
			// Distributions name it absolutely (/usr/lib/debug/.dwz/…) or relative to the debug file.
			const char *slash = strrchr(debug->path, '/');
			int length = name[0] != '/' && slash != NULL ? (int)(slash - debug->path) + 1 : 0;
			const char *symfs = name[0] == '/' && options->symfs != NULL ? options->symfs : "";
			char *path = mem_printf("%s%.*s%s", symfs, length, debug->path, name);
			if (!try_file(&search, path, false))
				for_each_directory(&search, try_build_id);
			free(path);
			found = search.found;
		}
	}
	buf_release(&storage);
	return found;
}
