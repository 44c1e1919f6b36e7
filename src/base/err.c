#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void fill(struct err *err, enum status status, const char *format, va_list args)
{
	err->status = status;
	vsnprintf(err->text, sizeof(err->text), format, args);
}

bool err_set(struct err *err, enum status status, const char *format, ...)
{
	if (err == NULL)
		return false;
	va_list args;
	va_start(args, format);
	fill(err, status, format, args);
	va_end(args);
	return false;
}

// The setting behind a limit, as strerror(3) does not name it.
static const char *setting_of(int error)
{
	return error == EMFILE ? " (RLIMIT_NOFILE; ulimit -n raises it)" : error == ENFILE ? " (all of the system's; sysctl fs.file-max raises it)" : "";
}

bool err_errno(struct err *err, enum status status, const char *format, ...)
{
	int saved = errno;

	if (err == NULL)
		return false;
	va_list args;
	va_start(args, format);
	fill(err, status, format, args);
	va_end(args);
	size_t used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %s%s", strerror(saved), setting_of(saved));
	errno = saved;
	return false;
}

bool err_context(struct err *err, const char *format, ...)
{
	if (err == NULL)
		return false;
	char old[sizeof(err->text)];
	memcpy(old, err->text, sizeof(old));
	va_list args;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	size_t used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %s", old);
	return false;
}

void err_clear(struct err *err)
{
	err->status = STATUS_OK;
	err->text[0] = '\0';
}
