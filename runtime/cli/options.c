/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a command's options with getopt_long and answers mistakes in words. */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPTIONS_MAX = 32, NAME_BYTES_MAX = 32, HELP_ID = 256 };

void kvh_cli_complain(const char *command, const char *format, ...)
{
	va_list words;

	fprintf(stderr, "kvhold%s%s: ", command ? " " : "", command ? command : "");
	va_start(words, format);
	vfprintf(stderr, format, words);
	va_end(words);
	fputc('\n', stderr);
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned least = a < b ? a : b;

	return least < c ? least : c;
}

/* Insertions, removals and changes between two words; both are cut at NAME_BYTES_MAX. */
static unsigned word_distance(const char *a, const char *b)
{
	unsigned row[NAME_BYTES_MAX + 1];
	size_t a_bytes = strnlen(a, NAME_BYTES_MAX);
	size_t b_bytes = strnlen(b, NAME_BYTES_MAX);

	for (size_t j = 0; j <= b_bytes; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= a_bytes; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			unsigned changed = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = min3(row[j] + 1, row[j - 1] + 1, changed);
		}
	}
	return row[b_bytes];
}

const char *kvh_cli_nearest(const char *word, const char *const *names)
{
	unsigned limit = (unsigned)(strnlen(word, NAME_BYTES_MAX) / 3) + 1;
	const char *nearest = NULL;

	for (size_t i = 0; names[i]; i++) {
		unsigned distance = word_distance(word, names[i]);

		if (distance <= limit) {
			limit = distance ? distance - 1 : 0;
			nearest = names[i];
		}
	}
	return nearest;
}

bool kvh_cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
	unsigned long long parsed;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	parsed = strtoull(text, &end, 10);
	if (errno || *end || parsed < min || parsed > max)
		return false;
	*number = parsed;
	return true;
}

/* errno says why not. */
static bool writable(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat found;
	char folder[4096];
	int bytes;

	if (stat(path, &found) == 0) {
		if (!S_ISDIR(found.st_mode))
			return access(path, W_OK) == 0;
		errno = EISDIR;
		return false;
	}
	if (errno != ENOENT || path[0] == 0)
		return false;
	bytes = slash ? (int)(slash - path) + 1 : 1;
	snprintf(folder, sizeof(folder), "%.*s", bytes, slash ? path : ".");
	return access(folder, W_OK | X_OK) == 0;
}

bool kvh_cli_can_write(const char *command, const char *option, const char *path)
{
	if (strcmp(path, "-") == 0 || writable(path))
		return true;
	kvh_cli_complain(command, "--%s %s: can't be written: %m", option, path[0] ? path : "\"\"");
	return false;
}

bool kvh_cli_write_json(const char *command, const json_t *root, const char *path)
{
	bool to_stdout = strcmp(path, "-") == 0;
	FILE *file = to_stdout ? stdout : fopen(path, "w");
	bool ok;

	if (!file) {
		kvh_cli_complain(command, "%s: can't be written: %m", path);
		return false;
	}
	ok = json_dumpf(root, file, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
	ok = fputc('\n', file) != EOF && ok;
	ok = (to_stdout ? fflush(file) : fclose(file)) == 0 && ok;
	if (!ok)
		kvh_cli_complain(command, "%s: writing it failed: %m", path);
	return ok;
}

static void print_option(const char *name, const char *value_name, const char *help)
{
	char left[64];

	snprintf(left, sizeof(left), "--%s%s%s", name, value_name ? " " : "",
	         value_name ? value_name : "");
	for (bool first = true; help; first = false) {
		size_t bytes = strcspn(help, "\n");

		printf("  %-22s %.*s\n", first ? left : "", (int)bytes, help);
		help = help[bytes] ? help + bytes + 1 : NULL;
	}
}

static void print_help(const struct kvh_cli_args *args)
{
	printf("usage: kvhold %s\n\n%s\n\noptions:\n", args->usage, args->about);
	for (const struct kvh_cli_option *o = args->options; o->name; o++)
		print_option(o->name, o->value_name, o->help);
	print_option("help", NULL, "print this and exit");
	printf("\nexit status: 0 ok, 1 the run found a failure, 2 wrong usage, 3 this machine "
	       "lacks something\n");
}

static void complain_unknown(const struct kvh_cli_args *args, const char *word)
{
	const char *names[OPTIONS_MAX + 2];
	char name[NAME_BYTES_MAX + 1];
	const char *nearest;
	size_t count = 0;

	for (const struct kvh_cli_option *o = args->options; o->name; o++)
		names[count++] = o->name;
	names[count++] = "help";
	names[count] = NULL;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + strspn(word, "-"), "="),
	         word + strspn(word, "-"));
	nearest = kvh_cli_nearest(name, names);
	if (nearest)
		kvh_cli_complain(args->command, "unknown option '%s'; did you mean '--%s'?", word,
		                 nearest);
	else
		kvh_cli_complain(args->command,
		                 "unknown option '%s'; 'kvhold %s --help' lists them", word,
		                 args->command);
}

static void fill_long_options(const struct kvh_cli_args *args, struct option *longs)
{
	size_t count = 0;

	for (const struct kvh_cli_option *o = args->options; o->name && count < OPTIONS_MAX; o++)
		longs[count++] = (struct option){
			o->name, o->value_name ? required_argument : no_argument, NULL, o->id};
	longs[count++] = (struct option){"help", no_argument, NULL, HELP_ID};
	longs[count] = (struct option){NULL, 0, NULL, 0};
}

/* getopt's ':' and '?' in words. */
static void complain_option(const struct kvh_cli_args *args, int found)
{
	const char *word = args->argv[optind - 1];

	if (found == ':')
		kvh_cli_complain(args->command, "'%s' needs a value", word);
	else if (optopt > 255)
		kvh_cli_complain(args->command, "'%s': this option takes no value", word);
	else
		complain_unknown(args, word);
}

/* What is left over is the operand, if there is to be one. */
static int end_of_options(const struct kvh_cli_args *args)
{
	if (args->operand && optind < args->argc)
		*args->operand = args->argv[optind++];
	if (optind < args->argc) {
		kvh_cli_complain(args->command, "unexpected argument '%s'", args->argv[optind]);
		return KVH_CLI_WRONG;
	}
	if (args->operand && !*args->operand) {
		kvh_cli_complain(args->command, "needs %s: kvhold %s", args->operand_name,
		                 args->usage);
		return KVH_CLI_WRONG;
	}
	return KVH_CLI_END;
}

int kvh_cli_next(const struct kvh_cli_args *args, const char **value)
{
	struct option longs[OPTIONS_MAX + 2];
	int found;

	fill_long_options(args, longs);
	opterr = 0;
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): read before any thread starts */
	found = getopt_long(args->argc, args->argv, ":h", longs, NULL);
	if (found == HELP_ID || found == 'h') {
		print_help(args);
		return KVH_CLI_HELP;
	}
	if (found == ':' || found == '?') {
		complain_option(args, found);
		return KVH_CLI_WRONG;
	}
	*value = optarg;
	return found == -1 ? end_of_options(args) : found;
}
