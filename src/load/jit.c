#include "load/jit.h"

#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/search.h"
#include "base/sort.h"
#include "elf/guard.h"
#include "load/loader.h"

enum { ARCH_TIMESTAMP = 1 }; // header flag: times are of a clock that nothing else here has
#define OLDEST_DUMP_NS UINT64_C(60000000000) // between the dump's mapping and the first code in it there is a moment, not a minute

void jit_init(struct jit *jit)
{
	*jit = (struct jit){ .next_ns = UINT64_MAX };
}

void jit_release(struct jit *jit)
{
	for (size_t i = 0; i < jit->sources.count; i++) {
		struct jit_source *source = &jit->sources.data[i];
		if (source->fd >= 0)
			close(source->fd);
		free(source->path);
		vec_release(&source->loads);
		vec_release(&source->unwinds);
	}
	vec_release(&jit->sources);
}

int jit_fd(const struct jit *jit, const char *path)
{
	for (size_t i = 0; i < jit->sources.count; i++)
		if (jit->sources.data[i].fd >= 0 && strcmp(jit->sources.data[i].path, path) == 0)
			return jit->sources.data[i].fd;
	return -1;
}

const struct jit_load *jit_code_at(const struct jit *jit, int32_t pid, uint64_t addr, uint64_t time_ns, int *fd)
{
	for (size_t i = 0; i < jit->sources.count; i++) {
		const struct jit_source *source = &jit->sources.data[i];
		for (size_t k = source->fd >= 0 && source->pid == pid ? source->loads.count : 0; k > 0; k--) {
			const struct jit_load *load = &source->loads.data[k - 1];
			*fd = source->fd;
			if (load->time_ns <= time_ns && addr - load->addr < load->size)
				return load;
		}
	}
	return NULL;
}

const struct jit_unwind *jit_find_unwind(const struct jit *jit, const char *path, uint64_t offset, const struct jit_source **source)
{
	for (size_t i = 0; i < jit->sources.count; i++) {
		const struct jit_source *s = &jit->sources.data[i];
		if (s->fd < 0 || s->unwinds.count == 0 || strcmp(s->path, path) != 0)
			continue;
		const size_t next = first_not(0, s->unwinds.count, k, s->unwinds.data[k].offset <= offset);
		if (next == 0 || offset - s->unwinds.data[next - 1].offset >= s->unwinds.data[next - 1].size)
			return NULL;
		*source = s;
		return &s->unwinds.data[next - 1];
	}
	return NULL;
}

