#!/bin/bash
# One judgement: what record says of a recording when it is over, report says of the file, and both --strict end alike.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
if ! rec -o probe.data -- true; then
	skip "this host cannot record" "record and report judge alike"
	done_testing
	exit
fi
cat >"$work/loop.c" <<'C'
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline)) static void work(void) { for (int i = 0; i < 100000; i++) sink += (unsigned long)i; }
int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	struct timespec t;
	do {
		work();
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	} while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < seconds);
	return 0;
}
C
cc -O1 -g "$work/loop.c" -o "$work/loop" || { echo "Bail out! no C compiler"; exit 1; }
cat >"$work/alike.py" <<'PY'
# Of the samples: the same stacks, as many as samples, the same findings in the same words.
import json, sys
said, read = (json.load(open(path)) for path in sys.argv[1:3])
data = {"lost", "silent", "dropped", "truncated", "failed", "throttled", "multiplexed", "few_samples", "short_tasks", "shortened", "sideband_lost", "recorded"}
own, shown = said["events"][0]["samples"], read["events"][0]["samples"]
wrong = []
for key in ("taken", "idle", "others", "lost"):
    if own[key] != shown[key]:
        wrong.append((key, own[key], shown[key]))
if said["stacks"] != read["events"][0]["stacks"]:
    wrong.append(("stacks", said["stacks"], read["events"][0]["stacks"]))
if sum(said["stacks"].values()) != own["taken"]:
    wrong.append(("sum of stacks", said["stacks"], own["taken"]))
one, other = (sorted((c["code"], c["text"], c["care"]) for c in d["caveats"] if c["code"] in data) for d in (said, read))
if one != other:
    wrong.append(("caveats", one, other))
if shown["silent"] is not None and shown["missing"] < shown["lost"] + max(0, shown["silent"]) - 1e-6:
    wrong.append(("missing", shown))
print(wrong or "alike")
PY
alike() { # FILE NAME…: and its summary in s.json
	local file=$1
	shift
	"$perfsample" report -i "$work/$file" --format json >"$work/r.json" 2>"$work/err2"
	is "$(python3 "$work/alike.py" "$work/s.json" "$work/r.json")" alike "$@"
}
strict() { # FILE WANTED NAME…: with the status that record --strict has left in $status
	local file=$1 wanted=$2
	shift 2
	"$perfsample" report --strict -i "$work/$file" >/dev/null 2>"$work/err2"
	is "$status $?" "$wanted $wanted" "$@"
}
words() { # FILE…: on one line
	cat "$@" | tr -s ' \n' ' ' | sed 's/perfsample: //g'
}

rec --strict --max-cpu 100 -o loop.data --summary s.json -- ./loop 0.6
status=$?
alike loop.data "a loop: alike"
strict loop.data 0 "and --strict lets it pass"
is "$(grep -o 'stacks complete [0-9.]*%' "$work/err" | grep -o '[0-9.]*%')" "$("$perfsample" report -i "$work/loop.data" 2>/dev/null | grep -o '^stacks *[0-9.]*%' | grep -o '[0-9.]*%')" \
	"whole stacks are rounded alike"

for mode in fp none "fp --no-inherit"; do
	# shellcheck disable=SC2086
	rec --max-cpu 100 --call-graph $mode -o chains.data --summary s.json -- sh -c './loop 0.3; ./loop 0.1'
	alike chains.data "--call-graph $mode: alike"
done
cc -O1 -g -fno-omit-frame-pointer "$work/loop.c" -o "$work/framed" && rec --max-cpu 100 --call-graph fp -o chains.data --summary s.json -- ./framed 0.4
alike chains.data "with frame pointers: alike"
rec --max-cpu 100 --call-graph fp --no-symbols -o chains.data --summary s.json -- ./framed 0.3
like "$(words "$work/err")" 'whether they reach their root is told by names' "without names nobody knows how chains end"

