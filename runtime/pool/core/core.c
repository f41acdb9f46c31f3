/* SPDX-License-Identifier: Apache-2.0 */
/* Turns on the core: touch, commit, abort, remove, clear, and the small ones. */
#include "pool/core/core.h"

#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "pool/core/evict.h"
#include "pool/core/find.h"
#include "pool/core/prefixes.h"
#include "pool/core/ring.h"
#include "pool/core/sessions.h"
#include "pool/core/spans.h"
#include "pool/core/victims.h"

kvh_status kvh_core_open(struct kvh_core *core, void *memory, const struct kvh_core_lock *lock)
{
	*core = (struct kvh_core){.lock = *lock, .hash_mask = UINT64_MAX};
	kvh_area_attach(&core->area, memory);
	core->victims_max = kvh_victims_list_max(&core->area);
	core->scratch = kvh_alloc(2 * (size_t)core->victims_max * sizeof(*core->scratch));
	return core->scratch ? KVH_OK : KVH_NO_MEMORY;
}

void kvh_core_close(struct kvh_core *core)
{
	kvh_free(core->scratch);
}

/* ---- touch and commit ------------------------------------------------------------------ */

/* Keeps the until code, and the younger of two uses. */
static uint64_t set_use(struct kvh_slot *slot, uint64_t last_use)
{
	uint64_t use = atomic_load_explicit(&slot->use, memory_order_relaxed);
	uint64_t wanted;

	do {
		if (use >> 16 >= last_use)
			return use;
		wanted = last_use << 16 | (use & 0xffff);
	} while (!atomic_compare_exchange_weak(&slot->use, &use, wanted));
	return wanted;
}

static void note(struct kvh_core *core, uint64_t ctl, uint64_t use, uint64_t now_unit)
{
	uint64_t until = kvh_until_unit(&core->area, use);

	kvh_victims_note(&core->area, kvh_slot_rank(&core->area, ctl, use, now_unit),
	                 until > now_unit ? until : UINT64_MAX);
}

static uint64_t touch_slack(const struct kvh_core *core)
{
	if (!core->touch_share)
		return 0;
	return atomic_load_explicit(&core->area.fixed->tally.used_slots, memory_order_relaxed) /
	       core->touch_share;
}

void kvh_core_touch(struct kvh_core *core, const struct kvh_core_ref *refs, size_t count,
                    uint64_t now_unit)
{
	uint64_t first = atomic_fetch_add_explicit(&core->area.super->use_counter, count,
	                                           memory_order_relaxed);
	uint64_t slack = touch_slack(core);

	for (size_t i = 0; i < count; i++) {
		struct kvh_slot *slot;
		uint64_t use;

		if (refs[i].slot == KVH_NONE)
			continue;
		slot = &core->area.slots[refs[i].slot];
		use = atomic_load_explicit(&slot->use, memory_order_relaxed);
		if (first + i - (use >> 16) <= slack)
			continue;
		note(core, refs[i].ctl, set_use(slot, first + i), now_unit);
	}
}

static bool commit_one(struct kvh_core *core, const struct kvh_core_ref *ref, uint64_t last_use,
                       uint64_t now_unit)
{
	struct kvh_slot *slot = &core->area.slots[ref->slot];
	uint64_t valid = kvh_ctl_make(kvh_ctl_generation(ref->ctl), 0, KVH_SLOT_VALID,
	                              kvh_ctl_flags(ref->ctl) &
	                                      ~(uint32_t)(KVH_SLOT_DMA | KVH_SLOT_UNWRITTEN));
	uint64_t use;

	if (atomic_load(&slot->ctl) != ref->ctl)
		return false;
	use = set_use(slot, last_use);
	KVH_CRASH_POINT(POOL_COMMIT);
	if (!kvh_slot_move(slot, ref->ctl, valid))
		return false;
	KVH_CRASH_POINT(POOL_COMMITTED);
	note(core, valid, use, now_unit);
	return true;
}

void kvh_core_commit(struct kvh_core *core, const struct kvh_core_ref *refs, size_t count,
                     uint64_t now_unit, kvh_status *statuses)
{
	uint64_t first = atomic_fetch_add_explicit(&core->area.super->use_counter, count,
	                                           memory_order_relaxed);
	uint32_t done = 0;

	for (size_t i = 0; i < count; i++) {
		bool ours =
			refs[i].slot != KVH_NONE && commit_one(core, &refs[i], first + i, now_unit);

		statuses[i] = ours ? KVH_OK : KVH_OBJECT_NOT_FOUND;
		done += ours;
	}
	atomic_fetch_sub_explicit(&core->area.fixed->sessions[core->session].reserved_slots, done,
	                          memory_order_relaxed);
}

bool kvh_core_abort(struct kvh_core *core, const struct kvh_core_ref *refs, size_t count,
                    kvh_deadline deadline_ns, kvh_status *statuses)
{
	if (!kvh_core_take(core, deadline_ns))
		return false;
	for (size_t i = 0; i < count; i++)
		statuses[i] =
			refs[i].slot != KVH_NONE && kvh_release(core, refs[i].slot, refs[i].ctl)
				? KVH_OK
				: KVH_OBJECT_NOT_FOUND;
	kvh_core_give(core);
	return true;
}

