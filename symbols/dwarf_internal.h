// What the files of the DWARF reader share. All of it describes untrusted bytes: cursors are checked, chains and counts bounded.
#ifndef PERFSAMPLE_SYMBOLS_DWARF_INTERNAL_H
#define PERFSAMPLE_SYMBOLS_DWARF_INTERNAL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/vec.h"
#include "symbols/dwarf.h"
#include "symbols/span.h"

enum dwarf_section_id {
	DWARF_INFO, DWARF_ABBREV, DWARF_LINE, DWARF_STR, DWARF_LINE_STR, DWARF_RANGES, DWARF_RNGLISTS, DWARF_ADDR, DWARF_STR_OFFSETS,
	DWARF_ARANGES, DWARF_SECTIONS,
};

struct dwarf_inflating; // a compressed section, decompressed as far as it was needed (dwarf_section.c)

struct dwarf_section {
	bool is_loaded;
	struct bytes bytes; // empty when the file has none; for one being inflated, up to its full size
	struct buf storage;
	struct dwarf_inflating *inflating;
};

struct abbrev_attr {
	uint16_t name, form;
	int8_t size;      // bytes, or -1 where it varies
	int64_t constant; // DW_FORM_implicit_const
};

enum die_kind { // what a pass over DIEs may stop at or skip; bits
	DIE_CODELESS = 1, // has children that are never code, in any language
	DIE_TYPE = 2,     // a structure, class or union with children
	DIE_FUNCTION = 4, // DW_TAG_subprogram without code, but with children, which is no declaration (those are DIE_CODELESS)
	DIE_CODE = 8,     // DW_TAG_subprogram that has code
	DIE_INLINED = 16, // DW_TAG_inlined_subroutine
	DIE_SCOPE = 32,   // another DIE with children that names what is inside: a namespace
	ANY_KIND = 63,
	DIE_LONG = 64,    // does not fit struct abbrev_hot
};

enum abbrev_varying { VARYING_NONE, VARYING_ULEB, VARYING_BLOCK, VARYING_BLOCK1, VARYING_STRING };
#define NO_SIBLING UINT8_MAX
enum { HOT_CODES = 1 << 14 }; // codes of one or two bytes

struct abbrev_hot { // all that passing over a DIE needs, in 8 bytes
	uint8_t size;                                // bytes of the attributes before the first that varies
	struct { uint8_t form, size; } varying[2];   // one that varies (enum abbrev_varying), and bytes of those up to the next such one
	int8_t depth;                                // what it adds to the number of open DIEs
	uint8_t sibling_at;                          // where the 4 bytes of DW_AT_sibling stand among attributes that are all of fixed size
	uint8_t kinds;                               // enum die_kind
};

enum abbrev_taken { TAKE_END, TAKE_NOTHING, TAKE_LOW, TAKE_HIGH, TAKE_RANGES, TAKE_SIBLING };

struct abbrev_take { // one attribute that says where code is, or one to pass over because its size varies
	uint32_t skip; // bytes before it
	uint16_t form;
	int8_t size;   // -1: varies
	uint8_t what;  // enum abbrev_taken
	int64_t constant; // DW_FORM_implicit_const
};

struct abbrev_step { // over attributes of a DIE: one whose size varies, then those up to the next such one
	uint32_t fixed_size; // of those
	uint16_t form;
	bool is_last;
};

struct abbrev {
	uint64_t code;
	uint16_t tag;
	bool has_children, has_code, has_name, is_declaration; // has_code: the DIE has addresses
	int32_t sibling;         // index of DW_AT_sibling among the attributes, or -1
	uint32_t first, count;   // in the table's attrs
	uint32_t fixed_size;     // bytes of the attributes before the first that varies
	uint32_t steps;          // in the table's steps: from there on; 0: none varies
	uint32_t takes;          // in the table's takes; 0: where its code is, is not looked for
	struct {                 // the same at once, where all attributes are of fixed size: where they stand among them; NO_SIBLING: there is none
		bool is_known;
		uint8_t low, high, ranges, sibling; // of 8, 8, 4 and 4 bytes
	} at;
	uint8_t kinds;           // enum die_kind, but for DIE_LONG
};

