#include "cmd/debug_decode.h"

#include <capstone/capstone.h>
#include <elf.h>
#include <string.h>

#include "annotate/disassemble.h"
#include "base/hash.h"
#include "base/vec.h"

enum { INSTRUCTIONS_KEPT = 1 << 18 };

struct decoder {
	struct disassembler *disassembler;
	struct hash_map known; // key -> number + 1
	VEC(struct instruction) kept;
};

unsigned register_of(unsigned capstone, bool *is_whole)
{
	static const struct { uint16_t whole, parts[4]; uint8_t number; } named[] = {
		{ X86_REG_RAX, { X86_REG_EAX, X86_REG_AX, X86_REG_AL, X86_REG_AH }, RAX }, { X86_REG_RDX, { X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH }, RDX },
		{ X86_REG_RCX, { X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH }, RCX }, { X86_REG_RBX, { X86_REG_EBX, X86_REG_BX, X86_REG_BL, X86_REG_BH }, RBX },
		{ X86_REG_RSI, { X86_REG_ESI, X86_REG_SI, X86_REG_SIL }, RSI }, { X86_REG_RDI, { X86_REG_EDI, X86_REG_DI, X86_REG_DIL }, RDI },
		{ X86_REG_RBP, { X86_REG_EBP, X86_REG_BP, X86_REG_BPL }, RBP }, { X86_REG_RSP, { X86_REG_ESP, X86_REG_SP, X86_REG_SPL }, RSP },
		{ X86_REG_R8, { X86_REG_R8D, X86_REG_R8W, X86_REG_R8B }, 8 }, { X86_REG_R9, { X86_REG_R9D, X86_REG_R9W, X86_REG_R9B }, 9 },
		{ X86_REG_R10, { X86_REG_R10D, X86_REG_R10W, X86_REG_R10B }, 10 }, { X86_REG_R11, { X86_REG_R11D, X86_REG_R11W, X86_REG_R11B }, 11 },
		{ X86_REG_R12, { X86_REG_R12D, X86_REG_R12W, X86_REG_R12B }, 12 }, { X86_REG_R13, { X86_REG_R13D, X86_REG_R13W, X86_REG_R13B }, 13 },
		{ X86_REG_R14, { X86_REG_R14D, X86_REG_R14W, X86_REG_R14B }, 14 }, { X86_REG_R15, { X86_REG_R15D, X86_REG_R15W, X86_REG_R15B }, 15 },
	};

	*is_whole = false;
	for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
		*is_whole = capstone == named[i].whole;
		if (*is_whole)
			return named[i].number;
		for (size_t k = 0; k < 4 && named[i].parts[k] != 0; k++)
			if (capstone == named[i].parts[k])
				return named[i].number;
	}
	return NO_REGISTER;
}

static uint8_t pointer_register(unsigned capstone)
{
	bool is_whole;
	unsigned reg = register_of(capstone, &is_whole);

	return capstone == X86_REG_RIP ? REGISTER_PC : (uint8_t)reg;
}

static struct operand operand_of(const cs_insn *insn, unsigned i)
{
	const cs_x86 *x86 = &insn->detail->x86;
	const cs_x86_op *op = &x86->operands[i];
	struct operand out = { .size = op->size, .reg = NO_REGISTER, .base = NO_REGISTER, .index = NO_REGISTER };
	bool reads_only = insn->id == X86_INS_CMP || insn->id == X86_INS_TEST || insn->id == X86_INS_BT || insn->id == X86_INS_NOP,
	     writes_all = insn->id == X86_INS_XCHG || insn->id == X86_INS_XADD || insn->id == X86_INS_MULX || insn->id == X86_INS_CMPXCHG, is_whole;

	out.is_written = (op->access & CS_AC_WRITE) != 0 || (i == 0 && !reads_only) || writes_all;
	switch (op->type) {
	case X86_OP_REG:
		out.kind = OPERAND_REGISTER;
		out.reg = (uint8_t)register_of(op->reg, &is_whole);
		out.is_high = op->reg == X86_REG_AH || op->reg == X86_REG_BH || op->reg == X86_REG_CH || op->reg == X86_REG_DH;
		break;
	case X86_OP_IMM:
		out.kind = OPERAND_CONSTANT;
		out.value = op->imm;
		break;
	case X86_OP_MEM:
		out.kind = OPERAND_MEMORY;
		out.base = pointer_register(op->mem.base);
		out.index = pointer_register(op->mem.index);
		out.scale = (uint8_t)op->mem.scale;
		out.has_segment = op->mem.segment == X86_REG_FS || op->mem.segment == X86_REG_GS || x86->addr_size != 8;
		out.value = op->mem.disp;
		break;
	default:
		break;
	}
	return out;
}

