# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of complex numbers x + y j, given and answered as their two parts.

Special values are those of the standard, which follows C (Annex G). The inverse functions are
Kahan's: "Branch Cuts for Complex Elementary Functions, or Much Ado About Nothing's Sign Bit".
"""

import math
from collections.abc import Callable

from .. import _core, ops
from .._core import Tensor

Parts = tuple[Tensor, Tensor]


def _is(x: Tensor, value: float) -> Tensor:
    return ops.equal(x, value)


def _either(a: Tensor, b: Tensor) -> Tensor:
    return ops.logical_or(a, b)


def _both(a: Tensor, b: Tensor) -> Tensor:
    return ops.logical_and(a, b)


def _constant(value: float, like: Tensor) -> Tensor:
    made: Tensor = _core.full((), value, dtype=like.dtype, device=like.device)
    return made


def _not_finite(x: Tensor) -> Tensor:
    return ops.logical_not(ops.is_finite(x))


# --- arithmetic ----------------------------------------------------------------------------------


def _conj(x: Tensor, y: Tensor) -> Parts:
    return x, ops.neg(y)


def _multiply(a: Parts, b: Parts) -> Parts:
    re = ops.sub(ops.mul(a[0], b[0]), ops.mul(a[1], b[1]))
    return re, ops.add(ops.mul(a[0], b[1]), ops.mul(a[1], b[0]))


def _divide(a: Parts, b: Parts) -> Parts:
    """Smith's way: by the larger part of b first, so that no square overflows."""
    is_wide = ops.greater_or_equal(ops.abs(b[0]), ops.abs(b[1]))
    large, small = ops.where(is_wide, b[0], b[1]), ops.where(is_wide, b[1], b[0])
    size = ops.abs(large)
    # Both scaled alike, so that no sum overflows, or is of what subnormal numbers have left.
    scale = ops.where(ops.greater(size, 1), _constant(0.25, size), 1)
    scale = ops.where(ops.less(size, 1e-30), 2.0**60, scale)
    ratio = ops.div(small, large)
    divisor = ops.add(ops.mul(large, scale), ops.mul(ops.mul(small, scale), ratio))
    # Of a narrow b both parts of a change places, and a sign.
    first = ops.mul(ops.where(is_wide, a[0], a[1]), scale)
    second = ops.mul(ops.where(is_wide, a[1], a[0]), scale)
    re = ops.div(ops.add(first, ops.mul(second, ratio)), divisor)
    im = ops.div(ops.sub(second, ops.mul(first, ratio)), divisor)
    im = ops.where(is_wide, im, ops.neg(im))
    is_zero = _both(_is(b[0], 0), _is(b[1], 0))
    return ops.where(is_zero, ops.div(a[0], size), re), ops.where(is_zero, ops.div(a[1], size), im)


def _reciprocal(x: Tensor, y: Tensor) -> Parts:
    return _divide((_core.ones_like(x), _core.zeros_like(x)), (x, y))


def _sign(x: Tensor, y: Tensor) -> Parts:
    # Scaled, so that the size neither overflows nor is subnormal.
    is_below_one = ops.less(ops.max(ops.abs(x), ops.abs(y)), 1)
    scale = ops.where(is_below_one, _constant(2.0**60, x), 0.25)
    x, y = ops.mul(x, scale), ops.mul(y, scale)
    size = ops.hypot(x, y)
    is_zero = _is(size, 0)
    return ops.where(is_zero, 0, ops.div(x, size)), ops.where(is_zero, 0, ops.div(y, size))


def _square(x: Tensor, y: Tensor) -> Parts:
    return _multiply((x, y), (x, y))


