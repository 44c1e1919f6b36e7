// perfsample completion bash|zsh: shell completion, made from the option tables of every command.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"

static bool is_shown(const struct option *option)
{
	return (option->flags & (OPTION_IGNORED | OPTION_REFUSED)) == 0;
}

// Every spelling of an option's name: "record" and, where it can be negated, "no-record".
static void each_name(struct buf *out, const struct option *option, const char *before, const char *after)
{
	if (option->name == NULL)
		return;
	buf_printf(out, "%s--%s%s", before, option->name, after);
	if ((option->flags & OPTION_NEGATABLE) != 0)
		buf_printf(out, "%s--no-%s%s", before, option->name, after);
}

static void bash_words(struct buf *out, const struct option *options)
{
	for (const struct option *o = options; o != NULL && !option_is_end(o); o++) {
		if (!is_shown(o))
			continue;
		if (o->letter != 0)
			buf_printf(out, " -%c", o->letter);
		each_name(out, o, " ", "");
	}
}

// What the word after an option can be: "file", "pid" or alternatives. Options whose value cannot be guessed complete nothing.
static void bash_values(struct buf *out, const struct command *command)
{
	for (const struct option *o = command->options; o != NULL && !option_is_end(o); o++) {
		if (!is_shown(o) || o->argument == NULL || (o->flags & OPTION_OPTIONAL) != 0)
			continue;
		buf_byte(out, '\t');
		if (o->letter != 0)
			buf_printf(out, "%s:-%c", command->name, o->letter);
		if (o->name != NULL)
			buf_printf(out, "%s%s:--%s", o->letter != 0 ? "|" : "", command->name, o->name);
		if (o->completes == NULL)
			buf_string(out, ") return ;;\n");
		else if (strcmp(o->completes, "file") == 0)
			buf_string(out, ") COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n");
		else if (strcmp(o->completes, "pid") == 0)
			buf_string(out, ") COMPREPLY=($(compgen -W \"$(ps -eo pid= 2>/dev/null)\" -- \"$current\")); return ;;\n");
		else if (strcmp(o->completes, "event") == 0)
			buf_string(out, ") COMPREPLY=($(compgen -W \"$(perfsample list --names 2>/dev/null)\" -- \"$current\")); return ;;\n");
		else {
			buf_string(out, ") COMPREPLY=($(compgen -W \"");
			for (const char *at = o->completes; *at != '\0'; at++)
				buf_byte(out, *at == '|' || *at == ',' ? ' ' : (uint8_t)*at);
			buf_string(out, "\" -- \"$current\")); return ;;\n");
		}
	}
}

static void bash(struct buf *out)
{
	buf_string(out, "# bash completion for perfsample; made by perfsample completion bash\n"
	           "_perfsample()\n{\n\tlocal current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" command=\"${COMP_WORDS[1]}\"\n"
	           "\tCOMPREPLY=()\n\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n\t\tCOMPREPLY=($(compgen -W \"");
	for (const struct command *const *c = commands; *c != NULL; c++)
		if (!(*c)->is_hidden)
			buf_printf(out, "%s ", (*c)->name);
	buf_string(out, "--version --help\" -- \"$current\"))\n\t\treturn\n\tfi\n\tcase \"$command:$previous\" in\n");
	for (const struct command *const *c = commands; *c != NULL; c++)
		if (!(*c)->is_hidden)
			bash_values(out, *c);
	buf_string(out, "\tesac\n\tcase \"$command\" in\n");
	for (const struct command *const *c = commands; *c != NULL; c++) {
		if ((*c)->is_hidden)
			continue;
		buf_printf(out, "\t%s) [[ $current == -* ]] && COMPREPLY=($(compgen -W \"", (*c)->name);
		bash_words(out, (*c)->options);
		bash_words(out, common_options);
		buf_string(out, "\" -- \"$current\")) ;;\n");
	}
	buf_string(out, "\tesac\n\t[ ${#COMPREPLY[@]} -eq 0 ] && [[ $current != -* ]] && COMPREPLY=($(compgen -f -c -- \"$current\"))\n}\n"
	           "complete -o filenames -F _perfsample perfsample\n");
}

// Text inside zsh's '…[…]' specifications.
static void zsh_text(struct buf *out, const char *text)
{
	for (; *text != '\0' && *text != '\n'; text++) {
		if (*text == '\'')
			buf_string(out, "'\\''");
		else if (strchr("[]:\\", *text) != NULL)
			buf_printf(out, "\\%c", *text);
		else
			buf_byte(out, (uint8_t)*text);
	}
}

