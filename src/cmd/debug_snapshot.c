// A folder with registers, memory and ELF files, in the layout of the offline tests of Android's libunwindstack.
#include "cmd/debug_snapshot.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/log.h"
#include "cli/terminal.h"
#include "cmd/debug.h"
#include "cmd/debug_scene.h"
#include "proc/procfs.h"
#include "proc/procfs_read.h"
#include "unwind/arch.h"

enum { MAX_PARTS = 64 };

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
	static const struct { const char *name; unsigned number; } arm[] = { { "lr", 30 }, { "sp", 31 }, { "pc", 32 } };

	if (machine == EM_AARCH64) {
		for (size_t i = 0; i < 3; i++)
			if (strcmp(arm[i].name, name) == 0)
				return (*number = arm[i].number), true;
		return number_behind(name, 'x', 30, number);
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
	uint64_t value = strtoull(text, &end, 16);
	if (end == text || errno != 0 || end[strspn(end, " \t\r")] != '\0')
		return err_set(err, STATUS_INPUT, "register %s: '%s', expected a hexadecimal number", name, text);
	if (find_register(out->machine, name, &number)) { // others (flags, segments) are of no use here
		out->by_number[number] = value;
		out->mask |= (uint64_t)1 << number;
	}
	return true;
}

bool snapshot_parse_registers(char *text, struct snapshot_registers *out, struct err *err)
{
	VEC(char *) names = { 0 };
	char *save = NULL;
	bool good = true;

	*out = (struct snapshot_registers){ 0 };
	for (char *line = strtok_r(text, "\n", &save); good && line != NULL; line = strtok_r(NULL, "\n", &save)) {
		line += strspn(line, " \t");
		char *colon = strchr(line, ':');
		if (*line == '\0' || *line == '\r')
			continue;
		if (colon == NULL)
			good = err_set(err, STATUS_INPUT, "'%s', expected NAME: HEX", line);
		else
			*colon = '\0';
		vec_push(&names, line);
		uint16_t machine = machine_of(line);
		out->machine = machine != 0 ? machine : out->machine;
	}
	if (good && (out->machine == EM_ARM || out->machine == 0))
		good = err_set(err, STATUS_INPUT, "%s; expected those of x86-64 (rip), i386 (eip) or AArch64 (x0 to x30, pc)",
		               out->machine == EM_ARM ? "registers of 32-bit ARM, which is not supported" : "registers of no machine that is known");
	for (size_t i = 0; good && i < names.count; i++)
		good = take_register(out, names.data[i], names.data[i] + strlen(names.data[i]) + 1, err);
	struct unwind_regs wanted;
	if (good && unwind_regs_for(out->machine, &wanted) && ((out->mask >> wanted.pc & 1) == 0 || (out->mask >> wanted.sp & 1) == 0))
		good = err_set(err, STATUS_INPUT, "expected at least the program counter and the stack pointer");
	vec_release(&names);
	return good;
}

// ---------------------------------------------------------------- memory and files

bool snapshot_parse_map(char *line, struct snapshot_map *out)
{
	struct proc_mapping mapping;

	if (!proc_mapping_parse(line, &mapping))
		return false;
	mapping.path[strcspn(mapping.path, "\r")] = '\0';
	*out = (struct snapshot_map){ .start = mapping.start, .end = mapping.end, .pgoff = mapping.pgoff, .name = mapping.path,
	                              .is_executable = (mapping.protection & PROT_EXEC) != 0 };
	return true;
}

struct snapshot {
	int folder;
	struct scene scene;
	struct buf parts[MAX_PARTS]; // stack*.data
	size_t part_count;
};

static uint64_t part_start(const struct buf *part)
{
	uint64_t start;
	memcpy(&start, part->data, 8);
	return start;
}

// What the parts hold from an address on.
static struct bytes memory_at(const struct snapshot *s, uint64_t addr)
{
	for (size_t i = 0; i < s->part_count; i++) {
		uint64_t into = addr - part_start(&s->parts[i]), size = s->parts[i].size - 8;
		if (into < size)
			return bytes_of(s->parts[i].data + 8 + into, size - into);
	}
	return (struct bytes){ 0 };
}

static bool read_word(void *context, uint64_t addr, unsigned bytes, uint64_t *out)
{
	struct bytes at = memory_at(context, addr);

	*out = bytes == 8 ? bytes_u64(&at) : bytes_u32(&at);
	return !at.bad;
}

static bool read_part(struct snapshot *s, const char *name, struct err *err)
{
	size_t length = strlen(name);

	if (strncmp(name, "stack", 5) != 0 || length < 10 || strcmp(name + length - 5, ".data") != 0)
		return true;
	if (s->part_count == MAX_PARTS)
		return err_set(err, STATUS_INPUT, "more than %d files stack*.data", MAX_PARTS);
	struct buf *part = &s->parts[s->part_count++];
	if (!debug_read_file(s->folder, name, part, err))
		return false;
	return part->size >= 8 || err_set(err, STATUS_INPUT, "%s: %zu bytes, expected an address of 8 bytes and memory", name, part->size);
}

