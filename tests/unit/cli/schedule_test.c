/* SPDX-License-Identifier: Apache-2.0 */
/* The modelled engine's scheduler, with the test in the place of ranks and lookups. */
#include "unit/base/unit.h"

#include <stdlib.h>
#include <string.h>

#include "cli/engine.h"

#define RANK_COUNT    2
#define REQUEST_COUNT 120
#define HASHES_EACH   240
#define STEPS_MAX     200000

static struct kvh_engine engine;
static struct kvh_trace_request trace_requests[REQUEST_COUNT];
static uint64_t hash_ids[REQUEST_COUNT * HASHES_EACH];
static uint64_t hit_tokens_next; /* what the next lookups answer, if the prompt allows it */

/* NOLINTNEXTLINE(bugprone-reserved-identifier): the linker's name for a wrapped function */
kvh_status __wrap_kvh_worker_lookup(struct kvh_worker *worker, const struct kvh_lookup *lookup,
                                    struct kvh_lookup_result *result, struct kvh_error *error);

/* NOLINTNEXTLINE(bugprone-reserved-identifier): the linker's name for a wrapped function */
kvh_status __wrap_kvh_worker_lookup(struct kvh_worker *worker, const struct kvh_lookup *lookup,
                                    struct kvh_lookup_result *result, struct kvh_error *error)
{
	uint64_t hashed = lookup->hash_count * KVH_ENGINE_HASH_TOKENS;
	uint64_t hit = hit_tokens_next;

	(void)worker;
	(void)error;
	if (hit > hashed)
		hit = hashed;
	if (hit >= lookup->token_count)
		hit = lookup->token_count - 1;
	result->hit_tokens = hit - hit % KVH_ENGINE_LCM_TOKENS;
	return KVH_OK;
}

/* One request of so many tokens each; the lengths array has count entries. */
static void set_up_engine(const uint32_t *prompt_tokens, size_t count, uint32_t output_tokens)
{
	memset(&engine, 0, sizeof(engine));
	engine.env = kvh_env_posix();
	engine.config.rank_count = RANK_COUNT;
	engine.requests = calloc(count, sizeof(*engine.requests));
	assert_non_null(engine.requests);
	engine.request_count = count;
	for (size_t i = 0; i < count; i++) {
		struct kvh_engine_request *request = &engine.requests[i];

		trace_requests[i] = (struct kvh_trace_request){.prompt_tokens = prompt_tokens[i],
		                                               .output_tokens = output_tokens};
		request->trace = &trace_requests[i];
		request->trace_hashes = hash_ids + i * HASHES_EACH;
		request->index = (uint32_t)i;
		request->known_tokens = prompt_tokens[i];
		request->end_tokens = prompt_tokens[i] + output_tokens;
	}
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++)
		assert_true(kvh_blocks_init(&engine.blocks[g], kvh_engine_groups[g].block_count));
	engine.plan.checks = calloc(1024, sizeof(*engine.plan.checks));
	engine.plan.fills = calloc(1024, sizeof(*engine.plan.fills));
	for (size_t i = 0; i < COUNT_OF(hash_ids); i++)
		hash_ids[i] = i;
	hit_tokens_next = 0;
}

static void tear_down_engine(void)
{
	for (uint64_t id = 1; id <= engine.last_job_id; id++)
		free(engine.jobs[id]);
	for (size_t i = 0; i < engine.request_count; i++)
		kvh_request_end(&engine.requests[i]);
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++)
		kvh_blocks_fini(&engine.blocks[g]);
	free(engine.jobs);
	free(engine.requests);
	free(engine.plan.checks);
	free(engine.plan.fills);
}

/* Rank r reports the job done. */
static void complete_part(struct kvh_engine_job *job, uint32_t r)
{
	job->parts[r].done = true;
	job->parts[r].next_done = engine.ranks[r].done_first;
	engine.ranks[r].done_first = job;
}

static void complete_job(struct kvh_engine_job *job)
{
	for (uint32_t r = 0; r < RANK_COUNT; r++)
		complete_part(job, r);
}

static void complete_all(void)
{
	for (uint64_t id = 1; id <= engine.last_job_id; id++)
		if (engine.jobs[id])
			complete_job(engine.jobs[id]);
}

static void step(void)
{
	kvh_schedule_step(&engine);
	kvh_schedule_collect(&engine);
}

static void assert_blocks_home(void)
{
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++)
		assert_int_equal(engine.blocks[g].free_count, kvh_engine_groups[g].block_count - 1);
	assert_int_equal(engine.live_job_count, 0);
	assert_int_equal(engine.defects, 0);
}

/* ---- tests ----------------------------------------------------------------------------- */

