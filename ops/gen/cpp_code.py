# SPDX-License-Identifier: Apache-2.0
"""Generated C++: the schema tables that ops/ registers, and the oracle's table of evaluators."""

import c_code
import source

ATTR_TYPES = {
    "i64": "kI64", "f64": "kF64", "bool": "kBool", "dtype": "kDtype",
    "str": "kStr", "i64s": "kI64s", "tensor": "kTensor",
}

_TOP = """\
// SPDX-License-Identifier: Apache-2.0
//
// Generated from ops/defs; edits are lost. The schema row of every operator, as static data.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "backplane/ops/attributes.h"
#include "core/op/absorb.hpp"
#include "core/op/schema.hpp"
#include "ops/infer/rules.hpp"
#include "ops/parts.hpp"
#include "ops/register.hpp"

namespace bp {
namespace ops {

"""


def schemas_source(operators):
    parts = [_TOP]
    parts += sorted({line for op in operators for line in _declarations(op)})
    parts.append("\n}  // namespace ops\n\nnamespace {\n")
    for op in operators:
        parts += [_type_vars(op), _arguments(op, "inputs"), _arguments(op, "outputs"), _attrs(op)]
        parts.append(_infer_by_rule(op))
    parts.append("\nconstexpr OpSchema kSchemas[] = {\n")
    parts += [_schema(op) for op in operators]
    parts.append("};\n\n}  // namespace\n\n")
    parts.append("std::span<const OpSchema> all_schemas() { return kSchemas; }\n\n")
    parts += ["std::span<const OperatorPart> all_parts() {\n",
              "  static constexpr OperatorPart kParts[] = {\n",
              *(f'      {{"{op.name}", "{part}"}},\n' for op in operators for part in op.parts),
              '      {"", ""}};\n',
              "  return std::span(kParts).first(std::size(kParts) - 1);\n}\n\n"]
    parts.append("}  // namespace bp\n")
    return "".join(parts)


def _declarations(op):
    """The functions that stand in the family's folder."""
    if op.infer == source.OWN:
        yield (f"Status infer_{op.name}(const InferContext& context, "
               "std::span<TensorType> out_types);\n")
    if op.view:
        yield (
            f"ViewResult view_{op.view}(const InferContext& call, const Dims& x_strides,\n"
            "                       const Dims& out_sizes);\n"
        )
    if op.decompose:
        yield (f"Status decompose_{op.decompose}(const InferContext& context, "
               "GraphBuilder* graph);\n")
    if op.absorb:
        yield f"std::optional<Absorbed> absorb_{op.absorb}(const AbsorbContext& context);\n"


def _infer_by_rule(op):
    """The rule of a row as the function that the schema points to."""
    if op.infer == source.OWN:
        return ""
    names = [f"'{argument.name}'" for argument in op.inputs]
    struct = f"bp_attrs_{op.name}"
    if op.infer == source.LIKE:
        index = [argument.name for argument in op.inputs].index(op.like)
        call = f"ops::like_input(context, {index}, &out_types[0])"
    elif op.infer == "broadcast":
        words = "inputs " + " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        call = f'ops::broadcast_inputs(context, "{words}", &out_types[0])'
    else:
        given = f"ops::attrs<{struct}>(context.attributes)"
        call = (f"ops::reduce_input(context, {given}.axes,\n"
                f"                           {given}.keepdims != 0, &out_types[0])")
    return (f"\nStatus infer_{op.name}(const InferContext& context, "
            f"std::span<TensorType> out_types) {{\n  return {call};\n}}\n")


_EVALUATORS_TOP = """\
// SPDX-License-Identifier: Apache-2.0
//
// Generated from ops/defs; edits are lost. The oracle's function for every operator.
#include "backplane/ops/attributes.h"
#include "ops/expr/rows.hpp"
#include "ops/oracle/evaluators.hpp"

namespace bp::ops {

"""


def evaluators_source(operators):
    parts = [_EVALUATORS_TOP]
    parts += sorted({f"void evaluate_{op.oracle}(const OracleCall& call);\n" for op in operators
                     if not op.expression and not op.reduction})
    parts.append("\nnamespace {\n")
    parts += [f"\nvoid evaluate_{op.name}(const OracleCall& call) {{\n"
              f'  evaluate_expression(call, *expr::find_row("{op.name}"));\n}}\n'
              for op in operators if op.expression]
    parts += [f"\nvoid evaluate_{op.name}(const OracleCall& call) {{\n"
              f'  evaluate_reduction(call, *expr::find_reduction("{op.name}"),\n'
              f"                     attrs<bp_attrs_{op.name}>(call.attributes).axes);\n}}\n"
              for op in operators if op.reduction]
    parts.append("\nconstexpr OracleRow kRows[] = {\n")
    parts += [f"    {{BP_OP_{op.name.upper()}, evaluate_{op.oracle}}},\n" for op in operators]
    parts.append("};\n\n}  // namespace\n\n")
    parts.append("std::span<const OracleRow> all_evaluators() { return kRows; }\n\n")
    parts.append("}  // namespace bp::ops\n")
    return "".join(parts)


