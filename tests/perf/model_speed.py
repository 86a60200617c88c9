# SPDX-License-Identifier: Apache-2.0
"""Models on cpu:0 against ONNX Runtime, OpenVINO in f32 and PyTorch, eager and compiled: in turns,
with the same number of threads. Beside the times stand how long a session takes to make and the
most memory that its process had, against ONNX Runtime's.

Writes reports/model_speed.{md,json} into the build folder. Exits 1 where a target is missed or
could not be measured, and says which.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import figures as measured
import sides
from ops_speed import judged, line_of, not_run, opened
from sides import Absent, Side

HERE = pathlib.Path(__file__).resolve().parent
# Of the best peer's speed, at least.
LIMITS = {"resnet50": 1 / 1.5, "bert_base": 1 / 1.5, "minilm": 1 / 1.5, "llm_prefill": 1 / 1.5,
          "llm_decode": 1 / 1.5, "mobilenet_v3_large": 1 / 2.5, "digits_b256": 0.9}
KINDS = ("onnxruntime", "openvino", "torch-eager", "torch-compiled")
CREATION, MEMORY = 1.0, 1.2  # of ONNX Runtime's, at most
CREATIONS = 3  # sessions made of each; the median counts
SECONDS = 0.4  # of each round and side
SHOWN = 6  # kernels of a profile in the table for people


def makers_of(arguments, name):
    folder, threads = arguments.models / name, arguments.threads
    child = [arguments.peers_venv / "bin" / "python", "-B", HERE / "peer_child.py"]

    def ours():
        return Side("backplane", [arguments.build / "bin" / "perf" / "timed_session",
                                  folder / "model.onnx", folder / "inputs.txt", threads], threads)

    def peer(kind):
        what = name if kind.startswith("torch") else folder
        return lambda: Side(kind, [*child, kind, what, threads], threads)
    return [ours, *map(peer, KINDS)]


def least(title, found, other, limit):
    """How many times as much as ONNX Runtime something takes, as a row."""
    row = measured.ratio_of([found], [other])
    return {"title": title, "against": "onnxruntime", "ratio": row, "limit": limit,
            "at_least": False, "ns": found, "peer_ns": other,
            "status": "met" if row <= limit else "MISSED"}


def creation_row(name, makers):
    """Sessions made in turns, each in a new process, with nothing else in the way."""
    times = {}
    for _ in range(CREATIONS):
        for maker in makers[:2]:
            side = maker()
            times.setdefault(side.name, []).append(side.ready["create_ns"])
            side.close()
    ours, other = (sorted(values)[CREATIONS // 2] for values in times.values())
    return least(f"{name}: making a session", ours, other, CREATION)


def rows_of(arguments, name):
    makers = makers_of(arguments, name)
    made, reasons = opened(makers)
    try:
        if len(made) < len(makers):
            return [not_run(name, "the best", "; ".join(reasons))]
        sides.race(made, arguments.seconds)
        ours, *peers = made
        best = min(peers, key=lambda peer: peer.median())
        rows = [judged(name, peer.name, sides.ratios(ours, peer),
                       LIMITS[name] if peer is best else None,
                       {"ns": ours.median(), "peer_ns": peer.median()}) for peer in peers]
        rows.append(least(f"{name}: most memory, in kB", ours.peak_bytes, peers[0].peak_bytes,
                          MEMORY))
        return rows
    except Absent as absent:
        return [not_run(name, "the best", str(absent))]
    finally:
        for side in made:
            side.close()


def write_vectors(folder, path):
    """The inputs of inputs.txt as `backplane bench` reads them."""
    import numpy
    arrays = {}
    for line in (folder / "inputs.txt").read_text(encoding="utf-8").splitlines():
        name, file, *sizes = line.split()
        sizes = [int(size) for size in sizes]
        raw = (folder / file).read_bytes()
        dtype = "int64" if len(raw) == 8 * math.prod(sizes) else "float32"
        arrays[f"in/{name}"] = numpy.frombuffer(raw, dtype).reshape(sizes)
    numpy.savez(path, **arrays)


def profile_of(arguments, name):
    """What our runs of the model spend their time on: [{kernel, call_count, ns}], the largest
    first, of runs of their own that wait after every kernel."""
    folder = arguments.models / name
    with tempfile.TemporaryDirectory() as scratch:
        vectors = pathlib.Path(scratch) / "inputs.npz"
        write_vectors(folder, vectors)
        done = subprocess.run(
            [arguments.build / "bin" / "backplane", "bench", folder / "model.onnx", "--device",
             "cpu:0", "--threads", str(arguments.threads), "--vectors", vectors, "--seconds", "0",
             "--profile", "--json"], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise Absent(f"backplane bench: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)["profile"]


def profile_line(name, profile):
    total = max(sum(row["ns"] for row in profile), 1)
    shares = [f"{row['kernel']} ({row['call_count']}) {row['ns'] / total:.0%}"
              for row in profile[:SHOWN]]
    return f"| {name} | {total / 1e3:,.1f} | {', '.join(shares)} |"


def write_profiles(profiles, folder):
    """Behind the table: what explains each model's row."""
    lines = ["", "What our time goes to: kernels with their calls in one run, of runs that wait "
             "after every kernel.", "", "| model | µs | share |", "|---|---|---|",
             *(profile_line(name, profile) for name, profile in profiles.items())]
    text = "\n".join(lines) + "\n"
    with open(folder / "model_speed.md", "a", encoding="utf-8") as report:
        report.write(text)
    path = folder / "model_speed.json"
    tables = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**tables, "profiles": profiles}, indent=1), encoding="utf-8")
    print(text, end="", flush=True)


def bounded_line(row):
    """Of a row whose ratio has an upper limit."""
    return (f"| {row['title']} | {row['against']} | {row['ratio']:.2f} | | ≤ {row['limit']:.2f} "
            f"| {row['ns'] / 1e3:,.1f} | {row['peer_ns'] / 1e3:,.1f} | {row['status']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--peers-venv", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True, help="of speed_models.py")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--only", nargs="+", default=list(LIMITS), metavar="NAME")
    arguments = parser.parse_args()
    rows, profiles = [], {}
    for name in arguments.only:
        rows += rows_of(arguments, name)
        if rows[-1]["status"] != "NOT RUN":
            rows.append(creation_row(name, makers_of(arguments, name)))
        try:
            profiles[name] = profile_of(arguments, name)
        except Absent as absent:
            rows.append(not_run(f"{name}: its profile", "", str(absent)))
    lines = [line_of(row) if row["status"] == "NOT RUN" or row["at_least"] else bounded_line(row)
             for row in rows]
    note = (f"cpu:0 and its peers with {arguments.threads} threads each, in turns; the ratio is "
            "the other's time by ours, the median of at least nine rounds with its 95 % interval; "
            "the target is for the quickest peer. Of making a session and of memory the ratio is "
            "ours by ONNX Runtime's, its Python included.")
    measured.write_table("Speed of models", note,
                         ("what", "against", "ratio", "interval", "target", "µs", "its µs", ""),
                         lines, rows, arguments.build / "reports", "model_speed")
    write_profiles(profiles, arguments.build / "reports")
    return measured.exit_status(rows)


if __name__ == "__main__":
    sys.exit(main())
