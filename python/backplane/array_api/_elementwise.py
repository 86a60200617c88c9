# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of real and complex tensors."""

import builtins
import math
from collections.abc import Callable
from typing import Any

from .. import _core, ops
from .._core import Dtype, Tensor
from . import _arguments, _complex, _kinds
from ._arguments import Scalar

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

Operand = Tensor | Scalar


# --- one operand ---------------------------------------------------------------------------------


def _of_floats(
    function: str, x: Tensor, of_real: Callable[[Tensor], Tensor], may_be_complex: bool = True
) -> Tensor:
    kind = _kinds.FLOATING if may_be_complex else _kinds.REAL_FLOATING
    x = _arguments.tensor_of_kind(function, "x", x, kind)
    if x.dtype in _kinds.COMPLEX_FLOATING.dtypes:
        return _complex.one(function, x)
    return of_real(x)


def _of_numbers(function: str, x: Tensor, of_real: Callable[[Tensor], Tensor]) -> Tensor:
    x = _arguments.tensor_of_kind(function, "x", x, _kinds.NUMERIC)
    if x.dtype in _kinds.COMPLEX_FLOATING.dtypes:
        return _complex.one(function, x)
    return of_real(x)


def _whole(function: str, x: Tensor, of_floats: Callable[[Tensor], Tensor]) -> Tensor:
    """Integers are whole already."""
    x = _arguments.tensor_of_kind(function, "x", x, _kinds.REAL)
    return x.copy() if x.dtype in _kinds.INTEGRAL.dtypes else of_floats(x)


def _test(
    function: str, x: Tensor, of_floats: Callable[[Tensor], Tensor], of_integers: builtins.bool
) -> Tensor:
    x = _arguments.tensor_of_kind(function, "x", x, _kinds.NUMERIC)
    if x.dtype in _kinds.COMPLEX_FLOATING.dtypes:
        return _complex.one(function, x)
    if x.dtype in _kinds.INTEGRAL.dtypes:
        return _core.full(x.shape, of_integers, dtype=_core.bool, device=x.device)
    return of_floats(x)


def abs(x: Tensor, /) -> Tensor:
    """|x|; of complex numbers, as real ones."""
    return _of_numbers("abs", x, ops.abs)


def acos(x: Tensor, /) -> Tensor:
    """arccos x."""
    return _of_floats("acos", x, ops.acos)


def acosh(x: Tensor, /) -> Tensor:
    """The inverse of cosh."""
    return _of_floats("acosh", x, ops.acosh)


def asin(x: Tensor, /) -> Tensor:
    """arcsin x."""
    return _of_floats("asin", x, ops.asin)


def asinh(x: Tensor, /) -> Tensor:
    """The inverse of sinh."""
    return _of_floats("asinh", x, ops.asinh)


def atan(x: Tensor, /) -> Tensor:
    """arctan x."""
    return _of_floats("atan", x, ops.atan)


def atanh(x: Tensor, /) -> Tensor:
    """The inverse of tanh."""
    return _of_floats("atanh", x, ops.atanh)


def bitwise_invert(x: Tensor, /) -> Tensor:
    """Each bit of x inverted."""
    return ~_arguments.tensor_of_kind("bitwise_invert", "x", x, _kinds.INTEGRAL_OR_BOOL)


def ceil(x: Tensor, /) -> Tensor:
    """The least whole number that is not below x."""
    return _whole("ceil", x, ops.ceil)


def conj(x: Tensor, /) -> Tensor:
    """The complex conjugate."""
    return _of_numbers("conj", x, Tensor.copy)


def cos(x: Tensor, /) -> Tensor:
    """cos x."""
    return _of_floats("cos", x, ops.cos)


def cosh(x: Tensor, /) -> Tensor:
    """(e^x + e^-x) / 2."""
    return _of_floats("cosh", x, ops.cosh)


def exp(x: Tensor, /) -> Tensor:
    """e^x."""
    return _of_floats("exp", x, ops.exp)


def expm1(x: Tensor, /) -> Tensor:
    """e^x - 1, near 0 too."""
    return _of_floats("expm1", x, ops.expm1)


def floor(x: Tensor, /) -> Tensor:
    """The largest whole number that is not above x."""
    return _whole("floor", x, ops.floor)


def imag(x: Tensor, /) -> Tensor:
    """A view of the imaginary parts."""
    x = _arguments.tensor_of_kind("imag", "x", x, _kinds.COMPLEX_FLOATING)
    return _complex.imag(x)


