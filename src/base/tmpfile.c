#include "base/tmpfile.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

int tmpfile_open(void)
{
	const char *folder = getenv("TMPDIR");
	int fd = open(folder != NULL && *folder != '\0' ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	FILE *file = fd < 0 ? tmpfile() : NULL; // not every file system makes files without a name
	if (file != NULL) {
		fd = fcntl(fileno(file), F_DUPFD_CLOEXEC, 3);
		fclose(file);
	}
	return fd;
}
