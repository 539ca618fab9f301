#!/usr/bin/env python3
"""Breaks each rule of check_rules.py once and expects its exact message."""
import pathlib
import tempfile
import unittest

import check_rules
import include_circles

PAGE = "| `src/base/` | errors |\n| `src/engines/` | engines |\n"
HEADER = "#pragma once\n"


def body(lines):
    return "".join(f"  step({i});\n" for i in range(lines))


class RulesTest(unittest.TestCase):
    def messages(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {"docs/architecture.md": PAGE, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check_rules.check(root)

    def test_a_clean_tree_has_no_message(self):
        self.assertEqual([], self.messages({
            "src/base/a.h": HEADER,
            "src/base/a.cc": '#include "base/a.h"\n',
            "src/base/CMakeLists.txt": "tessera_library(tessera_base SOURCES a.cc)\n",
        }))

    def test_a_file_may_have_1000_lines_and_no_more(self):
        self.assertEqual([], self.messages({"scripts/a.sh": "x\n" * 1000}))
        self.assertEqual(["scripts/a.sh:1: a file of 1001 lines, allowed 1000"],
                         self.messages({"scripts/a.sh": "x\n" * 1001}))

    def test_texts_that_are_embedded_or_shipped_are_sources_too(self):
        for name in ("src/base/a.cpp", "src/base/a.py", "src/base/a.cjs", "src/base/a.html",
                     "examples/a.tasm"):
            self.assertEqual([f"{name}:1: a file of 1001 lines, allowed 1000"],
                             self.messages({name: "x\n" * 1001}))
        text = "int f(int x) {\n%s}\n" % body(69)
        self.assertEqual(["src/base/a.cpp:1: a function of 71 lines, allowed 70"],
                         self.messages({"src/base/a.cpp": text}))

    def test_a_function_may_have_70_lines_and_no_more(self):
        text = HEADER + "namespace a {\nint f(int x) {\n%s}\n}\n"
        self.assertEqual([], self.messages({"src/base/a.h": text % body(68)}))
        self.assertEqual(["src/base/a.h:3: a function of 71 lines, allowed 70"],
                         self.messages({"src/base/a.h": text % body(69)}))

    def test_a_long_method_is_found_and_a_long_class_or_table_is_not(self):
        text = HEADER + "class A {\n public:\n  void f() const {\n%s  }\n};\n" % body(80)
        self.assertEqual(["src/base/a.h:4: a function of 82 lines, allowed 70"],
                         self.messages({"src/base/a.h": text}))
        table = HEADER + "struct A {\n%s};\nconstexpr A kA[] = {\n%s};\n" % (
            "  int f();\n" * 90, "    A{f(1)},\n" * 90)
        self.assertEqual([], self.messages({"src/base/a.h": table}))
        array = HEADER + "constexpr auto kA = to_array<A>({\n%s});\n" % ("    {f(1)},\n" * 90)
        self.assertEqual([], self.messages({"src/base/a.h": array}))

    def test_a_long_operator_is_a_function(self):
        text = HEADER + "bool operator==(A a, int b = 1) {\n%s}\n" % body(80)
        self.assertEqual(["src/base/a.h:2: a function of 82 lines, allowed 70"],
                         self.messages({"src/base/a.h": text}))

    def test_braces_in_text_and_comments_do_not_count(self):
        text = HEADER + 'void f() {\n  // {\n  g("{", \'{\', R"(})");\n}\n' + "int a;\n" * 90
        self.assertEqual([], self.messages({"src/base/a.h": text}))

    def test_folders_without_a_subject(self):
        self.assertEqual(
            ["tests/utils/a.h:1: a folder 'utils', allowed folders named after their subject"],
            self.messages({"tests/utils/a.h": HEADER}))

    def test_a_todo_carries_a_number(self):
        self.assertEqual([], self.messages({"scripts/a.sh": "# TODO(#12) more\n"}))
        self.assertEqual(["scripts/a.sh:2: TODO without a number, allowed TODO(#123)"],
                         self.messages({"scripts/a.sh": "\n# TODO more\n"}))

    def test_a_header_has_pragma_once(self):
        self.assertEqual([], self.messages({"src/base/a-inl.h": "int f();\n"}))
        self.assertEqual(["src/base/a.h:1: no #pragma once, required in each header"],
                         self.messages({"src/base/a.h": "int f();\n"}))

    def test_paths_of_one_machine(self):
        self.assertEqual(
            ["scripts/a.sh:1: the path /home/ada of one machine, allowed relative paths"],
            self.messages({"scripts/a.sh": "cd /home/ada/tessera\n"}))

    def test_a_public_header_includes_only_the_standard_library_and_its_like(self):
        self.assertEqual([], self.messages({
            "include/tessera/a.h": HEADER + "#include <vector>\n#include \"tessera/b.h\"\n"}))
        self.assertEqual(
            ["include/tessera/a.h:2: a public header includes fmt/format.h, allowed the standard "
             "library and tessera/"],
            self.messages({"include/tessera/a.h": HEADER + "#include <fmt/format.h>\n"}))

    def test_the_processor_never_includes_the_compiler(self):
        self.assertEqual(
            ["src/engines/a.h:2: src/engines includes graph/graph.h, allowed arch, arith, base, "
             "isa"],
            self.messages({"src/engines/a.h": HEADER + '#include "graph/graph.h"\n'}))

    def test_the_processor_is_never_linked_with_the_graph(self):
        self.assertEqual(
            ["src/engines/CMakeLists.txt:2: src/engines is linked with tessera_graph, allowed arch, "
             "arith, base, isa"],
            self.messages({"src/engines/CMakeLists.txt":
                           "# engines\ntessera_library(tessera_engines\n  SOURCES\n"
                           "  DEPENDS tessera_base tessera_graph\n  PRIVATE fmt::fmt)\n"}))

    def test_tests_of_the_processor_stand_on_nothing_more(self):
        self.assertEqual(
            ["src/engines/a_test.cc:1: src/engines includes graph/graph.h, allowed arch, arith, "
             "base, isa"],
            self.messages({"src/engines/a_test.cc": '#include "graph/graph.h"\n',
                           "src/engines/CMakeLists.txt": "tessera_test(t SOURCES a_test.cc)\n"}))

    def test_nothing_below_the_runtime_includes_an_applications_header(self):
        self.assertEqual(
            ["src/base/a.h:2: src/base includes tessera/session.h, which is for applications"],
            self.messages({"src/base/a.h": HEADER + '#include "tessera/session.h"\n'}))

    def test_each_folder_of_src_is_in_the_architecture_page(self):
        self.assertEqual(
            ["docs/architecture.md:1: src/new is not in the table of folders, add `src/new/`"],
            self.messages({"src/new/a.h": HEADER}))

    def test_each_source_is_named_in_a_list(self):
        self.assertEqual(["src/base/b.cc:1: a source that no list of CMake names"],
                         self.messages({
                             "src/base/ab.cc": "", "src/base/b.cc": "",
                             "src/base/CMakeLists.txt": "tessera_library(x SOURCES ab.cc)\n"}))

    def test_every_path_that_the_contributors_page_names_is_there(self):
        self.assertEqual([], self.messages({
            "CONTRIBUTING.md": "`scripts/`, `scripts/a.sh`, `scripts/NAME.sh`, [page](docs/"
                               "architecture.md), `make test`, `a.b`, `CHANGELOG.md`\n",
            "CHANGELOG.md": "",
            "scripts/a.sh": ""}))
        self.assertEqual(
            ["CONTRIBUTING.md:2: names docs/b.md, which is not in the tree",
             "CONTRIBUTING.md:2: names scripts/b.sh, which is not in the tree"],
            self.messages({"CONTRIBUTING.md": "\n`scripts/b.sh` and [b](docs/b.md)\n",
                           "scripts/a.sh": ""}))

    def test_comments_name_what_there_is(self):
        self.assertEqual([], self.messages({
            "include/tessera/a.h": HEADER + "// The kOne of b.h, see sum_of() and Table::rows.\n"
            "struct Table { int rows; };\nconstexpr int kOne = 1;\nint sum_of(int x);\n",
            "include/tessera/b.h": HEADER}))
        text = HEADER + "// First.\n// %s goes on.\nint kept();  // a word of English\n"
        for name in ("lost.h", "arith/lost.h", "lost_name", "LostName", "kLost", "Lost::name"):
            self.assertEqual(
                [f"include/tessera/a.h:3: a comment names {name}, allowed what the tree has"],
                self.messages({"include/tessera/a.h": text % name}))
        for found, name in (("lost()", "lost"), ("`lost`", "lost"), ("`lostName`", "lostName")):
            self.assertEqual(
                [f"include/tessera/a.h:3: a comment names {name}, allowed what the tree has"],
                self.messages({"include/tessera/a.h": text % found}))

    def test_a_python_file_says_what_there_is(self):
        self.assertEqual(
            ["scripts/a.py:3: a comment names lost_name, allowed what the tree has"],
            self.messages({"scripts/a.py": '"""Adds.\n\nAs lost_name does.\n"""\nx = """a b_c"""\n'}))

    def test_a_document_names_files_and_functions_that_there_are(self):
        self.assertEqual([], self.messages({"docs/a.md": "A word_of a name, `b`, architecture.md.\n"
                                            "```\nlost.h\n```\n"}))
        self.assertEqual(
            ["docs/a.md:2: a document names lost.h, allowed what the tree has",
             "docs/a.md:3: a document names lost, allowed what the tree has"],
            self.messages({"docs/a.md": "# A\n[it](lost.h)\nand lost()\n"}))


class CirclesTest(unittest.TestCase):
    """Small trees, each a circle that one rule of include_circles.py finds."""

    def found(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return [f"{p}:{n}: {m}" for p, n, m in include_circles.circles(
                root, sorted(pathlib.PurePosixPath(name) for name in files))]

    def test_files_that_depend_in_one_direction(self):
        self.assertEqual([], self.found({
            "src/a/x.h": "struct X {};\n", "src/a/x.cc": '#include "a/x.h"\n',
            "src/a/y.h": '#include "a/x.h"\nX make();\n',
            "src/a/y.cc": '#include "a/y.h"\n#include "a/x.h"\nX make() { return {}; }\n'}))

    def test_a_header_and_its_source_are_one(self):
        self.assertEqual(
            ["src/a/x.cc:2: a circle of files: src/a/x.cc:2 needs src/a/y.h, src/a/y.h:1 needs "
             "src/a/x.h, allowed one direction"],
            self.found({"src/a/x.h": "struct X {};\n",
                        "src/a/x.cc": '#include "a/x.h"\n#include "a/y.h"\n',
                        "src/a/y.h": '#include "a/x.h"\n'}))

    def test_the_shortest_circle_of_a_knot_is_told(self):
        found = self.found({"src/a/x.h": '#include "a/y.h"\n', "src/a/y.h": '#include "a/z.h"\n',
                            "src/a/z.h": '#include "a/x.h"\n#include "a/y.h"\n'})
        self.assertEqual(
            ["src/a/y.h:1: a circle of files: src/a/y.h:1 needs src/a/z.h, src/a/z.h:2 needs "
             "src/a/y.h (one of a knot of 3 files), allowed one direction"], found)

    def test_a_path_is_a_path_however_it_is_written(self):
        for back in ('"../a/x.h"', "<a/x.h>", '"x.h"'):
            self.assertEqual(1, len(self.found({"src/a/x.h": '#include "a/y.h"\n',
                                                "src/a/y.h": f"#  include {back}\n"})))

    def test_a_file_that_is_read_for_each_instruction_set(self):
        own = '#define HWY_TARGET_INCLUDE "a/x.cc"\n'
        self.assertEqual([], self.found({"src/a/x.h": "", "src/a/x.cc": '#include "a/x.h"\n' + own}))
        self.assertEqual(1, len(self.found({
            "src/a/x.h": "", "src/a/x.cc": '#define HWY_TARGET_INCLUDE "a/y-inl.h"\n',
            "src/a/y-inl.h": '#include "a/x.h"\n'})))

    def test_a_source_of_another_name_belongs_to_the_header_of_its_class(self):
        self.assertEqual(1, len(self.found({
            "src/a/x.h": "namespace a {\nclass X {\n public:\n  void f();\n};\n}\n",
            "src/a/other.cc": '#include "a/x.h"\n#include "a/y.h"\nnamespace a {\n'
                              "void X::f() {}\n}\n",
            "src/a/y.h": '#include "a/x.h"\n'})))

    LIST = "namespace a {\nint one(int x);\nint two();\n}\n"

    def kinds(self, one):
        return {"src/a/list.h": self.LIST,
                "src/a/one.cc": f'#include "a/list.h"\n{one[0]}namespace a {{\n'
                                f"int one(int x) {{ return {one[1]}; }}\n}}\n",
                "src/a/two.cc": '#include "a/list.h"\nnamespace a {\n'
                                "int two() { return one(1); }\n}\n"}

    def test_a_list_of_functions_is_no_circle_of_those_that_define_them(self):
        self.assertEqual([], self.found(self.kinds(("", "x"))))

    def test_functions_of_a_list_that_name_each_other_are_one(self):
        self.assertEqual(
            ["src/a/one.cc:1: a circle of files: src/a/one.cc:1 needs src/a/two.cc, "
             "src/a/two.cc:1 needs src/a/one.cc, allowed one direction"],
            self.found(self.kinds(("", "two()"))))

    def test_a_list_hides_nothing_behind_another_header(self):
        files = self.kinds(('#include "a/user.h"\n', "use()"))
        files["src/a/through.h"] = '#include "a/list.h"\n'
        files["src/a/user.h"] = "int use();\n"
        files["src/a/user.cc"] = '#include "a/user.h"\n#include "a/through.h"\n' \
                                 "int use() { return a::one(1); }\n"
        self.assertEqual(1, len(self.found(files)))
        files["src/a/user.cc"] = '#include "a/user.h"\n#include "a/through.h"\n' \
                                 "int use() { return b::one(1) + x.one(1); }\n"
        self.assertEqual([], self.found(files))

    def test_a_function_that_another_header_declares_is_seen(self):
        # x.h declares it, y.cc defines it; y needs z, and z names the function.
        files = {"src/a/x.h": "int f();\nint g();\n",
                 "src/a/x.cc": '#include "a/x.h"\nint g() { return 1; }\n',
                 "src/a/y.h": '#include "a/z.h"\n',
                 "src/a/y.cc": '#include "a/y.h"\n#include "a/x.h"\nint f() { return 1; }\n',
                 "src/a/z.h": "int h();\n",
                 "src/a/z.cc": '#include "a/z.h"\n#include "a/x.h"\nint h() { return f(); }\n'}
        self.assertEqual(1, len(self.found(files)))
        # An overload is another function.
        files["src/a/y.cc"] = '#include "a/y.h"\n#include "a/x.h"\nint f(int x) { return x; }\n'
        self.assertEqual([], self.found(files))

    def test_a_class_that_is_only_declared_is_a_dependency(self):
        for form in ("class X;", "struct X;", "template <typename T> class X;"):
            self.assertEqual(1, len(self.found({
                "src/a/x.h": '#include "a/y.h"\n' + form.replace(";", " {};") + "\n",
                "src/a/y.h": form + "\nvoid use(X& x);\n"})))
        self.assertEqual([], self.found({"include/tessera/y.h": "class X;\n",
                                         "src/a/x.h": '#include "tessera/y.h"\nclass X {};\n'}))

    def test_a_function_is_declared_where_it_is_defined_or_in_a_header(self):
        self.assertEqual(
            ["src/a/x.cc:2: a declaration of a::f, allowed the header that declares it"],
            self.found({"src/a/x.cc": "namespace a {\nint f(int x);\nint g() { return f(1); }\n}\n"}))
        self.assertEqual([], self.found({
            "src/a/x.cc": "namespace {\nint f(int x);\nint f(int x) { return x; }\n}\n"}))

    def test_no_include_is_hidden(self):
        self.assertEqual(["src/a/x.h:1: an include of a macro, allowed the file's name"],
                         self.found({"src/a/x.h": "#include OTHER\n"}))
        self.assertEqual(
            ["src/a/x.h:1: the product includes a/testing/y.h, which is the tests'"],
            self.found({"src/a/x.h": '#include "a/testing/y.h"\n',
                        "src/a/testing/y.h": '#include "a/x.h"\n'}))
        self.assertEqual([], self.found({"src/a/x.h": "",
                                         "src/a/testing/y.h": '#include "a/x.h"\n',
                                         "src/a/x_test.cc": '#include "a/testing/y.h"\n'}))


if __name__ == "__main__":
    unittest.main()
