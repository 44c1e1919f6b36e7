#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/escape.h"

static enum log_level highest_level = LOG_INFO;

void log_set_level(enum log_level highest)
{
	highest_level = highest;
}

enum log_level log_level(void)
{
	return highest_level;
}

void log_line(enum log_level level, const char *format, ...)
{
	if (level > highest_level)
		return;
	struct buf text = { 0 }, line = { 0 };
	va_list args;
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	buf_string(&line, "perfsample: ");
	escape_terminal(&line, buf_text(&text), text.size);
	buf_byte(&line, '\n');
	fwrite(line.data, 1, line.size, stderr);
	buf_release(&line);
	buf_release(&text);
}
