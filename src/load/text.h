// Stacks as text, from other tools: folded stacks ("comm;root;…;leaf COUNT", a line each) and what perf script prints.
//
// Text says nothing of loss, and not why a stack ends: the profile has a caveat for it. Frames of folded stacks are names alone, samples have no
// time, and a row stands for COUNT samples (profile_event.counts_by_weight). Inside load/ only.
#ifndef PERFSAMPLE_LOAD_TEXT_H
#define PERFSAMPLE_LOAD_TEXT_H

#include <stdio.h>

#include "load/load.h"

enum text_kind { TEXT_NONE, TEXT_FOLDED, TEXT_SCRIPT };

// What the file (or standard input, "-") holds, by its first lines; nothing is consumed. TEXT_NONE: no text of these kinds, or unreadable.
enum text_kind text_detect(const char *path);
// `profile` is initialized. STATUS_INPUT names the line and what was expected there; with options->salvage such lines are skipped and counted.
bool text_load(struct profile *profile, const struct load_options *options, enum text_kind kind, struct err *err);
// The same from a stream that is open, and stays so; options->input is its name in messages.
bool text_read(struct profile *profile, const struct load_options *options, FILE *file, enum text_kind kind, struct err *err);

// ---------------------------------------------------------------- what both readers share

struct text_reader {
	struct profile *profile;
	const struct load_options *options;
	FILE *file;
	char *line;          // of getline
	size_t length, capacity;
	uint64_t line_number;
	bool is_cut;                     // the line has no end, and is not the first: it may be a part of one
	bool cut_off;                    // it was no line that makes sense, and counts for nothing
	uint64_t skipped, first_skipped; // lines
	bool tells_loss;                 // some say how much was lost
	struct intern frame_keys;        // what makes a frame -> frame id
	VEC(uint32_t) frames;            // by id of frame_keys
	struct buf key;
};

// The next line without its end; false at the end of the file, or when reading failed (err is set).
bool text_next_line(struct text_reader *t, struct err *err);
// A line that cannot be understood: an error, or counted with --salvage (true).
bool text_bad_line(struct text_reader *t, const char *expected, struct err *err);
uint32_t text_dso(struct text_reader *t, const char *path, size_t length);
// The frame whose inline chain is `lines`, innermost first; made once for the same lines, address and dso. Adds them to the profile's chains.
struct text_frame { uint64_t addr; uint32_t dso; bool is_return, is_kernel; uint8_t via; uint64_t offset; /* in the function */ };
uint32_t text_add_frame(struct text_reader *t, const struct text_frame *frame, const struct profile_line *lines, size_t count);
// The function of that name; "[unknown]" and a name in brackets are places without one.
uint32_t text_function(struct text_reader *t, const char *name, size_t length, uint32_t dso);

// Of perf script's line on a record that is no sample (--show-mmap-events, --show-lost-events …): its name, "PERF_RECORD_LOST"; NULL: not such a line.
const char *text_record_name(const char *line, size_t length);
bool text_read_script(struct text_reader *t, struct err *err);

#endif
