#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the shipped library needs and shows: the C library and nothing else; exactly the functions
that the public headers declare, with their version; no fault library.

    linked.py PROJECT libkvhold.so
"""
import pathlib
import re
import subprocess
import sys

import csource

NEEDED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2",
          "ld-linux-aarch64.so.1"}
VERSION = "KVHOLD_0.1"


def declared(text):
    """Names of the functions and objects that a public header marks as exported."""
    code = csource.code_of(text)
    names = set()
    for match in re.finditer(r"\bKVH_API\b([^;{]*)", code):
        found = re.search(r"\b(kvh_\w+)\s*(?:\(|\[|$)", match.group(1).strip())
        names.add(found.group(1) if found else match.group(1).strip())
    return names


def check_needed(dynamic):
    """dynamic: text of readelf -d."""
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
    found = [f"needs {name}" for name in sorted(needed - NEEDED)]
    return found if needed else ["readelf names no needed library at all"]


def check_exports(symbols, promised):
    """symbols: text of nm -D --defined-only --with-symbol-versions."""
    found, exported = [], set()
    for line in symbols.splitlines():
        name, _, version = line.split()[-1].partition("@@")
        if name == VERSION:  # the version node itself
            continue
        exported.add(name)
        if not name.startswith("kvh_"):
            found.append(f"exports {name}, which does not begin with kvh_")
        if version != VERSION:
            found.append(f"exports {name} with version '{version}', not {VERSION}")
    found += [f"a public header declares {name} but the library does not export it"
              for name in sorted(promised - exported)]
    found += [f"exports {name}, which no public header declares"
              for name in sorted(exported - promised)]
    return found


def check_no_faults(symbols):
    """symbols: text of nm, the static ones too."""
    return [f"holds the symbol {line.split()[-1]}" for line in symbols.splitlines()
            if re.search(r"fiu|kvh_fault", line)]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(root, library):
    promised = set()
    for header in sorted((root / "runtime/include/kvhold").glob("*.h")):
        promised |= declared(header.read_text(encoding="utf-8"))
    found = (check_needed(run("readelf", "-d", library))
             + check_exports(run("nm", "-D", "--defined-only", "--with-symbol-versions", library),
                             promised)
             + check_no_faults(run("nm", library)))
    print("\n".join(found))
    print(f"linked: {library}: {len(promised)} exported names promised, {len(found)} findings")
    return 1 if found or not promised else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2]))
