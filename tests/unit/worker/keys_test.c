/* SPDX-License-Identifier: Apache-2.0 */
/* Whose keys a worker uses, what lies under them, and what another identity sees. */
#include "rig.h"

/* proves: R-1, R-3 */
static void keys_name_model_ranks_group_and_hash(void **state)
{
	static const char prefix[] = "pre@m@tp_rank:2@pcp1@dcp0@pp_rank:1@group:0@";
	uint8_t hash[KVH_HASH_BYTES_MAX];
	struct kvh_key key = {.hash = hash, .hash_bytes = sizeof(hash)};
	char text[256];
	size_t bytes;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.cache_prefix = "pre";
	rig.config.tp_size = 4;
	rig.config.tp_rank = 2;
	rig.config.pcp_size = 2;
	rig.config.pcp_rank = 1;
	rig.config.pp_size = 2;
	rig.config.pp_rank = 1;
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 16);
	assert_int_equal(rig.world->fake.object_count, 1);
	key.prefix_id = rig.world->fake.objects[0].prefix_id;
	assert_string_equal(rig.world->fake.prefixes[key.prefix_id].text, prefix);
	assert_int_equal(rig.world->fake.prefixes[key.prefix_id].family_bytes, strlen("pre@m"));
	memset(hash, 0xAB, sizeof(hash));
	assert_int_equal(kvh_store_key_text(rig.world->store, &key, text, sizeof(text), &bytes),
	                 KVH_OK);
	assert_memory_equal(text, prefix, strlen(prefix));
	for (size_t i = 0; i < sizeof(hash); i++)
		assert_memory_equal(text + strlen(prefix) + 2 * i, "ab", 2);
	assert_int_equal(text[strlen(prefix) + 2 * sizeof(hash)], 0);
	rig_close(&rig);
}

/* proves: R-2 */
static void ranks_that_hold_the_same_bytes_share_a_key(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.tp_size = 8;
	rig.config.tp_rank = 5;
	rig.groups[0].kv_heads = 2; /* factor 4 */
	rig_add_group(&rig, KVH_ATTENTION_FULL, 16, 0);
	rig.groups[1].mla = true; /* factor 8 */
	rig_add_group(&rig, KVH_ATTENTION_SLIDING_WINDOW, 16, 1024);
	rig.groups[2].kv_heads = 16; /* factor 1 */
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 112);
	/* Chunks 1 and 5 of the first, 6 of the second (R-15), all of the third. */
	assert_string_equal(rig_calls(&rig),
	                    "exists t1:1 t1:5 g1:6 t5g2:0 t5g2:1 t5g2:2 t5g2:3 t5g2:4 t5g2:5 "
	                    "t5g2:6\nput t1:1 t1:5 g1:6 t5g2:0 t5g2:1 t5g2:2 t5g2:3 t5g2:4 t5g2:5 "
	                    "t5g2:6\n");
	/* A load has them all. */
	rig_load_and_run(&rig, 2, "s", 16, 0);
	assert_string_equal(rig_calls(&rig), "get t5g2:0 t1:0 g1:0\n");
	rig_close(&rig);
}

/* proves: R-2 */
static void states_and_context_parallel_ranks_have_keys_of_their_own(void **state)
{
	const struct kvh_boundary put = {.group = 1, .block_id = 7, .tokens = 16};
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.tp_size = 4;
	rig.config.tp_rank = 3;
	rig.config.dcp_size = 2;
	rig.config.dcp_rank = 1;
	rig.groups[0].mla = true;
	rig_add_group(&rig, KVH_ATTENTION_MAMBA, 16, 0);
	rig.groups[1].kv_heads = 1;
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "r", 16);
	job.boundary_puts = &put;
	job.boundary_put_count = 1;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists t3g1:0\nput t3g1:0\nexists t3:0\nput t3:0\n");
	assert_true(fake_prefix_id(&rig.world->fake, "m@tp_rank:3@pcp0@dcp1@pp_rank:0@group:0@",
	                           NULL) >= 0);
	rig_close(&rig);
}

