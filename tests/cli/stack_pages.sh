#!/bin/bash
# Stacks with pages in them that nobody has touched: the kernel's copies stop there. They are brought in while recording, and what was cut has a reason of its own.
. "$(dirname "$0")/tap.sh"
if [ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 9)" -gt 2 ]; then
	echo "1..0 # SKIP perf_event_paranoid, and this is not root"
	exit 0
fi
cat >"$work/sparse.c" <<'C'
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
static volatile long sink;
__attribute__((noinline)) static void turn(double seconds) // of this thread's CPU time
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	for (double end = t.tv_sec + t.tv_nsec / 1e9 + seconds; t.tv_sec + t.tv_nsec / 1e9 < end; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
		for (int i = 0; i < 100000; i++)
			sink += i;
}
// 30,000 bytes of which two are used: at most three pages of some seven.
__attribute__((noinline)) static void wide(int depth, double seconds)
{
	volatile char room[30000];
	room[0] = room[sizeof(room) - 1] = 1;
	if (depth == 0) turn(seconds); else wide(depth - 1, seconds);
	sink += room[0] + room[sizeof(room) - 1];
}
static void *in_thread(void *seconds)
{
	wide(0, *(double *)seconds);
	return NULL;
}
int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	pthread_t thread;
	wide(0, seconds);
	pthread_create(&thread, NULL, in_thread, &seconds);
	pthread_join(thread, NULL);
	return 0;
}
C
gcc -O1 -pthread -fno-optimize-sibling-calls -o "$work/sparse" "$work/sparse.c" 2>"$work/err"
ok $? "the program"

holds() { # FILE EXPRESSION NAME: `e` is the first event of its report
	"$perfsample" report -i "$work/$1" --format json >"$work/json" 2>>"$work/err"
	python3 - "$work/json" "$2" <<'P'
import json, sys
e = json.load(open(sys.argv[1]))["events"][0]
ends, stacks, taken = e["stack_ends"], e["stacks"], e["samples"]["taken"]
good = taken > 300 and bool(eval(sys.argv[2]))
if not good:
    print("#   taken", taken, "ends", ends)
sys.exit(0 if good else 1)
P
	ok $? "$3"
}
whole='stacks["complete"] > 0.9 * taken and stacks["joined"] == 0 and ends.get("truncated", 0) == 0'
rec -F 999 --summary s.json -o live.data -- ./sparse 0.6
holds live.data "$whole" "live: stacks are whole from soon after the first one of a thread on"
like "$(cat "$work/s.json")" 'pages that were not in memory: [0-9]+ were brought in' "and what was done is in the decisions"
rec -F 999 --unwind post -o post.data -- ./sparse 0.6
holds post.data "$whole" "--unwind post: so they are"
holds post.data 'ends.get("absent_page", 0) > 0 and ends["absent_page"] == stacks["truncated"]' "those before that have a reason of their own, though their copies are trimmed"

# A file whose recorder did not mend it: perf's.
if perf record -q -F 999 --call-graph dwarf,32768 -o "$work/perf.data" "$work/sparse" 0.4 >"$work/out" 2>&1; then
	holds perf.data 'ends.get("absent_page", 0) > 0.5 * taken and ends.get("truncated", 0) == 0' "perf's file: absent_page, not truncated"
	out=$("$perfsample" report -i "$work/perf.data" 2>/dev/null)
	like "$out" 'CUT \(stack page not in memory\)' "and in words"
	unlike "$out" 'TRUNCATED|kernel.s limit' "which do not say that they are deep"
	like "$("$perfsample" report -i "$work/perf.data" --explain turn 2>/dev/null)" '^  cut stacks .*CUT \(stack page not in memory\) of all' "--explain says why, too"
else
	echo "# SKIP perf's file: no perf that records here"
fi

# The kernel's frame-pointer chains are cut at so many frames: that is no deep copy either.
cat >"$work/deep.c" <<'C'
#include <stdlib.h>
static volatile long sink;
__attribute__((noinline)) static void down(int depth)
{
	if (depth == 0)
		for (int i = 0; i < 300000000; i++)
			sink += i;
	else
		down(depth - 1);
	sink++;
}
int main(int argc, char **argv) { down(argc > 1 ? atoi(argv[1]) : 300); return 0; }
C
gcc -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -o "$work/deep" "$work/deep.c" 2>>"$work/err"
rec -F 999 --call-graph fp -o fp.data -- ./deep 300
holds fp.data 'ends.get("depth_limit", 0) > 0.9 * taken' "--call-graph fp: depth_limit"
out=$("$perfsample" report -i "$work/fp.data" 2>/dev/null)
like "$out" 'CUT \(over kernel.perf_event_max_stack\)' "in words"
unlike "$out" 'TRUNCATED' "not truncated"
done_testing
