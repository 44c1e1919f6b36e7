#!/bin/bash
# perfsample report: options and statuses without a recording, then one of a shell loop: formats, filters, time, streams, --strict.
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
refuses() { # STATUS PATTERN NAME ARGS…: status and a message that names the matter, nothing on standard output
	local status=$1 pattern=$2 name=$3
	shift 3
	"$ps" report "$@" >"$dir/out" 2>"$dir/err"
	local got=$?
	ok "$([ $got -eq "$status" ] && [ ! -s "$dir/out" ] && grep -qE -- "$pattern" "$dir/err"; echo $?)" "$name"
}

refuses 4 'absent.data' "a recording that is not there: status 4, by its name" -i "$dir/absent.data"
printf 'not a profile, by far too short' >"$dir/junk"
refuses 4 'junk' "a file that is no recording: status 4" -i "$dir/junk"
refuses 2 'jsno.*json' "an unknown format: status 2 and the likely one" --format jsno
refuses 2 'symbl.*symbol' "an unknown key" -s symbl
refuses 2 'confidence' "a confidence that is none" --confidence 2
refuses 2 'script' "perf's -D: status 2, naming our equivalent" -D
refuses 2 'tsv' "perf's -t" -t ,
refuses 2 'caller' "perf's -p" -p main
refuses 2 'bogus' "an operand" bogus
ok "$("$ps" report --help | grep -q -- '--max-loss'; echo $?)" "--help"

if ! "$ps" check >/dev/null 2>&1; then
	for name in 'text' 'JSON' 'TSV' 'time' 'filters' 'stream' 'strict'; do skip "$name" "this host cannot record"; done
	echo "1..$n"
	exit $failed
fi
"$ps" record -q -o "$dir/a.data" -- bash -c 'for ((i = 0; i < 300000; i++)); do :; done' 2>"$dir/err"
ok $? "a shell loop is recorded"
"$ps" report -i "$dir/a.data" >"$dir/text" 2>"$dir/err"
ok $? "text"
ok "$(grep -qE '^verdict   (sound|CARE|NO RANKING)' "$dir/text" && grep -qE '^samples   [0-9,]+, one per 1\.295 ms of CPU time' "$dir/text"; echo $?)" \
	"verdict and samples stand in the first lines"
ok "$([ "$(awk '{ print length($0) }' "$dir/text" | sort -n | tail -1)" -le 80 ]; echo $?)" "80 columns are enough"
"$ps" report -i "$dir/a.data" --format json >"$dir/json" 2>"$dir/err"
ok $? "JSON"
"$ps" report -i "$dir/a.data" --format json >"$dir/again" 2>"$dir/err"
ok "$(cmp -s "$dir/json" "$dir/again"; echo $?)" "the same bytes again"
python3 - "$dir/json" <<'PYTHON'
import json, sys
e = json.load(open(sys.argv[1]))["events"][0]
s, k = e["samples"], e["stacks"]
assert s["taken"] + s["idle"] + s["others"] + s["lost"] + s["silent"] == s["expected"], s
assert sum(k.values()) == s["taken"], (k, s)
assert sum(f["self"]["samples"] for f in e["functions"]) == s["taken"]
for f in e["functions"]:
    for m in (f["self"], f["total"]):
        assert m["run"][0] <= m["share"] <= m["run"][1], f
        assert m["worst_case"][0] <= m["run"][0] + 1e-9 and m["worst_case"][1] >= m["run"][1] - 1e-9, f
PYTHON
ok $? "its parts add up, every interval holds its share"
"$ps" report -i "$dir/a.data" --format tsv --top 3 >"$dir/tsv" 2>"$dir/err"
ok "$([ "$(wc -l <"$dir/tsv")" -le 4 ] && [ "$(awk -F'\t' '{ print NF }' "$dir/tsv" | sort -u | wc -l)" -eq 1 ]; echo $?)" "TSV: as many columns on every line"
taken() { "$ps" report -i "$dir/a.data" --format json "$@" 2>/dev/null | python3 -c 'import json, sys; print(int(json.load(sys.stdin)["events"][0]["samples"]["taken"]))'; }
all=$(taken) first=$(taken --time 0%,50%) second=$(taken --time 50%,)
ok "$([ "$all" -gt 20 ] && [ $((first + second)) -eq "$all" ]; echo $?)" "--time: the halves are the whole ($first + $second of $all)"
ok "$([ "$(taken -c bash)" -le "$all" ] && [ "$(taken -c nobody)" -eq 0 ]; echo $?)" "-c"
ok "$([ "$(taken --time +0,+1000)" -eq "$all" ]; echo $?)" "--time in seconds"
"$ps" report -i - <"$dir/a.data" >"$dir/piped" 2>"$dir/err"
ok "$(cmp -s "$dir/text" "$dir/piped"; echo $?)" "-i - reads the same from a stream"
"$ps" report -i "$dir/a.data" | head -1 >/dev/null
status=${PIPESTATUS[0]}
ok "$([ "$status" -eq 141 ] || [ "$status" -eq 0 ]; echo $?)" "a reader that closes ends it silently"
for mode in '-g caller' '--call-graph callee,1' '-gnone' '-g'; do
	# shellcheck disable=SC2086
	"$ps" report -i "$dir/a.data" $mode --top 3 >"$dir/out" 2>"$dir/err"
	ok $? "$mode"
done
"$ps" report -i "$dir/a.data" -F rank,self,samples --top 2 >"$dir/out" 2>"$dir/err"
ok "$([ "$(wc -l <"$dir/out")" -le 3 ] && grep -qE '^ +rank +self +samples' "$dir/out"; echo $?)" "-F: these columns alone"
"$ps" report -i "$dir/a.data" -F nonsense >"$dir/out" 2>"$dir/err"
ok "$([ $? -eq 2 ] && grep -q nonsense "$dir/err"; echo $?)" "and no others"
"$ps" record -q -c 100000000 -o "$dir/short.data" -- true 2>"$dir/err"
"$ps" report -i "$dir/short.data" >"$dir/out" 2>"$dir/err"
ok "$(grep -qE '^verdict   NO RANKING: it ran for [0-9.]+ ms of CPU time, less than one period of 100 ms: nothing could be sampled$' "$dir/out" &&
	! grep -q silent "$dir/out"; echo $?)" "a program that ran for less than a period lacks nothing"
"$ps" report -i "$dir/a.data" --explain no_such_function >"$dir/out" 2>"$dir/err"
ok "$([ $? -eq 2 ] && grep -q no_such_function "$dir/err"; echo $?)" "--explain of a function that is not there"
"$ps" report -i "$dir/a.data" --strict --max-loss 100 >"$dir/out" 2>"$dir/err"
status=$?
ok "$([ $status -eq 0 ] || { [ $status -eq 5 ] && grep -q 'no ranking' "$dir/err"; }; echo $?)" "--strict lets pass what --max-loss allows"
"$ps" report -i "$dir/a.data" --strict --time 0%,1% >"$dir/out" 2>"$dir/err"
ok "$([ $? -eq 5 ] && [ -s "$dir/out" ]; echo $?)" "--strict: fewer than 100 samples are status 5, after the report"
echo "1..$n"
exit $failed
