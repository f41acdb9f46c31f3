/* SPDX-License-Identifier: Apache-2.0 */
/* The outside view: which block is lent to which job, and what must have become of it. */
#include "unit/worker/stress_oracle.h"

#include <stdlib.h>
#include <string.h>

#include "unit/base/unit.h"

enum { POISON = 0xb2, UNLOADED = 0xa5, POLL_MAX = 7 };

enum slot_state { SLOT_FREE, SLOT_LENT, SLOT_BACK }; /* BACK: drained, not completed yet */

struct slot {
	enum slot_state state;
	bool accepted; /* the call has returned */
	bool is_load;
	uint64_t job_id;
	uint64_t request;
	uint64_t word;
	uint64_t identity;
	int32_t ids[ORACLE_CHUNKS_MAX];
	bool failed[ORACLE_CHUNKS_MAX];
	size_t count;
};

struct oracle {
	struct rig *rig;
	const struct kvh_env *env;
	struct kvh_mutex *poll_mutex;  /* keeps completions in their order */
	uint32_t changing, submitting; /* atomic: identity is not changed under a hand-in */
	uint64_t identity;
	struct kvh_mutex *mutex; /* guards what follows */
	uint64_t serial;
	struct slot slots[ORACLE_SLOTS];
	int32_t free_ids[ORACLE_BLOCKS];
	size_t free_count;
	struct oracle_counts counts;
	const char *fault;
};

static void lock(struct oracle *oracle)
{
	oracle->env->ops->mutex_lock(oracle->env->ctx, oracle->mutex);
}

static void unlock(struct oracle *oracle)
{
	oracle->env->ops->mutex_unlock(oracle->env->ctx, oracle->mutex);
}

/* Lock held. */
static void demand(struct oracle *oracle, bool condition, const char *fault)
{
	if (!condition && !oracle->fault)
		oracle->fault = fault;
}

void oracle_demand(struct oracle *oracle, bool condition, const char *fault)
{
	lock(oracle);
	demand(oracle, condition, fault);
	unlock(oracle);
}

static bool is_poisoned(const uint64_t *block)
{
	const unsigned char *bytes = (const unsigned char *)block;

	for (size_t i = 0; i < RIG_BLOCK_BYTES; i++) {
		if (bytes[i] != POISON)
			return false;
	}
	return true;
}

/* The engine uses a block that it has back: whoever still touches it is found out. */
static void give_back(struct oracle *oracle, const struct slot *slot)
{
	for (size_t i = 0; i < slot->count; i++) {
		memset(rig_block(oracle->rig, slot->ids[i]), POISON, RIG_BLOCK_BYTES);
		oracle->free_ids[oracle->free_count++] = slot->ids[i];
	}
}

struct oracle *oracle_open(struct rig *rig)
{
	struct oracle *oracle = calloc(1, sizeof(*oracle));

	assert_non_null(oracle);
	oracle->rig = rig;
	oracle->env = kvh_env_posix();
	assert_int_equal(oracle->env->ops->mutex_create(oracle->env->ctx, &oracle->mutex), KVH_OK);
	assert_int_equal(oracle->env->ops->mutex_create(oracle->env->ctx, &oracle->poll_mutex),
	                 KVH_OK);
	for (int32_t id = 1; id < ORACLE_BLOCKS; id++) {
		memset(rig_block(rig, id), POISON, RIG_BLOCK_BYTES);
		oracle->free_ids[oracle->free_count++] = id;
	}
	return oracle;
}

void oracle_close(struct oracle *oracle)
{
	for (size_t i = 0; i < ORACLE_SLOTS; i++)
		assert_int_equal(oracle->slots[i].state, SLOT_FREE);
	assert_int_equal(oracle->free_count, ORACLE_BLOCKS - 1);
	for (int32_t id = 1; id < ORACLE_BLOCKS; id++)
		assert_true(is_poisoned(rig_block(oracle->rig, id)));
	oracle->env->ops->mutex_destroy(oracle->env->ctx, oracle->mutex);
	oracle->env->ops->mutex_destroy(oracle->env->ctx, oracle->poll_mutex);
	free(oracle);
}

struct oracle_counts oracle_counts(struct oracle *oracle)
{
	struct oracle_counts counts;

	lock(oracle);
	counts = oracle->counts;
	unlock(oracle);
	return counts;
}

const char *oracle_fault(struct oracle *oracle)
{
	const char *fault;

	lock(oracle);
	fault = oracle->fault;
	unlock(oracle);
	return fault;
}

const char *oracle_request(uint64_t number)
{
	static const char names[] = "a\0b\0c\0d\0e\0f\0g\0h\0i\0j\0k\0l";

	return names + 2 * (number % ORACLE_REQUESTS);
}

