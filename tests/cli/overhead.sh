#!/bin/bash
# perfsample overhead, compare and plan: options, statuses, words; then trials of a short program.
. "$(dirname "$0")/tap.sh"
export TMPDIR=$work # where trials are recorded
refuses 2 'no command' "overhead of nothing" overhead
refuses 2 'files of their own' "a target beside a command" overhead -p 1 -- true
refuses 2 '--pairs' "fewer than five pairs" overhead --pairs 2 -- true
refuses 2 'none of wall' "an unknown metric" overhead --metric speed -- true
refuses 6 'ended with status 3' "a command that fails" overhead --dummy -- sh -c 'exit 3'
refuses 127 'nosuchcommand' "a command that is not there" overhead --dummy -- nosuchcommand
refuses 6 'matches' "a number that is not in the output" overhead --dummy --metric '/x=([0-9]+)/' -- true
refuses 2 'base-cmd' "compare without commands" compare -o "$work/c"
refuses 2 'given by --base-cmd' "compare with an operand" compare --base-cmd a --new-cmd b -o "$work/c" x
refuses 2 'one question each' "two plans at once" plan --change 3 --seen 1
refuses 2 'needs a recording' "a function of no recording" plan --function f
refuses 2 'cannot be told apart' "two equal shares" plan --share 5,5
"$perfsample" overhead --dummy --pairs 5 --metric '/v=([0-9]+)/' -- echo v=7 >"$work/text" 2>"$work/err"
ok "$([ $? -eq 0 ] && grep -qE '^overhead   0\.0% \[0\.0, 0\.0\], 5 pairs: not distinguishable from 0; at most 0\.0%$' "$work/text"; echo $?)" \
	"the same on both sides is not distinguishable from 0"
ok "$(find "$work" -name 'perfsample-overhead-*' | grep -q . && echo 1 || echo 0)" "nothing is left behind"
ok "$("$perfsample" plan --share 5% --within 0.5 | grep -q '^samples   at least 7,299$'; echo $?)" "a plan"
small=$fixtures/small.data
ok "$("$perfsample" plan -i "$small" --share 5% 2>/dev/null | grep -q 'design effect'; echo $?)" "a plan with a former recording's design effect"
refuses 2 "no 'absent'" "a function that is not in it" plan -i "$small" --function absent

if ! "$perfsample" check >/dev/null 2>&1; then
	for name in 'overhead' 'JSON' 'compare' 'files' 'again'; do skip "this host cannot record" "$name"; done
	done_testing
fi
loop='for ((i = 0; i < 60000; i++)); do :; done'
"$perfsample" overhead --pairs 5 -F 2000 -- bash -c "$loop" >"$work/text" 2>"$work/err"
ok "$([ $? -eq 0 ] && grep -qE '^overhead   .*, 5 pairs' "$work/text" && grep -qE '^accounted  the recorder used [0-9.]+%' "$work/text"; echo $?)" "overhead of recording a loop"
"$perfsample" overhead --pairs 5 --metric cpu --format json -- bash -c "$loop" 2>"$work/err" | python3 -c '
import json, math, sys
d = json.load(sys.stdin)
y = [math.log(on / off) for off, on in d["trials"]]
assert abs(math.expm1(sum(y) / 5) - d["overhead"]) < 1e-9 and d["pairs"] == 5
assert d["interval"][0] <= d["overhead"] <= d["interval"][1]'
ok $? "its JSON can be recomputed"
"$perfsample" compare --pairs 5 -o "$work/c" --base-cmd "bash -c '$loop'" --new-cmd "bash -c '$loop; $loop'" >"$work/text" 2>"$work/err"
ok "$([ $? -eq 0 ] && grep -qE '^total .* CPU ms/run  \+[0-9.]+% \[' "$work/text" && grep -qE '^pairs  \+.* by 5 pairs in turn' "$work/text" &&
	! grep -qE 'one run a side|not alternated' "$work/text"; echo $?)" "compare: twice the work is seen, in turn"
ok "$([ "$(find "$work/c" -name '*.data' | wc -l)" -eq 10 ]; echo $?)" "ten recordings are kept"
refuses 2 'another comparison' "a directory with recordings is refused" compare -o "$work/c" --base-cmd true --new-cmd true
done_testing
