#include "marks.h"

#include <stdbool.h>
#include <string.h>

enum mark_kind mark_of(const char *name, size_t *length)
{
	static const struct { const char *text; enum mark_kind kind; } marks[] = {
		{ "_[k]", MARK_KIND_KERNEL }, { "_[i]", MARK_KIND_INLINED }, { "_[j]", MARK_KIND_JIT },
	};
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (*length > 4 && memcmp(name + *length - 4, marks[i].text, 4) == 0)
			return *length -= 4, marks[i].kind;
	bool is_bracketed = *length > 2 && name[0] == '[' && name[*length - 1] == ']';
	static const char *const ends[] = { "[truncated]", "[unwind failed]", "[unknown]" };
	for (size_t i = 0; is_bracketed && i < sizeof(ends) / sizeof(ends[0]); i++)
		if (*length == strlen(ends[i]) && memcmp(name, ends[i], *length) == 0)
			return MARK_KIND_END;
	return MARK_KIND_USER;
}

int mark_of_change(const char *name, size_t *length)
{
	static const char levels[] = "123?";
	if (*length <= 5 || memcmp(name + *length - 5, "_[", 2) != 0 || name[*length - 1] != ']')
		return 0;
	char sign = name[*length - 3];
	const char *level = memchr(levels, name[*length - 2], 4);
	if ((sign != '+' && sign != '-') || level == NULL)
		return 0;
	*length -= 5;
	int found = (int)(level - levels) + 1;
	return sign == '-' ? -found : found;
}
