#!/bin/bash
# Every layout of perf.data, from recordings that a program of its own writes (tests/fixtures/recordings.py): the same samples in each. And files
# that claim gigabytes: refused or read, in little memory.
. "$(dirname "$0")/tap.sh"
if ! python3 "$fixtures/recordings.py" "$work/r" 2>"$work/err"; then
	cat "$work/err" >&2
	exit 1
fi
cd "$work/r" || exit 1
folded() { "$perfsample" fold -q --addrs --tid "$@"; }
wanted='app-4242/4242;[unwind failed];[app] <2005>;[app] <1000> 6'
reference=$(folded -i file.data)
is "$(head -1 <<<"$reference")" "$wanted" "file: stacks as they were written"
is "$(awk '{ n += $NF } END { print n }' <<<"$reference")" 60 "file: all samples"
for kind in v1:"version 1" big:"big-endian" pipe:"pipe layout" big-pipe:"big-endian pipe layout" zstd:"COMPRESSED records" zstd2:"COMPRESSED2 records" \
	folder:"a folder of several files"; do
	file=${kind%%:*}.data
	is "$(folded -i "$file")" "$reference" "${kind#*:}: the same samples"
	is "$("$perfsample" script -q -F comm,tid,cpu,time,period,event,ip -i "$file" | sha256sum)" \
		"$("$perfsample" script -q -F comm,tid,cpu,time,period,event,ip -i file.data | sha256sum)" "and of the same times, CPUs and periods"
	ps report --format json -i "$file"
	like "$out" '"host":"db-3"' "and what the header says"
	[ -d "$file" ] && continue
	is "$(folded -i - <"$file")" "$reference" "from standard input"
	# The name of a pipe's reader is not that of a file: nothing can be sought.
	is "$(cat "$file" | folded -i -)" "$reference" "from a pipe"
	"$perfsample" inject -q -i "$file" -o "$work/copy.data"
	is "$(folded -i "$work/copy.data")" "$reference" "through inject"
done
is "$(cat file.data | folded -i -)" "$reference" "file layout from a pipe"
if command -v perf >/dev/null; then # perf 6.1 does not know COMPRESSED2
	for file in file v1 big pipe big-pipe zstd folder; do
		is "$(perf script -i $file.data -F comm,time,ip 2>/dev/null | grep -c '^app')" 60 "$file: perf reads as many"
	done
else
	skip "perf is not installed" "perf reads them too"
fi

# 64 MB for the program itself and its libraries, which the files, all below 20 kB, do not add to. A window of zstd is the exception.
case $(nm -D "$perfsample" 2>/dev/null) in
*__asan_* | *__tsan_*) skip "a sanitizer reserves terabytes" "files that claim gigabytes, within 64 MB" ;;
*)
	for file in huge/*.data; do
		limit=65536
		[ "$file" = huge/window.data ] && limit=$((65536 + 140000))
		status=0
		(ulimit -v $limit -t 10 && exec timeout 100 "$perfsample" report --jobs 1 -i "$file") >"$work/out" 2>"$work/err" || status=$?
		[ $status -eq 0 ] || { [ $status -eq 4 ] && grep -q -F "$file: " "$work/err"; }
		ok $? "$file: status $status within $limit kB$([ $status -eq 0 ] || echo ", $(sed 's/^[^:]*: [^:]*: //; s/#/no./g' "$work/err" | head -1 | cut -c1-120)")" ||
			head -3 "$work/err" | sed 's/^/# /'
		(ulimit -v $limit -t 10 && exec timeout 100 "$perfsample" fold -q --salvage -i "$file") >/dev/null 2>"$work/err"
		status=$?
		[ $status -eq 0 ] || [ $status -eq 4 ]
		ok $? "with --salvage: status $status"
	done
	# Copies on change of what forks share: 400 MB, were they not held to the size of the file.
	status=0
	(ulimit -v 230000 -t 20 && exec timeout 100 "$perfsample" report --jobs 1 -i forks.data) >"$work/out" 2>"$work/err" || status=$?
	is $status 0 "address spaces beyond any proportion to the file: read"
	like "$(cat "$work/err")" "[0-9]+ mappings were left out: the file says more of address spaces than its size bears out" "and what was left out is said"
	;;
esac
ps report -i events.data
is "$status" 4 "text of more events than a recording may have: status 4"
like "$err" 'events.data: line 49153: expected an event of those before, as there are 16,384' "naming the line"
# Compressed records that hold far more than an honest recorder's can, each by itself within its limit: an error at once. What stacks that stand still come to is read.
python3 - "$fixtures" <<'P' || exit 1
import struct, sys
sys.path.insert(0, sys.argv[1])
import recordings as r
def write(path, w, pieces, level=19):
    z, out = r.Zstd(level), w.start()
    for piece in pieces:
        part = z(piece)
        assert len(part) < 65000
        out += w.pack("IHH", r.COMPRESSED, 0, 8 + len(part)) + part
    open(path, "wb").write(w.file(out))
w = r.Writer()
MIB = 1 << 20
comm = w.record(r.COMM, w.pack("II", r.PID, r.PID) + w.text("app") + w.trailer(1000000))
for name, unit in ("round", w.round()), ("comm", comm), ("sample", w.sample(4000000, [0x401000, 0x402005] * 400)):
    write("bomb.%s.data" % name, w, [unit * ((MIB - 200) // len(unit))] * 512)
raw = r.Writer(sample_type=r.Writer().sample_type | r.RAW)
stack = struct.pack("<I", 64004) + bytes(64004)
write("still.data", raw, (b"".join(raw.sample(2000000 + i * r.PERIOD_NS, [0x401000, 0x402005], 0, stack) for i in range(at, at + 8)) for at in range(0, 1200, 8)), 1)
P
for kind in round comm sample; do
	status=0
	(ulimit -t 4 && exec "$perfsample" report -q -i bomb.$kind.data) >"$work/out" 2>"$work/err" || status=$?
	is "$status" 4 "$kind: so much in $(stat -c %s bomb.$kind.data) bytes is refused"
	like "$(cat "$work/err")" 'bomb.*data: record at 0x[0-9a-f]+: .*in all hold more than [0-9]+ (bytes|records): expected' "and it is said where"
done
"$perfsample" report -q --salvage -i bomb.sample.data >"$work/out" 2>"$work/err"
ok $? "--salvage reads all of it"
is "$(folded -i still.data | awk '{ n += $NF } END { print n }')" 1200 "77 MB in $(stat -c %s still.data) bytes, honestly, are read"
done_testing
