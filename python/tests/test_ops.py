# SPDX-License-Identifier: Apache-2.0
import gc
import inspect
import subprocess
import sys

import numpy as np
import pytest

import backplane as bp
from backplane import ops
from backplane._core import call_operator


def tensor(values, device, dtype="float32"):
    return bp.asarray(np.asarray(values, dtype=dtype), device=device, copy=True)


def close(found, expected, device, rtol=1e-6):
    expected = np.asarray(expected)
    assert isinstance(found, bp.Tensor) and found.device.name == device
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=rtol, atol=1e-6)


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 8 - 1


def softmax(a, axis):
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# Each operator's name, how it is called with the tensor of X, and NumPy's values.
CASES = [
    ("add", lambda x: ops.add(x, x), X + X),
    ("sub", lambda x: ops.sub(10, x), 10 - X),
    ("mul", lambda x: ops.mul(x, 2.5), X * np.float32(2.5)),
    ("mul", lambda x: ops.mul(x, np.float32(2.5)), X * np.float32(2.5)),
    ("max", lambda x: ops.max(x, True), np.maximum(X, 1)),
    ("clip", lambda x: ops.clip(x, -0.5, 1), X.clip(-0.5, 1)),
    ("where", lambda x: ops.where(ops.greater(x, 0), x, -1), np.where(X > 0, X, -1)),
    ("softmax", lambda x: ops.softmax(x), softmax(X, -1)),
    ("softmax", lambda x: ops.softmax(x, axis=np.int64(1)), softmax(X, 1)),
    ("leaky_relu", lambda x: ops.leaky_relu(x, alpha=1), X),
    ("reduce_sum", lambda x: ops.reduce_sum(x), X.sum(keepdims=True)),
    ("reduce_sum", lambda x: ops.reduce_sum(x, axes=1, keepdims=False), X.sum(1)),
    ("reduce_sum", lambda x: ops.reduce_sum(x, axes=[0, -1], keepdims=np.True_),
     X.sum((0, 2), keepdims=True)),
    ("reshape", lambda x: ops.reshape(x, (6, -1)), X.reshape(6, 4)),
    ("reshape", lambda x: ops.reshape(x, 24), X.reshape(24)),
    ("reshape", lambda x: ops.reshape(x, np.array([4, 6])), X.reshape(4, 6)),
    ("reshape", lambda x: ops.reshape(x, bp.asarray([8, 3], device=x.device)), X.reshape(8, 3)),
    ("transpose", lambda x: ops.transpose(x, perm=(1, 2, 0)), X.transpose(1, 2, 0)),
    ("squeeze", lambda x: ops.squeeze(x[:1]), X[0]),
    ("squeeze", lambda x: ops.squeeze(x[:1], [0]), X[0]),
    ("expand", lambda x: ops.expand(x[:, :1], [2, 5, 4]), np.broadcast_to(X[:, :1], (2, 5, 4))),
    ("slice", lambda x: ops.slice(x, [1, 0], [3, 4], [1, 2], [1, 2]), X[:, 1:3, ::2]),
    ("concat", lambda x: ops.concat([x, x[:1]], 0), np.concatenate([X, X[:1]])),
    ("concat", lambda x: ops.concat((x,), axis=-1), X),
    ("pad", lambda x: ops.pad(x, [0, 0, 1, 0, 2, 0], 7.0), np.pad(
        X, ((0, 0), (0, 2), (1, 0)), constant_values=7)),
    ("tile", lambda x: ops.tile(x, [1, 2, 1]), np.tile(X, (1, 2, 1))),
    ("cumsum", lambda x: ops.cumsum(x, 2, reverse=True), X[..., ::-1].cumsum(2)[..., ::-1]),
    ("cast", lambda x: ops.cast(x, "int32"), X.astype(np.int32)),
    ("cast", lambda x: ops.cast(x, bp.int32), X.astype(np.int32)),
    ("cast", lambda x: ops.cast(x, np.int32), X.astype(np.int32)),
    ("cast", lambda x: ops.cast(x, bool), X.astype(bool)),
    ("gather", lambda x: ops.gather(x, bp.asarray([2, 0], device=x.device), axis=1), X[:, [2, 0]]),
    ("einsum", lambda x: ops.einsum([x, x], "bij,bkj->bik"), np.einsum("bij,bkj->bik", X, X)),
    ("resize", lambda x: ops.resize(x, scales=[1.0, 1.0, 2.0], mode="nearest"), X.repeat(2, 2)),
    ("trilu", lambda x: ops.trilu(x, 1), np.triu(X, 1)),
    ("one_hot", lambda x: ops.one_hot(bp.asarray([1, 0], device=x.device), 3,
                                      bp.asarray([5, 6], device=x.device)),
     np.array([[5, 6, 5], [6, 5, 5]])),
    ("layer_norm", lambda x: ops.layer_norm(x, x[0, 0], epsilon=1.0),
     (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1) * X[0, 0]),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_values(device, case):
    close(case[1](tensor(X, device)), case[2], device, rtol=2e-6)


def test_several_outputs(device):
    x = tensor(X, device)
    values, indices = ops.top_k(x, 2, axis=1)
    order = np.argsort(-X, axis=1, kind="stable")[:, :2]
    close(values, np.take_along_axis(X, order, 1), device)
    close(indices, order, device)
    smallest = ops.top_k(x, k=1, largest=False)
    assert smallest._fields == ("y", "indices") and smallest.indices.tolist() == [[[0]] * 3] * 2
    parts = ops.split(x, 2, axis=2)
    assert type(parts) is tuple
    for part, expected in zip(parts, np.split(X, 2, axis=2), strict=True):
        close(part, expected, device)
    (alone,) = ops.split(x, num_outputs=1)
    close(alone, X, device)
    uneven = ops.split(x, 2, axis=-1, sizes=[1, 3])
    assert [part.shape for part in uneven] == [(2, 3, 1), (2, 3, 3)]


def test_convolution(device):
    rng = np.random.default_rng(2)
    x, w = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((1, 2, 5, 5), (3, 2, 3, 3)))
    b = np.array([1, 2, 3], np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    expected = np.einsum("nchwij,ocij->nohw", windows, w) + b[:, None, None]
    options = {"strides": 2 * (2,), "pads": [1] * 4}
    close(ops.conv(tensor(x, device), tensor(w, device), tensor(b, device), **options), expected,
          device)
    close(ops.conv(tensor(x, device), tensor(w, device), **options, activation="relu"),
          np.maximum(expected - b[:, None, None], 0), device)


def test_numbers_take_the_dtype_beside_them(device):
    for dtype in ("int8", "uint8", "int64", "float16", "float64"):
        x = tensor([1, 2], device, dtype)
        for found in (ops.add(x, 2), ops.add(2, x), ops.add(x, True)):
            assert found.dtype == dtype
        assert ops.where(tensor([True, False], device, bool), x, 7).tolist() == [1, 7]
    condition = tensor([True, False], device, bool)
    assert ops.where(condition, 1, 2).dtype is bp.int64
    assert ops.where(condition, 1, 2.0).dtype is bp.float32
    with pytest.raises(TypeError, match="'b': expected a value of int64, found a float"):
        ops.add(tensor([1], device, "int64"), 1.5)
    with pytest.raises(OverflowError, match="300 is out of the range of uint8"):
        ops.add(tensor([1], device, "uint8"), 300)


def test_without_tensors(device):
    found = ops.range(1, 9, 3, device=device)
    assert found.device.name == device and found.tolist() == [1, 4, 7]
    assert found.dtype is bp.int64 and ops.range(0, 1, 0.5).tolist() == [0, 0.5]
    assert ops.range(0, 1, 0.5).device == bp.device("cpu:0")
    start = bp.asarray(5, dtype="int32", device=device)
    assert ops.range(start, 7, 1).dtype is bp.int32
    assert ops.range(start, 7, 1, device=device).device.name == device
    other = "npu:0" if device == "cpu:0" else "cpu:0"
    with pytest.raises(ValueError, match=f"range: argument 'device' is {other}.*on {device}"):
        ops.range(start, 7, 1, device=other)


def test_call_operator_by_name_and_id(device):
    x = tensor(X, device)
    close(call_operator("reduce_sum", x, axes=[0], keepdims=False), X.sum(0), device)
    close(call_operator(8, x, x), X + X, device)
    without = call_operator("conv", x, x)
    close(call_operator("conv", x, x, None), without.numpy(), device)
    assert call_operator.__text_signature__.startswith("($module, op, /, *inputs")


# The exception, its words, and the call of operators' functions with the tensor of X.
BAD_INPUTS = [
    (TypeError, "add: argument 'b': expected a Tensor or a number, found str",
     lambda x: ops.add(x, "a")),
    (TypeError, "add: argument 'a': expected a Tensor, found None", lambda x: ops.add(None, x)),
    (TypeError, "found list", lambda x: ops.add(x, [1])),
    (TypeError, "found numpy.ndarray", lambda x: ops.add(x, X)),
    (TypeError, r"concat: argument 'x'\[1\]: expected a Tensor", lambda x: ops.concat([x, "a"], 0)),
    (TypeError, "reshape: argument 'shape': expected a value of int64, found a float",
     lambda x: ops.reshape(x, [1.5])),
    (TypeError, "reshape: argument 'shape': expected numbers or a Tensor, found str",
     lambda x: ops.reshape(x, "24")),
    (TypeError, "reshape: argument 'shape': expected numbers, found list",
     lambda x: ops.reshape(x, [[24]])),
    (ValueError, "concat", lambda x: ops.concat([], 0)),
    (ValueError, "add: .*dtype|add: .*float32", lambda x: ops.add(x, x.astype("float64"))),
    (TypeError, "range: argument 'device': expected a Device or its name, found int",
     lambda x: ops.range(0, 1, 1, device=3)),
]
BAD_ATTRIBUTES = [
    (TypeError, "missing 1 required positional argument: 'to'", lambda x: ops.cast(x)),
    (TypeError, "unexpected keyword argument 'axes'", lambda x: ops.softmax(x, axes=1)),
    (TypeError, "softmax: argument 'axis': expected an int, found float",
     lambda x: ops.softmax(x, axis=1.0)),
    (TypeError, "softmax: argument 'axis': expected an int, found bool",
     lambda x: ops.softmax(x, axis=True)),
    (TypeError, "'alpha': expected a float, found str", lambda x: ops.elu(x, alpha="1")),
    (TypeError, "'alpha': expected a float, found complex", lambda x: ops.elu(x, alpha=1j)),
    (TypeError, "'keepdims': expected a bool, found int", lambda x: ops.reduce_sum(x, keepdims=1)),
    (TypeError, "'axes': expected integers, found str", lambda x: ops.reduce_sum(x, axes="1")),
    (TypeError, "'axes': expected integers, found float", lambda x: ops.reduce_sum(x, axes=[1.0])),
    (TypeError, "reduce_sum: argument 'axes': expected integers, found numpy.ndarray",
     lambda x: ops.reduce_sum(x, axes=np.array([0, 1]))),
    (TypeError, "softmax: argument 'axis': expected an int, found backplane._core.Tensor",
     lambda x: ops.softmax(x, axis=x)),
    (TypeError, "'axes': expected integers, found NoneType",
     lambda x: ops.reduce_sum(x, axes=None)),
    (TypeError, "pad: argument 'mode': expected a str, found bytes",
     lambda x: ops.pad(x, [0] * 6, mode=b"reflect")),
    (TypeError, "cast: argument 'to': no dtype is named by 'float99'",
     lambda x: ops.cast(x, "float99")),
    (TypeError, "cast: argument 'to': expected a dtype, found NoneType",
     lambda x: ops.cast(x, None)),
    (OverflowError, "softmax: argument 'axis': 1180591620717411303424 is out of the range",
     lambda x: ops.softmax(x, axis=1 << 70)),
    (ValueError, "softmax: attribute 'axis': expected -3 to 2, found 9",
     lambda x: ops.softmax(x, axis=9)),
    (ValueError, "pad: .*mode", lambda x: ops.pad(x, [0] * 6, mode="sideways")),
    (ValueError, "split: attribute 'num_outputs'", lambda x: ops.split(x, -1)),
    (ValueError, "split: attribute 'num_outputs'", lambda x: ops.split(x, 1 << 40)),
]
BAD_GENERIC = [
    (TypeError, "call_operator: argument 'op' is missing", lambda x: call_operator()),
    (TypeError, "call_operator: argument 'op': expected a name or an id, found float",
     lambda x: call_operator(1.0, x)),
    (ValueError, "no operator is named 'adds'", lambda x: call_operator("adds", x)),
    (ValueError, "no operator has the id -1", lambda x: call_operator(-1, x)),
    (ValueError, "no operator has the id 99999999999999999999",
     lambda x: call_operator(10**20 - 1, x)),
    (TypeError, "add: expected 2 inputs, found 1", lambda x: call_operator("add", x)),
    (TypeError, "conv: expected 2 to 4 inputs, found 5",
     lambda x: call_operator("conv", x, x, x, x, x)),
    (TypeError, "add: unexpected keyword argument 'alpha'",
     lambda x: call_operator("add", x, x, alpha=1)),
    (TypeError, "cast: argument 'to' is missing", lambda x: call_operator("cast", x)),
]


def test_bad_calls(device):
    x = tensor(X, device)
    for error, words, bad in BAD_INPUTS + BAD_ATTRIBUTES + BAD_GENERIC:
        with pytest.raises(error, match=words):
            bad(x)
    assert x.tolist() == X.tolist()


def test_failed_calls_leave_nothing_behind(device):
    x = tensor(X, device)
    where = bp.device(device)

    def calls():
        for _ in range(50):
            for bad in (lambda: ops.add(x, "a"), lambda: ops.softmax(x, axis=9),
                        lambda: ops.reshape(x, [5, 5]), lambda: ops.split(x, 2, sizes=[9, 9])):
                with pytest.raises((TypeError, ValueError)):
                    bad()
        gc.collect()
        where.sync()
        return where.memory_used, sys.getrefcount(x)

    assert calls() == calls()


def test_two_devices_and_closed_runtimes():
    x, y = bp.ones(2, device="cpu:0"), bp.ones(2, device="npu:0")
    with pytest.raises(ValueError, match="add: input b is on npu:0, expected cpu:0"):
        ops.add(x, y)
    with bp.Runtime() as runtime:
        z = bp.ones(2, device=runtime.device("cpu:0"))
    with pytest.raises(bp.Error, match="closed"):
        ops.add(z, z)


def test_each_operator_has_a_function():
    names = [name for name in ops.__all__]
    assert len(names) == len(set(names)) > 140 and "constant" not in names
    for name in names:
        function = getattr(ops, name)
        assert inspect.isfunction(function) and function.__doc__.count("Returns:") == 1
        parameters = inspect.signature(function).parameters
        ahead = [p for p in parameters.values() if p.kind is not p.KEYWORD_ONLY]
        assert ahead and set(parameters) == set(function.__annotations__) - {"return"}
        # The table behind it has the same operator under this name.
        with pytest.raises((TypeError, ValueError), match=rf"^{name}: "):
            call_operator(name)
    assert str(inspect.signature(ops.top_k)) == (
        "(x: '_Value', k: '_Numbers', *, axis: 'int' = -1, largest: 'builtins.bool' = True)"
        " -> 'TopKResult'")
    text = ops.reduce_sum.__doc__
    for words in ("axes: i64s; default ()", "keepdims: bool; default True", "T: int8, int16"):
        assert words in text
    assert "shape: int64; numbers, or a tensor" in ops.reshape.__doc__


def test_ops_are_imported_when_first_asked_for():
    code = """
import sys, backplane as bp
assert "backplane.ops" not in sys.modules and "typing" not in sys.modules
assert bp.ops.add(bp.ones(1), 1).tolist() == [2] and "backplane.ops" in sys.modules
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-P", "-S", "-c", code], check=True, timeout=60)


def test_without_a_tensor_the_device_is_the_asked_one(device):
    made = ops.range(0, 3, 1, device=device)
    assert made.device.name == device
    assert (bp.asarray([1, 2, 3], device=device) + made).tolist() == [1, 3, 5]
