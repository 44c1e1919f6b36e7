// What functions' instructions say of their frames (cmd/debug_code.h): beside the CFI of compiled code, which nothing here has read; and of hand-written
// code. Then what is proven by it of two unwinders, where one of them or both are wrong on purpose.
#include "cmd/debug_code.h"

#include <elf.h>
#include <string.h>

#include "cmd/debug_kinds.h"
#include "symbols/elf_symbols.h"
#include "symbols/module.h"
#include "tests/compile.h"
#include "unwind/rule_table.h"

enum { RBP = 6, RSP = 7, SP = 0x10000, FP = 0x20000 };
#define WORDS UINT64_C(0x7000000000000) // a word of the memory here is its address and this

static bool word_at(void *context, uint64_t addr, uint64_t *out)
{
	(void)context;
	*out = addr + WORDS;
	return true;
}

static struct libunwind_registers some_registers(void)
{
	struct libunwind_registers out = { .known = (1u << LIBUNWIND_REGISTERS) - 1 };

	for (unsigned i = 0; i < LIBUNWIND_REGISTERS; i++)
		out.value[i] = 0x1000 * (i + 1);
	out.value[RSP] = SP;
	out.value[RBP] = FP;
	return out;
}

// ---------------------------------------------------------------- compiled code and its CFI
struct tally {
	unsigned long functions, told, differing;
};

// Where only one of sp and fp leads from what is known to the CFA, and the two witnesses use different ones, there is nothing to compare.
static void compare_row(struct tally *t, const struct cfi_row *row, const struct libunwind_registers *caller, const char *name, uint64_t at)
{
	uint64_t cfa = (row->cfa.value == RSP ? SP : FP) + (uint64_t)row->cfa_offset, slot = caller->value[LIBUNWIND_PC] - WORDS;

	if (row->cfa.kind != CFI_REGISTER || (row->cfa.value != RSP && row->cfa.value != RBP) || (slot > SP + 0x8000) != (row->cfa.value == RBP))
		return;
	t->told++;
	bool good = slot == cfa - 8 && caller->value[RSP] == cfa;
	for (unsigned reg = 0; reg < RSP && good; reg++) {
		if ((caller->known >> reg & 1) == 0)
			continue;
		uint64_t is = caller->value[reg], same = 0x1000 * (reg + 1), saved = cfa + (uint64_t)row->regs[reg].value;
		same = reg == RBP ? FP : same;
		// A register that was popped is not restored in gcc's CFI: its slot is below sp then.
		if (row->regs[reg].kind == CFI_OFFSET && !(is == same && (row->cfa.value == RBP || saved < SP)))
			good = is == saved + WORDS || is == same; // or not changed yet: both are right
		else if (row->regs[reg].kind == CFI_UNSPECIFIED || row->regs[reg].kind == CFI_SAME)
			good = is == same;
	}
	t->differing += !good;
	if (!good && t->differing <= 3)
		diag("%s+%#llx: slot %#llx, sp %#llx, CFA %#llx, known %#x", name, (unsigned long long)at, (unsigned long long)slot, (unsigned long long)caller->value[RSP],
		     (unsigned long long)cfa, caller->known);
}

static void compare_function(struct tally *t, struct code *code, struct unwind_image *image, const struct table_symbol *symbol)
{
	struct code_function function = { .key = hash_pair((uint64_t)(uintptr_t)image, symbol->start), .addr = symbol->start, .size = symbol->end - symbol->start, .is_c = true };
	const struct libunwind_registers registers = some_registers();
	struct libunwind_registers caller;
	const struct cfi_section *section;
	struct cfi_row row;
	struct cfi_fde fde;
	struct bytes bytes;
	bool is_exact;

	// Parts of functions are jumped to, with a frame.
	if (!image_at_vaddr(image->image, symbol->start, function.size, &bytes) || !rule_table_row(image, symbol->start, &row, &fde, &section) ||
	    fde.start != symbol->start || row.cfa.kind != CFI_REGISTER || row.cfa.value != RSP || row.cfa_offset != 8)
		return;
	function.bytes = bytes.at;
	t->functions++;
	for (uint64_t at = 0; at < function.size; at++)
		if (rule_table_row(image, symbol->start + at, &row, &fde, &section) &&
		    code_caller(code, &function, at, false, &registers, word_at, NULL, &caller, &is_exact) && is_exact)
			compare_row(t, &row, &caller, image->image->path, symbol->start + at);
}

