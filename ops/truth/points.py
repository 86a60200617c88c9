# SPDX-License-Identifier: Apache-2.0
"""Where operators are compared: every binade, subnormals, both zeros, infinities, NaN, the ends of
the integers, ties, and what lies beside all of these. The same points in every run."""

import math

import numpy

from formats import FORMATS, bits_of, storage

_STEP = 0x9E3779B97F4A7C15  # the golden ratio's fraction: an even sequence of bits
# Where functions turn: limits of exp and of its halves, of 1 + erf, of series, multiples of pi / 2.
_TURNS = [0.044715, 0.1, 0.25, 0.3, 1 / 3, 0.49, 0.7, 0.9, 0.99, 1.01, 1.1, 1.25, 1.4, 1.75, 2.2,
          2.9, 3.3, 4.4, 5.2, 6.1, 7.3, 8.6, 9.7, 11.2, 13.1, 16.6, 17.5, 21.9, 22.1, 27.3, 37.1,
          44.4, 65.9, 80.1, 87.3, 88.8, 103.9, 110.2, 350.7, 709.1, 709.9, 745.2, 1e3, 1e5, 1e9,
          math.pi / 2, math.pi, 3 * math.pi / 2, 2 * math.pi, 100 * math.pi]
_WHOLE = [1, 2, 3, 4, 5, 6, 7, 8, 10, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 255, 256]


def mixed(index):
    """64 bits that look random."""
    word = (index + 1) * _STEP & (2**64 - 1)
    word ^= word >> 31
    word = word * 0xBF58476D1CE4E5B9 & (2**64 - 1)
    return word ^ word >> 27


def specials(dtype):
    """-inf, -0, 0, inf, NaN."""
    form = FORMATS[dtype]
    return [form.sign | form.infinity, form.sign, 0, form.infinity,
            form.infinity | 1 << (form.digits - 2)]


def _binades(form):
    """One number of each binade, the signs in turn, and its first one."""
    found = []
    for field in range(1, form.infinity >> (form.digits - 1)):
        first = field << (form.digits - 1)
        fraction = mixed(field) & ((1 << (form.digits - 1)) - 1)
        found.append(first | fraction | (form.sign if field & 1 else 0))
        if field % 8 == 0:
            found.append(first | (0 if field & 8 else form.sign))
    return found


def _subnormals(form):
    return [(1 << place) | (mixed(place) & ((1 << place) - 1)) | (form.sign if place & 1 else 0)
            for place in range(form.digits - 1)]


def float_points(dtype):
    """Bits, without repetitions."""
    form = FORMATS[dtype]
    found = specials(dtype) + _binades(form) + _subnormals(form)
    near = _TURNS + _WHOLE + [n + 0.5 for n in range(9)]
    for place in (form.digits - 2, form.digits - 1, form.digits):  # where fractions end
        near += [2.0**place + n * 0.5 for n in (-3, -1, 1, 3)]
    for value in near:
        bits = bits_of(dtype, float(value))
        for sign in (0, form.sign):
            found += [bits | sign, bits - 1 | sign, bits + 1 | sign]
    ends = [1, 2, form.infinity - 1, form.infinity - 2]
    smallest = 1 << (form.digits - 1)
    ends += [smallest - 1, smallest, smallest + 1]
    found += ends + [bits | form.sign for bits in ends]
    finite = [bits for bits in dict.fromkeys(found)
              if (bits & (form.sign - 1)) <= form.infinity or bits in specials(dtype)]
    return numpy.array(finite, dtype=storage(dtype))


def integer_points(dtype):
    info = numpy.iinfo(storage(dtype))
    found = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2, info.max // 2 + 1, 0]
    for value in _WHOLE:
        found += [value, -value]
    for place in range(info.bits):
        found += [1 << place, (1 << place) - 1, -(1 << place)]
        found.append(mixed(place) >> (64 - place) if place else 1)
    kept = [v for v in dict.fromkeys(found) if info.min <= v <= info.max]
    return numpy.array(kept, dtype=storage(dtype))


def points(dtype):
    if dtype in FORMATS:
        return float_points(dtype)
    if dtype == "bool":
        return numpy.array([0, 1], dtype=numpy.uint8)
    return integer_points(dtype)


