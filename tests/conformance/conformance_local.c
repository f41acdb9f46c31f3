/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite over the pool in this process. */
#include <inttypes.h>
#include <stdio.h>

#include "conformance.h"

static kvh_status open_local(uint64_t capacity_bytes, const struct kvh_store_options *options,
                             struct kvh_store **store, struct kvh_error *error)
{
	char url[64];

	snprintf(url, sizeof(url), "local:?size=%" PRIu64, capacity_bytes);
	return kvh_store_open(url, options, store, error);
}

int main(int argc, char **argv)
{
	const struct conf_subject subject = {.name = "conformance_local", .open = open_local};

	return conf_main(&subject, argc, argv);
}
