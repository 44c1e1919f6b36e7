#include "base/hash.h"
#include "base/intern.h"
#include "base/sort.h"
#include "tests/tap.h"

#include <stdlib.h>

static void test_hash(void)
{
	ok(hash_u64(1) != hash_u64(2) && hash_u64(0) != 0, "numbers differ, and 0 is one of them");
	enum { TRIES = 400 };
	double least = 64, most = 0;
	for (int bit = 0; bit < 64; bit++) {
		int changed = 0;
		for (uint64_t i = 0; i < TRIES; i++)
			changed += __builtin_popcountll(hash_u64(i * 0x123456789abcdef) ^ hash_u64(i * 0x123456789abcdef ^ 1ull << bit));
		least = (double)changed / TRIES < least ? (double)changed / TRIES : least;
		most = (double)changed / TRIES > most ? (double)changed / TRIES : most;
	}
	ok(least >= 28 && most <= 36, "each input bit changes about half of the output (%.1f to %.1f)", least, most);
	ok(hash_pair(1, 2) != hash_pair(2, 1), "a pair has an order");
	ok(hash_pair(0, 0) != 0, "a pair of zeros is not zero");
	bool is_distinct = true;
	char text[40] = "";
	for (size_t i = 0; i < sizeof(text); i++)
		for (size_t j = 0; j < i; j++)
			is_distinct = is_distinct && hash_bytes(text, i) != hash_bytes(text, j);
	ok(is_distinct, "runs of zeros of different lengths differ");
	char copy[16] = "x12345678901234";
	ok(hash_bytes(copy + 1, 14) == hash_bytes("12345678901234", 14), "alignment does not matter");
	ok(hash_bytes("abcdefgh1", 9) != hash_bytes("abcdefgh2", 9) && hash_bytes("1bcdefghi", 9) != hash_bytes("2bcdefghi", 9), "first and last byte count");
}

// ---------------------------------------------------------------- words that somebody chose
// splitmix64's finalizer backwards: keys that share their place where no key is over it.
static uint64_t unshifted(uint64_t y, int bits)
{
	uint64_t x = y;
	for (int i = 0; i < 64 / bits + 1; i++)
		x = y ^ (x >> bits);
	return x;
}

static uint64_t inverse(uint64_t a)
{
	uint64_t x = a;
	for (int i = 0; i < 6; i++)
		x *= 2 - a * x;
	return x;
}

static uint64_t unmixed(uint64_t hash)
{
	uint64_t x = unshifted(hash, 31) * inverse(0x94d049bb133111ebu);
	return unshifted(unshifted(x, 27) * inverse(0xbf58476d1ce4e5b9u), 30);
}

enum { CHOSEN = 1 << 14, PLACES = 2 * CHOSEN };

