/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong configurations and caches: refused in words, and nothing is left behind. */
#include <math.h>
#include <unistd.h>
#include <sys/wait.h>

#include "rig.h"

#include "base/fault.h"

/* Opens with what the rig's config now says, which must be refused. */
#define open_refused(rig, wanted, word)                                                            \
	do {                                                                                       \
		struct kvh_worker *made = (struct kvh_worker *)(rig);                              \
		memset(&(rig)->error, 0, sizeof((rig)->error));                                    \
		assert_int_equal(kvh_worker_open((rig)->world->store, &(rig)->config, &made,       \
		                                 &(rig)->error),                                   \
		                 (wanted));                                                        \
		assert_ptr_equal(made, (struct kvh_worker *)(rig));                                \
		assert_int_equal((rig)->error.status, (wanted));                                   \
		if (!strstr((rig)->error.text, (word)))                                            \
			fail_msg("'%s' does not name %s", (rig)->error.text, (word));              \
	} while (0)

static void end(struct rig *rig)
{
	world_close(rig->world);
}

static void an_identity_is_needed_unless_the_caller_says_none(void **state)
{
	static const char identity[KVH_IDENTITY_BYTES_MAX + 1];
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.identity = NULL;
	open_refused(&rig, KVH_INVALID_PARAMS, "identity");
	rig.config.identity = identity;
	rig.config.identity_bytes = 0;
	open_refused(&rig, KVH_INVALID_PARAMS, "identity");
	rig.config.identity_bytes = sizeof(identity);
	open_refused(&rig, KVH_INVALID_PARAMS, "identity");
	rig.config.identity_bytes = SIZE_MAX;
	open_refused(&rig, KVH_INVALID_PARAMS, "identity");
	rig.config.identity = NULL;
	rig.config.identity_bytes = 0;
	rig.config.identity_none = true;
	rig_open(&rig);
	assert_int_equal(rig.world->fake.prefixes[0].identity_bytes, 0);
	rig_close(&rig);
}

/* proves: D-9 */
static void d9_one_save_thread_is_all_there_is(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.save_threads = 2;
	open_refused(&rig, KVH_NOT_SUPPORTED, "save_threads");
	rig.config.save_threads = UINT32_MAX;
	open_refused(&rig, KVH_NOT_SUPPORTED, "save_threads");
	rig.config.save_threads = 1;
	rig_open(&rig);
	/* Jobs of a request run in the order in which they came. */
	rig_save(&rig, 1, "r", 16);
	rig_save(&rig, 2, "r", 32);
	rig_run_save(&rig);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0\nput 0\nexists 1\nput 1\n");
	rig_close(&rig);
}

static void numbers_out_of_range(struct rig *rig)
{
	const struct kvh_worker_config good = rig->config;
	const struct {
		uint32_t *field;
		uint32_t wrong;
		const char *word;
	} cases[] = {{&rig->config.load_threads, KVH_LOAD_THREADS_MAX + 1, "load_threads"},
	             {&rig->config.load_threads, UINT32_MAX, "load_threads"},
	             {&rig->config.tp_size, KVH_RANKS_MAX + 1, "tp_size"},
	             {&rig->config.pp_size, UINT32_MAX, "pp_size"},
	             {&rig->config.tp_rank, 1, "tp_rank"},
	             {&rig->config.pcp_rank, 1, "pcp_rank"},
	             {&rig->config.dcp_rank, 1, "dcp_rank"},
	             {&rig->config.pp_rank, UINT32_MAX, "pp_rank"},
	             {&rig->config.store_tp_size, 2, "store_tp_size"},
	             {&rig->config.hash_bytes, KVH_HASH_BYTES_MAX + 1, "hash_bytes"},
	             {&rig->config.hash_bytes, UINT32_MAX, "hash_bytes"},
	             {&rig->config.hash_tokens, 0, "hash"},
	             {&rig->config.hash_tokens, 3, "hash"},
	             {&rig->config.hash_tokens, UINT32_MAX, "hash"},
	             {&rig->config.lcm_tokens, 24, "lcm"},
	             {&rig->config.lcm_tokens, UINT32_MAX, "lcm"},
	             {&rig->groups[0].block_tokens, 0, "block"},
	             {&rig->groups[0].block_tokens, UINT32_MAX, "block"},
	             {&rig->groups[0].block_tokens, KVH_BLOCK_TOKENS_MAX + 16, "block"},
	             {&rig->groups[0].put_step, 2, "put_step"}, /* of 1 rank */
	             {&rig->groups[0].put_step, UINT32_MAX, "put_step"}};

	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		uint32_t kept = *cases[i].field;

		*cases[i].field = cases[i].wrong;
		open_refused(rig, KVH_INVALID_PARAMS, cases[i].word);
		*cases[i].field = kept;
		rig->config = good;
	}
}

