# SPDX-License-Identifier: Apache-2.0
"""Every function with every dtype, and pair of dtypes, beside array-api-strict: what is taken,
what is refused, the dtypes and the values of what comes back."""

import inspect

import array_api_strict
import numpy as np
import pytest
import standard
from numpy.testing import assert_allclose

import backplane as bp
import backplane.array_api as xp

ONE = {name: (lambda of, x, name=name: getattr(of, name)(x)) for name in standard.ELEMENTWISE}
TWO = {
    name: (lambda of, x, y, name=name: getattr(of, name)(x, y))
    for name in standard.ELEMENTWISE
    if len([p for p in inspect.signature(getattr(array_api_strict, name)).parameters.values()
            if p.kind == p.POSITIONAL_ONLY]) == 2
}
for name in TWO:
    del ONE[name]
del ONE["clip"]  # bounds of the dtype are among TWO

ONE |= {
    "all": lambda of, x: of.all(x),
    "any": lambda of, x: of.any(x, axis=0),
    "argmax": lambda of, x: of.argmax(x, axis=0),
    "argmin": lambda of, x: of.argmin(x, axis=1),
    "argsort": lambda of, x: of.argsort(x),
    "concat": lambda of, x: of.concat([x, x]),
    "count_nonzero": lambda of, x: of.count_nonzero(x),
    "cumulative_prod": lambda of, x: of.cumulative_prod(x, axis=0),
    "cumulative_sum": lambda of, x: of.cumulative_sum(x, axis=1, include_initial=True),
    "diff": lambda of, x: of.diff(x),
    "empty_like": lambda of, x: of.zeros_like(of.empty_like(x)),
    "flip": lambda of, x: of.flip(x, axis=1),
    "full_like": lambda of, x: of.full_like(x, True),
    "full_like int": lambda of, x: of.full_like(x, 3),
    "max": lambda of, x: of.max(x, axis=1),
    "mean": lambda of, x: of.mean(x),
    "min": lambda of, x: of.min(x),
    "nonzero": lambda of, x: of.nonzero(x),
    "ones_like": lambda of, x: of.ones_like(x),
    "prod": lambda of, x: of.prod(x, axis=1),
    "repeat": lambda of, x: of.repeat(x, 2, axis=0),
    "roll": lambda of, x: of.roll(x, 1),
    "sort": lambda of, x: of.sort(x, descending=True),
    "stack": lambda of, x: of.stack([x, x], axis=1),
    "std": lambda of, x: of.std(x, correction=1.0),
    "sum": lambda of, x: of.sum(x, axis=0),
    "take": lambda of, x: of.take(x, of.asarray([1, 0], device=x.device), axis=0),
    "tile": lambda of, x: of.tile(x, (2, 1)),
    "tril": lambda of, x: of.tril(x),
    "triu": lambda of, x: of.triu(x, k=1),
    "unique_all": lambda of, x: of.unique_all(x),
    "unique_counts": lambda of, x: of.unique_counts(x),
    "unique_inverse": lambda of, x: of.unique_inverse(x),
    "unique_values": lambda of, x: of.unique_values(x),
    "var": lambda of, x: of.var(x, axis=0),
    "zeros_like": lambda of, x: of.zeros_like(x),
    "linalg.cholesky": lambda of, x: of.linalg.cholesky(of.matmul(x, x.mT)),
    "linalg.det": lambda of, x: of.linalg.det(x),
    "linalg.diagonal": lambda of, x: of.linalg.diagonal(x),
    "linalg.eigvalsh": lambda of, x: of.linalg.eigvalsh(of.add(x, x.mT)),
    "linalg.inv": lambda of, x: of.linalg.inv(x),
    "linalg.matrix_norm": lambda of, x: of.linalg.matrix_norm(x),
    "linalg.matrix_power": lambda of, x: of.linalg.matrix_power(x, 3),
    "linalg.matrix_rank": lambda of, x: of.linalg.matrix_rank(x),
    "linalg.pinv": lambda of, x: of.linalg.pinv(x),
    "linalg.slogdet": lambda of, x: of.linalg.slogdet(x),
    "linalg.svdvals": lambda of, x: of.linalg.svdvals(x),
    "linalg.trace": lambda of, x: of.linalg.trace(x),
    "linalg.vector_norm": lambda of, x: of.linalg.vector_norm(x),
    "fft.fft": lambda of, x: of.fft.fft(x),
    "fft.ifft": lambda of, x: of.fft.ifft(x),
    "fft.rfft": lambda of, x: of.fft.rfft(x),
    "fft.irfft": lambda of, x: of.fft.irfft(x),
    "fft.hfft": lambda of, x: of.fft.hfft(x),
    "fft.ihfft": lambda of, x: of.fft.ihfft(x),
    "fft.fftn": lambda of, x: of.fft.fftn(x),
    "fft.rfftn": lambda of, x: of.fft.rfftn(x),
    "fft.fftshift": lambda of, x: of.fft.fftshift(x),
}
TWO |= {
    "clip": lambda of, x, y: of.clip(x, max=y),
    "concat": lambda of, x, y: of.concat([x, y]),
    "isin": lambda of, x, y: of.isin(x, y),
    "matmul": lambda of, x, y: of.matmul(x, y),
    "meshgrid": lambda of, x, y: of.meshgrid(of.reshape(x, (-1,)), of.reshape(y, (-1,))),
    "result_type": lambda of, x, y: of.zeros((1,), dtype=of.result_type(x, y)),
    "searchsorted": lambda of, x, y: of.searchsorted(of.sort(of.reshape(x, (-1,))), y),
    "stack": lambda of, x, y: of.stack([x, y]),
    "take": lambda of, x, y: of.take(x, of.reshape(y, (-1,))[:1], axis=1),
    "take_along_axis": lambda of, x, y: of.take_along_axis(x, y, axis=1),
    "tensordot": lambda of, x, y: of.tensordot(x, y, axes=1),
    "vecdot": lambda of, x, y: of.vecdot(x, y),
    "where": lambda of, x, y: of.where(of.astype(x, of.bool), x, y),
    "linalg.cross": lambda of, x, y: of.linalg.cross(
        of.concat([x, x[:, :1]], axis=1), of.concat([y, y[:, :1]], axis=1)),
    "linalg.outer": lambda of, x, y: of.linalg.outer(x[0, :], y[0, :]),
    "linalg.solve": lambda of, x, y: of.linalg.solve(x, y),
}