def _sqrt(x: Tensor, y: Tensor) -> Parts:
    # Brought near 1 by a power of 4, so that neither a size overflows nor a half is lost.
    width, height = ops.abs(x), ops.abs(y)
    is_below_one = ops.less(ops.max(width, height), 1)
    scale = ops.where(is_below_one, _constant(2.0**60, x), 0.25)
    back = ops.where(is_below_one, _constant(2.0**-30, x), 2)
    scaled = ops.mul(width, scale)
    twice = ops.add(scaled, ops.hypot(scaled, ops.mul(height, scale)))
    large = ops.mul(ops.sqrt(ops.mul(twice, 0.5)), back)
    small = ops.where(_is(large, 0), 0, ops.mul(ops.div(height, large), 0.5))
    # Of infinities: inf / inf has no value.
    small = ops.where(_both(ops.is_inf(x), ops.is_finite(y)), 0, small)
    is_right = ops.logical_not(ops.less(x, 0))
    re, im = ops.where(is_right, large, small), ops.where(is_right, small, large)
    beside = ops.is_inf(y)
    re = ops.where(beside, math.inf, re)
    im = ops.copysign(ops.where(beside, math.inf, im), y)
    lost = _both(ops.is_nan(y), _is(x, -math.inf))
    return ops.where(lost, math.nan, re), ops.where(lost, math.inf, im)


# --- powers and logarithms -----------------------------------------------------------------------


def _exp(x: Tensor, y: Tensor) -> Parts:
    half = ops.exp(ops.mul(x, 0.5))  # twice: e^x may overflow where the result does not
    re = ops.mul(half, ops.mul(half, ops.cos(y)))
    im = ops.where(_is(y, 0), y, ops.mul(half, ops.mul(half, ops.sin(y))))
    lost = _not_finite(y)
    to_zero, to_inf = _both(_is(x, -math.inf), lost), _both(_is(x, math.inf), lost)
    re = ops.where(to_inf, math.inf, ops.where(to_zero, 0, re))
    return re, ops.where(to_zero, 0, im)


def _expm1(x: Tensor, y: Tensor) -> Parts:
    re, im = _exp(x, y)
    sine = ops.sin(ops.mul(y, 0.5))
    near = ops.sub(ops.mul(ops.expm1(x), ops.cos(y)), ops.mul(ops.mul(sine, sine), 2))
    near = ops.add(near, 0)  # -0 becomes 0
    is_plain = _both(ops.less(ops.abs(x), 1), ops.is_finite(y))
    return ops.where(is_plain, near, ops.sub(re, 1)), im


def _log(x: Tensor, y: Tensor) -> Parts:
    wide, narrow = ops.max(ops.abs(x), ops.abs(y)), ops.min(ops.abs(x), ops.abs(y))
    size = ops.hypot(x, y)
    # Near 1 the logarithm is of what the square of the size is above it.
    beyond = ops.add(ops.mul(ops.sub(wide, 1), ops.add(wide, 1)), ops.mul(narrow, narrow))
    is_near = _both(ops.greater(size, 0.5), ops.less(size, 2))
    re = ops.where(is_near, ops.mul(ops.log1p(beyond), 0.5), _log_of_size(x, y))
    return re, ops.atan2(y, x)


def _log_of_size(x: Tensor, y: Tensor) -> Tensor:
    # Scaled at the ends of the range, where the size overflows or is subnormal.
    wide = ops.max(ops.abs(x), ops.abs(y))
    is_small, is_large = ops.less(wide, 1e-30), ops.greater(wide, 1e30)
    scale = ops.where(is_small, _constant(2.0**60, x), ops.where(is_large, _constant(0.25, x), 1))
    found = ops.log(ops.hypot(ops.mul(x, scale), ops.mul(y, scale)))
    return ops.sub(found, ops.log(scale))


def _log_of_base(base: float) -> Callable[[Tensor, Tensor], Parts]:
    def compute(x: Tensor, y: Tensor) -> Parts:
        re, im = _log(x, y)
        return ops.mul(re, 1 / math.log(base)), ops.mul(im, 1 / math.log(base))

    return compute


def _log1p(x: Tensor, y: Tensor) -> Parts:
    re, im = _log(ops.add(x, 1), y)
    beyond = ops.add(ops.mul(x, ops.add(x, 2)), ops.mul(y, y))
    is_near = _both(ops.less(ops.abs(x), 0.5), ops.less(ops.abs(y), 0.5))
    return ops.where(is_near, ops.mul(ops.log1p(beyond), 0.5), re), im


