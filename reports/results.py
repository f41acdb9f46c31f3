# SPDX-License-Identifier: Apache-2.0
"""What a test run left behind: outcomes of test functions, fault points that fired, durations."""
import json
import pathlib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass


class Missing(Exception):
    """An input is absent or unreadable. The text names it and the command that makes it."""


@dataclass(frozen=True)
class Case:
    program: str  # CTest name of the program it ran in
    group: str
    name: str
    outcome: str  # passed, failed or skipped
    text: str  # what a failed one said


def read_json(path, command):
    try:
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Missing(f"{path}: {error}; made by: {command}") from error


def _read_xml(path, command):
    try:
        return ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise Missing(f"{path}: {error}; made by: {command}") from error


def _case(program, suite, node):
    failure = node.find("failure")
    if failure is None:
        failure = node.find("error")
    outcome = "passed"
    if failure is not None:
        outcome = "failed"
    elif node.find("skipped") is not None:
        outcome = "skipped"
    text = "" if failure is None else (failure.text or "")
    return Case(program, suite.get("name", ""), node.get("name", ""), outcome, text)


def _ctest_outcomes(folder, command):
    """CTest program -> (outcome, seconds, text), of every ctest*.xml in the folder."""
    paths = sorted(pathlib.Path(folder).glob("ctest*.xml"))
    if not paths:
        raise Missing(f"{folder}: no ctest*.xml; made by: {command}")
    outcomes = {}
    for path in paths:
        for node in _read_xml(path, command).iter("testcase"):
            outcome = {"run": "passed", "fail": "failed"}.get(node.get("status"), "skipped")
            outcomes[node.get("name")] = (outcome, float(node.get("time")),
                                          node.findtext("system-out") or "")
    if not outcomes:
        raise Missing(f"{folder}: no test in {paths[0].name}; made by: {command}")
    return outcomes


def read_cases(folder, command):
    """Every test function of a run, as cmake/run_cmocka.sh leaves them: FOLDER/PROGRAM/GROUP.xml.
    A program that leaves none (not of cmocka, or it crashed) is one case of its own name."""
    folder = pathlib.Path(folder)
    outcomes = _ctest_outcomes(folder, command)
    cases = []
    for path in sorted(folder.glob("*/*.xml")):
        if path.parent.name not in outcomes:
            raise Missing(f"{path}: its program was not run by ctest; clear it and run: {command}")
        for suite in _read_xml(path, command).iter("testsuite"):
            found = [_case(path.parent.name, suite, node) for node in suite.findall("testcase")]
            if len(found) != int(suite.get("tests", "-1")):
                raise Missing(f"{path}: the group says {suite.get('tests')} tests but lists "
                              f"{len(found)}; made by: {command}")
            cases += found
    silent = set(outcomes) - {case.program for case in cases}
    return cases + [Case(name, "", name, outcomes[name][0], outcomes[name][2])
                    for name in sorted(silent)]


def read_fired(folder):
    """Fault point name -> number of programs in which it fired. A program may fire none."""
    counts = {}
    for path in sorted(pathlib.Path(folder).glob("*/fault_points.txt")):
        names = {line.strip() for line in path.read_text(encoding="utf-8").splitlines()}
        for name in names - {""}:
            counts[name] = counts.get(name, 0) + 1
    return counts


def read_programs(folder, listing_path, command):
    """CTest programs: name, label, seconds. Labels come from ctest --show-only=json-v1."""
    labels = {}
    for test in read_json(listing_path, command).get("tests", []):
        for entry in test.get("properties", []):
            if entry.get("name") == "LABELS":
                labels[test["name"]] = entry["value"][0]
    outcomes = _ctest_outcomes(folder, command)
    unknown = sorted(set(outcomes) - set(labels))
    if unknown:
        raise Missing(f"{listing_path}: no label of {' '.join(unknown)}; made by: {command}")
    return [{"name": name, "label": labels[name], "seconds": seconds}
            for name, (_, seconds, _) in outcomes.items()]
