// Address spaces: overlapping maps, fork, exec, threads, numbers used again, huge pages, JIT code, KSYMBOL, reaping.
#include "proc/space.h"

#include <sys/mman.h>

#include "tests/tap.h"

static struct spaces *spaces;
static uint64_t now_ns;

static enum space_change map_as(int32_t pid, uint64_t start, uint64_t end, uint64_t pgoff, const char *path, uint32_t protection, uint16_t misc, bool synthesized)
{
	struct record r = { .type = PERF_RECORD_MMAP2, .misc = misc, .id.time_ns = ++now_ns };
	r.mapping = (struct record_mapping){ .pid = (uint32_t)pid, .tid = (uint32_t)pid, .start = start, .length = end - start, .pgoff = pgoff,
		.protection = protection, .path = path };
	return spaces_apply(spaces, &r, synthesized);
}

static void map(int32_t pid, uint64_t start, uint64_t end, uint64_t pgoff, const char *path)
{
	map_as(pid, start, end, pgoff, path, PROT_READ | PROT_EXEC, PERF_RECORD_MISC_USER, false);
}

static void fork_as(int32_t pid, int32_t parent, int32_t tid, int32_t parent_tid, bool synthesized)
{
	struct record r = { .type = PERF_RECORD_FORK, .id.time_ns = ++now_ns };
	r.task = (struct record_task){ .pid = (uint32_t)pid, .ppid = (uint32_t)parent, .tid = (uint32_t)tid, .ptid = (uint32_t)parent_tid, .time_ns = now_ns };
	spaces_apply(spaces, &r, synthesized);
}

static void leave(int32_t pid, int32_t tid)
{
	struct record r = { .type = PERF_RECORD_EXIT, .id.time_ns = ++now_ns };
	r.task = (struct record_task){ .pid = (uint32_t)pid, .ppid = 1, .tid = (uint32_t)tid, .ptid = 1, .time_ns = now_ns };
	spaces_apply(spaces, &r, false);
}

static enum space_change comm(int32_t pid, int32_t tid, const char *name, bool exec)
{
	struct record r = { .type = PERF_RECORD_COMM, .id.time_ns = ++now_ns };
	r.comm = (struct record_comm){ .pid = (uint32_t)pid, .tid = (uint32_t)tid, .comm = name, .is_exec = exec };
	return spaces_apply(spaces, &r, false);
}

static void ksymbol(uint64_t addr, uint32_t length, const char *name, uint16_t flags)
{
	struct record r = { .type = PERF_RECORD_KSYMBOL, .id.time_ns = ++now_ns };
	r.ksymbol = (struct record_ksymbol){ .addr = addr, .length = length, .type = 1, .flags = flags, .name = name };
	spaces_apply(spaces, &r, false);
}

static const char *path_at(int32_t pid, uint64_t addr)
{
	const struct mapping *m = spaces_find(spaces, pid, addr);
	return m == NULL ? "-" : dso_get(spaces_dsos(spaces), m->dso)->path;
}

static const char *thread_comm(int32_t pid, int32_t tid)
{
	return intern_text(spaces_names(spaces), spaces_thread(spaces, pid, tid)->comm);
}

static void test_overlap(void)
{
	map(1, 0x1000, 0x9000, 0, "/a");
	map(1, 0x3000, 0x5000, 0x700, "/b");
	is_str(path_at(1, 0x0fff), "-", "below everything");
	is_str(path_at(1, 0x1000), "/a", "first byte");
	is_str(path_at(1, 0x2fff), "/a", "left of what came later");
	is_str(path_at(1, 0x3000), "/b", "the later one wins");
	is_str(path_at(1, 0x4fff), "/b", "to its last byte");
	is_str(path_at(1, 0x5000), "/a", "right of it the older one goes on");
	is_str(path_at(1, 0x9000), "-", "the end is outside");
	is_u64(spaces_find(spaces, 1, 0x5000)->pgoff, 0x4000, "with the file offset of its new start");
	uint32_t before = spaces_process(spaces, 1)->maps->generation;
	map(1, 0x3000, 0x5000, 0x700, "/b");
	is_u64(spaces_process(spaces, 1)->maps->generation, before, "the same mapping again changes nothing");
	map_as(1, 0x4000, 0x6000, 0, "/data", PROT_READ | PROT_WRITE, PERF_RECORD_MISC_USER, false);
	is_str(path_at(1, 0x4800), "-", "data over code is a hole");
	is_str(path_at(1, 0x3800), "/b", "and ends only what it covers");
	is_u64(spaces_process(spaces, 1)->maps->count, 3, "three pieces are left");
	ok(spaces_process(spaces, 1)->maps->generation != before, "a change is a new generation");
	before = spaces_process(spaces, 1)->maps->generation;
	map_as(1, 0x40000, 0x60000, 0, "/data", PROT_READ, PERF_RECORD_MISC_USER, false);
	is_u64(spaces_process(spaces, 1)->maps->generation, before, "a hole where nothing was changes nothing");
	map(1, 0, UINT64_MAX, 0, "/all");
	is_u64(spaces_process(spaces, 1)->maps->count, 1, "one over all");
	map_as(1, UINT64_MAX - 0xfff, 0x1000, 0, "/wrap", PROT_EXEC, PERF_RECORD_MISC_USER, false);
	is_str(path_at(1, UINT64_MAX - 5), "/wrap", "a length beyond the end of addresses is cut there");
	is_u64(map_as(1, 0x5000, 0x5000, 0, "/none", PROT_EXEC, PERF_RECORD_MISC_USER, false), SPACE_NONE, "length 0 is nothing");
}

