# SPDX-License-Identifier: Apache-2.0
"""Views by sizes and strides, which every dtype has on every device."""

import math
from collections.abc import Sequence

from .. import _core
from .._core import Tensor


MAX_RANK = 16  # how many dimensions a tensor may have


def view(x: Tensor, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Tensor:
    empty = 0 in shape
    made: Tensor = _core._view(x, tuple(shape), tuple(strides), 0 if empty else offset)
    return made


def row_major(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        strides[i - 1] = strides[i] * shape[i]
    return strides


def permuted(x: Tensor, axes: Sequence[int]) -> Tensor:
    return view(x, [x.shape[i] for i in axes], [x.strides[i] for i in axes])


def inserted(x: Tensor, positions: Sequence[int]) -> Tensor:
    """Axes of size 1 at these positions of the result."""
    shape, strides = list(x.shape), list(x.strides)
    for position in sorted(positions):
        shape.insert(position, 1)
        strides.insert(position, 0)
    return view(x, shape, strides)


def removed(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Without these axes, which have size 1."""
    kept = [i for i in range(x.ndim) if i not in axes]
    return permuted(x, kept)


def broadcast(x: Tensor, shape: Sequence[int]) -> Tensor:
    """The shape is one that x broadcasts to. What repeats shares its memory."""
    if x.shape == tuple(shape):
        return x
    missing = len(shape) - x.ndim
    strides = [0] * missing + [
        stride if size == wanted else 0
        for size, stride, wanted in zip(x.shape, x.strides, shape[missing:])
    ]
    return view(x, shape, strides)


def reversed_along(x: Tensor, axes: Sequence[int]) -> Tensor:
    strides = [-s if i in axes else s for i, s in enumerate(x.strides)]
    offset = sum((x.shape[i] - 1) * x.strides[i] for i in axes)
    return view(x, x.shape, strides, offset)


def part(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """The elements start to before stop along an axis, both in range."""
    shape = list(x.shape)
    shape[axis] = stop - start
    return view(x, shape, x.strides, start * x.strides[axis])


def taken(x: Tensor, axis: int, index: int) -> Tensor:
    """One position along an axis, without the axis."""
    shape = [*x.shape[:axis], *x.shape[axis + 1 :]]
    strides = [*x.strides[:axis], *x.strides[axis + 1 :]]
    return view(x, shape, strides, index * x.strides[axis])


def diagonal(x: Tensor, offset: int) -> Tensor:
    """Of the last two axes, as the last one."""
    rows, columns = x.shape[-2:]
    row_step, column_step = x.strides[-2:]
    size = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = offset * column_step if offset > 0 else -offset * row_step
    shape, strides = [*x.shape[:-2], size], [*x.strides[:-2], row_step + column_step]
    return view(x, shape, strides, start)


def _strides_of_reshape(x: Tensor, shape: Sequence[int]) -> list[int] | None:
    """Those that give the elements of x, none of them 1 or 0 in number, that shape; else None.

    Both shapes are walked from the end in runs of the same number of elements; the axes of x in a
    run must lie behind each other in memory.
    """
    old = [(size, stride) for size, stride in zip(x.shape, x.strides) if size != 1]
    strides = [0] * len(shape)
    i, k = len(shape) - 1, len(old) - 1
    while k >= 0:
        count, step = old[k]
        first = k
        wanted, at = 1, i
        while wanted != count:
            if wanted < count:
                wanted *= shape[at]
                at -= 1
            else:
                first -= 1
                size, stride = old[first]
                if stride != old[first + 1][0] * old[first + 1][1]:
                    return None
                count *= size
        for place in range(i, at, -1):
            strides[place] = step
            step *= shape[place]
        i, k = at, first - 1
    return strides


def reshaped_without_copy(x: Tensor, shape: Sequence[int]) -> Tensor | None:
    """The shape has as many elements as x."""
    if x.size <= 1:
        return view(x, shape, row_major(shape))
    strides = _strides_of_reshape(x, shape)
    return None if strides is None else view(x, shape, strides)


def reshaped(x: Tensor, shape: Sequence[int]) -> Tensor:
    """A view where there is one, else of a copy. The shape has as many elements as x."""
    found = reshaped_without_copy(x, shape)
    return view(x.copy(), shape, row_major(shape)) if found is None else found


def flat(x: Tensor) -> Tensor:
    return x if x.ndim == 1 else reshaped(x, (math.prod(x.shape),))


def with_room(x: Tensor, axis: int) -> tuple[Tensor, int]:
    """x, and the axis in it, with a dimension left for another axis: those before it, and those
    behind it, are one where x has as many as may be."""
    if x.ndim < MAX_RANK:
        return x, axis
    before, behind = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    return reshaped(x, (before, x.shape[axis], behind)), 1


def line(x: Tensor) -> tuple[Tensor, int]:
    """All the memory that x reaches, and where in it the first element of x is."""
    if x.size == 0:
        return view(x, (0,), (1,)), 0
    ways = [(size - 1) * stride for size, stride in zip(x.shape, x.strides)]
    first = -sum(way for way in ways if way < 0)
    return view(x, (sum(map(abs, ways)) + 1,), (1,), -first), first


def at_front(x: Tensor, axes: Sequence[int]) -> Tensor:
    """These axes first, the others behind them in order."""
    return permuted(x, [*axes, *(i for i in range(x.ndim) if i not in axes)])
