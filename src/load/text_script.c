// perf script's text, of any version and choice of fields: a line that begins a sample (comm, ids, CPU, time, period, event), then a line a
// frame, the leaf first. Comms hold blanks and digits, so the line is read from its rightmost sure sign: a time, else the first lone number.
#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "load/text.h"
#include "perfdata/event_table.h"
#include "unwind/unwind.h"

enum { CONTEXT_BITS = 63 }; // addresses with the highest bit are the kernel's
#define LOST_MOST (1ull << 53)

struct sample_line {
	const char *comm;
	size_t comm_length;
	int32_t pid, tid;
	uint32_t cpu;
	bool has_time, has_period;
	uint64_t time_ns, period;
	const char *event;
	size_t event_length;
	const char *rest; // what follows the event: a frame, fields of a tracepoint, or nothing
};

struct script {
	struct text_reader *t;
	bool is_open;                       // a sample is being read
	struct profile_sample sample;
	VEC(uint32_t) frames;               // of it, leaf first
	VEC(struct profile_line) inlined;   // lines marked (inlined), innermost first, that wait for the function they are in
	uint64_t inlined_addr;
	struct hash_map events;             // name -> index into the profile's + 1
	bool has_period, has_times;
	bool in_record;                     // what is indented belongs to the line of a record that is no sample
	uint64_t last_ns, lost, lost_samples; // time of the line before; LOST records count a ring's losses, LOST_SAMPLES perf's own reading of the same
};

// ---------------------------------------------------------------- the line that begins a sample

static const char *skip_blanks(const char *at)
{
	while (*at == ' ' || *at == '\t')
		at++;
	return at;
}

static bool has_prefix(const char *text, size_t length, const char *prefix)
{
	return length >= strlen(prefix) && memcmp(text, prefix, strlen(prefix)) == 0;
}

static const char *skip_digits(const char *at)
{
	while (isdigit((uint8_t)*at))
		at++;
	return at;
}

// "4152.008865:"
static bool take_time(const char **at, uint64_t *ns)
{
	const char *dot = skip_digits(*at), *end = *dot == '.' ? skip_digits(dot + 1) : dot;
	if (dot == *at || *dot != '.' || end == dot + 1 || *end != ':' || dot - *at > 10)
		return false;
	uint64_t scale = 1000000000, fraction = 0;
	for (const char *digit = dot + 1; digit < end && scale > 1; digit++) {
		scale /= 10;
		fraction += (uint64_t)(*digit - '0') * scale;
	}
	*ns = strtoull(*at, NULL, 10) * 1000000000 + fraction;
	*at = end + 1;
	return true;
}

// "[003]", then whatever perf puts there: flags of the latency format.
static bool take_cpu(const char **at, uint32_t *cpu)
{
	const char *digits = *at + 1, *end = **at == '[' ? skip_digits(digits) : *at;
	if (**at != '[' || end == digits || *end != ']' || end - digits > 9)
		return false;
	*cpu = (uint32_t)strtoul(digits, NULL, 10);
	*at = end + 1;
	return true;
}

// "4242" or "4242/4243", with blanks around. `at` is behind a blank.
static bool take_ids(const char **at, struct sample_line *line)
{
	const char *end = skip_digits(*at), *first = *at;
	if (end == first || end - first > 10)
		return false;
	unsigned long long pid = strtoull(first, NULL, 10), tid = pid;
	if (*end == '/') {
		const char *second = end + 1;
		end = skip_digits(second);
		if (end == second || end - second > 10)
			return false;
		tid = strtoull(second, NULL, 10);
	}
	if (pid > INT32_MAX || tid > INT32_MAX || !isspace((uint8_t)*end))
		return false;
	line->pid = (int32_t)pid;
	line->tid = (int32_t)tid;
	*at = end;
	return true;
}

