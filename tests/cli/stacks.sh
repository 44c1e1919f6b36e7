#!/bin/bash
# Stacks that others recorded, with the frames they expect of them: snapshots of registers and memory, core files, recordings. Then cores made here,
# beside eu-stack.
. "$(dirname "$0")/tap.sh"
corpus=${PERFSAMPLE_CORPUS:-../shared/data}/corpus
tools=$root/tests/tools
unpack() { # FILE TO: gzipped or not
	if [ -e "$1.gz" ]; then gzip -dc "$1.gz" >"$2"; else cat "$1" >"$2"; fi
}
agree() { # NAME COMMAND…: the command's last line says how many agree
	local name=$1
	shift
	"$@" >"$work/agree" 2>&1
	ok $? "$name: $(tail -n 1 "$work/agree")" || head -n 5 "$work/agree"
}

# ---------------------------------------------------------------- snapshots and cores of others
if [ -d "$corpus/unwind" ]; then
	for from in "$corpus"/unwind/*/; do
		name=$(basename "$from")
		mkdir "$work/$name"
		for file in "$from"*; do
			base=$(basename "$file")
			unpack "$from${base%.gz}" "$work/$name/${base%.gz}"
		done
		if [ -e "$work/$name/maps.txt" ]; then
			ps debug snapshot "$work/$name"
			is "$out" "$(cat "$work/$name/output.txt")" "$name: every frame ($(wc -l <"$work/$name/output.txt"))"
		else
			program=$(cd "$work/$name" && echo *.core)
			program=${program%.core}
			[ -e "$work/$name/$program" ] || program=$program.exec
			ps debug core "$work/$name/${program%.exec}.core" "$work/$name/$program"
			is "$(grep -E '^(TID|#[0-9])' <<<"$out")" "$(sed '/^# eu-stack -i/,$d' "$work/$name/eu-stack.expected.txt" | grep -E '^(TID|#[0-9])' | sed 's/ - .*//')" \
				"$name: every frame of every thread ($(grep -c '^#' <<<"$out"))"
		fi
	done
else
	skip "no corpus (PERFSAMPLE_CORPUS)" "snapshots and cores of others"
fi

