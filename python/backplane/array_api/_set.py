# SPDX-License-Identifier: Apache-2.0
"""Set functions. Values come in ascending order, NaNs, each of them distinct, at the end."""

import functools
from typing import Any, NamedTuple

from .. import _core, ops
from .._core import Dtype, Tensor
from . import _arguments, _complex, _indexing, _kinds, _manipulation, _sorting, _views

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAllResult(NamedTuple):
    """What unique_all() answers."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCountsResult(NamedTuple):
    """What unique_counts() answers."""

    values: Tensor
    counts: Tensor


class UniqueInverseResult(NamedTuple):
    """What unique_inverse() answers."""

    values: Tensor
    inverse_indices: Tensor


class _Runs:
    """The elements of a flattened tensor in order, and where runs of equal ones begin."""

    def __init__(self, function: str, x: Tensor) -> None:
        x = _arguments.tensor_of_kind(function, "x", x, _kinds.ANY)
        self.shape = x.shape
        flat = _views.flat(x)
        self.order = order_of(flat)
        self.ordered = _indexing.gather(flat, self.order, 0)
        self.begins = self._first_of_runs()

    @functools.cached_property
    def starts(self) -> Tensor:
        """The positions where they begin, how many of which there are only the values say."""
        return _views.taken(ops.non_zero(self.begins), 0, 0)

    def _first_of_runs(self) -> Tensor:
        x = self.ordered
        first = _core.ones((min(x.size, 1),), dtype=_core.bool, device=x.device)
        if x.size < 2:
            return first
        before, behind = _views.part(x, 0, 0, x.size - 1), _views.part(x, 0, 1, x.size)
        if _complex.is_complex(x):
            differs = ops.logical_not(_complex.two("equal", before, behind))
        else:
            differs = ops.not_equal(before, behind)
        return ops.concat([first, differs], 0)

    def values(self) -> Tensor:
        return _indexing.gather(self.ordered, self.starts, 0)

    def indices(self) -> Tensor:
        """The order is stable: the first of a run is the first of all that are equal."""
        return ops.gather(self.order, self.starts)

    def inverse(self) -> Tensor:
        if self.order.size == 0:
            return _core.zeros(self.shape, dtype=_core.int64, device=self.order.device)
        numbers = ops.cumsum(self.begins.astype(_core.int64), 0) - 1
        # The order of the order says where each element went.
        found = ops.gather(numbers, _sorting.argsort(self.order))
        return _views.reshaped(found, self.shape)

    def counts(self) -> Tensor:
        starts = self.starts
        if starts.size == 0:
            return starts
        end = _core.full((1,), self.order.size, dtype=_core.int64, device=starts.device)
        ends = ops.concat([_views.part(starts, 0, 1, starts.size), end], 0)
        return ops.sub(ends, starts)


def order_of(flat: Tensor) -> Tensor:
    """What sorts it; complex numbers by their real parts, then by their imaginary parts."""
    if _complex.is_complex(flat):
        by_imag = _sorting.argsort(_complex.imag(flat))
        by_real = _sorting.argsort(ops.gather(_complex.real(flat), by_imag))
        return ops.gather(by_imag, by_real)
    return _sorting.argsort(_comparable(flat))


def _comparable(x: Tensor) -> Tensor:
    return x.astype(_core.uint8) if x.dtype in _kinds.BOOL.dtypes else x


def unique_all(x: Tensor, /) -> UniqueAllResult:
    """Each value once, where it is first, what makes x of them again, and how often each is."""
    runs = _Runs("unique_all", x)
    return UniqueAllResult(runs.values(), runs.indices(), runs.inverse(), runs.counts())


def unique_counts(x: Tensor, /) -> UniqueCountsResult:
    """Each value once, and how often it is in x."""
    runs = _Runs("unique_counts", x)
    return UniqueCountsResult(runs.values(), runs.counts())


def unique_inverse(x: Tensor, /) -> UniqueInverseResult:
    """Each value once, and the positions that make x of them again."""
    runs = _Runs("unique_inverse", x)
    return UniqueInverseResult(runs.values(), runs.inverse())


def unique_values(x: Tensor, /) -> Tensor:
    """Each value once."""
    return _Runs("unique_values", x).values()


def isin(x1: Tensor | int, x2: Tensor | int, /, *, invert: bool = False) -> Tensor:
    """Whether each element of x1 is one of x2."""
    x1, x2 = _arguments.operand("isin", "x1", x1), _arguments.operand("isin", "x2", x2)
    dtype = _kinds.result_dtype("isin", x1, x2)
    _arguments.of_kind("isin", "x1", dtype, _kinds.ANY)
    _arguments.on_one_device("isin", x1=x1, x2=x2)
    _arguments.in_range("isin", "x1", x1, dtype)
    _arguments.in_range("isin", "x2", x2, dtype)
    invert = _arguments.flag("isin", "invert", invert)
    a, b = (_comparable(x) for x in (_as(x1, x2, dtype), _as(x2, x1, dtype)))
    contained = _contained(a, _views.flat(b))
    return ops.logical_not(contained) if invert else contained


def _as(x: Any, beside: Any, dtype: Dtype) -> Tensor:
    if isinstance(x, Tensor):
        return _complex.cast(x, dtype)
    return _core.asarray(x, dtype=dtype, device=beside.device)


def _contained(x: Tensor, among: Tensor) -> Tensor:
    if among.size == 0:
        return _core.zeros(x.shape, dtype=_core.bool, device=x.device)
    if _complex.is_complex(x):  # which have no order: the numbers of their values do
        together = _manipulation.joined("isin", (_views.flat(x), among), 0)
        numbers = _Runs("isin", together).inverse()
        x = _views.reshaped(_views.part(numbers, 0, 0, x.size), x.shape)
        among = _views.part(numbers, 0, x.size, together.size)
    ordered = _sorting.sort(among)
    places = ops.min(ops.searchsorted(ordered, x), among.size - 1)
    return ops.equal(ops.gather(ordered, places), x)
