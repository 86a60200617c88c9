# SPDX-License-Identifier: Apache-2.0
"""Generated C: attribute structs, and operator calls over the C application API."""

import textwrap

HEADER = """\
/* SPDX-License-Identifier: Apache-2.0
 *
 * Generated from ops/defs; edits are lost.
"""

C_TYPES = {
    "i64": "int64_t", "bool": "int64_t", "dtype": "int64_t", "f64": "double",
    "str": "bp_str", "i64s": "bp_i64_span", "tensor": "const bp_tensor*",
}
SIZES_BYTES = {"str": 16, "i64s": 16}  # every other type: 8
FIRST_OFFSET_BYTES = 8  # after struct_size and flags


def attr_offsets(op):
    """(attribute, offset in bytes) of each member, and the size of the struct."""
    offset = FIRST_OFFSET_BYTES
    members = []
    for attribute in op.attributes:
        members.append((attribute, offset))
        offset += SIZES_BYTES.get(attribute.type, 8)
    return members, offset


def default_text(attribute):
    """A default for people: "1", "[]", "false"."""
    if attribute.required:
        return "required"
    if attribute.type == "bool":
        return "true" if attribute.default else "false"
    if attribute.type == "str":
        return f'"{attribute.default}"'
    return str(attribute.default)


def i64_literal(value):
    return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"


def string_literal(text):
    """A C literal of any text: bytes outside plain ASCII as octal, which ends by itself."""
    plain = "".join(
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}"
        for b in text.encode("utf-8")
    )
    return f'"{plain}"'


def comment(text, indent=""):
    lines = textwrap.wrap(text.replace("*/", "* /"), width=94 - len(indent))
    return f"\n{indent} * ".join([f"{indent}/* {lines[0]}", *lines[1:]]) + " */\n"


def dtype_macro(name):
    return f"BP_DTYPE_{name.upper()}"


# --- backplane/ops/<family>.h ---------------------------------------------------------------------


def families(operators):
    return sorted({op.family for op in operators})


def family_header(family, operators):
    """The attribute structs of one family, so that a kernel is not rebuilt for another's."""
    members = [op for op in operators if op.family == family]
    guard = f"BACKPLANE_OPS_{family.upper()}_H"
    parts = [
        HEADER,
        f"""\
 *
 * Ids and attributes of the {family} operators. What a struct of attributes promises: attributes.h.
 */
#ifndef {guard}
#define {guard}

#include <stddef.h>
#include <stdint.h>

#include "backplane/types.h"

#ifdef __cplusplus
#define BP_OPS_ASSERT(condition, text) static_assert(condition, text)
#else
#define BP_OPS_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* Ids of the operators: fixed for ever. */
""",
    ]
    parts += [f"#define BP_OP_{op.name.upper()} {op.id}u\n" for op in members]
    for op in members:
        if op.attributes:
            parts += [_struct(op), _struct_asserts(op), _defaults(op)]
    parts.append("\n#undef BP_OPS_ASSERT\n\n#endif\n")
    return "".join(parts)


def attributes_header(operators):
    """The umbrella, for applications; a kernel includes its family."""
    parts = [
        HEADER,
        """\
 *
 * One struct of attributes per operator, and the operators' ids, for all families. A struct is
 * versioned: it only grows at its end, and a reader takes members that its writer's struct_size
 * does not cover as their defaults. Pointers in it live as long as the struct. bool is 0 or 1;
 * dtype is BP_DTYPE_*; a tensor is contiguous in host memory.
 */
#ifndef BACKPLANE_OPS_ATTRIBUTES_H
#define BACKPLANE_OPS_ATTRIBUTES_H

""",
    ]
    parts += [f'#include "backplane/ops/{family}.h"\n' for family in families(operators)]
    parts.append("\n#endif\n")
    return "".join(parts)


def _struct(op):
    lines = [f"\n{comment(f'{op.name}: {op.doc}')}typedef struct bp_attrs_{op.name} {{\n"]
    lines.append("  uint32_t struct_size;\n  uint32_t flags; /* 0 */\n")
    for attribute in op.attributes:
        notes = [attribute.type, default_text(attribute) if attribute.required
                 else f"default {default_text(attribute)}"]
        if attribute.since > 1:
            notes.append(f"since version {attribute.since}")
        text = ", ".join(notes) + (f"; {attribute.doc}" if attribute.doc else "")
        lines.append(comment(text, "  "))
        lines.append(f"  {C_TYPES[attribute.type]} {attribute.name};\n")
    lines.append(f"}} bp_attrs_{op.name};\n\n")
    return "".join(lines)


def _struct_asserts(op):
    members, size = attr_offsets(op)
    struct = f"bp_attrs_{op.name}"
    lines = []
    for attribute, offset in members:
        lines.append(
            f"BP_OPS_ASSERT(offsetof({struct}, {attribute.name}) == {offset},\n"
            f'              "{struct}.{attribute.name} moved");\n'
        )
    lines.append(f'BP_OPS_ASSERT(sizeof({struct}) == {size}, "{struct} has gaps");\n\n')
    return "".join(lines)


