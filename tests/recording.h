// Recordings made by ourselves, for the tests of writer, reader and loader: a few processes, samples with and without notes.
#ifndef PERFSAMPLE_TESTS_RECORDING_H
#define PERFSAMPLE_TESTS_RECORDING_H

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "perf/record.h"
#include "perfdata/note.h"
#include "perfdata/writer.h"
#include "proc/dso.h"

enum {
	REC_SAMPLE_TYPE = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_IDENTIFIER |
	                  PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW,
	REC_READ_FORMAT = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_ID | PERF_FORMAT_LOST,
	REC_PERIOD_NS = 1295295,
	REC_PID = 4242,
};
static const uint64_t REC_IDS[2] = { 11, 12 }, REC_SIDEBAND_IDS[2] = { 21, 22 };

__attribute__((unused)) static struct perf_event_attr rec_attr(bool sideband)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .type = PERF_TYPE_SOFTWARE };
	attr.config = sideband ? PERF_COUNT_SW_DUMMY : PERF_COUNT_SW_CPU_CLOCK;
	attr.sample_period = sideband ? 0 : REC_PERIOD_NS;
	attr.sample_type = REC_SAMPLE_TYPE & ~(sideband ? PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW | 0u : 0u);
	attr.read_format = REC_READ_FORMAT;
	attr.sample_id_all = 1;
	attr.mmap = attr.mmap2 = attr.comm = attr.task = sideband;
	attr.use_clockid = 1;
	attr.clockid = 1;
	return attr;
}

static size_t rec_start(struct buf *out, uint32_t type, uint16_t misc)
{
	size_t at = out->size;
	struct perf_event_header header = { .type = type, .misc = misc };
	buf_add(out, &header, sizeof(header));
	return at;
}

static void rec_end(struct buf *out, size_t at)
{
	while ((out->size - at) % 8 != 0)
		buf_byte(out, 0);
	uint16_t size = (uint16_t)(out->size - at);
	memcpy(out->data + at + offsetof(struct perf_event_header, size), &size, sizeof(size));
}

// sample_id_all: TID, TIME, CPU, IDENTIFIER
static void rec_trailer(struct buf *out, uint32_t pid, uint32_t tid, uint64_t time_ns, uint32_t cpu, uint64_t id)
{
	buf_u32(out, pid);
	buf_u32(out, tid);
	buf_u64(out, time_ns);
	buf_u32(out, cpu);
	buf_u32(out, 0);
	buf_u64(out, id);
}

static void rec_text(struct buf *out, const char *text)
{
	size_t at = out->size;
	buf_add(out, text, strlen(text) + 1);
	while ((out->size - at) % 8 != 0)
		buf_byte(out, 0);
}

__attribute__((unused)) static void rec_comm(struct buf *out, uint32_t pid, uint32_t tid, const char *comm, bool exec, uint64_t time_ns)
{
	size_t at = rec_start(out, PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0);
	buf_u32(out, pid);
	buf_u32(out, tid);
	rec_text(out, comm);
	rec_trailer(out, pid, tid, time_ns, 0, REC_SIDEBAND_IDS[0]);
	rec_end(out, at);
}

