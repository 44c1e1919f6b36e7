// What the parts that name a profile's frames share. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_SYMBOLS_H
#define PERFSAMPLE_LOAD_SYMBOLS_H

#include "load/loader.h"

struct named;
struct lined;

struct symbols {
	struct loader *loader;
	struct symbolizer *symbolizer;
	uint32_t *images;          // by profile dso; PROFILE_NONE: nothing to ask
	const struct symbol_result **results; // by frame; NULL: nothing was asked
	struct lined *lined;       // lines made lately
	uint32_t kernel;           // one image for the kernel and its modules; PROFILE_NONE: not asked yet
	bool has_other_kernel, has_folded_names;
	struct named *named;       // functions met, by their texts and starts
	VEC(const struct symbol_result *) folded; // by frame, of functions that have aliases; empty when none has
};

// As far as the recording tells: the files, kernel and pids of this host are those that it speaks of.
bool symbols_are_of_this_host(const struct loader *loader);
// A frame whose function has aliases.
void folded_note(struct symbols *symbols, uint32_t frame, const struct symbol_result *result);
// When all frames are named: gives those the name by which their callers called them, as frames of their own. Changes the frames of nodes, so
// no node may be added afterwards.
void folded_tell(struct symbols *symbols);
// When all frames have their functions: makes different functions of one name in one file different functions, by name too. Changes the functions of lines.
void namesakes_tell(struct symbols *symbols);

#endif