def _defaults(op):
    required = [attribute.name for attribute in op.attributes if attribute.required]
    note = "All defaults"
    if required:
        note += f"; {', '.join(required)} must be set"
    struct = f"bp_attrs_{op.name}"
    lines = [
        comment(f"{note}."),
        f"static inline {struct} {struct}_defaults(void) {{\n",
        f"  {struct} result;\n",
        "  result.struct_size = (uint32_t)sizeof(result);\n  result.flags = 0;\n",
    ]
    for attribute in op.attributes:
        lines += [f"  {line}\n" for line in _default_lines(attribute)]
    lines.append("  return result;\n}\n")
    return "".join(lines)


def _default_lines(attribute):
    member, value = f"result.{attribute.name}", attribute.default
    if attribute.type == "tensor":
        return [f"{member} = NULL;"]
    if attribute.type == "f64":
        return [f"{member} = {0.0 if attribute.required else value!r};"]
    if attribute.type == "str":
        text = value or ""
        return [f"{member}.ptr = {string_literal(text)};",
                f"{member}.len = {len(text.encode('utf-8'))};"]
    if attribute.type == "i64s":
        if not value:
            return [f"{member}.ptr = NULL;", f"{member}.count = 0;"]
        items = ", ".join(i64_literal(item) for item in value)
        name = f"{attribute.name}_default"
        return [f"static const int64_t {name}[] = {{{items}}};",
                f"{member}.ptr = {name};", f"{member}.count = {len(value)};"]
    return [f"{member} = {i64_default(attribute)};"]


def i64_default(attribute):
    """The default of an i64, bool or dtype as a C expression of type int64_t."""
    if attribute.required:
        return "0"
    if attribute.type == "dtype":
        return f"(int64_t){dtype_macro(attribute.default)}"
    return i64_literal(int(attribute.default))


# --- ops.h ----------------------------------------------------------------------------------------


def calls_header(operators):
    parts = [
        HEADER,
        """\
 *
 * The operators as C functions over the one generic call bpa_op_call (backplane.h). Inputs stay the
 * caller's; NULL leaves an optional one out. What came after an operator's first version is a
 * member of its attributes, or given to bpa_op_call. attributes: NULL for all defaults. Each
 * output is a new tensor that the caller releases; on an error it is NULL. Errors and threads:
 * bpa_op_call.
 */
#ifndef BACKPLANE_OPS_H
#define BACKPLANE_OPS_H

#include "backplane/backplane.h"
#include "backplane/ops/attributes.h"

#ifdef __cplusplus
extern "C" {
#endif
""",
    ]
    parts += [_call(op) for op in operators if not op.constant]
    parts.append("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n")
    return "".join(parts)


def wrap_parameters(head, parameters, tail):
    """head(a, b, c)tail in at most 100 columns, broken after commas."""
    line = f"{head}({', '.join(parameters)}){tail}"
    if len(line.rstrip("\n")) <= 100:
        return line
    indent = " " * (len(head) - len(head.lstrip()) + 4)
    lines = [f"{head}("]
    for index, parameter in enumerate(parameters):
        text = parameter + ("," if index + 1 < len(parameters) else f"){tail}")
        if len(lines[-1]) + 1 + len(text) > 100 or lines[-1].endswith("("):
            lines.append(f"{indent}{text}")
        else:
            lines[-1] += f" {text}"
    return "\n".join(lines)


def call_doc(op):
    """One sentence on the operator plus what its inputs may be."""
    notes = [op.doc]
    for variable in op.types:
        notes.append(f"{variable.name}: {', '.join(variable.dtypes)}.")
    return " ".join(notes)


def _call(op):
    parameters = ["bpa_runtime* runtime"]
    if op.inputs[0].variadic:
        inputs, count, body = "inputs", "input_count", ""
        parameters += ["const bpa_tensor* const* inputs", "uint32_t input_count"]
    else:
        names = ", ".join(argument.name for argument in op.call_inputs)
        inputs, count = "inputs", f"{len(op.call_inputs)}u"
        body = f"  const bpa_tensor* const inputs[] = {{{names}}};\n"
        parameters += [f"const bpa_tensor* {argument.name}" for argument in op.call_inputs]
    if op.call_attributes:
        parameters.append(f"const bp_attrs_{op.name}* attributes")
    if op.outputs[0].variadic:
        parameters += ["bpa_tensor** out_outputs", "uint32_t output_count"]
    else:
        parameters += [f"bpa_tensor** out_{argument.name}" for argument in op.outputs]
    attributes = "attributes" if op.call_attributes else "NULL"
    call = f"bpa_op_call(runtime, BP_OP_{op.name.upper()}, {inputs}, {count}, {attributes}, 0,"
    head = wrap_parameters(f"static inline bpa_status bpa_{op.name}", parameters, " {\n")
    return f"\n{comment(call_doc(op))}{head}{body}{_call_tail(op, call)}}}\n"


def _call_tail(op, call):
    if op.outputs[0].variadic:
        return f"  return {call}\n                     out_outputs, output_count);\n"
    if len(op.outputs) == 1:
        return f"  return {call}\n                     out_{op.outputs[0].name}, 1u);\n"
    lines = [f"  bpa_tensor* outputs[{len(op.outputs)}] = {{NULL}};\n"]
    lines.append(f"  const bpa_status status = {call} outputs, {len(op.outputs)}u);\n")
    for index, argument in enumerate(op.outputs):
        lines.append(f"  *out_{argument.name} = outputs[{index}];\n")
    lines.append("  return status;\n")
    return "".join(lines)
