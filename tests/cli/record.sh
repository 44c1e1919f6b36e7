#!/bin/bash
# perfsample record, from outside: targets, ends, statuses, limits, files, what it says and what it refuses.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
chmod 755 "$work"
pids=()
finish() {
	local p
	for p in "${pids[@]-}"; do [ -n "$p" ] && kill -9 "$p" 2>/dev/null; done
	wait 2>/dev/null
	mountpoint -q "$work/small" 2>/dev/null && umount "$work/small"
	rm -rf "$work"
}
trap finish EXIT
json() { # FILE EXPRESSION of python over `d`
	python3 -c 'import json, os, sys; d = json.load(open(sys.argv[1])); s = d["events"][0]["samples"]; sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2"
}
is_root=$([ "$(id -u)" -eq 0 ]; echo $?)
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 9)
if [ "$is_root" -ne 0 ] && [ "$paranoid" -gt 2 ]; then
	echo "1..0 # SKIP perf_event_paranoid is $paranoid and this is not root"
	exit 0
fi

cat >"$work/burn.c" <<'C'
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return (double)t.tv_sec + (double)t.tv_nsec * 1e-9; }
__attribute__((noinline)) uint64_t hot(uint64_t x) { for (int i = 0; i < 20000; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; } return x; }
static double seconds;
static volatile uint64_t sink;
static void *worker(void *a) { uint64_t x = 7; for (double end = cpu() + seconds; cpu() < end;) x = hot(x); sink = x; return a; }
int main(int argc, char **argv)
{
	seconds = atof(argv[1]);
	pthread_t t[256];
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	for (int i = 0; i < threads; i++) pthread_create(&t[i], NULL, worker, NULL);
	for (int i = 0; i < threads; i++) pthread_join(t[i], NULL);
	puts("done");
	return 0;
}
C
cc -O2 -g -pthread "$work/burn.c" -o "$work/burn" || { echo "Bail out! no C compiler"; exit 1; }

# ---------------------------------------------------------------- a command
rec --summary s.json -- ./burn 0.5 2; is $? 0 "a command is recorded"
is "$(cat "$work/out")" "done" "its standard output is its own"
ok "$(json "$work/s.json" 's["taken"] > 600'; echo $?)" "one sample every 1.295 ms of its CPU time"
ok "$(json "$work/s.json" 's["expected"] is None or s["taken"] + s["idle"] + s["others"] + s["lost"] + s["dropped"] + s["silent"] == s["expected"]'; echo $?)" \
	"the parts add up to what was due"
ok "$(json "$work/s.json" 'd["stacks"]["complete"] >= 0.99 * sum(d["stacks"].values())'; echo $?)" "stacks reach their roots"
ok "$(json "$work/s.json" 'd["schema"] == "perfsample-record/1" and d["command_status"] == 0 and d["own_status"] == 0 and d["target"]["kind"] == "command"'; echo $?)" \
	"--summary is perfsample-record/1"
if python3 -c 'import jsonschema' 2>/dev/null; then
	ok "$(python3 -W ignore -c 'import json,sys,jsonschema; jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))' \
		"$work/s.json" schema/perfsample-record-1.json; echo $?)" "by its schema"
fi
is "$(stat -c %a "$work/perf.data")" 600 "the file is its owner's alone"
ok "$(grep -q "wrote .*/perf.data, .*names inside. Next: perfsample report" "$work/err"; echo $?)" "the summary says where it is"
rec -q -- ./burn 0.1; ok "$([ ! -s "$work/err" ]; echo $?)" "-q says nothing"
ok "$([ -e "$work/perf.data.old" ]; echo $?)" "the recording before it became .old"
for c in 'true:0' 'false:1' 'sh -c "exit 7":7' 'sh -c "kill -9 \$\$":137' '/no/such/program:127' '/etc/passwd:126'; do
	eval rec -o st.data -- "${c%:*}"; is $? "${c##*:}" "status of ${c%:*}"
done
rec -o st.data -- ./burn 0.05 >/dev/null
before=$(stat -c %i "$work/st.data")
rec -o st.data -- /no/such/program
is "$(stat -c %i "$work/st.data")" "$before" "a start that fails leaves the old file alone"
ok "$(! ls "$work"/st.data*.tmp >/dev/null 2>&1; echo $?)" "and nothing half-written"

