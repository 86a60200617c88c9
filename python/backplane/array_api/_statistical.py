# SPDX-License-Identifier: Apache-2.0
"""Statistical functions.

The largest and the smallest of no elements are what no element is beyond: -inf and inf, or the
limits of the integers.
"""

import builtins
import math
from collections.abc import Callable

from .. import _core, ops
from .._core import Tensor
from . import _arguments, _complex, _kinds, _manipulation
from ._arguments import DtypeLike

__all__ = [
    "cumulative_prod",
    "cumulative_sum",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

Axes = int | tuple[int, ...] | None


def _accumulated(function: str, x: Tensor, dtype: DtypeLike | None) -> Tensor:
    """Brought to the dtype asked for; without one, integers to 64 bits."""
    x = _arguments.tensor_of_kind(function, "x", x, _kinds.NUMERIC)
    if dtype is not None:
        wanted = _arguments.dtype(function, dtype)
    elif x.dtype in _kinds.SIGNED.dtypes:
        wanted = _core.int64
    elif x.dtype in _kinds.UNSIGNED.dtypes:
        wanted = _core.uint64
    else:
        wanted = x.dtype
    _arguments.of_kind(function, "dtype", wanted, _kinds.NUMERIC)
    return _complex.cast(x, wanted, function)


def _reduced(
    function: str, x: Tensor, axis: Axes, keepdims: bool, compute: Callable[..., Tensor]
) -> Tensor:
    axes = _arguments.axes(function, axis, x.ndim)
    keepdims = _arguments.flag(function, "keepdims", keepdims)
    if _complex.is_complex(x):
        return _complex.reduced(function, x, axes, keepdims)
    if not axes:  # which the operators take for all of them
        return x.copy()
    return compute(x, axes=axes, keepdims=keepdims)


def sum(
    x: Tensor, /, *, axis: Axes = None, dtype: DtypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The sum over axes; of nothing 0."""
    x = _accumulated("sum", x, dtype)
    return _reduced("sum", x, axis, keepdims, ops.reduce_sum)


def added(function: str, x: Tensor, dtype: DtypeLike | None) -> Tensor:
    """sum() along the last axis, in the words of another function."""
    return sum(_accumulated(function, x, dtype), axis=-1)


def prod(
    x: Tensor, /, *, axis: Axes = None, dtype: DtypeLike | None = None, keepdims: bool = False
) -> Tensor:
    """The product over axes; of nothing 1."""
    x = _accumulated("prod", x, dtype)
    return _reduced("prod", x, axis, keepdims, ops.reduce_prod)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest value over axes; NaN if any is NaN."""
    x = _arguments.tensor_of_kind("max", "x", x, _kinds.REAL)
    return _reduced("max", x, axis, keepdims, ops.reduce_max)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest value over axes; NaN if any is NaN."""
    x = _arguments.tensor_of_kind("min", "x", x, _kinds.REAL)
    return _reduced("min", x, axis, keepdims, ops.reduce_min)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean over axes; of nothing NaN."""
    x = _arguments.tensor_of_kind("mean", "x", x, _kinds.FLOATING)
    return _reduced("mean", x, axis, keepdims, ops.reduce_mean)


def var(
    x: Tensor, /, *, axis: Axes = None, correction: int | float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance over axes: squares of the distances from the mean, over count - correction."""
    return _variance("var", x, axis, correction, keepdims)


def std(
    x: Tensor, /, *, axis: Axes = None, correction: int | float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation over axes: the square root of the variance."""
    return ops.sqrt(_variance("std", x, axis, correction, keepdims))


def _variance(
    function: str, x: Tensor, axis: Axes, correction: int | float, keepdims: bool
) -> Tensor:
    x = _arguments.tensor_of_kind(function, "x", x, _kinds.REAL_FLOATING)
    correction = _arguments.number(function, "correction", correction)
    axes = _arguments.axes(function, axis, x.ndim)
    keepdims = _arguments.flag(function, "keepdims", keepdims)
    divisor = math.prod(x.shape[i] for i in axes) - correction
    if axes:
        distances = ops.sub(x, ops.reduce_mean(x, axes=axes, keepdims=True))
        squares = ops.reduce_sum_square(distances, axes=axes, keepdims=keepdims)
    else:  # each element is its own mean, unless that is no number
        distances = ops.sub(x, x)
        squares = ops.mul(distances, distances)
    if divisor <= 0:
        return _core.full_like(squares, math.nan)
    return ops.div(squares, float(divisor))


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DtypeLike | None = None,
    include_initial: builtins.bool = False,
) -> Tensor:
    """Sums of the elements up to each one along an axis; with the initial value 0 before them."""
    return _cumulative("cumulative_sum", x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DtypeLike | None = None,
    include_initial: builtins.bool = False,
) -> Tensor:
    """Products of the elements up to each one along an axis; with the initial 1 before them."""
    return _cumulative("cumulative_prod", x, axis, dtype, include_initial)


def _cumulative(
    function: str,
    x: Tensor,
    axis: int | None,
    dtype: DtypeLike | None,
    include_initial: builtins.bool,
) -> Tensor:
    x = _accumulated(function, x, dtype)
    include_initial = _arguments.flag(function, "include_initial", include_initial)
    place = _arguments.axis_or_only(function, axis, x)
    if _complex.is_complex(x):
        found = _complex.scanned(function, x, place)
    elif function == "cumulative_sum":
        found = ops.cumsum(x, place)
    else:
        found = ops.cumprod(x, place)
    if not include_initial:
        return found
    initial = 0 if function == "cumulative_sum" else 1
    shape = x.shape[:place] + (1,) + x.shape[place + 1 :]
    first = _core.full(shape, initial, dtype=x.dtype, device=x.device)
    return _manipulation.joined(function, (first, found), place)
