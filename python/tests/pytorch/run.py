# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of this folder with the first of several interpreters that has what they need.

run.py PYTHON... [-- OPTION...]    The options are pytest's. Exit code 77, and a line that says why,
where none of the interpreters has it.
"""

import pathlib
import subprocess
import sys

NEEDED = "import numpy, onnx, onnxscript, pytest, torch, torchvision"


def reason_against(python):
    if not pathlib.Path(python).is_file():
        return "there is no such file"
    tried = subprocess.run([python, "-c", NEEDED], capture_output=True, text=True, timeout=300)
    return tried.stderr.strip().splitlines()[-1] if tried.returncode != 0 else None


def main():
    folder = pathlib.Path(__file__).resolve().parent
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    for python in sys.argv[1:end]:
        reason = reason_against(python)
        if reason is None:
            command = [python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
            return subprocess.run([*command, *sys.argv[end + 1 :]]).returncode
        print(f"NOT RUN with {python}: {reason}")
    print("next: ./dev models")
    return 77


if __name__ == "__main__":
    sys.exit(main())
