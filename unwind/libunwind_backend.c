#include "unwind/libunwind_backend.h"

#include <stdlib.h>

#if defined(__x86_64__) && defined(__has_include) && __has_include(<libunwind.h>)
#include <dlfcn.h>
#include <elf.h>
#include <libunwind.h>

#include "base/vec.h"
#include "unwind/rule_table.h"
#include "unwind/stack_view.h"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define FUNCTIONS(F) \
	F(create_addr_space) F(destroy_addr_space) F(init_remote) F(step) F(get_reg) F(is_signal_frame) F(flush_cache) F(set_caching_policy)

struct seen_image {
	const struct unwind_image *image;
	uint64_t bias;
};

struct libunwind {
	void *library;
#define DECLARE(name) __typeof__(unw_##name) *name;
	FUNCTIONS(DECLARE)
	int (*search_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t *, unw_proc_info_t *, int, void *);
	unw_addr_space_t space;
	uint64_t generation;
	bool has_generation;
	// Of the stack at hand.
	const struct unwind_input *input;
	const struct unwind_arch *arch;
	struct stack_view view;
	// Whose CFI is being read: recordings tell executable mappings alone, and .eh_frame is in none.
	const struct image *image;
	uint64_t bias, image_base;
	VEC(struct seen_image) seen; // of this generation: rules that are cached are not searched for, and expressions in them are read where they stand
	const struct rule_table *table; // of an image without .eh_frame_hdr: its index of FDEs, which libunwind reads at TABLE_VADDR; else NULL
	enum unwind_end missed; // why the last thing asked for was not there; UNWIND_ROOT: nothing was
	bool no_cfi; // for the frame at hand
	const struct libunwind_registers *registers; // to begin with, in the sample's stead; NULL: the sample's
};

