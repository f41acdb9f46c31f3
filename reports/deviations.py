#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The last column of docs/deviations.md: which test functions prove each deviation.

    python3 reports/deviations.py PROJECT [--write]

Without --write it checks: every D-rule has its row, every named test exists and cites the rule, and
'due' stands only where tests/rules.txt says so.
"""
import pathlib
import re
import sys

import rules

ROW = re.compile(r"^\| (D-\d+) \|(.*)\| ([^|]*) \|$")


def citing(root):
    """Rule -> sorted names of the test functions that cite it."""
    tests = {}
    for citation in rules.read_citations(root)[0]:
        tests.setdefault(citation.rule, set()).add(citation.function)
    return {rule: sorted(names) for rule, names in tests.items()}


def fill(text, tests):
    """The page with its last column made from the tests."""
    def row(line):
        match = ROW.match(line)
        if not match:
            return line
        names = ", ".join(f"`{name}`" for name in tests.get(match.group(1), [])) or "due"
        return f"| {match.group(1)} |{match.group(2)}| {names} |"
    return "\n".join(row(line) for line in text.split("\n"))


def check(text, tests, states):
    """What is wrong with the page; states: rule -> state of tests/rules.txt."""
    found, seen = [], []
    for line in text.split("\n"):
        if not (match := ROW.match(line)):
            continue
        rule, column = match.group(1), match.group(3)
        seen.append(rule)
        if column == "due":
            if states.get(rule) != "due":
                found.append(f"{rule}: the table names no test, tests/rules.txt says "
                             f"{states.get(rule)}")
            continue
        found += [f"{rule}: {name} is no test function that cites it"
                  for name in re.findall(r"`(\w+)`", column) or [column]
                  if name not in tests.get(rule, [])]
    wanted = [rule for rule in states if rule.startswith("D-")]
    if sorted(seen) != sorted(wanted):
        found.append(f"rows and D-rules differ: {sorted(set(seen) ^ set(wanted)) or 'a row twice'}")
    return found


def main(arguments):
    root = pathlib.Path(arguments[0])
    path = root / "docs/deviations.md"
    text, tests = path.read_text(encoding="utf-8"), citing(root)
    if "--write" in arguments:
        path.write_text(fill(text, tests), encoding="utf-8")
        return 0
    table = rules.read_definitions(root / "docs/spec")[0]
    rules.read_table(root / "tests/rules.txt", table)
    found = check(text, tests, {rule.name: rule.state for rule in table.values()})
    print("\n".join(found))
    print(f"deviations: {len(found)} findings (python3 reports/deviations.py . --write mends)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
