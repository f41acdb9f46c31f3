/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's store: a shared pool in /dev/shm by default, a handle for each rank. */
#include "demo.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char private_url[] = "local:?size=1536MiB";

/* What a signal's handler may still do: the pool's memory would outlive the command. */
static char file_to_remove[64];

static void remove_file_and_die(int number)
{
	unlink(file_to_remove);
	signal(number, SIG_DFL);
	raise(number);
}

static void remove_file_on_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = remove_file_and_die};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
}

/* Processes share a pool that has a name or a path. */
static bool is_shared(const char *url)
{
	static const char local[] = "local:";

	return strncmp(url, local, sizeof(local) - 1) == 0 && url[sizeof(local) - 1] &&
	       url[sizeof(local) - 1] != '?';
}

static kvh_status open_handles(struct kvh_demo_store *store, struct kvh_error *error)
{
	uint32_t wanted = is_shared(store->url) ? store->rank_count : 1;
	kvh_status status = KVH_OK;

	for (store->handle_count = 0; store->handle_count < wanted && status == KVH_OK;) {
		status = kvh_store_open(store->url, NULL, &store->handles[store->handle_count],
		                        error);
		store->handle_count += status == KVH_OK;
	}
	if (status != KVH_OK)
		kvh_demo_store_close(store);
	return status;
}

kvh_status kvh_demo_store_open(struct kvh_demo_store *store, const char *url, uint32_t rank_count,
                               struct kvh_error *error)
{
	kvh_status status;

	*store = (struct kvh_demo_store){.url = url, .rank_count = rank_count};
	if (url) {
		store->shared = is_shared(url);
		return open_handles(store, error);
	}
	snprintf(file_to_remove, sizeof(file_to_remove), "/dev/shm/kvhold.demo-%ld",
	         (long)getpid());
	snprintf(store->own_url, sizeof(store->own_url), "local://%s?size=1536MiB", file_to_remove);
	store->url = store->own_url;
	store->shared = true;
	remove_file_on_signals();
	status = open_handles(store, error);
	if (status == KVH_OK)
		return KVH_OK;
	/* A container's /dev/shm may be small, or not there at all. */
	snprintf(store->why_private, sizeof(store->why_private), "%s", error->text);
	store->url = private_url;
	store->shared = false;
	return open_handles(store, error);
}

kvh_status kvh_demo_store_reopen(struct kvh_demo_store *store, struct kvh_error *error)
{
	return open_handles(store, error);
}

kvh_status kvh_demo_store_close(struct kvh_demo_store *store)
{
	kvh_status status = KVH_OK;

	while (store->handle_count && status == KVH_OK) {
		status = kvh_store_close(store->handles[store->handle_count - 1], 0);
		store->handle_count -= status == KVH_OK;
	}
	return status;
}

void kvh_demo_store_remove(struct kvh_demo_store *store)
{
	if (store->own_url[0])
		unlink(file_to_remove);
}

struct kvh_store *kvh_demo_store_of(const struct kvh_demo_store *store, uint32_t rank)
{
	return store->handles[rank % store->handle_count];
}
