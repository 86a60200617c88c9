# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backplane as bp
import backplane.array_api as xp
import standard
import support
from support import arrays, assert_close, assert_equal, on

# name: dtypes, from, to, units in the last place; None: exact.
UNARY = {
    "abs": (support.NUMERIC, -8, 8, 4),
    "acos": (support.FLOATING, -1, 1, 16),
    "acosh": (support.FLOATING, 1, 8, 16),
    "asin": (support.FLOATING, -1, 1, 16),
    "asinh": (support.FLOATING, -8, 8, 16),
    "atan": (support.FLOATING, -8, 8, 16),
    "atanh": (support.FLOATING, -0.75, 0.75, 16),
    "bitwise_invert": (["bool", *support.INTEGRAL], -8, 8, None),
    "ceil": (support.REAL, -8, 8, None),
    "conj": (support.NUMERIC, -8, 8, None),
    "cos": (support.FLOATING, -8, 8, 16),
    "cosh": (support.FLOATING, -8, 8, 16),
    "exp": (support.FLOATING, -8, 8, 16),
    "expm1": (support.FLOATING, -8, 8, 16),
    "floor": (support.REAL, -8, 8, None),
    "imag": (support.COMPLEX_FLOATING, -8, 8, None),
    "isfinite": (support.NUMERIC, -8, 8, None),
    "isinf": (support.NUMERIC, -8, 8, None),
    "isnan": (support.NUMERIC, -8, 8, None),
    "log": (support.FLOATING, 0.125, 8, 16),
    "log10": (support.FLOATING, 0.125, 8, 16),
    "log1p": (support.FLOATING, -0.75, 8, 16),
    "log2": (support.FLOATING, 0.125, 8, 16),
    "logical_not": (["bool"], 0, 1, None),
    "negative": (support.NUMERIC, -8, 8, None),
    "positive": (support.NUMERIC, -8, 8, None),
    "real": (support.NUMERIC, -8, 8, None),
    "reciprocal": (support.FLOATING, 0.125, 8, 8),
    "round": (support.NUMERIC, -8, 8, None),
    "sign": (support.NUMERIC, -8, 8, 8),
    "signbit": (support.REAL_FLOATING, -8, 8, None),
    "sin": (support.FLOATING, -8, 8, 16),
    "sinh": (support.FLOATING, -8, 8, 16),
    "sqrt": (support.FLOATING, 0, 8, 8),
    "square": (support.NUMERIC, -8, 8, 8),
    "tan": (support.FLOATING, -1.25, 1.25, 16),
    "tanh": (support.FLOATING, -8, 8, 16),
    "trunc": (support.REAL, -8, 8, None),
}

BINARY = {
    "add": (support.NUMERIC, -8, 8, 4),
    "atan2": (support.REAL_FLOATING, -8, 8, 8),
    "bitwise_and": (["bool", *support.INTEGRAL], -8, 8, None),
    "bitwise_left_shift": (support.INTEGRAL, 0, 6, None),
    "bitwise_or": (["bool", *support.INTEGRAL], -8, 8, None),
    "bitwise_right_shift": (support.INTEGRAL, 0, 6, None),
    "bitwise_xor": (["bool", *support.INTEGRAL], -8, 8, None),
    "copysign": (support.REAL_FLOATING, -8, 8, None),
    "divide": (support.FLOATING, 0.25, 8, 8),
    "equal": (support.ANY, -2, 2, None),
    "floor_divide": (support.REAL, 1, 8, None),
    "greater": (support.REAL, -2, 2, None),
    "greater_equal": (support.REAL, -2, 2, None),
    "hypot": (support.REAL_FLOATING, -8, 8, 8),
    "less": (support.REAL, -2, 2, None),
    "less_equal": (support.REAL, -2, 2, None),
    "logaddexp": (support.REAL_FLOATING, -8, 8, 16),
    "logical_and": (["bool"], 0, 1, None),
    "logical_or": (["bool"], 0, 1, None),
    "logical_xor": (["bool"], 0, 1, None),
    "maximum": (support.REAL, -8, 8, None),
    "minimum": (support.REAL, -8, 8, None),
    "multiply": (support.NUMERIC, -8, 8, 8),
    "nextafter": (support.REAL_FLOATING, -8, 8, None),
    "not_equal": (support.ANY, -2, 2, None),
    "pow": (support.NUMERIC, 1, 2, 32),
    "remainder": (support.REAL, 1, 8, 16),
    "subtract": (support.NUMERIC, -8, 8, 4),
}

