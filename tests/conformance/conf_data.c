/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: the bytes that come back are the bytes that went in, and only those. */
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

enum { SEGMENTS_MAX = 64 };

/* Cuts bytes into count uneven pieces with 40 bytes between them. */
static size_t cut(unsigned char *base, size_t bytes, size_t count, struct kvh_segment *segments)
{
	size_t done = 0;
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		size_t left_pieces = count - i;
		size_t part = left_pieces == 1 ? bytes - done
		                               : (bytes - done) / left_pieces - (i % 3 == 1);

		if (part == 0)
			part = 1;
		segments[i] = (struct kvh_segment){.addr = base + at, .bytes = part};
		done += part;
		at += part + 40;
	}
	return at;
}

static void scatter(const struct kvh_segment *segments, size_t count, const unsigned char *from)
{
	for (size_t i = 0; i < count; i++) {
		memcpy(segments[i].addr, from, segments[i].bytes);
		from += segments[i].bytes;
	}
}

static void gather(const struct kvh_segment *segments, size_t count, unsigned char *to)
{
	for (size_t i = 0; i < count; i++) {
		memcpy(to, segments[i].addr, segments[i].bytes);
		to += segments[i].bytes;
	}
}

/* What lies between the pieces. */
static void assert_gaps(const unsigned char *base, size_t span, const struct kvh_segment *segments,
                        size_t count)
{
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		size_t begin = (size_t)((unsigned char *)segments[i].addr - base);

		for (; at < begin; at++)
			assert_int_equal(base[at], 0xee);
		at = begin + segments[i].bytes;
	}
	for (; at < span; at++)
		assert_int_equal(base[at], 0xee);
}

static void round_trip(struct conf *conf, size_t bytes, size_t put_count, size_t get_count)
{
	struct kvh_segment from[SEGMENTS_MAX], to[SEGMENTS_MAX];
	unsigned char *whole = malloc(bytes);
	uint64_t number = bytes * 1000 + put_count * 100 + get_count;
	struct kvh_value value = {.segments = from, .segment_count = put_count};
	struct kvh_result result = {0};
	struct conf_key key;
	const struct kvh_batch batch = {
		.count = 1, .keys = &key.key, .values = &value, .results = &result};
	size_t span;

	assert_non_null(whole);
	conf_key_make(&key, conf->prefix_id, number);
	conf_fill(whole, bytes, number);
	cut(conf->source, bytes, put_count, from);
	scatter(from, put_count, whole);
	assert_int_equal(kvh_store_put(conf->store, &batch, NULL, NULL), KVH_OK);
	assert_int_equal(result.value, 0);

	span = cut(conf->target, bytes, get_count, to);
	memset(conf->target, 0xee, span);
	memset(whole, 0, bytes);
	value = (struct kvh_value){.segments = to, .segment_count = get_count};
	assert_int_equal(kvh_store_get(conf->store, &batch, NULL), KVH_OK);
	assert_int_equal(result.value, bytes);
	gather(to, get_count, whole);
	conf_assert_filled(whole, bytes, number);
	assert_gaps(conf->target, span, to, get_count);
	free(whole);
}

/* proves: S-3, B09 */
static void what_was_put_comes_back_byte_for_byte(void **state)
{
	static const size_t sizes[] = {64, 65, 127, 4095, 4096, 4097, 65536, 100003, 1 << 20};
	static const size_t counts[] = {1, 2, 64};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t j = 0; j < 3; j++)
			round_trip(*state, sizes[i], counts[j], counts[(i + j) % 3]);
	}
}

/* proves: S-3 */
static void objects_of_one_byte_are_kept(void **state)
{
	round_trip(*state, 1, 1, 1);
	round_trip(*state, 2, 2, 1);
	round_trip(*state, 3, 1, 3);
}

#define STRIDE ((size_t)1536)
#define PIECE  ((size_t)1024)
#define BLOCKS ((size_t)16)

static struct kvh_layout *two_piece_layout(struct conf *conf, unsigned char *base)
{
	const struct kvh_segment_template templates[] = {
		{.base = base, .stride_bytes = STRIDE, .bytes = PIECE},
		{.base = base + (1 << 20), .stride_bytes = STRIDE, .bytes = PIECE},
	};
	struct kvh_layout *layout;

