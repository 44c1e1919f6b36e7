#!/bin/bash
# What other tools wrote as text, read by report, fold, flame and export: perf script's output, and folded stacks.
. "$(dirname "$0")/tap.sh"
text=$fixtures/text/perf-script.txt
folded=$fixtures/text/folded.txt

ps fold -i "$text"
is "$status" 0 "perf script's text is folded"
like "$err" "read from perf script's text: what was lost, and whether stacks are whole, is not known" "saying what it cannot tell"
is "$out" 'app;__libc_start_main;main;parse(char const*, int);read_row 1
my worker 12;[unknown];[libz.so.1];nf_hook;entry_SYSCALL_64 1
node-v011;LazyCompile:~body_0 evalmachine.<anonymous>:1 1' "comms with blanks and digits, offsets cut off, code without names, inlined functions, paths with parentheses"
ps fold -i "$text" --kernel --period --idle
is "$out" 'app;__libc_start_main;main;parse(char const*, int);read_row 1000000
my worker 12;[unknown];[libz.so.1];nf_hook_[k];entry_SYSCALL_64_[k] 1000000
node-v011;LazyCompile:~body_0 evalmachine.<anonymous>:1 1
swapper;idle_[k] 1000000' "--period counts periods; the kernel by its file's name; a sample without call chain"
ps fold -i "$text" --no-inline --addrs --tid
like "$out" '^app-4242/4243;__libc_start_main <7fa68b1f2d84>;main <401230>;parse\(char const\*, int\) <401b97> 1$' "ids, addresses as they stood there"
ps fold -i "$text" -e sched:sched_switch
is "$out" 'V8 WorkerThread;schedule 1' "another event, a tracepoint with its fields"
ps fold -i - <"$text"
is "$(wc -l <<<"$out")" 3 "from standard input"
is "$(cat "$text" | "$perfsample" fold -q -i -)" "$out" "from a pipe"
ps script -i "$text" -F comm,pid,tid,cpu,time,event,ip,sym,symoff,dso
like "$out" '^ *app +4242/4243 +\[003\] +4152\.008865: .*cpu-clock:u' "script gives it back"
like "$out" '401b97 parse\(char const\*, int\)\+0x27 \(/opt/my app \(v2\)/app\)' "with its frames"
ps report -i "$text" --format json
like "$out" '"host":"db-3"' "what its header says"
like "$out" '"argv":\["/usr/bin/perf","record","-g","--","./app","--threads","2"\]' "and the command line"
ps report -i "$text"
like "$out" 'read from perf script' "report says where it is from"
"$perfsample" script -i "$fixtures/small.data" | "$perfsample" fold -q -i - >"$work/again"
is "$(cat "$work/again")" "$("$perfsample" fold -i "$fixtures/small.data")" "what our script writes folds to what fold writes"
"$perfsample" script -i "$fixtures/small.data" -F +via >"$work/with"
is "$("$perfsample" fold -q -i "$work/with")" "$("$perfsample" fold -i "$fixtures/small.data")" "with how frames were found too"
is "$("$perfsample" script -q -i "$work/with" -F ip,sym,via | grep -c ' cfi$')" "$(grep -c ' cfi$' "$work/with")" "which is read"

