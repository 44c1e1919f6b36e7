#!/bin/bash
# Functions of stripped files: by file and start in every command, told apart from what has a name, the same on a host without the files; and names that do not
# reach beyond what they are the names of.
. "$(dirname "$0")/tap.sh"
cd "$work" || exit 1
cat >asm.s <<'E'
	.text
	.globl asm_entry
	.type asm_entry,@function
asm_entry:
	.cfi_startproc
	lea 1(%rdi),%rax
	ret
	.cfi_endproc
	.globl text_marker
text_marker:
	.section .note.GNU-stack,"",@progbits
E
cat >lib.c <<'E'
#define KEPT __attribute__((noinline))
unsigned long asm_entry(unsigned long);
KEPT static unsigned long hot(unsigned long n) { unsigned long t = n; for (unsigned long i = 0; i < n; i++) t = t * 6364136223846793005ul + i; return t; }
KEPT static unsigned long middle(unsigned long n) { return hot(n) + hot(n + 1) * 3; }
unsigned long api(unsigned long n) { return middle(n) + asm_entry(n); }
KEPT static unsigned long other(unsigned long n) { unsigned long t = n; for (unsigned long i = 0; i < n; i++) t = t * 636413622384679305ul ^ i; return t; }
unsigned long (*hook)(unsigned long) = other;
unsigned long api_two(unsigned long n) { return hook(n) + 1; }
E
cat >main.c <<'E'
#include <stdlib.h>
unsigned long api(unsigned long), api_two(unsigned long);
volatile unsigned long sink;
int main(int c, char **v) { (void)c; for (int i = 0, n = atoi(v[1]); i < n; i++) { sink += api(300000); sink += api_two(200000); } return 0; }
E
if ! { gcc -O1 -fPIC -shared -Wl,--build-id -o full.so asm.s lib.c && strip -o libz.so full.so && gcc -O1 -o prog main.c ./libz.so; } 2>gcc.err; then
	skip "no gcc for x86-64, or no strip" "functions without a name"
	done_testing
	exit
fi
start_of() { nm "${2:-full.so}" | awk -v s="$1" '$3 == s { sub(/^0*/, "", $1); print "libz.so+0x" $1 }'; }
hot=$(start_of hot) middle=$(start_of middle) other=$(start_of other)
rec -o a.data -- ./prog 700
ok $? "recorded"

shares() { # FILE: "symbol named unresolved address has_build_id share", by share
	"$perfsample" report -i "$1" --format json | python3 -c '
import json, sys
for f in json.load(sys.stdin)["events"][0]["functions"][:4]:
    print(f["symbol"], f.get("named"), f["unresolved"], f.get("address"), "build_id" in f, round(f["self"]["share"], 1))'
}
ps fold -i a.data
like "$out" ";main;api;${middle/+/\\+};${hot/+/\\+} [0-9]+$" "folded stacks have a function each"
unlike "$out" 'text_marker|;\[libz.so\]' "no label's name, no bucket"
like "$(shares a.data)" "^${hot/+/\\+} False True 0x[0-9a-f]+ True 0\.[678]" "report: a row, not called named, with address and build ID"
like "$(shares a.data)" "^${other/+/\\+} False True ${other#*+} True 0\.[123]" "and one of its own for the other"
ps report -i a.data
like "$out" "${hot/+/\\+}  \(libz.so\)" "in text"
like "$out" 'names +libz.so\+0x[0-9a-f]+: a function without a name' "which says what that is"
like "$out" 'UNRESOLVED (9|100)' "and that these have no name"
ps report -i a.data --format tsv
like "$out" "${hot/+/\\+}	libz.so	.*	0		${hot#*+}	[0-9a-f]{40}$" "TSV"
ps report -i a.data --explain "$hot"
is "$status" 0 "--explain takes it"
like "$out" "^${hot/+/\\+}  \(libz.so\)" "that one"
ps report -i a.data -S "$hot" --format json
is "$(python3 -c 'import json,sys; print(len(json.load(sys.stdin)["events"][0]["functions"]))' <<<"$out")" 1 "-S takes it"
ps plan -i a.data --function "$hot" --within 5
is "$status" 0 "plan takes it"
ps script -i a.data -F comm,pid,tid,time,event,ip,sym,symoff,dso
like "$out" "${hot/+/\\+}\+0x[0-9a-f]+ \(.*libz.so\)" "script"
printf '%s\n' "$out" >script.txt
ps fold -i script.txt
like "$out" ";${hot/+/\\+} [0-9]+$" "and script's text is read again so"
ps script -i a.data -F comm,pid,tid,time,event,ip,sym,dso
printf '%s\n' "$out" >script.txt
ps report -i script.txt --format json
like "$(python3 -c 'import json,sys; f = json.load(sys.stdin)["events"][0]["functions"][0]; print(f["symbol"], f["named"])' <<<"$out")" "^${hot/+/\\+} False$" "without offsets too"
ps annotate -i a.data "$hot" --format json
is "$status" 0 "annotate takes it"
is "$(python3 -c '
import json, sys
all = [i["address"] for i in json.load(sys.stdin)["instructions"]]
print(hex(int(all[0], 16)), len(all) > 4)' <<<"$out" 2>&1)" "${hot#*+} True" "from its start to its end"
for format in pprof speedscope gecko callgrind chrome folded; do
	"$perfsample" export -i a.data --format $format -o out.$format 2>err
	ok $? "export $format"
	[ $format != pprof ] || gzip -dc <out.pprof >out.plain
	[ $format != pprof ] || mv out.plain out.pprof
	grep -q -a -F "$hot" out.$format
	ok $? "has it"
