#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A peer for `kvhold bench --peer`: Mooncake's store, embedded, with a master of its own.

Run it with the Python that tools/setup_peer.sh prepares. It answers the lines that
runtime/cli/bench_peer.h describes. The client, its segment and the engine's memory are in this
process; the master is a child on the loopback that dies with it. Whatever either of them prints goes
to a file, whose end is shown when something fails."""
import ctypes
import gc
import mmap
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
BATCH_KEYS = 64
# 64 hexadecimal digits of hash follow: 128 characters, shaped like those of vLLM's worker.
KEY_PREFIX = "vllm-mooncake-store:bench@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@"
SEGMENT_SLACK_BYTES = 256 * MIB
LOCAL_BUFFER_BYTES = 64 * MIB
MASTER_TRIES = 3
MASTER_SECONDS = 20
PR_SET_PDEATHSIG = 1
LOG_LINES_SHOWN = 15
OPS = ("put", "get", "exists")

libc = ctypes.CDLL(None, use_errno=True)


class PeerError(Exception):
    """What the bench is told."""


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


class Master:
    """mooncake_master on ports that were free a moment ago; another process may have been faster."""

    def __init__(self, program, log):
        for _ in range(MASTER_TRIES):
            if self.start(program, log):
                return
        raise PeerError("mooncake_master does not start")

    def start(self, program, log):
        self.port, metrics_port = free_ports(2)
        arguments = [program, f"--rpc_port={self.port}", "--rpc_address=127.0.0.1",
                     f"--metrics_port={metrics_port}", "--metrics_host=127.0.0.1"]
        # The thread that starts it is the main one, which lives as long as this process.
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        preexec_fn=die_with_parent)
        deadline = time.monotonic() + MASTER_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if accepts(self.port):
                return True
            time.sleep(0.05)
        self.stop()
        return False

    def stop(self):
        self.process.kill()
        self.process.wait()

    def cpu_seconds(self):
        clock = ctypes.c_int()
        if libc.clock_getcpuclockid(self.process.pid, ctypes.byref(clock)):
            raise PeerError("mooncake_master is gone")
        return time.clock_gettime(clock.value)


class Memory:
    """Large pages where the system gives them, as on the bench's own side."""

    def __init__(self, size_bytes):
        self.map = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self.map.madvise(mmap.MADV_HUGEPAGE)
        self.size_bytes = size_bytes
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def clear(self):
        ctypes.memset(self.address, 0, self.size_bytes)


def fill(memory, contents):
    """No two places alike, the same in each run."""
    for at in range(0, memory.size_bytes, 16 * MIB):
        size_bytes = min(16 * MIB, memory.size_bytes - at)
        memory.map[at:at + size_bytes] = contents.randbytes(size_bytes)


class Shape:
    """Keys and lists of one case, cut into calls. Segment k of block b lies at k * blocks + b."""

    def __init__(self, case, address):
        self.case = case
        object_bytes, segments, count = case
        piece = object_bytes // segments
        order = random.Random(count)
        blocks = list(range(count))
        order.shuffle(blocks)
        keys = [f"{KEY_PREFIX}{order.getrandbits(256):064x}" for _ in range(count)]
        places = [[address + (k * count + block) * piece for k in range(segments)]
                  for block in blocks]
        sizes = [[piece] * segments for _ in range(BATCH_KEYS)]
        self.calls = [(keys[at:at + BATCH_KEYS], places[at:at + BATCH_KEYS],
                       sizes[:min(BATCH_KEYS, count - at)]) for at in range(0, count, BATCH_KEYS)]
        order.shuffle(keys)
        self.lookups = [keys[at:at + BATCH_KEYS] for at in range(0, count, BATCH_KEYS)]
        self.is_stored = False
        # None of the lists is garbage, and none is to be looked at again.
        gc.freeze()