static void a_finished_requests_blocks_stay_pinned_until_its_saves_complete(void **context)
{
	static const uint32_t prompts[] = {2048};
	uint32_t all = kvh_engine_groups[0].block_count - 1;

	(void)context;
	set_up_engine(prompts, 1, 0);
	step(); /* computes all, saves */
	assert_int_equal(engine.plan.save_count, 1);
	step(); /* finishes */
	assert_int_equal(engine.totals.requests_done, 1);
	assert_int_equal(engine.blocks[0].returning_count, 4);
	assert_int_equal(engine.blocks[0].free_count, all - 4);
	assert_false(kvh_schedule_idle(&engine));
	complete_part(engine.jobs[1], 0);
	kvh_schedule_collect(&engine);
	assert_int_equal(engine.blocks[0].free_count, all - 4);
	complete_part(engine.jobs[1], 1);
	engine.plan.finished_count = 0;
	kvh_schedule_collect(&engine);
	assert_true(kvh_schedule_idle(&engine));
	assert_blocks_home();
	tear_down_engine();
}

static void a_preempted_request_returns_under_its_name_with_new_jobs(void **context)
{
	/* Each has room alone; together they have not: 318 blocks of 512 tokens. */
	static const uint32_t prompts[] = {200 * 512, 200 * 512};
	bool preempted = false;

	(void)context;
	set_up_engine(prompts, 2, 64);
	for (int i = 0; i < STEPS_MAX && !kvh_schedule_idle(&engine); i++) {
		step();
		for (size_t p = 0; p < engine.plan.preempted_count; p++) {
			preempted = true;
			assert_ptr_equal(engine.plan.preempted[p], &engine.requests[1]);
			assert_int_equal(engine.requests[1].tables[0].count, 0);
		}
		complete_all();
	}
	assert_true(preempted);
	assert_int_equal(engine.totals.requests_done, 2);
	assert_true(engine.totals.preemptions > 0);
	assert_blocks_home();
	tear_down_engine();
}

static void saves_that_never_complete_make_requests_wait_not_preempt(void **context)
{
	/* Pinned, the second one's sliding blocks alone are more than there are. */
	static const uint32_t prompts[] = {40 * 512, 300 * 512};

	(void)context;
	set_up_engine(prompts, 2, 0);
	for (int i = 0; i < 200; i++)
		step(); /* no completion comes */
	assert_int_equal(engine.totals.requests_done, 1);
	assert_int_equal(engine.requests[1].computed_tokens,
	                 engine.requests[1].tables[0].count * 512);
	assert_int_equal(engine.totals.preemptions, 0);
	for (int i = 0; i < STEPS_MAX && !kvh_schedule_idle(&engine); i++) {
		complete_all();
		kvh_schedule_collect(&engine);
		engine.plan.finished_count = 0;
		step();
	}
	assert_int_equal(engine.totals.requests_done, 2);
	tear_down_engine();
}

/* A load of `hit` tokens is planned for the only request; returns its job. */
static struct kvh_engine_job *plan_load(uint64_t hit)
{
	static const uint32_t prompts[] = {8192};

	set_up_engine(prompts, 1, 0);
	hit_tokens_next = hit;
	kvh_schedule_step(&engine);
	assert_int_equal(engine.plan.load_count, 1);
	return engine.plan.loads[0];
}

