# SPDX-License-Identifier: Apache-2.0
"""Compares elementwise operators, reductions, softmax and cast with PyTorch: ops_torch.py
TRUTH_RUNNER, by a Python that has it. numpy and mpmath judge the last digit (ops_truth.py), this is
a third opinion on what an operator means. PyTorch computes f32 in f64, f64 and half types in their
own; results must agree to a few units. Integers, bools, infinities, NaN, casts and the signs of
zeros must agree exactly."""

import sys

import numpy
import torch

import elementwise
import points
import torch_functions
from expected import rounded
from formats import DTYPES, FLOATS, FORMATS, storage, values_of
from oracle import Oracle

# Of unsigned integers PyTorch computes with u8 alone.
INTEGERS = ("u8", "i8", "i16", "i32", "i64")
HALVES = ("f16", "bf16")
SHOWN = 3
# Of the result, and beside it of the input: functions that PyTorch makes of 1 + erf(x) and the like
# lose digits where these cancel, those of halves in f32.
TOLERANCE = {"f64": (2.0**-50, 2.0**-51), "f32": (2.0**-22, 2.0**-44),
             "f16": (2.0**-10, 2.0**-22), "bf16": (2.0**-7, 2.0**-22)}
OWN = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
       "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
       "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
       "bool": torch.bool}
SAME_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def tensor(dtype, bits):
    """In the dtype itself."""
    if dtype not in FORMATS:
        return torch.from_numpy(numpy.array(values_of(dtype, bits)))
    return torch.from_numpy(bits.astype(f"i{bits.itemsize}")).view(OWN[dtype])


def bits_of_tensor(dtype, values):
    if dtype in FORMATS:
        values = values.contiguous().view(SAME_BITS[values.element_size()])
    return values.numpy().astype(storage(dtype), copy=False)


def numbers(values):
    """For numpy: floats as f64."""
    return (values.double() if values.is_floating_point() else values).numpy()


def computed(op, function, dtypes, inputs, dtype, settings):
    """PyTorch's result; of f32 not rounded yet. And of each place whether PyTorch's way there means
    something."""
    is_wide = ((dtype == "f32" and op not in torch_functions.OF_OWN_STEPS)
               or (dtype in HALVES and op in torch_functions.STEPS))
    given = [tensor(kind, bits) for kind, bits in zip(dtypes, inputs)]
    if is_wide:
        given = [each.double() if each.is_floating_point() else each for each in given]
    expected = function(*given, **settings)
    sure = True
    if op in torch_functions.UNSURE and dtype in FLOATS:
        most = torch.finfo(torch.float64 if is_wide or dtype == "f64" else torch.float32).max
        wide = [each.double() for each in given]
        sure = ~torch_functions.UNSURE[op](most, *wide).numpy()
    expected = numbers(expected)
    if is_wide and dtype in HALVES:
        with numpy.errstate(over="ignore"):
            expected = values_of(dtype, rounded(dtype, expected))
    return expected, sure


def differs(dtype, expected, found, reach, is_exact, zero_sign):
    """Places where PyTorch and the oracle do not agree."""
    if dtype not in FLOATS:
        return expected != found
    form = FORMATS[dtype]
    relative, absolute = TOLERANCE[dtype]
    largest = values_of(dtype, numpy.array([form.infinity - 1], storage(dtype)))[0]
    with numpy.errstate(all="ignore"):
        limit = 2.0**(form.least - form.digits + 1)
        limit = limit + relative * numpy.abs(found) + absolute * reach
        near = (numpy.abs(expected - found) <= limit) & (not is_exact)
        same = (expected == found) | (numpy.isnan(expected) & numpy.isnan(found))
        beyond = numpy.abs(expected) > largest
        same |= beyond & (numpy.sign(expected) == numpy.sign(found)) & numpy.isinf(found)
    turned = (expected == 0) & (found == 0) & (numpy.signbit(expected) != numpy.signbit(found))
    return ~(near | same) | (turned if zero_sign else False)


def reach_of(dtypes, inputs):
    """How large the inputs are, at least 1."""
    total = 0.0
    for dtype, bits in zip(dtypes, inputs):
        if dtype in FLOATS:
            values = numpy.abs(values_of(dtype, bits))
            finite = numpy.where(numpy.isfinite(values), values, 0)
            total = numpy.maximum(total, finite.reshape(len(bits), -1).max(1))
    return numpy.maximum(total, 1)


class Report:
    def __init__(self):
        self.count = 0
        self.problems = []

    def note(self, what, dtypes, inputs, expected, found, wrong):
        self.count += expected.size
        places = numpy.flatnonzero(wrong.reshape(len(wrong), -1).any(1))
        if not places.size:
            return
        given = [values_of(dtype, bits) for dtype, bits in zip(dtypes, inputs)]
        shown = "; ".join(f"of {', '.join(str(v[i]) for v in given)} PyTorch {expected[i]}, "
                          f"the oracle {found[i]}" for i in places[:SHOWN])
        self.problems.append(f"{what}: {places.size} of {len(wrong)} differ: {shown}")


