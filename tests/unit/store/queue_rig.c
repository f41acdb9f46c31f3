/* SPDX-License-Identifier: Apache-2.0 */
/* The rig of the queue's tests. */
#include "queue_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)

static const char *const op_names[RIG_OPS] = {"exists", "put", "get", "remove", "quiesce"};

/* ---- the store ---------------------------------------------------------------------------- */

static bool is_held(struct rig *rig, enum rig_op op)
{
	return __atomic_load_n(&rig->hold, __ATOMIC_SEQ_CST) >> op & 1;
}

static bool is_over(struct rig *rig, const struct kvh_call *call)
{
	return call && !rig->is_deaf &&
	       ((call->cancel && kvh_cancel_requested(call->cancel)) ||
	        kvh_deadline_passed(rig->env, call->deadline_ns));
}

/* Stays while the op is held. False: the call was stopped meanwhile. */
static bool pass(struct rig *rig, enum rig_op op, const struct kvh_call *call)
{
	const struct kvh_env *env = rig->env;

	__atomic_add_fetch(&rig->inside, 1, __ATOMIC_SEQ_CST);
	while (is_held(rig, op) && !is_over(rig, call)) {
		env->ops->mutex_lock(env->ctx, rig->mutex);
		env->ops->cond_wait(env->ctx, rig->released, rig->mutex,
		                    kvh_deadline_after(env, MS));
		env->ops->mutex_unlock(env->ctx, rig->mutex);
	}
	__atomic_sub_fetch(&rig->inside, 1, __ATOMIC_SEQ_CST);
	return !is_over(rig, call);
}

static uint64_t number_of(const struct kvh_key *key)
{
	uint64_t number;

	memcpy(&number, key->hash, sizeof(number));
	return number;
}

static void log_call(struct rig *rig, enum rig_op op, const struct kvh_batch *batch)
{
	const struct kvh_env *env = rig->env;
	char *out = rig->log;
	size_t used;

	env->ops->mutex_lock(env->ctx, rig->mutex);
	used = rig->log_bytes;
	used += (size_t)snprintf(out + used, RIG_LOG_BYTES - used, "%s", op_names[op]);
	for (size_t i = 0; i < batch->count && used + 32 < RIG_LOG_BYTES; i++)
		used += (size_t)snprintf(out + used, RIG_LOG_BYTES - used, " %llu",
		                         (unsigned long long)number_of(&batch->keys[i]));
	used += (size_t)snprintf(out + used, RIG_LOG_BYTES - used, "\n");
	rig->log_bytes = used + 64 < RIG_LOG_BYTES ? used : 0;
	env->ops->mutex_unlock(env->ctx, rig->mutex);
}

static int64_t answer_of(struct rig *rig, enum rig_op op, uint64_t number)
{
	if (rig->key)
		return rig->key(rig, op, number);
	if (op == RIG_EXISTS)
		return number < rig->present;
	return op == RIG_GET ? RIG_VALUE_BYTES : 0;
}

static kvh_status answer(struct rig *rig, enum rig_op op, const struct kvh_batch *batch,
                         const struct kvh_call *call)
{
	__atomic_add_fetch(&rig->calls, 1, __ATOMIC_SEQ_CST);
	log_call(rig, op, batch);
	if (!pass(rig, op, call))
		return kvh_cancel_requested(call->cancel) ? KVH_CANCELLED : KVH_TIMEOUT;
	for (size_t i = 0; i < batch->count; i++) {
		struct kvh_result *result = &batch->results[i];

		result->value = answer_of(rig, op, number_of(&batch->keys[i]));
		if (result->value == KVH_IN_DOUBT)
			result->flags &= ~(uint32_t)KVH_RESULT_QUIET;
	}
	return rig->status[op];
}

static void r_caps(void *self, struct kvh_store_caps *caps)
{
	*caps = ((struct rig *)self)->caps;
}

static kvh_status r_register(void *self, kvh_region_id region, void *addr, size_t bytes,
                             enum kvh_memory_kind kind, struct kvh_error *error)
{
	(void)self, (void)region, (void)addr, (void)bytes, (void)kind, (void)error;
	return KVH_OK;
}

static kvh_status r_unregister(void *self, kvh_region_id region, kvh_deadline deadline_ns)
{
	(void)self, (void)region, (void)deadline_ns;
	return KVH_OK;
}

static kvh_status r_prefix(void *self, const struct kvh_prefix *prefix, uint32_t *prefix_id,
                           struct kvh_error *error)
{
	(void)self, (void)prefix, (void)error;
	*prefix_id = 0;
	return KVH_OK;
}

static kvh_status r_exists(void *self, const struct kvh_batch *batch, uint32_t flags,
                           const struct kvh_call *call)
{
	(void)flags;
	return answer(self, RIG_EXISTS, batch, call);
}

