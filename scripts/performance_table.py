#!/usr/bin/env python3
"""The table of docs/performance.md: host speed by instruction set, for all models.

    performance_table.py FILE...

FILE holds what `tessera bench --suite host-vs-ort --models DIR --instructions SET --json` printed, any number of times;
of a model measured twice with one set the last counts. Prints Markdown: a row per model, a column per instruction
set, each ONNX Runtime's time divided by ours, of medians; then geometric means, of medians and of the least times,
of large models and of small ones, the worst, what was left out.
"""
import json
import math
import sys

ORDER = ["amx", "avx512vnni", "avx512", "avx2"]
NAMES = {"amx": "AMX", "avx512vnni": "AVX-512 VNNI", "avx512": "AVX-512", "avx2": "AVX2"}


def documents_of(text):
    """The JSON objects that follow each other in a text."""
    decoder = json.JSONDecoder()
    at = 0
    while (at := len(text) - len(text[at:].lstrip())) < len(text):
        document, at = decoder.raw_decode(text, at)
        yield document


def lines_of(paths):
    """A line for each model of each document, with what the document says of all."""
    lines = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            documents = list(documents_of(file.read()))
        for document in documents:
            if document.get("suite") != "host-vs-ort" or "instructions" not in document:
                continue
            shared = {key: document[key] for key in ("instructions", "threads", "rounds", "processor", "onnxruntime",
                                                     "large_from_ort_ms")}
            lines += [{**shared, **model, "model": model["name"]} for model in document["models"]]
    return lines


def geometric_mean(values):
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def table(lines):
    cells = {(line["model"], line["instructions"]): line for line in lines}
    sets = [name for name in ORDER if any(key[1] == name for key in cells)]
    models = sorted({model for model, _ in cells})
    measured = [model for model in models if any("speedup" in cells.get((model, name), {}) for name in sets)]
    out = []
    for processor, threads, rounds, version in sorted({(line["processor"], line["threads"], line["rounds"],
                                                       line["onnxruntime"]) for line in lines}):
        out.append(f"{processor}, {threads} threads each, medians of {rounds} alternating rounds, "
                   f"ONNX Runtime {version}.")
    out += ["", "| model | " + " | ".join(NAMES[name] for name in sets) + " |", "| --- |" + " --- |" * len(sets)]
    columns = {name: {} for name in sets}
    for model in measured:
        row = []
        for name in sets:
            line = cells.get((model, name), {})
            if "speedup" in line:
                columns[name][model] = line["speedup"]
            row.append(f"{line['speedup']:.2f}" if "speedup" in line else "")
        out.append(f"| {model} | " + " | ".join(row) + " |")
    means, of_least, large, small, worst = [], [], [], [], []
    for name in sets:
        values = columns[name]
        if not values:
            means.append("")
            of_least.append("")
            large.append("")
            small.append("")
            worst.append("")
            continue
        means.append(f"{geometric_mean(values.values()):.3f} of {len(values)}")
        of_least.append(f"{geometric_mean(cells[model, name]['speedup_of_least'] for model in values):.3f}")
        is_large = {model: cells[model, name]["ort_least_ms"] >= cells[model, name]["large_from_ort_ms"]
                    for model in values}
        for part, wanted in ((large, True), (small, False)):
            some = [values[model] for model in values if is_large[model] == wanted]
            part.append(f"{geometric_mean(some):.3f} of {len(some)}" if some else "")
        least = min(values, key=values.get)
        worst.append(f"{values[least]:.2f}, {least}")
    out.append("| **geometric mean** | " + " | ".join(means) + " |")
    out.append("| **of the least times** | " + " | ".join(of_least) + " |")
    least_ms = lines[0]["large_from_ort_ms"]
    out.append(f"| **ONNX Runtime {least_ms:g} ms or more** | " + " | ".join(large) + " |")
    out.append(f"| **below {least_ms:g} ms** | " + " | ".join(small) + " |")
    out.append("| **the worst** | " + " | ".join(worst) + " |")
    left_out = sorted({(line["model"], line["skipped"]) for line in cells.values() if "skipped" in line})
    if left_out:
        out.append("")
        out += [f"Left out: {model}: {reason}." for model, reason in left_out]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    lines = lines_of(sys.argv[1:])
    if not lines:
        print("performance_table.py: no model of the suite host-vs-ort in these files", file=sys.stderr)
        return 1
    print(table(lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