ps fold -i "$folded" --kernel
like "$err" 'read from folded stacks: no times, and what was lost is not known' "folded stacks, saying what they cannot tell"
is "$out" "$(grep -v '^#' "$folded" | sed 's/_\[i\]//' | LC_ALL=C sort)" "fold gives back what it is given"
ps report -i "$folded" --format json -c app
is "$status" 0 "report reads them"
python3 -c '
import json, sys
e = json.load(sys.stdin)["events"][0]
assert e["samples"]["taken"] == 22 and e["samples"]["before_filter"] == 22 + 18446744073, e["samples"]
assert e["stacks"]["truncated"] == 2 and e["stacks"]["failed"] == 1, e["stacks"]
assert [f["self"]["samples"] for f in e["functions"] if f["symbol"].startswith("read_row")] == [12], e["functions"]' <<<"$out"
ok $? "and counts what the lines say, without a row a sample"
ps flame -i "$folded" -o - -c app
like "$out" '>22 samples' "flame draws them"
ps export -i "$folded" --format speedscope
like "$out" '"weights":\[12,3,2,1,4,18446744073\]' "export weighs them"
printf 'a;b 1\nnot a stack\na;c 2\n' >"$work/bad"
ps fold -i "$work/bad"
is "$status" 4 "a line that is no stack: status 4"
like "$err" "$work/bad: line 2: expected frame;frame;frame COUNT" "naming file and line"
ps fold -i "$work/bad" --salvage
is "$status/$out" "0/a;b 1
a;c 2" "--salvage skips it"
like "$err" '1 lines were not understood and skipped, the first is line 2' "and says so"
printf 'a;b 99999999999999999999\n' >"$work/bad"
ps fold -i "$work/bad"
is "$status" 4 "a count beyond 64 bits: status 4"
printf 'perf 1 [000] 5.0: cycles:\n\t 10 f (x)\ngarbage\n' >"$work/bad"
ps fold -i "$work/bad"
is "$status" 4 "a line between samples that is none: status 4"
like "$err" "line 3: expected a sample" "naming it"
# Lines of other records, before, between and after samples, with and without times; only their losses count.
cat >"$work/records" <<'T'
app     0     0.000000: PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x12090c8) @ 0xffffffff81000000]: x [kernel.kallsyms]_text
app   100    10.000001: PERF_RECORD_COMM exec: app:100/100
app   100    10.000002: PERF_RECORD_MMAP2 100/100: [0x400000(0x85000) @ 0 fe:00 11027052 1818080191]: r-xp /bin/app
app   100    10.000003: PERF_RECORD_NAMESPACES 100/100 - nr_namespaces: 7
		[0/net: 4/0xf0000098, 1/uts: 4/0xeffffffe,
		 2/ipc: 4/0xefffffff]

app   100    10.100000:    2000000 cpu-clock:ppp: 
	          401136 leaf+0x10 (/bin/app)
	          401200 main+0x20 (/bin/app)

app   100    10.100500: PERF_RECORD_LOST lost 7
app   100    10.102000:    2000000 cpu-clock:ppp: 
	          401136 leaf+0x10 (/bin/app)
	          401200 PERF_RECORD_LOST+0x20 (/bin/app)

app   100    10.103000: PERF_RECORD_EXIT(100:100):(1:1)
app   100    10.103000: PERF_RECORD_LOST_SAMPLES lost 5
T
ps fold -i "$work/records"
is "$status/$out" "0/app;PERF_RECORD_LOST;leaf 1
app;main;leaf 1" "lines of other records are no samples"
ps report -i "$work/records" --format json
python3 -c '
import json, sys
doc = json.load(sys.stdin)
assert len(doc["events"]) == 1 and doc["events"][0]["name"] == "cpu-clock:ppp", doc["events"]
s = doc["events"][0]["samples"]
assert s["taken"] == 2 and s["lost"] == 7 and s["loss_known"], s' <<<"$out"
ok $? "their losses count, once"
sed -E 's/ [0-9.]+: PERF/ PERF/' "$work/records" >"$work/timeless"
ps fold -i "$work/timeless"
is "$status/$(wc -l <<<"$out")" 0/2 "lines of other records without a time"
ps report -i "$text" --format json
like "$out" '"loss_known":false' "without such lines it is not known what was lost"

# As files come: packed, with a byte order mark, with NULs in them, cut off.
gzip -c "$text" >"$work/text.gz"
gzip -c "$fixtures/small.data" >"$work/small.data.gz"
is "$("$perfsample" fold -q -i "$work/text.gz")" "$("$perfsample" fold -q -i "$text")" "text in gzip form"
is "$("$perfsample" fold -q -i - <"$work/text.gz")" "$("$perfsample" fold -q -i "$text")" "from standard input"
is "$(cat "$work/text.gz" | "$perfsample" fold -q -i -)" "$("$perfsample" fold -q -i "$text")" "and a pipe"
is "$("$perfsample" fold -q -i "$work/small.data.gz")" "$("$perfsample" fold -q -i "$fixtures/small.data")" "a perf.data in gzip form"
is "$(cat "$work/small.data.gz" | "$perfsample" fold -q -i -)" "$("$perfsample" fold -q -i "$fixtures/small.data")" "through a pipe"
head -c 2000 "$work/small.data.gz" >"$work/cut.gz"
ps report -i "$work/cut.gz"
is "$status" 0 "half of one is read to its end"
like "$err" "recording was cut off" "which is said"
{ printf '\xef\xbb\xbf'; cat "$text"; } >"$work/marked"
is "$("$perfsample" fold -q -i "$work/marked")" "$("$perfsample" fold -q -i "$text")" "behind a byte order mark"
printf 'a;b\0c 1\na;d 2\n' >"$work/nul"
ps fold -i "$work/nul"
is "$status/$out" "0/a;b?c 1
a;d 2" "a NUL is shown, and ends nothing"
printf 'a;b 1\na;c 2\na;d;e' >"$work/cut"
ps fold -i "$work/cut"
is "$status/$out" "0/a;b 1
a;c 2" "a last line that was cut off"
like "$err" "recording was cut off" "is said"
printf 'PNG\0\1\2' >"$work/bad"
ps fold -i "$work/bad"
is "$status" 4 "neither text nor perf.data: status 4"
: >"$work/bad"
ps fold -i "$work/bad"
is "$status" 4 "an empty file: status 4"

