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

/// The same for an input that may be absent, as it is if the list is empty.
template <class Sizes>
Tensor optional_sizes(const Sizes& sizes) {
  return sizes.size() == 0 ? Tensor() : host_sizes(sizes);
}

inline std::vector<const bpa_tensor*> handles_of(std::span<const Tensor> tensors) {
  std::vector<const bpa_tensor*> handles;
  for (const Tensor& tensor : tensors) handles.push_back(tensor.handle());
  return handles;
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
        parts += [_options(op), _call(op), _host_overloads(op), _list_overload(op)]
    parts.append("\n}  // namespace api\n}  // namespace bp\n\n#endif\n")
    return "".join(parts)


def _check_shape(op):
    """What no operator has yet has no C++ form yet; better no header than a wrong one."""
    if any(a.type == "tensor" for a in op.attributes):
        raise SourceError(f"operator '{op.name}': cpp_api.py writes no tensor attributes")


def _doc(text):
    lines = textwrap.wrap(text, width=96)
    return "".join(f"/// {line}\n" for line in lines)


def _optional_attributes(op):
    return [a for a in op.call_attributes if not a.required]


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


def _is_list(argument):
    """A list of i64 that is read on the host, which callers may write in place."""
    return bool(argument.host) and argument.dtype == "i64"


def _parameters(op, list_type=None):
    """Declarations of the parameters; list_type replaces the type of lists, or of what a variadic
    operator takes."""
    result = []
    for argument in op.call_inputs:
        if argument.variadic:
            result.append(f"{list_type or 'std::span<const Tensor>'} {argument.name}")
        elif not argument.optional:
            kind = list_type if list_type and _is_list(argument) else "const Tensor&"
            result.append(f"{kind} {argument.name}")
    for attribute in op.call_attributes:
        if attribute.required:
            result.append(f"{_PARAMETER_TYPES[attribute.type]} {attribute.name}")
    # Of two functions of one name only one may leave out all that tells them apart.
    told_apart = not list_type or any(_is_list(a) and not a.optional for a in op.call_inputs)
    for argument in op.call_inputs:
        if argument.optional and list_type and _is_list(argument):
            result.append(f"{list_type} {argument.name}" + (" = {}" if told_apart else ""))
            told_apart = True
        elif argument.optional:
            result.append(f"const Tensor& {argument.name} = {{}}")
    if _optional_attributes(op):
        result.append(f"const {camel(op.name)}Options& options = {{}}")
    result.append("const Stream& stream = {}")
    return result


def _attribute_lines(op):
    """Fills the C struct from parameters and options."""
    lines = [f"  bp_attrs_{op.name} attributes = bp_attrs_{op.name}_defaults();\n"]
    for attribute in op.call_attributes:
        value = attribute.name if attribute.required else f"options.{attribute.name}"
        if attribute.type == "i64s":
            value = f"detail::to_span({value})"
        elif attribute.type == "str":
            value = f"detail::to_str({value})"
        elif attribute.type == "bool":
            value = f"{value} ? 1 : 0"
        lines.append(f"  attributes.{attribute.name} = {value};\n")
    return lines


def _begin(op):
    """Several outputs come as one array, which callers take apart: auto [y, indices] = ..."""
    count = len(op.outputs)
    several = "std::vector<Tensor>" if op.outputs[0].variadic else f"std::array<Tensor, {count}>"
    return f"inline {'Tensor' if _has_one_output(op) else several} {op.name}"


def _has_one_output(op):
    return len(op.outputs) == 1 and not op.outputs[0].variadic


def _call(op):
    head = c_code.wrap_parameters(_begin(op), _parameters(op), " {\n")
    handles = "{" + ", ".join(f"{argument.name}.handle()" for argument in op.call_inputs) + "}"
    if op.inputs[0].variadic:
        handles = f"detail::handles_of({op.inputs[0].name})"
    body = _attribute_lines(op) if op.call_attributes else []
    attributes = "&attributes" if op.call_attributes else "nullptr"
    call = [f"BP_OP_{op.name.upper()}", handles, attributes, "stream"]
    function = "call_op" if _has_one_output(op) else f"call_op_outputs<{len(op.outputs)}>"
    if op.outputs[0].variadic:
        function, call = "call_op_counted", [*call, op.outputs[0].count]
    body.append(c_code.wrap_parameters(f"  return detail::{function}", call, ";\n"))
    return f"\n{_doc(c_code.call_doc(op))}{head}{''.join(body)}}}\n"


def _names(op):
    return [p.removesuffix(" = {}").split()[-1] for p in _parameters(op)]


def _host_overloads(op):
    """Sizes written in place, or held by the application, instead of a tensor."""
    makers = {a.name: "optional_sizes" if a.optional else "host_sizes"
              for a in op.call_inputs if _is_list(a)}
    if not makers:
        return ""
    parts = []
    for kind in ("std::span<const int64_t>", "std::initializer_list<int64_t>"):
        arguments = [f"detail::{makers[n]}({n})" if n in makers else n for n in _names(op)]
        head = c_code.wrap_parameters(_begin(op), _parameters(op, kind), " {\n")
        body = c_code.wrap_parameters(f"  return {op.name}", arguments, ";\n")
        parts.append(f"\n{head}{body}}}\n")
    return "".join(parts)


def _list_overload(op):
    """The inputs of a variadic operator written in place."""
    if not op.inputs[0].variadic:
        return ""
    kind = "std::initializer_list<Tensor>"
    head = c_code.wrap_parameters(_begin(op), _parameters(op, kind), " {\n")
    name = op.inputs[0].name
    first = f"std::span<const Tensor>({name}.begin(), {name}.size())"
    arguments = ", ".join([first, *_names(op)[1:]])
    return f"\n{head}  return {op.name}({arguments});\n}}\n"
