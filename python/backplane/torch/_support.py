# SPDX-License-Identifier: Apache-2.0
"""Which nodes of an aten graph a session can be asked for."""

import operator

import torch
from torch.utils import _pytree

from ._decompositions import is_plain_attention
from ._export import is_size


def _tensors_of(node):
    values = node.meta.get("val")
    for value in values if isinstance(values, (list, tuple)) else (values,):
        if isinstance(value, torch.Tensor):
            yield value


def _reason_of_tensor(value):
    if value.device.type != "cpu":
        return f"a tensor on {value.device}, expected one on cpu"
    if value.layout != torch.strided:
        return f"a tensor of layout {value.layout}"
    if value.dtype.is_complex:
        return f"{value.dtype} has no ONNX operators"
    if value.is_quantized:
        return f"a quantised tensor of {value.dtype}"
    return None


_aten = torch.ops.aten
_DIVISIONS = (_aten.floor_divide, _aten.remainder, _aten.fmod, _aten.div)


def _may_divide_by_zero(node):
    """Whether integers are divided, as integers, by what is not known before."""
    if node.target.overloadpacket not in _DIVISIONS or node.meta["val"].dtype.is_floating_point:
        return False
    divisor = node.args[1]
    return not is_size(divisor) if isinstance(divisor, torch.fx.Node) else divisor == 0


# Their forms in ONNX have numbers in them that the graph has not.
_WITH_NUMBERS = (
    _aten.deg2rad, _aten.hardsigmoid, _aten.linalg_vector_norm, _aten.log10, _aten.log2,
    _aten.rad2deg, _aten.sinc,
)


def _is_single(number):
    """Whether float32 holds it."""
    return number != number or torch.tensor(number, dtype=torch.float32).item() == number


def _loses_digits(node):
    """Whether a number takes part in a float64 that the exporter, which has float32, rounds."""
    values = (v for n in (node, *node.all_input_nodes) for v in _tensors_of(n))
    if not any(value.dtype == torch.float64 for value in values):
        return False
    numbers = _pytree.tree_leaves((node.args, node.kwargs))
    rounded = any(isinstance(n, float) and not _is_single(n) for n in numbers)
    return rounded or node.target.overloadpacket in _WITH_NUMBERS


# What the exporter reads over, and nobody would hear of.
_IGNORED = {_aten.avg_pool2d: "divisor_override", _aten.avg_pool3d: "divisor_override"}


def _ignored_argument(node):
    """The name of one that is given, or None."""
    name = _IGNORED.get(node.target.overloadpacket)
    names = [argument.name for argument in node.target._schema.arguments]
    given = {**dict(zip(names, node.args)), **node.kwargs}
    return name if given.get(name) is not None else None


def reason_against(node, refused):
    """Why torch has to compute a node, or None. `refused`: by operator, what was found out."""
    if node.op == "get_attr":
        return None
    if node.op != "call_function":
        return f"a node of kind {node.op}"
    if node.target is operator.getitem or is_size(node):
        return None
    if not isinstance(node.target, torch._ops.OpOverload):
        return "not an aten operator"
    if str(node.target) in refused:
        return refused[str(node.target)]
    if torch.Tag.nondeterministic_seeded in node.target.tags and not is_plain_attention(node):
        return "it draws random numbers, as torch's generator says"
    if _may_divide_by_zero(node):
        return "torch raises where integers are divided by 0, and devices do not"
    if _loses_digits(node):
        return "the ONNX exporter rounds its numbers to float32, and it computes with float64"
    if (ignored := _ignored_argument(node)) is not None:
        return f"the ONNX exporter leaves out the argument {ignored!r}"
    for value in (v for n in (node, *node.all_input_nodes) for v in _tensors_of(n)):
        reason = _reason_of_tensor(value)
        if reason is not None:
            return reason
    return None
