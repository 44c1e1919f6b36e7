#!/bin/bash
# Frames that no CFI leads to: each marked with how it was found, and counted, by every way out. The program has functions without CFI: one that
# keeps a frame pointer, one that does not, and a leaf in assembly. It is linked statically: the dynamic linker's first code has no CFI, and a sample
# that falls there, one run in eight, ends at a guessed root. What is left of such code, in the compiler's own start and end files, is told by its names.
. "$(dirname "$0")/tap.sh"
if [ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 9)" -gt 2 ]; then
	echo "1..0 # SKIP perf_event_paranoid, and this is not root"
	exit 0
fi
if [ "$(uname -m)" != x86_64 ] || ! command -v gcc >/dev/null; then
	echo "1..0 # SKIP no gcc for x86-64"
	exit 0
fi
cat >"$work/main.c" <<'C'
#include <time.h>
void held(long), bare(long), leaf(long);
static volatile long sink;
__attribute__((noinline)) void spin(long n) { for (long i = 0; i < n; i++) sink += i * i; }
__attribute__((noinline)) void told(long n) { spin(n); sink++; }
int main(void) { while (clock() < CLOCKS_PER_SEC / 10 * 4) { held(2000000); bare(500000); told(500000); leaf(3000000); } return 0; }
C
cat >"$work/held.c" <<'C'
void spin(long); static volatile long sink;
void held(long n) { spin(n); sink++; }
C
sed 's/held/bare/' "$work/held.c" >"$work/bare.c"
cat >"$work/leaf.s" <<'S'
	.globl	leaf
	.type	leaf, @function
leaf:	push	%rbx
1:	dec	%rdi
	jnz	1b
	pop	%rbx
	ret
	.size	leaf, .-leaf
	.section	.note.GNU-stack, "", @progbits
S
without='-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-optimize-sibling-calls'
# shellcheck disable=SC2086
(cd "$work" && gcc -O1 -fno-optimize-sibling-calls -c main.c && gcc -O1 $without -fno-omit-frame-pointer -c held.c && \
	gcc -O1 $without -fomit-frame-pointer -c bare.c && gcc -static -o mixed main.o held.o bare.o leaf.s) || { echo "Bail out! the program is not built"; exit 1; }

# Whatever stands above a function without CFI was guessed; nothing else was. Prints samples, stacks with a guess, by which guess they pass held and leaf,
# and how many lie in the code without CFI that every program has.
cat >"$work/judge.py" <<'P'
import collections, sys
crt = {"_init", "_fini", "__do_global_dtors_aux", "register_tm_clones", "deregister_tm_clones", "frame_dummy"}
without, guesses = {"held", "bare", "leaf"}, {"fp", "leaf_rule", "code"}
wrong, stacks, guessed, of_crt, how = 0, 0, 0, 0, collections.Counter()
for paragraph in open(sys.argv[1]).read().split("\n\n"):
    frames = [line.split()[1:] for line in paragraph.splitlines() if line.startswith("\t")]
    if not frames:
        continue
    stacks += 1
    guessed += any(via in guesses for _, via in frames)
    if any(name in crt for name, _ in frames):
        of_crt += 1
        continue
    for (below, _), (name, via) in zip(frames, frames[1:]):
        if (below in without) != (via in guesses):
            wrong += 1
            print("# wrong:", below, "is below", name, via)
        if below in without and name == "main":
            how[f"{below} {via}"] += 1
print(stacks, guessed, wrong, how["held code"], how["leaf code"], of_crt)
P
judge() { # FILE NAME : sets stacks, guessed
	ps script -i "$1" -F ip,sym,via
	printf '%s\n' "$out" >"$work/script"
	read -r stacks guessed wrong held leaf of_crt < <(python3 "$work/judge.py" "$work/script" | tee "$work/said" | tail -1)
	[ "$stacks" -gt 100 ] && [ "$wrong" -eq 0 ]
	ok $? "$2: above functions without CFI every frame is marked, no other: $stacks stacks, $guessed guessed" || sed 's/^/#   /' "$work/said"
	[ "$held" -gt 20 ] && [ "$leaf" -gt 20 ]
	ok $? "$2: $held times main was found by held's instructions, $leaf times by those of the assembly leaf"
}
counted() { # FILE EXPRESSION NAME
	ps report -i "$1" --format json
	python3 -c 'import json, sys; ends = json.load(sys.stdin)["events"][0]["stack_ends"]; stacks, guessed, of_crt = map(int, sys.argv[2:]); print("#  ", ends); sys.exit(not eval(sys.argv[1]))' \
		"$2" "$stacks" "$guessed" "$of_crt" <<<"$out"
	ok $? "$3"
}