void kvh_core_abandon(struct kvh_core *core, const struct kvh_core_ref *refs, size_t count,
                      kvh_status *statuses)
{
	uint32_t done = 0;

	for (size_t i = 0; i < count; i++) {
		bool ours = refs[i].slot != KVH_NONE &&
		            kvh_slot_move(&core->area.slots[refs[i].slot], refs[i].ctl,
		                          refs[i].ctl | KVH_SLOT_ABANDONED);

		statuses[i] = ours ? KVH_OK : KVH_OBJECT_NOT_FOUND;
		done += ours;
	}
	atomic_fetch_add(&core->abandoned, done);
	atomic_fetch_sub_explicit(&core->area.fixed->sessions[core->session].reserved_slots, done,
	                          memory_order_relaxed);
}

static bool is_abandoned(const struct kvh_core *core, uint64_t ctl)
{
	return kvh_ctl_state(ctl) == KVH_SLOT_RESERVED && kvh_ctl_owner(ctl) == core->session + 1 &&
	       (kvh_ctl_flags(ctl) & KVH_SLOT_ABANDONED);
}

void kvh_core_collect(struct kvh_core *core, kvh_deadline deadline_ns)
{
	uint32_t wanted = atomic_load_explicit(&core->abandoned, memory_order_relaxed);
	uint32_t ever = kvh_slots_ever(&core->area);
	struct kvh_core_ref refs[KVH_TURN_KEYS_MAX] = {0};
	kvh_status statuses[KVH_TURN_KEYS_MAX];
	size_t count = 0;

	if (!wanted)
		return;
	for (uint32_t i = 0; i < ever && count < KVH_TURN_KEYS_MAX; i++) {
		uint64_t ctl = atomic_load(&core->area.slots[i].ctl);

		if (is_abandoned(core, ctl))
			refs[count++] = (struct kvh_core_ref){.slot = i, .ctl = ctl};
	}
	if (!kvh_core_abort(core, refs, count, deadline_ns, statuses))
		return;
	/* Others may have freed some: fewer than a turn's are all. */
	if (count < KVH_TURN_KEYS_MAX)
		atomic_compare_exchange_strong(&core->abandoned, &wanted, 0);
}

void kvh_core_token(const struct kvh_core *core, const struct kvh_core_ref *ref,
                    struct kvh_token *token)
{
	token->word[0] = core->area.epoch;
	token->word[1] = ref->slot;
	token->word[2] = kvh_ctl_generation(ref->ctl);
}

bool kvh_core_token_ref(const struct kvh_core *core, const struct kvh_token *token,
                        struct kvh_core_ref *ref)
{
	ref->slot = KVH_NONE;
	if (token->word[0] != core->area.epoch || token->word[1] >= core->area.geometry.slot_count)
		return false;
	ref->ctl = atomic_load(&core->area.slots[token->word[1]].ctl);
	if (kvh_ctl_generation(ref->ctl) != token->word[2] ||
	    kvh_ctl_state(ref->ctl) != KVH_SLOT_RESERVED ||
	    (kvh_ctl_flags(ref->ctl) & KVH_SLOT_ABANDONED) ||
	    kvh_ctl_owner(ref->ctl) != core->session + 1)
		return false;
	ref->slot = (uint32_t)token->word[1];
	return true;
}

/* ---- remove ---------------------------------------------------------------------------- */

static kvh_status remove_one(struct kvh_core *core, const struct kvh_stored_key *key,
                             uint64_t now_unit) KVH_REQUIRES(kvh_role_pool)
{
	uint64_t ctl;
	uint32_t slot = kvh_find_locked(core, key, &ctl);

	if (slot == KVH_NONE)
		return KVH_OBJECT_NOT_FOUND;
	if (kvh_ctl_state(ctl) == KVH_SLOT_RESERVED)
		return KVH_REPLICA_IS_NOT_READY;
	if (kvh_slot_expired(&core->area, ctl, atomic_load(&core->area.slots[slot].use), now_unit))
		return KVH_OBJECT_NOT_FOUND;
	return kvh_evict_alone(core, slot) ? KVH_OK : KVH_OBJECT_HAS_LEASE;
}

bool kvh_core_remove(struct kvh_core *core, const struct kvh_stored_key *keys, size_t count,
                     uint64_t now_unit, kvh_deadline deadline_ns, kvh_status *statuses)
{
	if (!kvh_core_take(core, deadline_ns))
		return false;
	for (size_t i = 0; i < count; i++)
		statuses[i] = remove_one(core, &keys[i], now_unit);
	kvh_core_give(core);
	return true;
}

