/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory and layouts over it. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "scripted.h"

enum { ROOM_BYTES = 1 << 20 };

static unsigned char *room;

static int with_room(void **state)
{
	room = calloc(1, ROOM_BYTES);
	return room ? scripted_setup(state) : -1;
}

static int without_room(void **state)
{
	int failed = scripted_teardown(state);

	free(room);
	return failed;
}

#define room_test(fn) cmocka_unit_test_setup_teardown(fn, with_room, without_room)

static kvh_status reg(struct scripted *scripted, size_t from, size_t bytes, kvh_region_id *region)
{
	return kvh_store_register(scripted->store, room + from, bytes, KVH_MEMORY_HOST, region,
	                          NULL);
}

static kvh_status put_at(struct scripted *scripted, size_t from, size_t bytes)
{
	scripted->segment = (struct kvh_segment){room + from, bytes};
	return kvh_store_put(scripted->store, &scripted->batch, NULL, NULL);
}

/* proves: T21, T6 */
static void ranges_that_are_none_are_refused(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_store *store = scripted->store;
	kvh_region_id region = 77;
	struct kvh_error error = {0};

	assert_int_equal(kvh_store_register(NULL, room, 1, 1, &region, &error), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_register(store, NULL, 1, 1, &region, &error),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_register(store, room, 0, 1, &region, &error),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_register(store, room, SIZE_MAX, 1, &region, &error),
	                 KVH_INVALID_PARAMS);
	assert_non_null(strstr(error.text, "pass the end of memory"));
	assert_int_equal(kvh_store_register(store, room, 1, 1, NULL, &error), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_register(store, room, 1, 4, &region, &error),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(error.status, KVH_INVALID_PARAMS);
	assert_int_equal(region, 77);
	assert_int_equal(kvh_store_unregister(NULL, 0, 0), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_unregister(store, 12345, 0), KVH_INVALID_PARAMS);
	assert_int_equal(scripted_calls(scripted), 0);
}

/* proves: T21 */
static void overlaps_are_refused_and_neighbours_are_not(void **state)
{
	static const size_t bad[][2] = {{1000, 1000}, {999, 2}, {1999, 1}, {500, 3000}, {1200, 10}};
	struct scripted *scripted = *state;
	kvh_region_id first, region;

	assert_int_equal(reg(scripted, 1000, 1000, &first), KVH_OK);
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_int_equal(reg(scripted, bad[i][0], bad[i][1], &region), KVH_INVALID_PARAMS);
	assert_int_equal(reg(scripted, 2000, 500, &region), KVH_OK);
	assert_int_not_equal(region, first);
	assert_int_equal(reg(scripted, 900, 100, &region), KVH_OK);
	/* A value lies in one region, not across two that touch. */
	assert_int_equal(put_at(scripted, 1990, 20), KVH_INVALID_PARAMS);
	assert_int_equal(put_at(scripted, 1990, 10), KVH_OK);
	assert_int_equal(put_at(scripted, 2000, 10), KVH_OK);
}

/* proves: T21 */
static void many_regions_are_told_apart_in_any_order(void **state)
{
	enum { COUNT = 200, STEP = 4096 };
	struct scripted *scripted = *state;
	kvh_region_id regions[COUNT];

	for (size_t i = 0; i < COUNT; i++) {
		/* 77 and 200 have no common divisor: each place comes once. */
		size_t place = i * 77 % COUNT;

		assert_int_equal(reg(scripted, place * STEP, STEP / 2, &regions[place]), KVH_OK);
	}
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(put_at(scripted, i * STEP, STEP / 2), KVH_OK);
		assert_int_equal(put_at(scripted, i * STEP + 1, STEP / 2), KVH_INVALID_PARAMS);
		assert_int_equal(put_at(scripted, i * STEP + STEP / 2, 1), KVH_INVALID_PARAMS);
	}
	for (size_t i = 0; i < COUNT; i += 2)
		assert_int_equal(kvh_store_unregister(scripted->store, regions[i], 0), KVH_OK);
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(put_at(scripted, i * STEP, 1),
		                 i % 2 ? KVH_OK : KVH_INVALID_PARAMS);
}

/* proves: T15 */
static void the_region_table_has_an_end(void **state)
{
	struct scripted *scripted = *state;
	kvh_region_id region = 0;

	/* One is the fixture's. */
	for (size_t i = 1; i < KVH_REGIONS_MAX; i++)
		assert_int_equal(reg(scripted, i * 16, 16, &region), KVH_OK);
	assert_int_equal(reg(scripted, (size_t)KVH_REGIONS_MAX * 16, 16, &region), KVH_BUSY);
	assert_int_equal(kvh_store_unregister(scripted->store, region, 0), KVH_OK);
	assert_int_equal(reg(scripted, (size_t)KVH_REGIONS_MAX * 16, 16, &region), KVH_OK);
}

