# SPDX-License-Identifier: Apache-2.0
import enum
import gc
import weakref

import numpy as np
import pytest

import backplane as bp

try:
    import torch
except ImportError:
    torch = None


class Producer:
    """An array that knows DLPack as libraries before 1.0 did."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self):
        return self.array.__dlpack__()


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "uint16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ],
)
def test_round_trip(dtype):
    a = np.arange(12).reshape(3, 4).astype(dtype)
    x = bp.from_dlpack(a)
    assert x.dtype == dtype and np.shares_memory(x.numpy(), a)
    back = np.from_dlpack(x[:, ::-2].T)
    np.testing.assert_array_equal(back, a[:, ::-2].T)
    assert np.shares_memory(back, a)
    x[0, 1] = 1
    assert back.tolist() == a[:, ::-2].T.tolist()
    np.testing.assert_array_equal(np.from_dlpack(bp.asarray(7, dtype=dtype)), np.asarray(7, dtype))


def test_old_producers_and_consumers():
    a = np.arange(3.0)
    x = bp.from_dlpack(Producer(a))
    assert x.tolist() == [0, 1, 2] and np.shares_memory(x.numpy(), a)
    assert np.from_dlpack(Producer(x)).tolist() == [0, 1, 2]
    assert bp.from_dlpack(Producer(x)).tolist() == [0, 1, 2]
    a.flags.writeable = False
    fixed = bp.asarray(a)
    with pytest.raises(BufferError, match="read-only"):
        fixed.__dlpack__()
    assert fixed.__dlpack__(copy=True) is not None


def test_capsule_names():
    x = bp.asarray([1.0])
    assert 'capsule object "dltensor"' in repr(x.__dlpack__())
    assert 'capsule object "dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    assert 'capsule object "dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 0)))
    assert 'capsule object "dltensor_versioned"' in repr(x.__dlpack__(max_version=(2, 0)))
    assert x.__dlpack_device__() == (1, 0)


def test_arguments():
    x = bp.asarray([1.0, 2.0])
    assert np.from_dlpack(x, device="cpu", copy=False).tolist() == [1, 2]
    copied = np.from_dlpack(x, copy=True)
    copied[0] = 9
    assert x.tolist() == [1, 2]
    with pytest.raises(BufferError, match="dl_device"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="stream"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="dl_device"):
        x.__dlpack__(dl_device=(1, 7))
    with pytest.raises(BufferError, match="dl_device"):
        x.__dlpack__(dl_device=(2**70, 0))
    with pytest.raises(TypeError, match="copy"):
        x.__dlpack__(copy=1)


@pytest.mark.parametrize("name", ["dl_device", "max_version"])
@pytest.mark.parametrize("bad", [(), (1,), (1, 0, 0), 1, "10", (1.0, 0), ("1", "0"), object()])
def test_pairs_that_are_none(name, bad):
    with pytest.raises(TypeError, match=f"__dlpack__: argument '{name}': expected a tuple of two"):
        bp.ones(2).__dlpack__(**{name: bad})


def test_pairs_of_other_integers():
    class Kind(enum.IntEnum):
        CPU = 1

    x = bp.ones(2)
    assert x.__dlpack__(dl_device=(Kind.CPU, np.int64(0)), max_version=(2**70, 0)) is not None

    class Producer:
        def __dlpack__(self, **keywords):
            return x.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.device

    producer = Producer()
    producer.device = (Kind.CPU, 0)
    assert bp.from_dlpack(producer).tolist() == [1, 1]
    for producer.device in (None, (), "cpu"):
        with pytest.raises(TypeError, match="from_dlpack: the answer of __dlpack_device__"):
            bp.from_dlpack(producer)


def test_off_the_host():
    x = bp.asarray([1.0, 2.0], device="npu:0")
    with pytest.raises(BufferError, match="npu:0"):
        x.__dlpack__()
    with pytest.raises(BufferError, match="npu:0"):
        x.__dlpack_device__()
    with pytest.raises(BufferError, match="npu:0"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    assert np.from_dlpack(x, device="cpu").tolist() == [1, 2]
    capsule = x.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
    del capsule


def test_from_dlpack_to_devices(device):
    a = np.arange(6.0).reshape(2, 3)
    x = bp.from_dlpack(a.T, device=device)
    assert x.device.name == device and x.tolist() == a.T.tolist()
    if device != "cpu:0":
        with pytest.raises(ValueError, match="copy.*False"):
            bp.from_dlpack(a, device=device, copy=False)
    same = bp.from_dlpack(x)
    same[0, 0] = 5
    assert x[0, 0].item() == 5 and same is not x
    assert bp.from_dlpack(x, copy=True).tolist() == x.tolist()
    assert not np.shares_memory(bp.from_dlpack(a, copy=True).numpy(), a)


def test_read_only_is_honoured():
    a = np.arange(3.0)
    a.flags.writeable = False
    x = bp.from_dlpack(a)
    assert x.is_read_only
    with pytest.raises(ValueError, match="read.only"):
        x[0] = 1
    assert not np.from_dlpack(x).flags.writeable
    assert np.from_dlpack(bp.asarray([1.0])).flags.writeable


def test_bad_producers():
    for bad in (5, "a", None, object()):
        with pytest.raises(TypeError, match="from_dlpack: argument 'x'"):
            bp.from_dlpack(bad)

    class Wrong:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            return 5

    with pytest.raises(TypeError, match="no DLPack capsule"):
        bp.from_dlpack(Wrong())

    class Elsewhere(Wrong):
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **_):
            raise BufferError("no way to the CPU")

    with pytest.raises(BufferError, match="no way"):
        bp.from_dlpack(Elsewhere())
    capsule = np.arange(3.0).__dlpack__()

    class Twice(Wrong):
        def __dlpack__(self, **_):
            return capsule

    assert bp.from_dlpack(Twice()).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="still to be used"):
        bp.from_dlpack(Twice())


def test_lifetimes():
    class Source(np.ndarray):
        pass

    a = np.arange(5.0).view(Source)
    alive = weakref.ref(a)
    x = bp.from_dlpack(a)
    back = np.from_dlpack(x[1:])
    del a, x
    gc.collect()
    assert alive() is not None and back.tolist() == [1, 2, 3, 4]
    del back
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    "export",
    [bp.Tensor.numpy, np.from_dlpack, lambda x: np.from_dlpack(Producer(x)), np.asarray],
)
def test_exports_outlive_the_runtime(export):
    count = 1 << 20  # so much goes back to the system once it is freed
    with bp.Runtime() as runtime:
        x = bp.ones(count, device=runtime.device("cpu:0")) + 1
        exported = export(x)
        second = export(x[5:])
        del x
    gc.collect()
    assert runtime.is_closed
    assert exported[0] == 2 and exported.sum() == 2 * count
    del exported
    assert second.sum() == 2 * (count - 5)
    del second
    gc.collect()


@pytest.mark.skipif(torch is None, reason="torch is not installed")
def test_torch():
    t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    x = bp.from_dlpack(t)
    x[0, 0] = 9
    assert t[0, 0].item() == 9
    back = torch.from_dlpack(x.T)
    back[0, 1] = 7
    assert x.tolist() == t.tolist()
    b = bp.asarray(torch.ones(2, dtype=torch.bfloat16))
    assert b.dtype is bp.bfloat16 and torch.from_dlpack(b + b).tolist() == [2, 2]
    del t, x
    gc.collect()
    assert back.shape == (3, 2)
