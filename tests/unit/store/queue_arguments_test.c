/* SPDX-License-Identifier: Apache-2.0 */
/* The queue's calls with wrong arguments, without memory, and in a child process. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "queue_rig.h"

static int setup(void **state)
{
	struct rig *rig = rig_new(false);
	const struct kvh_queue_options options = rig_options(rig, 1);

	rig_open(rig, &options);
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	rig_free(*state);
	return 0;
}

#define queue_test(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

/* ---- open --------------------------------------------------------------------------------- */

static void openings_without_shape_are_refused_in_words(void **state)
{
	static const struct kvh_env no_env = {0};
	static const struct {
		struct kvh_queue_options options;
		const char *word;
	} bad[] = {
		{{.struct_bytes = 0}, "struct_bytes"},
		{{.struct_bytes = 9}, "struct_bytes"},
		{{.struct_bytes = SIZE_MAX}, "struct_bytes"},
		{{.struct_bytes = sizeof(bad[0].options), .threads = 65}, "65 threads"},
		{{.struct_bytes = sizeof(bad[0].options), .reserved = 1}, "reserved"},
		{{.struct_bytes = sizeof(bad[0].options), .env = &no_env}, "env"},
	};
	struct rig *rig = *state;
	struct kvh_queue *queue = NULL;
	struct kvh_error error;

	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		memset(&error, 0, sizeof(error));
		assert_int_equal(kvh_queue_open(rig->store, &bad[i].options, &queue, &error),
		                 KVH_INVALID_PARAMS);
		assert_int_equal(error.status, KVH_INVALID_PARAMS);
		assert_non_null(strstr(error.text, bad[i].word));
	}
	assert_int_equal(kvh_queue_open(NULL, NULL, &queue, &error), KVH_INVALID_PARAMS);
	assert_non_null(strstr(error.text, "store"));
	assert_int_equal(kvh_queue_open(rig->store, NULL, NULL, &error), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_queue_open(rig->store, NULL, NULL, NULL), KVH_INVALID_PARAMS);
	assert_null(queue);
}

static void a_device_that_is_not_whole_is_refused(void **state)
{
	static struct kvh_device_ops half = {.struct_bytes = sizeof(half)};
	struct rig *rig = rig_new(false);
	struct kvh_queue *queue = NULL;
	struct kvh_error error = {0};

	(void)state;
	half.pin_host = kvh_device_host()->ops->pin_host;
	rig->device = (struct kvh_device){.ops = &half};
	rig_open_store(rig);
	assert_int_equal(kvh_queue_open(rig->store, NULL, &queue, &error), KVH_INVALID_PARAMS);
	assert_non_null(strstr(error.text, "device"));
	rig_free(rig);
}

