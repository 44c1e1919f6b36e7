#include "cmd/debug_witness.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/vec.h"
#include "cmd/debug_code.h"
#include "cmd/debug_forward.h"
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

enum { DWARF_RBP = 6, DWARF_RSP = 7 };

struct witness {
	struct libunwind *libunwind;
	struct code *code;
	struct forward *forward;
	const struct unwind_input *input; // of the stack at hand
	const struct unwind_stack *out; // as far as it is found
	size_t differs, run_from, run_to; // where the two that are judged differ first, and which frames are run on
	struct libunwind_registers last; // the caller of the last that was run on
	bool has_last;
	struct witness_counts counts;
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

// The bytes of code that is in no image.
static bool known_code(const struct unwind_input *input, uint64_t addr, struct unwind_code *out)
{
	if (input->code == NULL)
		return false;
	*out = input->code(input->code_context, addr);
	return out->id != 0 && addr - out->start < out->end - out->start;
}

enum call call_before(struct witness *w, const struct unwind_input *input, uint64_t ra, uint64_t pc)
{
	enum { FUNCTION_BYTES = 1 << 16 };
	const struct unwind_arch *arch = unwind_arch_for(input->machine);
	struct unwind_map map;
	struct bytes code;
	struct code_function function;
	struct unwind_code jit;
	int64_t distance = 0;
	bool good;

