#!/bin/bash
# perfsample report: options and statuses without a recording, then one of a shell loop: formats, filters, time, streams, --strict.
. "$(dirname "$0")/tap.sh"

refuses 4 'absent.data' "a recording that is not there: status 4, by its name" report -i "$work/absent.data"
printf 'not a profile, by far too short' >"$work/junk"
refuses 4 'junk' "a file that is no recording: status 4" report -i "$work/junk"
refuses 2 'jsno.*json' "an unknown format: status 2 and the likely one" report --format jsno
refuses 2 'symbl.*symbol' "an unknown key" report -s symbl
refuses 2 'confidence' "a confidence that is none" report --confidence 2
refuses 2 'script' "perf's -D: status 2, naming our equivalent" report -D
refuses 2 'tsv' "perf's -t" report -t ,
refuses 2 'caller' "perf's -p" report -p main
refuses 2 'bogus' "an operand" report bogus
ok "$("$perfsample" report --help | grep -q -- '--max-loss'; echo $?)" "--help"

if ! "$perfsample" check >/dev/null 2>&1; then
	for name in 'text' 'JSON' 'TSV' 'time' 'filters' 'stream' 'strict'; do skip "this host cannot record" "$name"; done
	done_testing
fi
"$perfsample" record -q -o "$work/a.data" -- bash -c 'for ((i = 0; i < 300000; i++)); do :; done' 2>"$work/err"
ok $? "a shell loop is recorded"
"$perfsample" report -i "$work/a.data" >"$work/text" 2>"$work/err"
ok $? "text"
ok "$(grep -qE '^verdict   (sound|CARE|NO RANKING)' "$work/text" && grep -qE '^samples   [0-9,]+, one per 1\.295 ms of CPU time' "$work/text"; echo $?)" \
	"verdict and samples stand in the first lines"
ok "$([ "$(awk '{ print length($0) }' "$work/text" | sort -n | tail -1)" -le 80 ]; echo $?)" "80 columns are enough"
"$perfsample" report -i "$work/a.data" --format json >"$work/json" 2>"$work/err"
ok $? "JSON"
"$perfsample" report -i "$work/a.data" --format json >"$work/again" 2>"$work/err"
ok "$(cmp -s "$work/json" "$work/again"; echo $?)" "the same bytes again"
python3 - "$work/json" <<'PYTHON'
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
"$perfsample" report -i "$work/a.data" --format tsv --top 3 >"$work/tsv" 2>"$work/err"
ok "$([ "$(wc -l <"$work/tsv")" -le 4 ] && [ "$(awk -F'\t' '{ print NF }' "$work/tsv" | sort -u | wc -l)" -eq 1 ]; echo $?)" "TSV: as many columns on every line"
taken() { "$perfsample" report -i "$work/a.data" --format json "$@" 2>/dev/null | python3 -c 'import json, sys; print(int(json.load(sys.stdin)["events"][0]["samples"]["taken"]))'; }
all=$(taken) first=$(taken --time 0%,50%) second=$(taken --time 50%,)
ok "$([ "$all" -gt 20 ] && [ $((first + second)) -eq "$all" ]; echo $?)" "--time: the halves are the whole ($first + $second of $all)"
ok "$([ "$(taken -c bash)" -le "$all" ] && [ "$(taken -c nobody)" -eq 0 ]; echo $?)" "-c"
ok "$([ "$(taken --time +0,+1000)" -eq "$all" ]; echo $?)" "--time in seconds"
"$perfsample" report -i - <"$work/a.data" >"$work/piped" 2>"$work/err"
ok "$(cmp -s "$work/text" "$work/piped"; echo $?)" "-i - reads the same from a stream"
"$perfsample" report -i "$work/a.data" | head -1 >/dev/null
status=${PIPESTATUS[0]}
ok "$([ "$status" -eq 141 ] || [ "$status" -eq 0 ]; echo $?)" "a reader that closes ends it silently"
for mode in '-g caller' '--call-graph callee,1' '-gnone' '-g'; do
	# shellcheck disable=SC2086
	"$perfsample" report -i "$work/a.data" $mode --top 3 >"$work/out" 2>"$work/err"
	ok $? "$mode"
done
"$perfsample" report -i "$work/a.data" -F rank,self,samples --top 2 >"$work/out" 2>"$work/err"
ok "$([ "$(wc -l <"$work/out")" -le 3 ] && grep -qE '^ +rank +self +samples' "$work/out"; echo $?)" "-F: these columns alone"
"$perfsample" report -i "$work/a.data" -F nonsense >"$work/out" 2>"$work/err"
ok "$([ $? -eq 2 ] && grep -q nonsense "$work/err"; echo $?)" "and no others"
"$perfsample" record -q -c 100000000 -o "$work/short.data" -- true 2>"$work/err"
"$perfsample" report -i "$work/short.data" >"$work/out" 2>"$work/err"
ok "$(grep -qE '^verdict   NO RANKING: it ran for [0-9.]+ ms of CPU time, less than one period of 100 ms: nothing could be sampled$' "$work/out" &&
	! grep -q silent "$work/out"; echo $?)" "a program that ran for less than a period lacks nothing"
"$perfsample" report -i "$work/a.data" --explain no_such_function >"$work/out" 2>"$work/err"
ok "$([ $? -eq 2 ] && grep -q no_such_function "$work/err"; echo $?)" "--explain of a function that is not there"
"$perfsample" report -i "$work/a.data" --strict --max-loss 100 >"$work/out" 2>"$work/err"
status=$?
ok "$([ $status -eq 0 ] || { [ $status -eq 5 ] && grep -q 'no ranking' "$work/err"; }; echo $?)" "--strict lets pass what --max-loss allows"
"$perfsample" report -i "$work/a.data" --strict --time 0%,1% >"$work/out" 2>"$work/err"
ok "$([ $? -eq 5 ] && [ -s "$work/out" ]; echo $?)" "--strict: fewer than 100 samples are status 5, after the report"
done_testing