static void defaults_suffice(void **state)
{
	struct rig *rig = *state;
	struct {
		struct kvh_queue_options known;
		uint64_t unknown;
	} newer = {.known = {.struct_bytes = sizeof(newer), .threads = 3}};
	struct kvh_queue *queue;

	assert_int_equal(kvh_queue_open(rig->store, NULL, &queue, NULL), KVH_OK);
	assert_int_equal(kvh_queue_close(queue, 0, NULL), KVH_OK);
	assert_int_equal(kvh_queue_open(rig->store, &newer.known, &queue, NULL), KVH_OK);
	assert_int_equal(kvh_queue_close(queue, 0, NULL), KVH_OK);
	newer.unknown = 1;
	assert_int_equal(kvh_queue_open(rig->store, &newer.known, &queue, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_queue_close(NULL, 0, NULL), KVH_OK);
}

/* ---- submit ------------------------------------------------------------------------------- */

/* Refused by submit and run, in words, and nothing comes of it. */
static void assert_refused(struct rig *rig, const struct kvh_queue_job *job, kvh_status status,
                           const char *word)
{
	struct kvh_queue_completion completion = {.job_id = 99};
	struct kvh_error error = {0};
	uint64_t id = 99;

	assert_int_equal(kvh_queue_submit(rig->queue, job, &id, &error), status);
	assert_int_equal(error.status, status);
	if (!strstr(error.text, word))
		fail_msg("'%s' does not name %s", error.text, word);
	assert_int_equal(id, 99);
	assert_int_equal(kvh_queue_run(rig->queue, job, &completion, sizeof(completion), &error),
	                 status);
	assert_int_equal(completion.job_id, 99);
	assert_int_equal(kvh_queue_submit(rig->queue, job, &id, NULL), status);
	assert_int_equal(rig_stats(rig).submitted_jobs, 0);
	assert_int_equal(rig->calls, 0);
}

static void jobs_without_shape_are_refused_in_words(void **state)
{
	struct rig *rig = *state;
	const struct kvh_queue_job good = rig_job(rig, KVH_QUEUE_PUT, 0, 3);
	const kvh_status no = KVH_INVALID_PARAMS;
	struct kvh_queue_job job = good;
	const struct kvh_put_options put = {.struct_bytes = sizeof(put)};
	uint64_t id;

	assert_refused(rig, NULL, no, "struct_bytes");
	job.struct_bytes = 7;
	assert_refused(rig, &job, no, "struct_bytes");
	job = good;
	job.op = 0;
	assert_refused(rig, &job, no, "op 0");
	job.op = KVH_QUEUE_REMOVE + 1;
	assert_refused(rig, &job, no, "op 6");
	job = good;
	job.batch.count = 0;
	assert_refused(rig, &job, no, "0 keys");
	job.batch.count = KVH_BATCH_KEYS_MAX + 1;
	assert_refused(rig, &job, no, "keys");
	job.batch.count = SIZE_MAX;
	assert_refused(rig, &job, no, "keys");
	job = good;
	job.batch.keys = NULL;
	assert_refused(rig, &job, no, "keys is NULL");
	job = good;
	job.batch.values = NULL;
	assert_refused(rig, &job, no, "put: values is NULL");
	job.op = KVH_QUEUE_GET;
	assert_refused(rig, &job, no, "get: values is NULL");
	job = good;
	job.exists_flags = KVH_EXISTS_DEDUP;
	assert_refused(rig, &job, no, "exists_flags");
	job.op = KVH_QUEUE_REMOVE;
	assert_refused(rig, &job, no, "remove: exists_flags");
	job.op = KVH_QUEUE_EXISTS;
	job.exists_flags = 2;
	assert_refused(rig, &job, no, "exists: exists_flags 0x2");
	job = good;
	job.op = KVH_QUEUE_GET;
	job.put = &put;
	assert_refused(rig, &job, no, "options of a put");
	assert_int_equal(kvh_queue_submit(rig->queue, &good, NULL, NULL), no);
	assert_int_equal(kvh_queue_submit(NULL, &good, &id, NULL), no);
	assert_int_equal(kvh_queue_run(rig->queue, &good, NULL, 8, NULL), no);
}

/* What the store would refuse is refused at once, with the first key or value that is wrong. */
static void what_the_store_would_refuse_is_refused_now(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_PUT, 0, 3);
	struct kvh_key *keys = (struct kvh_key *)(uintptr_t)job.batch.keys;
	struct kvh_value *values = (struct kvh_value *)(uintptr_t)job.batch.values;
	struct kvh_segment segment = {rig->memory, sizeof(rig->memory) + 1};
	struct kvh_put_options put = {.struct_bytes = sizeof(put), .priority = 9};
	const kvh_status no = KVH_INVALID_PARAMS;

	keys[1].hash_bytes = 5;
	assert_refused(rig, &job, no, "put: key 1: prefix 0");
	keys[1].hash_bytes = 8;
	keys[2].prefix_id = 77;
	assert_refused(rig, &job, no, "key 2: prefix 77");
	keys[2].prefix_id = 0;
	keys[0].hash = NULL;
	assert_refused(rig, &job, no, "key 0");
	keys[0].hash = (const uint8_t *)&rig->hash[0];
	values[1].segments = &segment;
	assert_refused(rig, &job, no, "put: value 1");
	values[1].segments = &rig->segments[1];
	values[2].segment_count = 0;
	assert_refused(rig, &job, no, "put: value 2");
	values[2].segment_count = 1;
	job.put = &put;
	assert_refused(rig, &job, no, "options");
	put.priority = 0;
	put.replicas = 3;
	assert_refused(rig, &job, KVH_NOT_SUPPORTED, "options");
	put.replicas = 0;
	rig_submit(rig, &job);
}

