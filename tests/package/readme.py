#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program in README.md, as a newcomer meets it: taken out of the page, compiled against the
built library without a warning, run.

    readme.py PROJECT LIBRARY
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PRINTS = "what the engine computed\n"


def example_of(text):
    """The only C block of the page."""
    blocks = re.findall(r"^```c\n(.*?)^```$", text, re.S | re.M)
    if len(blocks) != 1:
        raise ValueError(f"README.md has {len(blocks)} blocks of C, wanted 1")
    return blocks[0]


def main(root, library):
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch, "example.c")
        source.write_text(example_of((root / "README.md").read_text()))
        program = source.with_suffix("")
        subprocess.run(["cc", "-std=c17", "-Wall", "-Wextra", "-Werror",
                        f"-I{root / 'runtime/include'}", "-o", program, source, library],
                       check=True)
        said = subprocess.run([program], check=True, capture_output=True, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)}).stdout
    if said != PRINTS:
        sys.exit(f"readme: the program printed {said!r}, wanted {PRINTS!r}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
