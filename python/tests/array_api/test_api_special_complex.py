# SPDX-License-Identifier: Apache-2.0
"""Special values of functions of complex numbers a + b j: all rows of the standard's tables, by
hand, and what it says of conj(x) and -x."""

import math

import numpy as np
import pytest

import backplane as bp
import backplane.array_api as xp
import support

INF, NAN, PI = math.inf, math.nan, math.pi
ZERO = (0.0, -0.0)
POSITIVE = (0.5, 2.5)
NONZERO = (*POSITIVE, -0.5, -2.5)
FINITE = (*ZERO, *NONZERO)
ANY = (*FINITE, INF, -INF, NAN)


class Loose(float):
    """A value whose sign is not specified."""


ANY_ZERO, ANY_INF = Loose(0.0), Loose(INF)


def on_circle(size, less=0.0):
    """size * cis(b) - less."""
    return lambda a, b: (size * math.cos(b) - less, size * math.sin(b))


NAN_NAN = (NAN, NAN)
LOG = [
    (-0.0, 0.0, (-INF, PI)),
    (0.0, 0.0, (-INF, 0.0)),
    (FINITE, INF, (INF, PI / 2)),
    (FINITE, NAN, NAN_NAN),
    (-INF, POSITIVE, (INF, PI)),
    (INF, POSITIVE, (INF, 0.0)),
    (-INF, INF, (INF, 3 * PI / 4)),
    (INF, INF, (INF, PI / 4)),
    ((INF, -INF), NAN, (INF, NAN)),
    (NAN, FINITE, NAN_NAN),
    (NAN, INF, (INF, NAN)),
    (NAN, NAN, NAN_NAN),
]
# function: rows of a, b (one of them, or several) and the result (or a function of a and b).
TABLES = {
    "acos": [
        (ZERO, 0.0, (PI / 2, -0.0)),
        (ZERO, NAN, (PI / 2, NAN)),
        (FINITE, INF, (PI / 2, -INF)),
        (NONZERO, NAN, NAN_NAN),
        (-INF, POSITIVE, (PI, -INF)),
        (INF, POSITIVE, (0.0, -INF)),
        (-INF, INF, (3 * PI / 4, -INF)),
        (INF, INF, (PI / 4, -INF)),
        ((INF, -INF), NAN, (NAN, ANY_INF)),
        (NAN, FINITE, NAN_NAN),
        (NAN, INF, (NAN, -INF)),
        (NAN, NAN, NAN_NAN),
    ],
    "acosh": [
        (ZERO, 0.0, (0.0, PI / 2)),
        (FINITE, INF, (INF, PI / 2)),
        (NONZERO, NAN, NAN_NAN),
        (0.0, NAN, (NAN, Loose(PI / 2))),
        (-INF, POSITIVE, (INF, PI)),
        (INF, POSITIVE, (INF, 0.0)),
        (-INF, INF, (INF, 3 * PI / 4)),
        (INF, INF, (INF, PI / 4)),
        ((INF, -INF), NAN, (INF, NAN)),
        (NAN, FINITE, NAN_NAN),
        (NAN, INF, (INF, NAN)),
        (NAN, NAN, NAN_NAN),
    ],
    "asinh": [
        (0.0, 0.0, (0.0, 0.0)),
        (POSITIVE, INF, (INF, PI / 2)),
        (FINITE, NAN, NAN_NAN),
        (INF, POSITIVE, (INF, 0.0)),
        (INF, INF, (INF, PI / 4)),
        (INF, NAN, (INF, NAN)),
        (NAN, 0.0, (NAN, 0.0)),
        (NAN, NONZERO, NAN_NAN),
        (NAN, INF, (ANY_INF, NAN)),
        (NAN, NAN, NAN_NAN),
    ],
    "atanh": [
        (0.0, 0.0, (0.0, 0.0)),
        (0.0, NAN, (0.0, NAN)),
        (1.0, 0.0, (INF, 0.0)),
        (POSITIVE, INF, (0.0, PI / 2)),
        (NONZERO, NAN, NAN_NAN),
        (INF, POSITIVE, (0.0, PI / 2)),
        (INF, INF, (0.0, PI / 2)),
        (INF, NAN, (0.0, NAN)),
        (NAN, FINITE, NAN_NAN),
        (NAN, INF, (ANY_ZERO, PI / 2)),
        (NAN, NAN, NAN_NAN),
    ],
    "cosh": [
        (0.0, 0.0, (1.0, 0.0)),
        (0.0, INF, (NAN, ANY_ZERO)),
        (0.0, NAN, (NAN, ANY_ZERO)),
        (NONZERO, INF, NAN_NAN),
        (NONZERO, NAN, NAN_NAN),
        (INF, 0.0, (INF, 0.0)),
        (INF, NONZERO, on_circle(INF)),
        (INF, INF, (ANY_INF, NAN)),
        (INF, NAN, (INF, NAN)),
        (NAN, ZERO, (NAN, ANY_ZERO)),
        (NAN, NONZERO, NAN_NAN),
        (NAN, NAN, NAN_NAN),
    ],
    "exp": [
        (ZERO, 0.0, (1.0, 0.0)),
        (FINITE, INF, NAN_NAN),
        (FINITE, NAN, NAN_NAN),
        (INF, 0.0, (INF, 0.0)),
        (-INF, FINITE, on_circle(0.0)),
        (INF, NONZERO, on_circle(INF)),
        (-INF, INF, (ANY_ZERO, ANY_ZERO)),
        (INF, INF, (ANY_INF, NAN)),
        (-INF, NAN, (ANY_ZERO, ANY_ZERO)),
        (INF, NAN, (ANY_INF, NAN)),
        (NAN, 0.0, (NAN, 0.0)),
        (NAN, (*NONZERO, INF, -INF), NAN_NAN),
        (NAN, NAN, NAN_NAN),
    ],
    "expm1": [
        (ZERO, 0.0, (0.0, 0.0)),
        (FINITE, INF, NAN_NAN),
        (FINITE, NAN, NAN_NAN),
        (INF, 0.0, (INF, 0.0)),
        (-INF, FINITE, on_circle(0.0, 1.0)),
        (INF, NONZERO, on_circle(INF, 1.0)),
        (-INF, INF, (-1.0, ANY_ZERO)),
        (INF, INF, (ANY_INF, NAN)),
        (-INF, NAN, (-1.0, ANY_ZERO)),
        (INF, NAN, (ANY_INF, NAN)),
        (NAN, 0.0, (NAN, 0.0)),
        (NAN, (*NONZERO, INF, -INF), NAN_NAN),
        (NAN, NAN, NAN_NAN),
    ],
    "log": LOG,
    "log1p": [(-1.0, 0.0, (-INF, 0.0)), *LOG[2:]],
    "log2": [(a, b, (u, v / math.log(2))) for a, b, (u, v) in LOG],
    "log10": [(a, b, (u, v / math.log(10))) for a, b, (u, v) in LOG],
    "negative": [(ANY, ANY, lambda a, b: (-a, -b))],
    "conj": [(ANY, ANY, lambda a, b: (a, -b))],
    "sign": [(ZERO, ZERO, (0.0, 0.0)), (NAN, ANY, NAN_NAN), (ANY, NAN, NAN_NAN)],
    "sinh": [
        (0.0, 0.0, (0.0, 0.0)),
        (0.0, INF, (ANY_ZERO, NAN)),
        (0.0, NAN, (ANY_ZERO, NAN)),
        (POSITIVE, INF, NAN_NAN),
        (POSITIVE, NAN, NAN_NAN),
        (INF, 0.0, (INF, 0.0)),
        (INF, POSITIVE, on_circle(INF)),
        (INF, INF, (ANY_INF, NAN)),
        (INF, NAN, (ANY_INF, NAN)),
        (NAN, 0.0, (NAN, 0.0)),
        (NAN, NONZERO, NAN_NAN),
        (NAN, NAN, NAN_NAN),
    ],
    "sqrt": [
        (ZERO, 0.0, (0.0, 0.0)),
        (ANY, INF, (INF, INF)),
        (FINITE, NAN, NAN_NAN),
        (-INF, POSITIVE, (0.0, INF)),
        (INF, POSITIVE, (INF, 0.0)),
        (-INF, NAN, (NAN, ANY_INF)),
        (INF, NAN, (INF, NAN)),
        (NAN, FINITE, NAN_NAN),  # "any value" of the text is finite: the second row has inf
        (NAN, NAN, NAN_NAN),
    ],
    "tanh": [
        (0.0, 0.0, (0.0, 0.0)),
        (NONZERO, INF, NAN_NAN),
        (0.0, INF, (0.0, NAN)),
        (NONZERO, NAN, NAN_NAN),
        (0.0, NAN, (0.0, NAN)),
        (INF, POSITIVE, (1.0, 0.0)),
        (INF, INF, (1.0, ANY_ZERO)),
        (INF, NAN, (1.0, ANY_ZERO)),
        (NAN, 0.0, (NAN, 0.0)),
        (NAN, (*NONZERO, INF, -INF), NAN_NAN),
        (NAN, NAN, NAN_NAN),
    ],
}


