#!/bin/bash
# Code of which a process tells debuggers (__jit_debug_descriptor): its names, each at its time; and lists that are made to harm whoever reads them.
# shellcheck disable=SC2154 # tap.sh sets what it names
. "$(dirname "$0")/tap.sh"
CC=${CC:-gcc}
cd "$work" || exit 1
if [ "$(uname -m)" != x86_64 ] || ! "$perfsample" check >/dev/null 2>&1 || ! command -v "$CC" >/dev/null; then
	skip "not x86-64, or this host cannot record, or has no compiler" "code of which a process tells debuggers"
	done_testing
fi
cat >told.c <<'C'
/* told HOW...: each HOW makes code at one place, runs it for 150 ms of CPU time and takes it away. NAME: registered under that name; +NAME: as an object to be linked
   yet, whose sections have addresses; -: not registered; !circle, !huge, !version, !torn: lists that no one should believe; =NAME: registered, and memory mapped anew. */
#define _GNU_SOURCE
#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
struct entry { struct entry *next, *previous; const void *object; uint64_t size; };
struct { uint32_t version, action; struct entry *relevant, *first; } __jit_debug_descriptor = { 1 };
void __attribute__((noinline)) __jit_debug_register_code(void) { __asm__ volatile(""); }
static unsigned char loop[] = { 0x55, 0x48, 0x89, 0xe5, 0xb9, 0, 0, 1, 0, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3 };
struct object { Elf64_Ehdr head; Elf64_Shdr sections[4]; Elf64_Sym symbols[2]; char names[128]; };
static struct object *make(const char *name, const void *code, int type)
{
	struct object *o = calloc(1, sizeof(*o));
	memcpy(o->head.e_ident, ELFMAG, SELFMAG);
	o->head.e_ident[EI_CLASS] = ELFCLASS64, o->head.e_ident[EI_DATA] = ELFDATA2LSB, o->head.e_ident[EI_VERSION] = 1;
	o->head.e_type = type, o->head.e_machine = EM_X86_64, o->head.e_version = 1, o->head.e_ehsize = sizeof(o->head);
	o->head.e_shoff = offsetof(struct object, sections), o->head.e_shentsize = sizeof(Elf64_Shdr), o->head.e_shnum = 4;
	o->sections[1] = (Elf64_Shdr){ .sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = (uint64_t)code, .sh_size = sizeof(loop) };
	o->sections[2] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB, .sh_offset = offsetof(struct object, symbols), .sh_size = sizeof(o->symbols), .sh_link = 3,
	                               .sh_entsize = sizeof(Elf64_Sym), .sh_info = 1 };
	o->sections[3] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct object, names), .sh_size = sizeof(o->names) };
	o->symbols[1] = (Elf64_Sym){ .st_name = 1, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1,
	                             .st_value = type == ET_REL ? 0 : (uint64_t)code, .st_size = sizeof(loop) };
	snprintf(o->names + 1, sizeof(o->names) - 1, "%s", name);
	return o;
}
/* 290,000 symbols that share a name of 8 MiB. */
static struct object *make_long(const struct object *like, uint64_t *size)
{
	enum { NAME = 8 << 20, COUNT = 290000 };
	*size = sizeof(*like) + NAME + COUNT * sizeof(Elf64_Sym);
	struct object *o = calloc(1, *size);
	*o = *like;
	char *names = (char *)(o + 1);
	memset(names + 1, 'n', NAME - 2);
	Elf64_Sym *symbols = (Elf64_Sym *)(names + NAME);
	for (int i = 1; i < COUNT; i++)
		symbols[i] = like->symbols[1];
	o->sections[2].sh_offset = (char *)symbols - (char *)o, o->sections[2].sh_size = COUNT * sizeof(*symbols);
	o->sections[3].sh_offset = names - (char *)o, o->sections[3].sh_size = NAME;
	return o;
}
static void list(struct entry *e, const void *object, uint64_t size)
{
	*e = (struct entry){ __jit_debug_descriptor.first, NULL, object, size };
	if (e->next != NULL)
		e->next->previous = e;
	__jit_debug_descriptor.first = __jit_debug_descriptor.relevant = e;
	__jit_debug_descriptor.action = 1;
	__jit_debug_register_code();
}
static int ms = 150;
static void run(void *at)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	for (uint64_t end = t.tv_sec * 1000000000ull + t.tv_nsec + ms * 1000000ull; t.tv_sec * 1000000000ull + t.tv_nsec < end; clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t))
		((void (*)(void))at)();
}
int main(int argc, char **argv)
{
	static struct entry entries[2];
	if (getenv("MS") != NULL)
		ms = atoi(getenv("MS"));
	char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(code, loop, sizeof(loop));
	for (int i = 1; i < argc; i++) {
		const char *how = argv[i];
		struct object *o = make(how + (how[0] == '+' || how[0] == '!' || how[0] == '='), code, how[0] == '+' ? ET_REL : ET_EXEC);
		if (how[0] == '=') {
			mmap(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			memcpy(code, loop, sizeof(loop));
		}
		if (how[0] != '-')
			list(&entries[0], o, sizeof(*o));
		if (strcmp(how, "!circle") == 0)
			list(&entries[1], o, sizeof(*o)), entries[0].next = &entries[1], entries[1].previous = &entries[0];
		if (strcmp(how, "!huge") == 0)
			list(&entries[1], o, UINT64_MAX);
		uint64_t size;
		if (strcmp(how, "!long") == 0)
			o = make_long(o, &size), list(&entries[1], o, size);
		if (strcmp(how, "!version") == 0)
			__jit_debug_descriptor.version = 7;
		if (strcmp(how, "!torn") == 0)
			entries[0].next = (void *)0x10;
		if (strcmp(how, "!symbols") == 0)
			o->sections[2].sh_size = UINT64_MAX / 2, o->sections[3].sh_offset = UINT64_MAX - 8;
		run(code);
		__jit_debug_descriptor.first = NULL;
		__jit_debug_descriptor.version = 1;
		memset(entries, 0, sizeof(entries));
	}
	return 0;
}
C
"$CC" -O1 -w -rdynamic -o told told.c
names() { # the names of code in no file, as they follow each other in time, of more than a few samples
	"$perfsample" script -F ip,sym,dso -i told.data 2>/dev/null | awk 'BEGIN { RS = ""; FS = "\n" } { for (i = 1; i <= NF; i++) if ($i ~ /\/\/anon|jit-[0-9]+\.dump/) {
		split($i, part, " "); sub(/\+0x.*/, "", part[2]); print part[2]; break } }' | awk '{ n[$1 == last ? k : ++k]++; last = $1; name[k] = $1 }
		END { for (i = 1; i <= k; i++) if (n[i] > 15) printf "%s ", name[i] }' | sed 's/\[unknown\]/-/g; s/\/\/anon/-/g; s/jit-[0-9]*.dump/-/g'
}
seen() { timeout 60 "$perfsample" record -q -o told.data -- ./told "$@" 2>record.err || echo "status $?"; names; }
is "$(seen first)" "first " "code of which debuggers are told has its name"
like "$("$perfsample" fold -i told.data 2>/dev/null)" ';main;(run;)?first [0-9]+' "and its callers"
is "$(seen +relocatable)" "relocatable " "by the addresses of its section, too"
is "$(seen _ZN3jit3addEii)" "jit::add(int, " "C++ names are shown as they are written"
is "$(seen first =second =third)" "first second third " "one after the other at one place, in memory that is mapped anew"
is "$(MS=700 seen - named)" "- named " "code that debuggers are told of later, where it was before"
unlike "$(seen first - third)" 'first (- )?first|third (- )?third|second' "each at its own time only"
got=$(MS=1500 seen first '!long' =second)
like "$got" '^first .*second $' "names that take for ever to look through are left"
for how in circle huge version torn symbols; do
	got=$(seen "!$how" second)
	like "$got" '^(!?'$how' |- )*$|second' "$how: a list that is not to be believed does no harm"
done
"$CC" -O1 -w -o told told.c
is "$(seen hidden)" "hidden " "a descriptor that is in the symbol table alone"
if command -v lli >/dev/null && command -v clang >/dev/null; then
	cat >work.c <<'C'
volatile unsigned long sink;
__attribute__((noinline)) unsigned long inner_loop(unsigned long n) { unsigned long t = sink; for (unsigned long i = 0; i < n; i++) t = (t * 31 + i) ^ (t >> 7); return sink = t; }
__attribute__((noinline)) unsigned long outer_work(int k) { unsigned long s = 0; for (int i = 0; i < k; i++) s += inner_loop(20000 + i); return s; }
int main(void) { for (int i = 0; i < 300; i++) sink += outer_work(50); return 0; }
C
	clang -O1 -S -emit-llvm -o work.ll work.c 2>/dev/null && "$perfsample" record -q -o told.data -- lli -jit-kind=orc work.ll 2>record.err
	like "$("$perfsample" fold -i told.data 2>/dev/null)" ';main;outer_work;inner_loop [0-9]{2,}' "LLVM's"
else
	skip "no lli" "LLVM's"
fi
done_testing
