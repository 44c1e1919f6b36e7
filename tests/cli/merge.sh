#!/bin/bash
# perfsample merge and record --repeat: options, statuses, recordings taken together.
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
refuses() { # STATUS PATTERN NAME ARGS…
	local status=$1 pattern=$2 name=$3
	shift 3
	"$ps" merge "$@" >"$dir/out" 2>"$dir/err"
	local got=$?
	ok "$([ $got -eq "$status" ] && [ ! -s "$dir/out" ] && grep -qE -- "$pattern" "$dir/err"; echo $?)" "$name"
}
small=tests/fixtures/small.data
refuses 2 'no recordings' "nothing to merge"
refuses 4 'absent' "a recording that is not there" "$dir/absent"
refuses 2 '2 for 1' "factors that do not fit" --factors 1,2 "$small"
refuses 2 'no format' "an unknown format" --format tsv "$small"
"$ps" merge "$small" "$small" "$small" --format json >"$dir/json" 2>"$dir/err"
ok $? "a recording three times"
"$ps" report -i "$small" --format json >"$dir/report" 2>/dev/null
python3 - "$dir/json" "$dir/report" <<'PYTHON'
import json, sys
m, r = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
own = sorted((f["self"]["share"] for f in r["events"][0]["functions"] if f["self"]["samples"]), reverse=True)
assert len(m["hosts"]) == 3 and any("few hosts" in c for c in m["caveats"])
assert abs(m["functions"][0]["share"] - own[0]) < 1e-9, (m["functions"][0], own[0])
assert abs(sum(f["share"] for f in m["functions"]) - 1) < 1e-9
PYTHON
ok $? "has the shares of one"
ok "$("$ps" merge "$small" --these-only 2>/dev/null | grep -q '^note   one host'; echo $?)" "one host is said to be"
if ! "$ps" check >/dev/null 2>&1; then
	for name in 'repeat' 'files' 'merge of runs' 'failing'; do skip "$name" "this host cannot record"; done
	echo "1..$n"
	exit $failed
fi
"$ps" record --repeat 3 -o "$dir/r.data" -- bash -c 'for ((i = 0; i < 60000; i++)); do :; done; echo out' >"$dir/out" 2>"$dir/err"
ok "$([ $? -eq 0 ] && [ "$(grep -c '^out$' "$dir/out")" -eq 4 ]; echo $?)" "record --repeat 3: three runs and a warm-up"
ok "$([ -f "$dir/r.data.1" ] && [ -f "$dir/r.data.3" ] && [ ! -e "$dir/r.data.4" ] && [ ! -e "$dir/r.data.warmup" ]; echo $?)" "three files"
ok "$(grep -q '3 runs, .*between-run interval t(2)' "$dir/err"; echo $?)" "what runs differ by is said at the end"
ok "$("$ps" merge --runs "$dir"/r.data.? 2>/dev/null | grep -q 'between-run interval t(2)'; echo $?)" "and again by merge --runs"
"$ps" record --repeat 3 -o "$dir/f.data" -- bash -c 'exit 7' >/dev/null 2>"$dir/err"
ok "$([ $? -eq 7 ] && [ ! -e "$dir/f.data.2" ]; echo $?)" "a command that fails ends it, with its status"
"$ps" record --repeat 3 -p 1 2>"$dir/err"
ok "$([ $? -eq 2 ]; echo $?)" "--repeat needs a command"
echo "1..$n"
exit $failed
