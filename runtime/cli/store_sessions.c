/* SPDX-License-Identifier: Apache-2.0 */
/* `kvhold store stat`: which processes have a store open. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "store.h"

kvh_status kvh_cli_sessions_collect(struct kvh_store *store, struct kvh_cli_sessions *sessions)
{
	size_t count = 0, kept = 0;
	kvh_status status = kvh_store_get_sessions(store, sessions->list, sizeof(sessions->list[0]),
	                                           KVH_CLI_SESSIONS_MAX, &count);

	for (size_t i = 0; i < count && i < KVH_CLI_SESSIONS_MAX; i++)
		if (!sessions->list[i].is_own)
			sessions->list[kept++] = sessions->list[i];
	sessions->count = kept;
	return status == KVH_NOT_SUPPORTED ? KVH_OK : status;
}

/*
 * What its process is doing, by the letter that /proc has for it; 0: it can't be told, as of one in
 * another container.
 */
static char process_state(const struct kvh_store_session *session)
{
	char path[64], line[256], state = 0;
	struct stat own;
	FILE *file;

	if (!session->pid || stat("/proc/self/ns/pid", &own) != 0 ||
	    own.st_ino != session->pid_namespace)
		return 0;
	snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)session->pid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (fgets(line, sizeof(line), file)) {
		const char *name_end = strrchr(line, ')');

		state = name_end && name_end[1] == ' ' ? name_end[2] : 0;
	}
	fclose(file);
	return state;
}

static const char *state_word(const struct kvh_store_session *session)
{
	char state = process_state(session);

	if (session->is_dead)
		return "dead";
	if (!state)
		return "alive, in another container";
	return state == 'T' || state == 't' ? "STOPPED" : "alive";
}

void kvh_cli_sessions_print(const struct kvh_cli_sessions *sessions)
{
	for (size_t i = 0; i < sessions->count; i++) {
		const struct kvh_store_session *session = &sessions->list[i];

		printf("  session   %llu: process %llu, %s; reads %u objects, writes or holds %u\n",
		       (unsigned long long)session->serial, (unsigned long long)session->pid,
		       state_word(session), session->pinned_objects, session->reserved_objects);
	}
}

json_t *kvh_cli_sessions_json(const struct kvh_cli_sessions *sessions)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < sessions->count; i++) {
		const struct kvh_store_session *session = &sessions->list[i];

		json_array_append_new(list,
		                      json_pack("{s:I, s:I, s:I, s:s, s:i, s:i}", "serial",
		                                (json_int_t)session->serial, "pid",
		                                (json_int_t)session->pid, "pid_namespace",
		                                (json_int_t)session->pid_namespace, "state",
		                                state_word(session), "pinned_objects",
		                                (int)session->pinned_objects, "reserved_objects",
		                                (int)session->reserved_objects));
	}
	return list;
}
