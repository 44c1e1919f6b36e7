// Samples as bytes: live encoding and trimming, read back by the decoder of perf/record.h.
#include "record/sample.h"

#include "base/mem.h"
#include "tests/tap.h"

static const uint64_t TYPE = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |
	PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;

static struct perf_event_attr attr_of(uint64_t type)
{
	return (struct perf_event_attr){ .size = sizeof(struct perf_event_attr), .sample_type = type, .sample_id_all = 1,
	                                 .sample_regs_user = 0x180, .sample_stack_user = 4096 };
}

// A kernel's sample: two kernel frames, two registers, `size` bytes of stack of which `dyn` are valid.
static void kernel_sample(struct buf *out, uint64_t type, uint64_t size, uint64_t dyn)
{
	struct perf_event_header header = { .type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_USER };
	buf_clear(out);
	buf_add(out, &header, sizeof(header));
	const uint64_t fixed[] = { 77, 0x401000, (uint64_t)43 << 32 | 42, 1000, 3, 1295295 };
	buf_add(out, fixed, sizeof(fixed));
	if (type & PERF_SAMPLE_READ)
		for (uint64_t i = 0; i < 5; i++) // nr 1, enabled, running, value, id
			buf_u64(out, i == 0 ? 1 : 100 + i);
	const uint64_t chain[] = { 3, (uint64_t)PERF_CONTEXT_KERNEL, 0xffffffff81000000, 0xffffffff81000100 };
	buf_add(out, chain, sizeof(chain));
	if (type & PERF_SAMPLE_RAW) {
		buf_u32(out, 12);
		buf_add(out, "tracepoint..", 12);
	}
	const uint64_t regs[] = { PERF_SAMPLE_REGS_ABI_64, 0x7ffd1000, 0x401000, size };
	buf_add(out, regs, sizeof(regs));
	for (uint64_t i = 0; i < size; i++)
		buf_byte(out, (uint8_t)i);
	if (size > 0)
		buf_u64(out, dyn);
	if (type & PERF_SAMPLE_WEIGHT)
		buf_u64(out, 0x5555);
	((struct perf_event_header *)(void *)out->data)->size = (uint16_t)out->size;
}

static bool decode(const struct record_layout *layout, struct buf *bytes, struct record *record)
{
	struct err err = { 0 };
	bool good = record_decode(layout, bytes->data, ((struct perf_event_header *)(void *)bytes->data)->size, record, &err);
	if (!good)
		diag("%s", err.text);
	return good;
}

static void live(uint64_t extra, const char *what)
{
	struct buf in = { 0 }, out = { 0 };
	struct record record, again;
	struct record_layout layout, file_layout;
	struct perf_event_attr attr = attr_of(TYPE | extra);
	if (extra & PERF_SAMPLE_READ)
		attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_ID;
	record_layout_init(&layout, &attr, false);
	attr.sample_type = sample_type_live(attr.sample_type);
	record_layout_init(&file_layout, &attr, false);
	kernel_sample(&in, TYPE | extra, 64, 40);
	ok(decode(&layout, &in, &record), "%s: the kernel's sample decodes", what);
	struct frame frames[] = { { 0x401000, FRAME_LEAF, VIA_NONE }, { 0x402000, FRAME_RETURN, VIA_CFI }, { 0x403000, FRAME_RETURN, VIA_CFI } };
	struct note note = { .end = UNWIND_ROOT }, read;
	ok(sample_encode_live(&out, &layout, &record, &(struct unwind_stack){ .frames = frames, .count = 3 }, &note), "%s: it becomes a call chain", what);
	is_u64(out.size % 8, 0, "%s: a multiple of 8", what);
	ok(decode(&file_layout, &out, &again), "%s: the file's layout reads it", what);
	is_u64(again.sample.callchain_count, 7, "%s: kernel part, marker, user part", what);
	ok(again.sample.callchain_count == 7 && again.sample.callchain[1] == 0xffffffff81000000 &&
	   again.sample.callchain[3] == (uint64_t)PERF_CONTEXT_USER && again.sample.callchain[6] == 0x403000, "%s: in order", what);
	ok(again.id.pid == 42 && again.id.tid == 43 && again.id.time_ns == 1000 && again.sample.period == 1295295, "%s: the rest is as it was", what);
	uint8_t kinds[8] = { 0 };
	size_t covered, raw_size;
	ok(note_decode(again.sample.raw, again.sample.raw_size, &read, kinds, 8, &covered, &raw_size) && read.end == UNWIND_ROOT && covered == 3,
	   "%s: the note is there", what);
	is_u64(raw_size, extra & PERF_SAMPLE_RAW ? 12 : 0, "%s: behind the event's own bytes", what);
	if (extra & PERF_SAMPLE_READ)
		ok(again.sample.read.count == 1 && read_values_get(&again.sample.read, 0).value == 103, "%s: with its values", what);
	if (extra & PERF_SAMPLE_WEIGHT)
		is_u64(again.sample.weight, 0x5555, "%s: what followed the stack follows", what);
	buf_release(&in);
	buf_release(&out);
}

