/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend implements to be a store. The front door (kvh_store_*) calls it, nobody else. */
#ifndef KVHOLD_STORE_OPS_H
#define KVHOLD_STORE_OPS_H

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A layout as backends see it: checked, immutable, alive as long as calls use it. */
struct kvh_layout_view {
	const struct kvh_segment_template *templates;
	size_t template_count;
	size_t value_bytes;
	uint64_t block_count;
	enum kvh_memory_kind kind;
};
KVH_API const struct kvh_layout_view *kvh_layout_get_view(const struct kvh_layout *layout);

/*
 * The front door guarantees to a backend: arguments are not NULL, counts are within limits and not
 * 0, prefix ids were interned by this handle, hash lengths fit their prefix, values lie inside
 * registered regions and have at least one segment and one byte, all segments of a value are of one
 * memory kind, options are valid and supported by caps, a call's cancel and deadline had not struck
 * when it began, results are preset to {KVH_NO_ANSWER, KVH_RESULT_QUIET}. exists and remove get no
 * values. The same key may stand twice in a batch; that the second put of it gets the first one's
 * result is the backend's work, which has a lock over its index anyway.
 *
 * The backend guarantees: thread-safe; it writes only the given slots; it returns by the call's
 * deadline plus caps.stop_ms_max; it clears KVH_RESULT_QUIET of a key before bytes of its value may
 * move on their own (DMA) and sets it again when they can't; a CPU copy inside the call needs
 * neither. Its caps stay as they were at open. The front door asks quiesce, then close.
 *
 * No function is NULL: kvh_store_ops_fill() puts KVH_NOT_SUPPORTED answers where one is lacking.
 */
struct kvh_store_ops {
	size_t struct_bytes;
	const char *name; /* static, for logs and metrics: "local", "null", ... */

	void (*caps)(void *self, struct kvh_store_caps *caps);
	kvh_status (*register_region)(void *self, kvh_region_id region, void *addr, size_t bytes,
	                              enum kvh_memory_kind kind, struct kvh_error *error);
	/* After KVH_OK no byte of the region moves. */
	kvh_status (*unregister_region)(void *self, kvh_region_id region, kvh_deadline deadline_ns);
	kvh_status (*prefix)(void *self, const struct kvh_prefix *prefix, uint32_t *prefix_id,
	                     struct kvh_error *error);

	kvh_status (*exists)(void *self, const struct kvh_batch *batch, uint32_t flags,
	                     const struct kvh_call *call);
	kvh_status (*put)(void *self, const struct kvh_batch *batch,
	                  const struct kvh_put_options *options, const struct kvh_call *call);
	kvh_status (*get)(void *self, const struct kvh_batch *batch, const struct kvh_call *call);
	kvh_status (*remove)(void *self, const struct kvh_batch *batch,
	                     const struct kvh_call *call);
	kvh_status (*commit)(void *self, const struct kvh_token *tokens, size_t count,
	                     struct kvh_result *results);
	kvh_status (*abort)(void *self, const struct kvh_token *tokens, size_t count,
	                    struct kvh_result *results);
	kvh_status (*clear)(void *self, const struct kvh_call *call, uint64_t *removed);
	kvh_status (*tiers)(void *self, const struct kvh_key *keys, size_t count,
	                    enum kvh_tier *tiers, const struct kvh_call *call);
	kvh_status (*take_evicted)(void *self, struct kvh_evicted_key *keys, size_t capacity,
	                           size_t *count, bool *lost);
	kvh_status (*quiesce)(void *self, kvh_deadline deadline_ns);
	/* Fills what only the backend knows: objects, used, capacity, evicted, pinned, reserved. */
	kvh_status (*stats)(void *self, struct kvh_store_stats *stats);
	/* No call runs any more. Always succeeds. */
	void (*close)(void *self);

	/*
	 * As kvh_store_list, with *count 0 before. Writes no entry behind *count and no hash
	 * outside of list->hashes.
	 */
	kvh_status (*list)(void *self, const struct kvh_list *list, uint64_t *cursor, size_t *count,
	                   const struct kvh_call *call);
	/*
	 * What anybody interned under this id. text: KVH_PREFIX_TEXT_BYTES_MAX bytes, copied into;
	 * prefix->text points there. Tells all but identity and quota. KVH_OBJECT_NOT_FOUND: there
	 * is no such prefix. Stores of one process need none: it is asked for unknown ids alone.
	 */
	kvh_status (*prefix_at)(void *self, uint32_t prefix_id, char *text,
	                        struct kvh_prefix *prefix);
	/* As kvh_store_get_sessions. */
	kvh_status (*sessions)(void *self, struct kvh_store_session *sessions, size_t capacity,
	                       size_t *count);
};

/* Puts "not supported" answers where ops has NULL. */
KVH_API void kvh_store_ops_fill(struct kvh_store_ops *ops);

/*
 * A store handle over a backend of the caller's own. ops: copied; self: given, closed with the
 * handle (also when this call fails). options: as in kvh_store_open.
 */
KVH_API kvh_status kvh_store_open_ops(const struct kvh_store_ops *ops, void *self,
                                      const struct kvh_store_options *options,
                                      struct kvh_store **store, struct kvh_error *error);

#ifdef __cplusplus
}
#endif
#endif
