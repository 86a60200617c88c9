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
    device = _arguments.device("arange", device)
    start = _arguments.number("arange", "start", start)
    if stop is None:
        start, stop = 0, start
    stop = _arguments.number("arange", "stop", stop)
    step = _arguments.number("arange", "step", step)
    for name, number in (("start", start), ("stop", stop), ("step", step)):
        if not math.isfinite(number):
            raise InvalidArgumentError(f"arange: argument '{name}': found {number}")
    if step == 0:
        raise InvalidArgumentError("arange: argument 'step': found 0")
    is_whole = isinstance(start, int) and isinstance(stop, int) and isinstance(step, int)
    wanted = _real_dtype((_core.int64 if is_whole else _core.float32) if dtype is None else dtype)
    count = _count(start, stop, step, is_whole)
    if count == 0:
        return _core.empty((0,), dtype=wanted, device=device)
    last = start + (count - 1) * step
    if wanted in _kinds.INTEGRAL.dtypes:
        _arguments.in_range("arange", "start", math.trunc(start), wanted)
        _arguments.in_range("arange", "stop", math.trunc(last), wanted)
    elif max(abs(start), abs(last)) >= 2**63:
        is_whole = False
    if is_whole:
        return _whole_progression(count, start, step, wanted, device)
    return _progression(count, start, step, wanted, device)


