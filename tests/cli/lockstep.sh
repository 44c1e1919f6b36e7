#!/bin/bash
# A loop in step with the sampling period, kept by its own CPU clock: one recording notices it, by restarts of the sampling clock; and what they cut off is in the books.
. "$(dirname "$0")/tap.sh"
like "$("$perfsample" record -n -F 1000 -- true 2>&1)" '1000 Hz is in step with loops of 1 ms' "a rate that resonates is said"
unlike "$("$perfsample" record -n -F 99 -- true 2>&1)" 'in step' "99 Hz does not"
like "$("$perfsample" record -n -c 1ms -- true 2>&1)" '1ms is in step with loops of 1 ms' "nor is a period passed over"
unlike "$("$perfsample" record -n -c 1.295295ms -- true 2>&1)" 'in step' "the usual one is not"
if ! "$perfsample" check >/dev/null 2>&1; then
	for name in 'in step' 'books' 'not in step' 'report' 'tasks'; do skip "this host cannot record" "$name"; done
	done_testing
fi
cat >"$work/loop.c" <<'C'
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sink;
static double now(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6; }
__attribute__((noinline)) void first(double until) { while (now() < until) for (int i = 0; i < 1000; i++) sink += i; }
__attribute__((noinline)) void second(double until) { while (now() < until) for (int i = 0; i < 1000; i++) sink ^= i; }
static double loop_ms, end_ms;
static int by_chance;
static void run(unsigned state)
{
	for (double start = now(), at = 0; at < end_ms;) {
		double length = by_chance ? loop_ms * 2 * (rand_r(&state) + 0.5) / RAND_MAX : loop_ms;
		first(start + at + 0.3 * length);
		second(start + at + length);
		at += length;
	}
}
int main(int argc, char **argv)
{
	loop_ms = atof(argv[1]);
	end_ms = atof(argv[2]) * 1e3;
	by_chance = argc > 3;
	run(5);
	return 0;
}
C
${CC:-gcc} -O1 -o "$work/loop" "$work/loop.c" || exit 1
rec -o step.data --summary step.json -- ./loop 1.295295 6
ps report -i "$work/step.data" --format json
printf '%s' "$out" >"$work/step.report"
python3 - "$work" >"$work/err" 2>&1 <<'PYTHON'
import json, sys
d = json.load(open(sys.argv[1] + "/step.report"))
e, = d["events"]
l, rows = e["lockstep"], {f["symbol"]: f for f in e["functions"]}
print(l, [(c["code"], c["text"]) for c in d["caveats"]], rows["first"]["self"]["share"])
assert l["suspected"] and l["p"] < 0.001 and d["verdict"] == "care"
assert any(c["code"] == "aliasing" and c["care"] and "--two-combs" in c["text"] for c in d["caveats"])
assert "aliasing" in rows["first"]["flags"] and "aliasing" in rows["second"]["flags"]
PYTHON
ok $? "a loop in step is noticed: verdict, caveat that names --two-combs, marks of its rows"
python3 - "$work" >"$work/err" 2>&1 <<'PYTHON'
import json, sys
s = json.load(open(sys.argv[1] + "/step.report"))["events"][0]["samples"]
print(s)
assert s["taken"] + s["idle"] + s["others"] + s["lost"] + s["silent"] == s["expected"]
assert abs(s["silent"]) <= max(5, 0.01 * s["expected"]), s
own = json.load(open(sys.argv[1] + "/step.json"))
e = own["events"][0]["samples"] if "events" in own else own["samples"]
assert e["expected"] == s["expected"], (e, s)
PYTHON
ok $? "what restarts cut off is neither due nor silent; record and report reckon alike"
like "$("$perfsample" report -i "$work/step.data" --wide 2>/dev/null)" 'ALIASING SUSPECTED: other functions are seen after each of [0-9]+ restarts' "--wide says what was seen"
like "$("$perfsample" report -i "$work/step.data" 2>/dev/null)" '--two-combs' "and the screen what to do"
rec -o chance.data -- ./loop 1.295295 3 by-chance
"$perfsample" report -i "$work/chance.data" --format json >"$work/chance.report" 2>/dev/null
ok "$(python3 -c 'import json, sys; l = json.load(open(sys.argv[1]))["events"][0]["lockstep"]; sys.exit(l is None or l["suspected"])' "$work/chance.report" 2>"$work/err"; echo $?)" "loops of lengths by chance are tested, and not suspected"
rec --per-task -o task.data -- ./loop 1.295295 1
ok "$("$perfsample" report -i "$work/task.data" --format json 2>"$work/err" | python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["events"][0]["lockstep"] is not None)'; echo $?)" "events of tasks cannot be tested so"
like "$("$perfsample" report -i "$work/task.data" --wide 2>/dev/null)" 'aliasing .*others not tested' "which is said"
done_testing