def rows_of(table):
    """Each a + b j by itself, and its result."""
    for many, more, result in table:
        for a in many if isinstance(many, tuple) else (many,):
            for b in more if isinstance(more, tuple) else (more,):
                yield (a, b), result(a, b) if callable(result) else result


def turned(table):
    """-j f(j x) of the rows of f: x is (b, -a), and its result (v, -u)."""
    for (a, b), (u, v) in rows_of(table):
        yield (b, -a), (v, Loose(u) if isinstance(u, Loose) else -u)


ROWS = {name: list(rows_of(table)) for name, table in TABLES.items()}
ROWS["asin"], ROWS["atan"] = list(turned(TABLES["asinh"])), list(turned(TABLES["atanh"]))
ROWS["sin"], ROWS["tan"] = list(turned(TABLES["sinh"])), list(turned(TABLES["tanh"]))
ROWS["cos"] = [((b, -a), result) for (a, b), result in ROWS["cosh"]]
# conj(f(x)) is f(conj(x)) of all of them; f(-x) is -f(x) or f(x) of some.
ODD, EVEN = {"asinh", "asin", "atanh", "atan", "sinh", "sin", "tanh", "tan"}, {"cosh", "cos"}


def opposite(number):
    return number if isinstance(number, Loose) else -number


def with_mirrors(name):
    for (a, b), (u, v) in ROWS[name]:
        yield (a, b), (u, v)
        if name not in ("negative", "conj", "sign"):
            yield (a, -b), (u, opposite(v))
        if name in ODD:
            yield (-a, -b), (opposite(u), opposite(v))
        if name in EVEN:
            yield (-a, -b), (u, v)


