/* SPDX-License-Identifier: Apache-2.0 */
/* The memory fabric against memcpy over the same segments: layouts, lists, bounded steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <kvhold/kvhold.h>

#include "pool/fabric/memory.h"

enum {
	SEGMENTS_MAX = 9,
	SEGMENT_BYTES_MAX = 20000,
	CANARY_BYTES = 64,
	EXTENT_BYTES = SEGMENTS_MAX * SEGMENT_BYTES_MAX + 2 * CANARY_BYTES,
	ENGINE_BYTES = SEGMENTS_MAX * (SEGMENT_BYTES_MAX + 2 * CANARY_BYTES),
	CASES = 3000,
	BLOCKS = 7
};

/* A value as an explicit list, and the same bytes as they must lie in an extent. */
struct subject {
	struct kvh_segment segments[SEGMENTS_MAX];
	struct kvh_value value;
	size_t bytes;
	unsigned char *engine;   /* ENGINE_BYTES; canaries between the segments */
	unsigned char *extent;   /* EXTENT_BYTES; canaries before and behind the payload */
	unsigned char *expected; /* EXTENT_BYTES */
	uint64_t random_state;
};

static uint64_t next_random(struct subject *subject)
{
	subject->random_state ^= subject->random_state << 13;
	subject->random_state ^= subject->random_state >> 7;
	subject->random_state ^= subject->random_state << 17;
	return subject->random_state;
}

static unsigned char *must_alloc(size_t bytes)
{
	unsigned char *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	assert_non_null(memory);
	return memory;
}

static int subject_setup(void **state)
{
	struct subject *subject = calloc(1, sizeof(*subject));

	assert_non_null(subject);
	subject->engine = must_alloc(ENGINE_BYTES);
	subject->extent = must_alloc(EXTENT_BYTES);
	subject->expected = must_alloc(EXTENT_BYTES);
	subject->random_state = UINT64_C(0x9e3779b97f4a7c15);
	*state = subject;
	return 0;
}

static int subject_teardown(void **state)
{
	struct subject *subject = *state;

	free(subject->engine);
	free(subject->extent);
	free(subject->expected);
	free(subject);
	return 0;
}

static void fill_random(struct subject *subject, unsigned char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (unsigned char)(next_random(subject) >> 32);
}

/* Lengths below, around and above the streaming limit, at any alignment. */
static size_t random_length(struct subject *subject)
{
	static const size_t limits[] = {64, 1024 + 64, 4200, SEGMENT_BYTES_MAX};

	return 1 + next_random(subject) % limits[next_random(subject) % 4];
}

static void random_segments(struct subject *subject)
{
	size_t at_bytes = CANARY_BYTES;

	subject->value = (struct kvh_value){.segments = subject->segments};
	subject->value.segment_count = 1 + next_random(subject) % SEGMENTS_MAX;
	subject->bytes = 0;
	for (size_t i = 0; i < subject->value.segment_count; i++) {
		size_t bytes = random_length(subject);

		at_bytes += next_random(subject) % 64;
		subject->segments[i] = (struct kvh_segment){subject->engine + at_bytes, bytes};
		at_bytes += bytes + CANARY_BYTES;
		subject->bytes += bytes;
	}
	assert_true(at_bytes <= ENGINE_BYTES);
}

/* The payload starts behind a canary: the fabric works at any alignment of an extent. */
static unsigned char *payload_of(unsigned char *extent)
{
	return extent + CANARY_BYTES;
}

static void gather(const struct subject *subject, unsigned char *to)
{
	for (size_t i = 0; i < subject->value.segment_count; i++) {
		memcpy(to, subject->segments[i].addr, subject->segments[i].bytes);
		to += subject->segments[i].bytes;
	}
}

static void scatter(const struct subject *subject, unsigned char *engine, const unsigned char *from)
{
	for (size_t i = 0; i < subject->value.segment_count; i++) {
		const unsigned char *addr = subject->segments[i].addr;

		memcpy(engine + (addr - subject->engine), from, subject->segments[i].bytes);
		from += subject->segments[i].bytes;
	}
}

/* Moves the whole subject in steps; the next piece is itself. */
static void move_in_steps(struct subject *subject, enum kvh_copy_kernel kernel,
                          enum kvh_fabric_direction direction)
{
	const struct kvh_piece piece = {payload_of(subject->extent), &subject->value};
	struct kvh_piece_cursor cursor = {0};
	bool is_whole = next_random(subject) % 2;
	bool is_done = false;

	while (!is_done) {
		size_t bytes_max = is_whole ? SIZE_MAX : 1 + next_random(subject) % 9000;
		size_t before_bytes = cursor.extent_done_bytes;

		is_done = kvh_fabric_memory_move(kernel, direction, &piece, &cursor, bytes_max,
		                                 next_random(subject) % 2 ? &piece : NULL);
		assert_true(cursor.extent_done_bytes - before_bytes <= bytes_max);
		assert_true(is_done || cursor.extent_done_bytes - before_bytes == bytes_max);
	}
	assert_int_equal(cursor.extent_done_bytes, subject->bytes);
	kvh_fabric_memory_fence();
}

