#include "load/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gunzip.h"
#include "base/regular.h"

enum { PEEK_BYTES = 16384 };

// ---------------------------------------------------------------- what it is

// Of a pipe, tee(2) copies what waits in it without taking it out.
static ssize_t peek_pipe(int fd, char *bytes, size_t size)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	ssize_t n = tee(fd, ends[1], size, 0);
	close(ends[1]);
	if (n > 0)
		n = read(ends[0], bytes, size);
	close(ends[0]);
	return n;
}

static size_t peek(const char *path, char *bytes, size_t size)
{
	bool is_stdin = strcmp(path, "-") == 0;
	int fd = is_stdin ? STDIN_FILENO : regular_open(path, 0);
	struct stat st;
	ssize_t n = -1;
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		n = pread(fd, bytes, size, is_stdin ? lseek(fd, 0, SEEK_CUR) : 0);
	else if (is_stdin && S_ISFIFO(st.st_mode))
		n = peek_pipe(fd, bytes, size);
	if (!is_stdin)
		close(fd);
	return n > 0 ? (size_t)n : 0;
}

// "frames COUNT": where the count begins; NULL: not such a line.
static const char *folded_count(const char *line, size_t length)
{
	size_t at = length;
	while (at > 0 && isdigit((uint8_t)line[at - 1]))
		at--;
	if (at == length || at < 2 || line[at - 1] != ' ' || isspace((uint8_t)line[0]))
		return NULL;
	return line + at;
}

// A sample's first line has a time ("4152.008865:") or ends in the event's colon.
static bool is_script_line(const char *line, size_t length)
{
	if (length == 0 || line[0] == '#')
		return false;
	if (line[length - 1] == ':')
		return memchr(line, ' ', length) != NULL;
	for (size_t i = 1; i + 1 < length; i++) {
		if (line[i] != '.' || !isdigit((uint8_t)line[i - 1]) || !isdigit((uint8_t)line[i + 1]))
			continue;
		size_t end = i + 1;
		while (end < length && isdigit((uint8_t)line[end]))
			end++;
		if (end + 1 < length && line[end] == ':' && isspace((uint8_t)line[end + 1]))
			return true;
	}
	return false;
}

// Text may hold a NUL (a comm's, or a hole that a full disk left), but no other byte that only binary files have.
static bool is_binary(const char *line, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		uint8_t byte = (uint8_t)line[i];
		if (byte < ' ' && byte != '\0' && !(byte >= '\a' && byte <= '\r') && byte != '\033')
			return true;
	}
	return false;
}

// The first line that is one of the two decides.
static enum text_kind kind_of(const char *text, size_t size, bool is_cut)
{
	for (const char *at = text, *end = text + size; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at)), *next = newline != NULL ? newline + 1 : end;
		size_t length = (size_t)((newline != NULL ? newline : end) - at);
		bool is_whole = newline != NULL || !is_cut;
		while (length > 0 && isspace((uint8_t)at[length - 1]))
			length--;
		if (is_binary(at, length))
			return TEXT_NONE;
		if (is_script_line(at, length) || text_record_name(at, length) != NULL)
			return TEXT_SCRIPT;
		if (length > 0 && at[0] != '#' && (is_whole ? folded_count(at, length) != NULL : memchr(at, ';', length) != NULL))
			return TEXT_FOLDED;
		at = next;
	}
	return TEXT_NONE;
}

enum text_kind text_detect(const char *path)
{
	char *bytes = mem_alloc(PEEK_BYTES);
	size_t size = peek(path, bytes, PEEK_BYTES);
	bool is_cut = size == PEEK_BYTES;
	if (gunzip_is_packed(bytes, size)) {
		char *packed = bytes;
		bytes = mem_alloc(PEEK_BYTES);
		size = gunzip_begin(packed, size, bytes, PEEK_BYTES);
		is_cut = true;
		free(packed);
	}
	enum text_kind kind = size > 0 ? kind_of(bytes, size, is_cut) : TEXT_NONE;
	free(bytes);
	return kind;
}

// ---------------------------------------------------------------- lines