// What follows the ids: "[cpu] time: period event: …". With `sure`, a CPU or a time must be there.
static bool take_tail(const char *at, struct sample_line *line, bool sure)
{
	at = skip_blanks(at);
	bool has_cpu = take_cpu(&at, &line->cpu);
	at = skip_blanks(at);
	const char *flags = at;
	line->has_time = take_time(&at, &line->time_ns);
	if (!line->has_time && has_cpu) { // "d.h1." of old versions stands before the time
		while (*at != '\0' && !isspace((uint8_t)*at))
			at++;
		at = skip_blanks(at);
		if (!(line->has_time = take_time(&at, &line->time_ns)))
			at = flags;
	}
	if (sure && !has_cpu && !line->has_time)
		return false;
	at = skip_blanks(at);
	const char *end = skip_digits(at);
	if (end > at && end - at < 20 && isspace((uint8_t)*end)) {
		line->has_period = true;
		line->period = strtoull(at, NULL, 10);
		at = skip_blanks(end);
	}
	const char *word = at; // the event ends in a colon, and may hold some: cycles:u:, sched:sched_switch:
	while (*at != '\0' && !isspace((uint8_t)*at))
		at++;
	if (at > word + 1 && at[-1] == ':') {
		line->event = word;
		line->event_length = (size_t)(at - 1 - word);
		line->rest = skip_blanks(at);
		return true;
	}
	line->rest = word;
	return line->has_time; // without -F event
}

static bool parse_sample(const char *text, struct sample_line *line)
{
	const char *start = skip_blanks(text);
	for (int sure = 1; sure >= 0; sure--) {
		for (const char *at = start; *at != '\0'; at++) {
			if (!isspace((uint8_t)*at) || !isdigit((uint8_t)at[1]) || at == start)
				continue;
			const char *ids = at + 1;
			*line = (struct sample_line){ .comm = start, .cpu = UINT32_MAX };
			if (!take_ids(&ids, line) || !take_tail(ids, line, sure != 0))
				continue;
			line->comm_length = (size_t)(at - start);
			while (line->comm_length > 0 && isspace((uint8_t)start[line->comm_length - 1]))
				line->comm_length--;
			return true;
		}
	}
	return false;
}

// ---------------------------------------------------------------- the line of another record

static const char record_prefix[] = "PERF_RECORD_";

const char *text_record_name(const char *line, size_t length)
{
	size_t of_prefix = sizeof(record_prefix) - 1;
	const char *name = memmem(line, length, record_prefix, of_prefix), *at = name;
	if (name == NULL || (name > line && !isspace((uint8_t)name[-1])))
		return NULL;
	for (at += of_prefix; at < line + length && (isupper((uint8_t)*at) || isdigit((uint8_t)*at) || *at == '_');)
		at++;
	return at == line + length || isspace((uint8_t)*at) || *at == ':' || *at == '(' ? name : NULL;
}

// The record stands where a sample has its event. Of what it says only its losses count: " lost 7".
static bool take_record(struct script *s)
{
	struct sample_line line;
	const char *name = text_record_name(s->t->line, s->t->length), *lost;
	if (name == NULL)
		return false;
	bool is_line = parse_sample(s->t->line, &line);
	if (is_line && line.event != NULL && line.event < name)
		return false; // among the fields of a tracepoint
	uint64_t before_ns = s->last_ns;
	s->last_ns = is_line && line.has_time ? line.time_ns : before_ns;
	bool is_lost = has_prefix(name, strlen(name), "PERF_RECORD_LOST");
	if (!is_lost || (lost = strstr(name, " lost ")) == NULL)
		return true;
	uint64_t count = strtoull(lost + sizeof(" lost ") - 1, NULL, 10);
	bool is_samples = has_prefix(name, strlen(name), "PERF_RECORD_LOST_SAMPLES");
	s->t->tells_loss = true;
	uint64_t *sum = is_samples ? &s->lost_samples : &s->lost;
	*sum += count < LOST_MOST ? count : LOST_MOST;
	*sum = *sum < LOST_MOST ? *sum : LOST_MOST;
	if (!is_samples && count > 0)
		vec_push(&s->t->profile->losses, (struct profile_loss){ .from_ns = before_ns, .to_ns = s->last_ns, .count = count,
		                                                        .cpu = is_line ? line.cpu : UINT32_MAX });
	return true;
}

// ---------------------------------------------------------------- a frame's line

struct frame_line { uint64_t addr, offset; const char *name, *dso; size_t name_length, dso_length; bool is_inlined; uint8_t via; };

// Where the parenthesis that closes at the end was opened: paths may hold some themselves.
static const char *opening(const char *begin, const char *end)
{
	size_t depth = 0;
	for (const char *at = end; at > begin; at--) {
		if (at[-1] == ')')
			depth++;
		else if (at[-1] == '(' && --depth == 0)
			return at - 1;
	}
	return NULL;
}

