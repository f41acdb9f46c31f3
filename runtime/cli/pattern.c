/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and compares block contents: eight xorshift generators side by side, one line a round. */
#include "pattern.h"

#include <string.h>

enum { LANES = KVH_PATTERN_LINE_BYTES / sizeof(uint64_t) };

struct line {
	uint64_t lane[LANES];
};

uint64_t kvh_pattern_mix(uint64_t a, uint64_t b)
{
	uint64_t x = a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2));

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* A generator at 0 would stay there, hence the lowest bit. */
static struct line first_line(uint64_t content)
{
	struct line line;

	for (size_t i = 0; i < LANES; i++)
		line.lane[i] = kvh_pattern_mix(content, i) | 1;
	return line;
}

static inline void next_line(struct line *line)
{
	for (size_t i = 0; i < LANES; i++)
		line->lane[i] ^= line->lane[i] << 13;
	for (size_t i = 0; i < LANES; i++)
		line->lane[i] ^= line->lane[i] >> 7;
	for (size_t i = 0; i < LANES; i++)
		line->lane[i] ^= line->lane[i] << 17;
}

void kvh_pattern_fill(void *dst, size_t bytes, uint64_t content)
{
	struct line line = first_line(content);
	unsigned char *out = dst;

	for (size_t at = 0; at < bytes; at += sizeof(line)) {
		memcpy(out + at, &line, sizeof(line));
		next_line(&line);
	}
}

size_t kvh_pattern_check(const void *src, size_t bytes, uint64_t content)
{
	struct line line = first_line(content);
	const unsigned char *in = src;

	for (size_t at = 0; at < bytes; at += sizeof(line)) {
		struct line found;
		uint64_t differs = 0;

		memcpy(&found, in + at, sizeof(found));
		for (size_t i = 0; i < LANES; i++)
			differs |= found.lane[i] ^ line.lane[i];
		if (differs)
			return at;
		next_line(&line);
	}
	return bytes;
}
