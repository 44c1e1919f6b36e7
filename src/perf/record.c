#include "perf/record.h"

#include <string.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "perf/plain.h"

// Bits newer than Debian 12's linux/perf_event.h (6.1).
enum { BRANCH_COUNTERS = 1 << 19 }; // PERF_SAMPLE_BRANCH_COUNTERS, 6.8

// What a decoder walks along: the body of a record. With `swap` every field is put into host order where it stands before it is read.
struct body {
	struct bytes b;
	bool swap;
};

static inline uint64_t take_u64(struct body *body)
{
	uint64_t v = 0;
	uint8_t *at = (uint8_t *)(uintptr_t)bytes_take(&body->b, sizeof(v));
	if (at == NULL)
		return 0;
	memcpy(&v, at, sizeof(v));
	if (__builtin_expect(body->swap, 0)) {
		v = __builtin_bswap64(v);
		memcpy(at, &v, sizeof(v));
	}
	return v;
}

static inline uint32_t take_u32(struct body *body)
{
	uint32_t v = 0;
	uint8_t *at = (uint8_t *)(uintptr_t)bytes_take(&body->b, sizeof(v));
	if (at == NULL)
		return 0;
	memcpy(&v, at, sizeof(v));
	if (__builtin_expect(body->swap, 0)) {
		v = __builtin_bswap32(v);
		memcpy(at, &v, sizeof(v));
	}
	return v;
}

static uint16_t take_u16(struct body *body)
{
	uint16_t v = 0;
	uint8_t *at = (uint8_t *)(uintptr_t)bytes_take(&body->b, sizeof(v));
	if (at == NULL)
		return 0;
	memcpy(&v, at, sizeof(v));
	if (body->swap) {
		v = __builtin_bswap16(v);
		memcpy(at, &v, sizeof(v));
	}
	return v;
}

// `count` words, in host order. Words that do not stand on 8 bytes are bad: nothing the kernel writes does that.
static inline const uint64_t *take_words(struct body *body, uint64_t count)
{
	if (count > bytes_left(&body->b) / 8 || (uintptr_t)body->b.at % 8 != 0) {
		body->b.bad = true;
		return NULL;
	}
	const uint64_t *words = (const uint64_t *)(const void *)body->b.at;
	if (__builtin_expect(body->swap, 0))
		for (uint64_t i = 0; i < count; i++)
			(void)take_u64(body);
	else
		bytes_skip(&body->b, count * 8);
	return words;
}

static void plain_layout_init(struct record_layout *layout)
{
	static const uint64_t bits[PLAIN_WORDS] = { PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_SAMPLE_ADDR,
	                                            PERF_SAMPLE_ID, PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_CPU, PERF_SAMPLE_PERIOD };
	uint64_t all = PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW;
	layout->front_bytes = sizeof(struct perf_event_header);
	for (size_t i = 0; i < PLAIN_WORDS; i++) {
		all |= bits[i];
		if ((layout->sample_type & bits[i]) == 0)
			continue;
		layout->front[i] = (uint8_t)layout->front_bytes;
		layout->front_bytes += 8;
	}
	layout->sample_has = layout->sample_type & (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU);
	if ((layout->sample_type & PERF_SAMPLE_IDENTIFIER) != 0)
		layout->sample_has |= PERF_SAMPLE_ID;
	layout->is_plain = !layout->swap && (layout->sample_type & ~all) == 0;
}

