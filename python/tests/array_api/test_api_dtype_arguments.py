# SPDX-License-Identifier: Apache-2.0
"""Every function with a dtype takes what asarray() takes: a Dtype, a name, NumPy's dtypes and
types, Python's types."""

import inspect

import numpy as np
import pytest

import backplane as bp
import backplane.array_api as xp

X = bp.asarray([[1.0, 2.0], [3.0, 4.0]])
CALLS = {
    xp.arange: lambda **given: xp.arange(3, **given),
    xp.asarray: lambda **given: xp.asarray(X, **given),
    xp.astype: lambda **given: xp.astype(X, given["dtype"]),
    xp.cumulative_prod: lambda **given: xp.cumulative_prod(X, axis=0, **given),
    xp.cumulative_sum: lambda **given: xp.cumulative_sum(X, axis=0, include_initial=True, **given),
    xp.empty: lambda **given: xp.empty(3, **given),
    xp.empty_like: lambda **given: xp.empty_like(X, **given),
    xp.eye: lambda **given: xp.eye(3, **given),
    xp.full: lambda **given: xp.full(3, 1, **given),
    xp.full_like: lambda **given: xp.full_like(X, 1, **given),
    xp.linspace: lambda **given: xp.linspace(0, 1, 3, **given),
    xp.ones: lambda **given: xp.ones(3, **given),
    xp.ones_like: lambda **given: xp.ones_like(X, **given),
    xp.prod: lambda **given: xp.prod(X, **given),
    xp.sum: lambda **given: xp.sum(X, **given),
    xp.zeros: lambda **given: xp.zeros(3, **given),
    xp.zeros_like: lambda **given: xp.zeros_like(X, **given),
    xp.linalg.trace: lambda **given: xp.linalg.trace(X, **given),
    xp.fft.fftfreq: lambda **given: xp.fft.fftfreq(3, **given),
    xp.fft.rfftfreq: lambda **given: xp.fft.rfftfreq(3, **given),
}
NAMED = {
    "Dtype": bp.float64, "name": "float64", "short name": "f64", "NumPy's dtype": np.dtype("f8"),
    "NumPy's type": np.float64,
}  # fmt: skip


def test_none_is_missing():
    found = [
        getattr(module, name)
        for module in (xp, xp.linalg, xp.fft)
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
        and "dtype" in inspect.signature(getattr(module, name)).parameters
    ]
    assert set(found) == {*CALLS, xp.isdtype}


@pytest.mark.parametrize("given", NAMED.values(), ids=NAMED)
@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_dtypes(function, given):
    found, expected = CALLS[function](dtype=given), CALLS[function](dtype=bp.float64)
    assert found.dtype is bp.float64
    if "empty" not in function.__name__:
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_python_types_and_mistakes(function):
    assert CALLS[function](dtype=float).dtype is bp.float32
    name = function.__name__
    for bad in ("float31", np.dtype("M8[s]"), object(), 3, np.dtype(">f8")):
        with pytest.raises(TypeError, match=rf"{name}: argument 'dtype': no dtype is named by"):
            CALLS[function](dtype=bad)
    with pytest.raises(TypeError, match=rf"{name}: .*'i8'.*int8 to this library"):
        CALLS[function](dtype="i8")


@pytest.mark.parametrize("given", NAMED.values(), ids=NAMED)
def test_of_dtypes_themselves(given):
    assert xp.finfo(given) == xp.finfo(bp.float64)
    assert xp.iinfo("int16") == xp.iinfo(np.int16) == xp.iinfo(bp.int16)
    assert xp.can_cast(np.float32, given) and not xp.can_cast(given, "float32")
    assert xp.isdtype(given, "real floating") and xp.isdtype(bp.float64, (np.float64,))
    assert xp.result_type(given, "float32") is bp.float64
    assert xp.result_type(X, given, 1.0) is bp.float64
    for call in (xp.finfo, lambda bad: xp.can_cast(bad, given), lambda bad: xp.result_type(bad, X),
                 lambda bad: xp.isdtype(bad, "bool"), lambda bad: xp.isdtype(given, (bad,))):
        with pytest.raises(TypeError, match="no dtype is named by <object"):
            call(object())


def test_asarray_does_not_copy_what_has_the_dtype():
    assert xp.asarray(X, dtype=float, copy=False) is X
    with pytest.raises(ValueError, match="float64 of float32 needs a copy"):
        xp.asarray(X, dtype="f64", copy=False)
