/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: many threads on one handle. */
#include <string.h>

#include "conformance.h"

enum { THREADS = 4, KEYS = 24, BYTES = 32 << 10, ROUNDS = 40 };

/* Each thread has its own part of the memory; it counts what it saw, the test judges. */
struct runner {
	struct conf *conf;
	struct kvh_thread *thread;
	unsigned char *source;
	unsigned char *target;
	uint64_t number; /* of the bytes that it writes */
	uint32_t prefix_id;
	uint64_t first_key;
	uint64_t stored, present, got, missing, wrong, unexpected;
};

static struct kvh_result one(struct runner *runner, const struct kvh_key *key, void *memory,
                             bool put)
{
	const struct kvh_segment segment = {memory, BYTES};
	const struct kvh_value value = {.segments = &segment, .segment_count = 1};
	struct kvh_result result = {0};
	const struct kvh_batch batch = {
		.count = 1, .keys = key, .values = &value, .results = &result};
	kvh_status status = put ? kvh_store_put(runner->conf->store, &batch, NULL, NULL)
	                        : kvh_store_get(runner->conf->store, &batch, NULL);

	if (status)
		runner->unexpected++;
	return result;
}

static void put_one(struct runner *runner, const struct kvh_key *key, uint64_t number)
{
	int64_t value;

	conf_fill(runner->source, BYTES, number);
	value = one(runner, key, runner->source, true).value;
	runner->stored += value == 0;
	runner->present += value == KVH_OBJECT_ALREADY_EXISTS;
	if (value != 0 && value != KVH_OBJECT_ALREADY_EXISTS && value != KVH_REPLICA_IS_NOT_READY &&
	    value != KVH_NO_AVAILABLE_HANDLE)
		runner->unexpected++;
}

/* Whose bytes these are shows in their first words; they must be one writer's, whole. */
static void get_one(struct runner *runner, const struct kvh_key *key, uint64_t number_of_key)
{
	int64_t value = one(runner, key, runner->target, false).value;
	bool whole = false;

	if (value != BYTES) {
		runner->missing++;
		runner->unexpected +=
			value != KVH_OBJECT_NOT_FOUND && value != KVH_REPLICA_IS_NOT_READY;
		return;
	}
	for (uint64_t writer = 0; writer < THREADS && !whole; writer++)
		whole = conf_is_filled(runner->target, BYTES, number_of_key * THREADS + writer);
	runner->got++;
	runner->wrong += !whole;
}

static void run_all(struct conf *conf, struct runner *runners, kvh_thread_fn fn)
{
	const struct kvh_env *env = kvh_env_posix();

	for (size_t i = 0; i < THREADS; i++) {
		runners[i].conf = conf;
		runners[i].source = conf->source + i * BYTES;
		runners[i].target = conf->target + i * BYTES;
		assert_int_equal(env->ops->thread_create(env->ctx, &runners[i].thread, "conf", fn,
		                                         &runners[i]),
		                 KVH_OK);
	}
	for (size_t i = 0; i < THREADS; i++)
		env->ops->thread_join(env->ctx, runners[i].thread);
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(runners[i].wrong, 0);
		assert_int_equal(runners[i].unexpected, 0);
	}
}

static void race_for_keys(void *arg)
{
	struct runner *runner = arg;

	for (uint64_t i = 0; i < KEYS; i++) {
		struct conf_key key;

		conf_key_make(&key, runner->prefix_id, i);
		put_one(runner, &key.key, i * THREADS + runner->number);
		get_one(runner, &key.key, i);
	}
}

