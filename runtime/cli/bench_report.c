/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the bench: median and extremes, one line each, and the same as JSON. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

void kvh_bench_add(struct kvh_bench_series *series, double value)
{
	if (series->count < KVH_BENCH_ROUNDS_MAX)
		series->values[series->count++] = value;
}

static int compare_doubles(const void *a, const void *b)
{
	const double *left = a;
	const double *right = b;

	return (*left > *right) - (*left < *right);
}

static struct kvh_bench_series sorted(const struct kvh_bench_series *series)
{
	struct kvh_bench_series copy = *series;

	qsort(copy.values, copy.count, sizeof(copy.values[0]), compare_doubles);
	return copy;
}

double kvh_bench_median(const struct kvh_bench_series *series)
{
	struct kvh_bench_series copy = sorted(series);

	if (copy.count == 0)
		return 0;
	return (copy.values[(copy.count - 1) / 2] + copy.values[copy.count / 2]) / 2;
}

double kvh_bench_min(const struct kvh_bench_series *series)
{
	return series->count ? sorted(series).values[0] : 0;
}

double kvh_bench_max(const struct kvh_bench_series *series)
{
	return series->count ? sorted(series).values[series->count - 1] : 0;
}

void kvh_bench_head(const struct kvh_bench *bench, const char *words)
{
	fprintf(bench->out, "\n%s\n%-34s %8s %8s %8s %3s  %s\n", words, "", "median", "min", "max",
	        "n", "unit          target");
}

static bool is_met(const struct kvh_bench_target *target, double median)
{
	return target->is_upper ? median <= target->bound : median >= target->bound;
}

static void print_target(FILE *out, const struct kvh_bench_target *target, double median)
{
	char words[32] = "";

	if (target->rule)
		snprintf(words, sizeof(words), "%s %s %g", target->rule,
		         target->is_upper ? "<=" : ">=", target->bound);
	fprintf(out, " %-12s %-7s", words,
	        !target->rule            ? ""
	        : is_met(target, median) ? "met"
	                                 : "MISSED");
}

static json_t *series_json(const struct kvh_bench_series *series)
{
	json_t *values = json_array();

	for (uint32_t i = 0; i < series->count; i++)
		json_array_append_new(values, json_real(series->values[i]));
	return values;
}

void kvh_bench_report(struct kvh_bench *bench, const struct kvh_bench_figure *figure)
{
	const struct kvh_bench_target *target = &figure->target;
	double median = kvh_bench_median(figure->series);
	double min = kvh_bench_min(figure->series);
	double max = kvh_bench_max(figure->series);
	json_t *entry = json_pack("{s:s, s:s, s:f, s:f, s:f, s:o}", "name", figure->name, "unit",
	                          figure->unit, "median", median, "min", min, "max", max, "rounds",
	                          series_json(figure->series));

	fprintf(bench->out, "%-34s %8.3f %8.3f %8.3f %3u  %-13s", figure->name, median, min, max,
	        figure->series->count, figure->unit);
	print_target(bench->out, target, median);
	fprintf(bench->out, " %s\n", figure->note ? figure->note : "");
	fflush(bench->out);
	if (target->rule) {
		bench->target_count++;
		bench->missed_count += !is_met(target, median);
		json_object_set_new(entry, "target",
		                    json_pack("{s:s, s:f, s:s, s:b}", "rule", target->rule, "bound",
		                              target->bound, "sense",
		                              target->is_upper ? "at most" : "at least", "met",
		                              (int)is_met(target, median)));
	}
	if (figure->more)
		json_object_set_new(entry, "more", figure->more);
	json_array_append_new(bench->figures, entry);
}

void kvh_bench_skip(struct kvh_bench *bench, const char *name, const char *why)
{
	fprintf(bench->out, "%-34s not measured: %s\n", name, why);
	json_array_append_new(bench->figures,
	                      json_pack("{s:s, s:s}", "name", name, "not_measured", why));
}

/* The value of the first line of /proc/cpuinfo that begins with "model name". */
static void read_cpu_name(char *name, size_t capacity)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];

	snprintf(name, capacity, "unknown");
	while (file && fgets(line, sizeof(line), file)) {
		const char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || !colon)
			continue;
		snprintf(name, capacity, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
		break;
	}
	if (file)
		fclose(file);
}

json_t *kvh_bench_machine(void)
{
	struct utsname system;
	char cpu[128];
	double load = 0;

	read_cpu_name(cpu, sizeof(cpu));
	if (uname(&system) || getloadavg(&load, 1) != 1)
		return NULL;
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:f}", "cpu", cpu, "machine", system.machine,
	                 "kernel", system.release, "cpus",
	                 (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "last_level_cache_bytes",
	                 (json_int_t)sysconf(_SC_LEVEL3_CACHE_SIZE), "load_average_1min", load);
}
