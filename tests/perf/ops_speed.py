# SPDX-License-Identifier: Apache-2.0
"""Operators on cpu:0 against ONNX Runtime and PyTorch, against a copy of the same bytes, and
products and convolutions against oneDNN alone; all in turns, with the same number of threads.

Writes reports/ops_speed.{md,json} into the build folder. Exits 1 where a target is missed or could
not be measured, and says which.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import figures as measured
import op_cases
import sides
from sides import Absent, Side

HERE = pathlib.Path(__file__).resolve().parent
OF_BEST_PEER = 0.9
OF_ONEDNN = 0.95
SECONDS = 0.08  # of each round and side


class Bench:
    """The programs, and what a call of each costs without any work."""

    def __init__(self, arguments, folder):
        self.programs = arguments.build / "bin" / "perf"
        self.python = arguments.peers_venv / "bin" / "python"
        self.threads, self.seconds, self.folder = arguments.threads, arguments.seconds, folder
        self.call_ns = {}
        op_cases.write(op_cases.nothing(), folder / "nothing")
        makers = {"ours": self.ours("nothing"),
                  "onnxruntime": self.peer("onnxruntime", folder / "nothing"),
                  "torch-op": self.peer("torch-op", "nothing")}
        for name, side in makers.items():
            try:
                made = side()
                sides.race([made], self.seconds)
                self.call_ns[name] = made.median()
                made.close()
            except Absent:
                self.call_ns[name] = 0.0  # its rows say why

    def ours(self, name):
        folder = self.folder / name
        return lambda: Side("backplane", [self.programs / "timed_session", folder / "model.onnx",
                                          folder / "inputs.txt", self.threads], self.threads)

    def peer(self, kind, what):
        return lambda: Side(kind, [self.python, "-B", HERE / "peer_child.py", kind, what,
                                   self.threads], self.threads)

    def raw(self, *words):
        return lambda: Side("raw", [self.programs / "raw_cost", *words], self.threads)


def opened(makers):
    """The sides that could be made, and why others could not; all or none of the first."""
    made, reasons = [], []
    for maker in makers:
        try:
            made.append(maker())
        except Absent as absent:
            reasons.append(str(absent))
            if maker is makers[0]:
                break
    return made, reasons


def judged(title, against, values, limit, row):
    """A ratio as a row: met, MISSED or NOT MEASURED where the interval is too wide to say."""
    middle, low, high = sides.interval(values)
    row = {"title": title, "against": against, "ratio": middle, "low": low, "high": high,
           "limit": limit, "at_least": True, **row}
    if limit is None:
        status = ""
    elif not sides.is_narrow(values) and low < limit:
        status = "NOT MEASURED"
    else:
        status = "met" if middle >= limit else "MISSED"
    return row | {"status": status}


def not_run(title, against, why, required=True):
    return {"title": title, "against": against, "status": "NOT RUN", "why": why,
            "required": required}


def share_of_copy(bench, case, ours, copy):
    """Bytes moved in a second, ours to the copy's."""
    copied = 2 * copy_bytes(case)
    rates = [case.moved_bytes() / max(a - bench.call_ns["ours"], 1.0) / (copied / b)
             for a, b in zip(ours.rounds, copy.rounds, strict=True)]
    return judged(case.name, "a copy", rates, case.share, {"ns": ours.median(),
                                                           "peer_ns": copy.median()})


def copy_bytes(case):
    return case.moved_bytes() // 2 // 64 * 64


def measure_case(bench, case):
    op_cases.write(case, bench.folder / "case")
    makers = [bench.ours("case"), bench.raw("copy", copy_bytes(case), *(
        ["stream"] if case.streams() else [])), bench.peer("onnxruntime", bench.folder / "case"),
        bench.peer("torch-op", case.name)]
    made, reasons = opened(makers)
    against = "ONNX Runtime or PyTorch"
    try:
        if len(made) < len(makers):
            return [not_run(case.name, against, "; ".join(reasons))]
        sides.race(made, bench.seconds)
        ours, copy, *peers = made
        best = min(peers, key=lambda p: p.median() - bench.call_ns[p.name])
        values = sides.ratios(ours, best, bench.call_ns["ours"], bench.call_ns[best.name])
        rows = [judged(case.name, best.name, values, OF_BEST_PEER, {
            "ns": ours.median(), "peer_ns": best.median(),
            "all_ns": {side.name: side.median() for side in made}})]
        if case.share is not None:
            rows.append(share_of_copy(bench, case, ours, copy))
        return rows
    except Absent as absent:
        return [not_run(case.name, against, str(absent))]
    finally:
        for side in made:
            side.close()


