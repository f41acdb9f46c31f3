/* SPDX-License-Identifier: Apache-2.0 */
/* A core on plain memory, with a lock that counts and a time that tests say. */
#ifndef KVH_TESTS_UNIT_POOL_CORE_FIXTURE_H
#define KVH_TESTS_UNIT_POOL_CORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/core/core.h"
#include "pool/core/prefixes.h"
#include "pool/core/sessions.h"
#include "pool/core/spans.h"
#include "pool/core/victims.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define UNIT_NS         KVH_TIME_UNIT_NS

/* SplitMix64: the same numbers on every machine for a seed. */
static inline uint64_t draw(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

struct core_fixture {
	struct kvh_core core;
	void *memory;
	uint64_t memory_bytes;
	bool locked;
	uint64_t lock_count;
	uint64_t now_ns;
};

static inline bool fixture_take(void *ctx, kvh_deadline deadline_ns)
{
	struct core_fixture *fixture = ctx;

	(void)deadline_ns;
	assert_false(fixture->locked);
	fixture->locked = true;
	fixture->lock_count++;
	return true;
}

static inline void fixture_give(void *ctx)
{
	struct core_fixture *fixture = ctx;

	assert_true(fixture->locked);
	fixture->locked = false;
}

/* Everything but payload and what is never read before it is written. */
static inline void fixture_wipe(struct core_fixture *fixture, const struct kvh_geometry *geometry)
{
	unsigned char *base = fixture->memory;
	struct kvh_area_fixed *fixed = fixture->memory;

	memset(fixed->super_bytes, 0, sizeof(fixed->super_bytes));
	memset(fixed->prefixes, 0, 32 * sizeof(fixed->prefixes[0]));
	memset(fixed->sessions, 0, 8 * sizeof(fixed->sessions[0]));
	memset(&fixed->victims, 0, sizeof(fixed->victims));
	memset(&fixed->tally, 0, sizeof(fixed->tally));
	memset(base + sizeof(*fixed), 0, geometry->payload_offset_bytes - sizeof(*fixed));
}

static inline uint64_t fixture_unit(const struct core_fixture *fixture)
{
	return kvh_time_unit(fixture->now_ns);
}

/* KVH_NONE: none is free. */
static inline uint32_t fixture_session(struct core_fixture *fixture)
{
	const struct kvh_session_owner nobody = {0};
	uint32_t session;

	if (!kvh_core_take(&fixture->core, 0))
		return KVH_NONE;
	session = kvh_session_begin(&fixture->core.area, kvh_session_draw(&fixture->core.area),
	                            &nobody);
	kvh_core_give(&fixture->core);
	return session;
}

static inline void fixture_dies(struct core_fixture *fixture, uint32_t session)
{
	uint64_t serial = kvh_session_serial(&fixture->core.area, session);

	if (!kvh_core_take(&fixture->core, 0))
		fail();
	else {
		kvh_core_session_dies(&fixture->core, session, serial, fixture->now_ns);
		kvh_core_give(&fixture->core);
	}
}

static inline enum kvh_reap_step fixture_reap(struct core_fixture *fixture, uint32_t session,
                                              uint64_t now_ns)
{
	return kvh_core_reap(&fixture->core, session,
	                     kvh_session_serial(&fixture->core.area, session), now_ns, 0);
}

static inline void fixture_rebuild(struct core_fixture *fixture)
{
	if (!kvh_core_take(&fixture->core, 0))
		fail();
	else {
		kvh_core_rebuild(&fixture->core, fixture->now_ns);
		kvh_core_give(&fixture->core);
	}
}

/* An empty pool of so many units; memory is kept from one begin to the next. */
static inline void fixture_begin(struct core_fixture *fixture, uint32_t units)
{
	struct kvh_core_lock lock = {.take = fixture_take, .give = fixture_give, .ctx = fixture};
	const uint64_t no_boot[2] = {0};
	struct kvh_geometry geometry;

	assert_int_equal(kvh_geometry_make((uint64_t)units * KVH_UNIT_BYTES, false, &geometry),
	                 KVH_OK);
	if (geometry.area_bytes > fixture->memory_bytes) {
		free(fixture->memory);
		fixture->memory_bytes = geometry.area_bytes;
		fixture->memory = aligned_alloc(KVH_UNIT_BYTES, geometry.area_bytes);
		assert_non_null(fixture->memory);
		memset(fixture->memory, 0, geometry.area_bytes);
	}
	fixture_wipe(fixture, &geometry);
	kvh_area_format(fixture->memory, &geometry, 0x5eed, no_boot);
	assert_int_equal(kvh_core_open(&fixture->core, fixture->memory, &lock), KVH_OK);
	fixture->now_ns = 1000 * UNIT_NS;
	atomic_store(&fixture->core.area.super->time_base, fixture_unit(fixture));
	fixture_rebuild(fixture);
	fixture->core.session = fixture_session(fixture);
	assert_int_not_equal(fixture->core.session, KVH_NONE);
}

static inline void fixture_end(struct core_fixture *fixture)
{
	kvh_core_close(&fixture->core);
}

static inline void fixture_free(struct core_fixture *fixture)
{
	free(fixture->memory);
	fixture->memory = NULL;
	fixture->memory_bytes = 0;
}

static inline uint32_t fixture_prefix(struct core_fixture *fixture, const char *text,
                                      size_t family_bytes, uint64_t quota_bytes,
                                      uint32_t hash_bytes)
{
	struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
	                            .text = text,
	                            .text_bytes = strlen(text),
	                            .family_bytes = family_bytes,
	                            .hash_bytes = hash_bytes,
	                            .quota_bytes = quota_bytes};
	uint32_t id;

	assert_int_equal(kvh_core_prefix(&fixture->core, &prefix, 0, &id, NULL), KVH_OK);
	return id;
}

