# SPDX-License-Identifier: Apache-2.0
"""Methods of Tensor that NumPy's arrays have: each is the function of ``backplane.array_api`` with
that name, with its first arguments by position."""

from __future__ import annotations  # the stub has them as they stand here

from . import _core
from ._core import Tensor

TYPE_CHECKING = False  # what type checkers take for true
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._core import _DtypeLike


def _sizes(function: str, values: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    """Of f(2, 3) and f((2, 3)) alike."""
    if len(values) == 1 and isinstance(values[0], tuple | list):
        values = tuple(values[0])
    for value in values:
        if isinstance(value, tuple | list) or not hasattr(value, "__index__"):
            raise TypeError(f"{function}: expected integers, found {type(value).__name__}")
    return tuple(value.__index__() for value in values)  # type: ignore[union-attr]


def reshape(self: Tensor, *shape: int | Sequence[int], copy: bool | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1. A view where strides allow."""
    from . import array_api

    return array_api.reshape(self, _sizes("reshape", shape), copy=copy)


def ravel(self: Tensor) -> Tensor:
    """One dimension. A view where strides allow."""
    from . import array_api

    return array_api.reshape(self, (-1,) if self.size else (0,))


def flatten(self: Tensor) -> Tensor:
    """One dimension, in memory of its own."""
    from . import array_api

    return array_api.reshape(self, (-1,) if self.size else (0,), copy=True)


def transpose(self: Tensor, *axes: int | Sequence[int]) -> Tensor:
    """A view with the axes in that order, by default in reverse."""
    from . import array_api

    return array_api.permute_dims(self, _sizes("transpose", axes)) if axes else self.T


def squeeze(self: Tensor, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """A view without axes of size 1, by default all of them."""
    from . import array_api

    if axis is None:
        axis = tuple(i for i, size in enumerate(self.shape) if size == 1)
    return array_api.squeeze(self, axis)


def sum(
    self: Tensor,
    axis: int | tuple[int, ...] | None = None,
    *,
    dtype: _DtypeLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The sum over axes, by default all; of integers in 64 bits unless ``dtype`` is given."""
    from . import array_api

    return array_api.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)


def prod(
    self: Tensor,
    axis: int | tuple[int, ...] | None = None,
    *,
    dtype: _DtypeLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The product over axes, by default all; of integers in 64 bits unless ``dtype`` is given."""
    from . import array_api

    return array_api.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)


def mean(
    self: Tensor, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """The mean over axes, by default all, of floating-point numbers."""
    from . import array_api

    return array_api.mean(self, axis=axis, keepdims=keepdims)


def std(
    self: Tensor,
    axis: int | tuple[int, ...] | None = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Tensor:
    """The standard deviation over axes; NumPy calls the correction ``ddof``."""
    from . import array_api

    return array_api.std(self, axis=axis, correction=correction, keepdims=keepdims)


def var(
    self: Tensor,
    axis: int | tuple[int, ...] | None = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Tensor:
    """The variance over axes; NumPy calls the correction ``ddof``."""
    from . import array_api

    return array_api.var(self, axis=axis, correction=correction, keepdims=keepdims)


def min(
    self: Tensor, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """The smallest value over axes, by default all; NaN if one is NaN."""
    from . import array_api

    return array_api.min(self, axis=axis, keepdims=keepdims)


def max(
    self: Tensor, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """The largest value over axes, by default all; NaN if one is NaN."""
    from . import array_api

    return array_api.max(self, axis=axis, keepdims=keepdims)


def argmin(self: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the smallest value is along an axis, or among all elements."""
    from . import array_api

    return array_api.argmin(self, axis=axis, keepdims=keepdims)


def argmax(self: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the largest value is along an axis, or among all elements."""
    from . import array_api

    return array_api.argmax(self, axis=axis, keepdims=keepdims)


def all(
    self: Tensor, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Whether every element over axes, by default all, is true."""
    from . import array_api

    return array_api.all(self, axis=axis, keepdims=keepdims)


def any(
    self: Tensor, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Whether an element over axes, by default all, is true."""
    from . import array_api

    return array_api.any(self, axis=axis, keepdims=keepdims)


def clip(
    self: Tensor, min: int | float | Tensor | None = None, max: int | float | Tensor | None = None
) -> Tensor:
    """The values, but none below min, and none above max."""
    from . import array_api

    return array_api.clip(self, min, max)


def __contains__(self: Tensor, value: object) -> bool:
    """Whether an element equals the value; of a tensor's values, whether a comparison holds."""
    found = self == value
    return bool(found.any()) if isinstance(found, Tensor) else False


def attach() -> None:
    """Gives Tensor these methods, as the extension would have them."""
    for method in (
        reshape, ravel, flatten, transpose, squeeze, sum, prod, mean, std, var, min, max, argmin,
        argmax, all, any, clip, __contains__,
    ):  # fmt: skip
        method.__module__ = _core.__name__
        setattr(_core.Tensor, method.__name__, method)
