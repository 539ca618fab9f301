#!/usr/bin/env python3
"""Runs the examples of the README and the pages of docs/, and compares what is printed with what they state.

    run_examples.py SOURCE_FOLDER BUILD_FOLDER WORK_FOLDER [--long] [--write] [--share NUMBER/OF] [PART OF A PLACE]

examples.py defines what is done with each block; a block that it does not list fails. A block whose needs are
not met (a model that cannot be fetched, a program that was not built) is skipped, with the reason. --long runs
the examples that take minutes, and no others; some of them have a smaller form for every day. --write puts what is
printed into the pages, for you to read and to judge. --share 2/3 runs the second of three parts, which may run at
once. Prints one line per block, with the processor seconds that it took; status 1 where one fails.
"""
import argparse
import contextlib
import fcntl
import math
import os
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path

from examples import BLOCKS, Architecture, Code, Excerpt, Firmware, NotRun, Shell
from pages import blocks_of, commands_of, comparable, difference, mended, normal



def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folders", nargs=3, type=lambda text: Path(text).resolve())
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--share", default=(1, 1), type=lambda text: tuple(int(number) for number in text.split("/")))
    return parser.parse_args()


ARGUMENTS = arguments()
SOURCE, BUILD, WORK = ARGUMENTS.folders
PATIENCE = 900  # seconds per command; each takes a small part of them
RELU = Path("/usr/share/libonnx-testdata/data/node/test_relu/model.onnx")


class Skipped(Exception):
    pass


class Failed(Exception):
    pass


def run(command, folder, environment=None):
    """Status, and both outputs in one text. What the command leaves in the background ends with it."""
    with tempfile.TemporaryFile() as output:
        shell = subprocess.Popen(["stdbuf", "-oL", "bash", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                                 stderr=subprocess.STDOUT, env={**os.environ, "TERM": "dumb", **(environment or {})},
                                 start_new_session=True)
        try:
            status = shell.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            status = None  # and what it has printed until then
        finally:
            end_group(shell.pid)
            shell.wait()
        output.seek(0)
        return status, output.read().decode(errors="replace")


def end_group(group):
    """Asks its processes to end, and ends those that have not after ten seconds."""
    try:
        os.killpg(group, signal.SIGTERM)
        for _ in range(100):
            time.sleep(0.1)
            os.killpg(group, 0)
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass  # none is left


def fetched(script):
    status, text = run(f"{SOURCE}/scripts/{script} 2>/dev/null", SOURCE)
    if status != 0:
        raise Skipped(f"scripts/{script} cannot fetch")
    return Path(text.strip().split("\n")[-1])


def built(path):
    if not (BUILD / path).exists():
        raise Skipped(f"{path} was not built")


def module(name, path=None):
    status, _ = run(f"{sys.executable} -c 'import {name}'", SOURCE, {"PYTHONPATH": str(path)} if path else None)
    if status != 0:
        raise Skipped(f"{sys.executable} has no module {name}")


def link_models(folder):
    for model in fetched("fetch_ocr_models.sh").glob("*.onnx"):
        (folder / model.name).symlink_to(model)


def stored_models(folder):
    """Links the stored models as `stored`: the folder that the build was configured with."""
    found = re.search(r"^TESSERA_TEST_DATA:\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    if not found or not (Path(found[1]) / "models").is_dir():
        raise Skipped("the stored models are not here")
    (folder / "stored").symlink_to(Path(found[1]).resolve())


def python_package(_):
    module("numpy")
    module("tessera", BUILD / "python")


def etcd(_):
    for program in ("etcd", "etcdctl"):
        if shutil.which(program) is None:
            raise Skipped(f"there is no {program}")


NEEDS = {
    "etcd": etcd,
    "ocr": lambda _: built("examples/ocr/ocr"),
    "speech": lambda _: built("examples/speech/speech"),
    "chat": lambda _: built("examples/chat/chat"),
    "chat_model": lambda _: fetched("fetch_chat_model.sh"),
    "derived_size": lambda _: built("tests/derived/derived_size"),
    "stored_models": stored_models,
    "ocr_models": link_models,
    "vad_model": lambda _: fetched("fetch_vad_model.sh"),
    "python": python_package,
    "torch": lambda _: module("torch"),
    "pip": lambda _: [module(name) for name in ("pip", "setuptools", "wheel", "venv", "ensurepip")],
}


def write_tone(path):
    """Two seconds of a tone, as the speech program takes recordings."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(0.2 * i))) for i in range(32000)))


def scratch(name):
    """A folder that looks like a clone of the repository after `make`, with a model of the reader's own."""
    folder = WORK / re.sub(r"[^A-Za-z0-9]+", "_", name)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "build").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "build/release").symlink_to(BUILD)
    for part in ("examples", "scripts", "arch", "tests"):
        (folder / part).symlink_to(SOURCE / part)
    (folder / "bin/tessera").symlink_to(BUILD / "src/tools/tessera")
    (folder / "bin/python3").symlink_to(sys.executable)
    module("numpy")
    sys.path.insert(0, str(SOURCE / "tests/python"))
    import models  # pylint: disable=import-outside-toplevel,import-error
    models.write(folder / "model.onnx", [1, 3, 48, 320], [(8, 2), (8, 2)])
    shutil.copy(RELU, folder / "relu.onnx")
    write_tone(folder / "tone.wav")
    return folder


