// A profile in memory: columns of samples, tables linked by 32-bit ids, stacks as a trie of (parent, frame).
#ifndef PERFSAMPLE_PROFILE_PROFILE_H
#define PERFSAMPLE_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/intern.h"
#include "base/vec.h"
#include "elf/image.h"
#include "profile/samples.h"
#include "unwind/unwind.h"

enum { PROFILE_NONE = 0xffffffff };

// The one function, in a DSO_SPECIAL of the same name, of the frame that stands where frames were left out of a deep stack.
#define PROFILE_GAP_NAME "[frames left out]"
#define PROFILE_PROBE_NAME "[return address replaced by a probe]" // a caller, or more than one, that nothing tells of

struct profile_dso {
	uint32_t path, short_name; // intern ids
	uint8_t kind;              // enum dso_kind
	struct build_id build_id;
	uint32_t pid;              // whose anonymous code or vdso it is; else 0
	uint64_t since_ns;         // of anonymous code: since when that process ran this program (struct dso); else 0
	// Not part of the identity: of anonymous code, what the process is called (as its main thread) and the names of files that it had mapped, one a line, when
	// the code was first met; intern ids, 0: not known. And with what its addresses were resolved.
	uint32_t process, mapped;
	uint8_t missing;           // enum symbol_missing: why those without a name have none
	uint32_t file, debug_file; // intern ids of the files used; 0: none
	uint32_t damage;           // intern id: what is wrong with one of its files, "FILE: offset …, expected …"; 0: nothing found
};

struct profile;

// One function (or line) of a symbolized address. Rows are distinct by all members.
struct profile_function {
	uint32_t name, linkage_name, dso; // name: intern id; unknown: "[unknown]"
	bool is_known;    // which function it is; so its samples are a row, a place of their own
	bool is_nameless; // known by its bounds alone: `name` is file and start, "liblzma.so.5+0x1a2f0", the start as `objdump -d` shows it
	uint64_t start;   // image address where it starts, of those that are told apart by it: local to a source file, or nameless; else 0
	// Not part of the identity, and only with `start`:
	uint64_t vaddr, size; // of the start; size: nameless
	uint32_t source, unit; // the source file it is local to, as far as known without debug information: an intern id, and its number in the image; 0: unknown
	// Not part of the identity: of a function that stands beside others of its name in the file, the name without what tells it apart ("init" of "init (a.c)"), and
	// that ("a.c", or its start, "0x1139"); intern ids. 0: there are no others.
	uint32_t plain_name, told_by;
	// Not part of the identity: other functions whose code is this one's, by name, one a line, where some samples' callers do not tell which
	// of them was called and this name was chosen by a rule; intern id, 0: none.
	uint32_t aliases;
};

// Whether it has a name, and not just bounds.
static inline bool profile_function_is_named(const struct profile_function *function)
{
	return function->is_known && !function->is_nameless;
}

// Whether somebody who writes `text` means it: its name as shown, that without what tells it apart, its linkage name.
bool profile_function_is_called(const struct profile *profile, const struct profile_function *function, const char *text);
// Whether it goes by an address, which says which function it is in one build of the file alone.
bool profile_function_is_by_address(const struct profile *profile, const struct profile_function *function);

struct profile_line { uint32_t function, file /* intern id, 0 none */, line; bool is_inlined; };

// A distinct frame: image address and how it is looked up, with its inline chain (innermost first) in profile->lines.
struct profile_frame {
	uint64_t addr;        // run time, of the first sample that had it
	uint64_t image_addr;  // lookup address in the image, see symbols/symbolizer.h
	uint32_t dso;         // PROFILE_NONE: no mapping
	uint32_t first_line, line_count; // into profile->chains; at least 1 after symbolization
	uint64_t symbol_start; // image address, for symoff
	uint8_t kind;         // enum frame_kind
	uint8_t via;          // enum frame_via
	bool is_kernel;
};

struct profile_node { uint32_t parent /* PROFILE_NONE: root */, frame, depth; /* 0: root */ };

// One stretch of accounting per event and ring: cumulative counters as the recorder read them.
struct profile_reading { uint64_t time_ns, value, enabled, running, lost; uint32_t cpu, event; };
struct profile_loss { uint64_t from_ns, to_ns, count; uint32_t cpu, event; bool is_sideband; }; // from LOST records or readings
struct profile_restart { uint64_t time_ns; uint32_t cpu, event; }; // the event's clock was started anew there, at a moment of the recorder's choice
struct profile_throttle { uint64_t from_ns, to_ns; uint32_t cpu, event; };

