# SPDX-License-Identifier: Apache-2.0
"""The speed table: runs the benchmark programs and their peers in turns, and divides.

Ratios within one run decide; times are printed beside them. Writes reports/speed.{md,json} into
the build folder. Exits 0 also where a target is missed: machines are noisy, and the table says so.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAMS = ("memory_cost", "stream_cost")  # those that need no peer
ROUNDS = 9
SHARING_LEAD_NS = 2_000_000_000  # until all processes are ready
SHARING_WINDOW_NS = 1_000_000_000

# What it says; the benchmark and the one that it is divided by; at most.
ROWS = (
    ("core launch path / bare kernel call", "core_launch", "bare_kernel", 2.0),
    ("eager add, 1 element / bare kernel call", "eager_add", "bare_kernel", None),
    ("eager relu / bare kernel call", "eager_relu", "bare_kernel", None),
    ("eager sum over an axis / bare kernel call", "eager_sum_over_axis", "bare_kernel", None),
    ("eager transposed view / bare kernel call", "eager_transposed_view", "bare_kernel", None),
    ("cold selection / core launch", "cold_selection/iterations:20/manual_time", "core_launch",
     100.0),
    ("first selection of a Runtime / core launch", "first_selection/iterations:20/manual_time",
     "core_launch", None),
    ("eager add / libtorch at::add", "eager_add", "torch_add", 0.25),
    ("chain of 1,000 adds / ONNX Runtime", "chain_1000_adds", "ort_chain", 0.25),
    ("tiny MLP / ONNX Runtime, Python run", "mlp_tiny", "ort_mlp", 1 / 3),
    ("digits, batch 1 / ONNX Runtime, Python run", "digits_batch_1", "ort_digits", 1.5),
    ("allocator hit / malloc + free", "allocator_hit", "malloc_and_free", 5.0),
    ("allocator hit, two threads / one", "allocator_hit/real_time/threads:2", "allocator_hit", 2.0),
    ("free after foreign use / plain free", "free_after_foreign_use/iterations:3000",
     "free_plain/iterations:3000", 3.0),
)
PRINTED = ("hop_cpu_emulated/real_time", "hop_npu_native/real_time", "hop_npu_emulated/real_time",
           "hop_xpu_native/real_time", "event_cpu_emulated/iterations:20000/real_time",
           "event_npu_native/iterations:20000/real_time",
           "event_npu_emulated/iterations:20000/real_time",
           "event_xpu_native/iterations:5000/real_time")


def make_models(folder):
    """The two models that are not in the tree, in the test venv; False without onnx."""
    try:
        import numpy
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return False
    random = numpy.random.default_rng(5)

    def write(name, nodes, inputs, outputs, constants):
        value = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        graph = helper.make_graph(nodes, name, [value(*i) for i in inputs],
                                  [value(*o) for o in outputs],
                                  [numpy_helper.from_array(a, n) for n, a in constants.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())

    chain = [helper.make_node("Add", ["x" if i == 0 else f"t{i}", "x"],
                              ["z" if i == 999 else f"t{i + 1}"]) for i in range(1000)]
    write("chain", chain, [("x", [1])], [("z", [1])], {})
    widths = (64, 128, 128, 10)
    constants, nodes, last = {}, [], "x"
    for layer in range(3):
        shape = (widths[layer + 1], widths[layer])
        constants[f"w{layer}"] = (random.standard_normal(shape) / 8).astype("float32")
        constants[f"b{layer}"] = random.standard_normal(shape[0]).astype("float32")
        made = "y" if layer == 2 else f"h{layer}"
        nodes.append(helper.make_node("Gemm", [last, f"w{layer}", f"b{layer}"], [made], transB=1))
        last = made
        if layer < 2:
            nodes.append(helper.make_node("Relu", [made], [f"r{layer}"]))
            last = f"r{layer}"
    write("mlp", nodes, [("x", [1, 64])], [("y", [1, 10])], constants)
    return True


class Figures:
    """Nanoseconds per iteration by benchmark name, one value per round."""

    def __init__(self):
        self.rounds = {}
        self.counters = {}

    def add(self, name, nanoseconds):
        self.rounds.setdefault(name, []).append(nanoseconds)

    def median(self, name):
        return statistics.median(self.rounds[name]) if name in self.rounds else None

    def ratio(self, name, unit):
        """The median of the rounds' ratios: within a round both meet the same machine, which may
        be twice as fast in the next one."""
        return statistics.median(a / b for a, b in zip(self.rounds[name], self.rounds[unit]))


def run_program(path, figures, environment):
    done = subprocess.run([path, "--benchmark_format=json", "--benchmark_min_time=0.05",
                           "--benchmark_enable_random_interleaving=true"],
                          env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"{path.name} failed: {done.stderr.strip()[-400:]}")
    for row in json.loads(done.stdout)["benchmarks"]:
        if row.get("run_type") == "aggregate" or row.get("error_occurred"):
            continue
        scale = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[row["time_unit"]]
        figures.add(row["name"], row["real_time"] * scale)
        if "peak_ratio" in row:
            figures.counters["fragmentation"] = row["peak_ratio"]


def ort_session(path):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def peer_inputs(session):
    import numpy
    shape = lambda i: [d if isinstance(d, int) else 1 for d in i.shape]
    return {i.name: numpy.ones(shape(i), numpy.float32) for i in session.get_inputs()}


def run_peer(name, session, inputs, figures, calls):
    for _ in range(calls // 5):
        session.run(None, inputs)
    times = []
    for _ in range(calls):
        start = time.perf_counter_ns()
        session.run(None, inputs)
        times.append(time.perf_counter_ns() - start)
    figures.add(name, statistics.median(times))


def open_peers(models, digits):
    """name, session, inputs, calls; empty without onnxruntime."""
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return []
    sessions = (("ort_chain", ort_session(models / "chain.onnx"), 30),
                ("ort_mlp", ort_session(models / "mlp.onnx"), 1500),
                ("ort_digits", ort_session(digits), 1000))
    return [(name, session, peer_inputs(session), calls) for name, session, calls in sessions]


def run_sharing(program, figures, environment):
    """Eight threads on one session, then eight processes of one thread each: runs per window."""
    for name, processes, threads in (("digits_8_threads", 1, 8), ("digits_8_processes", 8, 1)):
        begin = time.monotonic_ns() + SHARING_LEAD_NS
        command = [program, str(threads), str(begin), str(begin + SHARING_WINDOW_NS)]
        running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True)
                   for _ in range(processes)]
        count = sum(int(process.communicate(timeout=600)[0]) for process in running)
        figures.add(name, SHARING_WINDOW_NS / count)


def table(figures):
    rows = []
    for title, figure, unit, limit in ROWS:
        value, divisor = figures.median(figure), figures.median(unit)
        if value is None or divisor is None:
            missing = figure if value is None else unit
            rows.append({"title": title, "status": "NOT RUN", "missing": missing})
            continue
        ratio = figures.ratio(figure, unit)
        met = limit is None or ratio <= limit
        rows.append({"title": title, "ratio": ratio, "limit": limit, "ns": value,
                     "unit_ns": divisor, "status": "" if limit is None else
                     ("met" if met else "MISSED")})
    shared = figures.median("digits_8_threads")
    processes = figures.median("digits_8_processes")
    if shared and processes:
        ratio = figures.ratio("digits_8_processes", "digits_8_threads")
        rows.append({"title": "8 threads on one session: throughput / 8 processes", "ratio": ratio,
                    "limit": 0.9, "at_least": True, "ns": shared, "unit_ns": processes,
                    "status": "met" if ratio >= 0.9 else "MISSED"})
    if "fragmentation" in figures.counters:
        ratio = figures.counters["fragmentation"]
        rows.append({"title": "peak reserved / peak of a best-fit bound (encoder trace)",
                     "ratio": ratio, "limit": 1.1, "status": "met" if ratio <= 1.1 else "MISSED"})
    for name in PRINTED:
        if figures.median(name) is not None:
            rows.append({"title": name.split("/")[0], "ns": figures.median(name), "status": ""})
    return rows


def write_reports(rows, folder):
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["# Speed", "", f"Medians of {ROUNDS} rounds, programs and peers in turns. Ratios "
             "within a round decide; nanoseconds are the machine's of the hour.", "",
             "| what | ratio | target | ns | unit, ns | |", "|---|---|---|---|---|---|"]
    number = lambda value, form: "" if value is None else format(value, form)
    for row in rows:
        if row["status"] == "NOT RUN":
            lines.append(f"| {row['title']} | | | | | NOT RUN: no {row['missing']} |")
            continue
        sign = "≥" if row.get("at_least") else "≤"
        limit = "" if row.get("limit") is None else f"{sign} {row['limit']:.2f}"
        lines.append(f"| {row['title']} | {number(row.get('ratio'), '.2f')} | {limit} | "
                     f"{number(row.get('ns'), ',.1f')} | {number(row.get('unit_ns'), ',.1f')} | "
                     f"{row['status']} |")
    text = "\n".join(lines) + "\n"
    (folder / "speed.md").write_text(text, encoding="utf-8")
    (folder / "speed.json").write_text(json.dumps({"rounds": ROUNDS, "rows": rows}, indent=1),
                                       encoding="utf-8")
    print(text, end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--digits", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    figures = Figures()
    with tempfile.TemporaryDirectory() as name:
        models = pathlib.Path(name)
        environment = dict(os.environ, BACKPLANE_FALLBACK="allow")
        peers = []
        if make_models(models):
            environment.update(BP_BENCH_CHAIN=str(models / "chain.onnx"),
                               BP_BENCH_MLP=str(models / "mlp.onnx"))
            peers = open_peers(models, arguments.digits)
        programs = arguments.build / "bin" / "perf"
        for _ in range(ROUNDS):
            run_program(programs / "call_cost", figures, environment)
            if (programs / "torch_cost").is_file():  # CMake was given BP_TORCH_DIR
                run_program(programs / "torch_cost", figures, environment)
            run_program(programs / "session_cost", figures, environment)
            for peer, session, inputs, calls in peers:
                run_peer(peer, session, inputs, figures, calls)
            for program in PROGRAMS:
                run_program(programs / program, figures, environment)
            run_sharing(programs / "shared_session", figures, environment)
    write_reports(table(figures), arguments.build / "reports")
    return 0


if __name__ == "__main__":
    sys.exit(main())
