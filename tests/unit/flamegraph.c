// Folded stacks to SVG and HTML: the figures, the escaping, the layout, and what a browser's policy needs.
#include "contrib/flamegraph/flamegraph.h"
#include "contrib/flamegraph/sha256.h"
#include "base/mem.h"
#include "tests/tap.h"

static struct buf out;

static bool draw(const char *folded, struct flamegraph_options options)
{
	struct err err = { 0 };
	buf_clear(&out);
	bool good = flamegraph_render(folded, strlen(folded), &options, &out, &err);
	buf_text(&out);
	if (!good) {
		buf_clear(&out);
		buf_printf(&out, "%d: %s", err.status, err.text);
	}
	return good;
}

static size_t count(const char *needle)
{
	size_t n = 0;
	for (const char *at = strstr(out.data, needle); at != NULL; at = strstr(at + 1, needle))
		n++;
	return n;
}

static bool has(const char *needle)
{
	return count(needle) > 0;
}

static void test_figures(void)
{
	ok(draw("a;b;c 30\na;b 10\na;d 60\n", (struct flamegraph_options){ .title = "T", .width = 1024 }), "drawn");
	is_u64(count("<g class=\"f "), 5, "a box for all, a, b, c, d");
	ok(has("<title>all\n100 samples, 100.00%</title><rect x=\"12.0\" y=\"110\" width=\"999.40\" height=\"17\"/>"), "all: the whole width, at the bottom");
	ok(has("<title>b\n40 samples, 40.00%</title><rect x=\"12.0\" y=\"74\" width=\"399.40\""), "b: 40 of 100, above a");
	ok(has("<title>c\n30 samples, 30.00%</title><rect x=\"12.0\" y=\"56\" width=\"299.40\""), "c: above b, where b begins");
	ok(has("<title>d\n60 samples, 60.00%</title><rect x=\"412.0\" y=\"74\" width=\"599.40\""), "d: right of b, by name");
	ok(has("data-s=\"0\" data-n=\"40\" data-d=\"2\" data-o=\"10\"><title>b"), "b: 10 samples of its own");
	ok(has("data-s=\"0\" data-n=\"100\" data-d=\"1\"><title>a"), "a: none of its own");
	char *first = mem_string(out.data);
	draw("a;d 20\na;d 40\na;b 10\na;b;c 30\n", (struct flamegraph_options){ .title = "T", .width = 1024 });
	is_str(out.data, first, "the order of lines, and a stack on two of them, make no difference");
	free(first);
	draw("a;b;c 30\na;b 10\na;d 60", (struct flamegraph_options){ .inverted = true, .width = 1024, .unit = "bytes" });
	ok(has("<title>all\n100 bytes, 100.00%</title><rect x=\"12.0\" y=\"56\"") && has("<title>c\n30 bytes, 30.00%</title><rect x=\"12.0\" y=\"110\""),
	   "inverted: all at the top, c at the bottom; the unit as asked for; no newline at the end");
	draw("a;b;c 30\na;b 10\na;d 60\n", (struct flamegraph_options){ .reverse = true });
	ok(has("data-d=\"1\"><title>c\n30") && has("data-d=\"2\"><title>b\n30") && has("data-d=\"3\" data-o=\"30\"><title>a\n30"), "reversed: c, called by b, called by a");
	ok(has("<title>b\n10 ") && has("<title>d\n60 "), "reversed: the other leaves");
	draw("a 1234567\n", (struct flamegraph_options){ 0 });
	ok(has("<title>a\n1,234,567 samples, 100.00%"), "thousands are grouped");
}

