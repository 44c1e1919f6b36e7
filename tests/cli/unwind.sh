#!/bin/bash
# Programs whose stacks are hard, recorded live: where they end, and how they are counted. Each works for a given CPU time, so that there are as many
# samples of it on a fast host as on a slow or busy one.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
# The last recording's first event as `e`, its end reasons as `ends`, `taken` samples.
holds() { # EXPRESSION NAME
	"$perfsample" report -i "$work/perf.data" --format json >"$work/json" 2>>"$work/err"
	python3 - "$work/json" "$1" <<'P'
import json, sys
e = json.load(open(sys.argv[1]))["events"][0]
ends, taken = e["stack_ends"], e["samples"]["taken"]
share = lambda *names: sum(ends.get(name, 0) for name in names) / max(taken, 1)
good = taken > 50 and bool(eval(sys.argv[2]))
if not good:
    print("#   taken", taken, "ends", ends)
sys.exit(0 if good else 1)
P
	ok $? "$2"
}
if [ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 9)" -gt 2 ]; then
	echo "1..0 # SKIP perf_event_paranoid, and this is not root"
	exit 0
fi

# Go: CFI in a compressed .debug_frame, goroutines that end at runtime.goexit, a runtime that changes stacks.
cat >"$work/go.mod" <<'G'
module burn
go 1.17
G
cat >"$work/burn.go" <<'G'
package main

import (
	"fmt"
	"sort"
	"syscall"
	"time"
)

type node struct{ l, r *node }

//go:noinline
func build(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{build(depth - 1), build(depth - 1)}
}

//go:noinline
func count(n *node) int {
	if n == nil {
		return 0
	}
	return 1 + count(n.l) + count(n.r)
}

//go:noinline
func sorted(n int) int {
	a := make([]int, n)
	for i := range a {
		a[i] = (i * 7919) % 1009
	}
	sort.Slice(a, func(i, j int) bool { return a[i] < a[j] })
	return a[0]
}

func works() bool {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano()+used.Stime.Nano()) < 1200*time.Millisecond
}

func main() {
	total, done := 0, make(chan int)
	go func() {
		t := 0
		for works() {
			t += sorted(2000)
		}
		done <- t
	}()
	for works() {
		total += count(build(12))
	}
	fmt.Println(total + <-done)
}
G
if command -v go >/dev/null && (cd "$work" && HOME="$work" GOFLAGS=-mod=mod GOPATH="$work/gopath" GOCACHE="$work/cache" go build -o plain . && \
	HOME="$work" GOPATH="$work/gopath" GOCACHE="$work/cache" go build -ldflags='-s -w' -o stripped .) >"$work/err" 2>&1; then
	chmod -R u+w "$work"
	for program in plain stripped; do
		rec "./$program"
		# The collector works on the system stack on behalf of a goroutine, whose own stack cannot be reached from there: not complete.
		holds 'share("root", "unsupported", "not_user") >= 0.98 and share("root") > 0.5' "a $program Go program: root, or a change of stacks that is said"
		[ "$program" = plain ] || continue # without names
		"$perfsample" fold -i "$work/perf.data" --addrs >"$work/folded" 2>>"$work/err"
		# sum of stacks that count() or sorted() is in, and of those that are complete; but where the stack changes, for a signal handler too
		python3 - "$work/folded" <<'P'
import sys
good = bad = 0
for line in open(sys.argv[1]):
    stack, n = line.rsplit(" ", 1)
    if ("main.count" in stack or "main.sorted" in stack) and not any(other in stack for other in ("systemstack", "morestack", "sigreturn")):
        if stack.split(";")[1].startswith("runtime.goexit"):
            good += int(n)
        else:
            bad += int(n)
            print("#  ", stack[:200])
sys.exit(0 if good > 20 and bad <= 0.01 * good else 1)
P
		ok $? "a $program Go program: goroutines end at runtime.goexit"
	done
else
	skip "no go here, or it cannot build" "Go programs"
fi
# More frames than a record holds: 8 bytes each, so that all of them are in the copy.
cat >"$work/many.s" <<'S'
	.globl	down, main
	.type	down, @function
down:	.cfi_startproc
	dec	%rdi
	jz	1f
	call	down
	ret
1:	mov	$400000, %rcx
2:	dec	%rcx
	jnz	2b
	ret
	.cfi_endproc
	.size	down, .-down
	.type	main, @function
main:	.cfi_startproc
	push	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	mov	$4000, %ebx
