# SPDX-License-Identifier: Apache-2.0
"""Two builds in one run: the same programs of the public API with one libbackplane.so and then with
the other, in turns, and the core's programs of each build where both have them.

Writes reports/speed_against.{md,json} into the build folder. Exits 1 where the new build is slower,
or where a row did not run on both.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import figures as measured
import models

ROUNDS = 15
TOLERANCE = 0.05  # what two runs of one build differ by on a quiet machine
PUBLIC = ("eager_cost", "session_cost")
# Each build's own program, which must time the same thing under the same name in both.
CORE = {"call_cost": ("core_launch", "bare_kernel")}
# What it says, and the benchmark. The first part of the table decides.
DECIDING = (
    ("launch in the core", "core_launch"),
    ("chain of 1,000 adds", "chain_1000_adds"),
    ("tiny MLP", "mlp_tiny"),
    ("digits, batch 1, cpu:0", "digits_cpu"),
    ("digits, batch 1, npu:0", "digits_npu"),
    ("digits, batch 1, xpu:0", "digits_xpu"),
    ("bp::add", "eager_add"),
    ("tensor made and released", "tensor_make_release"),
    ("tensor made and released, a thread of two", "tensor_make_release_of_two"),
)
PRINTED = (
    ("bare kernel call", "bare_kernel"),
    ("bp::relu", "eager_relu"),
    ("bp::reduce_sum over an axis", "eager_sum_over_axis"),
    ("bp::transpose, a view", "eager_transposed_view"),
    ("first bp::softmax of a Runtime", "first_softmax"),
    ("release under its own stream's work", "release_after_own_use"),
    ("release under another stream's work", "release_after_foreign_use"),
)


def run_round(build, programs, figures, environment):
    """One build's turn; `programs` are those of the new build."""
    for program in PUBLIC:
        measured.run_program(programs / program, figures, environment, library=build / "lib")
    for program, names in CORE.items():
        own = build / "bin" / "perf" / program
        if own.is_file():
            measured.run_program(own, figures, environment, only=names)
        else:
            for name in names:
                figures.lack(name, f"there is no {own}")


def row_of(title, name, new, old, required):
    why = new.lack_of(name) or old.lack_of(name)
    if why:
        return {"title": title, "status": "NOT RUN", "why": why, "required": required}
    ratio = measured.ratio_of(new.rounds[name], old.rounds[name])
    slower = required and ratio > 1 + TOLERANCE
    return {"title": title, "ratio": ratio, "ns": new.median(name), "old_ns": old.median(name),
            "status": "SLOWER" if slower else "not slower" if required else ""}


def write_reports(rows, folder, old, rounds):
    lines = [f"| {row['title']} | | | | NOT RUN: {row['why']} |" if row["status"] == "NOT RUN" else
             f"| {row['title']} | {row['ratio']:.3f} | {row['ns']:,.1f} | {row['old_ns']:,.1f} | "
             f"{row['status']} |" for row in rows]
    note = (f"This build and {old}, {rounds} rounds, in turns, 1 thread each unless it says "
            f"another number; medians. Slower is a median ratio above {1 + TOLERANCE:.2f}.")
    measured.write_table("Speed against another build", note,
                         ("what", "this / other", "this, ns", "other, ns", ""), lines, rows, folder,
                         "speed_against")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--against", type=pathlib.Path, required=True, help="a build folder")
    parser.add_argument("--digits", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    if not (arguments.against / "lib" / "libbackplane.so.0").exists():
        raise SystemExit(f"--against {arguments.against}: expected a build folder with "
                         "lib/libbackplane.so.0")
    new, old = measured.Figures(), measured.Figures()
    with tempfile.TemporaryDirectory() as name:
        inputs = models.write_models(pathlib.Path(name), arguments.digits)
        environment = dict(os.environ, BP_BENCH_THREADS="1", **inputs)
        turns = [(arguments.build, new), (arguments.against, old)]
        for _ in range(arguments.rounds):
            for build, figures in turns:
                run_round(build, arguments.build / "bin" / "perf", figures, environment)
            turns.reverse()  # whoever comes second meets a warmer machine
    rows = [row_of(*row, new, old, True) for row in DECIDING]
    rows += [row_of(*row, new, old, False) for row in PRINTED]
    write_reports(rows, arguments.build / "reports", arguments.against, arguments.rounds)
    return measured.exit_status(rows)


if __name__ == "__main__":
    sys.exit(main())
