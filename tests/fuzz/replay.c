/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzzer without libFuzzer: replay FOLDER COUNT SEED runs every file of FOLDER and COUNT
 * seeded mutations of them, in a child process, and keeps the input that ended it; replay FILE
 * runs one input here, for a debugger.
 */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define INPUT_BYTES_MAX 4096
#define FILE_COUNT_MAX  1024
#define MUTATION_MAX    8

struct input {
	size_t bytes;
	uint8_t data[INPUT_BYTES_MAX];
};

static struct {
	struct input *inputs; /* FILE_COUNT_MAX of them */
	size_t count;
} corpus;

_Noreturn static void stop(const char *what, const char *which)
{
	fprintf(stderr, "replay: %s: %s (%s)\n", which, what, strerror(errno));
	exit(2);
}

static void read_input(const char *path, struct input *input)
{
	FILE *file = fopen(path, "rb");

	if (!file)
		stop("can't open", path);
	input->bytes = fread(input->data, 1, sizeof(input->data), file);
	if (ferror(file) || fgetc(file) != EOF)
		stop("can't read, or over 4096 bytes", path);
	fclose(file);
}

static int is_file(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* In the order of their names, so that a seed means the same on every machine. */
static void read_corpus(const char *folder)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, is_file, alphasort);

	if (count <= 0 || count > FILE_COUNT_MAX)
		stop("can't read, or not 1 to 1024 files", folder);
	corpus.inputs = calloc((size_t)count, sizeof(*corpus.inputs));
	if (!corpus.inputs)
		stop("no memory", folder);
	for (int index = 0; index < count; index++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/%s", folder, entries[index]->d_name);
		read_input(path, &corpus.inputs[corpus.count++]);
		free(entries[index]);
	}
	free(entries);
}

/* SplitMix64. */
static uint64_t draw(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static size_t draw_below(uint64_t *seed, size_t limit)
{
	return limit ? (size_t)(draw(seed) % limit) : 0;
}

static void remove_part(struct input *input, uint64_t *seed)
{
	size_t from = draw_below(seed, input->bytes);
	size_t part_bytes = 1 + draw_below(seed, input->bytes - from);

	memmove(input->data + from, input->data + from + part_bytes,
	        input->bytes - from - part_bytes);
	input->bytes -= part_bytes;
}

/* Opens a gap at a random place and fills it with part of any input. */
static void insert_part(struct input *input, uint64_t *seed)
{
	const struct input *other = &corpus.inputs[draw_below(seed, corpus.count)];
	size_t at = draw_below(seed, input->bytes + 1);
	size_t from, part_bytes;

	if (other->bytes == 0)
		return;
	from = draw_below(seed, other->bytes);
	part_bytes = 1 + draw_below(seed, other->bytes - from);
	if (part_bytes > INPUT_BYTES_MAX - input->bytes)
		return;
	memmove(input->data + at + part_bytes, input->data + at, input->bytes - at);
	memcpy(input->data + at, other->data + from, part_bytes);
	input->bytes += part_bytes;
}

static void set_byte(struct input *input, uint64_t *seed)
{
	/* Where lengths, counts and texts turn. */
	static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, '\n', ' ', '"', '%', '/', ':'};
	size_t at = draw_below(seed, input->bytes);

	switch (draw(seed) % 4) {
	case 0:
		input->data[at] ^= (uint8_t)(1u << draw_below(seed, 8));
		break;
	case 1:
		input->data[at] = edges[draw_below(seed, sizeof(edges))];
		break;
	case 2:
		input->data[at] = (uint8_t)(input->data[at] + draw_below(seed, 9) - 4);
		break;
	default:
		input->data[at] = (uint8_t)draw(seed);
		break;
	}
}

static void mutate(struct input *input, uint64_t *seed)
{
	size_t count = 1 + draw_below(seed, MUTATION_MAX);

	while (count-- > 0) {
		uint64_t choice = draw(seed) % 4;

		if (input->bytes == 0 || choice == 0)
			insert_part(input, seed);
		else if (choice == 1)
			remove_part(input, seed);
		else
			set_byte(input, seed);
	}
}

/* In memory of exactly its bytes, so that a sanitizer sees the first one read too many. */
static void run_input(const struct input *input)
{
	uint8_t *data = malloc(input->bytes ? input->bytes : 1);

	if (!data)
		stop("no memory", "input");
	memcpy(data, input->data, input->bytes);
	LLVMFuzzerTestOneInput(data, input->bytes);
	free(data);
}

static void run_all(struct input *now, uint64_t count, uint64_t seed)
{
	for (size_t index = 0; index < corpus.count; index++) {
		*now = corpus.inputs[index];
		run_input(now);
	}
	while (count-- > 0) {
		*now = corpus.inputs[draw_below(&seed, corpus.count)];
		mutate(now, &seed);
		run_input(now);
	}
}

static void keep(const struct input *input, const char *folder)
{
	const char *slash = strrchr(folder, '/');
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "crash-%s", slash ? slash + 1 : folder);
	file = fopen(path, "wb");
	if (!file || fwrite(input->data, 1, input->bytes, file) != input->bytes || fclose(file))
		stop("can't write", path);
	fprintf(stderr, "replay: the input that ended it is in %s, %zu bytes\n", path,
	        input->bytes);
}

static int run_in_child(const char *folder, uint64_t count, uint64_t seed)
{
	struct input *now =
		mmap(NULL, sizeof(*now), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status = 0;
	pid_t child;

	if (now == MAP_FAILED)
		stop("no memory", folder);
	read_corpus(folder);
	fflush(NULL);
	child = fork();
	if (child < 0)
		stop("can't fork", folder);
	if (child == 0) {
		run_all(now, count, seed);
		free(corpus.inputs);
		exit(0);
	}
	if (waitpid(child, &status, 0) != child)
		stop("lost the child", folder);
	if (status != 0)
		keep(now, folder);
	else
		printf("replay: %zu inputs and %llu mutations, seed %llu\n", corpus.count,
		       (unsigned long long)count, (unsigned long long)seed);
	free(corpus.inputs);
	return status != 0;
}

int main(int argc, char **argv)
{
	struct input input;

	if (argc == 4)
		return run_in_child(argv[1], strtoull(argv[2], NULL, 10),
		                    strtoull(argv[3], NULL, 10));
	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER COUNT SEED | FILE\n", argv[0]);
		return 2;
	}
	read_input(argv[1], &input);
	run_input(&input);
	return 0;
}
