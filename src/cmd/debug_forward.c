#include "cmd/debug_forward.h"

#include <string.h>

#include "base/hash.h"
#include "base/vec.h"
#include "cmd/debug_decode.h"
#include "cmd/debug_machine.h"

enum { WORD = 8 };
// How much is tried: first, what comes to a jump again is taken together with what was there before; where that does not tell, every way by itself, as far as loops run.
enum { INSTRUCTIONS_TOGETHER = 12000, VISITS_TOGETHER = 1, UNTOLD_TIMES = 8, INSTRUCTIONS_APART = 20000, VISITS_APART = 1024, PLACES_MOST = 12, WAITING_MOST = 256, VISITS_MOST = 2048 };
static const uint8_t saved[] = { RBP, RBX, R12, R12 + 1, R12 + 2, R12 + 3 }; // what a function hands back as it was

struct forward {
	struct decoder *decoder;
	// Of the frame at hand. What has been at a jump before that nothing decided; ways to be gone yet.
	VEC(struct machine) visits, waiting;
	VEC(uint64_t) visit_pcs; // of the visits
	struct hash_map untold;  // by place in code: how often nothing was told from there
};

// One frame while its ways are gone.
struct run {
	struct forward *forward;
	const struct forward_scene *scene;
	struct stack_memory memory;
	uint64_t start, sp_least; // where it began
	struct forward_code code; // around where it is
	bool has_code, is_c; // C: where it began
	uint32_t last; // the instruction before, if the next stands right behind it
	unsigned instructions, visits_apart;
	struct libunwind_registers found;
	bool has_found, is_over; // OVER: nothing is told
	bool has_untold;         // a way ended that may be gone in truth, and told nothing
	bool has_lost;           // something was written nobody knows where
};

bool forward_new(struct forward **out, struct err *err)
{
	struct decoder *decoder;

	*out = NULL;
	if (!decoder_new(&decoder, err))
		return false;
	*out = NEW(struct forward);
	(*out)->decoder = decoder;
	return true;
}

void forward_free(struct forward *forward)
{
	if (forward == NULL)
		return;
	vec_release(&forward->visits);
	vec_release(&forward->waiting);
	vec_release(&forward->visit_pcs);
	hash_map_release(&forward->untold);
	decoder_free(forward->decoder);
	free(forward);
}

// ---------------------------------------------------------------- ends of ways
static void agree(struct libunwind_registers *is, const struct libunwind_registers *also)
{
	for (unsigned reg = 0; reg < LIBUNWIND_REGISTERS; reg++)
		if ((also->known >> reg & 1) == 0 || is->value[reg] != also->value[reg])
			is->known &= ~(1u << reg);
	if (also->value[RSP] < is->value[RSP])
		is->value[RSP] = also->value[RSP];
}

// Others were asked for.
static void forget_code(struct run *run)
{
	run->has_code = run->has_code && run->code.is_steady;
}

// A way ends with the return address at the top of the stack; `pops`: what the return itself takes of arguments. `is_jump`: to a function that will return.
static void end_way(struct run *run, const struct machine *m, uint64_t pops, bool is_jump)
{
	const struct value *at = &m->regs[RSP];
	struct value ra = machine_word(m, &run->memory, at);
	struct libunwind_registers told = { .known = 1u << LIBUNWIND_PC };

	forget_code(run);
	if (ra.kind != VALUE_NUMBER || !run->scene->is_caller(run->scene->context, ra.bits, run->start, is_jump)) {
		run->has_untold = true;
		return;
	}
	told.value[LIBUNWIND_PC] = ra.bits;
	told.value[RSP] = at->kind == VALUE_NUMBER ? at->bits + WORD + pops : run->sp_least;
	told.known |= at->kind == VALUE_NUMBER && (!is_jump || run->code.is_c) ? 1u << RSP : 0;
	for (size_t i = 0; i < sizeof(saved); i++)
		if (m->regs[saved[i]].kind == VALUE_NUMBER && (saved[i] == RBP || run->code.is_c || !is_jump)) {
			told.value[saved[i]] = m->regs[saved[i]].bits;
			told.known |= 1u << saved[i];
		}
	if (run->has_found && run->found.value[LIBUNWIND_PC] != ra.bits)
		run->is_over = true;
	else if (run->has_found)
		agree(&run->found, &told);
	else
		run->found = told;
	run->has_found = true;
}

