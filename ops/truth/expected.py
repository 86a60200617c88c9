# SPDX-License-Identifier: Apache-2.0
"""What an outside function says of many points, and whether other results agree with it."""

import dataclasses

import mpmath
import numpy

from formats import FORMATS, bits_of, storage

# Beside the exact result, in units of it: what is left of long double after a dozen steps.
SLACK = mpmath.ldexp(1, -58)


@dataclasses.dataclass
class Expected:
    """Of each point the bits that are right, and the lowest and the highest result that is. They
    differ where the exact one lies so near to the middle between two floats that long double
    cannot tell."""
    dtype: str
    bits: numpy.ndarray
    low: numpy.ndarray  # floats: in order(); integers: themselves
    high: numpy.ndarray
    asked: numpy.ndarray  # false: nothing is said of this point
    zero_sign: bool  # whether the sign of a zero result is told

    def agrees(self, found):
        """Of each point, whether these bits are right."""
        if self.dtype not in FORMATS:
            return ~self.asked | ((self.low <= found) & (found <= self.high))
        places, odd = order(self.dtype, found), nans(self.dtype, found)
        good = ~odd & (self.low <= places) & (places <= self.high)
        if self.zero_sign:
            is_zero = (self.low == 0) & (self.high == 0)
            good &= ~is_zero | (found == self.bits)
        return ~self.asked | numpy.where(nans(self.dtype, self.bits), odd, good)


def nans(dtype, bits):
    form = FORMATS[dtype]
    return (bits & numpy.array(form.sign - 1, bits.dtype)) > form.infinity


def order(dtype, bits):
    """Whole numbers in the order of the floats; both zeros are 0."""
    form = FORMATS[dtype]
    magnitude = (bits & numpy.array(form.sign - 1, bits.dtype)).astype(numpy.int64)
    return numpy.where(bits & numpy.array(form.sign, bits.dtype), -magnitude, magnitude)


def rounded(dtype, values):
    """Bits of the nearest numbers to an array of float64."""
    if dtype == "f64":
        return values.astype(numpy.float64).view(numpy.uint64)
    if dtype == "f32":
        return values.astype(numpy.float32).view(numpy.uint32)
    if dtype == "f16":
        return values.astype(numpy.float16).view(numpy.uint16)
    return numpy.array([bits_of(dtype, float(v)) for v in values.ravel()],
                       dtype=storage(dtype)).reshape(values.shape)


def exactly(dtype, bits, zero_sign=True):
    """One result is right."""
    bits = numpy.asarray(bits, dtype=storage(dtype))
    places = order(dtype, bits) if dtype in FORMATS else bits
    return Expected(dtype, bits, places, places, numpy.ones(bits.shape, bool), zero_sign)


def between(dtype, values, lows, highs, zero_sign=True):
    """Results between two exact numbers; None in `values`: nothing is said."""
    make = lambda numbers: numpy.array(  # noqa: E731
        [0 if value is None else _bits(dtype, number) for value, number in zip(values, numbers)],
        dtype=storage(dtype))
    bits, low, high = make(values), make(lows), make(highs)
    asked = numpy.array([value is not None for value in values], bool)
    if dtype in FORMATS:
        low, high = order(dtype, low), order(dtype, high)
    return Expected(dtype, bits, low, high, asked, zero_sign)


def _bits(dtype, number):
    return bits_of(dtype, number) if dtype in FORMATS else saturated(dtype, number)


def saturated(dtype, number):
    """A number truncated to an integer type; NaN gives 0, and what is too large the end."""
    info = numpy.iinfo(storage(dtype))
    if number != number:
        return 0
    if number in (float("inf"), float("-inf")):
        return info.max if number > 0 else info.min
    return max(info.min, min(info.max, int(number)))


def around(exact, size):
    """The lowest and the highest number that long double may have in place of an exact one that
    was made from numbers of that size."""
    if isinstance(exact, float):
        return exact, exact
    reach = max(abs(exact), size) * SLACK
    return exact - reach, exact + reach
