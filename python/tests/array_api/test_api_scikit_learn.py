# SPDX-License-Identifier: Apache-2.0
"""The example scikit_learn.py, where scikit-learn is installed."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "docs/examples/python/scikit_learn.py"


@pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed"
)
def test_example():
    command = [sys.executable, "-B", str(EXAMPLE), "cpu:0", "npu:0"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    words = "StandardScaler, euclidean_distances, PCA, Ridge as of NumPy"
    assert run.stdout == f"cpu:0: {words}\nnpu:0: {words}\n"
