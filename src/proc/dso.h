// What is mapped: files, the vdso, the kernel, anonymous code. One row per identity, named by a small number that the
// recorder and the loader use as index into tables of their own (open images, symbolizer images). No file access here.
#ifndef PERFSAMPLE_PROC_DSO_H
#define PERFSAMPLE_PROC_DSO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/vec.h"
#include "elf/image.h"

enum dso_kind {
	DSO_FILE,
	DSO_VDSO,   // "[vdso]"
	DSO_KERNEL, // "[kernel.kallsyms]…", "[guest.kernel…"
	DSO_MODULE, // "[name]" or a .ko path, mapped by pid -1
	DSO_ANON,   // "//anon", "[heap]", "[stack]", "[anon:…]", /memfd:, /dev/zero, SYSV…: may hold JIT code
	DSO_SPECIAL, // "[vsyscall]", "[uprobes]"
};

struct dso {
	const char *path; // lives as long as the table; " (deleted)" cut off, `deleted` set
	enum dso_kind kind;
	bool deleted;
	struct build_id build_id;
	uint32_t major, minor;
	uint64_t inode, inode_generation;
	uint32_t pid; // DSO_ANON and DSO_VDSO: whose; else 0
	uint64_t since_ns; // DSO_ANON: of which program of that process (process.program_ns); else 0
};

enum { DSO_NONE = 0xffffffff };

struct dso_table {
	struct arena arena;
	VEC(struct dso) rows;
	VEC(uint32_t) next; // of each row, another one of the same name and kind; DSO_NONE: last
	struct hash_map by_identity; // hash of name, kind and pid to the first row; of these with inode or build ID to that row
};

void dso_table_release(struct dso_table *table);
// The row of that identity, made if new. Two files are the same when path, build ID (where both have one) and device, inode
// and generation (where both have them) are the same.
uint32_t dso_intern(struct dso_table *table, const struct dso *key);
const struct dso *dso_get(const struct dso_table *table, uint32_t id); // valid until the next dso_intern
// Gives a row that had none its build ID (read when the file was opened, or from a BUILD_ID record).
void dso_set_build_id(struct dso_table *table, uint32_t id, const struct build_id *build_id);
enum dso_kind dso_kind_of(const char *path, bool is_kernel);
// File name without its folders; "[kernel]" for DSO_KERNEL.
const char *dso_short_name(const struct dso *dso);
// Whether it is what stands for JIT code: a jitdump file (jit-PID.dump), or an image that perf inject --jit made of one (jitted-PID-INDEX.so).
bool dso_is_jitdump(const struct dso *dso);

#endif
