#include "perfdata/feature_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "perfdata/format.h"

// u32 size, then the string and NULs up to it.
static const char *take_string(struct bytes *in, struct arena *arena)
{
	uint32_t size = bytes_u32(in);
	const char *text = bytes_take(in, size);
	return text != NULL ? arena_string(arena, text, strnlen(text, size)) : NULL;
}

static void read_command_line(struct reader_features *features, struct arena *arena, struct bytes *in)
{
	uint32_t count = bytes_u32(in);
	vec_clear(&features->argv);
	for (uint32_t i = 0; i < count && !in->bad; i++) {
		const char *word = take_string(in, arena);
		if (word != NULL)
			vec_push(&features->argv, word);
	}
}

// Events stand in the order of the attrs; where their number differs, an id tells which is meant.
static void read_event_desc(struct event_table *events, struct arena *arena, struct bytes *in)
{
	uint32_t count = bytes_u32(in), attr_size = bytes_u32(in);
	for (uint32_t i = 0; i < count && !in->bad; i++) {
		bytes_skip(in, attr_size);
		uint32_t ids = bytes_u32(in);
		const char *name = take_string(in, arena);
		struct reader_event *event = count == events->events.count ? events->events.data[i] : NULL;
		if (ids > bytes_left(in) / sizeof(uint64_t))
			in->bad = true;
		for (uint32_t j = 0; j < ids && !in->bad; j++) {
			uint64_t id = bytes_u64(in);
			if (event == NULL)
				event = event_table_by_id(events, id);
		}
		if (event != NULL && name != NULL && *name != '\0' && !in->bad)
			event->name = name;
	}
}

static void read_group_desc(struct event_table *events, struct arena *arena, struct bytes *in)
{
	uint32_t groups = bytes_u32(in), next = 0; // groups follow one another
	for (uint32_t i = 0; i < groups && !in->bad; i++) {
		(void)take_string(in, arena);
		uint32_t leader = bytes_u32(in), members = bytes_u32(in);
		if (in->bad || leader < next || leader >= events->events.count)
			return;
		for (next = leader; next < events->events.count && next - leader < members; next++)
			events->events.data[next]->group_leader = (int32_t)leader;
	}
}

bool feature_read_build_id(struct reader_features *features, struct arena *arena, struct bytes *in)
{
	(void)bytes_u32(in); // header: type
	uint16_t misc = bytes_u16(in), size = bytes_u16(in);
	if (size < BUILD_ID_HEAD_BYTES) {
		in->bad = true;
		return false;
	}
	struct bytes body = bytes_sub(in, size - sizeof(struct perf_event_header));
	struct reader_build_id build_id = { .misc = misc, .pid = (int32_t)bytes_u32(&body) };
	const uint8_t *id = bytes_take(&body, 24);
	if (id == NULL)
		return false;
	build_id.build_id.size = (misc & BUILD_ID_HAS_SIZE) != 0 && id[20] <= 20 ? id[20] : 20;
	memcpy(build_id.build_id.bytes, id, build_id.build_id.size);
	build_id.path = arena_string(arena, (const char *)body.at, strnlen((const char *)body.at, bytes_left(&body)));
	vec_push(&features->build_ids, build_id);
	return true;
}

static void read_numbers(struct reader_features *features, unsigned feature, struct bytes *in)
{
	switch (feature) {
	case FEATURE_NRCPUS:
		features->cpus_available = bytes_u32(in);
		features->cpus_online = bytes_u32(in);
		break;
	case FEATURE_TOTAL_MEM:
		features->total_memory_kib = bytes_u64(in);
		break;
	case FEATURE_SAMPLE_TIME:
		features->first_time_ns = bytes_u64(in);
		features->last_time_ns = bytes_u64(in);
		break;
	case FEATURE_CLOCK_DATA:
		(void)bytes_u32(in); // version
		features->clockid = bytes_u32(in);
		features->wall_time_ns = bytes_u64(in);
		features->clockid_time_ns = bytes_u64(in);
		features->has_clock_data = !in->bad;
		break;
	default:
		break;
	}
}

bool feature_read(struct reader_features *features, struct event_table *events, struct arena *arena, unsigned feature, struct bytes in,
                  struct err *err)
{
	switch (feature) {
	case FEATURE_HOSTNAME:
		features->hostname = take_string(&in, arena);
		break;
	case FEATURE_OSRELEASE:
		features->os_release = take_string(&in, arena);
		break;
	case FEATURE_VERSION:
		features->version = take_string(&in, arena);
		break;
	case FEATURE_ARCH:
		features->arch = take_string(&in, arena);
		break;
	case FEATURE_CPUDESC:
		features->cpu_desc = take_string(&in, arena);
		break;
	case FEATURE_CPUID:
		features->cpuid = take_string(&in, arena);
		break;
	case FEATURE_CMDLINE:
		read_command_line(features, arena, &in);
		break;
	case FEATURE_EVENT_DESC:
		read_event_desc(events, arena, &in);
		break;
	case FEATURE_GROUP_DESC:
		read_group_desc(events, arena, &in);
		break;
	case FEATURE_BUILD_ID:
		while (bytes_left(&in) > 0 && feature_read_build_id(features, arena, &in))
			continue;
		break;
	case FEATURE_NAMES:
		if (features->names != NULL)
			return true;
		features->names = NEW(struct names);
		if (names_decode(features->names, in.at, bytes_left(&in), err))
			return true;
		names_release(features->names);
		free(features->names);
		features->names = NULL;
		return false;
	default:
		read_numbers(features, feature, &in);
		break;
	}
	if (in.bad)
		return err_set(err, STATUS_INPUT, "feature %u: ends inside a field", feature);
	return true;
}

void features_release(struct reader_features *features)
{
	vec_release(&features->argv);
	vec_release(&features->build_ids);
	if (features->names != NULL) {
		names_release(features->names);
		free(features->names);
	}
}
