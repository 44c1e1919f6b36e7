#include "annotate/code.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "annotate/disassemble.h"
#include "elf/guard.h"
#include "elf/vdso.h"
#include "symbols/debug_file.h"
#include "symbols/jitdump.h"

enum { FUNCTION_BYTES_MOST = 1 << 20 };

struct reading {
	struct annotation *out;
	const struct annotate_code *code;
	struct symbolizer *symbolizer;
	uint32_t id;
	struct image *image;
	struct disassembler *disassembler;
	size_t next; // first sampled address that has no instruction yet
};

static const char *kept(struct annotation *out, const char *text)
{
	return arena_string(&out->arena, text, strlen(text));
}

// Sampled addresses alone, where there is no code to show.
static void bare_instruction(struct reading *r, const struct annotate_addr *addr)
{
	uint64_t vaddr = addr->image_addr;
	if (r->image != NULL)
		(void)image_offset_to_vaddr(r->image, addr->image_addr, &vaddr);
	struct annotate_instruction row = { .vaddr = vaddr, .text = "", .file = addr->file, .line = addr->line, .inlined = addr->inlined };
	row.count = annotate_count(r->code->options, addr->samples, addr->weight, r->out);
	vec_push(&r->out->instructions, row);
}

static bool is_vdso(const char *path)
{
	return strcmp(path, VDSO_NAME) == 0 || strcmp(path, VDSO32_NAME) == 0;
}

// The same file that names were found in, its build ID that of what ran.
static bool open_image(struct reading *r)
{
	const struct profile_dso *dso = &r->code->profile->dsos.data[r->code->dso];
	struct symbol_image wanted = { .kind = SYMBOL_IMAGE_FILE, .path = profile_text(r->code->profile, dso->path), .build_id = dso->build_id, .map_fd = -1 };
	r->symbolizer = symbolizer_new(&r->code->options->where);
	if (is_vdso(wanted.path)) { // of no file
		r->image = dso->build_id.size > 0 ? debug_file_find_vdso(&r->code->options->where, &dso->build_id) : NULL;
		wanted.kind = SYMBOL_IMAGE_VDSO;
		wanted.image = r->image;
		r->id = symbolizer_image(r->symbolizer, &wanted);
		if (r->image == NULL)
			snprintf(r->out->note, sizeof(r->out->note), "no instructions: the vdso that ran is neither this kernel's nor among perf's files");
		return r->image != NULL;
	}
	r->id = symbolizer_image(r->symbolizer, &wanted);
	symbolizer_image_ask(r->symbolizer, r->id);
	struct symbol_image_status status = symbolizer_image_status(r->symbolizer, r->id);
	if (status.file == NULL || !image_open_path(&r->image, status.file, NULL)) {
		snprintf(r->out->note, sizeof(r->out->note), "no instructions: %s", symbol_missing_text(status.missing));
		return false;
	}
	if (dso->build_id.size > 0 && !build_id_equal(&dso->build_id, &r->image->build_id)) {
		snprintf(r->out->note, sizeof(r->out->note), "no instructions: %s", symbol_missing_text(SYMBOL_WRONG_BUILD_ID));
		return false;
	}
	r->out->image_file = kept(r->out, status.file);
	return true;
}

static void add_instruction(struct reading *r, const struct disassembled *text, uint64_t image_addr, const struct symbol_result *where)
{
	const struct annotate_code *code = r->code;
	struct annotate_instruction row = { .vaddr = text->addr, .text = kept(r->out, text->text), .file = "" };
	if (where->frames[0].file != NULL) {
		row.file = kept(r->out, where->frames[0].file);
		row.line = where->frames[0].line;
	}
	if (where->count > 1 && where->frames[0].name != NULL)
		row.inlined = kept(r->out, where->frames[0].name);
	uint64_t samples = 0; // an address inside an instruction counts with it
	double weight = 0;
	for (; r->next < code->count && code->addrs[r->next].image_addr < image_addr + text->size; r->next++) {
		samples += code->addrs[r->next].samples;
		weight += code->addrs[r->next].weight;
		if (row.file[0] == '\0') {
			row.file = code->addrs[r->next].file;
			row.line = code->addrs[r->next].line;
		}
	}
	row.count = annotate_count(code->options, samples, weight, r->out);
	vec_push(&r->out->instructions, row);
}

// From the function's start as long as the symbol holds.
static void whole_function(struct reading *r)
{
	const struct annotate_code *code = r->code;
	uint64_t vaddr, offset = code->start;
	struct bytes bytes;
	if (!image_offset_to_vaddr(r->image, code->start, &vaddr))
		return;
	size_t size = FUNCTION_BYTES_MOST;
	while (size > 0 && !image_at_vaddr(r->image, vaddr, size, &bytes))
		size /= 2; // near the end of its segment
	// What was halved away is still there: grow to the last byte.
	for (size_t step = size / 2; size > 0 && size < FUNCTION_BYTES_MOST && step > 0; step /= 2)
		if (image_at_vaddr(r->image, vaddr, size + step, &bytes))
			size += step;
	if (size == 0 || !image_at_vaddr(r->image, vaddr, size, &bytes))
		return;
	const uint8_t *at = bytes.at;
	size_t left = size;
	struct disassembled text;
	while (disassemble(r->disassembler, &at, &left, vaddr, &text)) {
		const struct symbol_result *where = symbolizer_lookup(r->symbolizer, r->id, offset);
		bool is_known = where->missing == SYMBOL_FOUND || where->bounds != NULL; // a function without a name has bounds
		if (!is_known || where->symbol_start != code->start)
			break;
		add_instruction(r, &text, offset, where);
		vaddr += text.size;
		offset += text.size;
	}
	r->out->is_capped |= left == 0 && size == FUNCTION_BYTES_MOST;
}

