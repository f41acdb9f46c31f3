/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite over a pool in a mapped file. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "conformance.h"

static kvh_status open_shared(uint64_t capacity_bytes, const struct kvh_store_options *options,
                              struct kvh_store **store, struct kvh_error *error)
{
	char path[64], url[128];
	kvh_status status;

	snprintf(path, sizeof(path), "/dev/shm/kvhold.conf-%ld", (long)getpid());
	snprintf(url, sizeof(url), "local://%s?size=%" PRIu64, path, capacity_bytes);
	status = kvh_store_open(url, options, store, error);
	/* Each store is a pool of its own; the file lives on without its name. */
	unlink(path);
	return status;
}

int main(int argc, char **argv)
{
	const struct conf_subject subject = {.name = "conformance_shared", .open = open_shared};

	return conf_main(&subject, argc, argv);
}
