# SPDX-License-Identifier: Apache-2.0
"""Number formats: bits and values of every dtype, and the rounding of exact numbers to a float's
bits. Own code, in whole numbers: nothing here is the oracle's or a plugin's."""

import dataclasses
import fractions
import math

import mpmath
import numpy

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
DTYPES = FLOATS + INTEGERS + ("bool",)


@dataclasses.dataclass(frozen=True)
class Format:
    """A binary float of IEEE 754's form."""
    bits: int
    digits: int  # of the significand, with the leading 1
    storage: str  # numpy's unsigned integer

    @property
    def most(self):
        """The exponent of the largest binade."""
        return (1 << (self.bits - self.digits - 1)) - 1

    @property
    def least(self):
        """The exponent of the smallest normal number."""
        return 1 - self.most

    @property
    def infinity(self):
        return ((1 << (self.bits - self.digits)) - 1) << (self.digits - 1)

    @property
    def sign(self):
        return 1 << (self.bits - 1)


FORMATS = {
    "f16": Format(16, 11, "u2"), "bf16": Format(16, 8, "u2"),
    "f32": Format(32, 24, "u4"), "f64": Format(64, 53, "u8"),
}


_NATIVE = {"f16": numpy.float16, "f32": numpy.float32, "f64": numpy.float64}


def storage(dtype):
    """The numpy type that the bytes of a dtype are read as."""
    if dtype in FORMATS:
        return numpy.dtype(FORMATS[dtype].storage)
    return numpy.dtype("u1" if dtype == "bool" else f"{dtype[0]}{int(dtype[1:]) // 8}")


def values_of(dtype, bits):
    """An array of bits as numpy computes with it: floats as float64, exactly."""
    if dtype not in FORMATS:
        return bits.astype(bool) if dtype == "bool" else bits
    if dtype == "bf16":
        bits, dtype = bits.astype(numpy.uint32) << 16, "f32"
    with numpy.errstate(invalid="ignore"):  # a NaN that signals
        return bits.view(_NATIVE[dtype]).astype(numpy.float64)


def bits_of(dtype, value):
    """The nearest float's bits to an exact value: a fraction, an mpf, or a Python float."""
    form = FORMATS[dtype]
    if isinstance(value, float):
        if math.isnan(value):
            return form.infinity | 1 << (form.digits - 2)
        sign = form.sign if math.copysign(1, value) < 0 else 0
        if math.isinf(value):
            return sign | form.infinity
        if value == 0:
            return sign
    sign, top, bottom, exponent = _parts(value)
    return (form.sign if sign else 0) | _magnitude(form, top, bottom, exponent)


def _parts(value):
    """Sign, and top / bottom times a power of two."""
    if isinstance(value, mpmath.mpf):
        sign, mantissa, exponent, bits = value._mpf_
        if mantissa == 0 and exponent != 0:  # an infinity or NaN of mpmath
            raise ValueError(f"{value} where a number is expected")
        # Beyond every format, and too far away to be shifted.
        if exponent + bits > 4096:
            return sign, 1, 1, 4096
        if exponent + bits < -4096:
            return sign, 1 if mantissa else 0, 1, -4096
        return sign, int(mantissa), 1, exponent
    exact = fractions.Fraction(value)
    return exact < 0, abs(exact.numerator), exact.denominator, 0


def _magnitude(form, top, bottom, exponent):
    """Bits without the sign of top / bottom * 2^exponent: nearest, of two the even one."""
    if top == 0:
        return 0
    if exponent < 0:
        bottom <<= -exponent
    else:
        top <<= exponent
    binade = top.bit_length() - bottom.bit_length()
    if (top << max(-binade, 0)) < (bottom << max(binade, 0)):
        binade -= 1
    place = max(binade, form.least) - form.digits + 1  # of the last digit
    if place < 0:
        top <<= -place
    else:
        bottom <<= place
    whole, rest = divmod(top, bottom)
    if 2 * rest > bottom or (2 * rest == bottom and whole & 1):
        whole += 1
    if binade < form.least:
        return whole  # subnormal, or just the smallest normal number
    # Rounding up to the next power of two carries into the exponent by itself.
    bits = ((binade - form.least) << (form.digits - 1)) + whole
    return min(bits, form.infinity)


def is_nan(dtype, bits):
    form = FORMATS[dtype]
    return (bits & (form.sign - 1)) > form.infinity


def exact_of(dtype, bits):
    """A finite float as an mpf, which holds it exactly."""
    form = FORMATS[dtype]
    magnitude = bits & (form.sign - 1)
    field = magnitude >> (form.digits - 1)
    fraction = magnitude & ((1 << (form.digits - 1)) - 1)
    whole = fraction | ((1 << (form.digits - 1)) if field else 0)
    exponent = max(field, 1) - 1 + form.least - form.digits + 1
    return mpmath.ldexp(-whole if bits & form.sign else whole, exponent)
