// Debug files and binaries from debuginfod servers, by build ID: the network, which nothing else in the program touches.
//
// The client is elfutils' libdebuginfod, loaded only when one is opened: it honours DEBUGINFOD_URLS, DEBUGINFOD_CACHE_PATH, DEBUGINFOD_MAXSIZE,
// DEBUGINFOD_MAXTIME and DEBUGINFOD_RETRY_LIMIT (debuginfod_find_debuginfo(3)), keeps what it got, and for a while what it did not get, in
// ~/.cache/debuginfod_client, and puts files there whole, by rename. What is added here: limits that hold whatever a server does, and that
// nothing is believed, or left in the cache, whose build ID is not the one asked for or that is not whole.
#ifndef PERFSAMPLE_SYMBOLS_DEBUGINFOD_H
#define PERFSAMPLE_SYMBOLS_DEBUGINFOD_H

#include "base/err.h"
#include "elf/image.h"

enum debuginfod_kind { DEBUGINFOD_DEBUG_FILE, DEBUGINFOD_EXECUTABLE };

struct debuginfod_options { // calls come from the thread that asks, one at a time
	// Several times a second while a file comes: bytes so far, and of how many (0: unknown).
	void (*progress)(void *context, const struct build_id *id, enum debuginfod_kind kind, uint64_t bytes, uint64_t total_bytes);
	// Once for each file that was asked of a server: `image` is the file (its path in the cache), or NULL and `why` a sentence's part; `is_failure`
	// false: the servers just do not have it.
	void (*done)(void *context, const struct build_id *id, enum debuginfod_kind kind, const struct image *image, const char *why, bool is_failure);
	void *context;
	double stall_s; // no byte for so long ends a file; 0: DEBUGINFOD_TIMEOUT, else 10
	double total_s; // for all files together; 0: 120
};

struct debuginfod;

// STATUS_USAGE: no server is named; STATUS_HOST: the library is not there.
bool debuginfod_open(struct debuginfod **out, const struct debuginfod_options *options, struct err *err);
void debuginfod_close(struct debuginfod *client); // NULL is allowed
// From the cache or from a server; a reference, or NULL. Each (id, kind) is asked once. After two files that stalled, or when the time is over,
// nothing is asked any more. May be called by several threads, which wait for each other.
struct image *debuginfod_find(struct debuginfod *client, const struct build_id *id, enum debuginfod_kind kind);

#endif