bool text_next_line(struct text_reader *t, struct err *err)
{
	errno = 0;
	ssize_t n = getline(&t->line, &t->capacity, t->file);
	if (n < 0) {
		if (ferror(t->file))
			err_errno(err, STATUS_INPUT, "reading line %llu", (unsigned long long)t->line_number + 1);
		return false;
	}
	t->line_number++;
	t->length = (size_t)n;
	t->is_cut = t->line[n - 1] != '\n' && t->line_number > 1;
	static const char mark[] = "\xef\xbb\xbf"; // of UTF-8 (Unicode 23.8), which some editors and shells put first
	if (t->line_number == 1 && t->length >= 3 && memcmp(t->line, mark, 3) == 0)
		memmove(t->line, t->line + 3, t->length -= 3);
	for (char *at = t->line; (at = memchr(at, '\0', (size_t)(t->line + t->length - at))) != NULL;)
		*at = '?';
	while (t->length > 0 && (t->line[t->length - 1] == '\n' || t->line[t->length - 1] == '\r'))
		t->length--;
	t->line[t->length] = '\0';
	return true;
}

bool text_bad_line(struct text_reader *t, const char *expected, struct err *err)
{
	if (t->is_cut)
		return t->cut_off = true;
	if (!t->options->salvage)
		return err_set(err, STATUS_INPUT, "line %llu: expected %s (--salvage skips what is not)", (unsigned long long)t->line_number, expected);
	if (t->skipped++ == 0)
		t->first_skipped = t->line_number;
	return true;
}

// ---------------------------------------------------------------- the profile

uint32_t text_dso(struct text_reader *t, const char *path, size_t length)
{
	struct profile *p = t->profile;
	static const char deleted[] = " (deleted)";
	if (length > sizeof(deleted) - 1 && memcmp(path + length - (sizeof(deleted) - 1), deleted, sizeof(deleted) - 1) == 0)
		length -= sizeof(deleted) - 1;
	if (length == 0 || (length == 9 && memcmp(path, "[unknown]", 9) == 0))
		return PROFILE_NONE;
	const char *slash = path[0] != '[' ? memrchr(path, '/', length) : NULL;
	const char *name = slash != NULL && slash + 1 < path + length ? slash + 1 : path;
	struct profile_dso dso = { .path = intern_bytes(&p->names, path, length),
	                           .short_name = intern_bytes(&p->names, name, (size_t)(path + length - name)) };
	return profile_add_dso(p, &dso);
}

// "liblzma.so.5+0x1a2f0": a function without a name, by file and start. Of a known file, it must be that one's; where no file is told, a library's, as others write
// offsets in functions so. 0: it is none.
static uint64_t nameless_start(const struct text_reader *t, const char *name, size_t length, uint32_t dso)
{
	const char *plus = memrchr(name, '+', length);
	uint64_t start = 0;
	if (plus == NULL || plus == name || name + length - plus < 4 || name + length - plus > 19 || plus[1] != '0' || plus[2] != 'x')
		return 0;
	for (const char *at = plus + 3; at < name + length; at++) {
		if (!isxdigit((unsigned char)*at))
			return 0;
		start = start << 4 | (uint64_t)(*at <= '9' ? *at - '0' : (*at | 32) - 'a' + 10);
	}
	uint32_t file = dso != PROFILE_NONE ? t->profile->dsos.data[dso].short_name : 0;
	bool is_there = dso == PROFILE_NONE ? memmem(name, (size_t)(plus - name), ".so", 3) != NULL : (intern_length(&t->profile->names, file) == (size_t)(plus - name) &&
	                                        memcmp(intern_text(&t->profile->names, file), name, (size_t)(plus - name)) == 0);
	return is_there ? start : 0;
}

uint32_t text_function(struct text_reader *t, const char *name, size_t length, uint32_t dso)
{
	bool is_known = length > 0 && !(length == 9 && memcmp(name, "[unknown]", 9) == 0);
	struct profile_function f = { .name = is_known ? intern_bytes(&t->profile->names, name, length) : intern_string(&t->profile->names, "[unknown]"),
	                              .dso = dso, .is_known = is_known };
	f.start = f.vaddr = is_known ? nameless_start(t, name, length, dso) : 0;
	f.is_nameless = f.start != 0;
	return profile_add_function(t->profile, &f);
}

