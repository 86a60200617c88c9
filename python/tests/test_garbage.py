# SPDX-License-Identifier: Apache-2.0
"""What is let go of, when and by whom: memory of others, cycles, references, waits at the end."""

import ctypes
import gc
import os
import pathlib
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest

import backplane as bp
from backplane import _core

ROUNDS = int(os.environ.get("PYTHON_TEST_ROUNDS", "200"))


# --- DLPack from producers that lie -------------------------------------------------------------


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Liar:
    """Six float32 of shape (2, 3), but for what is told otherwise. Counts the calls of its deleter,
    which raises: what it raises goes nowhere."""

    def __init__(self, *, version=None, shape=(2, 3), strides=None, deleter=True, **others):
        self.values = (ctypes.c_float * 6)(*range(6))
        self.ends = 0
        self.managed = Managed() if version is None else Versioned()
        if version is not None:
            self.managed.major, self.managed.minor = version
        self.shape = shape and (ctypes.c_int64 * len(shape))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        tensor = self.managed.tensor
        tensor.data, tensor.device_type = ctypes.addressof(self.values), 1
        tensor.ndim, tensor.code, tensor.bits, tensor.lanes = len(shape or ()), 2, 32, 1
        if self.shape:
            tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        if self.strides:
            tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        for name, value in others.items():
            setattr(tensor, name, value)

        def end(_):
            self.ends += 1
            raise RuntimeError("of a deleter")

        self.end = DELETER(end)
        if deleter:
            self.managed.deleter = self.end
        self.name = b"dltensor" if version is None else b"dltensor_versioned"

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **_):
        return new_capsule(ctypes.addressof(self.managed), self.name, None)


@pytest.fixture
def quiet_deleters(monkeypatch):
    """ctypes tells what its callbacks raise, as a test's failure."""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    return told


@pytest.mark.parametrize("version", [None, (1, 0), (1, 3)])
@pytest.mark.parametrize("device", ["cpu:0", "npu:0"])
def test_producers_are_believed_where_they_can_be(version, device, quiet_deleters):
    for lie, expected in (
        ({}, [[0, 1, 2], [3, 4, 5]]),
        ({"strides": (1, 2)}, [[0, 2, 4], [1, 3, 5]]),
        ({"strides": (-3, 1), "byte_offset": 12}, [[3, 4, 5], [0, 1, 2]]),
        ({"shape": None, "byte_offset": 8}, 2),
        ({"shape": (0, 3), "data": None}, []),
        ({"shape": (2**60, 0), "data": None, "strides": (2**62, 2**62)}, None),
    ):
        liar = Liar(version=version, **lie)
        x = bp.from_dlpack(liar, device=device)
        assert expected is None or x.tolist() == expected
        del x
        gc.collect()
        assert liar.ends == 1
    assert bp.from_dlpack(Liar(version=version, deleter=False)).tolist()[1] == [3, 4, 5]


@pytest.mark.parametrize(
    "lie, words",
    [
        ({"ndim": -1}, "-1 dimensions"),
        ({"ndim": -(2**31)}, "-2147483648 dimensions"),
        ({"ndim": 17}, "17 dimensions"),
        ({"ndim": 2**31 - 1}, "2147483647 dimensions"),
        ({"shape": None, "ndim": 2}, "no shape"),
        ({"shape": (2, -3)}, "a size of -3"),
        ({"shape": (2**40, 2**40)}, "beyond any memory"),
        ({"shape": (2**62, 2**62), "strides": (0, 0)}, "beyond any memory"),
        ({"strides": (2**62, 1)}, "beyond any memory"),
        ({"strides": (-(2**61), 1)}, "beyond any memory"),
        ({"byte_offset": 2**64 - 4}, "beyond any memory"),
        ({"data": None}, "no memory"),
        ({"code": 77}, "dtype code 77 of 32 bits"),
        ({"bits": 7}, "dtype code 2 of 7 bits"),
        ({"lanes": 4}, "32 bits and 4 lanes"),
        ({"lanes": 0}, "32 bits and 0 lanes"),
        ({"device_type": 2}, "device type 2"),
    ],
)
def test_producers_that_lie(lie, words, quiet_deleters):
    for version in (None, (1, 0)):
        liar = Liar(version=version, **lie)
        with pytest.raises(BufferError, match=words):
            bp.from_dlpack(liar)
        assert liar.ends == 1


def test_versions_and_names(quiet_deleters):
    liar = Liar(version=(9, 9))
    with pytest.raises(BufferError, match="DLPack 9, expected 1"):
        bp.from_dlpack(liar)
    assert liar.ends == 1
    liar = Liar()
    liar.name = b"used_dltensor"
    with pytest.raises(TypeError, match="no DLPack capsule"):
        bp.from_dlpack(liar)
    assert liar.ends == 0
    for answer in ((), "ab", None, 5, ("a", 0), {}):
        liar = Liar()
        liar.__class__ = type("Odd", (Liar,), {"__dlpack_device__": lambda self: answer})
        with pytest.raises((TypeError, ValueError, IndexError, KeyError)):
            bp.from_dlpack(liar)


