#!/usr/bin/env python3
"""pages.py: how blocks are found and outputs compared."""
import unittest

from pages import blocks_of, commands_of, comparable, difference, mended


class Blocks(unittest.TestCase):
    def test_blocks_have_place_kind_and_text(self):
        [first, second] = blocks_of("p.md", "a\n```sh\nls\n\nps\n```\nb\n```\nx\n```\n")
        self.assertEqual((first.place, first.info, first.text, first.first), ("p.md:2", "sh", "ls\n\nps", "ls"))
        self.assertEqual((second.place, second.info), ("p.md:8", ""))

    def test_a_block_without_an_end_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "p.md:1: a block without an end"):
            blocks_of("p.md", "```\nx\n")


class Commands(unittest.TestCase):
    def test_outputs_follow_their_commands(self):
        self.assertEqual(commands_of("$ a\n1\n\n$ b \\\n  c\n"), [("a", ["1", ""]), ("b c", [""])])

    def test_without_a_prompt_each_line_is_a_command(self):
        self.assertEqual(commands_of("# why\na   # b\n\nc\n"), [("a   # b", None), ("c", None)])


class Differences(unittest.TestCase):
    def test_white_space_counts_as_one_blank(self):
        self.assertIsNone(difference(["a  b", "", "c"], ["a b ", "c"]))

    def test_a_number_that_differs_is_reported(self):
        self.assertEqual(difference(["3,172 nodes"], ["3,122 nodes"]),
                         "the page states '3,172 nodes', printed is '3,122 nodes'")

    def test_dots_stand_for_text_in_a_line_and_for_lines(self):
        self.assertIsNone(difference(["took ... ms, 5 runs", "...", "end"], ["took 7.25 ms, 5 runs", "x", "end"]))
        self.assertIsNone(difference(["a", "..."], ["a"]))
        self.assertIsNotNone(difference(["took ... ms, 5 runs"], ["took 7.25 ms, 6 runs"]))

    def test_only_what_varies_is_masked(self):
        page, printed = ["12 tasks in 3.5 s", "note: busy"], ["12  tasks in 4.0 s", "note: idle", "late"]
        masks = {"varying": (r"[\d.]+ s",), "optional": (r"note: .*", "late")}
        self.assertIsNone(difference(comparable(page, **masks), comparable(printed, **masks)))
        self.assertEqual(difference(comparable(page, **masks), comparable(["13 tasks in 3.5 s"], **masks)),
                         "the page states '12 tasks in *', printed is '13 tasks in *'")

    def test_missing_and_unexpected_lines_are_reported(self):
        self.assertEqual(difference(["a", "b"], ["a"]), "the page states 'b', which is not printed")
        self.assertEqual(difference(["a"], ["a", "b"]), "the page does not state 'b'")

    def test_a_page_is_mended_with_what_is_printed(self):
        page = ["run 1:  12 cycles", "...", "took 3 ms ...", "old", "", "  end 7"]
        printed = ["run 1:  15 cycles", "x", "y", "took 3 ms 4", "new a", "  end   8", "more"]
        self.assertEqual(mended(page, printed),
                         ["run 1:  15 cycles", "...", "took 3 ms ...", "new a", "", "  end   8", "more"])
        self.assertIsNone(difference(mended(page, printed), printed))


if __name__ == "__main__":
    unittest.main()