def agree(found, wanted, eps):
    if math.isnan(wanted):
        return math.isnan(found)
    if isinstance(wanted, Loose):
        return math.isclose(abs(found), wanted, rel_tol=4 * eps)
    same_sign = math.copysign(1, found) == math.copysign(1, wanted)
    return same_sign and math.isclose(found, wanted, rel_tol=4 * eps)


def tensor(device, dtype, numbers):
    """complex(a, b) of Python keeps a NaN and a -0 in either part."""
    return bp.asarray([complex(a, b) for a, b in numbers], dtype=dtype, device=device)


@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
@pytest.mark.parametrize("name", sorted(ROWS))
def test_one_operand(device, name, dtype):
    rows = list(with_mirrors(name))
    found = getattr(xp, name)(tensor(device, dtype, [row[0] for row in rows])).tolist()
    eps = float(np.finfo(dtype).eps)
    wrong = [
        (argument, wanted, one)
        for one, (argument, wanted) in zip(found, rows)
        if not (agree(one.real, wanted[0], eps) and agree(one.imag, wanted[1], eps))
    ]
    assert wrong == []


@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
def test_abs_and_tests(device, dtype):
    numbers = [(a, b) for a in ANY for b in ANY]
    x, eps = tensor(device, dtype, numbers), float(np.finfo(dtype).eps)
    tests = [function(x).tolist() for function in (xp.isnan, xp.isinf, xp.isfinite)]
    for (a, b), size, *found in zip(numbers, xp.abs(x).tolist(), *tests):
        parts = (a, b)
        wanted = INF if any(map(math.isinf, parts)) else math.hypot(a, b)
        assert agree(size, wanted, eps), (a, b, size)
        assert found == [
            any(map(math.isnan, parts)), any(map(math.isinf, parts)),
            all(map(math.isfinite, parts)),
        ]  # fmt: skip


