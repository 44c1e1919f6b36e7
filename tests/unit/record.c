// Every record type and sample field, in order; byte order; records too short for what they say; recordings of others.
#include "perf/record.h"

#include <dirent.h>
#include <jansson.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "tests/tap.h"

enum { COUNTERS = 1 << 19 };

// A record under construction. `foreign`: every field is written in the other byte order (the header never is: its reader swaps it).
struct build {
	struct buf buf;
	bool foreign;
};

static void u16(struct build *b, uint16_t v) { buf_u16(&b->buf, b->foreign ? __builtin_bswap16(v) : v); }
static void u32(struct build *b, uint32_t v) { buf_u32(&b->buf, b->foreign ? __builtin_bswap32(v) : v); }
static void u64(struct build *b, uint64_t v) { buf_u64(&b->buf, b->foreign ? __builtin_bswap64(v) : v); }

static void text(struct build *b, const char *s)
{
	buf_add(&b->buf, s, strlen(s) + 1);
	buf_align(&b->buf, 8);
}

static void begin(struct build *b, uint32_t type, uint16_t misc)
{
	buf_clear(&b->buf);
	struct perf_event_header header = { .type = type, .misc = misc };
	buf_add(&b->buf, &header, sizeof(header));
}

static void *end(struct build *b)
{
	struct perf_event_header *header = (void *)b->buf.data;
	header->size = (uint16_t)b->buf.size;
	return header;
}

static const uint64_t all_id_bits = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER;

static void trailer(struct build *b)
{
	u32(b, 11), u32(b, 12);
	u64(b, 1300);
	u64(b, 14);
	u64(b, 15);
	u32(b, 16), u32(b, 0);
	u64(b, 14);
}

static struct record_layout id_layout(bool foreign)
{
	struct perf_event_attr attr = { .sample_type = all_id_bits, .sample_id_all = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_ID | PERF_FORMAT_LOST };
	struct record_layout layout;
	record_layout_init(&layout, &attr, foreign);
	return layout;
}

static struct record decoded;
static struct err err;

// Ends the record, peeks and decodes it, and sees that every shorter one is refused or at least read within its bounds (ASan watches).
static const struct record *decode(struct build *b, const struct record_layout *layout)
{
	struct perf_event_header *header = end(b);
	uint64_t id = 0, time_ns = 0;
	if (layout->sample_id_all) {
		ok(record_peek_id(layout, header, &id) && id == 14, "%s: id peeked", record_type_name(header->type));
		ok(record_peek_time(layout, header, &time_ns) && time_ns == 1300, "%s: time peeked", record_type_name(header->type));
	}
	unsigned refused = 0;
	for (size_t size = 0; size < b->buf.size; size++) {
		struct perf_event_header *cut = malloc(size < sizeof(*header) ? sizeof(*header) : size);
		memcpy(cut, b->buf.data, size);
		if (size >= sizeof(*header))
			cut->size = (uint16_t)size;
		else
			memcpy(cut, header, sizeof(*header));
		struct record r;
		refused += !record_decode(layout, cut, size, &r, &err) && err.status == STATUS_INPUT;
		uint64_t v;
		if (size >= sizeof(*header))
			(void)record_peek_id(layout, cut, &v), (void)record_peek_time(layout, cut, &v);
		free(cut);
	}
	ok(refused >= 16 || header->type > RECORD_KERNEL_LAST, "%s: too short is refused", record_type_name(header->type));
	if (!ok(record_decode(layout, header, header->size, &decoded, &err), "%s decodes", record_type_name(header->type)))
		diag("%s", err.text);
	if (layout->sample_id_all)
		ok(decoded.id.pid == 11 && decoded.id.tid == 12 && decoded.id.time_ns == 1300 && decoded.id.id == 14 && decoded.id.stream_id == 15 &&
		   decoded.id.cpu == 16 && decoded.id.has == (all_id_bits & ~PERF_SAMPLE_IDENTIFIER), "%s: sample_id", record_type_name(header->type));
	return &decoded;
}

