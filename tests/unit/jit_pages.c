// Pages of code that a JIT compiler made, read from this very process: when they are read, what is kept, and for which times it stands.
#include "record/jit_pages.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/tap.h"

enum { PAGES = 8 };

static uint8_t *code;

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t place(unsigned page, unsigned offset)
{
	return (uint64_t)(uintptr_t)code + (uint64_t)page * JIT_PAGE_BYTES + offset;
}

// A sample; whatever is due is read at once. How many pages were read.
static uint64_t sample_of(struct jit_pages *pages, int32_t pid, uint64_t pc, uint64_t time_ns)
{
	uint64_t before = jit_pages_figures(pages).read;
	jit_pages_want(pages, pid, pc, place(0, 0), place(PAGES, 0), time_ns);
	if (jit_pages_hand(pages)) {
		jit_pages_read(pages);
		ok(jit_pages_take(pages), "what was read is there");
	}
	return jit_pages_figures(pages).read - before;
}

static uint64_t sample(struct jit_pages *pages, uint64_t pc, uint64_t time_ns)
{
	return sample_of(pages, getpid(), pc, time_ns);
}

// What a page holds at a time, by its first byte; '-': nothing is known.
static char held(const struct names *names, unsigned page, uint64_t time_ns)
{
	const struct name_page *found = names_page_at(names, (uint32_t)getpid(), place(page, 0), time_ns);
	return found != NULL ? (char)found->bytes[0] : '-';
}

// As a reader finds them.
static void come_back(struct jit_pages *pages, struct names *back)
{
	struct names names = { 0 };
	struct buf out = { 0 };
	struct err err = { 0 };
	jit_pages_names(pages, &names);
	names_encode(&names, &out);
	*back = (struct names){ 0 };
	ok(names_decode(back, out.data, out.size, &err), "a recording of them can be read (%s)", err.text);
	names_release(&names);
	buf_release(&out);
}

// Of what is due by age nothing can be told where the machine stood still meanwhile.
static void is_reads(uint64_t got, uint64_t wanted, uint64_t since_ns, const char *what)
{
	if (got != wanted && now_ns() - since_ns > (uint64_t)JIT_PAGE_FIRST_NS / 2)
		ok(true, "%s: not to be told, as this took too long", what);
	else
		is_u64(got, wanted, "%s", what);
}

static void when_read(void)
{
	struct jit_pages *pages = jit_pages_new(EM_X86_64, true);
	memset(code, 'a', (size_t)PAGES * JIT_PAGE_BYTES);
	uint64_t t = now_ns();
	is_reads(sample(pages, place(2, 10), t), 3, t, "the page of a sample and those beside it");
	is_reads(sample(pages, place(0, 10), t), 1, t, "at the beginning of the mapping there is none before; and what was read just now is not read again");
	is_reads(sample(pages, place(7, 4095), t), 2, t, "and at its end none behind");
	is_reads(sample(pages, place(2, 10), now_ns()), 0, t, "the same place is known");
	is_reads(sample(pages, place(2, 70), now_ns()), 1, t, "code elsewhere in the page may be new: it alone is read");
	is_reads(sample(pages, place(2, 70), now_ns()), 0, t, "once");
	is_reads(sample(pages, place(2, 10), now_ns() + 3 * (uint64_t)JIT_PAGE_FIRST_NS / 2), 2, t, "after a while those that did not change are read again, later the more often they did not");
	jit_pages_mapped(pages, getpid(), place(2, 0), place(3, 0), now_ns());
	is_reads(sample(pages, place(2, 10), now_ns()), 1, t, "and at once when it was mapped anew");
	struct jit_pages_figures figures = jit_pages_figures(pages);
	is_u64(figures.kept, 6, "what did not change is kept once");
	is_u64(figures.failed + figures.late + figures.refused, 0, "all went well");
	jit_pages_free(pages);
}

