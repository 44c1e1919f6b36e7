#include "unwind/x86_decode.h"

#include <string.h>

// What an opcode is. Registers that it writes: of ModRM's two operands, of its own low bits, or those that it has by itself.
enum {
	M = 0x01,      // a ModRM byte follows
	I8 = 0x02,     // a constant of a byte
	IZ = 0x04,     // of 4 bytes, 2 with an operand-size prefix
	BYTE = 0x08,   // operands are bytes
	WRM = 0x10, WREG = 0x20, WOP = 0x40,
	WAX = 0x80, WCX = 0x100, WDX = 0x200, WBX = 0x400, WDI = 0x800, WSI = 0x1000,
	VSTORE = 0x2000, // a vector or part of one to memory
	BAD = 0x4000,
	SPECIAL = 0x8000, // see special(), special_0f()
	STRING = WDI | WSI | WCX, // not all of them all of these, with or without a prefix
};

static const uint16_t one_byte[256] = {
	[0x00] = M | WRM | BYTE, M | WRM, M | WREG | BYTE, M | WREG, I8 | WAX, IZ | WAX | SPECIAL, BAD, BAD,
	M | WRM | BYTE, M | WRM, M | WREG | BYTE, M | WREG, I8 | WAX, IZ | WAX, BAD, BAD,
	[0x10] = M | WRM | BYTE, M | WRM, M | WREG | BYTE, M | WREG, I8 | WAX, IZ | WAX, BAD, BAD,
	M | WRM | BYTE, M | WRM, M | WREG | BYTE, M | WREG, I8 | WAX, IZ | WAX, BAD, BAD,
	[0x20] = M | WRM | BYTE, M | WRM, M | WREG | BYTE, M | WREG, I8 | WAX, IZ | WAX | SPECIAL, BAD, BAD,
	M | WRM | BYTE, M | WRM, M | WREG | BYTE, M | WREG, I8 | WAX, IZ | WAX | SPECIAL, BAD, BAD,
	[0x30] = M | WRM | BYTE, M | WRM, M | WREG | BYTE, M | WREG, I8 | WAX, IZ | WAX, BAD, BAD,
	M | BYTE, M, M | BYTE, M, I8, IZ, BAD, BAD,
	[0x40 ... 0x4f] = BAD, // REX
	[0x50 ... 0x57] = SPECIAL, [0x58 ... 0x5f] = SPECIAL | WOP,
	[0x60 ... 0x62] = BAD, [0x63] = M | WREG, [0x64 ... 0x67] = BAD,
	[0x68] = IZ | SPECIAL, M | IZ | WREG, I8 | SPECIAL, M | I8 | WREG, WDI | WCX, WDI | WCX, WSI | WCX, WSI | WCX,
	[0x70 ... 0x7f] = I8 | SPECIAL,
	[0x80] = M | I8 | BYTE | SPECIAL, M | IZ | SPECIAL, BAD, M | I8 | SPECIAL, M | BYTE, M, M | WRM | WREG | BYTE, M | WRM | WREG | SPECIAL,
	M | WRM | BYTE, M | WRM | SPECIAL, M | WREG | BYTE, M | WREG | SPECIAL, M | WRM, M | WREG | SPECIAL, M, M | WRM | SPECIAL,
	[0x90] = WOP | WAX | SPECIAL, [0x91 ... 0x97] = WOP | WAX | SPECIAL, [0x98] = WAX, WDX, BAD, 0, SPECIAL, SPECIAL, 0, WAX,
	[0xa0] = WAX | SPECIAL, WAX | SPECIAL, SPECIAL, SPECIAL, STRING, STRING, STRING, STRING,
	I8, IZ, STRING, STRING, STRING | WAX, STRING | WAX, STRING, STRING,
	[0xb0 ... 0xb7] = I8 | WOP | BYTE, [0xb8 ... 0xbf] = WOP | SPECIAL,
	[0xc0] = M | I8 | WRM | BYTE, M | I8 | WRM, SPECIAL, SPECIAL, BAD, BAD, M | I8 | WRM | BYTE | SPECIAL, M | IZ | WRM | SPECIAL,
	SPECIAL, SPECIAL, BAD, BAD, SPECIAL, I8, BAD, SPECIAL,
	[0xd0] = M | WRM | BYTE, M | WRM, M | WRM | BYTE, M | WRM, BAD, BAD, BAD, WAX, M, M, M, M, M, M, M, M | SPECIAL,
	[0xe0] = I8 | WCX | SPECIAL, I8 | WCX | SPECIAL, I8 | WCX | SPECIAL, I8 | SPECIAL, I8 | WAX, I8 | WAX, I8, I8,
	SPECIAL, SPECIAL, BAD, I8 | SPECIAL, WAX, WAX, 0, 0,
	[0xf0] = BAD, 0, BAD, BAD, SPECIAL, 0, M | BYTE | SPECIAL, M | SPECIAL, 0, 0, 0, 0, 0, 0, M | WRM | BYTE | SPECIAL, M | SPECIAL,
};

