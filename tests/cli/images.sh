#!/bin/bash
# shellcheck disable=SC2154 # tap.sh sets what it names
# Images that are hard to get at, through record and report: deleted, replaced, seen in another mount namespace only, JIT code of another
# pid namespace; --symfs, --debug-dir, --no-cache; and report --missing, which says what could not be named.
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
CC=${CC:-gcc}
names='the deleted program|the replaced program|a mount namespace|a pid namespace|a root of its own|--symfs|--debug-dir|--no-cache|--missing'
if ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	IFS='|'
	for name in $names; do skip "this host cannot record, or has no compiler" "$name"; done
	done_testing
fi
export XDG_CACHE_HOME=$work/cache
cd "$work" || exit 1
# Each works for about 0.3 s of CPU time in a function of its own; with an argument, it first waits for that file to go.
program() { # NAME FUNCTION CFLAGS…
	local name=$1 function=$2
	shift 2
	cat >"$name.c" <<C
#include <unistd.h>
static volatile unsigned long sink;
__attribute__((noinline)) void $function(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
int main(int argc, char **argv)
{
	while (argc > 1 && access(argv[1], F_OK) == 0)
		usleep(1000);
	$function(150000000);
	return 0;
}
C
	"$CC" -O1 -g "$@" -o "$name" "$name.c"
}
record() { "$perfsample" record -q "$@" >"$work/record.out" 2>"$work/record.err"; }
symbols() { # FILE OPTIONS…
	local file=$1
	shift
	"$perfsample" report -i "$file" --format tsv "$@" 2>/dev/null | awk -F'\t' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } NR > 1 { print $at["symbol"] }'
}

names_itself() { [ "$(cat "/proc/$1/comm")" = "$2" ]; }

# The program is unlinked, or another put in its place, before it does any work: what ran must have its name.
hold_and() { # PROGRAM DATA COMMAND…: COMMAND is run while PROGRAM waits, attached
	local program=$1 data=$2
	shift 2
	touch gate
	"./$program" gate &
	local pid=$!
	soon names_itself $pid "$program"
	"$perfsample" record -q -o "$data" -p $pid >/dev/null 2>record.err &
	local recorder=$!
	soon is_recording "$data"
	"$@"
	rm gate
	wait $pid
	wait $recorder
}
program gone work_of_the_deleted
hold_and gone gone.data rm gone
like "$(symbols gone.data)" '^work_of_the_deleted$' "a program deleted while it runs is named by what ran"
program swapped work_of_the_first
program other work_of_the_second
hold_and swapped swapped.data mv other swapped
got=$(symbols swapped.data)
like "$got" '^work_of_the_first$' "a program replaced while it runs is named by what ran"
unlike "$got" 'work_of_the_second' "and never by the newcomer"

# Without names inside, the reader meets a file of that path with another build ID: it must not be believed.
program other2 work_of_the_second
program swapped2 work_of_the_first -Wl,--build-id
record --no-symbols -o before.data -- ./swapped2
mv other2 swapped2
got=$(symbols before.data)
unlike "$got" 'work_of_the_(first|second)' "a file of the same path with another build ID is not believed"
ps report -i before.data --missing
like "$out" 'why   the file here is not the one that ran: its build ID differs' "--missing says so"
like "$out" 'help  .*--save-images' "--missing says what helps"
like "$out" '^ +[0-9.]+ +[0-9.]+ +[0-9]+  .*/swapped2$' "--missing gives its share"

# A file system that only the target sees.
if unshare -m true 2>/dev/null; then
	mkdir -p hidden
	program inside work_in_the_namespace
	record -o mount.data -- unshare -m sh -c "mount -t tmpfs none '$work/hidden' && cp inside hidden/inside && exec '$work/hidden/inside'"
	like "$(symbols mount.data)" '^work_in_the_namespace$' "a program in a mount namespace of its own"
	ok "$([ ! -e hidden/inside ]; echo $?)" "which this namespace does not see"
	rm -f inside
	like "$(symbols mount.data -d inside)" '^work_in_the_namespace$' "and the report needs no file for it"
else
	skip "unshare -m is not allowed" "a program in a mount namespace of its own"
