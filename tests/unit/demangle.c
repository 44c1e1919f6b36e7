// Names as compilers mangle them, and names made to break a demangler.
#include "symbols/symbolizer.h"
#include "tests/tap.h"

#include <time.h>

static void check(const char *mangled, const char *wanted)
{
	char *got = symbol_demangle(mangled);
	if (wanted != NULL)
		is_str(got, wanted, "%s", mangled);
	else
		ok(got == NULL, "%s is left as it is", mangled);
	free(got);
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); // however busy the machine is
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(void)
{
	check("_Z3fooi", "foo(int)");
	check("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back(int&&)");
	check("_ZN3fooC4Ev", "foo::foo()");
	check("_ZN12_GLOBAL__N_13barEv", "(anonymous namespace)::bar()");
	check("_Z3fooi.cold", "foo(int) [clone .cold]");
	check("_Z3fooi.constprop.0.isra.0", "foo(int) [clone .constprop.0] [clone .isra.0]");
	check("_ZNSi10_M_extractIxEERSiRT_@plt", "std::istream& std::istream::_M_extract<long long>(long long&)@plt");
	check("_ZNSs6assignERKSs@@GLIBCXX_3.4", "std::string::assign(std::string const&)@@GLIBCXX_3.4");
	check("_ZN3std4path10Components7as_path17hf5c3327ad0290fc8E", "std::path::Components::as_path");
	check("_ZN4core3ptr71drop_in_place$LT$std..panicking..panic_handler..FormatStringPayload$GT$17h7c9e46daf0976d41E",
	      "core::ptr::drop_in_place<std::panicking::panic_handler::FormatStringPayload>");
	check("_RNvC6_123foo3bar", "123foo::bar");
	check("_RNvMCs1234_7mycrateNtB2_3Foo3new", "<mycrate::Foo>::new");
	check("_D8demangle4testFaZv", "demangle.test(char)");
	check("_Dmain", "D main");
	check("main", NULL);
	check("memcpy@@GLIBC_2.14", NULL);
	check("_init", NULL);
	check("", NULL);
	check("_Z", NULL);
	check("_", NULL);
	check("_Zzzzzz", NULL);

	// A name that would print as 2^60 characters by substitutions must end soon, with or without an answer.
	char bomb[2048] = "_Z1fIJ";
	size_t n = strlen(bomb);
	n += (size_t)sprintf(bomb + n, "St4pairIiiE");
	for (int i = 0; i < 40; i++)
		n += (size_t)sprintf(bomb + n, "St4pairIS%.1s_S%.1s_E", &"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i % 36], &"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i % 36]);
	sprintf(bomb + n, "EEvv");
	double before = seconds();
	char *got = symbol_demangle(bomb);
	ok(seconds() - before < 1 && (got == NULL || strlen(got) <= 64 * 1024), "substitutions of substitutions end soon (%zu characters)",
	   got != NULL ? strlen(got) : 0);
	free(got);

	// Deep nesting, within and beyond the limits.
	for (size_t depth = 500; depth <= 16000; depth *= 2) {
		char *deep = malloc(depth + 32);
		strcpy(deep, "_Z1f");
		memset(deep + 4, 'P', depth);
		strcpy(deep + 4 + depth, "i");
		got = symbol_demangle(deep);
		ok(true, "%zu pointers: %s", depth, got != NULL ? "demangled" : "left as it is");
		free(got);
		free(deep);
	}
	// A long but honest name: longer than libiberty takes with its own limit.
	char honest[4096] = "_Z1f";
	n = strlen(honest);
	for (int i = 0; i < 200; i++)
		n += (size_t)sprintf(honest + n, "9class_%03d", i);
	got = symbol_demangle(honest);
	ok(got != NULL && strncmp(got, "f(class_000, class_001", 22) == 0, "a name of %zu bytes", strlen(honest));
	free(got);
	return tap_done();
}
