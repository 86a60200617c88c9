# SPDX-License-Identifier: Apache-2.0
"""Reads the `onnx` part of an operator's row: which ONNX operators it stands for, from which
operator set on, and what becomes of each of their attributes."""

import dataclasses

# Type words of a row, and what AttributeProto calls them (constants of ops/onnx/node_import.hpp).
TYPES = {
    "int": "kInt", "ints": "kInts", "float": "kFloat", "floats": "kFloats", "str": "kString",
    "strs": "kStrings", "tensor": "kTensor", "sparse_tensor": "kSparseTensor",
}
# Our attribute types that a rule can copy, with the ONNX type they are copied from.
COPIED = {"i64": "int", "bool": "int", "f64": "float", "str": "str", "i64s": "ints"}
TYPED_USES = ("read", "ignored", "refused")
OLDEST_SET = 7
ANY = "any"


@dataclasses.dataclass
class OnnxAttribute:
    name: str
    type: str  # a key of TYPES
    use: str  # a key of onnx_code.USES
    field: str = ""  # our attribute, for field and flag
    value: int = 0  # for must_be


@dataclasses.dataclass
class OnnxRow:
    op: str  # ONNX's name
    since: int
    inputs: tuple  # (fewest, most); most is ANY without a limit
    outputs: object  # the most that are read, or ANY
    attributes: list
    convert: str = ""  # convert_<name> of ops/onnx/; empty: our operator with the fields set
    until: object = ANY  # the last operator set, or ANY


class OnnxReader:
    """One row's `onnx`. take and error are source.py's, so that both report alike."""

    def __init__(self, take, error):
        self._take = take
        self._error = error

    def rows(self, entry, op, where):
        """`onnx: Relu` is short for one row without attributes since the oldest operator set."""
        if isinstance(entry, str):
            entry = [{"op": entry, "since": OLDEST_SET}]
        return [self._row(row, op, f"{where}, onnx row {i + 1}") for i, row in enumerate(entry)]

    def _row(self, row, op, where):
        self._take(row, where, required={"op": str, "since": int},
                   optional={"inputs": list, "outputs": (int, str), "convert": str,
                             "attributes": dict})
        if not row["op"].isidentifier():
            raise self._error(f"{where}: '{row['op']}' is not the name of an ONNX operator")
        where = f"{where} ('{row['op']}')"
        if row["since"] < OLDEST_SET:
            raise self._error(f"{where}: since {row['since']}; the oldest operator set that is "
                              f"read is {OLDEST_SET}")
        convert = row.get("convert", "")
        if convert and not convert.isidentifier():
            raise self._error(f"{where}: convert '{convert}' is not a function's name")
        attributes = [self._attribute(name, use, op, where)
                      for name, use in sorted(row.get("attributes", {}).items())]
        return OnnxRow(op=row["op"], since=row["since"], inputs=self._inputs(row, op, where),
                       outputs=self._outputs(row, op, convert, where), attributes=attributes,
                       convert=convert)

    def _inputs(self, row, op, where):
        if "inputs" not in row:
            if op.inputs and op.inputs[0].variadic:
                return 1, ANY
            return sum(not argument.optional for argument in op.inputs), len(op.inputs)
        found = row["inputs"]
        fits = len(found) == 2 and all(type(item) is int and item >= 0 for item in found[:1]) and (
            found[1] == ANY or (type(found[1]) is int and found[1] >= found[0]))
        if not fits:
            raise self._error(f"{where}: inputs {found}; expected [fewest, most], most a number "
                              f"or {ANY}")
        return tuple(found)

    def _outputs(self, row, op, convert, where):
        counted = op.outputs[0].variadic
        most = row.get("outputs", ANY if counted else len(op.outputs))
        if most != ANY and (type(most) is not int or most < 1):
            raise self._error(f"{where}: outputs {most!r}; expected a number from 1 or {ANY}")
        if not convert and (counted or most != len(op.outputs)):
            raise self._error(f"{where}: outputs {most!r} need a converter; '{op.name}' has "
                              f"{len(op.outputs)}")
        return most

    def _attribute(self, name, use, op, where):
        at = f"{where}, attribute '{name}'"
        if isinstance(use, str):
            return self._copied(name, use, op, at)
        if not isinstance(use, dict) or len(use) != 1:
            raise self._error(f"{at}: expected the name of our attribute, or a map of one of "
                              f"must_be, {', '.join(TYPED_USES)}; found {use!r}")
        (kind, value), = use.items()
        if kind == "must_be":
            if type(value) is not int:
                raise self._error(f"{at}: must_be {value!r} is not a whole number")
            return OnnxAttribute(name, "int", kind, value=value)
        if kind not in TYPED_USES:
            raise self._error(f"{at}: unknown key '{kind}'; known are must_be, "
                              f"{', '.join(TYPED_USES)}")
        if (kind, value) == ("read", "bool"):
            return OnnxAttribute(name, "int", "read_flag")
        if value not in TYPES:
            raise self._error(f"{at}: type {value!r}; known are {', '.join(TYPES)}")
        return OnnxAttribute(name, value, kind)

    def _copied(self, name, field, op, at):
        ours = {attribute.name: attribute for attribute in op.attributes}.get(field)
        if ours is None:
            raise self._error(f"{at}: '{field}' is not an attribute of '{op.name}'")
        if ours.type not in COPIED:
            raise self._error(f"{at}: '{field}' has the type {ours.type}, which is not copied; "
                              "read it in a converter")
        use = "flag" if ours.type == "bool" else "field"
        return OnnxAttribute(name, COPIED[ours.type], use, field=field)


def settle_ranges(operators, error):
    """Each row holds until the next one of its ONNX operator begins."""
    by_name = {}
    for op in operators:
        for row in op.onnx:
            by_name.setdefault(row.op, []).append((row, op))
    for name, found in by_name.items():
        found.sort(key=lambda pair: pair[0].since)
        for (row, op), (later, _) in zip(found, found[1:]):
            if row.since == later.since:
                raise error(f"operator '{op.name}', onnx '{name}': two rows since {row.since}")
            row.until = later.since - 1