// Whether the name's first `length` bytes are that of the frame's file: "liblzma.so.5+0x1a2f0" is a function without a name, no offset in one. (Places without folders,
// as perf has eBPF programs, are functions themselves.)
static bool is_file_name(const struct frame_line *f, size_t length)
{
	const char *slash = f->dso_length > 0 ? memrchr(f->dso, '/', f->dso_length) : NULL, *name = slash != NULL ? slash + 1 : NULL;
	return name != NULL && (size_t)(f->dso + f->dso_length - name) == length && memcmp(name, f->name, length) == 0;
}

// "name+0x1f": the offset is cut off.
static void take_offset(struct frame_line *f)
{
	size_t at = f->name_length;
	while (at > 0 && isxdigit((uint8_t)f->name[at - 1]))
		at--;
	if (at == f->name_length || at < 4 || memcmp(f->name + at - 3, "+0x", 3) != 0 || is_file_name(f, at - 3))
		return;
	f->offset = strtoull(f->name + at, NULL, 16);
	f->name_length = at - 3;
}

// "name (dso) fp", as our script's field via has it: the word is cut off.
static void take_via(struct frame_line *f, const char *begin, const char **end)
{
	for (unsigned via = 0; via < VIA_COUNT; via++) {
		const char *word = frame_via_name(via);
		size_t length = strlen(word);
		if ((size_t)(*end - begin) > length + 2 && memcmp(*end - length, word, length) == 0 && memcmp(*end - length - 2, ") ", 2) == 0) {
			f->via = (uint8_t)via;
			*end -= length + 1;
			return;
		}
	}
}

// "ffffffff9b201293 name+0x4 (dso)", "401b97 name (inlined)", "401b97 name", "401b97 (dso)".
static bool parse_frame(const char *text, const char *end, struct frame_line *f)
{
	char *after;
	const char *at = skip_blanks(text);
	while (end > at && isspace((uint8_t)end[-1]))
		end--;
	*f = (struct frame_line){ 0 };
	if (!isxdigit((uint8_t)*at))
		return false;
	errno = 0;
	f->addr = strtoull(at, &after, 16);
	if (errno != 0 || after > end || (after < end && !isspace((uint8_t)*after)))
		return false;
	at = skip_blanks(after);
	if (at > end)
		at = end; // the blanks at the end were cut off
	take_via(f, at, &end);
	static const char inlined[] = " (inlined)";
	size_t of_mark = sizeof(inlined) - 1;
	if ((size_t)(end - at) > of_mark && memcmp(end - of_mark, inlined, of_mark) == 0) {
		f->is_inlined = true;
		end -= of_mark;
	} else if (end > at && end[-1] == ')') {
		const char *open = opening(at, end);
		if (open != NULL && (open == at || open[-1] == ' ')) {
			f->dso = open + 1;
			f->dso_length = (size_t)(end - 1 - f->dso);
			end = open > at ? open - 1 : open;
		}
	}
	f->name = at;
	f->name_length = end > at ? (size_t)(end - at) : 0;
	take_offset(f);
	return true;
}

// By the file's name: "[kernel.kallsyms]", "[ext4]", "vmlinux-5.4", "nf_nat.ko.xz".
static bool is_kernel_dso(const char *dso, size_t length)
{
	static const char *const not_kernel[] = { "[unknown]", "[vdso", "[vsyscall]", "[heap]", "[stack", "[anon", "[uprobes", "[return address" };
	if (length == 0)
		return false;
	if (dso[0] == '[') {
		for (size_t i = 0; i < sizeof(not_kernel) / sizeof(not_kernel[0]); i++)
			if (has_prefix(dso, length, not_kernel[i]))
				return false;
		return true;
	}
	const char *slash = memrchr(dso, '/', length), *name = slash != NULL ? slash + 1 : dso;
	size_t left = (size_t)(dso + length - name);
	const char *module = memmem(name, left, ".ko", 3);
	return has_prefix(name, left, "vmlinux") || (module != NULL && (module + 3 == name + left || module[3] == '.'));
}

