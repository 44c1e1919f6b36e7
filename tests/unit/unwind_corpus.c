// Registers, stacks and binaries recorded by others, on three architectures.
#include <elf.h>
#include <zlib.h>

#include "base/vec.h"
#include "tests/tap.h"
#include "unwind/rule_table.h"

enum { MAX_MAPS = 16 };

struct scene {
	struct unwind_map maps[MAX_MAPS];
	size_t map_count;
	uint64_t regs[64], regs_mask;
	uint8_t *stack;
	size_t stack_size;
	uint16_t machine;
};

static struct unwind_map map_at(void *context, uint64_t addr)
{
	struct scene *scene = context;

	for (size_t i = 0; i < scene->map_count; i++)
		if (addr >= scene->maps[i].start && addr < scene->maps[i].end)
			return scene->maps[i];
	return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
}

// A file of the corpus, unpacked when it is gzipped; false: not there.
static bool read_corpus(const char *folder, const char *name, struct buf *out)
{
	char relative[512];
	const char *path;

	snprintf(relative, sizeof(relative), "corpus/%s/%s", folder, name);
	path = corpus_file(relative);
	if (path == NULL) {
		snprintf(relative, sizeof(relative), "corpus/%s/%s.gz", folder, name);
		path = corpus_file(relative);
	}
	gzFile file = path != NULL ? gzopen(path, "rb") : NULL;
	if (file == NULL)
		return false;
	for (;;) {
		buf_reserve(out, 1 << 16);
		int got = gzread(file, out->data + out->size, 1 << 16);
		if (got <= 0)
			break;
		out->size += (size_t)got;
	}
	gzclose(file);
	return out->size > 0;
}

static struct image *read_image(const char *folder, const char *name)
{
	struct buf file = { 0 };
	struct image *image = NULL;
	struct err err = { 0 };

	if (read_corpus(folder, name, &file) && !image_open_bytes(&image, file.data, file.size, false, name, &err))
		diag("%s", err.text);
	buf_release(&file);
	return image;
}

static void add_map(struct scene *scene, uint64_t start, uint64_t end, uint64_t pgoff, struct image *image, enum unwind_end missing)
{
	struct unwind_map *map = &scene->maps[scene->map_count++];

	*map = (struct unwind_map){ .start = start, .end = end, .missing = missing };
	if (image != NULL && image_bias(image, start, end, pgoff, &map->bias))
		unwind_image_new(&map->image, image, false, NULL);
}

static void release(struct scene *scene)
{
	for (size_t i = 0; i < scene->map_count; i++)
		unwind_image_free(scene->maps[i].image);
	free(scene->stack);
}

static void unwind(struct scene *scene, struct unwind_stack *out)
{
	struct unwinder *unwinder = unwinder_new();
	uint64_t packed[64];
	size_t count = 0;

	for (unsigned i = 0; i < 64; i++)
		if ((scene->regs_mask >> i & 1) != 0)
			packed[count++] = scene->regs[i];
	struct unwind_input input = {
		.machine = scene->machine, .regs = packed, .regs_mask = scene->regs_mask, .stack = scene->stack,
		.stack_size = scene->stack_size, .map = map_at, .map_context = scene,
	};
	unwind_stack(unwinder, &input, out);
	unwinder_free(unwinder);
}

static void show(const struct unwind_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++)
		diag("  %#llx via %u", (unsigned long long)stack->frames[i].addr, stack->frames[i].via);
	diag("  end: %s", unwind_end_name(stack->end));
}

// ---------------------------------------------------------------- text descriptions

