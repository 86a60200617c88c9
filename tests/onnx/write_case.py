# SPDX-License-Identifier: Apache-2.0
"""A case in the form that case_runner reads: a folder with model.onnx and values (its form:
values_file.hpp)."""

# backplane/types.h, by the number of the ONNX dtype.
CODES = {1: 12, 2: 6, 3: 2, 4: 7, 5: 3, 6: 4, 7: 5, 9: 1, 10: 10, 11: 13, 12: 8, 13: 9, 14: 14,
         15: 15, 16: 11, 17: 16, 18: 18, 19: 17, 20: 19, 21: 21, 22: 20, 23: 24, 24: 25, 25: 23,
         26: 22}


class NotTensors(Exception):
    """Values that the form has no words for: sequences, optionals, texts, sparse tensors."""


def tensor_entry(onnx, kind, name, value):
    """The bytes of one line and its tensor. value: a numpy array or scalar, or a TensorProto."""
    if value is None or isinstance(value, (list, tuple, dict)):
        raise NotTensors("an optional value" if value is None else "a sequence or map")
    if not isinstance(value, onnx.TensorProto):
        if not hasattr(value, "dtype"):
            raise NotTensors(f"a value of type {type(value).__name__}")
        if value.dtype.kind in "OUS":
            raise NotTensors("texts")
        value = onnx.numpy_helper.from_array(value)
    if value.data_type not in CODES:
        raise NotTensors("texts" if value.data_type == onnx.TensorProto.STRING
                         else f"ONNX dtype {value.data_type}")
    if not value.HasField("raw_data"):
        value = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(value))
    words = [kind, CODES[value.data_type], len(value.dims), *value.dims, name]
    return " ".join(map(str, words)).encode() + b"\n" + value.raw_data


def write_case(onnx, folder, model, sets, tolerance, dims=()):
    """sets: lists of ({input name: value}, {output name: value}). tolerance: relative, absolute, in
    units of the root mean square. dims: (name, size) of symbolic dimensions to fix."""
    parts = [f"tolerance {tolerance[0]} {tolerance[1]} {tolerance[2]}\n".encode()]
    parts += [f"option {name} {size}\n".encode() for name, size in dims]
    for inputs, outputs in sets:
        parts.append(b"set\n")
        parts += [tensor_entry(onnx, "input", name, value) for name, value in inputs.items()]
        parts += [tensor_entry(onnx, "output", name, value) for name, value in outputs.items()]
    folder.mkdir(parents=True, exist_ok=True)
    if model is not None:
        (folder / "model.onnx").write_bytes(model.SerializeToString())
    (folder / "values").write_bytes(b"".join(parts))
