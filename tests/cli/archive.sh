#!/bin/bash
# perfsample archive and record --save-images: binaries by build ID, laid out as perf keeps them, packed, unpacked, found again; hostile archives.
# shellcheck disable=SC2154 # tap.sh sets what it names
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/waits.sh"
CC=${CC:-gcc}
cd "$work" || exit 1
export XDG_CACHE_HOME=$work/cache HOME=$work/home
mkdir home

# Hostile archives, made by hand.
python3 - <<'PYTHON'
import io, tarfile
def make(name, *members):
    with tarfile.open(name, "w", format=tarfile.PAX_FORMAT) as tar:
        for path, kind, value in members:
            info = tarfile.TarInfo(path)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(value)
                tar.addfile(info, io.BytesIO(value))
            else:
                info.linkname = value
                tar.addfile(info)
f, l, h = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
make("absolute.tar", ("/tmp/perfsample-archive-escaped", f, b"x"))
make("dots.tar", ("a/../../escaped", f, b"x"))
make("dots2.tar", ("../escaped", f, b"x"))
make("link-out.tar", (".build-id/ab/cd", l, "../../../escaped"))
make("link-absolute.tar", ("a/b", l, "/etc/passwd"))
make("through-link.tar", ("a/b", l, "../c"), ("a/b/escaped", f, b"x"))
make("hard.tar", ("good", f, b"x"), ("hard", h, "/etc/passwd"))
make("device.tar", ("device", tarfile.CHRTYPE, ""))
make("fifo.tar", ("fifo", tarfile.FIFOTYPE, ""))
make("good.tar", ("a/" + "long/" * 60 + "elf", f, b"long"), (".build-id/ab/cd", l, "../../a/b"), ("a/plain", f, b"plain"))
make("over.tar", ("a/plain", f, b"other"))
make("through-file.tar", ("a/plain/elf", f, b"x"))
open("cut.tar", "wb").write(open("good.tar", "rb").read()[:3000])
open("junk.tar", "wb").write(b"no tar at all" * 100)
PYTHON
for name in absolute dots dots2 link-out link-absolute through-link hard device fifo junk cut; do
	rm -rf into
	ps archive --unpack $name.tar --into into
	is "$status" 4 "$name: status 4"
	ok "$([ ! -e escaped ] && [ ! -e into/escaped ] && [ ! -e /tmp/perfsample-archive-escaped ] && [ ! -L into/a/b ] || [ $name = through-link ]; echo $?)" \
		"$name: nothing outside"
done
ok "$([ ! -e into/c/escaped ] && [ ! -e c ]; echo $?)" "nothing is written through a link"
rm -rf into
ps archive --unpack good.tar --into into
is "$status" 0 "an archive by another's tar"
is "$(cat into/a/"$(printf 'long/%.0s' {1..60})"elf)" long "a name of 300 characters"
is "$(readlink into/.build-id/ab/cd)" ../../a/b "a link"
ps archive --unpack over.tar --into into
is "$(cat into/a/plain)" plain "what is there already is left alone"
ps archive --unpack through-file.tar --into into
is "$status" 4 "a folder where there is a file: status 4"
is "$(find into -name '*.tmp')" "" "no temporary file is left"
ps archive --into into
is "$status" 2 "--into without --unpack: status 2"
ps archive -i absent.data
is "$status" 4 "no recording: status 4"

if ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	skip "this host cannot record, or has no compiler" "an archive of a recording"
	done_testing
