#include "symbols/elf_symbols.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "symbols/alias.h"
#include "symbols/damage.h"
#include "symbols/module.h"

// Name spaces in the order in which their names are believed: perf reads .symtab alone where there is one.
enum { SPACE_SYMTAB, SPACE_DYNSYM };
enum { SYMBOLS_LIMIT = 64 * 1024 * 1024 };

struct raw_symbol {
	uint32_t name, section;
	uint64_t value, size;
	uint8_t type, binding, visibility;
};

// `b` has the whole of it.
static struct raw_symbol read_symbol(struct bytes *b, bool is_64)
{
	if (is_64 && !b->swap) { // as nearly all are: a large library has 50,000 of them
		Elf64_Sym from;
		memcpy(&from, b->at, sizeof(from));
		b->at += sizeof(from);
		return (struct raw_symbol){ .name = from.st_name, .section = from.st_shndx, .value = from.st_value, .size = from.st_size,
		                            .type = from.st_info & 15, .binding = from.st_info >> 4, .visibility = from.st_other & 3 };
	}
	struct raw_symbol s = { .name = bytes_u32(b) };
	uint8_t info, other;
	if (is_64) {
		info = bytes_u8(b);
		other = bytes_u8(b);
		s.section = bytes_u16(b);
		s.value = bytes_u64(b);
		s.size = bytes_u64(b);
	} else {
		s.value = bytes_u32(b);
		s.size = bytes_u32(b);
		info = bytes_u8(b);
		other = bytes_u8(b);
		s.section = bytes_u16(b);
	}
	s.type = info & 15;
	s.binding = info >> 4;
	s.visibility = other & 3;
	return s;
}

struct reading {
	const struct symbol_module *module;
	const struct image *image;
	const struct image_section *section;
	struct symbol_table *table;
	struct elf_symbols *to;
	uint64_t bias;
	uint8_t space;
	uint32_t file;   // name of the source file that local symbols are of; 0: none
	bool is_new_file; // it has no number yet
};

// A table contradicts itself at an offset in the file.
static void fault(const struct reading *r, uint64_t offset, const char *expected)
{
	struct damages *damages = r->module->options->damages;
	if (damages == NULL)
		return;
	char *text = mem_printf("%s: offset %#llx: section %s: expected %s", r->image->path, (unsigned long long)offset, r->section->name, expected);
	damages_note(damages, r->image->path, r->module->image->path, 1, text);
	free(text);
}

// $x, $d, $a, $t: ARM's and RISC-V's marks between code and data (AAELF64, "Mapping symbols").
static bool is_mapping_symbol(const char *name, size_t length)
{
	return length >= 2 && name[0] == '$' && strchr("adtx", name[1]) != NULL && (length == 2 || name[2] == '.' || name[1] == 'x');
}

// The number of the source file at hand. Those beyond what a number holds have none.
static uint16_t unit_of(struct reading *r)
{
	if (r->file == 0 || (r->is_new_file && r->to->units.count > UINT16_MAX))
		return 0;
	if (r->to->units.count == 0)
		vec_push(&r->to->units, 0);
	if (r->is_new_file)
		vec_push(&r->to->units, r->file);
	r->is_new_file = false;
	return (uint16_t)(r->to->units.count - 1);
}

// Whether a symbol's size is one that it can have: within its section.
static bool has_size(const struct raw_symbol *s, const struct image_section *section, uint64_t start)
{
	return s->size > 0 && s->size <= UINT64_MAX - start && (section == NULL || (start >= section->vaddr && s->size <= section->vaddr + section->size - start));
}

static void add_symbol(struct reading *r, const struct raw_symbol *s)
{
	// Objects count where code is executable: tables that assembly keeps beside its functions (what stands there must have a name).
	bool is_function = s->type == STT_FUNC || s->type == STT_GNU_IFUNC || (s->type == STT_OBJECT && s->section < SHN_LORESERVE);
	bool is_label = s->type == STT_NOTYPE && s->section < SHN_LORESERVE;
	if (s->type == STT_FILE) {
		r->file = s->name;
		r->is_new_file = true;
	}
	if (s->name == 0 || s->section == SHN_UNDEF || (!is_function && !is_label))
		return;
	const struct image_section *section = s->section < r->image->section_count ? &r->image->sections[s->section] : NULL;
	if (section != NULL && !(section->flags & SHF_EXECINSTR))
		return;
	if (section == NULL && (is_label || s->type == STT_OBJECT))
		return;
	struct table_symbol out = { .start = s->value, .name = s->name, .space = r->space };
	if (r->image->machine == EM_ARM && is_function)
		out.start &= ~1ull; // bit 0 says Thumb (AAELF32, 5.5.3)
	bool is_sized = has_size(s, section, out.start);
	out.unit = s->binding == STB_LOCAL && r->space == SPACE_SYMTAB ? unit_of(r) : 0;
	out.flags = (s->binding == STB_WEAK ? TABLE_WEAK : 0) | (s->binding == STB_GLOBAL || s->binding == STB_GNU_UNIQUE ? TABLE_GLOBAL : 0) |
		(is_label ? TABLE_LABEL : 0) | (is_sized ? TABLE_SIZED : 0) | (s->type == STT_FUNC ? TABLE_FUNCTION : 0);
	if (is_sized)
		out.end = out.start + s->size;
	else
		out.end = section != NULL ? section->vaddr + section->size : out.start + 1;
	if (out.end <= out.start)
		return;
	if (is_label) {
		size_t length;
		const char *name = symbol_table_name(r->table, &out, &length);
		if (length == 0 || is_mapping_symbol(name, length))
			return;
	}
	r->to->is_complete |= r->space == SPACE_SYMTAB && s->binding == STB_LOCAL && section != NULL; // what was left of a table without them is no whole one (strip -x, ld -x)
	out.start += r->bias;
	out.end += r->bias;
	vec_push(&r->table->symbols, out);
}

