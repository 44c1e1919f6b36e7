#include "annotate/disassemble.h"

#include <capstone/capstone.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

// The struct that instructions are handed over in differs from one major version to the next: only the one compiled against will do.
#define STRING_OF(x) #x
#define SONAME(major) "libcapstone.so." STRING_OF(major)

struct disassembler {
	void *library;
	csh handle;
	cs_insn *insn;
	__typeof__(cs_close) *close;
	__typeof__(cs_option) *option;
	__typeof__(cs_disasm_iter) *next;
	__typeof__(cs_malloc) *alloc;
	__typeof__(cs_free) *free;
	size_t least; // bytes of the shortest instruction
	bool is_open;
};

static bool machine_mode(uint16_t machine, cs_arch *arch, cs_mode *mode, size_t *least)
{
	*least = machine == EM_X86_64 || machine == EM_386 ? 1 : 4;
	switch (machine) {
	case EM_X86_64: *arch = CS_ARCH_X86, *mode = CS_MODE_64; return true;
	case EM_386: *arch = CS_ARCH_X86, *mode = CS_MODE_32; return true;
	case EM_AARCH64: *arch = CS_ARCH_ARM64, *mode = CS_MODE_LITTLE_ENDIAN; return true;
	default: return false;
	}
}

static bool find_functions(struct disassembler *d, __typeof__(cs_open) **open)
{
	*open = (__typeof__(cs_open) *)dlsym(d->library, "cs_open");
	d->option = (__typeof__(cs_option) *)dlsym(d->library, "cs_option");
	d->close = (__typeof__(cs_close) *)dlsym(d->library, "cs_close");
	d->next = (__typeof__(cs_disasm_iter) *)dlsym(d->library, "cs_disasm_iter");
	d->alloc = (__typeof__(cs_malloc) *)dlsym(d->library, "cs_malloc");
	d->free = (__typeof__(cs_free) *)dlsym(d->library, "cs_free");
	return *open != NULL && d->option != NULL && d->close != NULL && d->next != NULL && d->alloc != NULL && d->free != NULL;
}

bool disassembler_open(struct disassembler **out, uint16_t machine, struct err *err)
{
	__typeof__(cs_open) *open;
	cs_arch arch;
	cs_mode mode;
	size_t least;

	*out = NULL;
	if (!machine_mode(machine, &arch, &mode, &least))
		return err_set(err, STATUS_INPUT, "machine %u: not one that is disassembled here (x86-64, i386, AArch64)", machine);
	struct disassembler *d = NEW(struct disassembler);
	d->least = least;
	d->library = dlopen(SONAME(CS_API_MAJOR), RTLD_NOW | RTLD_LOCAL);
	if (d->library == NULL || !find_functions(d, &open)) {
		disassembler_close(d);
		return err_set(err, STATUS_HOST, "no instructions: %s is not installed (apt-get install libcapstone%d)", SONAME(CS_API_MAJOR), CS_API_MAJOR);
	}
	d->is_open = open(arch, mode, &d->handle) == CS_ERR_OK;
	if (d->is_open && arch == CS_ARCH_X86)
		d->option(d->handle, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT); // as binutils and perf show it
	d->insn = d->is_open ? d->alloc(d->handle) : NULL;
	if (d->insn == NULL) {
		disassembler_close(d);
		return err_set(err, STATUS_HOST, "no instructions: this libcapstone has no decoder for machine %u", machine);
	}
	*out = d;
	return true;
}

void disassembler_close(struct disassembler *d)
{
	if (d == NULL)
		return;
	if (d->insn != NULL)
		d->free(d->insn, 1);
	if (d->is_open)
		d->close(&d->handle);
	if (d->library != NULL)
		dlclose(d->library);
	free(d);
}

bool disassemble(struct disassembler *d, const uint8_t **code, size_t *size, uint64_t addr, struct disassembled *out)
{
	uint64_t at = addr;
	if (*size == 0)
		return false;
	out->addr = addr;
	if (d->next(d->handle, code, size, &at, d->insn)) {
		out->size = d->insn->size;
		snprintf(out->text, sizeof(out->text), d->insn->op_str[0] != '\0' ? "%-7s %s" : "%s", d->insn->mnemonic, d->insn->op_str);
		return true;
	}
	out->size = *size < d->least ? *size : d->least;
	int length = snprintf(out->text, sizeof(out->text), ".byte  ");
	for (size_t i = 0; i < out->size; i++)
		length += snprintf(out->text + length, sizeof(out->text) - (size_t)length, " 0x%02x", (*code)[i]);
	*code += out->size;
	*size -= out->size;
	return true;
}

bool disassembler_open_decoding(struct disassembler **out, uint16_t machine, struct err *err)
{
	struct disassembler *d = disassembler_open(out, machine, err) ? *out : NULL;

	if (d == NULL)
		return false;
	// The room for the detail comes with the instruction.
	d->free(d->insn, 1);
	d->insn = NULL;
	if (d->option(d->handle, CS_OPT_DETAIL, CS_OPT_ON) == CS_ERR_OK && d->option(d->handle, CS_OPT_SYNTAX, CS_OPT_SYNTAX_INTEL) == CS_ERR_OK &&
	    (d->insn = d->alloc(d->handle)) != NULL)
		return true;
	disassembler_close(d);
	*out = NULL;
	return err_set(err, STATUS_HOST, "this libcapstone does not tell what instructions do");
}

const struct cs_insn *disassemble_decoded(struct disassembler *d, const uint8_t **code, size_t *size, uint64_t addr)
{
	return d->insn != NULL && d->next(d->handle, code, size, &addr, d->insn) ? d->insn : NULL;
}