3:	mov	$8100, %edi
	call	down
	dec	%ebx
	jnz	3b
	pop	%rbx
	.cfi_def_cfa_offset 8
	xor	%eax, %eax
	ret
	.cfi_endproc
	.size	main, .-main
	.section	.note.GNU-stack, "", @progbits
S
if [ "$(uname -m)" = x86_64 ] && command -v gcc >/dev/null && gcc -o "$work/many" "$work/many.s" 2>"$work/err"; then
	rec ./many
	holds 'share("depth_limit") > 0.7 and e["stacks"]["truncated"] == ends["depth_limit"] + ends.get("truncated", 0)' \
		"8,100 frames: the limit on depth, counted as truncated"
	"$perfsample" script -i "$work/perf.data" -F ip,sym >"$work/script" 2>>"$work/err"
	awk -v RS= '{ down = gsub(/ down/, "x"); if (down > 7980 && /main/ && /_start/) good++ } END { exit !(good > 50) }' "$work/script"
	ok $? "the leaf's 4,000 and the root's 3,999 are there"
	if command -v perf >/dev/null; then
		perf script -i "$work/perf.data" --max-stack 9000 -F ip,sym 2>/dev/null >"$work/script"
		awk -v RS= '{ down = gsub(/ down/, "x"); if (down > 7980 && /main/ && /_start/) good++ } END { exit !(good > 50) }' "$work/script"
		ok $? "perf script reads them"
	else
		skip "no perf" "perf script reads them"
	fi
else
	skip "no gcc for x86-64" "8,100 frames"