static void structs_of_other_versions_are_taken_by_their_size(void **state)
{
	struct rig *rig = *state;
	struct {
		struct kvh_queue_job known;
		uint64_t unknown;
	} newer = {.known = rig_job(rig, KVH_QUEUE_GET, 0, 1)};
	struct kvh_queue_job older = newer.known;
	struct kvh_queue_stats stats = {.struct_bytes = 16};
	struct kvh_queue_job_info info = {.struct_bytes = 16};
	uint64_t id;

	newer.known.struct_bytes = sizeof(newer);
	rig_submit(rig, &newer.known);
	newer.unknown = 1;
	assert_int_equal(kvh_queue_submit(rig->queue, &newer.known, &id, NULL), KVH_INVALID_PARAMS);
	/* Ends before the event; what lies behind is not its. */
	older.struct_bytes = offsetof(struct kvh_queue_job, event);
	older.event = rig;
	id = rig_submit(rig, &older);
	assert_int_equal(kvh_queue_drain(rig->queue, NULL, 0, 0, NULL), KVH_OK);
	assert_int_equal(kvh_queue_get_stats(rig->queue, &stats), KVH_OK);
	assert_int_equal(stats.struct_bytes, 16);
	assert_int_equal(stats.submitted_jobs, 2);
	assert_int_equal(stats.ok_jobs, 0);
	assert_int_equal(kvh_queue_get_job(rig->queue, id, &info), KVH_OK);
	assert_int_equal(info.state, KVH_QUEUE_JOB_DONE);
	assert_int_equal(info.submitted_ns, 0);
}

/* ---- the other calls ---------------------------------------------------------------------- */

static void the_other_calls_refuse_what_is_missing(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue *queue = rig->queue;
	struct kvh_queue_completion completion;
	struct kvh_queue_job_info info = {.struct_bytes = 3};
	struct kvh_queue_stats stats = {.struct_bytes = 3};
	enum kvh_cancel_outcome outcome;
	const kvh_status no = KVH_INVALID_PARAMS;
	const size_t bytes = sizeof(completion);
	uint64_t id = rig_get(rig, 0, 1);
	size_t count;
	int fd;

	assert_int_equal(kvh_queue_poll(queue, NULL, bytes, 1, &count), no);
	assert_int_equal(kvh_queue_poll(queue, &completion, bytes - 8, 1, &count), no);
	assert_int_equal(kvh_queue_poll(queue, &completion, bytes, 1, NULL), no);
	assert_int_equal(kvh_queue_poll(NULL, &completion, bytes, 1, &count), no);
	assert_int_equal(kvh_queue_wait(queue, id, 0, NULL, bytes), no);
	assert_int_equal(kvh_queue_wait(queue, id, 0, &completion, bytes + 8), no);
	assert_int_equal(kvh_queue_wait(NULL, id, 0, &completion, bytes), no);
	assert_int_equal(kvh_queue_cancel(queue, id, NULL), no);
	assert_int_equal(kvh_queue_cancel(NULL, id, &outcome), no);
	assert_int_equal(kvh_queue_drain(queue, NULL, 1, 0, NULL), no);
	assert_int_equal(kvh_queue_drain(queue, &id, 0, 0, NULL), no);
	assert_int_equal(kvh_queue_drain(NULL, NULL, 0, 0, NULL), no);
	assert_int_equal(kvh_queue_fd(queue, NULL), no);
	assert_int_equal(kvh_queue_fd(NULL, &fd), no);
	assert_int_equal(kvh_queue_get_job(queue, id, NULL), no);
	assert_int_equal(kvh_queue_get_job(queue, id, &info), no);
	assert_int_equal(kvh_queue_get_job(NULL, id, &info), no);
	assert_int_equal(kvh_queue_get_stats(queue, NULL), no);
	assert_int_equal(kvh_queue_get_stats(queue, &stats), no);
	assert_int_equal(kvh_queue_get_stats(NULL, &stats), no);
	/* The job came to its end all the same. */
	assert_int_equal(kvh_queue_wait(queue, id, 0, &completion, bytes), KVH_OK);
}

static void a_store_that_is_shut_refuses_queue_and_jobs(void **state)
{
	struct rig *rig = *state;
	const struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_GET, 0, 1);
	struct kvh_queue *queue = NULL;
	struct kvh_error error = {0};
	uint64_t id;

	rig->quiesce_status = KVH_TIMEOUT;
	assert_int_equal(kvh_store_close(rig->store, 1), KVH_TIMEOUT);
	assert_int_equal(kvh_queue_submit(rig->queue, &job, &id, &error), KVH_CLOSED);
	assert_non_null(strstr(error.text, "store"));
	assert_int_equal(kvh_queue_open(rig->store, NULL, &queue, NULL), KVH_CLOSED);
	assert_null(queue);
}

static void an_environment_without_descriptors_has_no_fd(void **state)
{
	struct rig *rig = rig_new(true);
	const struct kvh_queue_options options = rig_options(rig, 1);
	int fd = -77;

	(void)state;
	rig_open(rig, &options);
	assert_int_equal(kvh_queue_fd(rig->queue, &fd), KVH_NOT_SUPPORTED);
	assert_int_equal(fd, -77);
	rig_free(rig);
}

