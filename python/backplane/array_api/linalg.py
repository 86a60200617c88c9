# SPDX-License-Identifier: Apache-2.0
"""The extension linalg.

Products, norms that are sums, and what picks elements run on the device. Decompositions, and what
is made of them (inverses, determinants, solutions), are LAPACK's, by way of NumPy on the host: see
_host.py. They take float32, float64 and complex numbers, and keep the precision.
"""

import math
from typing import Any, Literal, NamedTuple

from .. import _core, ops
from .._core import Tensor
from .._errors import InvalidArgumentError
from . import _arguments, _complex, _elementwise, _host, _kinds, _manipulation, _statistical, _views
from ._arguments import DtypeLike
from ._data_types import finfo
from ._linear_algebra import matmul, matrix_transpose, tensordot, vecdot

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

_LAPACK = _kinds.Kind(
    "float32, float64 or complex",
    frozenset({_core.float32, _core.float64, _core.complex64, _core.complex128}),
)


class EigResult(NamedTuple):
    """What eig() answers."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """What eigh() answers."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What qr() answers."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """What slogdet() answers."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What svd() answers."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _matrices(function: str, x: Tensor, kind: _kinds.Kind, name: str = "x") -> Tensor:
    x = _arguments.tensor_of_kind(function, name, x, kind)
    if x.ndim < 2:
        raise InvalidArgumentError(
            f"{function}: argument '{name}': expected at least 2 dimensions, "
            f"found the shape {x.shape}"
        )
    return x


def _square(function: str, x: Tensor, kind: _kinds.Kind = _LAPACK, name: str = "x") -> Tensor:
    x = _matrices(function, x, kind, name)
    if x.shape[-1] != x.shape[-2]:
        raise InvalidArgumentError(
            f"{function}: argument '{name}': expected square matrices, found the shape {x.shape}"
        )
    return x


# --- by LAPACK -----------------------------------------------------------------------------------


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """L with x = L L^H, or with upper U with x = U^H U, of positive definite matrices."""
    x = _square("linalg.cholesky", x)
    is_upper = _arguments.flag("linalg.cholesky", "upper", upper)
    found: Tensor = _host.compute(
        "linalg.cholesky", lambda np, a: np.linalg.cholesky(a, upper=is_upper), x
    )
    return found


def det(x: Tensor, /) -> Tensor:
    """The determinant."""
    x = _square("linalg.det", x)
    found: Tensor = _host.compute("linalg.det", lambda np, a: np.linalg.det(a), x)
    return found


def eig(x: Tensor, /) -> EigResult:
    """Eigenvalues and eigenvectors, as complex numbers."""
    x = _square("linalg.eig", x)
    values, vectors = _host.compute("linalg.eig", lambda np, a: tuple(np.linalg.eig(a)), x)
    return EigResult(_as_complex(values), _as_complex(vectors))


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues in ascending order, and eigenvectors, of Hermitian matrices."""
    x = _square("linalg.eigh", x)
    return EighResult(*_host.compute("linalg.eigh", lambda np, a: tuple(np.linalg.eigh(a)), x))


