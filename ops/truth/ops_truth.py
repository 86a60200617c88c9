# SPDX-License-Identifier: Apache-2.0
"""Compares every elementwise operator and reduction with a function that others wrote:
ops_truth.py TRUTH_RUNNER DEFS [--halves]. A row without such a function fails, by name. --halves:
only operators of one input, at every f16 and every bf16."""

import pathlib
import sys

import numpy
import yaml

import casts
import elementwise
import points
import reductions
from formats import DTYPES
from oracle import Oracle

SHOWN = 3


# Rows that are compared by other means.
EXCUSED = {"reduce": "the reduction that an attribute names, over axes that are an input"}


class Report:
    def __init__(self):
        self.count = 0
        self.problems = []

    def note(self, what, inputs, expected, found):
        good = expected.agrees(found)
        self.count += int(expected.asked.sum())
        if good.all():
            return
        wrong = numpy.flatnonzero(~good)
        examples = "; ".join(
            f"of {_words(inputs, place)} expected {int(expected.bits[place]):#x}, "
            f"found {int(found[place]):#x}" for place in wrong[:SHOWN])
        self.problems.append(f"{what}: {len(wrong)} of {len(good)} differ: {examples}")


def _words(inputs, place):
    return ", ".join("[" + " ".join(f"{int(word):#x}" for word in numpy.atleast_1d(array[place]))
                     + "]" for array in inputs)


def names_in(defs):
    """Of all operators that work element by element, or reduce."""
    return [row["op"] for family in ("elementwise", "reduction")
            for row in yaml.safe_load((defs / f"{family}.yaml").read_text())["operators"]]


def compare_rows(oracle, rows, report):
    for row in filter(lambda row: elementwise.is_known(row["op"]), rows):
        for dtype in row["dtypes"]:
            dtypes = elementwise.dtypes_of(row, dtype)
            inputs = points.tuples(dtypes)
            for settings in elementwise.settings_of(row):
                expected = elementwise.expect(row, dtype, inputs, settings)
                found = oracle.evaluate(row["op"], dtypes, inputs, settings)
                report.note(f"{row['op']} {dtype} {settings or ''}", inputs, expected, found)


# A reduction by decomposition, beside those with expressions.
LOG_SUM_EXP = {"op": "reduce_log_sum_exp", "dtypes": ["f16", "bf16", "f32", "f64"]}


def compare_halves(oracle, rows, report):
    for row in filter(lambda row: row["bool_inputs"] == [False], rows):
        for dtype in {"f16", "bf16"} & set(row["dtypes"]):
            inputs = [points.every_half(dtype)]
            settings = elementwise.settings_of(row)[0]
            expected = elementwise.expect(row, dtype, inputs, settings)
            found = oracle.evaluate(row["op"], [dtype], inputs, settings)
            report.note(f"{row['op']} {dtype} {settings or ''}", inputs, expected, found)


def compare_reductions(oracle, rows, report):
    for row in [*rows, LOG_SUM_EXP]:
        op = row["op"]
        if not reductions.is_known(op):
            continue
        for dtype in row["dtypes"]:
            for length in points.REDUCED:
                inputs = points.matrix(dtype, length)
                expected = reductions.expect(op, dtype, inputs)
                found = oracle.evaluate(op, [dtype], [inputs], {"axes": [1], "keepdims": 0})
                report.note(f"{op} {dtype} over {length}", [inputs], expected, found)


def compare_casts(oracle, report):
    for source in DTYPES:
        for target in DTYPES:
            bits = points.cast_points(source, target)
            expected = casts.expect(source, target, bits)
            found = oracle.evaluate("cast", [source], [bits], {"to": target})
            report.note(f"cast {source} to {target}", [bits], expected, found)


def check_names(names, rows, report):
    """Every operator has its function, or a reason here; none is passed over."""
    compared = {row["op"] for row in rows["rows"] if elementwise.is_known(row["op"])}
    compared |= {row["op"] for row in [*rows["reductions"], LOG_SUM_EXP]
                 if reductions.is_known(row["op"])}
    compared |= {"cast", *EXCUSED}
    with_expression = [row["op"] for row in [*rows["rows"], *rows["reductions"]]]
    for op in dict.fromkeys([*names, *with_expression]):
        if op not in compared:
            report.problems.append(f"{op}: no outside function; name one in ops/truth/functions.py "
                                   "or reductions.py")


def main(path, defs, mode=""):
    report = Report()
    with Oracle(path) as oracle:
        rows = oracle.rows()
        check_names(names_in(pathlib.Path(defs)), rows, report)
        if mode == "--halves":
            compare_halves(oracle, rows["rows"], report)
        else:
            compare_rows(oracle, rows["rows"], report)
            compare_reductions(oracle, rows["reductions"], report)
            compare_casts(oracle, report)
    for problem in report.problems:
        print(problem)
    what = "operators of one input at every f16 and bf16"
    if mode != "--halves":
        what = (f"{len(rows['rows'])} elementwise rows, {len(rows['reductions']) + 1} reductions "
                "and cast")
    print(f"truth: {what}, at {report.count} points: {len(report.problems)} differ")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
