// The records of the perf ABI, decoded: include/uapi/linux/perf_event.h (6.18), perf_event_open(2), and, for types from 64 up,
// tools/lib/perf/include/perf/event.h. One decoder serves rings and files.
//
// A decoded record borrows from the bytes it was made of and is valid as long as they are. Types not known here are
// RECORD_UNKNOWN and are skipped by their size.
#ifndef PERFSAMPLE_PERF_RECORD_H
#define PERFSAMPLE_PERF_RECORD_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "elf/image.h" // struct build_id

// How records of one event are laid out; made once from its attr.
struct record_layout {
	uint64_t sample_type, read_format, branch_sample_type, regs_user, regs_intr;
	bool sample_id_all;
	bool swap; // the bytes are of the other byte order; they are swapped in place while decoding
	// Worked out by record_layout_init; offsets are 0 where the field is absent.
	uint16_t sample_id_at, sample_time_at;       // from the start of a SAMPLE
	uint16_t trailer_bytes;                      // of the sample_id at the end of all other records
	uint16_t trailer_id_back, trailer_time_back; // from the end of the record
	uint8_t user_regs_count, interrupted_regs_count;
	uint64_t sample_has;                         // sample_id.has of a SAMPLE
	bool is_plain;                               // a SAMPLE in host order has nothing but words, a call chain and raw data
	uint16_t front_bytes;                        // of a plain SAMPLE: header and words
	uint8_t front[9];                            // of a plain SAMPLE: where the words stand, by enum plain_word
};

void record_layout_init(struct record_layout *layout, const struct perf_event_attr *attr, bool swap);

// Header types of perf's tools that the kernel never writes.
enum {
	RECORD_USER_HEADER_ATTR = 64, RECORD_USER_EVENT_TYPE = 65, RECORD_USER_TRACING_DATA = 66, RECORD_USER_BUILD_ID = 67,
	RECORD_USER_FINISHED_ROUND = 68, RECORD_USER_ID_INDEX = 69, RECORD_USER_AUXTRACE_INFO = 70, RECORD_USER_AUXTRACE = 71,
	RECORD_USER_AUXTRACE_ERROR = 72, RECORD_USER_THREAD_MAP = 73, RECORD_USER_CPU_MAP = 74, RECORD_USER_STAT_CONFIG = 75,
	RECORD_USER_STAT = 76, RECORD_USER_STAT_ROUND = 77, RECORD_USER_EVENT_UPDATE = 78, RECORD_USER_TIME_CONV = 79,
	RECORD_USER_HEADER_FEATURE = 80, RECORD_USER_COMPRESSED = 81, RECORD_USER_FINISHED_INIT = 82, RECORD_USER_COMPRESSED2 = 83,
};

// Header types newer than Debian 12's linux/perf_event.h.
enum { RECORD_KERNEL_CALLCHAIN_DEFERRED = 22, RECORD_KERNEL_LAST = 22 };
// PERF_CONTEXT_USER_DEFERRED, newer as well: the word behind it is no address but a cookie. The user part of the chain stands in the thread's next
// CALLCHAIN_DEFERRED record with that cookie, which the kernel writes when the thread returns to user space.
#define CONTEXT_USER_DEFERRED ((uint64_t)-640)

struct sample_id { // sample_id_all's trailer, or the same fields of a sample
	uint64_t id, stream_id, time_ns; // time 0 and the others -1 when absent (see `has`)
	int32_t pid, tid;
	uint32_t cpu;
	uint64_t has; // PERF_SAMPLE_* bits of what was there (ID also stands for IDENTIFIER)
};

struct read_value {
	uint64_t value, id, lost;
};

// PERF_FORMAT_*; values are decoded by read_values_get, as they may stand in a wrapped or swapped record.
struct read_values {
	uint64_t count; // 1 without PERF_FORMAT_GROUP
	uint64_t time_enabled, time_running;
	bool has_times, has_id, has_lost;
	uint8_t gap;           // words between a value and its id or lost count: without GROUP the times stand there
	const uint64_t *words; // values follow one another, 1 to 3 words each
};
struct read_value read_values_get(const struct read_values *values, size_t index);