static void what_changes(void)
{
	struct jit_pages *pages = jit_pages_new(EM_X86_64, true);
	struct names names;
	memset(code, 'a', JIT_PAGE_BYTES);
	uint64_t first = now_ns();
	sample(pages, place(0, 0), first);
	code[0] = 'b';
	uint64_t later = now_ns();
	sample(pages, place(0, 64), later);
	uint64_t mapped = now_ns();
	jit_pages_mapped(pages, getpid(), place(0, 0), place(PAGES, 0), mapped);
	code[0] = 'c';
	sample(pages, place(0, 64), now_ns());
	uint64_t over = now_ns();
	jit_pages_ended(pages, getpid(), over);
	code[0] = 'd';
	sample(pages, place(0, 64), now_ns());
	uint64_t end = now_ns();
	come_back(pages, &names);
	uint8_t got[] = { (uint8_t)held(&names, 0, 0), (uint8_t)held(&names, 0, first), (uint8_t)held(&names, 0, later + (end - later) / 1000), (uint8_t)held(&names, 0, mapped - 1),
	                  (uint8_t)held(&names, 0, mapped), (uint8_t)held(&names, 0, over - 1), (uint8_t)held(&names, 0, over), (uint8_t)held(&names, 0, UINT64_MAX - 1), 0 };
	is_str((const char *)got, "aabbccdd", "rewritten, mapped anew, and a program later: each at its time");
	is_u64(jit_pages_figures(pages).kept, 6, "that page four times, the one behind it once in each program");
	names_release(&names);
	jit_pages_free(pages);
}

// The process executed another program after it was sampled and before its memory was read.
static void too_late(void)
{
	struct jit_pages *pages = jit_pages_new(EM_X86_64, true);
	struct names names;
	uint64_t t = now_ns();
	jit_pages_want(pages, getpid(), place(0, 0), place(0, 0), place(1, 0), t);
	ok(jit_pages_hand(pages), "a page is handed over");
	ok(!jit_pages_take(pages), "and not taken before it is read");
	jit_pages_want(pages, getpid(), place(1, 0), place(1, 0), place(2, 0), t);
	ok(!jit_pages_hand(pages), "nor is the next batch handed over");
	uint64_t executed = now_ns();
	jit_pages_read(pages);
	ok(jit_pages_take(pages), "it is read");
	jit_pages_ended(pages, getpid(), executed); // known later than it happened
	ok(jit_pages_hand(pages), "then the next batch goes");
	jit_pages_read(pages);
	come_back(pages, &names);
	is_u64(names.pages.count, 0, "what was read of a program that had ended is not said to be its");
	names_release(&names);
	jit_pages_free(pages);
}

