/* SPDX-License-Identifier: Apache-2.0 */
/* The device interface: what memory an address is, events of engine streams, device copies. */
#ifndef KVHOLD_DEVICE_H
#define KVHOLD_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "env.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvh_memory_kind { KVH_MEMORY_HOST = 1, KVH_MEMORY_PINNED_HOST = 2, KVH_MEMORY_DEVICE = 3 };

/* One copy of a batch; either end may be device memory. */
struct kvh_copy {
	void *dst;
	const void *src;
	size_t bytes;
};

/*
 * All functions: any thread. A function that a device lacks is filled by kvh_device_host()'s
 * own or answers KVH_NOT_SUPPORTED; none is NULL.
 */
struct kvh_device_ops {
	size_t struct_bytes;

	kvh_status (*classify)(void *ctx, const void *addr, enum kvh_memory_kind *kind);
	kvh_status (*pin_host)(void *ctx, void *addr, size_t bytes);
	kvh_status (*unpin_host)(void *ctx, void *addr);

	/*
	 * Export for RDMA: a dmabuf file descriptor (given to the caller) and the place of addr in
	 * it. KVH_NOT_SUPPORTED when the memory can only be reached by staging.
	 */
	kvh_status (*export_dmabuf)(void *ctx, const void *addr, size_t bytes, int *fd,
	                            uint64_t *offset_bytes);

	/* Starts all copies on an own stream; token names them for copy_wait. */
	kvh_status (*copy_start)(void *ctx, const struct kvh_copy *copies, size_t count,
	                         uint64_t *token);
	/* KVH_OK only if every copy of token ended well; an error means none may still run. */
	kvh_status (*copy_wait)(void *ctx, uint64_t token, kvh_deadline deadline_ns);

	/*
	 * Waits until the engine's event (a CUevent, opaque here) has happened. KVH_TIMEOUT past
	 * the deadline; any other error means the work before the event failed (D-15).
	 */
	kvh_status (*event_wait)(void *ctx, void *event, kvh_deadline deadline_ns);
};

/* Lent to every object opened with it, until that object is closed. */
struct kvh_device {
	const struct kvh_device_ops *ops;
	void *ctx;
};

/*
 * Host memory only: every address is host memory, copies run in the call, and there are no events
 * (a job that carries one ends with KVH_NOT_SUPPORTED before a byte moves). Static, never NULL; any
 * thread.
 */
KVH_API const struct kvh_device *kvh_device_host(void);

#ifdef __cplusplus
}
#endif
#endif
