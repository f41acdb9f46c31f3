#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom. Rooms are folders; an arrow that is not in the table is a finding. Third-
party headers have one home each, and threads, time and random numbers come from the environment
(kvhold/env.h), which only its POSIX implementation gets from the system."""
import pathlib
import re
import sys

import csource

# Room -> rooms whose headers it may include, besides its own and the public ones.
ARROWS = {
    "runtime/include": set(),
    "runtime/base": set(),
    "runtime/store": {"runtime/base", "runtime/device"},
    "runtime/device": {"runtime/base"},
    "runtime/layout": {"runtime/base", "runtime/store", "runtime/device"},
    "runtime/worker": {"runtime/base", "runtime/store", "runtime/device", "runtime/layout"},
    "runtime/objects": {"runtime/base", "runtime/store", "runtime/device", "runtime/layout"},
    "runtime/pool": {"runtime/base", "runtime/store", "runtime/device"},
    "runtime/mooncake": {"runtime/base", "runtime/store", "runtime/device"},
    "runtime/open": {"runtime/base", "runtime/store", "runtime/device", "runtime/pool",
                     "runtime/mooncake"},
    "runtime/cli": {"runtime/base", "runtime/store", "runtime/device", "runtime/pool",
                    "runtime/mooncake", "runtime/open"},
    "faults": set(),
    "sim": {"faults"},
}
# Single headers that a room may include beyond the rooms above.
DOORS = {
    "faults": r"runtime/base/fault\w*\.h",
    "sim": r"runtime/pool/(?:core/)?core\.h|runtime/pool/(?:fabric/)?fabric\.h|.*/inspect\.h",
}
# Third-party header -> the only files that may include it.
HOMES = {
    r"infiniband/.*|rdma/.*": r"runtime/pool/fabric/verbs\.c|runtime/pool/node/.*",
    r"cuda\w*\.h": r"runtime/device/cuda\.c",
    r"simgrid/.*": r"sim/.*",
    r"fiu(?:-control|-local)?\.h": r"runtime/base/fault\w*\.[ch]|faults/.*",
    r"c?yaml(?:/.*)?\.h": r"sim/.*",
    r"hiredis/.*": r"runtime/pool/remote/members\.c",
    r"liburing\.h": r"runtime/pool/fabric/file\.c",
    r"jansson\.h": r"runtime/cli/.*|sim/.*",
    r"xxhash\.h": r"runtime/.*",
    r"sys/eventfd\.h": r"runtime/base/eventfd\.c",
    r"pthread\.h|threads\.h": r"runtime/base/env_posix\.c|runtime/pool/local/shm_lock\.c",
}
LIBC = re.compile(
    r"(?:assert|ctype|errno|fcntl|float|getopt|immintrin|inttypes|limits|locale|math|poll|sched"
    r"|signal|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string"
    r"|strings|time|unistd|dlfcn|grp|netdb|endian|cpuid|argp)\.h|(?:sys|linux|netinet|arpa|net)/\w+\.h")
SYSTEM_CALLS = ("clock_gettime", "gettimeofday", "time", "nanosleep", "clock_nanosleep", "usleep",
                "sleep", "rand", "srand", "random", "srandom", "getrandom", "rand_r", "drand48")
# The bench also reads CPU time, which no environment has.
SYSTEM_HOME = (r"runtime/base/env_posix\.c|runtime/pool/local/shm_lock\.c"
               r"|runtime/cli/bench_tools\.c")


def room_of(name):
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "runtime" else parts[0]


def resolve(name, path, exists):
    """The project file that a quoted include means: beside the file, else from runtime/ or the top."""
    for base in (pathlib.PurePosixPath(name).parent, pathlib.PurePosixPath("runtime"),
                 pathlib.PurePosixPath(".")):
        parts = []
        for part in (base / path).parts:
            if part == "..":
                parts = parts[:-1]
            else:
                parts.append(part)
        if exists("/".join(parts)):
            return "/".join(parts)
    return None


def check_system(name, path):
    """A header in angle brackets: public, third-party at home, or the C library's."""
    if path.startswith("kvhold/"):
        return None
    for header, home in HOMES.items():
        if re.fullmatch(header, path):
            return None if re.fullmatch(home, name) else f"<{path}> is at home in {home} only"
    return None if LIBC.fullmatch(path) else f"<{path}> is not known to tests/package/arrows.py"


def check_quoted(name, path, exists):
    target = resolve(name, path, exists)
    if target is None:
        return f'"{path}" is not found beside the file, in runtime/ or at the top'
    mine, theirs = room_of(name), room_of(target)
    if theirs in (mine, "runtime/include") or theirs in ARROWS[mine]:
        return None
    if mine in DOORS and re.fullmatch(DOORS[mine], target):
        return None
    return f"{mine} may not include {target}"


def check_text(name, text, exists):
    """What is wrong with one file; exists(path) says whether the project has that file."""
    if room_of(name) not in ARROWS:
        return [f"{name}: room {room_of(name)} is not in the table of arrows"]
    found = []
    for line, mark, path in csource.includes(text):
        fault = check_system(name, path) if mark == "<" else check_quoted(name, path, exists)
        if fault:
            found.append(f"{name}:{line}: {fault}")
    if name.startswith("runtime/") and not re.fullmatch(SYSTEM_HOME, name):
        code = csource.code_of(text)
        found += [f"{name}: calls {call}; threads, time and random numbers come from struct kvh_env"
                  for call in SYSTEM_CALLS + (r"pthread_\w+",) if csource.calls(code, call)]
    return found


def main(root):
    # runtime/CMakeLists.txt and the like are not C; every C file of these tops is in a room.
    names = csource.c_files(root, "runtime", "sim", "faults")
    found = []
    for name in names:
        text = (root / name).read_text(encoding="utf-8")
        found += check_text(name, text, lambda path: (root / path).is_file())
    print("\n".join(found))
    print(f"arrows: {len(names)} files, {len(found)} findings")
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
