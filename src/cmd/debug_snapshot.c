// A folder with registers, memory and ELF files, in the layout of the offline tests of Android's libunwindstack.
#include "cmd/debug_snapshot.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/log.h"
#include "cli/terminal.h"
#include "cmd/debug.h"
#include "cmd/debug_scene.h"
#include "proc/procfs.h"
#include "unwind/arch.h"

enum { MAX_ASCENTS = 3, MAX_PARTS = 4096, MAX_IMAGE_BYTES = 64 << 20 };

// ---------------------------------------------------------------- memory and files

struct snapshot {
	int folder;
	struct scene scene;
	VEC(struct buf) parts; // *.data
};

static uint64_t part_start(const struct buf *part)
{
	uint64_t start;
	memcpy(&start, part->data, 8);
	return start;
}

// What the parts hold from an address on.
static bool memory_at(void *context, uint64_t addr, struct bytes *out)
{
	const struct snapshot *s = context;

	for (size_t i = 0; i < s->parts.count; i++) {
		uint64_t into = addr - part_start(&s->parts.data[i]), size = s->parts.data[i].size - 8;
		if (into < size) {
			*out = bytes_of(s->parts.data[i].data + 8 + into, size - into);
			return true;
		}
	}
	*out = (struct bytes){ 0 };
	return false;
}

// *.data: the stack's parts, and whatever else was kept of memory (images, what a JIT told debuggers).
static bool read_part(struct snapshot *s, const char *name, struct err *err)
{
	size_t length = strlen(name);
	struct buf part = { 0 };

	if (length < 6 || strcmp(name + length - 5, ".data") != 0)
		return true;
	if (s->parts.count == MAX_PARTS)
		return err_set(err, STATUS_INPUT, "more than %d files *.data", MAX_PARTS);
	if (!debug_read_file(s->folder, name, &part, err))
		return false;
	if (part.size < 8) {
		err_set(err, STATUS_INPUT, "%s: %zu bytes, expected an address of 8 bytes and memory", name, part.size);
		buf_release(&part);
		return false;
	}
	vec_push(&s->parts, part);
	return true;
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
	if (good && s->parts.count == 0)
		log_warn("no stack*.data: without memory there is no frame but the first");
	return good;
}

// ---------------------------------------------------------------- files

