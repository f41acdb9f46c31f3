/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of byte strings (XXH3): the one place that knows xxHash. */
#ifndef KVH_BASE_HASH_H
#define KVH_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct kvh_hash128 {
	uint64_t low;
	uint64_t high;
};

/*
 * The same on every machine and in every version: they may be written down. Not against an
 * attacker. data: borrowed, NULL only with 0 bytes.
 */
uint64_t kvh_hash64(const void *data, size_t bytes);
struct kvh_hash128 kvh_hash128(const void *data, size_t bytes);

/*
 * Two words to one, by the product of both: where a call for each key would cost more than the
 * hash. Part of the format of a pool's file, so it stays as it is.
 */
static inline uint64_t kvh_mix64(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#endif