fi
cat >hot.c <<'C'
static volatile unsigned long sink;
__attribute__((noinline)) void work_in_the_archive(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
int main(void) { work_in_the_archive(150000000); return 0; }
C
"$CC" -O1 -g -Wl,--build-id -o hot "$work/hot.c"
objcopy --only-keep-debug hot hot.debug && strip hot && objcopy --add-gnu-debuglink=hot.debug hot
id=$(readelf -n hot | sed -n 's/.*Build ID: //p')
"$perfsample" record -q --no-symbols -o hot.data -- ./hot 2>record.err
ps archive -i hot.data -o hot.tar
is "$status" 0 "an archive of a recording"
listing=$(tar tvf hot.tar)
like "$listing" " ${work#/}/hot/$id/elf\$" "the binary, as perf names it"
like "$listing" " ${work#/}/hot/$id/debug\$" "its debug file"
like "$listing" " \\.build-id/${id:0:2}/${id:2} -> \\.\\./\\.\\./${work#/}/hot/$id\$" "the link by build ID"
"$perfsample" archive -i hot.data -o again.tar 2>/dev/null
ok "$(cmp -s hot.tar again.tar; echo $?)" "the same bytes again"
"$perfsample" archive -i hot.data 2>/dev/null
ok "$(gzip -t hot.data.tar.gz; echo $?)" "by default beside the recording, compressed"
mkdir elsewhere && mv hot hot.debug hot.c elsewhere/
unlike "$("$perfsample" report -i hot.data --format tsv 2>/dev/null)" work_in_the_archive "without its files the recording has no name"
ps archive --unpack hot.data.tar.gz
is "$status" 0 "unpacked where it is looked for"
like "$("$perfsample" report -i hot.data --format tsv 2>/dev/null)" work_in_the_archive "the name is back"
like "$("$perfsample" report -i hot.data --format tsv -s srcline 2>/dev/null)" 'hot.c:2' "and the line"
mv home/.debug moved
mkdir home/.debug
tar xf hot.data.tar.gz -C home/.debug
is "$(cd moved && find . | sort)" "$(cd home/.debug && find . | sort)" "tar unpacks the same"
if command -v perf >/dev/null && perf version >/dev/null 2>&1; then # Debian's perf is a script that may find no binary
	like "$(perf --buildid-dir "$work/home/.debug" report -i hot.data --stdio --no-children 2>/dev/null)" work_in_the_archive "perf finds it there"
	mkdir -p other_home/.debug
	tar xf hot.data.tar.gz -C other_home/.debug
	rm -rf home/.debug
	like "$(HOME=$work/other_home perf report -i hot.data --stdio --no-children 2>/dev/null)" work_in_the_archive "perf report, HOME elsewhere"
	like "$(HOME=$work/other_home perf script -i hot.data -F ip,sym 2>/dev/null)" work_in_the_archive "perf script, HOME elsewhere"
else
	skip "no perf" "perf finds it there"
fi
rm -rf home/.debug moved

# record --save-images keeps the file that ran, deleted or not.
cat >held.c <<'C'
#include <unistd.h>
static volatile unsigned long sink;
int main(void) { for (int i = 0; i < 150000000 || access("working", F_OK) == 0; i++) sink += i; return 0; }
C
"$CC" -O1 -Wl,--build-id -o held held.c
id=$(readelf -n held | sed -n 's/.*Build ID: //p')
cp held running
touch gate working
sh -c 'while [ -e gate ]; do sleep 0.02; done; exec ./running' &
pid=$!
"$perfsample" record --save-images -o saved.data -p $pid 2>record.err &
recorder=$!
soon is_recording saved.data
rm gate
holds_running() { grep -q "$work/running" /proc/$recorder/maps; } # what it has read of the program stays mapped
soon holds_running
rm running working
wait $pid $recorder
like "$(cat record.err)" 'kept [0-9]+ binar(y|ies) in .*/home/\.debug' "record --save-images says what it kept"
ok "$([ -s "home/.debug/.build-id/${id:0:2}/${id:2}/elf" ]; echo $?)" "the binary is found by build ID, though it was deleted while it ran"
ok "$(cmp -s "home/.debug/.build-id/${id:0:2}/${id:2}/elf" held; echo $?)" "byte by byte"
"$perfsample" record --save-images -o saved2.data -- ./held 2>record.err
ok $? "another time"
like "$(cat record.err)" 'kept [0-9]+ binar(y|ies).* [1-9][0-9]* were there' "what is there is kept once"

# Split DWARF and dwz: what the debug information is spread over goes along, and is found where it is unpacked.
lines() { "$perfsample" report -i "$1" --format tsv -s symbol,srcline 2>/dev/null; }
rm -rf home/.debug
mkdir -p split/sub && cd split || exit 1
cat >main.c <<'C'
void work_in_a_unit_of_its_own(unsigned long n);
int main(void) { work_in_a_unit_of_its_own(150000000); return 0; }
C
cat >sub/work.c <<'C'
static volatile unsigned long sink;
static inline __attribute__((always_inline)) unsigned long inlined_in_the_dwo(unsigned long i) { return i * i + 1; }
__attribute__((noinline)) void work_in_a_unit_of_its_own(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += inlined_in_the_dwo(i); }
C
"$CC" -O1 -g -gsplit-dwarf -c -o main.o main.c && "$CC" -O1 -g -gsplit-dwarf -c -o sub/work.o sub/work.c &&
	"$CC" -Wl,--build-id -o prog main.o sub/work.o
"$perfsample" record -q --no-symbols -o prog.data -- ./prog 2>record.err
ps archive -i prog.data -o prog.tar
like "$(tar tf prog.tar)" "/split/prog/[0-9a-f]+/sub/work\.dwo\$" "a .dwo file is packed"
like "$(tar tf prog.tar)" "/split/prog/[0-9a-f]+/main\.dwo\$" "and the other"
rm -rf prog sub ./*.dwo
unlike "$(lines prog.data)" inlined_in_the_dwo "without the files there is no inlined function"
"$perfsample" archive --unpack prog.tar 2>/dev/null
like "$(lines prog.data)" 'inlined_in_the_dwo.*work\.c:2' "from the archive there is, and its line"
if command -v llvm-dwp >/dev/null || command -v dwp >/dev/null; then
	rm -rf ../home/.debug && mkdir sub
	cat >one.c <<'C'
static volatile unsigned long sink;
static inline __attribute__((always_inline)) unsigned long inlined_in_the_package(unsigned long i) { return i * i + 1; }
int main(void) { for (unsigned long i = 0; i < 150000000; i++) sink += inlined_in_the_package(i); return 0; }
C
	"$CC" -O1 -gdwarf-4 -gsplit-dwarf -c -o one.o one.c && "$CC" -Wl,--build-id -o one one.o
	if dwp -e one -o one.dwp 2>/dev/null || llvm-dwp -e one -o one.dwp 2>/dev/null; then
		rm -f ./*.dwo
		"$perfsample" record -q --no-symbols -o one.data -- ./one 2>record.err
		"$perfsample" archive -i one.data -o one.tar 2>/dev/null
		like "$(tar tf one.tar)" "/split/one/[0-9a-f]+/elf\.dwp\$" "a .dwp package is packed"
		rm -f one one.dwp
		"$perfsample" archive --unpack one.tar 2>/dev/null
		like "$(lines one.data)" 'inlined_in_the_package.*one\.c:2' "and read from the archive"
	else
		skip "dwp makes no package here" "a .dwp package is packed"
	fi
else
	skip "no dwp" "a .dwp package is packed"
fi
cd .. || exit 1
if command -v dwz >/dev/null; then
	rm -rf home/.debug
	mkdir -p shared && cd shared || exit 1
	{ # an abstract function with a type of its own that both have: it moves into the shared file
		for ((i = 0; i < 200; i++)); do echo "struct shared_$i { int member_$i; struct shared_$i *next_$i; };"; done
		echo 'static inline __attribute__((always_inline)) unsigned long inlined_and_shared(unsigned long i)'
		echo '{ struct shared_7 *unused = 0; for (int k = 0; k < 8; k++) i = i * 1234567 + (i >> 3) / 7; return i + (unused != 0); }'
	} >shared.h
	for name in first second; do
		printf '#include "shared.h"\nstatic volatile unsigned long sink;\nint main(void) { for (unsigned long i = 0; i < 15000000; i++) sink += inlined_and_shared(i); return 0; }\n' >$name.c
		"$CC" -O1 -g -gdwarf-4 -fno-eliminate-unused-debug-types -Wl,--build-id -o $name $name.c
	done
	if dwz -m common.dwz first second 2>/dev/null && readelf -S first | grep -q gnu_debugaltlink; then
		"$perfsample" record -q --no-symbols -o first.data -- ./first 2>record.err
		like "$(lines first.data)" 'inlined_and_shared' "dwz: a name in the shared file"
		"$perfsample" archive -i first.data -o first.tar 2>/dev/null
		like "$(tar tf first.tar)" "/shared/common\.dwz/[0-9a-f]+/debug\$" "the shared file is packed"
		rm -f first common.dwz
		"$perfsample" archive --unpack first.tar 2>/dev/null
		like "$(lines first.data)" 'inlined_and_shared.*shared\.h:[0-9]' "and read from the archive"
	else
		skip "dwz found nothing to share" "dwz: a name in the shared file"
	fi
	cd .. || exit 1
else
	skip "no dwz" "dwz: a name in the shared file"
fi
done_testing
