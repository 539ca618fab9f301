#!/usr/bin/env python3
"""Gives fuzz.py what libFuzzer prints, and expects the row and the table that it makes of it."""
import pathlib
import tempfile
import unittest

import fuzz

GOOD = """INFO: Running with entropic power schedule (0xFF, 100).
INFO: Loaded 1 modules   (818 inline 8-bit counters): 818 [0x5, 0x6),
#83\tINITED cov: 200 ft: 310 corp: 60/3Kb exec/s: 0 rss: 37Mb
#1024\tNEW    cov: 254 ft: 400 corp: 82/4Kb lim: 44 exec/s: 0 rss: 39Mb L: 17/44 MS: 1 EraseBytes-
#961935\tDONE   cov: 254 ft: 401 corp: 83/4Kb lim: 1024 exec/s: 160322 rss: 420Mb
stat::number_of_executed_units: 961935
stat::average_exec_per_sec:     160322
stat::new_units_added:          1
stat::slowest_unit_time_sec:    2
"""
BAD = """INFO: Loaded 1 modules   (818 inline 8-bit counters): 818 [0x5, 0x6),
#2\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 37Mb
#77\tNEW    cov: 14 ft: 15 corp: 2/3b exec/s: 0 rss: 37Mb
==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1
SUMMARY: AddressSanitizer: heap-buffer-overflow a.cc:3 in f
Test unit written to out/wav-crash-0a
"""


class RowTest(unittest.TestCase):
    def test_a_run_without_a_finding(self):
        self.assertEqual(
            {"target": "wav", "executions": 961935, "per_second": 160322, "edges": 254,
             "edges_all": 818, "corpus": 83, "slowest_seconds": 2, "verdict": "ok"},
            fuzz.row_of("wav", GOOD, 0))

    def test_a_finding_is_named_with_the_input(self):
        row = fuzz.row_of("wav", BAD, 77)
        self.assertEqual(
            "AddressSanitizer: heap-buffer-overflow a.cc:3 in f [out/wav-crash-0a]", row["verdict"])
        self.assertEqual((77, 14, 818, 2), (row["executions"], row["edges"], row["edges_all"],
                                            row["corpus"]))

    def test_undefined_behaviour_and_slow_inputs_are_findings(self):
        self.assertEqual("a.cc:3:4: runtime error: division by zero",
                         fuzz.row_of("wav", "a.cc:3:4: runtime error: division by zero\n", 1)["verdict"])
        self.assertEqual("libFuzzer: timeout", fuzz.row_of(
            "wav", "==3== ERROR: libFuzzer: timeout after 21 seconds\nSUMMARY: libFuzzer: timeout\n",
            70)["verdict"])

    def test_an_end_without_words_is_a_finding(self):
        self.assertEqual("status -9", fuzz.row_of("wav", "", -9)["verdict"])


class TableTest(unittest.TestCase):
    def test_a_row_for_each_target_and_the_sums(self):
        rows = [fuzz.row_of("wav", GOOD, 0), fuzz.row_of("npy", "", "timeout")]
        self.assertEqual(
            "target  executions  a second  edges  of all  corpus  slowest  verdict\n"
            "wav         961935    160322    254     818      83        2  ok\n"
            "npy              0         0      0       0       0        0  status timeout\n"
            "2 targets, 961935 executions, 1 with findings\n", fuzz.table(rows))


class TargetTest(unittest.TestCase):
    def test_what_the_build_says_of_a_target(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "wav.target"
            path.write_text("wav\n\n/seeds/wav\n/found/wav\n")
            self.assertEqual({"name": "wav", "dictionary": "",
                              "corpora": ["/seeds/wav", "/found/wav"],
                              "program": path.parent / "wav_fuzz"}, fuzz.target(path))


if __name__ == "__main__":
    unittest.main()