static struct unwind_map map_of(const struct libunwind *peer, uint64_t addr)
{
	struct unwind_map map = peer->input->map(peer->input->map_context, addr);
	if (addr < map.start || addr >= map.end)
		map = (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	return map;
}

// No address space has anything there.
#define TABLE_VADDR (UINT64_C(1) << 62)

static int search(struct libunwind *peer, unw_word_t ip, unw_proc_info_t *info, int need, unw_dyn_info_t *table)
{
	table->format = UNW_INFO_FORMAT_REMOTE_TABLE;
	int status = peer->search_table(peer->space, ip, table, info, need, peer);
	peer->no_cfi = status != 0;
	if (status == 0)
		peer->missed = UNWIND_ROOT;
	return status;
}

// What a JIT compiler made has no .eh_frame_hdr: libunwind gets our index for one.
static int search_index(struct libunwind *peer, unw_word_t ip, unw_proc_info_t *info, int need, const struct unwind_map *map)
{
	const struct rule_table *table = map->image->table_count > 0 ? &map->image->tables[0] : NULL;

	if (table == NULL || table->section.is_debug_frame || table->fde_count == 0)
		return -UNW_ENOINFO;
	peer->table = table;
	unw_dyn_info_t index = {
		.start_ip = map->start, .end_ip = map->end,
		.u.rti = { .segbase = map->bias + table->section.vaddr, .table_data = TABLE_VADDR, .table_len = table->fde_count * 8 / sizeof(unw_word_t) },
	};
	return search(peer, ip, info, need, &index);
}

// A word of that index, as .eh_frame_hdr's table has them: where the function begins, and its FDE, both from the section on.
static bool index_word(const struct libunwind *peer, uint64_t addr, unw_word_t *value)
{
	const struct rule_table *table = peer->table;
	uint64_t at = (addr - TABLE_VADDR) / 8;

	if (table == NULL || addr < TABLE_VADDR || at >= table->fde_count)
		return false;
	struct fde_ref ref = rule_table_ref(table, (size_t)at);
	uint64_t base = peer->image_base + ref.start - table->section.vaddr;
	*value = (base & UINT32_MAX) | (uint64_t)ref.offset << 32;
	return true;
}

static void note_image(struct libunwind *peer, const struct unwind_image *image, uint64_t bias)
{
	for (size_t i = 0; i < peer->seen.count; i++)
		if (peer->seen.data[i].image == image && peer->seen.data[i].bias == bias)
			return;
	vec_push(&peer->seen, ((struct seen_image){ .image = image, .bias = bias }));
}

// .eh_frame_hdr: version, three encodings, the address of .eh_frame, the count, the table (LSB 5.0 Core, 10.6.2).
static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *info, int need, void *context)
{
	enum { TABLE_AT = 12, DATAREL_SDATA4 = 0x3b, UDATA4 = 3, PCREL_SDATA4 = 0x1b };
	struct libunwind *peer = context;
	struct unwind_map map = map_of(peer, ip);
	struct bytes hdr;

	(void)space;
	peer->no_cfi = true;
	peer->missed = map.end == 0 ? UNWIND_NO_MAPPING : map.image == NULL ? map.missing : UNWIND_NO_CFI;
	if (map.image == NULL)
		return -UNW_ENOINFO;
	const struct image *image = map.image->image;
	note_image(peer, map.image, map.bias);
	peer->image = image;
	peer->image_base = map.image->base;
	peer->bias = map.bias;
	peer->table = NULL;
	if (image->eh_frame_hdr_size == 0)
		return search_index(peer, ip, info, need, &map);
	if (image->eh_frame_hdr_size < TABLE_AT || !image_at_vaddr(image, image->eh_frame_hdr_vaddr, TABLE_AT, &hdr))
		return -UNW_ENOINFO;
	if (hdr.at[0] != 1 || hdr.at[1] != PCREL_SDATA4 || hdr.at[2] != UDATA4 || hdr.at[3] != DATAREL_SDATA4)
		return -UNW_ENOINFO;
	bytes_skip(&hdr, 8);
	uint64_t count = bytes_u32(&hdr), base = map.bias + image->eh_frame_hdr_vaddr;
	unw_dyn_info_t table = {
		.start_ip = map.start, .end_ip = map.end,
		.u.rti = { .segbase = base, .table_data = base + TABLE_AT, .table_len = count * 8 / sizeof(unw_word_t) },
	};
	return search(peer, ip, info, need, &table);
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *context)
{
	(void)space, (void)info, (void)context;
}

static int get_dyn_info_list(unw_addr_space_t space, unw_word_t *out, void *context)
{
	(void)space, (void)out, (void)context;
	return -UNW_ENOINFO;
}

// Words near a segment's end are asked for whole.
static bool image_word(const struct image *image, const struct cfi_section *section, uint64_t vaddr, unw_word_t *value)
{
	struct bytes at;

	if (section != NULL && vaddr - section->vaddr < (uint64_t)(section->data.end - section->data.start)) {
		at = section->data;
		bytes_skip(&at, vaddr - section->vaddr);
		*value = 0;
		memcpy(value, at.at, bytes_left(&at) < sizeof(*value) ? bytes_left(&at) : sizeof(*value));
		return true;
	}
	for (size_t size = 8; image != NULL && size > 0; size--)
		if (image_at_vaddr(image, vaddr, size, &at)) {
			uint64_t word = 0;
			memcpy(&word, at.at, size);
			*value = word;
			return true;
		}
	return false;
}

// A word of some .eh_frame.
static bool seen_word(const struct libunwind *peer, uint64_t addr, unw_word_t *value)
{
	for (size_t i = 0; i < peer->seen.count; i++) {
		const struct seen_image *seen = &peer->seen.data[i];
		for (size_t k = 0; k < seen->image->table_count; k++) {
			const struct cfi_section *section = &seen->image->tables[k].section;
			uint64_t vaddr = addr - seen->bias;
			if (!section->is_debug_frame && vaddr - section->vaddr < (uint64_t)(section->data.end - section->data.start))
				return image_word(NULL, section, vaddr, value);
		}
	}
	return false;
}

