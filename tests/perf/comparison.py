# SPDX-License-Identifier: Apache-2.0
"""Whether what we compute is right at the sizes that are measured: before a model is timed, it runs
on the inputs that it is timed with, and its outputs are compared with ONNX Runtime's.

Both compute in f32, so ONNX Runtime's outputs are no truth: a difference says that one of the two
is wrong. What is right to the last digits is asked of float64, in tests/models and bp-conform.
"""

import json
import pathlib
import subprocess
import tempfile

from sides import Absent

HERE = pathlib.Path(__file__).resolve().parent
RULE = "|error| <= 1e-3 |its value| + 1e-4 rms(its values)"  # of backplane bench
DEADLINE = 600


class Wrong(Exception):
    """The outputs are not the peer's; the text says by how much."""


def compare(build, python, folder, threads):
    """Of the model in a folder: [{kernel, call_count, ns}], what our runs of it spend their time
    on, the largest first; each such run waits after every kernel. Raises Wrong where its outputs
    are, and Absent where either side does not run it. python: of the peers' venv."""
    with tempfile.TemporaryDirectory() as scratch:
        vectors = pathlib.Path(scratch) / "vectors.npz"
        made = run([python, "-B", HERE / "expected.py", folder, vectors, threads])
        if made.returncode != 0:
            raise Absent(f"expected outputs: {last_words(made)}")
        done = run([build / "bin" / "backplane", "bench", folder / "model.onnx", "--device",
                    "cpu:0", "--threads", threads, "--vectors", vectors, "--seconds", "0",
                    "--profile", "--json"])
    if done.returncode not in (0, 1):  # 1: other outputs, after the report
        raise Absent(f"backplane bench: {last_words(done)}")
    told = json.loads(done.stdout)
    if not told["passed"]:
        error = told["max_error"]  # None: infinite
        raise Wrong("outputs are not ONNX Runtime's: they differ by up to "
                    f"{'infinity' if error is None else f'{error:.2g} of the rms'}")
    return told["profile"]


def run(command):
    try:
        return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        raise Absent(f"{command[0]} did not end in {DEADLINE} s") from None


def last_words(done):
    return " ".join(done.stderr.split())[-300:] or f"exit code {done.returncode}"
