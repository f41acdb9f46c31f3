/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for an engine's event on a thread of ours. */
#ifndef KVH_STORE_EVENT_H
#define KVH_STORE_EVENT_H

#include <kvhold/store.h>

/*
 * Waits until the event (NULL: none) has happened, in slices so that a cancel is seen. device: with
 * every function there. KVH_CANCELLED; KVH_TIMEOUT past the call's deadline; else what the device
 * says. No lock held.
 */
kvh_status kvh_event_wait(const struct kvh_env *env, const struct kvh_device *device, void *event,
                          const struct kvh_call *call);

#endif
