/* SPDX-License-Identifier: Apache-2.0 */
/* put, commit, abort: reserve under the lock, copy without it, commit by one word. */
#include <string.h>

#include "pool/local/local.h"

#include "base/fault.h"
#include "base/hash.h"
#include "pool/fabric/memory.h"

/* Keys of somebody else's unfinished put are waited for at most this long in a call. */
#define BUSY_WAIT_NS UINT64_C(100000000)

enum { SMALL_TABLE = 2 * KVH_TURN_KEYS_MAX };

/* First places of keys in the batch, by hash: the same key twice is one object (S-10). */
struct first_places {
	uint64_t *entries; /* tag 32 | place + 1; open addressing, twice as many as keys */
	size_t mask;
	uint64_t small[SMALL_TABLE];
};

struct put {
	struct kvh_local *local;
	const struct kvh_batch *batch;
	const struct kvh_put_options *options;
	const struct kvh_call *call;
	struct first_places places;
	uint32_t slot_flags;
	uint64_t until_unit;
	kvh_deadline busy_until_ns; /* 0: nothing was busy yet */
	size_t unchecked_bytes;     /* copied since the last look at the clock */
};

/* Up to 64 keys of the batch, each once. */
struct put_turn {
	size_t count;
	struct kvh_stored_key stored[KVH_TURN_KEYS_MAX];
	struct kvh_reserve_key keys[KVH_TURN_KEYS_MAX];
	size_t places[KVH_TURN_KEYS_MAX]; /* in the batch */
};

/* ---- the same key twice ---------------------------------------------------------------- */

static kvh_status places_init(struct first_places *places, size_t count)
{
	size_t entries = SMALL_TABLE;

	memset(places->small, 0, sizeof(places->small));
	places->entries = places->small;
	while (entries < 2 * count)
		entries *= 2;
	places->mask = entries - 1;
	if (entries == SMALL_TABLE)
		return KVH_OK;
	places->entries = kvh_calloc(entries, sizeof(*places->entries));
	return places->entries ? KVH_OK : KVH_NO_MEMORY;
}

static void places_fini(struct first_places *places)
{
	if (places->entries != places->small)
		kvh_free(places->entries);
}

static bool same_key(const struct kvh_key *a, const struct kvh_key *b)
{
	return a->prefix_id == b->prefix_id && a->hash_bytes == b->hash_bytes &&
	       memcmp(a->hash, b->hash, a->hash_bytes) == 0;
}

/* Where this key stands first in the batch: place itself if not before. */
static size_t first_place(struct put *put, uint64_t hash, size_t place)
{
	struct first_places *places = &put->places;

	for (size_t at = hash & places->mask;; at = (at + 1) & places->mask) {
		uint64_t entry = places->entries[at];
		size_t other = (uint32_t)entry - 1;

		if (entry == 0) {
			places->entries[at] = (hash & ~(uint64_t)UINT32_MAX) | (place + 1);
			return place;
		}
		if (entry >> 32 == hash >> 32 &&
		    same_key(&put->batch->keys[other], &put->batch->keys[place]))
			return other;
	}
}

/* ---- reserve --------------------------------------------------------------------------- */

static kvh_status stop_status(enum kvh_reserve_step step, const struct put *put)
{
	return step == KVH_RESERVE_LOCKED ? KVH_TIMEOUT : kvh_local_stop(put->local, put->call);
}

/* Every key has its status after this. */
static void reserve_keys(struct put *put, struct kvh_reserve_key *keys, size_t count)
{
	struct kvh_reserve reserve = {.keys = keys,
	                              .count = count,
	                              .flags = put->slot_flags,
	                              .until_unit = put->until_unit};
	enum kvh_reserve_step step;
	/* Before it evicts for a call that nobody waits for. */
	kvh_status stop = kvh_local_stop(put->local, put->call);

	kvh_core_collect(&put->local->core, kvh_local_deadline(put->call));
	while (!stop) {
		step = kvh_core_reserve(&put->local->core, &reserve, kvh_now_ns(put->local->env),
		                        kvh_local_deadline(put->call));
		if (step == KVH_RESERVE_DONE)
			return;
		stop = stop_status(step, put);
		if (!stop && step == KVH_RESERVE_WAIT)
			kvh_local_nap(put->local);
	}
	for (; reserve.next < count; reserve.next++)
		keys[reserve.next].status = stop;
}

