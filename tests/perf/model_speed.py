# SPDX-License-Identifier: Apache-2.0
"""Models on cpu:0 against ONNX Runtime, OpenVINO in f32 and PyTorch, eager and compiled: in turns,
with the same number of threads. Beside the times stand how long a session takes to make and the
most memory that its process had, against ONNX Runtime's. Before all that our outputs are compared
with ONNX Runtime's (comparison.py).

Writes reports/model_speed.{md,json} into the build folder, unless --only asks for a part. Exits 1
where a target is missed or could not be measured, or outputs are wrong, and says which.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys

import comparison
import figures as measured
import sides
from ops_speed import compared, judged, line_of, not_run, opened
from sides import Absent, Side

HERE = pathlib.Path(__file__).resolve().parent
# Of the best peer's speed, at least.
LIMITS = {"resnet50": 1 / 1.5, "bert_base": 1 / 1.5, "minilm": 1 / 1.5, "llm_prefill": 1 / 1.5,
          "llm_decode": 1 / 1.5, "mobilenet_v3_large": 1 / 2.5, "digits_b256": 0.9}
KINDS = ("onnxruntime", "openvino", "torch-eager", "torch-compiled")
CREATION, MEMORY = 1.0, 1.2  # of ONNX Runtime's, at most
CREATIONS = sides.ROUNDS[:3]  # a round is two processes that start, load and run a model
SECONDS = 0.4  # of each round and side
SHOWN = 6  # kernels of a profile in the table for people


def makers_of(arguments, folder):
    threads = arguments.threads
    child = [arguments.peers_venv / "bin" / "python", "-B", HERE / "peer_child.py"]

    def ours():
        return Side("backplane", [arguments.build / "bin" / "perf" / "timed_session",
                                  folder / "model.onnx", folder / "inputs.txt", threads], threads)

    def peer(kind):
        return lambda: Side(kind, [*child, kind, folder, threads], threads)
    return [ours, *map(peer, KINDS)]


class Sessions:
    """A side whose rounds are sessions, each made and run in a new process, with nothing else in
    the way."""

    def __init__(self, maker):
        self.maker, self.rounds, self.peaks = maker, [], []

    def turn(self, _):
        side = self.maker()
        self.rounds.append(side.ready["create_ns"])
        self.peaks.append(side.peak_bytes() - side.ready.get("language_bytes", 0))
        side.close()


def raced_sessions(arguments, folder, rounds):
    """Ours and ONNX Runtime's, made in turns."""
    raced = [Sessions(maker) for maker in makers_of(arguments, folder)[:2]]
    sides.race(raced, 0, rounds)
    return raced


def session_rows(arguments, name):
    """How long a session takes to make and how much memory, by ONNX Runtime's."""
    try:
        raced = raced_sessions(arguments, arguments.models / name, CREATIONS)
    except Absent as absent:
        return [not_run(f"{name}: making a session, and memory", "onnxruntime", str(absent))]
    return [at_most(f"{name}: making a session", *(side.rounds for side in raced), CREATION),
            at_most(f"{name}: most memory, in kB", *(side.peaks for side in raced), MEMORY)]


def at_most(title, ours, others, limit):
    """A row of rounds that are to be no more than so many times the other's."""
    values = [a / b for a, b in zip(ours, others, strict=True)]
    return judged(title, "onnxruntime", values, limit, {
        "ns": statistics.median(ours), "peer_ns": statistics.median(others)}, at_least=False)


def rows_of(arguments, name):
    makers = makers_of(arguments, arguments.models / name)
    made, reasons = opened(makers)
    try:
        if len(made) < len(makers):
            return [not_run(name, "the best", "; ".join(reasons))]
        sides.race(made, arguments.seconds)
        ours, *peers = made
        best = min(peers, key=lambda peer: peer.median())
        return [judged(name, peer.name, sides.ratios(ours, peer),
                       LIMITS[name] if peer is best else None,
                       {"ns": ours.median(), "peer_ns": peer.median()}) for peer in peers]
    except Absent as absent:
        return [not_run(name, "the best", str(absent))]
    finally:
        for side in made:
            side.close()


def profile_line(name, profile):
    total = max(sum(row["ns"] for row in profile), 1)
    shares = [f"{row['kernel']} ({row['call_count']}) {row['ns'] / total:.0%}"
              for row in profile[:SHOWN]]
    return f"| {name} | {total / 1e3:,.1f} | {', '.join(shares)} |"


def write_profiles(profiles, folder):
    """Behind the table: what explains each model's row. folder: None as for the table."""
    lines = ["", "What our time goes to: kernels with their calls in one run, of runs that wait "
             "after every kernel.", "", "| model | µs | share |", "|---|---|---|",
             *(profile_line(name, profile) for name, profile in profiles.items())]
    text = "\n".join(lines) + "\n"
    if folder is not None:
        with open(folder / "model_speed.md", "a", encoding="utf-8") as report:
            report.write(text)
        path = folder / "model_speed.json"
        tables = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**tables, "profiles": profiles}, indent=1), encoding="utf-8")
    print(text, end="", flush=True)


def note_of(threads):
    return (f"cpu:0 and its peers with {threads} threads each, in turns; the ratio is the other's "
            "time by ours, the median of at least nine rounds with its 95 % interval; the target "
            "is for the quickest peer. Of making a session and of memory the ratio is ours by ONNX "
            "Runtime's, of new processes in turns. Memory is the most that the process had "
            "resident, libraries and mapped files included, from its start until the model had "
            "run: ours is a C++ program; from ONNX Runtime's is taken what Python and numpy have "
            "before it is imported. A row whose interval is wider than ±10 % and holds the target "
            "is NOT MEASURED, which fails. Before a model is timed, our outputs are compared with "
            f"ONNX Runtime's, both in f32 ({comparison.RULE}).")


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--peers-venv", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True, help="of speed_models.py")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--only", nargs="+", choices=LIMITS, metavar="NAME",
                        help="these models; writes no report")
    return parser.parse_args()


def main():
    arguments = parse()
    rows, profiles = [], {}
    for name in arguments.only or LIMITS:
        profile, problem = compared(f"{name}: outputs", arguments.build,
                                    arguments.peers_venv / "bin" / "python",
                                    arguments.models / name, arguments.threads)
        if problem:
            rows.append(problem)
            continue
        profiles[name] = profile
        rows += rows_of(arguments, name)
        rows += session_rows(arguments, name)
    folder = None if arguments.only else arguments.build / "reports"
    measured.write_table("Speed of models", note_of(arguments.threads),
                         ("what", "against", "ratio", "interval", "target", "µs", "its µs", ""),
                         [line_of(row) for row in rows], rows, folder, "model_speed")
    write_profiles(profiles, folder)
    return measured.exit_status(rows)


if __name__ == "__main__":
    sys.exit(main())