static bool is_of_group(const cs_insn *insn, uint8_t group)
{
	for (uint8_t i = 0; i < insn->detail->groups_count; i++)
		if (insn->detail->groups[i] == group)
			return true;
	return false;
}

static uint8_t flow_of(const cs_insn *insn)
{
	switch (insn->id) {
	case X86_INS_INT3:
	case X86_INS_UD2:
	case X86_INS_HLT:
	case X86_INS_LJMP:
	case X86_INS_LCALL:
	case X86_INS_RETF:
	case X86_INS_RETFQ:
	case X86_INS_ENTER:
	case X86_INS_SYSEXIT:
	case X86_INS_SYSRET:
		return FLOW_STOP;
	case X86_INS_LOOP:
	case X86_INS_LOOPE:
	case X86_INS_LOOPNE:
	case X86_INS_JRCXZ:
	case X86_INS_JECXZ:
	case X86_INS_JCXZ:
		return FLOW_LOOP;
	default:
		break;
	}
	if (is_of_group(insn, CS_GRP_IRET))
		return FLOW_STOP;
	if (is_of_group(insn, CS_GRP_RET))
		return FLOW_RETURN;
	if (is_of_group(insn, CS_GRP_CALL))
		return FLOW_CALL;
	if (is_of_group(insn, CS_GRP_JUMP))
		return insn->id == X86_INS_JMP ? FLOW_JUMP : FLOW_BRANCH;
	return FLOW_ON;
}

static struct instruction instruction_of(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;
	struct instruction out = { .id = (uint16_t)insn->id, .size = (uint8_t)insn->size, .flow = flow_of(insn) };
	bool is_whole;

	out.operand_count = x86->op_count < OPERANDS ? x86->op_count : OPERANDS;
	for (uint8_t i = 0; i < out.operand_count; i++)
		out.operands[i] = operand_of(insn, i);
	for (uint8_t i = 0; i < insn->detail->regs_write_count; i++) {
		unsigned reg = register_of(insn->detail->regs_write[i], &is_whole);
		if (reg < REGISTERS)
			out.clobbered |= (uint16_t)(1u << reg);
	}
	if (insn->id == X86_INS_SYSCALL)
		out.clobbered |= 1u << RAX | 1u << RCX | 1u << 11;
	out.condition = (x86->opcode[0] == 0x0f ? x86->opcode[1] : x86->opcode[0]) & 15;
	out.is_repeated = x86->prefix[0] == X86_PREFIX_REP || x86->prefix[0] == X86_PREFIX_REPNE;
	out.keeps_flags = strncmp(insn->mnemonic, "mov", 3) == 0 || strncmp(insn->mnemonic, "vmov", 4) == 0 || insn->id == X86_INS_NOP || insn->id == X86_INS_ENDBR64;
	return out;
}

// Its number + 1.
static uint32_t find(struct decoder *decoder, uint64_t key, const uint8_t *bytes, size_t size)
{
	const uint32_t *known = hash_map_get(&decoder->known, key);

	if (known != NULL)
		return *known;
	const cs_insn *insn = disassemble_decoded(decoder->disassembler, &bytes, &size, 0);
	vec_push(&decoder->kept, insn != NULL ? instruction_of(insn) : (struct instruction){ .flow = FLOW_STOP });
	hash_map_put(&decoder->known, key, (uint32_t)decoder->kept.count, NULL);
	return (uint32_t)decoder->kept.count;
}

const struct instruction *decoder_at(struct decoder *decoder, uint32_t *last, uint64_t key, const uint8_t *bytes, size_t size)
{
	if (*last > 0 && decoder->kept.data[*last - 1].next > 0) {
		*last = decoder->kept.data[*last - 1].next;
		return &decoder->kept.data[*last - 1];
	}
	if (decoder->kept.count >= INSTRUCTIONS_KEPT) {
		hash_map_clear(&decoder->known);
		vec_clear(&decoder->kept);
		*last = 0;
	}
	uint32_t found = find(decoder, key, bytes, size);
	if (*last > 0)
		decoder->kept.data[*last - 1].next = found;
	*last = found;
	return &decoder->kept.data[found - 1];
}

bool decoder_new(struct decoder **out, struct err *err)
{
	struct disassembler *disassembler;

	*out = NULL;
	if (!disassembler_open_decoding(&disassembler, EM_X86_64, err))
		return false;
	*out = NEW(struct decoder);
	(*out)->disassembler = disassembler;
	return true;
}

void decoder_free(struct decoder *decoder)
{
	if (decoder == NULL)
		return;
	disassembler_close(decoder->disassembler);
	hash_map_release(&decoder->known);
	vec_release(&decoder->kept);
	free(decoder);
}