static void reserve(struct put *put, struct put_turn *turn)
{
	struct kvh_reserve_key again[KVH_TURN_KEYS_MAX];
	size_t of[KVH_TURN_KEYS_MAX];
	size_t count = 0;

	reserve_keys(put, turn->keys, turn->count);
	for (size_t i = 0; i < turn->count; i++) {
		if (turn->keys[i].status != KVH_NO_AVAILABLE_HANDLE)
			continue;
		of[count] = i;
		again[count++] = turn->keys[i];
	}
	/* What the dead hold is no reason to say that nothing is left (S-14). */
	if (!count || !kvh_local_bury(put->local, kvh_local_deadline(put->call)))
		return;
	reserve_keys(put, again, count);
	for (size_t i = 0; i < count; i++)
		turn->keys[of[i]] = again[i];
}

/* ---- copy ------------------------------------------------------------------------------ */

static struct kvh_piece piece_of(const struct put *put, const struct put_turn *turn, size_t index)
{
	return (struct kvh_piece){
		.extent = kvh_core_extent(&put->local->core, turn->keys[index].ref.slot),
		.value = &put->batch->values[turn->places[index]],
	};
}

static kvh_status copy_in(struct put *put, const struct kvh_piece *piece,
                          const struct kvh_piece *next, size_t bytes)
{
	struct kvh_piece_cursor cursor = {0};
	kvh_status stop = KVH_OK;

	do {
		if (put->unchecked_bytes >= KVH_LOCAL_STEP_BYTES) {
			stop = kvh_local_stop(put->local, put->call);
			put->unchecked_bytes = 0;
		}
		if (stop)
			return stop;
		put->unchecked_bytes += bytes < KVH_LOCAL_STEP_BYTES ? bytes : KVH_LOCAL_STEP_BYTES;
	} while (!kvh_fabric_memory_put_some(piece, &cursor, KVH_LOCAL_STEP_BYTES, next));
	return KVH_OK;
}

static kvh_status fill_one(struct put *put, const struct put_turn *turn, size_t index)
{
	struct kvh_core *core = &put->local->core;
	const struct kvh_reserve_key *key = &turn->keys[index];
	struct kvh_piece piece = piece_of(put, turn, index), next;
	bool has_next = index + 1 < turn->count && turn->keys[index + 1].status == KVH_OK;
	kvh_status stop;

	if (has_next)
		next = piece_of(put, turn, index + 1);
	stop = copy_in(put, &piece, has_next ? &next : NULL, key->length_bytes);
	if (stop)
		return stop;
	if (key->key->text_bytes)
		memcpy(piece.extent + key->length_bytes, key->key->text, key->key->text_bytes);
	if (core->area.sums)
		atomic_store_explicit(&core->area.sums[key->ref.slot],
		                      kvh_hash64(piece.extent, key->length_bytes),
		                      memory_order_relaxed);
	return KVH_OK;
}

static void prefetch_all(const struct put *put, const struct put_turn *turn)
{
	for (size_t i = 0; i < turn->count; i++) {
		struct kvh_piece piece;

		if (turn->keys[i].status)
			continue;
		piece = piece_of(put, turn, i);
		kvh_fabric_memory_prefetch(&piece);
	}
}

