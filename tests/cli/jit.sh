#!/bin/bash
# JIT code through record and report: a jitdump with code that moves, is compiled again at the same address, and lies under later anonymous
# mappings; names travel inside the recording; dumps that must not be trusted; a recording of perf's with V8's dump.
# shellcheck disable=SC2154 # tap.sh sets what it names
. "$(dirname "$0")/tap.sh"
CC=${CC:-gcc}
corpora=$(realpath -m "${PERFSAMPLE_CORPUS:-../shared/data}")/corpus/jit
corpus=$corpora/node-jitdump
cd "$work" || exit 1
script() { "$perfsample" script -F ip,sym,dso "$@" 2>script.err; }
innermost() { # PATTERN FILE: the innermost frames whose lines end so, by name, counted
	awk -v dso="$1" 'BEGIN { RS = ""; FS = "\n" } { for (i = 1; i <= NF; i++) if ($i ~ /^[ \t]+[0-9a-f]+ /) { if ($i ~ dso) {
		sub(/^[ \t]+[0-9a-f]+ /, "", $i); sub(/ \([^()]*\)$/, "", $i); n[$i]++ } break } }
		END { for (name in n) print "JIT\t" name "\t" n[name] }' "$2" | sort
}
if [ -r "$corpus/jit.data" ]; then
	mkdir -p tree/tmp/jd
	zcat "$corpus/jit-25898.dump.gz" >tree/tmp/jd/jit-25898.dump
	script -i "$corpus/jit.data" --symfs tree >node.txt
	# The innermost frames that the dump names, counted, as perf inject --jit and perf script do.
	innermost 'jit-25898\.dump\)$' node.txt >got
	grep '^JIT' "$corpus/expected.tsv" | sort >wanted
	is "$(cat got)" "$(cat wanted)" "V8's dump beside a recording of perf's: every innermost frame"
	script -i "$corpus/jit.data" >node.txt
	unlike "$(cat node.txt)" 'JS:' "without the dump there are no names, and no error"
	corpus=$corpora/node-perfmap
	zcat "$corpus/perf-25811.map.gz" >tree/tmp/perf-25811.map
	script -i "$corpus/map.data" --symfs tree >node.txt
	innermost '[(]//anon[)]$' node.txt >got
	grep '^JIT' "$corpus/expected.tsv" | sort >wanted
	is "$(cat got)" "$(cat wanted)" "V8's perf map beside a recording of perf's: every innermost frame"
else
	skip "no corpus" "V8's perf map beside a recording of perf's: every innermost frame"
	skip "no corpus" "V8's dump beside a recording of perf's: every innermost frame"
fi
if [ "$(uname -m)" != x86_64 ] || ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	skip "not x86-64, or this host cannot record, or has no compiler" "code that moves"
	done_testing