	if (arch == NULL || !is_mapped_code(input, ra - 1, &map))
		return CALLS_NOT;
	if (map.image == NULL && !known_code(input, ra - 1, &jit))
		return CALL_UNREADABLE;
	if (map.image == NULL)
		good = ra - jit.start >= UNWIND_CALL_BYTES && arch->is_call != NULL && arch->is_call(jit.bytes + (ra - jit.start), UNWIND_CALL_BYTES, &distance);
	else
		good = arch->is_call != NULL && image_at_vaddr(map.image->image, ra - UNWIND_CALL_BYTES - map.bias, UNWIND_CALL_BYTES, &code) &&
		       arch->is_call(code.end, UNWIND_CALL_BYTES, &distance);
	if (!good)
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

// The function that has an address, by its image's symbols, else by its CFI, or by the jitdump that has it. `*is_part`: of one, which is jumped to, with a frame.
static bool any_function_at(struct witness *w, const struct unwind_input *input, uint64_t addr, uint64_t *start, bool *is_part, struct code_function *out)
{
	struct unwind_map map = input->map(input->map_context, addr);
	const struct cfi_section *section;
	struct cfi_row row;
	struct cfi_fde fde;

	*is_part = false;
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
	*is_part = out->is_c && !(row.cfa.kind == CFI_REGISTER && row.cfa.value == DWARF_RSP && row.cfa_offset == 8);
	return true;
}

static bool function_at(struct witness *w, const struct unwind_input *input, uint64_t addr, uint64_t *start, struct code_function *out)
{
	bool is_part;

	return any_function_at(w, input, addr, start, &is_part, out) && !is_part;
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

// ---------------------------------------------------------------- code run on
static bool code_at(void *context, uint64_t addr, struct forward_code *out)
{
	struct witness *w = context;
	struct code_function function;
	struct unwind_code jit;
	uint64_t start;
	bool is_part;

	if (any_function_at(w, w->input, addr, &start, &is_part, &function)) {
		*out = (struct forward_code){
			.key = function.key, .addr = start, .bytes = function.bytes, .size = function.size, .is_c = function.is_c, .is_function = true,
			.is_steady = function.bytes != (const uint8_t *)w->jit.data,
		};
		return true;
	}
	struct unwind_map map = w->input->map(w->input->map_context, addr);
	for (size_t i = 0; map.image != NULL && i < map.image->image->segment_count; i++) { // nothing names a function
		const struct image_segment *segment = &map.image->image->segments[i];
		struct bytes bytes;
		if (addr - map.bias - segment->vaddr >= segment->file_size || !image_at_vaddr(map.image->image, segment->vaddr, segment->file_size, &bytes))
			continue;
		*out = (struct forward_code){
			.key = hash_pair((uint64_t)(uintptr_t)map.image->image, segment->vaddr), .addr = segment->vaddr + map.bias, .bytes = bytes.at,
			.size = segment->file_size, .is_steady = true,
		};
		return true;
	}
	if (map.image != NULL || !known_code(w->input, addr, &jit))
		return false;
	*out = (struct forward_code){ .key = jit.id, .addr = jit.start, .bytes = jit.bytes, .size = (size_t)(jit.end - jit.start) };
	return true;
}

static bool word_of_stack(void *context, uint64_t addr, uint64_t *out)
{
	const struct witness *w = context;

	return copied_word((void *)w->input, addr, out);
}

static bool is_caller(void *context, uint64_t ra, uint64_t pc, bool is_strict)
{
	struct witness *w = context;
	enum call call = call_before(w, w->input, ra, pc);

	return is_strict ? call == CALLS || call == CALLS_THROUGH : call != CALLS_NOT;
}

static bool may_leave(void *context, uint64_t addr, bool is_to_function)
{
	struct witness *w = context;
	struct code_function function;
	uint64_t start;

	return function_at(w, w->input, addr, &start, &function) && code_may_leave(w->code, &function, addr - start, is_to_function);
}

static bool keeps_sp(void *context, uint64_t addr)
{
	struct witness *w = context;
	struct code_function function;
	uint64_t start;

	return function_at(w, w->input, addr, &start, &function) && start == addr && code_pops_nothing(w->code, &function);
}

static bool run_on(struct witness *w, enum frame_kind kind, const struct libunwind_registers *registers, struct libunwind_registers *out)
{
	enum { BELOW_SP_BYTES = 1 << 20, STACK_BYTES = 8 << 20, PERF_FLAGS = 9 }; // PERF_REG_X86_FLAGS of asm/perf_regs.h
	const uint32_t handed_back = 1u << LIBUNWIND_PC | 1u << 7 | 1u << 6 | 1u << 3 | 0xfu << 12;
	const struct unwind_input *input = w->input;
	uint64_t sp = input->regs[__builtin_popcountll(input->regs_mask & (((uint64_t)1 << unwind_arch_for(input->machine)->perf_sp) - 1))];
	struct forward_scene scene = { .code = code_at, .word = word_of_stack, .is_caller = is_caller, .may_leave = may_leave, .keeps_sp = keeps_sp, .context = w };
	struct forward_start start = { .registers = *registers, .is_return = kind == FRAME_RETURN };

	scene.stack_start = sp > BELOW_SP_BYTES ? sp - BELOW_SP_BYTES : 0;
	scene.stack_end = input->stack_top > sp ? input->stack_top : sp < UINT64_MAX / 2 ? sp + input->stack_size + STACK_BYTES : UINT64_MAX;
	if (kind == FRAME_RETURN)
		start.registers.known &= handed_back;
	if (kind == FRAME_LEAF && (input->regs_mask >> PERF_FLAGS & 1) != 0) {
		start.flags = (uint32_t)input->regs[__builtin_popcountll(input->regs_mask & (((uint64_t)1 << PERF_FLAGS) - 1))];
		start.flags_known = 0x8c5;
	}
	// What called a function that popped its arguments stands elsewhere than before the call.
	if (w->has_last && kind == FRAME_RETURN && w->last.value[LIBUNWIND_PC] == registers->value[LIBUNWIND_PC])
		start.registers = w->last;
	return forward_caller(w->forward, &scene, &start, out);
}

// Whether the function that has an address keeps to the psABI: what it calls pops nothing, and hands back its registers.
static bool is_c_at(struct witness *w, const struct unwind_input *input, uint64_t addr)
{
	struct code_function function;
	uint64_t start;
	bool is_part;

	return any_function_at(w, input, addr, &start, &is_part, &function) && function.is_c;
}

// Whether two judges say the same, as far as both say something of what does not change at the return. All that either knows is put into `one`.
static bool agree(struct libunwind_registers *one, bool *is_exact, const struct libunwind_registers *other, bool is_c)
{
	for (unsigned reg = 0; reg < LIBUNWIND_REGISTERS; reg++) {
		bool is_known = reg == DWARF_RSP ? *is_exact : (one->known >> reg & 1) != 0, is_also = (other->known >> reg & 1) != 0;
		if (!is_also || (!is_c && reg == DWARF_RSP))
			continue;
		if (is_known && (is_c || reg == DWARF_RBP || reg == LIBUNWIND_PC) && one->value[reg] != other->value[reg])
			return false;
		if (!is_known)
			one->value[reg] = other->value[reg];
		one->known |= 1u << reg;
		*is_exact = *is_exact || reg == DWARF_RSP;
	}
	return true;
}

static bool tell(void *context, const struct unwind_input *input, enum frame_kind kind, const struct libunwind_registers *registers,
                 struct libunwind_registers *caller, bool *is_exact)
{
	struct witness *w = context;
	uint64_t pc = registers->value[LIBUNWIND_PC], start;
	struct code_function function;
	struct libunwind_registers on;
	// No call: it is no function that is called, or something was missed.
	bool is_told = function_at(w, input, pc - (kind == FRAME_RETURN), &start, &function) &&
	               code_caller(w->code, &function, pc - start, kind == FRAME_RETURN, registers, copied_word, (void *)input, caller, is_exact) &&
	               call_before(w, input, caller->value[LIBUNWIND_PC], pc) != CALLS_NOT;
	size_t frame = w->out->count - 1;
	bool is_wanted = is_told ? frame >= w->run_from && frame <= w->differs : frame == 0 || (w->run_from != SIZE_MAX && frame < w->run_to);
	bool is_run = is_wanted && run_on(w, kind, registers, &on);

	w->has_last = is_run;
	if (is_run)
		w->last = on;
	w->counts.begun += is_told;
	w->counts.run += is_run;
	w->counts.both += is_told && is_run;
	bool is_c = is_run && is_c_at(w, input, on.value[LIBUNWIND_PC] - 1);
	if (is_told && is_run && !agree(caller, is_exact, &on, is_c)) {
		w->counts.contradictions++;
		w->has_last = false;
		return false;
	}
	if (is_run && !is_told) {
		*caller = on;
		caller->known |= 1u << DWARF_RSP;
		*is_exact = is_c && (on.known >> DWARF_RSP & 1) != 0;
	}
	return is_told || is_run;
}

void witness_stack(struct witness *w, const struct unwind_input *input, const struct unwind_stack *ours, const struct unwind_stack *theirs,
                   struct unwind_stack *out)
{
	enum { FRAMES_BEFORE = 2, FRAMES_AFTER = 6 };
	size_t same = 0, alike = 0; // frames, from the leaf and from the root on

	while (same < ours->count && same < theirs->count && ours->frames[same].addr == theirs->frames[same].addr)
		same++;
	w->input = input;
	w->out = out;
	w->run_from = same == ours->count && same == theirs->count ? SIZE_MAX : same > FRAMES_BEFORE ? same - FRAMES_BEFORE : 0;
	while (alike < ours->count - same && alike < theirs->count - same &&
	       ours->frames[ours->count - 1 - alike].addr == theirs->frames[theirs->count - 1 - alike].addr)
		alike++;
	w->run_to = ours->count - alike + FRAMES_AFTER;
	w->differs = same;
	w->has_last = false;
	libunwind_stack_guided(w->libunwind, input, tell, w, out);
}

bool witness_new(struct witness **out, struct err *err)
{
	struct witness *w = NEW(struct witness);

	*out = NULL;
	if (!libunwind_new(&w->libunwind, err) || !code_new(&w->code, err) || !forward_new(&w->forward, err)) {
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
	forward_free(w->forward);
	libunwind_free(w->libunwind);
	free(w);
}

struct witness_counts witness_counts(const struct witness *w)
{
	return w->counts;
}
