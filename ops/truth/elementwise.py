# SPDX-License-Identifier: Apache-2.0
"""What the outside functions say of elementwise operators, at all their points."""

import math

import mpmath
import numpy

import functions
import points
from expected import around, between, exactly, rounded
from formats import FLOATS, FORMATS, exact_of, is_nan, values_of


def is_known(op):
    return any(op in table for table in (functions.ARRAYS, functions.OWN_TYPE, functions.DIGITS,
                                         functions.PAIRS))


def dtypes_of(row, dtype):
    return ["bool" if is_bool else dtype for is_bool in row["bool_inputs"]]


def settings_of(row):
    """Attributes to try: the defaults, and others."""
    if not row["parameters"]:
        return [{}]
    defaults = {p["name"]: int(p["default"]) if p["is_bool"] else p["default"]
                for p in row["parameters"]}
    return [defaults, *functions.SETTINGS[row["op"]]]


def as_computed(dtype, settings):
    """Attributes as an operator has them: halves and f32 are computed in f32, and integers
    truncate them."""
    if dtype == "f64":
        return settings
    if dtype in FLOATS:
        return {name: float(numpy.float32(value)) for name, value in settings.items()}
    return {name: int(value) for name, value in settings.items()}


def expect(row, dtype, inputs, settings):
    """Expected, at inputs given as bits."""
    op = row["op"]
    settings = as_computed(dtype, settings)
    out = "bool" if row["gives_bool"] else dtype
    if op in functions.OWN_TYPE:
        own = [bits.view(f"f{bits.itemsize}") for bits in inputs]
        with numpy.errstate(all="ignore"):
            return exactly(out, functions.OWN_TYPE[op](*own).view(inputs[0].dtype))
    of_pairs = op in functions.PAIRS and dtype in FLOATS
    if op in functions.ARRAYS and not of_pairs:
        values = [values_of(kind, bits) for kind, bits in zip(dtypes_of(row, dtype), inputs)]
        with numpy.errstate(all="ignore"):
            result = functions.ARRAYS[op](*values, **settings)
            bits = rounded(out, result) if out in FORMATS else result
        return exactly(out, bits, not row["either_zero"])
    if of_pairs:
        exact = [_of_pair(op, dtype, int(a), int(b)) for a, b in zip(*inputs)]
    else:
        exact = _unary(op, dtype, inputs[0], settings)
    sizes = [0] * len(exact)
    if row["near_input"]:
        sizes = [0 if isinstance(y, float) else _nearest_to_0(dtype, words)
                 for *words, y in zip(*inputs, exact)]
    ends = [around(value, size) for value, size in zip(exact, sizes)]
    return between(dtype, exact, [low for low, _ in ends], [high for _, high in ends],
                   not row["either_zero"])


def _unary(op, dtype, bits, settings):
    function, special = functions.DIGITS[op]
    special = special(**settings) if callable(special) else special
    table = dict(zip(points.specials(dtype), special))
    numbers = {name: mpmath.mpf(value) for name, value in settings.items()}
    exact = []
    for word in bits.tolist():
        value = math.nan if is_nan(dtype, word) else table.get(word)
        exact.append(function(exact_of(dtype, word), **numbers) if value is None else value)
    return exact


def _nearest_to_0(dtype, words):
    """Of an infinity, whose result is infinite or the other number, nothing is said."""
    infinite = FORMATS[dtype].infinity
    return min(abs(exact_of(dtype, int(word))) for word in words
               if int(word) & (FORMATS[dtype].sign - 1) < infinite)


def _of_pair(op, dtype, a, b):
    function, of_special = functions.PAIRS[op]
    special = points.specials(dtype)
    if op in functions.OF_ZERO:
        special = [word for word in special if word & (FORMATS[dtype].sign - 1)]
    if a in special or b in special:
        # As arrays: numpy's short cut for one exponent of 0.5 is a square root's.
        first, second = (values_of(dtype, numpy.array([word], points.storage(dtype)))
                         for word in (a, b))
        with numpy.errstate(all="ignore"):
            return _told(float(of_special(first, second)[0]))
    return function(exact_of(dtype, a), exact_of(dtype, b))


def _told(value):
    """What the standard's table says; x^1 alone is another number."""
    return value if not math.isfinite(value) or value in (0, 1) else mpmath.mpf(value)