fi
# Where no CFI says that a frame is the outermost. Every stack that claims a root must have it at one of these; `share` of them must.
roots() { # NAMES LEAST NAME : least share of the samples in spin() that are complete
	"$perfsample" fold -i "$work/perf.data" >"$work/folded" 2>>"$work/err"
	python3 - "$work/folded" "$1" "$2" <<'P'
import re, sys
good = cut = false = 0
for line in open(sys.argv[1]):
    stack, n = line.rstrip("\n").rsplit(" ", 1)
    frames = stack.split(";")
    if not any(f.startswith("spin") for f in frames[1:]):  # [0] is the process's name
        continue
    if frames[1].startswith("["):
        cut += int(n)
    elif re.fullmatch(sys.argv[2], frames[1]):
        good += int(n)
    else:
        false += int(n)
        print("#  ", stack[:200])
if good + cut < 50 or good < float(sys.argv[3]) * (good + cut) or false > 0:
    print("#   roots", good, "cut", cut, "false", false)
    sys.exit(1)
P
	ok $? "$3"
}
cat >"$work/spin.c" <<'C'
#ifdef BARE
int main(int argc, char **argv);
__attribute__((noreturn, used)) void leave(long status) { for (;;) __asm__ volatile("syscall" : : "a"(231L), "D"(status) : "rcx", "r11", "memory"); }
__attribute__((used)) int start_c(long *p) { return main((int)p[0], (char **)(p + 1)); }
/* as musl's crt: no CFI */
__asm__(".globl _start\n.type _start, @function\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call start_c\n mov %eax, %edi\n call leave\n.size _start, .-_start\n");
#endif
static volatile long sink;
static inline __attribute__((always_inline)) long used_ms(void)
{
	long t[2], status = 228 /* clock_gettime, without libc */;
	__asm__ volatile("syscall" : "+a"(status) : "D"(2L /* CLOCK_PROCESS_CPUTIME_ID */), "S"(t) : "rcx", "r11", "memory");
	return t[0] * 1000 + t[1] / 1000000;
}
#ifdef STOPS
#include <signal.h>
#else
#define raise(signal)
#endif
__attribute__((noinline)) void spin(long n) { for (long i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) int down(int depth) { volatile char room[100]; room[depth % 100] = 1; if (depth > 0) return down(depth - 1) + room[depth % 100]; spin(1000000); return 0; }
/* Its own time: what ran under this process's number before (python3, or a script of that name) has used some, and much where nothing is in memory. */
int main(int argc, char **argv) { (void)argv; raise(SIGSTOP); int s = 0; long began = used_ms(); while (used_ms() - began < 300) s += down(argc > 1 ? 400 : 20); return s == 1; }
C
if [ "$(uname -m)" = x86_64 ] && command -v gcc >/dev/null; then
	for kind in -static -static-pie; do
		if (cd "$work" && gcc -O1 $kind -o spin spin.c) 2>"$work/err"; then
			rec ./spin
			roots _start 0.99 "$kind: every stack begins at _start"
			# The compiler's own start and end files have no CFI (_fini, __do_global_dtors_aux): a sample in one at exit has a guess, as it must.
			"$perfsample" script -F ip,sym,via -i "$work/perf.data" >"$work/stacks" 2>>"$work/err"
			python3 - "$work/stacks" <<'P'
import re, sys
bad = [s for s in open(sys.argv[1]).read().split("\n\n") if re.search(r" (leaf_rule|fp|code)$", s, re.M)
       and not re.search(r" (_init|_fini|__do_global_dtors_aux|(de)?register_tm_clones|frame_dummy)\b", s)]
print("#  ", len(bad), bad[:1])
sys.exit(len(bad) > 0)
P
			ok $? "$kind: no frame is guessed where there is CFI"
			rec --no-join --call-graph dwarf,8192 ./spin deep
			holds 'share("root") < 0.1 and share("truncated") > 0.8' "$kind: deeper than the copy is no root"
			(cd "$work" && cp spin named && strip -s spin)
			rec ./spin
			holds 'share("root", "not_user") >= 0.99' "$kind, stripped"
		else
			skip "cannot be linked here" "$kind"
		fi
	done
	no_cfi='-fno-asynchronous-unwind-tables -fno-unwind-tables'
	bare="-DBARE -nostdlib -static -fno-stack-protector -fcf-protection=none $no_cfi"
	# shellcheck disable=SC2086
	(cd "$work" && gcc -O1 $bare -fno-omit-frame-pointer -fno-optimize-sibling-calls -o pairs spin.c && \
		gcc -O1 $bare -fomit-frame-pointer -o bare spin.c) 2>"$work/err"
	rec ./pairs
	roots '_start|start_c' 0.99 "no CFI, frame pointers: every stack begins at _start"
	holds 'ends["guessed"] >= 0.99 * (taken - ends.get("not_user", 0))' "and every one of them is counted as guessed"
	rec --no-join --call-graph dwarf,8192 ./pairs deep
	holds 'share("root") < 0.1 and share("truncated", "no_cfi") > 0.8' "no CFI, frame pointers, deeper than the copy: no root"
	rec ./bare
	roots '_start' 0 "neither CFI nor frame pointers: no root but _start"
	rec --no-join --call-graph dwarf,8192 ./bare deep
	roots '_start' 0 "the same, deeper than the copy"
else
	skip "no gcc for x86-64" "programs without CFI"
fi
# Coroutines on stacks of their own: the first function of each returns to where another begins, which nobody called.
cat >"$work/coroutines.c" <<'C'
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>
static volatile long sink;
static ucontext_t caller, own[16];
__attribute__((noinline)) static void spin(long n) { for (long i = 0; i < n; i++) sink += i * i; }
static void body(int i) { for (;;) { spin(200000); swapcontext(&own[i], &caller); } }
int main(void)
{
	for (int i = 0; i < 16; i++) {
		getcontext(&own[i]);
		own[i].uc_stack.ss_sp = calloc(1, own[i].uc_stack.ss_size = 65536);
		own[i].uc_link = i % 2 ? &caller : NULL;
		makecontext(&own[i], (void (*)(void))body, 1, i);
	}
	for (int i = 0; clock() < CLOCKS_PER_SEC / 10 * 3; i++)
		swapcontext(&caller, &own[i % 16]);
}
C
if [ "$(uname -m)" = x86_64 ] && command -v gcc >/dev/null; then
	for kind in "" -static; do
		# shellcheck disable=SC2086
		if (cd "$work" && gcc -O1 -fno-optimize-sibling-calls $kind -o coroutines coroutines.c) 2>"$work/err"; then
			rec ./coroutines
			holds 'share("root_guessed") > 0.8 and share("root", "root_guessed", "not_user") >= 0.99' "coroutines end where their first function returns to $kind"
		else
			skip "it cannot be linked here" "coroutines $kind"
		fi
	done
	roots __start_context 0.99 "and that is their root"
else
	skip "no gcc for x86-64" "coroutines"
fi

# A program that was never in a folder.
cat >"$work/memfd.py" <<'P'
import os, sys
fd = os.memfd_create("nowhere")
os.write(fd, open(sys.argv[1], "rb").read())
os.execve(fd, ["nowhere"], os.environ)
P
if [ "$(uname -m)" = x86_64 ] && command -v gcc >/dev/null && (cd "$work" && gcc -O1 -Wl,--build-id -o spin spin.c) 2>"$work/err" && \
	python3 -c 'import os; os.memfd_create("x")' 2>"$work/err"; then
	rec python3 memfd.py spin
	roots _start 0.99 "a program in a memfd: every stack begins at _start"
	# Of one that runs already /proc tells, not the kernel's records.
	(cd "$work" && gcc -O1 -DSTOPS -Wl,--build-id -o stops spin.c && exec python3 memfd.py stops) & stopped=$!
	soon has_stopped "$stopped"
	rec -p "$stopped" & recorder=$!
	soon is_recording "$work/perf.data"
	kill -CONT "$stopped"
	wait "$recorder" "$stopped"
	roots _start 0.99 "the same, attached to"
else
	skip "no gcc for x86-64, or no memfd_create" "a program in a memfd"
fi

# Registers but no copy: the reason is said. The programs spin on a stack pointer that is none, and are ended by a signal.
cat >"$work/astray.c" <<'C'
#include <sys/time.h>
int main(int argc, char **argv)
{
	(void)argv;
	setitimer(ITIMER_PROF, &(struct itimerval){ .it_value = { .tv_usec = 300000 } }, 0);
	if (argc > 1)
		__asm__ volatile("movabs $0xb400000000001000, %rax; mov %rax, %rsp; 1: jmp 1b");
	__asm__ volatile("mov $0x1000, %rsp; 1: jmp 1b");
}
C
if [ "$(uname -m)" = x86_64 ] && gcc -O1 -o "$work/astray" "$work/astray.c" 2>"$work/err"; then
	uncopied() { # EXPRESSION NAME
		python3 -c 'import json, sys; u = json.load(open(sys.argv[1]))["uncopied"]; print("#  ", u); sys.exit(not eval(sys.argv[2]))' "$work/s.json" "$1"
		ok $? "$2"
	}
	rec -F 997 --summary s.json ./astray
	uncopied 'u["absent"] > 100 and u["tagged"] == 0' "a stack pointer that points at nothing"
	rec -F 997 --summary s.json ./astray tagged
	uncopied 'u["tagged"] > 100 and u["absent"] < 5' "a stack pointer with a tag"
	grep -q 'the stack pointer has a tag' "$work/err"
	ok $? "and it is said"
else
	skip "not x86-64, or no gcc" "stacks that are not copied"
fi
# Stacks beyond the kernel's cap, read on while the program is stopped: exact, or not at all.
spliced() { # LEAST NAME : stacks put together rightly, none wrongly (tests/fixtures/changing.c). Those only checked may be wrong, and say so.
	"$perfsample" script -F ip,sym,via -i "$work/perf.data" >"$work/stacks" 2>>"$work/err"
	python3 - "$work/stacks" "$1" <<'P'
import re, sys
right = wrong = checked = unsure = 0
for stack in open(sys.argv[1]).read().split("\n\n"):
    frames = [line.split()[1].split("+")[0] for line in stack.split("\n") if line.startswith("\t")]
    leaf = [f for f in frames if f.startswith("leaf_")]
    if not leaf or "joined" not in stack:
        continue
    calls = "".join("01"[f[0] == "B"] for f in reversed(frames) if re.fullmatch(r"[AB](\.\w+)*", f))
    is_right = len(calls) == 6 and int(calls, 2) == int(leaf[0].split("_")[1].split(".")[0], 8)
    if "joined checked" in stack:
        checked += is_right
        unsure += not is_right
    elif is_right:
        right += 1
    else:
        wrong += 1
        print("#  ", calls, frames)
print("#   exact: right", right, "wrong", wrong, "checked: right", checked, "wrong", unsure)
sys.exit(0 if right + checked >= int(sys.argv[2]) and wrong == 0 else 1)
P
	ok $? "$2"
}
changing=$fixtures/changing.c
if [ "$(id -u)" -eq 0 ] && command -v gcc >/dev/null && chrt -f 1 true 2>/dev/null && \
	gcc -O1 -fno-optimize-sibling-calls -o "$work/changing" "$changing" && gcc -O1 -DHOLDS -fno-optimize-sibling-calls -o "$work/holds" "$changing"; then
	# Reading on begins some passes after the first deep stacks, on a busy machine later: the program works for long enough that this is a small part.
	rec --max-cpu 100 -F 2000 ./changing 2 100000
	spliced 1000 "the callers are those of the leaf, in every one"
	holds 'ends["splices"]["exact"] > 0.7 * taken and e["stacks"]["joined"] == sum(ends["splices"].values())' "joined, nearly all of them exactly"
	rec --max-cpu 100 -F 2000 ./changing 1.5 3000
	spliced 50 "the same where the callers change every 10 microseconds"
	rec --max-cpu 100 -F 2000 ./holds 1.5 10000
	spliced 100 "the same where the whole stack changes"
	if [ "$(nproc)" -gt 1 ] && gcc -O1 -DSHARED -pthread -fno-optimize-sibling-calls -o "$work/shared" "$changing"; then
		for _ in 1 2 3 4; do # on a busy machine the two threads may only take turns: then nothing is written while a stack is read
			rec --max-cpu 100 -F 2000 ./shared 1 100000
			"$perfsample" report -i "$work/perf.data" --format json 2>>"$work/err" | grep -q '"checked": *[1-9]' && break
		done
		spliced 30 "the same where another thread writes into the stack while the program stands still"
		holds 'ends["splices"]["checked"] > 0 and e["stacks"]["joined"] == sum(ends["splices"].values())' "then some are checked, and counted apart"
	else
		skip "one CPU" "another thread writes into the stack"
	fi
	rec --max-cpu 100 -F 2000 -- sh -c './changing 0.5 100000; i=0; while [ $i -lt 900000 ]; do i=$((i + 1)); done; ./changing 0.5 100000'
	tr -s '\n ' ' ' <"$work/err" | grep -q 'read on only while more than 3% of the stacks need it'
	ok $? "between two phases of deep stacks nothing is read on"
	spliced 500 "and in both of them"
	"$perfsample" script -F pid,ip,via -i "$work/perf.data" 2>>"$work/err" | awk '/^ *[0-9]+ *$/ { pid = $1 } /joined exact/ { joined[pid]++ }
		END { for (pid in joined) phases += joined[pid] > 100; exit phases != 2 }'
	ok $? "some hundred in each"
	# Programs that begin on one CPU and go on on another, while stacks are read on: on the first no sample wakes its reader any more, and their mappings are in its ring.
	cat >"$work/moves.c" <<'C'
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv)
{
	cpu_set_t to;
	CPU_ZERO(&to);
	CPU_SET(atoi(argv[argc - 1]), &to);
	sched_setaffinity(0, sizeof(to), &to);
	while (clock() < CLOCKS_PER_SEC / 50)
		;
}
C
	gcc -O2 -o "$work/moves" "$work/moves.c"
	if [ "$(nproc)" -gt 1 ] && taskset -c 0 true 2>/dev/null && taskset -c 1 true 2>/dev/null; then
		rec --max-cpu 100 -F 2000 -- sh -c 'taskset -c 1 ./changing 1.5 100000 & d=$!; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do taskset -c 0 ./moves 1; sleep 0.03; done; wait $d'
		holds 'e["stacks"]["joined"] > 0.3 * taken and share("no_mapping") < 0.005' "programs that move to another CPU are met with their mappings"
	else
		skip "one CPU" "programs that move to another CPU"
	fi
	# Phases that are over before the next pass: by glances at the rings, as stacks of more than half a copy announce them.
	cat >"$work/phases.c" <<'C'
