/* SPDX-License-Identifier: Apache-2.0 */
/* `kvhold store` over a filled pool: what it prints, and what it returns. */
#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "pool/local/local.h"
#include "store/store_internal.h"

enum { OBJECTS = 5, BLOCK_BYTES = 5000, OUTPUT_BYTES = 1 << 16, ARGUMENTS_MAX = 8 };

/* Two names for each object: the prefix in turn, and the bytes 1, 2, ... 32 of its hash. */
static const char *const prefix_texts[] = {"m@0@", "m@1@"};
static char first_key[] = "m@0@0000000000000000000000000000000000000000000000000000000000000000";

/* What the next store is to be like. */
struct wish {
	const char *url;         /* opened in place of what the command says */
	uint32_t corrupt_plus_1; /* slot whose payload is damaged; 0: none */
	uint32_t ruin_plus_1;    /* slot whose record is */
	bool held;               /* one more is being written */
	bool forget;             /* the prefixes, as another process would see it */
};
static struct wish wish;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names for a call that it wraps */
kvh_status __real_kvh_store_open(const char *url, const struct kvh_store_options *options,
                                 struct kvh_store **store, struct kvh_error *error);
kvh_status __wrap_kvh_store_open(const char *url, const struct kvh_store_options *options,
                                 struct kvh_store **store, struct kvh_error *error);
/* NOLINTEND(bugprone-reserved-identifier) */

static void put_object(struct kvh_store *store, unsigned number, struct kvh_token *token)
{
	static unsigned char payload[BLOCK_BYTES];
	const struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix), .text = prefix_texts[number % 2], .text_bytes = 4};
	const struct kvh_put_options options = {.struct_bytes = sizeof(options),
	                                        .flags = token ? KVH_PUT_HOLD : 0,
	                                        .priority = number % 4,
	                                        .keep_seconds = number == 4 ? 600 : 0,
	                                        .tokens = token};
	uint8_t hash[32];
	struct kvh_key key = {.hash = hash, .hash_bytes = sizeof(hash)};
	const struct kvh_segment segment = {payload, sizeof(payload)};
	const struct kvh_value value = {.segments = &segment, .segment_count = 1};
	struct kvh_result result;
	const struct kvh_batch batch = {1, &key, &value, &result};
	kvh_region_id region;

	memset(hash, (int)number, sizeof(hash));
	memset(payload, (int)number, sizeof(payload));
	assert_int_equal(
		kvh_store_register(store, payload, sizeof(payload), KVH_MEMORY_HOST, &region, NULL),
		KVH_OK);
	assert_int_equal(kvh_store_prefix(store, &prefix, &key.prefix_id, NULL), KVH_OK);
	assert_int_equal(kvh_store_put(store, &batch, &options, NULL), KVH_OK);
	assert_int_equal(result.value, 0);
	assert_int_equal(kvh_store_unregister(store, region, 0), KVH_OK);
}

/* A handle that interned nothing: the entries go, the pool keeps its own. */
static void forget_prefixes(struct kvh_store *store)
{
	kvh_prefix_table_fini(&store->prefixes);
	memset(&store->prefixes, 0, sizeof(store->prefixes));
}

kvh_status __wrap_kvh_store_open(const char *url, const struct kvh_store_options *options,
                                 struct kvh_store **store, struct kvh_error *error)
{
	struct kvh_core *core;
	struct kvh_token token;
	kvh_status status;

	if (!wish.url)
		return __real_kvh_store_open(url, options, store, error);
	status = __real_kvh_store_open(wish.url, options, store, error);
	if (status)
		return status;
	for (unsigned i = 0; i < OBJECTS; i++)
		put_object(*store, i, NULL);
	if (wish.held)
		put_object(*store, OBJECTS, &token);
	core = &((struct kvh_local *)(*store)->self)->core;
	if (wish.corrupt_plus_1)
		kvh_core_extent(core, wish.corrupt_plus_1 - 1)[17] ^= 1;
	if (wish.ruin_plus_1)
		atomic_fetch_xor(&core->area.slots[wish.ruin_plus_1 - 1].length_bytes, 1);
	if (wish.forget)
		forget_prefixes(*store);
	return KVH_OK;
}

/* ---- running a command ----------------------------------------------------------------- */

struct output {
	int code;
	char text[OUTPUT_BYTES];   /* of stdout */
	char errors[OUTPUT_BYTES]; /* of stderr */
};

/* Sends a stream into a file; gives back what undoes it. */
static int divert(FILE *stream, FILE *file)
{
	int saved;

	fflush(stream);
	saved = dup(fileno(stream));
	assert_true(saved >= 0);
	assert_true(dup2(fileno(file), fileno(stream)) >= 0);
	return saved;
}

static void restore(FILE *stream, int saved, FILE *file, char *text)
{
	size_t bytes;

	fflush(stream);
	assert_true(dup2(saved, fileno(stream)) >= 0);
	close(saved);
	rewind(file);
	bytes = fread(text, 1, OUTPUT_BYTES - 1, file);
	text[bytes] = 0;
	fclose(file);
}