static struct slot *take_slot(struct oracle *oracle, uint64_t *seed)
{
	size_t count = 1 + draw(seed) % ORACLE_CHUNKS_MAX;
	struct slot *slot = NULL;

	for (size_t i = 0; i < ORACLE_SLOTS && !slot; i++) {
		if (oracle->slots[i].state == SLOT_FREE)
			slot = &oracle->slots[i];
	}
	if (!slot || oracle->free_count < count)
		return NULL;
	*slot = (struct slot){.state = SLOT_LENT,
	                      .is_load = draw(seed) % 2,
	                      .request = draw(seed) % ORACLE_REQUESTS,
	                      .count = count};
	slot->job_id = ++oracle->serial * ORACLE_SLOTS + (uint64_t)(slot - oracle->slots);
	slot->word = 1000 + slot->request * 8;
	for (size_t i = 0; i < count; i++) {
		/* The last one given back is reused first: it is the one most in danger. */
		slot->ids[i] = oracle->free_ids[--oracle->free_count];
		demand(oracle, is_poisoned(rig_block(oracle->rig, slot->ids[i])),
		       "a block was written after it was given back");
	}
	return slot;
}

static kvh_status hand_in(struct oracle *oracle, struct slot *slot)
{
	const struct rig_job job = {.job_id = slot->job_id,
	                            .request = oracle_request(slot->request),
	                            .word = slot->word,
	                            .ids = slot->ids,
	                            .count = slot->count};

	for (size_t i = 0; i < slot->count; i++) {
		uint64_t *block = rig_block(oracle->rig, slot->ids[i]);

		if (slot->is_load)
			memset(block, UNLOADED, RIG_BLOCK_BYTES);
		else
			rig_fill(block, slot->word + i, slot->identity);
	}
	return slot->is_load ? rig_load(oracle->rig, &job, NULL)
	                     : rig_save(oracle->rig, &job, NULL);
}

/* The job may have completed already, and its slot be another's. */
static void settle_hand_in(struct oracle *oracle, struct slot *slot, uint64_t job_id, bool is_load,
                           kvh_status status)
{
	lock(oracle);
	oracle->counts.accepted += status == KVH_OK;
	oracle->counts.refused += status == KVH_BUSY;
	oracle->counts.closed += status == KVH_CLOSED;
	oracle->counts.load_refused += is_load && status == KVH_BUSY;
	demand(oracle, !status || status == KVH_BUSY || status == KVH_CLOSED, "unexpected refusal");
	if (!status && slot->job_id == job_id)
		slot->accepted = true;
	if (status) {
		demand(oracle, slot->job_id == job_id && slot->state == SLOT_LENT,
		       "a refused job completed");
		give_back(oracle, slot);
		slot->state = SLOT_FREE;
	}
	unlock(oracle);
}

bool oracle_submit(struct oracle *oracle, uint64_t *seed)
{
	struct slot *slot;
	uint64_t job_id = 0;
	bool is_load = false;
	kvh_status status;

	__atomic_add_fetch(&oracle->submitting, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&oracle->changing, __ATOMIC_SEQ_CST)) {
		__atomic_sub_fetch(&oracle->submitting, 1, __ATOMIC_SEQ_CST);
		oracle->env->ops->sleep_ns(oracle->env->ctx, 20000);
		__atomic_add_fetch(&oracle->submitting, 1, __ATOMIC_SEQ_CST);
	}
	lock(oracle);
	slot = take_slot(oracle, seed);
	if (slot) {
		slot->identity = oracle->identity;
		job_id = slot->job_id;
		is_load = slot->is_load;
	}
	unlock(oracle);
	status = slot ? hand_in(oracle, slot) : KVH_BUSY;
	if (slot)
		settle_hand_in(oracle, slot, job_id, is_load, status);
	__atomic_sub_fetch(&oracle->submitting, 1, __ATOMIC_SEQ_CST);
	if (status == KVH_BUSY)
		oracle->env->ops->sleep_ns(oracle->env->ctx, 50000);
	return !status || status == KVH_BUSY;
}

void oracle_change_identity(struct oracle *oracle)
{
	kvh_status status;

	__atomic_store_n(&oracle->changing, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&oracle->submitting, __ATOMIC_SEQ_CST))
		oracle->env->ops->sleep_ns(oracle->env->ctx, 20000);
	status = rig_set_identity(oracle->rig, oracle->identity + 1, NULL);
	oracle->identity += status == KVH_OK;
	oracle_demand(oracle, !status || status == KVH_CLOSED, "no other identity");
	__atomic_store_n(&oracle->changing, 0, __ATOMIC_SEQ_CST);
}

