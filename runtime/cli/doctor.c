/* SPDX-License-Identifier: Apache-2.0 */
/* `kvhold doctor`: what this machine has, and what each backend would need of it. */
#include "cli.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <kvhold/kvhold.h>

enum { FINDINGS_MAX = 16, TEXT_BYTES = 160 };

enum verdict { VERDICT_OK, VERDICT_NOTE, VERDICT_MISSING };

/* One line of the answer. Only VERDICT_MISSING changes the exit code. */
struct finding {
	const char *name;
	enum verdict verdict;
	char text[TEXT_BYTES];
};

struct findings {
	struct finding list[FINDINGS_MAX];
	size_t count;
};

static const char *const verdict_names[] = {"ok", "note", "missing"};

/* The demo's store, both ranks' memory, and room for the rest. */
static const uint64_t memory_kib_min = UINT64_C(2) * 1024 * 1024;

__attribute__((format(printf, 4, 5))) static void
find(struct findings *found, const char *name, enum verdict verdict, const char *format, ...)
{
	struct finding *finding = &found->list[found->count];
	va_list words;

	if (found->count == FINDINGS_MAX)
		return;
	found->count++;
	finding->name = name;
	finding->verdict = verdict;
	va_start(words, format);
	vsnprintf(finding->text, sizeof(finding->text), format, words);
	va_end(words);
}

static bool first_number(const char *text, uint64_t *value)
{
	char *end;

	*value = strtoull(text, &end, 10);
	return end != text;
}

/* A number of /proc/meminfo; false: not there. */
static bool meminfo(const char *field, uint64_t *value)
{
	char line[128];
	bool found = false;
	FILE *file = fopen("/proc/meminfo", "r");

	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file)) {
		size_t bytes = strlen(field);

		if (strncmp(line, field, bytes) == 0 && line[bytes] == ':')
			found = first_number(line + bytes + 1, value);
	}
	fclose(file);
	return found;
}

static void find_library(struct findings *found)
{
	if (kvh_version() == (KVH_VERSION_MAJOR << 16 | KVH_VERSION_MINOR << 8 | KVH_VERSION_PATCH))
		find(found, "library", VERDICT_OK, "libkvhold %s", kvh_version_text());
	else
		find(found, "library", VERDICT_MISSING,
		     "libkvhold %s runs, but this command is %s: install both from one build",
		     kvh_version_text(), KVH_VERSION_TEXT);
}

static void find_cores(struct findings *found)
{
	cpu_set_t set;
	int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;

	find(found, "cores", cores >= 2 ? VERDICT_OK : VERDICT_NOTE, "%d usable%s", cores,
	     cores >= 2 ? "" : "; two or more let ranks and workers run side by side");
}

static void find_vector(struct findings *found)
{
#if defined(__x86_64__)
	bool avx2 = __builtin_cpu_supports("avx2");

	find(found, "avx2", avx2 ? VERDICT_OK : VERDICT_NOTE, "%s",
	     avx2 ? "present" : "absent; copies and checksums run slower");
#else
	find(found, "avx2", VERDICT_NOTE, "not an x86-64 machine");
#endif
}

static void find_memory(struct findings *found)
{
	uint64_t kib;

	if (!meminfo("MemAvailable", &kib))
		find(found, "memory", VERDICT_NOTE, "/proc/meminfo can't be read");
	else if (kib < memory_kib_min)
		find(found, "memory", VERDICT_NOTE,
		     "%" PRIu64 " MiB available; give the demo a smaller --store ?size=",
		     kib / 1024);
	else
		find(found, "memory", VERDICT_OK, "%" PRIu64 " MiB available", kib / 1024);
}

static void find_huge_pages(struct findings *found)
{
	char modes[64] = "unknown";
	uint64_t reserved = 0;
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

	if (file) {
		if (fgets(modes, sizeof(modes), file))
			modes[strcspn(modes, "\n")] = 0;
		fclose(file);
	}
	meminfo("HugePages_Free", &reserved);
	find(found, "huge pages", VERDICT_NOTE,
	     "%" PRIu64 " reserved and free, transparent: %s; no backend needs them", reserved,
	     modes);
}

static void find_memlock(struct findings *found)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
		find(found, "memlock", VERDICT_NOTE, "unknown: %m");
	else if (limit.rlim_cur == RLIM_INFINITY)
		find(found, "memlock", VERDICT_OK, "no limit");
	else
		find(found, "memlock", VERDICT_NOTE,
		     "%llu KiB; local needs none, rdma would need 'ulimit -l unlimited'",
		     (unsigned long long)limit.rlim_cur / 1024);
}

