#!/bin/bash
# export: each format, opened by readers that are not ours.
. "$(dirname "$0")/tap.sh"
small=$fixtures/small.data
samples=$("$perfsample" fold -i "$small" | awk '{ n += $NF } END { print n }')
"$perfsample" fold -i "$small" -c small >"$work/small.folded"
spin=$(awk '/;spin [0-9]+$/ { n += $NF } END { print n }' <<<"$("$perfsample" fold -i "$small")")

for f in speedscope gecko callgrind chrome json folded tsv script; do
	ps export -i "$small" --format $f -o "$work/out.$f"
	is "$status" 0 "$f is written"
	like "$err" "wrote $work/out.$f" "and said"
	is "$("$perfsample" export -i "$small" --format $f | sha256sum)" "$(sha256sum <"$work/out.$f")" "the same bytes on standard output"
	"$perfsample" export -q -i "$small" --format $f -o "$work/out.$f.gz"
	is "$(gunzip <"$work/out.$f.gz" | sha256sum)" "$(sha256sum <"$work/out.$f")" "and gzipped where the name says so"
	is "$(LC_ALL=C grep -c -P '[\x00-\x08\x0b-\x1f\x7f]' "$work/out.$f")" 0 "no control characters"
done
is "$(stat -c %a "$work/out.json")" 600 "not for others to read"
is "$(cat "$work/out.folded")" "$("$perfsample" fold -i "$small")" "folded is what fold writes"
is "$(cat "$work/out.script")" "$("$perfsample" script -i "$small")" "script is what script writes"
is "$(cat "$work/out.tsv")" "$("$perfsample" report -i "$small" --format tsv)" "tsv is what report writes"

ps export -i "$small" --format pprof -o "$work/out.pb.gz"
gunzip -t "$work/out.pb.gz"
ok $? "pprof is gzipped"
ps export -i "$small" --format pprof -o "$work/out.pb"
is "$(sha256sum <"$work/out.pb")" "$(sha256sum <"$work/out.pb.gz")" "whatever its name"
if command -v go >/dev/null; then
	export PPROF_TMPDIR="$work" HOME="$work"
	top=$(go tool pprof -top -unit ms "$work/out.pb.gz" 2>&1)
	like "$top" 'Type: cpu' "go tool pprof: CPU time is what it shows"
	like "$top" 'Build ID: be0ce387d603598ab08066f07daf2691e58d08d1' "the program comes first, with its build ID"
	like "$top" "^ *116\.58ms +73\.77% .*spin \(inline\)" "an inlined function, its share"
	raw=$(go tool pprof -raw "$work/out.pb.gz" 2>&1)
	like "$raw" 'Period: 1295295' "the period"
	like "$raw" 'Duration: 408\.[0-9]+ms|Duration: 408' "how long it ran"
	like "$raw" 'Comment: lost 0 \(0\.00%\), silent 1' "loss in the comments"
	is "$(go tool pprof -top -sample_index=samples "$work/out.pb.gz" 2>&1 | sed -n 's/.*of \([0-9]*\) total.*/\1/p')" "$samples" "as many samples as fold"
	tags=$(go tool pprof -tags "$work/out.pb.gz" 2>&1)
	like "$tags" ' pid: Total' "labels: pid"
	like "$tags" ' tid: Total' "tid"
	like "$tags" ' cpu: Total' "cpu"
	like "$tags" 'a;b\\x1b\[31m</x>\\x0a' "comm, a hostile name escaped"
else
	skip "go is not installed" "go tool pprof reads it"
fi

if command -v callgrind_annotate >/dev/null; then
	(cd "$work" && callgrind_annotate --show-percs=no --threshold=100 out.callgrind >annotated 2>&1)
	is $? 0 "callgrind_annotate reads it"
	like "$(cat "$work/annotated")" "^ *$samples .*PROGRAM TOTALS" "the total"
	like "$(cat "$work/annotated")" "^ *$spin .*small\.c:spin \[.*/small\]" "a function's own samples"
	like "$(cat "$work/annotated")" 'Note [0-9]+: lost 0 \(0\.00%\)' "loss in its description"
	(cd "$work" && callgrind_annotate --show-percs=no --inclusive=yes --threshold=100 --tree=both out.callgrind >annotated 2>&1)
	like "$(cat "$work/annotated")" "^ *$samples .*\* .*main \[" "inclusive: main has all samples"
	like "$(cat "$work/annotated")" "> .*work \([0-9]+x\)" "the call tree"
else
	skip "callgrind_annotate is not installed" "it reads callgrind's format"
fi

if python3 -c 'import jsonschema' 2>/dev/null; then
	python3 - "$work" "$root" "$samples" <<'P'
import json, sys, warnings
warnings.simplefilter("ignore")
import jsonschema
work, root, samples = sys.argv[1], sys.argv[2], int(sys.argv[3])
doc = json.load(open(work + "/out.json"))
jsonschema.Draft202012Validator(json.load(open(root + "/schema/perfsample-export-1.json"))).validate(doc)
assert len(doc["samples"]) == samples == doc["totals"]["taken"]
folded = {}
for s in doc["samples"]:
    path, row = [], s["stack"]
    while row is not None:
        path.append(doc["frames"][doc["stacks"][row][1]]["name"])
        row = doc["stacks"][row][0]
    if s["comm"] == "small":
        key = "small;" + ";".join(reversed(path))
        folded[key] = folded.get(key, 0) + 1
wanted = dict((l.rsplit(" ", 1)[0], int(l.rsplit(" ", 1)[1])) for l in open(work + "/small.folded").read().splitlines())
assert folded == wanted, (folded, wanted)
P
	ok $? "json: by its schema, and its stacks are fold's"
	python3 - "$work" "$root" <<'P'
