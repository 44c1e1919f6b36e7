// Allocation that either succeeds or ends the process with status 6 ("out of memory").
//
// This is the one place below src/cmd that may end the process: a profiler that cannot allocate a few
// bytes has nothing better to do, and callers stay readable. Sizes that come from files, rings or other
// processes are bounded by the caller *before* they reach these functions.
#ifndef PERFSAMPLE_BASE_MEM_H
#define PERFSAMPLE_BASE_MEM_H

#include <stddef.h>

void *mem_alloc(size_t bytes) __attribute__((malloc, returns_nonnull));
void *mem_zero(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *mem_zero_aligned(size_t alignment, size_t bytes) __attribute__((malloc, returns_nonnull)); // a power of two; free() frees it
void *mem_resize(void *old, size_t count, size_t size) __attribute__((returns_nonnull));
// The array with room for `need` elements at least, and for more that may follow; `*capacity` is how many it has room for.
void *mem_grow(void *old, size_t *capacity, size_t need, size_t size) __attribute__((returns_nonnull));
void *mem_copy(const void *bytes, size_t size) __attribute__((malloc, returns_nonnull));
char *mem_string(const char *s) __attribute__((malloc, returns_nonnull));
char *mem_string_n(const char *s, size_t length) __attribute__((malloc, returns_nonnull));
// Zeroed pages that are there already, for tables that are looked into all over before they are filled: else a page is mapped twice, as the shared page of zeroes
// when it is first read and as one of its own when it is first written, and other CPUs have to be told of the change.
void *mem_pages(size_t bytes) __attribute__((malloc, returns_nonnull));
// Zeroed pages that come as they are touched, one by one: for room of which little is used.
void *mem_sparse(size_t bytes) __attribute__((malloc, returns_nonnull));
// What either of them gave, with its size; NULL: nothing.
void mem_pages_free(void *pages, size_t bytes);
char *mem_printf(const char *format, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));

// Megabytes of tables are to come, for a process that is soon done: from here on they come from a heap in huge pages, where the system has them. A fresh page
// of 4 KiB costs more than a microsecond, one of 2 MiB some hundred, unless the system has to make it first: nothing for a thread that must not wait.
void mem_expect_much(void);

#define NEW(type) ((type *)mem_zero(1, sizeof(type)))

#endif
