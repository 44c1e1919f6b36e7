#!/bin/bash
# A ring of the kernel that stands still while its event runs: noticed while recording, called by its name, and its event opened again. The kernel is made to do
# so by a library between the recorder and mmap(2): the first rings that it maps are shown as memory in which nothing ever comes.
. "$(dirname "$0")/tap.sh"
if [ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 9)" -gt 2 ]; then
	echo "1..0 # SKIP perf_event_paranoid, and this is not root"
	exit 0
fi
cat >"$work/hide.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { MOST = 64 };
static struct { void *shown, *real; size_t size; } hidden[MOST];
static int seen;
// Where asked for, events have attr.inherit_stat: READ records of tasks that end, from any CPU, which makes Linux 6.18 stop a ring's head for ever.
long syscall(long number, ...)
{
	static long (*next)(long, ...);
	long a[6];
	va_list args;
	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (next == NULL)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	struct perf_event_attr *attr = (struct perf_event_attr *)a[0];
	if (number == SYS_perf_event_open && getenv("FORCE_INHERIT_STAT") != NULL && attr->inherit && attr->config != PERF_COUNT_SW_DUMMY)
		attr->inherit_stat = 1;
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	void *real = (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
	char path[64], name[64] = "";
	if (fd < 0 || real == MAP_FAILED || !(flags & MAP_SHARED) || size <= 8192) // of two pages is the one by which the records' clock is found
		return real;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) < 0 || strstr(name, "perf_event") == NULL || seen >= atoi(getenv("HIDDEN_RINGS")) || seen >= MOST)
		return real;
	hidden[seen].real = real;
	hidden[seen].size = size;
	hidden[seen].shown = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return hidden[seen++].shown;
}
int munmap(void *at, size_t size)
{
	for (int i = 0; i < seen; i++)
		if (hidden[i].shown == at) {
			syscall(SYS_munmap, hidden[i].real, hidden[i].size);
			hidden[i].shown = NULL;
		}
	return (int)syscall(SYS_munmap, at, size);
}
C
cat >"$work/burn.c" <<'C'
#include <stdlib.h>
#include <time.h>
static volatile long sink;
int main(int argc, char **argv)
{
	(void)argc;
	struct timespec t;
	double end = atof(argv[1]);
	do {
		for (int i = 0; i < 10000; i++)
			sink++;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while (t.tv_sec + t.tv_nsec / 1e9 < end);
}
C
cat >"$work/threads.c" <<'C'
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
static volatile long sink;
static double now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void *brief(void *none) { double end = now(CLOCK_THREAD_CPUTIME_ID) + 0.002; while (now(CLOCK_THREAD_CPUTIME_ID) < end) sink++; return none; }
static double end;
static void *spawn(void *none)
{
	while (now(CLOCK_MONOTONIC) < end) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, brief, NULL) == 0)
			pthread_join(thread, NULL);
	}
	return none;
}
int main(int argc, char **argv)
{
	(void)argc;
	pthread_t threads[20];
	end = now(CLOCK_MONOTONIC) + atof(argv[1]);
	for (int i = 0; i < 20; i++)
		pthread_create(&threads[i], NULL, spawn, NULL);
	for (int i = 0; i < 20; i++)
		pthread_join(threads[i], NULL);
}
C
gcc -O1 -pthread -o "$work/threads" "$work/threads.c" && gcc -O1 -shared -fPIC -o "$work/hide.so" "$work/hide.c" -ldl && gcc -O1 -o "$work/burn" "$work/burn.c" || { echo "Bail out! no compiler"; exit 1; }
if ldd "$perfsample" 2>/dev/null | grep -q libasan || ! ldd "$perfsample" >/dev/null 2>&1; then
	echo "1..0 # SKIP no library can come between this program and mmap"
	exit 0
fi
cpus=$(nproc --all)
books() { # FILE EXPRESSION over d, s
	python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); s = d["events"][0]["samples"]; print(d["stood_still"], s, file=sys.stderr)
assert s["taken"] + s["idle"] + s["others"] + s["lost"] + s["dropped"] + s["silent"] == s["expected"]
sys.exit(not eval(sys.argv[2]))' "$@" 2>"$work/err"
}
words() { tr -s '\n ' ' ' <"$work/said" | sed 's/perfsample: //g'; }
# recorded NAME OPTIONS…: 4 s of CPU time, every ring hidden at first
recorded() {
	name=$1
	shift
	(cd "$work" && HIDDEN_RINGS=$cpus LD_PRELOAD=$work/hide.so "$perfsample" record "$@" -o stuck.data --summary stuck.json -- ./burn 4 2>said)
	like "$(words)" 'a ring of the kernel stood still from \+0\.[0-9] s to \+[0-9.]+ s .*: its events ran, no record came, and [0-9]+ samples are known to be lost; they were closed and opened again' \
		"$name: said by its name" || sed 's/^/#   /' "$work/said"
	[ "$name" = "small rings" ] || unlike "$(words)" 'full before the recorder could run' "not called a late reader" # those may be full, besides
	books "$work/stuck.json" 'd["stood_still"]["times"] >= 1 and any("stood still" in x for x in d["decisions"])'
	ok $? "and in the summary's JSON"
	books "$work/stuck.json" 's["taken"] > 0.2 * s["expected"]'
	ok $? "what comes after is recorded again, and the books add up"
	ps report -i "$work/stuck.data" --format json
	like "$(python3 -c 'import json, sys; print("\n".join(c["text"] for c in json.load(sys.stdin)["caveats"]))' <<<"$out")" \
		'^[0-9]+ times? a ring of the kernel stood still while its events ran: no sample came, and [0-9]+ of the lost ones are of that time$' "report says it, too"
}
recorded "the default"
recorded "per task" --per-task
# Rings of little room fill within the first second: then it is known by what is lost.
recorded "small rings" -m 256K --call-graph dwarf,16384
books "$work/stuck.json" '0 < d["stood_still"]["lost"] <= s["lost"]'
ok $? "what was lost meanwhile is counted as lost of that time"
like "$(words)" '(CARE|NO RANKING): lost .*: a ring of the kernel stood still' "and the loss has that reason"
# The kernel's own fault, where it has it: one in two recordings or so of short threads.
has_fault() {
	(cd "$work" && HIDDEN_RINGS=0 FORCE_INHERIT_STAT=1 LD_PRELOAD=$work/hide.so "$perfsample" record --per-task -o stat.data --summary stat.json -- ./threads 3 2>said)
	grep -q 'stood still' "$work/said"
}
if has_fault || has_fault || has_fault || has_fault; then
	books "$work/stat.json" 'd["stood_still"]["lost"] > 0 and s["lost"] < 0.9 * s["expected"]'
	ok $? "a ring that the kernel stopped: known, and not to the end"
else
	skip "this kernel's rings move on" "a ring that the kernel stopped: known, and not to the end"
fi
(cd "$work" && HIDDEN_RINGS=0 LD_PRELOAD=$work/hide.so "$perfsample" record -o fine.data --summary fine.json -- ./burn 1 2>said)
books "$work/fine.json" 'd["stood_still"] == {"times": 0, "lost": 0}'
ok $? "rings that move: none"
unlike "$(words)" 'stood still' "and nothing is said"
done_testing
