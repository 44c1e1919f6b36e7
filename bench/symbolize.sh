#!/bin/bash
# Names, lines and inline chains: how often they agree with llvm-symbolizer's over random addresses, and what they cost beside it. Writes
# $BUILD/bench/symbolize.md. COUNT: addresses a file (20,000).
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
symbolize=$BUILD/bench/symbolize
count=${COUNT:-20000}
out=$BUILD/bench/symbolize.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -x "$symbolize" ] || { echo "symbolize: not built (make bench builds it)"; exit 0; }
llvm=$(command -v llvm-symbolizer llvm-symbolizer-{19,18,17,16,15,14} | head -n 1)
[ -n "$llvm" ] || { echo "symbolize: skipped: no llvm-symbolizer to compare with"; exit 0; }

: >"$out"
say() { echo "$*" | tee -a "$out"; }
say "<!-- Written by bench/symbolize.sh; $(nproc) CPUs shared with other work, Linux $(uname -r | cut -d. -f1,2), gcc $(gcc -dumpversion): judge the ratios, not the seconds. -->"
say "# Symbols beside $("$llvm" --version | sed -n 's/.*LLVM version/LLVM/p')"
say
say '| file | addresses | names % | lines % | whole chains % | named by ours alone |'
say '| --- | ---: | ---: | ---: | ---: | ---: |'
agree() { # TIMES FILE [names]: TIMES as many addresses are asked as are wanted, where many lie outside all symbols
	local times=$1 file=$2
	if [ ! -r "$file" ]; then
		say "| $file | - | skipped: not here | | | |"
		return
	fi
	python3 bench/symbol_agreement.py "$symbolize" "$llvm" $((count * times)) "$file" ${3-} >"$work/row" || { cat "$work/row"; return; }
	grep '^  ' "$work/row"
	say "| $(grep -v '^  ' "$work/row" | sed 's/\t/ | /g') |"
}
lib=/usr/lib/$(gcc -print-multiarch 2>/dev/null)
# Symbol tables alone.
agree 4 "$lib/libLLVM-14.so.1" names
agree 3 "$(gcc -print-prog-name=cc1plus)" names
agree 2 /usr/lib/postgresql/15/bin/postgres names
# Debug information: glibc's is apart, libstdc++'s a file of its own, Python's a program of its own.
agree 1 "$lib/libc.so.6"
agree 1 "$lib/debug/libstdc++.so.6"
agree 1 /usr/bin/python3.11-dbg
cat >"$work/p.cc" <<'CC'
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
int main(int argc, char **argv)
{
	std::map<std::string, std::vector<int>> m;
	std::unordered_map<int, std::shared_ptr<std::string>> u;
	for (int i = 0; i < argc * 1000; i++) {
		m[std::to_string(i % 7)].push_back(i);
		u[i] = std::make_shared<std::string>(argv[0]);
	}
	std::regex r("([a-z]+)([0-9]*)");
	for (auto &p : m)
		std::sort(p.second.begin(), p.second.end(), [](int a, int b) { return a > b; });
	std::cout << std::accumulate(m["3"].begin(), m["3"].end(), 0) << std::regex_match(argv[0], r) << u.size() << "\n";
}
CC
cat >"$work/r.rs" <<'RS'
use std::collections::HashMap;
fn main() {
    let mut m: HashMap<String, Vec<u64>> = HashMap::new();
    for i in 0..100000u64 { m.entry(format!("{}", i % 97)).or_default().push(i * i); }
    let mut v: Vec<_> = m.iter().map(|(k, v)| (v.iter().sum::<u64>(), k.clone())).collect();
    v.sort();
    println!("{:?}", &v[..3]);
}
RS
if g++ -O2 -g -o "$work/c++-O2" "$work/p.cc" 2>/dev/null; then agree 1 "$work/c++-O2"; else say "| C++ -O2 -g | - | skipped: no g++ | | | |"; fi
if command -v clang++ >/dev/null && clang++ -O2 -g -o "$work/clang++-O2" "$work/p.cc" 2>/dev/null; then agree 1 "$work/clang++-O2"; fi
if command -v rustc >/dev/null && rustc -O -g -o "$work/rust" "$work/r.rs" 2>/dev/null; then agree 1 "$work/rust"; else say "| Rust | - | skipped: no rustc | | | |"; fi

