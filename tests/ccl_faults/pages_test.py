# SPDX-License-Identifier: Apache-2.0
"""What the pages on collectives tell a reader to type, typed; and what the example programs refuse.

    pages_test.py FAULT_RANK BIN_FOLDER [UNITTEST_ARGUMENT...]
"""

import contextlib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

from fault_hosts import ThisHost
from fault_job import SHORT, Job
from fault_ranks import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/collectives.md")
LATE_MS = 5_000  # for the rank that waits for one which does not come
FAULT_RANK = BIN = None


def sections_of(page):
    """Those on collectives, as one text without line breaks within words of code."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", "")
    if page != "README.md":
        return text
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return "".join(part for part in parts
                   if part.startswith(("From the command line\n", "Several devices\n")))


def commands_of(text):
    """Each once: lines of blocks for a shell, and what else stands as code and is a command of the
    build, or of collectives."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = [shlex.split(line, comments=True)
             for line in lines + re.findall(r"`([^`\n]+)`", prose)
             if line.startswith(("build/release/bin/", "backplane "))]
    for words in found:
        words[0] = words[0].removeprefix("build/release/bin/")
    return sorted({tuple(words) for words in found if not is_of_one_device(words)})


def is_of_one_device(words):
    """Those package_test.py runs."""
    return words[0] == "backplane" and words[1] in ("devices", "doctor", "run", "bench", "ops")


def run(words, **environment):
    """Of the build tree, as from the root of the project."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("BACKPLANE_")}
    words = [str(word).replace("build/release/bin", str(BIN)) for word in words]
    return subprocess.run([BIN / words[0], *words[1:]], cwd=ROOT, env={**clean, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False)


def needs_absent_device(words):
    """xpu:0, the one that a machine may lack; data_parallel takes it where none is named."""
    if "BP_REQUIRE_DEVICES" in os.environ or "xpu:0" in run(["backplane", "devices"]).stdout:
        return False
    return "xpu:0" in " ".join(words) or words[0] == "data_parallel"


class Watched(ThisHost):
    """Ranks whose groups tell how they are, and what they recorded."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.status, self.trace = folder / "status", folder / "trace"
        self.status.mkdir()
        self.trace.mkdir()
        self.environment = {"BACKPLANE_CCL_STATUS": str(self.status),
                            "BACKPLANE_CCL_TRACE": str(self.trace)}


@contextlib.contextmanager
def watched_job():
    with tempfile.TemporaryDirectory(prefix="bp_ccl_pages_") as folder:
        job = Job(FAULT_RANK, [Watched(folder)] * 2, folder)
        try:
            yield job
        finally:
            job.discard()


class Pages(unittest.TestCase):
    def test_commands(self):
        shown = {page: commands_of(sections_of(page)) for page in PAGES}
        self.assertEqual([len(commands) for commands in shown.values()], [3, 7], shown)
        for words in sorted({words for commands in shown.values() for words in commands}):
            # Those with a folder are below; "PROGRAM" is any; a name alone says of what it is.
            if "FOLDER" in words or needs_absent_device(words):
                continue
            words = ["true" if word == "PROGRAM" else word for word in words]
            is_name = words[0] == "backplane" and not set(words) - {"backplane", "launch", "ccl",
                                                                    "trace", "status"}
            with self.subTest(command=" ".join(words)):
                result = run(words + ["--help"] if is_name else words)
                self.assertEqual(result.returncode, 0, result.stdout)

    def test_status_and_trace_of_a_job(self):
        page = sections_of("docs/collectives.md")
        with watched_job() as job:
            job.join(job.ranks)
            number = job.ranks[0].begin("sum", SHORT, LATE_MS)
            wait_until(lambda: "group group-1: rank 0 of 2 on cpu:0, entered 1, completed 0" in
                       self.shown(page, "status", job.hosts[0].status, 0), "the sum in the status",
                       LATE_MS / 2000)
            self.assertEqual(job.ranks[0].answer(number)["code"], "TIMEOUT")
            trace = self.shown(page, "trace", job.hosts[0].trace, 1)
            self.assertIn("rank 1 never entered seq 1 all_reduce sum f32 100", trace)

    def shown(self, page, what, folder, exit_code):
        """What the command of the page prints."""
        command = f"backplane ccl {what} FOLDER"
        self.assertIn(f"`{command}`", page)
        result = run(command.replace("FOLDER", str(folder)).split())
        self.assertEqual(result.returncode, exit_code, result.stdout)
        return result.stdout


class Examples(unittest.TestCase):
    PROGRAMS = ("all_reduce", "all_reduce_c", "data_parallel", "data_parallel_c")

    def check_refused(self, words, named):
        with self.subTest(command=" ".join(words)):
            result = run(words)
            self.assertNotEqual(result.returncode, 0, result.stdout)
            self.assertIn(named, result.stdout)

    def test_unknown_arguments_are_named(self):
        for program in self.PROGRAMS:
            self.check_refused([program, "--chek"], "--chek")
            self.check_refused([program, "cpu:0", "--verbose"], "--verbose")
        self.check_refused(["first_c", "cpu:0", "--verbose"], "--verbose")

    def test_devices_beside_those_of_a_launcher_are_named(self):
        for program in self.PROGRAMS:
            launch = ["backplane", "launch", "-n", "2", "--", f"build/release/bin/{program}"]
            self.check_refused([*launch, "npu:0"], "npu:0: the launcher says the device")


if __name__ == "__main__":
    FAULT_RANK, BIN = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
