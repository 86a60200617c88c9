# SPDX-License-Identifier: Apache-2.0
"""`backplane bench`: what it measures, what it makes up, and what it compares.

    bench_cli_test.py BIN_FOLDER DIGITS_FOLDER [UNITTEST_ARGUMENT...]
"""

import json
import math
import pathlib
import sys
import unittest
import zipfile

import cli_test
import onnx_file
from cli_test import DEVICE, ENVIRONMENT, FAILED, MODEL, OK, USAGE

KEYS = {"model", "device", "threads", "version", "create_ns", "first_ns", "peak_rss_bytes",
        "latency_ns"}


class BenchTest(cli_test.CommandTest):
    def bench(self, *arguments, exit_code=OK):
        result = self.check(exit_code, "bench", *arguments, "--json")
        return json.loads(result.stdout)

    def vectors(self, name="v.npz", **arrays):
        path = self.folder / name
        with zipfile.ZipFile(path, "w") as archive:
            for array, content in arrays.items():
                archive.writestr(array.replace("__", "/") + ".npy", content)
        return path

    def test_json(self):
        for device in ("cpu:0", "npu:0"):
            told = self.bench(cli_test.DIGITS / "digits.onnx", "--device", device, "--seconds", "0",
                              "--threads", "2", "--dim", "N=3")
            self.assertEqual(set(told), KEYS)
            self.assertEqual((told["device"], told["threads"]), (device, 2))
            self.assertEqual(len(told["latency_ns"]), 3)
            self.assertGreater(min(told["latency_ns"]), 0)
            self.assertGreater(told["create_ns"], 0)
            self.assertGreater(told["first_ns"], 0)
            self.assertGreater(told["peak_rss_bytes"], 1 << 20)

    def test_only_named_plugins_are_loaded(self):
        self.check(ENVIRONMENT, "devices", BACKPLANE_PLUGINS="nqu",
                   words=["BACKPLANE_PLUGINS: no plugin is called 'nqu' (did you mean 'npu'?)"])
        listed = self.check(OK, "devices", BACKPLANE_PLUGINS="npu", words=["npu:0"]).stdout
        self.assertNotIn("cpu:0", listed)
        self.check(DEVICE, "bench", cli_test.DIGITS / "digits.onnx", "--device", "cpu:0",
                   BACKPLANE_PLUGINS="npu", words=["BACKPLANE_PLUGINS leaves out cpu"])

    def test_seconds_make_more_runs(self):
        """Than the three of no time; how many more is the machine's affair."""
        told = self.bench(self.relu_model(), "--seconds", "0.5")
        self.assertGreater(len(told["latency_ns"]), 3)

    def test_peak_memory_is_its_own(self):
        """And not that of the process that starts it."""
        ballast = bytearray(b"1") * (600 << 20)
        told = self.bench(self.relu_model(), "--seconds", "0")
        self.assertLess(told["peak_rss_bytes"], len(ballast))

    def test_profile(self):
        """Every kernel of the model, as often as one run calls it; copies where it is elsewhere."""
        for device in ("cpu:0", "npu:0"):
            told = self.bench(cli_test.DIGITS / "digits.onnx", "--device", device, "--seconds", "0",
                              "--profile")
            self.assertEqual(set(told), KEYS | {"profile"})
            rows = {row["kernel"]: row for row in told["profile"]}
            self.assertEqual(rows["between steps"]["call_count"], 1)
            convs = sum(row["call_count"] for name, row in rows.items() if name.startswith("conv"))
            self.assertGreaterEqual(convs, 2, rows)
            self.assertEqual([row["ns"] for row in told["profile"]],
                             sorted((row["ns"] for row in told["profile"]), reverse=True))
            self.assertGreater(told["profile"][0]["ns"], 0)
        self.check(OK, "bench", self.relu_model(), "--device", "cpu:0", "--seconds", "0",
                   "--profile", words=["kernel", "share", "between steps", "relu"])

    def test_text(self):
        self.check(OK, "bench", self.relu_model(), "--device", "cpu:0", "--seconds", "0",
                   words=["relu.onnx on cpu:0", "made up from seed 1", "dimension N is 1", "median",
                          "peak memory"])

    def table_model(self, rows):
        """64 made-up indices, through a change of shape, into a table with the rows' numbers."""
        table = [row for row in range(rows) for _ in range(3)]
        return self.file("table.onnx", onnx_file.model(
            [("Flatten", ["i"], ["flat"]), ("Gather", ["table", "flat"], ["y"])],
            [("i", onnx_file.INT64, (8, 8))], [("y", onnx_file.FLOAT, (8, 8, 3))],
            [("table", (rows, 3), table)]))

    def test_indices_are_in_range(self):
        """And reach both ends of it. Out of range they would be a fault."""
        last = 6
        model = self.table_model(last + 1)
        for device in ("cpu:0", "npu:0"):
            for expected in (1, last):
                vectors = self.vectors(out__y=onnx_file.npy([expected] * 192, [8, 8, 3]))
                told = self.bench(model, "--device", device, "--seconds", "0", "--vectors", vectors,
                                  exit_code=FAILED)
                # The farthest from 1 is the last row, the farthest from the last is row 0.
                farthest = last - 1 if expected == 1 else last
                self.assertAlmostEqual(told["max_error"] * expected, farthest)

    def test_indices_of_one_row(self):
        model = self.table_model(1)
        for device in ("cpu:0", "npu:0"):
            self.bench(model, "--device", device, "--seconds", "0")
            # As `run` makes them, some are 1, which this table has no row for.
            self.check(MODEL, "run", model, "--device", device, words=["gather", "extent 1"])

    def test_plugins_of_a_program_whose_file_is_gone(self):
        """As an update does to one that runs: those beside where it was."""
        program = self.beside("npu")
        gone = ("sh", "-c", 'exec 3<"$0" && rm "$0" && exec /proc/self/fd/3 "$@"')
        result = cli_test.run("devices", program=program, prefix=gone)
        self.assertEqual((result.returncode, result.stderr), (OK, ""))
        self.assertIn("npu:0", result.stdout)

    def test_guessed_sizes_stand_in_errors(self):
        """Which may come from them: an image of one position has no room for a window of two."""
        model = self.file("pool.onnx", onnx_file.model(
            [("MaxPool", ["x"], ["y"], {"kernel_shape": [2, 2]})],
            [("x", onnx_file.FLOAT, (1, 1, "H", "W"))], [("y", onnx_file.FLOAT, None)]))
        for command in ("run", "bench"):
            self.check(MODEL, command, model, "--dim", "W=4",
                       words=["spatial dimension 0 of size 1",
                              "guessed sizes: H = 1 (--dim NAME=SIZE tells one)"])
            told = self.check(MODEL, command, model, "--dim", "W=1", "--dim", "H=1")
            self.assertNotIn("guessed", told.stderr)
        self.check(OK, "run", model, "--dim", "W=4", "--dim", "H=2")

    def test_guessed_sizes_without_a_name(self):
        model = self.file("free.onnx", onnx_file.model(
            [("MatMul", ["x", "z"], ["y"])],
            [("x", onnx_file.FLOAT, (-1, 3)), ("z", onnx_file.FLOAT, ("N", 4))],
            [("y", onnx_file.FLOAT, None)]))
        for command in ("run", "bench"):
            self.check(MODEL, command, model,
                       words=["guessed sizes: N = 1, dimension 0 of 'x' = 1 (--dim NAME=SIZE tells "
                              "one; a file of the input tells one without a name)"])

    def test_no_guess_stands_in_errors_of_what_was_told(self):
        """A range is tried before any input is made."""
        model = self.file("range.onnx", onnx_file.model(
            [("MatMul", ["x", "z"], ["y"])],
            [("x", onnx_file.FLOAT, ("A", 3)), ("z", onnx_file.FLOAT, ("B", 4))],
            [("y", onnx_file.FLOAT, None)]))
        told = self.check(MODEL, "run", model, "--dim", "A=2", "--dim", "B=3..9",
                          words=["dimension 'B' of size 3 to 9 cannot be 9"])
        self.assertNotIn("guessed", told.stderr)

    def test_vectors(self):
        model = self.relu_model()
        given = onnx_file.npy([-1, 2, 3, 4, 5, 6], [2, 3])
        right = self.vectors(in__x=given, out__y=onnx_file.npy([0, 2, 3, 4, 5, 6], [2, 3]))
        told = self.bench(model, "--seconds", "0", "--vectors", right)
        self.assertIs(told["passed"], True)
        self.assertEqual(told["max_error"], 0)
        told = self.bench(model, "--seconds", "0", "--vectors", right, "--dim", "N=1..2")
        self.assertIs(told["passed"], True)
        self.check(MODEL, "bench", model, "--vectors", right, "--dim", "N=3..4",
                   words=["input 'x'", "dimension 0 (N) of size 3 to 4, found 2"])
        wrong = self.vectors("w.npz", in__x=given, out__y=onnx_file.npy([0, 2, 3, 4, 5, 7], [2, 3]))
        told = self.bench(model, "--seconds", "0", "--vectors", wrong, exit_code=FAILED)
        self.assertIs(told["passed"], False)
        self.assertAlmostEqual(told["max_error"], 1 / (103 / 6) ** 0.5)
        self.check(FAILED, "bench", model, "--seconds", "0", "--vectors", wrong,
                   words=["output 'y' is not as in", "w.npz:out/y", "1 of 6", "[1, 2]",
                          "found 6, expected 7"])
        sizes = self.vectors("s.npz", in__x=given, out__y=onnx_file.npy([0], [1]))
        self.check(MODEL, "bench", model, "--seconds", "0", "--vectors", sizes,
                   words=["output 'y': expected f32 [1]", "found f32 [2, 3]"])
        other = self.vectors("o.npz", in__z=given)
        self.check(MODEL, "bench", model, "--vectors", other,
                   words=["expected arrays in/NAME and out/NAME of the model, found none"])
        self.check(MODEL, "bench", model, "--vectors", self.folder / "none.npz",
                   words=["none.npz"])

    def test_vectors_that_are_not_finite(self):
        """They are equal or wrong, and say nothing of how near the others must be."""
        model = self.relu_model()
        inf = math.inf

        def told(given, expected, exit_code):
            vectors = self.vectors(in__x=onnx_file.npy(given, [2, 3]),
                                   out__y=onnx_file.npy(expected, [2, 3]))
            return self.bench(model, "--seconds", "0", "--vectors", vectors, exit_code=exit_code)

        for odd in (inf, math.nan):
            self.assertEqual(told([odd, 2, 3, 4, 5, 6], [odd, 2, 3, 4, 5, 6], OK)["max_error"], 0)
            near = told([odd, 2, 3, 4, 5, 6], [odd, 2, 3, 4, 5, 6.001], OK)
            self.assertAlmostEqual(near["max_error"], 0.001 / (90.012001 / 5) ** 0.5, 6)
            told([odd, 2, 3, 4, 5, 6], [odd, 2, 3, 4, 5, 7], FAILED)
        self.assertIsNone(told([1, 2, 3, 4, 5, 6], [inf, 2, 3, 4, 5, 6], FAILED)["max_error"])
        told([inf, 2, 3, 4, 5, 6], [-inf, 2, 3, 4, 5, 6], FAILED)
        told([inf, 2, 3, 4, 5, 6], [math.nan, 2, 3, 4, 5, 6], FAILED)
        told([inf] * 6, [inf] * 6, OK)

    def test_what_is_refused(self):
        model = self.relu_model()
        self.check(USAGE, "bench", words=["MODEL"])
        self.check(USAGE, "bench", model, "--threads", "1025",
                   words=["--threads: expected a whole number from 0 to 1024, found '1025'"])
        for seconds in ("-1", "x", "86401"):
            self.check(USAGE, "bench", model, "--seconds", seconds,
                       words=[f"--seconds: expected a number from 0 to 86400, found '{seconds}'"])
        self.check(MODEL, "bench", self.folder / "none.onnx", words=["none.onnx"])
        self.check(MODEL, "bench", model, "--dim", "M=3", words=["no dimension 'M'"])
        self.check(USAGE, "bench", model, "--dim", "N=1..3",
                   words=["--dim N=1..3: a bench needs one size, --dim N=SIZE"])
        self.check(DEVICE, "bench", model, "--device", "cpu:9", "--threads", "1", words=["cpu:9"])


if __name__ == "__main__":
    cli_test.BIN, cli_test.DIGITS = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