def camel(name):
    return "".join(part.capitalize() for part in name.split("_"))


def _bool(value):
    return "true" if value else "false"


def _table(kind, op, what, rows):
    """constexpr KIND kConvInputs[] = {...}; nothing for an empty list: C++ has no empty array."""
    if not rows:
        return ""
    body = "".join(f"    {row},\n" for row in rows)
    return f"\nconstexpr {kind} k{camel(op.name)}{what}[] = {{\n{body}}};\n"


def _span(op, what, rows):
    return f"k{camel(op.name)}{what}" if rows else "{}"


def _type_vars(op):
    rows = []
    for variable in op.types:
        bits = [f"BP_DTYPE_BIT({c_code.dtype_macro(dtype)})" for dtype in variable.dtypes]
        mask = " |\n         ".join(bits)
        rows.append(f'{{"{variable.name}",\n     {mask}}}')
    return _table("TypeVar", op, "TypeVars", rows)


def _arguments(op, what):
    arguments = getattr(op, what)
    variables = [variable.name for variable in op.types]
    attributes = [attribute.name for attribute in op.attributes]
    rows = []
    for argument in arguments:
        type_var = variables.index(argument.type_var) if argument.type_var else -1
        type_attr = attributes.index(argument.type_attr) if argument.type_attr else -1
        dtype = c_code.dtype_macro(argument.dtype) if argument.dtype else "BP_DTYPE_NONE"
        count = f", .count_attr = {attributes.index(argument.count)}" if argument.count else ""
        rows.append(
            f'{{.name = "{argument.name}", .id = {argument.id}, .since = {argument.since}, '
            f".type_var = {type_var}, .fixed_dtype = {dtype}, .type_attr = {type_attr},\n"
            f"     .optional = {_bool(argument.optional)}, .variadic = {_bool(argument.variadic)}, "
            f".host = HostNeed::{'kInfer' if argument.host else 'kNone'}{count}}}"
        )
    return _table("ArgSchema", op, what.capitalize(), rows)


def _attrs(op):
    lists, rows = [], []
    for attribute in op.attributes:
        default = ""
        if not attribute.required:
            default, values = _attr_default(op, attribute)
            lists.append(values)
        rows.append(
            f'{{.name = "{attribute.name}", .id = {attribute.id}, .since = {attribute.since}, '
            f".type = AttrType::{ATTR_TYPES[attribute.type]},\n"
            f"     .offset_bytes = offsetof(bp_attrs_{op.name}, {attribute.name}), "
            f".required = {_bool(attribute.required)}{default}}}"
        )
    return "".join(lists) + _table("AttrField", op, "Attrs", rows)


def _attr_default(op, attribute):
    """The default's member of AttrField, and the array it needs for a list."""
    if attribute.type == "f64":
        return f", .default_f64 = {attribute.default!r}", ""
    if attribute.type == "str":
        return f", .default_str = {c_code.string_literal(attribute.default)}", ""
    if attribute.type != "i64s":
        return f", .default_i64 = {c_code.i64_default(attribute)}", ""
    if not attribute.default:
        return "", ""
    name = f"k{camel(op.name)}{camel(attribute.name)}Default"
    items = ", ".join(c_code.i64_literal(item) for item in attribute.default)
    return f", .default_i64s = {name}", f"\nconstexpr int64_t {name}[] = {{{items}}};\n"


def _schema(op):
    size = f"sizeof(bp_attrs_{op.name})" if op.attributes else "0"
    infer = f"{'ops::' if op.infer == source.OWN else ''}infer_{op.name}"
    view = f"ops::view_{op.view}" if op.view else "nullptr"
    decompose = f"ops::decompose_{op.decompose}" if op.decompose else "nullptr"
    absorb = f"ops::absorb_{op.absorb}" if op.absorb else "nullptr"
    return (
        f'    {{.name = "{op.name}", .id = BP_OP_{op.name.upper()}, .version = {op.version},\n'
        f"     .type_vars = {_span(op, 'TypeVars', op.types)}, "
        f".inputs = {_span(op, 'Inputs', op.inputs)}, "
        f".outputs = {_span(op, 'Outputs', op.outputs)},\n"
        f"     .attrs = {_span(op, 'Attrs', op.attributes)}, .attrs_bytes = {size},\n"
        f"     .primitive = {_bool(op.primitive)}, .extents = {_bool(op.extents)}, "
        f".constant = {_bool(op.constant)},\n"
        f".of_types = {_bool(op.of_types)},\n"
        f"     .infer = {infer}, .view = {view},\n     .decompose = {decompose},\n"
        f"     .absorb = {absorb}}},\n"
    )
