# SPDX-License-Identifier: Apache-2.0
import array
import operator

import numpy as np
import pytest

import backplane as bp

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.mod, operator.floordiv]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


def pair(dtype, seed=1):
    rng = np.random.default_rng(seed)
    a = rng.integers(1, 9, (3, 4)).astype(dtype)
    b = rng.integers(1, 9, (4,)).astype(dtype)
    if np.dtype(dtype).kind in "if":
        a[0], b[1] = -a[0], -b[1]
    return a, b


def same(found, expected, device):
    assert found.device.name == device
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("dtype", INTS + FLOATS)
@pytest.mark.parametrize("call", ARITHMETIC + COMPARISONS)
def test_binary(device, call, dtype):
    a, b = pair(dtype)
    x, y = bp.asarray(a, device=device), bp.asarray(b, device=device)
    same(call(x, y), call(a, b), device)
    same(call(y, x), call(b, a), device)
    same(call(x, 3), call(a, 3), device)
    same(call(7, x), call(7, a), device)
    same(call(x.T, y[:3]), call(a.T, b[:3]), device)


@pytest.mark.parametrize("dtype", FLOATS)
def test_divide_and_power_of_floats(device, dtype):
    a, b = pair(dtype)
    x, y = bp.asarray(a, device=device), bp.asarray(b, device=device)
    for call, p, q in (
        (operator.truediv, x, y),
        (operator.truediv, 1.5, x),
        (operator.truediv, x, 2),
        (operator.pow, abs(x), y),
        (operator.pow, x, 2),
        (operator.pow, 2.0, x),
    ):
        to_numpy = [v.numpy() if isinstance(v, bp.Tensor) else v for v in (p, q)]
        found = call(p, q)
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found.numpy(), call(*to_numpy), rtol=2e-3 if dtype == "float16" else 1e-6
        )


def test_divide_of_integers_gives_the_default_float(device):
    x = bp.asarray([7, -8, 9], device=device)
    assert (x / 2).dtype is bp.float32 and (x / 2).tolist() == [3.5, -4.0, 4.5]
    assert (x / x).tolist() == [1, 1, 1]


