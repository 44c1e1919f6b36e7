#include "cmd/inject_join.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "cmd/inject_names.h"
#include "record/sample.h"

static const uint64_t CLOCKS_APART_NS = 60000000000; // NTP moves the wall clock by less while a host runs

bool inject_is_raw(const struct perf_event_attr *attr)
{
	uint64_t raw = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	return (attr->sample_type & raw) == raw;
}

struct perf_event_attr inject_live_attr(const struct perf_event_attr *from)
{
	struct perf_event_attr attr = *from;
	if (!inject_is_raw(from))
		return attr;
	attr.sample_type = sample_type_live(attr.sample_type) & ~(uint64_t)PERF_SAMPLE_BRANCH_STACK; // sample_encode_live has no place for branches
	attr.branch_sample_type = 0;
	attr.sample_regs_user = 0;
	attr.sample_stack_user = 0;
	attr.exclude_callchain_user = 0;
	return attr;
}

void inject_count_members(struct writer_event *events, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (events[i].group_leader >= 0 && (size_t)events[i].group_leader < count)
			events[events[i].group_leader].group_members++;
}

static const char *keep(struct join *join, const char *text)
{
	return text != NULL ? arena_string(&join->arena, text, strlen(text)) : NULL;
}

static uint64_t number_in(const struct names *names, const char *key)
{
	const char *text = names != NULL ? names_meta_get(names, key) : NULL;
	return text != NULL ? strtoull(text, NULL, 10) : 0;
}

// ---------------------------------------------------------------- which may be joined

static void fill_info(struct join *join, const struct reader_features *f, unsigned strip)
{
	join->info = (struct writer_info){ .arch = keep(join, f->arch), .version = keep(join, f->version), .cpus_online = f->cpus_online,
		.cpus_available = f->cpus_available };
	if (f->has_clock_data) {
		join->info.clockid = f->clockid;
		join->info.clockid_time_ns = f->clockid_time_ns;
		join->info.wall_time_ns = f->wall_time_ns;
	}
	if ((strip & STRIP_HOST) == 0) {
		join->info.hostname = keep(join, f->hostname);
		join->info.os_release = keep(join, f->os_release);
		join->info.cpu_desc = keep(join, f->cpu_desc);
		join->info.cpuid = keep(join, f->cpuid);
		join->info.total_memory_kib = f->total_memory_kib;
	}
	for (size_t i = 0; i < f->argv.count && (strip & STRIP_COMMAND) == 0; i++)
		vec_push(&join->argv, keep(join, f->argv.data[i]));
	vec_push(&join->argv, NULL);
	join->argv.count--;
	join->info.argv = join->argv.data;
}

static bool same_text(const char *a, const char *b, const char *what, const char *path, struct err *err)
{
	return a == NULL || b == NULL || strcmp(a, b) == 0 || err_set(err, STATUS_INPUT, "%s: recorded on %s %s, the others on %s", path, what, b, a);
}

// The wall clock's time when the recording's clock was 0; 0: not known.
static uint64_t clock_offset_ns(const struct reader_features *f)
{
	if (f->has_clock_data)
		return f->wall_time_ns - f->clockid_time_ns;
	uint64_t wall_ns = number_in(f->names, "start.wall_ns");
	return wall_ns > 0 ? wall_ns - number_in(f->names, "start.ns") : 0;
}

static bool fits(const struct reader_features *first, const struct reader_features *f, const char *path, struct err *err)
{
	if (!same_text(first->hostname, f->hostname, "host", path, err) || !same_text(first->arch, f->arch, "architecture", path, err) ||
	    !same_text(first->os_release, f->os_release, "kernel", path, err))
		return false;
	if (first->has_clock_data && f->has_clock_data && first->clockid != f->clockid)
		return err_set(err, STATUS_INPUT, "%s: times of clock %u, the others of clock %u", path, f->clockid, first->clockid);
	uint64_t a = clock_offset_ns(first), b = clock_offset_ns(f);
	if (a != 0 && b != 0 && (a > b ? a - b : b - a) > CLOCKS_APART_NS)
		return err_set(err, STATUS_INPUT, "%s: recorded since another start of the host: its times are not those of the others", path);
	return true;
}

