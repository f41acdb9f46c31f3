/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and products of sizes that came from outside: checked, never wrapping. */
#ifndef KVH_BASE_SIZE_H
#define KVH_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each returns false, and leaves *out alone, when the result does not fit. */
static inline bool kvh_size_add(size_t a, size_t b, size_t *out)
{
	size_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return false;
	*out = sum;
	return true;
}

static inline bool kvh_size_mul(size_t a, size_t b, size_t *out)
{
	size_t product;

	if (__builtin_mul_overflow(a, b, &product))
		return false;
	*out = product;
	return true;
}

/* a * b + c */
static inline bool kvh_size_mul_add(size_t a, size_t b, size_t c, size_t *out)
{
	size_t product;

	return kvh_size_mul(a, b, &product) && kvh_size_add(product, c, out);
}

/* unit: a power of two. */
static inline bool kvh_size_align_up(size_t bytes, size_t unit, size_t *out)
{
	size_t sum;

	if (!kvh_size_add(bytes, unit - 1, &sum))
		return false;
	*out = sum & ~(unit - 1);
	return true;
}

/* Whether [addr, addr + bytes) ends within the address space. */
static inline bool kvh_range_ok(const void *addr, size_t bytes)
{
	uintptr_t end;

	return !__builtin_add_overflow((uintptr_t)addr, bytes, &end);
}

static inline uint64_t kvh_div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

static inline uint64_t kvh_round_down(uint64_t a, uint64_t unit)
{
	return a - a % unit;
}

/*
 * "64", "4KiB", "8GiB", "1MB": a whole number and a unit (KiB MiB GiB TiB, kB MB GB TB, B or none).
 * False: not such text, or it does not fit.
 */
bool kvh_size_parse(const char *text, size_t text_bytes, uint64_t *bytes);

#endif
