// Our instruction decoder (unwind/x86_decode.h) beside libcapstone's, over the whole code of this host's libraries and programs: how long each instruction is, which
// general registers it writes, and what those that the unwinder follows do.
#include "unwind/x86_decode.h"

#include <capstone/capstone.h>
#include <elf.h>

#include "annotate/disassemble.h"
#include "base/mem.h"
#include "elf/image.h"
#include "tests/tap.h"

struct tally {
	unsigned long compared, lengths, registers, kinds, unknown, shown;
};

static const uint8_t parts[][5] = {
	{ X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL, X86_REG_AH }, { X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH },
	{ X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH }, { X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL, X86_REG_BH },
	{ X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL }, { X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL },
	{ X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL }, { X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL },
	{ X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B }, { X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B },
	{ X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B }, { X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B },
	{ X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B }, { X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B },
	{ X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B }, { X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B },
};

static uint8_t number_of(unsigned reg)
{
	for (uint8_t i = 0; i < X86_REGISTERS; i++)
		for (size_t k = 0; k < 5 && parts[i][k] != 0; k++)
			if (parts[i][k] == reg)
				return i;
	return X86_NOTHING;
}

static bool is_of_group(const cs_insn *insn, uint8_t group)
{
	for (uint8_t i = 0; i < insn->detail->groups_count; i++)
		if (insn->detail->groups[i] == group)
			return true;
	return false;
}

// Capstone 4 has it that these write what they only read.
static bool is_taken_for_writing(const cs_insn *insn)
{
	return insn->id == X86_INS_CWD || insn->id == X86_INS_CDQ || insn->id == X86_INS_CQO || insn->id == X86_INS_TEST || insn->id == X86_INS_VMWRITE;
}

static unsigned writes_of(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;
	unsigned out = 0;

	for (uint8_t i = 0; i < insn->detail->regs_write_count; i++)
		if (number_of(insn->detail->regs_write[i]) != X86_NOTHING)
			out |= 1u << number_of(insn->detail->regs_write[i]);
	for (uint8_t i = 0; i < x86->op_count; i++)
		if (x86->operands[i].type == X86_OP_REG && (x86->operands[i].access & CS_AC_WRITE) != 0 && number_of(x86->operands[i].reg) != X86_NOTHING)
			out |= 1u << number_of(x86->operands[i].reg);
	return out;
}

static int64_t target_of(const cs_insn *insn, uint64_t addr)
{
	return insn->detail->x86.operands[0].imm - (int64_t)addr - insn->size;
}

static bool is_memory_alike(const cs_x86_op *op, const struct x86_decoded *own)
{
	bool is_whole = op->mem.segment != X86_REG_FS && op->mem.segment != X86_REG_GS && (number_of(op->mem.base) == X86_NOTHING || parts[number_of(op->mem.base)][0] == op->mem.base);
	uint8_t base = is_whole ? number_of(op->mem.base) : X86_NOTHING;

	return own->has_memory && own->base == base && (base == X86_NOTHING || own->displacement == op->mem.disp);
}

static bool is_operand_alike(const cs_x86_op *op, uint8_t reg, const struct x86_decoded *own)
{
	return op->type == X86_OP_REG ? reg == number_of(op->reg) : op->type == X86_OP_MEM ? reg == X86_NOTHING && is_memory_alike(op, own) : reg == X86_NOTHING;
}

// Whether the kind, and with it the operands, are what capstone says.
static bool is_kind_alike(const cs_insn *insn, const struct x86_decoded *own, uint64_t addr)
{
	const cs_x86_op *op = insn->detail->x86.operands;
	bool is_direct = insn->detail->x86.op_count > 0 && op->type == X86_OP_IMM, is_wide = insn->detail->x86.op_count > 0 && op->size == 8;

	if (is_of_group(insn, CS_GRP_RET))
		return own->kind == X86_RET && own->value == (is_direct ? op->imm : 0);
	if (is_of_group(insn, CS_GRP_CALL) && insn->id == X86_INS_CALL)
		return is_direct ? own->kind == X86_CALL && own->value == target_of(insn, addr) : own->kind == X86_CALL_AT && is_operand_alike(op, own->rm, own);
	if (insn->id == X86_INS_JMP)
		return is_direct ? own->kind == X86_JUMP && own->value == target_of(insn, addr) : own->kind == X86_JUMP_AT && is_operand_alike(op, own->rm, own);
	if (is_of_group(insn, CS_GRP_JUMP) && is_direct)
		return own->kind == X86_BRANCH && own->value == target_of(insn, addr);
	switch (insn->id) {
	case X86_INS_LOOP:
	case X86_INS_LOOPE:
	case X86_INS_LOOPNE:
	case X86_INS_XBEGIN:
		return own->kind == X86_BRANCH && own->value == target_of(insn, addr);
	case X86_INS_PUSH:
	case X86_INS_POP:
		return own->kind == (insn->id == X86_INS_PUSH ? X86_PUSH : X86_POP) && is_operand_alike(op, own->reg, own);
	case X86_INS_LEAVE:
		return own->kind == X86_LEAVE;
	case X86_INS_LEA:
		return (own->kind == X86_LEA) == is_wide && (!is_wide || (is_operand_alike(&op[0], own->reg, own) && is_memory_alike(&op[1], own)));
	case X86_INS_ADD:
	case X86_INS_SUB:
		is_direct = op[1].type == X86_OP_IMM && is_wide;
		return (own->kind == X86_ADD) == is_direct &&
		       (!is_direct || (is_operand_alike(op, own->rm, own) && own->value == (insn->id == X86_INS_ADD ? op[1].imm : -op[1].imm)));
	case X86_INS_AND:
		is_direct = op[1].type == X86_OP_IMM && is_wide;
		return (own->kind == X86_AND) == is_direct && (!is_direct || (is_operand_alike(op, own->rm, own) && own->value == op[1].imm));
	case X86_INS_MOV:
		if (own->kind == X86_LOAD)
			return is_wide && is_operand_alike(&op[0], own->reg, own) && is_operand_alike(&op[1], own->rm, own);
		if (own->kind == X86_STORE)
			return is_wide && is_operand_alike(&op[0], own->rm, own) && is_operand_alike(&op[1], own->reg, own);
		return !is_wide || op[1].type != X86_OP_REG || number_of(op[0].reg) == X86_NOTHING || number_of(op[1].reg) == X86_NOTHING;
	default:
		return own->kind == X86_OTHER || own->kind == X86_TRAP || own->kind == X86_NOP || own->kind == X86_LANDMARK || own->kind == X86_XCHG || own->kind == X86_PUSH || own->kind == X86_POP;
	}
}