struct profile_event {
	uint32_t name;              // intern id
	uint32_t parts;             // of an event on several core PMUs (core_events.h): the names that it has in the file, one a line; intern id, 0: it is one
	bool is_clock;              // weights are ns of CPU time
	bool is_freq;               // sampled by frequency: periods vary
	bool counts_by_weight;      // a row of `samples` stands for as many samples as its weight: stacks that were counted elsewhere, without times
	bool lacks_periods;         // what some of its samples stand for is not known (text of other tools): all count alike
	uint64_t period;            // fixed period (ns for clocks), or the frequency's nominal one
	uint64_t frequency;
	bool excludes_user, excludes_kernel, excludes_idle;
	bool is_sampling;           // false: counts only (group member); then samples_of
	uint32_t samples_of;
	bool counts_cpus;           // whole CPUs, of which only the target's samples were kept: its running time is not the target's
	bool is_accounted;          // READ records of ours: lost, expected and silent can be told
	bool lost_counts_reads;     // attr.inherit_stat: `lost` has the kernel's READ records of tasks that ended among it, if they found no room
	uint64_t time_running_ns, time_enabled_ns, value, lost;
	uint64_t cut_ns;            // of time_running_ns, what restarts of the clock cut off: no sample stands for it
	uint64_t enabled_most_ns;   // the longest of its times enabled on one CPU: an event of a task is enabled on all of them while the task runs on one
	uint64_t dropped, shortened, sideband_lost, idle, others, recorder_cpu_ns;
	uint64_t idle_unsampled;    // ticks of idle CPUs that never came as samples (our recordings of whole CPUs): idle, not silent
	uint64_t accounted_ns;      // what sampling took from the program by the recorder's books (record --cost); 0: not reckoned
	uint64_t expected;          // round of value or running / period, summed over CPUs and stretches (each its own period); valid when can_expect
	uint64_t begun;             // of those, periods that were not over at the end of their CPU's (or task's) stretch
	uint64_t uncounted;         // samples behind the last reading on their CPU, where a recording was cut off: how many are missing beside them nobody knows. Taken
	                            // for all that were due: part of `expected` and, of a clock, of time_running_ns
	bool can_expect;
	uint64_t attr_type, attr_config;
	uint64_t comb_periods[2];   // of two combs pooled into this event; else 0
};

struct profile_meta { // intern ids; 0 unknown
	uint32_t host, kernel, tool, target_kind, target_comm, cpu_desc, arch, scope;
	VEC(uint32_t) argv;
	VEC(int32_t) target_ids;
	uint32_t processes_seen; // that the recording tells of, sampled or not; 0: it does not
	uint32_t target_threads, cpus_online, stack_bytes; // stack_bytes: copied of each stack; 0: unknown
	uint64_t start_wall_ns, start_ns, end_ns; // wall clock of start_ns; first and last moment of recording, recording's clock
	bool cut_off;
	VEC(uint32_t) decisions; // sentences of the recorder: what was got and what was not
	VEC(uint32_t) bearing;   // those of them that figures are to be read with,
	VEC(uint32_t) careful;   // and those with which they are not what was asked for
	VEC(uint32_t) caveats;   // sentences of the loader
	uint32_t silent_reason;  // what accounts for silence, as the recorder found; the empty text (told_silence): nothing does
	bool told_silence;
	uint32_t unknown_loss;   // the one of them that says that what was lost is not known: text of other tools; 0: none
};

struct profile {
	struct intern names;
	VEC(struct profile_dso) dsos;
	VEC(struct profile_function) functions;
	VEC(struct profile_line) chains;
	VEC(struct profile_frame) frames;
	VEC(struct profile_node) nodes;
	struct samples samples;
	VEC(struct profile_event) events;
	VEC(struct profile_reading) readings;
	VEC(struct profile_loss) losses;
	VEC(struct profile_throttle) throttles;
	VEC(struct profile_restart) restarts; // in the order of time, on each CPU
	struct profile_meta meta;
	struct hash_map function_index, frame_index, node_index, dso_index; // internal
};

void profile_init(struct profile *profile);
void profile_release(struct profile *profile);
uint32_t profile_add_dso(struct profile *profile, const struct profile_dso *dso);
uint32_t profile_add_function(struct profile *profile, const struct profile_function *function);
uint32_t profile_add_frame(struct profile *profile, const struct profile_frame *frame); // by (dso, image_addr, kind, via, addr if no dso)
uint32_t profile_add_node(struct profile *profile, uint32_t parent, uint32_t frame);
const char *profile_text(const struct profile *profile, uint32_t intern_id);
// How many samples a row stands for.
static inline uint64_t profile_sample_count(const struct profile *profile, const struct profile_sample *sample)
{
	return sample->event < profile->events.count && profile->events.data[sample->event].counts_by_weight ? sample->weight : 1;
}

// Walks a sample's stack root first, every inline frame a step of its own when `inlines` (outer function before what is inlined into it).
struct stack_step { uint32_t frame, line; }; // line: index into chains
// Fills at most `capacity` steps, returns how many there are.
size_t profile_stack(const struct profile *profile, uint32_t stack, bool inlines, struct stack_step *steps, size_t capacity);

#endif
