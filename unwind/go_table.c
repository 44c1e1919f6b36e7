// Go's runtime moves between stacks in the middle of a function: systemstack, morestack, asmcgocall, the vDSO's callers. CFI, which knows one
// stack, then points into whatever lies above. The compiler notes such functions in its own table (elf/go_table.h), in stripped programs too.
#include <string.h>

#include "base/search.h"
#include "unwind/rule_table.h"

enum { STOPS_MAX = 4096 }; // of 1,459 functions of a small program 24 are such

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names != NULL && strcmp(name, *names) != 0)
		names++;
	return *names != NULL;
}

// What a return into the function means; RULE_NONE: nothing special.
static uint8_t kind_of(const struct go_table *table, const struct go_function *function)
{
	// Go looks no further than its signal handler's first frame; above it is the kernel's signal frame, and what was interrupted.
	static const char *const handlers[] = { "runtime.sigtramp", "runtime.cgoSigtramp", NULL };
	// Of tables without flags (Go 1.16 and before) names tell.
	static const char *const roots[] = { "runtime.goexit", "runtime.mstart", "runtime.rt0_go", NULL };
	static const char *const others[] = { "runtime.systemstack", "runtime.mcall", "runtime.morestack", "runtime.asmcgocall", "runtime.cgocallback",
					      "runtime.cgocallback_gofunc", NULL };
	const bool has_flags = table->version >= GO_118 || function->flag != 0;
	const char *name = !has_flags || function->flag != 0 ? go_table_name(table, function) : NULL;

	if (name == NULL)
		return RULE_NONE;
	if (strcmp(name, "runtime.asyncPreempt") == 0) // a signal's handler put its call there, in the middle of whatever ran (preempt.go)
		return RULE_SIGNAL;
	if (strncmp(name, "runtime.", strlen("runtime.")) == 0 && is_one_of(name, handlers))
		return RULE_NONE;
	if ((function->flag & GO_TOP_FRAME) != 0 || (!has_flags && is_one_of(name, roots)))
		return RULE_ROOT;
	if ((function->flag & GO_WRITES_SP) != 0 || (!has_flags && is_one_of(name, others)))
		return RULE_ROOT | RULE_ELSEWHERE;
	return RULE_NONE;
}

void go_table_build(struct unwind_image *image)
{
	const struct go_table *table = &image->go;
	struct go_function function;

	if (!go_table_open(&image->go, image->image))
		return;
	for (uint64_t i = 0; i < table->count && image->stops.count < STOPS_MAX; i++) {
		if (!go_table_function(table, i, &function))
			continue;
		const uint8_t kind = kind_of(table, &function);
		const uint64_t from = function.start - image->base, size = function.end - function.start;
		if (kind != RULE_NONE && from <= UINT32_MAX && size <= UINT32_MAX - from &&
		    (image->stops.count == 0 || from >= image->stops.data[image->stops.count - 1].end))
			vec_push(&image->stops, (struct rule_stop){ (uint32_t)from, (uint32_t)(from + size), kind });
	}
}

// Go's compiler and assembler follow the stack pointer through each function, and its linker makes the CFI of what they say. A frame begins at the return
// address; where a link register has that, at the place where it was saved, the frame's lowest word (traceback.go, `usesLR`).
struct unwind_rule go_table_rule(const struct unwind_image *image, uint64_t vaddr, uint64_t *end)
{
	struct go_function function;
	struct go_value sp;

	if (image->go.version == GO_NONE || !go_table_find(&image->go, vaddr, &function) || !go_table_sp(&image->go, &function, vaddr, &sp) ||
	    sp.value >= RULE_CFA_LIMIT - image->arch->word_bytes)
		return (struct unwind_rule){ 0 };
	*end = function.end;
	if (image->arch->perf_lr == 0xff)
		return (struct unwind_rule){ .kind = RULE_SP | RULE_RA_SAVED, .cfa_off = sp.value + image->arch->word_bytes, .ra_off = -image->arch->word_bytes };
	return (struct unwind_rule){ .kind = RULE_SP | (sp.value > 0 ? RULE_RA_SAVED | RULE_RA_AT_BASE : 0), .cfa_off = sp.value };
}

struct unwind_rule rule_table_stop(const struct unwind_image *image, uint64_t vaddr)
{
	const uint64_t at = vaddr - image->base;
	const size_t stop = first_not(0, image->stops.count, i, image->stops.data[i].end <= at);

	if (stop == image->stops.count || at < image->stops.data[stop].start)
		return (struct unwind_rule){ 0 };
	return (struct unwind_rule){ .kind = image->stops.data[stop].kind };
}
