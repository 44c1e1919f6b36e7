#include "cmd/debug_witness.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/vec.h"
#include "cmd/debug_code.h"
#include "load/load.h"
#include "symbols/elf_symbols.h"
#include "symbols/module.h"
#include "unwind/libunwind_backend.h"
#include "unwind/rule_table.h"

// The functions of an image. A reference is held: its address is a name for it.
struct functions {
	struct symbol_module module;
	struct elf_symbols *symbols; // NULL: none
};

enum { DWARF_RSP = 7 };

struct witness {
	struct libunwind *libunwind;
	struct code *code;
	struct symbolizer_options options;
	VEC(struct functions *) images;
	struct buf jit;
};

static bool is_mapped_code(const struct unwind_input *input, uint64_t addr, struct unwind_map *map)
{
	*map = input->map(input->map_context, addr);
	return map->end > map->start && (map->image != NULL || map->missing != UNWIND_NO_MAPPING);
}

static bool function_at(struct witness *w, const struct unwind_input *input, uint64_t addr, uint64_t *start, struct code_function *out);

enum call call_before(struct witness *w, const struct unwind_input *input, uint64_t ra, uint64_t pc)
{
	enum { FUNCTION_BYTES = 1 << 16 };
	const struct unwind_arch *arch = unwind_arch_for(input->machine);
	struct unwind_map map;
	struct bytes code;
	struct code_function function;
	int64_t distance;

	if (arch == NULL || !is_mapped_code(input, ra - 1, &map))
		return CALLS_NOT;
	if (map.image == NULL)
		return CALL_UNREADABLE;
	if (arch->is_call == NULL || !image_at_vaddr(map.image->image, ra - UNWIND_CALL_BYTES - map.bias, UNWIND_CALL_BYTES, &code) ||
	    !arch->is_call(code.end, UNWIND_CALL_BYTES, &distance))
		return CALLS_NOT;
	uint64_t target = ra + (uint64_t)distance;
	if (distance == 0 || pc - target < FUNCTION_BYTES)
		return CALLS;
	if (!is_mapped_code(input, target, &map) || map.image == NULL)
		return CALLS_ELSEWHERE;
	if (image_at_vaddr(map.image->image, target - map.bias, UNWIND_CODE_BYTES, &code) && arch->is_stub(code.at, UNWIND_CODE_BYTES))
		return CALLS_THROUGH;
	return w != NULL && function_at(w, input, target, &target, &function) && code_jumps_on(w->code, &function) ? CALLS_THROUGH : CALLS_ELSEWHERE;
}

static struct functions *functions_of(struct witness *w, struct image *image)
{
	for (size_t i = 0; i < w->images.count; i++)
		if (w->images.data[i]->module.image == image)
			return w->images.data[i];
	struct functions *made = NEW(struct functions);
	made->module = (struct symbol_module){ .wanted = { .path = image->path, .map_fd = -1 }, .options = &w->options, .is_open = true, .image = image_retain(image) };
	if (!elf_symbols_open(&made->module, &made->symbols))
		made->symbols = NULL;
	vec_push(&w->images, made);
	return made;
}

// By the symbols of an image. Labels without a size may be entered otherwise than by a call.
static bool function_in(struct functions *functions, uint64_t vaddr, struct code_function *out);

static bool other_function(void *context, uint64_t addr, struct code_function *out);

static bool function_of(struct functions *functions, uint64_t start, uint64_t size, struct code_function *out)
{
	const struct image *image = functions->module.image;
	struct bytes code;

	if (!image_at_vaddr(image, start, size, &code))
		return false;
	*out = (struct code_function){
		.key = hash_pair((uint64_t)(uintptr_t)image, start), .addr = start, .bytes = code.at, .size = size, .other = other_function, .context = functions,
	};
	return true;
}

// The one that begins at an address.
static bool other_function(void *context, uint64_t addr, struct code_function *out)
{
	return function_in(context, addr, out) && out->addr == addr;
}

