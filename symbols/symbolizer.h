// From (image, address) to function, file, line and inline chain. Each distinct address is resolved once and remembered.
//
// Never uses perf, proc or unwind; opens binaries through elf/. Identity is the build ID: a file whose build ID differs from the one
// wanted is not believed.
#ifndef PERFSAMPLE_SYMBOLS_SYMBOLIZER_H
#define PERFSAMPLE_SYMBOLS_SYMBOLIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "elf/image.h"
#include "symbols/bounds.h"

enum symbol_image_kind { SYMBOL_IMAGE_FILE, SYMBOL_IMAGE_VDSO, SYMBOL_IMAGE_KERNEL, SYMBOL_IMAGE_JIT, SYMBOL_IMAGE_JITDUMP };

struct damages; // symbols/damage.h

struct symbol_image { // what the caller knows of an image
	enum symbol_image_kind kind;
	const char *path;         // as the target saw it
	struct build_id build_id; // size 0: unknown
	struct image *image;      // already open (recorded while the process lived), or NULL: searched by build ID and path (a vdso: by build ID alone)
	struct image *debug;      // with `image`: its debug file, where `is_debug_known`; NULL: there is none
	bool is_debug_known;      // else it is looked for
	int map_fd;               // JIT: an open perf-PID.map, JITDUMP: an open jit-PID.dump; passed the rules for untrusted paths; or -1
	const uint64_t *addrs;    // JIT: that will be asked for, ascending; of a map, which may be large, no more is kept. NULL: any
	size_t addr_count;
	const char *map_path;     // JIT: that file's name, to tell damage by; NULL: it may be being written still, and how it ends says nothing
};

enum symbol_missing { // why an address has no name
	SYMBOL_FOUND = 0,
	SYMBOL_NO_FILE,        // no file with this path or build ID
	SYMBOL_WRONG_BUILD_ID, // a file is there, but it is not the one that ran
	SYMBOL_NO_SYMBOLS,     // stripped, and no debug file found
	SYMBOL_NOT_COVERED,    // between symbols
	SYMBOL_NO_KALLSYMS,    // kptr_restrict, or not readable
	SYMBOL_NO_MAP,         // JIT code without perf-PID.map
	SYMBOL_BAD_FILE,       // damaged, or not what it should be
};
const char *symbol_missing_text(enum symbol_missing missing);

struct symbol_frame { // strings live as long as the symbolizer
	const char *name;    // demangled unless options say otherwise; NULL in [0] alone: unresolved
	const char *file;    // NULL: unknown
	uint32_t line;       // 0: unknown
	bool is_inlined;     // into the frame that follows
};

// What is known of a function that is local to a source file (a static function of C or C++), beside its name: another of that name, with another start, may be
// another function.
struct symbol_local {
	uint64_t vaddr;     // of its start, as `objdump -d` shows it
	uint32_t unit;      // the number of the source file in the image; 0: unknown
	const char *source; // its name as the symbol table has it, which may lack folders; NULL: unknown
};

// One of several functions whose code is one (gcc -fipa-icf, ld --icf). Strings live as long as the symbolizer.
struct symbol_alias {
	const char *linkage_name;
	const char *name; // as shown
	const char *key;  // what all names of one function share (symbols/alias.h); one pointer for each text
};

struct symbol_result {
	const struct symbol_frame *frames; // innermost first; the last is the function that has the code
	size_t count;                      // at least 1
	uint64_t symbol_start;             // image address where the function starts: its symbol, or `bounds`
	const char *linkage_name;          // not demangled, as in the symbol table; NULL: unresolved
	enum symbol_missing missing;
	bool has_source;                   // `frames` hold an inline chain or lines from debug information
	bool is_callee_known;              // `callee` was asked for (or preset): it holds, NULL or not
	const struct symbol_bounds *bounds; // of an address without a name: the function that has it, where the file tells so much (elf/extents.h) and no symbol stands
	                                   // in between; else NULL
	const struct symbol_local *local;  // of a function that is local to a source file; else NULL
	const char *module;                // kernel code: the module that has it, without brackets; NULL: the kernel itself
	// Other functions whose code this is as well: the name shown was chosen by a rule, and who called knows better (symbolizer_callee).
	// Names that stand together by convention are not listed: reserved ones (__libc_malloc), weak beside strong ones in C, versions,
	// clones (.localalias), variants of a constructor, large-file names (lseek64), resolvers (IFUNC), what has another size or none.
	const struct symbol_alias *aliases;
	size_t alias_count;
	const struct symbol_alias *callee; // by symbolizer_callee
};