# ---------------------------------------------------------------- what is refused
refuse() { # STATUS WORD NAME OPTIONS…
	local status=$1 word=$2 name=$3; shift 3
	rec -o refused.data "$@"; local got=$?
	is "$got" "$status" "$name"
	ok "$(grep -q -e "$word" "$work/err"; echo $?)" "$name: says $word"
}
refuse 2 "no-such-option" "an unknown option" --no-such-option
refuse 2 "no-such-event" "no such event" -e no-such-event -- true
refuse 2 "banana" "a rate that is none" -F banana -- true
refuse 2 "banana" "a period that is none" -c banana -- true
refuse 2 "999999999" "no such process" -p 999999999
refuse 2 "64K" "a ring too small for one record" -m 8 --call-graph dwarf,32768 -- true
refuse 2 "not supported" "compression" -z -- true
refuse 2 "not supported" "--control" --control fd:3 -- true
refuse 2 "nothing to record" "no target"
refuse 2 "exclude each other" "--all-user with --all-kernel" --all-user --all-kernel -- true
ok "$([ ! -e "$work/refused.data" ]; echo $?)" "no file came of these"

# ---------------------------------------------------------------- a process
"$work/burn" 100 2 >/dev/null & target=$!; pids+=("$target")
soon has_used "$target" 20
rec -p "$target" --duration 1 -o p.data --summary s.json; is $? 0 "-p with --duration"
# As its two threads never sleep, what they used tells how long it was, whatever else the machine did meanwhile.
ok "$(json "$work/s.json" 'd["ended_by"] == "--duration is over" and d["window"]["seconds"] >= 1 and d["cpu_seconds"] < 1.5 * min(2, len(os.sched_getaffinity(0)))'; echo $?)" \
	"--duration 1 is a second"
# However much of that second it had.
ok "$(json "$work/s.json" '0 < s["taken"] and 0.5 * d["cpu_seconds"] < s["taken"] * 0.001295295 and d["target"]["ids"] == ['"$target"']'; echo $?)" "samples of it"
ok "$(kill -0 "$target"; echo $?)" "it lives on"
for sig in INT TERM HUP; do
	(cd "$work" && exec "$perfsample" record -p "$target" -o sig.data >/dev/null 2>err) & r=$!
	soon is_recording "$work/sig.data"; kill -$sig $r; wait $r
	is $? 0 "SIG$sig ends it cleanly"
done
# A command that ignores the signal: waited for, and said so once; the second one ends both, and the file is whole as far as it goes.
(cd "$work" && exec "$perfsample" record -o ign.data -- sh -c 'trap "" INT; : >ignores; ./burn 20 1' >/dev/null 2>err) & r=$!
soon test -e "$work/ignores"
kill -INT $r
soon grep -q "goes on after SIGINT" "$work/err"
ok "$([ "$(grep -c "(PID [0-9]*) goes on after SIGINT, and is recorded until it ends" "$work/err")" -eq 1 ] && kill -0 $r; echo $?)" "a command that ignores SIGINT is named"
kill -INT $r; wait $r
is $? 130 "a second SIGINT aborts"
"$perfsample" report -i "$work/ign.data" >"$work/out" 2>"$work/err"; is $? 0 "and what was flushed is read"
rec -p "$target" -o b.data -- sleep 0.3; is $? 0 "a command beside -p bounds the time"
rec -p "$target" -o c.data -- /no/such/program; is $? 127 "one that cannot be run is said"
ok "$([ ! -e "$work/c.data" ]; echo $?)" "and leaves no file"
tid=$(find /proc/"$target"/task -mindepth 1 -maxdepth 1 ! -name "$target" -printf "%f\n" | tail -1) # the first one only waits
rec -t "$tid" --duration 0.5 -o t.data --summary s.json; is $? 0 "-t"
ok "$(json "$work/s.json" 'd["target"]["kind"] == "tid" and 0 < s["taken"] and 0.5 * d["cpu_seconds"] < s["taken"] * 0.001295295'; echo $?)" "samples of one thread"
rec -n -p "$target" -o n.data; is $? 0 "--dry-run"
ok "$([ ! -e "$work/n.data" ] && grep -q "would record" "$work/err"; echo $?)" "says what would be done and records nothing"
kill -9 "$target"
"$work/burn" 0.5 >/dev/null & short=$!
soon has_used $short 20; kill -STOP $short
rec -p "$short" -o e.data & r=$!
soon is_recording "$work/e.data"; kill -CONT $short
wait $r; is $? 0 "the target's end ends the recording"
wait $short