import json, sys, warnings
warnings.simplefilter("ignore")
import jsonschema
doc = json.load(open(sys.argv[1] + "/out.gecko"))
jsonschema.Draft202012Validator(json.load(open(sys.argv[2] + "/tests/fixtures/gecko-48.schema.json"))).validate(doc)
assert abs(doc["meta"]["interval"] - 1.295295) < 1e-9
P
	ok $? "gecko: what the Firefox Profiler's types require"
else
	skip "python3-jsonschema is not installed" "json and gecko by their schemas"
fi

# speedscope as it comes from its package: its importer, in a browser, shows the functions it found as text.
speedscope=${SPEEDSCOPE_DIR:-$root/tests/node_modules/speedscope}
if [ -f "$speedscope/dist/release/index.html" ] && command -v chromium >/dev/null; then
	python3 - "$work/out.speedscope" "$speedscope/dist/release/file-format-schema.json" <<'P'
import json, sys, warnings
warnings.simplefilter("ignore")
import jsonschema
jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))
P
	ok $? "speedscope: by the schema of its package"
	shown_by_speedscope() { # FORMAT NAME: the page's text, tags removed
		printf 'speedscope.loadFileFromBase64("%s","%s")' "$2" "$(base64 -w0 <"$1")" >"$work/load.js"
		timeout 300 chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update \
			--disable-sync --user-data-dir="$work/chromium" --virtual-time-budget=5000 --allow-file-access-from-files \
			--dump-dom "file://$speedscope/dist/release/index.html#localProfilePath=$work/load.js&view=sandwich" 2>/dev/null |
			sed 's/<[^>]*>/ /g; s/  */ /g'
	}
	page=$(shown_by_speedscope "$work/out.speedscope" out.speedscope.json)
	like "$page" "small \($samples samples, lost 0\.00%\) - speedscope" "speedscope's importer reads it: the name tells the loss"
	like "$page" '117\.87ms \(75%\) 116\.58ms \(74%\) spin' "and a function its time"
	like "$(shown_by_speedscope "$work/out.chrome" out.trace.json)" '37\.[0-9]+ms \(24%\) 0\.00ns \(&lt;0\.01%\) vfs_read' "the trace events too"
	like "$(shown_by_speedscope "$work/out.pb.gz" out.pb.gz)" '117\.87ms \(75%\) 116\.58ms \(74%\) (spin|work)' "pprof too"
	like "$(shown_by_speedscope "$work/out.callgrind" callgrind.out.1)" '\(24%\) 0 \(&lt;0\.01%\) vfs_read' "callgrind too"
else
	skip "speedscope (npm install --prefix tests) or chromium is not installed" "speedscope's importer reads speedscope, chrome, pprof and callgrind"
fi

ps export -i "$small"
is $status 2 "without --format: status 2"
like "$err" 'pprof, speedscope, gecko' "that names the formats"
ps export -i "$small" --format perfetto
is $status 2 "another format: status 2"
ps export -i "$small" --format json -e nonsense
is $status 2 "no such event: status 2"
ps export -i "$work/none" --format json
is "$status" 4 "no such file: status 4"
ps export -i "$small" --format json -o "$work/none/x"
is "$status" 6 "-o into nowhere: status 6"
ps export -i "$small" --format json -c nobody
is "$status" 0 "no sample left: an empty export"
python3 -c 'import json,sys; d=json.load(sys.stdin); assert d["samples"] == [] and d["totals"]["taken"] == 0' <<<"$out"
ok $? "that says so"
ps export -i "$small" --format json --time 0%,50%
first=$(python3 -c 'import json,sys; print(len(json.load(sys.stdin)["samples"]))' <<<"$out")
[ "$first" -gt 0 ] && [ "$first" -lt "$samples" ]
ok $? "--time selects"
ps export -i "$small" --format speedscope --no-inline
unlike "$out" '"spin"' "--no-inline"
ps export -i "$small" --format speedscope --merge-threads
like "$out" '"name":"1 thread"' "--merge-threads"

# A spreadsheet takes some cells for formulas, and a quote for the begin of a cell that goes on over tabs: text cells are escaped, and can be had again.
printf '%s\n' 'app;=1+1 60' 'app;@x 60' 'app;+y 60' 'app;-[View draw] 60' 'app;"q 60' "app;'a 60" 'app;back\slash 60' 'app;a=b 60' >"$work/formulas.folded"
for writer in "report --format tsv -s symbol" "export --format tsv" "report --format tsv -s comm,symbol"; do
	"$perfsample" $writer -i "$work/formulas.folded" >"$work/tsv" 2>"$work/err"
	"$perfsample" report -i "$work/formulas.folded" --format json -s symbol 2>/dev/null | python3 -c '
import csv, json, re, sys
rows = [line.split("\t") for line in open(sys.argv[1]).read().splitlines()]
assert all(len(r) == len(rows[0]) for r in rows) and rows == list(csv.reader(open(sys.argv[1], newline=""), "excel-tab"))
bad = [c for r in rows for c in r if c[:1] in set("=+-@\"\x27") and not re.fullmatch(r"-?[0-9.e+-]+", c)]
assert not bad, bad
undone = {re.sub(r"\\x([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), r[rows[0].index("symbol")]) for r in rows[1:]}
wanted = {f["symbol"] for f in json.load(sys.stdin)["events"][0]["functions"] if f["self"]["samples"]}
assert wanted <= undone, wanted - undone
assert "=1+1" in wanted and "back\\slash" in wanted, wanted
' "$work/tsv" 2>>"$work/err"
	ok $? "$writer: no cell is a formula or begins with a quote, and each name can be had again"
done
done_testing