uint32_t text_add_frame(struct text_reader *t, const struct text_frame *frame, const struct profile_line *lines, size_t count)
{
	struct profile *p = t->profile;
	buf_clear(&t->key);
	buf_u64(&t->key, frame->addr);
	buf_u32(&t->key, frame->dso);
	buf_u32(&t->key, (uint32_t)frame->via << 2 | (uint32_t)frame->is_return << 1 | frame->is_kernel);
	for (size_t i = 0; i < count; i++) {
		buf_u32(&t->key, lines[i].function);
		buf_u32(&t->key, lines[i].file);
		buf_u32(&t->key, lines[i].line);
		buf_u32(&t->key, lines[i].is_inlined);
	}
	uint32_t id = intern_bytes(&t->frame_keys, t->key.data, t->key.size);
	while (t->frames.count <= id)
		vec_push(&t->frames, PROFILE_NONE);
	if (t->frames.data[id] == PROFILE_NONE) {
		// perf's text shows return addresses as they are; look-up addresses are one less.
		bool is_return = frame->is_return && frame->addr > 0;
		uint64_t image_addr = frame->addr - is_return;
		struct profile_frame row = { .addr = frame->addr, .image_addr = image_addr, .dso = frame->dso, .kind = is_return ? FRAME_RETURN : FRAME_LEAF, .via = frame->via,
		                             .is_kernel = frame->is_kernel, .first_line = (uint32_t)p->chains.count, .line_count = (uint32_t)count,
		                             .symbol_start = frame->offset <= frame->addr ? frame->addr - frame->offset : 0 };
		for (size_t i = 0; i < count; i++)
			vec_push(&p->chains, lines[i]);
		t->frames.data[id] = (uint32_t)p->frames.count;
		vec_push(&p->frames, row); // not by address: the same address may have another name later
	}
	return t->frames.data[id];
}

// ---------------------------------------------------------------- folded stacks

static bool ends_in(const char *text, size_t length, const char *end)
{
	size_t of_end = strlen(end);
	return length > of_end && memcmp(text + length - of_end, end, of_end) == 0;
}

static uint32_t folded_frame(struct text_reader *t, const char *name, size_t length)
{
	struct text_frame frame = { .dso = PROFILE_NONE };
	struct profile_line line = { 0 };
	if (ends_in(name, length, "_[k]"))
		frame.is_kernel = true, length -= 4;
	else if (ends_in(name, length, "_[i]"))
		line.is_inlined = true, length -= 4;
	bool is_gap = length == strlen(PROFILE_GAP_NAME) && memcmp(name, PROFILE_GAP_NAME, length) == 0;
	if (length > 2 && name[0] == '[' && name[length - 1] == ']' && !is_gap) { // a file, for code without a name
		frame.dso = text_dso(t, name, length);
		line.function = text_function(t, "[unknown]", 9, frame.dso);
	} else {
		line.function = text_function(t, name, length, PROFILE_NONE);
	}
	return text_add_frame(t, &frame, &line, 1);
}

static bool take_folded(struct text_reader *t, struct err *err)
{
	const char *count = folded_count(t->line, t->length);
	errno = 0;
	uint64_t weight = count != NULL ? strtoull(count, NULL, 10) : 0;
	if (count == NULL || errno != 0 || weight > INT64_MAX)
		return text_bad_line(t, "frame;frame;frame COUNT", err);
	struct profile_sample sample = { .weight = weight, .cpu = UINT32_MAX, .stack = PROFILE_NONE, .end = UNWIND_ROOT };
	size_t index = 0;
	bool is_kernel = false;
	for (const char *at = t->line, *end = count - 1; at <= end; index++) {
		const char *semicolon = memchr(at, ';', (size_t)(end - at));
		size_t length = (size_t)((semicolon != NULL ? semicolon : end) - at);
		if (index == 0)
			sample.comm = intern_bytes(&t->profile->names, at, length);
		else if (index == 1 && length == 11 && memcmp(at, "[truncated]", 11) == 0)
			sample.end = UNWIND_TRUNCATED;
		else if (index == 1 && length == 15 && memcmp(at, "[unwind failed]", 15) == 0)
			sample.end = UNWIND_NO_CFI;
		else if (length > 0) {
			uint32_t frame = folded_frame(t, at, length);
			is_kernel = t->profile->frames.data[frame].is_kernel;
			sample.stack = profile_add_node(t->profile, sample.stack, frame);
		}
		at += length + 1;
	}
	sample.is_kernel = is_kernel;
	if (weight > 0)
		samples_add(&t->profile->samples, &sample);
	return true;
}