# Where NumPy's name is another one.
RENAMED = {"conj": "conjugate", "round": "rint"}


def test_tables_are_whole():
    assert sorted([*UNARY, *BINARY, "clip"]) == sorted(standard.ELEMENTWISE)


def expected_of(name, *operands):
    """NumPy's values: of floats in twice the precision, where it has it."""
    function = getattr(np, RENAMED.get(name, name))
    with np.errstate(all="ignore"):
        found = function(*operands)
        dtype = np.asarray(operands[0]).dtype
        if dtype.kind not in "fc" or UNARY.get(name, BINARY.get(name))[3] is None:
            return found
        wide = np.dtype("longdouble" if dtype.kind == "f" else "clongdouble")
        if dtype.itemsize == (4 if dtype.kind == "f" else 8):
            wide = np.dtype("float64" if dtype.kind == "f" else "complex128")
        return function(*(np.asarray(x).astype(wide) for x in operands)).astype(found.dtype)


def check(found, name, *operands, ulps):
    expected = expected_of(name, *operands)
    if ulps is None or np.asarray(expected).dtype.kind in "iub":
        assert_equal(found, expected)
    else:
        assert_close(found, expected, ulps)


@pytest.mark.parametrize("name", UNARY)
@given(data=st.data())
def test_unary(name, data):
    dtypes, low, high, ulps = UNARY[name]
    device = data.draw(st.sampled_from(support.DEVICES))
    x = data.draw(arrays(dtypes, low=low, high=high))
    if x.dtype.kind in "iu" and name in ("ceil", "floor", "round", "trunc"):
        assert_equal(getattr(xp, name)(on(device, x)), x)
        return
    check(getattr(xp, name)(on(device, x)), name, x, ulps=ulps)


@pytest.mark.parametrize("name", BINARY)
@given(data=st.data())
def test_binary(name, data):
    dtypes, low, high, ulps = BINARY[name]
    device = data.draw(st.sampled_from(support.DEVICES))
    a, b = data.draw(support.pairs(dtypes, low=low, high=high))
    check(getattr(xp, name)(on(device, a), on(device, b)), name, a, b, ulps=ulps)


@pytest.mark.parametrize("name", BINARY)
@given(data=st.data())
def test_python_numbers_beside_tensors(name, data):
    dtypes, low, high, ulps = BINARY[name]
    device = data.draw(st.sampled_from(support.DEVICES))
    x = data.draw(arrays(dtypes, low=low, high=high))
    number = data.draw(support.elements(x.dtype, low, high))
    function = getattr(xp, name)
    check(function(on(device, x), number), name, x, x.dtype.type(number), ulps=ulps)
    check(function(number, on(device, x)), name, x.dtype.type(number), x, ulps=ulps)


@given(data=st.data())
def test_clip(data):
    device = data.draw(st.sampled_from(support.DEVICES))
    x = data.draw(arrays(support.REAL))
    low = data.draw(st.none() | support.elements(x.dtype, -4, 2))
    high = data.draw(st.none() | support.elements(x.dtype, 3, 6))
    expected = x.copy() if low is None and high is None else np.clip(x, low, high)
    assert_equal(xp.clip(on(device, x), low, high), expected)
    bounds = [None if b is None else on(device, np.asarray(b, x.dtype)) for b in (low, high)]
    assert_equal(xp.clip(on(device, x), *bounds), expected)


@pytest.mark.parametrize(
    "a, b, expected",
    [
        ("int8", "int16", "int16"),
        ("uint8", "int8", "int16"),
        ("uint32", "int8", "int64"),
        ("float32", "float64", "float64"),
        ("float64", "complex64", "complex128"),
        ("float32", "complex64", "complex64"),
        ("complex64", "complex128", "complex128"),
        ("bool", "bool", "bool"),
        ("float16", "bfloat16", "float32"),
        ("uint64", "uint8", "uint64"),
    ],
)
def test_promotion(device, a, b, expected):
    for left, right in ((a, b), (b, a)):
        x, y = bp.ones(2, dtype=left, device=device), bp.zeros(2, dtype=right, device=device)
        assert xp.result_type(x, y) == expected
        assert xp.result_type(x.dtype, y.dtype) == expected
        assert xp.where(bp.ones(2, dtype=bool, device=device), x, y).dtype == expected
        assert xp.can_cast(x.dtype, bp.dtype(expected))