static int by_time(const void *a, const void *b)
{
	const struct jit_load *x = a, *y = b;
	if (x->time_ns != y->time_ns)
		return x->time_ns > y->time_ns ? 1 : -1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static void add_source(struct jit *jit, struct jit_source *source)
{
	if (source->loads.count > 0)
		sort_stable(source->loads.data, source->loads.count, sizeof(*source->loads.data), by_time);
	if (source->loads.count > 0 && source->loads.data[0].time_ns < jit->next_ns)
		jit->next_ns = source->loads.data[0].time_ns;
	vec_push(&jit->sources, *source);
}

// ---------------------------------------------------------------- where loads come from

static bool from_inside(struct loader *loader, const struct record *record)
{
	const struct names *names = reader_features(loader->reader)->names;
	struct jit_source source = { .pid = (int32_t)record->mapping.pid, .fd = -1 };
	for (size_t i = 0; names != NULL && i < names->codes.count; i++) {
		const struct name_code *code = &names->codes.data[i];
		if (code->pid == record->mapping.pid && strcmp(code->path, record->mapping.path) == 0)
			vec_push(&source.loads, (struct jit_load){ code->time_ns, code->addr, code->size, code->offset });
	}
	if (source.loads.count == 0)
		return false;
	source.path = mem_string(record->mapping.path);
	add_source(&loader->jit, &source);
	return true;
}

// Whether the dump's times are those of the recording; `event` is any of its events.
static bool is_same_clock(const struct loader *loader, const struct jitdump *dump)
{
	const struct reader_features *features = reader_features(loader->reader);
	bool has_clock = reader_event_count(loader->reader) > 0 && reader_event_at(loader->reader, 0)->attr.use_clockid;
	int clock = has_clock ? reader_event_at(loader->reader, 0)->attr.clockid : features->has_clock_data ? (int)features->clockid : -1;
	return clock == CLOCK_MONOTONIC && (dump->flags & ARCH_TIMESTAMP) == 0;
}

static void take_codes(struct loader *loader, struct jit_source *source, const struct jitdump *dump, const struct record *record)
{
	bool same_clock = is_same_clock(loader, dump), has_time = (record->id.has & PERF_SAMPLE_TIME) != 0 && record->id.time_ns != 0;
	uint64_t mapped_ns = has_time ? record->id.time_ns : 0;
	// The header's own time is of no use: V8 puts the wall clock's there.
	source->machine = (uint16_t)dump->machine;
	if (same_clock && has_time && dump->codes.count > 0 && dump->codes.data[0].time_ns + OLDEST_DUMP_NS < mapped_ns) {
		loader_caveat(loader, "%s is the dump of another run: JIT code has no names", source->path);
		return;
	}
	if (!same_clock && dump->codes.count > 0)
		loader_caveat(loader, "%s: its times are of another clock (record with -k mono): code that moved or was compiled again may be misnamed", source->path);
	for (size_t i = 0; i < dump->codes.count; i++) {
		const struct jitdump_code *code = &dump->codes.data[i];
		vec_push(&source->loads, (struct jit_load){ same_clock ? code->time_ns : mapped_ns, code->addr, code->size, code->offset });
		if (code->unwind_size > 0 && !code->is_move) // in the order of the file
			vec_push(&source->unwinds, (struct jit_unwind){ code->offset, code->size, code->unwind_offset, code->unwind_size });
	}
}

static void damaged(struct loader *loader, const struct jit_source *source, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void damaged(struct loader *loader, const struct jit_source *source, const char *format, ...)
{
	struct buf text = { 0 };
	va_list args;
	buf_printf(&text, "%s: ", source->path);
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	damages_note(&loader->damages, source->path, NULL, 1, buf_text(&text));
	buf_release(&text);
}

static void from_file(struct loader *loader, const struct record *record)
{
	struct jit_source source = { .pid = (int32_t)record->mapping.pid, .fd = -1 };
	struct jitdump dump = { 0 };
	struct err err = { 0 };
	size_t size = 0;
	source.fd = jitdump_open(loader->options->symfs, record->mapping.path, &size);
	if (source.fd < 0)
		return;
	source.path = mem_string(record->mapping.path);
	const void *bytes = guard_map(source.fd, size);
	if (bytes != NULL && !jitdump_parse(&dump, bytes, size, &err))
		damaged(loader, &source, "%s", err.text);
	else if (bytes != NULL && dump.is_cut)
		damaged(loader, &source, "at 0x%zx: a record that goes on past the end, expected inside the file's %zu bytes", dump.cut_at, size);
	if (bytes != NULL)
		take_codes(loader, &source, &dump, record);
	jitdump_release(&dump);
	if (bytes != NULL)
		guard_unmap(bytes, size);
	add_source(&loader->jit, &source);
}

// Other code comes to the same place: what is known of a mapping holds for one of them.
static void renew(struct loader *loader, const struct record *record)
{
	const struct names *names = reader_features(loader->reader)->names;
	const struct record_mapping *m = &record->mapping;
	const struct name_jit *jit = names != NULL ? names_jit_at(names, m->pid, m->start, record->id.time_ns) : NULL;
	if (jit != NULL && jit->time_ns == record->id.time_ns)
		spaces_renew(loader->spaces, (int32_t)m->pid, m->start);
}

// What processes told debuggers of (the recorder's record_jit_functions): no file, so no mapping of it says when it began.
void jit_from_inside(struct loader *loader)
{
	const struct names *names = reader_features(loader->reader)->names;
	for (size_t i = 0; names != NULL && i < names->codes.count; i++) {
		const struct name_code *code = &names->codes.data[i];
		if (strncmp(code->path, "//", 2) != 0 || !jitdump_is_path(code->path))
			continue;
		bool is_known = false;
		for (size_t k = 0; k < loader->jit.sources.count && !is_known; k++)
			is_known = loader->jit.sources.data[k].pid == (int32_t)code->pid && strcmp(loader->jit.sources.data[k].path, code->path) == 0;
		if (!is_known)
			(void)from_inside(loader, &(struct record){ .mapping = { .pid = code->pid, .path = code->path } });
	}
}

void jit_mapped(struct loader *loader, const struct record *record)
{
	const struct record_mapping *m = &record->mapping;
	if (record->type != PERF_RECORD_MMAP && record->type != PERF_RECORD_MMAP2)
		return;
	renew(loader, record);
	if (m->path == NULL || m->path[0] != '/' || !jitdump_is_path(m->path) || (!loader->options->symbols && loader->options->compare == NULL))
		return;
	for (size_t i = 0; i < loader->jit.sources.count; i++)
		if (loader->jit.sources.data[i].pid == (int32_t)m->pid && strcmp(loader->jit.sources.data[i].path, m->path) == 0)
			return;
	// Who compares wants the code, which only the file has.
	if (!loader->options->symbols || !from_inside(loader, record))
		from_file(loader, record);
}

// ---------------------------------------------------------------- as time goes on

// As perf inject does it: each piece of code is a mapping of the dump, its offset that of the code in it.
static void apply(struct loader *loader, const struct jit_source *source, const struct jit_load *load)
{
	struct record record = { .type = PERF_RECORD_MMAP2, .misc = PERF_RECORD_MISC_USER };
	record.mapping = (struct record_mapping){
		.pid = (uint32_t)source->pid, .tid = (uint32_t)source->pid, .start = load->addr, .length = load->size, .pgoff = load->offset,
		.protection = PROT_READ | PROT_EXEC, .path = source->path,
	};
	(void)spaces_apply(loader->spaces, &record, false);
}

void jit_advance(struct loader *loader, uint64_t time_ns)
{
	struct jit *jit = &loader->jit;
	if (time_ns < jit->next_ns || !loader->options->symbols)
		return;
	light_forget(loader);
	jit->next_ns = UINT64_MAX;
	for (size_t i = 0; i < jit->sources.count; i++) {
		struct jit_source *source = &jit->sources.data[i];
		for (; source->next < source->loads.count && source->loads.data[source->next].time_ns <= time_ns; source->next++)
			apply(loader, source, &source->loads.data[source->next]);
		if (source->next < source->loads.count && source->loads.data[source->next].time_ns < jit->next_ns)
			jit->next_ns = source->loads.data[source->next].time_ns;
	}
}