static const uint16_t two_byte[256] = {
	[0x00] = M | WRM, M | WRM | SPECIAL, M | WREG, M | WREG, BAD, WAX | WCX | SPECIAL, 0, SPECIAL, 0, 0, BAD, SPECIAL, BAD, M, 0, BAD,
	[0x10] = M, M | VSTORE, M, M | VSTORE, M, M, M, M | VSTORE, [0x18 ... 0x1d] = M | SPECIAL, M | WRM | SPECIAL, M | SPECIAL,
	[0x20] = M | WRM, M | WRM, M, M, BAD, BAD, BAD, BAD, M, M | VSTORE, M, M | VSTORE, M | SPECIAL, M | SPECIAL, M, M,
	[0x30] = 0, WAX | WDX, WAX | WDX, WAX | WDX, 0, SPECIAL, BAD, 0, [0x38 ... 0x3f] = BAD,
	[0x40 ... 0x4f] = M | WREG, [0x50] = M | WREG, [0x51 ... 0x6f] = M,
	[0x70] = M | I8, M | I8, M | I8, M | I8, M, M, M, 0, M | WRM | SPECIAL, M | SPECIAL, BAD, BAD, M, M, M | SPECIAL, M | VSTORE,
	[0x80 ... 0x8f] = SPECIAL, [0x90 ... 0x9f] = M | WRM | BYTE,
	[0xa0] = SPECIAL, SPECIAL, WAX | WBX | WCX | WDX, M, M | I8 | WRM, M | WRM, M | STRING | WAX, M | STRING | WAX, // VIA's PadLock
	SPECIAL, SPECIAL, 0, M | WRM, M | I8 | WRM, M | WRM, M | SPECIAL, M | WREG,
	[0xb0] = M | WRM | WAX | BYTE, M | WRM | WAX, M | WREG, M | WRM, M | WREG, M | WREG, M | WREG, M | WREG,
	M | WREG, BAD, M | I8 | SPECIAL, M | WRM, M | WREG, M | WREG, M | WREG, M | WREG,
	[0xc0] = M | WRM | WREG | BYTE, M | WRM | WREG, M | I8, M | WRM, M | I8, M | I8 | WREG, M | I8, M | SPECIAL, [0xc8 ... 0xcf] = WOP,
	[0xd0 ... 0xd5] = M, M | VSTORE, M | WREG, [0xd8 ... 0xe6] = M, M | VSTORE, [0xe8 ... 0xfe] = M,
	[0xff] = BAD, // ud0, of which nobody agrees how long it is; so of ud1, 0xb9
};

enum { NO_PREFIX, PREFIX_66, PREFIX_F3, PREFIX_F2 }; // as VEX numbers them
enum { MAP_ONE, MAP_0F, MAP_0F38, MAP_0F3A, MAP_5 = 5, MAP_6 };

