// Symbols as they stand in an image's tables, for the few that are looked for so; most addresses are the symbolizer's business (symbols/).
#include <elf.h>
#include <string.h>

#include "elf/image.h"

// left: bytes of names that may be looked through. All of a hostile table's symbols may share one name that is as long as the file.
struct table { struct bytes symbols, names; uint64_t left; };
enum { TABLES_MOST = 16, NAME_TIMES = 16, NAMES_LEAST = 1 << 20 };

struct symbol {
	const char *name; // "" when it is out of bounds
	uint64_t vaddr, size;
	uint8_t type, binding;
	bool is_defined;
	uint32_t section; // index, if it is defined in one
};

static bool open_table(const struct image *image, const struct image_section *section, struct table *out)
{
	bool is_good = (section->type == SHT_SYMTAB || section->type == SHT_DYNSYM) && section->link < image->section_count &&
	               image_section_raw(image, section, &out->symbols) && image_section_raw(image, &image->sections[section->link], &out->names);
	if (is_good)
		out->left = (uint64_t)bytes_left(&out->names) * NAME_TIMES + NAMES_LEAST;
	return is_good;
}

// false: no further one.
static bool next(const struct image *image, struct table *table, struct symbol *out)
{
	struct bytes *from = &table->symbols, text = table->names;
	uint32_t index;

	if (bytes_left(from) < (image->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym)))
		return false;
	bytes_skip(&text, bytes_u32(from));
	if (image->is_64) {
		out->type = bytes_u8(from);
		bytes_skip(from, 1);
		index = bytes_u16(from);
		out->vaddr = bytes_u64(from);
		out->size = bytes_u64(from);
	} else {
		out->vaddr = bytes_u32(from);
		out->size = bytes_u32(from);
		out->type = bytes_u8(from);
		bytes_skip(from, 1);
		index = bytes_u16(from);
	}
	out->binding = out->type >> 4;
	out->type &= 15;
	uint64_t before = bytes_left(&text);
	const char *name = bytes_cstr(&text);
	uint64_t looked = text.bad ? before : before - bytes_left(&text);
	if (looked > table->left)
		return false;
	table->left -= looked;
	out->name = text.bad ? "" : name;
	out->is_defined = index != SHN_UNDEF;
	out->section = index;
	return true;
}

bool image_find_symbol(const struct image *image, const char *name, uint64_t *vaddr)
{
	struct table table;
	struct symbol symbol;

	for (size_t i = 0, tables = 0; i < image->section_count && tables < TABLES_MOST; i++) {
		if (!open_table(image, &image->sections[i], &table))
			continue;
		tables++;
		while (next(image, &table, &symbol))
			if (symbol.is_defined && strcmp(symbol.name, name) == 0) {
				*vaddr = symbol.vaddr;
				return true;
			}
	}
	return false;
}

void image_each_function(const struct image *image, image_function_fn *visit, void *context)
{
	struct table table;
	struct symbol symbol;

	for (size_t i = 0, tables = 0; i < image->section_count && tables < TABLES_MOST; i++) {
		if (image->sections[i].type != SHT_SYMTAB || !open_table(image, &image->sections[i], &table))
			continue;
		tables++;
		while (next(image, &table, &symbol)) {
			bool is_relative = image->type == ET_REL;
			if (!symbol.is_defined || symbol.type != STT_FUNC || symbol.size == 0 || symbol.name[0] == '\0' ||
			    (is_relative && symbol.section >= image->section_count))
				continue;
			if (!visit(context, symbol.name, symbol.vaddr + (is_relative ? image->sections[symbol.section].vaddr : 0), symbol.size))
				return;
		}
	}
}

const char *image_function_at(const struct image *image, uint64_t vaddr, uint64_t *start)
{
	struct table table;
	struct symbol symbol;
	const char *best = NULL;

	for (size_t i = 0; best == NULL && i < image->section_count; i++) {
		if (!open_table(image, &image->sections[i], &table))
			continue;
		while (next(image, &table, &symbol)) {
			uint64_t first = image->machine == EM_ARM ? symbol.vaddr & ~(uint64_t)1 : symbol.vaddr; // AAELF32, 5.5.3
			if (symbol.is_defined && symbol.type == STT_FUNC && symbol.name[0] != '\0' && vaddr - first < symbol.size &&
			    (best == NULL || symbol.vaddr > *start)) {
				best = symbol.name;
				*start = symbol.vaddr;
			}
		}
	}
	return best;
}

static unsigned rank_of(const struct symbol *symbol)
{
	return symbol->binding == STB_LOCAL ? 1 : symbol->binding == STB_WEAK ? 2 : 3;
}

static bool is_better(const struct symbol *symbol, const struct symbol *best)
{
	if (best->name == NULL || symbol->vaddr != best->vaddr)
		return best->name == NULL || symbol->vaddr > best->vaddr;
	if (rank_of(symbol) != rank_of(best))
		return rank_of(symbol) > rank_of(best);
	return symbol->size < best->size;
}

const char *image_symbol_at(const struct image *image, uint64_t vaddr, uint64_t *start)
{
	const struct image_section *section = NULL;
	struct symbol symbol, best = { 0 };
	struct table table;

	for (size_t i = 0; i < image->section_count; i++)
		if (image->sections[i].type == SHT_SYMTAB || (image->sections[i].type == SHT_DYNSYM && section == NULL))
			section = &image->sections[i];
	for (int locals = 0; section != NULL && best.name == NULL && locals < 2; locals++) {
		if (!open_table(image, section, &table))
			break;
		while (next(image, &table, &symbol))
			if (symbol.is_defined && (symbol.binding == STB_LOCAL) == locals && symbol.type != STT_SECTION && symbol.type != STT_FILE &&
			    symbol.type != STT_TLS && symbol.name[0] != '\0' && vaddr - symbol.vaddr < symbol.size && is_better(&symbol, &best))
				best = symbol;
	}
	*start = best.vaddr;
	return best.name;
}
