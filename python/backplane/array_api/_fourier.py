# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms in the operators of the device: products with small matrices.

A transform of r * m elements is r-element transforms, a product with powers of a root of unity and
m-element transforms (Cooley and Tukey). Those of up to LARGEST elements are one product with a
matrix each, which holds complex numbers as [[re, -im], [im, re]] so that it is a real one. An axis
of n elements costs about 8 launches for each factor of 16. Lengths with a larger prime factor are
not for this: their matrices would be large.
"""

import math

from .. import _core, ops
from .._core import Dtype, Tensor
from . import _complex, _creation, _elementwise, _kinds, _manipulation, _views

LARGEST = 16  # of what several prime factors make; a prime factor may be up to 61
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)

# name: whether it is an inverse one; has half of the numbers, which say all, as input; as output.
_WAYS = {
    "fft": (False, False, False),
    "ifft": (True, False, False),
    "rfft": (False, False, True),
    "irfft": (True, True, False),
    "hfft": (False, True, False),
    "ihfft": (True, False, True),
}
# Of several axes: the transform of the last one, of the others, and whether that comes first.
_SEVERAL = {
    "fftn": ("fft", "fft", True),
    "ifftn": ("ifft", "ifft", True),
    "rfftn": ("rfft", "fft", True),
    "irfftn": ("irfft", "ifft", False),
}


def length(name: str, size: int) -> int:
    """Of the transform of an axis of that size, where none is asked for."""
    return 2 * (size - 1) if name in ("irfft", "irfftn", "hfft") else size


def is_for(x: Tensor, lengths: list[int]) -> bool:
    """Whether these transforms are for this tensor. Where the host addresses the memory they are
    NumPy's, which copies nothing there, and is faster."""
    return not _core._is_host_memory(x) and all(_factors(n) for n in lengths)


def _factors(n: int) -> list[int]:
    """Numbers whose product is n; none where a prime factor is too large."""
    if n < 1:
        return []
    found = [1]
    for prime in reversed(_PRIMES):
        while n % prime == 0:
            n //= prime
            if found[-1] * prime <= LARGEST:
                found[-1] *= prime
            else:
                found.append(prime)
    if found[0] == 1 and len(found) > 1:
        del found[0]
    return found if n == 1 else []


def one(name: str, x: Tensor, n: int, axis: int, norm: str) -> Tensor:
    """The transform of n elements along an axis, counted from 0."""
    if x.ndim == _views.MAX_RANK:  # no axis is left for the parts: others become one
        line, place = _views.with_room(x, axis)
        found = one(name, line, n, place, norm)
        shape = (*x.shape[:axis], found.shape[place], *x.shape[axis + 1 :])
        return _views.reshaped(found, shape)
    is_inverse, is_half_before, is_half_after = _WAYS[name]
    dtype = x.dtype if _complex.is_complex(x) else _kinds.complex_of(x.dtype)
    half = n // 2 + 1
    z = _complex.cast(_sized(x, axis, half if is_half_before else n), dtype)
    if is_half_before:
        z = _whole(z, axis, n)
    found = _along(z, axis, is_inverse, _scale(norm, n, is_inverse))
    if is_half_before:
        return _complex.real(found).copy()
    return _views.part(found, axis, 0, half).copy() if is_half_after else found


def several(name: str, x: Tensor, lengths: list[int], axes: tuple[int, ...], norm: str) -> Tensor:
    """The transform of so many elements along each of the axes."""
    last, other, is_last_first = _SEVERAL[name]
    steps = list(zip([other] * (len(axes) - 1) + [last], lengths, axes))
    for step, n, axis in reversed(steps) if is_last_first else steps:
        x = one(step, x, n, axis, norm)
    return x


def _scale(norm: str, n: int, is_inverse: bool) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if is_inverse == (norm == "backward") else 1.0


def _sized(x: Tensor, axis: int, n: int) -> Tensor:
    """The first n elements along an axis, and zeros where x has fewer."""
    size = x.shape[axis]
    if size >= n:
        return _views.part(x, axis, 0, n)
    shape = [n - size if i == axis else length for i, length in enumerate(x.shape)]
    zeros = _core.zeros(shape, dtype=x.dtype, device=x.device)
    return _manipulation.joined("fft", (x, zeros), axis)


