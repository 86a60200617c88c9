# SPDX-License-Identifier: Apache-2.0
"""Methods that NumPy's arrays have, against NumPy's."""

import numpy as np
import pytest

import backplane as bp

VALUES = np.array([[[3, -1, 2], [0, 5, -4]], [[1, 1, 7], [-2, 6, 0]]], np.float64)


@pytest.fixture(params=[device.name for device in bp.devices()])
def x(request):
    return bp.asarray(VALUES.copy(), device=request.param)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "std", "var", "min", "max"])
def test_reductions(x, name, axis):
    expected = getattr(VALUES, name)(axis)
    found = getattr(x, name)(axis)
    assert found.device == x.device
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    kept = getattr(x, name)(axis, keepdims=True)
    assert kept.shape == getattr(VALUES, name)(axis, keepdims=True).shape


def test_correction_is_ddof(x):
    np.testing.assert_allclose(x.var(0, correction=1).numpy(), VALUES.var(0, ddof=1))


def test_sum_has_a_dtype():
    small = bp.full((300,), 100, dtype=bp.int8)
    assert small.sum().item() == 30000
    assert small.sum(dtype=bp.int8).dtype == bp.int8
    assert small.sum(dtype="float64").item() == 30000
    assert small.prod(dtype=np.float64).dtype is bp.float64


@pytest.mark.parametrize("axis", [None, 0, 2])
def test_positions(x, axis):
    assert np.array_equal(x.argmax(axis).numpy(), VALUES.argmax(axis))
    assert np.array_equal(x.argmin(axis).numpy(), VALUES.argmin(axis))


def test_truth(x):
    assert (x > -9).all().item() and not (x > 0).all().item()
    assert np.array_equal((x > 4).any(-1).numpy(), (VALUES > 4).any(-1))


def test_shapes(x):
    for shape in [(4, 3), ((2, 6),), (-1,), (3, -1)]:
        assert np.array_equal(x.reshape(*shape).numpy(), VALUES.reshape(*shape))
    assert np.array_equal(x.ravel().numpy(), VALUES.ravel())
    assert np.array_equal(x.transpose(2, 0, 1).numpy(), VALUES.transpose(2, 0, 1))
    assert np.array_equal(x.transpose().numpy(), VALUES.transpose())
    assert x[:1, :, :1].squeeze().shape == (2,)
    assert x[:1, :, :1].squeeze(0).shape == (2, 1)
    assert bp.zeros((3, 0)).ravel().shape == (0,)


def test_views_and_copies(x):
    view, own = x.reshape(12), x.flatten()
    x[0, 0, 0] = 99
    assert view[0].item() == 99 and own[0].item() == 3


def test_clip(x):
    assert np.array_equal(x.clip(0, 3).numpy(), VALUES.clip(0, 3))
    assert np.array_equal(x.clip(max=1).numpy(), VALUES.clip(max=1))


def test_what_cannot_be_is_named(x):
    with pytest.raises(ValueError, match=r"reshape.*\(5, 2\)"):
        x.reshape(5, 2)
    with pytest.raises(TypeError, match="reshape: expected integers, found str"):
        x.reshape("2")
    with pytest.raises(ValueError, match="sum: argument 'axis'"):
        x.sum(3)
    with pytest.raises(ValueError, match="squeeze: argument 'axis'"):
        x.squeeze(0)
    with pytest.raises(TypeError, match="axes"):
        x.sum(axes=0)