// Against a plain table of bytes: 3000 random mappings and holes over 256 pages.
static void test_random(void)
{
	uint32_t owner[256] = { 0 }, offset[256] = { 0 }, random = 12345;
	bool same = true, sorted = true;
	for (unsigned round = 0; round < 3000 && same && sorted; round++) {
		char path[16];
		random = random * 1664525 + 1013904223;
		unsigned start = random >> 24, length = 1 + (random >> 16) % 40, end = start + length > 256 ? 256 : start + length;
		bool hole = (random >> 10) % 5 == 0;
		snprintf(path, sizeof(path), "/f%u", round % 7 + 1);
		map_as(77, start * 4096ull, end * 4096ull, round * 4096ull, path, hole ? PROT_READ : PROT_EXEC, PERF_RECORD_MISC_USER, false);
		for (unsigned p = start; p < end; p++) {
			owner[p] = hole ? 0 : round % 7 + 1;
			offset[p] = round + p - start;
		}
		for (unsigned p = 0; p < 256; p++) {
			const struct mapping *m = spaces_find(spaces, 77, p * 4096ull + 5);
			snprintf(path, sizeof(path), "/f%u", owner[p]);
			same &= (m != NULL) == (owner[p] != 0);
			if (m != NULL)
				same &= strcmp(dso_get(spaces_dsos(spaces), m->dso)->path, path) == 0 && m->pgoff + (p * 4096ull - m->start) == offset[p] * 4096ull;
		}
		const struct maps *maps = spaces_process(spaces, 77)->maps;
		for (uint32_t i = 0; i < maps->count; i++)
			sorted &= maps->items[i].start < maps->items[i].end && (i == 0 || maps->items[i - 1].end <= maps->items[i].start);
	}
	ok(same, "3000 random mappings and holes: as a table of pages says");
	ok(sorted, "sorted and without overlap throughout");
}

static void test_tasks(void)
{
	comm(100, 100, "server", true);
	map(100, 0x1000, 0x2000, 0, "/bin/server");
	comm(100, 100, "main", false);
	fork_as(100, 100, 101, 100, false);
	is_str(thread_comm(100, 101), "main", "a thread inherits the comm of the thread that made it");
	comm(100, 101, "worker", false);
	fork_as(200, 100, 200, 101, false);
	is_str(thread_comm(200, 200), "worker", "a process, the comm of the thread that forked");
	is_str(path_at(200, 0x1800), "/bin/server", "and the parent's maps");
	ok(spaces_process(spaces, 200)->maps == spaces_process(spaces, 100)->maps, "shared, not copied");
	struct maps *kept = maps_retain(spaces_process(spaces, 200)->maps);
	map(200, 0x8000, 0x9000, 0, "/lib/plugin");
	is_str(path_at(100, 0x8800), "-", "a change in the child is not seen in the parent");
	ok(maps_find(kept, 0x8800) == NULL && maps_find(kept, 0x1800) != NULL, "nor in maps that a sample kept");
	maps_release(kept);
	is_u64(spaces_process(spaces, 200)->parent_pid, 100, "parent");
	ok(spaces_process(spaces, 200)->maps_known, "maps of a fork of a known process are known");
	is_u64(comm(200, 200, "sh", true), SPACE_EXECED, "exec");
	is_str(path_at(200, 0x1800), "-", "exec clears the maps");
	is_str(path_at(100, 0x1800), "/bin/server", "of that process alone");
	ok(spaces_process(spaces, 200)->has_exec, "has_exec");
	is_str(intern_text(spaces_names(spaces), spaces_process(spaces, 200)->comm), "sh", "comm of the process");
	spaces_process(spaces, 100)->is_target = true;
	fork_as(201, 100, 201, 100, false);
	ok(spaces_process(spaces, 201)->is_target && !spaces_process(spaces, 200)->is_target, "descent is inherited at the fork");
}

