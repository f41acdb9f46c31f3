/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Victims: the oldest objects in the order in which they go. A scan without the lock fills one list
 * while the other is used. An entry whose object was used since is passed over; what could rank
 * below an entry without being in the list lowers the list's limit. So the head is exactly the
 * oldest object.
 */
#ifndef KVH_POOL_CORE_VICTIMS_H
#define KVH_POOL_CORE_VICTIMS_H

#include "pool/core/core.h"

struct kvh_ranked {
	uint64_t rank;
	uint32_t slot;
};

uint32_t kvh_victims_list_max(const struct kvh_area *area);
/* No list: the next search asks for a scan. */
void kvh_victims_reset(struct kvh_area *area);

/* Tells the lists of an object's new rank and time. Any thread, after the object has them. */
void kvh_victims_note(struct kvh_area *area, uint64_t rank, uint64_t until_unit);

/*
 * Fills the other list with the oldest that rank at or above reserve->from_rank (0: all), in the
 * place of reserve->seen_filler (0: of nobody), and switches to it. reserve->bound_rank: where the
 * next part begins, UINT64_MAX: there is none. A list that doesn't begin at 0 must be reset when
 * its search ends. False: another one fills it, or no lock.
 */
bool kvh_victims_fill(struct kvh_core *core, struct kvh_reserve *reserve, uint64_t now_ns,
                      kvh_deadline deadline_ns);
/* Whether the session that a filler's word names still lives. */
bool kvh_victims_filler_lives(const struct kvh_area *area, uint64_t filler);

/*
 * The oldest object at or behind *cursor that is VALID and unused since the scan; *cursor then
 * stands at it. slot KVH_NONE: the list is over, only a scan knows more. Lock held.
 */
struct kvh_ranked kvh_victims_at(struct kvh_area *area, uint32_t *cursor, uint64_t now_unit)
	KVH_REQUIRES(kvh_role_pool);
/* Passes the entry at *cursor; for good if nothing before it is still a victim. Lock held. */
void kvh_victims_pass(struct kvh_area *area, uint32_t *cursor, bool for_good)
	KVH_REQUIRES(kvh_role_pool);
uint32_t kvh_victims_head(const struct kvh_area *area);

#endif
