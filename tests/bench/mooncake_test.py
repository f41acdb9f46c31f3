#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/bench_mooncake.py over a stand-in for the wheel: a store in this process's memory and a
master that only listens. What it answers, what it refuses, and that its master ends with it.
mooncake_test.py SCRIPT"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = sys.argv[1]
HANG_SECONDS = 60

# The calls that the peer makes. KVH_FAKE_FAULT names what goes wrong.
STORE = '''
import ctypes
import os

FAULT = os.environ.get("KVH_FAKE_FAULT")
print("words that are no answer")


class MooncakeDistributedStore:
    def __init__(self):
        self.objects = {}

    def setup(self, *arguments):
        return -1 if FAULT == "setup" else 0

    def register_buffer(self, address, size_bytes):
        self.registered = range(address, address + size_bytes)
        return 0

    def check(self, places, sizes):
        assert all(place in self.registered and place + size - 1 in self.registered
                   for place, size in zip(places, sizes))

    def batch_put_from_multi_buffers(self, keys, places, sizes):
        assert len(keys) == len(places) == len(sizes) <= 64
        for key, of_key, bytes_of_key in zip(keys, places, sizes):
            assert len(key) == 128
            self.check(of_key, bytes_of_key)
            self.objects[key] = [ctypes.string_at(*one) for one in zip(of_key, bytes_of_key)]
        return [-200 if FAULT == "put" else 0 for _ in keys]

    def batch_get_into_multi_buffers(self, keys, places, sizes):
        for number, (key, of_key) in enumerate(zip(keys, places)):
            for place, data in zip(of_key, self.objects[key]):
                # The last byte of the last object is not written.
                short = FAULT == "bytes" and key == list(self.objects)[-1]
                ctypes.memmove(place, data, len(data) - short)
        return [sum(map(len, self.objects[key])) for key in keys]

    def batch_is_exist(self, keys):
        return [int(key in self.objects) for key in keys][FAULT == "answers":]

    def remove_all(self, force):
        assert force
        self.objects.clear()

    def close(self):
        pass
'''
MASTER = '''#!/usr/bin/env python3
import os
import pathlib
import socket
import sys

pathlib.Path(os.environ["KVH_FAKE_PID"]).write_text(str(os.getpid()))
if os.environ.get("KVH_FAKE_FAULT") == "master":
    sys.exit("no port is good enough")
options = dict(word.split("=") for word in sys.argv[1:])
with socket.create_server((options["--rpc_address"], int(options["--rpc_port"]))) as server:
    while True:
        server.accept()[0].close()
'''
METADATA = "Metadata-Version: 2.1\nName: mooncake-transfer-engine-non-cuda\nVersion: 9.9\n"


def make_wheel(folder):
    package = folder / "mooncake"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "store.py").write_text(STORE)
    (package / "mooncake_master").write_text(MASTER)
    (package / "mooncake_master").chmod(0o755)
    info = folder / "mooncake_transfer_engine_non_cuda-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Peer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        make_wheel(self.folder)
        self.pid_path = self.folder / "pid"

    def start(self, fault=""):
        environment = dict(os.environ, PYTHONPATH=str(self.folder), KVH_FAKE_FAULT=fault,
                           KVH_FAKE_PID=str(self.pid_path))
        return subprocess.Popen([sys.executable, SCRIPT], stdin=subprocess.PIPE, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)

    def talk(self, lines, fault=""):
        with self.start(fault) as running:
            answers, words = running.communicate("".join(line + "\n" for line in lines),
                                                 timeout=HANG_SECONDS)
        self.expect_no_master()
        return running.returncode, answers.splitlines(), words

    def expect_no_master(self):
        pid = int(self.pid_path.read_text())
        deadline = time.monotonic() + HANG_SECONDS
        while is_running(pid):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_each_op_answers_times_and_what_was_checked(self):
        code, answers, words = self.talk(["run put 4096 2 100", "run get 4096 2 100",
                                          "run get 8192 1 65", "run exists 64 1 640", "quit"])
        self.assertEqual((code, words), (0, ""))
        self.assertEqual(answers[0], "ready Mooncake 9.9")
        checked = []
        for answer in answers[1:]:
            word, seconds, cpu_seconds, count = answer.split()
            self.assertEqual(word, "done")
            self.assertGreater(float(seconds), 0)
            self.assertGreater(float(cpu_seconds), 0)
            checked.append(int(count))
        self.assertEqual(checked, [4096 * 100, 4096 * 100, 8192 * 65, 640])

    def test_end_of_input_ends_it(self):
        self.assertEqual(self.talk([])[:2], (0, ["ready Mooncake 9.9"]))

    def expect_error(self, fault, line, words):
        code, answers, _ = self.talk([line], fault)
        self.assertEqual(code, 1)
        self.assertEqual(len([answer for answer in answers if answer.startswith("error ")]), 1)
        self.assertIn(words, answers[-1])

    def test_what_goes_wrong_is_an_error(self):
        put, get, exists = (f"run {op} 4096 2 100" for op in ("put", "get", "exists"))
        self.expect_error("setup", put, "setup answered -1")
        self.expect_error("put", put, "100 of 100 keys were not answered with 0, the first with -200")
        self.expect_error("bytes", get, "WRONG BYTES")
        self.expect_error("answers", exists, "0 of 98 keys")
        self.expect_error("", "run fly 4096 2 100", "not a request")
        self.expect_error("", "run put 4096 3 100", "not a shape")

    def test_a_master_that_does_not_start_is_an_error_and_its_words_are_shown(self):
        code, answers, words = self.talk([], "master")
        self.assertEqual((code, answers), (1, ["error PeerError: mooncake_master does not start"]))
        self.assertIn("no port is good enough", words)

    def test_the_master_ends_with_a_peer_that_is_killed(self):
        with self.start() as running:
            self.assertEqual(running.stdout.readline(), "ready Mooncake 9.9\n")
            running.send_signal(signal.SIGKILL)
            running.communicate(timeout=HANG_SECONDS)
        self.expect_no_master()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
