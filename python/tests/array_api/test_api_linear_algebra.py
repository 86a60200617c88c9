# SPDX-License-Identifier: Apache-2.0
"""Products, and the extensions linalg and fft, against NumPy."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backplane as bp
import backplane.array_api as xp
import support
from support import FLOATING, NUMERIC, arrays, assert_close, assert_equal, on

DEVICES = st.sampled_from(support.DEVICES)
SIZES = st.integers(0, 4)


def near(found, expected, scale=64.0):
    expected = np.asarray(expected)
    if expected.dtype.kind in "iu":
        assert_equal(found, expected)
    else:
        assert_close(found, expected, ulps=16, scale=scale)


@given(data=st.data())
def test_matmul(data):
    m, k, n = (data.draw(SIZES) for _ in range(3))
    left = data.draw(st.sampled_from([(k,), (m, k), (2, m, k), (3, 1, m, k)]))
    right = data.draw(st.sampled_from([(k,), (k, n), (2, k, n), (1, k, n)]))
    dtype = data.draw(st.sampled_from(NUMERIC))
    a, b = data.draw(arrays(dtype, left, -3, 3)), data.draw(arrays(dtype, right, -3, 3))
    device = data.draw(DEVICES)
    near(xp.matmul(on(device, a), on(device, b)), np.matmul(a, b))
    near(on(device, a) @ on(device, b), np.matmul(a, b))


@given(data=st.data())
def test_tensordot(data):
    sizes = [data.draw(st.integers(0, 3)) for _ in range(3)]
    dtype = data.draw(st.sampled_from(NUMERIC))
    a = data.draw(arrays(dtype, tuple(sizes), -3, 3))
    device = data.draw(DEVICES)
    for axes, shape in (
        (0, (2,)),
        (1, (sizes[2], 2)),
        (2, (sizes[1], sizes[2])),
        (([0, -1], [1, 0]), (sizes[2], sizes[0], 2)),
        (((), ()), (2,)),
    ):
        b = data.draw(arrays(dtype, shape, -3, 3))
        near(xp.tensordot(on(device, a), on(device, b), axes=axes), np.tensordot(a, b, axes))


@given(data=st.data())
def test_vecdot(data):
    k = data.draw(SIZES)
    dtype = data.draw(st.sampled_from(NUMERIC))
    a = data.draw(arrays(dtype, (2, 1, k), -3, 3))
    b = data.draw(arrays(dtype, (3, k), -3, 3))
    device = data.draw(DEVICES)
    near(xp.vecdot(on(device, a), on(device, b)), np.vecdot(a, b))
    # NumPy's axis is of each operand alone; counted from the end it is the standard's.
    near(
        xp.vecdot(on(device, a.mT), on(device, b.mT), axis=-2),
        np.vecdot(a.mT, b.mT, axis=-2),
    )


def test_products_refuse(device):
    x = xp.ones((2, 3), device=device)

    def stack(count):
        return xp.ones((count, 2, 2), device=device)

    cases = [
        (lambda: xp.matmul(x, xp.asarray(1.0, device=device)), "matmul: argument 'x2': expected"),
        (lambda: xp.matmul(x, x), "matmul"),
        (lambda: xp.tensordot(x, x, axes=1), "tensordot: argument 'axes': axis 1 of x1 has size 3"),
        (lambda: xp.tensordot(x, x, axes=3), "tensordot: argument 'axes': 3 for 2 and 2"),
        (lambda: xp.tensordot(x, x, axes=-1), "tensordot: argument 'axes': expected 0 or more"),
        (lambda: xp.tensordot(x, x, axes=((0,),)), "tensordot: argument 'axes': expected two"),
        (lambda: xp.vecdot(x[0, 0], x), "vecdot: argument 'x1': expected at least one dimension"),
        (lambda: xp.fft.fft(x[:, :0]), "fft.fft: argument 'x': axis 1 has no elements"),
        (lambda: xp.linalg.pinv(x, rtol=x[:, 0]), "linalg.pinv: argument 'rtol': expected one"),
        (lambda: xp.linalg.matrix_rank(x[None][[0, 0]], rtol=x[0]), "linalg.matrix_rank: argument"),
        (lambda: xp.vecdot(x, x, axis=0), "vecdot: argument 'axis': expected -2 to -1"),
        (lambda: xp.vecdot(x, x[:, :2]), "vecdot: argument 'axis': size 3 of x1, 2 of x2"),
        (lambda: xp.matrix_transpose(x[0]), "matrix_transpose: argument 'x': expected at least 2"),
        (lambda: xp.linalg.cross(x, x[:, :2]), "linalg.cross: argument 'x2': expected 3 elements"),
        (lambda: xp.linalg.outer(x, x[0]), "linalg.outer: argument 'x1': expected one dimension"),
        (lambda: xp.linalg.inv(x), "linalg.inv: argument 'x': expected square matrices"),
        (lambda: xp.linalg.inv(x[0]), "linalg.inv: argument 'x': expected at least 2"),
        (lambda: xp.linalg.inv(xp.zeros((2, 2), device=device)), "linalg.inv: Singular matrix"),
        (lambda: xp.linalg.qr(x, mode="r"), "linalg.qr: argument 'mode'"),
        (lambda: xp.linalg.matrix_norm(x, ord=3), "linalg.matrix_norm: argument 'ord'"),
        (lambda: xp.linalg.solve(x[:, :2], x.T), "linalg.solve: argument 'x2': the shape"),
        (lambda: xp.linalg.solve(stack(2), stack(3)), "linalg.solve: argument 'x2': .* broadcast"),
        (lambda: xp.fft.fft(x, n=0), "fft.fft: argument 'n': expected 1 or more"),
        (lambda: xp.fft.fft(x, norm="other"), "fft.fft: argument 'norm'"),
        (lambda: xp.fft.fftn(x, s=(1, 2)), "fft.fftn: argument 'axes': needed beside 's'"),
        (lambda: xp.fft.fftn(x, s=(1,), axes=(0, 1)), "fft.fftn: argument 's': expected 2 sizes"),
    ]
    for call, words in cases:
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="linalg.inv: argument 'x': expected a float32, float64 or"):
        xp.linalg.inv(xp.ones((2, 2), dtype=xp.int64, device=device))
    with pytest.raises(TypeError, match="fft.rfft: argument 'x': expected a float32 or float64"):
        xp.fft.rfft(xp.asarray([1j], device=device))


@given(data=st.data())
def test_linalg_on_the_device(data):
    dtype = data.draw(st.sampled_from(NUMERIC))
    shape = data.draw(st.sampled_from([(2, 3), (3, 3), (2, 3, 4), (0, 2), (1, 1)]))
    x = data.draw(arrays(dtype, shape, -3, 3))
    device = data.draw(DEVICES)
    tensor, offset = on(device, x), data.draw(st.integers(-3, 3))
    assert_equal(xp.linalg.diagonal(tensor, offset=offset), np.linalg.diagonal(x, offset=offset))
    wide = {"i": "int64", "u": "uint64"}.get(x.dtype.kind, x.dtype)
    near(xp.linalg.trace(tensor, offset=offset), np.linalg.trace(x, offset=offset, dtype=wide))
    a, b = data.draw(arrays(dtype, (2, 3), -3, 3)), data.draw(arrays(dtype, (3,), -3, 3))
    near(xp.linalg.cross(on(device, a), on(device, b)), np.linalg.cross(a, b))
    near(xp.linalg.outer(on(device, b), on(device, b)), np.linalg.outer(b, b))
    square = data.draw(arrays(dtype, (2, 2), -2, 2))
    for n in (0, 1, 2, 5):
        near(
            xp.linalg.matrix_power(on(device, square), n),
            np.linalg.matrix_power(square, n),
            scale=4096,
        )


@given(data=st.data())
def test_norms(data):
    dtype = data.draw(st.sampled_from(FLOATING))
    x = data.draw(arrays(dtype, (2, 3, 4), 0.5, 4))
    device = data.draw(DEVICES)
    keepdims = data.draw(st.booleans())
    for ord in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        found = xp.linalg.matrix_norm(on(device, x), ord=ord, keepdims=keepdims)
        near(found, np.linalg.matrix_norm(x, ord=ord, keepdims=keepdims))
    for ord in (0, 1, 2, 3, 0.5, -1, -2, math.inf, -math.inf):
        for axis in (0, (1, 2), None):
            found = xp.linalg.vector_norm(on(device, x), axis=axis, ord=ord, keepdims=keepdims)
            expected = np.linalg.vector_norm(x, axis=axis, ord=ord, keepdims=keepdims)
            near(found, expected.astype(found.numpy().dtype), scale=abs(expected).max() * 4)


def test_norms_of_nothing(device):
    for shape in ((0,), (0, 2), (2, 0)):
        x = xp.ones(shape, device=device)
        for ord in (0, 1, 2, 3, math.inf):
            assert xp.linalg.vector_norm(x, ord=ord).item() == 0
        if x.ndim == 2:
            for ord in ("fro", "nuc", 1, 2, math.inf):
                assert xp.linalg.matrix_norm(x, ord=ord).item() == 0


def matrices(data, shape=(2, 3, 3)):
    """Well-conditioned ones: a diagonal that outweighs the rest."""
    dtype = data.draw(st.sampled_from(FLOATING))
    x = data.draw(arrays(dtype, shape, -1, 1))
    return (x + 5 * np.eye(*shape[-2:])).astype(dtype)


@given(data=st.data())
def test_lapack(data):
    x, device = matrices(data), data.draw(DEVICES)
    tensor, linalg = on(device, x), xp.linalg
    near(linalg.inv(tensor), np.linalg.inv(x))
    near(linalg.det(tensor), np.linalg.det(x), scale=512)
    near(linalg.slogdet(tensor).sign, np.linalg.slogdet(x).sign)
    near(linalg.slogdet(tensor).logabsdet, np.linalg.slogdet(x).logabsdet)
    near(linalg.pinv(tensor), np.linalg.pinv(x))
    near(linalg.solve(tensor, tensor), np.linalg.solve(x, x))
    near(linalg.matrix_power(tensor, -2), np.linalg.matrix_power(x, -2))
    near(linalg.solve(tensor, tensor[0, :, 0]), np.linalg.solve(x, x[0, :, 0]))
    assert_equal(linalg.matrix_rank(tensor), np.linalg.matrix_rank(x))
    assert linalg.inv(tensor).device.name == device


@given(data=st.data())
def test_decompositions(data):
    """By what they are to make of their parts again."""
    x, device = matrices(data, (2, 4, 3)), data.draw(DEVICES)
    tensor, linalg = on(device, x), xp.linalg
    for full in (True, False):
        u, s, vh = linalg.svd(tensor, full_matrices=full)
        near((u[..., :3] * s[:, None, :].astype(u.dtype)) @ vh, x)
    near(linalg.svdvals(tensor), np.linalg.svdvals(x))
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(tensor, mode=mode)
        near(q @ r, x)
    hermitian = x[:, :3] + x[:, :3].conj().mT
    values, vectors = linalg.eigh(on(device, hermitian))
    scaled = vectors * values[:, None, :].astype(vectors.dtype)
    near(on(device, hermitian) @ vectors, scaled.numpy())
    near(linalg.eigvalsh(on(device, hermitian)), np.linalg.eigvalsh(hermitian))
    square = on(device, x[:, :3])
    values, vectors = linalg.eig(square)
    wide = square.astype(vectors.dtype)
    near(wide @ vectors, (vectors * values[:, None, :]).numpy())
    near(linalg.eigvals(square), np.linalg.eigvals(x[:, :3]).astype(values.numpy().dtype))
    positive = x[:, :3].conj().mT @ x[:, :3]
    lower = linalg.cholesky(on(device, positive))
    near(lower @ xp.conj(lower.mT), positive)
    upper = linalg.cholesky(on(device, positive), upper=True)
    near(xp.conj(upper.mT) @ upper, positive)


@given(data=st.data())
def test_fft(data):
    x = data.draw(arrays(FLOATING, (3, 4, 5), -2, 2))
    device = data.draw(DEVICES)
    tensor = on(device, x)
    axis = data.draw(st.integers(-3, 2))
    n = data.draw(st.none() | st.integers(2, 6))
    norm = data.draw(st.sampled_from(["backward", "ortho", "forward"]))
    axes = data.draw(st.none() | st.just((0, 2)))
    s = None if axes is None else data.draw(st.sampled_from([None, (2, 6)]))
    real = ["rfft", "ihfft"] if x.dtype.kind == "f" else ["irfft", "hfft"]
    for name in ["fft", "ifft", *real]:
        found = getattr(xp.fft, name)(tensor, n=n, axis=axis, norm=norm)
        near(found, getattr(np.fft, name)(x, n=n, axis=axis, norm=norm))
    with np.errstate(all="ignore"):
        for name in ["fftn", "ifftn", "rfftn" if x.dtype.kind == "f" else "irfftn"]:
            found = getattr(xp.fft, name)(tensor, s=s, axes=axes, norm=norm)
            places = tuple(range(3)) if axes is None else axes
            near(found, getattr(np.fft, name)(x, s=s, axes=places, norm=norm))
    assert_equal(xp.fft.fftshift(tensor, axes=axes), np.fft.fftshift(x, axes))
    assert_equal(xp.fft.ifftshift(tensor, axes=axis), np.fft.ifftshift(x, axis))


def close_to_wide(found, expected):
    """Within a few units in the last place of the largest number."""
    array = found.numpy()
    unit = np.finfo(array.dtype).eps * np.abs(expected).max()
    assert array.shape == expected.shape and np.abs(array - expected).max() <= 8 * unit


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_fft_of_many_lengths(device, dtype):
    """Against longer floats: one matrix, several factors, the largest prime, and the first that is
    too large and goes to the host."""
    where = bp.device(device)
    random = np.random.default_rng(7)
    for n in (1, 2, 3, 4, 7, 12, 16, 17, 18, 61, 67, 122, 210, 1024):
        x = random.standard_normal((2, n)) + 1j * random.standard_normal((2, n))
        x = x.astype(dtype)
        z, wide = on(device, x), x.astype("clongdouble")
        before = where.counters
        found = [xp.fft.fft(z), xp.fft.ifft(z), xp.fft.irfft(z, n=n), xp.fft.hfft(z, n=n)]
        found += [xp.fft.rfft(xp.real(z)), xp.fft.ihfft(xp.real(z))]
        where.sync()
        reads = 6 if n == 67 and device != "cpu:0" else 0
        assert where.counters["copy_out_count"] - before["copy_out_count"] == reads
        assert where.counters["fallback_count"] == before["fallback_count"]
        expected = [np.fft.fft(wide), np.fft.ifft(wide), np.fft.irfft(wide, n=n)]
        expected += [np.fft.hfft(wide, n=n), np.fft.rfft(wide.real), np.fft.ihfft(wide.real)]
        for one, other in zip(found, expected):
            close_to_wide(one, other)


def test_fft_shapes_of_every_kind(device):
    """Several axes, lengths that cut and fill up, views, and no rows."""
    x = np.random.default_rng(8).standard_normal((4, 6, 5)).astype("float32")
    tensor = on(device, x)
    for axes, s in (((0, 1, 2), None), ((2, 0), (18, 3)), ((1,), (1,)), ((), None)):
        options = {"axes": axes, "s": s}
        close_to_wide(xp.fft.fftn(tensor, **options), np.fft.fftn(x.astype("f8"), **options))
    for axes, s in (((0, 1, 2), None), ((2, 0), (32, 3)), ((0, 2), (2, 1))):
        options = {"axes": axes, "s": s}
        close_to_wide(xp.fft.rfftn(tensor, **options), np.fft.rfftn(x.astype("f8"), **options))
        close_to_wide(xp.fft.irfftn(tensor, **options), np.fft.irfftn(x.astype("f8"), **options))
    close_to_wide(xp.fft.fft(xp.flip(tensor).mT, n=20), np.fft.fft(np.flip(x).mT, n=20))
    assert xp.fft.fft(xp.ones((0, 32), device=device)).shape == (0, 32)
    assert xp.fft.irfft(xp.ones((3, 0, 4), device=device)).shape == (3, 0, 6)
    with pytest.raises(ValueError, match="fft.irfft"):
        xp.fft.irfft(xp.ones((3, 1), device=device))


@pytest.mark.filterwarnings("error")
def test_what_is_beyond_floats_is_an_answer_without_a_warning(device):
    x = xp.eye(2, device=device) * 1e30
    assert xp.linalg.det(x).item() == np.inf
    found = xp.fft.fft(xp.asarray([3e38, 3e38], device=device))
    assert found.tolist()[0].real == np.inf


@given(device=DEVICES, n=st.integers(1, 9), d=st.floats(0.1, 4))
def test_frequencies(device, n, d):
    for name in ("fftfreq", "rfftfreq"):
        for dtype in ("float32", "float64"):
            found = getattr(xp.fft, name)(n, d=d, dtype=getattr(xp, dtype), device=device)
            near(found, getattr(np.fft, name)(n, d).astype(dtype))
        assert getattr(xp.fft, name)(n, device=device).dtype is xp.float32


def test_precision_is_kept(device):
    """float32 stays float32, and its values are those of single precision."""
    x = np.asarray([[2.0, 1.0], [1.0, 3.0]], dtype="float32")
    tensor = on(device, x)
    assert_equal(xp.linalg.inv(tensor), np.linalg.inv(x))
    assert_equal(xp.fft.fft(tensor), np.fft.fft(x))
    assert xp.linalg.eigh(tensor).eigenvalues.dtype is xp.float32


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None  # import fails
import backplane as bp, backplane.array_api as xp
for device in ("cpu:0", "npu:0"):
    x = xp.asarray([[2.0, 1.0], [1.0, 3.0]], device=device)
    z = xp.astype(x, xp.complex64)
    assert xp.sum(xp.exp(x) @ x).shape == () and xp.unique_values(x).tolist() == [1, 2, 3]
    assert xp.matmul(z, z).tolist() == [[5, 5], [5, 10]] and xp.eye(2, device=device)[0, 0] == 1
    assert abs(xp.linalg.vector_norm(x).item() - 15**0.5) < 1e-6
    assert xp.sort(x).tolist() == [[1, 2], [1, 3]] and x.__array_namespace__() is xp
    long = xp.ones(67, device=device)
    calls = [(xp.linalg.inv, x), (xp.linalg.svd, x), (xp.fft.fft, long)]
    if device == "cpu:0":
        calls.append((xp.fft.fft, x))
    else:
        assert xp.fft.fft(x).tolist() == [[3, 1], [4, -2]]
    for call, argument in calls:
        try:
            call(argument)
        except bp.UnsupportedError as error:
            assert "it is not installed" in str(error) and call.__name__ in str(error), error
        else:
            raise AssertionError(call)
print("ok")
"""


def test_without_numpy():
    done = subprocess.run(
        [sys.executable, "-B", "-c", WITHOUT_NUMPY], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stdout == "ok\n", done.stderr
