# SPDX-License-Identifier: Apache-2.0
"""Generated Python: the table of operators behind _core.call_operator, and backplane/ops.py, one
function per operator.

Order of parameters as in cpp_api.py: inputs that must be there, attributes that must be set,
optional inputs, and by keyword only the other attributes. Python tells parameters apart by name, so
what came in a later version is among them.
"""

import keyword
import textwrap

import c_code
from cpp_code import camel
from source import SourceError

# --- the table ------------------------------------------------------------------------------------

_ROWS_TOP = """\
// SPDX-License-Identifier: Apache-2.0
//
// Generated from ops/defs; edits are lost.
#include <cstddef>

#include "backplane/ops/attributes.h"
#include "ops_table.hpp"

namespace bp::python {
namespace {

template <class Attributes, Attributes (*Defaults)()>
void write_defaults(void* out_attributes) {
  *static_cast<Attributes*>(out_attributes) = Defaults();
}
"""

_KINDS = {
    "i64": "kI64", "f64": "kF64", "bool": "kBool", "dtype": "kDtype", "str": "kStr",
    "i64s": "kI64s",
}


def _callable(operators):
    return [op for op in operators if not op.constant]


def rows_source(operators):
    """C++: what call_operator knows of each operator, by id."""
    parts = [_ROWS_TOP]
    for op in _callable(operators):
        _check(op)
        parts += [_input_rows(op), _attribute_rows(op)]
    rows = "".join(_row(op) for op in _callable(operators))
    parts.append(f"\nconstexpr OperatorRow kRows[] = {{\n{rows}}};\n")
    parts.append("\n}  // namespace\n\n"
                 "std::span<const OperatorRow> operator_rows() { return kRows; }\n\n"
                 "}  // namespace bp::python\n")
    return "".join(parts)


def _check(op):
    """What no operator has yet has no Python form yet; better none than a wrong one."""
    where = f"operator '{op.name}'"
    if any(a.type == "tensor" for a in op.attributes):
        raise SourceError(f"{where}: python_api.py writes no tensor attributes")
    names = [op.name] + [item.name for item in op.inputs + op.attributes]
    taken = [name for name in names if keyword.iskeyword(name) or name in ("op", "device")]
    if taken:
        raise SourceError(f"{where}: '{taken[0]}' is no name of a parameter in Python")


def _input_rows(op):
    lines = [f"\nconstexpr InputRow k{camel(op.name)}Inputs[] = {{\n"]
    variables = [variable.name for variable in op.types]
    for argument in op.inputs:
        variable = variables.index(argument.type_var) if argument.type_var else -1
        dtype = c_code.dtype_macro(argument.dtype) if argument.dtype else "BP_DTYPE_NONE"
        flags = [f".is_{word} = true"
                 for word in ("optional", "variadic", "host") if getattr(argument, word)]
        fields = [f'.name = "{argument.name}"', f".dtype = {dtype}", f".variable = {variable}"]
        lines.append(f"    {{{', '.join(fields + flags)}}},\n")
    return "".join(lines) + "};\n"


def _attribute_rows(op):
    if not op.attributes:
        return ""
    lines = [f"constexpr AttributeRow k{camel(op.name)}Attributes[] = {{\n"]
    for attribute, offset in c_code.attr_offsets(op)[0]:
        required = ", .is_required = true" if attribute.required else ""
        lines.append(f'    {{.name = "{attribute.name}", '
                     f".kind = AttributeKind::{_KINDS[attribute.type]}, .offset = {offset}"
                     f"{required}}},\n")
    return "".join(lines) + "};\n"


def _row(op):
    struct = f"bp_attrs_{op.name}"
    fields = [f".id = BP_OP_{op.name.upper()}", f'.name = "{op.name}"',
              f".inputs = k{camel(op.name)}Inputs"]
    if op.attributes:
        fields += [f".attributes = k{camel(op.name)}Attributes",
                   f".attributes_bytes = sizeof({struct})",
                   f".write_defaults = write_defaults<{struct}, {struct}_defaults>"]
    if op.outputs[0].variadic:
        index = [a.name for a in op.attributes].index(op.outputs[0].count)
        fields.append(f".counting_attribute = {index}")
    else:
        fields.append(f".output_count = {len(op.outputs)}")
    if op.extents:
        fields.append(".has_extents = true")
    return "    {" + ",\n     ".join(fields) + "},\n"


# --- the module -----------------------------------------------------------------------------------

_MODULE_TOP = '''\
# SPDX-License-Identifier: Apache-2.0
# Generated from ops/defs; edits are lost.
"""The library's own operators, one function each, on the device of their inputs.

Nothing is converted on the way: tensors of one type variable (T below) have one dtype. A Python
number beside a tensor becomes a tensor of its dtype; lists of numbers stand for inputs whose values
shape the result. An operator without any tensor runs on the default device, or on ``device``.

Raises TypeError for an argument of a wrong type; InvalidArgumentError, a ValueError, for a wrong
value, dtype, shape or device; UnsupportedError where no kernel takes the dtypes; OutOfMemoryError.
The words name operator and argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Optional, Union

from ._core import Device, Dtype, Tensor, call_operator

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Sequence

    _Number = Union[builtins.bool, int, float, complex]
    _Value = Union[Tensor, _Number]
    _Numbers = Union[Tensor, int, float, Sequence[int], Sequence[float]]
    _Ints = Union[int, Sequence[int]]
    _DtypeLike = Union[Dtype, str, type]

_call: Callable[..., Tensor] = call_operator
_call_many: Callable[..., tuple[Tensor, ...]] = call_operator
'''

