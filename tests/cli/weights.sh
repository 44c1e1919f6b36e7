#!/bin/bash
# One recording, one share: where samples weigh unlike, every command and format shows the report's shares; one event on several core PMUs is one; an
# event that is left out is said.
. "$(dirname "$0")/tap.sh"
python3 "$fixtures/weights.py" "$work" || exit 1
cat >"$work/shares.py" <<'PYTHON'
"""shares.py FORMAT FILE: the share of heavy in what a command wrote."""
import gzip, json, re, sys

def of(weights):
    return weights.get("heavy", 0) / sum(weights.values())

def report(data):
    e, = [e for e in json.loads(data)["events"] if e["samples"]["taken"]]
    return next((f["self"]["share"] for f in e["functions"] if f["symbol"] == "heavy"), 0)

def folded(data):
    weights = {}
    for line in data.decode().splitlines():
        stack, count = line.rsplit(" ", 1)
        leaf = stack.split(";")[-1]
        weights[leaf] = weights.get(leaf, 0) + int(count)
    return of(weights)

def speedscope(data):
    d, weights = json.loads(data), {}
    for p in d["profiles"]:
        assert p["unit"] == "none" and p["endValue"] == sum(p["weights"]), p["unit"]
        for stack, w in zip(p["samples"], p["weights"]):
            name = d["shared"]["frames"][stack[-1]]["name"]
            weights[name] = weights.get(name, 0) + w
    assert "weighed by cycles:u" in d["name"], d["name"]
    return of(weights)

def gecko(data):
    weights = {}
    for t in json.loads(data)["threads"]:
        for stack, w in zip(t["samples"]["stack"], t["samples"]["weight"]):
            name = t["stringArray"][t["funcTable"]["name"][t["frameTable"]["func"][t["stackTable"]["frame"][stack]]]]
            weights[name] = weights.get(name, 0) + w
        assert abs(sum(t["samples"]["weight"]) - t["samples"]["length"]) < 1e-3 and t["samples"]["weightType"] == "samples"
    return of(weights)

def callgrind(data):
    weights, name, names, is_call = {}, None, {}, False
    for line in data.decode().splitlines():
        m = re.match(r"fn=(\(\d+\))(?: (.*))?$", line)
        if m:
            names.setdefault(m.group(1), m.group(2))
            name = names[m.group(1)]
        elif re.match(r"cfn=", line):
            m = re.match(r"cfn=(\(\d+\))(?: (.*))?$", line)
            names.setdefault(m.group(1), m.group(2))
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"\d", line):
            if not is_call:
                weights[name] = weights.get(name, 0) + int(line.split()[1]) # the first event
            is_call = False
    return of(weights)

def svg(data):
    text, weights = data.decode(), {}
    for name, count, samples in re.findall(r"<title>(heavy|light)\n([\d,]+) cycles:u, [\d.]+%, ([\d,]+) samples?</title>", text):
        weights[name] = int(count.replace(",", ""))
    assert "widths: cycles:u" in text and len(weights) == 2, weights
    return of(weights)

def annotate(data):
    return json.loads(data)["function"]["share"]