/* `kvhold store` with these words. */
static void run(struct output *output, const char *const *words)
{
	char *argv[ARGUMENTS_MAX + 2] = {strdup("store")};
	int argc = 1;
	FILE *out = tmpfile();
	FILE *err = tmpfile();
	int saved_out, saved_err;

	assert_true(out && err);
	for (; words[argc - 1]; argc++) {
		assert_true(argc <= ARGUMENTS_MAX);
		argv[argc] = strdup(words[argc - 1]);
	}
	optind = 0; /* glibc: begin again */
	saved_out = divert(stdout, out);
	saved_err = divert(stderr, err);
	output->code = kvh_cli_store(argc, argv);
	restore(stdout, saved_out, out, output->text);
	restore(stderr, saved_err, err, output->errors);
	while (argc > 0)
		free(argv[--argc]);
}

#define RUN(output, ...) run(output, (const char *const[]){__VA_ARGS__, NULL})

static struct output output;

static void expect(int code, const char *words)
{
	if (output.code != code || !strstr(output.text, words))
		fail_msg("exit %d, not %d, or no \"%s\" in:\n%s%s", output.code, code, words,
		         output.text, output.errors);
}

static size_t lines(const char *text)
{
	size_t count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

static json_t *parsed(const char *text)
{
	json_t *root = json_loads(text, 0, NULL);

	assert_non_null(root);
	return root;
}

static json_int_t number_of(json_t *object, const char *name)
{
	assert_true(json_is_integer(json_object_get(object, name)));
	return json_integer_value(json_object_get(object, name));
}

static int reset(void **state)
{
	(void)state;
	wish = (struct wish){.url = "local:?size=1MiB&verify=1"};
	return 0;
}

#define store_test(fn) cmocka_unit_test_setup(fn, reset)

/* ---- stat ------------------------------------------------------------------------------ */

static void stat_counts_by_prefix(void **state)
{
	(void)state;
	wish.held = true;
	RUN(&output, "stat", "local:x");
	expect(KVH_EXIT_OK, "objects   5\n");
	expect(KVH_EXIT_OK, "used      49152 of 1048576 bytes (4.7 %)\n");
	expect(KVH_EXIT_OK, "reserved  1 objects");
	expect(KVH_EXIT_OK, "prefix    m@0@  3 objects, 15000 bytes\n");
	expect(KVH_EXIT_OK, "prefix    m@1@  2 objects, 10000 bytes\n");
	assert_string_equal(output.errors, "");
}

static void stat_in_json_says_the_same(void **state)
{
	json_t *root, *prefixes;

	(void)state;
	wish.forget = true;
	RUN(&output, "stat", "--json", "local:x");
	assert_int_equal(output.code, KVH_EXIT_OK);
	root = parsed(output.text);
	assert_int_equal(number_of(root, "objects"), OBJECTS);
	assert_int_equal(number_of(root, "used_bytes"), OBJECTS * 8192);
	assert_int_equal(number_of(root, "capacity_bytes"), 1 << 20);
	assert_int_equal(number_of(root, "pinned_objects"), 0);
	assert_int_equal(number_of(root, "evicted_keys"), 0);
	prefixes = json_object_get(root, "prefixes");
	assert_int_equal(json_array_size(prefixes), 2);
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(prefixes, 0), "prefix")), "m@0@");
	assert_int_equal(number_of(json_array_get(prefixes, 0), "objects"), 3);
	assert_int_equal(number_of(json_array_get(prefixes, 0), "bytes"), 15000);
	json_decref(root);
}

static void a_store_that_cannot_list_still_counts(void **state)
{
	json_t *root;

	(void)state;
	wish.url = NULL;
	RUN(&output, "stat", "--json", "null:");
	assert_int_equal(output.code, KVH_EXIT_OK);
	root = parsed(output.text);
	assert_int_equal(number_of(root, "objects"), 0);
	assert_null(json_object_get(root, "prefixes"));
	json_decref(root);
	RUN(&output, "ls", "null:");
	assert_int_equal(output.code, KVH_EXIT_USAGE);
	assert_string_equal(output.errors,
	                    "kvhold store ls: null:: this kind of store can't do that\n");
	RUN(&output, "verify", "null:");
	assert_int_equal(output.code, KVH_EXIT_USAGE);
}

/* ---- ls -------------------------------------------------------------------------------- */

static void ls_has_a_line_for_each_object(void **state)
{
	(void)state;
	wish.held = true;
	for (int forget = 0; forget < 2; forget++) {
		wish.forget = forget;
		RUN(&output, "ls", "local:x");
		expect(KVH_EXIT_OK, first_key);
		expect(KVH_EXIT_OK, "m@1@010101");
		expect(KVH_EXIT_OK, "  5000  ");
		expect(KVH_EXIT_OK, "  priority=3\n");
		expect(KVH_EXIT_OK, "  keep=");
		assert_int_equal(lines(output.text), OBJECTS);
		assert_string_equal(output.errors, "");
	}
}