def _whole(half: Tensor, axis: int, n: int) -> Tensor:
    """All n numbers of which the second half is the first, conjugated and backwards."""
    count = n - half.shape[axis]
    if count == 0:
        return half
    first = _views.part(half, axis, 1, count + 1)
    second = _elementwise.conj(_views.reversed_along(first, [axis]))
    return _manipulation.joined("fft", (half, second), axis)


def _along(x: Tensor, axis: int, is_inverse: bool, scale: float) -> Tensor:
    """Of complex numbers, along all of an axis."""
    last = x.ndim
    order = [*(i for i in range(last) if i != axis), last, axis]
    parts = _views.permuted(_complex.pairs(x), order)  # [..., 2, n]
    n = x.shape[axis]
    rows = math.prod(parts.shape[:-2])
    found = parts
    if rows > 0:
        flat = _views.reshaped(parts, (rows, 2, n))
        found = _views.reshaped(_staged(flat, _factors(n), is_inverse, scale), parts.shape)
    back = sorted(range(last + 1), key=order.__getitem__)
    return _complex.from_pairs(_views.permuted(found, back).copy())


def _staged(z: Tensor, factors: list[int], is_inverse: bool, scale: float) -> Tensor:
    """[rows, 2, n]: a transform for each row, n being the product of the factors."""
    rows, _, n = z.shape
    r, m = factors[0], n // factors[0]
    if len(factors) == 1:
        matrix = _matrix(r, is_inverse, scale, z)
        product = ops.matmul(_views.reshaped(z, (rows, 2 * r)), _views.permuted(matrix, (1, 0)))
        return _views.reshaped(product, (rows, 2, r))
    matrix = _matrix(r, is_inverse, 1.0, z)
    product = ops.matmul(matrix, _views.reshaped(z, (rows, 2 * r, m)))
    turned = _turned(_views.reshaped(product, (rows, 2, r, m)), is_inverse)
    inner = _views.reshaped(_views.permuted(turned, (0, 2, 1, 3)), (rows * r, 2, m))
    found = _views.reshaped(_staged(inner, factors[1:], is_inverse, scale), (rows, r, 2, m))
    return _views.reshaped(_views.permuted(found, (0, 2, 3, 1)), (rows, 2, n))


def _turned(z: Tensor, is_inverse: bool) -> Tensor:
    """[rows, 2, r, m]: each number times the root of unity to the power i * k, of its place."""
    r, m = z.shape[2:]
    turn = (2 if is_inverse else -2) * math.pi / (r * m)
    i, k = (_creation.arange(n, dtype=_core.float64, device=z.device) for n in (r, m))
    angle = ops.mul(ops.mul(_views.inserted(i, [1]), _views.inserted(k, [0])), turn)
    cos, sin = (f(angle).astype(z.dtype, copy=False) for f in (ops.cos, ops.sin))
    both = ops.concat([_views.inserted(ops.neg(sin), [0]), _views.inserted(sin, [0])], 0)
    return ops.add(ops.mul(z, cos), ops.mul(_views.reversed_along(z, [1]), both))


def _matrix(n: int, is_inverse: bool, scale: float, like: Tensor) -> Tensor:
    """[2n, 2n]: what makes the parts of a transform of those of n numbers."""
    roots = [_root(i, n) for i in range(n)]
    sign = scale if is_inverse else -scale
    above, below = [], []
    for i in range(n):
        row = [roots[i * k % n] for k in range(n)]
        cos, sin = [scale * c for c, _ in row], [sign * s for _, s in row]
        above.append([*cos, *(-s for s in sin)])
        below.append([*sin, *cos])
    return _as_tensor([*above, *below], like.dtype, like)


def _as_tensor(rows: list[list[float]], dtype: Dtype, like: Tensor) -> Tensor:
    made: Tensor = _core.asarray(rows, dtype=dtype, device=like.device)
    return made


def _root(i: int, n: int) -> tuple[float, float]:
    """The cosine and sine of i / n of a turn; exact where they are 0 or 1."""
    quarter, rest = divmod(4 * i, n)
    angle = math.pi / 2 * rest / n
    c, s = math.cos(angle), math.sin(angle)
    return ((c, s), (-s, c), (-c, -s), (s, -c))[quarter]