# ---------------------------------------------------------------- the recorder's own ends
(cd "$work" && exec setsid "$perfsample" record -o k.data -- ./burn 6 >/dev/null 2>&1) & r=$!
soon child_has_used $r 2500; kill -9 $r; pkill -9 -s $r; wait $r 2>/dev/null # the command is of the session that the recorder leads
if "$perfsample" help report >/dev/null 2>&1 && "$perfsample" report --help >/dev/null 2>&1; then
	"$perfsample" report -i "$work/k.data" --format json >"$work/k.json" 2>"$work/err"; is $? 0 "what a killed recorder left can be read"
	ok "$(json "$work/k.json" 's["taken"] > 100'; echo $?)" "up to about a second before"
	ok "$(json "$work/k.json" 'abs(d["events"][0]["cpu_seconds"] - s["taken"] * 0.001295295) < 0.1 * d["events"][0]["cpu_seconds"]'; echo $?)" \
		"with the CPU time of those samples, not of a second before them"
	ok "$(grep -q "cut off" "$work/err" "$work/k.json"; echo $?)" "and it is said"
else
	skip "no report in this build" "what a killed recorder left can be read"
fi
# More than a pipe holds: the last of it is written when the reader has gone.
(cd "$work" && "$perfsample" record -q -F 4000 -o - -- ./burn 0.5 2>/dev/null | head -c 100 >/dev/null; echo "${PIPESTATUS[0]}" >pipe)
is "$(cat "$work/pipe")" 141 "a reader that goes away ends it as SIGPIPE would"
(cd "$work" && "$perfsample" record -q -o - -- ./burn 0.2 >stream 2>err)
is "$(head -c 8 "$work/stream")" PERFILE2 "-o - streams"
ok "$(grep -q "^done" "$work/err"; echo $?)" "the command's own output goes to standard error then"
rec -F 3000 --max-size 150K -o max.data -- ./burn 4
ok "$([ "$(stat -c %s "$work/max.data")" -lt 1000000 ] && grep -q -- "--max-size" "$work/err"; echo $?)" "--max-size ends it, and it is said"
rec --max-cpu 0.01 -o cpu.data -- ./burn 4 2; ok "$(grep -q "one sample every 2.606182 ms" "$work/err"; echo $?)" "--max-cpu goes to the next coarser period, and it is said"
if [ "$is_root" -eq 0 ] && mkdir "$work/small" && mount -t tmpfs -o size=200k none "$work/small" 2>/dev/null; then
	rec --min-free 0 -F 4000 -o small/f.data -- ./burn 3; is $? 6 "a full disk: status 6"
	ok "$(grep -q "No space left" "$work/err"; echo $?)" "which is said"
	"$perfsample" report -i "$work/small/f.data" >/dev/null 2>"$work/report.err"; is $? 0 "what it held can be read"
	rec --min-free 150K -F 4000 -o small/g.data -- ./burn 3; ok "$(grep -q "min-free\|No space" "$work/err"; echo $?)" "--min-free"
	mount -o remount,size=1m "$work/small"
	rec --min-free 0 -F 4000 -o small/h.data -- ./burn 12
	"$perfsample" report -i "$work/small/h.data" --format json >"$work/full.json"
	is "$(python3 - "$work/full.json" <<-'END'
		import json, sys
		d = json.load(open(sys.argv[1]))
		e = d["events"][0]
		s = e["samples"]
		few = 3 + 0.01 * s["expected"]
		print(s["taken"] > 300 and abs(s["silent"]) <= few and abs(e["cpu_seconds"] - s["taken"] * e["sampling"]["period_ns"] / 1e9) < 0.05, len([t for t in d["decisions"] if "where its last counters could be written" in t]))
	END
	)" "True 1" "its samples end where their counters do, and what was cut off is said"
	ok "$(grep -q "^perfsample: $(python3 -c 'import json, sys; print(format(json.load(open(sys.argv[1]))["events"][0]["samples"]["taken"], ","))' "$work/full.json") samples of" "$work/err"; echo $?)" \
		"the summary says as many"
	umount "$work/small"
else
	skip "not root, or no tmpfs" "a full disk"
fi