// An instruction while it is read. `at` is behind what was read so far; enough bytes are there that all reads are inside of them.
struct reading {
	const uint8_t *start, *at;
	struct x86_decoded *out;
	uint16_t flags;
	uint8_t opcode, modrm, prefix, map;
	uint8_t rex; // W, R, X, B as in the REX prefix's low four bits
	uint8_t vector_bytes;
	bool has_rex, has_66, has_67, has_segment, is_vex, is_evex;
	uint8_t vvvv;
};

enum { REX_B = 1, REX_X = 2, REX_R = 4, REX_W = 8 };

static int32_t read_32(struct reading *r)
{
	int32_t value;

	memcpy(&value, r->at, sizeof(value));
	r->at += sizeof(value);
	return value;
}

static int32_t read_8(struct reading *r)
{
	uint8_t value = *r->at++;

	return value < 128 ? value : value - 256;
}

static int32_t read_16(struct reading *r)
{
	int16_t value;

	memcpy(&value, r->at, sizeof(value));
	r->at += sizeof(value);
	return value;
}

static bool is_memory(const struct reading *r)
{
	return r->modrm < 0xc0;
}

static unsigned extension(const struct reading *r) // of the opcode, where ModRM's reg is that
{
	return r->modrm >> 3 & 7;
}

// Of a byte operand, 4 to 7 are the second bytes of rax to rbx without a REX prefix.
static uint8_t byte_register(const struct reading *r, uint8_t reg)
{
	return (r->flags & BYTE) != 0 && !r->has_rex && reg >= 4 && reg < 8 ? (uint8_t)(reg - 4) : reg;
}

static void read_address(struct reading *r)
{
	struct x86_decoded *out = r->out;
	unsigned mode = r->modrm >> 6, rm = r->modrm & 7;
	unsigned base = rm;

	out->has_memory = true;
	if (rm == 4) {
		uint8_t sib = *r->at++;
		unsigned index = (sib >> 3 & 7u) | (r->rex & REX_X) << 2;
		base = sib & 7;
		out->index = index != 4 ? (uint8_t)index : X86_NOTHING;
	}
	bool has_base = base != 5 || mode != 0;
	if (mode == 1)
		out->displacement = read_8(r);
	else if (mode == 2 || !has_base)
		out->displacement = read_32(r);
	if (has_base)
		out->base = (uint8_t)(base | (r->rex & REX_B) << 3);
	// Counts from elsewhere, or not from the whole register; or EVEX has scaled the byte.
	if (r->has_67 || r->has_segment || (r->is_evex && mode == 1))
		out->base = out->index = X86_NOTHING;
}

static void read_modrm(struct reading *r)
{
	bool is_control = r->map == MAP_0F && r->opcode >= 0x20 && r->opcode < 0x24; // whose registers are moved to and from others alone

	r->modrm = (uint8_t)(*r->at++ | (is_control ? 0xc0 : 0));
	r->out->reg = (uint8_t)((r->modrm >> 3 & 7) | (r->rex & REX_R) << 1);
	if (is_memory(r))
		read_address(r);
	else
		r->out->rm = (uint8_t)((r->modrm & 7) | (r->rex & REX_B) << 3);
}

static void read_constant(struct reading *r)
{
	if ((r->flags & I8) != 0)
		r->out->value = read_8(r);
	else if ((r->flags & IZ) != 0)
		r->out->value = r->has_66 && (r->rex & REX_W) == 0 ? read_16(r) : read_32(r);
}

static uint8_t operand_bytes(const struct reading *r)
{
	if ((r->flags & BYTE) != 0)
		return 1;
	return (r->rex & REX_W) != 0 ? 8 : r->has_66 ? 2 : 4;
}

// X86_NOTHING: none.
static uint16_t bit_of(uint8_t reg)
{
	return (uint16_t)(1u << (reg & 31));
}

