#!/bin/bash
# perfsample check: answers, fixes, statuses, JSON; of the host, a process, a deleted binary, a container's cgroup, hostile names.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
pids=() groups=()
# shellcheck disable=SC2317 # called by the trap
finish() {
	local p
	for p in "${pids[@]-}"; do [ -n "$p" ] && kill -9 "$p" 2>/dev/null; done
	wait 2>/dev/null
	for p in "${groups[@]-}"; do [ -n "$p" ] && [ -d "$p" ] && rmdir "$p"; done
	rm -rf "$work"
}
trap finish EXIT
json() { # FILE EXPRESSION of python over `doc`
	python3 -c 'import json, sys; doc = json.load(open(sys.argv[1])); by = {c["code"]: c for c in doc["checks"]}; sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2"
}
may_record() { # an unprivileged software clock of one's own
	[ "$(id -u)" -eq 0 ] || [ "$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 9)" -le 2 ]
}

"$perfsample" check >"$work/host.txt" 2>"$work/err"
status=$?
if may_record; then
	ok $((status != 0)) "this host can record"
	ok "$([ "$(tail -1 "$work/host.txt")" = "perfsample record -- CMD" ]; echo $?)" "the last line is the command to paste"
else
	ok $((status != 1)) "this host cannot record: status 1"
	skip "perf_event_paranoid above 2, not root" "the last line is the command to paste"
fi
ok "$([ ! -s "$work/err" ]; echo $?)" "nothing on standard error"
ok "$(! grep -qvE '^(yes |no  |-   ) [^ ]|^ {5}-> |^ {5,}[^ ]|^perfsample record ' "$work/host.txt"; echo $?)" "each line is yes, no, a command, or goes on"
ok "$([ "$(awk '{ print length($0) }' "$work/host.txt" | sort -n | tail -1)" -le 80 ]; echo $?)" "80 columns are enough"
for what in 'software clock' 'hardware cycles' 'kernel samples' 'whole CPUs' 'a cgroup' 'real-time priority' 'locked memory' 'file descriptors' 'kernel names' \
	'tracepoints' 'build IDs' 'losses counted' 'bpf'; do
	ok "$(grep -qE "^(yes|no ) +.*$what" "$work/host.txt"; echo $?)" "answers about $what"
done

"$perfsample" check --format json >"$work/host.json"
ok "$(json "$work/host.json" 'doc["schema"] == "perfsample-check/1" and doc["target"] is None and len(doc["checks"]) > 10'; echo $?)" "JSON of the host"
ok "$(json "$work/host.json" 'all(set(c) == {"code", "title", "ok", "needed", "text", "fix"} and c["ok"] in (True, False, None) for c in doc["checks"])'; echo $?)" \
	"every check has its members"
ok "$(json "$work/host.json" 'len(by) == len(doc["checks"])'; echo $?)" "each code once"
ok "$(json "$work/host.json" 'doc["can_record"] == all(c["ok"] is not False for c in doc["checks"] if c["needed"])'; echo $?)" "can_record is what the needed ones say"

# A process of our own, its program deleted, its name hostile.
cp "$(command -v sleep)" "$work/sleep"
bash -c 'exec -a "evil" "$0" 600' "$work/sleep" &
pid=$!
pids+=("$pid")
runs_sleep() { [ "$(readlink "/proc/$pid/exe")" = "$work/sleep" ]; }
soon runs_sleep
"$perfsample" check -p "$pid" >"$work/pid.txt" 2>"$work/err"
status=$?
if may_record; then
	ok $((status != 0)) "a process of ours can be recorded"
	ok "$(tail -1 "$work/pid.txt" | grep -qx "perfsample record -p $pid --duration 30s"; echo $?)" "and the command names it"
else
	ok $((status != 1)) "a process cannot be recorded: status 1"
	skip "perf_event_paranoid above 2, not root" "and the command names it"
fi
ok "$(grep -qE '^yes +unwind tables +in all [0-9]+ files' "$work/pid.txt"; echo $?)" "its unwind tables are found"
ok "$(grep -qE '^(yes|no ) +function names' "$work/pid.txt"; echo $?)" "its names are looked for"
rm "$work/sleep"
"$perfsample" check -p "$pid" --format json >"$work/pid.json"
ok "$(json "$work/pid.json" 'by["images"]["ok"] is True and by["cfi"]["ok"] is True'; echo $?)" "a deleted program is opened all the same"
ok "$(json "$work/pid.json" "doc['target']['kind'] == 'pid' and doc['target']['ids'] == [$pid] and doc['target']['comm'] == 'sleep'"; echo $?)" "JSON tells the target"

python3 -c '
import ctypes, mmap, sys, time
libc = ctypes.CDLL(None)
libc.prctl(15, b"\x1b[31m\xffx", 0, 0, 0)
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)
print("ready", flush=True)
time.sleep(600)' >"$work/ready" &
hostile=$!
pids+=("$hostile")
soon test -s "$work/ready"
"$perfsample" check -p "$hostile" >"$work/hostile.txt"
ok "$(! grep -q $'\x1b' "$work/hostile.txt" && grep -q 'x1b' "$work/hostile.txt"; echo $?)" "control characters of a name are escaped"
ok "$("$perfsample" check -p "$hostile" --format json | python3 -c 'import json, sys; json.load(sys.stdin)'; echo $?)" "and its JSON is valid"
ok "$(grep -qE "^no +names of JIT code" "$work/hostile.txt"; echo $?)" "code without a file and without a map is told"
echo '1000 10 f' >"/tmp/perf-$hostile.map"
"$perfsample" check -p "$hostile" >"$work/hostile.txt"
rm -f "/tmp/perf-$hostile.map"
ok "$(grep -qE "^yes +names of JIT code +/tmp/perf-$hostile.map" "$work/hostile.txt"; echo $?)" "and with one, that it is there"