static int access_mem(unw_addr_space_t space, unw_word_t addr, unw_word_t *value, int write, void *context)
{
	struct libunwind *peer = context;
	uint64_t word, offset = addr - peer->view.start;

	(void)space;
	if (write)
		return -UNW_EINVAL;
	if (offset < peer->view.size && peer->view.size - offset >= 8) {
		memcpy(&word, peer->view.bytes + offset, 8);
		*value = word;
		return 0;
	}
	if (index_word(peer, addr, value) || image_word(peer->image, peer->table != NULL ? &peer->table->section : NULL, addr - peer->bias, value))
		return 0;
	struct unwind_map map = map_of(peer, addr);
	if (map.image != NULL && image_word(map.image->image, NULL, addr - map.bias, value))
		return 0;
	// Before it follows a frame pointer it asks whether there is code at all. There is, if not in a file that could be read.
	if (map.image == NULL && map.end > map.start && map.missing != UNWIND_NO_MAPPING) {
		*value = 0;
		return 0;
	}
	if (seen_word(peer, addr, value))
		return 0;
	peer->missed = map.image == NULL ? stack_miss(&peer->view, addr) : UNWIND_BAD_READ;
	return -UNW_EINVAL;
}

// libunwind's numbers are DWARF's here.
static int access_reg(unw_addr_space_t space, unw_regnum_t reg, unw_word_t *value, int write, void *context)
{
	struct libunwind *peer = context;
	const struct unwind_input *input = peer->input;

	(void)space;
	if (write || reg < 0 || reg >= UNWIND_REGISTERS)
		return -UNW_EBADREG;
	if (peer->registers != NULL) {
		bool is_known = reg < LIBUNWIND_REGISTERS && (peer->registers->known >> reg & 1) != 0;
		*value = is_known ? peer->registers->value[reg] : 0;
		return is_known ? 0 : -UNW_EBADREG;
	}
	unsigned perf = peer->arch->dwarf_to_perf[reg];
	if (perf >= 64 || (input->regs_mask >> perf & 1) == 0)
		return -UNW_EBADREG;
	*value = input->regs[__builtin_popcountll(input->regs_mask & (((uint64_t)1 << perf) - 1))];
	return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t reg, unw_fpreg_t *value, int write, void *context)
{
	(void)space, (void)reg, (void)value, (void)write, (void)context;
	return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *context)
{
	(void)space, (void)cursor, (void)context;
	return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space, unw_word_t addr, char *name, size_t size, unw_word_t *offset, void *context)
{
	(void)space, (void)addr, (void)name, (void)size, (void)offset, (void)context;
	return -UNW_EINVAL;
}

bool libunwind_new(struct libunwind **out, struct err *err)
{
	struct libunwind *peer = NEW(struct libunwind);
	bool good = true;

	*out = NULL;
	peer->library = dlopen("libunwind-x86_64.so.8", RTLD_NOW | RTLD_LOCAL);
	if (peer->library == NULL) {
		err_set(err, STATUS_HOST, "libunwind: %s", dlerror());
		free(peer);
		return false;
	}
#define FIND(name) good = good && (peer->name = (__typeof__(unw_##name) *)dlsym(peer->library, TEXT(unw_##name))) != NULL;
	FUNCTIONS(FIND)
	peer->search_table = (__typeof__(peer->search_table))dlsym(peer->library, TEXT(UNW_OBJ(dwarf_search_unwind_table)));
	unw_accessors_t accessors = {
		.find_proc_info = find_proc_info, .put_unwind_info = put_unwind_info, .get_dyn_info_list_addr = get_dyn_info_list,
		.access_mem = access_mem, .access_reg = access_reg, .access_fpreg = access_fpreg, .resume = resume, .get_proc_name = get_proc_name,
	};
	if (good && peer->search_table != NULL)
		peer->space = peer->create_addr_space(&accessors, 0);
	if (peer->space == NULL) {
		err_set(err, STATUS_HOST, "libunwind: the library lacks functions that its header has");
		libunwind_free(peer);
		return false;
	}
	peer->set_caching_policy(peer->space, UNW_CACHE_GLOBAL);
	*out = peer;
	return true;
}

