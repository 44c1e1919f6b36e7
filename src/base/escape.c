#include "base/escape.h"

#include <string.h>


static const char REPLACEMENT[] = "\xef\xbf\xbd"; // U+FFFD

size_t utf8_decode(const char *s, size_t left, uint32_t *code_point)
{
	const uint8_t *p = (const uint8_t *)s;
	if (left == 0)
		return 0;
	if (p[0] < 0x80) {
		*code_point = p[0];
		return 1;
	}
	size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (p[0] < 0xc2 || p[0] > 0xf4 || left < length)
		return 0;
	uint32_t c = p[0] & (0xffu >> (length + 1));
	for (size_t i = 1; i < length; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*code_point = c;
	return length;
}

bool utf8_is_valid(const char *s, size_t length)
{
	for (size_t i = 0; i < length;) {
		uint32_t c;
		size_t n = utf8_decode(s + i, length - i, &c);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

size_t utf8_columns(const char *s, size_t length)
{
	size_t columns = 0;
	for (size_t i = 0; i < length; columns++) {
		uint32_t c;
		size_t n = utf8_decode(s + i, length - i, &c);
		i += n > 0 ? n : 1;
	}
	return columns;
}

static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

// Unicode 15, UAX 9: the characters that reorder what a terminal shows; and the line and paragraph separators.
static bool is_bidi_control(uint32_t c)
{
	return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

// `mapped`: a byte to be written as `as` instead (0: none).
static void escape_controls(struct buf *out, const char *s, size_t length, char mapped, char as)
{
	for (size_t i = 0; i < length;) {
		size_t plain = i; // names are printable ASCII but for a byte here and there
		while (plain < length && s[plain] >= 0x20 && s[plain] < 0x7f && s[plain] != mapped)
			plain++;
		if (plain > i) {
			buf_add(out, s + i, plain - i);
			i = plain;
			continue;
		}
		uint32_t c;
		size_t n = utf8_decode(s + i, length - i, &c);
		if (n == 0) {
			buf_printf(out, "\\x%02x", (uint8_t)s[i]);
			n = 1;
		} else if (is_control(c)) {
			buf_printf(out, "\\x%02x", c);
		} else if (is_bidi_control(c)) {
			buf_printf(out, "\\u{%x}", c);
		} else if (mapped != '\0' && c == (uint8_t)mapped) {
			buf_byte(out, (uint8_t)as);
		} else {
			buf_add(out, s + i, n);
		}
		i += n;
	}
}

void escape_terminal(struct buf *out, const char *s, size_t length)
{
	escape_controls(out, s, length, '\0', '\0');
}

void escape_folded(struct buf *out, const char *s, size_t length)
{
	escape_controls(out, s, length, ';', ':');
}

// Programs for spreadsheets take a cell that begins so for a formula, or for one that goes on to the next quote, over tabs and line ends.
static bool begins_formula(char c)
{
	return c != '\0' && strchr("=+-@\"'", c) != NULL;
}

void escape_tsv(struct buf *out, const char *s, size_t length)
{
	if (length > 0 && begins_formula(*s)) {
		buf_printf(out, "\\x%02x", (unsigned char)*s++);
		length--;
	}
	while (length > 0) {
		const char *backslash = memchr(s, '\\', length);
		size_t plain = backslash != NULL ? (size_t)(backslash - s) : length;
		escape_controls(out, s, plain, '\0', '\0');
		if (backslash == NULL)
			return;
		buf_string(out, "\\x5c");
		s += plain + 1;
		length -= plain + 1;
	}
}

static bool is_xml_char(uint32_t c) // XML 1.0 (5th ed.), production 2
{
	return c == 0x9 || c == 0xa || c == 0xd || (c >= 0x20 && c <= 0xd7ff) || (c >= 0xe000 && c <= 0xfffd) || c >= 0x10000;
}

void escape_xml(struct buf *out, const char *s, size_t length)
{
	for (size_t i = 0; i < length;) {
		uint32_t c;
		size_t n = utf8_decode(s + i, length - i, &c);
		if (n == 0 || !is_xml_char(c) || is_bidi_control(c))
			buf_string(out, REPLACEMENT);
		else if (c == '&')
			buf_string(out, "&amp;");
		else if (c == '<')
			buf_string(out, "&lt;");
		else if (c == '>')
			buf_string(out, "&gt;");
		else if (c == '"')
			buf_string(out, "&quot;");
		else if (c == '\'')
			buf_string(out, "&#39;");
		else
			buf_add(out, s + i, n);
		i += n > 0 ? n : 1;
	}
}

void escape_json(struct buf *out, const char *s, size_t length)
{
	for (size_t i = 0; i < length;) {
		uint32_t c;
		size_t n = utf8_decode(s + i, length - i, &c);
		if (n == 0)
			buf_string(out, REPLACEMENT);
		else if (c == '"' || c == '\\')
			buf_printf(out, "\\%c", (char)c);
		else if (is_control(c) || c == '<' || is_bidi_control(c))
			buf_printf(out, "\\u%04x", c);
		else
			buf_add(out, s + i, n);
		i += n > 0 ? n : 1;
	}
}

void escape_repair(struct buf *out, const char *s, size_t length)
{
	for (size_t i = 0; i < length;) {
		uint32_t c;
		size_t n = utf8_decode(s + i, length - i, &c);
		if (n == 0)
			buf_string(out, REPLACEMENT);
		else
			buf_add(out, s + i, n);
		i += n > 0 ? n : 1;
	}
}