static void zsh_value(struct buf *out, const struct option *option)
{
	if (option->argument == NULL)
		return;
	buf_string(out, (option->flags & OPTION_OPTIONAL) != 0 ? "::" : ":");
	zsh_text(out, option->argument);
	if (option->completes == NULL)
		buf_string(out, ": ");
	else if (strcmp(option->completes, "file") == 0)
		buf_string(out, ":_files");
	else if (strcmp(option->completes, "pid") == 0)
		buf_string(out, ":_pids");
	else if (strcmp(option->completes, "event") == 0)
		buf_string(out, ":($(perfsample list --names 2>/dev/null))");
	else {
		buf_string(out, ":(");
		for (const char *at = option->completes; *at != '\0'; at++)
			buf_byte(out, *at == '|' || *at == ',' ? ' ' : (uint8_t)*at);
		buf_byte(out, ')');
	}
}

static void zsh_spec(struct buf *out, const struct option *option, const char *dashes, const char *name, bool takes_value)
{
	bool joins = takes_value && option->argument != NULL;
	bool is_optional = (option->flags & OPTION_OPTIONAL) != 0;
	buf_printf(out, "\t\t'*%s%s%s[", dashes, name, !joins ? "" : dashes[1] == '-' ? (is_optional ? "=-" : "=") : is_optional ? "-" : "+");
	zsh_text(out, option->help != NULL ? option->help : "");
	buf_byte(out, ']');
	if (joins)
		zsh_value(out, option);
	buf_string(out, "' \\\n");
}

static void zsh_options(struct buf *out, const struct option *options)
{
	for (const struct option *o = options; o != NULL && !option_is_end(o); o++) {
		char letter[2] = { o->letter, '\0' }, negative[96];
		if (!is_shown(o))
			continue;
		if (o->letter != 0)
			zsh_spec(out, o, "-", letter, true);
		if (o->name == NULL)
			continue;
		zsh_spec(out, o, "--", o->name, true);
		snprintf(negative, sizeof(negative), "no-%s", o->name);
		if ((o->flags & OPTION_NEGATABLE) != 0)
			zsh_spec(out, o, "--", negative, false);
	}
}

static void zsh(struct buf *out)
{
	buf_string(out, "#compdef perfsample\n# zsh completion for perfsample; made by perfsample completion zsh\n_perfsample()\n{\n"
	           "\tlocal -a commands=(\n");
	for (const struct command *const *c = commands; *c != NULL; c++) {
		if ((*c)->is_hidden)
			continue;
		buf_printf(out, "\t\t'%s:", (*c)->name);
		zsh_text(out, (*c)->summary);
		buf_string(out, "'\n");
	}
	buf_string(out, "\t)\n\tif (( CURRENT == 2 )); then\n\t\t_describe command commands\n\t\treturn\n\tfi\n"
	           "\tlocal command=$words[2]\n\tshift words\n\t(( CURRENT-- ))\n\tcase $command in\n");
	for (const struct command *const *c = commands; *c != NULL; c++) {
		if ((*c)->is_hidden)
			continue;
		bool runs_another = command_runs_another(*c);
		buf_printf(out, "\t%s) _arguments -s%s \\\n", (*c)->name, runs_another ? " -A '-*'" : "");
		zsh_options(out, (*c)->options);
		zsh_options(out, common_options);
		buf_string(out, runs_another ? "\t\t'*::command:_normal' ;;\n" : "\t\t'*:file:_files' ;;\n");
	}
	buf_string(out, "\tesac\n}\n_perfsample \"$@\"\n");
}

static int run(int argc, char **argv)
{
	struct buf out = { 0 };
	if (argc == 2 && strcmp(argv[1], "bash") == 0) {
		bash(&out);
	} else if (argc == 2 && strcmp(argv[1], "zsh") == 0) {
		zsh(&out);
	} else {
		log_error("completion: expected one word, bash or zsh");
		return STATUS_USAGE;
	}
	output_write(out.data, out.size, NULL);
	buf_release(&out);
	return STATUS_OK;
}

static const char *const usages[] = { "perfsample completion bash|zsh", NULL };
static const struct option options[] = { { 0 } };
const struct command command_completion = {
	.name = "completion", .summary = "shell completion", .usages = usages, .options = options, .run = run, .is_hidden = true,
	.description = "Writes a completion script for bash or zsh to standard output.",
};
