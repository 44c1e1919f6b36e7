#!/bin/bash
# -p and what per-task events hide: threads of 2 ms are seen with events of whole CPUs, of which the target's samples are kept; whose they are, what they stand for, and
# which way is taken when.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
if [ "$(id -u)" -ne 0 ]; then
	echo "1..0 # SKIP CPU-wide events need root"
	exit 0
fi
pids=()
finish() {
	for p in "${pids[@]-}"; do [ -n "$p" ] && kill -9 "$p" 2>/dev/null; done
	wait 2>/dev/null
	rm -rf "$work"
}
trap finish EXIT
cat >"$work/brief.c" <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static volatile long sink;
static int depth;
static double now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void burn(double seconds) { for (double end = now(CLOCK_THREAD_CPUTIME_ID) + seconds; now(CLOCK_THREAD_CPUTIME_ID) < end;) sink++; }
__attribute__((noinline)) static long deep(int frames)
{
	volatile char room[1024];
	memset((char *)room, frames, sizeof(room));
	if (frames > 0)
		deep(frames - 1);
	else
		burn(0.002);
	return sink += room[5];
}
static void *brief(void *none) { deep(depth); return none; }
static void *spawn(void *none)
{
	for (;;) {
		pthread_t thread;
		pthread_attr_t attr;
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, 512 << 10);
		if (pthread_create(&thread, &attr, brief, NULL) == 0)
			pthread_join(thread, NULL);
	}
	return none;
}
int main(int argc, char **argv) // KIB-OF-STACK [FILE: sleeps until it is there]
{
	depth = atoi(argv[1]);
	while (argc > 2 && access(argv[2], F_OK) != 0)
		usleep(100000);
	for (int i = 0; i < 4; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, spawn, NULL);
	}
	pause();
}
C
cat >"$work/burn.c" <<'C'
static volatile long sink;
int main(void) { for (;;) sink++; }
C
gcc -O1 -pthread -o "$work/brief" "$work/brief.c" && gcc -O1 -o "$work/burn" "$work/burn.c" || { echo "Bail out! no compiler"; exit 1; }
start() { # PROGRAM ARGS…: its pid in `started`
	(cd "$work" && exec "$@") & started=$!
	pids+=("$started")
}
cpu_ms() { # FILE: a /proc/PID/stat
	local stat
	read -r stat <"$1"
	# shellcheck disable=SC2086 # proc(5): behind the name in parentheses, utime and stime are the 12th and 13th
	set -- ${stat##*) }
	echo $(((${12} + ${13}) * 1000 / $(getconf CLK_TCK)))
}
books() { # EXPRESSION over d, s and m, the target's milliseconds of CPU by /proc: they close, and it holds
	python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); s = d["events"][0]["samples"]; m = int(sys.argv[3]); print(s, d["cpu_seconds"], m, file=sys.stderr)
assert s["taken"] + s["idle"] + s["others"] + s["lost"] + s["dropped"] + s["silent"] == s["expected"]
sys.exit(not eval(sys.argv[2]))' "$work/s.json" "$1" "${ms:-0}" 2>"$work/err"
}
words() { tr -s '\n ' ' ' <"$work/said" | sed 's/perfsample: //g'; }
recorded() { # OPTIONS…
	(cd "$work" && timeout 100 "$perfsample" record -o t.data --summary s.json "$@" 2>said)
}
# measured SECONDS: the target by its pid; `ms` is what it used meanwhile
measured() {
	recorded -p "$target" -- bash -c "read -r line </proc/$target/stat; echo \"\$line\" >before; sleep $1; read -r line </proc/$target/stat; echo \"\$line\" >after"
	ms=$(($(cpu_ms "$work/after") - $(cpu_ms "$work/before")))
}
start ./burn # somebody else
start ./brief 1
target=$started
soon has_used "$target" 50
short_ones() { measured 2 && books '0 <= s["silent"] < 0.02 * s["expected"] and s["taken"] > 100'; }
often short_ones
ok $? "threads of 2 ms: next to nothing is silent"
like "$(words)" "CPU-wide events, kept for the target and what it starts: (the recorder|others|it) is? ?a?r?e? ?in .*cgroup" "which way and why"
like "$(words)" '[0-9,]+ samples of others on (this|these) CPUs? were taken and dropped: who runs there pays for them; --per-task spares them' "what it costs others"
# Two readings of two numbers, to 10 ms each; and the target is on when a CPU's comb has a tooth, or not: four standard deviations of as many throws.
books 's["others"] > 100 and abs(1000 * d["cpu_seconds"] - m) < 40 + 4 * 1.295295 * s["taken"] ** 0.5'
ok $? "its CPU time is that of its samples"
is "$("$perfsample" script -i "$work/t.data" -F comm 2>/dev/null | awk 'NF' | tr -d ' ' | sort -u)" brief "nobody else is in the file"
ps report -i "$work/t.data" --format json
is "$(python3 -c 'import json, sys
s = json.load(sys.stdin)["events"][0]["samples"]
print(s["taken"] + s["idle"] + s["others"] + s["lost"] + s["silent"] == s["expected"], s["others"] > 100)' <<<"$out")" "True True" "report has the same books"
ps record -p "$target" --dry-run
like "$err" "events per CPU, .* $((2 * $(nproc --all))) file descriptors" "two descriptors a CPU, for all its threads"
ps check -p "$target"
like "$(tr -s '\n ' ' ' <<<"$out")" "by events of whole CPUs: $((2 * $(nproc --all))) file descriptors" "check says so"
for option in --per-task --no-inherit "-e page-faults" "-e {cpu-clock,page-faults}"; do
	# shellcheck disable=SC2086
	ps record -p "$target" --dry-run $option
	like "$err" 'events per task and CPU' "$option: per task"
