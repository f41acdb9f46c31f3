/* SPDX-License-Identifier: Apache-2.0 */
/* One worker, many threads, a store with delays, failures and late bytes, and an oracle outside. */
#include <string.h>

#include "unit/base/unit.h"
#include "unit/worker/stress_oracle.h"

enum {
	ROUND_MS = 1200,
	SUBMITTERS = 2,
	POLLERS = 2,
	MISCHIEF = 2,
	THREADS = SUBMITTERS + POLLERS + MISCHIEF + 2,
	IDENTITIES_MAX = 100,
	MAX_QUEUED_JOBS = 4
};

struct round {
	struct rig *rig;
	struct oracle *oracle;
	uint64_t seed;
	uint32_t hooks;             /* atomic: draws of the store's hooks */
	uint32_t stop_mischief;     /* atomic */
	uint32_t stop_polling;      /* atomic */
	uint64_t max_queued_jobs;   /* 0: no limit to check */
	uint64_t identity_every_ms; /* 0: never */
	uint32_t faults_per_1000;
	bool late;
	uint64_t over_limit; /* atomic */
};

struct actor {
	struct round *round;
	uint64_t seed;
	struct kvh_thread *thread;
};

static uint64_t hook_draw(struct round *round)
{
	uint64_t seed = round->seed + __atomic_add_fetch(&round->hooks, 1, __ATOMIC_RELAXED);

	return draw(&seed);
}

static kvh_status begin(void *user, enum rig_call call, const struct kvh_call *store_call)
{
	struct round *round = user;
	uint64_t dice = hook_draw(round);

	(void)store_call;
	if (dice % 8 == 0)
		kvh_env_posix()->ops->sleep_ns(NULL, dice / 8 % 300000);
	if (call == RIG_UNREGISTER || dice / 16 % 1000 >= round->faults_per_1000 / 4)
		return KVH_OK;
	return KVH_RPC_FAIL;
}

static int64_t key(void *user, enum rig_call call, uint64_t word)
{
	struct round *round = user;
	uint64_t dice = hook_draw(round);
	uint64_t kind = dice / 16 % 1000;

	(void)word;
	if (dice % 16 == 0)
		kvh_env_posix()->ops->sleep_ns(NULL, dice / 16 % 200000);
	if (kind < round->faults_per_1000)
		return call == RIG_PUT && dice % 3 == 0 ? KVH_NO_AVAILABLE_HANDLE
		                                        : KVH_TRANSFER_FAIL;
	return round->late && kind > 1000 - round->faults_per_1000 ? KVH_IN_DOUBT : 0;
}

static void submit_all(void *arg)
{
	struct actor *actor = arg;

	while (oracle_submit(actor->round->oracle, &actor->seed))
		;
}

static void poll_all(void *arg)
{
	struct actor *actor = arg;
	struct round *round = actor->round;

	while (oracle_poll(round->oracle, &actor->seed) ||
	       !__atomic_load_n(&round->stop_polling, __ATOMIC_ACQUIRE))
		kvh_env_posix()->ops->sleep_ns(NULL, draw(&actor->seed) % 50000);
}

static void look_up(struct round *round, uint64_t number)
{
	uint8_t hashes[ORACLE_CHUNKS_MAX][32];
	struct kvh_lookup_result result = {.struct_bytes = sizeof(result)};
	const struct kvh_lookup lookup = {.struct_bytes = sizeof(lookup),
	                                  .token_count = ORACLE_CHUNKS_MAX * RIG_BLOCK_TOKENS,
	                                  .hashes = hashes[0],
	                                  .hash_count = ORACLE_CHUNKS_MAX};
	kvh_status status;

	memset(hashes, 0x5a, sizeof(hashes));
	for (size_t i = 0; i < ORACLE_CHUNKS_MAX; i++) {
		uint64_t word = 1000 + number * 8 + i;

		memcpy(hashes[i], &word, sizeof(word));
	}
	status = kvh_worker_lookup(rig_worker(round->rig), &lookup, &result, NULL);
	/* The mischief goes on while the worker closes. */
	oracle_demand(round->oracle, status == KVH_OK || status == KVH_CLOSED, "lookup failed");
	oracle_demand(round->oracle,
	              result.hit_tokens <= lookup.token_count &&
	                      result.hit_tokens % RIG_BLOCK_TOKENS == 0,
	              "a hit that can't be");
}

