#!/bin/bash
# fold: one line per distinct stack, of a recording whose names are inside (tests/fixtures/small.c made it).
. "$(dirname "$0")/tap.sh"
small=$fixtures/small.data

ps fold -i "$small"
is "$status/$err" "0/" "folded"
is "$(grep -c -v -E '^[^;]+(;[^;]+)* [0-9]+$' <<<"$out")" 0 "every line is frames and a count"
is "$(LC_ALL=C sort <<<"$out")" "$out" "in the order of the text"
is "$(sed 's/ [0-9]*$//' <<<"$out" | sort | uniq -d)" "" "no stack twice"
total=$(awk '{ n += $NF } END { print n }' <<<"$out")
"$perfsample" report -i "$small" --format json >"$work/report.json"
is "$total" "$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["events"][0]["samples"]["taken"])' "$work/report.json")" "counts add up to the samples taken"
like "$out" ';main;work;spin [0-9]+$' "an inlined function is a frame"
like "$out" '^a:b\\x1b\[31m</x>\\x0a;.*(;dive){21};work;spin [0-9]+$' "a hostile name is escaped; a recursion is whole"
unlike "$out" "$(printf '\033')" "no control character"
unlike "$out" '_\[k\]' "no kernel marks unless asked"
whole=$out
ps fold -i "$small" --no-inline
unlike "$out" ';spin' "--no-inline leaves inlined functions out"
like "$out" ';main;work [0-9]+$' "what they were inlined into has their samples"
is "$(awk '{ n += $NF } END { print n }' <<<"$out")" "$total" "the same total"
ps fold -i "$small" --kernel
like "$out" ';read;[a-zA-Z_0-9]+_\[k\];' "--kernel marks kernel functions"
is "$(sed 's/_\[k\]//g' <<<"$out" | sort)" "$(sort <<<"$whole")" "and changes nothing else"
ps fold -i "$small" --pid
like "$out" '^small-[0-9]+;' "--pid"
ps fold -i "$small" --tid
like "$out" '^small-([0-9]+)/\1;' "--tid"
ps fold -i "$small" --addrs
like "$out" ';work <[0-9a-f]+>;spin <[0-9a-f]+> [0-9]+$' "--addrs"
is "$(awk '{ n += $NF } END { print n }' <<<"$out")" "$total" "the same total"
ps fold -i "$small" -c small
unlike "$out" '^a:b' "-c keeps one command"
like "$out" '^small;' "that one"
ps fold -i "$small" -S spin
is "$(grep -c -v ';spin [0-9]*$' <<<"$out")" 0 "-S keeps samples whose innermost function it is"
ps fold -i "$small" --time 0%,50%
first=$(awk '{ n += $NF } END { print n + 0 }' <<<"$out")
ps fold -i "$small" --time 50%,
second=$(awk '{ n += $NF } END { print n + 0 }' <<<"$out")
is $((first + second)) "$total" "--time: two halves are the whole"
[ "$first" -gt 0 ] && [ "$second" -gt 0 ]
ok $? "neither is empty"
ps fold -i "$small" --time +0.1,+0.2
part=$(awk '{ n += $NF } END { print n + 0 }' <<<"$out")
[ "$part" -gt 0 ] && [ "$part" -lt "$total" ]
ok $? "--time in seconds from the start"
for wrong in 5 a,b 2,1 +1,+0.5 1,2,3 "101%,"; do
	ps fold -i "$small" --time "$wrong"
	is $status 2 "--time $wrong is refused"
done
ps fold -i "$small" -e nonsense
is $status 2 "an event that is not in the recording"
like "$err" "no event 'nonsense'.*cpu-clock" "is refused, naming those that are"
ps fold -i "$small" -o "$work/out.folded"
is "$(cat "$work/out.folded")" "$whole" "-o writes a file"
is "$(stat -c %a "$work/out.folded")" 600 "that others cannot read"
mkdir "$work/dir"
ps fold -i "$small" -o "$work/dir"
is $status 6 "-o of a directory: status 6"
ps fold -i "$small" -o "$work/none/out"
is "$status/$(find "$work" -name '*.tmp')" "6/" "-o into nowhere: status 6, nothing left behind"
is "$("$perfsample" fold -i - <"$small")" "$whole" "a file read from standard input"
ps fold -i "$small" -o /dev/null
is "$status/$(stat -c %F /dev/null)" "0/character special file" "-o /dev/null leaves it a device"
seq -f "c;main;function_%07g;leaf 3" 1 9999 | LC_ALL=C sort >"$work/long" # is written in pieces
is "$("$perfsample" fold -i "$work/long" | cksum)" "$(cksum <"$work/long")" "a text of 300 KB is itself"
ps fold -i "$work/long" -o "$work/long.out"
is "$status/$(cksum <"$work/long.out")/$(stat -c %a "$work/long.out")" "0/$(cksum <"$work/long")/600" "-o writes all of it"
ps fold -i "$work/long" -o /dev/full
is "$status/$(stat -c %F /dev/full)" "6/character special file" "no room: status 6"
"$perfsample" fold -i "$work/long" >/dev/full 2>"$work/err"
is "$?/$(grep -c 'No space left' "$work/err")" "6/1" "no room for standard output: status 6"
for n in 1 50 200 1000 20000; do # cut anywhere, it is read to there or refused, never a crash
	head -c "$n" "$small" >"$work/cut"
	ps fold -i "$work/cut"
	[ $status -eq 0 ] || [ $status -eq 4 ]
	ok $? "cut after $n bytes: status $status"
done
done_testing
