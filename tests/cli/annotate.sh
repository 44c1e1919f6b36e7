#!/bin/bash
# perfsample annotate: samples by line and by instruction add up; inlined functions; sources that must not be shown; files that are gone.
# shellcheck disable=SC2154 # tap.sh sets what it names
. "$(dirname "$0")/tap.sh"
CC=${CC:-gcc}
cd "$work" || exit 1
export XDG_CACHE_HOME=$work/cache
if ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	skip "this host cannot record, or has no compiler" "annotate"
	done_testing
fi
program() { # NAME
	cat >"$1.c" <<'C'
static volatile unsigned long sink;
static inline __attribute__((always_inline)) unsigned long mix(unsigned long x)
{
	for (int i = 0; i < 8; i++)
		x = x * 1234567 + (x >> 3) / 7;
	return x;
}
__attribute__((noinline)) void work(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += mix(i); /* A hot line */
}
__attribute__((noinline)) static void caller(void) { work(15000000); __asm__ volatile(""); }
int main(void) { caller(); return 0; }
C
	"$CC" -O2 -g -Wl,--build-id -o "$1" "$work/$1.c"
}
program hot
"$perfsample" record -q -o hot.data -- ./hot 2>record.err
ps annotate -i hot.data work
is "$status" 0 "a function with code"
like "$out" '^work in .*/hot$' "its name and file"
like "$out" '^samples +[0-9]+ of [0-9]+: [0-9.]+% \([0-9.]+-[0-9.]+\)$' "its share and interval"
like "$out" '^skid ' "skid is named"
like "$out" "^$work/hot.c\$" "the source file"
like "$out" '^ +[0-9.]+ +[0-9.]+-[0-9.]+ +5 +x = x \* 1234567' "a line inlined into it, with share and interval"
if ldconfig -p 2>/dev/null | grep -q libcapstone; then
	like "$out" '^ +[0-9a-f]+  ret' "all its instructions"
	like "$out" 'hot\.c:5 \(inlined mix\)' "instructions say what is inlined there"
else
	skip "no libcapstone" "all its instructions"
fi
ps annotate -i hot.data --no-source --no-asm work
unlike "$out" 'x = x' "--no-source"
unlike "$out" 'address' "--no-asm"
ps annotate -i hot.data mix
like "$out" '^mix, inlined in ' "a name that is only ever inlined"
"$perfsample" annotate -i hot.data --format json work >work.json 2>/dev/null
ok $? "--format json"
python3 - "$root/schema/perfsample-annotate-1.json" work.json <<'PYTHON'
import json, sys
d = json.load(open(sys.argv[2]))
try:
    import jsonschema
    jsonschema.validate(d, json.load(open(sys.argv[1])))
except ImportError:
    pass
k = d["function"]["samples"]
assert k > 50, k
assert sum(l["samples"] for l in d["lines"]) == k, "lines"
assert sum(i["samples"] for i in d["instructions"]) == k, "instructions"
for row in d["lines"] + d["instructions"] + [d["function"]]:
    lo, hi = row["range"]
    assert lo <= row["share"] <= hi, row
