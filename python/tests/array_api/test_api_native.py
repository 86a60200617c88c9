# SPDX-License-Identifier: Apache-2.0
"""Which functions the devices compute themselves: native_npu.txt, native_xpu.txt; they only grow.

Each function is called (calls.py) with tensors of every kind of dtype that it takes, and with more
elements than any small table has. Not in the lists are the functions of linalg that LAPACK computes
on the host.
"""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import backplane as bp
import backplane.array_api as xp
import standard
import support
from calls import WITHOUT_TENSORS, Calls, facts

# How many functions the lists have. They only grow, and whoever makes one longer writes its new
# length here: a name that is taken out of a file alone is missed.
LISTED = {"npu:0": 154, "xpu:0": 154}

# What they answer is a view, or memory that nothing was written to.
WITHOUT_LAUNCHES = set(
    """broadcast_arrays broadcast_to empty empty_like expand_dims flip imag linalg.diagonal
    linalg.matrix_transpose matrix_transpose meshgrid moveaxis permute_dims real squeeze unstack
    """.split()
)
# Values say what shape the result has: one read each.
SHAPES_BY_VALUES = set(
    "nonzero repeat unique_all unique_counts unique_inverse unique_values".split()
)


def listed(device):
    path = pathlib.Path(__file__).with_name(f"native_{device.partition(':')[0]}.txt")
    lines = path.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_function_is_called():
    names = {*standard.FUNCTIONS, *(f"linalg.{name}" for name in standard.LINALG)}
    names |= {f"fft.{name}" for name in standard.FFT}
    assert set(Calls(xp, "cpu:0").calls) == names - WITHOUT_TENSORS
    assert set(facts(xp)) == WITHOUT_TENSORS
    for words in (WITHOUT_LAUNCHES, SHAPES_BY_VALUES):
        assert words <= names


def counts_of(device, call):
    """What the call added to the counters of the Device."""
    device.sync()
    before = device.counters
    call()
    device.sync()
    return {key: count - before[key] for key, count in device.counters.items()}


# dtype and shape of the calls.
KINDS = {
    "float32": ("float32", (3, 4)),
    "int32": ("int32", (3, 4)),
    "bool": ("bool", (3, 4)),
    "complex64": ("complex64", (3, 4)),
    "complex128": ("complex128", (3, 4)),
    "4,900 of float32": ("float32", (70, 70)),
}


def calls_on(device):
    """name -> {kind: its call}."""
    found = {}
    for kind, (dtype, shape) in KINDS.items():
        for name, call in Calls(xp, device, dtype, shape).calls.items():
            found.setdefault(name, {})[kind] = call
    return found


def is_native(name, counts):
    """The device launched it, and neither the library nor NumPy computed it on the host."""
    reads = 1 if name in SHAPES_BY_VALUES else 0
    is_launched = counts["launch_count"] > 0 or name in WITHOUT_LAUNCHES
    return is_launched and counts["fallback_count"] == 0 and counts["copy_out_count"] <= reads


def fallbacks(device, name, calls):
    """{kind: what was counted} of those calls that the device did not compute itself; a dtype that
    the function does not take is no call, but one it must take."""
    found, taken = {}, 0
    for kind, call in calls.items():
        try:
            counts = counts_of(device, call)
        except TypeError:
            continue
        taken += 1
        if not is_native(name, counts):
            found[kind] = counts
    assert taken > 0, name
    return found


def problems(device, calls, names):
    """What the list, of these names, says otherwise than the counters do."""
    path = f"native_{device.partition(':')[0]}.txt"
    left = {name: fallbacks(bp.device(device), name, kinds) for name, kinds in calls.items()}
    native = {name for name in calls if not left[name]}
    found = [f"{name}: on {device} no longer: {left.get(name)}" for name in {*names} - native]
    found += [f"{name}: add it to {path}, for {device} computes it" for name in native - {*names}]
    if list(names) != sorted(set(names)):
        found.append(f"{path}: not in order, or a name twice")
    return sorted(found)


@pytest.mark.parametrize("device", [name for name in support.DEVICES if name != "cpu:0"])
def test_native_functions(device):
    """All of the list are native, and what has become native is in the list."""
    names = listed(device)
    assert problems(device, calls_on(device), names) == []
    assert len(names) == LISTED[device]


def test_what_the_list_misses_is_seen(monkeypatch):
    calls = calls_on("npu:0")
    x = bp.ones((2, 3), device="npu:0")
    few = {name: calls[name] for name in ("add", "exp", "flip", "linalg.svd", "repeat")}
    names = ["add", "exp", "flip", "repeat"]
    assert problems("npu:0", few, names) == []
    for call in (
        lambda: bp.asarray(np.exp(x.numpy()), device="npu:0"),  # by way of the host
        lambda: bp.asarray([1.0, 2.0], device="npu:0"),  # made on the host
    ):
        for kind in KINDS:
            with_it = {**few, "exp": {**few["exp"], kind: call}}
            [problem] = problems("npu:0", with_it, names)
            assert problem.startswith(f"exp: on npu:0 no longer: {{'{kind}': {{")
    assert problems("npu:0", few, names[1:]) == [
        "add: add it to native_npu.txt, for npu:0 computes it"
    ]
    [problem] = problems("npu:0", few, [*names[:3], "linalg.svd", "repeat"])
    assert problem.startswith("linalg.svd: on npu:0 no longer: {")
    [problem] = problems("npu:0", few, [*names[::-1]])
    assert problem == "native_npu.txt: not in order, or a name twice"


def test_a_fallback_is_seen():
    """Of a device that lacks a kernel."""
    with bp.Runtime(options={"npu.kernels": "gather"}) as runtime:
        device = runtime.device("npu:0")
        x, places = (bp.asarray([1, 0], device=device) for _ in range(2))
        counts = counts_of(device, lambda: xp.take(x, places, axis=0))
        assert counts["fallback_count"] == 1
    assert not is_native("take", {**counts, "copy_out_count": 0, "launch_count": 1})
    assert is_native("take", {"fallback_count": 0, "copy_out_count": 0, "launch_count": 1})


def test_host_functions_show_in_the_counters():
    where = bp.device("npu:0")
    x = bp.asarray([[2.0, 1.0], [1.0, 3.0]], device=where)
    before = where.counters
    assert xp.linalg.inv(x).device == where
    after = where.counters
    assert after["launch_count"] == before["launch_count"]
    for key in ("copy_out_count", "copy_in_count"):
        assert after[key] == before[key] + 1


ALONE = """
import backplane as bp, backplane.array_api as xp
assert [device.name for device in bp.devices()] == ["npu:0"]
x = xp.asarray([[3.0, 1.0], [2.0, 1.0]])
assert x.device.name == "npu:0" == xp.__array_namespace_info__().default_device().name
assert xp.arange(1, 7, 2).tolist() == [1, 3, 5] and xp.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
assert xp.unique_values(x).tolist() == [1, 2, 3] and xp.repeat(x[0], 2).tolist() == [3, 3, 1, 1]
assert xp.eye(2).tolist() == [[1, 0], [0, 1]] and xp.roll(x, 1).tolist() == [[1, 3], [1, 2]]
z = xp.astype(x, xp.complex64) * 1j
assert xp.abs(z).tolist() == x.tolist() and xp.sum(z @ z) == -26
assert x.device.counters["fallback_count"] == 0
"""


def test_a_device_without_a_host_beside_it():
    environment = {**os.environ, "BACKPLANE_PLUGINS": "npu"}
    command = [sys.executable, "-B", "-c", ALONE]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert run.returncode == 0, run.stderr
