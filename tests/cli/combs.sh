#!/bin/bash
# perfsample record --two-combs: refusals; a recording whose two combs are one event for every reader.
set -u
ps=${PERFSAMPLE:-build/perfsample}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0 failed=0
ok() { # STATUS NAME
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; failed=1; fi
}
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }
refuses() { # PATTERN NAME ARGS…
	local pattern=$1 name=$2
	shift 2
	"$ps" record "$@" >"$dir/out" 2>"$dir/err"
	local got=$?
	ok "$([ $got -eq 2 ] && grep -qE -- "$pattern" "$dir/err"; echo $?)" "$name"
}
refuses 'second comb' "the second comb's own period for the first" --two-combs -c 2606182 -- true
refuses 'no clock' "an event that is no clock" --two-combs -e page-faults -- true
refuses 'one -e at most' "two events" --two-combs -e cpu-clock -e task-clock -- true
if ! "$ps" check >/dev/null 2>&1; then
	for name in 'recorded' 'pooled' 'adds up' 'fold' 'own period' 'own period pooled'; do skip "$name" "this host cannot record"; done
	echo "1..$n"
	exit $failed
fi
"$ps" record -q --two-combs -o "$dir/a" -- bash -c 'for ((i = 0; i < 200000; i++)); do :; done' 2>"$dir/err"
ok $? "recorded"
"$ps" report -i "$dir/a" --format json >"$dir/json" 2>"$dir/err"
python3 - "$dir/json" <<'PYTHON'
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
ok "$("$ps" report -i "$dir/a" --wide 2>/dev/null | grep -qE '^aliasing +(ALIASING SUSPECTED: )?two combs \([0-9,]+ \+ [0-9,]+ samples\)'; echo $?)" "the report says what they tell"
taken=$(python3 -c 'import json, sys; print(int(json.load(open(sys.argv[1]))["events"][0]["samples"]["taken"]))' "$dir/json")
ok "$([ "$("$ps" fold -i "$dir/a" 2>/dev/null | awk '{ s += $NF } END { print s }')" = "$taken" ]; echo $?)" "fold has the samples of both"
"$ps" record -q --two-combs -c 1ms -o "$dir/b" -- bash -c 'for ((i = 0; i < 200000; i++)); do :; done' 2>"$dir/err"
ok $? "a period of one's own is the first comb's"
"$ps" report -i "$dir/b" --format json >"$dir/json" 2>"$dir/err"
python3 - "$dir/json" <<'PYTHON'
import json, sys
d = json.load(open(sys.argv[1]))
assert len(d["events"]) == 1, [e["name"] for e in d["events"]]
e = d["events"][0]
assert e["sampling"]["combs_ns"] == [1000000, 2606182], e["sampling"]
assert e["aliasing"] is not None and sum(e["aliasing"]["samples"]) == e["samples"]["taken"]
PYTHON
ok $? "and held against the second"
echo "1..$n"
exit $failed