struct symbolizer_options {
	bool demangle;          // default true in the commands
	bool inlines;           // inline chains and lines from DWARF
	bool lines;             // file and line even without inlines
	const char *symfs;      // prefix for every path, or NULL
	const char *const *debug_dirs; // NULL-terminated; NULL: /usr/lib/debug and ~/.debug
	const char *const *more_debug_dirs; // NULL-terminated, asked before those; or NULL
	bool use_host_files;    // false: only what is given (names from inside the recording)
	bool no_lines;          // with inlines: the chains' names alone, which spares reading line tables (folded stacks need no lines)
	bool no_cache;          // keep no decompressed debug sections in the user's cache directory (section_cache.h)
	unsigned jobs;          // threads that read debug information in symbolizer_resolve; 0: one. Results are the same
	const char *kallsyms_path; // instead of /proc/kallsyms, or NULL
	struct debuginfod *debuginfod; // asked for what is not here, for images that symbolizer_image_ask named; the caller's; NULL: no network
	struct damages *damages; // files that are damaged are told of there (damage.h); the caller's; NULL: nowhere
};

struct debuginfod; // symbols/debuginfod.h
struct symbolizer;
struct symbolizer *symbolizer_new(const struct symbolizer_options *options);
void symbolizer_free(struct symbolizer *symbolizer);
// The same description gives the same id. Opens nothing yet.
uint32_t symbolizer_image(struct symbolizer *symbolizer, const struct symbol_image *image);
// A name known from inside a recording: goes before every provider. Frames are copied. symbol_start as in the result. Of aliases
// and callee, linkage names are enough.
void symbolizer_preset(struct symbolizer *symbolizer, uint32_t image, uint64_t image_addr, const struct symbol_result *known);
// The bounds of a function without a name, known from inside a recording: they count where there is no name.
void symbolizer_preset_bounds(struct symbolizer *symbolizer, uint32_t image, const struct symbol_bounds *bounds);
// Whether a name is known without a lookup, and its lines with it; and what was known without them is looked up anew when next asked for.
bool symbolizer_knows_source(struct symbolizer *symbolizer, uint32_t image, uint64_t image_addr);
void symbolizer_forget_sourceless(struct symbolizer *symbolizer, uint32_t image, uint64_t image_addr);
// `image_addr`: for files and the vdso the offset in the file (run-time address - mapping start + mapping pgoff), which needs no
// bias; for code in a jitdump likewise the offset in the dump; for the kernel and other JIT code the run-time address. The lookup address: return addresses are reduced by the caller.
const struct symbol_result *symbolizer_lookup(struct symbolizer *symbolizer, uint32_t image, uint64_t image_addr);
// What the call that returns to `image_addr` + 1 calls, as the source names it (the DWARF call site's origin), aliases aside; NULL: unknown,
// or a call through a pointer. Only worth asking for the caller of a function that has aliases: reads the calling unit's DIEs.
const struct symbol_alias *symbolizer_callee(struct symbolizer *symbolizer, uint32_t image, uint64_t image_addr);
// The key of a name (struct symbol_alias).
const char *symbolizer_key(struct symbolizer *symbolizer, const char *linkage_name);
// Which of a result's functions a call meant: 0 the one shown, i > 0 aliases[i - 1], -1 none of them (a tail call was between) or unknown.
int symbol_alias_find(struct symbolizer *symbolizer, const struct symbol_result *result, const struct symbol_alias *callee);
// Many at once, sorted inside so that each compile unit is read once; afterwards lookups answer from memory. `results`: of each query, what
// symbolizer_lookup says of it; NULL: not wanted. Where they are, lookups of what debug information tells nothing of search for its symbol again.
struct symbol_query { uint32_t image; uint64_t image_addr; };
void symbolizer_resolve(struct symbolizer *symbolizer, const struct symbol_query *queries, size_t count, double time_limit_s,
                        const struct symbol_result **results);
// What was left out of names as they were too long or too many (symbols/limits.h), in words; false: nothing was.
struct buf;
bool symbolizer_left_out(const struct symbolizer *symbolizer, struct buf *out);
// What an image was resolved with, for --missing and caveats: file used, debug file used, build ID (hex) and reason.
// Looks for its files now, without looking up an address.
void symbolizer_image_open(struct symbolizer *symbolizer, uint32_t image);
// The same, for an image that is worth asking debuginfod servers for its files: before anything was looked up in it.
void symbolizer_image_ask(struct symbolizer *symbolizer, uint32_t image);
// `damage`: what is wrong with one of its files, as in damage.h; NULL: nothing found, or options.damages is NULL.
struct symbol_image_status { const char *file, *debug_file; struct build_id build_id; enum symbol_missing missing; const char *damage; };
struct symbol_image_status symbolizer_image_status(struct symbolizer *symbolizer, uint32_t image);

// Demangles C++ (Itanium), Rust and D by libiberty; the caller frees. NULL: not mangled.
char *symbol_demangle(const char *linkage_name);

#endif
