#!/usr/bin/env python3
"""Every verb and option is in the manual pages, and man, groff and mandoc have nothing to say of them.

    pages_test.py TESSERA SHARE_FOLDER
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from command_line import help_of, verbs_of

PROGRAM, SHARE = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
PAGES = SHARE / "man/man1"
VERBS = verbs_of(PROGRAM)


def printed(page):
    """The page as a reader sees it, without the marks of bold and underlined."""
    done = subprocess.run(["man", "--local-file", page], check=True, capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MAN_KEEP_FORMATTING": ""})
    return re.sub(r".\x08", "", done.stdout)


class Pages(unittest.TestCase):
    def needs(self, tool):
        if shutil.which(tool) is None:
            self.skipTest(f"{tool} is not installed")

    def test_each_verb_has_one_and_nothing_else_has(self):
        self.assertGreater(len(VERBS), 10)
        self.assertEqual({page.name for page in PAGES.iterdir()},
                         {"tessera.1", *(f"tessera-{verb.name}.1" for verb in VERBS)})

    def test_every_option_and_argument_is_there(self):
        for verb in VERBS:
            source = (PAGES / f"tessera-{verb.name}.1").read_text().replace("\\-", "-")
            for option in verb.options:
                for name in option.names:
                    self.assertIn(f"\\fB{name}\\fR", source, verb.name)
                for choice in option.choices:
                    self.assertIn(choice, source, verb.name)
            for argument in verb.arguments:
                self.assertIn(f"\\fI{argument}\\fR", source, verb.name)
            self.assertIn("tessera " + verb.name, source)

    def test_the_first_page_names_every_verb(self):
        source = (PAGES / "tessera.1").read_text().replace("\\-", "-")
        for verb in VERBS:
            self.assertIn(f"\\fB{verb.name}\\fR", source)
            self.assertIn(f".BR tessera-{verb.name} (1)", source)

    def test_man_shows_the_words_of_the_help(self):
        self.needs("man")
        text = " ".join(printed(PAGES / "tessera-run.1").split())
        self.assertIn("--require-full-offload a host step is an error", text)
        self.assertIn("--device TEXT sim, host, ref, or a processor of a cluster: cluster:HOST:PORT?cores=4. Default: sim.", text)
        self.assertIn("tessera run model.onnx --input x=photo.png", text)
        self.assertIn("architecture: a profile's name or a .toml file", text)
        words = help_of(PROGRAM, "run").split("\n")[0]
        self.assertIn(words[1:], text)

    def test_mandoc_has_no_warning(self):
        self.needs("mandoc")
        for page in PAGES.iterdir():
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], check=False,
                                  capture_output=True, text=True)
            # The same program has the same pages on every day.
            lines = [line for line in done.stdout.splitlines() if "missing date" not in line]
            self.assertEqual(lines, [], page.name)

    def test_groff_has_no_warning(self):
        self.needs("groff")
        for page in PAGES.iterdir():
            done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-z", page], check=True,
                                  capture_output=True, text=True)
            self.assertEqual(done.stderr, "", page.name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