/* proves: C-1 */
static void every_number_of_the_configuration_has_its_range(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	numbers_out_of_range(&rig);
	rig.config.staging_usable_ratio = 1.01;
	open_refused(&rig, KVH_INVALID_PARAMS, "staging_usable_ratio");
	rig.config.staging_usable_ratio = -0.5;
	open_refused(&rig, KVH_INVALID_PARAMS, "staging_usable_ratio");
	rig.config.staging_usable_ratio = NAN;
	open_refused(&rig, KVH_INVALID_PARAMS, "staging_usable_ratio");
	rig.config.staging_usable_ratio = 0;
	rig.config.staging_bytes = UINT64_MAX;
	open_refused(&rig, KVH_INVALID_PARAMS, "staging_bytes");
	rig.config.staging_bytes = 0;
	rig.config.load_timeout_ms = INT64_MAX;
	open_refused(&rig, KVH_INVALID_PARAMS, "load_timeout_ms");
	rig.config.load_timeout_ms = 0;
	rig.config.pressure_probe_ms = INT64_MAX;
	open_refused(&rig, KVH_INVALID_PARAMS, "pressure_probe_ms");
	rig.config.pressure_probe_ms = 0;
	rig.config.has_retention = true;
	rig.config.retention_tokens = 24;
	open_refused(&rig, KVH_INVALID_PARAMS, "retention");
	rig.config.retention_tokens = 0;
	rig.config.format = (enum kvh_store_format)9;
	open_refused(&rig, KVH_INVALID_PARAMS, "format");
	end(&rig);
}

/* proves: C-1 */
static void groups_are_checked(void **state)
{
	struct kvh_group many[KVH_GROUPS_MAX + 1];
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.groups = NULL;
	open_refused(&rig, KVH_INVALID_PARAMS, "groups");
	rig.config.groups = rig.groups;
	rig.config.group_count = 0;
	open_refused(&rig, KVH_INVALID_PARAMS, "groups");
	for (size_t i = 0; i < COUNT_OF(many); i++)
		many[i] = rig.groups[0];
	rig.config.groups = many;
	rig.config.group_count = KVH_GROUPS_MAX + 1;
	open_refused(&rig, KVH_INVALID_PARAMS, "groups");
	/* A count from nowhere must not be walked, whatever else is to be checked first. */
	rig.config.group_count = SIZE_MAX;
	open_refused(&rig, KVH_INVALID_PARAMS, "groups");
	rig.config.format = KVH_FORMAT_TP_SHARED_LBHNC;
	open_refused(&rig, KVH_INVALID_PARAMS, "groups");
	rig.config.groups = NULL;
	rig.config.group_count = 3;
	open_refused(&rig, KVH_INVALID_PARAMS, "groups");
	rig.config.format = KVH_FORMAT_RANK_LOCAL;
	rig.config.groups = rig.groups;
	rig.config.group_count = 1;
	rig.groups[0].kind = 0;
	open_refused(&rig, KVH_INVALID_PARAMS, "kind");
	rig.groups[0].kind = 5;
	open_refused(&rig, KVH_INVALID_PARAMS, "kind");
	rig.groups[0].kind = KVH_ATTENTION_SLIDING_WINDOW;
	open_refused(&rig, KVH_INVALID_PARAMS, "window");
	end(&rig);
}

