/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands of `kvhold` share: exit codes, option parsing, words for people. */
#ifndef KVH_CLI_CLI_H
#define KVH_CLI_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include <kvhold/status.h>

/* Exit codes of every command. */
enum {
	KVH_EXIT_OK = 0,
	KVH_EXIT_FAILURE = 1,    /* the run found a failure */
	KVH_EXIT_USAGE = 2,      /* the command line or a file named on it is wrong */
	KVH_EXIT_ENVIRONMENT = 3 /* this machine lacks what the command needs */
};

/* One command. argv[0] is its name. */
struct kvh_cli_command {
	const char *name;
	const char *summary; /* one line, for `kvhold --help` */
	int (*run)(int argc, char **argv);
};

/* Commands under one name. */
struct kvh_cli_commands {
	const char *name;  /* NULL: `kvhold` itself */
	const char *about; /* paragraph under the usage line */
	const struct kvh_cli_command *list;
	size_t count;
};

/* Runs the command that argv[1] names. */
int kvh_cli_run(const struct kvh_cli_commands *commands, int argc, char **argv);

/* What a command returns when a store can't be opened or used. */
int kvh_cli_exit_of(kvh_status status);

int kvh_cli_demo(int argc, char **argv);
int kvh_cli_doctor(int argc, char **argv);
int kvh_cli_store(int argc, char **argv);
#ifdef KVH_CLI_HAS_BENCH
int kvh_cli_bench(int argc, char **argv);
#endif

/* One long option; value_name NULL: it takes none. */
struct kvh_cli_option {
	const char *name;
	int id; /* above 255; kvh_cli_next returns it */
	const char *value_name;
	const char *help; /* one line or several, '\n' between them */
};

/* A command line being read. options: borrowed, ends with a NULL name; --help is known to all. */
struct kvh_cli_args {
	const char *command;
	const char *usage; /* after "usage: kvhold " */
	const char *about; /* paragraph under the usage line */
	const struct kvh_cli_option *options;
	int argc;
	char **argv;
	/* Where the one argument beside the options goes, and what it is; NULL: there is none. */
	const char **operand;
	const char *operand_name;
};

enum {
	KVH_CLI_END = -1,   /* all read; nothing is left over */
	KVH_CLI_WRONG = -2, /* words were printed: return KVH_EXIT_USAGE */
	KVH_CLI_HELP = -3   /* help was printed: return KVH_EXIT_OK */
};

/* The id of the next option (its value in *value), or one of the above. */
int kvh_cli_next(const struct kvh_cli_args *args, const char **value);

/* Prints "kvhold COMMAND: words" to stderr. */
void kvh_cli_complain(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The name nearest to word, or NULL when none is near. names ends with NULL. */
const char *kvh_cli_nearest(const char *word, const char *const *names);

/* A whole decimal number within [min, max]; anything else is false and leaves *number alone. */
bool kvh_cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *number);

/*
 * Whether path, named by --option, can be written; touches nothing. "-": stdout. False: words were
 * printed: return KVH_EXIT_USAGE. To be asked before a long run, not after it.
 */
bool kvh_cli_can_write(const char *command, const char *option, const char *path);

/* Writes root (borrowed) as indented JSON to the file, "-" for stdout. False: words were printed.
 */
bool kvh_cli_write_json(const char *command, const json_t *root, const char *path);

#endif