// ---------------------------------------------------------------- ways
static bool is_in(const struct forward_code *code, uint64_t addr)
{
	return addr - code->addr < code->size;
}

static bool find_code(struct run *run, uint64_t addr)
{
	if (run->has_code && is_in(&run->code, addr))
		return true;
	run->last = 0;
	run->has_code = run->scene->code(run->scene->context, addr, &run->code) && is_in(&run->code, addr);
	return run->has_code;
}

// Of what is added nothing but what is put there is set.
#define put_machine(machines) (vec_reserve(machines, 1), &(machines)->data[(machines)->count++])

static void set_aside(struct run *run, const struct machine *m, uint64_t pc)
{
	if (run->forward->waiting.count >= WAITING_MOST) {
		run->is_over = true;
		return;
	}
	struct machine *put = put_machine(&run->forward->waiting);
	machine_copy(put, m);
	put->pc = pc;
}

static bool is_same_place(const struct machine *a, const struct machine *b, unsigned reg)
{
	return a->regs[reg].kind == b->regs[reg].kind && a->regs[reg].bits == b->regs[reg].bits;
}

// What was at a place before, with sp and fp as they are now: how many, and the last of them. `*is_covered`: one of them covers all that is now. `*places`: how
// many were there with whatever sp.
static void find_visits(const struct run *run, const struct machine *m, bool *is_covered, unsigned *visits, unsigned *places, size_t *last)
{
	const struct forward *forward = run->forward;

	*is_covered = false;
	*visits = *places = 0;
	for (size_t i = 0; i < forward->visits.count && !*is_covered; i++) {
		const struct machine *before = &forward->visits.data[i];
		if (forward->visit_pcs.data[i] != m->pc)
			continue;
		++*places;
		if (!is_same_place(before, m, RSP) || !is_same_place(before, m, RBP))
			continue;
		*is_covered = machine_covers(before, m, &run->memory);
		++*visits;
		*last = i;
	}
}

// At a jump that nothing decides: whether it has been here with what covers all that is now. What is known of `m` may become less.
static bool is_known(struct run *run, struct machine *m)
{
	struct forward *forward = run->forward;
	unsigned places, visits;
	size_t last = 0;
	bool is_covered;

	find_visits(run, m, &is_covered, &visits, &places, &last);
	if (!is_covered && visits == 0 && places >= PLACES_MOST + run->visits_apart) { // a loop that moves sp
		machine_lose_sp(m, &run->memory);
		find_visits(run, m, &is_covered, &visits, &places, &last);
	}
	if (is_covered)
		return true;
	if (visits >= run->visits_apart) {
		uint64_t pc = m->pc;
		machine_join(m, &forward->visits.data[last], &run->memory);
		m->pc = pc;
		machine_copy(&forward->visits.data[last], m);
		return m->is_lost;
	}
	if (forward->visits.count >= VISITS_MOST) {
		run->is_over = true;
		return true;
	}
	machine_copy(put_machine(&forward->visits), m);
	vec_push(&forward->visit_pcs, m->pc);
	return false;
}

// A jump or a call behind which code goes on: its target, as far as known.
static struct value target_of(const struct run *run, const struct machine *m, const struct instruction *insn)
{
	const struct operand *op = &insn->operands[0];

	if (op->kind == OPERAND_CONSTANT)
		return (struct value){ .bits = m->pc + (uint64_t)op->value, .kind = VALUE_NUMBER };
	return machine_operand(m, &run->memory, op, m->pc + insn->size);
}

