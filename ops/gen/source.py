# SPDX-License-Identifier: Apache-2.0
"""Reads ops/defs strictly into plain objects.

Everything that is generated, and every plugin built against it, trusts these files: ids are fixed
for ever and lists only grow at their end. So a slip (an unknown key, an id out of order, a default
of the wrong type) is an error that names the row, never a guess.
"""

import dataclasses
import math
import pathlib
import re

import yaml

import expr_source
import onnx_source

# Codes stand in device_api/include/backplane/types.h; generated code uses the header's macros.
DTYPES = (
    "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128 "
    "f8e4m3fn f8e5m2 f8e4m3fnuz f8e5m2fnuz i4 u4"
).split()
ATTR_TYPES = ("i64", "f64", "bool", "dtype", "str", "i64s", "tensor")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
TYPE_VARIABLE = re.compile(r"[A-Z][A-Za-z0-9]*")
MAX_ATTRS = 64  # Attributes keeps one bit per field
I64_MIN, I64_MAX = -(2**63), 2**63 - 1

# Names become functions, members and parameters in C and in C++.
KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return
    co_yield decltype default delete do double dynamic_cast else enum explicit export extern
    false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires
    restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while xor xor_eq runtime attributes options flags
    struct_size""".split()
)


class SourceError(Exception):
    """A row of the source that cannot be taken; str() names it."""


@dataclasses.dataclass
class TypeVar:
    name: str
    dtypes: list  # names, in the order of their codes


@dataclasses.dataclass
class Argument:
    name: str
    id: int
    since: int
    type_var: str = ""  # exactly one of these three is set
    dtype: str = ""
    type_attr: str = ""
    optional: bool = False
    variadic: bool = False
    host: str = ""
    count: str = ""  # of a variadic output: the attribute that says how many there are
    doc: str = ""


@dataclasses.dataclass
class Attribute:
    name: str
    id: int
    since: int
    type: str
    required: bool
    default: object = None
    doc: str = ""


@dataclasses.dataclass
class Operator:
    name: str
    id: int
    family: str
    doc: str
    primitive: bool
    extents: bool
    constant: bool
    of_types: bool
    types: list
    inputs: list
    outputs: list
    attributes: list
    onnx: list  # OnnxRow
    infer: str  # a key of INFER_RULES, or OWN
    like: str  # the input whose sizes the output has, for infer "like"
    view: str  # view_<name> is the function; empty: never a view
    oracle: str  # evaluate_<name>
    decompose: str  # decompose_<name>; empty: none
    absorb: str  # absorb_<name>; empty: none
    parts: list  # the operators that the decomposition uses
    expression: object = None  # expr_source.Expression, for what is computed element by element
    reduction: object = None  # expr_source.Reduction

    @property
    def version(self):
        """The newest version: a version comes into being with the first thing that needs it."""
        return max(item.since for item in self.inputs + self.outputs + self.attributes)

    @property
    def call_inputs(self):
        """What the operator's functions in the APIs take: their signatures never change, so later
        inputs are given through the generic call."""
        return [argument for argument in self.inputs if argument.since == 1]

    @property
    def call_attributes(self):
        """Later attributes are members of a struct that is there, or for the generic call."""
        return self.attributes if any(a.since == 1 for a in self.attributes) else []


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses duplicate keys, which YAML otherwise resolves to the last one."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise SourceError(f"line {key_node.start_mark.line + 1}: key {key!r} is not a text")
            if key in seen:
                raise SourceError(f"line {key_node.start_mark.line + 1}: duplicate key '{key}'")
            seen.add(key)
        return super().construct_mapping(node, deep)


TYPES_FILE = "types.yaml"


def read_folder(folder):
    """The operators of a folder, by id. Each file but types.yaml is a family. Raises SourceError,
    with the file's name in front."""
    paths = sorted(pathlib.Path(folder).glob("*.yaml"))
    return parse_files({path.name: path.read_text(encoding="utf-8") for path in paths})


