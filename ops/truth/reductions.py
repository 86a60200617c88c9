# SPDX-License-Identifier: Apache-2.0
"""What the outside functions say of reductions over rows: exact sums and products in fractions,
roots and logarithms by mpmath at 60 digits, choices and special values by numpy."""

import fractions
import math

import mpmath
import numpy

from expected import between, exactly, rounded
from formats import FLOATS, FORMATS, exact_of, values_of

# Of one step of a sum, beside the size of what is added: f64 sums round at every step, in f64.
STEP = {"f64": fractions.Fraction(1, 2**52)}
LONG_STEP = fractions.Fraction(1, 2**60)


def _product(values):
    return math.prod(values, start=fractions.Fraction(1))


def _mean(total, count):
    return total / count if count else math.nan


def _root(total, _):
    return mpmath.sqrt(_mpf(total)) if total >= 0 else math.nan


def _logarithm(total, _):
    if total == 0:
        return -math.inf
    return mpmath.log(_mpf(total)) if total > 0 else math.nan


def _mpf(value):
    return mpmath.mpf(value.numerator) / value.denominator


# The exact number that rows are summed up to, and what becomes of it and of the count.
SUMS = {
    "reduce_sum": (sum, lambda total, _: total),
    "reduce_mean": (sum, _mean),
    "reduce_prod": (_product, lambda total, _: total),
    "reduce_l1": (lambda values: sum(map(abs, values)), lambda total, _: total),
    "reduce_l2": (lambda values: sum(v * v for v in values), _root),
    "reduce_sum_square": (lambda values: sum(v * v for v in values), lambda total, _: total),
    "reduce_log_sum": (sum, _logarithm),
    "reduce_log_sum_exp": (None, None),
}


def _special(function):
    """numpy's, of a row in which finite numbers only count by their signs."""
    return lambda row: float(function(numpy.where(numpy.isfinite(row), numpy.sign(row), row)))


SPECIAL = {
    "reduce_sum": _special(numpy.sum),
    "reduce_mean": _special(numpy.mean),
    "reduce_prod": _special(numpy.prod),
    "reduce_l1": _special(lambda row: numpy.sum(numpy.abs(row))),
    "reduce_l2": _special(numpy.linalg.norm),
    "reduce_sum_square": _special(lambda row: numpy.sum(row * row)),
    "reduce_log_sum": _special(lambda row: numpy.log(numpy.sum(row))),
    "reduce_log_sum_exp": _special(numpy.logaddexp.reduce),
}
LOGIC = {"reduce_any": numpy.logical_or, "reduce_all": numpy.logical_and}
CHOICES = {"reduce_max": numpy.maximum, "reduce_min": numpy.minimum}
WRAPPING = {
    "reduce_sum": lambda rows: numpy.add.reduce(rows, axis=1, dtype=rows.dtype),
    "reduce_prod": lambda rows: numpy.multiply.reduce(rows, axis=1, dtype=rows.dtype),
    "reduce_l1": lambda rows: numpy.add.reduce(numpy.abs(rows), axis=1, dtype=rows.dtype),
    "reduce_sum_square": lambda rows: numpy.add.reduce(rows * rows, axis=1, dtype=rows.dtype),
}


def is_known(op):
    return op in CHOICES or op in SUMS or op in LOGIC


def expect(op, dtype, rows):
    """Expected of each row, at bits [rows, elements]."""
    if op in CHOICES:
        return _expect_choice(op, dtype, rows)
    if op in LOGIC:
        return exactly(dtype, LOGIC[op].reduce(values_of(dtype, rows), axis=1))
    if dtype not in FLOATS and op in WRAPPING:
        with numpy.errstate(all="ignore"):
            return exactly(dtype, WRAPPING[op](rows))
    found = [_of_row(op, dtype, row) for row in rows]
    return between(dtype, *(list(each) for each in zip(*found)), zero_sign=False)