// Of that many hashes in twice as many places, 79 in 100 places are another one's if they are as good as random.
static bool are_spread(const uint64_t *hashes)
{
	static uint8_t taken[PLACES];
	size_t distinct = 0, run = 0, longest = 0;
	memset(taken, 0, sizeof(taken));
	for (size_t i = 0; i < CHOSEN; i++) {
		distinct += taken[hashes[i] % PLACES] == 0;
		taken[hashes[i] % PLACES] = 1;
	}
	for (size_t i = 0; i < PLACES; i++) {
		run = taken[i] ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return distinct > CHOSEN * 7 / 10 && longest < 200;
}

static void test_chosen(void)
{
	static uint64_t hashes[CHOSEN], pairs[CHOSEN];
	for (uint64_t i = 0; i < CHOSEN; i++) {
		hashes[i] = hash_u64(unmixed((i + 1) << 34));
		pairs[i] = hash_pair(7, unmixed((i + 1) << 34));
	}
	ok(are_spread(hashes) && are_spread(pairs), "numbers that collide under the finalizer alone");
	unsigned bad = 0;
	for (unsigned shift = 0; shift <= 50; shift++) {
		for (uint64_t i = 0; i < CHOSEN; i++) {
			hashes[i] = hash_u64(i << shift);
			pairs[i] = hash_pair(i << shift, i);
		}
		bad += !are_spread(hashes) + !are_spread(pairs);
	}
	is_u64(bad, 0, "numbers at even distances, near and far");
	for (unsigned part = 0; part < 4; part++) {
		const uint64_t zeros[] = { 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu, 0x94d049bb133111ebu, 0xbf58476d1ce4e5b9u };
		for (uint64_t i = 0; i < CHOSEN; i++) {
			uint64_t words[4] = { 0, 0, 0, 0 };
			words[part] = zeros[part];
			words[part ^ 1] = i;
			hashes[i] = hash_bytes(words, sizeof(words));
			pairs[i] = hash_end(hash_two(words[part], words[part ^ 1], part % 3));
		}
		ok(are_spread(hashes) && are_spread(pairs), "a word that would make a product of constants 0, at %u", part);
	}
}

static uint64_t of_another_process(const char *self)
{
	char command[4200];
	unsigned long long hash = 0;
	snprintf(command, sizeof(command), "'%s' hash", self);
	FILE *f = popen(command, "r");
	if (f != NULL && fscanf(f, "%llx", &hash) != 1)
		hash = 0;
	if (f != NULL)
		pclose(f);
	return hash;
}

static void test_keys(const char *self)
{
	uint64_t first = of_another_process(self), second = of_another_process(self);
	ok(first != 0 && second != 0 && first != second && first != hash_u64(1), "each process has keys of its own");
	ok(hash_bytes_fixed("main", 4) == 0x1981782be06db4bdu, "and what is shown is the same in each");
}

static void test_map(void)
{
	struct hash_map m = { 0 };
	bool is_new;
	ok(hash_map_get(&m, 0) == NULL && !hash_map_remove(&m, 0), "an empty map");
	*hash_map_put(&m, 0, 7, &is_new) += 1;
	ok(is_new && *hash_map_get(&m, 0) == 8, "key 0 is a key");
	ok(*hash_map_put(&m, 0, 99, &is_new) == 8 && !is_new && m.count == 1, "a key that is there keeps its value");
	for (uint32_t i = 1; i < 20000; i++)
		hash_map_put(&m, (uint64_t)i << 32, i, NULL);
	bool is_there = m.count == 20000;
	for (uint32_t i = 1; i < 20000; i++)
		is_there = is_there && *hash_map_get(&m, (uint64_t)i << 32) == i;
	ok(is_there && hash_map_get(&m, 1) == NULL, "20,000 keys, and none that was not put");
	ok(m.count * 4 <= m.capacity * 3 + 4, "at most three quarters full");
	hash_map_reserve(&m, 100000);
	size_t capacity = m.capacity;
	for (uint32_t i = 1; i < 20000; i++)
		is_there = is_there && *hash_map_get(&m, (uint64_t)i << 32) == i;
	for (uint32_t i = 20000; i < 100000; i++)
		hash_map_put(&m, (uint64_t)i << 32, i, NULL);
	ok(is_there && m.count == 100000 && m.capacity == capacity, "room for 100,000 made beforehand");
	hash_map_reserve(&m, 10);
	ok(m.capacity == capacity, "room is never taken");
	hash_map_clear(&m);
	ok(m.count == 0 && hash_map_get(&m, 0) == NULL && m.capacity > 0, "cleared");
	hash_map_release(&m);
	ok(m.slots == NULL && m.capacity == 0, "released");
}

// Against a plain array: puts and removes among few keys, so that runs of full slots form and break.
static void test_remove(void)
{
	enum { KEYS = 40 };
	struct hash_map m = { 0 };
	int64_t model[KEYS];
	uint64_t x = 42;
	bool is_same = true;
	for (int i = 0; i < KEYS; i++)
		model[i] = -1;
	for (uint32_t step = 0; step < 50000 && is_same; step++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		uint32_t key = (uint32_t)(x >> 33) % KEYS;
		if ((x >> 20) % 2 == 0) {
			*hash_map_put(&m, key, 0, NULL) = step;
			model[key] = step;
		} else {
			is_same = hash_map_remove(&m, key) == (model[key] >= 0);
			model[key] = -1;
		}
		size_t count = 0;
		for (uint32_t k = 0; k < KEYS; k++) {
			const uint32_t *value = hash_map_get(&m, k);
			is_same = is_same && (value != NULL) == (model[k] >= 0) && (value == NULL || *value == (uint32_t)model[k]);
			count += value != NULL;
		}
		is_same = is_same && count == m.count;
	}
	ok(is_same, "50,000 puts and removes agree with an array");
	hash_map_release(&m);
}

static void test_intern(void)
{
	struct intern t;
	intern_init(&t);
	ok(intern_bytes(&t, NULL, 0) == 0, "nothing, of an empty buffer, is the empty text"); // make SAN=undefined
	is_u64(intern_string(&t, ""), 0, "the empty string is 0");
	uint32_t a = intern_string(&t, "alpha"), b = intern_bytes(&t, "alphabet", 5), c = intern_bytes(&t, "a\0b", 3);
	ok(a == b && a == 1, "the same text, the same id");
	ok(c != intern_string(&t, "a") && intern_length(&t, c) == 3 && memcmp(intern_text(&t, c), "a\0b", 4) == 0, "NULs inside count");
	const char *text = intern_text(&t, a);
	char name[32];
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "name %d", i);
		intern_string(&t, name);
	}
	ok(intern_text(&t, a) == text && strcmp(text, "alpha") == 0, "texts do not move");
	size_t count = t.entries.count;
	bool is_same = true;
	for (int i = 9999; i >= 0; i--) {
		snprintf(name, sizeof(name), "name %d", i);
		uint32_t id = intern_string(&t, name);
		is_same = is_same && strcmp(intern_text(&t, id), name) == 0;
	}
	ok(is_same && t.entries.count == count, "10,000 names found again, none added");
	intern_release(&t);
	ok(t.entries.data == NULL && t.slots == NULL, "released");
}

static void test_sort(void)
{
	enum { MOST = 5000 };
	static struct sort_item items[MOST];
	static const uint64_t masks[] = { 0, 0xf, 0xfff, 0xfffff000, 0xffffffffffffffff };
	bool is_sorted = true;
	for (size_t round = 0; round < 20; round++) {
		size_t count = round % 4 == 0 ? round * 3 : MOST / (round + 1);
		uint64_t sum = 0, mask = masks[round % 5];
		for (size_t i = 0; i < count; i++) {
			items[i] = (struct sort_item){ hash_pair(round, i) & mask, (uint32_t)i };
			sum += hash_pair(items[i].key, items[i].value);
		}
		sort_items(items, count);
		for (size_t i = 0; i < count; i++) {
			sum -= hash_pair(items[i].key, items[i].value);
			if (i > 0)
				is_sorted &= items[i - 1].key < items[i].key || (items[i - 1].key == items[i].key && items[i - 1].value < items[i].value);
		}
		is_sorted &= sum == 0;
	}
	ok(is_sorted, "few and many, near and far, sorted by key, and by place where keys are equal");
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		printf("%llx\n", (unsigned long long)hash_u64(1));
		return 0;
	}
	test_chosen();
	test_keys(argv[0]);
	test_sort();
	test_hash();
	test_map();
	test_remove();
	test_intern();
	return tap_done();
}