def test_floor_divide_of_special_floats(device):
    a = np.array([1, -1, 1, -1, 0, 5, -5, np.inf, np.nan], np.float32)
    b = np.array([np.inf, np.inf, 0, 0, 0, -np.inf, -np.inf, 2, 1], np.float32)
    with np.errstate(all="ignore"):
        expected = a // b
    found = (bp.asarray(a, device=device) // bp.asarray(b, device=device)).numpy()
    np.testing.assert_array_equal(found, expected)
    assert (bp.asarray([1.0], dtype="float64", device=device) // 0.1).item() == 1.0 // 0.1 == 9
    assert (bp.asarray([7, -7], device=device) // 0).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_bitwise(device, dtype):
    a, b = pair("int64")
    a, b = (a > 3, b > 3) if dtype == "bool" else (np.abs(a).astype(dtype), np.abs(b).astype(dtype))
    x, y = bp.asarray(a, device=device), bp.asarray(b, device=device)
    for call in (operator.and_, operator.or_, operator.xor):
        same(call(x, y), call(a, b), device)
        same(
            call(x, True if dtype == "bool" else 5), call(a, True if dtype == "bool" else 5), device
        )
    same(~x, ~a, device)
    if dtype != "bool":
        same(x << y, a << b, device)
        same(x >> 1, a >> 1, device)


def test_unary(device):
    for dtype in INTS + FLOATS:
        a, _ = pair(dtype)
        x = bp.asarray(a, device=device)
        same(-x, -a, device)
        same(abs(x), abs(a), device)
        same(+x, +a, device)
        p = +x
        p[...] = 0
        same(x, a, device)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_matmul(device, dtype):
    rng = np.random.default_rng(5)
    for left, right in (((3, 4), (4, 5)), ((4,), (4,)), ((2, 3, 4), (4, 2)), ((3, 4), (4,))):
        a, b = rng.integers(-4, 5, left).astype(dtype), rng.integers(-4, 5, right).astype(dtype)
        same(bp.asarray(a, device=device) @ bp.asarray(b, device=device), np.asarray(a @ b), device)
    x = bp.asarray(a, device=device)
    with pytest.raises(TypeError):
        x @ 3
    with pytest.raises(ValueError, match="matmul"):
        bp.ones((2, 3), device=device) @ bp.ones((2, 3), device=device)


def test_promotion(device):
    def promoted(a, b):
        left, right = (bp.ones(2, dtype=name, device=device) for name in (a, b))
        assert (left + right).dtype == (right + left).dtype
        assert (left + right).tolist() == [2, 2]
        return (left + right).dtype.name

    assert promoted("int8", "int32") == "int32" and promoted("uint8", "int8") == "int16"
    assert promoted("uint32", "int32") == "int64" and promoted("uint8", "uint16") == "uint16"
    assert (
        promoted("float32", "float64") == "float64" and promoted("float16", "bfloat16") == "float32"
    )
    assert promoted("int64", "float32") == "float32" and promoted("bool", "int8") == "int8"
    with pytest.raises(ValueError, match="uint64 and int64|int64 and uint64"):
        promoted("uint64", "int64")


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.le,
                                     operator.gt, operator.ge])
def test_comparisons_with_what_the_dtype_cannot_hold(device, compare):
    for dtype in ("int8", "uint8", "int64", "uint64"):
        array = np.array([np.iinfo(dtype).min, 1, np.iinfo(dtype).max], dtype)
        x = bp.asarray(array, device=device)
        for number in (300, -1, -129, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**30, -(10**30)):
            for found, expected in ((compare(x, number), compare(array, number)),
                                    (compare(number, x), compare(number, array))):
                assert found.dtype is bp.bool and found.tolist() == expected.tolist(), number
    flags = bp.asarray([True, False], device=device)
    assert compare(flags, 2**70).tolist() == compare(np.array([1, 0]), 2**70).tolist()


def test_weak_scalars(device):
    def dtype_of(name, number):
        x = bp.ones(2, dtype=name, device=device)
        assert (x + number).dtype == (number + x).dtype
        return (x + number).dtype.name

    assert dtype_of("int8", 1) == "int8" and dtype_of("int8", True) == "int8"
    assert dtype_of("float16", 1) == "float16" and dtype_of("float16", 1.5) == "float16"
    assert dtype_of("int32", 1.5) == "float32" and dtype_of("bool", 1) == "int64"
    assert dtype_of("bfloat16", 2.0) == "bfloat16" and dtype_of("float64", 1.5) == "float64"
    assert dtype_of("float32", np.float64(2)) == "float32"
    assert (
        dtype_of("float32", np.float32(2)) == "float32" and dtype_of("int8", np.int64(2)) == "int8"
    )
    with pytest.raises(OverflowError, match="300 is out of the range of uint8"):
        bp.ones(2, dtype="uint8", device=device) + 300


def test_in_place(device):
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    for call in (
        operator.iadd,
        operator.isub,
        operator.imul,
        operator.itruediv,
        operator.imod,
        operator.ifloordiv,
        operator.ipow,
    ):
        base = bp.asarray(a, device=device, copy=True)
        view, expected = base[1:, ::2], a.copy()
        expected_view = expected[1:, ::2]
        found = call(view, 2)
        call(expected_view, 2)
        assert found is view
        np.testing.assert_array_equal(base.numpy(), expected)
    x = bp.asarray([6, 3], device=device)
    x &= 2
    x |= 1
    x ^= 5
    x <<= 2
    x >>= 1
    assert x.tolist() == [12, 12]
    m = bp.asarray([[1.0, 2.0], [3.0, 4.0]], device=device)
    same_object = m
    m @= bp.asarray([[0.0, 1.0], [1.0, 0.0]], device=device)
    assert m is same_object and m.tolist() == [[2, 1], [4, 3]]


def test_in_place_refuses(device):
    x = bp.asarray([1, 2], device=device)
    with pytest.raises(ValueError, match="the result is float32.*is int64"):
        x += 1.5
    with pytest.raises(ValueError):
        x += bp.ones((3, 2), dtype="int64", device=device)
    source = np.arange(3.0)
    source.flags.writeable = False
    fixed = bp.asarray(source)
    with pytest.raises(ValueError, match="read.only"):
        fixed += 1
    assert x.tolist() == [1, 2] and source.tolist() == [0, 1, 2]
    m = bp.ones((3, 3), device=device)
    with pytest.raises(ValueError, match=r"matmul.*shape \(3,\), .* has \(3, 3\)"):
        m @= bp.ones(3, device=device)  # not repeated over the rows
    v = bp.ones(3, device=device)
    with pytest.raises(ValueError, match=r"matmul.*shape \(\), .* has \(3,\)"):
        v @= v
    assert m.tolist() == [[1, 1, 1]] * 3 and v.tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="operand"):
        m @= np.ones((3, 3), np.float32)
    f = bp.asarray([1.0], dtype="float32", device=device)
    f += bp.asarray([2.0], dtype="float64", device=device)  # same kind: narrowed
    assert f.dtype is bp.float32 and f.item() == 3


