// What the symbolizer's parts share. Inside symbols/ only.
#ifndef PERFSAMPLE_SYMBOLS_SYMBOLIZER_INTERNAL_H
#define PERFSAMPLE_SYMBOLS_SYMBOLIZER_INTERNAL_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/intern.h"
#include "symbols/limits.h"
#include "symbols/module.h"
#include "symbols/provider.h"

enum { PROVIDERS_LIMIT = 16, RECENT = 4096 };

struct opened {
	bool is_tried, is_good;
	void *state;
};

struct entry { // an image and what is known of its addresses
	struct symbol_module module;
	struct opened providers[PROVIDERS_LIMIT];
	struct hash_map by_addr; // image address -> index into results
	VEC(struct symbol_result *) results;
	struct symbol_result *unknown; // of an address of which nothing is known but what is missing; NULL: none yet
	struct symbol_result *bounded; // of the function without a name that was met last; NULL: none yet
	struct bounds_table bounds;    // from inside a recording
};

struct recent { // a provider's string, and what it became here
	const char *from, *to;
};

struct symbolizer {
	struct symbolizer_options options; // strings and lists are copies in the arena
	struct arena arena;
	struct intern names;                  // linkage names and file names
	VEC(const char *) demangled;          // by id of the linkage name; NULL: not asked yet
	VEC(struct entry *) images;
	struct hash_map image_ids;
	const struct symbol_provider *providers[PROVIDERS_LIMIT]; // by order
	size_t provider_count;
	bool symbols_only; // time is up
	struct symbol_limits limits;
	struct recent files[RECENT], linkages[RECENT]; // providers' strings do not move while the symbolizer lives; by their addresses
	// Addresses are asked in order, so one symbol is met many times in a row.
	struct {
		const char *name, *shown, *linkage;
		size_t length;
		uint64_t start, size;
		const struct entry *entry;
		const struct symbol_alias *aliases;
		size_t alias_count;
		const struct symbol_local *local;
		struct symbol_result *plain; // of an address in it of which debug information tells nothing; NULL: none yet
	} last;
};

// What provider `p` prepared for the image; NULL: it has nothing to say of it.
void *symbolizer_state(struct symbolizer *s, struct entry *entry, size_t p);
bool symbolizer_wants_chains(const struct symbolizer *s); // inline chains or lines
// Looks an address up, and keeps in mind what it is; the second does not keep it.
struct symbol_result *symbolizer_looked_up(struct symbolizer *s, struct entry *entry, uint64_t image_addr);
struct symbol_result *symbolizer_resolve_one(struct symbolizer *s, struct entry *entry, uint64_t image_addr);
// Keeps in mind what an address is, of which nothing is kept yet.
void symbolizer_note(struct entry *entry, uint64_t image_addr, struct symbol_result *result);

#endif
