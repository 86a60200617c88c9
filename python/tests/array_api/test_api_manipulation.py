# SPDX-License-Identifier: Apache-2.0
"""Manipulation and indexing functions against NumPy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

import backplane as bp
import backplane.array_api as xp
import support
from support import ANY, arrays, assert_equal, on, with_axis

DEVICES = st.sampled_from(support.DEVICES)


def strided(device, array):
    """On the device with other strides than NumPy would have: the last axis lies first."""
    if array.ndim < 2:
        return on(device, array)
    order = [array.ndim - 1, *range(array.ndim - 1)]
    return xp.permute_dims(on(device, array.transpose(order)), tuple(np.argsort(order).tolist()))


def test_strided(device):
    x = np.arange(24).reshape(2, 3, 4)
    found = strided(device, x)
    assert found.strides == (3, 1, 6)
    assert_equal(found, x)


@given(data=st.data())
def test_reshape(data):
    x = data.draw(arrays(ANY))
    device = data.draw(DEVICES)
    shapes = {x.shape, (x.size,), (1, x.size, 1), (-1, 1), x.shape[::-1]}
    if x.size % 2 == 0:
        shapes.add((2, x.size // 2))
    shape = data.draw(st.sampled_from(sorted(shapes)))
    if x.size == 0 and -1 in shape:
        shape = (0, 3)
    copy = data.draw(st.sampled_from([None, True]))
    assert_equal(xp.reshape(strided(device, x), shape, copy=copy), x.reshape(shape))


def test_reshape_shares_memory(device):
    x = on(device, np.arange(24.0).reshape(2, 3, 4))
    for view in (
        xp.reshape(x, (6, 4), copy=False),
        xp.reshape(x[:, :, ::2], (2, 3, 2, 1), copy=False),
        xp.reshape(x[:, 1:, :], (2, 8), copy=False),
        xp.reshape(x[:, :, 1], (6,), copy=False),
        xp.reshape(xp.expand_dims(x[:, 0, :], 0), (1, 2, 4), copy=False),
    ):
        view[...] = 7
    assert x.numpy()[0, 0, 0] == 7 and np.all(x.numpy() == 7)
    copied = xp.reshape(x, (24,), copy=True)
    copied[...] = 1
    assert x.numpy()[0, 0, 0] == 7
    with pytest.raises(ValueError, match="reshape: argument 'copy' is False"):
        xp.reshape(x.T, (24,), copy=False)


@given(data=st.data())
def test_reshape_views_are_numpys(data):
    """Where NumPy needs no copy, neither does reshape; and the other way round."""
    shape = data.draw(numpy_strategies.array_shapes(min_dims=1, max_dims=4, max_side=4))
    x = np.arange(math.prod(shape)).reshape(shape)
    order = data.draw(st.permutations(range(x.ndim)))
    x = x.transpose(order)
    sizes = data.draw(st.permutations([*x.shape, 1]))
    tensor = xp.permute_dims(on("cpu:0", x.transpose(np.argsort(order))), tuple(order))
    try:
        expected = np.reshape(x, sizes, copy=False)
    except ValueError:
        with pytest.raises(ValueError, match="needs a copy"):
            xp.reshape(tensor, tuple(sizes), copy=False)
        return
    assert_equal(xp.reshape(tensor, tuple(sizes), copy=False), expected)


def test_reshape_refuses(device):
    x = xp.ones((2, 3), device=device)
    for bad in ((4,), (-1, -1), (-1, 4), (-2, 3), (0, -1)):
        with pytest.raises(ValueError, match="reshape: argument 'shape'"):
            xp.reshape(x, bad)
    with pytest.raises(TypeError, match="reshape: argument 'shape': expected an integer"):
        xp.reshape(x, (2.0, 3))
    with pytest.raises(TypeError, match="reshape: argument 'copy'"):
        xp.reshape(x, (6,), copy="no")


@given(data=st.data())
def test_broadcasts(data):
    count = data.draw(st.integers(1, 3))
    shapes = data.draw(
        numpy_strategies.mutually_broadcastable_shapes(num_shapes=count, max_side=4, max_dims=3)
    )
    device = data.draw(DEVICES)
    found = [data.draw(arrays(ANY, shape)) for shape in shapes.input_shapes]
    expected = np.broadcast_arrays(*found)
    assert xp.broadcast_shapes(*shapes.input_shapes) == shapes.result_shape
    spread = xp.broadcast_arrays(*(on(device, x) for x in found))
    assert isinstance(spread, tuple)
    for one, wanted in zip(spread, expected):
        assert_equal(one, wanted)
    assert_equal(xp.broadcast_to(on(device, found[0]), shapes.result_shape), expected[0])


def test_broadcasts_refuse(device):
    assert xp.broadcast_shapes() == () and xp.broadcast_shapes((0, 1), (1, 3)) == (0, 3)
    with pytest.raises(ValueError, match=r"broadcast_shapes: argument 'shapes\[1\]'"):
        xp.broadcast_shapes((2,), (3,))
    x = xp.ones((2, 1), device=device)
    for bad in ((3, 4), (2,), (-1, 1), (2, -1)):
        with pytest.raises(ValueError, match="broadcast_to: argument 'shape'"):
            xp.broadcast_to(x, bad)
    for many in (2**58, 2**63):
        with pytest.raises(ValueError, match="broadcast_to: argument .shape.: .* too many"):
            xp.broadcast_to(x, (many, 2, 1))
    with pytest.raises(ValueError, match="share memory"):
        xp.broadcast_to(x, (2, 3))[...] = 1


@given(data=st.data())
def test_concat_and_stack(data):
    shape = data.draw(numpy_strategies.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))
    device = data.draw(DEVICES)
    kind = data.draw(st.sampled_from([["bool"], support.SIGNED, support.FLOATING]))
    parts = data.draw(st.lists(arrays(kind, shape), min_size=1, max_size=3))
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    dtype = np.result_type(*parts)
    tensors = [strided(device, x) for x in parts]
    expected = np.concatenate(parts, axis=axis, dtype=dtype)
    assert_equal(xp.concat(tensors, axis=axis), expected)
    place = data.draw(st.integers(-len(shape) - 1, len(shape)))
    assert_equal(xp.stack(tensors, axis=place), np.stack(parts, axis=place, dtype=dtype))


def test_concat_refuses(device):
    x = xp.ones((2, 3), device=device)
    with pytest.raises(ValueError, match=r"concat: argument 'arrays\[1\]': expected the shape"):
        xp.concat([x, xp.ones((2, 2), device=device)])
    with pytest.raises(ValueError, match="concat: argument 'arrays': expected at least one"):
        xp.concat([])
    with pytest.raises(TypeError, match=r"concat: argument 'arrays\[1\]': expected a Tensor"):
        xp.concat([x, 1])
    with pytest.raises(TypeError, match="concat: argument 'arrays': expected a tuple"):
        xp.concat(x)
    with pytest.raises(IndexError, match="concat: argument 'axis': 2 is no axis of 2"):
        xp.concat([x, x], axis=2)
    with pytest.raises(ValueError, match=r"stack: argument 'arrays\[1\]'"):
        xp.stack([x, x[0]])


@given(data=st.data())
def test_axes(data):
    """expand_dims, squeeze, permute_dims, moveaxis, flip, unstack."""
    x, axis = data.draw(with_axis(ANY))
    device = data.draw(DEVICES)
    tensor = strided(device, x)
    assert_equal(xp.expand_dims(tensor, axis), np.expand_dims(x, axis))
    places = (0, -1, 2)
    assert_equal(xp.expand_dims(tensor, places), np.expand_dims(x, places))
    assert_equal(xp.squeeze(xp.expand_dims(tensor, places), places), x)
    order = tuple(data.draw(st.permutations(range(x.ndim))))
    assert_equal(xp.permute_dims(tensor, order), np.transpose(x, order))
    assert_equal(xp.moveaxis(tensor, axis, 0), np.moveaxis(x, axis, 0))
    target = (*order[1:], order[0])
    assert_equal(xp.moveaxis(tensor, order, target), np.moveaxis(x, order, target))
    assert_equal(xp.flip(tensor), np.flip(x))
    assert_equal(xp.flip(tensor, axis=axis), np.flip(x, axis))
    found = xp.unstack(tensor, axis=axis)
    assert isinstance(found, tuple) and len(found) == x.shape[axis]
    for one, wanted in zip(found, np.unstack(x, axis=axis)):
        assert_equal(one, wanted)


def test_axes_refuse(device):
    x = xp.ones((2, 1), device=device)
    with pytest.raises(IndexError, match="expand_dims: argument 'axis': 3 is no axis of 3"):
        xp.expand_dims(x, 3)
    with pytest.raises(ValueError, match="expand_dims: argument 'axis': an axis twice"):
        xp.expand_dims(x, (0, -4))
    with pytest.raises(ValueError, match="squeeze: argument 'axis': axis 0 has size 2"):
        xp.squeeze(x, 0)
    with pytest.raises(ValueError, match="permute_dims: argument 'axes': expected 2 axes"):
        xp.permute_dims(x, (0,))
    with pytest.raises(ValueError, match="permute_dims: argument 'axes': an axis twice"):
        xp.permute_dims(x, (0, 0))
    with pytest.raises(ValueError, match="moveaxis: argument 'destination': expected 2"):
        xp.moveaxis(x, (0, 1), (0,))
    with pytest.raises(TypeError, match="flip: argument 'axis': expected an integer, found float"):
        xp.flip(x, axis=1.0)
    with pytest.raises(TypeError, match="unstack: argument 'axis': expected an int.*True"):
        xp.unstack(x, axis=True)


@given(data=st.data())
def test_roll(data):
    x, axis = data.draw(with_axis(ANY))
    device = data.draw(DEVICES)
    shift = data.draw(st.integers(-7, 7))
    tensor = strided(device, x)
    assert_equal(xp.roll(tensor, shift), np.roll(x, shift))
    assert_equal(xp.roll(tensor, shift, axis=axis), np.roll(x, shift, axis))
    axes = tuple(range(x.ndim))
    assert_equal(xp.roll(tensor, shift, axis=axes), np.roll(x, shift, axes))
    assert_equal(xp.roll(tensor, axes, axis=axes), np.roll(x, axes, axes))
    with pytest.raises(ValueError, match="roll: argument 'shift'"):
        xp.roll(tensor, (1, 2, 3, 4), axis=axes)
    with pytest.raises(ValueError, match="roll: argument 'axis'"):
        xp.roll(tensor, (1,))


@given(data=st.data())
def test_tile(data):
    x = data.draw(arrays(ANY))
    device = data.draw(DEVICES)
    counts = tuple(data.draw(st.lists(st.integers(0, 3), max_size=4)))
    assert_equal(xp.tile(strided(device, x), counts), np.tile(x, counts))
    with pytest.raises(ValueError, match="tile: argument 'repetitions'"):
        xp.tile(on(device, x), (-1,))


@given(data=st.data())
def test_repeat(data):
    x, axis = data.draw(with_axis(ANY))
    device = data.draw(DEVICES)
    tensor = strided(device, x)
    count = data.draw(st.integers(0, 3))
    assert_equal(xp.repeat(tensor, count), np.repeat(x, count))
    assert_equal(xp.repeat(tensor, count, axis=axis), np.repeat(x, count, axis))
    counts = data.draw(arrays(support.INTEGRAL, (x.shape[axis],), low=0, high=3))
    found = xp.repeat(tensor, on(device, counts), axis=axis)
    assert_equal(found, np.repeat(x, counts.astype("int64"), axis))
    one = on(device, np.asarray([count]))
    assert_equal(xp.repeat(tensor, one, axis=axis), np.repeat(x, count, axis))


def test_repeat_refuses(device):
    x = xp.ones((2, 3), device=device)
    with pytest.raises(ValueError, match="repeat: argument 'repeats': expected 0 or more"):
        xp.repeat(x, -1)
    with pytest.raises(ValueError, match="repeat: argument 'repeats': .* fewer than 2\\^63"):
        xp.repeat(x, xp.asarray([2**62, 2**62], device=device), axis=0)
    with pytest.raises(ValueError, match="repeat: argument 'repeats': .* found -1"):
        xp.repeat(x, xp.asarray([1, -1], device=device), axis=0)
    with pytest.raises(ValueError, match=r"repeat: argument 'repeats': expected the shape \(1,\)"):
        xp.repeat(x, xp.asarray([1, 1, 1], device=device), axis=0)
    with pytest.raises(TypeError, match="repeat: argument 'repeats'"):
        xp.repeat(x, 1.5)


@given(data=st.data())
def test_take(data):
    x, axis = data.draw(with_axis(ANY, min_side=1))
    device = data.draw(DEVICES)
    size = x.shape[axis]
    count = data.draw(st.integers(0, 4))
    indices = data.draw(arrays(support.SIGNED, (count,), low=-size, high=size - 1))
    tensor = strided(device, x)
    assert_equal(xp.take(tensor, on(device, indices), axis=axis), np.take(x, indices, axis))
    if x.ndim == 1:
        assert_equal(xp.take(tensor, on(device, indices)), np.take(x, indices))
    shape = list(x.shape)
    shape[axis] = data.draw(st.integers(0, 4))
    places = data.draw(arrays(["int64", "int32"], tuple(shape), low=-size, high=size - 1))
    found = xp.take_along_axis(tensor, on(device, places), axis=axis)
    assert_equal(found, np.take_along_axis(x, places, axis))


def test_take_along_axis_broadcasts(device):
    x = np.arange(12).reshape(3, 4)
    places = np.asarray([[0, 2, -1]])
    found = xp.take_along_axis(on(device, x), on(device, places), axis=1)
    assert_equal(found, np.take_along_axis(x, np.broadcast_to(places, (3, 3)), 1))


def test_take_refuses(device):
    x = xp.ones((2, 3), device=device)
    places = xp.asarray([0], device=device)
    with pytest.raises(ValueError, match="take: argument 'axis': needed for 2 dimensions"):
        xp.take(x, places)
    with pytest.raises(TypeError, match="take: argument 'indices': expected an integral"):
        xp.take(x, x, axis=0)
    with pytest.raises(ValueError, match="take: argument 'indices': expected one dimension"):
        xp.take(x, xp.asarray([[0]], device=device), axis=0)
    with pytest.raises(IndexError, match="take: argument 'indices': axis 0 of x has no elements"):
        xp.take(xp.ones((0, 3), device=device), places, axis=0)
    with pytest.raises(ValueError, match="take_along_axis: argument 'indices': expected 2"):
        xp.take_along_axis(x, places)
    with pytest.raises(ValueError, match="take_along_axis: argument 'indices': the shape"):
        xp.take_along_axis(x, xp.zeros((3, 1), dtype=xp.int64, device=device))
    with pytest.raises(IndexError, match="take_along_axis: argument 'axis'"):
        xp.take_along_axis(x, xp.asarray([[0]], device=device), axis=2)


def test_views_show_what_is_written(device):
    x = on(device, np.zeros((2, 1, 3)))
    views = [xp.expand_dims(x, 0), xp.squeeze(x, 1), xp.flip(x), xp.permute_dims(x, (2, 1, 0))]
    views += [xp.moveaxis(x, 0, -1), *xp.unstack(x), xp.matrix_transpose(x)]
    for i, view in enumerate(views, 1):
        view[...] = i
        assert i in x.numpy()
    z = bp.zeros(3, dtype="complex64", device=device)
    xp.real(z)[...] = 1
    xp.imag(z)[...] = 2
    assert z.tolist() == [1 + 2j] * 3
