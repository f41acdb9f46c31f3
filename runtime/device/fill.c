/* SPDX-License-Identifier: Apache-2.0 */
/* Making a partial table of device functions whole. */
#include "device/device.h"

#include <stdbool.h>
#include <string.h>

static kvh_status no_copy_start(void *ctx, const struct kvh_copy *copies, size_t count,
                                uint64_t *token)
{
	(void)ctx;
	(void)copies;
	(void)count;
	(void)token;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_copy_wait(void *ctx, uint64_t token, kvh_deadline deadline_ns)
{
	(void)ctx;
	(void)token;
	(void)deadline_ns;
	return KVH_NOT_SUPPORTED;
}

static kvh_status no_classify(void *ctx, const void *addr, enum kvh_memory_kind *kind)
{
	(void)ctx;
	(void)addr;
	(void)kind;
	return KVH_NOT_SUPPORTED;
}

static bool table_ok(const struct kvh_device_ops *given)
{
	return given && given->struct_bytes >= sizeof(given->struct_bytes) &&
	       given->struct_bytes % sizeof(void (*)(void)) == 0;
}

static bool pairs_ok(const struct kvh_device_ops *ops)
{
	return !ops->pin_host == !ops->unpin_host && !ops->copy_start == !ops->copy_wait;
}

/* Host answers about memory, and host copies of it, are right only where no other memory is. */
static void fill_memory(struct kvh_device_ops *ops, const struct kvh_device_ops *host)
{
	bool host_only = !ops->classify && !ops->copy_start;

	if (!ops->classify)
		ops->classify = host_only ? host->classify : no_classify;
	if (!ops->copy_start) {
		ops->copy_start = host_only ? host->copy_start : no_copy_start;
		ops->copy_wait = host_only ? host->copy_wait : no_copy_wait;
	}
}

kvh_status kvh_device_ops_fill(const struct kvh_device_ops *given, struct kvh_device_ops *full)
{
	const struct kvh_device_ops *host = kvh_device_host()->ops;
	struct kvh_device_ops ops = {0};

	if (!table_ok(given) || !full)
		return KVH_INVALID_PARAMS;
	memcpy(&ops, given, given->struct_bytes < sizeof(ops) ? given->struct_bytes : sizeof(ops));
	if (!pairs_ok(&ops))
		return KVH_INVALID_PARAMS;
	ops.struct_bytes = sizeof(ops);
	fill_memory(&ops, host);
	if (!ops.pin_host) {
		ops.pin_host = host->pin_host;
		ops.unpin_host = host->unpin_host;
	}
	if (!ops.export_dmabuf)
		ops.export_dmabuf = host->export_dmabuf;
	if (!ops.event_wait)
		ops.event_wait = host->event_wait;
	*full = ops;
	return KVH_OK;
}
