#include "load/load.h"

#include <dirent.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <zlib.h>

#include "base/mem.h"
#include "report/missing.h"
#include "tests/recording.h"
#include "tests/scratch.h"
#include "unwind/unwind.h"

static struct load_options options_for(const char *path)
{
	struct load_options options = load_defaults();
	options.input = path;
	return options;
}

// "main;middle;work": root first.
static const char *stack_text(const struct profile *p, const struct profile_sample *sample, bool inlines)
{
	static char text[65536];
	struct stack_step steps[512];
	size_t count = profile_stack(p, sample->stack, inlines, steps, 512), at = 0;
	text[0] = '\0';
	for (size_t i = 0; i < count && i < 512 && at < sizeof(text) - 300; i++)
		at += (size_t)snprintf(text + at, 256, "%s%.200s", i > 0 ? ";" : "", profile_text(p, p->functions.data[p->chains.data[steps[i].line].function].name));
	return text;
}

static bool has_caveat(const struct profile *p, const char *text)
{
	for (size_t i = 0; i < p->meta.caveats.count; i++) {
		if (strstr(profile_text(p, p->meta.caveats.data[i]), text) != NULL)
			return true;
	}
	return false;
}

// ---------------------------------------------------------------- a recording of ours

static void check_samples(const struct profile *p)
{
	is_u64(p->samples.count, 3, "three samples");
	const struct profile_sample s[] = { samples_at(&p->samples, 0), samples_at(&p->samples, 1), samples_at(&p->samples, 2) };
	ok(s[0].pid == REC_PID && s[0].cpu == 0 && s[0].weight == REC_PERIOD_NS && s[0].time_ns == 2000000, "the first one's columns");
	is_str(profile_text(p, s[0].comm), "app", "comm after exec");
	is_str(profile_text(p, s[2].comm), "app", "comm of a child");
	ok(s[0].end == UNWIND_ROOT && s[2].end == UNWIND_TRUNCATED, "ends from the notes");
	ok(!s[0].is_kernel && s[1].is_kernel, "the leaf in the kernel");
	const struct profile_frame *leaf = &p->frames.data[p->nodes.data[s[0].stack].frame];
	ok(leaf->kind == FRAME_LEAF && leaf->image_addr == 0x1010 && leaf->addr == 0x401010, "a leaf is looked up at its address");
	const struct profile_frame *caller = &p->frames.data[p->nodes.data[p->nodes.data[s[0].stack].parent].frame];
	ok(caller->kind == FRAME_RETURN && caller->via == VIA_CFI && caller->image_addr == 0x1204 && caller->addr == 0x401205, "a caller at one before");
	is_u64(p->nodes.data[s[1].stack].depth, 4, "kernel and user part in one stack");
	ok(p->frames.data[p->nodes.data[s[1].stack].frame].is_kernel, "kernel frames above the user's");
}

static void check_accounting(const struct profile *p)
{
	is_u64(p->events.count, 1, "the side-band event is no event of the profile");
	const struct profile_event *e = &p->events.data[0];
	ok(e->is_clock && !e->is_freq && e->is_sampling && e->period == REC_PERIOD_NS && e->is_accounted && e->can_expect, "the event");
	is_u64(e->time_running_ns, 5ull * REC_PERIOD_NS, "CPU time over both CPUs");
	is_u64(e->expected, 5, "due samples");
	is_u64(e->lost, 1, "lost");
	ok(e->dropped == 3 && e->shortened == 4 && e->sideband_lost == 2 && e->recorder_cpu_ns == 1500000 && e->others == 6, "the recorder's counters");
	uint64_t lost = 0, sideband = 0;
	for (size_t i = 0; i < p->losses.count; i++)
		*(p->losses.data[i].is_sideband ? &sideband : &lost) += p->losses.data[i].count;
	ok(lost == 1 && sideband == 2, "losses are placed");
	is_u64(p->readings.count, 2, "readings");
}