# ---------------------------------------------------------------- recordings of others
symfs=$work/symfs
program_at() { # STORED PATH
	mkdir -p "$symfs$(dirname "$2")"
	unpack "$corpus/perfdata/binaries/$1" "$symfs$2"
}
if [ -d "$corpus/perfdata" ]; then
	milian=/home/milian/projects/kdab/rnd/hotspot/3rdparty/perfparser/tests/auto/perfdata
	program_at vector_static_gcc_v9.1.0 $milian/vector_static_gcc/vector_static_gcc_v9.1.0
	program_at vector_static_gcc_v9.1.0 /home/dknysh/kdab-disasm-fraames/hotspot/3rdparty/perfparser/tests/auto/perfdata/vector_static_gcc/vector_static_gcc_v9.1.0
	program_at fork $milian/fork_static_gcc/fork
	program_at cpp-inlining /home/lieven/KDAB/hotspot/3rdparty/perfparser/tests/auto/perfdata/cpp-inlining/cpp-inlining
	for expected in "$corpus"/perfdata/*.expected-stacks.txt.gz; do
		name=$(basename "$expected" .expected-stacks.txt.gz)
		program=$symfs$milian/vector_static_gcc/vector_static_gcc_v9.1.0
		[[ $name = *fork* ]] && program=$symfs$milian/fork_static_gcc/fork
		unpack "$corpus/perfdata/$name" "$work/recording"
		gzip -dc "$expected" >"$work/expected"
		"$perfsample" script -i "$work/recording" --symfs "$symfs" >"$work/script" 2>"$work/err"
		agree "$name: every frame as elfutils unwinds it" python3 "$tools/compare_stacks.py" "$work/expected" "$work/script" "$program" "$([[ $name = *lbr* ]] && echo lbr)"
	done
	for golden in "$corpus"/perfdata/*.perf61.folded.txt; do
		name=$(basename "$golden" .perf61.folded.txt)
		unpack "$corpus/perfdata/$name" "$work/recording"
		"$perfsample" fold --no-inline --no-period -i "$work/recording" --symfs "$symfs" >"$work/folded" 2>"$work/err"
		agree "$name: as perf 6.1 folds it" python3 "$tools/compare_folded.py" "$([[ $name = *lbr* ]] && echo depth || echo leaf)" "$golden" "$work/folded"
	done
	for golden in "$corpus"/perfdata/*.foldedstack*.txt; do
		name=$(basename "$golden" .txt)
		event=${name##*.foldedstack}
		event=${event#_}
		"$perfsample" fold --period ${event:+-e "${event//_/-}"} -i "$corpus/perfdata/${name%.foldedstack*}.data" >"$work/folded" 2>"$work/err"
		agree "$name: as simpleperf adds it up" python3 "$tools/compare_folded.py" totals "$golden" "$work/folded"
	done
else
	skip "no corpus (PERFSAMPLE_CORPUS)" "recordings of others"
fi

# ---------------------------------------------------------------- what is refused
mkdir "$work/bad"
ps debug snapshot "$work/bad"
is $status 4 "an empty folder is bad input"
like "$err" 'bad: regs.txt: No such file' "and the file that lacks is named"
printf 'a0: 1\nsp: 2\npc: 3\n' >"$work/bad/regs.txt"
ps debug snapshot "$work/bad"
like "$status$err" '^4.*regs.txt: registers of no machine that is known; expected those of x86-64' "another machine is refused, clearly"
printf 'rip: 1000\nrsp: zz\n' >"$work/bad/regs.txt"
ps debug snapshot "$work/bad"
like "$status$err" "^4.*regs.txt: register rsp: ' zz', expected a hexadecimal number" "a register that is no number"
printf 'rip: 1000\n' >"$work/bad/regs.txt"
ps debug snapshot "$work/bad"
like "$status$err" '^4.*regs.txt: expected at least the program counter and the stack pointer' "no stack pointer"
printf 'rip: 1004\nrsp: 7000\n' >"$work/bad/regs.txt"
printf '1000-2000 r-xp 0 00:00 0 ../../etc/passwd\nnonsense\n' >"$work/bad/maps.txt"
ps debug snapshot "$work/bad"
like "$status $(tail -n 1 <<<"$err")" '^4 .*maps.txt: mapping 2: expected START-END' "a broken map"
printf '1000-2000 r-xp 10 00:00 0 ../../etc/passwd\n' >"$work/bad/maps.txt"
ps debug snapshot "$work/bad"
is "$status$out" "0  #00 pc 0000000000000004  ../../etc/passwd (offset 0x10)" "no memory: the first frame all the same"
like "$err" 'no stack\*.data: without memory there is no frame but the first' "and the lack is told"
printf 'short' >"$work/bad/stack.data"
ps debug snapshot "$work/bad"
like "$status $(tail -n 1 <<<"$err")" '^4 .*stack.data: 5 bytes, expected an address of 8 bytes' "memory without its address"
printf '\0\160\0\0\0\0\0\0\1\2\3\4\5\6\7\10' >"$work/bad/stack.data"
ps debug snapshot "$work/bad"
is "$status/$out" "0/  #00 pc 0000000000000004  ../../etc/passwd (offset 0x10)" "a file that is not to be had, or lies outside, costs the frames behind it alone"
like "$err" 'passwd: No such file' "and is named"
ps debug core "$work/bad/regs.txt" "$perfsample"
like "$status$err" '^4.*regs.txt: offset 0: not an ELF file' "a core that is none"
ps debug core "$perfsample" "$perfsample"
like "$status$err" '^4.*offset 16: ELF type 3, expected 4' "a program instead of a core"
ps debug core "$perfsample"
is $status 2 "a core without its program is a wrong usage"

# ---------------------------------------------------------------- cores made here
make_core() { # NAME FLAGS…
	(cd "$work" && gcc -O1 -g -fno-optimize-sibling-calls -pthread "${@:2}" -o "$1" "$fixtures/crash.c" 2>err &&
		{ rm -f core*; (ulimit -c unlimited && exec "./$1"); mv -f core* "$1.core"; } 2>/dev/null; [ -s "$1.core" ]) 2>/dev/null
}
if ! command -v gcc >/dev/null || [ "$(uname -m)" != x86_64 ]; then
	skip "no gcc for x86-64" "cores made here"
elif [[ $(cat /proc/sys/kernel/core_pattern) = */* || $(cat /proc/sys/kernel/core_pattern) = '|'* ]]; then
	skip "core_pattern puts cores elsewhere" "cores made here"
