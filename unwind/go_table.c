// Go's runtime moves between stacks in the middle of a function: systemstack, morestack, asmcgocall, the vDSO's callers. CFI, which knows one
// stack, then points into whatever lies above. The compiler notes such functions in its own table (.gopclntab), in stripped programs too.
//
// Format: Go's src/runtime/symtab.go (pcHeader, functab, _func, funcFlag) and src/internal/abi/symtab.go; magics of Go 1.18 and 1.20.
#include <elf.h>
#include <string.h>

#include "base/search.h"
#include "unwind/rule_table.h"

enum {
	MAGIC_118 = 0xfffffff0u, MAGIC_120 = 0xfffffff1u,
	FLAG_TOPFRAME = 1, FLAG_SPWRITE = 2, // funcFlag
	FLAG_AT_118 = 37, FLAG_AT_120 = 41,  // in _func; Go 1.20 put startLine before it
	FUNCTIONS_MAX = 1 << 22,
	STOPS_MAX = 4096,                    // of 1,459 functions of a small program 24 are such
};

struct go_table {
	struct bytes all, names, functions;
	uint64_t count, text;
	unsigned flag_at;
};

// false: none, or of another version or byte order.
static bool read_header(const struct image *image, struct go_table *out)
{
	const struct image_section *section = image_find_section(image, ".gopclntab"), *text = image_find_section(image, ".text");
	struct bytes b;

	if (section == NULL)
		section = image_find_section(image, ".data.rel.ro.gopclntab"); // position-independent programs
	if (section == NULL || !image_section_raw(image, section, &b))
		return false;
	out->all = out->names = out->functions = b;
	uint32_t magic = bytes_u32(&b);
	bytes_skip(&b, 3); // padding, least instruction size
	uint8_t word = bytes_u8(&b);
	if ((magic != MAGIC_118 && magic != MAGIC_120) || word != (image->is_64 ? 8 : 4))
		return false;
	out->flag_at = magic == MAGIC_118 ? FLAG_AT_118 : FLAG_AT_120;
	uint64_t fields[8]; // functions, files, text, function names, units, files, pc tables, functab
	for (size_t i = 0; i < 8; i++)
		fields[i] = word == 8 ? bytes_u64(&b) : bytes_u32(&b);
	out->count = fields[0];
	out->text = fields[2] != 0 || text == NULL ? fields[2] : text->vaddr; // 0: left to the dynamic linker
	bytes_skip(&out->names, fields[3]);
	bytes_skip(&out->functions, fields[7]);
	return !b.bad && !out->names.bad && !out->functions.bad && out->count <= FUNCTIONS_MAX &&
	       bytes_left(&out->functions) / 8 > out->count;
}

static bool is_named(const struct go_table *table, uint32_t name, const char *wanted)
{
	struct bytes at = table->names;

	bytes_skip(&at, name);
	const char *text = bytes_cstr(&at);
	return !at.bad && strcmp(text, wanted) == 0;
}

// What a return into the function means; RULE_NONE: nothing special.
static uint8_t kind_of(const struct go_table *table, uint32_t function)
{
	struct bytes at = table->functions; // functab's own offsets count from functab

	bytes_skip(&at, function);
	struct bytes flag_at = at;
	bytes_skip(&at, 4); // entry
	uint32_t name = bytes_u32(&at);
	bytes_skip(&flag_at, table->flag_at);
	uint8_t flag = bytes_u8(&flag_at);
	if (at.bad || flag_at.bad)
		return RULE_NONE;
	// Go looks no further than its signal handler's first frame; above it is the kernel's signal frame, and what was interrupted.
	if (is_named(table, name, "runtime.sigtramp") || is_named(table, name, "runtime.cgoSigtramp"))
		return RULE_NONE;
	if ((flag & FLAG_TOPFRAME) != 0)
		return RULE_ROOT;
	if ((flag & FLAG_SPWRITE) == 0)
		return RULE_NONE;
	// mcall never comes back: whoever called it has left the thread, and what runs now runs for the scheduler.
	return is_named(table, name, "runtime.mcall") ? RULE_ROOT : RULE_ROOT | RULE_ELSEWHERE;
}

void go_table_build(struct unwind_image *image)
{
	struct go_table table;

	if (!read_header(image->image, &table))
		return;
	struct bytes at = table.functions;
	uint32_t start = bytes_u32(&at), function = bytes_u32(&at);
	for (uint64_t i = 0; i < table.count && image->stops.count < STOPS_MAX; i++) {
		uint32_t end = bytes_u32(&at), next = bytes_u32(&at); // behind the last function there is an end alone
		uint8_t kind = kind_of(&table, function);
		uint64_t from = table.text + start - image->base;
		if (kind != RULE_NONE && end > start && from <= UINT32_MAX && end - start <= UINT32_MAX - from &&
		    (image->stops.count == 0 || from >= image->stops.data[image->stops.count - 1].end))
			vec_push(&image->stops, (struct rule_stop){ (uint32_t)from, (uint32_t)(from + (end - start)), kind });
		start = end;
		function = next;
	}
}

struct unwind_rule rule_table_stop(const struct unwind_image *image, uint64_t vaddr)
{
	const uint64_t at = vaddr - image->base;
	const size_t stop = first_not(0, image->stops.count, i, image->stops.data[i].end <= at);

	if (stop == image->stops.count || at < image->stops.data[stop].start)
		return (struct unwind_rule){ 0 };
	return (struct unwind_rule){ .kind = image->stops.data[stop].kind };
}
