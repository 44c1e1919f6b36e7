#!/bin/bash
# Text that a program moved onto anonymous memory before the recorder came, as node --use-largepages, hugify and iodlr do: it has the names and the unwind
# information of the file. Other code in the same hole has not.
# shellcheck disable=SC2154 # tap.sh sets what it names
. "$(dirname "$0")/tap.sh"
CC=${CC:-gcc}
cd "$work" || exit 1
if [ "$(uname -m)" != x86_64 ] || ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	skip "not x86-64, or this host cannot record, or has no compiler" "text that was moved"
	done_testing
fi
cat >moved.c <<'C'
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define MOVED __attribute__((noinline, aligned(4096), section("moved_text")))
volatile unsigned long sink;
MOVED void innermost(unsigned long n) { while (n-- > 0) sink += n * 31; }
/* A page further on, with a frame that frame pointers do not tell. */
MOVED unsigned long caller(unsigned long n) { volatile unsigned long local[40]; local[n % 40] = n; innermost(n); return local[n % 40]; }
MOVED void end(void) { sink++; }
static unsigned char loop[] = { 0xb9, 0, 0, 1, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
int main(int argc, char **argv)
{
	char *start = (char *)innermost;
	size_t size = (char *)end - start;
	static char kept[1 << 16];
	int is_other = argc > 1 && strcmp(argv[1], "other") == 0;
	memcpy(kept, start, size);
	if (is_other)
		memset(kept, 0xcc, size), memcpy(kept, loop, sizeof(loop)), memcpy(kept + 4096, loop, sizeof(loop));
	if (mmap(start, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != start)
		return 1;
	memcpy(start, kept, size);
	mprotect(start, size, PROT_READ | PROT_EXEC);
	alarm(60);
	puts("ready");
	fflush(stdout);
	for (;;)
		caller(100000);
}
C
"$CC" -O1 -fomit-frame-pointer -fno-toplevel-reorder -w -o moved moved.c
look() { # ARGS of the program: what is sampled of it by -p, folded, and what /proc tells of the mappings
	: >ready
	./moved "$@" >ready &
	local pid=$!
	until grep -q ready ready; do sleep 0.01; done
	"$perfsample" record -q -p $pid -o "moved.data" --duration 0.5 2>record.err
	"$perfsample" check -p $pid >check.out 2>&1
	"$perfsample" record -q --unwind post -p $pid -o raw.data --duration 0.5 2>>record.err
	kill $pid
	wait $pid 2>/dev/null
	"$perfsample" fold -i moved.data 2>/dev/null | grep -v asm_ >folded
	"$perfsample" fold -i raw.data 2>/dev/null | grep -v asm_ >raw
}
look
ok "$(awk '{ n += $NF } /;main;caller;innermost [0-9]+$/ { k += $NF } END { exit !(n > 10 && k >= 0.9 * n) }' folded; echo $?)" "text that was moved has its names and its callers" || sed 's/^/#   /' folded
ok "$(awk '{ n += $NF } /;main;caller;innermost [0-9]+$/ { k += $NF } END { exit !(n > 10 && k >= 0.9 * n) }' raw; echo $?)" "raw stacks, too" || sed 's/^/#   /' raw
unlike "$(cat check.out)" 'code without a file' "check knows that it is the file's"
look other
unlike "$(cat folded)" 'innermost|caller' "other code in such a hole has no names of the file"
like "$(cat folded)" '//anon' "it is what it was"
done_testing
