#!/bin/bash
# perfsample merge and record --repeat: options, statuses, recordings taken together.
. "$(dirname "$0")/tap.sh"
small=tests/fixtures/small.data
refuses 2 'no recordings' "nothing to merge" merge
refuses 4 'absent' "a recording that is not there" merge "$work/absent"
refuses 2 '2 for 1' "factors that do not fit" merge --factors 1,2 "$small"
refuses 2 'no format' "an unknown format" merge --format tsv "$small"
"$perfsample" merge "$small" "$small" "$small" --format json >"$work/json" 2>"$work/err"
ok $? "a recording three times"
"$perfsample" report -i "$small" --format json >"$work/report" 2>/dev/null
python3 - "$work/json" "$work/report" <<'PYTHON'
import json, sys
m, r = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
own = sorted((f["self"]["share"] for f in r["events"][0]["functions"] if f["self"]["samples"]), reverse=True)
assert len(m["hosts"]) == 3 and any("few hosts" in c for c in m["caveats"])
assert abs(m["functions"][0]["share"] - own[0]) < 1e-9, (m["functions"][0], own[0])
assert abs(sum(f["share"] for f in m["functions"]) - 1) < 1e-9
PYTHON
ok $? "has the shares of one"
ok "$("$perfsample" merge "$small" --these-only 2>/dev/null | grep -q '^note   one host'; echo $?)" "one host is said to be"
if ! "$perfsample" check >/dev/null 2>&1; then
	for name in 'repeat' 'files' 'merge of runs' 'failing'; do skip "this host cannot record" "$name"; done
	done_testing
fi
"$perfsample" record --repeat 3 -o "$work/r.data" -- bash -c 'for ((i = 0; i < 60000; i++)); do :; done; echo out' >"$work/out" 2>"$work/err"
ok "$([ $? -eq 0 ] && [ "$(grep -c '^out$' "$work/out")" -eq 4 ]; echo $?)" "record --repeat 3: three runs and a warm-up"
ok "$([ -f "$work/r.data.1" ] && [ -f "$work/r.data.3" ] && [ ! -e "$work/r.data.4" ] && [ ! -e "$work/r.data.warmup" ]; echo $?)" "three files"
ok "$(grep -q '3 runs, .*between-run interval t(2)' "$work/err"; echo $?)" "what runs differ by is said at the end"
ok "$("$perfsample" merge --runs "$work"/r.data.? 2>/dev/null | grep -q 'between-run interval t(2)'; echo $?)" "and again by merge --runs"
"$perfsample" record --repeat 3 -o "$work/f.data" -- bash -c 'exit 7' >/dev/null 2>"$work/err"
ok "$([ $? -eq 7 ] && [ ! -e "$work/f.data.2" ]; echo $?)" "a command that fails ends it, with its status"
"$perfsample" record --repeat 3 -p 1 2>"$work/err"
ok "$([ $? -eq 2 ]; echo $?)" "--repeat needs a command"
done_testing
