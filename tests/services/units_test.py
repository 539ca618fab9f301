#!/usr/bin/env python3
"""The units of systemd, the configuration files beside them, and what a service manager is told:

    units_test.py TESSERA UNITS_FOLDER CONFIG_FOLDER

Prints a line for each check; 77 and a reason where there is no systemd-analyze.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

TESSERA, UNITS, CONFIG = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
WAIT_S = 60
EXPOSURE_MAX = 20  # in tenths, as systemd-analyze counts: 2.0 is "OK", 10 "unsafe"
failed = 0


def check(what, ok, found=""):
    global failed
    print(f"{'ok    ' if ok else 'FAILED'} {what}{f': {found}' if found != '' and not ok else ''}", flush=True)
    failed += not ok


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=WAIT_S, check=False)


def verify(folder):
    """Each unit as it is installed, but for the place of the program."""
    for unit in sorted(UNITS.glob("*.service")):
        text = re.sub(r"^ExecStart=\S+", f"ExecStart={TESSERA}", unit.read_text(), flags=re.MULTILINE)
        copy = folder / unit.name
        copy.write_text(text)
        done = run("systemd-analyze", "verify", "--man=no", copy)
        check(f"{unit.name} verifies", done.returncode == 0 and done.stderr + done.stdout == "", done.stderr)
        done = run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", copy)
        check(f"{unit.name} is exposed {EXPOSURE_MAX / 10} at most", done.returncode == 0, done.stdout[-300:] + done.stderr)
    broken = folder / "broken.service"
    broken.write_text("[Service]\nExecStart=/nowhere/tessera serve\nRestrart=always\n")
    done = run("systemd-analyze", "verify", "--man=no", broken)
    check("a broken unit does not verify", done.returncode != 0 and "Restrart" in done.stderr, done.stderr)


def examples():
    for name in ("master", "node", "serve"):
        file = CONFIG / f"{name}.toml"
        done = run(TESSERA, name, "--config", file, "--print-config", "--json")
        settings = json.loads(done.stdout) if done.returncode == 0 else {}
        check(f"{file.name} is a configuration of {name}", done.returncode == 0, done.stderr)
        used = [line.split(" = ")[0] for line in file.read_text().splitlines() if " = " in line and not line.startswith("#")]
        check(f"all of {file.name} counts", used and all(settings[key]["from"].startswith("line ") for key in used), settings)
        unit = next(UNITS.glob(f"tessera-{name}.service")).read_text()
        check(f"the unit of {name} takes it", f"{name} --config /etc/tessera/{name}.toml" in unit)


def readiness(folder):
    """What `Type=notify` waits for, over a socket in the file system and over an abstract one."""
    models = folder / "models"
    models.mkdir()
    for name in (str(folder / "notify"), "@tessera-units-test-%d" % os.getpid()):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.settimeout(WAIT_S)
            manager.bind(name.replace("@", "\0"))
            service = subprocess.Popen([TESSERA, "serve", "--model-repository", models, "--http-port", "0"],
                                       env={**os.environ, "NOTIFY_SOCKET": name}, stdout=subprocess.PIPE)
            first = manager.recv(100)
            line = service.stdout.readline()
            service.send_signal(signal.SIGTERM)
            second = manager.recv(100)
            service.communicate(timeout=WAIT_S)
            check(f"serve says that it is ready, and that it stops ({name[0]})",
                  (first, second, service.returncode) == (b"READY=1", b"STOPPING=1", 0) and line.startswith(b"http://"), (first, second))


def main():
    if shutil.which("systemd-analyze") is None:
        print("skipped: there is no systemd-analyze (Debian: systemd)")
        return 77
    with tempfile.TemporaryDirectory(prefix="tessera-units-") as name:
        folder = pathlib.Path(name)
        verify(folder)
        examples()
        readiness(folder)
    return 1 if failed else 0


sys.exit(main())
