// Address spaces: which image stands at an address of a process, at this point of the record stream.
//
// Fed with records in the order of time; knows no files. Used by the recorder and by the loader alike. Not locked: one
// thread applies records. A `struct maps` is immutable while anyone but its address space holds it (counted by reference,
// copied on change), so a sample that is set aside keeps the maps of its own moment.
#ifndef PERFSAMPLE_PROC_SPACE_H
#define PERFSAMPLE_PROC_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/intern.h"
#include "perf/record.h"
#include "proc/dso.h"

struct mapping { // [start, end), sorted, not overlapping
	uint64_t start, end;
	uint64_t pgoff; // file offset of `start`; for the kernel and modules: see space_apply
	uint32_t dso;
	uint32_t protection : 8; // PROT_*
	uint32_t serial : 24;    // by spaces_renew; else 0
};

struct maps {
	uint32_t references;
	uint32_t generation; // unique to this content within its `struct spaces`: caches keyed by it need no further care
	uint32_t count, capacity;
	struct maps_pool *pool; // internal
	struct mapping items[];
};

const struct mapping *maps_find(const struct maps *maps, uint64_t addr); // NULL: nothing is mapped there
struct maps *maps_retain(struct maps *maps);
void maps_release(struct maps *maps);

struct thread {
	int32_t pid, tid;
	uint32_t comm; // id in spaces->names
	bool exited;
};

struct process {
	int32_t pid, parent_pid;
	struct maps *maps;   // never NULL
	uint32_t comm;       // of the main thread; id in spaces->names
	uint64_t start_ns;   // of the FORK or first record seen; with pid it names the process
	uint64_t program_ns; // of the FORK or exec since which it has this memory; 0: since before the records. With pid it names the program
	bool exited;
	bool has_exec;       // COMM with MISC_COMM_EXEC was seen
	bool maps_known;     // its mappings come from exec, fork of a known one, or /proc: false = first seen by a bare record
	bool is_target;      // for the recorder: in the descent of what is profiled
};

struct spaces;
struct spaces *spaces_new(void);
void spaces_free(struct spaces *spaces);
struct dso_table *spaces_dsos(struct spaces *spaces);
struct intern *spaces_names(struct spaces *spaces);

enum space_change { SPACE_NONE, SPACE_MAPPED, SPACE_FORKED, SPACE_EXECED, SPACE_EXITED };

// Applies MMAP, MMAP2, COMM, FORK, EXIT and KSYMBOL; anything else changes nothing. `synthesized`: the record describes /proc, not a
// moment; then a FORK never overwrites maps that a pid has of its own. Mappings that lack PROT_EXEC are kept
// only as holes (they end what they cover). A DSO_ANON executable mapping that exactly covers or lies inside an earlier
// file mapping's range, with equal page offset semantics lost (text remapped to huge pages), keeps the file: see space.c.
// Kernel and module mappings (pid -1) live in the space of pid -1. Exec clears the maps; a FORK of a thread shares them.
enum space_change spaces_apply(struct spaces *spaces, const struct record *record, bool synthesized);

// From now on a hole of whole huge pages between two mappings of one file that anonymous code fills is the file's text (space.c): for records of a recorder
// that did not look into the memory, as procfs_synthesize does.
void spaces_fill_holes(struct spaces *spaces);

// The mapping that holds `start` was made anew, although record and maps say the same as before: it becomes another one, by its serial.
void spaces_renew(struct spaces *spaces, int32_t pid, uint64_t start);

struct process *spaces_process(struct spaces *spaces, int32_t pid);        // made when unknown
struct process *spaces_find_process(const struct spaces *spaces, int32_t pid); // NULL when unknown
struct thread *spaces_thread(struct spaces *spaces, int32_t pid, int32_t tid);  // made when unknown
const struct mapping *spaces_find(const struct spaces *spaces, int32_t pid, uint64_t addr);
const struct mapping *spaces_find_kernel(const struct spaces *spaces, uint64_t addr);
// For re-reading a pid after side-band loss: forgets its mappings.
void spaces_forget_maps(struct spaces *spaces, int32_t pid);
// For a pid that /proc no longer has although no EXIT was seen (lost, or outside what is recorded): all of it is freed.
void spaces_forget_process(struct spaces *spaces, int32_t pid);
// Exited processes are kept until this is called with a time they died before (bounded state; pids are reused).
void spaces_reap(struct spaces *spaces, uint64_t before_ns);
// Mappings not applied because a process had more than 65,536, or all together more than a GiB (a broken or hostile file).
uint64_t spaces_refused_mappings(const struct spaces *spaces);
void spaces_limit_bytes(struct spaces *spaces, uint64_t bytes); // another limit than a GiB
// Calls `visit` for each process in ascending pid.
void spaces_each_process(struct spaces *spaces, void (*visit)(struct process *process, void *context), void *context);

#endif
