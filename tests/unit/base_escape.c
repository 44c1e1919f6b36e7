#include "base/escape.h"
#include "tests/tap.h"

typedef void escape_fn(struct buf *, const char *, size_t);

static void escaped_n(escape_fn *escape, const char *what, const char *in, size_t length, const char *wanted)
{
	struct buf out = { 0 };
	escape(&out, in, length);
	is_str(buf_text(&out), wanted, "%s", what);
	buf_release(&out);
}

static void escaped(escape_fn *escape, const char *what, const char *in, const char *wanted)
{
	escaped_n(escape, what, in, strlen(in), wanted);
}

static void utf8(const char *what, const char *in, size_t left, size_t wanted, uint32_t code_point)
{
	uint32_t c = 0;
	size_t n = utf8_decode(in, left, &c);
	ok(n == wanted && (n == 0 || c == code_point), "UTF-8: %s", what);
}

static void test_utf8(void)
{
	utf8("ASCII", "a", 1, 1, 'a');
	utf8("NUL", "\0", 1, 1, 0);
	utf8("nothing", "", 0, 0, 0);
	utf8("first of two bytes", "\xc2\x80", 2, 2, 0x80);
	utf8("last of two bytes", "\xdf\xbf", 2, 2, 0x7ff);
	utf8("overlong two bytes", "\xc1\xbf", 2, 0, 0);
	utf8("overlong NUL", "\xc0\x80", 2, 0, 0);
	utf8("first of three", "\xe0\xa0\x80", 3, 3, 0x800);
	utf8("overlong three", "\xe0\x9f\xbf", 3, 0, 0);
	utf8("before the surrogates", "\xed\x9f\xbf", 3, 3, 0xd7ff);
	utf8("first surrogate", "\xed\xa0\x80", 3, 0, 0);
	utf8("last surrogate", "\xed\xbf\xbf", 3, 0, 0);
	utf8("after the surrogates", "\xee\x80\x80", 3, 3, 0xe000);
	utf8("last of three", "\xef\xbf\xbf", 3, 3, 0xffff);
	utf8("first of four", "\xf0\x90\x80\x80", 4, 4, 0x10000);
	utf8("overlong four", "\xf0\x8f\xbf\xbf", 4, 0, 0);
	utf8("the last", "\xf4\x8f\xbf\xbf", 4, 4, 0x10ffff);
	utf8("beyond the last", "\xf4\x90\x80\x80", 4, 0, 0);
	utf8("f5", "\xf5\x80\x80\x80", 4, 0, 0);
	utf8("a lone continuation", "\x80", 1, 0, 0);
	utf8("cut after one", "\xe2\x82", 2, 0, 0);
	utf8("a wrong continuation", "\xe2\x28\xa1", 3, 0, 0);
	utf8("a wrong last continuation", "\xf0\x90\x80\x28", 4, 0, 0);
	ok(utf8_is_valid("gr\xc3\xbc\xc3\x9f", 7) && utf8_is_valid("", 0) && !utf8_is_valid("gr\xc3", 3) && !utf8_is_valid("\xff", 1), "validity");
	is_u64(utf8_columns("gr\xc3\xbc\xc3\x9f\xff", 7), 5, "columns count code points, and each broken byte");
}

static void test_terminal(void)
{
	escaped(escape_terminal, "plain stays", "std::vector<int>::push_back(int&&) \"x\" \\ ;", "std::vector<int>::push_back(int&&) \"x\" \\ ;");
	escaped(escape_terminal, "escape sequence", "\x1b[31mred", "\\x1b[31mred");
	escaped(escape_terminal, "bell, newline, tab, DEL", "\a\n\t\x7f", "\\x07\\x0a\\x09\\x7f");
	escaped_n(escape_terminal, "NUL", "a\0b", 3, "a\\x00b");
	escaped(escape_terminal, "C1 control CSI (U+009B)", "\xc2\x9b" "31m", "\\x9b31m");
	escaped(escape_terminal, "last C1", "\xc2\x9f", "\\x9f");
	escaped(escape_terminal, "no-break space is no control", "\xc2\xa0", "\xc2\xa0");
	escaped(escape_terminal, "broken UTF-8", "a\xff\xc3", "a\\xff\\xc3");
	escaped(escape_terminal, "raw C1 byte", "\x9b", "\\x9b");
	escaped(escape_terminal, "right-to-left override", "\xe2\x80\xae" "evil", "\\u{202e}evil");
	escaped(escape_terminal, "bidi isolates and marks", "\xe2\x81\xa6\xe2\x81\xa9\xe2\x80\x8e\xd8\x9c", "\\u{2066}\\u{2069}\\u{200e}\\u{61c}");
	escaped(escape_terminal, "line separator", "\xe2\x80\xa8", "\\u{2028}");
	escaped(escape_terminal, "zero width joiner stays", "\xe2\x80\x8d", "\xe2\x80\x8d");
	escaped(escape_terminal, "letters beyond ASCII", "na\xc3\xafve \xe6\xbc\xa2", "na\xc3\xafve \xe6\xbc\xa2");
	escaped(escape_terminal, "space stays", " ", " ");
}

