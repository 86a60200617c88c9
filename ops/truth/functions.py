# SPDX-License-Identifier: Apache-2.0
"""The outside function of each elementwise operator. ARRAYS: numpy's, whose result in float64,
rounded once more, is the right one (one IEEE operation, or a choice); integers in their own type.
DIGITS: mpmath's at 60 digits, of numbers that are not special, with what the standards (IEEE 754,
annex F of C, the operator's text in ONNX) say of those that are, by hand."""

import fractions
import math

import mpmath
import numpy

mpmath.mp.dps = 60

INF, NAN = math.inf, math.nan
HALF_PI = mpmath.pi / 2


def _quotient(a, b):
    """Toward zero. numpy gives 0 for division by zero, and wraps the smallest by -1."""
    return numpy.floor_divide(a - numpy.fmod(a, b), b)


def _power(a, b):
    if a.dtype.kind != "i":
        return numpy.power(a, b)
    negative = b < 0
    inverse = numpy.where(a == 1, 1, numpy.where(a == -1, numpy.where(b & 1, -1, 1), 0))
    return numpy.where(negative, inverse, numpy.power(a, numpy.where(negative, 0, b)))


def _shrink(x, bias, lambd):
    kind = x.dtype.type
    up, down = (x + kind(bias)), (x - kind(bias))
    below = x < -kind(lambd) if x.dtype.kind != "u" else numpy.zeros(x.shape, bool)
    return numpy.where(below, up, numpy.where(x > kind(lambd), down, kind(0)))


def _is_inf(x, detect_negative, detect_positive):
    return (numpy.isposinf(x) & bool(detect_positive)) | (numpy.isneginf(x) & bool(detect_negative))


ARRAYS = {
    "relu": lambda x: numpy.maximum(x, x.dtype.type(0)),
    "add": numpy.add,
    "sub": numpy.subtract,
    "mul": numpy.multiply,
    "div": lambda a, b: a / b if a.dtype.kind == "f" else _quotient(a, b),
    "max": numpy.maximum,
    "min": numpy.minimum,
    "sqrt": numpy.sqrt,
    "reciprocal": lambda x: 1 / x,
    "abs": numpy.abs,
    "neg": numpy.negative,
    "sign": numpy.sign,
    "ceil": numpy.ceil,
    "floor": numpy.floor,
    "round": numpy.rint,
    "trunc": numpy.trunc,
    "thresholded_relu": lambda x, alpha: numpy.where(x > alpha, x, 0.0),
    "shrink": _shrink,
    "prelu": lambda x, slope: numpy.where(x < 0, slope * x, x),
    "mod": numpy.remainder,
    "fmod": numpy.fmod,
    "pow": _power,  # of integers
    "equal": numpy.equal,
    "greater": numpy.greater,
    "greater_or_equal": numpy.greater_equal,
    "less": numpy.less,
    "less_or_equal": numpy.less_equal,
    "logical_and": numpy.logical_and,
    "logical_or": numpy.logical_or,
    "logical_xor": numpy.logical_xor,
    "logical_not": numpy.logical_not,
    "bitwise_and": numpy.bitwise_and,
    "bitwise_or": numpy.bitwise_or,
    "bitwise_xor": numpy.bitwise_xor,
    "bitwise_not": numpy.invert,
    "shift_left": numpy.left_shift,
    "shift_right": numpy.right_shift,
    "clip": lambda x, low, high: numpy.minimum(numpy.maximum(x, low), high),
    "where": numpy.where,
    "is_nan": numpy.isnan,
    "is_inf": _is_inf,
    "copysign": numpy.copysign,
    "not_equal": numpy.not_equal,
    "is_finite": numpy.isfinite,
    "signbit": numpy.signbit,
    "floor_divide": numpy.floor_divide,  # of integers
}
# In the dtype itself, in whose steps the result is.
OWN_TYPE = {"nextafter": numpy.nextafter}


def _within(low, high, function, below=NAN, above=NAN):
    """Defined from low to high; what it gives beyond."""
    return lambda x: below if x < low else above if x > high else function(x)


