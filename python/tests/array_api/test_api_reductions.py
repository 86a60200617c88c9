# SPDX-License-Identifier: Apache-2.0
"""Statistical, searching, sorting, set and utility functions against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backplane.array_api as xp
import support
from support import ANY, FLOATING, NUMERIC, REAL, arrays, assert_close, assert_equal, on
from support import with_axes, with_axis

DEVICES = st.sampled_from(support.DEVICES)


def widened(x):
    """The dtype that sums and products have where none is asked for."""
    return {"i": "int64", "u": "uint64"}.get(x.dtype.kind, x.dtype)


@pytest.mark.parametrize("name", ["sum", "prod"])
@given(data=st.data())
def test_sums(name, data):
    x, axis, keepdims = data.draw(with_axes(NUMERIC, low=-2, high=2))
    device = data.draw(DEVICES)
    found = getattr(xp, name)(on(device, x), axis=axis, keepdims=keepdims)
    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims, dtype=widened(x))
    if x.dtype.kind in "iu":
        assert_equal(found, expected)
    else:
        assert_close(found, expected, ulps=64, scale=np.abs(x).sum() + 1)
    wide = "complex128" if x.dtype.kind == "c" else "float64"
    found = getattr(xp, name)(on(device, x), axis=axis, dtype=getattr(xp, wide), keepdims=keepdims)
    expected = getattr(np, name)(x, axis=axis, keepdims=keepdims, dtype=wide)
    assert_close(found, expected, ulps=64, scale=np.abs(x).sum() + 1)


@pytest.mark.parametrize("name", ["max", "min"])
@given(data=st.data())
def test_extremes(name, data):
    x, axis, keepdims = data.draw(with_axes(REAL, min_side=1, special=True))
    device = data.draw(DEVICES)
    with np.errstate(invalid="ignore"):
        expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    assert_equal(getattr(xp, name)(on(device, x), axis=axis, keepdims=keepdims), expected)


def test_extremes_of_nothing(device):
    x = xp.ones((0, 2), device=device)
    assert xp.max(x, axis=0).tolist() == [-np.inf] * 2
    assert xp.min(x, axis=0).tolist() == [np.inf] * 2
    assert xp.max(xp.ones((0,), dtype=xp.int8, device=device)).item() == -128


@pytest.mark.parametrize("name", ["mean", "std", "var"])
@given(data=st.data())
def test_moments(name, data):
    dtypes = FLOATING if name == "mean" else support.REAL_FLOATING
    x, axis, keepdims = data.draw(with_axes(dtypes, min_side=1))
    device = data.draw(DEVICES)
    options = {} if name == "mean" else {"correction": data.draw(st.sampled_from([0, 0.5, 1]))}
    wide = x.astype("complex128" if x.dtype.kind == "c" else "float64")
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(wide, axis=axis, keepdims=keepdims, **options)
        # Of a single element NumPy divides 0 by 0, or by a negative number; the standard says NaN.
        count = wide.size / max(np.asarray(expected).size, 1)
        if count - options.get("correction", 0) <= 0:
            expected = np.full_like(expected, np.nan)
    found = getattr(xp, name)(on(device, x), axis=axis, keepdims=keepdims, **options)
    assert_close(found, np.asarray(expected).astype(x.dtype), ulps=64, scale=8)


def test_moments_of_nothing(device):
    x = xp.ones((0, 2), device=device)
    for function in (xp.mean, xp.std, xp.var):
        assert np.isnan(function(x, axis=0).numpy()).all()
        assert function(x, axis=1).shape == (0,)
    assert xp.var(xp.asarray([1e8, 1e8 + 16], device=device)).item() == 64  # two passes


@given(data=st.data())
def test_cumulative(data):
    x, axis = data.draw(with_axis(NUMERIC, low=-2, high=2))
    device = data.draw(DEVICES)
    initial = data.draw(st.booleans())
    options = {"axis": axis, "include_initial": initial}
    for name in ("cumulative_sum", "cumulative_prod"):
        found = getattr(xp, name)(on(device, x), **options)
        expected = getattr(np, name)(x, dtype=widened(x), **options)
        if x.dtype.kind in "iu":
            assert_equal(found, expected)
        else:
            assert_close(found, expected, ulps=64, scale=np.abs(x).sum() + 1)
        if x.ndim == 1:
            assert getattr(xp, name)(on(device, x)).shape == x.shape


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@given(data=st.data())
def test_positions(name, data):
    x, axis, keepdims = data.draw(with_axes(REAL, min_side=1, low=-2, high=2, special=True))
    device = data.draw(DEVICES)
    if isinstance(axis, tuple):
        axis = axis[0] if axis else None
    found = getattr(xp, name)(on(device, x), axis=axis, keepdims=keepdims)
    assert_equal(found, getattr(np, name)(x, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("name", ["all", "any", "count_nonzero"])
@given(data=st.data())
def test_truth(name, data):
    x, axis, keepdims = data.draw(with_axes(ANY, low=-1, high=1, special=True))
    device = data.draw(DEVICES)
    found = getattr(xp, name)(on(device, x), axis=axis, keepdims=keepdims)
    assert_equal(found, getattr(np, name)(x, axis=axis, keepdims=keepdims))


@given(data=st.data())
def test_nonzero(data):
    x, _ = data.draw(with_axis(ANY, low=-1, high=1, special=True))
    device = data.draw(DEVICES)
    found = xp.nonzero(on(device, x))
    assert isinstance(found, tuple) and len(found) == x.ndim
    for one, wanted in zip(found, np.nonzero(x)):
        assert_equal(one, wanted)


@given(data=st.data())
def test_where(data):
    a, b = data.draw(support.pairs(ANY))
    device = data.draw(DEVICES)
    condition = data.draw(arrays("bool", a.shape))
    found = xp.where(on(device, condition), on(device, a), on(device, b))
    assert_equal(found, np.where(condition, a, b))
    number = data.draw(support.elements(a.dtype))
    found = xp.where(on(device, condition), number, on(device, a))
    assert_equal(found, np.where(condition, a.dtype.type(number), a))


@given(data=st.data())
def test_sorts(data):
    x, axis = data.draw(with_axis(REAL, low=-2, high=2, special=True))
    device = data.draw(DEVICES)
    tensor = on(device, x)
    assert_equal(xp.sort(tensor, axis=axis), np.sort(x, axis=axis, stable=True))
    assert_equal(xp.argsort(tensor, axis=axis), np.argsort(x, axis=axis, stable=True))
    down = xp.sort(tensor, axis=axis, descending=True)
    assert_equal(down, np.flip(np.sort(x, axis=axis, stable=True), axis))
    # Stable: equal ones in order. The order of the reverse, read backwards, is that.
    backwards = np.argsort(np.flip(x, axis), axis=axis, stable=True)
    expected = x.shape[axis] - 1 - np.flip(backwards, axis)
    assert_equal(xp.argsort(tensor, axis=axis, descending=True), expected)


@given(data=st.data())
def test_searchsorted(data):
    dtype = data.draw(st.sampled_from(REAL))
    ordered = np.sort(data.draw(arrays(dtype, (data.draw(st.integers(0, 9)),), special=True)))
    values = data.draw(arrays(dtype, special=True))
    device = data.draw(DEVICES)
    side = data.draw(st.sampled_from(["left", "right"]))
    found = xp.searchsorted(on(device, ordered), on(device, values), side=side)
    assert_equal(found, np.searchsorted(ordered, values, side))
    number = data.draw(support.elements(dtype))
    found = xp.searchsorted(on(device, ordered), number, side=side)
    assert_equal(found, np.searchsorted(ordered, ordered.dtype.type(number), side))
    order = np.asarray(data.draw(st.permutations(range(ordered.size))), "int64")
    mixed = np.empty_like(ordered)
    mixed[order] = ordered
    found = xp.searchsorted(
        on(device, mixed), on(device, values), side=side, sorter=on(device, order)
    )
    assert_equal(found, np.searchsorted(ordered, values, side))


@given(data=st.data())
def test_unique(data):
    x = data.draw(arrays(ANY, low=-2, high=2, special=True))
    device = data.draw(DEVICES)
    tensor = on(device, x)
    expected = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    found = xp.unique_all(tensor)
    assert found._fields == ("values", "indices", "inverse_indices", "counts")
    # Complex numbers with a NaN have no order that others would share.
    if x.dtype.kind != "c" or not np.isnan(x).any():
        for one, wanted in zip(found, expected):
            assert_equal(one, wanted)
    values = found.values.numpy()
    # Each value once, what is at the indices, and what makes x again.
    assert values.size == expected[0].size
    np.testing.assert_array_equal(values, x.reshape(-1)[found.indices.numpy()])
    np.testing.assert_array_equal(values[found.inverse_indices.numpy()], x)
    assert found.inverse_indices.shape == x.shape and found.counts.numpy().sum() == x.size
    assert_equal(xp.unique_values(tensor), values)
    counts, inverse = xp.unique_counts(tensor), xp.unique_inverse(tensor)
    assert counts._fields == ("values", "counts")
    assert inverse._fields == ("values", "inverse_indices")
    assert_equal(counts.counts, found.counts.numpy())
    assert_equal(inverse.inverse_indices, found.inverse_indices.numpy())


@given(data=st.data())
def test_isin(data):
    dtype = data.draw(st.sampled_from(ANY))
    x = data.draw(arrays(dtype, low=-2, high=2, special=True))
    among = data.draw(arrays(dtype, low=-2, high=2, special=True))
    device = data.draw(DEVICES)
    invert = data.draw(st.booleans())
    found = xp.isin(on(device, x), on(device, among), invert=invert)
    assert_equal(found, np.isin(x, among, invert=invert))
    number = data.draw(support.elements(dtype, -2, 2))
    assert_equal(xp.isin(on(device, x), number), np.isin(x, x.dtype.type(number)))
    assert_equal(xp.isin(number, on(device, x)), np.isin(x.dtype.type(number), x))


@given(data=st.data())
def test_diff(data):
    x, axis = data.draw(with_axis(NUMERIC))
    device = data.draw(DEVICES)
    times = data.draw(st.integers(0, 3))
    ends = {}
    for name in ("prepend", "append"):
        if data.draw(st.booleans()):
            shape = list(x.shape)
            shape[axis] = data.draw(st.integers(0, 2))
            ends[name] = data.draw(arrays(x.dtype, tuple(shape)))
    found = xp.diff(
        on(device, x), axis=axis, n=times, **{name: on(device, y) for name, y in ends.items()}
    )
    if times == 0:  # NumPy leaves the ends out then
        joined = [ends[name] for name in ("prepend",) if name in ends] + [x]
        joined += [ends[name] for name in ("append",) if name in ends]
        assert_equal(found, np.concatenate(joined, axis))
        return
    assert_close_or_equal(found, np.diff(x, times, axis, **ends))


def assert_close_or_equal(found, expected):
    if expected.dtype.kind in "fc":
        assert_close(found, expected, ulps=8, scale=32)
    else:
        assert_equal(found, expected)


REDUCTIONS = [xp.sum, xp.prod, xp.max, xp.min, xp.mean, xp.std, xp.var, xp.all, xp.any]
REDUCTIONS += [xp.count_nonzero]


@pytest.mark.parametrize("function", REDUCTIONS)
def test_reductions_refuse(device, function):
    x = xp.ones((2, 3), device=device)
    name = function.__name__
    with pytest.raises(IndexError, match=f"{name}: argument 'axis': 2 is no axis of 2"):
        function(x, axis=2)
    with pytest.raises(ValueError, match=f"{name}: argument 'axis': an axis twice"):
        function(x, axis=(0, -2))
    with pytest.raises(TypeError, match=f"{name}: argument 'axis': expected an integer"):
        function(x, axis="0")
    with pytest.raises(TypeError, match=f"{name}: argument 'x': expected a Tensor"):
        function([1.0])
    with pytest.raises(TypeError, match=f"{name}: argument 'keepdims': expected a bool"):
        function(x, keepdims=1)


def test_others_refuse(device):
    x = xp.ones((2, 3), device=device)
    cases = [
        (lambda: xp.sum(xp.asarray([True], device=device)), "sum: argument 'x': expected a num"),
        (lambda: xp.sum(x, dtype=xp.bool), "sum: argument 'dtype': expected a numeric"),
        (lambda: xp.max(xp.asarray([1j], device=device)), "max: argument 'x': expected a real"),
        (lambda: xp.mean(xp.asarray([1], device=device)), "mean: argument 'x': expected a float"),
        (lambda: xp.var(x, correction="1"), "var: argument 'correction': expected a number"),
        (lambda: xp.sort(x > 0), "sort: argument 'x': expected a real-valued"),
        (lambda: xp.sort(x, descending=1), "sort: argument 'descending': expected a bool"),
        (lambda: xp.where(x, x, x), "where: argument 'condition': expected a bool"),
        (lambda: xp.searchsorted(x[0], x > 0), "searchsorted: "),
    ]
    for call, words in cases:
        with pytest.raises(TypeError, match=words):
            call()
    values = [
        (lambda: xp.argmax(xp.ones((0,), device=device)), "argmax: argument 'x': no elements"),
        (lambda: xp.cumulative_sum(x), "cumulative_sum: argument 'axis': needed for 2"),
        (lambda: xp.nonzero(xp.asarray(1, device=device)), "nonzero: argument 'x': expected at"),
        (lambda: xp.searchsorted(x, x), "searchsorted: argument 'x1': expected one dimension"),
        (lambda: xp.searchsorted(x[0], x, side="up"), "searchsorted: argument 'side'"),
        (
            lambda: xp.searchsorted(x[0], x, sorter=xp.asarray([0], device=device)),
            "searchsorted: argument 'sorter': expected the shape",
        ),
        (lambda: xp.diff(x, n=-1), "diff: argument 'n': expected 0 or more"),
        (lambda: xp.diff(x, prepend=x[0]), "diff: argument 'prepend': expected the shape"),
    ]
    for call, words in values:
        with pytest.raises(ValueError, match=words):
            call()
