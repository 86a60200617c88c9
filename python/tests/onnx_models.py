# SPDX-License-Identifier: Apache-2.0
"""ONNX models that tests make in memory."""

import functools

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


def model(nodes, inputs, outputs, weights=()):
    """nodes: (op, inputs, outputs); inputs and outputs: (name, shape); weights: name to array."""
    graph = helper.make_graph(
        [helper.make_node(op, list(taken), list(given)) for op, taken, given in nodes],
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(array, name) for name, array in dict(weights).items()],
    )
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def mlp(seed=0):
    """Two layers from 8 to 5 values; `hidden` is an output too."""
    rng = np.random.default_rng(seed)
    weights = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in {"w": (8, 16), "b": (16,), "v": (16, 5)}.items()
    }
    nodes = [
        ("MatMul", ("x", "w"), ("a",)),
        ("Add", ("a", "b"), ("s",)),
        ("Relu", ("s",), ("hidden",)),
        ("MatMul", ("hidden", "v"), ("y",)),
    ]
    outputs = [("y", ["N", 5]), ("hidden", ["N", 16])]
    return model(nodes, [("x", ["N", 8])], outputs, weights)


def relu():
    return model([("Relu", ("x",), ("y",))], [("x", ["N"])], [("y", ["N"])])


def add():
    """y = a + b"""
    return model([("Add", ("a", "b"), ("y",))], [("a", ["N"]), ("b", ["N"])], [("y", ["N"])])


@functools.lru_cache
def powers(count):
    """y = x @ x @ ...: long, and with many places to stop at."""
    names = ["x", *(f"v{i}" for i in range(1, count)), "y"]
    nodes = [("MatMul", (names[i], "x"), (names[i + 1],)) for i in range(count)]
    return model(nodes, [("x", ["N", "N"])], [("y", ["N", "N"])])


def shift(size):
    """A permutation: its powers are exact."""
    return np.roll(np.eye(size, dtype=np.float32), 1, axis=0)


def shift_power(size, exponent):
    return np.roll(np.eye(size, dtype=np.float32), exponent, axis=0)


# The same input for programs that import nothing else: SHIFT.format(size=2).
SHIFT = "[[float(j == (i - 1) % {size}) for j in range({size})] for i in range({size})]"
