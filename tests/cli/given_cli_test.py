# SPDX-License-Identifier: Apache-2.0
"""What is given to the command is taken as it is: models behind `--`, 64-bit integers, ranges,
aliases.

    given_cli_test.py BIN_FOLDER DIGITS_FOLDER [UNITTEST_ARGUMENT...]
"""

import pathlib
import sys
import unittest

import cli_test
import onnx_file
from cli_test import DEVICE, FAILED, MODEL, OK, USAGE


class GivenTest(cli_test.CommandTest):
    def test_model_behind_the_mark(self):
        model = self.relu_model()
        self.check(OK, "run", "--device", "cpu:0", "--", model)
        self.check(MODEL, "run", "--", "--absent.onnx", words=["--absent.onnx"])
        self.check(USAGE, "run", "--", model, "more", words=["no further argument, found 'more'"])
        self.check(USAGE, "run", "--", words=["MODEL"])

    def test_integers_that_no_double_holds(self):
        model = self.file("same.onnx", onnx_file.model(
            [("Identity", ["x"], ["y"])], [("x", onnx_file.UINT64, (2,))],
            [("y", onnx_file.UINT64, (2,))]))
        given = self.file("x.npy", onnx_file.npy([2**64 - 1, 2**63], [2], "u8"))
        near = self.file("near.npy", onnx_file.npy([2**64 - 2, 2**63], [2], "u8"))
        arguments = [model, "--input", f"x={given}"]
        self.check(OK, "run", *arguments,
                   words=[f"{2**63}  {2**64 - 1}", f"{2**64 - 1} {2**63}\n"])
        told = self.run_json(*arguments, "--expect", f"y={near}", "--rtol", "0", "--atol", "0.5",
                             exit_code=FAILED)
        output, check = told["outputs"][0], told["checks"][0]
        self.assertEqual((output["min"], output["max"]), (2**63, 2**64 - 1))
        self.assertEqual((check["found"], check["expected"]), (2**64 - 1, 2**64 - 2))

    def test_dim_of_an_input_with_a_default(self):
        """The model has it, so it is not called unknown."""
        model = self.file("default.onnx", onnx_file.model(
            [("Add", ["x", "d"], ["y"])],
            [("x", onnx_file.FLOAT, ("N", 3)), ("d", onnx_file.FLOAT, ("M", 3))],
            [("y", onnx_file.FLOAT, ("N", 3))], [("d", (1, 3))]))
        for command in ("run", "bench"):
            for size in ("2", "1..2"):
                self.check(MODEL, command, model, "--dim", f"M={size}",
                           words=["dimension 'M' is one of inputs with a default alone"])
            self.check(MODEL, command, model, "--dim", "K=2", words=["no dimension 'K'", "'N' 'M'"])

    def test_dim_range(self):
        model = self.relu_model()
        for text, size in (("1..8", 1), ("0..8", 1), ("3..8", 3), ("0..0", 0), ("4..4", 4)):
            found = self.run_json(model, "--dim", f"N={text}")
            self.assertEqual(found["outputs"][0]["shape"], [size, 3], text)
        self.check(OK, "run", model, "--dim", "N=3..8",
                   words=["dimension N is 3 (nothing says it, so 3 of 3..8)"])
        given = self.file("x.npy", onnx_file.npy([1, 2, 3], [1, 3]))
        found = self.run_json(model, "--dim", "N=1..8", "--input", f"x={given}")
        self.assertEqual(found["dims"][0]["source"], "input x")
        self.check(MODEL, "run", model, "--dim", "N=2..8", "--input", f"x={given}",
                   words=["input 'x'", "dimension 0 (N) of size 2 to 8, found 1"])
        self.check(MODEL, "run", model, "--dim", "M=2..8", words=["'M'", "'N'"])

    def test_dim_ranges_that_are_none(self):
        for text, found in (("1..", ""), ("..4", ""), ("5..4", "4"), ("1..4..9", "4..9"),
                            ("1...4", ".4"), ("-1..4", "-1"), ("1..x", "x")):
            self.check(USAGE, "run", "m.onnx", "--dim", f"N={text}",
                       words=["--dim N", "expected a whole number from", f"found '{found}'"])
        self.check(USAGE, "run", "m.onnx", "--dim", "N=1..4", "--dim", "N=2",
                   words=["--dim: N is given twice"])

    def test_read_weights(self):
        model = self.relu_model()
        self.check(OK, "run", model, "--read-weights")
        self.check(OK, "bench", model, "--read-weights", "--seconds", "0")
        self.check(MODEL, "run", self.folder / "none.onnx", "--read-weights", words=["none.onnx"])

    def test_alias_of_no_device(self):
        config = self.file("config.json", b'{"aliases": {"fast": "cpu:9", "slow": "cpu:0"}}')
        told = "alias 'fast': no device is called 'cpu:9'"
        listed = self.check(OK, "devices", BACKPLANE_CONFIG=str(config))
        self.assertIn(f"warning: {told}", listed.stderr)
        self.assertNotIn("'slow'", listed.stderr)
        refused = self.check(DEVICE, "run", self.relu_model(), "--device", "fast",
                             BACKPLANE_CONFIG=str(config), words=[f"backplane run: {told}"])
        self.assertNotIn("did you mean fast", refused.stderr)


if __name__ == "__main__":
    cli_test.BIN, cli_test.DIGITS = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