corpus=${PERFSAMPLE_CORPUS:-../shared/data}/corpus/script
if [ -d "$corpus" ]; then
	python3 - "$perfsample" "$corpus" "$work" <<'P'
# Folds of FlameGraph's and inferno's own tests. They shorten names (no arguments, no quotes, no L before Java classes), show blanks in comms
# as _, a process that perf did not name as ?, and FlameGraph forgets a last sample that no empty line follows.
import collections, gzip, os, re, subprocess, sys
perfsample, corpus, work = sys.argv[1:]
def fold(path, *args):
    data = gzip.open(path).read() if path.endswith(".gz") else open(path, "rb").read()
    if not data.endswith(b"\n\n") and b"\n\n" in data and os.path.basename(path).startswith("perf-"):
        data = data[:data.rindex(b"\n\n") + 2]
    open(work + "/in", "wb").write(data)
    r = subprocess.run([perfsample, "fold", "-q", "--period", "--idle", "-i", work + "/in", *args], capture_output=True, text=True)
    assert r.returncode == 0, (path, r.stderr)
    return r.stdout.splitlines()
def tidy(frame):
    mark = "_[k]" if frame.endswith("_[k]") else ""
    frame = frame[:len(frame) - len(mark)]
    if not re.search(r"\.\(.*\)\.", frame):
        frame = re.sub(r"\((?!anonymous namespace\)).*", "", frame)
    if "/" in frame:
        frame = re.sub("^L", "", frame)
    return frame.replace('"', "").replace("'", "") + mark
def counted(lines, comm=None):
    counts = collections.Counter()
    for line in lines:
        stack, count = line.rsplit(" ", 1)
        frames = stack.split(";")
        frames[0] = frames[0].replace(" ", "_")
        if comm:
            frames[0] = re.sub(comm, "", frames[0])
        counts[";".join(frames[:1] + [tidy(f) for f in frames[1:]])] += int(count)
    return counts
checked = bad = 0
def check(got, want, name):
    global checked, bad
    checked += 1
    if got != want:
        bad += 1
        print("#", name, "ours:", list((got - want).items())[:2], "wanted:", list((want - got).items())[:2])
for name in sorted(os.listdir(corpus)):
    base = re.sub(r"\.txt(\.gz)?$", "", name)
    for option, args, comm in (("kernel", ["--kernel"], None), ("pid", [], r"-\?$"), ("tid", [], r"-(\?|\d+)/\d+$")):
        golden = f"{corpus}/{base}.collapsed-{option}.txt"
        if os.path.exists(golden):
            check(counted(fold(f"{corpus}/{name}", *args)), counted(open(golden), comm), golden)
check(counted(fold(corpus + "/inferno-go-stacks.txt")), counted(open(corpus + "/inferno-go-stacks-collapsed.txt")), "go")
check(counted(fold(corpus + "/inferno-versioned-vmlinux.txt", "--kernel")), counted(open(corpus + "/inferno-versioned-vmlinux-collapsed-kernel.txt")), "vmlinux")
single = corpus + "/inferno-single-line-stacks"
check(counted(fold(single + ".txt", "-e", "cycles") + fold(single + ".txt", "-e", "cycles:u")), counted(open(single + "-collapsed.txt")), "single")
print("#", checked, "folds compared")
assert checked >= 21 and bad == 0
P
	ok $? "perf script texts of others fold as FlameGraph and inferno fold them"
else
	skip "no corpus (PERFSAMPLE_CORPUS)" "perf script texts of others fold as FlameGraph and inferno fold them"
fi
done_testing