def compare_row(oracle, row, dtype, report):
    op = row["op"]
    dtypes = elementwise.dtypes_of(row, dtype)
    inputs = points.tuples(dtypes)
    if op in torch_functions.DIVIDES and dtype not in FLOATS:
        kept = (inputs[1] != 0) & (inputs[1] != -1 if inputs[1].dtype.kind == "i" else True)
        inputs = [column[kept] for column in inputs]
    gives = "bool" if row["gives_bool"] else dtype
    for settings in torch_functions.SETTINGS.get(op) or elementwise.settings_of(row):
        expected, sure = computed(op, torch_functions.FUNCTIONS[op], dtypes, inputs, dtype,
                                  elementwise.as_computed(dtype, settings))
        found = values_of(gives, oracle.evaluate(op, dtypes, inputs, settings))
        wrong = sure & differs(gives, expected, found, reach_of(dtypes, inputs),
                               dtype != "f32" and op in torch_functions.EXACT,
                               not row["either_zero"])
        report.note(f"{op} {dtype} {settings or ''}", dtypes, inputs, expected, found, wrong)


def compare_rows_of_matrix(oracle, op, function, dtype, attributes, report):
    """A reduction, or what works along lines."""
    for length in points.REDUCED[1:]:
        rows = points.matrix(dtype, length)
        expected, sure = computed(op, function, [dtype], [rows], dtype, {"dim": 1})
        found = values_of(dtype, oracle.evaluate(op, [dtype], [rows], attributes))
        reach = reach_of([dtype], [rows])
        wrong = differs(dtype, expected, found, reach.reshape(-1, *[1] * (found.ndim - 1)),
                        dtype != "f32" and op in torch_functions.EXACT, False)
        report.note(f"{op} {dtype} over {length}", [dtype], [rows], expected, found, sure & wrong)


def _is_told(source, target, values):
    """Not of a float that the integer cannot hold: C leaves that open. Nor of an f64 that PyTorch
    rounds to f32 first, and then again."""
    if source == "f64" and target in HALVES:
        with numpy.errstate(over="ignore"):
            return (values == values.astype(numpy.float32)) | ~numpy.isfinite(values)
    if source not in FLOATS or target in FLOATS or target == "bool":
        return True
    info = numpy.iinfo(storage(target))
    return ((values > float(info.min) - 1) | (values == float(info.min))) & (
        values < 2.0**info.bits / (2 if info.min else 1))


def compare_casts(oracle, report):
    for source in DTYPES:
        for target in DTYPES:
            bits = points.cast_points(source, target)
            expected = bits_of_tensor(target, tensor(source, bits).to(OWN[target]))
            found = oracle.evaluate("cast", [source], [bits], {"to": target})
            wrong = expected != found
            if target in FLOATS:
                wrong &= ~(numpy.isnan(values_of(target, expected)) &
                           numpy.isnan(values_of(target, found)))
            wrong &= _is_told(source, target, values_of(source, bits))
            report.note(f"cast {source} to {target}", [source], [bits],
                        values_of(target, expected), values_of(target, found), wrong)


def compare_all(oracle, rows, report):
    for row in rows["rows"]:
        for dtype in (*FLOATS, *INTEGERS, "bool"):
            if dtype in row["dtypes"]:
                compare_row(oracle, row, dtype, report)
    for op, function in torch_functions.REDUCTIONS.items():
        integers = INTEGERS if op in torch_functions.OF_INTEGERS else ()
        for dtype in ("bool",) if op in torch_functions.OF_BOOLS else (*FLOATS, *integers):
            compare_rows_of_matrix(oracle, op, function, dtype, {"axes": [1], "keepdims": 0},
                                   report)
    for op, function in torch_functions.LINES.items():
        for dtype in FLOATS:
            compare_rows_of_matrix(oracle, op, function, dtype, {"axis": 1}, report)
    compare_casts(oracle, report)


def main(path):
    report = Report()
    with Oracle(path) as oracle:
        rows = oracle.rows()
        names = [row["op"] for row in [*rows["rows"], *rows["reductions"]]]
        known = {**torch_functions.FUNCTIONS, **torch_functions.REDUCTIONS}
        missing = [op for op in names if op not in known]
        report.problems += [f"{op}: no function of PyTorch; name one in ops/truth/"
                            "torch_functions.py" for op in missing]
        if not missing:
            compare_all(oracle, rows, report)
    for problem in report.problems:
        print(problem)
    print(f"truth: {len(torch_functions.FUNCTIONS)} elementwise rows, "
          f"{len(torch_functions.REDUCTIONS)} reductions, {' and '.join(torch_functions.LINES)}, "
          f"and cast of {len(DTYPES)**2} pairs against PyTorch {torch.__version__}, at "
          f"{report.count} points: {len(report.problems)} differ")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