// A file of the folder; or, where the name begins with "..", of one that several snapshots share beside it. No link leads further out.
static int open_named(struct snapshot *s, const char *name)
{
	int fd = procfs_open_below(s->folder, name), folder = -1;

	for (unsigned i = 0; fd < 0 && i < MAX_ASCENTS && strncmp(name, "../", 3) == 0; i++) {
		int parent = openat(folder >= 0 ? folder : s->folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (folder >= 0)
			close(folder);
		folder = parent;
		name += 3;
		if (folder < 0)
			break;
		if (strncmp(name, "../", 3) != 0)
			fd = procfs_open_below(folder, name);
	}
	int error = errno;
	if (folder >= 0)
		close(folder);
	errno = error;
	return fd;
}

// The same image for each of its mappings, so that it has one table of rules.
static struct image *known_image(struct snapshot *s, struct image *image)
{
	for (size_t i = 0; image != NULL && i < s->scene.files.count; i++) {
		struct image *other = s->scene.files.data[i];
		if (other->file_start == image->file_start && other->size == image->size && strcmp(other->path, image->path) == 0) {
			image_release(image);
			return image_retain(other);
		}
	}
	return image;
}

// The mapping of the same file right before: the image's first page, where that is read-only.
static const struct scene_map *map_before(const struct snapshot *s, size_t i)
{
	const struct scene_map *map = &s->scene.maps.data[i];

	while (i-- > 0) {
		const struct scene_map *before = &s->scene.maps.data[i];
		if (before->name[0] != '\0')
			return strcmp(before->name, map->name) == 0 && before->pgoff <= map->pgoff && before->end <= map->start ? before : NULL;
	}
	return NULL;
}

// The image that a mapping of the file is of; where its own offset does not lead there, from where the mapping before it begins.
static bool open_mapped(struct snapshot *s, const struct scene_map *map, const struct scene_map *before, struct image **out, struct err *err)
{
	int fd = open_named(s, map->name);

	if (fd < 0)
		return err_errno(err, STATUS_INPUT, "%s", map->name);
	bool good = image_open_fd_at(out, fd, map->pgoff, map->name, err);
	if (!good && before != NULL) {
		struct err ignored = { 0 };
		good = image_open_fd_at(out, fd, before->pgoff, map->name, &ignored);
	}
	close(fd);
	return good;
}

// The image as it stood in memory: its first page where the mapping, or the one before it, begins.
static struct image *image_in_memory(struct snapshot *s, const struct scene_map *map, const struct scene_map *before, uint64_t *pgoff, uint64_t *bias)
{
	const struct scene_map *const firsts[] = { map, before };
	struct image *image = NULL;
	struct bytes part;

	for (size_t i = 0; image == NULL && i < 2; i++) {
		const struct scene_map *first = firsts[i];
		if (first == NULL || !memory_at(s, first->start, &part) || map->end - first->start > MAX_IMAGE_BYTES)
			continue;
		size_t size = (size_t)(map->end - first->start);
		uint8_t *bytes = mem_zero(size, 1); // what was not kept reads as zero
		for (size_t at = 0; at < size; at += bytes_left(&part) < size - at ? bytes_left(&part) : size - at) {
			if (!memory_at(s, first->start + at, &part))
				break;
			memcpy(bytes + at, part.at, bytes_left(&part) < size - at ? bytes_left(&part) : size - at);
		}
		if (image_open_bytes(&image, bytes, size, true, map->name, NULL) && !image_bias(image, first->start, map->end, 0, bias)) {
			image_release(image);
			image = NULL;
		}
		*pgoff = first->pgoff;
		free(bytes);
	}
	return image;
}

// A file that is not there, or is no ELF file, costs the frames in it and no more.
static void find_image(struct snapshot *s, size_t i)
{
	struct scene_map *map = &s->scene.maps.data[i];
	const struct scene_map *before = map_before(s, i);
	struct image *image = NULL;
	struct err err = { 0 };
	uint64_t start = 0, bias = 0;
	bool good = open_mapped(s, map, before, &image, &err);

	if (good && image != NULL) {
		image = known_image(s, image);
		start = image->file_start;
		good = map->pgoff >= start && image_bias(image, map->start, map->end, map->pgoff - start, &bias);
	} else {
		image = image_in_memory(s, map, before, &start, &bias);
		good = image != NULL;
		if (!good && map->name[0] != '[')
			log_warn("%s", err.text);
	}
	if (good) {
		scene_set_image(&s->scene, map, image, bias);
		map->file_start = start;
		const char *soname = start > 0 ? image_soname(image) : NULL;
		if (soname != NULL) {
			char *name = mem_printf("%s!%s", map->name, soname);
			free(map->name);
			map->name = name;
		}
	}
	image_release(image);
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
		scene_add(&s->scene, m.start, m.end, m.pgoff, m.name, !m.is_executable ? UNWIND_NO_MAPPING : has_file ? UNWIND_NO_IMAGE : UNWIND_NO_CFI);
	}
	buf_release(&text);
	// From the last on: the name of the mapping before is still the file's then.
	for (size_t i = good ? s->scene.maps.count : 0; i-- > 0;)
		if (s->scene.maps.data[i].at.missing != UNWIND_NO_MAPPING && s->scene.maps.data[i].name[0] != '\0')
			find_image(s, i);
	return good;
}

// ---------------------------------------------------------------- frames

struct place { // what is printed of a frame
	uint64_t addr;
	const struct scene_map *map;
	char *name;      // NULL: unknown
	uint64_t offset; // from the function's start
};

// As tools print it that look into the files' tables alone; where these have none, whatever names it.
static char *name_at(struct snapshot *s, uint64_t addr, uint64_t *offset)
{
	bool is_thumb;
	const char *linkage = scene_first_name(&s->scene, addr, offset, &is_thumb);

	if (linkage == NULL) {
		const struct symbol_result *symbol = scene_symbol(&s->scene, addr, offset);
		return symbol != NULL ? mem_string(symbol->frames[symbol->count - 1].name) : NULL;
	}
	char *name = symbol_demangle(linkage);
	return name != NULL ? name : mem_string(linkage);
}

