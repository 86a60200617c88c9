# SPDX-License-Identifier: Apache-2.0
"""Golden points: of each elementwise operator and reduction, in each dtype, a few inputs and what
the outside functions say of them. The conformance kit reads them (golden/), so that a plugin is
compared with more than the oracle.

ops_golden.py TRUTH_RUNNER FOLDER [--write]: makes them, and compares with those in FOLDER, or puts
them there.
"""

import argparse
import pathlib
import sys

import numpy

import casts
import elementwise
import points
import reductions
from formats import DTYPES, FLOATS, FORMATS
from expected import nans
from ops_truth import LOG_SUM_EXP
from oracle import Oracle

COUNT = 24  # points of an operator and dtype; at most 64
FIRST = 9  # of these, special ones
CAST_COUNT = 12
TIES, TIES_FIRST = 24, 12  # beside them, of a cast that rounds; of these, at the ends
ROWS, LENGTH = 8, 5  # of a reduction
HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Made by ops/truth/ops_golden.py --write. Of each line: the operator, dtypes of inputs and of the
# output, the sizes of the inputs, the bits of each input, and those of the output; tabs between.
"""


def chosen(expected, count, first):
    """Places: some from the begin, where special values are, and of the rest those with results
    that are finite and not 0, as long as there are any."""
    total = len(expected.bits)
    plain = expected.bits != 0
    if expected.dtype in FLOATS:
        form = FORMATS[expected.dtype]
        magnitude = expected.bits & numpy.array(form.sign - 1, expected.bits.dtype)
        plain = (magnitude != 0) & (magnitude < form.infinity)
    rest = [place for place in numpy.flatnonzero(plain) if place >= first]
    rest = rest or list(range(min(first, total), total))
    wanted = min(count - first, len(rest))
    spread = [rest[index * len(rest) // wanted] for index in range(wanted)]
    return [*range(min(first, total)), *spread]


def line(op, dtypes, sizes, inputs, expected):
    """NaN has one spelling. The exact result, rounded once."""
    bits = expected.bits.copy()
    if expected.dtype in FLOATS:
        form = FORMATS[expected.dtype]
        bits[nans(expected.dtype, bits)] = form.infinity | 1 << (form.digits - 2)
    fields = [op, ",".join(dtypes) + ">" + expected.dtype, sizes]
    fields += [_hex(array) for array in [*inputs, bits]]
    return "\t".join(fields)


def _hex(array):
    width = array.dtype.itemsize * 8
    return " ".join(f"{int(word) & ((1 << width) - 1):x}" for word in array.ravel())


def elementwise_lines(rows):
    for row in rows:
        for dtype in row["dtypes"]:
            dtypes = elementwise.dtypes_of(row, dtype)
            inputs = points.tuples(dtypes)
            settings = elementwise.settings_of(row)[0]
            places = chosen(elementwise.expect(row, dtype, inputs, settings), COUNT, FIRST)
            inputs = [array[places] for array in inputs]
            expected = elementwise.expect(row, dtype, inputs, settings)
            yield line(row["op"], dtypes, str(len(places)), inputs, expected)
    for source in DTYPES:
        for target in DTYPES:
            bits = points.points(source)
            bits = bits[chosen(casts.expect(source, target, bits), CAST_COUNT, 5)]
            if points.rounds(source, target):
                ties = points.ties(source, target)
                step = (len(ties) - TIES_FIRST) // (TIES - TIES_FIRST)
                bits = numpy.concatenate([bits, ties[:TIES_FIRST], ties[TIES_FIRST::step]])
            expected = casts.expect(source, target, bits)
            yield line("cast", [source], str(len(bits)), [bits], expected)


def reduction_lines(rows):
    for row in [*rows, LOG_SUM_EXP]:
        for dtype in row["dtypes"]:
            inputs = points.matrix(dtype, LENGTH)
            expected = reductions.expect(row["op"], dtype, inputs)
            # Of integers those that have one right answer: what is computed in f64 may have more.
            sure = dtype in FLOATS or expected.low == expected.high
            asked = numpy.flatnonzero(expected.asked & sure)
            # The first are plain; special ones stand behind.
            places = [*asked[:ROWS // 2], *asked[-20:][:ROWS - ROWS // 2]]
            expected = reductions.expect(row["op"], dtype, inputs[places])
            yield line(row["op"], [dtype], f"{len(places)}x{LENGTH}", [inputs[places]], expected)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runner")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    with Oracle(options.runner) as oracle:
        rows = oracle.rows()
    problems = 0
    for name, lines in (("elementwise", elementwise_lines(rows["rows"])),
                        ("reduction", reduction_lines(rows["reductions"]))):
        lines = list(lines)
        text = HEAD + "\n".join(lines) + "\n"
        path = options.folder / f"{name}.txt"
        if options.write:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is not what the outside functions say; see ops_golden.py --write")
            problems += 1
        print(f"golden: {len(lines)} operators and dtypes of {name}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
