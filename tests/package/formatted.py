#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C file is as clang-format leaves it (.clang-format); make format mends."""
import pathlib
import shutil
import subprocess
import sys

import csource


def check_files(root, names):
    """What clang-format says of these files, of which the nearest .clang-format holds."""
    if shutil.which("clang-format") is None:
        return ["clang-format is missing: tools/setup.sh lint"]
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *names], cwd=root,
                          capture_output=True, text=True)
    return done.stderr.splitlines() if done.returncode != 0 else []


def main(root):
    names = csource.c_files(root, "runtime", "tests", "sim", "faults")
    found = check_files(root, names) if names else ["no C file"]
    print("\n".join(found))
    wrong = {line.split(":")[0] for line in found if ": error:" in line}
    print(f"formatted: {len(names)} files, {len(wrong)} differ (make format mends)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