void libunwind_free(struct libunwind *peer)
{
	if (peer == NULL)
		return;
	if (peer->space != NULL)
		peer->destroy_addr_space(peer->space);
	dlclose(peer->library);
	vec_release(&peer->seen);
	free(peer);
}

static bool begin(struct libunwind *peer, const struct unwind_input *input, struct unwind_stack *out, uint64_t *sp)
{
	unw_word_t word;

	*out = (struct unwind_stack){ .frames = out->frames, .capacity = out->capacity, .end = UNWIND_UNSUPPORTED };
	if (input->machine != EM_X86_64)
		return false;
	if (!peer->has_generation || peer->generation != input->generation) {
		peer->flush_cache(peer->space, 0, 0);
		vec_clear(&peer->seen);
	}
	peer->has_generation = true;
	peer->generation = input->generation;
	peer->input = input;
	peer->arch = unwind_arch_for(input->machine);
	peer->image = NULL;
	peer->table = NULL;
	peer->registers = NULL;
	out->end = UNWIND_NO_REGISTERS;
	if (access_reg(peer->space, peer->arch->dwarf_sp, &word, 0, peer) != 0)
		return false;
	*sp = word;
	peer->view = (struct stack_view){
		.bytes = input->stack, .start = word, .size = input->stack_size, .top = input->stack_top, .addr_end = peer->arch->addr_end, .word_bytes = 8,
	};
	return true;
}

// One stack while it is walked.
struct peer_walk {
	struct libunwind *peer;
	libunwind_guide_fn *guide; // NULL: none
	void *context;
	unw_cursor_t cursor;
	struct libunwind_registers begun; // what the guide told last
	uint64_t back;                    // how far before its return address the frame was begun with
	bool is_sp_sure;
	bool is_guessed; // since the last that the guide told: of what a function hands back only the frame pointer is the caller's
};

// Begins anew where the guide says that the caller is. What calls it is looked for by the byte before the return address, as libunwind does itself for all
// but the first frame.
static bool is_guided(struct peer_walk *w, uint8_t kind)
{
	struct libunwind *peer = w->peer;
	struct libunwind_registers registers = { 0 }, caller;
	bool is_exact = false;
	unw_word_t word;

	for (int reg = 0; reg < LIBUNWIND_REGISTERS; reg++)
		if (peer->get_reg(&w->cursor, reg, &word) == 0 &&
		    (!w->is_guessed || reg == peer->arch->dwarf_sp || reg == peer->arch->dwarf_fp || reg == LIBUNWIND_PC)) {
			registers.value[reg] = word + (reg == LIBUNWIND_PC ? w->back : 0);
			registers.known |= reg != peer->arch->dwarf_sp || w->is_sp_sure ? 1u << reg : 0;
		}
	if (w->guide == NULL || !w->guide(w->context, peer->input, kind, &registers, &caller, &is_exact) || caller.value[LIBUNWIND_PC] == 0)
		return false;
	caller.value[LIBUNWIND_PC]--;
	w->begun = caller;
	w->back = 1;
	w->is_sp_sure = is_exact;
	w->is_guessed = false;
	peer->registers = &w->begun;
	return peer->init_remote(&w->cursor, peer->space, peer) == 0;
}

// Whether a register that the caller is to have is in a slot that the copy has not: it was popped already, and CFI says so of none of gcc's epilogues.
static bool has_lost_register(struct peer_walk *w)
{
	static const uint8_t saved[] = { UNW_X86_64_RBX, UNW_X86_64_RBP, UNW_X86_64_R12, UNW_X86_64_R13, UNW_X86_64_R14, UNW_X86_64_R15 };
	struct libunwind *peer = w->peer;
	unw_word_t word;

	peer->missed = UNWIND_ROOT;
	for (size_t i = 0; i < sizeof(saved); i++)
		if (peer->get_reg(&w->cursor, saved[i], &word) != 0 && peer->missed == UNWIND_BAD_READ)
			return true;
	return false;
}