// Where a return probe's trampoline stands for a caller: by the mapping's name, or by the place where the kernel puts it.
static bool is_probe_return(const struct script *s, const struct frame_line *f)
{
	return s->frames.count > 0 && ((f->dso != NULL && (has_prefix(f->dso, f->dso_length, "[uprobes]") ||
	       has_prefix(f->dso, f->dso_length, PROFILE_PROBE_NAME))) || unwind_is_probe_return(EM_X86_64, f->addr) || unwind_is_probe_return(EM_AARCH64, f->addr));
}

static void add_frame(struct script *s, const struct frame_line *line_read)
{
	struct text_reader *t = s->t;
	struct frame_line probe = *line_read;
	const struct frame_line *f = line_read;
	if (is_probe_return(s, f)) {
		probe.name = probe.dso = PROFILE_PROBE_NAME;
		probe.name_length = probe.dso_length = strlen(PROFILE_PROBE_NAME);
		probe.is_inlined = false;
		s->sample.end = UNWIND_UPROBE_TRAMPOLINE;
		f = &probe;
	}
	uint32_t dso = f->dso != NULL ? text_dso(t, f->dso, f->dso_length) : PROFILE_NONE;
	struct profile_line line = { .function = text_function(t, f->name, f->name_length, dso), .is_inlined = f->is_inlined };
	if (s->inlined.count > 0 && s->inlined_addr != f->addr) // what they are inlined into is not in the text
		vec_clear(&s->inlined);
	vec_push(&s->inlined, line);
	s->inlined_addr = f->addr;
	if (f->is_inlined)
		return;
	bool is_kernel = is_kernel_dso(f->dso, f->dso_length);
	struct text_frame frame = { .addr = f->addr, .dso = dso, .is_return = s->frames.count > 0, .is_kernel = is_kernel, .via = f->via, .offset = f->offset };
	vec_push(&s->frames, text_add_frame(t, &frame, s->inlined.data, s->inlined.count));
	if (s->frames.count == 1)
		s->sample.is_kernel = is_kernel || f->addr >> CONTEXT_BITS != 0;
	vec_clear(&s->inlined);
}

// ---------------------------------------------------------------- samples

// PROFILE_NONE: there are as many as a recording may have.
static uint32_t event_of(struct script *s, const char *name, size_t length)
{
	struct profile *p = s->t->profile;
	uint32_t text = length > 0 ? intern_bytes(&p->names, name, length) : intern_string(&p->names, "samples");
	bool is_new;
	if (p->events.count >= EVENTS_MOST && hash_map_get(&s->events, text) == NULL)
		return PROFILE_NONE;
	uint32_t *event = hash_map_put(&s->events, text, (uint32_t)p->events.count, &is_new);
	if (is_new) {
		bool is_clock = has_prefix(profile_text(p, text), intern_length(&p->names, text), "cpu-clock") ||
		                has_prefix(profile_text(p, text), intern_length(&p->names, text), "task-clock");
		vec_push(&p->events, (struct profile_event){ .name = text, .is_sampling = true, .is_clock = is_clock });
	}
	return *event;
}

static void close_sample(struct script *s)
{
	struct profile *p = s->t->profile;
	if (!s->is_open)
		return;
	s->sample.stack = PROFILE_NONE;
	for (size_t i = s->frames.count; i-- > 0;)
		s->sample.stack = profile_add_node(p, s->sample.stack, s->frames.data[i]);
	samples_add(&p->samples, &s->sample);
	s->is_open = false;
}

static void open_sample(struct script *s, const struct sample_line *line, uint32_t event)
{
	struct frame_line frame;
	close_sample(s);
	s->is_open = true;
	s->has_period |= line->has_period;
	s->has_times |= line->has_time;
	s->t->profile->events.data[event].lacks_periods |= !line->has_period;
	s->last_ns = line->has_time ? line->time_ns : s->last_ns;
	vec_clear(&s->frames);
	vec_clear(&s->inlined);
	s->sample = (struct profile_sample){
		.time_ns = line->time_ns, .weight = line->has_period ? line->period : 1, .pid = line->pid, .tid = line->tid, .cpu = line->cpu,
		.comm = intern_bytes(&s->t->profile->names, line->comm, line->comm_length), .event = event,
		.end = UNWIND_ROOT, .is_idle = line->pid == 0 && line->tid == 0,
	};
	if (*line->rest != '\0' && parse_frame(line->rest, line->rest + strlen(line->rest), &frame) && frame.dso != NULL)
		add_frame(s, &frame); // of a sample without a call chain
}

