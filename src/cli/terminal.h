// Where results go: standard output, a terminal or not, its size, colour, a pager, and failures to write.
#ifndef PERFSAMPLE_CLI_TERMINAL_H
#define PERFSAMPLE_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum color_mode { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

bool terminal_is_output(void);
// Columns and rows of standard output (COLUMNS and LINES win; 80 x 24 when it is no terminal: rows 0).
void terminal_size(size_t *columns, size_t *rows);
bool terminal_color(enum color_mode mode); // honours NO_COLOR and TERM=dumb
// Writes results. EPIPE ends the process silently as by SIGPIPE; other failures are STATUS_FINISH.
bool output_write(const void *bytes, size_t size, struct err *err);
bool output_close(struct err *err); // flushes and checks standard output
// Starts $PERFSAMPLE_PAGER, $PAGER or less when `lines` exceed the terminal; later output_write goes there.
void output_page(size_t lines);
// A file that appears under its name only when whole: PATH.PID.tmp, then rename. "-" is standard output. A device, a pipe or a descriptor that was named
// is written in place (base/special.h); by a name that nobody gave, never.
enum output_name { OUTPUT_NAMED, OUTPUT_DEFAULT };
struct output_stream {
	const char *path; // the caller's
	char *temporary;  // NULL: written where it is
	int fd;           // -1: standard output
};
bool output_stream_begin(struct output_stream *output, const char *path, enum output_name kind, struct err *err); // false: nothing is to be ended
bool output_stream_add(struct output_stream *output, const void *bytes, size_t size, struct err *err);
// `is_whole`: all was added; else nothing appears. false: it does not, `err` says why (where it was not whole, it did before).
bool output_stream_end(struct output_stream *output, bool is_whole, struct err *err);
// All at once.
bool output_file(const char *path, enum output_name kind, const void *bytes, size_t size, struct err *err);

#endif