// ---------------------------------------------------------------- events

static bool has_id(const struct writer_event *event, const uint64_t *ids, size_t count)
{
	for (size_t i = 0; i < event->id_count; i++)
		for (size_t j = 0; j < count; j++)
			if (event->ids[i] == ids[j])
				return true;
	return false;
}

static void add_ids(struct join *join, struct writer_event *event, const uint64_t *ids, size_t count)
{
	uint64_t *all = arena_alloc(&join->arena, (event->id_count + count + 1) * sizeof(*all));
	if (event->id_count > 0)
		memcpy(all, event->ids, event->id_count * sizeof(*all));
	if (count > 0)
		memcpy(all + event->id_count, ids, count * sizeof(*all));
	event->ids = all;
	event->id_count += count;
}

static bool add_event(struct join *join, const struct reader_event *e, size_t base, const char *path, struct err *err)
{
	struct perf_event_attr attr = inject_live_attr(&e->attr);
	if (inject_is_raw(&e->attr) && e->attr.sample_stack_user > join->stack_bytes)
		join->stack_bytes = e->attr.sample_stack_user;
	for (size_t i = 0; i < base; i++) {
		struct writer_event *known = &join->events.data[i];
		bool is_same = memcmp(&known->attr, &attr, sizeof(attr)) == 0 && strcmp(known->name, e->name) == 0 && known->group_leader < 0 && e->group_leader < 0;
		if (has_id(known, e->ids.data, e->ids.count))
			return err_set(err, STATUS_INPUT, "%s: its event %s has an id that another recording's event has: it may be the same recording", path, e->name);
		if (!is_same)
			continue;
		if (e->ids.count == 0 || known->id_count == 0)
			return true; // one event, no ids: records need none
		add_ids(join, known, e->ids.data, e->ids.count);
		return true;
	}
	struct writer_event event = { .attr = attr, .name = keep(join, e->name),
		.group_leader = e->group_leader >= 0 ? e->group_leader + (int32_t)base : -1 };
	add_ids(join, &event, e->ids.data, e->ids.count);
	vec_push(&join->events, event);
	return true;
}

static bool check_ids(const struct join *join, struct err *err)
{
	for (size_t i = 0; i < join->events.count && join->events.count > 1 && join->sources.count > 1; i++)
		if (join->events.data[i].id_count == 0)
			return err_set(err, STATUS_INPUT, "event %s has no ids: its records could not be told from those of the other events", join->events.data[i].name);
	return true;
}

// ---------------------------------------------------------------- opening

static void add_source(struct join *join, const char *path, const struct reader *reader)
{
	const struct reader_features *f = reader_features(reader);
	struct join_source source = { .path = path, .first_ns = f->first_time_ns, .last_ns = f->last_time_ns, .event_count = reader_event_count(reader) };
	uint64_t start_ns = number_in(f->names, "start.ns"), end_ns = number_in(f->names, "end.ns");
	if (start_ns > 0 && (source.first_ns == 0 || start_ns < source.first_ns))
		source.first_ns = start_ns;
	if (end_ns > source.last_ns)
		source.last_ns = end_ns;
	vec_push(&join->sources, source);
}

static int by_time(const void *a, const void *b)
{
	const struct join_source *x = a, *y = b;
	return (x->first_ns > y->first_ns) - (x->first_ns < y->first_ns);
}

static void put_in_order(struct join *join)
{
	sort_stable(join->sources.data, join->sources.count, sizeof(*join->sources.data), by_time);
	join->are_apart = true;
	for (size_t i = 0; i < join->sources.count; i++) {
		const struct join_source *s = &join->sources.data[i];
		join->are_apart &= s->first_ns > 0 && s->last_ns >= s->first_ns && (i == 0 || s->first_ns > join->sources.data[i - 1].last_ns);
	}
}

