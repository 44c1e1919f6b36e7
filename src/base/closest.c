#include "base/closest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 64 };

static uint8_t least(unsigned a, unsigned b)
{
	return (uint8_t)(a < b ? a : b);
}

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

// "Optimal string alignment": Damerau's four kinds of slips (1964), no substring edited twice.
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	uint8_t table[LONGEST + 1][LONGEST + 1];
	for (size_t i = 0; i <= a_length; i++)
		table[i][0] = (uint8_t)i;
	for (size_t j = 0; j <= b_length; j++)
		table[0][j] = (uint8_t)j;
	for (size_t i = 1; i <= a_length; i++)
		for (size_t j = 1; j <= b_length; j++) {
			uint8_t d = least(least(table[i - 1][j] + 1u, table[i][j - 1] + 1u), table[i - 1][j - 1] + !same(a[i - 1], b[j - 1]));
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
				d = least(d, table[i - 2][j - 2] + 1u);
			table[i][j] = d;
		}
	return table[a_length][b_length];
}

void closest_init(struct closest *closest, const char *word)
{
	*closest = (struct closest){ .word = word, .distance = strlen(word) / 3 + 1 };
}

void closest_offer(struct closest *closest, const char *candidate)
{
	size_t a = strlen(closest->word), b = strlen(candidate);
	if (a > LONGEST || b > LONGEST || (a > b ? a - b : b - a) >= closest->distance)
		return;
	unsigned d = distance(closest->word, a, candidate, b);
	if (d >= closest->distance)
		return;
	closest->distance = d;
	snprintf(closest->found, sizeof(closest->found), "%s", candidate);
}

const char *closest_word(const char *word, const char *const *words)
{
	struct closest closest;
	const char *nearest = NULL;
	closest_init(&closest, word);
	for (; *words != NULL; words++) {
		size_t before = closest.distance;
		closest_offer(&closest, *words);
		if (closest.distance < before)
			nearest = *words;
	}
	return nearest;
}
