/* SPDX-License-Identifier: Apache-2.0 */
/* Draws random transfer scenarios; the same seed and index give the same line. */
#ifndef GOLDEN_RANDOM_H
#define GOLDEN_RANDOM_H

#include <jansson.h>

#include "mem.h"

#define DRAW_REQUESTS   4
#define DRAW_MAX_GROUPS 3
#define DRAW_HASHES     24 /* per chain */

struct draw_request {
	int64_t tokens;        /* of its latest save job */
	int64_t next_token_id; /* position behind the ids handed over so far */
};

/* The state of one scenario's drawing. */
struct draw {
	uint64_t random;
	int64_t lcm_block_size;
	int64_t hash_block_size;
	bool partial_hash_hits;
	bool events;
	size_t group_count;
	int64_t block_size[DRAW_MAX_GROUPS];
	bool is_mamba[DRAW_MAX_GROUPS];
	bool is_window[DRAW_MAX_GROUPS];
	struct draw_request requests[DRAW_REQUESTS];
	int64_t next_job_id;
};

void draw_start(struct draw *draw, uint64_t seed, uint64_t index);
/* 0 .. limit - 1 */
int64_t draw_below(struct draw *draw, int64_t limit);
bool draw_percent(struct draw *draw, int64_t percent);

/* New references. */
json_t *draw_config(struct draw *draw);
json_t *draw_steps(struct draw *draw);
json_t *draw_submit_save(struct draw *draw);
/* delete, poll or submit_save. */
json_t *draw_during(struct draw *draw);

#endif
