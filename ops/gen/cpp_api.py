# SPDX-License-Identifier: Apache-2.0
"""Generated C++ for applications: one function per operator over backplane.hpp.

Order of parameters: inputs that must be there, attributes that must be set, optional inputs, the
other attributes as one struct with defaults.
"""

import textwrap

import c_code
from cpp_code import camel
from source import SourceError

_TOP = """\
// SPDX-License-Identifier: Apache-2.0
//
// Generated from ops/defs; edits are lost.
//
// The operators as C++ functions. An empty Tensor leaves an optional input out. They run on the
// device of their inputs and throw bp::Error, whose words name the operator and the argument.
#ifndef BACKPLANE_OPS_HPP
#define BACKPLANE_OPS_HPP

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "backplane/backplane.hpp"
#include "backplane/ops/attributes.h"

namespace bp {
inline namespace api {
namespace detail {

inline bp_i64_span to_span(const std::vector<int64_t>& values) {
  return {values.data(), values.size()};
}

inline bp_str to_str(const std::string& text) { return {text.data(), text.size()}; }

/// The sizes that an operator reads on the host, as its input.
inline Tensor host_sizes(std::span<const int64_t> sizes) {
  const std::array<int64_t, 1> count{static_cast<int64_t>(sizes.size())};
  return Tensor::from_host<int64_t>(Device(), sizes, count);
}

inline Tensor host_sizes(std::initializer_list<int64_t> sizes) {
  return host_sizes(std::span<const int64_t>(sizes.begin(), sizes.size()));
}

}  // namespace detail
"""

_MEMBER_TYPES = {
    "i64": "int64_t", "bool": "bool", "dtype": "uint32_t", "f64": "double",
    "str": "std::string", "i64s": "std::vector<int64_t>",
}
_PARAMETER_TYPES = _MEMBER_TYPES | {
    "str": "const std::string&", "i64s": "const std::vector<int64_t>&",
}


def calls_header(operators):
    parts = [_TOP]
    for op in operators:
        if op.constant:
            continue
        _check_shape(op)
        parts += [_options(op), _call(op), _host_overloads(op)]
    parts.append("\n}  // namespace api\n}  // namespace bp\n\n#endif\n")
    return "".join(parts)


def _check_shape(op):
    """What no operator has yet has no C++ form yet; better no header than a wrong one."""
    if len(op.outputs) != 1 or op.inputs[0].variadic:
        raise SourceError(f"operator '{op.name}': cpp_api.py writes calls of one output and a "
                          "fixed number of inputs only")
    if any(a.type == "tensor" for a in op.attributes):
        raise SourceError(f"operator '{op.name}': cpp_api.py writes no tensor attributes")


def _doc(text):
    lines = textwrap.wrap(text, width=96)
    return "".join(f"/// {line}\n" for line in lines)


def _optional_attributes(op):
    return [a for a in op.attributes if not a.required]


def _options(op):
    attributes = _optional_attributes(op)
    if not attributes:
        return ""
    lines = [f"\nstruct {camel(op.name)}Options {{\n"]
    for attribute in attributes:
        note = f"  // {attribute.doc}" if attribute.doc else ""
        lines.append(
            f"  {_MEMBER_TYPES[attribute.type]} {attribute.name}{_initializer(attribute)};{note}\n"
        )
    lines.append("};\n")
    return "".join(lines)


def _initializer(attribute):
    value = attribute.default
    if attribute.type == "i64s":
        return "{" + ", ".join(c_code.i64_literal(item) for item in value) + "}"
    if attribute.type == "str":
        return " = " + c_code.string_literal(value)
    if attribute.type == "bool":
        return " = true" if value else " = false"
    if attribute.type == "dtype":
        return f" = {c_code.dtype_macro(value)}"
    return f" = {value!r}" if attribute.type == "f64" else f" = {c_code.i64_literal(value)}"


def _parameters(op, host_type=None):
    """Declarations of the parameters; host_type replaces the type of host inputs."""
    result = []
    for argument in op.inputs:
        if not argument.optional:
            kind = host_type if host_type and argument.host else "const Tensor&"
            result.append(f"{kind} {argument.name}")
    for attribute in op.attributes:
        if attribute.required:
            result.append(f"{_PARAMETER_TYPES[attribute.type]} {attribute.name}")
    result += [f"const Tensor& {argument.name} = {{}}" for argument in op.inputs
               if argument.optional]
    if _optional_attributes(op):
        result.append(f"const {camel(op.name)}Options& options = {{}}")
    result.append("const Stream& stream = {}")
    return result


def _attribute_lines(op):
    """Fills the C struct from parameters and options."""
    lines = [f"  bp_attrs_{op.name} attributes = bp_attrs_{op.name}_defaults();\n"]
    for attribute in op.attributes:
        value = attribute.name if attribute.required else f"options.{attribute.name}"
        if attribute.type == "i64s":
            value = f"detail::to_span({value})"
        elif attribute.type == "str":
            value = f"detail::to_str({value})"
        elif attribute.type == "bool":
            value = f"{value} ? 1 : 0"
        lines.append(f"  attributes.{attribute.name} = {value};\n")
    return lines


def _call(op):
    head = c_code.wrap_parameters(f"inline Tensor {op.name}", _parameters(op), " {\n")
    handles = ", ".join(f"{argument.name}.handle()" for argument in op.inputs)
    body = _attribute_lines(op) if op.attributes else []
    attributes = "&attributes" if op.attributes else "nullptr"
    call = [f"BP_OP_{op.name.upper()}", f"{{{handles}}}", attributes, "stream"]
    body.append(c_code.wrap_parameters("  return detail::call_op", call, ";\n"))
    return f"\n{_doc(c_code.call_doc(op))}{head}{''.join(body)}}}\n"


def _host_overloads(op):
    """Sizes written in place, or held by the application, instead of a tensor."""
    hosts = [argument.name for argument in op.inputs if argument.host and not argument.optional]
    if not hosts:
        return ""
    parts = []
    for kind in ("std::span<const int64_t>", "std::initializer_list<int64_t>"):
        names = [p.removesuffix(" = {}").split()[-1] for p in _parameters(op)]
        arguments = [f"detail::host_sizes({n})" if n in hosts else n for n in names]
        head = c_code.wrap_parameters(f"inline Tensor {op.name}", _parameters(op, kind), " {\n")
        parts.append(f"\n{head}  return {op.name}({', '.join(arguments)});\n}}\n")
    return "".join(parts)
