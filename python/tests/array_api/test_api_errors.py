# SPDX-License-Identifier: Apache-2.0
"""What a mistake is told: the words begin with the function that was called, and name one of its
arguments."""

import inspect
import math
import re

import numpy as np
import pytest

import backplane as bp
import backplane.array_api as xp
import standard
from support import on

NAMES = [*standard.FUNCTIONS, *(f"linalg.{name}" for name in standard.LINALG)]
NAMES += [f"fft.{name}" for name in standard.FFT]
# The same functions as in the main namespace, whose words name that one.
SHARED = {f"linalg.{name}": name for name in standard.LINEAR_ALGEBRA}


def of(name):
    space, _, function = name.rpartition(".")
    return getattr(getattr(xp, space) if space else xp, function)


X = bp.asarray([[4.0, 2.0, 1.0], [1.0, 3.0, 2.0], [1.0, 1.0, 5.0]])
WHOLE, TRUTH = X.astype("int32"), X > 2
# By the names of parameters; by function where one differs.
GIVEN = {
    "shape": (3, 3), "fill_value": 1.0, "start": 0, "stop": 5, "step": 1, "num": 3, "n_rows": 3,
    "n_cols": 3, "axis": 0, "axes": (1, 0), "indices": bp.asarray([0, 1]), "repeats": 2,
    "repetitions": (2, 2), "source": 0, "destination": 1, "dtype": bp.float64, "obj": X, "n": 3,
    "arrays": (X, X), "condition": TRUTH, "from_": bp.float32, "to": bp.float64, "kind": "bool",
    "type": bp.float32, "min": 1, "max": 2, "shift": 1,
}  # fmt: skip
OTHERWISE = {
    "broadcast_shapes": {"shapes": ((3, 1), (3,))}, "broadcast_to": {"shape": (2, 3, 3)},
    "imag": {"x": X.astype("complex64")}, "linalg.outer": {"x1": X[0], "x2": X[0]},
    "meshgrid": {"arrays": (X[0], X[0])}, "reshape": {"shape": (9,)},
    "result_type": {"arrays_and_dtypes": (X, X)}, "searchsorted": {"x1": X[0]},
    "squeeze": {"x": X[None]}, "take_along_axis": {"indices": WHOLE % 3},
    "tensordot": {"axes": 1}, "linalg.tensordot": {"axes": 1}, "iinfo": {"type": bp.int8},
    "linalg.cholesky": {"x": X @ X.T}, "linalg.cross": {"axis": -1}, "vecdot": {"axis": -1},
    "linalg.vecdot": {"axis": -1},
}  # fmt: skip
OTHERWISE |= {f"bitwise_{name}": {"x1": WHOLE, "x2": WHOLE} for name in ("and", "or", "xor")}
OTHERWISE |= {f"bitwise_{way}_shift": {"x1": WHOLE, "x2": WHOLE} for way in ("left", "right")}
OTHERWISE |= {f"logical_{name}": {"x1": TRUTH, "x2": TRUTH} for name in ("and", "or", "xor")}
OTHERWISE |= {"bitwise_invert": {"x": WHOLE}, "logical_not": {"x": TRUTH}}

BAD = {
    "object": object(), "str": "no", "float": 1.5, "bool": True, "None": None, "NaN": math.nan,
    "inf": math.inf, "complex": 1j, "long": 2**70, "negative": -7, "tuple": (1, 2, 3),
    "twice": (0, 0), "of 17": (1,) * 17, "nested": [[1, 2], [3]], "strs": ["a"],
    "array": np.ones(3), "elsewhere": X.to_device("npu:0"), "bools": TRUTH, "integers": WHOLE,
    "integers elsewhere": WHOLE.to_device("npu:0"), "complex tensor": X.astype("complex64"),
    "row": bp.ones(2), "number": bp.ones(()), "nothing": bp.ones((0, 3)), "half": X.astype("f16"),
}  # fmt: skip


def call(name, target, bad):
    """With one parameter as it should not be, the others as they should."""
    positional, keywords = [], {}
    for parameter in inspect.signature(of(name)).parameters.values():
        given = {**GIVEN, **OTHERWISE.get(name, {})}
        value = given.get(parameter.name, X)
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [bad, value[1]] if parameter.name == target else value
        elif parameter.name == target:
            value = bad
            _add(positional, keywords, parameter, value)
        elif parameter.default is parameter.empty or parameter.name in ("axis", "stop", "min"):
            _add(positional, keywords, parameter, value)
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(parameter.default)
    if target == "s":
        keywords["axes"] = (0, 1)
    return of(name)(*positional, **keywords)


