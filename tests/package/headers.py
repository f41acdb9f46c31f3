#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone, as C17 and as C++17, without a warning; and the version in
kvhold.h is the project's.

    headers.py PROJECT VERSION
"""
import pathlib
import re
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
COMPILERS = {"c": ["gcc", "-std=c17", *WARNINGS], "cc": ["g++", "-std=c++17", *WARNINGS]}


def check_header(folder, name):
    """What the compilers say of a file that includes only this header."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        for suffix, command in COMPILERS.items():
            source = pathlib.Path(scratch, f"only.{suffix}")
            source.write_text(f"#include <{name}>\n", encoding="utf-8")
            done = subprocess.run([*command, f"-I{folder}", str(source)], capture_output=True,
                                  text=True)
            if done.returncode != 0:
                found.append(f"{name} alone with {' '.join(command[:2])}:\n{done.stderr}")
    return found


def check_version(text, version):
    numbers = [re.search(rf"#define KVH_VERSION_{part}\s+(\d+)", text)
               for part in ("MAJOR", "MINOR", "PATCH")]
    words = re.search(r'#define KVH_VERSION_TEXT\s+"([^"]*)"', text)
    said = {".".join(match.group(1) if match else "?" for match in numbers),
            words.group(1) if words else "?"}
    return [] if said == {version} else [f"kvhold.h says {sorted(said)}, the project {version}"]


def main(root, version):
    folder = root / "runtime/include"
    headers = sorted(path.relative_to(folder) for path in folder.rglob("*.h"))
    found = [fault for header in headers for fault in check_header(folder, header)]
    found += check_version((folder / "kvhold/kvhold.h").read_text(encoding="utf-8"), version)
    print("\n".join(found))
    print(f"headers: {len(headers)} headers, {len(found)} findings")
    return 1 if found or not headers else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