# ---------------------------------------------------------------- ways to record
# Tasks shorter than a period, each with a comb of its own: the cause is named, and only where it can account for what is missing.
# What the kernel does when a task ends: a cgroup's events have it, a task's own do not, which is said, with the amount where rusage tells it.
cat >"$work/exits.c" <<'C'
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
	(void)argc;
	size_t bytes = (size_t)atoi(argv[1]) << 20;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < bytes; i += 4096)
		memory[i] = 1;
}
C
gcc -O1 -o "$work/exits" "$work/exits.c"
rec --per-task -o exits.data --summary exits.json -- ./exits 1024
like "$(tr -s '\n ' ' ' <"$work/err")" 'nor what the kernel does last when a task ends' "per task: what is not seen of a task's end is said"
# Kernels before "perf: Fix sample vs do_exit()" have it in the task's own events: then there is nothing to be told.
ok "$(json "$work/exits.json" '(d["unseen_exit_seconds"] is None) != any("used by rusage" in x for x in d["decisions"])'; echo $?)" "with its amount, where there is any"
seen=$("$perfsample" report -i "$work/exits.data" --format json 2>/dev/null | python3 -c 'import json, sys; print(*[c["text"] for c in json.load(sys.stdin)["caveats"] if "when a task ends" in c["text"]])')
like "$seen" '^per-task events .*, nor what the kernel does last when a task ends( 0\.[0-9]+ s of the command.s CPU time, by rusage, are not in here: what the kernel does last when a task ends)?$' "the report says it, too, once"
ok "$(json "$work/exits.json" 'd["unseen_exit_seconds"] is None or 0.01 <= d["unseen_exit_seconds"] <= d["cpu_seconds"]'; echo $?)" "an amount that can be"
is "$(json "$work/exits.json" 'd["unseen_exit_seconds"] is None' && echo none || echo some)" "$(grep -q 'by rusage' <<<"$seen" && echo some || echo none)" "the same in both"
rec --per-task -o short.data -- sh -c 'i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done'; is $? 0 "short tasks under per-task events"
ok "$(tr -s ' \n' ' ' <"$work/err" | sed 's/perfsample: //g' | grep -q 'due and never came.*each new task starts with one whole period'; echo $?)" "their silence and its cause are said"
ok "$(! grep -q 'less CPU time than one period' "$work/err"; echo $?)" "and they are not said to have used no CPU time"

for mode in "--call-graph fp" "--call-graph none" "--unwind post" "--all-user" "--per-task" "-c 2ms" "-F low" "-F high" "--call-graph dwarf,4096" "--no-symbols" \
	"-e cpu-clock -e page-faults" "-e {cpu-clock,context-switches}" "-D 100"; do
	rec $mode -o mode.data --summary s.json -- ./burn 0.3; is $? 0 "$mode"
	ok "$(json "$work/s.json" 's["taken"] > 5'; echo $?)" "$mode: samples"
	if command -v perf >/dev/null; then
		perf report -i "$work/mode.data" --stdio >/dev/null 2>"$work/perf.err" && perf script -i "$work/mode.data" -F comm,tid,ip,sym >"$work/script" 2>>"$work/perf.err"
		ok "$([ -s "$work/script" ] && ! grep -qiE "warn|error|fail|unknown|incompat" "$work/perf.err"; echo $?)" "$mode: perf report and perf script read it"
	else
		skip "perf is not installed" "$mode: perf reads it"
	fi
done

rec -i -o mode.data --summary s.json -- ./burn 0.3; is $? 0 "-i"
ok "$(json "$work/s.json" 's["taken"] < 20'; echo $?)" "-i: threads born later are not followed"

# ---------------------------------------------------------------- loss
(cd "$work" && exec "$perfsample" record -m 256 -F 4000 --max-cpu 100 --call-graph dwarf,8192 -o loss.data --summary loss.json -- ./burn 6 2 >/dev/null 2>err) & r=$!
stand_still $r; wait $r
ok "$(json "$work/loss.json" 's["lost"] > 100 and (s["expected"] is None or abs(s["silent"]) < 0.05 * s["expected"])'; echo $?)" "what a full ring loses is counted as lost, not silent"
ok "$(grep -qE "(CARE|NO RANKING): lost .*, \+[0-9]+ to \+[0-9]+ s" "$work/err"; echo $?)" "and placed in time"
(cd "$work" && exec "$perfsample" record --strict -m 256 -F 4000 --max-cpu 100 --call-graph dwarf,8192 -o loss.data -- ./burn 3 2 >/dev/null 2>err) & r=$!
stand_still $r; wait $r
is $? 5 "--strict: status 5"

