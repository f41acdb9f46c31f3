#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The installed library as a user meets it: installs into a fresh prefix, moves it, then builds and
runs a C and a C++ program against it, found by pkg-config and by find_package.

    install.py PROJECT BUILD VERSION
"""
import os
import pathlib
import subprocess
import sys
import tempfile


def run(*command, **environment):
    """Output of a command; its failure ends the test with what it said."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env={**os.environ, **{k: str(v) for k, v in environment.items()}})
    if done.returncode != 0:
        sys.exit(f"install: {' '.join(map(str, command))} ended with {done.returncode}:\n"
                 f"{done.stdout}{done.stderr}")
    return done.stdout


def expect(what, said, wanted):
    if said != wanted:
        sys.exit(f"install: {what}: {said!r}, wanted {wanted!r}")


def check_headers(root, prefix):
    """Exactly the public headers are installed."""
    def below(folder):
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    expect("installed headers", below(prefix / "include"), below(root / "runtime/include"))


def check_pkg_config(consumer, prefix, scratch, version):
    (found,) = prefix.rglob("kvhold.pc")
    environment = {"PKG_CONFIG_PATH": found.parent}
    expect("pkg-config --modversion", run("pkg-config", "--modversion", "kvhold",
                                          **environment).strip(), version)
    flags = run("pkg-config", "--cflags", "--libs", "kvhold", **environment).split()
    for command in (["gcc", "-std=c17", consumer / "main.c"],
                    ["g++", "-std=c++17", consumer / "main.cc"]):
        program = scratch / f"pc-{command[0]}"
        run(*command, "-Wall", "-Wextra", "-Werror", "-o", program, *flags)
        expect(f"{program.name} printed",
               run(program, LD_LIBRARY_PATH=found.parent.parent).strip(), version)


def check_find_package(consumer, prefix, scratch, version):
    build = scratch / "cmake"
    run("cmake", "-S", consumer, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DKVHOLD_WANTED={version}")
    run("cmake", "--build", build)
    for name in ("c_consumer", "cc_consumer"):
        expect(f"{name} printed", run(build / name).strip(), version)


def check_command(root, prefix, version):
    """The command runs from where it was installed and finds its library by itself."""
    if (root / "runtime/cli/CMakeLists.txt").exists():
        said = run(prefix / "bin/kvhold", "version")
        if version not in said:
            sys.exit(f"install: kvhold version says {said!r}, which does not name {version}")


def main(root, build, version):
    consumer = root / "tests/package/consumer"
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        run("cmake", "--install", build, "--prefix", scratch / "first", DESTDIR="")
        prefix = (scratch / "first").rename(scratch / "moved")
        check_headers(root, prefix)
        check_command(root, prefix, version)
        check_pkg_config(consumer, prefix, scratch, version)
        check_find_package(consumer, prefix, scratch, version)
    print("install: C and C++ programs built and ran by pkg-config and by find_package")
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]))