void record_layout_init(struct record_layout *layout, const struct perf_event_attr *attr, bool swap)
{
	*layout = (struct record_layout){
		.sample_type = attr->sample_type,
		.read_format = attr->read_format,
		.branch_sample_type = attr->branch_sample_type,
		.regs_user = attr->sample_regs_user,
		.regs_intr = attr->sample_regs_intr,
		.sample_id_all = attr->sample_id_all,
		.swap = swap,
		.user_regs_count = (uint8_t)__builtin_popcountll(attr->sample_regs_user),
		.interrupted_regs_count = (uint8_t)__builtin_popcountll(attr->sample_regs_intr),
	};
	plain_layout_init(layout);
	// Every field before the READ values is one word, in this order.
	uint64_t type = attr->sample_type;
	uint16_t at = sizeof(struct perf_event_header);
	if (type & PERF_SAMPLE_IDENTIFIER) {
		layout->sample_id_at = at;
		at += 8;
	}
	at += 8 * ((type & PERF_SAMPLE_IP) != 0) + 8 * ((type & PERF_SAMPLE_TID) != 0);
	if (type & PERF_SAMPLE_TIME) {
		layout->sample_time_at = at;
		at += 8;
	}
	at += 8 * ((type & PERF_SAMPLE_ADDR) != 0);
	if ((type & PERF_SAMPLE_ID) && layout->sample_id_at == 0)
		layout->sample_id_at = at;
	if (!attr->sample_id_all)
		return;
	// The trailer: TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER; so IDENTIFIER is always the last word.
	uint16_t back = 0;
	if (type & PERF_SAMPLE_IDENTIFIER)
		layout->trailer_id_back = back += 8;
	back += 8 * ((type & PERF_SAMPLE_CPU) != 0) + 8 * ((type & PERF_SAMPLE_STREAM_ID) != 0);
	if (type & PERF_SAMPLE_ID) {
		back += 8;
		if (layout->trailer_id_back == 0)
			layout->trailer_id_back = back;
	}
	if (type & PERF_SAMPLE_TIME)
		layout->trailer_time_back = back += 8;
	layout->trailer_bytes = back + 8 * ((type & PERF_SAMPLE_TID) != 0);
}

static void no_id(struct sample_id *id)
{
	*id = (struct sample_id){ .id = UINT64_MAX, .stream_id = UINT64_MAX, .pid = -1, .tid = -1, .cpu = UINT32_MAX };
}

// Cuts the sample_id trailer off the end of the body.
static bool decode_trailer(const struct record_layout *layout, struct body *body, struct sample_id *id)
{
	uint64_t type = layout->sample_type;
	size_t size = layout->trailer_bytes;

	no_id(id);
	if (size == 0)
		return true;
	if (bytes_left(&body->b) < size)
		return false;
	body->b.end -= size;
	struct body trailer = { .b = bytes_of(body->b.end, size), .swap = body->swap };
	if (type & PERF_SAMPLE_TID) {
		id->pid = (int32_t)take_u32(&trailer);
		id->tid = (int32_t)take_u32(&trailer);
	}
	if (type & PERF_SAMPLE_TIME)
		id->time_ns = take_u64(&trailer);
	if (type & PERF_SAMPLE_ID)
		id->id = take_u64(&trailer);
	if (type & PERF_SAMPLE_STREAM_ID)
		id->stream_id = take_u64(&trailer);
	if (type & PERF_SAMPLE_CPU) {
		id->cpu = take_u32(&trailer);
		(void)take_u32(&trailer);
	}
	if (type & PERF_SAMPLE_IDENTIFIER)
		id->id = take_u64(&trailer);
	id->has = type & (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU);
	if (type & PERF_SAMPLE_IDENTIFIER)
		id->has |= PERF_SAMPLE_ID;
	return true;
}

// struct read_format of perf_event_open(2), with and without PERF_FORMAT_GROUP.
static void decode_read(const struct record_layout *layout, struct body *body, struct read_values *out)
{
	uint64_t format = layout->read_format;
	bool enabled = format & PERF_FORMAT_TOTAL_TIME_ENABLED, running = format & PERF_FORMAT_TOTAL_TIME_RUNNING;

	*out = (struct read_values){ .count = 1, .has_times = enabled && running, .has_id = (format & PERF_FORMAT_ID) != 0,
		.has_lost = (format & PERF_FORMAT_LOST) != 0 };
	unsigned each = 1 + out->has_id + out->has_lost;
	if (format & PERF_FORMAT_GROUP) {
		out->count = take_u64(body);
	} else {
		out->words = take_words(body, 1);
		out->gap = (uint8_t)(enabled + running);
		each--;
	}
	if (enabled)
		out->time_enabled = take_u64(body);
	if (running)
		out->time_running = take_u64(body);
	if (out->count > bytes_left(&body->b) / 8) // before the multiplication
		body->b.bad = true;
	const uint64_t *rest = body->b.bad ? NULL : take_words(body, out->count * each);
	if (format & PERF_FORMAT_GROUP)
		out->words = rest;
	if (body->b.bad)
		out->count = 0;
}

