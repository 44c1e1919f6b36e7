#include "cli/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/closest.h"
#include "base/mem.h"
#include "base/vec.h"
#include "cli/command.h"

const struct option common_options[] = {
	{ 'h', "help", NULL, "show this text", 0, OPTION_ID_HELP, "General", NULL },
	{ 0, "help-all", NULL, "show the expert options too", 0, OPTION_ID_HELP_ALL, NULL, NULL },
	{ 'q', "quiet", NULL, "say nothing but errors on standard error", 0, OPTION_ID_QUIET, NULL, NULL },
	{ 'v', "verbose", NULL, "say more on standard error", OPTION_EXPERT, OPTION_ID_VERBOSE, NULL, NULL },
	{ 0 },
};

bool option_is_end(const struct option *option)
{
	return option->letter == 0 && option->name == NULL;
}

bool command_runs_another(const struct command *command)
{
	for (const char *const *usage = command->usages; usage != NULL && *usage != NULL; usage++)
		if (strstr(*usage, " CMD") != NULL)
			return true;
	return false;
}

void option_parser_init(struct option_parser *parser, const struct option *options, int argc, char **argv, bool stop_at_operand)
{
	*parser = (struct option_parser){
		.options = options, .argc = argc, .argv = argv, .stop_at_operand = stop_at_operand, .next = 1,
	};
}

// Moves the `count` words at argv[next] in front of the operands met before them.
static void consume(struct option_parser *parser, int count)
{
	for (int i = 0; i < count; i++, parser->next++) {
		char *word = parser->argv[parser->next];
		for (int at = parser->next; at > parser->next - parser->operands; at--)
			parser->argv[at] = parser->argv[at - 1];
		parser->argv[parser->next - parser->operands] = word;
	}
}

static bool finish(struct option_parser *parser)
{
	parser->ended = true;
	parser->next -= parser->operands;
	parser->operands = 0;
	return false;
}

static const struct option *find_letter(const struct option *table, char letter)
{
	for (; !option_is_end(table); table++)
		if (table->letter == letter)
			return table;
	return NULL;
}

struct match {
	const struct option *option;
	bool negated;
	const struct option *other; // another one that fits as well
	bool other_negated;
};

static void offer(struct match *best, const struct option *option, bool negated)
{
	if (best->option == NULL)
		*best = (struct match){ .option = option, .negated = negated };
	else if (best->other == NULL && (best->option->id != option->id || best->negated != negated))
		best->other = option, best->other_negated = negated;
}

// How `name` (of `length`) fits an option's name: 2 exactly, 1 as its beginning, 0 not.
static int fit(const char *whole, const char *name, size_t length)
{
	if (strncmp(whole, name, length) != 0)
		return 0;
	return whole[length] == '\0' ? 2 : 1;
}

static bool is_ours(const struct option *option)
{
	return (option->flags & (OPTION_IGNORED | OPTION_REFUSED)) == 0;
}

// An exact name wins; then beginnings of names we act on; then beginnings of those that are accepted or refused for perf's sake.
static struct match find_name(const struct option *own, const char *name, size_t length)
{
	struct match exact = { 0 }, ours = { 0 }, theirs = { 0 };
	const struct option *tables[] = { own, common_options };
	for (size_t t = 0; t < 2; t++) {
		for (const struct option *o = tables[t]; !option_is_end(o); o++) {
			if (o->name == NULL)
				continue;
			int direct = fit(o->name, name, length), negative = 0;
			if ((o->flags & OPTION_NEGATABLE) != 0) {
				if (length <= 3)
					negative = length > 0 && strncmp("no-", name, length) == 0;
				else if (strncmp(name, "no-", 3) == 0)
					negative = fit(o->name, name + 3, length - 3);
			}
			struct match *beginnings = is_ours(o) ? &ours : &theirs;
			if (direct > 0)
				offer(direct == 2 ? &exact : beginnings, o, false);
			if (negative > 0)
				offer(negative == 2 ? &exact : beginnings, o, true);
		}
	}
	if (exact.option != NULL)
		return exact.other = NULL, exact;
	return ours.option != NULL ? ours : theirs;
}

static const char *closest_name(const struct option *own, const char *name)
{
	VEC(const char *) words = { 0 };
	const struct option *tables[] = { own, common_options };
	for (size_t t = 0; t < 2; t++)
		for (const struct option *o = tables[t]; !option_is_end(o); o++)
			if (o->name != NULL && is_ours(o))
				vec_push(&words, o->name);
	vec_push(&words, NULL);
	const char *closest = closest_word(name, words.data);
	vec_release(&words);
	return closest;
}

static bool unknown_name(const struct option_parser *parser, const char *name, size_t length, struct err *err)
{
	char *word = mem_string_n(name, length);
	bool is_negative = strncmp(word, "no-", 3) == 0;
	const char *closest = closest_name(parser->options, word);
	if (closest == NULL && is_negative)
		closest = closest_name(parser->options, word + 3);
	if (closest != NULL)
		err_set(err, STATUS_USAGE, "unknown option --%s; did you mean --%s?", word, closest);
	else
		err_set(err, STATUS_USAGE, "unknown option --%s", word);
	free(word);
	return false;
}

static void spell_name(struct option_parser *parser, const struct option *option, bool negated)
{
	snprintf(parser->spelling, sizeof(parser->spelling), "--%s%s", negated ? "no-" : "", option->name);
}

