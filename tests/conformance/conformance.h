/* SPDX-License-Identifier: Apache-2.0 */
/* What every store that claims to hold data must pass, whatever its backend. */
#ifndef KVH_TESTS_CONFORMANCE_H
#define KVH_TESTS_CONFORMANCE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kvhold/kvhold.h>

/* ---- for who runs it ---------------------------------------------------------------------- */

struct conf_subject {
	const char *name;
	/* Opens an empty store whose objects may take about capacity_bytes. */
	kvh_status (*open)(uint64_t capacity_bytes, const struct kvh_store_options *options,
	                   struct kvh_store **store, struct kvh_error *error);
};

/* argv: [--test NAME-PATTERN]. The number of tests that failed. */
int conf_main(const struct conf_subject *of, int argc, char **argv);

/* ---- for the tests ------------------------------------------------------------------------ */

enum {
	CONF_CAPACITY_BYTES = 16 << 20,
	CONF_OBJECT_BYTES = 64 << 10, /* of the objects that fill a store */
	CONF_MEMORY_BYTES = 8 << 20,  /* registered; the lower half is written from */
	CONF_HASH_BYTES = 32
};

/* A posix environment whose clock a test can set forward. */
struct conf_clock {
	struct kvh_env env;
	uint64_t ahead_ns; /* atomic */
};
void conf_clock_forward(struct conf_clock *clock, uint64_t seconds);

struct conf {
	struct kvh_store *store;
	struct kvh_store_caps caps;
	struct conf_clock clock;
	unsigned char *source; /* CONF_MEMORY_BYTES / 2, registered */
	unsigned char *target; /* as many */
	kvh_region_id region;
	uint32_t prefix_id; /* of hashes of any length, with the family "conf@" */
};

int conf_setup(void **state);
int conf_teardown(void **state);

#define conf_test(fn) cmocka_unit_test_setup_teardown(fn, conf_setup, conf_teardown)

/* Interns text ending in its own separator; identity may be NULL. */
uint32_t conf_prefix(struct conf *conf, const char *text, const char *identity);

/* Key number n: 32 bytes that depend on n only. */
struct conf_key {
	uint8_t hash[CONF_HASH_BYTES];
	struct kvh_key key;
};
void conf_key_make(struct conf_key *key, uint32_t prefix_id, uint64_t number);

/* The bytes that belong to key number n, and whether they are there. */
void conf_fill(void *to, size_t bytes, uint64_t number);
void conf_assert_filled(const void *at, size_t bytes, uint64_t number);
bool conf_is_filled(const void *at, size_t bytes, uint64_t number);

/* One key. Each asserts that the call as a whole succeeded and returns the key's result. */
int64_t conf_exists(struct conf *conf, const struct kvh_key *key, uint32_t flags);
/* The bytes of number, one segment, from source. */
int64_t conf_put(struct conf *conf, const struct kvh_key *key, uint64_t number, size_t bytes,
                 const struct kvh_put_options *options);
/* Into target, which is filled with 0xee before. */
int64_t conf_get(struct conf *conf, const struct kvh_key *key, size_t bytes);
int64_t conf_remove(struct conf *conf, const struct kvh_key *key);

/* By number, CONF_OBJECT_BYTES each, keys of prefix_id. */
int64_t conf_put_number(struct conf *conf, uint32_t prefix_id, uint64_t number,
                        const struct kvh_put_options *options);
bool conf_has_number(struct conf *conf, uint32_t prefix_id, uint64_t number);
/* 0 or 1 for has, summed over [first, first + count). */
size_t conf_count_numbers(struct conf *conf, uint32_t prefix_id, uint64_t first, size_t count);
void conf_get_number(struct conf *conf, uint32_t prefix_id, uint64_t number);
/* Puts numbers from first on until number first is gone; how many there were then beside the last.
 */
size_t conf_fill_up(struct conf *conf, uint32_t prefix_id, uint64_t first);
struct kvh_store_stats conf_stats(struct conf *conf);

/* The groups of tests. */
struct conf_group {
	const struct CMUnitTest *tests;
	size_t count;
};
extern const struct conf_group conf_data_group;
extern const struct conf_group conf_keys_group;
extern const struct conf_group conf_space_group;
extern const struct conf_group conf_order_group;
extern const struct conf_group conf_hold_group;
extern const struct conf_group conf_threads_group;
extern const struct conf_group conf_handle_group;
extern const struct conf_group conf_list_group;

#define CONF_GROUP(name, tests_array)                                                              \
	const struct conf_group name = {tests_array, sizeof(tests_array) / sizeof((tests_array)[0])}

#endif
