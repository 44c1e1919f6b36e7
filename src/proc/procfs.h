// The only reader of /proc, used by record and check. Everything it reads is another process's and may vanish or change meanwhile.
//
// Processes become synthesized records (COMM, FORK, MMAP2) in the kernel's own layout, so that the recorder applies and writes them
// like any others.
#ifndef PERFSAMPLE_PROC_PROCFS_H
#define PERFSAMPLE_PROC_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "elf/image.h"
#include "proc/dso.h"

struct procfs_ids { VEC(int32_t) ids; };

// All pids; the threads of one pid; pids of a user; direct and indirect children of a pid. false: nothing there (ESRCH) or unreadable.
bool procfs_pids(struct procfs_ids *out, struct err *err);
bool procfs_threads(int32_t pid, struct procfs_ids *out, struct err *err);
bool procfs_pids_of_uid(uid_t uid, struct procfs_ids *out, struct err *err);
// The task whose /proc entry shows the memory of a process: `pid`, or a thread of it where its main thread has ended before the others.
int32_t procfs_task_with_memory(int32_t pid);
bool procfs_descendants(int32_t pid, struct procfs_ids *out);
bool procfs_descendants_of(const int32_t *pids, size_t count, struct procfs_ids *out); // of any of them, themselves excluded

struct procfs_status { int32_t pid, tgid, parent_pid; uid_t euid; char comm[64]; int32_t ns_pid; /* innermost NSpid */ uint32_t threads; bool is_kernel_thread; };
bool procfs_status(int32_t pid, struct procfs_status *out); // false: gone
struct procfs_birth { int32_t parent_pid; uint64_t ticks; }; // whose child it is by now; when it was born
bool procfs_birth(int32_t pid, struct procfs_birth *out);     // false: gone
uint64_t procfs_now_ticks(void);                              // now, in the same clock: clock ticks since the machine's start
bool procfs_switches(int32_t tid, uint64_t *out);            // how often this thread gave its CPU up or lost it; false: gone, or the kernel does not tell
uint64_t procfs_cpu_ns(int32_t pid);                         // utime + stime of the process; 0 when gone
// Pids here whose NSpid list ends in `ns_pid` ("a pid not found here is looked up by NSpid and suggested").
bool procfs_pids_of_ns_pid(int32_t ns_pid, struct procfs_ids *out);

// Appends whole records describing `pid` now: per thread FORK (from its parent) and COMM, then MMAP2 for each executable mapping, each with
// `sample_id_trailer` bytes behind (sample_id_all; the caller's constant: zero time). `with_threads`: every task/, else the leader only.
bool procfs_synthesize(int32_t pid, bool with_threads, const void *sample_id_trailer, size_t trailer_bytes, struct buf *out);
// MMAP records of the kernel and its modules (from /proc/kallsyms' _stext/_text and /proc/modules), pid -1, MISC_KERNEL, as perf writes them.
// Reads only the few lines it needs. false: kptr_restrict (then a mapping from address 0 is still written).
bool procfs_synthesize_kernel(const void *sample_id_trailer, size_t trailer_bytes, struct buf *out);
// The same from files given by name (tests: other kernels' files).
struct procfs_kernel_files { const char *kallsyms, *modules, *iomem; };
bool procfs_synthesize_kernel_from(const struct procfs_kernel_files *files, const void *sample_id_trailer, size_t trailer_bytes,
                                   struct buf *out);

// Opens what a process has mapped, while it lives: map_files/START-END, else exe, else root/PATH, identity checked by inode (device and inode
// of `dso`, when it has them) or build ID, with the rules for untrusted paths; else the ELF header, program headers, notes and eh_frame read
// from /proc/PID/mem for deleted files. STATUS_HOST or STATUS_INPUT when none works.
bool procfs_open_image(struct image **out, int32_t pid, const struct dso *dso, uint64_t start, uint64_t end, uint64_t pgoff, struct err *err);
// Where that failed: whether it is as the file is no ELF image (image_is_other).
bool procfs_maps_other(int32_t pid, const struct dso *dso, uint64_t start, uint64_t end);
// The vdso of a process (all are the same on a host for one ABI) from /proc/PID/mem.
bool procfs_open_vdso(struct image **out, int32_t pid, uint64_t start, uint64_t end, struct err *err);
// Memory of a process that is anonymous, private, and neither written nor executed: where JIT compilers put constants and unwind information. `take` gets
// the bytes of each such mapping of at most 1 MiB, until it has had 4 MiB; false: /proc/PID does not let us.
typedef void procfs_constants_fn(void *context, uint64_t start, const void *bytes, size_t size);
bool procfs_constants(int32_t pid, procfs_constants_fn *take, void *context);
// Its memory, to be read more than once; -1: not to be had. And bytes of it, as many as there are from `addr` on.
int procfs_memory_open(int32_t pid);
size_t procfs_memory_read(int fd, uint64_t addr, void *to, size_t size);
// Bytes of its memory, as many as there are from `addr` on.
size_t procfs_read_memory(int32_t pid, uint64_t addr, void *to, size_t size);
// /tmp/perf-NSPID.map in the target's mount namespace, or the host's: O_NOFOLLOW, regular, owned by the target's euid or root, at most 256 MiB.
// -1 with err "map not trusted: owner" and the like, or without text when there is none.
int procfs_open_perf_map(int32_t pid, struct err *err);
// The same in two steps, for a map that is written as the process ends: where it will be is asked while it lives. root_fd is the caller's then; -1: none.
struct procfs_map_place { int root_fd; int32_t pid, ns_pid; uid_t euid; };
bool procfs_perf_map_place(int32_t pid, struct procfs_map_place *out);
int procfs_open_perf_map_at(const struct procfs_map_place *place, struct err *err);
// A jitdump file that the target has mapped, by its path below the target's root: no link, regular, owned by the target's euid or root, at most 1 GiB.
// -1 with err "jitdump not trusted: owner" and the like, or without text when it is not there.
int procfs_open_jitdump(int32_t pid, const char *path, struct err *err);
// A target's path below its root fd: openat2(RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS), or component by component with O_NOFOLLOW where
// openat2 is not to be had; O_NONBLOCK | O_NOCTTY | O_CLOEXEC, regular files only. -1 with errno.
int procfs_open_below(int root_fd, const char *path);

// End of the stack mapping that holds `sp` ([stack] of the main thread, or the mapping of another thread's stack); 0: unknown.
uint64_t procfs_stack_top(int32_t pid, uint64_t sp);
// "0::/system.slice/…" of a pid: its cgroup2 path, or the perf_event hierarchy's where that is v1; false: none.
bool procfs_cgroup_path(int32_t pid, char *path, size_t size);
// The path in one line of /proc/PID/cgroup if it is of the hierarchy that perf's events follow (see above), inside `line`; else NULL.
const char *procfs_cgroup_line(const char *line, bool *is_v1);
// Numbers of the online CPUs.
bool procfs_online_cpus(uint32_t **cpus, size_t *count, struct err *err); // ascending; the caller frees
bool procfs_cpu_list_parse(const char *text, uint32_t **cpus, size_t *count); // "0-3,7"; false: not such a list
// A number in a one-line file such as /proc/sys/kernel/perf_event_paranoid; `missing` when unreadable.
long procfs_number(const char *path, long missing);

// What these CPUs (numbers, each once) have been idle since boot, together: /proc/stat, to a clock tick (10 ms) each. false: it does not have them all.
bool procfs_idle_ns(const uint32_t *cpus, size_t count, uint64_t *idle_ns);

#endif
