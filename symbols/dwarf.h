// Inline chains and lines from DWARF 2 to 5, read straight from the sections: only the units that own an address asked for, each in one
// pass into tables that are kept. (DWARF Debugging Information Format, version 5; section numbers below are that document's.)
//
// libdw is not used here: it decompresses whole sections when it opens a file, knows no zstd, and looks up no address in units without
// .debug_aranges.
#ifndef PERFSAMPLE_SYMBOLS_DWARF_H
#define PERFSAMPLE_SYMBOLS_DWARF_H

#include "elf/image.h"
#include "symbols/provider.h"

struct dwarf;

struct dwarf_files { // how further files are found; both give a reference or NULL
	struct image *(*alt)(void *context);                                                              // .gnu_debugaltlink
	struct image *(*split)(void *context, const char *comp_dir, const char *name); // a .dwo file; with `name` NULL the .dwp package
	void *context;
	struct damages *damages; // where contradictions are told of (damage.h), or NULL
};

// NULL: the image has no .debug_info. Takes a reference to the image. `with_lines`: whether files and lines are wanted.
struct dwarf *dwarf_new(struct image *image, const struct dwarf_files *files, bool with_lines);
void dwarf_free(struct dwarf *dwarf);
// The inline chain at a link-time address, innermost first; false: no unit has it. Strings live as long as `dwarf`.
bool dwarf_chain(struct dwarf *dwarf, uint64_t vaddr, struct symbol_chain *out);
// Reads what dwarf_chain will need of the units that own these addresses, by up to `jobs` threads, until `deadline_s` (CLOCK_MONOTONIC; 0: none).
// Answers are the same without.
void dwarf_prepare(struct dwarf *dwarf, const uint64_t *vaddrs, size_t count, unsigned jobs, double deadline_s);
// The name of what the call that returns to `vaddr` + 1 calls, as its call site states it; false: none does. Reads the calling function's
// DIEs, and its unit's if they were not read before. Strings live as long as `dwarf`.
bool dwarf_callee(struct dwarf *dwarf, uint64_t vaddr, struct symbol_source *out);

#endif
