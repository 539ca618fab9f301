#!/usr/bin/env python3
"""performance_table.py on invented lines."""
import json
import os
import tempfile
import unittest

import performance_table

COMMON = {"suite": "host-vs-ort", "threads": 2, "rounds": 15, "processor": "P", "onnxruntime": "1.30.0"}


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
| **the worst** | 1.00, a | 0.50, a |

Left out: b: too slow.
Left out: c: no operator.
""")

    def test_the_last_line_of_a_model_counts_and_a_line_cut_short_does_not(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lines")
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(line("a", "amx", speedup=3.0, speedup_of_least=3.0)) + "\n")
                file.write(json.dumps(line("a", "amx", speedup=2.0, speedup_of_least=2.0)) + "\n")
                file.write(json.dumps(line("b", "amx", speedup=9.0, speedup_of_least=9.0))[:30])
            text = performance_table.table(performance_table.lines_of([path]))
        self.assertIn("| a | 2.00 |", text)
        self.assertNotIn("| b |", text)


if __name__ == "__main__":
    unittest.main()
