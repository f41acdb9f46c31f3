/* SPDX-License-Identifier: Apache-2.0 */
/* The null store, for benches: answers at once, keeps nothing, touches no payload. */
#ifndef KVH_STORE_NULL_H
#define KVH_STORE_NULL_H

#include <stdbool.h>

#include <kvhold/store_ops.h>

struct kvh_null_options {
	bool exists; /* every key is present */
};

/*
 * put answers 0 and get the bytes asked for, though nothing moves: a measure of what lies above a
 * store, never a store to load from. caps claim nothing.
 */
kvh_status kvh_null_open(const struct kvh_null_options *options, const struct kvh_env *env,
                         struct kvh_store_ops *ops, void **self, struct kvh_error *error);

#endif