static kvh_status r_put(void *self, const struct kvh_batch *batch,
                        const struct kvh_put_options *options, const struct kvh_call *call)
{
	struct rig *rig = self;

	if (rig->coenv) {
		rig->last_put = *options;
		rig->last_call = *call;
		if (options->preferred_node)
			snprintf(rig->node, sizeof(rig->node), "%s", options->preferred_node);
	}
	for (size_t i = 0; options->tokens && i < batch->count; i++)
		options->tokens[i].word[0] = 1000 + number_of(&batch->keys[i]);
	return answer(rig, RIG_PUT, batch, call);
}

static kvh_status r_get(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	return answer(self, RIG_GET, batch, call);
}

static kvh_status r_remove(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	return answer(self, RIG_REMOVE, batch, call);
}

static kvh_status r_quiesce(void *self, kvh_deadline deadline_ns)
{
	struct rig *rig = self;

	(void)deadline_ns;
	__atomic_add_fetch(&rig->quiesces, 1, __ATOMIC_SEQ_CST);
	pass(rig, RIG_QUIESCE, NULL);
	return __atomic_load_n(&rig->quiesce_status, __ATOMIC_SEQ_CST);
}

static void r_close(void *self)
{
	(void)self;
}

static const struct kvh_store_ops rig_ops = {
	.struct_bytes = sizeof(rig_ops),
	.name = "rig",
	.caps = r_caps,
	.register_region = r_register,
	.unregister_region = r_unregister,
	.prefix = r_prefix,
	.exists = r_exists,
	.put = r_put,
	.get = r_get,
	.remove = r_remove,
	.quiesce = r_quiesce,
	.close = r_close,
};

/* ---- opening ------------------------------------------------------------------------------ */

struct rig *rig_new(bool is_stepped)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	assert_non_null(rig);
	if (is_stepped)
		rig->coenv = coenv_open();
	rig->env = is_stepped ? coenv_env(rig->coenv) : kvh_env_posix();
	rig->caps = (struct kvh_store_caps){.struct_bytes = sizeof(rig->caps),
	                                    .hold = true,
	                                    .lifecycle = true,
	                                    .replicas_max = 2};
	assert_int_equal(rig->env->ops->mutex_create(rig->env->ctx, &rig->mutex), KVH_OK);
	assert_int_equal(rig->env->ops->cond_create(rig->env->ctx, &rig->released), KVH_OK);
	for (uint64_t i = 0; i < RIG_KEYS_MAX; i++) {
		rig->hash[i] = i;
		rig->segments[i] = (struct kvh_segment){rig->memory[i], RIG_VALUE_BYTES};
	}
	return rig;
}

void rig_open_store(struct rig *rig)
{
	const struct kvh_store_options options = {
		.struct_bytes = sizeof(options),
		.env = rig->env,
		.device = rig->device.ops ? &rig->device : NULL,
	};
	const struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
	                                  .text = "rig@",
	                                  .text_bytes = 4,
	                                  .family_bytes = 2,
	                                  .hash_bytes = 8};

	assert_int_equal(kvh_store_open_ops(&rig_ops, rig, &options, &rig->store, NULL), KVH_OK);
	assert_int_equal(kvh_store_register(rig->store, rig->memory, sizeof(rig->memory),
	                                    KVH_MEMORY_HOST, &rig->region, NULL),
	                 KVH_OK);
	assert_int_equal(kvh_store_prefix(rig->store, &prefix, &rig->prefix_id, NULL), KVH_OK);
}

static void count_doubt_line(void *user, enum kvh_log_level level, const char *line)
{
	struct rig *rig = user;

	(void)level;
	if (strstr(line, "in doubt"))
		__atomic_add_fetch(&rig->doubt_lines, 1, __ATOMIC_SEQ_CST);
}

struct kvh_queue_options rig_options(struct rig *rig, uint32_t threads)
{
	return (struct kvh_queue_options){.struct_bytes = sizeof(struct kvh_queue_options),
	                                  .log = {.fn = count_doubt_line, .user = rig},
	                                  .threads = threads};
}

void rig_open(struct rig *rig, const struct kvh_queue_options *options)
{
	struct kvh_error error = {0};

	rig_open_store(rig);
	if (kvh_queue_open(rig->store, options, &rig->queue, &error))
		fail_msg("%s", error.text);
}

static void close_stepped(struct rig *rig)
{
	/* Nobody moves the threads while close waits: jobs must be at their end before. */
	for (int i = 0;
	     i < 200 && rig_stats(rig).running_jobs + rig_stats(rig).doubtful_jobs +
	                                rig_stats(rig).queued_reads + rig_stats(rig).queued_writes >
	                        0;
	     i++) {
		rig_advance_ms(rig, 20);
		rig_step(rig, 0);
	}
	assert_int_equal(kvh_queue_close(rig->queue, 1, NULL), KVH_OK);
}

