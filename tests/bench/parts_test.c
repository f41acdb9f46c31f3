/* SPDX-License-Identifier: Apache-2.0 */
/* The bench's own parts: limits copy right, figures are what their rounds say, wrong answers fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bench.h"

enum { OBJECTS = 6, SEGMENTS = 3, SEGMENT_BYTES_MAX = 9000, SHIFT_BYTES = 16 };

/* Byte of a place, so that no two neighbours and no two objects look alike. */
static unsigned char byte_at(size_t place)
{
	return (unsigned char)(place * 167 + place / 251);
}

static void check_limit(enum kvh_bench_kernel kernel, size_t segment_bytes, size_t shift_bytes)
{
	static const uint32_t order[OBJECTS] = {3, 0, 5, 1, 4, 2};
	size_t object_bytes = SEGMENTS * segment_bytes;
	unsigned char *engine = calloc(1, OBJECTS * object_bytes + shift_bytes);
	unsigned char *extents = calloc(OBJECTS, object_bytes);
	struct kvh_bench_lists lists = {.engine = engine + shift_bytes,
	                                .extents = extents,
	                                .object_count = OBJECTS,
	                                .extent_stride_bytes = object_bytes,
	                                .segment_count = SEGMENTS,
	                                .segment_bytes = segment_bytes,
	                                .order = order};

	assert_non_null(engine);
	assert_non_null(extents);
	for (size_t i = 0; i < OBJECTS * object_bytes; i++)
		lists.engine[i] = byte_at(i);
	kvh_bench_limit_put(kernel, &lists);
	for (size_t i = 0; i < OBJECTS * SEGMENTS; i++) {
		size_t block = order[i / SEGMENTS];
		size_t place = (i % SEGMENTS * OBJECTS + block) * segment_bytes;

		assert_memory_equal(extents + i * segment_bytes, lists.engine + place,
		                    segment_bytes);
	}
	memset(lists.engine, 0, OBJECTS * object_bytes);
	kvh_bench_limit_get(kernel, &lists);
	for (size_t i = 0; i < OBJECTS * object_bytes; i++)
		assert_int_equal(lists.engine[i], byte_at(i));
	/* Each object into the next one's block. */
	lists.order_shift = 1;
	kvh_bench_limit_get(kernel, &lists);
	assert_memory_equal(lists.engine + order[1] * segment_bytes, extents, segment_bytes);
	assert_memory_equal(lists.engine + order[0] * segment_bytes,
	                    extents + (OBJECTS - 1) * object_bytes, segment_bytes);
	free(engine);
	free(extents);
}

static void every_limit_kernel_copies_the_segments(void **state)
{
	static const size_t lengths[] = {64, 1000, 1024, 4096, 4160, SEGMENT_BYTES_MAX};

	(void)state;
	for (int kernel = 0; kernel < KVH_BENCH_KERNELS; kernel++) {
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			check_limit(kernel, lengths[i], 0);
			check_limit(kernel, lengths[i], SHIFT_BYTES);
		}
	}
}

static void figures_are_median_and_extremes_of_their_rounds(void **state)
{
	struct kvh_bench_series series = {0};

	(void)state;
	kvh_bench_add(&series, 4);
	assert_true(kvh_bench_median(&series) == 4);
	kvh_bench_add(&series, 1);
	kvh_bench_add(&series, 3);
	assert_true(kvh_bench_median(&series) == 3);
	kvh_bench_add(&series, 2);
	assert_true(kvh_bench_median(&series) == 2.5);
	assert_true(kvh_bench_min(&series) == 1);
	assert_true(kvh_bench_max(&series) == 4);
}

static bool reported_as_met(struct kvh_bench *bench, double value, double bound, bool is_upper)
{
	struct kvh_bench_series series = {.values = {value}, .count = 1};
	const struct kvh_bench_figure figure = {.name = "figure",
	                                        .unit = "unit",
	                                        .series = &series,
	                                        .target = {"P0", bound, is_upper}};
	const json_t *entry;

	kvh_bench_report(bench, &figure);
	entry = json_array_get(bench->figures, json_array_size(bench->figures) - 1);
	return json_is_true(json_object_get(json_object_get(entry, "target"), "met"));
}

static void a_missed_target_stands_in_the_report(void **state)
{
	struct kvh_bench bench = {.out = stdout, .figures = json_array()};

	(void)state;
	assert_true(reported_as_met(&bench, 0.9, 0.9, false));
	assert_false(reported_as_met(&bench, 0.89, 0.9, false));
	assert_true(reported_as_met(&bench, 0.1, 0.1, true));
	assert_false(reported_as_met(&bench, 0.11, 0.1, true));
	assert_int_equal(bench.target_count, 4);
	assert_int_equal(bench.missed_count, 2);
	json_decref(bench.figures);
}

static void an_unexpected_answer_fails_the_run(void **state)
{
	static const uint32_t order[100];
	struct kvh_bench_objects objects;
	struct kvh_store *store = NULL;

	(void)state;
	assert_int_equal(kvh_store_open("null:?exists=1", NULL, &store, NULL), KVH_OK);
	assert_true(kvh_bench_objects_init(&objects, store, NULL, order, 100));
	assert_true(kvh_bench_objects_run(&objects, KVH_BENCH_EXISTS, 1));
	assert_false(kvh_bench_objects_run(&objects, KVH_BENCH_EXISTS, 0));
	kvh_bench_objects_fini(&objects);
	assert_int_equal(kvh_store_close(store, 0), KVH_OK);
}

static void a_shuffle_is_a_permutation_and_repeats(void **state)
{
	uint32_t first[1000], second[1000];
	bool seen[1000] = {false};

	(void)state;
	kvh_bench_shuffle(first, 1000);
	kvh_bench_shuffle(second, 1000);
	assert_memory_equal(first, second, sizeof(first));
	for (size_t i = 0; i < 1000; i++) {
		assert_true(first[i] < 1000);
		assert_false(seen[first[i]]);
		seen[first[i]] = true;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_limit_kernel_copies_the_segments),
		cmocka_unit_test(figures_are_median_and_extremes_of_their_rounds),
		cmocka_unit_test(a_missed_target_stands_in_the_report),
		cmocka_unit_test(an_unexpected_answer_fails_the_run),
		cmocka_unit_test(a_shuffle_is_a_permutation_and_repeats),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
