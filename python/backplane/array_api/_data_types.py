# SPDX-License-Identifier: Apache-2.0
"""Data type functions."""

from dataclasses import dataclass
from typing import Any

from .. import _core
from .._core import Device, Dtype, Tensor
from . import _arguments, _complex, _kinds
from ._arguments import DtypeLike

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]


@dataclass(frozen=True)
class finfo_object:
    """What finfo() answers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Dtype


@dataclass(frozen=True)
class iinfo_object:
    """What iinfo() answers."""

    bits: int
    max: int
    min: int
    dtype: Dtype


# Bits of the mantissa, and the exponents of the smallest normal number and of the largest one.
_FLOATS = {
    _core.float16: (10, -14, 15),
    _core.bfloat16: (7, -126, 127),
    _core.float32: (23, -126, 127),
    _core.float64: (52, -1022, 1023),
}


def astype(
    x: Tensor, dtype: DtypeLike, /, *, copy: bool = True, device: Device | str | None = None
) -> Tensor:
    """x as another dtype. Complex tensors have no real dtype: take real() or imag()."""
    x = _arguments.tensor("astype", "x", x)
    wanted = _arguments.dtype("astype", dtype)
    copy = _arguments.flag("astype", "copy", copy)
    where = _arguments.device("astype", device)
    moved = x if where is None else x.to_device(where)
    if moved.dtype == wanted:
        return moved.copy() if copy and moved is x else moved
    if moved.dtype in _kinds.COMPLEX_FLOATING.dtypes or wanted in _kinds.COMPLEX_FLOATING.dtypes:
        return _complex.cast(moved, wanted)
    return moved.astype(wanted)


def _dtype(function: str, value: Any, name: str) -> Dtype:
    """A dtype, or that of a tensor."""
    return value.dtype if isinstance(value, Tensor) else _arguments.dtype(function, value, name)


def can_cast(from_: DtypeLike | Tensor, to: DtypeLike, /) -> bool:
    """Whether promotion makes the one of the other."""
    source = _dtype("can_cast", from_, "from_")
    target = _arguments.dtype("can_cast", to, "to")
    try:
        return bool(_kinds.promote("can_cast", source, target) == target)
    except TypeError:
        return False


def finfo(type: DtypeLike | Tensor, /) -> finfo_object:
    """The limits of a floating-point dtype; of a complex one, those of its components."""
    dtype = _dtype("finfo", type, "type")
    _arguments.of_kind("finfo", "type", dtype, _kinds.FLOATING)
    if dtype in _kinds.COMPLEX_FLOATING.dtypes:
        dtype = _kinds.component(dtype)
    mantissa, lowest, highest = _FLOATS[dtype]
    largest = (2.0 - 2.0**-mantissa) * 2.0**highest
    return finfo_object(dtype.itemsize * 8, 2.0**-mantissa, largest, -largest, 2.0**lowest, dtype)


def iinfo(type: DtypeLike | Tensor, /) -> iinfo_object:
    """The limits of an integer dtype."""
    dtype = _dtype("iinfo", type, "type")
    _arguments.of_kind("iinfo", "type", dtype, _kinds.INTEGRAL)
    bits = dtype.itemsize * 8
    if dtype in _kinds.UNSIGNED.dtypes:
        return iinfo_object(bits, 2**bits - 1, 0, dtype)
    return iinfo_object(bits, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), dtype)


def isdtype(dtype: DtypeLike, kind: DtypeLike | tuple[DtypeLike, ...]) -> bool:
    """Whether a dtype is of a kind, is another dtype, or any of these. A str names a kind."""
    dtype = _arguments.dtype("isdtype", dtype)
    if isinstance(kind, tuple):
        return any([isdtype(dtype, one) for one in kind])  # every kind is looked at
    if isinstance(kind, str):
        found = _kinds.BY_NAME.get(kind)
        if found is None:
            raise ValueError(
                f"isdtype: argument 'kind': expected one of {list(_kinds.BY_NAME)}, found {kind!r}"
            )
        return dtype in found.dtypes
    return bool(dtype == _arguments.dtype("isdtype", kind, "kind"))


def result_type(*arrays_and_dtypes: Tensor | DtypeLike | _arguments.Scalar) -> Dtype:
    """What tensors, dtypes and Python numbers promote to."""
    return _kinds.result_dtype("result_type", *map(_promoted, arrays_and_dtypes))


def _promoted(value: Any) -> Any:
    value = _arguments.plain(value)
    if isinstance(value, (Tensor, int, float, complex)):
        return value
    return _arguments.dtype("result_type", value, "arrays_and_dtypes")
