/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the steps of a random scenario: jobs good and bad, runs, preemptions. */
#include "random.h"

static json_t *name_of(int64_t request)
{
	return json_sprintf("r%lld", (long long)request);
}

static json_t *op_json(const char *op, json_t *args)
{
	return json_pack("{s:s,s:o}", "op", op, "args", args);
}

/* Requests 0 and 1 share chain a, so that one finds what the other put. */
static const char *chain_of(int64_t request)
{
	return request < 2 ? "a" : "b";
}

/* Enough hashes for `tokens`, or all, or (rarely) too few. */
static json_t *draw_hashes(struct draw *draw, int64_t request, int64_t tokens)
{
	int64_t count = DRAW_HASHES;

	if (draw_percent(draw, 30))
		count = ceil_div(tokens, draw->hash_block_size);
	if (draw_percent(draw, 4))
		count = draw_below(draw, count + 1);
	if (count > DRAW_HASHES)
		count = DRAW_HASHES;
	return json_pack("[s,I]", chain_of(request), (json_int_t)count);
}

/* Blocks of a group; with holes (NULL), or (rarely) too short. */
static json_t *draw_table(struct draw *draw, int64_t request, size_t group, int64_t tokens)
{
	int64_t count = ceil_div(tokens, draw->block_size[group]);
	int64_t hole_percent = draw_percent(draw, 25) ? 30 : 0;
	json_t *table = json_array();

	if (draw->is_window[group] || draw->is_mamba[group])
		hole_percent = draw_percent(draw, 40) ? 50 : hole_percent;
	if (draw_percent(draw, 4))
		count = draw_below(draw, count + 1);
	for (int64_t i = 0; i < count; i++) {
		int64_t block = 1 + request * 50 + (int64_t)group * 3 + i;

		json_array_append_new(table,
		                      json_integer(draw_percent(draw, hole_percent) ? 0 : block));
	}
	return table;
}

static json_t *draw_tables(struct draw *draw, int64_t request, int64_t tokens)
{
	json_t *tables = json_array();

	for (size_t g = 0; g < draw->group_count; g++)
		json_array_append_new(tables, draw_table(draw, request, g, tokens));
	return tables;
}

static int64_t draw_boundary(struct draw *draw)
{
	int64_t tokens = draw->hash_block_size * draw_below(draw, DRAW_HASHES + 2);

	return draw_percent(draw, 4) ? tokens + 1 : tokens;
}

/* Boundary puts, or tail entries with one boundary, mostly. */
static json_t *draw_entries(struct draw *draw, bool one_boundary)
{
	int64_t tokens = draw_boundary(draw);
	json_t *entries = json_array();

	for (int64_t i = 1 + draw_below(draw, 3); i > 0; i--) {
		if (!one_boundary || draw_percent(draw, 5))
			tokens = draw_boundary(draw);
		json_array_append_new(
			entries, json_pack("[I,I,I]",
		                           (json_int_t)draw_below(draw, (int64_t)draw->group_count),
		                           (json_int_t)(draw_percent(draw, 10) ? 0 : 200 + i),
		                           (json_int_t)tokens));
	}
	return entries;
}

static void add_token_ids(struct draw *draw, json_t *args, int64_t request, int64_t tokens)
{
	struct draw_request *known = &draw->requests[request];
	int64_t start = draw_percent(draw, 80) ? known->next_token_id : 0;

	if (start >= tokens)
		start = 0;
	json_object_set_new(args, "token_ids",
	                    json_pack("[I,I]", (json_int_t)(1000 * request + start),
	                              (json_int_t)(tokens - start)));
	json_object_set_new(args, "token_ids_start", json_integer(start));
	known->next_token_id = tokens;
}

static void add_boundaries(struct draw *draw, json_t *args)
{
	if (draw_percent(draw, draw->partial_hash_hits ? 12 : 2))
		json_object_set_new(args, "tail", draw_entries(draw, true));
	else if (draw_percent(draw, 20))
		json_object_set_new(args, "puts", draw_entries(draw, false));
}

json_t *draw_submit_save(struct draw *draw)
{
	int64_t request = draw_below(draw, DRAW_REQUESTS);
	struct draw_request *known = &draw->requests[request];
	int64_t most = DRAW_HASHES * draw->hash_block_size;
	int64_t tokens = known->tokens + draw_below(draw, 3 * draw->lcm_block_size + 1);
	json_t *args = json_object();

	if (draw_percent(draw, 10))
		tokens = draw_below(draw, known->tokens + 1);
	if (tokens > most)
		tokens = most;
	known->tokens = tokens;
	json_object_set_new(args, "req", name_of(request));
	json_object_set_new(args, "token_len_chunk", json_integer(tokens));
	json_object_set_new(args, "blocks", draw_tables(draw, request, tokens));
	json_object_set_new(args, "hashes", draw_hashes(draw, request, tokens));
	if (draw_percent(draw, 40))
		json_object_set_new(args, "prompt", json_integer(1 + draw_below(draw, most)));
	if (draw->events && draw_percent(draw, 80) && tokens > 0)
		add_token_ids(draw, args, request, tokens);
	if (draw_percent(draw, 25))
		json_object_set_new(args, "event", json_true());
	if (draw_percent(draw, 2))
		json_object_set_new(args, "event_fails", json_true());
	add_boundaries(draw, args);
	json_object_set_new(args, "job_id", json_integer(draw->next_job_id));
	draw->next_job_id += draw_percent(draw, 2) ? 0 : 1;
	return op_json("submit_save", args);
}

