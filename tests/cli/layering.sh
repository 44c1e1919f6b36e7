#!/bin/bash
# Who may include whom: architecture's table, read off the #include lines. Also: files and functions of a readable length, no mutable
# globals beyond the ones named, and a repository that speaks of the software alone.
set -u
cd "$(dirname "$0")/../.." || exit 1
n=0 failed=0
check() { # NAME, then the violations on standard input
	local violations
	violations=$(cat)
	n=$((n + 1))
	if [ -z "$violations" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		printf '%s\n' "$violations" | sed 's/^/#   /'
		failed=1
	fi
}

# Room, then what it may use: rooms, or single headers of rooms whose types travel.
rooms="
base         base
elf          elf base
unwind       unwind elf base
symbols      symbols elf base
perf         perf elf base
proc         proc elf base perf/record.h
perfdata     perfdata perf elf base unwind/unwind.h
judge        judge base unwind/unwind.h
profile      profile elf base unwind/unwind.h
cli          cli base
record       record judge perf proc perfdata unwind elf base
load         load judge perfdata perf/record.h perf/plain.h perf/merge.h proc/space.h proc/dso.h unwind symbols profile elf base
archive      archive elf base
annotate     annotate report judge profile symbols elf base
report       report judge profile base elf/image.h unwind/unwind.h perfdata/note.h
export       export report judge profile base elf/image.h unwind/unwind.h perfdata/note.h
contrib      contrib base
trial        trial base
cmd          cmd cli record judge load annotate archive report export profile perf proc perfdata unwind symbols contrib trial elf base
"
room_of() { # of a file
	case $1 in
	src/main.c) echo cmd ;;
	src/*/*) local r=${1#src/}; echo "${r%%/*}" ;;
	contrib/flamegraph/tool.c) echo cmd ;;
	*) echo "${1%%/*}" ;;
	esac
}
files=$(find src unwind symbols contrib -name '*.[ch]' | sort)
check "rooms use only what the architecture lets them" < <(for f in $files; do
	room=$(room_of "$f")
	allowed=$(awk -v r="$room" '$1 == r { for (i = 2; i <= NF; i++) print $i }' <<<"$rooms")
	[ -n "$allowed" ] || { echo "$f: no such room as '$room'"; continue; }
	grep -o '^#include "[^"]*"' "$f" | sed 's/^#include "//; s/"$//' | while read -r header; do
		case $header in */*) ;; *) continue ;; esac # beside the file itself
		grep -qx -e "${header%%/*}" -e "$header" <<<"$allowed" || echo "$f uses $header"
	done
done)

check "sorts keep the order of equals: sort_stable, not qsort" < <(grep -nE '\<(qsort|qsort_r|heapsort)\(' $files)

check "no file is longer than 700 lines" < <(for f in $(find src unwind symbols contrib tests/unit tests/fuzz bench -name '*.[ch]' 2>/dev/null | sort); do
	lines=$(wc -l <"$f")
	[ "$lines" -le 700 ] || echo "$f: $lines lines"
done)

check "no function is longer than 80 lines" < <(for f in $files; do
	case $f in *.c) ;; *) continue ;; esac
	awk -v f="$f" '/^[a-z].*\)( __attribute__.*)?$/ { name = $0; start = NR } /^\{$/ { open = NR } /^}$/ { if (open && NR - open > 80) print f ":" start ": " NR - open " lines: " name; open = 0 }' "$f"
done)

# Static data that is written. Allowed: the log level (base/log.c), the keys of hashes (base/hash.c), what to remove when the process cannot go on (base/unfinished.c), the signal flag (record), and what elf/guard.c's SIGBUS handler reads.
library=${BUILD:-build}/libperfsample.a
if [ -f "$library" ] && [ "${BUILD:-build}" = build ]; then
	check "no mutable globals but the log level, the keys of hashes, the unfinished files, the signal flag and the SIGBUS guard" < <(
		nm -f sysv --defined-only "$library" 2>/dev/null | awk -F'|' '
			/^Symbols from/ { object = $0; sub(/.*\[/, "", object); sub(/\].*/, "", object) }
			NF >= 7 { gsub(/ /, "", $1); gsub(/[ \t]/, "", $7) }
			NF >= 7 && $7 ~ /^\.(data|bss|tbss|tdata)/ && $7 !~ /^\.data\.rel\.ro/ { print object ": " $1 }' |
			grep -v -E '^(log\.o: highest_level|hash\.o: hash_keys|unfinished\.o: slots|guard\.o: .*|[a-z_]+\.o: [a-z_]*signal[a-z_]*)$' | sort -u)
fi

check "every header has its include guard" < <(for f in $files; do
	case $f in *.h) ;; *) continue ;; esac
	guard=$(sed -n 's/^#ifndef //p' "$f" | head -n 1)
	grep -q "^#define $guard\$" "$f" || echo "$f: no include guard"
done)

# src/record/child.c and src/trial/run.c have what runs between fork and exec.
check "below the commands nothing prints or ends the process" < <(for f in $files; do
	case $f in src/record/child.c | src/trial/run.c | src/base/* | src/cli/* | src/cmd/* | src/main.c | contrib/*) continue ;; esac
	grep -n -E '\b(exit|_exit|abort|printf|puts|perror|err|errx)\(' "$f" | grep -v -E '^[0-9]+:\s*//' | sed "s|^|$f:|"
done)

check "no path of a workplace and no package registry is named" < <(git grep -n -I -i -E '(^|[^a-z])/(work|tmp/ps)/|registry\.npmjs|pypi\.org|crates\.io|proxy\.golang' -- . ':!tests/cli/layering.sh' 2>/dev/null)
echo "1..$n"
exit $failed
