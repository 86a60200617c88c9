# SPDX-License-Identifier: Apache-2.0
"""Runs a script by the Python of a venv with PyTorch, which `./dev models` makes: with_torch.py
VENV SCRIPT [ARGUMENT...]. Without it says NOT RUN, and fails."""

import os
import pathlib
import sys


def main(venv, *command):
    python = pathlib.Path(venv) / "bin" / "python"
    if not python.is_file():
        print(f"NOT RUN: no PyTorch in {venv}; ./dev models installs it")
        return 1
    sys.stdout.flush()
    os.execv(python, [str(python), "-B", *command])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
