#!/bin/bash
# Generated code whose names come late: what the process is, which it says itself and not one of its threads; what helps; and a map that it writes when the
# recording is over, which is read while that process runs that program.
# shellcheck disable=SC2154 # tap.sh sets what it names
. "$(dirname "$0")/tap.sh"
CC=${CC:-gcc}
cd "$work" || exit 1
if [ "$(uname -m)" != x86_64 ] || ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	skip "not x86-64, or this host cannot record, or has no compiler" "names that come late"
	done_testing
fi
cat >virtual.c <<'C'
/* A thread runs generated code. SIGUSR1: the map is written; SIGUSR2: the program executes itself anew. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
int vm(void);
static unsigned char loop[] = { 0xb9, 0, 0, 1, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
static char *code;
static void *run(void *unused)
{
	prctl(PR_SET_NAME, "pool-1-thread-2");
	for (;;)
		((void (*)(void))code)();
	return unused;
}
int main(void)
{
	pthread_t thread;
	sigset_t set;
	char path[64];
	int signal;
	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(code, loop, sizeof(loop));
	sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pthread_create(&thread, NULL, run, NULL);
	alarm(120 + vm());
	puts("ready"), fflush(stdout);
	while (sigwait(&set, &signal) == 0 && signal == SIGUSR1) {
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
		FILE *map = fopen(path, "w");
		fprintf(map, "%lx %lx named_late\n", (long)code, (long)sizeof(loop));
		fclose(map);
		puts("written"), fflush(stdout);
	}
	execl("/proc/self/exe", "again", NULL);
}
C
echo 'int vm(void) { return 0; }' >vm.c
"$CC" -shared -fPIC -o libjvm.so vm.c
"$CC" -O1 -w -o virtual virtual.c libjvm.so -Wl,-rpath,"$work" -lpthread
: >said
./virtual >said &
pid=$!
until grep -q ready said; do sleep 0.01; done
"$perfsample" record -q -p $pid -o late.data --duration 0.5 2>record.err
leaf() { "$perfsample" report -i "$1" --format tsv -s symbol 2>report.err | awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR == 2 { print $at["symbol"] }'; }
ps report -i late.data --missing
like "$out" "//anon of virtual\[$pid\]" "code is of its process, which its main thread names"
like "$out" "help .*jcmd $pid Compiler.perfmap" "what helps depends on what is mapped, not on names"
ps report -i late.data --missing --format json
like "$out" '"process":"virtual"' "in JSON, too"
like "$("$perfsample" check -p $pid 2>&1 | tr -s '\n ' ' ')" "jcmd $pid Compiler.perfmap" "check says so beforehand"
is "$(leaf late.data)" '[unknown]' "there is no name yet"
kill -USR1 $pid
until grep -q written said; do sleep 0.01; done
is "$(leaf late.data)" named_late "a map that was written when the recording was over is read"
like "$(cat report.err)" "names of code that virtual\[$pid\] generated are .*from a map that it wrote [0-9]+ s after the recording" "which is said"
chown 12345 /tmp/perf-$pid.map 2>/dev/null && is "$(leaf late.data)" '[unknown]' "not another user's" && chown "$(id -u)" /tmp/perf-$pid.map
cp late.data copy.data
is "$(leaf copy.data)" named_late "whatever the recording is called"
: >said
kill -USR2 $pid
until grep -q ready said; do sleep 0.01; done
kill -USR1 $pid
until grep -q written said; do sleep 0.01; done
is "$(leaf late.data)" '[unknown]' "not where the process runs its program anew"
kill $pid
wait $pid 2>/dev/null
is "$(leaf late.data)" '[unknown]' "nor when it is gone"
rm -f /tmp/perf-$pid.map
done_testing