done
ps record -t "$target" --dry-run
like "$err" 'events per task and CPU' "-t: per task"
python3 -c 'import json, sys; sys.exit(not any(x.startswith("CPU-wide") for x in json.load(open(sys.argv[1]))["decisions"]))' "$work/s.json"
ok $? "the summary's JSON has the decision"
for _ in 1 2 3; do
	recorded -p "$target" --per-task --duration 2
	books 's["lost"] == 0 and s["silent"] > 0.1 * s["expected"]'
	ok $? "per task: a third is silent, but no ring stands still"
done
unlike "$(words)" "CPU-wide" "and is said to be so"
kill -9 "$target"
wait "$target" 2>/dev/null

# Two that take turns: each switch takes some of what is due from a task's own events, and no other cause is named. Whole CPUs lose nothing there.
cat >"$work/turns.c" <<'C'
#include <stdio.h>
#include <unistd.h>
int main(void)
{
	int there[2], back[2];
	char c = 0;
	if (pipe(there) != 0 || pipe(back) != 0)
		return 1;
	pid_t pid = fork();
	if (pid == 0)
		while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
			;
	printf("%d\n", pid);
	fflush(stdout);
	while (pid != 0 && write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1)
		;
}
C
gcc -O1 -o "$work/turns" "$work/turns.c"
(cd "$work" && exec taskset -c 0 ./turns >other) & target=$!
pids+=("$target")
soon has_used "$target" 200
pids+=("$(cat "$work/other")")
recorded --per-task -p "$target,$(cat "$work/other")" --duration 3
if books 's["silent"] >= 0.01 * s["expected"]'; then
	like "$(words)" 'never came \([0-9.]+%\): with per-task events each switch to a task leaves some 0\.5 us unsampled' "per task: what switches cost is named"
else
	skip "next to nothing is silent here" "per task: what switches cost is named"
fi
recorded -p "$target,$(cat "$work/other")" --duration 3
books '0 <= s["silent"] < 0.01 * s["expected"]'
ok $? "whole CPUs: nothing is silent for it"
kill -9 "$target" "$(cat "$work/other")"
wait "$target" 2>/dev/null

# Deeper than the kernel copies: read on, without a look at anybody else's stack.
start ./brief 120
target=$started
soon has_used "$target" 50
deep_ones() { recorded -p "$target" --duration 4 && books 's["silent"] < 0.02 * s["expected"] and d["stack_ends"]["splices"]["exact"] > 0.3 * s["taken"]'; }
often deep_ones
ok $? "short threads with deep stacks: read on, and not silent"
kill -9 "$target"
wait "$target" 2>/dev/null

# Next to nothing of what runs is the target's: others are spared. Until it starts many tasks.
for ((i = 1; i < $(nproc --all); i++)); do start ./burn; done
start ./brief 1 go
target=$started
(sleep 5 && touch "$work/go") &
recorded -p "$target" --duration 10
like "$(words)" 'from \+[0-9.]+ s on events per thread and CPU: next to all samples were of others' "an idle target on a busy host: others are spared"
like "$(words)" 'from \+[0-9.]+ s on CPU-wide events: the target starts many tasks' "which then starts tasks: they are seen again"
books 's["taken"] > 300 and s["lost"] == 0'
ok $? "the books add up over all of it"
ps report -i "$work/t.data" --format json
is "$(python3 -c 'import json, sys
s = json.load(sys.stdin)["events"][0]["samples"]
print(s["taken"] + s["idle"] + s["others"] + s["lost"] + s["silent"] == s["expected"])' <<<"$out")" True "in the report, too"
is "$("$perfsample" script -i "$work/t.data" -F comm 2>/dev/null | awk 'NF' | tr -d ' ' | sort -u)" brief "and nobody else is in the file"
done_testing