// Of a name that was only inlined: the instructions that were sampled, wherever they are.
static void sampled_instructions(struct reading *r)
{
	for (; r->next < r->code->count;) {
		const struct annotate_addr *addr = &r->code->addrs[r->next];
		uint64_t vaddr;
		struct bytes bytes = { 0 };
		size_t size = 16; // no instruction is longer
		struct disassembled text;
		if (!image_offset_to_vaddr(r->image, addr->image_addr, &vaddr))
			size = 0;
		while (size > 0 && !image_at_vaddr(r->image, vaddr, size, &bytes))
			size--;
		const uint8_t *at = bytes.at;
		if (size == 0 || !disassemble(r->disassembler, &at, &size, vaddr, &text)) {
			bare_instruction(r, addr);
			r->next++;
			continue;
		}
		add_instruction(r, &text, addr->image_addr, symbolizer_lookup(r->symbolizer, r->id, addr->image_addr));
	}
}

// The code of a function in a jitdump, at the address where it was loaded; the dump must be here still.
static void jit_function(struct reading *r, const char *path)
{
	const struct annotate_code *code = r->code;
	struct err err = { 0 };
	struct jitdump dump = { 0 };
	size_t size = 0;
	int fd = jitdump_open(code->options->where.symfs, path, &size);
	const void *bytes = fd >= 0 ? guard_map(fd, size) : NULL;
	const struct jitdump_code *load = NULL;
	if (bytes == NULL) {
		snprintf(r->out->note, sizeof(r->out->note), "no instructions: the dump that has the code is not here, or not yours");
	} else {
		(void)jitdump_parse(&dump, bytes, size, NULL); // what came before a fault counts
		load = jitdump_find(&dump, code->start);
		if (load == NULL || load->offset != code->start)
			snprintf(r->out->note, sizeof(r->out->note), "no instructions: the dump does not have this code");
		else if (!disassembler_open(&r->disassembler, (uint16_t)dump.machine, &err))
			snprintf(r->out->note, sizeof(r->out->note), "%.250s", err.text);
	}
	if (r->disassembler != NULL && load != NULL) {
		struct symbol_image wanted = { .kind = SYMBOL_IMAGE_JITDUMP, .path = path, .map_fd = fd };
		struct disassembled text;
		r->symbolizer = symbolizer_new(&code->options->where);
		r->id = symbolizer_image(r->symbolizer, &wanted);
		const uint8_t *at = dump.bytes + load->offset;
		size_t left = load->size < FUNCTION_BYTES_MOST ? (size_t)load->size : FUNCTION_BYTES_MOST;
		uint64_t offset = load->offset;
		while (disassemble(r->disassembler, &at, &left, load->addr + (offset - load->offset), &text)) {
			add_instruction(r, &text, offset, symbolizer_lookup(r->symbolizer, r->id, offset));
			offset += text.size;
		}
	}
	jitdump_release(&dump);
	if (bytes != NULL)
		guard_unmap(bytes, size);
	if (fd >= 0)
		close(fd);
}

void annotate_instructions(struct annotation *out, const struct annotate_code *code)
{
	struct reading r = { .out = out, .code = code };
	struct err err = { 0 };
	if (code->options->no_instructions)
		return;
	const char *path = code->dso != PROFILE_NONE ? profile_text(code->profile, code->profile->dsos.data[code->dso].path) : "";
	if (strncmp(path, "[kernel", 7) == 0)
		snprintf(out->note, sizeof(out->note), "no instructions: the kernel's code is not read, neither from vmlinux nor from /proc/kcore");
	else if (jitdump_is_path(path) && !out->is_inlined)
		jit_function(&r, path);
	else if ((path[0] != '/' || path[1] == '/') && !is_vdso(path)) // [heap], //anon
		snprintf(out->note, sizeof(out->note), "no instructions: the code is in no file");
	else if (open_image(&r) && disassembler_open(&r.disassembler, r.image->machine, &err)) {
		if (!out->is_inlined)
			whole_function(&r);
		else
			sampled_instructions(&r);
	} else if (err.text[0] != '\0') {
		snprintf(out->note, sizeof(out->note), "%.250s", err.text);
	}
	for (; r.next < code->count; r.next++)
		bare_instruction(&r, &code->addrs[r.next]);
	disassembler_close(r.disassembler);
	image_release(r.image);
	symbolizer_free(r.symbolizer);
}