struct read_value read_values_get(const struct read_values *values, size_t index)
{
	struct read_value value = { .id = UINT64_MAX };
	if (index >= values->count || values->words == NULL)
		return value;
	const uint64_t *w = values->words + index * (1u + values->has_id + values->has_lost);
	value.value = *w++;
	w += values->gap;
	if (values->has_id)
		value.id = *w++;
	if (values->has_lost)
		value.lost = *w;
	return value;
}

static void decode_registers(struct body *body, uint64_t mask, unsigned count, struct record_registers *out)
{
	out->abi = take_u64(body);
	if (out->abi == PERF_SAMPLE_REGS_ABI_NONE) {
		out->mask = 0;
		return;
	}
	out->mask = mask;
	out->words = take_words(body, count);
}

static void decode_stack(struct body *body, struct record_stack *out)
{
	out->size = take_u64(body);
	if (out->size == 0)
		return; // no user registers: the kernel writes the size alone
	out->bytes = bytes_take(&body->b, out->size);
	if (bytes_left(&body->b) < sizeof(uint64_t) && !body->b.bad)
		out->dyn_size = out->size; // no kernel since 3.7 leaves it out
	else
		out->dyn_size = take_u64(body);
	if (out->dyn_size > out->size)
		out->dyn_size = out->size;
}

// `hw_index`: whether the index stands behind the count. The kernel leaves it out, though asked for, where it has no branch stack at
// all, and then writes a count of 0 (perf_output_sample() in kernel/events/core.c).
static void decode_branches(const struct record_layout *layout, struct body *body, bool hw_index, struct record_sample *out)
{
	out->branch_count = take_u64(body);
	if (hw_index)
		(void)take_u64(body);
	if (out->branch_count > bytes_left(&body->b) / sizeof(*out->branches))
		body->b.bad = true;
	if (body->b.bad) {
		out->branch_count = 0;
		return;
	}
	out->branches = (const void *)take_words(body, out->branch_count * (sizeof(*out->branches) / 8));
	if (layout->branch_sample_type & BRANCH_COUNTERS)
		(void)take_words(body, out->branch_count);
}

static void decode_raw(struct body *body, struct record_sample *out)
{
	out->raw_size = take_u32(body);
	out->raw = bytes_take(&body->b, out->raw_size);
	if (out->raw == NULL)
		out->raw_size = 0;
}

// The fields behind the call chain, rare ones, in the order of the ABI.
static void decode_sample_tail(const struct record_layout *layout, struct body *body, bool hw_index, struct record_sample *s)
{
	uint64_t type = layout->sample_type;

	if (type & PERF_SAMPLE_RAW)
		decode_raw(body, s);
	if (type & PERF_SAMPLE_BRANCH_STACK)
		decode_branches(layout, body, hw_index, s);
	if (type & PERF_SAMPLE_REGS_USER)
		decode_registers(body, layout->regs_user, layout->user_regs_count, &s->user);
	if (type & PERF_SAMPLE_STACK_USER)
		decode_stack(body, &s->stack);
	if (type & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT))
		s->weight = take_u64(body);
	if (type & PERF_SAMPLE_DATA_SRC)
		s->data_source = take_u64(body);
	if (type & PERF_SAMPLE_TRANSACTION)
		s->transaction = take_u64(body);
	if (type & PERF_SAMPLE_REGS_INTR)
		decode_registers(body, layout->regs_intr, layout->interrupted_regs_count, &s->interrupted);
	if (type & PERF_SAMPLE_PHYS_ADDR)
		s->phys_addr = take_u64(body);
	if (type & PERF_SAMPLE_CGROUP)
		s->cgroup = take_u64(body);
	if (type & PERF_SAMPLE_DATA_PAGE_SIZE)
		s->data_page_size = take_u64(body);
	if (type & PERF_SAMPLE_CODE_PAGE_SIZE)
		s->code_page_size = take_u64(body);
	if (type & PERF_SAMPLE_AUX) {
		s->aux_size = take_u64(body);
		bytes_skip(&body->b, s->aux_size);
	}
}

