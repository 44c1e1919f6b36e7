#!/bin/bash
# shellcheck disable=SC2154 # tap.sh sets what it names
# Functions of identical code, kept once by gcc (-fipa-icf) or lld (--icf): each has its samples under its own name where call sites tell,
# from the recording alone and in recordings of perf's; and where none tells, the report says what the name stands for.
. "$(dirname "$0")/tap.sh"
CC=${CC:-gcc}
names='gcc, DWARF 5|gcc, DWARF 4|stripped, debuglink|clang, lld|without the program|fold|no debug information|perf|inject'
if ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	IFS='|'
	for name in $names; do skip "this host cannot record, or has no compiler" "$name"; done
	done_testing
fi
export XDG_CACHE_HOME=$work/cache
cd "$work" || exit 1
cat >t.c <<'C'
#include <stdint.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return (double)t.tv_sec + (double)t.tv_nsec * 1e-9; }
static inline __attribute__((always_inline)) uint64_t mix(uint64_t x)
{
	/* As long as the number has it: work that took the same time each would be in step with the sampling clock on some host. */
	for (int i = 0, n = 10000 + x % 20000; i < n; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; __asm__ volatile("" : "+r"(x)); }
	return x;
}
static __attribute__((noinline, noclone)) uint64_t old_way(uint64_t x) { return mix(x); }
static __attribute__((noinline, noclone)) uint64_t new_way(uint64_t x) { return mix(x); }
__attribute__((noinline)) uint64_t call_old(uint64_t x) { return old_way(x) + 1; }
__attribute__((noinline)) uint64_t call_new(uint64_t x) { return new_way(x) + 2; }
int main(void)
{
	uint64_t x = 7;
	for (double end = now() + 0.6; now() < end;) { x = call_old(x); x = call_new(x); x = call_new(x); x = call_new(x); }
	return x == 1;
}
C
build() { # PROGRAM COMPILER FLAGS…
	local program=$1
	shift
	"$@" -O2 -fno-optimize-sibling-calls -o "$program" t.c 2>build.err && [ "$(nm "$program" | awk '/ (old|new)_way$/ { print $1 }' | sort -u | wc -l)" -eq 1 ]
}
record() { # PROGRAM
	"$perfsample" record -q -o "$1.data" "./$1" >/dev/null 2>record.err
}
# new_way has three quarters, old_way one: an interval that no host's noise leaves, and no tie-break comes near.
shares() { # FILE OPTIONS…
	"$perfsample" report -i "$@" --format tsv 2>/dev/null | awk -F'\t' '
		NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; share = at["self.share"] ? at["self.share"] : at["self_share"] }
		$at["symbol"] == "old_way" { old = $share }
		$at["symbol"] == "new_way" { new = $share }
		END { print (old > 0.12 && old < 0.38 && new > 0.55 && new < 0.88) ? "each its own" : "old_way " old ", new_way " new }'
}
told() { # PROGRAM NAME…
	local program=$1
	shift
	record "$program"
	is "$(shares "$program.data")" "each its own" "$*"
}

if build five "$CC" -gdwarf-5; then
	told five "gcc, DWARF 5: each function has its own samples"
	build four "$CC" -gdwarf-4
	told four "gcc, DWARF 4: each function has its own samples"
	cp five five.full
	objcopy --only-keep-debug five five.debug && strip five && objcopy --add-gnu-debuglink=five.debug five
	told five "stripped, debuglink: each function has its own samples"
	is "$(shares five.data --no-inline)" "each its own" "without inlined frames as well"
	is "$("$perfsample" report -i five.data --format json | grep -c aliases)" 0 "where every call site told, no name stands for others"
	rm five five.debug
	is "$(shares five.data)" "each its own" "without the program: the recording holds what the calls call"
	like "$("$perfsample" fold -i five.data 2>/dev/null | tr '\n' ' ')" 'call_new;new_way;mix [0-9]+' "fold: the called function, with what is inlined into it"
	like "$("$perfsample" fold -i five.data 2>/dev/null | tr '\n' ' ')" 'call_old;old_way;mix [0-9]+' "fold: and the other"
	unlike "$("$perfsample" fold -i five.data 2>/dev/null)" 'call_old;new_way|call_new;old_way' "fold: never one for the other"
	strip -g -o bare five.full
	record bare
	like "$(XDG_CACHE_HOME=$work/none "$perfsample" report -i bare.data --format json 2>/dev/null)" '"aliases":\["(old|new)_way"\]' \
		"no debug information: the report says that the name stands for another function as well"
	like "$("$perfsample" report -i bare.data --explain "$("$perfsample" fold -i bare.data | grep -o -m 1 '\(old\|new\)_way')" 2>/dev/null)" \
		'its code is also that of (old|new)_way' "no debug information: --explain says so"
	if perf record -q -F 800 -e cpu-clock --call-graph dwarf,4096 -o perf.data ./five.full >/dev/null 2>&1; then
		is "$(shares perf.data)" "each its own" "perf's recording: each function has its own samples"
		"$perfsample" inject -i perf.data -o injected.data >/dev/null 2>&1
		mv five.full elsewhere
		is "$(shares injected.data)" "each its own" "inject: and in what it makes of that, without the program"
	else
		skip "perf does not record here" "perf's recording"
		skip "perf does not record here" "inject"
	fi
else
	skip "this compiler does not fold" "gcc"
fi
if command -v clang ld.lld >/dev/null && build lld clang -gdwarf-5 -ffunction-sections -fuse-ld=lld -Wl,--icf=all; then
	told lld "clang, lld --icf: each function has its own samples"
else
	skip "no clang with lld" "clang, lld --icf"
fi
done_testing
