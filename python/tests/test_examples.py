# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/examples/python run as their first lines say."""

import pathlib
import subprocess
import sys

import backplane as bp

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples"
DEVICES = [device.name for device in bp.devices()]


def run(name, *arguments):
    command = [sys.executable, "-B", EXAMPLES / "python" / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_first_steps():
    text = run("first_steps.py")
    for device in DEVICES:
        assert f"{device}: [[7.0, 7.0], [12.0, 0.0]]" in text
    assert "NumPy sees [1. 1. 1. 1.]" in text
    assert "InvalidArgumentError: add" in text or len(DEVICES) == 1


def test_digits_says_what_it_needs():
    command = [sys.executable, "-B", EXAMPLES / "python" / "digits.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stderr.startswith("usage: digits.py FOLDER [DEVICE ...]")
    assert "Traceback" not in done.stderr


def test_digits():
    text = run("digits.py", EXAMPLES / "digits")
    for device in DEVICES:
        assert f"{device}: 99.4% of 360 digits" in text
    assert f"{', '.join(DEVICES)} see the same digits" in text