# ---------------------------------------------------------------- outputs that end
(ulimit -f 100; rec -c 50000 --max-cpu 100 -o limited.data -- ./burn 0.5); is $? 6 "a file size limit is a full disk: status 6"
(cd "$work" && "$perfsample" report -q -i limited.data >out 2>err); is $? 0 "and what was written can be read"
mkfifo "$work/lonely"
(cd "$work" && timeout -k 1 200 "$perfsample" record -o lonely -- ./burn 0.1 >out 2>err); is $? 6 "a pipe that nothing reads is not waited for without end"

# ---------------------------------------------------------------- root
if [ "$is_root" -eq 0 ]; then
	rec -a --duration 0.5 -o a.data --summary s.json; is $? 0 "-a"
	ok "$(json "$work/s.json" 's["taken"] + s["idle"] > 100 and d["target"]["kind"] == "system"'; echo $?)" "samples of every CPU"
	# Between fork and exec the command is the recorder's own code: faults of that time are others' of their event, not of the first.
	rec -c 20000 -m 128M -e cpu-clock -e page-faults -o several.data --summary s.json -- ./burn 0.2; is $? 0 "several events"
	(cd "$work" && "$perfsample" report -i several.data --format json >r.json 2>err)
	python3 - "$work/s.json" "$work/r.json" 2>"$work/err" <<-'PY'
		import json, sys
		s, r = (json.load(open(path)) for path in sys.argv[1:])
		for own, shown in zip(s["events"], r["events"]):
		    for key in ("taken", "others", "lost"):
		        assert own["samples"][key] == shown["samples"][key], (own["name"], key, own["samples"], shown["samples"])
		assert abs(s["cpu_seconds"] - r["events"][0]["cpu_seconds"]) < 1e-6, (s["cpu_seconds"], r["events"][0]["cpu_seconds"])
		assert abs(s["cpu_seconds"] - 0.2) < 0.05, s["cpu_seconds"]
	PY
	ok $? "report has the books of each, and the CPU time, as the recorder closed them"
	ok "$(json "$work/s.json" 'd["overhead"]["share_of_one_cpu"] < 0.5'; echo $?)" "what the rings cost to make is no share of the window"
	# Exec of a set-user-ID program: the kernel says EXIT, and ends a task's own events.
	if cp "$work/burn" "$work/owned" && chown 65534 "$work/owned" && chmod 4755 "$work/owned" && [ "$(findmnt -n -o OPTIONS -T "$work" | grep -c nosuid)" -eq 0 ]; then
		rec -o owned.data --summary s.json -- ./owned 1.2
		"$perfsample" fold -i "$work/owned.data" >"$work/folded" 2>"$work/err"
		ok "$(json "$work/s.json" 's["taken"] > 500 and s["others"] < 20' && ! grep -q "^:" "$work/folded" && grep -q "^owned;" "$work/folded"; echo $?)" \
			"a set-user-ID program is seen, under its name, to its end"
		rec --per-task -o owned.data --summary s.json -- ./owned 0.3
		ok "$(json "$work/s.json" 's["taken"] == 0' && tr -s ' \n' ' ' <"$work/err" | sed 's/perfsample: //g' | grep -q "the kernel ends a task's events"; echo $?)" "--per-task cannot, and says why"
	else
		skip "nosuid" "a set-user-ID program"
	fi
	rec -C 0 --duration 0.3 -o c0.data; is $? 0 "-C"
	refuse 2 "4095" "a CPU that is not there" -C 4095
	if setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null && [ "$paranoid" -le 2 ]; then
		mkdir "$work/user"; chmod 777 "$work/user"
		(cd "$work/user" && setpriv --reuid 65534 --regid 65534 --clear-groups "$perfsample" record --summary s.json -- ../burn 0.3 >/dev/null 2>../err)
		is $? 0 "an ordinary user records an own command"
		ok "$(json "$work/user/s.json" 's["taken"] > 100'; echo $?)" "with samples"
		[ "$paranoid" -le 1 ] || ok "$(grep -q "perf_event_paranoid" "$work/err"; echo $?)" "and is told why the kernel is not in it"
	else
		skip "setpriv, or perf_event_paranoid is $paranoid" "an ordinary user"
	fi
	ok "$(! find /sys/fs/cgroup -maxdepth 3 -name "perfsample-$r" | grep -q .; echo $?)" "no cgroup is left behind"