static void add_table(struct reading *r, struct bytes symbols)
{
	size_t entry = r->image->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym), count = bytes_left(&symbols) / entry;
	if (count > SYMBOLS_LIMIT)
		count = SYMBOLS_LIMIT;
	vec_reserve(&r->table->symbols, count);
	symbols.swap = r->image->swap;
	size_t names_size = bytes_left(&r->table->names[r->space]), nameless = count;
	for (size_t i = 0; i < count; i++) {
		struct raw_symbol s = read_symbol(&symbols, r->image->is_64);
		if (s.name >= names_size && s.name > 0 && nameless == count)
			nameless = i;
		add_symbol(r, &s);
	}
	if (nameless < count)
		fault(r, r->section->offset + nameless * entry, "a symbol whose name is among the section's names");
}

static bool read_table(struct elf_symbols *out, const struct symbol_module *module, const struct image *image, uint32_t type, uint8_t space,
                       uint64_t bias)
{
	for (size_t i = 0; i < image->section_count; i++) {
		const struct image_section *section = &image->sections[i];
		struct reading r = { .module = module, .image = image, .section = section, .table = &out->table, .to = out, .bias = bias, .space = space };
		struct buf storage = { 0 };
		struct bytes symbols;
		struct err err = { 0 };
		if (section->type != type)
			continue;
		if (section->link >= image->section_count || section->link == 0) {
			fault(&r, section->offset, "its names in one of the file's sections");
			continue;
		}
		if (section->entry_size != 0 && section->entry_size != (image->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym)))
			fault(&r, section->offset, image->is_64 ? "entries of 24 bytes" : "entries of 16 bytes");
		bool good = image_section_contents(image, &image->sections[section->link], &out->storage[space], &out->table.names[space], &err) &&
			image_section_contents(image, section, &storage, &symbols, &err);
		size_t before = out->table.symbols.count;
		if (good)
			add_table(&r, symbols);
		else
			damages_note(module->options->damages, image->path, module->image->path, 1, err.text);
		buf_release(&storage);
		return out->table.symbols.count > before;
	}
	return false;
}

static struct image *open_mini(const struct image *image, struct damages *damages)
{
	struct err err = { 0 };
	struct image *mini = image_open_mini_debug(image, &err);
	if (mini != NULL && mini->damage != NULL)
		err_set(&err, STATUS_INPUT, "%s (in section .gnu_debugdata)", mini->damage);
	if (err.status != STATUS_OK)
		damages_note(damages, image->path, NULL, 2, err.text);
	return mini;
}

bool elf_symbols_open(const struct symbol_module *module, struct elf_symbols **result)
{
	struct elf_symbols *out = NEW(struct elf_symbols);
	out->table.keeps_aliases = true;
	bool good = module->debug != NULL && read_table(out, module, module->debug, SHT_SYMTAB, SPACE_SYMTAB, module->debug_bias);
	if (!good) {
		buf_clear(&out->storage[SPACE_SYMTAB]);
		good = read_table(out, module, module->image, SHT_SYMTAB, SPACE_SYMTAB, 0);
	}
	if (!good && (out->mini = open_mini(module->image, module->options->damages)) != NULL) {
		buf_clear(&out->storage[SPACE_SYMTAB]);
		good = read_table(out, module, out->mini, SHT_SYMTAB, SPACE_SYMTAB, 0);
		out->is_complete = false; // labels are not in it
	}
	good |= read_table(out, module, module->image, SHT_DYNSYM, SPACE_DYNSYM, 0);
	symbol_table_finish(&out->table);
	*result = out;
	return good;
}

static struct extents *extents_of(const struct symbol_module *module, struct elf_symbols *symbols)
{
	if (symbols->extents == NULL && module->image->type != ET_REL)
		symbols->extents = extents_new(module->image);
	return symbols->extents;
}

