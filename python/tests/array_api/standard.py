# SPDX-License-Identifier: Apache-2.0
"""All names of the array API standard 2025.12, by its sections."""

CONSTANTS = ["e", "inf", "nan", "newaxis", "pi"]

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
]

CREATION = """arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones
    ones_like tril triu zeros zeros_like""".split()

DATA_TYPE_FUNCTIONS = "astype can_cast finfo iinfo isdtype result_type".split()

ELEMENTWISE = """abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
    bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh
    divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan
    less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor
    maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
    round sign signbit sin sinh square sqrt subtract tan tanh trunc""".split()

INDEXING = "take take_along_axis".split()
INSPECTION = ["__array_namespace_info__"]
LINEAR_ALGEBRA = "matmul matrix_transpose tensordot vecdot".split()

MANIPULATION = """broadcast_arrays broadcast_shapes broadcast_to concat expand_dims flip moveaxis
    permute_dims repeat reshape roll squeeze stack tile unstack""".split()

SEARCHING = "argmax argmin count_nonzero nonzero searchsorted where".split()
SET = "isin unique_all unique_counts unique_inverse unique_values".split()
SORTING = "argsort sort".split()
STATISTICAL = "cumulative_prod cumulative_sum max mean min prod std sum var".split()
UTILITY = "all any diff".split()

FUNCTIONS = [
    *CREATION,
    *DATA_TYPE_FUNCTIONS,
    *ELEMENTWISE,
    *INDEXING,
    *INSPECTION,
    *LINEAR_ALGEBRA,
    *MANIPULATION,
    *SEARCHING,
    *SET,
    *SORTING,
    *STATISTICAL,
    *UTILITY,
]

LINALG = """cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm
    matrix_power matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot
    trace vecdot vector_norm""".split()

FFT = """fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq
    rfftn""".split()

INFO = "capabilities default_device default_dtypes devices dtypes".split()

ATTRIBUTES = "dtype device mT ndim shape size T".split()

METHODS = """__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__
    __dlpack_device__ __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__
    __invert__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__
    __pow__ __rshift__ __setitem__ __sub__ __truediv__ __xor__ to_device""".split()
METHODS += [
    f"__{way}{name}__"
    for way in "ir"
    for name in """add and floordiv lshift matmul mod mul or pow rshift sub truediv xor""".split()
]

# Of what array-api-strict lacks: parameter names, '/' and '*' as in the standard.
SIGNATURES = {
    "linalg.eig": "(x, /)",
    "linalg.eigvals": "(x, /)",
    "broadcast_shapes": "(*shapes)",
    "__array_namespace_info__": "()",
}