#include <stdlib.h>
#include <string.h>
#include <time.h>
static volatile char sink;
__attribute__((noinline)) static void turn(double ms)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	for (double end = t.tv_sec * 1e3 + t.tv_nsec / 1e6 + ms, now = 0; now < end; now = t.tv_sec * 1e3 + t.tv_nsec / 1e6)
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
}
__attribute__((noinline)) static void down(int kib, double ms)
{
	char room[1024];
	memset(room, kib, sizeof(room));
	if (kib == 0) turn(ms); else down(kib - 1, ms);
	sink = room[kib];
}
int main(int argc, char **argv) // ROUNDS, and of a round milliseconds of small, of large and of deep stacks
{
	for (int i = 0; argc > 4 && i < atoi(argv[1]); i++) {
		for (int k = 0; k < 5; k++) {
			down(0, atof(argv[2]));
			down(40, atof(argv[3]));
		}
		down(120, atof(argv[4]));
	}
	return 0;
}
C
	gcc -O1 -fno-optimize-sibling-calls -o "$work/phases" "$work/phases.c"
	rec --max-cpu 100 -F 997 ./phases 12 40 4 100
	holds 'e["stacks"]["joined"] > 500 and e["stacks"]["joined"] > 2 * e["stacks"]["truncated"]' "phases of deep stacks are read on across the gaps between"
	rec --max-cpu 100 -F 997 ./phases 6 200 3 60 # one stack in seventy is large, one in eighteen deep
	holds 'e["stacks"]["joined"] > 100 and 2 * e["stacks"]["joined"] > e["stacks"]["truncated"]' "phases shorter than from pass to pass are noticed while they last"
	rec --max-cpu 100 -F 2000 --no-join ./changing 0.5 100000
	holds 'ends["splices"] == {"exact": 0, "checked": 0} and e["stacks"]["truncated"] > 0.7 * taken' "--no-join: truncated"
	rec --max-cpu 100 -F 2000 --call-graph dwarf,8192 ./changing 0.5 100000
	holds 'ends["splices"]["exact"] == 0 and e["stacks"]["truncated"] > 0.7 * taken' "a copy that was asked to be small: truncated, not read on"
	# What reading on would cost is judged by the rate so far: here 3 stacks a second are too many, however little a busy machine lets the program run.
	rec --max-cpu 0.01 -F 2000 ./changing 0.7 100000
	holds 'ends["splices"]["exact"] == 0' "beyond --max-cpu: not read"
	grep -q 'stay truncated' "$work/err"
	ok $? "and that is said"
	# Of more than 8,000 frames both ends are kept; one frame stands for those between.
	cat >"$work/deepest.c" <<'C'
