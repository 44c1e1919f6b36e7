// Finds the command and runs it; checks standard output when it ends. Nothing else.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

int main(int argc, char **argv)
{
	if (argc >= 2)
		for (const struct command *const *c = commands; *c != NULL; c++)
			if (strcmp((*c)->name, argv[1]) == 0)
				return (*c)->run(argc - 1, argv + 1);
	fprintf(stderr, "usage: perfsample COMMAND [options]\n");
	return 2;
}