def _poles(function):
    """atanh: infinite at -1 and 1, NaN beyond."""
    return lambda x: NAN if abs(x) > 1 else INF * int(x) if abs(x) == 1 else function(x)


def _sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


def _tanh(x):
    # From 300 on it is 1 to more than 60 digits, and e^x would have too many.
    return mpmath.tanh(x) if abs(x) < 300 else mpmath.sign(x)


def _softplus(x):
    if x > 300:
        return x + mpmath.exp(-x)
    return mpmath.log1p(mpmath.exp(x))


def _normal_share(x):
    """The part of a normal distribution below x; by erfc, which keeps its digits."""
    if x > 60 or x < -60:
        return mpmath.mpf(1 if x > 0 else 0)
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _gelu_tanh(x):
    inner = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x * _sigmoid(2 * inner) if abs(inner) < 10000 else max(x, mpmath.mpf(0))


def _erf(x):
    return mpmath.erf(x) if abs(x) < 60 else mpmath.sign(x)


def _exp(x):
    return mpmath.exp(x) if abs(x) < 20000 else mpmath.ldexp(1, 29000 if x > 0 else -29000)


def _clamp(x):
    return max(mpmath.mpf(0), min(mpmath.mpf(1), x))


def _swish(x, alpha):
    inner = alpha * x
    return x * _sigmoid(inner) if inner > -20000 else mpmath.mpf(0)


def _below_zero(x, alpha):
    return alpha * (_exp(x) - 1 if x < -1 else mpmath.expm1(x))


def _hyperbolic(function, even):
    """sinh or cosh, far beyond every format where x is large."""
    def value(x):
        if abs(x) < 20000:
            return function(x)
        return mpmath.ldexp(1 if even or x > 0 else -1, 29000)
    return value


_ODD = (-INF, -0.0, 0.0, INF, NAN)  # sinh and the like
_ANGLE = (NAN, -0.0, 0.0, NAN, NAN)
_LIMITED = (-1.0, -0.0, 0.0, 1.0, NAN)
_ACTIVATION = (NAN, -0.0, 0.0, INF, NAN)  # x times something that is 0 at -inf

# The function, and its results at -inf, -0, 0, inf and NaN.
DIGITS = {
    "exp": (_exp, (0.0, 1.0, 1.0, INF, NAN)),
    "expm1": (lambda x: mpmath.expm1(x) if abs(x) < 1 else _exp(x) - 1,
              (-1.0, -0.0, 0.0, INF, NAN)),
    "log": (_within(0, INF, mpmath.log), (NAN, -INF, -INF, INF, NAN)),
    "log1p": (lambda x: -INF if x == -1 else NAN if x < -1 else mpmath.log1p(x),
              (NAN, -0.0, 0.0, INF, NAN)),
    "log2": (_within(0, INF, lambda x: mpmath.log(x, 2)), (NAN, -INF, -INF, INF, NAN)),
    "log10": (_within(0, INF, mpmath.log10), (NAN, -INF, -INF, INF, NAN)),
    "rsqrt": (_within(0, INF, lambda x: 1 / mpmath.sqrt(x)), (NAN, -INF, INF, 0.0, NAN)),
    "sin": (mpmath.sin, _ANGLE),
    "cos": (mpmath.cos, (NAN, 1.0, 1.0, NAN, NAN)),
    "tan": (mpmath.tan, _ANGLE),
    "asin": (_within(-1, 1, mpmath.asin), _ANGLE),
    "acos": (_within(-1, 1, mpmath.acos), (NAN, HALF_PI, HALF_PI, NAN, NAN)),
    "atan": (mpmath.atan, (-HALF_PI, -0.0, 0.0, HALF_PI, NAN)),
    "sinh": (_hyperbolic(mpmath.sinh, False), _ODD),
    "cosh": (_hyperbolic(mpmath.cosh, True), (INF, 1.0, 1.0, INF, NAN)),
    "tanh": (_tanh, _LIMITED),
    "asinh": (mpmath.asinh, _ODD),
    "acosh": (_within(1, INF, mpmath.acosh), (NAN, NAN, NAN, INF, NAN)),
    "atanh": (_poles(mpmath.atanh), _ANGLE),
    "erf": (_erf, _LIMITED),
    "sigmoid": (lambda x: _sigmoid(x) if x > -20000 else _exp(x), (0.0, 0.5, 0.5, 1.0, NAN)),
    "hard_sigmoid": (lambda x, alpha, beta: _clamp(alpha * x + beta),
                     lambda alpha, beta: (0.0, beta, beta, 1.0, NAN)),
    "hard_swish": (lambda x: x * _clamp(x / 6 + 0.5), _ACTIVATION),
    "leaky_relu": (lambda x, alpha: alpha * x if x < 0 else x, lambda alpha: _ODD),
    "elu": (lambda x, alpha: x if x > 0 else _below_zero(x, alpha),
            lambda alpha: (-alpha, -0.0, 0.0, INF, NAN)),
    "celu": (lambda x, alpha: x if x > 0 else _below_zero(x / alpha, alpha),
             lambda alpha: (-alpha, -0.0, 0.0, INF, NAN)),
    "selu": (lambda x, alpha, gamma: gamma * (x if x > 0 else _below_zero(x, alpha)),
             lambda alpha, gamma: (-gamma * alpha, -0.0, 0.0, INF, NAN)),
    "softplus": (_softplus, (0.0, mpmath.log(2), mpmath.log(2), INF, NAN)),
    "softsign": (lambda x: x / (1 + abs(x)), _ANGLE),
    "mish": (lambda x: x * _tanh(_softplus(x)) if x > -20000 else mpmath.mpf(0), _ACTIVATION),
    "swish": (_swish, lambda alpha: _ACTIVATION),
    "gelu": (lambda x: x * _normal_share(x), _ACTIVATION),
    "gelu_tanh": (_gelu_tanh, _ACTIVATION),
}


