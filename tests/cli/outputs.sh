#!/bin/bash
# shellcheck disable=SC2016,SC2034 # scripts for sh; counters of waiting
# Where outputs go. What was named on purpose is written in place: devices, pipes, descriptors. What somebody else put under a name is not, and no name of ours is
# followed. And "wrote" is said of a file that is there.
. "$(dirname "$0")/tap.sh"
cd "$work" || exit 1
cp "$fixtures/small.data" in.data
small=$("$perfsample" fold -q -i in.data)
magic() { head -c 8 "$1" 2>/dev/null; }

# On purpose, and to oneself.
is "$("$perfsample" fold -q -i in.data -o /dev/stdout)" "$small" "fold -o /dev/stdout"
is "$("$perfsample" fold -q -i in.data -o /dev/fd/1)" "$small" "fold -o /dev/fd/1"
is "$("$perfsample" fold -q -i in.data -o /dev/fd/7 7>&1)" "$small" "fold -o /dev/fd/7"
is "$("$perfsample" fold -q -i in.data -o >(cat >to.txt) && for i in $(seq 50); do [ -s to.txt ] && break; sleep 0.1; done; cat to.txt)" "$small" "fold -o >(cat)"
{ echo before; "$perfsample" fold -q -i in.data -o /dev/fd/3; } 3>>appended.txt >&3
is "$(cat appended.txt)" "before
$small" "a descriptor of a file goes on where it is"
"$perfsample" inject -q -i in.data -o /dev/stdout 2>"$work/err" | "$perfsample" fold -q -i - >piped.txt 2>/dev/null
is "$(cat piped.txt)" "$("$perfsample" inject -q -i in.data -o - | "$perfsample" fold -q -i - 2>/dev/null)" "inject -o /dev/stdout streams"
for command in fold inject "export --format speedscope"; do
	# shellcheck disable=SC2086 # words
	"$perfsample" $command -q -i in.data -o /dev/null 2>"$work/err"
	ok $? "$command -o /dev/null"
done
[ -c /dev/null ] && [ ! -e /dev/null.old ]
ok $? "it stays what it is"
mkfifo pipe
(timeout 20 cat pipe >from.txt) &
"$perfsample" fold -q -i in.data -o pipe 2>"$work/err"
wait
is "$(cat from.txt)" "$small" "fold -o PIPE"
ln -s pipe link.to.pipe
(timeout 20 cat pipe >from.txt) &
"$perfsample" fold -q -i in.data -o link.to.pipe 2>"$work/err"
wait
is "$(cat from.txt)" "$small" "and by a link of one's own"
ln -s a b && ln -s b a
"$perfsample" fold -q -i in.data -o a 2>"$work/err"
is "$? $([ -f a ] && [ ! -L a ] && cat a)" "0 $small" "a link in a circle gives way to the file"
echo precious >precious
ln -s precious l.txt
"$perfsample" fold -q -i in.data -o l.txt
is "$(cat precious) $(cat l.txt)" "precious $small" "a link to a file gives way, the file stays"
refuses 6 "folder|directory" "a folder is none" fold -q -i in.data -o /
refuses 6 "nothing reads this pipe" "nor is a pipe that nobody reads" fold -q -i in.data -o pipe

# A name that nobody gave.
mkdir own && cd own || exit 1
cp ../in.data in.data
ln -s ../pipe flame.svg
timeout 20 "$perfsample" flame -q -i in.data 2>"$work/err"
[ -f flame.svg ] && [ ! -L flame.svg ] && [ -p ../pipe ]
ok $? "flame's own name takes the place of a link to a pipe"
ln -s ../pipe in.data.tar.gz
timeout 20 "$perfsample" archive -q -i in.data 2>"$work/err"
[ -f in.data.tar.gz ] && [ ! -L in.data.tar.gz ] && [ -L in.data.tar.gz.old ]
ok $? "archive's, too; the link is .old"
cd ..

