# SPDX-License-Identifier: Apache-2.0
"""`backplane ops`: how operators run on a device, and what kernels some models lack there.

    ops_cli_test.py BIN_FOLDER DIGITS_FOLDER [UNITTEST_ARGUMENT...]
"""

import json
import pathlib
import sys
import unittest

import cli_test
import onnx_file
from cli_test import DEVICE, MODEL, OK, USAGE

RUNS = {"native", "view", "constant", "decomposed", "fallback", "nowhere"}


class OpsTest(cli_test.CommandTest):
    def ops(self, *arguments):
        return json.loads(self.check(OK, "ops", *arguments, "--json").stdout)

    def test_every_operator_is_listed(self):
        told = self.ops("--device", "npu:0")
        self.assertEqual(told["device"], "npu:0")
        self.assertNotIn("missing", told)
        rows = {row["name"]: row for row in told["operators"]}
        self.assertGreater(len(rows), 24)
        self.assertLessEqual({row["runs"] for row in rows.values()}, RUNS)
        self.assertEqual(rows["matmul"]["runs"], "native")
        self.assertIn("matmul_number", rows["matmul"]["kernels"])
        self.assertIn("matmul_number", rows["matmul"]["capturable_kernels"])
        self.assertEqual(rows["gemm"]["runs"], "decomposed")
        self.assertIn("matmul", rows["gemm"]["parts"])
        self.assertEqual(rows["gemm"]["missing_parts"], [])
        self.assertEqual(rows["constant"]["runs"], "constant")
        for row in rows.values():
            self.assertEqual(row["runs"] == "native", bool(row["kernels"]), row)

    def test_text(self):
        text = self.check(OK, "ops", "--device", "npu:0",
                          words=["npu:0: ", " native", "kernels", "matmul_number"]).stdout
        self.assertNotIn("decomposition needs", text)
        self.check(OK, "ops", "--device", "npu:0", "--decompositions",
                   words=["its decomposition needs", "of these the device lacks", "gemm"])

    def test_operators_sent_to_the_host(self):
        result = self.check(OK, "ops", "--device", "npu:0", "--json", BACKPLANE_HOST_OPS="matmul")
        runs = {row["name"]: row["runs"] for row in json.loads(result.stdout)["operators"]}
        self.assertEqual(runs["matmul"], "fallback")

    def table(self):
        """Two of an operator that the device lacks, and one that it has."""
        return self.file("table.onnx", onnx_file.model(
            [("Softmax", ["x"], ["s"]), ("Softmax", ["s"], ["t"]), ("MatMul", ["t", "t"], ["y"])],
            [("x", onnx_file.FLOAT, (3, 3))], [("y", onnx_file.FLOAT, (3, 3))]))

    def test_kernels_to_write_next(self):
        told = self.ops("--device", "npu:0", "--missing", self.table(), self.relu_model())
        self.assertEqual([row["name"] for row in told["missing"]], ["softmax"])
        row = told["missing"][0]
        self.assertEqual((row["node_count"], row["dtypes"]), (2, ["f32"]))
        self.assertEqual([pathlib.Path(model).name for model in row["models"]], ["table.onnx"])
        self.assertIn(row["runs"], ("decomposed", "fallback"))
        self.check(OK, "ops", "--device", "npu:0", "--missing", self.table(),
                   words=["Kernels to write next for 1 model on npu:0:", "softmax", "nodes"])
        self.check(OK, "ops", "--device", "npu:0", "--missing", self.relu_model(),
                   words=["npu:0 has a kernel for every node of 1 model."])

    def test_parts_that_a_call_needs(self):
        """Of its own decomposition, in its dtypes, and not of the operator's in general."""
        without_exp = ("--option", "npu.kernels=exp,mish")
        row = self.ops("--device", "npu:0", *without_exp, "--missing", self.table())["missing"][0]
        self.assertEqual((row["name"], row["runs"], row["missing_parts"]),
                         ("softmax", "fallback", ["exp"]))
        self.check(OK, "ops", "--device", "npu:0", *without_exp, "--missing", self.table(),
                   words=["or these parts", "exp"])
        # A gemm may end in mish, which this one does not.
        gemm = self.file("gemm.onnx", onnx_file.model(
            [("Gemm", ["x", "x"], ["y"])], [("x", onnx_file.FLOAT, ("N", "N"))],
            [("y", onnx_file.FLOAT, ("N", "N"))]))
        row = self.ops("--device", "npu:0", *without_exp, "--missing", gemm)["missing"][0]
        self.assertEqual((row["name"], row["runs"], row["missing_parts"]),
                         ("gemm", "decomposed", []))

    def pool(self):
        """A window over four dimensions, which no kernel takes, of a dtype that all take."""
        return self.file("pool.onnx", onnx_file.model(
            [("MaxPool", ["x"], ["y"], {"kernel_shape": [2, 2, 2, 2]})],
            [("x", onnx_file.FLOAT, (1, 1, 4, 4, 4, 4))],
            [("y", onnx_file.FLOAT, (1, 1, 3, 3, 3, 3))]))

    def test_a_kernel_that_refuses_the_call_is_none(self):
        for device in ("cpu:0", "npu:0"):
            told = self.ops("--device", device, "--missing", self.pool())["missing"]
            self.assertEqual([(row["name"], row["runs"]) for row in told],
                             [("max_pool", "nowhere")], device)
            self.assertIn("spatial dimensions", told[0]["reason"])
            self.check(OK, "ops", "--device", device, "--missing", self.pool(),
                       words=["why", "nowhere", "spatial dimensions"])

    def test_a_call_that_only_a_decomposition_takes(self):
        """cpu's kernel takes one scale for each element of a row."""
        norm = self.file("norm.onnx", onnx_file.model(
            [("LayerNormalization", ["x", "s"], ["y"])],
            [("x", onnx_file.FLOAT, (4, 8)), ("s", onnx_file.FLOAT, (4, 8))],
            [("y", onnx_file.FLOAT, (4, 8))]))
        row = self.ops("--device", "cpu:0", "--missing", norm)["missing"][0]
        self.assertEqual((row["name"], row["runs"], row["missing_parts"]),
                         ("layer_norm", "decomposed", []))
        self.assertIn("layer_norm_rows", row["reason"])

    def test_what_is_sent_to_the_host_is_no_kernel_of_the_device(self):
        result = self.check(OK, "ops", "--device", "npu:0", "--json", "--missing",
                            self.relu_model(), BACKPLANE_HOST_OPS="relu")
        row = json.loads(result.stdout)["missing"][0]
        self.assertEqual((row["name"], row["runs"]), ("relu", "fallback"))
        self.assertIn("BACKPLANE_HOST_OPS", row["reason"])

    def test_what_is_never_launched_needs_no_kernel(self):
        shape = self.file("shape.onnx", onnx_file.model(
            [("Shape", ["x"], ["y"])], [("x", onnx_file.FLOAT, ("N", 3))],
            [("y", onnx_file.INT64, (2,))]))
        self.assertEqual(self.ops("--device", "npu:0", "--missing", shape)["missing"], [])

    def test_what_helps_most_comes_first(self):
        told = self.ops("--device", "npu:0", "--missing", cli_test.DIGITS / "digits.onnx")
        order = [row["runs"] for row in told["missing"]]
        self.assertEqual(order, sorted(order, key=["nowhere", "fallback", "decomposed"].index))

    def test_what_is_refused(self):
        self.check(DEVICE, "ops", "--device", "npu:9", words=["npu:9"])
        self.check(MODEL, "ops", "--missing", self.folder / "none.onnx", words=["none.onnx"])
        self.check(USAGE, "ops", "more", words=["no further argument, found 'more'"])
        self.check(USAGE, "ops", "--missing", "a.onnx", "b.onnx", "a.onnx",
                   words=["--missing: a.onnx is given twice"])
        self.check(USAGE, "ops", "--missing", "a.onnx", "--decompositions",
                   words=["--missing excludes --decompositions"])


if __name__ == "__main__":
    cli_test.BIN, cli_test.DIGITS = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