def write_product(bench, words):
    """The same product as a model; the folder's name."""
    import numpy
    random = numpy.random.default_rng(3)
    numbers = [int(word) for word in words if word.isdigit()]

    def values(*sizes):
        return random.standard_normal(sizes, "float32")
    if words[0] == "matmul":
        m, k, n = numbers
        right = {"b": values(k, n)}
        packed = words[-1] == "packed"
        inputs = {"a": values(m, k)} | ({} if packed else right)
        op_cases.one_node(bench.folder / "product", "MatMul", inputs, [("float32", [m, n])], {},
                          right if packed else {})
    else:
        channels, size, out, kernel, stride, pad, _ = numbers
        made = (size + 2 * pad - kernel) // stride + 1
        op_cases.one_node(bench.folder / "product", "Conv", {"x": values(1, channels, size, size)},
                          [("float32", [1, out, made, made])],
                          {"strides": [stride] * 2, "pads": [pad] * 4},
                          {"w": values(out, channels, kernel, kernel)})
    return "product"


def measure_product(bench, title, words, limit):
    """Its row, and the rounds of both."""
    made, reasons = opened([bench.ours(write_product(bench, words)), bench.raw(*words)])
    try:
        if len(made) < 2:
            return not_run(title, "oneDNN", "; ".join(reasons), limit is not None), None
        sides.race(made, bench.seconds)
        ours, raw = made
        row = judged(title, "oneDNN", sides.ratios(ours, raw), limit,
                     {"ns": ours.median(), "peer_ns": raw.median()})
        return row, (ours, raw)
    except Absent as absent:
        return not_run(title, "oneDNN", str(absent), limit is not None), None
    finally:
        for side in made:
            side.close()


def together(title, pairs, limit):
    """The sums over several products as one row. pairs: (how often, ours, other). A round of the
    sum is the same round of each; some may have had more."""
    def sums(side_of):
        sides_ = [(count, side_of(ours, other)) for count, ours, other in pairs]
        rounds = min(len(side.rounds) for _, side in sides_)
        return ([sum(count * side.rounds[i] for count, side in sides_) for i in range(rounds)],
                sum(count * side.median() for count, side in sides_))
    our_rounds, ours_ns = sums(lambda ours, _: ours)
    other_rounds, other_ns = sums(lambda _, other: other)
    values = [other / ours for ours, other in zip(our_rounds, other_rounds, strict=True)]
    return judged(title, "oneDNN", values, limit, {"ns": ours_ns, "peer_ns": other_ns})


def measure_products(bench):
    rows = [measure_product(bench, title, words, OF_ONEDNN)[0]
            for title, words in op_cases.PRODUCTS.items()]
    pairs = []
    for key, count in op_cases.resnet50_convs().items():
        channels, size, out, kernel, stride, _ = key
        title = f"conv {channels} x {size}², {out} of {kernel}², stride {stride} ({count}x)"
        row, pair = measure_product(bench, title, ["conv", *map(str, key), "1"], None)
        rows.append(row)
        if pair is None:
            return [*rows, not_run("ResNet-50's convolutions", "oneDNN", row["why"])]
        pairs.append((count, *pair))
    return [*rows, together("ResNet-50's convolutions, together", pairs, OF_ONEDNN)]


def line_of(row):
    if row["status"] == "NOT RUN":
        return f"| {row['title']} | {row['against']} | | | | | NOT RUN: {row['why']} |"
    limit = "" if row["limit"] is None else f"≥ {row['limit']:.2f}"
    spread = f"{row['low']:.2f} to {row['high']:.2f}" if "low" in row else ""
    return (f"| {row['title']} | {row['against']} | {row['ratio']:.2f} | {spread} | {limit} | "
            f"{row['ns'] / 1e3:,.1f} | {row['peer_ns'] / 1e3:,.1f} | {row['status']} |")


def write_reports(rows, bench, folder):
    calls = ", ".join(f"{name} {ns / 1e3:.1f}" for name, ns in bench.call_ns.items())
    note = (f"cpu:0 and its peers with {bench.threads} threads each, in turns; the ratio is the "
            "other's time by ours, or the bytes that we move in a second by a copy's, the median "
            "of at least nine rounds with its 95 % interval. From the times of calls is taken what "
            f"a call of one element costs (µs: {calls}). A row whose interval is wider than "
            "±10 % and holds the target is NOT MEASURED, which fails.")
    measured.write_table("Speed of operators", note,
                         ("what", "against", "ratio", "interval", "target", "µs", "its µs", ""),
                         [line_of(row) for row in rows], rows, folder, "ops_speed")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--peers-venv", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--only", default="", help="rows whose title has this")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(arguments, pathlib.Path(name))
        rows = []
        for case in op_cases.cases().values():
            if arguments.only in case.name:
                rows += measure_case(bench, case)
        if not arguments.only:
            rows += measure_products(bench)
    write_reports(rows, bench, arguments.build / "reports")
    return measured.exit_status(rows)


if __name__ == "__main__":
    sys.exit(main())
