# SPDX-License-Identifier: Apache-2.0
"""Indexing functions."""

from .. import _core, ops
from .._core import Tensor
from .._errors import InvalidArgumentError
from . import _arguments, _complex, _kinds, _views

__all__ = ["take", "take_along_axis"]


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The elements at those positions along an axis; negative ones count from the end."""
    x = _arguments.tensor("take", "x", x)
    indices = _arguments.tensor_of_kind("take", "indices", indices, _kinds.INTEGRAL)
    if indices.ndim != 1:
        raise InvalidArgumentError(
            f"take: argument 'indices': expected one dimension, found the shape {indices.shape}"
        )
    place = _arguments.axis_or_only("take", axis, x)
    _need_elements("take", x, indices, place)
    return gather(x, _as_index(indices), place)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """At each place the element of x there, but for its position along the axis."""
    x = _arguments.tensor("take_along_axis", "x", x)
    indices = _arguments.tensor_of_kind("take_along_axis", "indices", indices, _kinds.INTEGRAL)
    place = _arguments.axis("take_along_axis", axis, x.ndim)
    if indices.ndim != x.ndim:
        raise InvalidArgumentError(
            f"take_along_axis: argument 'indices': expected {x.ndim} dimensions, "
            f"found the shape {indices.shape}"
        )
    shape = list(_broadcast_but(x, indices, place))
    shape[place] = indices.shape[place]
    places = _views.broadcast(indices, shape)
    _need_elements("take_along_axis", x, places, place)
    shape[place] = x.shape[place]
    return gather_along(_views.broadcast(x, shape), _as_index(places), place)


def _broadcast_but(x: Tensor, indices: Tensor, axis: int) -> tuple[int, ...]:
    from ._manipulation import broadcast_shapes

    def rest(shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:axis] + (1,) + shape[axis + 1 :]

    try:
        return broadcast_shapes(rest(x.shape), rest(indices.shape))
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"take_along_axis: argument 'indices': the shape {indices.shape} does not broadcast "
            f"with {x.shape} but for axis {axis}"
        ) from None


def _need_elements(function: str, x: Tensor, indices: Tensor, axis: int) -> None:
    if x.shape[axis] == 0 and indices.size != 0:
        raise IndexError(f"{function}: argument 'indices': axis {axis} of x has no elements")


def _as_index(indices: Tensor) -> Tensor:
    return indices.astype(_core.int64, copy=False)


def gather(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Slices along an axis, at int64 positions of one dimension."""
    if x.dtype in _kinds.COMPLEX_FLOATING.dtypes:
        return _complex.from_pairs(ops.gather(_complex.pairs(x), indices, axis=axis))
    return ops.gather(x, indices, axis=axis)


def gather_along(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The element at each int64 position along an axis; both have the same shape but for it."""
    if x.dtype in _kinds.COMPLEX_FLOATING.dtypes:
        pairs = _views.inserted(indices, [indices.ndim])
        pairs = _views.broadcast(pairs, [*indices.shape, 2])
        return _complex.from_pairs(ops.gather_elements(_complex.pairs(x), pairs, axis=axis))
    return ops.gather_elements(x, indices, axis=axis)
