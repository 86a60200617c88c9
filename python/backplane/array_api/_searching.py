# SPDX-License-Identifier: Apache-2.0
"""Searching functions."""

from typing import Literal

from .. import _core, ops
from .._core import Tensor
from .._errors import InvalidArgumentError
from . import _arguments, _complex, _kinds, _views
from ._arguments import Scalar
from ._elementwise import operands
from ._indexing import as_index, gather, out_of_range

__all__ = ["argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where"]


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the largest value is, the first of equal ones; a NaN is taken before every number."""
    return _position("argmax", x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the smallest value is, the first of equal ones; a NaN is taken before every number."""
    return _position("argmin", x, axis, keepdims)


def _position(function: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    x = _arguments.tensor_of_kind(function, "x", x, _kinds.REAL)
    place = None if axis is None else _arguments.axis(function, axis, x.ndim)
    keepdims = _arguments.flag(function, "keepdims", keepdims)
    searched = _views.flat(x) if place is None else x
    if searched.shape[place or 0] == 0:
        raise InvalidArgumentError(f"{function}: argument 'x': no elements along the axis")
    compute = ops.argmax if function == "argmax" else ops.argmin
    found = compute(searched, axis=place or 0, keepdims=keepdims)
    if place is None:
        return _views.view(found, (1,) * x.ndim if keepdims else (), (0,) * x.ndim * keepdims)
    return found


def count_nonzero(
    x: Tensor,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Tensor:
    """How many elements are not 0."""
    x = _arguments.tensor_of_kind("count_nonzero", "x", x, _kinds.ANY)
    axes = _arguments.axes("count_nonzero", axis, x.ndim)
    keepdims = _arguments.flag("count_nonzero", "keepdims", keepdims)
    ones = _complex.cast(x, _core.bool).astype(_core.int64)
    return ops.reduce_sum(ones, axes=axes, keepdims=keepdims) if axes else ones


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The positions of the elements that are not 0, for each axis; in row-major order."""
    x = _arguments.tensor_of_kind("nonzero", "x", x, _kinds.ANY)
    if x.ndim == 0:
        raise InvalidArgumentError("nonzero: argument 'x': expected at least one dimension")
    found = ops.non_zero(_complex.cast(x, _core.bool) if _complex.is_complex(x) else x)
    return tuple(_views.taken(found, 0, i) for i in range(x.ndim))


def where(condition: Tensor, x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """x1 where the condition is true, else x2."""
    condition = _arguments.tensor_of_kind("where", "condition", condition, _kinds.BOOL)
    a, b = operands("where", x1, x2, _kinds.ANY)
    _arguments.on_one_device("where", condition=condition, x1=a, x2=b)
    _arguments.fit("where", condition=condition, x1=a, x2=b)
    if not (_complex.is_complex(a) or _complex.is_complex(b)):
        return ops.where(condition, a, b)
    return _complex.each_part(ops.where, condition, a, b)


def searchsorted(
    x1: Tensor,
    x2: Tensor | int | float,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Tensor | None = None,
) -> Tensor:
    """Where in the sorted x1 the values of x2 belong; NaN is above every number."""
    x1 = _arguments.tensor_of_kind("searchsorted", "x1", x1, _kinds.REAL)
    _arguments.choice("searchsorted", "side", side, ("left", "right"))
    if x1.ndim != 1:
        raise InvalidArgumentError(
            f"searchsorted: argument 'x1': expected one dimension, found the shape {x1.shape}"
        )
    _arguments.on_one_device("searchsorted", x1=x1, x2=x2, sorter=sorter)
    if sorter is not None:
        x1 = _sorted_by(x1, sorter)
    x2 = _arguments.operand("searchsorted", "x2", x2)
    dtype = _kinds.result_dtype("searchsorted", x1, x2)
    _arguments.of_kind("searchsorted", "x2", dtype, _kinds.REAL)
    _arguments.in_range("searchsorted", "x2", x2, dtype)
    values = x2 if isinstance(x2, Tensor) else _core.asarray(x2, dtype=dtype, device=x1.device)
    ordered, values = x1.astype(dtype, copy=False), values.astype(dtype, copy=False)
    return ops.searchsorted(ordered, values, right=side == "right")


def _sorted_by(x1: Tensor, sorter: Tensor) -> Tensor:
    sorter = _arguments.tensor_of_kind("searchsorted", "sorter", sorter, _kinds.INTEGRAL)
    if sorter.shape != x1.shape:
        raise InvalidArgumentError(
            f"searchsorted: argument 'sorter': expected the shape {x1.shape}, found {sorter.shape}"
        )
    with out_of_range("searchsorted", "sorter"):
        return gather(x1, as_index(sorter), 0)
