#!/bin/bash
# -p and what the process starts: followed from its birth to its end, whatever the recorder switches meanwhile; what was there before never is.
. "$(dirname "$0")/tap.sh"
if [ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 9)" -gt 2 ]; then
	echo "1..0 # SKIP perf_event_paranoid, and this is not root"
	exit 0
fi
cat >"$work/family.c" <<'C'
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile long sink;
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double wall(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static void burn(double seconds) { for (double end = cpu() + seconds; cpu() < end;) sink++; }
// Deeper than the kernel copies, when asked for.
__attribute__((noinline)) static long deep(int frames, double seconds)
{
	char room[2048];
	memset(room, frames, sizeof(room));
	if (frames == 0)
		burn(seconds);
	return (frames > 0 ? deep(frames - 1, seconds) : 0) + room[sink & 1023];
}
static void *busy(void *name) { prctl(PR_SET_NAME, name); burn(1e9); return NULL; }
static void child(const char *name)
{
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		busy((void *)name);
	}
}
int main(int argc, char **argv) // DEPTH SECONDS: until the file `go` is there only what is not followed runs
{
	(void)argc;
	double seconds = atof(argv[2]);
	pthread_t thread;
	child("before");
	while (access("go", F_OK) != 0)
		usleep(1000);
	double start = wall();
	child("early");
	pid_t leaves = fork();
	if (leaves == 0) {
		if (fork() == 0)
			busy("orphan");
		_exit(0);
	}
	waitpid(leaves, NULL, 0);
	pthread_create(&thread, NULL, busy, "thread");
	while (wall() < start + 0.7 * seconds)
		sink += deep(atoi(argv[1]), 0.02);
	child("late");
	while (wall() < start + seconds)
		sink += deep(atoi(argv[1]), 0.02);
	kill(0, SIGKILL);
}
C
gcc -O1 -pthread -o "$work/family" "$work/family.c" || { echo "Bail out! the program is not built"; exit 1; }

# followed WHAT OPTIONS…: `deepness` and `seconds` are the program's arguments. Nobody that was there before; all others are seen in the last fifth of the recording, too.
followed() {
	local what=$1
	shift
	rm -f "$work/go"
	(cd "$work" && exec setsid ./family "$deepness" "$seconds") & local target=$!
	(cd "$work" && exec "$perfsample" record -o family.data -p "$target" "$@" 2>err) & local recorder=$!
	sleep 0.7
	touch "$work/go"
	wait "$recorder"
	wait "$target" 2>/dev/null
	"$perfsample" script -i "$work/family.data" -F comm,time >"$work/script" 2>/dev/null
	grep -q "$wanted" <(tr -s '\n ' ' ' <"$work/err" | sed 's/perfsample: //g')
	ok $? "$what: the recorder did ($wanted)" || sed 's/^/#   /' "$work/err"
	python3 - "$work/script" <<'P'
import collections, sys
samples = [line.split() for line in open(sys.argv[1]) if line.strip()]
times = [float(time.rstrip(":")) for _, time in samples]
last = max(times) - 0.2 * (max(times) - min(times))
late = collections.Counter(comm for (comm, _), time in zip(samples, times) if time > last)
everybody = collections.Counter(comm for comm, _ in samples)
print("#  ", dict(everybody), "of these late", dict(late))
sys.exit(everybody["before"] > 0 or any(late[comm] == 0 for comm in ("family", "early", "orphan", "thread", "late")))
P
	ok $? "$what: what it started is followed to the end, what was there before is not"
}
deepness=0 seconds=2 wanted='samples of'
followed "nothing switched"
deepness=60 seconds=4 wanted='stacks deeper than the copy are read on'
followed "reading stacks beyond the copy"
deepness=0 seconds=6 wanted='on one sample every'
followed "a coarser period" -F 20000 --max-cpu 0.1

# Threads named one by one are what perf's -t means by them.
rm -f "$work/go"
(cd "$work" && exec setsid ./family 0 1) & target=$!
(cd "$work" && exec "$perfsample" record -q -o threads.data -t "$target") & recorder=$!
sleep 0.5
touch "$work/go"
wait "$recorder"
wait "$target" 2>/dev/null
is "$("$perfsample" script -i "$work/threads.data" -F comm 2>/dev/null | tr -d ' ' | sort -u | tr '\n' ' ' | sed 's/^ //')" "family " "-t: that thread alone"
ps record -t $$ --inherit -o "$work/x" -- true
like "$status $err" '^2 .*--inherit: -t records the threads' "-t --inherit is refused, with what to use"
done_testing