def _pow(a: Parts, b: Parts) -> Parts:
    re, im = _exp(*_multiply(b, _log(*a)))
    is_zero = _both(_is(a[0], 0), _is(a[1], 0))
    to_one = _both(_is(b[0], 0), _is(b[1], 0))
    to_zero = _both(is_zero, ops.greater(b[0], 0))
    lost = _both(is_zero, ops.logical_not(_either(to_zero, to_one)))
    re = ops.where(to_one, 1, ops.where(to_zero, 0, ops.where(lost, math.nan, re)))
    im = ops.where(_either(to_zero, to_one), 0, ops.where(lost, math.nan, im))
    return re, im


# --- hyperbolic functions, and the trigonometric ones by way of them -----------------------------


def _sinh(x: Tensor, y: Tensor) -> Parts:
    return _turned(ops.sinh(x), ops.cosh(x), x, y)


def _cosh(x: Tensor, y: Tensor) -> Parts:
    return _turned(ops.cosh(x), ops.sinh(x), x, y)


def _turned(of_cos: Tensor, of_sin: Tensor, x: Tensor, y: Tensor) -> Parts:
    """of_cos cos y + of_sin sin y j. Infinities and zeros stay where the angle is none."""
    lost = _not_finite(y)
    stays = _both(lost, _either(ops.is_inf(x), _is(of_cos, 0)))
    re = ops.where(stays, of_cos, ops.mul(of_cos, ops.cos(y)))
    is_zero = _either(_is(y, 0), _both(lost, _is(of_sin, 0)))
    # NaN may have any sign: take none.
    zero = ops.copysign(0, ops.where(ops.is_nan(of_sin), 1, of_sin))
    zero = ops.mul(zero, ops.copysign(1, y))
    return re, ops.where(is_zero, zero, ops.mul(of_sin, ops.sin(y)))


def _tanh(x: Tensor, y: Tensor) -> Parts:
    tangent, sine = ops.tan(y), ops.sinh(x)
    scale = ops.add(ops.mul(tangent, tangent), 1)
    divisor = ops.add(ops.mul(scale, ops.mul(sine, sine)), 1)
    root = ops.sqrt(ops.add(ops.mul(sine, sine), 1))
    re = ops.div(ops.mul(scale, ops.mul(root, sine)), divisor)
    im = ops.div(tangent, divisor)
    # There no float is between the real part and 1; an angle is needed but by infinity.
    is_far = _both(ops.greater(ops.abs(x), 20), _either(ops.is_inf(x), ops.is_finite(y)))
    small = ops.mul(ops.exp(ops.mul(ops.abs(x), -2)), 4)
    far_im = ops.mul(ops.mul(ops.sin(y), ops.cos(y)), small)
    far_im = ops.where(ops.is_inf(x), ops.copysign(0, y), far_im)
    re = ops.where(_is(x, 0), x, ops.where(is_far, ops.copysign(1, x), re))
    return re, ops.where(_is(y, 0), y, ops.where(is_far, far_im, im))


