#!/bin/bash
# In a time namespace (time_namespaces(7)) CLOCK_MONOTONIC is shifted, the clock of records is not: the two are never compared.
. "$(dirname "$0")/tap.sh"
if ! unshare -T --monotonic 1 --boottime 1 -f true 2>/dev/null; then
	skip "no time namespace may be made here" "recording in one"
	done_testing
	exit
fi
for shift in -1000 100000; do
	(cd "$work" && unshare -T --monotonic $shift --boottime $shift -f "$perfsample" record --max-cpu 100 --summary s.json -o t.data -- \
		sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done' 2>err)
	is $? 0 "a clock shifted by $shift s: recorded"
	"$perfsample" report -i "$work/t.data" --format json >"$work/t.json"
	is "$(python3 - "$work/s.json" "$work/t.json" <<-'END'
		import datetime, json, sys, time
		said, read = (json.load(open(path)) for path in sys.argv[1:])
		s = read["events"][0]["samples"]
		window = read["window"]
		ago = time.time() - datetime.datetime.fromisoformat(window["start"].split(".")[0] + "+00:00").timestamp()
		print(s["lost"], s["taken"] > 20 and abs(s["silent"]) <= 3 + 0.05 * s["expected"], abs(window["seconds"] - said["window"]["seconds"]) < 0.1, -5 < ago < 300)
	END
	)" "0 True True True" "nothing lost, the window and its start are the clock's on the wall"
done
begun=$(date +%s)
(cd "$work" && unshare -T --monotonic 5000 --boottime 5000 -f "$perfsample" record -q --duration 1 -o d.data -- sleep 30)
ok "$([ $(($(date +%s) - begun)) -lt 20 ]; echo $?)" "--duration is as long as it says"
done_testing
