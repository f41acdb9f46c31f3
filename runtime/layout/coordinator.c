/* SPDX-License-Identifier: Apache-2.0 */
/* Setting the coordinator up: checks (C-1), eagle flags and specs (C-2). */
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/fault.h"
#include "layout/attention.h"

static const struct kvh_attention_ops *find_attention(enum kvh_attention kind)
{
	switch (kind) {
	case KVH_ATTENTION_FULL:
		return &kvh_attention_full;
	case KVH_ATTENTION_SLIDING_WINDOW:
		return &kvh_attention_sliding_window;
	case KVH_ATTENTION_MAMBA:
		return &kvh_attention_mamba;
	case KVH_ATTENTION_CHUNKED_LOCAL:
		return &kvh_attention_chunked_local;
	}
	return NULL;
}

static bool has_window(const struct kvh_attention_ops *ops)
{
	return ops == &kvh_attention_sliding_window || ops == &kvh_attention_chunked_local;
}

/* What can be wrong with one group alone. */
static kvh_status check_group(const struct kvh_coordinator_config *config, uint32_t index,
                              struct kvh_error *error)
{
	const struct kvh_group *group = &config->groups[index];
	const struct kvh_attention_ops *ops = find_attention(group->kind);

	if (!ops)
		return kvh_fail(error, KVH_INVALID_PARAMS, "group %u: unknown attention kind %d",
		                index, (int)group->kind);
	if (group->block_tokens < 1 || group->block_tokens > KVH_BLOCK_TOKENS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "group %u: block_tokens is %" PRIu32 ", must be 1 to %d", index,
		                group->block_tokens, KVH_BLOCK_TOKENS_MAX);
	if (group->block_tokens % config->hash_tokens)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "group %u: hash_tokens %" PRIu32
		                " must divide block_tokens %" PRIu32,
		                index, config->hash_tokens, group->block_tokens);
	if (config->has_retention && config->retention_tokens % group->block_tokens)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "group %u: retention_tokens %" PRIu32
		                " must be 0 or a multiple of block_tokens %" PRIu32,
		                index, config->retention_tokens, group->block_tokens);
	if (has_window(ops) && group->window_tokens < 1)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "group %u: window_tokens is 0, must be at least 1", index);
	return KVH_OK;
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* hash_tokens when no group takes part. */
static kvh_status find_lcm(const struct kvh_coordinator_config *config, uint32_t *lcm_tokens,
                           struct kvh_error *error)
{
	uint64_t lcm = config->hash_tokens;

	for (size_t index = 0; index < config->group_count; index++) {
		const struct kvh_group *group = &config->groups[index];

		if (group->opts_out)
			continue;
		lcm = lcm / greatest_common_divisor(lcm, group->block_tokens) * group->block_tokens;
		if (lcm > KVH_TOKENS_MAX)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "groups: the least common multiple of their block_tokens "
			                "is over %d; choose block sizes that divide each other",
			                KVH_TOKENS_MAX);
	}
	*lcm_tokens = (uint32_t)lcm;
	return KVH_OK;
}

/* A given L must fit the groups: a hit is a whole number of blocks in each of them. */
static kvh_status check_lcm(const struct kvh_coordinator_config *config, struct kvh_error *error)
{
	if (config->lcm_tokens > KVH_TOKENS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "lcm_tokens is %" PRIu32 ", must be at most %d", config->lcm_tokens,
		                KVH_TOKENS_MAX);
	if (config->lcm_tokens % config->hash_tokens)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "hash_tokens %" PRIu32 " must divide lcm_tokens %" PRIu32,
		                config->hash_tokens, config->lcm_tokens);
	for (uint32_t index = 0; index < config->group_count; index++) {
		const struct kvh_group *group = &config->groups[index];

		if (!group->opts_out && config->lcm_tokens % group->block_tokens)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "group %u: block_tokens %" PRIu32
			                " must divide lcm_tokens %" PRIu32,
			                index, group->block_tokens, config->lcm_tokens);
	}
	return KVH_OK;
}

static kvh_status check_config(const struct kvh_coordinator_config *config, struct kvh_error *error)
{
	if (config->group_count < 1 || config->group_count > KVH_GROUPS_MAX || !config->groups)
		return kvh_fail(error, KVH_INVALID_PARAMS, "groups: %zu given, must be 1 to %d",
		                config->group_count, KVH_GROUPS_MAX);
	if (config->hash_tokens < 1 || config->hash_tokens > KVH_BLOCK_TOKENS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "hash_tokens is %" PRIu32 ", must be 1 to %d", config->hash_tokens,
		                KVH_BLOCK_TOKENS_MAX);
	for (uint32_t index = 0; index < config->group_count; index++) {
		kvh_status status = KVH_OK;

		if (!config->groups[index].opts_out)
			status = check_group(config, index, error);
		if (status != KVH_OK)
			return status;
	}
	return KVH_OK;
}