static bool read_parts(struct snapshot *s, struct err *err)
{
	int fd = openat(s->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	bool good = true;

	if (folder == NULL) {
		if (fd >= 0)
			close(fd);
		return err_errno(err, STATUS_INPUT, "reading the folder");
	}
	for (struct dirent *entry; good && (entry = readdir(folder)) != NULL;)
		good = read_part(s, entry->d_name, err);
	closedir(folder);
	return good && (s->part_count > 0 || err_set(err, STATUS_INPUT, "no stack*.data, expected one or more"));
}

// A file that is not there, or is no ELF file, costs the frames in it and no more.
static struct image *open_file(struct snapshot *s, const char *name)
{
	struct err err = { 0 };
	struct image *image = NULL;

	for (size_t i = 0; i < s->scene.files.count; i++)
		if (strcmp(s->scene.files.data[i]->path, name) == 0)
			return image_retain(s->scene.files.data[i]);
	int fd = procfs_open_below(s->folder, name);
	if (fd < 0)
		err_errno(&err, STATUS_INPUT, "%s", name);
	else
		image_open_fd(&image, fd, name, &err);
	if (image == NULL)
		log_warn("%s", err.text);
	if (fd >= 0)
		close(fd);
	return image;
}

static bool read_maps(struct snapshot *s, struct err *err)
{
	struct buf text = { 0 };
	char *save = NULL;
	unsigned number = 0;
	bool good = debug_read_file(s->folder, "maps.txt", &text, err);

	if (good)
		buf_byte(&text, 0);
	for (char *line = good ? strtok_r(text.data, "\n", &save) : NULL; line != NULL; line = strtok_r(NULL, "\n", &save)) {
		struct snapshot_map m;
		number++;
		if (line[strspn(line, " \t\r")] == '\0')
			continue;
		if (!snapshot_parse_map(line, &m)) {
			good = err_set(err, STATUS_INPUT, "maps.txt: mapping %u: expected START-END PERMISSIONS OFFSET DEVICE INODE FILE", number);
			break;
		}
		bool has_file = m.name[0] != '\0' && m.name[0] != '[';
		struct scene_map *map = scene_add(&s->scene, m.start, m.end, m.pgoff, m.name,
		                                  !m.is_executable ? UNWIND_NO_MAPPING : has_file ? UNWIND_NO_IMAGE : UNWIND_NO_CFI);
		struct image *image = has_file && m.is_executable ? open_file(s, m.name) : NULL;
		uint64_t bias;
		if (image != NULL && image_bias(image, m.start, m.end, m.pgoff, &bias))
			scene_set_image(&s->scene, map, image, bias);
		image_release(image);
	}
	buf_release(&text);
	return good;
}

// ---------------------------------------------------------------- frames

// How far a return address is moved back into its call.
static uint64_t back_of(uint16_t machine)
{
	return machine == EM_AARCH64 ? 4 : 1;
}

static void put_frame(struct snapshot *s, struct buf *out, size_t number, const struct frame *frame)
{
	uint64_t back = frame->kind == FRAME_RETURN ? back_of(s->scene.machine) : 0, addr = frame->addr >= back ? frame->addr - back : 0, offset;
	const struct scene_map *map = scene_find(&s->scene, addr);
	uint64_t pc = map == NULL ? addr : map->at.image != NULL ? addr - map->at.bias : addr - map->start + map->pgoff;

	buf_printf(out, "  #%02zu pc %0*" PRIx64, number, s->scene.machine == EM_386 ? 8 : 16, pc);
	if (map != NULL && map->name[0] != '\0') {
		buf_string(out, "  ");
		escape_terminal(out, map->name, strlen(map->name));
	}
	const struct symbol_result *symbol = scene_symbol(&s->scene, addr, &offset);
	if (symbol != NULL) {
		const char *name = symbol->frames[symbol->count - 1].name;
		buf_string(out, " (");
		escape_terminal(out, name, strlen(name));
		if (offset > 0)
			buf_printf(out, "+%" PRIu64, offset);
		buf_byte(out, ')');
	}
	buf_byte(out, '\n');
}

static bool unwind(struct snapshot *s, struct buf *out, struct err *err)
{
	struct snapshot_registers registers;
	struct buf text = { 0 };
	uint64_t values[64];
	size_t count = 0;

	bool good = debug_read_file(s->folder, "regs.txt", &text, err);
	if (good) {
		buf_byte(&text, 0);
		good = snapshot_parse_registers(text.data, &registers, err) || err_context(err, "regs.txt");
	}
	buf_release(&text);
	if (!good || !read_maps(s, err) || !read_parts(s, err))
		return false;
	for (unsigned i = 0; i < 64; i++)
		if ((registers.mask >> i & 1) != 0)
			values[count++] = registers.by_number[i];
	s->scene.machine = registers.machine;
	s->scene.read = read_word;
	s->scene.read_context = s;
	struct unwind_regs numbers = { 0 };
	unwind_regs_for(registers.machine, &numbers);
	// Without a byte at sp (a leaf that keeps all below it) the walk still begins: what it wants is asked for word by word.
	static const uint8_t nothing[1];
	struct bytes stack = memory_at(s, registers.by_number[numbers.sp]);
	if (stack.at == NULL)
		stack = bytes_of(nothing, sizeof(nothing));
	struct unwind_stack frames = scene_unwind(&s->scene, (struct scene_registers){ values, registers.mask }, stack);
	for (size_t i = 0; i < frames.count; i++)
		put_frame(s, out, i, &frames.frames[i]);
	log_info("the stack ends: %s", unwind_end_name(frames.end));
	return true;
}

int debug_snapshot(const char *folder)
{
	struct snapshot *s = NEW(struct snapshot);
	struct buf out = { 0 };
	struct err err = { 0 };

	scene_init(&s->scene, true);
	s->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool good = s->folder >= 0 || err_errno(&err, STATUS_INPUT, "%s", folder);
	if (good && !unwind(s, &out, &err))
		good = err_context(&err, "%s", folder);
	good = good && output_write(buf_text(&out), out.size, &err);
	if (!good)
		log_error("%s", err.text);
	if (s->folder >= 0)
		close(s->folder);
	for (size_t i = 0; i < s->part_count; i++)
		buf_release(&s->parts[i]);
	scene_release(&s->scene);
	free(s);
	buf_release(&out);
	return good ? STATUS_OK : (int)err.status;
}
