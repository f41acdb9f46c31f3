#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collects what one coverage run proved into report.json and one self-contained page.

    python3 reports/make_report.py --build build/coverage --out build/report

Every figure comes from a file of this run. An absent or broken input is an error that names it
and the command that makes it; nothing is written then.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

import page
import results
import rules

COMMAND = "make report"
# Where the promise "right or reported" is kept: their coverage is shown apart.
CORE_FOLDERS = ("runtime/worker/", "runtime/store/")
FAULT_POINT = re.compile(r'^\s*KVH_FAULT_POINT\(\s*\w+\s*,\s*"([^"]+)"', re.MULTILINE)


def read_commit(root):
    def git(*arguments):
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            raise results.Missing(f"{root}: {done.stderr.strip()}; a report names its commit, so "
                                  f"it is made in a git checkout with: {COMMAND}")
        return done.stdout.strip()
    return {"id": git("rev-parse", "HEAD"), "date": git("show", "-s", "--format=%cI", "HEAD"),
            "changed_files": len(git("status", "--porcelain").splitlines())}


def read_compiler(build):
    cache = build / "CMakeCache.txt"
    try:
        text = cache.read_text(encoding="utf-8")
    except OSError as error:
        raise results.Missing(f"{error}; made by: {COMMAND}") from error
    match = re.search(r"^CMAKE_C_COMPILER:\w+=(.*)$", text, re.MULTILINE)
    if not match:
        raise results.Missing(f"{cache}: no CMAKE_C_COMPILER in it; made by: {COMMAND}")
    done = subprocess.run([match.group(1), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def read_fault_points(root, result_folder):
    """Declared fault points and how many programs fired each."""
    catalogue = root / "runtime/base/fault_points.def"
    try:
        declared = FAULT_POINT.findall(catalogue.read_text(encoding="utf-8"))
    except OSError as error:
        raise results.Missing(f"{error}; it is the catalogue of fault points") from error
    if not declared:
        raise results.Missing(f"{catalogue}: no KVH_FAULT_POINT(ID, \"name\", ...) in it")
    fired = results.read_fired(result_folder)
    unknown = sorted(set(fired) - set(declared))
    if unknown:
        raise results.Missing(f"{result_folder}: fired but not in {catalogue}: "
                              f"{' '.join(unknown)}; clear it and run: {COMMAND}")
    silent = [name for name in declared if not fired.get(name)]
    if silent:
        raise results.Missing(f"no test fires {' '.join(silent)}, declared in {catalogue}")
    return [{"name": name, "fired_in": fired[name]} for name in declared]


def _share(covered, total):
    return {"covered": covered, "total": total,
            "percent": round(100 * covered / total, 1) if total else None}


def _coverage_of(files):
    def count(key):
        return sum(entry[key] for entry in files)
    return {"line": _share(count("line_covered"), count("line_total")),
            "branch": _share(count("branch_covered"), count("branch_total"))}


def read_coverage(path):
    files = results.read_json(path, COMMAND).get("files")
    if not files:
        raise results.Missing(f"{path}: no file in it; made by: {COMMAND}")
    core = [entry for entry in files if entry["filename"].startswith(CORE_FOLDERS)]
    rest = [entry for entry in files if not entry["filename"].startswith(CORE_FOLDERS)]
    return {"all": _coverage_of(files), "worker and store": _coverage_of(core),
            "rest": _coverage_of(rest),
            "files": {entry["filename"]: _coverage_of([entry]) for entry in files}}


def by_label(programs, cases):
    """Per label: programs, test functions, failed ones, seconds (summed over programs)."""
    label_of = {program["name"]: program["label"] for program in programs}
    rows = {}
    for program in programs:
        row = rows.setdefault(program["label"], {"programs": 0, "functions": 0, "failed": 0,
                                                 "skipped": 0, "seconds": 0.0})
        row["programs"] += 1
        row["seconds"] += program["seconds"]
    for case in cases:
        row = rows[label_of[case.program]]
        row["functions"] += 1
        row["failed"] += case.outcome == "failed"
        row["skipped"] += case.outcome == "skipped"
    return rows


def collect(root, build):
    """The whole report as one dictionary. Raises results.Missing."""
    folder = build / "results"
    cases = results.read_cases(folder, COMMAND)
    programs = results.read_programs(folder, build / "tests.json", COMMAND)
    table, problems, unjudged = rules.examine(root, folder, True, COMMAND)
    return {
        "commit": read_commit(root), "compiler": read_compiler(build),
        "labels": by_label(programs, cases), "programs": programs,
        "failures": [{"program": case.program, "name": case.name, "text": case.text}
                     for case in cases if case.outcome == "failed"],
        "rules": {"table": rules.to_json(table), "summary": rules.summary(table),
                  "problems": problems, "not_judged": unjudged},
        "fault_points": read_fault_points(root, folder),
        "coverage": read_coverage(build / "coverage.json"),
    }


def main(arguments):
    parser = argparse.ArgumentParser(description="make the report of one coverage run")
    parser.add_argument("--build", required=True, help="build folder of the coverage preset")
    parser.add_argument("--out", required=True, help="folder for index.html and report.json")
    options = parser.parse_args(arguments)
    root = pathlib.Path(__file__).resolve().parent.parent
    try:
        report = collect(root, pathlib.Path(options.build))
    except results.Missing as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (out / "index.html").write_text(page.render(report), encoding="utf-8")
    points = report["fault_points"]
    coverage = report["coverage"]["all"]
    print(f"report: {out / 'index.html'}: {sum(r['functions'] for r in report['labels'].values())}"
          f" test functions, {len(report['failures'])} failed; fault points "
          f"{sum(p['fired_in'] > 0 for p in points)} of {len(points)} fired; coverage "
          f"{page.percent(coverage['line'])} of lines, {page.percent(coverage['branch'])} of branches")
    for problem in report["rules"]["problems"]:
        print(f"report: {problem}", file=sys.stderr)
    return 1 if report["rules"]["problems"] or report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
