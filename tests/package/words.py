#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words that must not be in any file of the project: paths of one machine, addresses that only some
places reach, notes to self without an issue, traces of the tools that wrote it."""
import pathlib
import re
import sys

import csource

# Hosts that a page may link to: licences, standards, where the project's users and sources are.
HOSTS = {"www.apache.org", "apache.org", "spdx.org", "github.com", "keepachangelog.com",
         "semver.org", "docs.vllm.ai", "localhost", "127.0.0.1", "host", "example.com",
         "example.org"}
WORDS = {
    r"/(?:work|root|home)/\w": "a path of one machine",
    r"\bTODO\b(?! ?\(?#\d)|\bFIXME\b|\bXXX\b": "a note to self without an issue number",
    r"\b(?:Claude|Anthropic|ChatGPT|Copilot)\b": "a tool's name",
    r"\bas an AI\b|\blanguage model wrote\b|\bAI-generated\b": "a tool's words",
    r"\b(?:the|this|my|your) prompt says\b|\b(?:previous|earlier) session\b":
        "talk of how it was written",
    r"(?:[<]{7}|[>]{7}) ": "a merge conflict",
}
URL = re.compile(r"\bhttps?://([^/\s:?#\"'<>)`]+)")
# Data of others, kept as it is; and the two files that have to spell the words.
EXEMPT = ("tests/data/", "tests/fuzz/corpus/", "tests/package/words.py", "tests/package/test_checks.py")


def check_text(name, text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        found += [f"{name}:{number}: {what}: {match.group()}" for word, what in WORDS.items()
                  if (match := re.search(word, line))]
        found += [f"{name}:{number}: a link to {host}, which is not in the list of hosts"
                  for host in URL.findall(line) if host not in HOSTS]
    return found


def main(root):
    found, count = [], 0
    for name in csource.project_files(root):
        if name.startswith(EXEMPT):
            continue
        count += 1
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            found.append(f"{name}: not UTF-8 text")
            continue
        found += check_text(name, text)
    print("\n".join(found))
    print(f"words: {count} files, {len(found)} findings")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
