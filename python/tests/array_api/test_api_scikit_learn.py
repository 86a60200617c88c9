# SPDX-License-Identifier: Apache-2.0
"""The example scikit_learn.py, by an interpreter that has scikit-learn: this one, or that of
`./dev models`."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "docs/examples/python/scikit_learn.py"
INTERPRETERS = (sys.executable, str(ROOT / ".cache/torch-models-venv/bin/python"))


def has_scikit_learn(python):
    if not pathlib.Path(python).is_file():
        return False
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('sklearn') is None)"
    return subprocess.run([python, "-c", look], timeout=300).returncode == 0


def test_example():
    python = next(filter(has_scikit_learn, INTERPRETERS), None)
    if python is None:
        pytest.skip("NOT RUN: scikit-learn is not installed; ./dev models installs it")
    command = [python, "-B", str(EXAMPLE), "cpu:0", "npu:0"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    words = "StandardScaler, euclidean_distances, PCA, Ridge as of NumPy"
    assert run.stdout == f"cpu:0: {words}\nnpu:0: {words}\n"
