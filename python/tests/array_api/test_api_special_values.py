# SPDX-License-Identifier: Apache-2.0
"""Special values of elementwise functions: the tables of the standard, by hand."""

import math

import numpy as np
import pytest

import backplane as bp
import backplane.array_api as xp

INF, NAN, PI = math.inf, math.nan, math.pi

# function: argument, result
ONE = {
    "abs": [(NAN, NAN), (-0.0, 0.0), (-INF, INF)],
    "acos": [(NAN, NAN), (1.5, NAN), (-1.5, NAN), (1.0, 0.0)],
    "acosh": [(NAN, NAN), (0.5, NAN), (1.0, 0.0), (INF, INF)],
    "asin": [(NAN, NAN), (1.5, NAN), (-1.5, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "asinh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "atan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2)],
    "atanh": [(NAN, NAN), (-1.5, NAN), (-1.0, -INF), (1.0, INF), (0.0, 0.0), (-0.0, -0.0)],
    "ceil": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (-0.5, -0.0), (INF, INF), (-INF, -INF)],
    "cos": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "cosh": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF)],
    "exp": [(NAN, NAN), (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0)],
    "expm1": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0)],
    "floor": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "log": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "log10": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "log1p": [(NAN, NAN), (-1.5, NAN), (-1.0, -INF), (-0.0, -0.0), (0.0, 0.0), (INF, INF)],
    "log2": [(NAN, NAN), (-1.0, NAN), (0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF)],
    "reciprocal": [(NAN, NAN), (INF, 0.0), (-INF, -0.0), (0.0, INF), (-0.0, -INF)],
    "round": [(NAN, NAN), (-0.0, -0.0), (0.5, 0.0), (1.5, 2.0), (-0.5, -0.0), (INF, INF)],
    "sign": [(NAN, NAN), (0.0, 0.0), (-0.0, 0.0), (INF, 1.0), (-INF, -1.0)],
    "sin": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "sinh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "sqrt": [(NAN, NAN), (-1.0, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, INF)],
    "tan": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "tanh": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "trunc": [(NAN, NAN), (0.0, 0.0), (-0.0, -0.0), (-0.5, -0.0), (INF, INF)],
}

TESTS = {
    "isfinite": [(NAN, False), (INF, False), (-INF, False), (0.0, True)],
    "isinf": [(NAN, False), (INF, True), (-INF, True), (0.0, False)],
    "isnan": [(NAN, True), (INF, False), (-INF, False), (0.0, False)],
    "signbit": [(0.0, False), (-0.0, True), (INF, False), (-INF, True), (-NAN, True), (-1.0, True)],
}

