# SPDX-License-Identifier: Apache-2.0
import pickle

import ml_dtypes
import numpy as np
import pytest

import backplane as bp

NUMPY_NAMES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
ML_NAMES = [
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]


@pytest.mark.parametrize("name", NUMPY_NAMES)
def test_dtype_equals_numpys(name):
    dtype = getattr(bp, name)
    assert dtype.name == name == str(dtype)
    assert dtype.itemsize == np.dtype(name).itemsize
    assert dtype == name and dtype == np.dtype(name) and np.dtype(name) == np.dtype(dtype.name)
    assert dtype == np.dtype(name).type
    assert bp.dtype(name) is dtype and bp.dtype(np.dtype(name)) is dtype
    assert bp.dtype(np.dtype(name).type) is dtype


@pytest.mark.parametrize("name", ML_NAMES)
def test_dtype_equals_ml_dtypes(name):
    dtype = getattr(bp, name)
    assert dtype == np.dtype(getattr(ml_dtypes, name))
    assert dtype == getattr(ml_dtypes, name)
    assert dtype.itemsize == np.dtype(getattr(ml_dtypes, name)).itemsize


def test_dtype_unequal_to_others():
    assert bp.float32 != bp.float64 and bp.float32 != "float64" and bp.float32 != np.float64
    assert bp.float32 != None and bp.float32 != 3 and bp.float32 != object()  # noqa: E711
    assert bp.int32 != np.dtype(">i4")
    assert len({bp.float32, bp.float64, bp.float32}) == 2


def test_dtype_of_python_types():
    assert bp.dtype(bool) is bp.bool and bp.dtype(int) is bp.int64
    assert bp.dtype(float) is bp.float32 and bp.dtype(complex) is bp.complex64


def test_dtype_pickles():
    assert pickle.loads(pickle.dumps(bp.bfloat16)) is bp.bfloat16
    assert repr(bp.float32) == "backplane.float32"


@pytest.mark.parametrize("bad", ["float31", "", object(), 3, None, np.dtype("M8[s]"), str])
def test_dtype_unknown_raises(bad):
    with pytest.raises(TypeError, match="dtype"):
        bp.dtype(bad)


@pytest.mark.parametrize("name", ["float16", *ML_NAMES])
def test_small_floats_round_as_ml_dtypes(name):
    """Every code, and random numbers, of the floats that C++ has no type for."""
    target = np.dtype(name) if name == "float16" else np.dtype(getattr(ml_dtypes, name))
    bits = np.arange(256**target.itemsize).astype(f"u{target.itemsize}")
    values = bits.view(target).astype(np.float64)
    tensor = bp.asarray(bits.view(target))
    assert tensor.dtype == name
    np.testing.assert_array_equal(np.array(tensor.tolist()), values)
    rng = np.random.default_rng(7)
    spread = np.exp2(rng.uniform(-20, 20, 3000)) * rng.choice([-1.0, 1.0], 3000)
    if name == "float8_e8m0fnu":
        spread = np.abs(spread)
    finite = values[np.isfinite(values)]
    limit = np.abs(finite).max()
    spread = np.concatenate([spread[np.abs(spread) < limit], finite[:4096]])
    found = bp.asarray(spread.tolist(), dtype=name).numpy()
    # ml_dtypes rounds by way of float32; keep to values that are exact there.
    exact = spread.astype(np.float32) == spread
    expected = spread[exact].astype(target)
    np.testing.assert_array_equal(found[exact].astype(np.float64), expected.astype(np.float64))