def parse_files(texts):
    """read_folder for texts by file name."""
    if TYPES_FILE not in texts:
        raise SourceError(f"{TYPES_FILE}: missing beside {', '.join(texts) or 'nothing'}")
    groups = _in_file(TYPES_FILE, lambda: _parse_groups(texts[TYPES_FILE]))
    operators = []
    for name, text in texts.items():
        if name != TYPES_FILE:
            family = name.removesuffix(".yaml")
            operators += _in_file(name, lambda: _parse_family(text, family, groups))
    _check_operators(operators)
    onnx_source.settle_ranges(operators, SourceError)
    return sorted(operators, key=lambda op: op.id)


def _in_file(name, parse):
    try:
        return parse()
    except SourceError as error:
        raise SourceError(f"{name}: {error}") from None


def _load(text):
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise SourceError(f"not YAML: {error}") from None


def _parse_groups(text):
    tree = _load(text)
    _take(tree, "the file", required={"groups": dict})
    return _read_groups(tree["groups"])


def _parse_family(text, family, groups):
    _check_name(family, "the file's name")
    tree = _load(text)
    _take(tree, "the file", required={"operators": list})
    if not tree["operators"]:
        raise SourceError("operators: there are none")
    return [_read_operator(row, f"operator number {index + 1}", family, groups)
            for index, row in enumerate(tree["operators"])]


def _check_operators(operators):
    names, ids = set(), {}
    for op in operators:
        where = f"operator '{op.name}'"
        if op.name in names:
            raise SourceError(f"{where}: the name is already taken")
        if op.id in ids:
            raise SourceError(f"{where}: id {op.id} is that of '{ids[op.id]}'; "
                              "a new operator needs a new id")
        names.add(op.name)
        ids[op.id] = op.name
    simple = {op.name for op in operators if op.primitive or op.view}
    for op in operators:
        for part in op.parts:
            if part not in simple:
                raise SourceError(f"operator '{op.name}': part '{part}' is neither a primitive nor "
                                  "a view")


def _take(row, where, required, optional=None):
    """Checks that a row is a map with these keys of these types and no others."""
    optional = optional or {}
    if not isinstance(row, dict):
        raise SourceError(f"{where}: expected a map, found {row!r}")
    for key, value in row.items():
        kind = required.get(key, optional.get(key))
        if kind is None:
            known = ", ".join(sorted([*required, *optional]))
            raise SourceError(f"{where}: unknown key '{key}'; known are {known}")
        # bool is an int to Python, and never to us.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            names = " or ".join(each.__name__ for each in kinds)
            raise SourceError(f"{where}: '{key}' must be of type {names}, found {value!r}")
    for key in required:
        if key not in row:
            raise SourceError(f"{where}: '{key}' is missing")


def _read_groups(rows):
    groups = {}
    for name, members in rows.items():
        where = f"group '{name}'"
        if not NAME.fullmatch(name) or name in DTYPES:
            raise SourceError(f"{where}: not a free lower-case name")
        groups[name] = _expand(members, groups, where)
    return groups


def _expand(entry, groups, where):
    """Dtype names of a dtype, a group or a list of them, without doubles, in order of code."""
    entries = entry if isinstance(entry, list) else [entry]
    found = set()
    for item in entries:
        if item in DTYPES:
            found.add(item)
        elif isinstance(item, str) and item in groups:
            found.update(groups[item])
        else:
            raise SourceError(f"{where}: '{item}' is neither a dtype nor a group above it")
    if not found:
        raise SourceError(f"{where}: no dtypes")
    return [dtype for dtype in DTYPES if dtype in found]


def _check_name(name, where):
    if not NAME.fullmatch(name):
        raise SourceError(f"{where}: '{name}' is not a lower-case name")
    if name in KEYWORDS:
        raise SourceError(f"{where}: '{name}' is a reserved word in the generated code")


def _check_text(row, where, *keys):
    for key in keys:
        if key in row and not row[key].strip():
            raise SourceError(f"{where}: '{key}' is empty")