def test_deleters_that_raise(quiet_deleters):
    liar = Liar()
    x = bp.from_dlpack(liar)
    views = [x[0], x.T, bp.from_dlpack(x)]
    del x
    assert liar.ends == 0
    del views
    gc.collect()
    assert liar.ends == 1 and [type(one.exc_value) for one in quiet_deleters] == [RuntimeError]
    assert bp.ones(1).tolist() == [1]


# --- Other buffers, and objects that no constructor made ----------------------------------------


def test_ctypes_arrays_give_no_strides(device):
    rows = ((ctypes.c_float * 3) * 2)((1, 2, 3), (4, 5, 6))
    x = bp.asarray(rows, device=device)
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]] and x.dtype is bp.float32
    assert bp.asarray(ctypes.c_int(3), device=device).tolist() == 3
    assert bp.asarray((ctypes.c_double * 0)(), device=device).shape == (0,)


def test_objects_that_no_constructor_made():
    for kind in (bp.Tensor, bp.Stream, bp.Session):
        with pytest.raises(TypeError, match=f"{kind.__name__}'> has no constructor"):
            kind.__new__(kind)
    with pytest.raises(TypeError):
        bp.Tensor()
    with pytest.raises(BufferError, match="constructor"):
        memoryview(_core._HostBuffer.__new__(_core._HostBuffer))
    with pytest.warns(RuntimeWarning, match="uninitialized"), pytest.raises(RuntimeError):
        bp.ones(2, device=bp.Device.__new__(bp.Device))
    assert pickle.loads(pickle.dumps(bp.ones(2))).tolist() == [1, 1]


def test_texts_that_C_would_cut():
    for call in (
        lambda: bp.device("cpu:0\0x"),
        lambda: bp.ones(2, device="cpu:0\0x"),
        lambda: bp.Runtime(plugin_path="a\0b"),
        lambda: bp.Runtime(install_dir="a\0b"),
        lambda: bp.Runtime(options={"npu.memory": "1MiB\0"}),
    ):
        with pytest.raises(ValueError, match="NUL"):
            call()
    with pytest.raises(TypeError, match="argument 'options': expected a dict, found int"):
        bp.Runtime(options=5)
    with pytest.raises(TypeError, match="argument 'options': expected names as str, found int"):
        bp.Runtime(options={5: 1})
    with pytest.raises(OverflowError, match="such a long int is out of the range of int64"):
        bp.asarray([10**5000])


# --- Cycles -------------------------------------------------------------------------------------


class Source(np.ndarray):
    pass


def test_cycles_of_python_objects_are_collected():
    class Holder:
        pass

    x, holder = bp.ones(3), Holder()
    holder.tensor, holder.self = x, holder
    alive = weakref.ref(x)
    del x, holder
    gc.collect()
    assert alive() is None


def test_cycles_through_lent_memory():
    """Neither NumPy nor we can show the collector that memory is lent: such a cycle stays until it
    is cut (README.md)."""
    a = np.arange(4.0).view(Source)
    a.tensor = bp.asarray(a)
    alive = weakref.ref(a)
    del a
    gc.collect()
    assert alive() is not None and alive().tensor.tolist() == [0, 1, 2, 3]
    del alive().tensor  # cuts it
    gc.collect()
    assert alive() is None
    copied = np.arange(4.0).view(Source)
    copied.tensor = bp.asarray(copied, copy=True)
    alive = weakref.ref(copied)
    del copied
    gc.collect()
    assert alive() is None


# --- The last release ---------------------------------------------------------------------------

FAKES = pathlib.Path(bp.__file__).parents[2] / "lib" / "fakes"


@pytest.mark.skipif(not (FAKES / "sound").is_dir(), reason="the tests' plugins are not built")
def test_the_last_release_waits_without_the_gil(tmp_path):
    """A queue works on lent memory until another Python thread lets it go on."""
    signal = tmp_path / "go"
    options = {"sound.device_fault": "relu_hangs", "sound.signal_file": str(signal)}
    with bp.Runtime(plugin_path=FAKES / "sound", install_dir=tmp_path, options=options) as runtime:
        device = runtime.device("sound:0")
        a = np.array([-1, 2, -3, 4], np.float32)
        references = sys.getrefcount(a)
        x = bp.asarray(a, device=device)
        y = bp.ops.relu(x)
        waits, ended = threading.Event(), threading.Event()

        def let_go_on():
            waits.wait(60)
            ended.wait(0.05)  # most likely the release waits by now
            signal.touch()

        thread = threading.Thread(target=let_go_on)
        thread.start()
        waits.set()
        del x
        assert sys.getrefcount(a) == references, "the wait was given up"
        ended.set()
        thread.join(60)
        assert not thread.is_alive() and y.tolist() == [0, 2, 0, 4]