// How long the call before a return address is taken for. Of Thumb's, a first half of 29 or more says that there are two.
static uint64_t back_of(struct snapshot *s, uint64_t addr, bool *is_thumb)
{
	const struct scene_map *map = scene_find(&s->scene, addr - 1);
	uint64_t offset;
	struct bytes code;

	*is_thumb = false;
	if (s->scene.machine != EM_ARM)
		return s->scene.machine == EM_AARCH64 ? 4 : 1;
	scene_first_name(&s->scene, addr - 1, &offset, is_thumb);
	if (!*is_thumb || map == NULL || map->at.image == NULL || !image_at_vaddr(scene_file(&s->scene, map), addr - 4 - map->at.bias, 2, &code))
		return 4;
	return bytes_u16(&code) >> 11 >= 29 ? 4 : 2;
}

// All frames but the first and a signal's trampoline are moved back into the call before their address. So is, by this format's custom, what a signal
// interrupted; but its function is the one in which it stood.
static struct place place_of(struct snapshot *s, const struct frame *frame)
{
	bool is_thumb;
	const uint64_t back = back_of(s, frame->addr, &is_thumb);
	bool is_return = frame->kind == FRAME_RETURN && frame->addr >= back;
	struct place place = { .addr = is_return ? frame->addr - back : frame->addr };

	place.map = scene_find(&s->scene, place.addr);
	if (place.map == NULL) { // a call into nowhere: nothing is known of it
		place.addr = frame->addr;
		return place;
	}
	place.name = name_at(s, place.addr, &place.offset);
	if (frame->via == VIA_SIGNAL && place.name != NULL && place.offset >= back) {
		place.addr -= back;
		place.offset -= back;
	}
	place.addr |= is_return && is_thumb; // as the return address has it
	return place;
}

static void put_frame(struct snapshot *s, struct buf *out, size_t number, const struct frame *frame)
{
	struct place place = place_of(s, frame);
	const struct scene_map *map = place.map;
	uint64_t pc = map == NULL ? place.addr : map->at.image != NULL ? place.addr - map->at.bias : place.addr - map->start;

	bool is_32 = unwind_arch_for(s->scene.machine)->word_bytes == 4;

	buf_printf(out, "  #%02zu pc %0*" PRIx64, number, is_32 ? 8 : 16, is_32 ? (uint32_t)pc : pc);
	if (map == NULL) {
		buf_string(out, "  <unknown>");
	} else if (map->name[0] == '\0') {
		buf_printf(out, "  <anonymous:%" PRIx64 ">", map->start);
	} else {
		buf_string(out, "  ");
		escape_terminal(out, map->name, strlen(map->name));
	}
	if (map != NULL && map->file_start > 0)
		buf_printf(out, " (offset 0x%" PRIx64 ")", map->file_start);
	if (place.name != NULL) {
		buf_string(out, " (");
		escape_terminal(out, place.name, strlen(place.name));
		if (place.offset > 0)
			buf_printf(out, "+%" PRIu64, place.offset);
		buf_byte(out, ')');
	}
	buf_byte(out, '\n');
	free(place.name);
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
	if (!good || !read_parts(s, err) || !read_maps(s, err))
		return false;
	for (unsigned i = 0; i < 64; i++)
		if ((registers.mask >> i & 1) != 0)
			values[count++] = registers.by_number[i];
	s->scene.machine = registers.machine;
	s->scene.memory = memory_at;
	s->scene.memory_context = s;
	struct unwind_regs numbers = { 0 };
	unwind_regs_for(registers.machine, &numbers);
	struct bytes stack;
	memory_at(s, registers.by_number[numbers.sp], &stack);
	scene_find_jit(&s->scene);
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
	for (size_t i = 0; i < s->parts.count; i++)
		buf_release(&s->parts.data[i]);
	vec_release(&s->parts);
	scene_release(&s->scene);
	free(s);
	buf_release(&out);
	return good ? STATUS_OK : (int)err.status;
}
