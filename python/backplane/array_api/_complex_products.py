# SPDX-License-Identifier: Apache-2.0
"""Products of many complex numbers x + y j, given and answered as their two parts.

The product of some of them may be beyond the largest number, or below the smallest one, where that
of all is neither. So each is a number whose larger part is about 1, times a power of two, and the
powers are added. The order is that of a tree: errors grow as its height does.
"""

from collections.abc import Callable
from typing import NamedTuple

from .. import _core, ops
from .._core import Dtype, Tensor
from . import _complex_functions, _views
from ._complex_functions import Parts


class _Layout(NamedTuple):
    """Of a float: the integer of its size, the bits of its mantissa, what its exponents count
    from."""

    integer: Dtype
    mantissa: int
    bias: int


_LAYOUTS = {
    _core.float32: _Layout(_core.int32, 23, 127),
    _core.float64: _Layout(_core.int64, 52, 1023),
}


class _Factors(NamedTuple):
    """(x + y j) 2^power."""

    x: Tensor
    y: Tensor
    power: Tensor

    def mapped(self, change: Callable[[Tensor], Tensor]) -> "_Factors":
        return _Factors(*map(change, self))


def _limited(power: Tensor, limit: int) -> Tensor:
    return ops.max(ops.min(power, limit), -limit)


def _power_of_two(power: Tensor, dtype: Dtype) -> Tensor:
    """2^power, a normal number."""
    layout = _LAYOUTS[dtype]
    code = ops.add(power, layout.bias).astype(layout.integer, copy=False)
    return ops.bit_cast(ops.shift_left(code, layout.mantissa), dtype)


def _brought_to_one(x: Tensor, y: Tensor, power: Tensor) -> _Factors:
    """With the larger part in [1, 2), but of zeros, infinities, NaN and subnormal numbers."""
    layout = _LAYOUTS[x.dtype]
    size = ops.bit_cast(ops.max(ops.abs(x), ops.abs(y)), layout.integer)
    exponent = ops.sub(ops.shift_right(size, layout.mantissa), layout.bias)
    exponent = _limited(exponent, layout.bias - 1)
    scale = _power_of_two(ops.neg(exponent), x.dtype)
    power = ops.add(power, exponent.astype(_core.int64, copy=False))
    return _Factors(ops.mul(x, scale), ops.mul(y, scale), power)


def _factors(x: Tensor, y: Tensor) -> _Factors:
    return _brought_to_one(x, y, _core.zeros(x.shape, dtype=_core.int64, device=x.device))


def _times(a: _Factors, b: _Factors) -> _Factors:
    parts = _complex_functions.TWO["multiply"]((a.x, a.y), (b.x, b.y))
    return _Factors(*parts, ops.add(a.power, b.power))


def _settled(found: _Factors, height: int) -> _Factors:
    """So many products above the factors. Every fourth time is enough: until then each is a product
    of at most 16 numbers below 3. The first time it is of what subnormal factors have left."""
    return found if height % 4 else _brought_to_one(*found)


def _together(a: _Factors, b: _Factors, axis: int) -> _Factors:
    return _Factors(*(ops.concat(pair, axis) for pair in zip(a, b)))


def _numbers(found: _Factors) -> Parts:
    """In three steps: one alone may be beyond the powers that a float has."""
    power = _limited(found.power, 3 * (_LAYOUTS[found.x.dtype].bias - 3))
    third = ops.floor_divide(power, 3)
    scale = _power_of_two(third, found.x.dtype)
    last = _power_of_two(ops.sub(power, ops.mul(third, 2)), found.x.dtype)
    x, y = (ops.mul(ops.mul(ops.mul(part, scale), scale), last) for part in found[:2])
    return x, y


def product(x: Tensor, y: Tensor) -> Parts:
    """Of the numbers along the first axis, of which there is at least one."""
    left = _factors(x, y)
    size, height = x.shape[0], 0
    while size > 1:
        half = size // 2
        before = left.mapped(lambda part: _views.part(part, 0, 0, half))
        behind = left.mapped(lambda part: _views.part(part, 0, half, 2 * half))
        found = _times(before, behind)
        if size % 2:
            last = left.mapped(lambda part: _views.part(part, 0, 2 * half, size))
            found = _together(found, last, 0)
        left, size, height = _settled(found, height), size - half, height + 1
    return _numbers(left.mapped(lambda part: _views.taken(part, 0, 0)))


def cumulative(x: Tensor, y: Tensor, axis: int) -> Parts:
    """Products of the numbers up to each one along an axis."""
    found, size, step, height = _factors(x, y), x.shape[axis], 1, 0
    while step < size:  # each is the product of the last `step` ones
        before = found.mapped(lambda part: _views.part(part, axis, 0, size - step))
        ahead = found.mapped(lambda part: _views.part(part, axis, step, size))
        first = found.mapped(lambda part: _views.part(part, axis, 0, step))
        found = _settled(_together(first, _times(before, ahead), axis), height)
        step, height = step * 2, height + 1
    return _numbers(found)