// false: an error, or an option of common_options or one without effect, to be passed over (err->status stays STATUS_OK).
static bool accept(struct option_parser *parser, const struct option *option, struct option_value *value, struct err *err)
{
	if ((option->flags & OPTION_REFUSED) != 0)
		return err_set(err, STATUS_USAGE, "%s: not supported: %s", parser->spelling, option->help);
	if ((option->flags & OPTION_IGNORED) != 0)
		return false;
	value->id = option->id;
	value->spelled = parser->spelling;
	return true;
}

static bool long_option(struct option_parser *parser, struct option_value *value, struct err *err)
{
	const char *name = parser->argv[parser->next] + 2;
	const char *equals = strchr(name, '=');
	size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
	struct match found = find_name(parser->options, name, length);
	if (found.option == NULL)
		return unknown_name(parser, name, length, err);
	if (found.other != NULL)
		return err_set(err, STATUS_USAGE, "option --%.*s could be --%s%s or --%s%s", (int)length, name, found.negated ? "no-" : "",
		               found.option->name, found.other_negated ? "no-" : "", found.other->name);
	const struct option *option = found.option;
	spell_name(parser, option, found.negated);
	value->negated = found.negated;
	int words = 1;
	bool takes = option->argument != NULL && !found.negated;
	if ((option->flags & OPTION_REFUSED) != 0)
		return accept(parser, option, value, err);
	if (equals != NULL && !takes)
		return err_set(err, STATUS_USAGE, "%s takes no value, but was given '%s'", parser->spelling, equals + 1);
	if (equals != NULL) {
		value->value = equals + 1;
	} else if (takes && (option->flags & OPTION_OPTIONAL) == 0) {
		if (parser->next + 1 >= parser->argc)
			return err_set(err, STATUS_USAGE, "%s needs a value: %s", parser->spelling, option->argument);
		value->value = parser->argv[parser->next + 1];
		words = 2;
	}
	consume(parser, words);
	return accept(parser, option, value, err);
}

static bool unknown_letter(const struct option_parser *parser, const char *at, struct err *err)
{
	const char *word = parser->argv[parser->next];
	if (word[1] != '\0' && word[2] != '\0') {
		const char *closest = closest_name(parser->options, word + 1);
		if (closest != NULL && strlen(word + 1) > 2)
			return err_set(err, STATUS_USAGE, "unknown option -%c in %s; did you mean --%s?", *at, word, closest);
		return err_set(err, STATUS_USAGE, "unknown option -%c in %s", *at, word);
	}
	return err_set(err, STATUS_USAGE, "unknown option -%c", *at);
}

// One letter of the word at argv[next]; parser->cluster is where it stands.
static bool letter_option(struct option_parser *parser, struct option_value *value, struct err *err)
{
	const char *at = parser->cluster;
	const struct option *option = find_letter(parser->options, *at);
	if (option == NULL)
		option = find_letter(common_options, *at);
	if (option == NULL)
		return unknown_letter(parser, at, err);
	snprintf(parser->spelling, sizeof(parser->spelling), "-%c", *at);
	if ((option->flags & OPTION_REFUSED) != 0)
		return accept(parser, option, value, err);
	const char *rest = at + 1;
	int words = 1;
	if (option->argument != NULL) {
		if (*rest != '\0') {
			value->value = rest;
		} else if ((option->flags & OPTION_OPTIONAL) == 0) {
			if (parser->next + 1 >= parser->argc)
				return err_set(err, STATUS_USAGE, "%s needs a value: %s", parser->spelling, option->argument);
			value->value = parser->argv[parser->next + 1];
			words = 2;
		}
		rest = "";
	}
	parser->cluster = *rest != '\0' ? rest : NULL;
	if (parser->cluster == NULL)
		consume(parser, words);
	return accept(parser, option, value, err);
}

// The next option, common ones among them. false as option_next.
static bool next_of_all(struct option_parser *parser, struct option_value *value, struct err *err)
{
	while (!parser->ended) {
		*value = (struct option_value){ 0 };
		err_clear(err);
		bool is_found;
		if (parser->cluster != NULL) {
			is_found = letter_option(parser, value, err);
		} else if (parser->next >= parser->argc) {
			return finish(parser);
		} else {
			const char *word = parser->argv[parser->next];
			if (strcmp(word, "--") == 0) {
				consume(parser, 1);
				return finish(parser);
			} else if (word[0] != '-' || word[1] == '\0') {
				if (parser->stop_at_operand)
					return finish(parser);
				parser->operands++;
				parser->next++;
				continue;
			} else if (word[1] == '-') {
				is_found = long_option(parser, value, err);
			} else {
				parser->cluster = word + 1;
				is_found = letter_option(parser, value, err);
			}
		}
		if (is_found || err->status != STATUS_OK)
			return is_found;
	}
	return false;
}

bool option_next(struct option_parser *parser, struct option_value *value, struct err *err)
{
	err_clear(err);
	while (next_of_all(parser, value, err))
		if (value->id > 0)
			return true;
	return false;
}

struct common_choices option_common(const struct option *options, int argc, char *const *argv, bool stop_at_operand)
{
	struct common_choices choices = { 0 };
	// A copy: the command shall meet its words in the order they were written.
	char **copy = mem_copy(argv, sizeof(*argv) * ((size_t)argc + 1));
	struct option_parser parser;
	struct option_value value;
	struct err err = { 0 };
	option_parser_init(&parser, options, argc, copy, stop_at_operand);
	while (next_of_all(&parser, &value, &err)) {
		choices.help |= value.id == OPTION_ID_HELP;
		choices.help_all |= value.id == OPTION_ID_HELP_ALL;
		choices.quiet |= value.id == OPTION_ID_QUIET;
		choices.verbose += value.id == OPTION_ID_VERBOSE;
	}
	free(copy);
	return choices;
}
