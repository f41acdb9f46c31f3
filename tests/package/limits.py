#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits that keep the C readable: lines of a function and of a file, parameters, columns; no
recursion in runtime/ (its stack is bounded); the licence in the first line."""
import pathlib
import sys

import csource

FUNCTION_LINES = 70
FILE_LINES = 600
PARAMETERS = 6
COLUMNS = 100
LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */"


def check_text(name, text):
    """What is wrong with one file, as lines of text."""
    lines = text.splitlines()
    found = []
    if not lines or lines[0] != LICENCE:
        found.append(f"{name}:1: the first line is not {LICENCE}")
    if len(lines) > FILE_LINES:
        found.append(f"{name}: {len(lines)} lines, at most {FILE_LINES}")
    for number, line in enumerate(lines, 1):
        width = len(line.expandtabs(8))
        if width > COLUMNS:
            found.append(f"{name}:{number}: {width} columns, at most {COLUMNS}")
    try:
        functions = csource.functions(text)
    except ValueError as error:
        return found + [f"{name}: {error}"]
    for function in functions:
        where = f"{name}:{function.first_line}: {function.name}"
        if function.lines > FUNCTION_LINES:
            found.append(f"{where} has {function.lines} lines, at most {FUNCTION_LINES}")
        if function.parameters > PARAMETERS:
            found.append(f"{where} has {function.parameters} parameters, at most {PARAMETERS}")
        if name.startswith("runtime/") and csource.calls(function.body, function.name):
            found.append(f"{where} calls itself")
    return found


def main(root):
    names = csource.c_files(root, "runtime", "tests", "sim", "faults")
    found, lengths = [], []
    for name in names:
        text = (root / name).read_text(encoding="utf-8")
        found += check_text(name, text)
        if name.startswith("runtime/"):
            lengths += [function.lines for function in csource.functions(text)]
    print("\n".join(found))
    lengths.sort()
    if lengths:
        print(f"runtime: {len(lengths)} functions, median {lengths[len(lengths) // 2]} lines, "
              f"95 of 100 within {lengths[len(lengths) * 95 // 100]}, longest {lengths[-1]}")
    print(f"limits: {len(names)} files, {len(found)} findings")
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