static void compare_image(struct code *code, const char *path, unsigned long least)
{
	struct symbolizer_options options = { 0 };
	struct symbol_module module = { .wanted = { .path = path, .map_fd = -1 }, .options = &options, .is_open = true };
	struct elf_symbols *symbols = NULL;
	struct unwind_image *image = NULL;
	struct tally t = { 0 };

	if (!image_open_path(&module.image, path, NULL) || !unwind_image_new(&image, module.image, false, NULL) || !elf_symbols_open(&module, &symbols)) {
		skip("not to be read", "%s", path);
	} else {
		for (size_t i = 0; i < symbols->table.symbols.count && t.functions < 3000; i++)
			if ((symbols->table.symbols.data[i].flags & TABLE_SIZED) != 0)
				compare_function(&t, code, image, &symbols->table.symbols.data[i]);
		ok(t.told >= least && t.differing == 0, "%s: of %lu functions %lu rows as CFI has them, %lu not", path, t.functions, t.told - t.differing, t.differing);
	}
	if (symbols != NULL)
		elf_symbols_release(symbols);
	unwind_image_free(image);
	image_release(module.image);
}

// ---------------------------------------------------------------- hand-written code
// Each function ends with int3; `here` is where it stands.
static const char source[] =
	".text\n"
	".macro function name\n.balign 64, 0xcc\n.globl \\name\n.type \\name, @function\n\\name:\n.endm\n"
	".macro done name\n.size \\name, .-\\name\n.endm\n"
	"function _start\nxor %ebp, %ebp\ncall *%rax\nstart_return: hlt\ndone _start\n"
	"function framed\npush %rbp\nmov %rsp, %rbp\nsub $32, %rsp\nframed_here: nop\ncall *%rax\nframed_return: leave\nframed_end: ret\ndone framed\n"
	"function late\ntest %rax, %rax\njz 1f\nret\n1: push %rbp\nmov %rsp, %rbp\npush $7\nlate_here: nop\nleave\nret\ndone late\n"
	"function popper\npush %rbp\nmov %rsp, %rbp\nmov %rbp, %rsp\npop %rbp\npop %r10\nlea (%rsp,%rdi,8), %rsp\npopper_here: push %r10\npopper_end: ret\ndone popper\n"
	"function pusher\npop %rax\n1: dec %ecx\njl 2f\npush (%rbx,%rcx,8)\npusher_here: jmp 1b\n2: push %rax\npusher_end: jmp *%rcx\ndone pusher\n"
	"function bare\ntest %al, %al\nje 1f\ncall plain\n1: nop\nbare_here: ret\ndone bare\n"
	"function plain\npush %rbx\nmov %rsp, %r10\nsub $8, %rsp\nand $-16, %rsp\nmov %r10, (%rsp)\ncall *%rax\nmov (%rsp), %rsp\npop %rbx\nret\ndone plain\n"
	"function rough\ntest %al, %al\nje 1f\ncall popper\n1: nop\nrough_here: ret\ndone rough\n"
	"function kept\npop %r12\ncall *%rax\nkept_here: push %r12\nret\ndone kept\n"
	"function either\ntest %al, %al\nje 1f\npush %rbp\njmp 2f\n1: push %rbx\n2: mov $0, %ebp\neither_here: pop %rbp\nret\ndone either\n"
	"function torn\ntest %al, %al\nje 1f\npush %rbx\n1: nop\ntorn_here: ret\ndone torn\n"
	".balign 64, 0xcc\nnameless: push %rbp\nmov %rsp, %rbp\nsub $32, %rsp\nnameless_here: nop\nleave\nret\n"
	".balign 64, 0xcc\nnowhere: push %rbp\nmov %rsp, %rbp\nsub $32, %rsp\nnowhere_here: nop\nmov (%rdi), %rax\njmp *%rax\n.fill 64, 1, 0xcc\n";

struct fixture {
	struct image *file;
	struct unwind_image *image;
	struct elf_symbols *symbols;
	struct symbol_module module;
	struct symbolizer_options options;
};

