/* SPDX-License-Identifier: Apache-2.0 */
/* exists and get: no lock, up to 64 keys a turn. */
#include "pool/local/local.h"

#include "base/hash.h"
#include "base/size.h"
#include "pool/fabric/memory.h"

kvh_status kvh_local_stop(const struct kvh_local *local, const struct kvh_call *call)
{
	if (!call)
		return KVH_OK;
	if (call->cancel && kvh_cancel_requested(call->cancel))
		return KVH_CANCELLED;
	return kvh_deadline_passed(local->env, call->deadline_ns) ? KVH_TIMEOUT : KVH_OK;
}

uint64_t kvh_local_value_bytes(const struct kvh_value *value)
{
	size_t bytes = 0;

	if (value->layout)
		return kvh_layout_get_view(value->layout)->value_bytes;
	for (size_t i = 0; i < value->segment_count; i++)
		if (!kvh_size_add(bytes, value->segments[i].bytes, &bytes))
			return UINT64_MAX;
	return bytes;
}

/* ---- exists ---------------------------------------------------------------------------- */

static kvh_status has_key(struct kvh_local *local, const struct kvh_stored_key *key,
                          uint64_t now_unit, const struct kvh_call *call, struct kvh_core_ref *ref)
{
	kvh_status stop = KVH_OK;

	while (!kvh_core_has(&local->core, key, now_unit, ref)) {
		stop = kvh_local_stop(local, call);
		if (stop)
			return stop;
		kvh_local_nap(local);
	}
	return KVH_OK;
}

/* Compares whole texts, and looks again at what was missed while the index was rebuilt. */
static kvh_status find_key(struct kvh_local *local, const struct kvh_stored_key *key,
                           uint64_t now_unit, const struct kvh_call *call,
                           struct kvh_rebuild_watch *watch, struct kvh_core_ref *ref)
{
	kvh_status stop;

	do
		stop = has_key(local, key, now_unit, call, ref);
	while (!stop && ref->slot == KVH_NONE && kvh_local_look_again(local, watch, call));
	return stop;
}

static void exists_turn(struct kvh_local *local, const struct kvh_batch *batch, uint32_t flags,
                        const struct kvh_call *call)
{
	struct kvh_stored_key stored[KVH_TURN_KEYS_MAX];
	struct kvh_core_ref refs[KVH_TURN_KEYS_MAX];
	uint64_t now_unit = kvh_local_now_unit(local);
	struct kvh_rebuild_watch watch = kvh_local_watch(local);

	kvh_core_prepare(&local->core, batch->keys, batch->count, stored);
	kvh_core_find_all(&local->core, stored, batch->count, now_unit, refs);
	for (size_t i = 0; i < batch->count; i++) {
		kvh_status stop = KVH_OK;

		if (refs[i].slot == KVH_NONE ? kvh_local_look_again(local, &watch, call)
		                             : stored[i].text_bytes != 0)
			stop = find_key(local, &stored[i], now_unit, call, &watch, &refs[i]);
		batch->results[i].value = stop ? stop : refs[i].slot != KVH_NONE;
		if (stop)
			refs[i].slot = KVH_NONE;
	}
	if (flags & KVH_EXISTS_DEDUP)
		kvh_core_touch(&local->core, refs, batch->count, now_unit);
}

/* The next turn's part of a batch. */
static struct kvh_batch part_of(const struct kvh_batch *batch, size_t first)
{
	size_t left = batch->count - first;

	return (struct kvh_batch){
		.count = left < KVH_TURN_KEYS_MAX ? left : KVH_TURN_KEYS_MAX,
		.keys = batch->keys + first,
		.values = batch->values ? batch->values + first : NULL,
		.results = batch->results + first,
	};
}

kvh_status kvh_local_exists(void *self, const struct kvh_batch *batch, uint32_t flags,
                            const struct kvh_call *call)
{
	for (size_t first = 0; first < batch->count; first += KVH_TURN_KEYS_MAX) {
		struct kvh_batch part = part_of(batch, first);

		exists_turn(self, &part, flags, call);
	}
	return KVH_OK;
}

/* ---- get ------------------------------------------------------------------------------- */

struct get_turn {
	struct kvh_local *local;
	const struct kvh_call *call;
	struct kvh_batch batch;
	struct kvh_pins pins;
	size_t unchecked_bytes; /* copied since the last look at the clock */
};

bool kvh_local_sum_is_right(const struct kvh_core *core, uint32_t slot)
{
	uint64_t sum;

	if (!core->area.sums)
		return true;
	sum = atomic_load_explicit(&core->area.sums[slot], memory_order_relaxed);
	return sum == kvh_hash64(kvh_core_extent(core, slot), kvh_core_length(core, slot));
}

