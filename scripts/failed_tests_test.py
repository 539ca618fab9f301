#!/usr/bin/env python3
"""Gives failed_tests.py one test of each kind and expects what it says."""
import unittest

import failed_tests


def case(name, status, inside=""):
    return f'<testcase name="{name}" status="{status}">{inside}</testcase>'


def summary(*cases):
    return failed_tests.summary("<testsuite>" + "".join(cases) + "</testsuite>")


class FailedTestsTest(unittest.TestCase):
    def test_one_of_each_kind(self):
        self.assertEqual(
            ["2 2 1", "broken", "    no output",
             "absent", "    was not built: Unable to find executable", "skipped: asks"],
            summary(case("a", "run"), case("b", "run"), case("broken", "fail", "<failure/>"),
                    case("absent", "notrun", '<skipped message="Unable to find executable"/>'),
                    case("asks", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>')))

    def test_the_places_come_before_the_last_lines(self):
        output = "\n".join(["first", "a.cc:3: Failure", "Expected: 1", "Which is: 2", "in b",
                            "[  FAILED  ] A.B (2 ms)", "last"])
        lines = summary(case("a", "fail", f"<system-out>{output}</system-out>"))
        self.assertEqual(["0 1 0", "a", "    [  FAILED  ] A.B (2 ms)", "    a.cc:3: Failure",
                          "    Expected: 1", "    Which is: 2", "    in b"], lines)

    def test_without_a_place_the_last_lines_tell(self):
        output = "\n".join(f"line {i}" for i in range(30))
        lines = summary(case("a", "fail", f"<system-out>{output}</system-out>"))
        self.assertEqual([f"    line {i}" for i in range(20, 30)], lines[2:])


if __name__ == "__main__":
    unittest.main()