_ANNOTATIONS = {
    "i64": "int", "f64": "float", "bool": "builtins.bool", "dtype": "_DtypeLike", "str": "str",
    "i64s": "_Ints",
}
# As the dtypes of the package are called.
_DTYPE_NAMES = {
    "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz",
    "c64": "complex64", "c128": "complex128",
}
_LONG_NAMES = {"i": "int", "u": "uint", "f": "float"}


def _dtype_name(name):
    if name in _DTYPE_NAMES or name == "bool":
        return _DTYPE_NAMES.get(name, name)
    return _LONG_NAMES[name[0]] + name[1:]


def module_source(operators):
    """Python: backplane/ops.py."""
    parts = [_MODULE_TOP]
    for op in _callable(operators):
        parts += [_result_class(op), _function(op)]
    names = "".join(f'    "{op.name}",\n' for op in _callable(operators))
    parts.append(f"\n\n__all__ = [\n{names}]\n")
    return "".join(parts)


def _has_class(op):
    return len(op.outputs) > 1


def _result_class(op):
    if not _has_class(op):
        return ""
    fields = "".join(f"    {output.name}: Tensor\n" for output in op.outputs)
    return (f"\n\nclass {camel(op.name)}Result(NamedTuple):\n"
            f'    """What {op.name} answers."""\n\n{fields}')


def _returns(op):
    if op.outputs[0].variadic:
        return "tuple[Tensor, ...]"
    return f"{camel(op.name)}Result" if _has_class(op) else "Tensor"


def _all_host(op):
    return all(argument.host for argument in op.inputs)


def _parameters(op):
    result = []
    for argument in op.inputs:
        if argument.variadic:
            result.append(f"{argument.name}: Sequence[_Value]")
        elif not argument.optional:
            result.append(f"{argument.name}: {_input_annotation(argument)}")
    for attribute in op.attributes:
        if attribute.required:
            result.append(f"{attribute.name}: {_ANNOTATIONS[attribute.type]}")
    for argument in op.inputs:
        if argument.optional:
            result.append(f"{argument.name}: Optional[{_input_annotation(argument)}] = None")
    by_keyword = [f"{a.name}: {_ANNOTATIONS[a.type]} = {_default(a)}"
                  for a in op.attributes if not a.required]
    if _all_host(op):
        by_keyword.append("device: Union[Device, str, None] = None")
    return result + ["*", *by_keyword] if by_keyword else result


def _input_annotation(argument):
    return "_Numbers" if argument.host else "_Value"


def _default(attribute):
    return repr(tuple(attribute.default) if attribute.type == "i64s" else attribute.default)


def _function(op):
    head = c_code.wrap_parameters(f"def {op.name}", _parameters(op), f" -> {_returns(op)}:\n")
    arguments = [str(op.id)]
    arguments += [f"*{a.name}" if a.variadic else a.name for a in op.inputs]
    arguments += [f"{a.name}={a.name}" for a in op.attributes]
    if _all_host(op):
        arguments.append("device=device")
    function = "_call_many" if op.outputs[0].variadic else "_call"
    call = c_code.wrap_parameters(f"    return {function}", arguments, "\n")
    if _has_class(op):
        head_of_call = f"    return {_returns(op)}._make(_call_many"
        call = c_code.wrap_parameters(head_of_call, arguments, ")\n")
    return f"\n\n{head}{_docstring(op)}{call}"


def _docstring(op):
    lines = textwrap.wrap(op.doc, width=96)
    inputs = [_entry(a.name, [_type_of(a), *_notes_of_input(a), a.doc]) for a in op.inputs]
    attributes = [_entry(a.name, [a.type, _default_note(a), a.doc]) for a in op.attributes]
    outputs = [_entry(a.name, [_type_of(a), _note_of_count(a), a.doc]) for a in op.outputs]
    for title, entries in (("Inputs", inputs), ("Attributes", attributes), ("Returns", outputs)):
        if entries:
            lines += ["", f"{title}:", *[line for entry in entries for line in entry]]
    types = [_entry(v.name, [", ".join(map(_dtype_name, v.dtypes))]) for v in op.types]
    if types:
        lines += ["", "Dtypes:", *[line for entry in types for line in entry]]
    text = "\n".join(f"    {line}" if line else "" for line in lines).strip()
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'    """{text}\n    """\n' if len(lines) > 1 else f'    """{text}"""\n'


def _entry(name, notes):
    text = f"{name}: " + "; ".join(note for note in notes if note)
    return textwrap.wrap(text, width=96, initial_indent="    ", subsequent_indent="        ")


def _type_of(argument):
    if argument.type_var:
        return argument.type_var
    return _dtype_name(argument.dtype) if argument.dtype else f"the dtype '{argument.type_attr}'"


def _notes_of_input(argument):
    notes = {"optional": "optional", "variadic": "any number of them",
             "host": "numbers, or a tensor that is read on the host"}
    return [text for flag, text in notes.items() if getattr(argument, flag)]


def _note_of_count(argument):
    return f"as many as '{argument.count}' says" if argument.count else ""


def _default_note(attribute):
    return "must be given" if attribute.required else f"default {_default(attribute)}"
