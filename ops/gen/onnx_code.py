# SPDX-License-Identifier: Apache-2.0
"""Generated C++: the table of ONNX operators that the reader knows."""

import c_code
import onnx_source

_TOP = """\
// SPDX-License-Identifier: Apache-2.0
//
// Generated from ops/defs; edits are lost. One row for each range of operator sets in which an ONNX
// operator has the same attributes and inputs, by name.
#include "ops/onnx/node_import.hpp"

namespace bp::onnx {

"""

USES = {
    "field": "kField", "flag": "kFlag", "must_be": "kMustBe", "read": "kRead",
    "read_flag": "kReadFlag", "ignored": "kIgnored", "refused": "kRefused",
}


def rules_source(operators):
    rows = sorted(((row, op) for op in operators for row in op.onnx),
                  key=lambda pair: (pair[0].op, pair[0].since))
    converters = sorted({row.convert for row, _ in rows if row.convert})
    parts = [_TOP]
    parts += [f"Status convert_{name}(NodeImport* node);\n" for name in converters]
    parts.append("\nnamespace {\n")
    parts += [_attributes(row) for row, _ in rows if row.attributes]
    parts.append("\nconstexpr OpRule kRules[] = {\n")
    parts += [_rule(row, op) for row, op in rows]
    parts.append("};\n\n}  // namespace\n\n")
    parts.append("std::span<const OpRule> all_rules() { return kRules; }\n\n")
    parts.append("}  // namespace bp::onnx\n")
    return "".join(parts)


def _table_name(row):
    return f"k{row.op}{row.since}"


def _attributes(row):
    lines = []
    for attribute in row.attributes:
        cells = [c_code.string_literal(attribute.name), onnx_source.TYPES[attribute.type],
                 f"Use::{USES[attribute.use]}"]
        if attribute.field:
            cells.append(c_code.string_literal(attribute.field))
        if attribute.use == "must_be":
            cells += ["{}", c_code.i64_literal(attribute.value)]
        lines.append(f"    {{{', '.join(cells)}}},\n")
    return f"\nconstexpr AttributeRule {_table_name(row)}[] = {{\n{''.join(lines)}}};\n"


def _rule(row, op):
    fewest, most = row.inputs
    cells = [
        c_code.string_literal(row.op), str(row.since),
        "kAnyLater" if row.until == onnx_source.ANY else str(row.until), str(fewest),
        "SIZE_MAX" if most == onnx_source.ANY else str(most),
        "SIZE_MAX" if row.outputs == onnx_source.ANY else str(row.outputs),
        c_code.string_literal(op.name),
        _table_name(row) if row.attributes else "{}",
        f"convert_{row.convert}" if row.convert else "nullptr",
    ]
    return f"    {{{', '.join(cells)}}},\n"
