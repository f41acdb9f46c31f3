/* SPDX-License-Identifier: Apache-2.0 */
/* What a file says beside the objects: sessions, times, uses. None of it is believed unseen. */
#include "pool/core/core.h"
#include "pool/core/sessions.h"

#define LOAD(word)         atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

/* A use a nanosecond gets there in three days, but no pool is used so fast: it is damage. */
#define USES_MAX (UINT64_C(1) << 47)

/* The dead are reaped later. A record that nobody has holds nothing. */
static void bound_session(struct kvh_core *core, uint32_t index, uint64_t now_ns)
	KVH_REQUIRES(kvh_role_pool)
{
	struct kvh_session_record *record = &core->area.fixed->sessions[index];
	uint64_t serial = kvh_session_serial(&core->area, index);

	/* No quarantine begins in the future. */
	if (LOAD(record->dead_ns) > now_ns)
		STORE(record->dead_ns, now_ns);
	if (serial) {
		kvh_core_session_dies(core, index, serial, now_ns);
		return;
	}
	/* Reads alone don't touch fresh memory. */
	if (LOAD(record->dead_ns))
		STORE(record->dead_ns, 0);
	if (LOAD(record->reserved_slots))
		STORE(record->reserved_slots, 0);
}

/* The base of times may be of another boot, whose clock stood higher. */
static void bound_times(struct kvh_area *area, uint64_t now_unit)
{
	uint64_t base = LOAD(area->super->time_base);

	if (base == 0 || base > now_unit)
		STORE(area->super->time_base, now_unit);
}

/* The objects' own uses are a rebuild's to bound by this. */
static void bound_counter(struct kvh_area *area)
{
	if (LOAD(area->super->use_counter) > USES_MAX)
		STORE(area->super->use_counter, 1);
}

void kvh_core_bound(struct kvh_core *core, uint64_t now_ns)
{
	for (uint32_t i = 0; i < KVH_SESSIONS_MAX; i++)
		bound_session(core, i, now_ns);
	for (uint32_t i = 0; i < KVH_SESSIONS_MAX / 64; i++)
		atomic_store(&core->area.super->live_sessions[i], 0);
	bound_times(&core->area, kvh_time_unit(now_ns));
	bound_counter(&core->area);
}
