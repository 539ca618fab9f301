#!/usr/bin/env python3
"""Breaks each rule of check_rules.py once and expects its exact message."""
import pathlib
import tempfile
import unittest

import check_rules

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


if __name__ == "__main__":
    unittest.main()