def _add(positional, keywords, parameter, value):
    if parameter.kind is parameter.KEYWORD_ONLY:
        keywords[parameter.name] = value
    else:
        positional.append(value)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "__array_namespace_info__"])
def test_words_name_function_and_argument(name):
    function = of(name)
    parameters = inspect.signature(function).parameters
    for target in parameters:
        refused = 0
        for bad in BAD.values():
            try:
                call(name, target, bad)
            except (bp.Error, TypeError, ValueError, OverflowError, IndexError) as error:
                words = str(error)
            else:
                continue
            refused += 1
            assert words.startswith(f"{SHARED.get(name, name)}: "), words
            # LAPACK and asarray() say what is wrong with the numbers, which is all that they take.
            is_of_numbers = target in ("x", "x1", "obj") and len(parameters) < 5
            is_named = any(f"argument '{one}" in words for one in parameters)
            assert is_named or is_of_numbers or "do not promote" in words, words
        assert refused > 0, target


FLAGS = [
    (name, parameter.name)
    for name in NAMES
    for parameter in inspect.signature(of(name)).parameters.values()
    if isinstance(parameter.default, bool) or parameter.name == "copy"
]


@pytest.mark.parametrize("name, flag", FLAGS)
def test_flags_are_bools(name, flag):
    elsewhere = bp.asarray(True, device="npu:0")
    for one in (True, np.True_, np.asarray(True), bp.asarray(True), elsewhere):
        call(name, flag, one)
    for bad in (1, 0.0, "True", bp.ones(1, dtype="bool"), bp.asarray(1), np.ones(1, bool), [True]):
        words = f"^{name}: argument '{flag}': expected a bool.*, found {type(bad).__name__}"
        with pytest.raises(TypeError, match=words):
            call(name, flag, bad)


def test_flags_are_found():
    assert len(FLAGS) == 28


TENSORS = [
    (name, second)
    for name in NAMES
    for second in ("x2", "indices", "repeats", "condition", "sorter", "min", "max", "append")
    if second in inspect.signature(of(name)).parameters
    and list(inspect.signature(of(name)).parameters)[0] != second
]


@pytest.mark.parametrize("name, second", TENSORS)
def test_two_devices_are_both_named(name, second):
    first = next(iter(inspect.signature(of(name)).parameters))
    given = {**GIVEN, "x2": X, "sorter": bp.asarray([0, 1, 2]), "append": X, "min": X, "max": X}
    given = {**given, **OTHERWISE.get(name, {})}
    there = given[second] if isinstance(given[second], bp.Tensor) else bp.asarray([1, 2, 3])
    for bad in (there.to_device("npu:0"),):
        with pytest.raises(ValueError, match="is on (cpu|npu):0, argument .* on (cpu|npu):0") as e:
            call(name, second, bad)
        words = str(e.value)
        assert words.startswith(f"{SHARED.get(name, name)}: argument '"), words
        assert "cpu:0" in words and "npu:0" in words
        assert f"'{second}'" in words and (f"'{first}'" in words or first == "condition"), words


def test_sequences_of_two_devices():
    parts = [X, X, X.to_device("npu:0")]
    for function, name in ((xp.concat, "concat"), (xp.stack, "stack")):
        words = rf"^{name}: argument 'arrays\[0\]' is on cpu:0, argument 'arrays\[2\]' on npu:0"
        with pytest.raises(ValueError, match=words):
            function(parts)


