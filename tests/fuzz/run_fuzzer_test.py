# SPDX-License-Identifier: Apache-2.0
"""When a run of the fuzzer was less than it was meant to be, by what libFuzzer prints."""

import pathlib
import tempfile
import unittest

import run_fuzzer

OUTPUT = """\
INFO: Running with entropic power schedule (0xFF, 100).
INFO:        0 files found in /out/corpus
INFO:      190 files found in /out/seeds
INFO: seed corpus: files: 190 min: 2b max: 4b total: 6b rss: 26Mb
#190\tINITED cov: 5000 ft: 1 corp: 1/2b exec/s: 0 rss: 27Mb
#60000\tDONE   cov: 6000 ft: 1 corp: 1/1b lim: 4096 exec/s: 100 rss: 27Mb
stat::number_of_executed_units: 60000
"""
MEANT = run_fuzzer.MEANT["onnx_fuzzer"]
FOLDERS = {pathlib.Path("/out/corpus"): 0, pathlib.Path("/out/seeds"): 190}


class RunTest(unittest.TestCase):
    def test_as_it_was_meant(self):
        self.assertEqual(run_fuzzer.problems_of(OUTPUT, FOLDERS, 600, MEANT), [])

    def test_what_is_less(self):
        for change, told in (
                (("190 files found", "19 files found"), "19 of 190 files of /out/seeds were read"),
                (("/out/seeds\n", "/out/seeds2\n"), "0 of 190 files of /out/seeds were read"),
                (("units: 60000", "units: 59999"), "expected 60000 inputs or more"),
                (("DONE   cov: 6000", "DONE   cov: 5999"), "expected 6000 edges or more")):
            problems = run_fuzzer.problems_of(OUTPUT.replace(*change), FOLDERS, 600, MEANT)
            self.assertEqual(problems, [told])
        self.assertEqual(len(run_fuzzer.problems_of("", FOLDERS, 600, MEANT)), 3)

    def test_files_without_bytes_are_not_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("a", "model"), ("b", "")):
                (pathlib.Path(folder) / name).write_text(text)
            self.assertEqual(run_fuzzer.files_in(pathlib.Path(folder)), 1)


if __name__ == "__main__":
    unittest.main()
