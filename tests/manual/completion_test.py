#!/usr/bin/env python3
"""Every verb, option and stated value is completed by bash; zsh and fish complete some of each kind.

    completion_test.py TESSERA SHARE_FOLDER

The shells run in a pseudo terminal, where a line is typed with tabs; `tessera` is a function there that
shows what it is given. Shells that are not installed are named.
"""
import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from command_line import verbs_of

PROGRAM, SHARE = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
VERBS = verbs_of(PROGRAM)
BASH = SHARE / "bash-completion/completions/tessera"
ZSH = SHARE / "zsh/site-functions/_tessera"
FISH = SHARE / "fish/vendor_completions.d/tessera.fish"
PATIENCE = 30.0  # seconds


def bash_completes(*lines, folder="/"):
    """What bash completes behind each line of words, the last of them the beginning of a word."""
    script = f"source '{BASH}'\n"
    for words in lines:
        quoted = " ".join(f"'{word}'" for word in words)
        script += f"COMP_WORDS=(tessera {quoted}) COMP_CWORD={len(words)}; _tessera; echo \"${{COMPREPLY[*]}}\"\n"
    done = subprocess.run(["bash", "-uo", "pipefail", "-c", script], check=True, capture_output=True, text=True,
                          cwd=folder)
    assert done.stderr == "", done.stderr
    return [line.split() for line in done.stdout.split("\n")[:-1]]


class Bash(unittest.TestCase):
    def test_every_verb_and_every_option(self):
        names = [verb.name for verb in VERBS]
        self.assertEqual(bash_completes([""], ["-"]), [names, ["-h", "--help", "--version"]])
        found = bash_completes(*[[name, "-"] for name in names])
        for verb, words in zip(VERBS, found):
            self.assertEqual(words, [name for option in verb.options for name in option.names], verb.name)

    def test_every_stated_value_also_behind_an_equals_sign(self):
        stated = [(verb.name, option) for verb in VERBS for option in verb.options if option.choices]
        self.assertGreater(len(stated), 5)
        for verb, option in stated:
            name = option.names[-1]
            both = bash_completes([verb, name, ""], [verb, name, "="], [verb, name, "=", option.choices[0][:2]])
            self.assertEqual(both[:2], [option.choices, option.choices], (verb, name))
            self.assertIn(option.choices[0], both[2])

    def test_known_values_and_files(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "model.onnx").touch()
            found = bash_completes(["run", "--device", ""], ["run", "--arch", "tess"], ["run", "mo"],
                                   ["run", "model.onnx", "--trace", "m"], ["zoo", "res"], ["compare", "--a", "h"],
                                   ["run", "--cores", ""], ["run", "--shape", ""], ["run", "--format", "mxfp4"],
                                   folder=folder)
        self.assertEqual(found, [["sim", "host", "ref"], ["tessera128", "tessera128x4"], ["model.onnx"], ["model.onnx"],
                                 ["resnet18", "resnet50"], ["host"], [], [], ["mxfp4e2m1"]])


def typed(shell, arguments, setup, lines):
    """What an interactive shell says to the lines, each with an end of line behind it."""
    with tempfile.TemporaryDirectory() as folder:
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(folder)
            environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
            os.execve(shutil.which(shell), [shell, *arguments], environment)
        text = ""

        def wait_for(mark):
            nonlocal text
            end = time.monotonic() + PATIENCE
            while mark not in text and time.monotonic() < end:
                if select.select([terminal], [], [], 0.1)[0]:
                    try:
                        text += os.read(terminal, 65536).decode(errors="replace")
                    except OSError:
                        break
            assert mark in text, f"{shell} did not show {mark!r}: {text!r}"

        os.write(terminal, f"{setup}; echo rea''dy\n".encode())
        wait_for("ready")
        for number, line in enumerate(lines):
            os.write(terminal, line.encode())
            time.sleep(0.5)  # a tab and what follows it are not one paste
            os.write(terminal, f"; echo do''ne{number}\n".encode())
            wait_for(f"done{number}")
        os.write(terminal, b"exit\n")
        os.close(terminal)
        os.waitpid(child, 0)
        return text


class Typed(unittest.TestCase):
    LINES = ["tessera der\t", "tessera run --timi\t", "tessera bench --hando\t", "tessera derive --to pyt\t"]
    GIVEN = ["<derive>", "<run --timing-only>", "<bench --handover>", "<derive --to pytorch>"]

    def check(self, shell, arguments, setup):
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        text = typed(shell, arguments, setup, self.LINES)
        for given in self.GIVEN:
            self.assertIn(given, text, shell)

    def test_bash(self):
        self.check("bash", ["--norc", "--noprofile", "-i"], f"source '{BASH}'; tessera() {{ echo \"<$*>\"; }}")

    def test_zsh(self):
        self.check("zsh", ["-f", "-i"],
                   f"fpath=('{ZSH.parent}' $fpath); autoload -Uz compinit; compinit -u -D; tessera() {{ echo \"<$*>\"; }}")

    def test_fish(self):
        self.check("fish", ["--no-config", "-i"], f"source '{FISH}'; function tessera; echo \"<$argv>\"; end")


class Scripts(unittest.TestCase):
    def test_zsh_and_fish_have_every_verb_and_option(self):
        zsh, fish = ZSH.read_text(), FISH.read_text()
        for verb in VERBS:
            self.assertIn(f"'{verb.name}:", zsh)
            self.assertIn(f" -n __fish_use_subcommand -a {verb.name} -d ", fish)
            of_zsh = zsh.split(f"      {verb.name})\n", 1)[1].split(";;", 1)[0]
            of_fish = [line for line in fish.split("\n") if f"'__fish_seen_subcommand_from {verb.name}'" in line]
            for option in verb.options:
                for name in option.names:
                    self.assertRegex(of_zsh, rf"'\*?{name}[=+]?\[", verb.name)
                    flag = f" -l {name[2:]} " if name.startswith("--") else f" -s {name[1:]} "
                    self.assertTrue(any(flag in line for line in of_fish), (verb.name, name))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
