# SPDX-License-Identifier: Apache-2.0
"""What the tests of the namespace share: strategies, and comparisons with NumPy."""

import os

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

import backplane as bp

# Few, and the same ones each time; python_array_api_test asks for more.
EXAMPLES = int(os.environ.get("PYTHON_TEST_EXAMPLES", "4"))
IS_FULL = EXAMPLES > 4

settings.register_profile(
    "backplane",
    max_examples=EXAMPLES,
    derandomize=not IS_FULL,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("backplane")

# Those that every build has. The full test also takes xpu, where there is an OpenCL driver, which
# compiles a kernel for each function and dtype.
DEVICES = ["cpu:0", "npu:0"]
if IS_FULL:
    DEVICES += [device.name for device in bp.devices() if device.name == "xpu:0"]

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGRAL = SIGNED + UNSIGNED
REAL_FLOATING = ["float32", "float64"]
COMPLEX_FLOATING = ["complex64", "complex128"]
REAL = INTEGRAL + REAL_FLOATING
FLOATING = REAL_FLOATING + COMPLEX_FLOATING
NUMERIC = REAL + COMPLEX_FLOATING
ANY = ["bool", *NUMERIC]

SHAPES = numpy_strategies.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def elements(dtype, low=-8, high=8, special=False):
    """Small numbers, so that nothing overflows; with special ones where asked for."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return st.booleans()
    if dtype.kind in "iu":
        return st.integers(max(low, 0) if dtype.kind == "u" else low, high)
    width = dtype.itemsize * 8 if dtype.kind == "f" else dtype.itemsize * 4
    floats = st.floats(low, high, width=width, allow_subnormal=False)
    if special:
        floats |= st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0])
    if dtype.kind == "f":
        return floats
    return st.builds(complex, floats, floats)


@st.composite
def arrays(draw, dtypes, shape=SHAPES, low=-8, high=8, special=False):
    dtype = draw(st.sampled_from(dtypes)) if isinstance(dtypes, list) else dtypes
    return draw(
        numpy_strategies.arrays(
            dtype, shape, elements=elements(dtype, low, high, special), fill=st.nothing()
        )
    )


@st.composite
def pairs(draw, dtypes, **kwargs):
    """Two arrays of one dtype whose shapes broadcast."""
    dtype = draw(st.sampled_from(dtypes))
    shapes = numpy_strategies.mutually_broadcastable_shapes(
        num_shapes=2, min_dims=0, max_dims=3, max_side=4
    )
    first, second = draw(shapes).input_shapes
    return draw(arrays(dtype, first, **kwargs)), draw(arrays(dtype, second, **kwargs))


@st.composite
def with_axis(draw, dtypes, min_side=0, **kwargs):
    """An array and one of its axes."""
    shape = draw(numpy_strategies.array_shapes(min_dims=1, max_dims=3, min_side=min_side))
    x = draw(arrays(dtypes, shape, **kwargs))
    return x, draw(st.integers(-x.ndim, x.ndim - 1))


@st.composite
def with_axes(draw, dtypes, min_side=0, **kwargs):
    """An array, and none, one or some of its axes, and keepdims."""
    shape = draw(numpy_strategies.array_shapes(min_dims=0, max_dims=3, min_side=min_side))
    x = draw(arrays(dtypes, shape, **kwargs))
    choices = [st.none()]
    if x.ndim:
        choices.append(st.integers(-x.ndim, x.ndim - 1))
        choices.append(st.lists(st.integers(0, x.ndim - 1), unique=True).map(tuple))
    return x, draw(st.one_of(choices)), draw(st.booleans())


def on(device, array):
    return bp.asarray(array, device=device, copy=True)


def assert_equal(found, expected):
    """Dtype, shape and values; NaN is NaN, and zeros have signs."""
    assert isinstance(found, bp.Tensor)
    expected = np.asarray(expected)
    array = found.numpy()
    assert array.dtype == expected.dtype and array.shape == expected.shape
    np.testing.assert_array_equal(array, expected)


def assert_close(found, expected, ulps=8, scale=1.0):
    """Values within so many units in the last place of themselves, or of scale near 0."""
    assert isinstance(found, bp.Tensor)
    expected = np.asarray(expected)
    array = found.numpy()
    assert array.dtype == expected.dtype, (array.dtype, expected.dtype)
    assert array.shape == expected.shape
    step = np.finfo(array.dtype).eps * ulps
    if array.dtype.kind == "c":
        # Parts are as good as the larger one.
        finite = np.isfinite(array) & np.isfinite(expected)
        np.testing.assert_array_equal(np.isnan(array), np.isnan(expected))
        np.testing.assert_array_equal(np.isinf(array), np.isinf(expected))
        error = np.abs(array[finite] - expected[finite])
        limit = step * np.maximum(np.abs(expected[finite]), scale)
        assert np.all(error <= limit), (array, expected)
        return
    np.testing.assert_allclose(array, expected, rtol=step, atol=step * scale)
