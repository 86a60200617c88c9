# SPDX-License-Identifier: Apache-2.0
"""What cast makes of every dtype's points, by the rules of the array's standard types: in exact
whole numbers and fractions."""

import math

import numpy

from expected import exactly, saturated
from formats import FLOATS, bits_of, exact_of, storage, values_of


def expect(source, target, bits):
    return exactly(target, numpy.array([_cast(source, target, int(word)) for word in bits],
                                       dtype=storage(target)))


def _cast(source, target, word):
    if source not in FLOATS:
        if target in FLOATS:
            return bits_of(target, word) if word else 0
        return int(word != 0) if target == "bool" else _wrapped(target, word)
    value = float(values_of(source, numpy.array([word], storage(source)))[0])
    if target == "bool":
        return int(value != 0)
    if target not in FLOATS:
        return saturated(target, value)
    is_special = value == 0 or not math.isfinite(value)
    return bits_of(target, value if is_special else exact_of(source, word))


def _wrapped(target, word):
    """The low bits."""
    info = numpy.iinfo(storage(target))
    return (word - info.min) % (1 << info.bits) + info.min
