# SPDX-License-Identifier: Apache-2.0
"""Each checker against samples that it must refuse, and against good ones that it must let pass."""
import pathlib
import subprocess
import tempfile
import unittest

import arrows
import csource
import formatted
import headers
import limits
import linked
import words

LICENCE = limits.LICENCE + "\n"


def function(lines, head="static int f(void)"):
    """A function of exactly that many lines."""
    return head + "\n{\n" + "\tx();\n" * (lines - 3) + "}\n"


class Functions(unittest.TestCase):
    def names(self, text):
        return [f.name for f in csource.functions(text)]

    def test_finds_functions_and_nothing_else(self):
        text = """
#include <x.h>
#define MACRO(a) do { f(a); } while (0)
#define LONG(a) \\
	{ a }
extern "C" {
struct s { int a; struct { int b; } c; };
enum e { A, B };
static const int table[] = {1, 2};
static const struct s value = {.a = f(1)};
struct s *get(struct s *of, int (*fn)(void *a, int b))
{
	if (x) { y(); }
	return (struct s){0};
}
}
static void locked(void) KVH_REQUIRES(kvh_role_pool)
{
}
__attribute__((noinline)) int noted(int a, int b) { return a; }
"""
        found = {f.name: f for f in csource.functions(text)}
        self.assertEqual(list(found), ["get", "locked", "noted"])
        self.assertEqual([f.parameters for f in found.values()], [2, 0, 2])
        self.assertEqual(found["get"].lines, 5)

    def test_braces_in_comments_strings_and_characters_do_not_count(self):
        text = "void a(void)\n{\n\t/* { */ s(\"{ \\\" {\"); c('{'); // {\n}\nvoid b(void)\n{\n}\n"
        self.assertEqual(self.names(text), ["a", "b"])

    def test_only_one_branch_of_an_if_counts(self):
        text = ("#ifdef A\nvoid a(int x)\n{\n#else\nvoid a(void)\n{\n#endif\n\tb();\n}\n"
                "void c(void)\n{\n}\n")
        self.assertEqual(self.names(text), ["a", "c"])

    def test_counts_lines_from_the_head_to_the_brace(self):
        (found,) = csource.functions("int\nf(int a,\n  int b)\n{\n}\n")
        self.assertEqual((found.first_line, found.lines, found.parameters), (1, 5, 2))

    def test_an_open_brace_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "never closed"):
            csource.functions("void a(void)\n{\n\tif (x) {\n}\n")


class Limits(unittest.TestCase):
    def check(self, text, name="runtime/base/x.c"):
        return limits.check_text(name, LICENCE + text)

    def test_a_function_of_seventy_lines_passes_and_one_more_does_not(self):
        self.assertEqual(self.check(function(70)), [])
        self.assertIn("f has 71 lines", self.check(function(71))[0])

    def test_a_file_of_six_hundred_lines_passes_and_one_more_does_not(self):
        self.assertEqual(self.check("\n" * 599), [])
        self.assertIn("601 lines", self.check("\n" * 600)[0])

    def test_six_parameters_pass_and_one_more_does_not(self):
        def many(count):
            return function(4, f"int f({', '.join(f'int a{i}' for i in range(count))})")
        self.assertEqual(self.check(many(6)), [])
        self.assertIn("7 parameters", self.check(many(7))[0])

    def test_a_parameter_that_is_a_function_counts_once(self):
        self.assertEqual(self.check(function(
            4, "int f(int a, int b, int c, int d, int e, int (*g)(int, int, int))")), [])

    def test_columns_count_tabs_as_eight(self):
        self.assertEqual(self.check("\t" + "x" * 92 + "\n"), [])
        self.assertIn("101 columns", self.check("\t" + "x" * 93 + "\n")[0])

    def test_a_file_without_the_licence(self):
        self.assertIn("first line", limits.check_text("runtime/x.c", "int a;\n")[0])

    def test_recursion_in_the_runtime_only(self):
        text = "static int f(int a)\n{\n\treturn f(a - 1);\n}\n"
        self.assertIn("f calls itself", self.check(text)[0])
        self.assertEqual(self.check(text, "tests/unit/x.c"), [])
        self.assertEqual(self.check(text.replace("f(a - 1)", "ops->f(a - 1)")), [])


