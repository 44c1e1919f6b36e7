#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/vec.h"
#include "cli/option.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool value_u64(const char *text, uint64_t min, uint64_t max, const char *spelled, uint64_t *out, struct err *err)
{
	char *end = NULL;
	bool is_hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	errno = 0;
	unsigned long long value = is_digit(text[0]) ? strtoull(text, &end, is_hex ? 16 : 10) : 0;
	if (end == NULL || end == text || *end != '\0')
		return err_set(err, STATUS_USAGE, "%s: '%s' is not a whole number", spelled, text);
	if (errno == ERANGE || value < min || value > max) {
		if (max == UINT64_MAX)
			return err_set(err, STATUS_USAGE, "%s: %s is out of range: at least %llu", spelled, text, (unsigned long long)min);
		return err_set(err, STATUS_USAGE, "%s: %s is out of range: %llu to %llu", spelled, text, (unsigned long long)min,
		               (unsigned long long)max);
	}
	*out = value;
	return true;
}

// Digits with at most one point among them, into *value; how many characters that took, 0 when it is no number.
static size_t decimal(const char *text, long double *value)
{
	size_t digits = 0, points = 0, length = 0;
	for (; is_digit(text[length]) || (text[length] == '.' && points == 0); length++) {
		digits += is_digit(text[length]);
		points += text[length] == '.';
	}
	if (digits == 0 || length > 40)
		return 0;
	char copy[48];
	memcpy(copy, text, length);
	copy[length] = '\0';
	*value = strtold(copy, NULL); // the program never leaves the C locale
	return length;
}

bool value_double(const char *text, double min, double max, const char *spelled, double *out, struct err *err)
{
	long double magnitude = 0;
	bool is_negative = text[0] == '-';
	const char *digits = text + (is_negative || text[0] == '+');
	size_t length = decimal(digits, &magnitude);
	if (length > 0 && (digits[length] == '%') && digits[length + 1] == '\0')
		length++;
	if (length == 0 || digits[length] != '\0')
		return err_set(err, STATUS_USAGE, "%s: '%s' is not a number", spelled, text);
	double value = (double)(is_negative ? -magnitude : magnitude);
	if (value < min || value > max)
		return err_set(err, STATUS_USAGE, "%s: %s is out of range: %g to %g", spelled, text, min, max);
	*out = value;
	return true;
}

// `number` times `unit`, as a whole number; false when it does not fit.
static bool scaled(long double number, uint64_t unit, uint64_t *out)
{
	long double value = roundl(number * unit);
	if (value >= 18446744073709551616.0L)
		return false;
	*out = (uint64_t)value;
	return true;
}

bool value_share(const char *text, double min, double max, const char *spelled, double *out, struct err *err)
{
	char number[32];
	size_t length = strlen(text);
	bool percent = length > 0 && text[length - 1] == '%';
	if (length >= sizeof(number))
		return err_set(err, STATUS_USAGE, "%s: '%s' is no number", spelled, text);
	memcpy(number, text, length + 1);
	if (percent)
		number[length - 1] = '\0';
	double unit = percent ? 0.01 : 1;
	if (!value_double(number, min / unit, max / unit, spelled, out, err))
		return false;
	*out *= unit;
	return true;
}

bool value_size(const char *text, bool pages, const char *spelled, uint64_t *bytes, struct err *err)
{
	static const struct { const char *suffix; uint64_t unit; } units[] = {
		{ "B", 1 }, { "K", 1 << 10 }, { "KB", 1 << 10 }, { "KiB", 1 << 10 }, { "M", 1 << 20 }, { "MB", 1 << 20 },
		{ "MiB", 1 << 20 }, { "G", 1 << 30 }, { "GB", 1 << 30 }, { "GiB", 1 << 30 },
	};
	long double number = 0;
	size_t length = decimal(text, &number);
	uint64_t unit = text[length] == '\0' ? (pages ? 4096 : 1) : 0;
	for (size_t i = 0; unit == 0 && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcasecmp(text + length, units[i].suffix) == 0)
			unit = units[i].unit;
	bool is_fraction = number != floorl(number);
	if (length == 0 || unit == 0 || (is_fraction && unit == 1) || (is_fraction && text[length] == '\0'))
		return err_set(err, STATUS_USAGE, "%s: '%s' is not a size: a number%s, or one with B, K, M or G", spelled, text,
		               pages ? " of pages" : "");
	if (!scaled(number, unit, bytes))
		return err_set(err, STATUS_USAGE, "%s: %s is out of range", spelled, text);
	return true;
}

