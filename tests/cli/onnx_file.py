# SPDX-License-Identifier: Apache-2.0
"""Writes the few bytes of ONNX and NumPy files that the command's tests need.

The tests run with any Python 3: neither onnx nor numpy is asked for. Only what the tests use is
here, in protobuf's wire format and NumPy's format 1.
"""

import math
import struct

FLOAT = 1
INT64 = 7
UINT64 = 13


def _varint(value):
    value &= 2**64 - 1  # a negative one as two's complement
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number, content):
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    if isinstance(content, str):
        content = content.encode()
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _value_info(name, dtype, sizes):
    """sizes: numbers, names of symbols, or None for a value without a shape."""
    dims = b"".join(_field(1, _field(1, size) if isinstance(size, int) else _field(2, size))
                    for size in sizes or [])
    shape = b"" if sizes is None else _field(2, dims)
    return _field(1, name) + _field(2, _field(1, _field(1, dtype) + shape))


def _attribute(name, values):
    ints = b"".join(_field(8, value) for value in values)
    return _field(5, _field(1, name) + ints + _field(20, 7))


def model(nodes, inputs, outputs, weights=()):
    """nodes: (operator, input names, output names), and perhaps {attribute: whole numbers}; inputs
    and outputs: (name, dtype, sizes); weights: (name, sizes), of zeros, or (name, sizes, values).
    """
    graph = b"".join(
        _field(1, b"".join(_field(1, name) for name in sources)
               + b"".join(_field(2, name) for name in targets)
               + _field(3, f"node{index}") + _field(4, operator)
               + b"".join(_attribute(*item) for given in attributes for item in given.items()))
        for index, (operator, sources, targets, *attributes) in enumerate(nodes))
    graph += _field(2, "test")
    graph += b"".join(
        _field(5, tensor_proto(*(values or [[0] * math.prod(sizes)]), sizes) + _field(8, name))
        for name, sizes, *values in weights)
    graph += b"".join(_field(11, _value_info(*value)) for value in inputs)
    graph += b"".join(_field(12, _value_info(*value)) for value in outputs)
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 17))


def tensor_proto(values, sizes):
    raw = struct.pack(f"<{len(values)}f", *values)
    return b"".join(_field(1, size) for size in sizes) + _field(2, FLOAT) + _field(9, raw)


def npy(values, sizes, dtype="f4", spaces=0):
    """spaces: how many more the header has than it needs, a multiple of 64."""
    kind = {"f4": "f", "f8": "d", "i8": "q", "u8": "Q"}[dtype]
    shape = "(" + "".join(f"{size}, " for size in sizes) + ")"
    header = f"{{'descr': '<{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64 + spaces) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            + struct.pack(f"<{len(values)}{kind}", *values))


def read_npy(content):
    """The f4 values of a file as write_npy makes it."""
    start = 10 + struct.unpack("<H", content[8:10])[0]
    if b"'<f4'" not in content[:start]:
        raise ValueError(f"not f4: {content[:start]!r}")
    return [value for value, in struct.iter_unpack("<f", content[start:])]