# What the standard leaves open. A list of those that other kinds of dtypes are refused for, and of
# those that take more.
REFUSES = {name: "no promotion between kinds" for name in
           "matmul tensordot vecdot searchsorted linalg.cross linalg.outer".split()}
REFUSES |= {
    "clip": "a bound of a wider dtype need not be one of x's",
    "linalg.matrix_rank": "its tolerance is that of a floating-point dtype",
}
TAKES = {
    "isin": "all that equal() takes",
    "linalg.matrix_power": "integers, as matmul() does",
    "meshgrid": "views of several dtypes",
    "where": "astype() from complex numbers to bool",
}
TAKES |= {f"fft.{name}": "real numbers, as NumPy does"
          for name in "fft ifft irfft hfft fftn".split()}
REFUSED = "refused"


def values(dtype, row):
    """One invertible matrix; with indices of two elements, and shifts, in range for the second."""
    array = np.array([[[2, 1], [1, 1]], [[1, 0], [1, 1]]][row])
    return array.astype(dtype)


def outcome(call, of, arrays):
    errors = TypeError if of is xp else (TypeError, ValueError, IndexError)
    try:
        found = call(of, *arrays)
    except errors:
        return REFUSED
    return list(found) if isinstance(found, (tuple, list)) else [found]


def described(array):
    return str(array.dtype).rsplit(".", 1)[-1], tuple(array.shape)


def to_numpy(array):
    return array.numpy() if isinstance(array, bp.Tensor) else np.asarray(array)


def differences(name, call, dtypes, device):
    arrays = [values(dtype, row) for row, dtype in enumerate(dtypes)]
    theirs = outcome(call, array_api_strict, [array_api_strict.asarray(a) for a in arrays])
    ours = outcome(call, xp, [xp.asarray(a, device=device) for a in arrays])
    words = f"{name} of {', '.join(dtypes)}"
    if theirs is REFUSED or ours is REFUSED:
        if theirs is not ours and name not in (REFUSES if ours is REFUSED else TAKES):
            yield f"{words}: {'refused' if ours is REFUSED else 'taken'}, unlike strict"
        return
    for mine, other in zip(ours, theirs, strict=True):
        if described(mine) != described(other):
            yield f"{words}: {described(mine)}, expected {described(other)}"
            continue
        single = np.dtype(described(mine)[0]).name in ("float32", "complex64")
        try:
            assert_allclose(to_numpy(mine), to_numpy(other), rtol=1e-5 if single else 1e-12,
                            atol=1e-6 if single else 1e-13)
        except AssertionError as error:
            yield f"{words}: {' '.join(str(error).split())[:200]}"


@pytest.mark.parametrize("device", ["cpu:0", "npu:0"])
@pytest.mark.parametrize("name", ONE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_takes_and_answers_dtypes_as_strict(name, device):
    found = [words for dtype in standard.DTYPES
             for words in differences(name, ONE[name], [dtype], device)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", TWO)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_takes_and_answers_pairs_of_dtypes_as_strict(name):
    found = [words for first in standard.DTYPES for second in standard.DTYPES
             for words in differences(name, TWO[name], [first, second], "cpu:0")]
    assert not found, "\n".join(found)


def test_covers_all_functions_of_arrays():
    """But for those that take no array or whose dtype is an argument, and views."""
    elsewhere = {*standard.CREATION, *standard.DATA_TYPE_FUNCTIONS, *standard.INSPECTION}
    elsewhere |= set("""broadcast_arrays broadcast_shapes broadcast_to expand_dims matrix_transpose
        moveaxis permute_dims reshape squeeze unstack""".split())
    assert set(standard.FUNCTIONS) - elsewhere - set(ONE) - set(TWO) == set()
