/* SPDX-License-Identifier: Apache-2.0 */
/* Answers for the operations that a backend does not have, so that nobody tests for NULL. */
#include <kvhold/store_ops.h>

static void no_caps(void *self, struct kvh_store_caps *caps)
{
	(void)self;
	(void)caps;
}

static kvh_status no_register(void *self, kvh_region_id region, void *addr, size_t bytes,
                              enum kvh_memory_kind kind, struct kvh_error *error)
{
	(void)self, (void)region, (void)addr, (void)bytes, (void)kind, (void)error;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_unregister(void *self, kvh_region_id region, kvh_deadline deadline_ns)
{
	(void)self, (void)region, (void)deadline_ns;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_prefix(void *self, const struct kvh_prefix *prefix, uint32_t *prefix_id,
                            struct kvh_error *error)
{
	(void)self, (void)prefix, (void)prefix_id, (void)error;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_exists(void *self, const struct kvh_batch *batch, uint32_t flags,
                            const struct kvh_call *call)
{
	(void)self, (void)batch, (void)flags, (void)call;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_put(void *self, const struct kvh_batch *batch,
                         const struct kvh_put_options *options, const struct kvh_call *call)
{
	(void)self, (void)batch, (void)options, (void)call;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_batch(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	(void)self, (void)batch, (void)call;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_tokens(void *self, const struct kvh_token *tokens, size_t count,
                            struct kvh_result *results)
{
	(void)self, (void)tokens, (void)count, (void)results;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_clear(void *self, const struct kvh_call *call, uint64_t *removed)
{
	(void)self, (void)call, (void)removed;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_tiers(void *self, const struct kvh_key *keys, size_t count,
                           enum kvh_tier *tiers, const struct kvh_call *call)
{
	(void)self, (void)keys, (void)count, (void)tiers, (void)call;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_take_evicted(void *self, struct kvh_evicted_key *keys, size_t capacity,
                                  size_t *count, bool *lost)
{
	(void)self, (void)keys, (void)capacity, (void)count, (void)lost;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_quiesce(void *self, kvh_deadline deadline_ns)
{
	(void)self, (void)deadline_ns;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_stats(void *self, struct kvh_store_stats *stats)
{
	(void)self, (void)stats;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_list(void *self, const struct kvh_list *list, uint64_t *cursor, size_t *count,
                          const struct kvh_call *call)
{
	(void)self, (void)list, (void)cursor, (void)count, (void)call;
	return KVH_NOT_SUPPORTED;
}

/* Nobody but this handle interns. */
static kvh_status no_prefix_at(void *self, uint32_t prefix_id, char *text,
                               struct kvh_prefix *prefix)
{
	(void)self, (void)prefix_id, (void)text, (void)prefix;
	return KVH_OBJECT_NOT_FOUND;
}

static kvh_status no_sessions(void *self, struct kvh_store_session *sessions, size_t capacity,
                              size_t *count)
{
	(void)self, (void)sessions, (void)capacity, (void)count;
	return KVH_NOT_SUPPORTED;
}

static void no_close(void *self)
{
	(void)self;
}

static const struct kvh_store_ops absent = {
	.struct_bytes = sizeof(absent),
	.name = "unnamed",
	.caps = no_caps,
	.register_region = no_register,
	.unregister_region = no_unregister,
	.prefix = no_prefix,
	.exists = no_exists,
	.put = no_put,
	.get = no_batch,
	.remove = no_batch,
	.commit = no_tokens,
	.abort = no_tokens,
	.clear = no_clear,
	.tiers = no_tiers,
	.take_evicted = no_take_evicted,
	.quiesce = no_quiesce,
	.stats = no_stats,
	.close = no_close,
	.list = no_list,
	.prefix_at = no_prefix_at,
	.sessions = no_sessions,
};

#define FILL(member)                                                                               \
	do {                                                                                       \
		if (!ops->member)                                                                  \
			ops->member = absent.member;                                               \
	} while (0)

void kvh_store_ops_fill(struct kvh_store_ops *ops)
{
	FILL(name);
	FILL(caps);
	FILL(register_region);
	FILL(unregister_region);
	FILL(prefix);
	FILL(exists);
	FILL(put);
	FILL(get);
	FILL(remove);
	FILL(commit);
	FILL(abort);
	FILL(clear);
	FILL(tiers);
	FILL(take_evicted);
	FILL(quiesce);
	FILL(stats);
	FILL(close);
	FILL(list);
	FILL(prefix_at);
	FILL(sessions);
}