/* proves: T4 */
static void what_the_backend_refuses_is_not_registered(void **state)
{
	struct scripted *scripted = *state;
	kvh_region_id region;

	scripted->answer = -4242;
	assert_int_equal(reg(scripted, 0, 100, &region), -4242);
	scripted->answer = KVH_OK;
	assert_int_equal(put_at(scripted, 0, 10), KVH_INVALID_PARAMS);
	assert_int_equal(reg(scripted, 0, 100, &region), KVH_OK);
	/* And what it does not let go stays. */
	scripted->answer = KVH_TIMEOUT;
	assert_int_equal(kvh_store_unregister(scripted->store, region, 0), KVH_TIMEOUT);
	scripted->answer = KVH_OK;
	assert_int_equal(put_at(scripted, 0, 10), KVH_OK);
	assert_int_equal(kvh_store_unregister(scripted->store, region, 0), KVH_OK);
	assert_int_equal(put_at(scripted, 0, 10), KVH_INVALID_PARAMS);
}

static kvh_status say_device(void *ctx, const void *addr, enum kvh_memory_kind *kind)
{
	(void)addr;
	*kind = *(enum kvh_memory_kind *)ctx;
	return KVH_OK;
}

static struct scripted *open_with_device(const struct kvh_device *device)
{
	struct scripted *scripted = scripted_new();
	const struct kvh_store_options options = {.struct_bytes = sizeof(options),
	                                          .device = device};

	assert_int_equal(
		kvh_store_open_ops(scripted_ops(), scripted, &options, &scripted->store, NULL),
		KVH_OK);
	return scripted;
}

