// From one stack of a thread to another, in Go's functions that change stacks. Nothing is guessed: the place where the runtime says that it left the other stack must hold
// the return address of a call to the very function that left it.
#include <elf.h>
#include <string.h>

#include "unwind/walk.h"

enum { JUMPS_MAX = 256, SAVED_BYTES = 64, CODE_BYTES = 256, DEPTH_MOST = 1 << 30, RBX = 3, R12 = 12 }; // a goroutine's stack has 1 GB at most (runtime.maxstacksize)

static bool is_in(const struct stack_view *view, uint64_t addr)
{
	return addr - view->start < view->size;
}

bool walk_enter(struct walk *walk, uint64_t sp)
{
	const struct unwind_other *other = walk->input->other;

	if (is_in(&walk->view, sp))
		return true;
	struct stack_view view = walk->copy;
	for (size_t i = 0; !is_in(&view, sp); i++) {
		if (other == NULL || i == UNWIND_OTHER_STACKS)
			return false;
		view.bytes = other->parts[i].bytes;
		view.start = other->parts[i].start;
		view.size = view.asked = other->parts[i].size;
		view.top = 0;
	}
	walk->view = view;
	walk->out->switches++;
	return true;
}

static bool is_function(const struct go_table *table, const struct go_function *function, const char *name)
{
	const char *own = go_table_name(table, function);

	return own != NULL && strcmp(own, name) == 0;
}

// A frame of the function as it stands on a stack: its return address `deep` bytes above `sp`, right behind a call to the function itself. The cursor moves to the caller.
static bool take_frame(struct walk *walk, const struct unwind_map *map, const struct go_function *function, struct cursor *at, uint64_t sp, uint64_t deep)
{
	const uint64_t slot = sp + deep;
	const struct stack_view before = walk->view;
	const unsigned switches = walk->out->switches;
	uint64_t ra;

	if (sp == 0 || !walk_enter(walk, slot))
		return false;
	if (!stack_word(&walk->view, slot, &ra) || !walk_calls(walk, ra, function->start + map->bias)) {
		walk->view = before;
		walk->out->switches = switches;
		return false;
	}
	walk->jumps++;
	at->pc = at->lr = ra;
	at->sp = slot + walk->arch->word_bytes;
	at->sp_is_exact = true;
	at->kind = FRAME_RETURN;
	at->via = VIA_SWITCHED;
	return true;
}

// C code that called Go: the thread's own stack, where the function has a frame of the same size. It has saved C's frame pointer there, and what called it kept it.
static bool to_system(struct walk *walk, const struct unwind_map *map, const struct go_function *function, struct cursor *at, uint64_t deep)
{
	const uint64_t sp = walk->system_sp;
	uint64_t fp = at->fp, before;

	if (!take_frame(walk, map, function, at, sp, deep))
		return false;
	(void)stack_word(&walk->view, at->sp - 2 * walk->arch->word_bytes, &fp);
	at->fp = fp;
	walk->system_sp = stack_word(&walk->view, sp, &before) ? before : 0; // what it found there, for the call of C that this one was made in
	return true;
}

// The first place where a function puts the stack pointer into a register (mov %rsp, %reg). false: nowhere. `*number`: of the register, as instructions have it.
static bool find_keeper(const struct unwind_map *map, const struct go_function *function, bool is_callees, uint64_t *at, unsigned *number)
{
	const uint64_t size = function->end - function->start < CODE_BYTES ? function->end - function->start : CODE_BYTES;
	struct bytes code;

	if (map->image->arch->machine != EM_X86_64 || !image_at_vaddr(map->image->image, function->start, size, &code))
		return false;
	for (const uint8_t *p = code.at; p + 3 <= code.end; p++) {
		if ((p[0] & 0xfe) != 0x48 || p[1] != 0x89 || (p[2] & 0xf8) != 0xe0)
			continue;
		*number = (p[0] & 1) * 8u + (p[2] & 7);
		*at = function->start + (uint64_t)(p - code.at);
		if (!is_callees || *number == RBX || *number >= R12)
			return true;
	}
	return false;
}

// The goroutine's stack, as the function that calls C left it: its g and how deep its stack was are on the thread's own stack, as the goroutine's may be moved meanwhile.
static bool from_c(struct walk *walk, const struct unwind_map *map, const struct go_function *function, struct cursor *at)
{
	const struct unwind_other *other = walk->input->other;
	const struct stack_view view = walk->view;
	const unsigned word = walk->arch->word_bytes;
	struct go_value deep = { .value = 0 };
	uint64_t g, depth, kept_at;
	unsigned number;

	// What is kept is the stack pointer as it was with the function's own frame, which it has from Go 1.21 on.
	if (find_keeper(map, function, false, &kept_at, &number) && !go_table_sp(&map->image->go, function, kept_at, &deep))
		return false;
	for (uint64_t place = at->sp + word; place < at->sp + SAVED_BYTES; place += word) {
		if (!stack_word(&view, place, &g) || !stack_word(&view, place - word, &depth))
			return false;
		if (other != NULL && g == other->g && depth <= other->high - other->low && take_frame(walk, map, function, at, other->high - depth, (uint64_t)deep.value))
			return true;
		if (g == 0 && take_frame(walk, map, function, at, depth, (uint64_t)deep.value)) // it was called on this stack
			return true;
		if (depth > 0 && depth < DEPTH_MOST && g % word == 0 && g > DEPTH_MOST)
			walk->out->lacks_g = g;
	}
	return false;
}