static void test_synthesized(void)
{
	comm(300, 300, "own", true);
	map(300, 0x1000, 0x2000, 0, "/bin/own");
	comm(301, 301, "other", true);
	map(301, 0x5000, 0x6000, 0, "/bin/other");
	fork_as(300, 301, 300, 301, true);
	is_str(path_at(300, 0x1800), "/bin/own", "a synthesized FORK leaves maps alone");
	is_u64(spaces_process(spaces, 300)->parent_pid, 301, "but tells the parent");
	is_str(thread_comm(300, 300), "own", "and leaves the comm alone");
	fork_as(302, 301, 302, 301, true);
	is_str(path_at(302, 0x5800), "-", "nor does it give the parent's maps: /proc's follow");
	ok(spaces_process(spaces, 302)->maps_known, "maps from /proc are known");
	ok(!spaces_process(spaces, 399)->maps_known, "a process first seen by a bare record has none known");
	map_as(399, 0x1000, 0x2000, 0, "/x", PROT_EXEC, PERF_RECORD_MISC_USER, true);
	ok(spaces_process(spaces, 399)->maps_known, "until /proc is read");
	spaces_forget_maps(spaces, 399);
	ok(!spaces_process(spaces, 399)->maps_known && spaces_process(spaces, 399)->maps->count == 0, "forgotten for a new reading");
}

static void test_reuse(void)
{
	comm(400, 400, "first", true);
	map(400, 0x1000, 0x2000, 0, "/bin/first");
	fork_as(400, 400, 401, 400, false);
	leave(400, 400);
	ok(!spaces_process(spaces, 400)->exited, "the main thread's end is not the process's while others live");
	is_str(path_at(400, 0x1800), "/bin/first", "its maps stay");
	leave(400, 401);
	ok(spaces_process(spaces, 400)->exited, "it ends with its last thread");
	is_str(path_at(400, 0x1800), "/bin/first", "and is kept for samples on their way");
	comm(500, 500, "parent", true);
	map(500, 0x1000, 0x2000, 0, "/bin/parent");
	fork_as(400, 500, 400, 500, false);
	is_str(path_at(400, 0x1800), "/bin/parent", "the number used again: a new process with its parent's maps");
	ok(!spaces_process(spaces, 400)->exited, "alive");
	is_str(thread_comm(400, 400), "parent", "with its parent's comm");
	spaces_reap(spaces, now_ns + 1);
	ok(spaces_find_process(spaces, 400) != NULL, "the old death does not reap the new process");
	leave(400, 400);
	spaces_reap(spaces, now_ns);
	ok(spaces_find_process(spaces, 400) != NULL, "not reaped before its time");
	spaces_reap(spaces, now_ns + 1);
	ok(spaces_find_process(spaces, 400) == NULL, "reaped");
	leave(499, 499);
	ok(spaces_find_process(spaces, 499) == NULL, "the end of a stranger makes nothing");
	for (int32_t tid = 10000; tid < 10100; tid++) {
		fork_as(500, 500, tid, 500, false);
		leave(500, tid);
	}
	spaces_reap(spaces, now_ns + 1);
	ok(spaces_find_process(spaces, 500) != NULL && !spaces_process(spaces, 500)->exited, "threads come and go, their process stays");
	struct record in_memory = { .type = PERF_RECORD_MMAP2, .misc = PERF_RECORD_MISC_USER, .id.time_ns = ++now_ns };
	in_memory.mapping = (struct record_mapping){ .pid = 540, .tid = 540, .start = 0x1000, .length = 0x1000, .protection = PROT_READ | PROT_EXEC, .path = "/memfd:x (deleted)" };
	spaces_apply(spaces, &in_memory, false);
	is_u64(dso_get(spaces_dsos(spaces), spaces_find(spaces, 540, 0x1800)->dso)->kind, DSO_ANON, "a memfd may hold a JIT compiler's code");
	in_memory.mapping.build_id = (struct build_id){ .size = 20 };
	spaces_apply(spaces, &in_memory, false);
	is_u64(dso_get(spaces_dsos(spaces), spaces_find(spaces, 540, 0x1800)->dso)->kind, DSO_FILE, "or, where it has a build ID, a program");
	spaces_forget_process(spaces, 540);
	comm(550, 550, "sudo", true);
	leave(550, 550);
	map(550, 0x1000, 0x2000, 0, "/bin/sudo");
	ok(!spaces_process(spaces, 550)->exited, "exec of a set-user-ID program says EXIT, but maps what it runs");
	spaces_reap(spaces, now_ns + 1);
	is_str(path_at(550, 0x1800), "/bin/sudo", "nothing of it is reaped");
	spaces_forget_process(spaces, 550);
	comm(600, 600, "multi", true);
	fork_as(600, 600, 601, 600, false);
	comm(600, 600, "execed", true);
	leave(600, 600);
	ok(spaces_process(spaces, 600)->exited, "exec ended the other threads");
	spaces_forget_process(spaces, 600);
	ok(spaces_find_process(spaces, 600) == NULL, "forgotten at once when asked");
}

