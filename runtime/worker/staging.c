/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's staging budget for loads from disk. */
#include "worker/staging.h"

enum { STAGING_UNIT = 4096, STAGING_EXTRA = 8192 };

uint64_t kvh_staging_bytes(uint64_t value_bytes)
{
	if (value_bytes > UINT64_MAX - STAGING_UNIT - STAGING_EXTRA)
		return UINT64_MAX;
	return (value_bytes + STAGING_UNIT - 1) / STAGING_UNIT * STAGING_UNIT + STAGING_EXTRA;
}

uint64_t kvh_staging_usable(uint64_t raw_bytes, double ratio)
{
	uint64_t usable = (uint64_t)((double)raw_bytes * ratio);

	return usable ? usable : 1;
}

size_t kvh_staging_take(uint64_t (*bytes_of)(const void *user, size_t index), const void *user,
                        size_t first, size_t count, uint64_t usable_bytes)
{
	uint64_t sum = 0;
	size_t taken = 0;

	while (first + taken < count) {
		uint64_t bytes = kvh_staging_bytes(bytes_of(user, first + taken));

		if (taken && (bytes > usable_bytes || sum > usable_bytes - bytes))
			break;
		sum += bytes;
		taken++;
		if (sum > usable_bytes)
			break;
	}
	return taken;
}
