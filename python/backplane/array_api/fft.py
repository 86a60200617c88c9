# SPDX-License-Identifier: Apache-2.0
"""The extension fft. Transforms are the device's (_fourier.py), but for lengths with a prime factor
above 61, and where the host addresses the memory: those are NumPy's pocketfft, on the host, in the
precision of the tensor (_host.py)."""

from collections.abc import Sequence
from typing import Any, Literal

from .. import _core
from .._core import Device, Dtype, Tensor
from .._errors import InvalidArgumentError
from . import _arguments, _creation, _fourier, _host, _kinds, _manipulation
from ._arguments import DtypeLike

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

_PRECISE = frozenset({_core.float32, _core.float64, _core.complex64, _core.complex128})
_FLOATS = _kinds.Kind("float32, float64 or complex", _PRECISE)
_REAL = _kinds.Kind("float32 or float64", _PRECISE - _kinds.COMPLEX_FLOATING.dtypes)

Norm = Literal["backward", "ortho", "forward"]
_NORMS = ("backward", "ortho", "forward")


def _one(
    name: str, x: Tensor, n: int | None, axis: int, norm: Norm, kind: _kinds.Kind = _FLOATS
) -> Tensor:
    function = f"fft.{name}"
    x = _arguments.tensor_of_kind(function, "x", x, kind)
    place = _arguments.axis(function, axis, x.ndim)
    _arguments.choice(function, "norm", norm, _NORMS)
    size = None if n is None else _at_least_one(function, "n", n)
    _need_elements(function, x, (place,))
    length = _fourier.length(name, x.shape[place]) if size is None else size
    _need_lengths(function, "n", x, (place,), [length])
    if _fourier.is_for(x, [length]):
        return _fourier.one(name, x, length, place, norm)
    found: Tensor = _host.compute(
        function,
        lambda np, array: getattr(np.fft, name)(array, n=size, axis=place, norm=norm),
        x,
    )
    return found


def _at_least_one(function: str, name: str, value: Any) -> int:
    number = _arguments.count(function, name, value)
    if number < 1:
        raise InvalidArgumentError(
            f"{function}: argument '{name}': expected 1 or more, found {number}"
        )
    return number


def _need_elements(function: str, x: Tensor, places: tuple[int, ...]) -> None:
    for place in places:
        if x.shape[place] == 0:
            raise InvalidArgumentError(f"{function}: argument 'x': axis {place} has no elements")


def _need_lengths(
    function: str, name: str, x: Tensor, places: tuple[int, ...], lengths: list[int]
) -> None:
    """Of transforms along these axes."""
    shape = list(x.shape)
    for place, length in zip(places, lengths):
        if length < 1:  # of half of the numbers, where there is one
            raise InvalidArgumentError(
                f"{function}: argument '{name}': needed for axis {place} of size {shape[place]}, "
                "found None"
            )
        shape[place] = length
    _arguments.elements(function, name, shape)


def _several(
    name: str,
    x: Tensor,
    s: Sequence[int] | None,
    axes: Sequence[int] | None,
    norm: Norm,
    kind: _kinds.Kind = _FLOATS,
) -> Tensor:
    function = f"fft.{name}"
    x = _arguments.tensor_of_kind(function, "x", x, kind)
    _arguments.choice(function, "norm", norm, _NORMS)
    if s is not None and axes is None:
        raise InvalidArgumentError(f"{function}: argument 'axes': needed beside 's', found None")
    places = _arguments.axes(function, axes, x.ndim, "axes")
    sizes = None if s is None else _sizes(function, s, x, places)
    _need_elements(function, x, places)
    if not places and name in ("rfftn", "irfftn"):
        raise InvalidArgumentError(f"{function}: argument 'axes': expected at least one axis")
    if places:
        lengths = [x.shape[place] for place in places] if sizes is None else list(sizes)
        if sizes is None:
            lengths[-1] = _fourier.length(name, lengths[-1])
        _need_lengths(function, "s", x, places, lengths)
        if _fourier.is_for(x, lengths):
            return _fourier.several(name, x, lengths, places, norm)
    found: Tensor = _host.compute(
        function,
        lambda np, array: getattr(np.fft, name)(array, s=sizes, axes=places, norm=norm),
        x,
    )
    return found