# --- numbers that a dtype has not ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_what_no_integer_is(device, dtype):
    """NumPy's rules: NaN is a ValueError, what is beyond the range an OverflowError."""
    info = xp.iinfo(dtype)
    beyond = [math.inf, -math.inf, 1e30, float(info.max) + (1 if info.bits < 64 else 0)]
    beyond += [float(info.min) * 2 - 2.0, info.max + 1, info.min - 1]
    x = xp.zeros((2, 3), dtype=dtype, device=device)
    ways = {
        "full: argument 'fill_value'": lambda n: xp.full(2, n, dtype=dtype, device=device),
        "full_like: argument 'fill_value'": lambda n: xp.full_like(x, n),
        "asarray": lambda n: xp.asarray([0, n], dtype=dtype, device=device),
        "assignment": lambda n: x.__setitem__(..., n),
    }
    for place, way in ways.items():
        with pytest.raises(ValueError, match=f"^{place}: NaN has no value of {dtype}"):
            way(math.nan)
        for number in beyond:
            with pytest.raises(OverflowError, match=f"^{place}: the .* the range of {dtype}"):
                way(number)
    with pytest.raises(OverflowError, match="^assignment: "):
        x[x == 0] = math.inf
    assert xp.all(x == 0)
    # Fractions are cut, which brings some beyond the range back into it.
    edges = [info.max + 0.5 if info.bits == 8 else 5.9, -0.9, 2.9]
    assert xp.asarray(edges, dtype=dtype).tolist() == [int(one) for one in edges]
    if info.bits == 64:
        assert xp.full((), float(2**62), dtype=dtype).item() == 2**62
    if dtype == "int64":
        assert xp.full((), -(2.0**63), dtype=dtype).item() == -(2**63)


def test_numbers_beside_integers(device):
    x = xp.ones(2, dtype="int8", device=device)
    for name, call in {
        "add: argument 'x2'": lambda: xp.add(x, 300),
        "multiply: argument 'x1'": lambda: xp.multiply(-129, x),
        "where: argument 'x1'": lambda: xp.where(x == 1, 128, x),
        "clip: argument 'min'": lambda: xp.clip(x, 128),
        "clip: argument 'max'": lambda: xp.clip(x, None, 2**80),
        "isin: argument 'x2'": lambda: xp.isin(x, 300),
        "searchsorted: argument 'x2'": lambda: xp.searchsorted(x, 300),
    }.items():
        with pytest.raises(OverflowError, match=f"^{name}: .* out of the range of int8"):
            call()
    with pytest.raises(TypeError, match="^clip: "):
        xp.clip(x, math.nan)


def test_integers_beyond_floats(device):
    """NumPy's rule too: an OverflowError."""
    x, long = xp.ones((2, 2), device=device), 10**400
    for name, call in {
        "add: argument 'x2'": lambda: xp.add(x, long),
        "multiply: argument 'x1'": lambda: xp.multiply(-long, xp.astype(x, "complex64")),
        "where: argument 'x1'": lambda: xp.where(x > 1, long, x),
        "clip: argument 'max'": lambda: xp.clip(x, None, long),
        "isin: argument 'x2'": lambda: xp.isin(x, long),
        "searchsorted: argument 'x2'": lambda: xp.searchsorted(x[0], long),
        "full: argument 'fill_value'": lambda: xp.full(2, long, dtype="float64", device=device),
        "full_like: argument 'fill_value'": lambda: xp.full_like(x, long),
        "arange: argument 'stop'": lambda: xp.arange(0.5, long, device=device),
        "linspace: argument 'start'": lambda: xp.linspace(long, 1, 3, device=device),
        "fft.fftfreq: argument 'd'": lambda: xp.fft.fftfreq(3, d=long, device=device),
        "linalg.pinv: argument 'rtol'": lambda: xp.linalg.pinv(x, rtol=long),
        "linalg.vector_norm: argument 'ord'": lambda: xp.linalg.vector_norm(x, ord=long),
        "var: argument 'correction'": lambda: xp.var(x, correction=long),
        "asarray": lambda: xp.asarray([1.5, long], dtype="complex128", device=device),
        "assignment": lambda: x.__setitem__(0, long),
    }.items():
        with pytest.raises(OverflowError, match=f"^{name}: the int -?10* is out of the range of"):
            call()
    assert xp.add(x, 10**300).tolist() == [[math.inf] * 2] * 2


def test_complex_numbers_have_no_real_dtype(device):
    x = xp.ones((2, 2), dtype="complex64", device=device)
    for name, call in {
        "astype": lambda: xp.astype(x, xp.float32),
        "sum": lambda: xp.sum(x, dtype=xp.float64),
        "cumulative_prod": lambda: xp.cumulative_prod(x, axis=0, dtype=xp.int8),
        "linalg.trace": lambda: xp.linalg.trace(x, dtype=xp.float32),
        "asarray": lambda: xp.asarray(x, dtype=xp.int64),
    }.items():
        with pytest.raises(TypeError, match=f"^{name}: argument 'dtype': complex numbers have no"):
            call()