def isfinite(x: Tensor, /) -> Tensor:
    """Whether x is neither infinite nor NaN."""
    return _test("isfinite", x, ops.is_finite, True)


def isinf(x: Tensor, /) -> Tensor:
    """Whether x is infinite."""
    return _test("isinf", x, ops.is_inf, False)


def isnan(x: Tensor, /) -> Tensor:
    """Whether x is NaN."""
    return _test("isnan", x, ops.is_nan, False)


def log(x: Tensor, /) -> Tensor:
    """The natural logarithm."""
    return _of_floats("log", x, ops.log)


def log10(x: Tensor, /) -> Tensor:
    """The logarithm of base 10."""
    return _of_floats("log10", x, ops.log10)


def log1p(x: Tensor, /) -> Tensor:
    """log(1 + x), near 0 too."""
    return _of_floats("log1p", x, ops.log1p)


def log2(x: Tensor, /) -> Tensor:
    """The logarithm of base 2."""
    return _of_floats("log2", x, ops.log2)


def logical_not(x: Tensor, /) -> Tensor:
    """Whether x is false."""
    return ops.logical_not(_arguments.tensor_of_kind("logical_not", "x", x, _kinds.BOOL))


def negative(x: Tensor, /) -> Tensor:
    """-x; unsigned integers wrap."""
    return _of_numbers("negative", x, Tensor.__neg__)


def positive(x: Tensor, /) -> Tensor:
    """A copy."""
    return _arguments.tensor_of_kind("positive", "x", x, _kinds.NUMERIC).copy()


def real(x: Tensor, /) -> Tensor:
    """The real parts: a view of complex numbers, a copy of real ones."""
    x = _arguments.tensor_of_kind("real", "x", x, _kinds.NUMERIC)
    return _complex.real(x) if _complex.is_complex(x) else x.copy()


def reciprocal(x: Tensor, /) -> Tensor:
    """1 / x."""
    return _of_floats("reciprocal", x, ops.reciprocal)


def round(x: Tensor, /) -> Tensor:
    """The whole number nearest to x, of two the even one."""
    x = _arguments.tensor_of_kind("round", "x", x, _kinds.NUMERIC)
    if x.dtype in _kinds.COMPLEX_FLOATING.dtypes:
        return _complex.one("round", x)
    return _whole("round", x, ops.round)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; of complex numbers x / |x|."""
    return _of_numbers("sign", x, ops.sign)


def signbit(x: Tensor, /) -> Tensor:
    """Whether the sign bit is set, of -0 and NaN too."""
    return _of_floats("signbit", x, ops.signbit, may_be_complex=False)


def sin(x: Tensor, /) -> Tensor:
    """sin x."""
    return _of_floats("sin", x, ops.sin)


def sinh(x: Tensor, /) -> Tensor:
    """(e^x - e^-x) / 2."""
    return _of_floats("sinh", x, ops.sinh)


def sqrt(x: Tensor, /) -> Tensor:
    """The square root."""
    return _of_floats("sqrt", x, ops.sqrt)


def square(x: Tensor, /) -> Tensor:
    """x times x."""
    return _of_numbers("square", x, lambda x: ops.mul(x, x))


def tan(x: Tensor, /) -> Tensor:
    """tan x."""
    return _of_floats("tan", x, ops.tan)


def tanh(x: Tensor, /) -> Tensor:
    """sinh x / cosh x."""
    return _of_floats("tanh", x, ops.tanh)


def trunc(x: Tensor, /) -> Tensor:
    """x without its fraction."""
    return _whole("trunc", x, ops.trunc)


# --- two operands --------------------------------------------------------------------------------


def operands(function: str, x1: Operand, x2: Operand, kind: _kinds.Kind) -> tuple[Any, Any]:
    """Both of one dtype of that kind. A Python number stays one, but beside complex numbers."""
    x1, x2 = _arguments.operand(function, "x1", x1), _arguments.operand(function, "x2", x2)
    for name, x in (("x1", x1), ("x2", x2)):
        if isinstance(x, Tensor):
            _arguments.of_kind(function, name, x.dtype, kind)
    dtype = _kinds.result_dtype(function, x1, x2)
    if isinstance(x1, Tensor) and isinstance(x2, Tensor):
        # Asked here first: beside a small operator the calls cost time.
        if x1.device is not x2.device:
            _arguments.on_one_device(function, x1=x1, x2=x2)
        if x1.shape != x2.shape:
            _arguments.fit(function, x1=x1, x2=x2)
    if dtype not in kind.dtypes:
        _arguments.of_kind(function, "x2" if isinstance(x1, Tensor) else "x1", dtype, kind)
    _arguments.in_range(function, "x1", x1, dtype)
    _arguments.in_range(function, "x2", x2, dtype)
    return _settled(x1, x2, dtype), _settled(x2, x1, dtype)


def _settled(x: Any, beside: Any, dtype: Dtype) -> Any:
    if isinstance(x, Tensor):
        return _complex.cast(x, dtype)
    if dtype in _kinds.COMPLEX_FLOATING.dtypes:
        return _core.asarray(x, dtype=dtype, device=beside.device)
    return x


def _is_complex(x1: Operand, x2: Operand) -> builtins.bool:
    return any(
        isinstance(x, Tensor) and x.dtype in _kinds.COMPLEX_FLOATING.dtypes for x in (x1, x2)
    )


def _of_two(
    function: str,
    x1: Operand,
    x2: Operand,
    kind: _kinds.Kind,
    of_real: Callable[[Operand, Operand], Tensor],
) -> Tensor:
    a, b = operands(function, x1, x2, kind)
    if _is_complex(a, b):
        return _complex.two(function, a, b)
    return of_real(a, b)


def add(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 + x2; integers wrap."""
    return _of_two("add", x1, x2, _kinds.NUMERIC, ops.add)