/* proves: R-3 */
static void lifecycle_groups_are_asked_for_only_where_the_store_has_them(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		bool wanted = i & 1, possible = i & 2;
		struct rig rig;

		struct world *world =
			world_open_with(&(struct kvh_store_caps){.lifecycle = possible});

		rig_init_in(&rig, world);
		rig.owns_world = true;
		rig.config.lifecycle_groups = wanted;
		rig_open(&rig);
		rig_save_and_run(&rig, 1, "r", 16);
		assert_string_equal(rig_done(&rig), "saved 1 0\n");
		assert_int_equal(rig.world->fake.last_put_flags,
		                 wanted && possible ? KVH_PUT_LIFECYCLE_GROUP : 0);
		rig_close(&rig);
	}
}

enum { HEADS = 4, TOKENS = 16, HEAD_BYTES = 16, CHUNKS = 3 };

/* The byte of a model's cache at a place that does not depend on how ranks cut it. */
static uint8_t cache_byte(unsigned saver, unsigned region, unsigned chunk, unsigned head,
                          unsigned token, unsigned i)
{
	uint32_t place =
		((((saver * 2 + region) * CHUNKS + chunk) * HEADS + head) * TOKENS + token) *
			HEAD_BYTES +
		i;

	return (uint8_t)(place * 2654435761u >> 13);
}

/* Where that byte lies in a rank's block. */
static size_t place_in_block(bool head_major, unsigned heads, unsigned head, unsigned token,
                             unsigned i)
{
	return ((head_major ? head * TOKENS + token : token * heads + head)) * (size_t)HEAD_BYTES +
	       i;
}

/* Writes all blocks of a rank, or counts the bytes that are wrong. */
static size_t walk_blocks(struct rig *rig, bool head_major, unsigned saver, bool write)
{
	unsigned heads = HEADS / rig->config.tp_size;
	size_t wrong = 0;

	for (unsigned region = 0; region < 2; region++)
		for (unsigned chunk = 0; chunk < CHUNKS; chunk++)
			for (unsigned place = 0; place < heads * TOKENS * HEAD_BYTES; place++) {
				unsigned head = place / (TOKENS * HEAD_BYTES);
				unsigned token = place / HEAD_BYTES % TOKENS;
				unsigned i = place % HEAD_BYTES;
				uint8_t *byte =
					rig_block(rig, 0, region, (int32_t)(RIG_BLOCK + chunk)) +
					place_in_block(head_major, heads, head, token, i);
				uint8_t wanted =
					cache_byte(saver, region, chunk,
				                   rig->config.tp_rank * heads + head, token, i);

				if (write)
					*byte = wanted;
				wrong += *byte != wanted;
			}
	return wrong;
}

static void open_shared(struct rig *rig, struct world *world, enum kvh_store_format format,
                        uint32_t tp_size, uint32_t tp_rank)
{
	rig_init_in(rig, world);
	rig->config.format = format;
	rig->config.store_tp_size = HEADS;
	rig->config.tp_size = tp_size;
	rig->config.tp_rank = tp_rank;
	rig->groups[0].kv_heads = HEADS;
	rig->region_count[0] = 2;
	rig->block_bytes[0] = HEADS / tp_size * TOKENS * HEAD_BYTES;
	rig_open(rig);
}

