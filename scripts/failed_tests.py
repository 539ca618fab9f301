#!/usr/bin/env python3
"""Tells what failed in a ctest result file (--output-junit).

    scripts/failed_tests.py FILE

The first line is "PASSED FAILED SKIPPED"; then comes, for each test that failed, its name and the
lines of its output that say why, and one line with the names of those that were skipped. A program
that was not built failed; a test that asks to be skipped did not.
"""
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

LINES_MAX = 10
# A line that says where something went wrong, and how many lines after it belong to it.
PLACES = {": Failure": 3, "runtime error:": 0, "ERROR: AddressSanitizer": 3, "terminate called": 1}


def why(output):
    """The places that the output names, or its last lines."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    chosen = [line for line in lines if "[  FAILED  ]" in line and " ms)" in line][:LINES_MAX // 3]
    for i, line in enumerate(lines):
        for place, more in PLACES.items():
            if place in line:
                chosen += lines[i:i + 1 + more]
    return chosen[:LINES_MAX] or lines[-LINES_MAX:]


def summary(text):
    passed, failed, skipped = 0, [], []
    for case in ElementTree.fromstring(text).iter("testcase"):
        name, status = case.get("name"), case.get("status")
        reason = case.find("skipped")
        message = "" if reason is None else reason.get("message", "")
        if status == "fail" or case.find("failure") is not None:
            failed.append((name, why(case.findtext("system-out") or "") or ["no output"]))
        elif message.startswith("Unable"):
            failed.append((name, ["was not built: " + message]))
        elif reason is not None or status != "run":
            skipped.append(name)
        else:
            passed += 1
    lines = [f"{passed} {len(failed)} {len(skipped)}"]
    for name, reasons in failed:
        lines.append(name)
        lines += ["    " + reason[:160] for reason in reasons]
    if skipped:
        lines.append("skipped: " + ", ".join(skipped))
    return lines


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: scripts/failed_tests.py FILE")
    print("\n".join(summary(pathlib.Path(sys.argv[1]).read_text(errors="replace"))))