bool value_duration(const char *text, uint64_t unit_ns, const char *spelled, uint64_t *ns, struct err *err)
{
	static const struct { const char *suffix; uint64_t unit_ns; } units[] = {
		{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { "m", 60000000000 }, { "min", 60000000000 },
		{ "h", 3600000000000 }, { "d", 86400000000000 },
	};
	long double number = 0;
	size_t length = decimal(text, &number);
	uint64_t unit = text[length] == '\0' ? unit_ns : 0;
	for (size_t i = 0; unit == 0 && i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(text + length, units[i].suffix) == 0)
			unit = units[i].unit_ns;
	if (length == 0 || unit == 0)
		return err_set(err, STATUS_USAGE, "%s: '%s' is not a time: a number, or one with ns, us, ms, s, m or h", spelled, text);
	if (!scaled(number, unit, ns))
		return err_set(err, STATUS_USAGE, "%s: %s is out of range", spelled, text);
	return true;
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

// A number at *at, the cursor moved behind it; false: none, or above max.
static bool list_number(const char **at, uint64_t max, uint64_t *out)
{
	if (!is_digit(**at))
		return false;
	char *end;
	errno = 0;
	unsigned long long value = strtoull(*at, &end, 10);
	*at = end;
	*out = value;
	return errno == 0 && value <= max && value <= UINT32_MAX;
}

enum { LONGEST_LIST = 1 << 20 };

bool value_list(const char *text, uint64_t max, const char *spelled, uint32_t **out, size_t *count, struct err *err)
{
	VEC(uint32_t) numbers = { 0 };
	const char *at = text;
	for (;;) {
		uint64_t first, last;
		if (!list_number(&at, max, &first))
			goto wrong;
		last = first;
		if (*at == '-' && (at++, !list_number(&at, max, &last) || last < first))
			goto wrong;
		if (last - first >= LONGEST_LIST - numbers.count) {
			vec_release(&numbers);
			return err_set(err, STATUS_USAGE, "%s: '%s' lists more than %d numbers", spelled, text, LONGEST_LIST);
		}
		for (uint64_t n = first; n <= last; n++)
			vec_push(&numbers, (uint32_t)n);
		if (*at == '\0')
			break;
		if (*at++ != ',')
			goto wrong;
	}
	sort_stable(numbers.data, numbers.count, sizeof(*numbers.data), compare_u32);
	size_t kept = 1;
	for (size_t i = 1; i < numbers.count; i++)
		if (numbers.data[i] != numbers.data[kept - 1])
			numbers.data[kept++] = numbers.data[i];
	*out = numbers.data;
	*count = kept;
	return true;
wrong:
	vec_release(&numbers);
	return err_set(err, STATUS_USAGE, "%s: '%s' is not a list of numbers up to %llu like 0-3,7", spelled, text,
	               (unsigned long long)max);
}

char **value_words(const char *text, const char *separators, size_t *count)
{
	VEC(char *) words = { 0 };
	for (const char *at = text + strspn(text, separators); *at != '\0'; at += strspn(at, separators)) {
		size_t length = strcspn(at, separators);
		vec_push(&words, mem_string_n(at, length));
		at += length;
	}
	*count = words.count;
	vec_push(&words, NULL);
	return words.data;
}

void value_words_free(char **words, size_t count)
{
	for (size_t i = 0; words != NULL && i < count; i++)
		free(words[i]);
	free(words);
}