	assert_int_equal(kvh_layout_create(conf->store, templates, 2, BLOCKS, &layout, NULL),
	                 KVH_OK);
	assert_int_equal(kvh_layout_value_bytes(layout), 2 * PIECE);
	return layout;
}

static void fill_block(unsigned char *base, size_t block, uint64_t number)
{
	unsigned char whole[2 * PIECE];

	conf_fill(whole, sizeof(whole), number);
	memcpy(base + block * STRIDE, whole, PIECE);
	memcpy(base + (1 << 20) + block * STRIDE, whole + PIECE, PIECE);
}

static void assert_block(const unsigned char *base, size_t block, uint64_t number)
{
	unsigned char whole[2 * PIECE];

	memcpy(whole, base + block * STRIDE, PIECE);
	memcpy(whole + PIECE, base + (1 << 20) + block * STRIDE, PIECE);
	conf_assert_filled(whole, sizeof(whole), number);
}

static void assert_untouched(const unsigned char *base, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++) {
		if (base[i] != 0xee)
			fail_msg("byte %zu beside a block was written", i);
	}
}

/* Blocks 3 and 8 were loaded, all else must be as before, the padding of the two included. */
static void assert_canaries(const unsigned char *base)
{
	for (size_t half = 0; half < 2; half++, base += 1 << 20) {
		assert_untouched(base, 0, 3 * STRIDE);
		assert_untouched(base, 3 * STRIDE + PIECE, 8 * STRIDE);
		assert_untouched(base, 8 * STRIDE + PIECE, BLOCKS * STRIDE);
	}
}

/* proves: B13 */
static void strided_blocks_leave_their_neighbours_alone(void **state)
{
	struct conf *conf = *state;
	struct kvh_layout *from = two_piece_layout(conf, conf->source);
	struct kvh_layout *to = two_piece_layout(conf, conf->target);
	struct conf_key keys[2];
	struct kvh_key batch_keys[2];
	struct kvh_value values[2];
	struct kvh_result results[2];
	const struct kvh_batch batch = {
		.count = 2, .keys = batch_keys, .values = values, .results = results};

	for (size_t i = 0; i < 2; i++) {
		conf_key_make(&keys[i], conf->prefix_id, i);
		batch_keys[i] = keys[i].key;
		fill_block(conf->source, 5 + i, i);
		values[i] = (struct kvh_value){.layout = from, .block_id = 5 + i};
	}
	assert_int_equal(kvh_store_put(conf->store, &batch, NULL, NULL), KVH_OK);
	assert_int_equal(results[0].value, 0);
	assert_int_equal(results[1].value, 0);

	memset(conf->target, 0xee, CONF_MEMORY_BYTES / 2);
	values[0] = (struct kvh_value){.layout = to, .block_id = 8};
	values[1] = (struct kvh_value){.layout = to, .block_id = 3};
	assert_int_equal(kvh_store_get(conf->store, &batch, NULL), KVH_OK);
	assert_int_equal(results[0].value, 2 * PIECE);
	assert_int_equal(results[1].value, 2 * PIECE);
	assert_block(conf->target, 8, 0);
	assert_block(conf->target, 3, 1);
	assert_canaries(conf->target);
	kvh_layout_destroy(from);
	kvh_layout_destroy(to);
}

/* proves: B13 */
static void a_block_and_a_list_are_the_same_bytes(void **state)
{
	struct conf *conf = *state;
	struct kvh_layout *from = two_piece_layout(conf, conf->source);
	struct kvh_value value = {.layout = from, .block_id = BLOCKS - 1};
	struct kvh_result result = {0};
	struct conf_key key;
	const struct kvh_batch batch = {
		.count = 1, .keys = &key.key, .values = &value, .results = &result};

	conf_key_make(&key, conf->prefix_id, 77);
	fill_block(conf->source, BLOCKS - 1, 77);
	assert_int_equal(kvh_store_put(conf->store, &batch, NULL, NULL), KVH_OK);
	assert_int_equal(result.value, 0);
	assert_int_equal(conf_get(conf, &key.key, 2 * PIECE), 2 * PIECE);
	conf_assert_filled(conf->target, 2 * PIECE, 77);
	kvh_layout_destroy(from);
}

