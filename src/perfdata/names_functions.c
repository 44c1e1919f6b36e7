// The body of tag 9: for each image of tag 2 that has any: uleb its number, uleb count, and each function, by ascending start: uleb start (less that of the one
// before), uleb size, uleb (vaddr - start as zigzag), uleb unit, and its source file, ended by NUL.
#include "perfdata/names_functions.h"

#include <string.h>

static void put_function(struct buf *out, const struct name_function *f, uint64_t before)
{
	const char *source = f->source != NULL ? f->source : "";
	uint64_t shift = f->vaddr - f->start; // of any sign: zigzag
	buf_uleb(out, f->start - before);
	buf_uleb(out, f->size);
	buf_uleb(out, shift << 1 ^ (uint64_t)((int64_t)shift >> 63));
	buf_uleb(out, f->unit);
	buf_add(out, source, strlen(source) + 1);
}

void names_encode_functions(const struct names *names, struct buf *out)
{
	for (size_t i = 0; i < names->images.count; i++) {
		const struct name_image *image = &names->images.data[i];
		uint64_t before = 0;
		if (image->functions.count == 0)
			continue;
		buf_uleb(out, i);
		buf_uleb(out, image->functions.count);
		for (size_t k = 0; k < image->functions.count; k++) {
			put_function(out, &image->functions.data[k], before);
			before = image->functions.data[k].start;
		}
	}
}

static bool take_function(struct names *names, struct bytes *in, uint64_t before, struct name_function *f)
{
	f->start = before + bytes_uleb(in);
	f->size = bytes_uleb(in);
	uint64_t shift = bytes_uleb(in);
	f->vaddr = f->start + (shift >> 1 ^ (0 - (shift & 1)));
	uint64_t unit = bytes_uleb(in);
	f->unit = (uint32_t)unit;
	const char *source = bytes_cstr(in);
	if (in->bad || f->start < before || f->size > UINT64_MAX - f->start || unit > UINT32_MAX)
		return false;
	f->source = source[0] != '\0' ? arena_string(&names->arena, source, strlen(source)) : NULL;
	return true;
}

const char *names_decode_functions(struct names *names, struct bytes *in)
{
	enum { LEAST_BYTES = 5 };
	while (bytes_left(in) > 0) {
		uint64_t number = bytes_uleb(in), count = bytes_uleb(in), before = 0;
		if (in->bad || number >= names->images.count)
			return "the number of an image that has names";
		if (count > bytes_left(in) / LEAST_BYTES)
			return "as many functions as there are bytes for";
		struct name_image *image = &names->images.data[number];
		image->functions.count = 0; // a second part of this kind replaces the first
		vec_reserve(&image->functions, count);
		for (uint64_t i = 0; i < count; i++) {
			struct name_function f = { 0 };
			if (!take_function(names, in, before, &f))
				return "a function's start, size, address, unit and source file, by ascending start";
			before = f.start;
			vec_push(&image->functions, f);
		}
	}
	return NULL;
}
