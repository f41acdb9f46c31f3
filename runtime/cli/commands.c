/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the command that is meant among several, and says what there is. */
#include "cli.h"

#include <string.h>

enum { COMMANDS_MAX = 16 };

int kvh_cli_exit_of(kvh_status status)
{
	return status == KVH_INVALID_PARAMS || status == KVH_TOO_LARGE ||
	                       status == KVH_NOT_SUPPORTED || status == KVH_OBJECT_NOT_FOUND
	               ? KVH_EXIT_USAGE
	               : KVH_EXIT_ENVIRONMENT;
}

static void print_commands(const struct kvh_cli_commands *commands, FILE *out)
{
	const char *blank = commands->name ? " " : "";
	const char *name = commands->name ? commands->name : "";

	fprintf(out, "usage: kvhold%s%s COMMAND [options]\n\n%s\n\ncommands:\n", blank, name,
	        commands->about);
	for (size_t i = 0; i < commands->count; i++)
		fprintf(out, "  %-10s %s\n", commands->list[i].name, commands->list[i].summary);
	fprintf(out,
	        "\n'kvhold%s%s COMMAND --help' explains one. Exit status: 0 ok, 1 the run found a "
	        "failure,\n2 wrong usage, 3 this machine lacks something.\n",
	        blank, name);
}

static int complain_command(const struct kvh_cli_commands *commands, const char *word)
{
	const char *names[COMMANDS_MAX + 1];
	const char *nearest;
	size_t count = 0;

	while (count < commands->count && count < COMMANDS_MAX) {
		names[count] = commands->list[count].name;
		count++;
	}
	names[count] = NULL;
	nearest = kvh_cli_nearest(word, names);
	if (nearest)
		kvh_cli_complain(commands->name, "unknown command '%s'; did you mean '%s'?", word,
		                 nearest);
	else
		kvh_cli_complain(commands->name,
		                 "unknown command '%s'; 'kvhold%s%s --help' lists "
		                 "them",
		                 word, commands->name ? " " : "",
		                 commands->name ? commands->name : "");
	return KVH_EXIT_USAGE;
}

int kvh_cli_run(const struct kvh_cli_commands *commands, int argc, char **argv)
{
	if (argc < 2) {
		print_commands(commands, stderr);
		return KVH_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		print_commands(commands, stdout);
		return KVH_EXIT_OK;
	}
	for (size_t i = 0; i < commands->count; i++)
		if (strcmp(argv[1], commands->list[i].name) == 0)
			return commands->list[i].run(argc - 1, argv + 1);
	return complain_command(commands, argv[1]);
}
