# SPDX-License-Identifier: Apache-2.0
"""Sorting functions. Every order is stable. NaN is above every number."""

from .. import ops
from .._core import Tensor
from . import _arguments, _kinds

__all__ = ["argsort", "sort"]


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The positions that sort x along an axis."""
    x, place, is_descending = _sortable("argsort", x, axis, descending, stable)
    return ops.argsort(x, axis=place, descending=is_descending)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements along an axis in order."""
    x, place, is_descending = _sortable("sort", x, axis, descending, stable)
    return ops.sort(x, axis=place, descending=is_descending)


def _sortable(
    function: str, x: Tensor, axis: int, descending: bool, stable: bool
) -> tuple[Tensor, int, bool]:
    x = _arguments.tensor_of_kind(function, "x", x, _kinds.REAL)
    is_descending = _arguments.flag(function, "descending", descending)
    _arguments.flag(function, "stable", stable)
    return x, _arguments.axis(function, axis, x.ndim), is_descending
