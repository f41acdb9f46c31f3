/* SPDX-License-Identifier: Apache-2.0 */
/* golden-random: prints random scenarios, with the store's answers and the model's records. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "model.h"
#include "random.h"
#include "trace_parts.h"

static const char usage[] = "usage: golden-random --seed N [--count K]\n"
			    "Prints K scenarios (default 1), one JSON line each.\n";

/* Invents the answers of one scenario and writes them into its JSON. */
struct inventor {
	struct draw draw;
	struct arena *arena;
	const struct trace *trace;
	json_t *steps;
};

static int64_t draw_put(struct draw *draw, int64_t fail_percent)
{
	static const int64_t codes[] = {-1, -200, -200, -400, -600, -705, -705, -800, -1012};

	return draw_percent(draw, fail_percent) ? codes[draw_below(draw, 9)] : 0;
}

static int64_t draw_get(struct draw *draw, const struct ints *sizes, int64_t fail_percent)
{
	int64_t bytes = 0;

	for (size_t i = 0; i < sizes->count; i++)
		bytes += sizes->at[i];
	if (!draw_percent(draw, fail_percent))
		return bytes;
	return draw_percent(draw, 60) ? -800 : draw_below(draw, bytes);
}

static json_t *draw_value(struct draw *draw, enum store_fn fn, const struct script_batch *batch,
                          size_t key, int64_t mood)
{
	static const char *const tiers[] = {"memory", "disk", ""};

	switch (fn) {
	case FN_EXIST:
		return json_integer(draw_percent(draw, mood) ? 1 : -draw_below(draw, 2));
	case FN_PUT:
		return json_integer(draw_put(draw, mood / 2));
	case FN_GET:
		return json_integer(draw_get(draw, &batch->sizes[key], mood / 3));
	case FN_REPLICA_DESC:
	case FN_EVENT_SYNC:
		break;
	}
	return json_string(tiers[draw_below(draw, 3)]);
}

static json_t *draw_answer(struct draw *draw, enum store_fn fn, const struct script_batch *batch)
{
	static const int64_t moods[] = {0, 0, 0, 20, 50, 100};
	json_t *answer = json_pack("{s:s}", "fn", store_fn_name(fn));
	json_t *values = json_array();
	int64_t mood = moods[draw_below(draw, 6)];
	size_t count = batch->keys->count;

	if ((fn == FN_EXIST || fn == FN_PUT) && draw_percent(draw, 12))
		json_object_set_new(answer, "during", json_pack("[o]", draw_during(draw)));
	if (draw_percent(draw, 5)) {
		json_object_set_new(answer, "raise", json_string("down"));
		json_decref(values);
		return answer;
	}
	if (draw_percent(draw, 5) && fn != FN_REPLICA_DESC)
		count = (size_t)draw_below(draw, (int64_t)count);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(values, draw_value(draw, fn, batch, i, mood));
	json_object_set_new(answer, "ret", values);
	return answer;
}

static const struct trace_answer *invent(void *context, const struct trace_step *step,
                                         enum store_fn fn, const struct script_batch *batch)
{
	struct inventor *inventor = context;
	json_t *object = json_array_get(inventor->steps, (size_t)(step - inventor->trace->steps));
	json_t *script = json_object_get(object, "store_script");
	struct trace_answer *answer = arena_take(inventor->arena, 1, sizeof(*answer));
	struct jread in = {.arena = inventor->arena};
	json_t *drawn = draw_answer(&inventor->draw, fn, batch);

	if (script == NULL) {
		script = json_array();
		json_object_set_new(object, "store_script", script);
	}
	json_array_append_new(script, drawn);
	trace_read_answer(&in, drawn, &inventor->trace->config, answer);
	if (in.error != NULL) {
		fprintf(stderr, "golden-random: %s\n", in.error);
		abort();
	}
	return answer;
}

static json_t *draw_line(struct draw *draw, uint64_t seed, uint64_t index)
{
	json_t *line = json_object();

	draw_start(draw, seed, index);
	json_object_set_new(line, "format", json_integer(1));
	json_object_set_new(line, "variant", json_string("v032"));
	json_object_set_new(
		line, "name",
		json_sprintf("seed%llu_%llu", (unsigned long long)seed, (unsigned long long)index));
	json_object_set_new(line, "family", json_string("drawn"));
	json_object_set_new(line, "note", json_string(""));
	json_object_set_new(line, "config", draw_config(draw));
	json_object_set_new(line, "steps", draw_steps(draw));
	return line;
}

static bool print_scenario(uint64_t seed, uint64_t index)
{
	struct arena *arena = arena_open();
	struct model_options options = {0};
	struct inventor inventor = {.arena = arena};
	json_t *line = draw_line(&inventor.draw, seed, index);
	struct trace trace;
	const char *error = trace_load(arena, line, &trace);

	if (error == NULL) {
		struct step_record *records;

		inventor.trace = &trace;
		inventor.steps = json_object_get(line, "steps");
		records = replay_run_inventing(model_replay_ops(), &options, &trace, invent,
		                               &inventor);
		for (size_t i = 0; i < trace.step_count; i++)
			json_object_set_new(json_array_get(inventor.steps, i), "expect",
			                    trace_expect_json(&records[i]));
		json_dumpf(line, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
		putchar('\n');
	} else {
		fprintf(stderr, "golden-random: %s\n", error);
	}
	json_decref(line);
	arena_close(arena);
	return error == NULL;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{"seed", required_argument, NULL, 's'},
		{"count", required_argument, NULL, 'c'},
		{NULL, 0, NULL, 0},
	};
	uint64_t seed = 0, count = 1;
	bool seeded = false, good = true;
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (option == 's') {
			seed = strtoull(optarg, NULL, 10);
			seeded = true;
		} else if (option == 'c') {
			count = strtoull(optarg, NULL, 10);
		} else {
			seeded = false;
			break;
		}
	}
	if (!seeded || optind != argc) {
		fputs(usage, stderr);
		return 2;
	}
	for (uint64_t i = 0; i < count && good; i++)
		good = print_scenario(seed, i);
	return good ? 0 : 1;
}
