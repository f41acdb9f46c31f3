# SPDX-License-Identifier: Apache-2.0
"""Tests of the reports, above all of what they must refuse."""
import contextlib
import io
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import deviations
import make_report
import page
import results
import rules

SPEC = {
    "requests.md": "- R-1 one\n- R-2 two\n| D-1 | a | b | c |\n",
    "coordinator.md": "- C-1 masks\n",
    "jobs.md": "**U-1 (E)** order\n",
    "jobs-tests.md": "| J.K-1 | a | b | U-1 | seed |\n",
    "versions.md": "- V-1 **Ledger.**\n",
    "pool.md": "- **S-1** only valid\nF-1 each piece. F-2 WRITE pieces\n",
    "field-cases.md": "| B01 | x |\n",
    "README.md": "prose\n",
}
TABLE = """# comment
R-1  covered
R-2  due: part 1
D-1  due: part 1
C-1  due: part 1
U-1  outside: the engine
J.K-1 due: part 5
V-1  outside: history
S-1  due: part 2
F-1  due: part 6
F-2  due: part 6
B01  due: part 1
"""
TEST_FILE = """/* proves: R-1 */
static void saves_once(void **state)
{
}
"""


def xml(*cases):
    body = "".join(f'<testcase name="{name}" time="0.1">{inner}</testcase>'
                   for name, inner in cases)
    return f'<testsuites><testsuite name="tests" tests="{len(cases)}">{body}</testsuite></testsuites>'


class Project(unittest.TestCase):
    """A small project with one rule covered by one test that passed."""

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for name, text in SPEC.items():
            self.write(f"docs/spec/{name}", text)
        self.write("tests/rules.txt", TABLE)
        self.write("SECURITY.md", "| T1 | a threat |\n")
        self.write("tests/unit/a_test.c", TEST_FILE)
        self.build = self.root / "build"
        self.ran = {}
        self.run_of("unit.a", ("saves_once", ""))

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run_of(self, program, *cases):
        self.write(f"build/results/{program}/tests.xml", xml(*cases))
        self.ctest(**{program: "run"})

    def ctest(self, **statuses):
        """Adds programs to what ctest ran."""
        self.ran.update(statuses)
        self.write("build/results/ctest.xml", "<testsuite>" + "".join(
            f'<testcase name="{name}" time="0.5" status="{status}"/>'
            for name, status in self.ran.items()) + "</testsuite>")

    def problems(self, fast=False):
        return rules.examine(self.root, self.build / "results", fast, "make test")[1]

    def assert_problem(self, words, fast=False):
        found = self.problems(fast)
        self.assertTrue(any(words in problem for problem in found), f"{words!r} not in {found}")