static void note_writes(struct reading *r)
{
	static const struct { uint16_t flag; uint8_t reg; } own[] = {
		{ WAX, X86_RAX }, { WCX, X86_RCX }, { WDX, X86_RDX }, { WBX, X86_RBX }, { WDI, X86_RDI }, { WSI, X86_RSI },
	};
	struct x86_decoded *out = r->out;

	if ((r->flags & WREG) != 0)
		out->writes |= bit_of(byte_register(r, out->reg));
	if ((r->flags & WRM) != 0 && out->rm != X86_NOTHING)
		out->writes |= bit_of(byte_register(r, out->rm));
	else if ((r->flags & WRM) != 0)
		out->stores = operand_bytes(r);
	if ((r->flags & WOP) != 0)
		out->writes |= bit_of(byte_register(r, (uint8_t)((r->opcode & 7) | (r->rex & REX_B) << 3)));
	if ((r->flags & VSTORE) != 0 && out->has_memory)
		out->stores = r->vector_bytes;
	for (size_t i = 0; (r->flags & (WAX | WCX | WDX | WBX | WDI | WSI)) != 0 && i < sizeof(own) / sizeof(*own); i++)
		if ((r->flags & own[i].flag) != 0)
			out->writes |= bit_of(own[i].reg);
}

// ---------------------------------------------------------------- the one-byte map's instructions that are more than their flags
static void is_kind(struct reading *r, enum x86_kind kind)
{
	r->out->kind = (uint8_t)kind;
}

static void push_or_pop(struct reading *r, enum x86_kind kind, uint8_t reg)
{
	r->out->reg = r->has_66 ? X86_NOTHING : reg;
	is_kind(r, kind);
	if (r->has_66) // two bytes: nobody does that on purpose
		r->flags = BAD;
	r->out->writes |= 1u << X86_RSP;
}

// Of a branch with an operand-size prefix processors of Intel and AMD take constants of different lengths.
static void branch(struct reading *r, enum x86_kind kind)
{
	is_kind(r, kind);
	if (r->has_66 && (r->rex & REX_W) == 0)
		r->flags = BAD;
}

static void of_whole_words(struct reading *r, enum x86_kind kind)
{
	if ((r->rex & REX_W) != 0)
		is_kind(r, kind);
}

static void special_8(struct reading *r)
{
	struct x86_decoded *out = r->out;

	switch (r->opcode) {
	case 0x80: case 0x81: case 0x83: // add, or, adc, sbb, and, sub, xor, cmp
		if (extension(r) != 7)
			r->flags |= WRM;
		if (r->opcode != 0x80 && (extension(r) == 0 || extension(r) == 5))
			of_whole_words(r, X86_ADD);
		if (r->opcode != 0x80 && extension(r) == 4)
			of_whole_words(r, X86_AND);
		if (extension(r) == 5)
			out->value = -out->value;
		return;
	case 0x87:
		of_whole_words(r, X86_XCHG);
		return;
	case 0x89:
		of_whole_words(r, X86_STORE);
		return;
	case 0x8b:
		of_whole_words(r, X86_LOAD);
		return;
	case 0x8d:
		of_whole_words(r, X86_LEA);
		r->flags |= is_memory(r) ? 0 : BAD;
		return;
	default: // 0x8f; XOP has another number there
		if (extension(r) != 0)
			r->flags = BAD;
		else
			push_or_pop(r, X86_POP, out->rm);
	}
}

static void special_f(struct reading *r)
{
	unsigned what = extension(r);

	switch (r->opcode) {
	case 0xf4:
		is_kind(r, X86_TRAP);
		return;
	case 0xf6: case 0xf7: // test, test, not, neg, mul, imul, div, idiv
		if (what < 2)
			r->flags |= r->opcode == 0xf6 ? I8 : IZ;
		else
			r->flags |= what < 4 ? WRM : r->opcode == 0xf6 ? WAX : WAX | WDX;
		read_constant(r);
		return;
	case 0xfe:
		r->flags |= what < 2 ? 0 : BAD;
		return;
	default: // inc, dec, call, far call, jmp, far jmp, push
		if (what < 2)
			r->flags |= WRM;
		else if (what == 6)
			push_or_pop(r, X86_PUSH, r->out->rm);
		else if (what == 7 || what == 3)
			r->flags = BAD;
		else
			is_kind(r, what == 2 ? X86_CALL_AT : what == 4 ? X86_JUMP_AT : X86_TRAP);
		r->out->writes |= what == 2 ? 1u << X86_RSP : 0;
	}
}