addresses = [int(i["address"], 16) for i in d["instructions"]]
assert addresses == sorted(set(addresses)), "order"
PYTHON
ok $? "lines and instructions add up to the function, every interval holds its share"
ours=$("$perfsample" annotate -i hot.data --format json work 2>/dev/null | python3 -c '
import json, sys
print("\n".join(i["address"][2:] for i in json.load(sys.stdin)["instructions"] if i["text"]))')
theirs=$(objdump -d --no-show-raw-insn hot | awk '/^[0-9a-f]+ <work>:/ { on = 1; next } /^$/ { on = 0 } on { sub(":", "", $1); print $1 }')
if ldconfig -p 2>/dev/null | grep -q libcapstone && [ -n "$theirs" ]; then
	# Padding behind the last instruction belongs to the symbol or not, as the tools see it.
	is "$(head -n "$(wc -l <<<"$ours")" <<<"$theirs")" "$ours" "the instructions begin where objdump's do"
else
	skip "no libcapstone or no objdump" "the instructions begin where objdump's do"
fi

# Two file-local functions of one name: two rows of a report, and one annotation, unless one of them is named.
for part in one two; do
	echo "static volatile unsigned long sink; static __attribute__((noinline)) void twin(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i / 7; }
		void $part(void) { twin(100000000 + sink); }" >"$part.c"
done
echo 'void one(void); void two(void); int main(void) { one(); two(); return 0; }' >twins.c
"$CC" -O2 -fno-ipa-icf -g -o twins twins.c one.c two.c
"$perfsample" record -q -o twins.data -- ./twins 2>record.err
ps annotate -i twins.data twin
like "$out" '^copies +2 functions of that name' "two functions of one name: both"
unlike "$out" '^also' "and none is left over"
like "$out" "^$work/one.c\$" "lines of the one"
like "$out" "^$work/two.c\$" "and of the other"
"$perfsample" annotate -i twins.data --format json twin >twin.json 2>/dev/null
"$perfsample" report -i twins.data --format json >twins.json 2>/dev/null
python3 - twin.json twins.json <<'PYTHON'
import json, sys
d, r = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
k = d["function"]["samples"]
rows = [f for f in r["events"][0]["functions"] if f["symbol"] == "twin"]
assert sorted(f["told_apart_by"] for f in rows) == ["one.c", "two.c"], rows
assert d["copies"] == 2 and k > 50 and k == sum(f["self"]["samples"] for f in rows), (k, rows)
assert sum(l["samples"] for l in d["lines"]) == k and sum(i["samples"] for i in d["instructions"]) == k
assert {l["file"].rsplit("/")[-1] for l in d["lines"]} == {"one.c", "two.c"}
addresses = [int(i["address"], 16) for i in d["instructions"]]
assert addresses == sorted(set(addresses))
PYTHON
ok $? "as many samples as the report's rows, by line and by instruction"
ps annotate -i twins.data 'twin (two.c)'
like "$out" "^$work/two.c\$" "one of the two, by the name that the report has"
unlike "$out" "^$work/one.c\$|^copies" "and that alone"

# Rust: generic functions of one name, one told by its symbol, a method that was only inlined, a name without what it is in.
cat >grid.rs <<'RUST'
trait Shape { fn area(&self) -> f64; }
struct Round<T>(T);
impl<T: Into<f64> + Copy> Shape for Round<T> {
    #[inline(never)]
    fn area(&self) -> f64 {
        let mut a: f64 = 0.0;
        for i in 0..1000 { a += (self.0.into() * i as f64).sqrt(); }
        a
    }
}
struct Grid(Vec<u64>);
impl Grid {
    #[inline(always)]
    fn cell(&mut self, i: usize) -> u64 { self.0[i] = self.0[i - 1] / 3 + i as u64; self.0[i] }
    #[inline(never)]
    fn relax(&mut self) -> u64 { let mut t = 0; for i in 1..self.0.len() { t ^= self.cell(i); } t }
}
fn main() {
    let (mut grid, mut sum) = (Grid(vec![1; 100000]), 0.0);
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Round(3.0f32)), Box::new(Round(2u32))];
    for _ in 0..400 {
        sum += grid.relax() as f64;
        for s in &shapes { for _ in 0..50 { sum += s.area(); } }
    }
    println!("{}", std::hint::black_box(sum));
}
RUST
if command -v rustc >/dev/null && rustc -O -g -o grid grid.rs 2>rustc.err; then
	"$perfsample" record -q -o grid.data -- ./grid >/dev/null 2>record.err
	symbol=$(nm grid | awk '/4area/ { print $3; exit }')
	name='<grid::Round<T> as grid::Shape>::area' method=grid::Grid
	if [[ $symbol == _R* ]]; then # its newer names say of what type
		name='<grid::Round<f32> as grid::Shape>::area' method='<grid::Grid>'
	fi
	ps annotate -i grid.data "$name"
	[[ $symbol == _R* ]] || like "$out" '^copies +2 functions' "Rust: both instances of a generic function"
	like "$out" ' 7 +for i in 0\.\.1000' "Rust: a generic function's line"
	like "$out" '^ +[0-9.]+ +[0-9.]+-[0-9.]+ +[0-9a-f]{4,}  [a-z]' "and its instructions"
	unlike "$out" '\.rs:0' "code from no line has no line 0"
	ps annotate -i grid.data "$symbol"
	is "$status" 0 "one instance by its symbol"
	unlike "$out" '^copies' "and that alone"
	ps annotate -i grid.data "$method::cell"
	like "$out" "^$method::cell, inlined in .*/grid\$" "a method that was only inlined"
	like "$out" ' 14 +fn cell' "by its own line"
	ps annotate -i grid.data relax
	like "$err" "did you mean $method::relax\\?" "a name without what it is in"