static void too_many_frames(void)
{
	struct buf in = { 0 }, out = { 0 };
	struct record record, again;
	struct record_layout layout, file_layout;
	struct perf_event_attr attr = attr_of(TYPE);
	record_layout_init(&layout, &attr, false);
	attr.sample_type = sample_type_live(attr.sample_type);
	record_layout_init(&file_layout, &attr, false);
	kernel_sample(&in, TYPE, 64, 64);
	decode(&layout, &in, &record);
	enum { FRAMES = 8000 };
	struct frame *frames = mem_zero(FRAMES, sizeof(*frames));
	for (int i = 0; i < FRAMES; i++) // every frame a run of its own: the largest note there can be
		frames[i] = (struct frame){ .addr = 0x400000 + (uint64_t)i, .kind = FRAME_RETURN, .via = i % 2 ? VIA_CFI : VIA_FP };
	struct note note = { .end = UNWIND_ROOT };
	ok(sample_encode_live(&out, &layout, &record, &(struct unwind_stack){ .frames = frames, .count = FRAMES }, &note), "8,000 frames of changing kinds");
	ok(out.size <= 65528, "never more than a record holds: %zu", out.size);
	is_u64(note.end, UNWIND_DEPTH_LIMIT, "and the cut is named");
	ok(decode(&file_layout, &out, &again) && again.sample.callchain_count > 6000, "what is left reads back");
	size_t last = again.sample.callchain_count - 1, marks = 0;
	for (size_t i = 0; i <= last; i++)
		marks += again.sample.callchain[i] == (uint64_t)PERF_CONTEXT_USER;
	ok(again.sample.callchain[last] == 0x400000 + FRAMES - 1 && marks == 2, "leaf and root are there, the middle is a mark");

	// A stack that the unwinder cut already: the leaf's 4,000, a mark, the root's 3,999 fit beside a kernel chain.
	for (int i = 0; i < FRAMES; i++)
		frames[i] = (struct frame){ .addr = 0x400000 + (uint64_t)i, .kind = i == 0 ? FRAME_LEAF : FRAME_RETURN, .via = i == 0 ? VIA_NONE : VIA_CFI };
	buf_clear(&out);
	note = (struct note){ .end = UNWIND_DEPTH_LIMIT };
	ok(sample_encode_live(&out, &layout, &record, &(struct unwind_stack){ .frames = frames, .count = FRAMES - 1, .gap = 4000 }, &note) && out.size <= 65528 &&
	   decode(&file_layout, &out, &again), "7,999 frames and a gap");
	size_t user = 0;
	while (user < again.sample.callchain_count && again.sample.callchain[user] != (uint64_t)PERF_CONTEXT_USER)
		user++;
	ok(again.sample.callchain_count - user == 1 + 8000 && again.sample.callchain[user + 4000] == 0x400000 + 3999 &&
	   again.sample.callchain[user + 4001] == (uint64_t)PERF_CONTEXT_USER && again.sample.callchain[user + 4002] == 0x400000 + 4000, "the mark is in its place");
	uint8_t *kinds = mem_zero(FRAMES, 1);
	size_t covered, raw_size;
	ok(note_decode(again.sample.raw, again.sample.raw_size, &note, kinds, FRAMES, &covered, &raw_size) && covered == FRAMES - 1, "the note covers the frames alone");
	free(kinds);
	free(frames);
	buf_release(&in);
	buf_release(&out);
}

static void trimmed(void)
{
	struct buf in = { 0 }, out = { 0 };
	struct record record, again;
	struct record_layout layout;
	struct perf_event_attr attr = attr_of(TYPE | PERF_SAMPLE_WEIGHT);
	record_layout_init(&layout, &attr, false);
	kernel_sample(&in, TYPE | PERF_SAMPLE_WEIGHT, 64, 40);
	decode(&layout, &in, &record);
	sample_copy_trimmed(&out, &record, 1000);
	ok(decode(&layout, &out, &again), "trimmed to what is valid");
	is_u64(again.sample.stack.size, 40, "size");
	is_u64(again.sample.stack.dyn_size, 40, "dyn_size");
	ok(memcmp(again.sample.stack.bytes, record.sample.stack.bytes, 40) == 0, "the bytes are the same");
	is_u64(again.sample.weight, 0x5555, "and what followed follows");
	buf_clear(&out);
	sample_copy_trimmed(&out, &record, 13);
	ok(decode(&layout, &out, &again) && again.sample.stack.size == 8, "13 bytes are 8");
	buf_clear(&out);
	sample_copy_trimmed(&out, &record, 0);
	ok(decode(&layout, &out, &again) && again.sample.stack.size == 0, "none");
	kernel_sample(&in, TYPE, 0, 0);
	record_layout_init(&layout, &(struct perf_event_attr){ .sample_type = TYPE, .sample_regs_user = 0x180, .sample_id_all = 1 }, false);
	decode(&layout, &in, &record);
	buf_clear(&out);
	sample_copy_trimmed(&out, &record, 100);
	ok(out.size == in.size && memcmp(out.data, in.data, in.size) == 0, "no copy: as it was");
	buf_release(&in);
	buf_release(&out);
}

int main(void)
{
	live(0, "plain");
	live(PERF_SAMPLE_RAW, "tracepoint");
	live(PERF_SAMPLE_READ, "group read");
	live(PERF_SAMPLE_WEIGHT, "weight");
	too_many_frames();
	trimmed();
	return tap_done();
}
