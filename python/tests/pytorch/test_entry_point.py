# SPDX-License-Identifier: Apache-2.0
"""An installed package is found by its entry point, as in python/pyproject.toml."""

import os
import pathlib
import subprocess
import sys
import tomllib

import pytest

GROUP = "torch_dynamo_backends"
USE = """
import torch
compiled = torch.compile(lambda x: x + 1, backend="backplane", options={"device": "npu:0"})
assert compiled(torch.zeros(2)).tolist() == [1, 1]
import backplane.torch
assert backplane.torch.report().runs == 1
"""


@pytest.fixture
def installed(tmp_path):
    """A folder with what pip writes for the package."""
    project = pathlib.Path(__file__).resolve().parents[2] / "pyproject.toml"
    entries = tomllib.loads(project.read_text())["project"]["entry-points"][GROUP]
    folder = tmp_path / "backplane-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: backplane\nVersion: 0\n")
    lines = [f"{name} = {target}" for name, target in entries.items()]
    (folder / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]))
    return {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"}


@pytest.mark.parametrize("first", ["", "import backplane.torch"], ids=["alone", "imported"])
def test_installed(installed, first):
    run = subprocess.run([sys.executable, "-B", "-c", first + USE], env=installed,
                         capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr


def test_not_installed():
    run = subprocess.run([sys.executable, "-B", "-c", USE], capture_output=True, text=True,
                         timeout=300)
    assert run.returncode != 0 and "InvalidBackend" in run.stderr
