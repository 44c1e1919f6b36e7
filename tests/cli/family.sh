#!/bin/bash
# -p and what the process starts: followed from its birth to its end, whatever the recorder switches meanwhile; what was there before never is.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
if [ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 9)" -gt 2 ]; then
	echo "1..0 # SKIP perf_event_paranoid, and this is not root"
	exit 0
fi
cat >"$work/family.c" <<'C'
#include <fcntl.h>
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
int main(int argc, char **argv) // DEPTH SECONDS (of its CPU time, one of five shares): until the file `go` is there only what is not followed runs
{
	(void)argc;
	double seconds = atof(argv[2]);
	pthread_t thread;
	child("before");
	close(creat("ready", 0600));
	while (access("go", F_OK) != 0)
		usleep(1000);
	child("early");
	pid_t leaves = fork();
	if (leaves == 0) {
		if (fork() == 0)
			busy("orphan");
		_exit(0);
	}
	waitpid(leaves, NULL, 0);
	pthread_create(&thread, NULL, busy, "thread");
	while (cpu() < 0.7 * seconds)
		sink += deep(atoi(argv[1]), 0.02);
	child("late");
	while (cpu() < seconds)
		sink += deep(atoi(argv[1]), 0.02);
	kill(0, SIGKILL);
}
C
gcc -O1 -pthread -o "$work/family" "$work/family.c" || { echo "Bail out! the program is not built"; exit 1; }

# On one CPU, so that they share it for long enough whatever the machine has.
cpu=$(taskset -pc $$ | sed 's/.*: *//; s/[,-].*//')
# begin RECORD OPTIONS…: `target` is the program, with what is not followed, `recorder` records it; now it goes on.
begin() {
	rm -f "$work/go" "$work/ready"
	(cd "$work" && exec setsid taskset -c "$cpu" ./family "$deepness" "$seconds") & target=$!
	soon test -e "$work/ready"
	(cd "$work" && exec "$perfsample" record -o family.data "$1" "$target" "${@:2}" 2>err) & recorder=$!
	soon is_recording "$work/family.data"
	touch "$work/go"
	wait "$recorder"
	wait "$target" 2>/dev/null
}
# followed WHAT OPTIONS…: `deepness` and `seconds` are the program's arguments. Nobody that was there before; all others are seen in the last fifth of the CPU time, too.
followed() {
	local what=$1
	shift
	begin -p "$@"
	"$perfsample" script -i "$work/family.data" -F comm,time,period >"$work/script" 2>/dev/null
	grep -qE -- "$wanted" <(tr -s '\n ' ' ' <"$work/err" | sed 's/perfsample: //g')
	ok $? "$what: the recorder said so ($wanted)" || sed 's/^/#   /' "$work/err"
	python3 - "$work/script" <<'P'
import collections, sys
samples = [line.split() for line in open(sys.argv[1]) if line.strip()]
total, taken, late = sum(int(period) for _, _, period in samples), 0, collections.Counter()
for comm, _, period in sorted(samples, key=lambda sample: float(sample[1].rstrip(":"))):
    taken += int(period)
    late[comm] += taken > 0.8 * total
everybody = collections.Counter(comm for comm, _, _ in samples)
followed = {"family", "early", "orphan", "thread", "late"}
print("#  ", dict(everybody), "of these late", dict(late))
sys.exit(set(everybody) != followed or any(late[comm] == 0 for comm in followed))
P
	ok $? "$what: what it started is followed to the end, what was there before is not"
}
deepness=0 seconds=0.3 wanted='1 process that it had started before is not recorded: -p [0-9]+,[0-9]+'
followed "nothing switched"
deepness=60 seconds=0.7 wanted='stacks deeper than the copy are read on'
followed "reading stacks beyond the copy"
deepness=0 seconds=1 wanted='on one sample every'
followed "a coarser period" -F 20000 --max-cpu 0.1

# Born while the recorder begins: they have inherited its events, and no record tells of them.
cat >"$work/forks.c" <<'C'
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static volatile long sink;
int main(void)
{
	for (int i = 0; i < 12; i++) {
		if (fork() == 0) {
			while (clock() < CLOCKS_PER_SEC / 5)
				sink++;
			_exit(0);
		}
		usleep(10000);
	}
	while (wait(NULL) > 0)
		;
}
C
gcc -O1 -o "$work/forks" "$work/forks.c"
: >"$work/commands"
for _ in 1 2 3; do
	"$work/forks" & target=$!
	"$perfsample" record -q -F 2000 -o "$work/forks.data" -p "$target" 2>>"$work/err"
	wait "$target"
	"$perfsample" script -i "$work/forks.data" -F comm,ip,dso 2>/dev/null | awk 'NF == 1 && !/^\t/ { print $1 } /\(\[unknown\]\)/' >>"$work/commands"
done
is "$(sort -u "$work/commands")" "forks" "children born while the recorder begins have their name and mappings"

# Threads named one by one are what perf's -t means by them.
seconds=0.2
begin -t
is "$("$perfsample" script -i "$work/family.data" -F comm 2>/dev/null | tr -d ' ' | sort -u | tr '\n' ' ' | sed 's/^ //')" "family " "-t: that thread alone"
ps record -t $$ --inherit -o "$work/x" -- true
like "$status $err" '^2 .*--inherit: -t records the threads' "-t --inherit is refused, with what to use"
# A cgroup that the target has to itself is sampled as one (a container, a service): with what was there before, and that is said.
group=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/perfsample-family-$$
if mkdir "$group" 2>/dev/null; then
	(echo 0 >"$group/cgroup.procs" && while :; do :; done & echo 0 >"$group/cgroup.procs" && exec sleep 1000) & target=$!
	has_both() { [ "$(wc -l <"$group/cgroup.procs")" -ge 2 ]; }
	soon has_both
	ps record -o "$work/group.data" -p "$target" --duration 0.3
	like "$(tr -s '\n ' ' ' <<<"$err" | sed 's/perfsample: //g')" '1 process that it had started before, in the same cgroup, is recorded too' "a cgroup of its own: what else is recorded"
	xargs kill <"$group/cgroup.procs"
	wait "$target" 2>/dev/null
	soon rmdir "$group" 2>/dev/null
else
	skip "no cgroup2 to write to" "a cgroup of its own: what else is recorded"
fi
done_testing