static void special_9_to_e(struct reading *r)
{
	struct x86_decoded *out = r->out;

	switch (r->opcode) {
	case 0x90: case 0x91: case 0x92: case 0x93: case 0x94: case 0x95: case 0x96: case 0x97:
		out->reg = X86_RAX;
		out->rm = (uint8_t)((r->opcode & 7) | (r->rex & REX_B) << 3);
		if (out->rm == X86_RAX) {
			is_kind(r, X86_NOP);
			r->flags = 0;
		} else {
			of_whole_words(r, X86_XCHG);
		}
		return;
	case 0x9c: case 0x9d:
		push_or_pop(r, r->opcode == 0x9c ? X86_PUSH : X86_POP, X86_NOTHING);
		return;
	case 0xa0: case 0xa1: case 0xa2: case 0xa3:
		r->at += r->has_67 ? 4 : 8;
		return;
	case 0xc2: case 0xc3:
		is_kind(r, X86_RET);
		out->value = r->opcode == 0xc2 ? (uint16_t)read_16(r) : 0;
		out->writes |= 1u << X86_RSP;
		return;
	case 0xc6: case 0xc7: // xabort and xbegin beside mov
		if (extension(r) == 7 && r->modrm == 0xf8)
			r->flags = WAX, is_kind(r, r->opcode == 0xc7 ? X86_BRANCH : X86_OTHER);
		else if (extension(r) != 0)
			r->flags = BAD;
		return;
	case 0xc8: // enter: nobody has it in code that is to be fast
		r->at += 3;
		out->writes |= 1u << X86_RSP | 1u << X86_RBP;
		return;
	case 0xc9:
		is_kind(r, X86_LEAVE);
		out->writes |= 1u << X86_RSP | 1u << X86_RBP;
		return;
	case 0xcc: case 0xcf:
		is_kind(r, X86_TRAP);
		return;
	case 0xdf: // fnstsw
		r->flags |= r->modrm == 0xe0 ? WAX : 0;
		return;
	case 0xe8: case 0xe9:
		branch(r, r->opcode == 0xe8 ? X86_CALL : X86_JUMP);
		out->value = read_32(r);
		out->writes |= r->opcode == 0xe8 ? 1u << X86_RSP : 0;
		return;
	case 0xeb:
		is_kind(r, X86_JUMP);
		return;
	default: // loop and jrcxz
		is_kind(r, X86_BRANCH);
	}
}

static void special(struct reading *r)
{
	if (r->opcode < 0x50) { // add, and, sub of a constant to rax
		r->out->rm = X86_RAX;
		of_whole_words(r, r->opcode == 0x25 ? X86_AND : X86_ADD);
		r->out->value = r->opcode == 0x2d ? -r->out->value : r->out->value;
	} else if ((r->opcode & 0xf0) == 0x50) {
		uint8_t reg = (uint8_t)((r->opcode & 7) | (r->rex & REX_B) << 3);
		push_or_pop(r, r->opcode < 0x58 ? X86_PUSH : X86_POP, reg);
	} else if (r->opcode == 0x68 || r->opcode == 0x6a) {
		push_or_pop(r, X86_PUSH, X86_NOTHING);
	} else if ((r->opcode & 0xf0) == 0x70) {
		is_kind(r, X86_BRANCH);
	} else if ((r->opcode & 0xf8) == 0xb8) {
		if ((r->rex & REX_W) != 0)
			r->at += 8;
		else
			r->at += r->has_66 ? 2 : 4;
	} else if ((r->opcode & 0xf0) == 0x80) {
		special_8(r);
	} else if (r->opcode >= 0xf0) {
		special_f(r);
	} else {
		special_9_to_e(r);
	}
}

