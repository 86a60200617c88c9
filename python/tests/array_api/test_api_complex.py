# SPDX-License-Identifier: Apache-2.0
"""Operators and functions of complex tensors: values, branch cuts, products, limits."""

import cmath
import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backplane as bp
import backplane.array_api as xp
import support
from support import assert_close, assert_equal, on

DEVICES = st.sampled_from(support.DEVICES)
INF, NAN = math.inf, math.nan


@given(data=st.data())
def test_operators(data):
    a, b = data.draw(support.pairs(support.COMPLEX_FLOATING, low=0.5, high=4))
    device = data.draw(DEVICES)
    x, y = on(device, a), on(device, b)
    for call in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow):
        expected = call(a.astype("complex128"), b.astype("complex128")).astype(a.dtype)
        assert_close(call(x, y), expected, 256, scale=abs(expected).max(initial=1))
        number = complex(1.5, -0.5)
        expected = call(a.astype("complex128"), number).astype(a.dtype)
        assert_close(call(x, number), expected, 64, scale=abs(expected).max(initial=1))
        assert call(2.0, x).dtype == a.dtype
    assert_equal(x == y, a == b)
    assert_equal(x != y, a != b)
    assert_equal(-x, -a)
    assert_close(abs(x), abs(a), 4)
    real = on(device, a.real.copy())
    assert_equal(real + 1j, (a.real + 1j).astype(a.dtype))
    assert_equal(real + y, (a.real + b).astype(a.dtype))


def test_in_place(device):
    x = on(device, np.asarray([1 + 1j, 2], "complex64"))
    view = x[:1]
    view *= 2j
    x += 1
    assert x.tolist() == [-1 + 2j, 3]
    with pytest.raises(ValueError, match="the result is complex64"):
        bp.ones(2, device=device).__iadd__(1j)


def test_no_order(device):
    x = bp.ones(2, dtype="complex64", device=device)
    for call in (operator.lt, operator.ge, operator.mod, operator.floordiv, operator.and_):
        with pytest.raises(ValueError, match="complex64|c64"):
            call(x, x)
    with pytest.raises(ValueError, match="c64"):
        ~x


# name: argument, result. The standard's tables are in test_api_special_complex.py.
CASES = {
    "abs": [(complex(3, 4), 5)],
    "sign": [(complex(3, -4), complex(0.6, -0.8))],
    "sqrt": [(complex(-4, 0), complex(0, 2)), (complex(-4, -0.0), complex(0, -2))],
    "tanh": [(complex(30, INF), complex(NAN, NAN))],
}


def agree(found, wanted):
    if math.isnan(wanted):
        return math.isnan(found)
    return found == wanted or math.isclose(found, wanted, rel_tol=1e-6)


def test_zeros_of_tanh_have_the_sign_of_the_angle(device):
    for angle in (1.0, 2.0, -2.0):  # sin 2y changes its sign between
        found = xp.tanh(bp.asarray(complex(INF, angle), device=device)).item()
        assert found == 1 and math.copysign(1, found.imag) == math.copysign(1, angle)


@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
@pytest.mark.parametrize("name", CASES)
def test_values(device, name, dtype):
    arguments, expected = zip(*CASES[name])
    found = getattr(xp, name)(bp.asarray(arguments, dtype=dtype, device=device)).tolist()
    for argument, one, wanted in zip(arguments, found, expected):
        one, wanted = complex(one), complex(wanted)
        assert agree(one.real, wanted.real) and agree(one.imag, wanted.imag), (argument, one)