static void ls_in_json_has_an_object_a_line(void **state)
{
	json_t *object;
	char *line;

	(void)state;
	RUN(&output, "ls", "local:x", "--json", "--prefix", "m@0@00");
	assert_int_equal(output.code, KVH_EXIT_OK);
	assert_int_equal(lines(output.text), 1);
	line = strtok(output.text, "\n");
	object = parsed(line);
	assert_string_equal(json_string_value(json_object_get(object, "key")), first_key);
	assert_int_equal(number_of(object, "bytes"), BLOCK_BYTES);
	assert_true(number_of(object, "uses_since") >= OBJECTS - 1);
	assert_int_equal(number_of(object, "priority"), 0);
	assert_int_equal(number_of(object, "keep_seconds"), 0);
	assert_int_equal(number_of(object, "expire_seconds"), 0);
	assert_true(json_is_false(json_object_get(object, "group")));
	json_decref(object);
}

static void ls_stops_and_chooses_as_told(void **state)
{
	(void)state;
	RUN(&output, "ls", "local:x", "--limit", "2");
	assert_int_equal(lines(output.text), 2);
	RUN(&output, "ls", "local:x", "--prefix", "m@1@");
	assert_int_equal(lines(output.text), 2);
	RUN(&output, "ls", "local:x", "--prefix", "m@1@", "--limit", "1");
	assert_int_equal(lines(output.text), 1);
	RUN(&output, "ls", "local:x", "--prefix", "nobody@");
	assert_int_equal(output.code, KVH_EXIT_OK);
	assert_string_equal(output.text, "");
}

/* ---- verify ---------------------------------------------------------------------------- */

static void verify_finds_all_good(void **state)
{
	(void)state;
	RUN(&output, "verify", "local:x");
	assert_int_equal(output.code, KVH_EXIT_OK);
	assert_string_equal(output.text, "5 good, 0 damaged, 0 unverifiable\n");
}

static void verify_says_what_it_could_not_compare(void **state)
{
	(void)state;
	wish.url = "local:?size=1MiB";
	RUN(&output, "verify", "local:x");
	expect(KVH_EXIT_OK, "0 good, 0 damaged, 5 unverifiable\n");
	expect(KVH_EXIT_OK, "keeps no checksums");
}

static void verify_names_what_is_damaged(void **state)
{
	(void)state;
	wish.corrupt_plus_1 = 1;
	wish.ruin_plus_1 = 2;
	RUN(&output, "verify", "local:x");
	expect(KVH_EXIT_FAILURE, "3 good, 2 damaged, 0 unverifiable\n");
	expect(KVH_EXIT_FAILURE, "damaged payload: m@0@0000");
	expect(KVH_EXIT_FAILURE, "damaged record: ");
	assert_int_equal(lines(output.text), 3);
}

static void verify_in_json_names_it_too(void **state)
{
	json_t *root, *damaged;

	(void)state;
	wish.corrupt_plus_1 = 1;
	RUN(&output, "verify", "local:x", "--json");
	assert_int_equal(output.code, KVH_EXIT_FAILURE);
	root = parsed(output.text);
	assert_int_equal(number_of(root, "good"), OBJECTS - 1);
	assert_int_equal(number_of(root, "damaged"), 1);
	assert_int_equal(number_of(root, "unverifiable"), 0);
	damaged = json_array_get(json_object_get(root, "damaged_objects"), 0);
	assert_string_equal(json_string_value(json_object_get(damaged, "key")), first_key);
	assert_string_equal(json_string_value(json_object_get(damaged, "damage")), "payload");
	json_decref(root);
}

/* ---- clear ----------------------------------------------------------------------------- */

static void clear_says_how_many(void **state)
{
	(void)state;
	RUN(&output, "clear", "local:x", "--yes");
	assert_int_equal(output.code, KVH_EXIT_OK);
	assert_string_equal(output.text, "removed 5 objects\n");
}

static void clear_without_a_yes_opens_nothing(void **state)
{
	(void)state;
	wish.url = "nonsense";
	RUN(&output, "clear", "local:x");
	assert_int_equal(output.code, KVH_EXIT_USAGE);
	assert_string_equal(output.text, "");
	assert_non_null(strstr(output.errors, "say --yes"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		store_test(stat_counts_by_prefix),
		store_test(stat_in_json_says_the_same),
		store_test(a_store_that_cannot_list_still_counts),
		store_test(ls_has_a_line_for_each_object),
		store_test(ls_in_json_has_an_object_a_line),
		store_test(ls_stops_and_chooses_as_told),
		store_test(verify_finds_all_good),
		store_test(verify_says_what_it_could_not_compare),
		store_test(verify_names_what_is_damaged),
		store_test(verify_in_json_names_it_too),
		store_test(clear_says_how_many),
		store_test(clear_without_a_yes_opens_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