def _sizes(
    function: str, s: Sequence[int], x: Tensor, places: tuple[int, ...]
) -> tuple[int, ...]:
    given = _arguments.integers(function, "s", s)
    if len(given) != len(places):
        raise InvalidArgumentError(
            f"{function}: argument 's': expected {len(places)} sizes, found {len(given)}"
        )
    return tuple(
        x.shape[place] if size == -1 else _at_least_one(function, "s", size)
        for size, place in zip(given, places)
    )


def fft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The discrete Fourier transform along an axis. Real tensors become complex."""
    return _one("fft", x, n, axis, norm)


def ifft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of fft."""
    return _one("ifft", x, n, axis, norm)


def fftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The discrete Fourier transform along several axes."""
    return _several("fftn", x, s, axes, norm)


def ifftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The inverse of fftn."""
    return _several("ifftn", x, s, axes, norm)


def rfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The half of fft that says all of a real tensor."""
    return _one("rfft", x, n, axis, norm, _REAL)


def irfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of rfft: real."""
    return _one("irfft", x, n, axis, norm)


def rfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """rfft along the last of several axes, and fft along the others."""
    return _several("rfftn", x, s, axes, norm, _REAL)


def irfftn(
    x: Tensor,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Tensor:
    """The inverse of rfftn: real."""
    return _several("irfftn", x, s, axes, norm)


def hfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The transform of a signal with Hermitian symmetry: real."""
    return _one("hfft", x, n, axis, norm)


def ihfft(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of hfft."""
    return _one("ihfft", x, n, axis, norm, _REAL)


def fftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """The frequencies of the elements of fft: 0, 1, ..., then the negative ones, over n d."""
    size, step, where = _spacing("fft.fftfreq", n, d, device)
    wanted = _float_dtype("fft.fftfreq", dtype)
    positive = (size - 1) // 2 + 1
    numbers = _manipulation.joined(
        "fft.fftfreq", (_range(0, positive, where), _range(-(size // 2), 0, where)), 0
    )
    return (numbers / (size * step)).astype(wanted, copy=False)


def rfftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: DtypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """The frequencies of the elements of rfft: 0, 1, ..., n / 2, over n d."""
    size, step, where = _spacing("fft.rfftfreq", n, d, device)
    wanted = _float_dtype("fft.rfftfreq", dtype)
    return (_range(0, size // 2 + 1, where) / (size * step)).astype(wanted, copy=False)


def _spacing(
    function: str, n: Any, d: Any, device: Device | str | None
) -> tuple[int, float, Device | None]:
    """The arguments of fftfreq."""
    step = float(_arguments.number(function, "d", d))
    size = _at_least_one(function, "n", n)
    _arguments.elements(function, "n", (size,))
    return size, step, _arguments.device(function, device)


def _float_dtype(function: str, dtype: DtypeLike | None) -> Dtype:
    found = _core.float32 if dtype is None else _arguments.dtype(function, dtype)
    _arguments.of_kind(function, "dtype", found, _kinds.REAL_FLOATING)
    return found


def _range(start: int, stop: int, device: Device | str | None) -> Tensor:
    return _creation.arange(start, stop, dtype=_core.float64, device=device)


def fftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Moves the frequency 0 to the middle of axes."""
    x, places = _shifted("fft.fftshift", x, axes)
    return _manipulation.roll(x, tuple(x.shape[i] // 2 for i in places), axis=places)


def ifftshift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of fftshift."""
    x, places = _shifted("fft.ifftshift", x, axes)
    return _manipulation.roll(x, tuple(-(x.shape[i] // 2) for i in places), axis=places)


def _shifted(
    function: str, x: Tensor, axes: int | Sequence[int] | None
) -> tuple[Tensor, tuple[int, ...]]:
    x = _arguments.tensor_of_kind(function, "x", x, _kinds.FLOATING)
    return x, _arguments.axes(function, axes, x.ndim, "axes")