// Events reopened at twice the period, then at eight times: other ids, counters from 0, one attr. One of the last ids has no sample.
static void reopened(void)
{
	static const uint64_t chain[] = { PERF_CONTEXT_USER, 0x401010 }, ids[] = { 11, 12, 31, 32, 41, 42 };
	static const uint64_t periods[] = { REC_PERIOD_NS, 2 * REC_PERIOD_NS, 8 * REC_PERIOD_NS };
	struct writer *writer;
	struct perf_event_attr clock = rec_attr(false), dummy = rec_attr(true);
	struct writer_event events[2] = { { clock, "cpu-clock", ids, 6, -1, 0 }, { dummy, "dummy:HG", REC_SIDEBAND_IDS, 2, -1, 0 } };
	struct writer_info info = rec_info();
	struct buf body = { 0 };
	struct err err = { 0 };
	uint64_t time_ns = 1000000, weight = 0;
	for (size_t stretch = 0; stretch < 3; stretch++) {
		for (uint32_t i = 0; i < 10; i++) {
			uint32_t cpu = stretch < 2 ? i % 2 : 0;
			struct rec_sample sample = { .pid = REC_PID, .tid = REC_PID, .cpu = cpu, .time_ns = time_ns += 1000, .chain = chain, .chain_count = 2 };
			rec_sample_of(&body, &sample, ids[2 * stretch + cpu], periods[stretch]);
			weight += periods[stretch];
		}
		// 6 due on each CPU; and what does not make a whole one until both CPUs' are put together.
		for (uint32_t cpu = 0; cpu < 2; cpu++)
			rec_read(&body, UINT32_MAX, UINT32_MAX, cpu, ids[2 * stretch + cpu], time_ns += 1000, 0, 1, stretch == 2 && cpu == 1 ? 3 * REC_PERIOD_NS
			         : 6 * periods[stretch] + periods[stretch] / 4, stretch == 1 && cpu == 0);
	}
	bool good = writer_open(&writer, scratch_path("reopened"), -1, &err) && writer_begin(writer, events, 2, &info, &err) &&
		writer_records(writer, body.data, body.size, &err) && writer_finish(writer, &info, NULL, 0, NULL, &err);
	writer_free(writer);
	buf_release(&body);
	struct load_options options = options_for(scratch_path("reopened"));
	struct profile p;
	ok(good && load_profile(&p, &options, &err), "reopened events are loaded (%s)", err.text);
	const struct profile_event *e = &p.events.data[0];
	ok(p.events.count == 1 && e->is_accounted && e->can_expect && e->period == REC_PERIOD_NS, "they are one event");
	// 12.5 and 12.5 of the first two stretches, 6.25 of the third; the id without samples counts by the attr's period.
	is_u64(e->expected, 34, "due samples: each stretch by its own period");
	is_u64(e->lost, 1, "lost in all stretches");
	is_u64(e->time_running_ns, 12 * (periods[0] + periods[1]) + 2 * (periods[0] / 4 + periods[1] / 4) + 6 * periods[2] + periods[2] / 4 + 3 * periods[0],
	       "CPU time over all stretches");
	uint64_t sum = 0;
	for (size_t i = 0; i < p.samples.count; i++)
		sum += samples_at(&p.samples, i).weight;
	ok(p.samples.count == 30 && sum == weight, "samples weigh their own stretch's period");
	profile_release(&p);
}

static void our_own(void)
{
	struct err err = { 0 };
	struct profile p;
	ok(rec_write(scratch_path("ours"), -1, true, &err), "a recording is made");
	struct load_options options = options_for(scratch_path("ours"));
	ok(load_profile(&p, &options, &err), "and loaded (%s)", err.text);
	check_samples(&p);
	check_accounting(&p);
	is_str(stack_text(&p, samples_get(&p.samples, 0, &(struct profile_sample){ 0 }), true), "main;middle;work;leaf_inlined", "names inside, inline frames too");
	is_str(stack_text(&p, samples_get(&p.samples, 0, &(struct profile_sample){ 0 }), false), "main;middle;work", "and without");
	is_str(profile_text(&p, p.meta.host), "db-3", "host");
	is_str(profile_text(&p, p.meta.target_kind), "command", "kind of target");
	is_str(profile_text(&p, p.meta.target_comm), "", "two processes: no target is guessed");
	ok(p.meta.decisions.count == 1 && strstr(profile_text(&p, p.meta.decisions.data[0]), "cycles") != NULL, "the recorder's decision");
	ok(p.meta.start_ns == 1000000 && p.meta.end_ns == 9000000 && p.meta.start_wall_ns == 1764425331001000000ull, "window");
	ok(!p.meta.cut_off && p.meta.caveats.count == 0 && p.meta.argv.count == 4, "no caveat");
	profile_release(&p);

	options.inlines = false;
	ok(load_profile(&p, &options, &err), "without inline frames");
	is_str(stack_text(&p, samples_get(&p.samples, 0, &(struct profile_sample){ 0 }), true), "main;middle;work", "names inside give the function that has the code");
	profile_release(&p);

	options.symbols = false;
	ok(load_profile(&p, &options, &err), "without symbols");
	is_str(stack_text(&p, samples_get(&p.samples, 0, &(struct profile_sample){ 0 }), true), "[unknown];[unknown];[unknown]", "addresses alone");
	profile_release(&p);

	int fd = open(scratch_path("stream"), O_CREAT | O_WRONLY, 0600);
	ok(rec_write("-", fd, true, &err), "a stream is made");
	close(fd);
	options = options_for(scratch_path("stream"));
	ok(load_profile(&p, &options, &err), "and loaded (%s)", err.text);
	check_samples(&p);
	check_accounting(&p);
	profile_release(&p);

	ok(rec_write(scratch_path("killed"), -1, false, &err), "a killed recorder's file");
	options = options_for(scratch_path("killed"));
	ok(load_profile(&p, &options, &err), "is loaded (%s)", err.text);
	check_samples(&p);
	check_accounting(&p);
	ok(p.meta.cut_off && has_caveat(&p, "cut off"), "and said to be cut off");
	ok(p.meta.start_ns == 1000000 && p.meta.end_ns == 6000000, "window from the records");
	profile_release(&p);
}

