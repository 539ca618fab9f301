#!/usr/bin/env python3
"""Writes the API reference of the public headers with Doxygen, and holds them to being described.

    scripts/api_reference.py [OUTPUT_FOLDER]      build/api; the pages lie in its folder html

Status 1 where Doxygen finds a comment wrong, or a public type, function, alias or macro has none. What may go
without: data members and enumerators whose names say it, constructors, destructors, assignments and
comparisons, what is between the parts of the library (`state`), and the release functions of C, which the
head of tessera_c.h describes together.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
WARNING = re.compile(r"(?P<place>[^:]+:\d+): (?:warning|error): (?P<text>.*)")
UNDESCRIBED = re.compile(r"Member (?P<member>.*) \((?P<kind>[\w ]+)\) of (?P<of>.*) is not documented\.")
OBVIOUS = re.compile(r"ok|value|error|result|operator.*|state|tessera_\w+_release|TESSERA_(?:CONCAT|CONCAT_INNER|TRY_INNER)")


def may_go_without(text):
    """Whether a warning is about something that needs no comment."""
    found = UNDESCRIBED.fullmatch(text)
    if not found:
        return False
    if found["kind"] in {"variable", "enumvalue", "friend"}:
        return True
    name = found["member"].split("(")[0].strip()
    owner = re.sub(r"<.*", "", found["of"]).strip().split(" ")[-1].split("::")[-1]
    return name in {owner, "~" + owner} or OBVIOUS.fullmatch(name) is not None


def version():
    return re.search(r"project\(tessera VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def run_doxygen(output):
    output.mkdir(parents=True, exist_ok=True)
    log = output / "warnings"
    log.unlink(missing_ok=True)
    settings = (ROOT / "docs/api/Doxyfile").read_text() + (
        f"OUTPUT_DIRECTORY = \"{output}\"\nPROJECT_NUMBER = {version()}\nWARN_LOGFILE = \"{log}\"\n")
    subprocess.run(["doxygen", "-"], input=settings, text=True, cwd=ROOT, check=True)
    return log.read_text().splitlines()


def main():
    if shutil.which("doxygen") is None:
        print("doxygen is not installed; scripts/install_packages.sh check installs it", file=sys.stderr)
        return 1
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/api").resolve()
    wrong = []
    for line in run_doxygen(output):
        found = WARNING.fullmatch(line)
        if not found or not may_go_without(found["text"]):
            wrong.append(line.replace(f"{ROOT}/", ""))
    print("\n".join(wrong + [f"{output}/html/index.html: {len(wrong)} errors"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
