/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for an engine's event in slices. */
#include "store/event.h"

#include "base/lock.h"

enum { SLICE_NS = 50 * 1000 * 1000 };

kvh_status kvh_event_wait(const struct kvh_env *env, const struct kvh_device *device, void *event,
                          const struct kvh_call *call)
{
	kvh_status status = KVH_OK;

	if (!event)
		return KVH_OK;
	do {
		kvh_deadline until_ns = kvh_deadline_after(env, SLICE_NS);

		if (call->deadline_ns && call->deadline_ns < until_ns)
			until_ns = call->deadline_ns;
		if (kvh_cancel_requested(call->cancel))
			return KVH_CANCELLED;
		status = device->ops->event_wait(device->ctx, event, until_ns);
	} while (status == KVH_TIMEOUT && !kvh_deadline_passed(env, call->deadline_ns));
	return status;
}