else
	for kind in pie static static-pie; do
		if ! make_core "crash-$kind" "-$kind"; then
			skip "it cannot be linked here, or leaves no core" "a core of a $kind program"
			continue
		fi
		ps debug core "$work/crash-$kind.core" "$work/crash-$kind"
		first=$(sed -n '/^TID/,/^TID/p' <<<"$out" | sed '1d;/^TID/,$d' | awk '{ print $3 }' | sed 's/@.*//' | tr '\n' ' ')
		like "$first" 'abort die on_signal (__restore_rt )?fault middle middle middle middle main .*_start $' \
			"$kind: from a handler on a stack of its own to what it interrupted, and to the root"
		like "$(sed '1,/^TID/d;1,/^TID/d' <<<"$out" | awk '{ print $3 }' | tr '\n' ' ')" 'wait_here thread start_thread ' "$kind: the other thread"
		if command -v eu-stack >/dev/null; then
			eu-stack --core "$work/crash-$kind.core" -e "$work/crash-$kind" -r 2>/dev/null >"$work/peer"
			is "$(awk '/^(TID|#)/ { print $1, $2, $3 }' <<<"$out")" "$(awk '/^(TID|#)/ { print $1, $2, $3 }' "$work/peer")" \
				"$kind: every address and name as eu-stack prints it"
		else
			skip "no eu-stack" "$kind: as eu-stack prints it"
		fi
	done
	kind_of_core() { # NAME MODE FLAGS…
		(cd "$work" && gcc -O1 -fno-optimize-sibling-calls "${@:3}" -o "$1" "$fixtures/corekinds.c" 2>err &&
			{ rm -f core*; (ulimit -c unlimited && exec "./$1" "$2"); mv -f core* "$1.core"; } 2>/dev/null; [ -s "$1.core" ]) 2>/dev/null
		ps debug core "$work/$1.core" "$work/$1"
		names=$(awk '/^#/ { print $3 }' <<<"$out" | sed 's/@.*//' | tr '\n' ' ')
	}
	kind_of_core null null
	like "$(sed -n 3p <<<"$out") $names" '^#0  0x0000000000000000 +caller main .*_start $' "a null pointer was called: its caller is found all the same"
	for flags in -fno-omit-frame-pointer "-fno-omit-frame-pointer -static"; do
		# shellcheck disable=SC2086
		kind_of_core handler handler -fno-asynchronous-unwind-tables -fno-unwind-tables $flags
		like "$names" 'on_second __restore_rt .*raise on_first __restore_rt .*raise main .*_start $' "handlers without CFI (${flags##* }): through both to what was interrupted"
	done
	for flags in "" -Wl,--build-id=none; do
		# shellcheck disable=SC2086
		kind_of_core again again $flags
		like "$names" 'abort die moved run_again main .*_start $' "a part of the program mapped once more ${flags:+(no build ID)}: it has its names there"
	done
	kind_of_core vdso vdso -static
	like "$names" 'on_alarm __restore_rt .*clock_gettime .*ask_time run_vdso main .*_start $' "interrupted in the vdso, which only the core has"
	# NT_AUXV (6) becomes a type that nobody knows: nothing tells where the vdso is.
	python3 -c 'import sys; d = open(sys.argv[1], "rb").read(); at = d.index(b"\6\0\0\0CORE\0"); open(sys.argv[1], "wb").write(d[:at] + b"\x77" + d[at + 1:])' \
		"$work/vdso.core"
	before=$names
	ps debug core "$work/vdso.core" "$work/vdso"
	is "$(awk '/^#/ { print $3 }' <<<"$out" | sed 's/@.*//' | tr '\n' ' ')" "$before" "the same where nothing tells where it is"
	[ -s "$work/crash-pie.core" ] || { done_testing; }
	head -c 3000 "$work/crash-pie.core" >"$work/cut.core"
	ps debug core "$work/cut.core" "$work/crash-pie"
	like "$status$err" '^4.*cut.core: offset 0x[0-9a-f]*: .*expected' "a core cut short in its notes"
	head -c 50000 "$work/crash-pie.core" >"$work/cut.core"
	ps debug core "$work/cut.core" "$work/crash-pie"
	is "$status/$(grep -c '^#0 ' <<<"$out")" 0/2 "a core cut short behind them: both leaves are there"
	ps debug core "$work/crash-pie.core" "$perfsample"
	like "$status$err" '^4.*is not the program of .*another build ID' "another program is not believed"
fi
done_testing
