# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that writes which cases ran, and how they ended: python_cases.{md,json}.

pytest --report FOLDER [--report-name NAME]: a row for each file; for each function of the array API
standard and each device, how many tests called it there; and for each device whether it took part.
"""

import collections
import importlib.metadata
import pathlib
import platform
import re
import subprocess
import time

import pytest

TESTS = pathlib.Path(__file__).resolve().parent
# The devices that these tests are written for. Others that a build has are named too.
TESTED = ("cpu:0", "npu:0", "xpu:0")
PACKAGES = ("numpy", "array-api-strict", "hypothesis", "onnxruntime", "pytest", "torch")
DEFAULT_NAME = "python_cases"


def pytest_addoption(parser):
    group = parser.getgroup("backplane", "report of cases")
    group.addoption("--report", metavar="FOLDER", help="write which cases ran into this folder")
    group.addoption(
        "--report-name",
        metavar="NAME",
        default=DEFAULT_NAME,
        help="the name of its two files, without an ending (default: %(default)s)",
    )


def pytest_configure(config):
    folder, name = config.getoption("--report"), config.getoption("--report-name")
    if not re.fullmatch(r"[a-z0-9_]+", name):
        raise pytest.UsageError(
            f"--report-name: expected lower case letters, digits and '_', found '{name}'"
        )
    if folder is None:
        if name != DEFAULT_NAME:
            raise pytest.UsageError("--report-name: needs --report FOLDER beside it")
        return
    try:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise pytest.UsageError(f"--report: expected a folder, found '{folder}': {error}") from None
    if not config.option.collectonly:
        config.pluginmanager.register(Cases(config, pathlib.Path(folder).absolute(), name))


class Cases:
    """What becomes of the cases of one run."""

    def __init__(self, config, folder, name):
        # Here, so that a run without a report wraps nothing.
        import backplane as bp
        import function_calls

        self.config, self.stem = config, folder / name
        for ending in (".json", ".md"):  # a run that crashes leaves none, not that of another run
            self.stem.with_suffix(ending).unlink(missing_ok=True)
        self.begin = time.monotonic()
        self.present = [device.name for device in bp.devices()]
        self.cases = {}  # (file, name) -> {"outcome", ...}
        self.left_out = set()  # files
        self.deselected = 0
        self.current = None
        self.calls = collections.defaultdict(collections.Counter)  # case -> (function, device)
        function_calls.watch(self._note)

    def _note(self, function, device):
        self.calls[self.current][function, device] += 1

    def _case(self, nodeid):
        path, _, name = nodeid.partition("::")
        return self._file(self.config.rootpath / path), name

    def _file(self, path):
        """Its name in this folder, or elsewhere that which pytest has for it."""
        for folder in (TESTS, self.config.rootpath):
            if path.is_relative_to(folder):
                return path.relative_to(folder).as_posix()
        return path.as_posix()

    @pytest.hookimpl(wrapper=True)
    def pytest_ignore_collect(self, collection_path):
        is_left_out = yield
        if is_left_out and re.fullmatch(r"test_.*\.py", collection_path.name):
            self.left_out.add(self._file(collection_path))
        return is_left_out

    def pytest_deselected(self, items):
        self.deselected += len(items)

    def pytest_collectreport(self, report):
        """A file that cannot be imported, or skips itself, is a case of its own."""
        if not report.passed:
            case = (self._file(self.config.rootpath / report.nodeid), "the whole file")
            self.cases[case] = _new_case()
            self._add(case, report)

    def pytest_collection_finish(self, session):
        for item in session.items:
            device = getattr(item, "callspec", None) and item.callspec.params.get("device")
            self.cases[self._case(item.nodeid)] = _new_case(device)

    def pytest_runtest_logstart(self, nodeid):
        self.current = self._case(nodeid)

    def pytest_runtest_logreport(self, report):
        self._add(self._case(report.nodeid), report)

    def _add(self, case, report):
        """Setup, call and teardown each have a report: the worst of them counts."""
        row = self.cases[case]
        row["seconds"] += getattr(report, "duration", 0)
        if report.failed:
            row["outcome"], row["reason"] = "failed", _last_line(report.longreprtext)
        elif report.skipped:
            row["outcome"], row["reason"] = "skipped", _reason_of_skip(report)
        elif report.when == "call":
            row["outcome"] = "passed"

    def pytest_sessionfinish(self, exitstatus):
        import cases_report_tables
        import function_calls

        report = {
            "head": _head(),
            "python": platform.python_version(),
            "versions": {name: _version(name) for name in PACKAGES},
            "exit_status": int(exitstatus),
            "seconds": round(time.monotonic() - self.begin, 1),
            "deselected": self.deselected,
            "devices": [*TESTED, *(name for name in self.present if name not in TESTED)],
            "present": self.present,
            "native": function_calls.native_functions(),
            "standard": function_calls.standard_functions(),
            "left_out": sorted(self.left_out - {file for file, _ in self.cases}),
        }
        cases_report_tables.write(report, self.cases, self.calls, self.stem)


def _new_case(device=None):
    return {"outcome": "not run", "reason": "", "seconds": 0.0, "device": device}


def _last_line(text):
    """Of what pytest shows of a failure: the lines that begin with E say what is wrong."""
    lines = text.strip().splitlines() or [""]
    told = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (told or lines[-1:])[0]


def _reason_of_skip(report):
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    found = report.longrepr  # (file, line, reason), or text
    return (found[2] if isinstance(found, tuple) else str(found)).removeprefix("Skipped: ")


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _head():
    """The commit that the tests are of, or None where git or its folder is absent."""
    command = ["git", "-C", TESTS, "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