static void without_a_free_descriptor_the_fd_can_be_asked_for_again(void **state)
{
	struct rig *rig = *state;
	struct rlimit limit, none;
	int fd = -77;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(kvh_queue_fd(rig->queue, &fd), KVH_BUSY);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(fd, -77);
	assert_int_equal(kvh_queue_fd(rig->queue, &fd), KVH_OK);
	assert_true(fd >= 0);
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Every allocation of the call fails, until it runs clean. Returns how many there are. */
static uint64_t fail_each_open(struct rig *rig, uint32_t threads)
{
	const struct kvh_queue_options options = rig_options(rig, threads);
	uint64_t nth = 1;

	for (;; nth++) {
		struct kvh_queue *queue = NULL;
		struct kvh_error error = {0};
		kvh_status status;

		assert_true(kvh_fault_arm_nth("base/alloc", nth, KVH_NO_MEMORY));
		status = kvh_queue_open(rig->store, &options, &queue, &error);
		kvh_fault_disarm_all();
		if (status == KVH_OK) {
			assert_int_equal(kvh_queue_close(queue, 0, NULL), KVH_OK);
			return nth - 1;
		}
		assert_int_equal(status, KVH_NO_MEMORY);
		assert_int_equal(error.status, KVH_NO_MEMORY);
		assert_true(error.text[0]);
		assert_null(queue);
	}
}

static void no_memory_at_any_place_of_open_leaves_nothing(void **state)
{
	struct rig *rig = rig_new(false);

	(void)state;
	rig_open_store(rig);
	/* Each thread is one more. */
	assert_int_equal(fail_each_open(rig, 5), fail_each_open(rig, 1) + 4);
	rig_free(rig);
}

/* Stepped, so that no thread allocates meanwhile. */
static void a_job_takes_one_allocation_and_is_refused_without_it(void **state)
{
	struct rig *rig = rig_new(true);
	const struct kvh_queue_options options = rig_options(rig, 1);
	struct kvh_queue_job job;
	struct kvh_error error = {0};
	uint64_t id = 99;

	(void)state;
	rig_open(rig, &options);
	job = rig_job(rig, KVH_QUEUE_PUT, 0, RIG_KEYS_MAX);
	assert_true(kvh_fault_arm_nth("base/alloc", 1, KVH_NO_MEMORY));
	assert_int_equal(kvh_queue_submit(rig->queue, &job, &id, &error), KVH_NO_MEMORY);
	kvh_fault_disarm_all();
	assert_true(error.text[0]);
	assert_int_equal(id, 99);
	assert_int_equal(rig_stats(rig).submitted_jobs, 0);
	assert_true(kvh_fault_arm_nth("base/alloc", 1000, KVH_NO_MEMORY));
	assert_int_equal(kvh_queue_submit(rig->queue, &job, &id, &error), KVH_OK);
	assert_int_equal(kvh_fault_passed(KVH_FAULT_BASE_ALLOC), 1);
	kvh_fault_disarm_all();
	rig_turn(rig, 0);
	rig_assert_ended(rig, id, KVH_OK);
	rig_free(rig);
}

static bool close_meanwhile(void *user, enum kvh_fault_point point, const void *key,
                            size_t key_bytes, int64_t *number)
{
	struct rig *rig = user;

	(void)key, (void)key_bytes, (void)number;
	/* Not freed: the submit is inside. */
	if (point == KVH_FAULT_BASE_ALLOC)
		assert_int_equal(kvh_queue_close(rig->queue, 1, NULL), KVH_TIMEOUT);
	return false;
}

/* proves: D-8 */
static void a_job_that_is_being_copied_when_the_queue_closes_is_refused(void **state)
{
	struct rig *rig = rig_new(true);
	const struct kvh_queue_options options = rig_options(rig, 1);
	struct kvh_queue_job job;
	struct kvh_error error = {0};
	uint64_t id = 99;

	(void)state;
	rig_open(rig, &options);
	job = rig_job(rig, KVH_QUEUE_PUT, 0, 1);
	assert_true(kvh_fault_arm(close_meanwhile, rig));
	assert_int_equal(kvh_queue_submit(rig->queue, &job, &id, &error), KVH_CLOSED);
	kvh_fault_disarm_all();
	assert_int_equal(error.status, KVH_CLOSED);
	assert_int_equal(id, 99);
	assert_int_equal(kvh_queue_close(rig->queue, 1, NULL), KVH_OK);
	rig->queue = NULL;
	rig_free(rig);
}

/* A refused job leaves no trace in its line's limits. */
static void a_refused_job_gives_its_room_back(void **state)
{
	struct rig *rig = rig_new(false);
	struct kvh_queue_options options = rig_options(rig, 1);
	struct kvh_queue_completion completion;
	struct kvh_queue_job job;
	uint64_t id;

	(void)state;
	options.max_jobs = 1;
	rig_open(rig, &options);
	job = rig_job(rig, KVH_QUEUE_GET, 0, 2);
	for (int i = 0; i < 3; i++) {
		assert_true(kvh_fault_arm_nth("base/alloc", 1, KVH_NO_MEMORY));
		assert_int_equal(kvh_queue_submit(rig->queue, &job, &id, NULL), KVH_NO_MEMORY);
		kvh_fault_disarm_all();
	}
	assert_int_equal(kvh_queue_run(rig->queue, &job, &completion, sizeof(completion), NULL),
	                 KVH_OK);
	assert_int_equal(completion.good_keys, 2);
	assert_int_equal(rig_stats(rig).refused_jobs, 0);
	rig_free(rig);
}

/* ---- forks -------------------------------------------------------------------------------- */

static int wrong_answers_in_child(struct rig *rig)
{
	struct kvh_queue *queue = rig->queue;
	const struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_GET, 0, 1);
	struct kvh_queue_completion completion;
	struct kvh_queue_job_info info = {.struct_bytes = sizeof(info)};
	struct kvh_queue_stats stats = {.struct_bytes = sizeof(stats)};
	enum kvh_cancel_outcome outcome;
	const size_t bytes = sizeof(completion);
	struct kvh_queue *other;
	uint64_t id;
	size_t count;
	int fd;
	int wrong = 0;

	wrong += kvh_queue_submit(queue, &job, &id, NULL) != KVH_FORKED;
	wrong += kvh_queue_run(queue, &job, &completion, bytes, NULL) != KVH_FORKED;
	wrong += kvh_queue_poll(queue, &completion, bytes, 1, &count) != KVH_FORKED;
	wrong += kvh_queue_wait(queue, 1, 0, &completion, bytes) != KVH_FORKED;
	wrong += kvh_queue_cancel(queue, 1, &outcome) != KVH_FORKED;
	wrong += kvh_queue_drain(queue, NULL, 0, 0, NULL) != KVH_FORKED;
	wrong += kvh_queue_fd(queue, &fd) != KVH_FORKED;
	wrong += kvh_queue_get_job(queue, 1, &info) != KVH_FORKED;
	wrong += kvh_queue_get_stats(queue, &stats) != KVH_FORKED;
	wrong += kvh_queue_close(queue, 0, NULL) != KVH_FORKED;
	wrong += kvh_queue_open(rig->store, NULL, &other, NULL) != KVH_FORKED;
	return wrong;
}

