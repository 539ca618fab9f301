#!/usr/bin/env python3
"""Loads `tessera serve` with programs that are not part of this project, and prints each figure beside its goal.

    bench/serve/serve_bench.py TESSERA [--seconds 5] [--json]
    bench/serve/serve_bench.py TESSERA --check     npm's gRPC client makes every call once; 2 where it cannot be had

HTTP by wrk and hey, gRPC by h2load and by npm's @grpc/grpc-js (`npm ci` in a cache outside the source tree). What is
not installed is named and left out; scripts/install_packages.sh load installs the first three. The figures depend on
the machine and on what else it does: its load is printed with them, and beside each of the service's figures stands
what the same client gets for a request that no model answers, in the same minute.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import urllib.request

sys.dont_write_bytecode = True
import models  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "src/serve/grpc/inference_service.proto"
CONNECTIONS = 32

SMALL = json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, -2, 3, 4]}]})
LONG_HEAD = json.dumps({
    "inputs": [{"name": "x", "shape": [1, 150000], "datatype": "FP32",
                "parameters": {"binary_data_size": 600000}}],
    "outputs": [{"name": "y", "parameters": {"binary_data": True}}]})


class Server:
    """`tessera serve` on free ports, until the end of a with statement."""

    def __init__(self, program, repository):
        self.process = subprocess.Popen(
            [program, "serve", "--model-repository", repository, "--http-port", "0", "--grpc-port", "0", "--json"],
            stdout=subprocess.PIPE, text=True)
        self.http = self.grpc = None
        ready = 0
        while ready < 2 or self.http is None:
            event = json.loads(self.process.stdout.readline())
            if event["event"] == "start":
                self.http, self.grpc = event["url"], event["grpc"]
            ready += ": ready" in event.get("text", "")

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def microseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def wrk(folder, url, body, seconds, connections, headers=(), method="POST"):
    script = folder / "request.lua"
    (folder / "body").write_bytes(body)
    script.write_text(f'local f = io.open("{folder}/body", "rb")\nwrk.method = "{method}"\nwrk.body = f:read("*a")\n' +
                      "".join(f'wrk.headers["{name}"] = "{value}"\n' for name, value in headers))
    text = run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency", "-s", script, url])
    if "Non-2xx" in text:
        raise RuntimeError(text)
    return {"per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]),
            "p50_us": microseconds(re.search(r"\n +50%\s+(\S+)", text)[1]),
            "requests": int(re.search(r"(\d+) requests in", text)[1])}


def hey(url, seconds):
    text = run(["hey", "-z", f"{seconds}s", "-c", str(CONNECTIONS), "-m", "POST", "-d", SMALL, url])
    if set(re.findall(r"\[(\d+)\]\s+\d+ responses", text)) != {"200"}:
        raise RuntimeError(text)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])


def grpc_message():
    """A ModelInferRequest of the model `zero` as gRPC frames it."""
    x = models.field(1, "x") + models.field(2, "FP32") + models.field(3, models.varint(1) + models.varint(4))
    message = (models.field(1, "zero") + models.field(5, x) +
               models.field(7, struct.pack("<4f", 1, -2, 3, 4)))
    return b"\0" + struct.pack(">I", len(message)) + message


def h2load(folder, address, seconds, call="ModelInfer", connections=4, calls=16):
    (folder / "message").write_bytes(grpc_message() if call == "ModelInfer" else bytes(5))
    log = folder / "times"
    log.unlink(missing_ok=True)  # it would write behind what is there
    text = run(["h2load", "-D", str(seconds), "-c", str(connections), "-m", str(calls), "-t", "1",
                f"--log-file={log}", "-d", folder / "message",
                "-H", "content-type: application/grpc", "-H", "te: trailers",
                f"http://{address}/inference.GRPCInferenceService/{call}"])
    times = sorted(int(line.split("\t")[2]) for line in log.read_text().splitlines())
    return {"per_second": float(re.search(r"([\d.]+) req/s", text)[1]),
            "p50_us": times[len(times) // 2] if times else 0}


def npm_modules():
    cache = pathlib.Path(os.environ.get("TESSERA_CACHE") or
                         pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tessera")
    folder = cache / "serve-bench"
    if not (folder / "node_modules/@grpc/proto-loader").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
    return folder / "node_modules"


def node(address, *arguments):
    return run(["node", HERE / "grpc_client.cjs", npm_modules(), PROTO, address, *map(str, arguments)])


def statistics(server, name):
    with urllib.request.urlopen(f"{server.http}/v2/models/{name}/stats") as answer:
        return json.load(answer)["model_stats"][0]["inference_stats"]


def mean_run_us(before, after):
    """Of the runs between two looks: what the library itself took."""
    part = "compute_infer"
    return (after[part]["ns"] - before[part]["ns"]) / max(1, after[part]["count"] - before[part]["count"]) / 1e3


def figures(server, folder, seconds, rows, missing):
    url = server.http + "/v2/models/zero/infer"
    if shutil.which("wrk"):
        before = statistics(server, "zero")
        one = wrk(folder, url, SMALL.encode(), seconds, 1)
        own = mean_run_us(before, statistics(server, "zero"))
        rows.append(("HTTP, one connection: p50 without the run itself", one["p50_us"] - own, "us", "<=", 150))
        bare = wrk(folder, server.http + "/v2/health/live", b"", seconds, 1, method="GET")
        rows.append(("  the same for a request without a model", bare["p50_us"], "us", "", None))
        cpu = server.cpu_seconds()
        many = wrk(folder, url, SMALL.encode(), seconds, CONNECTIONS)
        cpu = server.cpu_seconds() - cpu
        rows.append((f"HTTP, {CONNECTIONS} connections (wrk)", many["per_second"], "1/s", ">=", 15000))
        rows.append(("  processor time of the server a request", cpu / many["requests"] * 1e6, "us", "", None))
        bare = wrk(folder, server.http + "/v2/health/live", b"", seconds, CONNECTIONS, method="GET")
        rows.append(("  the same for requests without a model", bare["per_second"], "1/s", "", None))
        long = wrk(folder, server.http + "/v2/models/long/infer", LONG_HEAD.encode() + bytes(600000), seconds, 4,
                   [("Inference-Header-Content-Length", len(LONG_HEAD))])
        rows.append(("HTTP, 600 KB in, binary (wrk)", long["per_second"] * 600000 / 1e9, "GB/s", ">=", 1))
    else:
        missing.append("wrk")
    if shutil.which("hey"):
        rows.append((f"HTTP, {CONNECTIONS} connections (hey)", hey(url, seconds), "1/s", ">=", 15000))
    else:
        missing.append("hey")
    if shutil.which("h2load"):
        cpu, before = server.cpu_seconds(), statistics(server, "zero")
        per_second = h2load(folder, server.grpc, seconds)["per_second"]
        cpu, after = server.cpu_seconds() - cpu, statistics(server, "zero")
        # gRPC says in a trailer whether it went well, which h2load does not read.
        if after["success"]["count"] - before["success"]["count"] < per_second * seconds * 0.9:
            sys.exit("h2load: not every call was answered with outputs")
        rows.append(("gRPC, 4 connections of 16 calls (h2load)", per_second, "1/s", ">=", 8000))
        rows.append(("  processor time of the server a request", cpu / (per_second * seconds) * 1e6, "us", "", None))
        bare = h2load(folder, server.grpc, seconds, "ServerLive")["per_second"]
        rows.append(("  the same for calls without a model", bare, "1/s", "", None))
        before = statistics(server, "zero")
        one = h2load(folder, server.grpc, seconds, connections=1, calls=1)
        own = mean_run_us(before, statistics(server, "zero"))
        rows.append(("gRPC, one call at a time: p50 without the run itself (h2load)", one["p50_us"] - own, "us", "<=",
                     250))
        bare = h2load(folder, server.grpc, seconds, "ServerLive", 1, 1)
        rows.append(("  the same for a call without a model", bare["p50_us"], "us", "", None))
    else:
        missing.append("h2load")
    if shutil.which("node") and shutil.which("npm"):
        node(server.grpc, "check")
        before = statistics(server, "zero")
        one = json.loads(node(server.grpc, "load", seconds, 1))
        own = mean_run_us(before, statistics(server, "zero"))
        rows.append(("gRPC, one call at a time: p50 without the run itself (npm)", one["p50_us"] - own, "us", "<=",
                     250))
        bare = json.loads(node(server.grpc, "live", seconds, 1))
        rows.append(("  the same for a call without a model", bare["p50_us"], "us", "", None))
        rows.append(("  what the model adds to it", one["p50_us"] - own - bare["p50_us"], "us", "", None))
        empty = json.loads(node("-", "empty", seconds, 1))
        rows.append(("  the same client with an empty server of its own kind", empty["p50_us"], "us", "", None))
        many = json.loads(node(server.grpc, "load", seconds, CONNECTIONS))
        rows.append((f"gRPC, {CONNECTIONS} calls at once (npm)", many["per_second"], "1/s", "", None))
    else:
        missing.append("node, npm")


def check(tessera):
    """Every call of the protocol by @grpc/grpc-js, once; what is wrong ends it with 1."""
    try:
        npm_modules()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"npm's gRPC client cannot be had: {error}")
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        models.write_repository(folder + "/models")
        with Server(tessera, folder + "/models") as server:
            print(node(server.grpc, "check"), end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tessera")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="no figures: every call of npm's client once")
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments.tessera)
        return
    rows, missing = [], []
    with tempfile.TemporaryDirectory() as folder:
        models.write_repository(folder + "/models")
        with Server(arguments.tessera, folder + "/models") as server:
            figures(server, pathlib.Path(folder), arguments.seconds, rows, missing)
    load, threads = os.getloadavg()[0], os.cpu_count()
    if arguments.json:
        keys = ("what", "value", "unit", "relation", "goal")
        print(json.dumps({"suite": "serve", "figures": [dict(zip(keys, row)) for row in rows], "load": load, "threads": threads,
                          "left_out": missing}))
        return
    for what, value, unit, relation, goal in rows:
        goal_text = f"goal {relation} {goal:,} {unit}" if goal is not None else ""
        print(f"{what:60} {value:12,.1f} {unit:5} {goal_text}")
    print(f"on {threads} threads, load {load:.1f} with what else runs")
    for name in missing:
        print(f"left out: {name} is not installed")


if __name__ == "__main__":
    main()
