/* SPDX-License-Identifier: Apache-2.0 */
/* golden-replay: holds model and runtime against the recorded behaviour of the reference. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "judge.h"
#include "pure_check.h"

#define SHOWN_DIFFERENCES 5 /* per file */

static const char usage[] =
	"usage: golden-replay [--counts] [--expect FILE] FILE...\n"
	"       golden-replay --record FILE   (the line's `expect` from the model, to stdout)\n"
	"Recognises transfer scenarios, coordinator, lookup and vector lines by their content.\n"
	"--counts prints one line per file and deviation; --expect compares those with FILE.\n";

struct options {
	bool counts;
	bool record;
	const char *expect_path;
};

struct replay {
	const struct replay_ops *worker;
	const struct pure_ops *runtime;
	const char *path;
	long line_number;
	int64_t shown; /* differences of this file printed so far */
	struct counts counts;
	bool scenarios_seen;
};

static void show(struct replay *replay, const char *text)
{
	if (replay->shown++ < SHOWN_DIFFERENCES)
		fprintf(stderr, "%s:%ld: %s\n", replay->path, replay->line_number, text);
}

/* What follows the last folder named golden, so that counts do not depend on where it lies. */
static const char *short_name(const char *path)
{
	const char *name = path;

	for (const char *next = path; (next = strstr(next, "golden/")) != NULL;)
		name = next += strlen("golden/");
	return name;
}

static void count_scenario(struct replay *replay, const struct verdict *verdict)
{
	struct counts *counts = &replay->counts;
	bool different = !verdict->recorded_equal || !verdict->worker_equal;
	bool explained = false;

	if (verdict->mode == JUDGE_INFORMATION) {
		counts->information++;
		counts->information_equal += verdict->recorded_equal;
		return;
	}
	counts->cases++;
	if (different) {
		counts->different++;
		show(replay, verdict->text);
	} else if (verdict->deviating) {
		counts->deviating++;
	} else {
		counts->equal++;
	}
	for (int n = 1; n <= MODEL_SWITCHES; n++) {
		counts->under[n] += verdict->under[n];
		explained = explained || verdict->under[n];
	}
	counts->under_none += verdict->deviating && !explained;
}

static void replay_scenario(struct replay *replay, struct arena *arena, json_t *line)
{
	struct verdict verdict;
	struct trace trace;
	const char *error = trace_load(arena, line, &trace);

	replay->scenarios_seen = true;
	if (error != NULL) {
		replay->counts.cases++;
		replay->counts.different++;
		show(replay, error);
		return;
	}
	judge_scenario(&trace, replay->worker, &verdict);
	count_scenario(replay, &verdict);
}

/* The older source's store masks follow other rules (V-7, V-8); its other vectors agree. */
static bool is_information(const struct replay *replay, const struct pure_outcome *outcome)
{
	return outcome->fn != NULL && strcmp(outcome->fn, "store_mask") == 0 &&
	       strstr(replay->path, "vectors/seed.jsonl") != NULL;
}

static void replay_pure(struct replay *replay, struct arena *arena, json_t *line)
{
	struct counts *counts = &replay->counts;
	struct pure_outcome model, runtime = {0};
	int64_t different;

	pure_check_line(arena, model_pure_ops(), line, &model);
	if (is_information(replay, &model)) {
		counts->information += model.case_count;
		counts->information_equal += model.case_count - model.different_count;
		return;
	}
	if (replay->runtime != NULL)
		pure_check_line(arena, replay->runtime, line, &runtime);
	different = model.different_count > runtime.different_count ? model.different_count
	                                                            : runtime.different_count;
	counts->cases += model.case_count;
	counts->different += different;
	counts->equal += model.case_count - different;
	if (model.text != NULL)
		show(replay, arena_text(arena, "model: %s", model.text));
	if (runtime.text != NULL)
		show(replay, arena_text(arena, "runtime: %s", runtime.text));
}