/* proves: D-4, B09 */
static void another_length_is_refused_and_nothing_is_read(void **state)
{
	static const size_t wrong[] = {1, 4096, 9999, 10001, 12288, 1 << 20};
	struct conf *conf = *state;
	struct conf_key key;

	conf_key_make(&key, conf->prefix_id, 1);
	assert_int_equal(conf_put(conf, &key.key, 1, 10000, NULL), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(conf_get(conf, &key.key, wrong[i]), KVH_INVALID_PARAMS);
		assert_untouched(conf->target, 0, wrong[i]);
	}
	assert_int_equal(conf_get(conf, &key.key, 10000), 10000);
	conf_assert_filled(conf->target, 10000, 1);
}

/* proves: D-5, D-18 */
static void each_result_stands_at_its_own_key(void **state)
{
	enum { COUNT = 200 };
	struct conf *conf = *state;
	struct conf_key keys[COUNT];
	struct kvh_key batch_keys[COUNT];
	struct kvh_value values[COUNT];
	struct kvh_segment segments[COUNT];
	struct kvh_result results[COUNT];
	struct kvh_batch batch = {
		.count = COUNT, .keys = batch_keys, .values = values, .results = results};

	memset(conf->target, 0xee, CONF_MEMORY_BYTES / 2);
	for (size_t i = 0; i < COUNT; i++) {
		conf_key_make(&keys[i], conf->prefix_id, i);
		batch_keys[i] = keys[i].key;
		segments[i] = (struct kvh_segment){conf->target + i * 1024, 1000};
		values[i] = (struct kvh_value){.segments = &segments[i], .segment_count = 1};
		if (i % 3 != 1)
			assert_int_equal(conf_put(conf, &keys[i].key, i, 1000, NULL), 0);
	}
	assert_int_equal(kvh_store_get(conf->store, &batch, NULL), KVH_OK);
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(results[i].value, i % 3 != 1 ? 1000 : KVH_OBJECT_NOT_FOUND);
		if (i % 3 != 1)
			conf_assert_filled(conf->target + i * 1024, 1000, i);
		else
			assert_untouched(conf->target, i * 1024, i * 1024 + 1000);
	}
	batch.values = NULL;
	assert_int_equal(kvh_store_exists(conf->store, &batch, 0, NULL), KVH_OK);
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(results[i].value, i % 3 != 1);
}

/* proves: D-23, S-22 */
static void results_are_quiet_when_nothing_moves_any_more(void **state)
{
	struct conf *conf = *state;
	const struct kvh_segment segment = {conf->source, 5000};
	const struct kvh_value value = {.segments = &segment, .segment_count = 1};
	struct kvh_result result = {0};
	struct conf_key key;
	const struct kvh_batch batch = {
		.count = 1, .keys = &key.key, .values = &value, .results = &result};

	conf_key_make(&key, conf->prefix_id, 1);
	/* Results that are good are final everywhere; failed ones need quiesce at most. */
	assert_int_equal(kvh_store_put(conf->store, &batch, NULL, NULL), KVH_OK);
	assert_int_equal(result.value, 0);
	assert_int_equal(result.flags & KVH_RESULT_QUIET, KVH_RESULT_QUIET);
	assert_int_equal(kvh_store_get(conf->store, &batch, NULL), KVH_OK);
	assert_int_equal(result.value, 5000);
	assert_int_equal(result.flags & KVH_RESULT_QUIET, KVH_RESULT_QUIET);
	assert_int_equal(kvh_store_quiesce(conf->store, 0), KVH_OK);
}

static const struct CMUnitTest tests[] = {
	conf_test(what_was_put_comes_back_byte_for_byte),
	conf_test(objects_of_one_byte_are_kept),
	conf_test(strided_blocks_leave_their_neighbours_alone),
	conf_test(a_block_and_a_list_are_the_same_bytes),
	conf_test(another_length_is_refused_and_nothing_is_read),
	conf_test(each_result_stands_at_its_own_key),
	conf_test(results_are_quiet_when_nothing_moves_any_more),
};

CONF_GROUP(conf_data_group, tests);
