#!/usr/bin/env python3
"""Runs the fuzz targets one after the other, and prints a row for each.

    scripts/fuzz.py [SECONDS] [TARGET ...]    SECONDS for each target (10); all targets
      --jobs N       targets that run at once (1)
      --seed N       of libFuzzer's random choices; 0: another one each time (0)
      --build DIR    where they are built (build/fuzz)
      --json         one JSON object in place of the table
      --keep         puts what was found, minimised, into fuzz/found (--merge of libFuzzer)

Each target begins with its seeds (fuzz/corpus), what was kept of earlier runs (fuzz/found), and what
the last runs of this build found (BUILD/fuzz/corpora). An input that ends the program, takes longer
than its limit, takes too much memory or loses some is a finding: it is kept in BUILD/fuzz/findings,
its name, the calls that led to it and its bytes are printed, and the exit status is 1. "edges" are
the branches that were taken of all in the program; "slowest" is the input that took longest, in
seconds.
"""
import argparse
import base64
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Seconds that a run gets, beyond its time, to read its corpus and to end.
SECONDS_TO_END = 240
KEPT_BYTES_MAX = 96 * 1024  # of one target
PRINTED_BYTES_MAX = 16 * 1024  # of a finding
# Where an output says why it ended, the one that says most first.
REASONS = (r"(.*broken invariant: .*)", r"(.*runtime error: .*)", r"SUMMARY: (.*)", r"ERROR: (.*)")
COLUMNS = ("target", "executions", "per_second", "edges", "edges_all", "corpus", "slowest_seconds",
           "verdict")


def target(path):
    """What a .target file of the build says: name, dictionary, folders of seeds."""
    name, dictionary, *corpora = path.read_text().splitlines()
    return {"name": name, "dictionary": dictionary, "corpora": corpora,
            "program": path.parent / f"{name}_fuzz"}


def last_number(pattern, text, otherwise=0):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else otherwise


def row_of(name, output, status):
    """The figures that libFuzzer printed, with the verdict: "ok", or what was found and where."""
    verdict = "ok"
    if status != 0:
        reasons = [found.group(1) for found in (re.search(where, output) for where in REASONS) if found]
        verdict = reasons[0] if reasons else f"status {status}"
        artefact = re.search(r"Test unit written to (\S+)", output)
        if artefact:
            verdict += f" [{artefact.group(1)}]"
    return {
        "target": name,
        "executions": last_number(r"stat::number_of_executed_units:\s+(\d+)", output,
                                  last_number(r"(?m)^#(\d+)\s", output)),
        "per_second": last_number(r"stat::average_exec_per_sec:\s+(\d+)", output),
        "edges": last_number(r"\bcov: (\d+)", output),
        "edges_all": last_number(r"\((\d+) inline 8-bit counters\)", output),
        "corpus": last_number(r"\bcorp: (\d+)/", output),
        "slowest_seconds": last_number(r"stat::slowest_unit_time_sec:\s+(\d+)", output),
        "verdict": verdict,
    }


def environment():
    """Undefined behaviour comes with its calls, and calls with names of functions and lines."""
    variables = dict(os.environ)
    symbolizer = shutil.which("llvm-symbolizer-19") or shutil.which("addr2line")
    options = ["print_stacktrace=1"] + ([f"external_symbolizer_path={symbolizer}"] if symbolizer else [])
    for name in ("UBSAN_OPTIONS", "ASAN_OPTIONS"):
        variables[name] = ":".join([*options, *variables.get(name, "").split(":")]).rstrip(":")
    return variables


def details(output):
    """What one needs to look into a finding elsewhere: the reason, the calls, the input in base 64."""
    wanted = re.compile("|".join(REASONS) + r"|\s*#\d+ |Base64: ")
    lines = [line for line in output.splitlines() if wanted.match(line)][-60:]
    artefact = re.search(r"Test unit written to (\S+)", output)
    # libFuzzer prints short ones itself.
    if artefact and not any(line.startswith("Base64: ") for line in lines):
        file = pathlib.Path(artefact.group(1))
        if file.is_file() and file.stat().st_size <= PRINTED_BYTES_MAX:
            lines.append("Base64: " + base64.b64encode(file.read_bytes()).decode())
    return lines