static void replay_line(struct replay *replay, const char *text)
{
	struct arena *arena = arena_open();
	json_error_t error;
	json_t *line = json_loads(text, 0, &error);

	if (line == NULL) {
		replay->counts.cases++;
		replay->counts.different++;
		show(replay, error.text);
	} else if (pure_line_kind(line) != PURE_NONE) {
		replay_pure(replay, arena, line);
	} else {
		replay_scenario(replay, arena, line);
	}
	json_decref(line);
	arena_close(arena);
}

/* Prints the line with `expect` of every step as the model without deviations has it. */
static bool record_line(const char *text)
{
	struct arena *arena = arena_open();
	json_error_t error;
	json_t *line = json_loads(text, 0, &error);
	struct model_options options = {0};
	struct step_record *records;
	struct trace trace;
	const char *wrong = line == NULL ? error.text : trace_load(arena, line, &trace);

	if (wrong != NULL) {
		fprintf(stderr, "golden-replay: %s\n", wrong);
	} else {
		records = replay_run(model_replay_ops(), &options, &trace);
		for (size_t i = 0; i < trace.step_count; i++)
			json_object_set_new(json_array_get(json_object_get(line, "steps"), i),
			                    "expect", trace_expect_json(&records[i]));
		json_dumpf(line, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
		putchar('\n');
	}
	json_decref(line);
	arena_close(arena);
	return wrong == NULL;
}

static bool each_line(struct replay *replay, bool record)
{
	FILE *file = fopen(replay->path, "r");
	char *line = NULL;
	size_t room = 0;
	bool good = true;

	if (file == NULL) {
		perror(replay->path);
		return false;
	}
	while (getline(&line, &room, file) > 0) {
		replay->line_number++;
		if (record)
			good = record_line(line) && good;
		else
			replay_line(replay, line);
	}
	free(line);
	fclose(file);
	return good;
}

static bool parse_options(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"counts", no_argument, NULL, 'c'},
		{"expect", required_argument, NULL, 'e'},
		{"record", no_argument, NULL, 'r'},
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (option == 'c')
			options->counts = true;
		else if (option == 'r')
			options->record = true;
		else if (option == 'e')
			options->expect_path = optarg;
		else
			return false;
	}
	return optind < argc;
}

/* Replays all files; per-file counts go to `out`. */
static bool replay_files(char **paths, const struct options *options, struct replay *all, FILE *out)
{
	bool good = true;

	for (; *paths != NULL; paths++) {
		struct replay one = {
			.worker = all->worker, .runtime = all->runtime, .path = *paths};

		good = each_line(&one, options->record) && good;
		counts_print(out, short_name(*paths), &one.counts);
		counts_add(&all->counts, &one.counts);
		all->scenarios_seen = all->scenarios_seen || one.scenarios_seen;
	}
	counts_print_switches(out, &all->counts);
	return good;
}

static bool report(const struct replay *all, const struct options *options, const char *counts)
{
	bool good = true;

	if (options->counts)
		fputs(counts, stdout);
	if (options->expect_path != NULL)
		good = counts_match(options->expect_path, counts);
	if (all->worker == NULL && all->scenarios_seen)
		puts("worker: not linked in; part (b), worker = model, was NOT run");
	if (all->runtime == NULL)
		puts("runtime: not linked in; pure functions were checked for the model only");
	printf("cases %lld equal %lld deviating %lld different %lld\n",
	       (long long)all->counts.cases, (long long)all->counts.equal,
	       (long long)all->counts.deviating, (long long)all->counts.different);
	return good && all->counts.different == 0;
}

int main(int argc, char **argv)
{
	struct replay all = {.worker = golden_worker_ops(), .runtime = golden_runtime_pure_ops()};
	struct options options = {0};
	char *counts = NULL;
	size_t counts_bytes = 0;
	FILE *out;
	bool good;

	if (!parse_options(argc, argv, &options)) {
		fputs(usage, stderr);
		return 2;
	}
	out = open_memstream(&counts, &counts_bytes);
	if (out == NULL) {
		perror("open_memstream");
		return 2;
	}
	good = replay_files(argv + optind, &options, &all, out);
	fclose(out);
	if (!options.record)
		good = report(&all, &options, counts) && good;
	free(counts);
	return good ? 0 : 1;
}
