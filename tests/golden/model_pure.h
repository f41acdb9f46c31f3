/* SPDX-License-Identifier: Apache-2.0 */
/* The model's pure functions: coordinator.md, keys, chunks, staging. */
#ifndef GOLDEN_MODEL_PURE_H
#define GOLDEN_MODEL_PURE_H

#include "pure.h"

/* The alignment of hits, A of coordinator.md. */
int64_t model_alignment(const struct pure_setup *setup);
/* True if the group is searched with an eagle drop (C-2). */
bool model_flagged(const struct pure_setup *setup, size_t group);
/* C-11: chunks of a window that a hit needs. */
int64_t model_window_need(const struct pure_group *group, bool drop);

void model_find_hit(struct arena *arena, const struct pure_setup *setup,
                    const struct pure_present *present, int64_t max_len, struct pure_hit *out);
bool model_load_mask(struct arena *arena, const struct pure_setup *setup, size_t hash_count,
                     int64_t token_len, struct pure_masks *out);
bool model_store_mask(struct arena *arena, const struct pure_setup *setup,
                      const struct pure_store_mask *in, struct pure_masks *out);
bool model_lookup_mask(struct arena *arena, const struct pure_setup *setup, int64_t token_len,
                       struct pure_masks *out);
void model_lookup(struct arena *arena, const struct pure_lookup *in,
                  struct pure_lookup_result *out);

char *model_key(struct arena *arena, const struct pure_key *key);
char *model_group_id(struct arena *arena, const struct pure_key *key);
void model_process_tokens(struct arena *arena, const struct pure_chunks *in, struct ints *out);
int64_t model_staging_bytes(const struct ints *segment_bytes);
int64_t model_usable_budget(int64_t raw_bytes, double ratio);
void model_split(struct arena *arena, const struct ints *staging_bytes, int64_t usable_bytes,
                 int64_t raw_bytes, struct pure_split *out);
void model_rotate(struct arena *arena, size_t count, int64_t rank, struct ints *out);

#endif
