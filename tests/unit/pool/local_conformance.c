/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite over the local pool, opened without the URL table. */
#include "conformance/conformance.h"

#include <kvhold/store_ops.h>

#include "pool/pool.h"

static kvh_status open_local(uint64_t capacity_bytes, const struct kvh_store_options *options,
                             struct kvh_store **store, struct kvh_error *error)
{
	struct kvh_local_options local = {.capacity_bytes = capacity_bytes, .verify = true};
	struct kvh_store_ops ops;
	void *self;
	kvh_status status = kvh_local_open(&local, options->env ? options->env : kvh_env_posix(),
	                                   options->device ? options->device : kvh_device_host(),
	                                   &options->log, &ops, &self, error);

	return status ? status : kvh_store_open_ops(&ops, self, options, store, error);
}

int main(int argc, char **argv)
{
	const struct conf_subject subject = {.name = "local", .open = open_local};

	return conf_main(&subject, argc, argv);
}