// ---------------------------------------------------------------- files made here

static void write_file(const char *path, struct perf_event_attr attr, const struct buf *body)
{
	struct err err = { 0 };
	struct writer *writer;
	struct perf_event_attr dummy = rec_attr(true);
	struct writer_event events[2] = { { attr, "cpu-clock", REC_IDS, 2, -1, 0 }, { dummy, "dummy:HG", REC_SIDEBAND_IDS, 2, -1, 0 } };
	struct writer_info info = rec_info();
	bool good = writer_open(&writer, path, -1, &err) && writer_begin(writer, events, 2, &info, &err) &&
	            writer_records(writer, body->data, body->size, &err) && writer_finish(writer, &info, NULL, 0, NULL, &err);
	if (!good)
		ok(false, "writing %s: %s", path, err.text);
	writer_free(writer);
}

// What stands in a file before it happened: each round may be older than the one before by a round.
static void order_of_time(void)
{
	struct buf body = { 0 };
	static const uint64_t chain[] = { PERF_CONTEXT_USER, 0x401010 };
	rec_comm(&body, REC_PID, REC_PID, "app", true, 1000);
	rec_sample(&body, &(struct rec_sample){ REC_PID, REC_PID, 0, 3000, false, chain, 2, NULL, NULL, 0 });
	rec_round(&body);
	rec_mmap2(&body, REC_PID, 0x400000, 0x10000, 0, "/opt/app/app", 2000); // older than the sample
	rec_sample(&body, &(struct rec_sample){ REC_PID, REC_PID, 1, 2500, false, chain, 2, NULL, NULL, 0 });
	rec_comm(&body, REC_PID, REC_PID, "renamed", false, 2700);
	rec_round(&body);
	rec_sample(&body, &(struct rec_sample){ REC_PID, REC_PID, 1, 1500, false, chain, 2, NULL, NULL, 0 }); // too late for its round
	rec_round(&body);
	write_file(scratch_path("order"), rec_attr(false), &body);
	struct load_options options = options_for(scratch_path("order"));
	struct err err = { 0 };
	struct profile p;
	ok(load_profile(&p, &options, &err) && p.samples.count == 3, "records out of order (%s)", err.text);
	ok(samples_at(&p.samples, 0).time_ns == 1500 && samples_at(&p.samples, 1).time_ns == 2500 && samples_at(&p.samples, 2).time_ns == 3000, "samples in the order of time");
	ok(p.frames.data[p.nodes.data[samples_at(&p.samples, 2).stack].frame].dso != PROFILE_NONE, "a mapping that comes later in the file holds");
	is_str(profile_text(&p, samples_at(&p.samples, 1).comm), "app", "comm before it changed");
	is_str(profile_text(&p, samples_at(&p.samples, 2).comm), "renamed", "and after");
	profile_release(&p);
	buf_release(&body);
}

// Offset of a signal trampoline in this host's C library, which is the code of rt_sigreturn.
static uint64_t find_trampoline(char *path, size_t size)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	path[0] = '\0';
	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
		char *name = strchr(line, '/');
		if (name != NULL && strstr(name, "libc.so") != NULL) {
			name[strcspn(name, "\n")] = '\0';
			snprintf(path, size, "%s", name);
			break;
		}
	}
	if (maps != NULL)
		fclose(maps);
	struct buf bytes = { 0 };
	FILE *f = path[0] != '\0' ? fopen(path, "rb") : NULL;
	char chunk[65536];
	for (size_t n; f != NULL && (n = fread(chunk, 1, sizeof(chunk), f)) > 0;)
		buf_add(&bytes, chunk, n);
	if (f != NULL)
		fclose(f);
	const char *found = bytes.size > 0 ? memmem(bytes.data, bytes.size, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9) : NULL;
	uint64_t offset = found != NULL ? (uint64_t)(found - bytes.data) : 0;
	buf_release(&bytes);
	return offset;
}

