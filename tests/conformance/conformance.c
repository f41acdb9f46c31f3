/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite's runner and helpers. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct conf_subject *subject;

/* ---- clock -------------------------------------------------------------------------------- */

static struct conf_clock *clock_of(void *ctx)
{
	return ctx;
}

static uint64_t ahead_ns(void *ctx)
{
	return __atomic_load_n(&clock_of(ctx)->ahead_ns, __ATOMIC_RELAXED);
}

static uint64_t clock_now_ns(void *ctx)
{
	const struct kvh_env *posix = kvh_env_posix();

	return posix->ops->now_ns(posix->ctx) + ahead_ns(ctx);
}

static kvh_status clock_cond_wait(void *ctx, struct kvh_cond *cond, struct kvh_mutex *mutex,
                                  kvh_deadline deadline_ns)
{
	const struct kvh_env *posix = kvh_env_posix();
	uint64_t ahead = ahead_ns(ctx);
	kvh_deadline real_ns = deadline_ns > ahead ? deadline_ns - ahead : deadline_ns != 0;

	return posix->ops->cond_wait(posix->ctx, cond, mutex, real_ns);
}

/* The posix functions ignore their context, so that all but two can stay as they are. */
static struct kvh_env_ops clock_ops;

static void clock_init(struct conf_clock *clock)
{
	clock_ops = *kvh_env_posix()->ops;
	clock_ops.now_ns = clock_now_ns;
	clock_ops.cond_wait = clock_cond_wait;
	clock->env = (struct kvh_env){.ops = &clock_ops, .ctx = clock};
	clock->ahead_ns = 0;
}

void conf_clock_forward(struct conf_clock *clock, uint64_t seconds)
{
	__atomic_fetch_add(&clock->ahead_ns, seconds * 1000000000, __ATOMIC_RELAXED);
}

/* ---- set-up ------------------------------------------------------------------------------- */

uint32_t conf_prefix(struct conf *conf, const char *text, const char *identity)
{
	const struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix),
		.text = text,
		.text_bytes = strlen(text),
		.family_bytes = strncmp(text, "conf@", 5) == 0 ? 5 : 0,
		.identity = identity,
		.identity_bytes = identity ? strlen(identity) : 0,
	};
	struct kvh_error error = {0};
	uint32_t id = 0;
	kvh_status status = kvh_store_prefix(conf->store, &prefix, &id, &error);

	if (status)
		fail_msg("prefix %s: %d %s", text, (int)status, error.text);
	return id;
}

int conf_setup(void **state)
{
	struct conf *conf = calloc(1, sizeof(*conf));
	struct kvh_store_options options = {.struct_bytes = sizeof(options)};
	struct kvh_error error = {0};

	assert_non_null(conf);
	clock_init(&conf->clock);
	options.env = &conf->clock.env;
	if (subject->open(CONF_CAPACITY_BYTES, &options, &conf->store, &error))
		fail_msg("open: %s", error.text);
	conf->caps.struct_bytes = sizeof(conf->caps);
	assert_int_equal(kvh_store_get_caps(conf->store, &conf->caps), KVH_OK);
	conf->source = aligned_alloc(4096, CONF_MEMORY_BYTES);
	assert_non_null(conf->source);
	memset(conf->source, 0x11, CONF_MEMORY_BYTES);
	conf->target = conf->source + CONF_MEMORY_BYTES / 2;
	if (kvh_store_register(conf->store, conf->source, CONF_MEMORY_BYTES, KVH_MEMORY_HOST,
	                       &conf->region, &error))
		fail_msg("register: %s", error.text);
	conf->prefix_id = conf_prefix(conf, "conf@0@", NULL);
	*state = conf;
	return 0;
}

int conf_teardown(void **state)
{
	struct conf *conf = *state;

	assert_int_equal(kvh_store_close(conf->store, 0), KVH_OK);
	free(conf->source);
	free(conf);
	return 0;
}

int conf_main(const struct conf_subject *of, int argc, char **argv)
{
	static const struct conf_group *const groups[] = {
		&conf_data_group, &conf_keys_group,   &conf_space_group, &conf_order_group,
		&conf_hold_group, &conf_handle_group, &conf_list_group,  &conf_threads_group,
	};
	struct CMUnitTest tests[128];
	size_t count = 0;

	subject = of;
	for (int i = 1; i + 1 < argc; i++) {
		if (strcmp(argv[i], "--test") == 0)
			cmocka_set_test_filter(argv[i + 1]);
	}
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		assert_true(count + groups[i]->count <= sizeof(tests) / sizeof(tests[0]));
		memcpy(tests + count, groups[i]->tests, groups[i]->count * sizeof(tests[0]));
		count += groups[i]->count;
	}
	return _cmocka_run_group_tests(of->name, tests, count, NULL, NULL);
}