def _count(start: Any, stop: Any, step: Any, is_whole: bool) -> int:
    """How many elements arange() has."""
    if is_whole:
        count: int = max(0, -((start - stop) // step))
    else:
        steps = _share(float(start), float(stop), float(step))
        if steps == math.inf:
            raise InvalidArgumentError("arange: argument 'step': too small for so many elements")
        count = math.ceil(max(steps, 0))
    _arguments.elements("arange", "stop", (count,))
    return count


def _share(start: float, stop: float, by: float) -> float:
    """(stop - start) / by, where that distance is beyond the floats too."""
    distance = stop - start
    return distance / by if math.isfinite(distance) else stop / by - start / by


def _real_dtype(dtype: DtypeLike) -> Dtype:
    wanted = _arguments.dtype("arange", dtype)
    _arguments.of_kind("arange", "dtype", wanted, _kinds.REAL)
    return wanted


def _whole_progression(
    count: int, start: float, step: float, dtype: Dtype, device: Device | str | None
) -> Tensor:
    """Of whole numbers: in 64 bits, where what is too large on the way wraps back."""
    steps = numbered(count, device)
    if dtype == _core.uint64:
        return steps.astype(dtype) * (step % 2**64) + start % 2**64
    return (steps * ((step + 2**63) % 2**64 - 2**63) + start).astype(dtype, copy=False)


def _progression(
    count: int, start: float, step: float, dtype: Dtype, device: Device | str | None
) -> Tensor:
    """In float64, so that the result is rounded once."""
    steps = numbered(count, device).astype(_core.float64)
    return (steps * float(step) + float(start)).astype(dtype, copy=False)


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
    copy = _arguments.flag_or_none("asarray", "copy", copy)
    device = _arguments.device("asarray", device)
    if isinstance(obj, Tensor) and wanted is not None and obj.dtype != wanted:
        if copy is False:
            raise InvalidArgumentError(
                f"asarray: argument 'copy' is False, and {wanted} of {obj.dtype} needs a copy"
            )
        moved = obj if device is None else obj.to_device(device)
        return _complex.cast(moved, wanted, "asarray")
    return _core.asarray(obj, dtype=wanted, device=device, copy=copy)


def from_dlpack(
    x: Any, /, *, device: Device | str | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor in the memory of another library's array, or of a copy."""
    copy = _arguments.flag_or_none("from_dlpack", "copy", copy)
    device = _arguments.device("from_dlpack", device)
    return _core.from_dlpack(x, device=device, copy=copy)


def empty(
    shape: int | tuple[int, ...],
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of any values; float32 unless told otherwise."""
    where = _arguments.device("empty", device)
    return _core.empty(_arguments.shape("empty", shape), dtype=dtype, device=where)


def empty_like(
    x: Tensor, /, *, dtype: DtypeLike | None = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of any values with the shape of x."""
    x, where = _arguments.tensor("empty_like", "x", x), _arguments.device("empty_like", device)
    return _core.empty_like(x, dtype=dtype, device=where)


def full(
    shape: int | tuple[int, ...],
    fill_value: Scalar,
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of one value; its dtype is the default of the value's kind."""
    where = _arguments.device("full", device)
    sizes = _arguments.shape("full", shape)
    return _core.full(sizes, _fill(fill_value), dtype=dtype, device=where)


def full_like(
    x: Tensor,
    /,
    fill_value: Scalar,
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of one value with the shape of x."""
    x, where = _arguments.tensor("full_like", "x", x), _arguments.device("full_like", device)
    return _core.full_like(x, _fill(fill_value), dtype=dtype, device=where)


def _fill(value: Any) -> Any:
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
    where = _arguments.device("ones", device)
    return _core.ones(_arguments.shape("ones", shape), dtype=dtype, device=where)


def ones_like(
    x: Tensor, /, *, dtype: DtypeLike | None = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of ones with the shape of x."""
    x, where = _arguments.tensor("ones_like", "x", x), _arguments.device("ones_like", device)
    return _core.ones_like(x, dtype=dtype, device=where)


def zeros(
    shape: int | tuple[int, ...],
    *,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """A tensor of zeros; float32 unless told otherwise."""
    where = _arguments.device("zeros", device)
    return _core.zeros(_arguments.shape("zeros", shape), dtype=dtype, device=where)


def zeros_like(
    x: Tensor, /, *, dtype: DtypeLike | None = None, device: Device | str | None = None
) -> Tensor:
    """A tensor of zeros with the shape of x."""
    x, where = _arguments.tensor("zeros_like", "x", x), _arguments.device("zeros_like", device)
    return _core.zeros_like(x, dtype=dtype, device=where)


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
    device = _arguments.device("eye", device)
    rows = _arguments.count("eye", "n_rows", n_rows)
    columns = rows if n_cols is None else _arguments.count("eye", "n_cols", n_cols)
    _arguments.elements("eye", "n_rows", (rows, columns))
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
    first = _arguments.number("linspace", "start", start, int, float, complex)
    last = _arguments.number("linspace", "stop", stop, int, float, complex)
    device = _arguments.device("linspace", device)
    count = _arguments.count("linspace", "num", num)
    _arguments.elements("linspace", "num", (count,))
    of_complex = isinstance(first, complex) or isinstance(last, complex)
    usual = _core.complex64 if of_complex else _core.float32
    wanted = usual if dtype is None else _arguments.dtype("linspace", dtype)
    _arguments.of_kind("linspace", "dtype", wanted, _kinds.NUMERIC)
    endpoint = _arguments.flag("linspace", "endpoint", endpoint)
    if of_complex:
        a, b = complex(first), complex(last)
        return _complex.cast(
            _complex.joined(
                _spaced(a.real, b.real, count, endpoint, device),
                _spaced(a.imag, b.imag, count, endpoint, device),
            ),
            wanted,
            "linspace",
        )
    return _complex.cast(_spaced(float(first), float(last), count, endpoint, device), wanted)


def _spaced(
    start: float, stop: float, count: int, endpoint: bool, device: Device | str | None
) -> Tensor:
    gaps = count - 1 if endpoint else count
    if gaps <= 0:
        return _core.full((count,), start, dtype=_core.float64, device=device)
    spaced = _progression(count, start, _share(start, stop, gaps), _core.float64, device)
    if endpoint:
        spaced[-1] = stop  # exactly
    return spaced


def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Of one-dimensional tensors, views that say at each point of their grid where it lies."""
    _arguments.choice("meshgrid", "indexing", indexing, ("xy", "ij"))
    _arguments.rank("meshgrid", "arrays", len(arrays))
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
    _arguments.elements("meshgrid", "arrays", shape)
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
    parts = (_complex.real(x), _complex.imag(x))
    return _complex.joined(*(ops.trilu(part, diagonal, upper=upper) for part in parts))
