# SPDX-License-Identifier: Apache-2.0
"""Arrays of integers and masks as indices, against NumPy."""

import subprocess
import sys

import numpy as np
import pytest

import backplane as bp

DTYPES = ["float32", "int64", "uint8", "bool", "float16", "int32", "float64"]
INDEX_DTYPES = ["int64", "int32", "int8", "uint8", "uint64"]


def random_array(rng, most=5):
    sizes = rng.integers(0 if rng.random() < 0.08 else 1, most + 1, rng.integers(1, 5))
    values = rng.integers(0, 100, sizes)
    return values.astype(rng.choice(DTYPES))


def random_slice(rng, size):
    bounds = [
        None if rng.random() < 0.4 else int(rng.integers(-size - 1, size + 2)) for _ in range(2)
    ]
    return slice(*bounds, int(rng.choice([-2, -1, 1, 1, 2])))


def random_part(rng, sizes, shape):
    """An index for the first of the sizes, and how many of them it takes."""
    kind = rng.integers(0, 8)
    size = sizes[0]
    if kind <= 2 and size:
        dtype = rng.choice(INDEX_DTYPES)
        lowest = 0 if dtype.startswith("u") else -size
        sub = shape[int(rng.integers(0, len(shape) + 1)) :]
        sub = tuple(1 if rng.random() < 0.2 else n for n in sub)
        return rng.integers(lowest, size, sub).astype(dtype), 1
    if kind == 3:
        rank = int(rng.integers(1, len(sizes) + 1))
        return rng.random(sizes[:rank]) < 0.4, rank
    if kind == 4 and size:
        return int(rng.integers(-size, size)), 1
    return random_slice(rng, size), 1


def random_key(rng, sizes):
    """A key with an index by values in most cases; NumPy may refuse it."""
    shape = tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 3)))
    if rng.random() < 0.05:
        shape = (0,)
    key, axis = [], 0
    stop = rng.integers(1, len(sizes) + 1)
    while axis < stop:
        part, taken = random_part(rng, sizes[axis:], shape)
        key.append(part)
        axis += taken
    for extra, chance in ((None, 0.2), (Ellipsis, 0.3), (True, 0.05), (False, 0.03)):
        if rng.random() < chance:
            key.insert(int(rng.integers(0, len(key) + 1)), extra)
    return tuple(key)


def as_given(rng, key, device):
    """The same key as users write it: tensors of the device, lists, or NumPy's arrays."""

    def one(part):
        if not isinstance(part, np.ndarray):
            return part
        kind = rng.integers(0, 3)
        if kind == 0 and part.size:
            return part.tolist()
        return part if kind == 1 else bp.asarray(part, device=device)

    given = tuple(one(part) for part in key)
    return given[0] if len(given) == 1 and rng.random() < 0.7 else given


def usable_key(rng, array):
    """NumPy takes it."""
    while True:
        key = random_key(rng, array.shape)
        try:
            found = array[key]
        except IndexError:
            continue
        # Where nothing is chosen, NumPy does not look whether masks and integers fit the axes to
        # which an Ellipsis moves them.
        if found.size or not any(part is Ellipsis for part in key):
            return key, found


def same(found, expected, words):
    assert found.shape == expected.shape and found.dtype == expected.dtype, words
    np.testing.assert_array_equal(found.numpy(), expected, err_msg=str(words))


def view_of_both(rng, array, device):
    """The array and its tensor; of some a strided view."""
    x = bp.asarray(array, device=device, copy=True)
    if rng.random() < 0.3:
        array, x = array.T, x.T
    if rng.random() < 0.3:
        array, x = array[::-1], x[::-1]
    return array, x


@pytest.mark.parametrize("seed", range(4))
def test_random_gets(device, seed):
    rng = np.random.default_rng(100 + seed)
    for _ in range(250):
        array, x = view_of_both(rng, random_array(rng), device)
        key, expected = usable_key(rng, array)
        given = as_given(rng, key, device)
        same(x[given], expected, (array.shape, key))


