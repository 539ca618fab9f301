#!/usr/bin/env python3
"""Keeps `tessera serve` under load for a long time and looks whether memory and times stay as they are.

    bench/serve/soak.py TESSERA [--seconds 3600] [--share 0.8] [--windows 20] [--times] [--json]

h2load asks over HTTP and over gRPC at once. What each alone reaches is measured first; then both run at half of
--share of that. In every window a model is unloaded and loaded again, a request fails, and the metrics are read.
Ends with 1 if a request failed that should not, or memory, threads or open files grew; with --times also if the
99th percentile of the second half is more than three times that of the first (the machine may have other work).
Ends with 2 where h2load is not installed (scripts/install_packages.sh load).
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
import models  # noqa: E402
import serve_bench  # noqa: E402

GRPC_PATH = "/inference.GRPCInferenceService/ModelInfer"
CLIENTS = {"http": 4, "grpc": 2}
# The system's allocator keeps what it has; what it takes in the first windows is not a leak.
GROWTH_ALLOWED = 0.03
GROWTH_ALLOWED_BYTES = 4 << 20


class Load:
    """h2load over one of the two, whose answers are read as they come."""

    def __init__(self, kind, server, folder, seconds, per_second=None):
        self.times = []  # microseconds, since they were last taken
        self.failures = 0
        self.requests = 0
        self.lock = threading.Lock()
        pipe = folder / f"{kind}.log"
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        command = ["h2load", "-D", str(seconds), "-c", str(CLIENTS[kind]), "-t", "1", f"--log-file={pipe}"]
        if per_second is not None:
            command.append(f"--rps={max(1, round(per_second / CLIENTS[kind]))}")
        if kind == "http":
            (folder / "http.body").write_text(serve_bench.SMALL)
            command += ["--h1", "-m", "1", "-d", folder / "http.body", server.http + "/v2/models/zero/infer"]
        else:
            (folder / "grpc.body").write_bytes(serve_bench.grpc_message())
            command += ["-m", "8", "-d", folder / "grpc.body", "-H", "content-type: application/grpc",
                        "-H", "te: trailers", f"http://{server.grpc}{GRPC_PATH}"]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.thread = threading.Thread(target=self.read, args=(pipe,))
        self.thread.start()

    def read(self, pipe):
        with open(pipe, encoding="ascii") as lines:
            for line in lines:
                _, status, took = line.split("\t")[:3]
                with self.lock:
                    self.requests += 1
                    self.times.append(int(took))
                    self.failures += status != "200"

    def take(self):
        with self.lock:
            times, self.times = self.times, []
        return sorted(times)

    def end(self):
        self.process.wait()
        self.thread.join()


def memory_of(process):
    text = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    fields = dict(line.split(":") for line in text.splitlines()[1:])
    # What only this process has: shared libraries come and go with others.
    return sum(int(fields[name].split()[0]) for name in ("Private_Dirty", "Private_Clean")) * 1024


def look(server):
    process = server.process.pid
    return {"memory_bytes": memory_of(process),
            "threads": len(os.listdir(f"/proc/{process}/task")),
            "files": len(os.listdir(f"/proc/{process}/fd"))}


def ask(url, body=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def disturb(server):
    """What a service sees besides requests that go well."""
    assert ask(server.http + "/v2/models/zero/infer", b"{")[0] == 400
    assert ask(server.http + "/v2/repository/models/long/unload", b"")[0] == 200
    assert ask(server.http + "/v2/models/long/infer", b"{}")[0] == 404
    assert ask(server.http + "/v2/repository/models/long/load", b"")[0] == 200
    assert b"pending" in ask(server.http + "/metrics")[1]


def percentile(times, share):
    return times[min(len(times) - 1, int(share * len(times)))] if times else None


def answered(server):
    return serve_bench.statistics(server, "zero")["success"]["count"]


def measure(server, folder, arguments):
    capacity = {}
    for kind in CLIENTS:
        alone = Load(kind, server, folder, arguments.warm_up)
        alone.end()
        capacity[kind] = alone.requests / arguments.warm_up
    before = answered(server)
    loads = {kind: Load(kind, server, folder, arguments.seconds, capacity[kind] * arguments.share / 2)
             for kind in CLIENTS}
    windows, begin = [], time.monotonic()
    for number in range(arguments.windows):
        left = begin + arguments.seconds * (number + 1) / arguments.windows - time.monotonic()
        disturb(server)
        time.sleep(max(0.0, left))
        row = {"second": round(time.monotonic() - begin, 1), **look(server)}
        for kind, load in loads.items():
            times = load.take()
            row[kind] = {"requests": len(times), "p50_us": percentile(times, 0.5), "p99_us": percentile(times, 0.99)}
        windows.append(row)
    for load in loads.values():
        load.end()
    sent = sum(load.requests for load in loads.values())
    # gRPC says in a trailer whether it went well, which h2load does not read.
    failed = max(sum(load.failures for load in loads.values()), sent - (answered(server) - before))
    return {"capacity_per_second": capacity, "requests": sent, "failed": failed, "windows": windows}


def growth(windows, key):
    """From the end of the first third to the end."""
    return windows[-1][key] - windows[len(windows) // 3][key]


def memory_growth(windows):
    """Without the largest step: when a model is loaded by two threads at once for the first time, the allocator
    takes another arena, of some megabytes, which stays. What leaks does so in every window."""
    behind = [row["memory_bytes"] for row in windows[len(windows) // 3:]]
    steps = [after - before for before, after in zip(behind, behind[1:])]
    return sum(steps) - max([0, *steps])


def judge(result, arguments):
    windows, wrong = result["windows"], []
    if result["failed"]:
        wrong.append(f"{result['failed']} of {result['requests']} requests failed")
    allowed = max(GROWTH_ALLOWED * windows[-1]["memory_bytes"], GROWTH_ALLOWED_BYTES)
    result["memory_growth_bytes"] = memory_growth(windows)
    if result["memory_growth_bytes"] > allowed:
        wrong.append(f"memory grew by {result['memory_growth_bytes']} bytes; allowed {allowed:.0f}")
    # A connection of this script or a thread that just ends may be among them.
    for key in ("threads", "files"):
        if growth(windows, key) > 3:
            wrong.append(f"{key} grew by {growth(windows, key)}")
    result["p99_second_half_over_first"] = {}
    for kind in CLIENTS:
        tails = [row[kind]["p99_us"] for row in windows[1:] if row[kind]["p99_us"] is not None]
        half = len(tails) // 2
        if half == 0:
            wrong.append(f"no requests over {kind}")
            continue
        ratio = statistics.median(tails[half:]) / statistics.median(tails[:half])
        result["p99_second_half_over_first"][kind] = round(ratio, 3)
        if arguments.times and ratio > 3:
            wrong.append(f"{kind}: the 99th percentile of the second half is {ratio:.2f} times that of the first")
    result["wrong"] = wrong


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tessera")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--warm-up", type=int, default=3, help="seconds in which each alone is measured")
    parser.add_argument("--share", type=float, default=0.8)
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if shutil.which("h2load") is None:
        print("h2load is not installed; scripts/install_packages.sh load installs it")
        sys.exit(2)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models.write_repository(folder / "models")
        with serve_bench.Server(arguments.tessera, str(folder / "models")) as server:
            result = measure(server, folder, arguments)
    judge(result, arguments)
    result = {"seconds": arguments.seconds, "share": arguments.share, "load": os.getloadavg()[0], **result}
    if arguments.json:
        print(json.dumps(result))
    else:
        for row in result["windows"]:
            print(f"{row['second']:8.1f} s  {row['memory_bytes'] / 1e6:7.2f} MB  {row['threads']:3} threads  "
                  f"{row['files']:3} files" +
                  "".join(f"   {kind} {row[kind]['requests']:8} p50 {row[kind]['p50_us']} p99 {row[kind]['p99_us']} us"
                          for kind in CLIENTS))
        for key in ("capacity_per_second", "requests", "failed", "memory_growth_bytes", "p99_second_half_over_first"):
            print(f"{key}: {result[key]}")
        for text in result["wrong"]:
            print(f"wrong: {text}")
    sys.exit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()
