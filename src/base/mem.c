#include "base/mem.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/unfinished.h"

static void out_of_memory(void) __attribute__((noreturn));
static void out_of_memory(void)
{
	static const char text[] = "perfsample: out of memory\n";
	ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)ignored;
	unfinished_remove();
	_exit(STATUS_FINISH);
}

void *mem_alloc(size_t bytes)
{
	void *p = malloc(bytes > 0 ? bytes : 1);
	if (p == NULL)
		out_of_memory();
	return p;
}

void *mem_zero(size_t count, size_t size)
{
	void *p = calloc(count > 0 ? count : 1, size > 0 ? size : 1);
	if (p == NULL)
		out_of_memory();
	return p;
}

void *mem_zero_aligned(size_t alignment, size_t bytes)
{
	void *p = NULL;
	if (posix_memalign(&p, alignment, bytes) != 0)
		out_of_memory();
	return memset(p, 0, bytes);
}

void *mem_resize(void *old, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes))
		out_of_memory();
	void *p = realloc(old, bytes > 0 ? bytes : 1);
	if (p == NULL)
		out_of_memory();
	return p;
}

void *mem_grow(void *old, size_t *capacity, size_t need, size_t size)
{
	enum { LITTLE_BYTES = 1 << 20 };
	size_t more = *capacity < LITTLE_BYTES / size ? *capacity : *capacity / 2, larger = *capacity + more + 8;
	*capacity = larger > need ? larger : need;
	return mem_resize(old, *capacity, size);
}

// The heap grows once by all of it, of which nothing is touched but what is asked for, and keeps what is freed. When it is used up, large blocks are
// mappings of their own again. An allocator other than glibc's is let be: it does not move the break.
void mem_expect_much(void)
{
	enum { HEAP_BYTES = 64 << 20, FIRST_BYTES = 1 << 20, MORE_BYTES = 512 << 10 };
	const uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)sbrk(0) + page_bytes - 1) & -page_bytes;
	mallopt(M_TRIM_THRESHOLD, 2 * HEAP_BYTES);
	mallopt(M_MMAP_THRESHOLD, 2 * FIRST_BYTES);
	mallopt(M_TOP_PAD, HEAP_BYTES);
	free(mem_alloc(FIRST_BYTES));
	mallopt(M_TOP_PAD, MORE_BYTES);
	const uintptr_t end = (uintptr_t)sbrk(0);
	if (end > from && end - from >= HEAP_BYTES)
		(void)madvise((void *)from, end - from, MADV_HUGEPAGE); // refused where there are none
}

void *mem_copy(const void *bytes, size_t size)
{
	void *p = mem_alloc(size);
	if (size > 0)
		memcpy(p, bytes, size);
	return p;
}

char *mem_string(const char *s)
{
	return mem_copy(s, strlen(s) + 1);
}

char *mem_string_n(const char *s, size_t length)
{
	char *p = mem_alloc(length + 1);
	if (length > 0)
		memcpy(p, s, length);
	p[length] = '\0';
	return p;
}

void *mem_pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p == MAP_FAILED)
		out_of_memory();
	return p;
}

void *mem_sparse(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		out_of_memory();
	(void)madvise(p, bytes, MADV_NOHUGEPAGE); // refused where there are none
	return p;
}

void mem_pages_free(void *pages, size_t bytes)
{
	if (pages != NULL)
		munmap(pages, bytes);
}

char *mem_printf(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0)
		out_of_memory();
	char *p = mem_alloc((size_t)length + 1);
	va_start(args, format);
	vsnprintf(p, (size_t)length + 1, format, args);
	va_end(args);
	return p;
}