static __attribute__((noinline)) void chains_of_others(void)
{
	char libc[4096];
	uint64_t trampoline = find_trampoline(libc, sizeof(libc));
	if (trampoline == 0) {
		skip("no x86-64 C library", "frames above a signal trampoline");
		return;
	}
	struct buf body = { 0 };
	const uint64_t base = 0x7f0000000000;
	const uint64_t chain[] = { PERF_CONTEXT_USER, 0x401010, 0x401205, base + trampoline, 0x401300, 0x401400 };
	rec_comm(&body, REC_PID, REC_PID, "app", true, 1000);
	rec_mmap2(&body, REC_PID, 0x400000, 0x10000, 0, "/opt/app/app", 1001);
	rec_mmap2(&body, REC_PID, base, 0x400000, 0, libc, 1001);
	rec_sample(&body, &(struct rec_sample){ REC_PID, REC_PID, 0, 3000, false, chain, 6, NULL, NULL, 0 });
	write_file(scratch_path("signal"), rec_attr(false), &body);
	struct load_options options = options_for(scratch_path("signal"));
	struct err err = { 0 };
	struct profile p;
	ok(load_profile(&p, &options, &err) && p.samples.count == 1, "a call chain without a note (%s)", err.text);
	uint32_t node = samples_at(&p.samples, 0).stack;
	uint8_t kinds[5] = { 0 };
	uint64_t addrs[5] = { 0 };
	for (int i = 0; i < 5 && node != PROFILE_NONE; i++, node = p.nodes.data[node].parent) {
		kinds[i] = p.frames.data[p.nodes.data[node].frame].kind;
		addrs[i] = p.frames.data[p.nodes.data[node].frame].image_addr;
	}
	ok(kinds[0] == FRAME_LEAF && kinds[1] == FRAME_RETURN && kinds[4] == FRAME_RETURN, "leaf and callers");
	ok(kinds[3] == FRAME_INTERRUPTED && addrs[3] == 0x1300, "the frame above the trampoline was interrupted there, it did not call");
	ok(addrs[2] == trampoline, "the trampoline is looked up at its start");
	ok(samples_at(&p.samples, 0).end == UNWIND_NO_CFI && has_caveat(&p, "frame pointers"), "nobody says that the chain is whole");
	profile_release(&p);
	buf_release(&body);
}

// Of a stack of more than 8,000 frames the middle is left out: a second mark of the user part stands there, and a frame that says so.
static void gaps(void)
{
	static const uint64_t chain[] = { PERF_CONTEXT_KERNEL, 0xffffffff81000010, PERF_CONTEXT_USER, 0x401010, 0x401205, PERF_CONTEXT_USER, 0x401305, 0x401405 };
	static const struct frame frames[] = { { 0x401010, FRAME_LEAF, VIA_NONE }, { 0x401205, FRAME_RETURN, VIA_CFI }, { 0x401305, FRAME_RETURN, VIA_FP },
	                                       { 0x401405, FRAME_INTERRUPTED, VIA_CFI } };
	const struct note note = { .end = UNWIND_DEPTH_LIMIT };
	struct buf body = { 0 };
	rec_comm(&body, REC_PID, REC_PID, "app", true, 1000);
	rec_mmap2(&body, REC_PID, 0x400000, 0x10000, 0, "/opt/app/app", 1001);
	rec_sample(&body, &(struct rec_sample){ REC_PID, REC_PID, 0, 3000, true, chain, 8, &note, frames, 4 });
	rec_sample(&body, &(struct rec_sample){ REC_PID, REC_PID, 0, 4000, false, chain + 2, 6, NULL, NULL, 0 });
	rec_sample(&body, &(struct rec_sample){ REC_PID, REC_PID, 0, 5000, false, chain + 2, 4, NULL, NULL, 0 }); // nothing behind the mark
	write_file(scratch_path("gap"), rec_attr(false), &body);
	buf_release(&body);
	struct load_options options = options_for(scratch_path("gap"));
	struct err err = { 0 };
	struct profile p;
	if (!ok(load_profile(&p, &options, &err) && p.samples.count == 3, "chains with a gap (%s)", err.text))
		return;
	is_str(stack_text(&p, samples_get(&p.samples, 0, &(struct profile_sample){ 0 }), true), "[unknown];[unknown];" PROFILE_GAP_NAME ";[unknown];[unknown];[unknown]",
	       "one frame stands for those left out");
	is_str(stack_text(&p, samples_get(&p.samples, 1, &(struct profile_sample){ 0 }), true), "[unknown];[unknown];" PROFILE_GAP_NAME ";[unknown];[unknown]",
	       "without a note, too");
	is_str(stack_text(&p, samples_get(&p.samples, 2, &(struct profile_sample){ 0 }), true), "[unknown];[unknown]", "where none follows, none stands");
	static const uint8_t kinds[] = { FRAME_INTERRUPTED, FRAME_RETURN, FRAME_LEAF, FRAME_RETURN, FRAME_LEAF, FRAME_LEAF },
	                     vias[] = { VIA_CFI, VIA_FP, VIA_NONE, VIA_CFI, VIA_NONE, VIA_KERNEL };
	struct stack_step steps[6];
	bool same = profile_stack(&p, samples_at(&p.samples, 0).stack, true, steps, 6) == 6;
	for (int i = 0; same && i < 6; i++)
		same = p.frames.data[steps[i].frame].kind == kinds[i] && p.frames.data[steps[i].frame].via == vias[i];
	ok(same, "the note's kinds and ways stay with their frames");
	const struct profile_function *gap = same ? &p.functions.data[p.chains.data[steps[2].line].function] : NULL;
	ok(gap != NULL && gap->is_known && p.dsos.data[gap->dso].kind == DSO_SPECIAL, "it is no function without a name");
	struct missing missing = { 0 };
	missing_build(&missing, &p, &(struct report_filter){ 0 });
	for (size_t i = 0; i < missing.images.count && same; i++)
		same = missing.images.data[i].dso != PROFILE_NONE && p.dsos.data[missing.images.data[i].dso].kind != DSO_SPECIAL;
	ok(missing.images.count == 2 && same, "and in no list of such: %zu", missing.images.count);
	missing_release(&missing);
	profile_release(&p);
}

