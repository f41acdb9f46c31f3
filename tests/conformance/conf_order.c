/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: who goes first when room is needed. */
#include <string.h>

#include "conformance.h"

/* Names apart from those of conf_fill_up. */
enum { FRESH = 1000000, OTHERS = 2000000 };

/* Puts count new ones in a full store. */
static void press(struct conf *conf, uint64_t first, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_int_equal(conf_put_number(conf, conf->prefix_id, first + i, NULL), 0);
}

static void probe(struct conf *conf, uint64_t first, size_t count, uint32_t flags)
{
	for (size_t i = 0; i < count; i++) {
		struct conf_key key;

		conf_key_make(&key, conf->prefix_id, first + i);
		assert_int_equal(conf_exists(conf, &key.key, flags), 1);
	}
}

/* A store that is just full of FRESH numbers, oldest first; how many. */
static size_t full_store(struct conf *conf)
{
	size_t fit = conf_fill_up(conf, conf->prefix_id, 0);

	assert_int_equal(kvh_store_clear(conf->store, NULL, NULL), KVH_OK);
	press(conf, FRESH, fit);
	assert_int_equal(conf_count_numbers(conf, conf->prefix_id, FRESH, fit), fit);
	return fit;
}

/* proves: B20 */
static void the_oldest_goes_first(void **state)
{
	struct conf *conf = *state;
	size_t fit = full_store(conf);
	size_t quarter = fit / 4;

	press(conf, OTHERS, quarter);
	assert_true(conf_count_numbers(conf, conf->prefix_id, FRESH, quarter) <= quarter / 4);
	assert_true(conf_count_numbers(conf, conf->prefix_id, FRESH + fit - quarter, quarter) >=
	            quarter - quarter / 4);
}

/* proves: B20 */
static void being_looked_up_protects_nobody(void **state)
{
	struct conf *conf = *state;
	size_t fit = full_store(conf);
	size_t quarter = fit / 4;

	for (int i = 0; i < 5; i++)
		probe(conf, FRESH, quarter, KVH_EXISTS_LOOKUP);
	press(conf, OTHERS, quarter);
	assert_true(conf_count_numbers(conf, conf->prefix_id, FRESH, quarter) <= quarter / 4);
}

/* proves: B20 */
static void being_asked_for_before_a_put_counts_as_use(void **state)
{
	struct conf *conf = *state;
	size_t fit = full_store(conf);
	size_t quarter = fit / 4;

	probe(conf, FRESH, quarter, KVH_EXISTS_DEDUP);
	press(conf, OTHERS, quarter);
	assert_true(conf_count_numbers(conf, conf->prefix_id, FRESH, quarter) >=
	            quarter - quarter / 4);
}

/* proves: B20 */
static void being_got_counts_as_use(void **state)
{
	struct conf *conf = *state;
	size_t fit = full_store(conf);
	size_t quarter = fit / 4;

	for (size_t i = 0; i < quarter; i++)
		conf_get_number(conf, conf->prefix_id, FRESH + i);
	press(conf, OTHERS, quarter);
	assert_true(conf_count_numbers(conf, conf->prefix_id, FRESH, quarter) >=
	            quarter - quarter / 4);
}

/* Puts a quarter with these options, then more than fit; how many of the quarter are left. */
static size_t survivors(struct conf *conf, const struct kvh_put_options *options, size_t *quarter)
{
	size_t fit = conf_fill_up(conf, conf->prefix_id, 0);

	*quarter = fit / 4;
	assert_int_equal(kvh_store_clear(conf->store, NULL, NULL), KVH_OK);
	for (size_t i = 0; i < *quarter; i++)
		assert_int_equal(conf_put_number(conf, conf->prefix_id, FRESH + i, options), 0);
	press(conf, OTHERS, 2 * fit);
	return conf_count_numbers(conf, conf->prefix_id, FRESH, *quarter);
}

/* proves: S-14 */
static void a_higher_priority_goes_last(void **state)
{
	const struct kvh_put_options options = {.struct_bytes = sizeof(options), .priority = 2};
	size_t quarter;
	size_t left = survivors(*state, &options, &quarter);

	assert_int_equal(left, quarter);
}

/* proves: S-14 */
static void kept_objects_go_last(void **state)
{
	const struct kvh_put_options options = {.struct_bytes = sizeof(options),
	                                        .keep_seconds = 3600};
	size_t quarter;
	size_t left = survivors(*state, &options, &quarter);

	assert_int_equal(left, quarter);
}

