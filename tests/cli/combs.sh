#!/bin/bash
# perfsample record --two-combs: refusals; a recording whose two combs are one event for every reader.
. "$(dirname "$0")/tap.sh"
refuses 2 'second comb' "the second comb's own period for the first" record --two-combs -c 2606182 -- true
refuses 2 'no clock' "an event that is no clock" record --two-combs -e page-faults -- true
refuses 2 'one -e at most' "two events" record --two-combs -e cpu-clock -e task-clock -- true
if ! "$perfsample" check >/dev/null 2>&1; then
	for name in 'recorded' 'pooled' 'adds up' 'fold' 'own period' 'own period pooled'; do skip "this host cannot record" "$name"; done
	done_testing
fi
"$perfsample" record -q --two-combs -o "$work/a" -- bash -c 'for ((i = 0; i < 200000; i++)); do :; done' 2>"$work/err"
ok $? "recorded"
"$perfsample" report -i "$work/a" --format json >"$work/json" 2>"$work/err"
python3 - "$work/json" <<'PYTHON'
import json, sys
d = json.load(open(sys.argv[1]))
assert len(d["events"]) == 1, [e["name"] for e in d["events"]]
e = d["events"][0]
s, a = e["samples"], e["aliasing"]
assert e["sampling"]["combs_ns"] in ([2341046, 2606182], [2606182, 2341046])
assert sum(a["samples"]) == s["taken"] and min(a["samples"]) > 0
assert s["taken"] + s["idle"] + s["others"] + s["lost"] + s["silent"] == s["expected"]
PYTHON
ok $? "both combs are one event, and what was due adds up"
ok "$("$perfsample" report -i "$work/a" --wide 2>/dev/null | grep -qE '^aliasing +(ALIASING SUSPECTED: )?two combs \([0-9,]+ \+ [0-9,]+ samples\)'; echo $?)" "the report says what they tell"
taken=$(python3 -c 'import json, sys; print(int(json.load(open(sys.argv[1]))["events"][0]["samples"]["taken"]))' "$work/json")
ok "$([ "$("$perfsample" fold -i "$work/a" 2>/dev/null | awk '{ s += $NF } END { print s }')" = "$taken" ]; echo $?)" "fold has the samples of both"
"$perfsample" record -q --two-combs -c 1ms -o "$work/b" -- bash -c 'for ((i = 0; i < 200000; i++)); do :; done' 2>"$work/err"
ok $? "a period of one's own is the first comb's"
"$perfsample" report -i "$work/b" --format json >"$work/json" 2>"$work/err"
python3 - "$work/json" <<'PYTHON'
import json, sys
d = json.load(open(sys.argv[1]))
assert len(d["events"]) == 1, [e["name"] for e in d["events"]]
e = d["events"][0]
assert e["sampling"]["combs_ns"] == [1000000, 2606182], e["sampling"]
assert e["aliasing"] is not None and sum(e["aliasing"]["samples"]) == e["samples"]["taken"]
PYTHON
ok $? "and held against the second"
done_testing
