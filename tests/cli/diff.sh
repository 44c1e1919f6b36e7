#!/bin/bash
# perfsample diff: options and statuses; then recordings of a program of which one function does more on the new side.
. "$(dirname "$0")/tap.sh"
refuses 4 'absent' "a recording that is not there" diff "$work/absent" "$work/absent2"
refuses 2 'nothing to compare' "one recording alone" diff a
refuses 2 'one too many' "three operands" diff a b c
refuses 2 '--base without --new' "one side alone" diff --base a
refuses 2 "units" "--units that are none" diff --units x a b
refuses 2 'PCT' "a gate without a limit" diff --fail-over :f a b
refuses 2 'no function after' "a gate with an empty name" diff --fail-over 5: a b
refuses 2 'not supported' "perf's -c" diff -c ratio a b
small=tests/fixtures/small.data
"$perfsample" diff "$small" "$small" --format json >"$work/same" 2>"$work/err"
ok $? "a recording with itself"
python3 - "$work/same" <<'PYTHON'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["count"]["differ"] == 0 and d["within_run"]
assert all(abs(f["share_difference"]) < 1e-12 for f in d["functions"]) and d["functions"]
PYTHON
ok $? "does not differ"
"$perfsample" diff "$small" "$small" --fail-over 5 --strict >"$work/out" 2>"$work/err"
ok "$([ $? -eq 5 ]; echo $?)" "an undecided gate with --strict: status 5"
refuses 2 'jsn.*json' "an unknown format" diff --format jsn "$small" "$small"
refuses 2 'no event' "an event that is not there" diff --event cycles_of_the_moon "$small" "$small"

if ! "$perfsample" check >/dev/null 2>&1; then
	for name in 'found' 'gate fails' 'gate passes' 'refused' 'markdown'; do skip "this host cannot record" "$name"; done
	done_testing
fi
cat >"$work/w.c" <<'C'
#include <stdlib.h>
volatile unsigned long sink;
__attribute__((noinline)) void slower(long n) { for (long i = 0; i < n; i++) sink += 3; }
__attribute__((noinline)) void same(long n) { for (long i = 0; i < n; i++) sink ^= 5; }
int main(int argc, char **argv)
{
	long n = argc > 1 ? atol(argv[1]) : 1;
	for (int i = 0; i < 1500; i++) { slower(n); same(60000); }
	return 0;
}
C
${CC:-gcc} -O1 -o "$work/w" "$work/w.c" || exit 1
finds() { grep -qE '^total .* -> .* CPU ms/run  \+[0-9.]+% \[' "$work/text" && grep -q ' slower$' "$work/text"; }
# Three runs a side decide by Student's t with 2 degrees of freedom each: one run that a busy host slowed may leave it open, and rightly. Then again.
for _ in 1 2 3 4 5 6 7 8; do
	sides=()
	for i in 1 2 3; do # in turn
		"$perfsample" record -q -o "$work/b$i" -- "$work/w" 60000 2>/dev/null
		"$perfsample" record -q -o "$work/n$i" -- "$work/w" 150000 2>/dev/null
		sides+=(--base "$work/b$i" --new "$work/n$i")
	done
	"$perfsample" diff "${sides[@]}" --units 3 --unit run >"$work/text" 2>"$work/err"
	"$perfsample" diff "${sides[@]}" --units 3 --fail-over 20:slower >/dev/null 2>"$work/err"
	gate=$?
	finds && [ $gate -eq 1 ] && break
done
ok "$(finds; echo $?)" "what does 2.5 times the work is found"
ok "$(! grep -q 'sides not alternated' "$work/text"; echo $?)" "recorded in turn: no caveat of drift"
ok "$([ $gate -eq 1 ]; echo $?)" "the gate fails: status 1"
"$perfsample" diff "${sides[@]}" --units 3 --fail-over 2000 >/dev/null 2>"$work/err"
ok $? "and passes where the limit is high: status 0"
"$perfsample" diff "$work/b1" "$work/n1" >"$work/text" 2>"$work/err"
ok "$(grep -q 'one run a side: run-to-run differences not measured' "$work/text" && grep -q 'sides not alternated: drift not excluded' "$work/text"; echo $?)" \
	"one run a side is said to be"
"$perfsample" record -q -c 2ms -o "$work/other" -- "$work/w" 60000 2>/dev/null
refuses 4 'cannot be compared' "another period: status 4" diff "$work/b1" "$work/other"
"$perfsample" diff "${sides[@]}" --format markdown 2>"$work/err" | grep -q '^| slower |'
ok $? "markdown"
done_testing