/* proves: S-14 */
static void kept_objects_make_room_when_nothing_else_is_left(void **state)
{
	const struct kvh_put_options options = {.struct_bytes = sizeof(options),
	                                        .keep_seconds = 3600};
	struct conf *conf = *state;
	size_t fit = conf_fill_up(conf, conf->prefix_id, 0);

	assert_int_equal(kvh_store_clear(conf->store, NULL, NULL), KVH_OK);
	for (size_t i = 0; i < 2 * fit; i++)
		assert_int_equal(conf_put_number(conf, conf->prefix_id, FRESH + i, &options), 0);
}

/* proves: S-14 */
static void a_keep_ends_at_its_time(void **state)
{
	const struct kvh_put_options options = {.struct_bytes = sizeof(options),
	                                        .keep_seconds = 3600};
	struct conf *conf = *state;
	size_t quarter;
	size_t left = survivors(conf, &options, &quarter);

	assert_int_equal(left, quarter);
	conf_clock_forward(&conf->clock, 3700);
	press(conf, OTHERS + 1000000, 8 * quarter);
	assert_int_equal(conf_count_numbers(conf, conf->prefix_id, FRESH, quarter), 0);
}

/* proves: S-1 */
static void an_expired_object_is_gone(void **state)
{
	const struct kvh_put_options options = {.struct_bytes = sizeof(options),
	                                        .expire_seconds = 600};
	struct conf *conf = *state;
	struct conf_key key;

	conf_key_make(&key, conf->prefix_id, 1);
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 1, &options), 0);
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 2, NULL), 0);
	conf_clock_forward(&conf->clock, 500);
	conf_get_number(conf, conf->prefix_id, 1);
	/* Reading did not prolong it; a store may count in steps of up to a minute. */
	conf_clock_forward(&conf->clock, 160);
	assert_false(conf_has_number(conf, conf->prefix_id, 1));
	assert_int_equal(conf_get(conf, &key.key, CONF_OBJECT_BYTES), KVH_OBJECT_NOT_FOUND);
	conf_get_number(conf, conf->prefix_id, 2);
	/* Its name is free again. */
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 1, NULL), 0);
	conf_get_number(conf, conf->prefix_id, 1);
}

/* proves: B26, R-3 */
static void a_lifecycle_group_leaves_as_a_whole(void **state)
{
	const struct kvh_put_options options = {.struct_bytes = sizeof(options),
	                                        .flags = KVH_PUT_LIFECYCLE_GROUP};
	struct conf *conf = *state;
	uint32_t ids[3];
	size_t group_count, gone = 0;

	if (!conf->caps.lifecycle)
		skip();
	ids[0] = conf_prefix(conf, "conf@g0@", NULL);
	ids[1] = conf_prefix(conf, "conf@g1@", NULL);
	ids[2] = conf_prefix(conf, "conf@g2@", NULL);
	group_count = conf_fill_up(conf, conf->prefix_id, 0);
	assert_int_equal(kvh_store_clear(conf->store, NULL, NULL), KVH_OK);
	/* Prefix by prefix, so that the members of a group are of very different age. */
	for (size_t p = 0; p < 3; p++) {
		for (size_t i = 0; i < group_count / 4; i++)
			assert_int_equal(conf_put_number(conf, ids[p], FRESH + i, &options), 0);
	}
	press(conf, OTHERS, group_count / 2);
	for (size_t i = 0; i < group_count / 4; i++) {
		size_t members = 0;

		for (size_t p = 0; p < 3; p++)
			members += conf_has_number(conf, ids[p], FRESH + i);
		if (members != 0 && members != 3)
			fail_msg("%zu of 3 members of group %zu are left", members, i);
		gone += members == 0;
	}
	assert_true(gone > 0);
}

static const struct CMUnitTest tests[] = {
	conf_test(the_oldest_goes_first),
	conf_test(being_looked_up_protects_nobody),
	conf_test(being_asked_for_before_a_put_counts_as_use),
	conf_test(being_got_counts_as_use),
	conf_test(a_higher_priority_goes_last),
	conf_test(kept_objects_go_last),
	conf_test(kept_objects_make_room_when_nothing_else_is_left),
	conf_test(a_keep_ends_at_its_time),
	conf_test(an_expired_object_is_gone),
	conf_test(a_lifecycle_group_leaves_as_a_whole),
};

CONF_GROUP(conf_order_group, tests);
