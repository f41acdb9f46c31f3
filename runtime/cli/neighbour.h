/* SPDX-License-Identifier: Apache-2.0 */
/* Another user of the same store, who for a while reserves all of its space. */
#ifndef KVH_CLI_NEIGHBOUR_H
#define KVH_CLI_NEIGHBOUR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/store.h>

/*
 * A store that evicts answers "no space" only while all of it is pinned or reserved. This is what
 * a neighbour's burst of unfinished puts does; the saves of everybody else then meet
 * KVH_NO_AVAILABLE_HANDLE, and the workers go into pressure until it is over.
 */
struct kvh_neighbour;

/* KVH_NOT_SUPPORTED: the store can't hold puts. env, store: lent until close. */
kvh_status kvh_neighbour_open(struct kvh_store *store, const struct kvh_env *env,
                              size_t object_bytes, struct kvh_neighbour **neighbour,
                              struct kvh_error *error);
/* Begins to reserve, on a thread of its own, until nothing is left. Once. */
kvh_status kvh_neighbour_start(struct kvh_neighbour *neighbour);
/* Nothing is left, or it failed. */
bool kvh_neighbour_is_full(struct kvh_neighbour *neighbour);
/* Aborts all it holds and frees it. Negative: what its calls met. NULL: KVH_OK. */
kvh_status kvh_neighbour_close(struct kvh_neighbour *neighbour);

#endif
