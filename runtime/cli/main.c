/* SPDX-License-Identifier: Apache-2.0 */
/* The `kvhold` command: finds the subcommand and runs it. */
#include "cli.h"

#include <string.h>

#include <kvhold/kvhold.h>

static int run_version(int argc, char **argv);

static const struct kvh_cli_command commands[] = {
	{"demo", "replay a conversation trace through the worker, compare every byte",
         kvh_cli_demo},
#ifdef KVH_CLI_HAS_BENCH
	{"bench", "measure the store and the worker on this machine", kvh_cli_bench},
#endif
	{"doctor", "say what this machine has and what each backend would need", kvh_cli_doctor},
	{"version", "print the version", run_version},
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static int print_version(void)
{
	printf("kvhold %s (library %s)\n", KVH_VERSION_TEXT, kvh_version_text());
	return KVH_EXIT_OK;
}

static int run_version(int argc, char **argv)
{
	static const struct kvh_cli_option options[] = {{NULL, 0, NULL, NULL}};
	const struct kvh_cli_args args = {
		.command = "version",
		.usage = "version",
		.about = "Prints the version of the command and of the library that it runs on.",
		.options = options,
		.argc = argc,
		.argv = argv,
	};
	const char *value;

	switch (kvh_cli_next(&args, &value)) {
	case KVH_CLI_END:
		return print_version();
	case KVH_CLI_HELP:
		return KVH_EXIT_OK;
	default:
		return KVH_EXIT_USAGE;
	}
}

static void print_commands(FILE *out)
{
	fprintf(out,
	        "usage: kvhold COMMAND [options]\n\n"
	        "Keeps an inference engine's KV-cache blocks in a store and brings them back.\n\n"
	        "commands:\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(out, "\n'kvhold COMMAND --help' explains one. Exit status: 0 ok, 1 the run found a "
	             "failure,\n2 wrong usage, 3 this machine lacks something.\n");
}

static int complain_command(const char *word)
{
	const char *names[COMMAND_COUNT + 1];
	const char *nearest;

	for (size_t i = 0; i < COMMAND_COUNT; i++)
		names[i] = commands[i].name;
	names[COMMAND_COUNT] = NULL;
	nearest = kvh_cli_nearest(word, names);
	if (nearest)
		kvh_cli_complain(NULL, "unknown command '%s'; did you mean '%s'?", word, nearest);
	else
		kvh_cli_complain(NULL, "unknown command '%s'; 'kvhold --help' lists them", word);
	return KVH_EXIT_USAGE;
}

static int run(int argc, char **argv)
{
	if (argc < 2) {
		print_commands(stderr);
		return KVH_EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		print_commands(stdout);
		return KVH_EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0)
		return print_version();
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return complain_command(argv[1]);
}

int main(int argc, char **argv)
{
	int code = run(argc, argv);

	if ((fflush(stdout) == 0 && !ferror(stdout)) || code != KVH_EXIT_OK)
		return code;
	kvh_cli_complain(NULL, "standard output: writing to it failed: %m");
	return KVH_EXIT_ENVIRONMENT;
}