def atan2(x1: Operand, x2: Operand, /) -> Tensor:
    """The angle of the point (x2, x1)."""
    return _of_two("atan2", x1, x2, _kinds.REAL_FLOATING, ops.atan2)


def bitwise_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Bitwise and."""
    a, b = operands("bitwise_and", x1, x2, _kinds.INTEGRAL_OR_BOOL)
    found: Tensor = a & b
    return found


def bitwise_left_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 with its bits moved up by x2; 0 where that is the width of the dtype or more."""
    return _of_two("bitwise_left_shift", x1, x2, _kinds.INTEGRAL, ops.shift_left)


def bitwise_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Bitwise or."""
    a, b = operands("bitwise_or", x1, x2, _kinds.INTEGRAL_OR_BOOL)
    found: Tensor = a | b
    return found


def bitwise_right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 with its bits moved down by x2; negative numbers keep their sign."""
    return _of_two("bitwise_right_shift", x1, x2, _kinds.INTEGRAL, ops.shift_right)


def bitwise_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Bitwise exclusive or."""
    a, b = operands("bitwise_xor", x1, x2, _kinds.INTEGRAL_OR_BOOL)
    found: Tensor = a ^ b
    return found


def copysign(x1: Operand, x2: Operand, /) -> Tensor:
    """|x1| with the sign of x2."""
    return _of_two("copysign", x1, x2, _kinds.REAL_FLOATING, ops.copysign)


def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 / x2, of floats."""
    return _of_two("divide", x1, x2, _kinds.FLOATING, ops.div)


def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 is x2."""
    return _of_two("equal", x1, x2, _kinds.ANY, ops.equal)


def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 / x2 rounded towards minus infinity. Integers: 0 where x2 is 0."""
    return _of_two("floor_divide", x1, x2, _kinds.REAL, _floor_divide)


def _floor_divide(a: Any, b: Any) -> Tensor:
    """An infinite quotient stays one, as the standard has it; of the operator it is NaN."""
    found = ops.floor_divide(a, b)
    if found.dtype in _kinds.INTEGRAL.dtypes:
        return found
    if isinstance(a, Tensor):
        return ops.where(ops.is_inf(a), ops.div(a, b), found)
    return ops.div(a, b) if math.isinf(a) else found