fi
cat >jit.c <<'C'
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
/* mov $N,%ecx; 1: dec %ecx; jnz 1b; ret */
static unsigned char loop[] = { 0xb9, 0, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
static FILE *dump;
static uint64_t clock_ns(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static uint64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }
static void put(const void *p, size_t n) { fwrite(p, n, 1, dump); }
static void p32(uint32_t v) { put(&v, 4); }
static void p64(uint64_t v) { put(&v, 8); }
static void run(void *at) /* for the same CPU time each */
{
	for (uint64_t end = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + 80000000; clock_ns(CLOCK_PROCESS_CPUTIME_ID) < end;)
		((void (*)(void))at)();
}
static void load(void *at, int index, const char *name)
{
	memcpy(at, loop, sizeof(loop));
	p32(0), p32(16 + 40 + strlen(name) + 1 + sizeof(loop)), p64(now());
	p32(getpid()), p32(getpid()), p64((uint64_t)at), p64((uint64_t)at), p64(sizeof(loop)), p64(index);
	put(name, strlen(name) + 1), put(loop, sizeof(loop));
	fflush(dump);
	run(at);
}
int main(int argc, char **argv)
{
	char path[4096];
	uint32_t n = 2000000;
	memcpy(loop + 1, &n, 4);
	snprintf(path, sizeof(path), "%s/jit-%d.dump", argv[1], getpid());
	dump = fopen(path, "w+");
	if (argc > 2 && strcmp(argv[2], "stranger") == 0 && fchown(fileno(dump), 12345, 12345) != 0)
		return 1;
	void *marker = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
	p32(0x4a695444), p32(1), p32(40), p32(62), p32(0), p32(getpid()), p64(now()), p64(0);
	unsigned char *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	load(code, 1, "jit_first");
	load(code, 2, "jit_again_at_the_same_place");
	/* Code that moves: an image of it goes elsewhere. */
	load(code + 4096, 3, "jit_moving");
	memcpy(code + 512, loop, sizeof(loop));
	p32(1), p32(16 + 48), p64(now());
	p32(getpid()), p32(getpid()), p64((uint64_t)code), p64((uint64_t)code + 4096), p64((uint64_t)code + 512), p64(sizeof(loop)), p64(3);
	fflush(dump);
	run(code + 512);
	/* The heap's protection is changed and changed back: the kernel tells of anonymous executable memory over all of it. */
	mprotect(code, 8192, PROT_READ | PROT_WRITE);
	mprotect(code, 8192, PROT_READ | PROT_EXEC);
	run(code + 512);
	p32(3), p32(16), p64(now());
	fclose(dump);
	return marker == MAP_FAILED;
}
C
"$CC" -O1 -w -o jit jit.c
names() { # FILE: the innermost names and how many samples each has
	"$perfsample" report -i "$1" --format tsv -s symbol 2>/dev/null | awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
		NR > 1 { print $at["symbol"], $at["self.samples"] }'
}
count() { awk -v n="$2" '$1 == n { print $2 + 0; found = 1 } END { if (!found) print 0 }' <<<"$1"; }
"$perfsample" record -q -o jit.data -- ./jit "$work" 2>record.err
rm -f jit-*.dump
got=$(names jit.data)
first=$(count "$got" jit_first) again=$(count "$got" jit_again_at_the_same_place) moving=$(count "$got" jit_moving)
diagnose() { echo "#   first $first, again $again, moving $moving: $(tr '\n' ';' <<<"$got")"; }
ok "$([ "$first" -gt 10 ] && [ "$again" -gt 10 ]; echo $?)" "code compiled again at the same address has two names" || diagnose
# The names of the innermost frames of code in no file, as they follow each other: one that another had before, or none, would stand among them.
is "$("$perfsample" script -F time,ip,sym,dso -i jit.data 2>/dev/null | awk 'BEGIN { RS = ""; FS = "\n" } $2 ~ /jit-[0-9]+\.dump|\/\/anon|\[unknown/ {
	split($2, leaf, " "); if (leaf[2] != last) print leaf[2]; last = leaf[2] }' | sed 's/+0x.*//' | uniq | tr '\n' ' ')" "jit_first jit_again_at_the_same_place jit_moving " \
	"each at its own time; code that moved keeps its name, also under a later anonymous mapping"
ok "$([ "$moving" -gt "$first" ]; echo $?)" "in all of its places" || diagnose
like "$got" '^jit_first ' "all of it from inside the recording: the dump is gone"
"$perfsample" record -q --no-symbols -o bare.data -- ./jit "$work" 2>record.err
got=$(names bare.data)
ok "$([ "$(count "$got" jit_moving)" -gt 20 ]; echo $?)" "without names inside, the dump is read by the reader"
if ldconfig -p 2>/dev/null | grep -q libcapstone; then
	like "$("$perfsample" annotate -i bare.data jit_moving 2>/dev/null)" '^ +[0-9.]+ +[0-9.]+-[0-9.]+ +[0-9a-f]+  (decl|jne) ' "annotate: its instructions, with intervals"
else
	skip "no libcapstone" "annotate: its instructions, with intervals"
