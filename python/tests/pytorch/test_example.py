# SPDX-License-Identifier: Apache-2.0
import pathlib
import re
import subprocess
import sys

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "docs/examples/python/torch_compile.py"


def test_example(device):
    run = subprocess.run(
        [sys.executable, "-B", str(EXAMPLE), device], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    found = re.fullmatch(rf"2 graphs, (\d+) operators on {device}, 0 in torch\n", run.stdout)
    assert found and int(found.group(1)) > 40, run.stdout
