# SPDX-License-Identifier: Apache-2.0
"""Creation and data type functions against NumPy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import backplane as bp
import backplane.array_api as xp
import standard
import support
from support import assert_close, assert_equal, on

xps = make_strategies_namespace(xp)
DEVICES = st.sampled_from(support.DEVICES)


@pytest.mark.parametrize("name", standard.DTYPES)
@given(data=st.data())
def test_hypothesis_makes_our_tensors(name, data):
    """Its strategies speak to the namespace alone: what they draw keeps its dtype and shape."""
    shape = data.draw(xps.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    x = data.draw(xps.arrays(getattr(xp, name), shape))
    assert isinstance(x, bp.Tensor) and x.dtype == name and x.shape == shape
    assert_equal(xp.asarray(x.numpy(copy=True)), x.numpy())


@given(
    device=DEVICES,
    start=st.integers(-20, 20),
    stop=st.none() | st.integers(-20, 20),
    step=st.integers(-4, 4).filter(bool),
    dtype=st.sampled_from([None, "int16", "int64", "float32", "float64"]),
)
def test_arange(device, start, stop, step, dtype):
    found = xp.arange(start, stop, step, dtype=dtype and getattr(xp, dtype), device=device)
    numbers = (0, start) if stop is None else (start, stop)
    assert_equal(found, np.arange(*numbers, step, dtype=dtype or "int64"))
    assert found.device.name == device
    zeros = xp.zeros(found.shape, dtype=found.dtype, device=device)
    assert_equal(xp.add(found, zeros), found.numpy())


@given(
    device=DEVICES,
    start=st.floats(-4, 4),
    length=st.floats(0.1, 4),
    step=st.floats(0.1, 1),
    dtype=st.sampled_from(support.REAL_FLOATING),
)
def test_arange_of_floats(device, start, length, step, dtype):
    stop = start + length
    found = xp.arange(start, stop, step, dtype=getattr(xp, dtype), device=device)
    count = math.ceil((stop - start) / step)
    assert_close(found, (start + np.arange(count) * step).astype(dtype), scale=4)


def test_arange_edges(device):
    assert xp.arange(5, device=device).dtype is xp.int64
    assert xp.arange(2.0, device=device).dtype is xp.float32
    assert xp.arange(0, 2**40, 2**39, device=device).tolist() == [0, 2**39]
    large = xp.arange(2**64 - 2, 2**64, dtype=xp.uint64, device=device)
    assert large.tolist() == [2**64 - 2, 2**64 - 1]
    for bad in (0, 0.0):
        with pytest.raises(ValueError, match="arange: argument 'step': found 0"):
            xp.arange(1, 2, bad, device=device)
    for bad in (np.inf, -np.inf, np.nan):
        with pytest.raises(ValueError, match="arange: argument 'stop': found"):
            xp.arange(0, bad, device=device)
    with pytest.raises(ValueError, match="arange: argument 'step': too small"):
        xp.arange(1e308, -1e308, -1e-3, device=device)
    with pytest.raises(MemoryError):
        xp.arange(2**50, device=device)
    with pytest.raises(TypeError, match="arange: argument 'start': expected a number, found str"):
        xp.arange("1", device=device)
    with pytest.raises(TypeError, match="arange: argument 'dtype': expected a real-valued"):
        xp.arange(3, dtype=xp.bool, device=device)


def test_arange_to_the_ends_of_dtypes(device):
    ends = [("int8", -128, 127, 255), ("int64", -(2**63), 2**63 - 1, 2**62), ("int64", 0, 3, 2**70)]
    ends += [("uint64", 0, 2**64, 2**63), ("uint64", 2**64 - 1, -1, -(2**62)), ("uint8", 9, 9, 1)]
    for dtype, start, stop, step in ends:
        found = xp.arange(start, stop, step, dtype=dtype, device=device)
        assert found.tolist() == list(range(start, stop, step))
    for dtype, start, stop, step in [("uint8", 0, 1000, 300), ("int64", 0, 2**63 + 1, 2**63)]:
        with pytest.raises(OverflowError, match=f"^arange: argument 'stop': .* of {dtype}"):
            xp.arange(start, stop, step, dtype=dtype, device=device)
    for start in (-5, -5.5):
        with pytest.raises(OverflowError, match="^arange: argument 'start': .* of uint64"):
            xp.arange(start, 5, dtype="uint64", device=device)
    found = xp.arange(0, 2**65, 2**63, dtype="float64", device=device)
    assert found.tolist() == [i * 2.0**63 for i in range(4)]
    wide = xp.arange(-1e308, 1e308, 5e307, dtype="float64", device=device)
    assert wide.tolist() == [-1e308, -5e307, 0, 5e307]
    assert xp.arange(1e308, -1e308, 5e307, device=device).shape == (0,)


@given(
    device=DEVICES,
    start=st.floats(-8, 8),
    stop=st.floats(-8, 8),
    num=st.integers(0, 9),
    endpoint=st.booleans(),
    dtype=st.sampled_from([None, *support.FLOATING]),
)
def test_linspace(device, start, stop, num, endpoint, dtype):
    found = xp.linspace(
        start, stop, num, endpoint=endpoint, dtype=dtype and getattr(xp, dtype), device=device
    )
    expected = np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype or "float32")
    assert_close(found, expected, scale=8)
    if endpoint and num > 1:
        assert found.numpy()[-1] == expected.dtype.type(stop)


def test_linspace_of_complex(device):
    found = xp.linspace(1, 2 + 4j, 3, device=device)
    assert found.dtype is xp.complex64 and found.tolist() == [1, 1.5 + 2j, 2 + 4j]
    with pytest.raises(ValueError, match="linspace: argument 'num': expected 0 or more"):
        xp.linspace(0, 1, -1, device=device)
    with pytest.raises(TypeError, match="linspace: argument 'dtype': complex numbers have no"):
        xp.linspace(0, 1j, 3, dtype="float32", device=device)


def test_linspace_of_a_distance_beyond_floats(device):
    found = xp.linspace(-1e308, 1e308, 5, dtype="float64", device=device)
    assert found.tolist() == [-1e308, -5e307, 0, 5e307, 1e308]


@given(
    device=DEVICES,
    rows=st.integers(0, 5),
    columns=st.none() | st.integers(0, 5),
    k=st.integers(-6, 6),
    dtype=st.sampled_from([None, *standard.DTYPES]),
)
def test_eye(device, rows, columns, k, dtype):
    found = xp.eye(rows, columns, k=k, dtype=dtype and getattr(xp, dtype), device=device)
    assert_equal(found, np.eye(rows, columns, k, dtype=dtype or "float32"))


@pytest.mark.parametrize("name", standard.DTYPES)
def test_filled(device, name):
    dtype = getattr(xp, name)
    for shape in ((), (0,), (2, 3), 3):
        for make, value in ((xp.zeros, 0), (xp.ones, 1)):
            x = make(shape, dtype=dtype, device=device)
            assert_equal(x, np.full(shape, value, name))
        assert xp.empty(shape, dtype=dtype, device=device).shape == np.empty(shape).shape
        assert_equal(xp.full(shape, True, dtype=dtype, device=device), np.full(shape, 1, name))
    like = xp.ones((2, 1), dtype=dtype, device=device)
    assert_equal(xp.zeros_like(like), np.zeros((2, 1), name))
    assert_equal(xp.ones_like(like, dtype=xp.int8), np.ones((2, 1), "int8"))
    assert_equal(xp.full_like(like, 1), np.ones((2, 1), name))
    assert xp.empty_like(like).dtype is dtype and xp.empty_like(like).device.name == device
    assert xp.zeros_like(like, device="cpu:0").device.name == "cpu:0"


def test_default_dtypes(device):
    for value, dtype in ((True, xp.bool), (3, xp.int64), (1.5, xp.float32), (1j, xp.complex64)):
        assert xp.asarray(value, device=device).dtype is dtype
        assert xp.full(2, value, device=device).dtype is dtype
    assert xp.full(2, xp.asarray(3.0, device=device), device=device).tolist() == [3, 3]
    for make in (xp.ones, xp.zeros, xp.empty):
        assert make(2, device=device).dtype is xp.float32
    assert xp.eye(2, device=device).dtype is xp.linspace(0, 1, 2).dtype is xp.float32


def test_asarray(device):
    x = xp.asarray([[1, 2], [3, 4]], device=device)
    assert xp.asarray(x) is x and xp.asarray(x, copy=False) is x
    assert xp.asarray(x, copy=True) is not x
    assert xp.asarray(x, dtype=xp.complex64).tolist() == [[1, 2], [3, 4]]
    assert xp.asarray(x, dtype=xp.float64).dtype is xp.float64
    with pytest.raises(ValueError, match="asarray: argument 'copy' is False, and float32 of int64"):
        xp.asarray(x, dtype=xp.float32, copy=False)
    with pytest.raises(TypeError):
        xp.asarray(obj=1)


def test_asarray_of_lists_of_arrays(device):
    source = np.array([16777217.0, 1e300])
    assert_equal(xp.asarray([source, source], device=device), np.stack([source, source]))
    x = xp.asarray([1, 2], dtype=xp.int8, device=device)
    found = xp.asarray([x, [3, 4]])
    assert found.device.name == device
    assert_equal(found, np.array([[1, 2], [3, 4]], "int8"))
    assert xp.asarray([x], dtype=xp.float64).dtype is xp.float64
    with pytest.raises(ValueError, match="asarray: .* both uint64 and int64"):
        xp.asarray([np.uint64(1), np.int64(1)], device=device)
    other = "npu:0" if device == "cpu:0" else "cpu:0"
    with pytest.raises(ValueError, match=f"tensors on {device}, found one on {other}"):
        xp.asarray([x, xp.asarray([1, 2], device=other)])


def test_from_dlpack(device):
    source = np.arange(6.0).reshape(2, 3)
    assert_equal(xp.from_dlpack(source), source)
    x = xp.from_dlpack(source, device=device)
    assert x.device.name == device and xp.from_dlpack(x).device.name == device
    assert_equal(xp.from_dlpack(x, copy=True, device="cpu:0"), source)
    with pytest.raises((AttributeError, TypeError)):
        xp.from_dlpack([1.0])


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(device, indexing):
    for count in range(4):
        vectors = [np.arange(3 + i, dtype="int32") for i in range(count)]
        found = xp.meshgrid(*(on(device, v) for v in vectors), indexing=indexing)
        expected = np.meshgrid(*vectors, indexing=indexing)
        assert isinstance(found, tuple) and len(found) == len(expected)
        for one, wanted in zip(found, expected):
            assert_equal(one, wanted)


def test_meshgrid_refuses(device):
    x = xp.ones(2, device=device)
    with pytest.raises(ValueError, match="meshgrid: argument 'indexing': expected 'xy' or 'ij'"):
        xp.meshgrid(x, indexing="yx")
    with pytest.raises(ValueError, match=r"meshgrid: argument 'arrays\[1\]': expected one dim"):
        xp.meshgrid(x, xp.ones((2, 2), device=device))
    with pytest.raises(TypeError, match=r"meshgrid: argument 'arrays\[1\]': expected float32"):
        xp.meshgrid(x, xp.asarray([1], device=device))


@given(data=st.data())
def test_triangles(data):
    shape = data.draw(st.tuples(*[st.integers(0, 4)] * data.draw(st.integers(2, 3))))
    x = data.draw(support.arrays(support.ANY, shape))
    k = data.draw(st.integers(-6, 6))
    device = data.draw(DEVICES)
    assert_equal(xp.tril(on(device, x), k=k), np.tril(x, k))
    assert_equal(xp.triu(on(device, x), k=k), np.triu(x, k))
    with pytest.raises(ValueError, match="tril: argument 'x': expected at least 2"):
        xp.tril(xp.ones(2, device=device))


@given(data=st.data())
def test_astype(data):
    x = data.draw(support.arrays(support.ANY, low=0, high=8))
    name = data.draw(st.sampled_from(standard.DTYPES))
    device = data.draw(DEVICES)
    tensor = on(device, x)
    if x.dtype.kind == "c" and np.dtype(name).kind not in "bc":
        with pytest.raises(TypeError, match=f"complex numbers have no {name}"):
            xp.astype(tensor, getattr(xp, name))
        return
    found = xp.astype(tensor, getattr(xp, name))
    assert_equal(found, x.astype(name))
    assert found is not tensor
    assert_equal(tensor.astype(name), x.astype(name))


def test_astype_keywords(device):
    x = xp.ones(2, device=device)
    assert xp.astype(x, xp.float32, copy=False) is x
    assert xp.astype(x, xp.int8, device="cpu:0").device.name == "cpu:0"
    assert xp.astype(x, xp.float32, device="cpu:0").tolist() == [1, 1]
    with pytest.raises(TypeError, match="astype: argument 'dtype': no dtype is named by 'int7'"):
        xp.astype(x, "int7")
    with pytest.raises(TypeError, match="astype: argument 'copy': expected a bool"):
        xp.astype(x, xp.int8, copy=1)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "complex64", "complex128"])
def test_finfo(name):
    found, expected = xp.finfo(bp.dtype(name)), np.finfo(name)
    assert found == xp.finfo(bp.ones(1, dtype=name))
    for field in ("bits", "eps", "max", "min", "smallest_normal"):
        assert float(getattr(found, field)) == float(getattr(expected, field))
        assert type(getattr(found, field)) is (int if field == "bits" else float)
    assert found.dtype == expected.dtype


def test_finfo_of_bfloat16():
    import ml_dtypes

    found, expected = xp.finfo(bp.bfloat16), ml_dtypes.finfo("bfloat16")
    assert (found.eps, found.max) == (float(expected.eps), float(expected.max))
    assert found.smallest_normal == float(expected.smallest_normal)


@pytest.mark.parametrize("name", support.INTEGRAL)
def test_iinfo(name):
    found, expected = xp.iinfo(getattr(xp, name)), np.iinfo(name)
    assert (found.bits, found.min, found.max) == (expected.bits, expected.min, expected.max)
    assert found.dtype == name and found == xp.iinfo(bp.ones(1, dtype=name))


def test_limits_refuse():
    with pytest.raises(TypeError, match="finfo: argument 'type': expected a floating-point"):
        xp.finfo(xp.int8)
    with pytest.raises(TypeError, match="iinfo: argument 'type': expected an integral"):
        xp.iinfo(xp.float32)
    with pytest.raises(TypeError, match="iinfo: argument 'type': no dtype is named by 'int7'"):
        xp.iinfo("int7")


KINDS = ["bool", "signed integer", "unsigned integer", "integral", "real floating"]
KINDS += ["complex floating", "numeric"]


@pytest.mark.parametrize("name", standard.DTYPES)
def test_isdtype(name):
    dtype = getattr(xp, name)
    for kind in KINDS:
        assert xp.isdtype(dtype, kind) == np.isdtype(np.dtype(name), kind)
    assert xp.isdtype(dtype, dtype) and xp.isdtype(dtype, ("bool", "numeric"))
    assert not xp.isdtype(dtype, ()) and xp.isdtype(dtype, (dtype, "bool"))


def test_isdtype_refuses():
    with pytest.raises(ValueError, match="isdtype: argument 'kind'.*'integer'"):
        xp.isdtype(xp.int8, "integer")
    with pytest.raises(ValueError, match="isdtype: argument 'kind'"):
        xp.isdtype(xp.int8, ("integral", "nothing"))
    with pytest.raises(TypeError, match="isdtype: argument 'dtype'"):
        xp.isdtype(3, "bool")


@pytest.mark.parametrize("source", standard.DTYPES)
def test_can_cast(source):
    import array_api_strict

    for target in standard.DTYPES:
        expected = array_api_strict.can_cast(
            getattr(array_api_strict, source), getattr(array_api_strict, target)
        )
        assert xp.can_cast(getattr(xp, source), getattr(xp, target)) == expected
        assert xp.can_cast(bp.ones(1, dtype=source), getattr(xp, target)) == expected
