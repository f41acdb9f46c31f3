/* SPDX-License-Identifier: Apache-2.0 */
/* Devices as the runtime sees them: with every function there. */
#ifndef KVH_DEVICE_DEVICE_H
#define KVH_DEVICE_DEVICE_H

#include <kvhold/device.h>

/*
 * Copies given (borrowed, perhaps of another version) and fills what it lacks: pins and events as
 * the host device's; classify and copies too, but only when both are lacking, since a host copy of
 * device memory would crash; else KVH_NOT_SUPPORTED.
 * KVH_INVALID_PARAMS: struct_bytes is wrong, or one half of a pair (pin/unpin,
 * copy_start/copy_wait) is lacking; *full is left alone.
 */
kvh_status kvh_device_ops_fill(const struct kvh_device_ops *given, struct kvh_device_ops *full);

#endif
