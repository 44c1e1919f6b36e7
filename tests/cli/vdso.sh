#!/bin/bash
# shellcheck disable=SC2154 # tap.sh sets what it names
# Code in the vdso, read where the kernel that ran it is not: raw recordings bring its bytes, live ones its names; of perf's recordings it is
# found by build ID. The reader runs without a vdso of its own: what tells one kernel from another.
. "$(dirname "$0")/tap.sh"
CC=${CC:-gcc}
if [ "$(uname -m)" != x86_64 ] || ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	skip "not x86-64, or this host cannot record, or has no compiler" "the vdso"
	done_testing
fi
cd "$work" || exit 1
export HOME=$work/home
mkdir -p "$HOME"
cat >deep.c <<'C'
#include <stdlib.h>
#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline)) static unsigned long spin(void)
{
	struct timespec t;
	unsigned long s = 0;
	for (int i = 0; i < 2000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &t);
		s += t.tv_nsec;
	}
	return s;
}
__attribute__((noinline)) static unsigned long deep(int n)
{
	volatile unsigned long a[4];
	a[0] = n;
	return n > 0 ? deep(n - 1) + a[0] : spin() + a[0];
}
int main(void)
{
	while (clock() < CLOCKS_PER_SEC / 10 * 6)
		sink += deep(20);
	return 0;
}
C
"$CC" -O1 -g -fomit-frame-pointer -o deep deep.c
cat >without.c <<'C'
/* Runs a program without the kernel's vdso: AT_SYSINFO_EHDR is taken out of its auxiliary vector before its first instruction. */
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	if (!WIFSTOPPED(status))
		return 126;
	struct user_regs_struct regs;
	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	unsigned long at = regs.rsp;
	at += 8 * (ptrace(PTRACE_PEEKDATA, pid, at, 0) + 2); /* argc, the arguments and their NULL */
	while (ptrace(PTRACE_PEEKDATA, pid, at, 0) != 0)
		at += 8;
	for (at += 8; ptrace(PTRACE_PEEKDATA, pid, at, 0) != AT_NULL; at += 16)
		if (ptrace(PTRACE_PEEKDATA, pid, at, 0) == AT_SYSINFO_EHDR)
			ptrace(PTRACE_POKEDATA, pid, at, AT_IGNORE);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	waitpid(pid, &status, 0);
	return argc > 1 && WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}
C
"$CC" -O1 -w -o without without.c
is "$(./without sh -c 'echo it runs' 2>&1)" "it runs" "a program without a vdso of its own" || done_testing
elsewhere() { ./without "$perfsample" "$@" 2>elsewhere.err; }
share() { # FOLDED PATTERN: of its samples, how many in a hundred have stacks like that
	awk -v p="$2" '{ n += $NF } $0 ~ p { k += $NF } END { print int(100 * k / n) }' "$1"
}
deep21=$(printf ';deep%.0s' {1..21}) # awk need not know {21}
whole="^deep;_start;.*;main$deep21;spin;[^;]*clock_gettime[^;]*;.*vdso"

for how in post live; do
	"$perfsample" record -q --unwind "$how" -o "$how.data" -- ./deep 2>record.err
	"$perfsample" fold -i "$how.data" >here.txt 2>/dev/null
	elsewhere fold -i "$how.data" >there.txt
	ok "$([ "$(share there.txt "$whole")" -ge 80 ]; echo $?)" "$how: elsewhere, $(share there.txt "$whole") in 100 samples lie in the vdso, below all their callers"
	like "$(cat there.txt)" 'clock_gettime[^;]*;__vdso_clock_gettime [0-9]+$' "$how: and its function has its name"
	is "$(cat there.txt)" "$(cat here.txt)" "$how: the same stacks here and elsewhere"
	elsewhere script --header -i "$how.data" >there.txt
	like "$(grep stacks: there.txt)" 'truncated 0, unwind failed [0-3]($|;)' "$how: none ends early"
done
elsewhere report -i post.data >there.txt
unlike "$(cat there.txt)" 'build ID|not on this host' "nothing was assumed"
elsewhere inject -i post.data -o small.data
elsewhere fold -i small.data >there.txt
ok "$([ "$(share there.txt "$whole")" -ge 80 ]; echo $?)" "inject: unwound elsewhere"
like "$(strings -a small.data 2>/dev/null | grep -c LINUX_2.6)" '^[1-9]' "inject keeps the vdso"
elsewhere inject -i post.data --strip host -o stripped.data
is "$(strings -a stripped.data 2>/dev/null | grep -c LINUX_2.6)" 0 "inject --strip host does not: it tells the kernel"
"$perfsample" record -q --unwind post -o post2.data -- ./deep 2>record.err
elsewhere inject -i post.data --join post2.data -o joined.data
is "$(strings -a joined.data | grep -c '^LINUX_2.6$')" "$(strings -a post.data | grep -c '^LINUX_2.6$')" "two recordings joined: one vdso"
"$perfsample" archive -i live.data -o live.tar 2>/dev/null
like "$(tar tf live.tar)" '^\[vdso\]/[0-9a-f]+/vdso$' "archive packs it as perf does"
rm -rf home/.debug
"$perfsample" record -q --save-images -o live.data -- ./deep 2>record.err
like "$(find home/.debug -name vdso)" '\[vdso\]/[0-9a-f]+/vdso$' "record --save-images keeps it"

if ldconfig -p 2>/dev/null | grep -q libcapstone; then
	like "$(elsewhere annotate -i live.data __vdso_clock_gettime)" ' push' "annotate finds its code there"
else
	skip "no libcapstone" "annotate finds its code there"
fi