def test_more_than_there_can_be(device):
    for name in ("zeros", "ones", "empty", "full"):
        rest = (1,) if name == "full" else ()
        with pytest.raises(ValueError, match=f"^{name}: argument 'shape': .* too many elements"):
            of(name)((2**40, 0, 2**40), *rest, device=device)
        with pytest.raises(ValueError, match=f"^{name}: argument 'shape': .* too many elements"):
            of(name)(2**59, *rest, device=device)
        assert of(name)((2**40, 0), *rest, device=device).size == 0
    x, many = xp.ones((4, 4), device=device), 2**59
    line = xp.broadcast_to(x[0, 0], (2**40,))
    for name, call in {
        "arange: argument 'stop'": lambda: xp.arange(many, device=device),
        "broadcast_arrays: argument 'arrays[1]'": lambda: xp.broadcast_arrays(line[:, None], line),
        "broadcast_to: argument 'shape'": lambda: xp.broadcast_to(x[0, 0], (2**63, 1)),
        "eye: argument 'n_rows'": lambda: xp.eye(2**40, device=device),
        "fft.fftfreq: argument 'n'": lambda: xp.fft.fftfreq(many, device=device),
        "fft.rfftfreq: argument 'n'": lambda: xp.fft.rfftfreq(many, device=device),
        "fft.fft: argument 'n'": lambda: xp.fft.fft(x, n=2**58),
        "fft.irfftn: argument 's'": lambda: xp.fft.irfftn(x, s=(2**30, 2**30), axes=(0, 1)),
        "linspace: argument 'num'": lambda: xp.linspace(0, 1, many, device=device),
        "meshgrid: argument 'arrays'": lambda: xp.meshgrid(line, line),
        "repeat: argument 'repeats'": lambda: xp.repeat(x, 2**58, axis=0),
        "tile: argument 'repetitions'": lambda: xp.tile(x, (2**58, 1)),
    }.items():
        with pytest.raises(ValueError, match=f"^{re.escape(name)}: .* too many elements"):
            call()
    for name, call in {
        "fft.irfft: argument 'n'": lambda: xp.fft.irfft(x[:, :1]),
        "fft.hfft: argument 'n'": lambda: xp.fft.hfft(x[:1], axis=0),
        "fft.irfftn: argument 's'": lambda: xp.fft.irfftn(x[:, :1]),
    }.items():
        with pytest.raises(ValueError, match=f"^{name}: needed for axis . of size 1, found None"):
            call()
    with pytest.raises(MemoryError, match="^fft.fft: Unable to allocate") as e:
        xp.fft.fft(X, n=2**44)
    assert isinstance(e.value, bp.OutOfMemoryError)


# --- positions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [2**64 - 1, 2**63, 3])
def test_an_unsigned_index_is_no_negative_one(device, bad):
    x, bad = bp.asarray([1.0, 2.0, 3.0], device=device), np.asarray([bad, 0, 1], "uint64")
    for name, call in {
        "take: argument 'indices'": lambda at: xp.take(x, at),
        "take_along_axis: argument 'indices'": lambda at: xp.take_along_axis(x, at),
        "searchsorted: argument 'sorter'": lambda at: xp.searchsorted(x, x, sorter=at),
    }.items():
        # A queued device says so when what it has found is read, in the words of the operator.
        is_queued = device != "cpu:0"
        with pytest.raises(ValueError if is_queued else IndexError, match="out of range") as e:
            call(on(device, bad)).tolist()
        assert is_queued or str(e.value).startswith(name)
    with pytest.raises(IndexError, match="out of range"):
        x[on(device, bad)]
    assert xp.take(x, on(device, np.asarray([2, 0], "uint64"))).tolist() == [3, 1]


def test_more_differences_than_elements_end(device):
    x = bp.asarray([[1, 2, 4]], device=device)
    assert xp.diff(x, n=2**62, axis=1).shape == (1, 0) == xp.diff(x, n=3, axis=1).shape
    assert xp.diff(x, n=2, axis=1).tolist() == [[1]]