class Rules(Project):
    def test_a_consistent_project_has_no_problem(self):
        self.assertEqual(self.problems(), [])

    def test_a_rule_without_a_line(self):
        self.write("tests/rules.txt", TABLE.replace("R-2  due: part 1\n", ""))
        self.assert_problem("R-2 (requests.md) has no line")

    def test_a_line_without_a_rule(self):
        self.write("tests/rules.txt", TABLE + "R-99 due: part 1\n")
        self.assert_problem("R-99 is no rule")

    def test_a_second_line(self):
        self.write("tests/rules.txt", TABLE + "R-2 covered\n")
        self.assert_problem("R-2 has a second line")

    def test_words_that_are_no_state(self):
        self.write("tests/rules.txt", TABLE.replace("R-2  due: part 1", "R-2  done"))
        self.assert_problem("not 'ID covered'")

    def test_covered_without_a_citation(self):
        self.write("tests/rules.txt", TABLE.replace("R-2  due: part 1", "R-2  covered"))
        self.assert_problem("R-2 is called covered but no test that ran proves it")

    def test_the_citing_test_did_not_run(self):
        self.run_of("unit.a", ("another", ""))
        self.assert_problem("saves_once did not run")
        self.assert_problem("R-1 is called covered")

    def test_the_citing_test_failed(self):
        self.run_of("unit.a", ("saves_once", "<failure>x</failure>"))
        self.assert_problem("saves_once failed")

    def test_a_skipped_test_proves_nothing(self):
        self.run_of("unit.a", ("saves_once", "<skipped/>"))
        self.assert_problem("saves_once skipped")

    def test_each_data_driven_case_must_pass(self):
        self.run_of("unit.a", ("saves_once[0]", ""), ("saves_once[1]", ""))
        self.assertEqual(self.problems(), [])
        self.run_of("unit.a", ("saves_once[0]", ""), ("saves_once[1]", "<failure/>"))
        self.assert_problem("saves_once failed")

    def test_a_longer_name_is_another_test(self):
        self.run_of("unit.a", ("saves_once_more", ""))
        self.assert_problem("saves_once did not run")

    def test_one_name_in_two_files_is_ambiguous(self):
        self.write("tests/unit/b_test.c", TEST_FILE.replace("/* proves: R-1 */", ""))
        self.assert_problem("tests/unit/a_test.c and tests/unit/b_test.c; rename one")

    def test_one_function_in_two_programs_must_pass_in_both(self):
        self.run_of("unit.b", ("saves_once", ""))
        self.assertEqual(self.problems(), [])
        self.run_of("unit.b", ("saves_once", "<failure/>"))
        self.assert_problem("saves_once failed")

    def test_a_citation_of_an_unknown_rule(self):
        self.write("tests/unit/a_test.c", TEST_FILE.replace("R-1", "R-1, R-77"))
        self.assert_problem("cites R-77")

    def test_a_citation_of_an_outside_rule(self):
        self.write("tests/unit/a_test.c", TEST_FILE.replace("R-1", "R-1, U-1"))
        self.assert_problem("calls outside")

    def test_a_citation_above_no_test(self):
        self.write("tests/unit/a_test.c", TEST_FILE + "/* proves: R-2 */\nint x;\n")
        self.assert_problem("above no test function")

    def test_a_citation_of_no_id(self):
        self.write("tests/unit/a_test.c", TEST_FILE.replace("R-1", "R-1, saving"))
        self.assert_problem("'saving' is no rule id")

    def test_a_threat_may_be_cited_if_there_is_one(self):
        self.write("tests/unit/a_test.c", TEST_FILE.replace("R-1", "R-1, T1"))
        self.assertEqual(self.problems(), [])
        self.write("tests/unit/a_test.c", TEST_FILE.replace("R-1", "R-1, T9"))
        self.assert_problem("'T9' is no rule id")

    def test_a_citation_over_two_lines(self):
        self.write("tests/unit/a_test.c", TEST_FILE.replace("R-1 ", "R-1,\n * R-2 "))
        table = rules.examine(self.root, self.build / "results", False, "make test")[0]
        self.assertEqual(len(table["R-2"].tests), 1)

    def test_a_whole_program_proves_what_its_cmake_file_says(self):
        self.write("tests/rules.txt", TABLE.replace("R-2  due: part 1", "R-2  covered")
                   .replace("C-1  due: part 1", "C-1  covered"))
        self.write("tests/golden/CMakeLists.txt",
                   "# golden.all proves: R-2,\n#   C-1\nadd_test(...)\n# other words\n")
        self.assert_problem("golden.all did not run")
        self.ctest(**{"golden.all": "run"})
        self.assertEqual(self.problems(), [])
        self.ctest(**{"golden.all": "fail"})
        self.assert_problem("golden.all failed")
        self.ctest(**{"golden.all": "notrun"})
        self.assert_problem("golden.all skipped")

    def test_slow_citations_are_left_out_of_fast_runs_only(self):
        self.write("tests/crash/a_test.c", TEST_FILE.replace("saves_once", "survives"))
        self.assertEqual(self.problems(fast=True), [])
        self.assert_problem("survives did not run", fast=False)

    def test_a_page_without_rules_and_an_unknown_page(self):
        self.write("docs/spec/coordinator.md", "nothing\n")
        self.write("docs/spec/new.md", "- Z-1 new\n")
        self.assert_problem("coordinator.md: no rule found")
        self.assert_problem("new.md: not known")

    def test_a_rule_defined_twice(self):
        self.write("docs/spec/requests.md", SPEC["requests.md"] + "- R-1 again\n")
        self.assert_problem("R-1 is defined twice")

    def test_no_results_is_an_error(self):
        shutil.rmtree(self.build)
        with self.assertRaisesRegex(results.Missing, "made by: make test"):
            self.problems()

    def test_a_torn_result_is_an_error(self):
        self.write("build/results/unit.a/tests.xml", xml(("saves_once", ""))[:-20])
        with self.assertRaises(results.Missing):
            self.problems()

    def test_a_group_with_fewer_tests_than_it_says_is_an_error(self):
        self.write("build/results/unit.a/tests.xml",
                   xml(("saves_once", "")).replace('tests="1"', 'tests="2"'))
        with self.assertRaisesRegex(results.Missing, "says 2 tests but lists 1"):
            self.problems()


class Deviations(unittest.TestCase):
    PAGE = "| id | test |\n| D-1 | a | `one` |\n| D-2 | b | due |\n"
    TESTS = {"D-1": ["one", "two"]}
    STATES = {"R-1": "due", "D-1": "covered", "D-2": "due"}

    def assert_found(self, words, page=PAGE, states=None):
        found = deviations.check(page, self.TESTS, states or self.STATES)
        self.assertTrue(any(words in line for line in found), found)

    def test_a_page_that_agrees(self):
        self.assertEqual(deviations.check(self.PAGE, self.TESTS, self.STATES), [])

    def test_a_test_that_is_gone(self):
        self.assert_found("D-1: old is no test", self.PAGE.replace("one", "old"))

    def test_due_though_covered(self):
        self.assert_found("tests/rules.txt says covered", self.PAGE.replace("`one`", "due"))

    def test_a_row_missing_or_twice(self):
        self.assert_found("'D-3'", states={**self.STATES, "D-3": "due"})
        self.assert_found("a row twice", self.PAGE + "| D-2 | b | due |\n")

    def test_fill_changes_the_last_column_only(self):
        self.assertEqual(deviations.fill(self.PAGE, self.TESTS),
                         self.PAGE.replace("`one`", "`one`, `two`"))