#include <stdlib.h>
#include <time.h>
static volatile unsigned long n;
__attribute__((noinline)) static void turn(void)
{
	for (clock_t end = CLOCKS_PER_SEC; clock() < end;)
		for (int i = 0; i < 10000; i++)
			n++;
}
__attribute__((noinline)) static void down(int depth)
{
	if (depth == 0) turn(); else down(depth - 1);
	n++;
}
int main(void) { down(12000); return 0; }
C
	gcc -O1 -fno-optimize-sibling-calls -o "$work/deepest" "$work/deepest.c"
	rec --max-cpu 100 -F 997 ./deepest
	gap() { # NAME COMMAND… : its output, to be searched for the mark
		"$perfsample" "${@:2}" -i "$work/perf.data" 2>>"$work/err" | gzip -cdf | grep -qF '[frames left out]'
		ok $? "$1 shows where frames were left out"
	}
	"$perfsample" fold -i "$work/perf.data" 2>>"$work/err" | python3 -c '
import sys
left = other = 0
for line in sys.stdin:
    frames, n = line.rsplit(" ", 1)
    frames = frames.split(";")
    at = frames.index("[frames left out]") if "[frames left out]" in frames else 0
    if 8001 <= len(frames) < 8100 and at > 3999 and frames[at - 1] == frames[at + 1] == "down":
        left += int(n)
    else:
        other += int(n)
