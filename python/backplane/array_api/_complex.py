# SPDX-License-Identifier: Apache-2.0
"""Complex tensors as pairs of floats in the same memory.

The operators of the library take real dtypes. What follows says complex arithmetic in their words,
so that it runs wherever they do.
"""

import math
from typing import Any

from .. import _core, ops
from .._core import Dtype, Tensor
from .._errors import InvalidArgumentError
from . import _complex_functions, _kinds, _views


def is_complex(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype in _kinds.COMPLEX_FLOATING.dtypes


def pairs(x: Tensor) -> Tensor:
    """[..., 2]: the real and the imaginary parts."""
    both: Tensor = _core._pairs(x)
    return both


def from_pairs(x: Tensor) -> Tensor:
    """The inverse, of contiguous pairs."""
    numbers: Tensor = _core._complex_of_pairs(x)
    return numbers


def real(x: Tensor) -> Tensor:
    both = pairs(x)
    return _views.taken(both, both.ndim - 1, 0)


def imag(x: Tensor) -> Tensor:
    both = pairs(x)
    return _views.taken(both, both.ndim - 1, 1)


def joined(a: Tensor, b: Tensor) -> Tensor:
    """a + b j, of real tensors of one shape and dtype."""
    last = a.ndim
    return from_pairs(ops.concat([_views.inserted(a, [last]), _views.inserted(b, [last])], last))


def cast(x: Tensor, dtype: Dtype) -> Tensor:
    """x as another dtype, itself if it has it. Complex numbers become no real ones but bools."""
    if x.dtype == dtype:
        return x
    if dtype in _kinds.COMPLEX_FLOATING.dtypes:
        part = _kinds.component(dtype)
        if is_complex(x):
            return from_pairs(pairs(x).astype(part))
        a = x.astype(part, copy=False)
        return joined(a, _core.zeros_like(a))
    if not is_complex(x):
        return x.astype(dtype)
    if dtype in _kinds.BOOL.dtypes:
        return _any_part(pairs(x).astype(_core.bool))
    raise TypeError(f"astype: complex numbers have no {dtype}: take real() or imag()")


def _any_part(x: Tensor) -> Tensor:
    last = x.ndim - 1
    return ops.logical_or(_views.taken(x, last, 0), _views.taken(x, last, 1))


def _all_parts(x: Tensor) -> Tensor:
    last = x.ndim - 1
    return ops.logical_and(_views.taken(x, last, 0), _views.taken(x, last, 1))


def one(function: str, x: Tensor) -> Tensor:
    """The elementwise function of that name."""
    if function in _OF_PAIRS:
        return from_pairs(_OF_PAIRS[function](pairs(x)))
    if function in _TESTS:
        return _TESTS[function](pairs(x))
    a, b = real(x), imag(x)
    if function == "abs":
        return ops.hypot(a, b)
    return joined(*_complex_functions.ONE[function](a, b))


_OF_PAIRS = {"negative": ops.neg, "round": ops.round}
_TESTS = {
    "isnan": lambda x: _any_part(ops.is_nan(x)),
    "isinf": lambda x: _any_part(ops.is_inf(x)),
    "isfinite": lambda x: _all_parts(ops.is_finite(x)),
}


def two(function: str, a: Tensor, b: Tensor) -> Tensor:
    """The elementwise function of that name, of tensors of one complex dtype."""
    if function in ("add", "subtract"):
        operator = ops.add if function == "add" else ops.sub
        return from_pairs(operator(pairs(a), pairs(b)))
    if function == "equal":
        return _all_parts(ops.equal(pairs(a), pairs(b)))
    if function == "not_equal":
        return _any_part(ops.not_equal(pairs(a), pairs(b)))
    if function == "matmul":
        return matmul(a, b)
    compute = _complex_functions.TWO.get(function)
    if compute is None:
        raise InvalidArgumentError(f"{function}: of no complex numbers, found {a.dtype}")
    return joined(*compute((real(a), imag(a)), (real(b), imag(b))))


# --- several elements ----------------------------------------------------------------------------


def reduced(function: str, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """sum, mean or prod over axes."""
    if not axes:
        return x.copy()
    if function == "prod":
        return _product(x, axes, keepdims)
    compute = ops.reduce_sum if function == "sum" else ops.reduce_mean
    return from_pairs(compute(pairs(x), axes=axes, keepdims=keepdims))


def _product(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """In halves, which are multiplied with each other until one is left."""
    rest = [size for i, size in enumerate(x.shape) if i not in axes]
    count = math.prod(x.shape[i] for i in axes)
    factors = _views.reshaped(_views.at_front(x, axes), [count, *rest])
    if count == 0:
        factors = _core.ones([1, *rest], dtype=x.dtype, device=x.device)
    while factors.shape[0] > 1:
        half = factors.shape[0] // 2
        product = two(
            "multiply",
            _views.part(factors, 0, 0, half),
            _views.part(factors, 0, half, 2 * half),
        )
        if factors.shape[0] % 2:
            last = _views.part(factors, 0, 2 * half, 2 * half + 1)
            product = from_pairs(ops.concat([pairs(product), pairs(last)], 0))
        factors = product
    shape = [1 if i in axes else size for i, size in enumerate(x.shape)] if keepdims else rest
    found = _views.reshaped(factors, shape)
    return found.copy() if count == 1 else found


def scanned(function: str, x: Tensor, axis: int) -> Tensor:
    """cumulative_sum or cumulative_prod along an axis."""
    if function == "cumulative_sum":
        return from_pairs(ops.cumsum(pairs(x), axis))
    found, size, step = x, x.shape[axis], 1
    while step < size:  # each element is the product of the last `step` ones
        ahead = _views.part(found, axis, step, size)
        product = two("multiply", _views.part(found, axis, 0, size - step), ahead)
        first = _views.part(found, axis, 0, step)
        found = from_pairs(ops.concat([pairs(first), pairs(product)], axis))
        step *= 2
    return found.copy() if found is x else found


def matmul(a: Tensor, b: Tensor) -> Tensor:
    re_a, im_a, re_b, im_b = real(a), imag(a), real(b), imag(b)
    re = ops.sub(ops.matmul(re_a, re_b), ops.matmul(im_a, im_b))
    return joined(re, ops.add(ops.matmul(re_a, im_b), ops.matmul(im_a, re_b)))