def random_value(rng, shape, dtype):
    """Something to assign that NumPy takes for this shape."""
    sizes = [1 if rng.random() < 0.2 else n for n in shape]
    sizes = sizes[int(rng.integers(0, len(sizes) + 1)) :]
    if len(shape) > 1 and rng.random() < 0.1:  # for fewer NumPy does not always take it
        sizes = [1, *sizes]
    return rng.integers(0, 100, sizes).astype(dtype if rng.random() < 0.6 else "int16")


@pytest.mark.parametrize("seed", range(4))
def test_random_sets(device, seed):
    rng = np.random.default_rng(200 + seed)
    for _ in range(150):
        base = random_array(rng)
        tensor = bp.asarray(base, device=device, copy=True)
        array, x = base, tensor
        if rng.random() < 0.4:
            array, x = array.T, x.T
        key, expected = usable_key(rng, array)
        value = random_value(rng, expected.shape, base.dtype)
        given = as_given(rng, key, device)
        kind = rng.integers(0, 4)
        if kind == 0:
            value = int(rng.integers(0, 2))
        array[key] = value
        x[given] = bp.asarray(value, device=device) if kind == 1 else value
        same(tensor, base, (array.shape, key, np.shape(value)))


def test_masks(device):
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = bp.asarray(a, device=device, copy=True)
    same(x[x > 5], a[a > 5], "all")
    x[x > 5] = 0
    a[a > 5] = 0
    same(x, a, "a number")
    x[x > 2] += 10
    a[a > 2] += 10
    same(x, a, "in place")
    x[:, [True, False, False, True]] = [[1], [2], [3]]
    a[:, [True, False, False, True]] = [[1], [2], [3]]
    same(x, a, "columns")
    x[x == 2] = bp.asarray([7, 8, 9], device=device)
    a[a == 2] = [7, 8, 9]
    same(x, a, "as many values as the mask chooses")
    x[[False, True, True], 1:] = np.float64(5)
    a[[False, True, True], 1:] = 5
    same(x, a, "rows")
    same(x[bp.asarray(True, device=device)], a[None], "a single bool")
    same(x[np.False_], a[False], "a single bool")


def test_writes_show_in_views_and_sources_may_be_views(device):
    x = bp.zeros((4, 5), device=device)
    column = x[:, 1]
    x[[1, 3]] = 7
    assert column.tolist() == [0, 7, 0, 7]
    x[[0, 2], 1] = bp.asarray([1, 2], device=device)
    assert column.tolist() == [1, 7, 2, 7]
    y = bp.asarray(np.arange(5), device=device, copy=True)
    y[[1, 2, 3, 4]] = y[:-1]  # shares memory with itself
    assert y.tolist() == [0, 0, 1, 2, 3]
    y[y] = y[::-1]
    expected = np.array([0, 0, 1, 2, 3])
    expected[expected.copy()] = expected[::-1].copy()
    assert y.tolist() == expected.tolist()
    y[[2, 2, 2]] = [5, 6, 7]
    assert y.tolist()[2] == 7
    taken = x[[0, 1]]
    taken[...] = -1
    assert x.tolist()[1] == [7] * 5


