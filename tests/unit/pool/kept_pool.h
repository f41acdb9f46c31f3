/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pool files that are kept: what is in them, and how they are packed. A packed file is the line
 * below, then pieces {offset, bytes, the bytes} of what is not 0, both numbers 8 bytes little
 * endian; the last piece has 0 bytes, and its offset is the file's size.
 */
#ifndef KVH_TESTS_UNIT_POOL_KEPT_POOL_H
#define KVH_TESTS_UNIT_POOL_KEPT_POOL_H

#include "file_objects.h"

#define KEPT_LINE "kvhold pool file, packed\n"

enum { KEPT_OBJECTS = 18, KEPT_PIECE_BYTES = 64 };

/* Shorter and longer than a page, and exactly one; with KEY_KINDS kinds of keys. */
static inline size_t kept_bytes(uint64_t number)
{
	static const size_t bytes[] = {1, 4096, 63, 4097, 2500, 5000, 64};

	return bytes[number % COUNT_OF(bytes)];
}

static inline bool is_zero(const unsigned char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i])
			return false;
	return true;
}

static inline bool write_piece(FILE *to, uint64_t offset, const unsigned char *at, uint64_t bytes)
{
	return fwrite(&offset, sizeof(offset), 1, to) == 1 &&
	       fwrite(&bytes, sizeof(bytes), 1, to) == 1 && fwrite(at, 1, bytes, to) == bytes;
}

static inline bool kept_pack(const unsigned char *pool, size_t bytes, FILE *to)
{
	bool good = fputs(KEPT_LINE, to) >= 0;

	for (size_t at = 0, end; good && at < bytes; at = end) {
		end = at + KEPT_PIECE_BYTES;
		if (is_zero(pool + at, KEPT_PIECE_BYTES))
			continue;
		while (end < bytes && !is_zero(pool + end, KEPT_PIECE_BYTES))
			end += KEPT_PIECE_BYTES;
		good = write_piece(to, at, pool + at, end - at);
	}
	return good && write_piece(to, bytes, pool, 0);
}

/* Into an open, empty file. */
static inline bool kept_unpack(FILE *from, int fd)
{
	char line[sizeof(KEPT_LINE)];
	unsigned char piece[65536];
	uint64_t offset, bytes;

	if (!fgets(line, sizeof(line), from) || strcmp(line, KEPT_LINE) != 0)
		return false;
	while (fread(&offset, sizeof(offset), 1, from) == 1 &&
	       fread(&bytes, sizeof(bytes), 1, from) == 1) {
		if (bytes == 0)
			return ftruncate(fd, (off_t)offset) == 0;
		if (bytes > sizeof(piece) || fread(piece, 1, bytes, from) != bytes ||
		    pwrite(fd, piece, bytes, (off_t)offset) != (ssize_t)bytes)
			return false;
	}
	return false;
}

#endif