class Arrows(unittest.TestCase):
    FILES = {"runtime/base/size.h", "runtime/store/store.h", "runtime/worker/ledger.h",
             "runtime/pool/core/core.h", "runtime/pool/core/slots.h", "runtime/pool/fabric.h",
             "runtime/worker/inspect.h", "runtime/base/fault.h", "runtime/base/map.h",
             "sim/world.h", "runtime/include/kvhold/status.h", "faults/rules.h"}

    def check(self, name, text):
        return arrows.check_text(name, text, self.FILES.__contains__)

    def refuses(self, name, text, words_):
        found = self.check(name, text)
        self.assertTrue(found and words_ in found[0], found)

    def test_arrows_of_the_table_pass(self):
        for name, path in (("runtime/worker/save.c", "ledger.h"),
                           ("runtime/worker/save.c", "store/store.h"),
                           ("runtime/store/door.c", "base/size.h"),
                           ("runtime/pool/local/memory.c", "../core/core.h"),
                           ("faults/rules.c", "base/fault.h"), ("sim/env.c", "pool/fabric.h"),
                           ("sim/check.c", "worker/inspect.h"), ("sim/world.c", "faults/rules.h"),
                           ("runtime/include/kvhold/store.h", "status.h")):
            with self.subTest(name=name, path=path):
                self.assertEqual(self.check(name, f'#include "{path}"\n'), [])

    def test_other_arrows_are_refused(self):
        for name, path in (("runtime/base/x.c", "store/store.h"),
                           ("runtime/store/x.c", "worker/ledger.h"),
                           ("runtime/worker/x.c", "pool/core/core.h"),
                           ("runtime/pool/x.c", "worker/ledger.h"),
                           ("runtime/worker/x.c", "sim/world.h"),
                           ("runtime/cli/x.c", "../../sim/world.h"),
                           ("sim/x.c", "pool/core/slots.h"), ("faults/x.c", "base/map.h"),
                           ("runtime/include/kvhold/x.h", "base/size.h")):
            with self.subTest(name=name, path=path):
                self.refuses(name, f'#include "{path}"\n', "may not include")

    def test_an_include_that_leads_nowhere(self):
        self.refuses("runtime/base/x.c", '#include "gone.h"\n', "is not found")

    def test_a_commented_include_is_none(self):
        self.assertEqual(self.check("runtime/base/x.c", '/*\n#include "sim/world.h"\n*/\n'), [])

    def test_third_party_headers_have_one_home(self):
        for header, home in (("infiniband/verbs.h", "runtime/pool/fabric/verbs.c"),
                             ("cuda.h", "runtime/device/cuda.c"),
                             ("simgrid/actor.h", "sim/env.c"), ("fiu.h", "runtime/base/fault.c"),
                             ("hiredis/hiredis.h", "runtime/pool/remote/members.c"),
                             ("pthread.h", "runtime/base/env_posix.c"),
                             ("jansson.h", "runtime/cli/plan.c")):
            with self.subTest(header):
                self.assertEqual(self.check(home, f"#include <{header}>\n"), [])
                self.refuses("runtime/worker/x.c", f"#include <{header}>\n", "at home")

    def test_an_unknown_header_and_an_unknown_room(self):
        self.refuses("runtime/worker/x.c", "#include <boost.h>\n", "not known")
        self.refuses("runtime/shed/x.c", "", "not in the table")

    def test_threads_time_and_random_come_from_the_environment(self):
        for call in ("pthread_mutex_lock(&m)", "clock_gettime(a, &b)", "time(NULL)", "rand()",
                     "getrandom(a, b, 0)", "usleep(3)"):
            with self.subTest(call):
                text = f"void f(void)\n{{\n\t{call};\n}}\n"
                self.refuses("runtime/worker/x.c", text, "struct kvh_env")
                self.assertEqual(self.check("runtime/base/env_posix.c", text), [])
        self.assertEqual(self.check("runtime/worker/x.c",
                                    "void f(void)\n{\n\tenv->ops->time(e); /* rand() */\n}\n"), [])


