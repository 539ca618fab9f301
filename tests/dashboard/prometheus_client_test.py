#!/usr/bin/env python3
"""The figures for Prometheus, read by the parser of Prometheus' own Python client.

    prometheus_client_test.py SCRIPTED_SERVER

Skipped (77) where the client is absent: scripts/install_packages.sh browser. Prints a line per check.
"""
import json
import subprocess
import sys
import time
import urllib.request

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    print("skipped: there is no prometheus_client (scripts/install_packages.sh browser)")
    sys.exit(77)

ODD = 'a "queue"\\ with\na line'
failed = 0


def check(what, ok, found=""):
    global failed
    print(f"{'ok    ' if ok else 'FAILED'} {what}{': ' + str(found) if found != '' else ''}", flush=True)
    failed += not ok


def get(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode(), answer.headers["Content-Type"]


def samples(families):
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def main(url):
    time.sleep(1.5)  # shares of a second
    text, content_type = get(url + "/metrics")
    check("it is text of version 0.0.4", content_type.startswith("text/plain; version=0.0.4"), content_type)
    families = list(text_string_to_metric_families(text))
    check("every line belongs to a family", sum(len(f.samples) for f in families) ==
          sum(1 for line in text.splitlines() if line and not line.startswith("#")), f"{len(families)} families")
    check("each has a type and words", all(f.type in ("counter", "gauge", "summary") and f.documentation
                                           for f in families))
    check("no family comes twice", len({f.name for f in families}) == len(families))
    first = samples(families)
    check("no sample comes twice", len(first) == sum(len(f.samples) for f in families))
    kernel = {"kernel": "kernel A", "device": "sim0"}
    for name in ["tessera_kernel_runs_total", "tessera_kernel_busy_seconds_total", "tessera_transfer_in_bytes_total",
                 "tessera_transfer_out_bytes_total", "tessera_transfer_in_seconds_total"]:
        check(f"{name} of a kernel", first.get((name, tuple(sorted(kernel.items()))), 0) > 0)
    weights = first.get(("tessera_transfer_in_bytes_total", (("device", "sim0"),)))
    check("weights are of the device", weights == 13_900_000, weights)
    check("a name with quotes, a backslash and a new line comes back as it was",
          first.get(("tessera_queue_depth", (("queue", ODD),))) == 1.0)
    summary = next(f for f in families if f.name == "tessera_task_latency_seconds")
    check("latency is a summary", summary.type == "summary" and
          {s.labels.get("quantile") for s in summary.samples} == {"0.5", "0.9", "0.95", "0.99", None})
    state = json.loads(get(url + "/state")[0])
    second_text, _ = get(url + "/metrics")
    second = samples(text_string_to_metric_families(second_text))
    counters = [key for key in first if key[0].endswith(("_total", "_count", "_sum"))]
    check("counters never fall", all(second[key] >= first[key] for key in counters), f"{len(counters)} counters")
    done = ("tessera_tasks_completed_total", (("outcome", "ok"),))
    check("the figures are those of the state between two readings",
          first[done] <= state["snapshot"]["tasks"]["ok"] <= second[done],
          f"{first[done]} {state['snapshot']['tasks']['ok']} {second[done]}")


server = subprocess.Popen([sys.argv[1], "4000", ODD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
try:
    main(server.stdout.readline().strip())
finally:
    server.stdin.close()
    server.wait(20)
sys.exit(1 if failed else 0)