static kvh_status copy_out(struct get_turn *turn, const struct kvh_piece *piece,
                           const struct kvh_piece *next, size_t bytes)
{
	struct kvh_piece_cursor cursor = {0};
	kvh_status stop = KVH_OK;

	do {
		if (turn->unchecked_bytes >= KVH_LOCAL_STEP_BYTES) {
			stop = kvh_local_stop(turn->local, turn->call);
			turn->unchecked_bytes = 0;
		}
		if (stop)
			return stop;
		turn->unchecked_bytes +=
			bytes < KVH_LOCAL_STEP_BYTES ? bytes : KVH_LOCAL_STEP_BYTES;
	} while (!kvh_fabric_memory_get_some(piece, &cursor, KVH_LOCAL_STEP_BYTES, next));
	return KVH_OK;
}

static struct kvh_piece piece_of(const struct get_turn *turn, size_t index)
{
	return (struct kvh_piece){
		.extent = kvh_core_extent(&turn->local->core, turn->pins.refs[index].slot),
		.value = &turn->batch.values[index],
	};
}

static void prefetch_all(const struct get_turn *turn)
{
	for (size_t i = 0; i < turn->batch.count; i++) {
		struct kvh_piece piece;

		if (turn->pins.refs[i].slot == KVH_NONE)
			continue;
		piece = piece_of(turn, i);
		kvh_fabric_memory_prefetch(&piece);
	}
}

static int64_t get_one(struct get_turn *turn, size_t index)
{
	struct kvh_core *core = &turn->local->core;
	struct kvh_core_ref *refs = turn->pins.refs;
	struct kvh_piece piece, next_piece;
	bool has_next = index + 1 < turn->batch.count && refs[index + 1].slot != KVH_NONE;
	uint64_t bytes = kvh_local_value_bytes(&turn->batch.values[index]);
	kvh_status stop;

	if (refs[index].slot == KVH_NONE)
		return KVH_OBJECT_NOT_FOUND;
	if (bytes != kvh_core_length(core, refs[index].slot))
		return KVH_INVALID_PARAMS;
	if (!kvh_local_sum_is_right(core, refs[index].slot))
		return KVH_CHECKSUM_MISMATCH;
	piece = piece_of(turn, index);
	if (has_next)
		next_piece = piece_of(turn, index + 1);
	stop = copy_out(turn, &piece, has_next ? &next_piece : NULL, bytes);
	return stop ? stop : (int64_t)bytes;
}

/* While a pin holds its object can't have changed; looked at all the same. */
static void check_pins(struct get_turn *turn)
{
	for (size_t i = 0; i < turn->batch.count; i++) {
		struct kvh_result *result = &turn->batch.results[i];

		if (turn->pins.refs[i].slot == KVH_NONE)
			continue;
		if (!kvh_core_pin_holds(&turn->local->core, &turn->pins.refs[i]))
			result->value = KVH_INTERNAL;
		if (result->value < 0)
			turn->pins.refs[i].slot = KVH_NONE;
	}
}

static void fail_all(const struct kvh_batch *batch, kvh_status status)
{
	for (size_t i = 0; i < batch->count; i++)
		batch->results[i].value = status;
}

static bool has_miss(const struct get_turn *turn)
{
	for (size_t i = 0; i < turn->batch.count; i++)
		if (turn->pins.refs[i].slot == KVH_NONE)
			return true;
	return false;
}

/* KVH_OK: the turn's keys are pinned, as far as they are there. */
static kvh_status pin_turn(struct get_turn *turn, const struct kvh_stored_key *stored,
                           uint64_t now_unit)
{
	struct kvh_core *core = &turn->local->core;
	struct kvh_rebuild_watch watch = kvh_local_watch(turn->local);
	kvh_status stop = kvh_local_stop(turn->local, turn->call);

	while (!stop) {
		if (kvh_core_pin(core, stored, turn->batch.count, now_unit, &turn->pins)) {
			if (!has_miss(turn) ||
			    !kvh_local_look_again(turn->local, &watch, turn->call))
				return KVH_OK;
			kvh_core_unpin(core, &turn->pins);
		} else {
			kvh_local_nap(turn->local);
		}
		stop = kvh_local_stop(turn->local, turn->call);
	}
	return stop;
}

static void run_turn(struct get_turn *turn)
{
	struct kvh_core *core = &turn->local->core;
	struct kvh_stored_key stored[KVH_TURN_KEYS_MAX];
	uint64_t now_unit = kvh_local_now_unit(turn->local);
	kvh_status stop;

	kvh_core_prepare(core, turn->batch.keys, turn->batch.count, stored);
	stop = pin_turn(turn, stored, now_unit);
	if (stop) {
		fail_all(&turn->batch, stop);
		return;
	}
	prefetch_all(turn);
	for (size_t i = 0; i < turn->batch.count; i++)
		turn->batch.results[i].value = get_one(turn, i);
	kvh_fabric_memory_fence();
	check_pins(turn);
	kvh_core_touch(core, turn->pins.refs, turn->batch.count, now_unit);
	kvh_core_unpin(core, &turn->pins);
}

kvh_status kvh_local_get(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	struct get_turn turn = {.local = self, .call = call};

	for (size_t first = 0; first < batch->count; first += KVH_TURN_KEYS_MAX) {
		turn.batch = part_of(batch, first);
		run_turn(&turn);
	}
	return KVH_OK;
}
