/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3, compiled into this file so that nothing links to libxxhash. */
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t kvh_hash64(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

struct kvh_hash128 kvh_hash128(const void *data, size_t bytes)
{
	XXH128_hash_t hash = XXH3_128bits(data, bytes);

	return (struct kvh_hash128){.low = hash.low64, .high = hash.high64};
}
