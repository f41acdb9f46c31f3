#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command as a user meets it: exit codes, words for mistakes, help, JSON, the report, and that
the demo finds what is wrong. command_test.py COMMAND VERSION FOLDER"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

COMMAND, VERSION, FOLDER = sys.argv[1:4]
OK, FAILURE, USAGE, ENVIRONMENT = 0, 1, 2, 3
# Smaller than what 120 requests save (about 500 MiB), so that blocks are evicted.
SMALL = ("--requests", "120", "--store", "local:?size=128MiB", "--time-limit", "0")


def kvhold(*arguments, cwd=None, file_bytes_max=None):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))

    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=250,
                          cwd=cwd or FOLDER, check=False,
                          preexec_fn=limit if file_bytes_max else None)


class Mistakes(unittest.TestCase):
    def expect(self, arguments, code, *words):
        done = kvhold(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)

    def test_no_command_lists_them(self):
        self.expect([], USAGE, "usage: kvhold", "demo", "doctor", "version")

    def test_unknown_command_names_the_nearest(self):
        self.expect(["demmo"], USAGE, "unknown command 'demmo'", "did you mean 'demo'?")

    def test_unknown_command_far_from_all_points_to_the_help(self):
        self.expect(["bandwidth"], USAGE, "'kvhold --help' lists them")

    def test_unknown_option_names_the_nearest(self):
        self.expect(["demo", "--request-s", "3"], USAGE, "did you mean '--requests'?")

    def test_missing_value(self):
        self.expect(["demo", "--seed"], USAGE, "'--seed' needs a value")

    def test_value_for_an_option_without(self):
        self.expect(["demo", "--no-neighbour=1"], USAGE, "takes no value")

    def test_numbers_out_of_range(self):
        for option, value in (("--requests", "0"), ("--ranks", "9"), ("--ranks", "0"),
                              ("--seed", "-1"), ("--time-limit", "1.5"), ("--requests", "x")):
            self.expect(["demo", option, value], USAGE, f"{option} {value}: a whole number from")

    def test_left_over_argument(self):
        self.expect(["demo", "trace.jsonl"], USAGE, "unexpected argument 'trace.jsonl'")
        self.expect(["version", "x"], USAGE, "unexpected argument 'x'")

    def test_trace_that_is_not_there(self):
        self.expect(["demo", "--trace", "/nowhere/t"], USAGE, "/nowhere/t: can't be opened")

    def test_damaged_trace_is_named_with_its_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t.jsonl"
            path.write_text('{"timestamp": 0, "input_length": 1, "output_length": 1, '
                            '"hash_ids": [1]}\n{"timestamp": 0, "input_length": 1}\n')
            self.expect(["demo", "--trace", str(path)], USAGE, f"{path}:2: ")

    def test_request_larger_than_the_engine(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t.jsonl"
            ids = list(range(2000))
            path.write_text(json.dumps({"timestamp": 0, "input_length": 512 * 2000,
                                        "output_length": 1, "hash_ids": ids}))
            self.expect(["demo", "--trace", str(path)], USAGE, "request 1 of the trace")

    def test_files_that_cannot_be_written_are_named_before_the_run(self):
        for arguments in (("demo", "--report", "/nowhere/page.html"),
                          ("demo", "--json", "/nowhere/figures.json"), ("demo", "--json", ""),
                          ("demo", "--report", FOLDER), ("bench", "--json", "/nowhere/f.json")):
            self.expect(arguments, USAGE, " ".join(arguments[1:]), "can't be written: ")

    def test_unknown_store(self):
        self.expect(["demo", "--store", "lokal:"], USAGE, "--store lokal:")
        self.expect(["bench", "--store", "lokal:"], USAGE, "--store lokal:")


    def test_store_commands(self):
        self.expect(["store"], USAGE, "usage: kvhold store", "stat", "ls", "verify", "clear")
        self.expect(["store", "verfy"], USAGE, "kvhold store: unknown command 'verfy'",
                    "did you mean 'verify'?")
        self.expect(["store", "bandwidth"], USAGE, "'kvhold store --help' lists them")
        for command in ("stat", "ls", "verify", "clear"):
            self.expect(["store", command], USAGE, "needs the store's URL",
                        f"kvhold store {command} URL")
            self.expect(["store", command, "a:", "b:"], USAGE, "unexpected argument 'b:'")
            self.expect(["store", command, "--jsn", "null:"], USAGE, "unknown option '--jsn'")
        for command in ("stat", "ls", "verify"):
            self.expect(["store", command, "lokal:"], USAGE, "lokal:: ", "did you mean local:?")
        self.expect(["store", "ls", "null:", "--limit", "0"], USAGE, "--limit 0: a whole number")
        self.expect(["store", "clear", "local:?size=1MiB"], USAGE, "say --yes")


class Words(unittest.TestCase):
    def check_help(self, *words):
        """The help of a command that lists others, and theirs."""
        done = kvhold(*words, "--help")
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        self.assertIn(" ".join(("usage: kvhold", *words)), done.stdout)
        if "commands:\n" not in done.stdout:
            return
        listed = done.stdout.split("commands:\n")[1].split("\n\n")[0]
        for line in listed.splitlines():
            self.check_help(*words, line.split()[0])

    def test_help_of_the_whole_and_of_each_command(self):
        self.check_help()

    def test_version(self):
        for arguments in (["version"], ["--version"]):
            done = kvhold(*arguments)
            self.assertEqual(done.returncode, OK)
            self.assertIn(VERSION, done.stdout)

    def test_words_that_are_lost_are_no_success(self):
        for arguments in (["--help"], ["version"], ["doctor"], ["doctor", "--json"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, ENVIRONMENT)
            self.assertIn("failed: No space left on device", done.stderr)

    def test_doctor_finds_the_local_store(self):
        done = kvhold("doctor")
        self.assertEqual(done.returncode, OK, done.stdout)
        self.assertIn("ready", done.stdout)
        answer = json.loads(kvhold("doctor", "--json").stdout)
        self.assertTrue(answer["ok"])
        names = [finding["name"] for finding in answer["findings"]]
        self.assertIn("local:", names)
        self.assertIn("local:NAME", names)

    def test_the_bench_opens_a_shared_pool_and_removes_it(self):
        if kvhold("bench", "--help").returncode != OK:
            self.skipTest("this build has no bench")
        done = kvhold("bench", "--only", "open", "--open-keys", "256", "--rounds", "2", "--json", "-")
        self.assertEqual(done.returncode, OK, done.stderr)
        figures = {figure["name"]: figure for figure in json.loads(done.stdout)["figures"]}
        self.assertEqual(len(figures["open, all were killed"]["rounds"]), 2)
        self.assertEqual(list(pathlib.Path("/dev/shm").glob("kvhold.bench-open-*")), [])


class Store(unittest.TestCase):
    """A URL without a name gives a pool of the command's own, which is empty."""
    EMPTY = "local:?size=1MiB&verify=1"

    def test_an_empty_pool(self):
        done = kvhold("store", "stat", self.EMPTY)
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        self.assertIn("0 of 1048576 bytes", done.stdout)
        answer = json.loads(kvhold("store", "stat", "--json", self.EMPTY).stdout)
        self.assertEqual((answer["objects"], answer["prefixes"]), (0, []))
        done = kvhold("store", "ls", self.EMPTY)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (OK, "", ""))
        done = kvhold("store", "verify", self.EMPTY)
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        self.assertEqual(done.stdout, "0 good, 0 damaged, 0 unverifiable\n")
        done = kvhold("store", "clear", self.EMPTY, "--yes")
        self.assertEqual((done.returncode, done.stdout), (OK, "removed 0 objects\n"))

    def test_options_stand_before_or_after_the_url(self):
        for arguments in (["--json", self.EMPTY], [self.EMPTY, "--json"]):
            done = kvhold("store", "verify", *arguments)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertEqual(json.loads(done.stdout)["damaged_objects"], [])


def shared_pool(test):
    """The URL of a pool that lies in a file, which goes with the test."""
    folder = tempfile.TemporaryDirectory(dir="/dev/shm")
    test.addCleanup(folder.cleanup)
    return f"local://{folder.name}/pool?size=128MiB&verify=1"


class SharedStore(unittest.TestCase):
    """Beside and after a demo in a pool that outlives it."""

    def setUp(self):
        self.url = shared_pool(self)

    def demo(self, requests, *options):
        """A demo in the pool, for as long as the caller likes to wait for it."""
        return subprocess.Popen([COMMAND, "demo", *SMALL, "--requests", str(requests), "--store",
                                 self.url, "--report", "", *options], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, cwd=FOLDER)

    def finish(self, demo):
        words = demo.communicate(timeout=250)
        self.assertEqual(demo.returncode, OK, words)

    def answer(self, *arguments):
        done = kvhold("store", *arguments, "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads(done.stdout)

    def test_what_the_demo_left_is_seen(self):
        self.finish(self.demo(40, "--no-neighbour"))
        stat = self.answer("stat", self.url)
        self.assertGreater(stat["objects"], 0)
        self.assertEqual(sum(prefix["objects"] for prefix in stat["prefixes"]), stat["objects"])
        keys = kvhold("store", "ls", self.url).stdout.splitlines()
        self.assertEqual(len(keys), stat["objects"])
        objects = [json.loads(line)
                   for line in kvhold("store", "ls", self.url, "--json").stdout.splitlines()]
        self.assertEqual(len({one["key"] for one in objects}), stat["objects"])
        for prefix in stat["prefixes"]:
            self.assertTrue(prefix["prefix"])
            found = kvhold("store", "ls", self.url, "--prefix", prefix["prefix"]).stdout
            self.assertEqual(len(found.splitlines()), prefix["objects"])
        verdict = self.answer("verify", self.url)
        self.assertEqual(verdict["good"], stat["objects"])
        self.assertEqual((verdict["damaged"], verdict["unverifiable"]), (0, 0))
        done = kvhold("store", "clear", self.url, "--yes")
        self.assertEqual(done.stdout, f"removed {stat['objects']} objects\n")
        self.assertEqual(kvhold("store", "ls", self.url).stdout, "")

    def test_a_running_demo_is_not_disturbed(self):
        demo = self.demo(150)
        looks = 0
        while demo.poll() is None:
            self.answer("stat", self.url)
            self.assertEqual(self.answer("verify", self.url)["damaged"], 0)
            done = kvhold("store", "ls", self.url)
            self.assertEqual((done.returncode, done.stderr), (OK, ""))
            for line in done.stdout.splitlines():
                self.assertRegex(line, r"^demo@\S+@[0-9a-f]{64}  \d+  \d+$")
            looks += 1
        self.finish(demo)
        self.assertGreater(looks, 0)

    def test_a_stopped_process_is_named(self):
        demo = self.demo(150)
        self.addCleanup(demo.wait)
        self.addCleanup(demo.kill)
        looking = self.url.partition("?")[0]
        while not (kvhold("store", "stat", looking).returncode == OK and
                   len(self.answer("stat", looking)["sessions"]) == 2):
            self.assertIsNone(demo.poll())
        demo.send_signal(signal.SIGSTOP)
        # Stopped a moment after the signal, whenever that is.
        while "STOPPED" not in kvhold("store", "stat", looking).stdout:
            self.assertIsNone(demo.poll())
        self.assertEqual({session["pid"] for session in self.answer("stat", looking)["sessions"]},
                         {demo.pid})
        demo.send_signal(signal.SIGCONT)
        self.finish(demo)
        self.assertEqual(self.answer("stat", looking)["sessions"], [])

    def test_a_pool_that_is_not_there_is_not_made_by_looking(self):
        done = kvhold("store", "stat", self.url.split("?", maxsplit=1)[0])
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("there is no /dev/shm/", done.stderr)


class Bench(unittest.TestCase):
    def setUp(self):
        if kvhold("bench", "--help").returncode != OK:
            self.skipTest("this build has no bench")

    def test_the_store_of_the_command_line_is_the_one_that_is_measured(self):
        arguments = ("bench", "--only", "keys", "--keys", "64", "--rounds", "1", "--json", "-")
        done = kvhold(*arguments, "--store", "local:?size=2MiB")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(json.loads(done.stdout)["store"], "local:?size=2MiB")
        # Its answers are not those of a store that keeps what was put.
        done = kvhold(*arguments, "--store", "null:")
        self.assertEqual(done.returncode, FAILURE, done.stderr)
        self.assertIn("64 of 64 keys were not answered with 1", done.stderr)

    def test_json_on_stdout_stands_alone(self):
        done = kvhold("bench", "--only", "keys", "--keys", "64", "--rounds", "1", "--seconds",
                      "1", "--json", "-")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn("targets missed", done.stderr)
        answer = json.loads(done.stdout)
        self.assertIn("exists, present, 64 keys",
                      [figure["name"] for figure in answer["figures"]])


class Demo(unittest.TestCase):
    def run_json(self, *arguments):
        done = kvhold("demo", *SMALL, "--json", "-", "--report", "", *arguments)
        self.assertEqual(done.returncode, OK, done.stderr)
        # No terminal, no progress.
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def test_every_request_finishes_and_every_byte_is_right(self):
        # Small enough for the neighbour to fill while most requests are still to come.
        answer = self.run_json("--store", "local:?size=8MiB")
        self.assertTrue(answer["ok"])
        self.assertEqual(answer["requests"]["finished"], 120)
        self.assertEqual(answer["checks"]["wrong_blocks"], 0)
        self.assertEqual(answer["checks"]["broken_promises"], 0)
        self.assertGreater(answer["store"]["pressure_episodes"], 0)
        self.assertLess(answer["store"]["capacity_bytes"], answer["store"]["working_set_bytes"])

    def test_without_the_neighbour_nothing_meets_no_space(self):
        answer = self.run_json("--no-neighbour")
        self.assertEqual(answer["store"]["pressure_episodes"], 0)
        self.assertEqual(answer["store"]["no_space_keys"], 0)

    def test_what_found_no_space_does_not_count_as_saved(self):
        answer = self.run_json("--store", "local:?size=4KiB", "--requests", "20")
        self.assertGreater(answer["save"]["jobs"], 0)
        self.assertEqual(answer["save"]["bytes"], 0)

    def test_the_default_pool_is_shared_survives_a_restart_and_leaves_nothing(self):
        done = kvhold("demo", "--requests", "60", "--time-limit", "0", "--no-neighbour", "--json",
                      "-", "--report", "")
        self.assertEqual(done.returncode, OK, done.stderr)
        answer = json.loads(done.stdout)
        path = pathlib.Path(answer["store"]["url"].removeprefix("local://").partition("?")[0])
        self.assertEqual(path.parent, pathlib.Path("/dev/shm"), done.stdout)
        self.assertFalse(path.exists())
        again = answer["restart"]
        self.assertEqual(again["requests"], 60)
        self.assertEqual(again["wrong_blocks"], 0)
        # All of it was saved by the first run.
        self.assertGreater(again["hit_tokens"], answer["lookup"]["hit_tokens"])
        self.assertGreater(again["loaded_bytes_compared"], 0)

    def test_a_killed_demo_leaves_nothing(self):
        demo = subprocess.Popen([COMMAND, "demo", "--report", ""], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        path = pathlib.Path(f"/dev/shm/kvhold.demo-{demo.pid}")
        while not path.exists():
            self.assertIsNone(demo.poll())
            time.sleep(0.01)
        demo.terminate()
        self.assertEqual(demo.wait(), -signal.SIGTERM)
        self.assertFalse(path.exists())

    def test_the_next_start_finds_what_the_last_one_saved(self):
        name = f"test-{os.getpid()}"
        self.addCleanup(pathlib.Path(f"/dev/shm/kvhold.{name}").unlink)
        cold, warm = (self.run_json("--no-neighbour", "--store", f"local:{name}?size=256MiB",
                                    "--requests", "60") for _ in range(2))
        self.assertGreater(warm["lookup"]["hit_tokens"], cold["lookup"]["hit_tokens"])
        self.assertEqual(warm["checks"]["wrong_blocks"], 0)

    def test_without_room_in_shared_memory_the_demo_still_runs(self):
        done = kvhold("demo", "--requests", "5", "--report", "", file_bytes_max=64 << 20)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn("no shared pool", done.stdout)
        self.assertIn("ulimit -f", done.stdout)

    def test_one_rank_and_many_ranks(self):
        for ranks in (1, 3):
            answer = self.run_json("--ranks", str(ranks), "--requests", "30")
            self.assertEqual(answer["ranks"], ranks)
            self.assertEqual(answer["requests"]["finished"], 30)

    def made_trace(self, count, output_length, hash_ids):
        """Arguments for a trace of prompts of 8 blocks, hash_ids(number) each."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "made.jsonl"
        path.write_text("".join(json.dumps({
            "timestamp": number, "input_length": 8 * 512, "output_length": output_length,
            "hash_ids": hash_ids(number)}) + "\n" for number in range(count)))
        return "--trace", str(path), "--requests", str(count), "--no-neighbour"

    def shared_trace(self):
        """Requests that begin with the same 6 blocks: all but the first few load them, on a
        machine of any speed."""
        return self.made_trace(80, 4, lambda n: [*range(6), 10 + 2 * n, 11 + 2 * n])

    def test_requests_that_outgrow_the_blocks_are_preempted(self):
        # Admitted by their prompts, they grow to 32 blocks each; what they save is 90 MB.
        crowd = self.made_trace(60, 12000, lambda n: list(range(100 * n, 100 * n + 8)))
        answer = self.run_json(*crowd, "--store", "local:?size=32MiB")
        self.assertEqual(answer["requests"]["finished"], 60)
        self.assertGreater(answer["requests"]["preemptions"], 0)
        self.assertGreater(answer["store"]["evicted_keys"], 0)
        self.assertEqual(answer["checks"]["wrong_blocks"], 0)
        self.assertEqual(answer["checks"]["broken_promises"], 0)

    def test_shared_prefixes_are_loaded(self):
        answer = self.run_json(*self.shared_trace())
        self.assertGreater(answer["checks"]["loaded_bytes_compared"], 0)
        self.assertEqual(answer["checks"]["wrong_blocks"], 0)

    def test_one_flipped_bit_is_found(self):
        done = kvhold("demo", *SMALL, "--report", "", *self.shared_trace(),
                      "--self-test-corrupt")
        self.assertEqual(done.returncode, FAILURE)
        self.assertIn("WRONG BYTES after a load", done.stderr)
        self.assertIn("FAILED", done.stdout)

    def test_a_self_test_without_a_load_fails(self):
        done = kvhold("demo", "--requests", "1", "--report", "", "--self-test-corrupt")
        self.assertEqual(done.returncode, FAILURE)
        self.assertIn("no block was loaded", done.stderr)

    def test_the_report_is_one_page_without_outside_parts(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.html"
            figures = pathlib.Path(folder) / "figures.json"
            done = kvhold("demo", "--requests", "40", "--report", str(page), "--json",
                          str(figures))
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertIn("ok:", done.stdout)
            self.assertTrue(json.loads(figures.read_text())["ok"])
            text = page.read_text()
            self.assertEqual(text.count("<svg"), 3)
            self.assertTrue(text.endswith("</body></html>\n"))
            for outside in ("http:", "https:", "<script", "<link", "<img"):
                self.assertNotIn(outside, text)

    def test_a_full_disk_is_told_after_the_run(self):
        done = kvhold("demo", "--requests", "1", "--report", "/dev/full")
        self.assertEqual(done.returncode, ENVIRONMENT)
        self.assertIn("/dev/full: the report can't be written", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