// false: the way ends here.
static bool jump(struct run *run, struct machine *m, const struct instruction *insn)
{
	struct value to = target_of(run, m, insn);
	struct forward_code code;

	if (to.kind == VALUE_NUMBER && is_in(&run->code, to.bits)) {
		m->pc = to.bits;
		run->last = 0;
		return true;
	}
	bool is_found = to.kind == VALUE_NUMBER && run->scene->code(run->scene->context, to.bits, &code);
	bool is_to_function = is_found && code.is_function && code.addr == to.bits;
	// What throws jumps into the middle of the function that handles: that is the caller by then. (So does longjmp.)
	if (is_found && !is_to_function && code.is_function && run->code.is_c && insn->operands[0].kind != OPERAND_CONSTANT) {
		forget_code(run);
		run->has_untold = true;
		return false;
	}
	if (is_found && !is_to_function) {
		m->pc = to.bits;
		run->has_code = false;
		return true;
	}
	// Where to is not known. It is another function, if this is not how an interpreter goes on, or a switch, within the same one.
	bool leaves = run->code.is_function ? (to.origin & OF_TABLE) == 0 && run->scene->may_leave(run->scene->context, m->pc, is_to_function) : is_to_function;
	forget_code(run);
	if (leaves)
		end_way(run, m, 0, true);
	else
		run->has_untold = true;
	return false;
}

// What stands behind a call that does not return, in code whose functions nobody knows: the next function.
static bool begins_function(const struct run *run, uint64_t addr)
{
	static const uint8_t entry[] = { 0x55, 0x48, 0x89, 0xe5 }; // push %rbp; mov %rsp, %rbp
	const uint8_t *at = run->code.bytes + (addr - run->code.addr);

	return is_in(&run->code, addr) && run->code.size - (size_t)(at - run->code.bytes) >= sizeof(entry) && memcmp(at, entry, sizeof(entry)) == 0;
}

static bool call(struct run *run, struct machine *m, const struct instruction *insn)
{
	struct value to = target_of(run, m, insn);
	struct forward_code code = run->code;
	uint64_t next = m->pc + insn->size;

	if (to.kind == VALUE_NUMBER && to.bits == next) {
		machine_push(m, &run->memory, &to); // to learn where it is
		m->pc = next;
		return true;
	}
	bool is_known = !code.is_c && to.kind == VALUE_NUMBER && run->scene->keeps_sp != NULL;
	machine_call(m, &run->memory, code.is_c, is_known && run->scene->keeps_sp(run->scene->context, to.bits));
	m->pc = next;
	if (is_known)
		forget_code(run);
	if (code.is_function && !is_in(&code, next))
		return false;
	return find_code(run, next) && (run->code.is_function || !begins_function(run, next));
}

static bool branch(struct run *run, struct machine *m, const struct instruction *insn)
{
	const struct forward_code here = run->code;
	uint64_t to = m->pc + (uint64_t)insn->operands[0].value, next = m->pc + insn->size;
	bool holds = true, is_decided = insn->flow == FLOW_BRANCH && machine_condition(m, insn->condition, &holds);

	if (is_decided && holds)
		return jump(run, m, insn);
	if (!is_decided) {
		if (is_known(run, m))
			return false;
		if (insn->flow == FLOW_LOOP)
			m->regs[RCX] = (struct value){ 0 };
		struct machine taken;
		machine_copy(&taken, m);
		if (is_in(&here, to) || jump(run, &taken, insn))
			set_aside(run, &taken, to);
		if (!is_in(&here, to))
			forget_code(run);
	}
	m->pc = next;
	return !here.is_function || is_in(&here, next);
}