// The fields up to the call chain: one word each, but for the READ values and the chain itself.
static void decode_sample_front(const struct record_layout *layout, struct body *body, struct sample_id *id, struct record_sample *s)
{
	uint64_t type = layout->sample_type;

	if (type & PERF_SAMPLE_IDENTIFIER)
		id->id = take_u64(body);
	if (type & PERF_SAMPLE_IP)
		s->ip = take_u64(body);
	if (type & PERF_SAMPLE_TID) {
		id->pid = (int32_t)take_u32(body);
		id->tid = (int32_t)take_u32(body);
	}
	if (type & PERF_SAMPLE_TIME)
		id->time_ns = take_u64(body);
	if (type & PERF_SAMPLE_ADDR)
		s->addr = take_u64(body);
	if (type & PERF_SAMPLE_ID)
		id->id = take_u64(body);
	if (type & PERF_SAMPLE_STREAM_ID)
		id->stream_id = take_u64(body);
	if (type & PERF_SAMPLE_CPU) {
		id->cpu = take_u32(body);
		(void)take_u32(body);
	}
	if (type & PERF_SAMPLE_PERIOD)
		s->period = take_u64(body);
	if (type & PERF_SAMPLE_READ)
		decode_read(layout, body, &s->read);
	if (type & PERF_SAMPLE_CALLCHAIN) {
		s->callchain_count = take_u64(body);
		s->callchain = take_words(body, s->callchain_count);
		if (s->callchain == NULL)
			s->callchain_count = 0;
	}
}

// Where the branch stack's index is asked for but may be missing (see decode_branches): without branches the record's length tells.
static void decode_indexed_tail(const struct record_layout *layout, struct body *body, struct record_sample *s)
{
	struct body again = *body;
	struct record_sample without = *s;

	decode_sample_tail(layout, body, true, s);
	// Swapped words cannot be read twice.
	if (s->branch_count > 0 || body->swap || (!body->b.bad && bytes_left(&body->b) == 0))
		return;
	decode_sample_tail(layout, &again, false, &without);
	if (!again.b.bad && bytes_left(&again.b) == 0) {
		*s = without;
		*body = again;
	}
}

// false: it is shorter than its fields.
static bool decode_plain(const struct record_layout *layout, const uint8_t *record, size_t size, struct sample_id *id, struct record_sample *s)
{
	struct plain_sample plain;
	if (!plain_decode(layout, record, size, &plain))
		return false;
	s->ip = plain.ip;
	s->period = plain.period;
	*id = (struct sample_id){ .id = plain.id, .stream_id = UINT64_MAX, .time_ns = plain.time_ns, .pid = plain.pid, .tid = plain.tid, .cpu = plain.cpu,
	                          .has = layout->sample_has };
	if (layout->front[PLAIN_ADDR] != 0)
		s->addr = plain_word(record, layout->front[PLAIN_ADDR]);
	if (layout->front[PLAIN_STREAM] != 0)
		id->stream_id = plain_word(record, layout->front[PLAIN_STREAM]);
	if ((layout->sample_type & PERF_SAMPLE_CALLCHAIN) != 0) {
		s->callchain = (const uint64_t *)(const void *)(plain.bytes + sizeof(uint64_t));
		s->callchain_count = plain.callchain_count;
	}
	if (plain.raw_at != 0) {
		s->raw = plain.bytes + plain.raw_at;
		s->raw_size = plain.raw_size;
	}
	return true;
}

