# SPDX-License-Identifier: Apache-2.0
import pickle
import re

import ml_dtypes
import numpy as np
import onnx_models
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
    named = type("Named", (), {"name": "float32", "isnative": "yes"})()
    assert bp.float32 == named and bp.float64 != named
    assert bp.float32 != "\ud800" and bp.float32 != "float32\0"
    assert len({bp.float32, bp.float64, bp.float32}) == 2


def test_dtype_of_python_types():
    assert bp.dtype(bool) is bp.bool and bp.dtype(int) is bp.int64
    assert bp.dtype(float) is bp.float32 and bp.dtype(complex) is bp.complex64


def test_dtype_pickles():
    assert pickle.loads(pickle.dumps(bp.bfloat16)) is bp.bfloat16
    assert repr(bp.float32) == "backplane.float32"


SHORT_NAMES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16",
    "i16": "int16", "i32": "int32", "i64": "int64",
    "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "c64": "complex64", "c128": "complex128",
    "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu",
}  # fmt: skip


@pytest.mark.parametrize("short", SHORT_NAMES)
def test_names_of_the_library(short):
    dtype = getattr(bp, SHORT_NAMES[short])
    assert bp.dtype(short) is dtype and dtype == short
    assert bp.empty(1, dtype=short).dtype is dtype
    assert bp.ops.cast(bp.zeros(1), "f16").dtype is bp.float16


AMBIGUOUS = [("i8", "int8", "int64"), ("u8", "uint8", "uint64")]


@pytest.mark.parametrize("short, ours, numpys", AMBIGUOUS)
def test_names_that_numpy_has_for_others(short, ours, numpys):
    assert np.dtype(short) == numpys
    assert getattr(bp, ours) != short and getattr(bp, numpys) != short
    words = f"no dtype is named by '{short}': it is {ours} to this library, and {numpys} to NumPy"
    for call in (bp.dtype, lambda given: bp.zeros(1, dtype=given),
                 lambda given: bp.ops.cast(bp.zeros(1), given)):
        with pytest.raises(TypeError, match=words):
            call(short)


def test_words_of_errors_name_dtypes():
    """What a refusal calls a dtype is a name that dtype() knows, or says what to write."""
    session = bp.load(onnx_models.add())
    for name in (*NUMPY_NAMES, *ML_NAMES):
        if name == "float32":
            continue  # which the model takes
        with pytest.raises(ValueError, match="found") as caught:
            session(bp.zeros(3), bp.empty(3, dtype=name))
        found = re.search(r"found (\w+)", str(caught.value)).group(1)
        if found in ("i8", "u8"):
            assert name in ("int8", "uint8")
        else:
            assert bp.dtype(found) == name


@pytest.mark.parametrize(
    "bad", ["float31", "\ud800", "float32\0", "", object(), 3, None, np.dtype("M8[s]"), str]
)
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
