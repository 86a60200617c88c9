# SPDX-License-Identifier: Apache-2.0
"""Creation functions. meshgrid answers views that cannot be assigned to."""

import math
from typing import Any, Literal

from .. import _core, ops
from .._core import Device, Dtype, Tensor
from .._errors import InvalidArgumentError
from . import _arguments, _complex, _kinds, _views
from ._arguments import DtypeLike, Scalar

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def _number(function: str, name: str, value: Any, kinds: tuple[type, ...]) -> Any:
    """A Python number of these types, or one that a 0-d tensor holds."""
    if isinstance(value, Tensor) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise TypeError(
            f"{function}: argument '{name}': expected a number, found {type(value).__name__}"
        )
    return value


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """start, start + step, ... before stop. One number alone is the stop."""
    start = _number("arange", "start", start, (int, float))
    if stop is None:
        start, stop = 0, start
    stop = _number("arange", "stop", stop, (int, float))
    step = _number("arange", "step", step, (int, float))
    for name, number in (("start", start), ("stop", stop), ("step", step)):
        if not math.isfinite(number):
            raise InvalidArgumentError(f"arange: argument '{name}': found {number}")
    if step == 0:
        raise InvalidArgumentError("arange: argument 'step': found 0")
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        wanted = _real_dtype(_core.int64 if dtype is None else dtype)
        count = max(0, -((start - stop) // step))
        return _whole_progression(count, start, step, wanted, device)
    wanted = _real_dtype(_core.float32 if dtype is None else dtype)
    steps = (stop - start) / step
    if not math.isfinite(steps):
        raise InvalidArgumentError("arange: argument 'step': too small for so many elements")
    count = max(0, math.ceil(steps))
    return _progression(count, start, step, device).astype(wanted, copy=False)


def _real_dtype(dtype: DtypeLike) -> Dtype:
    wanted = _arguments.dtype("arange", dtype)
    _arguments.of_kind("arange", "dtype", wanted, _kinds.REAL)
    return wanted


def _whole_progression(
    count: int, start: int, step: int, dtype: Dtype, device: Device | str | None
) -> Tensor:
    """start, start + step, ...: in the widest integers, which wrap into the others."""
    steps = numbered(count, device)
    if dtype == _core.uint64:
        return steps.astype(dtype) * (step % 2**64) + start % 2**64
    return (steps * step + start).astype(dtype, copy=False)


def _progression(count: int, start: float, step: float, device: Device | str | None) -> Tensor:
    """In float64, so that the result is rounded once."""
    return numbered(count, device).astype(_core.float64) * float(step) + float(start)


def numbered(count: int, device: Device | str | None) -> Tensor:
    """0, 1, ... to before count: sums of the ones before each."""
    ones = _core.ones((count,), dtype=_core.int64, device=device)
    return ops.cumsum(ones, 0, exclusive=True)


def asarray(
    obj: Any,
    /,
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor of numbers, nested lists, or an array, whose memory it shares where it can."""
    wanted = None if dtype is None else _arguments.dtype("asarray", dtype)
    if isinstance(obj, Tensor) and wanted is not None and obj.dtype != wanted:
        if copy is False:
            raise InvalidArgumentError(
                f"asarray: argument 'copy' is False, and {wanted} of {obj.dtype} needs a copy"
            )
        moved = obj if device is None else obj.to_device(device)
        return _complex.cast(moved, wanted)
    return _core.asarray(obj, dtype=wanted, device=device, copy=copy)


def from_dlpack(
    x: Any, /, *, device: Device | str | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor in the memory of another library's array, or of a copy."""
    return _core.from_dlpack(x, device=device, copy=copy)


def empty(
    shape: int | tuple[int, ...],
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of any values; float32 unless told otherwise."""
    return _core.empty(shape, dtype=dtype, device=device)


def empty_like(
    x: Tensor, /, *, dtype: DtypeLike | None = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of any values with the shape of x."""
    return _core.empty_like(x, dtype=dtype, device=device)


def full(
    shape: int | tuple[int, ...],
    fill_value: Scalar,
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of one value; its dtype is the default of the value's kind."""
    return _core.full(shape, _fill("full", fill_value), dtype=dtype, device=device)


def full_like(
    x: Tensor,
    /,
    fill_value: Scalar,
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of one value with the shape of x."""
    return _core.full_like(x, _fill("full_like", fill_value), dtype=dtype, device=device)


def _fill(function: str, value: Any) -> Any:
    if isinstance(value, Tensor) and value.ndim == 0:
        return value.item()
    return value


def ones(
    shape: int | tuple[int, ...],
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of ones; float32 unless told otherwise."""
    return _core.ones(shape, dtype=dtype, device=device)


def ones_like(
    x: Tensor, /, *, dtype: DtypeLike | None = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of ones with the shape of x."""
    return _core.ones_like(x, dtype=dtype, device=device)


def zeros(
    shape: int | tuple[int, ...],
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of zeros; float32 unless told otherwise."""
    return _core.zeros(shape, dtype=dtype, device=device)


def zeros_like(
    x: Tensor, /, *, dtype: DtypeLike | None = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of zeros with the shape of x."""
    return _core.zeros_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A matrix with ones on its k-th diagonal, zeros elsewhere."""
    rows = _arguments.count("eye", "n_rows", n_rows)
    columns = rows if n_cols is None else _arguments.count("eye", "n_cols", n_cols)
    wanted = None if dtype is None else _arguments.dtype("eye", dtype)
    matrix = _core.zeros((rows, columns), dtype=wanted, device=device)
    diagonal = _views.diagonal(matrix, _arguments.integer("eye", "k", k))
    if diagonal.size:
        diagonal[...] = 1
    return matrix


def linspace(
    start: int | float | complex,
    stop: int | float | complex,
    /,
    num: int,
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """num numbers at equal distances from start to stop, or to before stop without endpoint."""
    first = _number("linspace", "start", start, (int, float, complex))
    last = _number("linspace", "stop", stop, (int, float, complex))
    count = _arguments.count("linspace", "num", num)
    of_complex = isinstance(first, complex) or isinstance(last, complex)
    usual = _core.complex64 if of_complex else _core.float32
    wanted = usual if dtype is None else _arguments.dtype("linspace", dtype)
    _arguments.of_kind("linspace", "dtype", wanted, _kinds.NUMERIC)
    if of_complex:
        a, b = complex(first), complex(last)
        return _complex.cast(
            _complex.joined(
                _spaced(a.real, b.real, count, endpoint, device),
                _spaced(a.imag, b.imag, count, endpoint, device),
            ),
            wanted,
        )
    return _complex.cast(_spaced(float(first), float(last), count, endpoint, device), wanted)


def _spaced(
    start: float, stop: float, count: int, endpoint: bool, device: Device | str | None
) -> Tensor:
    gaps = count - 1 if endpoint else count
    if gaps <= 0:
        return _core.full((count,), start, dtype=_core.float64, device=device)
    spaced = _progression(count, start, (stop - start) / gaps, device)
    if endpoint:
        spaced[-1] = stop  # exactly
    return spaced


def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Of one-dimensional tensors, views that say at each point of their grid where it lies."""
    _arguments.choice("meshgrid", "indexing", indexing, ("xy", "ij"))
    found = [_arguments.tensor("meshgrid", f"arrays[{i}]", x) for i, x in enumerate(arrays)]
    for i, x in enumerate(found):
        _arguments.of_kind("meshgrid", f"arrays[{i}]", x.dtype, _kinds.ANY)
        if x.dtype != found[0].dtype:
            raise TypeError(
                f"meshgrid: argument 'arrays[{i}]': expected {found[0].dtype}, found {x.dtype}"
            )
        if x.ndim != 1:
            raise InvalidArgumentError(
                f"meshgrid: argument 'arrays[{i}]': expected one dimension, "
                f"found the shape {x.shape}"
            )
    places = list(range(len(found)))
    if indexing == "xy" and len(found) > 1:
        places[:2] = [1, 0]
    shape = [0] * len(found)
    for place, x in zip(places, found):
        shape[place] = x.size
    return tuple(_along(x, place, shape) for place, x in zip(places, found))


def _along(x: Tensor, axis: int, shape: list[int]) -> Tensor:
    strides = [0] * len(shape)
    strides[axis] = x.strides[0]
    return _views.view(x, shape, strides)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangle of matrices, up to the k-th diagonal; zeros above."""
    return _triangle("tril", x, k, False)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangle of matrices, from the k-th diagonal on; zeros below."""
    return _triangle("triu", x, k, True)


def _triangle(function: str, x: Tensor, k: int, upper: bool) -> Tensor:
    x = _arguments.tensor(function, "x", x)
    diagonal = _arguments.integer(function, "k", k)
    if x.ndim < 2:
        raise InvalidArgumentError(
            f"{function}: argument 'x': expected at least 2 dimensions, found the shape {x.shape}"
        )
    limit = x.shape[-1] + x.shape[-2]  # beyond it nothing changes
    diagonal = max(-limit, min(diagonal, limit))
    if not _complex.is_complex(x):
        return ops.trilu(x, diagonal, upper=upper)
    real = ops.trilu(_complex.real(x), diagonal, upper=upper)
    return _complex.joined(real, ops.trilu(_complex.imag(x), diagonal, upper=upper))
