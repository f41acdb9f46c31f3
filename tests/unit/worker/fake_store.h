/* SPDX-License-Identifier: Apache-2.0 */
/* A store that keeps real bytes, answers as it is told, and writes down what it was asked. */
#ifndef KVH_TESTS_UNIT_WORKER_FAKE_STORE_H
#define KVH_TESTS_UNIT_WORKER_FAKE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/store_ops.h>

enum {
	FAKE_PREFIXES_MAX = 512,
	FAKE_OBJECTS_MAX = 2048,
	FAKE_ANSWERS_MAX = 32,
	FAKE_VALUES_MAX = 64,
	FAKE_LOG_BYTES = 1 << 16
};

enum fake_fn { FAKE_EXISTS, FAKE_PUT, FAKE_GET, FAKE_TIERS, FAKE_FN_COUNT };

/* Values of an answer that are no results. */
#define FAKE_DO_IT  INT64_MAX       /* answer this key by the objects there are */
#define FAKE_SILENT (INT64_MAX - 1) /* leave the slot as it is */

/* The answer to one call of one function; keys beyond count are answered by the objects. */
struct fake_answer {
	kvh_status status; /* of the call */
	size_t count;
	int64_t values[FAKE_VALUES_MAX];
	uint64_t unquiet; /* bit i: key i may still move */
};

struct fake_prefix {
	char text[KVH_PREFIX_TEXT_BYTES_MAX + 1];
	char identity[64];
	size_t identity_bytes;
	size_t family_bytes;
};

struct fake_object {
	uint32_t prefix_id;
	uint32_t hash_bytes;
	uint8_t hash[32];
	uint8_t *bytes;
	size_t byte_count;
};

struct fake_store {
	struct kvh_store_caps caps;
	struct fake_prefix prefixes[FAKE_PREFIXES_MAX];
	size_t prefix_count;
	struct fake_object objects[FAKE_OBJECTS_MAX];
	size_t object_count;
	struct fake_answer answers[FAKE_FN_COUNT][FAKE_ANSWERS_MAX];
	size_t answer_count[FAKE_FN_COUNT];
	size_t answer_next[FAKE_FN_COUNT];
	enum kvh_tier tier; /* of every object */
	/* Called at the start of every call, before bytes are touched. NULL: nothing. */
	void (*hook)(void *user, enum fake_fn fn);
	/* Called at its end, when its bytes have been copied. */
	void (*after)(void *user, enum fake_fn fn);
	void *hook_user;
	kvh_status quiesce_status;
	kvh_status unregister_status;
	kvh_status register_status; /* of the call number register_fails_at, counted from 1 */
	size_t register_fails_at;
	size_t registered_count;
	size_t register_calls;
	uint32_t last_put_flags;
	uint32_t last_exists_flags;
	kvh_deadline last_get_deadline_ns;
	const struct kvh_evicted_key *evicted; /* what take_evicted has left to give */
	size_t evicted_count;
	bool evicted_lost;
	bool closed;
	char log[FAKE_LOG_BYTES];
	size_t log_bytes;
};

void fake_init(struct fake_store *fake);
void fake_fini(struct fake_store *fake);
const struct kvh_store_ops *fake_ops(void);

/* Adds an answer to the queue of fn. */
void fake_answer_values(struct fake_store *fake, enum fake_fn fn, const int64_t *values,
                        size_t count);
#define FAKE_ANSWER(fake, fn, ...)                                                                 \
	fake_answer_values((fake), (fn), (const int64_t[]){__VA_ARGS__},                           \
	                   sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
/* Bits of the keys that may still move after the last answer that was added. */
void fake_answer_unquiet(struct fake_store *fake, enum fake_fn fn, uint64_t keys);
/* The call of the last answer that was added fails, with its values in the slots all the same. */
void fake_answer_fails(struct fake_store *fake, enum fake_fn fn, kvh_status status);
/* The next call of fn fails as a whole. */
void fake_answer_status(struct fake_store *fake, enum fake_fn fn, kvh_status status);

void fake_log(struct fake_store *fake, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * The calls since the last time, one a line: "exists 0 1 2\nput 1 2\n". A key is shown by its hash
 * number; with g<group> and t<tp_rank> before it where they are not 0. Valid until the next one.
 */
const char *fake_take_log(struct fake_store *fake);

/* NULL: no such object. */
struct fake_object *fake_find(struct fake_store *fake, uint32_t prefix_id, const uint8_t *hash,
                              uint32_t hash_bytes);
void fake_store_bytes(struct fake_store *fake, uint32_t prefix_id, const uint8_t *hash,
                      uint32_t hash_bytes, const void *bytes, size_t byte_count);
void fake_remove(struct fake_store *fake, struct fake_object *object);
/* The id of a prefix text; -1: not interned. identity NULL: any. */
int fake_prefix_id(const struct fake_store *fake, const char *text, const char *identity);

/* Hash number i of chain c, as the rig makes them; and the number back. */
void fake_hash(unsigned chain, unsigned index, uint8_t *hash, uint32_t hash_bytes);
unsigned fake_hash_index(const uint8_t *hash);

#endif