static json_t *draw_submit_load(struct draw *draw)
{
	int64_t request = draw_below(draw, DRAW_REQUESTS);
	int64_t unit = draw->partial_hash_hits ? draw->hash_block_size : draw->lcm_block_size;
	int64_t most = DRAW_HASHES * draw->hash_block_size / unit;
	int64_t tokens = unit * (1 + draw_below(draw, most < 6 ? most : 6));
	int64_t cached = draw_percent(draw, 60) ? 0 : draw_below(draw, tokens + 1);
	json_t *args = json_object();

	if (draw_percent(draw, 4))
		tokens += 1 + draw_below(draw, draw->hash_block_size);
	json_object_set_new(args, "req", name_of(request));
	json_object_set_new(args, "token_len", json_integer(tokens));
	json_object_set_new(args, "cached", json_integer(cached));
	json_object_set_new(args, "hashes", draw_hashes(draw, request, tokens));
	json_object_set_new(args, "blocks", draw_tables(draw, request, tokens));
	if (draw->partial_hash_hits && draw_percent(draw, 25)) {
		int64_t group = draw_below(draw, (int64_t)draw->group_count);
		int64_t tail = tokens / draw->hash_block_size + draw_below(draw, 2);

		json_object_set_new(args, "tail_keys",
		                    json_pack("[[I,I]]", (json_int_t)group,
		                              (json_int_t)(tail * draw->hash_block_size)));
	}
	return op_json("submit_load", args);
}

/* A new life starts with fresh token ids; its lengths go on, which does no harm. */
static void forget(struct draw *draw, int64_t request)
{
	draw->requests[request] = (struct draw_request){0};
}

static json_t *draw_delete(struct draw *draw)
{
	int64_t request = draw_below(draw, DRAW_REQUESTS);

	forget(draw, request);
	return op_json("delete", json_pack("{s:o}", "req", name_of(request)));
}

static json_t *draw_poll(struct draw *draw)
{
	json_t *finished = json_array();
	json_t *preempted = json_array();

	for (int64_t r = 0; r < DRAW_REQUESTS; r++) {
		if (draw_percent(draw, 15))
			json_array_append_new(finished, name_of(r));
		else if (draw_percent(draw, 10))
			json_array_append_new(preempted, name_of(r));
		else
			continue;
		forget(draw, r);
	}
	return op_json("poll",
	               json_pack("{s:o,s:o}", "finished", finished, "preempted", preempted));
}

json_t *draw_during(struct draw *draw)
{
	int64_t which = draw_below(draw, 3);

	if (which == 0)
		return draw_delete(draw);
	return which == 1 ? draw_poll(draw) : draw_submit_save(draw);
}

/* Places handed in and not yet run; what `during` adds is left in the queue at the end. */
struct queued {
	int64_t saves;
	int64_t loads;
};

static json_t *draw_run(struct draw *draw, struct queued *queued)
{
	bool save = queued->loads == 0 || (queued->saves > 0 && draw_percent(draw, 65));

	if (save)
		queued->saves--;
	else
		queued->loads--;
	return op_json(save ? "run_save" : "run_load", json_object());
}

static json_t *draw_step(struct draw *draw, struct queued *queued)
{
	int64_t dice = draw_below(draw, 100);

	if (dice < 45 && queued->saves + queued->loads > 0)
		return draw_run(draw, queued);
	if (dice < 75) {
		queued->saves++;
		return draw_submit_save(draw);
	}
	if (dice < 85) {
		queued->loads++;
		return draw_submit_load(draw);
	}
	if (dice < 89)
		return draw_delete(draw);
	return dice < 96 ? draw_poll(draw) : op_json("drain", json_object());
}

json_t *draw_steps(struct draw *draw)
{
	struct queued queued = {0};
	json_t *steps = json_array();

	for (int64_t i = 6 + draw_below(draw, 20); i > 0; i--)
		json_array_append_new(steps, draw_step(draw, &queued));
	while (queued.saves + queued.loads > 0)
		json_array_append_new(steps, draw_run(draw, &queued));
	json_array_append_new(steps, op_json("drain", json_object()));
	return steps;
}