// ---------------------------------------------------------------- the two-byte map's
static void special_0f01(struct reading *r)
{
	bool is_register = !is_memory(r);

	if (is_register && (r->modrm == 0xd0 || r->modrm == 0xee || r->modrm == 0xf9)) // xgetbv, rdpkru, rdtscp
		r->flags |= r->modrm == 0xf9 ? WAX | WCX | WDX : WAX | WDX;
	else if (is_register && extension(r) != 4) // smsw alone writes its operand
		r->flags |= WAX | WBX | WCX | WDX; // enclu, pconfig, vmrun and what there may be
	if (extension(r) != 4)
		r->flags &= (uint16_t)~WRM;
}

static void special_0f_a_to_c(struct reading *r)
{
	unsigned what = extension(r);
	bool is_register = !is_memory(r);

	switch (r->opcode) {
	case 0xae: // fences, saved state; rdfsbase, rdgsbase
		if (is_register && r->prefix == PREFIX_F3 && what < 2)
			r->flags |= WRM;
		return;
	case 0xba: // bt, bts, btr, btc with a constant
		r->flags |= what < 4 ? BAD : what > 4 ? WRM : 0;
		return;
	default: // 0xc7: cmpxchg8b, cmpxchg16b; rdrand, rdseed, rdpid
		if (!is_register && what == 1)
			r->flags |= WAX | WDX;
		else if (is_register && what >= 6)
			r->flags |= WRM;
	}
}

static void special_0f(struct reading *r)
{
	switch (r->opcode) {
	case 0x01:
		special_0f01(r);
		return;
	case 0x05:
		r->out->writes |= 1u << X86_R11;
		return;
	case 0x07: case 0x0b: case 0x35: // sysret, ud2, sysexit
		is_kind(r, X86_TRAP);
		return;
	case 0x18: case 0x19: case 0x1a: case 0x1b: case 0x1c: case 0x1d: case 0x1e: case 0x1f:
		if (r->opcode == 0x1e && r->prefix == PREFIX_F3 && r->modrm == 0xfa)
			is_kind(r, X86_LANDMARK);
		else if (r->opcode == 0x1f)
			is_kind(r, X86_NOP);
		if (r->prefix != PREFIX_F3 || is_memory(r) || extension(r) != 1) // rdssp alone writes its operand
			r->flags &= (uint16_t)~WRM;
		return;
	case 0x2c: case 0x2d:
		r->flags |= r->prefix >= PREFIX_F3 ? WREG : 0;
		return;
	case 0x78: case 0x79: // vmread, vmwrite; SSE4a's, of AMD's first processors with it alone
		r->flags = r->prefix != NO_PREFIX ? BAD : r->flags;
		return;
	case 0x7e:
		if (r->prefix < PREFIX_F3)
			r->flags |= WRM;
		return;
	case 0xa0: case 0xa8:
		push_or_pop(r, X86_PUSH, X86_NOTHING);
		return;
	case 0xa1: case 0xa9:
		push_or_pop(r, X86_POP, X86_NOTHING);
		return;
	default:
		break;
	}
	if ((r->opcode & 0xf0) == 0x80) {
		branch(r, X86_BRANCH);
		r->out->value = read_32(r);
	} else {
		special_0f_a_to_c(r);
	}
}

// ---------------------------------------------------------------- maps of three bytes, VEX and EVEX
static uint16_t flags_0f38(const struct reading *r)
{
	if (r->is_evex)
		return M;
	if (r->is_vex)
		return M | (r->opcode == 0xf2 || (r->opcode >= 0xf5 && r->opcode <= 0xf7) || (r->opcode & 0xf0) == 0xe0 ? WREG : 0) |
		       (r->opcode == 0x2e || r->opcode == 0x2f || r->opcode == 0x8e ? VSTORE : 0);
	switch (r->opcode) {
	case 0xf0: // movbe, crc32
		return M | WREG;
	case 0xf1:
		return M | (r->prefix == PREFIX_F2 ? WREG : WRM);
	case 0xf6: // adcx, adox; wrss
		return M | (r->prefix == NO_PREFIX ? WRM : WREG);
	case 0xfa: case 0xfb: // encodekey
		return M | WREG;
	default:
		return M;
	}
}