static void round_trips(enum kvh_store_format format)
{
	static const uint32_t sizes[] = {1, 2, 2, 4, 4, 4, 4};
	static const uint32_t ranks[] = {0, 0, 1, 0, 1, 2, 3};
	bool head_major = format == KVH_FORMAT_TP_SHARED_LBHNC;
	struct rig rigs[COUNT_OF(sizes)];
	struct world *world = world_open();
	uint64_t job_id = 1;

	for (size_t r = 0; r < COUNT_OF(sizes); r++)
		open_shared(&rigs[r], world, format, sizes[r], ranks[r]);
	for (unsigned saver = 1; saver <= HEADS; saver *= 2) {
		/* All ranks of one size save under hashes of their own... */
		for (size_t r = 0; r < COUNT_OF(sizes); r++) {
			rigs[r].chain = saver;
			if (sizes[r] != saver)
				continue;
			walk_blocks(&rigs[r], head_major, saver, true);
			rig_save_and_run(&rigs[r], job_id++, "saver", CHUNKS * TOKENS);
			assert_non_null(strstr(rig_done(&rigs[r]), " 0\n"));
		}
		/* ...and ranks of every size find and load them. */
		for (size_t r = 0; r < COUNT_OF(sizes); r++) {
			assert_int_equal(rig_lookup(&rigs[r], CHUNKS * TOKENS + 1, NULL),
			                 CHUNKS * TOKENS);
			memset(rigs[r].memory[0], 0xEE, rigs[r].memory_bytes[0]);
			rig_load_and_run(&rigs[r], job_id++, "loader", CHUNKS * TOKENS, 0);
			assert_non_null(strstr(rig_done(&rigs[r]), " 0\n"));
			assert_int_equal(walk_blocks(&rigs[r], head_major, saver, false), 0);
			assert_true(rig_block_is(&rigs[r], 0, RIG_BLOCK + CHUNKS, 0xEE));
			assert_true(rig_block_is(&rigs[r], 0, RIG_BLOCK - 1, 0xEE));
		}
		rig_calls(&rigs[0]);
	}
	for (size_t r = 0; r < COUNT_OF(sizes); r++)
		rig_close(&rigs[r]);
	world_close(world);
}

/* proves: R-4 */
static void head_major_objects_fit_every_tp_size(void **state)
{
	(void)state;
	round_trips(KVH_FORMAT_TP_SHARED_LBHNC);
}

/* proves: R-4 */
static void token_major_objects_fit_every_tp_size(void **state)
{
	(void)state;
	round_trips(KVH_FORMAT_TP_SHARED_LBNHC);
}

/* proves: R-4 */
static void shards_go_in_the_order_of_chunks_under_the_formats_namespace(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.format = KVH_FORMAT_TP_SHARED_LBNHC;
	rig.config.store_tp_size = 4;
	rig.config.tp_size = 2;
	rig.config.tp_rank = 1;
	rig.groups[0].kv_heads = 4;
	rig.groups[0].put_step = 2; /* shards are each rank's own: no stripes */
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 32);
	assert_string_equal(rig_calls(&rig),
	                    "exists t2:0 t3:0 t2:1 t3:1\nput t2:0 t3:0 t2:1 t3:1\n");
	assert_true(fake_prefix_id(&rig.world->fake,
	                           "m@store_tp:4@store_pp:1@store_format:tp_shared_lbnhc@tp_rank:2"
	                           "@pcp0@dcp0@pp_rank:0@group:0@",
	                           NULL) >= 0);
	rig_close(&rig);
}

/* proves: R-4 */
static void where_heads_do_not_divide_keys_are_rank_local_in_another_namespace(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.format = KVH_FORMAT_TP_SHARED_LBHNC;
	rig.config.store_tp_size = 4;
	rig.groups[0].kv_heads = 6;
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 16);
	assert_string_equal(rig_calls(&rig), "exists 0\nput 0\n");
	assert_int_equal(rig.world->fake.objects[0].byte_count, 1024);
	assert_true(fake_prefix_id(&rig.world->fake,
	                           "m@store_tp:1@store_pp:1@store_format:rank_local@tp_rank:0@pcp0"
	                           "@dcp0@pp_rank:0@group:0@",
	                           NULL) >= 0);
	assert_non_null(strstr(rig.world->lines, "heads"));
	rig_close(&rig);
}

/* proves: R-24 */
static void another_identity_finds_nothing_of_the_old_one(void **state)
{
	static const char text[] = "m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@";
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_fill_all(&rig, 4);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_int_equal(rig_lookup(&rig, 65, NULL), 64);
	assert_int_equal(kvh_worker_set_epoch(rig.worker, "new", 3, &rig.error), KVH_OK);
	assert_int_equal(rig_lookup(&rig, 65, NULL), 0);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	assert_true(fake_prefix_id(&rig.world->fake, text, "id") >= 0);
	assert_true(fake_prefix_id(&rig.world->fake, text, "new") >= 0);
	assert_int_not_equal(fake_prefix_id(&rig.world->fake, text, "new"),
	                     fake_prefix_id(&rig.world->fake, text, "id"));
	rig_calls(&rig);
	rig_load_and_run(&rig, 2, "r", 16, 0);
	assert_string_equal(rig_done(&rig), "saved 1 0\nfailed 2 g0 i0 b100 -704\nloaded 2 -704\n");
	rig_save_and_run(&rig, 3, "r", 64);
	assert_string_equal(rig_calls(&rig), "get 0\nexists 0 1 2 3\nput 0 1 2 3\n");
	assert_int_equal(rig.world->fake.object_count, 8);
	/* Back again: what was stored under the first identity is there. */
	assert_int_equal(kvh_worker_set_epoch(rig.worker, "id", 2, &rig.error), KVH_OK);
	assert_int_equal(rig_lookup(&rig, 65, NULL), 64);
	rig_close(&rig);
}

