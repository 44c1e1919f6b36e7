// Packages with debug information: none is named that apt does not offer, and those it offers are found.
#include "cmd/packages.h"
#include "tests/compile.h"

static bool apt_has(const char *package)
{
	return shell("LC_ALL=C apt-cache policy '%s' 2>/dev/null | grep -q 'Candidate: [^(]'", package);
}

int main(void)
{
	static const char *const paths[] = { "/usr/bin/bash", "/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/bin/python3",
		"/usr/bin/node", "/bin/cat" };
	struct packages packages = { 0 };
	const char *debug;
	scratch_make();
	if (!shell("command -v dpkg >/dev/null && command -v apt-cache >/dev/null")) {
		skip("no dpkg or no apt", "packages with debug information");
		return tap_done();
	}
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		packages_add(&packages, paths[i]);
	packages_add(&packages, paths[0]);
	packages_add(&packages, "/nonexistent/file");
	packages_ask(&packages);
	ok(packages_of(&packages, "/nonexistent/file", &debug) == NULL && debug == NULL, "a file of no package");
	ok(packages.all.count <= sizeof(paths) / sizeof(paths[0]), "a file is asked for once");
	for (size_t i = 0; i < packages.all.count; i++) {
		const char *name = packages_of(&packages, packages.all.data[i].path, &debug);
		char sym[300], dbg[300];
		snprintf(sym, sizeof(sym), "%s-dbgsym", name);
		snprintf(dbg, sizeof(dbg), "%s-dbg", name);
		ok(shell("p='%s'; dpkg -S \"$p\" \"${p#/usr}\" \"$(realpath \"$p\")\" 2>/dev/null | grep -q '^%s[:,]'", packages.all.data[i].path, name), "%s is of %s",
		   packages.all.data[i].path, name);
		if (debug != NULL)
			ok(apt_has(debug), "apt has %s", debug);
		else
			ok(!apt_has(sym) && !apt_has(dbg), "apt has neither %s nor %s", sym, dbg);
	}
	packages_release(&packages);
	return tap_done();
}