struct abbrev_table {
	VEC(struct abbrev) entries; // by code
	VEC(struct abbrev_attr) attrs;
	VEC(struct abbrev_step) steps; // the first is not used
	VEC(struct abbrev_take) takes; // likewise
	VEC(struct abbrev_hot) hot;    // by code, that of a null entry first; empty where codes are not dense
	bool is_dense;              // code n stands at n - 1
	bool has_siblings;          // functions' DIEs have DW_AT_sibling (gcc's have, clang's have not)
};

struct dwarf_inlined { // a function inlined into another
	uint32_t parent;                 // into which of them; SPAN_NONE: into the function that has the code
	uint32_t die;                    // offset from the unit's start
	uint32_t call_file, call_line;
	uint32_t origin;                 // the DIE that names it, likewise; 0: its own leads there
	bool is_named;                   // the names were looked for
	const char *linkage_name, *name; // as in struct symbol_source
};

struct dwarf_inlined_list { // a VEC
	struct dwarf_inlined *data;
	size_t count, capacity;
};

struct dwarf_inlines { // of one function
	struct dwarf_inlined_list all; // in the order of DIEs, parents first
	struct span_table spans;       // values are indices of those
};

struct dwarf_function { // that has code
	uint32_t die;            // offset from the unit's start
	uint64_t start;          // where its first range begins: the entry
	struct dwarf_inlines *inlines; // read when an address of the function is asked for; NULL: not yet
};

struct dwarf_answer { // of an address asked for
	uint64_t addr;
	uint64_t lo, hi;   // of the function inlined, where one has it
	uint32_t function; // among `met`; SPAN_NONE: none has it
	uint32_t inlined;  // the innermost, among `met_inlined`; SPAN_NONE: the function's own code
};

struct dwarf_functions {
	VEC(struct dwarf_answer) answers; // by address; of those known beforehand
	VEC(struct dwarf_function) met;   // by the answers
	struct dwarf_inlined_list met_inlined;
	size_t next_answer;               // the one after the last found: addresses are asked in order
	// For any other address.
	bool is_listed;                   // false: what follows is not made yet
	VEC(struct dwarf_function) all;
	struct span_table spans;  // values are indices of those
	struct span_table nested; // likewise, of functions written inside others (closures, GNU C's nested functions)
	bool has_nested;          // false: `nested` is not made yet
	uint64_t bytes_read;      // for inlines, in all
};

struct line_row {
	uint64_t addr;
	uint32_t file, line;
};

struct line_sequence {
	uint32_t first, count; // rows
};

struct line_file {
	const char *name;
	uint64_t directory;
	const char *path; // composed when asked for; NULL: not yet
};

struct line_answer { // of an address asked for
	uint64_t addr;
	uint64_t lo, hi;     // of the sequence that has it; hi 0: none has
	uint32_t file, line;
};

// A line program is run for the addresses that are known beforehand, without keeping its rows; for any other, all rows are kept.
struct dwarf_lines {
	VEC(const char *) directories;
	VEC(struct line_file) files;
	VEC(struct line_answer) answers; // by address
	size_t next_answer;              // the one after the last found: addresses are asked in order
	bool has_rows;                   // false: `rows` and what follows are not made
	VEC(struct line_row) rows;
	VEC(struct line_sequence) sequences;
	struct span_table by_addr; // values are sequences
	uint16_t version;
};

struct dwarf_scope { // a namespace or type, for qualified names
	uint32_t begin, end; // of its DIE and children, from the unit's start
	uint32_t parent;     // index, or SPAN_NONE
	const char *name;    // NULL: not read yet
};

struct dwarf_scopes {
	VEC(struct dwarf_scope) all; // in the order of DIEs
	bool is_listed;
	unsigned searches; // before it was
};

