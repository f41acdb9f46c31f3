/* SPDX-License-Identifier: Apache-2.0 */
/* Copies one run of bytes past the caches where that pays: the kernels and how one is chosen. */
#ifndef KVH_POOL_FABRIC_COPY_H
#define KVH_POOL_FABRIC_COPY_H

#include <stdbool.h>
#include <stddef.h>

#include <kvhold/device.h>

/* Below this a streaming store costs more than the cache traffic that it saves. */
#define KVH_COPY_STREAM_BYTES_MIN 1024u

enum kvh_copy_kernel {
	KVH_COPY_PORTABLE = 0, /* memcpy; every machine */
	KVH_COPY_SSE2 = 1,
	KVH_COPY_AVX2 = 2
};

bool kvh_copy_kernel_runs(enum kvh_copy_kernel kernel);
/* The widest kernel that this CPU runs. */
enum kvh_copy_kernel kvh_copy_kernel_best(void);

/*
 * Moves copy->bytes, between ranges that don't overlap, at any alignment. The stores may still be
 * on their way when it returns: kvh_copy_fence before anyone else is told of them. ahead: what will
 * be copied after this, of which the first lines are fetched; bytes 0: nothing. kernel: one that
 * runs here. Any thread.
 */
void kvh_copy_bytes(enum kvh_copy_kernel kernel, const struct kvh_copy *copy,
                    const struct kvh_copy *ahead);

/* Orders all stores of this thread's copies before its later stores (S-3). */
void kvh_copy_fence(void);

#endif
