#!/bin/bash
# flame -o FILE.html in a real browser: views, search, selections, and every figure against the report's. A comparison's colours.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
browser=$root/tests/browser
if ! command -v chromium >/dev/null; then
	skip "chromium is not installed" "the flame graph's page in a browser"
	done_testing
fi
drive() { # WHAT ARGS…: takes over the lines of page_test.py
	local what=$1
	shift
	python3 "$browser/page_test.py" "$perfsample" "$@" >"$work/driven" 2>"$work/err"
	local status=$?
	while IFS= read -r line; do
		case $line in
		'ok - '*) ok 0 "$what: ${line#ok - }" ;;
		'not ok - '*) ok 1 "$what: ${line#not ok - }" ;;
		*) echo "$line" ;;
		esac
	done <"$work/driven"
	ok $status "$what: the test came to its end" || tail -n 5 "$work/err" | sed 's/^/#   /'
}

if "$perfsample" check >/dev/null 2>&1; then
	cat >"$work/threads.c" <<'C'
#include <pthread.h>
#include <time.h>
#include <unistd.h>
volatile unsigned long sink;
__attribute__((noinline)) void work(long n) { for (long i = 0; i < n; i++) sink += 3; }
__attribute__((noinline)) void other(long n) { for (long i = 0; i < n; i++) sink ^= 5; }
__attribute__((noinline)) void deep(int levels, long n) { if (levels > 0) deep(levels - 1, n); else work(n); sink++; }
static double seconds(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return (double)t.tv_sec + (double)t.tv_nsec / 1e9; }
static void *run(void *how)
{
	for (double end = seconds() + 3; seconds() < end;) {
		if (how != NULL) { work(4000); other(6000); getppid(); } else { deep(5, 3000); other(2000); usleep(10); }
	}
	return NULL;
}
int main(void)
{
	pthread_t t;
	pthread_create(&t, NULL, run, NULL);
	run(&t);
	pthread_join(t, NULL);
	return 0;
}
C
	${CC:-gcc} -O1 -g -pthread -o "$work/threads" "$work/threads.c" || exit 1
	# The recorder sleeps for a while, so that its rings overflow.
	(cd "$work" && exec "$perfsample" record -m 256 -F 4000 --max-cpu 100 --call-graph dwarf,8192 -o loss.data -- ./threads >/dev/null 2>&1) & recorder=$!
	stand_still $recorder; wait $recorder
	"$perfsample" report -i "$work/loss.data" --format json >"$work/loss.json" 2>/dev/null
	ok "$(python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["events"][0]["samples"]["lost"] < 50)' "$work/loss.json"; echo $?)" "a recording with loss"
	drive "with loss" "$work/loss.data" work figures
else
	skip "this host cannot record" "a recording with loss"
fi
drive "a recording" "$fixtures/small.data" - figures
python3 "$browser/make_runs.py" "$work"
cd "$work" || exit 1
ps flame -i new1 --new new2 --new new3 --diff base1 --diff base2 --diff base3 -o diff.html
is "$status" 0 "a comparison of three runs a side"
drive "two threads" new1 work all diff.html
corpus=${PERFSAMPLE_CORPUS:-$root/../shared/data}/corpus/perfdata
for file in kdab-cpp-inlining.data q-piped.target.throttled-3.4 q-remmap-3.2; do
	if [ -e "$corpus/$file" ]; then
		drive "$file" "$corpus/$file" - figures
	else
		skip "no corpus (PERFSAMPLE_CORPUS)" "$file"
	fi
done
done_testing