static uint64_t label(const struct fixture *f, const char *name)
{
	uint64_t vaddr = 0;

	return image_find_symbol(f->file, name, &vaddr) ? vaddr : 0;
}

static bool function_of(const struct fixture *f, uint64_t vaddr, struct code_function *out);
static bool other(void *context, uint64_t addr, struct code_function *out)
{
	return function_of(context, addr, out);
}

static bool function_of(const struct fixture *f, uint64_t vaddr, struct code_function *out)
{
	struct symbol_hit hit;
	struct bytes bytes;

	if (!elf_symbols_lookup(&f->module, f->symbols, vaddr, &hit) || !image_at_vaddr(f->file, hit.start, hit.size, &bytes))
		return false;
	*out = (struct code_function){
		.key = hit.start, .addr = hit.start, .bytes = bytes.at, .size = hit.size, .other = other, .context = (void *)f,
	};
	return true;
}

enum { NOT_TOLD = 0x7fff };
struct place_check {
	const char *what, *label;
	bool is_return;
	uint64_t pc;     // what is found for the caller's pc
	uint64_t fp;     // and for its frame pointer; 0: not known
};

static const struct place_check place_checks[] = {
	{ "at a function's beginning", "framed", false, SP + WORDS, FP },
	{ "in its frame", "framed_here", false, FP + 8 + WORDS, FP + WORDS },
	{ "where a call returns into it", "framed_return", true, FP + 8 + WORDS, FP + WORDS },
	{ "behind its leave", "framed_end", false, SP + WORDS, FP },
	{ "a frame in the middle", "late_here", false, FP + 8 + WORDS, FP + WORDS },
	{ "the return address in a register, sp anywhere", "popper_here", false, 0x1000 * 11, FP },
	{ "and pushed again", "popper_end", false, SP + WORDS, FP },
	{ "the same in a loop that pushes", "pusher_here", false, 0x1000, FP },
	{ "before a jump elsewhere", "pusher_end", false, SP + WORDS, FP },
	{ "behind a call to what pops nothing", "bare_here", false, SP + WORDS, FP },
	{ "behind a call to what pops arguments", "rough_here", false, NOT_TOLD, NOT_TOLD },
	{ "where they pushed different registers", "either_here", false, SP + 8 + WORDS, 0 },
	{ "a return address kept in a register that the callee may change", "kept_here", false, NOT_TOLD, NOT_TOLD },
	{ "where two ways differ in what they pushed", "torn_here", false, NOT_TOLD, NOT_TOLD },
};

static void check_places(struct code *code, const struct fixture *f)
{
	for (size_t i = 0; i < sizeof(place_checks) / sizeof(*place_checks); i++) {
		const struct place_check *check = &place_checks[i];
		const struct libunwind_registers registers = some_registers();
		struct libunwind_registers caller = { 0 };
		struct code_function function;
		bool is_exact, found = function_of(f, label(f, check->label), &function);
		bool told = found && code_caller(code, &function, label(f, check->label) - function.addr, check->is_return, &registers, word_at, NULL, &caller, &is_exact);
		bool good = check->pc == NOT_TOLD ? !told : told && caller.value[LIBUNWIND_PC] == check->pc && caller.value[RBP] == check->fp;
		if (!ok(found && good, "%s", check->what))
			diag("told %d: pc %#llx fp %#llx", told, (unsigned long long)caller.value[LIBUNWIND_PC], (unsigned long long)caller.value[RBP]);
	}
	struct code_function function;
	ok(function_of(f, label(f, "pusher"), &function) && code_jumps_on(code, &function) && function_of(f, label(f, "framed"), &function) &&
	   !code_jumps_on(code, &function), "who jumps on to another function");
}

// ---------------------------------------------------------------- what is proven
static struct unwind_map map_code(void *context, uint64_t addr)
{
	const struct fixture *f = context;
	uint64_t start = f->file->entry & ~UINT64_C(4095);

	if (addr < start || addr >= start + 4096)
		return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	return (struct unwind_map){ .start = start, .end = start + 4096, .image = f->image };
}

