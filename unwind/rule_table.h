// One image's CFI as rules: a sorted index of its FDEs, and the rows of those that were needed so far.
#ifndef PERFSAMPLE_UNWIND_RULE_TABLE_H
#define PERFSAMPLE_UNWIND_RULE_TABLE_H

#include <string.h>

#include "base/buf.h"
#include "base/vec.h"
#include "elf/go_table.h"
#include "unwind/cfi.h"
#include "unwind/rule.h"
#include "unwind/unwind.h"

struct fde_ref {
	uint32_t start;  // vaddr - the image's base
	uint32_t offset; // of the FDE in its section
};
struct fde_rows { // the rows of one FDE; count 0: not compiled yet
	uint32_t first, count;
};
struct rule_row {
	uint32_t start; // as in fde_ref; the last row of an FDE is RULE_NONE at its end
	struct unwind_rule rule;
};
_Static_assert(sizeof(struct rule_row) == 12, "a row is 12 bytes");

struct rule_table { // one of .eh_frame and .debug_frame
	struct cfi_section section;
	struct buf storage; // the section's bytes where they were compressed in the file
	struct fde_ref *fdes;         // NULL: they stand in `header`, as rule_table_ref reads them
	const uint8_t *header;        // .eh_frame_hdr's table in the file: pairs of 32 bits, FDEs sorted by start when it was looked at
	uint32_t header_to_start, header_to_offset; // what is added to the two
	bool header_swap;
	struct fde_rows *compiled;
	size_t fde_count;
	// By start >> hint_shift: the first FDE that starts there or later; one more than there are. A binary search over all would miss the
	// data cache at most of its steps.
	uint32_t *hints;
	size_t hint_count;
	unsigned hint_shift;
	VEC(struct rule_row) rows;
	struct cfi_cie cie; // the last one read
	bool has_cie;
	struct cfi_row initial; // that the FDEs of the CIE at `initial_of` begin with
	struct unwind_rule initial_rule;
	size_t initial_of;
	bool has_initial;
	bool is_from_header;  // the index came from .eh_frame_hdr and may yet prove wrong
	bool stops_at_zero;   // where the section ends is not known, only its terminator tells
};

// One of the table's FDEs. The file may change under a table that is read in place: then it is any, and whoever follows it finds another FDE there, or none.
static inline struct fde_ref rule_table_ref(const struct rule_table *table, size_t i)
{
	uint32_t words[2];

	if (table->fdes != NULL)
		return table->fdes[i];
	memcpy(words, table->header + 8 * i, sizeof(words));
	if (table->header_swap) {
		words[0] = __builtin_bswap32(words[0]);
		words[1] = __builtin_bswap32(words[1]);
	}
	return (struct fde_ref){ .start = words[0] + table->header_to_start, .offset = words[1] + table->header_to_offset };
}

// A function whose callers cannot be found on the stack that it returns on; or, of Go's, one whose call nobody made.
struct rule_stop {
	uint32_t start, end; // as in fde_ref
	uint8_t kind;        // RULE_ROOT, with or without RULE_ELSEWHERE; or RULE_SIGNAL alone, of what is made to seem called
};

struct unwind_image {
	struct image *image;
	const struct unwind_arch *arch; // NULL: a machine we know nothing about
	uint64_t base;                  // lowest vaddr of a segment
	struct rule_table tables[3];    // in the order in which they are asked
	size_t table_count;
	struct image *mini, *debug;     // what .gnu_debugdata holds, the debug file: where one of the tables is from there; else NULL
	struct go_table go;             // of a Go program
	VEC(struct rule_stop) stops; // ascending, apart from each other
	// The unwinder that cached this image's rules last, and the number it gave the image. The time tells an unwinder from a
	// later one at the same address.
	const struct unwinder *owner;
	uint64_t owner_born_ns;
	uint32_t serial;
};

// The rule at a vaddr; RULE_NONE where there is no CFI. Compiles the FDE on its first use.
struct unwind_rule rule_table_find(struct unwind_image *image, uint64_t vaddr, struct unwind_counters *counters);
// The same; `*end` (a vaddr) is where the FDE that has the rule ends, or `vaddr` where there is none.
struct unwind_rule rule_table_find_to(struct unwind_image *image, uint64_t vaddr, struct unwind_counters *counters, uint64_t *end);
// Whether a function begins at a vaddr, by the index of FDEs.
bool rule_table_begins(const struct unwind_image *image, uint64_t vaddr);
// The row itself, for what no rule can say. false: none.
bool rule_table_row(struct unwind_image *image, uint64_t vaddr, struct cfi_row *row, struct cfi_fde *fde,
                    const struct cfi_section **section);

// The rule for a return into a function that changed stacks; RULE_NONE: no such function.
struct unwind_rule rule_table_stop(const struct unwind_image *image, uint64_t vaddr);
// go_table.c: finds them.
void go_table_build(struct unwind_image *image);
// What a Go program's table says of the stack pointer at a vaddr, as a rule: stripping leaves it alone. `*end`: of the function. RULE_NONE: nothing.
struct unwind_rule go_table_rule(const struct unwind_image *image, uint64_t vaddr, uint64_t *end);

// The row as a rule; RULE_SLOW when it is not of the usual forms.
struct unwind_rule rule_from_row(const struct cfi_section *section, const struct unwind_arch *arch, const struct cfi_cie *cie,
                                 const struct cfi_row *row);

// rule_index.c: finds the image's CFI sections and makes the indexes.
void rule_index_build(struct unwind_image *image, bool populate);
// Makes a table's index anew, from the section itself.
void rule_index_scan(struct unwind_image *image, struct rule_table *table);
// Whether the FDE is one of code that the image has: empty ones are left out.
bool rule_index_takes(const struct unwind_image *image, const struct rule_table *table, const struct cfi_fde *fde);
// Reads the FDE at `offset` with its CIE. false: malformed, or no FDE.
bool rule_index_fde(struct rule_table *table, size_t offset, struct cfi_fde *fde);

#endif