fi

# A root of its own in mount and pid namespaces, as a container has, and gone when the report is made: its program, its copy of libc.
libc=$(ldd /bin/sh 2>/dev/null | sed -n 's/.*libc\.so\.6 => \([^ ]*\).*/\1/p')
loader=$(readelf -l /bin/sh 2>/dev/null | sed -n 's/.*program interpreter: \([^]]*\).*/\1/p')
if unshare -mpf chroot / true 2>/dev/null && [ -r "$libc" ] && [ -r "$loader" ]; then
	cat >contained.c <<'C'
#include <stdlib.h>
#include <string.h>
static volatile unsigned long sink;
static unsigned long values[4096];
static int compare(const void *a, const void *b) { sink++; return memcmp(a, b, 8); }
__attribute__((noinline)) void work_in_the_container(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
int main(void)
{
	work_in_the_container(100000000);
	for (int round = 0; round < 150; round++) {
		for (unsigned long i = 0; i < 4096; i++)
			values[i] = (i + round) * 2654435761u;
		qsort(values, 4096, 8, compare);
	}
	return 0;
}
C
	mkdir -p "box$(dirname "$libc")" "box$(dirname "$loader")" box/opt box/proc
	cp -L "$libc" "box$libc" && cp -L "$loader" "box$loader" && "$CC" -O1 -g -o box/opt/contained contained.c
	record -o box.data -- unshare -mpf --mount-proc=box/proc chroot box /opt/contained
	before=$(symbols box.data --children -c contained)
	like "$before" '^work_in_the_container$' "a root of its own in a mount and a pid namespace: the program"
	like "$before" '^__libc_start_main' "its libc"
	rm -rf box contained.c
	is "$(symbols box.data --children -c contained)" "$before" "the same names when the root is gone"
else
	skip "unshare, chroot or libc's place" "a root of its own in a mount and a pid namespace"
fi

# What compilers split off has a name of its own, unless that is not wanted.
cat >clones.c <<'C'
static volatile unsigned long sink;
__attribute__((noinline, used)) static void split_cold(void) __asm__("split.cold");
__attribute__((noinline, used)) static void split_part(void) __asm__("split.part.0");
static void split_cold(void) { for (unsigned long i = 0; i < 80000000; i++) sink += i * i; }
static void split_part(void) { for (unsigned long i = 0; i < 80000000; i++) sink += i * i; }
int main(void) { split_cold(); split_part(); return 0; }
C
"$CC" -O1 -o clones clones.c
record -o clones.data -- ./clones
like "$(symbols clones.data | sort | tr '\n' ' ')" 'split\.cold split\.part\.0' "clones' suffixes are kept"
got=$(symbols clones.data --no-clones)
is "$(grep -c '^split$' <<<"$got")" 1 "--no-clones: one function"
unlike "$got" 'split\.' "and none of its parts"

# JIT code: pages of our own, named by a map that is written under the number that the process has in its own namespace.
cat >jit.c <<'C'
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
	/* mov $400000000,%ecx; 1: dec %ecx; jnz 1b; ret */
	static const unsigned char x86[] = { 0xb9, 0x00, 0x84, 0xd7, 0x17, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
	char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), path[64];
	memcpy(code, x86, sizeof(x86));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w");
	fprintf(map, "%lx %zx jitted_in_the_namespace\n", (unsigned long)code, sizeof(x86));
	fclose(map);
	((void (*)(void))code)();
	unlink(path);
	return getpid() > 100;
}
C
if [ "$(uname -m)" = x86_64 ] && "$CC" -O1 -o jit jit.c && unshare -mpf true 2>/dev/null; then
	record -o pid.data -- unshare -mpf sh -c "mount -t tmpfs none /tmp && exec '/proc/1/root/$work/jit'" ||
		record -o pid.data -- unshare -mpf --mount-proc sh -c "cd '$work' && ./jit; true"
	like "$(symbols pid.data)" '^jitted_in_the_namespace$' "JIT code of a process in a pid namespace"
else
	skip "not x86-64, or unshare -p is not allowed" "JIT code of a process in a pid namespace"
fi