def run(what, seconds, build, seed):
    name = what["name"]
    found = build / "fuzz" / "corpora" / name
    findings = build / "fuzz" / "findings"
    found.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    command = [str(what["program"]), f"-max_total_time={seconds}", "-print_final_stats=1",
               f"-seed={seed}", f"-artifact_prefix={findings}/{name}-"]
    if what["dictionary"]:
        command.append(f"-dict={what['dictionary']}")
    command += [str(found), *what["corpora"]]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=seconds + SECONDS_TO_END, check=False, env=environment())
        output, status = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as expired:
        output, status = (expired.output or b"").decode(errors="replace"), "timeout"
    (build / "fuzz" / f"{name}.log").write_text(output)
    row = row_of(name, output, status)
    if row["verdict"] != "ok":
        print(*details(output), sep="\n", file=sys.stderr, flush=True)
    return row


def keep(what, build):
    """The fewest inputs that take all the branches known, beside the seeds, smallest first."""
    name = what["name"]
    kept = ROOT / "fuzz" / "found" / name
    chosen = build / "fuzz" / "minimised" / name
    if chosen.exists():
        for file in chosen.iterdir():
            file.unlink()
    chosen.mkdir(parents=True, exist_ok=True)
    sources = [build / "fuzz" / "corpora" / name, *what["corpora"]]
    subprocess.run([str(what["program"]), "-set_cover_merge=1", "-use_counters=0", str(chosen),
                    *[str(source) for source in sources]], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seeds = {file.read_bytes() for folder in what["corpora"] if pathlib.Path(folder) != kept
             for file in pathlib.Path(folder).iterdir() if file.is_file()}
    kept.mkdir(parents=True, exist_ok=True)
    for file in kept.iterdir():
        file.unlink()
    total = 0
    for file in sorted(chosen.iterdir(), key=lambda file: (file.stat().st_size, file.name)):
        contents = file.read_bytes()
        if contents in seeds or total + len(contents) > KEPT_BYTES_MAX:
            continue
        total += len(contents)
        (kept / file.name).write_bytes(contents)


def table(rows):
    lines = [("target", "executions", "a second", "edges", "of all", "corpus", "slowest",
              "verdict")]
    for row in rows:
        lines.append(tuple(str(row[column]) for column in COLUMNS))
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS) - 1)]
    text = ""
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:])]
        text += "  ".join([*cells, line[-1]]) + "\n"
    bad = sum(row["verdict"] != "ok" for row in rows)
    executions = sum(row["executions"] for row in rows)
    return text + f"{len(rows)} targets, {executions} executions, {bad} with findings\n"


def chosen_targets(build, names):
    found = {path.stem: target(path) for path in sorted((build / "fuzz").glob("*.target"))}
    if not found:
        sys.exit(f"no fuzz targets in {build}: cmake --preset fuzz, then build tessera_fuzz_programs")
    unknown = [name for name in names if name not in found]
    if unknown:
        sys.exit(f"no target {', '.join(unknown)}; there are: {', '.join(found)}")
    return [found[name] for name in names or found]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=int, nargs="?", default=10)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()

    def row(what):
        made = run(what, arguments.seconds, arguments.build, arguments.seed)
        if not arguments.json:
            print(f"{what['name']}: {made['verdict']}", file=sys.stderr, flush=True)
        if arguments.keep and made["verdict"] == "ok":
            keep(what, arguments.build)
        return made

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(row, chosen_targets(arguments.build, arguments.targets)))
    print(json.dumps({"targets": rows}, indent=1) if arguments.json else table(rows), end="")
    return 1 if any(row["verdict"] != "ok" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
