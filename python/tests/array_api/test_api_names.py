# SPDX-License-Identifier: Apache-2.0
"""Every name of the standard is there, with its signature."""

import inspect
import math
import pathlib
import subprocess
import sys

import array_api_strict
import pytest

import backplane as bp
import backplane.array_api as xp
import standard


def missing(namespace, names):
    return [name for name in names if not hasattr(namespace, name)]


def test_nothing_is_missing():
    names = standard.CONSTANTS + standard.DTYPES + standard.FUNCTIONS
    assert missing(xp, names) == []
    assert missing(xp.linalg, standard.LINALG) == []
    assert missing(xp.fft, standard.FFT) == []
    assert missing(xp.__array_namespace_info__(), standard.INFO) == []
    assert missing(bp.ones((2, 2)), standard.ATTRIBUTES + standard.METHODS) == []


def test_nothing_else_is_exported():
    known = {*standard.CONSTANTS, *standard.DTYPES, *standard.FUNCTIONS}
    known |= {"linalg", "fft", "__array_api_version__"}
    assert set(xp.__all__) == known
    assert set(xp.linalg.__all__) == set(standard.LINALG)
    assert set(xp.fft.__all__) == set(standard.FFT)


def test_the_list_is_all_of_array_api_strict():
    """The list by hand against another list of others: what strict has of the standard."""
    own = {"ArrayAPIStrictFlags", "Device", "ModuleType", "get_array_api_strict_flags"}
    own |= {"reset_array_api_strict_flags", "set_array_api_strict_flags"}
    theirs = {name for name in dir(array_api_strict) if not name.startswith("_")} - own
    theirs -= {"linalg", "fft"}
    assert theirs - {*standard.CONSTANTS, *standard.DTYPES, *standard.FUNCTIONS} == set()
    assert set(array_api_strict.linalg.__all__) - set(standard.LINALG) == set()
    assert set(array_api_strict.fft.__all__) - set(standard.FFT) == set()


def _parameters(function):
    found = []
    for parameter in inspect.signature(function).parameters.values():
        default = parameter.default
        # strict marks what is not given with an object of its own, where the standard has None.
        if type(default).__name__ == "Undef":
            default = None
        found.append((parameter.name, parameter.kind, default))
    return found


def _functions():
    for name in standard.FUNCTIONS:
        yield name, xp, array_api_strict
    for name in standard.LINALG:
        yield f"linalg.{name}", xp.linalg, array_api_strict.linalg
    for name in standard.FFT:
        yield f"fft.{name}", xp.fft, array_api_strict.fft


@pytest.mark.parametrize("name, ours, theirs", list(_functions()))
def test_signatures(name, ours, theirs):
    function = getattr(ours, name.rpartition(".")[2])
    if name in standard.SIGNATURES:
        without = inspect.signature(function)
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in without.parameters.values()]
        assert str(inspect.Signature(bare)) == standard.SIGNATURES[name]
        return
    assert _parameters(function) == _parameters(getattr(theirs, name.rpartition(".")[2]))
    assert function.__doc__


def test_constants_and_version():
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(xp.nan) and xp.__array_api_version__ == "2025.12"
    for name in standard.DTYPES:
        assert getattr(xp, name) is getattr(bp, name)


def test_namespace_of_a_tensor(device):
    x = bp.ones(2, device=device)
    assert x.__array_namespace__() is xp
    for version in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12", None):
        assert x.__array_namespace__(api_version=version) is xp
    for bad in ("2020.12", "1", 2025):
        with pytest.raises(ValueError, match="__array_namespace__: argument 'api_version'"):
            x.__array_namespace__(api_version=bad)


def test_inspection(device):
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 16,
    }
    assert info.devices() == tuple(bp.devices())
    assert info.default_device() == bp.default_runtime().default_device == bp.ones(1).device
    for where in (None, device, bp.device(device)):
        assert info.default_dtypes(device=where) == {
            "real floating": xp.float32,
            "complex floating": xp.complex64,
            "integral": xp.int64,
            "indexing": xp.int64,
        }
        assert info.dtypes(device=where) == {name: getattr(xp, name) for name in standard.DTYPES}
    assert list(info.dtypes(kind="bool")) == ["bool"]
    assert list(info.dtypes(kind=("signed integer", "bool"))) == standard.DTYPES[:5]
    assert list(info.dtypes(kind="real floating")) == ["float32", "float64"]
    assert list(info.dtypes(kind="numeric")) == standard.DTYPES[1:]
    assert info.dtypes(kind=()) == {}


def test_inspection_refuses():
    info = xp.__array_namespace_info__()
    with pytest.raises(ValueError, match="dtypes: argument 'kind'.*'floating'"):
        info.dtypes(kind="floating")
    with pytest.raises(TypeError, match="default_dtypes: argument 'device': expected a Device"):
        info.default_dtypes(device=3)
    with pytest.raises(bp.Error, match="no:1"):
        info.dtypes(device="no:1")


def test_lines_of_the_readme():
    page = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    blocks = [part.split("```")[0] for part in page.split("```python\n")[1:]]
    [lines] = [block for block in blocks if "import backplane.array_api" in block]
    command = [sys.executable, "-B", "-c", lines]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    # The sum of e to the powers 0, 1/4, 1/2, 3/4 and 1.
    assert run.stdout == "tensor(8.76803, dtype=float32, device='npu:0') True\n", run.stderr
