// Numbers, sizes, times and lists as the command line gives them.
#include "cli/option.h"
#include "tests/tap.h"

static struct err err;

static void u64_is(const char *text, uint64_t min, uint64_t max, long long wanted) // wanted -1: refused
{
	uint64_t v = 0;
	bool good = value_u64(text, min, max, "-F", &v, &err);
	if (wanted < 0)
		ok(!good && err.status == STATUS_USAGE && strstr(err.text, "-F") == err.text && strstr(err.text, text) != NULL, "u64 '%s' refused, named", text);
	else
		ok(good && v == (uint64_t)wanted, "u64 '%s' is %lld", text, wanted);
}

static void size_is(const char *text, bool pages, long long wanted)
{
	uint64_t v = 0;
	bool good = value_size(text, pages, "-m", &v, &err);
	if (wanted < 0)
		ok(!good && err.status == STATUS_USAGE && strstr(err.text, text) != NULL, "size '%s' refused", text);
	else
		ok(good && v == (uint64_t)wanted, "size '%s'%s is %lld", text, pages ? " of pages" : "", wanted);
}

static void duration_is(const char *text, uint64_t unit, long long wanted)
{
	uint64_t v = 0;
	bool good = value_duration(text, unit, "-c", &v, &err);
	if (wanted < 0)
		ok(!good && err.status == STATUS_USAGE && strstr(err.text, text) != NULL, "duration '%s' refused", text);
	else if (!ok(good && v == (uint64_t)wanted, "duration '%s' is %lld", text, wanted))
		diag("got %llu", (unsigned long long)v);
}

static void list_is(const char *text, uint64_t max, const char *wanted)
{
	uint32_t *numbers = NULL;
	size_t count = 0;
	char got[256] = "";
	bool good = value_list(text, max, "-C", &numbers, &count, &err);
	for (size_t i = 0; good && i < count && i < 20; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%u ", numbers[i]);
	if (wanted == NULL)
		ok(!good && err.status == STATUS_USAGE && strstr(err.text, "-C") == err.text, "list '%.20s' refused", text);
	else
		is_str(got, wanted, "list '%s'", text);
	if (good)
		free(numbers);
}

static void test_numbers(void)
{
	u64_is("0", 0, 10, 0);
	u64_is("10", 0, 10, 10);
	u64_is("11", 0, 10, -1);
	u64_is("4", 5, 10, -1);
	u64_is("5", 5, 10, 5);
	u64_is("0x1f", 0, 100, 31);
	u64_is("010", 0, 100, 10);
	u64_is("", 0, 10, -1);
	u64_is("banana", 0, 10, -1);
	u64_is("1x", 0, 10, -1);
	u64_is(" 1", 0, 10, -1);
	u64_is("-1", 0, 10, -1);
	u64_is("+1", 0, 10, -1);
	u64_is("0x", 0, 10, -1);
	u64_is("99999999999999999999999", 0, UINT64_MAX, -1);
	uint64_t v;
	ok(value_u64("18446744073709551615", 0, UINT64_MAX, "-F", &v, &err) && v == UINT64_MAX, "the largest");
	double d;
	ok(value_double("0.5", 0, 1, "x", &d, &err) && d == 0.5, "double");
	ok(value_double("25%", 0, 100, "x", &d, &err) && d == 25, "double with a percent sign");
	ok(value_double("-2", -5, 1, "x", &d, &err) && d == -2, "negative where allowed");
	ok(!value_double("-2", 0, 1, "x", &d, &err), "negative where not");
	ok(!value_double("nan", 0, 1, "x", &d, &err) && !value_double("inf", 0, 1e300, "x", &d, &err), "nan and inf are no numbers");
	ok(!value_double("1e3", 0, 1e9, "x", &d, &err) && !value_double(".", 0, 1, "x", &d, &err) && !value_double("1.2.3", 0, 9, "x", &d, &err),
	   "neither are exponents, a lone point, two points");
	ok(!value_double("", 0, 1, "x", &d, &err) && !value_double("1 ", 0, 1, "x", &d, &err), "nor nothing, nor trailing blanks");
}

static void test_sizes(void)
{
	size_is("512", false, 512);
	size_is("512", true, 512 * 4096);
	size_is("512B", true, 512);
	size_is("64K", false, 65536);
	size_is("64k", true, 65536);
	size_is("4M", false, 4 << 20);
	size_is("1G", false, 1 << 30);
	size_is("1.5M", false, 3 << 19);
	size_is("1.5", false, -1);
	size_is("2GiB", false, 2LL << 30);
	size_is("1.5B", false, -1);
	size_is("K", false, -1);
	size_is("12X", false, -1);
	size_is("-1", false, -1);
	size_is("99999999999999G", false, -1);
}

static void test_durations(void)
{
	duration_is("30s", 1, 30000000000);
	duration_is("5m", 1, 300000000000);
	duration_is("1h", 1, 3600000000000);
	duration_is("250ms", 1, 250000000);
	duration_is("10us", 1, 10000);
	duration_is("7ns", 1000, 7);
	duration_is("1.295295ms", 1, 1295295);
	duration_is("2", 1000000000, 2000000000);
	duration_is("0.5", 1000000000, 500000000);
	duration_is("0", 1, 0);
	duration_is("5x", 1, -1);
	duration_is("s", 1, -1);
	duration_is("", 1, -1);
	duration_is("-5s", 1, -1);
	duration_is("99999999999999999h", 1, -1);
}

static void test_lists(void)
{
	list_is("3", 10, "3 ");
	list_is("0-3,7", 10, "0 1 2 3 7 ");
	list_is("7,1,1,0-2", 10, "0 1 2 7 ");
	list_is("5-5", 10, "5 ");
	list_is("10", 10, "10 ");
	list_is("11", 10, NULL);
	list_is("3-1", 10, NULL);
	list_is("", 10, NULL);
	list_is(",", 10, NULL);
	list_is("1,", 10, NULL);
	list_is("1-", 10, NULL);
	list_is("-1", 10, NULL);
	list_is("a", 10, NULL);
	list_is("1 2", 10, NULL);
	list_is("0-4294967295", UINT64_MAX, NULL);
	list_is("4294967296", UINT64_MAX, NULL);
	list_is("0-1048575,1048577-1048578", UINT64_MAX, NULL);
}

static void test_words(void)
{
	size_t count;
	char **words = value_words(" 12,34\n56 ,", ", \n", &count);
	ok(count == 3 && strcmp(words[0], "12") == 0 && strcmp(words[1], "34") == 0 && strcmp(words[2], "56") == 0 && words[3] == NULL, "words");
	value_words_free(words, count);
	words = value_words("", ",", &count);
	ok(count == 0 && words[0] == NULL, "no words");
	value_words_free(words, count);
	value_words_free(NULL, 0);
}

int main(void)
{
	test_numbers();
	test_sizes();
	test_durations();
	test_lists();
	test_words();
	return tap_done();
}
