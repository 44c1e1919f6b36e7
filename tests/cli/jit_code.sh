#!/bin/bash
# The bytes of code that a program writes into anonymous memory, in raw recordings: each sample finds the ones that it ran, whether they were overwritten since, mapped anew
# at the same place, or are another program's. And what the unwinder learns of them, while it is recorded and afterwards.
# shellcheck disable=SC2154 # tap.sh sets what it names
. "$(dirname "$0")/tap.sh"
CC=${CC:-gcc}
cd "$work" || exit 1
if [ "$(uname -m)" != x86_64 ] || ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" python3 >/dev/null; then
	skip "not x86-64, or this host cannot record, or has no compiler" "code that is overwritten"
	done_testing
fi
cat >rewrites.c <<'C'
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
/* mov $GENERATION,%eax; mov $N,%ecx; 1: dec %ecx; jnz 1b; ret */
static const unsigned char code[] = { 0xb8, 0, 0, 0, 0, 0xb9, 0, 0, 8, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
static unsigned char *at;
static uint64_t now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static void map(void)
{
	at = mmap((void *)0x300000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}
static void run(unsigned generation, unsigned offset, const char *how, uint64_t ms)
{
	memcpy(at + offset, code, sizeof(code));
	memcpy(at + offset + 1, &generation, sizeof(generation));
	uint64_t start = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	while (now(CLOCK_PROCESS_CPUTIME_ID) < cpu + ms * 1000000)
		((void (*)(void))(at + offset))();
	printf("%d %u %u %s %llu %llu\n", (int)getpid(), generation, offset, how, (unsigned long long)start, (unsigned long long)now(CLOCK_MONOTONIC));
	fflush(stdout);
}
int main(int argc, char **argv)
{
	map();
	if (argc > 1) {
		run(5, 0, "executed", 300);
		return 0;
	}
	run(1, 0, "first", 1400);
	run(2, 0, "overwritten", 1400);
	run(3, 1024, "added", 300);
	munmap(at, 4096);
	map();
	run(4, 0, "mapped", 300);
	execl(argv[0], argv[0], "again", (char *)0);
	return 1;
}
C
"$CC" -O1 -w -o rewrites rewrites.c
"$perfsample" record -q -F 999 --unwind post -o code.data -- ./rewrites >phases 2>err
is "$(wc -l <phases)" 5 "a program writes code over code"
"$perfsample" script -F pid,time,ip -i code.data >samples 2>>err
cat >judge.py <<'P'
import collections, re, struct, zlib
data = open("code.data", "rb").read()
def feature(number): # perf.data: sections behind the data, one for each bit that is set
    at, size = struct.unpack_from("<QQ", data, 40)
    at += size
    for bit in range(256):
        if data[72 + bit // 8] >> bit % 8 & 1:
            if bit == number:
                return data[slice(*(lambda o, s: (o, o + s))(*struct.unpack_from("<QQ", data, at)))]
            at += 16
def uleb(body, at):
    value = shift = 0
    while True:
        value |= (body[at] & 127) << shift
        shift += 7
        at += 1
        if body[at - 1] < 128:
            return value, at
pages = collections.defaultdict(list)
body = feature(255)
at = 0
while at + 16 <= len(body):
    tag, _, size = struct.unpack_from("<IIQ", body, at)
    at += 16
    end = at + size
    while tag == 7 and at < end:
        fields = []
        for _ in range(6):
            value, at = uleb(body, at)
            fields.append(value)
        pid, number, start, more, born, gone = fields
        assert zlib.crc32(body[at + 4:at + 4100]) == struct.unpack_from("<I", body, at)[0]
        pages[pid, number].append((start, start + more, born, gone - 1 if gone else 1 << 64, body[at + 4:at + 4100]))
        at += 4100
    at = end
def held(pid, ip, time): # the nearer of two readings, of the same mapping
    there = [v for v in pages[pid, ip >> 12] if v[2] <= time < v[3]]
    return min(there, key=lambda v: max(v[0] - time, time - v[1], 0), default=None)
phases = [(int(p), int(g), int(o), how, int(a), int(b)) for p, g, o, how, a, b in map(str.split, open("phases"))]
right, wrong, none = (collections.Counter() for _ in range(3))
pid = time = None
for line in open("samples"):
    head = re.match(r"\s*(\d+)\s+(\d+\.\d+):", line)
    if head:
        pid, time = int(head[1]), round(float(head[2]) * 1e9)
    elif line.strip() and pid is not None: # the innermost frame
        ip, whose, pid = int(line.split()[0], 16), pid, None
        if ip >> 12 != 0x300000:
            continue
        for p, generation, offset, how, a, b in phases:
            # When memory was overwritten in place is known to half the time between two readings.
            near = 500_000_000 if how in ("first", "overwritten") else 0
            if p == whose and a + (near if how == "overwritten" else 0) <= time <= b - (near if how == "first" else 0):
                version = held(p, ip, time)
                if version is None:
                    none[how] += 1
                else:
                    (right if struct.unpack_from("<I", version[4], offset + 1)[0] == generation else wrong)[how] += 1
for phase in phases:
    print(phase[3], right[phase[3]] > 50, wrong[phase[3]], none[phase[3]])
print("versions", 5 <= sum(map(len, pages.values())) <= 8)
P
python3 judge.py >judged 2>>err
for how in first overwritten added mapped executed; do
	is "$(grep "^$how " judged)" "$how True 0 0" "code $how: the bytes that its samples ran"
done
is "$(grep versions judged)" "versions True" "what did not change is kept once"
# In the lowest slot of a frame, what a call long past has left: an address behind a direct call to another function. Only the call before the frame's own return address, which is
# in code made at run time, tells that it is none.
cat >stale.c <<'C'
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
__asm__(".globl stale_call\n.type stale_call,@function\nstale_call: call other\n.globl stale\nstale: ret\n.size stale_call,.-stale_call\nother: ret");
extern char stale[];
/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
static const unsigned char calls[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
/* push %rbp; mov %rsp,%rbp; sub $16,%rsp; mov $stale,%rax; mov %rax,(%rsp); mov $N,%ecx; 1: dec %ecx; jnz 1b; leave; ret */
static unsigned char runs[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 16, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x48, 0x89, 4, 0x24,
	0xb9, 0, 0, 8, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc9, 0xc3 };
static uint64_t cpu(void) { struct timespec t; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
int main(void)
{
	uint64_t address = (uint64_t)stale;
	memcpy(runs + 10, &address, 8);
	for (int round = 0; round < 4; round++) { /* new code, again and again */
		unsigned char *at = mmap(0, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy(at + 100, calls, sizeof(calls));
		memcpy(at + 32768, runs, sizeof(runs));
		for (uint64_t start = cpu(); cpu() < start + 250000000;)
			((void (*)(void *))(at + 100))(at + 32768);
	}
	return 0;
}
C
"$CC" -O1 -w -fno-omit-frame-pointer -o stale stale.c
for how in live post late; do # late: a recorder that stands still meets hundreds of samples of new code at once
	"$perfsample" record -q -F 999 --unwind ${how/late/live} -o stale.data -- ./stale 2>>err &
	for round in 1 2 3; do
		[ $how = late ] || break
		sleep 0.2
		kill -STOP $!
		sleep 0.2
		kill -CONT $!
	done
	wait $!
	"$perfsample" fold -i stale.data >folded 2>>err
	all=$(awk '/;main;/ { n += $NF } END { print n + 0 }' folded) bad=$(awk '/;main;.*stale_call/ { n += $NF } END { print n + 0 }' folded)
	ok "$([ "$all" -gt 500 ] && [ $((bad * 100)) -le $((all * 2)) ]; echo $?)" "$how: what a call long past left is no caller ($bad of $all stacks)"
done
done_testing