/* proves: R-1 */
static void names_that_make_no_key_are_refused(void **state)
{
	char longest[KVH_PREFIX_TEXT_BYTES_MAX + 1];
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.model = NULL;
	open_refused(&rig, KVH_INVALID_PARAMS, "model");
	rig.config.model = "";
	open_refused(&rig, KVH_INVALID_PARAMS, "model");
	rig.config.model = "///";
	open_refused(&rig, KVH_INVALID_PARAMS, "model");
	rig.config.model = "a model";
	open_refused(&rig, KVH_INVALID_PARAMS, "model");
	memset(longest, 'm', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	rig.config.model = longest;
	open_refused(&rig, KVH_INVALID_PARAMS, "");
	rig.config.model = "m";
	rig.config.cache_prefix = "tab\there";
	open_refused(&rig, KVH_INVALID_PARAMS, "prefix");
	end(&rig);
}

static void null_arguments_of_open_are_refused(void **state)
{
	const struct kvh_device no_device = {.ops = NULL};
	const struct kvh_env no_env = {.ops = NULL};
	struct kvh_worker *worker = NULL;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	assert_refused(&rig, kvh_worker_open(NULL, &rig.config, &worker, &rig.error), "store");
	assert_refused(&rig, kvh_worker_open(rig.world->store, NULL, &worker, &rig.error),
	               "config");
	assert_refused(&rig, kvh_worker_open(rig.world->store, &rig.config, NULL, &rig.error),
	               "worker");
	rig.config.struct_bytes = sizeof(rig.config) - 1;
	assert_refused(&rig, kvh_worker_open(rig.world->store, &rig.config, &worker, &rig.error),
	               "struct_bytes");
	rig.config.struct_bytes = 0;
	assert_int_equal(kvh_worker_open(rig.world->store, &rig.config, &worker, NULL),
	                 KVH_INVALID_PARAMS);
	rig.config.struct_bytes = sizeof(rig.config);
	rig.config.device = &no_device;
	open_refused(&rig, KVH_INVALID_PARAMS, "device");
	rig.config.device = NULL;
	rig.config.env = &no_env;
	open_refused(&rig, KVH_INVALID_PARAMS, "env");
	assert_null(worker);
	end(&rig);
}

static void a_store_that_can_not_intern_prefixes_is_named(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	assert_true(kvh_fault_arm_nth("store/prefix", 1, KVH_BUSY));
	open_refused(&rig, KVH_BUSY, "prefix");
	kvh_fault_disarm_all();
	end(&rig);
}

/* A set of caches that works, for tests to spoil: one group, 16 blocks of 64 bytes. */
struct plain_caches {
	_Alignas(64) uint8_t bytes[2][1024];
	struct kvh_memory memory[2];
	struct kvh_cache_region region;
	uint64_t block_count;
	struct kvh_caches caches;
};

static void make_plain(struct plain_caches *plain)
{
	plain->memory[0] = (struct kvh_memory){.addr = plain->bytes[0], .bytes = 1024};
	plain->memory[1] = (struct kvh_memory){.addr = plain->bytes[1], .bytes = 1024};
	plain->region = (struct kvh_cache_region){
		.base = plain->bytes[0], .stride_bytes = 64, .block_bytes = 64};
	plain->block_count = 16;
	plain->caches = (struct kvh_caches){.struct_bytes = sizeof(plain->caches),
	                                    .memory = plain->memory,
	                                    .memory_count = 1,
	                                    .regions = &plain->region,
	                                    .region_count = 1,
	                                    .block_counts = &plain->block_count};
}

/* Refused, and as if it had never been asked. */
static void caches_refused(struct rig *rig, struct plain_caches *plain, const char *word)
{
	assert_refused(rig, kvh_worker_register_caches(rig->worker, &plain->caches, &rig->error),
	               word);
	assert_int_equal(rig->world->fake.registered_count, 0);
	make_plain(plain);
}

static void caches_are_checked_all_or_nothing(void **state)
{
	struct plain_caches plain;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_worker(&rig);
	make_plain(&plain);
	assert_refused(&rig, kvh_worker_register_caches(NULL, &plain.caches, &rig.error), "");
	assert_refused(&rig, kvh_worker_register_caches(rig.worker, NULL, &rig.error),
	               "register_caches");
	plain.caches.struct_bytes = 8;
	caches_refused(&rig, &plain, "register_caches");
	plain.caches.memory = NULL;
	caches_refused(&rig, &plain, "memory");
	plain.caches.memory_count = 0;
	caches_refused(&rig, &plain, "memory");
	plain.caches.memory_count = SIZE_MAX;
	caches_refused(&rig, &plain, "memory");
	plain.caches.regions = NULL;
	caches_refused(&rig, &plain, "regions");
	plain.caches.region_count = SIZE_MAX;
	caches_refused(&rig, &plain, "regions");
	plain.caches.block_counts = NULL;
	caches_refused(&rig, &plain, "block_counts");
	plain.region.group = 1;
	caches_refused(&rig, &plain, "group 1");
	plain.memory[0].addr = NULL;
	caches_refused(&rig, &plain, "addr");
	plain.memory[0].bytes = 0;
	caches_refused(&rig, &plain, "bytes");
	plain.memory[0].bytes = SIZE_MAX;
	caches_refused(&rig, &plain, "memory");
	plain.memory[0].kind = 9;
	caches_refused(&rig, &plain, "kind");
	plain.caches.memory_count = 2; /* the second overlaps the first */
	plain.memory[1].addr = plain.bytes[0] + 512;
	caches_refused(&rig, &plain, "overlap");
	plain.block_count = 17; /* the last block lies outside */
	caches_refused(&rig, &plain, "registered region");
	plain.block_count = 0;
	caches_refused(&rig, &plain, "block");
	plain.block_count = UINT64_MAX;
	caches_refused(&rig, &plain, "block");
	plain.region.base = NULL;
	caches_refused(&rig, &plain, "base");
	plain.region.base = plain.bytes[1]; /* not registered */
	caches_refused(&rig, &plain, "registered region");
	plain.region.block_bytes = 0;
	caches_refused(&rig, &plain, "block_bytes");
	plain.region.block_bytes = SIZE_MAX;
	caches_refused(&rig, &plain, "");
	plain.region.stride_bytes = 63;
	caches_refused(&rig, &plain, "stride");
	plain.region.stride_bytes = SIZE_MAX;
	caches_refused(&rig, &plain, "");
	/* After all these the right ones are taken. */
	assert_int_equal(kvh_worker_register_caches(rig.worker, &plain.caches, &rig.error), KVH_OK);
	assert_int_equal(kvh_worker_register_caches(rig.worker, &plain.caches, &rig.error),
	                 KVH_BUSY);
	assert_int_equal(rig.world->fake.registered_count, 1);
	kvh_worker_destroy(rig.worker);
	assert_int_equal(rig.world->fake.registered_count, 0);
	end(&rig);
}

static void a_registration_that_fails_half_way_is_undone(void **state)
{
	struct plain_caches plain;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_worker(&rig);
	make_plain(&plain);
	plain.caches.memory_count = 2;
	rig.world->fake.register_status = KVH_NO_MEMORY;
	rig.world->fake.register_fails_at = 2;
	assert_int_equal(kvh_worker_register_caches(rig.worker, &plain.caches, &rig.error),
	                 KVH_NO_MEMORY);
	assert_int_equal(rig.world->fake.registered_count, 0);
	assert_int_equal(kvh_worker_register_caches(rig.worker, &plain.caches, &rig.error), KVH_OK);
	kvh_worker_destroy(rig.worker);
	end(&rig);
}

static void a_group_without_a_region_is_refused(void **state)
{
	uint64_t block_counts[2] = {16, 16};
	struct plain_caches plain;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_add_group(&rig, KVH_ATTENTION_FULL, 16, 0);
	rig_open_worker(&rig);
	make_plain(&plain);
	plain.caches.block_counts = block_counts;
	caches_refused(&rig, &plain, "group 1");
	kvh_worker_destroy(rig.worker);
	end(&rig);
}

/* Every call of a worker in a child process; 0 when each was refused. */
static int calls_in_a_child(struct rig *rig)
{
	struct kvh_worker_stats stats = {.struct_bytes = sizeof(stats)};
	struct kvh_save_job save = rig_save_job(rig, 9, "r", 16);
	struct kvh_load_job load = rig_load_job(rig, 9, "r", 16, 0);
	struct kvh_lookup lookup = {.struct_bytes = sizeof(lookup)};
	struct kvh_lookup_result found = {.struct_bytes = sizeof(found)};
	struct kvh_completion completion;
	enum kvh_cancel_outcome outcome;
	size_t count;
	int wrong = 0;

	wrong += rig_submit_save(rig, &save) != KVH_FORKED;
	wrong += rig_submit_load(rig, &load) != KVH_FORKED;
	wrong += kvh_worker_lookup(rig->worker, &lookup, &found, NULL) != KVH_FORKED;
	wrong += kvh_worker_preempt(rig->worker, rig_id("r")) != KVH_FORKED;
	wrong += kvh_worker_finish(rig->worker, NULL, 0) != KVH_FORKED;
	wrong += kvh_worker_cancel(rig->worker, 1, &outcome) != KVH_FORKED;
	wrong += kvh_worker_drain(rig->worker, NULL, 1, NULL) != KVH_FORKED;
	wrong += kvh_worker_poll(rig->worker, &completion, sizeof(completion), 1, &count) !=
	         KVH_FORKED;
	wrong += kvh_worker_set_epoch(rig->worker, "b", 1, NULL) != KVH_FORKED;
	wrong += kvh_worker_get_stats(rig->worker, &stats) != KVH_FORKED;
	wrong += kvh_worker_close(rig->worker, 1, NULL) != KVH_FORKED;
	kvh_worker_destroy(rig->worker);
	return wrong;
}

static void a_child_process_gets_nothing_done(void **state)
{
	struct rig rig;
	int status = 0;
	pid_t child;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save(&rig, 1, "r", 16);
	child = fork();
	if (child == 0)
		_exit(calls_in_a_child(&rig));
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	rig_run_save(&rig);
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	rig_close(&rig);
}

/* proves: R-18 */
static void a_device_without_events_fails_the_job_that_carries_one(void **state)
{
	/* Functions that a device lacks may be NULL in its table. */
	const struct kvh_device_ops ops = {.struct_bytes = sizeof(ops)};
	const struct kvh_device device = {.ops = &ops};
	struct kvh_save_job job;
	struct rig rig;
	int event;

	(void)state;
	for (int own = 0; own < 2; own++) {
		rig_init(&rig);
		rig.config.device = own ? &device : NULL;
		rig_open(&rig);
		job = rig_save_job(&rig, 1, "r", 16);
		job.event = &event;
		assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
		rig_run_save(&rig);
		assert_string_equal(rig_calls(&rig), "exists 0\n");
		assert_string_equal(rig_done(&rig), "saved 1 -1012\n");
		rig_close(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_identity_is_needed_unless_the_caller_says_none),
		cmocka_unit_test(d9_one_save_thread_is_all_there_is),
		cmocka_unit_test(every_number_of_the_configuration_has_its_range),
		cmocka_unit_test(groups_are_checked),
		cmocka_unit_test(names_that_make_no_key_are_refused),
		cmocka_unit_test(null_arguments_of_open_are_refused),
		cmocka_unit_test(a_store_that_can_not_intern_prefixes_is_named),
		cmocka_unit_test(caches_are_checked_all_or_nothing),
		cmocka_unit_test(a_registration_that_fails_half_way_is_undone),
		cmocka_unit_test(a_group_without_a_region_is_refused),
		cmocka_unit_test(a_child_process_gets_nothing_done),
		cmocka_unit_test(a_device_without_events_fails_the_job_that_carries_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
