// Parsing of option tables, and values.
#include "base/closest.h"
#include "cli/command.h"
#include "tests/tap.h"

enum { INPUT = 1, GRAPH, VERBOSE, INLINE, SIZE, ALL, OLD, GONE, DEMO };
static const struct option table[] = {
	{ 'i', "input", "FILE", "input", 0, INPUT, "Input", "file" },
	{ 'g', "call-graph", "MODE", "graph", OPTION_OPTIONAL, GRAPH, NULL, NULL },
	{ 'V', "very-verbose", NULL, "talk", 0, VERBOSE, NULL, NULL },
	{ 0, "inline", NULL, "inline", OPTION_NEGATABLE, INLINE, NULL, NULL },
	{ 'm', NULL, "SIZE", "size", OPTION_EXPERT, SIZE, NULL, NULL },
	{ 'a', "all", NULL, "all", 0, ALL, NULL, NULL },
	{ 'B', "old", "X", "", OPTION_IGNORED, OLD, NULL, NULL },
	{ 'D', "inspect", "X", "use debug", OPTION_REFUSED, GONE, NULL, NULL },
	{ 0, "demonstrate", NULL, "demo", 0, DEMO, NULL, NULL },
	{ 0 },
};

// Parses words, writes "id=value " for each option (negated: "!id"), then "| operands", then the error.
static const char *parse(bool stop, int argc, char **argv)
{
	static char out[2048];
	struct option_parser parser;
	struct option_value v;
	struct err err = { 0 };
	size_t n = 0;
	option_parser_init(&parser, table, argc, argv, stop);
	while (option_next(&parser, &v, &err))
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%d%s%s(%s) ", v.negated ? "!" : "", v.id, v.value != NULL ? "=" : "",
		                      v.value != NULL ? v.value : "", v.spelled);
	if (err.status != STATUS_OK) {
		snprintf(out + n, sizeof(out) - n, "error %d: %s", err.status, err.text);
		return out;
	}
	n += (size_t)snprintf(out + n, sizeof(out) - n, "|");
	for (int i = parser.next; i < argc; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, " %s", argv[i]);
	return out;
}

#define PARSE(stop, ...) ({ char *argv_[] = { (char[]){ "cmd" }, __VA_ARGS__, NULL }; \
	parse(stop, (int)(sizeof(argv_) / sizeof(argv_[0])) - 1, argv_); })
#define W(s) (char[]){ s }

static void test_forms(void)
{
	is_str(PARSE(false, W("-i"), W("f")), "1=f(-i) |", "-x VALUE");
	is_str(PARSE(false, W("-if")), "1=f(-i) |", "-xVALUE");
	is_str(PARSE(false, W("--input"), W("f")), "1=f(--input) |", "--long VALUE");
	is_str(PARSE(false, W("--input=f")), "1=f(--input) |", "--long=VALUE");
	is_str(PARSE(false, W("--input=")), "1=(--input) |", "--long= gives an empty value");
	is_str(PARSE(false, W("-Vai"), W("f")), "3(-V) 6(-a) 1=f(-i) |", "a cluster whose last letter takes the next word");
	is_str(PARSE(false, W("-Vaif")), "3(-V) 6(-a) 1=f(-i) |", "a cluster whose last letter takes the rest");
	is_str(PARSE(false, W("-g"), W("fp")), "2(-g) | fp", "an optional value is never the next word");
	is_str(PARSE(false, W("-gfp")), "2=fp(-g) |", "an optional value behind its letter");
	is_str(PARSE(false, W("--call-graph"), W("fp")), "2(--call-graph) | fp", "long, optional: not the next word");
	is_str(PARSE(false, W("--call-graph=fp")), "2=fp(--call-graph) |", "long, optional: behind =");
	is_str(PARSE(false, W("--no-inline"), W("--inline")), "!4(--no-inline) 4(--inline) |", "negatable");
	is_str(PARSE(false, W("-B"), W("x"), W("--old=y"), W("-a")), "6(-a) |", "options without effect are passed over, with their values");
	is_str(PARSE(false, W("-q"), W("--quiet"), W("-v"), W("--help"), W("-a")), "6(-a) |", "common options are passed over");
	is_str(PARSE(false, W("-aqV")), "6(-a) 3(-V) |", "common letters inside a cluster too");
	is_str(PARSE(false, W("-i"), W("-a")), "1=-a(-i) |", "a value may look like an option");
	is_str(PARSE(false, W("-i"), W("--")), "1=--(-i) |", "even like the end of options");
}