# A busy process: what to expect of it.
bash -c 'while :; do :; done' &
busy=$!
pids+=("$busy")
soon has_used "$busy" 100
is_busy() { # as it is seen within some tenths of a second, in which a busy machine may not have run it at all
	"$perfsample" check -p "$busy" --format json >"$work/busy.json" && json "$work/busy.json" 'doc["target"]["cpus_busy"] > 0'
}
often is_busy
ok "$(json "$work/busy.json" '0 < doc["target"]["cpus_busy"] < 1.3 and abs(doc["target"]["samples_per_second"] / doc["target"]["cpus_busy"] - 772) < 1'; echo $?)" \
	"a busy process: CPUs, samples a second"
ok "$(json "$work/busy.json" '0 < doc["target"]["recorder_cpu_share"] < 0.1 and 0 < doc["target"]["megabytes_per_second"] < 1'; echo $?)" "what it costs"
{ kill -9 "$busy"; wait "$busy"; } 2>/dev/null

if python3 -c 'import jsonschema' 2>/dev/null; then
	for doc in host pid busy; do
		ok "$(python3 -c 'import json, jsonschema, sys; jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))' \
			"$work/$doc.json" "$(dirname "$0")/../../schema/perfsample-check-1.json" 2>"$work/err"; echo $?)" "JSON of the $doc is as its schema says"
	done
else
	skip "python3-jsonschema is not installed" "JSON is as its schema says"
fi

# Wrong words.
for bad in "-p 999999999:999999999" "-p x:x" "--format xml:xml" "--no-such:no-such" "word:word" "--container feedfacedeadbeef:feedfacedeadbeef" "-p 1 --container ab:exclude"; do
	words=${bad%:*} culprit=${bad##*:}
	# shellcheck disable=SC2086
	"$perfsample" check $words >"$work/out" 2>"$work/err"
	ok "$([ $? -eq 2 ] && grep -q -- "$culprit" "$work/err" && [ ! -s "$work/out" ]; echo $?)" "check $words: status 2, naming it"
done
ok "$("$perfsample" check --help | grep -q -- --container; echo $?)" "--help"

# Somebody else's process, as an ordinary user.
if [ "$(id -u)" -ne 0 ]; then
	skip "needs root to become somebody else" "another user's process: status 1"
elif ! command -v setpriv >/dev/null; then
	skip "no setpriv" "another user's process: status 1"
elif [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -lt 0 ]; then
	skip "perf_event_paranoid is below 0" "another user's process: status 1"
else
	chmod 755 "$work"
	cp "$perfsample" "$work/perfsample"
	setpriv --reuid 65534 --regid 65534 --clear-groups "$work/perfsample" check -p "$pid" >"$work/other.txt" 2>"$work/err"
	ok "$([ $? -eq 1 ] && grep -qE '^no +may be sampled' "$work/other.txt" && grep -q 'sudo perfsample record -p' "$work/other.txt"; echo $?)" "another user's process: status 1, and how to"
	ok "$(grep -A2 -E '^no +kernel samples' "$work/other.txt" | grep -q 'sysctl kernel.perf_event_paranoid=1' || [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -lt 2 ]; echo $?)" \
		"the command that allows kernel samples"
fi

# A container, as far as its cgroup makes one.
root=$(awk '$0 ~ / - cgroup2 / { print $5; exit }' /proc/self/mountinfo)
id=4f3c2b1a99887766554433221100ffeeddccbbaa00112233445566778899aabb
if [ -n "$root" ] && ! grep -q perf_event /proc/self/cgroup && mkdir "$root/docker-$id.scope" 2>/dev/null; then
	groups=("$root/docker-$id.scope" "$root/docker-4f3c${id#4f3c2b}ff.scope")
	sleep 600 &
	inside=$!
	pids+=("$inside")
	echo "$inside" >"$root/docker-$id.scope/cgroup.procs"
	"$perfsample" check --container 4f3c2b --format json >"$work/container.json"
	ok "$(json "$work/container.json" "doc['target']['kind'] == 'container' and doc['target']['ids'] == [$inside] and doc['command'].endswith('--container 4f3c2b --duration 30s')"; echo $?)" \
		"a container by the beginning of its ID"
	mkdir "$root/docker-4f3c${id#4f3c2b}ff.scope"
	sleep 600 &
	pids+=("$!")
	echo "$!" >"$root/docker-4f3c${id#4f3c2b}ff.scope/cgroup.procs"
	"$perfsample" check --container 4f3c >"$work/out" 2>"$work/err"
	ok "$([ $? -eq 2 ] && grep -q "docker-$id.scope" "$work/err"; echo $?)" "two whose IDs begin so: the candidates"
	{ kill -9 "$inside" "$!"; wait "$inside" "$!"; } 2>/dev/null
else
	skip "no cgroup2 to write to" "a container by the beginning of its ID"
	skip "no cgroup2 to write to" "two whose IDs begin so: the candidates"
fi
done_testing