fi
like "$("$perfsample" annotate -i jit.data jit_first 2>/dev/null)" 'note +no instructions: the dump that has the code is not here' "annotate without the dump says so"
pid=$(basename jit-*.dump .dump) pid=${pid#jit-}
printf 'not a dump at all, whatever it is' >"jit-$pid.dump"
ps report -i bare.data
is "$status" 0 "a dump that is none: no failure"
like "$err" "jit-$pid.dump: at 0x0: not a jitdump" "it is said"
rm "jit-$pid.dump"
mkfifo "jit-$pid.dump"
timeout 60 "$perfsample" report -i bare.data >/dev/null 2>&1
is $? 0 "a FIFO in a dump's place: no waiting"
rm "jit-$pid.dump"
if [ "$(id -u)" -eq 0 ]; then
	"$perfsample" record -o stranger.data -- ./jit "$work" stranger 2>record.err
	like "$(cat record.err)" 'jitdump not trusted: owner' "a dump of another user's is not trusted, which is said"
	rm -f jit-*.dump
	unlike "$(names stranger.data)" 'jit_' "and names nothing"
fi
# Code without frame pointers, whose dump says how to unwind it (JIT_CODE_UNWINDING_INFO): its caller is found where stacks are unwound by the reader.
cat >frameless.c <<'C'
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static const unsigned char code[] = {
	0x55, 0x48, 0x83, 0xec, 0x40, /* push %rbp; sub $64,%rsp */
	0xbd, 1, 0, 0, 0,             /* mov $1,%ebp */
	0xb9, 0, 0, 0, 0x14,          /* mov $N,%ecx; 1: dec %ecx; jnz 1b */
	0xff, 0xc9, 0x75, 0xfc,
	0x48, 0x83, 0xc4, 0x40, 0x5d, 0xc3, /* add $64,%rsp; pop %rbp; ret */
};
static const unsigned char frames[] = { /* stands 32 bytes behind the code's start: the next multiple of 8 behind its end */
	20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
	28, 0, 0, 0, 28, 0, 0, 0, 0xc0, 0xff, 0xff, 0xff, sizeof(code), 0, 0, 0, 0,
	0x41, 0x0e, 16, 0x86, 2, 0x44, 0x0e, 80, 0x52, 0x0e, 16, 0x41, 0x0e, 8, 0xc6,
	0, 0, 0, 0,
	1, 0x1b, 3, 0x3b, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* .eh_frame_hdr */
};
static FILE *dump;
static uint64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static void put(const void *p, size_t n) { fwrite(p, n, 1, dump); }
static void p32(uint32_t v) { put(&v, 4); }
static void p64(uint64_t v) { put(&v, 8); }
__attribute__((noinline)) void calls_the_frameless(void (*at)(void)) { at(); __asm__ volatile(""); }
int main(int argc, char **argv)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/jit-%d.dump", argv[1], getpid());
	dump = fopen(path, "w+");
	void *marker = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
	unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(at, code, sizeof(code));
	p32(0x4a695444), p32(1), p32(40), p32(62), p32(0), p32(getpid()), p64(now()), p64(0);
	if (argc > 2)
		p32(4), p32(16 + 24 + sizeof(frames)), p64(now()), p64(sizeof(frames)), p64(20), p64(0), put(frames, sizeof(frames));
	p32(0), p32(16 + 40 + 10 + sizeof(code)), p64(now());
	p32(getpid()), p32(getpid()), p64((uint64_t)at), p64((uint64_t)at), p64(sizeof(code)), p64(1), put("frameless", 10), put(code, sizeof(code));
	fclose(dump);
	calls_the_frameless((void (*)(void))at);
	return marker == MAP_FAILED;
}
C
"$CC" -O1 -w -o frameless frameless.c
"$perfsample" record -q --unwind post -o with.data -- ./frameless "$work" yes 2>record.err
like "$("$perfsample" fold -i with.data 2>/dev/null)" 'main;calls_the_frameless;frameless [0-9]' "code without frame pointers is unwound by the dump's unwind information"
rm -f jit-*.dump
"$perfsample" record -q --unwind post -o without.data -- ./frameless "$work" 2>record.err
got=$("$perfsample" fold -i without.data 2>/dev/null)
like "$got" 'frameless [0-9]' "without that information it has its name"
like "$got" 'main;calls_the_frameless;frameless [0-9]' "and its caller by its instructions"
like "$("$perfsample" script -i without.data -F ip,sym,via 2>/dev/null)" 'calls_the_frameless code' "which is said"
rm -f jit-*.dump
# Code that nobody tells of, without frame pointers, whose .eh_frame lies in read-only memory, as LLVM keeps it for C++ exceptions: its callers are found by
# that while the recorder runs.
cat >hidden.c <<'C'
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
static unsigned char *at, *frames[2];
/* push %rbp; sub $room,%rsp; mov $1,%ebp; mov $N,%ecx; 1: dec %ecx; jnz 1b; add $room,%rsp; pop %rbp; ret */
static unsigned char code[] = { 0x55, 0x48, 0x81, 0xec, 0, 0, 0, 0, 0xbd, 1, 0, 0, 0, 0xb9, 0, 0, 0x20, 0, 0xff, 0xc9, 0x75, 0xfc,
	0x48, 0x81, 0xc4, 0, 0, 0, 0, 0x5d, 0xc3 };
