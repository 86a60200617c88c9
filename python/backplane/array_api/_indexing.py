# SPDX-License-Identifier: Apache-2.0
"""Indexing functions."""

import contextlib
from collections.abc import Iterator

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
    _arguments.on_one_device("take", x=x, indices=indices)
    with out_of_range("take"):
        return gather(x, as_index(indices), place)


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
    _arguments.on_one_device("take_along_axis", x=x, indices=indices)
    shape[place] = x.shape[place]
    with out_of_range("take_along_axis"):
        return gather_along(_views.broadcast(x, shape), as_index(places), place)


def _broadcast_but(x: Tensor, indices: Tensor, axis: int) -> tuple[int, ...]:
    def rest(shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[:axis] + (1,) + shape[axis + 1 :]

    shapes = rest(x.shape), rest(indices.shape)
    try:
        return _arguments.broadcast("take_along_axis", "indices", *shapes)
    except InvalidArgumentError:
        raise InvalidArgumentError(
            f"take_along_axis: argument 'indices': the shape {indices.shape} does not broadcast "
            f"with {x.shape} but for axis {axis}"
        ) from None


def _need_elements(function: str, x: Tensor, indices: Tensor, axis: int) -> None:
    if x.shape[axis] == 0 and indices.size != 0:
        raise IndexError(f"{function}: argument 'indices': axis {axis} of x has no elements")


class _IndexOutOfRange(InvalidArgumentError, IndexError):
    """A position that the axis does not have."""


@contextlib.contextmanager
def out_of_range(function: str, name: str = "indices") -> Iterator[None]:
    """What a device says that looks at the positions at once; of a queued one it comes later."""
    try:
        yield
    except InvalidArgumentError as error:
        raise _IndexOutOfRange(f"{function}: argument '{name}': {error}") from None


def as_index(indices: Tensor) -> Tensor:
    """As int64. What is beyond that is beyond every axis too, and stays so."""
    if indices.dtype == _core.uint64:
        indices = ops.min(indices, 2**63 - 1)
    return indices.astype(_core.int64, copy=False)


def gather(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Slices along an axis, at int64 positions of one dimension."""
    if x.dtype in _kinds.COMPLEX_FLOATING.dtypes:
        return _complex.each_part(lambda both: ops.gather(both, indices, axis=axis), x)
    return ops.gather(x, indices, axis=axis)


def gather_along(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """The element at each int64 position along an axis; both have the same shape but for it."""
    if x.dtype in _kinds.COMPLEX_FLOATING.dtypes:
        return _complex.each_part(lambda both, at: _gathered_along(both, at, axis), x, indices)
    return _gathered_along(x, indices, axis)


def _gathered_along(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    shape = [*x.shape[:axis], indices.shape[axis], *x.shape[axis + 1 :]]
    return ops.gather_elements(x, _views.broadcast(indices, shape), axis=axis)
