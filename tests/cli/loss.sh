#!/bin/bash
# What is missing in a recording stands in every output: lost samples, silence, throttling, stacks that are cut, failed or guessed. One recording has
# all of it (tests/fixtures/recordings.py). And text of other tools, of which nobody knows what was lost.
. "$(dirname "$0")/tap.sh"
python3 "$fixtures/recordings.py" "$work" || exit 1
lossy=$work/lossy.data
lost='lost 40 \(9\.1%\), silent 20' throttled='throttled 0\.010 s'
stacks='stacks: complete 320, joined 0, truncated 40, unwind failed 40; not at their root because: truncated 40, no_cfi 40; with a guessed frame 40'

ps report -i "$lossy" --format json
words=$(python3 -c '
import json, sys
d = json.load(sys.stdin)
e = d["events"][0]
assert d["verdict"] == "care" and e["samples"]["lost"] == 40 and e["samples"]["silent"] == 20 and e["samples"]["loss_known"] is True, e["samples"]
assert e["stacks"] == {"complete": 320, "joined": 0, "truncated": 40, "failed": 40} and e["stack_ends"]["guessed"] == 40, e["stack_ends"]
print("CARE: " + "; ".join(c["text"] for c in d["caveats"] if c["code"] in ("lost", "silent", "truncated", "failed") and c["care"]))' <<<"$out")
is "$words" "CARE: lost 40 samples (9.1%); 20 samples were due and never came (4.3%); 10.0% of the stacks are truncated: deeper than the copy; 10.0% of the stacks could not be unwound to a root" "report: the verdict and why"
ps report -i "$lossy"
like "$out" '^verdict   CARE' "as text"
like "$out" 'LOST 40 \(9\.1%\)' "what was lost"
like "$out" 'SILENT 20 \(4\.3%\)' "what was silent"
like "$out" '10\.0% TRUNCATED .*, 10\.0% FAILED' "what was cut"

for command in fold script "export --format folded" "export --format script"; do
	# shellcheck disable=SC2086
	ps $command -i "$lossy"
	is "$status/$err" "0/perfsample: $words" "$command: standard error says so in one line, in the report's words"
	unlike "$out" '^#' "no comment in what readers count"
	is "$("$perfsample" $command -q -i "$lossy" 2>&1)" "$out" "-q: not a word, the same output"
done
ps fold -i "$lossy" --time +0.01,+0.02
like "$err" '^perfsample: NO RANKING: loss 83\.3%; 20 samples of the whole recording were due and never came \(4\.3%\): how many of this part is not known;' \
	"a part: the loss may lie in it, and so may what never came of the whole"
ps fold -i "$fixtures/small.data"
is "$err" "" "a sound recording: nothing to say"
ps fold -i "$lossy"
like "$out" '^app;\[truncated\];.* 40$' "folded: cut stacks"
like "$out" '^app;\[unwind failed\];.* 40$' "failed ones"
ps script -i "$lossy" --header
like "$out" "^# $lost, $throttled\$" "script --header: what was lost"
like "$out" "^# $stacks\$" "and where stacks end"
grep -q -x -F "# $words" <<<"$out"
ok $? "and the verdict"
is "$("$perfsample" script -q --header -i "$lossy" | "$perfsample" fold -q -i - | awk '{ n += $NF } END { print n }')" 400 "which readers pass over"

for format in pprof speedscope gecko callgrind chrome json; do
	"$perfsample" export -q -i "$lossy" --format $format -o "$work/out" || exit 1
	[ $format = pprof ] && gunzip <"$work/out" >"$work/out.raw" && mv "$work/out.raw" "$work/out"
	found=$(LC_ALL=C grep -a -o -E "$lost|$throttled|$stacks|verdict: care|caveat: [a-z0-9. %()]*|\[truncated\]|\[unwind failed\]" "$work/out" | sort -u)
	like "$found" "$lost" "$format: lost and silent"
	like "$found" "$throttled" "$format: throttled"
	like "$found" "$stacks" "$format: why stacks end, and which were guessed"
	like "$found" 'verdict: care' "$format: the verdict"
	like "$found" 'caveat: 10\.0% of the stacks could not be unwound to a root' "$format: its reasons"
	like "$found" '\[truncated\]' "$format: a frame for cut stacks"
	like "$found" '\[unwind failed\]' "$format: and for failed ones"
done
"$perfsample" export -q -i "$lossy" --format tsv >"$work/out.tsv"
is "$(awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; columns = NF }
	NR > 1 { print NF == columns, $at["samples.taken"], $at["samples.lost"], $at["samples.silent"], $at["stacks.truncated"], $at["stacks.failed"],
		$at["stack_ends.guessed"], $at["stack_ends"], $at["verdict"] }' "$work/out.tsv" | sort -u)" \
	"1 400 40 20 40 40 40 root=320,truncated=40,no_cfi=40 care" "tsv: columns of the event"
"$perfsample" flame -q -i "$lossy" -o "$work/out.svg"
sed 's/<[^>]*>/ /g' "$work/out.svg" | tr -s ' \n' ' ' | grep -q -F "$words" # its lines are wrapped
ok $? "flame: the same words"

# Text of other tools. A thousand stacks in turn: nothing else would keep it from being called sound.
python3 - >"$work/text" <<'P'
for i in range(4000):
    print("app;main;f%d %d" % (i * 7919 % 3, 10 + i % 3))
P
python3 - >"$work/script" <<'P'
for i in range(4000):
    print("app 42/42 [000] %d.%06d: 1000000 cpu-clock: \n\t 10 f%d (/opt/app)\n\t 20 main (/opt/app)\n" % (i // 1000, i % 1000 * 1000, i * 7919 % 3))
P
for input in text script; do
	ps report -i "$work/$input" --format json
	is "$(python3 -c '
import json, sys
d = json.load(sys.stdin)
print(d["verdict"], d["events"][0]["verdict"], d["events"][0]["samples"]["loss_known"], [c["care"] for c in d["caveats"] if c["code"] == "unknown_loss"])
if "no times" in str(d["caveats"]):
    assert all(f["self"]["workload"] is None and "trend" not in f["flags"] for f in d["events"][0]["functions"])' <<<"$out")" \
		"care care False [True]" "$input: not called sound, as its loss is not known"
	python3 -c 'import jsonschema, json, sys; jsonschema.validate(json.load(sys.stdin), json.load(open(sys.argv[1])))' "$root/schema/perfsample-report-1.json" <<<"$out"
	ok $? "as the schema has it"
	ps report -i "$work/$input"
	like "$out" '^verdict   CARE' "in the text too"
	like "$(tr -s '\n ' ' ' <<<"$out")" 'note read from .* what was lost.* is not known' "and why"
	unlike "$out" 'these 0\.0 s|drifts' "no seconds where there are no times"
	ps report -i "$work/$input" --wide
	like "$out" 'lost: not known' "nor that none was lost"
	for format in speedscope callgrind chrome json; do
		"$perfsample" export -q -i "$work/$input" --format $format -o "$work/out"
		[ "$(grep -c 'lost: not known' "$work/out")" -gt 0 ] && ! grep -q 'lost 0' "$work/out"
		ok $? "$format: neither"
	done
	ps flame -i "$work/$input" -o -
	like "$out" 'lost: not known' "flame: neither"
	ps fold -i "$work/$input"
	is "$(wc -l <<<"$err")" 1 "fold says it once"
done
done_testing