// Whether the thread has let go of the goroutine, and runs for the scheduler: it may run another one by now.
static bool is_scheduling(struct walk *walk, const struct unwind_map *map)
{
	const struct unwind_stack *out = walk->out;
	struct go_function function;

	for (size_t i = 0; i < out->count; i++) {
		const uint64_t addr = frame_lookup_addr(&out->frames[i]);
		if (map_holds(map, addr) && go_table_find(&map->image->go, addr - map->bias, &function) && is_function(&map->image->go, &function, "runtime.schedule"))
			return true;
	}
	return false;
}

// A function that ran out of stack: it stands behind its call for more, its own return address is on top of the stack that it had.
static bool to_grower(struct walk *walk, const struct unwind_map *map, struct cursor *at, enum unwind_end *end)
{
	const struct unwind_other *other = walk->input->other;
	static const char prefix[] = "runtime.morestack";
	struct go_function called;
	uint64_t target;

	// The compiler's own sign that a goroutine is to give way is that it has no stack left.
	if ((other != NULL && other->g == 0) || is_scheduling(walk, map)) {
		*end = UNWIND_ROOT;
		return false;
	}
	if (other == NULL || other->sp == 0 || !walk_call_target(walk, other->pc, &target) || !go_table_find(&map->image->go, target - map->bias, &called))
		return false;
	const char *name = go_table_name(&map->image->go, &called);
	if (name == NULL || strncmp(name, prefix, sizeof(prefix) - 1) != 0 || !walk_enter(walk, other->sp))
		return false;
	walk->jumps++;
	at->pc = at->lr = other->pc;
	at->sp = other->sp;
	at->fp = other->fp;
	at->sp_is_exact = true;
	at->kind = FRAME_RETURN;
	at->via = VIA_SWITCHED;
	return true;
}

// Functions that keep the stack pointer in a register that C code leaves as it is, to run C code on another stack, or on an aligned one: the vDSO's callers.
static bool by_register(struct walk *walk, const struct unwind_map *map, const struct go_function *function, struct cursor *at)
{
	struct go_value deep;
	uint64_t kept_at, value;
	unsigned reg, number;

	if (!find_keeper(map, function, true, &kept_at, &number) || !go_table_sp(&map->image->go, function, kept_at, &deep))
		return false;
	for (reg = 0; reg < UNWIND_REGISTERS && walk->arch->dwarf_to_perf[reg] != walk->arch->insn_to_perf[number]; reg++)
		;
	return reg < UNWIND_REGISTERS && walk_register(walk, at, reg, &value) && take_frame(walk, map, function, at, value, (uint64_t)deep.value);
}

bool walk_switch(struct walk *walk, const struct unwind_map *map, struct cursor *at, enum unwind_end *end)
{
	const struct go_table *table = &map->image->go;
	const uint64_t vaddr = at->pc - (at->kind == FRAME_RETURN) - map->bias;
	const struct unwind_other *other = walk->input->other;
	struct go_function function;
	struct go_value deep;

	*end = UNWIND_UNSUPPORTED;
	if (rule_table_stop(map->image, vaddr).kind != (RULE_ROOT | RULE_ELSEWHERE) || !go_table_find(table, vaddr, &function))
		return false; // CFI that can't be run
	// mcall never comes back: whoever called it has left the thread, and what runs now runs for the scheduler.
	const bool is_mcall = is_function(table, &function, "runtime.mcall");
	*end = is_mcall ? UNWIND_ROOT : UNWIND_OTHER_STACK;
	if (is_mcall && at->kind == FRAME_RETURN)
		return false;
	walk->out->lacks_goroutine = true;
	if (walk->arch->perf_lr != 0xff || !at->sp_is_exact || walk->jumps >= JUMPS_MAX || !go_table_sp(table, &function, vaddr, &deep))
		return false;
	const bool has_left = other != NULL && at->sp - other->low >= other->high - other->low;
	// It may not have changed stacks yet, or has done so back again.
	if (!has_left && take_frame(walk, map, &function, at, at->sp, (uint64_t)deep.value))
		return true;
	if (is_mcall)
		return false;
	if (is_function(table, &function, "runtime.asmcgocall"))
		return from_c(walk, map, &function, at);
	if (is_function(table, &function, "runtime.cgocallback")) {
		walk->out->lacks_system = true;
		return !has_left && to_system(walk, map, &function, at, (uint64_t)deep.value);
	}
	if (is_function(table, &function, "runtime.morestack"))
		return to_grower(walk, map, at, end);
	if (is_function(table, &function, "runtime.systemstack")) {
		if (!has_left || !take_frame(walk, map, &function, at, other->sp, (uint64_t)deep.value))
			return false;
		at->fp = other->fp;
		return true;
	}
	return by_register(walk, map, &function, at);
}
