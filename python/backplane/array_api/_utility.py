# SPDX-License-Identifier: Apache-2.0
"""Utility functions."""

from .. import _core, ops
from .._core import Tensor
from .._errors import InvalidArgumentError
from . import _arguments, _complex, _elementwise, _kinds, _manipulation, _views

__all__ = ["all", "any", "diff"]

Axes = int | tuple[int, ...] | None


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over axes are true, or not 0; of nothing true."""
    return _tested("all", x, axis, keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether any element over axes is true, or not 0; of nothing false."""
    return _tested("any", x, axis, keepdims)


def _tested(function: str, x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    x = _arguments.tensor_of_kind(function, "x", x, _kinds.ANY)
    axes = _arguments.axes(function, axis, x.ndim)
    keepdims = _arguments.flag(function, "keepdims", keepdims)
    truth = _complex.cast(x, _core.bool)
    if not axes:
        return truth.copy() if truth is x else truth
    compute = ops.reduce_all if function == "all" else ops.reduce_any
    return compute(truth, axes=axes, keepdims=keepdims)


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The n-th differences of neighbours along an axis."""
    x = _arguments.tensor_of_kind("diff", "x", x, _kinds.NUMERIC)
    place = _arguments.axis("diff", axis, x.ndim)
    times = _arguments.count("diff", "n", n)
    parts = [x]
    for name, more in (("prepend", prepend), ("append", append)):
        if more is None:
            continue
        more = _arguments.tensor_of_kind("diff", name, more, _kinds.NUMERIC)
        _arguments.on_one_device("diff", **{"x": x, name: more})
        rest = more.shape[:place] + more.shape[place + 1 :]
        if more.ndim != x.ndim or rest != x.shape[:place] + x.shape[place + 1 :]:
            raise InvalidArgumentError(
                f"diff: argument '{name}': expected the shape {x.shape} but for axis {place}, "
                f"found {more.shape}"
            )
        parts.insert(0 if name == "prepend" else len(parts), more)
    found = _manipulation.joined("diff", tuple(parts), place) if len(parts) > 1 else x
    for _ in range(min(times, found.shape[place])):  # then nothing is left
        size = found.shape[place]
        behind = _views.part(found, place, min(size, 1), size)
        before = _views.part(found, place, 0, max(size - 1, 0))
        found = _elementwise.subtract(behind, before)
    return found.copy() if found is x else found