static void describe(unsigned char *to, uint32_t room)
{
	static const unsigned char cie[] = { 20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1c, 0x0c, 7, 8, 0x90, 1, 0, 0 };
	static const unsigned char rules[] = { 0, 0x41, 0x0e, 16, 0x86, 2, 0x47, 0x0e, 0x80, 0, 0x56, 0x0e, 16, 0x41, 0x0e, 8, 0xc6, 0, 0 };
	unsigned char *fde = to + 32 + sizeof(cie); /* somewhere in the page */
	uint32_t length = 4 + 8 + 8 + 20, back = sizeof(cie) + 4;
	uint64_t start = at - (fde + 8), size = sizeof(code);
	memcpy(to + 32, cie, sizeof(cie));
	memcpy(fde, &length, 4), memcpy(fde + 4, &back, 4), memcpy(fde + 8, &start, 8), memcpy(fde + 16, &size, 8);
	memcpy(fde + 24, rules, sizeof(rules));
	fde[24 + 8] = (room + 16) % 128 | 0x80, fde[24 + 9] = (room + 16) / 128;
}
static void make(uint32_t room, int is_writable, uint32_t also)
{
	at = mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at != NULL ? MAP_FIXED : 0), -1, 0);
	memcpy(code + 4, &room, 4), memcpy(code + 25, &room, 4);
	memcpy(at, code, sizeof(code));
	for (int i = 0; i < 2; i++) {
		frames[i] = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (i == 0 || also > 0)
			describe(frames[i], i == 0 ? room : also);
		mprotect(frames[i], 4096, PROT_READ);
	}
	mprotect(at, 4096, is_writable ? PROT_READ | PROT_WRITE | PROT_EXEC : PROT_READ | PROT_EXEC);
}
static void gone(void) { munmap(at, 4096), munmap(frames[0], 8192), munmap(frames[1], 8192); }
/* No return address is left where the code makes room. */
static __attribute__((noinline)) void wipe(void) { volatile long room[512]; for (int i = 0; i < 512; i++) room[i] = 0; }
#define CALLS(name) __attribute__((noinline)) void name(void) \
{ \
	for (clock_t end = clock() + CLOCKS_PER_SEC / 10; clock() < end;) \
		wipe(), ((void (*)(void))at)(); \
}
CALLS(calls_the_first) CALLS(calls_the_second) CALLS(calls_what_is_told_twice) CALLS(calls_what_may_be_written)
int main(void)
{
	make(64, 0, 0), calls_the_first(), gone();
	make(1024, 0, 0), calls_the_second(), gone(); /* other code at the same place */
	make(64, 0, 256), calls_what_is_told_twice(), gone();
	make(64, 1, 0), calls_what_may_be_written(), gone();
	return 0;
}
C
"$CC" -O1 -w -fomit-frame-pointer -o hidden hidden.c
share() { awk -v p="$1" '{ n += $NF } $0 ~ p { k += $NF } END { print int(100 * k / n) }' <<<"$got"; }
has_callers() { # FILE HOW
	got=$("$perfsample" fold --guessed -i "$1" 2>/dev/null | grep -v asm_)
	ok "$([ "$(share '^hidden;_start;[^_]*__libc_start.*main;calls_the_first;.*anon')" -ge 15 ]; echo $?)" \
		"$2: code whose .eh_frame lies in read-only memory has its caller" || echo "#   $got"
	ok "$([ "$(share '^hidden;_start;[^_]*__libc_start.*main;calls_the_second;.*anon')" -ge 15 ]; echo $?)" \
		"$2: and so has other code that comes to the same place" || echo "#   $got"
	unlike "$got" 'calls_what_is_told_twice;.*anon' "$2: what two of them tell differently is not believed"
	unlike "$got" 'calls_what_may_be_written;.*anon' "$2: nor that of code which may be written: it may be of what was there before"
	is "$("$perfsample" script -F ip,sym,via -i "$1" 2>/dev/null | grep -c 'calls_the_[a-z]* .*fp\|calls_the_[a-z]* .*leaf')" 0 "$2: none of the callers is guessed"
}
"$perfsample" record -q -o hidden.data -- ./hidden 2>record.err
has_callers hidden.data live
# Raw stacks: what was found in the process's memory goes into the recording.
"$perfsample" record -q --unwind post -o raw.data -- ./hidden 2>record.err
has_callers raw.data "raw stacks"
if "$perfsample" debug unwind raw.data >both 2>&1; then
	ok "$(awk '/^libunwind completes/ { n = $3; same = $9 } END { print !(n > 50 && same >= 0.99 * n) }' both)" "libunwind finds the same by that" || sed 's/^/#   /' both