/* Fills what was reserved; from a stop on nothing more. Those that stopped lose their places. */
static void fill(struct put *put, struct put_turn *turn)
{
	struct kvh_core_ref stopped[KVH_TURN_KEYS_MAX];
	kvh_status ignored[KVH_TURN_KEYS_MAX];
	kvh_status stop = KVH_OK;
	size_t count = 0;

	prefetch_all(put, turn);
	for (size_t i = 0; i < turn->count; i++) {
		if (turn->keys[i].status)
			continue;
		if (!stop)
			stop = fill_one(put, turn, i);
		if (!stop)
			continue;
		turn->keys[i].status = stop;
		stopped[count++] = turn->keys[i].ref;
	}
	/* Placed and ordered before any commit word (S-3). */
	kvh_fabric_memory_fence();
	if (count)
		kvh_local_let_go(put->local, stopped, count, ignored);
}

static void commit(struct put *put, struct put_turn *turn)
{
	struct kvh_core_ref refs[KVH_TURN_KEYS_MAX];
	kvh_status statuses[KVH_TURN_KEYS_MAX];
	size_t of[KVH_TURN_KEYS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < turn->count; i++) {
		if (turn->keys[i].status)
			continue;
		of[count] = i;
		refs[count++] = turn->keys[i].ref;
	}
	if (!count)
		return;
	kvh_core_commit(&put->local->core, refs, count, kvh_local_now_unit(put->local), statuses);
	for (size_t i = 0; i < count; i++)
		turn->keys[of[i]].status = statuses[i];
}

static void store_turn(struct put *put, struct put_turn *turn)
{
	reserve(put, turn);
	fill(put, turn);
	for (size_t i = 0; put->options->tokens && i < turn->count; i++)
		if (turn->keys[i].status == KVH_OK)
			kvh_core_token(&put->local->core, &turn->keys[i].ref,
			               &put->options->tokens[turn->places[i]]);
	if (!(put->options->flags & KVH_PUT_HOLD))
		commit(put, turn);
	for (size_t i = 0; i < turn->count; i++)
		put->batch->results[turn->places[i]].value = turn->keys[i].status;
}

/* ---- somebody else's keys -------------------------------------------------------------- */

/* Keeps the busy keys of the turn alone. */
static void keep_busy(struct put_turn *turn)
{
	size_t kept = 0;

	for (size_t i = 0; i < turn->count; i++) {
		if (turn->keys[i].status != KVH_BUSY)
			continue;
		turn->keys[kept] = turn->keys[i];
		turn->places[kept++] = turn->places[i];
	}
	turn->count = kept;
}

/* After all own keys of the turn: the other writer either commits (-705) or lets go. */
static void wait_for_others(struct put *put, struct put_turn *turn)
{
	uint32_t looks = 0;

	keep_busy(turn);
	if (turn->count && !put->busy_until_ns)
		put->busy_until_ns = kvh_deadline_after(put->local->env, BUSY_WAIT_NS);
	while (turn->count) {
		kvh_local_nap(put->local);
		if (looks++ % KVH_LOCAL_BURY_NAPS == 0)
			kvh_local_bury(put->local, kvh_local_deadline(put->call));
		if (kvh_deadline_passed(put->local->env, put->busy_until_ns) ||
		    kvh_local_stop(put->local, put->call))
			break;
		store_turn(put, turn);
		keep_busy(turn);
	}
	for (size_t i = 0; i < turn->count; i++)
		put->batch->results[turn->places[i]].value = KVH_REPLICA_IS_NOT_READY;
}

/* ---- put ------------------------------------------------------------------------------- */

static void copy_result(struct put *put, size_t from, size_t to)
{
	put->batch->results[to] = put->batch->results[from];
	if (put->options->tokens)
		put->options->tokens[to] = put->options->tokens[from];
}

