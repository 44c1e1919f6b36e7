#!/bin/bash
# The seeds of every fuzz target, and 300 variations of each: nothing crashes, aborts or runs away. `make fuzz` looks for new ones.
. "$(dirname "$0")/tap.sh"
seeds=$root/tests/fuzz/seeds
replay=${BUILD:-build}/replay
for source in "$root"/tests/fuzz/*.c; do
	name=$(basename "$source" .c)
	if [ ! -x "$replay/$name" ]; then
		skip "not built (make check builds it)" "$name"
	elif [ ! -d "$seeds/$name" ]; then
		timeout 100 "$replay/$name" 300 "$source" >"$work/err" 2>&1
		ok $? "$name: no seeds; its own source, varied" || tail -n 3 "$work/err"
	else
		variations=300
		grep -q 'replay.h' "$source" || variations= # a main of its own
		timeout 100 "$replay/$name" $variations "$seeds/$name"/* >"$work/err" 2>&1
		ok $? "$name: $(find "$seeds/$name" -type f | wc -l) seeds and their variations" || tail -n 3 "$work/err"
	fi
done
done_testing