def environment_of(folder):
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": f"{BUILD / 'python'}:{SOURCE / 'tests/python'}"}


def changed(command, example):
    """As the test runs it; None where it does not."""
    for begin, reason in example.leave_out.items():
        if command.startswith(begin):
            print(f"          not run: {command.split('  ')[0]} ({reason})")
            return None
    for begin, (old, new) in example.replace.items():
        if command.startswith(begin):
            if old not in command:
                raise Failed(f"'{command}' has no '{old}'")
            return command.replace(old, new, 1)
    return command


def write(block, stated, lines):
    """Puts `lines` in the place of the stated ones, in the page and in the block."""
    path = SOURCE / block.page
    text = block.text.replace("\n".join(stated), "\n".join(lines), 1)
    content = path.read_text()
    if content.count(block.text) != 1:
        raise Failed("the block is twice in its page; write its output by hand")
    path.write_text(content.replace(block.text, text))
    block.text = text
    print(f"WRITTEN   {block.place}", flush=True)


@contextlib.contextmanager
def alone_with(script):
    """No other run of this program is in here with the same script."""
    if not script:
        yield
        return
    with open(SOURCE / script, encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_shell(block, example, folder):
    environment = environment_of(folder)
    commands = [(example.command, block.text.split("\n"))] if example.command else commands_of(block.text)
    # Variables of one line are there in the next: all run in one shell, and a mark ends each output.
    script, checks = [f"{{ {example.setup}\n}} >setup.log 2>&1 || exit 1"] if example.setup else [], []
    for command, stated in commands:
        command = changed(command, example)
        if command is None:
            continue
        script.append(f"{{\n{command}\n}} 2>&1; status=$?; echo; echo \"=== $status\"")
        checks.append((command, stated))
    with alone_with(example.alone):
        status, text = run("\n".join(script), folder, environment)
    parts = re.split(r"^=== (\d+)\n", text, flags=re.M)
    if len(parts) != 2 * len(checks) + 1:
        raise Failed(f"the commands did not come to their end, status {status}:\n{text}")
    for index, (command, stated) in enumerate(checks):
        printed, ended = parts[2 * index].split("\n"), int(parts[2 * index + 1])
        wanted = example.status if index + 1 == len(checks) else 0
        if ended != wanted:
            raise Failed(f"'{command}' ended with status {ended}, not {wanted}:\n{parts[2 * index]}")
        if stated is None or not any(normal(line) for line in stated):
            continue
        found = difference(*(comparable(lines, example.varying, example.optional) for lines in (stated, printed)))
        if found and ARGUMENTS.write:
            seen = [line for line in printed if comparable([line], optional=example.optional)]
            write(block, stated, mended(stated, seen, lambda line: comparable([line], example.varying)[0]))
        elif found:
            raise Failed(f"'{command}': {found}; all that is printed:\n{parts[2 * index]}")


def wrapped(block, example):
    """(file name, program) around a piece of one."""
    text = block.text
    for old, new in example.replace.items():
        if old not in text.split("\n"):
            raise Failed(f"the block has no line '{old}'")
        text = "\n".join(new if line == old else line for line in text.split("\n"))
    if block.info == "python":
        return "example.py", "\n".join([example.before, text, example.end, ""])
    includes = [line for line in text.split("\n") if line.startswith("#include")]
    lines = [line for line in text.split("\n") if not line.startswith("#include")]
    # Functions stand before the one that holds the rest.
    functions = lines[:lines.index("}") + 1] if lines[0].startswith("static ") else []
    statements = lines[len(functions):]
    head = "#include <tessera/tessera.h>" if block.info == "cpp" else ""
    main = "int main() {" if block.info == "cpp" else "int main(void) {"
    return (f"example.{'cc' if block.info == 'cpp' else 'c'}",
            "\n".join([head, *includes, example.before, *functions, main, example.begin, *statements, example.end,
                       "return 0;", "}", ""]))


def run_code(block, example, folder):
    name, program = wrapped(block, example)
    (folder / name).write_text(program)
    compiler = {"example.cc": "${CXX:-g++} -std=c++20", "example.c": "${CC:-gcc} -std=c11"}.get(name)
    command = f"python3 -B {name}" if compiler is None else (
        f"{compiler} -Wall -Wextra -Werror -Wno-unused {name} -I {shlex.quote(str(SOURCE / 'include'))} "
        f"-L {shlex.quote(str(BUILD))} -ltessera -Wl,-rpath,{shlex.quote(str(BUILD))} -o example && ./example")
    if compiler is not None:
        built("libtessera.so")
    if example.setup:
        command = f"{example.setup} && {command}"
    status, text = run(command, folder, environment_of(folder))
    if status != 0:
        raise Failed(f"{name} ends with status {status}:\n{text}")


def check_excerpt(block, example, _):
    def lines_in(text):
        stripped = [normal(re.sub(example.ignoring, "", line) if example.ignoring else line) for line in text.split("\n")]
        return [line for line in stripped if line]
    source = (SOURCE / example.file).read_text()
    if example.quoted:  # a text in a C++ program, one literal per line
        source = "\n".join(re.findall(r'^\s*"(.*)\\n"', source, flags=re.M)).replace('\\"', '"')
    lines = iter(lines_in(source))
    for wanted in lines_in(block.text):
        if wanted not in lines:
            raise Failed(f"'{wanted}' is not in {example.file}, or in another place")


def run_firmware(block, example, folder):
    for name, content in example.files.items():
        (folder / name).write_bytes(content)
    (folder / "example.tasm").write_text(block.text + "\n")
    status, text = run("tessera asm example.tasm -o example.tprog", folder, environment_of(folder))
    if status != 0:
        raise Failed(text)


def run_architecture(block, _, folder):
    (folder / "example.toml").write_text(block.text + "\n")
    status, text = run("tessera run model.onnx --arch example.toml --input random:1", folder, environment_of(folder))
    if status != 0:
        raise Failed(text)


RUNNERS = {Shell: run_shell, Code: run_code, Excerpt: check_excerpt, Firmware: run_firmware,
           Architecture: run_architecture}


def check(block, example):
    if example is None:
        raise Failed(f"tests/docs/examples.py does not list this block; its first line is '{block.first}'")
    if isinstance(example, NotRun):
        return f"not run: {example.reason}"
    long, everyday = getattr(example, "long", ""), getattr(example, "everyday", None)
    if not ARGUMENTS.long and everyday:
        example = everyday
    elif bool(long) != ARGUMENTS.long:
        return f"not run: {f'takes {long}; `make test-long` runs it' if long else 'not a long example'}"
    folder = scratch(block.place)
    for need in getattr(example, "needs", ()):
        NEEDS[need](folder)
    RUNNERS[type(example)](block, example, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return ""


def check_headers():
    """What the heads of the public headers show is what a page shows, where it is compiled."""
    page = [normal(line.split("//")[0]) for line in (SOURCE / "docs/runtime.md").read_text().split("\n")]
    wrong = []
    for header in sorted((SOURCE / "include/tessera").glob("*.h")):
        for line in re.findall(r"^//   (auto .*;)", header.read_text(), flags=re.M):
            if normal(line) not in page:
                wrong.append(f"{header.name} shows '{normal(line)}', docs/runtime.md does not")
    return wrong


def pages():
    found = [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md")), *sorted((SOURCE / "examples").rglob("*.md"))]
    return [str(path.relative_to(SOURCE)) for path in found]


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    counts = {"ok": 0, "not run": 0, "skipped": 0, "FAILED": 0}
    share, number = ARGUMENTS.share, 0
    for page in pages():
        known = dict(BLOCKS.get(page, {}))
        for block in blocks_of(page, (SOURCE / page).read_text()):
            example = known.pop(block.first, None)
            number += 0 if isinstance(example, (NotRun, Excerpt)) else 1
            if ARGUMENTS.part not in block.place or number % share[1] != share[0] % share[1]:
                continue
            began = processor_seconds()
            try:
                note = check(block, example)
                result = "not run" if note else "ok"
            except Skipped as skipped:
                result, note = "skipped", str(skipped)
            except Failed as failed:
                result, note = "FAILED", str(failed)
            counts[result] += 1
            note = note.removeprefix("not run: ")
            print(f"{result:8}  {processor_seconds() - began:6.1f} s  {block.place}  "
                  f"{block.first[:50]}{': ' + note if note else ''}", flush=True)
        for first in known:
            counts["FAILED"] += 1
            print(f"FAILED    {page}: examples.py has a block '{first}', the page has none", flush=True)
    for wrong in check_headers():
        counts["FAILED"] += 1
        print(f"FAILED    {wrong}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