/* proves: S-1, S-3, S-10, D-11, B16 */
static void writers_of_one_key_leave_the_bytes_of_one(void **state)
{
	struct conf *conf = *state;
	struct runner runners[THREADS];
	uint64_t stored = 0;
	uint64_t present = 0;

	memset(runners, 0, sizeof(runners));
	for (uint64_t i = 0; i < THREADS; i++) {
		runners[i].number = i;
		runners[i].prefix_id = conf->prefix_id;
	}
	run_all(conf, runners, race_for_keys);
	for (uint64_t i = 0; i < THREADS; i++) {
		stored += runners[i].stored;
		present += runners[i].present;
	}
	assert_int_equal(stored, KEYS);
	assert_true(present <= (uint64_t)KEYS * (THREADS - 1));
	assert_int_equal(conf_stats(conf).objects, KEYS);
	assert_int_equal(conf_count_numbers(conf, conf->prefix_id, 0, KEYS), KEYS);
}

static void own_keys(void *arg)
{
	struct runner *runner = arg;

	for (uint64_t round = 0; round < ROUNDS; round++) {
		for (uint64_t i = 0; i < KEYS; i++) {
			uint64_t number = runner->first_key + round * KEYS + i;
			struct conf_key key;

			conf_key_make(&key, runner->prefix_id, number);
			put_one(runner, &key.key, number * THREADS + runner->number);
			/* Someone else's too: it may have been evicted, never be torn. */
			conf_key_make(&key, runner->prefix_id, number);
			get_one(runner, &key.key, number);
			number = (number + 1000000) % ((uint64_t)THREADS * 1000000);
			conf_key_make(&key, runner->prefix_id, number);
			get_one(runner, &key.key, number);
		}
	}
}

/* proves: S-1, S-3, S-4, S-17 */
static void readers_under_eviction_get_right_bytes_or_a_miss(void **state)
{
	struct conf *conf = *state;
	struct runner runners[THREADS];

	memset(runners, 0, sizeof(runners));
	for (uint64_t i = 0; i < THREADS; i++) {
		runners[i].number = i;
		runners[i].prefix_id = conf->prefix_id;
		runners[i].first_key = i * 1000000;
	}
	run_all(conf, runners, own_keys);
	for (uint64_t i = 0; i < THREADS; i++) {
		assert_true(runners[i].got > 0);
		assert_int_equal(runners[i].stored, (uint64_t)ROUNDS * KEYS);
	}
}

static void put_and_remove(void *arg)
{
	struct runner *runner = arg;

	for (uint64_t round = 0; round < (uint64_t)10 * ROUNDS; round++) {
		uint64_t number = (round + runner->number) % 3;
		struct kvh_result result = {0};
		struct conf_key key;
		const struct kvh_batch batch = {.count = 1, .keys = &key.key, .results = &result};

		conf_key_make(&key, runner->prefix_id, number);
		put_one(runner, &key.key, number * THREADS + runner->number);
		get_one(runner, &key.key, number);
		if (kvh_store_remove(runner->conf->store, &batch, NULL) ||
		    (result.value && result.value != KVH_OBJECT_NOT_FOUND &&
		     result.value != KVH_OBJECT_HAS_LEASE &&
		     result.value != KVH_REPLICA_IS_NOT_READY))
			runner->unexpected++;
	}
}

/* proves: S-2, S-4 */
static void removing_under_readers_never_shows_other_bytes(void **state)
{
	struct conf *conf = *state;
	struct runner runners[THREADS];

	memset(runners, 0, sizeof(runners));
	for (uint64_t i = 0; i < THREADS; i++) {
		runners[i].number = i;
		runners[i].prefix_id = conf->prefix_id;
	}
	run_all(conf, runners, put_and_remove);
	assert_int_equal(kvh_store_clear(conf->store, NULL, NULL), KVH_OK);
	assert_int_equal(conf_stats(conf).used_bytes, 0);
}

static const struct CMUnitTest tests[] = {
	conf_test(writers_of_one_key_leave_the_bytes_of_one),
	conf_test(readers_under_eviction_get_right_bytes_or_a_miss),
	conf_test(removing_under_readers_never_shows_other_bytes),
};

CONF_GROUP(conf_threads_group, tests);
