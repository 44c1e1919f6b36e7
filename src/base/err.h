// Errors that travel upwards as text, with the exit status they deserve.
//
// A function that can fail takes `struct err *` last, returns bool, and returns false after filling it.
// Callers add what they were doing: "reading perf.data: record at 0x1f20: size 3 below 8".
// Only src/cmd and src/main.c print an error or end the process because of one.
#ifndef PERFSAMPLE_BASE_ERR_H
#define PERFSAMPLE_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>

// The process's exit statuses (perfsample(1), EXIT STATUS).
enum status {
	STATUS_OK = 0,
	STATUS_NO = 1,      // the answer is no
	STATUS_USAGE = 2,   // unknown option, bad value, no such event
	STATUS_HOST = 3,    // the host refused: permission, kernel, hardware
	STATUS_INPUT = 4,   // not a profile, corrupt, or not comparable
	STATUS_STRICT = 5,  // --strict, and the result would not be honest
	STATUS_FINISH = 6,  // disk full, out of memory, output not writable
	STATUS_CANNOT_RUN = 126,
	STATUS_NOT_FOUND = 127,
};

struct err {
	enum status status;
	char text[1024];
};

// Fills `err` (which may be NULL) and returns false, so that callers write `return err_set(…)`.
bool err_set(struct err *err, enum status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
// As err_set, with ": " and strerror(errno) behind the text.
bool err_errno(struct err *err, enum status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
// Puts "text: " in front of what `err` says and returns false. Text that no longer fits is cut at the end.
bool err_context(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void err_clear(struct err *err);

#endif