static void not_accounted(void)
{
	struct buf body = { 0 };
	static const uint64_t chain[] = { PERF_CONTEXT_USER, 0x401010 };
	rec_comm(&body, REC_PID, REC_PID, "app", true, 1000);
	rec_sample(&body, &(struct rec_sample){ REC_PID, REC_PID, 1, 3000, false, chain, 2, NULL, NULL, 0 });
	size_t at = rec_start(&body, PERF_RECORD_LOST, 0);
	buf_u64(&body, REC_IDS[1]);
	buf_u64(&body, 17);
	rec_trailer(&body, REC_PID, REC_PID, 5000, 1, REC_IDS[1]);
	rec_end(&body, at);
	at = rec_start(&body, PERF_RECORD_THROTTLE, 0);
	buf_u64(&body, 6000);
	buf_u64(&body, REC_IDS[1]);
	buf_u64(&body, REC_IDS[1]);
	rec_trailer(&body, REC_PID, REC_PID, 6000, 1, REC_IDS[1]);
	rec_end(&body, at);
	at = rec_start(&body, PERF_RECORD_UNTHROTTLE, 0);
	buf_u64(&body, 7000);
	buf_u64(&body, REC_IDS[1]);
	buf_u64(&body, REC_IDS[1]);
	rec_trailer(&body, REC_PID, REC_PID, 7000, 1, REC_IDS[1]);
	rec_end(&body, at);
	rec_sample(&body, &(struct rec_sample){ 0, 0, 1, 8000, true, chain, 2, NULL, NULL, 0 });
	struct perf_event_attr attr = rec_attr(false);
	attr.inherit_stat = 1;
	write_file(scratch_path("lost"), attr, &body);
	struct load_options options = options_for(scratch_path("lost"));
	struct err err = { 0 };
	struct profile p;
	ok(load_profile(&p, &options, &err) && p.samples.count == 2, "a recording without readings (%s)", err.text);
	const struct profile_event *e = &p.events.data[0];
	ok(!e->is_accounted && !e->can_expect && e->lost == 17 && e->idle == 1, "lost by its records; expected is not known");
	ok(e->lost_counts_reads, "READ records of tasks that ended may be among them: attr.inherit_stat");
	ok(p.losses.count == 1 && p.losses.data[0].from_ns == 3000 && p.losses.data[0].to_ns == 5000 && p.losses.data[0].cpu == 1, "the loss lies behind the record before");
	ok(p.throttles.count == 1 && p.throttles.data[0].from_ns == 6000 && p.throttles.data[0].to_ns == 7000, "throttled from 6 to 7 µs");
	ok(samples_at(&p.samples, 1).is_idle, "pid 0 is idle");
	is_str(profile_text(&p, samples_at(&p.samples, 1).comm), "swapper", "and called swapper");
	profile_release(&p);
	buf_release(&body);
}

// ---------------------------------------------------------------- raw stacks: this very process, beside backtrace(3)