// What we leave out, and is met in tables that stand among the code alone: far calls and returns, what is pushed and branches with an operand-size prefix, 3DNow!,
// ud0, ud1, XOP.
static bool is_left_out(const cs_insn *insn)
{
	const uint8_t *op = insn->bytes;
	bool is_short = false;

	while (*op == 0x66 || *op == 0x67 || *op == 0xf0 || *op == 0xf2 || *op == 0xf3 || *op == 0x2e || *op == 0x3e || *op == 0x26 || *op == 0x36 || (*op & 0xfe) == 0x64 || (*op & 0xf0) == 0x40)
		is_short = *op++ == 0x66 || is_short;
	bool is_far = *op == 0xca || *op == 0xcb || (*op == 0xff && (op[1] >> 3 & 7) == 3);
	return is_far || is_short || (op[0] == 0x0f && (op[1] == 0x0f || op[1] == 0xff || op[1] == 0xb9)) || *op == 0x8f;
}

static void show(struct tally *t, const char *what, const uint8_t *code, size_t size, uint64_t addr, const cs_insn *insn, const struct x86_decoded *own)
{
	char hex[3 * X86_BYTES_MOST + 1] = "";

	if (t->shown++ > 20)
		return;
	for (size_t i = 0; i < X86_BYTES_MOST && i < size; i++)
		snprintf(hex + 3 * i, 4, "%02x ", code[i]);
	diag("%s at %#llx: %s is %s %s (%u bytes, writes %#x); ours %u bytes, kind %u, writes %#x", what, (unsigned long long)addr, hex,
	     insn != NULL ? insn->mnemonic : "nothing", insn != NULL ? insn->op_str : "", insn != NULL ? insn->size : 0, insn != NULL ? writes_of(insn) : 0, own->size,
	     own->kind, own->writes);
}

static void compare_code(struct disassembler *disassembler, struct tally *t, struct bytes code, uint64_t addr)
{
	while (bytes_left(&code) > 0) {
		const uint8_t *at = code.at;
		size_t left = bytes_left(&code), step;
		struct x86_decoded own;
		bool is_known = x86_decode(code.at, bytes_left(&code), &own);
		const cs_insn *insn = disassemble_decoded(disassembler, &at, &left, addr);
		if (insn != NULL && is_known) {
			t->compared++;
			unsigned wrong = 0;
			t->lengths += wrong = insn->size != own.size;
			if (wrong)
				show(t, "length", code.at, bytes_left(&code), addr, insn, &own);
			else if (!is_taken_for_writing(insn) && (writes_of(insn) & ~own.writes) != 0 && ++t->registers)
				show(t, "registers", code.at, bytes_left(&code), addr, insn, &own);
			else if (!is_kind_alike(insn, &own, addr) && ++t->kinds)
				show(t, "kind", code.at, bytes_left(&code), addr, insn, &own);
		} else if (insn != NULL && !is_left_out(insn)) {
			t->unknown++;
			show(t, "unknown", code.at, bytes_left(&code), addr, insn, &own);
		}
		step = insn != NULL ? insn->size : is_known ? own.size : 1;
		bytes_skip(&code, step);
		addr += step;
	}
}

static void compare_file(struct disassembler *disassembler, const char *path)
{
	struct tally t = { 0 };
	struct image *image;

	if (!image_open_path(&image, path, NULL)) {
		skip("it is not there", "%s", path);
		return;
	}
	for (size_t i = 0; i < image->section_count && image->machine == EM_X86_64; i++) {
		const struct image_section *section = &image->sections[i];
		struct bytes code;
		if ((section->flags & SHF_EXECINSTR) != 0 && image_section_raw(image, section, &code))
			compare_code(disassembler, &t, code, section->vaddr);
	}
	image_release(image);
	ok(t.compared > 1000 && t.lengths + t.registers + t.kinds + t.unknown == 0,
	   "%s: %lu instructions compared, %lu differ in length, %lu in registers, %lu in what they do; %lu that capstone alone knows", path, t.compared, t.lengths,
	   t.registers, t.kinds, t.unknown);
}

int main(int argc, char **argv)
{
	struct disassembler *disassembler;
	struct err err = { 0 };

	if (!disassembler_open_decoding(&disassembler, EM_X86_64, &err)) {
		skip(err.text, "our decoder beside libcapstone's");
		return tap_done();
	}
	static const char *const files[] = { "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/usr/bin/node" };
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		compare_file(disassembler, files[i]);
	for (int i = 1; i < argc; i++)
		compare_file(disassembler, argv[i]);
	disassembler_close(disassembler);
	return tap_done();
}