bool join_open(struct join *join, const char *const *paths, size_t count, bool salvage, unsigned strip, struct err *err)
{
	VEC(struct reader *) readers = { 0 };
	bool good = true;
	for (size_t i = 0; i < count && good; i++) {
		struct reader *reader = NULL;
		good = reader_open(&reader, paths[i], salvage, err);
		if (!good)
			break;
		vec_push(&readers, reader);
		size_t base = join->events.count, events = reader_event_count(reader);
		good = events > 0 || err_set(err, STATUS_INPUT, "%s: a recording in pipe layout; only files can be joined", paths[i]);
		good = good && fits(reader_features(readers.data[0]), reader_features(reader), paths[i], err);
		for (size_t e = 0; e < events && good; e++)
			good = add_event(join, reader_event_at(reader, e), base, paths[i], err);
		if (good)
			add_source(join, paths[i], reader);
	}
	good = good && check_ids(join, err);
	if (good && readers.count > 0) {
		fill_info(join, reader_features(readers.data[0]), strip);
		inject_count_members(join->events.data, join->events.count);
		put_in_order(join);
	}
	for (size_t i = 0; i < readers.count; i++)
		reader_free(readers.data[i]);
	vec_release(&readers);
	return good;
}

// ---------------------------------------------------------------- names

static void add_build_ids(struct join *join, const struct reader_features *features)
{
	size_t before = join->build_ids.count;
	for (size_t i = 0; i < features->build_ids.count; i++) {
		const struct reader_build_id *id = &features->build_ids.data[i];
		bool is_known = false;
		for (size_t j = 0; j < before && !is_known; j++)
			is_known = build_id_equal(&join->build_ids.data[j].build_id, &id->build_id) && strcmp(join->build_ids.data[j].path, id->path) == 0;
		if (!is_known)
			vec_push(&join->build_ids, (struct writer_build_id){ .build_id = id->build_id, .path = keep(join, id->path), .misc = id->misc, .pid = id->pid });
	}
}

bool join_take(struct join *join, const struct reader_features *features, struct names *names, struct err *err)
{
	struct buf bytes = { 0 };
	struct names *part = mem_zero(1, sizeof(*part));
	vec_push(&join->parts, part);
	add_build_ids(join, features);
	join->recorder_cpu_ns += number_in(names, "recorder.cpu_ns");
	names_encode(names, &bytes); // and back: a copy that holds when the reader is gone
	bool good = names_decode(part, bytes.data, bytes.size, err);
	for (size_t i = 0; i < part->images.count; i++)
		vec_push(&join->names.images, part->images.data[i]);
	part->images.count = 0; // theirs now
	for (size_t i = 0; i < part->codes.count; i++)
		vec_push(&join->names.codes, part->codes.data[i]);
	inject_vdsos(&join->names, part);
	buf_release(&bytes);
	return good;
}

static bool is_of_one(const char *key)
{
	static const char *const keys[] = { "start.ns", "end.ns", "recorder.cpu_ns" };
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(key, keys[i]) == 0)
			return true;
	return strncmp(key, "target.", 7) == 0;
}

void join_close(struct join *join)
{
	uint64_t end_ns = 0;
	const struct names *first = join->parts.data[0];
	for (size_t i = 0; i < join->sources.count; i++)
		end_ns = join->sources.data[i].last_ns > end_ns ? join->sources.data[i].last_ns : end_ns;
	for (size_t i = 0; i < first->meta.count; i++)
		if (!is_of_one(first->meta.data[i].key))
			names_meta(&join->names, first->meta.data[i].key, "%s", first->meta.data[i].value);
	if (number_in(first, "start.ns") > 0 && end_ns > 0) {
		names_meta(&join->names, "start.ns", "%llu", (unsigned long long)number_in(first, "start.ns"));
		names_meta(&join->names, "end.ns", "%llu", (unsigned long long)end_ns);
	}
	if (join->recorder_cpu_ns > 0)
		names_meta(&join->names, "recorder.cpu_ns", "%llu", (unsigned long long)join->recorder_cpu_ns);
	join->info.first_time_ns = join->sources.data[0].first_ns;
	join->info.last_time_ns = end_ns;
}

void join_release(struct join *join)
{
	names_release(&join->names);
	for (size_t i = 0; i < join->parts.count; i++) {
		names_release(join->parts.data[i]);
		free(join->parts.data[i]);
	}
	vec_release(&join->parts);
	vec_release(&join->sources);
	vec_release(&join->events);
	vec_release(&join->argv);
	vec_release(&join->build_ids);
	arena_release(&join->arena);
}