extern void *__libc_stack_end; // ld.so's own: where the first thread's stack began

enum { SHOTS = 8 };
struct shot { uint64_t regs[24]; uint8_t stack[16384]; size_t stack_size; void *trace[64]; int depth; };

__attribute__((noinline, no_sanitize("address"))) static void copy_stack(uint8_t *to, const volatile uint8_t *from, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] = from[i];
}

// In the order of asm/perf_regs.h: ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8 … r15
static __attribute__((noinline)) void shoot(struct shot *shot)
{
	ucontext_t context;
	getcontext(&context);
	const greg_t *g = context.uc_mcontext.gregs;
	static const int order[] = { REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_RIP };
	for (int i = 0; i < 9; i++)
		shot->regs[i] = (uint64_t)g[order[i]];
	for (int i = 0; i < 8; i++)
		shot->regs[16 + i] = (uint64_t)g[REG_R8 + i];
	uintptr_t sp = (uintptr_t)g[REG_RSP], left = (uintptr_t)__libc_stack_end - sp;
	shot->stack_size = left < sizeof(shot->stack) ? left : sizeof(shot->stack);
	copy_stack(shot->stack, (const uint8_t *)sp, shot->stack_size);
	shot->depth = backtrace(shot->trace, 64);
}

static __attribute__((noinline)) int descend(struct shot *shot, int depth)
{
	volatile int kept = depth; // neither a tail call nor a loop
	if (depth == 0)
		shoot(shot);
	else
		kept += descend(shot, depth - 1);
	return kept;
}

// Called before anything else: below it the stack has main's own small frame alone, so that a copy reaches the root whatever a sanitizer makes of the
// frames of the tests.
static __attribute__((noinline)) void shoot_all(struct shot *shots)
{
	for (int i = 0; i < SHOTS; i++)
		descend(&shots[i], i * 3);
}

static __attribute__((noinline)) void add_own_maps(struct buf *body)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
		uint64_t start, end, offset;
		char mode[8], path[4096] = "//anon";
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %4095s", &start, &end, mode, &offset, path) >= 4 && mode[2] == 'x')
			rec_mmap2(body, REC_PID, start, end - start, offset, path, 1001);
	}
	if (maps != NULL)
		fclose(maps);
}

