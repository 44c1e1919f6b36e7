#!/bin/bash
# script: perf script's layout. Its stacks are fold's; readers made for perf's output read it.
. "$(dirname "$0")/tap.sh"
small=$fixtures/small.data

ps script -i "$small"
is "$status/$err" "0/" "written"
like "$out" '^small [0-9]+ \[[0-9]{3}\] +[0-9]+\.[0-9]{6}: +[0-9]+ cpu-clock: $' "a sample's first line: comm tid [cpu] time: period event:"
like "$out" "^$(printf '\t') {12}[0-9a-f]{4} spin\+0x[0-9a-f]+ \(inlined\)\$" "an inlined frame"
like "$out" "^$(printf '\t') {12}[0-9a-f]{4} work\+0x[0-9a-f]+ \(/usr/src/small/small\)\$" "a frame: address, symbol and offset, file"
unlike "$out" "$(printf '\033')" "no control character"
samples=$(grep -c 'cpu-clock: $' <<<"$out")

# What a stackcollapse made for perf does, in awk: root first, offsets and inlined marks dropped.
collapse='BEGIN { RS = ""; FS = "\n" } { comm = $1; sub(/ [0-9]+ .*/, "", comm); s = comm
	for (i = NF; i > 1; i--) { f = $i; sub(/^\t *[0-9a-f]+ /, "", f); sub(/ \(inlined\)$/, "", f); sub(/ \([^()]*\)$/, "", f); sub(/\+0x[0-9a-f]+$/, "", f); gsub(/;/, ":", f); s = s ";" f }
	n[s]++ } END { for (s in n) print s " " n[s] }'
is "$("$perfsample" script -i "$small" | awk "$collapse" | sed 's/^a;b/a:b/' | LC_ALL=C sort)" "$("$perfsample" fold -i "$small" | LC_ALL=C sort)" "collapsed, it is what fold writes"
ps script -i "$small" --no-inline
unlike "$out" 'inlined' "--no-inline"
is "$(grep -c 'cpu-clock: $' <<<"$out")" "$samples" "the same samples"
ps script -i "$small" -F comm,ip,sym --no-inline
like "$out" '^small $' "-F comm,ip,sym: the comm alone"
like "$out" "^$(printf '\t') +[0-9a-f]+ work\$" "address and symbol alone"
ps script -i "$small" -F comm,pid,tid,cpu,time,event
like "$out" '^ +small +[0-9]+/[0-9]+ +\[[0-9]+\] +[0-9]+\.[0-9]{6}: cpu-clock: $' "pid/tid; without ip the comm is 16 wide"
is "$(grep -c . <<<"$out")" "$samples" "a line a sample"
ps script -i "$small" -F comm,ip,sym,srcline
like "$out" '^  small\.c:[0-9]+ \(inlined\)$' "srcline, as perf breaks the line"
like "$out" '^  \?\?:0$' "no line known"
ps script -i "$small" -F +srcline,-dso,-period
unlike "$out" '\(/usr' "-F -dso leaves the file out"
like "$out" 'small\.c:' "-F +srcline"
ps script -i "$small" -G
is "$(grep -c . <<<"$out")" "$samples" "-G: a line a sample"
like "$out" 'cpu-clock: +[0-9a-f]+ [^ ]+' "with its innermost frame"
ps script -i "$small" --header
like "$out" '^# hostname : ' "--header: where"
like "$out" '^# cmdline : .*\./small$' "--header: what"
like "$out" '^# event : name = cpu-clock, type = 1, ' "--header: the event"
is "$(sed -n '/^#/!p' <<<"$out")" "$("$perfsample" script -i "$small")" "the rest is the same"
for wrong in nope comm,nope +comm,sym "" ","; do
	ps script -i "$small" -F "$wrong"
	is $status 2 "-F '$wrong' is refused"
done
ps script -i "$small" -F brstack
like "$err" "'brstack' is not supported" "a field of perf that we have not"
ps script -i "$small" -s x.py
like "$err" 'runs no scripts' "scripts are refused with a reason"
if command -v perf >/dev/null; then
	addresses() { sed -n -E 's/^\t +([0-9a-f]+).*/\1/p; /^$/p'; }
	is "$("$perfsample" script -i "$small" --no-inline | addresses)" "$(perf script -i "$small" --no-inline 2>/dev/null | addresses)" "every address is perf script's"
	is "$("$perfsample" script -i "$small" -c small -F comm,tid,cpu,time,event,period)" \
		"$(perf script -i "$small" --comms small -F comm,tid,cpu,time,event,period 2>/dev/null)" "the first lines are perf script's, byte for byte"
else
	skip "perf is not installed" "addresses and first lines are perf script's"
fi
done_testing
