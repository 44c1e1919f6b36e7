#include "export/json_write.h"

#include <math.h>
#include <string.h>

#include "base/escape.h"

// A comma goes before every member but the first of its object or array.
static void separate(struct buf *out)
{
	char last = out->size > 0 ? out->data[out->size - 1] : '{';
	if (last != '{' && last != '[' && last != ':')
		buf_byte(out, ',');
}

static void start(struct buf *out, const char *key)
{
	separate(out);
	if (key == NULL)
		return;
	buf_byte(out, '"');
	buf_string(out, key);
	buf_add(out, "\":", 2);
}

void json_open_object(struct buf *out, const char *key)
{
	start(out, key);
	buf_byte(out, '{');
}

void json_open_array(struct buf *out, const char *key)
{
	start(out, key);
	buf_byte(out, '[');
}

void json_close_object(struct buf *out)
{
	buf_byte(out, '}');
}

void json_close_array(struct buf *out)
{
	buf_byte(out, ']');
}

void json_put_number(struct buf *out, const char *key, double value)
{
	start(out, key);
	if (isfinite(value))
		buf_printf(out, "%.17g", value);
	else
		buf_string(out, "null");
}

void json_put_fixed(struct buf *out, const char *key, double value, int decimals)
{
	start(out, key);
	buf_printf(out, "%.*f", decimals, value);
}

// Large tables of numbers are most of an export: digits by hand cost a fifth of printf's.
static void digits(struct buf *out, uint64_t value)
{
	char text[20];
	size_t at = sizeof(text);
	do {
		text[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	buf_add(out, text + at, sizeof(text) - at);
}

void json_put_u64(struct buf *out, const char *key, uint64_t value)
{
	start(out, key);
	digits(out, value);
}

void json_put_i64(struct buf *out, const char *key, int64_t value)
{
	start(out, key);
	if (value < 0)
		buf_byte(out, '-');
	digits(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void json_put_hex(struct buf *out, const char *key, uint64_t value)
{
	start(out, key);
	buf_printf(out, "\"0x%llx\"", (unsigned long long)value);
}

void json_put_bool(struct buf *out, const char *key, bool value)
{
	start(out, key);
	buf_string(out, value ? "true" : "false");
}

void json_put_null(struct buf *out, const char *key)
{
	start(out, key);
	buf_string(out, "null");
}

void json_put_text(struct buf *out, const char *key, const char *text)
{
	start(out, key);
	buf_byte(out, '"');
	escape_json(out, text, strlen(text));
	buf_byte(out, '"');
}

void json_put_shown(struct buf *out, const char *key, const char *text)
{
	struct buf shown = { 0 };
	escape_terminal(&shown, text, strlen(text));
	json_put_text(out, key, buf_text(&shown));
	buf_release(&shown);
}

void json_put_name(struct buf *out, const char *key, const char *text)
{
	json_put_name_as(out, key, key, text);
}

void json_put_name_as(struct buf *out, const char *key, const char *hex_key, const char *text)
{
	size_t length = strlen(text);
	json_put_text(out, key, text);
	if (utf8_is_valid(text, length))
		return;
	buf_printf(out, ",\"%s_hex\":\"", hex_key);
	for (size_t i = 0; i < length; i++)
		buf_printf(out, "%02x", (uint8_t)text[i]);
	buf_byte(out, '"');
}
