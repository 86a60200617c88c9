# SPDX-License-Identifier: Apache-2.0
"""A call of every function of the standard that answers a tensor, in the words of the standard
alone: of any namespace, any device, and in a process without NumPy."""

OF_ONE = """abs ceil conj cos cosh exp expm1 floor isfinite isinf isnan log log10 log1p log2
    negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc asinh
    atan acosh tril triu flip unstack argmax argmin count_nonzero nonzero unique_all unique_counts
    unique_inverse unique_values sort argsort sum prod max min mean var std all any diff
    matrix_transpose linalg.matrix_transpose linalg.diagonal linalg.trace linalg.vector_norm
    linalg.matrix_norm linalg.matrix_rank linalg.pinv linalg.qr linalg.svd linalg.svdvals fft.fft
    fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifftn fft.ifftshift fft.ihfft fft.irfft fft.irfftn
    fft.rfft fft.rfftn empty_like ones_like zeros_like imag bitwise_invert logical_not""".split()
OF_SQUARE = """linalg.cholesky linalg.det linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh
    linalg.inv linalg.slogdet""".split()
OF_UNIT = "acos asin atanh".split()
OF_TWO = """add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal
    logaddexp maximum minimum multiply nextafter not_equal pow remainder subtract isin tensordot
    vecdot linalg.tensordot linalg.vecdot broadcast_arrays bitwise_and bitwise_or bitwise_xor
    bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor""".split()

# They answer no tensor.
WITHOUT_TENSORS = {"__array_namespace_info__", "broadcast_shapes", "can_cast", "finfo", "iinfo"}
WITHOUT_TENSORS |= {"isdtype", "result_type"}


def facts(xp):
    """What functions answer that is no tensor: values that are equal in every namespace."""
    f32, f64 = xp.finfo(xp.float32), xp.finfo(xp.complex128)
    return {
        "__array_namespace_info__": sorted(xp.__array_namespace_info__().dtypes(kind="integral")),
        "broadcast_shapes": list(xp.broadcast_shapes((3, 1), (2, 1, 4))),
        "can_cast": [xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.float64, xp.float32)],
        "finfo": [[float(x.eps), float(x.max), x.bits] for x in (f32, f64)],
        "iinfo": [[x.min, x.max, x.bits] for x in (xp.iinfo(xp.int8), xp.iinfo(xp.uint64))],
        "isdtype": [xp.isdtype(xp.int8, "integral"), xp.isdtype(xp.int8, ("bool", xp.float32))],
        "result_type": xp.result_type(xp.int8, xp.uint8) == xp.int16,
    }


class Calls:
    """`calls`: name -> a call of that function, of tensors of one dtype on one device."""

    def __init__(self, xp, device=None, dtype="float32", shape=(3, 4)):
        self._xp = xp
        rows, columns = shape
        numbers = xp.reshape(xp.arange(rows * columns, device=device), shape)
        self._numbers = xp.astype(numbers % 5 + 1, xp.float32)
        x = self.of_dtype(self._numbers, dtype)
        whole = xp.astype(self._numbers, xp.int32)
        row, three, square = x[0, ...], x[:, :3], x[: min(shape), : min(shape)]
        places = xp.astype(xp.arange(rows, device=device) * 7 % rows, xp.int64)
        flat = xp.reshape(x, (-1,))
        made = {"dtype": x.dtype, "device": device}
        self.calls = {
            "arange": lambda: xp.arange(5, **made),
            "asarray": lambda: xp.asarray(x, copy=True),
            "astype": lambda: xp.astype(x, xp.complex64),
            "broadcast_to": lambda: xp.broadcast_to(x, (2, *shape)),
            "clip": lambda: xp.clip(x, 2, 3),
            "concat": lambda: xp.concat([x, x]),
            "cumulative_prod": lambda: xp.cumulative_prod(x, axis=0),
            "cumulative_sum": lambda: xp.cumulative_sum(x, axis=0),
            "empty": lambda: xp.empty(3, **made),
            "expand_dims": lambda: xp.expand_dims(x, 0),
            "eye": lambda: xp.eye(3, **made),
            "from_dlpack": lambda: xp.from_dlpack(x, copy=True),
            "full": lambda: xp.full(3, True if dtype == "bool" else 2, **made),
            "full_like": lambda: xp.full_like(x, True if dtype == "bool" else 2),
            "linspace": lambda: xp.linspace(0, 1, 5, **made),
            "matmul": lambda: xp.matmul(x, x.T),
            "meshgrid": lambda: xp.meshgrid(row, row),
            "moveaxis": lambda: xp.moveaxis(x, 0, 1),
            "ones": lambda: xp.ones(3, **made),
            "permute_dims": lambda: xp.permute_dims(x, (1, 0)),
            "repeat": lambda: xp.repeat(flat, xp.reshape(whole, (-1,))),
            "reshape": lambda: xp.reshape(x.T, (-1,)),
            "roll": lambda: xp.roll(x, 1),
            "searchsorted": lambda: xp.searchsorted(xp.sort(row), x),
            "squeeze": lambda: xp.squeeze(x[None, ...], 0),
            "stack": lambda: xp.stack([x, x]),
            "take": lambda: xp.take(x, places, axis=0),
            "take_along_axis": lambda: xp.take_along_axis(x, places[:, None], axis=1),
            "tile": lambda: xp.tile(x, (2, 2)),
            "where": lambda: xp.where(self._numbers > 2, x, x),
            "zeros": lambda: xp.zeros(3, **made),
            "linalg.cross": lambda: xp.linalg.cross(three, three),
            "linalg.matmul": lambda: xp.linalg.matmul(x, x.T),
            "linalg.matrix_power": lambda: xp.linalg.matrix_power(square, 3),
            "linalg.outer": lambda: xp.linalg.outer(row, row),
            "fft.fftfreq": lambda: xp.fft.fftfreq(5, device=device),
            "fft.rfftfreq": lambda: xp.fft.rfftfreq(5, device=device),
        }
        self._add(OF_ONE, x)
        self._add(OF_TWO, x, x)
        self._add(["vecdot", "linalg.vecdot"], row, row)
        size = min(shape)
        positive = xp.eye(size, **made)
        if dtype != "bool":
            positive = positive * 9 + xp.ones((size, size), **made)
        self._add(OF_SQUARE, positive)
        self._add(["linalg.solve"], positive, positive)
        self._add(OF_UNIT, self.of_dtype(self._numbers / 8, dtype))

    def of_dtype(self, numbers, dtype):
        """Whole numbers stay what they are; of a complex number both parts are alike."""
        xp = self._xp
        if dtype == "bool":
            return numbers > 2
        x = xp.astype(numbers, getattr(xp, dtype))
        return x * (1 + 1j) if dtype.startswith("complex") else x

    def _add(self, names, *operands):
        for name in names:
            space, _, function = name.rpartition(".")
            call = getattr(getattr(self._xp, space) if space else self._xp, function, None)
            self.calls[name] = lambda call=call: call(*operands)