/* proves: T21 */
static void the_device_is_asked_when_the_caller_does_not_say(void **state)
{
	enum kvh_memory_kind said = KVH_MEMORY_DEVICE;
	const struct kvh_device_ops can_tell = {.struct_bytes = sizeof(can_tell),
	                                        .classify = say_device};
	const struct kvh_device_ops can_not = {.struct_bytes = sizeof(can_not)};
	const struct kvh_device telling = {&can_tell, &said};
	const struct kvh_device silent = {&can_not, NULL};
	const struct kvh_segment_template two[] = {{room, 64, 64}, {room + 4096, 64, 64}};
	struct scripted *scripted = open_with_device(&telling);
	struct kvh_layout *layout;
	kvh_region_id region;

	(void)state;
	assert_int_equal(kvh_store_register(scripted->store, room, 4096, 0, &region, NULL), KVH_OK);
	assert_int_equal(kvh_store_register(scripted->store, room + 4096, 4096, KVH_MEMORY_HOST,
	                                    &region, NULL),
	                 KVH_OK);
	/* The first is device memory now, so the two don't make one layout. */
	assert_int_equal(kvh_layout_create(scripted->store, two, 2, 1, &layout, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_layout_create(scripted->store, two, 1, 1, &layout, NULL), KVH_OK);
	assert_int_equal(kvh_layout_get_view(layout)->kind, KVH_MEMORY_DEVICE);
	kvh_layout_destroy(layout);
	assert_int_equal(kvh_store_close(scripted->store, 0), KVH_OK);
	free(scripted);

	scripted = open_with_device(&silent);
	assert_int_equal(kvh_store_register(scripted->store, room, 4096, 0, &region, NULL),
	                 KVH_NOT_SUPPORTED);
	assert_int_equal(
		kvh_store_register(scripted->store, room, 4096, KVH_MEMORY_HOST, &region, NULL),
		KVH_OK);
	assert_int_equal(kvh_store_close(scripted->store, 0), KVH_OK);
	free(scripted);
}

/* proves: T21 */
static void a_list_stays_within_one_kind_of_memory(void **state)
{
	struct scripted *scripted = *state;
	const struct kvh_segment segments[] = {{room, 64}, {room + 4096, 64}};
	kvh_region_id region;

	assert_int_equal(
		kvh_store_register(scripted->store, room, 4096, KVH_MEMORY_HOST, &region, NULL),
		KVH_OK);
	assert_int_equal(kvh_store_register(scripted->store, room + 4096, 4096,
	                                    KVH_MEMORY_PINNED_HOST, &region, NULL),
	                 KVH_OK);
	scripted->value_of_key = (struct kvh_value){.segments = segments, .segment_count = 2};
	assert_int_equal(kvh_store_put(scripted->store, &scripted->batch, NULL, NULL),
	                 KVH_INVALID_PARAMS);
	scripted->value_of_key.segment_count = 1;
	assert_int_equal(kvh_store_put(scripted->store, &scripted->batch, NULL, NULL), KVH_OK);
}

/* ---- layouts ------------------------------------------------------------------------------ */

static kvh_status layout_of(struct scripted *scripted, struct kvh_segment_template one,
                            uint64_t block_count)
{
	struct kvh_layout *layout = NULL;
	struct kvh_error error = {0};
	kvh_status status =
		kvh_layout_create(scripted->store, &one, 1, block_count, &layout, &error);

	if (status == KVH_OK)
		kvh_layout_destroy(layout);
	else
		assert_true(error.text[0] && !layout);
	return status;
}

/* proves: T21, T6 */
static void every_block_of_a_layout_lies_in_its_region(void **state)
{
	struct scripted *scripted = *state;
	kvh_region_id region;
	kvh_status no = KVH_INVALID_PARAMS;

	assert_int_equal(reg(scripted, 4096, 8192, &region), KVH_OK);
	assert_int_equal(
		layout_of(scripted, (struct kvh_segment_template){room + 4096, 1024, 1024}, 8),
		KVH_OK);
	assert_int_equal(
		layout_of(scripted, (struct kvh_segment_template){room + 4096, 1024, 1024}, 9), no);
	assert_int_equal(
		layout_of(scripted, (struct kvh_segment_template){room + 4097, 1024, 1024}, 8), no);
	assert_int_equal(
		layout_of(scripted, (struct kvh_segment_template){room + 4095, 1024, 1024}, 8), no);
	/* The padding after the last block need not be there. */
	assert_int_equal(
		layout_of(scripted, (struct kvh_segment_template){room + 4096, 1536, 1024}, 5),
		KVH_OK);
	assert_int_equal(
		layout_of(scripted, (struct kvh_segment_template){room + 4096, 1536, 1024}, 6), no);
	assert_int_equal(
		layout_of(scripted, (struct kvh_segment_template){room + 4096, 0, 8192}, 1),
		KVH_OK);
	/* Sums and products that wrap. */
	assert_int_equal(layout_of(scripted,
	                           (struct kvh_segment_template){room + 4096, SIZE_MAX / 2, 1024},
	                           3),
	                 no);
	assert_int_equal(layout_of(scripted,
	                           (struct kvh_segment_template){room + 4096, (size_t)1 << 32, 8},
	                           (UINT64_C(1) << 32) + 1),
	                 no);
	assert_int_equal(layout_of(scripted,
	                           (struct kvh_segment_template){room + 4096, SIZE_MAX, SIZE_MAX},
	                           2),
	                 no);
	assert_int_equal(layout_of(scripted, (struct kvh_segment_template){room + 4096, 1024, 1024},
	                           UINT64_MAX),
	                 no);
}

/* proves: T21 */
static void layouts_without_shape_are_refused(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_store *store = scripted->store;
	struct kvh_segment_template *many = calloc(KVH_SEGMENTS_MAX + 1, sizeof(*many));
	const struct kvh_segment_template one = {scripted->memory, 64, 64};
	struct kvh_layout *layout = NULL;
	kvh_status no = KVH_INVALID_PARAMS;

	assert_non_null(many);
	for (size_t i = 0; i <= KVH_SEGMENTS_MAX; i++)
		many[i] = one;
	assert_int_equal(kvh_layout_create(NULL, &one, 1, 1, &layout, NULL), no);
	assert_int_equal(kvh_layout_create(store, NULL, 1, 1, &layout, NULL), no);
	assert_int_equal(kvh_layout_create(store, &one, 0, 1, &layout, NULL), no);
	assert_int_equal(kvh_layout_create(store, &one, 1, 0, &layout, NULL), no);
	assert_int_equal(kvh_layout_create(store, &one, 1, 1, NULL, NULL), no);
	assert_int_equal(kvh_layout_create(store, many, KVH_SEGMENTS_MAX + 1, 1, &layout, NULL),
	                 no);
	assert_int_equal(
		layout_of(scripted, (struct kvh_segment_template){scripted->memory, 64, 0}, 1), no);
	assert_int_equal(
		layout_of(scripted, (struct kvh_segment_template){scripted->memory, 63, 64}, 2),
		no);
	assert_null(layout);
	assert_int_equal(kvh_layout_create(store, many, KVH_SEGMENTS_MAX, 1, &layout, NULL),
	                 KVH_OK);
	assert_int_equal(kvh_layout_value_bytes(layout), (size_t)KVH_SEGMENTS_MAX * 64);
	kvh_layout_destroy(layout);
	kvh_layout_destroy(NULL);
	free(many);
}

/* proves: T21 */
static void a_failed_layout_leaves_nothing_behind(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_segment_template two[] = {{room, 64, 64}, {room + 50000, 64, 64}};
	struct kvh_layout *layout;
	kvh_region_id region;

	assert_int_equal(reg(scripted, 0, 4096, &region), KVH_OK);
	/* The first template binds, the second does not. */
	assert_int_equal(kvh_layout_create(scripted->store, two, 2, 4, &layout, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_unregister(scripted->store, region, 0), KVH_OK);
}

/* proves: T21 */
static void layouts_hold_their_regions_and_the_store(void **state)
{
	struct scripted *scripted = *state;
	const struct kvh_segment_template two[] = {{room, 64, 64}, {room + 1024, 64, 64}};
	const struct kvh_layout_view *view;
	struct kvh_layout *layout, *other;
	kvh_region_id region;

	assert_int_equal(reg(scripted, 0, 4096, &region), KVH_OK);
	assert_int_equal(kvh_layout_create(scripted->store, two, 2, 16, &layout, NULL), KVH_OK);
	assert_int_equal(kvh_layout_create(scripted->store, two, 1, 16, &other, NULL), KVH_OK);
	view = kvh_layout_get_view(layout);
	assert_int_equal(view->template_count, 2);
	assert_int_equal(view->value_bytes, 128);
	assert_int_equal(view->block_count, 16);
	assert_int_equal(view->kind, KVH_MEMORY_HOST);
	assert_ptr_equal(view->templates[1].base, room + 1024);
	assert_int_equal(kvh_store_unregister(scripted->store, region, 0), KVH_BUSY);
	kvh_layout_destroy(layout);
	assert_int_equal(kvh_store_unregister(scripted->store, region, 0), KVH_BUSY);
	assert_int_equal(kvh_store_close(scripted->store, 0), KVH_BUSY);
	kvh_layout_destroy(other);
	assert_int_equal(kvh_store_unregister(scripted->store, region, 0), KVH_OK);
}

/* proves: T4 */
static void no_memory_at_any_place_leaves_the_regions_as_they_were(void **state)
{
	struct scripted *scripted = *state;
	const struct kvh_segment_template one = {room, 64, 64};
	struct kvh_layout *layout = NULL;
	kvh_region_id region;
	uint64_t nth = 1;

	for (;; nth++) {
		kvh_status status;

		assert_true(kvh_fault_arm_nth("base/alloc", nth, KVH_NO_MEMORY));
		status = reg(scripted, 0, 4096, &region);
		kvh_fault_disarm_all();
		if (status == KVH_OK)
			break;
		assert_int_equal(status, KVH_NO_MEMORY);
		assert_int_equal(put_at(scripted, 0, 1), KVH_INVALID_PARAMS);
	}
	assert_true(nth > 2);
	assert_true(kvh_fault_arm_nth("base/alloc", 1, KVH_NO_MEMORY));
	assert_int_equal(kvh_layout_create(scripted->store, &one, 1, 1, &layout, NULL),
	                 KVH_NO_MEMORY);
	kvh_fault_disarm_all();
	assert_true(kvh_fault_arm_nth("base/alloc", 1, KVH_NO_MEMORY));
	assert_int_equal(kvh_store_unregister(scripted->store, region, 0), KVH_NO_MEMORY);
	kvh_fault_disarm_all();
	assert_int_equal(put_at(scripted, 0, 1), KVH_OK);
	assert_int_equal(kvh_store_unregister(scripted->store, region, 0), KVH_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		room_test(ranges_that_are_none_are_refused),
		room_test(overlaps_are_refused_and_neighbours_are_not),
		room_test(many_regions_are_told_apart_in_any_order),
		room_test(the_region_table_has_an_end),
		room_test(what_the_backend_refuses_is_not_registered),
		room_test(the_device_is_asked_when_the_caller_does_not_say),
		room_test(a_list_stays_within_one_kind_of_memory),
		room_test(every_block_of_a_layout_lies_in_its_region),
		room_test(layouts_without_shape_are_refused),
		room_test(a_failed_layout_leaves_nothing_behind),
		room_test(layouts_hold_their_regions_and_the_store),
		room_test(no_memory_at_any_place_leaves_the_regions_as_they_were),
	};

	return cmocka_run_group_tests_name("store_regions", tests, NULL, NULL);
}
