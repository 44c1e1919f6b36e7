#!/bin/bash
# What recording costs by its books: record --cost, in the summary, in JSON, in the report.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
if [ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -gt 2 ]; then
	echo "1..0 # SKIP perf_event_paranoid is above 2 and this is not root"
	exit 0
fi
spin=(python3 -c 'import time
while time.process_time() < 0.6: pass')
json() { # FILE EXPRESSION of python over `d`
	python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); c = d.get("cost"); sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2"
}
calibrated() { # the cost of a clock's tick is a hundredth of what a round measures: another guest of the host may hide it
	ps record --cost --summary "$work/s.json" -o "$work/c.data" -- "${spin[@]}"
	[ "$status" -eq 0 ] || return 0
	json "$work/s.json" '0.3 < c["tick_us"] < 200 and 0 <= c["copy_us_per_kib"] < 5 and c["calibration"]["rounds"] >= 5 and c["calibration"]["samples"] > 200'
}
often calibrated
is_calibrated=$?
is "$status" 0 "record --cost"
like "$(tr -s ' \n' ' ' <<<"${err//perfsample: /}")" 'cost, accounted: [0-9.]+% of the target.s CPU time \(tick [0-9.]+ us x [0-9,]+ samples, copy [0-9.]+ us x [0-9,]+ KiB\); drain [0-9.]+ us' \
	"the closing summary has tick, copy and drain"
ok $is_calibrated "calibrated within what hosts take"
json "$work/s.json" '(lambda s: c["samples"] == s["taken"] + s["idle"] + s["others"] + s["lost"] + s["dropped"])(d["events"][0]["samples"])'
ok $? "for the samples the kernel took"
json "$work/s.json" 'abs(c["target_seconds"] - 1e-6 * (c["samples"] * c["tick_us"] + c["copied_kib"] * c["copy_us_per_kib"])) < 1e-9'
ok $? "the target's share is the sum of its parts"
json "$work/s.json" 'abs(c["drain_us_per_sample"] * c["samples"] - 1e6 * d["overhead"]["recorder_cpu_seconds"]) < 1'
ok $? "and the drain the recorder's own time"
ps report -i "$work/c.data"
like "$out" 'profiler  used .* (of one CPU|of CPU time); by its books it took [0-9.<]+% of the CPU time used' "the report says it"
ps report -i "$work/c.data" --format json
like "$out" '"accounted_seconds": ?0\.0' "in JSON too"
ps record --cost --summary "$work/n.json" -e page-faults -c 10 -o "$work/n.data" -- "${spin[@]}"
like "$err" 'cost not calibrated: it is that of clocks, and this is page-faults' "events that are no clocks have no calibration, which is said"
json "$work/n.json" 'c is None'
ok $? "null in JSON"
ps record --summary "$work/n.json" -o "$work/n.data" -- true
json "$work/n.json" '"cost" not in d'
ok $? "without --cost there is none"
if python3 -c 'import jsonschema' 2>/dev/null; then
	python3 -c 'import json, jsonschema, sys
jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))' "$work/s.json" "$root/schema/perfsample-record-1.json"
	ok $? "as the schema says"
else
	skip "as the schema says" "python3-jsonschema is not installed"
fi
done_testing