class Report(Project):
    """The same project with everything that a report is made from."""

    def setUp(self):
        super().setUp()
        self.write("runtime/base/fault_points.def",
                   '/* x */\nKVH_FAULT_POINT(A, "base/alloc", X)\n'
                   'KVH_FAULT_POINT(B, "pool/commit", X)\n')
        self.write("build/results/unit.a/fault_points.txt", "base/alloc\nbase/alloc\npool/commit\n")
        self.write("build/CMakeCache.txt", "CMAKE_C_COMPILER:STRING=gcc\n")
        self.write("build/tests.json", json.dumps({"tests": [
            {"name": "unit.a", "properties": [{"name": "LABELS", "value": ["unit"]}]}]}))
        self.write("build/coverage.json", json.dumps({"files": [
            {"filename": "runtime/worker/save.c", "line_covered": 9, "line_total": 10,
             "branch_covered": 3, "branch_total": 4},
            {"filename": "runtime/base/map.c", "line_covered": 5, "line_total": 5,
             "branch_covered": 0, "branch_total": 0}]}))
        for command in (["init", "-q"], ["add", "-A"],
                        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t"]):
            subprocess.run(["git", "-C", self.root, *command], check=True)

    def collect(self):
        return make_report.collect(self.root, self.build)

    def assert_missing(self, words):
        with self.assertRaisesRegex(results.Missing, words):
            self.collect()

    def test_the_figures(self):
        report = self.collect()
        self.assertEqual(report["coverage"]["all"]["line"]["percent"], 93.3)
        self.assertEqual(report["coverage"]["worker and store"]["branch"]["percent"], 75.0)
        self.assertIsNone(report["coverage"]["rest"]["branch"]["percent"])
        self.assertEqual(report["fault_points"], [{"name": "base/alloc", "fired_in": 1},
                                                  {"name": "pool/commit", "fired_in": 1}])
        self.assertEqual(report["labels"]["unit"]["functions"], 1)
        self.assertEqual(report["commit"]["changed_files"], 0)

    def test_a_fault_point_that_no_test_fires(self):
        self.write("build/results/unit.a/fault_points.txt", "base/alloc\n")
        self.assert_missing("no test fires pool/commit")

    def test_each_absent_input_is_named_with_its_command(self):
        for name in ("results/ctest.xml", "tests.json", "coverage.json", "CMakeCache.txt"):
            with self.subTest(name):
                path = self.build / name
                text = path.read_text()
                path.unlink()
                self.assert_missing(f"{path.stem}.*make report")
                path.write_text(text)
        self.collect()

    def test_a_program_that_crashed_is_a_failed_case(self):
        self.ctest(**{"unit.a": "fail"})
        (self.build / "results/unit.a/tests.xml").unlink()
        report = self.collect()
        self.assertEqual([failure["name"] for failure in report["failures"]], ["unit.a"])
        self.assertTrue(any("saves_once did not run" in p for p in report["rules"]["problems"]))

    def test_a_program_without_a_label(self):
        self.ctest(**{"unit.b": "run"})
        self.assert_missing("no label of unit.b")

    def test_results_of_a_program_that_ctest_did_not_run(self):
        self.write("build/results/unit.old/tests.xml", xml(("other", "")))
        self.assert_missing("unit.old.*was not run")

    def test_empty_coverage(self):
        self.write("build/coverage.json", '{"files": []}')
        self.assert_missing("no file in it")

    def test_no_catalogue_an_empty_one_and_a_foreign_point(self):
        self.write("build/results/unit.a/fault_points.txt", "base/unheard\n")
        self.assert_missing("base/unheard")
        self.write("runtime/base/fault_points.def", "/* none */\n")
        self.assert_missing("no KVH_FAULT_POINT")
        (self.root / "runtime/base/fault_points.def").unlink()
        self.assert_missing("catalogue of fault points")

    def test_outside_of_git(self):
        shutil.rmtree(self.root / ".git")
        self.assert_missing("git checkout")

    def test_nothing_is_written_when_an_input_is_missing(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            status = make_report.main(["--build", str(self.root / "none"),
                                       "--out", str(self.root / "out")])
        self.assertEqual(status, 1)
        self.assertIn("made by: make report", said.getvalue())
        self.assertFalse((self.root / "out").exists())

    def test_the_page_escapes_what_tests_said_and_loads_nothing(self):
        self.run_of("unit.a", ("saves_once", "<failure>a &lt;script&gt; b</failure>"))
        text = page.render(self.collect())
        self.assertIn("a &lt;script&gt; b", text)
        for outside in ("<script", "http:", "https:", "src=", "@import"):
            self.assertNotIn(outside, text)


if __name__ == "__main__":
    unittest.main()
