#!/bin/bash
# Go programs as Go's own compiler makes them: names and lines where all symbols were stripped, stacks that go on from the thread's own stack to the goroutine's, and through C code
# and back.
# shellcheck disable=SC2154 # tap.sh sets what it names
. "$(dirname "$0")/tap.sh"
export GO111MODULE=off GOFLAGS="" CGO_ENABLED=0
if ! command -v go >/dev/null || [ "$(uname -m)" != x86_64 ] || ! "$perfsample" check >/dev/null 2>&1; then
	skip "no go command, not x86-64, or this host cannot record" "Go programs"
	done_testing
fi
cd "$work" || exit 1
cat >alloc.go <<'GO'
package main

import "sync"

type node struct {
	l, r *node
	v    [4]int
}

//go:noinline
func build(d int) *node {
	if d == 0 {
		return &node{}
	}
	return &node{build(d - 1), build(d - 1), [4]int{}}
}

//go:noinline
func deep(n int) int {
	var pad [64]int
	if n == 0 {
		return 1
	}
	pad[n&63] = deep(n - 1)
	return pad[n&63] + 1
}

//go:noinline
func spawn(n int) (t int) {
	var wg sync.WaitGroup
	c := make(chan int, 8)
	for i := 0; i < n; i++ {
		wg.Add(1)
		go func(i int) { defer wg.Done(); c <- i + deep(20) }(i)
	}
	go func() { wg.Wait(); close(c) }()
	for x := range c {
		t += x
	}
	return t
}

func main() {
	t := 0
	for i := 0; i < 150; i++ {
		build(15)
		t += spawn(2000)
	}
	println(t)
}
GO
if ! go build -o alloc alloc.go 2>"$work/err" || ! go build -ldflags="-s -w" -o stripped alloc.go || ! go build -buildmode=pie -ldflags="-s -w" -o moved alloc.go; then
	skip "this go builds nothing: $(head -c 200 "$work/err" | tr '\n' ' ')" "Go programs"
	done_testing
fi
# Without a section table (e_shoff, e_shnum, e_shstrndx).
python3 - <<'PY'
data = bytearray(open('moved', 'rb').read())
data[40:48], data[60:64] = bytes(8), bytes(4)
open('bare', 'wb').write(data)
PY
chmod +x bare
share() { # FILE JQ…: a number of its report
	"$perfsample" report -i "$1" --format json 2>/dev/null | python3 -c "
import json, sys
e = json.load(sys.stdin)['events'][0]
s, n = e['stacks'], e['stack_ends']
print($2)"
}
whole='int(100 * (s["complete"] + s["joined"]) / sum(s.values()))'
joins=0
for program in alloc stripped moved bare; do
	rec -o $program.data -- ./$program
	ok $? "$program: recorded"
	percent=$(share $program.data "$whole")
	if grep -q 'go on on another one' "$work/err"; then
		joins=1
		[ "$percent" -ge 90 ]
		ok $? "$program: $percent% of its stacks reach their root"
	else
		skip "nothing reads other stacks here: $(grep -o 'reading on while.*' "$work/err" | head -c 100)" "$program: its stacks reach their root"
	fi
	"$perfsample" fold -i $program.data >$program.folded 2>/dev/null
	like "$(cat $program.folded)" ";runtime\.goexit(\.abi0)?;runtime\.main;main\.main;main\.build;main\.build;" "$program: functions by name, from the first one on"
	nameless=$(grep -c '\[unknown\]\|\['"$program"'\]' $program.folded)
	[ "$nameless" -lt 5 ]
	ok $? "$program: no function without a name ($nameless)"
	lines=$("$perfsample" script -i $program.data -F ip,sym,srcline 2>/dev/null | grep -A 1 'main.build' | grep -c 'alloc.go:1[5-8]')
	[ "$lines" -gt 100 ]
	ok $? "$program: $lines lines of main.build are those of its source"
