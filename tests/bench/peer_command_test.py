#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`kvhold bench` beside a peer: its lines are there or the run has failed, and it never outlives the
bench. peer_command_test.py COMMAND FAKE_PEER"""
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

COMMAND, FAKE_PEER = sys.argv[1:3]
OK, FAILURE, USAGE = 0, 1, 2
SMALL = ("--rounds", "1", "--set", "16", "--keys", "640", "--json", "-")
SIZES = ("4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB")
HANG_SECONDS = 60


def peer(mode, *arguments):
    return shlex.join([FAKE_PEER, mode, *arguments])


def bench(*arguments):
    return subprocess.run([COMMAND, "bench", *SMALL, *arguments], capture_output=True, text=True,
                          timeout=250, check=False)


def figures(done):
    return {figure["name"]: figure for figure in json.loads(done.stdout)["figures"]}


class Lines(unittest.TestCase):
    def test_copies_have_a_line_with_a_target_for_each_shape(self):
        done = bench("--only", "copies", "--peer", peer("good"))
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(json.loads(done.stdout)["peer"], "fake 1.0")
        self.assertTrue(json.loads(done.stdout)["ok"])
        bounds = {name: figure["target"]["bound"] for name, figure in figures(done).items()
                  if name.endswith(", peer")}
        expected = dict(zip(SIZES, (8, 6, 3, 1.5, 1.5, 1.5)))
        self.assertEqual(bounds, {f"{op} {size} / {segments}, peer": expected[size]
                                  for op in ("put", "get") for size in SIZES
                                  for segments in (1, 2)})

    def test_exists_has_a_line(self):
        done = bench("--only", "keys", "--peer", peer("good"))
        self.assertEqual(done.returncode, OK, done.stderr)
        figure = figures(done)["exists, present, peer, 640 keys"]
        self.assertEqual(figure["target"]["bound"], 14)
        # Said by the peer: one microsecond for all keys, two of CPU time.
        self.assertAlmostEqual(figure["more"]["peer_us_per_key"], 1 / 640, places=5)
        self.assertAlmostEqual(figure["more"]["peer_cpu_us_per_key"], 2 / 640, places=5)

    def test_why_there_is_none_stands_in_the_figures(self):
        for arguments, why in (((), "no --peer was given"), (("--no-peer", "no net"), "no net")):
            done = bench("--only", "keys", *arguments)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertEqual(figures(done)["against a peer"]["not_measured"], why)
            self.assertIn(f"not measured: {why}", done.stderr)

    def test_a_peer_and_a_reason_for_none_exclude_each_other(self):
        done = bench("--peer", peer("good"), "--no-peer", "no net")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("exclude each other", done.stderr)


class Failures(unittest.TestCase):
    def expect(self, mode, words, *arguments):
        done = bench("--only", "keys", "--peer", peer(mode), *arguments)
        self.assertEqual(done.returncode, FAILURE, mode)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stderr.count("kvhold bench: "), 1, done.stderr)
        self.assertFalse(json.loads(done.stdout)["ok"])

    def test_one_that_does_not_start(self):
        self.expect("stillborn", "the peer ended its answers: exit status 3")
        self.expect("refuses", "the peer failed: no such library")
        self.expect("mute", "the peer does not answer within 1 s", "--peer-seconds", "1")

    def test_one_that_fails_in_a_run(self):
        self.expect("errs", "the peer failed: WRONG BYTES")
        self.expect("words", 'the peer answers "done soon enough 640", not "done SECONDS')
        self.expect("few", "the peer has checked 639, not 640")
        self.expect("never", "the peer says 1000 s, but its answer took")
        self.expect("dies", "the peer ended its answers: killed by signal 9")
        self.expect("silent", "the peer does not answer within 1 s", "--peer-seconds", "1")

    def test_one_that_ends_badly(self):
        self.expect("ends_badly", "the peer did not end well: exit status 5")


class Ends(unittest.TestCase):
    def test_it_does_not_outlive_a_bench_that_is_killed(self):
        """Not even one that reads nothing and so does not see the end of its input."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "pid"
            arguments = [COMMAND, "bench", *SMALL, "--peer", peer("mute", str(path))]
            with subprocess.Popen(arguments, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as running:
                deadline = time.monotonic() + HANG_SECONDS
                while not (path.exists() and path.read_text()):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)
                running.send_signal(signal.SIGKILL)
            pid = int(path.read_text())
            while self.is_running(pid):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)

    def is_running(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C"
    unittest.main(argv=sys.argv[:1])