static void put_register(struct scene *scene, const char *name, uint64_t value)
{
	static const struct { const char *name; uint16_t machine; uint8_t perf; } names[] = {
		{ "rax", EM_X86_64, 0 }, { "rbx", EM_X86_64, 1 }, { "rcx", EM_X86_64, 2 }, { "rdx", EM_X86_64, 3 }, { "rsi", EM_X86_64, 4 },
		{ "rdi", EM_X86_64, 5 }, { "rbp", EM_X86_64, 6 }, { "rsp", EM_X86_64, 7 }, { "rip", EM_X86_64, 8 }, { "r8", EM_X86_64, 16 },
		{ "r12", EM_X86_64, 20 }, { "r13", EM_X86_64, 21 }, { "eax", EM_386, 0 }, { "ebx", EM_386, 1 }, { "ecx", EM_386, 2 },
		{ "edx", EM_386, 3 }, { "esi", EM_386, 4 }, { "edi", EM_386, 5 }, { "ebp", EM_386, 6 }, { "esp", EM_386, 7 },
		{ "eip", EM_386, 8 }, { "pc", EM_AARCH64, 32 }, { "sp", EM_AARCH64, 31 }, { "lr", EM_AARCH64, 30 }, { "x29", EM_AARCH64, 29 },
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i].name, name) != 0)
			continue;
		scene->machine = names[i].machine;
		scene->regs[names[i].perf] = value;
		scene->regs_mask |= (uint64_t)1 << names[i].perf;
	}
}

