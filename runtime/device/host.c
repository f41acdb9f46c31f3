/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a process without one: host memory, copies in the call, no events. */
#include "device/device.h"

#include <stdbool.h>
#include <string.h>

#include "base/size.h"

/* Every copy has ended when copy_start returns, so one token does for all. */
#define DONE_TOKEN 1

static bool memory_ok(const void *addr, size_t bytes)
{
	return addr && bytes != 0 && kvh_range_ok(addr, bytes);
}

static kvh_status host_classify(void *ctx, const void *addr, enum kvh_memory_kind *kind)
{
	(void)ctx;
	if (!addr || !kind)
		return KVH_INVALID_PARAMS;
	*kind = KVH_MEMORY_HOST;
	return KVH_OK;
}

static kvh_status host_pin(void *ctx, void *addr, size_t bytes)
{
	(void)ctx;
	return memory_ok(addr, bytes) ? KVH_OK : KVH_INVALID_PARAMS;
}

static kvh_status host_unpin(void *ctx, void *addr)
{
	(void)ctx;
	return addr ? KVH_OK : KVH_INVALID_PARAMS;
}

static kvh_status host_export_dmabuf(void *ctx, const void *addr, size_t bytes, int *fd,
                                     uint64_t *offset_bytes)
{
	(void)ctx;
	(void)addr;
	(void)bytes;
	(void)fd;
	(void)offset_bytes;
	return KVH_NOT_SUPPORTED;
}

static bool copies_ok(const struct kvh_copy *copies, size_t count)
{
	if (count != 0 && !copies)
		return false;
	for (size_t index = 0; index < count; index++) {
		const struct kvh_copy *copy = &copies[index];

		if (copy->bytes != 0 &&
		    (!memory_ok(copy->dst, copy->bytes) || !memory_ok(copy->src, copy->bytes)))
			return false;
	}
	return true;
}

static kvh_status host_copy_start(void *ctx, const struct kvh_copy *copies, size_t count,
                                  uint64_t *token)
{
	(void)ctx;
	if (!token || !copies_ok(copies, count))
		return KVH_INVALID_PARAMS;
	for (size_t index = 0; index < count; index++) {
		if (copies[index].bytes != 0)
			memmove(copies[index].dst, copies[index].src, copies[index].bytes);
	}
	*token = DONE_TOKEN;
	return KVH_OK;
}

static kvh_status host_copy_wait(void *ctx, uint64_t token, kvh_deadline deadline_ns)
{
	(void)ctx;
	(void)deadline_ns;
	return token == DONE_TOKEN ? KVH_OK : KVH_INVALID_PARAMS;
}

static kvh_status host_event_wait(void *ctx, void *event, kvh_deadline deadline_ns)
{
	(void)ctx;
	(void)deadline_ns;
	return event ? KVH_NOT_SUPPORTED : KVH_OK;
}

const struct kvh_device *kvh_device_host(void)
{
	static const struct kvh_device_ops ops = {
		.struct_bytes = sizeof(ops),
		.classify = host_classify,
		.pin_host = host_pin,
		.unpin_host = host_unpin,
		.export_dmabuf = host_export_dmabuf,
		.copy_start = host_copy_start,
		.copy_wait = host_copy_wait,
		.event_wait = host_event_wait,
	};
	static const struct kvh_device host = {.ops = &ops};

	return &host;
}