static void find_local(struct findings *found)
{
	struct kvh_error error = {0};
	struct kvh_store *store;
	kvh_status status = kvh_store_open("local:?size=64MiB", NULL, &store, &error);

	if (status != KVH_OK) {
		find(found, "local:", VERDICT_MISSING, "can't be opened: %s", error.text);
		return;
	}
	status = kvh_store_close(store, 0);
	if (status == KVH_OK)
		find(found, "local:", VERDICT_OK, "works; a 64 MiB pool was opened and closed");
	else
		find(found, "local:", VERDICT_MISSING, "can't be closed: %s",
		     kvh_strstatus(status));
}

/* A note at worst: containers often have no /dev/shm to speak of. */
static void find_shared(struct findings *found)
{
	struct kvh_error error = {0};
	struct kvh_store *store = NULL;
	struct statvfs room;
	char path[64], url[96];
	kvh_status status;

	snprintf(path, sizeof(path), "/dev/shm/kvhold.doctor-%ld", (long)getpid());
	snprintf(url, sizeof(url), "local://%s?size=1MiB", path);
	status = kvh_store_open(url, NULL, &store, &error);
	unlink(path);
	if (status == KVH_OK)
		status = kvh_store_close(store, 0);
	if (status != KVH_OK)
		find(found, "local:NAME", VERDICT_NOTE,
		     "shared pools can't be made in /dev/shm: %s",
		     error.text[0] ? error.text : kvh_strstatus(status));
	else if (statvfs("/dev/shm", &room) == 0)
		find(found, "local:NAME", VERDICT_OK,
		     "works; /dev/shm has room for %llu MiB of shared pools",
		     (unsigned long long)room.f_bavail * room.f_frsize >> 20);
}

static void find_absent_backends(struct findings *found)
{
	bool verbs = access("/sys/class/infiniband", F_OK) == 0;
	bool nvidia = access("/proc/driver/nvidia/version", F_OK) == 0;

	find(found, "rdma:", VERDICT_NOTE, "not in this build; %s RDMA devices here",
	     verbs ? "there are" : "there are no");
	find(found, "cuda", VERDICT_NOTE, "not in this build; %s NVIDIA driver here",
	     nvidia ? "there is an" : "there is no");
	find(found, "mooncake:", VERDICT_NOTE, "not in this build");
}

static json_t *findings_json(const struct findings *found, bool ok)
{
	json_t *list = json_array();

	for (size_t i = 0; i < found->count; i++)
		json_array_append_new(list,
		                      json_pack("{s:s, s:s, s:s}", "name", found->list[i].name,
		                                "verdict", verdict_names[found->list[i].verdict],
		                                "text", found->list[i].text));
	return json_pack("{s:b, s:o}", "ok", ok, "findings", list);
}

static bool print_findings(const struct findings *found, bool ok, bool as_json)
{
	if (as_json) {
		json_t *root = findings_json(found, ok);
		bool written = root && kvh_cli_write_json("doctor", root, "-");

		json_decref(root);
		return written;
	}
	for (size_t i = 0; i < found->count; i++)
		printf("  %-8s %-11s %s\n", verdict_names[found->list[i].verdict],
		       found->list[i].name, found->list[i].text);
	printf("%s\n", ok ? "ready" : "not ready: see the lines marked 'missing'");
	return true;
}

static int run_doctor(bool as_json)
{
	struct findings found = {.count = 0};
	bool ok = true;

	find_library(&found);
	find_cores(&found);
	find_vector(&found);
	find_memory(&found);
	find_huge_pages(&found);
	find_memlock(&found);
	find_local(&found);
	find_shared(&found);
	find_absent_backends(&found);
	for (size_t i = 0; i < found.count; i++)
		ok = ok && found.list[i].verdict != VERDICT_MISSING;
	if (!print_findings(&found, ok, as_json))
		return KVH_EXIT_ENVIRONMENT;
	return ok ? KVH_EXIT_OK : KVH_EXIT_ENVIRONMENT;
}

int kvh_cli_doctor(int argc, char **argv)
{
	enum { OPT_JSON = 257 };
	static const struct kvh_cli_option options[] = {
		{"json", OPT_JSON, NULL, "print the findings as JSON"}, {NULL, 0, NULL, NULL}};
	const struct kvh_cli_args args = {
		.command = "doctor",
		.usage = "doctor [options]",
		.about = "Says what this machine has and what each backend would need. Exit status "
			 "3 "
			 "when the\nlocal store can't work here.",
		.options = options,
		.argc = argc,
		.argv = argv,
	};
	bool as_json = false;
	const char *value;
	int id;

	while ((id = kvh_cli_next(&args, &value)) > 0)
		as_json = true;
	if (id == KVH_CLI_HELP)
		return KVH_EXIT_OK;
	return id == KVH_CLI_END ? run_doctor(as_json) : KVH_EXIT_USAGE;
}