_OPERATOR_FLAGS = ("primitive", "extents", "constant", "of_types")
# Rules that several operators share; each is a function of ops/infer/rules.hpp. Every operator with
# another rule has its own function infer_<operator> in the folder of its family.
INFER_RULES = ("broadcast", "reduce")
OWN = "own"
LIKE = "like"


def _read_operator(row, where, family, groups):
    if isinstance(row, dict) and isinstance(row.get("op"), str):
        where = f"operator '{row['op']}'"
    _take(
        row,
        where,
        required={
            "op": str, "id": int, "doc": str, "types": dict, "inputs": list, "outputs": list,
        },
        optional={"onnx": (str, list), "attributes": list, "infer": str, "like": str, "view": str,
                  "oracle": str, "decompose": str, "absorb": str,
                  "parts": list, "definition": (str, dict), "kernel": (str, dict),
                  "map": (str, dict), "start": (str, dict), "combine": (str, dict),
                  "finish": (str, dict), "ulps": (int, float), "half_ulps": (int, float),
                  "near": str, "cases": dict} | dict.fromkeys(_OPERATOR_FLAGS, bool),
    )
    _check_name(row["op"], where)
    _check_text(row, where, "doc")
    if "definition" in row or "combine" in row:
        if "oracle" in row:
            raise SourceError(f"{where}: the definition is the oracle")
        row = _completed(row)
    if not 0 < row["id"] < 2**32:
        raise SourceError(f"{where}: id {row['id']} is out of range")
    types = []
    for name, entry in row["types"].items():
        if not TYPE_VARIABLE.fullmatch(name):
            raise SourceError(f"{where}: type variable '{name}' does not begin with a capital")
        types.append(TypeVar(name, _expand(entry, groups, f"{where}, type variable '{name}'")))
    attributes = [_read_attribute(r, where, i) for i, r in enumerate(row.get("attributes", []))]
    inputs = [_read_argument(r, where, "input", i) for i, r in enumerate(row["inputs"])]
    outputs = [_read_argument(r, where, "output", i) for i, r in enumerate(row["outputs"])]
    op = Operator(
        name=row["op"], id=row["id"], family=family, doc=row["doc"].strip(), types=types,
        inputs=inputs, outputs=outputs, attributes=attributes, onnx=[],
        infer=LIKE if "like" in row else row.get("infer", OWN), like=row.get("like", ""),
        view=_function_of(row, "view", where), decompose=_function_of(row, "decompose", where),
        absorb=_function_of(row, "absorb", where),
        oracle=_function_of({"oracle": OWN} | row, "oracle", where), parts=row.get("parts", []),
        **{flag: row.get(flag, False) for flag in _OPERATOR_FLAGS},
    )
    _check_lists(op, where)
    _check_types(op, where)
    _check_counts(op, where)
    _check_flags(op, where)
    _check_inference(op, row, where)
    if bool(op.decompose) != bool(op.parts) and not op.of_types:
        raise SourceError(f"{where}: decompose and parts (the operators it uses) need each other")
    expressions = expr_source.ExpressionReader(_take, SourceError)
    op.expression = expressions.read(row, op, where)
    op.reduction = expressions.read_reduction(row, op, where)
    reader = onnx_source.OnnxReader(_take, SourceError)
    op.onnx = reader.rows(row.get("onnx", []), op, where)
    return op


def _completed(row):
    """What goes without saying where a row has a definition: sizes, and that it is a primitive."""
    if "combine" in row:
        return {"infer": "reduce", "primitive": True} | row
    inputs = row["inputs"]
    if "infer" not in row and "like" not in row and inputs:
        first = inputs[0].get("name", "") if isinstance(inputs[0], dict) else ""
        row = row | ({"like": first} if len(inputs) == 1 else {"infer": "broadcast"})
    return row | {"primitive": True}


def _function_of(row, key, where):
    """What stands behind view_, evaluate_, decompose_ or absorb_: the operator's name for `own`."""
    name = row.get(key, "")
    if key in row and not NAME.fullmatch(name):
        raise SourceError(f"{where}: {key} '{name}' is not a lower-case name")
    return row["op"] if name == OWN else name