# --symfs and --debug-dir: the file and its debug file elsewhere.
program stripped work_of_the_stripped -Wl,--build-id
objcopy --only-keep-debug stripped stripped.debug
strip -o bare stripped && mv bare stripped
id=$(readelf -n stripped | sed -n 's/.*Build ID: //p')
record --no-symbols -o stripped.data -- ./stripped
unlike "$(symbols stripped.data)" 'work_of_the_stripped' "a stripped program has no names"
ps report -i stripped.data --missing
like "$out" "why   stripped, and no debug file found \\(build ID $id\\)" "--missing names the build ID"
like "$out" "help  .*\\.build-id/${id:0:2}/${id:2}\\.debug with --debug-dir" "--missing names the file that helps"
mkdir -p "debug/.build-id/${id:0:2}" "tree$work"
cp stripped.debug "debug/.build-id/${id:0:2}/${id:2}.debug"
like "$(symbols stripped.data --debug-dir nowhere --debug-dir debug)" '^work_of_the_stripped$' "--debug-dir"
like "$("$perfsample" report -i stripped.data --format tsv -s srcline --debug-dir debug 2>/dev/null)" 'stripped.c:3' "--debug-dir: lines"
ps report -i stripped.data --missing --debug-dir debug
unlike "$out" 'no debug file found' "--missing with it has nothing to say of that file"
record --debug-dir debug -o named.data -- ./stripped
like "$(symbols named.data)" '^work_of_the_stripped$' "record --debug-dir"
mkdir -p "tree/usr/lib/debug/.build-id/${id:0:2}"
cp stripped.debug "tree/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug"
mv stripped "tree$work/stripped"
unlike "$(symbols stripped.data)" 'work_of_the_stripped' "without the file there is no name"
ps report -i stripped.data --missing
like "$out" 'why   no file with this path or build ID here' "--missing: no file"
like "$(symbols stripped.data --symfs tree)" '^work_of_the_stripped$' "--symfs: the file, and its debug file in the usual place below"

# Compressed debug sections are kept decompressed in the user's cache, unless that is not wanted.
{
	echo '#include <unistd.h>'
	for ((i = 0; i < 4000; i++)); do echo "struct s$i { int member_$i; struct s$i *next_$i; }; int f$i(struct s$i *s) { return s->member_$i; }"; done
	echo 'static volatile unsigned long sink; int main(void) { for (unsigned long i = 0; i < 150000000; i++) sink += i; return 0; }'
} >large.c
if "$CC" -O1 -g -gz -Wl,--build-id -o large large.c 2>cc.err; then
	rm -rf cache
	record --no-cache -o large.data -- ./large
	symbols large.data --no-cache >/dev/null
	ok "$([ ! -e cache ]; echo $?)" "--no-cache writes no cache"
	record --no-symbols -o large2.data -- ./large
	like "$("$perfsample" report -i large2.data --format tsv -s srcline --no-cache 2>/dev/null)" 'large.c:[0-9]' "--no-cache: lines all the same"
	ok "$([ ! -e cache ]; echo $?)" "and again no cache"
	symbols large2.data >/dev/null
	ok "$(find cache -type f 2>/dev/null | grep -q .; echo $?)" "without it there is one"
else
	skip "the compiler has no -gz" "--no-cache"
fi

# The formats of --missing.
"$perfsample" report -i stripped.data --missing --format json >missing.json 2>/dev/null
ok $? "--missing --format json"
if python3 -c 'import jsonschema' 2>/dev/null; then
	python3 - "$root/schema/perfsample-missing-1.json" missing.json <<'PYTHON'
import json, sys, jsonschema
document = json.load(open(sys.argv[2]))
jsonschema.validate(document, json.load(open(sys.argv[1])))
assert document["images"] and document["self"] == sum(i["self"]["samples"] for i in document["images"]), document
PYTHON
	ok $? "is as its schema says, and its parts add up"
else
	skip "no jsonschema" "is as its schema says"
fi
"$perfsample" report -i stripped.data --missing --format tsv >missing.tsv 2>/dev/null
is "$(awk -F'\t' '{ print NF }' missing.tsv | sort -u)" 10 "--missing --format tsv: as many columns on every line"
done_testing
