# SPDX-License-Identifier: Apache-2.0
import array
import gc
import sys
import weakref

import numpy as np
import pytest

import backplane as bp


def test_nested(device):
    for value in (
        5,
        [],
        [[]],
        [1, 2],
        ((1, 2), [3, 4]),
        [[[1.5]], [[2]]],
        range(3),
        [np.arange(2), [3, 4]],
        [bp.asarray([1, 2]), (3, 4)],
        [[], []],
        [np.float32(1), 2],
        [[True], [False]],
        [1 + 2j, 3],
    ):
        found = bp.asarray(value, device=device)
        plain = (
            value
            if not isinstance(value, list)
            else [v.tolist() if isinstance(v, bp.Tensor) else v for v in value]
        )
        expected = np.asarray(plain)
        assert found.shape == expected.shape and found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "bad, words",
    [
        ([[1, 2], [3]], r"ragged: 1 elements, expected 2 at obj\[1\]"),
        ([1, [2]], r"ragged: a list among numbers at obj\[1\]"),
        ([[1], 2], r"ragged: a number among lists at obj\[1\]"),
        ([[[1]], [[1, 2]]], r"ragged: 2 elements, expected 1 at obj\[1\]\[0\]"),
    ],
)
def test_ragged(bad, words):
    with pytest.raises(ValueError, match=words):
        bp.asarray(bad)


def test_bad_objects():
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="more than 16 dimensions"):
        bp.asarray(endless)
    for bad in ("abc", None, object(), {1: 2}, {1}):
        with pytest.raises(TypeError, match="asarray: argument 'obj'"):
            bp.asarray(bad)
    with pytest.raises(TypeError, match=r"expected numbers, found str at obj\[1\]"):
        bp.asarray([1, "a"])
    with pytest.raises(OverflowError, match="out of the range of int64"):
        bp.asarray([2**70])
    with pytest.raises(OverflowError, match="256 is out of the range of uint8"):
        bp.asarray([256], dtype="uint8")
    with pytest.raises(TypeError, match="complex"):
        bp.asarray([1j], dtype="float32")
    assert bp.asarray([2**63], dtype="uint64").item() == 2**63
    with pytest.raises(TypeError, match="argument 'copy'"):
        bp.asarray([1], copy="yes")
    with pytest.raises(ValueError, match="copy.*is False"):
        bp.asarray([1], copy=False)


@pytest.mark.parametrize(
    "bad, kind, words",
    [
        (np.array([1, "a"], object), TypeError, "dtype object has no counterpart"),
        (np.array(["a"]), TypeError, "dtype <U1 has no counterpart"),
        (np.array(["2020-01-01"], "M8[D]"), TypeError, r"dtype datetime64\[D\] has no counterpart"),
        (np.zeros(2, [("a", "i4")]), TypeError, "dtype .* has no counterpart"),
        (np.zeros(2, ">f4"), ValueError, "dtype >f4 has another byte order"),
        (np.zeros(2, np.longdouble), TypeError, "has no counterpart"),
    ],
)
def test_bad_arrays(bad, kind, words):
    with pytest.raises(kind, match=words):
        bp.asarray(bad)


def test_random_numpy_views(device):
    rng = np.random.default_rng(4)
    for i in range(300):
        shape = tuple(int(n) for n in rng.integers(0 if i % 20 == 0 else 1, 6, rng.integers(0, 5)))
        dtype = rng.choice(
            [
                "bool",
                "int8",
                "int16",
                "uint32",
                "int64",
                "float16",
                "float32",
                "float64",
                "complex64",
            ]
        )
        a = rng.integers(0, 2 if dtype == "bool" else 50, shape).astype(dtype)
        a = a.transpose(rng.permutation(a.ndim))
        a = a[tuple(slice(None, None, int(rng.choice([-2, -1, 1, 2]))) for _ in a.shape)]
        if rng.random() < 0.2:
            a = np.broadcast_to(a, (2, *a.shape))
        x = bp.asarray(a, device=device)
        assert x.shape == a.shape and x.dtype == a.dtype
        np.testing.assert_array_equal(x.numpy(), a)
        assert x.tolist() == a.tolist()
        back = bp.from_dlpack(a, device=device) if a.flags.writeable else x
        np.testing.assert_array_equal(np.asarray(back), a)


def test_shares_memory_on_the_host():
    a = np.arange(12.0).reshape(3, 4)[::-1, ::2]
    x = bp.asarray(a)
    a[0, 0] = 77
    assert x[0, 0].item() == 77
    x[1, 1] = 55
    assert a[1, 1] == 55
    assert np.shares_memory(x.numpy(), a) and np.shares_memory(np.asarray(x[1:]), a)
    assert not np.shares_memory(bp.asarray(a, copy=True).numpy(), a)
    assert not np.shares_memory(x.numpy(copy=True), a)
    large = np.zeros(1 << 24, np.float32)  # 64 MiB
    assert np.shares_memory(bp.asarray(large).numpy(), large)


