#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rule table: every rule of docs/spec has a line in tests/rules.txt, and what that line
calls covered is cited by a test function that ran and passed.

    python3 reports/rules.py --results build/dev/results [--fast] [--json FILE] [--all]

A citation is a comment directly above a cmocka test function: /* proves: R-14, D-12 */
A test that is a whole program is cited in its CMakeLists.txt: # golden.recorded proves: C-10, C-11
--fast leaves citations in folders whose tests did not run (tests/crash, tests/fuzz, ...) out of
the judgement: make long judges them too. --all prints every rule, not only the summary.
"""
import argparse
import json
import pathlib
import re
import sys
from dataclasses import dataclass, field

import results

# Where rules are defined: page of docs/spec -> pattern whose first group is the rule's id.
DEFINITIONS = {
    "requests.md": r"^(?:- |\| )([RD]-\d+[a-z]?)\b",
    "coordinator.md": r"^- (C-\d+)\b",
    "jobs.md": r"\*\*(U-\d+)\b",
    "jobs-tests.md": r"^\| (J\.[A-Z]-\d+) \|",
    "versions.md": r"^- ([VWX]-\d+)\b",
    "pool.md": r"(?:^- \*\*(S-\d+)\*\*|(?:^|\. )(F-\d+) )",
    "field-cases.md": r"^\| (B\d\d) \|",
}
# Pages that define no rule.
PROSE = {"README.md", "golden.md"}
RULE_ID = re.compile(r"(?:[RDCUVWXSF]-\d+[a-z]?|J\.[A-Z]-\d+|B\d\d)")
LINE = re.compile(r"(\S+)\s+(?:(covered)|due: part (\d+)|outside: (\S.*))")
CITATION = re.compile(r"/\*\s*proves:(.*?)\*/(\s*(?:static\s+)?void\s+(\w+)\s*\(\s*void\s*\*\*)?",
                      re.DOTALL)
PROGRAM_CITATION = re.compile(r"^# (\S+) proves:(.*(?:\n#  .*)*)", re.MULTILINE)
FUNCTION = re.compile(r"^\s*(?:static\s+)?void\s+(\w+)\s*\(\s*void\s*\*\*", re.MULTILINE)
SLOW_FOLDERS = {"crash", "fuzz", "bench", "vm", "engine", "hardware"}


@dataclass
class Rule:
    name: str
    page: str
    state: str = ""  # covered, due or outside
    note: str = ""  # the part that owes it, or who does it
    tests: list = field(default_factory=list)  # citing test functions as file:function


@dataclass(frozen=True)
class Citation:
    rule: str
    path: str  # relative to the project
    function: str


def read_definitions(spec):
    """Rules of the pages, in page order; and what is wrong with the pages."""
    rules, problems = {}, []
    present = {path.name for path in spec.glob("*.md")}
    for page in sorted(present - PROSE - set(DEFINITIONS)):
        problems.append(f"{spec / page}: not known to reports/rules.py; add its rule pattern")
    for page, pattern in DEFINITIONS.items():
        if page not in present:
            problems.append(f"{spec / page}: missing")
            continue
        count = 0
        for line in (spec / page).read_text(encoding="utf-8").splitlines():
            for match in re.finditer(pattern, line):
                name = next(group for group in match.groups() if group)
                count += 1
                if name in rules:
                    problems.append(f"{spec / page}: {name} is defined twice")
                rules[name] = Rule(name, page)
        if count == 0:
            problems.append(f"{spec / page}: no rule found in it")
    return rules, problems


def read_table(path, rules):
    """Gives each rule its state from the table; returns what is wrong with the table."""
    problems = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        match = LINE.fullmatch(line)
        if not match:
            problems.append(f"{path}:{number}: not 'ID covered', 'ID due: part N' or "
                            f"'ID outside: who does it': {line}")
            continue
        name, covered, part, who = match.groups()
        if name not in rules:
            problems.append(f"{path}:{number}: {name} is no rule of docs/spec")
        elif rules[name].state:
            problems.append(f"{path}:{number}: {name} has a second line")
        elif covered:
            rules[name].state = "covered"
        else:
            rules[name].state, rules[name].note = ("due", part) if part else ("outside", who)
    problems += [f"{path}: {rule.name} ({rule.page}) has no line" for rule in rules.values()
                 if not rule.state]
    return problems


def _cited(text, where, problems, threats):
    """Rule ids of a citation's text, which may run over lines that start with a star or a hash.
    It may name threats of SECURITY.md too, which have no line in the table."""
    names = re.sub(r"\n\s*[*#]", " ", text).replace(",", " ").split()
    if not names:
        problems.append(f"{where}: 'proves:' names no rule")
    problems += [f"{where}: '{name}' is no rule id" for name in names
                 if not RULE_ID.fullmatch(name) and name not in threats]
    return [name for name in names if RULE_ID.fullmatch(name)]


def read_citations(root):
    """Citations in tests/; and those that no one test function follows or that name no rule."""
    citations, problems, homes = [], [], {}
    threats = set(re.findall(r"^\| (T\d+) \|", (root / "SECURITY.md").read_text(encoding="utf-8"),
                             re.MULTILINE))
    for path in sorted((root / "tests").rglob("CMakeLists.txt")):
        where = str(path.relative_to(root))
        for match in PROGRAM_CITATION.finditer(path.read_text(encoding="utf-8")):
            program = match.group(1)
            homes[program] = [where]
            citations += [Citation(name, where, program)
                          for name in _cited(match.group(2), f"{where}: {program}", problems,
                                         threats)]
    for path in sorted((root / "tests").rglob("*.c")):
        text = path.read_text(encoding="utf-8")
        where = path.relative_to(root)
        for name in FUNCTION.findall(text):
            homes.setdefault(name, []).append(str(where))
        for match in CITATION.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            if not match.group(3):
                problems.append(f"{where}:{line}: 'proves:' stands above no test function")
                continue
            citations += [Citation(name, str(where), match.group(3))
                          for name in _cited(match.group(1), f"{where}:{line}", problems, threats)]
    # Results know a test function by its name only.
    problems += [f"{name} cites a rule and is the name of test functions in "
                 f"{' and '.join(homes[name])}; rename one"
                 for name in sorted({citation.function for citation in citations})
                 if len(homes[name]) > 1]
    return citations, problems


def _is_case_of(case, function):
    """A data-driven test may append to its function's name: save_basic[17], save_basic: file."""
    return re.fullmatch(re.escape(function) + r"(?:[\[(:/ ].*)?", case.name) is not None


