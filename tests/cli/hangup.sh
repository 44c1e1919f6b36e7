#!/bin/bash
# A terminal that goes away: the command is told once, whoever leads the session.
. "$(dirname "$0")/tap.sh"
names='the recorder leads the session|it belongs to the foreground group|Ctrl-C'
if ! "$perfsample" check >/dev/null 2>&1; then
	IFS='|'
	for name in $names; do skip "this host cannot record" "$name"; done
	done_testing
fi
cd "$work" || exit 1
# Counts what it is sent for a second after the first; then its time is over. Without any, after 20 s.
cat >count.py <<'P'
import os, signal, sys, time
counts = {"HUP": 0, "INT": 0}
for name in counts:
    signal.signal(getattr(signal, "SIG" + name), lambda number, frame, name=name: counts.update({name: counts[name] + 1}))
open("ready", "w").close()
end = time.time() + 20
while time.time() < end:
    time.sleep(0.01)
    if any(counts.values()):
        end = min(end, time.time() + 1)
        for i in range(100):
            time.sleep(0.01)
with open("counts", "w") as out:
    out.write("HUP %(HUP)d INT %(INT)d" % counts)
P
cat >hangs.py <<'P'
import os, pty, signal, sys, time
kind, command = sys.argv[1], sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    if kind == "member":  # we lead, the recorder is in the foreground group; the end of the leader is told to that
        if os.fork() == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.execv(command[0], command)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        time.sleep(60)
    os.execv(command[0], command)
for i in range(400):
    if os.path.exists("ready"):
        break
    time.sleep(0.05)
time.sleep(0.3)
if kind == "key":
    os.write(fd, b"\x03")
    time.sleep(0.2)
else:
    os.close(fd)
began = time.time()
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
for i in range(400):
    if os.path.exists("counts"):
        break
    time.sleep(0.05)
print("ended" if time.time() - began < 10 else "went on")
P
hang_up() { # KIND
	rm -f ready counts
	timeout 60 python3 hangs.py "$1" "$perfsample" record -q -o "$1.data" -- python3 count.py 2>"$work/err"
	cat counts 2>/dev/null
}
is "$(hang_up leader)" "ended
HUP 1 INT 0" "the recorder leads the session: the terminal is gone, and the command hears of it once"
is "$("$perfsample" report -q -i leader.data >/dev/null 2>"$work/err" && echo whole)" whole "the recording is whole"
is "$(hang_up member)" "ended
HUP 1 INT 0" "it belongs to the foreground group, which hears of it as a whole: once"
is "$(hang_up key)" "ended
HUP 0 INT 1" "Ctrl-C: once"
done_testing