/* ---- bytes and keys ----------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

void conf_key_make(struct conf_key *key, uint32_t prefix_id, uint64_t number)
{
	for (size_t i = 0; i < CONF_HASH_BYTES / 8; i++) {
		uint64_t word = mix(number * 4 + i);

		memcpy(key->hash + 8 * i, &word, 8);
	}
	key->key = (struct kvh_key){
		.hash = key->hash, .hash_bytes = CONF_HASH_BYTES, .prefix_id = prefix_id};
}

/* Position-coded: a byte moved by any distance shows. */
static uint64_t word_of(uint64_t number, size_t index)
{
	return mix(number << 32 ^ index ^ UINT64_C(0x5bd1e995) << 40);
}

void conf_fill(void *to, size_t bytes, uint64_t number)
{
	unsigned char *out = to;

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = word_of(number, i / 8);

		memcpy(out + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
}

bool conf_is_filled(const void *at, size_t bytes, uint64_t number)
{
	const unsigned char *in = at;

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = word_of(number, i / 8);

		if (memcmp(in + i, &word, bytes - i < 8 ? bytes - i : 8) != 0)
			return false;
	}
	return true;
}

void conf_assert_filled(const void *at, size_t bytes, uint64_t number)
{
	if (!conf_is_filled(at, bytes, number))
		fail_msg("these are not the %zu bytes of key %llu", bytes,
		         (unsigned long long)number);
}

/* ---- one key ------------------------------------------------------------------------------ */

int64_t conf_exists(struct conf *conf, const struct kvh_key *key, uint32_t flags)
{
	struct kvh_result result = {0};
	const struct kvh_batch batch = {.count = 1, .keys = key, .results = &result};

	assert_int_equal(kvh_store_exists(conf->store, &batch, flags, NULL), KVH_OK);
	return result.value;
}

int64_t conf_put(struct conf *conf, const struct kvh_key *key, uint64_t number, size_t bytes,
                 const struct kvh_put_options *options)
{
	const struct kvh_segment segment = {.addr = conf->source, .bytes = bytes};
	const struct kvh_value value = {.segments = &segment, .segment_count = 1};
	struct kvh_result result = {0};
	const struct kvh_batch batch = {
		.count = 1, .keys = key, .values = &value, .results = &result};

	assert_true(bytes <= CONF_MEMORY_BYTES / 2);
	conf_fill(conf->source, bytes, number);
	assert_int_equal(kvh_store_put(conf->store, &batch, options, NULL), KVH_OK);
	return result.value;
}

int64_t conf_get(struct conf *conf, const struct kvh_key *key, size_t bytes)
{
	const struct kvh_segment segment = {.addr = conf->target, .bytes = bytes};
	const struct kvh_value value = {.segments = &segment, .segment_count = 1};
	struct kvh_result result = {0};
	const struct kvh_batch batch = {
		.count = 1, .keys = key, .values = &value, .results = &result};

	memset(conf->target, 0xee, bytes);
	assert_int_equal(kvh_store_get(conf->store, &batch, NULL), KVH_OK);
	return result.value;
}

int64_t conf_remove(struct conf *conf, const struct kvh_key *key)
{
	struct kvh_result result = {0};
	const struct kvh_batch batch = {.count = 1, .keys = key, .results = &result};

	assert_int_equal(kvh_store_remove(conf->store, &batch, NULL), KVH_OK);
	return result.value;
}

int64_t conf_put_number(struct conf *conf, uint32_t prefix_id, uint64_t number,
                        const struct kvh_put_options *options)
{
	struct conf_key key;

	conf_key_make(&key, prefix_id, number);
	return conf_put(conf, &key.key, number, CONF_OBJECT_BYTES, options);
}

bool conf_has_number(struct conf *conf, uint32_t prefix_id, uint64_t number)
{
	struct conf_key key;

	conf_key_make(&key, prefix_id, number);
	return conf_exists(conf, &key.key, KVH_EXISTS_LOOKUP) == 1;
}

size_t conf_count_numbers(struct conf *conf, uint32_t prefix_id, uint64_t first, size_t count)
{
	size_t present = 0;

	for (size_t i = 0; i < count; i++)
		present += conf_has_number(conf, prefix_id, first + i);
	return present;
}

void conf_get_number(struct conf *conf, uint32_t prefix_id, uint64_t number)
{
	struct conf_key key;

	conf_key_make(&key, prefix_id, number);
	assert_int_equal(conf_get(conf, &key.key, CONF_OBJECT_BYTES), CONF_OBJECT_BYTES);
	conf_assert_filled(conf->target, CONF_OBJECT_BYTES, number);
}

size_t conf_fill_up(struct conf *conf, uint32_t prefix_id, uint64_t first)
{
	/* More than fit, whatever a backend rounds up or down. */
	size_t limit = 4 * (size_t)CONF_CAPACITY_BYTES / CONF_OBJECT_BYTES;
	size_t count = 0;

	do {
		assert_true(count < limit);
		assert_int_equal(conf_put_number(conf, prefix_id, first + count, NULL), 0);
		count++;
	} while (conf_has_number(conf, prefix_id, first));
	return count - 1;
}

struct kvh_store_stats conf_stats(struct conf *conf)
{
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};

	assert_int_equal(kvh_store_get_stats(conf->store, &stats), KVH_OK);
	return stats;
}
