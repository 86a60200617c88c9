# SPDX-License-Identifier: Apache-2.0
"""Generated descriptions: ops.json, which every other script reads, and the operator reference."""

import json

import c_code

FORMAT = 1  # of ops.json; raised when a reader must change


def ops_json(operators):
    tree = {"ops_json": FORMAT, "operators": [_operator(op) for op in operators]}
    return json.dumps(tree, indent=1, ensure_ascii=True) + "\n"


def _operator(op):
    members, size = c_code.attr_offsets(op)
    return {
        "name": op.name,
        "id": op.id,
        "version": op.version,
        "family": op.family,
        "onnx": _onnx_name(op),
        "onnx_operators": sorted({row.op for row in op.onnx}),
        "doc": op.doc,
        "primitive": op.primitive,
        "view": bool(op.view),
        "decompose": bool(op.decompose),
        "parts": op.parts,
        "definition": op.expression.definition if op.expression else {},
        "extents": op.extents,
        "constant": op.constant,
        "of_types": op.of_types,
        "types": [{"name": v.name, "dtypes": v.dtypes} for v in op.types],
        "inputs": [_argument(a) for a in op.inputs],
        "outputs": [_argument(a) for a in op.outputs],
        "attributes_struct": f"bp_attrs_{op.name}" if op.attributes else "",
        "attributes_bytes": size if op.attributes else 0,
        "attributes": [
            {
                "name": a.name, "id": a.id, "since": a.since, "type": a.type,
                "offset_bytes": offset, "required": a.required, "default": a.default, "doc": a.doc,
            }
            for a, offset in members
        ],
    }


def _onnx_name(op):
    return op.onnx[0].op if op.onnx else ""


def _argument(argument):
    return {
        "name": argument.name, "id": argument.id, "since": argument.since,
        "type_var": argument.type_var, "dtype": argument.dtype, "type_attr": argument.type_attr,
        "optional": argument.optional, "variadic": argument.variadic, "host": argument.host,
        "count": argument.count, "doc": argument.doc,
    }


# --- operators.md ---------------------------------------------------------------------------------


def reference(operators):
    lines = [
        "# Operators",
        "",
        "Generated from `ops/defs`. \"How\" says what a device without its own kernel gets:",
        "what decomposes is run as the operators listed there if the device has a kernel for",
        "each that the call needs (`cast` for half types), else on the host device, like the rest;",
        "a view needs no kernel where strides can express it. Devices are expected to have the",
        "primitives.",
        "",
        "An axis counts from 0, a negative one from the end: an input of rank r has -r to r - 1,",
        "and one of rank 0 has none. `flatten` takes r as well; `perm` has no negative ones.",
        "A formula in this style is the operator's whole meaning, in C's operators and functions:",
        "integers wrap, `x / 0` of them is 0, `select(condition, a, b)` takes a or b, `fmod` has",
        "the sign of its first argument, in `min` and `max` NaN wins, `lowest` and `highest` are",
        "the ends of the type's order, `bits` its width. There is no contraction but by `fma`.",
        "A list names no axis twice. The core has checked this when a kernel is asked; it gets the",
        "numbers as the caller wrote them, negative ones too.",
        "",
        "| id | operator | ONNX | how | what it computes |",
        "|---|---|---|---|---|",
    ]
    for op in operators:
        lines.append(
            f"| {op.id} | [`{op.name}`](#{op.name}) | {_onnx_name(op)} | {_how(op)} "
            f"| {_cell(op.doc)} |"
        )
    for op in operators:
        lines += _section(op)
    return "\n".join(lines) + "\n"


def _how(op):
    words = [
        word
        for word, there in (
            ("primitive", op.primitive), ("view", op.view),
            ("decomposes into " + ", ".join(f"`{part}`" for part in op.parts), op.decompose),
            ("constant", op.constant), ("real extents", op.extents),
        )
        if there
    ]
    return ", ".join(words) or "host device"


def _cell(text):
    return text.replace("|", "\\|")


def _formulas(op):
    """The definition, once for each different text."""
    by_text = {}
    for kind, text in op.expression.definition.items():
        by_text.setdefault(text, []).append(kind)
    formulas = [f"`{text}`" if len(by_text) == 1 else f"`{text}` ({', '.join(kinds)})"
                for text, kinds in by_text.items()]
    return f"{op.outputs[0].name} = {'; '.join(formulas)}"


def _reduction_formulas(op):
    lines = []
    for kind, texts in op.reduction.forms.items():
        words = (f"each x becomes `{texts['map']}`; these are combined by `{texts['combine']}` "
                 f"from `{texts['start']}` on; the result is `{texts['finish']}`")
        lines.append(words if len(op.reduction.forms) == 1 else f"{kind}: {words}")
    return list(dict.fromkeys(lines))


def _section(op):
    lines = ["", f"## {op.name}", "", f"Version {op.version}, family {op.family}. {op.doc}", ""]
    if op.expression:
        lines += [_formulas(op), ""]
    if op.reduction:
        lines += ["; ".join(_reduction_formulas(op)) + ".", ""]
    lines += ["| | name | type | |", "|---|---|---|---|"]
    types = {variable.name: ", ".join(variable.dtypes) for variable in op.types}
    for kind, arguments in (("input", op.inputs), ("output", op.outputs)):
        for argument in arguments:
            notes = [word for word in ("optional", "variadic") if getattr(argument, word)]
            notes += [f"as many as `{argument.count}` says"] if argument.count else []
            notes += ["its value shapes the output"] if argument.host else []
            notes += [argument.doc] if argument.doc else []
            lines.append(
                f"| {kind} | `{argument.name}` | {_argument_type(argument, types)} "
                f"| {_cell('; '.join(notes))} |"
            )
    for attribute in op.attributes:
        default = "required" if attribute.required else f"default {c_code.default_text(attribute)}"
        notes = "; ".join(filter(None, [default, attribute.doc]))
        lines.append(f"| attribute | `{attribute.name}` | {attribute.type} | {_cell(notes)} |")
    return lines


def _argument_type(argument, types):
    if argument.type_var:
        return f"{argument.type_var}: {types[argument.type_var]}"
    return argument.dtype or f"the dtype of `{argument.type_attr}`"
