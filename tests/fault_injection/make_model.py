# SPDX-License-Identifier: Apache-2.0
"""Writes the small model that the sweeps load: make_model.py OUT.onnx.

relu(softmax(x + x) * (x + x) + w) with a constant w: operators that some devices have, that others
decompose or leave to the host device, and a weight.
"""

import pathlib
import struct
import sys

FLOAT = 1
NODES = (("Add", ("x", "x"), "sum"), ("Softmax", ("sum",), "soft"),
         ("Mul", ("soft", "sum"), "product"), ("Add", ("product", "w"), "shifted"),
         ("Relu", ("shifted",), "y"))


def field(number, content):
    """One field of a protobuf message; numbers here are below 128."""
    if isinstance(content, int):
        return bytes((number << 3, content))
    if isinstance(content, str):
        content = content.encode()
    length = len(content)
    prefix = bytes((length,)) if length < 128 else bytes((length & 0x7F | 0x80, length >> 7))
    return bytes((number << 3 | 2,)) + prefix + content


def value_info(name, sizes):
    shape = field(2, b"".join(field(1, field(1, size)) for size in sizes))
    return field(1, name) + field(2, field(1, field(1, FLOAT) + shape))


def model():
    graph = b"".join(
        field(1, b"".join(field(1, name) for name in sources) + field(2, target)
              + field(3, f"node_{target}") + field(4, operator))
        for operator, sources, target in NODES)
    weights = field(1, 3) + field(2, FLOAT) + field(8, "w") + field(9, struct.pack("<3f", 1, 2, 3))
    graph += field(2, "faults") + field(5, weights)
    graph += field(11, value_info("x", (2, 3))) + field(12, value_info("y", (2, 3)))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_bytes(model())
