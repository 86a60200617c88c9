# SPDX-License-Identifier: Apache-2.0
"""Every function takes tensors of 16 dimensions, as many as there may be, and answers what it does
of fewer; where the answer would have a 17th it says so."""

import inspect

import numpy as np
import pytest

import backplane as bp
import backplane.array_api as xp
import standard
from support import assert_equal, on

DTYPES = ["float32", "int32", "bool", "complex64"]
NAMES = [*standard.FUNCTIONS, *(f"linalg.{name}" for name in standard.LINALG)]
NAMES += [f"fft.{name}" for name in standard.FFT]
# They take no tensor, or one of few dimensions alone, or answer what nothing was written to.
NOT_HERE = set(
    """arange asarray broadcast_shapes can_cast empty empty_like expand_dims eye finfo from_dlpack
    full iinfo isdtype linspace meshgrid ones result_type stack zeros __array_namespace_info__
    fft.fftfreq fft.rfftfreq linalg.outer""".split()
)


def positive(x):
    product = xp.matmul(x, xp.conj(xp.matrix_transpose(x)))
    return product + xp.eye(3, dtype=x.dtype, device=x.device) * 9


def row(x):
    return xp.reshape(x, (-1,))[:3]


def order(x):
    return xp.argsort(xp.astype(xp.real(x) if x.dtype is bp.complex64 else x, xp.float32))


# Of tensors [2, 1, 3, 3], and of those with more dimensions of size 1 behind the first one.
CALLS = {
    "astype": lambda x: xp.astype(x, xp.complex128),
    "broadcast_arrays": lambda x: xp.broadcast_arrays(x[..., :1], x)[0],
    "broadcast_to": lambda x: xp.broadcast_to(x[..., :1], x.shape),
    "clip": lambda x: xp.clip(x, 2, 3),
    "concat": lambda x: xp.concat([x, x], axis=-1),
    "cumulative_prod": lambda x: xp.cumulative_prod(x, axis=-1),
    "cumulative_sum": lambda x: xp.cumulative_sum(x, axis=-1, include_initial=True),
    "full_like": lambda x: xp.full_like(x, 2),
    "matmul": lambda x: xp.matmul(x, xp.matrix_transpose(x)),
    "moveaxis": lambda x: xp.moveaxis(x, -1, 0),
    "permute_dims": lambda x: xp.permute_dims(x, tuple(reversed(range(x.ndim)))),
    "repeat": lambda x: [xp.repeat(x, 2, axis=-1), xp.repeat(x, 1 + row(order(x)), axis=-1)],
    "reshape": lambda x: xp.reshape(xp.matrix_transpose(x), (3, 6)),
    "roll": lambda x: xp.roll(x, 1, axis=-1),
    "searchsorted": lambda x: xp.searchsorted(xp.sort(row(x)), x),
    "squeeze": lambda x: xp.squeeze(x, -3),
    "take": lambda x: xp.take(x, bp.asarray([2, 0], device=x.device), axis=-1),
    "take_along_axis": lambda x: xp.take_along_axis(x, order(x), axis=-1),
    "tensordot": lambda x: xp.tensordot(x, row(x), axes=([-1], [0])),
    "tile": lambda x: xp.tile(x, (2,) + (1,) * (x.ndim - 3) + (2, 3)),
    "where": lambda x: xp.where(x == x[0, ...], x, xp.zeros_like(x)),
    "linalg.matrix_power": lambda x: xp.linalg.matrix_power(x, 3),
}
CALLS["linalg.tensordot"] = CALLS["tensordot"]
for name in "cholesky eig eigh eigvals eigvalsh inv pinv".split():
    CALLS[f"linalg.{name}"] = lambda x, name=name: getattr(xp.linalg, name)(positive(x))
CALLS["linalg.solve"] = lambda x: xp.linalg.solve(positive(x), x)


def call_of(name):
    if name in CALLS:
        return CALLS[name]
    space, _, function = name.rpartition(".")
    function = getattr(getattr(xp, space) if space else xp, function)
    parameters = inspect.signature(function).parameters.values()
    count = sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in parameters)
    return lambda x: function(*[x] * count)


