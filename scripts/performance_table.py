#!/usr/bin/env python3
"""The table of docs/performance.md: host speed by instruction set, for all models.

    performance_table.py FILE...

FILE holds the lines of `tessera bench --suite host-vs-ort --all DIR --instructions SET --json`, whole or cut
short; of a model measured twice with one set the last line counts. Prints Markdown: a row per model, a column per
instruction set, each ONNX Runtime's time divided by ours, of medians; then geometric means, of medians and of the
least times, the worst, what was left out.
"""
import json
import math
import sys

ORDER = ["amx", "avx512vnni", "avx512", "avx2"]
NAMES = {"amx": "AMX", "avx512vnni": "AVX-512 VNNI", "avx512": "AVX-512", "avx2": "AVX2"}


def lines_of(paths):
    lines = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for text in file:
                try:
                    line = json.loads(text)
                except json.JSONDecodeError:  # the last one of a run that was cut short
                    continue
                if isinstance(line, dict) and line.get("suite") == "host-vs-ort" and "model" in line:
                    lines.append(line)
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
    means, of_least, worst = [], [], []
    for name in sets:
        values = columns[name]
        if not values:
            means.append("")
            of_least.append("")
            worst.append("")
            continue
        means.append(f"{geometric_mean(values.values()):.3f} of {len(values)}")
        of_least.append(f"{geometric_mean(cells[model, name]['speedup_of_least'] for model in values):.3f}")
        least = min(values, key=values.get)
        worst.append(f"{values[least]:.2f}, {least}")
    out.append("| **geometric mean** | " + " | ".join(means) + " |")
    out.append("| **of the least times** | " + " | ".join(of_least) + " |")
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
        print("performance_table.py: no line of the suite host-vs-ort in these files", file=sys.stderr)
        return 1
    print(table(lines), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
