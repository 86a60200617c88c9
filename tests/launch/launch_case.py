# SPDX-License-Identifier: Apache-2.0
"""What the tests of launchers share: starting a command in a session of its own, and seeing that
nothing of it is left."""

import contextlib
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = None
PATIENCE_S = 120  # longer than anything takes on a machine that is busy
# Of the launchers that may run this very test.
FOREIGN = re.compile(r"^(BACKPLANE_|OMPI_|PMIX?_|MPI_|HYD|SLURM_|TORCHELASTIC_|RANK$|WORLD_SIZE$|"
                     r"LOCAL_RANK$|LOCAL_WORLD_SIZE$|GROUP_|ROLE_|MASTER_)")


def sh(script):
    return "--", "sh", "-c", script


def python(program):
    return "--", sys.executable, "-c", program


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
    return {**kept, **{name: str(value) for name, value in more.items()}}


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"{what}: not within {PATIENCE_S} s")


def processes_with(mark):
    """Processes that have `mark` in their environment, by number, with their command lines."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            if state != "Z" and mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes()
    return found


def threads_of(process):
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{process}/task")
    return []


def states_of(mark):
    """What each thread of those processes does, where the system tells it, for people."""
    text = ""
    for number, command in processes_with(mark).items():
        text += f"process {number}: {command.replace(bytes(1), b' ').decode(errors='replace')}\n"
        threads = (f"{number}/task/{thread}" for thread in threads_of(number))
        for thread, name in itertools.product(threads, ("stat", "syscall", "wchan", "stack")):
            with contextlib.suppress(OSError):
                found = pathlib.Path("/proc", thread, name).read_text(errors="replace")
                text += f"  {thread} {name}: {found[:500].strip()}\n"
    return text


class LaunchCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.mark = f"BP_TEST_MARK={folder.name}"
        self.environment = {"BP_TEST_MARK": folder.name, "XDG_RUNTIME_DIR": folder.name}
        self.addCleanup(self.expect_nothing_left)

    def expect_nothing_left(self):
        """Killed processes may take a moment."""
        wait_until(lambda: not processes_with(self.mark), "the end of all processes")

    def start(self, *command, **environment):
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, cwd=self.folder,
            env=clean_environment(**self.environment, **environment))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)

    def finish(self, process, status):
        """Its output and errors, as bytes."""
        try:
            output, errors = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired as late:
            self.fail(f"{late.cmd} did not end within {PATIENCE_S} s; its output {late.stdout!r}, "
                      f"errors {late.stderr!r}; what runs:\n{states_of(self.mark)}")
        text = (output[-2000:] + errors[-2000:]).decode(errors="replace")
        self.assertEqual(process.returncode, status, text)
        return output, errors

    def launch(self, *arguments, **environment):
        return self.start(BIN / "backplane", "launch", *arguments, **environment)

    def run_launch(self, status, *arguments, **environment):
        output, errors = self.finish(self.launch(*arguments, **environment), status)
        return output.decode(), errors.decode()

    def file(self, name):
        return self.folder / name