# function: arguments, result
TWO = {
    "add": [((INF, -INF), NAN), ((INF, 1.0), INF), ((-0.0, -0.0), -0.0), ((-0.0, 0.0), 0.0)],
    "atan2": [
        ((NAN, 1.0), NAN),
        ((1.0, 0.0), PI / 2),
        ((1.0, -0.0), PI / 2),
        ((0.0, 1.0), 0.0),
        ((0.0, 0.0), 0.0),
        ((0.0, -0.0), PI),
        ((0.0, -1.0), PI),
        ((-0.0, 1.0), -0.0),
        ((-0.0, 0.0), -0.0),
        ((-0.0, -0.0), -PI),
        ((-0.0, -1.0), -PI),
        ((-1.0, 0.0), -PI / 2),
        ((1.0, INF), 0.0),
        ((1.0, -INF), PI),
        ((-1.0, INF), -0.0),
        ((-1.0, -INF), -PI),
        ((INF, 1.0), PI / 2),
        ((-INF, 1.0), -PI / 2),
        ((INF, INF), PI / 4),
        ((INF, -INF), 3 * PI / 4),
        ((-INF, INF), -PI / 4),
        ((-INF, -INF), -3 * PI / 4),
    ],
    "copysign": [((1.0, -0.0), -1.0), ((-1.0, 0.0), 1.0), ((INF, -1.0), -INF), ((0.0, -NAN), -0.0)],
    "divide": [
        ((NAN, 1.0), NAN),
        ((INF, INF), NAN),
        ((0.0, 0.0), NAN),
        ((1.0, 0.0), INF),
        ((1.0, -0.0), -INF),
        ((-1.0, 0.0), -INF),
        ((1.0, INF), 0.0),
        ((-1.0, INF), -0.0),
        ((-INF, 2.0), -INF),
    ],
    "floor_divide": [
        ((NAN, 1.0), NAN),
        ((INF, INF), NAN),
        ((0.0, 0.0), NAN),
        ((1.0, 0.0), INF),
        ((-1.0, 0.0), -INF),
        ((1.0, INF), 0.0),
        ((-1.0, INF), -1.0),
        ((1.0, -INF), -1.0),
        ((-7.0, 2.0), -4.0),
    ],
    "hypot": [((INF, NAN), INF), ((NAN, -INF), INF), ((NAN, 1.0), NAN), ((0.0, -3.0), 3.0)],
    "logaddexp": [((NAN, 1.0), NAN), ((INF, 1.0), INF), ((-INF, -INF), -INF)],
    "maximum": [((NAN, 1.0), NAN), ((1.0, NAN), NAN), ((-INF, 1.0), 1.0)],
    "minimum": [((NAN, 1.0), NAN), ((1.0, NAN), NAN), ((-INF, 1.0), -INF)],
    "multiply": [((INF, 0.0), NAN), ((INF, -2.0), -INF), ((-0.0, 1.0), -0.0)],
    "nextafter": [((NAN, 1.0), NAN), ((0.0, -0.0), -0.0), ((-0.0, 0.0), 0.0)],
    "pow": [
        ((2.0, NAN), NAN),
        ((NAN, 0.0), 1.0),
        ((NAN, 1.0), NAN),
        ((1.0, NAN), 1.0),
        ((2.0, INF), INF),
        ((2.0, -INF), 0.0),
        ((1.0, INF), 1.0),
        ((-1.0, -INF), 1.0),
        ((0.5, INF), 0.0),
        ((0.5, -INF), INF),
        ((INF, 2.0), INF),
        ((INF, -2.0), 0.0),
        ((-INF, 3.0), -INF),
        ((-INF, 2.0), INF),
        ((-INF, -3.0), -0.0),
        ((0.0, 2.0), 0.0),
        ((0.0, -2.0), INF),
        ((-0.0, 3.0), -0.0),
        ((-0.0, -3.0), -INF),
        ((-2.0, 0.5), NAN),
    ],
    "remainder": [
        ((NAN, 1.0), NAN),
        ((INF, 1.0), NAN),
        ((1.0, 0.0), NAN),
        ((0.0, 1.0), 0.0),
        ((-0.0, 1.0), 0.0),
        ((0.0, -1.0), -0.0),
        ((1.0, INF), 1.0),
        ((-1.0, INF), INF),
        ((-1.0, -INF), -1.0),
        ((2.0, 2.0), 0.0),
        ((2.0, -2.0), -0.0),
    ],
    "subtract": [((INF, INF), NAN), ((0.0, 0.0), 0.0), ((-0.0, 0.0), -0.0)],
}


def same(found, expected, dtype):
    """Values with signs of zeros; pi and its parts are as near as the dtype has them."""
    for one, wanted in zip(found.tolist(), expected):
        wanted = float(np.dtype(dtype).type(wanted))
        if math.isnan(wanted):
            assert math.isnan(one), (one, wanted)
        else:
            assert math.isclose(one, wanted, rel_tol=4 * float(np.finfo(dtype).eps)), (one, wanted)
            assert math.copysign(1, one) == math.copysign(1, wanted), (one, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ONE)
def test_one_operand(device, name, dtype):
    arguments, expected = zip(*ONE[name])
    same(getattr(xp, name)(bp.asarray(arguments, dtype=dtype, device=device)), expected, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TESTS)
def test_tests(device, name, dtype):
    arguments, expected = zip(*TESTS[name])
    found = getattr(xp, name)(bp.asarray(arguments, dtype=dtype, device=device))
    assert found.dtype is bp.bool and found.tolist() == list(expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TWO)
def test_two_operands(device, name, dtype):
    arguments, expected = zip(*TWO[name])
    operands = [bp.asarray(column, dtype=dtype, device=device) for column in zip(*arguments)]
    same(getattr(xp, name)(*operands), expected, dtype)


def test_integers_do_not_trap(device):
    for dtype in ("int8", "int64", "uint32"):
        x = bp.asarray([1, 7], dtype=dtype, device=device)
        zero = bp.zeros_like(x)
        assert xp.floor_divide(x, zero).tolist() == [0, 0]
        assert xp.remainder(x, zero).tolist() == [0, 0]
    smallest = bp.asarray([-128], dtype="int8", device=device)
    assert xp.floor_divide(smallest, -1).tolist() == [-128]
    assert xp.abs(smallest).tolist() == [-128]