__attribute__((unused)) static void rec_mmap2(struct buf *out, uint32_t pid, uint64_t start, uint64_t length, uint64_t pgoff, const char *path, uint64_t time_ns)
{
	size_t at = rec_start(out, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	buf_u32(out, pid);
	buf_u32(out, pid);
	buf_u64(out, start);
	buf_u64(out, length);
	buf_u64(out, pgoff);
	buf_u32(out, 8); // major, minor, inode, generation
	buf_u32(out, 1);
	buf_u64(out, 777);
	buf_u64(out, 1);
	buf_u32(out, PROT_READ | PROT_EXEC);
	buf_u32(out, MAP_PRIVATE);
	rec_text(out, path);
	rec_trailer(out, pid, pid, time_ns, 0, REC_SIDEBAND_IDS[0]);
	rec_end(out, at);
}

__attribute__((unused)) static void rec_kernel_mmap(struct buf *out, uint64_t start, uint64_t length)
{
	size_t at = rec_start(out, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL);
	buf_u32(out, UINT32_MAX);
	buf_u32(out, 0);
	buf_u64(out, start);
	buf_u64(out, length);
	buf_u64(out, start);
	rec_text(out, "[kernel.kallsyms]_text");
	rec_trailer(out, UINT32_MAX, 0, 0, 0, REC_SIDEBAND_IDS[0]);
	rec_end(out, at);
}

__attribute__((unused)) static void rec_task(struct buf *out, uint32_t type, uint32_t pid, uint32_t ppid, uint32_t tid, uint32_t ptid, uint64_t time_ns)
{
	size_t at = rec_start(out, type, 0);
	buf_u32(out, pid);
	buf_u32(out, ppid);
	buf_u32(out, tid);
	buf_u32(out, ptid);
	buf_u64(out, time_ns);
	rec_trailer(out, pid, tid, time_ns, 0, REC_SIDEBAND_IDS[0]);
	rec_end(out, at);
}

struct rec_sample {
	uint32_t pid, tid, cpu;
	uint64_t time_ns;
	bool is_kernel;
	const uint64_t *chain; // with PERF_CONTEXT_* markers
	size_t chain_count;
	const struct note *note; // NULL: none
	const struct frame *frames;
	size_t frame_count;
};

// IDENTIFIER IP TID TIME CPU PERIOD CALLCHAIN RAW
__attribute__((unused)) static void rec_sample_of(struct buf *out, const struct rec_sample *s, uint64_t id, uint64_t period)
{
	size_t at = rec_start(out, PERF_RECORD_SAMPLE, s->is_kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);
	buf_u64(out, id);
	buf_u64(out, s->chain_count > 1 ? s->chain[1] : 0);
	buf_u32(out, s->pid);
	buf_u32(out, s->tid);
	buf_u64(out, s->time_ns);
	buf_u32(out, s->cpu);
	buf_u32(out, 0);
	buf_u64(out, period);
	buf_u64(out, s->chain_count);
	buf_add(out, s->chain, s->chain_count * sizeof(uint64_t));
	if (s->note != NULL) {
		note_encode(out, s->note, s->frames, s->frame_count, NULL, 0);
	} else {
		buf_u32(out, 4);
		buf_u32(out, 0);
	}
	rec_end(out, at);
}

__attribute__((unused)) static void rec_sample(struct buf *out, const struct rec_sample *s)
{
	rec_sample_of(out, s, REC_IDS[s->cpu % 2], REC_PERIOD_NS);
}

__attribute__((unused)) static void rec_read(struct buf *out, uint32_t pid, uint32_t tid, uint32_t cpu, uint64_t id, uint64_t time_ns, uint64_t value,
                                             uint64_t enabled, uint64_t running, uint64_t lost)
{
	size_t at = rec_start(out, PERF_RECORD_READ, 0);
	buf_u32(out, pid);
	buf_u32(out, tid);
	buf_u64(out, value);
	buf_u64(out, enabled);
	buf_u64(out, running);
	buf_u64(out, id);
	buf_u64(out, lost);
	rec_trailer(out, pid, tid, time_ns, cpu, id);
	rec_end(out, at);
}

__attribute__((unused)) static void rec_round(struct buf *out)
{
	rec_end(out, rec_start(out, RECORD_USER_FINISHED_ROUND, 0));
}

__attribute__((unused)) static struct writer_info rec_info(void)
{
	static const char *const argv[] = { "perfsample", "record", "--", "app", NULL };
	return (struct writer_info){ .hostname = "db-3", .os_release = "6.18.0", .arch = "x86_64", .cpu_desc = "A CPU", .cpuid = "AuthenticAMD,25,1,1",
	                             .version = "perfsample 0.1.0", .cpus_online = 2, .cpus_available = 4, .total_memory_kib = 1 << 20, .argv = argv,
	                             .first_time_ns = 1000000, .last_time_ns = 9000000, .clockid = 1, .clockid_time_ns = 500,
	                             .wall_time_ns = 1764425331000000000 };
}

// Two processes, one a fork of the other; kernel and user parts; one truncated stack; two readings a CPU; names inside.
__attribute__((unused)) static void rec_body(struct buf *out)
{
	static const uint64_t user[] = { PERF_CONTEXT_USER, 0x401010, 0x401205, 0x401305 };
	static const uint64_t mixed[] = { PERF_CONTEXT_KERNEL, 0xffffffff81000010, 0xffffffff81000205, PERF_CONTEXT_USER, 0x401110, 0x401205, 0x401305 };
	static const struct frame frames[] = { { 0x401010, FRAME_LEAF, VIA_NONE }, { 0x401205, FRAME_RETURN, VIA_CFI }, { 0x401305, FRAME_RETURN, VIA_FP } };
	static const struct note root = { UNWIND_ROOT, SPLICE_NONE }, cut = { UNWIND_TRUNCATED, SPLICE_NONE };
	rec_kernel_mmap(out, 0xffffffff81000000, 0x1000000);
	rec_task(out, PERF_RECORD_FORK, REC_PID, 1, REC_PID, 1, 1000000);
	rec_comm(out, REC_PID, REC_PID, "sh", false, 1000000);
	rec_comm(out, REC_PID, REC_PID, "app", true, 1100000);
	rec_mmap2(out, REC_PID, 0x400000, 0x10000, 0, "/opt/app/app", 1100001);
	rec_sample(out, &(struct rec_sample){ REC_PID, REC_PID, 0, 2000000, false, user, 4, &root, frames, 3 });
	rec_sample(out, &(struct rec_sample){ REC_PID, REC_PID, 1, 3000000, true, mixed, 7, &root, frames, 3 });
	rec_round(out);
	rec_task(out, PERF_RECORD_FORK, REC_PID + 1, REC_PID, REC_PID + 1, REC_PID, 3500000);
	rec_sample(out, &(struct rec_sample){ REC_PID + 1, REC_PID + 1, 1, 4000000, false, user, 4, &cut, frames, 3 });
	rec_read(out, UINT32_MAX, UINT32_MAX, 0, REC_IDS[0], 5000000, 2 * REC_PERIOD_NS, 4000000, 2 * REC_PERIOD_NS + 5, 1);
	rec_read(out, UINT32_MAX, UINT32_MAX, 1, REC_IDS[1], 5000000, 2 * REC_PERIOD_NS, 4000000, 3 * REC_PERIOD_NS - 5, 0);
	rec_read(out, UINT32_MAX, (uint32_t)-2, 0, REC_SIDEBAND_IDS[0], 5000000, 3, 4, 1500000, 2);
	rec_read(out, UINT32_MAX, (uint32_t)-3, 0, REC_SIDEBAND_IDS[0], 5000000, 6, 7, 8, 0);
	rec_task(out, PERF_RECORD_EXIT, REC_PID + 1, REC_PID, REC_PID + 1, REC_PID, 6000000);
	rec_round(out);
}

__attribute__((unused)) static void rec_names(struct names *names)
{
	names_meta(names, "target.kind", "command");
	names_meta(names, "start.ns", "%d", 1000000);
	names_meta(names, "end.ns", "%d", 9000000);
	names_meta(names, "start.wall_ns", "%llu", 1764425331001000000ull);
	names_meta(names, "decision.0", "cpu-clock (this VM counts no cycles)");
	struct name_image *image = vec_add(&names->images);
	image->path = "/opt/app/app";
	image->kind = DSO_FILE;
	static const struct name_frame inner[] = { { "leaf_inlined", "app.c", 10, true }, { "work", "app.c", 20, false }, { "middle", NULL, 0, false }, { "main", "app.c", 99, false } };
	for (size_t i = 0; i < 4; i++)
		vec_push(&image->frames, inner[i]);
	vec_push(&image->addrs, (struct name_addr){ 0x1010, 0x1000, "work", 0, 2 });
	vec_push(&image->addrs, (struct name_addr){ 0x1204, 0x1200, "middle", 2, 1 });
	vec_push(&image->addrs, (struct name_addr){ 0x1304, 0x1300, "main", 3, 1 });
}

// Writes the recording above; false when the writer refuses.
__attribute__((unused)) static bool rec_write(const char *path, int stream_fd, bool finish, struct err *err)
{
	struct writer *writer;
	struct perf_event_attr clock = rec_attr(false), dummy = rec_attr(true);
	struct writer_event events[2] = { { clock, "cpu-clock", REC_IDS, 2, -1, 0 }, { dummy, "dummy:HG", REC_SIDEBAND_IDS, 2, -1, 0 } };
	struct writer_info info = rec_info();
	if (!writer_open(&writer, path, stream_fd, err))
		return false;
	struct buf body = { 0 };
	rec_body(&body);
	struct names names = { 0 };
	rec_names(&names);
	struct writer_build_id build_id = { .path = "/opt/app/app", .misc = PERF_RECORD_MISC_USER, .pid = -1 };
	build_id_parse(&build_id.build_id, "0102030405060708090a0b0c0d0e0f1011121314");
	bool good = writer_begin(writer, events, 2, &info, err) && writer_records(writer, body.data, body.size, err);
	if (finish)
		good = good && writer_finish(writer, &info, &build_id, 1, &names, err);
	else
		good = good && writer_checkpoint(writer, err) && writer_publish(writer, err);
	writer_free(writer);
	names_release(&names);
	buf_release(&body);
	return good;
}

#endif
