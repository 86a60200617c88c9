# SPDX-License-Identifier: Apache-2.0
"""The dtypes of the namespace by their kinds, and how they promote.

Promotion follows the standard: within a kind the narrowest dtype that holds both; floats and
complex numbers mix; other kinds do not, and say so (the operators of Tensor are more generous).
float16 and bfloat16, which the standard does not have, are real floats too.
"""

import builtins
from typing import Any, NamedTuple

from .. import _core
from .._core import Dtype, Tensor


class Kind(NamedTuple):
    name: str
    dtypes: frozenset[Dtype]


def _kind(name: str, *parts: Any) -> Kind:
    found: set[Dtype] = set()
    for part in parts:
        found |= part.dtypes if isinstance(part, Kind) else {part}
    return Kind(name, frozenset(found))


BOOL = _kind("bool", _core.bool)
SIGNED = _kind("signed integer", _core.int8, _core.int16, _core.int32, _core.int64)
UNSIGNED = _kind("unsigned integer", _core.uint8, _core.uint16, _core.uint32, _core.uint64)
INTEGRAL = _kind("integral", SIGNED, UNSIGNED)
REAL_FLOATING = _kind("real floating", _core.float32, _core.float64, _core.float16, _core.bfloat16)
COMPLEX_FLOATING = _kind("complex floating", _core.complex64, _core.complex128)
NUMERIC = _kind("numeric", INTEGRAL, REAL_FLOATING, COMPLEX_FLOATING)

REAL = _kind("real-valued", INTEGRAL, REAL_FLOATING)
FLOATING = _kind("floating-point", REAL_FLOATING, COMPLEX_FLOATING)
INTEGRAL_OR_BOOL = _kind("integral or bool", INTEGRAL, BOOL)
ANY = _kind("bool or numeric", BOOL, NUMERIC)

BY_NAME = {
    kind.name: kind
    for kind in (BOOL, SIGNED, UNSIGNED, INTEGRAL, REAL_FLOATING, COMPLEX_FLOATING, NUMERIC)
}

_SIGNED_BY_SIZE = {dtype.itemsize: dtype for dtype in SIGNED.dtypes}


def component(dtype: Dtype) -> Dtype:
    """The real dtype of the parts of a complex one."""
    return _core.float32 if dtype == _core.complex64 else _core.float64


def complex_of(dtype: Dtype) -> Dtype:
    """The complex dtype that holds a real floating one."""
    return _core.complex128 if dtype == _core.float64 else _core.complex64


def _refuse(function: str, a: Any, b: Any) -> TypeError:
    return TypeError(
        f"{function}: {a} and {b} do not promote to one dtype; convert one with astype()"
    )


def _promote_integers(function: str, a: Dtype, b: Dtype) -> Dtype:
    if (a in SIGNED.dtypes) == (b in SIGNED.dtypes):
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a in SIGNED.dtypes else (b, a)
    dtype = _SIGNED_BY_SIZE.get(max(signed.itemsize, 2 * unsigned.itemsize))
    if dtype is None:
        raise _refuse(function, a, b)
    return dtype


def _promote_floats(a: Dtype, b: Dtype) -> Dtype:
    if a in COMPLEX_FLOATING.dtypes or b in COMPLEX_FLOATING.dtypes:
        wide = a in _WIDE or b in _WIDE
        return _core.complex128 if wide else _core.complex64
    if a.itemsize == b.itemsize:
        return _core.float32  # float16 and bfloat16
    return a if a.itemsize > b.itemsize else b


_WIDE = frozenset({_core.float64, _core.complex128})


def promote(function: str, a: Dtype, b: Dtype) -> Dtype:
    """Raises TypeError where the standard says nothing."""
    if a == b:
        return a
    if a in INTEGRAL.dtypes and b in INTEGRAL.dtypes:
        return _promote_integers(function, a, b)
    if a in FLOATING.dtypes and b in FLOATING.dtypes:
        return _promote_floats(a, b)
    raise _refuse(function, a, b)


def promote_scalar(function: str, dtype: Dtype, scalar: Any) -> Dtype:
    """With a Python number, which takes the dtype if that is of its kind or a higher one."""
    if isinstance(scalar, builtins.bool):
        fits = dtype in BOOL.dtypes
    elif isinstance(scalar, int):
        fits = dtype in NUMERIC.dtypes
    elif isinstance(scalar, float):
        fits = dtype in FLOATING.dtypes
    elif isinstance(scalar, complex):
        fits = dtype in FLOATING.dtypes
        if dtype in REAL_FLOATING.dtypes:
            return complex_of(dtype)
    else:
        raise TypeError(
            f"{function}: expected tensors, dtypes and Python numbers, "
            f"found {type(scalar).__name__}"
        )
    if not fits:
        raise _refuse(function, dtype, f"a Python {type(scalar).__name__}")
    return dtype


def result_dtype(function: str, *values: Any) -> Dtype:
    """Of tensors, dtypes and Python numbers, at least one of them no number."""
    found: Dtype | None = None
    for value in values:
        dtype = value.dtype if isinstance(value, Tensor) else value
        if isinstance(dtype, Dtype):
            found = dtype if found is None else promote(function, found, dtype)
    if found is None:
        raise TypeError(f"{function}: expected at least one tensor or dtype, found only numbers")
    for value in values:
        if not isinstance(value, (Tensor, Dtype)):
            found = promote_scalar(function, found, value)
    return found
