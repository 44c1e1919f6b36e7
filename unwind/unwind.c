#include "unwind/unwind.h"

#include <stdlib.h>
#include <time.h>

#include "unwind/walk.h"

const char *unwind_end_name(enum unwind_end end)
{
	static const char *const names[UNWIND_END_COUNT] = {
		[UNWIND_ROOT] = "root",
		[UNWIND_TRUNCATED] = "truncated",
		[UNWIND_NO_CFI] = "no_cfi",
		[UNWIND_NO_MAPPING] = "no_mapping",
		[UNWIND_BAD_READ] = "bad_read",
		[UNWIND_NO_PROGRESS] = "no_progress",
		[UNWIND_BAD_RA] = "bad_ra",
		[UNWIND_DEPTH_LIMIT] = "depth_limit",
		[UNWIND_UPROBE_TRAMPOLINE] = "uprobe_trampoline",
		[UNWIND_NO_IMAGE] = "no_image",
		[UNWIND_UNSUPPORTED] = "unsupported",
		[UNWIND_NOT_USER] = "not_user",
		[UNWIND_NO_REGISTERS] = "no_registers",
		[UNWIND_DEFERRED] = "deferred",
		[UNWIND_ROOT_GUESSED] = "root_guessed",
		[UNWIND_OTHER_STACK] = "other_stack",
		[UNWIND_CHAIN_MISSING] = "chain_missing",
		[UNWIND_ABSENT_PAGE] = "absent_page",
	};

	return (unsigned)end < UNWIND_END_COUNT ? names[end] : "unknown";
}

const char *frame_via_name(unsigned via)
{
	static const char *const names[VIA_COUNT] = {
		[VIA_NONE] = "none", [VIA_CFI] = "cfi", [VIA_EXPR] = "expr", [VIA_FP] = "fp", [VIA_LEAF_RULE] = "leaf_rule", [VIA_KERNEL] = "kernel",
		[VIA_SIGNAL] = "signal", [VIA_BRANCHES] = "branches", [VIA_LANDING] = "landing", [VIA_CODE] = "code", [VIA_SWITCHED] = "switched",
		[VIA_CALL_SITE] = "call_site",
	};

	return via < VIA_COUNT ? names[via] : "unknown";
}

const struct unwind_arch *unwind_arch_for(uint16_t machine)
{
	for (size_t i = 0; unwind_archs[i] != NULL; i++)
		if (unwind_archs[i]->machine == machine)
			return unwind_archs[i];
	return NULL;
}

bool unwind_is_probe_return(uint16_t machine, uint64_t addr)
{
	const struct unwind_arch *arch = unwind_arch_for(machine);

	return arch != NULL && arch->is_probe_return != NULL && arch->is_probe_return(addr);
}

bool unwind_regs_for(uint16_t machine, struct unwind_regs *out)
{
	const struct unwind_arch *arch = unwind_arch_for(machine);

	if (arch == NULL)
		return false;
	*out = (struct unwind_regs){ .mask = arch->perf_mask, .pc = arch->perf_pc, .sp = arch->perf_sp };
	return true;
}

#define CACHE_BYTES (CACHE_SETS * sizeof(struct cache_set))

static struct unwinder *new_unwinder(void *tables, bool in_heap)
{
	struct unwinder *unwinder = NEW(struct unwinder);
	struct timespec now;

	unwinder->tables = tables;
	unwinder->in_heap = in_heap;
	unwinder->cache = tables;
	unwinder->code = code_cache_new();
	near_init(&unwinder->near, (void *)((uint8_t *)tables + CACHE_BYTES));
	clock_gettime(CLOCK_MONOTONIC, &now);
	unwinder->born_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	return unwinder;
}

struct unwinder *unwinder_new(void)
{
	return new_unwinder(mem_pages(CACHE_BYTES + NEAR_BYTES), false);
}

struct unwinder *unwinder_new_in_heap(void)
{
	return new_unwinder(mem_zero_aligned(_Alignof(struct cache_set), CACHE_BYTES + NEAR_BYTES), true);
}

void unwinder_free(struct unwinder *unwinder)
{
	if (unwinder == NULL)
		return;
	if (unwinder->in_heap)
		free(unwinder->tables);
	else
		mem_pages_free(unwinder->tables, CACHE_BYTES + NEAR_BYTES);
	code_cache_free(unwinder->code);
	free(unwinder);
}

struct unwind_counters unwinder_counters(const struct unwinder *unwinder)
{
	return unwinder->counters;
}
