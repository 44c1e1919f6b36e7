#include "profile/clones.h"

#include <string.h>

static bool is_suffix_word(const char *s, size_t length)
{
	static const char *const words[] = { "cold", "part", "constprop", "isra", "lto_priv", "llvm", "localalias", "clone" };
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i]) == length && memcmp(words[i], s, length) == 0)
			return true;
	return false;
}

// Whether ".WORD" and then nothing but ".WORD" and ".DIGITS" follow.
static bool is_all_suffix(const char *s)
{
	bool has_word = false;
	while (*s == '.') {
		size_t length = strcspn(s + 1, ".");
		bool digits = length > 0 && strspn(s + 1, "0123456789") == length;
		if (!digits && !is_suffix_word(s + 1, length))
			return false;
		has_word |= !digits;
		s += 1 + length;
	}
	return *s == '\0' && has_word;
}

size_t clones_base_length(const char *name, bool versions)
{
	size_t length = strlen(name);
	const char *clone = strstr(name, " [clone ");
	if (clone != NULL && clone > name)
		length = (size_t)(clone - name);
	for (size_t i = 1; i < length; i++) {
		bool version = versions && name[i] == '@' && (name[i + 1] == '@' || (name[i + 1] >= 'A' && name[i + 1] <= 'Z'));
		if (version || (name[i] == '.' && clone == NULL && is_all_suffix(name + i)))
			return i;
	}
	return length;
}