static void raw_sample(struct buf *out, const struct shot *shot, uint64_t mask, uint64_t time_ns, uint32_t tid)
{
	size_t at = rec_start(out, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	buf_u64(out, REC_IDS[0]);
	buf_u64(out, shot->regs[8]);
	buf_u32(out, REC_PID);
	buf_u32(out, tid);
	buf_u64(out, time_ns);
	buf_u32(out, 0);
	buf_u32(out, 0);
	buf_u64(out, REC_PERIOD_NS);
	buf_u64(out, 0); // call chain
	buf_u64(out, PERF_SAMPLE_REGS_ABI_64);
	for (int i = 0; i < 24; i++) {
		if (mask >> i & 1)
			buf_u64(out, shot->regs[i]);
	}
	buf_u64(out, sizeof(shot->stack));
	buf_add(out, shot->stack, sizeof(shot->stack));
	buf_u64(out, shot->stack_size);
	rec_end(out, at);
}

static uint64_t profile_hash(const struct profile *p)
{
	uint64_t hash = 0;
	for (size_t i = 0; i < p->samples.count; i++) {
		hash = hash_pair(hash, samples_at(&p->samples, i).end);
		for (uint32_t node = samples_at(&p->samples, i).stack; node != PROFILE_NONE; node = p->nodes.data[node].parent)
			hash = hash_pair(hash, p->nodes.data[node].frame);
	}
	return hash_pair(hash, p->frames.count);
}

static void raw_stacks(const struct shot *shots)
{
#if !defined(__x86_64__)
	skip("x86-64 only", "raw stacks of this process");
#else
	struct perf_event_attr attr = rec_attr(false);
	uint64_t mask = 0xff01ff;
	attr.sample_type = (attr.sample_type & ~(uint64_t)PERF_SAMPLE_RAW) | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	attr.sample_regs_user = mask;
	attr.sample_stack_user = sizeof(shots[0].stack);
	struct buf body = { 0 };
	rec_comm(&body, REC_PID, REC_PID, "self", true, 1000);
	add_own_maps(&body);
	for (uint32_t i = 0; i < 9000; i++)
		raw_sample(&body, &shots[i * 7 % SHOTS], mask, 2000 + i, REC_PID + i % 3);
	write_file(scratch_path("raw"), attr, &body);
	buf_release(&body);
	struct load_options options = options_for(scratch_path("raw"));
	struct err err = { 0 };
	struct profile p, q;
	options.jobs = 1;
	ok(load_profile(&p, &options, &err) && p.samples.count == 9000, "9,000 raw stacks (%s)", err.text);
	size_t roots = 0, same = 0;
	for (size_t i = 0; i < p.samples.count; i++) {
		const struct shot *shot = &shots[i * 7 % SHOTS];
		roots += samples_at(&p.samples, i).end == UNWIND_ROOT;
		// Of backtrace(3)'s frames the first is inside shoot, behind the call; ours was taken before it in the same function.
		uint32_t node = p.nodes.data[samples_at(&p.samples, i).stack].parent;
		int j = 1;
		if (j + 1 < shot->depth && p.frames.data[p.nodes.data[node].frame].addr == (uint64_t)(uintptr_t)shot->trace[j + 1])
			j++; // the compiler split it
		for (; j < shot->depth && node != PROFILE_NONE && p.frames.data[p.nodes.data[node].frame].addr == (uint64_t)(uintptr_t)shot->trace[j]; j++)
			node = p.nodes.data[node].parent;
		same += j == shot->depth;
		if (j != shot->depth && i == 0)
			diag("frame %d of %d: %#" PRIx64 ", backtrace(3) %p", j, shot->depth,
			     node != PROFILE_NONE ? p.frames.data[p.nodes.data[node].frame].addr : 0, shot->trace[j]);
	}
	diag("stack ends: %s", unwind_end_name((enum unwind_end)samples_at(&p.samples, 1).end));
	is_u64(same, 9000, "each as backtrace(3) saw it");
	is_u64(roots, 9000, "each to its root");
	ok(strstr(stack_text(&p, samples_get(&p.samples, 1, &(struct profile_sample){ 0 }), true), "main;shoot_all;descend;descend") != NULL, "%.100s", stack_text(&p, samples_get(&p.samples, 1, &(struct profile_sample){ 0 }), true));
	options.jobs = 4;
	ok(load_profile(&q, &options, &err), "by four threads");
	is_u64(profile_hash(&q), profile_hash(&p), "the result is the same");
	profile_release(&q);
	profile_release(&p);
#endif
}

// ---------------------------------------------------------------- recordings of others

static bool unpack(const char *from, const char *to)
{
	gzFile f = gzopen(from, "rb");
	FILE *g = f != NULL ? fopen(to, "wb") : NULL;
	char chunk[65536];
	for (int n; g != NULL && (n = gzread(f, chunk, sizeof(chunk))) > 0;)
		fwrite(chunk, 1, (size_t)n, g);
	if (f != NULL)
		gzclose(f);
	return g != NULL && fclose(g) == 0;
}

static void make_folders(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
}

// KDAB/perfparser's golden stacks: its unwinder is elfutils. Function names of the user part, leaf first, inline frames too.
static void compare_with_perfparser(const char *name, const char *binary, const char *where)
{
	char relative[256], from[4096], to[8192], stacks[512];
	snprintf(relative, sizeof(relative), "corpus/perfdata/binaries/%s", binary);
	const char *file = corpus_file(relative);
	if (file == NULL) {
		skip("no corpus (PERFSAMPLE_CORPUS)", "stacks of %s", name);
		return;
	}
	snprintf(from, sizeof(from), "%s", file);
	snprintf(to, sizeof(to), "%s%s", scratch_path("symfs"), where);
	make_folders(to);
	unpack(from, to);
	snprintf(relative, sizeof(relative), "corpus/perfdata/%s.data", name);
	file = corpus_file(relative);
	if (file == NULL) {
		strcat(relative, ".gz");
		file = corpus_file(relative);
	}
	unpack(file, scratch_path("kdab.data"));
	snprintf(relative, sizeof(relative), "corpus/perfdata/%s.data.expected-stacks.txt.gz", name);
	unpack(corpus_file(relative), scratch_path("kdab.txt"));
	snprintf(stacks, sizeof(stacks), "%s", scratch_path("symfs"));
	struct load_options options = options_for(scratch_path("kdab.data"));
	options.symfs = stacks;
	struct err err = { 0 };
	struct profile p;
	if (!ok(load_profile(&p, &options, &err), "%s is loaded (%s)", name, err.text))
		return;
	// In their text a frame is two lines; the second holds its function, if known, behind the last tab.
	FILE *f = fopen(scratch_path("kdab.txt"), "r");
	char line[8192];
	size_t sample = SIZE_MAX, compared = 0, same = 0;
	struct stack_step steps[512];
	size_t count = 0, at = 0;
	bool equal = true, second = false;
	while (f != NULL) {
		bool more = fgets(line, sizeof(line), f) != NULL;
		if (!more || (line[0] != '\t' && line[0] != '\n')) {
			if (sample != SIZE_MAX && at > 0) {
				compared++;
				same += equal && at == count;
			}
			if (!more)
				break;
			sample++;
			count = sample < p.samples.count ? profile_stack(&p, samples_at(&p.samples, sample).stack, true, steps, 512) : 0;
			size_t user = 0;
			for (size_t i = 0; i < count && !p.frames.data[steps[i].frame].is_kernel; i++)
				user++;
			count = user;
			at = 0;
			equal = true;
			second = false;
			continue;
		}
		if (line[0] == '\n' || strstr(line, "cycles:") != NULL)
			continue;
		if (second && strstr(line, "[kernel]") == NULL) {
			const char *function = strrchr(line, '\t') + 1;
			if (at < count) {
				const char *ours = profile_text(&p, p.functions.data[p.chains.data[steps[count - 1 - at].line].function].name);
				size_t length = strcspn(ours, "@");
				while (ours[0] == '_' && length > 0) // aliases differ in underscores
					ours++, length--;
				const char *theirs = function + strspn(function, "_");
				bool alias = strncmp(ours, "ieee754_hypot", 13) == 0 || strstr(ours, "@plt") != NULL; // theirs: _init
				if (!alias && strncmp(theirs, ours, length) != 0)
					equal = false;
			}
			at++;
		}
		second = !second;
	}
	if (f != NULL)
		fclose(f);
	ok(compared > 15 && same == compared, "%zu of %zu stacks of %s are as elfutils unwinds them", same, compared, name);
	profile_release(&p);
}

static void corpus_comms(void)
{
	const char *readme = corpus_file("corpus/README.md");
	if (readme == NULL) {
		skip("no corpus (PERFSAMPLE_CORPUS)", "comms of recordings of others");
		return;
	}
	char base[4096];
	snprintf(base, sizeof(base), "%.*sperfdata", (int)(strlen(readme) - strlen("README.md")), readme);
	struct dirent **found;
	int files = scandir(base, &found, NULL, alphasort);
	for (int i = 0; i < files; i++) {
		char path[8192], expected[8192];
		char *suffix = strstr(found[i]->d_name, ".expected.json");
		if (suffix != NULL) {
			snprintf(expected, sizeof(expected), "%s/%s", base, found[i]->d_name);
			*suffix = '\0';
			snprintf(path, sizeof(path), "%s/%s", base, found[i]->d_name);
			if (access(path, F_OK) != 0)
				strcat(path, ".gz");
			unpack(path, scratch_path("other"));
			struct load_options options = options_for(scratch_path("other"));
			struct err err = { 0 };
			struct profile p;
			json_t *doc = json_load_file(expected, 0, NULL), *comms = json_object_get(doc, "samples_by_comm"), *count;
			bool good = load_profile(&p, &options, &err);
			const char *comm;
			size_t off = 0;
			json_object_foreach(comms, comm, count) {
				long long mine = 0;
				for (size_t j = 0; j < p.samples.count; j++)
					mine += strcmp(profile_text(&p, samples_at(&p.samples, j).comm), comm) == 0;
				off += (size_t)llabs(mine - json_integer_value(count));
			}
			// A dead thread's samples (tid 0) are the idle task's for perf, the process's for us: one in q-armv7.
			ok(good && off <= (strncmp(found[i]->d_name, "q-armv7", 7) == 0 ? 2 : 0), "%s: comms as perf says (%zu off) %s", found[i]->d_name, off, err.text);
			json_decref(doc);
			profile_release(&p);
		}
		free(found[i]);
	}
	free(found);
}

static __attribute__((noinline)) void test_all(const struct shot *shots)
{
	our_own();
	reopened();
	order_of_time();
	chains_of_others();
	gaps();
	not_accounted();
	raw_stacks(shots);
	static const char kdab[] = "/home/milian/projects/kdab/rnd/hotspot/3rdparty/perfparser/tests/auto/perfdata";
	char where[512];
	snprintf(where, sizeof(where), "%s/vector_static_gcc/vector_static_gcc_v9.1.0", kdab);
	compare_with_perfparser("kdab-vector_static_gcc-dwarf", "vector_static_gcc_v9.1.0.gz", where);
	snprintf(where, sizeof(where), "%s/fork_static_gcc/fork", kdab);
	compare_with_perfparser("kdab-fork_static_gcc-zstd", "fork.gz", where);
	corpus_comms();
}

int main(void)
{
	struct shot *shots = mem_zero(SHOTS, sizeof(*shots));
	scratch_make();
#if defined(__x86_64__)
	shoot_all(shots);
#endif
	test_all(shots);
	free(shots);
	return tap_done();
}
