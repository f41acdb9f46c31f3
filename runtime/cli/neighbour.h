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

/* KVH_NOT_SUPPORTED: the store can't hold puts. The caller ends it with close. */
kvh_status kvh_neighbour_open(struct kvh_store *store, size_t object_bytes,
			      struct kvh_neighbour **neighbour, struct kvh_error *error);
/* Reserves until nothing is left. *objects: how many it holds now. */
kvh_status kvh_neighbour_take_all(struct kvh_neighbour *neighbour, size_t *objects);
/* Aborts all it holds. */
kvh_status kvh_neighbour_give_back(struct kvh_neighbour *neighbour);
/* Holds nothing any more. NULL: KVH_OK. */
kvh_status kvh_neighbour_close(struct kvh_neighbour *neighbour);

#endif