struct dwarf_unit {
	struct dwarf *dwarf;
	uint64_t offset, first_die, end; // in .debug_info
	uint64_t abbrev_offset;
	uint16_t version, language;
	uint8_t address_size, offset_size, type;
	bool is_root_read, is_bad, has_low, has_lines, is_split_tried;
	const struct abbrev_table *abbrevs;
	uint64_t low_pc, str_offsets_base, addr_base, rnglists_base, ranges_base, line_offset, dwo_id;
	uint64_t str_offsets_at, rnglists_at; // where a package's contribution begins (7.3.5); 0 outside packages
	const char *name, *comp_dir, *dwo_name;
	struct dwarf_unit *skeleton; // of a split unit: the unit that has its addresses and lines
	struct dwarf_unit *split;    // of a skeleton: the unit that has its DIEs
	struct dwarf_functions *functions;
	struct dwarf_lines *lines;
	uint32_t task; // 1 + its place among those of dwarf_prepare; 0: none
	struct dwarf_scopes scopes;
};

struct dwarf_contribution { // what a split unit has of a package's sections
	uint64_t id; // dwo_id
	uint64_t info, info_size, abbrev, str_offsets, rnglists;
};

struct dwarf_slot {
	uint64_t offset, end;
	struct dwarf_unit *unit; // NULL: header not yet looked at again
};

struct dwarf {
	struct image *image;
	struct dwarf_files files;
	bool with_lines, is_split; // is_split: sections are named .debug_*.dwo
	struct dwarf_section sections[DWARF_SECTIONS];
	VEC(struct dwarf_slot) slots; // units by offset, as far as headers were walked
	bool is_walked;               // all of them
	struct span_table by_addr;    // values are indices of unit_offsets
	VEC(uint64_t) unit_offsets;
	bool has_aranges, has_all_ranges;
	uint64_t ranges_read; // atomic
	struct hash_map abbrev_ids;
	VEC(struct abbrev_table *) abbrevs;
	struct abbrev_table abbrevs_read; // the last one, before it was copied among them
	struct arena arena;
	struct hash_map qualified_ids; // DIE offset -> index into `qualified`
	VEC(const char *) qualified;   // names with their scopes
	struct dwarf_named { // by the DIE's offset, in the last unit
		const struct dwarf_unit *unit;
		uint32_t die;
		const char *linkage_name, *name;
	} recent[1024];
	struct dwarf *alt;
	bool is_alt_tried;
	VEC(struct dwarf *) splits;
	struct dwarf *from_package;   // the .dwp that has the split units of this file, among `splits`; NULL: none
	bool is_package_tried;
	VEC(struct dwarf_contribution) package; // this file is a package: its units, by offset
};

struct dwarf_value {
	uint16_t form;
	uint64_t u;        // the number, offset, index or block length
	const uint8_t *at; // blocks and strings: where they stand
};

struct dwarf_ref { // a DIE
	struct dwarf_unit *unit; // NULL: nowhere
	uint64_t offset;         // in the unit's .debug_info
};

static inline uint64_t dwarf_uleb(struct bytes *b)
{
	if (b->at < b->end && *b->at < 0x80)
		return *b->at++;
	return bytes_uleb(b);
}

// ---- dwarf_section.c
void dwarf_section_load(struct dwarf *dwarf, enum dwarf_section_id id);
// The section's bytes, the cursor at its start; empty when the file has none.
static inline struct bytes dwarf_section(struct dwarf *dwarf, enum dwarf_section_id id)
{
	if (!dwarf->sections[id].is_loaded)
		dwarf_section_load(dwarf, id);
	return dwarf->sections[id].bytes;
}
// Whether .debug_info is there up to `end`; decompresses as far as needed.
bool dwarf_info_reaches(struct dwarf *dwarf, uint64_t end);
// Tells of a contradiction at an offset in a section: "expected …".
void dwarf_fault(struct dwarf *dwarf, enum dwarf_section_id id, uint64_t at, const char *expected, ...) __attribute__((format(printf, 4, 5)));
void dwarf_sections_load(struct dwarf *dwarf); // those that units are read by, the supplementary file's among them: then threads may read
void dwarf_sections_release(struct dwarf *dwarf);

// ---- dwarf_abbrev.c
const struct abbrev_table *dwarf_abbrevs(const struct dwarf_unit *unit);
const struct abbrev *abbrev_search(const struct abbrev_table *table, uint64_t code);
void abbrev_table_release(struct abbrev_table *table);

