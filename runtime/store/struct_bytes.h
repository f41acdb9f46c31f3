/* SPDX-License-Identifier: Apache-2.0 */
/* Public structs of callers built against an older or newer header: copied in and out by size. */
#ifndef KVH_STORE_STRUCT_BYTES_H
#define KVH_STORE_STRUCT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Larger than any struct of ours will be; a struct_bytes beyond it was never set. */
#define KVH_STRUCT_BYTES_MAX 4096

/* Every public struct starts with size_t struct_bytes and is made of whole words of that size. */
static inline size_t kvh_struct_bytes_of(const void *from)
{
	size_t bytes;

	memcpy(&bytes, from, sizeof(bytes));
	return bytes;
}

static inline bool kvh_struct_bytes_ok(size_t bytes)
{
	return bytes >= sizeof(size_t) && bytes <= KVH_STRUCT_BYTES_MAX &&
	       bytes % sizeof(size_t) == 0;
}

/*
 * Copies a caller's struct into ours of to_bytes. An older, smaller one is extended with zeros; a
 * newer, larger one is taken when what we don't know of is zero. False: refused, *to is undefined.
 */
static inline bool kvh_struct_in(void *to, size_t to_bytes, const void *from)
{
	size_t bytes = kvh_struct_bytes_of(from);
	const unsigned char *source = from;

	if (!kvh_struct_bytes_ok(bytes))
		return false;
	for (size_t i = to_bytes; i < bytes; i++) {
		if (source[i])
			return false;
	}
	memset(to, 0, to_bytes);
	memcpy(to, from, bytes < to_bytes ? bytes : to_bytes);
	memcpy(to, &to_bytes, sizeof(to_bytes));
	return true;
}

/* Fills a caller's struct from ours; what only the caller knows of becomes zero. False: refused. */
static inline bool kvh_struct_out(void *to, const void *from, size_t from_bytes)
{
	size_t bytes = kvh_struct_bytes_of(to);

	if (!kvh_struct_bytes_ok(bytes))
		return false;
	memset(to, 0, bytes);
	memcpy(to, from, bytes < from_bytes ? bytes : from_bytes);
	memcpy(to, &bytes, sizeof(bytes));
	return true;
}

#endif