static void test_input(void)
{
	ok(draw("", (struct flamegraph_options){ 0 }) && count("<g class=\"f ") == 1, "nothing: one empty box");
	ok(draw("\n\na 1\r\n", (struct flamegraph_options){ 0 }) && has("<title>a\n1 "), "blank lines and carriage returns");
	ok(draw("a b  c 3\n", (struct flamegraph_options){ 0 }) && has("<title>a b  c\n3 "), "blanks inside a frame");
	ok(draw("a;;b 3\n", (struct flamegraph_options){ 0 }) && has("data-d=\"3\""), "an empty frame is a frame");
	ok(draw("a 0\nb 1\n", (struct flamegraph_options){ 0 }) && !has("<title>a\n"), "a count of 0 counts nothing");
	static const char *const wrong[] = { "a\n", "a \n", "12\n", " 12\n", "a 12x\n", "a -1\n", "a 1.5\n", "a 12345678901234567890\n" };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char text[64];
		snprintf(text, sizeof(text), "ok 1\n%s", wrong[i]);
		ok(!draw(text, (struct flamegraph_options){ 0 }) && strncmp(out.data, "4: line 2: ", 11) == 0, "refused, by line: %.*s", (int)strlen(wrong[i]) - 1, wrong[i]);
	}
	struct buf many = { 0 };
	for (int i = 0; i < 20; i++)
		buf_string(&many, "a 999999999999999999\n");
	ok(!draw(buf_text(&many), (struct flamegraph_options){ 0 }) && has("64 bits"), "counts that add up to too much");
	buf_release(&many);
}

static void test_narrow(void)
{
	struct buf in = { 0 };
	for (int i = 0; i < 50; i++)
		buf_printf(&in, "a;n%02d;x 1\n", i);
	buf_printf(&in, "a;big 999950\n");
	draw(buf_text(&in), (struct flamegraph_options){ .width = 1024 });
	ok(!has("<title>n00") && has("<title>big"), "frames below 0.1 px are not drawn");
	is_u64(count("<g class=\"f "), 3, "all, a, big: 50 of a million are 0.05 px, still too narrow together");
	buf_clear(&in);
	for (int i = 0; i < 500; i++)
		buf_printf(&in, "a;n%03d;x 1\n", i);
	buf_printf(&in, "a;big 999500\n");
	draw(buf_text(&in), (struct flamegraph_options){ .width = 1024 });
	ok(has("<g class=\"f m\" data-s=\"999500\" data-n=\"500\" data-d=\"2\" data-o=\"500\"><title>(500 narrower frames)\n500 samples, 0.05%"), "500 siblings are one box, at the end");
	buf_clear(&in);
	for (int i = 0; i < 8000; i++)
		buf_printf(&in, "f%d;", i);
	buf_string(&in, "leaf 1\n");
	draw(buf_text(&in), (struct flamegraph_options){ 0 });
	is_u64(count("<g class=\"f "), 8002, "8,000 frames deep");
	buf_release(&in);
}

static void test_escaping(void)
{
	draw("x;</script><script>alert(1)</script>;\"onload='q';a&b\x1b[31m;\xff\xe2\x80\xae 5\n",
	     (struct flamegraph_options){ .title = "<T>&\"", .subtitle = "<sub>\nsecond\x01", .unit = "\"u\"" });
	ok(has("&lt;/script&gt;&lt;script&gt;alert(1)") && has("&quot;onload=&#39;q&#39;") && has("a&amp;b\xef\xbf\xbd[31m"), "names");
	ok(!has("<script>alert") && !has("\x1b") && !has("\xff"), "nothing of them acts");
	is_u64(count("<script"), 1, "one script: ours");
	ok(has("&lt;T&gt;&amp;&quot;</text>") && has(">&lt;sub&gt;</text>") && has(">second\xef\xbf\xbd</text>") && has("data-unit=\"&quot;u&quot;\""), "title, subtitle, unit");
	struct flamegraph_options page = { .format = FLAMEGRAPH_HTML };
	draw("x;</script>x;</style><b> 5\n", page);
	ok(count("</script>") == 3 && count("</style>") == 1 && !has("<b>") && has("\\u003c/script>x"), "HTML: names close nothing");
}