def _far(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Whether one part of an inverse function is log(2 |x + y j|), and the other one an angle; and
    that logarithm, of a size that may be beyond the largest number."""
    is_far = _either(ops.greater(ops.abs(x), 1e30), ops.greater(ops.abs(y), 1e30))
    size = ops.hypot(ops.mul(x, 0.25), ops.mul(y, 0.25))
    return is_far, ops.add(ops.log(size), math.log(8))


def _asinh(x: Tensor, y: Tensor) -> Parts:
    a_re, a_im = _sqrt(ops.add(y, 1), ops.neg(x))
    b_re, b_im = _sqrt(ops.sub(1, y), x)
    re = ops.asinh(ops.sub(ops.mul(a_re, b_im), ops.mul(a_im, b_re)))
    im = ops.atan2(y, ops.sub(ops.mul(a_re, b_re), ops.mul(a_im, b_im)))
    is_far, size = _far(x, y)
    re = ops.where(is_far, ops.copysign(size, x), re)
    im = ops.where(is_far, ops.atan2(y, ops.abs(x)), im)
    return re, ops.where(_is(y, 0), y, im)


def _acosh(x: Tensor, y: Tensor) -> Parts:
    a_re, a_im = _sqrt(ops.sub(x, 1), y)
    b_re, b_im = _sqrt(ops.add(x, 1), y)
    re = ops.asinh(ops.add(ops.mul(a_re, b_re), ops.mul(a_im, b_im)))
    im = ops.mul(ops.atan2(a_im, b_re), 2)
    is_far, size = _far(x, y)
    re = ops.where(is_far, size, re)
    im = ops.where(is_far, ops.atan2(y, x), im)
    return re, ops.where(_both(_is(x, 0), ops.is_nan(y)), math.pi / 2, im)


def _acos(x: Tensor, y: Tensor) -> Parts:
    a_re, a_im = _sqrt(ops.sub(1, x), ops.neg(y))
    b_re, b_im = _sqrt(ops.add(x, 1), y)
    re = ops.mul(ops.atan2(a_re, b_re), 2)
    im = ops.asinh(ops.sub(ops.mul(b_re, a_im), ops.mul(b_im, a_re)))
    is_far, size = _far(x, y)
    re = ops.where(is_far, ops.atan2(ops.abs(y), x), re)
    im = ops.where(is_far, ops.copysign(size, ops.neg(y)), im)
    return ops.where(_both(_is(x, 0), ops.is_nan(y)), math.pi / 2, re), im


def _atanh(x: Tensor, y: Tensor) -> Parts:
    # The real part is that of |x|, with the sign of x: log1p() of what is near -1 has lost it.
    positive = ops.abs(x)
    distance = ops.hypot(ops.sub(1, positive), y)
    ratio = ops.div(ops.div(ops.mul(positive, 4), distance), distance)
    re = ops.mul(ops.log1p(ratio), 0.25)
    # Beside 1 the square of the distance underflows, and the 1 of log1p() counts no more.
    near = ops.mul(ops.sub(ops.log(ops.mul(ops.sqrt(positive), 2)), ops.log(distance)), 0.5)
    re = ops.copysign(ops.where(ops.less(distance, 1e-9), near, re), x)
    behind = ops.sub(ops.mul(ops.sub(1, x), ops.add(x, 1)), ops.mul(y, y))
    im = ops.mul(ops.atan2(ops.mul(y, 2), behind), 0.5)
    # Far away squares overflow, and what they would be subtracted from is lost.
    size = ops.hypot(x, y)
    is_far = ops.greater(size, 1e9)
    far_re = ops.div(ops.div(x, size), size)
    far_re = ops.where(ops.is_inf(size), ops.copysign(0, x), far_re)
    far_im = ops.where(ops.is_nan(y), math.nan, ops.copysign(math.pi / 2, y))
    beside = ops.div(ops.div(y, size), size)  # 1/z, beside the quarter turn
    far_im = ops.where(ops.is_inf(size), far_im, ops.sub(far_im, beside))
    re = ops.where(_is(x, 0), x, ops.where(is_far, far_re, re))
    return re, ops.where(is_far, far_im, im)


def _by_way_of(compute: Callable[[Tensor, Tensor], Parts]) -> Callable[[Tensor, Tensor], Parts]:
    """-j f(j z): sin of sinh, asin of asinh, and so on."""

    def turned(x: Tensor, y: Tensor) -> Parts:
        re, im = compute(ops.neg(y), x)
        return im, ops.neg(re)

    return turned


ONE: dict[str, Callable[[Tensor, Tensor], Parts]] = {
    "acos": _acos,
    "acosh": _acosh,
    "asin": _by_way_of(_asinh),
    "asinh": _asinh,
    "atan": _by_way_of(_atanh),
    "atanh": _atanh,
    "conj": _conj,
    "cos": lambda x, y: _cosh(ops.neg(y), x),
    "cosh": _cosh,
    "exp": _exp,
    "expm1": _expm1,
    "log": _log,
    "log10": _log_of_base(10),
    "log1p": _log1p,
    "log2": _log_of_base(2),
    "reciprocal": _reciprocal,
    "sign": _sign,
    "sin": _by_way_of(_sinh),
    "sinh": _sinh,
    "sqrt": _sqrt,
    "square": _square,
    "tan": _by_way_of(_tanh),
    "tanh": _tanh,
}

TWO: dict[str, Callable[[Parts, Parts], Parts]] = {
    "divide": _divide,
    "multiply": _multiply,
    "pow": _pow,
    "power": _pow,  # as the operator of Tensor is called
}
