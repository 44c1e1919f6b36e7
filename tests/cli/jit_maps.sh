#!/bin/bash
# Perf maps through record and fold: which program of a process a map is of, when the process executes another one and when a pid is given again, and
# processes that end while the recorder is busy with hundreds of images.
# shellcheck disable=SC2154 # tap.sh sets what it names
. "$(dirname "$0")/tap.sh"
CC=${CC:-gcc}
cd "$work" || exit 1
if [ "$(uname -m)" != x86_64 ] || ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	skip "not x86-64, or this host cannot record, or has no compiler" "perf maps"
	done_testing
fi
cat >prog.c <<'C'
/* prog MS HOW,NAME [HOW,NAME]...: code at one address runs for MS ms, named NAME in the perf map; then the rest is executed as a program of its own.
   HOW: w writes the map, r writes another one and renames it over it, s writes none, a appends a line about a second piece of code, which runs too,
   l writes a name of NAME bytes. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static unsigned char loop[] = { 0xb9, 0, 0, 1, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
static void run(unsigned char *at, int ms)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	for (uint64_t end = t.tv_sec * 1000000000ull + t.tv_nsec + ms * 1000000ull; t.tv_sec * 1000000000ull + t.tv_nsec < end;) {
		((void (*)(void))at)();
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	}
}
int main(int argc, char **argv)
{
	char path[64], other[64], how = argv[2][0];
	unsigned char *code = mmap((void *)0x300000000000, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memcpy(code, loop, sizeof(loop));
	memcpy(code + 4096, loop, sizeof(loop));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	snprintf(other, sizeof(other), "/tmp/perf-%d.new", getpid());
	if (how != 's') {
		FILE *map = fopen(how == 'r' ? other : path, how == 'a' ? "a" : "w");
		fprintf(map, "%lx %lx %s", (long)code + (how == 'a' ? 4096 : 0), (long)sizeof(loop), argv[2] + 2);
		for (long i = how == 'l' ? atol(argv[2] + 2) : 0; i > 0; i--)
			putc('a' + getpid() % 26, map);
		putc('\n', map);
		fclose(map);
		if (how == 'r')
			rename(other, path);
	}
	run(code, atoi(argv[1]));
	if (how == 'a')
		run(code + 4096, atoi(argv[1]));
	if (argc > 3) {
		memmove(&argv[2], &argv[3], (argc - 2) * sizeof(*argv));
		execv("/proc/self/exe", argv);
	}
	if (getenv("KEEP") == NULL)
		unlink(path);
	return 0;
}
C
"$CC" -O1 -w -o prog prog.c
# What the recording has of each stretch of one name, in the order of time.
told() { # FILE
	"$perfsample" script -F ip,sym,dso -i "$1" 2>script.err | awk 'BEGIN { RS = ""; FS = "\n" } { for (i = 1; i <= NF; i++) if ($i ~ /\/\/anon/) {
		split($i, part, " "); sub(/\+0x.*/, "", part[2]); print part[2]; break } }' | awk '{ n[$1 == last ? k : ++k]++; last = $1; name[k] = $1 }
		END { for (i = 1; i <= k; i++) if (n[i] > 5) printf "%s ", name[i] }' | sed 's/\[unknown\]/-/g; s/\/\/anon/-/g'
}
seen() { "$perfsample" record -q -o seen.data -- ./prog "$@" 2>record.err; told seen.data; }
is "$(seen 100 w,old_code w,new_code)" "old_code new_code " "a map that is written again after an exec names what it was written by"
is "$(seen 100 w,old_code s,)" "old_code - " "a map that is older than the program names nothing of it"
like "$("$perfsample" record -o said.data -- ./prog 100 w,old_code s, 2>&1 | tr -s '\n ' ' ')" 'map not trusted: /tmp/perf-[0-9]+.map is older than the program' "which is said"
is "$(seen 100 w,first r,second s, w,fourth)" "first second - fourth " "four programs of one process, each by its own map"
is "$(seen 100 w,old_code a,added)" "old_code - added " "lines that another program wrote are not those of the one that adds to them"
is "$(seen 100 s, w,new_code)" "- new_code " "a map says nothing of the program before"
for how in "--unwind post" --no-symbols; do
	# shellcheck disable=SC2086 # options, of one word or two
	KEEP=1 "$perfsample" record -q $how -o raw.data -- ./prog 100 w,old_code w,new_code 2>record.err
	is "$(told raw.data)" "- new_code " "$how: the reader believes a map of the last program alone"
	# shellcheck disable=SC2086
	KEEP=1 "$perfsample" record -q $how -o raw.data -- ./prog 100 w,old_code s, 2>record.err
	is "$(told raw.data)" "- " "$how: and not one that is older"
	like "$(cat script.err)" 'is older than the program' "which is said"
done
grep -ho '/tmp/perf-[0-9]*\.map' script.err | xargs -r rm -f

# Names as long as a process likes: they are cut, which is said, and the recording stays small.
"$perfsample" record -o long.data -- sh -c "for i in 1 2 3; do KEEP=1 ./prog 60 l,2000000; done" 2>record.err
like "$(cat record.err)" 'names: 3 longer than 65536 bytes were cut' "long names are cut, which is said"
ok "$([ "$(stat -c %s long.data)" -lt 1000000 ]; echo $?)" "none of them is in the recording whole" || stat -c '#   %s bytes' long.data
ok "$("$perfsample" fold -i long.data 2>/dev/null | awk 'length > 65000 && length < 67000 { n++ } END { exit !n }'; echo $?)" "what is left of them is there"
like "$("$perfsample" report -i long.data 2>/dev/null | tr -s '\n ' ' ')" 'names, when it was recorded: 3 longer' "and said by readers"

# A process that maps more files than the helper's queue holds requests, runs what it generated for a moment and is gone.
cat >crowd.c <<'C'
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	unsigned char loop[] = { 0xb9, 0, 0, 0x10, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
	unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	int count = atoi(argv[1]), *fds = calloc(count, sizeof(*fds));
	memcpy(code, loop, sizeof(loop));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w");
	fprintf(map, "%lx 1000 in_a_crowd\n", (long)code);
	fclose(map);
	for (int i = 0; i < count; i++) {
		char name[64];
		snprintf(name, sizeof(name), "libs/%d.so", i);
		fds[i] = open(name, O_RDONLY);
	}
	for (int i = 0; i < count; i++)
		mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fds[i], 0x1000);
	for (int i = 0; i < 60; i++)
		((void (*)(void))code)();
	return 0;
}
C
echo 'int f(int x) { return x + 1; }' >lib.c
"$CC" -O1 -w -o crowd crowd.c
"$CC" -shared -fPIC -nostdlib -o lib.so lib.c
mkdir libs
for ((i = 0; i < 600; i++)); do cp lib.so libs/$i.so; done
named=0
for ((i = 0; i < 10; i++)); do
	"$perfsample" record -q -F 2000 -o crowd.data -- ./crowd 600 2>record.err
	"$perfsample" fold -i crowd.data 2>/dev/null | grep -q in_a_crowd && named=$((named + 1))
done
is "$named" 10 "names are asked for whatever else waits to be opened, and of a process that is gone"
find /tmp -maxdepth 1 -name 'perf-*.map' -newer prog.c -exec grep -lZE 'in_a_crowd|old_code|new_code|([a-z])\1{9999}' {} + | xargs -0 -r rm -f
done_testing