// A stack whose leaf stands at `pc`: sp at word 0, where a return address of a call long past lies; fp at word 5, whose pair leads to _start.
static enum kind judge(struct witness *witness, struct fixture *f, const char *leaf, const char *ours, const char *theirs, enum unwind_end end)
{
	uint64_t pc = label(f, leaf), start = label(f, "start_return"), stale = label(f, "framed_return");
	const uint64_t stack[8] = { stale, 0, 0, 0, 0, SP + 56, start }, regs[3] = { SP + 40, SP, pc };
	const struct unwind_input input = {
		.machine = EM_X86_64, .regs = regs, .regs_mask = 1 << 6 | 1 << 7 | 1 << 8, .stack = (const uint8_t *)stack, .stack_size = sizeof(stack),
		.generation = 1, .map = map_code, .map_context = f,
	};
	struct frame room[16], own[3] = { { pc, FRAME_LEAF, VIA_NONE } }, peers[3] = { { pc, FRAME_LEAF, VIA_NONE } };
	struct unwind_stack a = { .frames = own, .count = 1, .end = end }, b = { .frames = peers, .count = 1, .end = UNWIND_NO_CFI }, third = { .frames = room, .capacity = 16 };
	size_t at;

	for (const char *p = ours; *p != '\0'; p++)
		own[a.count++] = (struct frame){ *p == 's' ? start : stale, FRAME_RETURN, *p == 's' ? VIA_FP : VIA_LEAF_RULE };
	for (const char *p = theirs; *p != '\0'; p++)
		peers[b.count++] = (struct frame){ *p == 's' ? start : stale, FRAME_RETURN, VIA_CFI };
	witness_stack(witness, &input, &a, &b, &third);
	return kind_of(witness, &input, &a, &b, &third, &at);
}

// Ours goes on where an exception is handled; libunwind has the frames to be left before that.
static void check_landing(void)
{
	struct frame own[3] = { { 10, FRAME_LEAF, VIA_NONE }, { 31, FRAME_RETURN, VIA_LANDING }, { 40, FRAME_RETURN, VIA_CFI } };
	struct frame peers[4] = { { 10, FRAME_LEAF, VIA_NONE }, { 20, FRAME_RETURN, VIA_CFI }, { 30, FRAME_RETURN, VIA_CFI }, { 40, FRAME_RETURN, VIA_CFI } };
	const struct unwind_input input = { .machine = EM_NONE };
	struct unwind_stack ours = { .frames = own, .count = 3 }, theirs = { .frames = peers, .count = 4 };
	size_t at;

	ok(kind_of(NULL, &input, &ours, &theirs, NULL, &at) == KIND_LANDING && at == 1, "a throw that is about to go on where it is handled");
	peers[3].addr = 41;
	enum kind other = kind_of(NULL, &input, &ours, &theirs, NULL, &at);
	own[1].via = VIA_CFI;
	peers[3].addr = 40;
	ok(other == KIND_NO_CALL && kind_of(NULL, &input, &ours, &theirs, NULL, &at) == KIND_NO_CALL,
	   "but not where the rest differs, or nothing told of it");
}

// It goes astray among those to be left.
static void check_landing_alone(struct fixture *f)
{
	const uint64_t start = label(f, "start_return"), handler = label(f, "framed_here"), words[2] = { 0 }, regs[3] = { SP, SP, handler };
	struct frame own[3] = { { 10, FRAME_LEAF, VIA_NONE }, { handler, FRAME_RETURN, VIA_LANDING }, { start, FRAME_RETURN, VIA_CFI } };
	struct frame peers[3] = { { 10, FRAME_LEAF, VIA_NONE }, { 20, FRAME_RETURN, VIA_CFI } };
	const struct unwind_input input = {
		.machine = EM_X86_64, .regs = regs, .regs_mask = 1 << 6 | 1 << 7 | 1 << 8, .stack = (const uint8_t *)words, .stack_size = sizeof(words), .map = map_code, .map_context = f,
	};
	struct unwind_stack ours = { .frames = own, .count = 3, .end = UNWIND_ROOT }, theirs = { .frames = peers, .count = 2 };
	size_t at;

	ok(kind_of(NULL, &input, &ours, &theirs, NULL, &at) == KIND_LANDING && at == 1, "a throw goes on where it is handled, by the calls from there on");
	peers[1] = own[1];
	ok(kind_of(NULL, &input, &ours, &theirs, NULL, &at) == KIND_LANDING && at == 2, "and libunwind is led astray behind the handler only");
	peers[1] = (struct frame){ 20, FRAME_RETURN, VIA_CFI };
	ours.end = UNWIND_TRUNCATED;
	ok(kind_of(NULL, &input, &ours, &theirs, NULL, &at) != KIND_LANDING, "not where ours does not come to a root");
	ours.end = UNWIND_ROOT;
	own[2].addr = start + 1;
	ok(kind_of(NULL, &input, &ours, &theirs, NULL, &at) != KIND_LANDING, "nor where a caller of ours made no call");
	ours.count = 2;
	theirs.count = 3;
	ok(kind_of(NULL, &input, &ours, &theirs, NULL, &at) != KIND_LANDING, "nor where ours has nothing behind the handler");
}