class Linked(unittest.TestCase):
    GOOD = "0000000000001139 T kvh_version@@KVHOLD_0.1\n0000000000000000 A KVHOLD_0.1\n"

    def exports(self, text, *promised):
        return linked.check_exports(text, set(promised))

    def test_good_exports(self):
        self.assertEqual(self.exports(self.GOOD, "kvh_version"), [])

    def test_bad_exports(self):
        for text, said in ((self.GOOD + "01 T helper@@KVHOLD_0.1\n", "does not begin with kvh_"),
                           (self.GOOD.replace("kvh_version@@KVHOLD_0.1", "kvh_version"),
                            "with version ''"),
                           (self.GOOD + "01 T kvh_more@@KVHOLD_0.1\n", "no public header"),
                           ("", "does not export it")):
            with self.subTest(said):
                self.assertTrue(any(said in line for line in self.exports(text, "kvh_version")))

    def test_needed_libraries(self):
        line = " 0x01 (NEEDED)  Shared library: [{}]\n"
        self.assertEqual(linked.check_needed(line.format("libc.so.6")), [])
        for name in ("libfiu.so.0", "libcuda.so.1", "libibverbs.so.1", "libjansson.so.4"):
            self.assertEqual(linked.check_needed(line.format("libc.so.6") + line.format(name)),
                             [f"needs {name}"])
        self.assertTrue(linked.check_needed(""))

    def test_fault_symbols(self):
        self.assertEqual(linked.check_no_faults("01 T kvh_version\n"), [])
        self.assertTrue(linked.check_no_faults("                 U fiu_fail\n"))
        self.assertTrue(linked.check_no_faults("01 t kvh_fault_fire\n"))

    def test_declared_names(self):
        text = """/* KVH_API void kvh_no(void); */
#define KVH_API __attribute__((visibility("default")))
KVH_API const struct kvh_env *kvh_env_posix(void);
KVH_API kvh_status kvh_store_open(struct kvh_store **store,
				  const char *url);
KVH_API extern const int kvh_table[];
kvh_status kvh_hidden(void);
"""
        self.assertEqual(linked.declared(text), {"kvh_env_posix", "kvh_store_open", "kvh_table"})


class Headers(unittest.TestCase):
    def check(self, text):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "x.h").write_text(text, encoding="utf-8")
            return headers.check_header(folder, "x.h")

    def test_a_header_alone(self):
        self.assertEqual(self.check("#include <stdint.h>\nuint32_t kvh_x(void);\n"), [])

    def test_a_header_that_needs_another(self):
        self.assertEqual(len(self.check("uint32_t kvh_x(void);\n")), 2)

    def test_a_header_that_is_not_cpp(self):
        self.assertEqual(len(self.check("int kvh_x(int class);\n")), 1)

    def test_a_gnu_extension(self):
        self.assertTrue(self.check("struct kvh_x { int a; struct {} b; };\n"))

    def test_versions_that_differ(self):
        text = ("#define KVH_VERSION_MAJOR 0\n#define KVH_VERSION_MINOR 1\n"
                '#define KVH_VERSION_PATCH 0\n#define KVH_VERSION_TEXT  "0.1.0"\n')
        self.assertEqual(headers.check_version(text, "0.1.0"), [])
        self.assertTrue(headers.check_version(text, "0.2.0"))
        self.assertTrue(headers.check_version(text.replace("MINOR 1", "MINOR 2"), "0.1.0"))
        self.assertTrue(headers.check_version("", "0.1.0"))


class Words(unittest.TestCase):
    def test_words_that_must_not_be_there(self):
        for line in ("see /work/shared/x", "cd /root/x", "/home/me", "/* TODO later */", "FIXME",
                     "written by Claude", "in the previous session", "<<<<<<< HEAD",
                     "at https://registry.invalid/simple"):
            with self.subTest(line):
                self.assertTrue(words.check_text("docs/x.md", line))

    def test_words_that_look_alike(self):
        for line in ("a session of the pool", "users' prompts", "/* TODO(#12) later */",
                     "homework/rooted", "https://github.com/x/y", "num_prompt_tokens"):
            with self.subTest(line):
                self.assertEqual(words.check_text("docs/x.md", line), [])


class Formatted(unittest.TestCase):
    STYLE = pathlib.Path(__file__).resolve().parents[2] / ".clang-format"

    def test_spaces_for_a_tab(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / ".clang-format").write_text(self.STYLE.read_text())
            for name, indent in (("good.c", "\t"), ("bad.c", "    ")):
                (root / name).write_text(f"int f(void)\n{{\n{indent}return 1;\n}}\n")
            self.assertEqual(formatted.check_files(root, ["good.c"]), [])
            self.assertEqual(formatted.check_files(root, ["good.c", "bad.c"]), ["bad.c"])
            self.assertTrue(formatted.check_files(root, ["none.c"]))


class Files(unittest.TestCase):
    def test_new_files_count_and_ignored_ones_do_not(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            subprocess.run(["git", "init", "-q", folder], check=True)
            (root / ".gitignore").write_text("/build/\n")
            for name in ("a.c", "build/b.c", "runtime/c.c"):
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text("")
            self.assertEqual(csource.project_files(root), [".gitignore", "a.c", "runtime/c.c"])
            self.assertEqual(csource.c_files(root, "runtime"), ["runtime/c.c"])

    def test_without_git_the_build_folder_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name in ("runtime/c.c", "build/b.c"):
                (root / name).parent.mkdir()
                (root / name).write_text("")
            self.assertEqual(csource.project_files(root), ["runtime/c.c"])


if __name__ == "__main__":
    unittest.main()