// ---- dwarf_form.c
// Reads a value, the cursor moved behind it; unknown forms set the cursor bad.
void form_read(const struct dwarf_unit *unit, const struct abbrev_attr *attr, struct bytes *b, struct dwarf_value *out);
void form_skip(const struct dwarf_unit *unit, const struct abbrev_attr *attr, struct bytes *b);
void form_skip_steps(const struct dwarf_unit *unit, const struct abbrev_step *steps, struct bytes *b);
int8_t form_fixed_size(const struct dwarf_unit *unit, uint16_t form); // -1: varies
struct dwarf *dwarf_alternative(struct dwarf *dwarf); // the supplementary file of dwz, opened when first asked for; NULL: none
const char *value_string(struct dwarf_unit *unit, const struct dwarf_value *value); // NULL: not a string
bool value_address(struct dwarf_unit *unit, const struct dwarf_value *value, uint64_t *addr);
struct dwarf_ref value_ref(struct dwarf_unit *unit, const struct dwarf_value *value);
uint64_t dwarf_odd_address(const struct dwarf_unit *unit, struct bytes *b); // of another size than 8 bytes
static inline uint64_t dwarf_address(const struct dwarf_unit *unit, struct bytes *b)
{
	return unit->address_size == 8 ? bytes_u64(b) : dwarf_odd_address(unit, b);
}
static inline uint64_t dwarf_offset(const struct dwarf_unit *unit, struct bytes *b) // 4 or 8 bytes
{
	return unit->offset_size == 8 ? bytes_u64(b) : bytes_u32(b);
}

static inline const struct abbrev *abbrev_find(const struct abbrev_table *table, uint64_t code)
{
	if (table->is_dense)
		return code - 1 < table->entries.count ? &table->entries.data[code - 1] : NULL;
	return abbrev_search(table, code);
}

// Passes over all attributes of a DIE.
static inline void dwarf_skip_attributes(const struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *b)
{
	bytes_skip(b, entry->fixed_size);
	if (entry->steps != 0)
		form_skip_steps(unit, &unit->abbrevs->steps.data[entry->steps], b);
}

// ---- dwarf_unit.c
struct dwarf_unit *dwarf_unit_at(struct dwarf *dwarf, uint64_t offset);         // that starts there
struct dwarf_unit *dwarf_unit_containing(struct dwarf *dwarf, uint64_t offset); // NULL: none
void dwarf_walk_units(struct dwarf *dwarf, uint64_t until);
bool dwarf_unit_root(struct dwarf_unit *unit); // reads the root DIE's attributes; false: cannot be read
struct bytes dwarf_unit_bytes(struct dwarf_unit *unit, uint64_t offset);
void dwarf_unit_free(struct dwarf_unit *unit);

// ---- dwarf_ranges.c
struct dwarf_range {
	uint64_t lo, hi;
};
struct dwarf_range_list { // a VEC
	struct dwarf_range *data;
	size_t count, capacity;
};
// Adds the ranges that are not empty to `out`.
void dwarf_ranges(struct dwarf_unit *unit, const struct dwarf_value *ranges, struct dwarf_range_list *out);
struct dwarf_unit *dwarf_unit_for_address(struct dwarf *dwarf, uint64_t vaddr);

// ---- dwarf_extent.c
struct dwarf_extent {
	struct dwarf_range_list ranges; // in the order in which they stand; none is empty
	uint64_t sibling;               // DW_AT_sibling; 0: none
	bool has_code;                  // false: a declaration, or an abstract instance
};
// Of a DIE_CODE or DIE_INLINED, the cursor before its attributes and moved behind them. The ranges' memory is used again, and the caller's to
// release.
void dwarf_extent_read(struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *b, struct dwarf_extent *out);

