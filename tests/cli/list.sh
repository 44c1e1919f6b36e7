#!/bin/bash
# list: the events of this host, as text and JSON.
. "$(dirname "$0")/tap.sh"

ps list
is $status 0 "listed"
like "$out" '^software:$' "by kind"
like "$out" '^  cpu-clock +' "with the software clock"
ps list --names
like "$out" '^cpu-clock$' "--names"
unlike "$out" ' ' "names alone"
is "$(sort <<<"$out" | uniq -d)" "" "none twice"
names=$out
ps list --names cpu-cl
is "$out" "cpu-clock" "part of a name"
ps list --names 'CPU-*'
like "$out" '^cpu-clock$' "a glob, in any case"
ps list --names software
like "$out" '^page-faults$' "a kind"
ps list no-such-thing
is $status 1 "none: status 1"
like "$err" "no event of this host is like 'no-such-thing'" "and which"
ps list --format json
if python3 -c 'import jsonschema' 2>/dev/null; then
	python3 -c 'import json, jsonschema, sys; jsonschema.validate(json.load(sys.stdin), json.load(open(sys.argv[1])))' "$root/schema/perfsample-list-1.json" <<<"$out"
	ok $? "JSON fits its schema"
else
	skip "python3-jsonschema is not installed" "JSON fits its schema"
fi
is "$(python3 -c 'import json, sys; print("\n".join(e["name"] for e in json.load(sys.stdin)["events"]))' <<<"$out")" "$names" "the same events"
ps list --format yaml
is $status 2 "no other format"
done_testing