print("%.4f" % globals()[sys.argv[1]](open(sys.argv[2], "rb").read()))
PYTHON
share() { # FORMAT ARGS…: what the command's output says
	local format=$1
	shift
	"$perfsample" "$@" --symfs "$work/sym" >"$work/made" 2>"$work/err" && python3 "$work/shares.py" "$format" "$work/made" 2>>"$work/err"
}
for file in weights=0.9000 hybrid=0.6400 old=0.6400 raw=0.6400 plain=0.6400; do
	name=${file%=*} wanted=${file#*=}
	is "$(share report report -i "$work/$name.data" --format json)" "$wanted" "$name: report"
	is "$(share folded fold -i "$work/$name.data")" "$wanted" "$name: fold"
	is "$(share folded export --format folded -i "$work/$name.data")" "$wanted" "$name: export folded"
	is "$(share speedscope export --format speedscope -i "$work/$name.data")" "$wanted" "$name: speedscope, and it says its unit"
	is "$(share gecko export --format gecko -i "$work/$name.data")" "$wanted" "$name: gecko"
	is "$(share callgrind export --format callgrind -i "$work/$name.data")" "$wanted" "$name: callgrind's first event"
	is "$(share svg flame -o - -i "$work/$name.data")" "$wanted" "$name: widths of the SVG, and it says their unit"
	is "$(share annotate annotate heavy --format json -i "$work/$name.data")" "$wanted" "$name: annotate"
done
is "$(share folded fold -i "$work/arm.data")" 0.6400 "ARM's core PMUs are joined too"
"$perfsample" flame -i "$work/hybrid.data" --symfs "$work/sym" -o "$work/x.html" 2>"$work/err"
like "$(cat "$work/x.html")" '1,000 samples of cycles:u .* widths: cycles:u' "the page says what its widths are"
if command -v go >/dev/null; then
	"$perfsample" export --format pprof -i "$work/hybrid.data" --symfs "$work/sym" -o "$work/x.pb.gz" 2>"$work/err"
	like "$(go tool pprof -top "$work/x.pb.gz" 2>/dev/null)" '64\.00% .* heavy' "pprof's default"
else
	skip "go is not installed" "pprof's default"
fi

# Counts of samples are to be had, and are what there is where periods are alike.
is "$(share folded fold --no-period -i "$work/weights.data")" 0.5000 "fold --no-period counts samples"
ps fold -i "$work/weights.data"
like "$err" "periods differ, so each line counts periods of cycles:u" "fold says what it counts"
ps fold -i "$fixtures/small.data"
is "$(awk '{ n += $NF } END { print n }' <<<"$out")" "$("$perfsample" report -i "$fixtures/small.data" --format json | python3 -c 'import json, sys; print(int(json.load(sys.stdin)["events"][0]["samples"]["taken"]))')" "alike: samples are counted"

# One event of several core PMUs, by either name; what is given as an encoding, and what is on no core, stays two.
ps report -i "$work/hybrid.data" --format json
is "$(python3 -c 'import json, sys; print([(e["name"], int(e["samples"]["taken"])) for e in json.load(sys.stdin)["events"]])' <<<"$out")" "[('cycles:u', 1000)]" "one event"
is "$("$perfsample" fold -q -e cpu_core/cycles/u -i "$work/hybrid.data")" "$("$perfsample" fold -q -i "$work/hybrid.data")" "which goes by the names that it has in the file too"
for name in codes uncore; do
	ps report -i "$work/$name.data" --format json
	is "$(python3 -c 'import json, sys; print(len(json.load(sys.stdin)["events"]))' <<<"$out")" 2 "$name: two events"
done
ps merge "$work/hybrid.data" "$work/raw.data" --symfs "$work/sym" --format json
is "$(python3 -c 'import json, sys; print("%.4f" % next(f["share"] for f in json.load(sys.stdin)["functions"] if f["symbol"] == "heavy"))' <<<"$out")" 0.6400 "merge"
ps diff "$work/hybrid.data" "$work/raw.data" --symfs "$work/sym" --format json
is "$(python3 -c 'import json, sys; print(["%.4f" % x for x in next(f["share"] for f in json.load(sys.stdin)["functions"] if f["symbol"] == "heavy")])' <<<"$out")" "['0.6400', '0.6400']" "diff"

# An event that is left out is said: on standard error, unless one was asked for, and in the picture.
left='left out: instructions:u \(300 samples\)'
for command in "fold" "flame -o $work/two.svg" "flame -o $work/two.html" "export --format pprof -o $work/two.pb.gz" "export --format speedscope -o $work/two.json" \
	"annotate heavy --symfs $work/sym" "merge $work/two.data $work/two.data" "diff $work/two.data $work/two.data" "plan"; do
	what=${command%% *}
	case $what in merge | diff) ps $command ;; *) ps $command -i "$work/two.data" ;; esac
	like "$err" "cycles:u alone; $left" "${command//$work\//}: said"
done
ps fold -i "$work/two.data" -e instructions:u
unlike "$err" 'left out' "not where one was asked for"
like "$(cat "$work/two.svg")" 'not in it, other events of the recording: instructions:u \(300 samples\)' "the picture says it"
like "$(cat "$work/two.html")" 'not in it, other events of the recording: instructions:u \(300 samples\)' "and the page"
like "$(cat "$work/two.json")" 'not in it, other events of the recording: instructions:u \(300 samples\)' "and speedscope's file"
like "$("$perfsample" diff "$work/two.data" "$work/two.data" 2>/dev/null)" 'cycles:u alone is compared; left out: instructions:u' "diff's text says it"
like "$("$perfsample" merge "$work/two.data" "$work/two.data" 2>/dev/null)" 'cycles:u alone is merged; left out: instructions:u' "and merge's"

# Files without counters of loss and without records of any: nobody knows what was lost, and every format says so.
for command in "flame -o -" "export --format speedscope" "export --format callgrind" "export --format gecko" "export --format chrome" "export --format json"; do
	ps $command -i "$work/weights.data"
	like "$out" 'lost:? not known' "$command: loss is not known"
	unlike "$out" 'lost 0' "$command: and no 0"
done
like "$("$perfsample" report --wide -i "$work/weights.data" 2>/dev/null)" 'lost: not known' "report --wide says the same"
like "$("$perfsample" report -i "$work/weights.data" -v 2>/dev/null)" 'lost: not known' "and report -v"
done_testing