static bool read_folded(struct text_reader *t, struct err *err)
{
	struct profile_event event = { .name = intern_string(&t->profile->names, "samples"), .is_sampling = true, .counts_by_weight = true };
	vec_push(&t->profile->events, event);
	while (text_next_line(t, err)) {
		if (t->length == 0 || t->line[0] == '#')
			continue;
		if (!take_folded(t, err))
			return false;
	}
	return err->status == STATUS_OK;
}

// ---------------------------------------------------------------- whole

static void caveat(struct text_reader *t, enum text_kind kind)
{
	struct profile *p = t->profile;
	struct buf text = { 0 };
	buf_string(&text, kind == TEXT_FOLDED ? "read from folded stacks: no times, and what was lost is not known"
	                  : t->tells_loss     ? "read from perf script's text: what was lost is what its PERF_RECORD_LOST lines tell; whether stacks are whole is not known"
	                                      : "read from perf script's text: what was lost, and whether stacks are whole, is not known");
	uint32_t said = intern_string(&p->names, buf_text(&text));
	if (!t->tells_loss)
		p->meta.unknown_loss = said;
	vec_push(&p->meta.caveats, said);
	p->meta.cut_off = t->cut_off;
	if (t->cut_off)
		vec_push(&p->meta.caveats, intern_string(&p->names, "recording was cut off"));
	if (t->skipped > 0) {
		buf_clear(&text);
		buf_printf(&text, "%llu lines were not understood and skipped, the first is line %llu", (unsigned long long)t->skipped,
		           (unsigned long long)t->first_skipped);
		vec_push(&p->meta.caveats, intern_string(&p->names, buf_text(&text)));
	}
	buf_release(&text);
}

bool text_read(struct profile *profile, const struct load_options *options, FILE *file, enum text_kind kind, struct err *err)
{
	struct err local = { 0 };
	struct text_reader t = { .profile = profile, .options = options, .file = file };
	intern_init(&t.frame_keys);
	bool is_done = kind == TEXT_FOLDED ? read_folded(&t, &local) : text_read_script(&t, &local);
	if (is_done)
		caveat(&t, kind);
	else
		err_set(err, local.status, "%s: %s", options->input, local.text);
	free(t.line);
	intern_release(&t.frame_keys);
	vec_release(&t.frames);
	buf_release(&t.key);
	return is_done;
}

static bool is_packed(const char *path)
{
	char magic[3];
	return gunzip_is_packed(magic, peek(path, magic, sizeof(magic)));
}

// A descriptor of what the packed file holds, in place of its own; -1: err is set.
static int unpack(int fd, bool *cut_off, struct err *err)
{
	struct gunzip_fd *from = NEW(struct gunzip_fd);
	from->fd = fd;
	int unpacked = gunzip_unpack(gunzip_more_of_fd, from, cut_off, err);
	close(fd);
	free(from);
	return unpacked;
}

bool text_load(struct profile *profile, const struct load_options *options, enum text_kind kind, struct err *err)
{
	bool is_stdin = strcmp(options->input, "-") == 0, cut_off = false; // a packed file that ends within a line is cut off there
	int fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(options->input, O_RDONLY | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, STATUS_INPUT, "opening %s", options->input);
	if (is_packed(options->input) && (fd = unpack(fd, &cut_off, err)) < 0)
		return err_context(err, "reading %s", options->input), false;
	FILE *file = fdopen(fd, "r");
	if (file == NULL) {
		close(fd);
		return err_errno(err, STATUS_INPUT, "opening %s", options->input);
	}
	bool is_done = text_read(profile, options, file, kind, err);
	fclose(file);
	if (is_done && cut_off && !profile->meta.cut_off)
		vec_push(&profile->meta.caveats, intern_string(&profile->names, "recording was cut off"));
	profile->meta.cut_off |= cut_off;
	return is_done;
}
