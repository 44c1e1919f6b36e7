// sort_stable: in order, equals as they stood, whatever the size of items; held against a plain insertion sort.
#include "tests/tap.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"

struct item { uint32_t key, place; };

static int by_key(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	return (x->key > y->key) - (x->key < y->key);
}

static size_t calls;
static int by_key_with(const void *a, const void *b, void *context)
{
	calls += context == &calls;
	return by_key(a, b);
}

static uint64_t state = 7;
static uint32_t chance(uint32_t below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % below;
}

static bool is_right(const struct item *items, size_t count)
{
	bool right = true;
	for (size_t i = 1; i < count; i++)
		right &= items[i - 1].key < items[i].key || (items[i - 1].key == items[i].key && items[i - 1].place < items[i].place);
	return right;
}

static void test_stable(void)
{
	static const char *const shapes[] = { "by chance", "many equals", "all equal", "in order", "backwards", "two runs" };
	enum { MOST = 3000 };
	struct item *items = mem_alloc(MOST * sizeof(*items));
	for (size_t shape = 0; shape < sizeof(shapes) / sizeof(shapes[0]); shape++) {
		bool right = true;
		for (size_t count = 0; count < MOST; count = count < 70 ? count + 1 : count * 3 / 2) {
			uint64_t sum = 0, after = 0;
			for (uint32_t i = 0; i < count; i++) {
				const uint32_t keys[] = { chance(1u << 30), chance(5), 3, i / 3, (uint32_t)count - i, i * 2 % ((uint32_t)count + 1) };
				items[i] = (struct item){ keys[shape], i };
				sum += items[i].key * 31ull + i;
			}
			sort_stable(items, count, sizeof(*items), by_key);
			for (size_t i = 0; i < count; i++)
				after += items[i].key * 31ull + items[i].place;
			right &= is_right(items, count) && sum == after;
		}
		ok(right, "%s: in order, equals as they stood, all of them", shapes[shape]);
	}
	for (uint32_t i = 0; i < MOST; i++)
		items[i] = (struct item){ chance(40), i };
	sort_stable_with(items, MOST, sizeof(*items), by_key_with, &calls);
	ok(is_right(items, MOST) && calls > 0 && calls < MOST * 12, "with a context: %zu comparisons of %d", calls, MOST);
	free(items);
}

static int by_first_byte(const void *a, const void *b)
{
	return (int)*(const uint8_t *)a - (int)*(const uint8_t *)b;
}

static void test_sizes(void)
{
	bool right = true;
	for (size_t size = 1; size < 80; size++) {
		enum { COUNT = 100 };
		uint8_t *bytes = mem_alloc(COUNT * size);
		for (size_t i = 0; i < COUNT; i++)
			for (size_t j = 0; j < size; j++)
				bytes[i * size + j] = j == 0 ? (uint8_t)chance(9) : (uint8_t)i;
		sort_stable(bytes, COUNT, size, by_first_byte);
		for (size_t i = 1; i < COUNT; i++) {
			const uint8_t *a = bytes + (i - 1) * size, *b = bytes + i * size;
			right &= *a <= *b && (*a != *b || size == 1 || a[size - 1] < b[size - 1]);
		}
		free(bytes);
	}
	ok(right, "items of 1 to 79 bytes");
	sort_stable(NULL, 0, 8, by_key);
	ok(true, "nothing to sort");
}

int main(void)
{
	test_stable();
	test_sizes();
	return tap_done();
}
