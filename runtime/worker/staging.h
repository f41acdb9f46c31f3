/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's staging budget for loads from disk. Pure functions. */
#ifndef KVH_WORKER_STAGING_H
#define KVH_WORKER_STAGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Staging bytes of one key: its bytes rounded up to 4096, and 8192 more. Saturates. */
uint64_t kvh_staging_bytes(uint64_t value_bytes);

/* max(1, floor(raw * ratio)); ratio in (0, 1]. */
uint64_t kvh_staging_usable(uint64_t raw_bytes, double ratio);

/*
 * How many of the count keys from first on go in one get: all while their sum is within usable, and
 * at least one. bytes_of: the value bytes of a key.
 */
size_t kvh_staging_take(uint64_t (*bytes_of)(const void *user, size_t index), const void *user,
                        size_t first, size_t count, uint64_t usable_bytes);

#endif