static void look_at_stats(struct round *round)
{
	struct kvh_worker_stats stats = rig_stats(round->rig);
	char text[16384];
	size_t needed;

	if (round->max_queued_jobs && stats.queued_saves > round->max_queued_jobs)
		__atomic_add_fetch(&round->over_limit, 1, __ATOMIC_RELAXED);
	if (!stats.queued_saves != !stats.queued_save_bytes && stats.queued_save_bytes)
		__atomic_add_fetch(&round->over_limit, 1, __ATOMIC_RELAXED);
	oracle_demand(round->oracle,
	              !kvh_worker_stats_text(rig_worker(round->rig), text, sizeof(text), &needed),
	              "no metrics");
}

static void do_mischief(struct actor *actor)
{
	struct round *round = actor->round;
	struct kvh_worker *worker = rig_worker(round->rig);
	uint64_t number = draw(&actor->seed) % ORACLE_REQUESTS;
	const struct kvh_request_id requests[2] = {rig_request(oracle_request(number)),
	                                           rig_request(oracle_request(number + 1))};
	enum kvh_cancel_outcome outcome;

	switch (draw(&actor->seed) % 8) {
	case 0:
		oracle_demand(round->oracle, !kvh_worker_preempt(worker, requests[0]), "preempt");
		break;
	case 1:
		oracle_demand(round->oracle,
		              !kvh_worker_finish(worker, requests, draw(&actor->seed) % 3),
		              "finish");
		break;
	case 2:
	case 3:
		oracle_demand(round->oracle,
		              !kvh_worker_cancel(worker,
		                                 oracle_some_job(round->oracle, &actor->seed),
		                                 &outcome),
		              "cancel");
		break;
	case 4:
		look_up(round, number);
		break;
	case 5:
		look_at_stats(round);
		break;
	case 6:
		if (draw(&actor->seed) % 8 == 0)
			rig_forget_objects(round->rig);
		break;
	default:
		oracle_drain(round->oracle, &actor->seed);
	}
}

static void make_mischief(void *arg)
{
	struct actor *actor = arg;
	struct round *round = actor->round;

	while (!__atomic_load_n(&round->stop_mischief, __ATOMIC_ACQUIRE)) {
		do_mischief(actor);
		kvh_env_posix()->ops->sleep_ns(NULL, draw(&actor->seed) % 200000);
	}
}

static void change_identities(void *arg)
{
	struct actor *actor = arg;
	struct round *round = actor->round;

	for (int i = 0; i < IDENTITIES_MAX && round->identity_every_ms; i++) {
		if (__atomic_load_n(&round->stop_mischief, __ATOMIC_ACQUIRE))
			return;
		oracle_change_identity(round->oracle);
		kvh_env_posix()->ops->sleep_ns(NULL, round->identity_every_ms * 1000000);
	}
}

static void land_bytes(void *arg)
{
	struct actor *actor = arg;
	struct round *round = actor->round;

	while (!__atomic_load_n(&round->stop_polling, __ATOMIC_ACQUIRE)) {
		rig_land(round->rig, draw(&actor->seed) % 4);
		kvh_env_posix()->ops->sleep_ns(NULL, draw(&actor->seed) % 400000);
	}
}

static void start(struct actor *actor, struct round *round, size_t number, kvh_thread_fn fn)
{
	const struct kvh_env *env = kvh_env_posix();

	*actor = (struct actor){.round = round, .seed = round->seed * 1000 + number};
	assert_int_equal(env->ops->thread_create(env->ctx, &actor->thread, "stress", fn, actor),
	                 KVH_OK);
}

static void join(struct actor *actor)
{
	const struct kvh_env *env = kvh_env_posix();

	env->ops->thread_join(env->ctx, actor->thread);
}

/* Hand-ins go on until the worker refuses them, so close meets them all. */
static void run_actors(struct round *round, bool cancel_at_close)
{
	static const kvh_thread_fn fns[THREADS] = {submit_all, submit_all,       poll_all,
	                                           poll_all,   make_mischief,    make_mischief,
	                                           land_bytes, change_identities};
	const struct kvh_env *env = kvh_env_posix();
	struct actor actors[THREADS];
	size_t left = 0;

	for (size_t i = 0; i < THREADS; i++)
		start(&actors[i], round, i, fns[i]);
	env->ops->sleep_ns(env->ctx, ROUND_MS * UINT64_C(1000000));
	while (kvh_worker_close(rig_worker(round->rig), cancel_at_close, &left))
		env->ops->sleep_ns(env->ctx, 1000000);
	assert_int_equal(left, 0);
	__atomic_store_n(&round->stop_mischief, 1, __ATOMIC_RELEASE);
	for (size_t i = 0; i < THREADS; i++) {
		if (fns[i] != poll_all && fns[i] != land_bytes)
			join(&actors[i]);
	}
	__atomic_store_n(&round->stop_polling, 1, __ATOMIC_RELEASE);
	for (size_t i = 0; i < THREADS; i++) {
		if (fns[i] == poll_all || fns[i] == land_bytes)
			join(&actors[i]);
	}
}