static void test_huge_pages(void)
{
	const uint64_t mib = 1 << 20;
	map(700, 0x400000, 0x400000 + 9 * mib, 0x1000, "/usr/bin/node");
	map(700, 0x600000, 0x600000 + 6 * mib, 0, "//anon");
	is_str(path_at(700, 0x700000), "/usr/bin/node", "text copied to huge pages keeps its file");
	is_u64(spaces_find(spaces, 700, 0x700000)->pgoff + (0x700000 - spaces_find(spaces, 700, 0x700000)->start), 0x301000, "and offset");
	map(700, 0x800000, 0xa00000, 0, "/anon_hugepage (deleted)");
	is_str(path_at(700, 0x900000), "/usr/bin/node", "as hugetlb pages too");
	map(700, 0x601000, 0x603000, 0, "//anon");
	is_str(path_at(700, 0x602000), "//anon", "code not on huge page bounds is new code");
	map(701, 0x400000, 0x400000 + 2 * mib, 0, "/lib/gone.so");
	map(701, 0x400000, 0x400000 + 64 * mib, 0, "//anon");
	is_str(path_at(701, 0x500000), "//anon", "a JIT's heap over a library that was unloaded is the JIT's");
}

static void test_jit(void)
{
	map(800, 0x100000, 0x200000, 0, "//anon");
	map(800, 0x110000, 0x111000, 0x80, "/tmp/jit-800.dump");
	map(800, 0x150000, 0x152000, 0x80, "/tmp/jitted-800-2.so");
	map(800, 0x100000, 0x300000, 0, "//anon");
	is_str(path_at(800, 0x110800), "/tmp/jit-800.dump", "a later anonymous map does not hide a jitdump's code");
	is_str(path_at(800, 0x151800), "/tmp/jitted-800-2.so", "nor a second one");
	is_str(path_at(800, 0x112000), "//anon", "and fills what lies between");
	is_str(path_at(800, 0x2fffff), "//anon", "and behind");
	uint32_t generation = spaces_process(spaces, 800)->maps->generation;
	map(800, 0x100000, 0x300000, 0, "//anon");
	is_u64(spaces_process(spaces, 800)->maps->generation, generation, "code mapped again is the same");
	spaces_renew(spaces, 800, 0x200000);
	ok(spaces_process(spaces, 800)->maps->generation != generation && spaces_find(spaces, 800, 0x200000)->serial == 1 &&
	   spaces_find(spaces, 800, 0x112000)->serial == 0, "unless it is said to be new");
	spaces_renew(spaces, 800, 0x900000);
	map(800, 0x110000, 0x120000, 0, "/lib/real.so");
	is_str(path_at(800, 0x110800), "/lib/real.so", "a file mapped there does end it");
}

static void test_vdso(void)
{
	map(810, 0x7ffff7fc9000, 0x7ffff7fcb000, 0, "[vdso]");
	map(811, 0xf7fc9000, 0xf7fcb000, 0, "[vdso]");
	is_str(path_at(810, 0x7ffff7fca000), "[vdso]", "a vdso");
	is_str(path_at(811, 0xf7fca000), "[vdso32]", "and that of a 32-bit process, which the kernel calls the same");
}