static void every_queue_call_in_a_child_is_refused(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_completion completion;
	uint64_t id = rig_get(rig, 0, 1);
	int status = -1;
	pid_t child;

	assert_int_equal(kvh_queue_drain(rig->queue, NULL, 0, 0, NULL), KVH_OK);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(wrong_answers_in_child(rig));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(kvh_queue_wait(rig->queue, id, 0, &completion, sizeof(completion)),
	                 KVH_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		queue_test(openings_without_shape_are_refused_in_words),
		cmocka_unit_test(a_device_that_is_not_whole_is_refused),
		queue_test(defaults_suffice),
		queue_test(jobs_without_shape_are_refused_in_words),
		queue_test(what_the_store_would_refuse_is_refused_now),
		queue_test(structs_of_other_versions_are_taken_by_their_size),
		queue_test(the_other_calls_refuse_what_is_missing),
		queue_test(a_store_that_is_shut_refuses_queue_and_jobs),
		cmocka_unit_test(an_environment_without_descriptors_has_no_fd),
		queue_test(without_a_free_descriptor_the_fd_can_be_asked_for_again),
		cmocka_unit_test(no_memory_at_any_place_of_open_leaves_nothing),
		cmocka_unit_test(a_job_takes_one_allocation_and_is_refused_without_it),
		cmocka_unit_test(a_job_that_is_being_copied_when_the_queue_closes_is_refused),
		cmocka_unit_test(a_refused_job_gives_its_room_back),
		queue_test(every_queue_call_in_a_child_is_refused),
	};

	return cmocka_run_group_tests_name("store_queue_arguments", tests, NULL, NULL);
}
