#!/bin/bash
# inject: raw stacks become call chains, samples are selected, names put in or stripped; readers of others read what it writes.
. "$(dirname "$0")/tap.sh"
small=$fixtures/small.data
events() { python3 -c 'import json,sys; print(*[json.load(sys.stdin)["events"][0]'"$1"'])'; }

cat >"$work/deep.c" <<'C'
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) void leaf(void) { for (int i = 0; i < 50000; i++) sink += i; }
__attribute__((noinline)) void dive(int n) { if (n > 0) dive(n - 1); else leaf(); sink++; }
int main(void)
{
	struct timespec t;
	do { dive(20); clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); } while (t.tv_nsec < 500000000 && t.tv_sec == 0);
}
C
${CC:-gcc} -O2 -g -fno-optimize-sibling-calls -o "$work/deep" "$work/deep.c" || exit 1
if ! "$perfsample" record -q --unwind post -o "$work/post.data" -- "$work/deep" 2>"$work/err"; then
	skip "cannot record here: $(head -n 1 "$work/err")" "a recording of raw stacks"
else
	ps inject -i "$work/post.data" -o "$work/live.data"
	is "$status" 0 "a recording of raw stacks is rewritten"
	like "$err" '^perfsample: [0-9]+ samples, [0-9]+ of them with a raw stack that became a call chain; wrote .*/live\.data, ' "and how many"
	post=$(stat -c %s "$work/post.data") live=$(stat -c %s "$work/live.data")
	[ $((post / live)) -ge 3 ]
	ok $? "much smaller: $post to $live bytes"
	is "$("$perfsample" fold -q -i "$work/live.data")" "$("$perfsample" fold -q -i "$work/post.data")" "the same stacks"
	like "$("$perfsample" fold -q -i "$work/live.data")" ';main(;dive){21};leaf [0-9]+$' "whole ones"
	is "$("$perfsample" report -i "$work/live.data" --format json | events '["samples"].items()')" \
		"$("$perfsample" report -i "$work/post.data" --format json | events '["samples"].items()')" "the same accounting"
	is "$("$perfsample" report -i "$work/live.data" --format json | events '["stack_ends"].items()')" \
		"$("$perfsample" report -i "$work/post.data" --format json | events '["stack_ends"].items()')" "the same reasons why stacks end"
	mv "$work/deep" "$work/gone"
	like "$("$perfsample" fold -q -i "$work/live.data")" ';main(;dive){21};leaf [0-9]+$' "names inside: it reads the same without the program"
	mv "$work/gone" "$work/deep"
	ps inject -i "$work/post.data" -o "$work/none.data" --strip names,host,command
	unlike "$(strings "$work/none.data")" "unwind|^$(hostname)\$|$(uname -r)" "--strip: neither command line nor host"
	unlike "$(strings "$work/none.data")" '^dive$' "and no names of functions"
	is "$("$perfsample" fold -q -i - <"$work/post.data")" "$("$perfsample" inject -i - -o - <"$work/post.data" | "$perfsample" fold -q -i -)" "from a stream, as a stream"
	ps inject -q -i "$work/post.data" -o "$work/part.data" --time +0.05,+0.2
	is "$status" 0 "--time"
	is "$("$perfsample" fold -q -i "$work/part.data")" "$("$perfsample" fold -q -i "$work/post.data" --time +0.05,+0.2)" "selects what it selects in fold"
	ps report -i "$work/part.data" --format json
	is "$(events '["samples"]["silent"],' <<<"$out")" None "what was due is not claimed any more"
	like "$out" 'samples were selected by perfsample inject' "and the recording says so"
	ps inject -q -i "$work/post.data" -o "$work/part.data" -c nobody --tid 1 -C 0-3
	is "$("$perfsample" fold -q -i "$work/part.data")" "" "no sample is left where none fits"
	if command -v perf >/dev/null; then
		is "$(perf script -i "$work/live.data" -F comm,time,event 2>/dev/null | grep -c cpu-clock)" "$("$perfsample" script -q -G -i "$work/live.data" | wc -l)" "perf script reads all samples"
		[ "$(perf script -i "$work/live.data" 2>/dev/null | grep -c ' dive+')" -gt 200 ]
		ok $? "with their call chains"
		if perf record -q -e cpu-clock -F 997 --call-graph dwarf -o "$work/perf.data" -- "$work/deep" >/dev/null 2>&1; then
			"$perfsample" inject -q -i "$work/perf.data" -o "$work/plive.data"
			[ $(($(stat -c %s "$work/perf.data") / $(stat -c %s "$work/plive.data"))) -ge 20 ]
			ok $? "what perf record --call-graph dwarf wrote: 20 times smaller"
			is "$("$perfsample" fold -q -i "$work/plive.data")" "$("$perfsample" fold -q -i "$work/perf.data")" "with the same stacks"
		else
			skip "perf cannot record here" "what perf record --call-graph dwarf wrote"
		fi
	else
		skip "perf is not installed" "perf script reads it"
	fi