// In pieces for which compilers write plain stores: the string instruction that they take for the whole costs as much as a sample's other fields.
static void no_sample(struct record_sample *sample)
{
	enum { PIECE = 64, REST = sizeof(*sample) % PIECE };
	uint8_t *at = (uint8_t *)sample, *end = at + sizeof(*sample) - REST;
	for (; at < end; at += PIECE)
		memset(at, 0, PIECE);
	memset(end, 0, REST);
}

static bool decode_sample(const struct record_layout *layout, struct body *body, struct record *out, struct err *err)
{
	uint64_t type = layout->sample_type;
	struct record_sample *s = &out->sample;

	no_id(&out->id);
	no_sample(s);
	if (layout->is_plain && (uintptr_t)out->header % 8 == 0) {
		if (decode_plain(layout, (const uint8_t *)out->header, out->size, &out->id, s))
			return true;
		return err_set(err, STATUS_INPUT, "sample of %u bytes: shorter than its fields (sample_type %#llx)", out->size, (unsigned long long)type);
	}
	decode_sample_front(layout, body, &out->id, s);
	out->id.has = layout->sample_has;
	if (!(type & PERF_SAMPLE_BRANCH_STACK) || !(layout->branch_sample_type & PERF_SAMPLE_BRANCH_HW_INDEX))
		decode_sample_tail(layout, body, false, s);
	else
		decode_indexed_tail(layout, body, s);
	if (body->b.bad)
		return err_set(err, STATUS_INPUT, "sample of %u bytes: shorter than its fields (sample_type %#llx)", out->size, (unsigned long long)type);
	return true;
}

// What MMAP and MMAP2 begin with.
static void take_range(struct body *body, struct record_mapping *m)
{
	memset(m, 0, sizeof(*m));
	m->pid = take_u32(body);
	m->tid = take_u32(body);
	m->start = take_u64(body);
	m->length = take_u64(body);
	m->pgoff = take_u64(body);
}

static bool decode_mmap(struct body *body, struct record *out)
{
	struct record_mapping *m = &out->mapping;

	take_range(body, m);
	m->protection = (out->misc & PERF_RECORD_MISC_MMAP_DATA) != 0 ? PROT_READ : PROT_READ | PROT_EXEC;
	m->path = bytes_cstr(&body->b);
	return !body->b.bad;
}

static bool decode_mmap2(struct body *body, struct record *out)
{
	struct record_mapping *m = &out->mapping;

	take_range(body, m);
	if (out->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		const uint8_t *at = bytes_take(&body->b, 24); // u8 size, u8, u16, u8[20]: bytes, never swapped
		if (at == NULL || at[0] > 20)
			return false;
		m->build_id.size = at[0];
		memcpy(m->build_id.bytes, at + 4, at[0]);
	} else {
		m->major = take_u32(body);
		m->minor = take_u32(body);
		m->inode = take_u64(body);
		m->inode_generation = take_u64(body);
	}
	m->protection = take_u32(body);
	m->flags = take_u32(body);
	m->path = bytes_cstr(&body->b);
	return !body->b.bad;
}

static bool decode_ksymbol(struct body *body, struct record *out)
{
	out->ksymbol.addr = take_u64(body);
	out->ksymbol.length = take_u32(body);
	out->ksymbol.type = take_u16(body);
	out->ksymbol.flags = take_u16(body);
	out->ksymbol.name = bytes_cstr(&body->b);
	return !body->b.bad;
}