done
if [ $joins -eq 1 ]; then
	# Whoever called systemstack stands on the goroutine's stack. It is in the stacks that frame pointers tell but for that very function, which keeps none there.
	rec --call-graph fp -o fp.data -- ./alloc
	"$perfsample" fold -i fp.data 2>/dev/null >fp.folded
	got=$(python3 - alloc.folded fp.folded <<'PY'
import sys
def parts(name, drop):
    out = {}
    for line in open(name):
        stack, n = line.rsplit(' ', 1)
        frames = [f.replace('.abi0', '') for f in stack.split(';')[1:]]
        if 'runtime.systemstack' not in frames or frames[0][0] == '[':
            continue
        at = frames.index('runtime.systemstack') - drop
        # Assembly keeps no frame pointer: what it is called by is left out there, too.
        if any('gcWriteBarrier' in f for f in frames[:at + drop]):
            continue
        key = tuple(frames[:max(at, 0)])
        out[key] = out.get(key, 0) + int(n)
    return out
ours, fp = parts(sys.argv[1], 1), parts(sys.argv[2], 0)
n = sum(ours.values())
print(n, int(100 * sum(c for k, c in ours.items() if k in fp) / max(n, 1)))
PY
	)
	read -r n percent <<<"$got"
	[ "$n" -gt 20 ] && [ "$percent" -ge 75 ] # what is met once may be met in one recording alone
	ok $? "of $n stacks through systemstack, $percent% are those of frame pointers, too"
	rec --unwind post -o post.data -- ./alloc
	other=$(share post.data 'int(100 * n.get("other_stack", 0) / sum(s.values()))')
	[ "$other" -ge 3 ]
	ok $? "a recording of raw stacks says that $other% go on on another one"
	like "$("$perfsample" report -i post.data --explain main.build 2>/dev/null)" 'CUT \(on another stack of the thread\)' "in words"
	rec --no-join -o cut.data -- ./alloc
	like "$(tr -s ' \n' ' ' <"$work/err")" 'on another stack of (its|the|their) thread' "record says it, too"
	like "$(tr -s ' \n' ' ' <"$work/err")" 'frame pointers lead from a thread.s stack to its others: --call-graph fp' "and what helps"
fi
if [ $joins -eq 1 ] && command -v gcc >/dev/null; then
	cat >mixed.go <<'GO'
package main

/*
#include <stdint.h>
extern uint64_t goBack(uint64_t);
static uint64_t __attribute__((noinline)) work_c(uint64_t n) { volatile uint64_t x = 1; for (uint64_t i = 0; i < n; i++) x = x * 33 + i; return x; }
static uint64_t __attribute__((noinline)) back_c(uint64_t n) { return goBack(n) + 1; }
*/
import "C"

//export goBack
func goBack(n C.uint64_t) C.uint64_t { return C.uint64_t(inGo(int(n))) + C.work_c(1000000) }

//go:noinline
func inGo(n int) int {
	t := 1
	for i := 0; i < n; i++ {
		t = t*33 ^ i
	}
	return t
}

func main() {
	done := make(chan int)
	for k := 0; k < 2; k++ {
		go func() {
			for i := 0; i < 100; i++ {
				C.work_c(3000000)
				C.back_c(3000000)
			}
			done <- 1
		}()
	}
	<-done
	<-done
}
GO
	if CGO_ENABLED=1 go build -o mixed mixed.go 2>"$work/err"; then
		rec -o mixed.data -- ./mixed
		percent=$(share mixed.data "$whole")
		[ "$percent" -ge 90 ]
		ok $? "C code that Go calls, and Go that C calls: $percent% of the stacks reach their root"
		"$perfsample" fold -i mixed.data 2>/dev/null | sed 's/\.abi0//g' >mixed.folded
		like "$(cat mixed.folded)" ';runtime\.goexit;main\.main\.func1;.*runtime\.cgocall;runtime\.asmcgocall;[^;]*work_c' "Go, C"
		like "$(cat mixed.folded)" ';main\.main\.func1;.*runtime\.asmcgocall;.*back_c.*;crosscall2;runtime\.cgocallback;.*main\.inGo' "Go, C, Go"
		like "$(cat mixed.folded)" ';main\.main\.func1;.*runtime\.asmcgocall;.*;runtime\.cgocallback;.*;runtime\.asmcgocall;[^;]*work_c' "Go, C, Go, C"
	else
		skip "cgo builds nothing: $(head -c 200 "$work/err" | tr '\n' ' ')" "C code that Go calls"
	fi
else
	skip "no compiler for C, or nothing reads other stacks" "C code that Go calls"
fi
done_testing
