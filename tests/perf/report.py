# SPDX-License-Identifier: Apache-2.0
"""The speed table: runs the benchmark programs and their peers in turns, and divides.

Ratios within one run decide; times are printed beside them. Writes reports/speed.{md,json} into
the build folder. Exits 1 where a target is missed or could not be measured, and says which.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import figures as measured
import models
import peers

HERE = pathlib.Path(__file__).resolve().parent
PUBLIC = ("eager_cost", "session_cost", "stream_cost")
CORE = ("call_cost", "memory_cost")
ROUNDS = 9
SHARING_LEAD_NS = 2_000_000_000  # until all processes are ready
SHARING_WINDOW_NS = 1_000_000_000

# What it says; the benchmark and the one that it is divided by; at most.
ROWS = (
    ("launch in the core / bare kernel call", "core_launch", "bare_kernel", 2.0),
    ("chain of 1,000 adds / ONNX Runtime, Python run", "chain_1000_adds", "ort_chain", 0.25),
    ("tiny MLP / ONNX Runtime, Python run", "mlp_tiny", "ort_mlp", 1 / 3),
    ("digits, batch 1, cpu:0 / ONNX Runtime, Python run", "digits_cpu", "ort_digits", 1.5),
    ("bp::add, 1 element / at::add", "eager_add", "torch_add", 0.25),
    ("tensor made and released, a thread of two / alone", "tensor_make_release_of_two",
     "tensor_make_release", 2.0),
    ("allocator hit, a thread of two / alone", "allocator_hit_of_two", "allocator_hit", 2.0),
    ("allocator hit / malloc + free", "allocator_hit", "malloc_and_free", 5.0),
    ("32 tensors released under another stream's work / under its own",
     "release_after_foreign_use", "release_after_own_use", 3.0),
    ("selection of a kernel in the core / launch", "cold_selection", "core_launch", 100.0),
    ("chain of 1,000 adds / ONNX Runtime, bound", "chain_1000_adds", "ort_chain_bound", None),
    ("tiny MLP / ONNX Runtime, bound", "mlp_tiny", "ort_mlp_bound", None),
    ("digits, batch 1, cpu:0 / ONNX Runtime, bound", "digits_cpu", "ort_digits_bound", None),
    ("bp::add / bare kernel call", "eager_add", "bare_kernel", None),
    ("bp::relu / bare kernel call", "eager_relu", "bare_kernel", None),
    ("bp::reduce_sum over an axis / bare kernel call", "eager_sum_over_axis", "bare_kernel", None),
    ("bp::transpose, a view / bare kernel call", "eager_transposed_view", "bare_kernel", None),
    ("first bp::softmax of a Runtime / bp::relu", "first_softmax", "eager_relu", None),
)
ALONE = ("digits_npu", "digits_xpu", "hop_cpu_emulated", "hop_npu_native", "hop_npu_emulated",
         "hop_xpu_native", "order_cpu_emulated", "order_npu_native", "order_npu_emulated",
         "order_xpu_native")


def run_sharing(program, figures, environment):
    """Eight threads on one session, then eight processes of one thread each: runs per window."""
    for name, processes, threads in (("digits_8_threads", 1, 8), ("digits_8_processes", 8, 1)):
        begin = time.monotonic_ns() + SHARING_LEAD_NS
        command = [program, environment["BP_BENCH_DIGITS"], str(threads), str(begin),
                   str(begin + SHARING_WINDOW_NS)]
        running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
                   for _ in range(processes)]
        outputs = [process.communicate(timeout=600) for process in running]
        failed = [words for process, (_, words) in zip(running, outputs) if process.returncode != 0]
        if failed:
            raise SystemExit(f"{program} failed: {failed[0].strip()[-400:]}")
        figures.add(name, SHARING_WINDOW_NS / sum(int(count) for count, _ in outputs))


def judged(title, ratio, limit, at_least=False):
    met = ratio >= limit if at_least else ratio <= limit
    return {"title": title, "ratio": ratio, "limit": limit, "at_least": at_least,
            "status": "met" if met else "MISSED"}


def row_of(figures, title, figure, unit, limit):
    why = figures.lack_of(figure, unit)
    if why:
        return {"title": title, "status": "NOT RUN", "why": why, "required": limit is not None}
    row = {"title": title, "ratio": figures.ratio(figure, unit), "status": ""}
    if limit is not None:
        row = judged(title, row["ratio"], limit)
    return row | {"ns": figures.median(figure), "unit_ns": figures.median(unit)}


def table(figures):
    rows = [row_of(figures, *row) for row in ROWS]
    row = judged("8 threads on one session: throughput / 8 processes",
                 figures.ratio("digits_8_processes", "digits_8_threads"), 0.9, at_least=True)
    rows.append(row | {"ns": figures.median("digits_8_threads"),
                       "unit_ns": figures.median("digits_8_processes")})
    title = "peak reserved / peak of a best-fit bound (allocations.txt)"
    why = figures.lack_of("fragmentation")
    rows.append({"title": title, "status": "NOT RUN", "why": why, "required": True} if why else
                judged(title, figures.counters["fragmentation"], 1.1))
    for name in ALONE:
        why = figures.lack_of(name)
        rows.append({"title": name, "status": "NOT RUN", "why": why, "required": False} if why else
                    {"title": name, "status": "", "ns": figures.median(name)})
    return rows


def write_reports(rows, folder, rounds):
    number = lambda value, form: "" if value is None else format(value, form)
    lines = []
    for row in rows:
        if row["status"] == "NOT RUN":
            lines.append(f"| {row['title']} | | | | | NOT RUN: {row['why']} |")
            continue
        sign = "≥" if row.get("at_least") else "≤"
        limit = "" if row.get("limit") is None else f"{sign} {row['limit']:.2f}"
        lines.append(f"| {row['title']} | {number(row.get('ratio'), '.2f')} | {limit} | "
                     f"{number(row.get('ns'), ',.1f')} | {number(row.get('unit_ns'), ',.1f')} | "
                     f"{row['status']} |")
    note = (f"Medians of {rounds} rounds, programs and peers in turns, each on 1 thread, unless it "
            "says another number. Ratios within a round decide; nanoseconds are the machine's of "
            "the hour, in processor time where the calling thread does all the work. Each round "
            f"has {measured.REPETITIONS} repetitions: of processor time the quickest counts, of "
            "the wall clock the median.")
    measured.write_table("Speed", note, ("what", "ratio", "target", "ns", "unit, ns", ""), lines,
                         rows, folder, "speed")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--digits", type=pathlib.Path, required=True)
    parser.add_argument("--torch-venv", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    figures = measured.Figures()
    programs = arguments.build / "bin" / "perf"
    why = peers.build_torch_cost(arguments.torch_venv, HERE / "torch_cost.cpp",
                                 programs / "torch_cost")
    if why:
        figures.lack("torch_add", why)
    with tempfile.TemporaryDirectory() as name:
        inputs = models.write_models(pathlib.Path(name), arguments.digits)
        environment = dict(os.environ, BP_BENCH_THREADS="1", **inputs)
        others = peers.open_onnxruntime(inputs, figures)
        for _ in range(arguments.rounds):
            for program in CORE:
                measured.run_program(programs / program, figures, environment)
            for program in PUBLIC:
                measured.run_program(programs / program, figures, environment,
                                     library=arguments.build / "lib")
            if not why:
                measured.run_program(programs / "torch_cost", figures, environment)
            for peer in others:
                peer.run(figures)
            run_sharing(programs / "shared_session", figures, environment)
    rows = table(figures)
    write_reports(rows, arguments.build / "reports", arguments.rounds)
    return measured.exit_status(rows)


if __name__ == "__main__":
    sys.exit(main())
