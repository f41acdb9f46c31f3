/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for the runtime's hooks where the golden tests are built without it. */
#include "replay.h"

const struct replay_ops *golden_worker_ops(void)
{
	return NULL;
}

const struct pure_ops *golden_runtime_pure_ops(void)
{
	return NULL;
}
