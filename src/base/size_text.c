#include "base/size_text.h"

#include <stdio.h>

const char *size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
	if (bytes >= 9950000)
		snprintf(text, SIZE_TEXT_BYTES, "%.0f MB", (double)bytes / 1e6);
	else if (bytes >= 99950)
		snprintf(text, SIZE_TEXT_BYTES, "%.1f MB", (double)bytes / 1e6);
	else if (bytes >= 1000)
		snprintf(text, SIZE_TEXT_BYTES, "%.1f kB", (double)bytes / 1e3);
	else
		snprintf(text, SIZE_TEXT_BYTES, "%u byte%s", (unsigned)bytes, bytes == 1 ? "" : "s");
	return text;
}