// Of a symbol without a size. Few are asked for; the many others are not to pay for it.
static __attribute__((noinline)) bool reaches(const struct symbol_module *module, struct elf_symbols *symbols, const struct table_symbol *symbol, uint64_t vaddr)
{
	struct extents *extents = extents_of(module, symbols);
	struct extent function;
	bool is_found = extents != NULL && extents_find(extents, vaddr, &function);
	if ((symbol->flags & TABLE_LABEL) && !symbols->is_complete) // it may mark anything, the end of what stands before it, say: it names no function
		return vaddr == symbol->start && !(is_found && vaddr < function.end);
	if (vaddr == symbol->start)
		return true;
	if (!is_found)
		return symbols->is_complete;
	if (function.start > symbol->start) // another one begins between the two
		return false;
	return symbol->start < function.end ? vaddr < function.end : symbols->is_complete;
}

bool elf_symbols_bounds(const struct symbol_module *module, struct elf_symbols *symbols, uint64_t vaddr, struct extent *out)
{
	struct extents *extents = plt_has(module->image, vaddr, NULL) ? NULL : extents_of(module, symbols); // one FDE has all entries of a PLT
	return extents != NULL && extents_find(extents, vaddr, out) && vaddr < out->end &&
		!symbol_table_begins(&symbols->table, out->start, vaddr, symbols->is_complete);
}

bool elf_symbols_lookup(const struct symbol_module *module, struct elf_symbols *symbols, uint64_t vaddr, struct symbol_hit *out)
{
	const struct table_symbol *found = symbol_table_find(&symbols->table, vaddr);
	if (found != NULL && !(found->flags & TABLE_SIZED) && !reaches(module, symbols, found, vaddr))
		found = NULL;
	if (found == NULL || (found->flags & TABLE_LABEL)) {
		if (symbols->plt == NULL)
			symbols->plt = plt_new(module->image);
		if (plt_lookup(symbols->plt, &symbols->table, vaddr, out))
			return true;
	}
	if (found == NULL)
		return false;
	*out = (struct symbol_hit){ .start = found->start };
	if (!symbols->table.overlaps && !(found->flags & TABLE_LABEL) && (found->flags & TABLE_SIZED))
		out->size = found->end - found->start;
	out->name = symbol_table_name(&symbols->table, found, &out->length);
	out->has_aliases = (found->flags & TABLE_ALIASED) != 0;
	out->is_local = found->space == SPACE_SYMTAB && (found->flags & (TABLE_FUNCTION | TABLE_GLOBAL | TABLE_WEAK)) == TABLE_FUNCTION;
	return out->length > 0;
}

// Copies of one generic function have one name: rustc makes them local, too (RFC 2603; and the hash of the older scheme).
bool elf_symbols_local(struct elf_symbols *symbols, const struct symbol_hit *hit, struct symbol_local *out)
{
	bool is_v0 = hit->length > 2 && hit->name[0] == '_' && hit->name[1] == 'R';
	bool is_hashed = hit->length > 20 && memcmp(hit->name + hit->length - 20, "17h", 3) == 0 && hit->name[hit->length - 1] == 'E';
	const struct table_symbol *symbol = symbol_table_find(&symbols->table, hit->start);
	if (is_v0 || is_hashed || symbol == NULL)
		return false;
	*out = (struct symbol_local){ .vaddr = hit->start, .unit = symbol->unit };
	if (symbol->unit == 0)
		return true;
	struct bytes name = symbols->table.names[SPACE_SYMTAB];
	bytes_skip(&name, symbols->units.data[symbol->unit]);
	const char *text = bytes_cstr(&name);
	out->source = name.bad || text[0] == '\0' ? NULL : text;
	return true;
}

bool elf_symbols_alias(struct elf_symbols *symbols, const struct symbol_hit *hit, size_t *at, struct symbol_hit *out)
{
	const struct table_symbol *shown = symbol_table_find(&symbols->table, hit->start), *alias;
	while (shown != NULL && (alias = symbol_table_alias(&symbols->table, shown, (*at)++)) != NULL) {
		*out = (struct symbol_hit){ .start = hit->start };
		out->name = symbol_table_name(&symbols->table, alias, &out->length);
		if (out->length == 0 || symbol_is_reserved(out->name, out->length))
			continue;
		// In C a weak name beside another is one by declaration (weak_alias); in C++ templates are all weak.
		bool is_mangled = symbol_is_mangled(out->name, out->length) || symbol_is_mangled(hit->name, hit->length);
		if (is_mangled || !((alias->flags ^ shown->flags) & TABLE_WEAK))
			return true;
	}
	return false;
}

void elf_symbols_release(struct elf_symbols *symbols)
{
	symbol_table_release(&symbols->table);
	vec_release(&symbols->units);
	for (size_t i = 0; i < TABLE_SPACES; i++)
		buf_release(&symbols->storage[i]);
	plt_free(symbols->plt);
	extents_free(symbols->extents);
	image_release(symbols->mini);
	free(symbols);
}
