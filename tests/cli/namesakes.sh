#!/bin/bash
# Different functions of one name in one file are rows of their own, told apart by their source files or, where those are not known, by where they start; copies
# of one function stay one.
. "$(dirname "$0")/tap.sh"
cd "$work" || exit 1
body() { # FUNCTION: called init, by way of FUNCTION
	echo "static __attribute__((noinline)) unsigned long init(unsigned long n) { unsigned long t = n; for (unsigned long i = 0; i < n; i++) t = t * $2 + i; return t; }
		unsigned long $1(unsigned long n) { return init(n) + 1; }"
}
mkdir x y
body run_a 3 >a.c
body run_b 5 >b.c
body run_a 3 >x/part.c
body run_b 5 >y/part.c
cat >main.c <<'E'
#include <stdlib.h>
unsigned long run_a(unsigned long), run_b(unsigned long);
volatile unsigned long sink;
int main(int c, char **v) { unsigned long n = atoi(v[1]); for (int i = 0; i < 200; i++) { sink += run_a(3 * n); if (c == 2) sink += run_b(n); } return 0; }
E
if ! gcc -O1 -o prog main.c a.c b.c 2>gcc.err; then
	skip "no gcc" "functions of one name"
	done_testing
	exit
fi
rows() { # FILE [SYMBOL]: "told_apart_by share" of each of its rows
	"$perfsample" report -i "$1" --format json | python3 -c '
import json, sys
for f in json.load(sys.stdin)["events"][0]["functions"]:
    if f["symbol"] == sys.argv[1] and f["self"]["samples"] > 0:
        print(f.get("told_apart_by"), round(float(f["self"]["share"]), 1))' "${2:-init}"
}
rec -o both.data -- ./prog 1000000
rec -o one.data -- ./prog 1000000 alone
is "$(rows both.data | sed 's/0.[78]$/most/; s/0.[23]$/some/')" $'a.c most\nb.c some' "two rows, by their source files"
is "$(rows one.data)" "None 1.0" "one alone is not told apart"
ps report -i both.data
like "$out" ' init \(a.c\)  \(prog\)' "in text"
ps fold -i both.data
like "$out" ';main;run_a;init \(a.c\) [0-9]+$' "in stacks"
like "$out" ';main;run_b;init \(b.c\) [0-9]+$' "both"
ps report -i both.data --format tsv
is "$(awk -F'\t' '$2 == "init" { print $(NF - 2) }' <<<"$out" | tr '\n' ' ')" "a.c b.c " "TSV"
is "$(awk -F'\t' '{ print NF }' <<<"$out" | sort -u | wc -l)" 1 "with as many columns on every line"
ps report -i both.data -S init --format json
is "$(python3 -c 'import json,sys; print(len(json.load(sys.stdin)["events"][0]["functions"]))' <<<"$out")" 2 "-S takes all of a name"
ps report -i both.data -S 'init (b.c)' --format json
is "$(python3 -c 'import json,sys; print([f["told_apart_by"] for f in json.load(sys.stdin)["events"][0]["functions"]])' <<<"$out")" "['b.c']" "or one"
refuses 2 "2 functions are called 'init': init \(a.c\), init \(b.c\)" "--explain lists them" report -i both.data --explain init
ps report -i both.data --explain 'init (b.c)'
like "$out" '^init \(b.c\)  \(prog\)' "and takes one"
refuses 2 "several are called 'init'" "so does plan" plan -i both.data --function init
ps plan -i both.data --function 'init (a.c)' --within 5
is "$status" 0 "and takes one"
cp both.data moved.data && mv prog away
is "$(rows moved.data)" "$(rows both.data)" "the same without the file"
mv away prog
same_diff() { # BASE NEW: names of the rows that have samples on both sides
	"$perfsample" diff "$1" "$2" --format json | python3 -c '
import json, sys
print(sorted(f["symbol"] for f in json.load(sys.stdin)["functions"] if f["symbol"].startswith("init") and not f["note"]))'
}
is "$(same_diff both.data both.data)" "['init (a.c)', 'init (b.c)']" "diff matches each with itself"
is "$(same_diff one.data both.data)" "['init (a.c)']" "and one that stood alone with the one of its source file"
sed -i '1i int pad(int x) { return x * 7; }' a.c
gcc -O1 -o prog main.c b.c a.c && rec -o other.data -- ./prog 1000000
is "$(same_diff both.data other.data)" "['init (a.c)', 'init (b.c)']" "in another build, too"

# Source files of one name: by folders where debug information has them, else by address.
gcc -O1 -g -o prog main.c x/part.c y/part.c && rec -o dirs.data -- ./prog 1000000
is "$(rows dirs.data | cut -d' ' -f1)" $'x/part.c\ny/part.c' "folders tell where file names do not"
gcc -O1 -o prog main.c x/part.c y/part.c && rec -o addresses.data -- ./prog 1000000
is "$(rows addresses.data | cut -d' ' -f1)" "$(nm prog | awk '$3 == "init" { sub(/^0*/, "", $1); print "0x" $1 }' | sort)" "addresses, where nothing else is known"

# A function in a header that both compiled is one; so is one that the linker kept once.
cat >shared.h <<'E'
static __attribute__((noinline)) unsigned long init(unsigned long n) { unsigned long t = n; for (unsigned long i = 0; i < n; i++) t = t * 3 + i; return t; }
E
for part in a b; do
	printf '#include "shared.h"\nunsigned long run_%s(unsigned long n) { return init(n) + 1; }\n' $part >$part.c
done
gcc -O1 -g -o prog main.c a.c b.c && rec -o header.data -- ./prog 1000000
is "$(nm prog | grep -c ' t init$') $(rows header.data)" "2 None 1.0" "copies of a header's function are one row"
if command -v g++ >/dev/null; then
	for part in a b; do
		echo "namespace { struct Thing { __attribute__((noinline)) unsigned long init(unsigned long n) { for (unsigned long i = 0; i < n; i++) t = t * 5 + i; return t; } unsigned long t = 1; }; }
			extern \"C\" unsigned long run_$part(unsigned long n) { Thing thing; return thing.init(n) + ${#part}; }" >$part.cc
	done
	gcc -O1 -c main.c && g++ -O1 -o prog main.o a.cc b.cc && rec -o cc.data -- ./prog 1000000
	is "$(rows cc.data '(anonymous namespace)::Thing::init(unsigned long)' | cut -d' ' -f1)" $'a.cc\nb.cc' "C++: members of nameless namespaces"
	cat >shared.hh <<'E'
template <class T> struct Any { __attribute__((noinline)) static T init(T n) { T t = n; for (T i = 0; i < n; i++) t = t * 5 + i; return t; } };
E
	for part in a b; do
		printf '#include "shared.hh"\nextern "C" unsigned long run_%s(unsigned long n) { return Any<unsigned long>::init(n) + 1; }\n' $part >$part.cc
	done
	g++ -O1 -o prog main.o a.cc b.cc && rec -o template.data -- ./prog 1000000
	is "$(rows template.data 'Any<unsigned long>::init(unsigned long)')" "None 1.0" "C++: a template's copies are one"
else
	skip "no g++" "C++: members of nameless namespaces"
	skip "no g++" "C++: a template's copies are one"
fi
done_testing