static void check_kinds(struct fixture *f)
{
	static const struct { const char *what, *leaf, *ours, *theirs; enum kind kind; } checks[] = {
		{ "both right", "framed_here", "s", "s", KIND_SAME },
		{ "ours takes what a call long past left: its fault, whatever stands before that address", "framed_here", "os", "s", KIND_OURS_WRONG },
		{ "libunwind takes it: proven", "framed_here", "s", "os", KIND_PEER_WRONG },
		{ "both take it", "framed_here", "os", "os", KIND_BOTH_WRONG },
		{ "ours stops where the instructions go on", "framed_here", "", "s", KIND_OURS_WRONG },
		{ "where no frame is, ours at sp", "framed", "os", "s", KIND_PEER_WRONG },
		{ "where no frame is, ours passes the caller over", "framed", "s", "os", KIND_OURS_WRONG },
		{ "where nothing names a function, libunwind takes it: its code, run on, proves it", "nameless_here", "s", "os", KIND_PEER_WRONG },
		{ "the same of ours", "nameless_here", "os", "s", KIND_OURS_WRONG },
		{ "of both", "nameless_here", "os", "os", KIND_BOTH_WRONG },
		{ "instructions that lead nowhere: not proven, libunwind may be wrong", "nowhere_here", "s", "os", KIND_DIVERGED },
		{ "nor that ours is", "nowhere_here", "os", "s", KIND_LEFT_OUT },
	};
	struct err err = { 0 };
	struct witness *witness;

	if (!witness_new(&witness, &err)) {
		skip(err.text, "kinds of differences");
		return;
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		enum kind kind = judge(witness, f, checks[i].leaf, checks[i].ours, checks[i].theirs, UNWIND_NO_CFI);
		if (!ok(kind == checks[i].kind, "%s", checks[i].what))
			diag("%s", kind_text(kind));
	}
	ok(judge(witness, f, "framed_here", "", "s", UNWIND_ROOT) == KIND_THEIRS_LONGER, "but a root that the image itself tells of is one");
	check_landing();
	witness_free(witness);
}

int main(void)
{
	struct err err = { 0 };
	struct code *code;
	struct fixture f = { .options = { 0 } };
	char path[128];

	if (!code_new(&code, &err)) {
		skip(err.text, "what instructions say");
		return tap_done();
	}
	scratch_make();
	compare_image(code, "/proc/self/exe", 10000);
	compare_image(code, "/lib/x86_64-linux-gnu/libc.so.6", 10000);
	scratch_write("code.s", source);
	snprintf(path, sizeof(path), "%s/code", scratch);
	f.module = (struct symbol_module){ .wanted = { .path = path, .map_fd = -1 }, .options = &f.options, .is_open = true };
	if (!shell("test $(uname -m) = x86_64 && gcc -nostdlib -static -Wl,-z,noseparate-code -o code code.s 2>/dev/null") || !image_open_path(&f.file, path, NULL) ||
	    !unwind_image_new(&f.image, f.file, false, NULL)) {
		skip("no compiler for it", "hand-written code");
	} else {
		f.module.image = f.file;
		ok(elf_symbols_open(&f.module, &f.symbols), "its functions");
		check_places(code, &f);
		check_landing_alone(&f);
		check_kinds(&f);
		elf_symbols_release(f.symbols);
	}
	unwind_image_free(f.image);
	image_release(f.file);
	code_free(code);
	return tap_done();
}