/* C-2: with drafting on and no group flagged, all count as flagged. */
static void set_shapes(struct kvh_coordinator *coordinator,
                       const struct kvh_coordinator_config *config)
{
	bool flagged = false;

	for (size_t index = 0; index < config->group_count; index++)
		flagged |= !config->groups[index].opts_out && config->groups[index].eagle;
	coordinator->drafting = config->use_eagle || flagged;
	for (size_t index = 0; index < config->group_count; index++) {
		const struct kvh_group *group = &config->groups[index];
		struct kvh_shape *shape = &coordinator->groups[index];

		if (group->opts_out)
			continue;
		shape->ops = find_attention(group->kind);
		shape->block_tokens = group->block_tokens;
		shape->window_tokens = has_window(shape->ops) ? group->window_tokens : 0;
		shape->eagle = flagged ? group->eagle : config->use_eagle;
	}
}

/* C-13's own conditions. */
static kvh_status check_chunked_local(const struct kvh_coordinator *coordinator,
                                      struct kvh_error *error)
{
	for (uint32_t index = 0; index < coordinator->group_count; index++) {
		const struct kvh_shape *shape = &coordinator->groups[index];

		if (shape->ops != &kvh_attention_chunked_local)
			continue;
		if (shape->block_tokens != coordinator->align_tokens)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "group %u: chunked local attention needs block_tokens "
			                "(%" PRIu32 ") equal to the alignment of hits (%" PRIu32
			                ")",
			                index, shape->block_tokens, coordinator->align_tokens);
		if (shape->eagle)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "group %u: chunked local attention does not work with "
			                "EAGLE drafting; flag other groups or turn it off",
			                index);
	}
	return KVH_OK;
}

static bool same_spec(const struct kvh_shape *a, const struct kvh_shape *b)
{
	return a->ops == b->ops && a->block_tokens == b->block_tokens &&
	       a->window_tokens == b->window_tokens;
}

static void add_to_spec(struct kvh_coordinator *coordinator, uint32_t group)
{
	const struct kvh_shape *shape = &coordinator->groups[group];
	uint32_t index = 0;

	while (index < coordinator->spec_count &&
	       !same_spec(&coordinator->specs[index].shape, shape))
		index++;
	if (index == coordinator->spec_count)
		coordinator->specs[coordinator->spec_count++].shape = *shape;
	coordinator->specs[index].shape.eagle |= shape->eagle;
	coordinator->specs[index].groups |= UINT64_C(1) << group;
}

/* C-2: full attention first, else in the order of the groups. */
static void set_specs(struct kvh_coordinator *coordinator)
{
	for (int full = 1; full >= 0; full--) {
		for (uint32_t group = 0; group < coordinator->group_count; group++) {
			const struct kvh_attention_ops *ops = coordinator->groups[group].ops;

			if (ops && (ops == &kvh_attention_full) == (full == 1))
				add_to_spec(coordinator, group);
		}
	}
}

kvh_status kvh_coordinator_create(const struct kvh_coordinator_config *config,
                                  struct kvh_coordinator **out, struct kvh_error *error)
{
	struct kvh_coordinator *coordinator;
	uint32_t lcm_tokens = config->lcm_tokens;
	kvh_status status = check_config(config, error);

	if (status == KVH_OK)
		status = lcm_tokens ? check_lcm(config, error)
		                    : find_lcm(config, &lcm_tokens, error);
	if (status != KVH_OK)
		return status;
	coordinator = kvh_calloc(1, sizeof(*coordinator));
	if (!coordinator)
		return kvh_fail(error, KVH_NO_MEMORY, "coordinator: no memory");
	coordinator->hash_tokens = config->hash_tokens;
	coordinator->lcm_tokens = lcm_tokens;
	coordinator->align_tokens = config->partial_hits ? config->hash_tokens : lcm_tokens;
	coordinator->partial_hits = config->partial_hits;
	coordinator->has_retention = config->has_retention;
	coordinator->retention_tokens = config->retention_tokens;
	coordinator->group_count = (uint32_t)config->group_count;
	set_shapes(coordinator, config);
	set_specs(coordinator);
	status = check_chunked_local(coordinator, error);
	if (status == KVH_OK)
		*out = coordinator;
	else
		kvh_coordinator_destroy(coordinator);
	return status;
}

void kvh_coordinator_destroy(struct kvh_coordinator *coordinator)
{
	kvh_free(coordinator);
}

uint32_t kvh_coordinator_lcm_tokens(const struct kvh_coordinator *coordinator)
{
	return coordinator->lcm_tokens;
}

uint32_t kvh_coordinator_align_tokens(const struct kvh_coordinator *coordinator)
{
	return coordinator->align_tokens;
}