static void test_kernel(void)
{
	const uint64_t text = 0xffffffff81000000;
	map_as(-1, text, text + 0x1000000, text, "[kernel.kallsyms]_text", PROT_EXEC, PERF_RECORD_MISC_KERNEL, true);
	map_as(-1, 0xffffffffc0000000, 0xffffffffc0010000, 0, "[ext4]", PROT_EXEC, PERF_RECORD_MISC_KERNEL, true);
	is_str(dso_get(spaces_dsos(spaces), spaces_find_kernel(spaces, text + 5)->dso)->path, "[kernel.kallsyms]_text", "kernel");
	is_u64(dso_get(spaces_dsos(spaces), spaces_find_kernel(spaces, 0xffffffffc0000005)->dso)->kind, DSO_MODULE, "module");
	ksymbol(0xffffffffc1000000, 0x100, "bpf_prog_1234_x", 0);
	is_str(dso_get(spaces_dsos(spaces), spaces_find_kernel(spaces, 0xffffffffc1000050)->dso)->path, "bpf_prog_1234_x", "BPF program");
	ksymbol(0xffffffffc1000000, 0x100, "bpf_prog_1234_x", PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER);
	ok(spaces_find_kernel(spaces, 0xffffffffc1000050) == NULL, "unloaded");
	ksymbol(text, 0x100, "nonsense", PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER);
	ok(spaces_find_kernel(spaces, text) != NULL, "the kernel's text cannot be unregistered");
	is_str(thread_comm(0, 0), "swapper", "the idle task has a name");
	is_u64(map_as(0, 0x1000, 0x2000, 0, "[guest.kernel.kallsyms]", PROT_EXEC, PERF_RECORD_MISC_GUEST_KERNEL, true), SPACE_NONE, "a guest's addresses are not ours");
}

// What a broken or hostile file can say: more maps than any process has, and many processes that each changed them.
static void test_limits(void)
{
	for (uint64_t i = 70000; i > 0; i--)
		map(900, i << 13, (i << 13) + 4096, 0, "/bin/many");
	is_u64(spaces_process(spaces, 900)->maps->count, 65536, "mappings of one process are bounded");
	is_u64(spaces_refused_mappings(spaces), 70000 - 65536, "the others counted");
	map_as(900, 0, UINT64_MAX, 0, "/data", PROT_READ, PERF_RECORD_MISC_USER, false);
	is_u64(spaces_process(spaces, 900)->maps->count, 0, "a full one can still shrink");
	for (uint64_t i = 1; i <= 60000; i++)
		map(900, i << 13, (i << 13) + 4096, 0, "/bin/many");
	uint64_t before = spaces_refused_mappings(spaces);
	spaces_limit_bytes(spaces, 64 << 20);
	for (int32_t i = 0; i < 100; i++) {
		fork_as(60000 + i, 900, 60000 + i, 900, false);
		map(60000 + i, 0x1000, 0x2000, 0, "/bin/one");
	}
	uint64_t refused = spaces_refused_mappings(spaces) - before;
	ok(refused > 60 && refused < 90, "a hundred changed copies of 2 MB, 64 MB in all: %llu are refused", (unsigned long long)refused);
	for (int32_t i = 0; i < 100; i++)
		spaces_forget_process(spaces, 60000 + i);
	before = spaces_refused_mappings(spaces);
	fork_as(60000, 900, 60000, 900, false);
	map(60000, 0x1000, 0x2000, 0, "/bin/one");
	is_u64(spaces_refused_mappings(spaces), before, "what is freed can be used again");
	spaces_forget_process(spaces, 60000);
	spaces_forget_process(spaces, 900);
}

static uint32_t dso_at(int32_t pid, uint64_t addr)
{
	const struct mapping *m = spaces_find(spaces, pid, addr);
	return m == NULL ? DSO_NONE : m->dso;
}

// Generated code of two programs that a process executes one after the other, and of a later process of that number, is not the same.
static void test_programs(void)
{
	fork_as(700, 100, 700, 100, false);
	map(700, 0x30000, 0x31000, 0, "//anon");
	uint32_t forked = dso_at(700, 0x30000), executed, later;
	fork_as(701, 700, 701, 700, false);
	is_u64(dso_at(701, 0x30000), forked, "what was there at a fork is its parent's");
	comm(700, 700, "next", true);
	uint64_t exec_ns = now_ns;
	map(700, 0x30000, 0x31000, 0, "//anon");
	executed = dso_at(700, 0x30000);
	ok(executed != forked, "another program's code at the same place");
	is_u64(dso_get(spaces_dsos(spaces), executed)->since_ns, exec_ns, "by the time of the exec");
	map(700, 0x40000, 0x41000, 0, "//anon");
	is_u64(dso_at(700, 0x40000), executed, "all code of a program is one image");
	leave(700, 700);
	fork_as(700, 100, 700, 100, false);
	map(700, 0x30000, 0x31000, 0, "//anon");
	later = dso_at(700, 0x30000);
	ok(later != executed && later != forked, "nor is that of a process that gets the number again");
	map(700, 0x50000, 0x51000, 0, "/lib/plugin");
	is_u64(dso_get(spaces_dsos(spaces), dso_at(700, 0x50000))->since_ns, 0, "a file is one for all");
}

