# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import backplane as bp


def random_key(rng, shape):
    key = []
    for size in shape[: rng.integers(0, len(shape) + 1)]:
        kind = rng.integers(0, 4)
        if kind == 0 and size:
            key.append(int(rng.integers(-size, size)))
        elif kind == 1:
            key.append(slice(None))
        else:
            bounds = [
                None if rng.random() < 0.3 else int(rng.integers(-size - 2, size + 3))
                for _ in range(2)
            ]
            key.append(slice(*bounds, int(rng.choice([-3, -2, -1, 1, 2, 3]))))
    if rng.random() < 0.4:
        key.insert(int(rng.integers(0, len(key) + 1)), None)
    if rng.random() < 0.4:
        key.insert(int(rng.integers(0, len(key) + 1)), Ellipsis)
    return tuple(key) if len(key) != 1 or rng.random() < 0.5 else key[0]


def usable_key(rng, a, x):
    """One that NumPy takes; those that it refuses, we refuse."""
    while True:
        key = random_key(rng, a.shape)
        try:
            a[key]
        except IndexError:
            with pytest.raises(IndexError):
                x[key]
            continue
        return key


def random_array(rng):
    shape = tuple(
        int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 6, rng.integers(1, 5))
    )
    return np.arange(np.prod(shape), dtype=rng.choice(["float32", "int64"])).reshape(shape)


def test_random_views(device):
    rng = np.random.default_rng(11)
    for _ in range(400):
        a = random_array(rng)
        x = bp.asarray(a, device=device, copy=True)
        for _ in range(3):  # views of views
            key = usable_key(rng, a, x)
            a, x = a[key], x[key]
            assert x.shape == a.shape, key
            np.testing.assert_array_equal(x.numpy(), a, err_msg=str(key))
            if a.ndim == 0:
                break
            if rng.random() < 0.3:
                a, x = a.T, x.T


def test_random_assignments(device):
    rng = np.random.default_rng(12)
    for _ in range(200):
        a = random_array(rng)
        base = a.copy()
        x = bp.asarray(a, device=device, copy=True)
        key = usable_key(rng, a, x)
        value = rng.integers(0, 99, base[key].shape).astype(
            rng.choice(["float32", "int64", "float64"])
        )
        kind = rng.integers(0, 4)
        if kind == 0:
            value = int(rng.integers(0, 99))
        elif kind == 1 and value.ndim:
            value = value[:1]  # repeated
        base[key] = value
        x[key] = bp.asarray(value, device=device) if kind == 2 else value
        np.testing.assert_array_equal(x.numpy(), base, err_msg=str(key))


def test_writes_show_in_views(device):
    x = bp.zeros((3, 4), device=device)
    column, back = x[:, 1], x[::-1]
    x[:, 1] = [1, 2, 3]
    assert column.tolist() == [1, 2, 3] and back[:, 1].tolist() == [3, 2, 1]
    column[0] = 9
    assert x[0, 1].item() == 9
    x[...] = x[::-1]  # shares memory with itself
    assert column.tolist() == [3, 2, 9]
    x[0] = True
    x[1] = np.float64(2)
    x[2] = bp.asarray(3, device=device)
    assert x.tolist() == [[1] * 4, [2] * 4, [3] * 4]


def test_assignment_converts(device):
    x = bp.zeros(3, dtype="int32", device=device)
    x[...] = [1.9, -1.9, 3]
    assert x.tolist() == [1, -1, 3]
    x[...] = bp.asarray([4.9, 5.1, 6.0], device=device)
    assert x.tolist() == [4, 5, 6]


def test_bad_indices(device):
    x = bp.zeros((2, 3), device=device)
    for key, words in (
        (2, "index 2 is out of range for axis 0 of size 2"),
        ((0, -4), "index -4 is out of range for axis 1 of size 3"),
        ((0, 0, 0), "3 indices for a tensor of 2 dimensions"),
        ((..., ...), "more than one"),
        ("a", "found str"),
        (1.0, "found float"),
    ):
        with pytest.raises(IndexError, match=words):
            x[key]
        with pytest.raises(IndexError, match=words):
            x[key] = 1
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        x[::0]
    with pytest.raises(TypeError, match="cannot be deleted"):
        del x[0]
    with pytest.raises(ValueError):
        x[...] = bp.zeros((3, 3), device=device)
    with pytest.raises(TypeError, match="assignment"):
        x[0] = "abc"
    assert x[np.int64(1)].shape == (3,) and x[bp.asarray(1, device=device)].shape == (3,)
    assert x.tolist() == [[0] * 3] * 2