# --- References ---------------------------------------------------------------------------------


def _cases():
    a = np.arange(6.0).reshape(2, 3)
    x, y = bp.asarray(a), bp.asarray([[1, 2, 3], [4, 5, 6]], dtype="int32")
    npu = x.to_device("npu:0")
    names = [n for n in dir(bp.Tensor) if not n.startswith("__")]
    cases = {f"attribute {n}": lambda n=n: getattr(x, n, None) for n in names}
    sides = {"a tensor": x, "an int": 2, "a float": 2.5, "one elsewhere": npu, "a str": "a"}
    for operator in "add sub mul truediv floordiv mod pow eq ne lt le gt ge".split():
        for side, value in sides.items():
            slot = getattr(x, f"__{operator}__")
            cases[f"{operator} with {side}"] = lambda slot=slot, value=value: slot(value)
    cases |= {
        "bitwise": lambda: (y & y, y | 3, y ^ y, ~y, y << 1, y >> y),
        "in place": lambda: x.copy().__iadd__(1).__imul__(x).__isub__(2),
        "matmul": lambda: x @ x.T,
        "indices": lambda: (x[0], x[..., None], x[::-1, 1:], [*x], len(x), x[1, 2].item()),
        "bad index": lambda: x[7],
        "assign": lambda: x.copy().__setitem__((0, slice(None)), [1, 2, 3]),
        "bad assign": lambda: x.__setitem__(0, [[1, 2]]),
        "words": lambda: (repr(x), str(x.device), repr(x.device), repr(x.dtype), hash(x)),
        "numbers": lambda: (x[0, 0].item(), float(x[0, 1]), int(y[0, 0]), bool(y[0, 0])),
        "lists": lambda: (x.tolist(), y.tolist(), npu.tolist()),
        "numpy": lambda: (x.numpy(), np.asarray(npu), np.array(x, dtype="f4"), x.numpy(copy=True)),
        "dlpack": lambda: (np.from_dlpack(x), bp.from_dlpack(a), bp.from_dlpack(x)),
        "capsules": lambda: (x.__dlpack__(), x.__dlpack__(max_version=(1, 0), copy=True)),
        "bad dlpack": lambda: npu.__dlpack__(),
        "asarray": lambda: (bp.asarray(a), bp.asarray([[1.5], [2]]), bp.asarray(a, device="npu:0")),
        "bad asarray": lambda: bp.asarray([[1], 2]),
        "bad dtype": lambda: bp.asarray(np.ones(2, object)),
        "creation": lambda: (bp.zeros(3), bp.full((2,), 5), bp.empty_like(x), bp.ones(2)),
        "bad shape": lambda: bp.zeros(-1),
        "moves": lambda: (x.to_device("npu:0"), npu.to_device("cpu:0"), x.astype("int8")),
        "pickle": lambda: pickle.loads(pickle.dumps(x)),
        "devices": lambda: (bp.devices(), bp.device("cpu:0"), bp.default_runtime()),
        "sync": lambda: npu.device.sync(),
        "bad device": lambda: bp.device("no:0"),
        "counters": lambda: (x.device.counters, x.device.features, x.device.memory_used),
    }
    return cases


def test_each_call_keeps_no_reference():
    """Each by itself, so that what keeps one is named."""
    cases = _cases()
    cpu, npu = bp.device("cpu:0"), bp.device("npu:0")
    singles = [None, True, False, Ellipsis, NotImplemented, bp.float32, bp.int32, bp.Tensor]
    singles += [bp.Device, bp.Dtype, bp.Error, bp.default_runtime(), int, float, tuple, (), 0, 1]

    def counts():
        gc.collect()
        npu.sync()
        references = [sys.getrefcount(one) for one in singles]
        return [*references, len(gc.get_objects()), sys.getallocatedblocks()]

    def grown(case):
        """What grew by more than a step in four calls."""
        before, used = counts(), (cpu.memory_used, npu.memory_used)
        for _ in range(ROUNDS):
            try:
                case()
            except Exception:
                pass
        steps = [b - a for a, b in zip(before, counts())]
        now = (cpu.memory_used, npu.memory_used)
        return [n for n in steps if abs(n) > ROUNDS // 4] + ([now] if now != used else [])

    gc.freeze()  # what was there before is not looked at again and again
    try:
        # A cache may grow once: only what grows each time is kept.
        leaks = {name: grown(case) for name, case in cases.items() if grown(case)}
    finally:
        gc.unfreeze()
    assert not any(leaks.values()), leaks