// Records whose body nobody here uses: checked against their least shape and put into host order.
static bool decode_opaque(struct body *body, const struct record *out)
{
	switch (out->type) {
	case PERF_RECORD_ITRACE_START:
		take_u32(body);
		take_u32(body);
		break;
	case PERF_RECORD_NAMESPACES: {
		take_u32(body);
		take_u32(body);
		uint64_t count = take_u64(body);
		if (count > bytes_left(&body->b) / 16)
			return false;
		(void)take_words(body, count * 2);
		break;
	}
	case PERF_RECORD_BPF_EVENT:
		take_u16(body);
		take_u16(body);
		take_u32(body);
		bytes_skip(&body->b, 8); // tag
		break;
	case PERF_RECORD_TEXT_POKE: {
		take_u64(body);
		size_t old_length = take_u16(body), new_length = take_u16(body);
		bytes_skip(&body->b, old_length + new_length);
		break;
	}
	case PERF_RECORD_AUX_OUTPUT_HW_ID:
		take_u64(body);
		break;
	default:
		break;
	}
	return !body->b.bad;
}

static bool decode_body(const struct record_layout *layout, struct body *body, struct record *out)
{
	switch (out->type) {
	case PERF_RECORD_MMAP:
		return decode_mmap(body, out);
	case PERF_RECORD_MMAP2:
		return decode_mmap2(body, out);
	case PERF_RECORD_LOST:
		out->lost.id = take_u64(body);
		out->lost.lost = take_u64(body);
		break;
	case PERF_RECORD_LOST_SAMPLES:
		out->lost.id = 0;
		out->lost.lost = take_u64(body);
		break;
	case PERF_RECORD_COMM:
		out->comm.pid = take_u32(body);
		out->comm.tid = take_u32(body);
		out->comm.is_exec = (out->misc & PERF_RECORD_MISC_COMM_EXEC) != 0;
		out->comm.comm = bytes_cstr(&body->b);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		out->task.pid = take_u32(body);
		out->task.ppid = take_u32(body);
		out->task.tid = take_u32(body);
		out->task.ptid = take_u32(body);
		out->task.time_ns = take_u64(body);
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		out->throttle.time_ns = take_u64(body);
		out->throttle.id = take_u64(body);
		out->throttle.stream_id = take_u64(body);
		break;
	case PERF_RECORD_READ:
		out->read.pid = take_u32(body);
		out->read.tid = take_u32(body);
		decode_read(layout, body, &out->read.values);
		break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		out->switching = (struct record_switch){ .is_out = (out->misc & PERF_RECORD_MISC_SWITCH_OUT) != 0,
			.is_preempt = (out->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0, .other_pid = UINT32_MAX, .other_tid = UINT32_MAX };
		if (out->type == PERF_RECORD_SWITCH_CPU_WIDE) {
			out->switching.other_pid = take_u32(body);
			out->switching.other_tid = take_u32(body);
		}
		break;
	case PERF_RECORD_KSYMBOL:
		return decode_ksymbol(body, out);
	case PERF_RECORD_CGROUP:
		out->cgroup.id = take_u64(body);
		out->cgroup.path = bytes_cstr(&body->b);
		break;
	case PERF_RECORD_AUX:
		out->aux.offset = take_u64(body);
		out->aux.size = take_u64(body);
		out->aux.flags = take_u64(body);
		break;
	case RECORD_KERNEL_CALLCHAIN_DEFERRED: // u64 cookie, u64 nr, u64 ips[nr]
		out->deferred.cookie = take_u64(body);
		out->deferred.callchain_count = take_u64(body);
		out->deferred.callchain = take_words(body, out->deferred.callchain_count);
		break;
	default:
		return decode_opaque(body, out);
	}
	return !body->b.bad;
}

bool record_decode(const struct record_layout *layout, void *bytes, size_t size, struct record *out, struct err *err)
{
	struct perf_event_header header = { 0 };

	if (size >= sizeof(header))
		memcpy(&header, bytes, sizeof(header)); // looked at once: another process may be writing to a mapped file
	if (size < sizeof(header) || size != header.size)
		return err_set(err, STATUS_INPUT, "record of %zu bytes: its header says %u, at least %zu were expected", size, header.size, sizeof(header));
	out->type = header.type;
	out->misc = header.misc;
	out->size = header.size;
	out->header = bytes;
	struct body body = { .b = bytes_of((uint8_t *)bytes + sizeof(header), size - sizeof(header)), .swap = layout->swap };
	if (header.type == PERF_RECORD_SAMPLE)
		return decode_sample(layout, &body, out, err);
	if (header.type > RECORD_KERNEL_LAST || header.type == 0) { // perf's tools' own, or newer than we are
		no_id(&out->id);
		return true;
	}
	if (!decode_trailer(layout, &body, &out->id))
		return err_set(err, STATUS_INPUT, "%s record of %zu bytes: shorter than its sample_id of %u bytes", record_type_name(header.type),
		               size, layout->trailer_bytes);
	if (!decode_body(layout, &body, out))
		return err_set(err, STATUS_INPUT, "%s record of %zu bytes: shorter than its fields, or a name without end",
		               record_type_name(header.type), size);
	return true;
}

static bool peek(const struct record_layout *layout, const struct perf_event_header *header, const void *record, uint16_t sample_at, uint16_t back,
                 uint64_t *value)
{
	size_t at;

	if (header->type == PERF_RECORD_SAMPLE) {
		at = sample_at;
		if (at == 0 || at + 8 > header->size)
			return false;
	} else {
		if (back == 0 || header->type == 0 || header->type > RECORD_KERNEL_LAST ||
		    header->size < sizeof(*header) + layout->trailer_bytes)
			return false;
		at = (size_t)header->size - back;
	}
	memcpy(value, (const uint8_t *)record + at, sizeof(*value));
	if (layout->swap)
		*value = __builtin_bswap64(*value);
	return true;
}

bool record_peek_id(const struct record_layout *layout, const struct perf_event_header *header, uint64_t *id)
{
	return peek(layout, header, header, layout->sample_id_at, layout->trailer_id_back, id);
}

bool record_peek_id_of(const struct record_layout *layout, const struct perf_event_header *header, const void *record, uint64_t *id)
{
	return peek(layout, header, record, layout->sample_id_at, layout->trailer_id_back, id);
}

bool record_peek_time(const struct record_layout *layout, const struct perf_event_header *header, uint64_t *time_ns)
{
	return peek(layout, header, header, layout->sample_time_at, layout->trailer_time_back, time_ns);
}

const char *record_type_name(uint32_t type)
{
	static const char *const kernel[] = { NULL, "MMAP", "LOST", "COMM", "EXIT", "THROTTLE", "UNTHROTTLE", "FORK", "READ", "SAMPLE",
		"MMAP2", "AUX", "ITRACE_START", "LOST_SAMPLES", "SWITCH", "SWITCH_CPU_WIDE", "NAMESPACES", "KSYMBOL", "BPF_EVENT", "CGROUP",
		"TEXT_POKE", "AUX_OUTPUT_HW_ID", "CALLCHAIN_DEFERRED" };
	static const char *const user[] = { "HEADER_ATTR", "EVENT_TYPE", "TRACING_DATA", "BUILD_ID", "FINISHED_ROUND", "ID_INDEX",
		"AUXTRACE_INFO", "AUXTRACE", "AUXTRACE_ERROR", "THREAD_MAP", "CPU_MAP", "STAT_CONFIG", "STAT", "STAT_ROUND", "EVENT_UPDATE",
		"TIME_CONV", "HEADER_FEATURE", "COMPRESSED", "FINISHED_INIT", "COMPRESSED2" };
	if (type > 0 && type < sizeof(kernel) / sizeof(*kernel))
		return kernel[type];
	if (type >= RECORD_USER_HEADER_ATTR && type - RECORD_USER_HEADER_ATTR < sizeof(user) / sizeof(*user))
		return user[type - RECORD_USER_HEADER_ATTR];
	return "UNKNOWN";
}
