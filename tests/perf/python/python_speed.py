# SPDX-License-Identifier: Apache-2.0
"""The Python package's small calls against NumPy, PyTorch and ONNX Runtime, and against our own C
API: processes in turns, one thread each. Then what an import costs, and threads of Python on one
session against threads of C++.

Writes reports/python_speed.{md,json} into the build folder. Exits 1 where a target is missed or
could not be measured, and says which.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import figures as measured  # noqa: E402
import models  # noqa: E402
import sides  # noqa: E402
from ops_speed import judged, line_of, not_run, opened  # noqa: E402
from sides import Absent, Side  # noqa: E402

SECONDS = 0.1  # of each round and side
IMPORTS = 15
WINDOW_NS = 1_500_000_000
WINDOWS = 9


def nanoseconds(ours, _):
    return list(ours.rounds)


def more_nanoseconds(ours, other):
    return [a - b for a, b in zip(ours.rounds, other.rounds, strict=True)]


def slowness(ours, other):
    return [a / b for a, b in zip(ours.rounds, other.rounds, strict=True)]


# What, against what, ours, the other side, how to compare, the target and what its unit is.
ROWS = (
    ("a + b of one element, times", "NumPy", "add_of_backplane", "add_of_numpy", slowness, 1.3),
    ("a + b of one element, times", "PyTorch", "add_of_backplane", "add_of_torch", slowness,
     1 / 3),
    ("session(x) of the tiny MLP, ns more", "the C API", "run_of_backplane", "timed_session",
     more_nanoseconds, 1000),
    ("session(x) of the tiny MLP, times", "ONNX Runtime", "run_of_backplane",
     "run_of_onnxruntime", slowness, 1 / 2),
    ("NumPy to Tensor to NumPy, 64 MiB, times", "a copy", "round_trip_of_backplane",
     "copy_of_numpy", slowness, 0.01),
    ("torch to Tensor, add, to torch, ns", "nothing", "add_through_torch", None, nanoseconds,
     2000),
    ("torch to Tensor, add, to torch, times", "PyTorch's own DLPack", "add_through_torch",
     "add_through_torch_alone", slowness, 1),
)


class Bench:
    def __init__(self, arguments, folder):
        self.build, self.folder = arguments.build, folder
        self.python = arguments.peers_venv / "bin" / "python"
        os.environ["PYTHONPATH"] = str(arguments.build / "python")
        os.environ["BP_BENCH_THREADS"] = "1"
        found = models.write_models(folder, "")
        (folder / "mlp").mkdir()
        shutil.move(found["BP_BENCH_MLP"], folder / "mlp" / "model.onnx")
        write_inputs(folder / "mlp")

    def maker(self, name):
        if name == "timed_session":
            mlp = self.folder / "mlp"
            return lambda: Side(name, [self.build / "bin" / "perf" / name, mlp / "model.onnx",
                                       mlp / "inputs.txt", 1], 1)
        return lambda: Side(name, [self.python, "-B", HERE / "python_side.py", name,
                                   self.folder / "mlp"], 1)


def write_inputs(folder):
    import numpy
    numpy.random.default_rng(7).standard_normal((1, 64), "float32").tofile(folder / "x.bin")
    (folder / "inputs.txt").write_text("x x.bin 1 64\n", encoding="utf-8")


def measure(bench, title, against, ours, other, compare, limit):
    names = [ours] + ([other] if other else [])
    made, reasons = opened([bench.maker(name) for name in names])
    try:
        if reasons:
            return not_run(title, against, "; ".join(reasons))
        for rounds in sides.ROUNDS:
            while len(made[0].rounds) < rounds:
                for side in made:
                    side.turn(SECONDS)
                made.reverse()
            first, *rest = sorted(made, key=lambda side: names.index(side.name))
            values = compare(first, *(rest or [None]))
            if sides.is_narrow(values):
                break
        return judged(title, against, values, limit, {
            "ns": first.median(), "peer_ns": rest[0].median() if rest else 0}, at_least=False)
    except Absent as absent:
        return not_run(title, against, str(absent))
    finally:
        for side in made:
            side.close()


def measure_import(python):
    told = [json.loads(subprocess.run([python, "-B", "-P", HERE / "python_side.py", "import"],
                                      check=True, capture_output=True, text=True,
                                      timeout=60).stdout) for _ in range(IMPORTS)]
    if any(one["numpy"] for one in told):
        return [not_run("import", "nothing", "it imported NumPy", "WRONG")]
    return [judged(f"import, {unit}", "nothing", [one[unit] for one in told], limit,
                   {"ns": 0, "peer_ns": 0}, at_least=False)
            for unit, limit in (("ms", 60), ("MiB", 40))]


def runs_in_window(command):
    begin = time.monotonic_ns() + 1_500_000_000
    done = subprocess.run([str(word) for word in (*command, begin, begin + WINDOW_NS)],
                          capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise Absent(" ".join(done.stderr.split())[-300:])
    return int(done.stdout)


def write_slow_model(path):
    """A product that keeps one thread busy for more than a millisecond."""
    import numpy
    from onnx import TensorProto, helper, numpy_helper, save
    weights = numpy.random.default_rng(9).standard_normal((768, 768), "float32") / 28
    nodes = [helper.make_node("MatMul", ["x" if i == 0 else f"t{i}", "w"],
                              ["y" if i == 3 else f"t{i + 1}"]) for i in range(4)]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "slow", [value("x", TensorProto.FLOAT, [64, 768])],
                              [value("y", TensorProto.FLOAT, [64, 768])],
                              [numpy_helper.from_array(weights, "w")])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10),
         path)


def measure_threads(bench):
    count = min(8, os.cpu_count() or 1)
    title, against = f"{count} threads on one session, runs, times", "threads of C++"
    model = bench.folder / "slow.onnx"
    write_slow_model(model)
    ours = [bench.python, "-B", HERE / "python_side.py", "threads", model, count]
    other = [bench.build / "bin" / "perf" / "shared_session", model, count]
    found = []
    try:
        for round_index in range(WINDOWS):
            pair = (ours, other) if round_index % 2 == 0 else (other, ours)
            counts = dict(zip(map(id, pair), map(runs_in_window, pair)))
            found.append((counts[id(ours)], counts[id(other)]))
    except Absent as absent:
        return not_run(title, against, str(absent))
    medians = [sorted(WINDOW_NS / max(1, one[side]) for one in found)[WINDOWS // 2]
               for side in (0, 1)]
    return judged(title, against, [a / max(1, b) for a, b in found], 0.9,
                  {"ns": medians[0], "peer_ns": medians[1]})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--peers-venv", type=pathlib.Path, required=True,
                        help="has NumPy, PyTorch and ONNX Runtime")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(arguments, pathlib.Path(name))
        rows = [measure(bench, *row) for row in ROWS]
        rows += measure_import(bench.python)
        rows.append(measure_threads(bench))
    note = ("One thread each, processes in turns; the figure is of the same round, the median "
            "with the interval that holds it in 95 of 100 cases. Of calls below some microseconds "
            "the loop round them is taken away.")
    measured.write_table("Speed of the Python package", note,
                         ("what", "against", "figure", "interval", "target", "us", "other, us", ""),
                         [line_of(row) for row in rows], rows, arguments.build / "reports",
                         "python_speed")
    return measured.exit_status(rows)


if __name__ == "__main__":
    sys.exit(main())
