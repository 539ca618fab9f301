#!/usr/bin/env python3
"""Tests of what Doxygen is given of the headers (api_comments.py), and of what it may find (api_reference.py)."""
import unittest

from api_comments import of_blocks, of_lines
from api_reference import may_go_without


class Comments(unittest.TestCase):
    def test_above_and_behind_declarations_become_theirs(self):
        self.assertEqual(of_lines(["#pragma once", "// Of names.", "int f();  // one", "          // more"]),
                         ["#pragma once", "/// Of names.", "int f();  ///< one", "          ///< more"])

    def test_the_head_describes_the_file_and_pictures_stay(self):
        self.assertEqual(of_lines(["// What it is.", "//", "//   a ──► b", "#pragma once"]),
                         ["/// What it is.", "///", "///       a ──► b @file", "#pragma once"])

    def test_rules_and_ends_of_scopes_stay_comments(self):
        lines = ["int a;", "// --------------- tasks", "int f();", "}  // namespace tessera"]
        self.assertEqual(of_lines(lines), lines)

    def test_nothing_in_a_text_is_a_command(self):
        self.assertEqual(of_lines(["int a;", "// A Result<T> @ 50 %, `vector<T>`.", "int b;"])[1],
                         r"/// A Result\<T\> \@ 50 \%, `vector<T>`.")

    def test_blocks_of_c_likewise(self):
        self.assertEqual(of_blocks("/* Head.\n *\n * Text.  \"x\"\n */\nint a; /* one */\n/* NOLINTBEGIN */"),
                         "/** Head.\n\n- **Text.** \"x\" @file */\nint a; /**< one */\n/* NOLINTBEGIN */")


class Undescribed(unittest.TestCase):
    def test_types_and_functions_may_not_go_without(self):
        for text in ("Compound tessera::Tensor is not documented.",
                     "Member read_picture(const std::string &path) (function) of namespace tessera is not documented.",
                     "Member state_of() const (function) of class tessera::Job is not documented.",
                     "Unsupported xml/html tag <T> found"):
            self.assertFalse(may_go_without(text), text)

    def test_members_constructors_and_releases_may(self):
        for text in ("Member kernels (variable) of struct tessera::DeviceStatus is not documented.",
                     "Member Result(T value) (function) of class tessera::Result< T > is not documented.",
                     "Member operator*() & (function) of class tessera::Result is not documented.",
                     "Member tessera_job_release(tessera_job *job) (function) of file tessera_c.h is not documented."):
            self.assertTrue(may_go_without(text), text)


if __name__ == "__main__":
    unittest.main()