static void test_marks(void)
{
	draw("a;k_[k];i_[i] 5\na;[truncated];b 1\na;[unwind failed];b 1\na;[unknown] 1\na;[libfoo.so] 1\nall;_[k] 1\n", (struct flamegraph_options){ 0 });
	ok(has("class=\"f k k") && has("<title>k\n5 "), "kernel mark: a class, and off the name");
	ok(has("class=\"f i i") && has("<title>i\n5 "), "inlined mark");
	ok(has("class=\"f t\" data-s=\"0\" data-n=\"1\" data-d=\"2\"><title>[truncated]") || has("\"><title>[truncated]"), "truncated is there");
	is_u64(count("class=\"f t\""), 3, "truncated, failed, unknown are ends");
	ok(has("<title>_[k]\n1 "), "a mark alone is a name");
	ok(has("class=\"f u u") && has(">kernel</text>") && has(">inlined</text>") && has(">not unwound</text>") && !has(">too narrow</text>"), "the legend says what occurs");
	char *copy = mem_string(strstr(out.data, "class=\"f u u"));
	draw("zzz;other 1\na;x 99\n", (struct flamegraph_options){ 0 });
	char *a1 = strstr(copy, "<title>a\n"), *a2 = strstr(out.data, "<title>a\n");
	while (a1 != NULL && a1 > copy && strncmp(a1, "class=\"", 7) != 0)
		a1--;
	while (a2 != NULL && a2 > out.data && strncmp(a2, "class=\"", 7) != 0)
		a2--;
	ok(a1 != NULL && a2 != NULL && strncmp(a1, a2, 13) == 0, "a name has the same colour in every graph");
	free(copy);
}

static void test_labels(void)
{
	draw("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 10\nb 990\n", (struct flamegraph_options){ .width = 3024 });
	ok(has("\xc3\xa4\xc3\xa4\xe2\x80\xa6</text>"), "cut between letters, never inside one: 30 px hold 3 columns");
	draw("abc 5\nlong_name 995\n", (struct flamegraph_options){ .width = 1024 });
	ok(!has(">abc</text>"), "5 px hold no label");
}

static void sha_is(const char *text, const char *wanted)
{
	struct buf b = { 0 };
	sha256_base64(&b, text, strlen(text));
	is_str(buf_text(&b), wanted, "SHA-256 of %zu bytes", strlen(text));
	buf_release(&b);
}

static void test_policy(void)
{
	char text[130];
	sha_is("", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
	sha_is("abc", "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="); // FIPS 180-4's example
	sha_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=");
	memset(text, 'a', 129);
	text[55] = '\0';
	sha_is(text, "n0OQ+NMMLdkuyfCVtl4rmumwqSWlJY4kHJ8ekQ9zQxg=");
	text[55] = 'a';
	text[56] = '\0';
	sha_is(text, "s1Q5pKxvCUi21vnjxq8PX1kM4g8b3nCQ73lwaG7Gc4o=");
	text[56] = 'a';
	text[63] = '\0';
	sha_is(text, "fT50oF19sVvOStnsBljqmOPwbu7PFrTG//LaRX3cLzQ=");
	text[63] = 'a';
	text[64] = '\0';
	sha_is(text, "/+BU/nrgy23GXDr5th1SCfQ5hR20PQulmXM33xVGaOs=");
	text[64] = 'a';
	text[65] = '\0';
	sha_is(text, "Y1NhxIu56rFBmOduqKt/GkFoXWrWKqkUbTAdTxfrCuA=");
	text[65] = 'a';
	text[129] = '\0';
	sha_is(text, "wSywJKLlVRzKDgj86PHF4xRVXMP+9jKe6ZSj23UhZq4=");
	text[129] = 'a';
	draw("a;b 1\n", (struct flamegraph_options){ .format = FLAMEGRAPH_HTML });
	const char *style = strstr(out.data, "<style>") + 7, *script = strstr(out.data, "<script>") + 8;
	struct buf policy = { 0 };
	buf_string(&policy, "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-");
	sha256_base64(&policy, style, (size_t)(strstr(style, "</style>") - style));
	buf_string(&policy, "'; script-src 'sha256-");
	sha256_base64(&policy, script, (size_t)(strstr(script, "</script>") - script));
	buf_string(&policy, "'\"");
	ok(has(policy.data), "HTML: the policy names the hashes of exactly this style and this script");
	ok(!has(" style=\"") && !has("onclick") && !has("http-equiv=\"refresh") && !has("src=") && !has("href="), "nothing inline beside them, nothing from elsewhere");
	buf_release(&policy);
	draw("a;b 1\n", (struct flamegraph_options){ 0 });
	ok(!has(" style=\"") && !has("onclick") && !has("href=") && !has("@import") && !has("url("), "the same for SVG");
}

int main(void)
{
	test_figures();
	test_input();
	test_narrow();
	test_escaping();
	test_marks();
	test_labels();
	test_policy();
	buf_release(&out);
	return tap_done();
}