static void check_put(struct subject *subject, enum kvh_copy_kernel kernel)
{
	random_segments(subject);
	fill_random(subject, subject->extent, subject->bytes + 2 * CANARY_BYTES);
	memcpy(subject->expected, subject->extent, subject->bytes + 2 * CANARY_BYTES);
	gather(subject, payload_of(subject->expected));
	move_in_steps(subject, kernel, KVH_FABRIC_PUT);
	assert_memory_equal(subject->extent, subject->expected, subject->bytes + 2 * CANARY_BYTES);
}

static void check_get(struct subject *subject, enum kvh_copy_kernel kernel)
{
	unsigned char *expected_engine = must_alloc(ENGINE_BYTES);

	random_segments(subject);
	fill_random(subject, payload_of(subject->extent), subject->bytes);
	memcpy(expected_engine, subject->engine, ENGINE_BYTES);
	scatter(subject, expected_engine, payload_of(subject->extent));
	move_in_steps(subject, kernel, KVH_FABRIC_GET);
	assert_memory_equal(subject->engine, expected_engine, ENGINE_BYTES);
	free(expected_engine);
}

static enum kvh_copy_kernel random_kernel(struct subject *subject)
{
	enum kvh_copy_kernel kernel = (enum kvh_copy_kernel)(next_random(subject) % 3);

	return kvh_copy_kernel_runs(kernel) ? kernel : KVH_COPY_PORTABLE;
}

static void put_gathers_the_segments_and_touches_nothing_else(void **state)
{
	struct subject *subject = *state;

	fill_random(subject, subject->engine, ENGINE_BYTES);
	for (int i = 0; i < CASES; i++)
		check_put(subject, random_kernel(subject));
}

static void get_scatters_to_the_segments_and_touches_nothing_else(void **state)
{
	struct subject *subject = *state;

	fill_random(subject, subject->engine, ENGINE_BYTES);
	for (int i = 0; i < CASES / 4; i++)
		check_get(subject, random_kernel(subject));
}

/* The same templates as a layout of a store; each block's segments as a list. */
static void a_layout_moves_the_same_bytes_as_its_segment_list(void **state)
{
	static const size_t lengths[] = {100, 1024, 5000, 64, 12345};
	struct subject *subject = *state;
	struct kvh_segment_template templates[5];
	struct kvh_store *store = NULL;
	struct kvh_layout *layout = NULL;
	kvh_region_id region;
	unsigned char *base = subject->engine;

	fill_random(subject, subject->engine, ENGINE_BYTES);
	assert_int_equal(kvh_store_open("null:", NULL, &store, NULL), KVH_OK);
	assert_int_equal(kvh_store_register(store, subject->engine, ENGINE_BYTES, KVH_MEMORY_HOST,
	                                    &region, NULL),
	                 KVH_OK);
	subject->value = (struct kvh_value){.segments = subject->segments, .segment_count = 5};
	for (size_t i = 0; i < 5; i++) {
		templates[i] = (struct kvh_segment_template){base, lengths[i] + i, lengths[i]};
		base += BLOCKS * templates[i].stride_bytes;
	}
	assert_true(base <= subject->engine + ENGINE_BYTES);
	assert_int_equal(kvh_layout_create(store, templates, 5, BLOCKS, &layout, NULL), KVH_OK);
	for (size_t block = 0; block < BLOCKS; block++) {
		const struct kvh_value value = {.layout = layout, .block_id = block};
		const struct kvh_piece piece = {subject->extent, &value};

		for (size_t i = 0; i < 5; i++)
			subject->segments[i] =
				(struct kvh_segment){(unsigned char *)templates[i].base +
			                                     block * templates[i].stride_bytes,
			                             lengths[i]};
		gather(subject, subject->expected);
		kvh_fabric_memory_put(&piece, NULL);
		kvh_fabric_memory_fence();
		assert_memory_equal(subject->extent, subject->expected,
		                    kvh_layout_value_bytes(layout));
		for (size_t i = 0; i < 5; i++)
			memset(subject->segments[i].addr, 0, lengths[i]);
		kvh_fabric_memory_get(&piece, &piece);
		kvh_fabric_memory_fence();
		gather(subject, subject->extent);
		assert_memory_equal(subject->extent, subject->expected,
		                    kvh_layout_value_bytes(layout));
	}
	kvh_layout_destroy(layout);
	assert_int_equal(kvh_store_close(store, 0), KVH_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(put_gathers_the_segments_and_touches_nothing_else,
	                                        subject_setup, subject_teardown),
		cmocka_unit_test_setup_teardown(
			get_scatters_to_the_segments_and_touches_nothing_else, subject_setup,
			subject_teardown),
		cmocka_unit_test_setup_teardown(a_layout_moves_the_same_bytes_as_its_segment_list,
	                                        subject_setup, subject_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