// What perf synthesizes of a process whose text stands in huge pages already: two mappings of a file and between them what it was moved to.
static void hole(int32_t pid, uint64_t start, uint64_t end, const char *above, uint64_t above_pgoff)
{
	map(pid, 0x1f0000, start, 0x1000, "/bin/huge");
	map(pid, start, end, 0, "//anon");
	map(pid, end, end + 0x3000, above_pgoff, above);
}

static void test_holes(void)
{
	hole(800, 0x400000, 0xc00000, "/bin/huge", 0xc00000 - 0x1f0000 + 0x1000);
	is_str(path_at(800, 0x500000), "//anon", "a hole stays one where the recorder looked into it");
	spaces_fill_holes(spaces);
	hole(801, 0x400000, 0xc00000, "/bin/huge", 0xc00000 - 0x1f0000 + 0x1000);
	is_str(path_at(801, 0x500000), "/bin/huge", "text in the hole");
	is_u64(spaces_find(spaces, 801, 0x500000)->pgoff, 0x400000 - 0x1f0000 + 0x1000, "at its place in the file");
	is_str(path_at(801, 0xc01000), "/bin/huge", "what is above it stays");
	hole(802, 0x400000, 0xc00000, "/bin/huge", 0x5000);
	is_str(path_at(802, 0x500000), "//anon", "not where the file goes on elsewhere");
	hole(803, 0x400000, 0xc00000, "/bin/other", 0xc00000 - 0x1f0000 + 0x1000);
	is_str(path_at(803, 0x500000), "//anon", "not between two files");
	hole(804, 0x401000, 0xc00000, "/bin/huge", 0xc00000 - 0x1f0000 + 0x1000);
	is_str(path_at(804, 0x500000), "//anon", "not where it is no whole huge pages");
	map(805, 0x1f0000, 0x3ff000, 0x1000, "/bin/huge");
	map(805, 0x400000, 0xc00000, 0, "//anon");
	map(805, 0xc00000, 0xc03000, 0xc00000 - 0x1f0000 + 0x1000, "/bin/huge");
	is_str(path_at(805, 0x500000), "//anon", "not where it does not fill the hole");
}

static void count_ascending(struct process *process, void *context)
{
	int32_t *last = context;
	*last = *last == INT32_MAX || process->pid <= *last ? INT32_MAX : process->pid;
}

static void test_storm(void)
{
	size_t bytes_before = spaces_dsos(spaces)->arena.bytes;
	for (int32_t i = 0; i < 20000; i++) { // fork, exec, map, exit; numbers come again
		int32_t pid = 50000 + i % 1000;
		fork_as(pid, 500, pid, 500, false);
		comm(pid, pid, "cc1", true);
		map(pid, 0x400000, 0x500000, 0, "/usr/lib/gcc/cc1");
		leave(pid, pid);
		if (i % 100 == 99)
			spaces_reap(spaces, now_ns - 50);
	}
	spaces_reap(spaces, now_ns + 1);
	unsigned left = 0;
	for (int32_t pid = 50000; pid < 51000; pid++)
		left += spaces_find_process(spaces, pid) != NULL;
	is_u64(left, 0, "20,000 processes: none is left after reaping");
	ok(spaces_dsos(spaces)->arena.bytes - bytes_before < 4096, "and their binary is one row");
	int32_t last = INT32_MIN;
	spaces_each_process(spaces, count_ascending, &last);
	ok(last != INT32_MAX && last != INT32_MIN, "processes are visited in ascending pid");
}

int main(void)
{
	spaces = spaces_new();
	test_overlap();
	test_random();
	test_tasks();
	test_synthesized();
	test_reuse();
	test_huge_pages();
	test_jit();
	test_vdso();
	test_kernel();
	test_programs();
	test_holes();
	test_storm();
	test_limits();
	spaces_free(spaces);
	return tap_done();
}