class Peer:
    def __init__(self, log):
        from mooncake import store  # only there in the peer's own environment

        program = os.path.join(os.path.dirname(store.__file__), "mooncake_master")
        self.master = Master(program, log)
        self.store_class = store.MooncakeDistributedStore
        self.store = None
        self.memory = self.contents = self.shape = None

    def prepare(self, case):
        """Untimed: a store and an engine large enough, keys and lists, nothing stored."""
        object_bytes, _, count = case
        size_bytes = object_bytes * count
        if self.memory is None or self.memory.size_bytes < size_bytes:
            self.open_store(size_bytes)
        if self.shape is None or self.shape.case != case:
            self.shape = Shape(case, self.memory.address)

    def open_store(self, size_bytes):
        if self.store is not None:
            self.store.close()
        self.shape = None
        self.memory, self.contents = Memory(size_bytes), Memory(size_bytes)
        fill(self.contents, random.Random(size_bytes))
        self.store = self.store_class()
        status = self.store.setup("127.0.0.1", "P2PHANDSHAKE",
                                  size_bytes * 3 // 2 + SEGMENT_SLACK_BYTES, LOCAL_BUFFER_BYTES,
                                  "tcp", "", f"127.0.0.1:{self.master.port}")
        if status:
            raise PeerError(f"setup answered {status}")
        status = self.store.register_buffer(self.memory.address, self.memory.size_bytes)
        if status:
            raise PeerError(f"register_buffer answered {status}")

    def timed(self, calls, call):
        """Wall and CPU seconds, client and master, of all calls; and their answers."""
        cpu_start = time.process_time() + self.master.cpu_seconds()
        start = time.perf_counter()
        answers = [call(one) for one in calls]
        seconds = time.perf_counter() - start
        cpu_seconds = time.process_time() + self.master.cpu_seconds() - cpu_start
        return seconds, cpu_seconds, answers

    def expect(self, what, answers, expected):
        wrong = [one for batch in answers for one in batch if one != expected]
        count = sum(len(batch) for batch in answers)
        if wrong or count != self.shape.case[2]:
            raise PeerError(f"{what}: {len(wrong)} of {count} keys were not answered with "
                            f"{expected}, the first with {wrong[0] if wrong else expected}")

    def put(self):
        ctypes.memmove(self.memory.address, self.contents.address, self.memory.size_bytes)
        self.store.remove_all(True)
        self.shape.is_stored = False
        seconds, cpu_seconds, answers = self.timed(
            self.shape.calls, lambda call: self.store.batch_put_from_multi_buffers(*call))
        self.expect("put", answers, 0)
        self.shape.is_stored = True
        return seconds, cpu_seconds, self.payload_bytes()

    def get(self):
        self.memory.clear()
        seconds, cpu_seconds, answers = self.timed(
            self.shape.calls, lambda call: self.store.batch_get_into_multi_buffers(*call))
        self.expect("get", answers, self.shape.case[0])
        if libc.memcmp(ctypes.c_void_p(self.memory.address),
                       ctypes.c_void_p(self.contents.address),
                       ctypes.c_size_t(self.payload_bytes())):
            raise PeerError("WRONG BYTES: what a get wrote is not what was put")
        return seconds, cpu_seconds, self.payload_bytes()

    def exists(self):
        seconds, cpu_seconds, answers = self.timed(self.shape.lookups, self.store.batch_is_exist)
        self.expect("exists", answers, 1)
        return seconds, cpu_seconds, self.shape.case[2]

    def payload_bytes(self):
        return self.shape.case[0] * self.shape.case[2]

    def run(self, op, case):
        self.prepare(case)
        if op != "put" and not self.shape.is_stored:
            self.put()
        return getattr(self, op)()

    def close(self):
        if self.store is not None:
            self.store.close()
        self.master.stop()


def answer(peer, line):
    words = line.split()
    if len(words) != 5 or words[0] != "run" or words[1] not in OPS:
        raise PeerError(f"not a request: {line.strip()}")
    case = tuple(int(word) for word in words[2:])
    if min(case) < 1 or case[0] % case[1]:
        raise PeerError(f"not a shape: {line.strip()}")
    seconds, cpu_seconds, checked = peer.run(words[1], case)
    return f"done {seconds:.9f} {cpu_seconds:.9f} {checked}"


def show_log(log, screen):
    log.seek(0)
    for line in log.read().decode(errors="replace").splitlines()[-LOG_LINES_SHOWN:]:
        print(f"bench_mooncake: {line}", file=screen)


def serve(replies, log):
    from importlib.metadata import version

    peer = Peer(log)
    print(f"ready Mooncake {version('mooncake-transfer-engine-non-cuda')}", file=replies)
    try:
        for line in sys.stdin:
            if line == "quit\n":
                break
            print(answer(peer, line), file=replies)
    finally:
        peer.close()


def main():
    gc.disable()
    die_with_parent()
    # What libraries print must not get between the answers.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    screen = os.fdopen(os.dup(2), "w", buffering=1)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            serve(replies, log)
        except Exception as error:  # whatever it is, the bench is told, in one line
            words = " ".join(f"{type(error).__name__}: {error}".split())
            show_log(log, screen)
            print(f"error {words}"[:400], file=replies)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