/* proves: R-11, R-38 */
static void jobs_of_the_old_identity_end_under_its_keys(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_fill_all(&rig, 4);
	rig_hold_next(&rig, FAKE_PUT);
	rig_save_and_run(&rig, 1, "r", 32);
	rig_save(&rig, 2, "s", 32);
	rig_load(&rig, 3, "r", 32, 0);
	assert_int_equal(kvh_worker_set_epoch(rig.worker, "new", 3, &rig.error), KVH_OK);
	assert_string_equal(rig_done(&rig), "failed 3 g0 i0 b100 -2001\n"
	                                    "failed 3 g0 i1 b101 -2001\nloaded 3 -2001\n");
	rig_run_save(&rig); /* goes on with its put */
	rig_run_save(&rig); /* stale */
	assert_string_equal(rig_done(&rig), "saved 1 0\nsaved 2 -2001\n");
	assert_string_equal(rig_calls(&rig), "exists 0 1\nput 0 1\n");
	for (size_t i = 0; i < rig.world->fake.object_count; i++)
		assert_memory_equal(
			rig.world->fake.prefixes[rig.world->fake.objects[i].prefix_id].identity,
			"id", 2);
	assert_int_equal(rig_lookup(&rig, 33, NULL), 0);
	rig_close(&rig);
}

static void a_wrong_identity_leaves_the_old_one(void **state)
{
	static const char identity[KVH_IDENTITY_BYTES_MAX + 1];
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 16);
	assert_refused(&rig, kvh_worker_set_epoch(rig.worker, NULL, 3, &rig.error), "identity");
	assert_refused(&rig, kvh_worker_set_epoch(rig.worker, "x", 0, &rig.error), "identity");
	assert_refused(&rig,
	               kvh_worker_set_epoch(rig.worker, identity, sizeof(identity), &rig.error),
	               "identity");
	assert_int_equal(kvh_worker_set_epoch(NULL, "x", 1, &rig.error), KVH_INVALID_PARAMS);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 16);
	assert_int_equal(rig_lookup(&rig, 17, NULL), 16);
	rig_close(&rig);
}

/* proves: R-40 */
static void a_dcp_rank_that_no_lookup_would_ask_for_is_logged(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.tp_size = 4;
	rig.config.tp_rank = 1;
	rig.config.dcp_size = 2;
	rig.config.dcp_rank = 0;
	rig_open(&rig);
	assert_non_null(strstr(rig.world->lines, "dcp_rank 0 of 2"));
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_name_model_ranks_group_and_hash),
		cmocka_unit_test(ranks_that_hold_the_same_bytes_share_a_key),
		cmocka_unit_test(states_and_context_parallel_ranks_have_keys_of_their_own),
		cmocka_unit_test(lifecycle_groups_are_asked_for_only_where_the_store_has_them),
		cmocka_unit_test(head_major_objects_fit_every_tp_size),
		cmocka_unit_test(token_major_objects_fit_every_tp_size),
		cmocka_unit_test(shards_go_in_the_order_of_chunks_under_the_formats_namespace),
		cmocka_unit_test(
			where_heads_do_not_divide_keys_are_rank_local_in_another_namespace),
		cmocka_unit_test(another_identity_finds_nothing_of_the_old_one),
		cmocka_unit_test(jobs_of_the_old_identity_end_under_its_keys),
		cmocka_unit_test(a_wrong_identity_leaves_the_old_one),
		cmocka_unit_test(a_dcp_rank_that_no_lookup_would_ask_for_is_logged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
