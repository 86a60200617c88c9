# SPDX-License-Identifier: Apache-2.0
"""Every function of the standard in a process where NumPy cannot be imported. What it answers is
compared here with array-api-strict, and with NumPy where that takes more."""

import functools
import json
import pathlib
import subprocess
import sys

import array_api_strict
import numpy as np
import pytest

import standard
import support
from calls import WITHOUT_TENSORS, Calls, facts

DTYPES = ["float32", "int32", "bool", "complex64", "complex128"]

# They are NumPy's on every device, and on the host's too where the transforms are.
LAPACK = set("cholesky det eig eigh eigvals eigvalsh inv pinv qr slogdet solve svd".split())
LAPACK = {f"linalg.{name}" for name in (*LAPACK, "matrix_rank", "svdvals")}
TRANSFORMS = {f"fft.{name}" for name in standard.FFT if "freq" not in name and "shift" not in name}

CHILD = """
import json, sys
sys.modules["numpy"] = None  # an import of it is an ImportError
sys.path.insert(0, sys.argv[1])
import backplane as bp, backplane.array_api as xp
from calls import Calls, facts

def plain(x):
    numbers = x.flatten().tolist()
    return [str(x.dtype), x.shape, [[z.real, z.imag] if isinstance(z, complex) else z
                                    for z in numbers]]

found = {}
for device in sys.argv[3:]:
    for name, call in Calls(xp, device, sys.argv[2]).calls.items():
        try:
            answer = call()
        except (TypeError, bp.UnsupportedError) as error:
            found[f"{device} {name}"] = f"{type(error).__name__}: {error}"
            continue
        answer = answer if isinstance(answer, tuple) else [answer]
        assert all(x.device.name == device for x in answer), name
        found[f"{device} {name}"] = [plain(x) for x in answer]
print(json.dumps([facts(xp), found]))
"""


@functools.cache
def without_numpy(dtype):
    command = [sys.executable, "-B", "-c", CHILD, str(pathlib.Path(__file__).parent), dtype]
    run = subprocess.run(
        [*command, *support.DEVICES], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def expected(name, dtype):
    """Arrays of NumPy; None where neither takes the dtype."""
    for namespace in (array_api_strict, np):
        try:
            found = Calls(namespace, None, dtype).calls[name]()
        except (TypeError, AttributeError):
            continue
        found = found if isinstance(found, (tuple, list)) else [found]
        return [np.asarray(x) for x in found]
    return None


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_function(dtype):
    _, found = without_numpy(dtype)
    names = {*standard.FUNCTIONS, *(f"linalg.{name}" for name in standard.LINALG)}
    names |= {f"fft.{name}" for name in standard.FFT}
    wanted = {f"{device} {name}" for device in support.DEVICES for name in names - WITHOUT_TENSORS}
    assert set(found) == wanted
    for place, answer in found.items():
        device, name = place.split()
        if isinstance(answer, str):
            if dtype not in ("int32", "bool") and name in LAPACK | TRANSFORMS:
                continue  # test_what_needs_numpy_says_so
            assert answer.startswith("TypeError: "), (place, answer)
            continue
        oracle = expected(name, dtype)
        assert oracle is not None and len(oracle) == len(answer), place
        for (kind, shape, numbers), array in zip(answer, oracle):
            assert shape == list(array.shape), place
            if name.startswith("empty"):
                continue
            is_complex = kind.startswith("complex")
            values = np.asarray(numbers, "float64").reshape(-1, 2) if is_complex else numbers
            values = values[:, 0] + 1j * values[:, 1] if is_complex else np.asarray(values)
            np.testing.assert_allclose(
                values, array.flatten(), rtol=2e-6, atol=2e-6 * _size(array), err_msg=place
            )
            assert kind == str(array.dtype) or _is_default(name, kind), (place, kind)


def _size(array):
    finite = np.abs(array[np.isfinite(array)]) if array.dtype.kind in "fc" else np.zeros(0)
    return float(finite.max(initial=1))


def _is_default(name, kind):
    """Without a dtype, NumPy's and strict's floats are float64, and ours float32."""
    return name in ("fft.fftfreq", "fft.rfftfreq") and kind == "float32"


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_what_needs_numpy_says_so(dtype):
    _, found = without_numpy(dtype)
    refused = {place for place, answer in found.items() if str(answer).startswith("Unsupported")}
    complex_only = {"fft.rfft", "fft.rfftn", "fft.ihfft"} if dtype == "complex64" else set()
    wanted = {f"{device} {name}" for device in support.DEVICES for name in LAPACK}
    wanted |= {f"cpu:0 {name}" for name in TRANSFORMS - complex_only}
    assert refused == wanted
    for place in refused:
        name = place.split()[1]
        words = "NumPy computes this on the host, and it is not installed"
        assert found[place] == f"UnsupportedError: {name}: {words}"


def test_facts(monkeypatch):
    found, _ = without_numpy("float32")
    assert set(found) == WITHOUT_TENSORS
    # strict does not have it.
    monkeypatch.setattr(array_api_strict, "broadcast_shapes", np.broadcast_shapes, raising=False)
    assert found == json.loads(json.dumps(facts(array_api_strict)))