static void test_operands(void)
{
	is_str(PARSE(false, W("x"), W("-a"), W("y"), W("-i"), W("f"), W("z")), "6(-a) 1=f(-i) | x y z", "options among operands; their order is kept");
	is_str(PARSE(false, W("x"), W("-a"), W("--"), W("-a"), W("y")), "6(-a) | x -a y", "-- ends options");
	is_str(PARSE(true, W("-a"), W("x"), W("-a")), "6(-a) | x -a", "stop at the first operand");
	is_str(PARSE(true, W("-a"), W("--"), W("-x")), "6(-a) | -x", "stop: -- too");
	is_str(PARSE(false, W("-"), W("-a")), "6(-a) | -", "a lone dash is an operand");
	is_str(PARSE(true, W("-a"), W("x"), W("--"), W("y")), "6(-a) | x -- y", "stop: what follows is not touched");
	is_str(PARSE(false, W("")), "| ", "an empty word is an operand");
}

static void test_abbreviations(void)
{
	is_str(PARSE(false, W("--inp"), W("f")), "1=f(--input) |", "the beginning of a name");
	is_str(PARSE(false, W("--al")), "6(--all) |", "of another");
	is_str(PARSE(false, W("--in")), "error 2: option --in could be --input or --inline", "ambiguous");
	is_str(PARSE(false, W("--no-in")), "!4(--no-inline) |", "a negated beginning");
	is_str(PARSE(false, W("--no")), "!4(--no-inline) |", "no- alone, with one negatable option");
	is_str(PARSE(false, W("--ins"), W("x")), "error 2: --inspect: not supported: use debug", "refused, shortened");
	is_str(PARSE(false, W("--v")), "error 2: option --v could be --very-verbose or --verbose", "own and common names compete");
	is_str(PARSE(false, W("--help-a")), "|", "common names may be shortened");
	is_str(PARSE(false, W("--demo")), "9(--demonstrate) |", "a beginning that no other has");
}

static void test_errors(void)
{
	is_str(PARSE(false, W("--no-such-option")), "error 2: unknown option --no-such-option", "unknown, nothing close");
	is_str(PARSE(false, W("--imput"), W("x")), "error 2: unknown option --imput; did you mean --input?", "unknown, one close");
	is_str(PARSE(false, W("--inupt=x")), "error 2: unknown option --inupt; did you mean --input?", "swapped letters, with a value");
	is_str(PARSE(false, W("-x")), "error 2: unknown option -x", "unknown letter");
	is_str(PARSE(false, W("-ax")), "6(-a) error 2: unknown option -x in -ax", "unknown letter in a cluster");
	is_str(PARSE(false, W("-input")), "1=nput(-i) |", "-input is -i nput, as in every getopt");
	is_str(PARSE(false, W("-xall")), "error 2: unknown option -x in -xall; did you mean --all?", "a long name with one dash");
	is_str(PARSE(false, W("-i")), "error 2: -i needs a value: FILE", "missing value, short");
	is_str(PARSE(false, W("--input")), "error 2: --input needs a value: FILE", "missing value, long");
	is_str(PARSE(false, W("--all=x")), "error 2: --all takes no value, but was given 'x'", "a value too many");
	is_str(PARSE(false, W("--no-inline=x")), "error 2: --no-inline takes no value, but was given 'x'", "negated takes none");
	is_str(PARSE(false, W("--no-input")), "error 2: unknown option --no-input; did you mean --input?", "not negatable");
	is_str(PARSE(false, W("-D"), W("x")), "error 2: -D: not supported: use debug", "refused, short");
	is_str(PARSE(false, W("--inspect")), "error 2: --inspect: not supported: use debug", "refused before its value is missed");
}

