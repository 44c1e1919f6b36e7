// Programs of a few lines of assembly, as the unwinder has them.
#ifndef PERFSAMPLE_TESTS_ASSEMBLED_H
#define PERFSAMPLE_TESTS_ASSEMBLED_H

#include <string.h>

#include "base/buf.h"
#include "elf/image.h"
#include "tests/compile.h"
#include "tests/scratch.h"
#include "unwind/unwind.h"

// Assembled and linked in the scratch folder; that it opens is a check. `tools`: what the names of assembler and linker begin with, "" for x86-64's own.
// NULL: they are not there, which is told as a skip, or it did not open.
__attribute__((unused)) static struct unwind_image *assembled(const char *tools, const char *name, const char *source, const char *what)
{
	struct image *image;
	struct unwind_image *made = NULL;
	char file[64];

	snprintf(file, sizeof(file), "%s.s", name);
	scratch_write(file, source);
	if (!shell("%s %sas -o %s.o %s.s 2>err && %sld -o %s %s.o 2>>err", tools[0] == '\0' ? "test $(uname -m) = x86_64 &&" : "", tools, name, name, tools, name, name)) {
		skip("no assembler for it", "%s", what);
		return NULL;
	}
	if (image_open_path(&image, scratch_path("%s", name), NULL)) {
		unwind_image_new(&made, image, false, NULL);
		image_release(image);
	}
	ok(made != NULL, "%s: the program opens", what);
	return made;
}

// In one section of a file, the first place that has two bytes: other ones. false: none has.
__attribute__((unused)) static bool patch_section(struct buf *file, const char *section_name, const uint8_t from[2], const uint8_t to[2])
{
	struct image *image;
	bool found = false;

	if (!image_open_bytes(&image, file->data, file->size, false, "built", NULL))
		return false;
	const struct image_section *section = image_find_section(image, section_name);
	for (uint64_t i = 0; section != NULL && i + 1 < section->size && !found; i++) {
		char *at = file->data + section->offset + i;
		found = memcmp(at, from, 2) == 0;
		if (found)
			memcpy(at, to, 2);
	}
	image_release(image);
	return found;
}

#endif
