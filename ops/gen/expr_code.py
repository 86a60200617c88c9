# SPDX-License-Identifier: Apache-2.0
"""Generated C++: the rows with expressions as data (ops/expr/rows.hpp)."""

import c_code
from cpp_code import camel

_TOP = """\
// SPDX-License-Identifier: Apache-2.0
//
// Generated from ops/defs; edits are lost. The rows with expressions.
#include "ops/expr/rows.hpp"

namespace bp::expr {
namespace {

"""
CLASSES = {"float": "kFloat", "signed": "kSigned", "unsigned": "kUnsigned", "bool": "kBool"}
PARAMETERS = {"f64": "kF64", "i64": "kI64", "bool": "kBool"}


def rows_source(operators):
    found = [op for op in operators if op.expression]
    reductions = [op for op in operators if op.reduction]
    parts = [_TOP]
    parts += [_reduction_tables(op) for op in reductions]
    parts += [_tables(op) for op in found]
    parts.append("\nconstexpr Row kRows[] = {\n")
    parts += [_row(op) for op in found]
    parts.append("};\n")
    if reductions:  # C++ has no empty array
        parts.append("\nconstexpr ReductionRow kReductions[] = {\n")
        parts += [_reduction(op) for op in reductions]
        parts.append("};\n")
    parts.append("\n}  // namespace\n\n")
    parts.append("std::span<const Row> all_rows() { return kRows; }\n")
    parts.append("std::span<const ReductionRow> all_reductions() { return "
                 f"{'kReductions' if reductions else '{}'}; }}\n\n")
    parts.append("}  // namespace bp::expr\n")
    return "".join(parts)


def _bool(value):
    return "true" if value else "false"


def _parameters(op):
    """Numeric attributes, with their places in the struct."""
    return [(a, offset) for a, offset in c_code.attr_offsets(op)[0] if a.type in PARAMETERS]


def _tables(op):
    expression = op.expression
    lists = [
        ("std::string_view", "Dtypes", [f'"{dtype}"' for dtype in op.types[0].dtypes]),
        ("Argument", "Inputs", [f'{{"{a.name}", {_bool(a.dtype == "bool")}}}' for a in op.inputs]),
        ("Parameter", "Parameters",
         [f'{{"{a.name}", ParameterKind::{PARAMETERS[a.type]}, {offset}, '
          f"{float(a.default or 0)!r}}}" for a, offset in _parameters(op)]),
        ("Form", "Definition", _forms(expression.definition)),
        ("Form", "Kernel", _forms(expression.kernel)),
        ("std::string_view", "Exact", [f'"{fill}"' for fill in expression.exact]),
        ("std::string_view", "Precise", [f'"{fill}"' for fill in expression.precise]),
    ]
    return "".join(
        f"constexpr {kind} {_name(op, what)}[] = {{\n" + "".join(f"    {r},\n" for r in rows)
        + "};\n" for kind, what, rows in lists if rows)


def _forms(forms):
    return [f"{{Class::{CLASSES[kind]}, {c_code.string_literal(text)}}}"
            for kind, text in forms.items()]


def _name(op, what):
    return f"k{camel(op.name)}{what}"


def _row(op):
    expression = op.expression
    parameters = _name(op, "Parameters") if _parameters(op) else "{}"
    exact = _name(op, "Exact") if expression.exact else "{}"
    return (
        f'    {{.op = "{op.name}", .id = {op.id}, .dtypes = {_name(op, "Dtypes")},\n'
        f"     .inputs = {_name(op, 'Inputs')}, "
        f".gives_bool = {_bool(op.outputs[0].dtype == 'bool')},\n"
        f"     .parameters = {parameters}, .definition = {_name(op, 'Definition')},\n"
        f"     .kernel = {_name(op, 'Kernel')}, .ulps = {expression.ulps!r}, "
        f".half_ulps = {expression.half_ulps!r},\n"
        f"     .near_input = {_bool(expression.near_input)},\n"
        f"     .cases = {{.exact = {exact}, .precise = {_name(op, 'Precise')},\n"
        f"               .either_zero = {_bool(expression.either_zero)}, "
        f".least_different = {expression.least_different}}}}},\n"
    )


def _reduction_tables(op):
    dtypes = "".join(f'    "{dtype}",\n' for dtype in op.types[0].dtypes)
    forms = "".join(
        f"    {{Class::{CLASSES[kind]}, "
        + ", ".join(c_code.string_literal(texts[key])
                    for key in ("map", "start", "combine", "finish")) + "},\n"
        for kind, texts in op.reduction.forms.items())
    return (f"constexpr std::string_view {_name(op, 'Dtypes')}[] = {{\n{dtypes}}};\n"
            f"constexpr ReductionForm {_name(op, 'Forms')}[] = {{\n{forms}}};\n")


def _reduction(op):
    reduction = op.reduction
    return (
        f'    {{.op = "{op.name}", .id = {op.id}, .family = "{op.family}",\n'
        f"     .dtypes = {_name(op, 'Dtypes')}, .forms = {_name(op, 'Forms')}, "
        f".chooses = {_bool(reduction.chooses)},\n"
        f'     .exact = "{reduction.exact}", .precise = "{reduction.precise}", '
        f'.special = "{reduction.special}", '
        f".least_different = {reduction.least_different}}},\n"
    )
