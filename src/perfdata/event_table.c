#include "perfdata/event_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

// Bit fields of a foreign byte order start at the other end of each byte (kernel: tools/perf/util/session.c, swap_bitfield).
static uint64_t mirror_bits(uint64_t flags)
{
	uint64_t out = 0;
	for (unsigned bit = 0; bit < 64; bit++)
		out |= (flags >> bit & 1) << (bit / 8 * 8 + 7 - bit % 8);
	return out;
}

void event_attr_decode(struct perf_event_attr *out, struct bytes in)
{
	bool swap = in.swap;
	*out = (struct perf_event_attr){ 0 };
	size_t size = bytes_left(&in);
	const void *bytes = bytes_take(&in, size < sizeof(*out) ? size : sizeof(*out));
	if (bytes != NULL)
		memcpy(out, bytes, size < sizeof(*out) ? size : sizeof(*out));
	if (swap) {
		static const size_t words[] = {
			offsetof(struct perf_event_attr, config), offsetof(struct perf_event_attr, sample_period),
			offsetof(struct perf_event_attr, sample_type), offsetof(struct perf_event_attr, read_format),
			offsetof(struct perf_event_attr, config1), offsetof(struct perf_event_attr, config2),
			offsetof(struct perf_event_attr, branch_sample_type), offsetof(struct perf_event_attr, sample_regs_user),
			offsetof(struct perf_event_attr, sample_regs_intr), offsetof(struct perf_event_attr, sig_data),
		};
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
			uint64_t word;
			memcpy(&word, (char *)out + words[i], sizeof(word));
			word = __builtin_bswap64(word);
			memcpy((char *)out + words[i], &word, sizeof(word));
		}
		out->type = __builtin_bswap32(out->type);
		out->size = __builtin_bswap32(out->size);
		out->wakeup_events = __builtin_bswap32(out->wakeup_events);
		out->bp_type = __builtin_bswap32(out->bp_type);
		out->sample_stack_user = __builtin_bswap32(out->sample_stack_user);
		out->clockid = (int32_t)__builtin_bswap32((uint32_t)out->clockid);
		out->aux_watermark = __builtin_bswap32(out->aux_watermark);
		out->sample_max_stack = __builtin_bswap16(out->sample_max_stack);
		out->aux_sample_size = __builtin_bswap32(out->aux_sample_size);
		uint64_t flags;
		size_t at = offsetof(struct perf_event_attr, read_format) + sizeof(uint64_t); // the flags have no name to take the offset of
		memcpy(&flags, (char *)out + at, sizeof(flags));
		flags = mirror_bits(flags);
		memcpy((char *)out + at, &flags, sizeof(flags));
	}
}

static bool same_layout(const struct perf_event_attr *a, const struct perf_event_attr *b)
{
	return a->sample_type == b->sample_type && a->sample_id_all == b->sample_id_all;
}

struct reader_event *event_table_add(struct event_table *table, struct bytes attr)
{
	struct reader_event *event = NEW(struct reader_event);
	attr.swap = table->swap;
	event_attr_decode(&event->attr, attr);
	record_layout_init(&event->layout, &event->attr, table->swap);
	event->name = event_name(&event->attr, table->arena);
	event->group_leader = -1;
	table->has_build_ids |= event->attr.build_id;
	table->has_last = false;
	table->are_identified = (table->events.count == 0 || table->are_identified) && (event->attr.sample_type & PERF_SAMPLE_IDENTIFIER) != 0;
	vec_push(&table->events, event);
	for (size_t i = 0; i < table->layout_count; i++) {
		if (same_layout(&table->events.data[table->layouts[i]]->attr, &event->attr))
			return event;
	}
	if (table->layout_count < sizeof(table->layouts) / sizeof(*table->layouts))
		table->layouts[table->layout_count++] = table->events.count - 1;
	return event;
}

void event_table_add_id(struct event_table *table, size_t event, uint64_t id)
{
	vec_push(&table->events.data[event]->ids, id);
	table->has_last = false;
	hash_map_put(&table->by_id, id, (uint32_t)event, NULL);
}

void event_table_release(struct event_table *table)
{
	for (size_t i = 0; i < table->events.count; i++) {
		vec_release(&table->events.data[i]->ids);
		free(table->events.data[i]);
	}
	vec_release(&table->events);
	hash_map_release(&table->by_id);
}

