#!/bin/bash
# Hashes are made under keys that each process draws for itself: no output shows them, and nobody can choose words that share a place in a table.
. "$(dirname "$0")/tap.sh"
cd "$work" || exit 1
export XDG_CACHE_HOME=$work/cache
python3 "$fixtures/recordings.py" "$work/r" 2>"$work/err" && python3 -c 'import gzip, sys; open("gcc.data", "wb").write(gzip.open(sys.argv[1]).read())' "$root/bench/gcc.data.gz" ||
	exit 1

same() { # COMMAND…: four runs, four times the same bytes
	local sums i
	"$perfsample" "$@" >/dev/null 2>"$work/err" || { ok 1 "$*"; return; }
	sums=$(for i in 1 2 3 4; do "$perfsample" "$@" 2>&1 | sha256sum; done | sort -u | wc -l)
	is "$sums" 1 "the same bytes each time: $*"
}
for file in gcc.data r/file.data "$fixtures/small.data"; do
	same report -i "$file" --children
	same report -i "$file" --format json
	same report -i "$file" --format tsv --sort dso,comm,sym
	same report -i "$file" --missing
	same report -i "$file" -g
	same fold -i "$file"
	same script -i "$file"
	same flame -i "$file" -o -
	for i in 1 2 3 4; do
		"$perfsample" flame -q -i "$file" -o "flame.$i.html" 2>/dev/null
	done
	is "$(sha256sum flame.*.html | cut -d' ' -f1 | sort | uniq -c | awk '{ print $1 }')" 4 "the same bytes each time: a page of $(basename "$file")"
	rm -f flame.*
	for format in pprof speedscope gecko callgrind chrome; do
		same export -i "$file" --format $format -o -
	done
	for i in 1 2 3 4; do
		"$perfsample" inject -q -i "$file" -o "inject.$i.data" 2>/dev/null
	done
	is "$(sha256sum inject.*.data | cut -d' ' -f1 | sort | uniq -c | awk '{ print $1 }')" 4 "the same bytes each time: inject, $(basename "$file")"
	rm -f inject.*
done
same diff gcc.data r/file.data
same diff --format json gcc.data r/file.data
same merge gcc.data r/file.data
"$perfsample" fold -q -i gcc.data >gcc.txt
same report -i gcc.txt
same flame -i gcc.txt -o -

# The tables before had hashes without a key, and these words collided in them: half a minute for each of these files.
python3 - "$fixtures" <<'P' 2>"$work/err" || exit 1
import random, struct, sys
sys.path.insert(0, sys.argv[1])
import recordings as r
M = (1 << 64) - 1
def unshifted(y, s):
    x = y
    for _ in range(64 // s + 1):
        x = y ^ (x >> s)
    return x
def unmixed(h): # splitmix64's finalizer, backwards
    x = unshifted(h, 31) * pow(0x94d049bb133111eb, -1, 1 << 64) & M
    return unshifted(unshifted(x, 27) * pow(0xbf58476d1ce4e5b9, -1, 1 << 64) & M, 30)
def ids_file(path, ids):
    w = r.Writer()
    head = bytearray(w.file(w.start() + r.samples(w, range(60)) + w.round()))
    entry = w.attr() + w.pack("QQ", len(head), 8 * len(ids))
    at = struct.unpack_from("<Q", head, 24)[0]
    head[at:at + len(entry)] = entry
    open(path, "wb").write(bytes(head) + struct.pack("<%dQ" % len(ids), *ids))
n = 120000
rnd = random.Random(1)
ids_file("chosen.data", [unmixed((i + 1) << 34) for i in range(n)])
ids_file("any.data", [rnd.getrandbits(64) for i in range(n)])
def folded(path, word):
    with open(path, "wb") as out:
        for i in range(60000):
            out.write(b"app;" + word + b"%08x" % (i * 2654435761 & 0xffffffff) + b"0123456789abcdef 1\n")
folded("chosen.txt", struct.pack("<Q", 0xbf58476d1ce4e5b9)) # a factor that this word made 0
folded("any.txt", b"zzzzzzzz")
P
took() { # FILE: milliseconds
	local from
	from=$(date +%s%N)
	timeout 100 "$perfsample" report -q -i "$1" >/dev/null 2>"$work/err"
	echo $((($(date +%s%N) - from) / 1000000))
}
for kind in data txt; do
	any=$(took any.$kind) chosen=$(took chosen.$kind)
	[ "$chosen" -lt $((5 * any + 2000)) ]
	ok $? "words chosen to collide take no longer than others, $kind ($chosen ms beside $any)"
done
done_testing
