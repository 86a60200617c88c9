# SPDX-License-Identifier: Apache-2.0
"""Large tensors: sums that stay exact, and orders and searches that stay on the device.

Equal terms are the hardest for a sum: one behind the other in float32, each is rounded the same
way, and 2^20 of them are off by more than a thousandth.
"""

import numpy as np
import pytest

import backplane as bp
import backplane.array_api as xp
from support import on

COUNT = 1 << 20
# What is lost where sums of some hundred terms are added. The libraries' products have longer ones.
EXACT = 1e-5
EXACT_PRODUCT = 4e-5


def error(found, expected):
    """The largest relative one."""
    found, expected = np.asarray(found.numpy(), "float64"), np.asarray(expected, "float64")
    assert found.shape == expected.shape
    return float(np.max(np.abs(found - expected) / np.abs(expected)))


def data_of(shape, seed=1):
    """Equal numbers, and random ones, all above 0."""
    yield np.full(shape, 0.7, "float32")
    yield np.random.default_rng(seed).random(shape, dtype="float32") + np.float32(0.25)


@pytest.mark.parametrize("shape", [(COUNT,), (COUNT // 2, 2), (4, COUNT // 16, 4)])
def test_sums_are_exact(device, shape):
    for x in data_of(shape):
        wide, tensor = x.astype("float64"), on(device, x)
        for axis in (*range(x.ndim), tuple(range(x.ndim))):
            assert error(xp.sum(tensor, axis=axis), wide.sum(axis=axis)) < EXACT
            assert error(xp.mean(tensor, axis=axis), wide.mean(axis=axis)) < EXACT
            norms = np.sqrt((wide**2).sum(axis=axis))
            assert error(xp.linalg.vector_norm(tensor, axis=axis), norms) < EXACT
    assert error(xp.var(tensor), wide.var()) < EXACT
    assert error(xp.std(tensor, axis=0), wide.std(axis=0)) < EXACT


def products(a, b):
    """name -> a product of COUNT terms of two arrays or tensors of (COUNT, 2)."""
    row, column = a[:, 0], b[:, :1]
    return {
        "row by column": lambda: row @ column,
        "row by matrix": lambda: row @ b,
        "two rows by column": lambda: a.T @ column,
        "two rows by matrix": lambda: a.T @ b,
        "backwards": lambda: row[::-1] @ b[::-1],
        "batches": lambda: a.T[:, None, :] @ b.T[:, :, None],
    }


def test_products_are_exact(device):
    for a, b in zip(data_of((COUNT, 2)), data_of((COUNT, 2), seed=2), strict=True):
        tensors = on(device, a), on(device, b)
        expected = products(a.astype("float64"), b.astype("float64"))
        for name, product in products(*tensors).items():
            assert error(product(), expected[name]()) < EXACT_PRODUCT, name
        dense = [xp.asarray(x[:, 0], copy=True) for x in tensors]
        dot = a[:, 0].astype("float64") @ b[:, 0].astype("float64")
        assert error(xp.vecdot(*dense), dot) < EXACT_PRODUCT
        assert error(xp.tensordot(*dense, axes=1), dot) < EXACT_PRODUCT
        seven = xp.broadcast_to(dense[0], (7, COUNT)) @ dense[1]
        assert error(seven, np.full(7, dot)) < EXACT_PRODUCT


@pytest.mark.parametrize(("dtype", "step"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8)])
def test_products_of_halves_are_summed_in_float32(device, dtype, step):
    x = bp.full((COUNT // 4,), 0.1, dtype=dtype, device=device)
    [value] = np.unique(x.astype("float32").numpy().astype("float64"))
    assert error((x @ x).astype("float32"), value * value * x.size) < step


def places(x, descending):
    """Of a stable order with NaN above every number."""
    if not descending:
        return np.argsort(x, stable=True)
    return x.size - 1 - np.argsort(x[::-1], stable=True)[::-1]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("descending", [False, True])
def test_orders(device, dtype, descending):
    """Of many equal numbers, of which some are NaN."""
    x = np.random.default_rng(3).integers(-9999, 9999, COUNT // 4).astype(dtype)
    if dtype == "float32":
        x[::100] = np.nan
    expected = places(x, descending)
    before = bp.device(device).counters["fallback_count"]
    tensor = on(device, x)
    assert np.array_equal(xp.argsort(tensor, descending=descending).numpy(), expected)
    found = xp.sort(tensor, descending=descending).numpy()
    assert np.array_equal(found, x[expected], equal_nan=dtype == "float32")
    count = x.size // 3
    best = bp.ops.top_k(tensor, count, largest=descending)
    assert np.array_equal(best.indices.numpy(), expected[:count])
    assert bp.device(device).counters["fallback_count"] == before


def test_searches(device):
    """What lies in a long list is found on the device, in the memory that a step needs."""
    rng = np.random.default_rng(4)
    listed = np.sort(rng.integers(-COUNT, COUNT, COUNT).astype("float32"))
    listed[-5:] = np.inf, np.inf, np.nan, np.nan, np.nan
    x = rng.integers(-COUNT, COUNT, (4, COUNT // 4)).astype("float32")
    x[0, :3] = np.nan, np.inf, -np.inf
    x[1] = listed[: x.shape[1]]
    counts = rng.integers(0, 3, COUNT)
    before = bp.device(device).counters["fallback_count"]
    tensor, ordered = on(device, x), on(device, listed)
    for side in ("left", "right"):
        found = xp.searchsorted(ordered, tensor, side=side).numpy()
        assert np.array_equal(found, np.searchsorted(listed, x, side=side))
    assert np.array_equal(xp.isin(tensor, ordered).numpy(), np.isin(x, listed))
    repeated = xp.repeat(ordered, on(device, counts)).numpy()
    assert np.array_equal(repeated, np.repeat(listed, counts), equal_nan=True)
    assert bp.device(device).counters["fallback_count"] == before
