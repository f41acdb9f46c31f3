/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that counts what reaches it and does as it is told: for tests of the front door. */
#ifndef KVH_TESTS_UNIT_STORE_SCRIPTED_H
#define KVH_TESTS_UNIT_STORE_SCRIPTED_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kvhold/kvhold.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { SCRIPTED_MEMORY_BYTES = 1 << 16 };

struct scripted {
	struct kvh_store *store;
	struct kvh_store_caps caps; /* set before scripted_open to claim less */
	uint32_t calls;             /* atomic; of every operation but caps, stats, close */
	uint32_t closed;
	kvh_status answer;    /* of every call */
	size_t evicted_count; /* that take_evicted claims to have written */
	size_t listed_count;  /* that list claims to have written */
	/* What list writes, and what prefix_at tells of id 7; text NULL: nobody interned it. */
	struct kvh_listed listed;
	struct kvh_prefix told;
	bool text_elsewhere; /* then not where prefix_at was told to copy it */
	int64_t value;       /* of every result */
	uint32_t hold;       /* atomic; calls wait while it is set */
	uint32_t inside;     /* atomic; calls that wait */
	uint32_t next_prefix_id;
	bool many_threads; /* then nothing of the last call is kept */
	size_t last_count; /* keys of the last batch */
	struct kvh_call last_call;
	struct kvh_put_options last_put;
	char log[512];
	pthread_mutex_t log_lock;                    /* lines come from any thread */
	unsigned char memory[SCRIPTED_MEMORY_BYTES]; /* registered as region */
	kvh_region_id region;
	uint32_t prefix_id; /* hash_bytes 8, family */
	uint8_t hash[8];
	/* One good batch of one key, for a test to spoil. */
	struct kvh_key key;
	struct kvh_segment segment;
	struct kvh_value value_of_key;
	struct kvh_result result;
	struct kvh_batch batch;
};

/* All caps. */
int scripted_setup(void **state);
int scripted_teardown(void **state);
/* For tests that open by themselves: a zeroed one with all caps, and its ops. */
struct scripted *scripted_new(void);
void scripted_open(struct scripted *scripted);
const struct kvh_store_ops *scripted_ops(void);

#define scripted_test(fn) cmocka_unit_test_setup_teardown(fn, scripted_setup, scripted_teardown)

static inline uint32_t scripted_calls(const struct scripted *scripted)
{
	return __atomic_load_n(&scripted->calls, __ATOMIC_RELAXED);
}

#endif
