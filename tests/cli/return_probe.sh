#!/bin/bash
# A return probe puts its trampoline over return addresses: no stack ends there as at a root. Who called is inferred where one call alone can have; else a frame is missing,
# and that is to be seen.
. "$(dirname "$0")/tap.sh"
# What other tools wrote, frame pointers having led past it. (Kernels from 6.11 on put the true address back there.)
cat >"$work/text" <<'T'
app  7 [000]  1.000000:  1000 cpu-clock: 
	  401100 leaf+0x10 (/bin/app)
	  401200 probed+0x10 (/bin/app)
	7fffffffe000 [unknown] ([uprobes])
	  401300 main+0x10 (/bin/app)
	  401400 _start+0x10 (/bin/app)

T
is "$("$perfsample" fold -i "$work/text" 2>/dev/null)" 'app;[unwind failed];_start;main;[return address replaced by a probe];probed;leaf 1' "text of another tool: not complete, and main is there"
like "$("$perfsample" report -i "$work/text" --format json 2>/dev/null)" '"uprobe_trampoline": ?1' "with a reason of its own"

if [ "$(id -u)" -ne 0 ] || ! unshare -m mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null; then
	echo "ok $((tap_count += 1)) # SKIP no private mount of tracefs"
	done_testing
	exit $?
fi
cat >"$work/probed.c" <<'C'
#include <stdlib.h>
static volatile unsigned long sink;
#define NI __attribute__((noinline, noclone))
NI unsigned long leaf(unsigned long n) { unsigned long t = n; for (unsigned long i = 0; i < n; i++) t = t * 6364136223846793005ul + i; return t; }
NI unsigned long probed(unsigned long n) { unsigned long r = leaf(n); return r + 1; }
NI void once(unsigned long n) { sink += probed(n); sink++; }
NI void twice(unsigned long n) { sink += probed(n); sink += probed(n + 1); sink++; }
NI void by_pointer(unsigned long (*volatile f)(unsigned long), unsigned long n) { sink += f(n); sink++; }
int main(int argc, char **argv)
{
	for (int i = 0; argc > 1 && i < atoi(argv[1]); i++) {
		unsigned long n = 200000 + i * 7919ul % 200000; // no rhythm of its own: with one, the sampling clock may meet the same call each time
		once(n);
		twice(n);
		by_pointer(probed, n);
	}
	return 0;
}
C
gcc -O1 -fomit-frame-pointer -o "$work/probed" "$work/probed.c" 2>"$work/err"
cat >"$work/go.sh" <<'S'
mount -t tracefs nodev /sys/kernel/tracing || exit 77
cd "$1" || exit 1
event=perfsample_$$/probed
echo "r:$event $1/probed:0x$(nm probed | awk '$3 == "probed" { print $1 }')" >>/sys/kernel/tracing/uprobe_events || exit 77
trap 'echo 0 >"/sys/kernel/tracing/events/$event/enable"; echo "-:$event" >>/sys/kernel/tracing/uprobe_events' EXIT
echo 1 >"/sys/kernel/tracing/events/$event/enable" || exit 77
timeout 100 "$2" record -q -o live.data -- ./probed 300 && timeout 100 "$2" record -q --unwind post -o post.data -- ./probed 300 &&
	timeout 100 setarch -R "$2" record -q -o fixed.data -- ./probed 300
S
unshare -m bash "$work/go.sh" "$work" "$perfsample" >"$work/out" 2>"$work/err"
status=$?
if [ $status -eq 77 ]; then
	echo "ok $((tap_count += 1)) # SKIP no probes on user programs"
	done_testing
	exit $?
fi
ok $status "recorded while a return probe is set"
for how in live post fixed; do # fixed: addresses are not random, so the trampoline is not on the last page, where the stack is
	"$perfsample" fold -i "$work/$how.data" >"$work/folded" 2>>"$work/err"
	python3 - "$work/folded" >"$work/shares" <<'P'
import sys
all = main = once = twice = by_pointer = gap = bare = wrong = 0
for line in open(sys.argv[1]):
    stack, n = line.rsplit(" ", 1)
    frames, n = stack.split(";"), int(n)
    if "leaf" not in frames:
        continue
    at, failed = frames.index("leaf"), "[unwind failed]" in frames
    above = frames[at - 2] if at >= 2 else None
    all += n
    main += n * ("main" in frames and "_start" in frames)
    once += n * (above == "once")
    by_pointer += n * (above == "by_pointer")
    twice += n * (above == "twice")
    gap += n * (above == "[return address replaced by a probe]" and frames[at - 3] == "main")
    bare += n * ("main" not in frames and not failed)
    wrong += n * (failed != (above is not None and above.startswith("[")))
print("all", all > 150, "main", main > 0.98 * all, "bare", bare, "wrong", wrong, "once", abs(once / all - .25) < .08, "by_pointer", abs(by_pointer / all - .25) < .08,
      "missing", abs(gap / all - .5) < .1, "twice", twice)
P
	is "$(cat "$work/shares")" "all True main True bare 0 wrong 0 once True by_pointer True missing True twice 0" \
		"$how: main is in all, callers that are the only ones are told, and a frame is seen to be missing where two calls of one function may have led there" ||
		sed 's/^/#   /' "$work/folded" | cut -c1-200 | tail -n 8
	like "$("$perfsample" report -i "$work/$how.data" 2>/dev/null)" 'FAILED \(return address replaced by a probe\)' "$how: in words"
done
done_testing