def ties(source, target):
    """Of a float and one of fewer digits: what lies in the middle between two numbers of that, and
    beside it. First above its largest number and below its least, then in many binades."""
    wide, narrow = FORMATS[source], FORMATS[target]
    drop = wide.digits - narrow.digits
    low, high = max(wide.least, narrow.least), min(wide.most, narrow.most)

    def middle(exponent, kept):
        kept &= (1 << (narrow.digits - 1)) - 1
        field = (exponent - wide.least + 1) << (wide.digits - 1)
        return field | kept << drop | 1 << (drop - 1)

    found = [middle(high, -1)]
    for halves in range(1, 12):  # of the least number
        found.append(bits_of(source, math.ldexp(halves, narrow.least - narrow.digits)))
    for step in range(64):
        exponent = low + (high - low) * step // 63
        # A digit of 0 is the last that stays, or of 1: of two numbers the even one is below, above.
        found += [middle(exponent, kept) for kept in (mixed(step) & ~1, mixed(step) | 1, -1)]
    beside = [bits + step for bits in found if bits for step in (-1, 0, 1)]
    both = [bits | sign for bits in beside for sign in (0, wide.sign)]
    return numpy.array(list(dict.fromkeys(both)), dtype=storage(source))


def rounds(source, target):
    """Whether a cast is between floats and loses digits."""
    return source in FORMATS and target in FORMATS and (
        FORMATS[source].digits > FORMATS[target].digits)


def cast_points(source, target):
    """Where a cast is tried: everywhere, and where it rounds."""
    if not rounds(source, target):
        return points(source)
    return numpy.unique(numpy.concatenate([points(source), ties(source, target)]))


def every_half(dtype):
    """All bits of a type of 16."""
    return numpy.arange(1 << FORMATS[dtype].bits, dtype=storage(dtype))


def key_points(dtype):
    """The few that go with each other in pairs."""
    if dtype == "bool":
        return points(dtype)
    if dtype not in FORMATS:
        info = numpy.iinfo(storage(dtype))
        wanted = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 8, 9, 10, 31, 32,
                  63, 64, 100, -1, -2, -3, -7, -8, -9]
        kept = [v for v in dict.fromkeys(wanted) if info.min <= v <= info.max]
        return numpy.array(kept, dtype=storage(dtype))
    form = FORMATS[dtype]
    found = list(specials(dtype))
    for value in (0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.5, 7.0):
        bits = bits_of(dtype, value)
        found += [bits, bits | form.sign]
    for bits in (1, (1 << (form.digits - 1)) - 1, 1 << (form.digits - 1), form.infinity - 1):
        found += [bits, bits | form.sign]
    return numpy.array(found, dtype=storage(dtype))


def tuples(dtypes):
    """One array for each input: all the key points with each other, then every point of the first
    dtype beside others of the rest, near it and anywhere."""
    keys = [key_points(dtype) for dtype in dtypes]
    if len(dtypes) == 1:
        return [points(dtypes[0])]
    if len(dtypes) == 3:  # the cube would be large
        keys = [key[::2] if len(key) > 2 else key for key in keys]
    grids = numpy.meshgrid(*keys, indexing="ij")
    columns = [grid.ravel() for grid in grids]
    every = [points(dtype) for dtype in dtypes]
    count = max(len(each) for each in every)
    index = numpy.arange(count)
    for shift in (0, 1, 5, 37):
        rows = [each[(index + position * (shift * 7 + 3)) % len(each)] if position else
                each[index % len(each)] for position, each in enumerate(every)]
        columns = [numpy.concatenate(pair) for pair in zip(columns, rows)]
    return columns


# How many elements are reduced, and rows of each.
REDUCED = (0, 1, 2, 5, 9)


def _rows_of(dtype, length):
    """Whole numbers, numbers of all sizes, and each special value among plain ones."""
    every = points(dtype)
    keys = key_points(dtype)
    small = numpy.array([v for v in keys if is_small(dtype, int(v))], dtype=storage(dtype))
    rows = []
    for index in range(24):
        source = small if index < 16 else every
        rows.append([source[mixed(index * 64 + k) % len(source)] for k in range(length)])
    for index, key in enumerate(keys):
        row = [small[mixed(index * 8 + k) % len(small)] for k in range(length)]
        if length:
            row[index % length] = key
        rows.append(row)
    for key in keys[:8]:
        rows.append([key] * length)
    return rows


def is_small(dtype, value):
    """Whether sums and products of a few of them are far from the dtype's ends."""
    if dtype in FORMATS:
        form = FORMATS[dtype]
        magnitude = value & (form.sign - 1)
        return bits_of(dtype, 0.25) < magnitude < bits_of(dtype, 8.0)
    return abs(value) < 12


def matrix(dtype, length):
    """Rows to be reduced, as one array [rows, length]."""
    rows = _rows_of(dtype, length)
    return numpy.array(rows, dtype=storage(dtype)).reshape(len(rows), length)
