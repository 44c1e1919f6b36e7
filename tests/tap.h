// Test Anything Protocol for unit tests: one C program a file, run by prove. Every check prints a line; the plan closes.
#ifndef PERFSAMPLE_TESTS_TAP_H
#define PERFSAMPLE_TESTS_TAP_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tap_count, tap_failed;

__attribute__((unused, format(printf, 2, 3))) static bool tap_ok(bool good, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("%sok %d - ", good ? "" : "not ", ++tap_count);
	vprintf(format, args);
	printf("\n");
	va_end(args);
	tap_failed += !good;
	fflush(stdout);
	return good;
}

#define ok(condition, ...) tap_ok((condition), __VA_ARGS__)
#define diag(...) (printf("#   " __VA_ARGS__), printf("\n"))
#define is_u64(got, wanted, ...) do { unsigned long long g_ = (got), w_ = (wanted); \
	if (!ok(g_ == w_, __VA_ARGS__)) diag("%s:%d: got %llu (%#llx), wanted %llu (%#llx)", __FILE__, __LINE__, g_, g_, w_, w_); } while (0)
#define is_str(got, wanted, ...) do { const char *g_ = (got), *w_ = (wanted); \
	if (!ok(g_ != NULL && w_ != NULL && strcmp(g_, w_) == 0, __VA_ARGS__)) diag("%s:%d: got '%s', wanted '%s'", __FILE__, __LINE__, g_ ? g_ : "(null)", w_ ? w_ : "(null)"); } while (0)
#define is_close(got, wanted, relative, ...) do { double g_ = (got), w_ = (wanted); \
	if (!ok(fabs(g_ - w_) <= (relative) * fabs(w_) + 1e-12, __VA_ARGS__)) diag("%s:%d: got %.17g, wanted %.17g", __FILE__, __LINE__, g_, w_); } while (0)
// Whatever a host cannot give is skipped aloud, with the reason.
#define skip(reason, ...) (printf("ok %d - ", ++tap_count), printf(__VA_ARGS__), printf(" # SKIP %s\n", (reason)))

__attribute__((unused)) static int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed > 0 ? 1 : 0;
}

// A file of the corpus, PERFSAMPLE_CORPUS/relative; NULL when the corpus or the file is not there.
__attribute__((unused)) static const char *corpus_file(const char *relative)
{
	static char path[4096];
	const char *root = getenv("PERFSAMPLE_CORPUS");
	snprintf(path, sizeof(path), "%s/%s", root != NULL && *root != '\0' ? root : "../shared/data", relative);
	FILE *f = fopen(path, "rb");
	if (f == NULL)
		return NULL;
	fclose(f);
	return path;
}

#endif
