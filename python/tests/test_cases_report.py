# SPDX-License-Identifier: Apache-2.0
"""The report of cases (cases_report.py), of test files that are made here."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import backplane as bp
import function_calls

# Absolute, since the runs are elsewhere: the package, and these tests.
FOLDERS = [pathlib.Path(bp.__file__).resolve().parents[1], pathlib.Path(__file__).resolve().parent]

FILES = {
    "conftest.py": 'collect_ignore = ["test_left_out.py"]\n',
    "test_left_out.py": "",
    "test_broken.py": 'raise RuntimeError("no such thing")\n',
    "test_absent.py": 'import pytest\npytest.skip("no torch", allow_module_level=True)\n',
    "test_cases.py": """
import pytest
import backplane.array_api as xp

@pytest.mark.parametrize("device", ["npu:0", "cpu:0"])
def test_sum(device):
    for _ in range(3):
        assert xp.sum(xp.ones(3, device=device)).item() == 3

def test_wrong():
    xp.sum(xp.sqrt(xp.ones(2, device="npu:0")))
    assert 1 == 2, "one is two"

def test_refused():
    with pytest.raises(TypeError):
        xp.linalg.trace(3)
    with pytest.raises(ValueError):
        xp.linalg.trace(xp.ones(3, device="npu:0"))
    assert xp.finfo(xp.float32).bits == 32

@pytest.mark.skip(reason="a | b")
def test_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_expected():
    assert False

@pytest.fixture
def breaks():
    yield
    raise OSError("late")

def test_teardown(breaks):
    pass
""",
}


def run(folder, *arguments):
    """pytest without xpu, and without plugins of its own that are installed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*map(str, FOLDERS), os.environ.get("PYTHONPATH", "")]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "BACKPLANE_PLUGINS": "cpu,npu",
    }
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-p", "cases_report"]
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Test files, and what runs of them in two orders report."""
    folder = tmp_path_factory.mktemp("cases")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    names = [name for name in sorted(FILES) if name.startswith("test_") and "left" not in name]
    for report, order in (("first", []), ("second", names[::-1])):
        options = ["--continue-on-collection-errors", "--report", "reports/new"]
        options += ["--report-name", report, *order]
        done = run(folder, *options)
        assert done.returncode == 1, done.stdout + done.stderr
    return folder / "reports" / "new"


def read(folder, name="first"):
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def test_outcomes(folder):
    found = read(folder)
    sums = [found[key] for key in ("passed", "failed", "skipped", "not_run", "total")]
    assert sums == [3, 3, 3, 0, 9]
    told = {row["case"]: (row["outcome"], row["reason"]) for row in found["cases"]}
    assert told == {
        "test_absent.py::the whole file": ("skipped", "no torch"),
        "test_broken.py::the whole file": ("failed", "RuntimeError: no such thing"),
        "test_cases.py::test_expected": ("skipped", "expected to fail: known"),
        "test_cases.py::test_refused": ("passed", ""),
        "test_cases.py::test_skipped": ("skipped", "a | b"),
        "test_cases.py::test_sum[cpu:0]": ("passed", ""),
        "test_cases.py::test_sum[npu:0]": ("passed", ""),
        "test_cases.py::test_teardown": ("failed", "OSError: late"),
        "test_cases.py::test_wrong": ("failed", "AssertionError: one is two"),
    }
    numbers = {row["file"]: (row["passed"], row["failed"]) for row in found["files"]}
    assert numbers == {"test_absent.py": (0, 0), "test_broken.py": (0, 1), "test_cases.py": (3, 2)}
    assert found["files_not_run"] == ["test_left_out.py"]


def test_functions_by_device(folder):
    found = read(folder)
    rows = {row["function"]: row["devices"] for row in found["functions"]}
    assert list(rows) == function_calls.standard_functions()
    assert rows["sum"] == {
        "cpu:0": {"passed": 1, "failed": 0, "skipped": 0, "not_run": 0, "calls": 3},
        "npu:0": {"passed": 1, "failed": 1, "skipped": 0, "not_run": 0, "calls": 4},
    }
    # Refusals are calls too, of the device of the tensor if there is one.
    trace = {device: cell["calls"] for device, cell in rows["linalg.trace"].items()}
    assert trace == {"no tensor": 1, "npu:0": 1}
    assert list(rows["finfo"]) == ["no tensor"] and rows["fft.fft"] == {}
    assert found["native"].keys() == {"npu", "xpu"} and "sum" in found["native"]["npu"]


def test_devices_that_are_absent_are_told(folder):
    rows = {row["device"]: row for row in read(folder)["devices"]}
    assert list(rows) == ["cpu:0", "npu:0", "xpu:0"]
    assert (rows["npu:0"]["state"], rows["npu:0"]["passed"]) == ("ran", 1)
    assert (rows["xpu:0"]["state"], rows["xpu:0"]["reason"]) == ("NOT RUN", "no such device here")


def test_order_is_that_of_names(folder):
    first, second = read(folder), read(folder, "second")
    for report in (first, second):
        for rows in (report["files"], report["cases"], [report]):
            for row in rows:
                del row["seconds"]
    assert json.dumps(first) == json.dumps(second)


def test_page(folder):
    page = (folder / "first.md").read_text(encoding="utf-8").splitlines()
    assert page[2].startswith("3 passed, 3 failed, 3 skipped, 0 not run, 9 in all, exit status 1")
    for line in (
        "| xpu:0 | NOT RUN: no such device here | 0 | 0 | 0 | 0 | 0 | 0 |",
        "| test_left_out.py | NOT RUN |  |  |  |  |",
        "| test_cases.py::test_skipped | skipped | a \\| b |",
        "| sum | npu xpu | 1 of 1, 3 calls | 1 of 2, 4 calls | NOT RUN |  |",
        "| finfo |  |  |  |  | 1 of 1, 1 calls |",
    ):
        assert line in page


def test_a_run_that_stops_early(folder):
    chosen = ["-k", "sum or wrong or refused", "test_cases.py"]
    done = run(folder.parents[1], "-x", "--report", folder, *chosen)
    assert done.returncode == 1
    found = read(folder, "python_cases")
    assert (found["passed"], found["failed"], found["not_run"]) == (2, 1, 1)
    assert (found["total"], found["deselected"]) == (4, 3)


def test_options_are_checked(folder):
    (folder / "file").write_text("")
    for options, words in (
        (["--report", folder / "file"], f"--report: expected a folder, found '{folder}/file'"),
        (["--report", folder, "--report-name", "../a"], "--report-name: expected lower case"),
        (["--report-name", "other"], "--report-name: needs --report FOLDER"),
    ):
        done = run(folder.parents[1], *options, "test_cases.py")
        assert done.returncode == 4 and words in done.stderr, done