HALVES = (0.5, 1.5, -0.5, -2.5, 0.0, -0.0, INF, -INF, NAN)


@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
def test_parts_by_themselves(device, dtype):
    """round, add and subtract are those of the parts; so is ==, of both."""
    part = str(np.finfo(dtype).dtype)
    numbers = [(a, b) for a in HALVES for b in HALVES]
    x = tensor(device, dtype, numbers)
    parts = [bp.asarray(list(column), dtype=part, device=device) for column in zip(*numbers)]
    rounded = xp.round(x)
    for found, of_part in ((xp.real(rounded), parts[0]), (xp.imag(rounded), parts[1])):
        same(found, xp.round(of_part))
    y = xp.roll(x, 7)
    others = [xp.roll(of_part, 7) for of_part in parts]
    for function in (xp.add, xp.subtract):
        sums = function(x, y)
        same(xp.real(sums), function(parts[0], others[0]))
        same(xp.imag(sums), function(parts[1], others[1]))
    pairs = list(zip(x.tolist(), y.tolist()))
    assert xp.equal(x, y).tolist() == [a == b for a, b in pairs]
    assert xp.not_equal(x, y).tolist() == [a != b for a, b in pairs]
    assert xp.equal(x, x).tolist() == [a == a for a, _ in pairs]
    minus = bp.asarray([complex(-0.0, 0.0)], dtype=dtype, device=device)
    other = bp.asarray([complex(-0.0, -0.0)], dtype=dtype, device=device)
    [total] = xp.add(minus, other).tolist()
    assert math.copysign(1, total.real) == -1 and math.copysign(1, total.imag) == 1


def same(found, wanted):
    """Values, with the signs of zeros."""
    for one, other in zip(found.tolist(), wanted.tolist(), strict=True):
        assert agree(one, other, 0.0), (one, other)


@pytest.mark.parametrize("dtype", support.COMPLEX_FLOATING)
def test_two_operands(device, dtype):
    """The standard says little of these: what is NaN stays so; to the power of 0 all is 1."""
    nan = tensor(device, dtype, [(NAN, NAN)])
    for function in (xp.multiply, xp.divide, xp.pow):
        [found] = function(nan, nan).tolist()
        assert math.isnan(found.real) and math.isnan(found.imag)
    for b in [(1.0, 0.0), (NAN, 1.0), (0.0, NAN)]:
        [found] = xp.square(tensor(device, dtype, [(NAN, b[1])])).tolist()
        assert math.isnan(found.real) and math.isnan(found.imag)
    ones = xp.pow(tensor(device, dtype, [(2.0, 1.0), (0.0, 0.0), (INF, 0.0)]), 0)
    assert ones.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_nextafter_of_small_floats(device, dtype):
    """Against the order of their bits, which NumPy's integers have."""
    codes = np.arange(2**16, dtype="uint16").view("int16")
    x = xp.astype(bp.ops.bit_cast(support.on(device, codes), dtype), xp.float64).numpy()
    order = np.where(codes < 0, -(codes.astype("int64") & 0x7FFF), codes)  # -0 and 0 are both 0
    start = bp.ops.bit_cast(support.on(device, codes), dtype)
    for towards in (INF, -INF, 0.0, 1.0):
        found = xp.nextafter(start, towards)
        assert str(found.dtype) == dtype
        found = bp.ops.bit_cast(found, xp.int16).numpy().astype("int64")
        found_order = np.where(found < 0, -(found & 0x7FFF), found)
        number = ~np.isnan(x)
        step = np.sign(towards - np.where(np.isinf(x), np.sign(x) * 1e300, x)[number])
        if math.isinf(towards):
            step = np.where(x[number] == towards, 0, np.sign(towards))
        assert np.array_equal(found_order[number], order[number] + step.astype("int64"))
        back = xp.astype(xp.nextafter(start, towards), xp.float64).numpy()
        assert np.isnan(back[~number]).all()