static void a_load_asks_for_the_prefix_and_only_the_windows_end(void **context)
{
	const struct kvh_engine_job *job = plan_load(4096);

	(void)context;
	assert_int_equal(job->tables[0].count, 8);
	for (size_t i = 0; i < 8; i++)
		assert_int_not_equal(job->tables[0].ids[i], KVH_NULL_BLOCK);
	assert_int_equal(job->tables[1].count, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(job->tables[1].ids[i] != KVH_NULL_BLOCK, i >= 2);
	tear_down_engine();
}

static void a_good_load_goes_on_behind_the_hit(void **context)
{
	(void)context;
	complete_job(plan_load(4096));
	kvh_schedule_collect(&engine);
	assert_int_equal(engine.requests[0].computed_tokens, 4096);
	assert_int_equal(engine.totals.failed_loads, 0);
	tear_down_engine();
}

static void one_ranks_failed_block_counts_for_all(void **context)
{
	struct kvh_engine_job *job = plan_load(2048);

	(void)context;
	job->parts[1].failed[0][3] = 1;
	complete_job(job);
	kvh_schedule_collect(&engine);
	/* Blocks 0 to 2 are good; the lcm floors 1536 to 1024, whose window is there. */
	assert_int_equal(engine.requests[0].computed_tokens, 1024);
	assert_int_equal(engine.requests[0].tables[0].count, 2);
	assert_int_equal(engine.requests[0].tables[1].count, 1);
	assert_int_equal(engine.totals.lost_tokens, 1024);
	tear_down_engine();
}

/* A shorter prefix needs a window that this load did not bring. */
static void a_failure_before_the_window_starts_over(void **context)
{
	struct kvh_engine_job *job = plan_load(6144);

	(void)context;
	job->parts[0].failed[0][11] = 1;
	complete_job(job);
	kvh_schedule_collect(&engine);
	assert_int_equal(engine.requests[0].computed_tokens, 0);
	assert_int_equal(engine.requests[0].tables[0].count, 0);
	assert_int_equal(engine.blocks[0].free_count, kvh_engine_groups[0].block_count - 1);
	assert_int_equal(engine.blocks[1].free_count, kvh_engine_groups[1].block_count - 1);
	tear_down_engine();
}

static void a_refused_load_brings_nothing(void **context)
{
	struct kvh_engine_job *job = plan_load(4096);

	(void)context;
	job->parts[0].refused = true;
	complete_job(job);
	kvh_schedule_collect(&engine);
	assert_int_equal(engine.requests[0].computed_tokens, 0);
	tear_down_engine();
}

static void a_save_lists_no_block_behind_the_window(void **context)
{
	static const uint32_t prompts[] = {16384};
	const struct kvh_engine_job *last = NULL;

	(void)context;
	set_up_engine(prompts, 1, 0);
	for (int i = 0; i < 4; i++) {
		step();
		assert_int_equal(engine.plan.save_count, 1);
		last = engine.plan.saves[0];
	}
	assert_int_equal(last->token_count, 16384);
	assert_int_equal(last->tables[1].count, 16);
	/* Before the last chunk at 12288, tokens from 10241 on are in the window. */
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(last->tables[1].ids[i] != KVH_NULL_BLOCK, i >= 10);
	complete_all();
	step();
	assert_blocks_home();
	tear_down_engine();
}

/* No block that a job pinned before the step is written in it. */
static void assert_fills_are_unpinned(uint16_t *const pins[KVH_ENGINE_GROUPS])
{
	for (size_t i = 0; i < engine.plan.fill_count; i++) {
		const struct kvh_engine_block_task *fill = &engine.plan.fills[i];

		assert_in_range(fill->block_id, 1, kvh_engine_groups[fill->group].block_count - 1);
		assert_int_equal(pins[fill->group][fill->block_id], 0);
	}
}

static void fail_some_blocks(struct kvh_engine_job *job, uint64_t *seed)
{
	uint32_t r = (uint32_t)(draw(seed) % RANK_COUNT);

	if (job->is_load && draw(seed) % 4 == 0)
		job->parts[r].failed[0][draw(seed) % job->tables[0].count] = 1;
}

/*
 * Random prompts, hits, failures and delays, ranks out of step: what is written is never pinned,
 * and at the end every block is home.
 */
static void random_runs_write_no_pinned_block_and_lose_none(void **context)
{
	uint16_t *pins[KVH_ENGINE_GROUPS];
	uint32_t prompts[REQUEST_COUNT];
	uint64_t seed = 5;
	int steps = 0;

	(void)context;
	for (size_t i = 0; i < REQUEST_COUNT; i++)
		prompts[i] = (uint32_t)(1 + draw(&seed) % (draw(&seed) % 8 ? 8000 : 110000));
	set_up_engine(prompts, REQUEST_COUNT, 300);
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++)
		pins[g] = calloc(kvh_engine_groups[g].block_count, sizeof(*pins[g]));
	while (!kvh_schedule_idle(&engine) && steps++ < STEPS_MAX) {
		hit_tokens_next = draw(&seed) % 2 ? draw(&seed) % 20000 : 0;
		for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++)
			memcpy(pins[g], engine.blocks[g].pins,
			       kvh_engine_groups[g].block_count * sizeof(*pins[g]));
		kvh_schedule_step(&engine);
		assert_int_equal(engine.status, KVH_OK);
		assert_fills_are_unpinned(pins);
		for (uint64_t id = 1; id <= engine.last_job_id; id++)
			for (uint32_t r = 0; engine.jobs[id] && r < RANK_COUNT; r++)
				if (!engine.jobs[id]->parts[r].done && draw(&seed) % 5 == 0) {
					fail_some_blocks(engine.jobs[id], &seed);
					complete_part(engine.jobs[id], r);
				}
		kvh_schedule_collect(&engine);
	}
	assert_true(steps < STEPS_MAX);
	assert_int_equal(engine.totals.requests_done, REQUEST_COUNT);
	assert_true(engine.totals.preemptions > 0);
	assert_true(engine.totals.failed_loads > 0);
	assert_blocks_home();
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++)
		free(pins[g]);
	tear_down_engine();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_finished_requests_blocks_stay_pinned_until_its_saves_complete),
		cmocka_unit_test(a_preempted_request_returns_under_its_name_with_new_jobs),
		cmocka_unit_test(saves_that_never_complete_make_requests_wait_not_preempt),
		cmocka_unit_test(a_load_asks_for_the_prefix_and_only_the_windows_end),
		cmocka_unit_test(a_good_load_goes_on_behind_the_hit),
		cmocka_unit_test(one_ranks_failed_block_counts_for_all),
		cmocka_unit_test(a_failure_before_the_window_starts_over),
		cmocka_unit_test(a_refused_load_brings_nothing),
		cmocka_unit_test(a_save_lists_no_block_behind_the_window),
		cmocka_unit_test(random_runs_write_no_pinned_block_and_lose_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