# Silence counts, for either.
rec --strict --per-task --max-cpu 100 -o short.data --summary s.json -- sh -c 'i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; ./loop 0.2'
status=$?
alike short.data "short tasks under per-task events: alike"
strict short.data 5 "--strict: status 5 for what never came"
"$perfsample" report -i "$work/short.data" --explain work >"$work/out" 2>"$work/err2"
like "$(cat "$work/out")" 'worst case .*whatever [0-9,]+ missing samples were' "--explain: the worst case has them"
unlike "$(cat "$work/out")" 'no samples are missing' "and nobody says that none is missing"
like "$("$perfsample" report -i "$work/short.data" 2>/dev/null | head -n 1)" ', [0-9]+ of [0-9]+ processes,' "processes that were never sampled are counted"
like "$(words "$work/err")" '\([0-9,]+ of 30[0-9] processes' "by record too"

# A loss, and where it lies.
(cd "$work" && exec "$perfsample" record --strict -m 256 -F 4000 --max-cpu 100 --call-graph dwarf,8192 -o loss.data --summary s.json -- ./loop 4 >out 2>err) & r=$!
stand_still $r
wait $r
status=$?
alike loss.data "a recorder that stood still: alike"
strict loss.data 5 "--strict: status 5"
span=$(words "$work/err" | grep -oE '\+[0-9]+ to \+[0-9]+ s' | head -n 1)
[ -n "$span" ] && "$perfsample" report -i "$work/loss.data" 2>/dev/null | grep -q -F ", $span"
ok $? "the same seconds ($span)"

rec --max-cpu 100 -o none.data --summary s.json -- true
unlike "$(cat "$work/err")" 'recorder used [0-9.]*%' "a run of no time: no share of a CPU"
unlike "$("$perfsample" report -i "$work/none.data" 2>/dev/null)" '^profiler .*%' "in the report neither"

if [ "$(id -u)" -eq 0 ] && rec -q --max-cpu 100 -a -o all.data --summary s.json -- sleep 1; then
	alike all.data "whole CPUs: idle ones are in neither's stacks"
	"$perfsample" report -i "$work/all.data" --idle --format json >"$work/r.json" 2>"$work/err2"
	is "$(python3 -c 'import json, sys; e = json.load(open(sys.argv[1]))["events"][0]; print(sum(e["stacks"].values()) == e["samples"]["taken"])' "$work/r.json")" True "with --idle too"
else
	skip "not allowed to see whole CPUs" "idle CPUs"
fi

# What record said of the target is in every output.
bash -c "\"$work/loop\" 30 & exec \"$work/loop\" 20" & server=$!
soon has_used $server 50
rec --per-task --max-cpu 100 -p $server --duration 0.5 -o served.data --summary s.json
below=$(pgrep -P $server)
kill $server ${below:+$below}
wait 2>/dev/null
alike served.data "a process of several: alike"
if words "$work/err" | grep -q "1 process that it had started before is not recorded"; then
	for how in "report" "report --wide" "report --format json" "report --format tsv" "export -q --format speedscope -o /dev/stdout" "export -q --format gecko -o /dev/stdout"; do
		# shellcheck disable=SC2086
		like "$("$perfsample" $how -i "$work/served.data" 2>/dev/null | tr -s ' \n' ' ')" 'process that it had started before (note )?is not recorded' "$how: its child is not in there"
	done
else
	skip "its child is recorded" "children that were not recorded"
fi
if [ "$(id -u)" -eq 0 ] && cp "$work/loop" "$work/owned" && chown 65534 "$work/owned" && chmod 4755 "$work/owned" && [ "$(findmnt -n -o OPTIONS -T "$work" | grep -c nosuid)" -eq 0 ]; then
	rec --per-task --max-cpu 100 -o owned.data --summary s.json -- sh -c './loop 0.3; exec ./owned 0.6'
	alike owned.data "a set-user-ID program: alike"
	like "$(words "$work/err")" 'CARE: 1 task executed a program that others may not look into' "record: CARE"
	"$perfsample" report -i "$work/owned.data" >"$work/out" 2>/dev/null
	like "$(words "$work/out")" 'verdict CARE' "report: CARE"
	like "$(words "$work/out")" '1 task executed a program that others may not look into' "and why"
	like "$("$perfsample" fold -i "$work/owned.data" 2>&1 >/dev/null)" 'CARE: .*1 task executed' "and on standard error of fold"
else
	skip "not root, or nosuid" "a set-user-ID program"
fi
done_testing
