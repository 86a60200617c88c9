# SPDX-License-Identifier: Apache-2.0
"""Complex tensors as pairs of floats in the same memory.

The operators of the library take real dtypes. What follows says complex arithmetic in their words,
so that it runs wherever they do.
"""

import math
from collections.abc import Callable
from typing import Any

from .. import _core, ops
from .._core import Dtype, Tensor
from .._errors import InvalidArgumentError
from . import _complex_functions, _complex_products, _kinds, _views


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
    return _part(x, 0)


def imag(x: Tensor) -> Tensor:
    return _part(x, 1)


def _part(x: Tensor, which: int) -> Tensor:
    if x.ndim < _views.MAX_RANK:
        both = pairs(x)
        return _views.taken(both, both.ndim - 1, which)
    # No axis is left for the pairs: they are those of all elements that x reaches, in a line.
    line, first = _views.line(x)
    strides = [2 * stride for stride in x.strides]
    return _views.view(pairs(line), x.shape, strides, which + 2 * first)


def joined(a: Tensor, b: Tensor) -> Tensor:
    """a + b j, of real tensors of one shape and dtype."""
    last = a.ndim
    if last == _views.MAX_RANK:
        return _views.reshaped(joined(_views.flat(a), _views.flat(b)), a.shape)
    return from_pairs(ops.concat([_views.inserted(a, [last]), _views.inserted(b, [last])], last))


def cast(x: Tensor, dtype: Dtype, function: str = "astype") -> Tensor:
    """x as another dtype, itself if it has it. Complex numbers become no real ones but bools."""
    if x.dtype == dtype:
        return x
    if dtype in _kinds.COMPLEX_FLOATING.dtypes:
        part = _kinds.component(dtype)
        if is_complex(x):
            return each_part(lambda both: both.astype(part), x)
        a = x.astype(part, copy=False)
        return joined(a, _core.zeros_like(a))
    if not is_complex(x):
        return x.astype(dtype)
    if dtype in _kinds.BOOL.dtypes:
        return ops.logical_or(*_of_parts(lambda both: both.astype(_core.bool), x))
    raise TypeError(
        f"{function}: argument 'dtype': complex numbers have no {dtype}: take real() or imag()"
    )


def each_part(compute: Callable[..., Tensor], *operands: Tensor) -> Tensor:
    """compute() of the real parts and of the imaginary ones: of both at once, as pairs along a
    further axis, where that is left. A real operand is beside both."""
    if _may_be_pairs(operands):
        return from_pairs(compute(*map(_paired, operands)))
    return joined(*_of_parts(compute, *operands))


def _of_parts(compute: Callable[..., Tensor], *operands: Tensor) -> tuple[Tensor, Tensor]:
    """The two parts of each_part()."""
    if _may_be_pairs(operands):
        both = compute(*map(_paired, operands))
        return _views.taken(both, both.ndim - 1, 0), _views.taken(both, both.ndim - 1, 1)
    first = compute(*(real(x) if is_complex(x) else x for x in operands))
    return first, compute(*(imag(x) if is_complex(x) else x for x in operands))


def _may_be_pairs(operands: tuple[Tensor, ...]) -> bool:
    return all(x.ndim < _views.MAX_RANK for x in operands)


def _paired(x: Tensor) -> Tensor:
    return pairs(x) if is_complex(x) else _views.inserted(x, [x.ndim])


def one(function: str, x: Tensor) -> Tensor:
    """The elementwise function of that name."""
    if function in _OF_PARTS:
        return each_part(_OF_PARTS[function], x)
    if function in _TESTS:
        either, test = _TESTS[function]
        return either(*_of_parts(test, x))
    a, b = real(x), imag(x)
    if function == "abs":
        return ops.hypot(a, b)
    return joined(*_complex_functions.ONE[function](a, b))


_OF_PARTS = {"negative": ops.neg, "round": ops.round}
_TESTS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "isnan": (ops.logical_or, ops.is_nan),
    "isinf": (ops.logical_or, ops.is_inf),
    "isfinite": (ops.logical_and, ops.is_finite),
}


def two(function: str, a: Tensor, b: Tensor) -> Tensor:
    """The elementwise function of that name, of tensors of one complex dtype."""
    if function in ("add", "subtract"):
        return each_part(ops.add if function == "add" else ops.sub, a, b)
    if function == "equal":
        return ops.logical_and(*_of_parts(ops.equal, a, b))
    if function == "not_equal":
        return ops.logical_or(*_of_parts(ops.not_equal, a, b))
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
    # Each by itself: kernels are better at the last axis, and faster, than beside pairs.
    return joined(*(compute(part, axes=axes, keepdims=keepdims) for part in (real(x), imag(x))))


def _product(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    rest = [size for i, size in enumerate(x.shape) if i not in axes]
    count = math.prod(x.shape[i] for i in axes)
    factors = _views.reshaped(_views.at_front(x, axes), [count, *rest])
    if count == 0:
        factors = _core.ones([1, *rest], dtype=x.dtype, device=x.device)
    shape = [1 if i in axes else size for i, size in enumerate(x.shape)] if keepdims else rest
    found = joined(*_complex_products.product(real(factors), imag(factors)))
    return _views.reshaped(found, shape)


def scanned(function: str, x: Tensor, axis: int) -> Tensor:
    """cumulative_sum or cumulative_prod along an axis."""
    if function == "cumulative_sum":
        return each_part(lambda both: ops.cumsum(both, axis), x)
    return joined(*_complex_products.cumulative(real(x), imag(x), axis))


def matmul(a: Tensor, b: Tensor) -> Tensor:
    # Kernels are many times slower where the numbers of a part lie apart.
    re_a, im_a, re_b, im_b = (part(x).copy() for x in (a, b) for part in (real, imag))
    re = ops.sub(ops.matmul(re_a, re_b), ops.matmul(im_a, im_b))
    return joined(re, ops.add(ops.matmul(re_a, im_b), ops.matmul(im_a, re_b)))
