// Recordings of many hosts, or of many runs, taken together (statistics, section 9): each is a stratum, its CPU time the weight. Takes one digest at a
// time and keeps a few bytes a function of it, so that a thousand files stream through.
#ifndef PERFSAMPLE_REPORT_HOSTS_H
#define PERFSAMPLE_REPORT_HOSTS_H

#include "base/hash.h"
#include "base/intern.h"
#include "report/digest.h"
#include "report/estimate.h"

enum { HOSTS_FEW = 5 };

struct hosts_options {
	double confidence;
	bool these_only;     // the hosts are all there are: no between-host variance
	bool runs;           // runs of one command, not hosts
};

struct hosts_one { const char *name, *path; double n, weight, lost_share, seconds; };
struct hosts_cell { uint32_t host; double k, deff; };

struct hosts_function { const char *name, *dso; VEC(struct hosts_cell) cells; };

struct hosts_row {
	const char *name, *dso;
	double share;                  // weighted
	struct interval ci, within;    // with what hosts differ by; from sampling alone
	double samples, median, largest; // of the hosts' shares
	const char *largest_host;
	size_t hosts;                  // that have it
	double p, q, i2;               // of heterogeneity; q -1: not tested (fewer than 10 samples, or one host)
	bool is_heterogeneous;         // q < 0.01
};
struct hosts_differing { uint32_t row; const char *host; double share, lo; }; // lo: surely more than this there

struct hosts {
	struct arena arena;
	struct hosts_options options;
	const char *event;
	VEC(struct hosts_one) hosts;
	double weight, n;
	VEC(struct hosts_row) rows;    // by share
	VEC(struct hosts_differing) differing; // functions with more than twice the whole's share on some host
	VEC(const char *) caveats;
	const char *left_out;          // other events of the first recording that has such; NULL: none
	// private
	struct digest first;           // what the others must be like; without rows
	VEC(struct hosts_function) functions;
	struct intern keys;
};

void hosts_init(struct hosts *merge, const struct hosts_options *options);
// `factor`: how many hosts of the fleet this one stands for (1). STATUS_INPUT: unlike the first one, or no CPU time known.
bool hosts_add(struct hosts *merge, const struct digest *digest, double factor, struct err *err);
void hosts_finish(struct hosts *merge); // once, after the last; with at least one host
void hosts_release(struct hosts *merge);

#endif