fi

if command -v node >/dev/null && (cd "$work" && "$perfsample" record -q -o node.data -- node --perf-prof -e \
	'function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) } for (let u; u = process.cpuUsage(), u.user + u.system < 500000;) fib(22)') >/dev/null 2>&1; then
	"$perfsample" inject -q -i "$work/node.data" -o "$work/node2.data"
	rm -f "$work"/jit-*.dump
	is "$("$perfsample" fold -q -i "$work/node2.data")" "$("$perfsample" fold -q -i "$work/node.data")" "JIT code keeps its names, also without the dump"
	like "$("$perfsample" fold -q -i "$work/node2.data")" 'fib' "there are some"
else
	skip "node is not installed, or cannot be recorded here" "JIT code keeps its names"
fi

# ---------------------------------------------------------------- several into one, and parts of one
cat >"$work/two.c" <<'C'
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) void alpha(void) { for (int i = 0; i < 50000; i++) sink += i; }
__attribute__((noinline)) void beta(void) { for (int i = 0; i < 50000; i++) sink ^= i; }
int main(int argc, char **argv)
{
	struct timespec t;
	(void)argv;
	do { if (argc > 1) beta(); else alpha(); clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); } while (t.tv_nsec < 200000000 && t.tv_sec == 0);
}
C
${CC:-gcc} -O1 -o "$work/two" "$work/two.c" || exit 1
counted() { "$perfsample" fold -q -i "$1" | awk '{ n += $NF } END { print n + 0 }'; }
hotspot=/usr/lib/x86_64-linux-gnu/libexec/hotspot-perfparser
if (cd "$work" && "$perfsample" record -q -o a.data -- ./two && "$perfsample" record -q -o b.data -- ./two b) 2>"$work/err"; then
	(cd "$work" && "$perfsample" record -q -o c.data -- ./two & cd "$work" && "$perfsample" record -q --unwind post -o d.data -- ./two b; wait)
	(cd "$work" && "$perfsample" inject -q -i b.data --join a.data -o seq.data && "$perfsample" inject -q -i c.data --join d.data -o par.data)
	ok $? "--join: one after the other, at the same time"
	for pair in seq:a:b par:c:d; do
		mv "$work/two" "$work/gone"
		IFS=: read -r whole one other <<<"$pair"
		is "$(counted "$work/$whole.data")" $(($(counted "$work/$one.data") + $(counted "$work/$other.data"))) "$whole: the samples of both"
		is "$("$perfsample" fold -q -i "$work/$whole.data" | grep -c -E ';main;(alpha|beta) ')" 2 "$whole: names of both, without the program"
		mv "$work/gone" "$work/two"
		due=0
		for f in "$one" "$other"; do due=$((due + $("$perfsample" report -q -i "$work/$f.data" --format json | events '["samples"]["expected"],'))); done
		off=$(($("$perfsample" report -q -i "$work/$whole.data" --format json | events '["samples"]["expected"],') - due))
		[ ${off#-} -le 1 ] # each is rounded
		ok $? "$whole: what was due is what was due in both"
		like "$("$perfsample" report -i "$work/$whole.data" --format json)" '2 recordings were joined by perfsample inject' "$whole: and it is said"
		if command -v perf >/dev/null; then
			is "$(perf script -i "$work/$whole.data" -F comm,time,event 2>/dev/null | grep -c cpu-clock)" "$(counted "$work/$whole.data")" "$whole: perf script reads all"
			like "$(perf report -i "$work/$whole.data" --stdio -g none 2>&1)" '[1-9][0-9]\.[0-9]+% .* alpha' "$whole: perf report too"
			unlike "$(perf report -i "$work/$whole.data" --stdio -g none 2>&1)" 'out of order|[Ww]arning|lost' "$whole: without a complaint"
		else
			skip "perf is not installed" "$whole: perf reads it"
		fi
		if [ -x $hotspot ]; then
			$hotspot --input "$work/$whole.data" >"$work/hotspot" 2>"$work/err"
			is "$?/$(grep -c -i -E 'error|invalid|corrupt|cannot' "$work/err")" 0/0 "$whole: Hotspot's parser reads it without an error"
			[ "$(stat -c %s "$work/hotspot")" -gt 10000 ]
			ok $? "$whole: and finds what is in it"
		else
			skip "hotspot is not installed" "$whole: Hotspot's parser reads it"
		fi
	done
	ps inject -i "$work/a.data" --join "$work/a.data" -o "$work/x.data"
	is "$status" 4 "the same recording twice: status 4"
	like "$err" 'has an id that another recording.s event has' "and why"
	release=$(uname -r)
	LC_ALL=C sed "s/$release/${release//[0-9]/7}/g" "$work/b.data" >"$work/elsewhere.data"
	ps inject -i "$work/a.data" --join "$work/elsewhere.data" -o "$work/x.data"
	is "$status" 4 "of another kernel: status 4"
	like "$err" 'elsewhere.data: recorded on kernel' "and why"
	is "$(find "$work" -name 'x.data*')" "" "nothing is left behind"
	ps inject -i "$work/a.data" --join "$work/b.data" --time +0,+1 -o "$work/x.data"
	is "$status" 2 "--join with --time: status 2"
	pid=$("$perfsample" script -q -i "$work/par.data" -F pid,ip,sym | awk 'NF == 1 { pid = $1 } /beta/ { print pid; exit }')
	ps inject -q -i "$work/par.data" --pid "${pid:-0}" -o "$work/part.data"
	is "$("$perfsample" fold -q -i "$work/part.data" | grep -c alpha)/$(counted "$work/part.data")" "0/$(counted "$work/d.data")" "a part by --pid is what was joined"
	if (cd "$work" && "$perfsample" record -q -e cpu-clock,page-faults -o e.data -- ./two) 2>/dev/null; then
		ps inject -q -i "$work/e.data" -e page-faults -o "$work/part.data"
		is "$("$perfsample" script -q -G -i "$work/part.data" -F event | sort -u | tr -d ': ')" page-faults "-e: samples of one event"
	else
		skip "cannot record page faults here" "-e: samples of one event"
	fi
else
	skip "cannot record here: $(head -n 1 "$work/err")" "--join"
fi
ps inject -i - --join "$small" -o "$work/x" <"$small"
is "$status" 2 "--join of a stream: status 2"
ps inject -i "$small" --join "$work/none" -o "$work/x"
is "$status/$(find "$work" -name 'x*')" "4/" "--join of no file: status 4"

ps inject -i "$small" -o "$work/copy.data"
is "$("$perfsample" fold -q -i "$work/copy.data")" "$("$perfsample" fold -i "$small")" "a live recording stays as it is"
is "$("$perfsample" report -i "$work/copy.data" --format json | events '["samples"].items()')" "$("$perfsample" report -i "$small" --format json | events '["samples"].items()')" "accounting too"
ps inject -i "$small"
is "$status" 2 "without -o: status 2"
like "$err" '-o FILE is needed' "and why"
ps inject -i "$small" -o "$work/x" --strip everything
is "$status" 2 "--strip of another word: status 2"
ps inject -i - -o "$work/x" --time +1, <"$small"
is "$status" 2 "--time of a stream: status 2"
ps inject -i "$work/none" -o "$work/x"
is "$status/$(find "$work" -name 'x*')" "4/" "no such file: status 4, nothing left behind"
ps inject -i "$small" -o "$work/nowhere/x"
is "$status" 6 "-o into nowhere: status 6"
head -c 20000 "$small" >"$work/cut"
ps inject -i "$work/cut" -o "$work/cut2"
[ "$status" -eq 0 ] || [ "$status" -eq 4 ]
ok $? "cut in its middle: status $status"

corpus=${PERFSAMPLE_CORPUS:-../shared/data}/corpus
if [ -d "$corpus" ]; then
	bad=0 done=0
	for f in "$corpus"/perfdata/*; do
		case $f in *.expected* | *.txt* | *.buildids | *.pb_text* | */binaries) continue ;; *.gz) gunzip <"$f" >"$work/in" ;; *) cat "$f" >"$work/in" ;; esac
		"$perfsample" inject -q --salvage -i "$work/in" -o "$work/out" 2>"$work/err" &&
			cmp -s <("$perfsample" fold -q --idle --salvage -i "$work/in" 2>/dev/null) <("$perfsample" fold -q --idle -i "$work/out" 2>/dev/null) ||
			{ bad=$((bad + 1)); echo "# $f: $(head -n 1 "$work/err")"; }
		done=$((done + 1))
	done
	[ $bad -eq 0 ] && [ $done -gt 20 ]
	ok $? "recordings of others ($done) fold the same afterwards"
	bad=0
	for f in "$corpus"/badperf/*; do
		(ulimit -t 5 && exec timeout 60 "$perfsample" inject -q -i "$f" -o "$work/out") 2>/dev/null
		case $? in 0 | 4) ;; *) bad=1 && echo "# $f" ;; esac
	done
	is $bad 0 "damaged ones: status 0 or 4"
else
	skip "no corpus (PERFSAMPLE_CORPUS)" "recordings of others fold the same afterwards"
fi
done_testing
