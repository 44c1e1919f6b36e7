#!/bin/bash
# make bench-check: instructions that fixed work takes (callgrind counts them alike each time, to some thousandths: hashes have keys of their own), beside bench/baseline. Status 1 when one takes
# more than 10 % more. make bench-baseline (check.sh --write) writes the baseline anew: say in the commit why it changed.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
work=$PWD/$BUILD/bench/check
baseline=bench/baseline
if ! command -v valgrind >/dev/null; then
	echo "bench-check: skipped, valgrind is not installed"
	exit 0
fi
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT

# A recording that is in the repository, with the names inside, and no binary of this host, which may be one that ran: functions without a name would be rows of
# their own then; and a library of fixed code.
python3 -c 'import gzip, shutil, sys; shutil.copyfileobj(gzip.open(sys.argv[1]), open(sys.argv[2], "wb"))' bench/gcc.data.gz "$work/one.data"
python3 bench/multiply.py "$work/one.data" "$work/many.data" 8
python3 -c 'import sys; sys.path.insert(0, "bench"); import inputs; inputs.big_c(sys.argv[1], 200)' "$work/big.c"
gcc -O2 -g -shared -fPIC -o "$work/big.so" "$work/big.c" -lm

export HOME=$work # perf keeps binaries in ~/.debug

# count NAME FUNCTION CMD…: instructions inside FUNCTION, or of all with "-".
count() {
	local name=$1 inside=$2
	shift 2
	[ "$inside" = - ] && inside= || inside=--toggle-collect=$inside
	valgrind --tool=callgrind --callgrind-out-file="$work/callgrind" ${inside:+"$inside"} "$@" >"$work/out" 2>"$work/err" ||
		{ echo "bench-check: $name failed" >&2; tail -5 "$work/err" >&2; exit 2; }
	sed -n 's/^totals: \([0-9]*\).*/\1/p; s/^summary: \([0-9]*\).*/\1/p' "$work/callgrind" | head -1 | sed "s/^/$name\t/"
}
{
	count load-and-fold - "$BUILD/perfsample" fold -i "$work/many.data" --symfs "$work" -o "$work/folded"
	count load load_profile "$BUILD/perfsample" fold -i "$work/many.data" --symfs "$work" -o "$work/folded"
	count report report_build "$BUILD/perfsample" report -i "$work/many.data" --symfs "$work"
	count flame - "$BUILD/perfsample" flame -i "$work/one.data" --symfs "$work" -o "$work/flame.svg"
	count unwind unwind_stack "$BUILD/bench/unwind_bench" 300 1
	count names symbolizer_resolve "$BUILD/bench/symbols_bench" "$work/big.so" 2000 names
	count lines symbolizer_resolve "$BUILD/bench/symbols_bench" "$work/big.so" 2000
} >"$work/now"

if [ "${1:-}" = --write ]; then
	cp "$work/now" "$baseline"
	cat "$baseline"
	exit 0
fi
awk -F '\t' '
	NR == FNR { was[$1] = $2; next }
	!($1 in was) { printf "%-14s %12d instructions, not in the baseline\n", $1, $2; bad = 1; next }
	{
		change = 100 * ($2 / was[$1] - 1)
		verdict = change > 10 ? "WORSE" : change < -10 ? "better: make bench-baseline" : "ok"
		printf "%-14s %12d instructions, %+.1f%% of %d: %s\n", $1, $2, change, was[$1], verdict
		bad = bad || change > 10
		delete was[$1]
	}
	END {
		for (name in was) { printf "%-14s in the baseline, but not measured\n", name; bad = 1 }
		exit bad
	}' "$baseline" "$work/now"