def test_two_devices_are_named():
    x, y = bp.ones(2, device="cpu:0"), bp.ones(2, device="npu:0")
    for call in (operator.add, operator.truediv, operator.matmul, operator.eq, operator.floordiv):
        with pytest.raises(ValueError) as caught:
            call(x, y)
        assert "cpu:0" in str(caught.value) and "npu:0" in str(caught.value)
        assert caught.value.status == "INVALID_ARGUMENT"
    with pytest.raises(ValueError, match="cpu:0.*npu:0"):
        x[...] = y


class Lent:
    def __array__(self, dtype=None, copy=None):
        return np.ones(2)


def test_strangers(device):
    x = bp.ones(2, device=device)
    for other in ("a", None, [1, 2], object(), np.ones(2), np.ones(2, object)):
        with pytest.raises(TypeError, match="operand"):
            x + other
        with pytest.raises(TypeError, match="operand|concatenate"):
            other + x
    for stranger in (None, "a", object(), np.ndarray, {}):
        assert (x == stranger) is False and (stranger == x) is False
        assert (x != stranger) is True and (stranger != x) is True
    assert x in [None, "a", x]
    for other in ([1, 2], (1, 2), range(2), np.ones(2), array.array("d", [1, 2]), Lent()):
        for call in (operator.eq, operator.ne):
            with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for [=!]="):
                call(x, other)
            with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for [=!]="):
                call(other, x)
    assert (x == np.float32(1)).tolist() == [True, True]  # a number
    with pytest.raises(TypeError):
        x < "a"
    with pytest.raises(TypeError):
        pow(x, 2, 3)
    with pytest.raises(ValueError):  # the library's words
        bp.ones(2, device=device) + bp.ones(3, device=device)
    with pytest.raises(ValueError, match="remainder: of no complex numbers, found complex64"):
        bp.ones(2, dtype="complex64", device=device) % 1j
    with pytest.raises(ValueError, match="less"):
        bp.ones(2, dtype="complex64", device=device) < 1j


def test_broadcast_and_empty(device):
    x, y = bp.zeros((3, 1, 4), device=device), bp.ones((2, 1), device=device)
    assert (x + y).shape == (3, 2, 4)
    assert (bp.zeros((0, 4), device=device) + bp.ones((1, 4), device=device)).shape == (0, 4)
    assert (bp.asarray(2, device=device) * 3).item() == 6