else
	skip "no rustc" "Rust"
fi

ps annotate -i hot.data worj
is "$status" 2 "an unknown name: status 2"
like "$err" "did you mean work\\?" "and the likely one"
ps annotate -i hot.data caller
is "$status" 2 "a function without samples of its own: status 2"
like "$err" 'no samples of its own' "is told apart"
ps annotate -i hot.data
is "$status" 2 "no name: status 2"

# Sources: nothing but regular files that the caller may read.
refused() { # NAME: the source is not shown, and nothing hangs
	local text
	text=$(timeout 60 "$perfsample" annotate -i hot.data --no-asm work 2>/dev/null)
	like "$text" "hot.c  \\(source not shown: " "$1"
	like "$text" '^ +[0-9.]+ +[0-9.]+-[0-9.]+ +5$' "$1: its lines are counted all the same"
}
mv hot.c kept.c
refused "no source file"
mkfifo hot.c
refused "a FIFO for a source file"
rm hot.c
mkdir hot.c
refused "a folder for a source file"
rmdir hot.c
ln -s /proc/self/environ hot.c
text=$(SECRET_OF_OURS=1 "$perfsample" annotate -i hot.data --no-asm work 2>/dev/null)
unlike "$text" 'SECRET_OF_OURS' "a link to a file of the kernel for a source file"
rm hot.c
printf 'a\nb\nc\nd\n\033[31mred \xff\n' >hot.c
text=$("$perfsample" annotate -i hot.data --no-asm work 2>/dev/null)
like "$text" '5  \\x1b\[31mred \\xff$' "controls in a source are escaped"
like "$text" 'changed since it was recorded' "a source that is newer than the recording is called so"
cp kept.c hot.c
if [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1; then
	chmod 600 hot.c
	text=$(SUDO_UID=$(id -u nobody) "$perfsample" annotate -i hot.data --no-asm work 2>/dev/null)
	unlike "$text" 'A hot line' "under sudo, a source that the caller cannot read is not shown"
	chmod 755 . && chmod 644 hot.c
	text=$(SUDO_UID=$(id -u nobody) "$perfsample" annotate -i hot.data --no-asm work 2>/dev/null)
	like "$text" 'A hot line' "one that the caller can read is"
else
	skip "not root" "under sudo, a source that the caller cannot read is not shown"
fi

# The program is gone, or another has its name: lines come from inside the recording, instructions from nowhere.
mv hot gone
ps annotate -i hot.data work
like "$out" '^ +[0-9.]+ +[0-9.]+-[0-9.]+ +5 ' "without the program: its lines are in the recording"
like "$out" 'note +no instructions: no file' "and what is missing is said"
sed 's/1234567/7654321/' kept.c >hot2.c
"$CC" -O2 -g -Wl,--build-id -o hot "$work/hot2.c"
ps annotate -i hot.data work
like "$out" 'no instructions: the file here is not the one that ran' "another program of that name is not disassembled"
mkdir -p "tree$work"
mv gone "tree$work/hot"
ps annotate -i hot.data --symfs tree --no-source work
unlike "$out" 'no instructions' "--symfs"

# Code of the kernel is in no file that is read: its samples have their intervals all the same.
"$perfsample" record -q -o kernel.data -- dd if=/dev/zero of=/dev/null bs=4k count=400000 2>/dev/null
name=$("$perfsample" report -i kernel.data --format tsv -s symbol,dso 2>/dev/null |
	awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR > 1 && $at["dso"] ~ /kernel/ && $at["symbol"] !~ /unknown/ { print $at["symbol"]; exit }')
if [ -n "$name" ]; then
	ps annotate -i kernel.data "$name"
	is "$status" 0 "a function of the kernel"
	like "$out" "note +no instructions: the kernel's code is not read" "its code is not read, which is said"
	like "$out" '^skid ' "skid is named"
	like "$out" '^ +[0-9.]+ +[0-9.]+-[0-9.]+ +f[0-9a-f]{15}$' "its addresses with their intervals"
else
	skip "no named sample of the kernel" "a function of the kernel"
fi
done_testing