# ---------------------------------------------------------------- cost
# More than 100 MB of DWARF: one unit, compiled once, linked many times under other names.
python3 - >"$work/unit.c" <<'PY'
print("typedef unsigned long word; static volatile word sink;")
for i in range(750):
    print(f"struct s{i} {{ word a; int b; char c; short d[{i % 7 + 1}]; struct s{i} *next; union {{ float f; double g; }} u; enum e{i} {{ A{i}, B{i} }} k; }};")
    print(f"static inline __attribute__((always_inline)) word leaf{i}(struct s{i} *s, word x)\n{{\n\tword t = x * {i + 3} + s->a;\n\tsink += t;\n\treturn t ^ (word)s->b;\n}}")
    print(f"static inline __attribute__((always_inline)) word mid{i}(struct s{i} *s, word x)\n{{\n\tword l = leaf{i}(s, x + 1), r = leaf{i}(s, x + 2);\n\tsink ^= l;\n\treturn l + r * s->c;\n}}")
    print(f"word work{i}(struct s{i} *s, word x)\n{{\n\tword sum = 0;\n\tfor (word i = 0; i < x; i++)\n\t\tsum += mid{i}(s, i);\n\treturn sum + leaf{i}(s, sum) + mid{i}(s, sum >> 1);\n}}")
PY
gcc -O1 -g -c -o "$work/unit.o" "$work/unit.c" && echo 'int main(void) { return 0; }' | gcc -x c -c -o "$work/main.o" - || exit 1
for i in $(seq 80); do objcopy --prefix-symbols="u${i}_" "$work/unit.o" "$work/unit$i.o"; done
gcc -o "$work/big" "$work"/unit[0-9]*.o "$work/main.o" || exit 1
mb=$(size -A "$work/big" | awk '/^\.debug/ { n += $2 } END { printf "%d", n / 1000000 }')
python3 - "$work" <<'PY'
import random, re, subprocess, sys
work = sys.argv[1]
m = re.search(r"\] \.text\s+PROGBITS\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", subprocess.run(["readelf", "-SW", f"{work}/big"], capture_output=True, text=True).stdout)
rng = random.Random(1)
addresses = [f"0x{int(m[1], 16) + rng.randrange(int(m[2], 16)):x}\n" for _ in range(20000)]
for n in (20, 200, 2000, 20000):
    open(f"{work}/a{n}", "w").write("".join(addresses[:n]))
for n in (20000, 200000):
    open(f"{work}/s{n}", "w").write("".join(rng.choices(addresses[:2000], k=n)))
PY
cpu() { # COMMAND… : CPU seconds and peak MB
	/usr/bin/env python3 -c '
import resource, subprocess, sys
def used():
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime, u.ru_maxrss
before = used()[0] # what a wrapper that became this interpreter waited for is counted, too
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
cpu, kib = used()
print(f"{cpu - before:.3f} {kib / 1024:.0f}")' "$@"
}
say
say "$mb MB of DWARF, inline chains and lines, CPU seconds (ours by one thread) and peak memory:"
say
say '| distinct addresses | samples | ours, s | MB | llvm-symbolizer, s | MB | ratio |'
say '| ---: | ---: | ---: | ---: | ---: | ---: | ---: |'
for list in a20:20:20 a200:200:200 a2000:2000:2000 a20000:20000:20000 s20000:2000:20000 s200000:2000:200000; do
	IFS=: read -r file distinct samples <<<"$list"
	read -r a am < <(cpu "$symbolize" "$work/big" <"$work/$file")
	read -r b bm < <(cpu "$llvm" "--obj=$work/big" <"$work/$file")
	say "| $distinct | $samples | $a | $am | $b | $bm | $(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.1f", b / a }') |"