def greater(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 is above x2."""
    return _of_two("greater", x1, x2, _kinds.REAL, ops.greater)


def greater_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 is x2 or above it."""
    return _of_two("greater_equal", x1, x2, _kinds.REAL, ops.greater_or_equal)


def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    """The square root of x1^2 + x2^2."""
    return _of_two("hypot", x1, x2, _kinds.REAL_FLOATING, ops.hypot)


def less(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 is below x2."""
    return _of_two("less", x1, x2, _kinds.REAL, ops.less)


def less_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 is x2 or below it."""
    return _of_two("less_equal", x1, x2, _kinds.REAL, ops.less_or_equal)


def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """log(e^x1 + e^x2)."""
    return _of_two("logaddexp", x1, x2, _kinds.REAL_FLOATING, ops.logaddexp)


def logical_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether both are true."""
    return _of_two("logical_and", x1, x2, _kinds.BOOL, ops.logical_and)


def logical_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether any is true."""
    return _of_two("logical_or", x1, x2, _kinds.BOOL, ops.logical_or)


def logical_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether exactly one is true."""
    return _of_two("logical_xor", x1, x2, _kinds.BOOL, ops.logical_xor)


def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    """The larger; NaN if either is NaN."""
    return _of_two("maximum", x1, x2, _kinds.REAL, ops.max)


def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    """The smaller; NaN if either is NaN."""
    return _of_two("minimum", x1, x2, _kinds.REAL, ops.min)


def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 * x2; integers wrap."""
    return _of_two("multiply", x1, x2, _kinds.NUMERIC, ops.mul)


def nextafter(x1: Operand, x2: Operand, /) -> Tensor:
    """The next number from x1 towards x2."""
    a, b = operands("nextafter", x1, x2, _kinds.REAL_FLOATING)
    dtype = (a if isinstance(a, Tensor) else b).dtype
    return _next_half(a, b) if dtype.itemsize == 2 else ops.nextafter(a, b)


def _next_half(x1: Operand, x2: Operand) -> Tensor:
    """Of float16 and bfloat16: the numbers of a sign are in the order of their bits."""
    like: Any = x1 if isinstance(x1, Tensor) else x2
    a, b = (_core.asarray(x, dtype=like.dtype, device=like.device) for x in (x1, x2))
    bits = ops.bit_cast(a, _core.int16)
    outward, inward = (ops.bit_cast(ops.add(bits, step), a.dtype) for step in (1, -1))
    is_outward = ops.equal(ops.greater(b, a), ops.greater(a, 0))
    found = ops.where(is_outward, outward, inward)
    found = ops.where(ops.equal(a, 0), ops.copysign(outward, b), found)
    found = ops.where(ops.equal(a, b), b, found)
    return ops.where(ops.logical_or(ops.is_nan(a), ops.is_nan(b)), math.nan, found)


def not_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether x1 is not x2."""
    return _of_two("not_equal", x1, x2, _kinds.ANY, ops.not_equal)


def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 to the power of x2. Integers wrap; a negative power is truncated."""
    return _of_two("pow", x1, x2, _kinds.NUMERIC, ops.pow)


def remainder(x1: Operand, x2: Operand, /) -> Tensor:
    """The rest of x1 / x2 with the sign of x2."""
    return _of_two("remainder", x1, x2, _kinds.REAL, ops.mod)


def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 - x2; integers wrap."""
    return _of_two("subtract", x1, x2, _kinds.NUMERIC, ops.sub)


# --- three operands ------------------------------------------------------------------------------


def clip(
    x: Tensor,
    /,
    min: int | float | Tensor | None = None,
    max: int | float | Tensor | None = None,
) -> Tensor:
    """x, but min where it is below that, and max where it is above. The dtype is that of x."""
    x = _arguments.tensor_of_kind("clip", "x", x, _kinds.REAL)
    min = None if min is None else _arguments.operand("clip", "min", min)
    max = None if max is None else _arguments.operand("clip", "max", max)
    _arguments.fit("clip", x=x, min=min, max=max)
    _arguments.on_one_device("clip", x=x, min=min, max=max)
    clipped = x
    if min is not None:
        clipped = ops.max(clipped, _bound("min", min, x))
    if max is not None:
        clipped = ops.min(clipped, _bound("max", max, x))
    return x.copy() if clipped is x else clipped


def _bound(name: str, bound: int | float | Tensor, x: Tensor) -> Any:
    if isinstance(bound, Tensor):
        _arguments.of_kind("clip", name, bound.dtype, _kinds.REAL)
        if _kinds.promote("clip", bound.dtype, x.dtype) != x.dtype:
            raise TypeError(
                f"clip: argument '{name}': expected {x.dtype}, which x has, found {bound.dtype}"
            )
        return bound.astype(x.dtype, copy=False)
    if isinstance(bound, complex):
        raise TypeError(f"clip: argument '{name}': expected a real number, found {bound}")
    _kinds.promote_scalar("clip", x.dtype, bound)
    _arguments.in_range("clip", name, bound, x.dtype)
    return bound