def test_what_masks_choose_is_counted_alone(device):
    """Assigning one value through a mask does not wait for the device."""
    x = bp.asarray(np.arange(1000), device=device, copy=True)
    mask = x % 2 == 0
    before = bp.device(device).counters["copy_out_count"]
    x[mask] = 5
    assert bp.device(device).counters["copy_out_count"] == before
    assert x.tolist() == [5 if i % 2 == 0 else i for i in range(1000)]


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float8_e5m2", "float8_e4m3fn"])
def test_dtypes_without_kernels_of_their_own(device, dtype):
    """Their bytes move."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        base = 2.0 ** rng.integers(0, 5, rng.integers(1, 4, 3))
        if dtype.startswith("complex"):
            base = base + 1j * rng.integers(0, 9, base.shape)
        tensor = bp.asarray(base.tolist(), dtype=dtype, device=device)
        array, x = (base.T, tensor.T) if rng.random() < 0.5 else (base, tensor)
        key, expected = usable_key(rng, array)
        given = as_given(rng, key, device)
        found = x[given]
        assert found.dtype == dtype and found.shape == expected.shape
        assert found.tolist() == expected.tolist()
        if expected.size == 0:
            continue
        value = 4.0 if expected.ndim == 0 or rng.random() < 0.5 else expected[::-1].copy()
        array[key] = value
        x[given] = value if isinstance(value, float) else value.tolist()
        assert tensor.tolist() == base.tolist(), key
    with pytest.raises(ValueError, match=r"the shape \(5,\) cannot be .* the chosen shape \(2,\)"):
        bp.ones(3, dtype="complex64", device=device)[[0, 1]] = [1j] * 5


def test_streams(device):
    """The work goes to the stream that is current."""
    a = np.arange(30, dtype=np.float32).reshape(5, 6)
    x = bp.asarray(a, device=device, copy=True)
    with bp.device(device).new_stream() as stream:
        x[[0, 4], 1] = [7, 8]
        x[x > 25] = 0
        found = x[:, [1, -1]]
        stream.sync()
    a[[0, 4], 1] = [7, 8]
    a[a > 25] = 0
    same(x, a, "assigned")
    same(found, a[:, [1, -1]], "taken")


def test_out_of_range(device):
    x = bp.asarray(np.arange(6).reshape(2, 3), device=device, copy=True)
    for key, words in (
        ([0, 2], "index 2 is out of range for axis 0 of size 2"),
        ((slice(None), [0, -4]), "index -4 is out of range for axis 1 of size 3"),
        ((None, 0, bp.asarray([[1, 7]], device=device)), "index 7 is out of range for axis 1"),
        (np.array([2**63 + 1], np.uint64), f"index {2**63 + 1} is out of range for axis 0"),
        ((np.array([5], np.uint8), [[]]), "index 5 is out of range for axis 0"),
    ):
        with pytest.raises(IndexError, match=words):
            x[key]
        with pytest.raises(IndexError, match=words):
            x[key] = 1
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_bad_values(device):
    x = bp.asarray(np.arange(6).reshape(2, 3), device=device, copy=True)
    for key, words in (
        (([0, 1], [0, 1, 2]), r"do not fit each other: \(2,\), \(3,\)"),
        ([[True, False]], r"mask has the shape \(1, 2\), and axis 0 has the size 2"),
        ([True, False, True], r"mask has the shape \(3,\), and axis 0 has the size 2"),
        (np.zeros((2, 4), bool), r"mask has the shape \(2, 4\), and axis 1 has the size 3"),
        ((0, np.zeros((2, 3), bool)), "3 indices for a tensor of 2 dimensions"),
        ([0.5], "found a tensor of float32"),
        (np.zeros(2), "found a tensor of float64"),
        (bp.asarray(0.5, device=device), "found a tensor of float32"),
        (np.float64(1), "found numpy.float64"),
        (1j, "found complex"),
        (([0], [0], [0]), "3 indices for a tensor of 2 dimensions"),
    ):
        with pytest.raises(IndexError, match=words):
            x[key]
        with pytest.raises(IndexError, match=words):
            x[key] = 1
    for bad in ([[0], [0, 1]], ["a"], np.array([object()])):
        with pytest.raises((TypeError, ValueError), match="index"):
            x[bad]
    for key, value in (([0, 1], np.zeros(2)), (x > 2, np.zeros(2)), (x > 2, [1, 2, 3, 4])):
        with pytest.raises(ValueError, match="assignment: values of the shape .* the chosen shape"):
            x[key] = value
    with pytest.raises(TypeError, match="assignment"):
        x[[0]] = "abc"
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_other_devices_and_read_only():
    x, there = bp.zeros(3, device="cpu:0"), bp.asarray([0, 1], device="npu:0")
    with pytest.raises(ValueError, match="on cpu:0, the index is on npu:0"):
        x[there]
    with pytest.raises(ValueError, match="cpu:0, the values are on npu:0"):
        x[[0, 1]] = there
    for values in ([there[0], 1, 2], [[there[0], x[0], 5.0]], (x[0], there[1], 2)):
        with pytest.raises(ValueError, match="expected tensors on cpu:0, found one on npu:0"):
            x[:] = values
        with pytest.raises(ValueError, match="expected tensors on cpu:0, found one on npu:0"):
            x[[0, 1, 2]] = values
    for key in ([there], [there[0], 1], (slice(0, 2), [there[0]])):
        with pytest.raises(ValueError, match="^index: .* tensors on cpu:0, found one on npu:0"):
            bp.zeros((3, 3))[key]
    assert x.tolist() == [0, 0, 0]
    source = np.zeros(3)
    source.flags.writeable = False
    fixed = bp.asarray(source)
    for key in ([0, 1], [True, False, True]):
        with pytest.raises(ValueError, match="read.only"):
            fixed[key] = 1
    assert source.tolist() == [0, 0, 0]


def test_lists_that_hold_arrays(device):
    a = np.arange(12, dtype=np.float64).reshape(3, 4)
    x = bp.asarray(a, device=device, copy=True)
    for key in (
        [np.int64(2), 0],
        [np.array([0, 2]), [1, 1]],
        [np.int8(-1), np.uint8(1)],
        [np.bool_(True), False, True],
        (slice(None), [np.array(3), 0]),
    ):
        same(x[key], a[key], key)
    same(x[[bp.asarray(1, device=device), 2]], a[[1, 2]], "tensors")
    x[0] = [16777217.0, np.float32(0.5), x[2, 1], 1e300]
    a[0] = [16777217.0, np.float32(0.5), a[2, 1], 1e300]
    same(x, a, "values in the tensor's dtype")
    x[[0, 2]] = [np.arange(4, dtype="int8"), x[1]]
    a[[0, 2]] = [np.arange(4, dtype="int8"), a[1]]
    same(x, a, "rows")
    small = bp.zeros(2, dtype="int8", device=device)
    with pytest.raises(OverflowError, match="the int 300 is out of the range of int8"):
        small[:] = [np.int64(300), 1]
    with pytest.raises(ValueError, match="index: .* both uint64 and int64"):
        x[[np.uint64(1), np.int64(1)]]
    assert small.tolist() == [0, 0]


def test_without_numpy():
    code = """