// One instruction. false: the way has ended.
static bool step(struct run *run, struct machine *m)
{
	bool is_function = run->has_code && run->code.is_function;

	if ((is_function && !is_in(&run->code, m->pc)) || !find_code(run, m->pc)) { // it ran out of it, or nobody has it
		run->has_untold = true;
		return false;
	}
	size_t offset = (size_t)(m->pc - run->code.addr);
	const struct instruction *insn = decoder_at(run->forward->decoder, &run->last, hash_pair(run->code.key, offset), run->code.bytes + offset,
	                                            run->code.size - offset);
	switch (insn->flow) {
	case FLOW_STOP:
		run->has_untold = run->has_untold || insn->id == 0;
		return false;
	case FLOW_RETURN:
		end_way(run, m, insn->operand_count > 0 ? (uint64_t)insn->operands[0].value : 0, false);
		return false;
	case FLOW_JUMP:
		return jump(run, m, insn);
	case FLOW_BRANCH:
	case FLOW_LOOP:
		return branch(run, m, insn);
	case FLOW_CALL:
		return call(run, m, insn);
	default:
		machine_run(m, &run->memory, insn);
		run->has_untold = run->has_untold || m->is_lost;
		run->has_lost = run->has_lost || m->is_lost;
		return !m->is_lost;
	}
}

static bool go(struct run *run, const struct machine *first, unsigned instructions, unsigned visits_apart)
{
	struct forward *forward = run->forward;

	vec_clear(&forward->visits);
	vec_clear(&forward->waiting);
	vec_clear(&forward->visit_pcs);
	run->has_found = run->has_untold = run->has_lost = run->is_over = run->has_code = false;
	run->instructions = 0;
	run->visits_apart = visits_apart;
	run->is_c = find_code(run, first->pc) && run->code.is_c;
	set_aside(run, first, first->pc);
	while (forward->waiting.count > 0 && !run->is_over) {
		struct machine m;
		machine_copy(&m, &forward->waiting.data[--forward->waiting.count]);
		run->has_code = run->has_code && is_in(&run->code, m.pc);
		run->last = 0;
		while (!run->is_over && step(run, &m))
			run->is_over = ++run->instructions > instructions;
	}
	return !run->is_over;
}

bool forward_caller(struct forward *forward, const struct forward_scene *scene, const struct forward_start *start, struct libunwind_registers *out)
{
	struct run run = { .forward = forward, .scene = scene, .start = start->registers.value[LIBUNWIND_PC], .sp_least = start->registers.value[RSP] };
	struct machine first = { .pc = start->registers.value[LIBUNWIND_PC], .flags = start->flags, .flags_known = start->is_return ? 0 : start->flags_known };

	run.memory = (struct stack_memory){ scene->word, scene->context, scene->stack_start, scene->stack_end };
	for (unsigned reg = 0; reg < REGISTERS; reg++)
		if ((start->registers.known >> reg & 1) != 0)
			first.regs[reg] = (struct value){ .bits = start->registers.value[reg], .kind = VALUE_NUMBER };
	// Most often because nothing there returns: a script's loop.
	uint64_t place = find_code(&run, first.pc) ? hash_pair(run.code.key, first.pc - run.code.addr) : 0;
	const uint32_t *untold = hash_map_get(&forward->untold, place);
	bool is_told = false;
	if (untold != NULL && *untold >= UNTOLD_TIMES)
		return false;
	if (first.regs[RSP].kind == VALUE_UNKNOWN)
		machine_lose_sp(&first, &run.memory);
	bool good = go(&run, &first, INSTRUCTIONS_TOGETHER, VISITS_TOGETHER);
	if (good ? !run.has_found && run.has_lost : run.has_found) // a loop whose counter was not kept; ways of which not all are gone in truth
		good = go(&run, &first, INSTRUCTIONS_APART, VISITS_APART);
	is_told = good && run.has_found;
	if (!is_told)
		++*hash_map_put(&forward->untold, place, 0, NULL);
	// How frames are laid out is the same whatever way is gone. What registers hold that a function need not hand back is not.
	if (run.has_untold && !run.is_c)
		run.found.known &= 1u << RBP | 1u << RSP | 1u << LIBUNWIND_PC;
	*out = run.found;
	return is_told;
}
