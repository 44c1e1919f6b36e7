// The function table that Go's linker puts into each program (.gopclntab), which stripping leaves: names, files and lines, and how far the stack pointer
// is from the return address at each instruction. Go's own tracebacks are made of it.
//
// Format: Go's src/runtime/symtab.go and src/debug/gosym/pclntab.go: of Go 1.2 (magic 0xfffffffb), 1.16 (0xfffffffa), 1.18 (0xfffffff0) and 1.20 (0xfffffff1).
#ifndef PERFSAMPLE_ELF_GO_TABLE_H
#define PERFSAMPLE_ELF_GO_TABLE_H

#include "elf/image.h"

enum go_version { GO_NONE = 0, GO_12, GO_116, GO_118, GO_120 }; // of the format, by the first release that wrote it
enum { GO_NAME_MOST = 1 << 14 };
enum go_flag { GO_TOP_FRAME = 1, GO_WRITES_SP = 2, GO_ASSEMBLY = 4 }; // funcFlag; Go 1.16 and before have none

struct go_table { // borrows from the image; a zeroed one is no table
	enum go_version version;
	uint8_t word, quantum; // bytes of a pointer; of the smallest instruction
	struct bytes names, units, files, values, records, index;
	uint64_t count;        // functions
	uint64_t file_count;   // GO_12
	uint64_t text;         // what starts count from; 0 where they are addresses
	uint64_t vaddr;        // of the table itself
	const uint8_t *header; // its first byte
	struct bytes inlines;  // what inline trees count from, to where the file's segment ends; empty until go_table_open_inlines
};

struct go_function { // addresses are link-time
	uint64_t start, end;
	uint32_t name;         // offset
	uint32_t sp, file, line, unit; // offsets of its tables; of its unit's files
	uint32_t pcdata_count, funcdata_count;
	uint64_t tables;       // offset of the pcdata offsets in `records`
	uint8_t id, flag;
};

// What a table says from one address on.
struct go_value {
	int32_t value;
	uint64_t start, end;
};

struct go_line {
	const char *file; // NULL: unknown
	uint32_t line;
};

// The image's table: by its section's name, or, in a program of Go's whose linker or stripper left no such section, by its magic. false: none, or none that
// can be believed. Touches little more than the header, but where it must be searched for.
bool go_table_open(struct go_table *out, const struct image *image);
// The function that has an address; by binary search. false: none.
bool go_table_find(const struct go_table *table, uint64_t vaddr, struct go_function *out);
bool go_table_function(const struct go_table *table, uint64_t index, struct go_function *out); // `index` below `count`
// Its name, as long as the image lives; NULL: none. Names of more than GO_NAME_MOST bytes are none.
const char *go_table_name(const struct go_table *table, const struct go_function *function);
// What the table at `offset` says at an address of the function. false: nothing.
bool go_table_value(const struct go_table *table, const struct go_function *function, uint32_t offset, uint64_t vaddr, struct go_value *out);
// What is inlined into functions (Go 1.18 on), where the image tells: before go_table_chain, which tells of functions alone without it.
void go_table_open_inlines(struct go_table *table, const struct image *image);
struct go_frame {
	const char *name; // NULL: none
	struct go_line line;
};
// The functions that an address is in, those that were inlined first, at most `most` (1 at least). The number of them.
size_t go_table_chain(const struct go_table *table, const struct go_function *function, uint64_t vaddr, struct go_frame *out, size_t most);
struct go_line go_table_line(const struct go_table *table, const struct go_function *function, uint64_t vaddr);
// Bytes between the stack pointer at an address and the function's return address. false: not told.
bool go_table_sp(const struct go_table *table, const struct go_function *function, uint64_t vaddr, struct go_value *out);

#endif
