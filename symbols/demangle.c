#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "symbols/symbolizer.h"

// Mangled names are another's data, and substitutions let a short name print as gigabytes. libiberty's printers cannot be
// told to stop, but with a callback they hold nothing but their stack, so leaving by longjmp loses nothing.
// With its recursion limit on, libiberty refuses C++ names of more than 1,024 bytes, which templates exceed; without it the
// parser's depth, a few hundred bytes of stack a level, is bounded by the name's length alone. (The printer's has a bound of its own.)
enum { LIMITED_LENGTH = 1024, NAME_LIMIT = 8 * 1024, OUTPUT_LIMIT = 64 * 1024 };

struct output {
	char *text; // OUTPUT_LIMIT bytes
	size_t size;
	jmp_buf too_long;
};

static void append(const char *s, size_t length, void *opaque)
{
	struct output *out = opaque;
	if (length > OUTPUT_LIMIT - out->size)
		longjmp(out->too_long, 1);
	memcpy(out->text + out->size, s, length);
	out->size += length;
}

static bool is_rust(const char *name, size_t length)
{
	if (name[0] == '_' && name[1] == 'R')
		return true;
	// The legacy scheme looks like C++ and ends in a hash: 17h, 16 hex digits, E (a suffix such as .llvm.123 may follow).
	const char *hash = strstr(name, "17h");
	return hash != NULL && length >= 20;
}

// The callback interfaces of libiberty, in the order in which names are most often met.
static bool demangle_into(const char *name, size_t length, struct output *out)
{
	const int options = DMGL_PARAMS | DMGL_ANSI | (length > LIMITED_LENGTH ? DMGL_NO_RECURSE_LIMIT : 0);
	if (setjmp(out->too_long) != 0)
		return false;
	if (is_rust(name, length) && rust_demangle_callback(name, options, append, out))
		return true;
	out->size = 0;
	return cplus_demangle_v3_callback(name, options, append, out) != 0;
}

static bool is_dlang(const char *name)
{
	return name[0] == '_' && name[1] == 'D' && ((name[2] >= '0' && name[2] <= '9') || strcmp(name, "_Dmain") == 0);
}

static char *demangle(const char *name, size_t length)
{
	if (is_dlang(name)) {
		// Its back references cannot nest deeper than the name is long; the result is from malloc, as ours.
		return length <= LIMITED_LENGTH ? dlang_demangle(name, DMGL_PARAMS) : NULL;
	}
	// _Z (C++, Rust), _R (Rust), _GLOBAL_ (constructors, as libiberty spells them).
	if (strncmp(name, "_Z", 2) != 0 && strncmp(name, "_R", 2) != 0 && strncmp(name, "_GLOBAL_", 8) != 0)
		return NULL;
	char text[OUTPUT_LIMIT];
	struct output out = { .text = text };
	return demangle_into(name, length, &out) && out.size > 0 ? mem_string_n(text, out.size) : NULL;
}

char *symbol_demangle(const char *linkage_name)
{
	if (linkage_name[0] != '_')
		return NULL;
	size_t length = strnlen(linkage_name, NAME_LIMIT + 1);
	if (length > NAME_LIMIT)
		return NULL;
	// What stands behind the name proper stays as it is: @plt, @@GLIBCXX_3.4. (No mangling uses '@'.)
	const char *suffix = memchr(linkage_name, '@', length);
	if (suffix == NULL)
		return demangle(linkage_name, length);
	char *name = mem_string_n(linkage_name, (size_t)(suffix - linkage_name));
	char *plain = demangle(name, (size_t)(suffix - linkage_name));
	char *result = plain != NULL ? mem_printf("%s%s", plain, suffix) : NULL;
	free(plain);
	free(name);
	return result;
}