static void put_part(struct put *put, size_t first, size_t count)
{
	struct put_turn turn = {.count = 0};
	size_t firsts[KVH_TURN_KEYS_MAX];

	kvh_core_prepare(&put->local->core, put->batch->keys + first, count, turn.stored);
	for (size_t i = 0; i < count; i++) {
		firsts[i] = first_place(put, turn.stored[i].hash, first + i);
		if (firsts[i] != first + i)
			continue;
		turn.keys[turn.count] = (struct kvh_reserve_key){
			.key = &turn.stored[i],
			.length_bytes = kvh_local_value_bytes(&put->batch->values[first + i])};
		turn.places[turn.count++] = first + i;
	}
	store_turn(put, &turn);
	wait_for_others(put, &turn);
	for (size_t i = 0; i < count; i++)
		if (firsts[i] != first + i)
			copy_result(put, firsts[i], first + i);
}

static void read_options(struct put *put)
{
	const struct kvh_put_options *options = put->options;
	uint64_t seconds =
		options->expire_seconds ? options->expire_seconds : options->keep_seconds;
	uint64_t now_ns = kvh_now_ns(put->local->env);

	put->slot_flags = options->priority & KVH_SLOT_PRIORITY_MASK;
	if (options->flags & KVH_PUT_LIFECYCLE_GROUP)
		put->slot_flags |= KVH_SLOT_GROUP;
	if (options->expire_seconds)
		put->slot_flags |= KVH_SLOT_EXPIRES;
	if (!seconds)
		return;
	kvh_times_rebase(&put->local->core.area, now_ns);
	put->until_unit = kvh_time_until(now_ns, seconds);
}

kvh_status kvh_local_put(void *self, const struct kvh_batch *batch,
                         const struct kvh_put_options *options, const struct kvh_call *call)
{
	static const struct kvh_put_options defaults = {.struct_bytes = sizeof(defaults)};
	struct put put = {.local = self,
	                  .batch = batch,
	                  .options = options ? options : &defaults,
	                  .call = call,
	                  .unchecked_bytes = KVH_LOCAL_STEP_BYTES};
	kvh_status status = places_init(&put.places, batch->count);

	if (status)
		return status;
	read_options(&put);
	for (size_t first = 0; first < batch->count; first += KVH_TURN_KEYS_MAX) {
		size_t left = batch->count - first;

		put_part(&put, first, left < KVH_TURN_KEYS_MAX ? left : KVH_TURN_KEYS_MAX);
	}
	places_fini(&put.places);
	return KVH_OK;
}

/* ---- held reservations ----------------------------------------------------------------- */

static void settle_tokens(struct kvh_local *local, const struct kvh_token *tokens, size_t count,
                          struct kvh_result *results, bool committing)
{
	struct kvh_core_ref refs[KVH_TURN_KEYS_MAX];
	kvh_status statuses[KVH_TURN_KEYS_MAX];

	for (size_t i = 0; i < count; i++)
		kvh_core_token_ref(&local->core, &tokens[i], &refs[i]);
	if (committing)
		kvh_core_commit(&local->core, refs, count, kvh_local_now_unit(local), statuses);
	else
		kvh_local_let_go(local, refs, count, statuses);
	for (size_t i = 0; i < count; i++)
		results[i].value = statuses[i];
}

static kvh_status settle(struct kvh_local *local, const struct kvh_token *tokens, size_t count,
                         struct kvh_result *results, bool committing)
{
	for (size_t first = 0; first < count; first += KVH_TURN_KEYS_MAX) {
		size_t left = count - first;

		settle_tokens(local, tokens + first,
		              left < KVH_TURN_KEYS_MAX ? left : KVH_TURN_KEYS_MAX, results + first,
		              committing);
	}
	return KVH_OK;
}

kvh_status kvh_local_commit(void *self, const struct kvh_token *tokens, size_t count,
                            struct kvh_result *results)
{
	return settle(self, tokens, count, results, true);
}

kvh_status kvh_local_abort(void *self, const struct kvh_token *tokens, size_t count,
                           struct kvh_result *results)
{
	return settle(self, tokens, count, results, false);
}