@pytest.mark.parametrize(
    "a, b",
    [
        ("int8", "float32"),
        ("bool", "int8"),
        ("bool", "float64"),
        ("uint64", "int8"),
        ("int32", "complex64"),
    ],
)
def test_mixed_kinds_are_refused(a, b):
    x, y = bp.ones(2, dtype=a), bp.ones(2, dtype=b)
    for call in (xp.result_type, xp.add, xp.equal):
        with pytest.raises(TypeError, match=f"{a} and {b}|argument 'x1': expected a numeric"):
            call(x, y)
    assert not xp.can_cast(x.dtype, y.dtype)


@pytest.mark.parametrize(
    "dtype, number, expected",
    [
        ("int8", 1, "int8"),
        ("float32", 1, "float32"),
        ("float32", 1.5, "float32"),
        ("float32", 1j, "complex64"),
        ("float64", 1j, "complex128"),
        ("complex64", 1, "complex64"),
        ("complex64", 1.5, "complex64"),
        ("bool", True, "bool"),
    ],
)
def test_promotion_of_python_numbers(device, dtype, number, expected):
    x = bp.ones(2, dtype=dtype, device=device)
    assert xp.result_type(x, number) == expected == xp.result_type(number, x)
    assert xp.result_type(x.dtype, number) == expected
    assert xp.where(bp.ones(2, dtype=bool, device=device), x, number).dtype == expected


@pytest.mark.parametrize(
    "dtype, number", [("int8", 1.5), ("bool", 1), ("int8", True), ("int8", 1j)]
)
def test_python_numbers_that_do_not_fit(dtype, number):
    with pytest.raises(TypeError, match=f"{dtype} and a Python {type(number).__name__}"):
        xp.result_type(bp.ones(2, dtype=dtype), number)


def test_bad_operands(device):
    x = bp.ones(2, device=device)
    with pytest.raises(TypeError, match="add: argument 'x2': expected .*, found str"):
        xp.add(x, "a")
    with pytest.raises(TypeError, match="add: expected at least one tensor or dtype"):
        xp.add(1, 2)
    with pytest.raises(TypeError, match="add: argument 'x2': expected .*, found Dtype"):
        xp.add(x, bp.float32)
    with pytest.raises(TypeError, match="sin: argument 'x': expected a Tensor, found float"):
        xp.sin(1.0)
    with pytest.raises(TypeError, match="sin: argument 'x': expected a floating-point .*int64"):
        xp.sin(bp.asarray([1], device=device))
    with pytest.raises(TypeError, match="logical_and: argument 'x1': expected a bool .*float32"):
        xp.logical_and(x, x)
    with pytest.raises(TypeError, match="imag: argument 'x': expected a complex floating"):
        xp.imag(x)
    with pytest.raises(TypeError, match="less: argument 'x2': expected a real-valued"):
        xp.less(x, 1j)
    with pytest.raises(TypeError, match="clip"):
        xp.clip(bp.asarray([1], device=device), 0.5)
    with pytest.raises(ValueError):
        xp.add(x, bp.ones(3, device=device))
    with pytest.raises(OverflowError, match="300"):
        xp.add(bp.ones(2, dtype="uint8", device=device), 300)


def test_two_devices_are_named():
    with pytest.raises(ValueError, match="add: argument 'x1' is on cpu:0, argument 'x2' on npu:0"):
        xp.add(bp.ones(2, device="cpu:0"), bp.ones(2, device="npu:0"))


def test_numpy_scalars_stand_for_their_numbers(device):
    x = bp.asarray([1.0, 2.0], dtype="float32", device=device)
    for number in (np.float32(2), np.float64(2), np.int8(2), np.asarray(2.0)):
        assert_equal(xp.multiply(x, number), np.asarray([2, 4], "float32"))
        assert_equal(xp.subtract(number, x), np.asarray([1, 0], "float32"))
        assert_equal(xp.clip(x, number), np.asarray([2, 2], "float32"))
        assert xp.result_type(x, number) is xp.float32
        assert xp.searchsorted(x, number).item() == 1
    assert xp.isin(x, np.float32(2)).tolist() == [False, True]
    with pytest.raises(TypeError, match="multiply: argument 'x2': expected .*, found ndarray"):
        xp.multiply(x, np.ones(2))


def test_half_types(device):
    """Real floats beyond the standard."""
    for name in ("float16", "bfloat16"):
        x = bp.asarray([0.5, 2.0], dtype=name, device=device)
        assert xp.isdtype(x.dtype, "real floating")
        assert xp.sqrt(xp.multiply(x, x)).tolist() == [0.5, 2.0]
        assert xp.add(x, 1).dtype == name