static uint16_t flags_0f3a(const struct reading *r)
{
	if (r->opcode >= 0x14 && r->opcode <= 0x17) // pextr, extractps
		return M | I8 | WRM;
	if (r->is_vex && r->opcode == 0xf0) // rorx
		return M | I8 | WREG;
	if (!r->is_evex && (r->opcode == 0x61 || r->opcode == 0x63)) // pcmpistri and its like
		return M | I8 | WCX;
	// vextract and vcvtps2ph to memory
	bool is_store = r->opcode == 0x19 || r->opcode == 0x39 || r->opcode == 0x1b || r->opcode == 0x3b || r->opcode == 0x1d;
	return M | I8 | ((r->is_vex || r->is_evex) && is_store ? VSTORE : 0);
}

static uint16_t flags_vector_0f(const struct reading *r)
{
	uint8_t op = r->opcode;

	if (op == 0x77)
		return r->is_evex ? BAD : 0;
	if (op == 0x2c || op == 0x2d || (r->is_evex && (op == 0x78 || op == 0x79)))
		return M | (r->prefix >= PREFIX_F3 ? WREG : 0);
	if (op == 0x7e)
		return M | (r->prefix == PREFIX_66 ? WRM : 0);
	if (op == 0x50 || op == 0xd7 || op == 0x93)
		return M | (r->is_evex ? 0 : WREG);
	if (op == 0x91) // a mask to memory
		return M | VSTORE;
	if (op < 0x10 || (op >= 0x18 && op < 0x28) || (op >= 0x30 && op < 0x40))
		return BAD;
	return M | (two_byte[op] & (I8 | VSTORE)) | (op == 0xc5 ? WREG : 0);
}

// Where VEX and EVEX bring flags, prefix and map; `at` stands at the opcode then.
static void read_vex(struct reading *r)
{
	uint8_t first = r->at[-1], low = *r->at++, high = low;

	r->is_vex = true;
	r->map = MAP_0F;
	r->rex = (uint8_t)(~low >> 5 & REX_R);
	if (first == 0xc4) {
		r->map = low & 31;
		r->rex = (uint8_t)(~low >> 5 & (REX_R | REX_X | REX_B));
		high = *r->at++;
		r->rex |= high >> 4 & REX_W;
	}
	r->prefix = high & 3;
	r->vvvv = ~high >> 3 & 15;
	r->vector_bytes = (high & 4) != 0 ? 32 : 16;
}

static void read_evex(struct reading *r)
{
	uint8_t low = r->at[0], middle = r->at[1], high = r->at[2];

	r->at += 3;
	r->is_evex = true;
	r->map = (low & 8) == 0 && (middle & 4) != 0 ? low & 7 : 7; // APX has these bits otherwise
	r->rex = (uint8_t)((~low >> 5 & (REX_R | REX_X | REX_B)) | (middle >> 4 & REX_W));
	r->prefix = middle & 3;
	r->vvvv = ~middle >> 3 & 15;
	r->vector_bytes = (uint8_t)(16u << (high >> 5 & 3));
}

static void read_vector_opcode(struct reading *r)
{
	r->opcode = *r->at++;
	r->flags = BAD;
	if (r->map == MAP_0F)
		r->flags = flags_vector_0f(r);
	else if (r->map == MAP_0F38)
		r->flags = flags_0f38(r);
	else if (r->map == MAP_0F3A)
		r->flags = flags_0f3a(r);
	else if (r->is_evex && (r->map == MAP_5 || r->map == MAP_6)) { // half precision
		uint8_t op = r->map == MAP_5 ? r->opcode : 0;
		bool to_register = (op == 0x2c || op == 0x2d || op == 0x78 || op == 0x79) && r->prefix == PREFIX_F3;
		r->flags = M | (to_register ? WREG : op == 0x7e ? WRM : op == 0x11 ? VSTORE : 0);
	}
	bool writes_vvvv = r->is_vex && r->map == MAP_0F38 && (r->opcode == 0xf3 || r->opcode == 0xf6); // blsr and its like; mulx
	if (writes_vvvv)
		r->out->writes |= bit_of(r->vvvv);
}