static void test_mappings(bool foreign)
{
	struct build b = { .foreign = foreign };
	struct record_layout layout = id_layout(foreign);

	begin(&b, PERF_RECORD_MMAP, PERF_RECORD_MISC_USER);
	u32(&b, 1), u32(&b, 2), u64(&b, 0x1000), u64(&b, 0x2000), u64(&b, 0x3000), text(&b, "/bin/a"), trailer(&b);
	const struct record *r = decode(&b, &layout);
	ok(r->mapping.pid == 1 && r->mapping.tid == 2 && r->mapping.start == 0x1000 && r->mapping.length == 0x2000 && r->mapping.pgoff == 0x3000, "MMAP fields");
	is_str(r->mapping.path, "/bin/a", "MMAP path");
	ok(r->mapping.protection & PROT_EXEC, "MMAP is code");
	begin(&b, PERF_RECORD_MMAP, PERF_RECORD_MISC_MMAP_DATA);
	u32(&b, 1), u32(&b, 2), u64(&b, 0x1000), u64(&b, 0x2000), u64(&b, 0x3000), text(&b, "/bin/a"), trailer(&b);
	ok(!(decode(&b, &layout)->mapping.protection & PROT_EXEC), "unless MISC_MMAP_DATA says otherwise");

	begin(&b, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	u32(&b, 1), u32(&b, 2), u64(&b, 0x1000), u64(&b, 0x2000), u64(&b, 0x3000), u32(&b, 8), u32(&b, 9), u64(&b, 77), u64(&b, 78), u32(&b, 5), u32(&b, 2);
	text(&b, "/bin/b"), trailer(&b);
	r = decode(&b, &layout);
	ok(r->mapping.major == 8 && r->mapping.minor == 9 && r->mapping.inode == 77 && r->mapping.inode_generation == 78, "MMAP2 device and inode");
	ok(r->mapping.protection == 5 && r->mapping.flags == 2 && r->mapping.build_id.size == 0, "MMAP2 protection and flags");
	begin(&b, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_BUILD_ID);
	u32(&b, 1), u32(&b, 2), u64(&b, 0x1000), u64(&b, 0x2000), u64(&b, 0x3000);
	buf_add(&b.buf, "\x14\0\0\0abcdefghijklmnopqrst", 24), u32(&b, 5), u32(&b, 2), text(&b, "/bin/c"), trailer(&b);
	r = decode(&b, &layout);
	ok(r->mapping.build_id.size == 20 && memcmp(r->mapping.build_id.bytes, "abcdefghijklmnopqrst", 20) == 0 && r->mapping.inode == 0, "MMAP2 build ID");
	b.buf.data[8 + 32] = 21;
	if (!foreign)
		ok(!record_decode(&layout, b.buf.data, b.buf.size, &decoded, &err), "a build ID of 21 bytes is refused");
	buf_release(&b.buf);
}

static void test_tasks(bool foreign)
{
	struct build b = { .foreign = foreign };
	struct record_layout layout = id_layout(foreign);

	begin(&b, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	u32(&b, 1), u32(&b, 2), text(&b, "cc1"), trailer(&b);
	const struct record *r = decode(&b, &layout);
	ok(r->comm.pid == 1 && r->comm.tid == 2 && r->comm.is_exec, "COMM fields");
	is_str(r->comm.comm, "cc1", "COMM text");
	for (unsigned i = 0; i < 2; i++) {
		begin(&b, i == 0 ? PERF_RECORD_FORK : PERF_RECORD_EXIT, 0);
		u32(&b, 1), u32(&b, 2), u32(&b, 3), u32(&b, 4), u64(&b, 5), trailer(&b);
		r = decode(&b, &layout);
		ok(r->task.pid == 1 && r->task.ppid == 2 && r->task.tid == 3 && r->task.ptid == 4 && r->task.time_ns == 5, "%s fields", record_type_name(r->type));
	}
	begin(&b, PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT);
	trailer(&b);
	r = decode(&b, &layout);
	ok(r->switching.is_out && r->switching.is_preempt && r->switching.other_pid == UINT32_MAX, "SWITCH");
	begin(&b, PERF_RECORD_SWITCH_CPU_WIDE, 0);
	u32(&b, 21), u32(&b, 22), trailer(&b);
	r = decode(&b, &layout);
	ok(!r->switching.is_out && r->switching.other_pid == 21 && r->switching.other_tid == 22, "SWITCH_CPU_WIDE");
	begin(&b, PERF_RECORD_CGROUP, 0);
	u64(&b, 99), text(&b, "/a/b"), trailer(&b);
	r = decode(&b, &layout);
	ok(r->cgroup.id == 99 && strcmp(r->cgroup.path, "/a/b") == 0, "CGROUP");
	begin(&b, PERF_RECORD_KSYMBOL, 0);
	u64(&b, 0xffffffffc0000000), u32(&b, 64), u16(&b, 1), u16(&b, 0), text(&b, "bpf_prog_x"), trailer(&b);
	r = decode(&b, &layout);
	ok(r->ksymbol.addr == 0xffffffffc0000000 && r->ksymbol.length == 64 && r->ksymbol.type == 1 && strcmp(r->ksymbol.name, "bpf_prog_x") == 0, "KSYMBOL");
	buf_release(&b.buf);
}

static void test_counters(bool foreign)
{
	struct build b = { .foreign = foreign };
	struct record_layout layout = id_layout(foreign);

	begin(&b, PERF_RECORD_LOST, 0);
	u64(&b, 14), u64(&b, 1333), trailer(&b);
	const struct record *r = decode(&b, &layout);
	ok(r->lost.id == 14 && r->lost.lost == 1333, "LOST");
	begin(&b, PERF_RECORD_LOST_SAMPLES, 0);
	u64(&b, 7), trailer(&b);
	r = decode(&b, &layout);
	ok(r->lost.id == 0 && r->lost.lost == 7, "LOST_SAMPLES");
	for (unsigned i = 0; i < 2; i++) {
		begin(&b, i == 0 ? PERF_RECORD_THROTTLE : PERF_RECORD_UNTHROTTLE, 0);
		u64(&b, 1), u64(&b, 2), u64(&b, 3), trailer(&b);
		r = decode(&b, &layout);
		ok(r->throttle.time_ns == 1 && r->throttle.id == 2 && r->throttle.stream_id == 3, "%s", record_type_name(r->type));
	}
	begin(&b, PERF_RECORD_READ, 0);
	u32(&b, 1), u32(&b, 2), u64(&b, 100), u64(&b, 200), u64(&b, 150), u64(&b, 14), u64(&b, 3), trailer(&b);
	r = decode(&b, &layout);
	struct read_value v = read_values_get(&r->read.values, 0);
	ok(r->read.pid == 1 && r->read.tid == 2 && r->read.values.count == 1 && r->read.values.time_enabled == 200 && r->read.values.time_running == 150, "READ times");
	ok(v.value == 100 && v.id == 14 && v.lost == 3, "READ value, id and lost around the times");
	begin(&b, PERF_RECORD_AUX, 0);
	u64(&b, 1), u64(&b, 2), u64(&b, 3), trailer(&b);
	r = decode(&b, &layout);
	ok(r->aux.offset == 1 && r->aux.size == 2 && r->aux.flags == 3, "AUX");
	begin(&b, PERF_RECORD_ITRACE_START, 0), u32(&b, 1), u32(&b, 2), trailer(&b), decode(&b, &layout);
	is_u64(*(const uint32_t *)(const void *)(decoded.header + 1), 1, "ITRACE_START in host order");
	begin(&b, PERF_RECORD_NAMESPACES, 0), u32(&b, 1), u32(&b, 2), u64(&b, 1), u64(&b, 3), u64(&b, 4), trailer(&b), decode(&b, &layout);
	begin(&b, PERF_RECORD_BPF_EVENT, 0), u16(&b, 1), u16(&b, 0), u32(&b, 5), buf_add(&b.buf, "taggtagg", 8), trailer(&b), decode(&b, &layout);
	begin(&b, PERF_RECORD_TEXT_POKE, 0), u64(&b, 1), u16(&b, 5), u16(&b, 5), buf_add(&b.buf, "aaaaabbbbb", 10), buf_align(&b.buf, 8), u64(&b, 0), trailer(&b), decode(&b, &layout);
	begin(&b, PERF_RECORD_AUX_OUTPUT_HW_ID, 0), u64(&b, 77), trailer(&b), decode(&b, &layout);
	is_u64(*(const uint64_t *)(const void *)(decoded.header + 1), 77, "AUX_OUTPUT_HW_ID in host order");
	begin(&b, RECORD_KERNEL_CALLCHAIN_DEFERRED, 0), u64(&b, 1), u64(&b, 2), u64(&b, 0x10), u64(&b, 0x20), trailer(&b), decode(&b, &layout);
	buf_release(&b.buf);
}

static const uint64_t every_bit = 0x1ffffff & ~(uint64_t)PERF_SAMPLE_WEIGHT_STRUCT;

static struct perf_event_attr full_attr(uint64_t read_format)
{
	return (struct perf_event_attr){ .sample_type = every_bit, .read_format = read_format, .sample_id_all = 0, .sample_regs_user = 0x7,
		.sample_regs_intr = 0x30, .branch_sample_type = PERF_SAMPLE_BRANCH_HW_INDEX | COUNTERS };
}

static void full_sample(struct build *b, bool branches)
{
	begin(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	u64(b, 14), u64(b, 0x401000), u32(b, 11), u32(b, 12), u64(b, 1300), u64(b, 0xadd), u64(b, 14), u64(b, 15), u32(b, 16), u32(b, 0), u64(b, 1295295);
	u64(b, 2), u64(b, 1000), u64(b, 900), u64(b, 51), u64(b, 14), u64(b, 1), u64(b, 52), u64(b, 24), u64(b, 2); // READ, group of two
	u64(b, 3), u64(b, PERF_CONTEXT_USER), u64(b, 0x401000), u64(b, 0x402000);
	u32(b, 12), buf_add(&b->buf, "rawrawrawraw", 12);
	if (branches) {
		u64(b, 1), u64(b, 9), u64(b, 0xf0), u64(b, 0x70), u64(b, 1), u64(b, 0xc0);
	} else {
		u64(b, 0); // no branch stack: the kernel writes no index either
	}
	u64(b, PERF_SAMPLE_REGS_ABI_64), u64(b, 21), u64(b, 22), u64(b, 23);
	u64(b, 16), buf_add(&b->buf, "stackstackstacks", 16), u64(b, 8);
	u64(b, 31), u64(b, 32), u64(b, 33);
	u64(b, PERF_SAMPLE_REGS_ABI_64), u64(b, 41), u64(b, 42);
	u64(b, 34), u64(b, 35), u64(b, 36), u64(b, 37);
	u64(b, 8), buf_add(&b->buf, "auxauxau", 8);
}

static void test_full_sample(bool foreign)
{
	struct build b = { .foreign = foreign };
	struct perf_event_attr attr = full_attr(PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_ID | PERF_FORMAT_LOST);
	struct record_layout layout;
	uint64_t peeked = 0;
	record_layout_init(&layout, &attr, foreign);
	full_sample(&b, true);
	ok(record_peek_time(&layout, end(&b), &peeked) && peeked == 1300, "time of a sample peeked");
	ok(record_peek_id(&layout, end(&b), &peeked) && peeked == 14, "id of a sample peeked");
	const struct record *r = decode(&b, &layout);
	const struct record_sample *s = &r->sample;
	ok(r->id.pid == 11 && r->id.tid == 12 && r->id.time_ns == 1300 && r->id.id == 14 && r->id.stream_id == 15 && r->id.cpu == 16, "sample: identity");
	ok(s->ip == 0x401000 && s->addr == 0xadd && s->period == 1295295, "ip, addr, period");
	struct read_value leader = read_values_get(&s->read, 0), member = read_values_get(&s->read, 1);
	ok(s->read.count == 2 && s->read.time_enabled == 1000 && s->read.time_running == 900, "group read: times");
	ok(leader.value == 51 && leader.id == 14 && leader.lost == 1 && member.value == 52 && member.id == 24 && member.lost == 2, "group read: values");
	is_u64(read_values_get(&s->read, 2).id, UINT64_MAX, "no third value");
	ok(s->callchain_count == 3 && s->callchain[0] == (uint64_t)PERF_CONTEXT_USER && s->callchain[2] == 0x402000, "call chain");
	ok(s->raw_size == 12 && memcmp(s->raw, "rawrawrawraw", 12) == 0, "raw");
	ok(s->branch_count == 1 && s->branches[0].from == 0xf0 && s->branches[0].to == 0x70, "branches behind the index");
	ok(s->user.abi == 2 && s->user.mask == 7 && s->user.words[2] == 23, "user registers behind the branch counters");
	ok(s->stack.size == 16 && s->stack.dyn_size == 8 && memcmp(s->stack.bytes, "stackstack", 10) == 0, "stack, its bytes as they were");
	ok(s->weight == 31 && s->data_source == 32 && s->transaction == 33, "weight, data source, transaction");
	ok(s->interrupted.mask == 0x30 && s->interrupted.words[1] == 42, "interrupted registers");
	ok(s->phys_addr == 34 && s->cgroup == 35 && s->data_page_size == 36 && s->code_page_size == 37 && s->aux_size == 8, "the last ones");
	if (!foreign) {
		full_sample(&b, false);
		r = decode(&b, &layout);
		ok(r->sample.branch_count == 0 && r->sample.user.abi == 2 && r->sample.aux_size == 8, "no branch stack, no index: found by the length");
	}
	buf_release(&b.buf);
}

static void test_odd_samples(void)
{
	struct build b = { 0 };
	struct perf_event_attr attr = { .sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_IP, .sample_regs_user = 0xff0fff };
	struct record_layout layout;
	record_layout_init(&layout, &attr, false);
	begin(&b, PERF_RECORD_SAMPLE, 0), u64(&b, 1), u64(&b, 0), u64(&b, 0);
	ok(record_decode(&layout, end(&b), b.buf.size, &decoded, &err), "a kernel thread: no registers, no stack");
	ok(decoded.sample.user.mask == 0 && decoded.sample.stack.size == 0 && decoded.id.pid == -1 && decoded.id.time_ns == 0, "and nothing is made up");
	uint64_t v;
	ok(!record_peek_id(&layout, end(&b), &v) && !record_peek_time(&layout, end(&b), &v), "no id, no time to peek");
	begin(&b, PERF_RECORD_SAMPLE, 0), u64(&b, 1), u64(&b, 0), u64(&b, 8), u64(&b, 5), u64(&b, 1000);
	ok(record_decode(&layout, end(&b), b.buf.size, &decoded, &err) && decoded.sample.stack.dyn_size == 8, "dyn_size above the size is cut to it");
	begin(&b, PERF_RECORD_SAMPLE, 0), u64(&b, 1), u64(&b, 0), u64(&b, UINT64_MAX), u64(&b, 5);
	ok(!record_decode(&layout, end(&b), b.buf.size, &decoded, &err), "a stack of 2^64 bytes: %s", err.text);

	static const struct { uint64_t type, format; const char *what; } huge[] = {
		{ PERF_SAMPLE_CALLCHAIN, 0, "call chain" }, { PERF_SAMPLE_READ, PERF_FORMAT_GROUP | PERF_FORMAT_ID, "group" },
		{ PERF_SAMPLE_BRANCH_STACK, 0, "branch stack" }, { PERF_SAMPLE_AUX, 0, "AUX" },
	};
	static const uint64_t counts[] = { UINT64_MAX, UINT64_MAX / 8 + 2, UINT64_MAX / 16 + 2, 1ull << 61, 1ull << 60, 0xffffffff, 3 };
	for (size_t i = 0; i < sizeof(huge) / sizeof(*huge); i++) {
		unsigned refused = 0;
		struct perf_event_attr a = { .sample_type = huge[i].type, .read_format = huge[i].format };
		record_layout_init(&layout, &a, false);
		for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
			begin(&b, PERF_RECORD_SAMPLE, 0), u64(&b, counts[c] == 3 && huge[i].type != PERF_SAMPLE_BRANCH_STACK ? 17 : counts[c]), u64(&b, 1), u64(&b, 2);
			refused += !record_decode(&layout, end(&b), b.buf.size, &decoded, &err);
		}
		is_u64(refused, sizeof(counts) / sizeof(*counts), "%s longer than its record, by every kind of overflow: refused", huge[i].what);
	}
	struct perf_event_attr raw = { .sample_type = PERF_SAMPLE_RAW };
	record_layout_init(&layout, &raw, false);
	begin(&b, PERF_RECORD_SAMPLE, 0), u32(&b, 13), u32(&b, 0), u64(&b, 0);
	ok(!record_decode(&layout, end(&b), b.buf.size, &decoded, &err), "raw longer than its record: refused");
	begin(&b, PERF_RECORD_SAMPLE, 0), u32(&b, UINT32_MAX), u32(&b, 0), u64(&b, 0);
	ok(!record_decode(&layout, end(&b), b.buf.size, &decoded, &err), "raw of 4 GiB: refused");
	struct perf_event_attr odd = { .sample_type = PERF_SAMPLE_RAW | PERF_SAMPLE_REGS_USER, .sample_regs_user = 1 };
	record_layout_init(&layout, &odd, false);
	begin(&b, PERF_RECORD_SAMPLE, 0), u32(&b, 3), buf_add(&b.buf, "abc", 3), u64(&b, 1), u64(&b, 2), buf_align(&b.buf, 8);
	ok(!record_decode(&layout, end(&b), b.buf.size, &decoded, &err), "words that do not stand on 8 bytes are refused");
	begin(&b, PERF_RECORD_COMM, 0), u32(&b, 1), u32(&b, 2), buf_add(&b.buf, "unended!", 8);
	ok(!record_decode(&layout, end(&b), b.buf.size, &decoded, &err) && strstr(err.text, "COMM") != NULL, "a name without end: %s", err.text);
	begin(&b, 81, 0), buf_add(&b.buf, "whatever", 8);
	ok(record_decode(&layout, end(&b), b.buf.size, &decoded, &err) && decoded.type == RECORD_USER_COMPRESSED, "perf's own types get type and size");
	begin(&b, 4711, 0);
	ok(record_decode(&layout, end(&b), b.buf.size, &decoded, &err), "types newer than we are: likewise");
	is_str(record_type_name(4711), "UNKNOWN", "without a name");
	is_str(record_type_name(PERF_RECORD_AUX_OUTPUT_HW_ID), "AUX_OUTPUT_HW_ID", "name of the last of 6.1");
	is_str(record_type_name(83), "COMPRESSED2", "name of the last of perf's");
	buf_release(&b.buf);
}

// ---------------------------------------------------------------- recordings of others

struct whole { uint8_t *data; size_t size; };

static struct whole unpack(const char *path)
{
	struct whole w = { 0 };
	gzFile f = gzopen(path, "rb"); // plain files pass through
	for (int got = 1; f != NULL && got > 0; w.size += got > 0 ? (size_t)got : 0) {
		w.data = realloc(w.data, w.size + (1 << 20));
		got = gzread(f, w.data + w.size, 1 << 20);
	}
	if (f != NULL)
		gzclose(f);
	return w;
}

static uint64_t word_at(const struct whole *w, size_t at)
{
	uint64_t v = 0;
	if (at + 8 <= w->size)
		memcpy(&v, w->data + at, 8);
	return v;
}

struct counts { json_int_t samples, mappings, bad; uint64_t first_ns, last_ns; };

static void count_record(const struct record_layout *layout, const struct perf_event_header *header, const char *name, struct counts *n)
{
	uint64_t *copy = malloc(header->size + 8u), peeked = 0; // aligned, and exact for ASan
	struct record r;
	memcpy(copy, header, header->size);
	if (!record_decode(layout, copy, header->size, &r, &err)) {
		if (n->bad++ == 0)
			diag("%s: %s", name, err.text);
	} else if (r.type == PERF_RECORD_SAMPLE) {
		n->samples++;
		n->first_ns = r.id.time_ns < n->first_ns ? r.id.time_ns : n->first_ns;
		n->last_ns = r.id.time_ns > n->last_ns ? r.id.time_ns : n->last_ns;
		if (layout->sample_type & PERF_SAMPLE_TIME)
			n->bad += !record_peek_time(layout, r.header, &peeked) || peeked != r.id.time_ns;
	} else {
		n->mappings += r.type == PERF_RECORD_MMAP || r.type == PERF_RECORD_MMAP2;
	}
	free(copy);
}

static json_int_t number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

// One recording in file layout (header: magic, size, attr_size, attrs {offset, size}, data {offset, size}) against what perf counted.
// All events of these files have the sample_type of the first.
static void one_recording(const char *root, const json_t *expected)
{
	const char *name = json_string_value(json_object_get(expected, "file"));
	const json_t *records = json_object_get(expected, "records");
	char path[4200];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	if (access(path, R_OK) != 0)
		strcat(path, ".gz");
	struct whole w = unpack(path);
	struct perf_event_attr attr = { 0 };
	size_t attrs = word_at(&w, 24), attr_size = word_at(&w, 16) - 16, data = word_at(&w, 40), end_at = data + word_at(&w, 48);
	if (!ok(end_at <= w.size && attrs + attr_size <= w.size, "%s: read", name))
		return;
	memcpy(&attr, w.data + attrs, attr_size < sizeof(attr) ? attr_size : sizeof(attr));
	struct record_layout layout;
	record_layout_init(&layout, &attr, false);
	struct counts n = { .first_ns = UINT64_MAX };
	for (size_t at = data; at + 8 <= end_at;) {
		const struct perf_event_header *header = (const void *)(w.data + at);
		if (header->size < 8 || at + header->size > end_at)
			break;
		count_record(&layout, header, name, &n);
		at += header->size;
	}
	free(w.data);
	is_u64(n.bad, 0, "%s: every record decodes", name);
	is_u64(n.samples, number(records, "SAMPLE"), "%s: samples as perf counts them", name);
	is_u64(n.mappings, number(records, "MMAP") + number(records, "MMAP2"), "%s: mappings", name);
	if ((layout.sample_type & PERF_SAMPLE_TIME) && n.samples > 0) {
		is_close((double)n.first_ns / 1e9, atof(json_string_value(json_object_get(expected, "time_first"))), 1e-9, "%s: first time", name);
		is_close((double)n.last_ns / 1e9, atof(json_string_value(json_object_get(expected, "time_last"))), 1e-9, "%s: last time", name);
	}
}

static void test_recordings(void)
{
	const char *readme = corpus_file("corpus/README.md");
	if (readme == NULL) {
		skip("no corpus", "recordings of others");
		return;
	}
	char root[4096], path[4400];
	snprintf(root, sizeof(root), "%.*s/perfdata", (int)(strlen(readme) - strlen("/README.md")), readme);
	DIR *dir = opendir(root);
	unsigned read = 0, passed_over = 0;
	for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
		if (strstr(e->d_name, ".expected.json") == NULL)
			continue;
		snprintf(path, sizeof(path), "%s/%s", root, e->d_name);
		json_t *expected = json_load_file(path, 0, NULL);
		const char *mode = json_string_value(json_object_get(expected, "mode")), *endian = json_string_value(json_object_get(expected, "endian"));
		const char *magic = json_string_value(json_object_get(expected, "magic"));
		const json_t *records = json_object_get(expected, "records");
		// Pipes, other versions, compression, data behind AUXTRACE records and what perf could not read to the end are the file reader's tests.
		if (mode != NULL && endian != NULL && magic != NULL && strcmp(mode, "file") == 0 && strcmp(endian, "little") == 0 && strcmp(magic, "PERFILE2") == 0 &&
		    json_object_get(records, "COMPRESSED") == NULL && json_object_get(records, "AUXTRACE") == NULL && number(records, "SAMPLE") > 0 && number(expected, "perf_script_rc") == 0) {
			one_recording(root, expected);
			read++;
		} else {
			passed_over++;
		}
		json_decref(expected);
	}
	closedir(dir);
	ok(read >= 10, "%u recordings of others decoded, %u left to the reader's tests", read, passed_over);
}

int main(void)
{
	for (unsigned foreign = 0; foreign < 2; foreign++) {
		test_mappings(foreign);
		test_tasks(foreign);
		test_counters(foreign);
		test_full_sample(foreign);
	}
	test_odd_samples();
	test_recordings();
	return tap_done();
}