static void bounds(void)
{
	struct jit_pages *pages = jit_pages_new(EM_X86_64, true);
	void *hole = mmap(NULL, JIT_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t at = (uint64_t)(uintptr_t)hole, t = now_ns();
	for (unsigned i = 0; i < 100; i++) {
		jit_pages_want(pages, getpid(), at + i % 64 * 64, at, at + JIT_PAGE_BYTES, t + i * UINT64_C(10000000000));
		if (jit_pages_hand(pages)) {
			jit_pages_read(pages);
			jit_pages_take(pages);
		}
	}
	ok(jit_pages_figures(pages).failed >= 8 && jit_pages_figures(pages).failed <= 16, "memory that cannot be read is given up: %llu attempts",
	   (unsigned long long)jit_pages_figures(pages).failed);
	munmap(hole, JIT_PAGE_BYTES);
	jit_pages_free(pages);

	pages = jit_pages_new(EM_X86_64, true);
	for (unsigned i = 0; i < JIT_PAGES_A_BATCH + 100; i++)
		jit_pages_want(pages, 1, i * UINT64_C(3) * JIT_PAGE_BYTES, i * UINT64_C(3) * JIT_PAGE_BYTES, (i * UINT64_C(3) + 1) * JIT_PAGE_BYTES, t);
	is_u64(jit_pages_figures(pages).late, 100, "no more than a batch is asked for at a time");
	jit_pages_free(pages);

	pages = jit_pages_new(EM_X86_64, true);
	memset(code, 0, JIT_PAGE_BYTES);
	uint64_t reads = 0;
	for (unsigned i = 0; i < JIT_PAGE_READINGS_MOST + 20; i++) {
		code[0]++;
		jit_pages_want(pages, getpid(), place(0, 0), place(0, 0), place(1, 0), now_ns() + i * UINT64_C(1000000000));
		if (jit_pages_hand(pages)) {
			jit_pages_read(pages);
			reads += jit_pages_take(pages);
		}
	}
	is_u64(reads, JIT_PAGE_READINGS_MOST + 20, "a page that always changes is read each time");
	is_u64(jit_pages_figures(pages).kept, JIT_PAGE_READINGS_MOST, "and kept no more often than that");
	is_u64(jit_pages_figures(pages).refused, 20, "the rest is counted");
	jit_pages_free(pages);
}

// ---------------------------------------------------------------- for the unwinder
// What is known of a place for a sample: its byte, '-' for nothing, in capitals where it was asked for lately and nothing has to be looked up.
static char byte_at(struct jit_pages *pages, uint64_t addr, uint64_t time_ns, bool *is_missing)
{
	const struct jit_sample sample_of_it = { getpid(), 9, time_ns };
	struct unwind_code got;
	*is_missing = false;
	bool is_recent = jit_pages_recent(pages, &sample_of_it, addr, &got);
	if (!is_recent)
		got = jit_pages_code(pages, &sample_of_it, addr, place(0, 0), place(PAGES, 0), is_missing);
	if (got.id == 0)
		return '-';
	return (char)(got.bytes[addr - got.start] - (is_recent ? 'a' - 'A' : 0));
}

static void is_byte(struct jit_pages *pages, uint64_t addr, uint64_t time_ns, char wanted, bool is_missing, const char *what)
{
	bool is;
	char got[2] = { byte_at(pages, addr, time_ns, &is), 0 }, text[2] = { wanted, 0 };
	is_str(got, text, "%s", what);
	ok(is == is_missing, "and it is%s worth waiting for more", is_missing ? "" : " not");
}

static void read_now(struct jit_pages *pages, bool wanted)
{
	bool is = jit_pages_hand(pages);
	ok(is == wanted, "%s to be read", wanted ? "something is" : "nothing is");
	if (is) {
		jit_pages_read(pages);
		jit_pages_take(pages);
	}
}

static void live(void)
{
	struct jit_pages *pages = jit_pages_new(EM_X86_64, false);
	for (size_t i = 0; i < (size_t)PAGES * JIT_PAGE_BYTES; i++)
		code[i] = (uint8_t)('a' + i % 7);
	memset(code + 2048, 0, 1024);
	is_byte(pages, place(0, 0), now_ns(), '-', true, "nothing is there yet");
	uint64_t before = now_ns(); // what is read after a sample is good for it
	read_now(pages, true);
	is_byte(pages, place(0, 0), before, 'a', false, "then it is");
	is_byte(pages, place(0, 1), before, 'B', false, "and at once beside it");
	is_byte(pages, place(0, 4093), before, (char)('A' + 4093 % 7), false, "at a page's end");
	is_byte(pages, place(1, 3), before, (char)('a' + (4096 + 3) % 7), false, "the page behind came along");
	read_now(pages, false);
	memset(code + 2048, 'x', 1024);
	is_byte(pages, place(0, 2100), now_ns(), '\0', true, "where nothing had been written there may be something now");
	before = now_ns();
	read_now(pages, true);
	is_byte(pages, place(0, 2100), before, 'x', false, "so it is");
	is_byte(pages, place(0, 2100), now_ns() + 20 * (uint64_t)JIT_PAGE_FIRST_NS, 'x', false, "what was read long ago is good enough, but read again");
	code[0] = 'z';
	read_now(pages, true);
	is_byte(pages, place(0, 0), before, 'z', false, "in which a change is seen");
	jit_pages_mapped(pages, getpid(), place(0, 0), place(1, 0), now_ns());
	is_byte(pages, place(0, 0), now_ns(), 'z', true, "mapped anew it may be other code");
	read_now(pages, true);
	jit_pages_ended(pages, getpid(), now_ns());
	is_byte(pages, place(0, 0), now_ns(), '-', true, "and of another program it is");
	jit_pages_free(pages);

	pages = jit_pages_new(EM_X86_64, false);
	size_t size = (size_t)JIT_PAGES_LIVE_MOST * 2 * JIT_PAGE_BYTES;
	uint8_t *much = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start = (uint64_t)(uintptr_t)much, reads = 0, bad = 0, t = now_ns();
	for (size_t at = 0; at < size; at += 3 * JIT_PAGE_BYTES) {
		const struct jit_sample it = { getpid(), 9, t += UINT64_C(10000000) };
		bool is_missing = false;
		much[at] = (uint8_t)(1 + at / JIT_PAGE_BYTES % 200);
		for (int twice = 0; twice < 2; twice++) {
			struct unwind_code got = jit_pages_code(pages, &it, start + at, start, start + size, &is_missing);
			bad += twice == 1 && (got.id == 0 || got.bytes[start + at - got.start] != much[at]);
			if (jit_pages_hand(pages)) {
				jit_pages_read(pages);
				reads += jit_pages_take(pages);
			}
		}
	}
	ok(reads > JIT_PAGES_LIVE_MOST / 3 && bad <= 3, "of many pages the first are forgotten, the last are there (%llu were not)", (unsigned long long)bad);
	is_u64(jit_pages_figures(pages).refused, 0, "none is refused");
	munmap(much, size);
	jit_pages_free(pages);
}

int main(void)
{
	code = mmap(NULL, (size_t)PAGES * JIT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	when_read();
	what_changes();
	too_late();
	bounds();
	live();
	return tap_done();
}