def answers(found):
    found = found if isinstance(found, (tuple, list)) else [found]
    return [(one.dtype, one.flatten().numpy()) for one in found]


def of_dtype(device, dtype):
    x = np.arange(18).reshape(2, 1, 3, 3) * 7 % 5 + 1
    x = x % 2 if dtype == "bool" else x * (1 + 1j) if dtype == "complex64" else x
    return on(device, x.astype(dtype))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_HERE])
def test_of_16_dimensions(device, name):
    call, is_taken = call_of(name), False
    for dtype in DTYPES:
        x = of_dtype(device, dtype)
        try:
            expected = answers(call(x))
        except (TypeError, NotImplementedError) as error:
            assert "expected a" in str(error) or "do not promote" in str(error)
            continue
        is_taken = True
        found = answers(call(xp.reshape(x, (2,) + (1,) * 13 + (3, 3))))
        assert len(found) >= len(expected)  # nonzero answers the positions along each axis
        for one, wanted in zip(found[:1] + found[len(found) - len(expected) + 1:], expected):
            assert one[0] is wanted[0]
            np.testing.assert_allclose(one[1], wanted[1], rtol=1e-5, atol=1e-5)
    assert is_taken


def test_a_17th_is_refused(device):
    x = bp.ones((1,) * 16, device=device)
    calls = {
        "expand_dims: argument 'axis'": lambda: xp.expand_dims(x, 0),
        "stack: argument 'arrays'": lambda: xp.stack([x, x]),
        "reshape: argument 'shape'": lambda: xp.reshape(x, (1,) * 17),
        "tile: argument 'repetitions'": lambda: xp.tile(x, (2,) * 17),
        "broadcast_to: argument 'shape'": lambda: xp.broadcast_to(x, (1,) * 17),
        "tensordot: argument 'axes'": lambda: xp.tensordot(x, x[0], axes=1),
        "meshgrid: argument 'arrays'": lambda: xp.meshgrid(*[x.flatten()] * 17),
        "zeros: argument 'shape'": lambda: xp.zeros((1,) * 17, device=device),
    }
    for place, call in calls.items():
        with pytest.raises(ValueError, match=f"^{place}: expected at most 16 dimensions, found "):
            call()


def test_parts_of_16_dimensions_of_a_view(device):
    """None of which can be one with its neighbour: the parts share the memory nevertheless."""
    a = (np.arange(2**16) + 1j * np.arange(2**16)[::-1]).astype("complex64").reshape((2,) * 16)
    axes = (*range(1, 16, 2), *range(0, 16, 2))
    x, expected = xp.permute_dims(on(device, a), axes), a.transpose(axes)
    for view, wanted in ((x, expected), (xp.flip(x, axis=(0, 3)), np.flip(expected, (0, 3)))):
        assert_equal(xp.real(view), wanted.real)
        assert_equal(xp.imag(view), wanted.imag)
        assert_equal(xp.conj(view), wanted.conj())
        assert_equal(xp.add(view, x), wanted + expected)
    xp.imag(x)[...] = 0
    assert_equal(x, expected.real.astype("complex64"))
    nothing = xp.zeros((2,) * 15 + (0,), dtype="complex64", device=device)
    assert xp.real(nothing).shape == nothing.shape == xp.conj(nothing).shape


def test_indexing_of_16_dimensions(device):
    a = np.arange(6).reshape((1,) * 14 + (2, 3)).astype("complex64") * 1j
    x = on(device, a)
    mask, places = a.imag > 2, [2, 0]
    assert_equal(x[on(device, mask)], a[mask])
    assert_equal(x[..., places], a[..., places])
    x[..., places] = 7j
    x[on(device, mask)] = 1
    a[..., places] = 7j
    a[mask] = 1
    assert_equal(x, a)
    with pytest.raises(ValueError, match="^index: .*complex128 tensors have one dimension less"):
        xp.astype(x, xp.complex128)[on(device, mask)]
