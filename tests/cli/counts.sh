#!/bin/bash
# perfsample record of events that are counted, not timed: every one, each Nth, and coarser when that is too dear.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
if [ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -gt 2 ]; then
	echo "1..0 # SKIP perf_event_paranoid is above 2 and this is not root"
	exit 0
fi
cat >"$work/faults.c" <<'C'
#include <stdlib.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
	enum { BLOCK = 4 << 20, PAGE = 4096 };
	for (long left = argc > 1 ? atol(argv[1]) : 1000; left > 0; left -= BLOCK / PAGE) {
		char *block = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (block == MAP_FAILED)
			return 1;
		madvise(block, BLOCK, MADV_NOHUGEPAGE);
		for (long i = 0; i < BLOCK; i += PAGE)
			block[i] = 1;
		munmap(block, BLOCK);
	}
	return 0;
}
C
gcc -O1 -o "$work/faults" "$work/faults.c" || exit 1
json() { # FILE EXPRESSION of python over the summary `d` and its first event's samples `s`
	python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); s = d["events"][0]["samples"]; sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2"
}
rec() {
	ps record -q --summary "$work/s.json" -o "$work/f.data" "$@"
	[ "$status" -eq 0 ] || echo "#   status $status: $err"
}

# Every fault: the ring is large enough for as many as a program makes, so hardly any is lost (the ring of a clock lost 98 of 100). Where the reader
# has no real-time priority, a busy machine may let the program run on without it.
keeps_them() {
	rec -e page-faults -c 1 -- "$work/faults" 100000
	json "$work/s.json" 's["lost"] + s["dropped"] < 0.05 * s["expected"]'
}
often keeps_them
kept=$?
json "$work/s.json" 's["taken"] + s["lost"] + s["dropped"] > 100000'
ok $? "each page fault is a sample"
ok $kept "and stays one: $(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["events"][0]["samples"])' "$work/s.json")"
json "$work/s.json" 'd["stack_copy_bytes"] == 8192 and any("stack copies of 8192 bytes" in x for x in d["decisions"])'
ok $? "their stack copies are small, which is said"

# Of the software events each becomes a sample of its own, whatever the period, where the kernel is asked for the period in the sample.
for way in "--call-graph dwarf" "--call-graph fp" "--unwind post"; do
	# shellcheck disable=SC2086
	rec -e page-faults -c 100 $way -- "$work/faults" 100000
	json "$work/s.json" '990 < s["taken"] + s["lost"] < 1020 and abs(s["silent"]) <= 2'
	ok $? "$way: -c 100 takes each hundredth"
	ps script -i "$work/f.data" -F comm,period
	is "$(tr -s ' ' '\n' <<<"$out" | grep -c '^100')" "$(grep -c faults <<<"$out")" "$way: and says in each sample that it stands for 100"
done

# Too dear: a quarter of the samples, again and again; each with its own period, and nothing of it is silent.
ps record -q --summary "$work/s.json" -o "$work/f.data" -e page-faults -c 1 --max-cpu 0.05 -- bash -c 'ulimit -t 4; exec "$0" 1000000000' "$work/faults"
json "$work/s.json" 'any("one sample every 4 page-faults" in x for x in d["decisions"])'
ok $? "--max-cpu goes on with each fourth"
json "$work/s.json" 'abs(s["silent"]) < 0.01 * s["expected"]'
ok $? "what was due is reckoned at the period of its time"
ps report -i "$work/f.data" --format json
is "$status" 0 "and the report reads both"
done_testing