def _judge(citation, cases):
    """None if the citing function ran and passed, else what is wrong."""
    mine = [case for case in cases if _is_case_of(case, citation.function)]
    where = f"{citation.path}: {citation.function}"
    if not mine:
        return f"{where} did not run"
    bad = sorted({case.outcome for case in mine} - {"passed"})
    return f"{where} {' and '.join(bad)}" if bad else None


def check(rules, citations, cases, fast):
    """Fills the tests of each rule; returns problems and the number of citations not judged."""
    problems, unjudged = [], 0
    slow_proof = set()
    for citation in citations:
        rule = rules.get(citation.rule)
        if rule is None:
            problems.append(f"{citation.path}: {citation.function} cites {citation.rule}, "
                            "which docs/spec does not define")
            continue
        if rule.state == "outside":
            problems.append(f"{citation.path}: {citation.function} cites {rule.name}, which "
                            "tests/rules.txt calls outside")
        if fast and citation.path.split("/")[1] in SLOW_FOLDERS:
            unjudged += 1
            slow_proof.add(rule.name)
            continue
        fault = _judge(citation, cases)
        if fault is None:
            rule.tests.append(f"{citation.path}:{citation.function}")
        else:
            problems.append(f"{rule.name}: {fault}")
    problems += [f"{rule.name} is called covered but no test that ran proves it"
                 for rule in rules.values()
                 if rule.state == "covered" and not rule.tests and rule.name not in slow_proof]
    return problems, unjudged


def examine(root, result_folder, fast, command):
    """(rules, problems, citations not judged). Raises results.Missing without a test run."""
    rules, problems = read_definitions(root / "docs/spec")
    problems += read_table(root / "tests/rules.txt", rules)
    citations, more = read_citations(root)
    problems += more
    more, unjudged = check(rules, citations, results.read_cases(result_folder, command), fast)
    return rules, problems + more, unjudged


def family(name):
    return "B" if name.startswith("B") else name.split("-")[0].split(".")[0]


def summary(rules):
    """Rows of counts: family, rules, covered, due, outside, cited but still called due."""
    rows = []
    for fam in dict.fromkeys(family(name) for name in rules):
        mine = [rule for name, rule in rules.items() if family(name) == fam]
        count = {state: sum(rule.state == state for rule in mine)
                 for state in ("covered", "due", "outside")}
        ready = sum(rule.state == "due" and bool(rule.tests) for rule in mine)
        rows.append((fam, len(mine), count["covered"], count["due"], count["outside"], ready))
    rows.append(("all", *(sum(column) for column in list(zip(*rows))[1:])))
    return rows


def to_json(rules):
    return [{"rule": rule.name, "page": rule.page, "state": rule.state, "note": rule.note,
             "tests": rule.tests} for rule in rules.values()]


def print_table(rules, everything):
    if everything:
        for rule in rules.values():
            note = f" {rule.note}" if rule.note else ""
            print(f"{rule.name:8} {rule.state}{note}  {' '.join(rule.tests)}")
    print(f"{'rules':8}{'total':>7}{'covered':>9}{'due':>6}{'outside':>9}{'cited, due':>12}")
    for row in summary(rules):
        print(f"{row[0]:8}{row[1]:7}{row[2]:9}{row[3]:6}{row[4]:9}{row[5]:12}")
    ready = [rule.name for rule in rules.values() if rule.state == "due" and rule.tests]
    if ready:
        print("cited and passed, may be called covered:", " ".join(ready))


def main(arguments):
    parser = argparse.ArgumentParser(description="check the rule table against a test run")
    parser.add_argument("--results", required=True, help="results folder of a build")
    parser.add_argument("--fast", action="store_true", help="the slow tests did not run")
    parser.add_argument("--json", help="also write the table here")
    parser.add_argument("--all", action="store_true", help="print every rule")
    options = parser.parse_args(arguments)
    root = pathlib.Path(__file__).resolve().parent.parent
    try:
        rules, problems, unjudged = examine(root, options.results, options.fast, "make test")
    except results.Missing as error:
        print(f"rules: {error}", file=sys.stderr)
        return 1
    print_table(rules, options.all)
    if unjudged:
        print(f"{unjudged} citations in slow tests not judged here: make long")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(to_json(rules), indent=1) + "\n",
                                              encoding="utf-8")
    for problem in problems:
        print(f"rules: {problem}", file=sys.stderr)
    print(f"rules: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
