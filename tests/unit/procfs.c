// /proc: lists, parsing of what other hosts and hostile names may put there, synthesized records, races.
#include "proc/procfs.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/record.h"
#include "proc/procfs_read.h"
#include "tests/scratch.h"

static const char *file_of(const char *name, const char *text, size_t size)
{
	static char path[4][128];
	static unsigned next;
	char *p = path[next++ % 4];
	snprintf(p, sizeof(path[0]), "%s/%s", scratch, name);
	FILE *f = fopen(p, "w");
	fwrite(text, 1, size, f);
	fclose(f);
	return p;
}

static bool holds(const struct procfs_ids *ids, int32_t id)
{
	for (size_t i = 0; i < ids->ids.count; i++)
		if (ids->ids.data[i] == id)
			return true;
	return false;
}

static void parsing(void)
{
	struct { const char *line; bool good; uint64_t start, end, pgoff, inode; uint32_t major, minor, protection; bool shared; const char *path; } cases[] = {
		{ "55e0c5a00000-55e0c5a02000 r-xp 00002000 fd:01 1053771                    /usr/bin/cat", true, 0x55e0c5a00000, 0x55e0c5a02000, 0x2000, 1053771,
		  0xfd, 1, PROT_READ | PROT_EXEC, false, "/usr/bin/cat" },
		{ "00400000-00401000 r-xp 00000000 00:1f 7 /a b\\012c  d (deleted)", true, 0x400000, 0x401000, 0, 7, 0, 0x1f, PROT_READ | PROT_EXEC, false,
		  "/a b\nc  d (deleted)" },
		{ "7ffff7fc9000-7ffff7fcb000 rwxs 00000000 00:00 0 ", true, 0x7ffff7fc9000, 0x7ffff7fcb000, 0, 0, 0, 0, PROT_READ | PROT_WRITE | PROT_EXEC, true, "" },
		{ "7ffff7fc9000-7ffff7fcb000 r-xp 00000000 00:00 0                          [vdso]", true, 0x7ffff7fc9000, 0x7ffff7fcb000, 0, 0, 0, 0,
		  PROT_READ | PROT_EXEC, false, "[vdso]" },
		{ "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]", true, 0xffffffffff600000, 0xffffffffff601000, 0, 0, 0, 0,
		  PROT_EXEC, false, "[vsyscall]" },
		{ "1000-2000 r-xp ffffffffffff0000 103:ff00 18446744073709551615 /x", true, 0x1000, 0x2000, 0xffffffffffff0000, UINT64_MAX, 0x103, 0xff00,
		  PROT_READ | PROT_EXEC, false, "/x" },
		{ "1000-2000 r-xp 0 00:00 0", true, 0x1000, 0x2000, 0, 0, 0, 0, PROT_READ | PROT_EXEC, false, "" },
		{ "", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "1000", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "1000-", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "1000-2000", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "1000-2000 r-x", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "1000-2000 r-xp ", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "1000-2000 r-xp 0 00", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "1000-2000 r-xp 0 00:00 ", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "1000-2000 r-xp 0 00:00 99999999999999999999 /x", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "1000-2000 r-xp 0 100000000:00 1 /x", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "2000-1000 r-xp 0 00:00 0 /x", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "1000-1000 r-xp 0 00:00 0 /x", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "11111111111111111-2 r-xp 0 00:00 0 /x", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
		{ "1000-2g00 r-xp 0 00:00 0 /x", false, 0, 0, 0, 0, 0, 0, 0, false, "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *line = strdup(cases[i].line);
		struct proc_mapping m = { 0 };
		bool good = proc_mapping_parse(line, &m);
		ok(good == cases[i].good && (!good || (m.start == cases[i].start && m.end == cases[i].end && m.pgoff == cases[i].pgoff && m.inode == cases[i].inode &&
		   m.major == cases[i].major && m.minor == cases[i].minor && m.protection == cases[i].protection && m.is_shared == cases[i].shared &&
		   strcmp(m.path, cases[i].path) == 0)), "%s '%s'", good ? "parsed" : "refused", cases[i].line);
		free(line);
	}
	// Every prefix of a good line is either refused or parsed within its bytes (the sanitizers watch).
	const char *whole = cases[1].line;
	for (size_t n = 0; n <= strlen(whole); n++) {
		char *line = strndup(whole, n);
		struct proc_mapping m;
		proc_mapping_parse(line, &m);
		free(line);
	}
	struct proc_stat stat;
	ok(proc_stat_parse("42 (a) (b c) 3) R 7 42 42 0 -1 4194560 114 0 0 0 123 45 0 0 20 0 1 0 116926", &stat) && stat.parent_pid == 7 &&
	   stat.flags == 4194560 && stat.user_ticks == 123 && stat.system_ticks == 45, "stat of a command named 'a) (b c) 3'");
	uint32_t cpu;
	uint64_t ticks;
	ok(proc_idle_parse("cpu12 10 20 30 400 5 6 7 8 9 10", &cpu, &ticks) && cpu == 12 && ticks == 405, "a CPU's idle time, waiting for disks included");
	ok(!proc_idle_parse("cpu  1 2 3 4 5 6", &cpu, &ticks) && !proc_idle_parse("intr 5", &cpu, &ticks) && !proc_idle_parse("cpu1 2 3", &cpu, &ticks),
	   "the sum of all, another line, one cut short");
	uint64_t idle_ns, later_ns;
	ok(procfs_idle_ns(&(uint32_t){ 0 }, 1, &idle_ns) && procfs_idle_ns(&(uint32_t){ 0 }, 1, &later_ns) && later_ns >= idle_ns, "CPU 0 grows no younger");
	ok(!procfs_idle_ns(&(uint32_t){ 4000000 }, 1, &idle_ns), "a CPU that is not there");
	ok(!proc_stat_parse("42 (a", &stat) && !proc_stat_parse("", &stat) && !proc_stat_parse("42 (a) R", &stat), "a stat cut short");
	bool is_v1;
	is_str(procfs_cgroup_line("0::/a:b", &is_v1), "/a:b", "a cgroup path with a colon");
	ok(procfs_cgroup_line("3:cpu,cpuacct:/x", &is_v1) == NULL && procfs_cgroup_line("0::", &is_v1) == NULL && procfs_cgroup_line("7:xperf_event:/x", &is_v1) == NULL &&
	   procfs_cgroup_line("", &is_v1) == NULL && procfs_cgroup_line("0:", &is_v1) == NULL, "lines of other hierarchies, broken lines");
	uint32_t *cpus = NULL;
	size_t count = 0;
	ok(procfs_cpu_list_parse("0-3,7,9-10\n", &cpus, &count) && count == 7 && cpus[3] == 3 && cpus[4] == 7 && cpus[6] == 10, "a list of CPUs");
	free(cpus);
	ok(!procfs_cpu_list_parse("", &cpus, &count) && !procfs_cpu_list_parse("3-1\n", &cpus, &count) && !procfs_cpu_list_parse("0-99999999\n", &cpus, &count) &&
	   !procfs_cpu_list_parse("0-3x", &cpus, &count), "lists that are none");
}

static void lines(void)
{
	struct buf text = { 0 };
	struct proc_lines reader;
	size_t length;

	buf_string(&text, "first\n\n");
	for (int i = 0; i < 70000; i++)
		buf_byte(&text, 'x'); // longer than any line of /proc: skipped
	buf_string(&text, "\nthird\n");
	for (int i = 0; i < 40000; i++)
		buf_byte(&text, 'y'); // longer than a chunk, and without a newline at the end
	const char *path = file_of("lines", text.data, text.size);
	bool good = proc_lines_open(&reader, path);
	char *line = proc_lines_next(&reader, &length);
	ok(good && line != NULL && strcmp(line, "first") == 0, "first line");
	line = proc_lines_next(&reader, &length);
	ok(line != NULL && length == 0, "an empty line");
	line = proc_lines_next(&reader, &length);
	ok(line != NULL && strcmp(line, "third") == 0, "a line too long is skipped");
	line = proc_lines_next(&reader, &length);
	ok(line != NULL && length == 40000 && strlen(line) == 40000 && line[0] == 'y', "the last line without a newline");
	ok(proc_lines_next(&reader, &length) == NULL && proc_lines_next(&reader, &length) == NULL, "then no more");
	proc_lines_close(&reader);
	buf_release(&text);
	ok(!proc_lines_open(&reader, "/no/such/file"), "a file that is not there");
	proc_lines_close(&reader);
}

static void *idle(void *context)
{
	prctl(PR_SET_NAME, "wo rker)");
	*(volatile pid_t *)context = gettid();
	for (;;)
		pause();
	return NULL;
}

static void lists(void)
{
	struct procfs_ids ids = { 0 };
	struct err err = { 0 };
	struct procfs_status status;

	ok(procfs_pids(&ids, &err) && holds(&ids, getpid()) && holds(&ids, 1), "pids: %zu, ours among them", ids.ids.count);
	ok(procfs_threads(getpid(), &ids, &err) && ids.ids.count >= 2 && holds(&ids, getpid()), "threads: %zu", ids.ids.count);
	ok(!procfs_threads(999999999, &ids, &err) && strstr(err.text, "999999999") != NULL, "threads of nobody: %s", err.text);
	ok(procfs_pids_of_uid(geteuid(), &ids, &err) && holds(&ids, getpid()), "pids of our user: %zu", ids.ids.count);
	ok(!procfs_pids_of_uid(3999999999u, &ids, &err), "of a user without any: %s", err.text);

	pid_t child = fork();
	if (child == 0) {
		if (fork() == 0)
			for (;;)
				pause();
		for (;;)
			pause();
	}
	for (int i = 0; i < 60000 && (!procfs_descendants(child, &ids) || ids.ids.count == 0); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	int32_t grandchild = ids.ids.count == 1 ? ids.ids.data[0] : 0;
	ok(grandchild > 0, "a child has one child");
	ok(procfs_descendants(getpid(), &ids) && holds(&ids, child) && holds(&ids, grandchild) && !holds(&ids, getpid()), "and we have both below us");
	ok(procfs_descendants_of((int32_t[]){ child, getpid(), 999999999 }, 3, &ids) && !holds(&ids, child) && holds(&ids, grandchild),
	   "those of several: the given ones are not their own descendants");
	ok(procfs_descendants(1, &ids) && holds(&ids, getpid()), "pid 1 has us below it");
	ok(procfs_status(child, &status) && status.pid == child && status.tgid == child && status.parent_pid == getpid() && status.threads == 1 &&
	   status.euid == geteuid() && status.ns_pid > 0 && !status.is_kernel_thread && strcmp(status.comm, "procfs") == 0, "its status: %s", status.comm);
	enum { MANY = 110 }; // too many to be found from child to child
	pid_t many[MANY];
	for (int i = 0; i < MANY; i++)
		if ((many[i] = fork()) == 0)
			for (;;)
				pause();
	ok(procfs_descendants(getpid(), &ids) && ids.ids.count == MANY + 2 && holds(&ids, grandchild) && holds(&ids, many[0]) && holds(&ids, many[MANY - 1]),
	   "%d more children: %zu below us", MANY, ids.ids.count);
	for (int i = 0; i < MANY; i++) {
		kill(many[i], SIGKILL);
		waitpid(many[i], NULL, 0);
	}
	ok(procfs_descendants(getpid(), &ids) && ids.ids.count == 2, "without them: %zu", ids.ids.count);
	kill(grandchild, SIGKILL);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ok(!procfs_status(child, &status), "and when it is gone");
	ok(procfs_descendants(child, &ids) == false, "nor has it descendants");
	if (procfs_status(2, &status) && strcmp(status.comm, "kthreadd") == 0)
		ok(status.is_kernel_thread, "kthreadd is a kernel thread");
	else
		skip("pid 2 is not kthreadd here", "a kernel thread");
	vec_release(&ids.ids);

	struct timespec t;
	uint64_t cpu = procfs_cpu_ns(getpid());
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	uint64_t real = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	ok(cpu <= real + 20000000 && cpu + 40000000 >= real, "CPU time %llu of %llu ns", (unsigned long long)cpu, (unsigned long long)real);
	is_u64(procfs_cpu_ns(999999999), 0, "CPU time of nobody");
	int here;
	uint64_t top = procfs_stack_top(getpid(), (uint64_t)(uintptr_t)&here);
	ok(top > (uint64_t)(uintptr_t)&here && top - (uint64_t)(uintptr_t)&here < (8u << 20) && top % 4096 == 0, "top of our stack");
	is_u64(procfs_stack_top(getpid(), 8), 0, "nothing at address 8");
	is_u64(procfs_stack_top(999999999, 8), 0, "nor in nobody");
	char path[4096];
	ok(procfs_cgroup_path(getpid(), path, sizeof(path)) && path[0] == '/', "our cgroup: %s", path);
	uint32_t *cpus = NULL;
	size_t count = 0;
	ok(procfs_online_cpus(&cpus, &count, &err) && count == (size_t)sysconf(_SC_NPROCESSORS_ONLN), "%zu online CPUs", count);
	free(cpus);
	is_u64((uint64_t)procfs_number(file_of("number", "-1\n", 3), 7), (uint64_t)-1, "a negative number");
	is_u64((uint64_t)procfs_number(file_of("number", "many\n", 5), 7), 7, "a file without one");
	is_u64((uint64_t)procfs_number("/no/such/file", 7), 7, "no such file");
}

// A process of a nested pid namespace, which only root can make everywhere.
static void namespaces(void)
{
	struct procfs_ids ids = { 0 };
	struct procfs_status status;

	if (geteuid() != 0) {
		skip("needs root", "a pid of an inner namespace");
		return;
	}
	int ready[2];
	if (pipe(ready) != 0)
		return;
	pid_t outer = fork();
	if (outer == 0) {
		if (unshare(CLONE_NEWPID) != 0)
			_exit(1);
		pid_t inner = fork();
		if (inner == 0)
			for (;;)
				pause();
		if (write(ready[1], &inner, sizeof(inner)) < 0)
			_exit(1);
		waitpid(inner, NULL, 0);
		_exit(0);
	}
	close(ready[1]);
	pid_t inner = 0;
	if (read(ready[0], &inner, sizeof(inner)) != sizeof(inner)) {
		skip("pid namespaces cannot be made here", "a pid of an inner namespace");
	} else {
		ok(procfs_status(inner, &status) && status.ns_pid == 1, "pid %d is 1 in its namespace", (int)inner);
		ok(procfs_pids_of_ns_pid(1, &ids) && holds(&ids, inner) && !holds(&ids, 1), "looked up by that, it is found; our own pid 1 is not meant");
	}
	kill(inner, SIGKILL);
	waitpid(outer, NULL, 0);
	close(ready[0]);
	vec_release(&ids.ids);
}

// ---------------------------------------------------------------- synthesized records

static const uint64_t trailer[4] = { 0x1111, 0, 0x3333, 0x4444 }; // TID, TIME, ID, CPU of sample_id_all

struct summary { unsigned forks, comms, mappings, others; bool whole, trailers, executable; uint64_t code; bool code_found; const char *odd_path; bool odd_found; bool anon_found; int32_t worker; bool worker_named; };

static void summarize(struct buf *out, int32_t pid, struct summary *s)
{
	struct record_layout layout;
	struct perf_event_attr attr = { .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_CPU, .sample_id_all = 1 };
	struct err err;
	size_t at = 0;

	record_layout_init(&layout, &attr, false);
	s->whole = s->trailers = s->executable = true;
	while (at + sizeof(struct perf_event_header) <= out->size) {
		struct perf_event_header *header = (struct perf_event_header *)(void *)(out->data + at);
		struct record record;
		if (header->size < sizeof(*header) || header->size % 8 != 0 || header->size > out->size - at || !record_decode(&layout, header, header->size, &record, &err))
			break;
		s->trailers &= memcmp(out->data + at + header->size - sizeof(trailer), trailer, sizeof(trailer)) == 0;
		switch (record.type) {
		case PERF_RECORD_FORK:
			s->forks += record.task.pid == (uint32_t)pid && record.task.time_ns == 0;
			if (record.task.tid == (uint32_t)s->worker)
				s->worker_named &= record.task.ptid == (uint32_t)pid && record.task.ppid == (uint32_t)pid;
			break;
		case PERF_RECORD_COMM:
			s->comms += record.comm.pid == (uint32_t)pid && !record.comm.is_exec;
			if (record.comm.tid == (uint32_t)s->worker)
				s->worker_named = strcmp(record.comm.comm, "wo rker)") == 0;
			break;
		case PERF_RECORD_MMAP2: {
			const struct record_mapping *m = &record.mapping;
			s->mappings++;
			s->executable &= (m->protection & PROT_EXEC) != 0 && (record.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
			if (s->code >= m->start && s->code < m->start + m->length)
				s->code_found = m->path[0] == '/' && m->inode != 0;
			s->odd_found |= s->odd_path != NULL && strcmp(m->path, s->odd_path) == 0;
			s->anon_found |= strcmp(m->path, "//anon") == 0;
			break;
		}
		default:
			s->others++;
		}
		at += header->size;
	}
	s->whole &= at == out->size;
}

// What a memfd with `bytes` is told to be when it is mapped as code: whether there is a record of it, and its build ID.
static bool record_of_memfd(const char *name, const void *bytes, size_t size, struct build_id *build_id, uint64_t *inode)
{
	struct buf out = { 0 };
	char path[64];
	bool found = false;
	int fd = memfd_create(name, 0);
	void *mapped = write(fd, bytes, size) == (ssize_t)size ? mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	snprintf(path, sizeof(path), "/memfd:%s (deleted)", name);
	procfs_synthesize(getpid(), false, NULL, 0, &out);
	for (size_t at = 0; at + sizeof(struct perf_event_header) <= out.size;) {
		struct perf_event_header header;
		struct record record;
		struct record_layout layout = { 0 };
		memcpy(&header, out.data + at, sizeof(header));
		if (!record_decode(&layout, (struct perf_event_header *)(void *)(out.data + at), header.size, &record, NULL))
			break;
		if (record.type == PERF_RECORD_MMAP2 && strcmp(record.mapping.path, path) == 0) {
			found = record.mapping.start == (uintptr_t)mapped && record.mapping.length == (size + 4095) / 4096 * 4096 &&
				record.mapping.protection == (PROT_READ | PROT_EXEC);
			*build_id = record.mapping.build_id;
			*inode = record.mapping.inode;
		}
		at += header.size;
	}
	if (mapped != MAP_FAILED)
		munmap(mapped, size);
	close(fd);
	buf_release(&out);
	return found;
}

// A program in a memfd is told from a JIT compiler's code there by its build ID.
static void records_of_memfds(void)
{
	static uint8_t text[1 << 20];
	struct build_id build_id = { 0 };
	struct image *image = NULL;
	uint64_t inode = 0;
	int fd = open("/proc/self/exe", O_RDONLY);
	ssize_t size = read(fd, text, sizeof(text));
	close(fd);
	if (size < 4096 || !image_open_path(&image, "/proc/self/exe", NULL) || image->build_id.size == 0) {
		skip("this program has no build ID", "memfds");
	} else {
		ok(record_of_memfd("program", text, (size_t)size, &build_id, &inode) && build_id_equal(&build_id, &image->build_id), "a program in a memfd has its build ID");
		memset(text, 0xc3, 8192);
		ok(record_of_memfd("code", text, 8192, &build_id, &inode) && build_id.size == 0 && inode != 0, "code in another is told as it stands");
	}
	image_release(image);
}

static void records_of_ourselves(int32_t worker)
{
	struct buf out = { 0 };
	char odd[256], gone[300];

	// A mapped file with blanks and a newline in its name, deleted afterwards.
	snprintf(odd, sizeof(odd), "%s/li\nb  x.so", scratch);
	snprintf(gone, sizeof(gone), "%s (deleted)", odd);
	int fd = open(odd, O_RDWR | O_CREAT, 0755);
	void *mapped = ftruncate(fd, 8192) == 0 ? mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 4096) : MAP_FAILED;
	void *anon = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct summary s = { .code = (uint64_t)(uintptr_t)records_of_ourselves, .odd_path = odd, .worker = worker };
	buf_string(&out, "kept...."); // appended to, not replaced
	bool good = procfs_synthesize(getpid(), true, trailer, sizeof(trailer), &out);
	ok(good && memcmp(out.data, "kept....", 8) == 0, "records of ourselves");
	memmove(out.data, out.data + 8, out.size -= 8);
	summarize(&out, getpid(), &s);
	ok(s.whole && s.others == 0, "are whole and decode");
	ok(s.trailers, "each with its trailer");
	struct procfs_ids threads = { 0 };
	procfs_threads(getpid(), &threads, NULL);
	ok(s.forks == threads.ids.count && s.comms == threads.ids.count, "a FORK and a COMM for each of %zu threads", threads.ids.count);
	vec_release(&threads.ids);
	ok(s.worker_named, "a thread with its own name, forked by the process");
	ok(s.executable && s.code_found, "%u executable mappings, one with this function, its file and inode", s.mappings);
	ok(s.odd_found && s.anon_found, "a path with a newline as the kernel would write it; anonymous code as //anon");
	close(fd);
	unlink(odd);
	buf_clear(&out);
	s = (struct summary){ .odd_path = gone };
	procfs_synthesize(getpid(), false, NULL, 0, &out);
	struct buf again = { 0 };
	buf_add(&again, out.data, out.size);
	size_t trailing = 0;
	for (size_t at = 0; at < again.size; at += ((struct perf_event_header *)(void *)(again.data + at))->size, trailing++) {
		struct perf_event_header *header = (struct perf_event_header *)(void *)(again.data + at);
		struct record record;
		struct record_layout layout = { 0 };
		if (!record_decode(&layout, header, header->size, &record, NULL))
			break;
		s.forks += record.type == PERF_RECORD_FORK;
		s.odd_found |= record.type == PERF_RECORD_MMAP2 && strcmp(record.mapping.path, gone) == 0;
	}
	ok(s.forks == 1 && s.odd_found, "without threads and trailer: one FORK; a deleted file keeps its mark");
	munmap(mapped, 8192);
	munmap(anon, 4096);
	buf_release(&again);
	buf_clear(&out);
	ok(!procfs_synthesize(999999999, true, NULL, 0, &out) && out.size == 0, "nothing of nobody");
	buf_release(&out);
}

static unsigned executable_count(const struct buf *out)
{
	unsigned count = 0;
	for (size_t at = 0; at < out->size; at += ((const struct perf_event_header *)(const void *)(out->data + at))->size)
		count += ((const struct perf_event_header *)(const void *)(out->data + at))->type == PERF_RECORD_MMAP2;
	return count;
}

// 30,000 mappings, a few of them code at either end and in the middle: all of the code is found, whatever way is taken.
// Whose main thread has ended before another: what /proc says of the process shows no memory any more.
static void records_of_the_headless(void)
{
	struct buf out = { 0 };
	struct procfs_status status;
	char path[64];
	pid_t child = fork();

	if (child == 0) {
		volatile pid_t worker = 0;
		pthread_t thread;
		pthread_create(&thread, NULL, idle, (void *)&worker);
		pthread_exit(NULL);
	}
	snprintf(path, sizeof(path), "/proc/%d/exe", child);
	for (int i = 0; i < 60000 && !(procfs_status(child, &status) && status.threads == 2 && readlink(path, (char[8]){ 0 }, 8) < 0); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	int32_t task = procfs_task_with_memory(child);
	ok(task != child && task > 0, "a thread shows the memory of a process whose main thread has ended");
	is_u64((uint64_t)procfs_task_with_memory(getpid()), (uint64_t)getpid(), "of ours, we do");
	is_u64((uint64_t)procfs_task_with_memory(999999999), 999999999, "of nobody, nobody");
	struct summary s = { .worker = task, .code = (uint64_t)(uintptr_t)(void *)records_of_the_headless };
	procfs_synthesize(child, true, trailer, sizeof(trailer), &out);
	summarize(&out, child, &s);
	ok(s.code_found && s.mappings > 1, "its mappings are found: %u", s.mappings);
	buf_release(&out);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void records_of_many_mappings(void)
{
	enum { COUNT = 30000 };
	struct buf few = { 0 }, many = { 0 };
	struct proc_lines lines;
	struct proc_mapping mapping;
	size_t length, mappings = 0;
	unsigned code = 0;
	char *line, name[256];

	procfs_synthesize(getpid(), false, NULL, 0, &few);
	uint8_t *area = mmap(NULL, (size_t)COUNT * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	bool made = area != MAP_FAILED;
	for (size_t i = 0; made && i < COUNT; i++)
		made = mprotect(area + i * 4096, 4096, i % 1000 == 500 ? PROT_READ | PROT_EXEC : i % 2 ? PROT_READ : PROT_NONE) == 0;
	if (!made) {
		skip("vm.max_map_count is small", "a process with 30,000 mappings");
	} else {
		procfs_synthesize(getpid(), false, NULL, 0, &many);
		is_u64(executable_count(&many) + 0u, executable_count(&few) + COUNT / 1000, "a process with 30,000 mappings: those of code are found");
		proc_lines_open(&lines, "/proc/self/maps");
		while ((line = proc_lines_next(&lines, &length)) != NULL)
			mappings += proc_mapping_parse(line, &mapping), code += (mapping.protection & PROT_EXEC) != 0 && strcmp(mapping.path, "[vsyscall]") != 0;
		ok(mappings > COUNT && code >= COUNT / 1000, "as maps itself says: %u of %zu", code, mappings);
		uint64_t at = (uint64_t)(uintptr_t)(area + 500 * 4096 + 12);
		is_u64(procfs_stack_top(getpid(), at), (at & ~4095ull) + 4096, "the end of the mapping that holds an address");
		enum proc_queried queried = proc_mapping_query(lines.fd, PROC_QUERY_COVERING, (uint64_t)(uintptr_t)executable_count, &mapping, name, sizeof(name));
		if (queried == PROC_QUERY_UNSUPPORTED)
			skip("the kernel is older than 6.11", "a mapping asked for");
		else
			ok(queried == PROC_QUERIED && mapping.path[0] == '/' && mapping.inode != 0 && (mapping.protection & PROT_EXEC) != 0, "a mapping asked for: %s", mapping.path);
		char tiny[4];
		ok(queried == PROC_QUERY_UNSUPPORTED || (proc_mapping_query(lines.fd, PROC_QUERY_COVERING, (uint64_t)(uintptr_t)executable_count, &mapping, tiny, sizeof(tiny)) ==
		   PROC_QUERIED && tiny[0] == '\0' && mapping.inode != 0), "with no room for its name");
		ok(proc_mapping_query(lines.fd, PROC_QUERY_COVERING, 8, &mapping, name, sizeof(name)) != PROC_QUERIED, "nothing at address 8");
		proc_lines_close(&lines);
		ok(proc_mapping_query(-1, PROC_QUERY_COVERING, 8, &mapping, name, sizeof(name)) == PROC_QUERY_UNSUPPORTED, "of no file");
	}
	if (area != MAP_FAILED)
		munmap(area, (size_t)COUNT * 4096);
	buf_release(&few);
	buf_release(&many);
}

// Processes that come and go while everything is read: whatever is there, the records are whole.
static void records_of_a_storm(void)
{
	pid_t storm = fork();
	if (storm == 0) {
		for (;;) {
			pid_t pid = fork();
			if (pid == 0)
				_exit(0);
			waitpid(pid, NULL, 0);
		}
	}
	struct procfs_ids ids = { 0 };
	struct buf out = { 0 };
	bool whole = true;
	size_t processes = 0;
	for (int round = 0; round < 20; round++) {
		procfs_pids(&ids, NULL);
		for (size_t i = 0; i < ids.ids.count; i++) {
			struct summary s = { 0 };
			buf_clear(&out);
			processes += procfs_synthesize(ids.ids.data[i], true, trailer, sizeof(trailer), &out);
			summarize(&out, ids.ids.data[i], &s);
			whole &= s.whole && s.trailers && s.others == 0;
		}
	}
	kill(storm, SIGKILL);
	waitpid(storm, NULL, 0);
	ok(whole && processes > 20, "%zu processes read while others fork and exit: whole records", processes);
	buf_release(&out);
	vec_release(&ids.ids);
}

// ---------------------------------------------------------------- the kernel

struct kernel_seen { unsigned count; struct record_mapping mapping[8]; char path[8][64]; };

static void kernel_of(const char *kallsyms, const char *modules, const char *iomem, bool known, struct kernel_seen *seen)
{
	struct procfs_kernel_files files = { file_of("kallsyms", kallsyms, strlen(kallsyms)), file_of("modules", modules, strlen(modules)),
		iomem != NULL ? file_of("iomem", iomem, strlen(iomem)) : "/no/such/file" };
	struct buf out = { 0 };
	struct record_layout layout = { 0 };
	bool good = procfs_synthesize_kernel_from(&files, NULL, 0, &out), right = true;

	memset(seen, 0, sizeof(*seen));
	for (size_t at = 0; at < out.size && seen->count < 8;) {
		struct perf_event_header *header = (struct perf_event_header *)(void *)(out.data + at);
		struct record record;
		if (header->size == 0 || !record_decode(&layout, header, header->size, &record, NULL))
			break;
		right &= record.type == PERF_RECORD_MMAP && record.misc == PERF_RECORD_MISC_KERNEL && record.mapping.pid == UINT32_MAX && record.mapping.tid == 0;
		seen->mapping[seen->count] = record.mapping;
		snprintf(seen->path[seen->count++], 64, "%s", record.mapping.path);
		at += header->size;
	}
	ok(good == known && right, "kernel records: MMAP of pid -1, %s", known ? "addresses known" : "addresses hidden");
	buf_release(&out);
}

static void kernels(void)
{
	struct kernel_seen k;
	const char *symbols = "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000070 t text_poke\n"
	                      "ffffffff8220bb08 T _etext\nffffffffc0000000 t _etext\t[mod]\n";
	const char *modules = "late 20480 0 - Live 0xffffffffc0100000 (OE)\nearly 2097152 1 late, Live 0xffffffffc0000000\nunloading 4096 0 - Unloading 0x0000000000000000\nbroken\n";

	kernel_of(symbols, modules, NULL, true, &k);
	ok(k.count == 3 && k.mapping[0].start == 0xffffffff81000000 && k.mapping[0].length == 0x120bb08 && k.mapping[0].pgoff == 0xffffffff81000000 &&
	   strcmp(k.path[0], "[kernel.kallsyms]_text") == 0, "the kernel from _text to _etext");
	ok(k.mapping[1].start == 0xffffffffc0000000 && k.mapping[1].length == 0x100000 && strcmp(k.path[1], "[early]") == 0 &&
	   k.mapping[2].start == 0xffffffffc0100000 && k.mapping[2].length == 20480 && strcmp(k.path[2], "[late]") == 0,
	   "modules in the order of address, none running into the next");
	kernel_of(symbols, "", "00001000-0009fbff : System RAM\n  01000000-0220bb07 : Kernel code\n  02400000-02e09fff : Kernel rodata\n", true, &k);
	is_u64(k.mapping[0].length, 0x120bb08, "the length from iomem");
	kernel_of("ffffffff81000000 T _text\n", "", "00000000-00000000 : Kernel code\n", true, &k);
	ok(k.mapping[0].start == 0xffffffff81000000 && k.mapping[0].length == UINT64_MAX - 0xffffffff81000000, "iomem hidden and no _etext: to the end");
	kernel_of("ffff800008000000 T _stext\nffff800009000000 D _etext\n", "", NULL, true, &k);
	ok(strcmp(k.path[0], "[kernel.kallsyms]_stext") == 0 && k.mapping[0].length == 0x1000000, "a kernel that has only _stext");
	kernel_of("0000000000000000 T _stext\n0000000000000000 T _text\n0000000000000000 T _etext\n", "x 4096 0 - Live 0x0000000000000000\n", NULL, false, &k);
	ok(k.count == 1 && k.mapping[0].start == 0, "kptr_restrict: one mapping from 0");
	kernel_of("", "", NULL, false, &k);
	ok(k.count == 1, "no kallsyms at all");
	struct buf out = { 0 };
	if (geteuid() == 0 && procfs_number("/proc/sys/kernel/kptr_restrict", 2) < 2)
		ok(procfs_synthesize_kernel(NULL, 0, &out) && out.size > 40, "this host's kernel");
	else
		skip("needs root and kptr_restrict below 2", "this host's kernel");
	buf_release(&out);
}

int main(void)
{
	volatile pid_t worker = 0;
	pthread_t thread;

	scratch_make();
	pthread_create(&thread, NULL, idle, (void *)&worker);
	while (worker == 0)
		sched_yield();
	size_t before = open_fds();
	parsing();
	lines();
	lists();
	namespaces();
	records_of_ourselves(worker);
	records_of_memfds();
	records_of_the_headless();
	records_of_many_mappings();
	records_of_a_storm();
	kernels();
	is_u64(open_fds(), before, "no descriptor is left open");
	return tap_done();
}