// To the caller: what unw_step says. `*via`: how.
static int walk_on(struct peer_walk *w, uint8_t kind, uint8_t *via)
{
	struct libunwind *peer = w->peer;
	unw_cursor_t before = w->cursor;

	peer->no_cfi = false;
	int status = peer->step(&w->cursor);
	*via = peer->no_cfi ? VIA_FP : VIA_CFI;
	if (w->guide != NULL && (peer->no_cfi || (status > 0 && kind == FRAME_LEAF && has_lost_register(w)))) {
		unw_cursor_t after = w->cursor;
		w->cursor = before;
		if (is_guided(w, kind)) {
			*via = VIA_NONE;
			return 1;
		}
		w->cursor = after;
	}
	w->is_sp_sure = w->is_sp_sure && !peer->no_cfi;
	w->is_guessed = w->is_guessed || peer->no_cfi;
	w->back = 0;
	return status;
}

static void walk_all(struct peer_walk *w, struct unwind_stack *out)
{
	struct libunwind *peer = w->peer;
	uint8_t kind = FRAME_LEAF, via = VIA_NONE;

	for (;;) {
		unw_word_t ip, at;
		peer->missed = UNWIND_ROOT;
		if (peer->get_reg(&w->cursor, UNW_REG_IP, &ip) != 0)
			break;
		if (kind != FRAME_LEAF && ip == 0) {
			out->end = UNWIND_ROOT;
			break;
		}
		out->end = UNWIND_DEPTH_LIMIT;
		if (out->count == out->capacity)
			break;
		out->frames[out->count++] = (struct frame){ .addr = ip + w->back, .kind = kind, .via = via };
		if (peer->get_reg(&w->cursor, UNW_REG_SP, &at) == 0)
			out->last_cfa = at;
		uint8_t step_kind = kind;
		kind = peer->is_signal_frame(&w->cursor) > 0 ? FRAME_INTERRUPTED : FRAME_RETURN;
		int status = walk_on(w, step_kind, &via);
		if (status <= 0) {
			out->end = status == 0 || peer->missed != UNWIND_ROOT ? peer->missed : UNWIND_NO_PROGRESS;
			break;
		}
	}
}

void libunwind_stack_guided(struct libunwind *peer, const struct unwind_input *input, libunwind_guide_fn *guide, void *context, struct unwind_stack *out)
{
	struct peer_walk walk = { .peer = peer, .guide = guide, .context = context, .is_sp_sure = true };
	uint64_t sp;

	if (begin(peer, input, out, &sp) && peer->init_remote(&walk.cursor, peer->space, peer) == 0)
		walk_all(&walk, out);
}

void libunwind_stack(struct libunwind *peer, const struct unwind_input *input, struct unwind_stack *out)
{
	libunwind_stack_guided(peer, input, NULL, NULL, out);
}

#else

bool libunwind_new(struct libunwind **out, struct err *err)
{
	*out = NULL;
	return err_set(err, STATUS_HOST, "libunwind: not built in (x86-64, with its header)");
}

void libunwind_free(struct libunwind *peer)
{
	(void)peer;
}

void libunwind_stack(struct libunwind *peer, const struct unwind_input *input, struct unwind_stack *out)
{
	(void)peer, (void)input;
	*out = (struct unwind_stack){ .frames = out->frames, .capacity = out->capacity, .end = UNWIND_UNSUPPORTED };
}

void libunwind_stack_guided(struct libunwind *peer, const struct unwind_input *input, libunwind_guide_fn *guide, void *context, struct unwind_stack *out)
{
	(void)guide, (void)context;
	libunwind_stack(peer, input, out);
}

#endif