static void test_common(void)
{
	char *argv[] = { W("cmd"), W("-a"), W("-i"), W("--help"), W("x"), W("-qvv"), W("--"), W("--help-all"), NULL };
	struct common_choices c = option_common(table, 8, argv, false);
	ok(!c.help && c.quiet && c.verbose == 2 && !c.help_all, "common options as the command would meet them: a value is none, nor what follows --");
	is_str(argv[4], "x", "the words stay in their order");
	c = option_common(table, 8, argv, true);
	ok(!c.quiet, "nothing after the first operand");
	char *help[] = { W("cmd"), W("--help"), W("--nonsense"), NULL };
	ok(option_common(table, 3, help, false).help, "help before a wrong option");
}

static void test_help(void)
{
	static const char *const usages[] = { "perfsample try [options] [--] CMD", "perfsample try -p PID", NULL };
	static const char *const plain[] = { "perfsample other", NULL };
	struct command command = { .name = "try", .usages = usages, .options = table, .description = "First.\nSecond word word." };
	struct buf out = { 0 };
	option_help_text(&command, false, 80, &out);
	const char *text = buf_text(&out);
	ok(strstr(text, "usage: perfsample try [options] [--] CMD\n       perfsample try -p PID\n") == text, "usage lines");
	ok(strstr(text, "\nInput:\n  -i, --input FILE") != NULL && strstr(text, "\nGeneral:\n  -h, --help ") != NULL, "headings");
	ok(strstr(text, "--[no-]inline") != NULL && strstr(text, "-g, --call-graph[=MODE]") != NULL, "spellings");
	ok(strstr(text, "-m SIZE") == NULL && strstr(text, "--old") == NULL && strstr(text, "--inspect") == NULL, "expert options and perf's are left out");
	ok(strstr(text, "--help-all") != NULL, "and where they are is said");
	buf_clear(&out);
	option_help_text(&command, true, 80, &out);
	ok(strstr(buf_text(&out), "-m SIZE") != NULL && strstr(buf_text(&out), "--inspect") == NULL, "--help-all shows expert options");
	for (char *line = strtok(out.data, "\n"); line != NULL; line = strtok(NULL, "\n"))
		if (strlen(line) > 80)
			ok(false, "a help line is wider than 80 columns: %s", line);
	ok(command_runs_another(&command), "a usage with CMD runs another command");
	command.usages = plain;
	ok(!command_runs_another(&command), "one without does not");
	buf_release(&out);
}

static void test_closest(void)
{
	static const char *const words[] = { "record", "report", "fold", "ls", NULL };
	is_str(closest_word("recrod", words), "record", "swapped neighbours are one change");
	is_str(closest_word("repor", words), "report", "one missing");
	is_str(closest_word("recorrd", words), "record", "one too many");
	is_str(closest_word("fald", words), "fold", "one wrong");
	ok(closest_word("fa", words) == NULL, "two of two letters are too many");
	ok(closest_word("xyz", words) == NULL, "nothing near");
	ok(closest_word("", words) == NULL, "nothing is near to nothing");
	char longest[200];
	memset(longest, 'a', sizeof(longest) - 1);
	longest[199] = '\0';
	ok(closest_word(longest, words) == NULL, "a very long word is bounded");
}

int main(void)
{
	test_forms();
	test_operands();
	test_abbreviations();
	test_errors();
	test_common();
	test_help();
	test_closest();
	return tap_done();
}
