#!/bin/bash
# shellcheck disable=SC2034 # counters of waiting
# Names in a recording may lead to anything by now: a pipe that somebody waits at, a device. Neither is opened, not even for a look.
. "$(dirname "$0")/tap.sh"
cd "$work" || exit 1
export XDG_CACHE_HOME=$work/cache
mkdir there
python3 - "$fixtures" "$work/there" <<'P' || exit 1
import sys
sys.path.insert(0, sys.argv[1])
import recordings as r
w = r.Writer()
def mapping(path, start, at):
    return w.record(r.MMAP2, w.pack("IIQQQ", r.PID, r.PID, start, 0x10000, 0) + w.pack("IIQQII", 8, 1, at, 1, 5, 2) + w.text(path) + w.trailer(1000001 + at), 2)
data, chain = w.record(r.COMM, w.pack("II", r.PID, r.PID) + w.text("app") + w.trailer(1000000)), []
for i, name in enumerate(("program", "archive.apk", "jit-4242.dump", "archive.zip!lib.so", "link")):
    data += mapping(sys.argv[2] + "/" + name, 0x400000 + i * 0x100000, i)
    chain.append(0x401000 + i * 0x100000)
data += b"".join(w.sample(2000000 + i * r.PERIOD_NS, chain[i % 5:] + [0x404010]) for i in range(60)) + w.round()
open("in.data", "wb").write(w.file(data))
P
# Waits at a pipe until something opens it, and says so.
cat >waits.py <<'P'
import os, sys, threading
def wait_at(name):
    fd = os.open(name, os.O_WRONLY)
    print("opened", os.path.basename(name), flush=True)
threads = [threading.Thread(target=wait_at, args=(name,), daemon=True) for name in sys.argv[1:]]
for thread in threads:
    thread.start()
print("waiting", flush=True)
sys.stdin.read()
os._exit(0)
P
mkfifo there/program there/archive.apk there/jit-4242.dump there/archive.zip there/target
ln -s target there/link
mkfifo hold
python3 waits.py there/program there/archive.apk there/jit-4242.dump there/archive.zip there/target <hold >said &
exec 9>hold
for i in $(seq 100); do grep -q waiting said && break; sleep 0.05; done
sleep 0.3
for command in report "report --missing" fold "script" "flame -o x.svg" "inject -o x.data" "archive -o x.tar" "annotate main"; do
	# shellcheck disable=SC2086 # words
	(timeout 30 "$perfsample" $command -i in.data >out 2>"$work/err")
	status=$?
	[ "$status" -ne 124 ] && [ "$status" -lt 126 ]
	ok $? "$command comes to its end"
done
sleep 0.2
is "$(cat said)" waiting "and nobody who waited at a pipe was let go"
exec 9>&-
wait
refuses 4 "there/target: not a regular file|not a regular file" "debug core says what it is no file" debug core there/target there/target

# A pipe that is named is read, its writer not let go before there is a reader to stay.
cp "$fixtures/small.data" small.data
mkfifo named
(cat small.data >named; echo "$?" >written) &
timeout 30 "$perfsample" fold -q -i named >out 2>"$work/err"
wait
is "$(cat written) $("$perfsample" fold -q -i small.data | sha256sum)" "0 $(sha256sum <out)" "a named pipe is read to its end"
done_testing