done
ps report -i a.data --missing --format json
is "$(python3 -c 'import json,sys; m = json.load(sys.stdin); print(m["bounded"] == m["self"] > m["samples"] * .9, m["images"][0]["bounded"] == m["images"][0]["self"]["samples"])' <<<"$out")" "True True" "--missing counts them as nameless, and as told apart"

# The same where the files are not.
"$perfsample" fold -i a.data >here
mkdir away && mv libz.so full.so prog away/
ps fold -i a.data
is "$out" "$(cat here)" "the same without the files"
is "$(shares a.data | head -1 | cut -d' ' -f1-3)" "$hot False True" "and nameless there, too"
mv away/* .
# Names win over bounds.
mkdir -p debug/.build-id
id=$(readelf -n libz.so | awk '/Build ID/ { print $3 }')
mkdir -p "debug/.build-id/${id:0:2}" && objcopy --only-keep-debug full.so "debug/.build-id/${id:0:2}/${id:2}.debug"
ps fold -i a.data --debug-dir debug
like "$out" ';main;api;middle;hot [0-9]+$' "a debug file that is found later names them"

# Two builds: an address says nothing there.
rec -o same.data -- ./prog 700
ps diff a.data same.data --format json
is "$(python3 -c 'import json,sys; print(sorted({f["symbol"] for f in json.load(sys.stdin)["functions"]} & {sys.argv[1], sys.argv[2], "[unknown]"}))' "$hot" "$other" <<<"$out")" \
	"$(python3 -c 'import sys; print(sorted(sys.argv[1:]))' "$hot" "$other")" "diff of one build matches them by address"
sed -i 's/^asm_entry:/\tnop\n\t.p2align 6\n&/' asm.s
gcc -O1 -fPIC -shared -Wl,--build-id -o full2.so asm.s lib.c && strip -o libz.so full2.so
rec -o new.data -- ./prog 700
moved=$(start_of hot full2.so)
[ -n "$moved" ] && [ "$moved" != "$hot" ]
ok $? "another build has it elsewhere"
ps diff a.data new.data --format json
is "$(python3 -c '
import json, sys
rows = [f for f in json.load(sys.stdin)["functions"] if f["dso"].startswith("libz.so")]
print(sorted(f["symbol"] for f in rows if f["symbol"].startswith("libz") or f["symbol"] == "[unknown]"), [f["note"] for f in rows if f["symbol"] == "[unknown]"])' <<<"$out")" \
	"['[unknown]'] [None]" "diff of two builds compares what has no name as a whole"
ps merge a.data new.data --format json
is "$(python3 -c '
import json, sys
names = [f["symbol"] for f in json.load(sys.stdin)["functions"]]
print([names.count(n) for n in sys.argv[1:]])' "$hot" "$moved" <<<"$out")" "[1, 1]" "merge keeps the functions of two builds apart"
# Of an unknown build an address is that of any function.
ps script -i a.data -F comm,pid,tid,time,event,ip,sym,symoff,dso
printf '%s\n' "$out" >script.txt
ps diff script.txt script.txt --format json
is "$(python3 -c 'import json,sys; print(sorted(f["symbol"] for f in json.load(sys.stdin)["functions"] if f["dso"].startswith("libz.so") and f["symbol"][0] in "[l"))' <<<"$out")" \
	"['[unknown]']" "diff of recordings that do not tell the build"
printf 'prog;main;work+0x10 30\nprog;main;libz.so.1+0x2f40 70\n' >folded
ps report -i folded --format json
is "$(python3 -c 'import json,sys; print([(f["symbol"], f["named"]) for f in json.load(sys.stdin)["events"][0]["functions"][:2]])' <<<"$out")" \
	"[('libz.so.1+0x2f40', False), ('work+0x10', True)]" "of folded stacks, a library's address is no name; an offset in a function is part of one"
done_testing
