#include "elf/vdso.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

struct image *vdso_own(void)
{
	const uint8_t *at = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	struct image *image = NULL;
	Elf64_Ehdr header;
	if (at == NULL || sizeof(void *) != 8)
		return NULL;
	memcpy(&header, at, sizeof(header));
	// Its section table stands last (Linux links it so): its end is the image's size, which no interface tells.
	uint64_t size = header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize;
	if (header.e_shoff == 0 || header.e_shoff > VDSO_BYTES_MAX || size > VDSO_BYTES_MAX)
		return NULL;
	return image_open_bytes(&image, at, (size_t)size, false, VDSO_NAME, NULL) ? image : NULL;
}