print("#   with the mark in the middle", left, "others", other)
sys.exit(not left > 0.6 * (left + other))'
	ok $? "8,000 frames, and a mark among them"
	! grep -q 'they are read on only while' "$work/err"
	ok $? "such stacks count as deeper than the copy: reading on does not rest"
	gap script script
	gap flame flame -o -
	gap "the JSON export" export --format json
	gap pprof export --format pprof
	"$perfsample" report --children -i "$work/perf.data" --format json 2>>"$work/err" | python3 -c '
import json, sys
rows = [row for row in json.load(sys.stdin)["events"][0]["functions"] if row["symbol"] == "[frames left out]"]
sys.exit(len(rows) != 1 or rows[0]["self"]["samples"] != 0 or rows[0]["unresolved"])'
	ok $? "no sample is its own in a report, where it is no unresolved function"
	"$perfsample" report --missing -i "$work/perf.data" >"$work/missing" 2>>"$work/err"
	! grep -qF 'left out' "$work/missing"
	ok $? "nor one whose name is missing"
	rec --max-cpu 100 -F 2000 --per-task -- sh -c './changing 0.4 100000 & ./changing 0.4 100000 & wait'
	spliced 300 "two at once, per-task events that hang up"
else
	skip "no root, no real-time priority, or no gcc" "stacks beyond the kernel's cap"
fi
# Exceptions: functions that throw, about to go on in the frame that handles, have its registers where their caller's were.
if command -v g++ >/dev/null && [ "$(uname -m)" = x86_64 ]; then
	cat >"$work/throws.cc" <<'C'
#include <stdexcept>
#include <time.h>
volatile int n;
struct counted { ~counted() { n = n + 1; } };
__attribute__((noinline)) void throws() { n = n + 1; throw 1; }
__attribute__((noinline)) void passes() { counted c; throws(); n = n + 1; }
__attribute__((noinline)) void catches() { try { passes(); } catch (int) { n = n + 1; } }
int main() { while (clock() < CLOCKS_PER_SEC) catches(); }
C
	for how in "g++ -O2" "g++ -O0" "g++ -O2 -static" "clang++ -O2"; do
		if ! command -v "${how%% *}" >/dev/null; then
			skip "no ${how%% *}" "exceptions, $how"
			continue
		fi
		# shellcheck disable=SC2086 # options, word by word
		$how -o "$work/throws" "$work/throws.cc"
		rec -F 8000 ./throws
		"$perfsample" script -F ip,sym,via -i "$work/perf.data" >"$work/stacks" 2>>"$work/err"
		holds 'e["stacks"]["complete"] > 0.999 * taken' "exceptions, $how: stacks are whole"
		python3 - "$work/stacks" <<'P'
