// The likely word meant: the nearest of some candidates by edit distance.
#ifndef PERFSAMPLE_BASE_CLOSEST_H
#define PERFSAMPLE_BASE_CLOSEST_H

#include <stddef.h>

// Candidates may be offered one by one, as they are listed from somewhere.
struct closest {
	const char *word;
	size_t distance; // of what was found
	char found[128]; // "" when nothing near was offered
};

void closest_init(struct closest *closest, const char *word);
// Takes `candidate` if it is nearer than all before: insertions, deletions, substitutions and swaps of neighbours, at most a third
// of the word's length; case counts for nothing.
void closest_offer(struct closest *closest, const char *candidate);
// The nearest of `words` (NULL-terminated); NULL: none is near.
const char *closest_word(const char *word, const char *const *words);

#endif