static void read_scene(const char *folder, struct scene *scene)
{
	struct buf text = { 0 };
	char *save = NULL;

	read_corpus(folder, "regs.txt", &text);
	buf_byte(&text, 0);
	for (char *line = strtok_r(text.data, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		char name[16];
		unsigned long long value;
		if (sscanf(line, "%15[^:]: %llx", name, &value) == 2)
			put_register(scene, name, value);
	}
	buf_release(&text);
	read_corpus(folder, "maps.txt", &text);
	buf_byte(&text, 0);
	for (char *line = strtok_r(text.data, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		unsigned long long start, end, pgoff;
		char file[256];
		if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %255s", &start, &end, &pgoff, file) != 4)
			continue;
		struct image *image = read_image(folder, file);
		add_map(scene, start, end, pgoff, image, UNWIND_NO_IMAGE);
		image_release(image);
	}
	buf_release(&text);
	// The memory begins at an address of its own, at or below sp: the copy is what lies from sp up.
	static const uint8_t sp_of[] = { 7, 31 };
	uint64_t sp = scene->regs[sp_of[scene->machine == EM_AARCH64]], start;
	read_corpus(folder, "stack.data", &text);
	memcpy(&start, text.data, 8);
	scene->stack = mem_zero(1, text.size);
	if (start <= sp && sp - start < text.size - 8) {
		scene->stack_size = text.size - 8 - (sp - start);
		memcpy(scene->stack, text.data + 8 + (sp - start), scene->stack_size);
	} else if (start > sp && start - sp < 4096) { // what is not described reads as zeros
		scene->stack_size = text.size - 8 + (start - sp);
		free(scene->stack);
		scene->stack = mem_zero(1, scene->stack_size);
		memcpy(scene->stack + (start - sp), text.data + 8, text.size - 8);
	}
	buf_release(&text);
}

static void test_described(const char *name, enum unwind_end wanted_end)
{
	char folder[256];
	struct buf text = { 0 };
	struct scene scene = { 0 };
	struct frame frames[64];
	struct unwind_stack stack = { .frames = frames, .capacity = 64 };
	char *save = NULL;
	size_t at = 0;
	unsigned wrong = 0;

	snprintf(folder, sizeof(folder), "unwind/%s", name);
	if (!read_corpus(folder, "output.txt", &text)) {
		skip("no corpus (PERFSAMPLE_CORPUS)", "%s", name);
		return;
	}
	buf_byte(&text, 0);
	read_scene(folder, &scene);
	unwind(&scene, &stack);
	for (char *line = strtok_r(text.data, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save), at++) {
		unsigned long long pc;
		if (sscanf(line, " #%*u pc %llx", &pc) != 1)
			continue;
		// Callers are given moved back into the call: one byte on x86, one instruction on arm64.
		uint64_t back = at == 0 ? 0 : scene.machine == EM_AARCH64 ? 4 : 1;
		struct unwind_map map = at < stack.count ? map_at(&scene, frames[at].addr) : (struct unwind_map){ 0 };
		uint64_t bias = map.image != NULL ? map.bias : map.start;
		if (at >= stack.count || frames[at].addr - bias - back != pc) {
			wrong++;
			diag("frame %zu: wanted %#llx", at, pc);
		}
	}
	if (!ok(wrong == 0 && stack.count == at && stack.end == wanted_end, "%s: %zu frames as recorded, end %s", name, at, unwind_end_name(stack.end)))
		show(&stack);
	buf_release(&text);
	release(&scene);
}

// ---------------------------------------------------------------- core files

enum { PRSTATUS_REGS = 112, PRSTATUS_PID = 32 }; // struct elf_prstatus, x86-64

static bool core_thread(const struct image *core, unsigned wanted, struct scene *scene, unsigned *pid)
{
	// user_regs_struct: r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss
	static const uint8_t perf[21] = { 23, 22, 21, 20, 6, 1, 19, 18, 17, 16, 0, 2, 3, 4, 5, 0xff, 8, 0xff, 0xff, 7, 0xff };
	struct bytes all = bytes_of(core->data, core->size);
	unsigned found = 0;

	for (uint64_t at = 64; at + 56 <= 64 + 56 * 8; at += 56) {
		struct bytes header = all;
		bytes_skip(&header, at);
		if (bytes_u32(&header) != PT_NOTE)
			continue;
		bytes_u32(&header);
		uint64_t offset = bytes_u64(&header);
		bytes_skip(&header, 16);
		uint64_t size = bytes_u64(&header);
		struct bytes notes = all;
		bytes_skip(&notes, offset);
		notes = bytes_sub(&notes, size);
		while (bytes_left(&notes) >= 12) {
			uint32_t name = bytes_u32(&notes), desc = bytes_u32(&notes), type = bytes_u32(&notes);
			bytes_skip(&notes, (name + 3) & ~3u);
			struct bytes body = bytes_sub(&notes, (desc + 3) & ~3u);
			if (type != NT_PRSTATUS || found++ != wanted)
				continue;
			struct bytes id = body;
			bytes_skip(&id, PRSTATUS_PID);
			*pid = bytes_u32(&id);
			bytes_skip(&body, PRSTATUS_REGS);
			for (int i = 0; i < 21; i++) {
				uint64_t value = bytes_u64(&body);
				if (perf[i] == 0xff)
					continue;
				scene->regs[perf[i]] = value;
				scene->regs_mask |= (uint64_t)1 << perf[i];
			}
			scene->machine = EM_X86_64;
			return true;
		}
	}
	return false;
}

static void core_stack(const struct image *core, struct scene *scene)
{
	uint64_t sp = scene->regs[7];

	for (size_t i = 0; i < core->segment_count; i++) {
		const struct image_segment *s = &core->segments[i];
		struct bytes bytes;
		if (sp < s->vaddr || sp - s->vaddr >= s->file_size || !image_at_vaddr(core, sp, s->file_size - (sp - s->vaddr), &bytes))
			continue;
		scene->stack_size = bytes_left(&bytes);
		scene->stack = mem_copy(bytes.at, scene->stack_size);
	}
}

// The addresses that eu-stack printed for this thread.
static size_t expected_addrs(const char *text, unsigned pid, uint64_t *out, size_t capacity)
{
	char heading[32];
	size_t count = 0;

	snprintf(heading, sizeof(heading), "TID %u:", pid);
	const char *at = strstr(text, heading);
	while (at != NULL && (at = strchr(at, '\n')) != NULL && at[1] == '#' && at[2] >= '0' && at[2] <= '9' && count < capacity)
		out[count++] = strtoull(strstr(++at, "0x"), NULL, 16);
	return count;
}

static void test_core(const char *name, const char *core_name, const char *program, unsigned thread, enum unwind_end wanted_end)
{
	char folder[256];
	struct buf text = { 0 };
	struct scene scene = { 0 };
	struct frame frames[64];
	struct unwind_stack stack = { .frames = frames, .capacity = 64 };
	uint64_t wanted[64];
	unsigned pid = 0;

	snprintf(folder, sizeof(folder), "unwind/%s", name);
	struct image *core = read_image(folder, core_name), *image = read_image(folder, program);
	if (core == NULL || image == NULL || !read_corpus(folder, "eu-stack.expected.txt", &text)) {
		skip("no corpus (PERFSAMPLE_CORPUS)", "%s", name);
		image_release(core);
		image_release(image);
		return;
	}
	buf_byte(&text, 0);
	for (size_t i = 0; i < core->segment_count; i++) {
		const struct image_segment *s = &core->segments[i];
		if ((s->flags & PF_X) != 0)
			add_map(&scene, s->vaddr, s->vaddr + s->mem_size, 0, s->vaddr == 0x400000 ? image : NULL, UNWIND_NO_IMAGE);
	}
	bool found = core_thread(core, thread, &scene, &pid);
	core_stack(core, &scene);
	size_t count = expected_addrs(text.data, pid, wanted, 64);
	unwind(&scene, &stack);
	bool same = found && count > 0 && stack.count == count;
	for (size_t i = 0; same && i < count; i++)
		same = frames[i].addr == wanted[i];
	if (!ok(same && stack.end == wanted_end, "%s, thread %u: %zu frames as eu-stack prints, end %s", name, pid, count,
	        unwind_end_name(stack.end)))
		show(&stack);
	buf_release(&text);
	image_release(core);
	image_release(image);
	release(&scene);
}

// This program's CFI keeps the return address 80 bytes below the CFA, so below sp, where no kernel copies anything: only the rule at the
// function's first byte can be compared, and that the walk says what it lacks.
static void test_below_sp(void)
{
	struct scene scene = { 0 };
	struct frame frames[8];
	struct unwind_stack stack = { .frames = frames, .capacity = 8 };
	struct unwind_counters counters = { 0 };
	struct buf text = { 0 };

	if (!read_corpus("unwind/eh_frame_hdr_begin_x86_64", "output.txt", &text)) {
		skip("no corpus (PERFSAMPLE_CORPUS)", "eh_frame_hdr_begin_x86_64");
		return;
	}
	buf_release(&text);
	read_scene("unwind/eh_frame_hdr_begin_x86_64", &scene);
	struct unwind_rule rule = rule_table_find(scene.maps[0].image, 0xa80, &counters);
	ok((rule.kind & RULE_BASE_MASK) == RULE_SP && rule.cfa_off == 8 && rule.ra_off == -80, "the rule at a function's first byte");
	unwind(&scene, &stack);
	ok(stack.count == 1 && stack.end == UNWIND_BAD_READ, "a return address below sp is not in the copy: %s", unwind_end_name(stack.end));
	release(&scene);
}

int main(void)
{
	test_below_sp();
	test_described("debug_frame_first_x86", UNWIND_NO_IMAGE);
	test_described("bad_eh_frame_hdr_arm64", UNWIND_ROOT);
	test_core("testfiledwarfinlines-core", "testfiledwarfinlines.core", "testfiledwarfinlines", 0, UNWIND_NO_IMAGE);
	test_core("backtrace.x86_64-core", "backtrace.x86_64.core", "backtrace.x86_64.exec", 0, UNWIND_ROOT);
	test_core("backtrace.x86_64-core", "backtrace.x86_64.core", "backtrace.x86_64.exec", 1, UNWIND_ROOT);
	return tap_done();
}
