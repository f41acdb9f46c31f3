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
	{"store", "look at what a store holds, verify it, clear it", kvh_cli_store},
	{"version", "print the version", run_version},
};

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

static int run(int argc, char **argv)
{
	static const struct kvh_cli_commands all = {
		.about = "Keeps an inference engine's KV-cache blocks in a store and brings them "
			 "back.",
		.list = commands,
		.count = sizeof(commands) / sizeof(commands[0]),
	};

	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return print_version();
	return kvh_cli_run(&all, argc, argv);
}

int main(int argc, char **argv)
{
	int code = run(argc, argv);

	if ((fflush(stdout) == 0 && !ferror(stdout)) || code != KVH_EXIT_OK)
		return code;
	kvh_cli_complain(NULL, "standard output: writing to it failed: %m");
	return KVH_EXIT_ENVIRONMENT;
}