static struct oracle_counts run_round(struct round *round, struct rig_options *options,
                                      bool cancel_at_close)
{
	struct oracle_counts counts;
	struct kvh_worker_stats stats;

	options->user = round;
	options->begin = begin;
	options->key = key;
	options->block_count = ORACLE_BLOCKS;
	round->max_queued_jobs = options->max_queued_jobs;
	round->rig = rig_open(options);
	round->oracle = oracle_open(round->rig);
	run_actors(round, cancel_at_close);
	if (oracle_fault(round->oracle))
		fail_msg("seed %llu: %s", (unsigned long long)round->seed,
		         oracle_fault(round->oracle));
	assert_int_equal(rig_foreign_count(round->rig), 0);
	assert_int_equal(round->over_limit, 0);
	counts = oracle_counts(round->oracle);
	stats = rig_stats(round->rig);
	print_message("accepted %llu refused %llu good loads %llu failed loads %llu cancelled %llu "
	              "drained %llu in doubt %llu wake-ups %llu\n",
	              (unsigned long long)counts.accepted, (unsigned long long)counts.refused,
	              (unsigned long long)counts.good_loads,
	              (unsigned long long)counts.failed_loads, (unsigned long long)counts.cancelled,
	              (unsigned long long)counts.drained, (unsigned long long)stats.in_doubt_jobs,
	              (unsigned long long)stats.wakeups);
	assert_int_equal(stats.save_jobs + stats.load_jobs, counts.accepted);
	assert_true(stats.wakeups <= counts.accepted);
	assert_int_equal(stats.running_jobs, 0);
	assert_int_equal(stats.queued_saves + stats.queued_loads + stats.queued_save_bytes, 0);
	assert_int_equal(stats.completions_waiting, 0);
	assert_int_equal(stats.live_requests, 0);
	assert_int_equal(stats.skipped_requests, 0);
	assert_int_equal(counts.load_refused, 0);
	assert_true(counts.good_loads > 0 && counts.failed_loads > 0 && counts.cancelled > 0);
	oracle_close(round->oracle);
	rig_close(round->rig);
	return counts;
}

/* proves, D-8 */
static void every_job_completes_once_under_many_threads(void **state)
{
	struct round round = {.seed = 1, .faults_per_1000 = 20};
	struct rig_options options = {.load_threads = 3, .max_queued_jobs = 64};

	(void)state;
	assert_true(run_round(&round, &options, true).drained > 0);
}

/* proves: D-23, R-36, R-39 */
static void late_bytes_never_meet_a_block_that_was_given_back(void **state)
{
	struct round round = {.seed = 2, .faults_per_1000 = 60, .late = true};
	struct rig_options options = {.load_threads = 2, .stop_ms_max = 5};

	(void)state;
	run_round(&round, &options, true);
}

/* proves */
static void a_new_identity_never_meets_old_bytes(void **state)
{
	struct round round = {
		.seed = 3, .faults_per_1000 = 20, .late = true, .identity_every_ms = 10};
	struct rig_options options = {.load_threads = 1};

	(void)state;
	run_round(&round, &options, true);
}

/* proves: R-10 */
static void full_queues_refuse_saves_and_take_loads(void **state)
{
	struct round round = {.seed = 4, .faults_per_1000 = 20};
	struct rig_options options = {.load_threads = 1,
	                              .max_queued_jobs = MAX_QUEUED_JOBS,
	                              .max_queued_bytes = 8 * RIG_BLOCK_BYTES,
	                              .load_timeout_ms = 2};

	(void)state;
	assert_true(run_round(&round, &options, false).refused > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_job_completes_once_under_many_threads),
		cmocka_unit_test(late_bytes_never_meet_a_block_that_was_given_back),
		cmocka_unit_test(a_new_identity_never_meets_old_bytes),
		cmocka_unit_test(full_queues_refuse_saves_and_take_loads),
	};

	/* One test by its name, for people. */
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
