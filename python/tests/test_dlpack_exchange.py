# SPDX-License-Identifier: Apache-2.0
"""The C functions behind __dlpack_c_exchange_api__, called as a library in C would."""

import ctypes
import gc
import weakref

import numpy as np
import pytest

import backplane as bp

CPU = 1
FLOAT, UINT = 2, 1
READ_ONLY = 1


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", Deleter),
    ("flags", ctypes.c_uint64),
    ("tensor", Tensor),
]

ManagedPointer = ctypes.POINTER(Managed)
SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
Allocate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ManagedPointer),
                            ctypes.c_void_p, SetError)
FromObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ManagedPointer))
ToObject = ctypes.PYFUNCTYPE(ctypes.c_int, ManagedPointer, ctypes.POINTER(ctypes.c_void_p))
Borrow = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
Stream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32,
                           ctypes.POINTER(ctypes.c_void_p))


class Api(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", Allocate),
        ("from_object", FromObject),
        ("to_object", ToObject),
        ("borrow", Borrow),
        ("stream", Stream),
    ]


def load_api():
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get(bp.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    return Api.from_address(address)


API = load_api()


def lend(tensor):
    managed = ManagedPointer()
    assert API.from_object(tensor, ctypes.byref(managed)) == 0
    return managed


def take(managed):
    """Takes the reference that the call gives."""
    found = ctypes.c_void_p()
    assert API.to_object(managed, ctypes.byref(found)) == 0
    tensor = ctypes.cast(found, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(tensor))
    return tensor


def borrow(tensor):
    lent = Tensor()
    assert API.borrow(tensor, ctypes.byref(lent)) == 0
    return lent


def allocate(shape, dtype=(FLOAT, 32, 1), device=CPU):
    """What it answers, and the errors that it told of."""
    errors, made = [], ManagedPointer()
    note = SetError(lambda context, kind, words: errors.append((context, kind, words.decode())))
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    prototype = Tensor(device=Device(device, 0), ndim=len(shape), dtype=DataType(*dtype),
                       shape=sizes)
    status = API.allocate(ctypes.byref(prototype), ctypes.byref(made), 77, note)
    assert (status == 0) == (not errors) == bool(made)
    return made, errors


def test_version():
    assert (API.major, API.minor, API.previous) == (1, 3, None)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32",
                                   "float64", "complex64"])
def test_there_and_back_without_a_copy(dtype):
    a = np.arange(12).reshape(3, 4).astype(dtype)
    x = bp.asarray(a)[:, ::-2].T
    back = take(lend(x))
    assert back.dtype == dtype and back.shape == (2, 3) and back.strides == x.strides
    np.testing.assert_array_equal(back.numpy(), a[:, ::-2].T)
    assert np.shares_memory(back.numpy(), a)


def test_what_is_lent():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    managed = lend(bp.asarray(a)[1:])
    lent = managed.contents.tensor
    assert (managed.contents.major, managed.contents.flags) == (1, 0)
    assert lent.data + lent.byte_offset == a.ctypes.data + 12
    assert (lent.device.type, lent.ndim, lent.dtype.code, lent.dtype.bits) == (CPU, 2, FLOAT, 32)
    assert lent.shape[:2] == [1, 3] and lent.strides[:2] == [3, 1]
    managed.contents.deleter(managed)


def test_borrowed():
    a = np.arange(6, dtype=np.float64).reshape(2, 3)
    x = bp.asarray(a).T
    lent = borrow(x)
    assert lent.data == a.ctypes.data and lent.byte_offset == 0
    assert lent.shape[:2] == [3, 2] and lent.strides[:2] == [1, 3]
    assert (lent.dtype.code, lent.dtype.bits, lent.dtype.lanes) == (FLOAT, 64, 1)
    scalar, empty = borrow(bp.asarray(2.5)), borrow(bp.zeros((0, 3)))
    assert scalar.ndim == 0 and ctypes.c_float.from_address(scalar.data).value == 2.5
    assert empty.data is None and empty.shape[:2] == [0, 3]


def test_lifetimes():
    class Source(np.ndarray):
        pass

    a = np.arange(5.0).view(Source)
    alive = weakref.ref(a)
    managed = lend(bp.from_dlpack(a))
    del a
    gc.collect()
    assert alive() is not None
    back = take(managed)
    assert back.tolist() == [0, 1, 2, 3, 4]
    del back, managed
    gc.collect()
    assert alive() is None


def test_memory_that_consumers_ask_for():
    made, _ = allocate((2, 3))
    x = take(made)
    x[:] = 5
    assert x.dtype == "float32" and x.tolist() == [[5.0] * 3] * 2
    for shape in ((), (0,), (4, 0)):
        assert take(allocate(shape)[0]).shape == shape
    made, _ = allocate((1 << 16,), (UINT, 8, 1))
    assert made.contents.tensor.data % 256 == 0
    made.contents.deleter(made)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (((2,), (FLOAT, 32, 1), 2), b"BufferError", "only the CPU's memory is there"),
        (((2,), (FLOAT, 31, 1)), b"BufferError", "no such dtype"),
        (((-1,),), b"BufferError", "a size is negative"),
        (((1 << 40, 1 << 40),), b"MemoryError", "no memory of that size"),
        (((1 << 60,),), b"MemoryError", "no memory of that size"),
    ],
)
def test_what_is_not_allocated(arguments, kind, words):
    _, errors = allocate(*arguments)
    assert errors == [(77, kind, f"allocate: {words}")]


def test_read_only():
    a = np.arange(3.0)
    a.flags.writeable = False
    x = bp.asarray(a)
    managed = lend(x)
    assert managed.contents.flags == READ_ONLY
    assert take(managed).is_read_only
    with pytest.raises(BufferError, match="read-only"):
        borrow(x)


def test_what_is_not_lent():
    x = bp.asarray([1.0], device="npu:0")
    for call in (lend, borrow):
        with pytest.raises(BufferError, match="npu:0"):
            call(x)
        with pytest.raises(TypeError, match="expected a Tensor, found int"):
            call(5)
    with bp.Runtime() as runtime:
        y = bp.ones(3, device=runtime.device("cpu:0"))
    for call in (lend, borrow):
        with pytest.raises(bp.Error, match="closed"):
            call(y)


@pytest.mark.parametrize(
    ("field", "words"), [("major", "DLPack 9, expected 1"), ("device", "device type 9"),
                         ("bits", "of 9 bits")]
)
def test_what_is_not_taken(field, words):
    """The memory is given back all the same."""
    a = np.arange(3.0)
    managed = lend(bp.asarray(a))
    ended = []
    original = Deleter(ctypes.cast(managed.contents.deleter, ctypes.c_void_p).value)
    counting = Deleter(lambda pointer: (ended.append(1), original(pointer)))
    managed.contents.deleter = counting
    if field == "major":
        managed.contents.major = 9
    elif field == "device":
        managed.contents.tensor.device.type = 9
    else:
        managed.contents.tensor.dtype.bits = 9
    with pytest.raises(BufferError, match=words):
        take(managed)
    assert ended == [1]


def test_streams():
    stream = ctypes.c_void_p(5)
    assert API.stream(CPU, 0, ctypes.byref(stream)) == 0 and stream.value is None
    with pytest.raises(BufferError, match="found 2"):
        API.stream(2, 0, ctypes.byref(stream))
