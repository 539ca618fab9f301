#!/usr/bin/env python3
"""performance_table.py on invented lines."""
import json
import os
import tempfile
import unittest

import performance_table

COMMON = {"threads": 2, "rounds": 15, "processor": "P", "onnxruntime": "1.30.0", "large_from_ort_ms": 1.0,
          "ort_least_ms": 2.0}


def line(model, instructions, **more):
    return {**COMMON, "model": model, "instructions": instructions, **more}


class Table(unittest.TestCase):
    def test_sets_are_columns_models_rows_and_means_come_last(self):
        text = performance_table.table([
            line("b", "amx", speedup=4.0, speedup_of_least=9.0),
            line("a", "amx", speedup=1.0, speedup_of_least=1.0),
            line("a", "avx2", speedup=0.5, speedup_of_least=0.25),
            line("c", "amx", skipped="no operator"), line("b", "avx2", skipped="too slow")])
        self.assertEqual(text, """P, 2 threads each, medians of 15 alternating rounds, ONNX Runtime 1.30.0.

| model | AMX | AVX2 |
| --- | --- | --- |
| a | 1.00 | 0.50 |
| b | 4.00 |  |
| **geometric mean** | 2.000 of 2 | 0.500 of 1 |
| **of the least times** | 3.000 | 0.250 |
| **ONNX Runtime 1 ms or more** | 2.000 of 2 | 0.500 of 1 |
| **below 1 ms** |  |  |
| **the worst** | 1.00, a | 0.50, a |

Left out: b: too slow.
Left out: c: no operator.
""")

    def test_of_a_model_measured_twice_the_last_counts(self):
        shared = {**COMMON, "suite": "host-vs-ort", "instructions": "amx"}
        runs = [{**shared, "models": [{"name": "a", "speedup": speedup, "speedup_of_least": 3.0, "ort_least_ms": 0.5}]}
                for speedup in (3.0, 2.0)]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "runs")
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(json.dumps(run, indent=2) for run in runs) + "\n")
            text = performance_table.table(performance_table.lines_of([path]))
        self.assertIn("| a | 2.00 |", text)
        self.assertIn("| **ONNX Runtime 1 ms or more** |  |", text)
        self.assertIn("| **below 1 ms** | 2.000 of 1 |", text)


if __name__ == "__main__":
    unittest.main()