void rig_free(struct rig *rig)
{
	__atomic_store_n(&rig->quiesce_status, KVH_OK, __ATOMIC_SEQ_CST);
	rig_hold(rig, 0);
	if (rig->queue && rig->coenv)
		close_stepped(rig);
	else if (rig->queue)
		assert_int_equal(kvh_queue_close(rig->queue, 0, NULL), KVH_OK);
	assert_int_equal(kvh_store_close(rig->store, 0), KVH_OK);
	rig->env->ops->cond_destroy(rig->env->ctx, rig->released);
	rig->env->ops->mutex_destroy(rig->env->ctx, rig->mutex);
	if (rig->coenv)
		coenv_close(rig->coenv);
	free(rig);
}

/* ---- moving ------------------------------------------------------------------------------- */

void rig_step(struct rig *rig, size_t thread)
{
	coenv_resume(rig->coenv, thread);
}

void rig_turn(struct rig *rig, size_t thread)
{
	/* Between two jobs a thread yields; asleep again it has nothing to do. */
	for (int i = 0; i < 8; i++)
		rig_step(rig, thread);
}

void rig_advance_ms(struct rig *rig, uint64_t ms)
{
	coenv_advance_ns(rig->coenv, ms * MS);
}

void rig_hold(struct rig *rig, uint32_t ops)
{
	__atomic_store_n(&rig->hold, ops, __ATOMIC_SEQ_CST);
}

void rig_wait_inside(struct rig *rig, uint32_t count)
{
	while (__atomic_load_n(&rig->inside, __ATOMIC_SEQ_CST) != count)
		rig->env->ops->sleep_ns(rig->env->ctx, 100000);
}

/* ---- jobs --------------------------------------------------------------------------------- */

struct kvh_queue_job rig_job(struct rig *rig, enum kvh_queue_op op, uint64_t first, size_t count)
{
	static _Thread_local struct kvh_key keys[RIG_KEYS_MAX];
	static _Thread_local struct kvh_value values[RIG_KEYS_MAX];
	bool has_values = op == KVH_QUEUE_GET || op == KVH_QUEUE_PUT;

	assert_true(first + count <= RIG_KEYS_MAX);
	for (size_t i = 0; i < count; i++) {
		keys[i] =
			(struct kvh_key){(const uint8_t *)&rig->hash[first + i], 8, rig->prefix_id};
		values[i] = (struct kvh_value){.segments = &rig->segments[first + i],
		                               .segment_count = 1};
	}
	return (struct kvh_queue_job){
		.struct_bytes = sizeof(struct kvh_queue_job),
		.op = op,
		.user = 7000 + first,
		.batch = {count, keys, has_values ? values : NULL, NULL},
	};
}

uint64_t rig_submit(struct rig *rig, const struct kvh_queue_job *job)
{
	struct kvh_error error = {0};
	uint64_t id = 0;

	if (kvh_queue_submit(rig->queue, job, &id, &error))
		fail_msg("%s", error.text);
	assert_true(id != 0);
	return id;
}

uint64_t rig_put(struct rig *rig, uint64_t first, size_t count)
{
	const struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_PUT, first, count);

	return rig_submit(rig, &job);
}

uint64_t rig_get(struct rig *rig, uint64_t first, size_t count)
{
	const struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_GET, first, count);

	return rig_submit(rig, &job);
}

bool rig_poll(struct rig *rig, struct kvh_queue_completion *completion)
{
	size_t count = 77;

	assert_int_equal(kvh_queue_poll(rig->queue, completion, sizeof(*completion), 1, &count),
	                 KVH_OK);
	assert_in_range(count, 0, 1);
	return count == 1;
}

void rig_assert_ended(struct rig *rig, uint64_t job_id, kvh_status status)
{
	struct kvh_queue_completion completion;

	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.job_id, job_id);
	assert_int_equal(completion.status, status);
	rig_assert_nothing(rig);
}

void rig_assert_nothing(struct rig *rig)
{
	struct kvh_queue_completion completion;

	assert_false(rig_poll(rig, &completion));
}

enum kvh_cancel_outcome rig_cancel(struct rig *rig, uint64_t job_id)
{
	enum kvh_cancel_outcome outcome;

	assert_int_equal(kvh_queue_cancel(rig->queue, job_id, &outcome), KVH_OK);
	return outcome;
}

enum kvh_queue_job_state rig_state(struct rig *rig, uint64_t job_id)
{
	struct kvh_queue_job_info info = {.struct_bytes = sizeof(info)};

	assert_int_equal(kvh_queue_get_job(rig->queue, job_id, &info), KVH_OK);
	return info.state;
}

struct kvh_queue_stats rig_stats(struct rig *rig)
{
	struct kvh_queue_stats stats = {.struct_bytes = sizeof(stats)};

	assert_int_equal(kvh_queue_get_stats(rig->queue, &stats), KVH_OK);
	return stats;
}

const char *rig_calls(struct rig *rig)
{
	static char taken[RIG_LOG_BYTES];

	rig->env->ops->mutex_lock(rig->env->ctx, rig->mutex);
	memcpy(taken, rig->log, rig->log_bytes);
	taken[rig->log_bytes] = 0;
	rig->log_bytes = 0;
	rig->env->ops->mutex_unlock(rig->env->ctx, rig->mutex);
	return taken;
}
