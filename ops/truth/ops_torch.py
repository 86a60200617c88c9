# SPDX-License-Identifier: Apache-2.0
"""Compares elementwise operators and reductions with PyTorch: ops_torch.py TRUTH_RUNNER, by a
Python that has it. Floats are computed by PyTorch in f64 at the points of f32, and must agree to a
few units of f32: numpy and mpmath judge the last digit (ops_truth.py), this is a third opinion on
what an operator means. Integers, bools, infinities and NaN must agree exactly."""

import sys

import numpy
import torch
from torch.nn import functional

import elementwise
import points
from formats import values_of
from oracle import Oracle

INTEGERS = ("u8", "i8", "i16", "i32", "i64")  # that PyTorch computes with
SHOWN = 3
# Of the result, and beside it of the input: functions that PyTorch makes of 1 + erf(x) and the like
# lose digits where these cancel.
RELATIVE, ABSOLUTE = 2.0**-22, 2.0**-44

# Rows without a line here have no function of PyTorch's that means the same at every point: among
# others threshold, which keeps NaN, and shifts by the width or more.

FUNCTIONS = {
    "relu": torch.relu, "add": torch.add, "sub": torch.sub, "mul": torch.mul,
    "max": torch.maximum, "min": torch.minimum, "sqrt": torch.sqrt,
    "reciprocal": torch.reciprocal, "abs": torch.abs, "neg": torch.neg,
    "sign": lambda x: torch.where(x != x, x, torch.sign(x)),  # of NaN it gives 0, ours NaN
   
    "ceil": torch.ceil, "floor": torch.floor, "round": torch.round, "trunc": torch.trunc,
    "equal": torch.eq, "greater": torch.gt, "greater_or_equal": torch.ge, "less": torch.lt,
    "less_or_equal": torch.le, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor, "logical_not": torch.logical_not,
    "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor, "bitwise_not": torch.bitwise_not,
    "where": torch.where, "is_nan": torch.isnan, "clip": torch.clamp, "pow": torch.pow,
    "fmod": torch.fmod, "mod": torch.remainder,
    "div": lambda a, b: torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc"),
    "leaky_relu": lambda x, alpha: functional.leaky_relu(x, alpha),
    "prelu": lambda x, slope: torch.where(x < 0, slope * x, x),
    "exp": torch.exp, "expm1": torch.expm1, "log": torch.log, "log1p": torch.log1p,
    "rsqrt": torch.rsqrt, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan,
    "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh,
    "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh,
    "atanh": torch.atanh, "erf": torch.erf, "sigmoid": torch.sigmoid,
    "hard_swish": functional.hardswish, "elu": lambda x, alpha: functional.elu(x, alpha),
    "celu": lambda x, alpha: functional.celu(x, alpha), "softplus": functional.softplus,
    "softsign": functional.softsign, "mish": functional.mish,
    "gelu": functional.gelu, "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}
# An error in PyTorch, or undefined, for integers by 0 and by -1.
DIVIDES = ("div", "fmod", "mod")
REDUCTIONS = {
    "reduce_sum": torch.sum, "reduce_prod": torch.prod, "reduce_mean": torch.mean,
    "reduce_max": torch.amax, "reduce_min": torch.amin, "reduce_log_sum_exp": torch.logsumexp,
    "reduce_l1": lambda x, dim: torch.linalg.vector_norm(x, 1, dim),
    "reduce_l2": lambda x, dim: torch.linalg.vector_norm(x, 2, dim),
}


def tensor(dtype, bits):
    return torch.from_numpy(numpy.array(values_of(dtype, bits)))


def differs(dtype, expected, found, reach):
    """Places where PyTorch, in f64, and the oracle do not agree."""
    if dtype != "f32":
        return numpy.flatnonzero(expected != found)
    with numpy.errstate(all="ignore"):
        limit = 2.0**-149 + RELATIVE * numpy.abs(found) + ABSOLUTE * reach
        near = numpy.abs(expected - found) <= limit
        beyond = numpy.abs(expected) > numpy.finfo(numpy.float32).max
        same = (expected == found) | (numpy.isnan(expected) & numpy.isnan(found))
        same |= beyond & (numpy.sign(expected) == numpy.sign(found)) & numpy.isinf(found)
    return numpy.flatnonzero(~(near | same))


class Report:
    def __init__(self):
        self.count = 0
        self.problems = []

    def note(self, what, dtype, inputs, expected, found):
        finite = [numpy.where(numpy.isfinite(v), numpy.abs(v), 0) for v in inputs
                  if dtype == "f32"]
        reach = sum((v.reshape(len(v), -1).sum(1) for v in finite), 0.0)
        wrong = differs(dtype, expected, found, numpy.maximum(reach, 1))
        self.count += len(expected)
        if wrong.size:
            shown = "; ".join(f"of {', '.join(str(v[i]) for v in inputs)} PyTorch {expected[i]}, "
                              f"the oracle {found[i]}" for i in wrong[:SHOWN])
            self.problems.append(f"{what}: {wrong.size} of {len(expected)} differ: {shown}")


def compare_row(oracle, row, dtype, report):
    op = row["op"]
    dtypes = elementwise.dtypes_of(row, dtype)
    inputs = points.tuples(dtypes)
    if op in DIVIDES and dtype != "f32":
        kept = (inputs[1] != 0) & (inputs[1] != -1 if inputs[1].dtype.kind == "i" else True)
        inputs = [column[kept] for column in inputs]
    settings = elementwise.settings_of(row)[-1]
    given = [tensor(kind, bits) for kind, bits in zip(dtypes, inputs)]
    expected = FUNCTIONS[op](*given, **elementwise.as_computed(dtype, settings)).numpy()
    found = values_of("bool" if row["gives_bool"] else dtype,
                      oracle.evaluate(op, dtypes, inputs, settings))
    report.note(f"{op} {dtype}", "bool" if row["gives_bool"] else dtype,
                [each.numpy() for each in given], expected, found)


def compare_reduction(oracle, op, report):
    for length in points.REDUCED[1:]:
        rows = points.matrix("f32", length)
        x = tensor("f32", rows)
        expected = REDUCTIONS[op](x, dim=1).numpy()
        found = values_of("f32", oracle.evaluate(op, ["f32"], [rows], {"axes": [1], "keepdims": 0}))
        report.note(f"{op} over {length}", "f32", [x.numpy()], expected, found)


def main(path):
    report = Report()
    with Oracle(path) as oracle:
        rows = oracle.rows()
        for row in (r for r in rows["rows"] if r["op"] in FUNCTIONS):
            for dtype in ("f32", *INTEGERS, "bool"):
                if dtype in row["dtypes"]:
                    compare_row(oracle, row, dtype, report)
        for op in REDUCTIONS:
            compare_reduction(oracle, op, report)
    for problem in report.problems:
        print(problem)
    print(f"truth: {len(FUNCTIONS)} elementwise rows and {len(REDUCTIONS)} reductions against "
          f"PyTorch {torch.__version__}, at {report.count} points: {len(report.problems)} differ")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