(cd "$work" && "$perfsample" record -F 997 -o live.data ./mixed) >"$work/log" 2>&1
judge "$work/live.data" "unwound live"
counted "$work/live.data" 'ends["guessed"] == guessed and 0 < ends["via"]["code"] <= ends["guessed"] and ends["via"]["cfi"] > 0' "the report counts the same stacks"
counted "$work/live.data" 'ends["root"] > 0.7 * stacks and ends.get("root_guessed", 0) <= of_crt' "their roots are told by CFI, as libc has it"
(cd "$work" && "$perfsample" record -F 997 --unwind post --call-graph dwarf,8192 -o raw.data ./mixed) >"$work/log" 2>&1
judge "$work/raw.data" "unwound by the reader"
counted "$work/raw.data" 'ends["guessed"] == guessed' "the report counts the same stacks"
ps inject -i "$work/raw.data" -o "$work/injected.data"
is "$("$perfsample" script -i "$work/injected.data" -F ip,sym,via)" "$(cat "$work/script")" "inject keeps the marks"

data=$work/live.data
ps report -i "$data"
like "$out" '^stacks +[0-9.]+% .*$' "the report's line"
like "$out" '^ {10}[0-9.]+% hold a frame found without CFI$' "and below it what was guessed"
ps report -i "$data" --wide
like "$out" '^stacks +[0-9.]+% hold a frame found without CFI$' "the wide layout"
ps script -i "$data" --header -F comm
like "$out" "^# stacks: .*; with a guessed frame [0-9]+\$" "script --header"
ps script -i "$data"
unlike "$out" ' (fp|leaf_rule|code|cfi)$' "script as perf has it"
ps fold -i "$data" --guessed
like "$out" ';main_\[g\];held;spin ' "fold --guessed"
unlike "$out" '(held|told|bare|leaf|spin)_\[g\]' "no mark on what CFI led to"
is "$("$perfsample" fold -i "$data" --guessed | sed 's/_\[g\]//g' | awk '{ c = $NF; sub(/ [0-9]+$/, ""); n[$0] += c } END { for (s in n) print s, n[s] }' | sort)" \
	"$("$perfsample" fold -i "$data" | sort)" "without the marks it is what fold writes"
for format in pprof speedscope gecko chrome json callgrind; do
	ps export -i "$data" --format "$format" -o "$work/out"
	bytes=$(if [ "$format" = pprof ]; then zcat "$work/out"; else cat "$work/out"; fi | tr -d '\0')
	like "$bytes" 'with a guessed frame [0-9]+' "export --format $format: how many"
done
ps flame -i "$data" -o "$work/flame.svg"
like "$(cat "$work/flame.svg")" 'with a guessed frame [0-9,]+ \(' "flame: the subtitle"

# No CFI anywhere and frame pointers: the root itself is a guess.
cat >"$work/pairs.c" <<'C'
int main(int argc, char **argv);
__attribute__((noreturn, used)) void leave(long status) { for (;;) __asm__ volatile("syscall" : : "a"(231L), "D"(status) : "rcx", "r11", "memory"); }
__attribute__((used)) int start_c(long *p) { return main((int)p[0], (char **)(p + 1)); }
__asm__(".globl _start\n.type _start, @function\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call start_c\n mov %eax, %edi\n call leave\n.size _start, .-_start\n");
static volatile long sink;
__attribute__((noinline)) void spin(long n) { for (long i = 0; i < n; i++) sink += i * i; }
int main(int argc, char **argv) { (void)argv; for (int i = 0; i < 600; i++) spin(1000000 * argc); return 0; }
C
# shellcheck disable=SC2086
(cd "$work" && gcc -O1 -nostdlib -static -fno-stack-protector -fcf-protection=none $without -fno-omit-frame-pointer -o pairs pairs.c && \
	"$perfsample" record -F 997 -o pairs.data ./pairs) >"$work/log" 2>&1
stacks=$("$perfsample" fold -i "$work/pairs.data" | awk '{ n += $NF } END { print n + 0 }') guessed=0 of_crt=0
counted "$work/pairs.data" 'stacks > 50 and ends["root_guessed"] >= 0.99 * (stacks - ends.get("not_user", 0)) and ends.get("root", 0) == 0' "a root by signs is counted apart from one told by CFI"
like "$("$perfsample" fold -i "$work/pairs.data" --guessed)" '^pairs;_start_\[g\];start_c_\[g\];main_\[g\];spin ' "and is the entry, though the leaf lies close behind it"
ps report -i "$work/pairs.data" --format json
is "$(python3 -c 'import json, sys; s = json.load(sys.stdin)["events"][0]["stacks"]; print(s["truncated"] + s["failed"] <= 1)' <<<"$out")" True "its stacks are complete"
ps report -i "$work/pairs.data"
like "$out" 'hold a frame found without CFI, (9[0-9]|100)% end at a guessed root$' "and the report says so"
done_testing