def _check_inference(op, row, where):
    if "infer" in row and "like" in row:
        raise SourceError(f"{where}: infer and like exclude each other")
    if op.infer == LIKE and op.like not in [argument.name for argument in op.inputs]:
        raise SourceError(f"{where}: like '{op.like}' is not an input")
    if op.infer not in (*INFER_RULES, LIKE, OWN):
        raise SourceError(f"{where}: infer '{op.infer}'; known are {', '.join(INFER_RULES)}, {OWN}")
    if op.infer != OWN and (len(op.outputs) != 1 or any(a.host for a in op.inputs)):
        raise SourceError(f"{where}: infer '{op.infer}' is for one output and no host input")
    if op.infer != OWN and op.outputs and op.outputs[0].variadic:
        raise SourceError(f"{where}: a variadic output needs an inference of its own")
    if op.infer == "broadcast" and any(a.optional or a.variadic for a in op.inputs):
        raise SourceError(f"{where}: infer 'broadcast' is for a fixed number of inputs")
    if op.infer == "reduce":
        types = {attribute.name: attribute.type for attribute in op.attributes}
        if types.get("axes") != "i64s" or types.get("keepdims") != "bool":
            raise SourceError(f"{where}: infer 'reduce' needs the attributes axes (i64s) and "
                              "keepdims (bool)")


def _row_where(row, where, kind, index):
    if isinstance(row, dict) and isinstance(row.get("name"), str):
        return f"{where}, {kind} '{row['name']}'"
    return f"{where}, {kind} number {index + 1}"


def _read_argument(row, where, kind, index):
    where = _row_where(row, where, kind, index)
    optional = {"since": int, "doc": str}
    optional |= {"variadic": bool} | (
        {"optional": bool, "host": str} if kind == "input" else {"count": str})
    _take(row, where, required={"name": str, "id": int, "type": str}, optional=optional)
    _check_name(row["name"], where)
    _check_text(row, where, "doc")
    argument = Argument(
        name=row["name"], id=row["id"], since=row.get("since", 1),
        optional=row.get("optional", False), variadic=row.get("variadic", False),
        host=row.get("host", ""), count=row.get("count", ""), doc=row.get("doc", "").strip(),
    )
    kind_of_type = row["type"]
    if kind_of_type in DTYPES:
        argument.dtype = kind_of_type
    elif kind_of_type.startswith("attr:") and kind == "output":
        argument.type_attr = kind_of_type.removeprefix("attr:")
    else:
        argument.type_var = kind_of_type
    if argument.host not in ("", "infer"):
        raise SourceError(f"{where}: host '{argument.host}'; the only kind is infer")
    if argument.host and argument.dtype not in ("i64", "f32") and not argument.type_var:
        raise SourceError(f"{where}: a host argument must have the type i64 or f32, or a "
                          "variable's")
    if argument.optional and argument.variadic:
        raise SourceError(f"{where}: optional and variadic exclude each other")
    return argument


def _read_attribute(row, where, index):
    where = _row_where(row, where, "attribute", index)
    _take(
        row,
        where,
        required={"name": str, "id": int, "type": str},
        optional={"since": int, "doc": str, "default": object},
    )
    _check_name(row["name"], where)
    _check_text(row, where, "doc")
    if row["type"] not in ATTR_TYPES:
        raise SourceError(f"{where}: type '{row['type']}'; known are {', '.join(ATTR_TYPES)}")
    required = "default" not in row
    default = None if required else _check_default(row["type"], row["default"], where)
    return Attribute(
        name=row["name"], id=row["id"], since=row.get("since", 1), type=row["type"],
        required=required, default=default, doc=row.get("doc", "").strip(),
    )


def _is_i64(value):
    return isinstance(value, int) and not isinstance(value, bool) and I64_MIN <= value <= I64_MAX


def _check_default(kind, value, where):
    if kind == "tensor":
        raise SourceError(f"{where}: a tensor has no default")
    fits = {
        "i64": _is_i64(value),
        "f64": isinstance(value, float) and math.isfinite(value),
        "bool": isinstance(value, bool),
        "dtype": isinstance(value, str) and value in DTYPES,
        "str": isinstance(value, str),
        "i64s": isinstance(value, list) and all(_is_i64(item) for item in value),
    }[kind]
    if not fits:
        raise SourceError(f"{where}: default {value!r} is not of type {kind}")
    return value