static bool function_in(struct functions *functions, uint64_t vaddr, struct code_function *out)
{
	struct symbol_hit hit;

	return functions->symbols != NULL && elf_symbols_lookup(&functions->module, functions->symbols, vaddr, &hit) && hit.size > 0 && !hit.is_stub &&
	       function_of(functions, hit.start, hit.size, out);
}

// The function that has an address, by its image's symbols, else by its CFI, or by the jitdump that has it.
static bool function_at(struct witness *w, const struct unwind_input *input, uint64_t addr, uint64_t *start, struct code_function *out)
{
	struct unwind_map map = input->map(input->map_context, addr);
	const struct cfi_section *section;
	struct cfi_row row;
	struct cfi_fde fde;

	if (map.image == NULL) {
		if (map.missing != UNWIND_NO_CFI || !load_jit_code(input, addr, start, &w->jit) || w->jit.size == 0)
			return false;
		*out = (struct code_function){ .key = hash_bytes(w->jit.data, w->jit.size), .bytes = (const uint8_t *)w->jit.data, .size = w->jit.size };
		return true;
	}
	struct functions *functions = functions_of(w, map.image->image);
	if (!function_in(functions, addr - map.bias, out) &&
	    !(rule_table_row(map.image, addr - map.bias, &row, &fde, &section) && function_of(functions, fde.start, fde.end - fde.start, out)))
		return false;
	*start = out->addr + map.bias;
	out->is_c = rule_table_row(map.image, out->addr, &row, &fde, &section);
	out->key += out->is_c;
	// A part of a function is jumped to, with a frame.
	return !out->is_c || (row.cfa.kind == CFI_REGISTER && row.cfa.value == DWARF_RSP && row.cfa_offset == 8);
}

static bool copied_word(void *context, uint64_t addr, uint64_t *out)
{
	const struct unwind_input *input = context;
	const struct unwind_arch *arch = unwind_arch_for(input->machine);
	uint64_t sp = input->regs[__builtin_popcountll(input->regs_mask & (((uint64_t)1 << arch->perf_sp) - 1))], offset = addr - sp;

	if (offset >= input->stack_size || input->stack_size - offset < sizeof(*out))
		return false;
	memcpy(out, input->stack + offset, sizeof(*out));
	return true;
}

static bool tell(void *context, const struct unwind_input *input, enum frame_kind kind, const struct libunwind_registers *registers,
                 struct libunwind_registers *caller, bool *is_exact)
{
	struct witness *w = context;
	uint64_t pc = registers->value[LIBUNWIND_PC], start;
	struct code_function function;

	if (!function_at(w, input, pc - (kind == FRAME_RETURN), &start, &function) ||
	    !code_caller(w->code, &function, pc - start, kind == FRAME_RETURN, registers, copied_word, (void *)input, caller, is_exact))
		return false;
	// No return address: it is no function that is called, or something was missed.
	return call_before(w, input, caller->value[LIBUNWIND_PC], pc) != CALLS_NOT;
}

void witness_stack(struct witness *w, const struct unwind_input *input, struct unwind_stack *out)
{
	libunwind_stack_guided(w->libunwind, input, tell, w, out);
}

bool witness_new(struct witness **out, struct err *err)
{
	struct witness *w = NEW(struct witness);

	*out = NULL;
	if (!libunwind_new(&w->libunwind, err) || !code_new(&w->code, err)) {
		witness_free(w);
		return false;
	}
	*out = w;
	return true;
}

void witness_free(struct witness *w)
{
	if (w == NULL)
		return;
	for (size_t i = 0; i < w->images.count; i++) {
		if (w->images.data[i]->symbols != NULL)
			elf_symbols_release(w->images.data[i]->symbols);
		image_release(w->images.data[i]->module.image);
		free(w->images.data[i]);
	}
	vec_release(&w->images);
	buf_release(&w->jit);
	code_free(w->code);
	libunwind_free(w->libunwind);
	free(w);
}