done
# The same by one and by two threads: time that passes.
read -r a < <("$symbolize" --time "$work/big" <"$work/a20000" | awk '{ print $3 }')
read -r b < <("$symbolize" --time --jobs 2 "$work/big" <"$work/a20000" | awk '{ print $3 }')
c=$(python3 -c 'import subprocess, sys, time; t = time.time(); subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); print("%.3f" % (time.time() - t))' \
	"$llvm" "--obj=$work/big" <"$work/a20000")
say
say "Elapsed, 20,000 addresses: $a s by one thread, $b s by two; llvm-symbolizer $c s."
if command -v addr2line >/dev/null; then # what perf script runs for inlines, fed all at once
	read -r b bm < <(cpu timeout 60 addr2line -i -f -e "$work/big" <"$work/a200")
	say
	say "addr2line -i, which perf script asks one by one: $b s, $bm MB for 200 addresses."
fi

# Templates: the C++ program's unit, linked many times under other names. $1: compiler, $2: how many times.
templates() {
	local i defined=()
	command -v "$1" >/dev/null && "$1" -O2 -g -c -o "$work/cc.o" "$work/p.cc" 2>/dev/null || { say "| $1 | - | skipped: no $1 | | | | |"; return; }
	rm -f "$work"/unit[0-9]*.o
	for i in $(seq "$2"); do
		objcopy --prefix-symbols="u${i}_" "$work/cc.o" "$work/unit$i.o"
		defined+=("--defsym=u${i}___dso_handle=0")
	done
	# Never run: what the library has stays undefined.
	ld -e main --unresolved-symbols=ignore-all -static -o "$work/cc" "$work"/unit[0-9]*.o "$work/main.o" "${defined[@]}" 2>/dev/null ||
		{ say "| $1 | - | skipped: not linked | | | | |"; return; }
	python3 - "$work" <<'PY'
import random, re, subprocess, sys
work = sys.argv[1]
m = re.search(r"\] \.text\s+PROGBITS\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", subprocess.run(["readelf", "-SW", f"{work}/cc"], capture_output=True, text=True).stdout)
rng = random.Random(1)
open(f"{work}/acc", "w").write("".join(f"0x{int(m[1], 16) + rng.randrange(int(m[2], 16)):x}\n" for _ in range(20000)))
PY
	mb=$(size -A "$work/cc" | awk '/^\.debug/ { n += $2 } END { printf "%d", n / 1000000 }')
	read -r a am < <(cpu "$symbolize" "$work/cc" <"$work/acc")
	read -r b bm < <(cpu "$llvm" "--obj=$work/cc" <"$work/acc")
	say "| $1 -O2 | $mb | $a | $am | $b | $bm | $(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.1f", b / a }') |"
}
say
say 'C++ templates instead, 20,000 addresses (the unit of the agreement above, many times under other names):'
say
say '| compiler | DWARF, MB | ours, s | MB | llvm-symbolizer, s | MB | ratio |'
say '| --- | ---: | ---: | ---: | ---: | ---: | ---: |'
templates g++ 72
templates clang++ 150
cat <<'NOTES' | tee -a "$out"

Where they differ: libc.so.6, one function that LLVM finds only in the symbol table of the debug file and calls ??; libstdc++.so.6, three addresses where
two copies of a constructor (C1, C2) lie at one place and each tool names another. Taken as the same: aliases at one address; clones (foo.constprop.0,
which LLVM calls foo); functions inlined that have no linkage name, which ours qualifies by their scopes and LLVM does not.

The cost is that of the units which own a sampled address, each passed once: its DIEs, its line program, and of its functions those that were met.
Samples add next to nothing. clang's DIEs have no DW_AT_sibling, so all of a unit's are passed one by one. Several threads (`--jobs`) share
the units; the CPU time is nearly the same.
NOTES
