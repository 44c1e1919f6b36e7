// A recording reduced to what comparisons and merges need: small, so that those of a thousand hosts fit in memory.
#ifndef PERFSAMPLE_REPORT_DIGEST_H
#define PERFSAMPLE_REPORT_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "profile/profile.h"

enum { DIGEST_BLOCKS = 20 };

struct digest_row {
	const char *name, *dso;   // as builds are matched: digest_base_name, digest_base_dso
	double k, deff;           // on the scale of n
	size_t blocks;            // that deff comes from
	uint64_t visits, visits_outside;
	bool is_known;
	// What matches functions of different builds, where the name is not enough (diff_match.h): NULL where there is nothing to say.
	const char *plain;        // of one that is told apart from others of its name: without that
	const char *build;        // of one that goes by its address: the build ID of the file that has it, "" unknown
	const char *source;       // the source file that a function is local to, without folders
};
// Adds the figures of a row of the same recording that counts as the same function: counts add up, the larger design effect stays.
void digest_join(struct digest_row *into, const struct digest_row *row);
struct digest_inlined { const char *name, *into; double samples; }; // where most samples of an inlined function were

struct digest {
	struct arena arena;
	const char *path, *event, *arch, *kernel, *cpu, *host; // "" where unknown
	bool is_clock, is_freq, excludes_user, excludes_kernel, excludes_idle;
	uint64_t period, frequency;
	double n;                 // samples, or Kish's n
	double amount;            // CPU seconds of a clock, else how often the event was counted (by its samples' periods where no counter says it); 0: not known
	const char *left_out;     // other events of the recording that have samples, as report_left_out says; NULL: none
	double lost, missing;     // missing: what worst cases add, on the scale of n
	double seconds;
	uint64_t start_wall_ns;
	double block_n[DIGEST_BLOCKS]; // samples, or what they weigh
	VEC(struct digest_row) rows; // with k > 0
	VEC(struct digest_inlined) inlined;
};

struct digest_options {
	const char *event;        // NULL: the first with samples
	bool children;            // by total
	double confidence;
};

// `profile`'s function names are rewritten as digest_base_name says. STATUS_USAGE: no such event; STATUS_INPUT: no samples to compare.
bool digest_build(struct digest *digest, struct profile *profile, const char *path, const struct digest_options *options, struct err *err);
void digest_release(struct digest *digest);

// What two builds have in common of a name: without .cold, .part.N, .constprop.N, .isra.N, .lto_priv.N, .llvm.N and ".N" behind them, "[clone …]" and
// symbol versions. At most `size` - 1 bytes; returns its length.
size_t digest_base_name(const char *name, char *out, size_t size);
// "libz.so.1.2.13" -> "libz.so"; others as they are.
size_t digest_base_dso(const char *dso, char *out, size_t size);

// Whether two recordings measure the same: event, period, what is excluded, architecture. STATUS_INPUT names what differs.
bool digest_comparable(const struct digest *a, const struct digest *b, struct err *err);

#endif
