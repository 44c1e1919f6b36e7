// The optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours (Damerau 1964).
#include <string.h>

#include "cli/option.h"

enum { LONGEST = 64 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t rows[3][LONGEST + 1];
	size_t *before = rows[0], *above = rows[1], *row = rows[2];
	for (size_t j = 0; j <= b_length; j++)
		above[j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
		size_t *oldest = before;
		before = above;
		above = row;
		row = oldest;
	}
	return above[b_length];
}

const char *option_closest(const char *word, const char *const *words)
{
	size_t length = strlen(word), best = length / 3 + 1;
	const char *closest = NULL;
	if (length > LONGEST)
		return NULL;
	for (; *words != NULL; words++) {
		size_t other = strlen(*words);
		if (other > LONGEST)
			continue;
		size_t d = distance(word, length, *words, other);
		if (d < best) {
			best = d;
			closest = *words;
		}
	}
	return closest;
}
