# SPDX-License-Identifier: Apache-2.0
"""Writes the models of the API tests: make_models.py ONNX_FILE_FOLDER OUT_FOLDER."""

import pathlib
import sys

sys.path.insert(0, sys.argv[1])
import onnx_file  # noqa: E402  (found through the line above)

CHAIN_NODES = 2000
FLOAT = onnx_file.FLOAT


def chain():
    """y = x + x + ... : long enough to be stopped on the way."""
    names = ["x"] + [f"v{i}" for i in range(1, CHAIN_NODES)] + ["y"]
    nodes = [("Add", (names[i], "x"), (names[i + 1],)) for i in range(CHAIN_NODES)]
    return onnx_file.model(nodes, [("x", FLOAT, ["N"])], [("y", FLOAT, ["N"])])


def large_weight():
    """y = x + w, where w lies in the file so that a device may use it there."""
    for length in range(1, 65):
        name = "w" * length
        content = onnx_file.model([("Add", ("x", name), ("y",))], [("x", FLOAT, ["N", 64])],
                                  [("y", FLOAT, ["N", 64])], [(name, [1024, 64])])
        if content.find(bytes(1024 * 64 * 4)) % 64 == 0:
            return content
    raise AssertionError("no name puts the weight on a boundary")


def main(out):
    square = [("x", FLOAT, [2, 2])]
    models = {
        "relu": onnx_file.model([("Relu", ("x",), ("y",))], square, [("y", FLOAT, [2, 2])]),
        "two": onnx_file.model([("Relu", ("x",), ("a",)), ("Add", ("a", "x"), ("b",))],
                               [("x", FLOAT, ["N", 64])],
                               [("a", FLOAT, ["N", 64]), ("b", FLOAT, ["N", 64])]),
        "matmul": onnx_file.model([("MatMul", ("x", "x"), ("y",))], [("x", FLOAT, ["N", "N"])],
                                  [("y", FLOAT, ["N", "N"])]),
        "unknown": onnx_file.model([("Relu", ("x",), ("y",))], [("x", FLOAT, None)],
                                   [("y", FLOAT, None)]),
        "chain": chain(),
        "lookup": onnx_file.model([("Gather", ("x", "index"), ("found",)),
                                   ("Relu", ("found",), ("y",))],
                                  [("x", FLOAT, ["N"]), ("index", onnx_file.INT64, ["M"])],
                                  [("y", FLOAT, ["M"])]),
        # A kernel, a view, one or several kernels, nothing to launch, a view, and an operator that
        # tests keep from devices.
        "placements": onnx_file.model(
            [("Relu", ("x",), ("a",)), ("Flatten", ("a",), ("b",)), ("Softmax", ("b",), ("c",)),
             ("Shape", ("x",), ("s",)), ("Reshape", ("c", "s"), ("d",)), ("Tanh", ("d",), ("y",))],
            [("x", FLOAT, ["N", 2, 2])], [("y", FLOAT, ["N", 2, 2])]),
        # The sum is of one row, or of as many as w has.
        "fixed_sum": onnx_file.model([("Add", ("x", "w"), ("y",))], [("x", FLOAT, ["N", 2])],
                                     [("y", FLOAT, ["N", 2])], [("w", [4, 2])]),
        "large_weight": large_weight(),
        "rows": onnx_file.model([("Add", ("x", "z"), ("y",)), ("Relu", ("other",), ("o",))],
                                [("x", FLOAT, ["N", "M"]), ("z", FLOAT, ["N", "M"]),
                                 ("other", FLOAT, ["P"])],
                                [("y", FLOAT, ["N", "M"]), ("o", FLOAT, ["P"])]),
        "relu_plus_weight": onnx_file.model(
            [("Relu", ("x",), ("a",)), ("Add", ("a", "w"), ("y",))], square,
            [("y", FLOAT, [2, 2])], [("w", [2, 2])]),
        # Outputs that nothing computes: a weight, and a view of one.
        "weights_out": onnx_file.model(
            [("Relu", ("x",), ("y",)), ("Transpose", ("w",), ("t",)), ("Identity", ("v",), ("i",))],
            square, [("y", FLOAT, [2, 2]), ("t", FLOAT, [3, 2]), ("i", FLOAT, [4])],
            [("w", [2, 3]), ("v", [4])]),
        "rows_plus_default": onnx_file.model(
            [("Add", ("x", "w"), ("y",))], [("w", FLOAT, [1, 2]), ("x", FLOAT, ["N", 2])],
            [("y", FLOAT, ["N", 2])], [("w", [1, 2])]),
        # M is a dimension of the default alone.
        "default_of_any_size": onnx_file.model(
            [("Add", ("x", "w"), ("y",))], [("w", FLOAT, ["N", "M"]), ("x", FLOAT, ["N", 2])],
            [("y", FLOAT, ["N", 2])], [("w", [1, 2])]),
        # w, of zeros, is an input too: its default.
        "relu_plus_default": onnx_file.model(
            [("Relu", ("x",), ("a",)), ("Add", ("a", "w"), ("y",))],
            [("w", FLOAT, [2, 2]), *square], [("y", FLOAT, [2, 2])], [("w", [2, 2])]),
    }
    for name, content in models.items():
        pathlib.Path(out, f"{name}.onnx").write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[2])