// ---- dwarf_pass.c
struct dwarf_pass { // over DIEs and those inside them
	const struct dwarf_unit *unit;
	struct bytes b;
	size_t depth;               // how many DIEs are open: 1 before the first child of the DIE whose children are passed, 0 behind the last
	uint64_t die;               // where the last one passed stands
	const struct abbrev *entry; // of the one stopped at
};
// Passes over DIEs up to one of the kinds `stops` (enum die_kind), the cursor then before its attributes, or to the end of the children (false;
// the cursor is bad when what stands at `die` cannot be read). DIEs of the kinds `skips` are passed with their children where DW_AT_sibling
// leads there.
bool dwarf_pass(struct dwarf_pass *pass, unsigned stops, unsigned skips);
// To DW_AT_sibling's DIE, the cursor behind the attributes; false: it does not lead forward.
bool dwarf_jump(const struct dwarf_unit *unit, uint64_t sibling, struct bytes *b);
// Passes over a DIE with all its children by DW_AT_sibling, the cursor before its attributes; false: it has none that leads forward.
bool dwarf_skip_to_sibling(const struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *b);

// ---- dwarf_package.c
void dwarf_package_read(struct dwarf *dwarf); // nothing happens when the file is no package
const struct dwarf_contribution *dwarf_contribution(const struct dwarf *dwarf, uint64_t offset); // of the unit there; NULL: none
struct dwarf_unit *dwarf_package_unit(struct dwarf *package, uint64_t dwo_id);                    // NULL: none

// ---- dwarf_walk.c
struct dwarf_walk { // over the functions of a unit, and over what is inlined into one of them
	struct dwarf_unit *unit;
	struct dwarf_pass pass;
	struct dwarf_extent extent;     // of the DIE met last
	bool wants_outer, wants_nested; // functions that are not inside another's DIE, and those that are
	// A function that has code: its DIE in `pass`, its extent read. True: its children were passed as well.
	bool (*function)(struct dwarf_walk *walk, bool is_nested);
	// A function inlined, which becomes number `index`, likewise; false: it and what is inlined into it are not wanted.
	bool (*inlined)(struct dwarf_walk *walk, uint32_t index);
	void *context;
	VEC(struct { size_t depth; uint32_t inlined; }) open; // the functions inlined that what is read is in; DIEs open around each
};
void dwarf_walk_functions(struct dwarf_walk *walk);
// Passes over a function's children and adds the functions inlined, parents first. The cursor is behind the function's attributes.
void dwarf_walk_inlined(struct dwarf_walk *walk, struct dwarf_inlined_list *out);
// The same from a function's DIE (offset from the unit's start) on; the bytes read.
uint64_t dwarf_walk_inlined_at(struct dwarf_walk *walk, uint32_t die, struct dwarf_inlined_list *out);
void dwarf_walk_release(struct dwarf_walk *walk);

// ---- dwarf_functions.c, dwarf_ask.c, dwarf_line.c, dwarf_name.c, dwarf_split.c
// Which function has an address, and what is inlined into it; both are read when first asked for. NULL: none has.
struct dwarf_function *dwarf_function_find(struct dwarf_unit *unit, uint64_t vaddr);
// Finds both for these addresses, in ascending order, in one pass over the unit. Does nothing when the unit was asked before.
void dwarf_functions_ask(struct dwarf_unit *unit, const uint64_t *vaddrs, size_t count);
const struct dwarf_answer *dwarf_functions_answer(struct dwarf_unit *unit, uint64_t vaddr); // NULL: was not asked for
struct dwarf_inlines *dwarf_function_inlines(struct dwarf_unit *unit, struct dwarf_function *function);
void dwarf_functions_free(struct dwarf_functions *functions);
// Finds the lines of these addresses, in ascending order, in one pass. Does nothing when lines of the unit were asked for before.
void dwarf_lines_ask(struct dwarf_unit *unit, const uint64_t *vaddrs, size_t count);
bool dwarf_line_find(struct dwarf_unit *unit, uint64_t vaddr, uint32_t *file, uint32_t *line);
const char *dwarf_line_path(struct dwarf_unit *unit, uint64_t file); // NULL: unknown
void dwarf_lines_free(struct dwarf_lines *lines);
void dwarf_name(struct dwarf_unit *unit, uint64_t die, struct symbol_source *out); // linkage_name and name
struct dwarf_unit *dwarf_unit_split(struct dwarf_unit *skeleton); // NULL: no split unit, or not found

#endif
