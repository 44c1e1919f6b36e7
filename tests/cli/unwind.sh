#!/bin/bash
# Programs whose stacks are hard, recorded live: where they end, and how they are counted.
set -u
ps=$(realpath "${PERFSAMPLE:-build/perfsample}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0 failed=0
ok() { # STATUS NAME
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; failed=1; sed 's/^/#   /' "$dir/err" 2>/dev/null | tail -5; fi
}
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }
rec() { # OPTIONS… : runs record in the folder, its standard error in err
	(cd "$dir" && timeout 60 "$ps" record "$@" >out 2>err)
}
# The last recording's first event as `e`, its end reasons as `ends`, `taken` samples.
holds() { # EXPRESSION NAME
	"$ps" report -i "$dir/perf.data" --format json >"$dir/json" 2>>"$dir/err"
	python3 - "$dir/json" "$1" <<'P'
import json, sys
e = json.load(open(sys.argv[1]))["events"][0]
ends, taken = e["stack_ends"], e["samples"]["taken"]
share = lambda *names: sum(ends.get(name, 0) for name in names) / max(taken, 1)
good = taken > 50 and bool(eval(sys.argv[2]))
if not good:
    print("#   taken", taken, "ends", ends)
sys.exit(0 if good else 1)
P
	ok $? "$2"
}
if [ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 9)" -gt 2 ]; then
	echo "1..0 # SKIP perf_event_paranoid, and this is not root"
	exit 0
fi

# Go: CFI in a compressed .debug_frame, goroutines that end at runtime.goexit, a runtime that changes stacks.
cat >"$dir/go.mod" <<'G'
module burn
go 1.17
G
cat >"$dir/burn.go" <<'G'
package main

import (
	"fmt"
	"sort"
	"time"
)

type node struct{ l, r *node }

//go:noinline
func build(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{build(depth - 1), build(depth - 1)}
}

//go:noinline
func count(n *node) int {
	if n == nil {
		return 0
	}
	return 1 + count(n.l) + count(n.r)
}

//go:noinline
func sorted(n int) int {
	a := make([]int, n)
	for i := range a {
		a[i] = (i * 7919) % 1009
	}
	sort.Slice(a, func(i, j int) bool { return a[i] < a[j] })
	return a[0]
}

func main() {
	total, done := 0, make(chan int)
	end := time.Now().Add(700 * time.Millisecond)
	go func() {
		t := 0
		for time.Now().Before(end) {
			t += sorted(2000)
		}
		done <- t
	}()
	for time.Now().Before(end) {
		total += count(build(12))
	}
	fmt.Println(total + <-done)
}
G
if command -v go >/dev/null && (cd "$dir" && HOME="$dir" GOFLAGS=-mod=mod GOPATH="$dir/gopath" GOCACHE="$dir/cache" go build -o plain . && \
	HOME="$dir" GOPATH="$dir/gopath" GOCACHE="$dir/cache" go build -ldflags='-s -w' -o stripped .) >"$dir/err" 2>&1; then
	chmod -R u+w "$dir"
	for program in plain stripped; do
		rec "./$program"
		# The collector works on the system stack on behalf of a goroutine, whose own stack cannot be reached from there: not complete.
		holds 'share("root", "unsupported", "not_user") >= 0.98 and share("root") > 0.5' "a $program Go program: root, or a change of stacks that is said"
		[ "$program" = plain ] || continue # without names
		"$ps" fold -i "$dir/perf.data" --addrs >"$dir/folded" 2>>"$dir/err"
		# sum of stacks that count() or sorted() is in, and of those that are complete
		python3 - "$dir/folded" <<'P'
import sys
good = bad = 0
for line in open(sys.argv[1]):
    stack, n = line.rsplit(" ", 1)
    if ("main.count" in stack or "main.sorted" in stack) and "systemstack" not in stack and "morestack" not in stack:
        if stack.split(";")[1].startswith("runtime.goexit"):
            good += int(n)
        else:
            bad += int(n)
            print("#  ", stack[:200])
sys.exit(0 if good > 20 and bad <= 0.01 * good else 1)
P
		ok $? "a $program Go program: goroutines end at runtime.goexit"
	done
else
	skip "Go programs" "no go here, or it cannot build"
fi
# More frames than a record holds: 8 bytes each, so that all of them are in the copy.
cat >"$dir/many.s" <<'S'
	.globl	down, main
	.type	down, @function
down:	.cfi_startproc
	dec	%rdi
	jz	1f
	call	down
	ret
1:	mov	$200000, %rcx
2:	dec	%rcx
	jnz	2b
	ret
	.cfi_endproc
	.size	down, .-down
	.type	main, @function
main:	.cfi_startproc
	push	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
	mov	$4000, %ebx
3:	mov	$8100, %edi
	call	down
	dec	%ebx
	jnz	3b
	pop	%rbx
	.cfi_def_cfa_offset 8
	xor	%eax, %eax
	ret
	.cfi_endproc
	.size	main, .-main
	.section	.note.GNU-stack, "", @progbits
S
if [ "$(uname -m)" = x86_64 ] && command -v gcc >/dev/null && gcc -o "$dir/many" "$dir/many.s" 2>"$dir/err"; then
	rec ./many
	holds 'share("depth_limit") > 0.7 and e["stacks"]["truncated"] == ends["depth_limit"] + ends.get("truncated", 0)' \
		"8,100 frames: the limit on depth, counted as truncated"
	"$ps" script -i "$dir/perf.data" -F ip,sym >"$dir/script" 2>>"$dir/err"
	awk -v RS= '{ down = gsub(/ down/, "x"); if (down > 7980 && /main/ && /_start/) good++ } END { exit !(good > 50) }' "$dir/script"
	ok $? "the leaf's 4,000 and the root's 3,999 are there"
	if command -v perf >/dev/null; then
		perf script -i "$dir/perf.data" --max-stack 9000 -F ip,sym 2>/dev/null >"$dir/script"
		awk -v RS= '{ down = gsub(/ down/, "x"); if (down > 7980 && /main/ && /_start/) good++ } END { exit !(good > 50) }' "$dir/script"
		ok $? "perf script reads them"
	else
		skip "perf script reads them" "no perf"
	fi
else
	skip "8,100 frames" "no gcc for x86-64"
fi
echo "1..$n"
exit $failed