def _check_lists(op, where):
    if len(op.attributes) > MAX_ATTRS:
        raise SourceError(f"{where}: more than {MAX_ATTRS} attributes")
    for kind, items in (("input", op.inputs), ("output", op.outputs), ("attribute", op.attributes)):
        names = set()
        for index, item in enumerate(items):
            at = f"{where}, {kind} '{item.name}'"
            if item.name in names:
                raise SourceError(f"{at}: the name is already taken")
            names.add(item.name)
            # Nothing is ever removed, so ids count from 1 without gaps.
            if item.id != index + 1:
                raise SourceError(
                    f"{at}: id {item.id}, expected {index + 1}: lists only grow at their end"
                )
            if item.since < (items[index - 1].since if index else 1):
                raise SourceError(f"{at}: since {item.since} is older than what stands before it")
        _check_growth(kind, items, where)
    clash = {a.name for a in op.inputs} & {a.name for a in op.outputs}
    if clash:
        raise SourceError(f"{where}: '{min(clash)}' names an input and an output")


def _check_growth(kind, items, where):
    """What old callers do not give must be possible to leave out."""
    seen_optional = False
    for index, item in enumerate(items):
        at = f"{where}, {kind} '{item.name}'"
        if kind == "attribute":
            if item.since > 1 and item.required:
                raise SourceError(f"{at}: added in version {item.since}, so it needs a default")
            continue
        if item.since > 1 and kind == "input" and not item.optional:
            raise SourceError(f"{at}: added in version {item.since}, so it must be optional")
        # The C call passes the caller's own array on, so nothing can stand before it.
        if item.variadic and len(items) != 1:
            raise SourceError(f"{at}: a variadic {kind} must be the only one")
        if seen_optional and not item.optional:
            raise SourceError(f"{at}: stands after an optional input, so it must be optional too")
        seen_optional = item.optional


def _check_counts(op, where):
    """How many outputs a call has is an attribute that every caller gives."""
    required = [a.name for a in op.attributes if a.type == "i64" and a.required]
    for output in op.outputs:
        named = output.count in required if output.variadic else not output.count
        if not named:
            raise SourceError(f"{where}, output '{output.name}': variadic and count, which names "
                              f"a required i64 attribute, need each other; found "
                              f"'{output.count}'")


def _check_types(op, where):
    bound = {argument.type_var for argument in op.inputs if argument.type_var}
    known = {variable.name for variable in op.types}
    for kind, arguments in (("input", op.inputs), ("output", op.outputs)):
        for argument in arguments:
            at = f"{where}, {kind} '{argument.name}'"
            if argument.type_var and argument.type_var not in known:
                raise SourceError(f"{at}: type '{argument.type_var}' is neither dtype nor variable")
            if kind == "output" and argument.type_var and argument.type_var not in bound:
                raise SourceError(f"{at}: no input binds the type variable '{argument.type_var}'")
            if argument.type_attr and not any(
                a.name == argument.type_attr and a.type in ("dtype", "tensor")
                for a in op.attributes
            ):
                raise SourceError(
                    f"{at}: '{argument.type_attr}' is not an attribute of type dtype or tensor"
                )
    unused = known - bound
    if unused:
        raise SourceError(f"{where}: no input has the type variable '{min(unused)}'")


def _check_flags(op, where):
    if not op.outputs:
        raise SourceError(f"{where}: no outputs")
    if op.view and not op.inputs:
        raise SourceError(f"{where}: a view needs an input")
    if op.of_types and (not op.decompose or op.parts):
        raise SourceError(f"{where}: of_types needs a decomposition into constants, without parts")
    if op.constant and op.inputs:
        raise SourceError(f"{where}: a constant has no inputs")
    if not op.constant and not op.inputs:
        raise SourceError(f"{where}: no inputs, and not marked constant")