// ---------------------------------------------------------------- all of it
// Prefixes, up to the opcode's first byte, which is answered. They may repeat, as often as an instruction may have bytes.
static uint8_t read_prefixes(struct reading *r)
{
	for (unsigned i = 0; i < X86_BYTES_MOST; i++) {
		uint8_t byte = *r->at++;
		switch (byte) {
		case 0x66:
			r->has_66 = true;
			break;
		case 0x67:
			r->has_67 = true;
			break;
		case 0xf2: case 0xf3:
			r->prefix = byte == 0xf2 ? PREFIX_F2 : PREFIX_F3;
			break;
		case 0x64: case 0x65:
			r->has_segment = true;
			break;
		case 0x26: case 0x2e: case 0x36: case 0x3e: case 0xf0:
			break;
		default:
			if ((byte & 0xf0) != 0x40) {
				if (r->prefix == NO_PREFIX && r->has_66)
					r->prefix = PREFIX_66;
				return byte;
			}
			r->rex = byte & 15; // one that does not stand right before the opcode means nothing
			r->has_rex = true;
			continue;
		}
		r->rex = 0;
		r->has_rex = false;
	}
	return 0xd6; // none
}

static void read_opcode(struct reading *r)
{
	uint8_t byte = read_prefixes(r);

	r->vector_bytes = 16;
	if (!r->has_rex && (byte == 0xc4 || byte == 0xc5 || byte == 0x62)) {
		if (byte == 0x62)
			read_evex(r);
		else
			read_vex(r);
		read_vector_opcode(r);
		return;
	}
	r->map = MAP_ONE;
	r->opcode = byte;
	r->flags = one_byte[byte];
	if (byte != 0x0f)
		return;
	r->map = MAP_0F;
	r->opcode = *r->at++;
	r->flags = two_byte[r->opcode];
	if (r->opcode == 0x38 || r->opcode == 0x3a) {
		r->map = r->opcode == 0x38 ? MAP_0F38 : MAP_0F3A;
		r->opcode = *r->at++;
		r->flags = r->map == MAP_0F38 ? flags_0f38(r) : flags_0f3a(r);
	}
}

bool x86_decode(const uint8_t *code, size_t size, struct x86_decoded *out)
{
	enum { READ_MOST = 40 }; // prefixes, then opcode, ModRM, SIB, displacement and the longest constant, and EVEX's bytes
	uint8_t copy[READ_MOST];
	struct reading r = { .start = code, .at = code, .out = out };

	*out = (struct x86_decoded){ .reg = X86_NOTHING, .rm = X86_NOTHING, .base = X86_NOTHING, .index = X86_NOTHING };
	if (size < READ_MOST) { // so that nothing below has to ask
		memset(copy, 0, sizeof(copy));
		if (size > 0)
			memcpy(copy, code, size);
		r.start = r.at = copy;
	}
	read_opcode(&r);
	if ((r.flags & BAD) != 0)
		return false;
	if ((r.flags & M) != 0)
		read_modrm(&r);
	read_constant(&r);
	if ((r.flags & SPECIAL) != 0 && r.map == MAP_ONE)
		special(&r);
	else if ((r.flags & SPECIAL) != 0)
		special_0f(&r);
	note_writes(&r);
	size_t length = (size_t)(r.at - r.start);
	if ((r.flags & BAD) != 0 || length > X86_BYTES_MOST || length > size)
		return false;
	out->size = (uint8_t)length;
	return true;
}