/* A key of 32 bytes; hash is kept by the caller as long as the key is used. */
static inline struct kvh_stored_key fixture_key(struct core_fixture *fixture, uint32_t prefix_id,
                                                uint64_t number)
{
	uint8_t hash[32];
	struct kvh_key key = {.hash = hash, .hash_bytes = sizeof(hash), .prefix_id = prefix_id};
	struct kvh_stored_key stored;

	for (size_t i = 0; i < sizeof(hash); i += 8) {
		uint64_t word = draw(&number);

		memcpy(hash + i, &word, sizeof(word));
	}
	kvh_core_prepare(&fixture->core, &key, 1, &stored);
	return stored;
}

/* Runs a reserve to its end. */
static inline void fixture_reserve(struct core_fixture *fixture, struct kvh_reserve *reserve)
{
	enum kvh_reserve_step step;

	for (unsigned turns = 0; turns < 100000; turns++) {
		step = kvh_core_reserve(&fixture->core, reserve, fixture->now_ns, 0);
		if (step == KVH_RESERVE_DONE)
			return;
		assert_int_equal(step, KVH_RESERVE_AGAIN);
	}
	fail_msg("a reserve that doesn't end");
}

static inline struct kvh_reserve_key fixture_reserve_one(struct core_fixture *fixture,
                                                         const struct kvh_stored_key *key,
                                                         uint64_t bytes, uint32_t flags)
{
	struct kvh_reserve_key one = {.key = key, .length_bytes = bytes};
	struct kvh_reserve reserve = {.keys = &one, .count = 1, .flags = flags};

	fixture_reserve(fixture, &reserve);
	return one;
}

static inline kvh_status fixture_commit(struct core_fixture *fixture, struct kvh_core_ref ref)
{
	kvh_status status;

	kvh_core_commit(&fixture->core, &ref, 1, fixture_unit(fixture), &status);
	return status;
}

static inline kvh_status fixture_abort(struct core_fixture *fixture, struct kvh_core_ref ref)
{
	kvh_status status;

	assert_true(kvh_core_abort(&fixture->core, &ref, 1, 0, &status));
	return status;
}

/* Reserve and commit. */
static inline kvh_status fixture_put(struct core_fixture *fixture, uint32_t prefix_id,
                                     uint64_t number, uint64_t bytes)
{
	struct kvh_stored_key key = fixture_key(fixture, prefix_id, number);
	struct kvh_reserve_key one = fixture_reserve_one(fixture, &key, bytes, 0);

	return one.status ? one.status : fixture_commit(fixture, one.ref);
}

static inline struct kvh_core_ref fixture_find(struct core_fixture *fixture, uint32_t prefix_id,
                                               uint64_t number)
{
	struct kvh_stored_key key = fixture_key(fixture, prefix_id, number);

	return kvh_core_find(&fixture->core, &key, 0, fixture_unit(fixture));
}

static inline kvh_status fixture_remove(struct core_fixture *fixture, uint32_t prefix_id,
                                        uint64_t number)
{
	struct kvh_stored_key key = fixture_key(fixture, prefix_id, number);
	kvh_status status;

	assert_true(kvh_core_remove(&fixture->core, &key, 1, fixture_unit(fixture), 0, &status));
	return status;
}

static inline uint64_t fixture_used_units(const struct core_fixture *fixture)
{
	return atomic_load(&fixture->core.area.fixed->tally.used_units);
}

#endif