def eigvals(x: Tensor, /) -> Tensor:
    """Eigenvalues, as complex numbers."""
    x = _square("linalg.eigvals", x)
    return _as_complex(_host.compute("linalg.eigvals", lambda np, a: np.linalg.eigvals(a), x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues in ascending order, of Hermitian matrices."""
    x = _square("linalg.eigvalsh", x)
    found: Tensor = _host.compute("linalg.eigvalsh", lambda np, a: np.linalg.eigvalsh(a), x)
    return found


def _as_complex(x: Tensor) -> Tensor:
    return x if _complex.is_complex(x) else _complex.cast(x, _kinds.complex_of(x.dtype))


def inv(x: Tensor, /) -> Tensor:
    """The inverse. A singular matrix is an error."""
    return _inverse("linalg.inv", _square("linalg.inv", x))


def _inverse(function: str, x: Tensor) -> Tensor:
    found: Tensor = _host.compute(function, lambda np, a: np.linalg.inv(a), x)
    return found


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The pseudo-inverse; singular values up to rtol times the largest count as 0."""
    x = _matrices("linalg.pinv", x, _LAPACK)
    if 0 in x.shape[-2:]:  # no singular values
        shape = (*x.shape[:-2], x.shape[-1], x.shape[-2])
        return _core.zeros(shape, dtype=x.dtype, device=x.device)
    limit = _tolerance("linalg.pinv", x, rtol)
    if isinstance(limit, Tensor):
        stack = x.shape[:-2]
        if _arguments.broadcast("linalg.pinv", "rtol", stack, limit.shape) != stack:
            raise InvalidArgumentError(
                f"linalg.pinv: argument 'rtol': expected one for each matrix, {stack}, "
                f"found the shape {limit.shape}"
            )
        found: Tensor = _host.compute(
            "linalg.pinv", lambda np, a, r: np.linalg.pinv(a, rtol=r), x, limit
        )
    else:
        found = _host.compute("linalg.pinv", lambda np, a: np.linalg.pinv(a, rtol=limit), x)
    return found


def _tolerance(function: str, x: Tensor, rtol: Any) -> float | Tensor:
    if rtol is None:
        return max(x.shape[-2:]) * finfo(x.dtype).eps
    if isinstance(rtol, Tensor):
        _arguments.on_one_device(function, x=x, rtol=rtol)
        _arguments.broadcast(function, "rtol", x.shape[:-2], rtol.shape)
        return _arguments.tensor_of_kind(function, "rtol", rtol, _kinds.REAL_FLOATING)
    return float(_arguments.number(function, "rtol", rtol))


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """How many singular values are above rtol times the largest."""
    x = _matrices("linalg.matrix_rank", x, _LAPACK)
    limit = _tolerance("linalg.matrix_rank", x, rtol)
    if 0 in x.shape[-2:]:
        return _core.zeros(x.shape[:-2], dtype=_core.int64, device=x.device)
    values = _singular_values("linalg.matrix_rank", x)
    largest = _statistical.max(values, axis=-1, keepdims=True)
    if isinstance(limit, Tensor):
        limit = _views.inserted(limit, [limit.ndim])
    above = _elementwise.greater(values, _elementwise.multiply(largest, limit))
    return _statistical.sum(above.astype(_core.int64), axis=-1)


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """An orthonormal Q and an upper triangular R with x = Q R."""
    x = _matrices("linalg.qr", x, _LAPACK)
    _arguments.choice("linalg.qr", "mode", mode, ("reduced", "complete"))
    return QRResult(*_host.compute("linalg.qr", lambda np, a: tuple(np.linalg.qr(a, mode=mode)), x))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """The sign of the determinant, and the logarithm of its size."""
    x = _square("linalg.slogdet", x)
    return SlogdetResult(
        *_host.compute("linalg.slogdet", lambda np, a: tuple(np.linalg.slogdet(a)), x)
    )


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """x with x1 x = x2. A singular matrix is an error."""
    a = _square("linalg.solve", x1, name="x1")
    b = _arguments.tensor_of_kind("linalg.solve", "x2", x2, _LAPACK)
    _arguments.on_one_device("linalg.solve", x1=a, x2=b)
    if b.ndim == 0 or b.shape[0 if b.ndim == 1 else -2] != a.shape[-1]:
        raise InvalidArgumentError(
            f"linalg.solve: argument 'x2': the shape {b.shape} beside {a.shape} of x1"
        )
    _arguments.broadcast("linalg.solve", "x2", a.shape[:-2], b.shape[:-2])
    dtype = _kinds.promote("linalg.solve", a.dtype, b.dtype)
    found: Tensor = _host.compute(
        "linalg.solve",
        lambda np, left, right: np.linalg.solve(left, right),
        _complex.cast(a, dtype),
        _complex.cast(b, dtype),
    )
    return found


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """U, the singular values S in descending order, and Vh, with x = U S Vh."""
    x = _matrices("linalg.svd", x, _LAPACK)
    is_full = _arguments.flag("linalg.svd", "full_matrices", full_matrices)
    return SVDResult(
        *_host.compute(
            "linalg.svd", lambda np, a: tuple(np.linalg.svd(a, full_matrices=is_full)), x
        )
    )


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values in descending order."""
    return _singular_values("linalg.svdvals", _matrices("linalg.svdvals", x, _LAPACK))


def _singular_values(function: str, x: Tensor) -> Tensor:
    found: Tensor = _host.compute(function, lambda np, a: np.linalg.svd(a, compute_uv=False), x)
    return found


# --- on the device -------------------------------------------------------------------------------


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of 3 elements along an axis, counted from the end."""
    for name, x in (("x1", x1), ("x2", x2)):
        _arguments.tensor_of_kind("linalg.cross", name, x, _kinds.NUMERIC)
    place = _arguments.axis_from_end("linalg.cross", axis, x1, x2)
    for name, x in (("x1", x1), ("x2", x2)):
        if x.shape[place] != 3:
            raise InvalidArgumentError(
                f"linalg.cross: argument '{name}': expected 3 elements along axis {axis}, "
                f"found {x.shape[place]}"
            )
    x1, x2 = _elementwise.operands("linalg.cross", x1, x2, _kinds.NUMERIC)
    a = [_views.taken(x1, x1.ndim + place, i) for i in range(3)]
    b = [_views.taken(x2, x2.ndim + place, i) for i in range(3)]
    parts = [
        _elementwise.subtract(_elementwise.multiply(a[i], b[k]), _elementwise.multiply(a[k], b[i]))
        for i, k in ((1, 2), (2, 0), (0, 1))
    ]
    return _manipulation.stack(parts, axis=parts[0].ndim + 1 + place)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """A view of the diagonals of matrices, as the last axis."""
    x = _matrices("linalg.diagonal", x, _kinds.ANY)
    return _views.diagonal(x, _arguments.integer("linalg.diagonal", "offset", offset))


def trace(x: Tensor, /, *, offset: int = 0, dtype: DtypeLike | None = None) -> Tensor:
    """The sum of a diagonal."""
    x = _matrices("linalg.trace", x, _kinds.NUMERIC)
    place = _arguments.integer("linalg.trace", "offset", offset)
    return _statistical.added("linalg.trace", _views.diagonal(x, place), dtype)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of each element of x1 with each one of x2."""
    for name, x in (("x1", x1), ("x2", x2)):
        _arguments.tensor_of_kind("linalg.outer", name, x, _kinds.NUMERIC)
        if x.ndim != 1:
            raise InvalidArgumentError(
                f"linalg.outer: argument '{name}': expected one dimension, "
                f"found the shape {x.shape}"
            )
    column = _views.inserted(x1, [1])
    a, b = _elementwise.operands("linalg.outer", column, x2, _kinds.NUMERIC)
    return _elementwise.multiply(a, b)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """x times itself, n factors; negative n: of the inverse."""
    power = _arguments.integer("linalg.matrix_power", "n", n)
    x = _square("linalg.matrix_power", x, _kinds.NUMERIC if power >= 0 else _LAPACK)
    if power == 0:
        identity = _core.zeros(x.shape, dtype=x.dtype, device=x.device)
        diagonals = _views.diagonal(identity, 0)
        if diagonals.size:
            diagonals[...] = 1
        return identity
    factor = _inverse("linalg.matrix_power", x) if power < 0 else x
    product: Tensor | None = None
    for bit in reversed(f"{abs(power):b}"):
        if bit == "1":
            product = factor if product is None else matmul(product, factor)
        factor = matmul(factor, factor)
    assert product is not None
    return product.copy() if product is x else product


def matrix_norm(
    x: Tensor, /, *, keepdims: bool = False, ord: int | float | Literal["fro", "nuc"] | None = "fro"
) -> Tensor:
    """The norm of matrices: 'fro', 'nuc', 1, -1, 2, -2, inf or -inf."""
    x = _matrices("linalg.matrix_norm", x, _LAPACK)
    keepdims = _arguments.flag("linalg.matrix_norm", "keepdims", keepdims)
    if ord is not None and not isinstance(ord, str):
        ord = _arguments.number("linalg.matrix_norm", "ord", ord)
    if ord is None or ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        found = _of_singular_values(_singular_values("linalg.matrix_norm", x), ord)
        return _views.inserted(found, [x.ndim - 2, x.ndim - 1]) if keepdims else found
    if not isinstance(ord, (int, float)) or ord not in (1, -1, math.inf, -math.inf):
        raise InvalidArgumentError(
            "linalg.matrix_norm: argument 'ord': expected 'fro', 'nuc', 1, -1, 2, -2, inf or "
            f"-inf, found {ord!r}"
        )
    summed, chosen = (-2, -1) if ord in (1, -1) else (-1, -2)
    sums = _statistical.sum(_elementwise.abs(x), axis=summed, keepdims=True)
    if ord in (1, math.inf):
        found = _largest(sums, chosen, keepdims=True)
    else:
        found = _statistical.min(sums, axis=chosen, keepdims=True)
    return found if keepdims else _views.removed(found, (x.ndim - 2, x.ndim - 1))


def _of_singular_values(values: Tensor, ord: Any) -> Tensor:
    if ord == "nuc":
        return _statistical.sum(values, axis=-1)
    return _largest(values, -1) if ord == 2 else _statistical.min(values, axis=-1)


def vector_norm(
    x: Tensor,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: int | float = 2,
) -> Tensor:
    """The norm of vectors along axes; of order 2 the square root of the sum of squares."""
    x = _arguments.tensor_of_kind("linalg.vector_norm", "x", x, _kinds.FLOATING)
    axes = _arguments.axes("linalg.vector_norm", axis, x.ndim)
    keepdims = _arguments.flag("linalg.vector_norm", "keepdims", keepdims)
    ord = _arguments.number("linalg.vector_norm", "ord", ord)
    sizes = _elementwise.abs(x)
    if ord == math.inf:
        return _largest(sizes, axis=axes, keepdims=keepdims)
    if ord == -math.inf:
        return _statistical.min(sizes, axis=axes, keepdims=keepdims)
    if ord == 0:
        present = _elementwise.not_equal(sizes, 0).astype(sizes.dtype)
        return _statistical.sum(present, axis=axes, keepdims=keepdims)
    if ord == 1:
        return _statistical.sum(sizes, axis=axes, keepdims=keepdims)
    if ord == 2:
        return _euclidean(sizes, axes, keepdims)
    powers = _statistical.sum(ops.pow(sizes, float(ord)), axis=axes, keepdims=keepdims)
    return ops.pow(powers, 1 / ord)


def _largest(sizes: Tensor, axis: int | tuple[int, ...], keepdims: bool = False) -> Tensor:
    """Of numbers that are not below 0; of none 0."""
    found = _statistical.max(sizes, axis=axis, keepdims=keepdims)
    return ops.max(found, 0) if sizes.size == 0 else found


def _euclidean(sizes: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    return ops.reduce_l2(sizes, axes=axes, keepdims=keepdims) if axes else sizes
