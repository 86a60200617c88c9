# SPDX-License-Identifier: Apache-2.0
"""Which functions the devices compute themselves: native_npu.txt, native_xpu.txt; they only grow.

Each call has small float32 tensors (integers and bools where a function wants those). Not in the
lists are the functions of linalg that LAPACK computes on the host.
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

# How many functions the lists have. They only grow, and whoever makes one longer writes its new
# length here: a name that is taken out of a file alone is missed.
LISTED = {"npu:0": 154, "xpu:0": 154}

# They answer no tensor.
WITHOUT_TENSORS = {"__array_namespace_info__", "broadcast_shapes", "can_cast", "finfo", "iinfo"}
WITHOUT_TENSORS |= {"isdtype", "result_type"}
# What they answer is a view, or memory that nothing was written to.
WITHOUT_LAUNCHES = set(
    """broadcast_arrays broadcast_to empty empty_like expand_dims flip linalg.diagonal
    linalg.matrix_transpose matrix_transpose meshgrid moveaxis permute_dims squeeze unstack
    """.split()
)
# Values say what shape the result has: one read each.
SHAPES_BY_VALUES = set(
    "nonzero repeat unique_all unique_counts unique_inverse unique_values".split()
)

OF_ONE = """abs ceil conj cos cosh exp expm1 floor isfinite isinf isnan log log10 log1p log2
    negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc asinh
    atan acosh tril triu flip unstack argmax argmin count_nonzero nonzero unique_all unique_counts
    unique_inverse unique_values sort argsort sum prod max min mean var std all any diff
    matrix_transpose linalg.matrix_transpose linalg.diagonal linalg.trace linalg.vector_norm
    linalg.matrix_norm linalg.matrix_rank linalg.pinv linalg.qr linalg.svd linalg.svdvals fft.fft
    fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifftn fft.ifftshift fft.ihfft fft.irfft fft.irfftn
    fft.rfft fft.rfftn empty_like ones_like zeros_like""".split()
OF_SQUARE = """linalg.cholesky linalg.det linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh
    linalg.inv linalg.slogdet""".split()
OF_UNIT = "acos asin atanh".split()
OF_TWO = """add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal
    logaddexp maximum minimum multiply nextafter not_equal pow remainder subtract isin tensordot
    vecdot linalg.tensordot linalg.vecdot meshgrid broadcast_arrays""".split()
OF_INTEGERS = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()
OF_BOOLS = "logical_and logical_or logical_xor".split()


class Calls:
    """name -> a call of the function, of tensors on one device."""

    def __init__(self, device):
        x = bp.asarray(np.arange(12, dtype="float32").reshape(3, 4) % 5 + 1, device=device)
        whole = x.astype("int32")
        truth = x > 2
        row, square = x[0], x[:, :3]
        places = bp.asarray([1, 0, 2], device=device)
        self.calls = {
            "arange": lambda: xp.arange(5, device=device),
            "asarray": lambda: xp.asarray(x, copy=True),
            "astype": lambda: xp.astype(x, xp.int32),
            "bitwise_invert": lambda: xp.bitwise_invert(whole),
            "broadcast_to": lambda: xp.broadcast_to(x, (2, 3, 4)),
            "clip": lambda: xp.clip(x, 2, 3),
            "concat": lambda: xp.concat([x, x]),
            "cumulative_prod": lambda: xp.cumulative_prod(x, axis=0),
            "cumulative_sum": lambda: xp.cumulative_sum(x, axis=0),
            "empty": lambda: xp.empty(3, device=device),
            "expand_dims": lambda: xp.expand_dims(x, 0),
            "eye": lambda: xp.eye(3, device=device),
            "from_dlpack": lambda: xp.from_dlpack(x, copy=True),
            "full": lambda: xp.full(3, 2.0, device=device),
            "full_like": lambda: xp.full_like(x, 2.0),
            "imag": lambda: xp.imag(xp.astype(x, xp.complex64)),
            "linspace": lambda: xp.linspace(0, 1, 5, device=device),
            "logical_not": lambda: xp.logical_not(truth),
            "matmul": lambda: xp.matmul(x, x.T),
            "moveaxis": lambda: xp.moveaxis(x, 0, 1),
            "ones": lambda: xp.ones(3, device=device),
            "permute_dims": lambda: xp.permute_dims(x, (1, 0)),
            "repeat": lambda: xp.repeat(x, places + 1, axis=0),
            "reshape": lambda: xp.reshape(x.T, (12,)),
            "roll": lambda: xp.roll(x, 1),
            "searchsorted": lambda: xp.searchsorted(row, x),
            "squeeze": lambda: xp.squeeze(x[None], 0),
            "stack": lambda: xp.stack([x, x]),
            "take": lambda: xp.take(x, places, axis=0),
            "take_along_axis": lambda: xp.take_along_axis(x, places[:, None], axis=1),
            "tile": lambda: xp.tile(x, (2, 2)),
            "where": lambda: xp.where(truth, x, x),
            "zeros": lambda: xp.zeros(3, device=device),
            "linalg.cross": lambda: xp.linalg.cross(square, square),
            "linalg.matmul": lambda: xp.linalg.matmul(x, x.T),
            "linalg.matrix_power": lambda: xp.linalg.matrix_power(square, 3),
            "linalg.outer": lambda: xp.linalg.outer(row, row),
            "fft.fftfreq": lambda: xp.fft.fftfreq(5, device=device),
            "fft.rfftfreq": lambda: xp.fft.rfftfreq(5, device=device),
        }
        self._add(OF_ONE, x)
        positive = xp.eye(3, device=device) * 9 + xp.ones((3, 3), device=device)
        self._add(OF_SQUARE, positive)
        self._add(["linalg.solve"], positive, positive)
        self._add(OF_UNIT, x / 8)
        self._add(OF_TWO, row, row)
        self._add(["tensordot", "linalg.tensordot"], x, x)
        self._add(OF_INTEGERS, whole, whole)
        self._add(OF_BOOLS, truth, truth)

    def _add(self, names, *operands):
        for name in names:
            space, _, function = name.rpartition(".")
            call = getattr(getattr(xp, space) if space else xp, function)
            self.calls[name] = lambda call=call: call(*operands)


def listed(device):
    path = pathlib.Path(__file__).with_name(f"native_{device.partition(':')[0]}.txt")
    lines = path.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_every_function_is_called():
    names = {*standard.FUNCTIONS, *(f"linalg.{name}" for name in standard.LINALG)}
    names |= {f"fft.{name}" for name in standard.FFT}
    assert set(Calls("cpu:0").calls) == names - WITHOUT_TENSORS
    for words in (WITHOUT_LAUNCHES, SHAPES_BY_VALUES):
        assert words <= names


def counts_of(device, call):
    """What the call added to the counters of the Device."""
    device.sync()
    before = device.counters
    call()
    device.sync()
    return {key: count - before[key] for key, count in device.counters.items()}


def is_native(name, counts):
    """The device launched it, and neither the library nor NumPy computed it on the host."""
    reads = 1 if name in SHAPES_BY_VALUES else 0
    is_launched = counts["launch_count"] > 0 or name in WITHOUT_LAUNCHES
    return is_launched and counts["fallback_count"] == 0 and counts["copy_out_count"] <= reads


def problems(device, calls, names):
    """What the list, of these names, says otherwise than the counters do."""
    path = f"native_{device.partition(':')[0]}.txt"
    counts = {name: counts_of(bp.device(device), call) for name, call in calls.items()}
    native = {name for name in calls if is_native(name, counts[name])}
    found = [f"{name}: on {device} no longer: {counts.get(name)}" for name in {*names} - native]
    found += [f"{name}: add it to {path}, for {device} computes it" for name in native - {*names}]
    if list(names) != sorted(set(names)):
        found.append(f"{path}: not in order, or a name twice")
    return sorted(found)


@pytest.mark.parametrize("device", [name for name in support.DEVICES if name != "cpu:0"])
def test_native_functions(device):
    """All of the list are native, and what has become native is in the list."""
    names = listed(device)
    assert problems(device, Calls(device).calls, names) == []
    assert len(names) == LISTED[device]


def test_what_the_list_misses_is_seen(monkeypatch):
    calls = Calls("npu:0").calls
    x = bp.ones((2, 3), device="npu:0")
    few = {name: calls[name] for name in ("add", "exp", "flip", "linalg.svd", "repeat")}
    names = ["add", "exp", "flip", "repeat"]
    assert problems("npu:0", few, names) == []
    for call in (
        lambda: bp.asarray(np.exp(x.numpy()), device="npu:0"),  # by way of the host
        lambda: bp.asarray([1.0, 2.0], device="npu:0"),  # made on the host
    ):
        [problem] = problems("npu:0", {**few, "exp": call}, names)
        assert problem.startswith("exp: on npu:0 no longer: {")
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