# Somebody else's.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null && id nobody >/dev/null 2>&1; then
	chmod 755 "$work"
	mkdir theirs && chown nobody theirs
	mkfifo theirs/pipe && chown nobody theirs/pipe && chmod 644 theirs/pipe
	mknod theirs/device c 1 3
	setpriv --reuid nobody --clear-groups ln -s pipe theirs/to.pipe
	setpriv --reuid nobody --clear-groups ln -s /dev/null theirs/to.device
	setpriv --reuid nobody --clear-groups ln -s "$work/pipe" theirs/to.ours
	setpriv --reuid nobody --clear-groups ln -s to.device theirs/twice
	(exec timeout 60 setpriv --reuid nobody --clear-groups cat theirs/pipe >"$work/stolen") &
	reader=$!
	for name in pipe to.pipe to.device to.ours twice; do
		for command in "fold -q -i in.data" "inject -q -i in.data" "export -q --format speedscope -i in.data"; do
			# shellcheck disable=SC2086 # words
			refuses 6 "not followed" "${command%% *} -o $name of another user" $command -o "theirs/$name"
		done
	done
	ln -s theirs/to.pipe indirect
	refuses 6 "not followed" "nor by way of a link of one's own" fold -q -i in.data -o indirect
	ps fold -q -i in.data -o theirs/device
	is "$status" 0 "a device that root made there is one"
	mkdir sticky && chmod 1777 sticky
	setpriv --reuid nobody --clear-groups ln -s /dev/null sticky/theirs
	ln -s /dev/null sticky/ours
	refuses 6 "not followed" "a link of another user in a folder of all" fold -q -i in.data -o sticky/theirs
	ps fold -q -i in.data -o sticky/ours
	is "$status" 0 "one's own there is followed"
	setpriv --reuid nobody --clear-groups ln -s pipe theirs/flame.svg
	(cd theirs && timeout 20 "$perfsample" flame -q -i ../in.data 2>"$work/err" && [ -f flame.svg ] && [ ! -L flame.svg ])
	ok $? "a name that nobody gave takes the link's place there, too"
	SUDO_UID=$(id -u nobody) SUDO_GID=0 "$perfsample" fold -q -i in.data -o theirs/to.device 2>"$work/err"
	ok $? "who called sudo is oneself"
	kill "$reader" 2>/dev/null
	wait
	is "$(stat -c %s stolen)" 0 "nothing went to the other user"
else
	skip "needs root and a user nobody" "links and pipes of somebody else"
fi

# Nothing unfinished stays.
python3 - "$fixtures" <<'P'
import sys
with open("long.txt", "w") as f:
    for i in range(300000):
        f.write("app;" + ";".join("frame_%d_%d" % (i, j) for j in range(8)) + " 1\n")
P
case $(nm -D "$perfsample" 2>/dev/null) in
*__asan_* | *__tsan_*) skip "a sanitizer reserves terabytes" "memory that runs out leaves nothing" ;;
*)
	(ulimit -v 200000; "$perfsample" flame -q -i long.txt -o limited.svg >/dev/null 2>"$work/err")
	like "$? $(ls limited* 2>/dev/null)" '^6 $' "memory that runs out leaves nothing"
	;;
esac

if ! "$perfsample" check >/dev/null 2>&1; then
	skip "this host cannot record" "record: its own name, and a file that somebody took away"
	done_testing
fi
loop='i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'
mkdir rec && cd rec || exit 1
mkfifo pipe && ln -s pipe perf.data
timeout 60 "$perfsample" record -q -- sh -c "$loop" 2>"$work/err"
is "$? $(magic perf.data) $(readlink perf.data.old)" "0 PERFILE2 pipe" "record's own name takes the place of a link, which is .old"
rm -f perf.data perf.data.old
mkfifo perf.data
timeout 60 "$perfsample" record -q -- sh -c "$loop" 2>"$work/err"
is "$? $(magic perf.data) $([ -p perf.data.old ] && echo pipe)" "0 PERFILE2 pipe" "and of a pipe"
"$perfsample" record -q -o /dev/stdout -- sh -c "$loop" 2>"$work/err" | "$perfsample" report -q -i - >/dev/null 2>"$work/err"
is "${PIPESTATUS[*]}" "0 0" "record -o /dev/stdout streams"
"$perfsample" record -q -o /dev/stdout -- sh -c "$loop" >streamed.data 2>"$work/err"
is "$? $(magic streamed.data)" "0 PERFILE2" "into a file as well"

during() { # NAME PATTERN ACT: done when the file is there, while the command runs
	local name=$1 pattern=$2 act=$3
	rm -rf d && mkdir d
	"$perfsample" record -o d/x.data --summary s.json -- sh -c 'while [ ! -e stop ]; do i=$((i+1)); done' 2>"$work/err" &
	for i in $(seq 200); do [ -s d/x.data ] && break; sleep 0.05; done
	eval "$act"
	touch stop
	wait $!
	status=$?
	rm -f stop
	is "$status $(grep -c 'wrote ' "$work/err")" "6 0" "$name: status 6, and \"wrote\" is not said"
	like "$(cat "$work/err")" "$pattern" "and what became of it"
	is "$(python3 -c 'import json; d = json.load(open("s.json")); print(d["file"]["gone"], d["own_status"])')" "True 6" "in the summary's JSON"
}
during "removed" 'x.data: it was removed meanwhile' 'rm d/x.data'
during "replaced" 'x.data: it was replaced by another file' 'echo other >d/y && mv d/y d/x.data'
is "$(cat d/x.data)" other "the other file is left alone"
during "renamed" 'x.data: it was moved or renamed' 'mv d/x.data d/kept.data'
"$perfsample" report -q -i d/kept.data >/dev/null 2>"$work/err"
ok $? "it is whole, elsewhere"
during "its folder moved" 'x.data: it was moved or renamed' 'mv d e'
rm -rf e
during "its folder removed" 'x.data: it was removed meanwhile' 'rm -r d'
for limit in 60000 70000 80000 90000; do
	(ulimit -v $limit; timeout 60 "$perfsample" record -q -o limited.data -- sh -c "$loop" >/dev/null 2>&1)
done
is "$(find . -name '*.tmp')" "" "memory that runs out leaves no temporary file"
done_testing
