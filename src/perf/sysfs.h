// PMUs as sysfs describes them: Documentation/ABI/testing/sysfs-bus-event_source-devices-* of the kernel sources; and where tracefs is.
#ifndef PERFSAMPLE_PERF_SYSFS_H
#define PERFSAMPLE_PERF_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "perf/event_spec.h"

// Reads the first line of DEVICES/PMU/FILE, without its newline; false (errno) when it cannot be read.
bool sysfs_line(const struct event_host *host, const char *pmu, const char *file, char *line, size_t size);
// The number in `type`.
bool sysfs_pmu_type(const struct event_host *host, const char *pmu, uint32_t *type);
// Calls `each` for the entries of DEVICES/PMU/SUB ("" : DEVICES itself), in the order of their names.
void sysfs_each(const struct event_host *host, const char *pmu, const char *sub, void (*each)(const char *name, void *context), void *context);
// "0-3,8" of DEVICES/PMU/FILE; the caller frees. false: no such file, or not a list.
bool sysfs_cpus(const struct event_host *host, const char *pmu, const char *file, uint32_t **cpus, size_t *count);
// The core PMUs of a hybrid host (those with `cpus`), into spec->pmus; none elsewhere.
void sysfs_core_pmus(const struct event_host *host, struct event_spec *spec);
// Whether the host has a core PMU at all.
bool sysfs_has_core_pmu(const struct event_host *host);

// The mount point of tracefs (or DEBUGFS/tracing); false with STATUS_HOST: not mounted, and how to mount it.
bool tracefs_path(const struct event_host *host, char *path, size_t size, struct err *err);

// The number in a one-line file (/proc/sys/kernel/perf_event_paranoid and the like); `missing` when there is none.
long kernel_number(const char *path, long missing);
// Whether the first CPU says that it is a virtual one ("hypervisor" among its flags).
bool host_is_virtual(void);

#endif
