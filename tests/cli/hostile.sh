#!/bin/bash
# Programs that do to a profiler what they can: images whose headers and tables are damaged, files that are cut short, overwritten and replaced while they are
# mapped and while they are read, libraries loaded under one name a thousand times. Whatever happens, the recorder and the readers come to their end, and a
# stack that calls itself complete has its callers.
. "$(dirname "$0")/tap.sh"
CC=${CC:-gcc}
if [ "$(uname -m)" != x86_64 ] || ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	echo "1..0 # SKIP not x86-64, or this host cannot record, or has no compiler"
	exit 0
fi
cd "$work" || exit 1
cat >lib.c <<'C'
static volatile long sink;
__attribute__((noinline)) static long leaf(long n) { for (long i = 0; i < n; i++) sink += i; return sink; }
__attribute__((noinline)) static long middle(long n) { volatile char r[100]; r[n % 100] = 1; return leaf(n) + r[n % 100]; }
long entry(long n) { return middle(n) + 1; }
C
cat >host.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static sigjmp_buf back;
static void on_fault(int number) { siglongjmp(back, number); }
__attribute__((noinline)) static void call(long (*f)(long)) { static volatile long s; for (clock_t end = clock() + CLOCKS_PER_SEC / 500; clock() < end;) s += f(20000); }
/* As a loader maps it: headers, one page of text; data in memory. What is cut off is a fault. */
static void map_and_call(const char *name, long offset)
{
	int fd = open(name, O_RDONLY);
	char *at = mmap(NULL, 0x10000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mmap(at, 0x1000, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	mmap(at + (offset & ~4095), 0x1000, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, offset & ~4095);
	if (fd >= 0 && sigsetjmp(back, 1) == 0)
		call((long (*)(long))(at + offset));
	munmap(at, 0x10000);
	close(fd);
}
static void load_and_call(const char *name)
{
	unlink(name);
	if (link("lib.so", name) != 0 && symlink("lib.so", name) != 0)
		exit(1);
	void *loaded = dlopen(name, RTLD_NOW);
	call((long (*)(long))dlsym(loaded, "entry"));
	unlink(name);
	dlclose(loaded);
}
int main(int argc, char **argv)
{
	signal(SIGBUS, on_fault), signal(SIGSEGV, on_fault), signal(SIGILL, on_fault);
	if (argc == 2)
		for (int i = 0; i < 500; i++)
			load_and_call("./again.so");
	for (int i = 2; i < argc; i++)
		map_and_call(argv[i], strtol(argv[1], NULL, 16));
	return 0;
}
C
"$CC" -O1 -fno-optimize-sibling-calls -shared -fPIC -nostdlib -Wl,--build-id,-z,separate-code -o lib.so lib.c && "$CC" -O1 -fno-optimize-sibling-calls -o host host.c -ldl ||
	{ echo "Bail out! the programs are not built"; exit 1; }
offset=$(nm lib.so | awk '/ T entry/ { print $1 }')
# Damaged copies; every one of them still has the page with the code.
cat >damage.py <<'P'
import os, random, struct
d = open("lib.so", "rb").read()
random.seed(20)
header = struct.unpack_from("<16sHHIQQQIHHHHHH", d)
table = [struct.unpack_from("<IIQQQQIIQQ", d, header[6] + i * 64) for i in range(header[12])]
spans = {d[table[header[13]][4] + s[0]:].split(b"\0")[0].decode(): (s[4], s[5]) for s in table}
places = [(0, 64), (64, 56 * header[10]), (header[6], len(d) - header[6]), *(spans[n] for n in (".eh_frame", ".eh_frame_hdr", ".note.gnu.build-id", ".dynsym"))]
os.mkdir("m")
for i in range(120):
    b, (low, size) = bytearray(d), places[i % len(places)]
    for _ in range(random.choice([1, 1, 2, 4, 16])):
        at, width, value = low + random.randrange(size), random.choice([1, 1, 4, 8]), random.choice([0, 0xff, 0x7f, 0x80, random.randrange(256)])
        b[at:min(at + width, low + size)] = bytes([value]) * (min(at + width, low + size) - at)
    open("m/%03d.so" % i, "wb").write(b[:0x2000 + random.randrange(len(b) - 0x2000)] if i % 8 == 7 else b)
P
cat >vandal.py <<'P'
import glob, os, random, time
d = open("lib.so", "rb").read()
files = sorted(glob.glob("m/*.so"))
random.seed(9)
while os.path.exists("go"):
    name = random.choice(files)
    kind = random.randrange(6)
    if kind == 0:
        os.truncate(name, random.choice([0, 1, 64, 4096, 8192, 0x2100]))
    elif kind == 1:
        open(name, "r+b").write(d)
    elif kind == 2:
        open(name, "r+b").write(bytes(random.randrange(256) for _ in range(200)))
    elif kind == 3:
        open("new", "wb").write(d)
        os.rename("new", name)
    elif kind == 4:
        os.unlink(name)
        open(name, "wb").write(d)
    else:
        with open(name, "r+b") as f:
            f.seek(random.choice([0x2000, 0x2030, 0x200]))
            f.write(b"\xff" * 64)
    time.sleep(0.0003)
P
sound() { # NAME COMMAND…: status 0, and no sanitizer has anything to say
	local name=$1
	shift
	timeout 200 "$@" >out 2>err
	local status=$?
	[ $status -eq 0 ] && ! grep -qE 'Sanitizer|runtime error' err
	ok $? "$name" || echo "#   status $status"
}
# Whoever reaches a root from the library's functions came through `call`; samples of exec and of faults have none of them.
complete() { # NAME
	"$perfsample" fold -q -i r.data >folded 2>err
	python3 - folded <<'P'
import sys
whole = cut = false = 0
for line in open(sys.argv[1]):
    stack, n = line.rstrip("\n").rsplit(" ", 1)
    frames = stack.split(";")
    if not any(f.split(".")[0] in ("leaf", "middle", "entry") for f in frames):
        continue
    if frames[1].startswith("["):
        cut += int(n)
    elif any(f.split(".")[0] == "call" for f in frames):
        whole += int(n)
    else:
        false += int(n)
        print("#  ", stack[:200])
print("#   whole", whole, "cut", cut, "false", false)
sys.exit(whole == 0 or false > 0)
P
	ok $? "$1"
}
read_all() { # NAME
	local command
	for command in "report --format json" "report --missing" script "export --format pprof -o x.pb"; do
		# shellcheck disable=SC2086
		sound "$1: $command" "$perfsample" $command -i r.data
	done
	complete "$1: no stack is complete that is not"
}
python3 damage.py
for how in live post; do
	sound "damaged images, $how" "$perfsample" record -q -F 2000 --unwind $how -o r.data -- ./host "$offset" m/*.so
	read_all "damaged images, $how"
done
for how in live post; do
	touch go
	python3 vandal.py & vandal=$!
	sound "files that change, $how" "$perfsample" record -q -F 2000 --unwind $how -o r.data -- ./host "$offset" m/*.so m/*.so m/*.so
	read_all "files that change, $how"
	rm go
	wait $vandal
	ok $? "they changed to the end"
done
sound "a library loaded again and again" "$perfsample" record -q -F 2000 -o r.data -- ./host again
read_all "a library loaded again and again"
done_testing
