// The texts of a snapshot: regs.txt and maps.txt.
#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/vec.h"
#include "cmd/debug_snapshot.h"
#include "proc/procfs_read.h"
#include "unwind/unwind.h"

// ---------------------------------------------------------------- registers

static bool number_behind(const char *name, char letter, unsigned most, unsigned *number)
{
	if (name[0] != letter || name[1] < '0' || name[1] > '9')
		return false;
	char *end;
	unsigned long n = strtoul(name + 1, &end, 10);
	*number = (unsigned)n;
	return *end == '\0' && n <= most;
}

// The register's number; false: no such register there.
static bool find_register(uint16_t machine, const char *name, unsigned *number)
{
	static const char x86[9][3] = { "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip" };
	static const struct { const char *name; uint16_t machine; unsigned number; } arm[] = {
		{ "fp", EM_AARCH64, 29 }, { "lr", EM_AARCH64, 30 }, { "sp", EM_AARCH64, 31 }, { "pc", EM_AARCH64, 32 }, { "vg", EM_AARCH64, 46 },
		{ "fp", EM_ARM, 11 }, { "ip", EM_ARM, 12 }, { "sp", EM_ARM, 13 }, { "lr", EM_ARM, 14 }, { "pc", EM_ARM, 15 },
	};

	if (machine == EM_AARCH64 || machine == EM_ARM) {
		for (size_t i = 0; i < sizeof(arm) / sizeof(arm[0]); i++)
			if (arm[i].machine == machine && strcmp(arm[i].name, name) == 0)
				return (*number = arm[i].number), true;
		return machine == EM_ARM ? number_behind(name, 'r', 15, number) : number_behind(name, 'x', 30, number);
	}
	if (machine == EM_X86_64 && number_behind(name, 'r', 15, number) && *number >= 8)
		return (*number += 8), true;
	if (name[0] == (machine == EM_X86_64 ? 'r' : 'e'))
		for (unsigned i = 0; i < 9; i++)
			if (strcmp(x86[i], name + 1) == 0)
				return (*number = i), true;
	return false;
}

// The machine that has a register of this name, and no other has; 0: several have, or none.
static uint16_t machine_of(const char *name)
{
	unsigned number;

	if (strcmp(name, "rip") == 0)
		return EM_X86_64;
	if (strcmp(name, "eip") == 0)
		return EM_386;
	if (number_behind(name, 'x', 30, &number))
		return EM_AARCH64;
	return number_behind(name, 'r', 7, &number) ? EM_ARM : 0;
}

static bool take_register(struct snapshot_registers *out, const char *name, const char *text, struct err *err)
{
	unsigned number;
	char *end;

	errno = 0;
	text += strspn(text, ":=");
	uint64_t value = strtoull(text, &end, 16);
	if (end == text || errno != 0 || end[strspn(end, " \t\r")] != '\0')
		return err_set(err, STATUS_INPUT, "register %s: '%s', expected a hexadecimal number", name, text);
	if (find_register(out->machine, name, &number)) { // others (flags, segments) are of no use here
		out->by_number[number] = value;
		out->mask |= (uint64_t)1 << number;
	}
	return true;
}

// "NAME: HEX", "NAME=HEX" or "NAME HEX", in any case. The name is terminated, what follows stands behind its end.
static bool split_register(char *line, struct err *err)
{
	size_t length = strcspn(line, ":= \t\r");

	if (length == 0 || line[length] == '\0' || line[length] == '\r')
		return err_set(err, STATUS_INPUT, "'%s', expected NAME: HEX", line);
	line[length] = '\0';
	for (char *c = line; *c != '\0'; c++)
		*c = (char)tolower((unsigned char)*c);
	return true;
}

static bool check_machine(uint16_t machine, struct err *err)
{
	struct unwind_regs wanted;

	return unwind_regs_for(machine, &wanted) ||
	       err_set(err, STATUS_INPUT, "registers of no machine that is known; expected those of x86-64 (rip), i386 (eip), AArch64 (x0 to x30, pc) or ARM (r0 to r15)");
}

bool snapshot_parse_registers(char *text, struct snapshot_registers *out, struct err *err)
{
	VEC(char *) names = { 0 };
	char *save = NULL;
	bool good = true, has_link = false;

	*out = (struct snapshot_registers){ 0 };
	for (char *line = strtok_r(text, "\n", &save); good && line != NULL; line = strtok_r(NULL, "\n", &save)) {
		line += strspn(line, " \t");
		if (*line == '\0' || *line == '\r')
			continue;
		good = split_register(line, err);
		vec_push(&names, line);
		uint16_t machine = machine_of(line);
		out->machine = machine != 0 ? machine : out->machine;
		has_link = has_link || strcmp(line, "lr") == 0;
	}
	if (out->machine == 0 && has_link) // pc, sp and lr alone: 32-bit ARM would have at least its numbered ones
		out->machine = EM_AARCH64;
	good = good && check_machine(out->machine, err);
	for (size_t i = 0; good && i < names.count; i++)
		good = take_register(out, names.data[i], names.data[i] + strlen(names.data[i]) + 1, err);
	struct unwind_regs wanted;
	if (good && unwind_regs_for(out->machine, &wanted) && ((out->mask >> wanted.pc & 1) == 0 || (out->mask >> wanted.sp & 1) == 0))
		good = err_set(err, STATUS_INPUT, "expected at least the program counter and the stack pointer");
	vec_release(&names);
	return good;
}

// ---------------------------------------------------------------- mappings

static uint32_t protection_of(const char *text)
{
	return (uint32_t)((text[0] == 'r' ? PROT_READ : 0) | (text[1] == 'w' ? PROT_WRITE : 0) | (text[2] == 'x' ? PROT_EXEC : 0));
}

// START-END PERMISSIONS OFFSET [FILE]: as the kernel writes it, but without device and inode.
static bool parse_short(char *line, struct proc_mapping *out)
{
	char *at;

	errno = 0;
	out->start = strtoull(line, &at, 16);
	if (at == line || *at != '-')
		return false;
	char *from = at + 1;
	out->end = strtoull(from, &at, 16);
	if (at == from || *at != ' ' || out->end <= out->start)
		return false;
	at += strspn(at, " ");
	size_t length = strcspn(at, " ");
	if (length < 3 || length > 4 || at[length] != ' ' || strspn(at, "rwxps-") != length)
		return false;
	out->protection = protection_of(at);
	from = at + length + 1;
	out->pgoff = strtoull(from, &at, 16);
	if (at == from || (*at != ' ' && *at != '\0' && *at != '\r') || errno != 0)
		return false;
	out->path = at + strspn(at, " ");
	return true;
}

bool snapshot_parse_map(char *line, struct snapshot_map *out)
{
	struct proc_mapping mapping;

	line += strspn(line, " \t");
	line[strcspn(line, "\r")] = '\0';
	if (!proc_mapping_parse(line, &mapping) && !parse_short(line, &mapping))
		return false;
	*out = (struct snapshot_map){ .start = mapping.start, .end = mapping.end, .pgoff = mapping.pgoff, .name = mapping.path,
	                              .is_executable = (mapping.protection & PROT_EXEC) != 0 };
	return true;
}
