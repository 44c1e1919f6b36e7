#!/bin/bash
# Damaged binaries, maps and dumps through every reading command: one warning a file, a caveat in JSON, --missing says "damaged"; a file with
# another build ID is still not the one that ran.
# shellcheck disable=SC2154 # tap.sh sets what it names
. "$(dirname "$0")/tap.sh"
CC=${CC:-gcc}
corpora=$(realpath -m "${PERFSAMPLE_CORPUS:-../shared/data}")/corpus
cd "$work" || exit 1
export XDG_CACHE_HOME=$work/cache
if ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	skip "this host cannot record, or has no compiler" "damaged files"
	done_testing
fi
cat >hot.c <<'C'
static volatile unsigned long sink;
__attribute__((noinline)) void work(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
int main(void) { work(400000000); return 0; }
C
"$CC" -O1 -g -Wl,--build-id -o hot hot.c
"$perfsample" record -q -F 4000 --no-symbols -o hot.data -- ./hot 2>/dev/null
cp hot whole
once() { # WHAT FILE EXPECTATION OPTIONS…: each command warns once of FILE and of nothing else that is damaged
	local what=$1 file=$2 expectation=$3 command count
	shift 3
	for command in "report" "report --format json" "report --missing" script fold "flame -o f.html" "flame -o f.svg" "export --format pprof -o p" "export --format gecko -o g" "annotate work"; do
		# shellcheck disable=SC2086 # words
		"$perfsample" $command "$@" >out 2>err
		count=$(grep -c 'damaged' err)
		is "$count $(grep -c "damaged file: $file: .*$expectation" err)" "1 1" "$what: $command: one warning" || sed 's/^/#   /' err
	done
	"$perfsample" report --format json "$@" 2>/dev/null | tee report.json | grep -q "\"damaged file: $file: [^\"]*$expectation"
	ok $? "$what: a caveat in JSON"
	like "$("$perfsample" report --missing "$@" 2>/dev/null)" "why +damaged: $file: " "$what: --missing"
	unlike "$("$perfsample" report --missing "$@" 2>/dev/null)" 'stripped' "$what: is not called stripped"
}
truncate -s 12000 hot
once "a program that is cut" "$work/hot" "expected .*12000 bytes" -i hot.data
cp whole hot
printf '\377\377\377' | dd of=hot bs=1 seek=40 conv=notrunc status=none
once "a section table elsewhere" "$work/hot" "offset 0xffffff: a section table" -i hot.data

sed 's/i \* i/i * 3/' hot.c >other.c
"$CC" -O1 -g -Wl,--build-id -o hot other.c
ps report -i hot.data
unlike "$err" 'damaged' "another program in its place is not damaged"
like "$("$perfsample" report -i hot.data --missing 2>/dev/null)" 'not the one that ran: its build ID differs' "it is not the one that ran"
cp whole hot
ps report -i hot.data
unlike "$err$out" 'damaged' "the whole program"
# Names inside the recording need no file.
"$perfsample" record -q -o named.data -- ./hot 2>/dev/null
truncate -s 12000 hot
ps report -i named.data
unlike "$err$out" 'damaged' "names inside the recording need no file"

corpus=$corpora
if [ -d "$corpus/jit" ]; then
	mkdir -p tree/tmp/jd
	zcat "$corpus/jit/node-jitdump/jit-25898.dump.gz" | head -c 100001 >tree/tmp/jd/jit-25898.dump
	for command in report script fold; do
		ps "$command" -i "$corpus/jit/node-jitdump/jit.data" --symfs tree
		is "$(grep -c 'damaged file: .*/jit-25898.dump: at 0x[0-9a-f]*: a record that goes on past the end, expected inside' <<<"$err")" 1 "a jitdump that is cut: $command: one warning"
	done
	zcat "$corpus/jit/node-perfmap/perf-25811.map.gz" | head -c 20003 >tree/tmp/perf-25811.map
	for command in report script fold; do
		ps "$command" -i "$corpus/jit/node-perfmap/map.data" --symfs tree
		is "$(grep -c 'damaged file: tree/tmp/perf-25811.map: offset 0x[0-9a-f]*: the last line is cut: expected' <<<"$err")" 1 "a perf map that is cut: $command: one warning"
	done
	like "$("$perfsample" report -i "$corpus/jit/node-perfmap/map.data" --symfs tree --missing 2>/dev/null)" 'damaged: tree/tmp/perf-25811.map' "a perf map that is cut: --missing"
else
	skip "no corpus" "a perf map that is cut"
	skip "no corpus" "a jitdump that is cut"
fi
done_testing
