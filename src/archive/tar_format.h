// A tar header as it stands in an archive. Inside archive/ only.
#ifndef PERFSAMPLE_ARCHIVE_TAR_FORMAT_H
#define PERFSAMPLE_ARCHIVE_TAR_FORMAT_H

#include <stddef.h>
#include <stdint.h>

enum { TAR_BLOCK = 512 };
enum { TAR_FILE = '0', TAR_OLD_FILE = '\0', TAR_LINK = '2', TAR_FOLDER = '5', TAR_PAX = 'x', TAR_PAX_GLOBAL = 'g', TAR_GNU_NAME = 'L', TAR_GNU_TARGET = 'K' };
#define TAR_SIZE_MOST UINT64_C(077777777777) // in eleven octal digits

struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], time[12], sum[8], type, link[100];
	char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a header is a block");

// Of all bytes, those of `sum` counted as blanks.
static inline uint32_t tar_sum(const struct tar_header *header)
{
	const unsigned char *bytes = (const unsigned char *)header;
	size_t from = offsetof(struct tar_header, sum), to = from + sizeof(header->sum);
	uint32_t sum = 0;
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= from && i < to ? ' ' : bytes[i];
	return sum;
}

#endif