import sys
sys.modules["numpy"] = None
import backplane as bp
x = bp.asarray([[1, 2], [3, 4]])
assert x[[1, 0]].tolist() == [[3, 4], [1, 2]] and x[x > 2].tolist() == [3, 4]
x[[True, False], [1]] = 9
x[[0], bp.asarray([0])] += 1
assert x.tolist() == [[2, 9], [3, 4]]
"""
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize(
    "mask, rest", [((0,), (2, 4)), ((0, 2), (4,)), ((3, 0), (4,)), ((0, 0, 4), ())]
)
def test_a_mask_of_no_elements_chooses_nothing(device, dtype, mask, rest):
    """Whatever the size of the axis, as in NumPy."""
    a = np.arange(24).reshape(3, 2, 4).astype(dtype)
    x, key = bp.asarray(a, device=device), bp.zeros(mask, dtype="bool", device=device)
    none = np.zeros(mask, bool)
    assert x[key].shape == (0, *rest) == a[none].shape
    assert x[::-1, :, ::2][bp.zeros(0, dtype="bool", device=device)].shape == (0, 2, 2)
    x[key] = 7
    x[key] = bp.ones((0, *rest), device=device)
    assert (x.numpy() == a).all()
    with pytest.raises(ValueError, match="cannot be repeated to the chosen shape"):
        x[key] = bp.ones((2, *rest), device=device)
    with pytest.raises(IndexError, match="the mask has the shape"):
        x[bp.zeros((2, 0), dtype="bool", device=device)]