else
	skip "no libunwind" "libunwind finds the same by that"
fi
# They have no names in the recording: those of the map of the process, on the same host.
at=$("$perfsample" script -F ip,dso -i raw.data 2>/dev/null | awk '/anon/ { print $1; exit }')
pid=$("$perfsample" script -F pid -i raw.data 2>/dev/null | awk 'NF { print $1; exit }')
if [ ! -e "/tmp/perf-$pid.map" ]; then
	echo "${at%???}000 1000 named_by_the_map" >"/tmp/perf-$pid.map"
	like "$("$perfsample" fold -i raw.data 2>/dev/null)" ';named_by_the_map [0-9]' "raw stacks: the map of the process names its code"
	rm -f "/tmp/perf-$pid.map"
else
	skip "/tmp/perf-$pid.map is somebody's" "raw stacks: the map of the process names its code"
fi
# Code in a file that is no ELF image, as a Lisp's core or a DLL: with frame pointers its callers are found, as those of code that no file holds.
cat >infile.c <<'C'
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
/* push %rbp; mov %rsp,%rbp; mov $N,%ecx; 1: dec %ecx; jnz 1b; pop %rbp; ret */
static const unsigned char file[4096] = { 'n', 'o', ' ', 'E', 'L', 'F', [16] = 0x55, 0x48, 0x89, 0xe5, 0xb9, 0, 0, 0, 0x20, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3 };
__attribute__((noinline)) void calls_the_file(unsigned char *at) { ((void (*)(void))(at + 16))(); __asm__ volatile(""); }
int main(void)
{
	int fd = open("code.bin", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (write(fd, file, sizeof(file)) != sizeof(file))
		return 1;
	calls_the_file(mmap(NULL, sizeof(file), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0));
	return 0;
}
C
"$CC" -O1 -w -o infile infile.c
for how in live post; do
	"$perfsample" record -q --unwind $how -o infile.data -- ./infile 2>record.err
	got=$("$perfsample" fold --guessed -i infile.data 2>/dev/null | grep -v asm_)
	ok "$([ "$(share '^infile;_start;[^_]*__libc_start.*main;calls_the_file[^;]*;.*code.bin')" -ge 90 ]; echo $?)" "$how: code in a file that is no image has its caller" ||
		echo "#   $got"
	like "$("$perfsample" script -F ip,sym,via -i infile.data 2>/dev/null)" 'calls_the_file .*fp' "$how: marked as found by the frame pointer"
done
# Java writes its map as it ends, when nothing of the process can be asked any more.
cat >late.c <<'C'
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
	static const unsigned char loop[] = { 0xb9, 0, 0, 0, 0x20, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
	unsigned char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	memcpy(at, loop, sizeof(loop));
	((void (*)(void))at)();
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "wx");
	if (map != NULL)
		fprintf(map, "0x%016lx 0x%016lx named at the end\n", (unsigned long)at, (unsigned long)sizeof(loop)), fclose(map);
	puts(path);
	return 0;
}
C
"$CC" -O1 -w -o late late.c
path=$("$perfsample" record -q -o late.data -- ./late 2>record.err)
like "$("$perfsample" fold -i late.data 2>/dev/null)" ';named at the end [0-9]' "a map that is written as the process ends"
case $path in /tmp/perf-*.map) rm -f "$path" ;; esac
done_testing