// "# hostname : db-3"
static void take_header(struct text_reader *t)
{
	struct profile *p = t->profile;
	const char *colon = strstr(t->line, " :");
	struct { const char *key; uint32_t *value; } keys[] = {
		{ "# hostname", &p->meta.host }, { "# os release", &p->meta.kernel }, { "# perf version", &p->meta.tool }, { "# arch", &p->meta.arch },
		{ "# cpudesc", &p->meta.cpu_desc },
	};
	if (colon == NULL)
		return;
	const char *value = skip_blanks(colon + 2);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if ((size_t)(colon - t->line) == strlen(keys[i].key) && memcmp(t->line, keys[i].key, strlen(keys[i].key)) == 0)
			*keys[i].value = intern_string(&p->names, value);
	if (has_prefix(t->line, t->length, "# cmdline :") && p->meta.argv.count == 0) {
		for (const char *word = value; *word != '\0';) {
			const char *end = word + strcspn(word, " ");
			vec_push(&p->meta.argv, intern_bytes(&p->names, word, (size_t)(end - word)));
			word = skip_blanks(end);
		}
	}
}

static bool take_line(struct script *s, struct err *err)
{
	struct text_reader *t = s->t;
	struct sample_line line;
	struct frame_line frame;
	const char *text = skip_blanks(t->line);
	if (*text == '\0') {
		close_sample(s);
		return true;
	}
	if (t->line[0] == '#') {
		take_header(t);
		return true;
	}
	// perf indents comms when samples have no call chains: what can be a frame only counts as one within a sample.
	bool is_indented = text != t->line;
	if (s->is_open && is_indented && parse_frame(t->line, t->line + t->length, &frame) && (frame.name_length > 0 || frame.dso != NULL)) {
		if (!parse_sample(t->line, &line) || frame.dso != NULL) {
			add_frame(s, &frame);
			return true;
		}
	}
	if (s->in_record && is_indented && !s->is_open && !parse_sample(t->line, &line))
		return true;
	if ((s->in_record = take_record(s))) {
		close_sample(s);
		return true;
	}
	if (parse_sample(t->line, &line)) {
		uint32_t event = event_of(s, line.event, line.event_length);
		close_sample(s);
		if (event == PROFILE_NONE)
			return text_bad_line(t, "an event of those before, as there are 16,384", err);
		open_sample(s, &line, event);
		return true;
	}
	// "  file.c:17" below its frame, and what else perf says of one.
	if (s->is_open && is_indented)
		return true;
	return text_bad_line(t, "a sample (comm, pid, time, event) or, indented, one of its frames", err);
}

// ---------------------------------------------------------------- whole

// Periods tell how the event was sampled: all alike, or by a frequency.
static void finish_events(struct script *s)
{
	struct profile *p = s->t->profile;
	for (size_t i = 0; i < p->samples.count; i++) {
		struct profile_sample sample = samples_at(&p->samples, i);
		struct profile_event *e = &p->events.data[sample.event];
		e->is_freq |= e->period != 0 && e->period != sample.weight;
		e->period = e->is_freq ? e->period : sample.weight;
	}
	for (size_t i = 0; i < p->events.count; i++) {
		p->events.data[i].is_clock &= s->has_period; // else how much time a sample stands for is not known
		if (p->events.data[i].is_freq || !s->has_period)
			p->events.data[i].period = 0;
	}
}

static void finish(struct script *s)
{
	struct profile *p = s->t->profile;
	if (s->has_times && p->samples.count > 0) {
		samples_sort(&p->samples);
		p->meta.start_ns = samples_at(&p->samples, 0).time_ns;
		p->meta.end_ns = samples_at(&p->samples, p->samples.count - 1).time_ns;
	}
	finish_events(s);
	if (p->events.count > 0)
		p->events.data[0].lost = s->lost > s->lost_samples ? s->lost : s->lost_samples;
}

bool text_read_script(struct text_reader *t, struct err *err)
{
	struct script s = { .t = t };
	bool is_good = true;
	while (is_good && text_next_line(t, err))
		is_good = take_line(&s, err);
	is_good = is_good && err->status == STATUS_OK;
	close_sample(&s);
	if (is_good)
		finish(&s);
	vec_release(&s.frames);
	vec_release(&s.inlined);
	hash_map_release(&s.events);
	return is_good;
}