static void test_others(void)
{
	escaped(escape_folded, "folded: semicolon", "a;b", "a:b");
	escaped(escape_folded, "folded: controls", "a\n1\tb", "a\\x0a1\\x09b");
	escaped(escape_tsv, "TSV: tab and newline", "a\tb\nc;d", "a\\x09b\\x0ac;d");
	escaped(escape_tsv, "TSV: a formula", "=HYPERLINK(\"x\")", "\\x3dHYPERLINK(\"x\")");
	escaped(escape_tsv, "TSV: other beginnings of formulas", "@x", "\\x40x");
	escaped(escape_tsv, "TSV: an operator", "+", "\\x2b");
	escaped(escape_tsv, "TSV: a method of Objective-C", "-[View draw]", "\\x2d[View draw]");
	escaped(escape_tsv, "TSV: a quote", "\"a", "\\x22a");
	escaped(escape_tsv, "TSV: an apostrophe", "'a", "\\x27a");
	escaped(escape_tsv, "TSV: inside they are themselves", "a=b-c+d@e\"f'", "a=b-c+d@e\"f'");
	escaped(escape_tsv, "TSV: a backslash, so that all can be undone", "\\x3d\\", "\\x5cx3d\\x5c");
	escaped(escape_tsv, "TSV: nothing", "", "");
	escaped(escape_xml, "XML: markup", "</script><a href=\"x\" b='y'>&", "&lt;/script&gt;&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;");
	escaped(escape_xml, "XML: forbidden characters", "\x01\x1b\xef\xbf\xbe\xff", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	escaped(escape_xml, "XML: tab and newline are allowed", "\t\n\r", "\t\n\r");
	escaped_n(escape_xml, "XML: NUL", "a\0b", 3, "a\xef\xbf\xbd" "b");
	escaped(escape_xml, "XML: bidi", "\xe2\x80\xae", "\xef\xbf\xbd");
	escaped(escape_xml, "XML: last of the plane, and beyond it", "\xef\xbf\xbd\xf0\x9f\x98\x80", "\xef\xbf\xbd\xf0\x9f\x98\x80");
	escaped(escape_json, "JSON: quotes, backslash, script end", "\"\\</script>", "\\\"\\\\\\u003c/script>");
	escaped(escape_json, "JSON: controls", "\n\x1f\x7f", "\\u000a\\u001f\\u007f");
	escaped(escape_json, "JSON: line separator", "\xe2\x80\xa8", "\\u2028");
	escaped(escape_json, "JSON: broken UTF-8", "\xc3(", "\xef\xbf\xbd(");
	escaped(escape_json, "JSON: plain", "a/b'c>", "a/b'c>");
	escaped(escape_repair, "repair: only what is broken", "a\x01\xff<\xc3", "a\x01\xef\xbf\xbd<\xef\xbf\xbd");
}

static void test_any(void) // whatever comes in, what goes out is valid and harmless
{
	bool is_terminal_safe = true, is_xml_safe = true, is_json_safe = true, is_repaired = true;
	uint64_t x = 7;
	for (int round = 0; round < 4000; round++) {
		char in[24];
		struct buf t = { 0 }, f = { 0 }, m = { 0 }, j = { 0 }, r = { 0 };
		for (size_t i = 0; i < sizeof(in); i++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			in[i] = (char)(x >> 56);
		}
		escape_terminal(&t, in, sizeof(in)), escape_folded(&f, in, sizeof(in)), escape_xml(&m, in, sizeof(in));
		escape_json(&j, in, sizeof(in)), escape_repair(&r, in, sizeof(in));
		for (size_t i = 0; i < t.size; i++)
			is_terminal_safe = is_terminal_safe && (uint8_t)t.data[i] >= 0x20 && t.data[i] != 0x7f;
		is_terminal_safe = is_terminal_safe && utf8_is_valid(t.data, t.size) && memchr(f.data, ';', f.size) == NULL;
		is_xml_safe = is_xml_safe && utf8_is_valid(m.data, m.size) && strpbrk(m.data, "<>\"'") == NULL;
		is_json_safe = is_json_safe && utf8_is_valid(j.data, j.size) && memchr(j.data, '<', j.size) == NULL && memchr(j.data, '\n', j.size) == NULL;
		is_repaired = is_repaired && utf8_is_valid(r.data, r.size);
		buf_release(&t), buf_release(&f), buf_release(&m), buf_release(&j), buf_release(&r);
	}
	ok(is_terminal_safe, "4,000 random names: no control reaches a terminal, no semicolon a frame");
	ok(is_xml_safe, "no markup reaches XML");
	ok(is_json_safe, "no tag reaches JSON");
	ok(is_repaired, "all are valid UTF-8 after repair");
}

int main(void)
{
	test_utf8();
	test_terminal();
	test_others();
	test_any();
	return tap_done();
}
