#!/bin/bash
# Programs and C libraries without unwind tables, as musl comes: callers are found by the instructions, through functions that end in a call which does not return, with stack
# protectors, in threads, with and without frame pointers. No caller may be another than the one that the source has.
. "$(dirname "$0")/tap.sh"
if [ "$(uname -m)" != x86_64 ]; then
	skip "instructions are followed on x86-64" "code without unwind tables"
	done_testing
fi
if [ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 9)" -gt 2 ]; then
	echo "1..0 # SKIP perf_event_paranoid, and this is not root"
	exit 0
fi
cat >"$work/bare.c" <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define NI __attribute__((noinline, noclone))
static volatile unsigned long sink;
static double until;
static double now(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
NI unsigned long spin(unsigned long n) { unsigned long t = n; for (unsigned long i = 0; i < n; i++) t = t * 6364136223846793005ul + i; return t; }
NI void die(const char *why) { fputs(why, stderr); exit(3); }
NI unsigned long checked(unsigned long n) { unsigned long r = spin(n); if (r == 1) die("one\n"); return r; }
NI unsigned long arrays(unsigned long n) { char b[200]; memset(b, (int)n, sizeof(b)); unsigned long r = checked(n); if (b[r % 200] == 7 && r == 3) abort(); return r + (unsigned char)b[3]; }
NI unsigned long variable(unsigned long n) { char b[n % 100 + 16]; b[0] = (char)n; unsigned long r = arrays(n); return r + (unsigned char)b[0]; }
NI void forever(unsigned long (*f)(unsigned long)) { for (;;) { sink += f(20000); if (now() > until) { if (sink == 5) die("five\n"); exit(0); } } }
static int compare(const void *a, const void *b) { sink += spin(100); return *(const int *)a - *(const int *)b; }
NI void sorting(int n) { int *a = malloc((size_t)n * sizeof(*a)); for (int i = 0; i < n; i++) a[i] = (int)((unsigned)i * 2654435761u >> 3); qsort(a, (size_t)n, sizeof(*a), compare); free(a); }
NI unsigned long mixed(unsigned long n) { sorting(300); return variable(n); }
static void *in_thread(void *p) { double end = now() + 0.2; while (now() < end) sink += mixed(20000); return p; }
int main(void)
{
	pthread_t t;
	pthread_create(&t, NULL, in_thread, NULL);
	pthread_join(t, NULL);
	until = now() + 0.2;
	forever(mixed);
}
C
cat >"$work/judge.py" <<'P'
import sys
callers = {"spin": {"checked", "compare"}, "checked": {"arrays"}, "arrays": {"variable"}, "variable": {"mixed"}, "sorting": {"mixed"},
           "mixed": {"in_thread", "forever"}, "forever": {"main"}} # by whom each function may have been called
all = whole = wrong = 0
for line in open(sys.argv[1]):
    stack, n = line.rsplit(" ", 1)
    frames, n = stack.split(";")[1:], int(n)
    failed = frames[0] in ("[unwind failed]", "[truncated]") if frames else True
    frames = frames[1:] if failed else frames
    good = __import__("builtins").all(up in callers[f] for up, f in zip(frames, frames[1:]) if f in callers)
    good = good and (failed or not frames or frames[0] not in callers)
    if not failed and {"spin", "mixed", "compare"} & set(frames):
        good = good and bool({"forever", "in_thread"} & set(frames))
    all += n
    wrong += n * (not good)
    whole += n * (good and not failed)
print(all > 150, whole > 0.97 * all, wrong * 1000 <= all)
if not (all > 150 and whole > 0.97 * all and wrong * 1000 <= all):
    print("#", all, "stacks, whole", whole, "wrong", wrong)
P
judge() { # WHAT COMPILER OPTIONS…
	local what=$1
	shift
	if ! "$@" -w -fno-optimize-sibling-calls -o "$work/bare" "$work/bare.c" -lpthread 2>"$work/err"; then
		skip "$1 does not make it" "$what"
		return
	fi
	rec -q -F 999 -o bare.data -- ./bare
	"$perfsample" fold -i "$work/bare.data" >"$work/folded" 2>>"$work/err"
	is "$(python3 "$work/judge.py" "$work/folded")" "True True True" "$what: whole, and no caller is another"
}
bare=(-fno-asynchronous-unwind-tables -fno-unwind-tables)
judge "glibc, the program without tables" gcc -O2 "${bare[@]}"
judge "without frame pointers, with stack protector" gcc -O1 "${bare[@]}" -fomit-frame-pointer -fstack-protector-strong
judge "with frame pointers" gcc -O1 "${bare[@]}" -fno-omit-frame-pointer
judge "static, nothing optimized" gcc -static -O0 "${bare[@]}"
if command -v musl-gcc >/dev/null; then
	judge "musl" musl-gcc -O2
	judge "musl, static" musl-gcc -static -O2
	judge "musl, no tables at all" musl-gcc -O2 "${bare[@]}" -fstack-protector-strong
	judge "musl, static, for size" musl-gcc -static -Os "${bare[@]}"
	judge "musl, static, with frame pointers in the program alone" musl-gcc -static -O1 -fno-omit-frame-pointer
else
	skip "no musl-gcc" "musl"
fi
done_testing
