// The state that the parts of load/ share while one recording is loaded. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_LOADER_H
#define PERFSAMPLE_LOAD_LOADER_H

#include "base/arena.h"
#include "load/account.h"
#include "load/ahead.h"
#include "load/archives.h"
#include "load/deferred.h"
#include "load/images.h"
#include "load/jit.h"
#include "load/load.h"
#include "load/queue.h"
#include "load/raw.h"
#include "load/seen.h"
#include "perfdata/note.h"
#include "perfdata/reader.h"
#include "proc/space.h"
#include "profile/profile.h"
#include "symbols/damage.h"
#include "symbols/symbolizer.h"
#include "unwind/libunwind_backend.h"

// A stack that the kernel made by frame pointers, without a note of ours: whether it reached its root is told by its names, so
// samples carry this until those are known.
enum { END_BY_NAME = 0xfe };
enum { CHAIN_MOST = 8192 + UNWIND_MAX_FRAMES };

// Beside enum frame_kind: no frame, but where some were left out. Never first, and never beside another.
enum { CHAIN_GAP = 15 };
struct chain_frame { uint64_t addr; uint8_t kind, via; bool is_kernel; };
struct chain { // leaf first
	struct chain_frame *frames; // CHAIN_MOST of them
	size_t count, kernel_count; // the kernel's part comes first
};

struct cached_frame { uint64_t addr; uint32_t generation, frame; uint8_t kind, via; bool is_kernel, is_used; };
enum { FRAME_CACHE_SLOTS = 32768 };

// The stack that a thread had at its sample before, root first. What is the same below a common caller needs no look-up.
struct recent_stack {
	int32_t tid;
	uint32_t generation, kernel_generation;
	bool is_foreign;
	VEC(struct chain_frame) frames;
	VEC(uint32_t) nodes;
};
enum { RECENT_STACKS = 64 };

struct loader {
	const struct load_options *options;
	struct profile *profile;
	struct reader *reader;
	struct spaces *spaces;
	uint64_t sideband_bytes; // of records, samples of the plain kind not among them: what address spaces may take goes with it
	struct queue queue;
	struct deferred deferred;
	struct account account;
	struct images images;
	struct archives archives;
	struct damages damages;  // files that contradict themselves, each told of once
	struct seen seen;
	uint32_t light_forgotten; // how often, and once at the start
	struct raw raw;
	struct libunwind *libunwind; // NULL: not wanted
	struct jit jit;
	struct chain chain;
	VEC(uint32_t) events;    // reader's event -> profile's; PROFILE_NONE: a side-band event
	VEC(uint32_t) comms;     // name in `spaces` -> profile name + 1; 0: not asked yet
	VEC(uint32_t) dsos;      // dso in `spaces` -> profile dso + 1
	VEC(uint32_t) dso_of;    // profile dso -> dso in `spaces`; DSO_NONE: made here
	VEC(uint8_t) by_return;  // per profile frame: in a call chain without a note, as a return address of user space
	struct hash_map build_ids; // hash of a path -> index into the features' build IDs + 1
	size_t build_ids_seen;
	struct cached_frame *frame_cache;
	struct recent_stack recent[RECENT_STACKS]; // by tid
	uint64_t first_ns, last_ns; // of records that have a time; the first of those that begin a recording
	uint64_t first_before_ns;   // of the others
	uint32_t probe_dso;         // of PROFILE_PROBE_NAME; likewise
	uint32_t gap_dso;           // of PROFILE_GAP_NAME; PROFILE_NONE: not yet
	uint32_t kernel_dso;        // made for kernel addresses in no mapping; PROFILE_NONE: not yet
	bool has_chains, has_samples, has_foreign_chains;
	bool has_unwound;           // raw stacks
};

// Profile's event of the reader's, made at first sight; PROFILE_NONE: side-band, unless `for_sample`.
uint32_t loader_event(struct loader *loader, size_t event, bool for_sample);
uint32_t loader_dso(struct loader *loader, uint32_t dso);
// Machine of registers of that ABI (PERF_SAMPLE_REGS_ABI_…): the recording's, or its 32-bit brother's; and of an image's code, where that is not the
// recording's.
uint16_t loader_machine(const struct loader *loader, uint64_t abi);
uint16_t loader_dso_machine(const struct loader *loader, const struct dso *dso);
uint32_t loader_comm(struct loader *loader, const struct thread *thread);
uint32_t loader_process_name(struct loader *loader, int32_t pid); // as its main thread is called now; 0: not known
uint64_t loader_weight(uint64_t period, const struct perf_event_attr *attr, const struct profile_event *event);
// To the sink, if there is one: a sample whose user part is loader->chain's, `as_stack` where the file's copy of the stack gives way to it.
void loader_hand_on(struct loader *loader, const struct queued *queued, const struct profile_sample *sample, bool as_stack);
void loader_caveat(struct loader *loader, const char *format, ...) __attribute__((format(printf, 2, 3)));

// chain.c: from a sample's records to frames, and from frames to a stack in the profile.
void chain_from_sample(struct chain *chain, const struct record *record, const struct perf_event_attr *attr, struct profile_sample *sample);
uint32_t chain_intern(struct loader *loader, int32_t tid, const struct chain *chain, const struct maps *maps, const struct maps *kernel,
                      bool is_foreign);

// light.c: samples that are nothing but a call chain, in the order of time.
void light_take(struct loader *loader, const struct queue_item *items, size_t count);
// Processes or mappings have changed.
void light_forget(struct loader *loader);

// names.c, signal.c, finish.c: what is done once all records were seen.
void load_symbols(struct loader *loader);
// Threads to read with, and to read debug information with: as many as were asked for, or the processors there are.
unsigned load_jobs(const struct load_options *options);
void load_signal_frames(struct loader *loader);
void load_ends_by_name(struct loader *loader);
void load_meta(struct loader *loader);

#endif
