// PERF_TYPE_HW_CACHE: CACHE-OP-RESULT, as in L1-dcache-load-misses. Config: id | op << 8 | result << 16 (perf_event_open(2)).
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "perf/event_spec.h"
#include "perf/sysfs.h"

enum { OP_READ = 1, OP_WRITE = 2, OP_PREFETCH = 4 };

// All spellings, the first one is listed. `ops`: what hardware has for it, as bits.
static const struct { const char *names[5]; unsigned ops; } caches[PERF_COUNT_HW_CACHE_MAX] = {
	[PERF_COUNT_HW_CACHE_L1D] = { { "L1-dcache", "L1-d", "L1d", "L1-data" }, OP_READ | OP_WRITE | OP_PREFETCH },
	[PERF_COUNT_HW_CACHE_L1I] = { { "L1-icache", "L1-i", "L1i", "L1-instruction" }, OP_READ | OP_PREFETCH },
	[PERF_COUNT_HW_CACHE_LL] = { { "LLC", "L2" }, OP_READ | OP_WRITE | OP_PREFETCH },
	[PERF_COUNT_HW_CACHE_DTLB] = { { "dTLB", "d-tlb", "Data-TLB" }, OP_READ | OP_WRITE | OP_PREFETCH },
	[PERF_COUNT_HW_CACHE_ITLB] = { { "iTLB", "i-tlb", "Instruction-TLB" }, OP_READ },
	[PERF_COUNT_HW_CACHE_BPU] = { { "branch", "bpu", "btb", "bpc" }, OP_READ },
	[PERF_COUNT_HW_CACHE_NODE] = { { "node" }, OP_READ | OP_WRITE | OP_PREFETCH },
};
static const char *const ops[PERF_COUNT_HW_CACHE_OP_MAX][6] = {
	[PERF_COUNT_HW_CACHE_OP_READ] = { "loads", "load", "read" },
	[PERF_COUNT_HW_CACHE_OP_WRITE] = { "stores", "store", "write" },
	[PERF_COUNT_HW_CACHE_OP_PREFETCH] = { "prefetches", "prefetch", "speculative-read", "speculative-load" },
};
static const char *const results[PERF_COUNT_HW_CACHE_RESULT_MAX][6] = {
	[PERF_COUNT_HW_CACHE_RESULT_ACCESS] = { "refs", "Reference", "ops", "access" },
	[PERF_COUNT_HW_CACHE_RESULT_MISS] = { "misses", "miss" },
};

// Behind the longest of `names` that `word` begins with, up to a '-' or the end; NULL: none.
static const char *behind(const char *word, const char *const *names, size_t capacity)
{
	const char *rest = NULL;
	for (size_t i = 0; i < capacity && names[i] != NULL; i++) {
		size_t length = strlen(names[i]);
		if (strncasecmp(word, names[i], length) == 0 && (word[length] == '\0' || word[length] == '-') && (rest == NULL || word + length > rest))
			rest = word + length;
	}
	return rest;
}

static int parse_rest(const char *rest, const char *word, size_t cache, struct event_spec *spec, struct err *err)
{
	int op = -1, result = -1;
	while (*rest == '-') {
		const char *next = NULL;
		rest++;
		for (int i = 0; next == NULL && op < 0 && i < PERF_COUNT_HW_CACHE_OP_MAX; i++)
			if ((next = behind(rest, ops[i], 6)) != NULL)
				op = i;
		for (int i = 0; next == NULL && result < 0 && i < PERF_COUNT_HW_CACHE_RESULT_MAX; i++)
			if ((next = behind(rest, results[i], 6)) != NULL)
				result = i;
		if (next == NULL)
			return 0;
		rest = next;
	}
	if (op < 0)
		op = PERF_COUNT_HW_CACHE_OP_READ;
	if (result < 0)
		result = PERF_COUNT_HW_CACHE_RESULT_ACCESS;
	if ((caches[cache].ops & (1u << op)) == 0) {
		err_set(err, STATUS_USAGE, "no event '%s': %s has no %s", word, caches[cache].names[0], ops[op][0]);
		return -1;
	}
	spec->attr.type = PERF_TYPE_HW_CACHE;
	spec->attr.config = cache | (uint64_t)op << 8 | (uint64_t)result << 16;
	sysfs_core_pmus(spec->host, spec);
	return 1;
}

static int parse(const char *word, struct event_spec *spec, struct err *err)
{
	for (size_t i = 0; i < PERF_COUNT_HW_CACHE_MAX; i++) {
		const char *rest = behind(word, caches[i].names, 5);
		int found = rest != NULL ? parse_rest(rest, word, i, spec, err) : 0;
		if (found != 0)
			return found;
	}
	return 0;
}

static void list(const struct event_host *host, void (*each)(const char *name, const char *description, void *context), void *context)
{
	static const char *const singular[] = { "load", "store", "prefetch" };
	char name[64];
	(void)host;
	for (size_t i = 0; i < PERF_COUNT_HW_CACHE_MAX; i++)
		for (size_t op = 0; op < PERF_COUNT_HW_CACHE_OP_MAX; op++) {
			if ((caches[i].ops & (1u << op)) == 0)
				continue;
			snprintf(name, sizeof(name), "%s-%s", caches[i].names[0], ops[op][0]);
			each(name, "cache accesses", context);
			snprintf(name, sizeof(name), "%s-%s-misses", caches[i].names[0], singular[op]);
			each(name, "cache misses", context);
		}
}

const struct event_source event_source_cache = { .name = "cache", .order = 30, .parse = parse, .list = list };
