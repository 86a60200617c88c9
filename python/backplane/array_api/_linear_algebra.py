# SPDX-License-Identifier: Apache-2.0
"""Linear algebra functions of the main namespace: products, and the transpose, which is a view."""

import math
from collections.abc import Sequence

from .. import ops
from .._core import Tensor
from .._errors import InvalidArgumentError
from . import _arguments, _complex, _elementwise, _kinds, _views

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def _operands(function: str, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    for name, x in (("x1", x1), ("x2", x2)):
        _arguments.tensor_of_kind(function, name, x, _kinds.NUMERIC)
    _arguments.on_one_device(function, x1=x1, x2=x2)
    dtype = _kinds.result_dtype(function, x1, x2)
    return _complex.cast(x1, dtype), _complex.cast(x2, dtype)


def _product(a: Tensor, b: Tensor) -> Tensor:
    return _complex.matmul(a, b) if _complex.is_complex(a) else ops.matmul(a, b)


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product over the last two axes, the others broadcast."""
    a, b = _operands("matmul", x1, x2)
    for name, x in (("x1", a), ("x2", b)):
        if x.ndim == 0:
            raise InvalidArgumentError(
                f"matmul: argument '{name}': expected at least one dimension"
            )
    inner, found = a.shape[-1], b.shape[max(b.ndim - 2, 0)]
    if inner != found:
        raise InvalidArgumentError(
            f"matmul: argument 'x2': expected {inner} rows, as x1 has columns, found {found}"
        )
    _arguments.broadcast("matmul", "x2", a.shape[:-2], b.shape[:-2])
    return _product(a, b)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """A view of matrices, or of stacks of them, with rows and columns swapped."""
    x = _arguments.tensor("matrix_transpose", "x", x)
    if x.ndim < 2:
        raise InvalidArgumentError(
            f"matrix_transpose: argument 'x': expected at least 2 dimensions, "
            f"found the shape {x.shape}"
        )
    return x.mT


def tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """Products of elements, summed over axes of both: the last and the first ones, or those."""
    a, b = _operands("tensordot", x1, x2)
    first, second = _contracted(a, b, axes)
    for i, k in zip(first, second):
        if a.shape[i] != b.shape[k]:
            raise InvalidArgumentError(
                f"tensordot: argument 'axes': axis {i} of x1 has size {a.shape[i]}, "
                f"axis {k} of x2 {b.shape[k]}"
            )
    kept_a = [i for i in range(a.ndim) if i not in first]
    kept_b = [i for i in range(b.ndim) if i not in second]
    _arguments.rank("tensordot", "axes", len(kept_a) + len(kept_b))
    inner = math.prod(a.shape[i] for i in first)
    rows, columns = [a.shape[i] for i in kept_a], [b.shape[i] for i in kept_b]
    left = _views.reshaped(_views.permuted(a, [*kept_a, *first]), (math.prod(rows), inner))
    right = _views.reshaped(_views.permuted(b, [*second, *kept_b]), (inner, math.prod(columns)))
    return _views.reshaped(_product(left, right), (*rows, *columns))


def _contracted(
    a: Tensor, b: Tensor, axes: int | tuple[Sequence[int], Sequence[int]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, (tuple, list)):
        if len(axes) != 2:
            raise InvalidArgumentError(
                f"tensordot: argument 'axes': expected two sequences, found {len(axes)}"
            )
        first = _arguments.axes("tensordot", axes[0], a.ndim, "axes")
        second = _arguments.axes("tensordot", axes[1], b.ndim, "axes")
        if len(first) != len(second):
            raise InvalidArgumentError(
                f"tensordot: argument 'axes': {len(first)} axes of x1, {len(second)} of x2"
            )
        return first, second
    count = _arguments.count("tensordot", "axes", axes)
    if count > min(a.ndim, b.ndim):
        raise InvalidArgumentError(
            f"tensordot: argument 'axes': {count} for {a.ndim} and {b.ndim} dimensions"
        )
    return tuple(range(a.ndim - count, a.ndim)), tuple(range(count))


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The dot product along an axis, counted from the end; complex x1 is conjugated."""
    a, b = _operands("vecdot", x1, x2)
    place = _arguments.axis_from_end("vecdot", axis, a, b)
    if a.shape[place] != b.shape[place]:
        raise InvalidArgumentError(
            f"vecdot: argument 'axis': size {a.shape[place]} of x1, {b.shape[place]} of x2"
        )
    if _complex.is_complex(a):
        a = _elementwise.conj(a)
    left, right = (_last(x, place) for x in (a, b))
    rest = _arguments.broadcast("vecdot", "x2", left.shape[:-1], right.shape[:-1])
    if len(rest) + 1 < _views.MAX_RANK:
        return _dot(left, right)
    # No axis is left for the rows and columns: the others are one.
    size = left.shape[-1]
    whole = [_views.broadcast(x, (*rest, size)) for x in (left, right)]
    lines = (_views.reshaped(x, (math.prod(rest), size)) for x in whole)
    return _views.reshaped(_dot(*lines), rest)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    row, column = _views.inserted(a, [a.ndim - 1]), _views.inserted(b, [b.ndim])
    product = _product(row, column)
    return _views.removed(product, (product.ndim - 2, product.ndim - 1))


def _last(x: Tensor, axis: int) -> Tensor:
    order = list(range(x.ndim))
    order.append(order.pop(axis))
    return _views.permuted(x, order)
