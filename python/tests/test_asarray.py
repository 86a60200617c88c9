# SPDX-License-Identifier: Apache-2.0
import array
import enum
import gc
import itertools
import subprocess
import sys
import weakref

import numpy as np
import pytest

import backplane as bp
import backplane.array_api as xp


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
    for call in (lambda **k: x.numpy(**k), lambda **k: x.__array__(**k)):
        for bad in (0, 1, "no"):  # none of them is taken for None
            with pytest.raises(TypeError, match="argument 'copy': expected True, False or None"):
                call(copy=bad)


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


def test_fill_by_scalars_of_numpy(device):
    """Their dtype is that of Python's number."""
    scalars = {"float32": np.float64(1.5), "int64": np.int8(3), "bool": np.bool_(True)}
    scalars["complex64"] = np.complex128(2j)
    for dtype, value in scalars.items():
        x = bp.full(2, value, device=device)
        assert x.dtype == dtype and x.tolist() == [value.item()] * 2
        assert bp.full_like(x, value).tolist() == [value.item()] * 2
    assert bp.full((), np.float32(0.5), device=device).item() == 0.5


def test_a_range_is_a_shape():
    assert bp.zeros(range(1, 4)).shape == (1, 2, 3) and bp.empty(range(0)).shape == ()


@pytest.mark.parametrize("kind", [np.int64, np.ndarray, bp.Tensor, array.array, int])
def test_classes_are_no_arrays(kind):
    for bad in (kind, [1, kind]):
        with pytest.raises(TypeError, match="asarray: argument 'obj': expected numbers.* found"):
            bp.asarray(bad)


def test_bad_fill():
    with pytest.raises(
        TypeError, match="full: argument 'fill_value': expected a number, found str"
    ):
        bp.full(2, "a")
    with pytest.raises(TypeError, match="zeros_like: argument 'x': expected a Tensor, found list"):
        bp.zeros_like([1])
    with pytest.raises(TypeError, match="zeros: argument 'dtype'"):
        bp.zeros(2, dtype="float31")


def test_too_large_for_the_host_is_out_of_memory(device):
    """Values that one element repeats, copied by the package and by the library."""
    a = np.broadcast_to(np.float32(1), (1 << 22, 1 << 22))
    x = xp.broadcast_to(bp.ones((1, 1), device=device), a.shape)
    y = xp.broadcast_to(bp.ones((1, 1)), a.shape)
    for call in (
        lambda: bp.asarray(a, device=device, copy=True),
        lambda: bp.asarray([a], device=device),
        lambda: bp.from_dlpack(a, device=device, copy=True),
        x.tolist,
        lambda: y.__dlpack__(copy=True),
    ):
        with pytest.raises(MemoryError, match="the host has no memory for 703687") as caught:
            call()
        assert caught.value.status == "OUT_OF_MEMORY" and isinstance(caught.value, bp.Error)


