#!/bin/bash
# Snapshots of registers, memory and ELF files, made here for three machines, of the kinds that Android's offline tests have: every frame as expected.
. "$(dirname "$0")/tap.sh"
if ! { command -v clang && command -v ld.lld && command -v python3; } >/dev/null; then
	skip "no clang, lld or python3" "snapshots made here"
	done_testing
fi
python3 "$fixtures/snapshots.py" "$work/made" 2>"$work/err"
ok $? "snapshots are made" || sed 's/^/#   /' "$work/err"
for expected in "$work"/made/*/output.txt; do
	folder=${expected%/output.txt}
	ps debug snapshot "$folder"
	is "$status $out" "0 $(cat "$expected")" "$(basename "$folder"): every frame ($(wc -l <"$expected"))"
done
done_testing