FUNCTIONS = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log"]
FUNCTIONS += ["log10", "sin", "sinh", "sqrt", "tan", "tanh"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signs_of_zeros_and_branch_cuts(device, name):
    """Against Python's cmath, which keeps to C, on both sides of each axis."""
    parts = (-2.5, -0.5, -0.0, 0.0, 0.5, 2.5)
    arguments = [complex(x, y) for x in parts for y in parts]
    defined = [z for z in arguments if _cmath(name, z) is not None]
    found = getattr(xp, name)(bp.asarray(defined, dtype="complex128", device=device)).tolist()
    for z, one in zip(defined, found):
        wanted = _cmath(name, z)
        assert abs(one - wanted) <= 1e-14 * max(abs(wanted), 1), (z, one, wanted)


def _cmath(name, z):
    try:
        return getattr(cmath, name)(z)
    except ValueError:
        return None  # at a pole


@pytest.mark.parametrize("name", ["abs", "log", "sqrt", "asinh", "acosh", "atanh", "divide"])
@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
def test_large_and_small_numbers(device, name, dtype):
    """No square overflows or vanishes on the way."""
    part = np.finfo(dtype).dtype.type
    large, small = part(np.finfo(dtype).max / 4), part(np.finfo(dtype).tiny * 4)
    x = np.asarray([complex(large, large), complex(-large, 1), complex(1, large)], dtype)
    if name in ("abs", "sqrt", "divide"):
        x = np.append(x, np.asarray([complex(small, small)], dtype))
    arguments = (x, x) if name == "divide" else (x,)
    function = {"asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh}.get(name)
    function = function or getattr(np, name)
    expected = function(*(v.astype("clongdouble") for v in arguments))
    found = getattr(xp, name)(*(on(device, v) for v in arguments)).numpy()
    assert np.isfinite(found).all()
    tolerance = np.finfo(dtype).eps * 64
    error = np.abs(found.astype(expected.dtype) - expected)
    assert np.all(error <= tolerance * np.maximum(np.abs(expected), 0 if name != "atanh" else 1))


BESIDE_A_POLE = [-0.9999, -0.99, 0.9999999, 1 + 1e-30j, -1 - 1e-20j, 1 + 1e-12j, 6.5e9 - 1e4j, 3e9j]


@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
@pytest.mark.parametrize("name", ["atanh", "atan"])
def test_beside_a_pole_and_far_away(device, name, dtype):
    """Against Python's cmath, each part by itself: neither cancels."""
    turn = 1 if name == "atanh" else 1j
    x = np.asarray([z * turn for z in BESIDE_A_POLE], dtype)
    expected = np.asarray([getattr(cmath, name)(complex(z)) for z in x])
    found = getattr(xp, name)(on(device, x)).numpy()
    for one, wanted in ((found.real, expected.real), (found.imag, expected.imag)):
        assert np.all(np.abs(one - wanted) <= np.finfo(dtype).eps * 4 * np.abs(wanted)), found


def test_nan_is_no_zero_to_divide_by(device):
    x = bp.asarray([complex(NAN, 0), complex(0, NAN), complex(NAN, NAN)], device=device)
    for found in (xp.reciprocal(x), xp.divide(bp.asarray([1 + 1j], device=device), x)):
        assert np.isnan(found.numpy().real).all() and np.isnan(found.numpy().imag).all()
    zero = bp.asarray([0j], device=device)
    assert math.isinf(xp.divide(bp.asarray([1 + 1j], device=device), zero).numpy()[0].real)


def _products(x):
    """Of exact fractions, of which every float is one."""
    found, parts = [], (Fraction(1), Fraction(0))
    for z in x.tolist():
        a, b = Fraction(z.real), Fraction(z.imag)
        parts = parts[0] * a - parts[1] * b, parts[0] * b + parts[1] * a
        found.append(parts)
    return found


def _near(found, parts, eps, step=0):
    """Within eps of the size of the product, or a step of the smallest numbers."""
    error = max(abs(Fraction(found.real) - parts[0]), abs(Fraction(found.imag) - parts[1]))
    return error <= Fraction(float(eps)) * max(map(abs, parts)) + Fraction(float(step))


@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
@pytest.mark.parametrize("order", ["up and down", "all up first", "all down first", "mixed"])
def test_products_of_large_and_small_numbers(device, dtype, order):
    """Parts of the product are beyond the range, the product is not."""
    info = np.finfo(dtype)
    sizes = np.tile([info.max / 8, info.tiny * 8], 40).astype(info.dtype)
    if order != "up and down":
        sizes.sort()
    if order == "all up first":
        sizes = sizes[::-1]
    turns = np.exp(1j * np.random.default_rng(3).uniform(-3, 3, sizes.size)) * 1.25
    x = (sizes * turns).astype(dtype)
    if order == "mixed":
        x = np.random.default_rng(5).permutation(x)
    expected, limit = _products(x), info.eps * x.size
    tensor = on(device, x)
    assert _near(xp.prod(tensor).item(), expected[-1], limit)
    for found in xp.prod(xp.stack([tensor, tensor[::-1]]), axis=1).tolist():
        assert _near(found, expected[-1], limit)
    inside = 0
    for found, parts in zip(xp.cumulative_prod(tensor).tolist(), expected):
        if max(map(abs, parts)) <= Fraction(float(info.max)):
            inside += 1
            assert _near(found, parts, limit, info.smallest_subnormal)
        else:
            assert not (math.isfinite(found.real) and math.isfinite(found.imag))
    assert inside > 0


@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
@pytest.mark.parametrize("count", [2, 3, 17, 1023, 1025])
def test_products_of_the_smallest_and_the_largest_numbers(device, dtype, count):
    """As many of three whose product is 1: a subnormal number, and two that take it back."""
    power = 146 if dtype == "complex64" else 1072
    three = [2.0**-power * (1 + 1j), 2.0 ** (power // 2 - 1) * (1 - 1j), 2.0 ** (power // 2)]
    x = np.repeat(np.asarray(three, dtype), count)
    for order in (x, x[::-1], x.reshape(3, count).T.flatten()):
        tensor = on(device, order.copy())
        assert xp.prod(tensor).item() == 1 == xp.cumulative_prod(tensor)[-1].item()


def test_products_of_what_is_no_number(device):
    for numbers in ([INF, 1, 2], [1, NAN], [0, 5, 1e-30], [complex(0, INF), 1j]):
        x = np.asarray(numbers, "complex64")
        found = xp.prod(on(device, x)).item()
        with np.errstate(invalid="ignore"):
            expected = np.prod(x)
        assert found == expected if np.isfinite(expected) else not np.isfinite(found)
    nothing = xp.zeros((0, 3), dtype="complex64", device=device)
    assert xp.prod(nothing, axis=0).tolist() == [1, 1, 1] and xp.prod(nothing).item() == 1
    assert xp.cumulative_prod(nothing, axis=0).shape == (0, 3)
    one = bp.asarray([[3j]], device=device)
    assert xp.prod(one, axis=1).tolist() == [3j] and xp.cumulative_prod(one, axis=1).item() == 3j


@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
def test_sums_are_as_good_as_those_of_reals(device, dtype):
    part = np.finfo(dtype).dtype
    a, b = (np.random.default_rng(i).random(2**18).astype(part) for i in (1, 2))
    z = on(device, (a + 1j * b).astype(dtype))
    x, y = on(device, a), on(device, b)
    for function in (xp.sum, xp.mean):
        found = function(z).item()
        assert found == complex(function(x).item(), function(y).item())
        exact = complex(math.fsum(a), math.fsum(b)) / (a.size if function is xp.mean else 1)
        assert abs(found - exact) <= math.sqrt(a.size) * np.finfo(part).eps * abs(exact)
    found, size = xp.cumulative_sum(z).numpy(), np.abs(np.cumsum(a) + 1j * np.cumsum(b))
    exact = np.cumsum(a.astype("longdouble")) + 1j * np.cumsum(b.astype("longdouble"))
    assert np.all(np.abs(found - exact) <= np.sqrt(a.size) * np.finfo(part).eps * size)


WIDE = {
    "sign": lambda z: z / np.abs(z), "log": np.log, "log10": np.log10, "acos": np.arccos,
    "log2": lambda z: np.log(z) / np.log(np.longdouble(2)), "acosh": np.arccosh,
    "asin": np.arcsin, "asinh": np.arcsinh, "divide": np.divide,
}  # fmt: skip


@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
@pytest.mark.parametrize("name", WIDE)
def test_sizes_that_are_beyond_floats_or_subnormal(device, name, dtype):
    info = np.finfo(dtype)
    large, tiny = float(info.max), float(info.smallest_subnormal)
    numbers = [complex(large, large), complex(-large, 0.7 * large), complex(0.8 * large, -large)]
    numbers += [complex(tiny, tiny), complex(3 * tiny, -2 * tiny), complex(-5 * tiny, 7 * tiny)]
    x = np.asarray(numbers, dtype)
    arguments = (x,)
    if name == "divide":
        x = np.append(x, x[0])
        arguments = (x, np.append(x[[1, 2, 0, 4, 5, 3]], np.asarray([2 - 3j], dtype)))
    expected = WIDE[name](*(v.astype("clongdouble") for v in arguments))
    found = getattr(xp, name)(*(on(device, v) for v in arguments)).numpy()
    error = np.abs(found.astype(expected.dtype) - expected)
    assert np.all(error <= 16 * info.eps * np.abs(expected) + 2 * tiny), (found, expected)


@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
def test_roots_of_the_smallest_and_the_largest_numbers(device, dtype):
    info = np.finfo(dtype)
    tiny, large = float(info.smallest_subnormal), float(info.max)
    parts = (0.0, tiny, 3 * tiny, float(info.tiny), 1.0, large / 2, large)
    x = np.asarray([complex(a, b * s) for a in parts for b in parts for s in (1, -1)], dtype)
    x = np.append(x, -x.conj())
    found = xp.sqrt(on(device, x)).numpy()
    for z, root in zip(x.tolist(), found.tolist()):
        # cmath computes in float64, which has no room beside its own limits.
        scale = 2.0**-200 if max(abs(z.real), abs(z.imag)) > 1 else 2.0**200
        wanted = cmath.sqrt(complex(z.real * scale, z.imag * scale)) / math.sqrt(scale)
        for one, other in ((root.real, wanted.real), (root.imag, wanted.imag)):
            assert abs(one - other) <= 4 * info.eps * abs(other) + tiny, (z, root, wanted)
            assert math.copysign(1, one) == math.copysign(1, other)


@given(data=st.data())
def test_pairs_share_memory(data):
    x = data.draw(support.arrays(support.COMPLEX_FLOATING))
    tensor = on(data.draw(DEVICES), x)
    for view in (tensor, tensor.T, xp.flip(tensor)):
        assert_equal(xp.real(view), view.numpy().real)
        assert_equal(xp.imag(view), view.numpy().imag)
        assert_equal(xp.conj(view), view.numpy().conj())