def same_as_numpy(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


REAL = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("name", ["bool", *REAL, *FLOATS])
def test_lists_of_arrays_keep_their_dtype(device, name):
    largest = True if name == "bool" else np.iinfo(name).max if name in REAL else 1e4 / 3
    array = np.array([0, largest], name)
    expected = np.stack([array, array[::-1]])
    tensor = bp.asarray(array, device=device)
    for rows in (
        [array, array[::-1]],
        [tensor, tensor[::-1]],
        (list(array), list(array[::-1])),  # NumPy's scalars
        [[tensor[0], array[1]], array[::-1]],
        [memoryview(array), bp.from_dlpack(array)[::-1]],
    ):
        same_as_numpy(bp.asarray(rows, device=device), expected)
    asked = bp.asarray([array], dtype="complex128", device=device)
    same_as_numpy(asked, array[None].astype("complex128"))


def test_large_values_in_lists():
    found = bp.asarray([np.array([16777217.0, 1e300])])
    assert found.dtype is bp.float64 and found.tolist() == [[16777217.0, 1e300]]
    assert bp.asarray([np.uint64(2**63)]).tolist() == [2**63]
    assert bp.asarray([np.array([2**53 + 1]), [True]]).tolist() == [[2**53 + 1], [1]]


def test_lists_of_arrays_without_letters():
    import ml_dtypes

    for name in ("bfloat16", "float8_e5m2"):
        one = np.array([1.5, -2], getattr(ml_dtypes, name))
        for row in (one, list(one), bp.asarray(one)):
            found = bp.asarray([row])
            assert found.dtype == name and found.tolist() == [[1.5, -2]]
    assert bp.asarray([ml_dtypes.bfloat16(1.5), np.float16(0.5)]).dtype is bp.float32


@pytest.mark.parametrize("a", ["bool", *REAL, *FLOATS])
def test_dtypes_of_lists_promote_as_operators_do(a):
    """Within a kind as NumPy has it too."""
    for b in ["bool", *REAL, *FLOATS]:
        x, y = np.array([1, 0], a), np.array([1, 1], b)
        if {a, b} <= set(REAL) and np.result_type(x, y).kind == "f":
            signed = a if b == "uint64" else b
            with pytest.raises(ValueError, match=f"^asarray: .* both uint64 and {signed}"):
                bp.asarray([x, y])
            continue
        found = bp.asarray([x, y])
        assert found.tolist() == [[1, 0], [1, 1]]
        if a == b == "bool":
            assert found.dtype is bp.bool
            continue
        assert found.dtype == (bp.asarray(x) * bp.asarray(y)).dtype
        if {a, b} <= set(REAL) or {a, b} <= set(FLOATS):
            assert found.dtype == np.result_type(x, y)


def test_the_order_in_a_list_does_not_matter():
    """Of int64 and uint64 neither holds the other; with a float beside them that is no question."""
    rows = [np.array([2], "uint64"), np.array([3], "int64"), np.array([0.5], "float32")]
    for order in itertools.permutations(range(3)):
        found = bp.asarray([rows[i] for i in order])
        assert found.dtype is bp.float32 and found.tolist() == [rows[i].tolist() for i in order]


@pytest.mark.parametrize(
    "array, number, dtype",
    [
        (np.int8(1), 5, "int8"),
        (np.int8(1), True, "int8"),
        (np.bool_(True), True, "bool"),
        (np.bool_(True), 2, "int64"),
        (np.bool_(True), 2.5, "float32"),
        (np.int64(1), 2.5, "float32"),
        (np.float16(1), 3, "float16"),
        (np.float64(1), 1 / 3, "float64"),
        (np.float32(1), 2j, "complex64"),
        (np.float64(1), 2j, "complex128"),
        (np.int16(1), 2j, "complex64"),
    ],
)
def test_python_numbers_beside_arrays(device, array, number, dtype):
    for beside in (array, bp.asarray(array, device=device), np.array(array)):
        for values in ([beside, number], [number, beside]):
            found = bp.asarray(values, device=device)
            expected = np.array([v if v is number else array.item() for v in values], dtype)
            same_as_numpy(found, expected)


def test_python_numbers_that_do_not_fit_beside_arrays():
    for values, dtype in (([np.int8(1), 300], "int8"), ([-1, np.uint8(1)], "uint8")):
        with pytest.raises(OverflowError, match=f"out of the range of {dtype}"):
            bp.asarray(values)
    with pytest.raises(OverflowError, match="the int 300 is out of the range of int8"):
        bp.asarray([np.array([300])], dtype="int8")


def test_shapes_of_arrays_in_lists(device):
    for rows in (
        [np.zeros((0, 3), "int8")],
        [np.zeros((2, 0))] * 2,
        [np.arange(6.0).reshape(2, 3).T[::-1], np.ones((3, 2))],
        [np.broadcast_to(np.int16(4), (2, 3))],
        [[np.array(1.5), 2.5]],
        [[np.arange(2)], [np.arange(2, 4)]],
        [np.zeros((1,) * 15)],
    ):
        expected = np.array(rows)
        tensors = [bp.asarray(r, device=device) if isinstance(r, np.ndarray) else r for r in rows]
        for given in (rows, tensors):
            same_as_numpy(bp.asarray(given, dtype=expected.dtype, device=device), expected)
            assert bp.asarray(given, device=device).shape == expected.shape


@pytest.mark.parametrize(
    "bad, kind, words",
    [
        ([np.zeros(2), np.zeros(3)], ValueError, r"array of shape \(3,\), .* \(2,\) at obj\[1\]"),
        ([[1, 2], np.zeros((2, 1))], ValueError, r"\(2, 1\), expected shape \(2,\) at obj\[1"),
        ([1, np.zeros(2)], ValueError, r"shape \(2,\), expected shape \(\) at obj\[1\]"),
        ([np.zeros(2), 1], ValueError, r"ragged: a number among lists at obj\[1\]"),
        ([np.zeros((2, 1)), [1, 2]], ValueError, r"a number among lists at obj\[1\]\[0\]"),
        ([np.zeros((1,) * 16)], ValueError, r"more than 16 dimensions at obj\[0\]"),
        ([1, np.array([1], object)], TypeError, r"dtype object .* at obj\[1\]"),
        ([[np.array("a")]], TypeError, r"dtype <U1 has no counterpart .* at obj\[0\]\[0\]"),
        ([np.zeros(2, ">f4")], ValueError, r"^asarray: .* another byte order .* at obj\[0\]"),
        ([np.datetime64("2020")], TypeError, r"dtype datetime64\[Y\] .* at obj\[0\]"),
        ([np.longdouble(1)], TypeError, r"has no counterpart .* at obj\[0\]"),
        ([b"ab"], TypeError, r"expected numbers, found bytes at obj\[0\]"),
        ([bytearray(b"ab")], TypeError, r"expected numbers, found bytearray at obj\[0\]"),
        ([np.zeros(2), None], TypeError, r"expected numbers, found NoneType at obj\[1\]"),
    ],
)
def test_bad_arrays_in_lists(bad, kind, words):
    with pytest.raises(kind, match=words):
        bp.asarray(bad)


def test_scalars_of_dates_are_not_their_bytes():
    for bad in (np.datetime64("2020"), np.timedelta64(3), np.bytes_(b"ab")):
        with pytest.raises(TypeError, match="has no counterpart"):
            bp.asarray(bad)


def test_other_objects_in_lists():
    class Lists:  # numbers without a dtype
        def tolist(self):
            return [1, 2]

    class Arrayish:
        def __array__(self, dtype=None, copy=None):
            return np.array([1, 2], "int16")

    class Lends:
        def __init__(self, array):
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

    class Four(enum.IntEnum):
        FOUR = 4

    class Half(float):
        pass

    def found(*values):
        made = bp.asarray(list(values))
        return made.dtype.name, made.tolist()

    assert found(Lists(), [3, 4]) == ("int64", [[1, 2], [3, 4]])
    assert found(Arrayish(), [3, 4]) == ("int16", [[1, 2], [3, 4]])
    assert found(Lends(np.array([1, 2], "int8"))) == ("int8", [[1, 2]])
    assert found(array.array("d", [1 / 3])) == ("float64", [[1 / 3]])
    assert found(Four.FOUR, True) == ("int64", [4, 1]) and found(Half(0.5)) == ("float32", [0.5])


def test_devices_of_lists(device):
    here = bp.asarray([1.0, 2.0], device=device)
    other = bp.device("npu:0" if device == "cpu:0" else "cpu:0")
    for rows in ([here, here], [here, np.zeros(2)], [[3, 4], here], [[here[0], 1]]):
        assert bp.asarray(rows).device.name == device
        moved = bp.asarray(rows, device=other)
        assert moved.device == other and moved.tolist() == bp.asarray(rows).tolist()
    there = here.to_device(other)
    words = f"expected tensors on {device}, found one on {other} at obj\\[1\\]\\[0\\]; .*'device'"
    with pytest.raises(ValueError, match=words):
        bp.asarray([[here[0]], [there[0]]])
    both = bp.asarray([here, there], device=other)
    assert both.device == other and both.tolist() == [[1, 2], [1, 2]]
    with pytest.raises(ValueError, match="copy.*is False"):
        bp.asarray([here], copy=False)


def test_lists_of_tensors_of_two_runtimes():
    here = bp.ones(2)
    with bp.Runtime() as runtime:
        there = bp.ones(2, device=runtime.device("cpu:0"))
        assert bp.asarray([there, there]).device == there.device
        with pytest.raises(ValueError, match="cpu:0, found one on cpu:0 of another Runtime"):
            bp.asarray([here, there])
    with pytest.raises(bp.Error, match="closed"):
        bp.asarray([there, there])


def test_lists_need_no_numpy():
    code = """
import sys
sys.modules["numpy"] = None
import array
import backplane as bp
x = bp.asarray([2.5, 3.5], dtype="float64")
found = bp.asarray([x, [1, 2], array.array("f", [4, 5]), [x[0], 7]])
assert found.dtype is bp.float64
assert found.tolist() == [[2.5, 3.5], [1, 2], [4, 5], [2.5, 7]]
"""
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60)