def test_other_devices_copy():
    a = np.arange(3.0)
    x = bp.asarray(a, device="npu:0")
    a[0] = 7
    assert x.tolist() == [0, 1, 2]
    for call in (
        lambda: bp.asarray(a, device="npu:0", copy=False),
        lambda: x.numpy(copy=False),
        lambda: np.asarray(x, copy=False),
        lambda: bp.asarray(x, device="cpu:0", copy=False),
        lambda: bp.asarray(x, dtype="int8", copy=False),
    ):
        with pytest.raises(ValueError, match="copy.*False"):
            call()
    assert np.asarray(x).tolist() == [0, 1, 2]


def test_read_only(device):
    a = np.arange(3.0)
    a.flags.writeable = False
    x = bp.asarray(a)
    assert x.is_read_only and x[1:].is_read_only and x.T.is_read_only and not (x + 1).is_read_only
    assert not x.numpy().flags.writeable and not np.from_dlpack(x).flags.writeable
    with pytest.raises(ValueError, match="read.only"):
        x[0] = 1
    assert not x.copy().is_read_only and not bp.asarray(a, copy=True).is_read_only
    assert not bp.asarray(a, device="npu:0").is_read_only
    assert bp.asarray(b"abc").is_read_only and bp.asarray(b"abc").tolist() == [97, 98, 99]


def test_other_buffers(device):
    assert bp.asarray(array.array("d", [1, 2]), device=device).tolist() == [1, 2]
    data = bytearray(b"\x01\x02\x03")
    x = bp.asarray(data)
    assert x.dtype is bp.uint8
    with pytest.raises(BufferError):
        data.append(1)  # lent
    del x
    data.append(1)
    odd = np.zeros(9, np.uint8)[1:].view(np.float32)  # not aligned
    assert bp.asarray(odd, device=device).tolist() == [0, 0]
    with pytest.raises(ValueError, match="not aligned"):
        bp.asarray(odd, copy=False)
    fields = np.zeros(3, [("a", "f4"), ("b", "i1")])["a"]
    fields[1] = 5
    assert bp.asarray(fields, device=device).tolist() == [0, 5, 0]

    class Arrayish:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3)

    assert bp.asarray(Arrayish(), device=device).tolist() == [0, 1, 2]


def test_numpy_scalars_keep_their_dtype(device):
    for value in (np.float64(1.5), np.float16(1.5), np.int8(3), np.bool(True), np.complex128(1j)):
        assert bp.asarray(value, device=device).dtype == value.dtype
        assert bp.asarray(value, device=device).item() == value


def test_source_lives_as_long_as_needed():
    class Source(np.ndarray):
        pass

    a = np.arange(1000.0).view(Source)
    alive = weakref.ref(a)
    x = bp.asarray(a)
    view = x[10:20]
    lent = view.numpy()
    del a, x, view
    gc.collect()
    assert alive() is not None and lent.tolist() == list(range(10, 20))
    del lent
    gc.collect()
    assert alive() is None


def test_numpy_outlives_tensor(device):
    a = (bp.ones(1000, device=device) + 1).numpy()
    gc.collect()
    trash = [bp.zeros(1000, device=device) for _ in range(20)]
    assert (a == 2).all() and len(trash) == 20


def test_array_protocol(device):
    x = bp.asarray([1.5, 2.5], device=device)
    assert np.asarray(x, dtype="float64").dtype == np.float64
    assert np.array(x).tolist() == [1.5, 2.5] and np.sum(np.asarray(x)) == 4
    assert not np.shares_memory(np.array(x, copy=True), np.asarray(x))
    assert np.testing.assert_array_equal(x, [1.5, 2.5]) is None if device == "cpu:0" else True
    assert sys.getrefcount(x) < 5


@pytest.mark.parametrize(
    "shape, kind, words",
    [
        (-1, ValueError, "-1, expected 0 or more"),
        ((2, -3), ValueError, "-3"),
        ("a", TypeError, "found str"),
        (1.5, TypeError, "found float"),
        ((1,) * 17, ValueError, "17|16|rank"),
        ((2**40, 2**40), ValueError, ""),
    ],
)
def test_bad_shapes(shape, kind, words):
    for make in (bp.zeros, bp.empty, lambda s: bp.full(s, 1)):
        with pytest.raises(kind, match=words):
            make(shape)


def test_too_large_is_out_of_memory():
    with pytest.raises(MemoryError) as caught:
        bp.empty(1 << 45, device="npu:0")
    assert caught.value.status == "OUT_OF_MEMORY" and isinstance(caught.value, bp.Error)


def test_bad_fill():
    with pytest.raises(
        TypeError, match="full: argument 'fill_value': expected a number, found str"
    ):
        bp.full(2, "a")
    with pytest.raises(TypeError, match="zeros_like: argument 'x': expected a Tensor, found list"):
        bp.zeros_like([1])
    with pytest.raises(TypeError, match="zeros: argument 'dtype'"):
        bp.zeros(2, dtype="float31")