def power(a, b):
    """a^b of floats that are not special."""
    if a < 0 and b != int(b):
        return NAN
    size = b * mpmath.log(abs(a))
    if abs(size) > 20000:
        size = mpmath.mpf(math.copysign(20000, size))
    with mpmath.workprec(256):
        result = mpmath.exp(size if abs(size) == 20000 else b * mpmath.log(abs(a)))
    return -result if a < 0 and int(b) % 2 else result


def _fraction(x):
    return fractions.Fraction(int(mpmath.ldexp(x, 1200)), 2**1200)


def _floor_of_quotient(a, b):
    """Exactly; numpy rounds on its way."""
    floor = _fraction(a) // _fraction(b)
    return mpmath.mpf(floor) if floor else 0.0 if (a < 0) == (b < 0) else -0.0


def _log_of_sum(a, b):
    low, high = min(a, b), max(a, b)
    return high + mpmath.log1p(mpmath.exp(max(low - high, mpmath.mpf(-20000))))


# Of two floats: mpmath's of numbers that are not special, and numpy's for those that are.
PAIRS = {
    "pow": (power, numpy.power),
    "atan2": (mpmath.atan2, numpy.arctan2),
    "hypot": (mpmath.hypot, numpy.hypot),
    "logaddexp": (_log_of_sum, numpy.logaddexp),
    "floor_divide": (_floor_of_quotient, numpy.floor_divide),
}
# Zeros are numbers like others there.
OF_ZERO = ("logaddexp",)

# Other values for attributes than the defaults, under which a factor of 1 would not show.
SETTINGS = {
    "hard_sigmoid": [{"alpha": 0.3, "beta": 0.6}],
    "leaky_relu": [{"alpha": 0.3}],
    "elu": [{"alpha": 0.7}],
    "celu": [{"alpha": 0.7}],
    "selu": [{"alpha": 0.7, "gamma": 1.3}],
    "thresholded_relu": [{"alpha": 0.3}],
    "shrink": [{"bias": 1.5, "lambd": 2.5}],
    "swish": [{"alpha": 0.7}],
    "is_inf": [{"detect_negative": 0, "detect_positive": 1},
               {"detect_negative": 1, "detect_positive": 0}],
}