struct record_mapping { // MMAP and MMAP2
	uint32_t pid, tid;
	uint64_t start, length, pgoff;
	uint32_t major, minor, protection, flags; // protection: PROT_*; for MMAP: PROT_EXEC unless MISC_MMAP_DATA
	uint64_t inode, inode_generation;
	struct build_id build_id; // size 0 unless MISC_MMAP_BUILD_ID
	const char *path;
};
struct record_comm { uint32_t pid, tid; const char *comm; bool is_exec; };
struct record_task { uint32_t pid, ppid, tid, ptid; uint64_t time_ns; }; // FORK and EXIT
struct record_lost { uint64_t id, lost; };                               // LOST; LOST_SAMPLES has id 0
struct record_throttle { uint64_t time_ns, id, stream_id; };             // THROTTLE and UNTHROTTLE
struct record_read { uint32_t pid, tid; struct read_values values; };
struct record_switch { bool is_out, is_preempt; uint32_t other_pid, other_tid; }; // SWITCH, SWITCH_CPU_WIDE
struct record_ksymbol { uint64_t addr; uint32_t length; uint16_t type, flags; const char *name; };
struct record_cgroup { uint64_t id; const char *path; };
struct record_deferred { uint64_t cookie; const uint64_t *callchain; /* as a sample's */ uint64_t callchain_count; };
struct record_aux { uint64_t offset, size, flags; };

struct record_registers { // PERF_SAMPLE_REGS_USER and _INTR
	uint64_t abi;          // PERF_SAMPLE_REGS_ABI_*; NONE: no registers
	uint64_t mask;         // bits of asm/perf_regs.h
	const uint64_t *words; // one per set bit, from the lowest
};

struct record_stack { // PERF_SAMPLE_STACK_USER
	const uint8_t *bytes;
	uint64_t size;     // reserved in the record
	uint64_t dyn_size; // valid; never above size here (an absent dyn_size, of old kernels, counts as size)
};

struct record_sample {
	uint64_t ip, addr, period, weight, data_source, transaction, phys_addr, cgroup, data_page_size, code_page_size, aux_size;
	struct read_values read;      // count 0 unless PERF_SAMPLE_READ
	const uint64_t *callchain;    // with PERF_CONTEXT_* markers, leaf first
	uint64_t callchain_count;
	const uint8_t *raw;
	uint32_t raw_size;
	const struct perf_branch_entry *branches;
	uint64_t branch_count;
	struct record_registers user, interrupted;
	struct record_stack stack;
};

struct record {
	uint32_t type; // PERF_RECORD_* or RECORD_USER_*
	uint16_t misc;
	uint16_t size;
	const struct perf_event_header *header; // the whole record, host byte order after decoding
	struct sample_id id;                    // of samples too
	union {
		struct record_mapping mapping;
		struct record_comm comm;
		struct record_task task;
		struct record_lost lost;
		struct record_throttle throttle;
		struct record_read read;
		struct record_switch switching;
		struct record_ksymbol ksymbol;
		struct record_cgroup cgroup;
		struct record_aux aux;
		struct record_deferred deferred;
		struct record_sample sample;
	};
};

// Decodes the record at `bytes` (8-byte aligned, writable when layout->swap; the header itself is in host order already),
// `size` = header->size. User types (64 and up) get type, misc and size only; perfdata/ reads their bodies.
// STATUS_INPUT says what did not fit, without a file name or offset: the caller knows those. With layout->swap a record may be
// decoded only once, as it is in host order afterwards.
bool record_decode(const struct record_layout *layout, void *bytes, size_t size, struct record *out, struct err *err);

// Where in a record the fields that tell its event apart stand, without decoding it: the id of a sample (SAMPLE_IDENTIFIER or
// SAMPLE_ID) or of a sample_id_all trailer. false: the layout has none, or the record is too short. The record is as it came
// (with layout->swap: not yet decoded, header in host order).
bool record_peek_id(const struct record_layout *layout, const struct perf_event_header *header, uint64_t *id);
// The same of a record in memory that another process may write to: `header` is a copy, whose size was checked, and what stands at `record` by now is not believed.
bool record_peek_id_of(const struct record_layout *layout, const struct perf_event_header *header, const void *record, uint64_t *id);
// The time of a sample or trailer, likewise; rings are merged by it.
bool record_peek_time(const struct record_layout *layout, const struct perf_event_header *header, uint64_t *time_ns);

// It tells a moment. One without describes how things were when the recorder looked, or sums up the recording: perf record --off-cpu puts such samples at
// the file's end, with times from ~0 << 32 on that stand for "last" (OFF_CPU_TIMESTAMP in tools/perf/util/off_cpu.h). No clock gets there: it is 584 years.
static inline bool record_is_moment(uint64_t time_ns)
{
	return time_ns != 0 && time_ns < 0xffffffff00000000u;
}

// The user part of the chain comes later. The kernel writes the marker and the cookie last (get_perf_callchain() in kernel/events/callchain.c).
static inline bool callchain_is_deferred(const uint64_t *callchain, uint64_t count)
{
	return count >= 2 && callchain[count - 2] == CONTEXT_USER_DEFERRED;
}

static inline bool record_has_time(const struct record *record)
{
	return (record->id.has & PERF_SAMPLE_TIME) != 0 && record_is_moment(record->id.time_ns);
}

const char *record_type_name(uint32_t type); // "MMAP2", "FINISHED_ROUND"; "UNKNOWN" otherwise

#endif
