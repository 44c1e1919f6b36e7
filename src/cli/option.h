// Option tables: one table drives parsing, --help, completion and the man pages' option lists.
//
// Grammar: getopt's. `-x VALUE`, `-xVALUE`, `--long VALUE`, `--long=VALUE`; clustering of flags; `--` ends options. Options and operands may mix
// unless `stop_at_operand` (record: CMD's own options are its own). Long names may be shortened while unambiguous.
#ifndef PERFSAMPLE_CLI_OPTION_H
#define PERFSAMPLE_CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum option_flags {
	OPTION_EXPERT = 1,       // shown by --help-all only
	OPTION_OPTIONAL = 2,     // the argument may be left out (-g, -z, --call-graph): then only -xVALUE and --long=VALUE give one
	OPTION_IGNORED = 4,      // accepted from perf without effect
	OPTION_REFUSED = 8,      // perf has it, we do not: `help` says our equivalent or why not; status 2
	OPTION_NEGATABLE = 16,   // --no-NAME exists too: value NULL, `negated` set
};

struct option {
	char letter;             // 0: none
	const char *name;        // long name without dashes; NULL: none
	const char *argument;    // "HZ"; NULL: a flag
	const char *help;        // one or more lines, '\n' between
	unsigned flags;
	int id;                  // the command's own enum; 0 is not used
	const char *group;       // heading in --help; NULL: that of the option before
	const char *completes;   // "file", "pid", "event", "a|b|c" or NULL
};

struct option_value { int id; const char *value; bool negated; const char *spelled; }; // spelled: "--call-graph" or "-g", for messages

struct option_parser {
	const struct option *options;
	int argc;
	char **argv;
	bool stop_at_operand;
	int next;                // first operand once option_next returned false
	// private
	const char *cluster;
	int operands;
	bool ended;
	char spelling[64];
};

void option_parser_init(struct option_parser *parser, const struct option *options, int argc, char **argv, bool stop_at_operand);
// The next option. false: no more (err->status is STATUS_OK; operands are argv[next…argc)) or wrong (STATUS_USAGE: names the offending word
// and, where one is close, the likely one meant).
bool option_next(struct option_parser *parser, struct option_value *value, struct err *err);

// What every command takes beside its own table: --help, --help-all, -q, -v. main.c acts on them before the command runs; option_next
// passes over them, unless the command's own table has the letter or the name.
enum { OPTION_ID_HELP = -1, OPTION_ID_HELP_ALL = -2, OPTION_ID_QUIET = -3, OPTION_ID_VERBOSE = -4 };
extern const struct option common_options[]; // ends with an empty one
// The common options among a command's arguments, found as option_next would meet them.
struct common_choices { bool help, help_all, quiet; int verbose; };
struct common_choices option_common(const struct option *options, int argc, char *const *argv, bool stop_at_operand);
// An option table's end: neither a letter nor a name.
bool option_is_end(const struct option *option);

struct command;
// Whether the options of `command` end at the first operand, because another command line follows: its usage names a CMD.
bool command_runs_another(const struct command *command);
// --help and --help-all on standard output.
void option_help(const struct command *command, bool all);
// The same as text, for `width` columns.
void option_help_text(const struct command *command, bool all, size_t width, struct buf *out);
// "-o, --output FILE", "-z, --compress[=LEVEL]", "--[no-]inline".
void option_spelling(const struct option *option, struct buf *out);

// Values. Each false return fills err with STATUS_USAGE, naming `spelled` and the offending text.
bool value_u64(const char *text, uint64_t min, uint64_t max, const char *spelled, uint64_t *out, struct err *err);
bool value_double(const char *text, double min, double max, const char *spelled, double *out, struct err *err);
// 0.95 or 95%.
bool value_share(const char *text, double min, double max, const char *spelled, double *out, struct err *err);
// 512, 64K, 4M, 1G (powers of 1024); `pages`: a bare number counts pages of 4096 bytes.
bool value_size(const char *text, bool pages, const char *spelled, uint64_t *bytes, struct err *err);
// 30s, 5m, 1h, 250ms, 10us, 7ns; a bare number counts `unit_ns`.
bool value_duration(const char *text, uint64_t unit_ns, const char *spelled, uint64_t *ns, struct err *err);
// "0-3,7": ascending, distinct.
bool value_list(const char *text, uint64_t max, const char *spelled, uint32_t **out, size_t *count, struct err *err);
// Splits at commas, spaces and newlines; the caller frees array and words with value_words_free.
// Their count is in *count; an empty text has none.
char **value_words(const char *text, const char *separators, size_t *count);
void value_words_free(char **words, size_t count);

#endif
