#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C file is as clang-format leaves it (.clang-format); make format mends."""
import pathlib
import re
import shutil
import subprocess
import sys

import csource


def check_files(root, names):
    """The files, of these, that clang-format would change; or what is wrong with itself."""
    if shutil.which("clang-format") is None:
        return ["clang-format is missing: tools/setup.sh lint"]
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *names], cwd=root,
                          capture_output=True, text=True)
    if done.returncode == 0:
        return []
    return sorted(set(re.findall(r"^(\S+?):\d+:\d+: error:", done.stderr, re.MULTILINE))
                  or {done.stderr})


def main(root):
    names = csource.c_files(root, "runtime", "tests", "sim", "faults")
    found = check_files(root, names) if names else ["no C file"]
    print("\n".join(found))
    print(f"formatted: {len(names)} files, {len(found)} findings (make format mends)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