/* Lock held. */
static void see_failed(struct oracle *oracle, struct slot *slot,
                       const struct kvh_completion *completion)
{
	uint32_t i = completion->block_index;

	demand(oracle, slot->is_load, "a failed block of a save");
	demand(oracle, i < slot->count && slot->ids[i] == completion->block_id,
	       "a failed block that the load has not");
	demand(oracle, completion->status < 0, "a block failed without a reason");
	if (i >= slot->count)
		return;
	demand(oracle, !slot->failed[i], "a block failed twice");
	slot->failed[i] = true;
	oracle->counts.failed_blocks++;
}

static void see_load_done(struct oracle *oracle, const struct slot *slot, kvh_status status)
{
	size_t failed = 0;

	for (size_t i = 0; i < slot->count; i++) {
		failed += slot->failed[i];
		if (slot->failed[i] || slot->state == SLOT_BACK)
			continue;
		demand(oracle,
		       rig_holds(rig_block(oracle->rig, slot->ids[i]), slot->word + i,
		                 slot->identity),
		       "a block that was not reported failed is not good");
		oracle->counts.good_blocks++;
	}
	demand(oracle, (status == KVH_OK) == (failed == 0), "status and failed blocks differ");
	oracle->counts.good_loads += failed == 0;
	oracle->counts.failed_loads += failed != 0;
}

static void see(struct oracle *oracle, const struct kvh_completion *completion)
{
	struct slot *slot = &oracle->slots[completion->job_id % ORACLE_SLOTS];
	bool known = slot->state != SLOT_FREE && slot->job_id == completion->job_id;

	demand(oracle, known, "a completion of a job that is not live: twice, or refused");
	demand(oracle, completion->user == completion->job_id + 1, "another user word");
	if (!known)
		return;
	if (completion->kind == KVH_BLOCK_FAILED) {
		see_failed(oracle, slot, completion);
		return;
	}
	demand(oracle, completion->kind == (slot->is_load ? KVH_LOAD_DONE : KVH_SAVE_DONE),
	       "a completion of another kind");
	oracle->counts.cancelled += completion->status == KVH_CANCELLED;
	if (slot->is_load)
		see_load_done(oracle, slot, completion->status);
	if (slot->state == SLOT_LENT)
		give_back(oracle, slot);
	slot->state = SLOT_FREE;
}

bool oracle_poll(struct oracle *oracle, uint64_t *seed)
{
	struct kvh_completion completions[POLL_MAX];
	size_t count = 0;
	kvh_status status;

	oracle->env->ops->mutex_lock(oracle->env->ctx, oracle->poll_mutex);
	status = kvh_worker_poll(rig_worker(oracle->rig), completions, sizeof(completions[0]),
	                         1 + draw(seed) % POLL_MAX, &count);
	lock(oracle);
	demand(oracle, !status, "poll failed");
	for (size_t i = 0; i < count; i++)
		see(oracle, &completions[i]);
	unlock(oracle);
	oracle->env->ops->mutex_unlock(oracle->env->ctx, oracle->poll_mutex);
	return count > 0;
}

void oracle_drain(struct oracle *oracle, uint64_t *seed)
{
	uint64_t before[ORACLE_SLOTS] = {0};
	uint64_t number = draw(seed) % ORACLE_REQUESTS;
	const struct kvh_request_id request = rig_request(oracle_request(number));
	uint64_t now_ns = oracle->env->ops->now_ns(oracle->env->ctx);
	size_t left = 0;

	lock(oracle);
	for (size_t i = 0; i < ORACLE_SLOTS; i++) {
		const struct slot *slot = &oracle->slots[i];

		if (slot->state == SLOT_LENT && slot->accepted && slot->request == number)
			before[i] = slot->job_id;
	}
	unlock(oracle);
	if (kvh_worker_drain(rig_worker(oracle->rig), &request,
	                     draw(seed) % 3 ? now_ns + 3000000 : 1, &left)) {
		lock(oracle);
		demand(oracle, left > 0, "drain timed out with nothing left");
		unlock(oracle);
		return;
	}
	lock(oracle);
	for (size_t i = 0; i < ORACLE_SLOTS; i++) {
		struct slot *slot = &oracle->slots[i];

		if (!before[i] || slot->job_id != before[i] || slot->state != SLOT_LENT)
			continue;
		give_back(oracle, slot);
		slot->state = SLOT_BACK;
		oracle->counts.drained++;
	}
	unlock(oracle);
}

uint64_t oracle_some_job(struct oracle *oracle, uint64_t *seed)
{
	uint64_t job_id;

	lock(oracle);
	job_id = oracle->slots[draw(seed) % ORACLE_SLOTS].job_id;
	unlock(oracle);
	return job_id;
}