import sys
right = wrong = 0
for stack in open(sys.argv[1]).read().split("\n\n"):
    frames = [(line.split()[1].split("(")[0].split("+")[0].split(".")[0], " landing" in line) for line in stack.split("\n") if line.startswith("\t")]
    at = next((i for i, frame in enumerate(frames) if frame[1]), None)
    if at is None:
        continue
    callers = [frame[0] for frame in frames[at:at + 3]]
    is_right = callers[:2] == ["catches", "main"] or callers == ["passes", "catches", "main"]
    right, wrong = right + is_right, wrong + (not is_right)
    if not is_right:
        print("#  ", frames)
print("#   frames that handle: right", right, "wrong", wrong)
sys.exit(not (right > 0 and wrong == 0))
P
		ok $? "and those that go on in the frame that handles, in that one"
	done
else
	skip "no g++, or not x86-64" "exceptions"
fi
# libunwind over the same stack copies.
if "$perfsample" debug unwind "$work/perf.data" 2>&1 | grep -q '^perfsample: libunwind:'; then
	skip "no libunwind" "libunwind beside ours"
elif command -v gcc >/dev/null; then
	yes 'struct s { int a[9]; }; int f(struct s *p, int n) { int t = 0; for (int i = 0; i < n; i++) t += p->a[i % 9] * f(p, n - 1); return t; }' |
		head -400 | awk '{ gsub(/ f\(struct/, " f" NR "(struct"); gsub(/\* f\(/, "* f" NR "("); gsub(/struct s/, "struct s" NR); print }' >"$work/many.c"
	export CCACHE_DISABLE=1
	rec --unwind post -F 3000 gcc -O2 -c -o many.o many.c
	cp "$work/perf.data" "$work/both.data"
	"$perfsample" debug unwind "$work/perf.data" >"$work/both" 2>>"$work/err"
	awk '/^stacks with/ { n = $5 } /^libunwind completes/ { c = $3; same = $9 } END { exit !(n > 100 && c > 0.8 * n && same >= 0.999 * c) }' "$work/both"
	ok $? "gcc: frames as libunwind's wherever that completes: $(sed -n 2p "$work/both")"
	awk '/^ours / { a = $2 } /^libunwind .*ns a frame/ { b = $2 } END { exit !(a > 0 && b > 3 * a) }' "$work/both"
	ok $? "and more than three times as fast"
	# The trampoline's CFI has expressions, which libunwind reads anew at each stack, whatever image it asked for last.
	cat >"$work/handles.c" <<'C'
