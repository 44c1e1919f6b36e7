#include "perfdata/feature_write.h"

#include <limits.h>
#include <string.h>

#include "perfdata/format.h"

static void put_string(struct buf *out, const char *text)
{
	size_t size = strlen(text) + 1;
	size_t padded = (size + PERFDATA_STRING_ALIGN - 1) & ~(size_t)(PERFDATA_STRING_ALIGN - 1);
	buf_u32(out, (uint32_t)padded);
	buf_add(out, text, size);
	for (; size < padded; size++)
		buf_byte(out, 0);
}

void feature_attr(struct buf *out, const struct perf_event_attr *attr)
{
	struct perf_event_attr copy = *attr;
	copy.size = WRITTEN_ATTR_BYTES;
	_Static_assert(sizeof(copy) >= WRITTEN_ATTR_BYTES, "linux/perf_event.h is older than 5.13");
	buf_add(out, &copy, WRITTEN_ATTR_BYTES);
}

static bool write_text(struct buf *out, const char *text)
{
	if (text == NULL || *text == '\0')
		return false;
	put_string(out, text);
	return true;
}

static bool write_command_line(struct buf *out, const char *const *argv)
{
	uint32_t count = 0;
	while (argv != NULL && argv[count] != NULL)
		count++;
	buf_u32(out, count);
	for (uint32_t i = 0; i < count; i++)
		put_string(out, argv[i]);
	return count > 0;
}

static bool write_event_desc(struct buf *out, const struct feature_input *events, size_t count)
{
	buf_u32(out, (uint32_t)count);
	buf_u32(out, WRITTEN_ATTR_BYTES);
	for (size_t i = 0; i < count; i++) {
		feature_attr(out, events[i].attr);
		buf_u32(out, (uint32_t)events[i].id_count);
		put_string(out, events[i].name);
		buf_add(out, events[i].ids, events[i].id_count * sizeof(*events[i].ids));
	}
	return count > 0;
}

static bool write_group_desc(struct buf *out, const struct feature_input *events, size_t count)
{
	size_t at = out->size;
	uint32_t groups = 0;
	buf_u32(out, 0);
	for (size_t i = 0; i < count; i++) {
		if (events[i].group_leader != (int32_t)i || events[i].group_members < 2)
			continue;
		put_string(out, "{anon_group}"); // perf's own word for a group without a name
		buf_u32(out, (uint32_t)i);
		buf_u32(out, events[i].group_members);
		groups++;
	}
	memcpy(out->data + at, &groups, sizeof(groups));
	return groups > 0;
}

bool feature_write(struct buf *out, unsigned feature, const struct writer_info *info, const struct feature_input *events, size_t count)
{
	switch (feature) {
	case FEATURE_HOSTNAME:
		return write_text(out, info->hostname);
	case FEATURE_OSRELEASE:
		return write_text(out, info->os_release);
	case FEATURE_VERSION:
		return write_text(out, info->version);
	case FEATURE_ARCH:
		return write_text(out, info->arch);
	case FEATURE_CPUDESC:
		return write_text(out, info->cpu_desc);
	case FEATURE_CPUID:
		return write_text(out, info->cpuid);
	case FEATURE_NRCPUS:
		buf_u32(out, info->cpus_available);
		buf_u32(out, info->cpus_online);
		return info->cpus_online > 0;
	case FEATURE_TOTAL_MEM:
		buf_u64(out, info->total_memory_kib);
		return info->total_memory_kib > 0;
	case FEATURE_CMDLINE:
		return write_command_line(out, info->argv);
	case FEATURE_EVENT_DESC:
		return write_event_desc(out, events, count);
	case FEATURE_GROUP_DESC:
		return write_group_desc(out, events, count);
	case FEATURE_SAMPLE_TIME:
		buf_u64(out, info->first_time_ns);
		buf_u64(out, info->last_time_ns);
		return info->last_time_ns > 0;
	case FEATURE_CLOCKID:
		buf_u64(out, 1); // the clock's resolution in ns
		return info->wall_time_ns > 0;
	case FEATURE_CLOCK_DATA:
		buf_u32(out, 1); // version
		buf_u32(out, info->clockid);
		buf_u64(out, info->wall_time_ns);
		buf_u64(out, info->clockid_time_ns);
		return info->wall_time_ns > 0;
	default:
		return false;
	}
}

void feature_build_id(struct buf *out, const struct writer_build_id *build_id, uint32_t type)
{
	// 20 bytes (SHA-1) are all that perf has room for; longer ones are cut by it likewise.
	uint8_t id[24] = { 0 };
	uint8_t id_size = build_id->build_id.size < 20 ? build_id->build_id.size : 20;
	memcpy(id, build_id->build_id.bytes, id_size);
	id[20] = id_size;
	const char *path = build_id->path != NULL ? build_id->path : "";
	size_t length = strnlen(path, PATH_MAX - 1);
	size_t padded = (length + PERFDATA_STRING_ALIGN) & ~(size_t)(PERFDATA_STRING_ALIGN - 1);
	struct perf_event_header header = { .type = type, .misc = build_id->misc | BUILD_ID_HAS_SIZE,
	                                    .size = (uint16_t)(BUILD_ID_HEAD_BYTES + padded) };
	// A record of a stream is a multiple of 8, the entry of the feature needs not be.
	if (type != 0) {
		padded += 4;
		header.size += 4;
	}
	buf_add(out, &header, sizeof(header));
	buf_u32(out, (uint32_t)build_id->pid);
	buf_add(out, id, sizeof(id));
	buf_add(out, path, length);
	for (size_t i = length; i < padded; i++)
		buf_byte(out, 0);
}