size_t event_table_find(struct event_table *table, const struct perf_event_header *header, const void *record)
{
	if (table->events.count < 2)
		return 0;
	// PERF_SAMPLE_IDENTIFIER stands at the same place in every layout. Without it an id is believed where the layout that
	// tells its place is that of the event it names.
	for (size_t i = 0; i < table->layout_count; i++) {
		const struct reader_event *event = table->events.data[table->layouts[i]];
		uint64_t id;
		if (!record_peek_id_of(&event->layout, header, record, &id))
			continue;
		if (table->has_last && table->last_id == id)
			return table->last_event;
		const uint32_t *found = hash_map_get(&table->by_id, id);
		if (found == NULL)
			continue;
		const struct reader_event *named = table->events.data[*found];
		if (same_layout(&event->attr, &named->attr) || (event->attr.sample_type & named->attr.sample_type & PERF_SAMPLE_IDENTIFIER) != 0) {
			table->last_id = id;
			table->last_event = *found;
			table->has_last = table->layout_count == 1 || table->are_identified;
			return *found;
		}
	}
	return 0;
}

struct reader_event *event_table_by_id(const struct event_table *table, uint64_t id)
{
	const uint32_t *found = hash_map_get(&table->by_id, id);
	return found != NULL ? table->events.data[*found] : NULL;
}

// ---------------------------------------------------------------- names

static const char *const HARDWARE_NAMES[] = {
	"cycles", "instructions", "cache-references", "cache-misses", "branch-instructions", "branch-misses", "bus-cycles",
	"stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles",
};
static const char *const SOFTWARE_NAMES[] = {
	"cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults", "major-faults", "alignment-faults",
	"emulation-faults", "dummy", "bpf-output", "cgroup-switches",
};

static void cache_name(char *text, size_t size, uint64_t config)
{
	static const char *const caches[] = { "L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node" };
	static const char *const operations[] = { "load", "store", "prefetch" };
	uint64_t cache = config & 0xff, operation = config >> 8 & 0xff, miss = config >> 16 & 0xff;
	if (cache < 7 && operation < 3 && miss < 2)
		snprintf(text, size, miss != 0 ? "%s-%s-misses" : "%s-%ss", caches[cache], operations[operation]);
	else
		snprintf(text, size, "cache 0x%llx", (unsigned long long)config);
}

static void modifiers(char *text, size_t size, const struct perf_event_attr *attr)
{
	char tail[8] = ":";
	size_t count = 1;
	if (attr->exclude_kernel != attr->exclude_user)
		tail[count++] = attr->exclude_kernel ? 'u' : 'k';
	for (unsigned i = 0; i < attr->precise_ip; i++) // two bits: 3 at most
		tail[count++] = 'p';
	size_t length = strlen(text);
	if (count > 1)
		snprintf(text + length, size - length, "%.*s", (int)count, tail);
}

char *event_name(const struct perf_event_attr *attr, struct arena *arena)
{
	char text[128];
	unsigned long long config = attr->config;
	switch (attr->type) {
	case PERF_TYPE_HARDWARE:
		config &= 0xffffffff; // hybrid machines name the PMU in the upper half
		if (config < sizeof(HARDWARE_NAMES) / sizeof(*HARDWARE_NAMES))
			snprintf(text, sizeof(text), "%s", HARDWARE_NAMES[config]);
		else
			snprintf(text, sizeof(text), "hardware 0x%llx", config);
		break;
	case PERF_TYPE_SOFTWARE:
		if (config < sizeof(SOFTWARE_NAMES) / sizeof(*SOFTWARE_NAMES))
			snprintf(text, sizeof(text), "%s", SOFTWARE_NAMES[config]);
		else
			snprintf(text, sizeof(text), "software 0x%llx", config);
		break;
	case PERF_TYPE_TRACEPOINT:
		snprintf(text, sizeof(text), "tracepoint %llu", config);
		break;
	case PERF_TYPE_HW_CACHE:
		cache_name(text, sizeof(text), attr->config);
		break;
	case PERF_TYPE_BREAKPOINT:
		snprintf(text, sizeof(text), "mem:0x%llx", (unsigned long long)attr->bp_addr);
		break;
	case PERF_TYPE_RAW:
		snprintf(text, sizeof(text), "raw 0x%llx", config);
		break;
	default:
		snprintf(text, sizeof(text), "pmu %u config 0x%llx", attr->type, config);
		break;
	}
	modifiers(text, sizeof(text), attr);
	return arena_string(arena, text, strlen(text));
}
