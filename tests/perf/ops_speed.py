# SPDX-License-Identifier: Apache-2.0
"""Operators on cpu:0 against ONNX Runtime and PyTorch, against a copy of the same bytes, and
products and convolutions against oneDNN alone; all in turns, with the same number of threads.

Writes reports/ops_speed.{md,json} into the build folder, unless --only asks for a part. Exits 1
where a target is missed or could not be measured, or our outputs are wrong, and says which.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import comparison
import figures as measured
import op_cases
import sides
from sides import Absent, Side

HERE = pathlib.Path(__file__).resolve().parent
OF_BEST_PEER = 0.9
OF_ONEDNN = 0.95
OF_ONEDNN_EACH = 0.8  # of a single convolution, which may be slow where others make up for it
OF_COPY_AT_MOST = 1.5  # nothing moves bytes so much quicker than a copy does: that was held up
SECONDS = 0.08  # of each round and side


class Bench:
    """The programs, and what a call of each costs without any work."""

    def __init__(self, arguments, folder):
        self.build, self.programs = arguments.build, arguments.build / "bin" / "perf"
        self.python = arguments.peers_venv / "bin" / "python"
        self.threads, self.seconds, self.folder = arguments.threads, arguments.seconds, folder
        self.call_ns = {}
        op_cases.write(op_cases.nothing(), folder / "nothing")
        makers = {"backplane": self.ours("nothing"),
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


def judged(title, against, values, limit, row, at_least=True):
    """A ratio as a row: met, MISSED or NOT MEASURED where the interval is too wide to say."""
    middle, low, high = sides.interval(values)
    row = {"title": title, "against": against, "ratio": middle, "low": low, "high": high,
           "limit": limit, "at_least": at_least, **row}
    if limit is None:
        status = ""
    elif not sides.is_narrow(values) and (low < limit <= high if at_least else
                                          low <= limit < high):
        status = "NOT MEASURED"
    else:
        status = "met" if (middle >= limit if at_least else middle <= limit) else "MISSED"
    return row | {"status": status}


def not_run(title, against, why, status="NOT RUN"):
    return {"title": title, "against": against, "status": status, "why": why, "required": True}


def compared(title, build, python, folder, threads):
    """The profile of our runs of a model, and None; or a row that says what its outputs are."""
    try:
        return comparison.compare(build, python, folder, threads), None
    except comparison.Wrong as wrong:
        return None, not_run(title, "ONNX Runtime", str(wrong), "WRONG")
    except Absent as absent:
        return None, not_run(title, "ONNX Runtime", str(absent))


def share_of_copy(case, ours, copy):
    """Bytes moved in a second, ours to the copy's, in the whole time of a call: that of the copy,
    too, is with telling threads and waiting for them."""
    copied = 2 * copy_bytes(case)
    rates = [case.moved_bytes() / a / (copied / b)
             for a, b in zip(ours.rounds, copy.rounds, strict=True)]
    row = judged(case.name, "a copy", rates, case.share, {"ns": ours.median(),
                                                          "peer_ns": copy.median()})
    return row if row["ratio"] <= OF_COPY_AT_MOST else row | {"status": "NOT MEASURED"}


def copy_bytes(case):
    return case.moved_bytes() // 2 // 64 * 64


def measure_case(bench, case):
    op_cases.write(case, bench.folder / "case")
    if case.is_comparable():
        _, problem = compared(case.name, bench.build, bench.python, bench.folder / "case",
                              bench.threads)
        if problem:
            return [problem]
    makers = [bench.ours("case"), bench.raw("copy", copy_bytes(case), *(
        ["stream"] if case.streams() else [])), bench.peer("onnxruntime", bench.folder / "case"),
        bench.peer("torch-op", case.name)]
    made, reasons = opened(makers)
    against = "ONNX Runtime or PyTorch"
    try:
        if len(made) < len(makers):
            return [not_run(case.name, against, "; ".join(reasons))]
        sides.race(made, bench.seconds, lacks=bench.call_ns)
        ours, copy, *peers = made
        best = min(peers, key=lambda p: p.median() - bench.call_ns[p.name])
        values = sides.ratios(ours, best, bench.call_ns["backplane"], bench.call_ns[best.name])
        rows = [judged(case.name, best.name, values, OF_BEST_PEER, {
            "ns": ours.median(), "peer_ns": best.median(),
            "all_ns": {side.name: side.median() for side in made}})]
        if case.share is not None:
            rows.append(share_of_copy(case, ours, copy))
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
    name = write_product(bench, words)
    _, problem = compared(title, bench.build, bench.python, bench.folder / name, bench.threads)
    if problem:
        return problem, None
    made, reasons = opened([bench.ours(name), bench.raw(*words)])
    try:
        if len(made) < 2:
            return not_run(title, "oneDNN", "; ".join(reasons)), None
        sides.race(made, bench.seconds)
        ours, raw = made
        row = judged(title, "oneDNN", sides.ratios(ours, raw), limit,
                     {"ns": ours.median(), "peer_ns": raw.median()})
        return row, (ours, raw)
    except Absent as absent:
        return not_run(title, "oneDNN", str(absent)), None
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


def measure_products(bench, only):
    rows = [measure_product(bench, title, words, OF_ONEDNN)[0]
            for title, words in op_cases.PRODUCTS.items() if only in title]
    pairs, lacking = [], []
    for key, count in op_cases.resnet50_convs().items():
        channels, size, out, kernel, stride, _ = key
        title = f"conv {channels} x {size}², {out} of {kernel}², stride {stride} ({count}x)"
        if only not in title:
            continue
        row, pair = measure_product(bench, title, ["conv", *map(str, key), "1"], OF_ONEDNN_EACH)
        rows.append(row)
        if pair is None:
            lacking.append(title)
        else:
            pairs.append((count, *pair))
    title = "ResNet-50's convolutions, together"
    if lacking:
        rows.append(not_run(title, "oneDNN", "without " + "; ".join(lacking)))
    elif not only:
        rows.append(together(title, pairs, OF_ONEDNN))
    return rows


def line_of(row):
    if "why" in row:
        return f"| {row['title']} | {row['against']} | | | | | | {row['status']}: {row['why']} |"
    sign = "≥" if row["at_least"] else "≤"
    limit = "" if row["limit"] is None else f"{sign} {row['limit']:.2f}"
    return (f"| {row['title']} | {row['against']} | {row['ratio']:.2f} | "
            f"{row['low']:.2f} to {row['high']:.2f} | {limit} | "
            f"{row['ns'] / 1e3:,.1f} | {row['peer_ns'] / 1e3:,.1f} | {row['status']} |")


def write_reports(rows, bench, folder):
    """folder: None where the rows are not all."""
    calls = ", ".join(f"{name} {ns / 1e3:.1f}" for name, ns in bench.call_ns.items())
    note = (f"cpu:0 and its peers with {bench.threads} threads each, in turns; the ratio is the "
            "other's time by ours, or the bytes that we move in a second by a copy's, the median "
            "of at least nine rounds with its 95 % interval. Only beside ONNX Runtime and PyTorch "
            "is taken from each side's time what its call of one element costs (µs: "
            f"{calls}); beside a copy and oneDNN our time is that of the whole call. A row whose "
            "interval is wider than ±10 % and holds the target is NOT MEASURED, which fails, as "
            f"is one of more than {OF_COPY_AT_MOST} times a copy, which must have "
            f"been held up. Of a single convolution {OF_ONEDNN_EACH} is asked, of all of "
            f"ResNet-50's together {OF_ONEDNN}. "
            "Before a row is timed, our outputs are compared with ONNX Runtime's, both in f32 "
            f"({comparison.RULE}); not those in bf16, which numpy lacks.")
    measured.write_table("Speed of operators", note,
                         ("what", "against", "ratio", "interval", "target", "µs", "its µs", ""),
                         [line_of(row) for row in rows], rows, folder, "ops_speed")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--peers-venv", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--only", default="", help="rows whose title has this; writes no report")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(arguments, pathlib.Path(name))
        rows = []
        for case in op_cases.cases().values():
            if arguments.only in case.name:
                rows += measure_case(bench, case)
        rows += measure_products(bench, arguments.only)
    if not rows:
        parser.error(f"no row's title has {arguments.only!r}")
    write_reports(rows, bench, None if arguments.only else arguments.build / "reports")
    return measured.exit_status(rows)


if __name__ == "__main__":
    sys.exit(main())