bool kvh_core_clear(struct kvh_core *core, uint32_t *slot, kvh_deadline deadline_ns,
                    uint64_t *removed)
{
	uint32_t ever = kvh_slots_ever(&core->area);

	if (!kvh_core_take(core, deadline_ns))
		return false;
	for (unsigned i = 0; i < KVH_TURN_KEYS_MAX && *slot < ever; i++, ++*slot) {
		uint64_t ctl = atomic_load(&core->area.slots[*slot].ctl);

		if (kvh_ctl_state(ctl) != KVH_SLOT_VALID)
			continue;
		if (!kvh_evict_alone(core, *slot))
			break;
		++*removed;
	}
	kvh_core_give(core);
	return true;
}

/* ---- the rest -------------------------------------------------------------------------- */

size_t kvh_core_take_evicted(struct kvh_core *core, struct kvh_evicted_key *keys, size_t capacity,
                             bool *lost)
{
	return kvh_ring_take(&core->area, &core->area.fixed->sessions[core->session].ring_tail,
	                     keys, capacity, lost);
}

static kvh_status intern(struct kvh_core *core, const struct kvh_prefix *prefix,
                         kvh_deadline deadline_ns, uint32_t *id)
{
	/* Only what was added since has to be looked through under the lock. */
	uint32_t count = atomic_load(&core->area.super->prefix_count);

	*id = kvh_prefix_record_find(&core->area, prefix, 0);
	if (!kvh_core_take(core, deadline_ns))
		return KVH_TIMEOUT;
	if (*id == KVH_NONE)
		*id = kvh_prefix_record_find(&core->area, prefix, count);
	if (*id == KVH_NONE)
		*id = kvh_prefix_record_append(&core->area, prefix);
	if (*id != KVH_NONE && prefix->quota_bytes)
		atomic_store(&core->area.fixed->prefixes[*id].quota_bytes, prefix->quota_bytes);
	kvh_core_give(core);
	return KVH_OK;
}

kvh_status kvh_core_prefix(struct kvh_core *core, const struct kvh_prefix *prefix,
                           kvh_deadline deadline_ns, uint32_t *id, struct kvh_error *error)
{
	uint32_t found = kvh_prefix_record_find(&core->area, prefix, 0);
	kvh_status status = KVH_OK;

	if (found == KVH_NONE || prefix->quota_bytes)
		status = intern(core, prefix, deadline_ns, &found);
	if (status)
		return kvh_fail(error, status, "prefix: the pool's lock is not to be had");
	if (found == KVH_NONE)
		return kvh_fail(error, KVH_BUSY, "prefix: the pool knows %d prefixes, no more fit",
		                KVH_PREFIXES_MAX);
	if (!kvh_prefix_agrees(&core->area, found, prefix))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "prefix: is known with another hash_bytes or family_bytes");
	*id = found;
	return KVH_OK;
}

static uint64_t count_pins(const struct kvh_session_record *session)
{
	uint32_t used = atomic_load(&session->blocks_used);
	uint64_t pins = 0;

	for (; used; used &= used - 1)
		for (unsigned i = 0; i < KVH_TURN_KEYS_MAX; i++)
			pins += atomic_load_explicit(
					&session->blocks[__builtin_ctz(used)].slot_plus_1[i],
					memory_order_relaxed) != 0;
	return pins;
}

void kvh_core_stats(const struct kvh_core *core, struct kvh_store_stats *stats)
{
	const struct kvh_tally *tally = &core->area.fixed->tally;
	uint64_t used = atomic_load(&tally->used_slots);

	stats->pinned_objects = 0;
	stats->reserved_objects = 0;
	for (uint32_t i = 0; i < KVH_SESSIONS_MAX; i++) {
		stats->reserved_objects +=
			atomic_load(&core->area.fixed->sessions[i].reserved_slots);
		if (kvh_session_is_live(&core->area, i))
			stats->pinned_objects += count_pins(&core->area.fixed->sessions[i]);
	}
	/* The two counts are read one after the other. */
	stats->objects = used > stats->reserved_objects ? used - stats->reserved_objects : 0;
	stats->used_bytes = atomic_load(&tally->used_units) * KVH_UNIT_BYTES;
	stats->capacity_bytes = (uint64_t)core->area.geometry.unit_count * KVH_UNIT_BYTES;
	stats->evicted_keys = atomic_load(&tally->evicted_keys);
	stats->evicted_bytes = atomic_load(&tally->evicted_bytes);
	stats->expired_keys = atomic_load(&tally->expired_keys);
}

bool kvh_core_session(const struct kvh_core *core, uint32_t index,
                      struct kvh_store_session *session)
{
	const struct kvh_session_record *record = &core->area.fixed->sessions[index];

	*session = (struct kvh_store_session){
		.serial = kvh_session_serial(&core->area, index),
		.pid = atomic_load(&record->pid),
		.pid_namespace = atomic_load(&record->pid_namespace),
		.pinned_objects = (uint32_t)count_pins(record),
		.reserved_objects = atomic_load(&record->reserved_slots),
		.is_own = index == core->session,
		.is_dead = !kvh_session_is_live(&core->area, index),
	};
	return session->serial != 0;
}