fi

# What outlives the command is not recorded, and that is said: by the recorder, and by the recording.
for mode in "" --per-task "--unwind post"; do
	rec $mode -o left.data --summary s.json -- sh -c './burn 0.2 >/dev/null & wait $!; exit 7'
	is $? 7 "a command whose children end before it (${mode:-default})"
	ok "$(! grep -q "still run" "$work/err"; echo $?)" "of which nothing is said"
	rec $mode -o left.data --summary s.json -- sh -c './burn 0.2 >/dev/null; sleep 100 & echo $! >left.pid'
	is $? 0 "a command that leaves one behind"
	pids+=("$(cat "$work/left.pid")")
	ok "$(tr -s '\n ' ' ' <"$work/err" | sed 's/perfsample: //g' | grep -q "1 process of the command still runs.* -p $(cat "$work/left.pid")\b"; echo $?)" "which is told, with its pid"
	"$perfsample" report -i "$work/left.data" >"$work/out" 2>"$work/err"
	ok "$(grep -q "1 process of the command ran on" "$work/out"; echo $?)" "and stands in the report"
	kill "$(cat "$work/left.pid")"
done
# Asked twice, the same: too short for a sample; two CPUs' periods, neither of them over.
for what in "0.0001 1" "0.6 2"; do
	rec -F 1 -o brief.data --summary s.json -- ./burn $what
	"$perfsample" report -i "$work/brief.data" --format json >"$work/brief.json" 2>"$work/err2"
	ok "$(python3 -c 'import json, sys
a, b = (json.load(open(f))["events"][0]["samples"] for f in sys.argv[1:])
sys.exit(any(a[k] != b[k] for k in ("taken", "others", "lost", "silent", "expected", "begun")) or a["silent"] > a["begun"])' "$work/s.json" "$work/brief.json"; echo $?)" \
		"burn $what at 1 Hz: summary and report agree, nothing but begun periods is silent"
	"$perfsample" report -i "$work/brief.data" >"$work/out"
	ok "$([ "$(sed -n 's/^samples   \([0-9]*\),.*/\1/p' "$work/out")" -gt 0 ] || grep -q "user -, kernel -, unresolved -" "$work/out"; echo $?)" "shares of no samples are none"
done
# A crowd of runnable threads must not keep the recorder from beginning, nor from ending; what it starts is as patient as it was.
nicenesses() { # PID: of the process's threads that were not made for real time, each once
	cat /proc/"$1"/task/*/stat 2>/dev/null | sed 's/.*) //' | awk '$38 == 0 { print $17 }' | sort -u | xargs
}
if nice -n -20 true 2>/dev/null && [ "$(nice -n -20 nice 2>/dev/null)" = -20 ]; then
	for own in 0 5; do
		(cd "$work" && exec nice -n $own "$perfsample" record -o nice.data -- sleep 100) >"$work/out" 2>"$work/err" &
		pids+=($!)
		soon is_recording "$work/nice.data"
		is "$(nicenesses $!)" "$([ $own -eq 0 ] && echo -20 || echo $own)" "a recorder that was started with niceness $own $([ $own -eq 0 ] && echo goes before others || echo keeps it)"
		is "$(nicenesses "$(pgrep -P $!)")" $own "its command does not"
		kill -INT $!
		wait $!
	done
	# SCHED_BATCH, as the 39th word behind the name has it
	(cd "$work" && chrt -b 0 "$perfsample" record -q -o nice.data -- sh -c 'sed "s/.*) //" /proc/self/stat | cut -d" " -f 39') >"$work/out" 2>"$work/err"
	is "$(cat "$work/out")" 3 "a scheduling policy that somebody chose is the command's, too"
else
	skip "niceness below 0 is not allowed" "a recorder goes before others"
fi
(ulimit -n 10; rec -o few.data -- true); is $? 3 "too few file descriptors"
ok "$(grep -q "RLIMIT_NOFILE" "$work/err" && grep -q "ulimit -n" "$work/err"; echo $?)" "the limit is named"
rec --duration 0 -p $$; is $? 2 "--duration 0 is no way to record without end"
"$perfsample" report -i "$work" >"$work/out" 2>"$work/err"
ok "$([ $? -eq 4 ] && grep -q "a folder" "$work/err"; echo $?)" "a folder is called one"
done_testing
