# SPDX-License-Identifier: Apache-2.0
"""`python -m backplane` is the command `backplane`."""

import json
import os
import pathlib
import subprocess
import sys

import backplane as bp

PROGRAM = pathlib.Path(bp.__file__).parent / "bin" / "backplane"


def run(*command, **environment):
    environment = {**os.environ, "BACKPLANE_LOG": "error", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def module(*arguments, **environment):
    return run(sys.executable, "-P", "-m", "backplane", *arguments, **environment)


def test_devices():
    done = module("devices", "--json")
    assert done.returncode == 0, done.stderr
    told = {row["name"]: row for row in json.loads(done.stdout)["devices"]}
    assert list(told) == [device.name for device in bp.devices()]
    for device in bp.devices():
        row = told[device.name]
        assert (row["full_name"], row["vendor"]) == (device.full_name, device.vendor)


def test_unknown_words_are_refused():
    for arguments, words in (
        (("devcies",), "unknown command 'devcies'; did you mean devices?"),
        (("devices", "--jsn"), "unknown option '--jsn'; did you mean --json?"),
        (("run",), "MODEL"),
        (("devices", "more"), "devices takes no further argument, found 'more'"),
    ):
        done = module(*arguments)
        assert (done.returncode, done.stdout) == (2, "") and words in done.stderr, done
    done = module()
    assert done.returncode == 2 and "Usage" in done.stderr


def test_answers_are_the_commands_own(tmp_path):
    broken = tmp_path / "broken.onnx"
    broken.write_text("not a model")
    for arguments in (
        ("--version",),
        ("devices",),
        ("run", "--help"),
        ("run", str(broken)),
        ("run", str(broken), "--device", "nothing:0"),
        ("devices", "--plugin-path", str(tmp_path), "--option", "npu.memory=64MiB"),
    ):
        ours = module(*arguments, BACKPLANE_PLUGINS="npu")
        its = run(PROGRAM, *arguments, BACKPLANE_PLUGINS="npu")
        assert (ours.returncode, ours.stdout, ours.stderr) == (
            its.returncode,
            its.stdout,
            its.stderr,
        )


def test_what_stands_before_it_is_kept():
    code = "import sys; print('first'); sys.argv = ['x', '--version']; import backplane.__main__"
    assert run(sys.executable, "-P", "-c", code).stdout.startswith("first\nbackplane ")


def test_closed_descriptors_are_the_commands_own():
    for closed in (">&-", "2>&-"):
        line = f'exec "$@" {closed}'
        ours, its = (
            run("/bin/sh", "-c", line, "sh", *command, "devices", BACKPLANE_PLUGINS="npu")
            for command in ((sys.executable, "-P", "-m", "backplane"), (PROGRAM,))
        )
        told = (ours.returncode, ours.stdout, ours.stderr)
        assert told == (its.returncode, its.stdout, its.stderr)


def test_without_the_command():
    code = "from backplane import _cli; _cli.PROGRAM = '/nowhere/backplane'; _cli.main()"
    done = run(sys.executable, "-P", "-c", code)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("backplane: the package lacks its command: ")
    assert "/nowhere/backplane" in done.stderr