#include <signal.h>
#include <stdlib.h>
#include <time.h>
static int by(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void handler(int signal) { while (clock() < CLOCKS_PER_SEC / 3) { int n[500]; for (int i = 0; i < 500; i++) n[i] = rand() % 1000 + signal; qsort(n, 500, sizeof(n[0]), by); } }
int main(void) { signal(SIGUSR1, handler); return raise(SIGUSR1); }
C
	gcc -O2 -o "$work/handles" "$work/handles.c"
	rec --unwind post -F 2000 ./handles
	"$perfsample" debug unwind "$work/perf.data" >"$work/handled" 2>>"$work/err"
	awk '/^stacks with/ { n = $5 } /^libunwind completes/ { c = $3; same = $9 } END { exit !(n > 100 && c > 0.97 * n && same >= 0.99 * c) }' "$work/handled"
	ok $? "a signal handler: libunwind gets through the trampoline, too: $(sed -n 2p "$work/handled")"
	"$perfsample" fold -i "$work/both.data" >"$work/own" 2>>"$work/err"
	"$perfsample" fold -i "$work/both.data" --unwinder libunwind >"$work/peer" 2>>"$work/err"
	python3 - "$work/own" "$work/peer" <<'P'
import sys
own, peer = (set(l for l in open(f) if ";[" not in l.split(";main")[0]) for f in sys.argv[1:])
sys.exit(0 if len(own) > 20 and len(peer - own) <= 0.01 * len(own) else 1)
P
	ok $? "fold --unwinder libunwind"
	"$perfsample" fold -i "$work/perf.data" --unwinder other >/dev/null 2>"$work/err"
	[ $? -eq 2 ] && grep -q 'expected own or libunwind' "$work/err"
	ok $? "any other is refused"
	if command -v node >/dev/null; then # its builtins have no CFI; that of JIT code is in the dump alone
		cat >"$work/work.js" <<'J'
function* count(n) { for (let i = 0; i < n; i++) yield i; }
const later = async x => { await null; return x + 1; };
const f = n => n < 2 ? n : f(n - 1) + f(n - 2);
(async () => {
	for (let u, t = 0; u = process.cpuUsage(), u.user + u.system < 1500000;) {
		f(15);
		[...Array(1000).keys()].map(Math.sin).sort((x, y) => x - y);
		for (const x of count(200)) t += x;
		for (let i = 0; i < 100; i++) t += await later(i);
		'a1b22c333'.repeat(50).replace(/([a-z])(\d+)/g, (m, a, b) => b + a);
	}
})();
J
		rec --unwind post --call-graph dwarf,16384 -F 2000 node --perf-prof work.js
		"$perfsample" debug unwind --examples 3 "$work/perf.data" >"$work/both" 2>"$work/err"
		if grep -q 'nothing is proven' "$work/err"; then
			skip "no libcapstone" "node: frames as libunwind's, or proven"
		else
			# What is left is in code that moves its return address down through memory, to make room for arguments.
			awk '/^stacks with/ { n = $5 } /^libunwind completes/ { complete = $3 } / where libunwind completes$/ { of = $(NF - 3); all = $(NF - 5) } /^  identical/ { same = of }
				/^  libunwind is wrong by/ { proven = of } /^  ours is wrong|^  both are wrong/ { wrong += of } /^  frames told/ { told = $8 } /^  likely/ { likely += of }
				END { exit !(n > 100 && told > n / 2 && proven > 20 && same + proven >= 0.97 * complete && same + proven + likely + wrong >= 0.999 * complete && wrong <= 0.01 * complete) }' "$work/both"
			ok $? "node: frames as libunwind's, or proven right by the functions' instructions:$(sed -n 3p "$work/both")"
		fi
	else
		skip "no node" "node: frames as libunwind's"
	fi
fi
# CFI that stripping moved into the debug file: .debug_frame alone, found by build ID (recording, too) or by debuglink (afterwards).
cat >"$work/moved.c" <<'C'
#include <stdlib.h>
volatile int sink;
__attribute__((noinline)) static int spin(int n) { if (n < 0) abort(); for (int i = 0; i < n; i++) sink += i; return sink; }
__attribute__((noinline)) static int middle(int n) { volatile char b[200]; b[n % 200] = 1; int r = spin(n); return r + b[5]; }
__attribute__((noinline)) static int outer(int n) { int r = middle(n); sink += r; return r; }
int main(int argc, char **argv) { (void)argv; for (int i = 0; i < 3000; i++) outer(argc > 1 ? -1 : 100000); return 0; }
C
if gcc -O2 -g -fomit-frame-pointer -fno-asynchronous-unwind-tables -fno-unwind-tables -Wl,--build-id -o "$work/moved" "$work/moved.c" 2>"$work/err" &&
	(cd "$work" && objcopy --only-keep-debug moved moved.dbg && objcopy --strip-all moved moved.bare && objcopy --add-gnu-debuglink=moved.dbg moved.bare moved.linked) 2>>"$work/err"; then
	id=$(readelf -n "$work/moved" | sed -n 's/.*Build ID: //p')
	mkdir -p "$work/home/.debug/.build-id/${id:0:2}"
	rm "$work/moved"
	rec --unwind post ./moved.linked
	roots '_start' 0.95 ".debug_frame in a debug file, by debuglink: stack copies"
	(cd "$work" && ulimit -c unlimited && ./moved.linked abort) >/dev/null 2>&1
	core=$(find "$work" -maxdepth 1 -name 'core*' | head -1)
	if [ -n "$core" ]; then
		(cd "$work" && "$perfsample" debug core "$core" moved.linked) >"$work/core.out" 2>>"$work/err"
		[ "$(sed -n 's/^#.* \(spin\|middle\|outer\|main\|_start\)\(\..*\)*$/\1/p' "$work/core.out" | tr '\n' ' ')" = "spin middle outer main _start " ]
		ok $? ".debug_frame in a debug file: a core"
	else
		skip "none is written here" ".debug_frame in a debug file: a core"
	fi
	cp "$work/moved.dbg" "$work/home/.debug/.build-id/${id:0:2}/${id:2}.debug"
	HOME="$work/home" rec ./moved.bare
	HOME="$work/home" roots '_start' 0.95 ".debug_frame in a debug file, by build ID: live"
else
	skip "no gcc or objcopy" ".debug_frame in a debug file"
fi
done_testing