# perf's recordings: by build ID, in its cache or this kernel's own; never another's.
if perf record -q -e cpu-clock --call-graph dwarf -o perf.data ./deep >/dev/null 2>&1 && [ -s perf.data ]; then
	elsewhere fold -i perf.data >there.txt
	ok "$([ "$(share there.txt "$whole")" -ge 80 ]; echo $?)" "a recording of perf's: the vdso is found where perf keeps it"
	rm -rf home/.debug
	elsewhere fold -i perf.data >there.txt
	ok "$([ "$(share there.txt "$whole")" -eq 0 ]; echo $?)" "and not when it is not there"
	like "$(elsewhere report -i perf.data)" 'not on this host' "which is said"
	"$perfsample" fold -i perf.data >here.txt 2>/dev/null
	ok "$([ "$(share here.txt "$whole")" -ge 80 ]; echo $?)" "the running kernel's has the same build ID"
	# Another kernel's: the build ID in the recording is not this one's.
	id=$(perf buildid-list -i perf.data | sed -n 's/ \[vdso\]$//p')
	python3 - "$id" <<-'P'
		import sys
		data, build_id = open("perf.data", "rb").read(), bytes.fromhex(sys.argv[1])
		assert build_id in data
		open("other.data", "wb").write(data.replace(build_id, bytes(b ^ 0x55 for b in build_id)))
	P
	"$perfsample" fold -i other.data >here.txt 2>/dev/null
	ok "$([ "$(share here.txt "$whole")" -eq 0 ]; echo $?)" "another kernel's is not taken for it"
	unlike "$(cat here.txt)" '__vdso_clock_gettime' "nor does it name anything"
	perf record -B -q -e cpu-clock --call-graph dwarf -o perf.data ./deep >/dev/null 2>&1
	like "$("$perfsample" report -i perf.data 2>/dev/null)" 'no build ID of the vdso was recorded' "where no build ID was recorded it is said what is assumed"
	"$perfsample" fold -i perf.data >here.txt 2>/dev/null
	ok "$([ "$(share here.txt "$whole")" -ge 80 ]; echo $?)" "of the same kernel release"
else
	skip "perf does not record here" "a recording of perf's"
fi

# A 32-bit process has another one. Its C functions have no CFI: their callers are found by the frame pointer.
cat >deep32.c <<'C'
#include <linux/auxvec.h>
#include <linux/elf.h>
struct ts { int s, ns; };
static int same(const char *a, const char *b) { while (*a && *a == *b) a++, b++; return *a == *b; }
static int (*gettime)(int, struct ts *);
__attribute__((noinline)) static int spin(void) { struct ts t; int s = 0; for (int i = 0; i < 2000; i++) gettime(1, &t), s += t.ns; return s; }
__attribute__((noinline)) static int deep(int n) { volatile int a[4]; a[0] = n; return n > 0 ? deep(n - 1) + a[0] : spin() + a[0]; }
__attribute__((noinline, used)) static void run(unsigned *sp)
{
	unsigned *p = sp + 1 + sp[0] + 1;
	volatile int sink = 0;
	while (*p) p++;
	for (p++; *p && *p != AT_SYSINFO_EHDR; p += 2) ;
	char *base = (char *)p[1];
	Elf32_Phdr *ph = (void *)(base + ((Elf32_Ehdr *)base)->e_phoff);
	Elf32_Sym *sym = 0;
	const char *str = 0;
	for (int i = 0; i < ((Elf32_Ehdr *)base)->e_phnum; i++)
		if (ph[i].p_type == PT_DYNAMIC)
			for (Elf32_Dyn *d = (void *)(base + ph[i].p_offset); d->d_tag; d++) {
				if (d->d_tag == DT_SYMTAB) sym = (void *)(base + d->d_un.d_ptr);
				if (d->d_tag == DT_STRTAB) str = base + d->d_un.d_ptr;
			}
	for (int i = 1; !gettime && i < 100; i++)
		if (same(str + sym[i].st_name, "__vdso_clock_gettime"))
			gettime = (void *)(base + sym[i].st_value);
	for (int i = 0; i < 5000; i++) sink += deep(20);
}
__asm__(".globl _start\n_start:\n.cfi_startproc\n.cfi_undefined eip\nmov %esp,%eax\nand $-16,%esp\nsub $12,%esp\npush %eax\ncall run\nmov $1,%eax\n"
	"xor %ebx,%ebx\nint $0x80\n.cfi_endproc\n");
C
if "$CC" -m32 "-I/usr/include/$("$CC" -print-multiarch)" -O1 -g -w -fomit-frame-pointer -fno-pic -no-pie -nostdlib -static -fno-stack-protector \
	-o deep32 deep32.c 2>gcc.err && timeout 30 ./deep32; then
	whole="^deep32;_start;run$deep21;spin;__vdso_clock_gettime "
	for how in post live; do
		"$perfsample" record -q --unwind "$how" -o both.data -- sh -c './deep32; ./deep' 2>record.err
		elsewhere fold -c deep32 -i both.data >there.txt
		ok "$([ "$(share there.txt "$whole")" -ge 70 ]; echo $?)" "$how: a 32-bit process has its own vdso, by its names"
		elsewhere fold -c deep -i both.data >there.txt
		ok "$([ "$(share there.txt '^deep;_start;.*;spin;.*;__vdso_clock_gettime ')" -ge 80 ]; echo $?)" "$how: and a 64-bit one beside it has the other"
	done
	like "$(elsewhere script -F ip,dso -i both.data)" '\(\[vdso32\]\)' "it is called as perf calls it"
else
	skip "no 32-bit programs here" "a 32-bit process has its own vdso"
fi
done_testing