def _expect_choice(op, dtype, rows):
    values = values_of(dtype, rows)
    if dtype in FLOATS:
        start = -math.inf if op == "reduce_max" else math.inf
    else:
        info = numpy.iinfo(rows.dtype)
        start = info.min if op == "reduce_max" else info.max
    result = CHOICES[op].reduce(values, axis=1, initial=start)
    if dtype not in FLOATS:
        return exactly(dtype, result.astype(rows.dtype))
    return exactly(dtype, rounded(dtype, result), zero_sign=False)


def _of_row(op, dtype, row):
    """(exact, low, high); the first None where nothing is said."""
    if dtype in FLOATS:
        if op == "reduce_log_sum_exp":
            row = row[row != FORMATS[dtype].sign | FORMATS[dtype].infinity]  # e^-inf is 0
        if any(not _is_finite(dtype, int(bits)) for bits in row):
            with numpy.errstate(all="ignore"):
                value = SPECIAL[op](values_of(dtype, row))
            return value, value, value
        values = [_fraction(exact_of(dtype, int(bits))) for bits in row]
    else:
        values = [fractions.Fraction(int(value)) for value in row]
    if op == "reduce_log_sum_exp":
        return _log_sum_exp(dtype, values)
    return _of_values(op, dtype, values)


def _is_finite(dtype, bits):
    return bits & (FORMATS[dtype].sign - 1) < FORMATS[dtype].infinity


def _fraction(number):
    sign, mantissa, exponent, _ = number._mpf_
    whole = -int(mantissa) if sign else int(mantissa)
    return fractions.Fraction(whole) * fractions.Fraction(2) ** exponent


def _of_values(op, dtype, values):
    total_of, finish = SUMS[op]
    total = fractions.Fraction(total_of(values))
    size = fractions.Fraction(total_of([abs(v) for v in values]))
    step = LONG_STEP if dtype in FLOATS and dtype != "f64" else STEP["f64"]
    reach = (len(values) + 2) * step * size
    value = finish(total, len(values))
    nothing = None, 0, 0
    if isinstance(value, float):
        return (value, value, value) if reach < abs(total) or size == 0 else nothing
    if dtype not in ("f16", "bf16", "f32") and not _stays_inside(op, values):
        return nothing  # f64 overflows, or loses digits, on the way
    low, high = finish(total - reach, len(values)), finish(total + reach, len(values))
    if isinstance(low, float) or isinstance(high, float):
        return nothing  # so near to 0 that the sum may lie on its other side
    low, high = min(low, high), max(low, high)
    if finish(fractions.Fraction(2), 1) == 2:  # a sum itself; else one more step
        return value, low, high
    more = abs(_mpf(fractions.Fraction(value)) if not isinstance(value, mpmath.mpf) else value)
    more *= mpmath.ldexp(1, -51 if step == STEP["f64"] else -58)
    return value, _number(low) - more, _number(high) + more


def _number(value):
    return value if isinstance(value, mpmath.mpf) else _mpf(fractions.Fraction(value))


def _stays_inside(op, values):
    """Whether f64 holds every step with all of its digits, in whatever order."""
    sizes = [abs(v) for v in values if v]
    if op == "reduce_prod":
        up = math.prod((v for v in sizes if v > 1), start=fractions.Fraction(1))
        down = math.prod((v for v in sizes if v < 1), start=fractions.Fraction(1))
        return up < 2**1000 and down > fractions.Fraction(1, 2**1000)
    if op in ("reduce_l2", "reduce_sum_square"):
        sizes = [v * v for v in sizes]
    return sum(sizes) < 2**1000 and all(v > fractions.Fraction(1, 2**1000) for v in sizes)


def _log_sum_exp(dtype, values):
    """Computed in f64 whatever the dtype."""
    if not values:
        return -math.inf, -math.inf, -math.inf
    top = max(values)
    with mpmath.workdps(60):
        total = mpmath.fsum(mpmath.exp(max(_mpf(v - top), -20000)) for v in values)
        value = _mpf(top) + mpmath.log(total)
        reach = (abs(_mpf(top)) + abs(value) + len(values)) * mpmath.ldexp(1, -51)
    return value, value - reach, value + reach
