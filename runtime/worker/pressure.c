/* SPDX-License-Identifier: Apache-2.0 */
/* NO_AVAILABLE_HANDLE pressure: whose saves wait, and when one of them tries again (R-20, D-7). */
#include "worker/internal.h"

#define PROBE_WAIT_MAX_NS (30ull * 1000 * 1000 * 1000)

bool kvh_pressure_skips(struct kvh_worker *worker, const struct worker_job *job, bool *probe)
{
	struct pressure *pressure = &worker->pressure;

	*probe = false;
	if (!pressure->active || !job->request || !job->request->skipped)
		return false;
	if (!pressure->probe_wait_ns || kvh_now_ns(worker->env) < pressure->probe_at_ns)
		return true;
	/* The next probe is a full wait away, whatever becomes of this one. */
	pressure->probe_at_ns = kvh_deadline_after(worker->env, pressure->probe_wait_ns);
	worker->stats.pressure_probes++;
	*probe = true;
	return false;
}

static void arm_probe(struct kvh_worker *worker, uint64_t wait_ns) KVH_REQUIRES(kvh_role_worker)
{
	worker->pressure.probe_wait_ns = wait_ns;
	worker->pressure.probe_at_ns = kvh_deadline_after(worker->env, wait_ns);
}

/* A wait that was set longer stays as it is. */
static uint64_t doubled(uint64_t wait_ns)
{
	if (wait_ns >= PROBE_WAIT_MAX_NS)
		return wait_ns;
	return wait_ns < PROBE_WAIT_MAX_NS / 2 ? wait_ns * 2 : PROBE_WAIT_MAX_NS;
}

void kvh_pressure_raise(struct kvh_worker *worker, struct worker_request *request, bool probe)
{
	struct pressure *pressure = &worker->pressure;
	uint64_t wait_ns = pressure->probe_wait_ns;

	if (!pressure->active) {
		pressure->active = true;
		worker->stats.pressure_episodes++;
		arm_probe(worker, worker->pressure_probe_ns);
	} else if (probe) {
		arm_probe(worker, doubled(wait_ns));
	}
	if (request && !request->skipped) {
		request->skipped = true;
		pressure->skipped_count++;
	}
}

bool kvh_pressure_clear(struct kvh_worker *worker)
{
	struct pressure *pressure = &worker->pressure;
	struct kvh_map_entry *entry = NULL;

	if (!pressure->active)
		return false;
	pressure->active = false;
	while (pressure->skipped_count && (entry = kvh_map_next(&worker->requests, entry))) {
		struct worker_request *request = (struct worker_request *)entry;

		pressure->skipped_count -= request->skipped;
		request->skipped = false;
	}
	return true;
}
